"""Places where libraries keep what they compile, for an installation and a home that cannot be written.

Numba keeps compiled kernels beside the sources or in the user's cache folder and gives up where it can write
to neither; CuPy and matplotlib use the home.  In a container, or as another user, all of these may be read-only.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import MutableMapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Protocol, TypeAlias

from qsim.core.device.compilers.sound import alone_in, keep_with_sums, not_kept

__all__ = [
    "NOTICES",
    "WATCHES",
    "Watch",
    "ensure_kernel_cache",
    "import_later",
    "keep_kernels_in",
    "recompile_what_changed",
    "taken_elsewhere",
]

Numba: TypeAlias = Any  # numba has no types that a checker could read

# Notices for the user of a run.
NOTICES: list[str] = []

# Folder of qsim.
PACKAGE = Path(__file__).resolve().parents[3]

# Folder with functions that are compiled into the kernels of all methods.
DEVICE = PACKAGE / "core" / "device"

CACHING = "numba.core.caching"

# Bytes that compiled kernels may take.
ROOM = 32 * 2**20


class Watch(Protocol):
    """Hears of kernels of the package that the cache lacks."""

    def missing(self, function: FunctionType, signature: object) -> bool:
        """Return whether the kernel is there after all, since another process has brought it."""

    def elsewhere(self, function: FunctionType, signature: object) -> bool:
        """Return whether another process is compiling the kernel."""

    def kept(self, function: FunctionType, signature: object) -> None:
        """Hear that a kernel was compiled and is there now."""


# Who watches, one at most.
WATCHES: list[Watch] = []


def taken_elsewhere(function: FunctionType, signature: object) -> bool:
    """Return whether another process is compiling a kernel for this one."""
    return any(watch.elsewhere(function, signature) for watch in WATCHES)


def ensure_kernel_cache(environ: MutableMapping[str, str] = os.environ, package: Path | None = None) -> None:
    """Give libraries a temporary folder for what they compile if they have no other; must come before numba.

    Parameters
    ----------
    environ
        Environment to look at and to change.
    package
        Folder with the sources, this package by default.
    """
    if not hasattr(os, "getuid"):  # Windows: profiles can be written
        return
    lacking = _lacking(environ, package or PACKAGE)
    folder = _private_folder(environ) if lacking else None
    if folder is None:
        return
    chosen = environ.get("NUMBA_CACHE_DIR")
    # Set in the environment, where child processes and libraries that are loaded later find it.
    environ.update({name: str(folder / below) for name, below in lacking.items()})
    if "NUMBA_CACHE_DIR" in lacking:
        without = (
            f"NUMBA_CACHE_DIR={chosen} cannot be written"
            if chosen
            else "neither the installation nor the home folder has room to write"
        )
        NOTICES[:] = [f"{without}; compiled kernels are kept in {folder}"]
        if "numba" in sys.modules:  # it has read its settings already
            sys.modules["numba"].config.CACHE_DIR = environ["NUMBA_CACHE_DIR"]


def recompile_what_changed(package: Path | None = None) -> None:
    """Let numba compile a kernel again if another kernel of its method has changed, or a file of `qsim.core.device`.

    Numba looks at the file of a kernel alone.  After an update of a checkout it would run old code of helpers that are compiled
    into the kernel, with arrays of another shape in the worst case.

    Parameters
    ----------
    package
        Folder whose kernels are meant, this package by default.
    """
    folder = package or PACKAGE
    if CACHING in sys.modules:
        _change(sys.modules[CACHING], folder)
    else:
        sys.meta_path.insert(0, _OnceCachingIsImported(folder))


class _Later(MetaPathFinder):
    """Finds a module that is loaded when something of it is used, not when it is imported.

    SciPy imports all that NumPy has, its tests and its compiler of Fortran among them: a tenth of a second.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module with a loader that waits, None for all others."""
        if fullname != self.name:
            return None
        spec = _found_without(self, fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


def import_later(names: Sequence[str] = ("numpy.testing", "numpy.f2py")) -> None:
    """Load modules that libraries import, and that no run uses, at their first use."""
    for name in names:
        if name not in sys.modules:
            sys.meta_path.insert(0, _Later(name))


class _OnceCachingIsImported(MetaPathFinder):
    """Changes numba's module of caches after its import, so that nobody waits for numba who does not need it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, fullname: str, path: object, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module of caches with a loader that changes it, None for all others."""
        if fullname != CACHING:
            return None
        spec = _found_without(self, fullname)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            plain = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                _change(module, self.folder)

            # The module is changed right after it has run, before anyone can use it.
            loader.exec_module = exec_module
        return spec


def _found_without(finder: MetaPathFinder, name: str) -> ModuleSpec | None:
    """Return a module as the import would have found it without a finder, which has done its work."""
    sys.meta_path.remove(finder)
    return importlib.util.find_spec(name)


def _change(caching: ModuleType, folder: Path) -> None:
    """Change numba's module of caches for the kernels of a folder."""
    _stamp_folders(caching, folder)
    keep_with_sums(caching, folder)
    _load_quickly(caching, folder)
    _save_in_turn(caching, folder)


def _load_quickly(caching: ModuleType, folder: Path) -> None:
    """Let compiled kernels of a folder be loaded without what numba needs to compile some.

    Before it looks into the cache, numba loads the implementations of all that Python and NumPy can do: a third of the
    processor time of a command whose kernels are all compiled.  Its compiler does that by itself, should one be missing.
    """
    cache: Any = getattr(caching, "Cache", None)
    plain = getattr(cache, "load_overload", None)
    if plain is None or not hasattr(cache, "_load_overload"):  # another numba than those known
        return

    def load_overload(self: Numba, signature: object, target: object) -> object:
        if not Path(self._py_func.__code__.co_filename).is_relative_to(folder):
            return plain(self, signature, target)
        from numba.core.runtime import rtsys

        # Memory of arrays that kernels make; all else that machine code calls is there with the target.
        rtsys.initialize(target)
        # The guard ends the block at errors of the file system: None comes back, and the kernel is compiled.
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(signature, target)
            if found is None and any(watch.missing(self._py_func, signature) for watch in WATCHES):
                found = self._load_overload(signature, target)
            return found

    cache.load_overload = load_overload


def _save_in_turn(caching: ModuleType, folder: Path) -> None:
    """Let processes write the index of a kernel one after the other.

    It is read, changed and written.  Two processes that do so at the same time for other types of arguments would lose one of
    the two kernels, and could leave the code of one under the name of the other.
    """
    cache: Any = getattr(caching, "Cache", None)
    plain = getattr(cache, "save_overload", None)
    if plain is None:  # another numba than those known
        return

    def save_overload(self: Numba, signature: object, data: object) -> object:
        if not Path(self._py_func.__code__.co_filename).is_relative_to(folder):
            return plain(self, signature, data)
        place, saved = Path(self.cache_path), None
        # A full disk costs the next run its compilation, and this one nothing.
        try:
            with alone_in(place):
                saved = plain(self, signature, data)
        except OSError as error:
            not_kept(place, error)
            return None
        for watch in WATCHES:
            watch.kept(self._py_func, signature)
        return saved

    cache.save_overload = save_overload


def _stamp_folders(caching: ModuleType, folder: Path) -> None:
    """Let the stamp of a source in a folder hold the sources of all kernels beside it, and of `DEVICE`."""
    mixin: Any = getattr(caching, "_SourceFileBackedLocatorMixin", None)
    plain = getattr(mixin, "get_source_stamp", None)
    if plain is None:  # another numba than those known
        return

    def get_source_stamp(self: Any) -> object:
        # The stamp of numba (time and size of the file), and a hash of all that may be compiled in.
        stamp, place = plain(self), Path(getattr(self, "_py_file", ""))
        return (stamp, _sources(place.parent)) if place.is_relative_to(folder) else stamp

    mixin.get_source_stamp = get_source_stamp


@functools.cache
def _sources(folder: Path) -> str:
    """Return a hash of the sources that kernels of a folder may be compiled from."""
    digest = hashlib.sha256()
    for place in dict.fromkeys((_room_of_kernels(folder), DEVICE)):
        for source in sorted(place.rglob("*.py")):
            digest.update(source.relative_to(place).as_posix().encode() + source.read_bytes())
    return digest.hexdigest()


def _room_of_kernels(folder: Path) -> Path:
    """Return the folder ``kernels`` that holds a folder with a subject of its own, else the folder itself."""
    return next((place for place in folder.parents if place.name == "kernels"), folder)


def keep_kernels_in(folder: Path, environ: MutableMapping[str, str] = os.environ) -> None:
    """Let everything that is compiled from now on be kept in a folder; must come before kernels are imported.

    Raises
    ------
    FileError
        If the folder cannot be written.
    """
    from qsim.core.errors import FileError

    places = {"NUMBA_CACHE_DIR": folder / "numba", "CUPY_CACHE_DIR": folder / "cupy"}
    for name, place in places.items():
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"the folder {place} cannot be made: {error.strerror}") from error
        environ[name] = str(place)
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = environ["NUMBA_CACHE_DIR"]


def _lacking(environ: MutableMapping[str, str], package: Path) -> dict[str, str]:
    """Return the variables that must be set, each with the name of a folder."""
    home = _home(environ)
    caches = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    chosen = environ.get("NUMBA_CACHE_DIR")
    lacking = {}
    # numba takes the first of these that it can write to, and fails if that is full
    # Each with whether it can be written to.
    places = [(package, _all_writable(package)), (caches / "numba", _can_make(caches / "numba"))]
    if chosen:
        places.insert(0, (Path(chosen), _can_make(Path(chosen))))
    place = next((folder for folder, writable in places if writable), None)
    if place is None or not _has_room(place):
        lacking["NUMBA_CACHE_DIR"] = "numba"
    if "CUPY_CACHE_DIR" not in environ and not _can_make(home / ".cupy" / "kernel_cache"):
        lacking["CUPY_CACHE_DIR"] = "cupy"
    # matplotlib writes a font cache into the one and reads its settings from the other.
    own = (caches / "matplotlib", settings / "matplotlib")
    if "MPLCONFIGDIR" not in environ and not all(_can_make(folder) for folder in own):
        lacking["MPLCONFIGDIR"] = "matplotlib"
    return lacking


def _home(environ: MutableMapping[str, str]) -> Path:
    if home := environ.get("HOME"):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def _can_make(folder: Path) -> bool:
    """Return True if files can be written into a folder, which need not exist yet."""
    # The nearest folder that exists decides.
    for place in (folder, *folder.parents):
        try:
            there = stat.S_ISDIR(place.stat().st_mode)
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            return False
        return there and os.access(place, os.W_OK | os.X_OK)
    return False


def _has_room(folder: Path) -> bool:
    """Return True if the file system of a folder, which need not exist yet, has `ROOM`."""
    for place in (folder, *folder.parents):
        try:
            system = os.statvfs(place)
        except FileNotFoundError:
            continue
        except OSError:
            return True  # not known
        return system.f_bavail * system.f_frsize >= ROOM
    return True


def _all_writable(package: Path) -> bool:
    """Return True if numba can write next to every source."""
    try:
        folders = [entry for entry in package.iterdir() if entry.is_dir() and not entry.name.startswith("_")]
    except OSError:
        return False
    return all(_can_make(folder / "__pycache__") for folder in folders)


def _private_folder(environ: MutableMapping[str, str]) -> Path | None:
    """Return a folder that this user alone can write; what is kept there is executed."""
    base = Path(environ.get("TMPDIR") or "/tmp")
    folder = base / f"qsim-kernels-{os.getuid()}"
    # A fixed name first, so that the next run finds what this one compiled.
    try:
        # lexists: a link that another user has put there must not be followed.
        if not os.path.lexists(folder):
            folder.mkdir(mode=0o700)
            folder.chmod(0o700)  # whatever the umask
        # Not through a link, of this user, and closed to others: compiled code of another user would run as
        # ours.
        status = folder.lstat()
        own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
        if own and os.access(folder, os.W_OK | os.X_OK):
            return folder
    except OSError:
        pass
    import tempfile

    try:
        return Path(tempfile.mkdtemp(prefix="qsim-kernels-"))
    except OSError:
        return None

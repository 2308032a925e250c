"""Files of numba's cache with checksums: what is damaged is set aside, told, and compiled anew.

Numba unpickles what it finds: a file that a crash of a node left empty, or that a disk has changed, ends every run that needs it,
and one bit in machine code may give other numbers.  Kernels of this package are kept with a checksum behind what numba reads::

    pickle of numba | CRC-32 (4 bytes, little-endian) | MAGIC
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import pickle
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["SAVING", "alone_in", "damage_told", "keep_with_sums", "not_kept"]

MAGIC = b"QSIMKERN"
FOOT = 4 + len(MAGIC)
# Added to the name of a file that is set aside.
ASIDE = ".damaged"

# Held while this process writes into the cache of kernels.
SAVING = threading.RLock()
# Folders that the thread which holds `SAVING` has locked.
_locked: set[Path] = set()

# Files that were set aside, and reasons why kernels could not be kept, until they are told.
_damaged: list[Path] = []
_not_kept: dict[str, None] = {}

Key: TypeAlias = Any  # numba has no types that a checker could read


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other thread, and where folders can be locked no other process, is in the block for the same folder."""
    with SAVING:
        if folder in _locked:
            yield
            return
        lock = None
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(folder, os.O_RDONLY)
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
        _locked.add(folder)
        try:
            yield
        finally:
            _locked.discard(folder)
            if lock is not None:
                os.close(lock)


def not_kept(folder: Path, error: OSError) -> None:
    """Note that a kernel could not be kept, which costs the next run its compilation and this one nothing."""
    _not_kept[f"compiled kernels cannot be kept in {folder}: {error.strerror or error}"] = None


def damage_told() -> list[str]:
    """Return what was damaged or could not be kept since this was asked before."""
    told = [*_not_kept]
    if _damaged:
        first, more = _damaged[0], len(_damaged) - 1
        others = f" and {more} more files of the cache of compiled kernels" if more else ""
        were = "were damaged: they were set" if more else "was damaged: it was set"
        told.append(f"{first}{others} {were} aside ({ASIDE}); what is missing is compiled again")
    _damaged.clear()
    _not_kept.clear()
    return told


def keep_with_sums(caching: ModuleType, folder: Path) -> None:
    """Let numba keep compiled functions whose sources are in a folder with checksums."""
    cache: Any = getattr(caching, "Cache", None)
    plain: Any = getattr(caching, "IndexDataCacheFile", None)
    if cache is None or plain is None:  # another numba than those known
        return
    summed = _summed(plain)
    plain_init = cache.__init__

    def __init__(self: Any, py_func: Any) -> None:
        plain_init(self, py_func)
        if Path(py_func.__code__.co_filename).is_relative_to(folder):
            self._cache_file.__class__ = summed

    cache.__init__ = __init__


def _summed(plain: Any) -> type:
    """Return the class of numba's files of a function, with checksums."""

    class Summed(plain):  # type: ignore[misc]
        def save(self, key: Key, data: object) -> None:
            """Save a function: its code first, since the index must never name the code of another one."""
            overloads = self._load_index()
            taken = set(overloads.values())
            name = overloads.get(key) or next(
                name for name in map(self._data_name, itertools.count(1)) if name not in taken
            )
            self._save_data(name, data)
            self._save_index({**overloads, key: name})

        def load(self, key: Key) -> object:
            """Return a function, None if it is not there or damaged."""
            name = self._load_index().get(key)
            content = None if name is None else _content(Path(self._data_path(name)))
            return None if content is None else pickle.loads(content)

        def _load_index(self) -> dict[Key, str]:
            content = _content(Path(self._index_path))
            if content is None:
                return {}
            stream = io.BytesIO(content)
            # Versions first: what follows may be of another one.
            if pickle.load(stream) != self._version:
                return {}
            stamp, overloads = pickle.load(stream)
            return dict(overloads) if stamp == self._source_stamp else {}

        @contextlib.contextmanager
        def _open_for_write(self, filepath: str) -> Iterator[BinaryIO]:
            content = io.BytesIO()
            yield content
            body = content.getvalue()
            with super()._open_for_write(filepath) as file:
                file.write(body + zlib.crc32(body).to_bytes(4, "little") + MAGIC)

    return Summed


def _content(path: Path) -> bytes | None:
    """Return a pickle of the cache; None if it is not there, of numba alone, or damaged: then it is set aside."""
    content = _read(path)
    body = _body(content)
    if body is None and not _is_of_numba(content):
        _set_aside(path)
    return body


def _read(path: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return None


def _body(content: bytes | None) -> bytes | None:
    """Return what stands before a right checksum."""
    if content is None or content[-len(MAGIC) :] != MAGIC:
        return None
    body = content[:-FOOT]
    return body if zlib.crc32(body) == int.from_bytes(content[-FOOT : -len(MAGIC)], "little") else None


def _is_of_numba(content: bytes | None) -> bool:
    """Return whether a file is missing, or a pickle without a sum, as older versions of qsim kept it: it is written anew."""
    return content is None or (content[:1] == b"\x80" and content[-1:] == b".")


def _set_aside(path: Path) -> None:
    """Rename a damaged file, unless another process has done so, and written it anew, in the meantime."""
    with alone_in(path.parent):
        content = _read(path)
        if _body(content) is None and not _is_of_numba(content):
            _damaged.append(path)
            # A cache that others own stays as it is.
            with contextlib.suppress(OSError):
                path.replace(path.with_name(path.name + ASIDE))

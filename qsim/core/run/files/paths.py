"""The files of a run: where they go, and the refusals that come before any work.

A run named ``<stem>`` leaves ``<stem>.h5``, ``<stem>.summary.json`` and ``<stem>.<figure>.png`` (``.pdf``,
``.svg``), and what else its method writes; while it runs, ``<stem>.ckpt.h5`` holds its checkpoint and
``<stem>.lock`` keeps other runs away.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from qsim.core.errors import FileError
from qsim.core.results.atomic import refuse_controls, temporary_name
from qsim.core.results.plotting import FORMATS
from qsim.core.text import shell_path

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck

__all__ = [
    "RunFiles",
    "figure_paths",
    "paths_in",
    "refuse_existing",
    "refuse_inputs",
    "refuse_unusable",
    "remove",
    "require_folder",
    "same_file",
]

SUFFIXES = (".h5", ".hdf5")
# Endings of what a run may leave beside results, summary and checkpoint.
WRITTEN = (".png", ".pdf", ".svg", ".dat", ".h5")


@dataclass(frozen=True)
class RunFiles:
    """Paths of everything a run writes.

    Attributes
    ----------
    results, summary, checkpoint
        The three files.
    stem
        What figure names are appended to.
    formats
        Formats of the figures.
    """

    results: Path
    summary: Path
    checkpoint: Path
    stem: Path
    formats: Sequence[str] = ("png",)

    @classmethod
    def of(cls, loaded: LoadedDeck[Any], output: Path | None, formats: Sequence[str] = ("png",)) -> RunFiles:
        """Choose the paths: `output` (the ``-o`` option), else the deck's ``output.file``, else its name.

        Relative paths start at the current folder.  A name without ``.h5`` gets it; an existing folder is
        filled with files named after the deck.

        Raises
        ------
        FileError
            If the system does not take the name.
        """
        path = output or Path(loaded.deck.output.file or f"{loaded.name}.h5")
        try:
            path = path.expanduser()
            if path.is_dir():
                path = path / f"{loaded.name}.h5"
            # A pipe or a device cannot be replaced by a file that is written under another name first.
            unfit = path.exists() and not path.is_file()
        except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL, or the home of nobody
            raise FileError(
                f"the output {_shortened(path)} cannot be used: {getattr(error, 'strerror', None) or error}",
                hint="choose another one with -o FILE",
            ) from error
        refuse_controls(path)
        if unfit:
            raise FileError(
                f"the output {path} exists and is no plain file", hint="choose another one with -o FILE"
            )
        if not path.name or path.name == "..":
            raise FileError(f"the output {path} is no name of a file", hint="choose another one with -o FILE")
        # `run.1` is a name, not a name with an ending: .h5 is appended, nothing replaced.
        if path.suffix not in SUFFIXES:
            path = path.with_name(f"{path.name}.h5")
        # All other files of the run are named after the results.
        stem = path.with_suffix("")
        return cls(path, _add(stem, "summary.json"), _add(stem, "ckpt.h5"), stem, tuple(formats))

    def all_paths(self, figures: Iterable[str], extra: Iterable[Path] = ()) -> list[Path]:
        """Return everything that the run may write; figures by their names, and what its method adds."""
        drawn = [path for name in figures for path in figure_paths(self.stem, name, self.formats)]
        return [self.results, self.summary, *drawn, *extra]

    def require_new(self, figures: Iterable[str], extra: Iterable[Path] = ()) -> None:
        """Refuse to start over anything that exists, links to nothing included.

        Raises
        ------
        FileError
            Naming what exists: results, summary or figures of an earlier run, or its checkpoint.
        """
        # lexists: a link that leads nowhere would be written through.
        results, checkpoint = os.path.lexists(self.results), os.path.lexists(self.checkpoint)
        if checkpoint and results:
            raise FileError(
                f"{self.results} exists already, and {self.checkpoint} to continue from",
                hint="--resume continues that run, --force starts it anew, -o FILE writes elsewhere",
            )
        if checkpoint:
            raise FileError(
                f"{self.checkpoint} is the checkpoint of an unfinished run",
                hint="--resume continues that run, --force starts it anew, -o FILE writes elsewhere",
            )
        refuse_existing(self.all_paths(figures, extra), "-o FILE writes elsewhere")

    def of_earlier_run(self, figures: Iterable[str], extra: Iterable[Path] = ()) -> list[Path]:
        """Return the existing figures and additional files of an earlier run of this name.

        Parameters
        ----------
        figures
            Names of all figures of the method.
        extra
            What the method may add.

        Returns
        -------
        list of Path
            Regular files and links: by the names given, and as the summary of the earlier run lists them.
        """
        named = [*(path for name in figures for path in figure_paths(self.stem, name)), *extra]
        kept = {self.results, self.summary, self.checkpoint}
        # Names of figures may have changed since that run: its summary knows them better.
        paths = dict.fromkeys([*named, *self._listed()])
        return [path for path in paths if path not in kept and os.path.lexists(path) and not _is_folder(path)]

    def _listed(self) -> list[Path]:
        """Return the files of this name in the summary of an earlier run; a summary can hold anything."""
        try:
            with self.summary.open("rb") as file:
                # A summary is small: a megabyte bounds what a damaged one can cost.
                listed = json.loads(file.read(2**20))["files"]
            # Only names: an edited summary must not make this run remove files elsewhere.
            names = [Path(name).name for name in listed if isinstance(name, str) and "\0" not in name]
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return []
        # Of this stem, and of a kind that runs write.
        ours = [name for name in names if name.startswith(f"{self.stem.name}.") and name.endswith(WRITTEN)]
        return [self.stem.with_name(name) for name in ours]


def figure_paths(stem: Path, name: str, formats: Iterable[str] = FORMATS) -> list[Path]:
    """Return the files of one figure, by default in all formats that there are."""
    return [_add(stem, f"{name}.{extension}") for extension in formats]


def refuse_existing(paths: Iterable[Path], otherwise: str) -> None:
    """Raise a `FileError` if one of the paths exists, be it as a link that leads nowhere."""
    if existing := [str(path) for path in paths if os.path.lexists(path)]:
        more = f" (and {len(existing) - 1} more of its files)" if len(existing) > 1 else ""
        verb = "exist" if more else "exists"
        raise FileError(f"{existing[0]}{more} {verb} already", hint=f"--force replaces, {otherwise}")


def refuse_unusable(paths: Iterable[Path]) -> None:
    """Refuse, before the work, names that the system will not take and places that hold no plain file.

    Raises
    ------
    FileError
        With the first path that is too long, or that is a folder, a device or a pipe.
    """
    for path in paths:
        try:
            longest = os.pathconf(path.parent, "PC_NAME_MAX")
        except (OSError, ValueError, AttributeError):
            longest = 255
        # Files are written under a longer name first, which must fit, too.
        temporary = len(os.fsencode(temporary_name(path, 9)))
        if temporary > longest:
            over = temporary - longest
            raise FileError(
                f"the name {_shortened(path.name)} is too long by {over} bytes "
                f"(the file system takes {longest}, with the ending while it is written)",
                hint="choose a shorter one with -o FILE",
            )
        try:
            # lstat: a link is replaced as such, whatever it leads to.
            mode = path.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise FileError(
                f"{_shortened(path)} cannot be used: {error.strerror}", hint="choose another one with -o FILE"
            ) from error
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise FileError(
                f"{path} exists and is no plain file, so the run cannot write it",
                hint="move it away, or choose another output with -o FILE",
            )


def refuse_inputs(paths: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse to replace what the deck reads, with --force or without.

    Raises
    ------
    FileError
        With the file that would be written over.
    """
    for source in inputs:
        for path in paths:
            try:
                # By device and number: a link to an input is that input.
                same = path.samefile(source)
            except (OSError, ValueError):
                continue
            if same:
                raise FileError(
                    f"{path} is read by this run, so it cannot be its output",
                    hint="choose another one with -o",
                )


def remove(paths: Iterable[Path]) -> list[Path]:
    """Remove files; return those that are gone."""
    gone = []
    for path in paths:
        # A file that cannot be removed is left where it is: the run itself has succeeded.
        try:
            path.unlink()
        except OSError:
            continue
        gone.append(path)
    return gone


def require_folder(folder: Path) -> None:
    """Raise a `FileError` unless files can be written into the folder."""
    refuse_controls(folder)
    try:
        exists, is_folder = folder.exists(), folder.is_dir()
    except (OSError, ValueError) as error:
        raise FileError(
            f"the output folder {_shortened(folder)} cannot be used: {getattr(error, 'strerror', None) or error}",
            hint="choose another one with -o FILE",
        ) from error
    # From the usual mistake to the rare one, each with its own remedy.
    if not exists:
        raise FileError(
            f"the output folder {folder} does not exist",
            hint=f"create it: mkdir -p {shell_path(folder)}",
        )
    if not is_folder:
        raise FileError(f"{folder} is not a folder, so no results can be written into it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            f"the output folder {folder} cannot be written to", hint="choose another one with -o FILE"
        )


def _add(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _shortened(path: Path | str) -> str:
    text = str(path)
    return text if len(text) <= 100 else f"{text[:60]} ... {text[-30:]}"


def same_file(path: Path, other: Path) -> bool:
    """Return True if two paths lead to one file; False also where one cannot be read."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


def paths_in(value: object) -> Iterator[Path]:
    """Yield the files that a deck names."""
    if isinstance(value, Path):
        yield value
    elif isinstance(value, BaseModel):
        for item in value.__dict__.values():
            yield from paths_in(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from paths_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from paths_in(item)

"""The files of a run: where they go, and the refusals that come before any work.

A run named ``<stem>`` leaves ``<stem>.h5``, ``<stem>.summary.json`` and ``<stem>.<figure>.png`` and
``.pdf``; while it runs, ``<stem>.ckpt.h5`` holds its checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qsim.core.errors import FileError
from qsim.core.plotting import FORMATS

if TYPE_CHECKING:
    from qsim.core.deck import LoadedDeck

__all__ = ["RunFiles", "figure_paths", "refuse_existing", "require_folder"]

SUFFIXES = (".h5", ".hdf5")


@dataclass(frozen=True)
class RunFiles:
    """Paths of everything a run writes.

    Attributes
    ----------
    results, summary, checkpoint
        The three files.
    stem
        What figure names are appended to.
    """

    results: Path
    summary: Path
    checkpoint: Path
    stem: Path

    @classmethod
    def of(cls, loaded: LoadedDeck, output: Path | None) -> RunFiles:
        """Choose the paths: `output` (the ``-o`` option), else the deck's ``output.file``, else its name.

        Relative paths start at the current folder.  A name without ``.h5`` gets it; an existing folder is
        filled with files named after the deck.
        """
        asked = output or Path(loaded.deck.output.file or f"{loaded.name}.h5")
        if asked.is_dir():
            asked = asked / f"{loaded.name}.h5"
        if asked.suffix not in SUFFIXES:
            asked = asked.with_name(f"{asked.name}.h5")
        stem = asked.with_suffix("")
        return cls(asked, _add(stem, "summary.json"), _add(stem, "ckpt.h5"), stem)

    def require_new(self, figures: Iterable[str]) -> None:
        """Refuse to start over anything that exists.

        Raises
        ------
        FileError
            Naming what exists: results, summary or figures of an earlier run, or its checkpoint.
        """
        if self.checkpoint.exists() and self.results.exists():
            raise FileError(
                f"{self.results} exists already, and {self.checkpoint} to continue from",
                hint="--resume continues that run, --force starts it anew, -o FILE writes elsewhere",
            )
        if self.checkpoint.exists():
            raise FileError(
                f"{self.checkpoint} is the checkpoint of an unfinished run",
                hint="--resume continues that run, --force starts it anew, -o FILE writes elsewhere",
            )
        drawn = (path for name in figures for path in figure_paths(self.stem, name))
        refuse_existing([self.results, self.summary, *drawn], "-o FILE writes elsewhere")


def figure_paths(stem: Path, name: str) -> list[Path]:
    """Return the files of one figure."""
    return [_add(stem, f"{name}.{extension}") for extension in FORMATS]


def refuse_existing(paths: Iterable[Path], otherwise: str) -> None:
    """Raise a `FileError` if one of the paths exists."""
    if existing := [str(path) for path in paths if path.exists()]:
        more = f" (and {len(existing) - 1} more of its files)" if len(existing) > 1 else ""
        verb = "exist" if more else "exists"
        raise FileError(f"{existing[0]}{more} {verb} already", hint=f"--force replaces, {otherwise}")


def require_folder(folder: Path) -> None:
    """Raise a `FileError` unless files can be written into the folder."""
    if not folder.exists():
        raise FileError(f"the output folder {folder} does not exist", hint=f"create it: mkdir -p {folder}")
    if not folder.is_dir():
        raise FileError(f"{folder} is not a folder, so no results can be written into it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(
            f"the output folder {folder} cannot be written to", hint="choose another one with -o FILE"
        )


def _add(stem: Path, ending: str) -> Path:
    return stem.with_name(f"{stem.name}.{ending}")

"""Run decks and open results: the names of `import qsim`; what comes before and after is in `qsim.workflow`.

Loaded at the first use of one of its names, so that importing `qsim` alone costs nothing.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.core.errors import (
    DeckError,
    DeviceError,
    FileError,
    Interrupted,
    MismatchError,
    NumericsError,
    QsimError,
    Stopped,
)
from qsim.core.results.results import Results
from qsim.core.results.results import open_results as _open
from qsim.workflow import (
    check,
    cite,
    collect,
    compare,
    difference,
    examples,
    method_of,
    override_texts,
    sweep,
    table,
    validate,
)

if TYPE_CHECKING:
    from qsim.core.deck.load import DeckSource

__all__ = [
    "DeckError",
    "DeviceError",
    "FileError",
    "MismatchError",
    "NumericsError",
    "QsimError",
    "Results",
    "Stopped",
    "check",
    "cite",
    "collect",
    "compare",
    "difference",
    "examples",
    "open_results",
    "run",
    "sweep",
    "table",
    "validate",
]

CHECKPOINTS = "*.ckpt.h5"
# Held while a thread that is not the first loads what compiles.
_LOADING = threading.Lock()


def run(
    deck: DeckSource,
    *,
    device: str | None = None,
    progress: bool = False,
    output: str | Path | None = None,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    **options: Any,
) -> Results:
    """Run a deck and return its results, opened.

    Parameters
    ----------
    deck
        A YAML file, or a mapping with the same keys and values; ``method`` names the method.  Paths in a mapping start at
        the current folder.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``; overrules ``QSIM_DEVICE`` and the deck.
    progress
        Show on standard error what the command line shows: a bar on a terminal, lines elsewhere.
    output
        Results file, or folder to put it in.  By default that of the command line for a file, ``NAME.h5`` in the current
        folder; the results of a mapping are kept in a temporary folder until they are closed. Where such a run is stopped, the
        folder stays with its checkpoint, and ``resume=True`` finds it by the keys of the mapping.
    overrides
        Keys of the deck to replace: ``{"time.T": "100 fs"}``, or texts such as ``"time.T=4000"``.
    **options
        Other fields of `qsim.core.run.pipeline.Options`: ``force``, ``resume``, ``figures`` (``"all"``, ``"overview"``, names;
        by default no files are drawn), ...

    Returns
    -------
    Results
        The open results file, also usable as a context manager.

    Raises
    ------
    QsimError
        One of the errors of `qsim.core.errors`; a mistaken deck is a `DeckError` that lists every mistake.
    TypeError
        If `deck` is neither a path nor a mapping.
    """
    name = method_of(deck)
    if options.get("dry_run"):
        raise ValueError("a dry run has no results; qsim.core.run.pipeline.execute returns its plan")
    settings: dict[str, Any] = {
        "device": device,
        "overrides": override_texts(overrides),
        "output": output,
        "verbosity": 0 if progress else -1,
        "figures": False,
        "command": "qsim.run({...})" if isinstance(deck, Mapping) else f"qsim.run({str(deck)!r})",
        **options,
    }
    if not isinstance(deck, Mapping) or output is not None:
        return open_results(_executed(name, deck, settings))
    prefix = f"qsim-{_digest(deck)}-"
    folder = (_stopped(prefix) if options.get("resume") else None) or Path(tempfile.mkdtemp(prefix=prefix))
    try:
        results = open_results(_executed(name, deck, {**settings, "output": folder}))
    except BaseException:
        if not any(folder.glob(CHECKPOINTS)):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    results.remove_with(folder)
    return results


def _executed(method: str, deck: DeckSource, settings: Mapping[str, Any]) -> Path:
    """Run a deck and return its results file; what a user can mend, and a stop, is raised without the frames of this program."""
    from qsim.core.run.pipeline import Options, execute

    known = [field.name for field in fields(Options)]
    if unknown := [name for name in settings if name not in known]:
        close = difflib.get_close_matches(unknown[0], known, n=1)
        guess = f"; did you mean '{close[0]}'?" if close else ""
        raise TypeError(f"qsim.run has no option '{unknown[0]}'{guess} there are {', '.join(known)}")
    if threading.current_thread() is not threading.main_thread():
        # Two threads that import it at the same time leave it half loaded.
        with _LOADING:
            import_module("numba")
    try:
        return execute(method, deck, Options(**settings)).results
    except (DeckError, FileError, Stopped, Interrupted) as error:
        raise error.with_traceback(None) from None
    # Before the work begins nothing listens for a stop but Python itself.
    except KeyboardInterrupt:
        raise Interrupted("interrupted before the work began; nothing is lost") from None


def _digest(deck: Mapping[str, Any]) -> str:
    """Return what tells the problem of a mapping from others."""
    from qsim.core.deck.mapping import deck_text

    problem = {key: value for key, value in deck.items() if key not in ("run", "output", "title")}
    return hashlib.sha256(deck_text(problem).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0  # Windows: folders belong to nobody


def _stopped(prefix: str) -> Path | None:
    """Return the temporary folder of this user with the newest checkpoint, if there is one."""
    found: list[tuple[float, Path]] = []
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):
            about = folder.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == _user():
                found += [(file.stat().st_mtime, folder) for file in folder.glob(CHECKPOINTS)]
    return max(found)[1] if found else None


def open_results(path: str | Path) -> Results:
    """Open the results file at `path` for reading (also usable as a context manager).

    Raises
    ------
    FileError
        If the file is missing, is no qsim results file, or was written by a newer major format.
    """
    return _open(Path(path))

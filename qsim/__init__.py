"""Numerical solutions of five classic problems of quantum mechanics, on CPUs and GPUs.

Each method is a sub-package driven by a YAML deck: ``qsim tridiag deck.yaml`` on the command line is
``qsim.run("deck.yaml")`` here.  Importing this package loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.device.caches import ensure_kernel_cache

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from qsim.core.results.results import Results

__version__ = "0.1.0"
__all__ = ["__version__", "open_results", "run"]

ensure_kernel_cache()  # here, because a method's kernels may be imported without anything else of qsim


def run(deck: str | Path, **options: Any) -> Results:
    """Run a deck silently and return its results, opened.

    Parameters
    ----------
    deck
        The YAML deck; its key ``method`` names the method.
    **options
        Fields of `qsim.core.run.pipeline.Options`: ``device``, ``overrides``, ``output``, ``force``, ...

    Returns
    -------
    Results
        The open results file, also usable as a context manager.

    Raises
    ------
    QsimError
        One of the errors of `qsim.core.errors`; a mistaken deck is a `DeckError` that lists every mistake.
    TypeError
        If `deck` is no path.
    """
    import os

    from qsim import methods
    from qsim.core.deck.load import peek_method
    from qsim.core.errors import DeckError
    from qsim.core.run.pipeline import Options, execute

    if not isinstance(deck, str | os.PathLike):
        raise TypeError(
            f"qsim.run takes the path of a YAML deck, not a {type(deck).__name__}; write the deck to a file, "
            "and give changes as overrides=['KEY=VALUE', ...]"
        )
    if options.get("dry_run"):
        raise ValueError("a dry run has no results; qsim.core.run.pipeline.execute returns its plan")
    name = peek_method(deck)
    if not methods.is_available(name):
        raise DeckError(f"{deck}: {methods.refusal(name)}")
    settings = {"verbosity": -1, "command": f"qsim.run({str(deck)!r})", **options}
    return open_results(execute(name, deck, Options(**settings)).results)


def open_results(path: str | Path) -> Results:
    """Open the results file at `path` for reading (also usable as a context manager).

    Raises
    ------
    FileError
        If the file is missing, is no qsim results file, or was written by a newer major format.
    """
    from pathlib import Path

    from qsim.core.results.results import open_results as opener

    return opener(Path(path))

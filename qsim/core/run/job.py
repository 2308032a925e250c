"""One requested run: method, deck, options and the files that it may write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import DeckSource, LoadedDeck, load_deck
from qsim.core.run.files.paths import RunFiles, paths_in, same_file
from qsim.core.run.stages import Method, unknown_figures

if TYPE_CHECKING:
    from qsim.core.run.stages import OutputStage

__all__ = ["Job", "Options", "Outcome", "listed", "make_job"]

# Words for sets of figures.
CHOICES = ("overview", "all", "none")

D = TypeVar("D", bound=Deck)
P = TypeVar("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Options:
    """Options of a run, as on the command line.

    Parameters
    ----------
    device
        ``auto``, ``cpu``, ``cuda`` or ``cuda:N``; overrules ``QSIM_DEVICE`` and the deck.
    threads
        CPU threads; overrules ``QSIM_THREADS`` and the deck.
    overrides
        ``KEY=VALUE`` texts that replace keys of the deck.
    output
        Results file, or a folder to put it in.
    force
        Replace existing results; start anew although there is a checkpoint.
    resume
        Continue from the checkpoint, if there is one.
    allow_changes
        Continue from a checkpoint although the problem has changed.
    dry_run
        Check and plan only.
    measure
        With `dry_run`: compute the first steps for some seconds, to tell how long the run takes.
    figures
        ``"overview"``, ``"all"``, ``"none"`` or names separated by commas, in place of the deck's ``output.figures``; True for
        those of the deck, False for none.
    formats
        Formats of the figures: ``png``, ``pdf``, ``svg``.
    verbosity
        -1 for silence, 0 for progress and notices.
    command
        What is recorded as the command of the run.
    """

    device: str | None = None
    threads: int | None = None
    overrides: Sequence[str] = ()
    output: str | Path | None = None
    force: bool = False
    resume: bool = False
    allow_changes: bool = False
    dry_run: bool = False
    measure: bool = False
    figures: bool | str = True
    formats: Sequence[str] = ("png",)
    verbosity: int = 0
    command: str = ""


@dataclass(frozen=True)
class Outcome:
    """Files and summary of a run, returned by `execute`.

    Attributes
    ----------
    summary
        The content of ``<stem>.summary.json``; of a dry run, the plan and the resolved deck.
    results
        The results file; after a dry run, where it would be.
    already
        True if the run had been complete before, so that nothing was done.
    """

    summary: dict[str, Any]
    results: Path
    already: bool = False


@dataclass(frozen=True)
class Job(Generic[D, P, R]):
    """One run: method, deck, options, files, and the figures that the deck requests."""

    method: Method[D, P, R]
    loaded: LoadedDeck[D]
    options: Options
    files: RunFiles
    figures: Sequence[str]
    # Files that the method may write besides results, summary and figures.
    extra: Sequence[Path] = ()
    # True if there is a checkpoint and it is to be continued.
    resuming: bool = False

    @property
    def one_figure(self) -> bool:
        """True if only an overview is drawn: the first figure that has something to show."""
        return self.loaded.deck.output.figures == "overview"

    @property
    def replaces(self) -> bool:
        """True if existing results may be replaced: a run with a checkpoint was allowed to when it began."""
        return self.options.force or self.resuming

    def written(self) -> list[Path]:
        """Return everything that the run may write."""
        return [*self.files.all_paths(self.figures, self.extra), self.files.checkpoint]

    def earlier(self) -> list[Path]:
        """Return figures and the like that an earlier run left, but for what this one reads."""
        inputs = list(paths_in(self.loaded.deck))
        return [
            path
            for path in self.files.of_earlier_run(list(self.method.output.FIGURES), self.extra)
            if not any(same_file(path, source) for source in inputs)
        ]


def make_job(method: Method[D, P, R], deck: DeckSource, options: Options) -> Job[D, P, R]:
    """Return the run of a deck: what the command line says overrules it."""
    overrides = [*options.overrides]
    if isinstance(options.figures, str):
        asked = options.figures if options.figures in CHOICES else f"[{options.figures}]"
        overrides.append(f"output.figures={asked}")
    loaded = load_deck(deck, method.deck.DECK, overrides)
    figures = figure_names(loaded, method.output) if options.figures else []
    files = RunFiles.of(loaded, Path(options.output) if options.output else None, options.formats)
    return Job(method, loaded, options, files, figures, method.extra_paths(loaded.deck, files.stem))


def figure_names(loaded: LoadedDeck[D], output: OutputStage[R]) -> Sequence[str]:
    loaded.raise_for(unknown_figures(loaded.deck, output))
    asked = loaded.deck.output.figures
    if isinstance(asked, str):  # of an overview, all that could serve as one
        return [] if asked == "none" else list(output.FIGURES)
    return list(dict.fromkeys(asked))


def listed(paths: Sequence[Path]) -> str:
    """Return up to eight paths for a message, and the number of the others."""
    """Return up to eight paths for a message, with the number of the others."""
    more = f" and {len(paths) - 8} more" if len(paths) > 8 else ""
    return ", ".join(str(path) for path in paths[:8]) + more

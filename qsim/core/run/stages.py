"""The stages of a method: what its modules must hold, and how they are found.

A method is a folder ``qsim/<name>/`` whose modules ``deck``, ``build``, ``run`` and ``output`` are its stages.  There is no
class to derive from and nothing to register: the protocols below say what each module must hold, and `Method` imports
each of them on first use, so that checking a deck never loads a kernel.

Three types go through the stages: the deck ``D``, the problem ``P`` that `build` makes of it, and the result ``R`` of the run::

    deck: D  ->  plan(LoadedDeck[D])  ->  build(LoadedDeck[D], Device): P  ->  run(P, Monitor): R  ->  output functions of R

`qsim.methods` states them once for each method, and mypy compares all its modules with them.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, cast, overload

from typing_extensions import TypeVar

from qsim.core.device.device import Memory
from qsim.core.errors import DeviceError
from qsim.core.results.quantities import arrays, by_task, headline, scalars, tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.deck.blocks import Deck, Finding
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device
    from qsim.core.results.quantities import Failed, Quantities, Quantity
    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar, Table
    from qsim.core.run.progress import Monitor

__all__ = [
    "BuildStage",
    "DeckStage",
    "FigureFunction",
    "Method",
    "OutputStage",
    "Plan",
    "RunStage",
    "Stages",
    "stage",
    "unknown_figures",
]

D = TypeVar("D", bound="Deck")
P = TypeVar("P")
R = TypeVar("R")
P_co = TypeVar("P_co", covariant=True)
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
R_contra = TypeVar("R_contra", contravariant=True)

# Draws one figure from a results file; None if the file does not hold what it shows.
FigureFunction = Callable[["Results"], "Figure | None"]


# ------------------------------------------------------------------------------------------- stages


@dataclass(frozen=True)
class Size:
    """Size of a run, beside the one from which a GPU is faster.

    Attributes
    ----------
    value
        Size of this run.
    name
        What is counted, as a plural: ``"moves of electrons"``.
    gpu
        Size from which a whole command takes less time on a GPU (H100, H200) than on 16 cores of its host, import and start
        included; infinite where a task has nothing for a GPU.
    """

    value: float
    name: str
    gpu: float

    @property
    def is_for_gpu(self) -> bool:
        """True if a GPU is faster."""
        return self.value >= self.gpu


# Operations beyond which a deck is taken for a slip of the pen: most of a year of a GPU of 5e12 per second, which
# is what it reaches in loops of this program.
MOST_OPERATIONS = 1e20


@dataclass(frozen=True)
class Plan:
    """Sizes, steps and memory of a deck, known before anything is allocated.

    Attributes
    ----------
    memory
        Estimated bytes.
    sizes
        Sizes of the problem by name: ``{"grid points": 641, "states": 24}``.
    steps
        Number of steps of the run; 0 if it is not known.
    findings
        Warnings and mistakes that the rules of the deck could not see.
    size
        The number that tells whether a GPU is faster; None where it is not known before the run.
    operations
        Floating-point operations that the run cannot do without; more than `MOST_OPERATIONS` are refused.
    reduce
        Deck key that lowers them, such as ``"evolve.t_final"``.
    ranks
        Most processes that can share the work; 1 where it is not distributed.
    shared
        What they share, for messages: ``"walkers"``.
    doubling
        Whether only 1, 2, 4, 8, ... processes can.
    alone
        What keeps the run on one process, such as ``"sector: it is carried whole"``; empty if nothing is to be said.
    capacity
        Whether several GPUs hold more than one, but take about as long.
    cpu_only
        What keeps the run from a GPU, such as ``"task: atom with 5000 channels"``; empty if nothing does.
    """

    memory: Memory = field(default_factory=Memory)
    sizes: Mapping[str, int | float | str] = field(default_factory=dict)
    steps: int = 0
    findings: Sequence[Finding] = ()
    size: Size | None = None
    operations: float = 0.0
    reduce: str = ""
    ranks: int = 1
    shared: str = ""
    doubling: bool = False
    alone: str = ""
    capacity: bool = False
    cpu_only: str = ""

    def absurd(self) -> list[Finding]:
        """Return a mistake for work that no machine ends: a final time or a size with some zeros too many."""
        from qsim.core.deck.blocks import Finding

        if self.operations <= MOST_OPERATIONS:
            return []
        text = (
            f"the run takes {self.operations:.1e} operations at least, and more than {MOST_OPERATIONS:g} are refused; "
            f"reduce {self.reduce}"
        )
        return [Finding(self.reduce, text)]


class DeckStage(Protocol[D]):
    """``deck``: the model of the deck.

    It may also hold ``EXTENDABLE``, dotted keys such as ``evolve.t_final`` or ``series.*.vmc.blocks`` in which a resumed run may
    differ.
    """

    @property
    def DECK(self) -> type[D]:
        """The deck model."""

    def references(self, deck: D, /) -> tuple[str, ...]:
        """Return the BibTeX keys of what this deck uses."""


class BuildStage(Protocol[D, P_co]):
    """``build.py``: from the deck to operators and states on the device.

    What is dear to make and needed by both functions is made once, by :meth:`~qsim.core.deck.load.LoadedDeck.once`.
    """

    def plan(self, loaded: LoadedDeck[D], /) -> Plan:
        """Return sizes, memory and findings without a device and without large arrays."""

    def build(self, loaded: LoadedDeck[D], device: Device, /) -> P_co:
        """Return the problem: everything the run needs, in numbers, arrays and made objects."""


class RunStage(Protocol[P_contra, R_co]):
    """``run.py``: the only long stage; resumable, and without input or output but through the monitor.

    It may also hold ``final_state(result)``, the state from which a complete run can be continued where the keys of
    ``EXTENDABLE`` ask for more; it is kept as the checkpoint.
    """

    def run(self, problem: P_contra, monitor: Monitor, /) -> R_co:
        """Return the result."""


class OutputStage(Protocol[R]):
    """``output.py``: what is written and drawn.

    It may also hold ``quantities_of(result)``, where the unit of a quantity depends on the deck, and ``extra_files(results,
    stem)``, which writes what the deck requests beside the results file and returns the paths; with it comes ``extra_paths(deck,
    stem)``, the paths that it and the run may write, which are then neither overwritten without --force nor left over by it.
    """

    @property
    def QUANTITIES(self) -> Quantities[R]:
        """Everything that a run computes; of a method with several tasks, by the name that ``result.task`` has."""

    @property
    def FIGURES(self) -> Mapping[str, FigureFunction]:
        """Functions from a results file to a figure."""


@dataclass(frozen=True)
class Stages(Generic[D, P, R]):
    """The stages of one method side by side; its arguments show mypy that each takes what the one before it makes."""

    deck: DeckStage[D]
    build: BuildStage[D, P]
    run: RunStage[P, R]
    output: OutputStage[R]


class Method(Generic[D, P, R]):
    """A method: its four stages, each imported on first use, and what they may hold besides.

    Parameters
    ----------
    name
        Name of the method, which is that of its folder.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def deck(self) -> DeckStage[D]:
        """The model of the deck."""
        return stage(self.name, "deck")

    @property
    def build(self) -> BuildStage[D, P]:
        """From the deck to the problem; loads the kernels.

        Raises
        ------
        DeviceError
            If the environment asks for a number of threads that numba does not take.
        """
        return stage(self.name, "build")

    @property
    def run(self) -> RunStage[P, R]:
        """From the problem to the result."""
        return stage(self.name, "run")

    @property
    def output(self) -> OutputStage[R]:
        """From the result to names and figures."""
        return stage(self.name, "output")

    @property
    def extendable(self) -> Sequence[str]:
        """Keys of the deck in which a resumed run may differ."""
        return cast("Sequence[str]", getattr(self.deck, "EXTENDABLE", ()))

    @property
    def headline(self) -> Sequence[str]:
        """Names of the scalars that are shown first."""
        return headline(*by_task(self.output.QUANTITIES))

    def quantities(self, result: R) -> Sequence[Quantity[R]]:
        """Return the quantities of a result: those of its task, where the method has several."""
        special: Callable[[R], Sequence[Quantity[R]]] | None = getattr(self.output, "quantities_of", None)
        if special is not None:
            return special(result)
        declared = self.output.QUANTITIES
        if isinstance(declared, Mapping):
            return declared[cast("Any", result).task]
        return declared

    def tables(self, result: R) -> Sequence[Table]:
        """Return the declarations of the arrays of a result."""
        return tables(self.quantities(result), result)

    def arrays(self, result: R, failed: Failed | None = None) -> Mapping[str, Array]:
        """Return the arrays, host or device, by name; one that cannot be found is given to `failed`, if that is there."""
        return arrays(self.quantities(result), result, failed)

    def scalars(self, result: R, failed: Failed | None = None) -> Mapping[str, Scalar]:
        """Return the scalars by name; what cannot be found is given to `failed`, if that is there."""
        return scalars(self.quantities(result), result, failed)

    def final_state(self, result: R) -> Mapping[str, object] | None:
        """Return the state from which a complete run can be continued; None if it cannot."""
        make: Callable[[R], Mapping[str, object]] | None = getattr(self.run, "final_state", None)
        return None if make is None else make(result)

    def extra_paths(self, deck: D, stem: Path) -> Sequence[Path]:
        """Return the files that a run of the deck may write besides results, summary and figures."""
        paths: Callable[[D, Path], Sequence[Path]] | None = getattr(self.output, "extra_paths", None)
        return [] if paths is None else list(paths(deck, stem))

    def extra_files(self, results: Results, stem: Path) -> Sequence[Path]:
        """Write what the deck asks for beside the results file; return the paths."""
        write: Callable[[Results, Path], Sequence[Path]] | None = getattr(self.output, "extra_files", None)
        return [] if write is None else write(results, stem)


@overload
def stage(name: str, part: Literal["deck"]) -> DeckStage[Any]: ...
@overload
def stage(name: str, part: Literal["build"]) -> BuildStage[Any, Any]: ...
@overload
def stage(name: str, part: Literal["run"]) -> RunStage[Any, Any]: ...
@overload
def stage(name: str, part: Literal["output"]) -> OutputStage[Any]: ...
def stage(name: str, part: str) -> Any:
    """Import one stage module of a method.

    Raises
    ------
    DeviceError
        If the environment asks for a number of threads that numba, which comes with ``build``, does not take, or for no compiler.
    """
    switch = os.environ.get("NUMBA_DISABLE_JIT", "").strip()
    # Numba takes what is no number for 0.
    if part in ("build", "run") and switch.lstrip("+-").isdecimal() and int(switch):
        raise DeviceError(
            f"NUMBA_DISABLE_JIT is {switch[:40]}, which turns numba's compiler off; the kernels of qsim run only compiled",
            hint="unset it: env -u NUMBA_DISABLE_JIT qsim ...",
        )
    asked = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if part in ("build", "run") and asked and not (asked.isdecimal() and int(asked) > 0):
        raise DeviceError(
            f"NUMBA_NUM_THREADS is {asked[:40]!r}, not a number of threads (1 or more)",
            hint="set it to a positive number, or unset it",
        )
    return importlib.import_module(f"qsim.{name}.{part}")


def unknown_figures(deck: Deck, output: OutputStage[Any]) -> list[Finding]:
    """Return the mistakes in the figures that a deck asks for."""
    from qsim.core.deck.blocks import Finding

    asked = deck.output.figures
    findings = []
    for index, name in enumerate([] if isinstance(asked, str) else asked):
        if name not in output.FIGURES:
            close = difflib.get_close_matches(name, output.FIGURES, n=1)
            suggestion = f"did you mean '{close[0]}'? " if close else ""
            message = f"unknown figure '{name}'; {suggestion}allowed: {', '.join(output.FIGURES) or 'none'}"
            findings.append(Finding(f"output.figures.{index}", message))
    return findings

"""The stages of a method: what its modules must hold, and how they are found.

A method is a folder ``qsim/<name>/`` whose modules ``deck``, ``build``, ``run`` and ``output`` are its
stages.  There is no class to derive from and nothing to register: the protocols below say what each module
must hold, and `stage` imports one of them by the method's name, so that checking a deck never loads a kernel.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from qsim.core.device.device import Memory
from qsim.core.errors import DeviceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.deck.blocks import Deck, Finding
    from qsim.core.device.device import Device
    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar, Table
    from qsim.core.run.progress import Monitor

__all__ = [
    "BuildStage",
    "DeckStage",
    "FigureFunction",
    "OutputStage",
    "Plan",
    "RunStage",
    "stage",
    "unknown_figures",
]

FigureFunction = Callable[["Results"], "Figure | None"]
"""Draws one figure from a results file; None if the file does not hold what it shows."""


# ------------------------------------------------------------------------------------------- stages


@dataclass(frozen=True)
class Plan:
    """What a deck will take, known before anything is allocated.

    Attributes
    ----------
    memory
        Estimated bytes.
    sizes
        What tells the size of the problem, by name: ``{"grid points": 641, "states": 24}``.
    steps
        Number of steps of the run; 0 if it is not known.
    findings
        Doubts and mistakes that the cross-checks of the deck model could not see.
    """

    memory: Memory = field(default_factory=Memory)
    sizes: Mapping[str, int | float | str] = field(default_factory=dict)
    steps: int = 0
    findings: Sequence[Finding] = ()


class DeckStage(Protocol):
    """``deck.py``: the model of the deck.

    It may also hold ``EXTENDABLE``, dotted keys such as ``evolve.t_final`` or ``series.*.vmc.blocks`` in which a resumed run may
    differ.
    """

    @property
    def DECK(self) -> type[Deck]:
        """The deck model."""

    def references(self, deck: Any, /) -> tuple[str, ...]:
        """Return the BibTeX keys of what this deck uses."""


class BuildStage(Protocol):
    """``build.py``: from the deck to operators and states on the device."""

    def plan(self, loaded: Any, /) -> Plan:
        """Return sizes, memory and findings without a device and without large arrays."""

    def build(self, loaded: Any, device: Device, /) -> Any:
        """Return the problem: everything the run needs."""


class RunStage(Protocol):
    """``run.py``: the only long stage; resumable, and without input or output but through the monitor.

    It may also hold ``final_state(result)``, the state from which a complete run can be continued where the keys of
    ``EXTENDABLE`` ask for more; it is kept as the checkpoint.
    """

    def run(self, problem: Any, monitor: Monitor, /) -> Any:
        """Return the result."""


class OutputStage(Protocol):
    """``output.py``: what is written and drawn.

    It may also hold ``HEADLINE``, names of the scalars that are shown first, and ``tables(result)``, declarations
    that take the place of ``TABLES`` where the axes of an array depend on the deck, and ``extra_files(results, stem)``, which
    writes what the deck asks for beside the results file and returns the paths; with it comes ``extra_paths(deck,
    stem)``, the paths that it and the run may write, which are then neither overwritten without --force nor left over by it.
    """

    @property
    def TABLES(self) -> tuple[Table, ...]:
        """Declarations of all arrays that can be written."""

    @property
    def FIGURES(self) -> Mapping[str, FigureFunction]:
        """Functions from a results file to a figure."""

    def arrays(self, result: Any, /) -> Mapping[str, Any]:
        """Return the arrays, host or device, by table name."""

    def scalars(self, result: Any, /) -> Mapping[str, Scalar]:
        """Return the headline numbers."""


@overload
def stage(name: str, part: Literal["deck"]) -> DeckStage: ...
@overload
def stage(name: str, part: Literal["build"]) -> BuildStage: ...
@overload
def stage(name: str, part: Literal["run"]) -> RunStage: ...
@overload
def stage(name: str, part: Literal["output"]) -> OutputStage: ...
def stage(name: str, part: str) -> Any:
    """Import one stage module of a method.

    Raises
    ------
    DeviceError
        If the environment asks for a number of threads that numba, which comes with ``build``, does not take.
    """
    asked = os.environ.get("NUMBA_NUM_THREADS", "").strip()
    if part in ("build", "run") and asked and not (asked.isdecimal() and int(asked) > 0):
        raise DeviceError(
            f"NUMBA_NUM_THREADS is {asked[:40]!r}, not a number of threads from 1 on",
            hint="set it to a positive number, or unset it",
        )
    return importlib.import_module(f"qsim.{name}.{part}")


def unknown_figures(deck: Deck, output: OutputStage) -> list[Finding]:
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

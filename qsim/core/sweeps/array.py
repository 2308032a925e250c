"""The script of a Slurm array that runs the decks of a sweep."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TypeVar

from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import LoadedDeck, load_deck
from qsim.core.results.atomic import refuse_controls, write_text
from qsim.core.run.stages import Method
from qsim.core.sweeps.folder import Sweep
from qsim.core.text import format_bytes, printable, shell_path

__all__ = ["evenly", "largest_memory", "write_array"]

# Decks whose plan is made.
MOST_EXAMINED = 32

T = TypeVar("T")


def write_array(sweep: Sweep, *, at_once: int | None = None, device: str | None = None) -> Path:
    """Write the script of a Slurm array of the decks that are missing; return its path.

    Parameters
    ----------
    sweep
        From :func:`prepare`.
    at_once
        Most tasks that run at the same time; None for no limit.
    device
        As on the command line.

    Raises
    ------
    DeckError
        If the plan of an examined deck is refused.
    FileError
        If the script cannot be written, or names hold control characters: its comments would not hold them.
    """
    refuse_controls(sweep.folder / sweep.points[0].deck.name)
    missing = sweep.missing
    cuda = device is not None and device.startswith("cuda")
    examined, memory = largest_memory(
        sweep.method,
        [load_deck(point.deck, type(sweep.loaded.deck)) for point in evenly(missing)],
        cuda=cuda,
    )
    script = sweep.folder / "array.sbatch"
    template = Template(
        resources.files("qsim.core.sweeps").joinpath("array.sbatch").read_text(encoding="utf-8")
    )
    content = template.substitute(
        count=len(missing),
        folder=shell_path(sweep.folder),
        logs=shell_path(str(sweep.folder).replace("%", "%%")),
        keys=printable(", ".join(sweep.keys)),
        script=shell_path(script),
        name=shlex.quote(sweep.points[0].deck.stem.rpartition("-")[0]),
        array=_ranges([point.number for point in missing]) + (f"%{at_once}" if at_once else ""),
        memory=math.ceil(memory / 2**20),
        memory_text=format_bytes(memory),
        examined=examined,
        program=f"{shlex.quote(sys.executable)} -m qsim",
        method=sweep.method,
        device=f" --device {device}" if device else "",
    )
    return write_text(script, content)


def evenly(items: Sequence[T]) -> Sequence[T]:
    """Return some items, evenly chosen: the plans of thousands of decks would take minutes."""
    return items[:: max(1, -(-len(items) // MOST_EXAMINED))]


def largest_memory(method: str, decks: Sequence[LoadedDeck[Deck]], *, cuda: bool = False) -> tuple[int, int]:
    """Return the number of decks and the most bytes of the host that one of them needs, interpreter and compilation included.

    Raises
    ------
    DeckError
        If the plan of one is refused.
    """
    most = 0
    for loaded in decks:
        plan = Method[Deck, object, object](method).build.plan(loaded)
        loaded.raise_for(plan.findings)
        memory = plan.memory.with_interpreter(method, figures=False, cuda=cuda, compiled=False)
        most = max(most, memory.of_job(cuda=cuda))
    return len(decks), most


def _ranges(numbers: Sequence[int]) -> str:
    """Return ``1-3,7`` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)

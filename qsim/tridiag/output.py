"""Names, units and figures of a tridiag result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.tridiag.atom import result as atom_result
from qsim.tridiag.figures import FIGURES
from qsim.tridiag.plane import result as plane_result
from qsim.tridiag.propagate import result as propagate_result
from qsim.tridiag.scaling import result as scaling_result
from qsim.tridiag.systems import result as solve_result

if TYPE_CHECKING:
    from pathlib import Path

    from qsim.core.results.quantities import Quantity
    from qsim.core.results.results import Results
    from qsim.tridiag.deck.model import TridiagDeck

__all__ = [
    "FIGURES",
    "QUANTITIES",
    "extra_files",
    "extra_paths",
]

# Quantities of each task.
QUANTITIES: dict[str, tuple[Quantity[Any], ...]] = {
    "propagate": propagate_result.QUANTITIES,
    "propagate_scan": propagate_result.SCANS,
    "atom": atom_result.QUANTITIES,
    "atom_scan": atom_result.SCANS,
    "plane": plane_result.QUANTITIES,
    "plane_scan": plane_result.SCANS,
    "solve": solve_result.QUANTITIES,
    "scaling": scaling_result.QUANTITIES,
}


def extra_paths(deck: TridiagDeck, stem: Path) -> list[Path]:
    """Return the file that a run may write beside its results: a solution that is too large for them."""
    return [stem.with_name(f"{stem.name}.x.h5")] if deck.task == "solve" else []


def extra_files(results: Results, stem: Path) -> list[Path]:
    """Return the file beside the results that the run has written."""
    named = results.scalars.get("x_file")
    return [] if named is None else [stem.with_name(str(named.value))]

"""Energies of crystals by atom, primitive cell and electron, and what their finite size lacks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qmc.results.parts import analysis_of, has_part, last_part
from qsim.qmc.statistics.finite_size import Correction, kinetic_correction, potential_correction

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.qmc.run import Result

__all__ = ["finite_size", "intensive"]

HARTREE = "hartree"


def _potential(result: Result, kind: str) -> Correction | None:
    """Return the correction of the potential energy of the last part of a kind, which needs its structure factor."""
    part = last_part(result, kind)
    if part is None or "sofk" not in part.series.arrays or "density" not in part.series.info:
        return None
    k, S, error = (np.asarray(part.series.arrays[name]) for name in ("sofk_k", "sofk", "sofk_error"))
    return potential_correction(k, S, error, part.series.info["density"])


def _kinetic(result: Result, kind: str) -> Correction | None:
    """Return the correction of the kinetic energy of a crystal with pair functions."""
    cell, electrons = result.after.jastrow.cell, result.problem.wavefunction.n_electrons
    if last_part(result, kind) is None or cell is None:
        return None
    k = cell.shortest_wave
    u = result.after.jastrow.pair_wave(k, electrons)
    return None if u is None else kinetic_correction(k, u, electrons, cell.volume)


def finite_size(kind: str) -> tuple[Quantity[Result], ...]:
    """Return the declarations of the finite-size corrections of the last part of a kind."""

    def declared(name: str, text: str, found: Callable[[Result, str], Correction | None]) -> Quantity[Result]:
        return Quantity(
            f"{kind}_finite_size_{name}",
            HARTREE,
            f"finite-size correction of the {name} energy, to be added, {text}",
            lambda r: None if (both := found(r, kind)) is None else both.value,
            error=lambda r: None if (both := found(r, kind)) is None else both.error,
            when=lambda r: found(r, kind) is not None,
        )

    return (
        declared("potential", "from the structure factor at small k", _potential),
        declared("kinetic", "from the pair functions at the smallest wave and plasmons at k = 0", _kinetic),
    )


def intensive(kind: str) -> tuple[Quantity[Result], ...]:
    """Return the declarations of the energy of a crystal by atom, by primitive cell, by electron, and without its finite size."""

    def shares(result: Result) -> dict[str, int]:
        return result.problem.wavefunction.shares

    def has(name: str) -> Callable[[Result], bool]:
        return lambda r: has_part(kind)(r) and name in shares(r)

    def per(name: str) -> Quantity[Result]:
        def error(result: Result) -> float | None:
            claimed = analysis_of(result, kind).energy.error
            return None if claimed is None else float(claimed) / shares(result)[name]

        where = "primitive cell" if name == "cell" else name
        return Quantity(
            f"{kind}_energy_per_{name}",
            HARTREE,
            f"total energy of a crystal per {where}",
            lambda r: float(analysis_of(r, kind).energy.mean) / shares(r)[name],
            error=error,
            when=has(name),
        )

    def corrections(result: Result) -> list[Correction]:
        potential, kinetic = _potential(result, kind), _kinetic(result, kind)
        if potential is None:
            return []
        return [potential] if kinetic is None else [potential, kinetic]

    def bulk(name: str) -> Quantity[Result]:
        def error(result: Result) -> float | None:
            claimed, found = analysis_of(result, kind).energy.error, corrections(result)
            if claimed is None or not found:
                return None
            # both corrections come from the same pairs: their errors may have the same sign
            return math.hypot(float(claimed), sum(each.error for each in found)) / shares(result)[name]

        def value(result: Result) -> float | None:
            found = corrections(result)
            if not found:
                return None
            total = float(analysis_of(result, kind).energy.mean) + sum(each.value for each in found)
            return total / shares(result)[name]

        return Quantity(
            f"{kind}_bulk_energy_per_{name}",
            HARTREE,
            f"the same per {name} with the finite-size corrections of potential and kinetic energy; sampling and corrections are "
            "in its error, what twists lack is not",
            value,
            error=error,
            when=lambda r: has(name)(r) and bool(corrections(r)),
        )

    return per("atom"), per("cell"), per("electron"), bulk("atom"), bulk("electron")

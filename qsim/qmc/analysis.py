"""Means and error bars of the blocks of a run, and energies at zero time step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qmc.series import ENERGIES
from qsim.qmc.statistics import MINIMUM_BLOCKS, Estimate, derived, geweke, reblock, warm_up
from qsim.qmc.timestep import ORDERS, Extrapolation, extrapolate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.progress import Monitor
    from qsim.qmc.build import Part
    from qsim.qmc.series import Series

__all__ = ["Analysis", "Fit", "analyse", "fit_sections"]

DRIFT = 3.5  # standard deviations between the first and the last part of a series that count as drift
FEW_ACCEPTED = 0.1  # of the moves of vmc: walkers that stay in place have far too small an error bar


@dataclass(frozen=True)
class Analysis:
    """Statistics of the blocks of a vmc or dmc part.

    Attributes
    ----------
    cut
        Blocks at the start that are left out, since they still remember how the walkers were before.
    estimates
        Of the energies (`ENERGIES`), ``variance`` and ``acceptance``; of diffusion also ``population``.
    """

    cut: int
    estimates: Mapping[str, Estimate]

    @property
    def energy(self) -> Estimate:
        """The total energy, hartree."""
        return self.estimates["energy"]


@dataclass(frozen=True)
class Fit:
    """Energies of a dmc section against its time steps.

    Attributes
    ----------
    index
        Number of the section.
    timesteps : (n,) float64
        1/hartree, ascending.
    energies, errors : (n,) float64
        Hartree; errors are NaN where there are too few blocks.
    extrapolation
        To zero; None where it is not asked for or not possible.
    parts
        Number of the part of each time step.
    """

    index: int
    timesteps: NDArray[np.float64]
    energies: NDArray[np.float64]
    errors: NDArray[np.float64]
    extrapolation: Extrapolation | None
    parts: list[int] = field(default_factory=list)


def analyse(series: Series, monitor: Monitor) -> Analysis | None:
    """Return the statistics of the blocks of a part, and warn of what they do not show; None for an optimisation."""
    if series.kind == "optimize":
        return None
    total = int(series.blocks["energy"].size)
    cut = min(
        warm_up(series.blocks["energy"]), max(0, total - MINIMUM_BLOCKS)
    )  # a short series keeps its error bar
    blocks = {name: np.asarray(values)[cut:] for name, values in series.blocks.items()}
    weights = blocks["weight"] if series.kind == "dmc" else None
    found = {name: reblock(blocks[name], weights) for name in ENERGIES}
    energy, square = blocks["energy"], blocks["energy_squared"]
    shift = float(energy[0])  # squares of deviations from one of the values cancel less
    moved = energy - shift, square - 2.0 * shift * energy + shift * shift
    found["variance"] = derived(lambda e, s: max(s - e * e, 0.0), moved, weights)
    found["acceptance"] = reblock(blocks["acceptance"])
    if "population" in blocks:
        found["population"] = reblock(blocks["population"])
    if cut:
        monitor.note(f"{series.label}: {cut} of {total} blocks are left out as warm-up")
    if series.kind == "vmc" and (accepted := found["acceptance"].mean) < FEW_ACCEPTED:
        monitor.warn(
            f"{series.label}: only {100 * accepted:.2g} % of the moves were accepted, so that the walkers hardly left their "
            "places; take a smaller timestep"
        )
    if reason := found["energy"].reason:
        monitor.warn(f"{series.label}: {reason}")
    elif abs(drift := geweke(energy)) > DRIFT:
        monitor.warn(
            f"{series.label}: the energy still drifts ({drift:+.1f} standard deviations); a longer warm-up helps"
        )
    return Analysis(cut, found)


def fit_sections(parts: list[Part], analyses: list[Analysis | None], monitor: Monitor) -> list[Fit]:
    """Return, for each dmc section, its energies by time step and their extrapolation."""
    fits = []
    for index in sorted({part.section for part in parts if part.kind == "dmc"}):
        mine = [k for k, part in enumerate(parts) if part.section == index]
        mine.sort(key=lambda k: float(parts[k].timestep or 0.0))
        energies: list[Any] = [found.energy for k in mine if (found := analyses[k]) is not None]
        taus = np.array([float(parts[k].timestep or 0.0) for k in mine])
        errors = np.array([np.nan if e.error is None else e.error for e in energies])
        means = np.array([e.mean for e in energies])
        fits.append(
            Fit(
                index,
                taus,
                means,
                errors,
                _extrapolated(parts[mine[0]].block, taus, means, errors, monitor),
                mine,
            )
        )
    return fits


def _extrapolated(
    block: Any,
    taus: NDArray[np.float64],
    energies: NDArray[np.float64],
    errors: NDArray[np.float64],
    monitor: Monitor,
) -> Extrapolation | None:
    order = block.extrapolate
    if order not in ORDERS or taus.size < ORDERS[order] + 1:
        return None
    if not np.all(errors > 0.0):  # NaN where there are too few blocks
        if np.all(errors == 0.0):
            return None  # the local energy is constant: nothing depends on the time step
        monitor.warn(
            "no extrapolation to zero time step, since an error bar is missing; more blocks give one"
        )
        return None
    try:
        found = extrapolate(taus, energies, errors.tolist(), order)
    except NumericsError as error:
        monitor.warn(f"no extrapolation to zero time step: {error}")
        return None
    if found.probability < 1e-3:
        text = f"the {order} fit of the energies to the time steps is poor (chi squared {found.chi2:.1f})"
        monitor.warn(f"{text}; smaller time steps, or extrapolate: quadratic")
    return found

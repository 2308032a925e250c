"""Means and error bars of the blocks of a run, and energies at zero time step."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.errors import NumericsError
from qsim.qmc.relaxation import Rows, Start, drift_of, memory_of
from qsim.qmc.sampling.series import ENERGIES
from qsim.qmc.statistics import MINIMUM_BLOCKS
from qsim.qmc.statistics.blocking import (
    ENOUGH_TIMES,
    ROUNDING,
    Estimate,
    derived,
    reblock,
    warm_up,
    without_error,
)
from qsim.qmc.statistics.correlation import correlation
from qsim.qmc.statistics.timestep import ORDERS, Extrapolation, bounded, extrapolate
from qsim.qmc.statistics.twists import average

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.run.progress import Monitor
    from qsim.qmc.problem import Part
    from qsim.qmc.sampling.series import Series
    from qsim.qmc.wavefunction.singular import Divergence

__all__ = ["Analysis", "Fit", "analyse", "average_of", "fit_sections"]

DRIFT = 0.01  # chance of a false alarm below which a decay in a series counts as drift
MEMORIES = 3.0  # memories that a run must last, by those at other time steps
HEAVY = 0.02  # of the variance: share of a divergence that spoils its error bar
# 1/hartree: relaxation of an electron with zeta = 1, where the mean kinetic energy is that of a core.
VALENCE = 8.0 / 3.0
RESOLVED = 3.0  # relaxations in a run whose correlation, however uncertain, is not longer than the run itself
SINGLE = 1e-8  # of the parts of an energy: what single precision leaves of a constant one (traps and atoms: up to 4e-9)
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
    population_bias
        Of diffusion: by how much the control of the population raises the energy, hartree, estimated; part of its error.
    cut_energy
        Of diffusion: mean of what the window of branching cuts off from local energies, hartree.
    memory, length
        Decay time of the correlation, and the time that the blocks last, 1/hartree.
    """

    cut: int
    estimates: Mapping[str, Estimate]
    population_bias: float = 0.0
    memory: float = 0.0
    length: float = 0.0
    cut_energy: float = 0.0

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
        To zero; None where it is not requested or not possible.
    parts
        Number of the part of each time step.
    """

    index: int
    timesteps: NDArray[np.float64]
    energies: NDArray[np.float64]
    errors: NDArray[np.float64]
    extrapolation: Extrapolation | None
    parts: list[int] = field(default_factory=list)


def analyse(
    series: Series,
    monitor: Monitor,
    singular: Sequence[Divergence] | None = (),
    momentum: float = 1.0,
    particles: int = 1,
    *,
    single: bool = False,
) -> Analysis | None:
    """Return the statistics of the blocks of a part, and warn of what they do not show; None for an optimisation.

    Parameters
    ----------
    series
        Blocks of the part.
    monitor
        Takes notes and warnings.
    singular
        Where the local energy diverges; None if that is not known.
    momentum
        Mass over half the number of particles: the mean kinetic energy times it is the square of a wave number.
    particles
        How many there are: the kinetic energy of one of them says how fast walkers leave the places where they started.
    single
        True if local energies have the rounding of single precision.
    """
    if series.kind == "optimize":
        return None
    label = series.label
    # Whatever fails here costs error bars, not the run: means are reported without them.
    statistics = monitor.judged(
        f"the error bars of {label}",
        lambda: _statistics(series, particles, SINGLE if single else ROUNDING),
        None,
    )
    cut, found, rows = statistics or (0, _means(series), None)
    _without_error(series, found, singular, momentum, monitor)
    # Blocks that still rise or fall are left out, which the user is told.
    if cut:
        monitor.note(f"{label}: {cut} of {series.blocks['energy'].size} blocks are left out as warm-up")
    # A trial function that vanishes where the ground state does not has too few walkers there
    # at any time step.
    if series.kind == "dmc" and (places := [one.where for one in singular or () if one.vanishes]):
        monitor.warn(
            f"{label}: the energy is not reliable at any time step, since the trial function vanishes where "
            f"{' and where '.join(places)} meet, though the ground state does not; take orbitals that are finite there"
        )
    unseen: list[str] = []
    for text in monitor.judged(
        f"the warm-up that {label} needs",
        lambda: list(_warnings(series, cut, found, rows, particles)),
        unseen,
    ):
        monitor.warn(f"{label}: {text}")
    # Population control acts on diffusion alone.
    bias = 0.0
    if series.kind == "dmc":
        bias = monitor.judged(
            f"the population-control bias of {label}",
            lambda: _population_bias(series, found["energy"], rows),
            math.nan,
        )
    if error := found["energy"].error:
        # what population control does is part of the error: without the one nothing is claimed of the other
        found["energy"] = replace(
            found["energy"], error=None if math.isnan(bias) else math.hypot(error, bias)
        )
        # Systematic, and larger than chance: more blocks would not help.
        if bias > error:
            monitor.warn(
                f"{label}: the population-control bias of {series.info['walkers']:.0f} walkers, about {bias:.2g} hartree, "
                f"is larger than the statistical error, {error:.2g}; more walkers make it smaller, in inverse proportion"
            )
    cut_energy = float(np.mean(series.blocks["cut_energy"][cut:])) if series.kind == "dmc" else 0.0
    if rows is None or "block_time" not in series.info:
        return Analysis(cut, found, bias, cut_energy=cut_energy)
    time = series.info["block_time"] / rows.per_block
    memory_time = monitor.judged(f"the memory of {label}", rows.memory, 0.0) * time
    return Analysis(cut, found, bias, memory_time, rows.sums.shape[0] * time, cut_energy)


def _statistics(
    series: Series, particles: int, rounding: float
) -> tuple[int, dict[str, Estimate], Rows | None]:
    """Return the blocks to leave out, the means of the others with their errors, and their sums.

    The parts of an energy are added up with a relative error `rounding`, below which no error is claimed.
    """
    total = int(series.blocks["energy"].size)
    # Two criteria for the start: where the energies have settled, and how long walkers need
    # to forget where they were placed.
    most = max(0, total - MINIMUM_BLOCKS)  # a short series keeps its error bar
    cut = min(warm_up(series.blocks["energy"]), most)
    # At most half of the blocks are given up for the second one; beyond that there is a
    # warning.
    start = Start.of(series, cut, particles)
    missing = start.missing if start else 0
    cut = min(cut + missing, max(cut, min(most, total // 2)))
    blocks = {name: np.asarray(values)[cut:] for name, values in series.blocks.items()}
    # Blocks of diffusion have different weights; those of vmc are equal.
    weights = blocks["weight"] if series.kind == "dmc" else None
    rows = Rows.of(series, cut)
    # The scale of rounding: parts of an energy are larger than their sum.
    size = sum(abs(float(blocks[name].mean())) for name in ENERGIES[:-1])
    found = {
        name: reblock(
            blocks[name],
            weights,
            rows.mean_of(k) if rows else None,
            rounding * size if blocks[name].any() else 0.0,
        )
        for k, name in enumerate(ENERGIES)
    }
    # The variance is a function of two means, whose errors are correlated: error by its
    # influences.
    energy, square = blocks["energy"], blocks["energy_squared"]
    shift = float(energy[0])  # squares of deviations from one of the values cancel less
    moved = energy - shift, square - 2.0 * shift * energy + shift * shift
    found["variance"] = derived(
        lambda e, s: max(s - e * e, 0.0),
        moved,
        weights,
        rows.variance() if rows else None,
        positive=True,
        rounding=ROUNDING * size**2,
    )
    for name in ("acceptance", "population"):
        if name in blocks:
            found[name] = reblock(blocks[name])
    return cut, found, rows


def _means(series: Series) -> dict[str, Estimate]:
    """Return the means of all blocks, which claim nothing."""
    weights = series.blocks["weight"]
    means = {name: float(np.average(series.blocks[name], weights=weights)) for name in ENERGIES}
    means["variance"] = series.info["variance"]
    for name in ("acceptance", "population"):
        if name in series.blocks:
            means[name] = float(np.mean(series.blocks[name]))
    return {name: without_error(x, weights.size, "it could not be found") for name, x in means.items()}


def average_of(analyses: Sequence[Analysis], weights: Sequence[float]) -> Analysis:
    """Return the statistics of a part averaged over twists; population control moves the energies of all to the same side."""
    # Statistical errors of twists are independent; the bias of population control has the
    # same sign in all of them, so that it is taken out of the errors first, averaged, and put
    # back.
    shares = np.asarray(weights) / sum(weights)
    bias = float(shares @ [one.population_bias for one in analyses])
    energies = [
        replace(one.energy, error=math.sqrt(max(one.energy.error**2 - one.population_bias**2, 0.0)))
        if one.energy.error
        else one.energy
        for one in analyses
    ]
    found = {
        name: average([one.estimates[name] for one in analyses], weights) for name in analyses[0].estimates
    }
    energy = average(energies, weights)
    if energy.error is not None:
        energy = replace(energy, error=math.hypot(energy.error, bias))
    return Analysis(
        max(one.cut for one in analyses),
        {**found, "energy": energy},
        bias,
        max(one.memory for one in analyses),
        min(one.length for one in analyses),
        float(shares @ [one.cut_energy for one in analyses]),
    )


def _population_bias(series: Series, energy: Estimate, rows: Rows | None) -> float:
    r"""Estimate by how much population control raises the energy of diffusion, hartree.

    A population of mean energy e(t) should grow by :math:`\exp(-\int(e-E)dt)`, and the trial energy undoes that within a time
    :math:`1/g`.  Undone, configurations of low energy weigh too little: to first order the mean energy is too high by
    :math:`\int_0^\infty\langle\delta E_T(t-s)\,\delta e(t)\rangle ds=\tfrac12\epsilon^2t\,gT/(1+gT)`, with the error
    :math:`\epsilon` of the mean over a time t and the memory T of e(t).
    """
    if rows is None or energy.constant or "feedback" not in series.info:
        return 0.0
    # T in the equation is at least half a row: shorter memories are not resolved.
    time = series.info["block_time"] / rows.per_block
    found = rows.mean_of(ENERGIES.index("energy"))
    plain = correlation(found.y, independent=found.independent)
    memory_time = series.info["feedback"] * max(memory_of(found), 0.5) * time
    return 0.5 * plain.error**2 * found.y.shape[1] * time * memory_time / (1.0 + memory_time)


def _without_error(
    series: Series,
    found: dict[str, Estimate],
    singular: Sequence[Divergence] | None,
    momentum: float,
    monitor: Monitor,
) -> None:
    """Take the error bar from a variance that diverging local energies make up, or may do if nobody knows."""
    variance = found["variance"]
    # Nobody knows whether the local energy diverges: no claim about the variance.
    if singular is None:
        found["variance"] = replace(variance, error=None, error_of_error=None, plateau=False)
        return
    square = momentum * abs(found["kinetic"].mean)  # 1/bohr^2
    # E_L ~ c / r has a finite variance, but no fourth moment, which its error bar needs;
    # small c cannot be seen in samples of any length that is run.
    where = [one.where for one in singular if one.strength**2 * square > HEAVY * abs(variance.mean)]
    if variance.error is None or not where:
        return
    text = f"the local energy diverges where {' and where '.join(where)} meet, since there is no cusp"
    monitor.note(
        f"{series.label}: the variance has no error bar: {text}; its estimates scatter without bound, and a Jastrow factor "
        "with the right cusp cures it"
    )
    found["variance"] = replace(variance, error=None, error_of_error=None, plateau=False, reason=text)


def _warnings(
    series: Series, cut: int, found: Mapping[str, Estimate], rows: Rows | None, particles: int
) -> Iterator[str]:
    """Yield what the blocks that are kept, those after the first `cut`, do not show."""
    # Walkers that stay in place look as if they had no correlation.
    if series.kind == "vmc" and (accepted := found["acceptance"].mean) < FEW_ACCEPTED:
        yield (
            f"only {100 * accepted:.2g} % of the moves were accepted, so that the walkers hardly left their places; take a "
            "smaller timestep"
        )
    energy = found["energy"]
    too_short = bool(energy.reason) and not _is_resolved(series, rows, particles)
    if too_short:
        yield energy.reason
    elif energy.error is not None and not energy.constant and not energy.plateau:
        yield (
            f"the run is less than {ENOUGH_TIMES:g} upper bounds of its correlation time long, so that its error bar is "
            f"uncertain itself ({series.kind}_error_is_converged is false); take more blocks"
        )
    # Drift is tested in energy and kinetic energy; of several tests the least chance is
    # compared with its share of the level.
    if energy.error is None or energy.constant or rows is None:
        return  # nothing fluctuates
    start = Start.of(series, cut, particles)
    if start and start.missing:
        yield start.text(series)
    elif not too_short and (chance := min(drift_of(rows.mean_of(k)) for k in rows.tested)) < DRIFT / len(
        rows.tested
    ):
        yield f"the energy or a part of it still drifts (by chance: {100 * chance:.1g} %); a longer warm-up helps"


def _is_resolved(series: Series, rows: Rows | None, particles: int) -> bool:
    """Return True if a run lasts for several relaxations: Student's factor then needs to know the degrees of freedom alone.

    A run shorter than its correlation looks the same by itself, but its error bar is too small by any factor.
    """
    if rows is None or "block_time" not in series.info:
        return False
    # The slowest decay that physics knows of, whatever the series shows: valence electrons
    # are slower than the mean kinetic energy says.
    length = rows.sums.shape[0] / rows.per_block * series.info["block_time"]
    slowest = rows.relaxation(particles)
    if particles > 2:
        slowest = max(slowest, VALENCE)
    return 0.0 < RESOLVED * slowest <= length


def fit_sections(
    parts: Sequence[Part], analyses: list[Analysis | None], monitor: Monitor, scale: float = 1.0
) -> list[Fit]:
    """Return, for each dmc section, its energies by time step and their extrapolation; `scale` is the highest energy, hartree."""
    fits = []
    for index in sorted({part.section for part in parts if part.kind == "dmc"}):
        # Time steps in ascending order, as the fit needs them.
        mine = [k for k, part in enumerate(parts) if part.section == index]
        mine.sort(key=lambda k: float(parts[k].timestep))
        energies: list[Any] = [found.energy for k in mine if (found := analyses[k]) is not None]
        taus = np.array([float(parts[k].timestep) for k in mine])
        errors = np.array([np.nan if e.error is None else e.error for e in energies])
        monitor.judged(
            f"the memories of dmc section {index}",
            functools.partial(_compare_memories, mine, parts, analyses, monitor),
            None,
        )
        means = np.array([e.mean for e in energies])
        cut = np.array([found.cut_energy for k in mine if (found := analyses[k]) is not None])
        order = parts[mine[0]].extrapolate
        at_zero = monitor.judged(
            f"the extrapolation of section {index} to zero time step",
            functools.partial(_extrapolated, order, taus, means, errors, cut, scale, monitor),
            None,
        )
        fits.append(Fit(index, taus, means, errors, at_zero, mine))
    return fits


def _compare_memories(
    mine: list[int], parts: Sequence[Part], analyses: list[Analysis | None], monitor: Monitor
) -> None:
    """Tell of runs that are short beside the memory that runs at other time steps have: alone, they do not show it."""
    found = {k: one for k in mine if (one := analyses[k]) and one.energy.error and not one.energy.constant}
    # A run that is shorter than its own correlation time cannot see it; neighbours at other
    # time steps may.
    longest = max((one.memory for one in found.values()), default=0.0)
    for k, one in found.items():
        if not one.energy.reason and 0.0 < one.length < MEMORIES * longest:
            monitor.warn(
                f"dmc, tau = {parts[k].timestep:g}: the run lasts {one.length:.2g}/hartree, too few correlation times, since "
                f"other time steps remember for {longest:.2g}/hartree; its error bar may be too small: take more blocks"
            )


def _extrapolated(
    order: Literal["linear", "quadratic", "none"],
    taus: NDArray[np.float64],
    energies: NDArray[np.float64],
    errors: NDArray[np.float64],
    cut: NDArray[np.float64],
    scale: float,
    monitor: Monitor,
) -> Extrapolation | None:
    """Extrapolate energies to zero time step; None, with a warning, where that is impossible."""
    # A fit needs at least one point more than parameters of the order.
    if order == "none" or taus.size < ORDERS[order] + 1:
        return None
    if not np.all(errors > 0.0):  # NaN where there are too few blocks
        monitor.warn(
            "no extrapolation to zero time step, since an error bar is missing; more blocks give one"
        )
        return None
    try:
        found = extrapolate(taus, energies, errors.tolist(), order)
    except NumericsError as error:
        monitor.warn(f"no extrapolation to zero time step: {error}")
        return None
    remedy = "smaller time steps" + (", or extrapolate: quadratic" if order == "linear" else "")
    # A fit that chance explains in one of 1000 runs.
    if found.probability < 1e-3:
        text = f"the {order} fit of the energies to the time steps is poor (chi squared {found.chi2:.1f})"
        monitor.warn(f"{text}, so that the extrapolation is not reliable; {remedy}")
    # The truncated orders of the polynomial are part of the error: estimated from the time
    # steps' size.
    found = bounded(found, taus, energies, errors, cut, order, scale)
    if found.truncation > 2.0 * math.sqrt(found.covariance[0, 0]):
        reason = f"since the time steps reach {taus.max() * scale:.2g} over the highest energy"
        if found.cut > 0.5 * found.truncation:
            reason = (
                f"since branching cuts off {cut.min():.2g} to {cut.max():.2g} hartree of the local energies"
            )
            remedy = "smaller time steps, or a trial function with less variance"
        monitor.warn(
            f"the error of the extrapolation to zero time step, {found.error:.2g} hartree, comes mostly from the {order} fit, "
            f"{reason}; {remedy}"
        )
    return found

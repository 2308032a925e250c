"""High harmonics of an atom: orders, spectrum, time-frequency map; the transforms are in :mod:`qsim.tridiag.tdse.harmonics`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.tridiag.tdse import harmonics

if TYPE_CHECKING:
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.atom.result import AtomResult

__all__ = ["fundamental", "highest_order", "spectrum", "time_frequency_map"]

# where the deck leaves the orders open and the cutoff law gives fewer
LEAST_ORDERS = 30


def fundamental(problem: AtomProblem, omega: float | None) -> float:
    """Return the frequency that harmonics count in."""
    frequency = problem.pulse.omega if omega is None else omega
    # the plan has seen to it
    assert frequency is not None
    return float(frequency)


def highest_order(problem: AtomProblem, given: float | str, omega: float) -> float:
    """Return the highest harmonic order of a block."""
    if not isinstance(given, str):
        return float(given)
    # semiclassical cutoff; 1.6 times as far, so that the fall beyond it is seen
    cutoff = (problem.ip + 3.17 * problem.pulse.up) / omega
    return float(math.ceil(max(LEAST_ORDERS, 1.6 * cutoff)))


def spectrum(result: AtomResult) -> None:
    """Add the harmonic spectrum, summed over the components of the dipole, and its cutoffs."""
    problem, block = result.problem, result.problem.observed.hhg
    assert block is not None
    omega = fundamental(problem, block.omega)
    top = highest_order(problem, block.max_order, omega)
    parts = [
        harmonics.hhg(result.traced("time"), signal, omega, block.window, top, form=block.form)
        for signal in result.components(block.form)
    ]
    # powers of the components add up: they are emitted with perpendicular polarisations
    order, power = parts[0][0], np.sum([one[1] for one in parts], axis=0)
    result.spectra |= {"hhg_order": order, "hhg_spectrum": power}
    if problem.pulse.up > 0.0:
        classical = (problem.ip + 3.17 * problem.pulse.up) / omega
        result.numbers["hhg_cutoff_classical"] = classical
        result.numbers["hhg_cutoff_order"] = harmonics.cutoff_order(order, power, classical)


def time_frequency_map(result: AtomResult) -> None:
    """Add the power of the acceleration against time and harmonic order, summed over its components."""
    problem, block = result.problem, result.problem.observed.gabor
    assert block is not None
    omega = fundamental(problem, block.omega)
    top = highest_order(problem, block.max_order, omega)
    parts = [
        harmonics.gabor(result.traced("time"), signal, omega, max_order=top, width=block.width)
        for signal in result.components("acceleration")
    ]
    t, order = parts[0][:2]
    power = np.sum([one[2] for one in parts], axis=0)
    result.spectra |= {"gabor_time": t, "gabor_order": order, "hhg_gabor": power}

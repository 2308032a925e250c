"""Cross sections of one solution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.driven import continuum
from qsim.sturmian.scatter.cross_sections import amplitudes, spectra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.setup import Setup
    from qsim.sturmian.scatter.cross_sections.kinematics import Kinematics
    from qsim.sturmian.scatter.cross_sections.spectra import Sharing

# Largest principal quantum number of the levels.
HIGHEST = 8
# Lowest principal quantum number of the levels that follow the n^-3 law.
FIRST = 2
# Relative error of an amplitude over the amplitude of the wave that comes back from the end of the contour.
RETURNED = 2.0

Measured = tuple[float, float]
"""A value and its error."""


@dataclass
class Observed:
    """Cross sections of one solution.

    Attributes
    ----------
    L, S : int
    total : float
        All channels together, by the optical theorem.
    levels : dict of (float, float)
        Excitation of (n, l), with what still depends on the radius.
    rest : (float, float) or None
        Levels beyond those that the box holds, by the n^-3 law, with its error; None where nothing tells them.
    sharing : Sharing or None
        Density of energy sharing over e/E.
    break_up : (R, P, 2) complex128 or None
        Amplitudes at the energies of fdcs for every radius: f_ab(k1, k2) and f_ab(k2, k1).
    pairs : list of (la, lb)
    matrix : complex
        Element of the S-matrix from 1s to 1s with the orbital momentum L of the other electron (e_h).
    determinant : complex or None
        Of the whole S-matrix (e_h), where the deck asks for eigenphases.
    determinant_error : float
        What that matrix lacks of a symmetric unitary one, and what the end of the contour reflects.
    total_error, matrix_error : float
        What the end of the contour reflects, of ``total`` and ``matrix``; levels and sharing hold it in their errors.
    """

    L: int
    S: int
    total: float
    levels: dict[tuple[int, int], Measured]
    rest: Measured | None
    sharing: Sharing | None
    break_up: NDArray[np.complex128] | None
    pairs: list[tuple[int, int]]
    matrix: complex = 1.0 + 0j
    total_error: float = 0.0
    matrix_error: float = 0.0
    determinant: complex | None = None
    determinant_error: float = 0.0


def observe(
    solution: amplitudes.Inside,
    setup: Setup,
    kin: Kinematics,
    L: int,
    S: int,
    wants: Sequence[str],
    ejected: tuple[float, float] | None,
) -> Observed:
    """Return the cross sections of one solution."""
    weight, E = kin.weight(L, S), kin.E
    ls = sorted({l for pair in solution.pairs for l in pair})
    continuum.prepare((setup.continuum, setup.outside), ls, setup.device.threads)
    channels = amplitudes.channels(
        solution,
        setup.continuum,
        setup.outside,
        E,
        highest=HIGHEST,
        surfaces=not setup.numbers.whole,
    )
    # Channels with one bound electron: a level (n, l) collects the flux of all momenta with which the other electron
    # leaves.
    levels: dict[tuple[int, int], Measured] = {}
    series: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
    matrix = 1.0 + 0j
    total_error = matrix_error = 0.0
    for channel in channels:
        value, spread = weight * channel.flux, weight * channel.flux_error
        # the contour returns a wave, which changes an amplitude by this share and a cross section by twice as much
        returned = RETURNED * setup.reflection(channel.k)
        total_error += returned * value
        spread += 2.0 * returned * value
        before = levels.get((channel.n, channel.l), (0.0, 0.0))
        levels[channel.n, channel.l] = (before[0] + value, before[1] + spread)
        series.setdefault((channel.l, channel.leaves), []).append((channel.n, value, spread))
        if (channel.n, channel.l, channel.leaves) == (1, 0, L):
            # the incident electron is number 2: for L = 0 the one component is read with electron 1 outside, which exchanges them
            sign = (-1) ** S if L == 0 else 1
            matrix = 1.0 + 2j * channel.k * math.sqrt(2.0) * sign * channel.amplitude
            matrix_error = returned * abs(matrix - 1.0)
    # below the break-up threshold the levels of the box are all there are
    rest = _rest(series, solution.pairs) if E > 0.0 else (0.0, 0.0)
    # Two free electrons: the density over the share of the energy, from surfaces of several radii, extrapolated to
    # an infinite one.
    sharing, break_up = None, None
    ends = solution.ends()
    if E > 0.0 and ("sdcs" in wants or "sigma" in wants or "unitarity" in wants):
        x, _ = spectra.energies()
        densities = amplitudes.density(solution, setup.continuum, E, x * E, ends)
        sharing = spectra.extrapolate(ends, 2.0 * math.pi * weight * E * densities)
        returned = RETURNED * setup.reflection(math.sqrt(2.0 * E))
        total_error += returned * abs(sharing.total)
        sharing = replace(
            sharing,
            error=sharing.error + 2.0 * returned * np.abs(sharing.value),
            total_error=sharing.total_error + 2.0 * returned * abs(sharing.total),
        )
    if E > 0.0 and ejected is not None:
        break_up = amplitudes.breakup(solution, setup.continuum, E, ejected, ends)
    return Observed(
        L,
        S,
        weight * solution.flux,
        levels,
        rest,
        sharing,
        break_up,
        list(solution.pairs),
        matrix,
        total_error,
        matrix_error,
    )


def _rest(
    series: dict[tuple[int, int], list[tuple[int, float, float]]], pairs: Sequence[tuple[int, int]]
) -> Measured | None:
    """Return the sum over the levels beyond the known ones, ``n^3 sigma_n = a + b / n^2``, and its error.

    None if the box holds no excited s level: then nothing tells the sum.  A series of a larger l of which it holds no level
    counts as an error as large as the flux of the nearest series of a smaller l.
    """
    from scipy.special import zeta

    # Series of which the box holds no level: as much as the nearest one of a smaller l may be missing.
    total = error = 0.0
    needed = {(stays, leaves) for a, b in pairs for stays, leaves in ((a, b), (b, a))}
    for l, leaves in needed:
        if max((n for n, _, _ in series.get((l, leaves), [])), default=0) >= max(FIRST, l + 1):
            continue
        known_ls = {m for (m, _), known in series.items() if m < l and known[-1][0] >= FIRST}
        if not known_ls:
            return None
        nearest = max(known_ls)
        below = [v for (m, _), known in series.items() if m == nearest for n, v, _ in known if n >= FIRST]
        error += sum(below)
    # The others by the n^-3 law: sum over m > n of a / m^3 + b / m^5 with a and b from the last two levels, the
    # error half of what b changes; with one level a alone.
    # n = 1 does not follow the law of high levels and is left out.
    for entries in series.values():
        known = [entry for entry in sorted(entries) if entry[0] >= FIRST]
        if not known:
            continue
        n, value, _ = known[-1]
        constant = value * n**3
        low = constant * float(zeta(3, n + 1))
        if len(known) == 1:
            total, error = total + low, error + 0.15 * low
            continue
        m, before, _ = known[-2]
        b = (constant - before * m**3) / (1.0 / n**2 - 1.0 / m**2)
        a = constant - b / n**2
        fitted = a * float(zeta(3, n + 1)) + b * float(zeta(5, n + 1))
        total, error = total + fitted, error + 0.5 * abs(fitted - low)
    return total, error

r"""Divergences of the local energy, which leave its variance without an error bar.

Where particles meet at a distance r without the cusp of their interaction, the local energy goes as :math:`c/r`.  Its
mean square is finite, but the mean fourth power is not: estimates of the variance have no variance of their own, and scatter as
a stable law of index 3/2 (Trail).  With :math:`E_L\sim r^{-p}` and :math:`\Psi^2\sim r^q` that is so for :math:`4p\ge q+3`.

References
----------
J. R. Trail, Phys. Rev. E 77, 016703 (2008), doi:10.1103/PhysRevE.77.016703.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["Divergence", "divergences"]

DISTANCES = (1e-2, 1e-3, 1e-4)  # bohr, each a tenth of the one before
CONFIGURATIONS = 2
MOST_ELECTRONS = 100  # beyond, the test would take longer than it is worth
DIVERGES = 0.5  # smallest power that is one
WEAK = 1e-3  # hartree bohr: what tables and rounding leave of a cusp that is right


class Divergence(NamedTuple):
    """Two kinds of particles that meet without a cusp.

    Attributes
    ----------
    where
        Words for them.
    strength
        c of ``c / r``, hartree bohr.
    vanishes
        True if the trial function itself vanishes there, so that the local energy goes as ``1 / r^2``.
    """

    where: str
    strength: float
    vanishes: bool = False


def divergences(wavefunction: Wavefunction) -> list[Divergence]:
    """Return where the variance of the local energy has no error bar: opposite spins, and each species of bare nuclei."""
    if wavefunction.n_electrons > MOST_ELECTRONS:
        return []
    generator = np.random.default_rng(1)
    found: dict[str, tuple[float, bool]] = {}
    for _ in range(CONFIGURATIONS):
        R = wavefunction.scatter(1, generator)[0]
        direction = generator.standard_normal(3)
        direction /= np.linalg.norm(direction)
        moved = {}
        for where, e, centre in _meetings(wavefunction, R):
            moved[where, e] = np.repeat(R[None], len(DISTANCES), axis=0)
            moved[where, e][:, e] = centre + np.array(DISTANCES)[:, None] * direction
        if not moved:
            continue
        # all of them at once, for the time it takes
        known = wavefunction.knowing(np.concatenate(list(moved.values())))
        for (where, _), configurations in moved.items():
            found[where] = max(found.get(where, (0.0, False)), _strength(known, configurations))
    return [Divergence(where, *what) for where, what in found.items() if what[0] > WEAK]


def _meetings(
    wavefunction: Wavefunction, R: NDArray[np.float64]
) -> Iterator[tuple[str, int, NDArray[np.float64]]]:
    """Yield the electrons that are put near something, and where that is.

    It is the nearest one of its spin: another would leave its own atom empty, and of orbitals that do not reach from one atom to
    the next nothing is left then.
    """
    system, n_up = wavefunction.system, wavefunction.n_up
    spins = [range(n_up), range(n_up, wavefunction.n_electrons)]

    def nearest(spin: range, place: NDArray[np.float64]) -> int:
        return spin[int(np.argmin(np.linalg.norm(R[spin.start : spin.stop] - place, axis=1)))]

    if system.interacting and all(spins):
        yield "two electrons of opposite spin", nearest(spins[1], R[0]), R[0].copy()
    for symbol in system.species:
        if symbol and system.is_bare(symbol):
            place = system.positions[system.symbols.index(symbol)]
            for spin in filter(None, spins):
                yield f"an electron and the nucleus of {symbol}", nearest(spin, place), place


def _strength(wavefunction: Wavefunction, configurations: NDArray[np.float64]) -> tuple[float, bool]:
    """Return c of a divergence and whether it goes as 1 / r^2; 0 if it does no harm.

    Parameters
    ----------
    configurations : (3, N, 3) float64
        With an electron at each of `DISTANCES` from what it meets, bohr.
    """
    energy, density = [], []
    for moved in configurations:
        density.append(2.0 * wavefunction.log_psi(moved)[0])
        if not math.isfinite(density[-1]):  # nothing is ever found there
            return 0.0, False
        energy.append(_local_energy(wavefunction, moved))
    first, second = energy[1] - energy[0], energy[2] - energy[1]
    if not (math.isfinite(first) and math.isfinite(second)) or first == 0.0 or second == 0.0:
        return 0.0, False
    power = math.log10(abs(second / first))
    vanishing = (density[1] - density[2]) / math.log(10.0)
    if power < DIVERGES or 4.0 * round(power) < round(vanishing) + 3.0:
        return 0.0, False
    return abs(second) * DISTANCES[2] / 0.9, round(power) > 1


def _local_energy(wavefunction: Wavefunction, R: NDArray[np.float64]) -> float:
    """Return the part of the local energy that can diverge, hartree."""
    system = wavefunction.system
    energy = float(-0.5 / system.mass * wavefunction.laplacian_over_psi(R).sum())
    if system.interacting:
        r = np.linalg.norm(R[:, None] - R, axis=-1)
        energy += float((1.0 / r[np.triu_indices(len(R), 1)]).sum())
    for symbol, place, charge in zip(system.symbols, system.positions, system.charges, strict=True):
        if symbol and system.is_bare(symbol):
            energy -= float((charge / np.linalg.norm(R - place, axis=-1)).sum())
    return energy

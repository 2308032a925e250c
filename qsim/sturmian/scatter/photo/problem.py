"""Photoionisation over many photon energies, settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.deck.photon import PhotonRange
from qsim.sturmian.deck.symmetry import pairs as pairs_up_to
from qsim.sturmian.driven.problem import Problem
from qsim.sturmian.driven.sources import GAUGES
from qsim.sturmian.radial.potentials import DOUBT
from qsim.sturmian.two_electron.extrapolation import partial_wave_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.driven.setup import Bound, Setup

__all__ = ["Photoionisation"]

# Hartree: largest residual of an initial state, in the grid of the deck and in the coarser one.
EXACT, ROUGH = 1e-8, 1e-6
# Values of l_max from which the energy of all partial waves is taken.
POINTS = 3


@dataclass
class Photoionisation(Problem):
    """Photon energies of one initial state and the symmetries of the final states.

    Attributes
    ----------
    measured : (m, 2 or 3) float64 or None
        Photon energy in eV, cross section in Mb, and its error where the file of the deck has one.
    """

    measured: NDArray[np.float64] | None = None

    @property
    def gauges(self) -> list[str]:
        """Gauges of the deck in the order in which they follow from each other."""
        return [gauge for gauge in GAUGES if gauge in self.task.gauges]

    def shows(self, observable: str) -> bool:
        """Tell whether the results hold an observable: one that the deck names, or any if it names none."""
        if "observables" not in self.task.model_fields_set:
            return True
        # cross sections of levels are called excitation in collisions
        named = {"partial" if name == "excitation" else name for name in self.task.observables}
        return observable in named

    @property
    def by_excess(self) -> bool:
        """True if the deck gives the energy of both electrons, which no error of the initial state moves."""
        return not self.settings.photons

    def photons(self, threshold: float) -> NDArray[np.float64]:
        """Return the photon energies of the deck, hartree, ascending, where they count from a threshold."""
        if self.by_excess:
            return np.sort(np.array(self.settings.energies)) - threshold
        return np.array(self.settings.photons)

    @property
    def refines(self) -> bool:
        """True if energies are added across resonances."""
        given = self.task.excess if self.by_excess else self.task.photon
        return isinstance(given, PhotonRange) and given.refine == "resonances"

    @property
    def extrapolates(self) -> bool:
        """True if photon energies count from the energy of all partial waves."""
        return self.task.threshold == "extrapolated" and self.settings.channels.pairs is None

    @property
    def initial_l_max(self) -> int:
        """Largest orbital momentum of the initial state."""
        block = self.settings.initial
        return block.l_max if block.l_max is not None else max(self.l_max, block.L)

    def initial(self, setup: Setup, poll: Callable[[], None], l_max: int, *, coarser: bool = False) -> Bound:
        """Return the bound state that the photon meets, with pairs up to some momentum, on the grid of a setup."""
        block = self.settings.initial
        pairs = pairs_up_to(block.L, l_max, S=block.S)
        return setup.bound(block.L, block.S, block.root, pairs, ROUGH if coarser else EXACT, poll)

    def energy_of_all_waves(
        self, setup: Setup, bound: Bound, poll: Callable[[], None]
    ) -> tuple[float, float]:
        """Return the energy of the initial state in the limit of all partial waves, and its error, hartree."""
        block, top = self.settings.initial, self.initial_l_max
        first = max(block.L, top - POINTS + 1)
        if not self.extrapolates or top <= first:
            return bound.energy, 0.0
        momenta = list(range(first, top + 1))
        energies = [self.initial(setup, poll, l).energy for l in momenta[:-1]] + [bound.energy]
        value, error, _ = partial_wave_limit(momenta, energies, L=block.L, S=block.S)
        # both electrons, first order
        density = sum((part**2).sum(axis=1) for part in bound.components.values())
        real = setup.grid.is_real
        table = 2.0 * DOUBT * float(density[real] @ self.potential.unsure(setup.grid.r.real[real]))
        return float(value), float(error) + table

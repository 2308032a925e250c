"""States on which sigma^z = 2 Sz of a site acted at t = 0: correlations in time, and out-of-time-order correlators.

With ``phi_k(t) = U sigma_k psi(0)``: ``<Sz_j(t) Sz_k> = <psi(t)| Sz_j |phi_k(t)> / 2``, whose real part follows from the moments
of ``psi + phi`` and ``psi - phi``.  With ``W(t) = U^dagger sigma_w U``, both ``W(t) psi(0)`` and ``W(t) sigma_v psi(0)`` are
made by a way back, and ``F = Re <sigma_v W(t) psi(0)| W(t) sigma_v psi(0)>``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from qsim.trotter.kernels.states.measure import moments_of_axis
from qsim.trotter.measurement.spaces import moments_in
from qsim.trotter.observables.correlations import Otoc, TimeCorrelation
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.moments import diagonal_moments
from qsim.trotter.sectors.spin_operators import weighted
from qsim.trotter.sectors.states import restricted, whole_state
from qsim.trotter.states.vectors import norm2, overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem


class Propagates(Protocol):
    """A state with its propagator."""

    @property
    def psi(self) -> Any:
        """The state, on the device."""

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry the state over some steps from a time on; dt may be negative."""


def sigma_z(problem: Problem, psi: NDArray[Any], site: int) -> Any:
    """Return ``sigma^z = 2 Sz`` of a site times a vector of the problem, a new array."""
    sector, device = problem.sector, problem.device
    with device.use():
        if isinstance(sector, DigitSpace):
            levels = sector.twos[site] - 2 * sector.digit(sector.strings(), site)
            return device.asarray(levels.astype(psi.real.dtype)) * psi
        if isinstance(sector, Sector):
            factors = np.zeros(problem.spins, np.complex128)
            # sigma^z = 2 S^z
            factors[site] = 2.0
            return weighted(sector, device, psi, factors).astype(psi.dtype)
        # its spin follows from the others
        if sector is not None and site == problem.spins - 1:
            whole = whole_state(sector, device, psi)
            # in the state of all spins the upper half has the last spin down
            whole[sector.dimension :] *= -1
            return restricted(sector, device, whole)
        flipped = psi.copy()
        # bit `site` set: spin down, sigma^z = -1
        flipped.reshape(-1, 2, 1 << site)[:, 1, :] *= -1
        return flipped


def _spins(problem: Problem, psi: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``<S^z_j>``, not divided by the norm."""
    sector, device = problem.sector, problem.device
    if isinstance(sector, DigitSpace):
        return moments_in(sector, device, psi).s["z"]
    if isinstance(sector, Sector):
        return np.asarray(diagonal_moments(sector, device, psi)[1], np.float64)
    with device.use():
        state = whole_state(problem.space, device, psi)
        return moments_of_axis(device, state)[1]


class SigmaStates:
    """The states ``sigma^z_k psi(t)`` of all sites k that correlators need.

    Parameters
    ----------
    problem : Problem
    make : function
        Returns the propagator of a state, which may be overwritten.
    start : (D,) complex
        State at t = 0, if nothing is restored.
    restored : mapping of site to (D,) complex, optional

    Attributes
    ----------
    propagators : dict of int to Propagates
        By site.
    """

    def __init__(
        self,
        problem: Problem,
        make: Callable[[Any], Propagates],
        start: NDArray[Any] | None,
        restored: Mapping[str, Any] | None = None,
    ) -> None:
        self.problem, self.make = problem, make
        self.propagators: dict[int, Propagates] = {}
        # sigma^z_k psi(0) is carried from the start on
        for site in sorted(problem.observables.needs.sigma_sites):
            if restored is not None:
                state = problem.device.asarray(restored[str(site)])
            else:
                assert start is not None
                state = sigma_z(problem, start, site)
            self.propagators[site] = make(state)

    def state(self) -> dict[str, Any]:
        """Return the states for a checkpoint."""
        return {str(site): propagator.psi for site, propagator in self.propagators.items()}

    def advance(self, start: float, dt: float, steps: int) -> None:
        """Carry all states over some steps."""
        for propagator in self.propagators.values():
            propagator.advance(start, dt, steps)

    def correlations(self, psi: NDArray[Any]) -> dict[str, Any]:
        """Return ``Re <S^z_j(t) S^z_k>`` of all sites j, (N,), from the state psi(t); nothing if it is not observed."""
        observable = self.problem.observables.get(TimeCorrelation)
        if observable is None:
            return {}
        phi = self.propagators[observable.site].psi
        with self.problem.device.use():
            # the difference of <Sz> in psi + phi and psi - phi is 4 Re <psi| Sz |phi>, and phi has a sigma = 2 Sz
            difference = _spins(self.problem, psi + phi) - _spins(self.problem, psi - phi)
        return {"time_correlation": 0.125 * difference / norm2(psi)}

    def otoc(
        self,
        psi: NDArray[Any],
        back: Callable[[], Iterator[tuple[float, float, int]]],
        report: Callable[[], None],
    ) -> dict[str, Any]:
        """Return ``Re <W(t) V W(t) V>`` of every V, (V,), from the state psi(t).

        Parameters
        ----------
        back : function
            Returns the (start, dt, steps) of the way back.
        report : function
            Called wherever the way back may be interrupted.
        """
        problem, observable = self.problem, self.problem.observables.get(Otoc)
        assert observable is not None
        block = observable.block

        def returned(state: NDArray[Any]) -> Any:
            propagator = self.make(sigma_z(problem, state, block.w))
            for begin, dt, steps in back():
                propagator.advance(begin, dt, steps)
                report()
            return propagator.psi

        # W(t) psi(0): forward by the trajectory, sigma_w, back; and the same of sigma_v psi(0)
        plain = returned(psi)
        overlaps = []
        for site in block.v:
            other = returned(self.propagators[site].psi)
            overlaps.append(overlap(sigma_z(problem, plain, site), other).real)
        return {"otoc": np.array(overlaps) / norm2(psi)}

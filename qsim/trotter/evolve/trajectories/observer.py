"""Observables of one trajectory, one row per output time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.trotter.deck.axes import AXES
from qsim.trotter.observables import observables
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.parity import ParitySector
from qsim.trotter.sectors.schmidt import Spectrum, sector_schmidt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["Observer", "target"]

PATTERN = {"complex128": 1e-12, "complex64": 1e-5}  # below which <Sz> at t = 0 is rounding


class Observer:
    """A trajectory's Hamiltonians, reference states and observables.

    Parameters
    ----------
    problem : Problem
    member : int
        Number of the trajectory.
    target : (2^N,) complex, optional
        State of `fidelity`, see :func:`target`.

    Attributes
    ----------
    hamiltonian, perturbed : Hamiltonian
        The latter leads back in echoes.
    psi0 : (2^N,) complex or None
        State at t = 0, if it is needed later.
    rows : dict of lists
        Observables: one entry per output time (`echo`: one per time of `Problem.echo_at`).
    """

    def __init__(self, problem: Problem, member: int, target: Amplitudes | None = None) -> None:
        self.problem, self.target = problem, target
        self.hamiltonian = self.perturbed = problem.hamiltonian(member)
        echo = problem.asked.echo
        if echo is not None and echo.sigma:
            self.perturbed = self.hamiltonian + problem.sigma(member)
        needs_start = problem.asked.block("return_probability") or (echo is not None and not echo.overlap)
        self.psi0: Any = problem.initial(member) if needs_start else None
        self.rows: dict[str, list[Any]] = {}

    @property
    def axes(self) -> str:
        """Axes along which the moments are needed: all that the energy or a deck entry asks for."""
        asked = {"z", *self.problem.asked.totals, *(axes[0] for axes in self.problem.asked.pairs)}
        coupled = {AXES[a] for a in self.hamiltonian.envelope.axes}
        return "z" if asked | coupled == {"z"} else "xyz"

    def row(
        self, reached: int, moments: Moments, psi: Amplitudes, entropies: Sequence[float] | None = None
    ) -> dict[str, Any]:
        """Return the observables at a time; expectation values are divided by the norm.

        Parameters
        ----------
        reached : int
            Number of the time.
        moments, psi
            Of the state (2^N,) then.
        entropies : (cuts,) float64, optional
            If they are known already.
        """
        found = self._expectations(self.problem.times[reached], moments)
        found |= self._of_state(self.problem.times[reached], moments, psi, entropies)
        return found | self._memory(moments)

    def _expectations(self, time: float, moments: Moments) -> dict[str, Any]:
        """Return the observables that follow from the moments: norm, energy, spins and correlators."""
        problem = self.problem
        found: dict[str, Any] = {
            "norm": moments.norm,
            "energy": observables.energy(moments, self.hamiltonian, time),
        }
        for a in problem.asked.totals:
            found[f"total_s{a}"] = observables.total(moments, a)
        for a in AXES:
            if (sites := problem.asked.sites(a)) is not None:
                found[f"s{a}"] = observables.local(moments, a)[sites]
        for axes, pairs in problem.asked.pairs.items():
            found[f"correlator_{axes}"] = observables.correlators(moments, axes[0], pairs)
        return found

    def _of_state(
        self, time: float, moments: Moments, psi: Amplitudes, entropies: Sequence[float] | None
    ) -> dict[str, Any]:
        """Return the observables that need the amplitudes: entropies, overlaps, the variance of the energy."""
        problem = self.problem
        found: dict[str, Any] = {}
        if problem.asked.cuts:
            more = entropies is None or problem.asked.entropies or problem.asked.schmidt
            found |= self._entropies(psi) if more else {"entropy": np.array(entropies)}
        if problem.asked.block("return_probability"):
            found["return_probability"] = observables.fidelity(self.psi0, psi)
        if self.target is not None:
            found["fidelity"] = observables.fidelity(self.target, psi)
        if problem.asked.block("energy_variance") and moments.variance is not None:
            found["energy_variance"] = moments.variance
        elif problem.asked.block("energy_variance"):
            device = problem.device
            found["energy_variance"] = observables.energy_and_variance(device, self.hamiltonian, psi, time)[1]
        return found

    def _memory(self, moments: Moments) -> dict[str, Any]:
        """Return the observables that compare the polarisation with that at t = 0."""
        found: dict[str, Any] = {}
        if self.problem.asked.block("imbalance"):
            if "_pattern" not in self.rows:  # kept beside the rows, for a resumed trajectory
                self.rows["_pattern"] = [self._pattern(observables.local(moments, "z"))]
            found["imbalance"] = observables.imbalance(moments, self.rows["_pattern"][0])
        if (site := self.problem.asked.autocorrelation_site) is not None:
            found["polarisation"] = observables.polarisation(moments)
            found["autocorrelation"] = float(found["polarisation"][site])
        return found

    def _entropies(self, psi: Amplitudes) -> dict[str, Any]:
        """Return the entropies of all cuts, and their largest Schmidt values."""
        problem = self.problem
        labelled = isinstance(problem.sector, Sector)
        if isinstance(problem.sector, ParitySector):
            psi = problem.sector.whole(problem.device, psi)
        if not isinstance(problem.sector, Sector):
            cuts = [
                Spectrum.unlabelled(observables.schmidt(problem.device, psi, cut))
                for cut in problem.asked.cuts
            ]
        else:
            cuts = [sector_schmidt(problem.sector, problem.device, psi, cut) for cut in problem.asked.cuts]
        found: dict[str, Any] = {"entropy": np.array([cut.entropy for cut in cuts])}
        if "number" in problem.asked.entropies:
            found["number_entropy"] = np.array([cut.number_entropy for cut in cuts])
        if "renyi2" in problem.asked.entropies:
            found["renyi2"] = np.array([cut.renyi2 for cut in cuts])
        if problem.asked.schmidt:
            values, sz = zip(*(cut.largest(problem.asked.schmidt) for cut in cuts), strict=True)
            found["schmidt"] = np.array(values)
            if labelled and problem.members == 1:
                found["schmidt_sz"] = np.array(sz)
        return found

    def _pattern(self, pattern: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the pattern at t = 0, unless it is rounding."""
        least = PATTERN[np.dtype(self.problem.dtype).name]
        if float(np.abs(pattern).max()) < least:
            raise NumericsError(
                f"imbalance: the largest |<Sz>| at t = 0 is {float(np.abs(pattern).max()):.2g}, and a pattern below {least:g} is "
                "rounding, by which nothing can be divided",
                hint="leave imbalance out, or take an initial state with a pattern along z",
            )
        return pattern

    def echo(self, back: Amplitudes, moments: Moments | None) -> dict[str, Any]:
        """Return the echo of a state that came back; its moments for the local echo."""
        asked = self.problem.asked
        result = observables.echo(self.psi0, back)
        found: dict[str, Any] = {"echo": result.echo if asked.echo_sigma else result.unnormalised}
        if not asked.echo_sigma:
            found["echo_normalised"] = result.echo
        if asked.echo_local and moments is not None:
            found["echo_local"] = observables.polarisation(moments)[asked.echo_local]
        return found

    def record(self, reached: int, found: Mapping[str, Any]) -> None:
        """Append a row.

        Raises
        ------
        NumericsError
            If anything in it is not finite.
        """
        for name, value in found.items():
            if not np.all(np.isfinite(value)):
                raise NumericsError(
                    f"{name} is not finite at t = {self.problem.times[reached]:g}",
                    hint="lower evolve.dt",
                )
            self.rows.setdefault(name, []).append(value)


def target(problem: Problem) -> Amplitudes | None:
    """Return the state of `fidelity`, None if it is not asked for."""
    block = problem.asked.block("fidelity")
    if block is None:
        return None
    from qsim.trotter.states import initial as states

    return states.load_state(block.file, problem.spins, problem.device, problem.dtype)

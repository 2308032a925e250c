"""Master equation of small systems: the density matrix from output time to output time, with a bound of its error.

Constant generators are exponentials by Arnoldi's method; others commutator-free Magnus steps of order 4, each once as a whole and
once as two halves, whose distance tells the error.  The evolution shortens differences in the norm of the trace, so that the
errors of all steps add up at most; ``||x||_1 <= D^(1/2) ||x||_2`` in a space of D states.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.core.run.loop import Progress
from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.drifts import pieces_of
from qsim.trotter.evolve.open.spaces import why_mixing
from qsim.trotter.evolve.trajectories.observer import reference
from qsim.trotter.model.open.channels import digits_of, jump_model
from qsim.trotter.observables.base import View
from qsim.trotter.sectors.digits.liouville import Doubled
from qsim.trotter.sectors.digits.measure import product_of
from qsim.trotter.sectors.selection import lowered_of
from qsim.trotter.sectors.symmetric import SymmetricSector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.run.loop import Report
    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.observables.base import Pair

__all__ = ["Density", "DensityView", "density_choice", "order_kept", "start_of"]

# of a Krylov space: few vectors of a matrix with few elements a row
VECTORS = 16
NODE = math.sqrt(3.0) / 6.0
HEAVY, LIGHT = 0.25 + NODE, 0.25 - NODE
# share of the accuracy that the steps are held to; rounding has the rest
SHARE = 0.5
SHORTEST = 1e-9
ULP = 2.2e-16


def order_kept(problem: Problem) -> int | None:
    """Return 0 if all elements of the density matrix of a problem have the order of coherence 0, None if they may not."""
    if lowered_of(problem.models, problem.start) is None or why_mixing(problem):
        return None
    return 0


def density_choice(problem: Problem) -> Choice:
    """Return the tolerance of the exponentials, and the error that the deck asks for."""
    accuracy = problem.evolution.accuracy if problem.evolution.accuracy is not None else 1e-8
    end = problem.times[-1]
    root = math.sqrt(float(np.prod([two + 1.0 for two in problem.models.system.twos])))
    rate = SHARE * accuracy / root / end if end > 0.0 else accuracy
    return Choice("arnoldi", None, accuracy, 1, 0.0, rate)


def start_of(problem: Problem, doubled: Doubled, member: int) -> NDArray[np.complex128]:
    """Return the density matrix of the initial state of a member."""
    space = problem.space
    # a jump of one site has no character of permutations: decks ask for none, see `open.rules`
    assert not isinstance(space, SymmetricSector)
    return doubled.pure(space.strings(), problem.device.to_host(problem.initial(member)))


class DensityView(View):
    """A density matrix, as observables see it.

    Parameters
    ----------
    doubled : Doubled
    v : (D,) complex128
        With the trace 1.
    start : (D,) complex128, optional
        That of t = 0.
    model : Model, optional
        H then.
    reference : (D,) complex128, optional
        State that it is compared with.
    """

    def __init__(
        self,
        doubled: Doubled,
        v: NDArray[np.complex128],
        start: Any = None,
        model: Any = None,
        reference: Any = None,
    ) -> None:
        self.doubled, self.v, self.start, self.model, self.reference = doubled, v, start, model, reference

    def spins(self, axis: str) -> NDArray[np.float64]:
        """Return ``<S^a_j>`` of every site."""
        twos = self.doubled.twos
        w = np.eye(3)["xyz".index(axis)]
        found = []
        for j in range(len(twos)):
            vectors = np.zeros((len(twos), 3), complex)
            vectors[j] = w
            found.append(self.doubled.mean(("s", axis, j), jump_model(vectors, twos), self.v).real)
        return np.array(found)

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return ``<S^a_j S^a_k>`` of pairs, or ``<S^a_j S^b_k>``."""
        axes = axis if len(axis) == 2 else 2 * axis
        return np.array(
            [
                self.doubled.mean((axes, j, k), product_of(self.doubled.twos, axes, j, k), self.v).real
                for j, k in pairs
            ]
        )

    def correlator_matrix(self, axis: str) -> NDArray[np.float64]:
        """Return ``<S^a_j S^a_k>`` of all sites."""
        n = len(self.doubled.twos)
        values = self.correlators(axis, [(j, k) for j in range(n) for k in range(n)])
        return np.asarray(values.reshape(n, n))

    def fidelity(self, state: Literal["start", "reference"]) -> float:
        """Return ``<psi| rho |psi>`` with the pure state at t = 0, or that of a file."""
        other = self.start if state == "start" else self.reference
        # the observable needs it
        assert other is not None
        return float(np.vdot(other, self.v).real)

    def energy(self, v: NDArray[np.complex128] | None = None) -> float:
        """Return ``<H>``, or ``Tr(H v)`` of another matrix."""
        doubled = self.doubled
        # an H that depends on time is another one at the next
        key = "h" if doubled.hamiltonian.is_static else None
        return doubled.mean(key, digits_of(self.model, doubled.twos), self.v if v is None else v).real

    def variance(self) -> float:
        """Return ``<H^2> - <H>^2``."""
        moved = self.doubled.applied(digits_of(self.model, self.doubled.twos), self.doubled, self.v)
        return self.energy(moved) - self.energy() ** 2


class Density:
    """The density matrix of one realisation of the disorder or one random state; with the face of `Ensemble`.

    Attributes
    ----------
    members : range
        Its number.
    reached : int
        Number of the time up to which the evolution is complete.
    trace, hermiticity : float
        Largest deviations from 1 and from a Hermitian matrix.
    """

    passes = 0

    def __init__(
        self, problem: Problem, members: range, how: Choice, restored: Mapping[str, Any] | None = None
    ) -> None:
        self.problem, self.members, self.how = problem, members, how
        member = members.start
        self.hamiltonian = problem.hamiltonian(member)
        twos = problem.models.system.twos
        self.doubled = Doubled(problem.device, self.hamiltonian, problem.channels, twos, order_kept(problem))
        self.start = start_of(problem, self.doubled, member)
        other = reference(problem)
        if other is not None:
            space = problem.space
            assert not isinstance(space, SymmetricSector)
            other = self.doubled.pure(space.strings(), problem.part_of(other))
        self.reference = other
        self.x = self.doubled.real_of(self.start)
        self.exponential = Arnoldi(self.x.size, VECTORS, np.float64)
        self.root = math.sqrt(float(np.prod([two + 1.0 for two in twos])))
        self.error = 0.0
        self.reached = 0
        self.rows: dict[str, list[Any]] = {}
        if restored is not None:
            self.x = np.array(fitting(restored, "x", self.x.shape))
            self.reached, self.error = int(restored["reached"]), float(restored["error"])
            self.rows = {name: list(values) for name, values in restored["rows"].items()}

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        rows = {name: np.array(values) for name, values in self.rows.items()}
        return {"x": self.x, "reached": self.reached, "error": self.error, "rows": rows}

    def results(self) -> list[dict[str, NDArray[np.float64]]]:
        """Return the rows as arrays."""
        return [{name: np.array(values, float) for name, values in self.rows.items()}]

    @property
    def v(self) -> NDArray[np.complex128]:
        """The vector of the density matrix."""
        return self.doubled.of_real(self.x)

    psi = v

    def advance(self, report: Report, done: int = 0) -> None:
        """Evolve and observe to the end."""
        times = self.problem.times
        self._observe()
        for k in range(self.reached, len(times) - 1):
            self.carry(times[k], times[k + 1], lambda: report(Progress()))
            self.reached = k + 1
            self._observe()
            report(Progress(done + self.reached, {"energy": self.rows["energy"][-1]}))

    # -------------------------------------------------------------------------------------- evolution

    def carry(self, start: float, end: float, look: Callable[[], None]) -> None:
        """Bring the density matrix from a time to another one."""
        parts = self.doubled.real_parts
        before = self.exponential.error
        if all(f is None for f, _ in parts):
            matrix = parts[0][1]
            self.x = self.exponential.advance(
                lambda x: matrix @ x, self.x, end - start, self.how.tolerance * (end - start)
            )
            self.error += self.root * (self.exponential.error - before)
            return
        for begin, length in pieces_of(start, end - start, self.problem.kinks):
            self._driven(begin, length, look)

    def _magnus(self, v: NDArray[Any], start: float, h: float, tolerance: float) -> NDArray[Any]:
        times = (start + (0.5 - NODE) * h, start + (0.5 + NODE) * h)
        parts = self.doubled.real_parts
        for heavy, light in ((HEAVY, LIGHT), (LIGHT, HEAVY)):
            weights = [0.5 if f is None else heavy * f(times[0]) + light * f(times[1]) for f, _ in parts]
            apply = lambda x, w=weights: sum(a * (m @ x) for a, (_, m) in zip(w, parts, strict=True))  # noqa: E731
            v = self.exponential.advance(apply, v, h, tolerance)
        return v

    def _driven(self, start: float, length: float, look: Callable[[], None]) -> None:
        """Carry the density matrix on under a generator that changes, by steps that errors choose."""
        done, h = 0.0, min(length, 0.25)
        while done < length * (1.0 - 1e-12):
            h = min(h, length - done)
            allowed = max(self.how.tolerance * h, 32.0 * ULP)
            at = start + done
            whole = self._magnus(self.x, at, h, 0.02 * allowed)
            half = self._magnus(self.x, at, 0.5 * h, 0.02 * allowed)
            half = self._magnus(half, at + 0.5 * h, 0.5 * h, 0.02 * allowed)
            error = float(np.linalg.norm(whole - half)) / 15.0 + 0.1 * allowed
            if error <= allowed:
                self.x, done = half, done + h
                self.error += self.root * error
            elif h < SHORTEST * length:
                raise NumericsError(
                    f"no step is accurate enough at t = {at:g}", hint="ask for a larger evolve.accuracy"
                )
            h *= min(3.0, max(0.2, 0.9 * (0.9 * allowed / max(error - 0.1 * allowed, 1e-300)) ** 0.25))
            look()

    # ------------------------------------------------------------------------------------ observation

    def _observe(self) -> None:
        """Observe at the time reached, unless that was done before the run was interrupted."""
        if len(self.rows.get("energy", ())) > self.reached:
            return
        time, doubled, v = self.problem.times[self.reached], self.doubled, self.v
        model = self.hamiltonian.at(time)
        view = DensityView(doubled, v, self.start, model, self.reference)
        values: dict[str, Any] = {
            "norm": doubled.trace(v).real,
            "energy": view.energy(),
            "total_sz": math.fsum(view.spins("z")),
            "purity": doubled.purity(v),
        }
        for observable in self.problem.observables:
            values |= observable.values(view)
        for name, value in values.items():
            if not np.all(np.isfinite(value)):
                raise NumericsError(f"{name} is not finite at t = {time:g}", hint="ask for another accuracy")
            self.rows.setdefault(name, []).append(value)

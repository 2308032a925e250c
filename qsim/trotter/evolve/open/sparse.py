"""Drift in a space of digits by Krylov exponentials of sparse matrices: any coupling, any spin, sectors that jumps connect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.evolve.open.arnoldi import Arnoldi
from qsim.trotter.evolve.open.drifts import Stretch, pieces_of, profiles_of, step_by_step
from qsim.trotter.evolve.propagators.chebyshev import linear_in, measured
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.model.open.channels import charge_of, decays_of, digits_of, jump_model
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.evolve.problem import Problem
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian
    from qsim.trotter.model.open.channels import Channel

# of the commutator-free step of order 4, as in `propagators.krylov`
NODE = math.sqrt(3.0) / 6.0
HEAVY, LIGHT = 0.25 + NODE, 0.25 - NODE


class _Matrices(NamedTuple):
    """Matrices in one space.

    Attributes
    ----------
    parts : list of (f, matrix)
        ``-i H`` and ``-1/2 sum L^+ L`` with their profiles.
    jumps : list of (matrix, space) or None
        Jump operators and the spaces that they lead to.
    decay : list of (f, matrix)
        ``sum L^+ L``.
    """

    parts: list[tuple[Any, Any]]
    jumps: list[tuple[Any, DigitSpace] | None]
    decay: list[tuple[Any, Any]]


class SparseDrift:
    """A state in a space of digits, by Krylov exponentials of sparse matrices.

    Parameters
    ----------
    problem : Problem
        Its space is the one that trajectories begin in.
    hamiltonian : Hamiltonian
    channels : sequence of Channel
    tolerance : float
        Error of a step, relative to the norm.
    """

    # the norm tells when a jump is due
    clock = None

    def __init__(
        self, problem: Problem, hamiltonian: Hamiltonian, channels: Sequence[Channel], tolerance: float
    ) -> None:
        self.problem, self.hamiltonian, self.channels = problem, hamiltonian, channels
        self.tolerance = tolerance
        self.twos = problem.models.system.twos
        self.decays = decays_of(channels, self.twos)
        self.driven = bool(profiles_of(hamiltonian, self.decays))
        self.kinks = problem.kinks
        self.space = self._home
        self._vector: NDArray[np.complex128] = np.zeros(0, np.complex128)
        self._of: dict[Any, _Matrices] = {}
        self._exponentials: dict[int, Arnoldi] = {}

    @property
    def _home(self) -> DigitSpace:
        """The space that trajectories begin in."""
        space = self.problem.space
        # `open_space` gives such a one to states that matrices carry
        assert isinstance(space, DigitSpace)
        return space

    def _matrices(self) -> _Matrices:
        """Return the matrices of the space in which the state is, made at the first call."""
        space = self.space
        if space not in self._of:
            device = self.problem.device

            def matrix(model: Model) -> Any:
                return DigitOperator(device, space, digits_of(model, self.twos)).matrix.astype(np.complex128)

            identity = DigitOperator(device, space, digits_of(Model.zero(len(self.twos)), self.twos)).matrix
            energies = [(None, self.hamiltonian.static), *self.hamiltonian.driven]
            decay = []
            for one in self.decays:
                unit = identity.astype(np.complex128)
                unit.setdiag(one.constant)
                decay.append((one.factor, (matrix(one.model) + unit).tocsr()))
            parts = [(f, -1j * matrix(model)) for f, model in energies] + [(f, -0.5 * m) for f, m in decay]
            # parts without a profile are one matrix
            still = [m for f, m in parts if f is None]
            moving = [(f, m) for f, m in parts if f is not None]
            together = [(None, sum(still[1:], still[0]).tocsr())] if still else []
            self._of[space] = _Matrices(together + moving, [self._jump(c) for c in self.channels], decay)
        return self._of[space]

    def _jump(self, channel: Channel) -> tuple[Any, DigitSpace] | None:
        """Return a jump operator and the space that it leads to, None where it annihilates all states."""
        to = self.space
        if to.down >= 0:
            charge = charge_of(channel)
            assert charge is not None
            down = to.down - charge
            if not 0 <= down <= sum(self.twos):
                return None
            to = DigitSpace(self.twos, down)
        model = jump_model(channel.w, self.twos)
        return DigitOperator(self.problem.device, to, model, self.space).matrix.astype(np.complex128), to

    @property
    def psi(self) -> NDArray[np.complex128]:
        """The state (D,) in its space, not normalised."""
        return self._vector

    def begin(self, psi: Any, space: Any = None) -> None:
        """Take a state, and the space that it is in."""
        self.space = self._home if space is None else space
        self._vector = np.array(psi, np.complex128)

    def _exponential(self, weights: Sequence[float], tau: float) -> None:
        """Advance by ``exp(tau sum_p w_p A_p)``."""
        parts = self._matrices().parts
        size = self._vector.size
        exponential = self._exponentials.setdefault(size, Arnoldi(size))

        def apply(x: NDArray[np.complex128]) -> NDArray[np.complex128]:
            total = None
            for weight, (_, matrix) in zip(weights, parts, strict=True):
                if weight != 0.0:
                    y = matrix @ x
                    total = weight * y if total is None else total + weight * y
            return np.zeros_like(x) if total is None else total

        if len(parts) == 1 and weights[0] == 1.0:
            matrix = parts[0][1]
            self._vector = exponential.advance(lambda x: matrix @ x, self._vector, tau, self.tolerance)
        else:
            self._vector = exponential.advance(apply, self._vector, tau, self.tolerance)

    def step(self, t: float, tau: float) -> None:
        """Make one step of any length: of a constant drift exact, else of order 4 between kinks."""
        if tau == 0.0:
            return
        parts = self._matrices().parts
        if not self.driven:
            self._exponential([1.0] * len(parts), tau)
            return
        for start, length in pieces_of(t, tau, self.kinks):
            times = (start + (0.5 - NODE) * length, start + (0.5 + NODE) * length)
            for heavy, light in ((HEAVY, LIGHT), (LIGHT, HEAVY)):
                weights = [0.5 if f is None else heavy * f(times[0]) + light * f(times[1]) for f, _ in parts]
                self._exponential(weights, length)

    def stretch(self, t: float, dt: float, steps: int, least: float) -> Stretch:
        """Make full steps from a time on, until the norm squared is below `least`."""
        return step_by_step(self, t, dt, steps, least)

    def weight(self, t: float) -> tuple[float, float]:
        """Return the norm squared, and the rate of all jumps times it."""
        psi, q = self._vector, 0.0
        for f, matrix in self._matrices().decay:
            q += (1.0 if f is None else f(t)) * float(np.vdot(psi, matrix @ psi).real)
        return float(np.vdot(psi, psi).real), q

    def rates(self, t: float) -> NDArray[np.float64]:
        """Return the rate of every channel, times the norm squared, (K,)."""
        found = np.zeros(len(self.channels))
        for k, (channel, jump) in enumerate(zip(self.channels, self._matrices().jumps, strict=True)):
            if jump is not None:
                x = jump[0] @ self._vector
                found[k] = channel.strength(t) * float(np.vdot(x, x).real)
        return found

    def jump(self, channel: int) -> None:
        """Apply a jump operator and normalise."""
        made = self._matrices().jumps[channel]
        assert made is not None
        x = made[0] @ self._vector
        self._vector, self.space = x / np.linalg.norm(x), made[1]

    def measure(self, axes: str, t: float) -> Moments:
        """Return the moments of the state, and its energy."""
        problem, model = self.problem.in_space(self.space), self.hamiltonian.at(t)
        linear = linear_in(problem, digits_of(model, self.twos))
        return measured(problem, model, linear, self._vector, axes, True)

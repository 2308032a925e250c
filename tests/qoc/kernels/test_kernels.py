"""Kernels of qoc: a plain NumPy or SciPy computation = CPU twin = CUDA.

Tolerances.  One step solves a system with ``U = I + i tau/2 H``, whose condition number is at most ``1 + tau/2 |H|``; its
factors do not grow, so N steps leave an error of about ``eps N (1 + tau/2 |H|)`` times the size of the result, in the kernel
and in the oracle alike.  An eigenbasis step is a product with a unitary matrix of K columns: ``eps N sqrt(K)``, and a phase
``theta`` carries the rounding of its argument, ``eps |theta|``.
"""

import functools

import numpy as np
import pytest
from scipy.linalg import expm, solve_banded

from qsim.core.device.device import cpu
from qsim.qoc.kernels import banded
from qsim.qoc.kernels.eigenbasis import (
    EigenBatch,
    Update,
    _padded,
    _phases,
    eb_backward,
    eb_costates,
    eb_forward,
    eb_krotov,
)
from qsim.qoc.kernels.grid import MAX_CUDA_POINTS, GridBatch, cn_backward, cn_forward, each_trajectory
from qsim.qoc.models.molecule import kinetic_bands

EPS = {np.dtype(np.float64): 2.3e-16, np.dtype(np.float32): 1.2e-7}
C_GRID = 2.0  # of the grid bound; at most 0.35 was seen on a CPU
C_BASIS = 4.0  # of the eigenbasis bound; at most 1.7 was seen on a CPU

POINTS = [6, 7, 16, 31, 32, 33, 41, 161, 256, 257]
POINTS_CUDA = [1021, 2049, MAX_CUDA_POINTS]
STATES = [2, 7, 8, 9, 24, 31, 32, 33, 64]
STEPS = [0, 1, 7, 8, 9, 33]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def random_complex(generator, *shape):
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


def agree(found, expected, tolerance, scale=None):
    """Compare with ``tolerance`` times the largest element, or times the size of what was summed up."""
    scale = np.abs(expected).max(initial=0.0) if scale is None else scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


# ----------------------------------------------------------------------------------- grid: the problem


class Grid:
    """Two systems, two fields, and trajectories of all sorts, as plain double-precision arrays.

    ``stiffness`` is ``tau/2 |H|`` of the stiffer system without a field.
    """

    def __init__(self, points, steps, *, stiffness=10.0, shift=0.0, strength=1.0, seed=1):
        generator = np.random.default_rng([seed, points, steps])
        x = np.linspace(-8.0, 8.0, points)
        dx = float(x[1] - x[0])
        self.h, self.mu, self.off = np.empty((2, points)), np.empty((2, points)), np.empty((2, 2))
        for s, mass in enumerate((1.0, 1.7)):
            centre, self.off[s, 0], self.off[s, 1] = kinetic_bands(mass, dx)
            self.h[s] = centre + x**4 / 64 - x**2 / 4 + x**3 / 256 + shift
            self.mu[s] = (1.0 + 0.3 * s) * x + 0.1
        norm = np.abs(self.h).max() + 2 * np.abs(self.off).sum(axis=1).max()
        self.tau, self.dx = 2.0 * stiffness / norm, dx
        self.eps = strength * generator.standard_normal((3, steps)) * norm / 8.0 / stiffness
        self.system = np.array([0, 1, 1, 0, 0])
        self.field = np.array([0, 0, 2, 1, 2])
        self.scale = np.array([1.0, 1.0, 0.9, -1.3, 1.0])
        self.psi = random_complex(generator, 5, points)
        self.source = np.array([0, 0, 1, 3, 4, 4, 4])  # trajectory 2 has no costate
        self.q = random_complex(generator, 7, points)
        reach = np.abs(self.mu).max() * np.abs(self.eps).max(initial=0.0) * 1.3
        self.bound = max(steps, 1) * (1.0 + 0.5 * self.tau * (norm + reach))

    def batch(self, device, real):
        def put(array):
            return device.asarray(np.array(array, dtype=real))

        def count(array):
            return device.asarray(np.array(array, dtype=np.int32))

        return GridBatch(
            put(self.h),
            put(self.mu),
            put(self.off),
            count(self.system),
            count(self.field),
            put(self.scale),
            self.tau,
            self.dx,
        )

    def forward(self, device, real=np.float64, keep=True):
        """Return states at T, midpoint means and the batch."""
        kind = np.result_type(real, np.complex64)
        psi = device.asarray(self.psi.astype(kind))
        eps = device.asarray(self.eps.astype(real))
        trajectory = None
        if keep:
            trajectory = device.asarray(np.full((5, *self.eps.shape[1:], self.h.shape[1]), np.nan, kind))
        batch = self.batch(device, real)
        cn_forward(device, batch, psi, eps, trajectory)
        return psi, trajectory, batch, eps

    def backward(self, device, real=np.float64, keep=True):
        """Return derivatives and costates at t = 0."""
        psi, trajectory, batch, eps = self.forward(device, real, keep)
        q = device.asarray(self.q.astype(psi.dtype))
        rows = cn_backward(
            device, batch, q, device.asarray(self.source.astype(np.int32)), psi, eps, trajectory
        )
        return device.to_host(rows), device.to_host(q)


def bands(problem, t, j):
    """``tau/2 H`` of trajectory t in step j, for solve_banded, and its dipole operator."""
    s = problem.system[t]
    value = problem.scale[t] * problem.eps[problem.field[t], j]
    half = 0.5 * problem.tau
    ab = np.zeros((5, problem.h.shape[1]))
    ab[2] = half * (problem.h[s] - problem.mu[s] * value)
    ab[1, 1:] = ab[3, :-1] = half * problem.off[s, 0]
    ab[0, 2:] = ab[4, :-2] = half * problem.off[s, 1]
    return ab


def multiply(ab, y):
    """Banded matrix times the columns of y."""
    out = ab[2][:, None] * y
    out[:-1] += ab[1, 1:, None] * y[1:]
    out[1:] += ab[3, :-1, None] * y[:-1]
    out[:-2] += ab[0, 2:, None] * y[2:]
    out[2:] += ab[4, :-2, None] * y[:-2]
    return out


def crank_nicolson(ab, y):
    """``(1 + i ab)^-1 (1 - i ab) y``, straight from Eq. (4)."""
    matrix = 1j * ab
    matrix[2] += 1.0
    return solve_banded((2, 2), matrix, y - 1j * multiply(ab, y))


def cn_oracle(problem, t):
    """States at all times (N + 1, L) of one trajectory."""
    states = [problem.psi[t]]
    for j in range(problem.eps.shape[1]):
        states.append(crank_nicolson(bands(problem, t, j), states[-1][:, None])[:, 0])
    return np.array(states)


def tangent_oracle(problem, r):
    """d (q . psi_N dx) / d eps_j by propagating the derivative of the state forwards: no costate is involved.

    Also returns ``|q| |d psi_N / d eps|``: the sum over the grid may cancel.
    """
    t = problem.source[r]
    s, steps = problem.system[t], problem.eps.shape[1]
    states = cn_oracle(problem, t)
    tangents = np.zeros((states.shape[1], steps), complex)
    for j in range(steps):
        ab = bands(problem, t, j)
        if j > 0:
            tangents[:, :j] = crank_nicolson(ab, tangents[:, :j])
        # U' psi_{j+1} + U dpsi_{j+1} = conj(U') psi_j with U' = -i tau/2 scale mu
        matrix = 1j * ab
        matrix[2] += 1.0
        source = 0.5j * problem.tau * problem.scale[t] * problem.mu[s] * (states[j] + states[j + 1])
        tangents[:, j] = solve_banded((2, 2), matrix, source)
    q = problem.q[r] * problem.dx
    return q @ tangents, np.linalg.norm(q) * np.linalg.norm(tangents, axis=0).max(initial=0.0)


def costate_oracle(problem, r):
    """q carried back by the transposed steps, which are the steps themselves: U is symmetric."""
    q = problem.q[r][:, None]
    for j in reversed(range(problem.eps.shape[1])):
        q = crank_nicolson(bands(problem, problem.source[r], j), q)
    return q[:, 0]


def check_forward(problem, device, real=np.float64):
    psi, trajectory, *_ = problem.forward(device, real)
    tolerance = C_GRID * EPS[np.dtype(real)] * problem.bound
    found, means = device.to_host(psi), device.to_host(trajectory)
    for t in range(5):
        states = cn_oracle(problem, t)
        agree(found[t], states[-1], tolerance)
        agree(means[t], 0.5 * (states[1:] + states[:-1]), tolerance)


def check_backward(problem, device, real=np.float64, keep=True):
    rows, q = problem.backward(device, real, keep)
    # in the reversed run the states carry the error of both ways
    tolerance = (1 if keep else 2) * C_GRID * EPS[np.dtype(real)] * problem.bound
    assert rows.shape == (7, problem.eps.shape[1])
    for r in range(7):
        expected, scale = tangent_oracle(problem, r)
        agree(rows[r], expected, tolerance, scale)
        agree(q[r], costate_oracle(problem, r), tolerance)


# ------------------------------------------------------------------------------------ grid: the oracle


def test_the_oracle_is_the_dense_cayley_form():
    problem = Grid(12, 3)
    dense = np.eye(12, dtype=complex)
    for j in range(3):
        ab = bands(problem, 3, j)
        h = (
            np.diag(ab[2])
            + np.diag(ab[1, 1:], 1)
            + np.diag(ab[3, :-1], -1)
            + np.diag(ab[0, 2:], 2)
            + np.diag(ab[4, :-2], -2)
        )
        dense = np.linalg.solve(np.eye(12) + 1j * h, np.eye(12) - 1j * h) @ dense
    np.testing.assert_allclose(cn_oracle(problem, 3)[-1], dense @ problem.psi[3], rtol=0, atol=1e-13)


def test_the_oracle_derivative_is_a_difference_quotient():
    problem = Grid(12, 5)
    exact, _ = tangent_oracle(problem, 5)
    t = problem.source[5]
    step = 1e-6 * np.abs(problem.eps).max()
    for j in range(5):
        overlaps = []
        for sign in (1, -1):
            problem.eps[problem.field[t], j] += sign * step
            overlaps.append(problem.q[5] @ cn_oracle(problem, t)[-1] * problem.dx)
            problem.eps[problem.field[t], j] -= sign * step
        quotient = (overlaps[0] - overlaps[1]) / (2 * step)
        # central differences: truncation h^2, rounding eps / h
        assert abs(quotient - exact[j]) < 1e-8 * np.abs(exact).max()


# ------------------------------------------------------------------------------- grid: factorisation


@pytest.mark.parametrize("points", [*range(6, 24), 63, 64, 65, 161, 515])
def test_twisted_factorisation_solves_every_lane(points):
    problem = Grid(points, banded.LANES)
    h, mu, (o1, o2) = problem.h[1], problem.mu[1], problem.off[1]
    half = 0.5 * problem.tau
    fac, middle = np.zeros(banded.factor_shape(points)), np.zeros((banded.LANES, 6))
    workspace = np.zeros(7 * banded.LANES), np.zeros((2, 6, banded.LANES))
    banded.factor(h, mu, problem.eps[0].copy(), half, o1, o2, fac, middle, *workspace)
    right = problem.psi[0]
    x = banded.split_rows(2, points)
    problem.system[0], problem.scale[0] = 1, 1.0
    for lane in range(banded.LANES):
        banded.substitute(
            fac[lane], middle[lane], half * o2, right.real.copy(), right.imag.copy(), x[0], x[1]
        )
        matrix = 1j * bands(problem, 0, lane)
        matrix[2] += 1.0
        expected = solve_banded((2, 2), matrix, right)
        agree(x[0] + 1j * x[1], expected, C_GRID * EPS[np.dtype(float)] * problem.bound / banded.LANES)


# -------------------------------------------------------------------------------------- grid: kernels


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("steps", [1, 9])
def test_cn_forward(device, points, steps):
    check_forward(Grid(points, steps), device)


@pytest.mark.parametrize("steps", STEPS)
def test_cn_forward_steps(device, steps):
    check_forward(Grid(33, steps), device)


@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("keep", [True, False], ids=["stored", "reversed"])
def test_cn_backward(device, points, keep):
    check_backward(Grid(points, 9), device, keep=keep)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("keep", [True, False], ids=["stored", "reversed"])
def test_cn_backward_steps(device, steps, keep):
    check_backward(Grid(33, steps), device, keep=keep)


@pytest.mark.parametrize(
    "case", [{"shift": 300.0}, {"shift": -300.0}, {"strength": 30.0}, {"stiffness": 1000.0}]
)
@pytest.mark.parametrize("keep", [True, False], ids=["stored", "reversed"])
def test_cn_with_shifted_energies_strong_fields_and_long_steps(device, case, keep):
    problem = Grid(161, 33, **case)
    check_forward(problem, device)
    check_backward(problem, device, keep=keep)


@pytest.mark.parametrize("keep", [True, False], ids=["stored", "reversed"])
def test_cn_in_single_precision(device, keep):
    problem = Grid(161, 33, stiffness=3.0)
    check_forward(problem, device, np.float32)
    check_backward(problem, device, np.float32, keep)


@pytest.mark.gpu
@pytest.mark.parametrize("points", POINTS_CUDA)
@pytest.mark.parametrize("real", [np.float64, np.float32], ids=["double", "single"])
def test_cn_on_large_grids(cuda, points, real):
    problem = Grid(points, 9, stiffness=3.0)
    check_forward(problem, cuda, real)
    for keep in (True, False):
        check_backward(problem, cuda, real, keep)


@pytest.mark.gpu
def test_cn_cuda_equals_its_twin_on_a_long_run(cuda):
    problem = Grid(161, 400)
    for keep in (True, False):
        rows, _ = problem.backward(cuda, keep=keep)
        twin, _ = problem.backward(cpu(1), keep=keep)
        agree(rows, twin, C_GRID * EPS[np.dtype(float)] * problem.bound)


def test_cn_without_a_trajectory_keeps_the_states(device):
    problem = Grid(41, 9)
    stored = device.to_host(problem.forward(device, keep=True)[0])
    np.testing.assert_array_equal(device.to_host(problem.forward(device, keep=False)[0]), stored)


def test_cn_trajectories_do_not_see_each_other(device):
    """One trajectory alone gives the bits that it gives among others."""
    problem = Grid(41, 9)
    together = device.to_host(problem.forward(device)[0])
    problem.system, problem.field, problem.scale = problem.system[3:4], problem.field[3:4], problem.scale[3:4]
    psi, batch = device.asarray(problem.psi[3:4].copy()), problem.batch(device, np.float64)
    cn_forward(device, batch, psi, device.asarray(problem.eps))
    np.testing.assert_array_equal(device.to_host(psi)[0], together[3])


def test_cn_is_unitary(device):
    problem = Grid(161, 33, strength=10.0)
    psi, *_ = problem.forward(device)
    norms = np.linalg.norm(device.to_host(psi), axis=1) / np.linalg.norm(problem.psi, axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=0, atol=C_GRID * 2.3e-16 * problem.bound)


@pytest.mark.parametrize("points", [6, 33, 161])
def test_cn_bits_do_not_depend_on_threads(points):
    problem = Grid(points, 33)
    for keep in (True, False):
        one, two = problem.backward(cpu(1), keep=keep), problem.backward(cpu(2), keep=keep)
        np.testing.assert_array_equal(two[0], one[0])
        np.testing.assert_array_equal(two[1], one[1])


def test_cn_shapes_are_checked(device):
    problem = Grid(33, 5)
    batch, eps = problem.batch(device, np.float64), device.asarray(problem.eps)
    wrong = device.asarray(np.zeros((5, 32), complex))
    with pytest.raises(ValueError, match=r"psi must have shape .* = \(5, 33\), found \(5, 32\)"):
        cn_forward(device, batch, wrong, eps)
    with pytest.raises(ValueError, match=r"eps must have shape \(fields, steps\), found \(5,\)"):
        cn_forward(device, batch, device.asarray(problem.psi), eps[0])
    source = device.asarray(problem.source.astype(np.int32))
    with pytest.raises(ValueError, match=r"found \(5, 32\)"):
        cn_backward(device, batch, device.asarray(problem.q), source, wrong, eps)
    psi, q = device.asarray(problem.psi), device.asarray(problem.q)
    with pytest.raises(
        ValueError, match=r"q must have shape \(costates, points\) = \(7, 33\), found \(6, 33\)"
    ):
        cn_backward(device, batch, q[:6], source, psi, eps)
    short = device.asarray(np.zeros((5, 4, 33), complex))
    with pytest.raises(ValueError, match=r"trajectory must have .* = \(5, 5, 33\), found \(5, 4, 33\)"):
        cn_forward(device, batch, psi, eps, short)
    with pytest.raises(ValueError, match=r"trajectory must have .* = \(5, 5, 33\), found \(5, 4, 33\)"):
        cn_backward(device, batch, q, source, psi, eps, short)
    small = Grid(5, 5)
    with pytest.raises(ValueError, match="at least 6 points, found 5"):
        cn_forward(device, small.batch(device, np.float64), device.asarray(small.psi), eps)


@pytest.mark.gpu
def test_cn_refuses_more_points_than_a_block_holds(cuda):
    problem = Grid(MAX_CUDA_POINTS + 1, 1)
    with pytest.raises(
        ValueError, match=f"up to {MAX_CUDA_POINTS} points on a GPU, found {MAX_CUDA_POINTS + 1}"
    ):
        problem.forward(cuda)


# ---------------------------------------------------------------------------- eigenbasis: the problem


class Basis:
    """Two systems of K levels, three fields, five trajectories."""

    def __init__(self, states, steps, *, strength=1.0, shift=0.0, seed=2):
        generator = np.random.default_rng([seed, states, steps])
        self.tau = 0.3
        self.energies = np.sort(generator.uniform(0.0, 5.0, (2, states)), axis=1) + shift
        matrices = generator.standard_normal((2, states, states)) / np.sqrt(states)
        self.dipole = 0.5 * (matrices + matrices.transpose(0, 2, 1))
        self.slope, self.rotation = np.linalg.eigh(self.dipole)
        self.half = np.exp(-0.5j * self.energies * self.tau)
        self.step = np.einsum("ski,sk,skj->sij", self.rotation, self.half**2, self.rotation)
        self.eps = strength * generator.standard_normal((3, steps))
        self.system = np.array([0, 1, 1, 0, 0])
        self.field = np.array([0, 0, 2, 1, 2])
        self.scale = np.array([1.0, 1.0, 0.9, -1.3, 1.0])
        self.w = random_complex(generator, 5, states)
        self.source = np.array([0, 0, 1, 3, 4, 4, 4])
        self.q = random_complex(generator, 7, states)
        largest = 1.3 * self.tau * np.abs(self.slope).max() * np.abs(self.eps).max(initial=0.0)
        self.bound = max(steps, 1) * (np.sqrt(states) + largest)

    def batch(self, device, real):
        kind = np.result_type(real, np.complex64)

        def count(array):
            return device.asarray(np.array(array, dtype=np.int32))

        def put(array, dtype=real):
            return device.asarray(np.array(array, dtype=dtype))

        return EigenBatch(
            put(self.step, kind),
            put(self.slope),
            count(self.system),
            count(self.field),
            put(self.scale),
            self.tau,
        )

    def forward(self, device, real=np.float64, keep=True):
        kind = np.result_type(real, np.complex64)
        w, eps = device.asarray(self.w.astype(kind)), device.asarray(self.eps.astype(real))
        trajectory = None
        if keep:
            trajectory = device.asarray(np.full((5, self.eps.shape[1], self.w.shape[1]), np.nan, kind))
        batch = self.batch(device, real)
        eb_forward(device, batch, w, eps, trajectory)
        return w, trajectory, batch, eps

    def backward(self, device, real=np.float64):
        _, trajectory, batch, eps = self.forward(device, real)
        q = device.asarray(self.q.astype(trajectory.dtype))
        rows = eb_backward(device, batch, q, device.asarray(self.source.astype(np.int32)), eps, trajectory)
        return device.to_host(rows), device.to_host(q)

    # --- oracles: the split operator in the basis of the levels, with SciPy's matrix exponential

    @functools.cache  # noqa: B019  (lives as long as one test)
    def turn(self, t, j):
        """``exp(i mu scale eps tau)`` of step j."""
        s, argument = self.system[t], self.scale[t] * self.eps[self.field[t], j] * self.tau
        if self.w.shape[1] <= 24 and abs(argument) * np.abs(self.slope).max() < 10.0:
            return expm(1j * argument * self.dipole[s])
        q = self.rotation[
            s
        ]  # scaling and squaring would lose figures in strong fields, and takes long for many levels
        return (q * np.exp(1j * argument * self.slope[s])) @ q.T

    @functools.cache  # noqa: B019
    def strang(self, t, j):
        """One whole step of trajectory t between the levels: (K, K)."""
        half = np.diag(self.half[self.system[t]])
        return half @ self.turn(t, j) @ half

    def to_levels(self, t, w):
        """Amplitudes after a step whose last half is still to be done."""
        return self.half[self.system[t]] * (self.rotation[self.system[t]] @ w)

    def from_levels(self, t, c):
        s = self.system[t]
        return self.rotation[s].T @ (c / self.half[s])

    def first(self, t):
        """Amplitudes before the first step: w holds the state after its first half."""
        s = self.system[t]
        return (self.rotation[s] @ self.w[t]) / self.half[s]

    def states(self, t):
        """w after every step (N, K)."""
        c, out = self.first(t), []
        for j in range(self.eps.shape[1]):
            c = self.strang(t, j) @ c
            out.append(self.from_levels(t, c))
        return np.array(out).reshape(-1, self.w.shape[1])

    def gradient(self, r):
        """d (q . w_{N-1}) / d eps_j by propagating the derivative of the state, and |q| |d w / d eps|."""
        t = self.source[r]
        s, steps = self.system[t], self.eps.shape[1]
        c, tangents = self.first(t), np.zeros((self.w.shape[1], steps), complex)
        for j in range(steps):
            whole = self.strang(t, j)
            c = whole @ c
            tangents[:, :j] = whole @ tangents[:, :j]
            inner = 1j * self.tau * self.scale[t] * self.dipole[s]
            tangents[:, j] = self.half[s] * (inner @ (c / self.half[s]))
        tangents = self.rotation[s].T @ (tangents / self.half[s][:, None])
        return self.q[r] @ tangents, np.linalg.norm(self.q[r]) * np.linalg.norm(tangents, axis=0).max(
            initial=0.0
        )

    def costate(self, r):
        """q before the first phase: the transposed steps, without the very first half step."""
        t = self.source[r]
        s, q = self.system[t], self.q[r]
        for j in reversed(range(self.eps.shape[1])):
            q = self.rotation[s].T @ (self.turn(t, j).T @ (self.rotation[s] @ q))
            if j > 0:
                q = self.step[s].T @ q
        return q


def check_basis_forward(problem, device, real=np.float64):
    w, trajectory, *_ = problem.forward(device, real)
    tolerance = C_BASIS * EPS[np.dtype(real)] * problem.bound
    found, kept = device.to_host(w), device.to_host(trajectory)
    for t in range(5):
        states = problem.states(t)
        agree(kept[t], states, tolerance)
        agree(found[t], states[-1] if states.size else problem.w[t], tolerance)


def check_basis_backward(problem, device, real=np.float64):
    rows, q = problem.backward(device, real)
    tolerance = C_BASIS * EPS[np.dtype(real)] * problem.bound
    assert rows.shape == (7, problem.eps.shape[1])
    for r in range(7):
        expected, scale = problem.gradient(r)
        agree(rows[r], expected, tolerance, scale)
        agree(q[r], problem.costate(r), tolerance)


# -------------------------------------------------------------------------------- eigenbasis: kernels


@pytest.mark.parametrize("states", STATES)
def test_eb_forward(device, states):
    check_basis_forward(Basis(states, 9), device)


@pytest.mark.parametrize("steps", [*STEPS, 32, 64, 65])
def test_eb_forward_steps(device, steps):
    check_basis_forward(Basis(9, steps), device)


@pytest.mark.parametrize("states", STATES)
def test_eb_backward(device, states):
    check_basis_backward(Basis(states, 9), device)


@pytest.mark.parametrize("steps", [*STEPS, 32, 64, 65])
def test_eb_backward_steps(device, steps):
    check_basis_backward(Basis(9, steps), device)


@pytest.mark.parametrize("states", [8, 33])
@pytest.mark.parametrize(
    "case", [{"strength": 100.0}, {"strength": 1e4}, {"shift": 200.0}, {"shift": -200.0}]
)
def test_eb_with_strong_fields_and_shifted_energies(device, states, case):
    problem = Basis(states, 33, **case)
    check_basis_forward(problem, device)
    check_basis_backward(problem, device)


@pytest.mark.parametrize("states", [7, 24, 33])
def test_eb_in_single_precision(device, states):
    problem = Basis(states, 33)
    check_basis_forward(problem, device, np.float32)
    check_basis_backward(problem, device, np.float32)


@pytest.mark.gpu
@pytest.mark.parametrize("states", [16, 32, 64, 96])
def test_eb_cuda_equals_its_twin_on_a_long_run(cuda, states):
    problem = Basis(states, 1000)
    rows, _ = problem.backward(cuda)
    twin, _ = problem.backward(cpu(1))
    agree(rows, twin, C_BASIS * EPS[np.dtype(float)] * problem.bound)


def test_eb_is_unitary(device):
    problem = Basis(24, 33, strength=30.0)
    w, *_ = problem.forward(device)
    norms = np.linalg.norm(device.to_host(w), axis=1) / np.linalg.norm(problem.w, axis=1)
    np.testing.assert_allclose(norms, 1.0, rtol=0, atol=C_BASIS * 2.3e-16 * 33 * np.sqrt(24))


@pytest.mark.parametrize("states", [7, 33])
def test_eb_bits_do_not_depend_on_threads(states):
    problem = Basis(states, 65)
    one, two = problem.backward(cpu(1)), problem.backward(cpu(2))
    np.testing.assert_array_equal(two[0], one[0])
    np.testing.assert_array_equal(two[1], one[1])


def test_eb_trajectories_do_not_see_each_other(device):
    problem = Basis(9, 33)
    together = device.to_host(problem.forward(device)[0])
    problem.system, problem.field, problem.scale = problem.system[3:4], problem.field[3:4], problem.scale[3:4]
    w = device.asarray(problem.w[3:4].copy())
    eb_forward(device, problem.batch(device, np.float64), w, device.asarray(problem.eps))
    np.testing.assert_array_equal(device.to_host(w)[0], together[3])


def test_eb_shapes_are_checked(device):
    problem = Basis(9, 5)
    batch, eps = problem.batch(device, np.float64), device.asarray(problem.eps)
    with pytest.raises(ValueError, match=r"w must have shape .* = \(5, 9\), found \(4, 9\)"):
        eb_forward(device, batch, device.asarray(problem.w[:4].copy()), eps)
    with pytest.raises(ValueError, match=r"eps must have shape \(fields, steps\), found \(5,\)"):
        eb_forward(device, batch, device.asarray(problem.w), eps[0])
    source, q = device.asarray(problem.source.astype(np.int32)), device.asarray(problem.q)
    kept = device.asarray(np.zeros((5, 5, 9), complex))
    with pytest.raises(
        ValueError, match=r"q must have shape \(costates, states\) = \(7, 9\), found \(6, 9\)"
    ):
        eb_backward(device, batch, q[:6], source, eps, kept)
    for call in (
        lambda: eb_forward(device, batch, device.asarray(problem.w), eps, kept[:, :4]),
        lambda: eb_backward(device, batch, q, source, eps, kept[:, :4]),
    ):
        with pytest.raises(ValueError, match=r"trajectory must have .* = \(5, 5, 9\), found \(5, 4, 9\)"):
            call()


@pytest.mark.gpu
def test_eb_refuses_more_states_than_a_block_holds(cuda):
    problem = Basis(97, 1)
    with pytest.raises(ValueError, match="up to 96 states on a GPU, found 97"):
        problem.forward(cuda)


# ----------------------------------------------------------------------- eigenbasis: what is CPU only


def test_phases_are_sine_and_cosine():
    """Half a unit in the last place of 1 from the polynomials, as much from the reduction of the argument."""
    theta = np.concatenate(
        [
            np.linspace(-10.0, 10.0, 20001),
            np.arange(-2000, 2001) * (np.pi / 4),  # where the quadrant changes
            np.random.default_rng(3).uniform(-1e6, 1e6, 20000),
            [0.0, -0.0, 1e-300, 1e-9],
        ]
    )
    cosine, sine = np.empty_like(theta), np.empty_like(theta)
    _phases(theta, cosine, sine)
    np.testing.assert_allclose(cosine, np.cos(theta), rtol=0, atol=2.3e-16)
    np.testing.assert_allclose(sine, np.sin(theta), rtol=0, atol=2.3e-16)


@pytest.mark.parametrize("states", [2, 8, 9, 33])
def test_padded_matrix_is_the_real_form(states):
    problem = Basis(states, 1)
    matrix, slope = _padded(problem.batch(cpu(1), np.float64), 1)
    size = slope.size
    assert size % 8 == 0
    assert size - states < 8
    w = problem.w[0]
    line = np.zeros(2 * size)
    line[:states], line[size : size + states] = w.real, w.imag
    out = line @ matrix
    np.testing.assert_allclose(
        out[:states] + 1j * out[size : size + states], problem.step[1] @ w, rtol=0, atol=1e-14
    )


def costates_oracle(problem, t, q):
    """Costate after each phase (N, K), last to first."""
    s, steps = problem.system[t], problem.eps.shape[1]
    out = np.empty((steps, q.size), complex)
    for j in reversed(range(steps)):
        out[j] = q
        phase = np.exp(
            1j * problem.scale[t] * problem.eps[problem.field[t], j] * problem.tau * problem.slope[s]
        )
        q = problem.step[s].T @ (phase * q)
    return out


@pytest.mark.parametrize("states", [2, 7, 8, 9, 24, 33])
@pytest.mark.parametrize("steps", [0, 1, 33])
def test_eb_costates(states, steps):
    problem = Basis(states, steps)
    q = problem.q[:5]
    before = q.copy()
    found = eb_costates(problem.batch(cpu(1), np.float64), q, problem.eps)
    np.testing.assert_array_equal(q, before)
    for t in range(5):
        agree(found[t], costates_oracle(problem, t, q[t]), C_BASIS * EPS[np.dtype(float)] * problem.bound)


def test_costates_and_states_have_constant_overlap():
    problem = Basis(9, 33)
    chi = eb_costates(problem.batch(cpu(1), np.float64), problem.q[:5], problem.eps)
    trajectory = problem.forward(cpu(1))[1]
    overlaps = np.einsum("tjk,tjk->tj", chi, trajectory)
    spread = np.abs(overlaps - overlaps[:, -1:]).max()
    assert spread < C_BASIS * EPS[np.dtype(float)] * problem.bound * np.abs(overlaps).max()


def krotov_oracle(problem, chi, eps, gain, alpha, low, high):
    """The sequential update, written out with dense matrices."""
    eps, w = eps.copy(), problem.w.copy()
    for j in range(eps.size):
        if j > 0:
            w = np.array([problem.step[s] @ w[t] for t, s in enumerate(problem.system)])
        drive = 0.0
        for t, s in enumerate(problem.system):
            turned = np.exp(1j * problem.slope[s] * problem.scale[t] * eps[j] * problem.tau) * w[t]
            drive += 2.0 * np.real(1j * problem.scale[t] * np.sum(chi[t, j] * problem.slope[s] * turned))
        eps[j] = np.clip(eps[j] + gain[j] * (drive - 2.0 * alpha * eps[j]), low[j], high[j])
        for t, s in enumerate(problem.system):
            w[t] *= np.exp(1j * problem.slope[s] * problem.scale[t] * eps[j] * problem.tau)
    return eps, w


@pytest.mark.parametrize("states", [2, 9, 24])
@pytest.mark.parametrize("bounded", [False, True])
def test_eb_krotov(states, bounded):
    problem = Basis(states, 33)
    problem.field[:] = 0  # the update needs one field for all
    batch, eps = problem.batch(cpu(1), np.float64), problem.eps[0]
    chi = eb_costates(batch, problem.q[:5], problem.eps)
    gain = 0.01 * np.sin(np.pi * (np.arange(33) + 0.5) / 33) ** 2
    limit = np.full(33, 0.7 if bounded else np.inf)
    expected, last = krotov_oracle(problem, chi, eps, gain, 0.2, -limit, limit)
    found, w = eps.copy(), problem.w.copy()
    eb_krotov(batch, w, chi, found, Update(gain, 0.2, -limit, limit))
    # the gain is small, so the update does not amplify the errors of the states
    tolerance = C_BASIS * EPS[np.dtype(float)] * problem.bound
    agree(found, expected, tolerance)
    agree(w, last, tolerance)
    assert np.all(np.abs(found) <= limit)
    assert np.any(np.abs(found) == limit) == bounded
    assert np.any(found != eps)


# ------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 17])
def test_each_trajectory_is_called_once(count, threads):
    seen = []
    each_trajectory(count, seen.append, threads)
    assert sorted(seen) == list(range(count))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_trajectory_comes_out(threads):
    def work(index):
        if index == 2:
            raise ValueError("trajectory 2")

    with pytest.raises(ValueError, match="trajectory 2"):
        each_trajectory(4, work, threads)

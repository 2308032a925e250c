"""Passes of the kernels against dense Cayley steps, with walls, phases and absorbers."""

import numpy as np
import pytest

from qsim.tridiag.kernels.plane.records import NO_STEP, Phases
from qsim.tridiag.kernels.plane.steps_cpu import PANEL, marginals, scratch, step_pass
from qsim.tridiag.plane.lattice import Axis, RadialAxis

STEPS = ((0.3, -0.2), (0.05, 0.05), (20.0, 3.0))
SHAPES = ((13, 10), (40, 33), (8, 9))


def difference(axis: Axis) -> np.ndarray:
    """The second difference as a matrix; of a radius that of weights rho_j between its own links."""
    n, h = axis.points, axis.spacing
    if not isinstance(axis, RadialAxis):
        return (np.eye(n, k=1) + np.eye(n, k=-1) - 2.0 * np.eye(n)) / h**2
    rho = (np.arange(n) + (3.0 + np.sqrt(3.0)) / 6.0) * h
    half = rho + 0.5 * h
    k = half - h**2 / (12.0 * half)
    links = np.diag(-k - np.r_[0.0, k[:-1]]) + np.diag(k[:-1], 1) + np.diag(k[:-1], -1)
    return links / np.sqrt(np.outer(rho, rho)) / h**2


def dense(axis: Axis, dt: float) -> np.ndarray:
    """The Cayley step as a matrix, from the second difference and its M themselves."""
    n, h = axis.points, axis.spacing
    second = difference(axis)
    mass = np.eye(n) + (h**2 / 12.0 * second if axis.stencil == "numerov" else 0.0)
    kinetic = np.linalg.solve(mass, -0.5 / axis.mass * second)
    assert np.allclose(kinetic, axis.kinetic(), rtol=0.0, atol=1e-12 / h**2)
    return np.linalg.solve(np.eye(n) + 0.5j * dt * kinetic, np.eye(n) - 0.5j * dt * kinetic)


def filled(n: int) -> int:
    return -(-n // PANEL) * PANEL


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
@pytest.mark.parametrize(("shape", "dt"), list(zip(SHAPES, STEPS, strict=True)))
@pytest.mark.parametrize(("axis", "kind"), [(0, Axis), (1, Axis), (0, RadialAxis)])
def test_a_pass_is_its_matrices(stencil, shape, dt, axis, kind):
    rng = np.random.default_rng(3)
    one = kind(0.0 if kind is RadialAxis else -3.0, 0.2, shape[axis], 1.7, stencil)
    n, m = one.points, shape[1 - axis]
    lines = filled(m)
    psi = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    given = np.zeros((filled(shape[0]), 2, filled(shape[1])))
    given[: shape[0], 0, : shape[1]], given[: shape[0], 1, : shape[1]] = psi.real, psi.imag
    both, along, over = (np.exp(1j * rng.uniform(-3, 3, size)) for size in ((n, m), n, m))
    kept_along, kept_over = rng.uniform(0.5, 1.0, n), rng.uniform(0.5, 1.0, m)
    inside, edges = rng.uniform(0, 1, n), rng.uniform(0, 1, m)
    table = np.zeros((2, n, lines))
    table[0, :, :m], table[1, :, :m] = both.real, both.imag
    line = along * np.sqrt(kept_along)
    across = np.pad(over * np.sqrt(kept_over), (0, lines - m))
    phases = Phases(
        table.reshape(2, -1),
        0,
        lines,
        np.array([line.real, line.imag]),
        np.array([across.real, across.imag]),
        inside,
        np.pad(edges, (0, lines - m)),
        kept_along,
        np.pad(kept_over, (0, lines - m), constant_values=1.0),
    )
    steps = [one.step(t) for t in dt]
    for ends in (True, False):
        for begins in (True, False):
            state, lost = given.copy(), np.zeros((lines // PANEL, 2))
            before, after = steps[0] if ends else NO_STEP, steps[1] if begins else NO_STEP
            step_pass(state, axis, before, after, phases, lost, scratch(1, n + 4))
            wanted = psi if axis == 0 else psi.T
            wanted = dense(one, dt[0]) @ wanted if ends else wanted
            taken = np.abs(wanted) ** 2 * (1.0 - kept_along[:, None] * kept_over)
            double = (taken * (1.0 - inside[:, None]) * (1.0 - edges)).sum()
            wanted = wanted * both * line[:, None] * across[:m]
            wanted = dense(one, dt[1]) @ wanted if begins else wanted
            wanted = wanted if axis == 0 else wanted.T
            found = state[: shape[0], 0, : shape[1]] + 1j * state[: shape[0], 1, : shape[1]]
            # rounding of two solves of some tens of terms of size 3
            assert np.abs(found - wanted).max() < 2e-13
            assert lost.sum(axis=0) == pytest.approx([taken.sum() - double, double], rel=1e-12)
            # no wave function beyond the points
            assert not state[shape[0] :].any()
            assert not state[:, :, shape[1] :].any()


def test_phases_of_the_density_itself():
    """exp(-i bend |psi|^2) of a Pade quotient, with an error of 4e-8 of the ninth power of the phase."""
    rng = np.random.default_rng(9)
    given = np.zeros((16, 2, 24))
    given[:16, :, :16] = rng.standard_normal((16, 2, 16))
    unit = np.zeros((2, 16))
    unit[0] = 1.0
    phases = Phases(
        np.ones((2, 16)) * unit, 0, 0, unit, unit, np.ones(16), np.ones(16), np.zeros(0), np.zeros(0), 0.1
    )
    state = given.copy()
    step_pass(state, 0, NO_STEP, NO_STEP, phases, np.zeros((2, 2)), scratch(1, 20))
    psi, found = (one[:, 0, :16] + 1j * one[:, 1, :16] for one in (given, state))
    p = 0.1 * np.abs(psi) ** 2
    assert np.abs(found - psi * np.exp(-1j * p)).max() < 4e-8 * p.max() ** 9 * np.abs(psi).max() + 1e-14
    assert np.abs(found) == pytest.approx(np.abs(psi), rel=1e-14)


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(5)
    one = Axis(-8.0, 0.25, 63)
    given = np.zeros((64, 2, 72))
    given[:63, :, :63] = rng.standard_normal((63, 2, 63))
    unit = np.zeros((2, 64))
    unit[0] = 1.0
    table = np.ones((2, 200))
    kept = np.ones(64)
    phases = Phases(table, 100, -1, unit[:, :63].copy(), unit, np.ones(63), kept, kept[:63], kept)
    out = []
    for threads in (1, 2):
        state, lost = given.copy(), np.zeros((8, 2))
        for axis in (0, 1, 0):
            step_pass(state, axis, one.step(0.1), one.step(0.1), phases, lost, scratch(threads, 67))
        out.append((state, lost, *marginals(state, 63, 63, np.ones(63), np.ones((1, 63, 63)), threads)))
    for first, second in zip(*out, strict=True):
        assert np.array_equal(first, second)


def test_the_filter_of_the_guide():
    """lambda at h = 0.2, dt = 0.05, and its decay at s = dt/(2 h^2) = 0.5, 1, 5, 25."""
    constants = Axis(-20.0, 0.2, 200).step(0.05).constants
    assert constants[0, :2] == pytest.approx([0.09346685834373894, 0.2747353329637883], abs=1e-12)
    decays = []
    for s in (0.5, 1.0, 5.0, 25.0):
        decays.append(Axis(0.0, 1.0, 400).step(2.0 * s).decay)
    assert decays == pytest.approx([1.366805, 0.9913282, 0.4470624, 0.1999973], abs=1e-7)


def test_marginals():
    rng = np.random.default_rng(7)
    state = np.zeros((24, 2, 16))
    state[:21, :, :11] = rng.standard_normal((21, 2, 11))
    inside = rng.uniform(0, 1, 11)
    tables = rng.standard_normal((2, 21, 11))
    along, across, weighted = marginals(state, 21, 11, inside, tables, 1)
    density = (state[:21, :, :11] ** 2).sum(axis=1)
    assert np.allclose(along[:, 0], density.sum(axis=1), rtol=1e-14)
    assert np.allclose(along[:, 1], density @ inside, rtol=1e-14)
    assert np.allclose(across, density.sum(axis=0), rtol=1e-14)
    assert np.allclose(weighted, (tables * density).sum(axis=(1, 2)), rtol=1e-12)

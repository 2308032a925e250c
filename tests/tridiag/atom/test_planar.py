"""Fields that turn in a plane: steps against dense matrices, left against right, directions, attoclock angles."""

import math

import numpy as np
import pytest
from scipy.special import roots_legendre, sph_harm_y

from qsim.tridiag.atom.grid import CORNER, mapped, uniform
from qsim.tridiag.atom.lanes import PlanarLanes
from qsim.tridiag.atom.levels import Radial, level
from qsim.tridiag.atom.propagator import AtomLattice, Propagator


def hydrogen(grid, cap=None):
    return AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0, cap)


def angular(lanes):
    """<l' m'|x/r|l m> and <l' m'|y/r|l m> by quadrature."""
    nodes, weights = roots_legendre(lanes.lmax + 3)
    phi = 2 * np.pi * np.arange(2 * lanes.lmax + 5) / (2 * lanes.lmax + 5)
    theta, phi = (grid.ravel() for grid in np.meshgrid(np.arccos(nodes), phi, indexing="ij"))
    weight = np.repeat(weights, 2 * lanes.lmax + 5) * 2 * np.pi / (2 * lanes.lmax + 5)
    y = np.array([sph_harm_y(l, m, theta, phi) for l, m in lanes.channels])
    return tuple(
        (y.conj() * weight * d) @ y.T for d in (np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi))
    )


def derivative(grid):
    """The first derivative of the grid as a dense matrix."""
    n = grid.points
    m1 = (np.eye(n, k=1) + np.eye(n, k=-1) + 4 * np.eye(n)) / 6
    m1[0, 0] = m1[-1, -1] = (4 + CORNER) / 6
    d1 = 0.5 * (np.eye(n, k=1) - np.eye(n, k=-1))
    d1[0, 0], d1[-1, -1] = CORNER / 2, -CORNER / 2
    root = 1 / np.sqrt(grid.slope)
    return root[:, None] * np.linalg.solve(m1, d1) * root


def dense(lattice, lanes, electric=(0.0, 0.0), vector=(0.0, 0.0)):
    """H of all channels, with constant fields along x and y."""
    grid, n = lattice.grid, lattice.grid.points
    x, y = angular(lanes)
    e = electric[0] * x + electric[1] * y
    a = vector[0] * x + vector[1] * y
    h = np.kron(e, np.diag(grid.r)).astype(complex)
    slope = derivative(grid)
    for i, l in enumerate(lanes.l):
        here = slice(i * n, (i + 1) * n)
        h[here, here] += np.array([Radial(lattice, int(l)).apply(one) for one in np.eye(n)]).T
        for j in np.flatnonzero(lanes.l == l + 1):
            there = slice(j * n, (j + 1) * n)
            up = -1j * a[j, i] * (slope - np.diag((l + 1) / grid.r))
            h[there, here] += up
            h[here, there] += up.conj().T
    return h


GRIDS = {"uniform": uniform(9.0, 0.3), "mapped": mapped(9.0, 0.4, 0.1, 10.0)}


@pytest.mark.parametrize("parities", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(("gauge", "field"), [("length", (0.05, -0.07)), ("velocity", (-0.3, 0.2))])
@pytest.mark.parametrize("order", [2, 4])
def test_steps_converge_to_the_exponential(parities, gauge, field, order):
    grid = GRIDS["mapped" if parities == (0,) else "uniform"]
    lattice, lanes = hydrogen(grid), PlanarLanes(parities, 3)
    velocity = gauge == "velocity"
    h = dense(lattice, lanes, *(((0, 0), field) if velocity else (field, (0, 0))))
    assert np.abs(h - h.conj().T).max() < 1e-12 * np.abs(h).max()
    e, x = np.linalg.eigh(h)
    phi = np.zeros((lanes.used, grid.points), complex)
    for weight, (l, m) in ((0.8, (1, 1)), (0.5j, (1, -1)), (0.6, (1, 0)), (0.3, (0, 0))):
        here = np.flatnonzero((lanes.l == l) & (lanes.m == m))
        phi[here] = weight * level(lattice, 2, l)[1]
    phi /= np.linalg.norm(phi)
    exact = (x @ (np.exp(-2j * e) * (x.conj().T @ phi.ravel()))).reshape(phi.shape)
    errors = []
    for steps in (40, 80) if order == 2 else (20, 40):
        made = Propagator(
            lattice, lanes, phi, 2.0 / steps, velocity=velocity,
            field=lambda t: np.array(field)[:, None] * np.ones(np.shape(t)), order=order,
        )  # fmt: skip
        made.advance(steps)
        errors.append(abs(np.vdot(phi, made.phi) - np.vdot(phi, exact)))
        assert np.linalg.norm(made.phi - exact) < 1e-3
        assert np.sum(np.abs(made.phi) ** 2) == pytest.approx(1.0, abs=1e-12)
    # the populations: amplitudes of the fastest components of the lattice converge later
    assert errors[1] < (1e-5 if order == 2 else 1e-6)
    assert math.log2(errors[0] / errors[1]) > (1.7 if order == 2 or velocity else 2.5)

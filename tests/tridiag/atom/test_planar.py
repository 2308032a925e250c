"""Fields that turn in a plane: steps against dense matrices, left against right, directions, attoclock angles."""

import math

import numpy as np
import pytest
from scipy.special import roots_legendre, sph_harm_y

from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import CORNER, mapped, uniform
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.atom.states.levels import Radial, level


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
    for i, l in enumerate(lanes.ls):
        here = slice(i * n, (i + 1) * n)
        h[here, here] += np.array([Radial(lattice, int(l)).apply(one) for one in np.eye(n)]).T
        for j in np.flatnonzero(lanes.ls == l + 1):
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
        here = np.flatnonzero((lanes.ls == l) & (lanes.ms == m))
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


def small(polarization, gauge="length", **changes):
    blocks = {
        "task": "atom",
        "atom": "hydrogen",
        "grid": {"rmax": 40, "dr": 0.3, "l_max": 5, "map": {"dr0": 0.1, "width": 25}},
        "laser": {
            "gauge": gauge,
            "polarization": polarization,
            "pulses": [{"shape": "sin2", "omega": 0.6, "E0": 0.1, "cycles": 3, "cep": 0.3}],
        },
        "time": {"dt": 0.1, "outputs": 3, "verify": False},
    }
    return blocks | changes


def circular(hand, **keys):
    return {"type": "circular", "handedness": hand, **keys}


def channel(result, l, m):
    """The norm of one channel at the end."""
    lanes = result.lanes
    return float(np.sum(np.abs(result.phi[(lanes.ls == l) & (lanes.ms == m)]) ** 2))


def test_left_and_right(tridiag):
    """A mirror: equal yields, l and m exchanged for l and -m, opposite y; what is left is the splitting, of second order."""
    differences = []
    for dt in (0.1, 0.05):
        left, right = (
            tridiag.run(**small(circular(hand), time={"dt": dt, "outputs": 3, "verify": False}))
            for hand in ("left", "right")
        )
        y = right.frames["dipole"] * [1.0, -1.0]
        differences.append(np.abs(left.frames["dipole"] - y).max())
        assert right.frames["populations"] == pytest.approx(left.frames["populations"], abs=1e-4 * dt)
        assert right.frames["population_l"] == pytest.approx(left.frames["population_l"], abs=1e-4 * dt)
        for l, m in ((1, 1), (1, -1), (2, 2), (2, -2), (3, 3)):
            assert channel(right, l, -m) == pytest.approx(channel(left, l, m), abs=1e-4 * dt)
    assert channel(left, 1, -1) < 0.5 * channel(left, 1, 1)  # helicity +1 adds 1 to m
    assert differences[1] < 0.3 * differences[0] < 1e-4


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_constant_direction_in_the_plane(tridiag, gauge):
    """A field along x sees half of |1 1> about z as m = 0 and half as |m| = 1: levels, norms and <x> are the mean of the two."""
    plane = small({"type": "linear", "direction": "x"}, gauge, initial={"n": 2, "l": 1, "m": 1})
    found = tridiag.run(**plane)
    assert found.problem.frame.planar
    assert sorted({m for _, m, _ in found.problem.frame.parts}) == [1]
    parts = [tridiag.run(**small("linear", gauge, initial={"n": 2, "l": 1, "m": m})) for m in (0, 1)]
    for name in ("norm", "wall", "last"):
        mean = 0.5 * (parts[0].frames[name] + parts[1].frames[name])
        assert found.frames[name] == pytest.approx(mean, abs=2e-6)
    for name in ("1s", "2s", "2p"):
        mean = 0.5 * sum(one.populations.get(f"population_{name}", 0.0) for one in parts)
        assert found.populations[f"population_{name}"] == pytest.approx(
            mean, abs=2e-4 if gauge == "velocity" else 5e-5
        )
    mean = 0.5 * (parts[0].frames["dipole"] + parts[1].frames["dipole"])
    assert found.frames["dipole"][:, :1] == pytest.approx(mean, abs=3e-3 * np.abs(mean).max())


def test_directions(tridiag):
    """An s state does not see the direction of a linear field, nor the plane of a circular one; a p state turns with it."""
    along_z = tridiag.run(**small("linear"))
    skew = tridiag.run(**small({"type": "linear", "direction": [1.0, -2.0, 0.5]}))
    assert not skew.problem.frame.planar
    assert np.abs(skew.phi - along_z.phi).max() < 1e-12
    assert skew.problem.frame.axes[2] == pytest.approx(np.array([1.0, -2.0, 0.5]) / np.sqrt(5.25), abs=1e-14)
    one = tridiag.run(**small(circular("left", plane="zx"), initial="2p"))
    assert {m for _, m, _ in one.problem.frame.parts} == {-1, 1}
    assert one.populations["population_1s"] > 0.0
    other = tridiag.run(**small(circular("left", plane="yz"), initial="2p"))
    assert {m for _, m, _ in other.problem.frame.parts} == {-1, 1}
    assert other.populations["population_1s"] != pytest.approx(
        one.populations["population_1s"], rel=1e-3
    )  # the peak of the field is along y, not z
    still = tridiag.run(**small(circular("left"), initial="2p"))
    assert {m for _, m, _ in still.problem.frame.parts} == {0}
    assert still.populations["population_1s"] < 1e-20  # l + m is conserved modulo 2


def test_gauges_agree(tridiag):
    """Dipole, velocity, acceleration and populations within a pulse that turns, in either gauge."""
    found = []
    for gauge in ("length", "velocity"):
        grid = {"rmax": 40, "dr": 0.2, "l_max": 8, "map": {"dr0": 0.05, "width": 30}}
        time = {"dt": 0.04, "t_final": 20.0, "outputs": 4, "verify": False}
        found.append(
            tridiag.run(
                **small({"type": "elliptical", "ellipticity": 0.6}, gauge, grid=grid, time=time)
            ).frames
        )
    length, velocity = found
    assert length["populations"][-1, 0] < 0.98
    for name in ("dipole", "velocity", "acceleration"):
        for k in (0, 1):
            size = np.abs(length[name][:, k]).max()
            assert velocity[name][:, k] == pytest.approx(length[name][:, k], abs=1e-3 * size + 2e-5), (
                name,
                k,
            )
    assert velocity["populations"] == pytest.approx(length["populations"], abs=1e-4)


def test_one_photon_angles(tridiag):
    """A weak circular pulse takes 1s to l = |m| = 1: no azimuth is preferred, and the yield is the linear one."""
    scattering = {"method": "scattering", "energy": [0.1, 0.8], "points": 40, "angles": 36}
    grid = {"rmax": 110, "dr": 0.3, "l_max": 2, "map": {"dr0": 0.05, "width": 30}}
    pulses = [{"shape": "sin2", "omega": 0.9, "E0": 0.002, "cycles": 8}]
    runs = {}
    for name, polarization in (("linear", "linear"), ("circular", circular("right"))):
        laser = {"gauge": "length", "polarization": polarization, "pulses": pulses}
        runs[name] = tridiag.run(**small("linear", grid=grid, spectra=[scattering]) | {"laser": laser})
    flat, line = runs["circular"], runs["linear"]
    assert flat.spectra["pes"] == pytest.approx(
        line.spectra["pes"], rel=2e-3, abs=1e-4 * line.spectra["pes"].max()
    )
    assert flat.numbers["attoclock_contrast"] < 1e-3
    # |Y_11(pi/2)|^2 = 3 / 8 pi
    peak = int(np.argmax(flat.spectra["pes"]))
    expected = 3.0 / (8.0 * np.pi) * flat.spectra["pes"][peak]
    assert flat.spectra["pad_azimuth"][peak] == pytest.approx(np.full(36, expected), rel=1e-3)
    assert channel(flat, 1, -1) > 100.0 * channel(flat, 1, 1)


def test_a_stopped_run_continues_bit_for_bit(tridiag):
    from qsim.tridiag.atom.run import AtomEvolution

    grid = {"rmax": 40, "dr": 0.3, "l_max": "auto", "map": {"dr0": 0.1, "width": 25}}
    problem = tridiag.build(**small(circular("left"), grid=grid))
    whole, saved = AtomEvolution(problem), []
    whole.advance(lambda progress: saved.append(whole.state()) if progress.done >= 45 else None)
    again = AtomEvolution(problem, saved[0])
    again.advance(lambda progress: None)
    assert whole.result().lanes.lmax > problem.setting.lmax
    assert np.array_equal(again.result().phi, whole.result().phi)
    assert np.array_equal(again.result().trace, whole.result().trace)

"""Frames that rotate and magnetic fields: levels and steps against dense matrices and closed forms, vortices, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest

from qsim.core.results.quantities import scalars
from qsim.tridiag.output import QUANTITIES
from qsim.tridiag.plane.condensate import ground
from qsim.tridiag.plane.lattice import Axis, PlaneLattice, vortices
from qsim.tridiag.plane.levels import lowest
from qsim.tridiag.plane.propagator import PlanePropagator, stage_times
from qsim_checks.coverage import run_trial

TRAP = {"type": "harmonic", "omega": [1.0, 1.0]}


def trapped(w: float, points: int, half: float, g: float = 0.0) -> PlaneLattice:
    """A round trap of the frequency 1 in a frame of the frequency w."""
    one = Axis(-half, 2 * half / (points + 1), points)
    x, none = one.x, np.zeros(points)
    own = -0.5 * w * w * x * x
    trap = 0.5 * (x[:, None] ** 2 + x**2)
    return PlaneLattice((one, one), own, own, None, trap, (none, none), 0, g, (w, w))


def test_against_dense_matrices():
    """Levels, energy, and order of the steps with other masses and factors along both coordinates; Peierls phases by hand."""
    n, m = 14, 12
    axes = (Axis(-4.0, 0.5, n), Axis(-3.3, 0.5, m, 1.3))
    x, y = axes[0].x[:, None], axes[1].x
    table = 0.5 * x * x + 0.5 * y * y + 0.2 * x * y
    a, b = 0.7, 0.9
    none = (np.zeros(n), np.zeros(m))
    lattice = PlaneLattice(axes, *none, None, table, none, 0, 0.0, (a, b))
    along, across = (np.exp(1j * one * x * y).ravel() for one in (a, -b))
    h = along.conj()[:, None] * np.kron(axes[0].kinetic(), np.eye(m)) * along + np.diag(table.ravel())
    h = h + across.conj()[:, None] * np.kron(np.eye(n), axes[1].kinetic()) * across
    values, states = np.linalg.eigh(h)
    found = lowest(lattice, 3)
    np.testing.assert_allclose(found.energies, values[:3], atol=1e-12)
    psi = np.exp(-((x - 0.5) ** 2) - y**2 + 0.5j * x)
    psi /= np.linalg.norm(psi) * np.sqrt(lattice.cell)
    mean = np.vdot(psi, (h @ psi.ravel()).reshape(n, m)).real * lattice.cell
    assert lattice.energy(psi) == pytest.approx(mean, abs=1e-13)
    exact = (states @ (np.exp(-2j * values) * (states.conj().T @ psi.ravel()))).reshape(n, m)
    errors = {}
    for order, steps in ((2, 20), (2, 40), (4, 10), (4, 20)):
        _, lengths = stage_times(steps, 2.0 / steps, order, turns=True)
        ones = (np.ones(n), np.ones(m))
        one = PlanePropagator(lattice, psi, 2.0 / steps, order, np.zeros((2, lengths.size)), ones)
        one.advance(7)
        one.advance(steps - 7)
        errors[order, steps] = float(np.linalg.norm(one.psi - exact)) * math.sqrt(lattice.cell)
        assert np.linalg.norm(one.psi) ** 2 * lattice.cell == pytest.approx(1.0, abs=1e-12)
    assert errors[2, 20] < 3e-3
    assert errors[2, 20] / errors[2, 40] == pytest.approx(4.0, rel=0.05)
    assert errors[4, 10] < 5e-5
    assert errors[4, 10] / errors[4, 20] == pytest.approx(16.0, rel=0.1)


@pytest.mark.parametrize("w", [0.6, -0.6])
def test_levels_of_an_ideal_gas(w):
    """E = n + 1 - w l: the levels without a node in the radius, l = 0, 1, 2, by the sense of the frame."""
    lattice = trapped(w, 47, 6.5)
    found = lowest(lattice, 3)
    np.testing.assert_allclose(found.energies, [1.0, 1.4, 1.8], atol=6e-4)
    states = [found.whole(k, lattice.shape) for k in range(3)]
    turns = [lattice.angular_momentum(psi) for psi in states]
    # differences of fourth order
    np.testing.assert_allclose(turns, np.sign(w) * np.arange(3), atol=2e-3)
    assert [vortices(psi) for psi in states[:2]] == [0, 1]


def test_the_levels_of_landau():
    """An electron in a field B and a weak trap w: E = (2 n + |l| + 1) W - l B / 2, W^2 = w^2 + B^2 / 4 (Fock and Darwin)."""
    b, w = 2.0, 0.5
    lattice = replace(trapped(-0.5 * b, 47, 5.5), table=None)
    x = lattice.axes[0].x
    # the square of the momentum has B^2 r^2 / 8, and there is no centrifugal force
    lattice = replace(lattice, first=0.5 * w * w * x * x, second=0.5 * w * w * x * x)
    wide = math.hypot(w, 0.5 * b)
    wanted = [wide + k * (wide - 0.5 * b) for k in range(3)]
    np.testing.assert_allclose(lowest(lattice, 3).energies, wanted, atol=2e-3)


def test_a_vortex_enters_a_condensate():
    """g = 50: the ground state has no vortex below the critical frequency (E_1 - E_0) / L_z, and one above it."""
    # at rest, by the radial equation
    energies = [radial(l) for l in (0, 1)]
    critical = energies[1] - energies[0]
    for w, count in ((critical - 0.03, 0), (critical + 0.03, 1)):
        lattice = trapped(w, 47, 6.0, 50.0)
        found = ground(lattice)
        psi = found.whole(0, lattice.shape).astype(complex)
        assert vortices(psi) == count
        assert found.residuals[0] < 1e-6
        # of the lattice h^4, and none of the angle
        assert lattice.energy(psi) == pytest.approx(energies[count] - w * count, abs=2e-3)
        assert lattice.angular_momentum(psi) == pytest.approx(count, abs=3e-3)


def radial(l: int, g: float = 50.0, points: int = 300) -> float:
    """Lowest energy of ``f(r) exp(i l phi)``, by finite differences of second order and extrapolation in their number."""

    def energy(points: int) -> float:
        from scipy.linalg import eigh_tridiagonal

        h = 7.0 / points
        r = (np.arange(points) + 0.5) * h
        links = np.arange(1, points) * h / np.sqrt(r[:-1] * r[1:])
        diagonal = np.full(points, 1.0 / h**2) + 0.5 * (l / r) ** 2 + 0.5 * r * r
        density = np.zeros(points)
        for step in range(400):
            values, states = eigh_tridiagonal(
                diagonal + g * density, -0.5 / h**2 * links, select="i", select_range=(0, 0)
            )
            new = states[:, 0] ** 2 / (2.0 * np.pi * r * h)
            if step and np.abs(new - density).max() < 1e-10:
                break
            density = 0.2 * new + 0.8 * density if step else new * 0.2
        return float(values[0] - np.pi * g * (new**2 * r).sum() * h)

    coarse, fine = energy(points), energy(2 * points)
    return (4.0 * fine - coarse) / 3.0


def test_a_rotating_state_stays(tridiag):
    """The ground state in the frame is at rest there; its population and energy stay."""
    found = scalars(
        QUANTITIES["plane"],
        tridiag.run(
            task="plane",
            system={"type": "condensate", "potential": TRAP, "g": 30.0, "rotation": 0.7},
            grid={"x": {"xmin": -6, "xmax": 6, "points": 41}},
            time={"dt": 0.02, "t_final": 0.4, "outputs": 1, "verify": False},
            observe=[{"populations": {"levels": 1}}],
        ),
    )
    assert found["population_0"].value == pytest.approx(1.0, abs=1e-5)
    assert found["vortices"].value >= 1
    assert found["energy_final"].value == pytest.approx(found["energy_initial"].value, abs=1e-5)


def test_a_packet_in_a_magnetic_field(tridiag):
    """The mean of a packet goes round a circle with the frequency B, whatever its shape."""
    b, k = 0.8, 1.0
    found = scalars(
        QUANTITIES["plane"],
        tridiag.run(
            task="plane",
            system={"type": "particle", "potential": "none", "magnetic_field": b},
            grid={"x": {"xmin": -9, "xmax": 9, "points": 73}},
            initial={"type": "gaussian", "kx": k, "wx": 1.2, "wy": 1.2},
            time={"dt": 0.05, "t_final": 2.0, "outputs": 1},
        ),
    )
    # v(0) = k about the middle of the packet, where A = 0; an electron turns from x to y
    for name, value in (("dipole_final", math.sin(b * 2.0)), ("dipole_y_final", 1.0 - math.cos(b * 2.0))):
        assert abs(found[name].value - k / b * value) <= found[name].error, name
        assert found[name].error < 0.02, name


def test_the_forces_of_a_frame(tridiag):
    """The acceleration is the second derivative of the mean, Coriolis force and all."""
    result = tridiag.run(
        task="plane",
        system={"type": "particle", "potential": TRAP, "rotation": 0.4, "magnetic_field": -0.5},
        grid={"x": {"xmin": -7, "xmax": 7, "points": 57}},
        initial={"type": "gaussian", "x0": 1.0, "ky": 0.7, "wx": 0.8, "wy": 0.8},
        time={"dt": 0.02, "t_final": 2.0, "outputs": 50, "verify": False},
    )
    dipole, force = result.frames["dipole"], result.frames["acceleration"]
    step = result.time[1] - result.time[0]
    curved = (dipole[2:] - 2.0 * dipole[1:-1] + dipole[:-2]) / step**2
    # differences of second order, and the lattice
    assert np.abs(curved - force[1:-1]).max() < 5e-3
    assert np.abs(force).max() > 0.5


def test_what_no_trap_holds(tridiag):
    tridiag.refuses(
        "centrifugal force exceeds",
        task="plane",
        system={"type": "condensate", "potential": TRAP, "g": 5.0, "rotation": 1.2},
        grid={"x": {"xmin": -6, "xmax": 6, "points": 31}},
        time={"dt": 0.02, "t_final": 0.1},
    )


def test_claims_of_random_frames_hold():
    trial = run_trial("tridiag", 7, 2, kind="rotation")
    assert trial.failure is None
    assert not trial.broken

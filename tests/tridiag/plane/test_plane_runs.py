"""Runs of two electrons on a line against published levels, converged spectral numbers, and independent electrons."""

import numpy as np
import pytest

from qsim.core.results.quantities import scalars
from qsim.tridiag.output import QUANTITIES
from qsim.tridiag.plane.lattice import Axis, PlaneLattice
from qsim.tridiag.plane.levels import lowest
from qsim.tridiag.plane.motion import PlaneEvolution
from qsim.tridiag.plane.propagator import PlanePropagator, stage_times
from qsim_checks.coverage import run_trial

HELIUM = {
    "type": "electrons",
    "potential": {"type": "softcore", "Z": 2, "a2": 1.0},
    "repulsion": {"type": "softcore", "Z": -1, "a2": 1.0},
}
PULSE = {"shape": "sin2", "omega": 1.5, "E0": 0.3, "cycles": 4}


def deck(**changes):
    return {
        "task": "plane",
        "system": HELIUM,
        "grid": {"x": {"xmin": -20, "xmax": 20, "points": 101}},
        "laser": {"pulses": [PULSE]},
        "time": {"dt": 0.1, "outputs": 4, "verify": False},
        "observe": [{"regions": {"radius": 8}}, "entanglement"],
    } | changes


def numbers(tridiag, **blocks):
    """The scalars of a deck by name."""
    return scalars(QUANTITIES[blocks["task"]], tridiag.run(**blocks))


def helium(half: float, points: int, exchange: int = 1) -> PlaneLattice:
    one = Axis(-half, 2 * half / (points + 1), points)
    x, apart = one.x, one.spacing * np.arange(1 - points, points)
    own = -2.0 / np.sqrt(x * x + 1.0)
    none = np.zeros(points)
    return PlaneLattice((one, one), own, own, 1.0 / np.sqrt(apart**2 + 1.0), None, (none, none), exchange)


def test_levels_of_helium():
    """Ground state of the Numerov lattice at h = 0.2504892 (order 4 in h), and the lowest triplet below it in no symmetry."""
    points = 511 - 2
    lattice = helium(64.0 * 510 / 511, points)
    assert lattice.axes[0].spacing == pytest.approx(0.2504892, abs=1e-6)
    found = lowest(lattice, 1)
    assert found.energies[0] == pytest.approx(-2.238274291, abs=5e-9)
    # residual^2 over the gap of half a hartree
    assert found.residuals[0] < 1e-9
    state = found.whole(0, lattice.shape)
    assert (state**2).sum() * lattice.cell == pytest.approx(1.0, abs=1e-12)
    assert np.abs(state - state.T).max() < 1e-12


def test_orders_of_the_steps():
    """Norm of the error of the state against the dense exponential, in a constant field: 36 x 36 points, t = 6."""
    points = 36
    one = Axis(-8.0 - 16.0 / 35, 16.0 / 35, points)
    lattice = helium(-one.low, points)
    start = lowest(lattice, 1).whole(0, lattice.shape)
    x, kinetic = one.x, one.kinetic()
    energy = lattice.potential() + 0.1 * (x[:, None] + x)
    h = np.kron(kinetic, np.eye(points)) + np.kron(np.eye(points), kinetic) + np.diag(energy.ravel())
    # the symmetric half alone: two orthonormal functions for each pair, the odd ones left out
    rows, columns = np.triu_indices(points)
    pairs = np.zeros((rows.size, points, points))
    pairs[np.arange(rows.size), rows, columns] += 0.5
    pairs[np.arange(rows.size), columns, rows] += 0.5
    basis = pairs.reshape(rows.size, -1)
    basis = basis / np.linalg.norm(basis, axis=1)[:, None]
    values, turns = np.linalg.eigh(basis @ h @ basis.T)
    exact = turns @ (np.exp(-6j * values) * (turns.T @ (basis @ start.ravel())))
    exact = (basis.T @ exact).reshape(points, points)
    inside = np.ones(points)
    for order, dt, wanted in ((2, 0.1, 4.7e-4), (4, 0.2, 4.2e-5)):
        steps = round(6.0 / dt)
        _, lengths = stage_times(steps, dt, order)
        made = PlanePropagator(
            lattice, start.astype(complex), dt, order, np.array([0.1 * lengths] * 2), (inside, inside)
        )
        made.advance(steps)
        error = np.linalg.norm(made.psi - exact) * one.spacing
        assert error == pytest.approx(wanted, rel=0.05)
        # kinetic steps and phases are unitary, and both coordinates are treated alike
        assert np.linalg.norm(made.psi) * one.spacing == pytest.approx(1.0, abs=1e-12)
        assert np.abs(made.psi - made.psi.T).max() < 1e-13


def test_helium_in_an_xuv_pulse(tridiag):
    """P0, single, double, dipole, purity of spectral and lattice runs that agree to 1e-8 .. 2e-6: within the claims."""
    one = deck(
        grid={"x": {"xmin": -32, "xmax": 32, "points": 161}},
        time={"dt": 0.1, "outputs": 4},
    )
    result = numbers(tridiag, **one)
    truth = {
        "population_0": 0.9621582,
        "single": 0.0286979,
        "double": 6.483e-05,
        "dipole_final": 0.0257871,
        "purity": 0.9754096,
        "norm_final": 1.0,
        "energy_initial": -2.238257824,
    }
    for name, value in truth.items():
        found = result[name]
        assert abs(found.value - value) <= 1.05 * found.error + 2e-9, name
        assert found.error < 0.1 * abs(value)


def test_independent_electrons_factorise(tridiag):
    """Without repulsion, single = 2 p (1 - p) and double = (1 - p)^2, p of one electron on the line by the task of one."""
    one = deck(
        system=HELIUM | {"repulsion": "none"},
        grid={"x": {"xmin": -20, "xmax": 20, "points": 101}},
        absorber={"type": "cap", "width": 6, "strength": 0.5},
        time={"dt": 0.1, "order": 4, "verify": False},
    )
    pair = numbers(tridiag, **one)
    alone = {
        "task": "propagate",
        "grid": one["grid"]["x"],
        "potential": HELIUM["potential"],
        "laser": one["laser"],
        "absorber": one["absorber"],
        "time": {"dt": 0.02, "order": 4, "verify": False},
        "observe": [{"norm_within": [8]}, {"populations": {"levels": 1}}],
    }
    line = numbers(tridiag, **alone)
    p, q = line["norm_within_8"].value, line["population_0"].value
    norm = line["norm_final"].value
    # steps of order 4 leave some 1e-6 in each
    assert pair["inner"].value == pytest.approx(p**2, abs=1e-5)
    assert pair["single"].value == pytest.approx(2 * p * (norm - p), abs=1e-5)
    assert pair["double"].value == pytest.approx((norm - p) ** 2, rel=1e-2)
    assert pair["population_0"].value == pytest.approx(q**2, abs=1e-5)
    # both orbitals stay one product
    assert pair["purity"].value == pytest.approx(1.0, abs=1e-12)
    kept = sum(pair[name].value for name in ("norm_final", "absorbed_single", "absorbed_double"))
    assert kept == pytest.approx(1.0, abs=1e-12)


def test_a_continued_run_has_the_same_bits(tridiag):
    changes = {"absorber": {"type": "cap", "width": 6, "strength": 0.5}}
    changes["time"] = {"dt": 0.1, "outputs": 7, "order": 4, "verify": False}
    problem = tridiag.build(**deck(**changes))
    whole = PlaneEvolution(problem)
    whole.advance(lambda progress: None)
    part = PlaneEvolution(problem)
    for marks in part.remaining[: len(part.remaining) // 2]:
        part.to(marks)
    rest = PlaneEvolution(problem, part.state())
    rest.advance(lambda progress: None)
    one, other = whole.state(), rest.state()
    for name in ("psi", "lost", "trace"):
        assert np.array_equal(one[name], other[name])
    for name in ("rows", "maps"):
        for key, values in one[name].items():
            assert np.array_equal(values, other[name][key]), key


AXIS = {"xmin": -20, "xmax": 20, "points": 101}
LOPSIDED = {"type": "softcore", "Z": -1, "x0": 1.0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"grid": {"x": AXIS, "y": AXIS | {"points": 121}}}, "grid.y.*needs x and y alike"),
        ({"system": HELIUM | {"repulsion": LOPSIDED}}, "system.repulsion.*need an even function"),
        ({"observe": [{"regions": {"radius": 30}}]}, "observe.0.regions.radius.*the grid ends at"),
        (
            {"initial": {"type": "gaussian", "wx": 1, "wy": 1}, "system": HELIUM | {"exchange": "odd"}},
            "initial.*even under exchange",
        ),
        ({"laser": {"gauge": "velocity", "pulses": [PULSE]}}, "laser.gauge"),
        ({"time": {"dt": 2.0}}, "time.dt.*steps per optical cycle"),
    ],
)
def test_mistakes_are_told_at_their_key(tridiag, changes, text):
    tridiag.refuses(text, **deck(**changes))


def test_claims_of_random_decks_hold():
    for index in range(2):
        trial = run_trial("tridiag", 1, index, kind="plane")
        assert trial.failure is None
        assert not trial.broken

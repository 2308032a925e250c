"""Two coordinates: published levels, an independent basis, driven dynamics on the grid, and what is refused."""

import math
import re

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.interpolate import CubicSpline
from scipy.linalg import expm

import qsim
from qsim.core.physics.surfaces import Surface
from qsim.qoc.deck.quantum import QuantumDeck
from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem
from qsim.qoc.models.plane.levels import plane, sine_axis
from qsim.qoc.models.plane.motion import GridMotion
from qsim.qoc.objectives.bounds import connection_bound

LAMBDA = math.sqrt(0.0125)
BOX = {"min": -7.0, "max": 7.0, "points": 44}
HENON_HEILES = {
    **{"type": "grid2d", "mass": [1.0, 1.0], "potential": {"type": "henon_heiles", "strength": LAMBDA}},
    **{
        "dipole": {"x": "x", "y": "y"},
        "grid": {"x": BOX, "y": BOX},
        "states": 30,
        "initial": 0,
        "target": [1, 2],
    },
}
SMALL = {
    **HENON_HEILES,
    **{"potential": {"type": "expression", "value": "0.5*(x^2 + 2*y^2)"}, "states": 6, "target": 1},
    "grid": {"x": {"min": -6, "max": 6, "points": 20}, "y": {"min": -5, "max": 5, "points": 20}},
}


def block(deck):
    return Grid2dSystem.model_validate(deck)


def test_the_sine_basis_has_exact_matrices():
    """Kinetic energy is the square of the slope between states that vanish at the walls; exp(-x^2) has known derivatives."""
    axis = sine_axis(-7.0, 7.0, 60)
    bell = np.exp(-(axis.x**2))
    assert axis.slope @ bell == pytest.approx(-2 * axis.x * bell, abs=1e-10)
    assert axis.kinetic @ bell == pytest.approx((1 - 2 * axis.x**2) * bell, abs=1e-9)


def test_levels_of_henon_and_heiles_and_their_driven_motion():
    """Levels of J. Chem. Phys. 71, 3383 (1979), and by products of oscillators; P0 of a rotating field by the grid."""
    deck = block(HENON_HEILES)
    levels = plane(deck)
    published = [0.99859477, 1.99007676, 1.99007676, 2.95624299, 2.98532643, 2.98532643]
    assert levels.energies[:6] == pytest.approx(published, abs=2e-8)
    assert levels.energies[:12] == pytest.approx(by_oscillators(24)[:12], abs=1e-8)
    m = model(deck)
    c = m.states[:, 0]
    h, x, y = m.drift.toarray(), m.controls[0].operator.toarray(), m.controls[1].operator.toarray()
    probability = [abs(driven(h, x, y, c, steps)[0]) ** 2 for steps in (100, 200)]
    assert (4 * probability[1] - probability[0]) / 3 == pytest.approx(0.85172917, abs=2e-7)


def by_oscillators(most):
    """Levels by products of oscillator states with n + m <= most, with exact matrix elements."""
    places = [(s - b, b) for s in range(most + 1) for b in range(s + 1)]
    a, b = np.array(places).T
    q = np.diag(np.sqrt(np.arange(1, most + 8) / 2), 1)
    q = q + q.T
    q2, q3 = q @ q, q @ q @ q
    cubic = q2[np.ix_(a, a)] * q[np.ix_(b, b)] - q3[np.ix_(b, b)] * (a[:, None] == a) / 3
    return np.linalg.eigvalsh(np.diag(a + b + 1.0) + LAMBDA * cubic)


def test_motion_on_the_grid_has_order_4():
    """Oscillators with p1 p2 under held fields against dense exponentials of sines: half the step, a 16th of the error."""
    grid = {"x": {"min": -5, "max": 5, "points": 15}, "y": {"min": -4.5, "max": 4.5, "points": 15}}
    deck = SMALL | {"kinetic_coupling": 0.3, "dipole": {"x": "x", "y": "y"}, "states": 12, "grid": grid}
    levels = plane(block(deck))
    fields, tau = np.array([[0.3, -0.2], [0.1, 0.4]]), 0.7
    columns = np.eye(12)[:, [0, 2]].astype(complex)
    shape = levels.potential.shape
    h = np.array([levels.hamiltonian(row.reshape(shape)).ravel() for row in np.eye(levels.potential.size)]).T
    psi = levels.states.reshape(12, -1).T @ columns
    for slot in fields.T:
        field = sum(u * levels.dipoles[name].ravel() for u, name in zip(slot, "xy", strict=True))
        w, v = np.linalg.eigh(h - np.diag(field))
        psi = v @ (np.exp(-1j * tau * w)[:, None] * (v.T @ psi))
    exact = levels.states.reshape(12, -1) @ psi
    motion = GridMotion(levels, ["x", "y"])
    coarse, middle, fine = (motion.amplitudes(columns, fields, tau, n) for n in (2, 4, 8))
    assert fine == pytest.approx(exact, abs=1e-6)
    assert np.abs(coarse - fine).max() > 14 * np.abs(middle - fine).max()


def driven(h, x, y, c, steps):
    """State after Ex, Ey = 0.08 sin^2(pi t/20) (cos, sin)(0.99 t), by midpoint exponentials."""
    tau = 20.0 / steps
    for t in (np.arange(steps) + 0.5) * tau:
        size = 0.08 * np.sin(np.pi * t / 20) ** 2
        w, v = np.linalg.eigh(h + size * (np.cos(0.99 * t) * x + np.sin(0.99 * t) * y))
        c = v @ (np.exp(-1j * tau * w) * (v.conj().T @ c))
    return c


def test_two_stretches_with_kinetic_coupling():
    """Two OH stretches of water at a fixed angle: E0 and both fundamentals, cm-1."""
    walls = {"min": 1.0, "max": 4.2, "points": 36}
    coupling = math.cos(math.radians(104.5)) / (15.99491462 * 1822.888486)
    deck = {
        **{"type": "grid2d", "mass": [1728.468338] * 2, "kinetic_coupling": coupling, "states": 12},
        **{"potential": {"type": "two_morse", "D": 0.1994, "beta": 1.189, "r0": 1.821}},
        **{
            "dipole": {"x": "x + y"},
            "grid": {"x": walls, "y": walls},
            "initial": {"thermal": "300 K"},
            "target": 2,
        },
    }
    levels = plane(block(deck))
    assert levels.energies[0] == pytest.approx(0.0178554978, abs=2e-10)
    lines = (levels.energies[1:3] - levels.energies[0]) * 219474.6313632
    assert lines == pytest.approx([3756.768, 3811.62], abs=2e-3)
    residual = levels.hamiltonian(levels.states[2]) - levels.energies[2] * levels.states[2]
    assert np.abs(residual).max() < 1e-6
    m = model(block(deck))
    assert [control.name for control in m.controls] == ["x"]
    # x + y is symmetric under exchange: it cannot reach the antisymmetric fundamental.
    strengths = np.abs(m.controls[0].operator.toarray()[0, 1:3])
    assert sorted(strengths)[0] < 1e-7 < 1e-2 < sorted(strengths)[1]
    # so a deck that asks for it is refused
    assert connection_bound(m) == 0.0


def test_oscillators_and_their_dipoles():
    """Frequencies 1 and sqrt 2; <0|x|1> = 1/sqrt 2; with p1 p2 the frequencies are roots of a quadratic equation."""
    levels = plane(block(SMALL))
    root = math.sqrt(2)
    assert levels.energies[:4] - levels.energies[0] == pytest.approx([0, 1, root, 2], abs=1e-8)
    assert levels.energies[0] == pytest.approx(0.5 + root / 2, abs=1e-9)
    m = model(block(SMALL))
    assert abs(m.controls[0].operator[0, 1]) == pytest.approx(1 / root, abs=1e-8)
    assert abs(m.controls[1].operator[0, 2]) == pytest.approx(1 / math.sqrt(2 * root), abs=1e-8)
    coupled = plane(block(SMALL | {"kinetic_coupling": 0.3}))
    # x'' = -G V x with G = [[1, g], [g, 1]] and V = diag(1, 2).
    squares = np.linalg.eigvals(np.array([[1, 0.3], [0.3, 1]]) @ np.diag([1.0, 2.0]))
    assert coupled.energies[0] == pytest.approx(np.sqrt(squares).sum() / 2, abs=1e-8)
    more = plane(block(SMALL), extra=2)
    assert more.energies.size == 8
    assert more.states.shape == (8, 28, 28)


def test_a_table_is_the_function_that_it_was_made_of(tmp_path):
    x, y = np.meshgrid(np.linspace(-6, 6, 61), np.linspace(-5, 5, 51), indexing="ij")
    rows = np.array([x.ravel(), y.ravel(), 0.5 * (x**2 + 2 * y**2).ravel()]).T
    np.savetxt(tmp_path / "v.txt", rows[::-1])
    potential = {"type": "table", "file": tmp_path / "v.txt"}
    deck = Grid2dSystem.model_validate(SMALL | {"potential": potential})
    assert plane(deck).energies == pytest.approx(plane(block(SMALL)).energies, abs=1e-10)
    np.savetxt(tmp_path / "v.txt", rows[1:])
    with pytest.raises(InvalidSystem, match="fill no rectangular grid") as error:
        model(deck)
    assert error.value.key == "system.potential.file"
    np.savetxt(tmp_path / "v.txt", rows[np.abs(rows[:, 0]) < 5])
    with pytest.raises(
        InvalidSystem, match="the table covers x from -4.8 to 4.8 bohr, the grid needs -5.42857 to 5.42857"
    ):
        model(deck)


@pytest.mark.parametrize("rows", [6, 13])
def test_errors_hold_what_the_rows_of_surfaces_leave_open(tmp_path, rows):
    """A driven anharmonic well whose potential and dipole are tables, against their formulas."""
    x, y = np.meshgrid(np.linspace(-5, 5, rows), np.linspace(-4, 4, rows), indexing="ij")
    values = {
        "v": 0.5 * (x**2 + 2 * y**2) + 0.3 * np.exp(-((x - 0.4) ** 2) - y**2),
        "mu": x * np.exp(-(x**2) / 9) + 0.2 * y,
    }
    tables = {}
    for name, of in values.items():
        np.savetxt(tmp_path / f"{name}.txt", np.array([x.ravel(), y.ravel(), of.ravel()]).T, fmt="%.16e")
        tables[name] = {"type": "table", "file": str(tmp_path / f"{name}.txt")}
    system = SMALL | {"initial": 0, "target": 1, "states": 12, "dipole": {"x": "x*exp(-x^2/9) + 0.2*y"}}
    system["potential"] = {"type": "expression", "value": "0.5*(x^2 + 2*y^2) + 0.3*exp(-(x - 0.4)^2 - y^2)"}
    system["grid"] = {"x": {"min": -5, "max": 5, "points": 22}, "y": {"min": -4, "max": 4, "points": 20}}
    deck = {"method": "qoc", "time": {"T": 6.0, "slots": 60}, "optimizer": "none"}
    deck["control"] = {"name": "x", "guess": {"type": "expression", "value": "0.2*cos(1.1*t)*sin(pi*t/6)^2"}}
    deck["output"] = {"figures": "none"}
    formula = qsim.run(deck | {"system": system}).scalars["probability"]
    given = system | {"potential": tables["v"], "dipole": {"x": tables["mu"]}}
    table = qsim.run(deck | {"system": given}).scalars["probability"]
    assert abs(table.value - formula.value) <= table.error + formula.error
    assert table.error < 0.5 / rows


@pytest.mark.parametrize("axis", [0, 1])
def test_a_spline_that_leaves_the_range_of_its_rows_is_told(tmp_path, axis):
    """A step between two rows, beside which a cubic spline swings; a smooth surface, which it follows, has no remark."""
    x, y = np.meshgrid(np.linspace(-6, 6, 17), np.linspace(-5, 5, 15), indexing="ij")
    step = np.where((x, y)[axis] > 0.1, 9.0, 0.0) + 0.5 * (x**2 + 2 * y**2)
    for name, values, told in (("step", step, True), ("well", 0.5 * (x**2 + 2 * y**2), False)):
        np.savetxt(tmp_path / f"{name}.txt", np.array([x.ravel(), y.ravel(), values.ravel()]).T)
        table = {"type": "table", "file": tmp_path / f"{name}.txt"}
        deck = SMALL | {"potential": table, "dipole": {"x": table, "y": "y"}}
        made = model(Grid2dSystem.model_validate(deck))
        assert set(made.doubts) == ({"system.potential.file", "system.dipole.x.file"} if told else set())
    surface = Surface(x[:, 0], y[0], step)
    at = np.linspace(-6, 6, 961), np.linspace(-5, 5, 801)
    own = CubicSpline((x[:, 0], y[0])[axis], step, axis=axis)(at[axis])
    # the largest excess over the two rows beside it, by looking at many points
    rows = (x[:, 0], y[0])[axis]
    place = np.clip(np.searchsorted(rows, at[axis], "right") - 1, 0, rows.size - 2)
    values = np.moveaxis(step, axis, 0)
    high, low = np.maximum(values[place], values[place + 1]), np.minimum(values[place], values[place + 1])
    spline = np.moveaxis(own, axis, 0)
    excess = max((spline - high).max(), (low - spline).max())
    found = re.search(r"by up to (\S+) \(atomic units\) near", surface.remark())
    assert float(found[1]) == pytest.approx(excess, rel=0.02)


def test_tables_in_other_units_are_the_same_functions(tmp_path):
    """Angstrom, eV and debye, said by the deck or by the header of the file."""
    bohr, hartree, debye = 0.529177210903, 27.211386245988, 2.541746473
    x, y = np.meshgrid(np.linspace(-6, 6, 61), np.linspace(-5, 5, 51), indexing="ij")
    points = [x.ravel() * bohr, y.ravel() * bohr]
    energy = 0.5 * (x**2 + 2 * y**2).ravel() * hartree
    np.savetxt(tmp_path / "v.txt", np.array([*points, energy]).T, header="x (angstrom), y (angstrom), V (eV)")
    np.savetxt(tmp_path / "mu.txt", np.array([*points, (x + y).ravel() * debye]).T)
    units = {"x": "angstrom", "y": "angstrom", "mu": "D"}
    given = SMALL | {
        "potential": {"type": "table", "file": tmp_path / "v.txt"},
        "dipole": {"x": {"type": "table", "file": tmp_path / "mu.txt", "units": units}},
    }
    made, same = plane(block(given)), plane(block(SMALL | {"dipole": {"x": "x + y"}}))
    assert made.energies == pytest.approx(same.energies, abs=1e-8)
    assert made.dipoles["x"] == pytest.approx(same.dipoles["x"], abs=1e-8)
    with pytest.raises(ValidationError, match="is a unit of energy"):
        block(given | {"potential": {"type": "table", "file": "v.txt", "units": {"y": "eV"}}})


def test_errors_of_the_levels_hold():
    """On few points the claimed error of every level is above its distance from the exact ones."""
    box = {"min": -5.0, "max": 5.0, "points": 12}
    few = {"x": box, "y": box}
    rough = plane(block(HENON_HEILES | {"grid": few, "states": 12}))
    box = {"min": -7.0, "max": 7.0, "points": 26}
    exact = plane(block(HENON_HEILES | {"grid": {"x": box, "y": box}, "states": 12}))
    distance = np.abs(rough.energies - exact.energies)
    assert np.all(distance <= rough.errors)
    assert distance.max() > 1e-4
    # Levels that lie closer than that are not told apart.
    with pytest.raises(InvalidSystem, match="not told apart"):
        model(block(HENON_HEILES | {"grid": few, "states": 12, "target": 4}))


def test_propagation_in_the_levels_is_propagation_on_the_grid():
    """A kick exp(i 0.4 x) and free motion: the matrices of the model against H0 of the grid."""
    deck = block(
        SMALL | {"states": 40, "grid": {"x": SMALL["grid"]["x"], "y": {"min": -5, "max": 5, "points": 16}}}
    )
    levels, m = plane(deck), model(deck)
    psi = np.exp(0.4j * levels.axes[0].x)[:, None] * levels.states[0]
    size = psi.size
    h = np.array([levels.hamiltonian(row.reshape(psi.shape)).ravel() for row in np.eye(size)]).T
    w, v = np.linalg.eigh(h)
    on_grid = v @ (np.exp(-1.3j * w) * (v.T @ psi.ravel()))
    # Control x is -x E: a kick of area 0.4 is exp(-i 0.4 H_x).
    c = np.exp(-1.3j * m.drift.diagonal()) * (expm(-0.4j * m.controls[0].operator.toarray()) @ m.states[:, 0])
    assert np.abs(levels.states.reshape(40, -1) @ on_grid)[:6] == pytest.approx(np.abs(c)[:6], abs=1e-6)


@pytest.mark.parametrize(
    ("change", "key", "text"),
    [
        ({"dipole": {}}, "system.dipole", "no component is given"),
        ({"dipole": {"x": "0*x"}}, "system.dipole.x", "0 everywhere"),
        ({"dipole": {"x": "1/(x-x)"}}, "system.dipole.x", "not finite"),
        ({"potential": {"type": "expression", "value": "1e12*x"}}, "system.potential.value", "too large"),
        ({"kinetic_coupling": 1.5}, "system.kinetic_coupling", "kinetic energy negative; below 1 in size"),
        (
            {"grid": {"x": {"min": 1, "max": -1, "points": 8}, "y": BOX}},
            "system.grid.x.min",
            "must lie below",
        ),
        ({"states": 200}, "system.states", "at most 100 are accurate"),
        ({"initial": "77"}, "system.initial", "unknown state '77'"),
        ({"initial": None, "target": {"gate": "x"}}, "system.target.on", "name the logical states"),
        ({"initial": {"thermal": 1.0}}, "system.states", "into levels above the 6 kept"),
        (
            {"grid": {"x": {"min": -1, "max": 6, "points": 24}, "y": SMALL["grid"]["y"]}},
            "system.grid",
            "next to the walls",
        ),
    ],
)
def test_refused(change, key, text):
    with pytest.raises(InvalidSystem) as error:
        model(block(SMALL | change))
    assert error.value.key == key
    assert text in str(error.value)


def test_a_degenerate_level_is_refused_apart():
    both = SMALL | {"potential": {"type": "expression", "value": "0.5*(x^2 + y^2)"}}
    with pytest.raises(InvalidSystem, match="level 1 is one of the levels 1, 2, which lie .* hartree apart"):
        model(block(both))
    assert model(block(both | {"target": [1, 2]})).goal.vectors[0].shape == (2, 6)


def test_a_formula_of_other_names_is_refused():
    with pytest.raises(ValidationError, match="unknown name 'z'"):
        block(SMALL | {"dipole": {"x": "z"}})


def test_other_keys_for_the_same():
    """`lambda` is the strength of Henon and Heiles, `propagator.states` the levels; both at once must agree."""
    letter = {"type": "henon_heiles", "lambda": LAMBDA}
    assert block(HENON_HEILES | {"potential": letter}) == block(HENON_HEILES)
    with pytest.raises(ValidationError, match="lambda"):
        block(HENON_HEILES | {"potential": letter | {"strength": 0.1}})
    system = {key: value for key, value in HENON_HEILES.items() if key != "states"}
    deck = {"method": "qoc", "system": system, "time": {"T": 1.0, "slots": 2}}
    deck["control"] = [{"name": "x"}, {"name": "y"}]
    deck["propagator"] = {"type": "eigenbasis", "states": 17}
    made = QuantumDeck.model_validate(deck)
    assert made.system.states == 17
    assert list(made.check()) == []
    two = QuantumDeck.model_validate(deck | {"system": HENON_HEILES})
    assert [finding.key for finding in two.check()] == ["propagator.states"]


def test_levels_of_two_coordinates_decay_and_make_gates():
    """A lifetime without a field is an exponential; a permutation of levels is the matrix that exchanges them."""
    data = {"system": SMALL | {"initial": 1, "jumps": [{"lifetimes": {1: 4.0}}]}, "method": "qoc"}
    data |= {"time": {"T": 3.0, "slots": 3}, "optimizer": "none", "dissipation": "lindblad"}
    data |= {"control": {"name": "x", "guess": "zero"}, "output": {"figures": "none"}}
    data["system"]["dipole"] = {"x": "x"}
    found = qsim.run(data).scalars["probability"]
    assert abs(found.value - math.exp(-0.75)) <= found.error < 1e-8
    gate = {"initial": None, "target": {"gate": [2, 0, 1], "on": [0, 1, 3]}}
    goal = model(block(SMALL | gate)).goal
    assert [int(np.flatnonzero(column)[0]) for column in goal.columns.T] == [0, 1, 3]
    assert [int(np.flatnonzero(column)[0]) for column in goal.unitary.T] == [2, 0, 1]

"""Hard walls stand at xmin and xmax: against sines that vanish there, by matrices that share no code with the run.

In the sines ``sqrt(2/L) sin(n pi (x - xmin)/L)`` the kinetic energy is diagonal, ``n^2 pi^2 / 2 L^2``; x and V are integrals by
Gauss-Legendre points.  Orders of the stencils show in the tolerance: the errors that a run claims for spacing and time step.
"""

import math
from functools import cache

import numpy as np
import pytest

from qsim.core.errors import FileError
from qsim.core.results.results import open_results
from qsim.tridiag.propagate import accuracy
from qsim.tridiag.propagate.build import between_walls
from qsim.tridiag.propagate.run import LineEvolution
from qsim.tridiag.tdse import potentials

SINES = 24


class Box:
    """An electron between two walls."""

    def __init__(self, xmin, xmax, potential):
        self.xmin, self.length = xmin, xmax - xmin
        roots, weights = np.polynomial.legendre.leggauss(130)
        self.points = xmin + 0.5 * self.length * (roots + 1.0)
        self.sines = self.at(self.points) * np.sqrt(0.5 * self.length * weights)
        self.x = self.matrix(self.points)
        kinetic = 0.5 * (np.arange(1, SINES + 1) * math.pi / self.length) ** 2
        self.h = np.diag(kinetic) + self.matrix(potential(self.points))
        self.energies, self.levels = np.linalg.eigh(self.h)

    def at(self, x):
        """Return the sines (SINES, points)."""
        number = np.arange(1, SINES + 1)[:, None]
        return math.sqrt(2.0 / self.length) * np.sin(number * math.pi * (x - self.xmin) / self.length)

    def matrix(self, values):
        return (self.sines * values) @ self.sines.T

    def propagate(self, psi, field, t_final):
        """Return the state at the end: midpoint exponentials of two steps, extrapolated."""
        rough, fine = (self._steps(psi, field, t_final, count) for count in (120, 240))
        return (4.0 * fine - rough) / 3.0

    def _steps(self, psi, field, t_final, count):
        h = t_final / count
        for k in range(count):
            values, vectors = np.linalg.eigh(self.h + field((k + 0.5) * h) * self.x)
            psi = vectors @ (np.exp(-1j * h * values) * (vectors.T @ psi))
        return psi


def deck(xmin, xmax, points, stencil="numerov", **blocks):
    return {
        "task": "propagate",
        "grid": {"xmin": xmin, "xmax": xmax, "points": points, "stencil": stencil},
        "time": {"steps": 60, "t_final": 1.2, "outputs": 1},
        "potential": {"type": "free"},
        **blocks,
    }


def found_within(result, name, value):
    """Assert that a number deviates by what spacing and time step are claimed to add, not by much less nor more."""
    numbers = accuracy.numbers(result.problem, result.frames)
    parts = result.parts[name]
    claimed = parts[accuracy.STEP] + parts[accuracy.SPACING] + parts[accuracy.ROUNDED]
    assert abs(numbers[name] - value) <= 2.0 * claimed + 1e-12, (name, numbers[name], value, claimed)
    return claimed


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
@pytest.mark.parametrize("gauge", ["length", "velocity"])
@pytest.mark.parametrize(
    ("xmin", "xmax", "points", "level"), [(0.0, 10.0, 101, 0), (-1.7, 5.4, 73, 2), (3.1, 4.35, 40, 1)]
)
def test_levels_of_a_box(tridiag, stencil, gauge, xmin, xmax, points, level):
    """The energy of level n of a box is exact; a box wider by two spacings is told from it by far."""
    laser = {"gauge": gauge, "pulses": [{"shape": "static", "E0": 1e-12}]}
    result = tridiag.run(**deck(xmin, xmax, points, stencil, initial=level, laser=laser))
    exact = 0.5 * ((level + 1) * math.pi / (xmax - xmin)) ** 2
    claimed = found_within(result, "energy_initial", exact)
    assert claimed < 0.1 * exact * 4.0 / (points - 1)
    assert result.frames["norm"][-1] == pytest.approx(1.0, abs=1e-12)


def test_walls_that_shape_the_start_are_no_error(tridiag):
    """Those of a level of a box belong to the deck; those that a packet meets later are told, and claimed."""
    level = tridiag.run(**deck(0.0, 10.0, 101, initial=1, observe=[{"populations": 2}]))
    assert level.numbers["turned_back"] > 1e-3
    assert level.errors["population_1"] < 1e-9
    assert level.errors["dipole_final"] < 1e-9
    packet = {"type": "gaussian", "x0": 5.0, "k0": 4.0, "width": 0.6}
    later = tridiag.run(**deck(0.0, 10.0, 201, initial=packet, observe=[{"populations": 2}]))
    assert later.errors["population_1"] > later.numbers["turned_back"] > 0.1


def test_the_two_boxes_of_the_documentation(tridiag):
    for points, tolerance in ((101, 1e-9), (201, 1e-10)):
        energy = tridiag.run(**deck(0.0, 10.0, points, initial=0)).frames["energy"][0]
        assert energy == pytest.approx(math.pi**2 / 200, abs=tolerance)


SLOPED = {"type": "expression", "value": "0.7*x + cos(1.3*x)"}


def sloped(x):
    return 0.7 * x + np.cos(1.3 * x)


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_driven_electron_between_walls(tridiag, stencil, gauge):
    """Levels that both walls cut, a packet of two of them, a strong field: energies, populations, shares of the box."""
    xmin, xmax, t = -2.3, 3.4, 1.2
    laser = {
        "gauge": gauge,
        "pulses": [{"shape": "expression", "value": "0.9*sin(pi*t/T)^2*cos(2*t)", "duration": t}],
    }
    result = tridiag.run(
        **deck(
            xmin,
            xmax,
            89,
            stencil,
            potential=SLOPED,
            laser=laser,
            initial={"0": 1, "2": "0.6i"},
            observe=[{"populations": 4}, {"norm_right": [0.35]}],
        )
    )
    box, start, end = driven(xmin, xmax, t)
    found_within(result, "energy_initial", float((start.conj() @ box.h @ start).real))
    found_within(result, "energy_final", float((end.conj() @ box.h @ end).real))
    found_within(result, "dipole_final", float((end.conj() @ box.x @ end).real))
    for level in range(4):
        found_within(result, f"population_{level}", abs(box.levels[:, level] @ end) ** 2)
    right = (box.points > 0.35) * 1.0  # a Gauss sum over half a box is good to some 1e-3
    share = float((end.conj() @ box.matrix(right) @ end).real)
    assert result.frames["norm_right"][-1, 0] == pytest.approx(share, abs=5e-3)
    assert result.frames["norm"][-1] == pytest.approx(1.0, abs=1e-12)


@cache
def driven(xmin, xmax, t):
    """Return the box, and the states at both ends of the run."""
    box = Box(xmin, xmax, sloped)
    # the first lobes of levels are positive
    signs = np.sign(box.levels.T @ box.at(np.array([xmin + 0.02])))[:, 0]
    start = (box.levels[:, 0] * signs[0] + 0.6j * box.levels[:, 2] * signs[2]) / math.sqrt(1.36)
    return (
        box,
        start,
        box.propagate(start, lambda s: 0.9 * math.sin(math.pi * s / t) ** 2 * math.cos(2 * s), t),
    )


def test_a_table_that_ends_at_the_walls(tridiag):
    """No companion looks beyond it, and it is drawn to its ends; the levels are those between the walls."""
    x = np.linspace(-2.3, 3.4, 60)
    np.savetxt(tridiag.folder / "v.txt", np.column_stack([x, sloped(x)]), fmt="%.17g")
    keys = deck(-2.3, 3.4, 100, potential={"type": "table", "file": "v.txt"}, initial=1)
    summary = tridiag.execute(**keys, observe=[{"populations": 2}, {"density": {"points": 1000}}])
    energy = summary["scalars"]["energy_initial"]
    assert energy["error"] is not None
    exact = Box(-2.3, 3.4, sloped).energies[1]
    assert abs(energy["value"] - exact) <= 10 * energy["error"]
    assert energy["error"] < 1e-4
    with open_results(tridiag.folder / "deck.h5") as results:
        assert results["x"].shape == results["psi_final"].shape == results["potential"].shape == (100,)
        np.testing.assert_allclose(results["x"], np.linspace(-2.3, 3.4, 100), rtol=0, atol=1e-14)
        np.testing.assert_allclose(results["potential"], sloped(results["x"]), rtol=0, atol=1e-5)
        np.testing.assert_array_equal(results["x_density"], results["x"])
        for name in ("psi_initial", "psi_final", "density"):
            np.testing.assert_array_equal(results[name][..., [0, -1]], 0)
            assert np.all(np.abs(results[name][..., 1:-1]).max(axis=-1) > 0.1)
        np.testing.assert_allclose(
            results["density"][-1], np.abs(results["psi_final"]) ** 2, rtol=0, atol=1e-14
        )


@pytest.mark.parametrize("count", [7, 40, 58, 59, 60])
def test_columns_of_the_density_map_are_grid_points(tridiag, count):
    keys = deck(-1.0, 2.0, 60, initial=1, observe=[{"density": {"points": count, "range": [-1.0, 1.53]}}])
    problem = tridiag.run(**keys).problem
    assert 0 < len(problem.columns) <= count
    np.testing.assert_array_equal(problem.x_of_columns, problem.x[np.asarray(problem.columns)])
    assert problem.x_of_columns[0] == -1.0


def test_companions_stay_between_the_walls(tridiag):
    problem = tridiag.build(**deck(-1.3, 0.9, 31, potential={"type": "harmonic", "omega": 1.0}))
    for points in (6, 17, 29, 30, 64):
        for average in (False, True):
            lattice = accuracy.companion(problem, 20, points, average=average).lattice
            assert lattice.points == points
            assert lattice.xmin == pytest.approx(-1.3 + lattice.dx, abs=1e-14)
            assert lattice.x[-1] == pytest.approx(0.9 - lattice.dx, abs=1e-14)


ABSORBERS = [
    {"type": "cap", "width": 3.7, "strength": 0.4, "power": 3},
    {"type": "manolopoulos", "kmin": 1.9},
    {"type": "mask", "width": 3.7, "power": 0.5},
]


@pytest.mark.parametrize("block", ABSORBERS, ids=lambda block: block["type"])
def test_absorbers_end_at_the_walls(tridiag, block):
    """The same W at the same place, whatever the spacing; its largest value, or where it diverges, lies at the wall."""
    place, values = 11.3 - 0.6, []
    for points in (230, 1146):  # place is a point of both grids
        keys = deck(-11.6, 11.3, points, initial={"type": "gaussian", "width": 0.8}, absorber=block)
        problem = tridiag.build(**keys)
        name = "mask" if block["type"] == "mask" else "cap"
        whole = problem.with_walls(name)
        values.append(whole[np.argmin(np.abs(problem.x - place))])
        lattice = accuracy.companion(problem, problem.steps, points // 2).lattice
        other = lattice.mask if name == "mask" else lattice.cap
        expected = np.interp(lattice.x, problem.x, whole)
        inner = np.abs(lattice.x) < 9.0
        np.testing.assert_allclose(other[inner], expected[inner], rtol=0, atol=5e-3)
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    at_wall = whole[[0, -1]]
    if block["type"] == "cap":
        assert at_wall == pytest.approx([0.4, 0.4], rel=1e-12)
        assert values[0] == pytest.approx(0.4 * (3.1 / 3.7) ** 3, rel=1e-9)
    elif block["type"] == "mask":
        np.testing.assert_array_equal(at_wall, 0.0)
        assert values[0] == pytest.approx(math.cos(0.5 * math.pi * 3.1 / 3.7) ** 0.5, rel=1e-9)
    else:  # W = 2 kmin^2 / (c - u)^2 close to the wall, c - u = 2 delta kmin times the distance
        near = 11.3 - problem.x[-2]
        assert whole[-2] == pytest.approx(2.0 * (1.9 / (2 * 0.2 * 1.9 * near)) ** 2, rel=2e-3)


def test_blocks_of_a_deck_are_those_of_its_points(tridiag):
    """Their sizes add up to the points; the walls, which are no unknowns, belong to the first and the last."""
    keys = deck(-2.0, 3.0, 60, potential={"type": "harmonic", "omega": 1.0}, initial=1)
    whole = tridiag.run(**keys)
    for blocks, inside in (
        ([60], [58]),
        ([2, 30, 27, 1], [31, 27]),
        ([2, 57, 1], [58]),
        ([10, 20, 30], [9, 20, 29]),
        ([57, 1, 1, 1], [56, 1, 1]),
        (59, 57),
        (3, 3),
    ):
        result = tridiag.run(**keys, solver={"blocks": blocks})
        assert result.problem.solver.blocks == inside
        np.testing.assert_allclose(result.psi, whole.psi, rtol=0, atol=1e-12)
    assert between_walls(tridiag.load(**keys).deck.propagation).blocks == "auto"


def test_a_state_of_the_same_grid_is_taken_as_it_is(tridiag):
    """From a results file, with zeros at the walls or (of an earlier version) without."""
    keys = deck(-2.0, 3.0, 60, potential={"type": "harmonic", "omega": 1.0}, initial=1)
    first = tridiag.execute(**keys)
    assert first["scalars"]["steps"]["value"] == 60
    with open_results(tridiag.folder / "deck.h5") as results:
        x, psi = results["x"], results["psi_final"]
    (tridiag.folder / "deck.h5").rename(tridiag.folder / "a.h5")
    keys["initial"] = {"type": "file", "file": "a.h5"}
    again = tridiag.build(**keys)
    np.testing.assert_allclose(again.psi0, psi[1:-1], rtol=0, atol=1e-14)
    table = np.column_stack([x, psi.real + 1e-4, psi.imag])
    np.savetxt(tridiag.folder / "b.txt", table, fmt="%.17g")
    keys["initial"]["file"] = "b.txt"
    np.testing.assert_allclose(tridiag.build(**keys).psi0, psi[1:-1] + 1e-4, rtol=0, atol=1e-3)


def test_a_checkpoint_of_a_box_with_other_walls_is_refused(tridiag):
    """Earlier versions had an unknown at xmin and xmax."""
    evolution = LineEvolution(tridiag.build(**deck(-2.0, 3.0, 60)))
    state = evolution.state()
    LineEvolution(evolution.problem, state)
    state["psi"] = np.pad(state["psi"], 1)
    with pytest.raises(FileError, match=r"'psi' has shape \(60,\), the deck needs 58 numbers"):
        LineEvolution(evolution.problem, state)


def test_edges_of_parts_next_to_a_wall_are_claimed(tridiag):
    """A share that begins within the first cells: its error is that of a density that vanishes quadratically at the wall."""
    for place in (-1.96, -1.9, -1.83, 2.93, 2.97):
        keys = deck(-2.0, 3.0, 51, initial=1, observe=[{"norm_right": [place]}])
        result = tridiag.run(**keys)
        y = (place + 2.0) / 5.0
        exact = 1.0 - y + math.sin(4 * math.pi * y) / (4 * math.pi)
        off = abs(result.frames["norm_right"][0, 0] - exact)
        claimed = accuracy.cuts(result.problem, result.problem.psi0)[f"norm_right_{place:g}"]
        assert off <= 2.0 * claimed, (place, off, claimed)


def test_the_average_of_a_potential_looks_at_nothing_beyond_the_walls(tridiag):
    seen = []
    problem = tridiag.build(**deck(-2.0, 3.0, 60, potential=SLOPED))
    block = problem.potential

    class Spy:
        in_parts = False

        def V(self, x):
            seen.extend((float(x.min()), float(x.max())))
            return block.V(x)

    potentials.averaged(Spy(), problem.lattice.x)
    assert min(seen) >= -2.0
    assert max(seen) <= 3.0

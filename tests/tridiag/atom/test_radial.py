"""Radial grid, levels and steps of `task: atom` against dense matrices, closed forms and reference values."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import CORNER, first_entry, mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes
from qsim.tridiag.atom.states.levels import Radial, level
from qsim.tridiag.deck.central import Central
from qsim_checks.tridiag.atoms import Basis

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "atom.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}


def hydrogen(grid, cap=None):
    return AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0, cap)


def band(n, below, here, above):
    return np.diag(np.full(n, here)) + np.diag(np.full(n - 1, below), -1) + np.diag(np.full(n - 1, above), 1)


def dense(lattice, lanes, electric=0.0, vector=0.0):
    """H of all l on the grid as one matrix, from the formulas of the theory page."""
    grid, n, used = lattice.grid, lattice.grid.points, lanes.used
    derivative = band(n, -0.5, 0.0, 0.5)
    mass = band(n, 1 / 6, 4 / 6, 1 / 6)
    mass[0, 0] = mass[-1, -1] = (4 + CORNER) / 6
    derivative[0, 0], derivative[-1, -1] = CORNER / 2, -CORNER / 2
    root = np.sqrt(grid.slope)
    slope = np.linalg.solve(mass, derivative) / root[:, None] / root
    h = np.zeros((used * n, used * n), complex)
    for k in range(used):
        l, here = abs(lanes.m) + k, slice(k * n, (k + 1) * n)
        m2 = band(n, 1 / 12, 10 / 12, 1 / 12)
        m2[0, 0] = first_entry(l, lattice.charge, grid.step)
        kinetic = -0.5 * np.linalg.solve(m2, 12 * (m2 - np.eye(n))) / grid.slope[:, None] / grid.slope
        v = lattice.potential + grid.curvature + l * (l + 1) / (2 * grid.r**2)
        if lattice.cap is not None:
            v = v - 1j * lattice.cap
        h[here, here] = kinetic + np.diag(v)
        if k + 1 < used:
            after, c = slice((k + 1) * n, (k + 2) * n), float(lanes.coupling(l))
            up = c * (electric * np.diag(grid.r) - 1j * vector * (slope - np.diag((l + 1) / grid.r)))
            h[after, here], h[here, after] = up, up.conj().T
    return h


GRIDS = {"uniform": uniform(12.3, 0.3), "mapped": mapped(12.4, 0.4, 0.1, 12.0)}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize(("gauge", "value"), [("length", 0.08), ("velocity", 0.3)])
@pytest.mark.parametrize("order", [2, 4])
def test_steps_converge_to_the_exponential(grid, m, gauge, value, order):
    lattice, lanes = hydrogen(grid), Lanes(m, 4 + m)
    velocity = gauge == "velocity"
    h = dense(lattice, lanes, *((0.0, value) if velocity else (value, 0.0)))
    assert np.abs(h - h.conj().T).max() < 1e-12 * np.abs(h).max()
    e, x = np.linalg.eigh(h)
    phi = np.zeros((lanes.used, grid.points), complex)
    phi[0] = level(lattice, 1 + m, m)[1]
    exact = (x @ (np.exp(-2j * e) * (x.conj().T @ phi.ravel()))).reshape(phi.shape)
    errors = []
    for steps in (40, 80) if order == 2 else (20, 40):
        made = Propagator(
            lattice,
            lanes,
            phi,
            2.0 / steps,
            velocity=velocity,
            field=lambda t: np.full(np.shape(t), value),
            order=order,
        )
        made.advance(steps)
        errors.append(abs(abs(np.vdot(phi, made.phi)) ** 2 - abs(np.vdot(phi, exact)) ** 2))
        assert np.linalg.norm(made.phi - exact) < 5e-3
        assert np.sum(np.abs(made.phi) ** 2) == pytest.approx(1.0, abs=1e-12)
    # the populations: amplitudes of the fastest components of the lattice converge later
    assert errors[1] < (2e-5 if order == 2 else 1e-6)
    assert math.log2(errors[0] / errors[1]) > (1.8 if order == 2 or velocity else 3.0)


def test_radial_step_is_cayleys():
    """No field: one step is (1 + i dt H/2)^-1 (1 - i dt H/2) of the dense matrix, with an absorber too."""
    grid = GRIDS["mapped"]
    cap = 0.3 * np.clip(grid.r - 6.0, 0.0, None) ** 2 / 36.0
    lattice, lanes = hydrogen(grid, cap), Lanes(0, 3)
    rng = np.random.default_rng(5)
    phi = rng.normal(size=(4, grid.points)) + 1j * rng.normal(size=(4, grid.points))
    for velocity in (False, True):
        made = Propagator(lattice, lanes, phi, 0.1, velocity=velocity, field=lambda t: np.zeros(np.shape(t)))
        made.advance(1)
        half = 0.05j * dense(lattice, lanes)
        expected = np.linalg.solve(np.eye(half.shape[0]) + half, phi.ravel() - half @ phi.ravel())
        assert np.abs(made.phi.ravel() - expected).max() < 2e-13 * np.abs(phi).max() * grid.points


@pytest.mark.parametrize("velocity", [False, True])
def test_there_and_back(velocity):
    """Steps with -dt and the fields in reverse undo the steps."""
    grid = GRIDS["mapped"]
    lattice, lanes = hydrogen(grid), Lanes(0, 5)
    phi = np.zeros((6, grid.points), complex)
    phi[0] = level(lattice, 1, 0)[1]
    field = lambda t: 0.3 * np.sin(0.9 * t)  # noqa: E731
    made = Propagator(lattice, lanes, phi, 0.05, velocity=velocity, field=field)
    made.advance(200)
    back = Propagator(lattice, lanes, made.phi, -0.05, velocity=velocity, field=lambda t: field(t + 10.0))
    back.advance(200)
    assert np.abs(back.phi - phi).max() < 1e-10


def test_lattice_exact_reference():
    """Populations and dipole of the dense exponential, and the error of the splitting."""
    want = REFERENCES["lattice_exact_length"]["result"]
    lattice, lanes = hydrogen(uniform(60.5, 0.5)), Lanes(0, 4)
    phi = np.zeros((5, 120), complex)
    energy, phi[0] = level(lattice, 1, 0)
    assert energy == pytest.approx(-0.506355618742, abs=1e-11)
    found = []
    for dt in (0.04, 0.02, 0.01):
        made = Propagator(lattice, lanes, phi, dt, velocity=False, field=lambda t: np.full(np.shape(t), 0.05))
        made.advance(round(10 / dt))
        found.append(abs(np.vdot(phi, made.phi)) ** 2)
    assert np.array(found) - want["P0"] == pytest.approx(want["splitting dt=.04,.02,.01 deviates"], rel=1e-3)
    assert (4 * found[2] - found[1]) / 3 == pytest.approx(want["P0"], abs=1e-9)
    weights = (np.abs(made.phi) ** 2).sum(axis=1)
    assert weights == pytest.approx(want["pop_l"], abs=1e-6)


def test_levels_of_the_uniform_grid():
    want = REFERENCES["levels_uniform"]
    for h, box in zip(want["params"]["h"], want["params"]["R"], strict=True):
        lattice = hydrogen(uniform(box, h))
        for l in range(3):
            energies = want["result"][f"h{h}"][f"l{l}"]
            found = [Radial(lattice, l).energy(k) for k in range(len(energies))]
            assert found == pytest.approx(energies, abs=1e-9)


@pytest.mark.parametrize(
    ("dr", "dr0", "width"), [(0.03, 0.03, 1.0), (0.0371, 0.005, 20.0), (0.023, 0.011, 90.0)]
)
def test_the_wall_lies_at_rmax(dr, dr0, width):
    """2s and 3s vanish at 2 and at (9 - sqrt(27)) / 2 bohr: so does hydrogen in such a box; 3p at 6."""
    for rmax, l, energy in ((2.0, 0, -1 / 8), (4.5 - math.sqrt(6.75), 0, -1 / 18), (6.0, 1, -1 / 18)):
        grid = mapped(rmax, dr, dr0, width)
        assert grid.wall == pytest.approx(rmax, rel=1e-14)
        assert grid.widest <= dr
        assert Radial(hydrogen(grid), l).energy(0, highest=1.0) == pytest.approx(energy, abs=1e-6)
    coarse = mapped(rmax, dr, dr0, width, 1.25)
    assert coarse.wall == pytest.approx(rmax, rel=1e-14)
    assert coarse.step / grid.step == pytest.approx(1.25, rel=0.02)


def test_levels_of_the_mapped_grid():
    """Better than 1.1 times the errors of the reference: there, the corrections take r'(1) for r'(0)."""
    want = REFERENCES["levels_mapped"]
    for k, one in enumerate(want["params"]["sets"]):
        grid = mapped(80.2, one["d1"], one["d0"], one["x0"])
        assert abs(grid.points - one["n"]) <= 1
        for name, n, l in (("1s", 1, 0), ("2s", 2, 0), ("2p", 2, 1), ("3d", 3, 2)):
            error = level(hydrogen(grid), n, l)[0] + 0.5 / n**2
            assert abs(error) <= 1.1 * abs(want["result"][f"error_{name}"][k])


@pytest.mark.parametrize("atom", ["He", "Ne", "Ar"])
def test_levels_of_model_atoms(atom):
    want = REFERENCES["sae_levels"]["result"][f"{atom}_tong_lin"]
    block = TypeAdapter(Central).validate_python({"type": "tong_lin", "element": atom})
    grid = mapped(60.0, 0.1, 0.0025 if atom == "Ar" else 0.005, 150.0)
    lattice = AtomLattice(grid, block.V(grid.r), block.dV(grid.r), block.nucleus)
    for l, energies in enumerate(want.values()):
        for k, energy in enumerate(energies):
            atol = 3e-7 if energy > -1.0 else 3e-6 * energy**2
            assert Radial(lattice, l).energy(k) == pytest.approx(energy, abs=atol)


CENTRAL = [
    {"type": "hydrogen", "Z": 2.0},
    {"type": "yukawa", "range": 3.0},
    {"type": "tong_lin", "element": "Ar"},
    {"type": "gsz", "Z": 18.0},
    {"type": "gsz", "Z": 11.0, "N": 11.0, "xi": 1.8, "eta": 2.7},
    {"type": "muller_ar"},
    {"type": "sum_exp", "Z": 2.0, "terms": [{"C": -3.0, "N": -1, "A": 2.0}, {"C": 4.0, "N": 2, "A": 1.5}]},
    {"type": "expression", "value": "-(1 + exp(-2*r))/r"},
]


@pytest.mark.parametrize("block", CENTRAL, ids=lambda block: block["type"])
def test_slopes_and_charges(block):
    one = TypeAdapter(Central).validate_python(block)
    r = np.array([0.01, 0.3, 1.0, 4.0, 30.0])
    h = 1e-4 * r
    numeric = (one.V(r - 2 * h) - 8 * one.V(r - h) + 8 * one.V(r + h) - one.V(r + 2 * h)) / (12 * h)
    assert one.dV(r) == pytest.approx(numeric, rel=1e-9)
    near = np.array([1e-7])
    assert -near * one.V(near) == pytest.approx(one.nucleus, rel=1e-5)
    far = np.array([200.0])
    assert -far * one.V(far) == pytest.approx(one.tail, abs=1e-9)


def test_a_soft_core(tridiag):
    """No nucleus: slope by differences, and its levels against finite elements."""
    one = TypeAdapter(Central).validate_python({"type": "softcore", "Z": 1.0, "a": 1.0})
    r, h = np.array([0.01, 0.3, 1.0, 4.0, 30.0]), 1e-3
    numeric = (one.V(r - 2 * h) - 8 * one.V(r - h) + 8 * one.V(r + h) - one.V(r + 2 * h)) / (12 * h)
    assert one.dV(r) == pytest.approx(numeric, abs=1e-10)
    problem = tridiag.build(
        task="atom", atom={"type": "softcore", "a": 1.0}, grid={"rmax": 40, "dr": 0.2, "l_max": 1}, time={"dt": 1, "t_final": 4}
    )  # fmt: skip
    basis = Basis(one.V, problem.lattice.grid.wall, 1, 0, 14, 0.0)
    for l in (0, 1):
        assert Radial(problem.lattice, l).energy(0) == pytest.approx(float(basis.energies[l][0]), abs=2e-7)


def test_muller_as_a_sum_of_exponentials():
    terms = [{"C": -5.4, "N": -1, "A": 1.0}, {"C": -11.6, "N": -1, "A": 3.682}]
    blocks = ({"type": "sum_exp", "terms": terms}, {"type": "muller_ar"})
    one, two = (TypeAdapter(Central).validate_python(block) for block in blocks)
    r = np.array([0.01, 0.5, 3.0, 20.0])
    assert one.V(r) == pytest.approx(two.V(r), rel=1e-14)
    assert one.nucleus == pytest.approx(two.nucleus)
    turned = r * np.exp(0.4j)
    assert one.V(turned) == pytest.approx(two.V(turned), rel=1e-13)


def test_table_is_continued_by_its_tail(tmp_path):
    r = np.concatenate([np.linspace(0.001, 2.0, 400), np.linspace(2.1, 20.0, 200)])
    table = tmp_path / "v.txt"
    np.savetxt(table, np.column_stack([r, -(1.0 + 2.0 * np.exp(-2.0 * r)) / r]))
    one = TypeAdapter(Central).validate_python({"type": "table", "file": str(table)})
    assert one.nucleus == pytest.approx(3.0, abs=1e-6)
    assert one.tail == pytest.approx(1.0, abs=1e-9)
    far = np.array([1.234, 50.0])
    assert one.V(far) == pytest.approx(-(1.0 + 2.0 * np.exp(-2.0 * far)) / far, abs=1e-8)
    assert one.dV(far[1:]) == pytest.approx(1.0 / far[1:] ** 2, rel=1e-9)


def test_parts_of_steps():
    """Steps in three parts are three steps, and a mask acts once per step."""
    from dataclasses import replace

    grid = GRIDS["mapped"]
    lattice, lanes = hydrogen(grid), Lanes(0, 4)
    lattice = replace(lattice, mask=np.where(grid.r > 8.0, 0.9, 1.0))
    phi = np.zeros((5, grid.points), complex)
    phi[0] = level(hydrogen(grid), 2, 0)[1]
    keys = {"velocity": True, "field": lambda t: 0.2 * np.cos(t)}
    whole = Propagator(lattice, lanes, phi, 0.03, parts=3, **keys)
    whole.advance(20)
    root = replace(lattice, mask=lattice.mask ** (1.0 / 3.0))
    fine = Propagator(root, lanes, phi, 0.01, parts=1, **keys)
    fine.advance(60)
    assert np.abs(whole.phi - fine.phi).max() < 1e-12
    assert whole.step == 20

"""Decks of sturmian: short forms, what ``auto`` stands for, symmetries, scans, and what the results file holds."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from qsim.core.deck.load import load_deck
from qsim.core.deck.reference import deck_reference
from qsim.core.deck.template import schema, template
from qsim.core.errors import DeckError
from qsim.core.results.results import open_results
from qsim.core.run.stages import Method, stage
from qsim.sturmian import build
from qsim.sturmian.deck import DECK, references
from qsim.sturmian.two_electron import known

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "system": {"Z": 2},
    "grid": {"R": 16, "order": 10},
    "basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": 8},
    "channels": {"L": 0, "S": 0, "l_max": 1},
}


# ---------------------------------------------------------------------------------------- short forms


def test_a_deck_needs_nothing_but_a_charge(sturmian):
    deck = sturmian.load(system={"Z": 2}).deck
    assert deck.task.type == "bound"
    assert deck.task.n_roots == 1
    assert deck.basis.type == "gsf"
    assert deck.basis.generating.type == "yukawa"
    assert deck.basis.energy == deck.basis.generating.alpha == deck.grid.R == "auto"
    assert deck.solver.type == "matrix_free"


SHORT = {
    "grid": ({"grid": "auto"}, "grid.R", "auto"),
    "basis": ({"basis": "fedvr"}, "basis.type", "fedvr"),
    "gsf": ({"basis": "gsf"}, "basis.N", 35),
    "generating": ({"basis": {"type": "gsf", "generating": "hulthen"}}, "basis.generating.alpha", "auto"),
    "coulomb": ({"basis": {"type": "gsf", "generating": "coulomb"}}, "basis.generating.type", "coulomb"),
    "potential": ({"system": {"Z": 2, "potential": "coulomb"}}, "system.potential.type", "coulomb"),
    "task": ({"task": "integrals"}, "task.route", ["poisson_gemm", "simpson"]),
    "solver": ({"solver": "dense"}, "solver.type", "dense"),
    "auxiliary": ({"basis": {"type": "gsf", "U": {"charge": 1.0}}}, "basis.auxiliary.charge", 1.0),
    "unit of energy": ({"basis": {"type": "gsf", "energy": "-27.211386245981 eV"}}, "basis.energy", -1.0),
    "unit of length": ({"grid": {"R": "1 nm"}}, "grid.R", 18.897261),
    "unit of alpha": (
        {"basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": "1 1/angstrom"}}},
        "basis.generating.alpha",
        0.529177,
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_short_forms(sturmian, name):
    blocks, key, value = SHORT[name]
    found = sturmian.load(**{"system": {"Z": 2}, **blocks}).deck
    for part in key.split("."):
        found = getattr(found, part)
    assert found == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)


def test_template_schema_and_reference(tmp_path):
    for full in (False, True):
        path = tmp_path / "made.yaml"
        path.write_text(template(DECK, full), encoding="utf-8")
        assert load_deck(path, DECK).deck.method == "sturmian"
    assert json.dumps(schema(DECK))
    assert "`basis.generating`: `hulthen`" in deck_reference(DECK)


@pytest.mark.parametrize("path", sorted((ROOT / "inputs/sturmian").glob("*.yaml")), ids=lambda p: p.stem)
def test_decks_of_the_folder_have_a_plan_without_warnings(path):
    loaded = load_deck(path, DECK)
    plan = stage("sturmian", "build").plan(loaded)
    loaded.raise_for(plan.findings)
    assert loaded.warnings == []
    assert plan.sizes["grid points"] < 500
    assert "Colavecchia2014" in references(loaded.deck)


# --------------------------------------------------------------------------------------------- auto


def test_auto_follows_from_the_weakest_state(sturmian):
    """E = -I, alpha = 0.42 sqrt(2 I), R = 12/sqrt(2 I) + 8/Z, of the state bound most weakly."""
    problem = sturmian.build(system={"Z": 2}, channels={"l_max": 1}, basis={"type": "gsf", "N": 8})
    binding = 0.9037
    assert problem.energy == pytest.approx(-binding, rel=0.03)
    assert problem.alpha == pytest.approx(0.42 * np.sqrt(2 * binding), rel=0.02)
    assert abs(problem.values.R - 12 / np.sqrt(2 * binding) - 4) < 0.3
    assert len(problem.notices) == 3
    states = [{"root": 0}, {"L": 1, "S": 0}]
    problem = sturmian.build(
        system={"Z": 2}, channels={"l_max": 1}, states=states, basis={"type": "gsf", "N": 8}
    )
    assert problem.energy == pytest.approx(-0.1238, rel=0.03)


def test_what_is_given_stays(sturmian):
    problem = sturmian.build(**SMALL)
    assert (problem.energy, problem.alpha, problem.values.R, problem.notices) == (-0.9, 0.6, 16.0, [])
    mixed = {**SMALL, "basis": {"type": "gsf", "generating": "hulthen", "energy": -0.605, "N": 8}}
    assert sturmian.build(**mixed).alpha == pytest.approx(0.66)


AUTO = {
    "he": (2, {"L": 0, "S": 0, "l_max": 0}, -2.8790287673, 5e-7),
    "h-": (1, {"L": 0, "S": 0, "l_max": 1}, -0.5265846870, 1e-6),
    "li+": (3, {"L": 0, "S": 0, "l_max": 0}, -7.2524919998, 2e-6),
    "2^3S": (2, {"L": 0, "S": 1, "l_max": 0}, -2.174264856, 5e-7),
    "2^3P": (2, {"L": 1, "S": 1, "l_max": 1}, -2.132371380, 1e-6),
}


@pytest.mark.parametrize("name", AUTO)
def test_auto_converges(sturmian, name):
    """Twenty functions with everything automatic come close to the limit of the radial basis."""
    Z, channels, limit, allowed = AUTO[name]
    result = sturmian.run(system={"Z": Z}, channels=channels, basis={"type": "gsf", "N": 20}, grid="auto")
    above = result.states[0].energy - limit
    assert -1e-8 < above < allowed


@pytest.mark.parametrize("kind", ["coulomb", "hulthen", "exponential", "square_well"])
def test_auto_of_every_generating_potential(sturmian, kind):
    result = sturmian.run(**{**SMALL, "basis": {"type": "gsf", "generating": kind, "N": 24}, "grid": "auto"})
    assert result.states[0].energy == pytest.approx(-2.9005162472, abs=1e-3)
    assert result.states[0].energy > -2.9005162472 - 1e-8


# ----------------------------------------------------------------------------------- symmetries, states


def test_sectors_and_order_of_states(sturmian):
    problem = sturmian.build(**{**SMALL, "channels": {"L": [0, 1], "S": [0, 1], "l_max": 2}})
    assert [(s.L, s.S, s.parity) for s in problem.sectors] == [
        (0, 0, "even"),
        (0, 1, "even"),
        (1, 0, "odd"),
        (1, 1, "odd"),
    ]
    assert problem.sectors[0].pairs == ((0, 0), (1, 1), (2, 2))
    assert problem.sectors[2].pairs == ((0, 1), (1, 2))
    states = [{"L": 1, "S": 1}, {"root": 1}, {"root": 0}]
    result = sturmian.run(
        **{**SMALL, "grid": {"R": 40, "order": 10}, "channels": {"l_max": 1}, "states": states}
    )
    assert Method("sturmian").arrays(result)["state"].tolist() == ["2^3P", "2^1S", "1^1S"]
    assert result.states[0].energy > result.states[2].energy


def test_given_pairs_are_sorted_and_kept(sturmian):
    problem = sturmian.build(**{**SMALL, "channels": {"L": 1, "S": 0, "pairs": [[1, 0], [1, 2]]}})
    assert problem.sectors[0].pairs == ((0, 1), (1, 2))
    even = {"L": 1, "S": 1, "parity": "even", "l_max": 2}
    assert sturmian.build(**{**SMALL, "channels": even}).sectors[0].pairs == ((1, 1), (2, 2))


def test_functions_of_each_l(sturmian):
    problem = sturmian.build(**{**SMALL, "basis": {**SMALL["basis"], "N": [9, 6]}, "channels": {"l_max": 3}})
    assert [problem.size(k) for k in range(4)] == [9, 6, 6, 6]
    assert [problem.functions(k).beta.size for k in range(4)] == [9, 6, 6, 6]


TERMS = {
    "1^1S": (0, 0, "even", 0),
    "2^1S": (0, 0, "even", 1),
    "2^3S": (0, 1, "even", 0),
    "2^3P": (1, 1, "odd", 0),
    "3^1P": (1, 0, "odd", 1),
    "3^1D": (2, 0, "even", 0),
    "3P^e(1)": (1, 1, "even", 0),
}


@pytest.mark.parametrize("name", TERMS)
def test_names_of_states(name):
    assert known.term(*TERMS[name]) == name


def test_known_energies_are_those_of_the_references():
    data = json.loads((ROOT / "tests/reference_data/sturmian.json").read_text(encoding="utf-8"))["references"]
    exact = {entry["id"]: entry["value"] for entry in data if "exact" in entry["id"].lower()}
    for name, value in exact.items():
        assert any(value == pytest.approx(energy, abs=2e-9) for energy in known.ENERGIES.values()), name
    assert known.energy(2, 0, 0, "even", 0) == pytest.approx(-2.903724377034, abs=1e-12)
    assert known.energy(2.5, 0, 0, "even", 0) is None
    assert known.energy(2, 1, 1, "even", 0) is None


# ---------------------------------------------------------------------------------------------- scans


def test_scans_change_one_key_at_a_time(sturmian):
    scan = {"N": [4, 6, 8], "l_max": [0, 1], "R": [12.0, 16.0], "alpha": [0.6, 0.9], "energy": [-0.9, -1.2]}
    result = sturmian.run(**{**SMALL, "scan": {**scan, "order": [10, 12]}})
    assert set(result.convergence) == {"N", "l_max", "R", "alpha", "energy", "order"}
    own = result.states[0].energy
    for key, index in (("N", 2), ("l_max", 1), ("R", 1), ("alpha", 0), ("energy", 0), ("order", 0)):
        assert result.convergence[key].energies[index, 0] == pytest.approx(own, abs=1e-10), key
    energies = result.convergence["N"].energies[:, 0]
    assert np.all(np.diff(energies) < 0)  # every space holds the one before


def test_with_shares_what_it_can(sturmian):
    problem = sturmian.build(**SMALL)
    functions = problem.functions(0)
    more = problem.with_(l_max=3)
    assert more.grid is problem.grid
    assert more.functions(0) is functions
    assert len(more.sectors[0].pairs) == 4
    fewer = problem.with_(N=5)
    assert fewer.grid is problem.grid
    np.testing.assert_array_equal(fewer.functions(0).c, functions.c[:, :5])
    assert problem.with_(R=20.0).grid.R == 20.0
    assert problem.with_(alpha=0.8).functions(0).beta[0] != functions.beta[0]


def test_a_scan_keeps_what_auto_chose(sturmian):
    problem = sturmian.build(system={"Z": 2}, basis={"type": "gsf", "N": 8}, channels={"l_max": 0})
    other = problem.with_(energy=-2.0)
    assert other.alpha == problem.alpha
    assert other.values.R == problem.values.R


# ------------------------------------------------------------------------------------------- solvers


def test_the_paper_s_route_gives_the_same_energies(sturmian):
    free = sturmian.run(**SMALL, solver={"type": "matrix_free"}, task={"type": "bound", "n_roots": 2})
    dense = sturmian.run(**SMALL, solver={"type": "dense"}, task={"type": "bound", "n_roots": 2})
    for a, b in zip(free.states, dense.states, strict=True):
        assert a.energy == pytest.approx(b.energy, abs=1e-9)


def test_an_auxiliary_potential_of_another_charge_spans_a_similar_space(sturmian):
    """Functions of U = -1/r are others than those of -2/r, but both bases converge to the same energy."""
    N = {"basis__N": 20}
    one = sturmian.run(**{**SMALL, "basis": {**SMALL["basis"], "N": N["basis__N"]}})
    two = sturmian.run(
        **{**SMALL, "basis": {**SMALL["basis"], "N": N["basis__N"], "auxiliary": {"charge": 1.0}}}
    )
    assert two.bases[0].beta[0] != pytest.approx(one.bases[0].beta[0], abs=1e-2)
    assert two.states[0].energy == pytest.approx(one.states[0].energy, abs=1e-6)


def test_a_potential_by_formula_is_the_potential(sturmian):
    """The formula -Z/r gives what the nucleus gives; a screened one has its own threshold."""
    bare = sturmian.run(**SMALL)
    formula = {"Z": 2, "potential": {"type": "expression", "value": "-Z/r"}}
    assert sturmian.run(**{**SMALL, "system": formula}).states[0].energy == pytest.approx(
        bare.states[0].energy, abs=1e-10
    )
    screened = {"Z": 2, "potential": {"type": "expression", "value": "-(1.5 + 0.5*exp(-r))/r"}}
    result = sturmian.run(**{**SMALL, "system": screened, "grid": {"R": 24, "order": 10}})
    assert bare.states[0].energy < result.states[0].energy < result.states[0].threshold


def test_two_electrons_in_a_harmonic_trap(sturmian):
    """Exactly 2 hartree for omega = 1/2 (M. Taut, Phys. Rev. A 48, 3561 (1993)); nothing leaves such a trap."""
    result = sturmian.run(
        system={"Z": 1, "potential": {"type": "expression", "value": "r^2/8"}},
        grid={"R": 16, "order": 12, "elements": 5},
        basis="fedvr",
        channels={"l_max": 2},
        extrapolate={"l_max": [2, 3, 4]},
    )
    assert result.states[0].bound
    assert result.states[0].energy > 2.0
    limit, error = result.limits[0]
    assert abs(limit - 2.0) < error < 1e-4


@pytest.mark.parametrize("Z", [100, 1000])
def test_large_charges(sturmian, Z):
    """Orbital energies reach 10^6 hartree; the 1/Z expansion is the reference, l_max = 2 leaves 0.0019 hartree."""
    result = sturmian.run(system={"Z": Z}, basis={"type": "gsf", "N": 16}, channels={"l_max": 2})
    expanded = -(Z**2) + 0.625 * Z - 0.157666429 + 0.008699032 / Z
    assert 0.0 < result.states[0].energy - expanded < 0.0025


def test_the_error_of_an_energy_is_not_below_rounding(sturmian):
    """The whole grid leaves no radial error; what is claimed must still be one that a double can have."""
    state = sturmian.run(
        **{**SMALL, "basis": "fedvr", "solver": {"type": "matrix_free", "tolerance": 1e-12}}
    ).states[0]
    assert 1e-15 < state.error_solver < 1e-11
    assert state.error_solver < state.error


def test_the_plan_counts_the_unknowns_of_the_run(sturmian):
    for channels in ({"l_max": 2}, {"S": 1, "l_max": 2}, {"L": 1, "l_max": 2}):
        deck = {**SMALL, "channels": channels}
        planned = build.plan(sturmian.load(**deck))
        assert planned.sizes["unknowns"] == sturmian.run(**deck).unknowns


# -------------------------------------------------------------------------------------------- output


def test_the_results_file(sturmian):
    summary = sturmian.execute(**SMALL, scan={"N": [4, 6]}, extrapolate={"l_max": [1, 2, 3]})
    scalars = summary["scalars"]
    for name in ("energy_0", "energy_extrapolated", "virial_ratio_0", "orthogonality_error", "unknowns", "solver_iterations",
                 "mean_r_0", "mean_inv_r_0", "mean_inv_r12_0", "error_radial_0", "basis_energy", "rank_l0"):  # fmt: skip
        assert scalars[name]["value"] is not None, name
    assert scalars["energy_0"]["unit"] == "hartree"
    with open_results(sturmian.folder / "deck.h5") as r:
        assert r["energies"].shape == (1,)
        assert r["basis/l0/S"].shape == (8, r["r"].size)
        assert r["basis/l1/beta"].shape == (8,)
        assert r["density"] @ np.ones(r["r"].size) > 0
        assert float(r["density"][0] @ r["weights"]) == pytest.approx(1.0, abs=1e-10)
        weights = np.outer(r["weights"], r["weights"])
        assert float((r["pair_density"][0] * weights).sum()) == pytest.approx(1.0, abs=1e-10)
        assert r["convergence/N/value"].tolist() == [4, 6]
        assert r["partial_waves/l_max"].tolist() == [1, 2, 3]
        assert float(r["pair_weights/0/weight"].sum()) == pytest.approx(1.0, abs=1e-10)
        v, S, w = r["generating"], r["basis/l0/S"], r["weights"]
        np.testing.assert_allclose(
            (S * (v * w)) @ S.T, np.eye(8), atol=1e-10
        )  # Eq. (14), from the file alone


def test_outgoing_functions_end_with_the_contour(sturmian):
    path = ROOT / "inputs/sturmian/outgoing_basis.yaml"
    blocks = yaml.safe_load(path.read_text(encoding="utf-8"))
    del blocks["method"]
    result = sturmian.run(**blocks)
    grid = result.problem.grid
    assert grid.is_complex
    for functions in result.bases.values():
        values = np.abs(functions.c / np.sqrt(grid.w)[:, None])
        assert values[-1].max() < 1e-3 * values.max()
        assert functions.outgoing


def test_outgoing_functions_without_a_contour_take_their_boundary_condition_at_r(sturmian):
    """Robin boundary: inside of a well both descriptions give the same lowest eigenvalues."""
    blocks = {
        "system": {"Z": 1},
        "grid": {"R": 20, "order": 12},
        "basis": {"type": "gsf", "generating": {"type": "square_well", "r0": 20}, "energy": 0.6, "N": 10},
        "task": {"type": "basis", "l": 0},
    }
    robin = sturmian.run(**blocks).bases[0]
    blocks["grid"] = {"R": 20, "order": 12, "ecs": {"angle": 0.3, "length": 40}}
    contour = sturmian.run(**blocks).bases[0]
    np.testing.assert_allclose(robin.beta[:6], contour.beta[:6], atol=1e-6)


def test_every_figure_is_known(sturmian):
    with pytest.raises(DeckError, match=r"output.figures.0: unknown figure 'betas'; did you mean 'beta'\?"):
        sturmian.execute(options={"figures": True}, **SMALL, output={"figures": ["betas"]})

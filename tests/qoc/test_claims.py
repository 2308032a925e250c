"""Claimed errors and warnings of qoc in the cases that used to be silent, each against a truth from outside."""

import math

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.results.results import open_results
from qsim.qoc import checks, costs
from qsim.qoc.control.mesh import resample, roughness, way_between
from qsim.qoc.errors import claims
from qsim.qoc.errors.reference import refined
from qsim.qoc.models.line.landscape import landscape, sine_levels
from qsim.qoc.models.molecule import on_grid
from qsim.qoc.objectives.objective import Objective
from qsim.qoc.optimizers.maximisation import Maximisation
from qsim.qoc.optimizers.search import Search
from qsim.qoc.propagators.phases import phase_steps

MORSE = {
    "mass": 1500.0,
    "potential": {"type": "morse", "D": 0.17, "beta": 1.1, "r0": 2.0},
    "dipole": {"type": "linear", "slope": 0.8},
    "grid": {"xmin": 1.1, "xmax": 5.5, "points": 300},
    "initial": 0,
    "target": 1,
}
NONE = {"type": "none"}


def morse_energies(count, mass=1500.0, depth=0.17, beta=1.1):
    """Exact levels of the Morse potential, counted from its dissociation limit."""
    omega = beta * math.sqrt(2 * depth / mass)
    n = np.arange(count) + 0.5
    return omega * n - (omega * n) ** 2 / (4 * depth) - depth


def deck(**changes):
    blocks = {
        "system": MORSE,
        "time": {"T": 9000, "steps": 2000},
        "control": {"guess": {"type": "ladder", "area": 0.4}},
        "optimizer": NONE,
        "verify": {"propagator": "eigenbasis"},
    }
    return {**blocks, **changes}


# ----------------------------------------------------------------------------------- grid, box and field


def test_a_coarse_grid_is_not_verified(qoc):
    coarse = {**MORSE, "grid": {"xmin": 1.1, "xmax": 5.5, "points": 48}}
    result = qoc.run(
        **deck(system=coarse, control={"guess": {"type": "expression", "value": "0.0025*cos(0.0145*t)"}})
    )
    fine = qoc.run(**deck(control={"guess": {"type": "expression", "value": "0.0025*cos(0.0145*t)"}}))
    truth = fine.verification.probability
    assert fine.verification.warning is None
    assert abs(result.value - truth) > 0.005
    assert abs(result.value - truth) < 2 * result.errors.total
    assert abs(result.verification.probability - truth) < 1e-4
    assert "system.grid.points" in result.verification.warning


def test_a_box_too_small_for_levels_on_the_way(qoc):
    wells = {
        "mass": 1.0,
        "potential": {"type": "harmonic", "omega": 1.0},
        "dipole": {"type": "linear", "slope": 1.0},
        "grid": {"xmin": -4.0, "xmax": 4.0, "points": 160},
        "initial": 0,
        "target": 1,
    }
    pulse = {
        "guess": {"type": "expression", "value": "0.5*cos(t)"}
    }  # a coherent state of |alpha|^2 = 6 after T = 14
    small = qoc.run(**deck(system=wells, time={"T": 14.0, "steps": 1400}, control=pulse))
    # a driven oscillator stays coherent: P(0 -> 1) = n exp(-n), n = |integral eps exp(i t) dt|^2 / 2
    t = (np.arange(14000) + 0.5) * 1e-3
    n = abs(np.sum(0.5 * np.cos(t) * np.exp(1j * t)) * 1e-3) ** 2 / 2
    truth = n * math.exp(-n)
    assert abs(small.verification.probability - truth) < 1e-4
    assert abs(small.value - truth) < 5 * small.errors.total
    assert checks.walls(small.problem.molecule, small.reached_levels) is not None
    wide = {**wells, "grid": {"xmin": -10.0, "xmax": 10.0, "points": 400}}
    large = qoc.run(
        **deck(
            system=wide,
            time={"T": 14.0, "steps": 1400},
            control=pulse,
            propagator={"type": "eigenbasis", "states": 40},
        )
    )
    assert abs(large.value - truth) < 1e-4
    assert checks.walls(large.problem.molecule, large.reached_levels) is None


def test_a_rough_field_is_constant_in_each_step():
    rng = np.random.default_rng(3)
    rough, smooth = rng.standard_normal(200), np.cos(2 * np.pi * np.arange(200) / 12)
    assert roughness(rough) > 0.8
    assert roughness(smooth) < 0.01
    assert way_between(rough, "auto") == "hold"
    assert way_between(smooth, "auto") == "cubic"
    assert way_between(rough, "cubic") == "cubic"
    assert np.array_equal(resample(rough, 1.0, 600, "hold"), np.repeat(rough, 3))


def test_a_rough_field_is_verified_as_it_was_propagated(qoc):
    """The function itself turns within its steps: nothing is claimed for it, but for the values that the steps hold."""
    rough = {"guess": {"type": "expression", "value": "0.02*sin(1e6*t^2/T^2)"}}
    made = {
        "control": rough,
        "propagator": {"type": "crank_nicolson"},
        "time": {"T": 9000, "steps": 12000},
    }
    result = qoc.run(**deck(**made, verify={"propagator": "eigenbasis", "interpolation": "hold"}))
    assert result.errors.between == "hold"
    assert abs(result.verification.probability - result.value) < 3 * result.errors.total + 1e-9
    assert result.errors.total < 1e-3
    assert qoc.run(**deck(**made)).errors.unclaimed


# ------------------------------------------------------------------------------------ levels and errors


def test_claimed_errors_of_levels(qoc):
    coarse = {**MORSE, "grid": {"xmin": 1.1, "xmax": 5.5, "points": 90}}
    result = qoc.run(**deck(system=coarse))
    true = np.abs(result.problem.molecule.energies[:8] - morse_energies(8))
    claimed = result.errors.energies[:8]
    assert np.all(true <= 2 * claimed)
    assert np.all(claimed <= 2 * true + 1e-10)


def test_a_sine_basis_finds_the_levels(qoc):
    ground = landscape(qoc.load(**deck()).deck.system)
    found = sine_levels(ground, (0.8, 9.0), 150, 10)
    assert np.abs(found.energies - morse_energies(10)).max() < 1e-12


def test_what_lies_between_the_points_is_seen(qoc):
    spike = {"type": "expression", "value": "0.3*x^2 + 2*exp(-400*(x-0.21)^2)"}
    system = {**MORSE, "mass": 1.0, "potential": spike, "grid": {"xmin": -7.0, "xmax": 7.0, "points": 60}}
    ground = landscape(qoc.load(**deck(system=system, time={"T": 30, "steps": 600})).deck.system)
    coarse, fine = sine_levels(ground, (-7.0, 7.0), 60, 4), sine_levels(ground, (-7.0, 7.0), 400, 4)
    true = np.abs(coarse.energies - fine.energies)
    assert np.all(true < 3 * refined(ground, coarse, 1.0)[1] + 1e-6)
    assert refined(ground, fine, 1.0)[1].max() < 1e-6


TWO_WELLS = {
    **MORSE,
    "mass": 1.0,
    # a bump of 0.02 bohr in one well decides how its levels mix with those of the other
    "potential": {"type": "expression", "value": "0.03*x^4 - 0.95*x^2 + 2e-7*exp(-900*(x-3.7)^2)"},
    "grid": {"xmin": -7.5, "xmax": 7.5, "points": 120},
    "target": 2,
}


def two_wells(count, sines=300):
    """Dipole matrix of the levels of `TWO_WELLS`: a matrix of sines, each element an integral over 24 points per sine."""
    x = 7.5 * (2.0 * np.arange(1, 24 * sines) / (24 * sines) - 1.0)
    wave = np.sin(np.pi / 15.0 * np.outer(np.arange(1, sines + 1), x + 7.5)) / math.sqrt(12 * sines)
    v = 0.03 * x**4 - 0.95 * x**2 + 2e-7 * np.exp(-900 * (x - 3.7) ** 2)
    h = (wave * v) @ wave.T + np.diag((np.pi / 15.0 * np.arange(1, sines + 1)) ** 2 / 2.0)
    _, vectors = np.linalg.eigh(h)
    vectors = vectors[:, :count]
    return vectors.T @ ((wave * 0.8 * x) @ wave.T) @ vectors


@pytest.mark.parametrize("points", [50, 70, 130])
def test_close_levels_mix_by_what_lies_between_the_points(qoc, points):
    ground = landscape(qoc.load(**deck(system=TWO_WELLS, time={"T": 30, "steps": 600})).deck.system)
    rough = sine_levels(ground, (-7.5, 7.5), points, 6)
    better, _, angles = refined(ground, rough, 1.0)
    true = np.abs(np.diag(two_wells(4)))
    off, left = (np.abs(np.abs(np.diag(m.dipole_matrix)[:4]) - true) for m in (rough, better))
    assert off[0] > 0.03  # the points alone mix the two lowest levels wrongly
    assert left[0] < 0.1 * off[0]
    claimed = 2.0 * angles[:4].sum(axis=1) * np.abs(better.dipole_matrix).max()
    assert np.all(left <= claimed + 1e-6)
    assert claimed[0] < 0.3 * off[0]


def test_probabilities_of_close_levels_are_verified_on_coarse_grids(qoc):
    field = {"guess": {"type": "expression", "value": "0.15*sin(1.75*t)*sin(pi*t/40)^2"}}
    changes = {"time": {"T": 40, "steps": 1200}, "control": field}
    coarse, fine = (
        TWO_WELLS | {"grid": {"xmin": -7.5, "xmax": 7.5, "points": points}} for points in (90, 2401)
    )
    truth = qoc.run(**deck(system=fine, **changes)).value
    result = qoc.run(**deck(system=coarse, **changes))
    assert abs(result.value - truth) > 1e-3
    assert abs(result.value - truth) < 2 * result.errors.total
    assert abs(result.verification.probability - truth) < min(1e-4, result.verification.error)


# --------------------------------------------------------------------------------------------- warnings


def findings(qoc, **changes):
    return " ".join(qoc.load(**deck(**changes)).warnings)


@pytest.mark.parametrize(
    ("wall", "word"), [(-1.5, "degenerate to rounding"), (-0.9, "nearly degenerate"), (-0.3, "")]
)
def test_degenerate_levels(qoc, wall, word):
    wells = {"type": "polynomial", "coefficients": [0, 0, wall, 0, 0.03]}
    system = {
        **MORSE,
        "mass": 1.0,
        "potential": wells,
        "grid": {"xmin": -8.0, "xmax": 8.0, "points": 200},
        "target": 2,
    }
    text = findings(qoc, system=system, time={"T": 60, "steps": 1000})
    assert ("degenerate" in text) == bool(word)
    assert word in text


def test_femtoseconds_without_a_unit(qoc):
    text = findings(qoc, time={"T": 200, "steps": 500})
    assert "write '200 fs'" in text
    assert "write" not in findings(qoc, time={"T": "200 fs", "steps": 2000})
    assert "fs" not in findings(qoc)


def test_bounds_in_another_unit(qoc):
    guess = {"type": "ladder", "area": 0.4}
    assert "write '2 V/nm'" in findings(qoc, control={"guess": guess, "bounds": [-2, 2]})
    assert "V/nm" not in findings(qoc, control={"guess": guess, "bounds": ["-2 V/nm", "2 V/nm"]})


@pytest.mark.parametrize(
    ("peak", "bounds", "warns"), [(0.2, None, True), (0.2, (-0.3, 0.3), False), (0.04, None, False)]
)
def test_an_absurd_field_without_bounds(qoc, peak, bounds, warns):
    control = {"guess": {"type": "ladder"}, **({} if bounds is None else {"bounds": list(bounds)})}
    problem = qoc.build(**deck(control=control))
    text = checks.strong_field(np.array([0.0, -peak]), problem.intensity_limit, problem.guess_given)
    assert (text is not None) == warns
    if warns:
        assert "1.4e+15 W/cm2" in text
        assert "control.bounds" in text


def test_a_field_from_a_file_gets_the_shape_once(qoc):
    t = np.linspace(0, 9000, 4000)
    np.savetxt(qoc.folder / "flat.csv", np.stack([t, np.full(t.size, 1e-3)], axis=1), delimiter=",")
    control = {"guess": {"type": "file", "file": "flat.csv"}, "shape": {"type": "sin2"}}
    problem = qoc.build(**deck(control=control))
    wanted = 1e-3 * np.sin(np.pi * problem.times / 9000) ** 2
    assert np.allclose(problem.guess[0], wanted, rtol=0, atol=1e-9)
    qoc.execute("first", **deck(control=control, verify="none"))
    again = {"guess": {"type": "file", "file": "first.h5"}, "shape": {"type": "sin2"}}
    # where S < 1e-3 no parameter can be told from the field, and it is zero
    assert np.allclose(qoc.build(**deck(control=again)).guess, wanted, rtol=0, atol=1.1e-6)


def test_a_search_without_a_step_has_not_converged():
    from qsim.qoc.optimizers.search import no_step

    assert no_step(-1e-5).startswith("stopped before convergence")
    assert no_step(-1e-14).startswith("converged")


# --------------------------------------------------------------------------------- formulas of the checks


def test_steps_of_the_phase_error():
    x = np.linspace(-9, 9, 400)
    molecule = on_grid(x, 1.0, 0.5 * 0.7**2 * x**2, x, 12)
    top, duration, error = 3, 50.0, 1e-3
    half = 0.5 * 0.7 * (top + 1)  # from the middle of the levels 0 .. top + 1 of an oscillator
    exact = duration / math.sqrt(12 * error / (duration * half**3))
    assert phase_steps(molecule, top, duration, error) == pytest.approx(exact, rel=0.01)


def test_probability_under_a_fluence_penalty():
    dipole, duration, alpha = 0.3, 500.0, 2.0
    theta = np.linspace(0, np.pi, 200001)
    j = np.sin(theta / 2) ** 2 - alpha * theta**2 / (2 * dipole**2 * duration)
    wanted = math.sin(theta[np.argmax(j)] / 2) ** 2
    assert checks.capped_probability(alpha, dipole, duration) == pytest.approx(wanted, rel=0.002)


def test_walls_weigh_densities_with_populations():
    x = np.linspace(-3.0, 3.0, 200)
    molecule = on_grid(x, 1.0, 0.5 * x**2, x, 6)
    density = molecule.wall_density((5,))
    limit = checks.WALL_DENSITY / density
    reached = np.zeros(6)
    reached[5] = 0.9 * limit
    assert checks.walls(molecule, reached) is None
    reached[5] = 1.1 * limit
    assert "level 5" in checks.walls(molecule, reached)


def test_a_search_that_a_penalty_keeps_at_zero_leaves_its_results(qoc):
    """J has its maximum at no field at all: the field is written, with the reason and what may help."""
    summary = qoc.execute(
        **deck(
            control={"guess": {"type": "expression", "value": "1e-9*cos(3*t)"}},
            optimizer={"type": "lbfgs"},
            objective={"alpha": 1e6},
            verify="none",
        )
    )
    assert summary["status"] == "complete"
    assert "lower objective.alpha" in summary["scalars"]["stop_reason"]["value"]
    assert any("lower objective.alpha" in text for text in summary["warnings"])


def test_bounds_that_leave_no_strength_leave_their_maximum(qoc):
    """The projected gradient vanishes at the bounds: a maximum under them, however small P is."""
    control = {"guess": {"type": "ladder"}, "bounds": [-3e-7, 3e-7]}
    system = {**MORSE, "target": 2}
    summary = qoc.execute(**deck(system=system, control=control, optimizer={"type": "lbfgs"}, verify="none"))
    scalars = summary["scalars"]
    assert scalars["peak_field"]["value"] == pytest.approx(3e-7)
    assert "the maximum that they allow" in scalars["stop_reason"]["value"]
    assert 0 < scalars["probability"]["value"] < 1e-9
    assert not any("critical point" in text for text in summary["warnings"])


def rotation(angle, axis):
    """Return the pairs of exp(-i angle axis.sigma / 2) on two levels, from the matrix exponential."""
    sigma = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    gate = expm(-0.5j * angle * np.einsum("a,aij->ij", np.array(axis) / np.linalg.norm(axis), sigma))
    return [
        {
            "initial": k,
            "target": {
                j: f"{gate[j, k].real:.17g}{gate[j, k].imag:+.17g}i"
                for j in range(2)
                if abs(gate[j, k]) > 1e-12
            },
        }
        for k in range(2)
    ]


@pytest.mark.parametrize(
    ("angle", "axis", "optimizer"),
    [
        (math.pi, (0, 1, 0), "lbfgs"),
        (math.pi, (0, 1, 0), "krotov"),
        (math.pi, (0.3, 1, 0), "lbfgs"),
        (math.pi, (0, 0, 1), "lbfgs"),
        (0.5 * math.pi, (0, 0, 1), "krotov"),
    ],
)
def test_rotations_of_a_qubit(qoc, angle, axis, optimizer):
    """Coherent gates, also those that no field even in time makes, and those that only turn phases."""
    pairs = rotation(angle, axis)
    system = {key: value for key, value in MORSE.items() if key not in ("initial", "target")}
    summary = qoc.execute(
        **deck(
            system={**system, "pairs": pairs},
            time={"T": 25000, "steps": 2000},
            propagator={"type": "eigenbasis", "states": 8},
            control={"guess": {"type": "ladder"}},
            objective={"combine": "coherent", "threshold": 0.99, "alpha": 0.001},
            optimizer={"type": optimizer, "max_sweeps": 1200},
            verify="none",
            run={"seed": 31},
        )
    )
    assert summary["scalars"]["threshold_reached"]["value"]
    with open_results(qoc.folder / "deck.h5") as results:
        # oracle: products of matrix exponentials in the stored levels, with the steps that the run makes (Strang)
        energies, dipole, field = (
            np.asarray(results[name]) for name in ("energies", "dipole_matrix", "field")
        )
    tau, total = 25000 / 2000, np.eye(len(energies), dtype=complex)
    w, v = np.linalg.eigh(dipole)
    half = np.exp(-0.5j * energies * tau)
    for value in field:
        kick = (v * np.exp(1j * value * w * tau)) @ v.T
        total = half[:, None] * kick * half @ total
    overlaps = []
    for pair in pairs:
        weights = {k: complex(w.replace("i", "j")) for k, w in pair["target"].items()}
        overlaps.append(sum(np.conj(w) * total[k, pair["initial"]] for k, w in weights.items()))
    assert abs(np.mean(overlaps)) ** 2 == pytest.approx(summary["scalars"]["probability"]["value"], abs=1e-9)


def test_a_search_that_has_left_a_critical_point_is_resumed_to_the_bit(qoc):
    blocks = deck(
        system={
            **{k: v for k, v in MORSE.items() if k not in ("initial", "target")},
            "pairs": rotation(math.pi, (0, 1, 0)),
        },
        propagator={"type": "eigenbasis", "states": 8},
        control={"guess": {"type": "ladder"}},
        objective={"combine": "coherent", "threshold": 1.0, "alpha": 0.0},
        optimizer={"type": "lbfgs", "max_sweeps": 40},
        verify="none",
        run={"seed": 5},
    )
    whole = qoc.run(**blocks)
    kept = []

    class Stop(Exception):
        pass

    problem = whole.problem
    search = Search(Objective(problem.propagator, problem.targets, 0.0, True), problem.controls, 1.0, 40)
    first = Maximisation(problem, search, None)

    def report(progress):
        if first.escaped and progress.savable and search.objective.sweeps > 12:
            kept.append(first.state())
            raise Stop

    with pytest.raises(Stop):
        first.advance(report)
    search = Search(Objective(problem.propagator, problem.targets, 0.0, True), problem.controls, 1.0, 40)
    second = Maximisation(problem, search, kept[0])
    second.advance(lambda progress: None)
    assert second.escaped
    np.testing.assert_array_equal(search.field[0], whole.field)
    assert search.history["probability"] == list(whole.history["probability"])


JUDGEMENTS = {
    "Judge": "the error of P",
    "Judge.errors": "the error of P",
    "verify": "the verified probability",
    "checks.truncation": "the population of the highest levels",
    "checks.walls": "the density at the walls",
    "checks.strong_field": "the strength of the field",
}


@pytest.mark.parametrize("judgement", JUDGEMENTS)
def test_a_judgement_that_fails_costs_no_results(qoc, monkeypatch, judgement):
    def fail(*arguments, **options):
        raise np.linalg.LinAlgError("Singular matrix")

    whole = qoc.execute("whole", **deck())
    monkeypatch.setattr(f"qsim.qoc.quantum.molecule.{judgement}", fail)
    summary = qoc.execute("judged", **deck())
    warning = f"{JUDGEMENTS[judgement]} could not be found: Singular matrix; everything else is complete"
    assert warning in summary["warnings"]
    for name in ("probability", "objective", "fluence", "norm_error"):
        assert summary["scalars"][name]["value"] == whole["scalars"][name]["value"]
    with open_results(qoc.folder / "judged.h5") as found, open_results(qoc.folder / "whole.h5") as true:
        for name in ("field", "populations", "psi_final", "energies"):
            np.testing.assert_array_equal(found[name], true[name])


# ------------------------------------------------------------------------------------------- what claims cost


def test_a_reference_that_costs_too_much_claims_nothing(qoc, monkeypatch):
    """Everything but the error of P is as it was, and a warning says that there is none."""
    blocks = deck(time={"T": 4000, "steps": 700}, control={"guess": {"type": "ladder", "area": 0.7}})
    full = qoc.execute("full", **blocks)
    monkeypatch.setattr(costs, "FLOOR", 0.0)
    monkeypatch.setattr(costs, "SHARE", 0.5)
    brief = qoc.execute("brief", **blocks)
    assert any("no error is claimed" in text for text in brief["warnings"])
    assert not any("no error is claimed" in text for text in full["warnings"])
    for name in ("probability", "objective", "probability_verified"):
        assert brief["scalars"][name]["value"] == pytest.approx(full["scalars"][name]["value"], abs=1e-5)
        assert full["scalars"][name]["error"] is not None
        assert brief["scalars"][name].get("error") is None
    result = qoc.run(**blocks)
    assert math.isnan(result.errors.total)
    exact = morse_energies(6)
    assert np.all(np.abs(result.problem.molecule.energies[:6] - exact) < 2 * result.errors.energies[:6])


def test_finer_steps_end_with_what_the_claims_may_cost(qoc, monkeypatch):
    """Steps that are still too coarse for the reference make the claimed error larger, never the warning disappear."""
    blocks = deck(time={"T": 3000, "steps": 90}, verify={"propagator": "eigenbasis", "tolerance": 1e-6})
    full = qoc.run(**blocks)
    monkeypatch.setattr(costs, "SHARE", 0.0)
    monkeypatch.setattr(costs, "FLOOR", 0.05)  # 64 steps per step of the run are estimated at 0.077 s
    brief = qoc.run(**blocks)
    assert brief.errors.unclaimed is None
    assert abs(brief.value - full.verification.probability) <= 10 * brief.errors.total
    assert brief.errors.parts["reference"] > 2 * full.errors.parts["reference"]
    monkeypatch.setattr(claims, "FOLLOWED", 1e-8)  # as if these steps were too coarse to extrapolate from
    assert "no error is claimed" in qoc.run(**blocks).errors.unclaimed


def test_a_grid_verification_that_takes_too_long_is_replaced(qoc):
    """The tunnelling doublet of a deep double well wants millions of steps on the grid."""
    wells = {
        "mass": 3.5,
        "potential": {"type": "polynomial", "coefficients": [0.0, 0.0, -0.32, 0.0, 0.014]},
        "dipole": {"type": "linear", "slope": 0.6},
        "grid": {"xmin": -7.0, "xmax": 7.0, "points": 200},
        "initial": 0,
        "target": 1,
    }
    pulse = {"guess": {"type": "expression", "value": "2e-9*cos(2e-7*t)"}}
    blocks = {
        "system": wells,
        "time": {"T": 1e8, "steps": 40},
        "control": pulse,
        "verify": {"interpolation": "hold"},
    }
    assert qoc.run(**deck(**blocks)).verification.propagator == "eigenbasis"


def test_claims_of_a_long_pulse_cost_no_more_than_twice_the_run(qoc):
    """The budget of a run grows with its sweeps, steps and members, and its floor is two seconds."""
    problem = qoc.build(**deck(time={"T": 9000, "steps": 1000}))
    assert costs.budget(problem, 1) == costs.FLOOR == 2.0
    step = costs.step_cost(problem.initial.shape[1])
    assert costs.budget(problem, 10**6) == pytest.approx(2.0 * 10**9 * step, rel=1e-3)
    assert costs.reference_cost(problem, 9, 1, 96, 1000) > 9 * costs.reference_cost(problem, 1, 1, 24, 1000)

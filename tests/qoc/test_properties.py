"""What must hold for any problem: exact gradients, conservation laws, orders of convergence, limits, constraints, restarts."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.qoc.build import build, nominal_molecule
from qsim.qoc.checks import capped_probability
from qsim.qoc.control.mesh import midpoints, resample
from qsim.qoc.models.molecule import Molecule, lowest_states, molecule
from qsim.qoc.objectives.objective import Objective
from qsim.qoc.propagators.propagator import CrankNicolson, Eigenbasis, Members
from qsim.qoc.run import run

MORSE = {
    "mass": 1728.468338,
    "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
    "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
    "grid": {"xmin": 1.0, "xmax": 5.0, "points": 161},
}
WELLS = {
    "mass": 1.0,
    "potential": {"type": "polynomial", "coefficients": [0, 0, -0.25, 0.00390625, 0.015625]},
    "dipole": {"type": "linear", "slope": 1.0},
    "grid": {"xmin": -8.0, "xmax": 8.0, "points": 61},
}
NONE = {"type": "none"}
EIGENBASIS = {"type": "eigenbasis", "states": 12}
STORED = {"type": "crank_nicolson", "memory": "store"}
REVERSED = {"type": "crank_nicolson", "memory": "reverse"}
PROPAGATORS = pytest.mark.parametrize(
    "propagator", [EIGENBASIS, STORED, REVERSED], ids=["eigenbasis", "stored", "reversed"]
)


def objective_of(problem):
    return Objective(problem.propagator, problem.targets, problem.objective.alpha, problem.goal.coherent)


def derivative(function, step):
    """Central difference of order ten; error ``step^10`` and a few roundings over ``step``."""
    weights = (5 / 6, -5 / 21, 5 / 84, -5 / 504, 1 / 1260)
    return sum(w * (function(k * step) - function(-k * step)) for k, w in enumerate(weights, 1)) / step


def check_gradient(value, gradient, point, scale, step=0.05):
    """Compare with differences along three random directions, in which ``point`` changes by ``scale``."""
    generator = np.random.default_rng(5)
    for _ in range(3):
        direction = scale * generator.standard_normal(point.size)
        expected = derivative(lambda s, d=direction: value(point + s * d), step)
        typical = np.linalg.norm(gradient) * np.linalg.norm(direction) / np.sqrt(point.size)
        rounding = 10 * 2.3e-16 / step  # of values of order one
        assert abs(gradient @ direction - expected) < 1e-9 * max(abs(expected), typical) + rounding
        assert typical > 1e3 * rounding or typical == 0.0


# --------------------------------------------------------------------------------------- gradients

SCENARIOS = {
    "level": {"system": {"initial": 0, "target": 2}},
    "superposition": {"system": {"initial": {0: 1.0, 1: 0.5}, "target": {1: 1.0, 2: "0.7i", 3: "-0.3+0.2i"}}},
    "list": {"system": {"initial": 0, "target": [1, 2, 4]}},
    "pairs": {
        "system": {"pairs": [{"initial": 0, "target": 1}, {"initial": 1, "target": {0: 1.0, 3: "1i"}}]}
    },
    "coherent": {
        "system": {"pairs": [{"initial": 0, "target": 1}, {"initial": 1, "target": {0: 1.0, 3: "1i"}}]},
        "objective": {"alpha": 0.3, "combine": "coherent"},
    },
    "ensemble": {
        "system": {"initial": 0, "target": 1},
        "ensemble": {"field_scale": [0.9, 1.1], "mass_scale": [1.0, 1.05], "potential_scale": [0.97, 1.0]},
    },
    "pairs of an ensemble": {
        "system": {"pairs": [{"initial": 0, "target": 1}, {"initial": 2, "target": [0, 3]}]},
        "ensemble": {"field_scale": [0.9, 1.1], "mass_scale": [0.9, 1.0]},
    },
}


def scenario(name, propagator, **more):
    blocks = {
        "time": {"T": 8.0, "steps": 24},
        "propagator": propagator,
        "objective": {"alpha": 0.3},
        "control": {"guess": {"type": "expression", "value": "0.25*sin(1.6*t+1)"}},
        **SCENARIOS[name],
        **more,
    }
    return {**blocks, "system": {**WELLS, **SCENARIOS[name]["system"]}}


@PROPAGATORS
@pytest.mark.parametrize("name", SCENARIOS)
def test_gradient_is_that_of_the_value(qoc, name, propagator):
    problem = qoc.build(**scenario(name, propagator))
    objective, field = objective_of(problem), problem.guess[0]
    found = objective.evaluate(field)
    p, j = objective.values(field)
    assert abs(found.probability - p[0]) < 1e-13
    assert abs(found.objective - j[0]) < 1e-13
    assert 0.0 < found.probability < 1.0
    check_gradient(lambda eps: float(objective.values(eps)[1][0]), found.gradient, field, 0.1)


@PROPAGATORS
def test_gradient_of_many_members_in_parts(qoc, propagator, monkeypatch):
    """Members that do not fit into memory together are taken in turn."""
    problem = qoc.build(**scenario("pairs of an ensemble", propagator))
    objective = objective_of(problem)
    whole = objective.evaluate(problem.guess[0])
    monkeypatch.setattr(problem.propagator, "chunk", lambda: 3)
    parts = objective.evaluate(problem.guess[0])
    np.testing.assert_array_equal(parts.member_probabilities, whole.member_probabilities)
    np.testing.assert_allclose(parts.gradient, whole.gradient, rtol=0, atol=1e-14)


@PROPAGATORS
@pytest.mark.parametrize("name", ["superposition", "list", "pairs", "pairs of an ensemble"])
def test_residual_and_jacobian_of_gauss_newton(qoc, name, propagator):
    """``sum |r|^2 = 1 - P`` within the levels kept, and its gradient follows from the Jacobian."""
    problem = qoc.build(**scenario(name, {**propagator}, objective={"alpha": 0.0}))
    objective, field = objective_of(problem), problem.guess[0]
    p, _, state = objective.trial(field)
    r, jacobian = objective.jacobian(state)
    missing = 1.0 - np.mean(
        np.sum(np.abs(state.amplitudes) ** 2, axis=-1)
    )  # beyond the levels kept, on the grid
    assert abs(np.sum(np.abs(r) ** 2) + missing - (1.0 - p)) < 1e-12
    if propagator is EIGENBASIS:
        gradient = -2.0 * np.real(r.conj() @ jacobian)
        np.testing.assert_allclose(gradient, objective.evaluate(field).gradient, rtol=0, atol=1e-13)
    for k in (0, r.size // 2, r.size - 1):

        def part(eps, k=k):
            return objective.jacobian(objective.trial(eps)[2])[0][k]

        check_gradient(lambda eps: part(eps).real, jacobian[k].real, field, 0.1)
        check_gradient(lambda eps: part(eps).imag, jacobian[k].imag, field, 0.1)


CONTROLS = {
    "shape": {"shape": {"type": "sin2_edges", "rise": 0.2}},
    "zero area": {"zero_area": True},
    "band": {"band": [0.5, 4.0]},
    "bounds": {"bounds": [-0.3, 0.35]},
    "bounds, zero area": {"bounds": [-0.3, 0.35], "zero_area": True},
    "bounds, band": {"bounds": [-0.3, 0.35], "band": [0.5, 6.0]},
    "all": {
        "shape": {"type": "sin2"},
        "bounds": [-0.3, 0.35],
        "band": [0.5, 6.0],
        "zero_area": True,
    },
    "shape, zero area, band": {"shape": "sin2", "band": [0.5, 6.0], "zero_area": True},
}


@pytest.mark.parametrize("name", CONTROLS)
def test_gradient_with_respect_to_the_parameters(qoc, name):
    """Shape, bounds, zero area and band are in the gradient exactly."""
    guess = {"type": "expression", "value": "0.25*sin(1.6*t+1)"}
    problem = qoc.build(**scenario("level", EIGENBASIS, control={"guess": guess, **CONTROLS[name]}))
    objective, control = objective_of(problem), problem.control
    u = control.parameters(problem.guess[0])
    assert u.shape == (control.size,)
    gradient = control.pull_back(u, objective.evaluate(control.field(u)).gradient)
    check_gradient(lambda v: float(objective.values(control.field(v))[1][0]), gradient, u, 0.03)
    rows = np.stack([objective.evaluate(control.field(u)).gradient, np.ones(24)])
    np.testing.assert_allclose(control.pull_back(u, rows)[0], gradient, rtol=0, atol=1e-15)


# -------------------------------------------------------------------------- conservation and symmetry

PULSE = {"guess": {"type": "expression", "value": "0.006*sin(pi*t/T)^2*cos(0.01725*t)"}}


@PROPAGATORS
def test_norm_is_conserved(qoc, propagator):
    problem = qoc.build(
        system={**MORSE, "initial": {0: 1.0, 1: "0.5i"}, "target": 2},
        time={"T": 10000, "steps": 5000},
        propagator=propagator,
        control=PULSE,
    )
    # the same rounded matrix acts in every step of the eigenbasis, so its error may add up
    assert problem.propagator.forward(problem.guess).norm_error < 2.3e-16 * 5000


@pytest.mark.parametrize("propagator", [EIGENBASIS, STORED], ids=["eigenbasis", "grid"])
def test_time_reversal(qoc, propagator):
    """The conjugated final state under the reversed field returns to the initial one."""
    problem = qoc.build(
        system={**MORSE, "initial": {0: 1.0, 1: 0.5}, "target": 2},
        time={"T": 10000, "steps": 5000},
        propagator=propagator,
        control=PULSE,
    )
    forward, initial = problem.propagator, problem.initial
    there = forward.forward(problem.guess)
    if propagator is STORED:  # the levels kept do not hold the whole state, so the grid state is sent back
        from qsim.qoc.kernels.grid import cn_forward

        psi = there.handle["psi"].conj()
        cn_forward(problem.device, there.handle["batch"], psi, problem.guess[:, ::-1].copy())
        returned = psi[0] @ problem.molecule.states[: initial.shape[1]].T * problem.molecule.dx
    else:
        forward.initial = there.amplitudes[0, 0].conj()
        returned = forward.forward(problem.guess[:, ::-1]).amplitudes[0, 0, 0]
    assert abs(abs(np.vdot(initial[0], returned)) - 1.0) < 2.3e-16 * 2 * 5000


def test_populations_of_every_step_add_up(qoc):
    for propagator in (EIGENBASIS, STORED):
        result = qoc.run(
            system={**MORSE, "initial": 0, "target": 1},
            time={"T": 10000, "steps": 4000},
            propagator=propagator,
            control=PULSE,
            optimizer=NONE,
            verify="none",
        )
        np.testing.assert_allclose(result.populations.sum(axis=1), 1.0, rtol=0, atol=1e-11)
        np.testing.assert_allclose(result.populations[-1], np.abs(result.amplitudes) ** 2, rtol=0, atol=1e-11)
        assert result.populations[0, 0] > 0.999999


@pytest.mark.parametrize("propagator", [EIGENBASIS, STORED], ids=["eigenbasis", "grid"])
def test_the_zero_of_energy_is_free(qoc, propagator):
    """A constant added to the potential changes nothing: the shift of the propagators takes it out."""
    found = []
    for constant in ("", " + 7.5"):
        potential = {"type": "expression", "value": "0.1994*(exp(-1.189*(x-1.821))-1)^2 - 0.1994" + constant}
        problem = qoc.build(
            system={**MORSE, "potential": potential, "initial": 0, "target": 1},
            time={"T": 10000, "steps": 5000},
            propagator=propagator,
            control=PULSE,
        )
        evaluation = objective_of(problem).evaluate(problem.guess[0])
        found.append((evaluation.probability, evaluation.gradient))
    # eigenvalues of a matrix of norm 8 have errors of 1e-15 hartree, a phase of 1e-11 after T
    assert abs(found[0][0] - found[1][0]) < 1e-10
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=0, atol=1e-10 * np.abs(found[0][1]).max())


@pytest.mark.parametrize("propagator", [EIGENBASIS, STORED], ids=["eigenbasis", "grid"])
def test_signs_of_eigenvectors_do_not_matter(qoc, propagator):
    problem = qoc.build(**scenario("list", propagator))
    before = objective_of(problem).evaluate(problem.guess[0])
    old = problem.molecule
    signs = np.where(np.arange(old.energies.size) % 3 == 1, -1.0, 1.0)
    flipped = dataclasses.replace(
        old, states=old.states * signs[:, None], dipole_matrix=old.dipole_matrix * np.outer(signs, signs)
    )
    members = Members((flipped,), np.zeros(1, int), np.ones(1))
    options = (
        {} if propagator is EIGENBASIS else {"shifts": np.array([-0.5 * (old.energies[0] + old.energies[4])])}
    )
    kind = Eigenbasis if propagator is EIGENBASIS else CrankNicolson
    other = kind(cpu(1), members, problem.initial, problem.times.size, 8.0, **options)
    after = Objective(other, problem.targets, 0.3).evaluate(problem.guess[0])
    assert abs(after.probability - before.probability) < 1e-13
    np.testing.assert_allclose(after.gradient, before.gradient, rtol=0, atol=1e-13)


def test_eigenvectors_have_a_definite_sign():
    x = np.linspace(-8.0, 8.0, 161)
    diagonal = 30.0 / (24.0 * 0.01) + 0.5 * x**2
    _, vectors = lowest_states(diagonal, -16.0 / 0.24, 1.0 / 0.24, 8)
    for row in vectors:
        assert row[np.abs(row) > 1e-2 * np.abs(row).max()][0] > 0
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(8), rtol=0, atol=1e-13)


def test_results_do_not_depend_on_threads(qoc):
    blocks = scenario("pairs of an ensemble", EIGENBASIS)
    found = [objective_of(qoc.build(cpu(n), **blocks)).evaluate(qoc.build(**blocks).guess) for n in (1, 2)]
    np.testing.assert_array_equal(found[0].gradient, found[1].gradient)


def test_both_propagators_agree(qoc):
    result = qoc.run(
        system={**MORSE, "grid": {"xmin": 1.0, "xmax": 5.0, "points": 641}, "initial": 0, "target": 1},
        time={"T": 10000, "steps": 4000},
        propagator={"type": "eigenbasis", "states": 24},
        control=PULSE,
        optimizer=NONE,
        verify={"tolerance": 1e-5},
    )
    assert result.verification.propagator == "crank_nicolson"
    assert result.verification.warning is None
    assert abs(result.verification.probability - result.value) < 1e-5


# -------------------------------------------------------------------------------- orders of convergence


def order(coarse, middle, fine):
    """Return p of an error ``h^p`` from vectors at h, h/2 and h/4."""
    return np.log2(np.linalg.norm(np.subtract(coarse, middle)) / np.linalg.norm(np.subtract(middle, fine)))


def test_energies_and_dipoles_are_of_fourth_order_in_dx(qoc):
    loaded = qoc.load(
        system={**MORSE, "initial": 0, "target": 1}, time={"T": 1000, "steps": 1000}, optimizer=NONE
    )
    found = []
    for points in (161, 321, 641):
        grid = loaded.deck.system.grid.model_copy(update={"points": points})
        found.append(molecule(loaded.deck.system.model_copy(update={"grid": grid}), 4))
    for level in range(4):
        assert abs(order(*[m.energies[level : level + 1] for m in found]) - 4.0) < 0.1
    for level in range(3):
        assert abs(order(*[m.dipole_matrix[level, level + 1 : level + 2] for m in found]) - 4.0) < 0.1


@pytest.mark.parametrize("propagator", [EIGENBASIS, STORED], ids=["eigenbasis", "grid"])
def test_probabilities_are_of_second_order_in_tau(qoc, propagator):
    found = []
    for steps in (1000, 2000, 4000):
        problem = qoc.build(
            system={**MORSE, "initial": 0, "target": 1},
            time={"T": 2000, "steps": steps},
            propagator=propagator,
            control={"guess": {"type": "expression", "value": "0.03*sin(pi*t/T)^2*cos(0.01725*t)"}},
        )
        amplitudes = problem.propagator.forward(problem.guess).amplitudes[0, 0, 0]
        found.append(np.abs(amplitudes[:3]) ** 2)
    assert abs(order(*found) - 2.0) < 0.1


# --------------------------------------------------------------------------------------- analytic limits


def two_levels(splitting, dipole):
    """A molecule with two levels; its grid is not used."""
    x = np.linspace(0.0, 1.0, 16)
    zeros = np.zeros(16)
    coupling = np.array([[0.0, dipole], [dipole, 0.0]])
    return Molecule(
        x, 1.0, zeros, zeros, zeros, np.zeros(2), np.array([0.0, splitting]), np.zeros((2, 16)), coupling
    )


def probability_of_level_one(found, field, duration):
    members = Members((found,), np.zeros(1, int), np.ones(1))
    propagator = Eigenbasis(cpu(1), members, np.array([[1.0, 0.0]], complex), field.size, duration)
    return float(np.abs(propagator.forward(field[None]).amplitudes[0, 0, 0, 1]) ** 2)


def test_two_degenerate_levels_follow_the_pulse_area():
    """Without a splitting ``P = sin^2(mu integral eps)``, exactly, for any field and any step."""
    field = np.random.default_rng(1).standard_normal(77)
    for scale in (0.01, 1.0, 30.0):
        found = probability_of_level_one(two_levels(0.0, 0.7), scale * field, 10.0)
        area = 0.7 * scale * field.sum() * 10.0 / 77
        assert abs(found - np.sin(area) ** 2) < 1e-13 * max(1.0, scale)


@pytest.mark.parametrize("detuning", [0.0, 0.5, -1.5])
def test_rabi_oscillation(detuning):
    """``P = (W/W')^2 sin^2(W' t / 2)``; the rotating-wave approximation leaves an error of order W / omega."""
    omega, rabi = 1.0, 1e-3
    for periods in (0.3, 0.5, 1.2):
        duration = periods * 2.0 * np.pi / rabi
        t = midpoints(round(40 * duration), duration)
        field = rabi * np.cos((omega + detuning * rabi) * t)  # mu = 1: W = mu A
        whole = rabi * np.hypot(1.0, detuning)
        expected = (rabi / whole) ** 2 * np.sin(0.5 * whole * duration) ** 2
        assert (
            abs(probability_of_level_one(two_levels(omega, 1.0), field, duration) - expected) < rabi / omega
        )


@pytest.mark.parametrize(
    "propagator",
    [{"type": "eigenbasis", "states": 40}, {"type": "crank_nicolson"}],
    ids=["eigenbasis", "grid"],
)
def test_driven_harmonic_oscillator_is_a_coherent_state(qoc, propagator):
    """Poissonian populations with ``<n> = q^2 / (2 m omega) |integral eps exp(i omega t) dt|^2``."""
    mass, omega, charge, duration, steps = 2.0, 0.8, 1.3, 30.0, 12000
    result = qoc.run(
        system={
            "mass": mass,
            "potential": {"type": "harmonic", "omega": omega, "x0": 0.4},
            "dipole": {"type": "linear", "slope": charge},
            "grid": {"xmin": -9.6, "xmax": 10.4, "points": 1001},
            "initial": 0,
            "target": 1,
        },
        time={"T": duration, "steps": steps},
        propagator=propagator,
        control={"guess": {"type": "expression", "value": "0.15*sin(pi*t/T)^2*cos(0.75*t + 0.3) + 0.01"}},
        optimizer=NONE,
        verify="none",
    )
    t = midpoints(steps, duration)
    kick = np.sum(result.field * np.exp(1j * omega * t)) * duration / steps
    mean = charge**2 / (2.0 * mass * omega) * abs(kick) ** 2
    assert 0.2 < mean < 3.0
    n = np.arange(8)
    factorial = np.cumprod(np.maximum(n, 1.0))
    # FD4 with dx = 0.02 and tau = 0.0025: both errors are about 1e-7
    np.testing.assert_allclose(
        result.populations[-1][:8], np.exp(-mean) * mean**n / factorial, rtol=0, atol=1e-6
    )


def test_pi_pulses_of_the_guesses_invert_the_transition(qoc):
    for guess in ({"type": "resonant", "area": 1.0}, {"type": "ladder", "area": 1.0}):
        for shape in ({}, {"shape": "sin2"}, {"shape": {"type": "gaussian", "fwhm": 9000}}):
            result = qoc.run(
                system={**MORSE, "initial": 0, "target": 1},
                time={"T": 30000, "steps": 6000},
                propagator=EIGENBASIS,
                control={"guess": guess, **shape},
                optimizer=NONE,
                verify="none",
            )
            assert result.value > 0.97  # more levels shift the line: 1 to 3 % at these amplitudes


def test_fluence_penalty_caps_the_probability():
    """Numbers of the reference entries J2 (0.9945) and of a free optimum."""
    assert capped_probability(1.0, 0.0371, 30000.0) == pytest.approx(0.9945, abs=3e-4)
    assert capped_probability(0.0, 0.0371, 30000.0) == 1.0
    assert capped_probability(1e6, 0.0371, 30000.0) == 0.0


# ----------------------------------------------------------------------------------------- optimisers


def morse01(optimizer, **more):
    return {
        "system": {**MORSE, "initial": 0, "target": 1},
        "time": {"T": 30000, "steps": 3000},
        "propagator": {"type": "eigenbasis", "states": 14},
        "control": {"guess": {"type": "resonant", "area": 0.5}},
        "objective": {"threshold": 1.0},
        "optimizer": optimizer,
        "verify": "none",
        **more,
    }


def test_gauss_newton_converges_quadratically(qoc):
    result = qoc.run(**morse01({"type": "gauss_newton", "max_sweeps": 40}))
    error = 1.0 - result.history["probability"]
    assert error.min() < 1e-10
    last = [k for k in range(error.size - 1) if 1e-6 < error[k] < 0.1]
    assert last
    for k in last:  # r is of order sqrt(error), and squares in each step; 1e-11 is rounding
        assert error[k + 1] < 10.0 * error[k] ** 2 + 1e-11


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_krotov_is_monotone(qoc, alpha):
    result = qoc.run(
        **morse01({"type": "krotov", "max_sweeps": 60}, objective={"threshold": 1.0, "alpha": alpha})
    )
    rise = np.diff(result.history["objective"])
    assert rise.size > 5
    assert np.all(rise > 0)
    assert result.value > 0.99


def test_krotov_keeps_shape_and_bounds(qoc):
    control = {"guess": {"type": "resonant", "area": 0.5}, "shape": "sin2", "bounds": [-0.005, 0.0045]}
    result = qoc.run(**morse01({"type": "krotov", "max_sweeps": 60}, control=control))
    assert result.value > 0.99
    assert result.field.min() >= -0.005
    assert result.field.max() <= 0.0045
    # every update carries S, as the guess does
    assert np.abs(result.field[[0, -1]]).max() < 1e-6 * np.abs(result.field).max()


def test_krotov_takes_ensembles_and_pairs(qoc):
    result = qoc.run(
        **morse01(
            {"type": "krotov", "max_sweeps": 80},
            system={**MORSE, "pairs": [{"initial": 0, "target": 1}, {"initial": 1, "target": 0}]},
            ensemble={"field_scale": [0.98, 1.02]},
        )
    )
    assert np.all(np.diff(result.history["objective"]) > 0)
    assert result.value > 0.99


LIMITS = {
    "bounds": {"bounds": [-0.0026, 0.0025]},
    "zero area": {"zero_area": True},
    "shape": {"shape": {"type": "sin2_edges", "rise": 0.1}},
    "band": {"band": [0.016, 0.0185]},
    "bounds, zero area, shape": {
        "bounds": [-0.0032, 0.0032],
        "zero_area": True,
        "shape": {"type": "sin2_edges", "rise": 0.1},
    },
}


@pytest.mark.parametrize("optimizer", ["lbfgs", "gauss_newton"])
@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("guess", ["resonant", "expression"])
def test_constraints_hold_at_the_optimum(qoc, name, optimizer, guess):
    limits = LIMITS[name]
    first = {
        "resonant": {"type": "resonant", "area": 0.5},
        "expression": {"type": "expression", "value": "0.0014*cos(0.0172425*t)"},
    }[guess]
    result = qoc.run(
        **morse01(
            {"type": optimizer, "max_sweeps": 60},
            control={"guess": first, **limits},
            objective={"threshold": 0.999},
        )
    )
    field, t = result.field, result.problem.times
    assert result.value > 0.999
    if "bounds" in limits:
        assert field.min() >= limits["bounds"][0]
        assert field.max() <= limits["bounds"][1]
    if "zero_area" in limits:
        assert abs(field.sum()) < 1e-12 * np.abs(field).sum()
    if "shape" in limits:
        edge = np.sin(0.5 * np.pi * np.minimum(np.minimum(t, 30000 - t) / 3000, 1.0)) ** 2
        np.testing.assert_allclose(result.problem.control.shape, edge, rtol=0, atol=1e-14)
        # S at the first midpoint is 7e-6
        assert np.abs(field[[0, -1]]).max() < 1e-3 * np.abs(field).max()
        outer = edge < 0.5
        assert np.all(np.abs(field[outer]) <= 3.0 * edge[outer] * np.abs(field).max())
    if "band" in limits:
        n = np.arange(1, 3000)
        waves = np.sin(np.pi / 30000 * np.outer(n, t)) @ field
        inside = (limits["band"][0] <= n * np.pi / 30000) & (n * np.pi / 30000 <= limits["band"][1])
        assert np.abs(waves[~inside]).max() < 1e-12 * np.abs(waves).max() * 3000


def test_lbfgs_hands_over_to_gauss_newton(qoc):
    alone = qoc.run(**morse01({"type": "lbfgs", "max_sweeps": 60}, objective={"threshold": 0.999999}))
    both = qoc.run(
        **morse01(
            {"type": "lbfgs", "max_sweeps": 60, "finish": "gauss_newton", "finish_at": 0.9},
            objective={"threshold": 0.999999},
        )
    )
    assert min(alone.value, both.value) >= 0.999999
    assert both.sweeps <= alone.sweeps


def test_robust_control_pays_for_the_ensemble(qoc):
    scales = [0.9, 0.95, 1.0, 1.05, 1.1]
    result = qoc.run(
        **morse01(
            {"type": "lbfgs", "max_sweeps": 150},
            ensemble={"field_scale": scales},
            objective={"threshold": 0.995},
        )
    )
    assert result.member_probabilities.shape == (5,)
    assert result.value == pytest.approx(result.member_probabilities.mean(), abs=1e-14)
    # a pi pulse at scale s gives cos^2((s - 1) pi / 2): 0.9755 at the ends
    assert result.member_probabilities.min() > 0.985
    # guess and history are those of the mean
    assert result.first[0] == pytest.approx(result.history["probability"][0], abs=1e-12)
    assert result.history["probability"][-1] == pytest.approx(result.value, abs=1e-12)


def test_sweeps_are_counted(qoc):
    """One forward or one backward propagation each; the history never goes back."""
    for optimizer in ("lbfgs", "krotov", "gauss_newton", "travolta"):
        options = {"type": optimizer, "max_sweeps": 31}
        if optimizer == "travolta":
            options = {**options, "gradient_tau": 0.02, "gamma_max": 1e15}
        result = qoc.run(**morse01(options, objective={"threshold": 1.0, "alpha": 0.01}))
        assert np.all(np.diff(result.history["sweeps"]) > 0), optimizer
        if optimizer == "lbfgs":
            assert result.history["sweeps"].tolist() == [
                2.0 * k for k in range(1, result.history["sweeps"].size + 1)
            ]
        if optimizer != "travolta":
            assert result.sweeps <= 31 + 2, optimizer


# ----------------------------------------------------------------------------------------- first fields


def random_guess(qoc, seed, **options):
    return qoc.build(
        **morse01(NONE, control={"guess": {"type": "random", "amplitude": 0.001, **options}}),
        run={"seed": seed},
    ).guess[0]


def test_random_guess_is_reproduced_by_its_seed(qoc):
    first = random_guess(qoc, 7)
    np.testing.assert_array_equal(random_guess(qoc, 7), first)
    assert np.abs(random_guess(qoc, 8) - first).max() > 1e-4


def test_random_guess_has_its_amplitude_and_cutoff(qoc):
    field = random_guess(qoc, 7, cutoff=0.02)
    assert np.sqrt(np.mean(field**2)) == pytest.approx(0.001, rel=1e-12)
    n = np.arange(1, 3000)
    waves = np.sin(np.pi / 30000 * np.outer(n, midpoints(3000, 30000.0))) @ field
    assert np.abs(waves[n * np.pi / 30000 > 0.02]).max() < 1e-10 * np.abs(waves).max()


def test_random_guess_does_not_change_with_the_step(qoc):
    """The same pulse, drawn at other times."""
    fields = [
        qoc.build(
            **morse01(
                NONE,
                time={"T": 30000, "steps": steps},
                control={"guess": {"type": "random", "amplitude": 0.001, "cutoff": 0.02}},
                run={"seed": 7},
            )
        ).guess[0]
        for steps in (3000, 9000)
    ]
    np.testing.assert_allclose(fields[1][1::3], fields[0], rtol=0, atol=1e-12)


def test_a_field_goes_through_a_file_unchanged(qoc):
    """The results of one run are the guess of the next: same P, same bits."""
    blocks = morse01({"type": "lbfgs", "max_sweeps": 10}, objective={"threshold": 0.99})
    before = qoc.execute("first", **blocks)["scalars"]
    blocks |= {"optimizer": NONE, "control": {"guess": {"type": "file", "file": "first.h5"}}}
    after = qoc.execute("second", **blocks)["scalars"]
    assert after["probability"]["value"] == before["probability"]["value"]
    assert after["fluence"]["value"] == before["fluence"]["value"]


def test_a_field_from_a_table_is_interpolated(qoc):
    t = np.linspace(0.0, 30000.0, 4001)
    rows = np.column_stack([t, 0.0014 * np.cos(0.0172425 * t)])
    np.savetxt(qoc.folder / "pulse.csv", rows, delimiter=",", header="t,eps")
    guess = qoc.build(**morse01(NONE, control={"guess": {"type": "file", "file": "pulse.csv"}})).guess[0]
    expected = 0.0014 * np.cos(0.0172425 * midpoints(3000, 30000.0))
    # cubic spline: (omega h)^4 / 384 inside, and somewhat more at the ends
    np.testing.assert_allclose(guess, expected, rtol=0, atol=1e-7)


def test_a_field_from_a_file_that_does_not_keep_the_constraints(qoc):
    """Steep edges where the shape vanishes: the nearest field that keeps them is a fair start."""
    t = midpoints(3000, 30000.0)
    np.savetxt(qoc.folder / "pulse.csv", np.column_stack([t, 0.0014 * np.cos(0.0172425 * t)]))
    limits = {"shape": "sin2", "band": [0.014, 0.02], "bounds": [-0.006, 0.006], "zero_area": True}
    control = {"guess": {"type": "file", "file": "pulse.csv"}, **limits}
    result = qoc.run(**morse01({"type": "lbfgs", "max_sweeps": 60}, control=control))
    start = result.problem.control.field(result.problem.control.parameters(result.problem.guess[0]))
    middle = slice(1000, 2000)
    np.testing.assert_allclose(start[middle], result.problem.guess[0, middle], rtol=0, atol=1e-4)
    assert np.abs(start).max() < 0.003
    assert result.first[0] > 0.1
    assert result.value > 0.999


def test_resampling_between_step_counts():
    field = np.sin(np.linspace(0.0, 6.0, 50))
    assert resample(field, 10.0, 50, "cubic") is field
    np.testing.assert_array_equal(resample(field, 10.0, 150, "hold"), np.repeat(field, 3))
    fine = resample(field, 10.0, 150, "cubic")
    np.testing.assert_allclose(fine[1::3], field, rtol=0, atol=1e-14)
    assert np.abs(np.diff(fine)).max() < 0.05


def test_the_plan_hands_its_molecule_to_the_build(qoc):
    loaded = qoc.load(**morse01({"type": "none"}))
    planned = loaded.once(nominal_molecule)
    loaded.update_run(seed=1)  # between plan and build, the seed is drawn
    assert build(loaded, cpu(1)).molecule is planned


# --------------------------------------------------------------------------------------------- restarts


class Stopping(Monitor):
    """Asks for a stop at its n-th report, as a signal would."""

    def __init__(self, path, after):
        self.request = SimpleNamespace(stop=None, at_once=False, compiling=lambda now: None)
        super().__init__(quiet=True, checkpoint=path, interval=1e9, signals=self.request)
        self.left = after

    def step(self, done, state=None, **observables):
        self.left -= 1
        if self.left == 0:
            self.request.stop = "SIGTERM"
        super().step(done, state, **observables)


OPTIMIZERS = {
    "lbfgs": {"type": "lbfgs", "max_sweeps": 30},
    "lbfgs, gauss_newton": {"type": "lbfgs", "max_sweeps": 30, "finish": "gauss_newton"},
    "gauss_newton": {"type": "gauss_newton", "max_sweeps": 21},
    "krotov": {"type": "krotov", "max_sweeps": 30},
    "krotov, fixed": {"type": "krotov", "max_sweeps": 30, "step": 1.5},
    "travolta": {
        "type": "travolta",
        "gradient_tau": 0.02,
        "gamma_max": 1e15,
        "max_iterations": 4,
        "derivative": "exact",
    },
    "travolta, difference": {"type": "travolta", "amplified": False, "gamma_max": 1e15, "max_iterations": 3},
}


def wells01(name):
    return {
        "system": {**WELLS, "initial": 0, "target": 1},
        "time": {"T": 100, "steps": 600},
        "propagator": EIGENBASIS,
        "control": {"guess": {"type": "expression", "value": "0.02*cos(0.1568*t)"}},
        "objective": {"threshold": 0.9999, "alpha": 0.01},
        "optimizer": OPTIMIZERS[name],
        "verify": "none",
    }


def fingerprint(result):
    """Everything that a run computes, without its times."""
    history = {k: v for k, v in result.history.items() if k != "seconds"}
    arrays = {
        "field": result.field,
        "populations": result.populations,
        "psi": result.psi,
        **history,
        **result.extra,
    }
    scalars = (result.value, result.objective, result.sweeps, result.iterations, result.norm_error)
    return arrays, (*scalars, result.reached, result.reason)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stopped_run_continues_bit_for_bit(qoc, name, tmp_path):
    blocks = wells01(name)
    arrays, scalars = fingerprint(qoc.run(**blocks))
    reports = arrays["probability"].size
    assert reports > 3
    # where another method takes over, that is at the first P above finish_at, the next one starts from the same place
    handover = 1 + int(np.argmax(arrays["probability"] >= 0.9))
    for after in {1, 2, reports // 2, reports - 1, reports, handover}:
        path = tmp_path / f"{after}.ckpt.h5"
        monitor = Stopping(path, after)
        try:
            found = run(qoc.build(**blocks), monitor)
        except Stopped:
            state, _ = checkpoint.load(path)
            found = run(qoc.build(**blocks), Monitor(quiet=True, restored=state))
        again, other = fingerprint(found)
        assert other == scalars, after
        assert again.keys() == arrays.keys()
        for key, value in arrays.items():
            np.testing.assert_array_equal(again[key], value, err_msg=f"{key}, stopped at report {after}")


def test_a_run_can_be_stopped_again_and_again(qoc, tmp_path):
    blocks = wells01("lbfgs")
    arrays, scalars = fingerprint(qoc.run(**blocks))
    state, stops = None, 0
    while True:
        monitor = Stopping(tmp_path / "again.ckpt.h5", 2)
        monitor.restored = state
        try:
            found = run(qoc.build(**blocks), monitor)
            break
        except Stopped:
            state, _ = checkpoint.load(tmp_path / "again.ckpt.h5")
            stops += 1
    assert stops > 3
    again, other = fingerprint(found)
    assert other == scalars
    for key, value in arrays.items():
        np.testing.assert_array_equal(again[key], value, err_msg=key)


# -------------------------------------------------------------------------------------------------- GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize(
    "propagator", [EIGENBASIS, STORED, REVERSED], ids=["eigenbasis", "stored", "reversed"]
)
def test_cuda_equals_the_cpu(qoc, cuda, name, propagator):
    blocks = scenario(name, propagator)
    problems = [qoc.build(**blocks), qoc.build(cuda, **blocks)]
    found = [objective_of(problem).evaluate(problems[0].guess) for problem in problems]
    assert found[1].probability == pytest.approx(found[0].probability, rel=1e-12)
    assert found[1].objective == pytest.approx(found[0].objective, rel=1e-12)
    scale = np.abs(found[0].gradient).max()
    np.testing.assert_allclose(found[1].gradient, found[0].gradient, rtol=0, atol=1e-12 * scale)


@pytest.mark.gpu
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimisers_on_a_gpu(qoc, cuda, name):
    blocks = wells01(name)
    host = qoc.run(**blocks)
    device = run(qoc.build(cuda, **blocks), Monitor.silent())
    # the searches part slowly, by amplified roundoff
    first = slice(0, 4)
    np.testing.assert_allclose(
        device.history["probability"][first], host.history["probability"][first], rtol=1e-9
    )
    assert device.value == pytest.approx(host.value, abs=1e-3)

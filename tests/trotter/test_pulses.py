"""Pulses narrower than the grid on which profiles are sampled: found from the formula, cut, and claimed honestly."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from qsim.core.deck.expression import Expression
from qsim.core.physics import structure
from qsim.core.run.progress import Monitor
from qsim.trotter.model.profiles import Factor, factor

S = {"x": np.array([[0, 1], [1, 0]]) / 2, "z": np.diag([0.5, -0.5])}


def profile(text):
    formula = Expression(text, ("t",))
    return Factor(lambda t: float(formula(t=t)), None, lambda t: np.asarray(formula(t=t), float), formula)


# height times width is of the order of 1: what is missed is an error of the order of 1
PULSES = {
    "gauss": ("2.1e6*exp(-((t-1.337)/7.0e-7)^2)", 1.337, 7e-7),
    "gauss written out": ("9000*exp(-(t-3.11)*(t-3.11)/3.2e-8)", 3.11, 1.8e-4),
    "two": ("3e4*exp(-((t-0.33)/2e-5)^2)-4e5*sech((t-3.77)/3e-6)", 3.77, 3e-6),
    "lorentz": ("8e5/(1+((t-2.23)/6e-7)^2)", 2.23, 6e-7),
    "triangle": ("max(0,7e4*(1-abs(t-1.701)/2e-5))", 1.701, 2e-5),
    "of a few samples": ("300*exp(-((t-1.3501)/0.003)^2)", 1.3501, 3e-3),
    "triangle on a sample": ("max(0,5000*(1-abs(t-1.70122)/1.8e-4))", 1.70122, 1.8e-4),
    "gauss on a sample": ("4e5*exp(-((t-2)/2e-6)^2)", 2.0, 2e-6),
    "box": ("3e5*heaviside(t-0.5001)*heaviside(0.500105-t)", 0.5001025, 2.5e-6),
}


def exact(f, end, stops):
    """Return the state of one spin in a field 0.9 along z and f(t) along x, from spin up, by integration."""
    psi = np.array([1.0, 0.0], complex)
    for a, b in pairwise(sorted({0.0, *(t for t in stops if 0.0 < t < end), end})):
        pad = 1e-12 * (b - a)

        def slope(t, y, a=a + pad, b=b - pad):
            return -1j * ((0.9 * S["z"] + f(min(max(t, a), b)) * S["x"]) @ y)

        psi = solve_ivp(slope, (a, b), psi, "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]
    return psi


def stops(name):
    """Return times around the pulses of a deck, at which no integrator can pass over them."""
    centres = [(PULSES[name][1], PULSES[name][2])] + ([(0.33, 2e-5)] if name == "two" else [])
    around = [c + k * s for c, s in centres for k in (-300, -30, -8, -4, -2, -1, 0, 1, 2, 4, 8, 30, 300)]
    return [*around, 0.5001, 0.500105]


ACCURATE, GIVEN = {"accuracy": 1e-6, "integrator": "kl8"}, {"dt": 0.05, "integrator": "bm4"}


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param("gauss", ACCURATE, marks=pytest.mark.exhaustive),
        ("gauss", GIVEN),
        pytest.param("gauss written out", ACCURATE, marks=pytest.mark.exhaustive),
        pytest.param("two", GIVEN, marks=pytest.mark.exhaustive),
        pytest.param("lorentz", GIVEN, marks=pytest.mark.exhaustive),
        ("triangle", GIVEN),
        ("of a few samples", GIVEN),
        ("triangle on a sample", ACCURATE),
        ("gauss on a sample", GIVEN),
        ("box", ACCURATE),
    ],
)
def test_a_pulse_between_two_samples_is_not_missed(trotter, name, step):
    text, end = PULSES[name][0], 4.0
    result = trotter.run(
        system={
            "spins": 1,
            "terms": [
                {"type": "field", "axis": "z", "values": 0.9},
                {
                    "type": "field",
                    "axis": "x",
                    "values": 1.0,
                    "profile": {"type": "expression", "value": text},
                },
            ],
        },
        initial={"type": "basis", "bits": "0"},
        evolve={"t_final": end, "outputs": 5, **step},
        observe=["state"],
    )
    error = np.linalg.norm(result.psi - exact(profile(text), end, stops(name)))
    assert error < 3.0 * max(result.integration.error, step.get("accuracy", 1e-9))
    assert result.integration.error < 0.1


@pytest.mark.parametrize(
    ("spins", "text", "stop", "dt"),
    [
        (
            1,
            "8*exp(-((t-2.23)/0.06)^2)",
            (2.23, 0.06),
            0.4,
        ),  # too wide to be cut, and between the stages of a step
        (2, "3e3*exp(-((t-2.23)/2e-5)^2)", (2.23, 2e-5), 0.4),  # nothing but the pulse
    ],
)
def test_what_steps_pass_over_is_in_the_claim(trotter, spins, text, stop, dt):
    """The field along x turns the spin by its integral, whatever its shape: a phase of the states along x."""
    field = {
        "type": "field",
        "axis": "x",
        "values": 1.0,
        "profile": {"type": "expression", "value": text},
    }
    result = trotter.run(
        system={"spins": spins, "terms": [field]},
        initial={"type": "polarised", "axis": "x"},
        evolve={"t_final": 4.0, "outputs": 2, "dt": dt, "integrator": "bm4"},
        observe=["state"],
    )
    height = float(text.split("*")[0])
    phase = np.exp(-0.5j * spins * height * stop[1] * math.sqrt(math.pi))
    error = np.linalg.norm(result.psi - phase * 2.0 ** (-spins / 2))
    # a random state, which the claim is for, turns less than the polarised one
    assert error < 1.5 * math.sqrt(spins) * result.integration.error + 1e-13
    assert result.integration.error < 5.0 * error + 1e-8


@pytest.mark.parametrize(
    "text", ["cos(3*t)", "sin(t)*exp(-(t-5)^2)", "exp(-((t-3.1)/0.02)^2)", "cos(5e4*t)", "0", "abs(sin(t))"]
)
def test_what_the_grid_sees_has_no_narrow_pulses(text):
    assert structure.pulses(profile(text), 20.0) == ([], 0)


@pytest.mark.parametrize(
    ("text", "middle", "half"),
    [
        ("max(0, 17*(1-abs(t-1.33)/4.1e-4))", 1.33, 4.1e-4),
        (
            "sin(5*t)+40*max(0, 1-abs(t-1.5)/3e-7)",
            1.5,
            3e-7,
        ),  # at the middle of the evolution there is a sample
        ("0.3*t+heaviside(t-0.74993)*heaviside(0.7502-t)", 0.750065, 1.35e-4),
    ],
)
def test_both_ends_of_a_pulse_on_a_sample_are_cut(text, middle, half):
    found = np.array([t for t, _ in structure.kinks([profile(text)], 3.0)])
    for edge in (middle - half, middle + half):
        assert np.abs(found - edge).min() < 1e-9


@pytest.mark.parametrize("text", ["abs(t-1.1)", "heaviside(t-1.1)", "heaviside(t-1.5)", "abs(cos(2*t))"])
def test_a_kink_or_jump_alone_is_no_pulse(text):
    assert len(structure.kinks([profile(text)], 3.0)) in (1, 2)  # cos(2 t) has two zeros


def test_points_follow_a_pulse():
    f = profile("exp(-((t-3.1)/1e-6)^2)")
    times = np.array([t for t, _ in structure.pulses(f, 20.0)[0]])
    assert 20 < len(times) < 200
    assert times.min() == pytest.approx(3.1, abs=1.5e-5)
    middle = 0.5 * (times[1:] + times[:-1])
    values = f.many(times)
    assert abs(f.many(middle) - 0.5 * (values[1:] + values[:-1])).max() < 3.0 * structure.STRAIGHT


def test_more_pulses_than_steps_are_cut_for_are_warned_of(trotter):
    train = "500*exp(-(sin(3.7*t)/1e-4)^2)"
    said, noted = [], []
    monitor = Monitor.silent()
    monitor.warn = said.append
    monitor.note = noted.append
    terms = [{"type": "field", "axis": "x", "values": 1.0, "profile": {"type": "expression", "value": train}}]
    deck = {
        "system": {"spins": 1, "terms": terms},
        "initial": {"type": "basis", "bits": "0"},
        "evolve": {"t_final": 30.0, "outputs": 2, "dt": 0.05, "integrator": "ts2"},
    }
    trotter.run(monitor=monitor, **deck)
    zeros = math.floor(3.7 * 30.0 / math.pi)  # and that of t = 0, which the grid sees
    assert any(f"has {zeros - structure.MOST_PULSES} more pulses" in text for text in said)
    assert any("formulas of t are sampled every" in text for text in noted)


def test_a_table_needs_no_search():
    from qsim.trotter.deck.profiles import TableProfile

    table = factor(TableProfile(type="table", points=[[1.0, 0.0], [1.0000001, 5.0], [1.0000002, 0.0]]))
    assert structure.pulses(table, 20.0) == ([], 0)
    assert [t for t, _ in structure.kinks([table], 20.0)] == [1.0, 1.0000001, 1.0000002]

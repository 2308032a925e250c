"""Linear rotors: kicks and thermal mixtures against quadrature over both signs of M, and what is refused."""

import math

import numpy as np
import pytest
from scipy import constants
from scipy.linalg import expm
from scipy.special import lpmv

import qsim
from qsim.qoc.deck.systems.rotor import RotorSystem
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem

KICKED = {"type": "rotor", "B": 1.0, "dalpha": 20.0, "initial": 0, "target": {"observable": "cos2"}}


def built(deck, extra=0):
    return model(RotorSystem.model_validate(deck), extra)


def alignment(m, times):
    """<cos^2>(t) after a sudden kick of the envelope control."""
    kick = expm(-1j * m.controls[-1].operator.toarray())
    columns = kick @ m.states
    energies = m.drift.diagonal().real
    operator = m.goal.operator.toarray()
    values = []
    for t in times:
        turned = np.exp(-1j * energies * t)[:, None] * columns
        values.append(
            float((m.weights * np.einsum("is,ij,js->s", turned.conj(), operator, turned).real).sum())
        )
    return np.array(values)


def test_largest_alignment_of_a_kicked_rotor():
    """P = 5 from J = 0: 0.911648583 within a revival, and <J^2> = 8 P^2/15."""
    m = built(KICKED)
    # The published number is the largest at 20001 times of a revival; between them there is 1.4e-7 more.
    times = np.linspace(0, np.pi, 20001)[9450:9550]
    assert alignment(m, times).max() == pytest.approx(0.911648583, abs=2e-8)
    assert np.ptp(alignment(m, [0.5, 0.5 + np.pi])) < 1e-11
    columns = expm(-1j * m.controls[0].operator.toarray()) @ m.states
    energy = (np.abs(columns[:, 0]) ** 2 * m.drift.diagonal().real).sum()
    assert energy == pytest.approx(8 * 25 / 15, rel=1e-10)
    assert m.controls[0].power == 2


def test_a_thermal_mixture_is_the_sum_over_both_signs_of_m():
    """kT = 5 B, P = 3, spin weights 2:1, against normalised Legendre functions on quadrature points, every J and M by itself."""
    deck = KICKED | {
        "dalpha": 12.0,
        "J_max": 30,
        "spin_weights": [2, 1],
        "initial": {"thermal": 5.0, "below": 1e-9},
    }
    x, w = np.polynomial.legendre.leggauss(80)
    total = norm = 0.0
    for m in range(13):
        j = m + np.arange(30)
        rows = np.array([lpmv(m, value, x) * np.exp(0.5 * log_norm(value, m)) for value in j])
        for start in range(13 - m):
            level = m + start
            weight = (2, 1)[level % 2] * (1 if m == 0 else 2) * math.exp(-level * (level + 1) / 5.0)
            amplitudes = (rows * w) @ (rows[start] * np.exp(3j * x**2))
            psi = (np.exp(-0.1j * j * (j + 1)) * amplitudes) @ rows
            total += weight * (w * x**2 * np.abs(psi) ** 2).sum()
            norm += weight
    m = built(deck)
    assert alignment(m, [0.1])[0] == pytest.approx(total / norm, abs=1e-9)
    assert m.weights.sum() + m.dropped == pytest.approx(1.0, abs=1e-14)
    assert m.dropped <= 1e-9


def log_norm(j, m):
    return math.log((2 * j + 1) / 2) + math.lgamma(j - m + 1) - math.lgamma(j + m + 1)


def test_nitrogen_at_ten_kelvin_in_si_units():
    """Populations with constants of scipy, and -(dalpha/4) cos^2 with dalpha in cubic angstrom."""
    deck = {"type": "rotor", "B": "1.9896 cm-1", "dalpha": "0.93 angstrom^3", "spin_weights": [2, 1]}
    deck |= {"initial": {"thermal": "10 K", "below": 1e-5}, "target": {"observable": "cos2"}}
    m = built(deck)
    j = np.arange(40.0)
    weights = np.where(j % 2 == 0, 2, 1) * np.exp(
        -constants.h * constants.c * 198.96 * j * (j + 1) / (constants.k * 10)
    )
    total = (weights * (2 * j + 1)).sum()
    for column, weight in zip(m.states.T, m.weights, strict=True):
        label = m.labels[int(np.argmax(np.abs(column)))].split(",")
        sign = 1 if label[1] == "0" else 2
        assert weight == pytest.approx(sign * weights[int(label[0])] / total, rel=1e-8)
    volume = 0.93e-30 / constants.physical_constants["Bohr radius"][0] ** 3
    assert abs(m.controls[0].operator[0, 0]) == pytest.approx(0.25 * volume / 3, rel=1e-9)
    assert m.seconds == pytest.approx(constants.physical_constants["atomic unit of time"][0])


def test_a_field_and_an_envelope_and_states_by_name():
    m = built(KICKED | {"dipole": 0.7, "J_max": 6, "initial": "2,1", "target": ["1,1", "2,0"]}, extra=1)
    assert [control.name for control in m.controls] == ["field", "envelope"]
    # the polarisability reaches two levels further
    assert m.labels == (*(f"{j},0" for j in range(9)), *(f"{j},1" for j in range(1, 9)))
    assert m.states[m.labels.index("2,1"), 0] == 1
    assert [m.labels[k] for k in np.argmax(np.abs(m.goal.vectors[0]), axis=1)] == ["1,1", "2,0"]
    first, second = m.labels.index("0,0"), m.labels.index("1,0")
    assert m.controls[0].operator[first, second] == pytest.approx(-0.7 / math.sqrt(3))
    # Pendular levels, -w cos with w = 5 B: a basis half as large again gives the same.
    levels = [
        np.linalg.eigvalsh((n.drift + 5 / 0.7 * n.controls[0].operator).toarray())[:2]
        for n in (built(KICKED | {"dipole": 0.7, "J_max": size}) for size in (20, 30))
    ]
    assert levels[0] == pytest.approx(levels[1], abs=1e-12)


def test_a_cold_start_is_the_lowest_level_that_the_spins_allow():
    m = built(KICKED | {"initial": {"thermal": 1e-6}, "spin_weights": [0, 1]})
    assert [m.labels[k] for k in np.flatnonzero(np.abs(m.states).sum(axis=1))] == ["1,0", "1,1"]
    assert m.weights == pytest.approx([1 / 3, 2 / 3], abs=1e-15)


def test_what_j_max_cuts_off_is_counted():
    """kT = 9 B and J_max = 12: the weight above is left out, as a sum over many more levels says."""
    m = built(KICKED | {"initial": {"thermal": 9.0, "below": 1e-2}, "J_max": 12})
    j = np.arange(200.0)
    weights = (2 * j + 1) * np.exp(-j * (j + 1) / 9.0)
    tops = [int(m.labels[int(np.argmax(np.abs(column)))].split(",")[0]) for column in m.states.T]
    assert m.dropped <= 1e-2
    assert m.weights.sum() + m.dropped == pytest.approx(1.0, abs=1e-14)
    assert m.weights[0] == pytest.approx(1 / weights.sum(), rel=1e-12)
    assert max(tops) <= 8


@pytest.mark.parametrize(
    ("change", "key", "text"),
    [
        ({"dalpha": None}, "system.dipole", "no field acts on this rotor"),
        ({"initial": "1,2"}, "system.initial", 'expected "J,M" with 0 <= M <= J'),
        ({"initial": "x"}, "system.initial", "found 'x'"),
        ({"initial": 38}, "system.J_max", "J_max = 40 leaves no room above J = 38; at least 42"),
        ({"initial": {"thermal": 500.0}}, "system.J_max", "which the thermal start fills"),
        ({"initial": {"thermal": 1e29}}, "system.J_max", "below the levels that the thermal start fills"),
        ({"initial": None}, "system.initial", "missing key"),
        ({"initial": None, "target": {"gate": "x"}}, "system.target.on", "name the logical states"),
        ({"jumps": [{"rates": {"1": {"60": 1.0}}}]}, "system.jumps", "above J_max"),
        ({"jumps": [{"bath": "cos", "rate": 1.0}]}, "system.jumps.0.bath", "by rates or lifetimes"),
        ({"target": {"observable": "sin2"}}, "system.target.observable", "unknown name 'sin2'"),
        ({"spin_weights": [0, 0]}, "system.spin_weights", "above 0"),
    ],
)
def test_refused(change, key, text):
    with pytest.raises(InvalidSystem) as error:
        built(KICKED | change)
    assert error.value.key == key
    assert text in str(error.value)


def test_a_temperature_is_a_thermal_start_and_j_max_may_be_left_open():
    """`temperature` and `J_max: auto` make the same columns as the keys that they stand for; hot starts raise J_max."""
    deck = {"type": "rotor", "B": "1.9896 cm-1", "dalpha": 4.7, "spin_weights": [2, 1]}
    deck["target"] = {"observable": "cos2"}
    given = model(RotorSystem.model_validate(deck | {"initial": {"thermal": "10 K"}, "J_max": 41}))
    short = model(RotorSystem.model_validate(deck | {"temperature": "10 K", "J_max": "auto"}))
    assert short.labels == given.labels
    assert np.array_equal(short.weights, given.weights)
    assert np.array_equal(short.states, given.states)
    hot = model(RotorSystem.model_validate(deck | {"temperature": "60 K", "J_max": "auto"}))
    # J^2 = 37 kT/B: J = 27, and 30 more (11 and 30 at 10 K)
    assert max(int(label.split(",")[0]) for label in hot.labels) == 57
    with pytest.raises(InvalidSystem, match="either temperature, or initial") as error:
        model(RotorSystem.model_validate(deck | {"temperature": "10 K", "initial": 0}))
    assert error.value.key == "system.temperature"


@pytest.mark.parametrize("kept", [True, False])
def test_collisions_are_rate_equations_of_all_states(kept):
    """<J(J+1)> of J = 1, M = 1 without a field: rates from a table and their reverses at kT = 3 B, over both signs of M."""
    hot = 3.0
    jumps = [{"rates": {"2": {"1": 0.3}, "1": {"0": 0.2}}, "temperature": f"{hot} hartree"}]
    jumps[0] |= {"M": "kept"} if kept else {}
    system = {"type": "rotor", "B": 1.0, "dipole": 1.0, "J_max": 5, "initial": "1,1", "jumps": jumps}
    data = {"method": "qoc", "system": system | {"target": {"observable": "J2"}}, "optimizer": "none"}
    data |= {"time": {"T": 4.0, "slots": 2}, "control": {"name": "field", "guess": "zero"}}
    found = qsim.run(data | {"dissipation": "lindblad", "output": {"figures": "none"}}).scalars["observable"]
    states = [(j, m) for j in range(3) for m in range(-j, j + 1)]
    rates = {(2, 1): 0.3, (1, 0): 0.2}
    rates |= {
        (b, a): k * (2 * a + 1) / (2 * b + 1) * math.exp(-(a * (a + 1) - b * (b + 1)) / hot)
        for (a, b), k in rates.items()
    }
    flow = np.zeros((len(states),) * 2)
    for i, (j, m) in enumerate(states):
        for f, (other, n) in enumerate(states):
            share = float(m == n) if kept else 1.0 / (2 * other + 1)
            rate = rates.get((j, other), 0.0) * share
            flow[f, i] += rate
            flow[i, i] -= rate
    populations = expm(4.0 * flow)[:, states.index((1, 1))]
    assert found.value == pytest.approx(
        sum(p * j * (j + 1) for p, (j, _) in zip(populations, states, strict=True)), abs=1e-9
    )
    assert found.error < 1e-8

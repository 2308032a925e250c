"""Named parts: matrices against dense products and published numbers, baths, frames, and what is refused."""

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import constants
from scipy.linalg import expm

from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import Units
from qsim.qoc.deck.systems.states import GATES
from qsim.qoc.models.builders import model
from qsim.qoc.models.faults import InvalidSystem
from qsim.qoc.models.goals import named_gate
from qsim.qoc.models.quantum import GateTarget, ObservableTarget, StateTarget
from tests.qoc.models.oracle import average_fidelity, evolved, liouvillian, unit

QUBITS = {
    "type": "model",
    "parts": [{"name": "a", "type": "qubit"}, {"name": "b", "type": "qubit"}],
    "controls": {"u": "a.sx"},
    "initial": "00",
    "target": "11",
}
TRANSMONS = {
    "type": "model",
    "unit": "GHz",
    "parts": [
        {
            **{"name": "a", "type": "transmon", "levels": 5, "frequency": 4.3796, "anharmonicity": -0.2393},
            **{"T1": "38 us", "Tphi": "59 us"},
        },
        {
            **{
                "name": "b",
                "type": "transmon",
                "levels": 5,
                "frequency": 4.6137,
                "anharmonicity": "-242.8 MHz",
            },
            **{"T1": "32 us", "Tphi": "32000 ns"},
        },
    ],
    "frame": 4.4985,
    "terms": [{"operator": "a.bd*b.b + a.b*b.bd", "value": -0.0023}],
    "controls": {"re": "(a.x + b.x)/2", "im": "(a.y + b.y)/2"},
    "target": {"gate": "sqrt_iswap", "on": ["a", "b"], "free": ["z"]},
}


def built(deck, extra=0):
    return model(ModelSystem.model_validate(deck), extra)


def test_two_transmons_are_the_matrices_of_the_published_problem():
    """New J. Phys. 16, 055012 (2014), as the krotov documentation sets it: 25 levels in the frame of the drive."""
    m = built(TRANSMONS)
    b, one = np.diag(np.sqrt(np.arange(1, 5)), 1), np.eye(5)
    b1, b2 = np.kron(b, one), np.kron(one, b)
    n1, n2 = b1.T @ b1, b2.T @ b2
    h0 = (
        (4.3796 - 4.4985) * n1
        - 0.2393 / 2 * (n1 @ n1 - n1)
        + (4.6137 - 4.4985) * n2
        - 0.2428 / 2 * (n2 @ n2 - n2)
    )
    h0 = 2 * np.pi * (h0 - 0.0023 * (b1.T @ b2 + b1 @ b2.T))
    assert m.drift.toarray() == pytest.approx(h0, abs=1e-12)
    assert m.controls[0].operator.toarray() == pytest.approx(np.pi * (b1 + b1.T + b2 + b2.T), abs=1e-12)
    assert m.controls[1].operator.toarray() == pytest.approx(1j * np.pi * (b1.T - b1 + b2.T - b2), abs=1e-12)
    jumps = {jump.name: jump.operator.toarray() for jump in m.jumps}
    published = {
        "a.T1": b1 / 38e3**0.5,
        "a.Tphi": n1 / 29.5e3**0.5,
        "b.T1": b2 / 32e3**0.5,
        "b.Tphi": n2 / 16e3**0.5,
    }
    assert jumps.keys() == published.keys()
    for name, matrix in published.items():
        assert jumps[name] == pytest.approx(matrix, abs=1e-16)
    assert (m.seconds, m.shape, m.labels[:7]) == (1e-9, (5, 5), ("00", "01", "02", "03", "04", "10", "11"))
    assert np.abs(m.goal.columns).argmax(axis=0).tolist() == [0, 1, 5, 6]
    assert m.goal.generators.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert m.states == pytest.approx(np.eye(25)[:, [0, 1, 5, 6]])


@pytest.mark.parametrize("seed", range(6))
def test_formulas_are_the_dense_products(seed):
    """Random formulas of random parts, against Kronecker products."""
    rng = np.random.default_rng(seed)
    kinds = [
        {"type": "qubit"},
        {"type": "ladder", "levels": int(rng.integers(2, 5))},
        {"type": "spin", "s": float(rng.integers(1, 4)) / 2},
        {"type": "rotor", "levels": int(rng.integers(2, 5)), "B": 0.3, "M": int(rng.integers(-2, 3))},
    ]
    chosen = [kinds[k] | {"name": name} for name, k in zip("pqr", rng.integers(0, 4, 3), strict=True)]
    sizes = [int(2 * p["s"] + 1) if p["type"] == "spin" else p.get("levels", 2) for p in chosen]
    named = {}
    for place, part in enumerate(chosen):
        for name, matrix in dense_operators(part, sizes[place]).items():
            factors = [np.eye(size) for size in sizes]
            factors[place] = matrix
            named[f"{part['name']}.{name}"] = np.kron(np.kron(factors[0], factors[1]), factors[2])
    names = [str(name) for name in rng.choice(sorted(named), 4)]
    a, b, c, d = names
    formula = f"(2 - 0.5i)*{a}*{b} + i*{c}^3/sqrt(2) - ({d} + 1.5)*({a} - {b})^2*-3e-1"
    one = np.eye(math.prod(sizes))
    A, B, C, D = (named[name] for name in names)
    dense = (2 - 0.5j) * A @ B + 1j * C @ C @ C / math.sqrt(2) + 0.3 * (D + 1.5 * one) @ (A - B) @ (A - B)
    deck = {
        **{
            "type": "model",
            "parts": chosen,
            "controls": {"u": "1"},
            "initial": 0,
            "target": {"observable": "1"},
        },
        "jumps": [{"operator": formula, "rate": 1}],
        "initial": "0,0,0" if max(sizes) > 10 else "000",
    }
    assert built(deck).jumps[-1].operator.toarray() == pytest.approx(dense, abs=1e-12)


def dense_operators(part, size):
    """Some operators of a part, written from their definitions."""
    k = np.arange(size)
    raising = np.diag(np.sqrt(k[1:]), -1)
    if part["type"] == "spin":
        m = k - part["s"]
        up = np.array(
            [[math.sqrt((part["s"] - b) * (part["s"] + b + 1)) * (a == b + 1) for b in m] for a in m]
        )
        return {"Sx": (up + up.T) / 2, "Sy": (up - up.T) / 2j, "Sz": np.diag(m), "Sp": up}
    if part["type"] == "rotor":
        return rotor_by_quadrature(part["M"], size)
    pauli = {"sy": np.array([[0, -1j], [1j, 0]]), "sz": np.diag([1, -1]), "sm": np.array([[0, 1], [0, 0]])}
    ladder = {"bd": raising, "x": raising + raising.T, "y": 1j * (raising - raising.T), "n": np.diag(k)}
    return ladder | pauli if part["type"] == "qubit" else ladder


def rotor_by_quadrature(m, size):
    """<cos> and <cos^2> of normalised associated Legendre functions by Gauss-Legendre quadrature, exact for polynomials."""
    from scipy.special import lpmv

    x, w = np.polynomial.legendre.leggauss(60)
    j = abs(m) + np.arange(size)
    rows = np.array([lpmv(abs(m), value, x) * (-1) ** abs(m) for value in j])
    rows /= np.sqrt((rows**2 * w).sum(1))[:, None]
    return {"cos": (rows * w * x) @ rows.T, "cos2": (rows * w * x**2) @ rows.T, "J2": np.diag(j * (j + 1.0))}


def test_lifetimes_give_the_fidelity_of_idle_qubits():
    """F_pro = prod (1 + exp(-t/T1) + 2 exp(-t/T2))/4, and its published number 0.9438527818337."""
    parts = [
        {"name": "a", "type": "qubit", "T1": 30.0, "T2": 20.0},
        {"name": "b", "type": "qubit", "T1": 45.0, "T2": 50.0},
    ]
    m = built(
        {**QUBITS, "parts": parts, "initial": None, "target": {"gate": "id", "on": ["a"]}}
        | {"parts": parts[:1]}
    )
    process = (1 + math.exp(-0.05) + 2 * math.exp(-1.5 / 20)) / 4
    assert average_fidelity(m, 1.5) == pytest.approx((2 * process + 1) / 3, abs=1e-12)
    both = {**QUBITS, "parts": parts, "initial": None, "target": {"gate": "swap"}}
    m = built(both)
    assert average_fidelity(with_gate(m, np.eye(4)), 1.5) == pytest.approx(0.9438527818337, abs=1e-11)


def with_gate(m, unitary):
    from dataclasses import replace

    return replace(m, goal=replace(m.goal, unitary=np.asarray(unitary, complex)))


def test_damped_rabi_oscillation_of_torrey():
    """Population of the upper level, Phys. Rev. 76, 1059 (1949): W = 1, D = 0, g = 0.3, T = 4."""
    deck = {
        **{
            "type": "model",
            "parts": [{"name": "q", "type": "qubit"}],
            "terms": [{"operator": "q.sx", "value": 0.5}],
        },
        **{
            "jumps": [{"operator": "q.sm", "rate": 0.3}],
            "controls": {"u": "q.sz"},
            "initial": "0",
            "target": "1",
        },
    }
    m = built(deck)
    assert evolved(m, 4.0, unit(2, 0, 0))[1, 1].real == pytest.approx(0.6401663513927, abs=1e-11)


def test_cnot_of_held_values():
    """Average fidelity of 40 slots of four controls, by dense exponentials of the built matrices: 0.2037485371."""
    deck = {
        **{"type": "model", "parts": [{"name": "a", "type": "qubit"}, {"name": "b", "type": "qubit"}]},
        **{"terms": [{"operator": "a.sz*b.sz", "value": 0.5}], "target": {"gate": "cnot"}},
        "controls": {"xa": "a.sx/2", "ya": "a.sy/2", "xb": "b.sx/2", "yb": "b.sy/2"},
    }
    m = built(deck)
    s = (np.arange(40) + 0.5) / 40
    columns = m.states
    for n in range(40):
        h = m.drift.toarray()
        for c, control in enumerate(m.controls):
            u = 1.5 * np.sin(np.pi * s[n]) * np.cos(2 * np.pi * s[n] * (c + 1) + 0.7 * c)
            h = h + u * control.operator.toarray()
        columns = expm(-0.1j * h) @ columns
    inside = m.goal.columns.conj().T @ columns
    t = np.trace(m.goal.unitary.conj().T @ inside)
    assert (abs(t) ** 2 + np.linalg.norm(inside) ** 2) / 20 == pytest.approx(0.2037485371, abs=2e-10)


def test_a_warm_bath_leaves_the_boltzmann_populations():
    """Steady state of a ladder at 200 mK and 5 GHz, with k_B and h of scipy."""
    part = {
        "name": "q",
        "type": "ladder",
        "levels": 6,
        "frequency": 5.0,
        "T1": "1 us",
        "temperature": "200 mK",
    }
    deck = {"type": "model", "unit": "GHz", "parts": [part], "controls": {"u": "q.x"}, "target": "0"}
    deck["initial"] = {"thermal": "200 mK", "below": 0.0}
    m = built(deck)
    ratio = math.exp(-constants.h * 5e9 / (constants.k * 0.2))
    populations = ratio ** np.arange(6) / sum(ratio ** np.arange(6))
    assert np.diag(evolved(m, 1e6, unit(6, 0, 0))).real == pytest.approx(populations, abs=1e-9)
    assert m.weights == pytest.approx(populations, rel=1e-9)
    assert m.dropped == 0.0


def test_thermal_weights_of_the_qubit_reset_and_what_is_left_out():
    """Levels of 1 + 3 at kT = 1; the coupled levels differ from the uncoupled ones, whose populations multiply."""
    parts = [
        {"name": "q", "type": "qubit", "frequency": 1.0},
        {"name": "t", "type": "qubit", "frequency": 3.0, "T1": 25.0, "temperature": 1.0},
    ]
    deck = {
        **{"type": "model", "parts": parts, "terms": [{"operator": "q.sp*t.sm + q.sm*t.sp", "value": 0.1}]},
        **{"controls": {"u": "-q.sz/2"}, "target": {"observable": "q.p0"}},
    }
    apart = built({**deck, "initial": {"thermal": 1.0, "below": 0, "coupled": False}})
    rho = (apart.states * apart.weights) @ apart.states.conj().T
    q, t = np.diag([1, math.exp(-1)]) / (1 + math.exp(-1)), np.diag([1, math.exp(-3)]) / (1 + math.exp(-3))
    assert rho == pytest.approx(np.kron(q, t), abs=1e-14)
    together = built({**deck, "initial": {"thermal": 1.0, "below": 0}})
    rho = (together.states * together.weights) @ together.states.conj().T
    dense = expm(-together.drift.toarray())
    assert rho == pytest.approx(dense / np.trace(dense), abs=1e-13)
    # The bath's jumps hold the mode at 1/(1 + e^3), the limit of the reset.
    jumps = {jump.name: jump.operator for jump in apart.jumps}
    quanta = 1 / math.expm1(3.0)
    assert abs(jumps["t.T1"]).max() == pytest.approx(math.sqrt(0.04 * (quanta + 1)), rel=1e-14)
    assert abs(jumps["t.heating"]).max() == pytest.approx(math.sqrt(0.04 * quanta), rel=1e-14)
    cut = built({**deck, "initial": {"thermal": 1.0, "below": 0.02}})
    assert cut.states.shape == (4, 3)
    assert cut.weights.sum() + cut.dropped == pytest.approx(1.0, abs=1e-15)
    assert 0 < cut.dropped <= 0.02


def test_a_frame_takes_off_its_quanta_and_nothing_else():
    """exp(-i H T) of the laboratory = exp(-i G T) exp(-i H' T), and thermal states stay those of the laboratory."""
    lab = built(TRANSMONS | {"frame": None, "target": "00", "initial": {"thermal": "50 mK"}})
    turning = built(TRANSMONS | {"target": "00", "initial": {"thermal": "50 mK"}})
    n = np.arange(5.0)
    generator = 2 * np.pi * 4.4985 * np.add.outer(n, n).ravel()
    h, rotated = lab.drift.toarray(), turning.drift.toarray()
    assert expm(-0.7j * h) == pytest.approx(
        np.exp(-0.7j * generator)[:, None] * expm(-0.7j * rotated), abs=1e-11
    )
    assert turning.weights == pytest.approx(lab.weights, rel=1e-12)
    each = built(TRANSMONS | {"frame": {"a": 4.4985, "b": 4.4985}, "target": "00", "initial": "00"})
    assert abs(each.drift - turning.drift).max() == 0


def test_more_levels_for_the_error_of_those_kept():
    few, more = built(TRANSMONS), built(TRANSMONS, extra=2)
    assert (few.shape, more.shape) == ((5, 5), (7, 7))
    assert np.abs(more.goal.columns).argmax(axis=0).tolist() == [0, 1, 7, 8]
    inner = [7 * a + b for a in range(5) for b in range(5)]
    assert more.drift[inner][:, inner].toarray() == pytest.approx(few.drift.toarray(), abs=1e-12)


def test_states_by_label_level_weight_and_list():
    deck = QUBITS | {
        "parts": [{"name": "a", "type": "qubit", "frequency": 1.0}, {"name": "b", "type": "qubit"}]
    }
    m = built(deck | {"initial": {"01": 1, "10": "-2i"}, "target": ["00", "11"]})
    assert m.states[:, 0] == pytest.approx(np.array([0, 1, -2j, 0]) / math.sqrt(5))
    assert isinstance(m.goal, StateTarget)
    assert m.goal.vectors[0] == pytest.approx(np.eye(4)[[0, 3]])
    # Levels 0, 1 and 2, 3 are pairs of equal energy: together they are the states with a = 0 and a = 1.
    pair = built(deck | {"initial": "00", "target": [2, 3]}).goal.vectors[0]
    assert pair.conj().T @ pair == pytest.approx(np.diag([0, 0, 1, 1]))
    pairs = [{"initial": "00", "target": "11"}, {"initial": "01", "target": ["10", "01"]}]
    several = built({k: v for k, v in deck.items() if k not in ("initial", "target")} | {"pairs": pairs})
    assert several.weights.tolist() == [0.5, 0.5]
    assert [len(rows) for rows in several.goal.vectors] == [1, 2]
    observed = built(deck | {"target": {"observable": "a.n + b.n"}})
    assert isinstance(observed.goal, ObservableTarget)
    assert observed.goal.operator.toarray() == pytest.approx(np.diag([0, 1, 1, 2]))


def test_gates_are_unitary_and_what_their_names_say():
    for name in GATES:
        gate = named_gate(name)
        assert gate.conj().T @ gate == pytest.approx(np.eye(len(gate)), abs=1e-15)
    for root, square in [
        ("sqrt_x", "x"),
        ("sqrt_y", "y"),
        ("s", "z"),
        ("t", "s"),
        ("sqrt_swap", "swap"),
        ("sqrt_iswap", "iswap"),
    ]:
        assert named_gate(root) @ named_gate(root) == pytest.approx(named_gate(square), abs=1e-15)
    bits = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    for column, (a, b, c) in enumerate(bits):
        assert named_gate("toffoli")[bits.index((a, b, c ^ (a & b))), column] == 1
        assert named_gate("fredkin")[bits.index((a, c, b) if a else (a, b, c)), column] == 1
        assert named_gate("ccz")[column, column] == 1 - 2 * (a & b & c)
    for a in (0, 1):
        for b in (0, 1):
            assert named_gate("cnot")[2 * a + (a ^ b), 2 * a + b] == 1
    x, y = named_gate("x"), named_gate("y")
    exchange = np.kron(x, x) + np.kron(y, y)
    assert named_gate("iswap") == pytest.approx(expm(0.25j * np.pi * exchange), abs=1e-15)
    assert built(QUBITS | {"initial": None, "target": {"gate": "cy"}}).goal.unitary[3, 2] == 1j


def test_a_gate_acts_on_the_parts_named_in_their_order():
    three = [{"name": name, "type": "qubit"} for name in "abc"]
    m = built(QUBITS | {"parts": three, "initial": "010", "target": {"gate": "cnot", "on": ["c", "a"]}})
    assert isinstance(m.goal, GateTarget)
    assert [m.labels[k] for k in np.abs(m.goal.columns).argmax(axis=0)] == ["010", "110", "011", "111"]


def test_units_against_scipy():
    """Numbers in internal units, from SI constants that the program does not use."""
    energy = constants.h * constants.c * 100.0
    assert Units("cm-1").factor == pytest.approx(energy / constants.hbar * 1e-12, rel=1e-9)
    assert Units("eV").factor == pytest.approx(constants.e / constants.hbar * 1e-15, rel=1e-9)
    assert Units("GHz").factor == pytest.approx(2 * math.pi, rel=1e-14)
    units = Units("GHz")
    assert units.frequency("80 MHz", "") == pytest.approx(2 * math.pi * 0.08, rel=1e-12)
    assert units.time("38 us", "") == pytest.approx(38e3, rel=1e-12)
    assert [units.rate(text, "") for text in ("30 /us", "30 1/us", "0.03 ns-1")] == pytest.approx([0.03] * 3)
    assert units.temperature("0.1 K", "") == pytest.approx(
        constants.k * 0.1 / constants.hbar * 1e-9, rel=1e-9
    )
    assert units.temperature(2.0, "") == pytest.approx(4 * math.pi)


TRANSMON = TRANSMONS["parts"][0]
REFUSED = [
    (
        {"controls": {"u": "a.bd - a.b"}},
        "system.controls.u",
        "operator is not Hermitian: |A - A+| = 2 at",
        "i*(a.bd - a.b)",
    ),
    ({"controls": {"u": "a.sp"}}, "system.controls.u", "|A - A+| = 1 at (0,2); add its Hermitian conjugate"),
    ({"controls": {"u": "a.sx - a.x"}}, "system.controls.u", "is 0"),
    ({"controls": {"u": "a.q"}}, "system.controls.u", "unknown name 'a.q'; did you mean", "operators: a.b"),
    ({"controls": {"u": "a.sx*"}}, "system.controls.u", "column 6: a number, a name or '(' is expected"),
    ({"controls": {"u": "sin(a.sx)"}}, "system.controls.u", "sin of an operator"),
    ({"controls": {"u": "1/a.sx"}}, "system.controls.u", "division by an operator"),
    ({"controls": {"u": "a.sx^0.5"}}, "system.controls.u", "exponents of operators must be whole numbers"),
    ({"controls": {"u": "a.sx/0"}}, "system.controls.u", "zero"),
    (
        {"target": {"gate": "cnot", "on": ["a"]}},
        "system.target.gate",
        "4 x 4 but the logical space of a is 2",
    ),
    ({"target": {"gate": "cnot", "on": ["a", "z"]}}, "system.target.on", "unknown part 'z'; parts: a, b"),
    ({"target": {"observable": "a.sp"}}, "system.target.observable", "not Hermitian"),
    ({"target": "21"}, "system.target", "unknown state '21'", "states: 00, 01, 10, 11"),
    ({"initial": 1, "target": "11"}, "system.initial", "level 1 is one of the degenerate levels 0, 1, 2, 3"),
    ({"initial": 7}, "system.initial", "there is no level 7: levels 0 to 3"),
    ({"initial": None}, "system.initial", "missing key"),
    ({"target": None}, "system.target", "missing key"),
    ({"pairs": [{"initial": "00", "target": "11"}]}, "system.pairs", "either pairs, or initial and target"),
    ({"parts": [TRANSMON | {"levels": 2}]}, "system.parts.0.levels", "transmon a has 2 levels"),
    (
        {"frame": 4.0, "terms": [{"operator": "a.bd*b.bd + a.b*b.b"}]},
        "system.frame",
        "rotates at 8 GHz in this frame; drop it",
    ),
    ({"frame": {"c": 4.0}}, "system.frame.c", "unknown part 'c'; parts: a, b"),
    ({"frame": 4.0, "jumps": [{"operator": "a.x", "rate": 1}]}, "system.frame", "rotate apart by 8 GHz"),
    ({"unit": None, "frame": "4 GHz"}, "system.frame", "'4 GHz' has a unit, but the block has none"),
    ({"parts": [{"name": "a", "type": "qubit"}] * 2}, "system.parts.1.name", "duplicate part 'a'"),
]


@pytest.mark.parametrize(("change", "key", "texts"), [(c, k, t) for c, k, *t in REFUSED])
def test_refused_with_the_place(change, key, texts):
    deck = QUBITS | {"unit": "GHz"} | change
    if "parts" in change and len(change["parts"]) == 1:
        deck |= {"controls": {"u": "a.x"}, "initial": "0", "target": "1"}
    with pytest.raises(InvalidSystem) as error:
        built(deck)
    assert error.value.key == key
    for text in texts:
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("keys", "key", "text"),
    [
        ({"T1": "30 us", "T2": "80 us"}, "T2", "T2 = 80 us exceeds 2 T1 = 60 us"),
        ({"T2": 1.0, "Tphi": 1.0}, "T2", "either T2 or Tphi"),
        ({"temperature": "1 K"}, "temperature", "acts through T1"),
        ({"T1": 1.0, "temperature": "1 K", "frequency": 0}, "temperature", "needs a frequency above 0"),
        ({"T1": 1.0, "T2": 1.0, "temperature": "1 K"}, "T2", "give Tphi instead"),
    ],
)
def test_lifetimes_that_contradict_each_other(keys, key, text):
    part = {"name": "a", "type": "qubit", "frequency": 5.0} | keys
    with pytest.raises(InvalidSystem, match=text) as error:
        built(QUBITS | {"unit": "GHz", "parts": [part], "initial": "0", "target": "1"})
    assert error.value.key == f"system.parts.0.{key}"


def test_every_mistake_is_told_at_once():
    deck = TRANSMONS | {"controls": {"u": "a.b", "v": "a.none"}, "jumps": [{"operator": "(", "rate": 1}]}
    with pytest.raises(InvalidSystem) as error:
        built(deck | {"target": {"gate": "x"}})
    keys = [finding.key for finding in error.value.findings]
    assert keys == ["system.controls.u", "system.controls.v", "system.jumps.0.operator", "system.target.gate"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"target": {"gate": "cnto"}}, "unknown gate 'cnto'; did you mean 'cnot'"),
        ({"initial": {"thermal": "-3 K"}}, "temperature must be above 0"),
        ({"initial": {"00": 0}}, "weight that is not zero"),
        ({"jumps": [{"operator": "a.b", "rate": "-1 /us"}]}, "rate must be at least 0"),
        ({"jumps": [{"operator": "a.b", "rate": "1 MHz"}]}, "expected a rate such as '0.03 /us'"),
        ({"parts": [{"name": "a", "type": "qubit", "T1": "5 m"}]}, "m"),
        ({"parts": [{"name": "a", "type": "qubit", "T1": 0}]}, "time must be above 0"),
        ({"parts": [{"name": "a b", "type": "qubit"}]}, "pattern"),
        ({"parts": [{"name": "a", "type": "spin", "s": 0.7}]}, "multiple of 0.5"),
        ({"target": ["00", "00"]}, "duplicate"),
    ],
)
def test_the_block_refuses(change, text):
    with pytest.raises(ValidationError, match=text):
        ModelSystem.model_validate(QUBITS | change)


def test_the_superoperator_of_the_oracle_keeps_the_trace():
    rng = np.random.default_rng(1)
    h, jump = rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3))
    rates = liouvillian(h + h.conj().T, [jump])
    assert np.eye(3).ravel() @ rates == pytest.approx(np.zeros(9), abs=1e-13)

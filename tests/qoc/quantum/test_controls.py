"""Controls of quantum systems: maps against central differences, constraints of random controls, files."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import h5py
import numpy as np
import pytest

import qsim
from qsim.core.deck.expression import Expression
from qsim.core.deck.load import load_deck
from qsim.core.errors import QsimError
from qsim.core.run.examine import examine
from qsim.qoc.control.making import Making, penalties
from qsim.qoc.control.parametrisation import Parametrisation
from qsim.qoc.deck.model import QocDeck
from qsim.qoc.models.builders import model

PARAMETERS = [
    "slots",
    {"type": "slots", "count": 6},
    "constant",
    {"type": "sine", "band": [0.5, 20.0]},
    {"type": "fourier", "count": 4},
    {"type": "bspline", "count": 5, "carriers": [0.0, 7.0]},
]
SLOTS = 24


def deck(control, **changes):
    """Return two qubits with as many controls as there are blocks."""
    names = ["a.sx", "a.sy", "b.sx", "b.sy"]
    return {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": n, "type": "qubit"} for n in "ab"],
            "terms": [{"operator": "a.sz*b.sz", "value": 0.7}],
            "controls": dict(zip("uvwx"[: len(control)], names, strict=False)),
            "initial": "00",
            "target": "11",
        },
        "time": {"T": 2.0, "slots": SLOTS},
        "control": control,
        "optimizer": {"type": "lbfgs", "max_sweeps": 20},
        "run": {"seed": 3},
        **changes,
    }


def made(control, attempt=0, **changes):
    """Return the controls of a deck and their first values."""
    loaded = load_deck(deck(control, **changes), QocDeck)
    terms = model(loaded.deck.system).controls
    return Making(loaded.deck, terms, 3).start(attempt)


def drawn(rng, names="uvwx"):
    """Return random blocks of controls."""
    blocks = []
    for name in names[: int(rng.integers(1, 5))]:
        block = {"name": name, "parameters": PARAMETERS[int(rng.integers(len(PARAMETERS)))]}
        if rng.random() < 0.5:
            block["shape"] = "sin2_edges"
        if rng.random() < 0.5:
            block["bounds"] = [-float(rng.uniform(0.5, 2.0)), float(rng.uniform(0.5, 2.0))]
        if rng.random() < 0.4:
            block["area"] = float(rng.uniform(-0.3, 0.3))
        block["fixed"] = bool(rng.random() < 0.2)
        if block["parameters"] == "slots" and not block["fixed"] and rng.random() < 0.5:
            block["slew"] = float(rng.uniform(1.0, 20.0))
            block.pop("shape", None)
            block.pop("area", None)
        blocks.append(block)
    # not fixed, and so with whatever was drawn
    blocks[0]["fixed"] = False
    free = [b for b in blocks if not b["fixed"]]
    if len(free) > 1 and rng.random() < 0.7:
        for block in free[:2]:
            block.pop("area", None)
            block.pop("slew", None)
        free[1]["modulus"] = {"with": free[0]["name"], "bound": float(rng.uniform(0.5, 1.5))}
    return blocks


@pytest.mark.parametrize("seed", range(20))
def test_gradients_and_constraints_of_random_controls(seed):
    rng = np.random.default_rng(seed)
    blocks = drawn(rng)
    controls, _ = made(blocks)
    if seed % 2:
        controls = replace(controls, most=float(rng.uniform(0.3, 2.0)))
    u = rng.normal(size=sum(controls.sizes))
    box = controls.box()
    if box is not None:
        u = np.clip(u, *box)
    field = controls.field(u)
    # constraints
    least, most = controls.extent()
    assert np.all(field.max(axis=1) <= most * (1 + 1e-12))
    assert np.all(field.min(axis=1) >= least * (1 + 1e-12))
    assert np.all(field <= controls.high * (1 + 1e-12))
    assert np.all(field >= controls.low * (1 + 1e-12))
    for row, block in zip(field, blocks, strict=True):
        if "area" in block and not block["fixed"] and controls.most is None:
            assert np.sum(row) * 2.0 / SLOTS == pytest.approx(block["area"], abs=1e-12)
        if "slew" in block:
            assert np.abs(np.diff(row, prepend=0.0)).max() <= block["slew"] * 2.0 / SLOTS * (1 + 1e-12)
        if "modulus" in block:
            partner = field[[b["name"] for b in blocks].index(block["modulus"]["with"])]
            assert np.hypot(row, partner).max() <= block["modulus"]["bound"] * (1 + 1e-12)
    if controls.most is not None:
        free = [not b["fixed"] for b in blocks]
        assert np.sum(field[free] ** 2) * 2.0 / SLOTS <= controls.most * (1 + 1e-12)
    # exact derivative against a central difference along a random direction
    g, d = rng.normal(size=field.shape), rng.normal(size=u.size)
    step = 1e-5
    difference = np.sum(g * (controls.field(u + step * d) - controls.field(u - step * d))) / (2 * step)
    assert controls.pull_back(u, g) @ d == pytest.approx(difference, rel=1e-6, abs=1e-7)
    # the controls as functions of time have these values in the slots
    middles = (np.arange(SLOTS) + 0.5) * 2.0 / SLOTS
    assert np.allclose(controls.at(u, middles), field, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_parameters_of_values_give_the_values_back(seed):
    rng = np.random.default_rng(100 + seed)
    # a shape hides values where it vanishes, and an area the mean
    blocks = [b | {"shape": None, "area": None} for b in drawn(rng)]
    controls, _ = made(blocks)
    u = 0.1 * rng.normal(size=sum(controls.sizes))
    if controls.box() is not None:
        u = np.clip(u, *controls.box())
    field = controls.field(u)
    # what the clip has drawn to a bound is not drawn back
    assert np.allclose(controls.field(controls.parameters(field)), field, atol=1e-8)


def test_new_frequencies_leave_the_values_and_move_near_the_harmonics():
    controls, guess = made([{"name": "u", "parameters": {"type": "fourier", "count": 3, "spread": 0.4}}])
    (line,) = controls.lines
    shift = line.basis.frequencies / np.pi - np.arange(1, 4)
    assert np.all(np.abs(shift) <= 0.4)
    assert np.ptp(shift) > 0.01
    u = np.linspace(-1.0, 1.0, controls.sizes[0])
    again, zeros = controls.redrawn(u, 1)
    assert np.allclose(again.field(zeros), controls.field(u), atol=1e-13)
    assert not np.allclose(again.lines[0].basis.frequencies, line.basis.frequencies)
    # as functions of time, too: both draws are kept
    times = np.linspace(0.0, 2.0, 37)
    assert np.allclose(again.at(zeros, times), controls.at(u, times), atol=1e-12)
    assert np.allclose(guess, controls.field(np.zeros(u.size)))


def test_another_start_has_other_values_and_the_same_formulas():
    blocks = [{"name": "u"}, {"name": "v", "guess": {"type": "expression", "value": "sin(t)"}}]
    first, second = made(blocks)[1], made(blocks, 1)[1]
    assert not np.allclose(first[0], second[0])
    assert np.array_equal(first[1], second[1])


def test_blocks_are_constant_and_bounded_by_a_box():
    controls, guess = made(
        [{"name": "u", "parameters": {"type": "slots", "count": 4}, "bounds": [-0.5, 1.0]}]
    )
    assert np.all(guess.reshape(4, 6) == guess.reshape(4, 6)[:, :1])
    low, high = controls.box()
    assert np.allclose(controls.field(high), 1.0, rtol=1e-15)
    assert np.allclose(controls.field(low), -0.5, rtol=1e-15)


def test_penalties_of_each_control():
    blocks = [{"name": "u", "alpha": 0.5}, {"name": "v"}]
    loaded = load_deck(deck(blocks, objective={"alpha": 0.1}), QocDeck)
    assert list(penalties(loaded.deck, model(loaded.deck.system).controls)) == [0.5, 0.1]


def test_values_of_files_in_units_and_from_an_earlier_run(tmp_path):
    """A table in us and MHz, the same in HDF5, and the results of a run in GHz continued by one in MHz."""
    t = (np.arange(50) + 0.5) * 0.4
    u, v = np.cos(0.3 * t), np.sin(0.2 * t)
    rows = "\n".join(
        f"{a * 1e-3:.17g}, {b * 10:.17g}, {c * 10:.17g}" for a, b, c in zip(t, u, v, strict=True)
    )
    (tmp_path / "p.csv").write_text(f"t (us), u (MHz), v (MHz)\n{rows}\n")
    with h5py.File(tmp_path / "p.h5", "w") as file:
        for name, values, unit in (("t", t, "ns"), ("u", u * 10, "MHz"), ("v", v * 1e-2, "GHz")):
            file[name] = values
            file[name].attrs["units"] = unit
    system = deck([{"name": "u"}, {"name": "v"}])["system"] | {"unit": "GHz"}

    def run(path, output, unit="GHz", **more):
        controls = [
            {"name": n, "guess": {"type": "file", "file": str(path)}, "fixed": n == "u"} for n in "uv"
        ]
        return qsim.run(
            deck(controls, system=system | {"unit": unit}, optimizer="none")
            | {"time": {"T": "20 ns", "slots": 50}}
            | more,
            output=tmp_path / output,
            figures="none",
        )

    for name in ("p.csv", "p.h5"):
        with run(tmp_path / name, f"of_{name[2:]}") as results:
            assert np.allclose(results["control/u"], 0.01 * u, atol=1e-15)
            assert np.allclose(results["control/v"], 0.01 * v, atol=1e-15)
            path = results.path
    with run(path, "other", "MHz", time={"T": "20 ns", "slots": 100}) as results:
        assert np.allclose(results["control/u"], np.repeat(10 * u, 2), atol=1e-12)


REFUSED = {
    "alone": ([{"name": "u", "modulus": {"with": "v", "bound": 1}}], "no other control is called 'v'"),
    "twice": (
        [
            {"name": "u"},
            {"name": "v", "modulus": {"with": "u", "bound": 1}},
            {"name": "w", "modulus": {"with": "u", "bound": 1}},
        ],
        "one pair only",
    ),
    "fixed": (
        [{"name": "u", "fixed": True}, {"name": "v", "modulus": {"with": "u", "bound": 1}}],
        "'u' is fixed",
    ),
    "area": (
        [{"name": "u", "zero_area": True}, {"name": "v", "modulus": {"with": "u", "bound": 1}}],
        "area of 'u'",
    ),
    "both": ([{"name": "u", "zero_area": True, "area": 1.0}], "either area or zero_area"),
    "reach": ([{"name": "u", "area": 4.0, "bounds": [-1, 1]}], "out of reach"),
    "blocks": ([{"name": "u", "parameters": {"type": "slots", "count": 7}}], "do not divide 24 slots"),
    "carriers": (
        [{"name": "u", "parameters": {"type": "bspline", "count": 4, "carriers": [50.0]}}],
        "represent frequencies up to",
    ),
    "splines": (
        [{"name": "u", "parameters": {"type": "bspline", "count": 10, "carriers": [0, 9.0]}}],
        "30 splines with carriers on 24 slots",
    ),
    "slew": ([{"name": "u", "slew": 1.0, "shape": "sin2"}], "together with shape"),
    "slew of splines": (
        [{"name": "u", "slew": 1.0, "parameters": {"type": "bspline", "count": 5}}],
        "parameters: slots",
    ),
    "negative": (
        [{"name": "u"}, {"name": "v", "modulus": {"with": "u", "bound": -1}}],
        "must be above 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_kept_is_refused(case):
    control, text = REFUSED[case]
    assert any(text in str(problem) for problem in qsim.validate(deck(control)).problems)


TABLES = {
    "t (ns), w (MHz)\n1, 2\n2, 3\n": "no column 'u'",
    "t (ns), u (K)\n1, 2\n2, 3\n": "unit",
    "1, 2, 3\n2, 3, 4\n": "no header",
    "t, u\n1, 2\n1, 3\n": "distinct times",
    "t (ns), field of u (MHz)\n1, 2\n2, 3\n": "expected a header",
    "t, u\n-2, 2\n-1, 3\n": "do not overlap",
}


@pytest.mark.parametrize("text", TABLES)
def test_tables_that_cannot_be_used_are_refused(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    made = deck([{"name": "u", "guess": {"type": "file", "file": str(tmp_path / "p.csv")}}])
    made["system"]["unit"] = "GHz"
    made["time"]["T"] = "2 ns"
    made["optimizer"] = "none"
    with pytest.raises(QsimError) as refused:
        qsim.run(made, output=tmp_path / "out")
    assert TABLES[text] in str(refused.value)


@pytest.mark.parametrize("seed", range(4))
def test_what_slots_leave_of_functions_of_time(tmp_path, seed):
    """Against an integration of Schroedinger's equation under the functions that the file's coefficients mean."""
    rng = np.random.default_rng(seed)
    controls = [
        {"name": "u", "guess": {"type": "expression", "value": "sin(3*t) + 0.3"}, "fixed": True},
        {
            "name": "v",
            "parameters": {"type": "bspline", "count": 6, "carriers": [0.0, 5.0]},
            "bounds": [-1.5, 1.0],
        },
        {"name": "w", "parameters": {"type": "fourier", "count": 3, "redraws": 1}, "shape": "sin2"},
        {"name": "x", "parameters": {"type": "sine", "band": [0.0, 9.0]}},
    ]
    made = deck(controls, optimizer={"type": "lbfgs", "max_sweeps": int(rng.integers(4, 40))})
    made["system"]["target"] = {"gate": "cnot", "on": ["a", "b"]}
    made["run"]["seed"] = seed
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        value = results.scalars["fidelity_continuous"]
        held, leave = results.scalars["fidelity"].value, results.scalars["error_slots"].value
        coefficients = {n: results[f"parameters/{n}/coefficients"] for n in "vwx"}
        frequencies = results["parameters/w/frequencies"]
        offset = results["control_guess/w"]
    loaded = load_deck(made, QocDeck)
    terms = model(loaded.deck.system).controls
    line = Making(loaded.deck, terms, seed).start()[0].lines[2]

    def at(t):
        from scipy.interpolate import BSpline

        knots = np.concatenate([np.zeros(3), np.linspace(0, 2.0, 4), np.full(3, 2.0)])
        splines = BSpline.design_matrix([min(t, 2.0)], knots, 3).toarray()[0]
        v = coefficients["v"].reshape(3, 6) @ splines @ [1.0, np.cos(5 * t), np.sin(5 * t)]
        bound = 1.0 if v >= 0 else 1.5
        v /= (1 + (abs(v) / bound) ** 8) ** 0.125
        phases = frequencies.reshape(-1, 3) * t
        modes = np.concatenate([np.sin(phases), np.cos(phases)], axis=1).ravel()
        first = float(line.first(np.array([t]))[0])
        w = np.sin(np.pi * t / 2.0) ** 2 * (first + coefficients["w"] @ modes)
        n = np.arange(1, coefficients["x"].size + 1)
        return np.sin(3 * t) + 0.3, v, w, coefficients["x"] @ np.sin(np.pi / 2.0 * n * t)

    from scipy.integrate import solve_ivp

    system = model(loaded.deck.system)
    matrices = [system.drift.toarray(), *(c.operator.toarray() for c in system.controls)]

    def slope(t, y):
        h = matrices[0] + sum(f * m for f, m in zip(at(t), matrices[1:], strict=True))
        return (-1j * h @ y.reshape(4, 4)).ravel()

    final = solve_ivp(slope, (0.0, 2.0), np.eye(4, dtype=complex).ravel(), "DOP853", rtol=1e-11, atol=1e-11)
    made_unitary = final.y[:, -1].reshape(4, 4)
    overlap = abs(np.vdot(system.goal.unitary, made_unitary)) ** 2
    truth = (overlap + 4) / 20
    assert offset.shape == (SLOTS,)
    assert abs(value.value - truth) <= value.error + 1e-9
    assert value.error < 1e-5
    assert abs(held - truth) <= leave * 1.000001 + 1e-9


GIVEN = [
    # (formula, slots, breaks of the integration)
    ("0.25*sin(1.3*t) + 40*exp(-((t - 2.7182)/0.011)^2)", 30, [2.7182 + k * 0.011 for k in range(-8, 9)]),
    ("0.1 + 0.35*heaviside(t - 1.2345)*heaviside(6.6 - t)", 16, [1.2345, 6.6]),
    ("0.3*abs(sin(1.7*t + 0.2))", 21, [(k * np.pi - 0.2) / 1.7 for k in range(1, 6)]),
    ("2e4*exp(-((t - 5.4321)/3e-5)^2)", 8, [5.4321 + k * 3e-5 for k in range(-8, 9)]),
]


@pytest.mark.parametrize(("text", "slots", "breaks"), GIVEN)
def test_given_formulas_claim_what_their_slots_leave(tmp_path, text, slots, breaks):
    """Against Runge-Kutta steps of order 8 under the formula itself, with narrow pulses, jumps and kinks."""
    from scipy.integrate import solve_ivp

    made = {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": "q", "type": "qubit", "frequency": 0.8}],
            "controls": {"x": "q.sx"},
            "initial": "0",
            "target": "1",
        },
        "time": {"T": 9.0, "slots": slots},
        "control": [{"name": "x", "guess": {"type": "expression", "value": text}}],
        "optimizer": "none",
    }
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        held, continuous = (results.scalars[n] for n in ("probability", "probability_continuous"))
        purity, slots_leave = results.scalars["purity"], results.scalars["error_slots"].value
    formula = Expression(text, ("t",))
    h0, h1 = np.diag([0.0, 0.8]), np.array([[0.0, 1.0], [1.0, 0.0]])
    y = np.array([1.0, 0.0], complex)
    edges = [0.0, *breaks, 9.0]
    for a, b in itertools.pairwise(edges):
        found = solve_ivp(
            lambda t, y: -1j * ((h0 + float(formula(t=t)) * h1) @ y),
            (np.nextafter(a, b), np.nextafter(b, a)),
            y,
            method="DOP853",
            rtol=1e-12,
            atol=1e-13,
        )
        y = found.y[:, -1]
    truth = abs(y[1]) ** 2
    assert abs(continuous.value - truth) < continuous.error + 1e-10 < 2e-8
    assert abs(held.value - truth) < held.error
    assert 1e-4 < held.error < 3.0 * abs(held.value - truth) + 1e-8
    assert slots_leave == pytest.approx(held.error, abs=1e-10)
    assert abs(purity.value - 1.0) < purity.error


def test_members_of_an_ensemble_claim_what_their_slots_leave(tmp_path):
    """Rabi's formula: a square pulse of area A turns by A whatever its edges, which no slot meets."""
    made = {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": "q", "type": "qubit"}],
            "controls": {"x": "q.sx/2"},
            "initial": "0",
            "target": "1",
        },
        "time": {"T": 5.0, "slots": 7},
        "control": [
            {
                "name": "x",
                "guess": {"type": "expression", "value": "0.7*heaviside(t - 1.1)*heaviside(4.3 - t)"},
            }
        ],
        "ensemble": {"members": [{"scale": {"control": [0.8, 1.0, 1.1]}}], "measure": "mean"},
        "optimizer": "none",
    }
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        value, continuous = (results.scalars[n] for n in ("probability", "probability_continuous"))
    truth = np.mean(np.sin(0.5 * 0.7 * 3.2 * np.array([0.8, 1.0, 1.1])) ** 2)
    assert abs(continuous.value - truth) < continuous.error < 1e-8
    assert 1e-3 < abs(value.value - truth) < value.error


@pytest.mark.parametrize("seed", range(60))
def test_area_bounds_and_modes_are_kept_together(seed):
    """The map of any parameters keeps area and bounds, however hard these act, and its derivative is that of differences."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(8, 90))
    t = (np.arange(count) + 0.5) / count
    shape = np.ones(count) if seed % 3 else np.sin(np.pi * t) ** 2
    modes = None
    if seed % 2:
        n = np.arange(1 + seed % 4, min(count, 3 + seed % 4 + count // 2))
        modes = np.sqrt(2.0 / count) * np.sin(np.pi * np.outer(n, t))
    low, high = -(10.0 ** rng.uniform(-1, 1)), 10.0 ** rng.uniform(-1, 1)
    made = Parametrisation(shape, np.full(count, low), np.full(count, high), 0.0, modes)
    size = min(-low, high) * 10.0 ** rng.uniform(-1, 0.8)
    u, v, g = size * rng.normal(size=made.size), rng.normal(size=made.size), rng.normal(size=count)
    field = made.field(u)
    assert abs(field.sum()) < 1e-11 * np.abs(field).sum()
    assert low <= field.min() < 0 < field.max() <= high
    step = 1e-6 * size * v / np.abs(v).max()
    change = made.field(u + step) - made.field(u - step)
    exact = 2.0 * made.pull_back(u, g) @ step
    assert abs(g @ change - exact) < 1e-5 * np.linalg.norm(g) * np.linalg.norm(change)
    hard = made.field(1e4 * u)
    assert abs(hard.sum()) < 1e-10 * np.abs(hard).sum()


def test_a_band_without_bounds_keeps_its_area_and_its_band():
    """The area is taken from the modes of the band themselves."""
    count = 50
    t = (np.arange(count) + 0.5) / count
    modes = np.sqrt(2.0 / count) * np.sin(np.pi * np.outer(np.arange(3, 12), t))
    free = np.full(count, np.inf)
    made = Parametrisation(np.ones(count), -free, free, 0.0, modes)
    field = made.field(np.random.default_rng(5).normal(size=9))
    assert abs(field.sum()) < 1e-12 * np.abs(field).sum()
    assert np.allclose(modes.T @ (modes @ field), field, atol=1e-12)
    assert max(made.given_way(field).values()) < 1e-12


def test_a_band_that_bounds_break_is_told(tmp_path, caplog):
    """What is clipped has overtones: the run says how much of the field they are."""
    made = deck(
        [
            {
                "name": "u",
                "parameters": {"type": "sine", "band": [0.0, 9.0]},
                "bounds": [-0.2, 0.2],
                "guess": {"type": "expression", "value": "3*sin(2*pi*t/T) + 1"},
                "zero_area": True,
            }
        ],
        optimizer="none",
    )
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        assert any("lies outside of its functions" in record.message for record in caplog.records)
        u = results["control/u"]
    assert abs(u.sum()) < 1e-11 * np.abs(u).sum()


PULSE = {
    "method": "qoc",
    "system": {
        "type": "model",
        "unit": "GHz",
        "parts": [{"name": "q", "type": "transmon", "levels": 5, "frequency": 4.7, "anharmonicity": -0.28}],
        "frame": 4.7,
        "controls": {"x": "q.x/2", "y": "q.y/2"},
        "target": {"gate": "x"},
    },
    "time": {"T": "14 ns", "slots": 280},
    "optimizer": "none",
}


def test_gaussian_and_drag_are_their_formulas(tmp_path):
    """DRAG's quadrature is -u'/Delta with the angular anharmonicity; it takes the leakage of the Gaussian away."""
    width, center, delta = 2.3, 6.4, 2 * np.pi * -0.28
    gaussian = {"type": "gaussian", "width": "2.3 ns", "center": "6.4 ns"}
    drag = gaussian | {"type": "drag", "anharmonicity": "-280 MHz"}
    leakage = {}
    for weight in (0.0, 1.0, 0.5):
        guesses = {"x": gaussian, "y": drag | {"weight": weight}}
        made = PULSE | {"control": [{"name": n, "guess": g} for n, g in guesses.items()]}
        with qsim.run(made, output=tmp_path / f"r{weight}", figures="none") as results:
            leakage[weight] = results.scalars["leakage"].value, results.scalars["fidelity"].value
            t, x, y = results["time"], results["control/x"], results["control/y"]
        bell = np.exp(-((t - center) ** 2) / (2 * width**2))
        # the rotation by pi within 0 to T
        assert 2 * np.pi * x.sum() * 0.05 == pytest.approx(np.pi, rel=1e-4)
        assert np.allclose(x / x.max(), bell / bell.max(), atol=1e-12)
        assert np.allclose(y, weight * (t - center) / width**2 / delta * x, atol=1e-12)
    assert leakage[1.0][0] < 0.2 * leakage[0.0][0]
    assert 1 - leakage[0.5][1] < 0.1 * (1 - leakage[0.0][1])


@pytest.mark.parametrize("frame", [None, 4.7])
def test_a_forgotten_frame_is_told(tmp_path, frame):
    """Slots of 0.1 ns hold two values in a period of the qubit, unless its rotation is taken away."""
    made = PULSE | {"time": {"T": "28 ns", "slots": 280}, "control": [{"name": "x"}, {"name": "y"}]}
    made |= {"optimizer": "lbfgs", "system": PULSE["system"] | {"frame": frame}}
    path = tmp_path / "deck.yaml"
    path.write_text(json.dumps(made))
    told = [item.message for item in examine("qoc", path) if item.key == "time.slots"]
    assert bool(told) == (frame is None)
    assert all("system.frame, such as 4.7 GHz" in text for text in told)


def test_bare_lifetimes_are_told_with_their_unit(tmp_path):
    """50 that was meant as microseconds is 50 ns where frequencies are in GHz."""
    part = PULSE["system"]["parts"][0] | {"T1": 50}
    made = PULSE | {"system": PULSE["system"] | {"parts": [part]}, "optimizer": "lbfgs"}
    made |= {"control": [{"name": "x"}, {"name": "y"}]}
    path = tmp_path / "deck.yaml"
    path.write_text(json.dumps(made))
    told = [item.message for item in examine("qoc", path) if item.key == "objective.threshold"]
    assert ["T1: 50 without a unit is 50 ns" in text for text in told] == [True]


@pytest.mark.parametrize("parameters", [{"type": "slots", "count": 1}, "constant"])
@pytest.mark.parametrize("shape", [None, "sin2"])
def test_a_single_number_without_area_is_zero(tmp_path, caplog, parameters, shape):
    """Rounding of what the area takes away would be all of it, and all of its area."""
    one = {
        "name": "x",
        "parameters": parameters,
        "area": 0,
        "guess": {"type": "expression", "value": "0.0173*(t + 1)"},
    }
    made = PULSE | {"control": [one | ({"shape": shape} if shape else {}), {"name": "y"}]}
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        assert not results["control/x"].any()
    assert "the area is missed" not in caplog.text

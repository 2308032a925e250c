"""Claimed errors against exact evolution: terms that the first spins do not show, echoes, drives, verification, rounding."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.sparse import csr_matrix, identity, kron
from scipy.sparse.linalg import expm_multiply

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, NumericsError
from qsim.core.physics import structure
from qsim.core.run.progress import Monitor
from qsim.trotter.evolution import driven_error as drive
from qsim.trotter.evolution import driven_steps as driven
from qsim.trotter.evolution.accuracy import estimate
from qsim.trotter.evolution.error_pilot import commutes, neighbourhood
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.evolve import run
from qsim.trotter.model.hamiltonian import Hamiltonian, Model
from qsim.trotter.model.profiles import Factor

S = {"x": np.array([[0, 1], [1, 0]]) / 2, "y": np.array([[0, -1j], [1j, 0]]) / 2, "z": np.diag([0.5, -0.5])}
PLUS = {"x": np.array([1, 1]) / math.sqrt(2), "y": np.array([1, 1j]) / math.sqrt(2), "z": np.array([1, 0])}


def spin(a, j, n):
    return csr_matrix(kron(identity(1 << (n - 1 - j)), kron(S[a], identity(1 << j))))


def ising(n, J, closed=False):
    bonds = [(j, (j + 1) % n) for j in range(n if closed else n - 1)]
    return sum(J * spin("z", j, n) @ spin("z", k, n) for j, k in bonds)


def heisenberg(n, J=1.0):
    return sum(J * spin(a, j, n) @ spin(a, j + 1, n) for a in "xyz" for j in range(n - 1))


def polarised(axis, n):
    psi = np.ones(1)
    for _ in range(n):
        psi = np.kron(psi, PLUS[axis])
    return psi.astype(complex)


def warned(trotter, **deck):
    said = []
    monitor = Monitor.silent()
    monitor.warn = said.append
    return trotter.run(monitor=monitor, **deck), said


def distance(result, exact):
    return np.linalg.norm(result.psi - exact)


# ----------------------------------------------------------------------- terms that the first spins do not show


FAR = [
    [{"type": "field", "axis": "y", "values": 1.1, "sites": [12]}],
    [
        {"type": "field", "axis": "y", "values": 1.3, "sites": [11]},
        {"type": "field", "axis": "y", "values": 2e-3, "sites": [0, 1]},
    ],
    [{"type": "pairs", "list": [[11, 12, 3.0, -2.0, 0.5]]}],
]


@pytest.mark.parametrize("terms", FAR, ids=["field", "weak-fields-first", "pair"])
@pytest.mark.parametrize("step", [{"dt": 0.2, "integrator": "ts4"}, {"accuracy": 1e-7, "integrator": "bm6"}])
def test_the_last_spins_count_as_much_as_the_first(trotter, terms, step):
    n, t = 13, 4.0
    H = ising(n, 0.9)
    for term in terms:
        if term["type"] == "field":
            H = H + sum(term["values"] * spin("y", j, n) for j in term["sites"])
        else:
            H = H + sum(
                J * spin(a, 11, n) @ spin(a, 12, n) for a, J in zip("xyz", [3.0, -2.0, 0.5], strict=True)
            )
    result = trotter.run(
        system={"spins": n, "terms": [{"type": "ising", "lattice": "chain", "J": 0.9}, *terms]},
        initial={"type": "polarised", "axis": "x"},
        evolve={"t_final": t, "outputs": 2, **step},
        observe=["state"],
    )
    error = distance(result, expm_multiply(-1j * t * H, polarised("x", n)))
    claimed = result.integration.error
    assert 1e-11 < error < 2.0 * claimed
    assert claimed < 40.0 * error
    assert claimed <= step.get("accuracy", 1.0)


def test_the_pilot_sits_where_terms_do_not_commute():
    n = 20
    J, h = np.zeros((3, n, n)), np.zeros((3, n))
    for j in range(n - 1):
        J[2, j, j + 1] = J[2, j + 1, j] = 1.0
    h[0, 17] = 0.3
    assert neighbourhood(Model(n, J, h), 6) == [14, 15, 16, 17, 18, 19]
    h[0, 4] = 0.01  # far away and weak: only after all that is coupled to the first one
    assert 17 in neighbourhood(Model(n, J, h), 3)


def test_terms_on_different_spins_commute_whatever_their_axes():
    J, h = np.zeros((3, 4, 4)), np.zeros((3, 4))
    J[2, 0, 1] = J[2, 1, 0] = 1.0
    h[0, 2] = h[1, 3] = 0.7
    assert commutes(Model(4, J, h))
    h[0, 1] = 1e-9
    assert not commutes(Model(4, J, h))


def test_the_hardest_realisation_counts(trotter):
    deck = {
        "system": {
            "spins": 4,
            "terms": [
                {"type": "ising", "lattice": "ring"},
                {"type": "field", "axis": "x", "random": {"kind": "normal", "sigma": 1.5, "seed": 3}},
            ],
        },
        "initial": "neel",
        "evolve": {"t_final": 3.0, "outputs": 2, "integrator": "ts2", "dt": 0.05},
    }
    alone = trotter.run(**deck).integration.error
    assert trotter.run(**deck, ensemble={"disorder": 30}).integration.error > 1.2 * alone


# ---------------------------------------------------------------------------------------------- echoes


@pytest.mark.parametrize("scheme", ["overlap", "return"])
@pytest.mark.parametrize("step", [{"dt": 0.5, "integrator": "ts2"}, {"accuracy": 1e-6}])
def test_the_perturbation_of_the_echo_takes_part_in_the_choice_of_the_step(trotter, scheme, step):
    """H alone commutes with itself, so that one step is exact; H + Sigma does not."""
    n, t = 5, 6.0
    result = trotter.run(
        system={"spins": n, "terms": [{"type": "ising", "lattice": "ring", "J": 1.3}]},
        initial={"type": "polarised", "axis": "x"},
        evolve={"t_final": t, "outputs": 2, **step},
        observe=[{"echo": {"sigma": [{"type": "field", "axis": "y", "values": 0.2}], "scheme": scheme}}],
    )
    H, psi = ising(n, 1.3, closed=True), polarised("x", n)
    other = expm_multiply(-1j * t * (H + 0.2 * sum(spin("y", j, n) for j in range(n))), psi)
    exact = abs(np.vdot(other, expm_multiply(-1j * t * H, psi))) ** 2
    off = abs(result.mean["echo"][-1] - exact)
    assert off <= 4.0 * result.integration.error
    assert result.integration.error <= step.get("accuracy", 1.0)
    if "dt" in step:
        assert off > 1e-4  # the step is long


def test_an_expansion_needs_a_constant_way_back(trotter):
    sigma = {"type": "field", "axis": "x", "values": 0.1, "profile": {"type": "cosine", "omega": 2.0}}
    deck = {
        "system": {"spins": 3, "terms": [{"type": "heisenberg", "lattice": "chain"}]},
        "initial": "neel",
        "evolve": {"t_final": 1.0, "accuracy": 1e-6, "integrator": "chebyshev"},
        "observe": [{"echo": {"sigma": [sigma]}}],
    }
    with pytest.raises(DeckError, match="chebyshev expands the evolution under one constant H"):
        trotter.run(**deck)
    deck["evolve"]["integrator"] = "auto"
    assert trotter.run(**deck).integration.method in METHODS


# ------------------------------------------------------------------------------------------ driven systems


def integrated(static, moving, f, psi, stops):
    """Return the state at the last of the stops, at which the integration begins anew."""
    for a, b in pairwise(stops):
        pad = 1e-13 * (b - a)

        def slope(t, y, a=a + pad, b=b - pad):
            return -1j * (static @ y + f(min(max(t, a), b)) * (moving @ y))

        psi = solve_ivp(slope, (a, b), psi, "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    return psi


DRIVES = {
    "chirp": ({"type": "expression", "value": "cos(0.8*t^2)"}, lambda t: math.cos(0.8 * t * t), ()),
    "late ramp": (
        {"type": "ramp", "t0": 6.3, "t1": 7.1, "start": 0.0, "end": 6.0},
        lambda t: 6.0 * min(max((t - 6.3) / 0.8, 0.0), 1.0),
        (6.3, 7.1),
    ),
    "table": (
        {"type": "table", "points": [[1.0, 0.0], [3.07, 2.0], [3.91, -1.0], [7.13, 0.5]]},
        lambda t: float(np.interp(t, [1.0, 3.07, 3.91, 7.13], [0.0, 2.0, -1.0, 0.5])),
        (1.0, 3.07, 3.91, 7.13),
    ),
    "pulse": (
        {"type": "expression", "value": "3*exp(-((t-5.7)/0.05)^2)"},
        lambda t: 3.0 * math.exp(-(((t - 5.7) / 0.05) ** 2)),
        (5.3, 5.7, 6.1),
    ),
    "jump": (
        {"type": "expression", "value": "heaviside(t-5.43)"},
        lambda t: float(t > 5.43),
        (5.43,),
    ),
}


@pytest.mark.parametrize("name", DRIVES)
@pytest.mark.parametrize("step", [{"accuracy": 1e-5, "integrator": "kl8"}, {"dt": 0.15, "integrator": "bm4"}])
def test_the_whole_of_a_drive_is_looked_at(trotter, name, step):
    n, t = 3, 8.0
    profile, f, kinks = DRIVES[name]
    result = trotter.run(
        system={
            "spins": n,
            "terms": [
                {"type": "heisenberg", "lattice": "chain", "J": 1.2},
                {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.1]},
                {"type": "field", "axis": "x", "values": 0.7, "profile": profile},
            ],
        },
        initial="neel",
        evolve={"t_final": t, "outputs": 3, **step},
        observe=["state"],
    )
    H = heisenberg(n, 1.2) + sum(h * spin("z", j, n) for j, h in enumerate([0.3, -0.2, 0.1]))
    X = 0.7 * sum(spin("x", j, n) for j in range(n))
    start = np.zeros(1 << n, complex)
    start[0b010] = 1.0
    exact = integrated(H, X, f, start, [0.0, *kinks, t])
    error, claimed = distance(result, exact), result.integration.error
    assert error < 3.0 * claimed
    assert claimed < 100.0 * max(error, 1e-9)
    assert claimed <= step.get("accuracy", 2.0)


@pytest.mark.parametrize("seed", [4, 5, 6])
def test_the_one_step_that_makes_all_of_the_error_is_not_missed(trotter, seed):
    """Many kinks and few steps: of the parts of steps the longest alone count, and there may be one of them."""
    rng = np.random.default_rng(seed)
    end = 0.4
    times = np.sort(np.append(rng.uniform(0.0, 0.75 * end, 11), 1.3 * end))
    values = np.append(rng.uniform(-0.2, 0.2, 11), 6.0)
    table = {"type": "table", "points": [[float(t), float(v)] for t, v in zip(times, values, strict=True)]}
    result = trotter.run(
        system={
            "spins": 2,
            "terms": [
                {"type": "pairs", "list": [[0, 1, 2.1, -3.3, 0.4]]},
                {"type": "field", "axis": "z", "values": 1.6},
                {"type": "field", "axis": "x", "values": 1.1, "profile": table},
            ],
        },
        initial={"type": "polarised", "axis": "z"},
        evolve={"t_final": end, "outputs": [0.02, 0.11], "dt": 0.13, "integrator": "bm6"},
        observe=["state"],
    )
    H = 2.1 * spin("x", 0, 2) @ spin("x", 1, 2) - 3.3 * spin("y", 0, 2) @ spin("y", 1, 2)
    H = H + 0.4 * spin("z", 0, 2) @ spin("z", 1, 2) + 1.6 * (spin("z", 0, 2) + spin("z", 1, 2))
    X = 1.1 * (spin("x", 0, 2) + spin("x", 1, 2))
    stops = [0.0, *times[times < end].tolist(), end]
    exact = integrated(
        H, X, lambda t: float(np.interp(t, times, values)), np.eye(4)[0].astype(complex), stops
    )
    error, claimed = distance(result, exact), result.integration.error
    assert error < 3.0 * claimed
    assert claimed < 10.0 * max(error, 1e-10)


@pytest.mark.parametrize("method", ["ts2", "bm4", "bm6", "kl8"])
def test_a_step_that_is_cut_at_a_kink_keeps_its_order(method):
    model, field = Model.zero(2), Model.zero(2)
    model.J[:, 0, 1] = model.J[:, 1, 0] = 1.0
    model.h[2] = (0.8, -0.3)
    field.h[0] = 1.0
    hamiltonian = Hamiltonian(model, ((Factor(lambda t: abs(t - 0.737), (0.737,)), field),))
    errors, cut = [], []
    X = spin("x", 0, 2) + spin("x", 1, 2)
    H = heisenberg(2) + 0.8 * spin("z", 0, 2) - 0.3 * spin("z", 1, 2)
    exact = integrated(H, X, lambda t: abs(t - 0.737), np.eye(4)[1].astype(complex), [0.0, 0.737, 2.0])
    for places, found in (((), errors), ((0.737,), cut)):
        for steps in (8, 16):
            evolver = Evolver(cpu(1), hamiltonian.at(0.0), np.eye(4)[1].astype(complex))
            driven.advance(evolver, hamiltonian, method, 2.0 / steps, steps, 0.0, places)
            found.append(np.linalg.norm(evolver.psi - exact))
    order = math.log2(cut[0] / max(cut[1], 1e-13))
    assert order > METHODS[method].order - 1.2 or cut[1] < 1e-9
    if METHODS[method].order > 2:
        assert cut[1] < 0.1 * errors[1]


def test_the_way_back_is_cut_at_the_same_places():
    assert driven.pieces(1.0, 0.5, [0.2, 1.1, 1.3, 1.5]) == [
        (1.0, pytest.approx(0.1)),
        (1.1, pytest.approx(0.2)),
        (1.3, pytest.approx(0.2)),
    ]
    back = driven.pieces(1.5, -0.5, [0.2, 1.1, 1.3, 1.5])
    assert back == [(1.5, pytest.approx(-0.2)), (1.3, pytest.approx(-0.2)), (1.1, pytest.approx(-0.1))]
    assert driven.pieces(0.0, 1.0, [0.5 * driven.NEAR, 1.0 - 0.5 * driven.NEAR]) == [(0.0, 1.0)]
    assert len(driven.pieces(0.0, 1.0, [1e-12, 1.0 - 1e-12])) == 3


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda t: abs(math.cos(t)), [math.pi / 2, 3 * math.pi / 2]),
        (lambda t: float(t > 2.345), [2.345]),
        (lambda t: max(0.0, 1.0 - abs(t - 4.0) / 0.3), [3.7, 4.0, 4.3]),
        (lambda t: math.cos(3.0 * t * t), []),
        (lambda t: math.exp(-(((t - 1.234) / 0.1) ** 2)), []),
        (lambda t: 7.0, []),
    ],
)
def test_kinks_of_a_formula_are_found(f, expected):
    found = [t for t, _ in structure.kinks([Factor(f, None)], 6.0)]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_a_table_says_where_its_kinks_are():
    f = Factor(
        lambda t: float(np.interp(t, [0.0, 1.0, 2.0, 9.0], [0.0, 1.0, 0.0, 0.0])), (0.0, 1.0, 2.0, 9.0)
    )
    assert [t for t, _ in structure.kinks([f], 5.0)] == [1.0, 2.0]
    assert structure.kinks([f], 5.0)[0][1] == pytest.approx(2.0, rel=1e-6)


def test_the_small_system_makes_the_steps_of_the_evolver():
    rng = np.random.default_rng(4)
    static, field = Model.zero(3), Model.zero(3)
    for a in range(3):
        J = np.triu(rng.normal(size=(3, 3)), 1)
        static.J[a] = J + J.T
    field.h[:] = rng.normal(size=(3, 3))
    hamiltonian = Hamiltonian(static, ((math.sin, field),))
    psi = rng.normal(size=8) + 1j * rng.normal(size=8)
    for method in METHODS:
        evolver = Evolver(cpu(1), hamiltonian.at(0.0), psi)
        driven.advance(evolver, hamiltonian, method, 0.13, 1, 0.7)
        found = drive.Small.of(hamiltonian).advance(psi[None], method, np.array([0.7]), np.array([0.13]))
        np.testing.assert_allclose(found[0], evolver.psi, rtol=0, atol=1e-13)


def test_the_middle_of_the_step_makes_ts1_second_order_for_a_field_alone():
    """The commuting part of the error is that of the midpoint rule: dt^2, where the end of the step would leave dt."""
    field = Model.zero(1)
    field.h[2, 0] = 1.0
    hamiltonian = Hamiltonian(Model.zero(1), ((math.exp, field),))
    psi, t, errors = PLUS["x"].astype(complex), 1.5, []
    exact = expm(-1j * (math.exp(t) - 1.0) * S["z"]) @ psi
    for steps in (40, 80):
        evolver = Evolver(cpu(1), hamiltonian.at(0.0), psi)
        driven.advance(evolver, hamiltonian, "ts1", t / steps, steps, 0.0)
        errors.append(np.linalg.norm(evolver.psi - exact))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.02)


# ------------------------------------------------------------------------------------------ verification


def lying(monkeypatch, factor):
    """Claim errors that are too small by a factor."""
    monkeypatch.setattr(run, "estimate", lambda *args, **kwargs: factor * estimate(*args, **kwargs))


VERIFIED = {
    "system": {
        "spins": 4,
        "terms": [
            {"type": "heisenberg", "lattice": "chain", "J": 1.1},
            {
                "type": "field",
                "axis": "x",
                "values": 2.0,
                "profile": {"type": "ramp", "t0": 0.0, "t1": 1.0, "start": 1.0, "end": 0.0},
            },
        ],
    },
    "initial": "neel",
    "evolve": {"t_final": 6.0, "outputs": 4, "integrator": "ts2", "dt": 0.1, "verify": True},
    "observe": ["state"],
}


def test_verification_sees_the_first_interval(monkeypatch, trotter):
    """Nothing but a state that has gone wrong early is left in the last interval."""
    honest, said = warned(trotter, **VERIFIED)
    assert not said
    X = 2.0 * sum(spin("x", j, 4) for j in range(4))
    start = np.zeros(16, complex)
    start[0b1010] = 1.0
    exact = integrated(heisenberg(4, 1.1), X, lambda t: max(1.0 - t, 0.0), start, [0.0, 1.0, 6.0])
    error = distance(honest, exact)
    assert honest.info["verification_error"][0] == pytest.approx(0.75 * error, rel=0.1)
    lying(monkeypatch, 1e-3)
    found, said = warned(trotter, **VERIFIED)
    assert len(said) == 1
    assert "the error of the state is at least about" in said[0]
    assert found.integration.error == pytest.approx(error, rel=0.1)


@pytest.mark.parametrize(("factor", "both"), [(1 / 7, False), (1 / 90, True)])
def test_answers_far_apart_may_both_be_wrong(monkeypatch, trotter, factor, both):
    lying(monkeypatch, factor)
    deck = {**VERIFIED, "evolve": {**VERIFIED["evolve"], "t_final": 3.5, "outputs": 3, "dt": 0.14}}
    _, said = warned(trotter, **deck)
    assert len(said) == 1
    assert "at least about" in said[0]
    assert ("with half the step may be wrong as well" in said[0]) is both


@pytest.mark.parametrize("scheme", ["overlap", "return"])
def test_verification_covers_the_echo(monkeypatch, trotter, scheme):
    deck = {
        "system": {"spins": 4, "terms": [{"type": "ising", "lattice": "ring", "J": 1.3}]},
        "initial": {"type": "polarised", "axis": "x"},
        "evolve": {"t_final": 5.0, "outputs": 3, "integrator": "ts2", "dt": 0.4, "verify": True},
        "observe": [{"echo": {"sigma": [{"type": "field", "axis": "y", "values": 0.5}], "scheme": scheme}}],
    }
    found, said = warned(trotter, **deck)
    assert not said
    assert found.info["verification_echo_error"][0] > 1e-3
    lying(monkeypatch, 1e-4)
    _, said = warned(trotter, **deck)
    assert len(said) == 1
    assert "an echo changes by" in said[0]


@pytest.mark.parametrize("integrator", ["chebyshev", "ts1"])
def test_what_has_no_step_or_does_not_undo_it_is_verified_too(trotter, integrator):
    step = {"accuracy": 1e-9} if integrator == "chebyshev" else {"dt": 0.01}
    evolve = {"t_final": 2.0, "outputs": 3, "integrator": integrator, "verify": True, **step}
    system = {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "ring"}]}
    found, said = warned(trotter, system=system, initial="neel", evolve=evolve)
    assert not said
    assert found.info["verification_error"][0] <= found.integration.error


def test_an_ensemble_is_verified_by_its_last_member(trotter):
    deck = {
        "system": {
            "spins": 3,
            "terms": [
                {"type": "heisenberg", "lattice": "chain"},
                {"type": "field", "random": {"kind": "box", "W": 2.0}},
            ],
        },
        "initial": "neel",
        "evolve": {"t_final": 2.0, "outputs": 3, "integrator": "ts4", "dt": 0.2, "verify": True},
        "ensemble": {"disorder": 3},
        "observe": ["echo"],
    }
    found, said = warned(trotter, **deck)
    assert not said
    assert 0.0 < found.info["verification_error"][0] < found.integration.error
    assert found.info["verification_echo_error"][0] < 1e-13


def test_a_step_that_is_far_too_long_is_warned_of(trotter):
    deck = {
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 0.9}]},
        "initial": "neel",
        "evolve": {"t_final": 40.0, "outputs": 2, "integrator": "ts1", "dt": 0.4},
    }
    assert any("the error of the state is estimated at" in text for text in warned(trotter, **deck)[1])
    deck["evolve"]["integrator"] = "bm6"
    assert not warned(trotter, **deck)[1]


# --------------------------------------------------------------------------------- imbalance, rounding


def test_an_imbalance_needs_a_pattern(trotter):
    deck = {
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "chain"}]},
        "initial": {"type": "polarised", "axis": "-y"},
        "evolve": {"t_final": 1.0, "outputs": 2, "accuracy": 1e-6},
        "observe": ["imbalance"],
    }
    with pytest.raises(DeckError, match="all spins are along -y at t = 0"):
        trotter.run(**deck)
    deck["initial"] = {"type": "product", "theta": math.pi / 2, "phi": [0.0, 1.0, 2.0, 3.0]}
    with pytest.raises(NumericsError, match="a pattern below 1e-12 is rounding"):
        trotter.run(**deck)
    deck["initial"]["theta"] = 1.57
    assert trotter.run(**deck).mean["imbalance"][0] == pytest.approx(1.0)


@pytest.mark.parametrize(("n", "dt"), [(3, 0.002), (7, 0.005), (9, 0.01)])
def test_rounding_adds_up_linearly_over_the_layers(trotter, n, dt):
    """The splitting error of kl8 is below 1e-20 a step here."""
    steps = 1500
    result = trotter.run(
        system={
            "spins": n,
            "terms": [
                {"type": "xyz", "lattice": "chain", "Jx": 1.0, "Jy": 0.7, "Jz": -0.4},
                {"type": "field", "axis": "x", "values": 0.3},
            ],
        },
        initial={"type": "random_phase", "seed": 2},
        evolve={"t_final": dt * steps, "outputs": 2, "integrator": "kl8", "dt": dt},
        observe=["state"],
    )
    H = sum(
        J * spin(a, j, n) @ spin(a, j + 1, n)
        for a, J in zip("xyz", [1.0, 0.7, -0.4], strict=True)
        for j in range(n - 1)
    )
    H = H + 0.3 * sum(spin("x", j, n) for j in range(n))
    energies, vectors = np.linalg.eigh(H.toarray())
    start = trotter.run(
        system={"spins": n, "terms": [{"type": "field"} | {"values": 1.0}]},
        initial={"type": "random_phase", "seed": 2},
        evolve={"t_final": 0.0, "integrator": "ts2", "dt": 1.0},
        observe=["state"],
    ).psi
    exact = vectors @ (np.exp(-1j * energies * dt * steps) * (vectors.conj().T @ start))
    error, claimed = distance(result, exact), result.integration.error
    assert 3e-13 < error < 1.5 * claimed
    assert claimed < 12.0 * error

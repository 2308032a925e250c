"""Response of bound states: operators, first-order functions, sums, limits, and the deck, against independent computations."""

import math
import shutil

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, InvalidInput
from qsim.sturmian.deck.symmetry import exchange_sign, pairs
from qsim.sturmian.driven.sources import dipole, multipole, reduced_tensor, tensor
from qsim.sturmian.radial.grid import RadialGrid, element_bounds
from qsim.sturmian.radial.sturmians import orbitals
from qsim.sturmian.response import numbers
from qsim.sturmian.response.others import others
from qsim.sturmian.response.run import Responses
from qsim.sturmian.response.sectors import Level, lower_levels, reached
from qsim.sturmian.response.solutions import Reached
from qsim.sturmian.two_electron.angular import wigner_3j
from qsim.sturmian.two_electron.davidson import lowest
from qsim.sturmian.two_electron.extrapolation import response_limit
from qsim.sturmian.two_electron.hamiltonian import TwoElectron
from qsim.sturmian.two_electron.linear import Response, Space
from qsim_checks.sturmian.perimetric import response as hylleraas
from tests.changes import REMOVE, change
from tests.decks import Decks

HELIUM = {
    "system": {"Z": 2},
    "basis": {"type": "gsf", "generating": "yukawa", "energy": "auto", "N": 20},
    "channels": {"l_max": 3},
    "task": {"type": "response", "observables": ["polarisability"]},
}
EXCITED = [{"L": 0, "S": 1}, {"L": 1, "S": 1}]


# ------------------------------------------------------------------------------------------ operators


@given(
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 4),
    st.integers(0, 4),
)
def test_reduced_elements_are_those_of_any_projection(k, L, Lp, la, lb, lap):
    """The Wigner-Eckart theorem at M = 0, where the elements of the driven sources are known."""
    if not (abs(la - lb) <= L <= la + lb and abs(lap - lb) <= Lp <= lap + lb):
        return
    bra, ket = (lap, lb, Lp), (la, lb, L)
    expected = (-1) ** Lp * wigner_3j(Lp, k, L, 0, 0, 0) * reduced_tensor(k, bra, ket)
    assert tensor(k, bra, ket) == pytest.approx(expected, abs=1e-14)


class TwoHydrogens:
    """Two electrons that do not repel each other, in a large grid."""

    def __init__(self, Z, l_max=2):
        self.grid = RadialGrid(element_bounds(40.0 / Z, Z), 12)
        self.orbitals = {l: orbitals(self.grid, l, -Z / self.grid.r, None) for l in range(l_max + 1)}
        self.device, self.Z = cpu(1), Z

    def operator(self, L, S, parity, l_max):
        stored = pairs(L, l_max, parity=parity)
        operator = TwoElectron(self.device, self.grid, self.orbitals, L, S, stored)
        operator._G[:] = 0.0
        return operator

    def ground(self):
        """Energy, operator and ordered components of 1s^2."""
        operator = self.operator(0, 0, "even", 0)
        found = lowest(operator, 1)
        stored = operator.on_grid(found.vectors)[0]
        return float(found.values[0]), {(0, 0): stored[0]}


@pytest.mark.parametrize(("k", "exact"), [(1, 4.5), (2, 15.0)])
@pytest.mark.parametrize("Z", [1.0, 3.0])
def test_two_hydrogens_have_twice_the_polarisability_of_one(k, exact, Z):
    """4.5/Z^4 and 15/Z^6 of one electron, two independent electrons have twice as much."""
    atoms = TwoHydrogens(Z)
    energy, state = atoms.ground()
    operator = atoms.operator(k, 0, "odd" if k % 2 else "even", k)
    source = multipole(atoms.grid, operator.pairs, k, state, 0, k, "length", Z).real
    space = Space(operator, energy)
    s = operator.symmetrise(operator.project(source[None]))[0]
    found, _ = space.solve(s, [0.0], tolerance=1e-7)
    alpha = 2.0 / (2 * k + 1) * found.resolvent(0.0).real
    assert alpha == pytest.approx(2.0 * exact / Z ** (2 * k + 2), rel=1e-7)


def test_gauges_and_sums_of_two_hydrogens():
    """Lyman alpha, 0.416197 by all three gauges, and the sums of one electron by closure."""
    Z = 2.0
    atoms = TwoHydrogens(Z)
    energy, state = atoms.ground()
    operator = atoms.operator(1, 0, "odd", 1)
    upper = lowest(operator, 1)
    dE = float(upper.values[0]) - energy
    assert dE == pytest.approx(0.375 * Z**2, rel=1e-9)
    norms = {}
    for power, gauge in ((0, "length"), (2, "velocity"), (4, "acceleration")):
        source = multipole(atoms.grid, operator.pairs, 1, state, 0, 1, gauge, Z).real
        s = operator.project(source[None])[0]
        f = 2.0 / 3.0 * dE * float(np.sum(upper.vectors[0] * s)) ** 2 / dE**power
        assert f == pytest.approx(2 * 2**13 / 3**9, rel=1e-8)
        norms[gauge] = 2.0 / 3.0 * np.sum(source**2)
    # <r^2> = 3/Z^2 and <p^2> = Z^2 of each electron
    assert norms["length"] == pytest.approx(2.0 / 3.0 * 2 * 3.0 / Z**2, rel=1e-9)
    assert norms["velocity"] == pytest.approx(2.0 / 3.0 * 2 * Z**2, rel=1e-8)
    assert numbers.density_at_nucleus(atoms.grid, state) == pytest.approx(2.0 * Z**3 / math.pi, rel=1e-8)


# ------------------------------------------------------------------------------ first-order functions


@pytest.fixture(scope="module")
def small():
    """A coarse grid with S, P and D sectors of both spins and parities."""
    grid = RadialGrid(element_bounds(7.0, 2.0, elements=3), 5)
    functions = {l: orbitals(grid, l, -2.0 / grid.r, None) for l in range(4)}
    return grid, functions


def _operator(small, L, S, parity, l_max):
    return TwoElectron(cpu(1), *small, L, S, pairs(L, l_max, parity=parity))


def _dense(operator):
    """All eigenvalues and vectors of the right exchange symmetry, by LAPACK."""
    P, M, _ = operator.shape
    unit = operator.symmetrise(np.eye(P * M * M).reshape(-1, P, M, M)).reshape(-1, P * M * M)
    size, turn = np.linalg.eigh(unit)
    kept = turn[:, size > 0.5]
    H = kept.T @ operator.apply(np.ascontiguousarray(kept.T).reshape(-1, P, M, M)).reshape(-1, P * M * M).T
    values, vectors = np.linalg.eigh(0.5 * (H + H.T))
    return values, (kept @ vectors).T.reshape(-1, P, M, M)


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from([(0, 0), (0, 1), (1, 0), (1, 1)]),
    st.floats(0.0, 0.5),
    st.floats(0.02, 20.0),
    st.integers(0, 2**31),
)
def test_first_order_functions_are_the_sum_over_all_states(small, symmetry, omega, imaginary, seed):
    """Real frequencies on both sides of levels, and imaginary ones, of a source that reaches every state."""
    L, S = symmetry
    operator = _operator(small, L, S, "odd" if L else "even", 1)
    values, vectors = _dense(operator)
    source = np.random.default_rng(seed).standard_normal((1, *operator.shape))
    source = operator.symmetrise(source)[0]
    energy = values[0] - 0.3
    # away from the levels, where the answer is not a number
    omega += next(x for x in np.arange(0.0, 1.0, 0.013) if np.abs(values - energy - omega - x).min() > 4e-3)
    found, _ = Space(operator, energy).solve(source, [omega, -omega, 1j * imaginary], tolerance=1e-7)
    strength = np.sum(vectors * source, axis=(1, 2, 3)) ** 2
    for z in (omega, -omega, 1j * imaginary):
        exact = np.sum(strength / (values - energy - z))
        assert abs(found.resolvent(z) - exact) < 1e-8 * np.sum(strength / np.abs(values - energy - z))


def test_a_state_is_left_out_of_its_own_sector(small):
    operator = _operator(small, 0, 0, "even", 1)
    values, vectors = _dense(operator)
    source = operator.symmetrise(np.random.default_rng(3).standard_normal((1, *operator.shape)))[0]
    found, _ = Space(operator, values[0], vectors[0]).solve(source, [0.0], tolerance=1e-8)
    strength = np.sum(vectors[1:] * source, axis=(1, 2, 3)) ** 2
    assert found.resolvent(0.0) == pytest.approx(np.sum(strength / (values[1:] - values[0])), rel=1e-9)


def test_scalar_and_tensor_part_of_a_p_state_are_the_polarisability_of_m_zero(small):
    """At M = 0 the sources of collisions give it without reduced elements, and without the sector of unnatural parity."""
    operator = _operator(small, 1, 1, "odd", 2)
    values, vectors = _dense(operator)
    stored = operator.on_grid(vectors[:1])[0]
    state = {}
    for (a, b), part in zip(operator.pairs, stored, strict=False):
        state[a, b] = part * (1.0 if a == b else math.sqrt(0.5))
        if a != b:
            state[b, a] = exchange_sign(a, b, 1, 1) * state[a, b].T
    grid, level, made, direct = small[0], Level(1, 1, "odd", 0), [], 0.0
    for L, parity in reached(level, 1):
        final = _operator(small, L, 1, parity, 3)
        energies, states = _dense(final)
        dE = energies - values[0]
        reduced = multipole(grid, final.pairs, L, state, 1, 1, "length", 2.0).real
        elements = np.sum(states * final.project(reduced[None])[0], axis=(1, 2, 3))
        made.append((L, float(np.sum(2.0 * elements**2 / dE))))
        if parity == "even" and L != 1:
            at_zero = dipole(grid, final.pairs, L, state, 1, "length", 1.0, 2.0).real
            direct += np.sum(2.0 * np.sum(states * final.project(at_zero[None])[0], axis=(1, 2, 3)) ** 2 / dE)
    assert [L for L, _ in made] == [0, 1, 2]
    scalar, part = numbers.scalar_part(level, 1, made), numbers.tensor_part(level, 1, made)
    # (3 M^2 - L (L + 1))/(L (2L - 1)) is -2 for L = 1, M = 0
    assert scalar - 2.0 * part == pytest.approx(direct, rel=1e-10)


def test_dispersion_is_the_integral_over_pairs_of_oscillators():
    """London's formula, 3/2 f f'/(w w' (w + w')) of each pair."""
    dE, b = np.array([0.3, 1.1]), np.array([0.7, 0.4])

    class Oscillators:
        levels, strengths = dE, b

    one = [Reached(1, Oscillators, None, (0.0, 0.0, 0.0), (0.0, 0.0))]
    f = 2.0 / 3.0 * dE * b**2
    exact = 1.5 * np.sum(np.outer(f, f) / (np.outer(dE, dE) * np.add.outer(dE, dE)))
    assert numbers.dispersion(one, one, 0.5) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("velocity", [False, True])
def test_a_field_meets_an_oscillator_with_both_frequencies(velocity):
    """2 dE b^2/(dE^2 - omega^2) of an oscillator, for real frequencies."""
    lengths, velocities = (
        Response(np.array([dE]), np.array([b]), 0.0, 1) for dE, b in ((0.3, 0.7), (1.1, 0.4))
    )
    dE, b = (1.1, 0.4) if velocity else (0.3, 0.7)
    made = numbers.fields([Reached(1, lengths, velocities, (0.0, 0.0, 0.0), (0.0, 0.0))], velocity, 0.2)
    assert made == [(1, pytest.approx(2.0 * dE * b**2 / (dE**2 - 0.2**2), rel=1e-14))]


# --------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize("S", [0, 1])
@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_limits_of_tails_that_fall_as_expected(S, shift):
    from scipy.special import zeta

    p = 6 if S else 4
    l_max = np.arange(2, 6)
    values = 1.0 + 0.3 * zeta(p, l_max + 1.5 + shift) - 0.1 * zeta(p + 1, l_max + 1.5 + shift)
    limit, error = response_limit(l_max, values, S=S)
    assert abs(limit - 1.0) < error < 0.2 * abs(values[-1] - 1.0)


def test_a_limit_needs_three_points():
    with pytest.raises(ValueError, match="three or more"):
        response_limit([1, 2], [1.0, 1.1], S=0)


def test_levels_below_a_level():
    """2 1P decays to 1 1S and 2 1S, 3 3S to 2 3P and not to 3 3P, which its energy tells; 2 3P to 2 3S alone."""
    assert lower_levels(Level(1, 0, "odd", 0))[:2] == [Level(0, 0, "even", 0), Level(0, 0, "even", 1)]
    assert lower_levels(Level(0, 1, "even", 1)) == [Level(1, 1, "odd", 0), Level(1, 1, "odd", 1)]
    assert lower_levels(Level(1, 1, "odd", 0)) == [Level(0, 1, "even", 0)]
    assert lower_levels(Level(1, 1, "even", 0)) == []


# ------------------------------------------------------------------------------------------- the deck


@pytest.mark.parametrize(
    ("state", "label"),
    [
        ((0, 0, "even", 0), "1s_1S"),
        ((0, 1, "even", 1), "3s_3S"),
        ((1, 0, "odd", 0), "2p_1P"),
        ((2, 1, "even", 1), "4d_3D"),
        ((1, 1, "even", 0), "3Pe_1"),
    ],
)
def test_numbers_are_called_by_terms(state, label):
    """With the orbital of the outer electron where the other one is in 1s."""
    assert Level(*state).label == label


@pytest.mark.parametrize("rows", [12, 19])
def test_a_response_holds_what_a_table_leaves_open(sturmian, tmp_path, rows):
    """A screened nucleus as a formula, and its values at some radii: every number is within its errors, and these grow."""
    r = np.geomspace(0.01, 9.0, rows)
    V = -(1.5 + 1.5 * np.exp(-0.8 * np.clip(r, r[0], r[-1]))) / r
    np.savetxt(tmp_path / "V.csv", np.stack([r, V], axis=1), delimiter=",", header="r,V", fmt="%.15e")
    deck = {
        "system": {"Z": 3},
        "grid": {"R": 14, "order": 8},
        "basis": {"type": "gsf", "generating": "yukawa", "energy": "auto", "N": 12},
        "states": [{"L": 0, "S": 0}],
        "channels": {"l_max": 0},
        "extrapolate": {"l_max": [0, 1, 2]},
        "task": {"type": "response", "observables": ["polarisability", "c6", "sum_rules"]},
    }
    inner = "-(1.5 + 1.5*exp(-0.8*r))/r"
    limits = [
        sturmian.run(**change(deck, {"system__potential": potential})).limits
        for potential in (
            {"type": "table", "file": str(tmp_path / "V.csv")},
            {"type": "expression", "value": inner, "charge": 1.5},
        )
    ]
    for name in ("energy", "alpha", "c6", "closure"):
        (found, error), (known, other) = limits[0][name], limits[1][name]
        there = np.isfinite(known)
        assert np.all(np.abs(found - known)[there] < (error + other)[there]), name
        # S(0) is the number of electrons in any potential
        assert np.all(error[there] >= other[there]), name
        assert np.any(error[there] > other[there]), name


def test_helium_in_two_gauges(sturmian):
    """Ground state: functions of perimetric coordinates, with all partial waves; claimed errors hold and are small."""
    observables = ["polarisability", "c6", "sum_rules"]
    deck = change(HELIUM, {"task__observables": observables, "task__omega": [0.0, 0.2], "channels__l_max": 4})
    result, exact = sturmian.run(**deck), hylleraas(2.0, 0, False, 5, 20)
    alpha = result.limits["alpha"]
    for w, omega in enumerate((0.0, 0.2)):
        found, error = alpha.values[0, 0, w], alpha.errors[0, 0, w]
        assert np.all(np.abs(found - exact.alpha(0, omega)) < error + 1e-5)
        assert np.all(error < 1e-3 * found)
    assert result.limits["c6"].values[0] == pytest.approx(1.4609778, abs=result.limits["c6"].errors[0])
    closure = result.limits["closure"]
    for place, value in ((1, exact.closure(0)[0]), (3, exact.closure(0)[1])):
        assert abs(closure.values[0, place] - value) < closure.errors[0, place] + 1e-5
    # 4 pi/3 Z <delta(r1) + delta(r2)> = 30.33: Drake's 1.810429318 for one electron
    assert closure.values[0, 4] == pytest.approx(8.0 * math.pi / 3.0 * 2.0 * 1.810429318, rel=3e-3)


def test_metastable_helium(sturmian):
    """f of 2 3S - 2 3P and the polarisability of 2 3S; the lifetime of 2 3P is that of its only line."""
    observables = ["oscillator_strengths", "lifetimes", "polarisability"]
    deck = change(HELIUM, {"states": EXCITED, "channels__l_max": 2, "task__observables": observables})
    result = sturmian.run(**deck)
    f = result.limits["f"]
    assert np.all(np.abs(f.values[0, 1] - 0.5390861) < f.errors[0, 1])
    assert np.all(f.errors[0, 1] < 3e-3)
    # absorption and emission: the same strength, other weights
    np.testing.assert_allclose(3.0 * f.values[1, 0], -f.values[0, 1], rtol=1e-3)
    alpha = result.limits["alpha"]
    assert np.all(np.abs(alpha.values[0, 0, 0] - 315.6314) < alpha.errors[0, 0, 0])
    lifetime, error = result.lifetimes()
    assert math.isnan(lifetime[0])
    # A = 1.0216e7/s: Drake, Springer Handbook of Atomic, Molecular, and Optical Physics (2006), ch. 11
    assert 1e9 / lifetime[1] == pytest.approx(1.0216e7, rel=1e-3)
    assert 0.0 < error[1] < 3e-3 * lifetime[1]


def test_two_electrons_in_an_oscillator_move_as_one(sturmian):
    """Kohn's theorem: whatever their repulsion, light moves both at omega alone; f = 2, alpha = 2/(omega^2 - w^2)."""
    omega, w = 0.5, 0.2
    deck = {
        "system": {"Z": 1, "potential": {"type": "expression", "value": f"0.5*({omega}*r)^2"}},
        "grid": {"R": 11, "order": 9, "elements": 3},
        "basis": "fedvr",
        "states": [{"L": 0}, {"L": 1}],
        "extrapolate": {"l_max": [1, 2, 3]},
        "task": {
            "type": "response",
            "observables": ["oscillator_strengths", "polarisability", "sum_rules"],
            "omega": [0.0, w],
        },
    }
    result = sturmian.run(**deck)
    f, alpha = result.limits["f"], result.limits["alpha"]
    assert np.all(np.abs(f.values[0, 1] - 2.0) < f.errors[0, 1])
    exact = 2.0 / (omega**2 - np.array([0.0, w]) ** 2)
    assert np.all(np.abs(alpha.values[0, 0] - exact[:, None]) < alpha.errors[0, 0])
    np.testing.assert_allclose(alpha.values[0, 0, :, 0], exact, rtol=3e-3)


@pytest.mark.gpu
def test_a_gpu_finds_the_same_response(sturmian):
    observables = ["oscillator_strengths", "polarisability", "c6", "sum_rules"]
    changes = {
        "states": EXCITED,
        "channels__l_max": 2,
        "task__observables": observables,
        "task__multipoles": [1, 2],
    }
    deck = change(HELIUM, changes)
    summaries = [
        sturmian.execute(options={"force": True, "device": name}, **deck) for name in ("cpu", "cuda")
    ]
    for name in ("f_0_1", "alpha1_0", "alpha2_1", "alpha1_tensor_1", "c6_0_0", "sum_1_0"):
        values = [summary["scalars"][summary["aliases"][name]]["value"] for summary in summaries]
        assert values[1] == pytest.approx(values[0], rel=1e-7)


def test_a_stop_between_solutions_changes_no_bit(sturmian):
    problem = sturmian.build(**change(HELIUM, {"basis__N": 8, "channels__l_max": 0}))
    whole, first, states = Responses(problem), Responses(problem), []
    whole.advance(lambda progress: None)

    def report(progress):
        if progress.done == 2:
            states.append(first.state())

    first.advance(report)
    again = Responses(problem, states[0])
    again.advance(lambda progress: None)
    for name, limit in whole.result().limits.items():
        np.testing.assert_array_equal(again.result().limits[name].values, limit.values)
    np.testing.assert_array_equal(again.result().curves[0].alpha, whole.result().curves[0].alpha)


ERRORS = {
    "pairs": ({"channels": {"pairs": [[0, 0]]}}, "channels.pairs: a response needs all pairs"),
    "scan": ({"scan": {"N": [8, 12]}}, "scan: this block belongs to task: bound"),
    "dense": ({"solver": "dense"}, "solver.type: first-order functions"),
    "duplicate gauge": ({"task__gauges": ["length", "length"]}, "task.gauges.1: length is a duplicate"),
    "duplicate omega": ({"task__omega": [0.1, 0.1]}, "task.omega.1: 0.1 is a duplicate"),
    "octupole": ({"task__multipoles": [3]}, "task.multipoles.*found 3"),
    "omega alone": ({"task__observables": ["c6"], "task__omega": 0.1}, r"task.omega: frequencies belong to .*polarisability"),
    "one state has no transitions": (
        {"task__observables": ["oscillator_strengths"]}, "task.observables: transitions need two states"
    ),
    "metastable": ({"task__observables": ["lifetimes"]}, "task.observables: no state of the deck decays by electric dipole"),
    "partners alone": ({"task__partners": [[0, 0]]}, r"task.partners: partners belong to observables: \[c6\]"),
    "no such partner": (
        {"task__observables": ["c6"], "task__partners": [[0, 1]]}, "task.partners.0: state 1 is not there: the deck has 1"
    ),
    "other atoms alone": (
        {"task__observables": ["sum_rules"], "task__with": __file__}, r"task.with: other atoms belong to observables: \[c6\]"
    ),
    "a file that is none": (
        {"task__observables": ["c6"], "task__with": __file__}, "test_response.py"
    ),
    "c6 of a P state": (
        {"states": EXCITED, "task__observables": ["c6"], "task__partners": [[1, 1]]},
        "task.partners.0: with L = 1 the force depends on the direction",
    ),
    "c6 of a state that decays": (
        {"states": [{"L": 0, "S": 0, "root": 2}], "task__observables": ["c6"]}, "task.observables: no state of the deck has a C6"
    ),
    "unnatural parity": ({"states": [{"L": 1, "S": 1, "parity": "even"}]}, "states.0: a state without an electron in 1s"),
    "no S state is odd": ({"states": [{"L": 0, "parity": "odd"}]}, "states: no pair .* of odd parity couples to L = 0"),
    "acceleration in a formula": (
        {"system__potential": {"type": "expression", "value": "-2/r"}, "task__gauges": ["length", "acceleration"]},
        "task.gauges: the acceleration is that in the field -Z/r",
    ),
    "disorder": ({"extrapolate": {"l_max": [2, 1, 3]}}, "extrapolate.l_max.1: values must ascend, but 1 follows 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes(sturmian, name):
    changes, message = ERRORS[name]
    with pytest.raises(DeckError, match=message):
        sturmian.load(**change(HELIUM, changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"task__omega": [0.0, 1.2]},
            r"task.omega.1: 1.2 hartree ionises 1\^1S, whose ionisation energy is 0.87",
        ),
        ({"states": EXCITED, "task__omega": 0.0421}, r"task.omega: omega is on the level 2\^3P \(\+0.0420"),
    ],
)
def test_frequencies_without_a_polarisability(sturmian, changes, message):
    small = {"basis__N": 14, "channels__l_max": 0, "extrapolate": {"l_max": [0, 1, 2]}, "channels": REMOVE}
    small.pop("channels__l_max")
    with pytest.raises(DeckError, match=message):
        sturmian.run(**change(HELIUM, {**small, **changes}))


def test_the_basis_follows_the_response_near_a_level(sturmian):
    """An automatic basis decays like the response, so that alpha holds its error where it is large (2^1P lies at 0.7799)."""
    small = {"grid": {"R": 24, "order": 10}, "basis": {"type": "gsf", "N": 16}}
    task = {"type": "response", "observables": ["polarisability"], "omega": [0.0, 0.75]}
    result = sturmian.run(**{"system": {"Z": 2}, **small, "channels": {"l_max": 1}, "task": task})
    alpha, exact = result.limits["alpha"], hylleraas(2.0, 0, False, 5, 20)
    error = alpha.errors[0, 0, 1, 0]
    assert error < 0.8
    assert abs(alpha.values[0, 0, 1, 0] - exact.alpha(0, 0.75)) < error


def test_two_different_atoms(sturmian):
    """C6 of helium and the lithium ion from two decks, in either order, beside functions with all partial waves."""
    small = {
        "basis__N": 12,
        "channels": REMOVE,
        "extrapolate": {"l_max": [0, 1, 2]},
        "task__observables": ["c6"],
    }
    helium = change(HELIUM, small)
    lithium = change(helium, {"system__Z": 3})
    sturmian.execute("helium", **helium)
    sturmian.execute("lithium", **lithium)
    first = sturmian.run(**change(lithium, {"task__with": [str(sturmian.folder / "helium.h5")]}))
    second = sturmian.run(**change(helium, {"task__with": str(sturmian.folder / "lithium.h5")}))
    assert first.problem.others[0].name == "1^1S of helium.h5"
    a, b = (hylleraas(Z, 0, False, 5, 20) for Z in (2.0, 3.0))
    (x, f), (y, g) = ((atom.P.states[0] - atom.energy(0, 0), atom.elements[:, 0]) for atom in (a, b))
    f, g = 2.0 * x * f**2, 2.0 * y * g**2
    exact = 1.5 * float(np.sum(np.outer(f, g) / (np.outer(x, y) * np.add.outer(x, y))))
    for result in (first, second):
        value, error = (float(part[0, 0]) for part in result.limits["c6_with"])
        assert abs(value - exact) < error < 0.02 * exact
        # neither deck knows more of the pair than of its own atom
        assert error / value > 0.3 * result.limits["c6"].errors[0] / result.limits["c6"].values[0]


@pytest.mark.parametrize(
    ("text", "omega"),
    [("633 nm", 0.0719798), ("1.55 um", 0.0293957), ("1.958689 eV", 0.0719805), (0.07, 0.07)],
)
def test_a_frequency_is_an_energy_or_a_wavelength(sturmian, text, omega):
    """hc is 45.5633525 nm hartree (CODATA 2022)."""
    task = sturmian.load(**change(HELIUM, {"task__omega": [0.0, text]})).deck.task
    assert task.frequencies[1] == pytest.approx(omega, rel=2e-5)


@pytest.mark.parametrize("text", ["0 nm", "-532 nm", "532 fs", "532 nanometre"])
def test_a_wavelength_that_is_none_is_refused(sturmian, text):
    sturmian.refuses("task.omega", **change(HELIUM, {"task__omega": [text]}))


@pytest.fixture(scope="module")
def an_atom(tmp_path_factory):
    """Results of a small helium deck with C6."""
    folder = tmp_path_factory.mktemp("atom")
    small = {
        "basis__N": 8,
        "channels": REMOVE,
        "extrapolate": {"l_max": [0, 1, 2]},
        "task__observables": ["c6"],
    }
    Decks("sturmian", folder).execute("atom", **change(HELIUM, small))
    return folder / "atom.h5"


# Dataset, what happens to it, and what is told.
DAMAGES = {
    "a short array": ("alpha_imaginary", lambda a: a[:, :-3], r"has the shape \(1, \d+\), but"),
    "errors of other states": (
        "alpha_imaginary_error",
        lambda a: np.concatenate([a, a]),
        r"has the shape \(2, ",
    ),
    "not a number": ("alpha_imaginary", lambda a: np.where(a == a.max(), np.nan, a), "not finite"),
    "infinite": ("alpha_imaginary", lambda a: a + np.inf, "not finite"),
    "a negative one": ("alpha_imaginary", lambda a: np.where(a == a.min(), -a, a), "must be positive"),
    "all of them negative": ("alpha_imaginary", lambda a: -a, "must be positive"),
    "zero": ("alpha_imaginary", lambda a: 0.0 * a, "must be positive"),
    "one that grows": (
        "alpha_imaginary",
        lambda a: a[:, ::-1],
        "must be positive and fall with the frequency",
    ),
    "too large": ("alpha_imaginary", lambda a: 1.7 * a, "what 2 electrons have"),
    "negative errors": ("alpha_imaginary_error", lambda a: -a, "negative or infinite"),
    "other frequencies": ("omega_imaginary", lambda a: 2.0 * a, "holds other frequencies"),
    "fewer frequencies": ("omega_imaginary", lambda a: a[1:], r"has the shape"),
    "no such state": ("partners", lambda a: a + 7, "does not name some of its 1 states"),
    "words": ("alpha_imaginary", lambda a: np.full(a.shape, b"x"), "holds no real numbers"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_other_atoms_that_no_atom_is_are_refused(name, an_atom, tmp_path):
    """Every array of the file of another atom is looked at; the message names file and dataset."""
    key, damage, message = DAMAGES[name]
    path = tmp_path / "other.h5"
    shutil.copy(an_atom, path)
    with h5py.File(path, "r+") as file:
        old = file["results"][key]
        values, attributes = damage(old[...]), dict(old.attrs)
        del file["results"][key]
        made = file["results"].create_dataset(key, data=values)
        for word, value in attributes.items():
            made.attrs[word] = value
    with pytest.raises(InvalidInput, match=message) as error:
        others([path])
    assert "other.h5" in str(error.value)
    assert key in str(error.value)


def test_another_atom_of_unknown_errors_is_taken(an_atom, tmp_path):
    path = tmp_path / "other.h5"
    shutil.copy(an_atom, path)
    with h5py.File(path, "r+") as file:
        file["results/alpha_imaginary_error"][...] = np.nan
    (one,) = others([path])
    assert np.all(np.isnan(one.error))
    assert np.all(one.alpha > 0.0)

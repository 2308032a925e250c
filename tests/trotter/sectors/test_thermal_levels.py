"""Thermal averages and level statistics against dense matrices, and that claimed errors hold."""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.core.run.progress import Monitor
from qsim.trotter.levels.run import gap_ratios
from qsim.trotter.model.hamiltonian import dense
from qsim.trotter.observables.correlator import Correlator
from qsim.trotter.thermal import correlators as averaged
from qsim.trotter.thermal.run import Part, Tally, rounding, scatter
from tests.trotter.kernels.test_exchange import spin

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
RING = {"type": "heisenberg", "lattice": "ring", "J": 1.0}
NAMES = ("energy", "specific_heat", "susceptibility", "entropy")


class Listening(Monitor):
    said = ()

    def warn(self, text, *args, **more):
        self.said = (*self.said, text)


def averages(trotter, system, seed=1, **block):
    return trotter.run(task="thermal", system=system, thermal=block, run={"seed": seed})


def ring_of_12():
    rows = REFERENCES["thermal_ring_12"]["result"]
    return [row["T"] for row in rows], np.array([[row[name] for row in rows] for name in NAMES])


def test_ring_of_12_diagonalised(trotter):
    temperatures, expected = ring_of_12()
    found = averages(trotter, {"spins": 12, "terms": [RING]}, temperatures=temperatures)
    assert found.errors is None
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-11)


def test_errors_of_random_vectors_hold(trotter):
    """With every sector sampled, errors from the truth follow the standard errors: rms of 1, and none beyond 5."""
    temperatures, expected = ring_of_12()
    ratios = []
    for seed in range(6):
        found = averages(
            trotter,
            {"spins": 12, "terms": [RING]},
            seed,
            temperatures=temperatures,
            vectors=20,
            steps=40,
            exact=3,
        )
        ratios.append((found.values - expected) / np.maximum(found.errors, 1e-12))
    ratios = np.array(ratios)
    assert np.abs(ratios).max() < 6.0
    assert 0.5 < np.sqrt((ratios**2).mean()) < 1.6


def test_chain_in_a_field(trotter):
    terms = [
        {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": -0.6},
        {"type": "field", "axis": "z", "values": "0.4 + 0.1*j"},
    ]
    T = [0.2, 1.0, 7.0]
    found = averages(trotter, {"spins": 7, "terms": terms}, temperatures=T)
    values, vectors = np.linalg.eigh(dense(found.problem.model))
    sz = 3.5 - np.bitwise_count(np.arange(128)).astype(float)
    m = (abs(vectors) ** 2).T @ sz
    m2 = (abs(vectors) ** 2).T @ sz**2
    for k, t in enumerate(T):
        w = np.exp(-(values - values[0]) / t)
        Z, e = w.sum(), values - values[0]
        exact = [
            values[0] + w @ e / Z,
            ((w @ e**2) / Z - (w @ e / Z) ** 2) / t**2,
            ((w @ m2) / Z - (w @ m / Z) ** 2) / t,
            np.log(Z) + w @ e / Z / t,
        ]
        np.testing.assert_allclose(found.values[:, k], np.array(exact) / 7, rtol=0, atol=1e-11)


DM = [
    {"type": "xxz", "lattice": "chain", "Jxy": 0.3, "Jz": 0.5},
    {"type": "dm", "lattice": "chain", "D": [0.0, 0.0, -0.66]},
    {"type": "field", "axis": "z", "values": [-0.4, -3.5, -1.3, -0.6, -1.0, 0.2, -0.9, 2.3]},
]


def listened(trotter, **deck):
    monitor = Listening(quiet=True)
    return trotter.run(monitor=monitor, **deck), " ".join(monitor.said)


@pytest.mark.parametrize(
    ("terms", "steps", "exact"),
    [([{**RING, "lattice": "chain"}], 4, 0), ([{**RING, "lattice": "chain"}], 9, 0), (DM, 3, 40)],
)
def test_the_end_of_the_recurrence_is_part_of_the_error(trotter, terms, steps, exact):
    """Far below the couplings; also where the sector of the ground state has no weight yet, since only others are exact."""
    deck = {"task": "thermal", "system": {"spins": 8, "terms": terms}, "run": {"seed": 3}}
    T = {"temperatures": [0.02, 0.2, 2.0]}
    sampled = {"vectors": 5, "steps": steps, "exact": exact}
    observe = [{"correlator": ["zz", "xx"], "pairs": [[0, 1], [2, 5]]}]
    true = trotter.run(thermal=T, observe=observe, **deck)
    found, said = listened(trotter, thermal=T | sampled, observe=observe, **deck)
    assert "not converged" in said
    assert found.steps == steps
    assert found.change[0] > 0.02
    assert np.all(np.abs(found.values - true.values) < 4.0 * found.errors)
    for name, values in true.observed.items():
        assert np.all(np.abs(found.observed[name] - values) < 4.0 * found.observed_errors[name])


def test_steps_adapt(trotter):
    """Low temperatures take more steps; the energy of the ground state is met where none of the vectors varies any more."""
    deck = {"task": "thermal", "system": {"spins": 10, "terms": [{**RING, "lattice": "chain"}]}}
    low, said = listened(trotter, thermal={"temperatures": [0.01], "vectors": 5, "exact": 0}, **deck)
    high = trotter.run(thermal={"temperatures": [20.0], "vectors": 5, "exact": 0}, **deck)
    true = trotter.run(thermal={"temperatures": [0.01]}, **deck)
    assert "not converged" not in said
    assert high.steps == 20 < low.steps < 100
    assert abs(low.values[0, 0] - true.values[0, 0]) < 10.0 * low.errors[0, 0] < 1e-5


def test_errors_of_few_random_vectors_hold(trotter):
    """Three vectors, whose scatter says little of the errors: three error bars hold the truth 95 times of 100 and more."""
    deck = {
        "task": "thermal",
        "system": {"spins": 7, "terms": [RING, {"type": "field", "axis": "z", "values": 0.3}]},
    }
    T = [0.1, 0.6, 4.0]
    true = trotter.run(thermal={"temperatures": T}, **deck)
    ratios = []
    for seed in range(12):
        block = {"temperatures": T, "vectors": 3, "steps": 30, "exact": 0}
        found = trotter.run(thermal=block, run={"seed": seed}, **deck)
        ratios.append(np.abs(found.values - true.values) / np.maximum(found.errors, 1e-12))
    ratios = np.array(ratios)
    assert (ratios < 3.0).mean() > 0.95
    assert ratios.max() < 10.0
    assert np.median(ratios) > 0.2


def test_two_random_vectors_have_no_errors_of_correlators(trotter):
    found, said = listened(
        trotter,
        task="thermal",
        system={"spins": 4, "terms": [RING]},
        thermal={"temperatures": [1.0], "vectors": 2, "exact": 0},
        observe=[{"correlator": "zz", "pairs": [[0, 1]]}],
    )
    assert "errors of correlators are not known from 2 random vectors" in said
    assert found.observed_errors == {}
    assert found.errors is not None


CORRELATORS = [{"correlator": ["xx", "zz"], "pairs": "all"}, {"structure_factor": ["zz", "xx"]}]


def test_correlators_against_temperature(trotter):
    """All pairs of a chain in a field with Dzyaloshinskii-Moriya couplings, by the density matrix of the whole space."""
    n, T = 6, [0.05, 0.7, 9.0]
    terms = [
        {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": -0.6},
        {"type": "dm", "lattice": "chain", "D": [0.0, 0.0, 0.8]},
        {"type": "field", "axis": "z", "values": "0.4 + 0.1*j"},
    ]
    found = trotter.run(
        task="thermal",
        system={"spins": n, "terms": terms},
        thermal={"temperatures": T},
        observe=CORRELATORS,
    )
    assert found.observed_errors == {}
    energies, vectors = np.linalg.eigh(dense(found.problem.model))
    wave = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    for row, t in enumerate(T):
        w = np.exp(-(energies - energies[0]) / t)
        rho = (vectors * (w / w.sum())) @ vectors.conj().T
        for a, name in ((0, "xx"), (2, "zz")):
            S = [spin(a, j, n) for j in range(n)]
            ss = np.array([[np.trace(rho @ x @ y).real for y in S] for x in S])
            j, k = np.array(found.problem.observables.get(Correlator).pairs[name]).T
            np.testing.assert_allclose(found.observed[f"correlator_{name}_T"][row], ss[j, k], atol=1e-12)
            factor = np.einsum("qj,jk,qk->q", wave, ss, wave.conj()).real / n
            np.testing.assert_allclose(found.observed[f"structure_factor_{name}_T"][row], factor, atol=1e-12)


def test_errors_of_sampled_correlators_hold(trotter, monkeypatch):
    """Random vectors in every sector, temperatures in pieces: deviations from exact sums follow the standard errors."""
    deck = {
        "task": "thermal",
        "system": {"spins": 10, "terms": [RING]},
        "thermal": {"temperatures": [0.1, 0.5, 2.0], "vectors": 20, "steps": 40},
        "observe": [
            {"correlator": ["xx", "zz"], "pairs": [[0, 1], [0, 3], [0, 5]]},
            {"structure_factor": "zz"},
        ],
    }
    exact = trotter.run(**deck)
    deck["thermal"]["exact"] = 3
    monkeypatch.setattr(averaged, "MOST_NUMBERS", 2 * 252)  # of the largest sector two temperatures at once
    ratios = []
    for seed in range(6):
        found = trotter.run(run={"seed": seed}, **deck)
        for name, values in exact.observed.items():
            error = np.maximum(found.observed_errors[name], 1e-12)
            ratios.append(((found.observed[name] - values) / error).ravel())
    ratios = np.concatenate(ratios)
    assert np.abs(ratios).max() < 6.0
    assert 0.5 < np.sqrt((ratios**2).mean()) < 1.6


def test_levels_of_a_disordered_chain(trotter):
    entry = REFERENCES["levels_mbl_12"]
    terms = [
        {"type": "heisenberg", "lattice": "chain", "J": 1.0},
        {"type": "field", "axis": "z", "values": entry["params"]["h"]},
    ]
    blocks = {"task": "levels", "system": {"spins": 12, "terms": terms}, "sector": {"up": 6}}
    middle = trotter.run(**blocks, levels={"statistics": ["gap_ratio", "participation"]})
    every = trotter.run(**blocks, levels={"window": "all"})
    expected = entry["result"]
    np.testing.assert_allclose(middle.levels[0, :6], expected["lowest"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(middle.levels[0, -3:], expected["highest"], rtol=0, atol=1e-11)
    assert middle.ratios[0] == pytest.approx(expected["gap_ratio_middle"], abs=1e-9)
    assert every.ratios[0] == pytest.approx(expected["gap_ratio_all"], abs=1e-9)
    assert middle.participation[0, 0] == pytest.approx(expected["participation_entropy_ground"], abs=1e-9)
    # ratios of one realisation scatter nearly as independent ones do
    assert middle.all_ratios.mean() == pytest.approx(middle.ratios[0])
    scatter = middle.all_ratios.std(ddof=1) / np.sqrt(middle.all_ratios.size)
    assert 0.5 * scatter < middle.ratio_error < 2.0 * scatter


def test_entropies_of_all_states(trotter):
    entry = REFERENCES["levels_mbl_12"]["params"]["h"][:8]
    terms = [
        {"type": "heisenberg", "lattice": "chain", "J": 1.0},
        {"type": "field", "axis": "z", "values": entry},
    ]
    found = trotter.run(
        task="levels",
        system={"spins": 8, "terms": terms},
        sector={"sz": 0},
        levels={"statistics": ["gap_ratio", "entropy"]},
    )
    strings = found.problem.sectors[0].strings()
    vectors = np.linalg.eigh(dense(found.problem.model).real[np.ix_(strings, strings)])[1]
    for k in (0, 13, 69):
        psi = np.zeros(256)
        psi[strings] = vectors[:, k]
        p = np.linalg.svd(psi.reshape(16, 16), compute_uv=False) ** 2
        assert found.entropies[0, k] == pytest.approx(-sum(x * np.log(x) for x in p if x > 1e-30), abs=1e-9)


def test_gap_ratios():
    """Of evenly spaced levels 1, of alternating spacings their ratio; degenerate ones count as 0."""
    np.testing.assert_allclose(gap_ratios(np.arange(5.0), 1e-9), 1.0)
    np.testing.assert_allclose(gap_ratios(np.array([0.0, 1.0, 3.0, 4.0]), 1e-9), 0.5)
    np.testing.assert_allclose(gap_ratios(np.array([0.0, 1e-11, 0.0, 1.0, 3.0]), 1e-9), 0.5)


def test_random_matrices_and_random_levels():
    """The limits that the figure shows: 0.5307 of the orthogonal ensemble and 2 ln 2 - 1 of random levels."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(40):
        A = generator.normal(size=(200, 200))
        found.append(gap_ratios(np.linalg.eigvalsh(A + A.T)[70:130], 1e-9).mean())
    assert np.mean(found) == pytest.approx(0.5307, abs=0.015)
    levels = np.sort(generator.uniform(size=20000))
    assert gap_ratios(levels, 1e-15).mean() == pytest.approx(2 * np.log(2) - 1, abs=0.01)


def test_symmetries_left_over_are_warned_of(trotter, recwarn):
    monitor = Listening(quiet=True)
    trotter.run(
        monitor=monitor,
        task="levels",
        system={"spins": 8, "terms": [RING]},
        sector={"up": 3},
        levels={"window": "all"},
    )
    assert any("reflection" in text for text in monitor.said)


ACROSS = [
    {"type": "ising", "lattice": "ring", "J": 1.0},
    {"type": "field", "axis": "x", "values": 0.6},
]


@pytest.mark.parametrize(("terms", "sz"), [([RING], [-3, -2, -1, 0, 1, 2, 3]), (ACROSS, None)])
@pytest.mark.parametrize("exact", [1024, 0])
def test_all_momenta_together_are_all_states(trotter, terms, sz, exact):
    system = {"spins": 6, "terms": terms}
    block = {"temperatures": [0.3, 2.0], "exact": exact, "vectors": 20}
    observe = [{"correlator": ["xx", "zz"], "pairs": [[0, 2]]}]
    sector = {"momentum": "all"} | ({"sz": sz} if sz else {})
    every = trotter.run(task="thermal", system=system, thermal={**block, "exact": 1024}, observe=observe)
    found = trotter.run(task="thermal", system=system, thermal=block, observe=observe, sector=sector)
    exactly = exact > 0
    for row in (0, 1, 3):
        error = 1e-10 if exactly else 5.0 * found.errors[row]
        assert np.all(np.abs(found.values[row] - every.values[row]) <= error)
    for name, values in every.observed.items():
        error = 1e-10 if exactly else 5.0 * found.observed_errors[name]
        assert np.all(np.abs(found.observed[name] - values) <= error)


def test_one_sector_of_inversion(trotter):
    """The even states of Sz = 0 alone, from dense matrices."""
    n, T = 6, 0.7
    found = trotter.run(
        task="thermal",
        system={"spins": n, "terms": [RING]},
        sector={"sz": 0, "inversion": 1},
        thermal={"temperatures": [T]},
        observe=[{"correlator": ["xx", "zz"], "pairs": [[0, 2]]}],
    )
    index = np.arange(1 << n)
    inside = index[np.bitwise_count(index) == n // 2]
    H = dense(found.problem.model)[np.ix_(inside, inside)]
    turn = np.eye(len(inside))[::-1]
    values, states = np.linalg.eigh(turn)
    basis = states[:, values > 0.0]
    energies, vectors = np.linalg.eigh(basis.T @ H @ basis)
    p = np.exp(-(energies - energies[0]) / T)
    p /= p.sum()
    assert found.values[0, 0] == pytest.approx(p @ energies / n, abs=1e-12)
    z = 0.5 - (inside >> np.arange(n)[:, None] & 1)
    zz = p @ (np.abs(basis @ vectors) ** 2).T @ (z[0] * z[2])
    np.testing.assert_allclose(found.observed["correlator_zz_T"][0], [zz], rtol=0, atol=1e-12)
    x = np.zeros((1 << n, 1 << n))
    x[index, index ^ 0b101] = 0.25
    state = basis @ vectors
    xx = p @ np.einsum("sn,st,tn->n", state, x[np.ix_(inside, inside)], state)
    np.testing.assert_allclose(found.observed["correlator_xx_T"][0], [xx], rtol=0, atol=1e-12)


REFUSED = {
    "negative": ({"task": "thermal", "thermal": {"temperatures": [-1.0]}}, "thermal.temperatures"),
    "grid": (
        {"task": "thermal", "thermal": {"temperatures": {"from": 2.0, "to": 1.0}}},
        "must lie above from",
    ),
    "response": (
        {"task": "thermal", "sector": {"parity": "even"}, "thermal": {"response": ["x"]}},
        "leads from the states of a sector",
    ),
    "too large": (
        {"task": "levels", "system": {"spins": 20, "terms": [RING]}},
        "184756 states are too many to diagonalise",
    ),
    "states": ({"task": "levels", "ensemble": {"states": 3}}, "no initial states"),
    "list": ({"task": "levels", "sector": {"sz": [0, 1]}}, "one sector for one state"),
    "few": (
        {"task": "levels", "sector": {"up": 1}, "levels": {"statistics": ["gap_ratio"]}},
        "levels.window: a gap ratio needs 3 levels in the window; found a sector of 6; use window: all",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    with pytest.raises(DeckError, match=message):
        trotter.run(**{"system": {"spins": 6, "terms": [RING]}, **changes})


@pytest.mark.parametrize("levels", [{}, {"statistics": ["participation"]}])
def test_a_small_sector_has_its_levels_without_a_gap_ratio(trotter, levels):
    system = {"spins": 4, "terms": [RING]}
    summary = trotter.execute(task="levels", system=system, sector={"up": 3}, levels=levels)
    assert "gap_ratio" not in summary["scalars"]
    assert summary["scalars"]["energy_0"]["value"] == pytest.approx(-1.0, abs=1e-12)
    result = trotter.run(task="levels", system=system, sector={"up": 3}, levels=levels)
    assert result.levels[0] == pytest.approx([-1.0, 0.0, 0.0, 1.0], abs=1e-12)  # cos k of one magnon


def diagonalised(trotter, **deck):
    """Return total Sz, levels and states of all sectors."""
    model = trotter.run(task="thermal", thermal={"temperatures": [1.0]}, **deck).problem.model
    strings = np.arange(1 << model.spins)
    for up in range(model.spins + 1):
        inside = np.flatnonzero(np.bitwise_count(strings) == up)
        yield 0.5 * model.spins - up, *np.linalg.eigh(dense(model)[np.ix_(inside, inside)])


def sampled(rng, sectors, vectors, T):
    """Return averages of all levels, and of the same levels with the weights of random vectors."""
    exact, drawn = [], []
    for sz, energies, states in sectors:
        D = energies.size
        r = rng.uniform(-1.0, 1.0, (D, vectors))
        weights = D / vectors * np.abs(states.conj().T @ (r / np.linalg.norm(r, axis=0))) ** 2
        owners = np.tile(np.arange(vectors), D)
        exact.append(Part(sz, 1.0, 0, D, energies, np.ones(D), np.zeros(D, np.int64)))
        drawn.append(Part(sz, 1.0, vectors, D, np.repeat(energies, vectors), weights.ravel(), owners))
    return Tally.of(exact, T), drawn, Tally.of(drawn, T)


@pytest.mark.parametrize("vectors", [3, 6])
def test_error_bars_hold_where_two_levels_of_few_states_decide(trotter, vectors):
    """A ring of XY couplings in a field at a tenth of them, hundreds of times: no warning takes any of the bars back."""
    terms = [{"type": "xx", "lattice": "ring", "J": 1.3}, {"type": "field", "axis": "z", "values": 0.45}]
    sectors = list(diagonalised(trotter, system={"spins": 6, "terms": terms}))
    T, rng, misses = np.array([0.013, 0.12, 0.3]), np.random.default_rng(8), []
    for _ in range(120):
        true, drawn, found = sampled(rng, sectors, vectors, T)
        misses.append(np.abs(found.values - true.values) > 3.0 * scatter(drawn, found, 8.0) + 1e-12)
    assert np.mean(misses, axis=0).max() < 0.04
    assert np.mean(misses) < 0.01


def test_errors_at_temperatures_far_above_the_couplings(trotter):
    """The traces of 1 are exact: what is left of the errors of the entropy are many orders below one, and not rounding."""
    T = np.array([3e3, 4e4])
    sectors = list(diagonalised(trotter, system={"spins": 6, "terms": [RING]}))
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(20):
        true, drawn, found = sampled(rng, sectors, 5, T)
        error = scatter(drawn, found, 8.0) + rounding(found, 8.0, 6)
        ratios.append((np.abs(found.values - true.values) / error)[3])
    assert np.max(ratios) < 3.0
    assert np.median(ratios) > 0.05

"""Cycles of constant Hamiltonians: the reference, dense propagators of the whole space, interrupted runs, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.errors import DeckError, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.trotter.model.hamiltonian import dense

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
OBSERVED = ["sz", "imbalance", "return_probability", {"entropy": {"sites": "half"}}]


def brickwork(spins, h):
    """Even bonds, odd bonds, fields, as three terms."""
    bonds = [[[j, j + 1, 1.0, 1.0, 1.0] for j in range(first, spins - 1, 2)] for first in (0, 1)]
    terms = [{"type": "pairs", "list": part} for part in bonds]
    return {"spins": spins, "terms": [*terms, {"type": "field", "axis": "z", "values": h}]}


def cycle(tau):
    return [{"terms": [k], "time": tau} for k in range(3)]


def floquet(trotter, system, observe=OBSERVED, initial=None, sector="auto", **block):
    return trotter.run(
        task="floquet",
        system=system,
        sector=sector,
        initial=initial or {"type": "neel"},
        floquet=block,
        observe=list(observe),
    )


def test_the_reference(trotter):
    entry = REFERENCES["floquet_brickwork_10"]
    found = floquet(
        trotter, brickwork(10, entry["params"]["h"]), cycle=cycle(0.8), cycles=50, quasienergies=True
    )
    result = entry["result"]
    for expected in result["cycles"]:
        k = expected["cycle"]
        assert found.rows["cycle"][k] == k
        for name in ("imbalance", "return_probability", "entropy"):
            assert found.row(name)[k] == pytest.approx(expected[name], abs=entry["tolerance"])
    np.testing.assert_allclose(
        found.quasienergies[:3], result["quasienergy_first"], rtol=0, atol=entry["tolerance"]
    )
    assert found.ratio == pytest.approx(result["gap_ratio"], abs=1e-9)
    assert found.error <= 1e-10


def test_the_gap_ratio_has_no_first_angle(trotter):
    """All n ratios on the circle, of four states: a field that only adds a phase to U changes nothing."""
    found = [
        floquet(
            trotter,
            {
                "spins": 4,
                "terms": [
                    {"type": "pairs", "list": [[0, 1, 1.0, 1.0, 0.4], [2, 3, 0.7, 0.7, 1.0]]},
                    {"type": "pairs", "list": [[1, 2, 0.9, 0.9, -0.6]]},
                    {"type": "field", "axis": "z", "values": [0.3 + f, -0.8 + f, 0.45 + f, 0.1 + f]},
                ],
            },
            initial={"type": "basis", "bits": "0100"},
            cycle=cycle(0.9),
            cycles=1,
            quasienergies=True,
        )
        for f in (0.0, 0.4, 1.5, 2.9)
    ]
    angles = found[0].quasienergies
    spacing = np.diff(angles, append=angles[0] + 2.0 * np.pi)
    after = np.roll(spacing, -1)
    expected = np.mean(np.minimum(spacing, after) / np.maximum(spacing, after))
    assert [f.ratio for f in found] == pytest.approx(4 * [expected], abs=1e-10)


@pytest.mark.parametrize("down", [2, 3])
def test_against_dense_propagators(trotter, down):
    """Steps of several terms in any order, from a random state of the sector, observed every third cycle."""
    system = brickwork(6, [0.3, -0.2, 0.9, 0.1, -0.5, 0.4])
    steps = [{"terms": [0, 2], "time": 0.7}, {"terms": [1], "time": 1.3}, {"terms": [2, 1], "time": 0.2}]
    observe = [
        "sz",
        "return_probability",
        {"entropy": {"cuts": "all", "kinds": ["von_neumann", "number", "renyi2"]}},
    ]
    found = floquet(
        trotter,
        system,
        observe,
        {"type": "haar", "seed": 5},
        {"up": 6 - down},
        cycle=steps,
        cycles=7,
        every=3,
        accuracy=1e-12,
    )
    problem = found.problem
    U = np.eye(64)
    for k, step in enumerate(steps):
        U = expm(-1j * step["time"] * dense(problem.step_model(k))) @ U
    from qsim.core.device.device import cpu
    from qsim.trotter.sectors.states import initial_state

    psi = np.zeros(64, complex)
    strings = found.sector.strings()
    psi[strings] = initial_state(problem.start, found.sector, cpu(1), np.complex128, seed=problem.models.seed)
    first, spins = psi.copy(), 0.5 - (np.arange(64)[:, None] >> np.arange(6) & 1)
    assert list(found.rows["cycle"]) == [0, 3, 6, 7]
    for row, cycles in enumerate((0, 3, 6, 7)):
        now = np.linalg.matrix_power(U, cycles) @ first
        np.testing.assert_allclose(found.rows["sz"][row], np.abs(now) ** 2 @ spins, atol=1e-12)
        assert found.rows["return_probability"][row] == pytest.approx(
            abs(np.vdot(first, now)) ** 2, abs=1e-12
        )
        for cut in range(1, 6):
            p = np.linalg.svd(now.reshape(-1, 1 << cut), compute_uv=False) ** 2
            entropy = -sum(x * np.log(x) for x in p if x > 1e-30)
            assert found.rows["entropy"][row][cut - 1] == pytest.approx(entropy, abs=1e-11)
            assert found.rows["renyi2"][row][cut - 1] == pytest.approx(-np.log((p**2).sum()), abs=1e-11)
    arrays = Method("trotter").arrays(found)
    assert arrays["entropy"].shape == (4, 5)
    np.testing.assert_allclose(arrays["time"], 2.2 * np.array([0, 3, 6, 7]))


def test_the_claimed_error_holds(trotter):
    """Against the tightest run, for loose accuracies."""
    system = brickwork(8, "0.4*cos(3*j)")
    exact = floquet(trotter, system, cycle=cycle(1.7), cycles=20, accuracy=1e-13).rows["sz"][-1]
    for accuracy in (1e-2, 1e-5, 1e-8):
        found = floquet(trotter, system, cycle=cycle(1.7), cycles=20, accuracy=accuracy)
        assert found.error <= accuracy
        # an observable of norm 1/2 changes by no more than the state
        assert np.abs(found.rows["sz"][-1] - exact).max() <= found.error


class StopAfter(Monitor):
    """Stops at the n-th report from which the run can be continued."""

    def __init__(self, reports, **settings):
        super().__init__(quiet=True, **settings)
        self.left = reports

    def _stop_reason(self, now, *, savable=True):
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


@pytest.mark.parametrize("reports", [1, 4, 9])
def test_a_resumed_run_has_the_same_bits(trotter, reports):
    blocks = {
        "task": "floquet",
        "system": brickwork(8, 0.3),
        "initial": {"type": "neel"},
        "floquet": {"cycle": cycle(0.9), "cycles": 6},
        "observe": OBSERVED,
    }
    whole = trotter.run(**blocks)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(reports, checkpoint=file), **blocks)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **blocks)
    for name in whole.rows:
        np.testing.assert_array_equal(whole.rows[name], resumed.rows[name])


BASE = {
    "task": "floquet",
    "system": brickwork(6, 0.5),
    "initial": {"type": "neel"},
    "floquet": {"cycle": cycle(0.5), "cycles": 3},
}
KICKED = {
    "spins": 6,
    "terms": [{"type": "ising", "lattice": "chain", "J": 1.0}, {"type": "field", "axis": "x", "values": 0.7}],
}
TWO = [{"terms": [0], "time": 0.5}, {"terms": [1], "time": 0.5}]
REFUSED = {
    "no cycle": ({"floquet": {"cycles": 3}}, "floquet.cycle: required key is missing"),
    "no start": ({"initial": None}, "initial: required key is missing"),
    "unknown term": (
        {"floquet": {"cycle": [*cycle(0.5), {"terms": [3], "time": 1.0}]}},
        r"floquet.cycle.3.terms: system.terms has the numbers 0 to 2; found 3",
    ),
    "unused term": ({"floquet": {"cycle": TWO}}, "system.terms.2 is in no step of the cycle"),
    "twice": ({"floquet": {"cycle": [{"terms": [0, 1, 2, 1], "time": 1.0}]}}, "expected different numbers"),
    "no time": ({"floquet": {"cycle": [{"terms": [0, 1, 2], "time": 0.0}]}}, "floquet.cycle.0.time"),
    "kicks along x": (
        {"system": KICKED, "floquet": {"cycle": TWO}, "sector": {"up": 2}},
        "Sz = -1 is not conserved .*: the field along x at site 0 mixes magnetisations",
    ),
    "other sector": ({"sector": {"up": 2}}, "the initial state has Sz = 0, the sector Sz = -1"),
    "other parity": (
        {"sector": {"parity": "even"}},
        "the sector an even number of spins down; use the other one",
    ),
    "observed": ({"observe": [{"echo": {"sigma": []}}]}, "belongs to task: evolve"),
    "inversion": ({"sector": {"sz": 0, "inversion": 1}}, "changes its sign under the inversion of all spins"),
    "an evolution": (
        {"evolve": {"t_final": 1.0, "accuracy": 1e-3}},
        "evolve: this block belongs to task: evolve",
    ),
    "momentum": ({"sector": {"sz": 0, "momentum": 0}}, "H is not invariant under the shift by one site"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    deck = {key: value for key, value in {**BASE, **changes}.items() if value is not None}
    with pytest.raises(DeckError, match=message):
        trotter.run(**deck)


def test_too_many_states_for_quasienergies(trotter):
    block = {"cycle": cycle(0.5), "cycles": 1, "quasienergies": True}
    with pytest.raises(DeckError, match="12870 states are too many"):
        trotter.load(task="floquet", system=brickwork(16, 0.5), initial={"type": "neel"}, floquet=block)


@pytest.mark.gpu
def test_on_a_gpu(trotter, cuda):
    """The same rows and quasi-energies as on the CPU, to the accuracy asked for."""
    blocks = {
        **BASE,
        "floquet": {"cycle": cycle(0.9), "cycles": 6, "quasienergies": True},
        "observe": OBSERVED,
    }
    found, expected = (
        stage("trotter", "run").run(trotter.build(device=device, **blocks), Monitor.silent())
        for device in (cuda, None)
    )
    for name, values in expected.rows.items():
        np.testing.assert_allclose(found.rows[name], values, rtol=0, atol=1e-9, err_msg=name)
    np.testing.assert_allclose(found.quasienergies, expected.quasienergies, rtol=0, atol=1e-9)


def test_swaps_have_no_gap_ratio(trotter):
    """Bonds turned by pi are swaps: all quasi-energies are degenerate, and ratios of their distances are rounding."""
    system = {"spins": 6, "terms": brickwork(6, [0.0] * 6)["terms"][:2]}
    steps = [{"terms": [k], "time": np.pi} for k in range(2)]
    monitor = Listening(quiet=True)
    found = trotter.run(
        monitor=monitor,
        task="floquet",
        system=system,
        initial={"type": "neel"},
        floquet={"cycle": steps, "cycles": 2, "quasienergies": True},
    )
    assert found.ratio is None
    assert any("quasi-energies are degenerate" in text for text in monitor.said)


class Listening(Monitor):
    said = ()

    def warn(self, text, *args, **more):
        self.said = (*self.said, text)

"""Batches of small systems: members together = one by one, on every device, interrupted or not.

Tolerances.  On the CPU members make the same operations together and alone: equal bits where calls are split in the same places.
On a GPU moments are summed in another order, and split calls round in other places: 1e-13 after a hundred layers.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.trotter.evolution.batch import Batch
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.evolve.problem import PIECE
from qsim.trotter.evolve.trajectories import ensemble
from qsim.trotter.evolve.trajectories.ensemble import Ensemble, together
from qsim.trotter.kernels.states.measure import moments_of_axis, moments_of_members
from qsim.trotter.measurement import entanglement
from qsim.trotter.model.hamiltonian import Model

CHAIN = {"type": "heisenberg", "lattice": "chain", "J": 1.0}
BOX = {"type": "field", "axis": "z", "random": {"kind": "box", "W": 2.0, "seed": 7}}
TILT = {"type": "field", "axis": "x", "values": 0.1}
RAMP = {"type": "field", "axis": "x", "values": 1.0, "profile": {"type": "cosine", "omega": 1.0}}
DECK = {
    "system": {"spins": 6, "terms": [CHAIN, BOX]},
    "initial": {"type": "a1", "up": [0]},
    "evolve": {"outputs": [0.0, 0.5, 1.0], "integrator": "ts4", "dt": 0.1},
    "ensemble": {"disorder": 3, "states": 2},
    "run": {"seed": 5},
}
EVERYTHING = [
    {"total": "all"},
    "sx",
    "imbalance",
    "return_probability",
    "energy_variance",
    {"correlator": ["xx", "zz"], "pairs": "all"},
    {"entropy": {"sites": [0, 1, 2]}},
    {"entropy": {"sites": [1, 4]}},
    {"autocorrelation": 0},
    "state",
]
ECHOES = {
    "back": {"echo": {"sigma": [TILT], "local": [0, 3]}},
    "roundoff": {"echo": {"sigma": []}},
    "overlap": {"echo": {"sigma": [TILT], "scheme": "overlap"}},
}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def models(spins, members, axes="xyz"):
    found = []
    for m in range(members):
        generator = np.random.default_rng([spins, m])
        J = np.triu(generator.uniform(-1, 1, (3, spins, spins)), 1)
        h = generator.uniform(-0.5, 0.5, (3, spins))
        for a, axis in enumerate("xyz"):
            if axis not in axes:
                J[a], h[a] = 0, 0
        found.append(Model(spins, J + J.transpose(0, 2, 1), h))
    return found


def random_states(spins, members, dtype=np.complex128):
    generator = np.random.default_rng(spins)
    psi = generator.standard_normal((members, 1 << spins, 2)) @ [1, 1j]
    return (psi / np.linalg.norm(psi, axis=1)[:, None]).astype(dtype)


def same(one, other, tolerance=0.0):
    assert one.mean.keys() == other.mean.keys()
    assert one.error.keys() == other.error.keys()
    for name, values in one.mean.items():
        np.testing.assert_allclose(other.mean[name], values, rtol=0, atol=tolerance, err_msg=name)
        if name in one.error:
            np.testing.assert_allclose(
                other.error[name], one.error[name], rtol=0, atol=tolerance, err_msg=name
            )


def one_by_one(monkeypatch, trotter, **deck):
    with monkeypatch.context() as patch:
        patch.setitem(ensemble.MOST, "cpu", 1)
        return trotter.run(**deck)


# ------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("axes", ["xyz", "xy", "xz", "y"])
@pytest.mark.parametrize("spins", [1, 4, 5, 9, 12])
def test_a_member_of_a_batch_is_alone(device, spins, axes):
    """Steps and moments of each are those of an evolver, in every bit on the CPU."""
    systems, psi = models(spins, 5, axes), random_states(spins, 5)
    batch = Batch(device, systems, device.asarray(psi))
    tolerance = 1e-13 if device.is_cuda else 0.0
    for method, dt, steps in (("ts4", 0.1, 3), ("ts1", -0.2, 2), ("bm4", 0.1, 1)):
        batch.advance(method, dt, steps)
    moments = batch.measure("xyz")
    for m, model in enumerate(systems):
        evolver = Evolver(device, model, psi[m])
        for method, dt, steps in (("ts4", 0.1, 3), ("ts1", -0.2, 2), ("bm4", 0.1, 1)):
            evolver.advance(method, dt, steps)
        np.testing.assert_allclose(
            device.to_host(batch.psi[m]), device.to_host(evolver.psi), rtol=0, atol=tolerance
        )
        alone = evolver.measure("xyz")
        assert moments[m].norm == pytest.approx(alone.norm, abs=tolerance)
        for axis in "xyz":
            np.testing.assert_allclose(moments[m].s[axis], alone.s[axis], rtol=0, atol=tolerance)
            np.testing.assert_allclose(moments[m].ss[axis], alone.ss[axis], rtol=0, atol=tolerance)
        assert batch.layers == evolver.passes


def test_members_with_other_axes(device):
    """An axis that only some members have is a layer of all."""
    systems, psi = [*models(5, 2, "xyz"), *models(5, 2, "xy")], random_states(5, 4)
    batch = Batch(device, systems, device.asarray(psi))
    batch.advance("bm6", 0.2, 4)
    for m, model in enumerate(systems):
        evolver = Evolver(device, model, psi[m])
        evolver.advance("bm6", 0.2, 4)
        np.testing.assert_allclose(
            device.to_host(batch.psi[m]), device.to_host(evolver.psi), rtol=0, atol=1e-13
        )


def test_nothing_moves_without_couplings_or_steps(device):
    psi = random_states(4, 2)
    still = Batch(device, [Model.zero(4)] * 2, device.asarray(psi))
    moving = Batch(device, models(4, 2), device.asarray(psi))
    still.advance("ts4", 0.1, 3)
    moving.advance("ts4", 0.1, 0)
    for batch in (still, moving):
        np.testing.assert_array_equal(device.to_host(batch.psi), psi)
        assert batch.layers == 0


def test_measuring_keeps_every_bit(device):
    psi = random_states(7, 3)
    batch = Batch(device, models(7, 3), device.asarray(psi))
    z, xyz, first = batch.measure(), batch.measure("xyz"), batch.measure("xyz", pairs=False)
    np.testing.assert_array_equal(device.to_host(batch.psi), psi)
    assert [set(m[1].ss) for m in (z, xyz, first)] == [{"z"}, {"x", "y", "z"}, set()]
    assert set(first[0].s) == {"x", "y", "z"}
    assert first[2].s["z"].shape == (7,)


def test_a_batch_takes_over_or_copies(device):
    spins = 9  # the smallest state of a GPU
    for own in (True, False):
        psi = device.asarray(random_states(spins, 2).copy())
        before = device.to_host(psi).copy()
        Batch(device, models(spins, 2), psi, own=own).advance("ts2", 0.1, 1)
        assert np.array_equal(device.to_host(psi), before) != own


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("spins", [1, 2, 7, 11, 12])
def test_moments_of_members(device, spins, dtype):
    """Those of each alone, and direct sums."""
    psi = random_states(spins, 3, dtype)
    norm, s, ss = moments_of_members(device, device.asarray(psi))
    z = 0.5 - (np.arange(1 << spins)[:, None] >> np.arange(spins) & 1)
    for m in range(3):
        p = np.abs(psi[m].astype(complex)) ** 2
        assert norm[m] == pytest.approx(p.sum(), abs=1e-14)
        np.testing.assert_allclose(s[m], p @ z, rtol=0, atol=1e-14)
        np.testing.assert_allclose(ss[m], z.T @ (p[:, None] * z), rtol=0, atol=1e-14)
        alone = moments_of_axis(device, device.asarray(psi[m]))
        np.testing.assert_allclose(ss[m], alone[2], rtol=0, atol=1e-14 if device.is_cuda else 0)


@pytest.mark.parametrize("sites", [[0], [5], [0, 1, 2], [3, 1], [0, 2, 3, 4, 5]])
def test_entropies_of_members(device, sites):
    psi = device.asarray(random_states(6, 4))
    alone = [entanglement.entropy(device, state, sites) for state in psi]
    found = entanglement.entropies(device, psi, sites)
    np.testing.assert_allclose(found, alone, rtol=0, atol=1e-13 if device.is_cuda else 0)


# --------------------------------------------------------------------------------------------- decks


@pytest.mark.parametrize("echo", ECHOES)
def test_together_is_one_by_one(monkeypatch, trotter, echo):
    """Every observable: means, errors, drifts and the last state, in every bit."""
    deck = {**DECK, "observe": [*EVERYTHING, ECHOES[echo]]}
    found, alone = trotter.run(**deck), one_by_one(monkeypatch, trotter, **deck)
    same(alone, found)
    assert found.numbers == alone.numbers
    np.testing.assert_array_equal(found.psi, alone.psi)
    assert len(found.error["energy"]) == 3


def test_batches_of_another_size_are_the_same(monkeypatch, trotter):
    whole = trotter.run(**DECK)
    for size in (2, 4, 5):  # the last one holds two, two, one
        monkeypatch.setitem(ensemble.MOST, "cpu", size)
        same(whole, trotter.run(**DECK))


def test_calls_split_elsewhere_differ_by_rounding(monkeypatch, trotter):
    alone = one_by_one(monkeypatch, trotter, **DECK)
    monkeypatch.setitem(PIECE, "cpu", 64 * 20)
    same(alone, trotter.run(**DECK), 1e-13)


def test_one_realisation_and_many_states(monkeypatch, trotter):
    deck = {**DECK, "ensemble": {"states": 4}, "observe": [{"autocorrelation": 0}]}
    same(one_by_one(monkeypatch, trotter, **deck), trotter.run(**deck))


def test_verification(monkeypatch, trotter):
    deck = {**DECK, "evolve": {**DECK["evolve"], "verify": True}}
    found, alone = trotter.run(**deck), one_by_one(monkeypatch, trotter, **deck)
    assert found.info["verification_error"][0] == pytest.approx(alone.info["verification_error"][0], rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "size"),
    [
        ({}, 6),
        ({"ensemble": {"disorder": 200}}, 64),
        ({"ensemble": {}}, 1),
        ({"system": {"spins": 13, "terms": [CHAIN, BOX]}}, 1),
        ({"system": {"spins": 6, "terms": [CHAIN, BOX, RAMP]}}, 1),
        ({"observe": [{"echo": {"sigma": [TILT]}}]}, 6),
        ({"observe": [{"echo": {"sigma": [RAMP]}}]}, 1),
        ({"evolve": {"outputs": [0.0, 1.0], "integrator": "chebyshev", "accuracy": 1e-9}}, 1),
    ],
)
def test_what_goes_together(trotter, changes, size):
    from qsim.trotter.evolution.accuracy import Choice

    problem = trotter.build(**{**DECK, **changes})
    name = problem.evolution.integrator
    assert together(problem, Choice(name, problem.evolution.dt, 0.0, 20, 1.0)) == size


class StopAfter(Monitor):
    """Stops with a checkpoint at the n-th call at which the state can be saved."""

    def __init__(self, calls, **options):
        super().__init__(quiet=True, **options)
        self.left = calls

    def _stop_reason(self, now, *, savable=True):
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


@pytest.mark.parametrize("echo", ["roundoff", "overlap"])
@pytest.mark.parametrize("calls", [1, 2, 4, 7, 10])
def test_a_resumed_batch_has_the_same_bits(trotter, monkeypatch, calls, echo):
    """Interrupted within an interval, between batches and during the way back of an echo; the size of the batch is kept."""
    monkeypatch.setitem(PIECE, "cpu", 64 * 20)  # a step of four members a call
    monkeypatch.setitem(ensemble.MOST, "cpu", 4)
    deck = {**DECK, "observe": ["sz", "imbalance", {"entropy": {"sites": [0]}}, ECHOES[echo]]}
    whole = trotter.run(**deck)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **deck)
    state, _ = checkpoint.load(file)
    assert state["batch"] == 4
    monkeypatch.setitem(ensemble.MOST, "cpu", 64)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **deck)
    same(whole, resumed)
    assert resumed.numbers == whole.numbers


def test_threads_change_nothing(monkeypatch, trotter):
    from qsim.core.device import pool

    monkeypatch.setattr(pool, "PARALLEL_SIZE", 1)
    found = []
    for threads in (1, 2):
        problem = trotter.build(**DECK)
        problem.device = cpu(threads)
        how = trotter.run(**DECK).integration
        members = Ensemble(problem, range(6), how)
        members.advance(lambda progress: None)
        found.append(members.results())
    for one, two in zip(*found, strict=True):
        for name, values in one.items():
            np.testing.assert_array_equal(two[name], values)


@pytest.mark.gpu
@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("spins", [6, 10, 12])
def test_cuda_is_its_twin(cuda, trotter, spins, echo):
    from qsim.trotter import run

    observe = [*EVERYTHING, ECHOES[echo]]
    deck = {**DECK, "system": {**DECK["system"], "spins": spins}, "observe": observe}
    found = run.run(trotter.build(device=cuda, **deck), Monitor.silent())
    same(trotter.run(**deck), found, 1e-11)
    one_state = run.run(trotter.build(device=cuda, **{**deck, "ensemble": {}}), Monitor.silent())
    assert one_state.mean.keys() == found.mean.keys()

"""Histories with fixed noise: exact gradients for one noise, means over noise that are those of the Lindbladian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

import qsim
from qsim.core.errors import QsimError
from qsim.qoc.kernels.portions import watched
from qsim.qoc.objectives import unravelling as module
from qsim.qoc.objectives.unravelling import Unravelling, drawn, passes_of, rates_of
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.oracle import DURATION, random_model, true_value


def unravelling(made, fields, count, seed=1):
    rates = rates_of(made, DURATION, fields)
    return Unravelling(made, Motion(DURATION, fields.shape[1]), 0.0, rates, count, seed)


def history(made, fields, rates, times, kinds):
    """Return the columns at T of one history, by exponentials between its jumps."""
    h = [made.drift.toarray(), *(c.operator.toarray() for c in made.controls)]
    jumps = [j.operator.toarray() for j in made.jumps]
    loss = sum(a.conj().T @ a for a in jumps)
    x, slots, now = made.states, fields.shape[1], 0.0
    ends = [*((t, k) for t, k in zip(times, kinds, strict=True)), (DURATION, None)]
    tau = DURATION / slots
    for end, kind in ends:
        while now < end - 1e-15:
            n = min(int(now / tau + 1e-12), slots - 1)
            to = min(end, (n + 1) * tau)
            u = [f**c.power for f, c in zip(fields[:, n], made.controls, strict=True)]
            a = -1j * (h[0] + sum(f * b for f, b in zip(u, h[1:], strict=True))) - 0.5 * loss
            x, now = expm((to - now) * a) @ x, to
        if kind is not None:
            x = jumps[kind] @ x / np.sqrt(rates[kind])
    return x


@pytest.mark.parametrize("seed", range(3))
def test_every_history_is_that_of_exponentials_between_its_jumps(seed):
    made, fields = random_model(seed + 3, "gate", 1.5, (2, 6))
    objective = unravelling(made, fields, 30)
    assert max(s.times[0].size for s in objective.strata) > 1
    for stratum in objective.strata:
        x = objective._forward(fields, stratum)[0]
        for sample in range(0, stratum.count, 3):
            wanted = history(made, fields, objective.rates, stratum.times[sample], stratum.kinds[sample])
            assert np.abs(x[sample] - wanted).max() < 1e-12


@pytest.mark.parametrize("kind", ["gate", "states"])
def test_the_gradient_is_exact_for_its_noise(kind):
    made, fields = random_model(9, kind, 1.0, (3, 5))
    objective = unravelling(made, fields, 12)
    found = objective.evaluate(fields)
    assert objective.values(fields)[0][0] == pytest.approx(found.probability, abs=1e-13)
    h = 1e-5
    for c, n in ((0, 0), (len(fields) - 1, 2), (0, 5)):
        ends = []
        for sign in (1.0, -1.0):
            moved = fields.copy()
            moved[c, n] += sign * h
            ends.append(objective.values(moved)[0][0])
        assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-8)


@pytest.mark.parametrize("most", [1.0, 3e3, 2e4])
def test_passes_in_portions_give_the_same_bits_and_hear_a_stop(monkeypatch, most):
    made, fields = random_model(11, "gate", 1.2, (3, 5))
    objective = unravelling(made, fields, 40)
    whole = objective.evaluate(fields)
    looks = []
    monkeypatch.setattr(module, "MOST", most)
    with watched(lambda: looks.append(1)):
        parts = objective.evaluate(fields)
    assert parts.probability == whole.probability
    assert parts.gradient.tobytes() == whole.gradient.tobytes()
    assert len(looks) > 2 * len(objective.strata)


@pytest.mark.parametrize("kind", ["gate", "states", "observable", "mixture"])
def test_the_mean_over_noise_is_the_value_of_the_lindbladian(kind):
    made, fields = random_model(14, kind, 0.5, (3, 6))
    objective = unravelling(made, fields, 400)
    truth = true_value(made, fields)
    found = [objective.sampled(fields, stream) for stream in range(1, 9)]
    errors = np.array([one.error for one in found])
    distances = np.array([one.value - truth for one in found])
    # chi^2 of eight estimates: between 1.3 and 22 with 99.9 % of all noise; times in strata make them better than claimed
    assert np.sum((distances / errors) ** 2) < 26.0
    assert abs(distances.mean()) < 3.0 * np.sqrt(np.mean(errors**2) / 8)
    assert errors.max() < 0.05
    assert np.trace(found[0].density).real == pytest.approx(1.0, abs=0.05)
    assert found[0].populations[-1].sum() == pytest.approx(1.0, abs=0.2)


def test_strata_have_the_weights_of_a_poisson_process():
    strata = drawn(np.array([0.4, 0.8]), 2.0, 500, 3, 0)
    assert sum(s.weight for s in strata) == pytest.approx(np.expm1(2.4), rel=1e-12)
    assert strata[1].weight == pytest.approx(2.4**2 / 2)
    kinds = np.concatenate([k for s in strata for k in s.kinds])
    assert abs(np.mean(kinds) - 2.0 / 3.0) < 0.07
    once = np.sort(np.concatenate(strata[0].times))
    # one in each interval
    assert np.array_equal(np.floor(once / 2.0 * once.size), np.arange(once.size))


def test_passes_take_every_column_through_every_slot_once():
    strata = drawn(np.array([3.0]), 1.0, 60, 5, 0)
    for stratum in strata:
        passes = passes_of(stratum, 4, 1.0, 2)
        whole = np.zeros((4, 2 * stratum.count))
        np.add.at(whole, passes.slot, passes.lengths)
        assert np.allclose(whole, 1.0, atol=1e-12)
        assert np.all(passes.lengths >= -1e-15)
        jumps = (passes.after >= 0).sum(axis=0)
        assert np.array_equal(jumps[::2], [t.size for t in stratum.times])


def deck_of(tmp_path, d, rate, **changes):
    """Return a deck with d levels, one control and one jump, and its matrices."""
    rng = np.random.default_rng(d)
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    matrices = {
        "H0": np.diag(np.arange(d) * 1.0).astype(complex),
        "controls/u": (a + a.conj().T) / 4.0,
        "jumps/k": np.sqrt(rate) * np.diag(np.sqrt(np.arange(1.0, d)), 1).astype(complex),
    }
    np.savez(tmp_path / "m.npz", **matrices)
    system = {"type": "matrices", "file": str(tmp_path / "m.npz"), "initial": "0", "target": "1"}
    deck = {
        "method": "qoc",
        "system": system,
        "time": {"T": 2.0, "slots": 10},
        "control": [{"name": "u", "guess": {"type": "expression", "value": "0.5"}, "bounds": [-2, 2]}],
        "dissipation": {"trajectories": {"count": 100}},
        "objective": {"threshold": 0.999},
        "optimizer": {"type": "lbfgs", "max_sweeps": 16},
        "run": {"seed": 7},
    }
    return deck | changes, matrices


@pytest.mark.parametrize("d", [4, 11])
def test_a_run_with_sampled_histories_claims_what_other_noise_knows(tmp_path, d):
    deck, matrices = deck_of(tmp_path, d, 0.1)
    with qsim.run(deck, figures="none") as results:
        scalars = dict(results.scalars)
        field, rho = results["control/u"], results["rho_final"]
    one, jump = np.eye(d), matrices["jumps/k"]
    loss = jump.conj().T @ jump
    state = np.zeros(d * d, complex)
    state[0] = 1.0
    for u in field:
        h = matrices["H0"] + u * matrices["controls/u"]
        a = -1j * (np.kron(h, one) - np.kron(one, h.T)) + np.kron(jump, jump.conj())
        a -= 0.5 * (np.kron(loss, one) + np.kron(one, loss.T))
        state = expm(0.2 * a) @ state
    truth = state.reshape(d, d)[1, 1].real
    p = scalars["probability"]
    assert abs(p.value - truth) <= p.error
    assert p.error < 0.1
    assert p.value > scalars["probability_guess"].value
    assert np.trace(rho).real == pytest.approx(1.0, abs=1e-12)
    if d == 4:
        # by density matrices
        assert scalars["probability_verified"].value == pytest.approx(truth, abs=1e-12)


def test_many_jumps_are_told_and_what_is_no_sum_is_refused(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("qsim.qoc.quantum.build.MOST_JUMPS", 0.01)
    deck, _ = deck_of(tmp_path, 3, 4.0, optimizer="none")
    with qsim.run(deck, figures="none"):
        pass
    assert "jumps are drawn per history" in caplog.text
    with pytest.raises(QsimError, match="knows no sampled histories"):
        qsim.run(deck | {"optimizer": {"type": "krotov"}})
    coherent = deck["system"] | {"initial": None, "target": {"density": str(tmp_path / "rho.npz")}}
    np.savez(tmp_path / "rho.npz", rho=np.eye(3) / 3.0)
    with pytest.raises(QsimError, match="no sum over histories"):
        qsim.run(deck | {"system": coherent | {"initial": "0"}, "dissipation": "no_jump"})

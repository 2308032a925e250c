"""Tiles found by trial: chosen once, kept, the same in a resumed run, and without effect beyond rounding."""

import json

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.trotter.evolution.layers import Evolver, Tile, tiles, tilings
from qsim.trotter.evolve import tuning
from qsim.trotter.model.hamiltonian import Model

DECK = {
    "system": {"spins": 16, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
    "initial": "neel",
    "evolve": {"outputs": [0.0, 0.1, 0.2], "integrator": "ts2", "dt": 0.05},
    "observe": ["sz"],
}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Trials of short runs, in a folder of their own, and a clock that favours tiles of 13 bits."""
    monkeypatch.setenv("QSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("QSIM_TUNE", "on")
    monkeypatch.setattr(tuning, "LEAST_STEPS", 4)
    tried = []

    def timed(problem, candidates):
        tried.append(len(candidates))
        return [0.5 if candidate[0].bits == 13 else 1.0 for candidate in candidates]

    monkeypatch.setattr(tuning, "_timed", timed)
    return tmp_path / "cache" / "tuning.json", tried


def bits(problem_choice):
    tiling = problem_choice.tiling
    return None if tiling is None else (tiling[0], [tile[2] for tile in tiling[1]])


@pytest.mark.parametrize(("kind", "most"), [("cpu", 34), ("cuda", 33)])
def test_every_tiling_covers_all_bits(kind, most):
    for spins in range(1, most + 1):
        found = tilings(spins, kind)
        assert found[0] == tiles(spins, kind)
        assert len({tuple(tiling) for tiling in found}) == len(found)
        for tiling in found:
            assert len(tiling) <= len(found[0])
            covered = list(range(tiling[0].bits))
            assert tiling[0].low == tiling[0].bits
            for tile in tiling[1:]:
                assert 0 < tile.low < tile.bits
                assert tile.low <= tile.high
                covered += range(tile.high, tile.high + tile.bits - tile.low)
            assert covered == list(range(spins))
    assert len(tilings(20, kind)) > 2


def couplings(spins):
    generator = np.random.default_rng(spins)
    J = np.triu(generator.uniform(-1, 1, (3, spins, spins)), 1) / np.sqrt(spins)
    return Model(spins, J + J.transpose(0, 2, 1), generator.uniform(-0.5, 0.5, (3, spins)))


def evolved(device, spins, tiling, precision="double"):
    psi = np.exp(2j * np.pi * np.random.default_rng(1).random(1 << spins)) * 2.0 ** (-spins / 2)
    evolver = Evolver(device, couplings(spins), psi, tiling=tiling, precision=precision)
    assert evolver.tiles == tiling
    evolver.advance("ts2", 0.1, 3)
    return device.to_host(evolver.psi)


@pytest.mark.parametrize("spins", [16, 17])
def test_tilings_differ_by_rounding_alone(spins):
    first, *others = [evolved(cpu(1), spins, tiling) for tiling in tilings(spins, "cpu")]
    assert others
    for psi in others:
        assert np.linalg.norm(psi - first) < 1e-13


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("spins", [20, 23, 25])
def test_tilings_of_a_gpu_differ_by_rounding_alone(cuda, spins, precision):
    first, *others = [evolved(cuda, spins, tiling, precision) for tiling in tilings(spins, "cuda")]
    assert others
    for psi in others:
        assert np.linalg.norm(psi - first) < (1e-13 if precision == "double" else 1e-5)


def test_the_fastest_is_taken_and_kept(cache, trotter):
    file, tried = cache
    usual = trotter.run(**{**DECK, "evolve": {**DECK["evolve"], "dt": 0.1}})  # too short for a trial
    assert (usual.integration.tiling, tried, file.exists()) == (None, [], False)
    monitor = Monitor(quiet=True)
    found = trotter.run(monitor=monitor, **DECK)
    assert bits(found.integration) == ("cpu", [13, 13])
    assert any("tiles 13+3/13" in line and str(file) in line for line in monitor.log)
    assert list(json.loads(file.read_text())["entries"].values()) == ["13+3/13"]
    again = trotter.run(**DECK)
    assert bits(again.integration) == ("cpu", [13, 13])
    assert len(tried) == 1
    np.testing.assert_array_equal(again.mean["sz"], found.mean["sz"])


def test_it_can_be_switched_off(cache, trotter, monkeypatch):
    _, tried = cache
    tuned = trotter.run(**DECK)
    monkeypatch.setenv("QSIM_TUNE", "off")
    usual = trotter.run(**DECK)
    assert usual.integration.tiling is None
    assert len(tried) == 1
    np.testing.assert_allclose(usual.mean["sz"], tuned.mean["sz"], rtol=0, atol=1e-13)


@pytest.mark.parametrize("entry", ["3+4/5", 7, None, ["13+3/13"], "14+2/14"])
def test_entries_that_make_no_sense_are_measured_again(cache, trotter, entry):
    file, tried = cache
    trotter.run(**DECK)
    content = json.loads(file.read_text())
    content["entries"] = dict.fromkeys(content["entries"], entry)
    file.write_text(json.dumps(content))
    found = trotter.run(**DECK)
    if entry == "14+2/14":  # the usual tiles
        assert (found.integration.tiling, len(tried)) == (None, 1)
    else:
        assert (bits(found.integration), len(tried)) == (("cpu", [13, 13]), 2)


def test_a_small_gain_is_none(cache, trotter, monkeypatch):
    monkeypatch.setattr(tuning, "_timed", lambda problem, candidates: [1.0] + [0.98] * (len(candidates) - 1))
    assert trotter.run(**DECK).integration.tiling is None


def test_without_a_folder_every_run_measures(cache, trotter, monkeypatch):
    file, tried = cache
    file.parent.write_text("no folder")
    monitor = Monitor(quiet=True)
    for _ in range(2):
        assert bits(trotter.run(monitor=monitor, **DECK).integration) == ("cpu", [13, 13])
    assert len(tried) == 2
    assert any("not kept" in line for line in monitor.log)


def test_a_resumed_run_keeps_its_tiles(cache, trotter, monkeypatch):
    """Whatever the cache says by then, and with all bits."""

    class StopAtOnce(Monitor):
        def _stop_reason(self, now, *, savable=True):
            return "stopped by the test"

    file, _ = cache
    whole = trotter.run(**DECK)
    saved = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAtOnce(quiet=True, checkpoint=saved), **DECK)
    file.unlink()
    monkeypatch.setenv("QSIM_TUNE", "off")
    state, _ = checkpoint.load(saved)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **DECK)
    assert resumed.integration.tiling == whole.integration.tiling
    np.testing.assert_array_equal(resumed.mean["sz"], whole.mean["sz"])
    np.testing.assert_array_equal(resumed.mean["norm"], whole.mean["norm"])


def test_tiles_of_another_kind_of_device_are_not_used(trotter):
    from dataclasses import replace

    from qsim.trotter.evolve.propagators.layers import LayerPropagator

    problem = trotter.build(**DECK)
    how = trotter.run(**DECK).integration
    for kind, expected in (("cuda", tiles(16, "cpu")), ("cpu", [Tile(13, 13, 13), Tile(10, 13, 13)])):
        chosen = replace(how, tiling=(kind, ((13, 13, 13), (10, 13, 13))))
        carrier = LayerPropagator(problem, problem.hamiltonian(), problem.initial(0), chosen)
        assert carrier.evolver.tiles == expected


def test_a_trial_times_every_candidate(trotter):
    problem = trotter.build(**DECK)
    candidates = tilings(16, "cpu")
    seconds = tuning._timed(problem, candidates)
    assert len(seconds) == len(candidates)
    assert min(seconds) > 0


@pytest.mark.gpu
def test_a_trial_on_a_gpu(cuda, trotter):
    deck = {**DECK, "system": {**DECK["system"], "spins": 20}}
    problem = trotter.build(device=cuda, **deck)
    candidates = tilings(20, "cuda")
    assert len(candidates) > 2
    assert all(0 < seconds < 1 for seconds in tuning._timed(problem, candidates))

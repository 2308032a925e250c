"""A run that was stopped and resumed has the bits of one that was not, in every section and every number."""

import copy

import numpy as np
import pytest

from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from qsim.qmc.run import final_state
from qsim.qmc.sampling import series

output = Method("qmc")

DECK = {
    "run": {"seed": 21},
    "system": {"atoms": [["Li", 0, 0, 0]], "charge": 1},
    "wavefunction": {
        "orbitals": {"source": "sto", "shells": [{"atom": "Li", "n": 1, "l": 0, "zeta": 2.7}]},
        "jastrow": {"J1": {"rcut": 5.0, "size": 4}, "J2": {"type": "pade", "b": 0.7}},
    },
    "series": [
        {"optimize": {"walkers": 40, "iterations": 3, "steps": 4, "warmup": 30, "timestep": 0.1}},
        {"vmc": {"walkers": 30, "blocks": 21, "steps": 3, "warmup": 30, "timestep": 0.1}},
        {
            "optimize": {
                "walkers": 30,
                "iterations": 2,
                "steps": 3,
                "warmup": 5,
                "target": "mixed",
                "timestep": 0.1,
            }
        },
        {"dmc": {"walkers": 24, "timesteps": [0.01, 0.005], "blocks": 20, "steps": 4, "warmup": 0.05}},
        {"vmc": {"walkers": 50, "blocks": 20, "steps": 2, "sweeps": 2, "warmup": 10}},
    ],
    "estimators": [{"radial_density": {"bins": 6, "rmax": 3.0}}],
}
TIMED = ("seconds", "walker_generations_per_second")


class StopAfter(Monitor):
    """Stops, with a checkpoint, at the so-and-so-manieth place where that is possible."""

    def __init__(self, calls, **settings):
        super().__init__(quiet=True, **settings)
        self.calls = calls

    def _stop_reason(self, now, *, savable=True):
        self.calls -= 1
        return "enough" if self.calls < 0 else ""


def numbers(result):
    """Return all arrays and scalars with their errors, but for wall times."""
    found = {name: array for name, array in output.arrays(result).items() if not name.endswith(TIMED)}
    for name, scalar in output.scalars(result).items():
        if name not in TIMED:
            found[name] = np.array([scalar.value, np.nan if scalar.error is None else scalar.error], float)
    return found


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    from tests.decks import Decks

    return numbers(Decks("qmc", tmp_path_factory.mktemp("whole")).run(**DECK))


@pytest.mark.parametrize("calls", [1, 3, 5, 6, 11, 27, 29, 34, 52, 70, 90])
def test_every_number_is_the_same_after_a_stop(qmc, calls, uninterrupted):
    """Stops in warm-ups, between iterations and blocks, and at the ends of sections."""
    file = qmc.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        qmc.run(monitor=StopAfter(calls, checkpoint=file), **DECK)
    state, _ = checkpoint.load(file)
    resumed = numbers(qmc.run(monitor=Monitor(quiet=True, restored=state), **DECK))
    assert resumed.keys() == uninterrupted.keys()
    for name, array in uninterrupted.items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)


def test_blocks_that_are_added_have_the_bits_of_a_longer_run(qmc):
    """Also where the first blocks end between two branchings, and a trial energy lasts a part of the time between them."""
    deck = copy.deepcopy({**DECK, "series": [DECK["series"][3]], "estimators": []})
    deck["series"][0]["dmc"] |= {"branch_every": 20, "steps": 7, "timesteps": [0.01]}
    more = copy.deepcopy(deck)
    more["series"][0]["dmc"]["blocks"] = 31
    state = final_state(qmc.run(**deck))
    found = numbers(qmc.run(monitor=Monitor(quiet=True, restored=state), **more))
    for name, array in numbers(qmc.run(**more)).items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_a_run_that_is_stopped_again_and_again_is_the_same(qmc, uninterrupted):
    file = qmc.folder / "c.ckpt.h5"
    state, result = None, None
    for _ in range(40):
        try:
            result = qmc.run(monitor=StopAfter(9, checkpoint=file, restored=copy.deepcopy(state)), **DECK)
            break
        except Stopped:
            state, _ = checkpoint.load(file)
    assert result is not None
    found = numbers(result)
    for name, array in uninterrupted.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


LONG = {
    "vmc": [{"vmc": {"walkers": 30, "blocks": 20, "steps": 4, "sweeps": 2, "warmup": 30}}],
    "dmc": [
        {"vmc": {"walkers": 70, "blocks": 1, "steps": 1, "warmup": 5, "timestep": 0.1}},
        {"dmc": {"timesteps": [0.01], "blocks": 20, "steps": 7, "warmup": 0.03, "branch_every": 4}},
    ],
    "optimize": [DECK["series"][0]],
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("calls", [4, 6, 9, 11, 30, 41, 43, 64])
@pytest.mark.parametrize("estimators", [[], DECK["estimators"]], ids=["energies", "estimators"])
def test_a_long_block_is_left_between_its_generations(qmc, kind, calls, estimators, monkeypatch):
    """Each generation is a chance to stop, in first and later blocks and iterations; blocks as a whole give the bits."""
    deck = {**DECK, "series": LONG[kind], "estimators": estimators}
    whole = numbers(qmc.run(**deck))
    monkeypatch.setattr(series, "PIECE", 0.0)
    file = qmc.folder / "c.ckpt.h5"
    try:
        qmc.run(monitor=StopAfter(calls, checkpoint=file), **deck)
        assert kind == "optimize"
        assert calls > 25
        return
    except Stopped:
        state, _ = checkpoint.load(file)
    resumed = numbers(qmc.run(monitor=Monitor(quiet=True, restored=state), **deck))
    for name, array in whole.items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)

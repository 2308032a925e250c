"""A search for bound states that was stopped and resumed has the bits of one that was not, wherever it stopped."""

import numpy as np

from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from tests.decks import Decks

output = Method("sturmian")

DECK = {
    "system": {"Z": 2},
    "grid": {"R": 14, "order": 8},
    "basis": "fedvr",
    "channels": {"L": 0, "S": 0, "l_max": 1},
    "task": {"type": "bound"},
    "scan": {"R": [12]},
}
TIMED = ("seconds", "rate", "per_second")


class StopAfter(Monitor):
    """Stops, with a checkpoint, at the so-and-so-manieth place where that is possible."""

    def __init__(self, calls, **settings):
        super().__init__(quiet=True, **settings)
        self.calls = calls

    def _stop_reason(self, now, *, savable=True):
        self.calls -= 1
        return "enough" if self.calls < 0 else ""


def numbers(result):
    found = {name: np.asarray(array) for name, array in output.arrays(result).items()}
    for name, scalar in output.scalars(result).items():
        if isinstance(scalar.value, int | float):
            found[name] = np.array([scalar.value, np.nan if scalar.error is None else scalar.error], float)
    return {name: array for name, array in found.items() if not name.endswith(TIMED)}


def test_every_number_is_the_same_after_a_stop(tmp_path):
    """Also after the states themselves: rough solutions with more partial waves begin from them."""
    decks, file = Decks("sturmian", tmp_path), tmp_path / "c.ckpt.h5"
    whole = numbers(decks.run(**DECK))
    places, stopped = [1, 6, 8, 9, 10, 13], 0
    for calls in places:
        try:
            decks.run(monitor=StopAfter(calls, checkpoint=file), **DECK)
        except Stopped:
            stopped += 1
        else:
            break
        state, _ = checkpoint.load(file)
        again = numbers(decks.run(monitor=Monitor(quiet=True, restored=state), **DECK))
        assert again.keys() == whole.keys()
        for name, array in whole.items():
            np.testing.assert_array_equal(again[name], array, err_msg=f"{name} after {calls}")
    assert stopped >= 4


def test_fewer_functions_are_the_same_whether_or_not_those_of_the_deck_were_needed_before(tmp_path):
    """A continued run makes them only for its scan."""
    deck = {
        "system": {"Z": 2},
        "grid": {"R": 12, "order": 10},
        "basis": {
            "type": "gsf",
            "generating": {"type": "yukawa", "alpha": 1.0},
            "energy": -0.9,
            "N": 10,
        },
        "channels": {"L": 0, "S": 0, "l_max": 1},
        "task": {"type": "bound"},
    }
    decks = Decks("sturmian", tmp_path)
    used, fresh = decks.build(**deck), decks.build(**deck)
    for l in used.ls:
        used.functions(l)
    for count in (6, 8, 12):
        one, other = used.with_(N=count), fresh.with_(N=count)
        for l in (0, 1):
            np.testing.assert_array_equal(one.functions(l).c, other.functions(l).c)

"""Checkpoints: exact round trips, atomic replacement, damage, changed decks; and stop signals."""

import gc
import os
import signal
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import ClassVar

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qsim.core.deck.blocks import Block
from qsim.core.errors import DeckError, FileError, Interrupted
from qsim.core.run.checkpoint import compatible, load, load_meta, save
from qsim.core.run.progress import Monitor
from qsim.core.run.signals import Signals


def same(a, b):
    """Equality in type and in every bit."""
    if isinstance(a, np.ndarray | np.generic):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return np.float64(a).tobytes() == np.float64(b).tobytes() or (a != a and b != b)
    return a == b


STATE = {
    "psi": np.array([[1 + 2j, -0.0], [np.nan, np.inf]]),
    "single": np.arange(5, dtype=np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(10)[::3],
    "bits": np.array([True, False]),
    "big endian": np.array([1, 2], dtype=">i4"),
    "words": np.array([["a", "βγ"], ["", "d"]]),
    "bytes array": np.array([b"a\0", b"bc"]),
    "dates": np.array(["2024-01-01"], dtype="M8[D]"),
    "long": np.array([1.0], dtype=np.longdouble),
    "nothing": np.zeros((0, 3)),
    "zero dimensional": np.array(3.5),
    "zero dimensional, big endian": np.array(1, dtype=">i2"),
    "number": np.float32(0.1),
    "flag": np.bool_(True),
    "nested": {"list": [1, 2.5, None, "µ", [np.arange(3), {"deep": (1, (2,), [])}]], "empty": {}},
    "rng": {"state": 2**127 + 1, "negative": -(2**80)},
    "tiny": 5e-324,
    "true": True,
    "raw": b"\x00\xff",
    "z": -0.0 + 1j,
    "#array": "a key that looks like a tag",
    "levels": {0: 1.0, (1, 2): None, "three": 3},
}


def test_round_trip_is_exact(tmp_path):
    meta = {"method": "qoc", "physics": {"a": [1, {"b": None}]}, "elapsed": 1.25}
    path = save(tmp_path / "a.ckpt.h5", STATE, meta)
    state, read = load(path)
    for key, value in STATE.items():
        assert same(value, state[key]), key
    assert list(state) == list(STATE)
    assert read == load_meta(path) == meta
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.ckpt.h5"]


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | hnp.arrays(hnp.scalar_dtypes() | hnp.unicode_string_dtypes(), hnp.array_shapes(min_dims=0, min_side=0))
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=4), TREES, max_size=3))
def test_round_trip_of_any_state(tmp_path_factory, state):
    path = tmp_path_factory.mktemp("any") / "a.h5"
    save(path, state, {})
    assert same(load(path)[0], state)


def test_device_arrays_are_fetched(tmp_path):
    class OnDevice:
        __cuda_array_interface__ = {}  # noqa: RUF012
        dtype = np.dtype(float)

        def get(self):
            return np.arange(3.0)

    state, _ = load(save(tmp_path / "a.h5", {"psi": OnDevice()}, {}))
    assert same(state["psi"], np.arange(3.0))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, r"state\.a\.b is a set"),
        (np.array([{}]), r"state\.a\.b is an array of object"),
        (np.zeros(1, dtype=[("x", float)]), "array of"),
        (lambda: 0, "is a function"),
    ],
)
def test_other_types_are_refused_by_name(tmp_path, value, message):
    with pytest.raises(TypeError, match=message):
        save(tmp_path / "a.h5", {"a": {"b": value}}, {})
    assert list(tmp_path.iterdir()) == []


def test_previous_checkpoint_survives_a_failed_write(tmp_path, monkeypatch):
    path = save(tmp_path / "a.h5", {"step": 1}, {})

    def fail(*_args):
        raise OSError("disk full")

    monkeypatch.setattr("qsim.core.run.checkpoint._write_text", fail)
    with pytest.raises(FileError, match="disk full"):
        save(path, {"step": 2}, {})
    assert load(path)[0] == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.h5"]


def test_new_checkpoint_replaces_the_previous(tmp_path):
    path = save(tmp_path / "a.h5", {"step": 1, "x": np.zeros(5)}, {})
    save(path, {"step": 2}, {})
    assert load(path)[0] == {"step": 2}


def test_missing_checkpoint(tmp_path):
    with pytest.raises(FileError, match="no checkpoint") as caught:
        load(tmp_path / "none.h5")
    assert "without --resume" in caught.value.hint


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.99])
def test_truncated_checkpoint(tmp_path, fraction):
    path = save(tmp_path / "a.h5", STATE, {})
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(FileError):
        load(path)


def test_every_flipped_byte_is_harmless_or_noticed(tmp_path):
    """No damage may give a state that differs from the saved one."""
    reference = {"psi": np.arange(40.0), "step": 3, "name": "abc"}
    path = save(tmp_path / "a.h5", reference, {"method": "m"})
    content = path.read_bytes()
    noticed = 0
    for position in range(0, len(content), 61):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            state, meta = load(path)
        except FileError:
            noticed += 1
        else:
            assert same(state, reference)
            assert meta == {"method": "m"}
    assert noticed > 0


def test_flipped_bit_in_an_array_is_noticed(tmp_path):
    path = save(tmp_path / "a.h5", {"psi": np.arange(100.0)}, {})
    with h5py.File(path) as content:
        offset = content["arrays/0"].id.get_offset()
    # Without the sums of the whole file.
    h5py.File(path, "r+").close()
    damaged = bytearray(path.read_bytes())
    damaged[offset + 80] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(FileError, match="checksum"):
        load(path)


def test_results_file_and_newer_format_are_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as content:
        content.attrs["format"] = "qsim"
    with pytest.raises(FileError, match="not a qsim checkpoint"):
        load(path)
    save(path, {}, {})
    with h5py.File(path, "r+") as content:
        content.attrs["format_version"] = [2, 0]
    with pytest.raises(FileError, match=r"format 2\.0"):
        load(path)


# ------------------------------------------------------------------------------------- compatibility


class Loaded:
    """What `compatible` uses of a loaded deck."""

    deck = SimpleNamespace(method="qoc")

    def __init__(self, **physics):
        self.content = {"method": "qoc", "time": {"T": 1.0, "steps": 10}, **physics}

    def physics(self):
        return self.content


META = {"method": "qoc", "physics": Loaded().physics(), "device": "cpu", "precision": "double"}


def test_a_deck_of_an_older_version_is_compatible():
    """Names of keys that have changed since, and keys that there were not, are the same deck; another value is not."""

    class Grid(Block):
        OLD_NAMES: ClassVar[dict[str, str]] = {"lmax": "l_max"}
        l_max: int = 4
        more: float | None = None

    deck = SimpleNamespace(method="counter", grid=Grid(l_max=8), items=[Grid(l_max=2)])
    physics = {"grid": deck.grid.model_dump(), "items": [item.model_dump() for item in deck.items]}
    loaded = SimpleNamespace(deck=deck, physics=lambda: physics)
    before = {"method": "counter", "physics": {"grid": {"lmax": 8}, "items": [{"lmax": 2}]}}
    assert compatible(before, loaded, "cpu") == []
    before["physics"]["items"][0]["lmax"] = 3
    with pytest.raises(DeckError, match=r"has changed since the checkpoint was written: items\.0\.l_max$"):
        compatible(before, loaded, "cpu")


def test_a_checkpoint_of_another_seed_is_refused():
    made = {**META, "seed": 11}
    with pytest.raises(DeckError, match=r"run\.seed \(11 then, 12 now\)"):
        compatible(made, Loaded(), "cpu", seed=12)
    (notice,) = compatible(made, Loaded(), "cpu", seed=12, allow_changes=True)
    assert "run.seed" in notice
    for seed in (11, None):
        assert compatible(made, Loaded(), "cpu", seed=seed) == []


def test_same_deck_is_compatible():
    assert compatible(META, Loaded(), "cpu", precision="double", version="1.0") == []


def test_changed_device_is_only_reported():
    assert compatible(META, Loaded(), "cuda:0") == [
        "device was cpu when the checkpoint was written, now it is cuda:0"
    ]


def test_changed_problem_is_refused_with_its_keys():
    changed = Loaded(time={"T": 2.0, "steps": 10}, grid={"points": 5})
    with pytest.raises(DeckError, match=r"time\.T") as caught:
        compatible(META, changed, "cpu")
    assert "grid" in str(caught.value)
    assert "time.steps" not in str(caught.value)
    assert "--allow-changes" in caught.value.hint
    (notice,) = compatible(META, changed, "cpu", allow_changes=True)
    assert "time.T" in notice


def test_free_keys_may_change():
    assert compatible(META, Loaded(time={"T": 2.0, "steps": 20}), "cpu", free=("time",)) == []
    with pytest.raises(DeckError, match=r"time\.steps"):
        compatible(META, Loaded(time={"T": 2.0, "steps": 20}), "cpu", free=("time.T",))


def test_free_keys_may_have_a_part_that_is_anything():
    changed = Loaded(time={"T": 2.0, "steps": 20})
    assert compatible(META, changed, "cpu", free=("*.T", "*.steps")) == []
    with pytest.raises(DeckError, match=r"time\.steps") as caught:
        compatible(META, changed, "cpu", free=("*.T",))
    assert "time.T" not in str(caught.value)


def test_checkpoint_of_another_method_is_refused():
    with pytest.raises(DeckError, match="belongs to method 'qmc', not 'qoc'"):
        compatible({**META, "method": "qmc"}, Loaded(), "cpu")


# ------------------------------------------------------------------------------------------- signals


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT"])
def test_first_signal_sets_the_flag_and_handlers_come_back(name, capfd):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with Signals() as signals:
        assert signals.stop is None
        os.kill(os.getpid(), number)
        assert signals.stop == name
    assert signal.getsignal(number) is before
    assert ("Ctrl-C again" in capfd.readouterr().err) == (name == "SIGINT")


def test_a_second_interrupt_raises_nothing_and_a_third_one_is_as_before(capfd):
    ours = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell ignores Ctrl-C for its background jobs
    try:
        with Signals() as signals:
            for at_once in (False, True):
                os.kill(os.getpid(), signal.SIGINT)
                assert (signals.stop, signals.at_once) == ("SIGINT", at_once)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, ours)
    assert "press Ctrl-C again to end the process" in capfd.readouterr().err


def test_interrupts_in_callbacks_of_the_interpreter_are_not_lost(monkeypatch):
    """An exception in a weak reference's callback, a ``__del__`` or a callback of the collector is printed and forgotten."""

    class Thing:
        pass

    def interrupt(*_):
        if not signals.at_once:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    def weak():
        thing = Thing()
        reference = weakref.ref(thing, interrupt)
        del thing
        return reference

    def collected():
        gc.callbacks.append(interrupt)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(interrupt)

    def deleted():
        monkeypatch.setattr(Thing, "__del__", interrupt, raising=False)
        Thing()

    lost = []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    for happens in (weak, collected, deleted):
        with Signals() as signals:
            monitor = Monitor(signals=signals, quiet=True)
            happens()
            assert lost == []
            assert signals.at_once
            with pytest.raises(Interrupted, match="second Ctrl-C") as caught:
                monitor.poll(dict)
            assert caught.value.exit_code == 130


def test_interrupt_after_a_term_signal_still_only_asks():
    with Signals() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.stop == "SIGTERM"


def test_nothing_happens_outside_the_main_thread():
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work():
        with Signals() as signals:
            seen.append((signals.stop, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]

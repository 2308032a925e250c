"""The time limit of what processes wait for."""

import threading
import time
from types import SimpleNamespace

import pytest

from qsim.core.device import patience
from qsim.core.device.patience import Patience, time_limit
from qsim.core.errors import DeviceError


@pytest.fixture
def watched(monkeypatch):
    """A watch with a limit of 40 ms, and the codes with which it would have ended the processes."""
    codes = []

    def leave(code):
        codes.append(("exit", code))
        # the thread of the watch does nothing more; the process goes on
        threading.Event().wait()

    monkeypatch.setattr(patience.os, "_exit", leave)
    monkeypatch.setattr(patience, "FORWARDED", 0.0)
    return Patience(1, 3, 0.04, lambda code: codes.append(("abort", code))), codes


def within(seconds, what):
    until = time.monotonic() + seconds
    while not what() and time.monotonic() < until:
        time.sleep(0.01)
    return what()


def test_an_exchange_beyond_the_limit_ends_all_with_a_message(watched, capsys):
    watch, codes = watched
    with watch.during("numbers of all ranks"):
        assert within(5, lambda: len(codes) == 2)
    assert codes == [("abort", 4), ("exit", 4)]
    told = capsys.readouterr().err
    assert (
        "qsim: error: rank 1 of 3 has waited 0 s for other ranks (numbers of all ranks): one of them" in told
    )
    assert "--resume continues" in told


def test_where_one_works_alone_the_others_only_say_so_once(watched, capsys):
    watch, codes = watched
    with watch.during("bcast", limited=False):
        time.sleep(0.2)
    assert not codes
    assert capsys.readouterr().err.count("has waited 0 s for other ranks (bcast)") == 1
    # quick exchanges, however many, are none that wait
    until = time.monotonic() + 0.15
    while time.monotonic() < until:
        with watch.during("numbers of all ranks"):
            time.sleep(0.002)
    assert not codes


def test_an_exchange_of_gpus_that_does_not_end_is_noticed(watched, capsys):
    watch, codes = watched
    watch.expect(SimpleNamespace(done=True))
    time.sleep(0.15)
    assert not codes
    watch.expect(SimpleNamespace(done=False))
    assert within(5, lambda: len(codes) == 2)
    assert "(an exchange between GPUs)" in capsys.readouterr().err


def test_the_limit_is_that_of_the_environment():
    assert time_limit({}) == patience.LIMIT
    assert time_limit({patience.VARIABLE: " 2.5 "}) == 2.5
    assert time_limit({patience.VARIABLE: "0"}) == 0.0
    for text in ("-1", "soon", "nan"):
        with pytest.raises(DeviceError, match="no number of seconds"):
            time_limit({patience.VARIABLE: text})

"""Files in one step, and streams that take everything, piece by piece."""

import errno
import io
import os
import signal
import subprocess
import sys

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsim.core.errors import FileError
from qsim.core.results import atomic
from qsim.core.results.atomic import PartFile, replacing, write_text
from qsim.core.results.hdf5 import new_dataset, save_datasets
from qsim.core.run import streams
from qsim.core.run.progress import Monitor
from qsim.core.run.signals import Signals

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "read", "truncate"]), st.integers(0, 40), st.binary(min_size=1, max_size=20)
    ),
    max_size=20,
)


@given(STEPS)
def test_a_part_file_is_a_file(tmp_path_factory, steps):
    """The same calls on a part file and in memory give the same bytes."""
    path = tmp_path_factory.mktemp("part") / "a"
    part, memory = PartFile(path), io.BytesIO()
    for what, place, data in steps:
        part.seek(place)
        if what == "write":
            memory.seek(place)
            memory.write(data)
            assert part.write(data) == len(data)
        elif what == "truncate" and place <= len(memory.getvalue()):
            memory.truncate(place)
            part.truncate(place)
        else:
            found = bytearray(len(data))
            part.readinto(found)
            there = memory.getvalue()[place : place + len(data)]
            assert found == there + bytes(len(data) - len(there))
    part.sync()
    part.close()
    assert path.read_bytes() == memory.getvalue()


@pytest.fixture
def full(monkeypatch):
    """Let a disk be full after so many bytes; return the setter."""
    state = {"left": 10**9}
    real = os.pwrite

    def pwrite(fd, data, position):
        taken = min(len(data), state["left"])
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        state["left"] -= taken
        return real(fd, data[:taken], position)

    monkeypatch.setattr(os, "pwrite", pwrite)
    return lambda left: state.update(left=left)


@pytest.mark.parametrize("left", [0, 1, 100, 3000, 80_000, 300_000])
def test_hdf5_never_sees_a_full_disk(tmp_path, full, left):
    """What failed is known, the file is gone, and HDF5 can close what it has."""
    full(left)
    with (
        pytest.raises(OSError, match="No space left"),
        replacing(tmp_path / "a.h5") as part,
        h5py.File(part, "w") as file,
    ):
        for number in range(20):
            group = file.create_group(f"g{number}", track_order=True)
            group["x"] = np.random.default_rng(number).random(5000)
            group["x"].attrs["units"] = "au"
            group["t"] = "text"
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_filled_piece_by_piece_fails_at_once(tmp_path, full):
    with (
        pytest.raises(FileError, match="No space left"),
        new_dataset(tmp_path / "x.h5", (10**6,), float) as out,
    ):
        for lo in range(0, 10**6, 10**4):
            full(300_000 - 8 * lo)
            assert lo < 5 * 10**4
            out[lo : lo + 10**4] = 1.0
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_that_is_being_written_can_be_read(tmp_path):
    with new_dataset(tmp_path / "x.h5", (10,), float) as out:
        out[2:5] = np.arange(3.0)
        assert np.array_equal(out[3:5], [1.0, 2.0])
        assert (out.shape, out.dtype) == ((10,), np.dtype(float))
        assert not (tmp_path / "x.h5").exists()
    save_datasets(tmp_path / "y.h5", {"a": np.arange(3)})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.h5", "y.h5"]


def test_a_failure_of_fsync_is_a_failure(tmp_path, monkeypatch):
    def broken(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(FileError, match="Input/output error"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("links", [True, False])
def test_nothing_that_came_meanwhile_is_replaced_and_nothing_is_lost(tmp_path, monkeypatch, links):
    if not links:

        def no_links(*arguments):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_links)
    path = tmp_path / "a"
    with (
        pytest.raises(FileExistsError, match=r"is in .*\.part") as error,
        replacing(path, overwrite=False) as part,
    ):
        part.write(b"new")
        path.write_text("precious")
    assert path.read_text() == "precious"
    (kept,) = tmp_path.glob("*.part")
    assert str(kept) in str(error.value)
    assert kept.read_bytes() == b"new"


def test_temporary_names_are_those_of_the_process(tmp_path):
    with replacing(tmp_path / "a") as one, replacing(tmp_path / "a") as two:
        assert one.path != two.path
        assert f"-{os.getpid()}" in one.path.name
        assert one.path.name.endswith(".part")


def test_two_ctrl_c_while_hdf5_writes(tmp_path):
    """They raise nothing there: the file is complete."""

    class Slow(PartFile):
        def _write_all(self, view):
            if not signals.at_once:
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
            super()._write_all(view)

    with Signals() as signals, pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "PartFile", Slow)
        with replacing(tmp_path / "a.h5") as part, h5py.File(part, "w") as file:
            file["x"] = np.arange(10)
    assert signals.at_once
    with h5py.File(tmp_path / "a.h5") as file:
        assert np.array_equal(file["x"][()], np.arange(10))


# --- streams --------------------------------------------------------------------------------------


def test_a_patient_file_remembers_and_goes_on():
    fd = os.open("/dev/full", os.O_WRONLY)
    try:
        raw = streams.PatientFile(fd)
        text = io.TextIOWrapper(io.BufferedWriter(raw), errors="backslashreplace", line_buffering=True)
        text.write("α\n" * 10_000)
        text.flush()
        assert raw.error.errno == errno.ENOSPC
    finally:
        os.close(fd)


class Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("stream", ["broken", "closed", "none"])
def test_a_monitor_goes_on_without_a_listener(monkeypatch, stream, terminal):
    """As a library, too, where the streams are those of the program."""
    monkeypatch.setenv("TERM", "xterm")
    out = Broken()
    out.terminal = terminal
    if stream == "closed":
        out.close()
    monkeypatch.setattr(sys, "stderr", None if stream == "none" else out)
    with Monitor() as monitor:
        monitor.begin(100, "steps")
        for done in range(1, 101):
            monitor.step(done)
        monitor.warn("heard by nobody")
    assert monitor.warnings == ["heard by nobody"]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii", "utf_8", None])
def test_json_is_what_the_encoding_takes(monkeypatch, encoding):
    import json

    from qsim.core.text import json_text

    class Stream:
        pass

    Stream.encoding = encoding
    monkeypatch.setattr(sys, "stdout", Stream())
    text = json_text({"title": "αβ ü"})
    text.encode(encoding or "ascii")
    assert json.loads(text) == {"title": "αβ ü"}


def test_nohup_is_respected():
    """A SIGHUP that is ignored stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.stop is None
            os.kill(os.getpid(), signal.SIGTERM)
            assert signals.stop == "SIGTERM"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_only_runs_are_stopped_before_they_begin():
    """`qsim check` or a program that imports qsim keep the handlers that they have."""
    script = (
        "import signal, sys; from qsim.core.run.signals import before_the_work;"
        "before_the_work(sys.argv[1:], {'qoc': ''});"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)"
    )
    for words, default in ((["check"], True), (["qoc", "deck.yaml"], False), (["--help"], True)):
        done = subprocess.run(
            [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == str(default)

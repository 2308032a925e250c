"""Locks of outputs: held, dead, of other hosts, without flock, and files that are no locks."""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qsim.core.errors import FileError
from qsim.core.results.atomic import temporary_name
from qsim.core.run.files import lock as module
from qsim.core.run.files.lock import EXPIRY, OutputLock, Owner, held, remove_dead


@pytest.fixture
def dead():
    """Return an owner of this system whose process has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return dataclasses.replace(Owner.this(), pid=process.pid, started=1)


@pytest.fixture
def zombie():
    """Yield an owner of this system whose process has ended, while its parent has not asked for its exit code."""
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        owner = dataclasses.replace(Owner.this(), pid=process.pid, started=module._status(process.pid)[1])
        # closed by its end, shortly before the system counts it as ended
        process.stdout.read()
        end = time.monotonic() + 10
        while module._status(process.pid)[0] not in ("Z", "") and time.monotonic() < end:
            time.sleep(0.01)
        yield owner


@pytest.fixture(params=[True, False], ids=["flock", "no flock"])
def flock(request, monkeypatch):
    """Work on a file system with and without flock."""
    if not request.param:
        monkeypatch.setattr(module, "_flock", lambda fd: None)
        monkeypatch.setattr(module, "SETTLING", 0.0)
    return request.param


def leave(path, owner, age=0.0):
    path.write_bytes(owner.content())
    then = time.time() - age
    os.utime(path, (then, then))


def test_a_lock_names_its_owner_and_goes_with_it(tmp_path, flock):
    with OutputLock(tmp_path / "run") as lock:
        assert lock.path == tmp_path / "run.lock"
        found = json.loads(lock.path.read_text())
        assert (found["pid"], found["host"]) == (os.getpid(), os.uname().nodename)
        assert lock.notices == []
    assert list(tmp_path.iterdir()) == []


EVERY_LINE = """
import os, signal, sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

from qsim.core.run import pipeline, signals
from qsim.core.run.files import lock

stem = Path(sys.argv[1]) / "run"
job = SimpleNamespace(files=SimpleNamespace(stem=stem, results=stem.with_suffix(".h5")))
watched = {lock.__file__, pipeline.__file__}


def locked_and_stopped(line):
    left = line

    def trace(frame, event, argument):
        nonlocal left
        if frame.f_code.co_filename not in watched:
            return None
        left -= event == "line"
        if event == "line" and left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return trace

    signals.before_the_work(["counter"], ["counter"])
    sys.settrace(trace)
    with ExitStack() as stack:
        pipeline._locked(job, stack)
    sys.settrace(None)
    os._exit(0)


os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # 'stopped by SIGTERM' a hundred times
for line in range(1, 1000):
    if (child := os.fork()) == 0:
        locked_and_stopped(line)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(line, code, os.listdir(stem.parent))
    if code == 0:
        break
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_stop_request_at_any_line_leaves_no_lock(tmp_path):
    """From the moment before the lock is made to the one after it is gone."""
    done = subprocess.run(
        [sys.executable, "-c", EVERY_LINE, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    *stopped, last = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert len(stopped) > 40
    assert [found for found in stopped if found[1:] != ["75", "[]"]] == []
    assert last[1:] == ["0", "[]"]


def test_a_second_run_is_refused_by_name(tmp_path, flock):
    with OutputLock(tmp_path / "run"):
        with pytest.raises(FileError, match="another run is writing") as error, OutputLock(tmp_path / "run"):
            pass
        assert f"process {os.getpid()} on {os.uname().nodename}, since 20" in str(error.value)
        assert "-o FILE" in error.value.hint
        with OutputLock(tmp_path / "other"):
            pass
        assert (tmp_path / "run.lock").exists()


def test_the_lock_of_a_dead_run_is_taken_over_with_what_it_was_writing(tmp_path, flock, dead):
    leave(tmp_path / "run.lock", dead)
    mark = temporary_name(tmp_path / "x").split(".")[1].rpartition("-")[0]
    part = tmp_path / f"run.h5.{mark}-{dead.pid}.part"
    others = [tmp_path / f"run.h5.{mark}-1.part", tmp_path / f"other.h5.{mark}-{dead.pid}.part"]
    for path in (part, *others):
        path.write_text("")
    with OutputLock(tmp_path / "run") as lock:
        assert f"of a run that was killed (process {dead.pid} on" in lock.notices[0]
        assert part.name in lock.notices[0]
        assert not part.exists()
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the system does not tell states of processes"
)
def test_a_run_whose_exit_code_nobody_has_asked_for_is_dead(tmp_path, flock, zombie):
    os.kill(zombie.pid, 0)
    assert zombie.started
    leave(tmp_path / "run.lock", zombie)
    assert held(tmp_path / "run") is None
    with OutputLock(tmp_path / "run") as lock:
        assert f"process {zombie.pid} on" in lock.notices[0]


def test_without_states_of_processes_flock_alone_tells_what_lives(tmp_path, flock, zombie, monkeypatch):
    monkeypatch.setattr(module, "_status", lambda pid: ("", 0))
    leave(tmp_path / "run.lock", zombie)
    # Whoever only looks cannot know; whoever tries to take it does.
    assert held(tmp_path / "run") == zombie
    if flock:
        with OutputLock(tmp_path / "run") as lock:
            assert lock.notices
    else:
        with pytest.raises(FileError, match="another run is writing"), OutputLock(tmp_path / "run"):
            pass


@pytest.mark.parametrize("pid", [2**22 + 1, 0, -1, 2**70])
def test_of_a_process_that_does_not_exist_nothing_is_known(pid):
    assert module._status(pid) == ("", 0)
    assert not dataclasses.replace(Owner.this(), pid=pid).lives_here()


def test_what_dead_runs_left_in_a_folder_goes_and_all_else_stays(tmp_path, flock, dead, zombie):
    mark = temporary_name(tmp_path / "x").split(".")[1].rpartition("-")[0]
    for name, owner in (("run", dead), ("index", zombie)):
        leave(tmp_path / f"{name}.lock", owner)
        # under the lock of the index, decks are written
        for part in (f"{name}.h5", "deck-0003.yaml"):
            (tmp_path / f"{part}.{mark}-{owner.pid}.part").write_text("")
    there = dataclasses.replace(Owner.this(), host="node7", boot="another", pid=4711)
    leave(tmp_path / "far.lock", there, age=EXPIRY - 100)
    leave(tmp_path / "gone.lock", there, age=EXPIRY + 5)
    stay = [
        f"far.h5.{mark}-4711.part",
        "poetry.lock",
        "made-now.lock",
        "deck-0003.yaml",
        f"x.h5.{mark}-1.part",
    ]
    for name in stay:
        (tmp_path / name).write_text("" if name == "made-now.lock" else "precious")
    (tmp_path / "folder.lock").mkdir()
    with OutputLock(tmp_path / "mine"):
        remove_dead(tmp_path)
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == sorted([*stay, "far.lock", "folder.lock", "mine.lock"])


def test_a_number_that_was_given_to_another_process_is_no_life(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_flock", lambda fd: None)
    leave(tmp_path / "run.lock", dataclasses.replace(Owner.this(), started=1))
    with OutputLock(tmp_path / "run") as lock:
        assert lock.notices


def test_a_run_of_another_host_counts_as_alive_until_its_lock_expires(tmp_path, flock):
    there = dataclasses.replace(Owner.this(), host="node7", boot="another", pid=4711)
    leave(tmp_path / "run.lock", there, age=EXPIRY - 100)
    with pytest.raises(FileError, match="process 4711 on node7") as error, OutputLock(tmp_path / "run"):
        pass
    assert "remove" in error.value.hint
    assert "wait 2 min" in error.value.hint
    leave(tmp_path / "run.lock", there, age=EXPIRY + 5)
    with OutputLock(tmp_path / "run") as lock:
        assert "node7" in lock.notices[0]
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_renewed(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RENEWAL", 0.05)
    with OutputLock(tmp_path / "run") as lock:
        os.utime(lock.path, (1, 1))
        end = time.monotonic() + 10
        while lock.path.stat().st_mtime < 1000 and time.monotonic() < end:
            time.sleep(0.02)
        assert lock.path.stat().st_mtime > 1000


def test_a_lock_that_another_host_has_taken_is_left_alone(tmp_path):
    with OutputLock(tmp_path / "run") as lock:
        lock.path.write_bytes(dataclasses.replace(Owner.this(), host="node7").content())
    assert lock.path.exists()


@pytest.mark.parametrize("content", ["precious", "{}", "[1]", '{"kind": "qsim-lock"}', "[" * 5000])
def test_a_file_that_is_no_lock_is_left_alone(tmp_path, content):
    path = tmp_path / "run.lock"
    path.write_text(content)
    with pytest.raises(FileError, match="is not a lock of qsim"), OutputLock(tmp_path / "run"):
        pass
    assert path.read_text() == content


@pytest.mark.parametrize("make", ["mkdir", "fifo", "link"])
def test_what_is_no_file_is_left_alone(tmp_path, make):
    path = tmp_path / "run.lock"
    {"mkdir": path.mkdir, "fifo": lambda: os.mkfifo(path), "link": lambda: path.symlink_to("no")}[make]()
    with pytest.raises(FileError, match="is not a lock of qsim"), OutputLock(tmp_path / "run"):
        pass
    assert os.path.lexists(path)


def test_a_folder_that_takes_no_files_is_an_error(tmp_path):
    with (
        pytest.raises(FileError, match="cannot write into the output folder"),
        OutputLock(tmp_path / "no/run"),
    ):
        pass


def test_names_of_owners_are_printable():
    odd = dataclasses.replace(Owner.this(), host="a\x1b[2J" + "b" * 200)
    assert "\x1b" not in str(odd)
    assert len(str(odd)) < 250

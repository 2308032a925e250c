"""Systems without what only Linux has: a run does without it.

macOS has no affinity masks, control groups, `/proc` and `/sys`; Windows has, besides, no `fcntl`, no users and fewer signals. The
process of a test hides these before it imports qsim. What cannot be hidden (file names, line ends, renaming of open files) is
not tested here.
"""

import json
import os
import subprocess
import sys

import pytest

HIDE = """
import builtins, importlib.abc, io, os, signal, sys
import numpy, scipy.linalg, h5py, numba, matplotlib, pydantic, yaml, click, rich.console, multiprocessing  # these may use all
import matplotlib.backends.backend_agg, matplotlib.figure, concurrent.futures, tempfile, subprocess, threadpoolctl

WORDS = sys.argv.pop(1).split(",")
BLOCKED = {word.removeprefix("module:") for word in WORDS if word.startswith("module:")}
NAMES = [word.split(".") for word in WORDS if "." in word]
for module, name in NAMES:
    if hasattr(sys.modules[module], name):
        delattr(sys.modules[module], name)
for name in BLOCKED:
    sys.modules[name] = None  # importing it fails


def hidden(path):
    if "files" not in WORDS or not isinstance(path, (str, os.PathLike)):
        return False
    name = os.fspath(path)
    return str(name).startswith(("/proc", "/sys")) and name != "/proc/self/maps"  # threadpoolctl has a way for each system


def guard(function):
    def guarded(path, *arguments, **options):
        if hidden(path):
            raise FileNotFoundError(2, "hidden", os.fspath(path))
        return function(path, *arguments, **options)
    return guarded


io.open = builtins.open = guard(builtins.open)
os.stat, os.listdir, os.scandir = guard(os.stat), guard(os.listdir), guard(os.scandir)

import qsim.core.device.hardware as hardware
from qsim.__main__ import main
"""
MAC = "files,os.sched_getaffinity,os.sched_setaffinity,os.posix_fallocate,os.pipe2,os.getrandom"
WINDOWS = f"{MAC},module:fcntl,module:resource,module:pwd,os.fchmod,os.getuid,os.geteuid,os.statvfs,os.sysconf,os.fork"
WINDOWS += ",os.register_at_fork,os.O_NOFOLLOW,os.O_CLOEXEC,os.O_DIRECTORY"
WINDOWS += ",signal.SIGHUP,signal.SIGUSR1,signal.SIGXCPU,signal.pthread_sigmask"


def run(hidden, code, *words, **environment):
    return subprocess.run(
        [sys.executable, "-c", HIDE + code, hidden, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "QSIM_DEVICE": "cpu", **environment},
        timeout=300,
    )


@pytest.fixture
def deck(tmp_path):
    path = tmp_path / "ring.yaml"
    path.write_text(
        "method: trotter\ntitle: a ring\nsystem: {spins: 4, terms: [{type: heisenberg, lattice: ring, J: 1.0}]}\n"
        "initial: neel\nevolve: {t_final: 3.0, outputs: 31, accuracy: 1e-6}\nobserve: [{sz: all}, imbalance]\n"
        "run: {seed: 1}\n",
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    "hidden",
    [pytest.param(MAC, id="macOS"), pytest.param(WINDOWS, id="Windows", marks=pytest.mark.exhaustive)],
)
def test_a_run_does_without_what_only_linux_has(hidden, deck, tmp_path):
    reply = run(hidden, "sys.exit(main())", "trotter", deck, "-o", tmp_path / "there.h5")
    assert reply.returncode == 0, reply.stderr
    assert "Traceback" not in reply.stderr
    there = json.loads((tmp_path / "there.summary.json").read_text("utf-8"))
    assert (tmp_path / "there.overview.png").stat().st_size > 1000
    assert run("files", "sys.exit(main())", "trotter", deck, "-o", tmp_path / "here.h5").returncode == 0
    here = json.loads((tmp_path / "here.summary.json").read_text("utf-8"))
    assert there["scalars"]["error_estimate"] == here["scalars"]["error_estimate"]
    assert not list(tmp_path.glob("*.lock"))
    assert not list(tmp_path.glob("*.part"))
    again = run(hidden, "sys.exit(main())", "trotter", deck, "-o", tmp_path / "there.h5")
    assert again.returncode == 6  # nothing is overwritten
    assert (
        run(hidden, "sys.exit(main())", "trotter", deck, "-o", tmp_path / "there.h5", "--force").returncode
        == 0
    )


@pytest.mark.parametrize("hidden", [MAC, WINDOWS], ids=["macOS", "Windows"])
def test_the_machine_is_described(hidden):
    reply = run(hidden, "sys.exit(main())", "info", "--json")
    assert reply.returncode == 0, reply.stderr
    found = json.loads(reply.stdout)
    assert found["threads"] >= 1
    assert found["cpu"]


@pytest.mark.parametrize("hidden", [MAC, WINDOWS], ids=["macOS", "Windows"])
def test_a_stop_request_writes_a_checkpoint(hidden, deck, tmp_path):
    """The signals that every system has."""
    code = """
import threading
threading.Timer(0.0, lambda: None).start()
from qsim.core.run.signals import Signals
with Signals() as signals:
    signal.raise_signal(signal.SIGTERM)
    assert signals.stop == "SIGTERM"
from qsim.core.run.files.lock import OutputLock
from pathlib import Path
from qsim.core.errors import FileError
with OutputLock(Path(sys.argv[1])):
    try:
        with OutputLock(Path(sys.argv[1])):
            raise SystemExit("two runs hold one output")
    except FileError as error:
        print(error)
"""
    reply = run(hidden, code, tmp_path / "ring")
    assert reply.returncode == 0, reply.stderr
    assert "process" in reply.stdout


def test_memory_is_unknown_rather_than_wrong():
    code = "print(hardware.resident_memory(), hardware.free_host_memory(), hardware.available_threads())"
    mac = run(MAC, code, NUMBA_NUM_THREADS="3", SLURM_CPUS_PER_TASK="")
    resident, free, threads = map(int, mac.stdout.split())
    assert resident == 0
    assert free > 0  # of POSIX: what the machine has
    assert threads <= 3
    windows = run(WINDOWS, code)
    assert windows.stdout.split()[:2] == ["0", "0"], windows.stderr

"""Damaged files of the cache of compiled kernels: noticed, told once, set aside, and made anew in the same run."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from qsim.core.device.compilers.table import expected, table_path
from tests.faults.inject import DAMAGES, damaged

posix = pytest.mark.skipif(os.name != "posix", reason="processes are forked")

KERNEL = """import numba as nb

@nb.njit(cache=True)
def kernel(x):
    return 2 * x + 1
"""
# Each reader is a process of its own, forked after the import, which knows of no compiled kernel.
READERS = """
import json, os, sys
from pathlib import Path
from qsim.core.device.compilers import caches, sound
folder = Path(sys.argv[1])
caches.recompile_what_changed(folder)
sys.path.insert(0, str(folder))
from kernel import kernel

def child(said):
    try:
        numbers = [kernel(20), kernel(1.5)]
        hits = sum(kernel.stats.cache_hits.values())
    except BaseException as error:
        numbers, hits = repr(error), 0
    os.write(said, json.dumps([numbers, hits, sound.damage_told()]).encode() + b"\\n")
    os._exit(0)

for line in sys.stdin:
    read, write = os.pipe()
    children = []
    for _ in range(int(line)):
        children.append(os.fork())
        if not children[-1]:
            child(write)
    os.close(write)
    for pid in children:
        os.waitpid(pid, 0)
    print(json.dumps([json.loads(each) for each in os.fdopen(read)]), flush=True)
"""


@pytest.fixture(params=["own folder", "__pycache__"])
def cache(request, tmp_path):
    """Return the folder of the cache of a kernel, and a function that runs it in some processes at the same time."""
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    environ = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    if request.param == "own folder":
        environ["NUMBA_CACHE_DIR"] = str(tmp_path / "cache")
    process = subprocess.Popen(
        [sys.executable, "-c", READERS, tmp_path],
        env=environ,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )

    def run(processes=1):
        process.stdin.write(f"{processes}\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    run()
    yield next(tmp_path.rglob("*.nbi")).parent, run
    process.communicate(timeout=60)


@posix
@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_files_are_made_anew(cache, kind, tmp_path, pytestconfig):
    many = 10 if pytestconfig.getoption("exhaustive") else 1
    folder, run = cache
    assert run() == [[[41, 4.0], 2, []]]
    names = sorted(path.name for path in folder.glob("*.nb?"))
    assert [name.rpartition(".")[2] for name in names] == ["nbc", "nbc", "nbi"]
    shutil.copytree(folder, tmp_path / "good")
    for seed in range(many):
        for name in names:
            content = (tmp_path / "good" / name).read_bytes()
            (folder / name).write_bytes(damaged(content, kind, np.random.default_rng([seed, len(content)])))
            (numbers, hits, told), again = run()[0], run()[0]
            assert numbers == [41, 4.0], numbers
            assert hits == (0 if name.endswith("nbi") else 1)
            assert len(told) == 1
            assert name in told[0]
            # The next run finds all that it needs, and the damage is there to be looked at.
            assert again == [[41, 4.0], 2, []]
            (folder / f"{name}.damaged").unlink()
        shutil.copytree(tmp_path / "good", folder, dirs_exist_ok=True)


@posix
def test_processes_that_meet_the_damage_at_the_same_time(cache):
    folder, run = cache
    for path in [*folder.glob("*.nb?")]:
        path.write_bytes(path.read_bytes()[:-40])
    found = run(4)
    assert [numbers for numbers, _, _ in found] == [[41, 4.0]] * 4
    assert sum(len(told) for _, _, told in found) >= 1
    assert run() == [[[41, 4.0], 2, []]]


@posix
def test_files_of_numba_alone_are_no_damage(cache):
    """Caches of older versions have no sums; they are made anew without a word."""
    folder, run = cache
    for path in folder.glob("*.nb?"):
        path.write_bytes(path.read_bytes()[:-12])
    assert run() == [[[41, 4.0], 0, []]]
    assert run() == [[[41, 4.0], 2, []]]


def test_a_kernel_that_cannot_be_kept_is_told_and_runs(tmp_path, monkeypatch):
    from qsim.core.device.compilers import sound

    sound.not_kept(tmp_path, OSError(28, "No space left on device"))
    sound.not_kept(tmp_path, OSError(28, "No space left on device"))
    assert sound.damage_told() == [f"compiled kernels cannot be kept in {tmp_path}: No space left on device"]
    assert sound.damage_told() == []


@pytest.mark.parametrize("kind", DAMAGES)
def test_damaged_tables_of_kernels_cost_nothing_but_time(kind, tmp_path, monkeypatch):
    content = table_path("qoc").read_bytes()
    monkeypatch.setattr("qsim.core.device.compilers.table.table_path", lambda method: tmp_path / "t.json")
    for seed in range(40):
        (tmp_path / "t.json").write_bytes(damaged(content, kind, np.random.default_rng(seed)))
        assert isinstance(expected("qoc", {"method": "qoc", "grid": {"points": 3}}, "cpu"), list)


def test_without_the_compiler_of_numba_there_is_a_word(counter, monkeypatch, command):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    reply = command("counter", counter.deck())
    assert reply.exit_code == 4
    assert "NUMBA_DISABLE_JIT is 1" in reply.stderr


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_tells_all_damage_once(counter, command, monkeypatch, tmp_path, fails):
    """The build and the run, with stages within each other, load kernels of their own."""
    from qsim.core.device.compilers import sound
    from qsim.counter import build, run

    def meets(name, work):
        def work_with_damage(*arguments):
            (tmp_path / name).write_bytes(b"")
            assert sound._content(tmp_path / name) is None
            if name == "run.nbi":
                with arguments[1].stage("verify"):
                    assert sound._content(tmp_path / name) is None
            if fails and name == "run.nbi":
                raise MemoryError
            return work(*arguments)

        return work_with_damage

    monkeypatch.setattr(build, "build", meets("build.nbi", build.build))
    monkeypatch.setattr(run, "run", meets("run.nbi", run.run))
    outcome = command("counter", counter.deck(), "--no-figures")
    assert (outcome.exit_code == 0) is not fails
    told = [line for line in outcome.stderr.splitlines() if "damaged" in line]
    assert len(told) == 1
    assert "build.nbi and 1 more files of the cache of compiled kernels were damaged" in told[0]
    assert {path.name for path in tmp_path.glob("*.damaged")} == {"build.nbi.damaged", "run.nbi.damaged"}

"""Runs on 1, 2 and 3 ranks of a real MPI: equal results, one writer, and what happens when a rank fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests" / "methods" / "run_counter.py"
BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "QSIM_DEVICE": "cpu",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@pytest.fixture(autouse=True)
def _launcher():
    if MPIRUN is None:
        pytest.skip("no mpirun: pip install mpich")


def words(ranks, *arguments):
    return [MPIRUN, "-n", str(ranks), sys.executable, str(RUNNER), *map(str, arguments)]


def qsim(ranks, *arguments):
    """Run a command line on so many ranks."""
    return subprocess.run(
        words(ranks, *arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )


def same(first, second, rtol=0.0, sigmas=0.0):
    """Return what differs between two results files, but for times."""
    with open_results(first) as a, open_results(second) as b:
        found = compare_results(a, b, Tolerance(rtol, 0.0, sigmas))
    return [item.name for item in found if not item.same]


def test_results_do_not_depend_on_ranks(counter):
    """And a drawn seed is that of all ranks: with their own, the map would differ."""
    deck = counter.deck()
    reply = qsim(3, "counter", deck, "-o", "r3", "--json")
    assert reply.returncode == 0, reply.stderr
    seed = json.loads(reply.stdout)["seed"]  # one summary, not one per rank
    assert reply.stderr.count("ranks share the steps") == 1
    assert "r3.value.png" in counter.files()
    for ranks in (1, 2):
        reply = qsim(ranks, "counter", deck, "-o", f"r{ranks}", "--no-figures", "--set", f"run.seed={seed}")
        assert reply.returncode == 0, reply.stderr
        assert not same(f"r{ranks}.h5", "r3.h5")


def test_a_mistake_of_the_deck_is_told_once(counter):
    reply = qsim(3, "counter", counter.deck(), "--set", "count.steps=0")
    assert reply.returncode == 3
    assert reply.stderr.count("expected a whole number") == 1
    assert counter.files() == []


def test_more_ranks_than_work_are_refused(counter):
    reply = qsim(5, "counter", counter.deck())
    assert reply.returncode == 4
    assert reply.stderr.count("5 ranks were started, but the 4 steps of this counter deck") == 1


def test_one_failing_rank_ends_all_with_its_message(counter):
    begin = time.monotonic()
    reply = qsim(3, "counter", counter.deck(fail="rank"), "--no-figures")
    assert reply.returncode != 0
    assert "on rank 1 of 3" in reply.stderr
    assert "rank one lost count" in reply.stderr
    assert time.monotonic() - begin < 60
    assert "deck.h5" not in counter.files()


def test_an_error_of_all_ranks_is_told_once(counter):
    reply = qsim(3, "counter", counter.deck(fail="nan"), "--no-figures")
    assert reply.stderr.count("value is nan after 5 steps") == 1
    assert reply.returncode == 5


def test_a_killed_rank_ends_all_and_its_checkpoint_resumes_on_another_number(counter):
    """The state at step 4 was saved; the run is continued on two ranks, and equals one that was never interrupted."""
    extra = "run: {seed: 3, checkpoint: 1 ms}\n"
    reply = qsim(3, "counter", counter.deck(fail="death", extra=extra), "--no-figures")
    assert reply.returncode != 0
    assert "deck.ckpt.h5" in counter.files()
    deck = counter.deck(extra=extra)
    reply = qsim(2, "counter", deck, "--resume", "--allow-changes", "--no-figures")
    assert reply.returncode == 0, reply.stderr
    assert "continuing from deck.ckpt.h5" in reply.stderr
    assert qsim(1, "counter", deck, "-o", "alone", "--no-figures").returncode == 0
    assert not same("deck.h5", "alone.h5")


@pytest.mark.parametrize("one", [False, True], ids=["all", "one"])
def test_a_stop_request_is_that_of_all_ranks(counter, one):
    """Batch systems signal every process, or one; either way all write one checkpoint and end with 75."""
    counter.deck(pause=0.05, steps=100, extra="run: {seed: 3}\n")
    process = subprocess.Popen(
        words(2, "counter", "deck.yaml", "--no-figures"), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    workers = []
    deadline = time.monotonic() + 60
    while not any("counting" in line for line in iter(process.stderr.readline, "")):
        assert time.monotonic() < deadline
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            str(RUNNER).encode() in line
            and line[0].endswith(b"python")
            and (entry / "cwd").readlink() == Path.cwd()
        ):
            workers.append(int(entry.name))
    assert len(workers) == 2
    for pid in workers[: 1 if one else 2]:
        os.kill(pid, signal.SIGUSR1)
    told = process.stderr.read()
    assert process.wait(timeout=60) == 75, told
    assert told.count("stopped by SIGUSR1; checkpoint written to deck.ckpt.h5") == 1
    process.stderr.close()
    reply = qsim(
        1, "counter", "deck.yaml", "--resume", "--set", "count.pause=0", "--allow-changes", "--no-figures"
    )
    assert reply.returncode == 0, reply.stderr


def test_ranks_with_different_decks_are_refused(counter):
    counter.deck("a")
    counter.deck("b", growth=3.5)
    script = 'if [ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 1 ]; then exec "$@" --set count.growth=3.5; else exec "$@"; fi'
    command = [
        MPIRUN,
        "-n",
        "2",
        "bash",
        "-c",
        script,
        "bash",
        sys.executable,
        str(RUNNER),
        "counter",
        "a.yaml",
    ]
    reply = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert reply.returncode == 3
    assert "disagree about the deck: count.growth" in reply.stderr


def test_a_method_that_is_not_distributed_runs_on_one_rank(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deck = ROOT / "inputs" / "tridiag" / "scaling.yaml"
    reply = qsim(2, "tridiag", deck, "--no-figures")
    assert reply.returncode == 4
    assert reply.stderr.count("this tridiag deck runs on one rank, but 2 were started") == 1

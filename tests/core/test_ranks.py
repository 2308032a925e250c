"""Runs on 1, 2 and 3 ranks of a real MPI: equal results, one writer, and what happens when a rank fails."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.world import ENVIRONMENT, MPIRUN, ROOT, RUNNER, command_lines, qsim, same, words

pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIRUN is None, reason="no mpirun: pip install mpich")]


def test_results_do_not_depend_on_ranks(counter, command):
    """And a drawn seed is that of all ranks: with their own, the map would differ."""
    deck = counter.deck()
    reply = qsim(3, "counter", deck, "-o", "r3", "--json")
    assert reply.returncode == 0, reply.stderr
    seed = json.loads(reply.stdout)["seed"]  # one summary, not one per rank
    assert reply.stderr.count("ranks share the steps") == 1
    assert "r3.value.png" in counter.files()
    more = ("counter", deck, "--no-figures", "--set", f"run.seed={seed}")
    assert qsim(2, *more, "-o", "r2").returncode == 0
    assert command(*more, "-o", "r1").exit_code == 0
    for ranks in (1, 2):
        assert not same(f"r{ranks}.h5", "r3.h5")


def test_errors_of_all_ranks_are_told_once_with_one_code(counter):
    """Mistakes of the deck, more ranks than work, systems that cannot be solved: one after another."""
    systems = {
        "n: 901, dominance: 0.0": (5, "the matrix is singular: no pivot is left for row"),
        "n: 150": (4, "3 ranks were started, but the 2 rows of this tridiag deck occupy at most 2"),
        "n: 900, corners: [1, 1]": (4, "this tridiag deck runs on one rank, but 3 were started"),
        "n: 50, batch: 2": (4, "the 2 systems of this tridiag deck occupy at most 2"),
    }
    lines = [
        (["counter", counter.deck("wrong"), "--set", "count.steps=0"], 3, "expected a whole number"),
        # what it measures has no ranks
        (
            ["tridiag", ROOT / "inputs" / "tridiag" / "scaling.yaml", "-o", "scaling"],
            4,
            "this tridiag deck runs on one rank, but 3 were started",
        ),
    ]
    for k, (system, (code, told)) in enumerate(systems.items()):
        Path(f"{k}.yaml").write_text(f"method: tridiag\ntask: solve\nsystem: {{source: random, {system}}}\n")
        lines.append((["tridiag", f"{k}.yaml", "--no-figures"], code, told))
    found = command_lines(3, *(line for line, _, _ in lines))
    for (line, code, told), (codes, text) in zip(lines, found, strict=True):
        assert codes == [code] * 3, (line, text)
        assert text.count(told) == 1, (line, text)
    assert not [name for name in counter.files() if name.endswith(".h5")]


def test_numbers_that_are_none_on_all_ranks_are_told_once(counter):
    reply = qsim(3, "counter", counter.deck(fail="nan"), "--no-figures")
    assert reply.stderr.count("value is nan after 5 steps") == 1
    assert reply.returncode == 5


def test_one_failing_rank_ends_all_with_its_message(counter):
    begin = time.monotonic()
    reply = qsim(3, "counter", counter.deck(fail="rank"), "--no-figures")
    assert reply.returncode != 0
    assert "on rank 1 of 3" in reply.stderr
    assert "rank one lost count" in reply.stderr
    assert time.monotonic() - begin < 60
    assert "deck.h5" not in counter.files()


def test_a_killed_rank_ends_all_and_its_checkpoint_resumes_on_another_number(counter, command):
    """The state at step 4 was saved; the run is continued on two ranks, and equals one that was never interrupted."""
    extra = "run: {seed: 3, checkpoint: 1 ms}\n"
    reply = qsim(3, "counter", counter.deck(fail="death", extra=extra), "--no-figures")
    assert reply.returncode != 0
    assert "deck.ckpt.h5" in counter.files()
    deck = counter.deck(extra=extra)
    reply = qsim(2, "counter", deck, "--resume", "--allow-changes", "--no-figures")
    assert reply.returncode == 0, reply.stderr
    assert "continuing from deck.ckpt.h5" in reply.stderr
    assert command("counter", deck, "-o", "alone", "--no-figures").exit_code == 0
    assert not same("deck.h5", "alone.h5")


@pytest.mark.parametrize("one", [False, True], ids=["all", "one"])
def test_a_stop_request_is_that_of_all_ranks(counter, command, one):
    """Batch systems signal every process, or one; either way all write one checkpoint and end with 75."""
    counter.deck(fail="wait", steps=100, extra="run: {seed: 3}\n")
    Path("wait").touch()
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
    assert command("counter", "deck.yaml", "--resume", "--no-figures").exit_code == 0


def on_rank(number, change, *arguments):
    """Run a command line on two ranks, with something changed for one of them: variables, limits, or more arguments."""
    script = f'if [ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" = {number} ]; then {change}; fi; exec "$@"'
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
        *map(str, arguments),
    ]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)


def test_a_rank_with_another_clock_locale_and_hash_seed_computes_the_same(counter):
    deck = counter.deck(extra="run: {seed: 3}\n")
    change = "export TZ=Asia/Tokyo LC_ALL=C PYTHONHASHSEED=7"
    for number, name in ((1, "other"), (9, "same")):
        reply = on_rank(number, change, "counter", deck, "-o", name, "--no-figures")
        assert reply.returncode == 0, reply.stderr
    assert not same("other.h5", "same.h5")


def test_a_full_disk_costs_checkpoints_and_ends_all_ranks_with_one_message(counter):
    """From step 5 on, rank 0 writes no byte: checkpoints are lost with a warning, then the results with an error of all."""
    deck = counter.deck(fail="disk", extra="run: {seed: 3, checkpoint: 1 ms}\n")
    reply = qsim(3, "counter", deck, "--no-figures")
    assert reply.returncode == 6, reply.stderr
    assert "cannot write checkpoint" in reply.stderr
    assert "the run continues" in reply.stderr
    assert reply.stderr.count("qsim: error:") == 1
    assert counter.files() == ["deck.ckpt.h5"]  # that of step 4
    resumed = qsim(
        2, "counter", counter.deck(extra="run: {seed: 3}\n"), "--resume", "--allow-changes", "--no-figures"
    )
    assert resumed.returncode == 0, resumed.stderr


def test_a_checkpoint_cut_short_is_refused_by_all_ranks(counter):
    deck = counter.deck(extra="run: {seed: 3, walltime: 1 ms}\n")
    assert qsim(2, "counter", deck, "--no-figures").returncode == 75
    file = Path("deck.ckpt.h5")
    file.write_bytes(file.read_bytes()[:-500])
    reply = qsim(2, "counter", deck, "--resume", "--no-figures")
    assert reply.returncode == 6
    assert reply.stderr.count("deck.ckpt.h5") == 1
    assert file.exists()


def test_ranks_with_different_decks_are_refused(counter):
    counter.deck("a")
    reply = on_rank(1, "set -- $@ --set count.growth=3.5", "counter", "a.yaml")
    assert reply.returncode == 3
    assert "disagree about the deck: count.growth" in reply.stderr

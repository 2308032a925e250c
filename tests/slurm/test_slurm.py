"""Jobs in a real Slurm: two tasks, a time limit with requeue, an array."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests" / "methods" / "run_counter.py"
PAGE = ROOT / "docs" / "howto"
PROGRAM = f"{sys.executable} {RUNNER}"

pytestmark = pytest.mark.exhaustive


def same(first, second):
    with open_results(first) as a, open_results(second) as b:
        return all(item.same for item in compare_results(a, b, Tolerance(0.0, 0.0, 0.0)))


def alone(slurm, deck, stem):
    words = [
        sys.executable,
        RUNNER,
        "counter",
        deck,
        "-o",
        stem,
        "--no-figures",
        "-q",
        "--set",
        "count.pause=0",
    ]
    subprocess.run(list(map(str, words)), env=slurm.environ, check=True)


def script(name, deck, **changes):
    """Return a script of the how-to page, for the method of the tests, with other settings."""
    text = (PAGE / name).read_text()
    for name, value in changes.items():
        text, count = re.subn(
            rf"^#SBATCH --{name}=.*$", f"#SBATCH --{name}={value}", text, flags=re.MULTILINE
        )
        assert count == 1, name
    text = re.sub(r"^#SBATCH --(gres|gpus-per-node)=.*\n", "", text, flags=re.MULTILINE)
    text, count = re.subn(r"\.venv/bin/qsim \w+ deck\.yaml", f"{PROGRAM} counter {deck} --no-figures", text)
    assert count == 1
    return text


def test_a_job_that_reaches_its_limit_requeues_itself_and_ends_bit_identically(slurm, counter):
    """The signal comes 20 s before the limit of one minute, which is the shortest of Slurm; the work takes 45 s at least."""
    deck = counter.deck(pause=0.1, steps=450, extra="run: {seed: 3}\n")
    Path("job.sbatch").write_text(
        script("job.sbatch", "deck.yaml", **{"time": "00:01:00", "cpus-per-task": "1", "signal": "USR1@20"})
    )
    job = slurm.submit("job.sbatch")
    assert slurm.wait(job, 240) == ["COMPLETED"]
    log = Path(f"qsim-{job}.log").read_text()
    assert "stopped by SIGUSR1; checkpoint written to deck.ckpt.h5" in log
    assert "continuing from deck.ckpt.h5" in log
    assert int(slurm.job(job)["Restarts"]) >= 1
    alone(slurm, deck, "alone")
    assert same("deck.h5", "alone.h5")


def test_an_array_of_a_sweep(slurm, counter, command):
    deck = counter.deck(extra="run: {seed: 3}\n")
    assert command("sweep", deck, "--over", "count.start=0.1:0.4:4", "--slurm", "--jobs", "2").exit_code == 0
    written = counter.folder / "deck.sweep" / "array.sbatch"
    text = written.read_text().replace(f"{sys.executable} -m qsim", PROGRAM)
    written.write_text(re.sub(r"--mem=\d+M", "--mem=300M", text))
    job = slurm.submit(written)
    assert slurm.wait(job, 120) == ["COMPLETED"] * 4
    reply = command("sweep", deck, "--over", "count.start=0.1:0.4:4", "--slurm")
    assert "all 4 decks are complete" in reply.stderr
    alone(slurm, counter.folder / "deck.sweep" / "deck-0003.yaml", "alone")
    assert same("deck.sweep/deck-0003.h5", "alone.h5")


def test_two_tasks_of_one_run(slurm, counter):
    """By the mpirun of MPICH within the job, and by srun with PMI."""
    pytest.importorskip("mpi4py")
    beside = Path(sys.executable).with_name("mpirun")
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("no mpirun: pip install mpich")
    deck = counter.deck(extra="run: {seed: 3}\n")
    Path("ranks.sbatch").write_text(
        script("ranks.sbatch", "deck.yaml -o by_srun", **{"ntasks": "2", "cpus-per-task": "1"})
    )
    Path("kernels").mkdir()
    page = slurm.submit("ranks.sbatch")
    Path("job.sh").write_text(
        "#!/bin/bash\n#SBATCH --ntasks=2\n#SBATCH --output=job.log\n"
        f"{mpirun} -n 2 {PROGRAM} counter deck.yaml -o by_mpirun --no-figures\n"
        f"srun --mpi=none {PROGRAM} counter deck.yaml -o copies --no-figures\n"
    )
    job = slurm.submit("job.sh")
    assert slurm.wait(page, 120) == ["COMPLETED"]
    slurm.wait(job, 120)
    log = Path("job.log").read_text() + Path(f"qsim-{page}.log").read_text()
    alone(slurm, deck, "alone")
    assert same("by_mpirun.h5", "alone.h5"), log
    assert same("by_srun.h5", "alone.h5"), log
    assert log.count("2 ranks share the steps") == 2
    assert "2 processes were started, but MPI knows 1" in log  # not two copies that write the same file
    assert not Path("copies.h5").exists()

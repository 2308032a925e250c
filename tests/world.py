"""Start a world of MPI for a test: command lines or a script on some ranks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results

ROOT = Path(__file__).resolve().parents[1]
RUNNER = ROOT / "tests" / "methods" / "run_counter.py"
BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "QSIM_DEVICE": "cpu",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
LINES = """
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import run_counter
from qsim.core.device.parallel import world

comm, found = world(), []
for words in json.loads(sys.argv[2]):
    sys.argv, told, code = ["qsim", *words], io.StringIO(), 0
    with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
        try:
            run_counter.main()
        except SystemExit as end:
            code = end.code or 0
    found.append((comm.allgather(code), "".join(comm.allgather(told.getvalue()))))
if comm.rank == 0:
    print(json.dumps(found))
"""
"""Several command lines in one world, none of which may end it: codes of all ranks, and what all of them told."""


def words(ranks, *arguments):
    """Return the words that start a command line with the method `counter` on so many ranks."""
    return [MPIRUN, "-n", str(ranks), sys.executable, str(RUNNER), *map(str, arguments)]


def qsim(ranks, *arguments):
    """Run a command line on so many ranks."""
    return subprocess.run(
        words(ranks, *arguments), env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )


def script(ranks, text, *arguments, timeout=300):
    """Run a script on so many ranks of one thread each, which must succeed."""
    command = [MPIRUN, "-n", str(ranks), sys.executable, "-c", text, *map(str, arguments)]
    environ = {**ENVIRONMENT, "NUMBA_NUM_THREADS": "1"}
    reply = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=timeout)
    assert reply.returncode == 0, reply.stderr
    return reply.stdout


def command_lines(ranks, *lines):
    """Run command lines one after another in one world; return the exit codes of all ranks and what they told, of each."""
    texts = json.dumps([[str(word) for word in line] for line in lines])
    return json.loads(script(ranks, LINES, RUNNER.parent, texts, timeout=120))


def same(first, second, rtol=0.0, sigmas=0.0):
    """Return what differs between two results files, but for times."""
    with open_results(first) as a, open_results(second) as b:
        found = compare_results(a, b, Tolerance(rtol, 0.0, sigmas))
    return [item.name for item in found if not item.same]

"""The memory that a dry run announces, beside the peaks of the same commands in processes of their own.

The decks and the measurement are those of ``bench/memory.py``, which prints all numbers.
"""

import json
import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from bench.memory import measure
from bench.memory_decks import CASES, deck_of, sizes_of, write
from qsim.core.deck.load import load_deck
from qsim.core.device import footprint
from qsim.core.device.device import Memory
from qsim.core.device.footprint import kernels_are_compiled
from qsim.core.run.stages import Method

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="reads the peak of memory as POSIX gives it")
METHODS = sorted({method for method, _ in CASES})
WITHIN = (0.87, 1.15)  # estimate / peak
# a bound, not an estimate, on a CPU: the solver asks for room for all directions that it may need, and the
# system gives memory for those that it writes
BOUNDS = {
    case
    for case in CASES
    if case[1] in ("scatter, e_h", "scatter, photo", "scatter, born", "scatter, resonances")
}
# tasks whose vectors are small beside the interpreter, of which they load less, and expansions that take a vector less
GENEROUS = {
    ("trotter", task)
    for task in ("parity", "all states, spectrum", "all states, dynamics", "momentum, spectrum", "fid")
}
MOST = 1.2


@cache
def found(case, size, device="cpu"):
    """Return estimate and peak, after a run of the small deck, which compiles the kernels."""
    measure(case, "small", device, dry=False)
    return measure(case, size, device)


def within(estimate, peak, case=None):
    least, most = WITHIN
    most = MOST if case in GENEROUS else most
    return least < estimate / peak and (case in BOUNDS or estimate / peak < most)


@pytest.mark.parametrize(("case", "size"), [(("qoc", "levels"), "medium"), (("tridiag", "solve"), "small")])
def test_the_announced_memory_of_some_commands_is_theirs(case, size):
    run = found(case, size)
    assert within(run.estimated_host, run.host, case), run


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("case", "size"),
    [(case, size) for case in CASES for size in sizes_of(case)],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_the_announced_memory_is_that_of_the_command(case, size):
    run = found(case, size)
    assert within(run.estimated_host, run.host, case), run


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for case in CASES if case not in GENEROUS], ids=" ".join)
def test_the_announced_memory_grows_as_the_peak(case):
    """The part that grows with the deck: the interpreter and its libraries are the same in both runs."""
    small, large = (found(case, size) for size in ("small", "large"))
    more = large.estimated_host - small.estimated_host
    if more < 2e7:
        pytest.skip("the decks differ by less than the scatter of an interpreter's own memory")
    assert within(more, large.host - small.host, case), (small, large)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", METHODS)
def test_a_first_run_announces_the_compiler(method, tmp_path):
    case = next(case for case in CASES if case[0] == method)
    run = measure(case, "small", cache=tmp_path)
    assert "first run: compiling kernels" in run.parts
    assert within(run.estimated_host, run.host), run


@pytest.mark.gpu
@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_announced_memory_of_the_device_is_that_of_the_command(case):
    """Context and arrays together, as the driver counts them; nothing else may use the device meanwhile."""
    run = found(case, "large", "cuda")
    assert within(run.estimated_device, run.device), run
    assert within(run.estimated_host, run.host), run


RECORDED = json.loads(
    (Path(__file__).parents[1] / "bench/results/memory-cuda-h100-2026-11-22.json").read_text("utf-8")
)["rows"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['method']} {row['task']} {row['size']}")
def test_the_memory_announced_for_a_gpu_is_that_recorded_on_one(row, tmp_path):
    deck = write(tmp_path, deck_of((row["method"], row["task"]), row["size"]))
    method = Method(row["method"])
    loaded = load_deck(deck, method.deck.DECK)
    memory = method.build.plan(loaded).memory.with_interpreter(row["method"], cuda=True)
    if row["device"] is None:  # of a run beside others: what its own memory pool held
        loaded_there = footprint.CONTEXT + footprint.LIBRARY_DEVICE[memory.library]
        assert within(memory.device - loaded_there, row["device_held"])
        return
    assert within(memory.host, row["host"])
    assert within(memory.device, row["device"])


def test_libraries_count_on_a_gpu_alone():
    memory = Memory(host=10, device=20, on_gpu=5, on_gpu_host=-3, library="cublas")
    cpu = memory.with_interpreter("qoc")
    gpu = memory.with_interpreter("qoc", cuda=True)
    assert (cpu.host, cpu.device) == (10 + footprint.INTERPRETER, 20)
    libraries = footprint.CUDA_LIBRARIES["qoc"] + footprint.LIBRARY_HOST["cublas"]
    assert gpu.host == 10 - 3 + footprint.INTERPRETER + libraries
    assert gpu.device == 25 + footprint.CONTEXT + footprint.LIBRARY_DEVICE["cublas"]
    assert (
        gpu.context == footprint.CONTEXT
    )  # the libraries are loaded later, so they need room that is still free


# ------------------------------------------------------------------------------------ compiled kernels


def _age(path, seconds):
    status = path.stat()
    os.utime(path, (status.st_atime, status.st_mtime - seconds))


def test_an_empty_cache_holds_no_kernels(tmp_path):
    assert not kernels_are_compiled("trotter", {"NUMBA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)})


def test_kernels_in_the_chosen_folder_are_found_unless_they_are_stale(tmp_path):
    from numba.core.caching import UserProvidedCacheLocator

    import qsim

    source = Path(qsim.__file__).resolve().parent / "trotter/kernels/layers/layers_cpu.py"
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    below = UserProvidedCacheLocator.get_suitable_cache_subpath(str(source))
    folder = tmp_path / below
    folder.mkdir()
    index = folder / f"layers_cpu.step-40.{version}.nbi"
    index.touch()
    environ = {"NUMBA_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    assert kernels_are_compiled("trotter", environ)
    assert not kernels_are_compiled("qmc", environ)
    assert not kernels_are_compiled("trotter", {**environ, "NUMBA_CACHE_DIR": str(tmp_path / "other")})
    _age(index, 1e9)
    assert not kernels_are_compiled("trotter", environ)


def test_a_measured_peak_is_not_that_of_the_process_that_asks():
    """A process inherits the peak of its parent until its program is loaded; the measurement goes around that."""
    import subprocess

    from bench.memory import STARTER

    large = bytearray(300_000_000)
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", STARTER, sys.executable, "-I", "-S", "-c", "pass"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tempfile.gettempdir(),
    )
    assert int(found.stdout) < 60_000_000 < len(large)

"""What all tests share: strict floating point, devices, tiers, and a method made for testing.

Three tiers: ``pytest`` in a few minutes, ``pytest --full`` for the gate, ``pytest --exhaustive`` with many cases of what the
others try a few of.  Whoever names files or functions, or chooses by ``-m``, gets all of them that the gate runs; the quick
tier leaves out what needs a GPU, since many processes would share it.
``tests/slow.txt`` lists how many cases of a function each tier has.  Tests marked `gpu` are skipped without a CUDA
device, and the last lines of the report say how many, so that a silent skip is seen.
"""

import inspect
import os
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MOST_WORKERS = 8  # compiling kernels in more processes than this takes longer than it saves

# with `-n`, every process takes its share of the cores only; to be set before the first import of NumPy
if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    _share = max(1, CORES // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    for _name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(_name, str(_share))

os.environ["MPLBACKEND"] = "Agg"
for _name in [name for name in os.environ if name.startswith("QSIM_")]:
    del os.environ[_name]  # settings of the person who runs the tests must not decide their outcome
os.environ["QSIM_TUNE"] = "off"  # nor may tests time anything, or write into that person's cache
os.environ["QSIM_COMPILERS"] = "1"  # tests run beside each other already

import numpy as np  # noqa: E402
import pytest  # noqa: E402
from click.testing import CliRunner  # noqa: E402
from hypothesis import settings  # noqa: E402

import qsim  # noqa: E402
from qsim import methods  # noqa: E402
from qsim.core.device.device import cuda_status, select  # noqa: E402
from tests.decks import Decks  # noqa: E402

# the same examples in every run: a run that fails shall fail again, and one that passes was no luck
settings.register_profile("qsim", derandomize=True, deadline=None)
settings.load_profile("qsim")


TESTS = Path(__file__).resolve().parent
METHODS = TESTS / "methods"
REASONS = {
    "gpu": "no CUDA device",
    "exhaustive": "many cases of what others try; --exhaustive runs them",
    "mpi": "no mpi4py",
    "checkout": "an installed qsim runs, not that of the checkout",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes that `-n auto` starts."""
    return min(CORES, MOST_WORKERS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each process one long piece of the list of tests, unless `--dist` says otherwise.

    Two processes that work on one file both compile its kernels and both make its fixtures.
    """
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run the slow tests, too, as the gate does")
    parser.addoption("--exhaustive", action="store_true", help="run the slow and the exhaustive tests, too")


def quick_only(config):
    """Return whether the quick tier alone is asked for: no paths, no marker expression, and neither option."""
    if config.getoption("--full") or config.getoption("--exhaustive") or config.getoption("-m"):
        return False
    return config.args_source is not pytest.Config.ArgsSource.ARGS


def tiers():
    """Return what ``tests/slow.txt`` lists: functions, with the number of their cases in the quick tier and in the gate."""
    lines = (TESTS / "slow.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: tuple(int(count) for count in counts) for name, *counts in rows}


def spread(count, kept):
    """Return the numbers of `kept` of `count` cases, evenly spread: neighbours often differ in one parameter alone."""
    kept = min(kept, count)
    return {(2 * k + 1) * count // (2 * kept) for k in range(kept)}


def mark_tiers(items):
    """Mark the tests that take long: all cases but the few that their line in the list keeps."""
    cases = defaultdict(list)
    for item in items:
        place = item.path.relative_to(TESTS).as_posix()
        function = f"{place}::{item.nodeid.partition('::')[2].partition('[')[0]}"
        # what needs a GPU is of no tier
        if item.get_closest_marker("gpu") is None:
            cases[function].append(item)
    for function, (quick, *gate) in tiers().items():
        own = cases[function]
        in_gate = sorted(spread(len(own), gate[0])) if gate else range(len(own))
        in_quick = {in_gate[k] for k in spread(len(in_gate), quick)}
        for k, item in enumerate(own):
            if k not in in_quick:
                item.add_marker(pytest.mark.slow)
            if k not in in_gate:
                item.add_marker(pytest.mark.exhaustive)


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by markers
def pytest_collection_modifyitems(config, items):
    mark_tiers(items)
    if quick_only(config):
        left = [item for item in items if any(map(item.get_closest_marker, ("slow", "gpu")))]
        items[:] = [item for item in items if not any(map(item.get_closest_marker, ("slow", "gpu")))]
        config.hook.pytest_deselected(items=left)
    absent = {"mpi"} if find_spec("mpi4py") is None else set()
    if Path(qsim.__file__).resolve().parents[1] != METHODS.parents[1]:
        absent.add("checkout")
    if not config.getoption("--exhaustive") and "exhaustive" not in config.getoption("-m"):
        absent.add("exhaustive")
    if any(item.get_closest_marker("gpu") for item in items) and cuda_status().count == 0:
        absent.add("gpu")
    for item in items:
        for marker in sorted(absent):
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=f"{marker} test: {REASONS[marker]}"))


def pytest_terminal_summary(terminalreporter, config):
    if quick_only(config):
        terminalreporter.write_line("the quick tier: --full runs the slow tests, too, -m gpu those for a GPU")
    for marker, reason in REASONS.items():
        skipped = [
            report
            for report in terminalreporter.getreports("skipped")
            if marker in getattr(report, "keywords", ()) and f"{marker} test: " in str(report.longrepr)
        ]
        if skipped:
            plural = "" if len(skipped) == 1 else "s"
            terminalreporter.write_line(
                f"{len(skipped)} {marker} test{plural} skipped: {reason}", yellow=True
            )


@pytest.fixture(autouse=True)
def strict_floating_point():
    """Make overflow, division by zero and invalid operations errors in every test."""
    with np.errstate(all="raise", under="ignore"):
        yield


@pytest.fixture
def cuda():
    """Return the first CUDA device; for tests marked `gpu`."""
    return select("cuda")[0]


class Counter:
    """The method `counter` of ``tests/methods`` and a folder to run it in."""

    def __init__(self, folder):
        self.folder = folder

    def deck(self, name="deck", *, extra="", **count):
        """Write ``<name>.yaml`` with the given keys of its block ``count``."""
        keys = "".join(f"  {key}: {value}\n" for key, value in {"steps": 20, **count}.items())
        path = self.folder / f"{name}.yaml"
        path.write_text(f"method: counter\ntitle: a count\ncount:\n{keys}{extra}", encoding="utf-8")
        return path

    def files(self):
        """Return the names of all files in the folder but the decks."""
        return sorted(path.name for path in self.folder.iterdir() if path.suffix != ".yaml")


@pytest.fixture
def counter(monkeypatch, tmp_path):
    """Add the method `counter`, work in an empty folder on the CPU, and hand out decks.

    ``--device`` still chooses another device.
    """
    monkeypatch.setenv("QSIM_DEVICE", "cpu")
    monkeypatch.setattr(qsim, "__path__", [*qsim.__path__, str(METHODS)])
    monkeypatch.setitem(methods.TABLE, "counter", "Counts.")
    monkeypatch.chdir(tmp_path)
    return Counter(tmp_path)


@pytest.fixture
def command():
    """Return a function that runs one command line in this process: ``command("show", file).exit_code``."""
    from qsim.cli import cli

    # click < 8.2 mixes both streams unless told not to
    settings = {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}

    def invoke(*arguments):
        return CliRunner(**settings).invoke(cli, [str(argument) for argument in arguments], prog_name="qsim")

    return invoke


@pytest.fixture
def qoc(tmp_path):
    """Hand out qoc decks in an empty folder."""
    return Decks("qoc", tmp_path)


@pytest.fixture
def tridiag(tmp_path):
    """Hand out tridiag decks in an empty folder."""
    return Decks("tridiag", tmp_path)


@pytest.fixture
def trotter(tmp_path):
    """Hand out trotter decks in an empty folder."""
    return Decks("trotter", tmp_path)


@pytest.fixture
def sturmian(tmp_path):
    """Hand out sturmian decks in an empty folder."""
    return Decks("sturmian", tmp_path)


@pytest.fixture
def qmc(tmp_path):
    """Hand out qmc decks in an empty folder."""
    return Decks("qmc", tmp_path)

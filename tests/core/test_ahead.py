"""Compilation in parallel processes: the same cache, the same numbers, and a run that does without when it must."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from qsim import methods
from qsim.core.deck.load import written_deck
from qsim.core.device.compilers import ahead, board, caches, helper, signatures, table
from qsim.core.device.compilers.sound import alone_in
from qsim.core.examples.check import cases, folders
from qsim.core.examples.kernels import features_of_deck, needs_of

posix = pytest.mark.skipif(os.name != "posix", reason="helpers are started on POSIX systems alone")
KERNELS = [table.Kernel(f"module:kernel{k}", ["int64"]) for k in range(4)]


@pytest.fixture
def shared(tmp_path):
    """Board of four kernels."""
    file = os.open(tmp_path / "board", os.O_RDWR | os.O_CREAT)
    made = board.Board(file)
    made.clear(4)
    yield made
    os.close(file)


# ---------------------------------------------------------------------------------------------- table


@pytest.mark.parametrize("method", methods.available())
def test_tables_are_not_stale(method):
    """Decks are there as they are now, and every kernel exists and takes arguments of types that exist."""
    known = json.loads(table.table_path(method).read_text(encoding="utf-8"))
    for place, types in known["kernels"]:
        found = signatures.find(place)
        assert hasattr(getattr(found, "dispatcher", found), "py_func")
        assert [signatures.written(signatures.read(words)) for words in types] == types
    decks = {case.deck.stem: features_of_deck(case) for case in cases([method], folders())}
    for name, deck in known["decks"].items():
        assert frozenset(deck["features"]) == decks[name], (
            f"{method}/{name}: qsim warmup FOLDER {method} --record"
        )


@pytest.mark.parametrize("method", methods.available())
def test_every_deck_gets_kernels(method):
    """Of its own row, or of that of a deck which is much like it."""
    for case in cases([method], folders()):
        data = written_deck(case.deck.read_text(encoding="utf-8"))
        # This one compiles nothing, but is like others that do.
        assert table.expected(method, data, "cpu") or case.name == "sturmian/outgoing_basis", case.name


@pytest.mark.parametrize("name", ["qoc/cnot", "trotter/chiral_ring", "tridiag/rabi", "sturmian/temkin_poet"])
def test_decks_need_the_kernels_of_the_table(name):
    method, _, deck = name.partition("/")
    (case,) = cases([method], folders(), deck)
    known = json.loads(table.table_path(method).read_text(encoding="utf-8"))
    needed = {kernel.key for kernel in needs_of(case, "cpu", 300.0).kernels}
    assert needed
    assert needed <= {kernel.key for kernel in table.kernels_of(known, deck, "cpu")}


def test_a_deck_gets_the_kernels_of_the_one_that_is_most_like_it(tmp_path, monkeypatch):
    decks = {
        "plain": {"system": {"kind": "chain", "spins": 4}},
        "field": {"system": {"kind": "chain", "spins": 4, "field": 1.0}, "title": "another"},
        "single": {"system": {"kind": "chain", "spins": 4}, "run": {"precision": "single"}},
    }
    needs = [
        (name, table.Need(table.features_of(deck), "cpu", (KERNELS[number], KERNELS[3])))
        for number, (name, deck) in enumerate(decks.items())
    ]
    path = tmp_path / "recorded.json"
    path.write_text(json.dumps(table.merged(needs)), encoding="utf-8")
    monkeypatch.setattr(table, "table_path", lambda method: path)
    larger = {"system": {"kind": "chain", "spins": 20, "field": 0.1}}
    assert table.expected("any", larger, "cpu") == [KERNELS[1], KERNELS[3]]
    assert table.expected("any", {"run": {"precision": "single"}, **larger}, "cpu") == [
        KERNELS[2],
        KERNELS[3],
    ]
    # Nothing is known of a GPU, nor of a deck like no other.
    assert table.expected("any", larger, "cuda") == []
    assert table.expected("any", {"atom": {"charge": 2}}, "cpu") == []
    path.write_text("{", encoding="utf-8")
    assert table.expected("any", larger, "cpu") == []


# ---------------------------------------------------------------------------------------------- helper


@posix
def test_kernels_are_compiled_from_the_end_but_for_those_taken(shared):
    done = []
    assert shared.take(2, board.HERE)
    assert not shared.take(2, board.THERE)

    def compile_one(kernel):
        done.append(kernel.place)
        if kernel is KERNELS[1]:
            raise ValueError("no such kernel")

    helper.compile_from_the_end(shared, 0, KERNELS, compile_one)
    assert done == ["module:kernel3", "module:kernel1", "module:kernel0"]
    assert list(shared.states()) == [board.DONE, board.FAILED, board.HERE, board.DONE]


def test_processes_of_their_own_only_where_there_are_cores(monkeypatch):
    assert ahead.processes_to_compile(1, {}) == 0
    assert ahead.processes_to_compile(2, {}) == (1 if os.name == "posix" else 0)
    assert ahead.processes_to_compile(64, {}) <= ahead.MOST - 1
    assert ahead.processes_to_compile(8, {"QSIM_COMPILERS": "1"}) == 0
    import multiprocessing.process

    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: object())
    assert ahead.processes_to_compile(8, {}) == 0


@posix
@pytest.mark.parametrize(
    "program", ["import sys; sys.exit(3)", "import os, signal; os.kill(os.getpid(), 9)", "nonsense"]
)
def test_a_run_goes_on_without_a_helper_that_dies(monkeypatch, program):
    monkeypatch.setattr(ahead, "PROGRAM", program.replace("{", "{{"))
    work = ahead.Ahead(lambda device: [table.Kernel(signatures.place_of(sample), [])], 1, cold=True)
    try:
        work.on("cpu")
        # It had taken the kernel when it died.
        if work._board is not None:
            work._board.note(0, board.THERE)
        assert not work.missing(sample, ())
        work.kept(sample, ())
    finally:
        work.close()
    assert work.working == 0


def sample():
    """Stand for a kernel."""


@posix
def test_a_system_that_starts_no_processes(monkeypatch):
    def refuse(board, number):
        raise OSError("no more processes")

    monkeypatch.setattr(ahead, "_spawn", refuse)
    work = ahead.Ahead(lambda device: [table.Kernel(signatures.place_of(sample), [])], 1, cold=True)
    work.on("cpu")
    assert not work.missing(sample, ())
    work.close()


@posix
def test_no_more_processes_than_memory_allows(monkeypatch):
    """Of many that are asked for; a path in the list of modules, as scripts leave it, is none of their business."""
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda words, **options: started.append(words))
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/tmp")])
    ahead._spawn(3, 0)
    assert json.loads(started[0][-3])[-1] == "/tmp"
    assert "-P" in started[0]
    spawned = []

    def refuse(board, number):
        spawned.append(number)
        raise OSError("enough")

    monkeypatch.setattr(ahead, "_spawn", refuse)
    for memory, expected in ((0, 1), (1, 0), (2 * ahead.MEMORY, 1)):
        spawned.clear()
        monkeypatch.setattr(ahead, "free_host_memory", lambda memory=memory: memory)
        ahead.Ahead(lambda device: KERNELS, 60, cold=True).on("cpu")
        assert len(spawned) == expected


def test_a_warm_run_starts_nothing(monkeypatch):
    """Neither the table is read nor a process started until a kernel is missing."""

    def fail(*arguments):
        raise AssertionError("not needed")

    monkeypatch.setattr(ahead, "expected", fail)
    monkeypatch.setattr(ahead, "_spawn", fail)
    with ahead.ahead("qoc", {}, 1, cold=False) as work:
        work.on("cpu")
        assert [work] == caches.WATCHES
        # A second run beside it compiles for itself.
        with ahead.ahead("qoc", {}, 1, cold=True) as other:
            other.on("cpu")
    assert caches.WATCHES == []


@posix
def test_a_helper_ends_with_the_run(tmp_path):
    """Also if the run is killed, and it leaves no file half written."""
    code = (
        "import os, time; from qsim.core.device.compilers import ahead, table\n"
        "work = ahead.Ahead(lambda device: table.expected('qmc', {}, device) or EXPECTED, 1, cold=True)\n"
        "work.on('cpu')\n"
        "print(work._started[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    ).replace(
        "EXPECTED",
        "list(table.kernels_of(__import__('json').loads(table.table_path('qmc').read_text()), 'hooke', 'cpu'))",
    )
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE) as run:
        pid = int(run.stdout.readline())
        time.sleep(0.3)
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    until = time.monotonic() + 20.0
    while time.monotonic() < until and _runs(pid):
        time.sleep(0.05)
    assert not _runs(pid)
    assert not list(tmp_path.rglob("*.tmp.*"))


def _runs(pid):
    """Return whether a process is there, and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@posix
def test_processes_write_an_index_one_after_the_other(tmp_path):
    """Whoever writes into a folder of the cache holds it alone."""
    order = []

    def second():
        with alone_in(tmp_path):
            order.append("second")

    with alone_in(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


# ---------------------------------------------------------------------------------------------- whole


@pytest.mark.slow
@posix
def test_two_processes_leave_the_cache_and_the_numbers_of_one(tmp_path):
    kept, numbers = [], []
    # On a busy machine the other process may have ended, or not begun, when the run tells of it: the last tries are for that.
    for number, processes in enumerate(("1", "2", "2", "2")):
        folder = tmp_path / str(number)
        folder.mkdir()
        environ = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(folder / "cache"),
            "QSIM_COMPILERS": processes,
            "QSIM_TUNE": "off",
        }
        case = cases(["qoc"], folders(), "cnot")[0]
        words = [
            "qoc",
            str(case.deck),
            "--no-figures",
            "--device",
            "cpu",
            "--threads",
            "2",
            "-o",
            str(folder),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "qsim", *words], env=environ, capture_output=True, text=True, check=True
        )
        beside = "in 2 processes" in done.stderr
        assert processes == "2" or not beside
        summary = json.loads((folder / "cnot.summary.json").read_text(encoding="utf-8"))
        numbers.append(summary["scalars"])
        kept.append({path.name for path in (folder / "cache").rglob("*.nb[ci]")})
        assert not list((folder / "cache").rglob("*.tmp.*"))
        # The table may name more than a run needs.
        assert kept[0] <= kept[-1]
        assert numbers[0] == numbers[-1]
        if beside:
            break
    assert beside

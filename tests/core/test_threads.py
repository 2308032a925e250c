"""Threads: all ranges once whatever their number, errors, calls within calls; BLAS within and outside a run."""

import json
import os
import subprocess
import sys
import threading
import time
from functools import partial
from typing import NamedTuple

import numba as nb
import numpy as np
import pytest
from numba.core import cgutils
from numba.extending import intrinsic
from threadpoolctl import threadpool_info

from qsim.core.device import blas, pool
from qsim.core.device import team as team_module
from qsim.core.device.team import await_as_far, ranges, share, tell_next


@pytest.fixture(autouse=True)
def _forget():
    pool._seconds.clear()
    for cost in pool._costs.values():
        cost.wake = cost.usual


def count(visits, first, last):
    visits[first:last] += 1


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("tasks", [1, 2, 7, 1000])
def test_every_task_is_done_once(threads, tasks):
    visits = np.zeros(tasks, int)
    for size in (1, 10**6, 10**9):  # each call goes by the time of the one before
        visits[:] = 0
        pool.each_part(partial(count, visits), tasks, size, threads)
        assert (visits == 1).all()


def slow(names, first, last):
    names.add(threading.current_thread().name)
    time.sleep(0.02 * (last - first))  # releases the interpreter lock, as a kernel does


def test_long_work_is_shared_and_short_work_is_not():
    names = set()
    for _ in range(3):
        pool.each_part(partial(slow, names), 8, 10**6, 4)
    assert len(names) == 4
    names.clear()
    visits = np.zeros(8, int)
    for _ in range(3):
        pool.each_part(
            lambda f, l: (names.add(threading.current_thread().name), count(visits, f, l)), 8, 1000, 4
        )
    assert names == {threading.current_thread().name}


def test_work_is_remembered_by_its_place_or_by_its_name():
    def named(name):
        pool.each_part(partial(count, np.zeros(8, int)), 8, 10**6, 2, alike=name)

    named(("sweep", 1))
    named(("energy", 1))
    named(None)
    assert set(pool._seconds) == {("sweep", 1), ("energy", 1), count.__code__}


def test_threads_that_wake_slowly_are_left_alone_until_they_are_quicker(monkeypatch):
    """By a clock of the test: 4 ms of work, and threads that cost nothing, then 4 ms each, then nothing again."""
    now, delay, calls = [0.0], [0.0], []

    class Team:
        free, ready = threading.Lock(), {False}

        def run(self, work, edges, threads):
            calls.append(threads)
            took = delay[0] * threads + 0.004 / threads
            now[0] += took
            return took, 0.004

    def short(first, last):
        now[0] += 0.0005 * (last - first)

    def shared(number):
        calls.clear()
        for _ in range(number):
            pool.each_part(short, 8, 10**6, 4)
        return len(calls)

    monkeypatch.setattr(pool, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pool, "_team", lambda threads: Team())
    assert shared(20) == 20
    delay[0] = 0.004
    assert 0 < shared(20) < 20
    assert shared(20) == 0
    delay[0] = 0.0
    monkeypatch.setattr(pool, "FORGET", 0.9)
    assert 0 < shared(40) < 40
    assert shared(20) == 20


def test_a_thread_that_was_late_once_is_not_slow():
    """It had counted for all of its seconds, so that after one late call of 5 ms short work was not shared any more."""
    cost = pool._Cost(1e-6, 1e-5, 5e-3, 1e-6)
    cost.measured(1.0)
    assert cost.wake <= 2e-6
    for _ in range(20):
        cost.measured(3e-3)
    assert cost.wake == pytest.approx(3e-3, rel=0.3)
    for _ in range(20):
        cost.measured(1e-6)
    assert cost.wake == pytest.approx(1e-6, rel=0.1)


def test_compilation_is_no_cost_of_threads(monkeypatch):
    """Launchers are compiled with their first call, or taken from the cache: that made later work too short to be shared."""

    def launcher():
        @nb.njit(nogil=True)
        def fresh(ticket, *arguments):
            return share(ticket, ranges(_logistic, arguments))

        return fresh

    costs = []
    monkeypatch.setattr(pool._Cost, "measured", lambda self, lost: costs.append(lost))
    monkeypatch.setattr(pool._costs[True], "long", np.inf)  # other programs may make a short call a long one
    longest = 0.0
    for _ in range(3):
        begun = time.perf_counter()
        arrays = np.zeros(64, int), np.zeros(64, int), np.linspace(0.1, 0.9, 64)
        pool.each_part(pool.Shared(launcher(), (*arrays, 10)), 64, 10**6, 2)
        longest = max(longest, time.perf_counter() - begun)
    assert len(costs) == 2  # all but the first of these threads
    assert min(costs) < 0.25 * longest


def test_the_first_error_is_raised_and_the_team_lives():
    def fails(first, last):
        if first <= 3 < last:
            raise ValueError("task 3")
        time.sleep(0.001)

    for _ in range(3):
        with pytest.raises(ValueError, match="task 3"):
            pool.each_part(fails, 8, 10**6, 4)
    visits = np.zeros(8, int)
    pool.each_part(partial(count, visits), 8, 10**6, 4)
    assert (visits == 1).all()


def test_a_call_lasts_as_long_as_its_last_range():
    both, caller, done = threading.Barrier(2, timeout=10.0), threading.current_thread(), []

    def work(first, last):
        both.wait()
        if threading.current_thread() is not caller:
            time.sleep(0.05)  # the caller has nothing left to do meanwhile
        done.append(first)

    pool._Team(2).run(work, [0, 1, 2], 2)
    assert sorted(done) == [0, 1]


def test_a_thread_that_does_not_come_holds_nothing_up():
    class Asleep:
        def put(self, call):
            pass

    team = pool._Team(3)
    visits = np.zeros(8, int)
    team.run(partial(count, visits), [0, 8], 3)
    team.calls[0] = Asleep()
    visits[:] = 0
    assert min(team.run(partial(count, visits), [0, 2, 4, 5, 8], 3)) >= 0.0
    assert (visits == 1).all()


@pytest.mark.parametrize("threads", [2, 3, 16])
@pytest.mark.parametrize("tasks", [2, 17, 1000])
@pytest.mark.parametrize("whole", [1e-5, 3e-3, 0.1, np.inf])
@pytest.mark.parametrize("short", [2e-4, 1e-5])
def test_ranges_cover_all_tasks_and_none_is_longer_than_a_share(threads, tasks, whole, short):
    edges = pool._edges(tasks, threads, whole, short)
    assert (edges[0], edges[-1]) == (0, tasks)
    assert 0 < min(np.diff(edges)) <= max(np.diff(edges)) <= -(-tasks // threads)
    assert len(edges) - 1 <= threads * (pool.HALVINGS + 1)


def test_few_tasks_are_shared_evenly():
    assert pool._worth(1.0, 1000, 16, 20e-6) == 16
    assert pool._worth(2e-3, 1000, 16, 20e-6) == 10  # (2 ms / 20 us)^(1/2)
    assert pool._worth(2e-3, 8, 16, 20e-6) == 8
    assert pool._worth(5e-4, 8, 16, 20e-6) == 4  # of 5 ... 7 one does two tasks, too
    assert pool._worth(1e-5, 8, 16, 20e-6) == 1


def test_calls_within_calls_and_beside_each_other():
    visits = np.zeros((4, 50), int)

    def outer(first, last):
        for row in range(first, last):
            pool.each_part(partial(count, visits[row]), 50, 10**6, 4)
            time.sleep(0.002)

    pool.each_part(outer, 4, 10**6, 4)
    assert (visits == 1).all()
    others = [threading.Thread(target=outer, args=(row, row + 1)) for row in range(4)]
    for other in others:
        other.start()
    for other in others:
        other.join()
    assert (visits == 2).all()


@nb.njit(nogil=True)
def _logistic(first, last, worker, visits, workers, x, steps):
    """Iterate ``x -> 3.9 x (1 - x)``, so that a range takes as long as wanted."""
    for k in range(first, last):
        visits[k] += 1
        workers[k] = worker
        value = x[k]
        for _ in range(steps):
            value = 3.9 * value * (1.0 - value)
        x[k] = value


@nb.njit(nogil=True)
def _logistic_shared(ticket, *arguments):
    return share(ticket, ranges(_logistic, arguments))


@nb.njit(nogil=True)
def _raises(first, last, worker, limit):
    if last > limit:
        raise ValueError("beyond")


@nb.njit(nogil=True)
def _raises_shared(ticket, *arguments):
    return share(ticket, ranges(_raises, arguments))


def logistic(tasks, steps):
    """Return work that is shared, and its arrays."""
    arrays = np.zeros(tasks, int), np.full(tasks, -1), np.linspace(0.1, 0.9, tasks)
    return pool.Shared(_logistic_shared, (*arrays, steps)), arrays


@pytest.mark.parametrize("threads", [1, 2, 3, 16])
@pytest.mark.parametrize("tasks", [1, 2, 7, 1000])
@pytest.mark.parametrize("steps", [1, 1000])
@pytest.mark.parametrize("supported", [True, False], ids=["semaphores", "no semaphores"])
def test_shared_work_is_done_once_with_the_same_bits(threads, tasks, steps, supported, monkeypatch):
    monkeypatch.setattr(team_module, "SUPPORTED", supported and team_module.SUPPORTED)
    pool._team.cache_clear()
    plain, expected = logistic(tasks, steps)
    work, found = logistic(tasks, steps)
    for number in range(1, 30):
        plain(0, tasks)
        pool.each_part(work, tasks, 10**6, threads)
        assert (found[0] == number).all()
    assert np.array_equal(found[2], expected[2])
    assert found[1].min() >= 0
    assert found[1].max() < threads
    pool._team.cache_clear()


def test_without_semaphores_no_kernel_asks_for_what_the_system_lacks():
    """Compiled for another system, launchers must not name functions that its library may not have."""
    script = (
        "import sys\n"
        "from qsim.core.device import team\n"
        "team.SUPPORTED = sys.argv[1] == 'with'\n"
        "from tests.core.test_threads import logistic, pool, _logistic_shared, _meet_shared, np\n"
        "pool.each_part(logistic(8, 1)[0], 8, 10**9, 2)\n"
        "pool.each_together(pool.Shared(_meet_shared, (np.zeros((1, 8), int), np.zeros(1, int))), 1, 1)\n"
        "for launcher in (_logistic_shared, _meet_shared):\n"
        "    for text in launcher.inspect_llvm().values():\n"
        "        print(*(name for name in ('sem_', 'usleep', 'sched_yield', 'clock_gettime') if name in text))\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", script, word],
            capture_output=True,
            text=True,
            env=environ,
            check=True,
            timeout=120,
        ).stdout
        for word in ("with", "without")
    ]
    assert "sem_" in found[0]
    assert "usleep" in found[0]
    assert not found[1].strip()


def test_without_semaphores_threads_have_numbers_of_their_own():
    """By which kernels find their work spaces."""
    both, seen = threading.Barrier(2, timeout=10.0), []

    def launch(ticket):
        both.wait()
        seen.append(int(ticket[2]))

    call = pool._Call(pool.Shared(launch, ()), [0, 1, 2])
    other = threading.Thread(target=call.join, args=(1,))
    other.start()
    call.join(0)
    other.join()
    assert sorted(seen) == [0, 1]


def test_long_work_reaches_compiled_threads_and_tells_its_time():
    work, (visits, workers, _) = logistic(64, 20000)
    begun = time.perf_counter()
    for _ in range(20):
        took, spent = pool._team(2).run(work, list(range(65)), 2)
    assert 0.0 < took <= time.perf_counter() - begun
    assert 0.0 < spent <= 2.0 * took
    assert (visits == 20).all()
    assert set(workers) <= {0, 1}


def test_many_short_calls_with_changing_ranges_and_threads():
    """Threads that come late must not take ranges of the next call, or do those twice."""
    rng = np.random.default_rng(5)
    work, (visits, workers, _) = logistic(100, 3)
    team = pool._Team(5)
    for number in range(3000):
        edges = [0, *sorted(rng.integers(0, 101, rng.integers(0, 20))), 100]
        team.run(work, [int(edge) for edge in edges], int(rng.integers(2, 6)))
        assert (visits == number + 1).all()
    assert workers.max() < 5


@nb.njit(nogil=True)
def _meet(first, last, worker, told, visits):
    """Go on only when all parts have come, unless this is all of them."""
    if last == first + 1:
        place = np.int64(told.ctypes.data)
        tell_next(place, first)
        for other in range(visits.size):
            await_as_far(place, other, first)
    visits[first:last] += 1


@nb.njit(nogil=True)
def _meet_shared(ticket, *arguments):
    return share(ticket, ranges(_meet, arguments))


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_parts_that_wait_for_each_other_go_on_at_the_same_time(threads):
    for _ in range(20):
        visits = np.zeros(threads, int)
        told = np.zeros((threads, team_module.LINE // 8), np.int64)
        pool.each_together(pool.Shared(_meet_shared, (told, visits)), threads, threads)
        assert (visits == 1).all()
        assert (told[:, 0] == 1).all()


def test_parts_are_one_call_where_they_cannot_go_on_at_the_same_time(monkeypatch):
    def alone(parts, threads):
        visits = np.zeros(parts, int)
        told = np.zeros((parts, team_module.LINE // 8), np.int64)
        pool.each_together(pool.Shared(_meet_shared, (told, visits)), parts, threads)
        assert (visits == 1).all()
        assert not told.any()

    alone(3, 2)  # fewer threads than parts
    with pool._team(3).free:  # within another call
        alone(3, 3)
    monkeypatch.setattr(team_module, "SUPPORTED", False)
    pool._team.cache_clear()
    alone(3, 3)
    pool._team.cache_clear()


def test_threads_that_sleep_are_woken():
    work, (visits, _, _) = logistic(64, 100)
    team = pool._Team(3)
    for number in range(5):
        time.sleep(0.02)  # longer than they look out for a call
        team.run(work, list(range(65)), 3)
        assert (visits == number + 1).all()


def test_an_error_in_a_compiled_range_is_raised_and_the_team_lives():
    for threads in (1, 4):
        for _ in range(3):
            with pytest.raises(MemoryError, match="kernel failed"):
                pool.each_part(pool.Shared(_raises_shared, (5,)), 8, 10**6, threads)
        pool.each_part(pool.Shared(_raises_shared, (8,)), 8, 10**6, threads)


@intrinsic
def _is_counted(typingctx, array):
    """Tell whether views of an array count references to it."""

    def generate(context, builder, signature, values):
        found = context.make_array(array)(context, builder, values[0])
        return cgutils.is_not_null(builder, found.meminfo)

    return nb.types.boolean(array), generate


class Fields(NamedTuple):
    """Arrays that come by the address of their tuple."""

    x: np.ndarray
    rest: tuple[np.ndarray, np.ndarray]


@nb.njit(nogil=True)
def _counts(first, last, worker, x, pair, fields, found):
    """Tell of each array whether its references are counted."""
    for k in range(first, last):
        found[k, 0] = _is_counted(x)
        found[k, 1] = _is_counted(pair[0]) or _is_counted(pair[1])
        found[k, 2] = _is_counted(fields.x)
        found[k, 3] = _is_counted(fields.rest[0]) or _is_counted(fields.rest[1])
        found[k, 4] = _is_counted(x[first:last])
        found[k, 5] = not _is_counted(np.zeros(3))


@nb.njit(nogil=True)
def _counts_shared(ticket, *arguments):
    return share(ticket, ranges(_counts, arguments))


@pytest.mark.parametrize("threads", [1, 3])
def test_arguments_of_shared_kernels_are_not_counted(threads):
    """Threads that took views of one array wrote to its count of references one after another, for most of their time."""
    arrays = [np.ones(4) for _ in range(6)]
    found = np.ones((8, 6), bool)
    fields = Fields(arrays[3], (arrays[4], arrays[5]))
    work = pool.Shared(_counts_shared, (arrays[0], (arrays[1], arrays[2]), fields, found))
    before = [sys.getrefcount(array) for array in arrays]
    for _ in range(5):
        pool.each_part(work, 8, 10**6, threads)
    assert not found.any()
    assert [sys.getrefcount(array) for array in arrays] == before


def test_a_program_ends_with_its_team_awake_asleep_or_forked():
    script = (
        "import sys, time, os\n"
        "from tests.core.test_threads import logistic, pool\n"
        "work, arrays = logistic(64, 1000)\n"
        "team = pool._Team(4)\n"
        "team.run(work, list(range(65)), 4)\n"
        "time.sleep(float(sys.argv[1]))\n"
        "if sys.argv[2] == 'fork':\n"
        "    child = os.fork()\n"
        "    pool.each_part(work, 64, 10**9, 4)\n"
        "    if child:\n"
        "        assert os.waitpid(child, 0)[1] == 0\n"
        "assert (arrays[0] == (2 if sys.argv[2] == 'fork' else 1)).all()\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for words in (["0", "no"], ["0.05", "no"], ["0", "fork"], ["0.05", "fork"]):
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", script, *words],
            capture_output=True,
            text=True,
            env=environ,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, ""), words


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_in_a_run_and_all_for_large_matrices():
    np.linalg.inv(np.eye(3))
    before = blas_threads()
    with blas.large_matrices(10**4):
        assert blas_threads() == before  # outside a run nothing is changed
    with blas.small_matrices(2):
        assert blas_threads() == {1}
        with blas.large_matrices(blas.LARGE):
            assert blas_threads() == {2}
        with blas.large_matrices(blas.LARGE - 1):
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_programs_start_with_one_blas_thread_and_get_more_when_they_ask():
    script = (
        "import json\n"
        "from qsim.core.device import blas\n"
        "blas.start_with_one_thread()\n"
        "import scipy.linalg\n"
        "from threadpoolctl import threadpool_info\n"
        "def now(): return [x['num_threads'] for x in threadpool_info() if x['internal_api'] == 'openblas']\n"
        "found = [now()]\n"
        "with blas.small_matrices(2), blas.large_matrices(blas.LARGE): found.append(now())\n"
        "print(json.dumps([*found, now()]))"
    )
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    plain["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=plain
    )
    found = json.loads(done.stdout)
    if not found[0]:
        pytest.skip("NumPy and SciPy bring no OpenBLAS here")
    assert [set(threads) for threads in found] == [{1}, {2}, {1}]


def test_the_user_says_how_many_threads_blas_starts():
    environ = {"OPENBLAS_NUM_THREADS": "3"}
    blas.start_with_one_thread(environ)
    assert environ == {"OPENBLAS_NUM_THREADS": "3"}


def test_the_number_of_threads_is_that_of_the_shortest_call():
    random = np.random.default_rng(5)
    for _ in range(4000):
        threads, tasks = int(random.integers(2, 40)), int(random.integers(2, 300))
        wake, whole = 1e-6, float(10.0 ** random.uniform(-8.0, -1.0))
        found = pool._worth(whole, tasks, threads, wake)
        if tasks >= pool.FEW * threads:  # they are cut as finely as one likes
            assert found == max(1, min(threads, int((whole / wake) ** 0.5)))
            continue

        def seconds(count, whole=whole, tasks=tasks, wake=wake):
            return whole * -(-tasks // count) / tasks + wake * count

        shortest = min(seconds(count) for count in range(1, min(threads, tasks) + 1))
        assert seconds(found) <= shortest * (1.0 + 1e-12)

"""Communicators without MPI: launchers, shares, errors that all ranks agree on."""

import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from qsim.core.device import device as device_module
from qsim.core.device import parallel
from qsim.core.device.device import CudaStatus, cpu, select
from qsim.core.device.parallel import SerialComm, agreed, first, is_agreed, launched_ranks, share, share_of
from qsim.core.errors import DeckError, DeviceError
from qsim.core.run.ranks import about_ranks
from qsim.core.run.stages import Plan


class Ring:
    """Ranks as threads: what MPI does, in one process."""

    def __init__(self, size):
        self.size, self.slots, self.gate = size, [None] * size, threading.Barrier(size)

    def run(self, function):
        """Return what `function(comm)` returns or raises on each rank."""
        found = [None] * self.size

        def work(rank):
            try:
                found[rank] = function(Rank(self, rank))
            except Exception as error:
                found[rank] = error

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=20)
        return found


class Rank:
    """One rank of a ring."""

    def __init__(self, ring, rank):
        self.ring, self.rank, self.size = ring, rank, ring.size
        self.local_rank, self.local_size = rank, ring.size

    def allgather(self, value):
        self.ring.slots[self.rank] = value
        self.ring.gate.wait(timeout=10)
        found = list(self.ring.slots)
        self.ring.gate.wait(timeout=10)
        return found

    def bcast(self, value, root=0):
        return self.allgather(value)[root]

    def gather(self, value, root=0):
        found = self.allgather(value)
        return found if self.rank == root else None

    def allmax(self, value):
        return max(self.allgather(value))

    def barrier(self):
        self.allgather(None)


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "3"}, 3),
        ({"PMI_SIZE": "2"}, 2),
        ({"SLURM_NTASKS": "4"}, 1),  # a batch script, which srun has not started
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, 4),
        ({"PMI_SIZE": "nonsense"}, 1),
    ],
)
def test_launchers_are_known_by_their_variables(environ, ranks):
    assert launched_ranks(environ) == ranks


@pytest.mark.parametrize(
    ("masks", "shares"),
    [
        ([{0, 1, 2, 3}] * 2, [2, 2]),
        ([{0, 1, 2, 3}] * 3, [1, 1, 1]),
        ([{0, 1}, {2, 3}], [2, 2]),
        ([{0, 1, 2, 3}, {0}], [3, 1]),
        ([{0}] * 5, [1] * 5),
    ],
)
def test_cores_are_shared_by_those_who_may_use_them(masks, shares):
    found = [share_of([frozenset(mask) for mask in masks], rank) for rank in range(len(masks))]
    assert found == shares


@pytest.mark.parametrize("count", [1, 5, 7, 12])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_shares_are_all_items_once(count, size):
    found = Ring(size).run(lambda comm: share(comm, count))
    assert np.concatenate([np.arange(count)[part] for part in found]).tolist() == list(range(count))
    lengths = [part.stop - part.start for part in found]
    assert max(lengths) - min(lengths) <= 1


def test_an_error_of_one_rank_is_that_of_all():
    def work(comm):
        def do():
            if comm.rank == 1:
                raise DeckError("a mistake")
            return comm.rank

        return agreed(comm, do)

    found = Ring(3).run(work)
    assert all(isinstance(error, DeckError) and is_agreed(error) for error in found)
    assert "on rank 1 of 3" in found[0].__notes__
    assert Ring(3).run(lambda comm: agreed(comm, lambda: comm.rank)) == [0, 1, 2]


def test_the_first_rank_acts_and_tells_the_others():
    calls = []

    def work(comm):
        return first(comm, lambda: calls.append(comm.rank) or 42)

    assert Ring(3).run(work) == [42, 42, 42]
    assert calls == [0]

    def fail(comm):
        def do():
            raise FileNotFoundError("nothing there")

        return first(comm, do)

    assert [type(error) for error in Ring(3).run(fail)] == [FileNotFoundError] * 3


def test_an_error_that_cannot_be_sent_is_told():
    class Local(Exception):
        pass

    def work(comm):
        def do():
            raise Local("no pickle")

        return first(comm, do)

    found = Ring(2).run(work)
    assert isinstance(found[0], Local)
    assert "Local: no pickle" in str(found[1])


def test_serially_errors_are_raised_as_they_are():
    with pytest.raises(KeyError):
        agreed(SerialComm(), lambda: {}["a"])
    assert first(SerialComm(), lambda: 3) == 3


def test_arrays_of_a_gpu_do_not_go_to_mpi():
    class OnDevice:
        __cuda_array_interface__ = None

    with pytest.raises(TypeError, match="copy it to the host"):
        parallel._host(OnDevice())


def test_copies_that_do_not_find_each_other_are_refused(monkeypatch):
    """What a plain srun does where MPI needs --mpi."""

    class Alone:
        size, threads = 1, 1

    monkeypatch.setattr(parallel, "MpiComm", Alone)
    with pytest.raises(DeviceError, match="4 processes were started, but MPI knows 1"):
        parallel._connect(4, {})


def test_without_mpi4py_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(DeviceError, match="mpi4py cannot be used") as caught:
        parallel.MpiComm()
    assert "mpi" in caught.value.hint


def test_a_serial_run_does_not_import_mpi(counter):
    runner = f"{__file__.rpartition('/core/')[0]}/methods/run_counter.py"
    code = (
        "import sys, runpy, atexit\n"
        "atexit.register(lambda: print('mpi4py' in sys.modules))\n"
        f"sys.argv = ['qsim', 'counter', 'deck.yaml', '-q', '--no-figures']\nsys.path.insert(0, {runner.rpartition('/')[0]!r})\n"
        f"runpy.run_path({runner!r}, run_name='__main__')"
    )
    counter.deck()
    reply = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert reply.stdout == "False\n", reply.stderr


# --- devices of a node ----------------------------------------------------------------------------


class Gpu:
    """A device that a rank of a node has chosen."""

    is_cuda = True

    def __init__(self, identity):
        self.identity = identity


def chosen(gpus, ranks, monkeypatch):
    """Return what each rank says that chose its device by its number on a node with so many GPUs."""
    names = tuple(f"GPU {k}" for k in range(gpus))
    monkeypatch.setattr(device_module, "cuda_status", lambda: CudaStatus("13.0", 12000, 12000, names, ""))

    def work(comm):
        device, _ = select("cuda", local_rank=comm.local_rank)
        return about_ranks(Gpu(f"0000:{device.index}"), Plan(ranks=9, shared="walkers"), comm)

    return Ring(ranks).run(work)


def test_a_node_with_fewer_gpus_than_ranks_is_told(monkeypatch):
    """Three ranks on two GPUs: numbers 0 and 2 have the same."""
    for notices in chosen(2, 3, monkeypatch):
        assert notices[0] == "3 ranks share the walkers, 3 of them on this node"
        assert re.fullmatch(r"warning: 3 ranks share 2 GPUs of \S+; one rank per GPU is faster", notices[1])
    for notices in chosen(1, 2, monkeypatch):
        assert "2 ranks share 1 GPU of" in notices[1]


@pytest.mark.parametrize(("gpus", "ranks"), [(4, 4), (4, 3)])
def test_a_gpu_for_every_rank_needs_no_warning(monkeypatch, gpus, ranks):
    assert all(len(notices) == 1 for notices in chosen(gpus, ranks, monkeypatch))


def test_a_launcher_that_shows_each_rank_another_gpu_as_number_0(monkeypatch):
    """``srun --gpus-per-task=1``: one GPU is visible to each of two ranks, but not the same one."""
    found = Ring(2).run(
        lambda comm: about_ranks(Gpu(f"0000:{comm.rank}"), Plan(ranks=2, shared="walkers"), comm)
    )
    assert [len(notices) for notices in found] == [1, 1]


def test_ranks_on_cpus_share_no_gpu():
    found = Ring(2).run(lambda comm: about_ranks(cpu(1), Plan(ranks=2, shared="walkers"), comm))
    assert [len(notices) for notices in found] == [1, 1]

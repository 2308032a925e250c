"""Where the host's time goes in a run of H2O: ``mpirun -n 2 python -m bench.qmc.host 8192 cuda``, seconds and calls of rank 0.

With the word ``events`` behind it, also the time between the first and the last kernel of what runs on the GPU; recording that
takes some microseconds of the host per call.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

import bench.ranks as ranks
from qsim.core.device.device import select
from qsim.core.device.parallel import world

spent: dict[str, list[float]] = {}
events: dict[str, list[tuple[Any, Any]]] = {}
ON_GPU = ("diffuse", "generations", "recompute", "branch", "add", "walk")  # functions that launch kernels


def on_gpu(label: str, inner: Callable[..., Any], cuda: Any) -> Callable[..., Any]:
    """Return a function that records an event before and after what another one gives to the GPU."""

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        pair = cuda.Event(), cuda.Event()
        pair[0].record()
        try:
            return inner(*args, **kwargs)
        finally:
            pair[1].record()
            events.setdefault(label, []).append(pair)

    return outer


def timed(owner: Any, name: str, cuda: Any) -> None:
    """Add up the time that a function takes, with all that it calls."""
    inner: Callable[..., Any] = getattr(owner, name)
    label = f"{getattr(owner, '__name__', owner).rpartition('.')[2]}.{name}"

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return inner(*args, **kwargs)
        finally:
            entry = spent.setdefault(label, [0.0, 0.0])
            entry[0] += time.perf_counter() - start
            entry[1] += 1

    setattr(owner, name, on_gpu(label, outer, cuda) if cuda and name in ON_GPU else outer)


def main() -> int:
    """Run twice, and show the second run."""
    from qsim.qmc import run
    from qsim.qmc.kernels.walkers import rows, walk
    from qsim.qmc.sampling import branching, dmc, messages, numbers, vmc, walkers

    count, kind = int(sys.argv[1]), sys.argv[2]
    comm = world()
    device, _ = select(kind, threads=1 if kind == "cpu" else "auto", local_rank=comm.local_rank)
    cuda = device.xp.cuda if kind == "cuda" and "events" in sys.argv[3:] else None
    for owner, names in (
        (run, ("run", "sample", "divergences", "analyse", "fit_sections")),
        (walkers.Walkers, ("place", "recompute", "begin_recompute", "judge", "branch", "select", "_fetch", "join", "saved")),
        (walk, ("walk", "diffuse", "generations", "energies", "recompute")),
        (dmc.DmcSampling, ("_start", "_generation", "_end_interval", "_learn", "_branch", "_steer", "_count", "_close", "state")),
        (vmc.VmcSampling, ("_begin_block", "_end_block", "state")),
        (vmc.WarmUp, ("advance",)),
        (messages.Message, ("__init__", "read")),
        (numbers.Numbers, ("__init__", "add", "send", "read", "_joined")),
        (branching.Population, ("choose", "choose_in_groups", "weigh")),
        (type(comm), ("gather_numbers", "allmax", "allgather", "bcast")),
        (rows, ("_launch",)),
    ):  # fmt: skip
        for name in names:
            timed(owner, name, cuda)
    setting = ranks.Setting(device, comm, False)
    original, runs = run.run, [0]

    def again(*args: Any) -> Any:
        spent.clear()
        events.clear()
        runs[0] += 1
        device.synchronize()
        comm.barrier()
        return original(*args)

    run.run = again
    with device.use():
        found = ranks._water(setting, count * comm.size)
    if comm.rank == 0:
        print(
            f"{count} walkers on each of {comm.size} ranks: {found.seconds:.4f} s, of {device.name}, {runs[0]} runs"
        )
        for label, (seconds, calls) in sorted(spent.items(), key=lambda item: -item[1][0]):
            print(f"{label:36} {seconds:9.4f} s {int(calls):6} calls {1e6 * seconds / calls:10.1f} us")
        for label, pairs in events.items():
            device.synchronize()
            times = [device.xp.cuda.get_elapsed_time(*pair) for pair in pairs]
            print(
                f"on the GPU: {label:24} {1e-3 * sum(times):9.4f} s, {1e3 * sum(times) / len(times):10.1f} us each"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

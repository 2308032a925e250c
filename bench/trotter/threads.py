"""All threads of the CPU against one."""

from __future__ import annotations

from bench.harness import Bench, Skip, case, wall
from bench.trotter import problem
from qsim.core.device.device import cpu
from qsim.core.device.hardware import available_threads

SIZES = (16, 18, 20, 22)


@case("trotter-threads", "TS4 step and measurement on 1, 2, 4 ... threads", devices=("cpu",))
def threads(bench: Bench) -> None:
    """Ratio to one thread; ceilings are those of one core, so there is no floor here."""
    most = available_threads()
    if most == 1:
        raise Skip("this process may use one thread only")
    counts = sorted({1, *(2**k for k in range(1, 12) if 2**k < most), most})
    for n in SIZES[:1] if bench.quick else SIZES:
        psi, model = problem.noise(n), problem.all_to_all(n)
        one: dict[str, float] = {}
        for count in counts:
            device = cpu(count)
            run = problem.Evolver(device, model, psi)
            works = {
                "step": lambda run=run: run.advance(problem.METHOD, problem.DT, 1),
                "measure": lambda run=run: run.measure("z"),
            }
            for name, work in works.items():
                timing = wall(device, work, budget=0.5)
                first = one.setdefault(name, timing.seconds)
                bench.row(
                    f"N={n} {name}, {count} thread{'s' * (count > 1)}",
                    timing,
                    spins=n,
                    threads=count,
                    ratio=first / timing.seconds,
                    efficiency=first / timing.seconds / count,
                )

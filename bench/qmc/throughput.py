"""Walker-generations a second against the number of walkers, precision, threads, and a GPU against a CPU."""

from __future__ import annotations

from bench.harness import Bench, Skip, case
from bench.qmc import problem
from qsim.core.device.device import Device, cpu
from qsim.core.device.hardware import available_threads
from qsim.qmc.sampling.walkers import Walkers

SYSTEMS = ("He", "H2O")
COUNTS = {"cpu": (16, 64, 256, 1024, 4096), "cuda": (64, 256, 1024, 4096, 8192, 16384, 65536)}
MOST = {"cpu": {"He": 4096, "H2O": 1024}, "cuda": {"He": 65536, "H2O": 16384}}
MIDDLE = 256  # walkers of a CPU in the other cases
GPU_COUNT, GPU_FACTOR, CPU_THREADS = 8192, 50.0, 2
ROUNDS = 12  # in turns
FOUND: dict[tuple[str, str, str], float] = {}  # rate of two threads by system, kind, precision


@case("qmc-walkers", "throughput against the number of walkers (Fig. 3), He and H2O")
def walkers(bench: Bench) -> None:
    """Rows with the rate and, on a GPU, its ratio to two threads of the CPU of the same machine."""
    for name in SYSTEMS:
        base = _host_rates(name, False) if bench.device.is_cuda else {}
        counts = [n for n in COUNTS[bench.device.kind] if n <= MOST[bench.device.kind][name]]
        for n in counts[:2] if bench.quick else counts:
            walkers = problem.ensemble(bench.device, problem.of_deck(name), n, problem.TAU[name])
            rates = problem.measured(bench, walkers, name, f"{n} walkers", 5, blocks=1)
            if base:
                label = f"{name} {n} walkers: GPU / CPU, {CPU_THREADS} threads"
                bench.row(label, walkers=n, **_times(rates, base))


@case("qmc-precision", "single-precision orbitals and inverses against all-double, He and H2O")
def precision(bench: Bench) -> None:
    """The same walkers in both; rows of the mixed ones have the ratio."""
    for name in SYSTEMS:
        n = GPU_COUNT if bench.device.is_cuda and not bench.quick else MIDDLE
        psi, tau = problem.of_deck(name), problem.TAU[name]
        both = {
            single: problem.ensemble(bench.device, psi, n, tau, single=single) for single in (False, True)
        }
        rates = _together(
            bench, name, {f"{n} walkers {problem.REAL[single]}": walkers for single, walkers in both.items()}
        )
        double, mixed = rates.values()
        bench.row(f"{name}: mixed / double", walkers=n, **_times(mixed, double))


@case("qmc-threads", "throughput on 1, 2, 4 ... threads, He and H2O", devices=("cpu",))
def threads(bench: Bench) -> None:
    """Ratio to one thread; where others leave no second core, ``cpu_seconds`` of the rows still show what threads cost.

    Ceilings are those of one core, which floors are held against.
    """
    most = available_threads()
    if most == 1:
        raise Skip("this process may use one thread only")
    counts = sorted({1, *(2**k for k in range(1, 12) if 2**k < most), most})
    for name in SYSTEMS:
        psi, tau = problem.of_deck(name), problem.TAU[name]
        rates = _together(
            bench,
            name,
            {
                f"{MIDDLE} walkers, {count} thread{'s' * (count > 1)}": problem.ensemble(
                    cpu(count), psi, MIDDLE, tau
                )
                for count in counts
            },
        )
        first, *others = rates.values()
        for count, rate in zip(counts[1:], others, strict=True):
            bench.row(f"{name}: {count} threads / 1", threads=count, **_times(rate, first))


def _together(bench: Bench, name: str, ensembles: dict[str, Walkers]) -> dict[str, dict[str, float]]:
    """Measure ensembles in turns; return the rates of each."""
    works = {
        (label, kind): work
        for label, walkers in ensembles.items()
        for kind, work in problem.works_of(walkers, name).items()
    }
    named = {f"{label}: {kind}": work for (label, kind), work in works.items()}
    found = problem.alternate(bench.device, named, ROUNDS)
    return {
        label: problem.rows_of(
            bench,
            walkers,
            name,
            label,
            {kind: found[f"{label}: {kind}"] for other, kind in works if other == label},
            threads=walkers.device.threads,
        )
        for label, walkers in ensembles.items()
    }


def _times(one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Return how many times as fast one is as the other."""
    return {f"times_{kind}": one[kind] / other[kind] for kind in one}


@case("qmc-gpu", "H2O, 8192 walkers: a GPU against two threads of the same code", devices=("cuda",))
def gpu(bench: Bench) -> None:
    """Goals for variational and diffusion Monte Carlo, in both precisions; the CPU is that of the GPU's host."""
    n = 512 if bench.quick else GPU_COUNT
    host = cpu(CPU_THREADS)
    for single in (False, True):
        rates = {}
        for device in (bench.device, host):
            walkers = problem.ensemble(device, problem.of_deck("H2O"), n, problem.TAU["H2O"], single=single)
            where = "GPU" if device.is_cuda else f"CPU, {CPU_THREADS} threads"
            label = f"{n} walkers {problem.REAL[single]}, {where}"
            rates[where] = problem.measured(
                bench, walkers, "H2O", label, 5 if device.is_cuda else 2, blocks=1
            )
        ours, theirs = rates.values()
        for kind, rate in ours.items():
            bench.goal(
                f"H2O {kind}, {n} walkers, {problem.REAL[single]}: GPU / {CPU_THREADS} threads",
                rate / theirs[kind],
                GPU_FACTOR,
                "times",
                at_least=True,
            )


def _host_rates(name: str, single: bool) -> dict[str, float]:
    """Return walker-generations a second of two threads of this machine; measured once."""
    precision = problem.REAL[single]
    if (name, "VMC", precision) not in FOUND:
        device: Device = cpu(CPU_THREADS)
        walkers = problem.ensemble(device, problem.of_deck(name), 1024, problem.TAU[name], single=single)
        quiet = Bench(device, device, True, say=lambda text: None)
        for kind, rate in problem.measured(quiet, walkers, name, "", 3).items():
            FOUND[name, kind, precision] = rate
    return {kind: FOUND[name, kind, precision] for kind in ("moves", "VMC", "DMC")}

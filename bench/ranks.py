"""Time runs on several ranks: ``python bench/run.py --gpus 1,2,4,8`` or ``--ranks 1,2,4``, a model's time beside each.

Every case runs on every number of ranks, each in an ``mpirun`` of its own; one rank per GPU, or one thread per rank on a CPU.
Weak scaling keeps the size per rank, strong scaling the size of the problem.  The model takes the time of one rank, the share of
the work that the largest rank has, and the messages: their bytes over the link's rate, and its latency.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
MARK = "RANKS-RESULT "
LINKS = {"cpu": (3e-6, 6e9), "mpi": (25e-6, 4e9), "nccl": (7e-6, 3e11)}
"""Latency (s) and rate (B/s) each way: MPI in shared memory; GPUs through the hosts, and by NCCL over NVLink (H200)."""
WEAK, STRICT = 0.9, 0.95  # goals for the efficiency of weak scaling
REPEATS, ENOUGH = 7, 3.0  # of a run at most, and the seconds after which there are no more


@dataclass(frozen=True)
class Measured:
    """What one case took on one number of ranks.

    Attributes
    ----------
    seconds : float
        Median of the repeats; of a unit of the work that the label names.
    share : float
        Work of the rank with the most, in units of that of one rank alone.
    messages, bytes : float
        Messages one after the other, and bytes that a rank sends, per unit.
    hardware : str
        What rank 0 ran on.
    """

    seconds: float
    share: float
    messages: float = 0.0
    bytes: float = 0.0
    hardware: str = ""


@dataclass(frozen=True)
class Setting:
    """Where and how large: device, small sizes or not, ranks."""

    device: Any
    comm: Any
    quick: bool

    def pick(self, quick: int, core: int, gpu: int) -> int:
        """Return the size for this machine."""
        if self.quick:
            return quick
        return gpu if self.device.is_cuda else core


@dataclass(frozen=True)
class Ranks:
    """One case: weak or strong scaling of one method."""

    name: str
    summary: str
    run: Callable[[Setting], Measured]
    goal: float = 0.0
    by_host: bool = False  # messages go through the memory of the host, also those of GPUs

    @property
    def method(self) -> str:
        """Method of qsim that the case measures."""
        return self.name.partition("-")[0]


# ------------------------------------------------------------------------------------------- cases


def _tridiag(setting: Setting, rows: int, mode: str, share: float) -> Measured:
    """Time steps of a free packet on so many rows; arrays of the whole grid are views of one number."""
    from qsim.core.device.links import links_of
    from qsim.tridiag.propagate.lattice import Lattice
    from qsim.tridiag.propagate.stepping.propagator import Stepping
    from qsim.tridiag.propagate.stepping.shared import SharedPropagator

    device, comm = setting.device, setting.comm
    lattice = Lattice(-0.1 * rows, 0.2, rows, "numerov", np.broadcast_to(np.float64(-0.5), (rows,)))
    psi = np.broadcast_to(np.complex128(rows**-0.5), (rows,))
    links = links_of(comm, device)
    run = SharedPropagator(device, lattice, psi, 0.05, (None, None), links, Stepping(mode=mode, slope=False))
    steps = run.shape.steps * 4 if run.shape is not None else 8
    seconds = _median(setting, lambda: run.advance(steps, steps)) / steps
    if comm.size == 1:
        return Measured(seconds, share)
    if run.shape is None:
        return Measured(seconds, share, 1.0, 96.0 * comm.size)
    return Measured(seconds, share, 2.0 / run.shape.steps, 2 * 16.0 * run.shape.halo / run.shape.steps)


def _median(setting: Setting, work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median time of some work of all ranks, after one that does not count."""
    times = []
    for number in range(2 if setting.quick else 1 + repeats):
        setting.comm.barrier()
        start = time.perf_counter()
        work()
        setting.device.synchronize()
        setting.comm.barrier()
        if number:
            times.append(time.perf_counter() - start)
    return max(setting.comm.allgather(float(np.median(times))))


def _tridiag_weak(setting: Setting) -> Measured:
    rows = setting.pick(20_000, 1_000_000, 100_000_000)
    return _tridiag(setting, rows * setting.comm.size, "auto", 1.0)


def _tridiag_strong(setting: Setting) -> Measured:
    return _tridiag(setting, setting.pick(60_000, 4_000_000, 400_000_000), "auto", 1.0 / setting.comm.size)


def _tridiag_exact(setting: Setting) -> Measured:
    rows = setting.pick(20_000, 300_000, 10_000_000)
    return _tridiag(setting, rows * setting.comm.size, "exact", 1.0)


def _deck(setting: Setting, deck: Mapping[str, Any], share: float) -> Measured:
    """Time the stage ``run`` of a deck, from the second time on: kernels are compiled.  Short runs scatter, and are repeated."""
    from qsim.core.run.pipeline import Options, execute

    folder = setting.comm.bcast(tempfile.mkdtemp() if setting.comm.rank == 0 else None)
    options = Options(
        device=str(setting.device.kind), output=Path(folder) / "run", force=True, figures=False, verbosity=-1
    )
    times: list[float] = []
    while len(times) < 2 or (len(times) <= REPEATS and sum(times[1:]) < ENOUGH):
        with _Messages(setting.comm) as messages:
            found = execute(str(deck["method"]), dict(deck), options)
        # the slowest rank counts, and all decide alike whether to go on
        times.append(max(setting.comm.allgather(float(found.summary["timing"]["run"]))))
    if setting.comm.rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return Measured(statistics.median(times[1:]), share, messages.count, messages.bytes)


class _Messages:
    """Count what a rank sends to all others by way of MPI while this context lasts: arrays of numbers, and pickled objects."""

    KINDS = ("gather_numbers", "allgather", "bcast")

    def __init__(self, comm: Any) -> None:
        self._kind = type(comm)
        self._originals = {name: getattr(self._kind, name) for name in self.KINDS}
        self.count, self.bytes = 0.0, 0.0

    def __enter__(self) -> _Messages:
        for name, original in self._originals.items():
            setattr(self._kind, name, self._counted(original))
        return self

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def send(comm: Any, value: Any, *more: Any) -> Any:
            if comm.size > 1:
                self.count += 1.0
                self.bytes += _bytes(value)
            return original(comm, value, *more)

        return send

    def __exit__(self, *about: object) -> None:
        for name, original in self._originals.items():
            setattr(self._kind, name, original)


def _bytes(value: Any) -> float:
    """Return the bytes of the numbers in an array, or in nested lists and mappings of arrays."""
    if isinstance(value, Mapping):
        return sum(map(_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_bytes, value))
    return float(getattr(value, "nbytes", 8))


def _loaded(path: str, **changes: Any) -> dict[str, Any]:
    import yaml

    file = ROOT / "inputs" / path
    deck: dict[str, Any] = yaml.safe_load(file.read_text()) | changes
    orbitals = deck.get("wavefunction", {}).get("orbitals", {})
    if "cache" in orbitals:
        orbitals["cache"] = str(file.with_name(orbitals["cache"]))
    return deck


def _qmc_weak(setting: Setting) -> Measured:
    return _water(setting, setting.pick(32, 512, 8192) * setting.comm.size)


def _qmc_few(setting: Setting) -> Measured:
    return _water(setting, setting.pick(32, 128, 2048) * setting.comm.size)


def _qmc_determinants(setting: Setting) -> Measured:
    """The carbon molecule in many determinants."""
    walkers = setting.pick(32, 256, 8192) * setting.comm.size
    blocks = setting.pick(4, 10, 20)
    series = [
        {"vmc": {"walkers": walkers, "blocks": blocks, "steps": 10, "timestep": 0.3, "warmup": 10}},
        {"dmc": {"walkers": walkers, "blocks": blocks, "steps": 10, "timesteps": [0.02], "warmup": 0.2}},
    ]
    deck = _loaded("qmc/c2_cas.yaml", series=series, estimators=["energy"], run={"seed": 1})
    deck["wavefunction"]["determinants"]["cutoff"] = 1e-3
    return _deck(setting, deck, 1.0)


def _water(setting: Setting, walkers: int) -> Measured:
    blocks = setting.pick(6, 20, 40)
    series = [
        {"vmc": {"walkers": walkers, "blocks": blocks, "steps": 10, "timestep": 0.3, "warmup": 10}},
        {"dmc": {"walkers": walkers, "blocks": blocks, "steps": 10, "timesteps": [0.02], "warmup": 0.2}},
    ]
    deck = _loaded("qmc/h2o_ccecp.yaml", series=series, estimators=["energy"], run={"seed": 1})
    return _deck(setting, deck, 1.0)


def _largest(count: int, ranks: int) -> float:
    """Return the largest share of so many equal items."""
    return -(-count // ranks) / count


def _sturmian_strong(setting: Setting) -> Measured:
    energies = [f"{20 + 5 * k} eV" for k in range(setting.pick(4, 16, 40))]
    deck = {
        "method": "sturmian",
        "system": {"Z": 1},
        "grid": {"R": setting.pick(28, 30, 80), "order": 8, "ecs": {"angle": 0.3, "length": 20}},
        "basis": {"type": "fedvr"},
        "channels": {"L": [0] if setting.quick else [0, 1], "S": [0, 1], "l_max": setting.pick(0, 1, 3)},
        "task": {
            "type": "scatter",
            "process": "e_h",
            "energy": energies,
            "observables": ["sigma"],
            "errors": False,
        },
    }
    return _deck(setting, deck, _largest(len(energies) * len(deck["channels"]["L"]) * 2, setting.comm.size))


def _qoc_strong(setting: Setting) -> Measured:
    members = setting.pick(24, 400, 16_000)
    scales = [round(0.9 + 0.2 * k / (members - 1), 8) for k in range(members)]
    deck = _loaded(
        "qoc/robust.yaml",
        ensemble={"field_scale": scales},
        time={"T": 30000, "steps": setting.pick(1000, 6000, 6000)},
        optimizer={"type": "lbfgs", "max_sweeps": setting.pick(6, 6, 60)},
        verify={"propagator": "none"},
        run={"seed": 1},
    )
    return _deck(setting, deck, _largest(members, setting.comm.size))


def _qoc_members(setting: Setting) -> Measured:
    """A verified ensemble of two qubits: detunings and factors of the controls, all combinations."""
    shape = setting.pick(2, 4, 16), setting.pick(2, 4, 10), setting.pick(4, 25, 100)
    ends = {"start": "-2 MHz", "stop": "2 MHz"}
    deck = _loaded(
        "qoc/robust_cnot.yaml",
        time={"T": "20 ns", "slots": setting.pick(10, 100, 200)},
        optimizer={"type": "lbfgs", "max_sweeps": setting.pick(6, 6, 60)},
        ensemble={
            "members": [
                {"set": {"parts.a.frequency": ends | {"count": shape[0]}}},
                {"set": {"parts.b.frequency": ends | {"count": shape[1]}}},
                {"scale": {"control": {"start": 0.98, "stop": 1.02, "count": shape[2]}}},
            ]
        },
        verify={"propagator": "none"},
        run={"seed": 1},
    )
    # the loader takes the key `on` for true; without it the gate acts on all parts
    deck["system"]["target"] = {"gate": "cnot"}
    return _deck(setting, deck, _largest(math.prod(shape), setting.comm.size))


def _trotter_strong(setting: Setting) -> Measured:
    members = setting.pick(8, 32, 64)
    deck = {
        "method": "trotter",
        "system": {
            "spins": setting.pick(8, 14, 22),
            "terms": [
                {"type": "heisenberg", "lattice": "chain", "J": 1.0},
                {"type": "field", "axis": "z", "random": {"kind": "box", "W": 8.0, "seed": 7}},
            ],
        },
        "initial": {"type": "neel"},
        "evolve": {"t_final": 2.0, "outputs": {"count": 4}, "integrator": "bm6", "dt": 0.1},
        "ensemble": {"disorder": members},
        "observe": ["imbalance"],
        "run": {"seed": 1},
    }
    return _deck(setting, deck, _largest(members, setting.comm.size))


def _most_spins(setting: Setting) -> int:
    """Return the most spins of which each GPU holds a state, with 4 GiB for buffers and sums: 32 of 80 GB, 33 of 141 GB."""
    free = min(setting.comm.allgather(setting.device.free_memory()))
    return max(26, int(math.log2(max(1, free - (4 << 30)) / 16)))


def _trotter_state(setting: Setting) -> Measured:
    """Time steps of a Heisenberg ring, in which every rotation turns the spins that number ranks."""
    return _steps(setting, ring_axes=(0, 1, 2), field=0.0)


def _trotter_ising(setting: Setting) -> Measured:
    """Time steps of an Ising ring in a transverse field, which alone turns them."""
    return _steps(setting, ring_axes=(2,), field=0.7)


def _steps(setting: Setting, ring_axes: tuple[int, ...], field: float) -> Measured:
    """Time steps of ts4 of one state, the same amplitudes per rank; the ranks are a power of two."""
    from qsim.core.device.links import links_of
    from qsim.trotter.evolution.distributed import SharedEvolver
    from qsim.trotter.evolution.integrators import course
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.shared.space import bits_of

    device, comm = setting.device, setting.comm
    g, local = bits_of(comm.size), setting.pick(12, 22, _most_spins(setting))
    spins = local + g
    ring = np.roll(np.eye(spins), 1, axis=1)
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    J[list(ring_axes)], h[0] = ring + ring.T, field
    model = Model(spins, J, h)
    psi = device.xp.full(1 << local, 2.0 ** (-0.5 * spins), complex)
    run = SharedEvolver(device, model, psi, links_of(comm, device), own=True)
    seconds = _median(setting, lambda: run.advance("ts4", 0.05, 1), repeats=3)
    plan = course(run.present, "ts4", 0.05, 1)
    # every rotation exchanges these spins, or one of those between two layers of z
    exchanges = plan.total - 1 if len(ring_axes) > 1 else sum(axis == 2 for axis, _ in plan.layers[1:])
    sent = exchanges * (1.0 - 1.0 / comm.size) * 16.0 * 2.0**local
    return Measured(seconds, 1.0, exchanges * (comm.size - 1.0), sent)


def _trotter_levels(setting: Setting) -> Measured:
    """Steps of Lanczos for the ground state of a transverse Ising chain, in one parity, the same amplitudes per rank."""
    from qsim.core.device.links import links_of
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.lanczos import chain, random_start
    from qsim.trotter.sectors.parity import ParitySector
    from qsim.trotter.sectors.shared.operator import SharedOperator
    from qsim.trotter.sectors.shared.space import SharedSpace, bits_of

    device, comm = setting.device, setting.comm
    local = setting.pick(12, 22, _most_spins(setting) - 1)
    spins = local + bits_of(comm.size) + 1
    links = links_of(comm, device)
    bonds = np.eye(spins, k=1)
    model = Model.zero(spins)
    # the axis of the strings is that of the field
    model.J[0], model.h[2] = -(bonds + bonds.T), 0.5
    operator = SharedOperator(device, SharedSpace(ParitySector(spins, 0), links), model)
    start = random_start(device, operator.size, 1, operator.dtype, operator.first, links)
    made = chain(device, operator, start)
    seconds = _median(setting, lambda: made.step(1.0), repeats=5)
    # the chain turns one spin of the ranks with the next one, and each pair of them
    exchanges = 2.0 * bits_of(comm.size)
    return Measured(seconds, 1.0, exchanges, exchanges * 8.0 * 2.0**local)


def _trotter_exchange(setting: Setting) -> Measured:
    """Exchange the bits that number ranks, with their rotation, before it and after it; on one rank the rotation alone."""
    from qsim.core.device.links import links_of
    from qsim.trotter.evolution.exchange import Exchange
    from qsim.trotter.kernels.layers.top import Act, Columns, rotate_top

    device, comm = setting.device, setting.comm
    local = setting.pick(12, 22, min(31, _most_spins(setting)))
    psi = device.xp.full(1 << local, 2.0 ** (-0.5 * local), complex)
    if comm.size == 1:
        columns = Columns(psi, 0, 1 << (local - 1), 0)
        return Measured(_median(setting, lambda: rotate_top(device, columns, np.ones(2), Act.ROTATE)), 1.0)
    exchange, ones = Exchange(device, links_of(comm, device), local, psi.dtype), np.ones(comm.size)

    def both() -> None:
        exchange.leave(psi, ones, Act.ROTATE)
        exchange.arrive(psi, ones, Act.ROTATE)

    seconds = 0.5 * _median(setting, both)
    return Measured(seconds, 1.0, comm.size - 1.0, (1.0 - 1.0 / comm.size) * 16.0 * 2.0**local)


CASES = {
    item.name: item
    for item in (
        Ranks("tridiag-ranks-weak", "local steps, the same rows per rank; seconds per step", _tridiag_weak, WEAK),
        Ranks("tridiag-ranks-strong", "local steps of one grid; seconds per step", _tridiag_strong),
        Ranks("tridiag-ranks-exact", "joint lines gathered in every step, the same rows per rank", _tridiag_exact),
        Ranks("qmc-ranks-weak", "H2O, the same walkers per rank, vmc and dmc; seconds of a run", _qmc_weak, STRICT, True),
        Ranks("qmc-ranks-determinants", "carbon in many determinants; seconds of a run", _qmc_determinants, STRICT, True),
        Ranks("qmc-ranks-few", "the same with a quarter of the walkers; seconds of a run", _qmc_few, WEAK, True),
        Ranks("sturmian-ranks-strong", "electron on hydrogen, energies x L x S; seconds of a run", _sturmian_strong, WEAK, True),
        Ranks("qoc-ranks-strong", "ensemble of field strengths; seconds of a run", _qoc_strong, WEAK, True),
        Ranks("qoc-ranks-members", "ensemble of two qubits; seconds of a run", _qoc_members, WEAK, True),
        Ranks("trotter-ranks-state", "one state, the same amplitudes per rank; seconds of a step", _trotter_state),
        Ranks("trotter-ranks-ising", "the same of an Ising ring in a transverse field", _trotter_ising),
        Ranks("trotter-ranks-levels", "one parity of an Ising chain; seconds of a step of Lanczos", _trotter_levels),
        Ranks("trotter-ranks-exchange", "bits that number ranks and their rotation, 32 GiB per GPU", _trotter_exchange),
        Ranks("trotter-ranks-strong", "ensemble of disorder; seconds of a run", _trotter_strong, STRICT, True),
    )
}  # fmt: skip


# ------------------------------------------------------------------------------------------- measuring


def measure(
    names: Sequence[str], counts: Sequence[int], kind: str, quick: bool, say: Callable[[str], None] = print
) -> list[dict[str, Any]]:
    """Run cases on each number of ranks; return entries of the record.

    Parameters
    ----------
    names
        Cases.
    counts
        Numbers of ranks.
    kind
        ``cpu`` or ``cuda``.
    quick
        Small sizes.
    say
        Takes the lines of the report.
    """
    asked = os.environ.get("QSIM_LINKS", "nccl")
    entries = []
    for name in names:
        case, begin = CASES[name], time.perf_counter()
        link = "cpu" if kind == "cpu" or case.by_host else asked
        say(f"\n{name} on {kind}: {case.summary}")
        entry: dict[str, Any] = {
            "case": name,
            "summary": case.summary,
            "device": kind,
            "link": link,
            "rows": [],
        }
        entry |= {"status": "done", "message": "", "goals": [], "notes": [], "load": []}
        alone: Measured | None = None
        for count in counts:
            found, why = _launch(name, count, kind, quick)
            if found is None:
                entry |= {"status": "failed", "message": f"{count} ranks: {why}"}
                say(f"  {count} ranks: failed: {why}")
                continue
            alone = alone or found
            row = asdict(found) | _beside(found, alone, link) | {"label": f"{count} ranks", "ranks": count}
            entry["rows"].append(row)
            say(
                f"  {count:>3} ranks  {found.seconds:10.4g} s  model {row['model_seconds']:10.4g} s  efficiency "
                f"{100 * row['efficiency']:5.1f} %  {found.messages:.3g} messages, {found.bytes:.3g} B, "
                f"{100 * row['link_share']:.2g} % of the link"
            )
            if case.goal and count > 1 and not quick:
                goal = {"goal": f"efficiency on {count} ranks", "value": row["efficiency"], "relation": ">="}
                entry["goals"].append(
                    goal | {"limit": case.goal, "unit": "", "met": row["efficiency"] >= case.goal}
                )
        entry["seconds"] = time.perf_counter() - begin
        entries.append(entry)
    return entries


def _beside(found: Measured, alone: Measured, link: str) -> dict[str, float]:
    """Return what the model says of a measurement, given that of the smallest number of ranks, and the efficiency."""
    latency, rate = LINKS[link]
    ideal = alone.seconds * found.share / alone.share
    sent = found.messages * latency + found.bytes / rate
    return {
        "model_seconds": ideal + sent,
        "efficiency": ideal / found.seconds,
        "link_share": found.bytes / found.seconds / rate,
    }


def _launch(name: str, count: int, kind: str, quick: bool) -> tuple[Measured | None, str]:
    """Run one case on so many ranks; return what it took, or why it failed."""
    beside = Path(sys.executable).with_name("mpirun")
    mpirun = str(beside) if beside.exists() else shutil.which("mpirun")
    if mpirun is None:
        return None, "no mpirun; pip install mpich"
    command = [mpirun, "-n", str(count), sys.executable, "-m", "bench.ranks", name, "--device", kind]
    threads = {key: "1" for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")}
    root = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    environ = os.environ | (threads if kind == "cpu" else {}) | root
    try:
        reply = subprocess.run(
            command + (["--quick"] if quick else []),
            cwd=ROOT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
    except subprocess.TimeoutExpired:
        return None, "longer than 15 minutes"
    for line in reply.stdout.splitlines():
        if line.startswith(MARK):
            return Measured(**json.loads(line.removeprefix(MARK))), ""
    told = reply.stderr.strip().splitlines()
    return None, told[-1] if told else f"exit code {reply.returncode}"


def main() -> int:
    """Run one case as one of several ranks."""
    from qsim.core.device.device import select
    from qsim.core.device.parallel import world

    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    comm = world()
    device, _ = select(
        options.device, threads=1 if options.device == "cpu" else "auto", local_rank=comm.local_rank
    )
    with device.use():
        found = CASES[options.case].run(Setting(device, comm, options.quick))
    if comm.rank == 0:
        print(MARK + json.dumps(asdict(replace(found, hardware=device.name))), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

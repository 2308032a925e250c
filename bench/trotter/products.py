"""H psi in the sector Sz = 0 of a chain and of couplings of all pairs, beside QuSpin's matrix: the same vector, one thread."""

from __future__ import annotations

import importlib.util
import statistics
import time
from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case, kernel
from bench.trotter import sectors
from qsim.core.device.device import Device
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator

SIZES = {"cpu": (16, 20, 22, 24), "cuda": (24, 28, 30, 32)}
ALL_PAIRS = (16, 18, 20)
TYPES = {"complex": np.complex128, "real": np.float64}
ROUNDING = 1e-12  # of the difference of the two products, in units of the largest element
BUDGET = 1.0  # seconds of one timing
GOAL = 3.0  # times as fast as QuSpin with N = 20 to 24, all pairs with N = 18 and 20
SMALL_GOAL = 1.0  # with N = 16


def chain(spins: int) -> Model:
    """Return an open XXZ chain, Jxy = 1, Jz = 1/2, random fields along z."""
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j in range(spins - 1):
        for a, value in enumerate((1.0, 1.0, 0.5)):
            J[a, j, j + 1] = J[a, j + 1, j] = value
    h[2] = np.random.default_rng(0).uniform(-1.0, 1.0, spins)
    return Model(spins, J, h)


def all_pairs(spins: int) -> Model:
    """Return random XXZ couplings between all pairs."""
    generator = np.random.default_rng(0)
    J = np.zeros((3, spins, spins))
    J[0], J[2] = (np.triu(generator.standard_normal((spins, spins)), 1) for _ in range(2))
    J[1] = J[0]
    return Model(spins, J + J.transpose(0, 2, 1), np.zeros((3, spins)))


def timed(device: Device, work: Any, least: int) -> Timing:
    """Time repeated work; on a CPU in processor time, which other load on the machine lengthens least."""
    if device.is_cuda:
        return kernel(device, work, budget=1.0, least=least)
    work()
    times = []
    while len(times) < least or (sum(times) < BUDGET and len(times) < 25):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return Timing(statistics.median(times), min(times), len(times), "processor", statistics.median(times))


def vector(device: Device, size: int, dtype: Any) -> Any:
    """Return a random vector on the device."""
    generator = np.random.default_rng(1)
    found = generator.standard_normal(size).astype(dtype)
    return device.asarray(
        found + 1j * generator.standard_normal(size) if np.dtype(dtype).kind == "c" else found
    )


@case("trotter-sector", "H psi in a sector of Sz, beside QuSpin's matrix")
def products(bench: Bench) -> None:
    """Set-up and product; every ratio is QuSpin's time over ours."""
    installed = importlib.util.find_spec("quspin") is not None
    if not installed:
        bench.note("QuSpin is not installed: no comparison")
    sizes = SIZES[bench.device.kind]
    compared = installed and not bench.device.is_cuda
    for n in sizes[:1] if bench.quick else sizes:
        _one(bench, f"N={n}", chain(n), compared)
    if not bench.device.is_cuda:
        for n in ALL_PAIRS[:1] if bench.quick else ALL_PAIRS:
            _one(bench, f"N={n} all pairs", all_pairs(n), compared)


def _one(bench: Bench, label: str, model: Model, compared: bool) -> None:
    device, n = bench.device, model.spins
    sector = Sector(n, n // 2)
    operator = SectorOperator(device, sector, model)
    setup = timed(device, lambda: SectorOperator(device, sector, model).tables, least=3)
    host = operator.tables.host
    taken = sum(table.nbytes for table in host[1:]) if host else 0
    bench.row(f"{label}: tables", setup, spins=n, states=sector.dimension, table_bytes=taken)
    theirs = None
    if compared:
        start = time.process_time()
        theirs = sectors.Sector.build(model, sectors.bases(model, False)["sector of Sz"])
        spent = time.process_time() - start
        bench.row(f"{label}: QuSpin, basis and matrix", Timing(spent, spent, 1, "processor", spent), spins=n)
    for name, dtype in TYPES.items():
        psi = vector(device, sector.dimension, dtype)
        out = device.xp.zeros_like(psi)
        ours = timed(device, lambda p=psi, o=out: operator.apply(p, o, 1.0, 0.0, -1.0), least=5)
        _row(bench, f"{label}, {name}: qsim, with the older vector", ours, n, sector)
        if theirs is None:
            continue
        _same(device, sector, theirs, operator, psi)
        other = np.zeros_like(psi)
        timing = timed(device, lambda p=psi, o=other, m=theirs.hamiltonian: m.dot(p, out=o), least=5)
        ratio = timing.best / ours.best
        _row(
            bench,
            f"{label}, {name}: QuSpin",
            timing,
            n,
            sector,
            ratio=ratio,
            matrix_bytes=theirs.matrix_bytes,
        )
        goal = GOAL if n >= 18 else SMALL_GOAL
        bench.goal(f"product of {label}, {name}, QuSpin over qsim", ratio, goal, "times", at_least=True)


def _row(bench: Bench, label: str, timing: Timing, n: int, sector: Sector, **more: Any) -> None:
    bench.row(label, timing, spins=n, nanoseconds_a_state=1e9 * timing.best / sector.dimension, **more)


def _same(device: Device, sector: Sector, theirs: Any, operator: SectorOperator, psi: Any) -> None:
    """Check that both are the same matrix: their bits are reversed, and 1 is up."""
    everything = (1 << sector.spins) - 1
    states = np.asarray(theirs.basis.states, dtype=object) ^ everything  # site j of ours is their bit j
    order = sector.index(np.array([int(s) for s in states], np.int64))
    mine = device.xp.zeros_like(psi)
    operator.apply(psi, mine)
    difference = np.abs(theirs.hamiltonian.dot(psi[order]) - mine[order]).max()
    if not difference < ROUNDING * np.abs(mine).max() * sector.spins:
        raise AssertionError(f"products differ by {difference:.2g}")

"""Crystals: throughput against walkers (Fig. 3), shares of time (Fig. 4), uniform against mixed basis (Fig. 5).

Diamond with 2 and 16 atoms has the bands of the decks; with 64 atoms, on a GPU, those of an empirical pseudopotential, since
nobody needs its energies here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numba as nb
import numpy as np
import yaml

from bench.harness import Bench, Timing, case
from bench.qmc import problem
from qsim.core.errors import DeviceError
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.kernels.common.jit import JIT
from qsim.qmc.kernels.crystal.bloch_cpu import bloch_sums, bloch_values
from qsim.qmc.kernels.crystal.types import basis_of
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import DRIFT, FIXED_NODE
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.cell import points_within
from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.crystals.pyscf import kpoints_of
from qsim.qmc.wavefunction.crystals.trial import build_crystal, mixed_error
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction
from qsim.qmc.wavefunction.formats.eshdf import write_eshdf
from qsim.qmc.wavefunction.notes import Notes
from qsim.qmc.wavefunction.trial import build_wavefunction

FILES = {"diamond 2": "diamond_primitive.yaml", "diamond 16": "diamond16.yaml"}
COUNTS = {"diamond 2": (16, 64, 256, 1024), "diamond 16": (4, 16, 64)}
MIDDLE = {"diamond 2": 64, "diamond 16": 8}
REPEATS = {"diamond 2": 10, "diamond 16": 2}  # generations of a piece of work
ROUNDS = 3
TAU, MOVES = 0.02, 0.3  # time steps of diffusion and of variational moves
# QMCPACK 4.3, own build, double precision, one thread of the same kind of core, 256 walkers, diamond of two atoms with the BFD
# pseudopotential; walker-generations a second
QMCPACK = {"locality": 4700.0, "T-moves": 3600.0}
FACTOR = 1.5
BASES: dict[str, dict[str, Any]] = {
    "splines": {},
    "splines, meshfactor 0.6": {"meshfactor": 0.6},
    "tins to l = 4": {"muffin_tins": {"lmax": 4}},
    "tins to l = 6": {"muffin_tins": {"lmax": 6}},
    "tins to l = 8": {"muffin_tins": {"lmax": 8}},
}
POINTS = 4000
# Diamond of 64 atoms: two cubic cells along each axis, bands of an empirical pseudopotential.  Its form factors (rydberg, by
# squares of reciprocal vectors of the cube) are of the size known for diamond: enough for orbitals that are only timed
TILE64 = np.array([[2, -2, 2], [2, 2, -2], [-2, 2, 2]])
FORM_FACTORS = {3: -0.811, 8: 0.337, 11: 0.132}
CUTOFF = 8.0  # hartree
GPU_COUNTS = {"diamond 16": (1024, 4096, 8192), "diamond 64": (1024, 2048)}
GPU_GOALS = {"diamond 16": 4e5, "diamond 64": 2.5e4}  # walker-generations a second, mixed precision
GPU_REPEATS = {"diamond 2": 20, "diamond 16": 5, "diamond 64": 1}
GPU_MIDDLE = {"diamond 2": 8192, "diamond 16": 4096}
SAMPLED = {"diamond 2": 400, "diamond 16": 200}  # generations of an energy on a GPU


@cache
def of_deck(name: str, basis: str = "splines") -> CrystalWavefunction:
    """Return the trial function at the start of a deck of diamond, with 2 or 16 atoms."""
    deck = yaml.safe_load((problem.DECKS / FILES[name]).read_text(encoding="utf-8"))
    deck["wavefunction"]["orbitals"] |= BASES[basis]
    system = {"cell": "periodic", **deck["system"]}
    made = build_wavefunction(
        blocks.System.model_validate(system),
        blocks.Wavefunction.model_validate(deck["wavefunction"]),
        folder=problem.DECKS,
    )
    assert isinstance(made, CrystalWavefunction)
    return made


@cache
def diamond64() -> CrystalWavefunction:
    """Return a trial function of 64 atoms, 256 electrons and 128 real functions on 40^3 points of the primitive cell."""
    small = of_deck("diamond 16")
    cell = small.orbitals.primitive
    place = 0.25 * cell.lattice.sum(0)  # of the second atom; the first is at the origin
    unit = (
        2.0 * np.pi / np.abs(cell.lattice).max() / 2.0
    ) ** 2  # of a reciprocal vector of the cube, squared
    points = []
    for kappa in kpoints_of(TILE64, np.zeros(3)):
        shift = np.linalg.norm(kappa @ cell.reciprocal)
        g = points_within(cell.reciprocal, np.sqrt(2.0 * CUTOFF) + shift)
        g = g[0.5 * (((g + kappa) @ cell.reciprocal) ** 2).sum(1) < CUTOFF]
        between = (g[:, None] - g) @ cell.reciprocal
        squares = np.rint((between**2).sum(-1) / unit).astype(int)
        V = 0.5 * np.vectorize(lambda n: FORM_FACTORS.get(n, 0.0))(squares)
        H = V * 0.5 * (1.0 + np.exp(-1j * between @ place))
        H += np.diag(0.5 * (((g + kappa) @ cell.reciprocal) ** 2).sum(1))
        energies, vectors = np.linalg.eigh(H)
        points.append(KPoint(kappa, g, energies[None, :4], vectors[:, :4].T[None].copy()))
    atoms = np.stack([np.zeros(3), place])
    crystal = Crystal(cell.lattice, ("C", "C"), atoms, {"C": 4.0}, tuple(points), "form factors")
    system = blocks.System.model_validate({"cell": "periodic", "tilematrix": TILE64.tolist()})
    spline = {"type": "bspline", "rcut": "ws", "size": 8}
    with TemporaryDirectory() as folder:
        write_eshdf(Path(folder) / "bands.h5", crystal, (4, 4))
        block = blocks.Wavefunction.model_validate(
            {
                "orbitals": {"source": "eshdf", "file": f"{folder}/bands.h5", "meshfactor": 3.3},
                "jastrow": {"J1": spline, "J2": spline},
            }
        )
        potentials = small.system.pseudopotentials
        return build_crystal(
            system, block, blocks.Coulomb(), potentials=potentials, folder=Path(folder), notes=Notes()
        )


def _generations(walkers: Walkers, count: int, tmoves: bool) -> Callable[[], None]:
    """Return generations of diffusion without branching: moves, local energy, T-moves."""
    walk.energies(walkers.device, walkers.state, walkers.tables, walkers.stream(problem.SECTION))
    reference = float(np.mean(walkers.device.to_host(walkers.state.energy[:, 5])))

    def work() -> None:
        walkers.state.weight[...] = 1.0
        for _ in range(count):
            walk.diffuse(
                walkers.device,
                walkers.state,
                walkers.tables,
                TAU,
                walkers.stream(problem.SECTION),
                tmoves=tmoves,
                reference=reference,
                trial=reference,
                window=10.0,
                tau_ratio=1.0,
            )
            walkers.generation += 1

    return work


def _rates(bench: Bench, walkers: Walkers, name: str, label: str, **numbers: Any) -> dict[str, float]:
    """Measure diffusion with and without T-moves; return walker-generations a second of each."""
    count = (GPU_REPEATS if bench.device.is_cuda else REPEATS)[name]
    works = {
        kind: _generations(walkers, count, tmoves)
        for kind, tmoves in (("locality", False), ("T-moves", True))
    }
    rates = {}
    for kind, timing in problem.alternate(bench.device, works, 2 if bench.quick else ROUNDS).items():
        rates[kind] = walkers.count * count / problem.undisturbed(bench.device, timing)
        bench.row(
            f"{label}: {kind}",
            timing,
            kind=kind,
            system=name,
            walkers=walkers.count,
            electrons=walkers.electrons,
            precision=problem.REAL[walkers.single],
            walker_generations_per_s=rates[kind],
            **numbers,
        )
    return rates


def _ensemble(bench: Bench, name: str, count: int, basis: str = "splines", single: bool = False) -> Walkers:
    return problem.ensemble(bench.device, of_deck(name, basis), count, MOVES, single=single)


@case(
    "qmc-crystals",
    "throughput of diamond against the number of walkers, 2 and 16 atoms (Fig. 3)",
    devices=("cpu",),
)
def crystals(bench: Bench) -> None:
    """Rows for each number of walkers; goals are those of one core and the smallest cell."""
    for name, counts in COUNTS.items():
        for count in counts[:1] if bench.quick else counts:
            rates = _rates(bench, _ensemble(bench, name, count), name, f"{name} atoms, {count} walkers")
            if name == "diamond 2" and count == 256:
                for kind, rate in rates.items():
                    text = f"diamond, 8 electrons, {kind}: one core / QMCPACK"
                    bench.goal(text, rate / QMCPACK[kind], FACTOR, "times", at_least=True)


@case(
    "qmc-crystals-gpu",
    "throughput of diamond on a GPU, 16 atoms in both precisions and 64 atoms in mixed precision (Fig. 3)",
    devices=("cuda",),
)
def crystals_gpu(bench: Bench) -> None:
    """Rows for each number of walkers; goals are those of the largest, and that mixed precision is the faster one."""
    for name, counts in GPU_COUNTS.items():
        made = of_deck(name) if name in FILES else diamond64()
        rates: dict[str, float] = {}
        for count in counts[:1] if bench.quick else counts:
            walkers = problem.ensemble(bench.device, made, count, MOVES, single=True)
            rates = _rates(bench, walkers, name, f"{name} atoms, {count} walkers")
        for kind, rate in rates.items():
            text = f"{name} atoms, {kind}: walker-generations"
            bench.goal(text, rate, GPU_GOALS[name], "1/s", at_least=True)
        if name == "diamond 16":
            walkers = problem.ensemble(bench.device, made, counts[-1 if not bench.quick else 0], MOVES)
            double = _rates(bench, walkers, name, f"{name} atoms, {walkers.count} walkers, double")
            for kind, rate in rates.items():
                bench.goal(
                    f"{name} atoms, {kind}: mixed / double", rate / double[kind], 1.0, "times", at_least=True
                )


@case("qmc-crystal-precision", "diamond: mixed precision against double, 2 and 16 atoms", devices=("cpu",))
def precision(bench: Bench) -> None:
    """Rows with both rates and their ratio."""
    for name in FILES:
        rates = [
            _rates(
                bench,
                _ensemble(bench, name, MIDDLE[name], single=single),
                name,
                f"{name} atoms, {problem.REAL[single]}",
            )
            for single in (False, True)
        ]
        double, mixed = rates
        bench.row(f"{name} atoms: mixed / double", **{f"times_{k}": mixed[k] / double[k] for k in mixed})


@case("qmc-basis", "uniform against mixed basis: memory, error, speed, energy (Fig. 5), diamond")
def basis(bench: Bench) -> None:
    """A row for each basis with bytes, change of the kinetic energy, and the rates of diffusion.

    On a CPU rows of single points follow; on a GPU, in mixed precision, the variational energy.
    """
    for name in list(FILES)[: 1 if bench.quick else 2]:
        for label in BASES:
            try:
                _basis(bench, name, label)
            except DeviceError as error:  # of a device without kernels for it
                bench.note(f"{name} atoms, {label}: {error}")


def _basis(bench: Bench, name: str, label: str) -> None:
    made, gpu = of_deck(name, label), bench.device.is_cuda
    orbitals, N = made.orbitals, made.n_electrons
    counts = (made.n_up, made.n_dn)
    error = mixed_error(orbitals, counts) if orbitals.tins else orbitals.spline_error(counts)
    size = orbitals.table_bytes // 2 if gpu else orbitals.table_bytes
    numbers = {"bytes_of_tables": size, "kinetic_error_per_electron": error / N}
    count = 64 if bench.quick and gpu else (GPU_MIDDLE if gpu else MIDDLE)[name]
    walkers = _ensemble(bench, name, count, label, single=gpu)
    _rates(bench, walkers, name, f"{name} atoms, {label}", **numbers)
    if gpu:
        energy, bar = _energy(walkers, 10 if bench.quick else SAMPLED[name])
        text = f"{name} atoms, {label}: variational energy"
        bench.row(text, system=name, energy_per_electron=energy / N, energy_error_per_electron=bar / N)
        return
    for kind, work in _points(made).items():
        timing = problem.alternate(bench.device, {kind: work}, ROUNDS)[kind]
        text = f"{name} atoms, {label}: {kind} at a point"
        one = problem.undisturbed(bench.device, timing) / POINTS
        bench.row(text, timing, us_per_point=1e6 * one, channels=orbitals.channels)


def _energy(walkers: Walkers, count: int) -> tuple[float, float]:
    """Return the variational energy and its standard error, hartree: walkers are independent, generations of one are not."""
    device, state, tables = walkers.device, walkers.state, walkers.tables
    walkers.recompute()
    walk.walk(device, state, tables, MOVES, DRIFT, problem.THERMAL, walkers.stream(problem.SECTION))
    walkers.generation += problem.THERMAL
    sums = device.xp.zeros((walkers.count, walk.SUMS))
    stream = walkers.stream(problem.SECTION)
    walk.generations(device, state, tables, MOVES, DRIFT, 1, count, stream, sums)
    walkers.generation += count
    means = device.to_host(sums)[:, 5] / count
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(walkers.count))


def _points(made: CrystalWavefunction) -> dict[str, Callable[[], None]]:
    """Return the evaluation of all orbitals at random points, with derivatives and without."""
    tables = made.orbital_tables()
    points = np.random.default_rng(1).random((POINTS, 3)) @ made.cell.lattice
    sums = np.zeros((17, max(6, made.orbitals.channels + 1, (tables.tin_lmax + 1) ** 2)))
    w = np.zeros((3, 3, 4))
    basis = basis_of(tables)
    return {
        "values, gradients, Laplacians": lambda: _all_sums(basis, tables, points, sums, w),
        "values": lambda: _all_values(basis, tables, points, sums, w),
    }


@nb.njit(**JIT)
def _all_sums(basis, tables, points, sums, w):
    """Values, gradients and Laplacians at many points (k, 3)."""
    for k in range(points.shape[0]):
        bloch_sums(basis, tables, 0, points[k, 0], points[k, 1], points[k, 2], sums, w)


@nb.njit(**JIT)
def _all_values(basis, tables, points, sums, w):
    """Values at many points (k, 3)."""
    for k in range(points.shape[0]):
        bloch_values(basis, tables, 0, points[k, 0], points[k, 1], points[k, 2], sums, w)


@case("qmc-crystal-shares", "share of time per class of kernels in DMC of diamond (Fig. 4)", devices=("cpu",))
def shares(bench: Bench) -> None:
    """A row for each class with seconds a generation of all walkers and its share of a generation with T-moves."""
    for name in list(FILES)[: 1 if bench.quick else 2]:
        _shares(bench, name)


def _shares(bench: Bench, name: str) -> None:
    count, repeats = MIDDLE[name], REPEATS[name]

    def moved(walkers: Walkers) -> Callable[[], None]:
        def work() -> None:
            walk.walk(
                walkers.device,
                walkers.state,
                walkers.tables,
                TAU,
                FIXED_NODE,
                repeats,
                walkers.stream(problem.SECTION),
            )
            walkers.generation += repeats

        return work

    def energies(walkers: Walkers) -> Callable[[], None]:
        def work() -> None:
            for _ in range(repeats):
                walk.energies(walkers.device, walkers.state, walkers.tables, walkers.stream(problem.SECTION))

        return work

    bare, local = _ensemble(bench, name, count), _ensemble(bench, name, count)
    jastrow = bare.tables.jastrow
    bare.tables = bare.tables._replace(jastrow=jastrow._replace(kind=0 * jastrow.kind))
    hamiltonian = local.tables.hamiltonian
    local.tables = local.tables._replace(hamiltonian=hamiltonian._replace(channels=0 * hamiltonian.channels))
    walkers = _ensemble(bench, name, count)
    rows = _points(walkers.wavefunction)["values, gradients, Laplacians"]  # type: ignore[arg-type]
    works = {
        "generation": _generations(_ensemble(bench, name, count), repeats, True),
        "moves": moved(walkers),
        "moves, no Jastrow factor": moved(bare),
        "energy": energies(walkers),
        "energy, no nonlocal part": energies(local),
        "rows": rows,
    }
    found = problem.alternate(bench.device, works, 2 if bench.quick else ROUNDS)
    times = {kind: problem.undisturbed(bench.device, timing) / repeats for kind, timing in found.items()}
    whole = times["generation"]
    splines = times["rows"] * repeats / POINTS * count * walkers.electrons
    factor = times["moves"] - times["moves, no Jastrow factor"]
    classes = {
        "splines of moves": splines,
        "Jastrow factor of moves": factor,
        "determinants, random numbers, drift, acceptance": times["moves"] - splines - factor,
        "local energy without nonlocal part": times["energy, no nonlocal part"],
        "nonlocal part": times["energy"] - times["energy, no nonlocal part"],
        "T-moves, and what is in no class": whole - times["moves"] - times["energy"],
    }
    for kind, seconds in classes.items():
        timing = Timing(seconds, seconds, ROUNDS, "wall")
        share = seconds / whole
        bench.row(f"{name} atoms: {kind}", timing, kind=kind, system=name, share_of_generation=share)

"""QuSpin and qsim from the same state to the same time with the same error, set-up and memory apart."""

from __future__ import annotations

import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, Timing, case
from bench.trotter import problem, sectors
from qsim.core.device.device import Device
from qsim.trotter.evolution.accuracy import choose
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.evolution.orbits import OrbitSeries
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.sectors.orbits import Orbits, symmetries_of

SIZES = (12, 14, 16, 18)
ACCURACIES = (1e-6, 1e-10)
DURATION = 10.0
OTHERS_SPINS = 12  # where the slower ways of QuSpin are measured, too
LARGE = 10_000_000  # entries of a matrix, from which on only the way is tried that was the fastest in the last size
SLOW = 4.0  # seconds of repeats that are enough
JUDGE = 1e-15  # tolerance of the state that judges all others


def disordered_chain(spins: int) -> Model:
    """Return the open XXZ chain, 1, 1, 0.5, in random fields along z between -2 and 2."""
    pairs, fields = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j in range(spins - 1):
        pairs[:, j, j + 1] = pairs[:, j + 1, j] = (1.0, 1.0, 0.5)
    fields[2] = np.random.default_rng(spins).uniform(-2.0, 2.0, spins)
    return Model(spins, pairs, fields)


def all_pairs(spins: int) -> Model:
    """Return random XYZ couplings of all pairs, variance 1/N, and random fields along z: its matrix is real."""
    rng = np.random.default_rng(spins)
    pairs = np.triu(rng.standard_normal((3, spins, spins)), 1) / np.sqrt(spins)
    fields = np.zeros((3, spins))
    fields[2] = rng.standard_normal(spins)
    return Model(spins, pairs + pairs.transpose(0, 2, 1), fields)


MODELS: dict[str, Callable[[int], Model]] = {
    "ring": problem.ring,
    "XXZ chain, random fields": disordered_chain,
    "all-to-all XYZ": all_pairs,
}


@case(
    "trotter-quspin", "evolution to the same error beside QuSpin, in the whole space and in sectors", ("cpu",)
)
def equal_error(bench: Bench) -> None:
    """From the Neel state to t = 10; every ratio is QuSpin's time over ours, below one where QuSpin wins."""
    if importlib.util.find_spec("quspin") is None:
        raise Skip("QuSpin is not installed (pip install quspin)")
    for name, make in MODELS.items():
        known: dict[Any, Any] = {}
        for n in SIZES[:1] if bench.quick else SIZES:
            _Comparison(bench, name, make(n), known).run()


@case(
    "trotter-quspin-sector",
    "evolution to the same error in the sector of Sz, beside QuSpin's sectors",
    ("cpu",),
)
def equal_error_in_sector(bench: Bench) -> None:
    """As `trotter-quspin`, with the models that conserve Sz, in the sector of the start."""
    if importlib.util.find_spec("quspin") is None:
        raise Skip("QuSpin is not installed (pip install quspin)")
    for name in ("ring", "XXZ chain, random fields"):
        known: dict[Any, Any] = {}
        for n in SIZES[:1] if bench.quick else SIZES:
            _InSector(bench, name, MODELS[name](n), known).run()


class _Comparison:
    """One model of one size.

    Attributes
    ----------
    known : dict
        Settings found in smaller systems.
    ours : dict of float to (Timing, Timing)
        Set-up and evolution of qsim for each accuracy.
    """

    def __init__(self, bench: Bench, name: str, model: Model, known: dict[Any, Any]) -> None:
        self.bench, self.name, self.model, self.known = bench, name, model, known
        self.label = f"N={model.spins} {name}"
        self.ours: dict[float, tuple[Timing, Timing]] = {}
        self.start = np.zeros(1 << model.spins, complex)
        self.start[sectors.neel_bits(model.spins)] = 1.0
        self.judge = self.start.copy()
        Chebyshev(bench.device, model, bounds="couplings").advance(self.judge, DURATION, JUDGE)

    def run(self) -> None:
        """Measure qsim, then QuSpin in every basis."""
        for accuracy in ACCURACIES:
            self._qsim(accuracy)
        for basis, make in sectors.bases(self.model, self.name == "ring").items():
            self._quspin(basis, make)

    def _error(self, psi: np.ndarray) -> float:
        return float(np.linalg.norm(psi - self.judge))

    # ------------------------------------------------------------------------------------------ qsim

    def _qsim(self, accuracy: float) -> None:
        device, model = self.bench.device, self.model
        how = choose(model, [0.0, DURATION], accuracy, psi=self.start)
        pilot = _repeated(device, lambda: choose(model, [0.0, DURATION], accuracy, psi=self.start))

        def made() -> Any:
            if how.method != "chebyshev":
                return Evolver(device, model, self.start)
            expansion = Chebyshev(device, model)
            expansion.bounds()
            return expansion

        carrier, setup = made(), _repeated(device, made)

        def work() -> np.ndarray:
            if isinstance(carrier, Evolver):
                assert how.dt is not None
                steps = max(1, int(np.ceil(DURATION / how.dt)))
                carrier.psi = self.start
                carrier.advance(how.method, DURATION / steps, steps)
                return carrier.psi
            psi = self.start.copy()
            carrier.advance(psi, DURATION, how.tolerance)
            return psi

        psi, used = _memory(work)
        timing = _repeated(device, work)
        self.ours[accuracy] = setup, timing
        label = f"{self.label}, {accuracy:.0e}: qsim"
        self.bench.row(f"{label}, choice of the integrator", pilot, spins=model.spins)
        self.bench.row(f"{label}, set-up of {how.method}", setup, spins=model.spins)
        self.bench.row(
            f"{label}, {how.method}",
            timing,
            spins=model.spins,
            accuracy=accuracy,
            error=self._error(psi),
            memory_bytes=used,
        )

    # ---------------------------------------------------------------------------------------- QuSpin

    def _quspin(self, basis: str, make: Callable[[], Any]) -> None:
        device, n = self.bench.device, self.model.spins
        sector, used = _memory(lambda: sectors.Sector.build(self.model, make))
        build = _repeated(device, lambda: sectors.Sector.build(self.model, make), budget=0.3, least=1)
        label = f"{self.label}: QuSpin, {basis}"
        self.bench.row(
            f"{label}, basis and matrix",
            build,
            spins=n,
            states=sector.states,
            entries=sector.entries,
            matrix_bytes=sector.matrix_bytes,
            memory_bytes=used,
        )
        self._products(label, sector)
        lasts = [self.known.get((basis, accuracy, "fastest")) for accuracy in ACCURACIES]
        if sector.entries < LARGE or sectors.Taylor.name in lasts:
            made: list[sectors.Taylor] = []
            norms = _repeated(device, lambda: made.append(sectors.Taylor(sector, DURATION)), 0.3, least=1)
            self.bench.row(f"{label}, norms for {sectors.Taylor.name}", norms, spins=n)
            taylor: tuple[sectors.Taylor, Timing] | None = made[-1], norms
        else:
            taylor = None
        for accuracy in ACCURACIES:
            self._evolutions(label, basis, sector, accuracy, build, taylor)

    def _products(self, label: str, sector: sectors.Sector) -> None:
        """One product H psi, with the matrix and without."""
        free, out = sector.free(self.model), np.empty_like(sector.psi)
        psi = problem.noise(self.model.spins)[: sector.states].copy()
        kept = _repeated(self.bench.device, lambda: sector.hamiltonian.dot(psi, out=out), budget=0.3)
        made = _repeated(self.bench.device, lambda: free.dot(psi), budget=0.3, least=1)
        self.bench.row(f"{label}, H psi", kept, spins=self.model.spins)
        ratio = made.best / kept.best
        self.bench.row(f"{label}, H psi without a matrix", made, spins=self.model.spins, times_matrix=ratio)

    def _evolutions(
        self,
        label: str,
        basis: str,
        sector: sectors.Sector,
        accuracy: float,
        build: Timing,
        taylor: tuple[sectors.Taylor, Timing] | None,
    ) -> None:
        """Every way that is tried, with the cheapest setting whose error is small enough."""
        n, setup, ours = self.model.spins, *self.ours[accuracy]
        fastest: tuple[float, str] | None = None
        last = self.known.get((basis, accuracy, "fastest"))
        for way in self._ways(basis, sector, accuracy, taylor):
            if sector.entries >= LARGE and last is not None and way.name != last:
                continue
            found = self._enough(way, sector, accuracy)
            if found is None:
                self.bench.note(f"{label}: {way.name} does not reach {accuracy:g}")
                continue
            setting, error, used = found
            if isinstance(way, sectors.Lanczos):
                self.known[basis, accuracy, way.vectors] = setting, n
            timing = _repeated(self.bench.device, lambda way=way, setting=setting: way.run(setting))
            before = build.best + (taylor[1].best if taylor and way is taylor[0] else 0.0)
            self.bench.row(
                f"{label}, {accuracy:.0e}, {way.name}",
                timing,
                spins=n,
                accuracy=accuracy,
                setting=setting,
                error=error,
                memory_bytes=sector.matrix_bytes + used,
                **problem.ratios(timing, ours),
                ratio_with_setup=(before + timing.best) / (setup.best + ours.best),
            )
            if fastest is None or timing.best < fastest[0]:
                fastest = timing.best, way.name
        if fastest is not None:
            self.known[basis, accuracy, "fastest"] = fastest[1]

    def _ways(
        self,
        basis: str,
        sector: sectors.Sector,
        accuracy: float,
        taylor: tuple[sectors.Taylor, Timing] | None,
    ) -> list[sectors.Way]:
        found: list[sectors.Way] = [taylor[0]] if taylor else []
        for vectors in sectors.KRYLOV:
            steps, spins = self.known.get((basis, accuracy, vectors), (1, self.model.spins))
            first = max(1, int(0.7 * steps * self.model.spins / spins))  # below what a wider spectrum needs
            if vectors < sector.states:
                found.append(sectors.Lanczos(sector, DURATION, vectors, first))
        if self.model.spins <= OTHERS_SPINS and basis == sectors.WHOLE:
            found += [sectors.Ordinary(sector, DURATION), sectors.Operator(sector, DURATION)]
        return found

    def _enough(
        self, way: sectors.Way, sector: sectors.Sector, accuracy: float
    ) -> tuple[Any, float, int] | None:
        """Return the first setting that is accurate enough, its error and the memory it takes beside the matrix."""
        most = 0
        for setting in way.settings(accuracy):
            psi, used = _memory(lambda setting=setting: way.run(setting))
            most = max(most, used)  # the first run makes the work space
            error = self._error(sector.whole(psi))
            if error <= accuracy:
                return setting, error, most + sector.psi.nbytes
        return None


class _InSector(_Comparison):
    """One model of one size, from the matrices of the sectors alone."""

    def run(self) -> None:
        """Measure qsim in the sector of Sz and on the orbits of its symmetries, then QuSpin in every sector."""
        for accuracy in ACCURACIES:
            self._qsim(accuracy)
            if self.name == "ring":
                self._orbits(accuracy)
        for basis, make in sectors.bases(self.model, self.name == "ring").items():
            if basis != sectors.WHOLE:
                self._quspin(basis, make)

    def _qsim(self, accuracy: float) -> None:
        device, model, n = self.bench.device, self.model, self.model.spins
        sector = Sector(n, n - n // 2)

        def made() -> Chebyshev:
            expansion = Chebyshev(device, model, linear=SectorOperator(device, sector, model))
            expansion.bounds()
            return expansion

        expansion, setup = made(), _repeated(device, made)
        first = int(sector.index(np.array([sectors.neel_bits(n)]))[0])

        def work() -> np.ndarray:
            psi = np.zeros(sector.dimension, complex)
            psi[first] = 1.0
            expansion.advance(psi, DURATION, accuracy)
            return psi

        psi, used = _memory(work)
        timing = _repeated(device, work)
        self.ours[accuracy] = setup, timing
        whole = np.zeros_like(self.judge)
        whole[sector.strings()] = psi
        label = f"{self.label}, {accuracy:.0e}: qsim, sector of Sz"
        self.bench.row(f"{label}, set-up", setup, spins=n, states=sector.dimension)
        error = self._error(whole)
        self.bench.row(label, timing, spins=n, accuracy=accuracy, error=error, memory_bytes=used)

    def _orbits(self, accuracy: float) -> None:
        device, model, n = self.bench.device, self.model, self.model.spins
        sector, string = Sector(n, n - n // 2), sectors.neel_bits(n)

        def made() -> OrbitSeries:
            expansion = OrbitSeries(Orbits(sector, model, symmetries_of(model, sector, string)))
            expansion.orbits.matrix  # noqa: B018  (made at the first use)
            return expansion

        expansion, setup = made(), _repeated(device, made)
        place = expansion.orbits.numbered[0]
        first = place[int(sector.index(np.array([string]))[0])]

        def work() -> np.ndarray:
            psi = np.zeros(expansion.orbits.size, complex)
            psi[first] = 1.0
            expansion.advance(psi, DURATION, accuracy)
            return psi

        psi, used = _memory(work)
        timing = _repeated(device, work)
        self.ours[accuracy] = setup, timing  # what QuSpin is compared with
        whole = np.zeros_like(self.judge)
        whole[sector.strings()] = psi[place]
        label = f"{self.label}, {accuracy:.0e}: qsim, orbits of the symmetries of H and start"
        self.bench.row(f"{label}, set-up", setup, spins=n, states=expansion.orbits.size)
        error = self._error(whole)
        self.bench.row(label, timing, spins=n, accuracy=accuracy, error=error, memory_bytes=used)


def _repeated(device: Device, work: Callable[[], object], budget: float = 0.6, least: int = 5) -> Timing:
    """Time work that has been done before: no warm-up; work of seconds only twice."""
    times: list[float] = []
    busy: list[float] = []
    while len(times) < (least if sum(times) < SLOW else min(least, 2)) or (
        sum(times) < budget and len(times) < 25
    ):
        device.synchronize()
        cpu, start = time.process_time(), time.perf_counter()
        work()
        device.synchronize()
        times.append(time.perf_counter() - start)
        busy.append(time.process_time() - cpu)
    return Timing(statistics.median(times), min(times), len(times), "wall", statistics.median(busy))


def _memory(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return what ``work`` returns and the most bytes that NumPy held at once for it."""
    tracemalloc.start()
    try:
        found = work()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

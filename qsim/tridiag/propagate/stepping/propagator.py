"""Propagation of the 1D TDSE: passes of several Crank-Nicolson steps over the grid.

Three modes.  ``local`` (the default where it applies) cuts the grid into chunks with a halo and makes several steps per pass
(`crank_nicolson/steps`); the halo follows from the decay of the inverse (`stepping/halo`) and is
tested against exact steps before the run.  ``exact`` solves the whole system in every step with the partition method and
assumes no decay.
``literal`` does that with the stages of the paper's Table 1, for the given number of blocks and nested partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.errors import InvalidInput
from qsim.tridiag.kernels.crank_nicolson.steps import Operator, Shape, cn_steps, sample_slots, shared_bytes
from qsim.tridiag.propagate.lattice import bands, mass, step_table
from qsim.tridiag.propagate.stepping.halo import (
    AGREE,
    MARGINS,
    PASS_COST,
    STEPS,
    TAIL,
    chunk_rows,
    halo,
    range_of_potential,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.tridiag.propagate.lattice import Lattice

Mode = Literal["auto", "exact", "local", "literal"]

CUDA_SHAPES = (
    (11, 256, 2),
)  # rows per thread, threads per block, blocks per multiprocessor; the first that fits
# microseconds of a step on a multiprocessor: latency, and each row (fitted on an H200)
CUDA_STEP, CUDA_ROW = (1.3, 0.58e-3)
# bytes of a multiprocessor (compute capability 9.0); smaller devices hold fewer blocks
SHARED = 227 * 1024
# below this a CPU grid is propagated whole
EXACT_ROWS = 512


@dataclass(frozen=True)
class Stepping:
    """Options of steps.

    Attributes
    ----------
    precision : {"double", "single"}
        On the CPU, single precision stores psi in single and computes in double.
    blocks, iterations
        ``"auto"``, or a partition for the literal stages.
    mode : {"auto", "exact", "local", "literal"}
    slope : bool
        Whether to sum V' |psi|^2 (the lattice must have it).
    shape : Shape or None
        Chunks to use instead of the chosen ones, for measurements.
    """

    precision: str = "double"
    blocks: int | Sequence[int] | Literal["auto"] = "auto"
    iterations: int | Literal["auto"] = "auto"
    mode: Mode = "auto"
    slope: bool = True
    shape: Shape | None = None

    @property
    def wanted(self) -> Mode:
        """The mode; a given partition means the literal stages where none is named."""
        given = self.blocks != "auto" or self.iterations != "auto"
        return "literal" if given and self.mode == "auto" else self.mode


AUTOMATIC = Stepping()


class Propagator:
    """Crank-Nicolson propagation of one wavefunction.

    Parameters
    ----------
    device : Device
    lattice : Lattice
    psi0 : (n,) complex
    dt : float
        Time step, a.u.
    electric : (steps,) float64 or None
        E at the midpoints of the steps (length gauge).
    vector_potential : (steps,) float64 or None
        A at the midpoints (velocity gauge).
    how : Stepping

    Attributes
    ----------
    psi : (n,) complex
        Wavefunction on the device.
    step : int
        Steps done; set it to continue a run.
    rows : int
        Rows that this process propagates.
    span : Span or None
        Rows that it owns, if it shares the grid; the first of them is `offset` of its state.

    Raises
    ------
    ValueError
        If ``mode="local"`` and the inverse decays too slowly for chunks.
    """

    span: Any = None
    offset = 0

    def __init__(
        self,
        device: Device,
        lattice: Lattice,
        psi0: NDArray[np.complexfloating],
        dt: float,
        electric: NDArray[np.float64] | None = None,
        vector_potential: NDArray[np.float64] | None = None,
        how: Stepping = AUTOMATIC,
    ) -> None:
        self._prepare(device, lattice, dt, (electric, vector_potential), how)
        self.shape = how.shape or self._choose(how.wanted)
        self.mode = self._mode(how)
        self._allocate(psi0, how)

    def _prepare(
        self,
        device: Device,
        lattice: Lattice,
        dt: float,
        fields: tuple[NDArray[np.float64] | None, NDArray[np.float64] | None],
        how: Stepping,
    ) -> None:
        """Note what is known before the way to step is chosen."""
        self.device, self.lattice, self.dt = device, lattice, dt
        self.single = how.precision == "single"
        self.real = np.dtype(np.float32 if self.single else np.float64)
        self.complex = np.dtype(np.complex64 if self.single else np.complex128)
        self._static = all(field is None for field in fields)
        self._fields = fields
        # a run without a field has the same numbers in every step
        count = next((len(f) for f in fields if f is not None), 1)
        self._host_table = step_table(lattice, dt, *fields, count)
        self.blocks, self.iterations = how.blocks, how.iterations
        self.margin = 1.0
        self.rows = lattice.points
        self.step = 0

    def _allocate(self, psi0: NDArray[np.complexfloating], how: Stepping) -> None:
        """Put the state and the lattice on the device."""
        device, lattice = self.device, self.lattice
        with device.use():
            # a copy: passes write to both their arrays
            own = np.asarray(psi0, self.complex) if device.is_cuda else np.array(psi0, self.complex)
            self.psi = device.asarray(own)
            self._operator = self._make_operator(lattice, how.slope, device)
            self._table: Any = None if self.shape is None else self._device_table()
            self._out = None if self.shape is None else device.xp.empty_like(self.psi)

    def _mode(self, how: Stepping) -> str:
        """Return the mode in which the chosen chunks are propagated: exact, literal or local.

        Raises
        ------
        InvalidInput
            If local chunks are requested and none are short enough.
        """
        wanted = how.wanted
        if self.shape is None:
            if wanted == "local":
                raise InvalidInput(
                    "solver.mode",
                    f"local needs an inverse that decays within a few hundred points; dt/(2 dx^2) = "
                    f"{self.dt / (2 * self.lattice.dx**2):.3g} is too large for it (use mode: exact, a smaller dt or larger dx)",
                )
            return "literal" if wanted == "literal" else "exact"
        if how.shape is None and wanted in ("exact", "literal"):
            return wanted
        return "local" if self.shape.halo else "exact"

    # ------------------------------------------------------------------------------------- stepping

    @property
    def own(self) -> Any:
        """The part of the wavefunction that this process owns, on the device: all of it."""
        return self.psi

    def sums(self) -> NDArray[np.float64]:
        """Return the sums of the state as a sample of `advance`, (3,)."""
        with self.device.use():
            return np.array(self._sums()) * self.lattice.dx

    def advance(self, steps: int, every: int) -> NDArray[np.float64]:
        """Make steps.

        Parameters
        ----------
        steps, every : int
            Number of steps, and of steps between samples.

        Returns
        -------
        (steps // every, 3) float64
            sum |psi|^2 dx, sum x |psi|^2 dx and sum V' |psi|^2 dx after every ``every`` steps.

        Raises
        ------
        ValueError
            If the fields end before.
        """
        if not self._static and self.step + steps > len(self._host_table):
            raise ValueError(
                f"step {self.step + steps} is beyond the end: the fields have {len(self._host_table)} steps"
            )
        with self.device.use():
            shape = self.shape
            samples = self._passes(shape, steps, every) if shape else self._solve_steps(steps, every)
        return samples * self.lattice.dx

    def _passes(self, shape: Shape, steps: int, every: int) -> NDArray[np.float64]:
        """Make passes of several steps over all chunks; return the samples, (steps // every, 3)."""
        slots = sample_slots(self.device, shape, self.lattice.points)
        sums = self.device.xp.zeros((steps // every, slots, 3), self.real if self.device.is_cuda else float)
        done = taken = 0
        while done < steps:
            # as many steps per pass as the halo allows, in whole intervals between samples
            if every <= shape.steps:
                length = min(shape.steps // every * every, steps - done)
                interval = every
            else:
                # several passes a sample; the last one takes it
                boundary = min((done // every + 1) * every, steps)
                length = min(shape.steps, boundary - done)
                interval = length if (done + length) % every == 0 else 0
            count = length // interval if interval else 0
            part = sums[taken : taken + count]
            cn_steps(
                self.device, self._operator, self.psi, self._out, self._rows(length), shape, interval, part
            )
            # a pass reads one array and writes the other: chunks overlap, so none may see what another has written
            self.psi, self._out = self._out, self.psi
            done += length
            taken += count
            self.step += length
        return np.asarray(self.device.to_host(sums.sum(axis=1)), float)

    def _rows(self, length: int) -> Any:
        return self._table[:length] if self._static else self._table[self.step : self.step + length]

    def _solve_steps(self, steps: int, every: int) -> NDArray[np.float64]:
        samples = []
        for number in range(1, steps + 1):
            field, a = (0.0 if f is None else float(f[self.step]) for f in self._fields)
            self.psi = self._solve_step(field, a)
            self.step += 1
            if number % every == 0:
                samples.append(self._sums())
        return np.array(samples).reshape(-1, 3)

    def _solve_step(self, field: float, a: float) -> Any:
        """Return ``psi' = 2 T^-1 M psi - psi`` (Eq. T5) by one solve of the whole system."""
        from qsim.tridiag.solver.solve import solve

        lower, main, upper = (
            self.device.asarray(band, self.complex) for band in bands(self.lattice, self.dt, field, a)
        )
        literal = self.mode == "literal"
        blocks: Any = self.blocks if literal else "auto"
        iterations: Any = self.iterations if literal else "auto"
        y = solve(
            main,
            lower,
            upper,
            mass(self.lattice, self.psi, a),
            blocks=blocks,
            iterations=iterations,
            device=self.device,
        ).x
        # Eq. T5: the right side is 2 M - T, so that an absorber acts in both halves of the step
        psi = 2 * y - self.psi
        return psi if self.lattice.mask is None else (psi * self._operator.absorber).astype(self.complex)

    def _sums(self) -> tuple[float, float, float]:
        density = abs(self.psi) ** 2
        x = self.device.asarray(self.lattice.x, self.real)
        slope = self._operator.slope
        force = 0.0 if slope is None else float((density * slope).sum())
        return float(density.sum()), float((density * x).sum()), force

    def info(self) -> dict[str, Any]:
        """Return how the steps are done: algorithm, halo, steps per pass, blocks, nested partitions."""
        if self.shape is None:
            literal = self.mode == "literal"
            return {
                "algorithm": f"nshape-{self.mode}",
                "halo": 0,
                "steps_per_pass": 1,
                "blocks": self.blocks if literal and isinstance(self.blocks, int) else 0,
                "iterations": self.iterations if literal and isinstance(self.iterations, int) else 1,
            }
        return {
            "algorithm": f"nshape-{self.mode}",
            "halo": self.shape.halo,
            "steps_per_pass": self.shape.steps,
            "blocks": self.shape.chunks(self.lattice.points),
            "iterations": 2 if self.device.is_cuda else 1,
        }

    # -------------------------------------------------------------------------------------- choosing

    def _make_operator(self, lattice: Lattice, slope: bool, device: Device) -> Operator:
        """Return the lattice on the device, with the absorber in the form that the kernels take."""
        real = self.real if device.is_cuda else np.dtype(float)
        # the kernels have one array for either
        if lattice.cap is not None and lattice.mask is not None:
            raise ValueError("a lattice has a complex potential or a mask, not both")
        kind, absorber = 0, None
        if lattice.cap is not None:
            kind, absorber = 1, lattice.cap
        elif lattice.mask is not None:
            kind, absorber = 2, lattice.mask

        def move(array: NDArray[np.float64] | None) -> NDArray[np.floating] | None:
            return None if array is None else device.asarray(np.ascontiguousarray(array), real)

        return Operator(
            potential=move(lattice.potential),
            absorber=move(absorber),
            slope=move(lattice.slope if slope else None),
            absorb=kind,
            numerov=lattice.stencil == "numerov",
            velocity=self._fields[1] is not None,
            xmin=lattice.xmin,
            dx=lattice.dx,
            dt=self.dt,
        )

    def _device_table(self) -> Any:
        rows = self._host_table
        if self._static:
            rows = np.repeat(rows, max(max(STEPS), self.shape.steps if self.shape else 1), axis=0)
        return self.device.asarray(rows, self.real if self.device.is_cuda else float)

    def _potentials(self) -> tuple[float, ...]:
        """Values of V + x E over the run, as :func:`decay.halo` wants them."""
        lattice, field = self.lattice, self._fields[0]
        strongest = 0.0 if field is None or not len(field) else float(np.abs(field).max())
        # x E is largest at the farther wall, with either sign
        swing = strongest * max(abs(lattice.xmin), abs(lattice.xmin + lattice.dx * lattice.points))
        return range_of_potential(
            float(lattice.potential.min()) - swing, float(lattice.potential.max()) + swing, lattice.dx
        )

    def _choose(self, mode: Mode) -> Shape | None:
        """Return the chunks of a pass; None where every step must be a solve of the whole system."""
        n = self.rows
        if mode == "literal":
            return None
        # the whole grid as one chunk needs no halo; on a CPU it is taken while it stays in the caches
        whole = self._whole(n)
        if mode == "exact" or (mode == "auto" and whole is not None and self._prefers_whole(n)):
            return whole
        potentials = self._potentials()
        fit = self._fit_cuda if self.device.is_cuda else self._fit_cpu
        # the halo follows from the decay in the worst constant potential; where a test on noise fails, it is made wider
        for margin in MARGINS:
            self.margin = margin
            shape = self._cheapest(n, potentials, fit)
            if shape is None:
                break
            if self._agrees(shape):
                return shape
        return whole if mode == "auto" or n <= EXACT_ROWS else None

    def _whole(self, n: int) -> Shape | None:
        """Return the whole grid as one chunk, which is exact: on the CPU always, on the GPU while a block holds it."""
        if not self.device.is_cuda:
            return Shape(n, 0, max(STEPS))
        for rows, most, resident in CUDA_SHAPES:
            threads = -(-n // (rows * 32)) * 32
            if threads <= most:
                return Shape(n, 0, max(STEPS), rows, threads, most, resident)
        return None

    def _prefers_whole(self, n: int) -> bool:
        return self.device.is_cuda or n <= EXACT_ROWS

    def _cheapest(
        self,
        n: int,
        potentials: tuple[float, ...],
        fit: Callable[[int, int, int], tuple[Shape, float] | None],
    ) -> Shape | None:
        best: tuple[float, Shape] | None = None
        tolerance = TAIL[self.real.itemsize]
        for steps in STEPS:
            lattice = self.lattice
            # stages of order 4 may go back in time
            reach = halo(lattice.stencil, lattice.dx, abs(self.dt), steps, potentials, tolerance)
            fitted = fit(n, int(self.margin * reach) + 1, steps)
            if fitted is None:
                continue
            shape, redundancy = fitted
            # more steps per pass touch memory less often, and have a wider halo to compute twice
            cost = redundancy + PASS_COST[self.device.kind] / steps
            if best is None or cost < best[0]:
                best = (cost, shape)
        return None if best is None else best[1]

    def _fit_cpu(self, n: int, reach: int, steps: int) -> tuple[Shape, float] | None:
        chunk = chunk_rows(n, reach, self.device.threads)
        return None if chunk is None else (Shape(chunk[0], reach, steps), chunk[1])

    def _fit_cuda(self, n: int, reach: int, steps: int) -> tuple[Shape, float] | None:
        """Return the block size with the smallest modelled time, and that time of a step over the time of its rows alone."""
        runtime = self.device.xp.cuda.runtime
        processors = int(runtime.getDeviceProperties(self.device.index)["multiProcessorCount"])
        absorbs = self.lattice.cap is not None or self.lattice.mask is not None
        best: tuple[float, Shape] | None = None
        for rows, most, resident in CUDA_SHAPES:
            # the system keeps 1 KiB a block
            shared = shared_bytes(rows, most, self.real.itemsize, absorbs) + 1024
            together = max(1, min(resident, SHARED // shared))
            for threads in range(32, most + 1, 32):
                chunk = rows * threads - 2 * reach
                if chunk < 2 * reach and chunk < n:
                    continue
                chunk = min(n, chunk)
                # blocks run in waves of as many as the device holds; the last wave may be shorter
                waves, rest = divmod(-(-n // chunk), together * processors)
                time = waves * _wave_time(together * rows * threads)
                time += _wave_time(-(-rest // processors) * rows * threads) if rest else 0.0
                if best is None or time < best[0]:
                    best = (time, Shape(chunk, reach, steps, rows, threads, most, together))
        if best is None:
            return None
        return best[1], best[0] * processors / (n * CUDA_ROW)

    def _agrees(self, shape: Shape) -> bool:
        """Compare a pass with exact steps, on noise, where V is deepest and at both ends, at the strongest field."""
        lattice, n, host = self.lattice, self.lattice.points, cpu(1)
        # columns 0 and 5 are E and sin(theta), the strength of the field in either gauge
        strength = np.abs(self._host_table[:, [0, 5]]).max(axis=1)
        first = max(0, min(int(strength.argmax()) - shape.steps // 2, len(self._host_table) - shape.steps))
        table = self._host_table[first : first + shape.steps]
        if self._static:
            table = np.repeat(table, shape.steps, axis=0)
        # a few chunks of two halos each, against one chunk of the whole part
        size = min(n, 8 * shape.halo + 64)
        # both walls, and where V is deepest
        starts = {0, n - size, min(max(int(lattice.potential.argmin()) - size // 2, 0), n - size)}
        rng = np.random.default_rng(0)
        for start in starts:
            part = slice(start, start + size)
            # noise holds all momenta of the lattice: a smooth state would not feel what a halo misses
            noise = rng.standard_normal(size) + 1j * rng.standard_normal(size)
            operator = Operator(
                lattice.potential[part],
                None if lattice.cap is None else lattice.cap[part],
                None,
                0 if lattice.cap is None else 1,
                lattice.stencil == "numerov",
                self._fields[1] is not None,
                lattice.xmin + start * lattice.dx,
                lattice.dx,
                self.dt,
            )
            found, wanted = np.empty_like(noise), np.empty_like(noise)
            none = np.zeros((0, 0, 3))
            # chunks of two halos each, then the whole part as one chunk without a halo
            cn_steps(host, operator, noise, found, table, Shape(2 * shape.halo, shape.halo, 1), 0, none)
            cn_steps(host, operator, noise, wanted, table, Shape(size, 0, 1), 0, none)
            if np.abs(found - wanted).max() > AGREE[self.real.itemsize] * np.abs(wanted).max():
                return False
        return True


def _wave_time(rows: int) -> float:
    """Return the modelled time (microseconds) of a step of this many rows on one multiprocessor."""
    return CUDA_STEP + CUDA_ROW * rows

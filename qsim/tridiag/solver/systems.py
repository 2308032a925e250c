"""Tridiagonal systems: generated ones, whole or block by block, and arrays.

The letters are the paper's: a diagonal, b lower (``b[i]`` couples row i to row i - 1), c upper (``c[i]`` couples row i to row
i + 1), d right-hand side; ``b[0]`` and ``c[n-1]`` are unused.  A *source* hands out any block of rows on its own; the
numbers do not depend on how a system is cut into blocks.  Files are read by :mod:`qsim.tridiag.solver.readers`.

Recipes, also those of the reference numbers (PCG64 is NumPy's; z(n) = normal + i normal, real parts drawn first):

* :func:`random`: counter-based, see `streamed/random_rows`; ``dominance=None`` is the sequential
  ``b, c, d = z(n), u = uniform(n), a = (4 + |b| + |c|) exp(2 pi i u)``.
* :func:`laplace`: ``(-1, 2, -1)``, d = normal(n).
* :func:`crank_nicolson`: ``1 + i dt/2 H``, ``H = -1/2 d^2/dx^2 + V``, three points, ``x = (i - n//2) dx``, d = z(n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from qsim.core.device import rng
from qsim.core.device.device import cpu

if TYPE_CHECKING:
    from numpy.typing import NDArray

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Array, Device

__all__ = [
    "ArraySource",
    "BatchSource",
    "CrankNicolsonSource",
    "LaplaceSource",
    "RandomSource",
    "Share",
    "Source",
    "Stored",
    "System",
    "crank_nicolson",
    "is_random",
    "laplace",
    "materialise",
    "random",
    "require_unmasked",
]

Block: TypeAlias = "tuple[Array, Array, Array, Array]"
"""Rows of a system: a, b, c (rows,) and d (columns, rows)."""
# numbers between two kept states of a sequential generator
STATE_EVERY = 1 << 20
WORDS = {"complex": np.complex128, "real": np.float64}


@dataclass
class System:
    """A tridiagonal system in memory.

    Attributes
    ----------
    a, b, c : (n,) or (batch, n)
        Diagonals, all of one shape; the unused corners are zero.
    d : (n,), (n, k) or (batch, n)
        Right-hand sides.
    name : str
        What it is, for the summary.
    exact_x : array like d, or None
        The solution, where it is known.
    """

    a: NDArray[Any]
    b: NDArray[Any]
    c: NDArray[Any]
    d: NDArray[Any]
    name: str = "arrays"
    exact_x: NDArray[Any] | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def n(self) -> int:
        """Rows of one system."""
        return int(self.a.shape[-1])

    @property
    def batch(self) -> int:
        """Number of systems."""
        return int(self.a.shape[0]) if self.a.ndim == 2 else 1

    @property
    def columns(self) -> int:
        """Right-hand sides of each system."""
        return int(self.d.shape[1]) if self.a.ndim == 1 and self.d.ndim == 2 else 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The number type that a solution has."""
        return np.result_type(self.a, self.b, self.c, self.d)

    def source(self) -> ArraySource:
        """Return the system as a source of blocks; systems of a batch lie one after another."""
        return ArraySource(self.a, self.b, self.c, self.d, self.name)


class Stored(Protocol):
    """An array, memory map or HDF5 dataset: shape, type, and slices of it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    def __getitem__(self, index: Any, /) -> Any:
        """Return a part as an array."""

    def __setitem__(self, index: Any, value: Any, /) -> None:
        """Write a part."""


class Source(Protocol):
    """A system of which blocks of rows can be had.

    Attributes
    ----------
    n
        Rows in all; systems of a batch lie one after another, uncoupled.
    columns
        Right-hand sides.
    dtype
        float32, float64, complex64 or complex128.
    name
        What it is.
    """

    n: int
    columns: int
    dtype: np.dtype[Any]
    name: str

    def read(self, lo: int, hi: int) -> Block:
        """Return a, b, c (hi - lo,) and d (columns, hi - lo) of the rows lo .. hi - 1, contiguous, of `dtype`."""


class BatchSource(Source, Protocol):
    """A source that holds `batch` systems of n / batch rows each."""

    batch: int


def materialise(
    source: Source, batch: int = 1, name: str = "", exact_x: NDArray[Any] | None = None
) -> System:
    """Return the whole of a source in memory."""
    a, b, c, d = source.read(0, source.n)
    # right-hand sides run along the first axis in a source, along the last one in a system
    if batch > 1:
        a, b, c = (part.reshape(batch, -1) for part in (a, b, c))
        d = d.reshape(batch, -1) if source.columns == 1 else d.T.reshape(batch, -1, source.columns)
    else:
        d = d[0] if source.columns == 1 else np.ascontiguousarray(d.T)
    return System(a, b, c, d, name or source.name, exact_x)


# ------------------------------------------------------------------------------------------- arrays


class ArraySource:
    """Arrays, memory maps or HDF5 datasets; only the rows of a block are read.

    Parameters
    ----------
    a : (n,) or (batch, n)
    b, c : (n,) or (n - 1,), with the batch axis of a
    d : (n,), (n, k) or (batch, n)
    dtype
        By default the common type of the four.
    """

    def __init__(
        self, a: Stored, b: Stored, c: Stored, d: Stored, name: str = "arrays", dtype: DTypeLike | None = None
    ) -> None:

        for letter, array in zip("abcd", (a, b, c, d), strict=True):
            require_unmasked(letter, array)
        check_shapes(a.shape, b.shape, c.shape, d.shape)
        # rows of one system
        self._row = int(a.shape[-1])
        self._a, self._b, self._c, self._d = a, b, c, d
        self.batch = int(a.shape[0]) if len(a.shape) == 2 else 1
        self._flat = len(a.shape) == 1
        self.n = self._row * self.batch
        self.columns = int(d.shape[1]) if self._flat and len(d.shape) == 2 else 1
        # as given: of one column (n,) or (n, 1)
        self.shape = tuple(int(length) for length in d.shape)
        wanted = np.dtype(dtype or np.result_type(a.dtype, b.dtype, c.dtype, d.dtype, np.float32))
        self.dtype = wanted
        self.name = name

    def read(self, lo: int, hi: int) -> Block:
        """Return the rows lo .. hi - 1, corners set to zero."""
        # b[i - 1] couples row i to row i - 1
        short = int(self._b.shape[-1]) < self._row
        a = self._take(self._a, lo, hi)
        b = self._take(self._b, lo, hi, int(short))
        c = self._take(self._c, lo, hi)
        if self._flat and len(self._d.shape) == 2:
            d = np.ascontiguousarray(np.asarray(self._d[lo:hi]).T, dtype=self.dtype)
        else:
            d = self._take(self._d, lo, hi)[None]
        # first and last rows of the systems within lo .. hi - 1: whatever the file holds there couples nothing
        rows = np.arange(-lo % self._row, hi - lo, self._row)
        b[rows] = 0
        ends = np.arange((-lo - 1) % self._row, hi - lo, self._row)
        c[ends] = 0
        return a, b, c, d

    def corners(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return ``b[0]`` and ``c[n-1]`` of every system, (batch,); None where b or c has n - 1 entries."""
        if min(int(self._b.shape[-1]), int(self._c.shape[-1])) < self._row:
            return None
        return np.atleast_1d(np.asarray(self._b[..., 0])), np.atleast_1d(np.asarray(self._c[..., -1]))

    def _take(self, array: Stored, lo: int, hi: int, shift: int = 0) -> NDArray[Any]:
        """Return a copy of rows lo .. hi - 1; entry i of `array` belongs to row i + shift, missing ones are zero."""
        out = np.zeros(hi - lo, self.dtype)
        size = int(array.shape[-1])
        # systems are rows of a (batch, n) array: a range of the long system is pieced together from the rows it crosses
        for system in range(lo // self._row, (hi - 1) // self._row + 1):
            base = system * self._row + shift
            start, stop = max(lo, base), min(hi, base + size)
            if start < stop:
                rows = slice(start - base, stop - base)
                out[start - lo : stop - lo] = array[rows] if self._flat else array[system, rows]
        return out


# ---------------------------------------------------------------------------------------- generators


class RandomSource:
    """A random system, made block by block from counters; the same on every device.

    b, c and d are normal, ``|a| = dominance (|b| + |c|)`` with a random phase (a sign for real numbers).

    Parameters
    ----------
    n
        Rows of one system.
    """

    def __init__(
        self,
        n: int,
        seed: int = 1,
        dominance: float = 1.5,
        dtype: DTypeLike | str = "complex",
        batch: int = 1,
        columns: int = 1,
        device: Device | None = None,
    ) -> None:
        if n < 1 or batch < 1 or columns < 1:
            raise ValueError(
                f"rows, systems and right-hand sides must be at least 1, not {n}, {batch}, {columns}"
            )
        self.rows, self.batch, self.columns, self.n = int(n), int(batch), int(columns), int(n) * int(batch)
        self.seed, self.dominance = int(seed), float(dominance)
        self.dtype = _dtype(dtype)
        self._key = rng.key_from_seed(self.seed)
        # `read` hands out arrays of the host; `fill` gets its device from the caller
        self._device = device if device is not None and not device.is_cuda else cpu(None)
        kind = "complex" if self.dtype.kind == "c" else "real"
        self.name = f"random, {kind}, dominance {self.dominance:g}, seed {self.seed}"

    def read(self, lo: int, hi: int) -> Block:
        """Return the rows lo .. hi - 1."""
        a, b, c = (np.empty(hi - lo, self.dtype) for _ in range(3))
        d = np.empty((self.columns, hi - lo), self.dtype)
        self.fill(self._device, lo, a, b, c, d)
        return a, b, c, d

    def fill(self, device: Device, lo: int, a: Array, b: Array, c: Array, d: Array) -> None:
        """Write the rows lo .. into arrays on a device, where they are made."""
        from qsim.tridiag.kernels.partition.streamed import random_rows

        random_rows(device, lo, self.rows, self._key, self.dominance, a, b, c, d)


class Share:
    """Some whole systems of a batch.

    Parameters
    ----------
    source
        The batch.
    low, high : int
        The first of the systems, and the one after the last.
    """

    def __init__(self, source: BatchSource, low: int, high: int) -> None:
        rows = source.n // source.batch
        self.source, self.low = source, low * rows
        self.n, self.batch, self.columns = (high - low) * rows, high - low, source.columns
        self.dtype, self.name = source.dtype, source.name

    def read(self, lo: int, hi: int) -> Block:
        """Return the rows lo .. hi - 1 of these systems."""
        return self.source.read(self.low + lo, self.low + hi)

    def fill(self, device: Device, lo: int, a: Array, b: Array, c: Array, d: Array) -> None:
        """Write the rows lo .. into arrays on a device, of a random batch (:func:`is_random`)."""
        filled: Any = self.source
        filled.fill(device, self.low + lo, a, b, c, d)

    def corners(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the corners of these systems, of a batch from a file."""
        held: Any = self.source
        pair = held.corners()
        rows = self.n // self.batch
        mine = slice(self.low // rows, self.low // rows + self.batch)
        return None if pair is None else (pair[0][mine], pair[1][mine])


def is_random(source: Source) -> bool:
    """Return True for a random system, which is made on the device that needs it by its method `fill`."""
    return isinstance(source.source if isinstance(source, Share) else source, RandomSource)


class NormalSequence:
    """The normal numbers of ``Generator(PCG64(seed))``, from any place in their sequence.

    The number of words that a normal number takes varies, so the sequence cannot be entered in the middle; the states of the
    generator at every ``STATE_EVERY``-th number are kept instead.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))
        self._states = [self._generator.bit_generator.state]

    def read(self, start: int, count: int) -> NDArray[np.float64]:
        """Return the numbers start .. start + count - 1 of the sequence."""
        out = np.empty(count)
        generator, done = self._generator, 0
        # states up to the place: the numbers between are drawn once and thrown away, and never again
        while len(self._states) <= start // STATE_EVERY:
            generator.bit_generator.state = self._states[-1]
            generator.standard_normal(STATE_EVERY)
            self._states.append(generator.bit_generator.state)
        number = start // STATE_EVERY
        # from the state before the place onwards, a stretch between two kept states at a time
        skip = start - number * STATE_EVERY
        while done < count:
            generator.bit_generator.state = self._states[number]
            generator.standard_normal(skip)
            take = min(count - done, STATE_EVERY - skip)
            generator.standard_normal(out=out[done : done + take])
            done, skip, number = done + take, 0, number + 1
            # the generator stands at the next kept state by itself
            if done < count and number == len(self._states):
                self._states.append(generator.bit_generator.state)
        return out


class LaplaceSource:
    """``(-1, 2, -1)``, the second difference, with normal right-hand sides, or ones."""

    def __init__(self, n: int, seed: int = 1, rhs: str = "random", dtype: DTypeLike | str = "real") -> None:
        _require_rows(n)
        self.n, self.batch, self.columns, self.dtype = int(n), 1, 1, _dtype(dtype)
        self._ones = _is_ones(rhs)
        self._normals = NormalSequence(seed)
        self.name = f"laplace, {'ones' if self._ones else f'seed {seed}'}"

    def read(self, lo: int, hi: int) -> Block:
        """Return the rows lo .. hi - 1."""
        a, b, c = (np.full(hi - lo, value, self.dtype) for value in (2.0, -1.0, -1.0))
        _cut_corners(b, c, lo, hi, self.n)
        d = np.ones(hi - lo) if self._ones else self._normals.read(lo, hi - lo)
        return a, b, c, d.astype(self.dtype)[None]


class CrankNicolsonSource:
    """``T = 1 + i dt/2 H`` of one Crank-Nicolson step, three-point stencil, x = (i - n//2) dx.

    Parameters
    ----------
    potential
        V(x) (hartree) at positions x (bohr); by default ``-1/sqrt(x^2 + 2)``.
    """

    def __init__(
        self,
        n: int,
        dx: float = 0.1,
        dt: float = 0.05,
        potential: Callable[[NDArray[np.float64]], Any] | None = None,
        seed: int = 1,
        dtype: DTypeLike | str = "complex",
    ) -> None:
        _require_rows(n)
        self.n, self.batch, self.columns, self.dtype = int(n), 1, 1, _dtype(dtype)
        if self.dtype.kind != "c":
            raise ValueError("the matrix of a Crank-Nicolson step is complex")
        self.dx, self.dt = float(dx), float(dt)
        self._potential = potential or (lambda x: -1.0 / np.sqrt(x * x + 2.0))
        self._normals = (
            NormalSequence(seed),
            NormalSequence(seed),
        )  # real and imaginary parts, read side by side
        self.name = f"crank_nicolson, dx {self.dx:g}, dt {self.dt:g}, seed {seed}"

    def read(self, lo: int, hi: int) -> Block:
        """Return the rows lo .. hi - 1."""
        x = np.asarray((np.arange(lo, hi) - self.n // 2) * self.dx, np.float64)
        # 1 + i dt/2 H: 1/dx^2 + V on the diagonal of H, -1/(2 dx^2) beside it
        half = 0.5j * self.dt
        off = half * (-0.5 / self.dx**2)
        a = (1.0 + half * (1.0 / self.dx**2 + np.asarray(self._potential(x), np.float64))).astype(self.dtype)
        b, c = np.full(hi - lo, off, self.dtype), np.full(hi - lo, off, self.dtype)
        _cut_corners(b, c, lo, hi, self.n)
        d = np.empty((1, hi - lo), self.dtype)
        real, imaginary = self._normals
        # imaginary parts follow the n real parts in the sequence, as z(n) draws them
        d.real[0], d.imag[0] = real.read(lo, hi - lo), imaginary.read(self.n + lo, hi - lo)
        return a, b, c, d


def random(
    n: int,
    seed: int = 1,
    dominance: float | None = 1.5,
    dtype: DTypeLike | str = "complex",
    batch: int = 1,
    rhs: int = 1,
) -> System:
    """Return a random system of n rows.

    Parameters
    ----------
    dominance
        ``|a| / (|b| + |c|)``; None: the sequential recipe ``a = (4 + |b| + |c|) exp(2 pi i u)`` (complex, one system).
    dtype
        ``"complex"``, ``"real"`` or a number type.
    batch, rhs
        Number of systems, and of right-hand sides of each.
    """
    if dominance is not None:
        return materialise(RandomSource(n, seed, dominance, dtype, batch, rhs), batch)
    if batch != 1 or rhs != 1 or _dtype(dtype).kind != "c":
        raise ValueError("dominance=None makes one complex system with one right-hand side")
    _require_rows(n)
    # the recipe of the reference numbers: one sequence in this order, which no block can enter in the middle
    generator = np.random.Generator(np.random.PCG64(seed))
    b, c, d = (generator.standard_normal(n) + 1j * generator.standard_normal(n) for _ in range(3))
    a = (4.0 + np.abs(b) + np.abs(c)) * np.exp(2j * np.pi * generator.random(n))
    b[0] = c[-1] = 0.0
    kind = _dtype(dtype)
    a, b, c, d = (part.astype(kind, copy=False) for part in (a, b, c, d))
    return System(a, b, c, d, f"random, sequential, seed {seed}")


def laplace(n: int, seed: int = 1, rhs: str = "random", dtype: DTypeLike | str = "real") -> System:
    """Return the system ``(-1, 2, -1)``; with ``rhs="ones"`` its solution ``(i + 1)(n - i)/2`` is known."""
    rows = np.arange(n, dtype=float)
    exact = 0.5 * (rows + 1.0) * (n - rows) if _is_ones(rhs) else None
    return materialise(LaplaceSource(n, seed, rhs, dtype), exact_x=exact)


def crank_nicolson(
    n: int,
    dx: float = 0.1,
    dt: float = 0.05,
    potential: Callable[[NDArray[np.float64]], Any] | None = None,
    seed: int = 1,
    dtype: DTypeLike | str = "complex",
) -> System:
    """Return the system of one Crank-Nicolson step; see :class:`CrankNicolsonSource`."""
    return materialise(CrankNicolsonSource(n, dx, dt, potential, seed, dtype))


def _dtype(dtype: DTypeLike | str) -> np.dtype[Any]:
    kind = np.dtype(WORDS.get(dtype, dtype) if isinstance(dtype, str) else dtype)
    if kind.char not in "fdFD":
        raise ValueError(f"systems are float32, float64, complex64 or complex128, not {kind}")
    return kind


def _require_rows(n: int) -> None:
    if n < 1:
        raise ValueError(f"a system needs at least one row, not {n}")


def _is_ones(rhs: str) -> bool:
    if rhs not in ("random", "ones"):
        raise ValueError(f"rhs is 'random' or 'ones', not {rhs!r}")
    return rhs == "ones"


def _cut_corners(b: NDArray[Any], c: NDArray[Any], lo: int, hi: int, n: int) -> None:
    if lo == 0:
        b[0] = 0
    if hi == n:
        c[-1] = 0


def require_unmasked(name: str, array: Any) -> None:
    """Raise a ValueError for an array with masked elements, whose numbers mean nothing."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        place = ", ".join(str(int(i)) for i in np.argwhere(np.ma.getmaskarray(array))[0])
        raise ValueError(f"{name}[{place}] is masked; all elements must be given, e.g. by {name}.filled(0.0)")


def check_shapes(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...], d: tuple[int, ...]) -> None:
    """Raise a ValueError that says which of four shapes do not make up a system."""
    if len(a) not in (1, 2) or 0 in a:
        raise ValueError(f"a has shape {a}; it must be (n,) or (batch, n) with at least one row")
    n = a[-1]
    # b and c with or without their unused corner
    for letter, shape in (("b", b), ("c", c)):
        if shape[:-1] != a[:-1] or len(shape) != len(a) or shape[-1] not in (n, n - 1):
            expected = f"{a} or {(*a[:-1], n - 1)}"
            raise ValueError(
                f"{letter} has shape {shape}, but a has shape {a}; {letter} must have shape {expected}"
            )
    good = d == a if len(a) == 2 else len(d) in (1, 2) and d[0] == n and 0 not in d
    if not good:
        expected = str(a) if len(a) == 2 else f"({n},) or ({n}, k)"
        raise ValueError(f"d has shape {d}, but the matrix has {n} rows; d must have shape {expected}")

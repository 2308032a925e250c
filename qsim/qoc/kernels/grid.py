"""Crank-Nicolson propagation on the grid: public wrappers and their CPU twins.

The Hamiltonian of Eq. (3) of the paper is real, symmetric and pentadiagonal, and the field only changes its diagonal:
``H(eps) = diag(h - mu eps) + o1 (shift one) + o2 (shift two)``.  One step of Eq. (4) is ``psi' = 2 xbar - psi`` with
``U xbar = psi``, ``U = I + i tau/2 H``; ``xbar`` is the mean of the two states.  ``U`` is complex symmetric, so the conjugated
costate ``q`` obeys the same recursion backwards and the exact discrete gradient needs one banded solve per step, no inverse:

    d<f|psi_N> / d eps_j = i tau dx  sum_x  qbar_j(x) mu(x) xbar_j(x).

Without a stored trajectory the state is recovered on the way back: ``xbar_j = conj(U^-1 conj(psi_{j+1}))``, because the
matrix of the right-hand side is ``conj(U)``; one more right-hand side for the same factors, and memory O(L).

A *trajectory* is one propagation: a system (row of ``h``, ``mu``, ``off``), a field (row of ``eps``) and a field scale.
A *costate* belongs to one trajectory (``source``).  CPU: all field values of a sweep are known, so ``banded.factor`` takes
eight time steps at once; only two short recurrences per row remain in order.  CUDA: one block per trajectory, all steps in one
launch (``grid.cu``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.qoc.kernels.banded import JIT, LANES, MIN_POINTS, PART, factor, factor_shape, split_rows, substitute

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.device.arrays import ComplexArray, IndexArray, RealArray
    from qsim.core.device.device import Device


def each_trajectory(count: int, work: Callable[[int], object], threads: int) -> None:
    """Call ``work(0) ... work(count - 1)`` on at most ``threads`` threads and wait.

    Trajectories share no output, so the result does not depend on the number of threads.
    """

    def several(first: int, last: int) -> None:
        for index in range(first, last):
            work(index)

    each_part(several, count, count, threads, smallest=2, alike=work)


MAX_THREADS = 256
# 224 threads of 16 rows fill a block's shared memory.
MAX_CUDA_POINTS = 3584


@dataclass(frozen=True)
class GridBatch:
    """Systems and trajectories of a grid propagation, on the device.

    Attributes
    ----------
    h, mu : (systems, L) real
        Diagonal of the field-free Hamiltonian (hartree, energy shift included) and dipole function (a.u.).
    off : (systems, 2) real
        First and second off-diagonal of the Hamiltonian, hartree.
    system, field : (trajectories,) int32
        Row of ``h`` and row of the field array for each trajectory.
    scale : (trajectories,) real
        Factor by which each trajectory sees its field.
    tau, dx : float
        Time step and grid spacing, a.u.
    """

    h: RealArray
    mu: RealArray
    off: RealArray
    system: IndexArray
    field: IndexArray
    scale: RealArray
    tau: float
    dx: float

    @property
    def points(self) -> int:
        """Number of grid points L."""
        return int(self.h.shape[1])


class One(NamedTuple):
    """One trajectory as the CPU twins take it: its system (h, mu, o1, o2), field (N,) and scale, with tau and dx."""

    h: RealArray
    mu: RealArray
    o1: float
    o2: float
    eps: RealArray
    scale: float
    tau: float
    dx: float


def cn_forward(
    device: Device,
    batch: GridBatch,
    psi: ComplexArray,
    eps: RealArray,
    trajectory: ComplexArray | None = None,
) -> None:
    """Propagate every trajectory over all columns of ``eps``.

    Parameters
    ----------
    batch : GridBatch
    psi : (trajectories, L) complex, in/out
        State at the first and, on return, at the last time.
    eps : (fields, N) real
        Field at the midpoints, a.u.
    trajectory : (trajectories, N, L) complex, out, optional
        Midpoint means ``xbar_j``, wanted by :func:`cn_backward`.
    """
    _check(batch, psi, eps, trajectory=trajectory)
    if device.is_cuda:
        count, rows, steps = psi.shape[0], batch.points, eps.shape[1]
        threads, defines, shared = _launch(rows, psi)
        kernel = kernels.function("qoc/kernels", "grid", "cn_forward", defines, shared_bytes=shared)
        kernel(
            (count,),
            (threads,),
            (
                psi,
                batch.h,
                batch.mu,
                batch.off,
                batch.system,
                batch.field,
                batch.scale,
                eps,
                _real(psi, batch.tau),
                np.int32(rows),
                np.int32(steps),
                psi if trajectory is None else trajectory,
                np.int32(trajectory is not None),
            ),
            shared_mem=shared,
        )
        return
    nothing = np.empty((0, 0), psi.dtype)

    def work(t: int) -> None:
        kept = nothing if trajectory is None else trajectory[t]
        _cn_forward_cpu(psi[t], _one(batch, t, eps), kept, trajectory is not None)

    each_trajectory(psi.shape[0], work, device.threads)


def cn_backward(
    device: Device,
    batch: GridBatch,
    q: ComplexArray,
    source: IndexArray,
    psi: ComplexArray,
    eps: RealArray,
    trajectory: ComplexArray | None = None,
) -> ComplexArray:
    """Carry costates back and return the derivative of each overlap with respect to every field value.

    Parameters
    ----------
    q : (costates, L) complex, in/out
        Conjugated costates at the last time (``conj(target)`` for an overlap); at the first time on return.
    source : (costates,) int32, ascending
        Trajectory to which each costate belongs.
    psi : (trajectories, L) complex
        States at the last time; read (and left unspecified) only when no trajectory is given.
    eps : (fields, N) real
    trajectory : (trajectories, N, L) complex, optional
        Midpoint means of :func:`cn_forward`; without it the states are recovered by time reversal.

    Returns
    -------
    (costates, N) complex
        ``d (q . psi_N dx) / d eps_j``.
    """
    if trajectory is None:
        return cn_reverse(device, batch, q, source, psi, eps)
    _check(batch, psi, eps, q, source, trajectory)
    if device.is_cuda:
        return _carry_back_cuda(device, batch, q, source, eps, trajectory, "cn_backward")
    out = np.empty((q.shape[0], eps.shape[1]), np.complex128)
    # costates are sorted by trajectory: those of one are carried back together
    first = np.searchsorted(source, np.arange(psi.shape[0] + 1))

    def work(t: int) -> None:
        rows = slice(first[t], first[t + 1])
        _cn_backward_cpu(q[rows], _one(batch, t, eps), trajectory[t], out[rows])

    each_trajectory(psi.shape[0], work, device.threads)
    return out


def cn_reverse(
    device: Device, batch: GridBatch, q: ComplexArray, source: IndexArray, psi: ComplexArray, eps: RealArray
) -> ComplexArray:
    """Carry costates back without a stored trajectory; see :func:`cn_backward`.

    The state at the last time rides along as a second right-hand side of the same factors: memory O(L).
    """
    _check(batch, psi, eps, q, source)
    if device.is_cuda:
        return _carry_back_cuda(device, batch, q, source, eps, psi, "cn_reverse")
    out = np.empty((q.shape[0], eps.shape[1]), np.complex128)
    first = np.searchsorted(source, np.arange(psi.shape[0] + 1))

    def work(t: int) -> None:
        rows = slice(first[t], first[t + 1])
        _cn_reverse_cpu(q[rows], psi[t], _one(batch, t, eps), out[rows])

    each_trajectory(psi.shape[0], work, device.threads)
    return out


def _one(batch: GridBatch, t: int, eps: RealArray) -> One:
    """Return one trajectory as the CPU twins take it."""
    s = batch.system[t]
    o1, o2 = float(batch.off[s, 0]), float(batch.off[s, 1])
    return One(
        batch.h[s], batch.mu[s], o1, o2, eps[batch.field[t]], float(batch.scale[t]), batch.tau, batch.dx
    )


def _carry_back_cuda(
    device: Device,
    batch: GridBatch,
    q: ComplexArray,
    source: IndexArray,
    eps: RealArray,
    states: ComplexArray,
    name: str,
) -> ComplexArray:
    """Launch ``cn_backward`` (states: stored means) or ``cn_reverse`` (states: psi at the last time)."""
    costates, steps = q.shape[0], eps.shape[1]
    threads, defines, shared = _launch(batch.points, q)
    partial = device.xp.empty((costates, steps, threads // 32), q.dtype)
    kernel = kernels.function("qoc/kernels", "grid", name, defines, shared_bytes=shared)
    shape = (_real(q, batch.tau), _real(q, batch.dx), np.int32(batch.points), np.int32(steps))
    system = (batch.h, batch.mu, batch.off, batch.system, batch.field, batch.scale, eps, *shape)
    arguments = (q, source, *system, states) if name == "cn_backward" else (q, source, states, *system)
    kernel((costates,), (threads,), (*arguments, partial), shared_mem=shared)
    return partial.sum(axis=2)


@nb.njit(**JIT)
def _cn_forward_cpu(psi, one, trajectory, keep):
    """CPU twin of ``cn_forward`` for one trajectory: psi (L,) in/out, trajectory (N, L) out."""
    h, mu, o1, o2, eps, scale, tau, _ = one
    size = h.shape[0]
    steps = eps.shape[0]
    half = 0.5 * tau
    # Workspaces of one trajectory: factors of LANES steps, real and imaginary parts of state and solution apart.
    fac = np.zeros(factor_shape(size))
    middle = np.zeros((LANES, 6))
    s = np.zeros(7 * LANES)
    left = np.zeros((2, 6, LANES))
    e = np.zeros(LANES)
    work = split_rows(4, size)
    pr, pi, xr, xi = work[0], work[1], work[2], work[3]
    for i in range(size):
        pr[i] = psi[i].real
        pi[i] = psi[i].imag
    # All field values are known, so the matrices of LANES steps are factorised side by side, one step per lane; the
    # solves stay in order, since each begins with the state that the last one leaves.
    for start in range(0, steps, LANES):
        count = min(LANES, steps - start)
        for w in range(count):
            e[w] = scale * eps[start + w]
        factor(h, mu, e, half, o1, o2, fac, middle, s, left)
        for w in range(count):
            substitute(fac[w], middle[w], half * o2, pr, pi, xr, xi)
            for i in range(size):
                # psi_{j+1} = 2 xbar - psi_j, Eq. (4)
                pr[i] = 2.0 * xr[i] - pr[i]
                pi[i] = 2.0 * xi[i] - pi[i]
            if keep:
                for i in range(size):
                    # the mean, not the state, enters the gradient
                    trajectory[start + w, i] = complex(xr[i], xi[i])
    for i in range(size):
        psi[i] = complex(pr[i], pi[i])


@nb.njit(**JIT)
def _cn_backward_cpu(q, one, trajectory, out):
    """CPU twin of ``cn_backward`` for the costates (R, L) of one trajectory; out (R, N)."""
    _carry_back(q, q[0], one, trajectory, True, out)


@nb.njit(**JIT)
def _cn_reverse_cpu(q, psi, one, out):
    """CPU twin of ``cn_reverse``: psi (L,) at the last time; at the first time on return."""
    _carry_back(q, psi, one, q, False, out)


@nb.njit(**PART)
def _carry_back(q, psi, one, trajectory, keep, out):
    """Carry costates back along stored means (keep) or along the reversed state."""
    h, mu, o1, o2, eps, scale, tau, dx = one
    rows, size = q.shape
    steps = eps.shape[0]
    half = 0.5 * tau
    fac = np.zeros(factor_shape(size))
    middle = np.zeros((LANES, 6))
    s = np.zeros(7 * LANES)
    left = np.zeros((2, 6, LANES))
    e = np.zeros(LANES)
    # Costates of the trajectory are carried together: a factorisation serves all of them.
    qr = split_rows(rows, size)
    qi = split_rows(rows, size)
    work = split_rows(6, size)
    pr, pi, yr, yi, xr, xi = work[0], work[1], work[2], work[3], work[4], work[5]
    for r in range(rows):
        for i in range(size):
            qr[r, i] = q[r, i].real
            qi[r, i] = q[r, i].imag
    for i in range(size):
        pr[i] = psi[i].real
        # the conjugated state: the right-hand side of the reversed step
        pi[i] = -psi[i].imag
    stop = steps
    while stop > 0:
        start = max(0, stop - LANES)
        for w in range(stop - start):
            e[w] = scale * eps[start + w]
        factor(h, mu, e, half, o1, o2, fac, middle, s, left)
        # U is symmetric, so a costate obeys q_j = 2 U^-1 q_{j+1} - q_{j+1}: the same factors, steps in reverse order
        for j in range(stop - 1, start - 1, -1):
            w = j - start
            if keep:
                for i in range(size):
                    # mu xbar_j of the stored mean
                    yr[i] = mu[i] * trajectory[j, i].real
                    yi[i] = mu[i] * trajectory[j, i].imag
            else:
                substitute(fac[w], middle[w], half * o2, pr, pi, xr, xi)
                for i in range(size):
                    pr[i] = 2.0 * xr[i] - pr[i]
                    pi[i] = 2.0 * xi[i] - pi[i]
                    yr[i] = mu[i] * xr[i]
                    # the conjugate of the conjugated mean
                    yi[i] = -mu[i] * xi[i]
            for r in range(rows):
                substitute(fac[w], middle[w], half * o2, qr[r], qi[r], xr, xi)
                # d <f|psi_N> / d eps_j = i tau dx scale sum_x qbar mu xbar, without conjugation: q is the conjugated
                # costate already
                out[r, j] = 1j * (tau * dx * scale) * _dot(xr, xi, yr, yi)
                for i in range(size):
                    qr[r, i] = 2.0 * xr[i] - qr[r, i]
                    qi[r, i] = 2.0 * xi[i] - qi[r, i]
        stop = start
    for r in range(rows):
        for i in range(size):
            q[r, i] = complex(qr[r, i], qi[r, i])
    if not keep:
        for i in range(size):
            psi[i] = complex(pr[i], -pi[i])


@nb.njit(**PART)
def _dot(ar, ai, br, bi):
    """Sum of a * b (no conjugate) in eight partial sums, so that the order does not depend on the vector width."""
    size = ar.shape[0]
    acc = np.zeros(2 * LANES)
    full = size - size % LANES
    for i in range(0, full, LANES):
        for w in range(LANES):
            acc[w] += ar[i + w] * br[i + w] - ai[i + w] * bi[i + w]
            acc[LANES + w] += ar[i + w] * bi[i + w] + ai[i + w] * br[i + w]
    re = 0.0
    im = 0.0
    for w in range(LANES):
        re += acc[w]
        im += acc[LANES + w]
    for i in range(full, size):
        re += ar[i] * br[i] - ai[i] * bi[i]
        im += ar[i] * bi[i] + ai[i] * br[i]
    return complex(re, im)


def _check(
    batch: GridBatch,
    psi: ComplexArray,
    eps: RealArray,
    q: ComplexArray | None = None,
    source: IndexArray | None = None,
    trajectory: ComplexArray | None = None,
) -> None:
    """Check shapes once, with names."""
    points, count = batch.points, batch.system.shape[0]
    if points < MIN_POINTS:
        raise ValueError(f"the grid needs at least {MIN_POINTS} points, found {points}")
    if psi.shape != (count, points):
        raise ValueError(f"psi must have shape (trajectories, points) = {(count, points)}, found {psi.shape}")
    if eps.ndim != 2:
        raise ValueError(f"eps must have shape (fields, steps), found {eps.shape}")
    if q is not None and source is not None and q.shape != (source.shape[0], points):
        raise ValueError(
            f"q must have shape (costates, points) = {(source.shape[0], points)}, found {q.shape}"
        )
    kept = (count, eps.shape[1], points)
    if trajectory is not None and trajectory.shape != kept:
        raise ValueError(
            f"trajectory must have shape (trajectories, steps, points) = {kept}, found {trajectory.shape}"
        )


def _real(psi: ComplexArray, value: float) -> np.floating[Any]:
    """Scalar argument of a kernel in the working precision."""
    return np.float32(value) if psi.dtype == np.complex64 else np.float64(value)


def _launch(points: int, psi: ComplexArray) -> tuple[int, dict[str, str | int], int]:
    """Threads per block, compile-time constants and shared memory of the CUDA kernels.

    A thread takes 8 rows (16 on large grids); the register file holds 256 threads of 255 registers.
    """
    if points > MAX_CUDA_POINTS:
        raise ValueError(f"the grid kernels hold up to {MAX_CUDA_POINTS} points on a GPU, found {points}")
    rows = 8 if points <= MAX_THREADS * 8 else 16
    threads = -(-points // (32 * rows)) * 32
    single = psi.dtype == np.complex64
    real = 4 if single else 8
    # two alternating halves of the exchange (10 matrix entries, 4 vector entries for each right-hand side per thread), the
    # diagonals, the staged means (or a second right-hand side, which takes less), and the waiting costate
    held = rows if rows <= 8 else 0
    shared = threads * (28 * 2 * real + 2 * rows * real + (rows + 1 + held) * 2 * real)
    defines: dict[str, str | int] = {"REAL": "float" if single else "double"}
    return threads, {**defines, "ROWS": rows, "THREADS": threads}, shared

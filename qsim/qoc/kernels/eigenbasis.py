"""Strang split-operator propagation in a truncated eigenbasis: public wrappers and their CPU twins.

With ``Q diag(m) Q^T`` the dipole matrix between the K retained levels and ``ph = exp(-i E tau / 2)``, one step is
``c' = ph Q exp(i m eps tau) Q^T ph c``.  Half steps that meet are merged, so in the dipole's own basis a step is one complex
symmetric matrix and one phase,

    w_j = D_j (M w_{j-1}),    M = Q^T diag(ph^2) Q,    D_j = exp(i m scale eps_j tau),

and the exact discrete gradient of an overlap ``q . w_{N-1}`` is ``i tau scale sum_k q_k m_k w_{j,k}`` with the costate carried
back by the same two factors.  Error O(tau^2); exactly unitary.

CPU: some trajectories per call; phases of a block of steps come from a vectorised sine and cosine.  CUDA: one warp per trajectory
(a block when K > 32), all steps in one launch (``eigenbasis.cu``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.qoc.kernels.banded import JIT, PART

if TYPE_CHECKING:
    from qsim.core.device.arrays import ComplexArray, FloatArray, IndexArray, RealArray
    from qsim.core.device.device import Device

# Steps whose phases are made at once.
PHASE_BLOCK = 32
# The step matrix must fit in a block's shared memory.
MAX_CUDA_STATES = 96

# Minimax coefficients of sine and cosine on [-pi/4, pi/4] (fdlibm) and pi/2 in three parts (Cody and Waite)
_S = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_C = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)
_P1, _P2, _P3 = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
_TWO_OVER_PI = 0.63661977236758134308


class Tables(NamedTuple):
    """Systems and trajectories as the CPU twins take them: real forms of the step matrices and slopes, see `_padded`."""

    matrix: FloatArray
    slope: FloatArray
    system: IndexArray
    field: IndexArray
    scale: RealArray
    tau: float


class Update(NamedTuple):
    """Options of Krotov's update as :func:`eb_krotov` takes them."""

    gain: FloatArray
    alpha: float
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class EigenBatch:
    """Systems and trajectories of an eigenbasis propagation, on the device.

    Attributes
    ----------
    step : (systems, K, K) complex
        ``M = Q^T diag(exp(-i E tau)) Q``, symmetric.
    slope : (systems, K) real
        Eigenvalues of the dipole matrix, a.u.
    system, field : (trajectories,) int32
        System and field of each trajectory.
    scale : (trajectories,) real
        Factor by which each trajectory sees its field.
    tau : float
        Time step, a.u.
    """

    step: ComplexArray
    slope: RealArray
    system: IndexArray
    field: IndexArray
    scale: RealArray
    tau: float

    @property
    def states(self) -> int:
        """Number of retained levels K."""
        return int(self.slope.shape[1])

    @cached_property
    def tables(self) -> Tables:
        """Arguments of the CPU twins: matrices (systems, 2P, 2P) and slopes (systems, P) of all systems, and the trajectories."""
        matrices, slopes = zip(*(_padded(self, s) for s in range(self.slope.shape[0])), strict=True)
        return Tables(np.stack(matrices), np.stack(slopes), self.system, self.field, self.scale, self.tau)


def eb_forward(
    device: Device, batch: EigenBatch, w: ComplexArray, eps: RealArray, trajectory: ComplexArray | None = None
) -> None:
    """Propagate every trajectory over all columns of ``eps``.

    Parameters
    ----------
    w : (trajectories, K) complex, in/out
        State in the dipole's basis before the first phase; after the last phase on return.
    eps : (fields, N) real
        Field at the midpoints, a.u.
    trajectory : (trajectories, N, K) complex, out, optional
        State after each phase, wanted by :func:`eb_backward`.
    """
    _check(batch, eps, w=w, trajectory=trajectory)
    if device.is_cuda:
        # one block per trajectory; the number of levels is a constant of the compilation, so that loops over it
        # unroll
        threads, defines, shared = _launch(batch, w)
        kernel = kernels.function("qoc/kernels", "eigenbasis", "eb_forward", defines, shared_bytes=shared)
        kernel(
            (w.shape[0],),
            (threads,),
            (
                w,
                batch.step,
                batch.slope,
                batch.system,
                batch.field,
                batch.scale,
                eps,
                w.real.dtype.type(batch.tau),
                np.int32(eps.shape[1]),
                w if trajectory is None else trajectory,
                np.int32(trajectory is not None),
            ),
            shared_mem=shared,
        )
        return
    # CPU: ranges of trajectories on all threads, none of which writes where another one does
    keep = trajectory is not None
    kept = trajectory if keep else np.empty((1, 0, 0), w.dtype)
    arrays = (batch.tables, w, eps, kept, keep)
    each_part(Shared(_eb_forward_shared, arrays), w.shape[0], w.shape[0], device.threads, 2)


def eb_backward(
    device: Device,
    batch: EigenBatch,
    q: ComplexArray,
    source: IndexArray,
    eps: RealArray,
    trajectory: ComplexArray,
) -> ComplexArray:
    """Carry costates back and return the derivative of each overlap with respect to every field value.

    Parameters
    ----------
    q : (costates, K) complex, in/out
        Costates acting on the state after the last phase; before the first phase on return.
    source : (costates,) int32, ascending
        Trajectory to which each costate belongs.
    eps : (fields, N) real
    trajectory : (trajectories, N, K) complex
        States of :func:`eb_forward`.

    Returns
    -------
    (costates, N) complex
        ``d (q . w_{N-1}) / d eps_j``.
    """
    _check(batch, eps, q=q, source=source, trajectory=trajectory)
    if device.is_cuda:
        out = device.xp.empty((q.shape[0], eps.shape[1]), q.dtype)
        threads, defines, shared = _launch(batch, q)
        kernel = kernels.function("qoc/kernels", "eigenbasis", "eb_backward", defines, shared_bytes=shared)
        kernel(
            (q.shape[0],),
            (threads,),
            (
                q,
                source,
                batch.step,
                batch.slope,
                batch.system,
                batch.field,
                batch.scale,
                eps,
                q.real.dtype.type(batch.tau),
                np.int32(eps.shape[1]),
                trajectory,
                out,
            ),
            shared_mem=shared,
        )
        return out
    out = np.empty((q.shape[0], eps.shape[1]), np.complex128)
    arrays = (batch.tables, q, source, eps, trajectory, out)
    each_part(Shared(_eb_backward_shared, arrays), q.shape[0], q.shape[0], device.threads, 2)
    return out


def eb_costates(batch: EigenBatch, q: ComplexArray, eps: FloatArray) -> ComplexArray:
    """Return the costates before each step's phase is undone: (trajectories, N, K); CPU only, for :func:`eb_krotov`."""
    chi = np.empty((q.shape[0], eps.shape[1], batch.states), np.complex128)
    for t in range(q.shape[0]):
        m, slope = _padded(batch, batch.system[t])
        _eb_costates_cpu(
            q[t].copy(), m, slope, eps[batch.field[t]], float(batch.scale[t]) * batch.tau, chi[t]
        )
    return chi


def eb_krotov(batch: EigenBatch, w: ComplexArray, chi: ComplexArray, eps: FloatArray, update: Update) -> None:
    """Propagate forward and update the field at each step from the old costates (Krotov's sequential update).

    ``eps_j += gain_j (sum_t 2 Re[i scale chi_j m w_j] - 2 alpha eps_j)``, clipped to the bounds; all trajectories see the
    same field, so the update couples them at every step: CPU only.

    Parameters
    ----------
    w : (trajectories, K) complex, in/out
    chi : (trajectories, N, K) complex
        Costates of :func:`eb_costates`, multiplied by the weight and the conjugated overlap.
    eps : (N,) float64, in/out
    update : Update
        ``gain`` (N,), the shape divided by Krotov's lambda; ``alpha``, the fluence penalty; ``low`` and ``high`` (N,), bounds.
    """
    # the matrices are complex here, and not padded: one row after the other is all that a sequential update can use
    plain = (batch.step, batch.slope, batch.system, batch.scale, batch.tau)
    _eb_krotov_cpu(w, plain, chi, eps, update)


@nb.njit(**JIT)
def _phases(theta, cs, sn):
    """Cosine and sine of a flat array, free of branches so that it vectorises; error below one unit in the last place of 1."""
    for k in range(theta.shape[0]):
        x = theta[k]
        # the nearest multiple y of pi/2, subtracted in three parts: its product with the first two is exact for |y|
        # < 2^20
        y = np.floor(x * _TWO_OVER_PI + 0.5)
        r = ((x - y * _P1) - y * _P2) - y * _P3
        # both polynomials are evaluated for every angle and one of them chosen: a branch would cost more than it
        # saves
        z = r * r
        s = r + r * z * (_S[0] + z * (_S[1] + z * (_S[2] + z * (_S[3] + z * (_S[4] + z * _S[5])))))
        c = (
            1.0
            - 0.5 * z
            + z * z * (_C[0] + z * (_C[1] + z * (_C[2] + z * (_C[3] + z * (_C[4] + z * _C[5])))))
        )
        # the quadrant: odd ones exchange sine and cosine, and two bits give the signs
        n = np.int64(y)
        odd = (n & 1) != 0
        a = c if odd else s
        b = s if odd else c
        sn[k] = -a if (n & 2) != 0 else a
        cs[k] = -b if ((n + 1) & 2) != 0 else b


@nb.njit(**PART)
def _block_phases(slope, eps, start, count, factor, theta, cs, sn):
    """Phases of ``count`` steps from ``start``: rows of cs and sn (PHASE_BLOCK, K)."""
    size = slope.shape[0]
    for b in range(count):
        f = factor * eps[start + b]
        for k in range(size):
            theta[b, k] = f * slope[k]
    _phases(theta.ravel(), cs.ravel(), sn.ravel())


@nb.njit(**PART)
def _turn(n, cs, sn, w):
    """``w = n exp(i theta)``; vectors hold all real parts, then all imaginary parts."""
    size = cs.shape[0]
    for k in range(size):
        w[k] = n[k] * cs[k] - n[size + k] * sn[k]
        w[size + k] = n[k] * sn[k] + n[size + k] * cs[k]


@nb.njit(**PART)
def _matvec(m, w, n):
    """``n = M w`` with the real form of M from :func:`_padded`, eight rows of it at a time."""
    size = w.shape[0]
    for k in range(size):
        n[k] = 0.0
    # Eight columns of M at a time: n is read and written once per eight multiplications, and the sum of a row has a
    # fixed order, whatever the width of the registers.
    for i in range(0, size, 8):
        a = w[i]
        b = w[i + 1]
        c = w[i + 2]
        d = w[i + 3]
        e = w[i + 4]
        f = w[i + 5]
        g = w[i + 6]
        h = w[i + 7]
        for k in range(size):
            n[k] += ((m[i, k] * a + m[i + 1, k] * b) + (m[i + 2, k] * c + m[i + 3, k] * d)) + (
                (m[i + 4, k] * e + m[i + 5, k] * f) + (m[i + 6, k] * g + m[i + 7, k] * h)
            )


@nb.njit(**PART)
def _gradient_sum(w, u, slope, size, acc):
    """Return ``sum_k w_k slope_k u_k`` in eight partial sums, so that the order does not depend on the vector width."""
    for v in range(16):
        acc[v] = 0.0
    for i in range(0, size, 8):
        for v in range(8):
            x = slope[i + v] * u[i + v]
            y = slope[i + v] * u[size + i + v]
            acc[v] += w[i + v] * x - w[size + i + v] * y
            acc[8 + v] += w[i + v] * y + w[size + i + v] * x
    re = 0.0
    im = 0.0
    for v in range(8):
        re += acc[v]
        im += acc[8 + v]
    return re, im


@nb.njit(**JIT)
def _eb_forward_shared(ticket, *arguments):
    return share(ticket, ranges(_eb_forward_cpu, arguments))


@nb.njit(**PART)
def _eb_forward_cpu(first, last, worker, tables, w, eps, trajectory, keep):
    """CPU twin of ``eb_forward`` for trajectories ``first ... last``."""
    m, slope, tau = tables.matrix, tables.slope, tables.tau
    system, field, scale = tables.system, tables.field, tables.scale
    for t in range(first, last):
        s = system[t]
        kept = trajectory[t if keep else 0]
        _forward(w[t], m[s], slope[s], eps[field[t]], np.float64(scale[t]) * tau, kept, keep)


@nb.njit(**PART)
def _forward(w, m, slope, eps, factor, trajectory, keep):
    """Propagate one trajectory: w (K,) in/out, eps (N,), trajectory (N, K) out."""
    states = w.shape[0]
    size = slope.shape[0]
    steps = eps.shape[0]
    # The phases of a block of steps are made together, since sine and cosine of many angles vectorise and those of K
    # angles do not.
    # Rows are padded to `size`, a multiple of eight; the padding holds zeros, which stay zeros under M.
    theta = np.zeros((PHASE_BLOCK, size))
    cs = np.zeros((PHASE_BLOCK, size))
    sn = np.zeros((PHASE_BLOCK, size))
    v = np.zeros(2 * size)
    n = np.zeros(2 * size)
    for k in range(states):
        n[k] = w[k].real
        n[size + k] = w[k].imag
    # w_j = D_j (M w_{j-1}); w is given before the first phase, so the first step has no M
    for start in range(0, steps, PHASE_BLOCK):
        count = min(PHASE_BLOCK, steps - start)
        _block_phases(slope, eps, start, count, factor, theta, cs, sn)
        for b in range(count):
            if start + b > 0:
                _matvec(m, v, n)
            _turn(n, cs[b], sn[b], v)
            # the gradient needs the state after the phase: d w_j / d eps_j = i tau scale m w_j
            if keep:
                for k in range(states):
                    trajectory[start + b, k] = complex(v[k], v[size + k])
    if steps > 0:
        for k in range(states):
            w[k] = complex(v[k], v[size + k])


@nb.njit(**JIT)
def _eb_backward_shared(ticket, *arguments):
    return share(ticket, ranges(_eb_backward_cpu, arguments))


@nb.njit(**PART)
def _eb_backward_cpu(first, last, worker, tables, q, source, eps, trajectory, out):
    """CPU twin of ``eb_backward`` for costates ``first ... last``."""
    m, slope, tau = tables.matrix, tables.slope, tables.tau
    system, field, scale = tables.system, tables.field, tables.scale
    for r in range(first, last):
        t = source[r]
        s = system[t]
        _backward(q[r], m[s], slope[s], eps[field[t]], np.float64(scale[t]) * tau, trajectory[t], out[r])


@nb.njit(**PART)
def _backward(q, m, slope, eps, factor, trajectory, out):
    """Carry one costate back: q (K,) in/out, out (N,)."""
    states = q.shape[0]
    size = slope.shape[0]
    theta = np.zeros((PHASE_BLOCK, size))
    cs = np.zeros((PHASE_BLOCK, size))
    sn = np.zeros((PHASE_BLOCK, size))
    v = np.zeros(2 * size)
    n = np.zeros(2 * size)
    u = np.zeros(2 * size)
    acc = np.zeros(16)
    for k in range(states):
        v[k] = q[k].real
        v[size + k] = q[k].imag
        n[k] = v[k]
        n[size + k] = v[size + k]
    stop = eps.shape[0]
    # Costates go back through the same factors in reverse order: phases of a block are made once more, in blocks
    # from the end.
    while stop > 0:
        start = max(0, stop - PHASE_BLOCK)
        _block_phases(slope, eps, start, stop - start, factor, theta, cs, sn)
        for j in range(stop - 1, start - 1, -1):
            for k in range(states):
                u[k] = trajectory[j, k].real
                u[size + k] = trajectory[j, k].imag
            # d (q . w) / d eps_j = i factor sum_k v_k m_k w_jk, before the phase of this step is undone
            re, im = _gradient_sum(v, u, slope, size, acc)
            out[j] = complex(-factor * im, factor * re)
            # q D_j, then q D_j M = M^T (q D_j), and M is symmetric: one routine serves both directions
            _turn(v, cs[j - start], sn[j - start], n)
            if j > 0:
                _matvec(m, n, v)
        stop = start
    for k in range(states):
        q[k] = complex(n[k], n[size + k])


@nb.njit(**JIT)
def _eb_costates_cpu(q, m, slope, eps, factor, chi):
    """Costate after each step (acting on the state after the phase), last to first: chi (N, K)."""
    states = q.shape[0]
    size = slope.shape[0]
    theta = np.zeros((PHASE_BLOCK, size))
    cs = np.zeros((PHASE_BLOCK, size))
    sn = np.zeros((PHASE_BLOCK, size))
    v = np.zeros(2 * size)
    n = np.zeros(2 * size)
    for k in range(states):
        v[k] = q[k].real
        v[size + k] = q[k].imag
    stop = eps.shape[0]
    while stop > 0:
        start = max(0, stop - PHASE_BLOCK)
        _block_phases(slope, eps, start, stop - start, factor, theta, cs, sn)
        for j in range(stop - 1, start - 1, -1):
            for k in range(states):
                chi[j, k] = complex(v[k], v[size + k])
            _turn(v, cs[j - start], sn[j - start], n)
            _matvec(m, n, v)
        stop = start


@nb.njit(**JIT)
def _eb_krotov_cpu(w, plain, chi, eps, update):
    """Sequential update of all trajectories, see :func:`eb_krotov`."""
    step, slope, system, scale, tau = plain
    gain, alpha, low, high = update
    count, states = w.shape
    new = np.empty(states, np.complex128)
    # One step after the other: the update at step j changes the states that step j + 1 begins with, and adds up over
    # all trajectories.
    for j in range(eps.shape[0]):
        drive = 0.0
        for t in range(count):
            s = system[t]
            if j > 0:
                for k in range(states):
                    z = 0j
                    for i in range(states):
                        z += step[s, k, i] * w[t, i]
                    # M w of this step; the row is complete before w is overwritten
                    new[k] = z
                for k in range(states):
                    w[t, k] = new[k]
            for k in range(states):
                a = slope[s, k] * scale[t]
                th = a * eps[j] * tau
                # the old costate with the new state under the old field: its phase has not been replaced yet
                drive += 2.0 * (1j * a * chi[t, j, k] * w[t, k] * complex(np.cos(th), np.sin(th))).real
        # the explicit form of the update; bounds are kept by clipping
        value = eps[j] + gain[j] * (drive - 2.0 * alpha * eps[j])
        eps[j] = min(max(value, low[j]), high[j])
        for t in range(count):
            for k in range(states):
                th = slope[system[t], k] * scale[t] * eps[j] * tau
                w[t, k] *= complex(np.cos(th), np.sin(th))


def _padded(batch: EigenBatch, s: int) -> tuple[FloatArray, FloatArray]:
    """Real form of a step matrix and the slopes, padded with zeros to a multiple of eight.

    Row i of the (2P, 2P) result is column i of ``[[Re M, -Im M], [Im M, Re M]]``, which acts on (real parts, imaginary parts).
    """
    k, size = batch.states, -(-batch.states // 8) * 8
    re, im, slope = np.zeros((size, size)), np.zeros((size, size)), np.zeros(size)
    re[:k, :k], im[:k, :k], slope[:k] = batch.step[s].real.T, batch.step[s].imag.T, batch.slope[s]
    return np.block([[re, im], [-im, re]]), slope


def _launch(batch: EigenBatch, w: ComplexArray) -> tuple[int, dict[str, str | int], int]:
    """Threads per block, compile-time constants and shared memory of the CUDA kernels."""
    states = batch.states
    if states > MAX_CUDA_STATES:
        raise ValueError(
            f"the eigenbasis kernels hold up to {MAX_CUDA_STATES} states on a GPU, found {states}"
        )
    threads = -(-states // 32) * 32
    single = w.dtype == np.complex64
    bytes_per = 8 if single else 16
    # two halves of the exchanged vector, gradient terms of 32 steps (odd pitch), and the matrix if not in registers
    numbers = 2 * threads + 32 * (states | 1) + (states * threads if states > 32 else 0)
    return threads, {"REAL": "float" if single else "double", "STATES": states}, numbers * bytes_per


def _check(
    batch: EigenBatch,
    eps: RealArray,
    w: ComplexArray | None = None,
    q: ComplexArray | None = None,
    source: IndexArray | None = None,
    trajectory: ComplexArray | None = None,
) -> None:
    """Check shapes once, with names."""
    count, states = batch.system.shape[0], batch.states
    if w is not None and w.shape != (count, states):
        raise ValueError(f"w must have shape (trajectories, states) = {(count, states)}, found {w.shape}")
    if eps.ndim != 2:
        raise ValueError(f"eps must have shape (fields, steps), found {eps.shape}")
    if q is not None and source is not None and q.shape != (source.shape[0], states):
        raise ValueError(
            f"q must have shape (costates, states) = {(source.shape[0], states)}, found {q.shape}"
        )
    kept = (count, eps.shape[1], states)
    if trajectory is not None and trajectory.shape != kept:
        raise ValueError(
            f"trajectory must have shape (trajectories, steps, states) = {kept}, found {trajectory.shape}"
        )

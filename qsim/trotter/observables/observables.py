"""Observables of a state: spins and correlators from the moments, energy and variance, entropies, overlaps, echoes.

Moments (:class:`qsim.trotter.kernels.states.measure.Moments`) hold ``norm = <psi|psi>``, ``s["z"][j] = <S^z_j>`` and
``ss["z"][j, k] = <S^z_j S^z_k>``, and those of the other axes that were measured, not divided by the norm; everything here is
divided by it.  Site j is bit j of the index, bit 0 is up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.blas import large_matrices
from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.product.apply import Operator, apply_h, operator
from qsim.trotter.states.vectors import axpy, norm2, overlap

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.sectors.lanczos import Linear
    from qsim.trotter.states.vectors import Amplitudes


__all__ = [
    "Echo",
    "correlators",
    "echo",
    "energy",
    "energy_and_variance",
    "entropies",
    "entropy",
    "entropy_bytes",
    "fidelity",
    "imbalance",
    "local",
    "norm2",
    "overlap",
    "polarisation",
    "schmidt",
    "total",
]

PIECE_BITS = 20  # of the part of the state that is rearranged at a time
NEGLIGIBLE = 1e-300


# ---------------------------------------------------------------------------------- from the moments


def _of_axis(found: Mapping[str, NDArray[np.float64]], axis: str) -> NDArray[np.float64]:
    """Moments of one axis."""
    if axis not in found:
        raise ValueError(f"the moments hold the axes {', '.join(found) or 'none'}, not {axis}")
    return np.asarray(found[axis], float)


def local(moments: Moments, axis: str) -> NDArray[np.float64]:
    """Return ``<S^a_j>`` of every site, (N,)."""
    return _of_axis(moments.s, axis) / float(moments.norm)


def total(moments: Moments, axis: str) -> float:
    """Return ``sum_j <S^a_j>``."""
    return math.fsum(local(moments, axis))


def correlators(
    moments: Moments, axis: str, pairs: Sequence[Sequence[int]] | None = None
) -> NDArray[np.float64]:
    """Return ``<S^a_j S^a_k>`` of pairs (P, 2), by default all j < k in the order (0,1), (0,2), ..., (1,2), ..."""
    ss = _of_axis(moments.ss, axis) / float(moments.norm)
    first, second = np.triu_indices(len(ss), 1) if pairs is None else np.asarray(pairs, int).reshape(-1, 2).T
    same = first == second
    return np.where(same, 0.25, ss[first, second])  # (S^a)^2 = 1/4


def polarisation(moments: Moments) -> NDArray[np.float64]:
    """Return ``2 <S^z_j>`` of every site, (N,).

    From the state of Eq. (A.1) with site i up this is ``4 Tr[S^z_j(t) S^z_i] / 2^N``, the transfer of polarisation from i
    to j and, at j = i, the autocorrelation, within a statistical error of order ``2^(-N/2)``.
    """
    return 2.0 * local(moments, "z")


def imbalance(moments: Moments, pattern: NDArray[np.float64]) -> float:
    """Return ``sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2`` with the pattern ``Sz_j(0)``; 0 without a pattern."""
    square = float(pattern @ pattern)
    return float(pattern @ local(moments, "z")) / square if square > NEGLIGIBLE else 0.0


def energy(moments: Moments, hamiltonian: Hamiltonian | Model, time: float = 0.0) -> float:
    """Return ``<H(t)>``; axes on which H has nothing need no moments."""
    if moments.energy is not None:
        return float(moments.energy)
    model = hamiltonian.at(time)
    terms: list[float] = []
    for a, axis in enumerate(AXES):
        if model.J[a].any():
            chosen = np.triu(model.J[a] != 0.0, 1)  # other pairs may not have been measured
            terms.extend(model.J[a][chosen] * _of_axis(moments.ss, axis)[chosen])
        if model.h[a].any():
            terms.extend(model.h[a] * _of_axis(moments.s, axis))
    return math.fsum(terms) / float(moments.norm)


# ----------------------------------------------------------------------------------- from the state


def energy_and_variance(
    device: Device,
    hamiltonian: Hamiltonian | Model,
    psi: Amplitudes,
    time: float = 0.0,
    op: Operator | None = None,
    linear: Linear | None = None,
) -> tuple[float, float]:
    """Return ``<H>`` and ``<H^2> - <H>^2``, as the square of ``(H - <H>) psi``, so that nothing cancels.

    Needs one vector, and another one for long-range couplings.

    Parameters
    ----------
    op : Operator, optional
        The Hamiltonian at that time, if it is at hand.
    linear : Linear, optional
        The Hamiltonian as it acts in a sector, to which psi then belongs.
    """
    out = device.xp.empty_like(psi)
    if linear is not None:
        linear.apply(psi, out)
    else:
        op = op if op is not None else operator(device, hamiltonian.at(time))
        apply_h(device, op, psi, out)
    norm = norm2(psi)
    mean = overlap(psi, out).real / norm
    axpy(-mean, psi, out)
    return mean, norm2(out) / norm


def fidelity(a: Amplitudes, b: Amplitudes) -> float:
    """Return ``|<a|b>|^2`` of the normalised states; with the state at t = 0 this is the return probability."""
    return abs(overlap(a, b)) ** 2 / (norm2(a) * norm2(b))


def schmidt(device: Device, psi: Amplitudes, sites: Iterable[int]) -> NDArray[np.float64]:
    """Return the squared Schmidt coefficients between some sites and the rest, descending, of sum 1.

    They are the eigenvalues of the reduced density matrix of the smaller part, which is summed piece by piece, so that no copy
    of a large state is made; a state that is one piece with a small part of up to 8 spins gives its singular values instead.

    Parameters
    ----------
    psi : (2^N,) complex
    sites : of integers
        One part; neither empty nor all sites.
    """
    spins = int(psi.shape[0]).bit_length() - 1
    part = sorted({int(site) for site in sites})
    if not part or len(part) >= spins or part[0] < 0 or part[-1] >= spins:
        raise ValueError(f"one part of {spins} sites must hold 1 to {spins - 1} of them, found {part}")
    rest = [site for site in range(spins) if site not in part]
    small, large = (part, rest) if len(part) <= len(rest) else (rest, part)
    xp = device.xp
    with device.use(), large_matrices(1 << len(small)):
        rows = _deposit(xp, small)
        inner = max(0, min(len(large), PIECE_BITS - len(small)))
        columns = _deposit(xp, large[:inner])
        starts = [_scatter(k, large[inner:]) for k in range(1 << (len(large) - inner))]
        if len(starts) == 1 and len(small) <= 8:
            matrix = psi[rows[:, None] | columns[None, :]].astype(np.complex128)
            values = xp.linalg.svd(matrix, compute_uv=False) ** 2
        else:
            density = xp.zeros((1 << len(small), 1 << len(small)), np.complex128)
            for start in starts:
                matrix = psi[rows[:, None] | (columns[None, :] | start)].astype(np.complex128, copy=False)
                density += matrix @ matrix.conj().T
            values = xp.linalg.eigvalsh(density)
        return _normalised(device.to_host(values))


def entropy(device: Device, psi: Amplitudes, sites: Iterable[int]) -> float:
    """Return the von Neumann entropy of some sites with the rest, natural logarithm; parameters as in :func:`schmidt`."""
    return _entropy(schmidt(device, psi, sites))


def entropies(device: Device, states: Amplitudes, sites: Sequence[int]) -> NDArray[np.float64]:
    """Return the entropies (M,) of small states (M, 2^N), N <= 16; on the CPU those of :func:`entropy`, bit for bit."""
    spins = int(states.shape[1]).bit_length() - 1
    part = sorted(set(sites))
    rest = [site for site in range(spins) if site not in part]
    small, large = (part, rest) if len(part) <= len(rest) else (rest, part)
    xp = device.xp
    with device.use():
        index = _deposit(xp, small)[:, None] | _deposit(xp, large)[None, :]
        matrices = states[:, index].astype(np.complex128)
        if device.is_cuda:  # singular values would be found one matrix after the other
            values = xp.linalg.eigvalsh(matrices @ matrices.conj().transpose(0, 2, 1))
        else:
            values = xp.linalg.svd(matrices, compute_uv=False) ** 2
        return np.array([_entropy(_normalised(p)) for p in device.to_host(values)])


def _normalised(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights descending and of sum 1, rounding below zero removed."""
    found = np.sort(np.maximum(p, 0.0))[::-1]
    return np.asarray(found / found.sum())


def _entropy(p: NDArray[np.float64]) -> float:
    p = p[p > NEGLIGIBLE]
    return max(0.0, -math.fsum(p * np.log(p)))


def entropy_bytes(spins: int, sites: int) -> int:
    """Return the bytes that :func:`schmidt` allocates for a part of `sites` sites."""
    rows = min(sites, spins - sites)
    piece = 1 << min(spins, max(rows, PIECE_BITS))
    return 3 * 16 * (1 << 2 * rows) + (8 + 2 * 16) * piece


def _deposit(xp: ModuleType, sites: Sequence[int]) -> NDArray[np.int64]:
    """Return the indices that have any combination of these bits, (2^k,) int64."""
    index = xp.zeros(1, np.int64)
    for site in sites:
        index = xp.concatenate([index, index | (1 << site)])
    return index


def _scatter(number: int, sites: Sequence[int]) -> int:
    """Spread the bits of a number over these places."""
    return sum((number >> k & 1) << site for k, site in enumerate(sites))


# ------------------------------------------------------------------------------------------- echoes


@dataclass(frozen=True)
class Echo:
    """A Loschmidt echo.

    Attributes
    ----------
    echo : float
        ``|<psi0|psi_back>|^2`` of the normalised states.
    unnormalised : float
        The same as it stands: without a perturbation its distance from 1 shows the rounding of all layers (section 4.2).
    norm : float
        ``<psi_back|psi_back>``.
    """

    echo: float
    unnormalised: float
    norm: float


def echo(psi0: Amplitudes, back: Amplitudes) -> Echo:
    """Return the echo of a start and a state that came back, or of two states carried forward with H + Sigma and with H.

    ``M(2t) = |<psi0| exp(i (H + Sigma) t) exp(-i H t) |psi0>|^2``; both ways give the same number.
    """
    start, norm = norm2(psi0), norm2(back)
    product = abs(overlap(psi0, back)) ** 2
    return Echo(product / (start * norm), product, norm)

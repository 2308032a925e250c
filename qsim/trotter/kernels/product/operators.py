"""A Hamiltonian as the kernels of H psi take it, in the form that costs less."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from qsim.trotter.kernels.product.exchange import ExchangeTables, exchange_tables

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray
    from qsim.core.device.device import Device

# bits of a tile: 64 KiB of complex128
TILE = 12
GPU_BONDS_TILE = 10
# of the estimate for pairs, measured on a CPU, whose tiles stay in its cache: 0.6 ns with 17 spins, 0.8 ns with 21
CPU_BONDS = 0.5
# ns per amplitude: a pair, a field, a bit of a transform, a term of different components
BOND_COST, FLIP_COST, FRAME_COST, CROSS_COST = 1.5, 1.5, 0.45, 2.5


class Diagonal(NamedTuple):
    """The part of H along one axis, diagonal in its frame; as in `Operator`."""

    spins: int
    J: FloatArray
    h: FloatArray
    within: FloatArray


@dataclass(frozen=True)
class Operator:
    """A Hamiltonian as the kernels take it; all arrays are on the device.

    Attributes
    ----------
    spins : int
    form : {"bonds", "frames"}
    bits : int
        Bits of a tile of the diagonal.
    J : (3, N, N) float64
        Couplings of x, y, z, symmetric, zero on the diagonal.
    h : (3, N) float64
        Fields.
    within : (3, 2^bits) float64
        Energy of the couplings between the lowest ``bits`` spins.
    mask : (pairs,) uint64
        The two bits of a pair with a transverse coupling.
    same, opposite : (pairs,) float64
        ``(Jx - Jy) / 4`` and ``(Jx + Jy) / 4``.
    site : (flips,) int32
        Sites with a transverse field.
    hx, hy : (flips,) float64
        Halves of the transverse fields.
    axes : tuple of int
        Which of x = 0 and y = 1 occur; the frame form visits these.
    cost : float
        Of a product on one CPU thread, roughly, ns per amplitude.
    is_real : bool
        Whether the matrix elements are.
    cross : ExchangeTables or None
        Couplings of different components.
    """

    spins: int
    form: Literal["bonds", "frames"]
    bits: int
    J: FloatArray
    h: FloatArray
    within: FloatArray
    mask: IndexArray
    same: FloatArray
    opposite: FloatArray
    site: IndexArray
    hx: FloatArray
    hy: FloatArray
    axes: tuple[int, ...]
    cost: float
    is_real: bool
    cross: ExchangeTables | None = None

    def diagonal(self, axis: int) -> Diagonal:
        """Return the diagonal of an axis as the CPU twins take it."""
        return Diagonal(self.spins, self.J[axis], self.h[axis], self.within[axis])

    @property
    def needs_work(self) -> bool:
        """True if :func:`apply_h` needs a vector as work space."""
        return self.form == "frames" and bool(self.axes)


def operator(device: Device, model: Any, form: Literal["auto", "bonds", "frames"] = "auto") -> Operator:
    """Return a model in the form that the kernels take.

    Parameters
    ----------
    model : Model
        Spins N, couplings ``J`` (3, N, N) symmetric with zero diagonal and ``cross``, fields ``h`` (3, N).
    form
        ``"auto"`` takes the one that costs less.
    """
    J = np.ascontiguousarray(model.J, dtype=np.float64)
    h = np.ascontiguousarray(model.h, dtype=np.float64)
    spins = int(model.spins)
    if J.shape != (3, spins, spins) or h.shape != (3, spins):
        raise ValueError(
            f"J and h of {spins} spins must have shapes (3, N, N) and (3, N), found {J.shape}, {h.shape}"
        )
    # transverse parts: pairs with Jx or Jy, sites with hx or hy; everything along z is diagonal
    first, second = np.nonzero(np.triu((J[0] != 0) | (J[1] != 0), 1))
    site = np.flatnonzero((h[0] != 0) | (h[1] != 0))
    one = np.uint64(1)
    mask = (one << first.astype(np.uint64)) | (one << second.astype(np.uint64))
    jx, jy = J[0, first, second], J[1, first, second]
    axes = tuple(a for a in (0, 1) if J[a].any() or h[a].any())
    # the form with the lowest estimate, unless a test or a benchmark names one
    costs = _costs(J, h, axes)
    pairs = costs["bonds"] * (1.0 if device.is_cuda else CPU_BONDS)
    best: Literal["bonds", "frames"] = "bonds" if pairs < costs["frames"] else "frames"
    chosen = best if form == "auto" else form
    bits = min(spins, GPU_BONDS_TILE if device.is_cuda and chosen == "bonds" else TILE)
    cross = None if model.cross is None else exchange_tables(device, model.cross)
    return Operator(
        spins=spins,
        form=chosen,
        bits=bits,
        J=device.asarray(J),
        h=device.asarray(h),
        within=device.asarray(np.stack([_within(J[a], bits) for a in range(3)])),
        mask=device.asarray(mask),
        same=device.asarray((jx - jy) / 4),
        opposite=device.asarray((jx + jy) / 4),
        site=device.asarray(site.astype(np.int32)),
        hx=device.asarray(h[0, site] / 2),
        hy=device.asarray(h[1, site] / 2),
        axes=axes,
        cost=1.0
        + (min(costs.values()) if form == "auto" else costs[chosen])
        + (0.0 if cross is None else CROSS_COST * cross.mask.shape[0]),
        is_real=is_real(model),
        cross=cross,
    )


def is_real(model: Any) -> bool:
    """Return True if the matrix elements of a model are real."""
    # S^y alone is imaginary: it must come in pairs
    return not (model.h[1].any() or (model.cross is not None and model.cross[1].any()))


def _costs(J: FloatArray, h: FloatArray, axes: tuple[int, ...]) -> dict[Literal["bonds", "frames"], float]:
    """Cost of either form; a coefficient that vanishes for equal or opposite spins halves the work of a pair."""
    spins = J.shape[1]
    upper = np.triu_indices(spins, 1)
    jx, jy = J[0][upper], J[1][upper]
    pairs = 0.5 * float(np.count_nonzero(jx != jy) + np.count_nonzero(jx != -jy))
    flips = float(np.count_nonzero((h[0] != 0) | (h[1] != 0)))
    # two transforms, of N bits each, for every axis
    levels = 2.0 * spins * len(axes)
    return {"bonds": BOND_COST * pairs + FLIP_COST * flips, "frames": FRAME_COST * levels}


def _within(J: FloatArray, bits: int) -> Any:
    """Energy of the couplings between the lowest bits, (2^bits,)."""
    spins = 0.5 - ((np.arange(1 << bits)[:, None] >> np.arange(bits)) & 1)
    return 0.5 * np.einsum("nj,nj->n", spins @ J[:bits, :bits], spins)

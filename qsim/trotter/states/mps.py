"""Matrix product states, contracted to a vector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.arrays import listed, read_arrays, require_finite

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["contract_mps", "read_mps"]


def read_mps(path: Path, spins: int, twos: tuple[int, ...] | None = None) -> list[NDArray[np.complex128]]:
    """Return the tensors (left bond, 2 S + 1, right bond) of an .npz file, site 0 first, by default of spins 1/2.

    The bonds at both ends are one and the same (trace, Eq. (A.2)); for an open chain it has size 1, and may be left out.

    Raises
    ------
    FileError
        If a tensor is missing, of another shape than its neighbours need, or not finite.
    """
    if path.suffix != ".npz":
        raise FileError(f"{path}: tensors are read from an .npz file, one array per site")
    arrays = read_arrays(path, f"tensors of {spins} sites, A0 to A{spins - 1}, in an .npz file")
    # names of numpy.savez with and without keywords
    prefix = next((p for p in ("A", "arr_") if f"{p}0" in arrays), None)
    if prefix is None or len(arrays) != spins or any(f"{prefix}{k}" not in arrays for k in range(spins)):
        raise FileError(
            f"{path} holds {listed(arrays)}; expected one tensor for each of {spins} sites, A0 to A{spins - 1}"
        )
    tensors = []
    for site in range(spins):
        name = f"{prefix}{site}"
        tensor = arrays[name]
        # open boundaries: end tensors may lack their outer bond
        if tensor.ndim == 2 and site == 0:
            tensor = tensor[None]
        elif tensor.ndim == 2 and site == spins - 1:
            tensor = tensor[..., None]
        d = 2 if twos is None else twos[site] + 1
        if tensor.dtype.kind not in "biufc" or tensor.ndim != 3 or tensor.shape[1] != d:
            raise FileError(
                f"{path}: {name} has shape {arrays[name].shape}, expected (left bond, {d}, right bond)"
            )
        if 0 in tensor.shape:
            raise FileError(f"{path}: {name} has shape {tensor.shape}; bonds have at least the size 1")
        require_finite(path, name, arrays[name])
        tensors.append(tensor.astype(np.complex128))
    # the last tensor closes the ring with the first, over a bond of size 1 in an open chain
    for site, tensor in enumerate(tensors):
        after = tensors[(site + 1) % spins]
        if tensor.shape[2] != after.shape[0]:
            raise FileError(
                f"{path}: the right bond of {prefix}{site} is {tensor.shape[2]}, but the left bond of "
                f"{prefix}{(site + 1) % spins} is {after.shape[0]}"
            )
    return tensors


def contract_mps(
    tensors: list[NDArray[np.complex128]], device: Device, dtype: DTypeLike, origin: str = "the tensors"
) -> Amplitudes:
    """Return the normalised vector ``psi(i_0 ... i_{N-1}) = tr(A_0^{i_0} ... A_{N-1}^{i_{N-1}})``, Eq. (A.2).

    Two halves of the chain are contracted first; their product is the vector.

    Parameters
    ----------
    origin
        Where the tensors come from, for messages.

    Raises
    ------
    FileError
        If the state is zero.
    """
    half = len(tensors) // 2
    # overflow and underflow show in the size
    with np.errstate(all="ignore"):
        low, high = (
            _chain(tensors[:half], tensors[0].shape[0]),
            _chain(tensors[half:], tensors[half].shape[0]),
        )
        # psi[h, l] = sum_ab low[l, a, b] high[h, b, a]: one matrix product of high by low strings
        left = high.transpose(0, 2, 1).reshape(high.shape[0], -1)
        right = low.reshape(low.shape[0], -1)
        # the norm from small Gram matrices, before the vector is made
        size = np.sqrt(abs(np.vdot(left.conj().T @ left, (right.conj().T @ right).conj())))
    if not (np.isfinite(size) and size > 0.0):
        reason = "zero" if size == 0.0 else "not finite"
        raise FileError(
            f"{origin}: the norm of the matrix product state is {reason}, so it cannot be normalised"
        )
    with device.use():
        psi = device.xp.empty(left.shape[0] * right.shape[0], dtype=dtype)
        device.xp.matmul(
            device.asarray((left / size).astype(dtype)),
            device.asarray(np.ascontiguousarray(right.T).astype(dtype)),
            out=psi.reshape(left.shape[0], right.shape[0]),
        )
    return psi


def _chain(tensors: list[NDArray[np.complex128]], bond: int) -> NDArray[np.complex128]:
    """Return (states, left bond, right bond): products of matrices for all settings of some sites, the first runs fastest."""
    product = np.eye(bond, dtype=np.complex128)[None]
    for tensor in tensors:
        # site after site becomes a higher digit: n counts the earlier ones, i is next
        product = np.einsum("nab,bic->inac", product, tensor, optimize=True)
        product = product.reshape(-1, bond, tensor.shape[2])
    return product

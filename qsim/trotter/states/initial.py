"""Initial states: from a block of the deck to a vector of 2^N amplitudes on the device.

Site j is bit j of the index, bit 0 is up.  No state needs a second vector of its size: products and matrix product states are
written as an outer product of two halves, random states by a kernel in place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.errors import FileError
from qsim.core.results.arrays import listed, read_arrays, require_finite
from qsim.core.results.hdf5 import open_datasets
from qsim.trotter.deck import initial as blocks

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["contract_mps", "initial_part", "initial_state", "load_state", "product_state", "read_mps"]

NAMES = ("psi", "psi_final", "state", "results/psi_final", "results/psi", "results/state")
DIRECTIONS = {  # theta, phi in units of pi
    "x": (0.5, 0.0),
    "-x": (0.5, 1.0),
    "y": (0.5, 0.5),
    "-y": (0.5, 1.5),
    "z": (0.0, 0.0),
    "-z": (1.0, 0.0),
}
NORM_CHUNK = 1 << 17


def initial_state(
    block: blocks.Initial, spins: int, device: Device, dtype: DTypeLike, *, seed: int, member: int = 0
) -> Amplitudes:
    """Return the initial state of a deck.

    Parameters
    ----------
    block
        One of :mod:`qsim.trotter.deck.initial`, checked.
    spins
        Number of sites N.
    device
        Where the state lives.
    dtype
        complex64 or complex128.
    seed
        Seed of the run, for random states without a seed of their own.
    member
        Number of the state in an ensemble; other states ignore it.

    Returns
    -------
    (2^N,) complex
        A new array, normalised to rounding.

    Raises
    ------
    FileError
        If a file is missing something, or of another number of spins.
    """
    if isinstance(block, blocks.RandomInitial):
        return _random(block, spins, device, dtype, seed, member)
    if isinstance(block, blocks.ProductInitial | blocks.PolarisedInitial):
        return product_state(*_angles(block, spins), device, dtype)
    if isinstance(block, blocks.MpsInitial):
        return contract_mps(read_mps(block.file, spins), device, dtype, str(block.file))
    if isinstance(block, blocks.FileInitial):
        return load_state(block.file, spins, device, dtype, block.name)
    if isinstance(block, blocks.GroundStateInitial):
        raise ValueError("a ground state is found in its sector")
    with device.use():
        psi = device.xp.zeros(1 << spins, dtype=dtype)
        psi[basis_index(block, spins)] = 1.0
    return psi


def initial_part(
    block: blocks.Initial, spins: int, device: Device, dtype: DTypeLike, part: slice
) -> Amplitudes:
    """Return 2^n neighbouring amplitudes of a product state, beginning at a multiple of 2^n.

    Parameters
    ----------
    block, spins, device, dtype
        As for :func:`initial_state`.
    part
        Amplitudes that are wanted.

    Raises
    ------
    ValueError
        If the state is none of those that have parts.
    """
    size = part.stop - part.start
    n = size.bit_length() - 1
    if isinstance(block, blocks.ProductInitial | blocks.PolarisedInitial):
        theta, phi = _angles(block, spins)
        above = product_state(theta[n:], phi[n:], cpu(1), complex) if n < spins else np.ones(1)
        return product_state(theta[:n], phi[:n], device, dtype) * complex(above[part.start >> n])
    if not isinstance(block, blocks.IsingInitial):
        raise ValueError("only product states have parts")
    with device.use():
        psi = device.xp.zeros(size, dtype=dtype)
        index = basis_index(block, spins)
        if part.start <= index < part.stop:
            psi[index - part.start] = 1.0
    return psi


def basis_index(block: blocks.IsingInitial, spins: int) -> int:
    """Return the index of an Ising state: the sum of 2^j over the sites that are down."""
    if isinstance(block, blocks.NeelInitial):
        row = block.row or spins
        down = [(site % row + site // row) % 2 == 1 for site in range(spins)]
        if block.first == "down":
            down = [not value for value in down]
    elif isinstance(block, blocks.DomainWallInitial):
        up = spins // 2 if block.up is None else block.up
        down = [site >= up for site in range(spins)]
    elif block.bits is not None:
        down = [bit == "1" for bit in block.bits]
    elif block.up is not None:
        down = [site not in set(block.up) for site in range(spins)]
    else:
        down = [site in set(block.down or ()) for site in range(spins)]
    return sum(1 << site for site, value in enumerate(down) if value)


# ---------------------------------------------------------------------------------------- random states


def _random(
    block: blocks.RandomInitial, spins: int, device: Device, dtype: DTypeLike, seed: int, member: int
) -> Amplitudes:
    """Return a random state, the same on every device."""
    from qsim.trotter.kernels.states.random_states import random_normals, random_phases

    with device.use():
        psi = device.xp.empty(1 << spins, dtype=dtype)
    own = seed if block.seed is None else block.seed
    if isinstance(block, blocks.HaarInitial):
        random_normals(device, psi, own, member)
        return psi
    up = block.up if isinstance(block, blocks.A1Initial) else ()
    mask = sum(1 << site for site in set(up))
    random_phases(device, psi, own, member, mask=mask, generator=block.rng)
    return psi


# --------------------------------------------------------------------------------------- product states


def _angles(
    block: blocks.ProductInitial | blocks.PolarisedInitial, spins: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return theta and phi (N,) of every spin, rad."""
    if isinstance(block, blocks.PolarisedInitial):
        theta, phi = np.pi * np.array(DIRECTIONS[block.axis])
    else:
        theta, phi = np.array(block.theta, float), np.array(block.phi, float)
    return np.broadcast_to(theta, (spins,)), np.broadcast_to(phi, (spins,))


def product_state(
    theta: NDArray[np.float64], phi: NDArray[np.float64], device: Device, dtype: DTypeLike
) -> Amplitudes:
    """Return ``prod_j (cos(theta_j/2) |up> + exp(i phi_j) sin(theta_j/2) |down>)``.

    Parameters
    ----------
    theta, phi : (N,)
        Angles, rad.
    """
    spinors = np.stack([np.cos(0.5 * theta), np.exp(1j * phi) * np.sin(0.5 * theta)], axis=1)
    half = len(spinors) // 2
    low, high = _product(spinors[:half]), _product(spinors[half:])
    with device.use():
        psi = device.xp.empty(1 << len(spinors), dtype=dtype)
        device.xp.multiply(
            device.asarray(high.astype(dtype))[:, None],
            device.asarray(low.astype(dtype))[None, :],
            out=psi.reshape(high.size, low.size),
        )
    return psi


def _product(spinors: NDArray[np.complex128]) -> NDArray[np.complex128]:
    vector = np.ones(1, dtype=np.complex128)
    for spinor in spinors:
        vector = np.outer(spinor, vector).ravel()  # the later site is the more significant bit
    return vector


# ------------------------------------------------------------------------------- matrix product states


def read_mps(path: Path, spins: int) -> list[NDArray[np.complex128]]:
    """Return the tensors (left bond, 2, right bond) of an .npz file, site 0 first.

    The bonds at both ends are one and the same (trace, Eq. (A.2)); for an open chain it has size 1, and may be left out.

    Raises
    ------
    FileError
        If a tensor is missing, of another shape than its neighbours need, or not finite.
    """
    if path.suffix != ".npz":
        raise FileError(f"{path}: tensors are read from an .npz file, one array per site")
    arrays = read_arrays(path, f"tensors of {spins} sites, A0 to A{spins - 1}, in an .npz file")
    prefix = next((p for p in ("A", "arr_") if f"{p}0" in arrays), None)
    if prefix is None or len(arrays) != spins or any(f"{prefix}{k}" not in arrays for k in range(spins)):
        raise FileError(
            f"{path} holds {listed(arrays)}; expected one tensor for each of {spins} sites, A0 to A{spins - 1}"
        )
    tensors = []
    for site in range(spins):
        name = f"{prefix}{site}"
        tensor = arrays[name]
        if tensor.ndim == 2 and site == 0:
            tensor = tensor[None]
        elif tensor.ndim == 2 and site == spins - 1:
            tensor = tensor[..., None]
        if tensor.dtype.kind not in "biufc" or tensor.ndim != 3 or tensor.shape[1] != 2:
            raise FileError(
                f"{path}: {name} has shape {arrays[name].shape}, expected (left bond, 2, right bond)"
            )
        if 0 in tensor.shape:
            raise FileError(f"{path}: {name} has shape {tensor.shape}; bonds have at least the size 1")
        require_finite(path, name, arrays[name])
        tensors.append(tensor.astype(np.complex128))
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
    with np.errstate(all="ignore"):  # overflow and underflow show in the size
        low, high = (
            _chain(tensors[:half], tensors[0].shape[0]),
            _chain(tensors[half:], tensors[half].shape[0]),
        )
        # psi[h, l] = sum_ab low[l, a, b] high[h, b, a]
        left = high.transpose(0, 2, 1).reshape(high.shape[0], -1)
        right = low.reshape(low.shape[0], -1)
        size = np.sqrt(abs(np.vdot(left.conj().T @ left, (right.conj().T @ right).conj())))
    if not (np.isfinite(size) and size > 0.0):
        found = "zero" if size == 0.0 else "not finite"
        raise FileError(
            f"{origin}: the norm of the matrix product state is {found}, so it cannot be normalised"
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
    """Return (2^n, left bond, right bond): the products of matrices for every setting of n sites, the first least significant."""
    product = np.eye(bond, dtype=np.complex128)[None]
    for tensor in tensors:
        product = np.einsum("nab,bic->inac", product, tensor, optimize=True)
        product = product.reshape(-1, bond, tensor.shape[2])
    return product


# ------------------------------------------------------------------------------------------------ files


def load_state(
    path: Path, spins: int, device: Device, dtype: DTypeLike, name: str | None = None
) -> Amplitudes:
    """Return a normalised state from an .npy, .npz or HDF5 file.

    Parameters
    ----------
    name
        Name of the array; by default psi, psi_final, or the only one that fits.

    Raises
    ------
    FileError
        If there is no such array, or it is no state of N spins.
    """
    path = Path(path)
    if path.suffix in (".h5", ".hdf5"):
        file, datasets = open_datasets(path)
        with file:
            chosen = _choose(path, datasets, spins, name)
            vector = np.asarray(datasets[chosen][...])
    else:
        arrays = read_arrays(path, f"a state of {spins} spins in a NumPy or HDF5 file")
        chosen = _choose(path, arrays, spins, name)
        vector = arrays[chosen]
    if vector.dtype.kind not in "biufc":
        raise FileError(f"{path}: {chosen or 'the array'} holds {vector.dtype}, not numbers")
    require_finite(path, chosen or "psi", vector)
    with device.use(), np.errstate(all="ignore"):  # overflow and underflow show in the norm
        psi = device.asarray(vector.astype(dtype, copy=False))  # it is ours: no copy
        size = _norm(psi)
        if not (np.isfinite(size) and size > 0.0):
            found = "zero" if size == 0.0 else "too large for a number"
            raise FileError(f"{path}: the norm of the state is {found}, so it cannot be normalised")
        psi *= 1.0 / size
        return psi


def _choose(path: Path, arrays: dict[str, Any], spins: int, name: str | None) -> str:
    """Return the name of the state among arrays."""
    fitting = [key for key, array in arrays.items() if array.shape == (1 << spins,)]
    if name is None:
        name = next((key for key in NAMES if key in fitting), fitting[0] if len(fitting) == 1 else None)
    elif name not in arrays and f"results/{name}" in arrays:
        name = f"results/{name}"
    if name is None or name not in fitting:
        wanted = f"'{name}'" if name else "one array"
        raise FileError(
            f"{path} holds {listed(arrays)}; expected {wanted} of {1 << spins} amplitudes ({spins} spins)"
        )
    return name


def _norm(psi: Amplitudes) -> float:
    """Return the norm, in double precision, piece by piece so that no second vector is needed."""
    pieces = (psi[first : first + NORM_CHUNK] for first in range(0, psi.size, NORM_CHUNK))
    squares = [float((abs(piece.astype(np.complex128)) ** 2).sum()) for piece in pieces]
    return float(np.sqrt(np.sum(squares)))

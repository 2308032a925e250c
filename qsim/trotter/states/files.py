"""State vectors from files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.links import total
from qsim.core.errors import FileError
from qsim.core.results.arrays import listed, read_arrays, require_finite
from qsim.core.results.hdf5 import open_datasets

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["load_state"]

NAMES = ("psi", "psi_final", "state", "results/psi_final", "results/psi", "results/state")
NORM_CHUNK = 1 << 17


def load_state(
    path: Path,
    spins: int,
    device: Device,
    dtype: DTypeLike,
    name: str | None = None,
    links: Links | None = None,
    states: int | None = None,
) -> Amplitudes:
    """Return a normalised state from an .npy, .npz or HDF5 file.

    Parameters
    ----------
    name
        Name of the array; by default psi, psi_final, or the only one that fits.
    links
        To processes that share the state: the part of this one is returned, of a state whose norm is 1.
    states
        Number of amplitudes, by default 2^N.

    Raises
    ------
    FileError
        If there is no such array, or it is no state of N spins.
    """
    path = Path(path)
    ranks, rank = (1, 0) if links is None else (links.size, links.rank)
    size = 1 << spins if states is None else states
    part = slice(rank * size // ranks, (rank + 1) * size // ranks)
    if path.suffix in (".h5", ".hdf5"):
        file, datasets = open_datasets(path)
        with file:
            chosen = _choose(path, datasets, spins, size, name)
            vector = np.asarray(datasets[chosen][part])
    else:
        arrays = read_arrays(path, f"a state of {spins} spins in a NumPy or HDF5 file")
        chosen = _choose(path, arrays, spins, size, name)
        vector = arrays[chosen][part]
    if vector.dtype.kind not in "biufc":
        raise FileError(f"{path}: {chosen or 'the array'} holds {vector.dtype}, not numbers")
    require_finite(path, chosen or "psi", vector)
    # overflow and underflow show in the norm
    with device.use(), np.errstate(all="ignore"):
        # it is ours: no copy
        psi = device.asarray(vector.astype(dtype, copy=False))
        norm = _norm(psi, links)
        if not (np.isfinite(norm) and norm > 0.0):
            reason = "zero" if norm == 0.0 else "too large for a number"
            raise FileError(f"{path}: the norm of the state is {reason}, so it cannot be normalised")
        psi *= 1.0 / norm
        return psi


def _choose(path: Path, arrays: dict[str, Any], spins: int, size: int, name: str | None) -> str:
    """Return the name of the state among arrays."""
    fitting = [key for key, array in arrays.items() if array.shape == (size,)]
    if name is None:
        name = next((key for key in NAMES if key in fitting), fitting[0] if len(fitting) == 1 else None)
    elif name not in arrays and f"results/{name}" in arrays:
        name = f"results/{name}"
    if name is None or name not in fitting:
        wanted = f"'{name}'" if name else "one array"
        raise FileError(
            f"{path} holds {listed(arrays)}; expected {wanted} of {size} amplitudes ({spins} spins)"
        )
    return name


def _norm(psi: Amplitudes, links: Links | None) -> float:
    """Return the norm, in double precision, piece by piece so that no second vector is needed; over all processes."""
    pieces = (psi[first : first + NORM_CHUNK] for first in range(0, psi.size, NORM_CHUNK))
    squares = [float((abs(piece.astype(np.complex128)) ** 2).sum()) for piece in pieces]
    square = np.array([np.sum(squares)])
    return float(np.sqrt(square if links is None else total(links, square))[0])

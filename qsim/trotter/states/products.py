"""Products of the states of single spins, written as an outer product of two halves, so that no second vector is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.device import cpu

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes


def product_state(
    theta: NDArray[np.float64], phi: NDArray[np.float64], device: Device, dtype: DTypeLike
) -> Amplitudes:
    """Return ``prod_j (cos(theta_j/2) |up> + exp(i phi_j) sin(theta_j/2) |down>)``.

    Parameters
    ----------
    theta, phi : (N,)
        Angles, rad.
    """
    # spin up along (theta, phi): cos(theta/2) |up> + e^(i phi) sin(theta/2) |down>
    spinors = np.stack([np.cos(0.5 * theta), np.exp(1j * phi) * np.sin(0.5 * theta)], axis=1)
    # two halves on the host, of 2^(N / 2) numbers each; their outer product on the device
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
        # the later site is the more significant bit
        vector = np.outer(spinor, vector).ravel()
    return vector


def part_of_product(
    theta: NDArray[np.float64], phi: NDArray[np.float64], device: Device, dtype: DTypeLike, part: slice
) -> Amplitudes:
    """Return 2^n neighbouring amplitudes of a product, beginning at a multiple of 2^n: the lower sites times a number.

    Parameters
    ----------
    theta, phi : (N,)
        Angles, rad.
    part : slice
        Amplitudes that are wanted.
    """
    # sites above n have one setting in the whole part: a single number
    n = (part.stop - part.start).bit_length() - 1
    above = product_state(theta[n:], phi[n:], cpu(1), complex) if n < theta.size else np.ones(1)
    return product_state(theta[:n], phi[:n], device, dtype) * complex(above[part.start >> n])

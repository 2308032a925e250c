"""Random amplitudes of initial states, identical in every bit on CPU and GPU; ``random_states.cu`` has the method.

No function here may be compiled with fast-math flags: sine, cosine and logarithm are polynomials whose operations are rounded
one by one, as in the CUDA twin.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from qsim.core.device import kernels
from qsim.core.device.cpu.rng import uniform2
from qsim.core.device.pool import each_part
from qsim.core.device.rng import key_from_seed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from qsim.core.device.arrays import StateVector
    from qsim.core.device.device import Device

# word of the counter that keeps states apart from disorder
STREAM = 0x57A7E001
# amplitudes that are summed in their order; the sums of runs are summed exactly
SUM_RUN = 1024
MOST_BLOCKS = 1 << 16
THREADS = 256


def random_phases(
    device: Device,
    psi: StateVector,
    seed: int,
    member: int,
    *,
    mask: int = 0,
    generator: str = "philox",
    part: tuple[int, int] | None = None,
) -> None:
    """Fill a state, or a part of it, with amplitudes of equal size and random phases, normalised.

    Parameters
    ----------
    psi : (2^N,) complex64 or complex128, out
        On the device.
    seed, member
        Seed, and number of the state in an ensemble.
    mask
        Bits that must be 0 (up): where one is set the amplitude is zero.
    generator
        ``"philox"``, or ``"splitmix64"``: phases ``2 pi u`` with ``u = (splitmix64(seed 0x100000001 + n) >> 11) 2^-53``,
        the recipe of reference values; member m then has the seed ``seed + m``.
    part : (first, whole), optional
        Index of the first amplitude of psi, and amplitudes of the whole state; by default psi is all of it.
    """
    # splitmix64 is the recipe that reference values were made with; a member adds its number to the seed
    plain = generator == "splitmix64"
    key = (((seed + member) * 0x100000001) if plain else _key(seed)) & 0xFFFFFFFFFFFFFFFF
    # 2^N amplitudes without those with a forbidden bit: |amplitude|^2 = 1 / number
    begin, whole = part or (0, psi.size)
    scale = math.sqrt(1.0 / (whole >> mask.bit_count()))
    if device.is_cuda:
        arguments = (
            psi,
            np.int64(psi.size),
            np.uint64(key),
            np.uint32(member),
            np.int32(plain),
            np.uint64(mask),
            np.float64(scale),
            np.int64(begin),
        )
        _launch(device, "random_phases", psi.dtype, psi.size, arguments)
        return
    each_part(
        lambda first, last: _random_phases_cpu(
            psi, first, last, np.uint64(key), np.uint64(member), plain, np.uint64(mask), scale, begin
        ),
        psi.size,
        psi.size,
        device.threads,
    )


def random_normals(
    device: Device, psi: StateVector, seed: int, member: int, *, part: tuple[int, int] | None = None
) -> None:
    """Fill a state, or a part of it, with complex normal amplitudes, normalised: evenly distributed on the unit sphere.

    Parameters
    ----------
    psi : (2^N,) complex64 or complex128, out
        On the device.
    seed, member
        Seed, and number of the state in an ensemble.
    part : (first, whole), optional
        As of :func:`random_phases`; the norm is that of the whole state.
    """
    key, n = _key(seed), psi.size
    begin, whole = part or (0, n)
    # two passes: the norm first, from the sizes alone, then amplitudes that are scaled as they are made
    scale = 1.0 / math.sqrt(math.fsum(normal_sums(device, whole, seed, member)))
    if device.is_cuda:
        numbers = (np.uint64(key), np.uint32(member), np.float64(scale), np.int64(begin))
        arguments = (psi, np.int64(n), *numbers)
        _launch(device, "random_normals", psi.dtype, n, arguments)
        return
    words = np.uint64(key), np.uint64(member)
    each_part(
        lambda first, last: _random_normals_cpu(psi, first, last, *words, scale, begin), n, n, device.threads
    )


def normal_sums(device: Device, count: int, seed: int, member: int) -> NDArray[np.float64]:
    """Return the sums of ``|amplitude|^2``, before normalisation, of each run of 1024 amplitudes of `random_normals`.

    Returns
    -------
    (ceil(count / 1024),) float64
        In host memory; their exact sum is the same in any order.
    """
    key, runs = _key(seed), -(-count // SUM_RUN)
    if device.is_cuda:
        with device.use():
            on_device = device.xp.empty(runs, dtype=np.float64)
        arguments = (on_device, np.int64(count), np.uint64(key), np.uint32(member))
        _launch(device, "normal_sums", np.dtype(np.complex128), runs, arguments)
        return device.to_host(on_device)
    sums = np.empty(runs)
    words = np.uint64(key), np.uint64(member)
    each_part(
        lambda first, last: _normal_sums_cpu(sums, first, last, count, *words), runs, count, device.threads
    )
    return sums


def _key(seed: int) -> int:
    """Return the two words of the key as one number."""
    low, high = key_from_seed(seed)
    return int(high) << 32 | int(low)


def _launch(device: Device, name: str, dtype: DTypeLike, count: int, arguments: tuple[Any, ...]) -> None:
    real = "float" if dtype == np.complex64 else "double"
    with device.use():
        kernel = kernels.function("trotter/kernels/states", "random_states", name, {"REAL": real})
        blocks = min(kernels.blocks(count, THREADS)[0], MOST_BLOCKS)
        kernel((blocks,), (THREADS,), arguments)


# --------------------------------------------------------------------------------------------- CPU twin


@njit(cache=True, nogil=True)
def turn(u):
    """Return (cos, sin) of 2 pi u for 0 <= u <= 1."""
    # the nearest quarter turn is taken off: |x| <= pi / 4, where Taylor series to x^17 are exact to 2
    # rounding units; operations one by one, not fused, as on the GPU
    quarters = 4.0 * u
    nearest = math.floor(quarters + 0.5)
    x = (quarters - nearest) * 1.5707963267948966
    z = x * x
    # 1 / 17!
    s = 2.8114572543455206e-15
    s = s * z + -7.6471637318198164e-13
    s = s * z + 1.6059043836821613e-10
    s = s * z + -2.5052108385441720e-08
    s = s * z + 2.7557319223985893e-06
    s = s * z + -1.9841269841269841e-04
    s = s * z + 8.3333333333333332e-03
    s = s * z + -1.6666666666666666e-01
    s = x + x * (z * s)
    # 1 / 16!
    c = 4.7794773323873853e-14
    c = c * z + -1.1470745597729725e-11
    c = c * z + 2.0876756987868100e-09
    c = c * z + -2.7557319223985888e-07
    c = c * z + 2.4801587301587302e-05
    c = c * z + -1.3888888888888889e-03
    c = c * z + 4.1666666666666664e-02
    c = c * z + -0.5
    c = 1.0 + z * c
    # the quarter turn exchanges sine and cosine, and their signs
    quarter = int(nearest) & 3
    if quarter == 0:
        return c, s
    if quarter == 1:
        return -s, c
    if quarter == 2:
        return -c, -s
    return s, -c


@njit(cache=True, nogil=True)
def minus_log(u):
    """Return ``-log u`` for 0 < u < 1."""
    # u = m 2^e with sqrt(1/2) <= m < sqrt 2: log m = 2 artanh
    # t = 2 t (1 + t^2/3 + t^4/5 + ...), t^2 < 0.03, to t^23
    m, e = math.frexp(u)
    if m < 0.70710678118654752:
        m = 2.0 * m
        e -= 1
    t = (m - 1.0) / (m + 1.0)
    z = t * t
    p = 1.0 / 23.0
    for k in range(10, 0, -1):
        p = p * z + 1.0 / (2.0 * k + 1.0)
    log_m = (2.0 * t) * (1.0 + z * p)
    return -(np.float64(e) * 0.69314718055994531 + log_m)


@njit(cache=True, nogil=True)
def splitmix64(x):
    """Return the hash of Steele, Lea and Flood (2014) of a 64-bit number."""
    x = np.uint64(x + np.uint64(0x9E3779B97F4A7C15))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def _hashed(x):
    return np.float64(splitmix64(x) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _uniforms(key, member, index):
    # a counter of four words: the amplitude depends on seed,
    # member and its own index, not on threads or order
    low = np.uint64(0xFFFFFFFF)
    bits = np.uint64(32)
    return uniform2(key & low, key >> bits, np.uint64(STREAM), member, index & low, index >> bits)


@njit(cache=True, nogil=True)
def _random_phases_cpu(psi, first, last, key, member, plain, mask, scale, begin):
    for n in range(first, last):
        index = np.uint64(begin + n)
        if index & mask:
            psi[n] = 0.0
            continue
        u = _hashed(key + index) if plain else _uniforms(key, member, index)[0]
        c, s = turn(u)
        psi[n] = complex(scale * c, scale * s)


@njit(cache=True, nogil=True)
def _random_normals_cpu(psi, first, last, key, member, scale, begin):
    for n in range(first, last):
        u, v = _uniforms(key, member, np.uint64(begin + n))
        # |amplitude|^2 = -log u is exponential with mean 1, as of two normal numbers of variance 1/2
        size = scale * math.sqrt(minus_log(u))
        c, s = turn(v)
        psi[n] = complex(size * c, size * s)


@njit(cache=True, nogil=True)
def _normal_sums_cpu(sums, first, last, count, key, member):
    for r in range(first, last):
        total = 0.0
        # in the order of the index, as on the GPU: equal sums on every device
        for n in range(r * SUM_RUN, min((r + 1) * SUM_RUN, count)):
            total += minus_log(_uniforms(key, member, np.uint64(n))[0])
        sums[r] = total

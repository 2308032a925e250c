"""Quantum trajectories of small systems, one block of a GPU or one core each: wrapper of ``carry.cu`` and its CPU twin.

A trajectory goes from jump to jump within one call, as :class:`qsim.trotter.evolve.open.carrier.Carrier` carries it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.trotter.kernels.layers.layers_cpu import JIT, PART
from qsim.trotter.kernels.layers.tables import tile_table
from qsim.trotter.kernels.open.jumps import applied, axis_energies, fill, full_steps, norm_and_rate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.core.device.device import Device

__all__ = ["NO_RATE", "STAGE", "Span", "System", "carry", "energies"]

STAGE = np.dtype([("share", "f8"), ("shift", "f8"), ("scale", "f8"), ("axis", "i4"), ("rotate", "i4")])
"""A layer of a step: share of its time, half turns of a spin down, factor, axis, rotation before."""

# records of a trajectory in one launch, after which the host takes them
ROOM = 64
# status of a trajectory: full records, and a jump without a rate
AGAIN, NO_RATE = 1, 2
# of the logarithm of the norm at a jump, and steps of a jump at most, as in `carry.cu`
CLOSE = 1e-12
NEWTON = 12
Couplings = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


class Span(NamedTuple):
    """What a call carries to.

    Attributes
    ----------
    end, dt : float
        Time to carry to, and step.
    close : float
        Ends of a step that rounding cannot tell.
    """

    end: float
    dt: float
    close: float


class System(NamedTuple):
    """What all trajectories share, on the device.

    Attributes
    ----------
    bits : int
        Spins of a state, n; on a GPU at least 9, idle ones among them.
    energies : tuple
        On a GPU fields (R, 3, n, 2) and tables (R, 3, 5 * 2^(n - 4) + 16, 2) float64 of every realisation and axis, for H and for
        half of the rate of the jumps: :func:`energies`.  On the CPU the diagonals of H (R, 1, 3, 2^n) and of the decay
        (1, 3, 2^n).
    decay : (2^n,) float64
        Half of the rate of the jumps along z.
    stages : (L,) of :data:`STAGE`, as bytes; on the CPU (L, 6) float64
        Layers of a step: axis, shift, scale, whether the axis has a decay, share of the time, rotation before.
    sites : (K,) int32
        Site of every channel, -1 of several.
    jumps : (K, N, 3) complex128
        ``<up|L|down>``, ``<down|L|up>``, ``<up|L|up>`` of every channel and site; on the CPU its components along x, y, z.
    plain : bool
        True if all of the decay is along z.
    """

    bits: int
    energies: tuple[Array, Array]
    decay: Array
    stages: Array
    sites: Array
    jumps: Array
    plain: bool

    @classmethod
    def of(
        cls,
        device: Device,
        bits: int,
        models: Sequence[Couplings],
        falling: tuple[Couplings, float],
        stages: tuple[NDArray[np.float64], NDArray[np.float64]],
        channels: tuple[NDArray[np.int32], NDArray[np.complex128]],
    ) -> System:
        """Tabulate a system.

        Parameters
        ----------
        models : sequence of ((3, N, N), (3, N)) float64
            Couplings and fields of every realisation.
        falling : (couplings, constant)
            Half of the rate of the jumps.
        stages : (L, 4), (L, 2) float64
            Layers of a step as :func:`qsim.trotter.evolve.open.drifts.stages_of` gives them.
        channels : (K,) int32, (K, N, 3) complex128
            Site of every channel, and its components along x, y, z.
        """
        (J, h), constant = falling
        layers, shares = stages
        sites, w = channels
        along = np.zeros(1 << bits)
        axis_energies(J[2], h[2], along[: 1 << h.shape[1]])
        along[: 1 << h.shape[1]] += constant
        plain = not (J[:2].any() or h[:2].any())
        if not device.is_cuda:
            diagonals = np.zeros((len(models) + 1, 3, 1 << bits))
            for diagonal, (pairs, fields) in zip(diagonals, [*models, falling[0]], strict=True):
                for a in range(3):
                    axis_energies(pairs[a], fields[a], diagonal[a])
            diagonals[-1, 2] = along
            parts = np.ascontiguousarray(diagonals[:-1, None]), diagonals[-1:].copy()
            return cls(bits, parts, along, np.hstack([layers, shares]), sites, w, plain)
        decays = energies(J, h, bits)
        decays[1][2, : 1 << (bits - 4)] += constant
        made = [
            [np.stack(pair, -1) for pair in zip(energies(*model, bits), decays, strict=True)]
            for model in models
        ]
        table = np.zeros(len(layers), STAGE)
        table["axis"], table["shift"], table["scale"] = layers[:, 0], layers[:, 1], layers[:, 2]
        table["share"], table["rotate"] = shares[:, 0], shares[:, 1] != 0.0
        x, y, z = w[..., 0], w[..., 1], w[..., 2]
        both = [device.asarray(np.array([one[k] for one in made])) for k in range(2)]
        return cls(
            bits,
            (both[0], both[1]),
            device.asarray(along),
            device.asarray(table.view(np.uint8)),
            device.asarray(sites),
            device.asarray(0.5 * np.stack([x - 1j * y, x + 1j * y, z], -1)),
            plain,
        )


def energies(pairs: NDArray[np.float64], fields: NDArray[np.float64], bits: int) -> tuple[Any, Any]:
    """Return fields (3, n) and tables (3, ...) of couplings (3, N, N) and fields (3, N), with idle spins."""
    spins = fields.shape[1]
    wide, long = np.zeros((3, bits, bits)), np.zeros((3, bits))
    wide[:, :spins, :spins], long[:, :spins] = pairs, fields
    return long, np.array([tile_table(axis, bits, bits, bits) for axis in wide])


def carry(
    device: Device,
    psi: Array,
    system: System,
    which: tuple[Array, Array],
    clocks: tuple[Array, Array],
    seed: int,
    span: Span,
) -> tuple[list[NDArray[np.float64]], NDArray[np.int32]]:
    """Carry trajectories to a time, in place.

    Parameters
    ----------
    psi : (M, 2^n) complex128
        Not normalised.
    which : (M,) uint64, (M,) int32
        Numbers of the trajectories, and their realisations.
    clocks : (M,) float64, (M,) int32
        Time that each has reached, and number of its jumps.
    seed : int
        Of the random numbers.
    span : Span

    Returns
    -------
    list of (jumps, 2) float64
        Time and channel of the jumps of every trajectory.
    (M,) int32
        0, or :data:`NO_RATE` of a trajectory whose norm fell where no jump has a rate.
    """
    xp, count = device.xp, psi.shape[0]
    records = (xp.empty((count, ROOM)), xp.empty((count, ROOM), np.int32))
    made, status = xp.empty(count, np.int32), xp.empty(count, np.int32)
    found: list[list[NDArray[np.float64]]] = [[] for _ in range(count)]
    key = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)
    while True:
        if device.is_cuda:
            _launch(system, (psi, *clocks, *which), key, span, (*records, np.int32(ROOM), made, status))
        else:
            tables = (*system.energies, system.decay, system.stages, system.jumps, system.plain)
            layers = system.stages.shape[0]
            work = scratch(device.threads, (4 * layers + 4) * psi.shape[1])
            run = (key, float(span.end), float(span.dt), float(span.close))
            arguments = (psi, clocks, which, tables, run, (*records, made, status), work)
            steps = 1 + int((span.end - float(clocks[0].min())) / span.dt)
            each_part(Shared(_carry_shared, arguments), count, psi.size * steps * layers, device.threads)
        numbers, host = device.to_host(made), np.stack([device.to_host(one) for one in records], -1)
        for m in np.flatnonzero(numbers).tolist():
            found[m].append(host[m, : numbers[m]])
        ends: NDArray[np.int32] = device.to_host(status)
        if not np.any(ends == AGAIN):
            return [np.concatenate([np.zeros((0, 2)), *parts]) for parts in found], ends


def _launch(
    system: System, states: Sequence[Array], key: np.uint64, span: Span, records: Sequence[Array | np.int32]
) -> None:
    """Launch the kernel, a block for each trajectory."""
    channels, spins = system.jumps.shape[:2]
    # the tile with a gap after every 16 amplitudes, and the rates of all channels
    shared = (1 << system.bits) // 16 * 17 * 16 + 8 * channels
    kernel = kernels.function(
        "trotter/kernels/open",
        "carry",
        "carry",
        {"REAL": "double", "BITS": system.bits, "LOW": system.bits},
        shared_bytes=shared,
    )
    sizes = (system.stages.size // STAGE.itemsize, channels, spins, system.plain)
    arguments = (
        *(*states, *system.energies, system.decay, system.stages, system.jumps, system.sites),
        *(*map(np.int32, sizes), key, *map(np.float64, span), *records),
    )
    kernel((states[0].shape[0],), (1 << (system.bits - 4),), arguments, shared_mem=shared)


# --------------------------------------------------------------------------------------------------- CPU


@nb.njit(**JIT)
def _high(a, b):
    """Return the upper 64 bits of a product."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    return a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)


@nb.njit(**JIT)
def _randoms(seed, member, number):
    """Return the two numbers of a jump: Philox4x64-10 as in NumPy, whose counter goes on before the first number."""
    c0, c1, c2, c3 = np.uint64(number + 1), np.uint64(0), np.uint64(0), np.uint64(0)
    k0, k1 = np.uint64(seed), np.uint64(member)
    first, second = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
    for _ in range(10):
        high0, high1 = _high(first, c0), _high(second, c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, second * c2, high0 ^ c3 ^ k1, first * c0
        k0 += np.uint64(0x9E3779B97F4A7C15)
        k1 += np.uint64(0xBB67AE8584CAA73B)
    return 1.0 - float(c0 >> np.uint64(11)) * 2.0**-53, float(c1 >> np.uint64(11)) * 2.0**-53


@nb.njit(**JIT)
def _hermite(before, after, dt, target):
    """Return the time within a step at which the cubic through ln w at both ends, with slopes -q / w, is at the target."""
    least = max(after[0], 1e-300)
    y0, y1 = math.log(before[0]), math.log(least)
    d0, d1 = -before[1] / before[0] * dt, -after[1] / least * dt
    low, high, x = 0.0, 1.0, 0.5
    if y0 > y1:
        x = min(max((y0 - target) / (y0 - y1), 0.0), 1.0)
    for _ in range(60):
        s = 1.0 - x
        f = (1 + 2 * x) * s * s * y0 + x * s * s * d0 + x * x * (3 - 2 * x) * y1 - x * x * s * d1 - target
        if f > 0.0:
            low = x
        else:
            high = x
        slope = 6 * x * s * (y1 - y0) + (1 - 4 * x + 3 * x * x) * d0 + (3 * x * x - 2 * x) * d1
        new = 0.5 * (low + high)
        if slope != 0.0 and low < x - f / slope < high:
            new = x - f / slope
        if abs(new - x) < 1e-15:
            break
        x = new
    return x * dt


@nb.njit(**JIT)
def _weights(stages, tau):
    """Return the times (L, 2) of the layers of a step, for H and for the decay."""
    weights = np.empty((stages.shape[0], 2))
    for k in range(stages.shape[0]):
        weights[k, :] = tau * stages[k, 4]
    return weights


@nb.njit(**JIT)
def _rates(re, im, bits, w, spare, rates):
    """Set the rates (K,) of all channels times the norm squared; return their sum."""
    total = 0.0
    for k in range(w.shape[0]):
        rates[k] = applied(re, im, bits, w[k], spare[0], spare[1])
        total += rates[k]
    return total


@nb.njit(**JIT)
def _chosen(rates, target):
    """Return the channel at which the sum of the rates passes a number; never one without a rate, -1 if none has one."""
    total = 0.0
    channel = -1
    for k in range(rates.shape[0]):
        if rates[k] > 0.0 and (channel < 0 or not total > target):
            channel = k
        total += rates[k]
    return channel


@nb.njit(**PART)
def _carry_cpu(start, stop, worker, psi, clocks, which, system, run, records, work):
    """Trajectories start .. stop of :func:`carry`."""
    energies, decays, decay, stages, w, plain = system
    seed, end, dt, close = run
    times, numbers = clocks
    members, realisations = which
    size, layers = psi.shape[1], stages.shape[0]
    bits = 0
    while 1 << bits < size:
        bits += 1
    states = work[worker, : 4 * size].reshape(4, size)
    re, im, spare = states[0], states[1], states[2:]
    tables = work[worker, 4 * size : (4 + 4 * layers) * size].reshape(4, layers, size)
    downs = np.zeros(size)
    for i in range(size):
        for b in range(bits):
            downs[i] += (i >> b) & 1
    turned = stages[:, 5] != 0.0
    rates = np.empty(w.shape[0])
    zero = np.zeros(size)
    tabulated = -1
    for m in range(start, stop):
        H = energies[realisations[m]]
        if realisations[m] != tabulated:
            fill(H, decays, stages[:, :4], _weights(stages, dt), downs, tables[0], tables[1])
            tabulated = realisations[m]
        for i in range(size):
            re[i] = psi[m, i].real
            im[i] = psi[m, i].imag
        now, number, kept, status = times[m], numbers[m], 0, 0
        while end - now > close:
            if kept == records[0].shape[1]:
                status = AGAIN
                break
            u, drawn = _randoms(seed, members[m], number)
            steps = int((end - now) / dt * (1.0 + 1e-12))
            length = dt
            cosines, sines = tables[0], tables[1]
            if steps == 0:
                steps, length = 1, end - now
                cosines, sines = tables[2], tables[3]
                fill(H, decays, stages[:, :4], _weights(stages, length), downs, cosines, sines)
            made, w0, q0, w1, q1 = full_steps(re, im, bits, cosines, sines, turned, decay, steps, u)
            now += made * length
            if not w1 < u:
                continue
            # one step back from the end, and Newton's method, never out of the step
            last, target = now, math.log(u)
            tau = _hermite((w0, q0), (w1, q1), length, target) - length
            for _ in range(NEWTON):
                if tau != 0.0:
                    fill(H, decays, stages[:, :4], _weights(stages, tau), downs, tables[2], tables[3])
                    full_steps(re, im, bits, tables[2], tables[3], turned, zero, 1, -1.0)
                now += tau
                weight, q = norm_and_rate(re, im, decay)
                if not plain:
                    q = _rates(re, im, bits, w, spare, rates)
                off = math.log(weight) - target
                tau = off * weight / q if q > 0.0 else 0.0
                tau = min(max(tau, last - length - now), last - now)
                if abs(off) < CLOSE or tau == 0.0:
                    break
            total = _rates(re, im, bits, w, spare, rates)
            channel = _chosen(rates, drawn * total)
            if channel < 0:
                status = NO_RATE
                break
            scale = 1.0 / math.sqrt(applied(re, im, bits, w[channel], spare[0], spare[1]))
            for i in range(size):
                re[i] = scale * spare[0, i]
                im[i] = scale * spare[1, i]
            records[0][m, kept] = now
            records[1][m, kept] = channel
            kept += 1
            number += 1
        for i in range(size):
            psi[m, i] = complex(re[i], im[i])
        times[m], numbers[m] = now, number
        records[2][m], records[3][m] = kept, status


@nb.njit(**JIT)
def _carry_shared(ticket, *arguments):
    return share(ticket, ranges(_carry_cpu, arguments))

"""Layers on the state vector: public wrappers of ``layers.cu`` and their CPU twins.

``layers.cu`` has the method.  Tiles of the state are addressed by ``low`` and ``high``: bits ``0 .. low - 1`` and
``high .. high + bits - low - 1`` of the index lie in the tile.  The lowest tile has ``low == bits``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from qsim.core import kernels
from qsim.core.pool import each_part
from qsim.trotter.kernels.layers_cpu import (
    COLUMN,
    JIT,
    apply_phase,
    look_outside,
    phase_table,
    rotate,
    rotate_across,
    tile_tables,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device import Device

_scratch = threading.local()


@dataclass(frozen=True)
class Axis:
    """Couplings of one axis on the device.

    Attributes
    ----------
    pairs : (N, N) float64
        J of the axis, symmetric, zero diagonal.
    fields : (N,) float64
    tables : dict of (low, high, bits) to (5 * 2^(bits - 4) + 16,) float64
        CUDA: energies and fields from couplings within a tile (:func:`tile_table`).
    """

    pairs: Any
    fields: Any
    tables: dict[tuple[int, int, int], Any]


def turn_pass(
    device: Device,
    psi: Any,
    axis: Axis,
    low: int,
    high: int,
    bits: int,
    *,
    rotate_in: bool,
    rotate_out: bool,
    tau: float,
    shift: float,
    scale: float,
) -> None:
    """Rotate a group of bits, multiply by the phases of a layer, rotate again; in place.

    Parameters
    ----------
    psi : (2^N,) complex
    axis : Axis
    low, high, bits : int
        Tile, see the module's text.
    rotate_in, rotate_out : bool
        Hadamard rotation of the tile's bits from ``low`` on (all, if ``low == bits``) before and after the phase, without its
        factor 2^(-1/2) a bit.
    tau : float
        Time of the layer.
    shift : float
        Phase of every spin down in units of pi, besides: +1/2 for C^dagger before the layer, -1/2 for C after it.
    scale : float
        Factor of all phases.
    """
    spins = int(psi.shape[0]).bit_length() - 1
    if device.is_cuda:
        key = (low, high, bits)
        if key not in axis.tables:
            axis.tables[key] = device.asarray(tile_table(device.to_host(axis.pairs), low, high, bits))
        kernel, shared = _compiled("turn_pass", psi.dtype.itemsize, bits)
        kernel(
            (1 << (spins - bits),),
            (1 << (bits - 4),),
            (
                psi,
                axis.pairs,
                axis.fields,
                axis.tables[key],
                np.int32(spins),
                np.int32(low),
                np.int32(high),
                np.int32(rotate_in),
                np.int32(rotate_out),
                np.float64(tau / np.pi),
                np.float64(shift),
                np.float64(scale),
            ),
            shared_mem=shared,
        )
        return
    turns = tau / np.pi
    columns = min(COLUMN, bits)
    rows, row_fields, inside_re, inside_im = tile_tables(axis.pairs, low, high, bits, columns, turns)

    def work(first: int, last: int) -> None:
        _turn_pass_cpu(
            psi,
            axis.pairs,
            axis.fields,
            rows,
            row_fields,
            inside_re,
            inside_im,
            low,
            high,
            bits,
            rotate_in,
            rotate_out,
            turns,
            shift,
            scale,
            first,
            last,
            _workspace(bits),
        )

    each_part(work, 1 << (spins - bits), psi.shape[0], device.threads)


def mid_pass(device: Device, psi: Any, low: int, high: int, bits: int) -> None:
    """Rotate a group of bits, in place; arguments as for :func:`turn_pass`, ``low < bits``."""
    spins = int(psi.shape[0]).bit_length() - 1
    if device.is_cuda:
        kernel, shared = _compiled("mid_pass", psi.dtype.itemsize, bits)
        arguments = (psi, np.int32(low), np.int32(high))
        kernel((1 << (spins - bits),), (1 << (bits - 4),), arguments, shared_mem=shared)
        return
    each_part(
        lambda first, last: _mid_pass_cpu(psi, low, high, bits, first, last, _workspace(bits)),
        1 << (spins - bits),
        psi.shape[0],
        device.threads,
    )


STAGE = np.dtype([("turns", "f8"), ("shift", "f8"), ("scale", "f8"), ("axis", "i4"), ("rotate", "i4")])
"""One layer of :func:`member_layers`: tau / pi, phase of a spin down / pi, factor, axis, rotation before the phase."""
PHASE = ["axis", "turns", "shift", "scale"]  # what the phases of a layer depend on


def member_layers(
    device: Device,
    psi: Any,
    members: Members,
    stages: NDArray[Any],
    repeats: int = 1,
    part: tuple[int, int] | None = None,
) -> None:
    """Apply layers to every member of an ensemble of small systems, in place.

    Parameters
    ----------
    psi : (M, 2^n) complex
        n is 9 to 13 on a GPU.
    members : Members
    stages : (L,) of :data:`STAGE`
    repeats : int
        How often a part of the sequence runs, at least 1.
    part : (int, int), optional
        Layers ``first .. last - 1`` that run so often; all, if it is not given.
    """
    first, last = part or (0, len(stages))
    if device.is_cuda:
        kernel, shared = _compiled("member_layers", psi.dtype.itemsize, members.bits)
        arguments = (
            psi,
            members.fields,
            members.tables,
            device.asarray(stages.view(np.uint8)),
            np.int32(len(stages)),
            np.int32(first),
            np.int32(last),
            np.int32(repeats),
        )
        kernel((psi.shape[0],), (1 << (members.bits - 4),), arguments, shared_mem=shared)
        return
    # a symmetric step has every layer twice, and the rest of the last step those of the others: each is tabulated once
    known: dict[Any, int] = {}
    table = [known.setdefault(stage, len(known)) for stage in stages[PHASE].tolist()]
    phases = np.array(list(known))
    each_part(
        lambda start, stop: _member_layers_cpu(
            psi,
            members.tables,
            phases,
            np.array(table),
            stages["rotate"] != 0,
            (first, last, repeats),
            start,
            stop,
            _workspace(members.bits),
        ),
        psi.shape[0],
        psi.size * (len(stages) + (repeats - 1) * (last - first)),
        device.threads,
    )


@dataclass(frozen=True)
class Members:
    """Hamiltonians of small systems, one a member.

    Attributes
    ----------
    bits : int
        Spins, n.
    fields : (M, 3, n) float64
    tables : (M, 3, ...) float64
        On a GPU :func:`tile_table` of every member and axis, on the CPU the diagonal energies (2^n,).
    """

    bits: int
    fields: Any
    tables: Any

    @classmethod
    def of(cls, device: Device, pairs: NDArray[np.float64], fields: NDArray[np.float64]) -> Members:
        """Tabulate couplings (M, 3, n, n) and fields (M, 3, n)."""
        n = fields.shape[2]
        if device.is_cuda:
            tables = [[tile_table(axis, n, n, n) for axis in member] for member in pairs]
            return cls(n, device.asarray(fields), device.asarray(np.array(tables)))
        s = 0.5 - (np.arange(1 << n) >> np.arange(n)[:, None] & 1)
        energies = [
            [0.5 * np.einsum("at,at->t", s, j @ s) + h @ s for j, h in zip(member, field, strict=True)]
            for member, field in zip(pairs, fields, strict=True)
        ]
        return cls(n, fields, np.array(energies))

    @classmethod
    def still(cls, device: Device, members: int, bits: int) -> Members:
        """Return members without couplings and fields, for rotations alone."""
        table = 5 * (1 << (bits - 4)) + 16 if device.is_cuda else 1 << bits
        xp = device.xp
        return cls(bits, xp.zeros((members, 3, bits)), xp.zeros((members, 3, table)))


def tile_table(pairs: NDArray[np.float64], low: int, high: int, bits: int) -> NDArray[np.float64]:
    """Return what the couplings within a tile do, as ``layers.cu`` reads it.

    The four register bits are 0 to 3 (``low == bits``) or 4 to 7 of the tile, the others number threads: energies of the thread's
    bits (T,), their fields on the register bits (4, T), energies of the register bits (16,).
    """
    first = 0 if low == bits else 4
    of = [b if b < low else b - low + high for b in range(bits)]
    register = of[first : first + 4]
    other = of[:first] + of[first + 4 :]
    t = np.arange(1 << (bits - 4))
    s = np.array([0.5 - (t >> k & 1) for k in range(bits - 4)])
    energy = 0.5 * np.einsum("at,ab,bt->t", s, pairs[np.ix_(other, other)], s)
    fields = pairs[np.ix_(register, other)] @ s
    j = np.arange(16)
    z = np.array([0.5 - (j >> k & 1) for k in range(4)])
    inside = 0.5 * np.einsum("at,ab,bt->t", z, pairs[np.ix_(register, register)], z)
    return np.concatenate([energy, fields.ravel(), inside])


@cache
def _compiled(name: str, item: int, bits: int) -> tuple[Any, int]:
    """Return a kernel and its shared memory: a tile with a gap after every 16 amplitudes."""
    single = item == 8
    defines = {
        "REAL": "float" if single else "double",
        "BITS": bits,
        "RESIDENT": resident(bits, item),
    }
    shared = (1 << bits) // 16 * 17 * item
    return kernels.function("trotter/kernels", "layers", name, defines, shared_bytes=shared), shared


def resident(bits: int, item: int) -> int:
    """Return the blocks of a tile that a multiprocessor shall hold."""
    if bits == 13:
        return 1
    return 3 if item == 8 else 2


def _workspace(bits: int) -> NDArray[np.float64]:
    size = 2 << bits
    found: NDArray[np.float64] | None = getattr(_scratch, "array", None)
    if found is None or found.size < size:
        found = _scratch.array = np.empty(size)
    return found[:size]


@nb.njit(**JIT)
def _start(tile, low, high, bits):
    """Index of a tile's first amplitude."""
    return (tile & ((1 << (high - low)) - 1)) << low | tile >> (high - low) << (high + bits - low)


@nb.njit(**JIT)
def _read(psi, start, low, high, bits, re, im):
    run = 1 << low
    for r in range(1 << (bits - low)):
        part = psi[start + (r << high) : start + (r << high) + run]
        for i in range(run):
            re[r * run + i] = part[i].real
            im[r * run + i] = part[i].imag


@nb.njit(**JIT)
def _write(psi, start, low, high, bits, re, im):
    run = 1 << low
    for r in range(1 << (bits - low)):
        part = psi[start + (r << high) : start + (r << high) + run]
        for i in range(run):
            part[i] = complex(re[r * run + i], im[r * run + i])


@nb.njit(**JIT)
def _turn_pass_cpu(
    psi,
    pairs,
    fields,
    rows,
    row_fields,
    inside_re,
    inside_im,
    low,
    high,
    bits,
    rotate_in,
    rotate_out,
    turns,
    shift,
    scale,
    first,
    last,
    scratch,
):
    """Tiles first .. last of :func:`turn_pass`."""
    size = 1 << bits
    re = scratch[:size]
    im = scratch[size:]
    spins = pairs.shape[0]
    lowest = 0 if low == bits else low
    field = np.empty(bits)
    work = np.empty((2, inside_re.size))
    for tile in range(first, last):
        start = _start(tile, low, high, bits)
        _read(psi, start, low, high, bits, re, im)
        if rotate_in:
            rotate(re, bits, lowest)
            rotate(im, bits, lowest)
        energy = look_outside(pairs, fields, start, spins, low, high, bits, field)
        down = 0
        for j in range(spins):
            down += (start >> j) & 1
        apply_phase(
            re,
            im,
            bits,
            energy,
            field,
            rows,
            row_fields,
            inside_re,
            inside_im,
            turns,
            shift,
            scale,
            down,
            work,
        )
        if rotate_out:
            rotate(re, bits, lowest)
            rotate(im, bits, lowest)
        _write(psi, start, low, high, bits, re, im)


@nb.njit(**JIT)
def _mid_pass_cpu(psi, low, high, bits, first, last, scratch):
    """Tiles first .. last of :func:`mid_pass`."""
    size = 1 << bits
    re = scratch[:size]
    im = scratch[size:]
    for tile in range(first, last):
        start = _start(tile, low, high, bits)
        _read(psi, start, low, high, bits, re, im)
        rotate(re, bits, low)
        rotate(im, bits, low)
        _write(psi, start, low, high, bits, re, im)


@nb.njit(**JIT)
def _member_layers_cpu(psi, energies, phases, table, rotations, part, start, stop, scratch):
    """Members start .. stop of :func:`member_layers`; different phases are tabulated once.

    ``phases`` (K, 4) are axis, turns, shift and scale, ``table`` (L,) says which of them a layer has.
    """
    size = psi.shape[1]
    bits = 0
    while 1 << bits < size:
        bits += 1
    first, last, repeats = part
    re = scratch[:size]
    im = scratch[size : 2 * size]
    spare = np.empty(size)
    downs = np.empty(size)
    for i in range(size):
        down = 0
        rest = i
        while rest:
            down += rest & 1
            rest >>= 1
        downs[i] = down
    cosines = np.empty((phases.shape[0], size))
    sines = np.empty((phases.shape[0], size))
    for m in range(start, stop):
        for k in range(phases.shape[0]):
            phase_table(
                energies[m, int(phases[k, 0])],
                downs,
                phases[k, 1],
                phases[k, 2],
                phases[k, 3],
                cosines[k],
                sines[k],
            )
        for i in range(size):
            re[i] = psi[m, i].real
            im[i] = psi[m, i].imag
        layer = 0
        left = repeats
        while layer < table.shape[0]:
            if rotations[layer]:
                re, spare = rotate_across(re, bits, spare)
                im, spare = rotate_across(im, bits, spare)
            c = cosines[table[layer]]
            s = sines[table[layer]]
            for i in range(size):
                a = re[i]
                b = im[i]
                re[i] = a * c[i] - b * s[i]
                im[i] = a * s[i] + b * c[i]
            layer += 1
            if layer == last:
                left -= 1
                if left > 0:
                    layer = first
        for i in range(size):
            psi[m, i] = complex(re[i], im[i])

"""Layers on the state vector: public wrappers of ``layers.cu`` and their CPU twins.

``layers.cu`` has the method.  Tiles of the state are addressed by ``low`` and ``high``: bits ``0 .. low - 1`` and
``high .. high + bits - low - 1`` of the index lie in the tile.  The lowest tile has ``low == bits``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numba as nb
import numpy as np

from qsim.core.device import kernels
from qsim.core.device.cpu.scratch import scratch
from qsim.core.device.pool import Shared, each_part
from qsim.core.device.team import ranges, share
from qsim.trotter.kernels.layers.layers_cpu import (
    COLUMN,
    JIT,
    PART,
    TileTables,
    Turn,
    apply_phase,
    look_outside,
    phase_table,
    rotate,
    rotate_across,
    tile_tables,
)
from qsim.trotter.kernels.layers.tables import outside_tables, tile_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array, StateVector
    from qsim.core.device.device import Device

# bytes of shared memory of a block besides the tile, at most
STATIC = 4096
# below this a launch costs as much as a pass, so whole steps are recorded
RECORDED_SPINS = 22


@dataclass(frozen=True)
class Axis:
    """Couplings of one axis on the device.

    Attributes
    ----------
    pairs : (N, N) float64
        J of the axis, symmetric, zero diagonal.
    fields : (N,) float64
    tables : dict of (low, high, bits) to Tables
        CUDA: energies and fields of a tile.
    factors : dict of (low, high, bits, tau, type) to (5 * 2^(bits - 4) + 16,) complex
        CUDA: exponentials of those within a tile in a layer.  A recorded graph reads them, so whoever records one keeps them.
    """

    pairs: Array
    fields: Array
    tables: dict[tuple[int, int, int], Tables] = field(default_factory=dict)
    factors: dict[tuple[int, int, int, float, str], Any] = field(default_factory=dict)


class Tables(NamedTuple):
    """Energies and fields as ``layers.cu`` reads them, float64 on the device.

    Attributes
    ----------
    inside : (5 * 2^(bits - 4) + 16,)
        From couplings within a tile: :func:`tile_table`.
    lower, upper : (rows, ...)
        From the other spins: :func:`outside_tables`.
    """

    inside: Array
    lower: Array
    upper: Array


def phase_factors(
    device: Device, table: Array, low: int, bits: int, tau: float, kind: np.dtype[Any], small: bool = True
) -> Any:
    """Return the exponentials of the couplings within a tile for a layer.

    Parameters
    ----------
    table : (5 * 2^(bits - 4) + 16,) float64
        :func:`tile_table`, on the device.
    low, bits : int
        Of the tile.
    tau : float
        Time of the layer.
    kind : dtype
        complex64 or complex128.
    small : bool
        Fewer than :data:`RECORDED_SPINS` spins: which of two modules it is compiled with.

    Returns
    -------
    (5 * 2^(bits - 4) + 16,) complex
        Of the bits that number threads with the register bits up, of each register bit down, of the register bits among
        themselves.
    """
    # half turns: angles of sincospi and of the reduction on the CPU
    turns = tau / np.pi
    if not device.is_cuda:
        return _phase_factors_cpu(table, bits, turns).astype(kind)
    factors = device.xp.empty(table.shape, kind)
    kernel, _ = _compiled(device, "phase_factors", kind.itemsize, bits, low, small)
    threads = 1 << (bits - 4)
    kernel((-(-factors.size // threads),), (threads,), (table, factors, np.float64(turns)))
    # once for a time step and an axis; the launches of all layers of that step read it
    return factors


def turn_pass(
    device: Device,
    psi: StateVector,
    axis: Axis,
    tile: tuple[int, ...],
    *,
    rotate_in: bool,
    rotate_out: bool,
    tau: float,
    shift: float,
    scale: float,
    recorded: bool = False,
) -> None:
    """Rotate a group of bits, multiply by the phases of a layer, rotate again; in place.

    Parameters
    ----------
    psi : (2^N,) complex
    axis : Axis
    tile : (low, high, bits) or (low, high, bits, first, count)
        See the module's text; with five numbers tiles ``first .. first + count - 1`` alone, by default all.
    rotate_in, rotate_out : bool
        Hadamard rotation of the tile's bits from ``low`` on (all, if ``low == bits``) before and after the phase, without its
        factor 2^(-1/2) a bit.
    tau : float
        Time of the layer.
    shift : float
        Phase of every spin down in units of pi, besides: +1/2 for C^dagger before the layer, -1/2 for C after it.
    scale : float
        Factor of all phases.
    recorded : bool
        The launch becomes part of a graph and may begin before the pass before it has ended; of fewer than
        :data:`RECORDED_SPINS`, after a first pass with the same arguments.
    """
    low, high, bits = tile[:3]
    spins = int(psi.shape[0]).bit_length() - 1
    first, count = tile[3:] or (0, 1 << (spins - bits))
    if device.is_cuda:
        tables = _tables(device, axis, low, high, bits)
        arguments = (
            psi,
            tables.lower,
            tables.upper,
            _factors(device, axis, low, high, bits, tau, psi.dtype),
            np.int32((spins - bits) // 2),
            np.int32(high),
            np.int32(rotate_in),
            np.int32(rotate_out),
            np.float64(tau / np.pi),
            np.float64(shift),
            np.float64(scale),
            np.uint32(first),
        )
        _launch(device, "turn_pass", psi, (bits, low, count), arguments, recorded)
        return
    turns = tau / np.pi
    columns = min(COLUMN, bits)
    # couplings within the tile depend on its bits alone: one table for all tiles of the pass
    rows, row_fields, inside_re, inside_im = tile_tables(axis.pairs, low, high, bits, columns, turns)

    energies = (axis.pairs, axis.fields, rows, row_fields, inside_re, inside_im)
    how = (low, high, bits, first, rotate_in, rotate_out, turns, shift, scale)
    work = Shared(_turn_pass_shared, (psi, *energies, *how, scratch(device.threads, 2 << bits)))
    each_part(work, count, count << bits, device.threads)


def mid_pass(
    device: Device, psi: StateVector, low: int, high: int, bits: int, recorded: bool = False
) -> None:
    """Rotate a group of bits, in place; arguments as for :func:`turn_pass`, ``low < bits``."""
    spins = int(psi.shape[0]).bit_length() - 1
    if device.is_cuda:
        tiles = (bits, low, 1 << (spins - bits))
        _launch(device, "mid_pass", psi, tiles, (psi, np.int32(high)), recorded)
        return
    work = Shared(_mid_pass_shared, (psi, low, high, bits, scratch(device.threads, 2 << bits)))
    each_part(work, 1 << (spins - bits), psi.shape[0], device.threads)


STAGE = np.dtype([("turns", "f8"), ("shift", "f8"), ("scale", "f8"), ("axis", "i4"), ("rotate", "i4")])
"""One layer of :func:`member_layers`: tau / pi, phase of a spin down / pi, factor, axis, rotation before the phase."""
# fields of a stage that determine its phases
PHASE = ["axis", "turns", "shift", "scale"]


def member_layers(
    device: Device,
    psi: StateVector,
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
        kernel, shared = _compiled(device, "member_layers", psi.dtype.itemsize, members.bits, members.bits)
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
    # a symmetric step has every layer twice, and the rest of the last step has the layers of the others: each is tabulated once
    known: dict[Any, int] = {}
    table = [known.setdefault(stage, len(known)) for stage in stages[PHASE].tolist()]
    phases = np.array(list(known))
    how = (phases, np.array(table), stages["rotate"] != 0, (first, last, repeats))
    work = Shared(
        _member_layers_shared, (psi, members.tables, *how, scratch(device.threads, 2 << members.bits))
    )
    size = psi.size * (len(stages) + (repeats - 1) * (last - first))
    each_part(work, psi.shape[0], size, device.threads)


@dataclass(frozen=True)
class Members:
    """Hamiltonians of small systems, one per member.

    Attributes
    ----------
    bits : int
        Spins, n.
    fields : (M, 3, n) float64
    tables : (M, 3, ...) float64
        On a GPU :func:`tile_table` of every member and axis, on the CPU the diagonal energies (2^n,).
    """

    bits: int
    fields: Array
    tables: Array

    @classmethod
    def of(cls, device: Device, pairs: NDArray[np.float64], fields: NDArray[np.float64]) -> Members:
        """Tabulate couplings (M, 3, n, n) and fields (M, 3, n)."""
        n = fields.shape[2]
        if device.is_cuda:
            tables = [[tile_table(axis, n, n, n) for axis in member] for member in pairs]
            return cls(n, device.asarray(fields), device.asarray(np.array(tables)))
        # diagonal energies of all strings, sum over pairs j <
        # k of J s_j s_k (half of the double sum) and fields
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


def _tables(device: Device, axis: Axis, low: int, high: int, bits: int) -> Tables:
    """Return the tables of a tile, made at its first use."""
    key = (low, high, bits)
    if key not in axis.tables:
        pairs, fields = device.to_host(axis.pairs), device.to_host(axis.fields)
        parts = (tile_table(pairs, *key), *outside_tables(pairs, fields, *key))
        axis.tables[key] = Tables(*(device.asarray(np.ascontiguousarray(part)) for part in parts))
    return axis.tables[key]


def _factors(
    device: Device, axis: Axis, low: int, high: int, bits: int, tau: float, kind: np.dtype[Any]
) -> Any:
    """Return the exponentials of a tile's own couplings in a layer, made at its first use."""
    key = (low, high, bits, tau, kind.name)
    if key not in axis.factors:
        table = _tables(device, axis, low, high, bits).inside
        small = len(axis.fields) < RECORDED_SPINS
        axis.factors[key] = phase_factors(device, table, low, bits, tau, kind, small)
    return axis.factors[key]


def _launch(
    device: Device,
    name: str,
    psi: StateVector,
    tiles: tuple[int, int, int],
    arguments: tuple[Any, ...],
    recorded: bool,
) -> None:
    """Launch a pass over (bits, low, count) tiles."""
    bits, low, blocks = tiles
    item = psi.dtype.itemsize
    small = psi.shape[0] < 1 << RECORDED_SPINS
    kernel, shared = _compiled(device, name, item, bits, low, small)
    # a thread holds 16 amplitudes
    threads = 1 << (bits - 4)
    if recorded:
        kernels.launch_overlapping(kernel, blocks, threads, arguments, _spread(device, blocks, shared))
    else:
        kernel((blocks,), (threads,), arguments, shared_mem=shared)


def _spread(device: Device, blocks: int, shared: int) -> int:
    """Return so much shared memory that no multiprocessor takes more than its part of few blocks: one that begins early would."""
    most, all_of_it, multiprocessors = _device_limits(device)
    # memory over each + 1: with the memory that a block takes besides, `each` blocks fit and no more, so
    # that a pass that begins early is spread evenly
    each = -(-blocks // multiprocessors)
    return max(shared, min(most - STATIC, all_of_it // (each + 1)))


@cache
def _device_limits(device: Device) -> tuple[int, int, int]:
    """Return bytes of shared memory of a block and of a multiprocessor, and multiprocessors."""
    at = device.xp.cuda.Device(device.index).attributes
    return (
        int(at["MaxSharedMemoryPerBlockOptin"]),
        int(at["MaxSharedMemoryPerMultiprocessor"]),
        int(at["MultiProcessorCount"]),
    )


@cache
def _compiled(
    device: Device, name: str, item: int, bits: int, low: int, small: bool = True
) -> tuple[Any, int]:
    """Return a kernel and its shared memory: a tile with a gap after every 16 amplitudes."""
    defines = {
        "REAL": "float" if item == 8 else "double",
        "BITS": bits,
        "LOW": low,
        "RESIDENT": resident(bits, item),
        "OVERLAP": int(small),
    }
    # 17 / 16: the gap after every 16 amplitudes avoids bank conflicts
    shared = (1 << bits) // 16 * 17 * item
    allowed = max(shared, _device_limits(device)[0] - STATIC) if small and name != "phase_factors" else shared
    return kernels.function("trotter/kernels/layers", "layers", name, defines, shared_bytes=allowed), shared


def fits_shared(device: Device, bits: int, item: int) -> bool:
    """Return True if a block of a CUDA device may have the shared memory of a tile."""
    return (1 << bits) // 16 * 17 * item + STATIC <= _device_limits(device)[0]


def resident(bits: int, item: int) -> int:
    """Return the blocks of a tile that a multiprocessor must hold."""
    if bits == 13:
        return 2 if item == 8 else 1
    return 3 if item == 8 else 2


@nb.njit(**PART)
def _start(tile, low, high, bits):
    """Index of a tile's first amplitude."""
    return (tile & ((1 << (high - low)) - 1)) << low | tile >> (high - low) << (high + bits - low)


@nb.njit(**PART)
def _read(psi, start, low, high, bits, re, im):
    # runs of 2^low neighbours, one for every value of the upper bits
    # of the tile; re and im apart, so that loops become vectors
    run = 1 << low
    for r in range(1 << (bits - low)):
        part = psi[start + (r << high) : start + (r << high) + run]
        for i in range(run):
            re[r * run + i] = part[i].real
            im[r * run + i] = part[i].imag


@nb.njit(**PART)
def _write(psi, start, low, high, bits, re, im):
    run = 1 << low
    for r in range(1 << (bits - low)):
        part = psi[start + (r << high) : start + (r << high) + run]
        for i in range(run):
            part[i] = complex(re[r * run + i], im[r * run + i])


def _phase_factors_cpu(table: NDArray[np.float64], bits: int, turns: float) -> NDArray[np.complex128]:
    # layout of `tile_table`: energies of the thread bits, their
    # fields on four register bits, energies of the register bits
    threads = 1 << (bits - 4)
    angle = -table
    # all register bits up: half of each field beside the energy of the thread bits
    angle[:threads] -= 0.5 * table[threads : 5 * threads].reshape(4, threads).sum(axis=0)
    # a register bit that turns down changes the energy by minus its field, which is a positive angle
    angle[threads : 5 * threads] = table[threads : 5 * threads]
    return np.asarray(np.exp(1j * np.pi * turns * angle))


@nb.njit(**JIT)
def _turn_pass_shared(ticket, *a):
    # grouped here: Python hands over single arrays faster than named tuples of them
    tables, place = TileTables(a[3], a[4], a[5], a[6]), Place(a[7], a[8], a[9], a[10])
    turn = Turn(a[11], a[12], a[13], a[14], a[15])
    return share(ticket, ranges(_turn_pass_cpu, (a[0], a[1], a[2], tables, place, turn, a[16])))


@nb.njit(**JIT)
def _mid_pass_shared(ticket, *arguments):
    return share(ticket, ranges(_mid_pass_cpu, arguments))


@nb.njit(**JIT)
def _member_layers_shared(ticket, *arguments):
    return share(ticket, ranges(_member_layers_cpu, arguments))


class Place(NamedTuple):
    """The bits of a tile: those below `low`, and from `high` on up to `bits` in all; number of the first tile of a pass."""

    low: int
    high: int
    bits: int
    begin: int


@nb.njit(**PART)
def _turn_pass_cpu(first, last, worker, psi, pairs, fields, tables, place, turn, scratch):
    """Tiles first .. last of :func:`turn_pass`."""
    low, high, bits = place.low, place.high, place.bits
    size = 1 << bits
    # no memory is shared among threads: a part of `scratch` for each
    re = scratch[worker, :size]
    im = scratch[worker, size : 2 * size]
    spins = pairs.shape[0]
    # of the tile that holds the lowest bits all are rotated; the others keep their `low` lowest bits,
    # which were rotated in another pass
    lowest = 0 if low == bits else low
    field = np.empty(bits)
    work = np.empty((2, tables.inside_re.size))
    # a tile is read, rotated, multiplied, rotated and written while it is in cache; no two tiles share an amplitude
    for tile in range(first + place.begin, last + place.begin):
        start = _start(tile, low, high, bits)
        _read(psi, start, low, high, bits, re, im)
        if turn.rotate_in:
            rotate(re, bits, lowest)
            rotate(im, bits, lowest)
        # the bits outside are the same in the whole tile: they make an energy, and a field on each of its bits
        energy = look_outside(pairs, fields, start, spins, low, high, bits, field)
        down = 0
        for j in range(spins):
            down += (start >> j) & 1
        apply_phase(re, im, bits, energy, field, tables, turn, down, work)
        if turn.rotate_out:
            rotate(re, bits, lowest)
            rotate(im, bits, lowest)
        _write(psi, start, low, high, bits, re, im)


@nb.njit(**PART)
def _mid_pass_cpu(first, last, worker, psi, low, high, bits, scratch):
    """Tiles first .. last of :func:`mid_pass`."""
    size = 1 << bits
    re = scratch[worker, :size]
    im = scratch[worker, size : 2 * size]
    # rotations of different bits commute: the order of
    # tiles and of groups between two phases does not matter
    for tile in range(first, last):
        start = _start(tile, low, high, bits)
        _read(psi, start, low, high, bits, re, im)
        rotate(re, bits, low)
        rotate(im, bits, low)
        _write(psi, start, low, high, bits, re, im)


@nb.njit(**PART)
def _member_layers_cpu(start, stop, worker, psi, energies, phases, table, rotations, part, scratch):
    """Members start .. stop of :func:`member_layers`; different phases are tabulated once.

    ``phases`` (K, 4) are axis, turns, shift and scale, ``table`` (L,) says which of them a layer has.
    """
    size = psi.shape[1]
    bits = 0
    # size = 2^bits
    while 1 << bits < size:
        bits += 1
    first, last, repeats = part
    re = scratch[worker, :size]
    im = scratch[worker, size : 2 * size]
    spare = np.empty(size)
    # spins down of every string, for the phases of C; a member has few bits, and they are the same for all members
    downs = np.empty(size)
    for i in range(size):
        down = 0
        rest = i
        while rest:
            down += rest & 1
            rest >>= 1
        downs[i] = down
    # one table of phases for each different layer of the course, not for each layer
    cosines = np.empty((phases.shape[0], size))
    sines = np.empty((phases.shape[0], size))
    # a member goes through all layers of all steps alone: its bits cannot depend on the others
    for m in range(start, stop):
        # phases differ between members (disorder), so that the tables are filled anew for each
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
        # layers first ... last - 1 repeat; the state stays in cache from the first to the last of them
        layer = 0
        left = repeats
        while layer < table.shape[0]:
            if rotations[layer]:
                # the three arrays take turns, so that nothing is copied
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

"""A Hamiltonian in a sector of conserved Sz, as the kernels take it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.sectors.product import (
    FlipTables,
    SectorTables,
    sector_flips,
    sector_product,
)
from qsim.trotter.kernels.sectors.product_cpu import LANES, RANK
from qsim.trotter.kernels.sectors.product_tables import ProductTables
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.linear import SpaceOperator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.basis import Part, Sector

MOST_GATHERED = (
    # of the pairs across the cut; if more of them flip, all of them are made for eight rows at once
    0.5
)
# of fields of the high part on the low one, for each of which the diagonal is tabulated
MOST_PATTERNS = 32


def place_tables(sector: Sector, device: Device) -> FlipTables:
    """Return where the strings of a sector are, on the device."""
    low, high = sector.low, sector.high
    given = (
        low.offset,
        high.offset,
        sector.block,
        low.strings,
        low.rank,
        high.strings,
        high.rank,
    )
    return FlipTables(sector.down, *(device.asarray(table) for table in given))


@dataclass
class Reduced:
    """Couplings between the sites that a string holds.

    Attributes
    ----------
    flip, J : (M, M) float64
        ``(Jx + Jy) / 4`` and ``Jz``, symmetric.
    field : (M,) float64
    mirrored : (M,) float64
        Value of the flip of each site with the one that is left out, with the sign of the inversion.
    """

    flip: NDArray[np.float64]
    J: NDArray[np.float64]
    field: NDArray[np.float64]
    mirrored: NDArray[np.float64]

    @classmethod
    def of(cls, model: Model, sector: Sector) -> Reduced:
        """Return the couplings of a model in a sector; with inversion the last site is up."""
        flip, J, field = (model.J[0] + model.J[1]) / 4.0, model.J[2], model.h[2]
        bits = sector.bits
        mirrored = np.zeros(bits)
        if sector.inversion:
            # a flip of spin j with the last one leads to the
            # complement, whose amplitude has the sign of the inversion
            mirrored = sector.inversion * flip[:bits, bits]
            # the last spin is up, s = +1/2
            field = field[:bits] + 0.5 * J[:bits, bits]
        return cls(flip[:bits, :bits], J[:bits, :bits], field, mirrored)


def sector_operator(device: Device, sector: Sector, model: Model) -> SectorOperator | DigitOperator:
    """Return H in a sector of Sz: flips that are alike in both directions, or with a complex value for each direction.

    Parameters
    ----------
    model : Model
        Couplings with ``Jx = Jy``, Dzyaloshinskii-Moriya ones and fields along z, neither with inversion; see
        :func:`qsim.trotter.sectors.selection.obstacle`.
    """
    return (DigitOperator if model.cross is not None else SectorOperator)(device, sector, model)


class SectorOperator(SpaceOperator):
    """H in a sector, of real flips that are alike in both directions.

    Parameters
    ----------
    device : Device
    sector : Sector
    model : Model
        Without couplings of different components.
    """

    is_real = True

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = a H psi + b psi + c out``, a, b, c = factors."""
        sector_product(self.device, self.tables, psi, out, *factors)

    def flips(self, psi: NDArray[Any], pairs: Any) -> NDArray[np.float64]:
        """Return ``<S^x_j S^x_k>`` of pairs (P, 2) of sites, not divided by the norm."""
        low, high = self.sector.low.bits, self.sector.high.bits
        bits = [(1 << int(j)) | (1 << int(k)) for j, k in pairs]
        # a pair with the site that is left out has one bit
        kept = (1 << self.sector.bits) - 1
        masks = np.array([mask & kept for mask in bits], np.uint64)
        sums = sector_flips(
            self.device,
            self.tables.strings,
            self.tables.blocks,
            (low, high),
            psi,
            masks,
            self.sector.inversion,
        )
        # the kernel sums S^+ S^- + S^- S^+ = 2 (S^x S^x + S^y S^y), each
        # pair of strings from both sides, and <S^x S^x> = <S^y S^y>
        return 0.25 * sums

    @cached_property
    def tables(self) -> SectorTables:
        """The tables of the kernels."""
        sector, device = self.sector, self.device
        reduced = Reduced.of(self.model, sector)
        bits = (sector.low.bits, sector.high.bits)
        blocks, strings = sector.blocks(), place_tables(sector, device)
        if device.is_cuda:
            flips, diagonal = _of_gpu(device, sector, reduced)
            return SectorTables(sector.dimension, bits, blocks, None, strings, flips, diagonal)
        return SectorTables(sector.dimension, bits, blocks, _of_cpu(sector, reduced), strings)


# ----------------------------------------------------------------------------------------- tables


def _flips_within(
    part: Part, flip: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float64]]:
    """Return first entry of every string (2^b + 1,), ranks of the strings that flip into it, and values."""
    first, second = np.nonzero(np.triu(flip, 1))
    size = part.strings.size
    # half of the strings, or fewer, take part in a flip
    owner, to, value = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)], [np.zeros(0)]
    for j, k in zip(first, second, strict=True):
        # the flip needs antiparallel spins
        differ = np.flatnonzero((part.strings >> j ^ part.strings >> k) & 1)
        owner.append(differ)
        to.append(part.rank[part.strings[differ] ^ (1 << j | 1 << k)].astype(np.uint32))
        value.append(np.full(differ.size, flip[j, k]))
    owners = np.concatenate(owner)
    # sorted by the string that they lead to; stable, so
    # that sums of a row have one order on every machine
    order = np.argsort(owners, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))]).astype(np.int64)
    return starts, np.concatenate(to)[order], np.concatenate(value)[order]


def _energy(part: Part, J: NDArray[np.float64], field: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the diagonal of a part, by the place of its strings."""
    s = part.spins
    return np.asarray(0.5 * np.einsum("nj,nj->n", s @ J, s) + s @ field, np.float64)


def _grouped(
    part: Part, flip: NDArray[np.float64]
) -> dict[str, NDArray[np.int64] | NDArray[np.uint32] | NDArray[np.float64]]:
    """Return the flips within the low part, strings of a weight with equally many after each other."""
    starts, to, value = _flips_within(part, flip)
    count, weight = np.diff(starts), part.weights
    # by weight, within a weight by the number of flips: loops of one length follow each other
    order = np.lexsort((count, weight))
    # a group ends where weight or number changes; both
    # as one number, flips of b bits being fewer than b^2
    change = np.flatnonzero(np.diff(weight[order] * (part.bits**2 + 1) + count[order])) + 1
    # string of every group
    first = np.concatenate([[0], change])
    entries = np.concatenate([[0], np.cumsum(count[order])])
    # entries of the sorted strings, copied to where their strings are now
    taken = np.repeat(starts[:-1][order] - entries[:-1], count[order]) + np.arange(to.size)
    return {
        "group_first": np.searchsorted(weight[order][first], np.arange(part.bits + 2)),
        "group_count": count[order][first],
        "group_string": np.append(first, order.size),
        "group_entry": np.append(entries[first], entries[-1]),
        "low_order": (order - part.offset[weight[order]]).astype(np.uint32),
        "low_to": to[taken],
        "low_value": value[taken],
    }


def _near(part: Part) -> NDArray[np.uint32]:
    """Return the bits of every string, those that are 0 first: rank of the string with that bit flipped, and the bit above it."""
    # bits that are 0 first, each kind in ascending order
    down = part.strings[:, None] >> np.arange(part.bits) & 1
    bit = np.argsort(down, axis=1, kind="stable")
    to = part.rank[part.strings[:, None] ^ (1 << bit)]
    return np.asarray(to | bit << 24, np.uint32)


def _joined(part: Part) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return `near` and `near_first` of the low part, as in `ProductTables`; strings are filled up to fours with the last one."""
    entries = _near(part)
    # (2^b, 2, b)
    places = np.stack([LANES * (entries & RANK), LANES * (entries >> 24)], axis=1)
    entries_of, first = [np.zeros(0, np.uint32)], [0]
    for w in range(part.bits + 1):
        rows = np.arange(part.offset[w], part.offset[w + 1])
        # strings in fours, filled up with the last one of the weight
        rows = np.append(rows, np.repeat(rows[-1:], -rows.size % 4)).reshape(-1, 4)
        # w bits of a string are 1, they come last; for every
        # four strings flip after flip, places then bits
        for bits in (slice(None, part.bits - w), slice(part.bits - w, None)):
            entries_of.append(places[rows][..., bits].transpose(0, 3, 2, 1).ravel())
            first.append(first[-1] + entries_of[-1].size)
    return np.concatenate(entries_of), np.array(first[:-1], np.int64)


def _of_cpu(sector: Sector, reduced: Reduced) -> ProductTables:
    """Return the tables of the CPU twin: flips by kind, and the diagonal."""
    low, high = sector.low, sector.high
    L = low.bits
    # flips within the high part: whole rows are added to whole rows
    first, to, value = _flips_within(high, reduced.flip[L:, L:])
    joined = reduced.flip[:L, L:]
    j, k = np.nonzero(joined)
    # flips across the cut: a few are gathered one by one; nearly all of them go through tiles of partner rows
    many = j.size > MOST_GATHERED * joined.size
    cross = joined.T if many else np.zeros(0)
    near, near_first = _joined(low) if many else (np.zeros(0), np.zeros(0))
    if many:
        j, k = j[:0], k[:0]
    mirror = np.flatnonzero(reduced.mirrored)
    across = np.ascontiguousarray(reduced.J[L:, :L])
    energy = _energy(low, reduced.J[:L, :L], reduced.field[:L])[None]
    # the diagonal of a row needs the fields of its high string on the low spins: a table for each different pattern of fields,
    # unless there are too many
    fields, pattern = np.unique(high.spins @ across, axis=0, return_inverse=True)
    if len(fields) <= MOST_PATTERNS:
        energy = energy + (fields @ low.spins.T)
        pattern = pattern.astype(np.int64).ravel()
    else:
        pattern = np.full(1 << high.bits, -1, np.int64)
    # strings of each weight that have a given bit clear: where the lists of `clear` and `filled` begin
    less = [math.comb(max(L - 1, 0), w) for w in range(L + 1)]
    given: dict[str, NDArray[Any]] = {
        "low_offset": low.offset,
        "high_offset": high.offset,
        "block": sector.block,
        "half": np.concatenate([[0], np.cumsum(less)]),
        "clear": low.clear,
        "filled": low.filled,
        "high_first": first,
        "high_to": to,
        "high_value": value,
        "cross_low": j,
        "cross_high": k,
        "cross_value": reduced.flip[j, L + k],
        "cross": cross,
        "near": near,
        "near_first": near_first,
        "near_high": _near(high) if many else np.zeros(0),
        "mirror_site": mirror,
        "mirror_value": reduced.mirrored[mirror],
        "high_string": high.strings,
        "high_rank": high.rank,
        "energy": energy,
        "energy_pairs": np.repeat(energy.ravel(), 2),
        "pattern": pattern,
        "high_energy": _energy(high, reduced.J[L:, L:], reduced.field[L:]),
        "across": across,
        "low_string": low.strings,
    }
    return ProductTables.packed(sector.down, given | _grouped(low, reduced.flip[:L, :L]))


def _of_gpu(device: Device, sector: Sector, reduced: Reduced) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return flips and diagonal as `SectorTables` describes them."""
    low, high = sector.low, sector.high
    L = low.bits
    # the kernel takes flips by kind: within the low part, within the high part, across the cut, mirrored
    first, second = np.nonzero(np.triu(reduced.flip, 1))
    # -1 within the low part, 0 across, 1 within the high part
    kind = (first >= L).astype(int) - (second < L).astype(int)
    order = np.concatenate([np.flatnonzero(kind == wanted) for wanted in (-1, 1, 0)])
    mirror = np.flatnonzero(reduced.mirrored)
    one = np.uint64(1)
    masks = (one << first[order].astype(np.uint64)) | (one << second[order].astype(np.uint64))
    masks = np.concatenate([masks, one << mirror.astype(np.uint64)])
    values = np.concatenate([reduced.flip[first[order], second[order]], reduced.mirrored[mirror]])
    counts = [np.int32(np.count_nonzero(kind == wanted)) for wanted in (-1, 1, 0)]
    flips = (*counts, np.int32(mirror.size), device.asarray(masks), device.asarray(values))
    j, k = np.nonzero(reduced.J[:L, L:])
    coupled = (one << j.astype(np.uint64)) | (one << (L + k).astype(np.uint64))
    energies = []
    for piece, sites in ((low, slice(0, L)), (high, slice(L, None))):
        # the kernel looks energies up by string, not by rank
        by_place = _energy(piece, reduced.J[sites, sites], reduced.field[sites])
        by_string = np.empty_like(by_place)
        by_string[piece.strings] = by_place
        energies.append(device.asarray(by_string))
    strength = np.ascontiguousarray(reduced.J[j, L + k])
    diagonal = (*energies, np.int32(j.size), device.asarray(coupled), device.asarray(strength))
    return flips, diagonal

"""States that H and the start leave the same on every orbit of a group of permutations of the sites, with or without inversion.

A Neel state of a ring is moved into itself by two sites, by one site and the inversion of all spins, and by reflections; H
commutes with these, so that all amplitudes of an orbit stay equal.  One of them is carried: with ``x_a`` the one of orbit a,
``(H x)_a = sum_t h_t x_[orbit of the flipped string]``, a sparse real matrix.  It is not symmetric, but it is the same operator.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.kernels.sectors.orbit_series import orbits_of
from qsim.trotter.sectors.selection import mixing
from qsim.trotter.sectors.symmetric import Symmetry, broken, images, reflected, shifted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.basis import Sector

# elements of a group that is worth it
LEAST = 4
# numbers of orbits are 32 bits wide
MOST_STATES = 1 << 31


def symmetries_of(model: Model, sector: Sector, string: int) -> tuple[Symmetry, ...]:
    """Return the shifts and reflections of all sites, with or without inversion, that leave H and a string as they are."""
    spins = sector.spins
    # Dzyaloshinskii-Moriya couplings make H complex; the orbits have real matrices
    if model.cross is not None:
        return ()
    # with the inversion if H and the magnetisation allow it
    turns = [False] if mixing(model, 1) or 2 * sector.down != spins else [False, True]
    symmetries = []
    shift = tuple(range(spins))
    # all products of shifts with the reflection: 2 N elements,
    # each tried on the string first, which costs less than H
    for _ in range(spins):
        for sites in (shift, tuple(shift[j] for j in reflected(spins))):
            for turned in turns:
                image = sum(1 << sites[j] for j in range(spins) if string >> j & 1)
                image ^= ((1 << spins) - 1) if turned else 0
                if image == string and not broken(model, sites):
                    symmetries.append(Symmetry("", sites, turned, Fraction(0)))
        shift = tuple(shifted(spins)[j] for j in shift)
    return tuple(symmetries)


@dataclass
class Orbits:
    """The orbits of a sector, and H on amplitudes that are equal on each of them.

    Attributes
    ----------
    sector : Sector
        Of Sz, without inversion.
    model : Model
    symmetries : tuple of Symmetry
        All elements of the group.
    """

    sector: Sector
    model: Model
    symmetries: tuple[Symmetry, ...]

    @cached_property
    def strings(self) -> NDArray[np.int64]:
        """String of every index of the sector."""
        return self.sector.strings()

    @cached_property
    def numbered(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Orbit of every index of the sector, and index of the first string of every orbit."""
        sector = self.sector
        group = images(sector.digits, {(s.sites, s.turned): s.phase for s in self.symmetries})
        # -1: not yet in an orbit
        place = np.full(sector.dimension, -1, np.int32)
        first = np.empty(sector.dimension, np.int64)
        count = orbits_of(self.strings, tuple(sector.numbering), group, place, first)
        return place, first[:count].copy()

    @property
    def size(self) -> int:
        """Number of orbits."""
        return int(self.numbered[1].size)

    @cached_property
    def matrix(self) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Values, columns and first entries of the rows of the flips, and the diagonal."""
        from scipy.sparse import coo_array

        place, first = self.numbered
        representatives, model = self.strings[first], self.model
        flip = np.triu((model.J[0] + model.J[1]) / 4.0, 1)
        rows, columns, values = [], [], []
        # each flip of a representative leads to a string, and that to its orbit; states are equal on an
        # orbit, so that no factor remains
        for j, k in np.argwhere(flip):
            mask = (1 << int(j)) | (1 << int(k))
            inside = representatives & mask
            here = np.flatnonzero((inside != 0) & (inside != mask))
            rows.append(here)
            columns.append(place[self.sector.index(representatives[here] ^ mask)])
            values.append(np.full(here.size, flip[j, k]))
        diagonal = np.zeros(first.size)
        spin = 0.5 - (representatives >> np.arange(self.sector.spins)[:, None] & 1)
        diagonal += 0.5 * np.einsum("ji,jk,ki->i", spin, model.J[2], spin, optimize=True) + model.h[2] @ spin
        if not rows:
            nothing = np.zeros(0, np.int32)
            return np.zeros(0), nothing, np.zeros(first.size + 1, np.int32), diagonal
        entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        # entries of one row and column are added up by the conversion
        made = coo_array(entries, shape=(first.size, first.size)).tocsr()
        return made.data, made.indices.astype(np.int32), made.indptr.astype(np.int32), diagonal

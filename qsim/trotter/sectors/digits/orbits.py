"""States of one character under permutations of sites of any spin, and under the inversion ``|m> -> |-m>`` of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.sectors.digits import digit_representatives
from qsim.trotter.kernels.sectors.orbits import images_of
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.sectors.digits.product import Transitions, transitions
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.symmetric import StoredOperator, SymmetricSector, broken, cycles_of, with_characters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

__all__ = ["DigitOrbits", "StoredDigits"]

# of the largest element of a matrix: a difference that is rounding
SAME = 1e-13


@dataclass(frozen=True)
class DigitOrbits(SymmetricSector):
    """States of a space of digits with given eigenvalues of symmetries; see :class:`SymmetricSector`."""

    base: DigitSpace  # type: ignore[assignment]

    def fixed(self, sites: Sequence[int], turned: bool) -> int:
        """Return how many strings a permutation leaves as they are, with the inversion if `turned`."""
        twos, weights = [], []
        for cycle in cycles_of(sites):
            two = self.base.twos[cycle[0]]
            if not turned:
                # one digit for all sites of a cycle
                twos.append(two)
                weights.append(len(cycle))
            elif len(cycle) % 2 == 0:
                # digits d and 2S - d by turns: together len S quanta, whatever d is
                twos.append(two)
                weights.append(0)
            elif two % 2:
                return 0
        if not turned:
            return self.base.count(twos, weights)
        # quanta of all fixed strings are those of Sz = 0
        quanta = sum(self.base.twos) // 2
        if self.base.down not in (-1, quanta) or self.base.odd not in (-1, quanta % 2):
            return 0
        return int(np.prod([two + 1 for two in twos], dtype=object))

    def image_tables(
        self, elements: Sequence[tuple[Sequence[int], bool]]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the images of eight bits at a time, (G, bytes, 256); the tables turn the spins over themselves."""
        base, numbers = self.base, np.arange(256)
        each = 8 // base.bits
        tables = np.zeros((len(elements), -(-base.spins // each), 256), np.int64)
        for g, (sites, turned) in enumerate(elements):
            for j, to in enumerate(sites):
                digit = numbers >> j % each * base.bits & ((1 << base.bits) - 1)
                # digits that do not occur lead anywhere
                if turned:
                    digit = np.maximum(base.twos[j] - digit, 0)
                tables[g, j // each] |= digit << to * base.bits
        return tables, np.zeros(len(elements), np.bool_)

    def representatives(self, strings: NDArray[np.int64], norms: NDArray[np.float64]) -> int:
        """Set the smallest string and nu of every orbit that has a state; return how many."""
        tables, _, characters = self.group
        return int(digit_representatives(self.base.strings(), tables, characters, strings, norms))


class StoredDigits(StoredOperator):
    """H of spins of any size in a sector of further symmetries, as a stored matrix."""

    sector: DigitOrbits
    model: SpinModel

    @cached_property
    def tables(self) -> Transitions:
        """The terms, as the kernels take them."""
        return transitions(self.model.terms, self.sector.base, self.sector.base)

    @property
    def dtype(self) -> Any:
        """Of the vectors: real where H and all characters are."""
        real = self.sector.is_real and self.tables.is_real
        return np.dtype(np.float64 if real else np.complex128)

    @cached_property
    def matrix(self) -> csr_array:
        """H, (D, D)."""
        from scipy.sparse import csr_array, dia_array

        strings, norms = self.sector.orbits
        first, to, value = self.tables.columns(strings)
        # a string of a column is chi(g) sqrt(nu_b / G) times state b; the string of a row is one of G / nu_a in its state
        place, factor = np.empty(to.size, np.int64), np.empty(to.size, np.complex128)
        images_of(to, self.sector.spins, *self.sector.group, strings, norms, place, factor)
        row = np.repeat(np.arange(strings.size), np.diff(first))
        data = value * factor * np.sqrt(len(self.sector.elements) / norms[row])
        shape = (strings.size,) * 2
        # strings of no state have the factor 0
        made = csr_array(
            (data.real.copy() if self.dtype.kind == "f" else data, (row, np.maximum(place, 0))), shape=shape
        )
        return csr_array(made + dia_array((self.tables.diagonal(strings)[None], [0]), shape=shape))


@broken.register(SpinModel)
def _(model: SpinModel, sites: Sequence[int]) -> str:
    """Return where H is not invariant under a permutation of the sites, ``""`` if it is."""
    for j, to in enumerate(sites):
        if model.twos[j] != model.twos[to]:
            return (
                f"the spin of site {j} is {0.5 * model.twos[j]:g}, that of site {to}, to which it goes, "
                f"{0.5 * model.twos[to]:g}"
            )
    scale = max((float(np.abs(term.matrix).max()) for term in model.terms), default=0.0)
    here = {term.sites: term.matrix for term in model.terms}
    for term in model.terms:
        images = tuple(sites[j] for j in term.sites)
        matrix, target = term.matrix, images
        if len(images) == 2 and images[0] > images[1]:
            d = [model.twos[j] + 1 for j in term.sites]
            matrix, target = matrix.reshape(*d, *d).transpose(1, 0, 3, 2).reshape(matrix.shape), images[::-1]
        other = here.get(target)
        if other is None or np.abs(other - matrix).max() > SAME * scale:
            where = " and ".join(str(site) for site in images)
            return f"H at {term.name} is not that at {'sites' if len(images) == 2 else 'site'} {where}, to which it goes"
    return ""


with_characters.register(DigitSpace)(DigitOrbits)

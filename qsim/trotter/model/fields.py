"""Fields of the sites, from a term of a deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.deck.expression import Expression
from qsim.core.errors import FileError
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck.axes import AXES
from qsim.trotter.model import disorder

if TYPE_CHECKING:
    from numpy.typing import NDArray


def site_fields(
    term: blocks.FieldTerm, spins: int, seed: int, number: int, realisation: int
) -> NDArray[np.float64]:
    """Return (3, N) fields of one term."""
    sites = np.array(term.sites if term.sites is not None else range(spins))
    axis = AXES.index(term.axis)
    # values first: given for each site, by a formula of j, or from a file; disorder is added to them
    random, values = term.random, np.zeros(sites.size)
    if isinstance(term.values, blocks.RandomValues):
        random = term.values.random
    elif isinstance(term.values, str):
        values = Expression(term.values, ("j",))(j=sites.astype(np.float64))
    elif term.values is not None:
        values = values + np.asarray(term.values, dtype=np.float64)
    elif term.file is not None:
        values = np.array(read_rows(term.file, "one value per site", (1,), most=sites.size))[:, 0]
        if values.size != sites.size:
            raise FileError(f"{term.file}: {values.size} values for {sites.size} sites")
    h = np.zeros((3, spins))
    h[axis, sites] = values
    # a number belongs to its site, whichever sites are chosen
    if random is not None:
        drawn = disorder.draw(
            random, spins, seed=seed, number=number, realisation=realisation, coupling=False, axis=axis
        )
        h[axis, sites] += drawn[sites]
    return h

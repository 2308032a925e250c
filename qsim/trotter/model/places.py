"""Positions of the sites of a term, and dipolar couplings between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.errors import DeckError, FileError
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.lattices import bonds as lattices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.deck.lattices import Lattice


def axis_vector(axis: str) -> tuple[float, float, float]:
    """Return the unit vector of an axis."""
    return float(axis == "x"), float(axis == "y"), float(axis == "z")


def positions(term: blocks.PlacedTerm, lattice: Lattice | None, spins: int) -> NDArray[np.float64]:
    """Return (N, 3) positions of a term, or of the lattice."""
    if term.positions is None:
        # the rules ask for one
        assert lattice is not None
        return np.array(lattices.positions(lattice, spins), dtype=np.float64)
    if isinstance(term.positions, list):
        return np.array(term.positions, dtype=np.float64)
    places = np.array(read_rows(term.positions, "x, y, z", (3,), most=spins))
    if len(places) != spins:
        raise FileError(f"{term.positions}: {len(places)} positions, but system.spins = {spins}")
    return places


def apart(
    places: NDArray[np.float64], pairs: NDArray[np.int64], term: blocks.LatticeTerm
) -> NDArray[np.float64]:
    """Return the vectors (P, 3) between the sites of pairs; refuse two sites at one place."""
    vectors = places[pairs[:, 1]] - places[pairs[:, 0]]
    same = ~vectors.any(axis=1)
    if same.any():
        j, k = pairs[int(np.argmax(same))]
        raise DeckError(f"{term.type}: sites {j} and {k} are at the same place, {places[j].tolist()}")
    return vectors


def dipolar(
    term: blocks.Dipolar, lattice: Lattice | None, spins: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return pairs (P, 2) and ``coupling / r^3 (1 - 3 cos^2 theta)`` (P,)."""
    places = positions(term, lattice, spins)
    if term.positions is None:
        assert lattice is not None
        pairs = np.array([b[:2] for b in lattices.bonds(lattice, spins, term.shells)], dtype=np.int64)
        pairs = pairs.reshape(-1, 2)
    else:
        pairs = np.argwhere(np.triu(np.ones((spins, spins), bool), 1))
    vectors = apart(places, pairs, term)
    r = np.linalg.norm(vectors, axis=1)
    # 1e-9: a cutoff that equals a distance includes it
    if term.cutoff is not None:
        near = r <= term.cutoff * (1 + 1e-9)
        pairs, vectors, r = pairs[near], vectors[near], r[near]
    # theta is the angle between the axis and the vector from j to k
    axis = np.array(axis_vector(term.axis) if isinstance(term.axis, str) else term.axis)
    cosine = vectors @ (axis / np.linalg.norm(axis)) / r
    return pairs, term.coupling * (1.0 - 3.0 * cosine**2) / r**3

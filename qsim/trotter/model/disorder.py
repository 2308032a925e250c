"""Disorder: random couplings and fields that depend on seed, term and realisation only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import rng
from qsim.trotter.deck import couplings as blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Streams of the counter: constants that keep the uses of one seed apart (states use others, see qsim.trotter.initial.random).
FIELD_STREAM, COUPLING_STREAM = 0x5F1E0000, 0x5C0F0000


def draw(
    random: blocks.Random,
    count: int,
    *,
    seed: int,
    number: int,
    realisation: int,
    coupling: bool,
    axis: int = 0,
) -> NDArray[np.float64]:
    """Return random numbers of one term.

    Parameters
    ----------
    random
        Block of the deck.  Its own seed, if it has one, gives the same numbers wherever the term stands.
    count
        How many: the sites, or the pairs in the order (j, k).
    seed
        Seed of the run, used with the number of the term if the block has no seed.
    number
        Place of the term in its list.
    realisation
        Number of the member of the ensemble.
    coupling
        True if the numbers are couplings, or else fields.
    axis
        Component of a field: fields along two axes with one seed differ.

    Returns
    -------
    (count,) float64
        Numbers of mean 0.
    """
    # couplings and fields, and each term without a seed of its own, have streams apart
    stream = COUPLING_STREAM if coupling else FIELD_STREAM
    stream += 0 if random.seed is not None else number + 1
    key = rng.key_from_seed(seed if random.seed is None else random.seed)
    # a normal number takes two draws: components of a field are two apart
    if isinstance(random, blocks.RandomNormal):
        return random.sigma * rng.normal(key, stream, realisation, count, draw=2 * axis)
    uniform = rng.uniform(key, stream, realisation, count, draw=2 * axis)
    if isinstance(random, blocks.RandomBinary):
        return np.where(uniform < 0.5, -random.strength, random.strength)
    width = random.width if random.width is not None else 2.0 * (random.W or 0.0)
    return width * (uniform - 0.5)

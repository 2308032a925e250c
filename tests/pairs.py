"""Products of test parameters reduced to what finds bugs: every pair of values of two parameters, each at least once."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows, one value per axis, in which any two values of two axes meet in at least one row.

    Rows of the full product are taken greedily, the one with most new pairs first; the choice is the same in every run.
    """
    places = list(combinations(range(len(axes)), 2))

    def pairs(row: tuple[int, ...]) -> set[tuple[int, int, int, int]]:
        return {(i, row[i], j, row[j]) for i, j in places}

    rows = list(product(*(range(len(axis)) for axis in axes)))
    missing = set().union(*map(pairs, rows))
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(pairs(row) & missing))
        missing -= pairs(best)
        chosen.append(tuple(axis[k] for axis, k in zip(axes, best, strict=True)))
    return chosen

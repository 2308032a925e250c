"""Tables of r and a potential, read from files of a deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.columns import by_first_column, read_columns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def read_table(path: Path) -> NDArray[np.float64]:
    """Read two columns, r and a potential.

    A row at r = 0 is left out: what is tabulated is finite there, but what is interpolated may not be.

    Returns
    -------
    (rows, 2) float64
        By ascending r, at least 4 rows.

    Raises
    ------
    FileError
        With the line that cannot be read, or where r is negative.
    """
    table = read_columns(path, 2, "r, value", check=_radius)
    return by_first_column(path, table[table[:, 0] > 0.0], "r > 0")


def _radius(row: Sequence[float]) -> str:
    return f"a radius cannot be negative, found {row[0]:g}" if row[0] < 0.0 else ""

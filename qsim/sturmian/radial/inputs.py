"""Tables of r and a potential, read from files of a deck."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.deck.columns import by_first_column
from qsim.core.deck.tables import read_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.deck.table_units import Tabulated


def read_radial(block: Tabulated) -> NDArray[np.float64]:
    """Read two columns, r and a potential, in atomic units.

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
    table = read_table(block, check=_radius)
    return by_first_column(block.table_file() or "table", table[table[:, 0] > 0.0], "r > 0")


def _radius(row: Sequence[float]) -> str:
    return f"a radius cannot be negative, found {row[0]:g}" if row[0] < 0.0 else ""

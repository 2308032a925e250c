"""What potentials read from a deck: tables, and the complaint about a value that shows to be wrong only when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def read_table(path: Path) -> NDArray[np.float64]:
    """Read two columns, r and a potential, separated by commas, semicolons or white space.

    ``#`` begins a comment, and one header line is skipped.  A row at r = 0 is left out: what is tabulated is finite there, but
    what is interpolated may not be.

    Returns
    -------
    (rows, 2) float64
        By ascending r, at least 4 rows.

    Raises
    ------
    FileError
        With the line that cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"cannot read {path}: {error}") from error
    rows: list[list[float]] = []
    for number, line in enumerate(lines, 1):
        fields = line.split("#")[0].replace(",", " ").replace(";", " ").split()
        if not fields:
            continue
        try:
            row = [float(value) for value in fields[:2]]
        except ValueError:
            if not rows and number <= 2:  # a header
                continue
            row = []
        if len(row) < 2 or not np.all(np.isfinite(row)):
            raise FileError(f"{path}:{number}: expected r and a value, found {line.strip()!r}")
        if row[0] < 0.0:
            raise FileError(f"{path}:{number}: a radius cannot be negative, found {row[0]:g}")
        if row[0] > 0.0:
            rows.append(row)
    table = np.array(sorted(rows)).reshape(-1, 2)
    if len(table) < 4 or np.any(np.diff(table[:, 0]) <= 0.0):
        raise FileError(f"{path}: a table needs at least 4 rows with distinct r > 0, found {len(table)} rows")
    return table

"""The figures of qsim, which a notebook shows although they are made without pyplot."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ColumnFigure", "ShownFigure", "stacked"]

# Dots per inch on a page; the 200 of files would fill the screen.
NOTEBOOK_DPI = 110


# Height of a row of panels that stood beside each other, relative to theirs.
STACKED = 0.85


class ShownFigure(Figure):
    """A figure that is a picture where a notebook shows its last value."""

    def _repr_png_(self) -> bytes:
        """Return the picture as a PNG file."""
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=NOTEBOOK_DPI)
        return data.getvalue()


class ColumnFigure(ShownFigure):
    """A figure of one column: panels that would stand side by side stand below each other."""

    def subplots(self, nrows: int = 1, ncols: int = 1, **options: Any) -> Any:
        """Return axes as `Figure.subplots` does, in its shape; a single row becomes a column."""
        if nrows > 1 or ncols == 1:
            return super().subplots(nrows, ncols, **options)
        self.set_figheight(self.get_figheight() * ncols * STACKED)
        return stacked(super(), ncols, options)


def stacked(place: Any, count: int, options: Mapping[str, Any]) -> NDArray[Any]:
    """Return axes below each other in the shape of a row.

    Parameters
    ----------
    place
        What has ``subplots``.
    count
        Number of panels.
    options
        Of the row; widths lose their meaning.
    """
    kept = {
        key: value for key, value in options.items() if key not in ("width_ratios", "gridspec_kw", "sharey")
    }
    axes = place.subplots(count, 1, **kept)
    row = np.ravel(axes)
    return row[None, :] if options.get("squeeze") is False else row

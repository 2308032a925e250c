"""The figures of qsim, which a notebook shows although they are made without pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

__all__ = ["ShownFigure"]

# Dots per inch on a page; the 200 of files would fill the screen.
NOTEBOOK_DPI = 110


class ShownFigure(Figure):
    """A figure that is a picture where a notebook shows its last value."""

    def _repr_png_(self) -> bytes:
        """Return the picture as a PNG file."""
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=NOTEBOOK_DPI)
        return data.getvalue()

"""Figures of the papers in qsim's style."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.results import plotting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ROW", "device_of", "panels"]

ROW = 2.6
"""Height of a row of panels in inches."""


def panels(rows: int, columns: int, height: float = ROW) -> tuple[Figure, Any]:
    """Return a figure of two columns' width with its axes as a nested list ``axes[row][column]``."""
    fig = plotting.figure("double", rows * height)
    return fig, fig.subplots(rows, columns, squeeze=False)


def device_of(source: str) -> str:
    """Return the device of a source such as ``NVIDIA H200, record x``, for a title."""
    return source.partition(", record")[0].removesuffix(", this run")

"""One figure of several results files: the lines of all runs in the same axes.

The figure function of the method draws each file; the lines, bands and error bars of the second and further files then go into
the axes of the first.  Where an axes has one line, colour tells the runs apart, else the dashes do; maps cannot be overlaid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results import plotting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["overlay"]

DASHES = ("-", "--", ":", "-.")


def overlay(
    function: Callable[[Results], Figure | None], files: Sequence[Results], labels: Sequence[str]
) -> Figure | None:
    """Draw a figure of several files with their lines in the same axes.

    Parameters
    ----------
    function
        Figure function of the method, or one that draws an array.
    files
        Open results, of one method.
    labels
        Name of each run in the legend.

    Returns
    -------
    Figure or None
        None if no file has what the figure shows.

    Raises
    ------
    FileError
        If the figure is nothing but maps, or has other axes for one file than for another.
    """
    from matplotlib.lines import Line2D

    with plotting.style():
        drawn = [
            (figure, label)
            for results, label in zip(files, labels, strict=True)
            if (figure := function(results))
        ]
        if not drawn:
            return None
        first = drawn[0][0]
        for figure, label in drawn[1:]:
            if len(_axes(figure)) != len(_axes(first)):
                raise FileError(
                    f"the figure has other panels for {label} than for {drawn[0][1]}",
                    hint="plot the files one by one",
                )
        handles: list[Any] = []
        alone = all(len(_curves(ax)) <= 1 for ax in _axes(first))
        if not any(_curves(ax) for ax in _axes(first)):
            raise FileError("a map cannot be overlaid", hint="plot the files one by one")
        colors = list(plotting.COLORS.values())
        for number, (figure, label) in enumerate(drawn):
            look = {"color": colors[number % len(colors)]} if alone else {}
            look["linestyle"] = DASHES[number % len(DASHES)]
            for target, source in zip(_axes(first), _axes(figure), strict=True):
                if number:
                    _take_over(target, source, look)
                elif alone:
                    _restyle(target, look)
            named = Line2D([], [], label=label)
            named.set(**{"color": "0.2", **look})
            handles.append(named)
        for ax in _axes(first):
            if not ax.images and not ax.collections:
                ax.relim()
            ax.autoscale_view()
        first.legend(handles=handles, loc="outside upper right", ncols=min(4, len(handles)))
    return first


def _axes(figure: Figure) -> list[Axes]:
    """Return all axes, those of subfigures included, without colour bars."""
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def _curves(ax: Axes) -> list[Any]:
    """Return the lines that hold data, not those that mark a value."""
    return [
        line
        for line in ax.get_lines()
        if line.get_transform() == ax.transData and np.size(line.get_xdata()) > 2
    ]


def _restyle(ax: Axes, look: dict[str, Any]) -> None:
    """Give the curve of the first run the look by which the legend of the figure knows it; what marked its values goes."""
    curves = _curves(ax)
    for line in ax.get_lines():
        if line in curves:
            line.set(**look)
        elif len(set(_rgb(line.get_color()))) > 1:  # grey lines are axes and exact values
            line.remove()
    if (legend := ax.get_legend()) is not None:
        legend.remove()


def _rgb(color: Any) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _take_over(target: Axes, source: Axes, look: dict[str, Any]) -> None:
    """Draw the curves of one axes into another."""
    for line in _curves(source):
        style = {"color": line.get_color(), "linewidth": line.get_linewidth(), "marker": line.get_marker()}
        style |= {"markersize": line.get_markersize(), "zorder": line.get_zorder()} | look
        if line.get_linestyle() == "None":
            style["linestyle"] = "none"
        target.plot(line.get_xdata(), line.get_ydata(), **style)

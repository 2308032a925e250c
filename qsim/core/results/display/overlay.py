"""One figure of several results files: the lines of all runs in the same axes.

The figure function of the method draws each file; the lines, bands and error bars of the second and further files then go into
the axes of the first, but for insets, which show a part of one run.  Where every panel has one curve, colour tells the runs
apart; else colour keeps its meaning within the figure, and the dashes of lines and of the outlines of bands tell the runs
apart.  Maps cannot be overlaid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results import plotting
from qsim.core.results.compare import Between
from qsim.core.results.display.axes import quantity_of, unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.typing import ColorType

    from qsim.core.results.results import Results

__all__ = ["overlay"]

DASHES = ("-", "--", ":", "-.")


def overlay(
    function: Callable[[Results], Figure | None],
    files: Sequence[Results],
    labels: Sequence[str],
    between: Between,
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
    between
        Factors between units: lines in another unit of the same quantity are drawn in that of the first file.

    Returns
    -------
    Figure or None
        None if no file has what the figure shows.

    Raises
    ------
    FileError
        If the figure is nothing but maps, or has other axes, or axes of other quantities, for one file than for another.
    """
    with plotting.style():
        # Files without the quantity draw nothing and are left out.
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
        # The first figure is kept; lines of the others move into its axes.
        panels = [_axes(figure) for figure, _ in drawn]
        for ax in panels[0]:
            _remove_insets(ax)
        # One curve per panel: each run gets a colour. Otherwise colours keep their meaning, and dashes tell
        # runs apart.
        alone = all(_count(ax) <= 1 for ax in panels[0])
        if not any(_count(ax) for ax in panels[0]):
            raise FileError("a map cannot be overlaid", hint="plot the files one by one")
        for (_, label), axes in zip(drawn[1:], panels[1:], strict=True):
            for target, source in zip(panels[0], axes, strict=True):
                _to_units(target, source, label, between)
        handles = [_overlaid(panels[0], of_run, number, alone) for number, of_run in enumerate(panels)]
        for handle, (_, label) in zip(handles, drawn, strict=True):
            handle.set_label(label)
        for ax in panels[0]:
            # Limits of collections cannot be found anew; they grow with what is added.
            if not ax.images and not ax.collections:
                ax.relim()
            ax.autoscale_view()
        first.legend(handles=handles, loc="outside upper right", ncols=min(4, len(handles)))
    return first


def _to_units(target: Axes, source: Axes, label: str, between: Between) -> None:
    """Bring what a panel shows to the units of the axes into which it will be drawn.

    Raises
    ------
    FileError
        If there is no factor.
    """
    for name in "xy":
        axes = [getattr(ax, f"{name}axis") for ax in (source, target)]
        theirs, ours = (unit_of(axis) for axis in axes)
        quantity = quantity_of(axes[1])
        # Of another name, it is what the figure shows of another run.
        if theirs == ours or quantity_of(axes[0]) != quantity:
            continue
        factor = between(theirs, ours, quantity)
        if factor is None:
            raise FileError(
                f"the axis '{axes[1].get_label_text()}' is '{axes[0].get_label_text()}' for {label}, which no factor connects",
                hint="plot the files one by one",
            )
        _scale(source, name, factor)


def _scale(ax: Axes, name: str, factor: float) -> None:
    """Multiply one coordinate of the curves, bands and error bars of an axes, and the limits."""
    column = "xy".index(name)
    for line in _curves(ax):
        getattr(line, f"set_{name}data")(np.asarray(getattr(line, f"get_{name}data")()) * factor)
    for band in _bands(ax):
        for path in band.get_paths():
            outline = np.array(path.vertices, dtype=float)
            outline[:, column] *= factor
            path.vertices = outline
    for bars in _bars(ax):
        segments = [np.array(segment) for segment in bars.get_segments()]
        for segment in segments:
            segment[:, column] *= factor
        bars.set_segments(segments)
    if not getattr(ax, f"get_autoscale{name}_on")():
        getattr(ax, f"set_{name}lim")(*(end * factor for end in getattr(ax, f"get_{name}lim")()))


def _overlaid(targets: list[Axes], sources: list[Axes], number: int, alone: bool) -> Line2D:
    """Draw the panels of a run into those of the first; return the line that stands for the run in the legend."""
    from matplotlib.lines import Line2D

    # Dashes always tell runs apart, so that prints in grey can be read.
    colors = list(plotting.COLORS.values())
    look: dict[str, Any] = {"linestyle": DASHES[number % len(DASHES)]}
    if alone:
        look["color"] = colors[number % len(colors)]
    for target, source in zip(targets, sources, strict=True):
        if number == 0:
            _restyle(target, look)
            continue
        _take_over(target, source, look)
        _widen(target, source)
        if source.get_title() != target.get_title():  # a number of the first run alone
            target.set_title("")
    return Line2D([], [], **{"color": "0.2", **look})


def _widen(target: Axes, source: Axes) -> None:
    """Let fixed limits of an axes hold those of another, too."""
    # An inverted axis, such as a time that runs down, has its larger limit first: it is left alone.
    for axis in ("x", "y"):
        if not getattr(target, f"get_autoscale{axis}_on")() and not getattr(target, f"{axis}axis_inverted")():
            limits = [*getattr(target, f"get_{axis}lim")(), *getattr(source, f"get_{axis}lim")()]
            getattr(target, f"set_{axis}lim")(min(limits), max(limits))


def _axes(figure: Figure) -> list[Axes]:
    """Return all axes, those of subfigures included, without colour bars."""
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def _remove_insets(ax: Axes) -> None:
    """Remove the insets of an axes, and the room that was left for them above its curves."""
    from matplotlib.axes import Axes

    # An inset shows a part of one run; with several it would hide curves.
    if insets := [inner for inner in ax.child_axes if isinstance(inner, Axes)]:
        for inner in insets:
            inner.remove()
        ax.set_autoscaley_on(True)


def _count(ax: Axes) -> int:
    """Return the number of curves of an axes; a band counts where there is no line for it to surround."""
    return len(_curves(ax)) or len(_bands(ax))


def _curves(ax: Axes) -> list[Line2D]:
    """Return the lines that hold data, not those that mark a value."""
    return [
        line
        for line in ax.get_lines()
        # Lines across the whole axes (axhline) have another transform; two points are a mark, not a curve.
        if line.get_transform() == ax.transData and np.size(line.get_xdata()) > 2
    ]


def _bands(ax: Axes) -> list[PolyCollection]:
    """Return the filled bands of an axes."""
    from matplotlib.collections import PolyCollection

    return [band for band in ax.collections if isinstance(band, PolyCollection)]


def _bars(ax: Axes) -> list[LineCollection]:
    """Return the error bars of an axes, and its levels, which are short lines as well."""
    from matplotlib.collections import LineCollection

    return [bars for bars in ax.collections if isinstance(bars, LineCollection)]


def _restyle(ax: Axes, look: dict[str, Any]) -> None:
    """Give the curves of the first run the look by which the legend of the figure knows it; what marked its values goes.

    With a colour for each run, legends of the panels would name colours that mean something else now.
    """
    curves = _curves(ax)
    for line in ax.get_lines():
        if line in curves:
            line.set(**{key: value for key, value in look.items() if not _unjoined(line, key)})
        elif "color" in look and len(set(_rgb(line.get_color()))) > 1:  # grey lines are axes and exact values
            line.remove()
    for band in _bands(ax):
        _restyle_band(band, look)
    legend = ax.get_legend()
    if "color" in look:
        for bars in _bars(ax):
            bars.set_color(look["color"])
        if legend is not None:
            legend.remove()
    elif legend is not None:
        for line in legend.get_lines():
            if not _unjoined(line, "linestyle"):
                line.set_linestyle("-")  # dashes are those of the runs


def _unjoined(line: Line2D, key: str) -> bool:
    """Return True for the dashes of points that no line joins."""
    return key == "linestyle" and line.get_linestyle() == "None"


def _restyle_band(band: PolyCollection, look: dict[str, Any]) -> None:
    """Give a band the outline and, if runs have colours, the colour of a run; how much it covers stays."""
    # The outline shows the band where it is covered by others.
    red, green, blue, alpha = np.asarray(band.get_facecolor())[0].tolist()
    color = _rgb(look["color"]) if "color" in look else (red, green, blue)
    band.set(
        alpha=None,
        facecolor=(*color, alpha),
        edgecolor=(*color, 1.0),
        linewidth=0.8,
        linestyle=look["linestyle"],
    )


def _rgb(color: ColorType) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(color)


def _take_over(target: Axes, source: Axes, look: dict[str, Any]) -> None:
    """Draw curves, bands and error bars of one axes into another."""
    from matplotlib.collections import LineCollection, PolyCollection

    for line in _curves(source):
        # A line belongs to one figure: a new one with the same look is drawn.
        style: dict[str, Any] = {"color": line.get_color()}
        style |= {"linewidth": line.get_linewidth(), "marker": line.get_marker()}
        style |= {"markersize": line.get_markersize(), "zorder": line.get_zorder()} | look
        if _unjoined(line, "linestyle"):
            style["linestyle"] = "none"
        target.plot(line.get_xdata(), line.get_ydata(), **style)
    for band in _bands(source):
        # A band belongs to one figure, too.
        outline = [path.vertices for path in band.get_paths()]
        copy = PolyCollection(
            outline, closed=False, facecolors=band.get_facecolor(), zorder=band.get_zorder()
        )
        _restyle_band(copy, look)
        target.add_collection(copy)
    for bars in _bars(source):
        color = look.get("color", bars.get_color())
        target.add_collection(
            LineCollection(
                bars.get_segments(), colors=color, linewidths=bars.get_linewidth(), zorder=bars.get_zorder()
            )
        )

"""Axes of a finished figure as a user wants them: limits, scales and units."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["AxesOptions", "adjust", "quantity_of", "unit_of"]

# A unit in parentheses at the end of a label.
_UNIT = re.compile(r"\(([^()]*(?:\([^()]*\))?[^()]*)\)\s*$")
# Symbols of electric fields on axes in atomic units.
_FIELDS = dict.fromkeys(("E", "$E$", r"$\epsilon$", "$E_x$", "$E_y$"), "field")


class Converted(Protocol):
    """Factor of an axis, its unit afterwards, and the wanted units that took part."""

    @property
    def factor(self) -> float:
        """Factor."""

    @property
    def unit(self) -> str:
        """Unit afterwards."""

    @property
    def used(self) -> frozenset[str]:
        """Units that took part."""


@dataclass(frozen=True)
class AxesOptions:
    """Changes to the panels of a figure.

    Attributes
    ----------
    x, y
        Limits; None on either side leaves that end. In the units that are shown.
    log, linear
        Axes, ``"x"``, ``"y"`` or ``"xy"``, that become logarithmic or linear.
    units
        Units in which axes are shown.
    convert
        Function from the unit of an axis, and the name of its quantity, to what it becomes with these units.
    panel
        Number of the only panel that changes its limits and scales, from 1; None for all.
    """

    x: tuple[float | None, float | None] | None = None
    y: tuple[float | None, float | None] | None = None
    log: str = ""
    linear: str = ""
    units: Sequence[str] = ()
    convert: Callable[[str, str], Converted] | None = None
    panel: int | None = None


def adjust(figure: Figure, options: AxesOptions) -> set[str]:
    """Change the axes of a figure, and return the units in which it has an axis.

    Raises
    ------
    ValueError
        If there is no such panel.
    """
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    every: list[Any] = [*figure.axes, *(child for ax in figure.axes for child in ax.child_axes)]
    used: set[str] = set()
    for ax in every:
        for axis in (ax.xaxis, ax.yaxis):
            used |= _convert(axis, options.convert)
    _drop_repeated(panels)
    if options.panel is not None:
        if not 1 <= options.panel <= len(panels):
            raise ValueError(f"the figure has no panel {options.panel}: it has {len(panels)}")
        panels = [panels[options.panel - 1]]
    for ax in panels:
        _scale(ax, options)
        _limit(ax, options)
    return used


def labels_of(figure: Figure) -> str:
    """Return what stands at the axes of a figure, for messages."""
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    texts = [label for ax in panels for label in (ax.get_xlabel(), ax.get_ylabel()) if label]
    return ", ".join(f"'{text}'" for text in dict.fromkeys(texts))


def _drop_repeated(panels: Sequence[Axes]) -> None:
    """Hide axes on the other side whose unit is now that of the axis itself."""
    for ax in panels:
        for child in ax.child_axes:
            if type(child).__name__ != "SecondaryAxis":
                continue
            for own, other in ((ax.xaxis, child.xaxis), (ax.yaxis, child.yaxis)):
                if (unit := unit_of(own)) and unit == unit_of(other):
                    child.set_visible(False)


def unit_of(axis: Axis) -> str:
    """Return the unit in the label of an axis; a label without a quantity is a unit."""
    label = axis.get_label_text()
    match = _UNIT.search(label)
    return (label if match is None else match[1]).replace("$", "").replace(r"\mathrm", "").strip("{} ")


def quantity_of(axis: Axis) -> str:
    """Return what the label of an axis says before the unit; of an atomic unit without a name it tells the quantity."""
    label = axis.get_label_text()
    match = _UNIT.search(label)
    name = label[: len(label) if match is None else match.start()].strip().split(" ")[0]
    return _FIELDS.get(name, name)


def _scale(ax: Axes, options: AxesOptions) -> None:
    for name in "xy":
        factor = getattr(getattr(ax, f"{name}axis"), "qsim_factor", 1.0)
        for scale, wanted in (("log", options.log), ("linear", options.linear)):
            if name in wanted and getattr(ax, f"get_{name}scale")() != scale:
                getattr(ax, f"set_{name}scale")(scale)
                if factor != 1.0:
                    _tick(getattr(ax, f"{name}axis"), factor)


def _limit(ax: Axes, options: AxesOptions) -> None:
    """Set limits, and let the other axis follow the curves that are left."""
    for name, limits in (("x", options.x), ("y", options.y)):
        if limits is None:
            continue
        factor = getattr(getattr(ax, f"{name}axis"), "qsim_factor", 1.0)
        low, high = (None if end is None else end / factor for end in limits)
        getattr(ax, f"set_{name}lim")(low, high)
        # what marks a place beyond the ends goes with it
        for text in ax.texts:
            text.set_clip_on(True)
    if options.x is not None and options.y is None and ax.get_lines() and not ax.images:
        _follow(ax)


def _follow(ax: Axes) -> None:
    """Fit the vertical axis to the points of the curves between the limits of the other."""
    import numpy as np

    low, high = sorted(ax.get_xlim())
    seen = []
    for line in ax.get_lines():
        if line.get_transform() == ax.transData and np.size(line.get_xdata()) > 2:
            x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
            inside = (x >= low) & (x <= high) & np.isfinite(y)
            seen.append(y[inside & (y > 0.0)] if ax.get_yscale() == "log" else y[inside])
    values = np.concatenate(seen) if seen else np.zeros(0)
    if values.size and ax.get_yscale() == "log":
        ax.set_ylim(values.min() / 1.5, values.max() * 1.5)
    elif values.size and values.max() > values.min():
        margin = 0.05 * (values.max() - values.min())
        ax.set_ylim(values.min() - margin, values.max() + margin)


def _convert(axis: Axis, convert: Callable[[str, str], Converted] | None) -> set[str]:
    """Show an axis in other units: its label, and the numbers at its ticks; return the units that took part."""
    label = axis.get_label_text()
    match = _UNIT.search(label)
    if match is None or convert is None:
        return set()
    new = convert(match[1].replace("$", "").replace(r"\,", " "), quantity_of(axis))
    if not new.used:
        return set()
    unit = re.sub(r"\^(-?\d+)|(?<=[a-z])(-?\d+)", r"$^{\1\2}$", new.unit)
    axis.set_label_text(f"{label[: match.start()]}({unit})")
    _tick(axis, new.factor)
    return set(new.used)


def _tick(axis: Axis, factor: float) -> None:
    """Put ticks at round numbers of the new unit; data and limits stay as they are."""
    from matplotlib.ticker import AutoLocator, LogFormatterSciNotation, LogLocator, ScalarFormatter

    log = axis.get_scale() == "log"
    locator: Any = LogLocator() if log else AutoLocator()
    formatter: Any = LogFormatterSciNotation() if log else ScalarFormatter()
    axis.set_major_locator(_scaled_locator(locator, factor))
    axis.set_major_formatter(_scaled_formatter(formatter, factor))
    if log:
        from matplotlib.ticker import NullFormatter

        axis.set_minor_locator(_scaled_locator(LogLocator(subs=tuple(range(2, 10))), factor))
        axis.set_minor_formatter(NullFormatter())
    axis.qsim_factor = factor  # type: ignore[attr-defined]


def _scaled_locator(inner: Any, factor: float) -> Any:
    """Return a locator that finds the ticks of numbers times a factor."""
    from matplotlib.ticker import Locator

    class Scaled(Locator):
        def set_axis(self, axis: Any) -> None:
            super().set_axis(axis)
            inner.set_axis(axis)

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return inner.tick_values(vmin * factor, vmax * factor) / factor

        def __call__(self) -> Any:
            assert self.axis is not None  # matplotlib sets it before it asks for ticks
            return self.tick_values(*self.axis.get_view_interval())

    return Scaled()


def _scaled_formatter(inner: Any, factor: float) -> Any:
    """Return a formatter that writes numbers times a factor."""
    from matplotlib.ticker import Formatter

    class View:
        """Stand for the axis in the new unit, which the inner formatter asks for its range."""

        def __init__(self, axis: Any) -> None:
            self.axis = axis

        def get_view_interval(self) -> Any:
            return self.axis.get_view_interval() * factor

        def __getattr__(self, name: str) -> Any:
            return getattr(self.axis, name)

    class Scaled(Formatter):
        def set_axis(self, axis: Any) -> None:
            super().set_axis(axis)
            inner.set_axis(View(axis))

        def set_locs(self, locs: Any) -> None:
            super().set_locs(locs)
            inner.set_locs([loc * factor for loc in locs])

        def __call__(self, x: float, pos: int | None = None) -> str:
            return str(inner(x * factor, pos))

        def get_offset(self) -> str:
            return str(inner.get_offset())

    return Scaled()

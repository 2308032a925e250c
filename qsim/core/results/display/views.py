"""Results as Python users see them: text, HTML tables of notebooks, labelled arrays, figures.

`qsim.core.results.results.Results` hands its methods on to these functions, so that opening a file loads none of it.
"""

from __future__ import annotations

import difflib
import html
import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from qsim.core.device.compilers.caches import ensure_kernel_cache
from qsim.core.results import plotting
from qsim.core.results.quantities import by_task, headline
from qsim.core.results.tables import leaf, parent
from qsim.core.text import format_scalar, printable

R = TypeVar("R", bound="ResultsFile")

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from qsim.core.results.file import ResultsFile

__all__ = [
    "array_rows",
    "as_html",
    "as_text",
    "coordinate_name",
    "figure_functions",
    "first_scalars",
    "plot",
    "scalar_rows",
    "to_xarray",
]

# Most scalars that a text shows.
MAX_SCALARS = 12


# ---------------------------------------------------------------------------------------------- text


def first_scalars(results: ResultsFile) -> list[str]:
    """Return the scalars that a run is about: the headline of the method, without parts of errors that are zero."""
    module = output_of(results.method)
    names = () if module is None else headline(*by_task(module.QUANTITIES))
    there = [results.scalars.real(name) for name in names if name in results.scalars]
    return [name for name in there if "error" not in name.split("_") or results.scalars[name].value != 0.0]


def scalar_rows(results: ResultsFile) -> list[tuple[str, str, str]]:
    """Return name, value with unit and error, and meaning of the scalars, those of the method's headline first."""
    names = list(dict.fromkeys([*first_scalars(results), *results.scalars]))
    return [
        (name, format_scalar(s.value, s.unit, s.error, 9, s.note), s.description)
        for name in names
        for s in (results.scalars[name],)
    ]


def array_rows(results: ResultsFile) -> list[tuple[str, str, str, str]]:
    """Return name, axes with their lengths, unit and meaning of the arrays."""

    def axes(name: str) -> str:
        pairs = zip(results.dims(name), results.shape(name), strict=True)
        return " × ".join(f"{dim} {size}" for dim, size in pairs)

    return [(name, axes(name), results.unit(name), results.description(name)) for name in results.names]


def as_text(results: ResultsFile) -> str:
    """Return a few lines: what was run, the first scalars, the names of the arrays."""
    rows = scalar_rows(results)
    width = max((len(name) for name, _, _ in rows[:MAX_SCALARS]), default=0)
    title = f": {results.title}" if results.title else ""
    lines = [f"<Results of qsim {results.method}{title} ({results.path})"]
    lines += [f"  {name.ljust(width)}  {value}" for name, value, _ in rows[:MAX_SCALARS]]
    if len(rows) > MAX_SCALARS:
        lines.append(f"  ... {len(rows) - MAX_SCALARS} more in .scalars")
    lines.append(f"  arrays: {', '.join(results.names)}>")
    return printable("\n".join(lines), newlines=True)


def as_html(results: ResultsFile) -> str:
    """Return tables of scalars and arrays for notebooks; every text of the file is escaped."""

    def cell(text: str) -> str:
        return f"<td style='text-align:left'>{html.escape(printable(text))}</td>"

    def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        head = "".join(f"<th style='text-align:left'>{name}</th>" for name in header)
        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    arrays = array_rows(results)
    title = f": {results.title}" if results.title else ""
    heading = html.escape(printable(f"qsim {results.method}{title}"))
    return (
        f"<div><strong>{heading}</strong> <small>{html.escape(printable(str(results.path)))}</small>"
        f"{table(('scalar', 'value', 'meaning'), scalar_rows(results))}"
        f"<details><summary>{len(arrays)} arrays</summary>{table(('array', 'axes', 'unit', 'meaning'), arrays)}</details></div>"
    )


# -------------------------------------------------------------------------------------------- xarray


def to_xarray(results: ResultsFile, group: str = "") -> xarray.Dataset:
    """Return the arrays of a group as a dataset with named dimensions and coordinates.

    See `Results.to_xarray`.
    """
    # xarray looks for CuPy, which gives up at its import where it cannot make a folder for what it compiles
    ensure_kernel_cache()
    import xarray

    inside = [name for name in results.names if parent(name) == group]
    if not inside:
        groups = sorted({parent(name) for name in results.names})
        raise KeyError(
            f"{results.path} has no arrays in the group '{group}'; groups: {', '.join(map(repr, groups))}"
        )
    variables = {leaf(name): _variable(results, name) for name in inside}
    dims = {dim for name in inside for dim in results.dims(name)}
    above = group
    while above:  # a dimension that has no coordinate here may have one in a group above
        above = parent(above)
        for dim in dims - variables.keys():
            name = f"{above}/{dim}" if above else dim
            if name in results and results.dims(name) == (dim,):
                variables[dim] = _variable(results, name)
    # what no array runs along is data: xarray would take it for an axis by its name
    used = {dim for name in results.names for dim in results.dims(name) if leaf(name) != dim}
    variables = {
        name: xarray.Variable((f"{name}_index",), v.data, v.attrs)
        if v.dims == (name,) and name not in used
        else v
        for name, v in variables.items()
    }
    coordinates = {name: v for name, v in variables.items() if v.dims == (name,)}
    data = {name: v for name, v in variables.items() if name not in coordinates}
    attributes = {"method": results.method, "title": results.title, "created": results.created}
    numbers: dict[str, Any] = {}
    for name, s in results.scalars.items():
        known = {name: s.value, f"{name}_error": s.error, f"{name}_units": s.unit or None}
        numbers |= {key: value for key, value in known.items() if value is not None}
    return xarray.Dataset(data, coords=coordinates, attrs=attributes | numbers)


def _variable(results: ResultsFile, name: str) -> xarray.Variable:
    import xarray

    attributes = {"units": results.unit(name), "long_name": results.description(name)}
    if f"{name}_error" in results:
        attributes["ancillary_variables"] = f"{leaf(name)}_error"
    return xarray.Variable(results.dims(name), results[name], attributes)


# ------------------------------------------------------------------------------------------- figures


def output_of(method: str) -> Any:
    """Return the module ``output`` of a method; None for a method that this installation does not have."""
    # The name comes from the file: nothing else than a folder of this package may be imported.
    if not re.fullmatch(r"[a-z]+", method) or find_spec(f"qsim.{method}") is None:
        return None
    return importlib.import_module(f"qsim.{method}.output")


def figure_functions(results: R) -> Mapping[str, Callable[[R], Figure | None]]:
    """Return the figure functions of the method of a results file by name."""
    return getattr(output_of(results.method), "FIGURES", {})


def plot(
    results: ResultsFile, name: str = "overview", ax: Axes | SubFigure | None = None, **line: object
) -> Figure | SubFigure | None:
    """Draw a figure of the method, or an array against its coordinates.

    See `Results.plot`.
    """
    functions = figure_functions(results)
    if name in functions:
        with plotting.style(), plotting.into(ax):
            return functions[name](results)
    if name not in results:
        known = [*functions, *results.names]
        close = difflib.get_close_matches(name, known, n=1)
        guess = f", did you mean '{close[0]}'?" if close else ""
        listing = f"figures: {', '.join(functions)}; arrays: {', '.join(results.names)}"
        raise KeyError(f"no figure and no array '{name}'{guess}; {listing}")
    return _plot_array(results, name, ax, line)


def _plot_array(results: ResultsFile, name: str, ax: Any, line: Mapping[str, Any]) -> Figure | SubFigure:
    """Draw an array of one dimension as a line, of two as a map."""
    values = results[name]
    if values.ndim not in (1, 2) or values.dtype.kind not in "biufc":
        raise ValueError(
            f"array '{name}' of shape {values.shape} is neither a line nor a map; draw it from results['{name}']"
        )
    with plotting.style():
        if ax is None:
            fig = plotting.figure("single")
            ax = fig.subplots()
        labels = _axis_labels(results, name)
        coordinates = [_coordinate(results, name, axis) for axis in range(values.ndim)]
        # Of complex arrays, such as wave functions, the density.
        drawn = np.abs(values) ** 2 if np.iscomplexobj(values) else values
        label = f"|{results.label(name)}|²" if np.iscomplexobj(values) else results.label(name)
        if values.ndim == 1:
            ax.plot(coordinates[0], drawn, **line)
            ax.set(xlabel=labels[0], ylabel=label)
        else:
            mesh = ax.pcolormesh(coordinates[1], coordinates[0], drawn, shading="nearest", rasterized=True)
            ax.figure.colorbar(mesh, ax=ax, label=label)
            ax.set(xlabel=labels[1], ylabel=labels[0])
    return cast("Figure | SubFigure", ax.figure)


def coordinate_name(results: ResultsFile, name: str, axis: int) -> str | None:
    """Return the array that holds the coordinate of an axis, the nearest one above; None for a plain index."""
    dim, group = results.dims(name)[axis], parent(name)
    # The nearest group upwards, as when the file was written.
    while True:
        candidate = f"{group}/{dim}" if group else dim
        if candidate in results and results.dims(candidate) == (dim,):
            return candidate
        if not group:
            return None
        group = parent(group)


def _coordinate(results: ResultsFile, name: str, axis: int) -> Any:
    coordinate = coordinate_name(results, name, axis)
    size = results.shape(name)[axis]
    if coordinate is None:
        return np.arange(size)
    values = results[coordinate]
    return values if values.dtype.kind in "biuf" else np.arange(size)


def _axis_labels(results: ResultsFile, name: str) -> list[str]:
    coordinates = [coordinate_name(results, name, axis) for axis in range(len(results.shape(name)))]
    return [
        results.label(each) if each else dim
        for each, dim in zip(coordinates, results.dims(name), strict=True)
    ]

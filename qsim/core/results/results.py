"""A results file in the hands of a user: numbers, figures, tables and datasets of xarray."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.arrays import require_finite
from qsim.core.results.file import DAMAGED, ResultsFile, require_format
from qsim.core.results.hdf5 import open_hdf5
from qsim.core.results.reading import reading

if TYPE_CHECKING:
    import pandas as pd
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import NDArray

__all__ = ["Results", "open_complete", "open_results", "real_numbers"]


class Results(ResultsFile):
    """An open results file that draws, prints and hands out what it holds.

    Use :func:`open_results` to get one, best in a ``with`` statement.
    """

    def to_xarray(self, group: str = "") -> xarray.Dataset:
        """Return arrays as an xarray dataset, with named dimensions, coordinates, units and meanings.

        Parameters
        ----------
        group
            Part of the names before the last slash: ``"history"`` gives ``history/probability`` as ``probability``.

        Returns
        -------
        xarray.Dataset
            Its attributes hold method, title and all scalars: ``energy``, and where they are known ``energy_error`` and
            ``energy_units``. The attribute ``ancillary_variables`` of a variable names its errors. An array that no other has as
            its axis is a variable, not a coordinate.

        Raises
        ------
        KeyError
            If there is no such group.
        """
        from qsim.core.results.display.views import to_xarray

        return to_xarray(self, group)

    def to_dataframe(self, *names: str) -> pd.DataFrame:
        """Return scalars or arrays as a table of pandas.

        Parameters
        ----------
        *names
            Arrays, whose axes are the index, each with its error beside it where there is one; without names the scalars: value,
            error, unit and meaning of each.

        Raises
        ------
        KeyError
            If there is no such array.
        """
        import pandas as pd

        if names:
            # a name that is not there is answered by the mapping
            wanted = [name for name in names if self[name] is not None]
            wanted += [error for name in wanted if (error := f"{name}_error") in self and error not in wanted]
            return pd.DataFrame(self.to_xarray()[wanted].to_dataframe())
        rows = [(s.value, s.error, s.unit, s.description) for s in self.scalars.values()]
        return pd.DataFrame(rows, index=list(self.scalars), columns=["value", "error", "unit", "meaning"])

    @property
    def figures(self) -> tuple[str, ...]:
        """Names of the figures that :meth:`plot` knows besides the names of arrays."""
        from qsim.core.results.display.views import figure_functions

        return tuple(figure_functions(self))

    def plot(
        self, name: str = "overview", ax: Axes | SubFigure | None = None, **line: object
    ) -> Figure | SubFigure | None:
        """Draw a figure of the method, or an array against its coordinates.

        Parameters
        ----------
        name
            A name of :attr:`figures`, or of an array of one or two dimensions.
        ax
            Where to draw: axes (a figure of the method takes their place in the grid), or a subfigure; by default a figure of
            its own.
        **line
            Properties of the line of an array, such as ``label`` and ``color``.

        Returns
        -------
        Figure
            What was drawn into, to be changed or saved with ``savefig``; None if the file lacks what the figure shows.

        Raises
        ------
        KeyError
            If there is no figure and no array of this name.
        ValueError
            If the array has three or more dimensions, or `ax` stands in no grid.
        """
        from qsim.core.results.display.views import plot

        return plot(self, name, ax, **line)

    def __repr__(self) -> str:
        """Return method, title, scalars and the names of the arrays."""
        from qsim.core.results.display.views import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        """Return the tables that a notebook shows."""
        from qsim.core.results.display.views import as_html

        return as_html(self)


def open_results(path: str | Path) -> Results:
    """Open a results file for reading.

    Raises
    ------
    FileError
        If the file is missing, is no qsim results file, is damaged, or has a newer major format version.
    """
    path = Path(path)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        raise FileError(
            f"{path} is a deck, not a results file", hint="give the .h5 file that its run has written"
        )
    if not path.is_file():
        raise FileError(f"no results file {path}", hint="give the .h5 file that a run has written")
    file = open_hdf5(path, "a results file of qsim")
    try:
        with reading(path, "a complete results file of qsim", hint=DAMAGED):
            require_format(path, file)
            return Results(path, file)
    except BaseException:
        file.close()
        raise


def open_complete(path: str | Path) -> Results:
    """Open the results of another run that a deck names; they must be of a complete run.

    Raises
    ------
    FileError
        As of :func:`open_results`, and if the run was not complete.
    """
    results = open_results(path)
    if results.status != "complete":
        results.close()
        raise FileError(f"{path} is not of a complete run, its status is '{results.status}'")
    return results


def real_numbers(
    results: ResultsFile, name: str, shape: tuple[int, ...] | None = None
) -> NDArray[np.float64]:
    """Return an array of the results of another run, which must hold finite real numbers.

    Parameters
    ----------
    results, name
        File and array.
    shape
        What the array must have; any if not given.

    Raises
    ------
    FileError
        If it is missing or anything else.
    """
    if name not in results:
        raise FileError(f"{results.path} has no array '{name}'; it has {', '.join(results.names)}")
    values = results[name]
    if values.dtype.kind not in "biuf" or (shape is not None and values.shape != shape):
        wanted = "" if shape is None else f" of shape {shape}"
        raise FileError(
            f"{results.path}: {name} has shape {values.shape} and type {values.dtype}; expected real numbers{wanted}"
        )
    require_finite(results.path, name, values)
    return np.asarray(values, dtype=np.float64)

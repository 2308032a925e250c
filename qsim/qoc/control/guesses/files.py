"""A first field from a file of columns, or from the results of another run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.tables import read_table
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.curves import table_curve

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.qoc.control.guesses.pulse import Pulse
    from qsim.qoc.deck.control import FileGuess

KEY = "control.guess.file"


def file(block: FileGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return the field of a file, times the shape of the deck."""
    field = pulse.checked(field_from_file(block, pulse.times, pulse.duration), KEY)
    return field * _shape_to_apply(block.file, pulse.times, pulse.shape)


def field_from_file(block: FileGuess, times: NDArray[np.float64], duration: float) -> NDArray[np.float64]:
    """Return a field read from two columns (t, eps) or from a qsim results file, at the midpoints (zero outside its range).

    Raises
    ------
    FileError
        If the file is damaged or does not hold a field at ascending times.
    InvalidInput
        If it holds no field, or one at other times.
    """
    path = block.file
    if str(path).endswith((".h5", ".hdf5")):
        t, eps = _field_of_results(path)
    else:
        columns = read_table(block)
        order = np.argsort(columns[:, 0], kind="stable")
        t, eps = columns[order, 0], columns[order, 1]
    if t.shape == times.shape and np.allclose(t, times, rtol=0, atol=1e-9 * duration):
        return eps.astype(float)
    if t.size < 2 or np.any(np.diff(t) <= 0):
        raise InvalidInput(KEY, f"{path} needs at least two distinct times")
    if t[-1] < times[0] or t[0] > times[-1]:
        raise InvalidInput(
            KEY, f"times from {t[0]:g} to {t[-1]:g} a.u. do not overlap the pulse of {duration:g} a.u."
        )
    if t.size >= 4:
        value = table_curve(path, t, eps).at(times)
        # midpoints lie up to half a step outside the samples
        margin = 0.75 * float(np.median(np.diff(t)))
        return np.where((times >= t[0] - margin) & (times <= t[-1] + margin), value, 0.0)
    return np.interp(times, t, eps, left=0.0, right=0.0)


def _field_of_results(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and field of a results file, (N,) each."""
    from qsim.core.results.results import open_complete, real_numbers

    with open_complete(path) as results:
        if "field" not in results or "time" not in results:
            raise InvalidInput(KEY, f"{path} holds no field; give a results file of qsim qoc")
        t = real_numbers(results, "time")
        eps = real_numbers(results, "field", (t.size,))
    if np.any(np.diff(t) <= 0):
        raise FileError(f"{path}: the times do not ascend")
    return t, eps


def _shape_to_apply(
    path: Path, times: NDArray[np.float64], shape: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor that gives a field from a file the deck's shape; what a results file bears is not applied twice."""
    if not str(path).endswith((".h5", ".hdf5")):
        return shape
    from qsim.core.results.results import open_complete, real_numbers

    with open_complete(path) as results:
        if "shape" not in results:
            return shape
        t = real_numbers(results, "time")
        old = np.interp(times, t, real_numbers(results, "shape", (t.size,)))
    return np.minimum(shape / np.maximum(old, 1e-12), 1.0)

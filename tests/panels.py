"""Curves of figures, read back: each shows numbers of the results file, or is listed as derived from them."""

import re

import numpy as np
from matplotlib.container import ErrorbarContainer

from qsim.core.results.display import overlay

FEWEST = 3  # points of a curve that tell which numbers it shows
CLOSE = 1e-6  # of the extent of a curve, by which scaled numbers may differ
ROWS = 600  # of a table that are tried

# Curves that show no row or column of an array up to a factor and a constant, by "METHOD FIGURE" and "PANEL: LABEL".
DENSITY = r"^density.*: (t = 0|end)$"  # |psi|^2 of the stored states, thinned to what a page can show
DERIVED = {
    # means over many blocks, shown at the middle of each
    "qmc trace": (r"energy \(hartree\): _child1$",),
    # means over directions of a density on a grid, or with r^2 of bins whose edges alone are stored
    "qmc overview": (r"^\$4\\pi r\^2 n\(r\)",),
    "qmc density": (r"^\$4\\pi r\^2 n\(r\)",),
    # the guess with constraints applied, and the envelope of many cycles
    "qoc fields": ("guess$", "_child2$"),
    "qoc line_search": ("midpoints$",),
    # a projection of the sphere, not of numbers of the file
    "qoc bloch": (".*",),
    # functions evaluated between the points of the grid that are stored
    "sturmian basis": (r"^\$S_\{n",),
    "sturmian density": ("^radial density",),
    # the profile of a fit, finer than the photon energies of the deck
    "sturmian fano": (": Fano$",),
    # differences from what is not stored as an array: the energy on the grid, the rate of the formula
    "sturmian convergence": (r"^\$E - E_\\mathrm\{grid\}",),
    "sturmian rates": ("nested quadrature",),
    # the potential itself, cut where it leaves the panel
    "tridiag states": ("^potential and levels: _child0$", DENSITY),
    "tridiag overview": (DENSITY,),
    # integrals of the field of the deck over time
    "tridiag attoclock": (r"-A\(t\)\$$",),
    "tridiag field": (r"^A \(a\.u\.\)",),
    # the smallest of the measured times of each size
    "tridiag optimum_vs_n": (r"partitions?$",),
    # differences of 1e-15 from one, whose digits scaling loses
    "trotter drift": (r"\\rangle - 1\|\$$",),
    # distributions of the theory
    "trotter overview": ("Poisson$", "GOE$"),
    "trotter gap_ratio": ("Poisson$", "GOE$"),
}


def stored(results):
    """Return the curves that a results file holds: rows and columns of all arrays; of complex ones parts, sizes and phases."""
    found = []
    for name in results.names:
        array = np.asarray(results[name])
        if array.dtype.kind not in "fciub" or not array.size:
            continue
        forms = [array]
        if array.dtype.kind == "c":
            forms = [array.real, array.imag, np.abs(array), np.abs(array) ** 2, np.angle(array)]
        for form in forms:
            found += [(name, row) for row in rows(form.astype(float))]
    return found


def rows(array):
    """Return the rows of an array along each axis, and sums over all other axes."""
    out = []
    for axis in range(array.ndim):
        moved = np.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
        out += list(moved[:ROWS])
        if len(moved) > 1:
            out.append(moved.sum(axis=0))
    if array.ndim > 1:
        out.append(array.ravel())
    return out


def changes(row):
    """Return a row as figures show it: as it is, twice each (steps), thinned out, its drift, its distance from 1, its inverse."""
    yield row
    yield np.repeat(row, 2)
    if row.size:
        yield np.abs(row - row[0])
        yield np.abs(row - row[-1])
    yield np.abs(row - 1.0)
    yield np.abs(row)
    with np.errstate(all="ignore"):
        yield 1.0 / row
        yield np.sqrt(row)
        yield -np.log(row)


def thinned(row, size):
    """Return the rows of `size` numbers that are every k-th of a longer one."""
    for step in range(2, 13):
        for first in (0, step // 2):
            short = row[first::step]
            if abs(short.size - size) <= 1:
                yield short[:size]
    if row.size > size:
        yield row[:size]
        yield row[-size:]


def shown_by(values, curves):
    """Return the name of an array of which a curve shows a part, up to a factor and a constant; None if there is none."""
    good = np.isfinite(values)
    if good.sum() < FEWEST or np.ptp(values[good]) == 0.0:
        return "constant"
    for name, row in curves:
        for form in changes(row):
            same_size = [form] if form.size == values.size else thinned(form, values.size)
            if any(agree(values, one, good) for one in same_size if one.size == values.size):
                return name
    return None


def agree(values, row, good):
    """Tell whether numbers are those of a row up to a factor and a constant."""
    if not np.all(np.isfinite(row[good])):
        return False
    shown, kept = values[good], row[good]
    spread = np.ptp(kept)
    if spread == 0.0:
        return False
    low, high = int(np.argmin(kept)), int(np.argmax(kept))
    factor = (shown[high] - shown[low]) / spread
    return bool(np.abs(factor * (kept - kept[low]) + shown[low] - shown).max() <= CLOSE * np.ptp(shown))


def caps(ax):
    """Return the lines at the ends of error bars: value and error together."""
    bars = (one for one in ax.containers if isinstance(one, ErrorbarContainer))
    return {line for bar in bars for line in bar.lines[1]}


def unexplained(results, name, figure):
    """Return the curves of a figure that show nothing stored and are not listed: title of the panel, label.

    Parameters
    ----------
    results : Results
    name : str
        "METHOD FIGURE", as in `DERIVED`.
    figure : Figure
    """
    curves = stored(results)
    missing = []
    for ax in overlay._axes(figure):
        ends = caps(ax)
        for line in overlay._curves(ax):
            x, y = np.asarray(line.get_xydata(), float).T
            label = f"{ax.get_title() or ax.get_ylabel()}: {line.get_label()}"
            if line in ends or any(re.search(pattern, label) for pattern in DERIVED.get(name, ())):
                continue
            with np.errstate(all="ignore"):
                shell = y / x**2  # of a density per volume: radial densities are shown times 4 pi r^2
            if shown_by(y, curves) is None and shown_by(shell, curves) is None:
                missing.append(label)
    return missing

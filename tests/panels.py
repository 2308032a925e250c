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
    # a distribution of the mean that is stored beside
    "trotter counting": ("Poisson$",),
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


def by_length(results):
    """Return the curves of a file as tables, one per length, so that a shown curve is compared with all of a table at once."""
    lengths = {}
    for name, row in stored(results):
        lengths.setdefault(row.size, []).append((name, row))
    return [([name for name, _ in same], np.array([row for _, row in same])) for same in lengths.values()]


def changes(table):
    """Return rows as figures show them: as they are, twice each (steps), drifts, distances from 1, inverses."""
    yield table
    yield np.repeat(table, 2, axis=1)
    if table.shape[1]:
        yield np.abs(table - table[:, :1])
        yield np.abs(table - table[:, -1:])
    yield np.abs(table - 1.0)
    yield np.abs(table)
    yield 1.0 / table
    yield np.sqrt(table)
    yield -np.log(table)


def thinned(table, size):
    """Return the rows of `size` numbers that are every k-th of longer ones."""
    for step in range(2, 13):
        for first in (0, step // 2):
            short = table[:, first::step]
            if abs(short.shape[1] - size) <= 1:
                yield short[:, :size]
    if table.shape[1] > size:
        yield table[:, :size]
        yield table[:, -size:]


def shown_by(values, tables):
    """Return the name of an array of which a curve shows a part, up to a factor and a constant; None if there is none."""
    good = np.isfinite(values)
    if good.sum() < FEWEST or np.ptp(values[good]) == 0.0:
        return "constant"
    with np.errstate(all="ignore"):
        for names, table in tables:
            for form in changes(table):
                same_size = [form] if form.shape[1] == values.size else thinned(form, values.size)
                for rows_shown in same_size:
                    if rows_shown.shape[1] != values.size:
                        continue
                    alike = agree(values[good], rows_shown[:, good])
                    if alike.any():
                        return names[int(np.argmax(alike))]
    return None


def agree(shown, table):
    """Tell of each row whether numbers are its own up to a factor and a constant."""
    usable = np.isfinite(table).all(axis=1)
    usable[usable] = np.ptp(table[usable], axis=1) > 0.0
    kept = table[usable]
    each = np.arange(len(kept))
    low, high = kept.argmin(axis=1), kept.argmax(axis=1)
    lowest = kept[each, low][:, None]
    factor = (shown[high] - shown[low])[:, None] / (kept[each, high][:, None] - lowest)
    distance = factor * (kept - lowest) + shown[low][:, None] - shown
    found = np.zeros(len(table), bool)
    found[usable] = np.abs(distance).max(axis=1) <= CLOSE * np.ptp(shown)
    return found


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
    tables = by_length(results)
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
            if shown_by(y, tables) is None and shown_by(shell, tables) is None:
                missing.append(label)
    return missing

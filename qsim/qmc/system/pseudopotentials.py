r"""Semilocal pseudopotentials: ``V = V_loc(r) + sum_l [V_l(r) - V_loc(r)] sum_m |lm><lm|``.

They come as FSATOM/QMCPACK XML files or as sums of ``c r^(n-2) exp(-a r^2)`` (effective core potentials of quantum chemistry,
such as ccECP).  The local part is kept as ``r V_loc + Zeff``, which is short-ranged and regular; of the nonlocal part, what
differs from the local channel, up to a cutoff.  Terms up to r^-2 are replaced next to the ion by polynomials with the same
matrix elements (:class:`Finite`).
"""

from __future__ import annotations

import functools
import math
import operator
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.reading import read_bytes, reading
from qsim.core.text import shorten
from qsim.qmc.system import radial
from qsim.qmc.system.radial import Jet, RadialFunction, Terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Finite", "Pseudopotential", "from_ecp", "read_xml"]

EXPECTED = "a semilocal pseudopotential in the FSATOM XML format"
MAX_XML = 64 * 2**20  # bytes
LARGEST_CHARGE = 200.0
LARGEST_VALUE = 1e8  # hartree bohr, of r V
LETTERS = "spdfg"
SMALL = 1e-5  # hartree: beyond the radius where all differences are smaller, they are left out
UNITS = {"hartree": 1.0, "rydberg": 0.5}
INNER = 2.0**-8  # bohr, 8 intervals of the tables: an r^-2 beyond is right to 1e-6 of itself in them
UNSUPPORTED = {"local": "a separate local potential", "L2": "an L2 operator"}

Ecp = tuple[
    int, list[tuple[int, list[list[tuple[float, float]]]]]
]  # PySCF's: (core electrons, [(l, terms by power), ...])


@dataclass(frozen=True)
class Pseudopotential:
    """The pseudopotential of one species.

    Attributes
    ----------
    symbol
        Of the element.
    charge
        Effective charge Zeff.
    local
        ``r V_loc + Zeff``, hartree bohr.
    local_range
        Radius from which that is negligible, bohr.
    delta
        ``V_l - V_loc`` for l = 0, 1, ...; None where it vanishes.
    cutoff
        Radius beyond which all of those are left out, bohr.
    origin
        Where it comes from, for messages and results.
    """

    symbol: str
    charge: float
    local: RadialFunction
    local_range: float
    delta: tuple[RadialFunction | None, ...]
    cutoff: float
    origin: str = ""

    @property
    def channels(self) -> int:
        """Number of l that `tables` has."""
        return len(self.delta)

    def tables(self, channels: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the tables (INTERVALS, 6) of the local part and (channels, INTERVALS, 6) of the differences."""
        delta = np.zeros((channels, radial.INTERVALS, 6))
        # whole intervals: at the cutoff, kernels look at the radius itself
        # One table for each channel; those that vanish stay zero.
        rmax = radial.knot_at_or_after(self.cutoff)
        for l, f in enumerate(self.delta):
            if f is not None:
                delta[l] = radial.table(f, rmax)
        return radial.table(self.local, radial.knot_at_or_after(self.local_range)), delta


# ------------------------------------------------------------------------------------ analytic


def from_ecp(symbol: str, number: int, ecp: Ecp, origin: str = "") -> Pseudopotential:
    """Build the pseudopotential of an effective core potential in the form of PySCF.

    Parameters
    ----------
    symbol, number
        Element and its atomic number.
    ecp
        Electrons of the core, and for l = -1 (local) and l = 0, 1, ... the pairs (a, c) of ``c r^(n-2) exp(-a r^2)`` by n.

    Raises
    ------
    FileError
        If there is no local channel.
    """
    core, parts = ecp
    charge = float(number - core)
    # l = -1 is the local part of PySCF's format; the others are differences from it already.
    by_l = {int(l): terms for l, terms in parts}
    if -1 not in by_l:
        raise FileError(f"the pseudopotential of {symbol} ({origin}) has no local channel")
    # The local part is kept as r V + Zeff, which is finite at r = 0 and ends at a finite
    # range.
    local = _ecp_function(by_l[-1], -1)
    delta = tuple(_ecp_function(by_l.get(l, []), l) for l in range(max(by_l) + 1))
    f = local if local is not None else Terms.of(0.0)
    return Pseudopotential(symbol, charge, f, radial.reach_of(f), delta, _cutoff(delta), origin)


def _ecp_function(by_power: Sequence[Sequence[Sequence[float]]], l: int) -> RadialFunction | None:
    """Return the sum of the terms, for l = -1 times r; None if it vanishes; by_power[n] holds the pairs (a, c) of r^(n-2)."""
    found = [
        (n - 2, float(pair[1]), float(pair[0]))
        for n, pairs in enumerate(by_power)
        for pair in pairs
        if pair[1] != 0.0
    ]
    if not found:
        return None
    lowest, raised = min(found)[0], 1 if l < 0 else 0
    if lowest + raised >= 0:
        return _sum(found, raised)
    finite = Finite(_sum(found, 2), max(l, 0))
    return finite.times_r if l < 0 else finite


def _sum(found: Sequence[tuple[int, float, float]], raised: int) -> Terms:
    """Return ``r^raised`` times the terms (power, c, a)."""
    terms = [Terms.of(c, power + raised, 0.0, a) for power, c, a in found]
    return functools.reduce(operator.add, terms)


class Finite:
    r"""A potential :math:`V=g(r)/r^2` that is finite at r = 0, with the same matrix elements.

    Below `INNER` an even polynomial of degree 6 takes its place, with the value, slope and curvature of V there, and its integral
    with :math:`r^{2l+2}`.  V acts on what orbitals have of the angular momentum l, whose square is
    :math:`r^{2l}(c_0+c_2r^2+\dots)` next to the ion: what is left is of the order `INNER` to the power 3 + 2l.

    Parameters
    ----------
    g
        Regular, with g(0) that need not vanish.
    l
        Angular momentum on which V acts; 0 for a local potential.
    """

    def __init__(self, g: Terms, l: int) -> None:
        self.g = g
        k = np.arange(4)
        x, weights = np.polynomial.legendre.leggauss(16)
        x, weights = 0.5 * (x + 1.0), 0.5 * weights
        inside = g(INNER * x).value * weights / INNER**2
        value, slope, curvature = (float(part[0]) for part in self._outer(np.array([INNER])))
        conditions = [
            np.ones(4),
            2 * k,
            2 * k * (2 * k - 1),
            1 / (2 * k + 2 * l + 3),
        ]
        known = [value, INNER * slope, INNER**2 * curvature, inside @ x ** (2 * l)]
        self.c = np.linalg.solve(np.array(conditions), np.array(known))

    def _outer(self, r: NDArray[np.float64]) -> Jet:
        g = self.g(r)
        # Quotient rule for g / r^2 and its two derivatives.
        return Jet(
            g.value / r**2,
            (g.slope - 2.0 * g.value / r) / r**2,
            (g.curvature - 4.0 * g.slope / r + 6.0 * g.value / r**2) / r**2,
        )

    def __call__(self, r: NDArray[np.float64]) -> Jet:
        """Return the jet of V at radii (n,) in bohr, r = 0 included."""
        x = np.asarray(r, np.float64) / INNER
        p = np.polynomial.Polynomial(np.stack([self.c, np.zeros(4)], -1).ravel())
        close = (p(x), p.deriv()(x) / INNER, p.deriv(2)(x) / INNER**2)
        far = self._outer(np.maximum(r, INNER))
        return Jet(*(np.where(x < 1.0, a, b) for a, b in zip(close, far, strict=True)))

    def times_r(self, r: NDArray[np.float64]) -> Jet:
        """Return the jet of r V."""
        v = self(r)
        return Jet(r * v.value, v.value + r * v.slope, 2.0 * v.slope + r * v.curvature)


def _cutoff(delta: Sequence[RadialFunction | None]) -> float:
    """Return the smallest radius beyond which all functions are below `SMALL`."""
    # On a mesh of 0.001 bohr up to 20 bohr, the last radius where any channel matters.
    r = np.asarray(np.arange(1, 20001) * 1e-3, np.float64)
    size = np.max([np.abs(f(r).value) for f in delta if f is not None] or [np.zeros_like(r)], axis=0)
    large = np.flatnonzero(size >= SMALL)
    return 0.0 if large.size == 0 else float(r[min(large[-1] + 1, r.size - 1)])


# ---------------------------------------------------------------------------------------- files


class _Grid(NamedTuple):
    """The content of a grid element: kind, ends, number of points."""

    kind: str
    first: float
    last: float
    size: int

    def points(self) -> NDArray[np.float64]:
        if self.kind == "linear":
            return np.linspace(self.first, self.last, self.size)
        return np.geomspace(self.first, self.last, self.size)


class _Product:
    """``r V + Zeff`` from a table of r V."""

    def __init__(self, r: NDArray[np.float64], values: NDArray[np.float64], charge: float) -> None:
        from scipy.interpolate import CubicSpline

        self.spline = CubicSpline(r, values + charge)
        self.last = float(r[-1])

    def __call__(self, r: NDArray[np.float64]) -> Jet:
        # Beyond the last point of the table r V is -Zeff, and the product is zero.
        inside = r <= self.last
        x = np.minimum(r, self.last)
        return Jet(*(np.asarray(self.spline(x, d)) * inside for d in range(3)))


class _Quotient:
    """A potential V from a table of r V."""

    def __init__(self, r: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        from scipy.interpolate import CubicSpline

        self.spline = CubicSpline(r, values)
        self.last = float(r[-1])
        # next to r = 0, where the quotient of splines loses digits, V is even: a + b r^2 + c r^4 through the first points
        self.near = float(r[4])
        first = r[1:6]
        self.even = np.linalg.solve(first[:3, None] ** np.array([0, 2, 4]), values[1:4] / first[:3])

    def __call__(self, r: NDArray[np.float64]) -> Jet:
        inside = r <= self.last
        x = np.clip(r, self.near, self.last)
        s, ds, dds = (np.asarray(self.spline(x, d)) for d in range(3))
        # Quotient rule for s / r and its two derivatives.
        far = Jet(s / x, (ds - s / x) / x, (dds - 2.0 * (ds - s / x) / x) / x)
        a, b, c = self.even
        close = Jet(a + b * r**2 + c * r**4, 2 * b * r + 4 * c * r**3, 2 * b + 12 * c * r**2)
        return Jet(*(np.where(r < self.near, p, q) * inside for p, q in zip(close, far, strict=True)))


def read_xml(path: str | Path, symbol: str) -> Pseudopotential:
    """Read a semilocal pseudopotential in the FSATOM XML format, as QMCPACK does.

    Parameters
    ----------
    path
        The file.
    symbol
        The element that the deck gives it to.

    Returns
    -------
    Pseudopotential
        With ``V_l - V_loc`` beyond the largest cutoff of the file left out.

    Raises
    ------
    FileError
        For files that cannot be read, that are for another element, lack a channel, or contain what is not supported.
    """
    # A size limit: XML files of pseudopotentials have some 100 kB.
    text = read_bytes(path, EXPECTED, MAX_XML)
    with reading(path, EXPECTED), np.errstate(all="ignore"):
        return _semilocal(path, ElementTree.fromstring(text), symbol)


def _semilocal(path: str | Path, root: ElementTree.Element, symbol: str) -> Pseudopotential:
    """Read a pseudopotential with one radial function per angular momentum."""
    header, semilocal = root.find("header"), root.find("semilocal")
    if header is None or semilocal is None:
        missing = "header" if header is None else "semilocal"
        raise FileError(f"{path} is not a semilocal pseudopotential: the element <{missing}> is missing")
    # Labels of a deck may carry a number, as C1, to tell species apart.
    element = header.get("symbol", "").strip()
    if element.capitalize() != "".join(c for c in symbol if c.isalpha()).capitalize():
        raise FileError(f"{path} is a pseudopotential of '{element}', but the deck gives it to '{symbol}'")
    # Refused, not ignored: the energy would be wrong without a sign.
    for tag, words in UNSUPPORTED.items():
        if root.find(f".//{tag}") is not None:
            raise FileError(f"{path} has {words} (<{tag}>), which is not supported")
    if root.find(".//vps_so") is not None or header.get("relativistic", "no").lower() == "so":
        raise FileError(f"{path} has spin-orbit channels, which are not supported")
    scale = UNITS.get(semilocal.get("units", "hartree").lower())
    form = semilocal.get("format", "r*V")
    if scale is None or form not in ("r*V", "V"):
        raise FileError(
            f"{path}: units must be hartree or rydberg and the format r*V or V, found {semilocal.get('units')!r} and {form!r}"
        )
    charge = _number(header, "zval", path)
    if not 0.0 < charge <= LARGEST_CHARGE:
        raise FileError(
            f"{path}: zval = {charge:g} is no charge of an ion; expected more than 0, at most {LARGEST_CHARGE:g}"
        )
    # A grid for all channels, unless a channel has one of its own.
    common = root.find("grid")
    channels, cutoffs = _channels(semilocal, common, path, scale, multiply=form == "V")
    local_l = _whole(semilocal, "l-local", path)
    if local_l not in channels:
        raise FileError(f"{path}: the local channel is l = {local_l}, which the file does not have")
    return _assemble(symbol, charge, channels, cutoffs, local_l, str(path))


def _channels(
    semilocal: ElementTree.Element,
    common: ElementTree.Element | None,
    path: str | Path,
    scale: float,
    *,
    multiply: bool,
) -> tuple[dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]], dict[int, float]]:
    """Return radii and r V (hartree) by l, and the cutoffs."""
    channels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    cutoffs: dict[int, float] = {}
    for vps in semilocal.findall("vps"):
        # Channels may come in any order.
        letter = vps.get("l", "")
        if letter not in LETTERS or len(letter) != 1:
            raise FileError(f"{path}: unknown channel l = {letter!r}; known are {', '.join(LETTERS)}")
        l = LETTERS.index(letter)
        if l in channels:
            raise FileError(
                f"{path}: channel {letter} is given twice; spin-polarised potentials are not supported"
            )
        own = vps.find("radfunc/grid")
        grid = _grid(own if own is not None else common, path)
        data = vps.find("radfunc/data")
        try:
            values = scale * np.array((data.text or "" if data is not None else "").split(), np.float64)
        except ValueError as error:
            raise FileError(f"{path}: channel {letter}: {error}") from error
        if len(values) != grid.size:
            raise FileError(
                f"{path}: channel {letter} must have {grid.size} finite numbers, found {len(values)}"
            )
        r = grid.points()
        rv = values * r if multiply else values
        wrong = np.flatnonzero(~(np.abs(rv) <= LARGEST_VALUE))
        if wrong.size:
            raise FileError(
                f"{path}: channel {letter}: number {wrong[0] + 1} is {values[wrong[0]]:g}; expected finite numbers with "
                f"|r V| up to {LARGEST_VALUE:g} hartree bohr"
            )
        # Logarithmic grids begin above zero.
        if r[0] > 0.0:  # r V starts from 0
            r, rv = np.concatenate([[0.0], r]), np.concatenate([[0.0], rv])
        channels[l] = (r, rv)
        cutoffs[l] = np.nan if vps.get("cutoff") is None else _number(vps, "cutoff", path)
        if cutoffs[l] < 0.0:
            raise FileError(
                f"{path}: channel {letter} has the cutoff {cutoffs[l]:g}; expected a radius in bohr"
            )
    # A count that differs means that channels were lost.
    expected = len(channels) if semilocal.get("npots-down") is None else _whole(semilocal, "npots-down", path)
    if expected != len(channels):
        raise FileError(f"{path}: {expected} channels are announced, {len(channels)} are there")
    return channels, cutoffs


def _assemble(
    symbol: str,
    charge: float,
    channels: dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]],
    cutoffs: dict[int, float],
    local_l: int,
    origin: str,
) -> Pseudopotential:
    """Return the pseudopotential of channels r V_l(r): the local one, and differences from it."""
    # Differences from the local channel, on one grid; quotients by r come after the
    # difference, where the Coulomb tails have cancelled.
    r, local = channels[local_l]
    delta: list[RadialFunction | None] = [None] * (max(channels) + 1)
    for l, (own, rv) in channels.items():
        if l != local_l:
            if own.shape != r.shape or not np.allclose(own, r, rtol=0.0, atol=1e-12):
                raise FileError(f"{origin}: all channels must have one radial grid")
            delta[l] = _Quotient(r, rv - local)
    missing = [LETTERS[l] for l in range(max(channels)) if l not in channels]
    if missing:
        raise FileError(f"{origin}: channel {', '.join(missing)} is missing, although a higher one is there")
    # The local channel may be the highest one: it needs no entry.
    while delta and delta[-1] is None:
        delta.pop()
    # The file's own cutoffs, or where the differences have died off.
    given = [cutoffs[l] for l in channels if l != local_l]
    cutoff = max(given, default=0.0) if np.all(np.isfinite(given)) else _cutoff(delta)
    product = _Product(r, local, charge)
    # the table of r V carries about 12 digits
    far = np.flatnonzero(np.abs(local + charge) > 1e-10 * max(1.0, charge))
    reach = float(r[min(far[-1] + 1, r.size - 1)]) if far.size else 0.0
    return Pseudopotential(symbol, charge, product, reach, tuple(delta), min(cutoff, float(r[-1])), origin)


def _grid(element: ElementTree.Element | None, path: str | Path) -> _Grid:
    if element is None:
        raise FileError(f"{path}: a channel has no radial grid")
    kind = element.get("type", "linear")
    if kind not in ("linear", "log") or element.get("units", "bohr") != "bohr":
        raise FileError(
            f"{path}: grids must be linear or log, in bohr; found {kind!r} in {element.get('units')!r}"
        )
    grid = _Grid(
        kind, _number(element, "ri", path), _number(element, "rf", path), _whole(element, "npts", path)
    )
    if grid.size < 8 or not 0.0 <= grid.first < grid.last or (kind == "log" and grid.first == 0.0):
        raise FileError(
            f"{path}: a radial grid of {grid.size} points from {grid.first:g} to {grid.last:g} is not possible"
        )
    return grid


def _number(element: ElementTree.Element, name: str, path: str | Path) -> float:
    text = element.get(name)
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileError(f"{path}: <{element.tag}> needs the finite number {name}, found {_quoted(text)}")
    return value


def _whole(element: ElementTree.Element, name: str, path: str | Path) -> int:
    value = _number(element, name, path)
    if not value.is_integer():
        raise FileError(
            f"{path}: <{element.tag}> needs the whole number {name}, found {_quoted(element.get(name))}"
        )
    return int(value)


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else shorten(repr(text))

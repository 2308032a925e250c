"""Arrays and numbers that kernels of an atom take together.

Numba passes a named tuple like its members, one by one: a record costs no time, and calls name what they hand on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = [
    "Carries",
    "Cayley",
    "Couplings",
    "Kicks",
    "Links",
    "Mix",
    "PairTile",
    "Pivots",
    "Planar",
    "Radial",
    "Ring",
    "Rows",
    "Samples",
    "Share",
    "Tile",
    "Turning",
    "Way",
]


class Rows(NamedTuple):
    """Positions ``low <= i < high`` of a sweep; position i is row ``begin + step i`` of the grid."""

    begin: Any
    step: Any
    low: Any
    high: Any


class Tile(NamedTuple):
    """Lanes ``at ... at + count - 1``, at most `WIDTH`; a row of the state has ``lanes`` real and as many imaginary parts."""

    lanes: Any
    at: Any
    count: Any


class PairTile(NamedTuple):
    """Pairs ``at ... at + count - 1``, at most `WIDTH`, of the lanes ``lower + i`` and ``upper + i``."""

    lanes: Any
    lower: Any
    upper: Any
    at: Any
    count: Any


class Way(NamedTuple):
    """Direction and work of a sweep.

    Attributes
    ----------
    down : bool
        From the first row to the last, or the other way round.
    solve : bool
        Whether it substitutes the radial step whose elimination came from the other side.
    go_on : bool
        Whether it eliminates the next radial step.
    """

    down: Any
    solve: Any
    go_on: Any


class Share(NamedTuple):
    """One thread's part of a sweep.

    Attributes
    ----------
    part, parts : int
        Number of the thread, and of all threads.
    first, last : int
        Its pairs; `first` is a multiple of `WIDTH`.
    lanes : int
        Lanes of the state.
    done : int
        Address of the numbers of parts of ranges that each thread has completed.
    """

    part: Any
    parts: Any
    first: Any
    last: Any
    lanes: Any
    done: Any


class Samples(NamedTuple):
    """Sums that are taken after some steps.

    Attributes
    ----------
    places : (steps + 1,) int64
        Place of the sums after that many steps, -1 for none; -1 at 0.
    sums : (places, n, 3 or 6) float64
        Sums of each row.
    last : int, or (count,) int64
        Lane, or lanes, of the largest l.
    """

    places: Any
    sums: Any
    last: Any


class Pivots(NamedTuple):
    """Inverse pivots of ``M2 + q``, (n, 4 K) or flat: of the eliminations from the first row (`down`), the last row (`up`)."""

    down: Any
    up: Any


class Radial(NamedTuple):
    """Coefficients of the radial step, as of `pivots`.

    Attributes
    ----------
    a : (n,) float64
        ``r'^2 / (6 tau)``.
    potential : (2 n,) or (n, 2) float64
        ``r'^2 (V + Q / 2r'^2) / 6`` and ``-r'^2 W / 6`` of each row.
    rotation : (n,) float64
        ``r'^2 / (12 r^2)``, which ``l (l + 1)`` multiplies.
    ll, first : (2 K,) float64
        ``l (l + 1)`` and ``(M2)_11`` of each lane.
    """

    a: Any
    potential: Any
    rotation: Any
    ll: Any
    first: Any


class Mix(NamedTuple):
    """The grid as the Cayley steps of velocity gauge need it: 1 / r, 1 / r' and the root of r', (n,) float64."""

    inverse_r: Any
    inverse_slope: Any
    root: Any


class Couplings(NamedTuple):
    """c_l of the even and odd pairs, and ``c_l (l + 1)``, (K,) float64 each; zero where there is no pair."""

    even: Any
    odd: Any
    even_growth: Any
    odd_growth: Any


class Carries(NamedTuple):
    """State of the radial step between two ranges of rows, for either half of a thread's lanes."""

    own: Any
    other: Any


class Ring(NamedTuple):
    """Eliminated rows of a Cayley step that wait for their substitution; ``size`` positions, a power of two, per tile."""

    y: Any
    size: Any


class Cayley(NamedTuple):
    """One Cayley step of velocity gauge.

    Attributes
    ----------
    odd : bool
        Of the odd pairs.
    g : float
        A dt.
    mirrored : bool
        Whether the sweep goes up, where d/dr has the other sign.
    coupling, growth : (K,) float64
        c_l and ``c_l (l + 1)`` of the pairs.
    """

    odd: Any
    g: Any
    mirrored: Any
    coupling: Any
    growth: Any


class Kicks(NamedTuple):
    """A(t) of the steps: ``ends`` (steps + 1,) for the even pairs, ``middles`` (steps,) for the odd pairs, and dt."""

    ends: Any
    middles: Any
    dt: Any


class Turning(NamedTuple):
    """A field that turns: its size and its angle in every step, (steps,) float64, and dt."""

    sizes: Any
    directions: Any
    dt: Any


class Links(NamedTuple):
    """Lanes that the field couples, of planar lanes.

    Attributes
    ----------
    pairs : (count, 2) int64
        Lanes of (l, m) and (l + 1, m +- 1).
    coupling : (count,) float64
        ``<l + 1, m +- 1| sin(theta) cos(phi) |l m>``.
    sign : (count,) float64
        +1 for m + 1, -1 for m - 1.
    """

    pairs: Any
    coupling: Any
    sign: Any


class Planar(NamedTuple):
    """Lanes of planar polarisation.

    Attributes
    ----------
    swaps : (count, 2) int64
        Lanes to exchange between pairs to m - 1 and pairs to m + 1.
    turns : (2 K,) float64
        m of swapped lanes.
    links : Links
    scratch : (threads, SCRATCH) float64
        One row at a time; see `length`.
    """

    swaps: Any
    turns: Any
    links: Any
    scratch: Any

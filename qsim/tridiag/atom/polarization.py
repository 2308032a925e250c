r"""Direction of the field: axes of the run, components of the field, the initial state in these axes.

A run has axes of its own.  A field of constant direction lies along their z, where m is conserved, if the initial state has
one m about that direction, and along their x otherwise.  A field that turns lies in their xy plane: ``E0 / sqrt(1 + e^2)``
along x, and e times that along y, a quarter of a cycle later (left) or earlier (right).  The cycle average of the intensity
equals the one of a linear field of peak E0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import roots_legendre, sph_harm_y

from qsim.tridiag.atom.states import stored
from qsim.tridiag.atom.states.lanes import AnyLanes, Lanes, PlanarLanes
from qsim.tridiag.deck.atom import LinearPolarization
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.kernels.atom.length import HALF
from qsim.tridiag.tdse.polarization import PlaneField
from qsim.tridiag.tdse.pulses import LaserField

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from qsim.tridiag.deck.atom import AtomDeck

__all__ = ["Frame", "StepField", "field_of", "frame_of", "rotated"]

# amplitude of a component of a rotated state that is not there
NOTHING = 1e-10


@dataclass(frozen=True)
class Frame:
    """Axes of a run, and its initial state in them.

    Attributes
    ----------
    axes : (3, 3) float64
        Rows: unit vectors of x, y and z of the run, in the axes of the deck.
    planar : bool
        Whether the field lies in the xy plane of the run; otherwise it lies along z.
    parts : tuple of (index, m, amplitude)
        What the levels of the deck, by index, are made of: m about z of the run.
    levels : tuple of int
        L of the levels of the deck.
    """

    axes: NDArray[np.float64]
    planar: bool
    parts: tuple[tuple[int, int, complex], ...]
    levels: tuple[int, ...]

    @property
    def m(self) -> int:
        """The m that is conserved, of a field along z."""
        return self.parts[0][1]

    @property
    def parities(self) -> tuple[int, ...]:
        """``(l + m) mod 2`` of the initial state."""
        return tuple(sorted({(self.levels[index] + m) % 2 for index, m, _ in self.parts}))

    def lanes(self, lmax: int) -> AnyLanes:
        """Return the channels up to an l."""
        return PlanarLanes(self.parities, lmax) if self.planar else Lanes(self.m, lmax)

    @property
    def most(self) -> int:
        """Largest l that the kernels take."""
        if not self.planar:
            return 1000
        both = len(self.parities) == 2
        return int(math.sqrt((2.0 if both else 4.0) * HALF)) - 3


def rotated(l: int, m: int, axes: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return the amplitudes of ``|l m>`` of the deck in states ``|l m'>`` of other axes, m' = -l ... l, (2 l + 1,)."""
    if np.array_equal(axes, np.eye(3)):
        return np.asarray(np.arange(-l, l + 1) == m, dtype=complex)
    return np.asarray(_turn(l, np.ascontiguousarray(axes, dtype=float).tobytes())[:, m + l])


@lru_cache(maxsize=256)
def _turn(l: int, axes: bytes) -> NDArray[np.complex128]:
    """Return `rotated` of all m as columns: both spherical harmonics are integrated over the sphere, exactly for their degree."""
    # Gauss-Legendre in cos(theta) and even azimuths: exact for products of two functions of degree l
    nodes, weights = roots_legendre(l + 1)
    count = 2 * l + 2
    azimuth = 2.0 * np.pi * np.arange(count) / count
    cos, phi = (grid.ravel() for grid in np.meshgrid(nodes, azimuth, indexing="ij"))
    weight = np.repeat(weights, count) * 2.0 * np.pi / count
    sin = np.sqrt(1.0 - cos * cos)
    # the same directions, seen from the axes of the deck
    lab = np.column_stack([sin * np.cos(phi), sin * np.sin(phi), cos]) @ np.frombuffer(axes).reshape(3, 3)
    theta = np.arccos(np.clip(lab[:, 2], -1.0, 1.0))
    m = np.arange(-l, l + 1)[:, None]
    there = sph_harm_y(l, m, theta[None, :], np.arctan2(lab[:, 1], lab[:, 0])[None, :])
    here = sph_harm_y(l, m, np.arccos(cos)[None, :], phi[None, :])
    return np.asarray(np.conj(here) @ (weight * there).T)


def _axes(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal axes with x along `first` and y in the plane of both."""
    x = first / np.linalg.norm(first)
    # Gram-Schmidt, and z = x cross y
    y = second - (second @ x) * x
    y = y / np.linalg.norm(y)
    # zeros without a sign and without rounding: m is then conserved exactly
    axes = np.array([x, y, np.cross(x, y)])
    return np.where(np.abs(axes) < 1e-15, 0.0, axes) + 0.0


def frame_of(deck: AtomDeck) -> Frame:
    """Return the axes of a run and its initial state.

    Raises
    ------
    FileError
        If the initial state is in a file that cannot be used.
    """
    # a field that turns spans the xy plane of the run; its main axis is x
    polarization, sources = deck.polarization, _sources(deck)
    if not isinstance(polarization, LinearPolarization):
        return _frame(sources, _axes(*np.array(polarization.plane)), planar=True)
    # along a line: z of the run is the direction, if the initial state then has one m; otherwise the run goes into a plane
    direction = np.array(polarization.direction)
    # any axis that is not along the direction completes the frame; the farthest is the safest
    other = np.eye(3)[int(np.argmin(np.abs(direction)))]
    axes = _axes(direction, other)
    along = _frame(sources, np.eye(3) if deck.along_z else axes[[1, 2, 0]], planar=False)
    return along if len({m for _, m, _ in along.parts}) == 1 else _frame(sources, axes, planar=True)


@dataclass(frozen=True)
class _Sources:
    """Terms of an initial state: l, m and weight, by index, about the z of some axes."""

    pieces: list[tuple[int, int, int, complex]]
    momenta: tuple[int, ...]
    axes: NDArray[np.float64]


def _sources(deck: AtomDeck) -> _Sources:
    """Return the levels of a deck, or the channels of its file."""
    if deck.stored is None:
        pieces = [(index, one.l, one.m, one.weight) for index, one in enumerate(deck.levels)]
        return _Sources(pieces, tuple(one.l for one in deck.levels), np.eye(3))
    state = stored.given(deck.stored)
    # channels of a file count like levels, those with rounding alone excepted
    channels = state.channels.tolist()
    used = np.flatnonzero(stored.kept(state)).tolist()
    pieces = [(index, channels[index][0], channels[index][1], 1.0 + 0.0j) for index in used]
    return _Sources(pieces, tuple(l for l, _ in channels), state.axes)


def _frame(sources: _Sources, axes: NDArray[np.float64], *, planar: bool) -> Frame:
    # axes of the run, as seen from the axes that l and m of the state refer to
    relative = axes @ sources.axes.T
    if np.allclose(relative, np.eye(3), rtol=0.0, atol=1e-13):
        relative = np.eye(3)
    parts = []
    for index, l, m, weight in sources.pieces:
        # |l m> about another axis is a sum of all |l m'>; those without an amplitude make no channels
        amplitudes = weight * rotated(l, m, relative)
        parts += [
            (index, k - l, complex(a)) for k, a in enumerate(amplitudes) if abs(a) > NOTHING * abs(weight)
        ]
    return Frame(axes, planar, tuple(parts), sources.momenta)


def field_of(deck: AtomDeck) -> LaserField:
    """Return the field of a deck: its first component is that along the direction of the field, or x of the run."""
    if deck.laser is None:
        return LaserField(None)
    if frame_of(deck).planar:
        one = deck.polarization
        if isinstance(one, LinearPolarization):
            return PlaneField(deck.laser.pulses, 0.0, 0)
        return PlaneField(deck.laser.pulses, one.ratio, one.sense)
    return LaserField(Laser(pulses=deck.laser.pulses))


class StepField:
    """E or A at some times, and of steps.

    Parameters
    ----------
    components : tuple of LaserField
        Along the direction of the field, or along x and y.
    velocity, planar : bool
        Whether A is wanted, and whether values have two rows.
    t_final : float
        Duration of the run, a.u.: integrals of E are made for all of it at once, so that a continued run has the same bits.
    """

    def __init__(
        self, components: tuple[LaserField, ...], velocity: bool, planar: bool, t_final: float
    ) -> None:
        self.components, self.velocity, self.planar = components, velocity, planar
        self._last = np.array([t_final])

    def __call__(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return the values at some times, (n,) or (2, n)."""
        return self._shaped(
            [one.vector_potential(t) if self.velocity else one.electric(t) for one in self.components]
        )

    def over(self, middle: NDArray[np.float64], dt: float) -> NDArray[np.float64]:
        """Return the values of steps of a length about some times, (n,) or (2, n); see :meth:`LaserField.over`."""
        for one in self.components:
            one.vector_potential(self._last)
        return self._shaped([one.over(middle, dt, potential=self.velocity) for one in self.components])

    def _shaped(self, values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        return np.array(values) if self.planar else values[0]

"""Where the states of one symmetry lie: the complex energies of one space of directions, for all energies of a deck.

The driven equation of some sources close to the nucleus is solved at many energies about those of the deck in one space
(`qsim.sturmian.driven.reduced`).  What is left of a source along a state does not depend on the distance in energy: the residual
is small at all energies only if the space holds every state that the sources overlap with.  So one space serves all energies, and
none of its states is lost between them.  The residual of each state is then made small in the same space.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven.block import ChannelBlock
from qsim.sturmian.driven.reduced import Demand, Reduced

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.driven.operator import Driven

__all__ = ["Found", "Located", "States", "levels_of", "rotated", "sources", "states_of"]

# Relative residual of the driven equations: a state is off by the square of what is left along it.
TOLERANCE = 1e-4
# Most directions of a space, and how many are made together.
MOST, TOGETHER = 300, 6
# Hartree: residual of a state, whose energy is off by its square over the distance of the next one; where rounding leaves more.
RESIDUAL, ROUNDED = 1e-8, 3e-6
# Hartree: as far as other partial waves move a state.
MOVED = 0.05
# Usual directions of a space, and what the spaces that tell the errors take beside it.
USUAL, OTHERS = 75, 1.6
# Energies of a range at which the equations hold, and about one energy, as far as so much of the lowest level of the ion.
ENERGIES = 24
ABOUT, WITHIN = np.linspace(-1.0, 1.0, 7), 0.015
# Decay of the inner and the outer electron of each source, in that of the lowest level of the ion: doubly excited states from
# n = 2 of both to a far outer one.
DECAYS = ((0.35, 0.25), (0.5, 0.125), (0.25, 0.075))
# Node of the inner electron as in 2s, in the same unit; weight of a pair with its electrons exchanged, unlike 1, so that no state
# is orthogonal to all sources.
NODE, EXCHANGED = 0.15, 0.5
# Change of a state with the latest directions, of its width, and hartree, up to which it is one.
SETTLED, STILL = 0.3, 5e-3
# Hartree: distance of an energy from a state up to which rounding, not the space, decides about the residual there.
BESIDE = 1e-4
# Residuals, of the last one, with which states are known well enough to tell such energies.
ROUGHLY = (1e3, 1e2)
# Largest width of a state, of the lowest level of the ion.
WIDEST = 0.03
# Share of the slope of the rotated continuum above which an energy belongs to it.
ROTATED = 0.35
# Hartree: imaginary part of a level of the ion.
LEVEL = 1e-6


class Located(NamedTuple):
    """A complex energy of the space, hartree, and the coefficients of its vector."""

    energy: complex
    coefficients: NDArray[np.complex128]


class Found(NamedTuple):
    """A complex energy and its vector.

    Attributes
    ----------
    energy : complex
        Hartree.
    vector : (P, n, n) complex128
        On the grid of the operator, on the device, of norm one.
    residual : float
        ``|H v - E v|``, hartree.
    iterations : int
        Directions that the space needed for it.
    off : float
        Error of the energy by the residual, hartree.
    """

    energy: complex
    vector: NDArray[np.complex128]
    residual: float
    iterations: int
    off: float


class States:
    """The states of a space that have settled and do not belong to the continuum that the contour turns.

    Parameters
    ----------
    space : Reduced
    found : list of Located
        By their real parts.
    """

    def __init__(self, space: Reduced, found: list[Located]) -> None:
        self.space, self.found = space, found

    def nearest(self, energy: complex) -> Located | None:
        """Return the state nearest to an energy; None if there is no state."""
        return min(self.found, key=lambda one: abs(one.energy - energy), default=None)

    def between(self, first: float, last: float) -> list[Located]:
        """Return the states between two energies."""
        return [one for one in self.found if first <= one.energy.real <= last]

    def like(self, vector: Any, energy: float) -> Located | None:
        """Return the state near an energy that overlaps most with a vector (P, n, n) on the device; None if none is near."""
        near = [one for one in self.found if abs(one.energy.real - energy) < MOVED]
        flat, Q = vector.ravel(), self.space.Q
        if not near:
            return None
        products = np.asarray(self.space.device.to_host(Q @ flat))
        return max(near, key=lambda one: abs(one.coefficients @ products[: one.coefficients.size]))

    def refined(self, state: Located, poll: Callable[[], None]) -> Found:
        """Return a state after the space has taken in what its vector lacks.

        Raises
        ------
        NumericsError
            If what it lacks does not become small.
        """
        space, before = self.space, self.space.size
        device, xp, operator = space.device, space.xp, space.operator
        x = state.coefficients
        gap = min((abs(one.energy - state.energy) for one in self.found if one is not state), default=1.0)
        while True:
            # the space may have grown for another state
            x = self._followed(x)
            v = space.vector(x)
            v = v / xp.linalg.norm(v.ravel())
            Hv = operator.residual(v, None, device.asarray(np.zeros(1, complex)))
            # without conjugation, as H is complex symmetric: the quotient is stationary at its eigenvectors
            energy = complex(xp.sum(v * Hv) / xp.sum(v * v))
            residual = float(xp.linalg.norm((Hv - energy * v).ravel()))
            size = space.size
            if residual > RESIDUAL and size < MOST:
                space.improve(x, energy)
                poll()
            # The last directions may hold nothing but rounding, which is allowed to leave some more.
            if residual < RESIDUAL or (space.size == size and residual < ROUNDED):
                return Found(energy, v[0], residual, max(size - before, 1), residual**2 / max(gap, residual))
            if space.size == size:
                raise NumericsError(
                    f"no complex energy near {state.energy.real:g} hartree: the residual is {residual:.1e} hartree with {size} "
                    f"directions, but {ROUNDED:g} is required",
                    hint="a smaller grid.ecs.angle or grid.ecs.length",
                )

    def _followed(self, x: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the coefficients of the state of the larger space that overlaps most with an earlier vector (size,)."""
        _, states = self.space.states()
        overlaps = np.abs((self.space.bilinear[: x.size] @ states).T @ x)
        return np.asarray(states[:, int(np.argmax(overlaps))])


def states_of(
    operator: Driven,
    energies: Sequence[float],
    numbers: tuple[float, float],
    poll: Callable[[], None],
    *,
    between: bool,
) -> States:
    """Return the states of an operator.

    Parameters
    ----------
    operator : Driven
        In the whole grid.
    energies : sequence of float
        Where states are sought, hartree.
    numbers : (float, float)
        Angle of the contour, rad, and the residual that rounding leaves.
    poll
        Called after every batch of directions.
    between : bool
        Whether states are sought everywhere between the energies, not about each of them.
    """
    levels = levels_of(operator)
    lowest = min(float(orbital.e[0].real) for orbital in operator.orbitals.values())
    made = operator.device.asarray(sources(operator))
    space = Reduced(operator, made, [False] * len(DECAYS), lowest, lowest, ChannelBlock(operator))
    if between:
        some = np.linspace(min(energies), max(energies), ENERGIES)
    else:
        some = np.unique(np.add.outer(np.asarray(energies), WITHIN * abs(lowest) * ABOUT))
    angle, rounding = numbers
    _grow(space, some, Demand(TOLERANCE, MOST, TOGETHER, poll, rounding))
    (now, x), (before, _) = space.states(), space.states(space.recent)
    found = []
    for energy, coefficients in zip(now, x.T, strict=True):
        change = float(np.abs(before - energy).min(initial=math.inf))
        width = -2.0 * energy.imag
        if width > WIDEST * abs(lowest) or change > max(STILL, SETTLED * width):
            continue
        if not rotated(energy, levels, angle):
            found.append(Located(complex(energy), coefficients))
    return States(space, sorted(found, key=lambda one: one.energy.real))


def _grow(space: Reduced, energies: NDArray[np.float64], demand: Demand) -> None:
    """Let a space grow until the equations hold at some energies, hartree, but for those that come to lie on a narrow state.

    There the solution is little but the vector of the state, and its residual what rounding leaves of it: directions made of it
    would be rounding as well, and spoil the space.

    Raises
    ------
    NumericsError
        If the equations do not hold.
    """
    clear = energies
    for larger in (*ROUGHLY, 1.0):
        space.grow(clear, replace(demand, tolerance=larger * demand.tolerance))
        off = np.abs(np.subtract.outer(energies, space.states()[0])).min(axis=1)
        clear = energies[off > min(BESIDE, float(off.max()) / 2.0)]


def levels_of(operator: Driven) -> NDArray[np.float64]:
    """Return the levels of the ion that the grid holds, hartree."""
    levels = np.concatenate([orbital.e for orbital in operator.orbitals.values()])
    return np.sort(levels.real[np.abs(levels.imag) < LEVEL])


def rotated(energy: complex, levels: NDArray[np.float64], angle: float) -> bool:
    """Tell whether a complex energy lies near a continuum that the contour turns by twice its angle from a level of the ion."""
    below = levels[levels < energy.real]
    return bool(below.size and -energy.imag > ROTATED * math.tan(2.0 * angle) * (energy.real - below.max()))


def sources(operator: Driven) -> NDArray[np.complex128]:
    """Return two electrons close to the nucleus with the symmetry of the spin, one of them further out in each source.

    Only their overlap with resonances matters; (s, P, n, n).
    """
    grid = operator.grid
    r, root = np.where(grid.is_real, grid.r.real, 0.0), np.sqrt(grid.w)
    charge = max(
        math.sqrt(max(-2.0 * float(one.e[0].real), 0.0)) * (l + 1) for l, one in operator.orbitals.items()
    )

    def shell(l: int, decay: float, node: float) -> NDArray[np.complex128]:
        f = r ** (l + 1) * np.exp(-decay * charge * r) * (1.0 - node * charge * r) * root
        return np.asarray(f / np.linalg.norm(f))

    made = []
    for inner, outer in DECAYS:
        parts = []
        for a, b in operator.pairs:
            product = np.outer(shell(a, inner, NODE), shell(b, outer, 0.0))
            swapped = np.outer(shell(a, outer, 0.0), shell(b, inner, NODE))
            sign = exchange_sign(a, b, operator.L, operator.S) if a == b else EXCHANGED
            parts.append(product + sign * swapped)
        source = np.array(parts, complex)
        made.append(source / np.linalg.norm(source))
    return np.array(made)

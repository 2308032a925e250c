"""Trotter-Suzuki integrators as sequences of layers ``exp(-i c dt H_a)``, a = z, x, y.

A first-order map runs through the axes once, ``chi_c = Y(c) X(c) Z(c)`` (Z acts first), its adjoint backwards.  A method is
a list of coefficients of alternating half maps ``chi_c1, chi*_c2, chi_c3, ...``; equal neighbours merge; a second-order step is
``Z(1/2) X(1/2) Y(1) X(1/2) Z(1/2)``: four layers when steps follow each other.  The paper's fourth order (Suzuki) is five such
steps.  The coefficients of Blanes and Moan (J. Comput. Appl. Math. 142, 313) belong to an A-B splitting, and are converted by
McLachlan's rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

# z, x, y: the frames follow each other by one rotation C^dagger
ORDER = (2, 0, 1)


@dataclass(frozen=True)
class Method:
    """An integrator.

    Attributes
    ----------
    name : str
    order : int
        Global error ~ dt^order.
    halves : tuple of float
        Coefficients of the alternating half maps.
    """

    name: str
    order: int
    halves: tuple[float, ...]


def _composition(stages: list[float]) -> tuple[float, ...]:
    # each stage of a composition is a map and its adjoint, half a step each
    return tuple(0.5 * g for g in stages for _ in (0, 1))


def _splitting(a: list[float], b: list[float]) -> tuple[float, ...]:
    """Return the half maps of ``A(a1) B(b1) A(a2) ...``: c1 = a1, c2 = b1 - c1, c3 = a2 - c2, ..."""
    c = [a[0]]
    for i, bi in enumerate(b):
        c.append(bi - c[-1])
        if i < len(b) - 1:
            c.append(a[i + 1] - c[-1])
    return tuple(c)


def _mirrored(half: list[float], middle: bool) -> list[float]:
    """Complete the first half of a symmetric list whose sum is one; with or without an entry of its own in the middle."""
    # coefficients of a consistent method add up to one: the last one follows from the others
    rest = 1.0 - 2.0 * sum(half)
    return half + ([rest] if middle else [0.5 * rest, 0.5 * rest]) + half[::-1]


# Suzuki (1990): five Strang steps of order 4
_A = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
# Blanes and Moan, J. Comput. Appl. Math. 142, 313 (2002): six stages of order 4
_BM4 = (
    _mirrored([0.0792036964311957, 0.353172906049774, -0.0420650803577195], middle=True),
    _mirrored([0.209515106613362, -0.143851773179818], middle=False),
)
# the same, ten stages of order 6
_BM6 = (
    _mirrored(
        [0.0502627644003922, 0.413514300428344, 0.0450798897943977, -0.188054853819569, 0.541960678450780],
        middle=True,
    ),
    _mirrored([0.148816447901042, -0.132385865767784, 0.067307604692185, 0.432666402578175], middle=False),
)
# Kahan and Li, Math. Comput. 66, 1089 (1997): seventeen Strang steps of order 8
_KL8 = _mirrored(
    [
        0.13020248308889008087881763,
        0.56116298177510838456196441,
        -0.38947496264484728640807860,
        0.15884190655515560089621075,
        -0.39590389413323757733623154,
        0.18453964097831570709183254,
        0.25837438768632204729397911,
        0.29501172360931029887096624,
    ],
    middle=True,
)

METHODS = {
    "ts1": Method("ts1", 1, (1.0,)),
    "ts2": Method("ts2", 2, _composition([1.0])),
    "ts4": Method("ts4", 4, _composition([_A, _A, 1.0 - 4.0 * _A, _A, _A])),
    "bm4": Method("bm4", 4, _splitting(*_BM4)),
    "bm6": Method("bm6", 6, _splitting(*_BM6)),
    "kl8": Method("kl8", 8, _composition(_KL8)),
}

Layer = tuple[int, float]


def layers(axes: tuple[int, ...], method: str, dt: float, steps: int = 1) -> list[Layer]:
    """Return the layers (axis, time) of some steps, neighbours of one axis merged.

    Parameters
    ----------
    axes : tuple of int
        Axes on which the Hamiltonian has anything (0 x, 1 y, 2 z).
    method : str
        Key of :data:`METHODS`.
    """
    return composed(tuple(axis for axis in ORDER if axis in axes), method, dt, steps)


def composed(parts: tuple[int, ...], method: str, dt: float, steps: int = 1) -> list[Layer]:
    """Return the (part, time) of some steps, neighbours merged, for a Hamiltonian whose parts take turns in the given order."""
    sequence: list[Layer] = []
    for _ in range(steps):
        # even half maps run through the parts in order, odd ones (adjoints) back
        for i, c in enumerate(METHODS[method].halves):
            for axis in parts if i % 2 == 0 else parts[::-1]:
                if sequence and sequence[-1][0] == axis:
                    sequence[-1] = (axis, sequence[-1][1] + c * dt)
                else:
                    sequence.append((axis, c * dt))
    return sequence


# ------------------------------------------------------------------------------------------- frames


@dataclass(frozen=True)
class Course:
    """Steps as layers that begin and end in the z frame.

    Attributes
    ----------
    layers : list of Layer
        With the part that repeats written once.
    first, last : int
        Layers ``first .. last - 1`` repeat; none, if they are equal.  Their number is even.
    repeats : int
        How often.
    """

    layers: list[Layer]
    first: int
    last: int
    repeats: int

    @property
    def total(self) -> int:
        """Layers of all steps."""
        return len(self.layers) + (self.repeats - 1) * (self.last - self.first)


def course(axes: tuple[int, ...], method: str, dt: float, steps: int) -> Course:
    """Return steps of a method: the first half of a step, the repeated part, the rest of the last step.

    Steps share their first and last layer.  The frame is changed to and from z only at the ends, so that a Hamiltonian without
    z couplings pays for it once and not in every step.
    """
    step = layers(axes, method, dt)
    # a diagonal H commutes with itself: all steps are one exact layer
    if len(step) == 1:
        whole = closed([(step[0][0], step[0][1] * steps)])
        return Course(whole, len(whole), len(whole), 1)
    # ts1 does not end with the axis that it begins with: a layer
    # of time 0 makes the repeated part begin and end alike
    if step[0][0] != step[-1][0]:
        step.append((step[0][0], 0.0))
    step = _unwound(step)
    # the last layer of a step and the first of the next are one
    z, (axis, first), (_, last) = ORDER[0], step[0], step[-1]
    ends: list[Layer] = [] if axis == z else [(z, 0.0)]
    body = [*step[1:-1], (axis, first + last)] if steps > 1 else []
    start = len(ends) + 1
    return Course(
        [*ends, step[0], *body, *step[1:], *ends], start, start + len(body), steps - 1 if steps > 1 else 1
    )


def closed(sequence: list[Layer]) -> list[Layer]:
    """Return layers that begin and end in the z frame, neighbours of one axis merged: all but the first follow a rotation."""
    z = ORDER[0]
    merged: list[Layer] = []
    for axis, tau in sequence:
        if merged and merged[-1][0] == axis:
            merged[-1] = (axis, merged[-1][1] + tau)
        else:
            merged.append((axis, tau))
    if merged[0][0] != z:
        merged = [(z, 0.0), *merged]
    if merged[-1][0] != z:
        merged = [*merged, (z, 0.0)]
    return _unwound(merged)


def _unwound(sequence: list[Layer]) -> list[Layer]:
    """Return a sequence whose way through the frames is not wound: C^3 is a phase, which a way round z, x, y would gain.

    It goes back through x then.  A way that ends where it began and is not wound has as many C as C^dagger: an even number of
    rotations.
    """
    z, x, y = ORDER
    # changes between neighbours: in the order z, x, y a way
    # round crosses between y and z once more in one direction
    steps = [(a, b) for (a, _), (b, _) in pairwise(sequence)]
    if steps.count((y, z)) == steps.count((z, y)):
        return sequence
    path = sequence[:1]
    for layer in sequence[1:]:
        if {path[-1][0], layer[0]} == {y, z}:
            path.append((x, 0.0))
        path.append(layer)
    return path


def turn(axis: int, following: int) -> int:
    """Return the rotation between two frames: 0 none, -1 C^dagger, 1 C."""
    step = (ORDER.index(following) - ORDER.index(axis)) % 3
    # from an axis to the next one in the order z, x, y: C^dagger; to the one before: C
    return (0, -1, 1)[step]

r"""From a solution u to amplitudes and cross sections.

In the box r1, r2 <= R, inside the real region, Green's theorem turns the projection of the flux through its walls on two
one-electron functions into an integral over the box:

    f_ab(k1, k2) = <phi_k1,a phi_k2,b | E - h1 - h2 | u_ab> = int_0^R int_0^R phi_k1,a phi_k2,b (V u + s)_ab dr1 dr2.

The integral needs no derivative of u, which a finite-element solution knows less well than its values at the nodes.  The regular
functions phi of h (:mod:`qsim.sturmian.driven.continuum`) are orthogonal to all its bound states, so that discrete channels
drop out.  Components belong to ordered pairs (a, b): ``sum |f|^2/(k1 k2)`` over ordered pairs, integrated over the energy of
one electron from 0 to E, counts every final state once (convention *full*); an integral up to E/2 takes twice that density.

A discrete channel (electron 1 leaves with k, electron 2 stays in the level P of h) has the amplitude A of its outgoing wave,
``<P|u> -> A H+(k r1)``.  With F the regular wave in the field -(Z-1)/r1 that the first electron sees far outside,

    A = -2/k int int F(r1) P(r2) [(V u + s) - u/r1] dr1 dr2.

The flux of all channels together is ``2 Im <u|s>`` (optical theorem).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.core.device.device import namespace
from qsim.core.device.parallel import on_host
from qsim.sturmian.radial.coulomb import steed
from qsim.sturmian.radial.grid import lobatto

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import ArrayLike, NDArray

    from qsim.sturmian.driven.continuum import Continuum
    from qsim.sturmian.driven.operator import Driven
    from qsim.sturmian.radial.grid import RadialGrid


# Share of R0 beyond which the radius should not matter for a discrete channel.
OUTER = 0.7
# Relative error of an amplitude over the share of its largest value that a level has at the end of the box.
LEAK = 10.0


@dataclass(frozen=True, eq=False)
class Inside:
    """A solution and what drives it, on the real nodes.

    Attributes
    ----------
    pairs : list of (la, lb)
        Stored pairs.
    u : (P, n, n) complex128
        Values of u_ab at the real nodes, R0 included, bohr^-1 times the norm of the source; on the device of the solution.
    w : (P, n, n) complex128
        Values of ``(V u + s)_ab``, there, too.
    weights : (n,) float64
        Quadrature weights; the last one counts the element up to R0 alone.
    radii : (n,) float64
    order : int
        Points of an element.
    flux : float
        ``2 Im <u|s>``, the flux of all channels.
    """

    pairs: list[tuple[int, int]]
    u: NDArray[np.complex128]
    w: NDArray[np.complex128]
    weights: NDArray[np.float64]
    radii: NDArray[np.float64]
    order: int
    flux: float

    def box(self, R: float) -> tuple[int, NDArray[np.float64]]:
        """Return the number of nodes in [0, R], R the end of an element, and their weights there."""
        # Within the box the last node has the weight of its own element alone; in the grid it
        # is a bridge to the next one.
        node = int(np.argmin(np.abs(self.radii - R)))
        weights = self.weights[: node + 1].copy()
        lower = self.radii[node - self.order + 1] if node >= self.order else 0.0
        weights[node] = lobatto(self.order)[1][-1] * 0.5 * (self.radii[node] - lower)
        return node + 1, weights

    def boxes(self, radii: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of all nodes in boxes that end at some radii, zero outside, (R, n)."""
        out = np.zeros((len(radii), self.radii.size))
        for row, R in zip(out, radii, strict=True):
            size, weights = self.box(R)
            row[:size] = weights
        return out

    def ends(self, lowest: float = 0.45, highest: float = 1.0) -> NDArray[np.float64]:
        """Return the ends of elements between two shares of R0, bohr."""
        ends = self.radii[self.order - 2 :: self.order - 1]
        R0 = self.radii[-1]
        return np.asarray(ends[(ends >= lowest * R0) & (ends <= highest * R0 * (1 + 1e-12))])


def inside(
    operator: Driven, grid: RadialGrid, u: NDArray[np.complex128], s: NDArray[np.complex128]
) -> Iterator[Inside]:
    """Yield solutions on the real nodes.

    Parameters
    ----------
    operator
        Whose solutions they are.
    grid : RadialGrid
    u, s : (m, P, n, n) complex128
        Solutions and sources on the product grid, on the device of the operator: coefficients, sqrt(2) for la < lb included.
    """
    device = operator.device
    count = int(np.count_nonzero(grid.is_real))
    # V u + s, repulsion times the solution and the source: what drives the motion of independent electrons
    w = operator.repel(u)
    w += s
    _, lobatto_weights, _ = lobatto(grid.order)
    # The node at R0 has the weight of a bridge with the element on the contour; integrals up to R0 take its own
    # half.
    weights = grid.w[:count].real.copy()
    last = int(np.argmin(np.abs(grid.bounds - grid.R0)))
    weights[-1] = lobatto_weights[-1] * 0.5 * float((grid.bounds[last] - grid.bounds[last - 1]).real)
    root = np.sqrt(grid.w[:count])
    # from coefficients to values of one ordered pair: without the weights of the nodes, and without the sqrt(2) of a
    # pair a < b
    norm = np.array([1.0 if a == b else math.sqrt(0.5) for a, b in operator.pairs])
    scale = device.asarray(norm[:, None, None] / (root[:, None] * root[None, :]))
    for k in range(u.shape[0]):
        # optical theorem: what the source gives up flows out
        flux = 2.0 * complex(operator.device.xp.vdot(u[k], s[k])).imag
        # They stay where they are: only integrals with functions of one electron go to the host.
        values = u[k, :, :count, :count] * scale
        driven = w[k, :, :count, :count] * scale
        yield Inside(operator.pairs, values, driven, weights, grid.r[:count].real.copy(), grid.order, flux)


def in_boxes(
    solution: Inside,
    left: NDArray[np.float64],
    M: NDArray[np.complex128],
    right: NDArray[np.float64],
    radii: Sequence[float] | NDArray[np.float64],
) -> NDArray[np.complex128]:
    """Return ``int_0^R int_0^R x(r1) M(r1, r2) y(r2) dr1 dr2`` of each x and its y for some R, (R, k).

    Take functions of all channels of a pair in one call: M is read once for all of them.

    Parameters
    ----------
    solution : Inside
        Whose nodes they are.
    left, right : (k, n) float64
        x and y at the nodes, on the host.
    M : (n, n) complex128
        C-contiguous, on the device of the solution.
    radii : (R,)
        Ends of elements, ascending, bohr.
    """
    if namespace(M) is np:
        return _in_boxes_cpu(solution, left, M, right, radii)
    xp = namespace(M)
    weights = xp.asarray(solution.boxes(radii))
    x, y = xp.asarray(left), xp.asarray(right)
    # All boxes in one product, real times complex: more work than box by box, and less than
    # the time of these launches.
    boxed = (weights[:, None, :] * x).reshape(-1, x.shape[1])
    half = (boxed @ M.view(np.float64)).view(np.complex128).reshape(len(weights), *x.shape)
    return np.asarray(xp.einsum("rkn,rkn->rk", half, weights[:, None, :] * y).get())


def _in_boxes_cpu(
    solution: Inside,
    left: NDArray[np.float64],
    M: NDArray[np.complex128],
    right: NDArray[np.float64],
    radii: Sequence[float] | NDArray[np.float64],
) -> NDArray[np.complex128]:
    """Return the integrals box by box.

    A larger box begins from the sum over the rows of M within the smaller one.  Only the weight of its last node is another one,
    as the element beyond does not count.
    """
    out = np.empty((len(radii), left.shape[0]), complex)
    # Real and imaginary parts side by side: no product of real with complex numbers.
    plain = np.ascontiguousarray(M).view(float)
    inner = np.zeros((left.shape[0], plain.shape[1]))
    done = 0
    # Rows done .. last - 1 have their full weight in this and all larger boxes and are added
    # once; row `last` enters this box with the weight of its end.
    for k, R in enumerate(radii):
        size, weights = solution.box(R)
        last = size - 1
        inner += (left[:, done:last] * weights[done:last]) @ plain[done:last]
        done = last
        middle = inner.view(complex)[:, :size] + (weights[last] * left[:, last])[:, None] * M[last, :size]
        out[k] = np.einsum("kj,kj->k", middle, right[:, :size] * weights)
    return out


def breakup(
    solution: Inside,
    continuum: Continuum,
    E: float,
    energies: ArrayLike,
    radii: Sequence[float] | NDArray[np.float64],
) -> NDArray[np.complex128]:
    """Return ``f_ab`` of the stored pairs when electron 1 takes some energies, (R, P, k).

    Parameters
    ----------
    solution : Inside
    continuum : Continuum
        On the same nodes.
    E : float
        Energy of both electrons, hartree.
    energies : (k,)
        Of electron 1, between 0 and E.
    radii : (R,)
        Ends of elements, ascending, bohr.
    """
    # regular functions of both electrons at energies that add up to E: a double integral of each with V u + s
    e1 = np.atleast_1d(np.asarray(energies, float))
    out = np.empty((len(radii), len(solution.pairs), e1.size), complex)
    for p, (a, b) in enumerate(solution.pairs):
        first, second = continuum.functions(a, e1), continuum.functions(b, E - e1)
        out[:, p] = in_boxes(solution, first, solution.w[p], second, radii)
    return out


def density(
    solution: Inside,
    continuum: Continuum,
    E: float,
    energies: ArrayLike,
    radii: Sequence[float] | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return ``sum |f|^2 / (k1 k2)`` over ordered pairs, (R, k): convention *full*.

    Parameters
    ----------
    solution, continuum, E, energies, radii
        As in `breakup`.
    """
    e1 = np.atleast_1d(np.asarray(energies, float))
    # f_ba(k1, k2) is f_ab(k2, k1) but for a sign: both energies of electron 1 in one product.
    both = np.concatenate((e1, E - e1))
    total = np.zeros((len(radii), e1.size))
    for p, (a, b) in enumerate(solution.pairs):
        first, second = continuum.functions(a, both), np.roll(continuum.functions(b, both), e1.size, axis=0)
        count = e1.size if a == b else both.size
        f = in_boxes(solution, first[:count], solution.w[p], second[:count], radii)
        total += (np.abs(f) ** 2).reshape(len(radii), -1, e1.size).sum(axis=1)
    return np.asarray(total / np.sqrt(4.0 * e1 * (E - e1)))


@dataclass(frozen=True)
class Channel:
    """A discrete channel: one electron in a level, the other with orbital momentum ``leaves`` outside.

    Attributes
    ----------
    n, l : int
        Level of the electron that stays.
    leaves : int
        Orbital momentum of the one that leaves.
    k : float
        Its wave number, 1/bohr.
    amplitude : complex
        A of ``<P|u> -> A H+``, of one ordered pair.
    spread : float
        How much A still depends on the radius at which it is taken.
    """

    n: int
    l: int
    leaves: int
    k: float
    amplitude: complex
    spread: float

    @property
    def flux(self) -> float:
        """Flux of both electrons, ``2 k |A|^2``."""
        return 2.0 * self.k * abs(self.amplitude) ** 2

    @property
    def flux_error(self) -> float:
        """Spread of the flux over the radii."""
        return 4.0 * self.k * abs(self.amplitude) * self.spread


def channels(
    solution: Inside,
    continuum: Continuum,
    outside: Continuum,
    E: float,
    *,
    highest: int = 6,
    surfaces: bool = False,
) -> list[Channel]:
    """Return all open discrete channels whose level the box holds.

    Parameters
    ----------
    solution : Inside
    continuum : Continuum
        Of the one-body Hamiltonian: its levels.
    outside : Continuum
        Of the field that the electron outside sees, with a charge smaller by one.
    E : float
        Total energy, hartree.
    highest : int
        Largest principal quantum number.
    surfaces : bool
        Take moduli from ``<P|u>`` at many radii instead of the integral over the box: among functions that are not complete the
        wave far outside is known better than the one at the nucleus, which dominates the integral.
    """
    ends = solution.ends(OUTER)
    shift = outside.V - continuum.V
    out = []
    for p, (a, b) in enumerate(solution.pairs):
        # Either electron of a pair may leave; with equal momenta both are the same channel by
        # exchange.
        sides = [(a, b)] if a == b else [(a, b), (b, a)]
        stays = [_open(continuum, outside, E, highest, side) for side in sides]
        integrals = _integrals(solution, p, stays, shift, ends)
        for number, (side, found, values) in enumerate(zip(sides, stays, integrals, strict=True)):
            u = None
            # electron 1 is the one outside
            if surfaces and found.levels.size:
                component = np.asarray(on_host(solution.u[p]))
                u = component if number == 0 else component.T
            for j, (level, function) in enumerate(zip(found.levels, found.bound, strict=True)):
                k = math.sqrt(2.0 * (E - level))
                # only radii at which the level has decayed; the largest of them gives the amplitude, the others its
                # spread
                usable = continuum.lost_beyond(function, ends) < continuum.share
                usable[-1] |= not usable.any()
                by_radius = -2.0 / k * math.sqrt(0.5 * math.pi) * values[usable, j]
                amplitude = complex(by_radius[-1])
                spread = float(np.abs(by_radius - by_radius[-1]).max())
                if u is not None:
                    radii = ends[usable]
                    modulus, spread = _modulus(solution, u, function, side[0], outside.charge, k, radii)
                    amplitude *= modulus / max(abs(amplitude), 1e-300)
                # a level that reaches the wall lacks part of its function
                spread += LEAK * abs(amplitude) * continuum.lost(function)
                out.append(Channel(j + 1 + side[1], side[1], side[0], k, amplitude, spread))
    return out


class _Open(NamedTuple):
    """Open channels of one side of a pair.

    Attributes
    ----------
    levels : (k,) float64
        Of the electron that stays, hartree, ascending.
    bound, free : (k, n) float64
        Its functions, and those of the other electron.
    """

    levels: NDArray[np.float64]
    bound: NDArray[np.float64]
    free: NDArray[np.float64]


def _open(continuum: Continuum, outside: Continuum, E: float, highest: int, side: tuple[int, int]) -> _Open:
    """Return the open channels in which an electron of momentum ``side[0]`` leaves and one of ``side[1]`` stays."""
    leaves, stays = side
    levels, P = continuum.levels(stays, highest - stays)
    count = int(np.count_nonzero(levels < E))
    levels, P = levels[:count], P[:count]
    # Energy conservation: the electron outside has E minus the level.
    free = outside.functions(leaves, E - levels) if count else P
    return _Open(levels, P, free)


def _integrals(
    solution: Inside, p: int, sides: Sequence[_Open], shift: NDArray[np.float64], ends: NDArray[np.float64]
) -> list[NDArray[np.complex128]]:
    """Return the integrals of all channels of a pair, (R, k) for each side."""
    cuts = np.cumsum([side.levels.size for side in sides])
    if not cuts[-1]:
        return [np.empty((len(ends), 0), complex) for _ in sides]

    def integral(M: NDArray[np.complex128], factor: NDArray[np.float64] | float) -> NDArray[np.complex128]:
        # Where electron 2 is the one outside, the functions change places and not the matrix.
        functions = [(side.free * factor, side.bound) for side in sides]
        left = [free if number == 0 else bound for number, (free, bound) in enumerate(functions)]
        right = [bound if number == 0 else free for number, (free, bound) in enumerate(functions)]
        return in_boxes(solution, np.concatenate(left), M, np.concatenate(right), ends)

    # what the electron outside does not see of the nucleus is taken out
    found = integral(solution.w[p], 1.0) - integral(solution.u[p], shift)
    return np.split(found, cuts[:-1], axis=1)


def _modulus(
    solution: Inside,
    u: NDArray[np.complex128],
    bound: NDArray[np.float64],
    l: int,
    charge: float,
    k: float,
    ends: NDArray[np.float64],
) -> tuple[float, float]:
    """Return the modulus of a channel from ``<P|u>`` at some radii, and its spread."""
    moduli = []
    for R in ends:
        size, weights = solution.box(R)
        projection = u[size - 1, :size] @ (bound[:size] * weights)
        # |H+|^2 = 1 / Im (ln H+)'
        wave = steed(l, -charge / k, k * R)
        moduli.append(abs(projection) * math.sqrt(wave.imag))
    mean = float(np.mean(moduli))
    return mean, float(np.std(moduli))

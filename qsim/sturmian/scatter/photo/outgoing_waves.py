r"""Amplitudes of channels, one electron in a level and one outside, from the model of many energies.

An amplitude of `qsim.sturmian.scatter.cross_sections.amplitudes` is linear in the solution.  The integral over the electron that
stays is therefore taken once for every direction of the model; what is left for each energy is one radial integral,

    A(E) = -2/k int_0^R F_E(r) g_E(r) dr,     g_E = sum_i c_i(E) <P| (V - 1/r) q_i> + <P|s>.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven import continuum
from qsim.sturmian.radial.grid import lobatto
from qsim.sturmian.scatter.cross_sections.amplitudes import LEAK, OUTER, Inside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.driven.reduced import Reduced
    from qsim.sturmian.driven.setup import Setup

__all__ = ["Channel", "Wave", "Waves"]

# Hartree: an electron outside with less has no channel yet.
OPEN = 1e-4
# Directions that are projected together.
TOGETHER = 8


class Channel(NamedTuple):
    """Level (n, l) of the electron that stays, orbital momentum of the one that leaves, and total one."""

    n: int
    l: int
    leaves: int
    L: int = 1


@dataclass(frozen=True, eq=False)
class Wave:
    """One channel at some energies.

    Attributes
    ----------
    k : (e,) float64
        Wave number of the electron outside, 1/bohr; 0 where the channel is closed.
    amplitude : (g, e) complex128
        A of every gauge, of the components with electron 1 outside.
    spread : (g, e) float64
        How much A still depends on the radius.
    """

    k: NDArray[np.float64]
    amplitude: NDArray[np.complex128]
    spread: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Projected:
    """One channel: its level, with the radii at which it may be taken, and ``<P|(V - 1/r) q>``, ``<P|s>`` of all directions."""

    channel: Channel
    level: float
    usable: NDArray[np.bool_]
    lost: float
    inner: NDArray[np.complex128]


class Waves:
    """All channels of a model whose level the box holds.

    Parameters
    ----------
    model : Reduced
    setup : Setup
        Its grid.
    highest : int
        Largest principal quantum number.
    """

    def __init__(self, model: Reduced, setup: Setup, highest: int) -> None:
        self.model, self.setup, self.highest = model, setup, highest
        operator, grid = model.operator, setup.grid
        count = setup.count
        ls = sorted({l for pair in operator.pairs for l in pair})
        continuum.prepare((setup.continuum, setup.outside), ls, setup.device.threads)
        # The node at R has the weight of its own element alone in integrals up to R.
        weights = grid.w[:count].real.copy()
        last = int(np.argmin(np.abs(grid.bounds - grid.R0)))
        half = 0.5 * float((grid.bounds[last] - grid.bounds[last - 1]).real)
        weights[-1] = lobatto(grid.order)[1][-1] * half
        radii = grid.r[:count].real.copy()
        none = np.empty((0, count, count), complex)
        self.inside = Inside(operator.pairs, none, none, weights, radii, grid.order, 0.0)
        self.ends = self.inside.ends(OUTER)
        self.channels = self._channels()
        self.levels = {
            stays: setup.continuum.levels(stays, max(0, highest - stays))
            for stays in {one[-1] for one in self.channels}
        }

    def _channels(self) -> list[tuple[int, bool, int, int]]:
        """Return pair, whether its first electron leaves, and momenta of the electron that leaves and of the one that stays."""
        out = []
        for p, (a, b) in enumerate(self.model.operator.pairs):
            out.append((p, True, a, b))
            # With equal momenta both are the same channel by exchange.
            if a != b:
                out.append((p, False, b, a))
        return out

    @cached_property
    def projected(self) -> list[_Projected]:
        """Channels with their integrals over the electron that stays, for all directions and sources."""
        model, setup = self.model, self.setup
        root = np.sqrt(setup.grid.w[: setup.count].real)
        found: dict[tuple[int, bool], list[NDArray[np.complex128]]] = {
            (p, first): [] for p, first, *_ in self.channels
        }
        for begin in range(0, model.size, TOGETHER):
            vectors = model.Q[begin : begin + TOGETHER].reshape(-1, *model.operator.on_grid_shape)
            self._add_projected(vectors, model.operator.repel(vectors), found)
        # A direction counts with its repulsion less 1/r of the electron outside, a source as it is.
        self._add_projected(None, model.s, found)
        made = {key: np.concatenate(parts) / root for key, parts in found.items()}
        return [
            self._projected(p, first, number, made[p, first][:, number])
            for p, first, _, stays in self.channels
            for number in range(len(self.levels[stays][0]))
        ]

    def _add_projected(
        self, u: Any | None, w: Any, found: dict[tuple[int, bool], list[NDArray[np.complex128]]]
    ) -> None:
        """Add ``<P|w> - (V_outside - V) <P|u>`` of all channels, (m, levels, count), for functions (m, P, n, n) on the device."""
        setup, device, xp = self.setup, self.model.device, self.model.device.xp
        count = setup.count
        shift = device.asarray(setup.outside.V - setup.continuum.V)
        weights = self.inside.weights / np.sqrt(setup.grid.w[:count].real)

        def integral(of: Any, P: Any, p: int, first: bool) -> Any:
            # over the electron that stays: the second one, or the first
            if first:
                return xp.matmul(of[:, p, :count, :count], P.T).transpose(0, 2, 1)
            return xp.matmul(P, of[:, p, :count, :count])

        for p, first, _, stays in self.channels:
            P = device.asarray((self.levels[stays][1] * weights).astype(complex))
            value = integral(w, P, p, first)
            if u is not None:
                value = value - shift * integral(u, P, p, first)
            found[p, first].append(np.asarray(device.to_host(value)))

    def _projected(self, p: int, first: bool, number: int, inner: NDArray[np.complex128]) -> _Projected:
        """Return one channel of pair p with the level of some number."""
        field, operator = self.setup.continuum, self.model.operator
        a, b = operator.pairs[p]
        leaves, stays = (a, b) if first else (b, a)
        energies, functions = self.levels[stays]
        usable = np.array([field.held(functions[number], R) for R in self.ends])
        usable[-1] |= not usable.any()
        # Stored components with a < b hold both orders of the electrons, and the second order has the sign of exchange.
        norm = 1.0 if a == b else math.sqrt(0.5)
        sign = 1 if first else exchange_sign(a, b, operator.L, operator.S)
        channel = Channel(number + 1 + stays, stays, leaves, operator.L)
        return _Projected(
            channel, float(energies[number]), usable, field.lost(functions[number]), sign * norm * inner
        )

    @property
    def thresholds(self) -> dict[tuple[int, int], float]:
        """Energies of the levels (n, l) that the box holds, hartree."""
        return {
            (number + 1 + l, l): float(level)
            for l, (energies, _) in self.levels.items()
            for number, level in enumerate(energies)
        }

    def at(self, E: NDArray[np.float64], size: int | None = None) -> dict[Channel, Wave]:
        """Return all channels at some energies (e,), hartree, from the first `size` directions of the model."""
        c = self.model.solve(E, size)
        sources = np.eye(self.model.count)
        x = np.concatenate([c, np.broadcast_to(sources[:, None], (*c.shape[:2], self.model.count))], axis=2)
        return {one.channel: self._wave(one, E, x) for one in self.projected}

    def _wave(self, one: _Projected, E: NDArray[np.float64], x: NDArray[np.complex128]) -> Wave:
        """Return one channel from the coefficients (g, e, m + g) of directions and sources."""
        open_ = E - one.level > OPEN
        k = np.where(open_, np.sqrt(2.0 * np.maximum(E - one.level, OPEN)), 0.0)
        amplitude = np.zeros((x.shape[0], E.size), complex)
        spread = np.zeros((x.shape[0], E.size))
        if not open_.any():
            return Wave(k, amplitude, spread)
        F = self.setup.outside.functions(one.channel.leaves, E[open_] - one.level)
        integrand = F * (x[:, open_] @ one.inner)
        values = []
        for R in self.ends[one.usable]:
            size, weights = self.inside.box(R)
            values.append(integrand[:, :, :size] @ weights)
        factor = -2.0 * math.sqrt(0.5 * math.pi) / k[open_]
        found = factor * np.array(values)
        amplitude[:, open_] = found[-1]
        # A level that reaches the end of the box lacks part of its function.
        spread[:, open_] = np.abs(found - found[-1]).max(axis=0) + LEAK * one.lost * np.abs(found[-1])
        return Wave(k, amplitude, spread)

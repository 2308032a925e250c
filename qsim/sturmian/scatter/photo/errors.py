"""Errors of cross sections over many photon energies: grid, partial waves, contour, model and threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.sturmian.scatter.cross_sections.observed import RETURNED
from qsim.sturmian.scatter.cross_sections.summed import SAFETY, STATIONARY
from qsim.sturmian.scatter.photo import fano
from qsim.sturmian.scatter.photo.asymmetry import asymmetries
from qsim.sturmian.scatter.photo.outgoing_waves import Channel, Wave
from qsim.sturmian.scatter.photo.weights import weight_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.driven.setup import Setup
    from qsim.sturmian.scatter.photo.spectrum import Spectrum

__all__ = ["FEW", "Judge", "Judgement", "judged", "poles_of", "resolved", "resonance_errors", "told"]

# Energies that have scalars of their own; a longer list is in the arrays alone, and is a spectrum.
FEW = 12
# Least change of half a width over that of the position, with other partial waves.
BY_CHANCE = 1e-3
# Of the modulus of a change with the grid, that either part may be off.
SHARE = 0.2
# Hartree: as far as one partial wave less moves a resonance.
MOVED = 0.05
# Largest slope of beta over the relative change of an amplitude.
BETA = 4.0

Levels = dict[tuple[int, int], "NDArray[np.float64]"]


@dataclass(frozen=True, eq=False)
class Judge:
    """The spectrum of the deck's grid beside those that tell its errors.

    Every error is `SAFETY` times the change by the coarser grid, plus `beyond` times the change there by other partial waves,
    plus what the spectrum itself still shows: the model between its nodes, the radius of the channels, the wave that the end of
    the contour returns, and the error of the energy from which photon energies count.

    Attributes
    ----------
    own : Spectrum
    coarse, fewer : Spectrum or None
        At the same photon energies.
    nearby : (Spectrum, Spectrum) or None
        The same two at the same distances from the resonances; None where these do not move, or are not known.
    beyond : float
    shift : float
        Error of that energy, hartree.
    setup : Setup
        Grid of the deck.
    L : int
        Of the initial state.
    lost : bool
        Whether the other spectra could not be found, so that no error is known.
    by_excess : bool
        Whether the deck gives the energy of both electrons instead of that of the photon.
    """

    own: Spectrum
    coarse: Spectrum | None
    fewer: Spectrum | None
    beyond: float
    shift: float
    setup: Setup
    L: int = 0
    lost: bool = False
    by_excess: bool = False
    nearby: tuple[Spectrum, Spectrum | None] | None = None

    def error(self, value: Callable[[Spectrum], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the error of a quantity by grid and partial waves, at the same distance from the resonances."""
        return sum(self.parts(value), np.zeros(()))

    def parts(self, value: Callable[[Spectrum], NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Return the errors of a quantity by the grid and by partial waves."""
        return self._changes(value, *(self.nearby or (self.coarse, self.fewer)))

    def position(self, value: Callable[[Spectrum], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return what the error at the same photon energy is beyond that: the error of the positions of resonances."""
        error = self.error(value)
        if self.nearby is None:
            return np.zeros_like(error)
        whole = sum(self._changes(value, self.coarse, self.fewer), np.zeros(()))
        return np.maximum(whole - error, 0.0)

    def _changes(
        self,
        value: Callable[[Spectrum], NDArray[np.float64]],
        coarse: Spectrum | None,
        fewer: Spectrum | None,
    ) -> list[NDArray[np.float64]]:
        own = value(self.own)
        none = np.zeros_like(own)
        if coarse is None:
            return [np.full(own.shape, np.nan if self.lost else 0.0), none]
        there = value(coarse)
        waves = none if fewer is None else self.beyond * np.abs(there - value(fewer))
        return [SAFETY * np.abs(own - there), waves]

    def across(self) -> NDArray[np.bool_]:
        """Return at which energies (e,) the position of a resonance decides."""
        out, poles = np.zeros(self.own.E.size, bool), poles_of(self.own)
        if self.nearby is not None:
            at = np.array([pole.energy.real for pole in poles])
            for p, pole in enumerate(poles):
                out |= np.abs(self.own.E - at[p]) < fano.window(pole, np.delete(at, p))
        return out

    def reflected(self) -> NDArray[np.float64]:
        """Return the relative change of an amplitude (c, e) by what the end of the contour returns."""
        own = self.own
        out = np.zeros(own.k.shape)
        for c, e in zip(*np.nonzero(own.k > 0.0), strict=True):
            out[c, e] = RETURNED * self.setup.reflection(float(own.k[c, e]))
        return out

    def shifted(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what the error of the threshold changes (..., e)."""
        if self.by_excess:
            # The photon alone is off, and a cross section is proportional to its energy.
            return np.asarray(self.shift * np.abs(values) / self.own.omega)
        if self.own.E.size < 2:
            return np.zeros_like(values)
        return np.asarray(self.shift * np.abs(np.gradient(values, self.own.E, axis=-1)))

    def shifts(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return what the error of the threshold changes (..., e) away from resonances, and across them, where it moves them."""
        changed = self.shifted(values)
        moved = np.where(self.across(), changed, 0.0)
        return changed - moved, moved

    def levels_of(self, of: Spectrum) -> Levels:
        """Return the cross section (g, e) of every level, Mb, all momenta of the electron outside together."""
        out: Levels = {}
        for (n, l, *_), values in zip(of.channels.tolist(), of.partial(), strict=True):
            out[n, l] = out.get((n, l), 0.0) + values
        return out

    def betas_of(self, of: Spectrum) -> Levels:
        """Return beta (g, e) of every level."""
        waves = {
            Channel(*channel): Wave(k, A, spread)
            for channel, k, A, spread in zip(of.channels.tolist(), of.k, of.amplitude, of.spread, strict=True)
        }
        return asymmetries(waves, self.setup.potential.charge - 1.0, self.L)


@dataclass(frozen=True, eq=False)
class Judgement:
    """Cross sections with their errors: arrays over gauges (g), energies (e) and levels (l), Mb.

    Attributes
    ----------
    total, total_error : (g, e) float64
    levels : list of (n, l)
    level, level_error, beta, beta_error : (l, g, e) float64
        An error is NaN where the coarser box does not hold the level.
    channel_error : (c, g, e) float64
    defect, defect_error : (g, e) float64
        What the channels lack of the total, relative to it.
    numbers : list of int
        Principal quantum numbers of the levels.
    beta_n, beta_n_error : (n, g, e) float64
        Asymmetry with the levels of one n not told apart.
    total_position, level_position, channel_position : (g, e), (l, g, e), (c, g, e) float64
        What errors of the positions of resonances add to the errors at a photon energy, Mb.
    parts : dict of (g, e) float64
        Shares of the error of the total by what they come from, Mb.
    """

    total: NDArray[np.float64]
    total_error: NDArray[np.float64]
    levels: list[tuple[int, int]]
    level: NDArray[np.float64]
    level_error: NDArray[np.float64]
    beta: NDArray[np.float64]
    beta_error: NDArray[np.float64]
    channel_error: NDArray[np.float64]
    defect: NDArray[np.float64]
    defect_error: NDArray[np.float64]
    numbers: list[int]
    beta_n: NDArray[np.float64]
    beta_n_error: NDArray[np.float64]
    total_position: NDArray[np.float64]
    level_position: NDArray[np.float64]
    channel_position: NDArray[np.float64]
    parts: dict[str, NDArray[np.float64]]


def judged(judge: Judge) -> Judgement:
    """Return cross sections and asymmetries with their errors."""
    own = judge.own
    partial, returned = own.partial(), judge.reflected()
    levels = judge.levels_of(own)
    names = sorted(levels)
    steady, moved = judge.shifts(partial)
    channel_error = own.partial_spread() + 2.0 * returned[:, None] * partial + steady
    channel_position = moved
    if len(partial):
        each = [_channel(channel) for channel in own.channels.tolist()]
        channel_error = channel_error + np.array([judge.error(value) for value in each])
        channel_position = moved + np.array([judge.position(value) for value in each])
    level = np.array([levels[name] for name in names]).reshape(len(names), *own.total.shape)
    # What the channels lack of the total is an error that each of them shows, also where two boxes agree in it: below a
    # threshold, Rydberg states reach beyond both.
    scale = np.maximum(np.abs(own.total), 1e-300)
    missing = own.total - level.sum(axis=0)
    channel_error = channel_error + np.abs(missing) / scale * partial
    level_error, level_position = np.zeros_like(level), np.zeros_like(level)
    for (n, l, *_), error, position in zip(
        own.channels.tolist(), channel_error, channel_position, strict=True
    ):
        level_error[names.index((n, l))] += error
        level_position[names.index((n, l))] += position
    # The total is stationary: two spectra may agree in it by more than they deserve. Where a small cross section is a small
    # part of a large response, channels that all are there tell by how much.
    known = np.nan_to_num(level_error, nan=0.0)
    by_grid, by_waves = judge.parts(_total)
    steady, moved = judge.shifts(own.total)
    parts = {
        "grid": by_grid + np.abs(missing) * _complete(own),
        "waves": by_waves,
        "contour": (returned[:, None] * partial).sum(axis=0),
        "threshold": steady,
        "model": own.left,
    }
    total_error = sum(parts.values(), STATIONARY * known.sum(axis=0))
    # No cross section is negative.
    total_error = np.maximum(total_error, -own.total)
    betas = judge.betas_of(own)
    beta = np.array([betas[name] for name in names]).reshape(level.shape)
    beta_error = np.array([_beta_error(judge, [name]) for name in names]).reshape(level.shape)
    # An s level leaves no choice where the initial state is isotropic: beta is 2.
    for k, (_, l) in enumerate(names):
        if l == 0 and judge.L == 0:
            beta_error[k] = np.where(np.isfinite(beta[k]), 0.0, np.nan)
    numbers = sorted({n for n, _ in names})
    groups = [[name for name in names if name[0] == n] for n in numbers]
    shape = (len(numbers), *own.total.shape)
    return Judgement(
        own.total,
        total_error,
        names,
        level,
        level_error,
        beta,
        beta_error,
        channel_error,
        missing / scale,
        (total_error + known.sum(axis=0)) / scale,
        numbers,
        np.array([_mean_beta(judge, own, group) for group in groups]).reshape(shape),
        np.array([_mean_beta_error(judge, group) for group in groups]).reshape(shape),
        judge.position(_total) + moved,
        level_position,
        channel_position,
        parts,
    )


def _total(of: Spectrum) -> NDArray[np.float64]:
    return of.total


def _complete(own: Spectrum) -> NDArray[np.bool_]:
    """Return whether the box holds every open level at an energy (e,): its last one is closed there."""
    if not own.levels.size:
        return np.zeros(own.E.size, bool)
    return np.asarray(own.levels.max() > own.E)


def _channel(channel: list[int]) -> Callable[[Spectrum], NDArray[np.float64]]:
    """Return a function that gives the cross section of a channel (g, e); NaN in a grid that does not hold it."""

    def values(of: Spectrum) -> NDArray[np.float64]:
        known = of.channels.tolist()
        if channel not in known:
            return np.full(of.total.shape, np.nan)
        c = known.index(channel)
        return np.asarray(weight_of(of.omega) * of.k[c] * np.abs(of.amplitude[c]) ** 2)

    return values


def _mean_beta(judge: Judge, of: Spectrum, names: list[tuple[int, int]]) -> NDArray[np.float64]:
    """Return beta (g, e) of some levels that are not told apart; NaN where none is open, or the grid lacks one of them."""
    betas, levels = judge.betas_of(of), judge.levels_of(of)
    if any(name not in levels for name in names):
        return np.full(of.total.shape, np.nan)
    weights = np.array([levels[name] for name in names])
    whole = weights.sum(axis=0)
    sums = (weights * np.nan_to_num(np.array([betas[name] for name in names]))).sum(axis=0)
    return np.divide(sums, whole, out=np.full(whole.shape, np.nan), where=whole > 0.0)


def _mean_beta_error(judge: Judge, names: list[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the error of beta (g, e) of some levels that are not told apart."""
    if judge.L == 0 and all(l == 0 for _, l in names):
        # An s level leaves no choice where the initial state is isotropic: beta is 2.
        return np.where(np.isfinite(_mean_beta(judge, judge.own, names)), 0.0, np.nan)
    return _beta_error(judge, names)


def _beta_error(judge: Judge, names: list[tuple[int, int]]) -> NDArray[np.float64]:
    """Return the error of beta (g, e) of levels: of grid and partial waves, and of what their amplitudes still show."""
    own = judge.own
    error = judge.error(lambda of: _mean_beta(judge, of, names))
    # To first order beta changes by at most about twice the relative error of an amplitude, times sqrt(l(l + 1)) of the
    # mixed term.
    members = [c for c, (n, l, *_) in enumerate(own.channels.tolist()) if (n, l) in names]
    size = np.sqrt((np.abs(own.amplitude[members]) ** 2).sum(axis=0))
    spread = np.sqrt((own.spread[members] ** 2).sum(axis=0))
    returned = judge.reflected()[members].max(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(size > 0.0, spread / size, np.nan) + returned
    return np.asarray(error + BETA * relative)


def told(judge: Judge) -> list[int]:
    """Return the numbers of the resonances that the coarser grid has, too; all of them where there is no coarser grid.

    Of few energies the other partial waves must have them as well: a space of few directions has poles of its own.
    """
    own, coarse, fewer = poles_of(judge.own), poles_of(judge.coarse), poles_of(judge.fewer)
    if judge.coarse is None:
        return list(range(len(own)))
    there = {p: fano.matched(pole, coarse) for p, pole in enumerate(own)}
    found = {p: pole for p, pole in there.items() if pole is not None}
    if judge.fewer is None or judge.own.E.size > FEW:
        return list(found)
    return [p for p, pole in found.items() if fano.matched(pole, fewer, MOVED) is not None]


def resolved(judge: Judge, errors: NDArray[np.float64]) -> list[int]:
    """Return the numbers of the resonances whose errors (p, 4) leave something: of sigma_a, and of the position.

    A pole that moves by more than its width and the distance to its neighbours may be any of them, or none.
    """
    poles = poles_of(judge.own)
    if judge.coarse is None:
        return list(range(len(poles)))
    at = np.array([pole.energy.real for pole in poles])
    kept = []
    for p, pole in enumerate(poles):
        apart = np.abs(np.delete(at, p) - at[p]).min(initial=MOVED)
        if errors[p, 3] < 1.0 and errors[p, 0] < max(pole.width, apart):
            kept.append(p)
    return kept


def resonance_errors(judge: Judge) -> NDArray[np.float64]:
    """Return the errors (p, 4) of position, width, q, and relative of sigma_a (first gauge) of every resonance.

    Partial waves move the position by more than the width.
    """
    own, coarse, fewer = poles_of(judge.own), poles_of(judge.coarse), poles_of(judge.fewer)
    if judge.coarse is None:
        return np.full((len(own), 4), np.nan if judge.lost else 0.0)
    out = np.full((len(own), 4), np.nan)
    for p, pole in enumerate(own):
        there = fano.matched(pole, coarse)
        if there is None:
            continue
        moved = there.energy - pole.energy
        # Waves from the end of the contour move both parts: neither is off by much less than the other.
        position, half = (
            SAFETY * max(abs(part), SHARE * abs(moved)) + pole.change for part in (moved.real, moved.imag)
        )
        changes = SAFETY * _apart(pole, there) + 2.0 * pole.change / pole.width
        out[p] = (position, 2.0 * half, *changes)
        if judge.fewer is None:
            continue
        other = fano.matched(there, fewer, MOVED)
        if other is None:
            # Where the resonance lies with other partial waves, the deck asks for no photon energy: its error is not known.
            out[p] = np.nan
            continue
        change = other.energy - there.energy
        # A width or a profile that hardly changes beside its position does so by chance.
        imaginary = max(abs(change.imag), BY_CHANCE * abs(change.real))
        share = imaginary / abs(there.energy.imag) * np.array([abs(pole.q(0)), 1.0])
        out[p] += judge.beyond * np.array(
            [abs(change.real), 2.0 * imaginary, *(_apart(other, there) + share)]
        )
    return out


def _apart(first: fano.Pole, second: fano.Pole) -> NDArray[np.float64]:
    """Return the difference of q, and the relative one of sigma_a, of two poles."""
    heights = first.height(0, 1.0), second.height(0, 1.0)
    return np.array([abs(first.q(0) - second.q(0)), abs(heights[0] - heights[1]) / max(heights)])


def poles_of(of: Spectrum | None) -> list[fano.Pole]:
    """Return the resonances of a spectrum."""
    if of is None:
        return []
    return [
        fano.Pole(complex(energy), d, float(change))
        for energy, d, change in zip(of.poles, of.strengths, of.changes, strict=True)
    ]

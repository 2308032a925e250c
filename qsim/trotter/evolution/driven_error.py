"""The error of steps all along a driven evolution, and the kinks of its profiles, at which steps are cut.

A driven Hamiltonian is easy to follow at one time and hard at another: late ramps, chirps, pulses.  So the whole evolution is
looked at.  The profiles are sampled on a grid; its cells fall into classes by how large and how rough the profiles are within the
next step.  In each class a few steps are made by a system of a few spins from random states, with dt and with two halves of
it.  The error of the evolution is at most the sum of the errors of its steps: the mean error of each class times the number of
its steps.  An evolution of few steps is not sampled: which of its steps holds a kink, and how long the parts are, may decide, so
that all of its steps are made.

Both a step and its two halves may pass over a pulse that the samples see.  So the sum that a step makes of the values of a
profile is held against the integral of the profile over the step: where their difference, which a commuting Hamiltonian would
turn into a wrong phase, is larger than the error of the halves, it is the error of the step.

At a kink or a jump no method keeps its order, unless a step ends there, and steps would pass over a narrow pulse: they are cut at
the places that :mod:`qsim.core.physics.structure` finds.  The parts of steps between places closer than a cell are made one by
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.physics.structure import CELLS, Profile, many, survey
from qsim.trotter.evolution import integrators as schedule
from qsim.trotter.evolution.driven_steps import half_maps, pieces, stages
from qsim.trotter.model.integrals import Antiderivative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.model.hamiltonian import Hamiltonian

__all__ = ["Drive", "Small"]

# classes by size (each half of the one before) and by roughness (each a tenth)
SIZES, ROUGH = 3, 6
# steps of a class
SAMPLES = 3
# up to which the error of a random state may be far from the error of another
FEW_SPINS = 3
# times the error that the halves of a step show: more than that was passed over
MISSED = 3.0
# times the mean field of an evolution: a part with more may be cut into short ones
STRONG = 4.0
# of a part of time without kinks: where its profiles are looked at; a jump belongs to one side
WITHIN = (
    1e-3,
    0.5,
    0.999,
)
# parts of steps, between kinks, up to which all steps of an evolution are made
WALKED = 128


# ------------------------------------------------------------------------------------- a small system


def _frames(spins: int) -> dict[int, NDArray[np.complex128]]:
    """Return C^dagger to the k-th power on all spins, k = 0, 1, 2: from the frame of z to the frames of z, x, y."""
    # C of the theory page, "Layers and frames": C S^z C^dagger = S^x, C S^x C^dagger = S^y
    C = np.array([[1, -1j], [1, 1j]]) / math.sqrt(2.0)
    # axis x is z in the frame C^dagger, y in its square
    one = {2: np.eye(2, dtype=complex), 0: C.conj().T, 1: (C @ C).conj().T}
    frames = {}
    for a, matrix in one.items():
        # site 0 is the lowest bit; a global rotation is the same for
        # all sites, so that the order of the products does not matter
        all_spins = np.eye(1, dtype=complex)
        for _ in range(spins):
            all_spins = np.asarray(np.kron(all_spins, matrix), np.complex128)
        frames[a] = all_spins
    return frames


@dataclass
class Small:
    """A driven system of a few spins, many copies of which are carried at once, each at its own time.

    Parameters
    ----------
    spins : int
    diagonals : (P, 3, 2^N) float64
        Energies of every part in the frame of every axis.
    profiles : sequence of callable
        Factors of the parts.
    """

    spins: int
    diagonals: NDArray[np.float64]
    profiles: Sequence[Profile]
    turns: dict[tuple[int, int], NDArray[np.complex128]] = field(init=False)
    axes: tuple[int, ...] = field(init=False)

    @classmethod
    def of(cls, hamiltonian: Hamiltonian) -> Small:
        """Return the small system of a Hamiltonian."""
        from qsim.trotter.model.hamiltonian import energies

        parts = [(_one, hamiltonian.static), *hamiltonian.driven]
        diagonals = np.array([[energies(model, a) for a in range(3)] for _, model in parts])
        return cls(int(hamiltonian.spins), diagonals, [f for f, _ in parts])

    def __post_init__(self) -> None:
        """Tabulate the changes of frame."""
        frames = _frames(self.spins)
        # states are rows: psi_b = psi_a (F_b F_a^dagger)^T
        self.turns = {(a, b): (frames[b] @ frames[a].conj().T).T for a in frames for b in frames if a != b}
        self.axes = tuple(a for a in schedule.ORDER if np.any(self.diagonals[:, a]))

    def advance(
        self, psi: NDArray[np.complex128], method: str, starts: NDArray[np.float64], dt: NDArray[np.float64]
    ) -> NDArray[np.complex128]:
        """Return states (S, 2^N) after one step each, from times (S,) with lengths (S,)."""
        # a copy is in one frame at a time, as in `Evolver`; all copies change it together
        frame = 2
        # the clock of a step moves with its maps (theory page,
        # "Driven systems"): each copy has its own time and length
        for offset, halves in stages(method, 0.0, 1.0):
            times = starts + offset * dt
            factors = np.array([many(f, times) for f in self.profiles]).T
            for axis, c in half_maps(self.axes, halves, 1.0):
                if axis != frame:
                    psi = psi @ self.turns[frame, axis]
                    frame = axis
                # phases of the layer: energies of each copy from the factors of its parts
                psi = psi * np.exp(-1j * c * dt[:, None] * (factors @ self.diagonals[:, axis]))
        return psi if frame == 2 else psi @ self.turns[frame, 2]


def _one(t: float) -> float:
    return 1.0


# ---------------------------------------------------------------------------------- along the evolution


@dataclass
class Drive:
    """A driven evolution of a small system.

    Attributes
    ----------
    small : Small
    end : float
        Of the evolution, which begins at 0.
    size, rough : (CELLS,) float64
        The largest couplings in every cell of time, and how they bend.
    places : list of float
        Times of the kinks, and within pulses narrower than a cell.
    missed : int
        Narrow pulses beyond the number that steps are cut for.
    fields : (P, P, N) float64
        With factors f of the parts, ``f fields f`` is the square of the rms field of every spin.
    """

    small: Small
    end: float
    size: NDArray[np.float64]
    rough: NDArray[np.float64]
    places: list[float]
    missed: int = 0
    fields: NDArray[np.float64] = field(default_factory=lambda: np.zeros((1, 1, 1)))
    known: dict[tuple[str, float], float] = field(default_factory=dict)
    walked: dict[tuple[str, float, tuple[float, ...]], float] = field(default_factory=dict)
    paces: dict[tuple[float, ...], float] = field(default_factory=dict)

    @classmethod
    def of(cls, hamiltonian: Hamiltonian, end: float) -> Drive:
        """Sample the profiles of a Hamiltonian."""
        small = Small.of(hamiltonian)
        times = np.linspace(0.0, end, CELLS + 1)
        # of the parts, root mean square
        norms = np.sqrt((small.diagonals**2).mean(axis=2).sum(axis=1))
        # static part first: its factor is 1 all along
        size, rough = np.full(CELLS, norms[0]), np.zeros(CELLS)
        for norm, f in zip(norms[1:], small.profiles[1:], strict=True):
            # a profile on the grid of cells: its size in a cell,
            # and its second difference as a measure of bending
            values = norm * many(f, times)
            bend = np.zeros(CELLS + 1)
            bend[1:-1] = np.abs(values[2:] - 2.0 * values[1:-1] + values[:-2])
            size += np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
            rough += np.maximum(bend[1:], bend[:-1])
        places, missed = survey(small.profiles[1:], end)
        cuts = [t for t, _ in places]
        # pulses narrower than a cell show at their kinks
        for t in cuts:
            k = min(int(t / end * CELLS), CELLS - 1)
            values = [abs(n * f(t)) for n, f in zip(norms[1:], small.profiles[1:], strict=True)]
            size[k] = max(size[k], float(norms[0] + sum(values)))
        # square of the field of each spin from parts p and q, cross
        # terms included: J / 2 for random neighbours, as in `strength`
        parts = [hamiltonian.static.size, *(part.size for _, part in hamiltonian.driven)]
        J, h = np.array([0.5 * part.J for part in parts]), np.array([part.h for part in parts])
        fields = np.einsum("pajk,qajk->pqj", J, J) + np.einsum("paj,qaj->pqj", h, h)
        return cls(small, end, size, rough, cuts, missed, fields)

    def parts(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return starts and lengths of the parts between places, and the largest rms field of a spin within each."""
        stops = np.unique(np.array([0.0, *self.places, self.end]))
        # profiles are looked at within every cell and between
        # places, at three points each; jumps are ends of parts
        edges = np.unique(np.concatenate([stops, np.linspace(0.0, self.end, CELLS + 1)]))
        begin, length = edges[:-1], np.diff(edges)
        factors = [
            np.max([np.abs(many(f, begin + x * length)) for x in WITHIN], axis=0) for f in self.small.profiles
        ]
        # square of the rms field of each spin with these factors; the strongest spin counts
        square = np.einsum("pc,qc,pqj->jc", factors, factors, self.fields).max(axis=0)
        # the largest of the cells between two places
        strongest = np.maximum.reduceat(square, np.searchsorted(begin, stops[:-1]))
        return stops[:-1], np.diff(stops), np.sqrt(strongest)

    def pace(self, widest: float) -> float:
        """Return the largest rms field of a spin, without parts between places that it takes no more than `widest` through."""
        key = tuple(self.places)
        if key not in self.paces:
            # parts that end before `widest` are one step in any case
            _, length, field = self.parts()
            self.paces[key] = float(field[length * field > widest].max(initial=0.0))
        return self.paces[key]

    def strong(self, widest: float, most: int) -> list[float]:
        """Return at most `most` further places, by which short parts with a strong field become shorter than `widest` in it.

        A pulse of a table is cut like a pulse of a formula: no step elsewhere has to be as short as in it.
        """
        begin, length, field = self.parts()
        counts = np.ceil(length * field / widest)
        # a part counts as strong against the mean field of
        # the evolution, and if it takes more than one step
        strong = (field > STRONG * float(length @ field) / self.end) & (counts > 1.0)
        cuts: list[float] = []
        # the strongest first, until `most` places are used
        for k in np.flatnonzero(strong)[np.argsort(-field[strong])]:
            if len(cuts) + counts[k] - 1.0 > most:
                break
            cuts.extend(begin[k] + length[k] * np.arange(1.0, counts[k]) / counts[k])
        return cuts

    def error(self, method: str, dt: float) -> float:
        """Return the sum of the errors of all steps of an evolution with steps of dt."""
        dt = min(dt, self.end)
        key = (method, dt)
        if key not in self.known:
            self.known[key] = self._measure(method, dt)
        return self.known[key]

    def walk(self, method: str, intervals: NDArray[np.float64], dt: float) -> float | None:
        """Return the sum of the errors of the very steps of an evolution; None if there are too many of them.

        Parameters
        ----------
        intervals : (m,) float64
            Between the times at which the evolution stops, from 0 on; their steps are of equal length.
        dt : float
            Longest step.
        """
        # whole steps within each interval, as `Pilot.total` has them
        counts = np.ceil(intervals / dt * (1.0 - 1e-12))
        if not float(counts.sum()) + len(self.places) <= WALKED:
            return None
        key = (method, dt, tuple(intervals.tolist()))
        if key not in self.walked:
            stops = np.concatenate([[0.0], np.cumsum(intervals)])
            steps = [
                (stop + k * length / count, length / count)
                for stop, length, count in zip(stops[:-1], intervals, counts.astype(int), strict=True)
                for k in range(count)
            ]
            # a small system is followed from several random states, a larger one from one
            states = SAMPLES if self.small.spins <= FEW_SPINS else 1
            parts = np.array([part for start, h in steps for part in pieces(start, h, self.places)] * states)
            self.walked[key] = float(self._whole(method, parts[:, 0], parts[:, 1]).sum()) / states
        return self.walked[key]

    def step(self, method: str, dt: float, time: float) -> float:
        """Return the error of one step from a time on, the mean over some random states."""
        # a step over a kink is cut there, as the evolution does it
        parts = pieces(time, dt, self.places) * SAMPLES
        begin, length = np.array(parts).T
        return float(self._local(method, begin, length).sum()) / SAMPLES

    def worst(self) -> float:
        """Return a time at which the couplings are strongest."""
        return (float(np.argmax(self.size)) + 0.5) / CELLS * self.end

    def _measure(self, method: str, dt: float) -> float:
        # samples of steps, each with the weight of those it stands for
        starts, weight = self._samples(dt)
        owner, begin, length = [], [], []
        for k, t in enumerate(starts):
            # steps over places fall into parts, whose errors are added for their owner
            for a, h in pieces(float(t), dt, self.places):
                owner.append(k)
                begin.append(a)
                length.append(h)
        each = self._whole(method, np.array(begin), np.array(length))
        errors = np.bincount(owner, each, len(starts))
        return float(weight @ errors) + self._between(method, dt)

    def _between(self, method: str, dt: float) -> float:
        """Return the sum of the errors of the parts of steps between places closer than a cell, which samples may miss."""
        begin, gap = self.gaps()
        if not len(gap):
            return 0.0
        # whole steps in a gap; the middle one stands for all of them
        steps = np.ceil(gap / dt * (1.0 - 1e-12))
        return float(steps @ self._local(method, begin + (steps // 2) * gap / steps, gap / steps))

    def gaps(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return starts and lengths of the parts between neighbouring places that are not farther than a cell."""
        places = np.array(self.places)
        gaps = np.diff(places)
        # 1.01: gaps of exactly a cell, but for rounding
        near = gaps < 1.01 * self.end / CELLS
        return places[:-1][near], gaps[near]

    def crowded(self, method: str, error: float) -> list[float]:
        """Return the middles of the parts between close places whose steps make more than their share of an error."""
        begin, gap = self.gaps()
        if not len(gap):
            return []
        large = self._local(method, begin, gap) > error / len(gap)
        return list((begin + 0.5 * gap)[large])

    @cached_property
    def _integrals(self) -> list[Antiderivative]:
        return [Antiderivative(f, self.end, self.places) for f in self.small.profiles]

    def _whole(
        self, method: str, begin: NDArray[np.float64], length: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the errors of single steps, pulses that they pass over included."""
        errors = self._local(method, begin, length)
        # integrals are known no better than a cell, and shorter steps follow the profile in any case
        long = length > 1.01 * self.end / CELLS
        if np.any(long):
            missed = self._missed(method, begin[long], length[long])
            errors[long] = np.where(missed > MISSED * errors[long], missed, errors[long])
        return errors

    def _missed(
        self, method: str, begin: NDArray[np.float64], length: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the rms phase by which steps differ from the integrals of their profiles.

        With times t_i and weights w_i of the stages of a step h: the rms of ``sum_p H_p [h sum_i w_i f_p(t_i) - int f_p dt]``
        over all states, the first term of the Magnus series of the error.
        """
        phases = np.zeros((len(begin), len(self.small.profiles)))
        plan = stages(method, 0.0, 1.0)
        # phase of part p in a step by the formula, against its integral
        for p, (f, integral) in enumerate(zip(self.small.profiles, self._integrals, strict=True)):
            made = sum(sum(halves) * many(f, begin + offset * length) for offset, halves in plan)
            off = length * made - integral.between(begin, begin + length)
            # differences within the rounding of the integral are none
            phases[:, p] = np.where(np.abs(off) > integral.rounding, off, 0.0)
        # Tr H_p H_q / 2^N of all pairs of parts
        square = np.einsum("pab,qab->pq", self.small.diagonals, self.small.diagonals) / (
            1 << self.small.spins
        )
        return np.sqrt(np.einsum("sp,pq,sq->s", phases, square, phases))

    def _local(
        self, method: str, begin: NDArray[np.float64], length: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the errors of single steps from random states."""
        # the same random states in every run; normal amplitudes, one state for each step
        generator = np.random.default_rng(1)
        shape = (len(begin), 1 << self.small.spins)
        psi = generator.normal(size=shape) + 1j * generator.normal(size=shape)
        psi /= np.linalg.norm(psi, axis=1, keepdims=True)
        # one step against its two halves
        one = self.small.advance(psi, method, begin, length)
        two = self.small.advance(psi, method, begin, 0.5 * length)
        two = self.small.advance(two, method, begin + 0.5 * length, 0.5 * length)
        order = schedule.METHODS[method].order
        return np.asarray(np.linalg.norm(one - two, axis=1) / (1.0 - 0.5**order))

    def _samples(self, dt: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return starts of steps and how many steps each of them stands for."""
        from scipy.ndimage import maximum_filter1d

        # cells that a step from each start reaches over
        width = self.end / CELLS
        window = max(1, min(CELLS, math.ceil(dt / width)))
        # over the cells of the step that begins in each
        back = {"origin": -(window // 2)} if window > 1 else {}
        size = maximum_filter1d(self.size, window, mode="nearest", **back)
        rough = maximum_filter1d(self.rough, window, mode="nearest", **back)
        last = max(1, CELLS - window + 1)
        size, rough = size[:last], rough[:last]
        with np.errstate(divide="ignore"):
            # classes: halves of the largest size, tenths of the largest roughness
            a = np.floor(-np.log2(size / max(size.max(), 1e-300)))
            b = np.floor(-np.log10(rough / max(rough.max(), 1e-300)))
        label = np.clip(a, 0, SIZES) * 100 + np.clip(b, 0, ROUGH)
        generator = np.random.default_rng(2)
        starts, weight = [], []
        steps = max(1.0, self.end / dt)
        for value in np.unique(label):
            cells = np.flatnonzero(label == value)
            count = min(SAMPLES, len(cells))
            # evenly over the class, each a little off at random
            chosen = cells[((np.arange(count) + generator.random(count)) * len(cells) / count).astype(int)]
            starts.extend(np.minimum((chosen + generator.random(count)) * width, self.end - dt))
            # a sample stands for its share of the class, among all steps of the evolution
            weight.extend([len(cells) / last * steps / count] * count)
        return np.maximum(np.array(starts), 0.0), np.array(weight)

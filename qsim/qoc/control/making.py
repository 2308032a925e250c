"""From the blocks of a deck to the controls of a quantum system, and their first values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.expression import Expression
from qsim.core.errors import InvalidInput
from qsim.core.physics.structure import FormulaProfile
from qsim.qoc.control import modes
from qsim.qoc.control.controls import Controls, Line, Pair
from qsim.qoc.control.mesh import midpoints
from qsim.qoc.control.parametrisation import EXACT, ROOM, Parametrisation
from qsim.qoc.control.values import Setting, first_values
from qsim.qoc.deck.systems.quantities import units_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.control.controls import Curve
    from qsim.qoc.control.modes import Basis
    from qsim.qoc.control.rungs import Rungs
    from qsim.qoc.deck.controls import QuantumControl
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.models.quantum import ControlTerm

# Stream of random numbers of Fourier frequencies; one more per control.
FREQUENCIES = 400
# Largest area of a deck, relative to the largest area within the bounds.
REACHABLE = 0.95


class Making:
    """Controls of a deck.

    Parameters
    ----------
    deck : QuantumDeck
    terms : tuple of ControlTerm
        Controls of the system, in its order.
    seed : int
    soft : bool
        Keep all bounds by the soft clip: for searches that know no box.
    rungs : Rungs, optional
        Transitions of the system, for first values that drive them.
    """

    def __init__(
        self,
        deck: QuantumDeck,
        terms: tuple[ControlTerm, ...],
        seed: int,
        *,
        soft: bool = False,
        rungs: Rungs | None = None,
    ) -> None:
        units = units_of(deck.system)
        duration = units.time(deck.time.T, "time.T")
        self.setting = Setting(units, duration, midpoints(deck.time.count, duration), seed, rungs=rungs)
        self.deck, self.terms, self.soft = deck, terms, soft
        # Without a search the fields are propagated as they are given.
        self.room = EXACT if deck.optimizer.type == "none" else ROOM
        self.place = {c.name: i for i, c in enumerate(deck.control)}

    @property
    def redraws(self) -> int:
        """Times that new random functions are drawn where a search rests."""
        free = [c.parameters for c in self.deck.control if not c.fixed]
        return max((p.redraws for p in free if p.type == "fourier"), default=0)

    def start(self, attempt: int = 0) -> tuple[Controls, NDArray[np.float64]]:
        """Return the maps of all controls, in the order of the system, and their first values (C, N).

        Raises
        ------
        InvalidInput
            If a constraint, a formula or a file of a control cannot be used.
        """
        s = self.setting
        setting = replace(s, attempt=attempt)
        made = [self._line(number, setting) for number in range(len(self.terms))]
        lines = tuple(line for line, _ in made)
        controls = Controls(lines, s.duration, tuple(self._pairs()), self.deck.objective.max_fluence)
        guess = np.array([row for _, row in made])
        return controls, controls.field(controls.parameters(guess))

    def _line(self, number: int, setting: Setting) -> tuple[Line, NDArray[np.float64]]:
        """Return one control and its first values (N,)."""
        term = self.terms[number]
        i = self.place[term.name]
        block, key = self.deck.control[i], f"control.{i}"
        shape = _shape(block, setting.duration)
        basis = _basis(block, key, setting, number, 0)
        made = self._map(block, key, basis)
        # a rotation by pi in T, for a control without bounds
        size = float(abs(term.operator).sum(axis=1).max(initial=0.0))
        natural = (math.pi / setting.duration / size) ** (1.0 / term.power) if size > 0 else 1.0
        first = first_values(block, key, made, setting, natural, (number, term.power))
        values = first.curve(setting.times)
        row = values if first.shaped else values * made.shape
        held = first.held and block.shape is None
        curve: Curve = _ones if first.shaped else shape
        profiles = (*first.profiles, *_profiles(block, setting.duration))
        if block.fixed:
            return Line(made, curve, None, first.curve, fixed=row, held=held, profiles=profiles), row
        if self.deck.optimizer.type == "none" and basis is None and block.slew is None and not held:
            # Nothing is searched: what the deck says is the control itself, and the slots approximate it.
            return Line(made, curve, None, first.curve, held=False, given=True, profiles=profiles), row
        held = basis is None or basis.held
        if basis is not None and basis.frequencies is None:
            # of functions that follow the first values nothing but the shape may be narrow
            profiles = profiles[len(first.profiles) :]
        if block.parameters.type != "fourier":
            return Line(made, shape, basis, None, held=held, profiles=profiles), row
        assert basis is not None
        # functions near harmonics do not hold the first values: they are added to them
        safe = np.where(made.shape > 1e-3, made.shape, 1.0)
        offset = np.where(made.shape > 1e-3, row / safe, 0.0)
        from_values = Parametrisation(
            made.shape,
            made.low,
            made.high,
            made.area,
            basis.modes,
            offset=offset,
            soft_bounds=self.soft,
            room=self.room,
        )

        def draw(n: int) -> Basis:
            drawn = _basis(block, key, setting, number, n)
            assert drawn is not None
            return drawn

        line = Line(from_values, shape, basis, first.curve, held=False, draw=draw, profiles=profiles)
        return line, from_values.field(np.zeros(from_values.size))

    def _map(self, block: QuantumControl, key: str, basis: Basis | None) -> Parametrisation:
        """Return the map of a control without first values."""
        s = self.setting
        shape = _shape(block, s.duration)(s.times)
        if shape.min() < -1e-12 or shape.max() > 1 + 1e-12 or shape.max() <= 0:
            text = f"the shape must stay between 0 and 1; it runs from {np.min(shape):g} to {np.max(shape):g}"
            raise InvalidInput(f"{key}.shape", text)
        shape = np.clip(shape, 0.0, 1.0)
        low, high = np.full(s.times.size, -np.inf), np.full(s.times.size, np.inf)
        if block.bounds is not None:
            ends = [s.units.control(b, f"{key}.bounds") for b in block.bounds]
            if not ends[0] < ends[1]:
                raise InvalidInput(f"{key}.bounds", f"{ends[0]:g} must lie below {ends[1]:g}")
            if not ends[0] <= 0.0 <= ends[1]:
                raise InvalidInput(f"{key}.bounds", f"[{ends[0]:g}, {ends[1]:g}] must include zero")
            low[:], high[:] = ends
        area = self._area(block, key, shape, (low, high))
        if basis is None:
            slew = None if block.slew is None else block.slew * s.duration / s.times.size
            return Parametrisation(
                shape, low, high, area, None, slew=slew, soft_bounds=self.soft, room=self.room
            )
        return Parametrisation(
            shape,
            low,
            high,
            area,
            basis.modes,
            disjoint=basis.disjoint,
            soft_bounds=self.soft,
            room=self.room,
        )

    def _area(
        self,
        block: QuantumControl,
        key: str,
        shape: NDArray[np.float64],
        ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    ) -> float | None:
        """Return the required sum of values; None for any."""
        if block.zero_area:
            if 0.0 in (ends[0][0], ends[1][0]):
                raise InvalidInput(f"{key}.bounds", "a control of one sign cannot have zero area")
            return 0.0
        if block.area is None:
            return None
        tau = self.setting.duration / shape.size
        least, most = (tau * float(np.sum(end[shape > 0])) for end in ends)
        if not REACHABLE * least <= block.area <= REACHABLE * most:
            text = f"an area of {block.area:g} is out of reach: within the bounds it is {least:.4g} to {most:.4g}"
            raise InvalidInput(f"{key}.area", text)
        return block.area / tau

    def _pairs(self) -> list[Pair]:
        """Return the pairs of controls whose modulus is bounded."""
        order, units = {term.name: i for i, term in enumerate(self.terms)}, self.setting.units
        found = []
        for i, block in enumerate(self.deck.control):
            if block.modulus is None:
                continue
            key = f"control.{i}.modulus.bound"
            bound = units.control(block.modulus.bound, key)
            if not bound > 0.0:
                raise InvalidInput(key, f"the largest modulus must be above 0, found {bound:g}")
            found.append(Pair(order[block.modulus.partner], order[block.name], bound))
        return found


def penalties(deck: QuantumDeck, terms: tuple[ControlTerm, ...]) -> NDArray[np.float64]:
    """Return alpha (C,) of each control of the system."""
    given = {c.name: c.alpha for c in deck.control}
    common = deck.objective.alpha
    found = [given.get(term.name) for term in terms]
    return np.array([common if alpha is None else alpha for alpha in found])


def _ones(t: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ones(t.size)


def _profiles(block: QuantumControl, duration: float) -> list[FormulaProfile]:
    """Return the formula of the shape."""
    if block.shape is None or block.shape.type != "expression":
        return []
    return [FormulaProfile(Expression(block.shape.value, ("t", "T")).with_values(T=duration))]


def _shape(block: QuantumControl, duration: float) -> Curve:
    """Return S at any times."""
    given = block.shape
    return _ones if given is None else lambda t: given.at(t, duration)


def _basis(block: QuantumControl, key: str, setting: Setting, number: int, draw: int) -> Basis | None:
    """Return the functions of a control; None for one value per slot."""
    choice, times, duration, units = block.parameters, setting.times, setting.duration, setting.units
    slots = times.size
    if block.band is not None:
        return modes.sine(*_band(block.band, f"{key}.band", setting), times, duration)
    if choice.type == "slots":
        if choice.count is None or choice.count == slots:
            return None
        if slots % choice.count:
            text = f"{choice.count} values do not divide {slots} slots into equal blocks"
            raise InvalidInput(f"{key}.parameters.count", text)
        return modes.blocks(choice.count, slots, duration)
    if choice.type == "constant":
        return modes.constant(times, held=block.shape is None)
    if choice.type == "sine":
        return modes.sine(*_band(choice.band, f"{key}.parameters.band", setting), times, duration)
    if choice.type == "fourier":
        if 2 * choice.count > slots:
            raise InvalidInput(
                f"{key}.parameters.count",
                f"{choice.count} frequencies on {slots} slots; at most {slots // 2}",
            )
        # draws of one start do not meet those of another
        stream = FREQUENCIES + number + 4096 * (1 + setting.attempt) * (draw + 1)
        return modes.fourier(
            modes.near_harmonics(choice.count, choice.spread, duration, setting.seed, stream), times
        )
    carriers = np.array([units.frequency(c, f"{key}.parameters.carriers") for c in choice.carriers])
    functions = choice.count * int(np.sum(np.where(carriers == 0.0, 1, 2)))
    if functions > slots:
        what = "splines" if functions == choice.count else "splines with carriers"
        raise InvalidInput(f"{key}.parameters.count", f"{functions} {what} on {slots} slots")
    fastest = np.pi / duration * slots
    if np.abs(carriers).max() > fastest:
        text = f"{slots} slots represent frequencies up to {fastest / units.factor:g}"
        raise InvalidInput(f"{key}.parameters.carriers", text)
    return modes.carried_splines(choice.count, carriers, times, duration)


def _band(band: list[float | str], key: str, setting: Setting) -> tuple[int, int]:
    """Return the first and last sine mode of a band."""
    units = setting.units
    low, high = (units.frequency(b, key) for b in band)
    spacing, slots = math.pi / setting.duration, setting.times.size
    first, last = max(1, math.ceil(low / spacing)), min(slots, math.floor(high / spacing))
    if last < first:
        text = f"no sine mode of the pulse lies in the band; their spacing is {spacing / units.factor:g}"
        raise InvalidInput(key, text)
    return first, last

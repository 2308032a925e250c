"""Jumps between levels from the entries of a deck: one operator for each pair of levels, and diagonal ones.

Levels of different distances have no common phase to a bath, so that each transition jumps by itself: the secular approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from qsim.core.errors import InvalidInput
from qsim.qoc.models.operators import require_hermitian, sparse_matrix
from qsim.qoc.models.quantum import Jump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from scipy.sparse import csr_array

    from qsim.core.device.arrays import FloatArray
    from qsim.qoc.deck.systems.jumps import LevelJump
    from qsim.qoc.deck.systems.quantities import Units
    from qsim.qoc.models.faults import Faults

# Rates that are smaller than this part of the largest one of their entry change nothing that is claimed.
NEGLIGIBLE = 1e-14


@dataclass(frozen=True)
class Levels:
    """Levels that jumps connect.

    Attributes
    ----------
    energies : (K,) float64
        Angular frequencies.
    places : mapping
        Number of each level by its name in the deck.
    units : Units
    operator : callable
        Returns the operator (K, K) of a formula and a key.
    weights : mapping
        Number of states of a level by name, where it stands for several; 1 without.
    numbers : (K,) float64 or None
        Whose distances tell how coherences decay by pure dephasing; None: those of the levels.
    """

    energies: FloatArray
    places: Mapping[str, int]
    units: Units
    operator: Callable[[str, str], csr_array]
    weights: Mapping[str, float] = field(default_factory=dict)
    numbers: FloatArray | None = None

    def place(self, name: str, key: str) -> int:
        """Return the number of a level.

        Raises
        ------
        InvalidInput
            If there is none of this name.
        """
        if name not in self.places:
            known = ", ".join(list(self.places)[:12])
            raise InvalidInput(key, f"unknown level {name!r}; levels: {known}")
        return self.places[name]


def level_jumps(entries: Sequence[LevelJump], levels: Levels, faults: Faults) -> tuple[Jump, ...]:
    """Return the jumps of all entries; what is mistaken is kept in `faults`."""
    found: list[Jump] = []
    for number, entry in enumerate(entries):
        with faults.catch():
            found += of_entry(entry, levels, f"system.jumps.{number}")
    return tuple(found)


def of_entry(entry: LevelJump, levels: Levels, key: str) -> list[Jump]:
    """Return the jumps of one entry.

    Raises
    ------
    InvalidInput
        If a level or a formula is mistaken.
    """
    short, size = key.removeprefix("system."), levels.energies.size
    if entry.lifetimes is not None or entry.rates is not None:
        return between(rates_of(entry, levels, key), short, size)
    if entry.bath is not None:
        return between(_of_bath(entry, levels, key), short, size)
    if entry.dephasing is not None:
        means = np.arange(float(size)) if levels.numbers is None else levels.numbers
        if entry.operator is not None:
            operator = levels.operator(entry.operator, f"{key}.operator")
            require_hermitian(operator, f"{key}.operator", entry.operator)
            means = operator.diagonal().real
        apart = float(means[1] - means[0])
        if abs(apart) < 1e-12 * max(float(np.abs(means).max()), 1e-300):
            raise InvalidInput(
                f"{key}.operator", "levels 0 and 1 have the same mean; no time tells its factor"
            )
        # The coherence of two levels decays by half of the square of the distance of the entries.
        rate = 2.0 / levels.units.time(entry.dephasing, f"{key}.dephasing")
        return [Jump(short, sparse_matrix(sparse.diags_array(math.sqrt(rate) * means / apart)))]
    if entry.operator is None:
        # a matrix of its own
        return []
    assert entry.rate is not None
    rate = levels.units.rate(entry.rate, f"{key}.rate")
    return [Jump(short, sparse_matrix(math.sqrt(rate) * levels.operator(entry.operator, f"{key}.operator")))]


def between(rates: Mapping[tuple[int, int], float], name: str, size: int) -> list[Jump]:
    """Return a jump for each rate above nothing, from the first level of a pair to the second."""
    least = NEGLIGIBLE * max(rates.values(), default=0.0)
    return [
        Jump(
            f"{name}.{start}-{end}",
            sparse.csr_array(([math.sqrt(rate) + 0j], ([end], [start])), shape=(size, size)),
        )
        for (start, end), rate in rates.items()
        if rate > least
    ]


def _listed(entry: LevelJump, levels: Levels, key: str) -> Iterator[tuple[str, str, float]]:
    """Yield names of levels and the rate between them, as the deck has them."""
    units, order = levels.units, sorted(levels.places, key=lambda name: levels.energies[levels.places[name]])
    for name, time in (entry.lifetimes or {}).items():
        place = f"{key}.lifetimes.{name}"
        levels.place(name, place)
        if order.index(name) == 0:
            raise InvalidInput(place, "the lowest level has nowhere to fall")
        yield name, order[order.index(name) - 1], 1.0 / units.time(time, place)
    for start, ends in (entry.rates or {}).items():
        for end, rate in ends.items():
            place = f"{key}.rates.{start}.{end}"
            levels.place(start, f"{key}.rates.{start}")
            levels.place(end, place)
            if start == end:
                raise InvalidInput(place, "a jump changes the level; pure dephasing is dephasing: TIME")
            yield start, end, units.rate(rate, place)


def rates_of(entry: LevelJump, levels: Levels, key: str) -> dict[tuple[int, int], float]:
    """Return the rates of an entry with lifetimes or a table, and their reverses by detailed balance.

    Raises
    ------
    InvalidInput
        If a level is unknown, or both directions are given beside a temperature.
    """
    found = {
        (levels.places[start], levels.places[end]): (
            rate,
            levels.weights.get(start, 1.0),
            levels.weights.get(end, 1.0),
        )
        for start, end, rate in _listed(entry, levels, key)
    }
    rates = {pair: rate for pair, (rate, _, _) in found.items()}
    if entry.temperature is None:
        return rates
    temperature = levels.units.temperature(entry.temperature, f"{key}.temperature")
    for (start, end), (rate, own, other) in found.items():
        if (end, start) in found:
            text = f"both directions of {start} - {end} are given; leave one of them out, or the temperature"
            raise InvalidInput(f"{key}.temperature", text)
        drop = float(levels.energies[start] - levels.energies[end])
        # own exp(-E_start/kT) rate = other exp(-E_end/kT) reverse
        rates[end, start] = rate * own / other * math.exp(min(-drop / temperature, 700.0))
    return rates


def _of_bath(entry: LevelJump, levels: Levels, key: str) -> dict[tuple[int, int], float]:
    """Return the golden-rule rates ``rate |f_ij|^2/|f_10|^2 (1 + n)`` downwards, with n upwards.

    Raises
    ------
    InvalidInput
        If the formula does not couple levels 0 and 1.
    """
    assert entry.bath is not None
    assert entry.rate is not None
    operator = levels.operator(entry.bath, f"{key}.bath")
    require_hermitian(operator, f"{key}.bath", entry.bath)
    strength = np.abs(operator.toarray()) ** 2
    if not strength[1, 0] > NEGLIGIBLE * strength.max(initial=0.0):
        raise InvalidInput(f"{key}.bath", f"{entry.bath} does not couple levels 0 and 1, whose rate is given")
    rate = levels.units.rate(entry.rate, f"{key}.rate")
    temperature = 0.0
    if entry.temperature is not None:
        temperature = levels.units.temperature(entry.temperature, f"{key}.temperature")
    rates: dict[tuple[int, int], float] = {}
    for low, high in zip(*np.triu_indices(levels.energies.size, 1), strict=True):
        apart = float(levels.energies[high] - levels.energies[low])
        quanta = 0.0
        if temperature > 0.0:
            if apart <= 0.0:
                raise InvalidInput(f"{key}.temperature", f"levels {low} and {high} have the same energy")
            quanta = 1.0 / math.expm1(min(apart / temperature, 700.0))
        cold = rate * float(strength[high, low] / strength[1, 0])
        rates[int(high), int(low)] = cold * (1.0 + quanta)
        rates[int(low), int(high)] = cold * quanta
    return rates

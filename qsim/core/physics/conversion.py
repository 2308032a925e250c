"""Conversion of results to units of a user: ``kb/hartree`` as ``Mb/eV``.

A unit of a results file is a product of powers, such as ``a0^2/(hartree sr)``.  Each factor for which the user names a unit of
the same quantity is given in that; the others stay.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from qsim.core.deck.units import CODATA, UNITS, canonical

__all__ = ["Converted", "convert", "factor_between", "split_units"]

_BOHR = CODATA["atomic unit of length"]
#: Areas, in bohr^2; 1 barn is 1e-28 m^2.
AREAS: dict[str, float] = {
    name: size / _BOHR**2
    for name, size in {
        "b": 1e-28,
        "kb": 1e-25,
        "Mb": 1e-22,
        "mb": 1e-31,
        "cm2": 1e-4,
        "nm2": 1e-18,
        "angstrom2": 1e-20,
    }.items()
}
# Kinds in which a factor is looked for, the first wins; wall-clock times are not those of physics.
_KINDS: dict[str, Mapping[str, float]] = {
    # J of results is a coupling of spins, not a joule.
    "energy": {unit: size for unit, size in UNITS["energy"].items() if unit != "J"},
    "area": AREAS,
    **{kind: units for kind, units in UNITS.items() if kind not in ("energy", "duration", "wavelength")},
}
# Units of the speed of the machine.
_MACHINE = ("s", "ns", "1/s")
# Arrays of times of the physics.
_TIMES = ("time", "time_populations", "free_time")
# Quantities whose unit is only called "a.u.", by their name.
_AU = {
    "t": "time",
    "t_final": "time",
    **dict.fromkeys(_TIMES, "time"),
    "field": "electric field",
    "electric_field": "electric field",
    "dipole": "dipole",
}
# A name, and its power if there is one: "a0^2", "bohr^-1/2", "sr".
_FACTOR = re.compile(
    r"([A-Za-z\N{DEGREE SIGN}%][A-Za-z0-9_.\N{DEGREE SIGN}]*?)\s*(?:\^\s*(-?\d+(?:/\d+)?))?(?=[\s*/()]|$)"
)


@dataclass(frozen=True)
class Converted:
    """Change of a column of numbers from one unit to another.

    Attributes
    ----------
    factor
        By which its numbers are multiplied.
    unit
        Their unit afterwards.
    used
        Wanted units that took part.
    """

    factor: float
    unit: str
    used: frozenset[str] = frozenset()


def split_units(text: str) -> list[str]:
    """Return the units of a list such as ``"eV, Mb"`` or ``"b/(eV sr^2)"``, one factor each.

    Raises
    ------
    ValueError
        If one of them is no unit that there is.
    """
    names: dict[str, None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        whole = canonical(part)
        for name in [whole] if _kinds(whole) else _factors(part):
            if name != "sr" and not _kinds(name):
                listing = ", ".join(["eV", "cm-1", "fs", "angstrom", "b", "kb", "Mb", "V/nm"])
                raise ValueError(f"{part!r} is no unit; examples: {listing}")
            names[name] = None
    return list(names)


def convert(unit: str, wanted: Iterable[str], name: str = "") -> Converted:
    """Return factor and unit of numbers in `unit` if they are given in the `wanted` units.

    Parameters
    ----------
    unit
        As a results file has it.
    wanted
        From :func:`split_units`.
    name
        Of the array: of a bare ``a.u.`` it tells the quantity.
    """
    wanted = list(wanted)
    # Times of the machine stay in seconds, whatever unit of time the physics is given in.
    if not unit or (unit in _MACHINE and name.rpartition("/")[2] not in _TIMES):
        return Converted(1.0, unit)
    whole = canonical(unit)
    if whole == "au":
        return _from_atomic_units(unit, wanted, name)
    # A unit of its own such as V/nm is taken whole, others factor by factor.
    powers = {whole: Fraction(1)} if _kinds(whole) else _factors(unit)
    factor, used, result = 1.0, set(), dict[str, Fraction]()
    for token, power in powers.items():
        # Cross sections in pi a0^2: an area in barn has no pi in its unit.
        if token == "pi" and len(powers) > 1 and any(w in AREAS for w in wanted):
            factor *= math.pi
            continue
        match = _match(token, power, wanted)
        # No wanted unit of this quantity: the factor stays.
        if match is None:
            result[token] = result.get(token, Fraction(0)) + power
            continue
        new, ratio, exponent = match
        factor *= ratio
        used.add(new)
        result[new] = result.get(new, Fraction(0)) + exponent
    return Converted(factor, _written(result), frozenset(used)) if used else Converted(1.0, unit)


def factor_between(unit: str, wanted: str, name: str = "") -> float | None:
    """Return the factor that brings numbers of one unit of results to another; None if they are of different quantities.

    Parameters
    ----------
    unit, wanted
        As results files have them.
    name
        Of the number: of a bare ``a.u.`` it tells the quantity.
    """
    if canonical(unit) == canonical(wanted):
        return 1.0
    # Both in one unit of each kind, which tells kinds apart; then also squares of lengths as areas.
    basis = {kind: next(name for name in units if name != "au") for kind, units in _KINDS.items()}
    for chosen in (basis.values(), [name for kind, name in basis.items() if kind != "length"]):
        a, b = convert(unit, chosen, name), convert(wanted, chosen, name)
        if a.used and b.used and sorted(_factors(a.unit).items()) == sorted(_factors(b.unit).items()):
            return a.factor / b.factor
    return None


def _from_atomic_units(unit: str, wanted: Iterable[str], name: str) -> Converted:
    """Return the change of a bare ``a.u.``: only the name of the array tells of which quantity."""
    kind = _AU.get(name.rpartition("/")[2])
    if kind is None:
        return Converted(1.0, unit)
    for new in wanted:
        if new in _KINDS[kind]:
            return Converted(1.0 / _KINDS[kind][new], new, frozenset({new}))
    return Converted(1.0, unit)


def _kinds(unit: str) -> list[str]:
    return [kind for kind, units in _KINDS.items() if unit in units and unit != "au"]


def _match(token: str, power: Fraction, wanted: Iterable[str]) -> tuple[str, float, Fraction] | None:
    """Return the wanted unit of a factor, the ratio of their powers, and the power of the new one."""
    for kind in _kinds(token):
        for new in wanted:
            if new in _KINDS[kind]:
                return new, (_KINDS[kind][token] / _KINDS[kind][new]) ** float(power), power
    # An even power of a length is a power of an area: a0^2 in Mb, a0^4 in Mb^2.
    if token in UNITS["length"] and power.denominator == 1 and power % 2 == 0:
        for new in wanted:
            if new in AREAS:
                return new, (UNITS["length"][token] ** 2 / AREAS[new]) ** float(power / 2), power / 2
    return None


def _factors(unit: str) -> dict[str, Fraction]:
    """Return the factors of a unit with their powers: ``a0^2/(hartree sr)`` is bohr 2, hartree -1, sr -1."""
    powers: dict[str, Fraction] = {}
    above, _, below = unit.partition("/")
    # A power may hold a slash itself, "bohr^-1/2", which does not begin the denominator.
    if match := re.match(r"^(.*\^-?\d+)/(\d+)(.*)$", unit):
        above, below = f"{match[1]}/{match[2]}", match[3].lstrip("/")
    for text, sign in ((above, 1), (below, -1)):
        for match in _FACTOR.finditer(text):
            token = canonical(match[1])
            powers[token] = powers.get(token, Fraction(0)) + sign * Fraction(match[2] or 1)
    return powers


def _written(powers: Mapping[str, Fraction]) -> str:
    """Return a product of powers as results files write it."""

    def text(token: str, power: Fraction) -> str:
        return token if power == 1 else f"{token}^{power}"

    above = [text(token, power) for token, power in powers.items() if power > 0]
    below = [text(token, -power) for token, power in powers.items() if power < 0]
    if not below:
        return " ".join(above)
    # Several factors below the line need brackets, as those of results have them.
    denominator = below[0] if len(below) == 1 else f"({' '.join(below)})"
    return f"{' '.join(above) or '1'}/{denominator}"

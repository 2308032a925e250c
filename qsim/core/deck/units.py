r"""Physical units: ``"20 fs"`` in a deck, Hartree atomic units inside.

A deck field is annotated with one of the types below.  A bare number is in atomic units; a string is a number
and a unit of the right dimension.  Everything past the deck sees atomic units only.

============== ======================================= ===================================
type           quantity                                bare number
============== ======================================= ===================================
Time           time                                    :math:`\hbar/E_h`
Length         length                                  bohr
Energy         energy                                  hartree
Mass           mass                                    electron mass
ElectricField  electric field                          :math:`E_h/(e a_0)`
Intensity      intensity of linearly polarised light   :math:`\frac12\epsilon_0 c` (a.u. of field)\ :sup:`2`
Frequency      angular frequency                       :math:`E_h/\hbar`
Angle          angle                                   rad
Dipole         electric dipole moment                  :math:`e a_0`
DipoleSlope    slope of a dipole moment                :math:`e`
InverseLength  inverse length, momentum                1/bohr
Wavelength     wavelength of light                     bohr
Duration       wall-clock time                         second
============== ======================================= ===================================

Two conventions deserve attention.  ``Hz`` counts cycles, so ``"1 THz"`` as a frequency is :math:`2\pi\cdot 10^{12}`
rad/s.  The intensity of linearly polarised light with peak field :math:`F` is :math:`I = \frac12\epsilon_0 c F^2`;
`Intensity` therefore counts in units of 3.509e16 W/cm2, the peak field in atomic units is its square root, and an
electric field may be given as the intensity of which it is the peak field: ``"1e14 W/cm2"`` is 0.0534 a.u.

Constants are CODATA 2022 values; the tests compare them with `scipy.constants`.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from qsim.core.text import NUMBERS, multiple_of_pi, plain_number, shorten

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

__all__ = [
    "CODATA",
    "FORGOTTEN",
    "UNITS",
    "Angle",
    "CollisionEnergy",
    "Dipole",
    "DipoleSlope",
    "Duration",
    "ElectricField",
    "Energy",
    "Frequency",
    "Intensity",
    "InverseLength",
    "Length",
    "Mass",
    "Quantity",
    "Time",
    "UnitError",
    "Wavelength",
    "canonical",
    "format_quantity",
    "parse_quantity",
    "to_unit",
    "unit_named",
    "without_unit",
]

#: CODATA 2022 values in SI units, under the names of `scipy.constants.physical_constants`.
CODATA: dict[str, float] = {
    "atomic unit of time": 2.4188843265864e-17,
    "atomic unit of length": 5.29177210544e-11,
    "atomic unit of electric field": 5.14220675112e11,
    "atomic unit of electric dipole mom.": 8.4783536198e-30,
    "Hartree energy": 4.3597447222060e-18,
    "Hartree energy in eV": 27.211386245981,
    "hartree-inverse meter relationship": 2.1947463136314e7,
    "hartree-kelvin relationship": 3.1577502480398e5,
    "electron mass": 9.1093837139e-31,
    "electron mass in u": 5.485799090441e-4,
    "proton-electron mass ratio": 1836.152673426,
    "vacuum electric permittivity": 8.8541878188e-12,
    "speed of light in vacuum": 299792458.0,
    "elementary charge": 1.602176634e-19,
    "Avogadro constant": 6.02214076e23,
}

# Atomic units per SI unit; every other factor is made of these.
_SECOND = 1.0 / CODATA["atomic unit of time"]
_METER = 1.0 / CODATA["atomic unit of length"]
_JOULE = 1.0 / CODATA["Hartree energy"]
_EV = 1.0 / CODATA["Hartree energy in eV"]
_PER_CM = 100.0 / CODATA["hartree-inverse meter relationship"]
_VOLT_PER_METER = 1.0 / CODATA["atomic unit of electric field"]
_COULOMB_METER = 1.0 / CODATA["atomic unit of electric dipole mom."]
_DEBYE = 1e-21 / CODATA["speed of light in vacuum"] * _COULOMB_METER  # 1 D = 1e-21 C m2/s / c
_HERTZ = 2.0 * math.pi / _SECOND  # cycles per second -> rad per atomic unit of time
_WATT_PER_CM2 = 1e4 / (
    0.5
    * CODATA["vacuum electric permittivity"]
    * CODATA["speed of light in vacuum"]
    * CODATA["atomic unit of electric field"] ** 2
)

_LENGTHS = {
    "bohr": 1.0,
    "angstrom": 1e-10 * _METER,
    "pm": 1e-12 * _METER,
    "nm": 1e-9 * _METER,
    "um": 1e-6 * _METER,
    "mm": 1e-3 * _METER,
    "m": _METER,
}

#: Value of each unit in atomic units (in seconds for ``duration``), by kind of quantity.
UNITS: dict[str, dict[str, float]] = {
    "time": {
        "au": 1.0,
        "as": 1e-18 * _SECOND,
        "fs": 1e-15 * _SECOND,
        "ps": 1e-12 * _SECOND,
        "ns": 1e-9 * _SECOND,
        "us": 1e-6 * _SECOND,
        "ms": 1e-3 * _SECOND,
        "s": _SECOND,
    },
    "length": {"au": 1.0, **_LENGTHS},
    "energy": {
        "au": 1.0,
        "hartree": 1.0,
        "rydberg": 0.5,
        "eV": _EV,
        "meV": 1e-3 * _EV,
        "keV": 1e3 * _EV,
        "cm-1": _PER_CM,
        "K": 1.0 / CODATA["hartree-kelvin relationship"],
        "kJ/mol": 1e3 * _JOULE / CODATA["Avogadro constant"],
        "kcal/mol": 4184.0 * _JOULE / CODATA["Avogadro constant"],
        "J": _JOULE,
    },
    "mass": {
        "au": 1.0,
        "me": 1.0,
        "u": 1.0 / CODATA["electron mass in u"],
        "mp": CODATA["proton-electron mass ratio"],
        "kg": 1.0 / CODATA["electron mass"],
    },
    "electric field": {
        "au": 1.0,
        "V/m": _VOLT_PER_METER,
        "V/cm": 1e2 * _VOLT_PER_METER,
        "kV/cm": 1e5 * _VOLT_PER_METER,
        "MV/cm": 1e8 * _VOLT_PER_METER,
        "V/nm": 1e9 * _VOLT_PER_METER,
        "V/angstrom": 1e10 * _VOLT_PER_METER,
    },
    "intensity": {
        "au": 1.0,
        "W/cm2": _WATT_PER_CM2,
        "TW/cm2": 1e12 * _WATT_PER_CM2,
        "PW/cm2": 1e15 * _WATT_PER_CM2,
        "W/m2": 1e-4 * _WATT_PER_CM2,
    },
    "frequency": {
        "au": 1.0,
        "rad/fs": 1e15 / _SECOND,
        "rad/ps": 1e12 / _SECOND,
        "rad/ns": 1e9 / _SECOND,
        "rad/s": 1.0 / _SECOND,
        "Hz": _HERTZ,
        "kHz": 1e3 * _HERTZ,
        "MHz": 1e6 * _HERTZ,
        "GHz": 1e9 * _HERTZ,
        "THz": 1e12 * _HERTZ,
        "PHz": 1e15 * _HERTZ,
        "cm-1": _PER_CM,
        "hartree": 1.0,
        "rydberg": 0.5,
        "eV": _EV,
        "meV": 1e-3 * _EV,
    },
    "angle": {"rad": 1.0, "mrad": 1e-3, "deg": math.pi / 180.0, "pi": math.pi},
    "dipole": {"au": 1.0, "e*bohr": 1.0, "D": _DEBYE, "C*m": _COULOMB_METER},
    "dipole slope": {"au": 1.0, "e": 1.0, "D/angstrom": _DEBYE / _LENGTHS["angstrom"]},
    "inverse length": {
        "au": 1.0,
        "1/bohr": 1.0,
        "1/angstrom": 1.0 / _LENGTHS["angstrom"],
        "1/nm": 1.0 / _LENGTHS["nm"],
    },
    "wavelength": {"au": 1.0, **_LENGTHS},
    "duration": {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
}

#: What a bare number of each kind counts, in words.
BARE: dict[str, str] = {
    "time": "a.u. of time (hbar/Eh)",
    "length": "bohr",
    "energy": "hartree",
    "mass": "electron masses",
    "electric field": "a.u. of electric field (Eh/(e a0))",
    "intensity": "units of 3.509e16 W/cm2 (peak field of 1 a.u.)",
    "frequency": "a.u. of angular frequency (Eh/hbar)",
    "angle": "rad",
    "dipole": "e*bohr",
    "dipole slope": "e",
    "inverse length": "1/bohr",
    "wavelength": "bohr",
    "duration": "s",
}

_EXAMPLES = {
    "time": "20 fs",
    "length": "0.5 angstrom",
    "energy": "27.2 eV",
    "mass": "0.948 u",
    "electric field": "1 V/nm",
    "intensity": "1e14 W/cm2",
    "frequency": "1.55 eV",
    "angle": "90 deg",
    "dipole": "1.85 D",
    "dipole slope": "2 D/angstrom",
    "inverse length": "1 1/angstrom",
    "wavelength": "800 nm",
    "duration": "10 min",
}

#: Numbers without a unit that are hardly meant in atomic units, by kind of quantity: between the first two (both excluded), and
#: then probably in the third. What can be told from the number alone; fields whose usual size is known have ranges of their own.
FORGOTTEN: dict[str, tuple[tuple[float, float, str], ...]] = {
    # Light of less than 741 nm (14 000 bohr) is told in nm; x rays of 0.05 to 20 bohr in eV.
    "wavelength": ((0.05, 20.0, "um"), (20.0, 14_000.0, "nm")),
    # 0.5 and 1: positronium and an electron; a muon has 207 electron masses, the lightest molecule 918.
    "mass": ((0.3, 0.5, "u"), (0.5, 1.0, "u"), (1.0, 206.0, "u"), (207.0, 900.0, "u")),
    # Above 1e18 W/cm2 (28.5) electrons are relativistic.
    "intensity": ((28.5, 1e5, "TW/cm2"), (1e5, math.inf, "W/cm2")),
    "electric field": ((5.4, 1e3, "V/nm"), (1e7, math.inf, "W/cm2")),
    "frequency": ((15.0, 100.0, "eV"), (100.0, 1e6, "cm-1"), (1e6, math.inf, "Hz")),
    "energy": ((100.0, 1e3, "eV"), (1e3, 1e6, "cm-1")),
    "angle": ((2.0 * math.pi + 0.1, 721.0, "deg"),),
    "time": ((0.0, 1e-10, "s"),),
    "length": ((0.0, 1e-7, "m"),),
    "dipole": ((0.0, 1e-24, "C*m"),),
    "inverse length": ((100.0, 1e3, "1/nm"),),
}

#: Other spellings of the units above, as they read after `_spelling`.
_ALIASES = {
    "a.u.": "au",
    "a.u": "au",
    "Eh": "hartree",
    "Ha": "hartree",
    "Hartree": "hartree",
    "Ry": "rydberg",
    "Rydberg": "rydberg",
    "1/cm": "cm-1",
    "/cm": "cm-1",
    "a0": "bohr",
    "Bohr": "bohr",
    "1/a0": "1/bohr",
    "/a0": "1/bohr",
    "/bohr": "1/bohr",
    "bohr-1": "1/bohr",
    "A": "angstrom",
    "Ang": "angstrom",
    "ang": "angstrom",
    "Angstrom": "angstrom",
    "angstroms": "angstrom",
    "/angstrom": "1/angstrom",
    "angstrom-1": "1/angstrom",
    "/nm": "1/nm",
    "nm-1": "1/nm",
    "Da": "u",
    "amu": "u",
    "m_e": "me",
    "m_p": "mp",
    "W cm-2": "W/cm2",
    "TW cm-2": "TW/cm2",
    "PW cm-2": "PW/cm2",
    "W m-2": "W/m2",
    "debye": "D",
    "Debye": "D",
    "C m": "C*m",
    "e a0": "e*bohr",
    "e*a0": "e*bohr",
    "ea0": "e*bohr",
    "degree": "deg",
    "degrees": "deg",
    "\N{DEGREE SIGN}": "deg",
    "sec": "s",
    "second": "s",
    "seconds": "s",
    "minute": "min",
    "minutes": "min",
    "hour": "h",
    "hours": "h",
    "day": "d",
    "days": "d",
}

#: Units that `format_quantity` chooses from, small to large.
_DISPLAY = {
    "time": ("as", "fs", "ps", "ns"),
    "length": ("angstrom", "nm", "um", "mm"),
    "energy": ("meV", "eV", "keV"),
    "mass": ("me", "u"),
    "electric field": ("V/m", "kV/cm", "MV/cm", "V/nm"),
    "intensity": ("W/cm2",),
    "frequency": ("kHz", "MHz", "GHz", "THz", "PHz"),
    "angle": ("rad",),
    "dipole": ("D",),
    "dipole slope": ("D/angstrom",),
    "inverse length": ("1/nm", "1/angstrom"),
    "wavelength": ("nm", "um", "mm"),
    "duration": ("ms", "s", "min", "h", "d"),
}

LARGEST_INTEGER = 10**300
# A number, and whatever follows it as the unit.
_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*", re.DOTALL)
_SPELLINGS = str.maketrans(
    {
        "\N{SUPERSCRIPT ONE}": "1",
        "\N{SUPERSCRIPT TWO}": "2",
        "\N{SUPERSCRIPT MINUS}": "-",
        "\N{MINUS SIGN}": "-",
        "\N{MICRO SIGN}": "u",
        "\N{GREEK SMALL LETTER MU}": "u",
        "\N{LATIN CAPITAL LETTER A WITH RING ABOVE}": "angstrom",
        "\N{ANGSTROM SIGN}": "angstrom",
        "\N{MIDDLE DOT}": "*",
        "\N{GREEK SMALL LETTER PI}": "pi",
        "^": "",
    }
)


class UnitError(ValueError):
    """A value is not a quantity of the wanted kind.

    Attributes
    ----------
    expected
        What would be right, as a phrase: ``"a time: a number (a.u. of time) or text such as '20 fs'"``.
    specific
        True if the value clearly meant to be a quantity (a number with a unit), so that the message
        tells more than `expected` does.
    """

    def __init__(self, message: str, expected: str, *, specific: bool) -> None:
        super().__init__(message)
        self.expected = expected
        self.specific = specific


def parse_quantity(value: object, kind: str) -> float:
    """Return `value` in atomic units (in seconds for a duration).

    Parameters
    ----------
    value
        A number, taken as it is, or text made of a number and a unit.
    kind
        A key of `UNITS`.

    Raises
    ------
    UnitError
        If the text cannot be read, names no known unit or one of another dimension, or is not finite.
    """
    expected = _expected(kind)
    # A truth value is a number in Python, and a mistake here.
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # An integer may be beyond the range of float.
        number, unit = (float(value) if abs(value) < LARGEST_INTEGER else math.inf), None
    elif kind == "angle" and isinstance(value, str) and (half_turns := multiple_of_pi(value)) is not None:
        number, unit = half_turns, "pi"
    elif isinstance(value, str) and (match := _QUANTITY.fullmatch(value)):
        number, unit = float(match[1]), _spelling(match[2])
    elif isinstance(value, str) and (plain := plain_number(value)) and _QUANTITY.fullmatch(plain):
        raise UnitError(f"{NUMBERS}: write {plain}", expected, specific=True)
    else:
        raise UnitError(f"expected {expected}", expected, specific=False)
    # Text without a unit is no number: quotes show that a unit was meant.
    if unit == "":
        advice = f"write {value} without quotes for {BARE[kind]}, or add one of {', '.join(_units(kind))}"
        raise UnitError(f"the number has no unit; {advice}", expected, specific=True)
    result = number if unit is None else _convert(number, unit, kind)
    if not math.isfinite(result):
        raise UnitError("the number is not finite", expected, specific=True)
    return result


def unit_named(text: str, kind: str) -> tuple[str, float]:
    """Return a unit of a kind as this program writes it, and its value in atomic units; raise `UnitError` for other texts.

    An intensity is no unit of a field here, as it is not proportional to it.
    """
    name = _spelling(text)
    if name not in UNITS[kind] and name in UNITS["intensity"]:
        message = f"{text!r} is a unit of intensity; allowed units of {kind}: {', '.join(UNITS[kind])}"
        raise UnitError(message, _expected(kind), specific=True)
    return name, UNITS[kind].get(name) or _convert(1.0, name, kind)


def canonical(text: str) -> str:
    """Return a unit as this program writes it, ``"angstrom"`` for ``"Å"``; other texts with their blanks tidied."""
    return _spelling(text)


def without_unit(number: float, kind: str, ranges: Iterable[tuple[float, float, str]]) -> str:
    """Return what to say of a number without a unit that was probably meant in one; empty if it may be in atomic units.

    Parameters
    ----------
    number
        As the deck gives it.
    kind
        A key of `UNITS`.
    ranges
        As `FORGOTTEN` has them.
    """
    for low, high, unit in ranges:
        if low < abs(number) < high:
            there, meant = format_quantity(number, kind, 4), f"{number:g} {unit}"
            text = f"{number:g} without a unit is in {BARE[kind]}: {there}"
            return f"{text}; if {meant} is meant, write '{meant}'"
    return ""


def to_unit(value: Any, unit: str, kind: str | None = None) -> Any:
    """Return `value` (a number or an array, in atomic units) in `unit`.

    Parameters
    ----------
    kind
        The key of `UNITS` to find the unit in, for units of several kinds (``"W/cm2"`` of a field, ``"s"`` of a duration).

    Raises
    ------
    KeyError
        If there is no such unit (of that kind).
    """
    name = _spelling(unit)
    kinds = UNITS if kind is None else (kind,)
    for candidate in kinds:
        if name in UNITS[candidate]:
            return value / UNITS[candidate][name]
    # Intensity is proportional to the square of the field; the sign of the field is kept.
    if kind == "electric field" and name in UNITS["intensity"]:
        return value * abs(value) / UNITS["intensity"][name]
    raise KeyError(f"no unit {unit!r}" + (f" of {kind}" if kind else ""))


def format_quantity(value: float, kind: str, digits: int = 6) -> str:
    """Return `value` (in atomic units) as text with a unit that suits its size, ``"20 fs"``.

    The text can be read back by `parse_quantity`; 17 `digits` (almost always) restore the value to the bit.
    """
    names = _DISPLAY[kind]
    best = names[0]
    for name in names:
        # The margin keeps 1 eV from reading 1000 meV after rounding of the factors.
        if abs(value) >= UNITS[kind][name] * (1.0 - 1e-12):
            best = name
    # Zero has no size: the second unit is a usual one of each kind.
    if value == 0.0:
        best = names[min(1, len(names) - 1)]
    return f"{value / UNITS[kind][best]:.{digits}g} {best}"


def _convert(number: float, unit: str, kind: str) -> float:
    """Return a number with a unit in atomic units; an intensity may stand for the peak of its field."""
    factor = UNITS[kind].get(unit)
    if factor is not None:
        return number * factor
    if kind == "electric field" and unit in UNITS["intensity"]:
        if number < 0.0:
            raise UnitError("an intensity is not negative", _expected(kind), specific=True)
        return math.sqrt(number * UNITS["intensity"][unit])
    # A unit of another kind is a mistake of dimension, not of spelling.
    others = [name for name, units in UNITS.items() if unit in units]
    allowed = ", ".join(_units(kind))
    article = _article(kind)
    if others:
        what = " or ".join(others[:2])
        message = (
            f"{shorten(repr(unit))} is a unit of {what}, but {article} is needed; allowed units: {allowed}"
        )
    else:
        guess = _closest(unit, _units(kind))
        hint = f"; did you mean {guess!r}?" if guess else ";"
        message = f"unknown unit {shorten(repr(unit))} of {kind}{hint} allowed units: {allowed}"
    raise UnitError(message, _expected(kind), specific=True)


def _spelling(unit: str) -> str:
    # Superscripts, micro signs and Greek letters become ASCII: the table of aliases stays short.
    plain = " ".join(unit.translate(_SPELLINGS).replace("**", "").split()).replace("Angstrom", "angstrom")
    return _ALIASES.get(plain, plain)


def _units(kind: str) -> list[str]:
    names = list(UNITS[kind])
    return [*names, "W/cm2"] if kind == "electric field" else names


def _closest(unit: str, names: list[str]) -> str | None:
    # A wrong capital is closer than any other spelling.
    same = [name for name in names if name.lower() == unit.lower()]
    return next(iter(same or difflib.get_close_matches(unit[:80], names, n=1, cutoff=0.5)), None)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _expected(kind: str) -> str:
    more = " or '0.5 pi'" if kind == "angle" else ""
    return f"{_article(kind)}: a number ({BARE[kind]}) or text such as {_EXAMPLES[kind]!r}{more}"


@dataclass(frozen=True)
class Quantity:
    """The mark of a deck field that carries a unit; the field itself is a float in atomic units.

    Attributes
    ----------
    kind
        A key of `UNITS`.
    forgotten
        As `FORGOTTEN`, where the usual size of this very quantity is known.
    """

    kind: str
    forgotten: tuple[tuple[float, float, str], ...] | None = None

    @property
    def bare(self) -> str:
        """Unit of a bare number."""
        return BARE[self.kind]

    @property
    def example(self) -> str:
        """Return a value with a unit, as a deck would have it."""
        return _EXAMPLES[self.kind]

    @property
    def units(self) -> list[str]:
        """The units that a deck may use."""
        return _units(self.kind)

    def _parse(self, value: object) -> float:
        from pydantic_core import PydanticCustomError

        try:
            return parse_quantity(value, self.kind)
        except UnitError as error:
            context = {"text": str(error), "expected": error.expected, "specific": error.specific}
            raise PydanticCustomError("quantity", "{text}", context) from None

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by `parse_quantity`, then as a finite float."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            self._parse, core_schema.float_schema(allow_inf_nan=False)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe a number, or text made of a number and a unit."""
        number = {"type": "number", "description": self.bare}
        pattern = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*\S.*$"
        text = {"type": "string", "pattern": pattern, "examples": [self.example]}
        return {"anyOf": [number, text | {"description": "a number and one of " + ", ".join(self.units)}]}


Time = Annotated[float, Quantity("time")]
Length = Annotated[float, Quantity("length")]
Energy = Annotated[float, Quantity("energy")]
# Of collisions and photons: a keV is given as such, eight hartree and more are electronvolts without their unit.
CollisionEnergy = Annotated[float, Quantity("energy", ((8.0, 1e3, "eV"), (1e3, 1e6, "cm-1")))]
Mass = Annotated[float, Quantity("mass")]
ElectricField = Annotated[float, Quantity("electric field")]
Intensity = Annotated[float, Quantity("intensity")]
Frequency = Annotated[float, Quantity("frequency")]
Angle = Annotated[float, Quantity("angle")]
Dipole = Annotated[float, Quantity("dipole")]
DipoleSlope = Annotated[float, Quantity("dipole slope")]
InverseLength = Annotated[float, Quantity("inverse length")]
Wavelength = Annotated[float, Quantity("wavelength")]
Duration = Annotated[float, Quantity("duration")]

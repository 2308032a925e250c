"""Units: values against CODATA, wrong dimensions, and texts that come back as they went."""

import contextlib
import math
from typing import Annotated

import numpy as np
import pytest
import scipy.constants as si
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from qsim.core.deck import units
from qsim.core.deck.units import CODATA, UNITS, UnitError, format_quantity, parse_quantity, to_unit

HARTREE = si.physical_constants["Hartree energy"][0]
BOHR = si.physical_constants["atomic unit of length"][0]
AU_TIME = si.physical_constants["atomic unit of time"][0]
AU_FIELD = si.physical_constants["atomic unit of electric field"][0]
AU_DIPOLE = si.physical_constants["atomic unit of electric dipole mom."][0]
PEAK = 0.5 * si.epsilon_0 * si.c * AU_FIELD**2  # W/m2 of a peak field of 1 a.u.


@pytest.mark.parametrize("name", CODATA)
def test_constants_are_those_of_codata(name):
    reference = {
        "elementary charge": si.e,
        "Avogadro constant": si.N_A,
        "speed of light in vacuum": si.c,
        "vacuum electric permittivity": si.epsilon_0,
    }.get(name) or si.physical_constants[name][0]
    # scipy before 1.15 has CODATA 2018, which differs in the tenth digit.
    assert CODATA[name] == pytest.approx(reference, rel=1e-9)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("20 fs", "time", 20e-15 / AU_TIME),
        ("1 as", "time", 1e-18 / AU_TIME),
        ("800 nm", "wavelength", 800e-9 / BOHR),
        ("0.5 angstrom", "length", 0.5e-10 / BOHR),
        ("54.4 eV", "energy", 54.4 * si.e / HARTREE),
        ("1 rydberg", "energy", 0.5),
        ("300 K", "energy", 300 * si.k / HARTREE),
        ("1600 cm-1", "energy", 1600 * 100 * si.h * si.c / HARTREE),
        ("1 kcal/mol", "energy", 4184 / si.N_A / HARTREE),
        ("0.948 u", "mass", 0.948 * si.m_u / si.m_e),
        ("1 mp", "mass", si.m_p / si.m_e),
        ("1 V/nm", "electric field", 1e9 / AU_FIELD),
        ("1 MV/cm", "electric field", 1e8 / AU_FIELD),
        ("1e14 W/cm2", "intensity", 1e18 / PEAK),
        ("1e14 W/cm2", "electric field", math.sqrt(1e18 / PEAK)),
        ("1 THz", "frequency", 2e12 * math.pi * AU_TIME),
        ("1.55 eV", "frequency", 1.55 * si.e / HARTREE),
        ("1600 cm-1", "frequency", 2 * math.pi * si.c * 1600 * 100 * AU_TIME),
        ("1 rad/fs", "frequency", 1e15 * AU_TIME),
        ("90 deg", "angle", math.pi / 2),
        ("0.5 pi", "angle", math.pi / 2),
        ("1.85 D", "dipole", 1.85e-21 / si.c / AU_DIPOLE),
        ("1 D/angstrom", "dipole slope", 1e-21 / si.c / 1e-10 / si.e),
        ("2 1/angstrom", "inverse length", 2e10 * BOHR),
        ("10 min", "duration", 600.0),
        ("2 h", "duration", 7200.0),
    ],
)
def test_value_in_atomic_units(text, kind, value):
    assert parse_quantity(text, kind) == pytest.approx(value, rel=2e-9)


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        ("1e14 W/cm2", "1e14 W/cm^2", "intensity"),
        ("1e14 W/cm2", "1e14  W cm-2", "intensity"),
        ("1e14 W/cm2", "1e14 W/cm\N{SUPERSCRIPT TWO}", "intensity"),
        ("1 angstrom", "1 \N{LATIN CAPITAL LETTER A WITH RING ABOVE}", "length"),
        ("1 um", "1\N{MICRO SIGN}m", "length"),
        ("1 1/angstrom", "1 angstrom^-1", "inverse length"),
        ("1 1/angstrom", "1/angstrom", "inverse length"),
        ("1 cm-1", "1 1/cm", "energy"),
        ("20 fs", " 20fs ", "time"),
        ("1 hartree", "1 Eh", "energy"),
        ("2 e*bohr", "2 e a0", "dipole"),
        ("3 au", "3 a.u.", "time"),
        ("1 min", "1 minute", "duration"),
    ],
)
def test_other_spellings(one, other, kind):
    assert parse_quantity(one, kind) == parse_quantity(other, kind)


@pytest.mark.parametrize("kind", UNITS)
def test_bare_numbers_are_taken_as_they_are(kind):
    assert parse_quantity(3, kind) == 3.0
    assert parse_quantity(-0.5, kind) == -0.5


@pytest.mark.parametrize(
    ("value", "kind", "parts"),
    [
        ("20 eV", "time", ["'eV' is a unit of energy or frequency", "a time is needed", "as, fs, ps"]),
        ("20 FS", "time", ["unknown unit 'FS' of time", "did you mean 'fs'?"]),
        ("20 parsec", "length", ["unknown unit 'parsec'", "bohr, angstrom"]),
        ("20", "time", ["has no unit", "write 20 without quotes"]),
        ("1e999 fs", "time", ["not finite"]),
        (math.nan, "time", ["not finite"]),
        (10**400, "time", ["not finite"]),
        ("-1e14 W/cm2", "electric field", ["an intensity is not negative"]),
        ("fs", "time", ["expected a time", "'20 fs'"]),
        ("", "energy", ["expected an energy"]),
        ("1.2.3 fs", "time", ["unknown unit '.3 fs'"]),
        (True, "time", ["expected a time"]),
        (None, "time", ["expected a time"]),
        ([1.0], "time", ["expected a time"]),
    ],
)
def test_mistakes_are_explained(value, kind, parts):
    with pytest.raises(UnitError) as caught:
        parse_quantity(value, kind)
    for part in parts:
        assert part in str(caught.value)


@given(
    st.sampled_from([(kind, unit) for kind, table in UNITS.items() for unit in table]),
    st.floats(min_value=1e-12, max_value=1e12),
)
def test_to_unit_undoes_parsing(kind_and_unit, number):
    kind, unit = kind_and_unit
    assert to_unit(parse_quantity(f"{number!r} {unit}", kind), unit, kind) == pytest.approx(number, rel=1e-14)


@given(st.sampled_from(list(UNITS)), st.floats(min_value=-1e12, max_value=1e12))
def test_formatted_quantities_read_back(kind, value):
    assert parse_quantity(format_quantity(value, kind, 17), kind) == pytest.approx(
        value, rel=1e-15, abs=1e-300
    )


@given(st.text())
def test_any_text_is_read_or_refused(text):
    for kind in UNITS:
        with contextlib.suppress(UnitError):
            assert math.isfinite(parse_quantity(text, kind))


def test_to_unit_takes_arrays_and_shared_names():
    assert np.allclose(
        to_unit(np.array([1.0, 2.0]), "eV"), [27.211386245981, 2 * 27.211386245981], rtol=1e-12
    )
    assert to_unit(90.0, "min", "duration") == 1.5
    peak = parse_quantity("1e14 W/cm2", "electric field")
    assert to_unit(peak, "W/cm2", "electric field") == pytest.approx(1e14, rel=1e-12)
    with pytest.raises(KeyError, match="no unit 'eV' of time"):
        to_unit(1.0, "eV", "time")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("20 fs", "time"),
        ("800 nm", "wavelength"),
        ("10 min", "duration"),
        ("13.6 eV", "energy"),
        ("0 fs", "time"),
    ],
)
def test_format_chooses_a_unit_of_the_right_size(text, kind):
    assert format_quantity(parse_quantity(text, kind), kind) == text


def test_the_same_name_means_the_same_in_every_kind_that_shares_it():
    shared = [set(UNITS["energy"]) & set(UNITS["frequency"]), set(UNITS["length"]) & set(UNITS["wavelength"])]
    assert UNITS["energy"]["eV"] == UNITS["frequency"]["eV"]
    assert all(UNITS["energy"][name] == UNITS["frequency"][name] for name in shared[0])
    assert all(UNITS["length"][name] == UNITS["wavelength"][name] for name in shared[1])


def test_every_kind_has_a_deck_type():
    kinds = {
        metadata.kind
        for name in units.__all__
        for metadata in getattr(getattr(units, name), "__metadata__", ())
        if isinstance(metadata, units.Quantity)
    }
    assert kinds == set(UNITS)
    for kind in kinds:
        assert parse_quantity(units.Quantity(kind).example, kind) > 0


class Model(BaseModel):
    width: Annotated[units.Length, Field(gt=0)]


def test_deck_type_stores_atomic_units_and_keeps_bounds():
    assert Model(width="1 nm").width == pytest.approx(18.8972612, rel=1e-8)
    with pytest.raises(ValidationError, match="greater than 0"):
        Model(width="-1 nm")
    with pytest.raises(ValidationError, match="a length is needed"):
        Model(width="1 fs")


def test_json_schema_allows_numbers_and_texts():
    kinds = [option["type"] for option in Model.model_json_schema()["properties"]["width"]["anyOf"]]
    assert kinds == ["number", "string"]


PREFIXES = {"a": -18, "f": -15, "p": -12, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
PREFIXED = [
    (kind, prefix, unit)
    for kind, names in UNITS.items()
    for unit in names
    for prefix in PREFIXES
    if unit != "au" and prefix + unit in names and (prefix, unit) != ("a", "u")
]


def test_there_are_units_with_prefixes():
    assert {("intensity", "T", "W/cm2"), ("time", "f", "s"), ("energy", "m", "eV")} <= set(PREFIXED)


@pytest.mark.parametrize(("kind", "prefix", "unit"), PREFIXED)
def test_prefixes_are_powers_of_ten(kind, prefix, unit):
    names = UNITS[kind]
    assert names[prefix + unit] / names[unit] == pytest.approx(10.0 ** PREFIXES[prefix], rel=1e-14)


@pytest.mark.parametrize(
    ("text", "angle"),
    [("pi", 1.0), ("-pi/2", -0.5), ("0.5 pi", 0.5), ("3*pi/4", 0.75), ("2\u03c0/3", 2 / 3), ("1.5pi", 1.5)],
)
def test_angles_are_multiples_of_pi(text, angle):
    assert parse_quantity(text, "angle") == pytest.approx(angle * math.pi, rel=1e-15)
    # of other kinds there are none
    with pytest.raises(UnitError):
        parse_quantity(text, "time")

"""Nuclei of NMR: their spins and frequencies, and numbers with the units of the field, Hz, ppm, MHz and tesla.

With nuclei, couplings and fields are in Hz: H / h = sum_j nu_j I^z_j + sum_(j<k) J_jk I_j . I_k.
"""

import re
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field

__all__ = ["ISOTOPES", "Correlation", "Hertz", "Isotope", "Ppm", "Seconds", "Spectrometer", "spin_of"]


class Isotope(NamedTuple):
    """A nucleus.

    Attributes
    ----------
    spin : float
        I.
    share : float
        Its frequency over that of the protons of tetramethylsilane in the same field.
    sign : int
        Of its magnetic moment.
    """

    spin: float
    share: float
    sign: int = 1


# R. K. Harris et al., Pure Appl. Chem. 73, 1795 (2001): spins and frequency ratios
ISOTOPES = {
    "1H": Isotope(0.5, 1.0),
    "2H": Isotope(1.0, 0.15350609),
    "3H": Isotope(0.5, 1.06663974),
    "6Li": Isotope(1.0, 0.14716086),
    "7Li": Isotope(1.5, 0.38863797),
    "10B": Isotope(3.0, 0.10743658),
    "11B": Isotope(1.5, 0.32083974),
    "13C": Isotope(0.5, 0.25145020),
    "14N": Isotope(1.0, 0.07226317),
    "15N": Isotope(0.5, 0.10136767, -1),
    "17O": Isotope(2.5, 0.13556457, -1),
    "19F": Isotope(0.5, 0.94094011),
    "23Na": Isotope(1.5, 0.26451900),
    "27Al": Isotope(2.5, 0.26056859),
    "29Si": Isotope(0.5, 0.19867187, -1),
    "31P": Isotope(0.5, 0.40480742),
    "35Cl": Isotope(1.5, 0.09797909),
    "37Cl": Isotope(1.5, 0.08155725),
    "77Se": Isotope(0.5, 0.19071513),
    "113Cd": Isotope(0.5, 0.22193175, -1),
    "117Sn": Isotope(0.5, 0.35632259, -1),
    "119Sn": Isotope(0.5, 0.37290632, -1),
    "125Te": Isotope(0.5, 0.31549769, -1),
    "195Pt": Isotope(0.5, 0.21496784),
    "199Hg": Isotope(0.5, 0.17910822),
    "207Pb": Isotope(0.5, 0.20920599),
}
# MHz per tesla, of a proton (CODATA 2022); the shielding of tetramethylsilane is within the digits of a field
PROTON = 42.577478461

_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµ]*)\s*")


def _read(value: object, units: dict[str, float], what: str) -> object:
    """Read a text such as ``13.97 Hz`` as a number in the unit whose factor is 1."""
    if not isinstance(value, str):
        return value
    found = _NUMBER.fullmatch(value)
    if found is None or (found[2] and found[2] not in units):
        names = " or ".join(units)
        raise ValueError(f"expected {what}, a number or a text with the unit {names}, found {value!r}")
    return float(found[1]) * units.get(found[2], 1.0)


FREQUENCIES = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "mHz": 1e-3}


def _hertz(value: object) -> object:
    return _read(value, FREQUENCIES, "a frequency")


def _ppm(value: object) -> object:
    return _read(value, {"ppm": 1.0}, "a shift")


def _seconds(value: object) -> object:
    return _read(value, {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}, "a time")


def _spectrometer(value: object) -> object:
    return _read(value, {"MHz": 1.0, "GHz": 1e3, "T": PROTON}, "the frequency of protons or a field")


Hertz = Annotated[
    float, Field(gt=-1e12, lt=1e12), BeforeValidator(_hertz, json_schema_input_type=float | str)
]
Ppm = Annotated[float, Field(gt=-1e6, lt=1e6), BeforeValidator(_ppm, json_schema_input_type=float | str)]
Seconds = Annotated[
    float, Field(gt=1e-9, lt=1e9), BeforeValidator(_seconds, json_schema_input_type=float | str)
]
Correlation = Annotated[
    float, Field(gt=1e-15, lt=1.0), BeforeValidator(_seconds, json_schema_input_type=float | str)
]
Spectrometer = Annotated[
    float, Field(gt=1e-6, lt=1e6), BeforeValidator(_spectrometer, json_schema_input_type=float | str)
]


def spin_of(nuclei: object) -> float | list[float] | None:
    """Return the spin of a nucleus or of a list of nuclei as a deck has them; None where one is unknown."""
    if isinstance(nuclei, list):
        spins = [spin_of(one) if isinstance(one, str) else None for one in nuclei]
        return None if None in spins else [spin for spin in spins if isinstance(spin, float)]
    return ISOTOPES[nuclei].spin if isinstance(nuclei, str) and nuclei in ISOTOPES else None

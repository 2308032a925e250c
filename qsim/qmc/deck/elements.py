"""Chemical elements: symbols and atomic numbers."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from qsim.core.errors import InvalidInput

if TYPE_CHECKING:
    pass

__all__ = ["ELEMENTS", "atomic_number"]

ELEMENTS = (  # noqa: SIM905 - a list of 118 strings is no easier to read
    "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb "
    "Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu "
    "Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db "
    "Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og "
).split()


def atomic_number(symbol: str) -> int:
    """Return the atomic number of ``"He"`` or of a label like ``"H1"``.

    Raises
    ------
    InvalidInput
        If there is no such element.
    """
    letters = re.match(r"[A-Za-z]*", symbol)
    name = (letters.group() if letters else "").capitalize()
    if name not in ELEMENTS:
        close = difflib.get_close_matches(name, ELEMENTS, n=1, cutoff=0.5)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise InvalidInput("system.atoms", f"unknown element '{symbol}'{hint}")
    return ELEMENTS.index(name) + 1

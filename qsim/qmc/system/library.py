"""Public effective core potentials that qsim carries, so that a name in a deck needs no other program.

- ``ccecp``: correlation-consistent potentials, Bennett et al., J. Chem. Phys. 147, 224106 (2017); 149, 104108 (2018);
  Annaberdiyev et al., 149, 134108 (2018); Wang et al., 151, 144110 (2019).
- ``bfd``: Burkatzki, Filippi and Dolg, J. Chem. Phys. 126, 234105 (2007).

The table `effective_cores.json` holds, by name and element, the electrons of the core and the terms ``[n, a, c]`` of
``c r^(n-2) exp(-a r^2)``: of the local channel (without ``-Z_eff / r``), and of s and p less the local one.
"""

from __future__ import annotations

import difflib
import json
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from qsim.qmc.deck.elements import atomic_number

if TYPE_CHECKING:
    from qsim.qmc.system.pseudopotentials import Ecp

__all__ = ["NAMES", "carried", "likely", "similar"]

#: Spellings of the families, as other programs have them.
NAMES = {"ccecp": "ccecp", "bfd": "bfd", "bfd-pp": "bfd", "bfdpp": "bfd"}
# Channels, the local one first, with their l in the form of PySCF.
CHANNELS = {"local": -1, "s": 0, "p": 1}
# Powers r^(n-2) that a channel lists: n = 0 to 3.
POWERS = 4


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, Any]]:
    text = resources.files("qsim.qmc.system").joinpath("effective_cores.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, Any]] = json.loads(text)
    return tables


def carried(name: str, element: str) -> Ecp | None:
    """Return an effective core potential in the form of PySCF: electrons of the core, and (l, pairs (a, c) by n) of each channel.

    Parameters
    ----------
    name
        Of a family, in any spelling of `NAMES`.
    element
        ``"O"``.

    Returns
    -------
    (int, list) or None
        None if the table does not have it.
    """
    family = NAMES.get(name.lower().replace("_", "-"))
    found = None if family is None else _tables()[family].get(element)
    if found is None:
        return None
    parts: list[tuple[int, list[list[tuple[float, float]]]]] = []
    for channel, l in CHANNELS.items():
        if channel in found:
            terms = found[channel]
            parts.append((l, [[(a, c) for n, a, c in terms if n == power] for power in range(POWERS)]))
    return int(found["core"]), parts


def likely(symbol: str, charge: float | None) -> str:
    """Return what a deck would name for orbitals that were made with an effective core: ccecp where it leaves as many electrons.

    Parameters
    ----------
    symbol
        Of the atom, also a label.
    charge
        Electrons that the core leaves; None if that is not known.
    """
    found = carried("ccecp", "".join(c for c in symbol if c.isalpha()))
    fits = found is not None and charge == atomic_number(symbol) - found[0]
    return "ccecp" if fits else f"{symbol}.xml"


def similar(name: str) -> str:
    """Return the name of a family that is probably meant; ``""`` if none is."""
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    return NAMES[close[0]] if close else ""

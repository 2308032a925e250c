"""From a deck's blocks to a `Wavefunction`: pseudopotentials, system, orbitals and their cusps, Jastrow factor."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.system.ions import System, build_system
from qsim.qmc.system.pseudopotentials import Pseudopotential, from_ecp, read_xml
from qsim.qmc.system.quadrature import EXACT_TO, rule
from qsim.qmc.wavefunction import gaussian, sto
from qsim.qmc.wavefunction import trap as harmonic
from qsim.qmc.wavefunction.cusp import correct_cusps
from qsim.qmc.wavefunction.jastrow import build_jastrow
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

if TYPE_CHECKING:
    from qsim.qmc.wavefunction.orbitals import OrbitalSet

__all__ = ["SOURCES", "Notes", "build_wavefunction"]

SOURCES = ("sto", "hydrogen", "hooke", "harmonic", "pyscf")
DEFAULT_RULE = 12


@dataclass
class Notes:
    """What the deck left open and how it was settled, for the run's report."""

    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        """Keep one line."""
        self.lines.append(line)


def build_wavefunction(
    system_block: Any,
    orbitals_block: Any,
    jastrow_block: Any = None,
    *,
    folder: Path | None = None,
    quadrature: int = DEFAULT_RULE,
    notes: Notes | None = None,
) -> Wavefunction:
    """Build the trial function of a deck.

    Parameters
    ----------
    system_block
        ``system``: see `qsim.qmc.system.ions.build_system`; ``pseudopotentials`` maps symbols to XML files (``.xml``) or to
        names in PySCF's library (``ccecp``).
    orbitals_block
        ``wavefunction.orbitals``: ``source`` and what that source reads; ``cusp`` (false: leave Gaussians without).
    jastrow_block
        ``wavefunction.jastrow``: see `qsim.qmc.wavefunction.jastrow.build_jastrow`.
    folder
        Where relative file names start.
    quadrature
        Points of the rule for nonlocal pseudopotentials.
    notes
        Collects what was settled here.

    Raises
    ------
    InvalidInput
        With the key of the deck.
    FileError, NumericsError
        From files and self-consistent fields.
    """
    notes = notes if notes is not None else Notes()
    folder = folder or Path()
    source = str(getattr(orbitals_block, "source", None) or "")
    if source not in SOURCES:
        raise InvalidInput(
            "wavefunction.orbitals.source", f"unknown source '{source}'; use one of {', '.join(SOURCES)}"
        )
    if quadrature not in EXACT_TO:
        raise InvalidInput(
            "system.quadrature",
            f"spherical rules have {', '.join(map(str, EXACT_TO))} points, found {quadrature}",
        )
    cache = gaussian.open_cache(orbitals_block, folder) if source == "pyscf" else None
    pseudopotentials = pseudopotentials_of(system_block, folder, cache)
    system = _system(system_block, orbitals_block, source, pseudopotentials)
    orbitals = _orbitals(orbitals_block, source, system, folder, cache, notes)
    occupied = (system.n_up, system.n_dn)
    slopes = {
        symbol: float(
            np.mean([orbitals.cusp(a, occupied) for a, other in enumerate(system.symbols) if other == symbol])
        )
        for symbol in system.species
        if system.is_bare(symbol)
    }
    jastrow = build_jastrow(
        jastrow_block, system, slopes, exact_pairs=source == "hooke" and jastrow_block is None
    )
    return Wavefunction(system, orbitals, jastrow, rule(quadrature))


def _system(block: Any, orbitals: Any, source: str, pseudopotentials: dict[str, Pseudopotential]) -> System:
    if source not in ("hooke", "harmonic"):
        if not list(getattr(block, "atoms", None) or []):
            raise InvalidInput("system.atoms", f"{source} orbitals need a system with atoms")
        return build_system(block, pseudopotentials)
    if list(getattr(block, "atoms", None) or []):
        raise InvalidInput("system.atoms", f"{source} orbitals are for electrons in a trap, without atoms")
    given = getattr(orbitals, "omega", None)
    omega = harmonic.HOOKE_OMEGA if given is None and source == "hooke" else float(given or 0.0)
    if not omega > 0.0:
        raise InvalidInput(
            "wavefunction.orbitals.omega", f"the frequency of the trap must be positive, found {given}"
        )
    mass = float(getattr(orbitals, "mass", None) or 1.0)
    if not mass > 0.0:
        raise InvalidInput("wavefunction.orbitals.mass", f"the mass must be positive, found {mass:g}")
    interacting = source == "hooke" or bool(getattr(orbitals, "interacting", None))
    return build_system(
        block, omega=omega, mass=mass, interacting=interacting, electrons=2 if source == "hooke" else 1
    )


def _orbitals(
    block: Any, source: str, system: System, folder: Path, cache: gaussian.Cache | None, notes: Notes
) -> OrbitalSet:
    if source == "sto":
        return sto.slater(block, system)
    if source == "hydrogen":
        return sto.hydrogen(block, system)
    if source != "pyscf":
        return harmonic.oscillator(block, system)
    orbitals = gaussian.gaussian_orbitals(block, system, folder, cache)
    notes.add(orbitals.about["summary"])
    notes.warnings += orbitals.about["doubts"]
    if getattr(block, "cusp", None) is not False and any(system.is_bare(symbol) for symbol in system.species):
        orbitals = correct_cusps(orbitals, system)
        notes.add(orbitals.about["cusp_summary"])
    return orbitals


def pseudopotentials_of(block: Any, folder: Path, cache: gaussian.Cache | None) -> dict[str, Pseudopotential]:
    found = {}
    present = [str(atom[0]) for atom in getattr(block, "atoms", None) or []]
    for symbol, name in (getattr(block, "pseudopotentials", None) or {}).items():
        key = f"system.pseudopotentials.{symbol}"
        if symbol not in present:
            raise InvalidInput(
                key, f"there is a pseudopotential of '{symbol}', but no such atom in the system"
            )
        if str(name).lower().endswith(".xml"):
            found[symbol] = read_xml(folder / str(name), symbol)
        else:
            ecp = gaussian.library_ecp(str(name), symbol, cache, key)
            found[symbol] = from_ecp(symbol, atomic_number(symbol), ecp, str(name))
    return found

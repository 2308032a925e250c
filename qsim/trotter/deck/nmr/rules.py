"""Rules of nuclei, of their shifts and of their scalar couplings."""

import difflib
import math
from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.couplings import NuclearTerm, Quadrupole, Scalar, Shifts, System
from qsim.trotter.deck.nmr.fid import Dipolar, Fid, Relaxation
from qsim.trotter.deck.nmr.isotopes import ISOTOPES
from qsim.trotter.deck.sites import check_sites, pair_problems

__all__ = ["check_decoupled", "check_nuclear", "check_nuclei", "check_relaxation"]

# distance of two nuclei at least, angstrom
NEAREST = 0.3


def check_nuclei(system: System, key: str) -> Iterator[Finding]:
    """Yield nuclei that are unknown, too many or too few, or have another spin than the deck says."""
    nuclei = system.nuclei
    if nuclei is None:
        if system.spectrometer is not None:
            yield Finding(f"{key}.spectrometer", "goes with system.nuclei, such as nuclei: 1H")
        return
    for number, name in enumerate(nuclei if isinstance(nuclei, list) else [nuclei]):
        if name not in ISOTOPES:
            where = f"{key}.nuclei.{number}" if isinstance(nuclei, list) else f"{key}.nuclei"
            near = difflib.get_close_matches(name, ISOTOPES, 1, 0.4)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Finding(where, f"unknown nucleus {name!r}{hint}; known are {', '.join(ISOTOPES)}")
            return
    if isinstance(nuclei, list) and len(nuclei) != system.spins:
        yield Finding(f"{key}.nuclei", f"{len(nuclei)} nuclei, but system.spins = {system.spins}")
        return
    expected = tuple(round(2.0 * ISOTOPES[name].spin) for name in system.isotopes)
    if system.twos != expected:
        yield Finding(f"{key}.spin", "the nuclei have spins of their own; leave spin out")


def check_nuclear(term: NuclearTerm, system: System, key: str) -> Iterator[Finding]:
    """Yield contradictions in shifts, scalar couplings or quadrupoles."""
    if isinstance(term, Quadrupole):
        yield from check_sites(term.sites, system.spins, f"{key}.sites")
        small = [j for j in term.sites or range(system.spins) if j < system.spins and system.twos[j] < 2]
        if small and (term.sites is not None or len(small) == system.spins):
            yield Finding(
                f"{key}.sites" if term.sites else key, f"site {small[0]} has spin 1/2, and no quadrupole"
            )
        return
    given = [
        name
        for name in (("ppm", "Hz", "file") if isinstance(term, Shifts) else ("list", "file"))
        if getattr(term, name) is not None
    ]
    if len(given) != 1:
        names = "ppm, Hz and file" if isinstance(term, Shifts) else "list and file"
        yield Finding(key, f"give exactly one of {names}; found {' and '.join(given) or 'none of them'}")
        return
    if not isinstance(term, Shifts):
        yield from _check_rows(term, system, key)
        return
    if system.nuclei is None:
        yield Finding(f"{key}.type", "shifts belong to nuclei; give system.nuclei, such as 1H")
    elif system.spectrometer is None and term.Hz is None:
        yield Finding(
            f"{key}.{given[0]}", "ppm need the field: give system.spectrometer, such as 400 MHz or 9.4 T"
        )
    values = term.ppm if term.ppm is not None else term.Hz
    if values is not None and len(values) != system.spins:
        yield Finding(f"{key}.{given[0]}", f"{len(values)} values, but system.spins = {system.spins}")


def _check_rows(term: Scalar, system: System, key: str) -> Iterator[Finding]:
    for number, text in pair_problems(term.list or [], system.spins):
        yield Finding(f"{key}.list.{number}", text)


def _check_positions(block: Dipolar, system: System) -> Iterator[Finding]:
    """Yield what keeps nuclei from having dipolar couplings."""
    key, places = "relaxation.dipolar", block.positions
    if system.nuclei is None or system.spectrometer is None:
        yield Finding(key, "needs nuclei and their frequencies: give system.nuclei and system.spectrometer")
    if len(places) != system.spins:
        yield Finding(f"{key}.positions", f"{len(places)} places, but system.spins = {system.spins}")
        return
    for j, one in enumerate(places):
        for k, other in enumerate(places[:j]):
            if math.dist(one, other) < NEAREST:
                yield Finding(
                    f"{key}.positions.{j}", f"site {j} is {math.dist(one, other):g} angstrom from site {k}"
                )
                return


def check_relaxation(block: Relaxation, system: System) -> Iterator[Finding]:
    """Yield times of another number of nuclei, a T2 that is longer than twice T1, and places that are mistaken."""
    spins = system.spins
    if block.T2 is not None and block.linewidth is not None:
        yield Finding("relaxation.linewidth", "give either T2 or linewidth")
    for name in ("T1", "T2"):
        values = getattr(block, name)
        if isinstance(values, list) and len(values) != spins:
            yield Finding(f"relaxation.{name}", f"{len(values)} times, but system.spins = {spins}")
            return
    if block.dipolar is not None:
        yield from _check_positions(block.dipolar, system)
    if not block.own:
        return
    for site, (flips, dephasing) in enumerate(block.rates(spins)):
        if dephasing < -1e-12 * flips:
            T2 = 1.0 / (flips + dephasing)
            yield Finding(
                "relaxation.T2",
                f"T2 of site {site} is {T2:.6g} s, longer than twice its T1 = {0.5 / flips:.6g} s: what flips a spin dephases it",
            )
            return


def check_decoupled(block: Fid, system: System) -> Iterator[Finding]:
    """Yield nuclei to be decoupled that are not there, and that of the observed isotope."""
    seen = block.detect or system.isotopes[0]
    for number, name in enumerate(block.decouple or []):
        key = f"fid.decouple.{number}"
        if isinstance(name, int):
            yield from check_sites([name], system.spins, key)
        elif name not in system.isotopes:
            yield Finding(key, f"no site is a {name}; found {', '.join(sorted(set(system.isotopes)))}")
        elif name == seen:
            yield Finding(key, f"{name} is observed; name single nuclei by their numbers")

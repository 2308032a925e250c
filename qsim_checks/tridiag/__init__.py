"""Random decks of tridiag, and the truth to hold their results against; see :mod:`qsim_checks.coverage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim_checks.tridiag.atoms import atom, walled
from qsim_checks.tridiag.atoms_planar import turning
from qsim_checks.tridiag.atoms_resonances import resonant
from qsim_checks.tridiag.atoms_spectra import photoelectron
from qsim_checks.tridiag.curves import narrow, squeezed, tables
from qsim_checks.tridiag.lines import line_resonances, line_spectra
from qsim_checks.tridiag.motion import motion
from qsim_checks.tridiag.plane import condensate, cylinder, ion, particle, plane, rotation
from qsim_checks.tridiag.systems import system
from qsim_checks.tridiag.wild import wild

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from qsim_checks.coverage import Kind, Trial

__all__ = ["KINDS", "trial"]

WILD = 0.06  # up to which number systems have elements that lie far apart
# up to which numbers decks are systems, motion in one dimension, atoms in a field along z, in one that turns, their spectra
SHARES = 0.45, 0.88, 0.92, 0.94, 0.97


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of ``task: solve``, ``task: propagate`` or ``task: atom`` and its judge."""
    drawn = rng.random()
    if drawn < WILD:
        return wild(rng, folder)
    if drawn < SHARES[0]:
        return system(rng, folder)
    if drawn < SHARES[1]:
        return motion(rng, folder)
    makers = (atom, turning, photoelectron, resonant)
    return makers[sum(drawn >= share for share in SHARES[2:])](rng)


KINDS: Mapping[str, Kind] = {
    "solve": system,
    "wild": wild,
    "propagate": motion,
    "atom": lambda rng, folder: atom(rng),
    "turning": lambda rng, folder: turning(rng),
    "spectra": lambda rng, folder: photoelectron(rng),
    "resonances": lambda rng, folder: resonant(rng),
    "tables": tables,
    "narrow": narrow,
    "squeezed": squeezed,
    "walled": walled,
    "plane": plane,
    "particle": particle,
    "ion": ion,
    "condensate": condensate,
    "cylinder": cylinder,
    "rotation": rotation,
    "line_resonances": line_resonances,
    "line_spectra": line_spectra,
}
"""Kinds of decks that can be drawn alone: systems, those with elements far apart, motion in one dimension; atoms in a field along
z and in one that turns, spectra of their photoelectrons, their resonances; tables, pulses narrower than
a step, levels that walls squeeze, of a line and of an atom; two electrons on a line, a particle in a plane, an ion that
vibrates, a condensate, an electron about an axis, condensates in a frame that rotates and particles in a
magnetic field; resonances of a line and its photoelectron spectra."""

"""Energies, wave numbers and the factor between fluxes and cross sections, for each process."""

from __future__ import annotations

import math
from dataclasses import dataclass

# CODATA 2022, as all constants here.
FINE_STRUCTURE = 7.2973525643e-3
HARTREE_EV = 27.211386245981
# a0^2 in kilobarn.
KILOBARN = 28.0028520539 * 1e3
# Barn of the units of cross sections.
BARN = {"pi a0^2": math.pi * KILOBARN * 1e3, "kb": 1e3}


@dataclass(frozen=True)
class Kinematics:
    """One energy of a process.

    Attributes
    ----------
    name : str
        For messages, such as ``54.4 eV``.
    process : str
    E : float
        Energy of the two electrons, hartree.
    factor : float
        Cross section over flux in the unit below; without ``(2S + 1) (2L + 1) / 4`` of an electron as projectile.
    unit : str
    scale : float
        What the factor divides by to give that unit: 1 of the unit in atomic units.
    k : float
        Wave number of the incident electron (e_h), 1/bohr.
    omega : float
        Photon energy, or energy loss of the fast charge, hartree.
    q : float
        Momentum transfer, 1/bohr.
    """

    name: str
    process: str
    E: float
    factor: float
    unit: str
    k: float = 0.0
    omega: float = 0.0
    q: float = 0.0

    def weight(self, L: int, S: int) -> float:
        """Return cross section over flux for one symmetry."""
        if self.process == "e_h":
            return self.factor * (2 * S + 1) * (2 * L + 1) / 4.0
        return self.factor

    def phase(self, L: int) -> complex:
        """Return the factor of L in an amplitude, beside the root of `weight`."""
        return 1j**L if self.process == "e_h" else 1.0 + 0j


def electron(energy: float, level: float) -> Kinematics:
    """Return the kinematics of an electron of some energy on a target in a level, hartree; unit pi a0^2."""
    k = math.sqrt(2.0 * energy)
    return Kinematics(
        _electronvolts(energy), "e_h", energy + level, 4.0 * math.pi / k / math.pi, "pi a0^2", k=k
    )


def photon(excess: float, bound: float) -> Kinematics:
    """Return the kinematics of a photon that leaves two electrons with some energy, hartree; unit kb."""
    omega = excess - bound
    # 2 pi omega alpha times the flux, in a0^2, then in kb.
    factor = 2.0 * math.pi * omega * FINE_STRUCTURE * KILOBARN
    return Kinematics(_electronvolts(excess), "photo", excess, factor, "kb", omega=omega)


def fast(incident: float, q: float, E: float, bound: float) -> Kinematics:
    """Return the kinematics of a fast charge, hartree; unit a0^2/(hartree sr).

    Raises
    ------
    ValueError
        If the charge has not enough energy, or the momentum transfer is impossible.
    """
    loss = E - bound
    if loss >= incident:
        raise ValueError(f"an energy of {incident:g} hartree cannot lose {loss:g} hartree")
    ki = math.sqrt(2.0 * incident)
    ks = math.sqrt(2.0 * (incident - loss))
    if not ki - ks <= q <= ki + ks:
        raise ValueError(
            f"a momentum transfer of {q:g} is not between {ki - ks:.4g} and {ki + ks:.4g} 1/bohr"
        )
    # (ks/ki) (4/q^4) of the first Born approximation, over 2 pi of the flux.
    factor = ks / ki * 4.0 / q**4 / (2.0 * math.pi)
    return Kinematics(_electronvolts(E), "born", E, factor, "a0^2/(hartree sr)", k=ki, omega=loss, q=q)


def _electronvolts(energy: float) -> str:
    return f"{energy * HARTREE_EV:.4g} eV"

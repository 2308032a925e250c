"""Complete active spaces by PySCF: CASSCF, CASCI and full configuration interaction on a self-consistent field."""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput, NumericsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.qmc.wavefunction.molecules.occupation import MeanField

__all__ = ["complete_active_space"]

KEY = "wavefunction.determinants"
CONVERGED, GRADIENT = 1e-10, 1e-5  # hartree; of the orbitals
CYCLES = 200
MOST = 20_000_000  # determinants of an active space: beyond, its states take gigabytes
SPIN_SHIFT = 0.2  # hartree for each unit of <S^2> in excess: keeps higher spins out of the lowest states


def complete_active_space(
    field: MeanField, wanted: Mapping[str, Any], counts: tuple[int, int]
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Return the orbitals (B, core + active or more) of an active space, and its states for the cache of orbitals.

    States have the spin (n_up - n_dn) / 2: higher ones are shifted out of the way.

    Parameters
    ----------
    field
        Converged and spin-restricted.
    wanted
        ``source``, ``active`` (electrons and orbitals), ``average`` (weights), ``states`` (how many), ``virtual`` (orbitals
        beyond core and active space).
    counts
        Electrons with spin up and down.

    Raises
    ------
    InvalidInput
        For an active space that does not fit the system, unrestricted orbitals.
    NumericsError
        If the calculation does not converge.
    """
    from pyscf import ao2mo, fci, mcscf

    C = np.asarray(field.mo_coeff)
    if C.ndim != 2:
        raise InvalidInput(
            "wavefunction.orbitals.method",
            "an active space has orbitals that both spins share: use rhf or rohf",
        )
    source, states = wanted["source"], int(wanted["states"])
    electrons, orbitals = _space(wanted, counts, C.shape[1])
    core = (sum(counts) - electrons) // 2
    pair = (counts[0] - core, counts[1] - core)
    make = mcscf.CASSCF if source == "casscf" else mcscf.CASCI
    space = make(field, orbitals, pair)
    space.verbose = 0
    spin = 0.5 * (counts[0] - counts[1])
    solver = fci.direct_spin1.FCI(field.mol)
    solver.conv_tol = 0.01 * CONVERGED
    space.fcisolver = fci.addons.fix_spin_(solver, shift=SPIN_SHIFT, ss=spin * (spin + 1.0))
    space.fcisolver.nroots = states
    if source == "casscf":
        space.conv_tol, space.conv_tol_grad, space.max_cycle_macro = CONVERGED, GRADIENT, CYCLES
        if states > 1:
            weights = np.array(wanted.get("average") or [1.0] * states, np.float64)
            if len(weights) != states or not weights.sum() > 0.0:
                text = (
                    f"weights of {states} states are wanted, some of them above 0; found {weights.tolist()}"
                )
                raise InvalidInput(f"{KEY}.average", text)
            space = space.state_average_(tuple(weights / weights.sum()))
    space.kernel()
    converged = np.all(getattr(space, "converged", True))
    if not converged:
        raise NumericsError(
            f"{source} in {electrons} electrons and {orbitals} orbitals did not converge; its last energy "
            f"is {space.e_tot:.6f} hartree",
            hint="try another active space, basis or geometry",
        )
    ci = space.ci if isinstance(space.ci, list | tuple) else [space.ci]
    energies = getattr(space, "e_states", None)
    if energies is None:
        energies = np.atleast_1d(space.e_tot)
    chosen = np.asarray(space.mo_coeff)[:, : core + orbitals + int(wanted.get("virtual", 0))]
    one, core_energy = space.get_h1cas(space.mo_coeff)
    two = ao2mo.restore(1, np.asarray(space.get_h2cas(space.mo_coeff)), orbitals)
    return chosen, {
        "ci": np.stack([np.asarray(c, np.float64) for c in ci]),
        "integrals": np.concatenate([np.asarray(one).ravel(), two.ravel()]),
        "about": {
            "active": {
                "origin": f"{source} in {electrons} electrons and {orbitals} orbitals",
                "core": core,
                "orbitals": orbitals,
                "electrons": list(pair),
                "energies": [float(e) for e in energies],
                "core_energy": float(core_energy),
            }
        },
    }


def _space(wanted: Mapping[str, Any], counts: tuple[int, int], orbitals: int) -> tuple[int, int]:
    """Return the electrons and orbitals of the active space."""
    total = sum(counts)
    if wanted["source"] == "fci":
        active = (total, orbitals)
    elif wanted.get("active") is None:
        raise InvalidInput(
            f"{KEY}.active",
            f"{wanted['source']} needs an active space, such as active: [2, 4]: electrons, orbitals",
        )
    else:
        active = (int(wanted["active"][0]), int(wanted["active"][1]))
    electrons, size = active
    core, left = divmod(total - electrons, 2)
    up, dn = counts[0] - core, counts[1] - core
    if left or core < 0 or min(up, dn) < 0 or not max(up, dn, 1) <= size or core + size > orbitals:
        raise InvalidInput(
            f"{KEY}.active",
            f"{electrons} active electrons in {size} orbitals are impossible: the system has {counts[0]} and {counts[1]} "
            f"electrons, an even number of which is left in doubly occupied orbitals, and the basis {orbitals} orbitals",
        )

    if comb(size, up) * comb(size, dn) > MOST:
        raise InvalidInput(
            f"{KEY}.active",
            f"this active space has {comb(size, up) * comb(size, dn):.3g} determinants; {MOST:.0e} is the most",
        )
    return electrons, size

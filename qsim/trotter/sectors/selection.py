"""Which sector a deck asks for, or which a start and what is observed of it stay in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.deck import initial as blocks
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.model.tensors import mixed
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.parity import ParitySector, parity_obstacle
from qsim.trotter.states.initial import basis_index

if TYPE_CHECKING:
    from qsim.trotter.deck.model import TrotterDeck
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model

__all__ = ["definite_down", "mixing", "obstacle", "sector_of"]

EQUAL = 1e-14  # relative difference of Jx and Jy that is rounding, as in hamiltonian.conserved


def obstacle(hamiltonian: Hamiltonian, inversion: int = 0) -> str:
    """Return why H does not conserve Sz (or the inversion of all spins), ``""`` if it does."""
    models = (hamiltonian.static, *(part for _, part in hamiltonian.driven))
    return next((why for model in models if (why := mixing(model, inversion))), "")


def mixing(model: Model, inversion: int = 0) -> str:
    """Return why a constant H does not conserve Sz (or the inversion of all spins), ``""`` if it does."""
    scale = max(float(np.abs(model.J).max(initial=0.0)), 1e-300)
    for axis, name in enumerate("xy"):
        if model.h[axis].any():
            site = int(np.flatnonzero(model.h[axis])[0])
            return f"the field along {name} at site {site} mixes magnetisations"
    different = np.argwhere(np.triu(np.abs(model.J[0] - model.J[1]) > EQUAL * scale, 1))
    if len(different):
        j, k = (int(site) for site in different[0])
        x, y = model.J[0, j, k], model.J[1, j, k]
        return (
            f"the coupling of sites {j} and {k}, with Jx = {x:g} and Jy = {y:g}, flips two spins the same way"
        )
    largest = scale if model.cross is None else max(scale, float(np.abs(model.cross).max()))
    if (found := mixed(model.cross, EQUAL * largest)) is not None:
        j, k, what = found
        return f"the coupling of sites {j} and {k}, with {what}, changes the number of spins up"
    if inversion and model.cross is not None:
        j, k = (int(site) for site in np.argwhere(model.cross[0, 1])[0])
        return f"the coupling S_{j} x S_{k} along z changes its sign under the inversion of all spins"
    if inversion and model.h[2].any():
        site = int(np.flatnonzero(model.h[2])[0])
        return f"the field along z at site {site} changes its sign under the inversion of all spins"
    return ""


def definite_down(block: Any, spins: int) -> int | None:
    """Return the number of spins down of an initial state that has one; None for all others."""
    if isinstance(block, blocks.BasisInitial | blocks.NeelInitial | blocks.DomainWallInitial):
        return basis_index(block, spins).bit_count()
    if isinstance(block, blocks.GroundStateInitial):
        return spins - (spins // 2 if block.up is None else block.up)
    if isinstance(block, blocks.PolarisedInitial) and block.axis in ("z", "-z"):
        return 0 if block.axis == "z" else spins
    return None


def _of_parity(
    found: ParitySector, hamiltonian: Hamiltonian, sigma: Hamiltonian | None, down: int | None
) -> ParitySector:
    for part, key in ((hamiltonian, "system.terms"), (sigma, "observe: echo: sigma")):
        if part is not None and (why := parity_obstacle(part)):
            raise DeckError(f"sector.parity: parity is not conserved ({key}): {why}; use sector: full")
    if down is not None and down % 2 != found.odd:
        raise DeckError(
            f"sector.parity: the initial state has {down} spins down, the sector an {found}; use the other one"
        )
    return found


def sector_of(
    deck: TrotterDeck, hamiltonian: Hamiltonian, sigma: Hamiltonian | None
) -> Sector | ParitySector | None:
    """Return the sector of an evolution; None for all states.

    Parameters
    ----------
    sigma : Hamiltonian or None
        Perturbation of the way back of an echo.

    Raises
    ------
    DeckError
        If the deck asks for a sector that H or the start do not stay in.
    """
    asked, spins = deck.sector, deck.system.spins
    if asked in ("full", "none"):
        return None
    down = definite_down(deck.initial, spins)
    if asked == "auto":
        stays = (
            down is not None
            and deck.evolve.integrator in ("auto", "chebyshev", "krylov")
            and deck.evolve.dt is None
            and (not deck.driven or deck.evolve.integrator == "krylov")
            and deck.observed("fidelity") is None
            and not obstacle(hamiltonian)
            and (sigma is None or deck.evolve.integrator == "krylov" or sigma.is_static)
            and (sigma is None or not obstacle(sigma))
        )
        return Sector(spins, down) if stays and down is not None else None
    assert isinstance(asked, SectorBlock)
    if asked.parity is not None:
        return _of_parity(ParitySector(spins, int(asked.parity == "odd")), hamiltonian, sigma, down)
    found = Sector(spins, spins - round(asked.ups(spins)[0]), asked.inversion or 0)
    for part, key in ((hamiltonian, "system.terms"), (sigma, "observe: echo: sigma")):
        if part is not None and (why := obstacle(part, found.inversion)):
            raise DeckError(f"sector: {found} is not conserved ({key}): {why}; use sector: full")
    if down is not None and down != found.down:
        raise DeckError(
            f"sector: the initial state has Sz = {0.5 * spins - down:g}, the sector {found}; use sector: auto"
        )
    if down is not None and found.inversion and not isinstance(deck.initial, blocks.GroundStateInitial):
        raise DeckError(
            f"sector.inversion: the initial state {deck.initial.type} is turned into another one by the inversion of all spins, "
            "so that it has parts of both signs; leave inversion out"
        )
    return found

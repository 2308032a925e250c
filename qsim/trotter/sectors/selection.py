"""Select the sector of an evolution: the one of the deck, or the one that H, initial state and observables conserve."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeckError
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.initial.ground import GroundState
from qsim.trotter.lattices.momenta import translations
from qsim.trotter.model.frames import FRAMES, Frame
from qsim.trotter.model.tensors import mixed
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.parity import ParitySector, WholeSpace, parity_obstacle
from qsim.trotter.sectors.symmetric import PlainSpace, SymmetricSector, Symmetry, broken, symmetric_sectors

if TYPE_CHECKING:
    from qsim.trotter.initial.base import InitialState
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.model.models import Models
    from qsim.trotter.observables.base import Needs

__all__ = [
    "PlainSpace",
    "frame_of",
    "kept_by",
    "leaving",
    "lowered_of",
    "mixing",
    "obstacle",
    "sector_of",
    "space_with",
    "spaces_of",
]

# relative difference of Jx and Jy that is rounding, as in hamiltonian.conserved
EQUAL = 1e-14


def obstacle(hamiltonian: Hamiltonian, inversion: int = 0) -> str:
    """Return why H does not conserve Sz (or the inversion of all spins), ``""`` if it does."""
    models = (hamiltonian.static, *(part for _, part in hamiltonian.driven))
    return next((why for model in models if (why := mixing(model, inversion))), "")


@singledispatch
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
    # couplings of different components: only Dzyaloshinskii-Moriya
    # ones along z keep Sz, odd under the inversion
    largest = scale if model.cross is None else max(scale, float(np.abs(model.cross).max()))
    if (pair := mixed(model.cross, EQUAL * largest)) is not None:
        j, k, what = pair
        return f"the coupling of sites {j} and {k}, with {what}, changes the number of spins up"
    if inversion and model.cross is not None:
        j, k = (int(site) for site in np.argwhere(model.cross[0, 1])[0])
        return f"the coupling S_{j} x S_{k} along z changes its sign under the inversion of all spins"
    if inversion and model.h[2].any():
        site = int(np.flatnonzero(model.h[2])[0])
        return f"the field along z at site {site} changes its sign under the inversion of all spins"
    return ""


@singledispatch
def space_with(
    model: Model, down: int | None = None, odd: int | None = None, inversion: int = 0, axis: str = "z"
) -> PlainSpace:
    """Return the space of the spins of a model with a number of quanta below all up, with their parity, or of all states."""
    if down is not None:
        return Sector(model.spins, down, inversion, axis)
    return WholeSpace(model.spins) if odd is None else ParitySector(model.spins, odd, axis)


def frame_of(model: Model, requested: SectorBlock | str, totals: str = "zxy") -> Frame:
    """Return the frame in which the strings of a task are written: that of what H conserves, along z if it can be.

    Parameters
    ----------
    totals : str
        Axes along which the total spin is of use.
    """
    block = requested if isinstance(requested, SectorBlock) else SectorBlock()
    if requested in ("full", "none") or block.charged or block.inversion is not None:
        return FRAMES["z"]
    if block.parity is None:
        # further symmetries of a total Sz are those of Sz = 0; along another axis nothing is understood
        for axis in totals if isinstance(requested, str) else totals[:1]:
            if not mixing(FRAMES[axis].turned(model)):  # type: ignore[index]
                return FRAMES[axis]  # type: ignore[index]
    return next((frame for frame in FRAMES.values() if not parity_obstacle(frame.turned(model))), FRAMES["z"])


def spaces_of(model: Model, requested: SectorBlock | str, axis: str) -> list[PlainSpace]:
    """Return the spaces without a definite Sz that a deck asks for; with auto all that H allows, which hold every state.

    Raises
    ------
    DeckError
        If the deck names a parity that H does not conserve.
    """
    parity = requested.parity if isinstance(requested, SectorBlock) else None
    why = parity_obstacle(model)
    if parity is not None:
        if why:
            raise DeckError(
                f"sector.parity: the parity of the number of spins down is conserved along no axis; along z: {why}; "
                "use sector: auto"
            )
        return [space_with(model, odd=int(parity == "odd"), axis=axis)]
    if why or model.quanta < 2 or requested in ("full", "none"):
        return [space_with(model)]
    return [space_with(model, odd=odd, axis=axis) for odd in (0, 1)]


def _of_parity(
    odd: int, hamiltonian: Hamiltonian, sigma: Hamiltonian | None, down: int | None, axes: str = "zxy"
) -> PlainSpace:
    """Return the space of a parity along the first of some axes along which it is conserved."""
    parts = [(hamiltonian, "system.terms")]
    if sigma is not None:
        parts.append((sigma, "observe: echo: sigma"))
    kept = [axis for axis in axes if not any(_turned_over(part, axis) for part, _ in parts)]
    if not kept:
        why, key = next((why, key) for part, key in parts if (why := _turned_over(part)))
        raise DeckError(f"sector.parity: parity is not conserved ({key}): {why}; use sector: full")
    sector = space_with(hamiltonian.static, odd=odd, axis=kept[0])
    if down is not None and sector.axis == "z" and down % 2 != odd:
        raise DeckError(
            f"sector.parity: the initial state has {down} spins down, the sector an {sector}; use the other one"
        )
    return sector


def _parts(hamiltonian: Hamiltonian) -> list[Model]:
    """Return the constant and the driven parts of H."""
    return [hamiltonian.static, *(part for _, part in hamiltonian.driven)]


def _turned_over(hamiltonian: Hamiltonian, axis: str = "z") -> str:
    """Return why some part of H does not conserve the parity along an axis, ``""`` if all do."""
    number = "xyz".index(axis)
    return next((why for part in _parts(hamiltonian) if (why := parity_obstacle(part, number))), "")


def lowered_of(models: Models, start: InitialState) -> int | None:
    """Return the quanta below all spins up of a start; None of several, and of the ground state of an H without a total Sz.

    Raises
    ------
    DeckError
        If the deck names the Sz of a ground state whose H does not conserve it.
    """
    if isinstance(start, GroundState) and (why := obstacle(models.ground())):
        if start.up is not None:
            raise DeckError(f"initial.up: the H of the ground state conserves no Sz: {why}; leave up out")
        return None
    return start.lowered(models.system.twos)


def leaving(space: PlainSpace | SymmetricSector, model: Model) -> str:
    """Return why H, along the axes of the strings, leads out of a space, ``""`` if it does not."""
    if isinstance(space, SymmetricSector):
        each = (_changed(model, one) for one in space.symmetries)
        return leaving(space.base, model) or next((why for why in each if why), "")
    if not math.isnan(space.sz):
        return mixing(model, getattr(space, "inversion", 0))
    return parity_obstacle(model) if getattr(space, "odd", -1) >= 0 else ""


def kept_by(space: PlainSpace | SymmetricSector, model: Model) -> PlainSpace | SymmetricSector:
    """Return the space to which an operator leads that keeps its base: with those of the symmetries that it has."""
    if isinstance(space, Sector) and mixing(model, space.inversion):
        return replace(space, inversion=0)
    if not isinstance(space, SymmetricSector):
        return space
    kept = tuple(one for one in space.symmetries if not _changed(model, one))
    return SymmetricSector(space.base, kept) if kept else space.base


def _changed(model: Model, symmetry: Symmetry) -> str:
    """Return why an operator is not invariant under a symmetry, ``""`` if it is."""
    return broken(model, symmetry.sites) or (parity_obstacle(model, 0) if symmetry.turned else "")


@dataclass(frozen=True)
class Asked:
    """What a deck says of the space of a state.

    Attributes
    ----------
    block : SectorBlock
    start : InitialState
    down : int or None
        Its quanta below all spins up, see :func:`lowered_of`.
    twos : tuple of int
        2 S of every site.
    lattice : block of a lattice, optional
    needs : Needs
        Of the observables.
    """

    block: SectorBlock
    start: InitialState
    down: int | None
    twos: tuple[int, ...]
    lattice: Any
    needs: Needs


def _symmetric(asked: Asked, hamiltonian: Hamiltonian, sigma: Hamiltonian | None) -> SymmetricSector:
    """Return the states of a character of permutations and inversion in the smallest space that H and start allow."""
    block, quanta, model, down = asked.block, sum(asked.twos), hamiltonian.static, asked.down
    whole = [part for part in (hamiltonian, sigma) if part is not None]
    parts = [part for both in whole for part in _parts(both)]
    # of one Sz if the deck names it, or if the start has one that all parts conserve
    base = space_with(model)
    if block.parity is not None:
        # the inversion of all spins is a half turn about x, of strings along z
        axes = "zxy" if block.inversion is None else "z"
        base = _of_parity(int(block.parity == "odd"), hamiltonian, sigma, down, axes)
    elif block.charged or (down is not None and not any(mixing(part) for part in parts)):
        given = quanta - round(block.ups(quanta)[0]) if block.charged or down is None else down
        base = space_with(model, given)
        if why := next((why for part in parts if (why := mixing(part, block.inversion or 0))), ""):
            raise DeckError(f"sector: {base} is not conserved: {why}; use sector: full")
        if down is not None and down != given:
            raise DeckError(
                f"sector: the initial state has Sz = {0.5 * quanta - down:g}, the sector {base}; use sector: auto"
            )
        if block.inversion and 2 * given != quanta:
            raise DeckError(
                f"sector.inversion: the inversion of all spins turns {base} over; leave inversion out"
            )
    if block.inversion and (why := next((why for part in whole if (why := _turned_over(part, "x"))), "")):
        raise DeckError(f"sector.inversion: the inversion of all spins is not conserved: {why}")
    if asked.needs.sigma_sites:
        raise DeckError(
            "sector: time_correlation and otoc take Sz of one site, which leads from one character of the symmetries to others; "
            "use sector: full, or a sector of Sz alone"
        )
    frame, moves = FRAMES[base.axis], translations(asked.lattice, len(asked.twos))  # type: ignore[index]
    # every part of H must be invariant; all have the same sector
    return [symmetric_sectors(block, frame.turned(part), [base], moves)[0] for part in parts].pop()


def sector_of(
    asked: Asked, hamiltonian: Hamiltonian, sigma: Hamiltonian | None = None
) -> PlainSpace | SymmetricSector:
    """Return the sector that a deck names for a state.

    Parameters
    ----------
    sigma : Hamiltonian or None
        Perturbation of the way back of an echo.

    Raises
    ------
    DeckError
        If H or the start do not stay in it.
    """
    requested, quanta, model, down = asked.block, sum(asked.twos), hamiltonian.static, asked.down
    # inversion is a number of a sector of Sz of spins 1/2, else a character
    plain = model.halves and (requested.charged or not obstacle(hamiltonian))
    if requested.stored or (requested.inversion is not None and not plain):
        return _symmetric(asked, hamiltonian, sigma)
    if requested.parity is not None:
        parity = _of_parity(int(requested.parity == "odd"), hamiltonian, sigma, down)
        if parity.axis != "z" and asked.needs.sigma_sites:
            raise DeckError(
                f"sector.parity: time_correlation and otoc take Sz of one site, which turns the {parity} over; use sector: full"
            )
        return parity
    # a sector of Sz named by the deck: refused with the reason unless H, Sigma and the start lie in it
    sector = space_with(model, quanta - round(requested.ups(quanta)[0]), inversion=requested.inversion or 0)
    assert not isinstance(sector, ParitySector | WholeSpace)
    for part, key in ((hamiltonian, "system.terms"), (sigma, "observe: echo: sigma")):
        if part is not None and (why := obstacle(part, sector.inversion)):
            raise DeckError(f"sector: {sector} is not conserved ({key}): {why}; use sector: full")
    if down is not None and down != sector.down:
        raise DeckError(
            f"sector: the initial state has Sz = {0.5 * quanta - down:g}, the sector {sector}; use sector: auto"
        )
    if down is not None and sector.inversion and not isinstance(asked.start, GroundState):
        raise DeckError(
            f"sector.inversion: the initial state {asked.start.word} is turned into another one by the inversion of all spins, "
            "so that it has parts of both signs; leave inversion out"
        )
    return sector

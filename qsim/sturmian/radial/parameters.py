"""Resolve ``auto`` (box radius, basis energy and range), and make grid, potentials and functions from the resolved numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.table_units import doubted
from qsim.core.errors import InvalidInput, NumericsError
from qsim.sturmian.deck.blocks import Gsf, SquareWell, as_list
from qsim.sturmian.deck.response import Response
from qsim.sturmian.deck.symmetry import sectors
from qsim.sturmian.radial import automatic, potentials
from qsim.sturmian.radial.box import BOX_DENSITY, outer_density

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.sturmian.deck.blocks import FeDvr, Generating, Grid, System
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.sturmians import Sturmians

# Hartree: no potential at a node is larger.
LARGEST = 1e12
# Hartree: the slowest decay that an automatic basis follows, of states with n = 5.
SLOWEST = 0.02


@dataclass(frozen=True)
class Radial:
    """Blocks of the deck that define one electron: its potential, its grid and its functions.

    What they leave open (``auto``), or a scan changes, is in `Values`.
    """

    system: System
    grid: Grid
    basis: Gsf | FeDvr

    @classmethod
    def of(cls, deck: SturmianDeck) -> Radial:
        """Return the blocks of a deck."""
        return cls(deck.system, deck.grid, deck.basis)

    @property
    def potential(self) -> potentials.OneBody:
        """One-body potential as a function of the radius."""
        return potentials.OneBody(self.system.potential, self.system.Z)

    @property
    def core_charge(self) -> float:
        """Charge that an electron sees far away; the nuclear charge where the potential has no such limit."""
        charge = self.potential.charge
        return charge if charge > 0.0 else self.system.Z

    def doubted(self) -> list[Radial]:
        """Return the blocks with the other curve that the rows of a table allow, once for the potential, once for the basis."""
        out = []
        if (potential := doubted(self.system.potential)) is not None:
            out.append(replace(self, system=self.system.model_copy(update={"potential": potential})))
        if isinstance(self.basis, Gsf) and (other := doubted(self.basis.generating)) is not None:
            out.append(replace(self, basis=self.basis.model_copy(update={"generating": other})))
        return out


@dataclass(frozen=True)
class Values:
    """Keys of the deck that may be ``auto`` or scanned, as numbers.

    Attributes
    ----------
    R : float
        Radius of the box, bohr.
    order : int
        Points of an element.
    sizes : tuple of int
        Functions of l = 0, 1, ..., the last for the rest; empty for a grid basis.
    energy, alpha : float or None
        Energy of the functions, hartree, and inverse range of the generating potential; None where there is none.
    l_max : int or None
        None: as in ``channels``.
    ionisation : float or None
        Estimated ionisation energy of the weakest bound state, hartree; None where nothing followed from it.
    notices : tuple of str
        What was settled.
    """

    R: float
    order: int
    sizes: tuple[int, ...]
    energy: float | None
    alpha: float | None
    l_max: int | None = None
    ionisation: float | None = None
    notices: tuple[str, ...] = field(default=(), compare=False)

    def size(self, l: int, points: int) -> int:
        """Return the number of radial functions of an l on a grid with a number of points."""
        return self.sizes[min(l, len(self.sizes) - 1)] if self.sizes else points

    def sizes_on(self, points: int) -> dict[str, int | float | str]:
        """Return the sizes by name that every task states, on a grid of that number of points."""
        sizes: dict[str, int | float | str] = {"grid points": points, "R (bohr)": self.R}
        if self.energy is not None:
            sizes |= {"functions of l = 0": self.size(0, points), "energy (hartree)": self.energy}
        if self.alpha is not None:
            sizes["alpha (1/bohr)"] = self.alpha
        return sizes

    def changed(self, **changes: float) -> Values:
        """Return these values with some replaced: N, l_max, R, alpha, energy, order."""
        replaced: dict[str, Any] = dict(changes)
        if "N" in replaced:
            replaced["sizes"] = tuple(as_list(replaced.pop("N")))
        return replace(self, **replaced)


# -------------------------------------------------------------------------------------------- settling


def resolve(deck: SturmianDeck) -> Values:
    """Return the values of a deck, ``auto`` settled.

    Raises
    ------
    InvalidInput
        If nothing settles them.
    """
    basis, grid, notices = deck.basis, deck.grid, []
    gsf = basis if isinstance(basis, Gsf) else None
    bounds = grid.bounds
    energy: Any = None if gsf is None else gsf.energy
    alpha: Any = deck.alpha
    R: Any = bounds[-1] if bounds else grid.R
    ionisation = None
    # One estimate settles everything: the decay of the weakest bound state sets energy, range
    # and box.
    if "auto" in (energy, R):
        ionisation = _slowest(deck)
    if energy == "auto":
        assert gsf is not None
        assert ionisation is not None
        energy = automatic.energy(ionisation, gsf.generating.type)
        notices.append(f"basis.energy: auto is {energy:.6g} hartree")
    if alpha == "auto":
        assert gsf is not None
        alpha = automatic.alpha(energy, gsf.generating.type)
        notices.append(f"basis.generating.alpha: auto is {alpha:.6g} 1/bohr")
    if R == "auto":
        assert ionisation is not None
        R = automatic.radius(ionisation, deck.system.Z)
        charge = max(Radial.of(deck).core_charge - 1.0, 0.0)
        # The rule for R was measured for atoms; where a tail reaches further, the box grows
        # until the density at its wall is a tenth of what a state may have there.
        while outer_density(R, ionisation, charge) > 0.1 * BOX_DENSITY:
            R *= 1.02
        R = round(R, 3)
        notices.append(f"grid.R: auto is {R:.6g} bohr")
    sizes = tuple(as_list(gsf.N)) if gsf is not None else ()
    return Values(float(R), grid.order, sizes, energy, alpha, None, ionisation, tuple(notices))


def weakest(deck: SturmianDeck) -> float:
    """Return the estimated ionisation energy of the weakest bound of the states that are wanted, hartree."""
    states = ((L, S, root, parity) for (L, S, parity), roots in sectors(deck).items() for root in roots)
    return automatic.weakest(Radial.of(deck).core_charge, states)


def _slowest(deck: SturmianDeck) -> float:
    """Return the energy, hartree, with which the slowest function of a deck decays: of the states, or of their response.

    At the frequency omega the function of the response decays like a state that omega less would ionise.
    """
    ionisation = weakest(deck)
    if not isinstance(deck.task, Response) or "polarisability" not in deck.task.observables:
        return ionisation
    return max(ionisation - max(deck.task.frequencies), min(ionisation, SLOWEST))


def is_outgoing(radial: Radial, energy: float) -> bool:
    """Return True if functions of this energy are outgoing waves."""
    basis = radial.basis
    if not isinstance(basis, Gsf):
        return False
    return energy > 0.0 if basis.boundary == "auto" else basis.boundary == "outgoing"


def generating_of(radial: Radial, values: Values) -> Generating | None:
    """Return the block of the generating potential with numbers in place of ``auto``; None for a grid basis."""
    if not isinstance(radial.basis, Gsf):
        return None
    block = radial.basis.generating
    if isinstance(block, SquareWell) and block.r0 == "auto":
        return block.model_copy(update={"r0": values.R})
    return block if values.alpha is None else block.model_copy(update={"alpha": values.alpha})


# ------------------------------------------------------------------------------------ grid and functions


def _breaks(radial: Radial, values: Values) -> list[float]:
    """Return radii where the generating potential is not smooth."""
    return [edge for edge in potentials.breaks(generating_of(radial, values)) if edge < values.R]


def radial_grid(radial: Radial, values: Values) -> RadialGrid:
    """Return the radial grid."""
    from qsim.sturmian.radial.grid import RadialGrid

    # Outgoing functions without a contour need u(R) itself, for the boundary condition u'/u.
    robin = radial.grid.ecs is None and values.energy is not None and is_outgoing(radial, values.energy)
    return RadialGrid(bounds_of(radial, values), values.order, keep_last=robin)


def bounds_of(radial: Radial, values: Values) -> NDArray[Any]:
    """Return the bounds of the elements, complex ones of a contour too, without the matrices of the grid."""
    from qsim.sturmian.radial import grid

    given: int | Sequence[float] | str = radial.grid.bounds or radial.grid.elements
    bounds: NDArray[Any] = grid.element_bounds(
        values.R,
        radial.system.Z,
        elements=None if isinstance(given, str) else given,
        breaks=_breaks(radial, values),
    )
    ecs = radial.grid.ecs
    return bounds if ecs is None else grid.contour_bounds(bounds, ecs.usual, ecs.reach)


def grid_size(radial: Radial, values: Values) -> int:
    """Return the number of functions of the grid."""
    return (bounds_of(radial, values).size - 1) * (values.order - 1) - 1


def one_body(radial: Radial, grid: RadialGrid) -> NDArray[Any]:
    """Return the one-body potential at the nodes, hartree, (n,)."""
    with np.errstate(all="ignore"):
        V = radial.potential(grid.r)
    _require_finite(V, grid, "system.potential")
    return V


def auxiliary(radial: Radial, grid: RadialGrid) -> tuple[NDArray[Any], float]:
    """Return the auxiliary potential U of the basis at the nodes, hartree, (n,), and its charge far away."""
    assert isinstance(radial.basis, Gsf)
    if radial.basis.auxiliary is not None:
        charge = radial.basis.auxiliary.charge
        return -charge / grid.r, charge
    potential = radial.potential
    return potential(grid.r), potential.charge


def generating_values(radial: Radial, values: Values, grid: RadialGrid) -> NDArray[Any]:
    """Return the generating potential v at the nodes, (n,)."""
    with np.errstate(all="ignore"):
        v = potentials.generating(generating_of(radial, values), grid)
    _require_finite(v, grid, "basis.generating")
    return v


def _require_finite(values: NDArray[Any], grid: RadialGrid, key: str) -> None:
    bad = ~(np.abs(values) < LARGEST)
    if bad.any():
        k = int(np.argmax(bad))
        raise InvalidInput(key, f"the potential is {values[k]:.3g} hartree at r = {grid.r[k].real:.4g} bohr")


def sturmians(radial: Radial, values: Values, grid: RadialGrid, l: int, count: int) -> Sturmians:
    """Return the Sturmian functions of an l.

    Raises
    ------
    InvalidInput
        If energy and generating potential make fewer independent functions than requested.
    """
    from qsim.sturmian.radial import sturmians as gsf

    assert values.energy is not None
    U, charge = auxiliary(radial, grid)
    v = generating_values(radial, values, grid)
    try:
        with np.errstate(all="ignore"):
            return gsf.sturmians(
                grid,
                l,
                U,
                values.energy,
                v,
                count,
                outgoing=is_outgoing(radial, values.energy),
                charge=charge,
            )
    except NumericsError as error:
        text = f"{error}; {error.hint}" if error.hint else str(error)
        raise InvalidInput(_key_of(str(error)), text) from error


def _key_of(text: str) -> str:
    """Return the key that a complaint about the functions is about."""
    if " are independent" in text or "do not fit" in text:
        return "basis.N"
    return "basis.generating" if text.startswith("the generating potential") else "basis.energy"


def first(functions: Sturmians, count: int) -> Sturmians:
    """Return the first functions of a longer list."""
    # Orthogonality and residual are maxima over the longer list, hence bounds.
    return replace(
        functions, beta=functions.beta[:count], c=functions.c[:, :count], rank=min(functions.rank, count)
    )

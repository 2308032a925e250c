"""What a run needs: sectors of total angular momentum, spin and parity, with their bases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.sturmian.deck.blocks import Gsf, as_list
from qsim.sturmian.deck.symmetry import pairs_of, sectors
from qsim.sturmian.radial import parameters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.radial.grid import RadialGrid
    from qsim.sturmian.radial.potentials import OneBody
    from qsim.sturmian.radial.sturmians import Orbitals, Sturmians

__all__ = ["Problem", "Sector"]


class Sector(NamedTuple):
    """One symmetry: L, S, parity (``even`` or ``odd`` la + lb), its pairs la <= lb, and the roots that are wanted of it."""

    L: int
    S: int
    parity: str
    pairs: tuple[tuple[int, int], ...]
    roots: tuple[int, ...]


@dataclass
class Problem:
    """Everything that a run needs.

    Attributes
    ----------
    deck : SturmianDeck
        As it was written.
    values : Values
        Its keys that may be ``auto`` or scanned, as numbers.
    grid : RadialGrid
    V : (n,) float64 or complex128
        One-body potential at the nodes, hartree.
    sectors : list of Sector
    notices : list of str
        What the deck left open and how it was settled.
    """

    deck: SturmianDeck
    device: Device
    values: parameters.Values
    grid: RadialGrid
    V: NDArray[Any]
    sectors: list[Sector]
    loaded: LoadedDeck[SturmianDeck]
    notices: list[str] = field(default_factory=list)
    _functions: dict[int, Sturmians] = field(default_factory=dict, repr=False)
    _orbitals: dict[int, Orbitals] = field(default_factory=dict, repr=False)

    # --------------------------------------------------------------------------------- settings

    @property
    def is_gsf(self) -> bool:
        """Whether the basis are Sturmian functions, not the grid itself."""
        return isinstance(self.deck.basis, Gsf)

    @property
    def basis_parameters(self) -> parameters.Values:
        """Energy, alpha, R and the others, ``auto`` resolved."""
        return self.values

    @property
    def energy(self) -> float | None:
        """Energy of the Sturmian functions, hartree; None for a grid basis."""
        return self.values.energy

    @property
    def alpha(self) -> float | None:
        """Inverse range of the generating potential; None if it has none."""
        return self.values.alpha

    @property
    def generating(self) -> Any:
        """The block of the generating potential with numbers in place of ``auto``; None for a grid basis."""
        return parameters.generating_of(self.deck, self.values)

    @property
    def Z(self) -> float:
        """Charge of the nucleus."""
        return float(self.deck.system.Z)

    @property
    def potential(self) -> OneBody:
        """One-body potential as a function of the radius."""
        from qsim.sturmian.radial.potentials import OneBody

        return OneBody(self.deck.system.potential, self.deck.system.Z)

    @property
    def tolerance(self) -> float:
        """Largest residual norm of a state, hartree."""
        return self.deck.solver.tolerance

    @property
    def max_iterations(self) -> int:
        """Steps of the eigensolver after which an unconverged state is an error."""
        return self.deck.solver.max_iterations

    @property
    def extrapolate(self) -> list[int]:
        """Values of l_max whose energies give the partial-wave limit; empty if that is not asked for."""
        return [] if self.deck.extrapolate is None else list(self.deck.extrapolate.l_max)

    @property
    def scan(self) -> dict[str, list[Any]]:
        """Keys and values of the convergence scans."""
        return {} if self.deck.scan is None else self.deck.scan.given()

    @property
    def ls(self) -> list[int]:
        """Orbital momenta that the run needs functions of, ascending."""
        task = self.deck.task
        if task.type == "basis" and task.l is not None:
            return sorted(as_list(task.l))
        return sorted({l for sector in self.sectors for pair in sector.pairs for l in pair})

    # -------------------------------------------------------------------------------- functions

    def size(self, l: int) -> int:
        """Return the number of radial functions of an l."""
        return self.values.size(l, self.grid.size)

    def functions(self, l: int, N: int | None = None) -> Sturmians:
        """Return the Sturmian functions of an l, computed once; with N the first N of them.

        Raises
        ------
        DeckError
            If energy, N or generating potential do not make so many independent functions.
        """
        count = self.size(l) if N is None else N
        known = self._functions.get(l)
        # on a contour the functions that are chosen depend on their number
        if known is None or known.beta.size < count or (self.grid.is_complex and known.beta.size != count):
            known = self._sturmians(l, count)
            self._functions[l] = known
        return known if known.beta.size == count else parameters.first(known, count)

    def _sturmians(self, l: int, count: int) -> Sturmians:
        try:
            return parameters.sturmians(self.deck, self.values, self.grid, l, count)
        except InvalidInput as error:
            self.loaded.raise_for([Finding(error.key, str(error))])
            raise

    def orbitals(self, l: int) -> Orbitals:
        """Return the orthonormal one-electron functions of an l that span the basis, computed once."""
        from qsim.sturmian.radial import sturmians as gsf

        if l not in self._orbitals:
            c = self.functions(l).c if self.is_gsf else None
            self._orbitals[l] = gsf.orbitals(self.grid, l, self.V, c)
        return self._orbitals[l]

    # ------------------------------------------------------------------------------------ scans

    def with_(self, **changes: Any) -> Problem:
        """Return the problem with other values of N, l_max, R, alpha, energy or order; what can be shared is.

        Everything else stays, also where the deck said ``auto``.
        """
        values = self.values.changed(**changes)
        if not set(changes) - {"l_max"}:
            return replace(self, values=values, sectors=_sectors(self.deck, values.l_max))
        made = _problem(self.deck, self.device, values, self.loaded)
        if not set(changes) - {"l_max", "N"}:
            made.grid, made.V = self.grid, self.V
            if "N" in changes:
                made._functions = dict(self._functions)  # longer lists hold the shorter ones
        return made


def _sectors(deck: SturmianDeck, l_max: int | None) -> list[Sector]:
    return [
        Sector(L, S, parity, tuple(pairs_of(deck, L, S, parity, l_max)), tuple(sorted(roots)))
        for (L, S, parity), roots in sectors(deck).items()
    ]


def _problem(
    deck: SturmianDeck, device: Device, values: parameters.Values, loaded: LoadedDeck[SturmianDeck]
) -> Problem:
    grid = parameters.radial_grid(deck, values)
    V = parameters.one_body(deck, grid)
    return Problem(deck, device, values, grid, V, _sectors(deck, values.l_max), loaded)

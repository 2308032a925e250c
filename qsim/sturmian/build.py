"""From the deck to a problem: radial grid, potentials, parameters of the basis, symmetries, functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from qsim.core.deck import Finding
from qsim.core.device import Memory
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.stages import Plan
from qsim.sturmian import checks, limits, parameters
from qsim.sturmian.angular import exchange_sign
from qsim.sturmian.blocks import FeDvr, Gsf, as_list

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.deck import LoadedDeck
    from qsim.core.device import Device
    from qsim.core.parallel import Comm
    from qsim.sturmian.deck import SturmianDeck
    from qsim.sturmian.grid import RadialGrid
    from qsim.sturmian.gsf import Orbitals, Sturmians
    from qsim.sturmian.scattering.problem import Problem as Collision

PLAN_POINTS = 500  # radial functions up to which the plan computes a basis, to find mistakes early
VECTORS = 40  # of a subspace of the eigensolver


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
        from qsim.sturmian import gsf

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


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory, and check the physics; nothing large is allocated."""
    deck = loaded.deck
    if deck.task.type == "scatter":
        from qsim.sturmian.scattering.problem import plan as collision

        return collision(loaded)
    try:
        values = parameters.resolve(deck)
        points = parameters.grid_size(deck, values)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    sectors = _sectors(deck, values.l_max)
    sizes, memory = _estimate(deck, values, points, sectors)
    findings = list(limits.of_numbers(deck, values, points))
    if not any(finding.severity == "error" for finding in findings) and points <= PLAN_POINTS:
        findings += _trial(deck, values, sectors)
    return Plan(memory=memory, sizes=sizes, steps=0, findings=findings)


def _trial(deck: SturmianDeck, values: parameters.Values, sectors: list[Sector]) -> list[Finding]:
    """Return what the functions of the lowest and of the highest l show."""
    ls = sorted({l for sector in sectors for pair in sector.pairs for l in pair})
    if deck.task.type == "basis" and deck.task.l is not None:
        ls = sorted(as_list(deck.task.l))
    tried = sorted({ls[0], ls[-1]})
    try:
        _try(deck, values, tried)
    except InvalidInput as error:
        return [Finding(error.key, str(error))]
    if deck.task.type != "bound" or deck.scan is None or not isinstance(deck.basis, Gsf):
        return []
    findings = []
    for key, scanned in deck.scan.given().items():
        for k, value in enumerate(scanned):
            if key == "l_max" or (key == "N" and value < max(scanned)):
                continue  # the longest list holds the others
            changed = values.changed(**{key: value})
            if parameters.grid_size(deck, changed) > PLAN_POINTS:
                continue
            try:
                _try(deck, changed, tried)
            except InvalidInput as error:
                findings.append(Finding(f"scan.{key}.{k}", str(error)))
    return findings


def _try(deck: SturmianDeck, values: parameters.Values, ls: list[int]) -> None:
    """Compute grid, potential and functions, which raises `InvalidInput` if they cannot be had."""
    grid = parameters.radial_grid(deck, values)
    parameters.one_body(deck, grid)
    if isinstance(deck.basis, Gsf):
        for l in ls:
            parameters.sturmians(deck, values, grid, l, values.size(l, grid.size))


def _sectors(deck: SturmianDeck, l_max: int | None) -> list[Sector]:
    return [
        Sector(L, S, parity, tuple(checks.pairs_of(deck, L, S, parity, l_max)), tuple(sorted(roots)))
        for (L, S, parity), roots in checks.sectors(deck).items()
    ]


def unknowns(values: parameters.Values, sector: Sector, points: int) -> int:
    """Return the number of coefficients of a state that exchange symmetry leaves free."""
    total = 0
    for la, lb in sector.pairs:
        Na, Nb = values.size(la, points), values.size(lb, points)
        same = Na * (Na + exchange_sign(la, lb, sector.L, sector.S)) // 2
        total += same if la == lb else Na * Nb
    return total


def _estimate(
    deck: SturmianDeck, values: parameters.Values, points: int, sectors: list[Sector]
) -> tuple[dict[str, int | float | str], Memory]:
    item = 16 if deck.grid.ecs is not None else 8
    top = max((lb for sector in sectors for _, lb in sector.pairs), default=0)
    pairs = max((len(sector.pairs) for sector in sectors), default=0)
    size = max((unknowns(values, sector, points) for sector in sectors), default=0)
    biggest = values.size(0, points)
    sizes: dict[str, int | float | str] = {"grid points": points, "R (bohr)": values.R}
    if values.energy is not None:
        sizes |= {"functions of l = 0": biggest, "energy (hartree)": values.energy}
    if values.alpha is not None:
        sizes["alpha (1/bohr)"] = values.alpha
    one_body = (top + 1) * points * (points + 2 * min(biggest, points)) * item
    parts = {"one-electron matrices": one_body}
    kernel = points * points * item
    if deck.task.type == "bound":
        flop = pairs * 4.0 * points * biggest * (points + biggest) + 4.0 * pairs**2 * points**2
        if isinstance(deck.basis, FeDvr):
            flop = pairs * 4.0 * float(points) ** 3 + 4.0 * pairs**2 * float(points) ** 2
        sizes |= {"pairs": pairs, "unknowns": size, "states": sum(len(s.roots) for s in sectors)}
        if deck.solver.type == "dense":
            parts |= {
                "H, S and the eigenvectors": 4 * size * size * item,
                "repulsion integrals": 2 * biggest**4 * item,
            }
        else:
            sizes["flop of H x"] = flop
            roots = max(max(s.roots) + 1 for s in sectors)
            extent = max([top, *(deck.extrapolate.l_max if deck.extrapolate else [])])
            more = 1 + (extent > top) * (extent - top) / max(pairs, 1)
            parts |= {
                "subspace": int(more * size) * min(VECTORS + 4 * roots, max(size, 1)) * item,
                "repulsion kernels": (2 * extent + 1) * kernel,
                "functions on the product grid": int(3 * more * pairs + 1) * kernel,
            }
    elif deck.task.type == "integrals":
        most = max([biggest, *(deck.task.N or [])])
        parts |= {
            "integrals": 2 * most**4 * item,
            "pair densities": 3 * most * most * points * item,
            "repulsion kernel": kernel,
        }
        sizes["integrals"] = most**4
    keys = {"bound": "channels.l_max" if pairs > biggest else "basis.N", "integrals": "basis.N"}
    reduce = keys.get(deck.task.type, "grid.R")
    if isinstance(deck.basis, FeDvr) or points > 20 * max(biggest, 1):
        reduce = "grid.R"
    return sizes, Memory(host=one_body, device=sum(parts.values()) - one_body, parts=parts, reduce=reduce)


# --------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[SturmianDeck], device: Device, comm: Comm) -> Problem | Collision:
    """Set up grid, potential and symmetries; the functions are computed when they are needed."""
    if loaded.deck.task.type == "scatter":
        from qsim.sturmian.scattering.problem import build as collision

        return collision(loaded, device)
    try:
        values = parameters.resolve(loaded.deck)
        problem = _problem(loaded.deck, device, values, loaded)
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        raise NumericsError(str(error)) from error  # raise_for has raised already
    problem.notices += values.notices
    return problem


def _problem(
    deck: SturmianDeck, device: Device, values: parameters.Values, loaded: LoadedDeck[SturmianDeck]
) -> Problem:
    grid = parameters.radial_grid(deck, values)
    V = parameters.one_body(deck, grid)
    return Problem(deck, device, values, grid, V, _sectors(deck, values.l_max), loaded)

"""Bound states: all symmetries of a deck, their observables and errors, convergence scans, the limit of all partial waves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian import davidson, gsf
from qsim.sturmian.extrapolation import partial_wave_limit
from qsim.sturmian.observables import observe, radial_defect
from qsim.sturmian.operator import TwoElectron

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.progress import Monitor
    from qsim.sturmian.build import Problem, Sector
    from qsim.sturmian.gsf import Sturmians

__all__ = ["BoundResult", "Scan", "State", "run_bound"]

MAP_POINTS = 400  # largest grid whose (r1, r2) map is kept
DEFECT_WORK = 5e10  # flops of the error estimate on the whole grid from which it is left out
SYMMETRY = 1e-8  # largest norm of the part of a state with the wrong exchange symmetry
ROUNDING = 1e-14  # relative to kinetic and potential energy, of an energy
SATELLITES = 2  # smaller l_max computed besides, which tell how far the partial waves have converged


@dataclass
class State:
    """One state and what was found about it.

    Attributes
    ----------
    L, S, parity, root
        Symmetry, and the number in it.
    energy : float
        Hartree, for the pairs of angular momenta of the deck.
    error_solver : float
        Bound of the error of the eigensolver, residual^2 / gap, and what rounding leaves.
    error_radial : float
        How far the energy lies above that of the whole radial grid, estimated; 0 for that grid, NaN where it was not computed.
    error_angular : float
        How far it lies above the limit of all pairs, estimated; NaN where it was not computed.
    threshold : float
        Energy above which an electron leaves: the lowest one-electron level that the symmetry leaves behind, and the one-body
        potential at R where that is positive.
    residual : float
    iterations, unknowns : int
    moments : dict of float
        See :class:`qsim.sturmian.observables.Observed`.
    density : (n,) float64
    map : (n, n) float64 or None
    weights : (P,) float64
    pairs : (P, 2) int
    """

    L: int
    S: int
    parity: str
    root: int
    energy: float
    error_solver: float
    error_radial: float
    error_angular: float
    threshold: float
    residual: float
    iterations: int
    unknowns: int
    moments: dict[str, float]
    density: NDArray[np.float64]
    map: NDArray[np.float64] | None
    weights: NDArray[np.float64]
    pairs: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Distance to the limit of the radial basis for these pairs, hartree."""
        return self.error_solver + (0.0 if np.isnan(self.error_radial) else self.error_radial)

    @property
    def bound(self) -> bool:
        """Whether the state lies below the threshold of its symmetry."""
        return self.energy < self.threshold


@dataclass(frozen=True)
class Scan:
    """Energies against one parameter: ``values`` (k,), ``energies`` (k, states), ``unknowns`` (k,)."""

    values: NDArray[np.float64]
    energies: NDArray[np.float64]
    unknowns: NDArray[np.int64]


@dataclass
class BoundResult:
    """What a run leaves.

    Attributes
    ----------
    states : list of State
        In the order of the deck.
    bases : dict of Sturmians
        For each l; empty if the basis is the grid.
    convergence : dict of Scan
        The scans of the deck by key.
    partial : Scan
        Energies against l_max: those of the extrapolation, or the few below l_max that give ``error_angular``; may be empty.
    limits : list of (float, float)
        Limit of all partial waves and its error, of each state; empty unless the deck asks for it.
    solver_iterations, products, unknowns : int
        Of the states of the deck, without scans.
    flops : float
        Of a product H x.
    """

    problem: Problem
    states: list[State]
    bases: dict[int, Sturmians]
    convergence: dict[str, Scan]
    partial: Scan
    limits: list[tuple[float, float]]
    solver_iterations: int
    products: int
    unknowns: int
    flops: float
    histories: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def map_r(self) -> NDArray[np.float64]:
        """Radii of the maps of the states, bohr."""
        return np.asarray(self.problem.grid.r, float)


def run_bound(problem: Problem, monitor: Monitor) -> BoundResult:
    """Find the states of the deck, then those of all scans.

    Raises
    ------
    NumericsError
        If a search does not converge, or the basis has fewer functions of a symmetry than roots are asked for.
    """
    return _Run(problem, monitor).run()


@dataclass(frozen=True)
class _Point:
    """One set of parameters: what changes, and which l_max it has if that is what changes."""

    key: str
    value: float | int
    changes: Mapping[str, Any]


class _Run:
    """The states and all points around them; what is finished is in ``done``, which a checkpoint holds."""

    def __init__(self, problem: Problem, monitor: Monitor) -> None:
        self.problem, self.monitor = problem, monitor
        self.order = _order(problem)
        self.points = _points(problem)
        self.planes: dict[int, tuple[Any, dict[int, NDArray[Any]]]] = {}
        self.done: dict[str, Any] = {"states": [], "info": {}, "energies": [], "unknowns": []}
        self.search: Mapping[str, Any] | None = None
        if monitor.restored is not None:
            self.done = dict(monitor.restored["done"])
            self.search = monitor.restored["search"] or None
        self.count = len(self.done["energies"])

    def run(self) -> BoundResult:
        monitor = self.monitor
        monitor.begin(1 + len(self.points), "solutions", "bound states", done=self.count or None)
        if not self.done["states"]:
            with monitor.stage("states"):
                self._main()
            monitor.step(1, self._state)
        with monitor.stage("convergence"):
            for number in range(len(self.done["energies"]), len(self.points)):
                self._scan_point(self.points[number])
                monitor.step(2 + number, self._state)
        monitor.end()
        return self._result()

    def _state(self, search: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {"done": dict(self.done), "search": dict(search or {})}

    # ------------------------------------------------------------------------------- one solution

    def _operator(self, problem: Problem, sector: Sector) -> TwoElectron:
        orbitals = {l: problem.orbitals(l) for pair in sector.pairs for l in pair}
        return TwoElectron(
            problem.device,
            problem.grid,
            orbitals,
            sector.L,
            sector.S,
            sector.pairs,
            self._kernels(problem),
        )

    def _kernels(self, problem: Problem) -> dict[int, NDArray[Any]]:
        """Poisson kernels of a grid, kept for all that share it."""
        return self.planes.setdefault(id(problem.grid), (problem.grid, {}))[1]

    def _solve(
        self, problem: Problem, sector: Sector, name: str
    ) -> tuple[TwoElectron | None, davidson.Eigenpairs]:
        roots = max(sector.roots) + 1
        if problem.deck.solver.type == "dense":
            return self._dense(problem, sector, roots)
        operator = self._operator(problem, sector)
        restored = None
        if self.search is not None and self.search["name"] == name:  # what was interrupted
            restored, self.search = self.search, None

        def observe_search(
            iteration: int, value: float, residual: float, state: Callable[[], dict[str, Any]]
        ) -> None:
            self.monitor.poll(lambda: self._state({"name": name, **state()}))

        found = davidson.lowest(
            operator,
            roots,
            tolerance=problem.tolerance,
            max_iterations=problem.max_iterations,
            restored=restored,
            observe=observe_search,
        )
        return operator, found

    def _dense(self, problem: Problem, sector: Sector, roots: int) -> tuple[TwoElectron, davidson.Eigenpairs]:
        """Take the paper's route: matrices of the non-orthogonal Sturmians, LAPACK or cuSOLVER."""
        from qsim.sturmian.dense import solve_sector

        operator = self._operator(problem, sector)
        return operator, solve_sector(problem, sector, roots, operator)

    # ---------------------------------------------------------------------------------- the states

    def _main(self) -> None:
        problem = self.problem
        states: dict[tuple[Any, ...], State] = {}
        iterations = products = unknowns = 0
        flops, histories = 0.0, []
        for number, sector in enumerate(problem.sectors):
            operator, found = self._solve(problem, sector, f"main {number}")
            assert operator is not None
            iterations, products = iterations + found.iterations, products + found.products
            unknowns, flops = max(unknowns, operator.size), max(flops, operator.flops)
            histories.append(found.history)
            for root in sector.roots:
                states[sector.L, sector.S, sector.parity, root] = self._examine(operator, sector, found, root)
        self.done["states"] = [asdict(states[key]) for key in self.order]
        self.done["info"] = {
            "iterations": iterations,
            "products": products,
            "unknowns": unknowns,
            "flops": flops,
            "histories": histories,
        }
        for key, state in states.items():
            if (lost := state.moments["symmetry_error"]) > SYMMETRY:
                raise NumericsError(f"state {key}: the exchange symmetry is lost by {lost:.1e}")

    def _examine(self, operator: TwoElectron, sector: Sector, found: davidson.Eigenpairs, root: int) -> State:
        problem, x = self.problem, found.vectors[root]
        seen = observe(operator, x, problem.V)
        energy = float(found.values[root])
        return State(
            L=sector.L,
            S=sector.S,
            parity=sector.parity,
            root=root,
            energy=energy,
            error_solver=float(found.errors[root])
            + ROUNDING * (abs(seen.moments["kinetic"]) + abs(seen.moments["nuclear"])),
            error_radial=self._radial_error(operator, x, energy),
            error_angular=float("nan"),
            threshold=min(float(operator.orbitals[l].e[0]) for pair in sector.pairs for l in pair)
            + max(float(problem.V[-1]), 0.0),
            residual=float(found.residuals[root]),
            iterations=found.iterations,
            unknowns=operator.size,
            moments=seen.moments,
            density=seen.density,
            map=seen.map if seen.map.shape[0] <= MAP_POINTS else None,
            weights=seen.weights,
            pairs=np.array(sector.pairs, np.int64),
        )

    def _radial_error(self, operator: TwoElectron, x: Any, energy: float) -> float:
        problem, n = self.problem, operator.points
        if not problem.is_gsf:
            return 0.0
        if 8.0 * len(operator.pairs) * float(n) ** 3 > DEFECT_WORK:
            return float("nan")
        whole = {l: gsf.orbitals(problem.grid, l, problem.V, None) for l in operator.sizes}
        return radial_defect(operator, x, energy, whole, self._kernels(problem))

    # --------------------------------------------------------------------------------------- scans

    def _scan_point(self, point: _Point) -> None:
        problem = self.problem.with_(**point.changes)
        if point.key == "partial" and problem.sectors == self.problem.sectors:  # the deck itself
            self.done["energies"] = [
                *self.done["energies"],
                np.array([s["energy"] for s in self.done["states"]]),
            ]
            self.done["unknowns"] = [*self.done["unknowns"], int(self.done["info"]["unknowns"])]
            return
        energies: dict[tuple[Any, ...], float] = {}
        unknowns = 0
        for number, sector in enumerate(problem.sectors):
            name = f"{point.key} {point.value} {number}"
            if not sector.pairs:  # an l_max too small for this L
                energies |= {(sector.L, sector.S, sector.parity, root): np.nan for root in sector.roots}
                continue
            operator, found = self._solve(problem, sector, name)
            assert operator is not None
            unknowns = max(unknowns, operator.size)
            for root in sector.roots:
                energies[sector.L, sector.S, sector.parity, root] = float(found.values[root])
        self.done["energies"] = [*self.done["energies"], np.array([energies[key] for key in self.order])]
        self.done["unknowns"] = [*self.done["unknowns"], unknowns]

    # -------------------------------------------------------------------------------------- result

    def _result(self) -> BoundResult:
        problem, info = self.problem, self.done["info"]
        states = [State(**_restored(entry)) for entry in self.done["states"]]
        scans = {
            key: self._scan([n for n, point in enumerate(self.points) if point.key == key])
            for key in dict.fromkeys(point.key for point in self.points)
        }
        partial = scans.pop("partial", _EMPTY)
        limits = []
        if partial.values.size > SATELLITES:
            fitted = [
                partial_wave_limit(
                    [int(l) for l in partial.values],
                    partial.energies[:, k].tolist(),
                    L=state.L,
                    S=state.S,
                    parity=state.parity,
                    uncertainty=state.error,
                )
                for k, state in enumerate(states)
            ]
            if problem.extrapolate:
                limits = [(fit[0], fit[1]) for fit in fitted]
            for state, fit in zip(states, fitted, strict=True):
                state.error_angular = max(state.energy - fit[0], fit[1])
        ls = sorted({int(l) for state in states for l in state.pairs.ravel()})
        return BoundResult(
            problem=problem,
            states=states,
            bases={l: problem.functions(l) for l in ls} if problem.is_gsf else {},
            convergence=scans,
            partial=partial,
            limits=limits,
            solver_iterations=int(info["iterations"]),
            products=int(info["products"]),
            unknowns=int(info["unknowns"]),
            flops=float(info["flops"]),
            histories=[np.asarray(history) for history in info["histories"]],
        )

    def _scan(self, numbers: list[int]) -> Scan:
        return Scan(
            np.array([self.points[n].value for n in numbers], float),
            np.array([self.done["energies"][n] for n in numbers]),
            np.array([self.done["unknowns"][n] for n in numbers], np.int64),
        )


_EMPTY = Scan(np.zeros(0), np.zeros((0, 0)), np.zeros(0, np.int64))


def _order(problem: Problem) -> list[tuple[int, int, str, int]]:
    """Return (L, S, parity, root) of all states in the order of the deck."""
    from qsim.sturmian.checks import parity_of

    if problem.deck.states is not None:
        return [(s.L, s.S, parity_of(s.L, s.parity), s.root) for s in problem.deck.states]
    return [(s.L, s.S, s.parity, root) for s in problem.sectors for root in s.roots]


def _points(problem: Problem) -> list[_Point]:
    """Return what is to be solved besides the deck itself: partial waves, then the scans."""
    points = [_Point("partial", l, {"l_max": l}) for l in problem.extrapolate]
    if not points and problem.deck.channels.pairs is None:
        tops = [max(max(pair) for pair in sector.pairs) for sector in problem.sectors]
        lows = [min(max(pair) for pair in sector.pairs) for sector in problem.sectors]
        top, low = max(tops), max(lows)
        if len(set(tops)) == 1 and top - SATELLITES >= low:
            points = [_Point("partial", l, {"l_max": l}) for l in range(top - SATELLITES, top + 1)]
    for key, values in problem.scan.items():
        points += [_Point(key, value, {key: value}) for value in values]
    return points


def _restored(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in entry.items()}

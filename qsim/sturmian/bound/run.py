"""Bound states: all symmetries of a deck, their observables and errors, convergence scans, the limit of all partial waves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.parallel import SerialComm
from qsim.core.errors import NumericsError
from qsim.sturmian.bound.dense import solve_sector
from qsim.sturmian.bound.moments import Waves, moment_errors, unknown_moments
from qsim.sturmian.bound.observables import MOMENTS, observe
from qsim.sturmian.bound.points import SATELLITES, Point, basis_for, doubted, points_of, satellites
from qsim.sturmian.bound.result import BoundResult, Scan
from qsim.sturmian.bound.states import State
from qsim.sturmian.bound.warnings import radius_needed, require_contained, wall_shift
from qsim.sturmian.deck.blocks import AUTO
from qsim.sturmian.two_electron import davidson, reference
from qsim.sturmian.two_electron.extrapolation import partial_wave_limit
from qsim.sturmian.two_electron.hamiltonian import TwoElectron

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.parallel import Comm
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.problem import Problem, Sector
    from qsim.sturmian.radial.grid import RadialGrid

__all__ = ["run"]

# Largest grid whose (r1, r2) map is kept.
MAP_POINTS = 400
# Largest norm of the part of a state with the wrong exchange symmetry.
SYMMETRY = 1e-8
# Rounding of an energy relative to kinetic and potential energy.
ROUNDING = 1e-14
# Factor of the limit's own error, which three waves underestimate by up to 1.2 (H- to Ne8+).
FEW_WAVES = 1.5
# Relative error of what further partial waves lower the energy by, where that only tells an error.
ROUGH = 0.02
# Number of times that an automatic box may grow.
ENLARGEMENTS = 4
# Largest factor by which its radius grows at once.
LARGEST_GROWTH = 3.0


def run(problem: Problem, monitor: Monitor) -> BoundResult:
    """Find the states of the deck, then the states of all scans.

    Raises
    ------
    NumericsError
        If a search does not converge, the basis has fewer functions of a symmetry than roots are requested, or the box cuts off
        the lowest state of a symmetry.
    """
    result = _Run(problem, monitor).run()
    for text in require_contained(result, monitor.judged):
        monitor.warn(text)
    return result


class _Run:
    """The states and all points around them; what is finished is in ``done``, which a checkpoint holds."""

    def __init__(self, problem: Problem, monitor: Monitor) -> None:
        self.problem, self.monitor = problem, monitor
        self.comm: Comm = monitor.comm
        self.order = problem.order
        self.points = points_of(problem)
        self.planes: dict[int, tuple[Any, dict[int, NDArray[Any]]]] = {}
        self.fine: tuple[RadialGrid, Callable[[], RadialGrid], dict[int, NDArray[Any]]] | None = None
        self.done: dict[str, Any] = {"states": [], "info": {}, "radial": {}}
        self.done |= {"energies": [], "unknowns": [], "moments": []}
        self.smaller: dict[tuple[int, int, str], tuple[Sequence[tuple[int, int]], davidson.Eigenpairs]] = {}
        self.search: Mapping[str, Any] | None = None
        if monitor.restored is not None:
            self.done = dict(monitor.restored["done"])
            # checkpoints of earlier versions know no moments of partial waves
            self.done.setdefault("moments", [unknown_moments(self.order) for _ in self.done["energies"]])
            self.search = monitor.restored["search"] or None
            for entry in monitor.restored.get("smaller", ()):
                self._keep(entry)
        self.count = len(self.done["energies"])
        if grown := self.done.get("grown"):
            self.problem = problem.with_(**grown)

    def run(self) -> BoundResult:
        """Find the states, then all points around them, from where a restored run stopped; return the result."""
        monitor = self.monitor
        monitor.begin(1 + len(self.points), "solutions", "bound states", done=self.count or None)
        if not self.done["states"]:
            with monitor.stage("states"):
                self._states()
            monitor.step(1, self._state)
        comm = monitor.comm
        with monitor.stage("convergence"):
            # Every rank solves one point by itself, then all gather: a checkpoint holds whole rows of points.
            for start in range(len(self.done["energies"]), len(self.points), comm.size):
                with monitor.alone(), self._apart():
                    if start + comm.rank < len(self.points):
                        self._scan_point(self.points[start + comm.rank])
                self._gather(start)
                monitor.step(1 + len(self.done["energies"]), self._state)
        monitor.end()
        return self._result()

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Let this process make its points by itself in the block."""
        self.comm = SerialComm()
        try:
            yield
        finally:
            self.comm = self.monitor.comm

    def _gather(self, start: int) -> None:
        """Gather the points that the ranks have solved, in their order; a collective call."""
        own = {name: self.done[name][start:] for name in ("energies", "unknowns", "moments")}
        parts = self.monitor.comm.allgather((own, self.done.get("radial", {})))
        for name in own:
            solved = [entry for part, _ in parts for entry in part[name]]
            self.done[name] = [*self.done[name][:start], *solved]
        self.done["radial"] = {key: value for _, radial in parts for key, value in radial.items()}

    def _state(self, search: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return {"done": dict(self.done), "search": dict(search or {}), "smaller": self._kept()}

    def _kept(self) -> list[dict[str, Any]]:
        """Return the deck's own states as a checkpoint holds them, if rough solutions with more pairs begin from them."""
        if not any(point.key == "partial" for point in self.points[len(self.done["energies"]) :]):
            return []
        host = self.problem.device.to_host
        return [
            {"key": key, "pairs": list(pairs), **vars(eigenpairs), "vectors": host(eigenpairs.vectors)}
            for key, (pairs, eigenpairs) in self.smaller.items()
        ]

    def _keep(self, entry: Mapping[str, Any]) -> None:
        """Restore one entry of `_kept`."""
        content = {name: value for name, value in entry.items() if name not in ("key", "pairs")}
        content["vectors"] = self.problem.device.asarray(content["vectors"])
        L, S, parity = entry["key"]
        pairs = [(int(a), int(b)) for a, b in entry["pairs"]]
        self.smaller[int(L), int(S), str(parity)] = (pairs, davidson.Eigenpairs(**content))

    # ------------------------------------------------------------------------------- one solution

    def _operator(self, problem: Problem, sector: Sector) -> TwoElectron:
        ls = sorted({l for pair in sector.pairs for l in pair})
        problem.make_orbitals(ls, self.comm)
        orbitals = {l: problem.orbitals(l) for l in ls}
        return TwoElectron(
            problem.device,
            problem.grid,
            orbitals,
            sector.L,
            sector.S,
            sector.pairs,
            self._kernels(problem),
            self.comm,
        )

    def _kernels(self, problem: Problem) -> dict[int, NDArray[Any]]:
        """Poisson kernels of a grid, kept for all that share it."""
        return self.planes.setdefault(id(problem.grid), (problem.grid, {}))[1]

    def _solve(self, problem: Problem, sector: Sector, name: str) -> tuple[TwoElectron, davidson.Eigenpairs]:
        """Return the Hamiltonian of a sector and its lowest states, from where an interrupted search of that name stopped."""
        roots = max(sector.roots) + 1
        if problem.solver.type == "dense":
            return self._dense(problem, sector, roots)
        operator = self._operator(problem, sector)
        restored = None
        # what was interrupted
        if self.search is not None and self.search["name"] == name:
            restored, self.search = self.search, None

        def observe_search(
            iteration: int, value: float, residual: float, state: Callable[[], dict[str, Any]]
        ) -> None:
            self.monitor.poll(lambda: self._state({"name": name, **state()}))

        eigenpairs = davidson.lowest(
            operator,
            roots,
            tolerance=problem.solver.tolerance,
            max_iterations=problem.solver.max_iterations,
            restored=restored,
            observe=observe_search,
        )
        return operator, eigenpairs

    def _dense(self, problem: Problem, sector: Sector, roots: int) -> tuple[TwoElectron, davidson.Eigenpairs]:
        """Take the paper's route: matrices of the non-orthogonal Sturmians, LAPACK or cuSOLVER."""
        operator = self._operator(problem, sector)
        return operator, solve_sector(problem, sector, roots, operator, self.comm)

    # ---------------------------------------------------------------------------------- the states

    def _states(self) -> None:
        """Find the states of the deck, again in a larger box where an automatic one does not hold them."""
        for _ in range(ENLARGEMENTS):
            states = self._main()
            grown = self.monitor.judged(
                "whether the box holds the states", partial(self._larger, states), None
            )
            if grown is None:
                return
            self.done |= {"states": [], "info": {}, "grown": grown}
            self.problem = self.problem.with_(**grown)
            self.monitor.note(
                f"grid.R: {grown['R']:.6g} bohr, for the state found reaches further than estimated"
            )
        self._main()

    def _larger(self, states: list[State]) -> dict[str, Any] | None:
        """Return the parameters of a larger box that the lowest states need; None if they need none or the deck gives R."""
        problem = self.problem
        if problem.radial.grid.R != AUTO or problem.radial.grid.bounds is not None:
            return None
        # only the lowest state of a symmetry decides: excited ones may be wider than any box
        lowest: dict[tuple[int, int, str], State] = {}
        for state in sorted(states, key=lambda state: state.root):
            lowest.setdefault((state.L, state.S, state.parity), state)
        needed = [R for state in lowest.values() if (R := radius_needed(problem, state)) is not None]
        if not needed:
            return None
        # A basis that follows from the ionisation energy is made anew for the one that was
        # found.
        weakest = min(state.threshold - state.energy for state in states if state.bound)
        return {
            "R": min(max(needed), LARGEST_GROWTH * problem.values.R),
            **basis_for(problem, weakest),
        }

    def _main(self) -> list[State]:
        """Find, examine and keep the states of all sectors; return them sector by sector.

        Raises
        ------
        NumericsError
            If the exchange symmetry of a state is lost.
        """
        problem = self.problem
        states: dict[tuple[Any, ...], State] = {}
        iterations = products = unknowns = 0
        flops, histories = 0.0, []
        for number, sector in enumerate(problem.sectors):
            operator, eigenpairs = self._solve(problem, sector, f"main {number}")
            iterations, products = iterations + eigenpairs.iterations, products + eigenpairs.products
            unknowns, flops = max(unknowns, operator.size), max(flops, operator.flops)
            histories.append(eigenpairs.history)
            self.smaller[sector.L, sector.S, sector.parity] = (sector.pairs, eigenpairs)
            # relaxed on the finer grid together, as the states of a sector mix
            finer = self._reference(operator, sector, eigenpairs)
            for root in sector.roots:
                state = self._examine(operator, sector, eigenpairs, root)
                _compare(state, finer)
                self._observe_finer(state, finer)
                states[sector.L, sector.S, sector.parity, root] = state
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
        return list(states.values())

    def _examine(
        self, operator: TwoElectron, sector: Sector, eigenpairs: davidson.Eigenpairs, root: int
    ) -> State:
        """Return a state of a sector with its expectation values and the errors that it shows by itself: solver and box."""
        problem, x = self.problem, eigenpairs.vectors[root]
        seen = observe(operator, x, problem.V)
        energy = float(eigenpairs.values[root])
        level = min(float(operator.orbitals[l].e[0]) for pair in sector.pairs for l in pair)
        # one electron in the lowest level, the other at rest at R, where a confining potential is still positive
        threshold = level + max(float(problem.V[-1]), 0.0)
        # Errors that need other solutions are NaN here: `_compare` sets the radial ones,
        # `_result` the angular one.
        return State(
            L=sector.L,
            S=sector.S,
            parity=sector.parity,
            root=root,
            energy=energy,
            error_solver=float(eigenpairs.errors[root])
            + ROUNDING * (abs(seen.moments["kinetic"]) + abs(seen.moments["nuclear"])),
            error_radial=float("nan"),
            error_box=self.monitor.judged(
                "the error of the box",
                lambda: wall_shift(seen.wall, threshold - energy, float(problem.grid.R)),
                float("nan"),
            ),
            error_angular=float("nan"),
            error_threshold=float("nan"),
            one_electron=level,
            threshold=threshold,
            residual=float(eigenpairs.residuals[root]),
            iterations=eigenpairs.iterations,
            unknowns=operator.size,
            moments=seen.moments,
            wall=seen.wall,
            density=seen.density,
            map=seen.map if seen.map.shape[0] <= MAP_POINTS else None,
            weights=seen.weights,
            pairs=np.array(sector.pairs, np.int64),
            # both electrons, first order
            error_table=2.0
            * float((seen.density * problem.grid.w) @ problem.potential.unsure(problem.grid.r)),
        )

    def _reference(
        self, operator: TwoElectron, sector: Sector, eigenpairs: davidson.Eigenpairs
    ) -> reference.Reference | None:
        """Return the states of a sector on the finer grid, None where that is too much work."""
        problem = self.problem
        # The finer grid and its kernels are shared by the sectors of one grid, and made when
        # the first of them needs them.
        if self.fine is None or self.fine[0] is not problem.grid:
            self.fine = (problem.grid, cache(lambda: reference.finer(problem.grid)), {})
        _, fine, planes = self.fine

        def relaxed() -> reference.Reference | None:
            return reference.relax(
                operator, eigenpairs, problem.potential, planes=planes, fine=fine, comm=self.comm
            )

        return self.monitor.judged("what functions and grid leave out", relaxed, None)

    def _observe_finer(self, state: State, finer: reference.Reference | None) -> None:
        """Keep the expectation values of a state on the finer grid, where it was found there."""
        if finer is None or state.root >= len(finer.vectors):
            return

        def observed() -> dict[str, float]:
            V = np.asarray(self.problem.potential(finer.operator.grid.r), float)
            return observe(finer.operator, finer.vectors[state.root], V).moments

        state.finer_moments = self.monitor.judged("the errors of the expectation values", observed, {})

    # --------------------------------------------------------------------------------------- scans

    def _scan_point(self, point: Point) -> None:
        """Append the energies of all states and the largest number of unknowns at one point; NaN where there is no state."""
        other = doubted(self.problem) if point.key == "table" else None
        problem = self.problem.with_(**point.changes) if other is None else other
        # the deck itself
        if point.key == "partial" and problem.sectors == self.problem.sectors:
            self.done["energies"] = [
                *self.done["energies"],
                np.array([s["energy"] for s in self.done["states"]]),
            ]
            own = np.array([[s["moments"][name] for name in MOMENTS] for s in self.done["states"]])
            self.done["moments"] = [*self.done["moments"], own]
            self.done["unknowns"] = [*self.done["unknowns"], int(self.done["info"]["unknowns"])]
            return
        energies: dict[tuple[Any, ...], float] = {}
        unknowns, moments = 0, unknown_moments(self.order)
        for number, sector in enumerate(problem.sectors):
            name = f"{point.key} {point.value} {number}"
            # an l_max too small for this L
            if not sector.pairs:
                energies |= {(sector.L, sector.S, sector.parity, root): np.nan for root in sector.roots}
                continue
            solve = partial(self._scan_sector, problem, sector, point, name, moments)
            # partial waves that the deck does not extrapolate, and other curves, only tell an error, and may fail
            if point.key == "table" or (point.key == "partial" and not self.problem.extrapolate):
                nothing = {(sector.L, sector.S, sector.parity, root): np.nan for root in sector.roots}
                adds = (
                    "the rows of the table leave open"
                    if point.key == "table"
                    else "further partial waves add"
                )
                added, size = self.monitor.judged(f"what {adds}", solve, (nothing, 0))
            else:
                added, size = solve()
            energies |= added
            unknowns = max(unknowns, size)
        self.done["energies"] = [*self.done["energies"], np.array([energies[key] for key in self.order])]
        self.done["unknowns"] = [*self.done["unknowns"], unknowns]
        self.done["moments"] = [*self.done["moments"], moments]

    def _scan_sector(
        self, problem: Problem, sector: Sector, point: Point, name: str, moments: NDArray[np.float64]
    ) -> tuple[dict[tuple[Any, ...], float], int]:
        """Return the energies of a sector's states at a point and their unknowns; rough ones where they tell an error only.

        Of partial waves and other curves the expectation values go into the rows of `moments`.
        """
        energies: dict[tuple[Any, ...], float] = {}
        own = {pair for part in self.problem.sectors if _same(part, sector) for pair in part.pairs}
        more = point.key == "partial" and not own >= set(sector.pairs)
        # points with more pairs than the deck only tell an error, unless they are extrapolated
        rough = more and not self.problem.extrapolate
        operator, eigenpairs, vectors = self._energies(problem, sector, name, energies, rough=rough)
        for root in sector.roots if point.key in ("partial", "table") else ():
            seen = observe(operator, vectors[root], problem.V).moments
            row = self.order.index((sector.L, sector.S, sector.parity, root))
            moments[row] = [seen[one] for one in MOMENTS]
        if more and point.value == max(self.problem.extrapolate, default=None):
            self._radial_errors(operator, sector, eigenpairs)
        return energies, operator.size

    def _energies(
        self,
        problem: Problem,
        sector: Sector,
        name: str,
        energies: dict[tuple[Any, ...], float],
        *,
        rough: bool,
    ) -> tuple[TwoElectron, davidson.Eigenpairs, FloatArray]:
        """Add the energies of a sector's states; rough ones start from the deck's states with fewer pairs.

        Returns
        -------
        operator : TwoElectron
        eigenpairs : Eigenpairs
            The states; of rough ones, the states of the deck that they start from.
        vectors : (k, P, M, M)
            The states, rough ones relaxed.
        """
        key = (sector.L, sector.S, sector.parity)
        if rough and key in self.smaller:
            pairs, eigenpairs = self.smaller[key]
            operator = self._operator(problem, sector)
            # As in the reference: neither near degeneracies nor missing neighbours decide.
            gaps = np.clip(eigenpairs.gaps, 1e-3, 1.0)
            relaxed = davidson.relax(
                operator,
                embedded(operator, pairs, eigenpairs.vectors),
                eigenpairs.values,
                gaps,
                settled=ROUGH,
                max_steps=40,
            )
            values, vectors = relaxed.energies, relaxed.vectors
        else:
            operator, eigenpairs = self._solve(problem, sector, name)
            values, vectors = eigenpairs.values, eigenpairs.vectors
        energies |= {(*key, root): float(values[root]) for root in sector.roots}
        return operator, eigenpairs, vectors

    def _radial_errors(self, operator: TwoElectron, sector: Sector, eigenpairs: davidson.Eigenpairs) -> None:
        """Keep what functions and grid leave out where there are more pairs than in the deck's own states.

        They grow with the pairs: the functions of the momenta that are added may be few, or fit worse.
        """
        finer = self._reference(operator, sector, eigenpairs)
        for root in sector.roots:
            off = _radial_error(float(eigenpairs.values[root]), finer, root)
            key = (sector.L, sector.S, sector.parity, root)
            self.done["radial"] = {**self.done.get("radial", {}), str(self.order.index(key)): off}

    # -------------------------------------------------------------------------------------- result

    def _result(self) -> BoundResult:
        """Return states, scans, partial waves and limits of the finished solutions, with the angular errors set."""
        problem, info = self.problem, self.done["info"]
        states = [State(**_restored(entry)) for entry in self.done["states"]]
        scans = {
            key: self._scan([n for n, point in enumerate(self.points) if point.key == key])
            for key in dict.fromkeys(point.key for point in self.points)
        }
        waves = scans.pop("partial", _EMPTY)
        if scans.pop("table", None) is not None and (other := doubted(problem)) is not None:
            for k, state in enumerate(states):
                level = min(float(other.orbitals(l).e[0]) for l in {int(l) for l in state.pairs.ravel()})
                moments = dict(zip(MOMENTS, self.done["moments"][-1][k].tolist(), strict=True))
                state.doubt(float(self.done["energies"][-1][k]), moments, level)
        limits = []
        # Limits last: they need all partial waves, and the largest radial error of the energies
        # that are fitted.
        for k, state in enumerate(states):
            used = self._used(waves, state, k)
            if used.sum() <= SATELLITES:
                limits.append((float("nan"), float("nan")))
                continue
            # where the deck's own states have all pairs, theirs is the largest error
            if problem.extrapolate:
                state.error_radial_limit = float(self.done.get("radial", {}).get(str(k), state.error_radial))
            limit, error, total = self.monitor.judged(
                "the limit of all partial waves",
                partial(_limit, state, waves.values[used], waves.energies[used, k]),
                (float("nan"), float("nan"), float("nan")),
            )
            # what is missing of the energy is known from the limit, and no better than that is
            state.error_angular = abs(state.energy - limit) + FEW_WAVES * error
            limits.append((limit, total))
            rows = [row[k] for row in self.done["moments"][: len(used)]]
            found = Waves(waves.energies[used, k], np.array(rows)[used], limit)
            state.moment_errors = moment_errors(state, problem, found)
        if problem.lists_pairs:
            for state in states:
                state.moment_errors = moment_errors(state, problem, None)
        ls = sorted({int(l) for state in states for l in state.pairs.ravel()})
        return BoundResult(
            problem=problem,
            states=states,
            bases={l: problem.functions(l) for l in ls} if problem.is_gsf else {},
            convergence=scans,
            partial=waves,
            limits=limits if problem.extrapolate else [],
            solver_iterations=int(info["iterations"]),
            products=int(info["products"]),
            unknowns=int(info["unknowns"]),
            flops=float(info["flops"]),
            histories=[np.asarray(history) for history in info["histories"]],
        )

    def _used(self, partial: Scan, state: State, k: int) -> NDArray[np.bool_]:
        """Return which of the partial waves tell the limit of a state."""
        finite = np.isfinite(partial.energies[:, k]) if partial.values.size else np.zeros(0, bool)
        if self.problem.extrapolate:
            return finite
        own = satellites([(int(a), int(b)) for a, b in state.pairs])
        return finite & np.isin(partial.values, own)

    def _scan(self, numbers: list[int]) -> Scan:
        return Scan(
            np.array([self.points[n].value for n in numbers], float),
            np.array([self.done["energies"][n] for n in numbers]),
            np.array([self.done["unknowns"][n] for n in numbers], np.int64),
        )


_EMPTY = Scan(np.zeros(0), np.zeros((0, 0)), np.zeros(0, np.int64))


def _same(one: Sector, other: Sector) -> bool:
    return (one.L, one.S, one.parity) == (other.L, other.S, other.parity)


def embedded(operator: TwoElectron, pairs: Sequence[tuple[int, int]], vectors: FloatArray) -> Any:
    """Return vectors (m, P, M, M) of some pairs as vectors of an operator with more pairs and the same orbitals."""
    out = operator.device.xp.zeros((vectors.shape[0], *operator.shape))
    M = vectors.shape[-1]
    for p, pair in enumerate(pairs):
        out[:, operator.pairs.index(pair), :M, :M] = vectors[:, p]
    return out


def _compare(state: State, finer: reference.Reference | None) -> None:
    """Set the errors that the states on a finer grid tell."""
    state.error_radial = _radial_error(state.energy, finer, state.root)
    if finer is None or not np.isfinite(state.error_radial):
        return
    ls = {int(l) for l in state.pairs.ravel()}
    level = min(finer.levels[l] for l in ls)
    state.error_threshold = abs(level - state.one_electron)


def _radial_error(energy: float, finer: reference.Reference | None, root: int) -> float:
    """Return the distance of an energy from its value on a finer grid, with its error, hartree; NaN without one."""
    if finer is None or not np.isfinite(finer.energies[root]):
        return float("nan")
    return finer.off(energy, root)


def _limit(
    state: State, l_max: NDArray[np.float64], energies: NDArray[np.float64]
) -> tuple[float, float, float]:
    """Return the partial-wave limit, its error from the fit alone, and with what the errors of the energies become in it."""
    fits = [
        partial_wave_limit(
            [int(l) for l in l_max],
            energies,
            L=state.L,
            S=state.S,
            parity=state.parity,
            uncertainty=uncertainty,
        )
        for uncertainty in (0.0, state.error_in_points)
    ]
    return fits[0][0], fits[0][1], fits[1][1]


def _restored(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in entry.items()}

"""Result of `task: bound` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar
from qsim.sturmian.bound.states import box_density
from qsim.sturmian.radial.quantities import BETA, FUNCTIONS, NODES, PARAMETERS, POTENTIALS, QUALITY
from qsim.sturmian.two_electron import known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from qsim.core.results.tables import Value
    from qsim.sturmian.bound.states import State
    from qsim.sturmian.problem import Problem, Sector
    from qsim.sturmian.radial.quantities import Arrays
    from qsim.sturmian.radial.sturmians import Sturmians

__all__ = ["QUANTITIES", "BoundResult", "Scan"]

# Pairs of a symmetry up to which its angular coefficients are stored.
STORED_PAIRS = 40
HARTREE = "hartree"


@dataclass(frozen=True)
class Scan:
    """Energies against one parameter: ``values`` (k,), ``energies`` (k, states), ``unknowns`` (k,)."""

    values: NDArray[np.float64]
    energies: NDArray[np.float64]
    unknowns: NDArray[np.int64]


@dataclass
class BoundResult:
    """Bound states of a deck with their scans.

    Attributes
    ----------
    states : list of State
        In the order of the deck.
    bases : dict of Sturmians
        For each l; empty if the basis is the grid.
    convergence : dict of Scan
        The scans of the deck by key.
    partial : Scan
        Energies against l_max: the extrapolated ones, or the few below l_max that give ``error_angular``; may be empty.
    limits : list of (float, float)
        Limit of all partial waves and its error, of each state; empty unless the deck extrapolates.
    solver_iterations, products, unknowns : int
        Of the states of the deck, without scans.
    flops : float
        Of a product H x.
    """

    task: ClassVar[str] = "bound"

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


def _names(r: BoundResult) -> list[str]:
    """Return the names of the states, such as ``2^3P``."""
    return [known.term(s.L, s.S, s.parity, s.root) for s in r.states]


def _exact(r: BoundResult, k: int) -> float | None:
    """Return the known energy of a state, hartree; None where there is none, and for models with some pairs only."""
    problem, state = r.problem, r.states[k]
    if not problem.is_bare or problem.lists_pairs:
        return None
    return known.energy(problem.Z, state.L, state.S, state.parity, state.root)


def _each(
    name: str,
    unit: str,
    text: str,
    value: Callable[[State], Value],
    *,
    error: Callable[[State], float | None] | None = None,
    headlines: tuple[int, ...] = (),
) -> Quantity[BoundResult]:
    """Return the quantity of a number of every state, ``name_k``; the states `headlines` are shown first."""

    def numbers(r: BoundResult) -> dict[str, Scalar]:
        numbered = (
            (k, term, value(state)) for k, (term, state) in enumerate(zip(_names(r), r.states, strict=True))
        )
        return {
            f"{name}_{k}": Scalar(number, unit, description=f"{text}, {term}")
            for k, term, number in numbered
            if number is not None
        }

    def errors(r: BoundResult) -> dict[str, float]:
        assert error is not None
        found = {f"{name}_{k}": error(state) for k, state in enumerate(r.states)}
        return {key: float(value) for key, value in found.items() if value is not None}

    return Quantity(
        f"{name}_*",
        unit,
        text,
        numbers,
        error=errors if error is not None else None,
        headline=tuple(f"{name}_{k}" for k in headlines),
    )


def _energies(states: slice) -> Callable[[BoundResult], dict[str, Scalar]]:
    """Return a function that gives the energies of some states, with what their errors are made of."""

    def numbers(r: BoundResult) -> dict[str, Scalar]:
        if r.problem.lists_pairs:
            rest = "with the pairs of the deck only; error: solver, radial functions and grid, box"
        else:
            rest = "up to l_max; error: solver, radial functions and grid, box, and the missing partial waves"
        numbered = list(enumerate(zip(_names(r), r.states, strict=True)))[states]
        return {
            f"energy_{k}": Scalar(float(state.energy), HARTREE, description=f"energy of {term} {rest}")
            for k, (term, state) in numbered
        }

    return numbers


def _energy_errors(r: BoundResult) -> dict[str, float]:
    return {f"energy_{k}": float(state.error) for k, state in enumerate(r.states)}


def _limits(r: BoundResult) -> dict[str, Scalar]:
    return {
        f"energy_extrapolated_{k}": Scalar(
            float(value), HARTREE, float(error), f"energy of {_names(r)[k]} for l_max to infinity"
        )
        for k, (value, error) in enumerate(r.limits)
    }


def _part(part: str, text: str) -> Quantity[BoundResult]:
    """Return the quantity of one part of the errors of the energies, where it is known."""

    def numbers(r: BoundResult) -> dict[str, Scalar]:
        return {
            f"error_{part}_{k}": Scalar(
                float(value), HARTREE, description=f"part of the error of energy_{k}: {text}, {_names(r)[k]}"
            )
            for k, state in enumerate(r.states)
            if np.isfinite(value := getattr(state, f"error_{part}"))
        }

    name = f"error_{part}"
    return Quantity(
        f"{name}_*", HARTREE, f"part of the error of energy *: {text}", numbers, headline=(f"{name}_0",)
    )


def _compared(r: BoundResult) -> Iterator[tuple[int, float]]:
    """Yield numbers and known energies of the states that have one."""
    for k in range(len(r.states)):
        if (exact := _exact(r, k)) is not None:
            yield k, exact


def _differences(r: BoundResult) -> dict[str, Scalar]:
    """Return how far the best energies lie from the known ones."""
    what = "extrapolated" if r.limits else "up to l_max"
    best = [value for value, _ in r.limits] if r.limits else [state.energy for state in r.states]
    return {
        f"error_to_exact_{k}": Scalar(
            float(best[k] - exact), HARTREE, description=f"energy {what} minus the known one, {_names(r)[k]}"
        )
        for k, exact in _compared(r)
    }


def _known_energies(r: BoundResult) -> dict[str, Scalar]:
    return {
        f"energy_exact_{k}": Scalar(exact, HARTREE, description=f"known energy of {_names(r)[k]}")
        for k, exact in _compared(r)
    }


def _bounds(r: BoundResult) -> dict[str, Scalar]:
    text = "whether the energy up to l_max is an upper bound of the known one"
    return {
        f"above_exact_{k}": Scalar(
            bool(r.states[k].energy >= exact - r.states[k].error_in_pairs),
            description=f"{text}, {_names(r)[k]}",
        )
        for k, exact in _compared(r)
    }


def _moment(
    name: str, of: str, unit: str, text: str, headlines: tuple[int, ...] = ()
) -> Quantity[BoundResult]:
    """Return the quantity of an expectation value."""
    return _each(
        name,
        unit,
        text,
        lambda state: float(state.moments[of]) if of in state.moments else None,
        error=lambda state: state.moment_errors.get(of),
        headlines=headlines,
    )


def _measure(name: str, unit: str, text: str) -> Quantity[BoundResult]:
    """Return the quantity of a moment that tells how good the state is, and needs no error."""
    return replace(_moment(name, name, unit, text), error=None, exact=True)


def _ionisation_error(state: State) -> float:
    return state.error + (state.error_threshold if np.isfinite(state.error_threshold) else 0.0)


def _of_states(value: Callable[[State], object]) -> Callable[[BoundResult], NDArray[Any]]:
    return lambda r: np.array([value(state) for state in r.states])


def _of_pairs(name: str, value: Callable[[State], Any]) -> Callable[[BoundResult], Arrays]:
    return lambda r: {
        f"pair_weights/{k}/{name}": np.asarray(value(state)) for k, state in enumerate(r.states)
    }


@lru_cache(maxsize=16)
def _coefficients(L: int, pairs: tuple[tuple[int, int], ...]) -> tuple[NDArray[Any], ...]:
    """Return bra, ket, multipole and value of the angular coefficients between pairs."""
    from qsim.sturmian.two_electron.angular import multipoles

    rows = [(bra, ket, l, value) for bra in pairs for ket in pairs for l, value in multipoles(L, bra, ket)]
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def _angular(name: str, column: int) -> Callable[[BoundResult], Arrays]:
    """Return a function that gives one column of the angular coefficients of each symmetry."""

    def coefficients(sector: Sector) -> NDArray[Any]:
        pairs = tuple((int(la), int(lb)) for la, lb in sector.pairs)
        return _coefficients(sector.L, pairs)[column]

    return lambda r: {
        f"angular/L{sector.L}_S{sector.S}_{sector.parity}/{name}": coefficients(sector)
        for sector in r.problem.sectors
        if len(sector.pairs) <= STORED_PAIRS
    }


def _mapped(value: Callable[[BoundResult], NDArray[Any]]) -> Any:
    """Return a function that gives an array where all states have a map, else None."""
    return lambda r: value(r) if all(state.map is not None for state in r.states) else None


def _scans(name: str, value: Callable[[Any], NDArray[Any]]) -> Callable[[BoundResult], Arrays]:
    return lambda r: {f"convergence/{key}/{name}": value(scan) for key, scan in r.convergence.items()}


def _moments(r: BoundResult) -> Arrays:
    return {
        f"moments/{name}": np.array([state.moments[name] for state in r.states])
        for name in r.states[0].moments
    }


def _extrapolated(part: int) -> Any:
    return lambda r: np.array([limit[part] for limit in r.limits]) if r.limits else None


QUANTITIES: tuple[Quantity[BoundResult], ...] = (
    Quantity(
        "energy_extrapolated",
        HARTREE,
        "energy of the first state for l_max to infinity",
        lambda r: _limits(r)["energy_extrapolated_0"],
        when=lambda r: bool(r.limits),
        headline=True,
    ),
    Quantity(
        "energy_0",
        HARTREE,
        "energy of the first state up to l_max; error: solver, radial functions and grid, box, and the missing partial waves",
        lambda r: _energies(slice(1))(r)["energy_0"],
        error=_energy_errors,
        headline=True,
    ),
    _part("solver", "eigensolver and rounding"),
    _part("radial", "functions, grid and its quadrature, from the same pairs on a finer grid"),
    _part("box", "wall at R"),
    _part("angular", "pairs of angular momenta beyond l_max"),
    replace(
        _part("table", "what the rows of a table leave open in the potential"),
        when=lambda r: any(state.error_table for state in r.states),
    ),
    Quantity(
        "energy_*",
        HARTREE,
        "energies of the other states",
        _energies(slice(1, None)),
        error=_energy_errors,
        headline=("energy_1", "energy_2", "energy_3"),
    ),
    Quantity("energy_extrapolated_*", HARTREE, "energy for l_max to infinity", _limits),
    Quantity("energy_exact_*", HARTREE, "known energy", _known_energies, exact=True),
    Quantity(
        "error_to_exact",
        HARTREE,
        "energy of the first state minus the known one",
        lambda r: _differences(r)["error_to_exact_0"],
        when=lambda r: "error_to_exact_0" in _differences(r),
        headline=True,
    ),
    Quantity("error_to_exact_*", HARTREE, "energy minus the known one", _differences),
    Quantity(
        "above_exact_*", "", "whether the energy up to l_max is an upper bound of the known one", _bounds
    ),
    _moment("mean_r", "r", "bohr", "<r> of one electron"),
    _moment("mean_r2", "r2", "bohr^2", "<r^2> of one electron"),
    _moment("mean_inv_r", "inv_r", "1/bohr", "<1/r> of one electron"),
    _moment("mean_inv_r2", "inv_r2", "1/bohr^2", "<1/r^2> of one electron"),
    _moment("mean_inv_r12", "inv_r12", "1/bohr", "<1/r12>"),
    _moment("mean_r12_squared", "r12_squared", "bohr^2", "<r12^2>"),
    _moment("mean_r1_dot_r2", "r1_dot_r2", "bohr^2", "<r1 . r2>"),
    _moment("mean_cos_theta12", "cos_theta12", "", "mean cosine of the angle between the electrons"),
    _moment("kinetic", "kinetic", HARTREE, "kinetic energy"),
    _moment("nuclear", "nuclear", HARTREE, "energy in the one-body potential"),
    _moment("repulsion", "repulsion", HARTREE, "repulsion energy"),
    _moment("virial_ratio", "virial_ratio", "", "-<V>/<T>, 2 for an exact state of charges at rest", (0,)),
    _measure("norm", "", "norm of the state"),
    _measure("symmetry_error", "", "violation of the exchange symmetry, relative to the state"),
    _measure("edge_density", "1/bohr", "largest radial density in the last element of the box"),
    _each(
        "ionisation_energy",
        HARTREE,
        "energy below the ionisation threshold",
        lambda state: float(state.threshold - state.energy),
        error=_ionisation_error,
    ),
    replace(_each("box_density", "1/bohr", "density at R if there were no wall", box_density), exact=True),
    *QUALITY,
    *PARAMETERS,
    Quantity("unknowns", "", "coefficients of a state", lambda r: int(r.unknowns), headline=True),
    Quantity(
        "solver_iterations",
        "",
        "steps of the eigensolver for the states of the deck",
        lambda r: int(r.solver_iterations),
        headline=True,
    ),
    Quantity("products", "", "products H x of the eigensolver", lambda r: int(r.products)),
    Quantity("solver", "", "eigensolver", lambda r: r.problem.solver.type),
    _each("residual", HARTREE, "|H x - E x|", lambda state: float(state.residual), headlines=(0,)),
    Quantity("state", "", "names of the states", lambda r: np.array(_names(r), dtype=object), ("state",)),
    Quantity(
        "energies",
        HARTREE,
        "energies of the states",
        _of_states(lambda s: s.energy),
        ("state",),
        note="nonrelativistic, nucleus at rest; in the basis and up to l_max of the deck",
    ),
    Quantity(
        "energy_errors",
        HARTREE,
        "estimated errors of the energies",
        _of_states(lambda s: s.error),
        ("state",),
        note="solver, radial functions and grid, box and missing partial waves; without these if the deck lists its pairs",
    ),
    Quantity("L", "", "total orbital momentum", _of_states(lambda s: s.L), ("state",)),
    Quantity("S", "", "total spin", _of_states(lambda s: s.S), ("state",)),
    Quantity("root", "", "number of the state in its symmetry", _of_states(lambda s: s.root), ("state",)),
    *NODES,
    *POTENTIALS,
    Quantity(
        "density",
        "1/bohr",
        "radial density of the two electrons, divided by two",
        _of_states(lambda s: s.density),
        ("state", "r"),
        note="its integral over r is 1",
    ),
    Quantity("r1", "bohr", "radii of the first electron", _mapped(lambda r: r.map_r), ("r1",)),
    Quantity("r2", "bohr", "radii of the second electron", _mapped(lambda r: r.map_r), ("r2",)),
    Quantity(
        "pair_density",
        "1/bohr^2",
        "probability density of r1 and r2, angles integrated over",
        _mapped(_of_states(lambda s: s.map)),
        ("state", "r1", "r2"),
    ),
    BETA,
    FUNCTIONS,
    Quantity("thresholds", HARTREE, "ionisation thresholds", _of_states(lambda s: s.threshold), ("state",)),
    Quantity(
        "pair_weights/*/la",
        "",
        "orbital momentum of one electron",
        _of_pairs("la", lambda s: np.asarray(s.pairs)[:, 0]),
        ("pair",),
    ),
    Quantity(
        "pair_weights/*/lb",
        "",
        "orbital momentum of the other",
        _of_pairs("lb", lambda s: np.asarray(s.pairs)[:, 1]),
        ("pair",),
    ),
    Quantity(
        "pair_weights/*/weight",
        "",
        "weight of the pair in the state, both orders together",
        _of_pairs("weight", lambda s: s.weights),
        ("pair",),
    ),
    Quantity(
        "angular/*/bra",
        "",
        "orbital momenta la', lb' of the bra",
        _angular("bra", 0),
        ("coefficient", "electron"),
    ),
    Quantity(
        "angular/*/ket",
        "",
        "orbital momenta la, lb of the ket",
        _angular("ket", 1),
        ("coefficient", "electron"),
    ),
    Quantity("angular/*/l", "", "multipole", _angular("l", 2), ("coefficient",)),
    Quantity(
        "angular/*/A",
        "",
        "angular coefficients of the repulsion",
        _angular("A", 3),
        ("coefficient",),
        note="1/r12 = sum over l of A_l r<^l / r>^(l + 1); the factor 4 pi / (2l + 1) is included",
    ),
    Quantity(
        "residual_history/*/residual",
        HARTREE,
        "residuals of the eigensolver",
        lambda r: {
            f"residual_history/{k}/residual": history
            for k, history in enumerate(r.histories)
            if history.ndim == 2 and history.size
        },
        ("iteration", "followed"),
    ),
    Quantity("moments/*", "", "expectation values, atomic units", _moments, ("state",)),
    Quantity(
        "convergence/*/value",
        "",
        "values of the scanned key, atomic units",
        _scans("value", lambda scan: np.asarray(scan.values, float)),
        ("value",),
    ),
    Quantity(
        "convergence/*/energies",
        HARTREE,
        "energies at each value",
        _scans("energies", lambda scan: np.asarray(scan.energies)),
        ("value", "state"),
    ),
    Quantity(
        "partial_waves/l_max",
        "",
        "largest orbital momentum",
        lambda r: np.asarray(r.partial.values).astype(int) if r.partial.values.size else None,
        ("l_max",),
    ),
    Quantity(
        "partial_waves/energies",
        HARTREE,
        "energies up to l_max",
        lambda r: np.asarray(r.partial.energies) if r.partial.values.size else None,
        ("l_max", "state"),
    ),
    Quantity(
        "partial_waves/limit", HARTREE, "extrapolation of l_max to infinity", _extrapolated(0), ("state",)
    ),
    Quantity("partial_waves/limit_error", HARTREE, "its estimated error", _extrapolated(1), ("state",)),
)

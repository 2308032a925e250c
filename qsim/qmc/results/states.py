"""Quantities of several states: energies, gaps from the first one, overlaps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qmc.results.parts import last_part
from qsim.qmc.statistics.blocking import derived

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.qmc.run import MemberResult, Result

__all__ = ["STATES", "STATE_ARRAYS", "of_each"]

HARTREE = "hartree"
Found = tuple[float, float]
"""A number and its error, NaN where it has none."""


def _part(result: Result, kind: str) -> int | None:
    """Return the number of the last part of a kind, None if there is none or one state alone."""
    last = last_part(result, kind) if result.states else None
    return None if last is None else list(result.problem.parts).index(last.part)


def _energies(result: Result, kind: str) -> list[Found]:
    """Return the energies of all states in the last part of a kind, or at zero time step (``extrapolated``); none without one."""
    if kind == "extrapolated":
        fits = [one.fits[-1].extrapolation if one.fits else None for one in result.states]
        return [(float(fit.value), float(fit.error)) for fit in fits if fit] if all(fits) else []
    k = _part(result, kind)
    if k is None:
        return []
    found = [analysis.energy for one in result.states if (analysis := one.analyses[k]) is not None]
    return [(one.mean, math.nan if one.error is None else one.error) for one in found]


def _gaps(result: Result, kind: str) -> list[Found]:
    """Return the energies of all states less that of the first one; samples of different states are independent."""
    found = _energies(result, kind)
    first = found[0] if found else (0.0, 0.0)
    return [(x - first[0], math.hypot(error, first[1]) if k else 0.0) for k, (x, error) in enumerate(found)]


def _overlap(result: Result, j: int, k: int) -> Found | None:
    """Return the overlap of two normalised states, from the samples of both in the last vmc section (estimators/overlaps)."""
    at = _part(result, "vmc")
    if at is None or "state_ratio" not in result.states[0].series[at].arrays:
        return None
    columns = [_columns(result.states[one], at, other) for one, other in ((j, k), (k, j))]
    # Of one sample the ratio and its modulus fluctuate together, of the other nothing does.
    parts = []
    for one, other in ((0, 1), (1, 0)):
        a, u = (float(np.mean(column)) for column in columns[other])

        def overlap(b: float, v: float, a: float = a, u: float = u) -> float:
            return 0.5 * (b * math.sqrt(u / v) + a * math.sqrt(v / u))

        parts.append(derived(overlap, columns[one], rounding=1e-14))
    errors = [math.nan if part.error is None else part.error for part in parts]
    return float(np.mean([part.mean for part in parts])), math.hypot(*errors)


def _columns(one: MemberResult, part: int, other: int) -> list[NDArray[np.float64]]:
    """Return the ratio of another state and its modulus, by block after the warm-up."""
    analysis, arrays = one.analyses[part], one.series[part].arrays
    cut = 0 if analysis is None else analysis.cut
    return [np.asarray(arrays[name])[cut:, other] for name in ("state_ratio", "state_ratio_modulus")]


def _overlaps(result: Result) -> NDArray[np.float64] | None:
    """Return overlaps and errors of all pairs, (2, states, states); None if none were measured."""
    count = len(result.states)
    if not count or _overlap(result, 0, 1) is None:
        return None
    found = np.zeros((2, count, count))
    found[0] = np.eye(count)
    for j in range(count):
        for k in range(j):
            pair = _overlap(result, j, k)
            assert pair is not None  # all states have the same sections
            found[:, j, k] = found[:, k, j] = pair
    return found


def of_each(quantity: Quantity[Result]) -> Quantity[Result]:
    """Return the declaration of the same arrays for all states but the first, in folders such as ``state_1``."""

    def value(result: Result) -> object:
        found: dict[str, object] = {}
        for one in result.states[1:]:
            problem = replace(result.problem, wavefunction=result.problem.wavefunction_of(one.number))
            alone = replace(result, problem=problem, after=one.after, states=[])
            if quantity.when is not None and not quantity.when(alone):
                continue
            values = quantity.value(alone)
            named = values if isinstance(values, dict) else {quantity.name: values}
            group = f"state_{result.problem.roots[one.number]}"
            found |= {f"{group}/{name}": array for name, array in named.items() if array is not None}
        return found

    return replace(quantity, name=f"state_*/{quantity.name}", value=value, when=lambda r: bool(r.states))


def _array(values: Sequence[Found], which: int) -> Any:
    return np.array([one[which] for one in values]) if values else None


def _error(values: Callable[[Result], Sequence[Found]]) -> Callable[[Result], float | None]:
    """Return the function for the error of the second of several numbers."""

    def error(result: Result) -> float | None:
        found = values(result)[1][1]
        return None if math.isnan(found) else found

    return error


def _gap(kind: str, name: str, text: str) -> Quantity[Result]:
    """Return the declaration of the gap between the first two states."""
    return Quantity(
        name,
        HARTREE,
        f"energy of the second state less that of the first, {text}",
        lambda r: _gaps(r, kind)[1][0],
        error=_error(lambda r: _gaps(r, kind)),
        when=lambda r: bool(r.states) and bool(_gaps(r, kind)),
        headline=True,
    )


KINDS = {"vmc": "vmc", "dmc": "dmc", "extrapolated": "dmc"}
ENDS = {
    "vmc": ("", "of the last vmc section"),
    "dmc": ("", "at the smallest time step of the last dmc section"),
    "extrapolated": ("_extrapolated", "at zero time step"),
}
STATES: tuple[Quantity[Result], ...] = (
    Quantity(
        "states",
        "",
        "states that were run",
        lambda r: len(r.states),
        when=lambda r: bool(r.states),
        exact=True,
    ),
    *(_gap(kind, f"{KINDS[kind]}_gap{end}", text) for kind, (end, text) in ENDS.items()),
    Quantity(
        "vmc_overlap",
        "",
        "overlap of the first two states, normalised",
        lambda r: float(found[0, 0, 1]) if (found := _overlaps(r)) is not None else None,
        error=lambda r: (
            float(found[1, 0, 1])
            if (found := _overlaps(r)) is not None and np.isfinite(found[1, 0, 1])
            else None
        ),
        when=lambda r: _overlaps(r) is not None,
    ),
)

STATE_ARRAYS: tuple[Quantity[Result], ...] = (
    Quantity(
        "states/root",
        "",
        "states, counted from 0 as in their source",
        lambda r: np.array(r.problem.roots),
        ("state",),
        when=lambda r: bool(r.states),
    ),
    Quantity(
        "states/spin_squared",
        "",
        "<S^2> of their determinants at the start",
        lambda r: np.array(
            [r.problem.wavefunction_of(k).expansion.about["spin_squared"] for k in range(len(r.states))]
        ),
        ("state",),
        when=lambda r: bool(r.states) and "spin_squared" in r.problem.wavefunction.expansion.about,
    ),
    *(
        Quantity(
            f"states/{KINDS[kind]}_{what}{end}{'_error' * which}",
            HARTREE,
            f"{'error of the ' * which}{'energy' if what == 'energy' else 'energy from the first state on'}, {text}",
            lambda r, kind=kind, values=values, which=which: _array(values(r, kind), which),  # type: ignore[misc]
            ("state",),
            when=lambda r, kind=kind: bool(r.states) and bool(_energies(r, kind)),  # type: ignore[misc]
        )
        for kind, (end, text) in ENDS.items()
        for what, values in (("energy", _energies), ("gap", _gaps))
        for which in (0, 1)
    ),
    *(
        Quantity(
            name,
            "",
            text,
            lambda r, which=which: None if (found := _overlaps(r)) is None else found[which],  # type: ignore[misc]
            ("state", "other_state"),
            when=lambda r: _overlaps(r) is not None,
        )
        for which, (name, text) in enumerate(
            (
                ("states/overlap", "overlaps of the states, normalised, in the last vmc section"),
                ("states/overlap_error", "their errors"),
            )
        )
    ),
)

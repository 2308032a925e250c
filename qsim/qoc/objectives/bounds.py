"""Bound the value that any control can reach, also with lifetimes: known before any search (Eqs. Q21 to Q23)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from qsim.qoc.models.basis import connected
from qsim.qoc.models.quantum import (
    DensityTarget,
    FunctionalTarget,
    GateTarget,
    ObservableTarget,
    SeveralTargets,
    StateTarget,
)
from qsim.qoc.objectives.costs import is_mixed
from qsim.qoc.objectives.jumps import largest
from qsim.qoc.propagators.slots import row_and_column_norm

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray
    from qsim.qoc.models.quantum import QuantumModel

# Levels up to which spectra are computed.
MOST_LEVELS = 400
# Controls up to which every corner of their bounds is tried.
MOST_CORNERS = 6
# Element of a dipole of two coordinates, by its largest one, that is an error of the levels.
FAINT = 1e-6
# Infidelity above which an estimate of first order says nothing.
FIRST_ORDER = 0.5


@dataclass(frozen=True)
class Limits:
    """Limits of the value of a goal.

    Attributes
    ----------
    mixture : float or None
        Bound by the weights of the start; None where it says nothing.
    speed : float or None
        Bound by the duration and the bounds of the controls.
    connection : float or None
        Bound by what no operator connects.
    coherence : float or None
        Estimate of what jumps leave of a gate.
    """

    connection: float | None = None
    mixture: float | None = None
    speed: float | None = None
    coherence: float | None = None


def mixture_bound(model: QuantumModel) -> float | None:
    """Return the largest value that unitary motion can make of the start, ``sum_i w_i o_i`` of sorted weights and eigenvalues.

    ``Tr(O U rho U+) <= sum_i w_i o_i`` (J. von Neumann): for a projector of rank r, the sum of the r largest weights. None for
    gates, and where every column has a goal of its own.
    """
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return _of_all(model, mixture_bound)
    if isinstance(goal, FunctionalTarget):
        return None
    weights = np.sort(model.weights)[::-1]
    if isinstance(goal, StateTarget):
        if goal.coherent or len(goal.vectors) > 1:
            return None
        return float(weights[: goal.vectors[0].shape[0]].sum())
    if isinstance(goal, GateTarget) or model.dimension > MOST_LEVELS:
        return None
    operator = goal.density if isinstance(goal, DensityTarget) else goal.operator.toarray()
    values = np.linalg.eigvalsh(operator)[::-1]
    count = min(weights.size, values.size)
    largest = float(weights[:count] @ values[:count])
    if is_mixed(model):
        return 1.0 - 0.5 * float(np.sum(weights**2) + np.sum(values**2) - 2.0 * largest)
    return largest


def connection_bound(model: QuantumModel) -> float | None:
    """Return the largest value where basis states fall into blocks b that neither H0, controls nor jumps connect.

    Each block keeps its weight, so that ``|<f|x(T)>| <= sum_b ||f_b|| ||x_b(0)||``. None for observables and density matrices.
    """
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return _of_all(model, connection_bound)
    if isinstance(goal, ObservableTarget | DensityTarget | FunctionalTarget):
        return None
    sizes = [abs(c.operator) for c in model.controls]
    if model.on_points:
        # Where a symmetry forbids an element, levels on a grid leave one of the size of their errors.
        sizes = [size * (size > FAINT * size.max()) for size in sizes]
    sizes += [abs(jump.operator) for jump in model.jumps]
    count, block_of = connected(sum(sizes, abs(model.drift)))
    if count == 1:
        return None
    overlaps = np.array(
        [
            min(1.0, sum(_inside(block_of == b, rows, x) for b in np.unique(block_of[np.abs(x) > 0.0])))
            for rows, x in zip(_wanted(model), model.states.T, strict=True)
        ]
    )
    return _of_overlaps(model, overlaps)


def _inside(block: NDArray[np.bool_], rows: ComplexArray, x: ComplexArray) -> float:
    """Return the largest overlap of what a block has of target states (r, D) and of a start (D,)."""
    return float(np.linalg.norm(rows[:, block], 2) * np.linalg.norm(x[block]))


def widest(model: QuantumModel, low: NDArray[np.float64], high: NDArray[np.float64]) -> float | None:
    """Return the largest width ``E_max - E_min`` of H within the bounds of the controls; None if one has none.

    The width is convex in the factors f_c of the controls, so that it is largest at a corner of their box.

    Parameters
    ----------
    low, high : (C,) float64
        Bounds of each control.
    """
    if not np.all(np.isfinite(low) & np.isfinite(high)):
        return None
    ends = []
    for control, a, b in zip(model.controls, low, high, strict=True):
        factors = sorted((float(a) ** control.power, float(b) ** control.power))
        # A square has its minimum inside of bounds that enclose zero, not at an end of them.
        if control.power == 2 and a <= 0.0 <= b:
            factors[0] = 0.0
        ends.append(factors)
    if model.dimension > MOST_LEVELS or len(ends) > MOST_CORNERS:
        # Too large for spectra: the width is at most twice the norm, and norms add up.
        parts = [2.0 * row_and_column_norm(model.drift)]
        for control, factors in zip(model.controls, ends, strict=True):
            parts.append(2.0 * max(map(abs, factors)) * row_and_column_norm(control.operator))
        return sum(parts)
    drift = model.drift.toarray()
    operators = [control.operator.toarray() for control in model.controls]
    widths = []
    for corner in product(*ends):
        values = np.linalg.eigvalsh(drift + sum(f * h for f, h in zip(corner, operators, strict=True)))
        widths.append(float(values[-1] - values[0]))
    return max(widths)


def speed_bound(
    model: QuantumModel, duration: float, low: NDArray[np.float64], high: NDArray[np.float64]
) -> float | None:
    """Return the largest value that can be reached in time: a state turns by at most half of the width of H.

    ``arccos |<x(0)|x(T)>| <= T (E_max - E_min)/2`` (L. Mandelstam and I. Tamm). None for observables, where local phases of a
    gate are free, and where a control has no bounds.
    """
    goal = model.goal
    if isinstance(goal, SeveralTargets):
        return _of_all(model, lambda one: speed_bound(one, duration, low, high))
    if isinstance(goal, ObservableTarget | DensityTarget | FunctionalTarget):
        return None
    if isinstance(goal, GateTarget) and goal.free_phases == "local":
        return None
    width = widest(model, low, high)
    return None if width is None else after_turning(model, 0.5 * duration * width)


def _of_all(model: QuantumModel, bound: Callable[[QuantumModel], float | None]) -> float | None:
    """Return the weighted sum of the bounds of several goals; a goal without one counts with its largest value."""
    found = [(weight, one, bound(one)) for weight, one in model.each()]
    if model.dimension > MOST_LEVELS or all(b is None for _, _, b in found):
        return None
    return sum(weight * (largest(one) if b is None else b) for weight, one, b in found)


def after_turning(model: QuantumModel, turned: float) -> float:
    """Return the largest value of states or of a gate after every column has turned by at most an angle."""
    return _of_overlaps(model, np.cos(np.maximum(0.0, _angles(model) - turned)))


def _of_overlaps(model: QuantumModel, overlaps: NDArray[np.float64]) -> float:
    """Return the largest value of states or of a gate where the overlaps (S,) of columns with their targets are at most these."""
    goal = model.goal
    if isinstance(goal, GateTarget):
        # |t| <= sum_s cos, and ||V+ X||^2 <= d
        d = overlaps.size
        if goal.process:
            return float(np.mean(overlaps) ** 2)
        return float((d * np.mean(overlaps) ** 2 + 1.0) / (d + 1.0))
    assert isinstance(goal, StateTarget)
    if goal.coherent:
        return float(model.weights @ overlaps) ** 2
    return float(model.weights @ overlaps**2)


def _angles(model: QuantumModel) -> NDArray[np.float64]:
    """Return the angles (S,) between the starts and their targets."""
    pairs = zip(_wanted(model), model.states.T, strict=True)
    sizes = np.array([np.linalg.norm(rows.conj() @ x) for rows, x in pairs])
    return np.asarray(np.arccos(np.minimum(sizes, 1.0)))


def _wanted(model: QuantumModel) -> list[ComplexArray]:
    """Return the target states (r, D) of each column, of states or of a gate."""
    goal = model.goal
    if isinstance(goal, GateTarget):
        return list((goal.columns @ goal.unitary).T[:, None])
    assert isinstance(goal, StateTarget)
    return [goal.vectors[min(s, len(goal.vectors) - 1)] for s in range(model.states.shape[1])]


def coherence_limit(model: QuantumModel, duration: float) -> float | None:
    """Return the average fidelity that jumps leave of a gate, to first order in T; an estimate, no bound.

    ``F_pro = 1 - T sum_k (Tr V+ L+ L V/d - |Tr V+ L V|^2/d^2)``, ``leak = T sum_k (Tr V+ L+ L V - ||V+ L V||^2)/d``: for
    relaxation and dephasing of qubits ``1 - F = d T/(2(d+1)) sum_q (1/T1 + 1/Tphi)`` (Abad et al., Phys. Rev. Lett. 129, 150504
    (2022)).
    """
    goal = model.goal
    if not isinstance(goal, GateTarget) or not model.jumps:
        return None
    v: ComplexArray = goal.columns
    d = v.shape[1]
    lost, leaked = 0.0, 0.0
    for jump in model.jumps:
        moved = jump.operator @ v
        rate = float(np.linalg.norm(moved) ** 2)
        inside = v.conj().T @ moved
        lost += rate / d - abs(np.trace(inside)) ** 2 / d**2
        leaked += (rate - float(np.linalg.norm(inside) ** 2)) / d
    error = duration * (lost if goal.process else (d * lost + leaked) / (d + 1.0))
    return 1.0 - error if error < FIRST_ORDER else None


def limits_of(
    model: QuantumModel, duration: float, low: NDArray[np.float64], high: NDArray[np.float64], *, closed: bool
) -> Limits:
    """Return the limits that hold: bounds for closed systems, the estimate for open ones.

    Parameters
    ----------
    low, high : (C,) float64
        Bounds of each control; infinite for none.
    closed : bool
        True if no jumps are taken into account.
    """
    connection = connection_bound(model)
    if not closed:
        return Limits(connection=connection, coherence=coherence_limit(model, duration))
    speed = speed_bound(model, duration, low, high)
    mixture = mixture_bound(model)
    unsaid = math.inf if model.measured else 1.0
    return Limits(
        connection=connection,
        mixture=mixture if mixture is not None and mixture < unsaid else None,
        speed=speed if speed is not None and speed < 1.0 else None,
    )

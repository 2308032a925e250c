"""Lowest eigenpairs of a large symmetric operator: block Davidson with a model space.

E. R. Davidson, J. Comput. Phys. 17, 87 (1975).  The correction of a residual is ``(H_0 - theta)^-1 r``, where ``H_0`` is the
diagonal and, in a small space of the lowest orbitals, the exact matrix; the same space gives the first guess, so that no root is
missed for lack of overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.checkpoint import fitting
from qsim.sturmian.linalg.vectors import (
    Growing,
    away,
    combination,
    inner,
    quotient,
    ritz,
    row_products,
    subtract,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.core.device.device import Device
    from qsim.sturmian.two_electron.hamiltonian import TwoElectron

__all__ = ["Eigenpairs", "Preconditioner", "lowest", "orthonormal", "relax"]

# Hartree; a denominator is not smaller than this.
LEVEL_SHIFT = 0.05
# Residual, relative to an energy above 1 hartree, from which standing still is rounding and not failure.
FLOOR = 1e-7
# Iterations without progress that end the search.
PATIENCE = 12
# Roots followed beyond those wanted, so that near degeneracies converge.
GUARDS = 2


@dataclass(frozen=True)
class Eigenpairs:
    """Eigenpairs of an operator.

    Attributes
    ----------
    values : (k,) float64
    vectors : (k, P, M, M)
        On the device, orthonormal.
    residuals : (k,) float64
        ``|H x - theta x|``; the error of an eigenvalue is at most residual^2 / gap.
    gaps : (k,) float64
        Distance of each eigenvalue to its nearest neighbour among the Ritz values.
    iterations, products : int
    history : (iterations, k) float64
        Residuals.
    """

    values: NDArray[np.float64]
    vectors: Any
    residuals: NDArray[np.float64]
    gaps: NDArray[np.float64]
    iterations: int
    products: int
    history: NDArray[np.float64]

    @property
    def errors(self) -> NDArray[np.float64]:
        """Bounds of the errors of the eigenvalues, hartree."""
        # Temple's bound. Where a gap is smaller than the residual, the residual itself, which
        # always bounds the error, takes over.
        return self.residuals**2 / np.maximum(self.gaps, self.residuals + 1e-300)


def lowest(
    operator: TwoElectron,
    roots: int,
    *,
    tolerance: float = 1e-10,
    guess: NDArray[np.float64] | None = None,
    max_iterations: int = 300,
    restored: Mapping[str, Any] | None = None,
    observe: Callable[[int, float, float, Callable[[], dict[str, Any]]], None] | None = None,
) -> Eigenpairs:
    """Return the lowest eigenpairs.

    Parameters
    ----------
    operator
        Hamiltonian of one symmetry.
    roots
        How many.
    tolerance
        Residual norm at which an eigenpair counts as converged.
    guess : (m, P, M, M), optional
        First vectors besides the model space.
    restored
        State of an interrupted search, as given to ``observe``.
    observe
        Called with (iteration, lowest value, largest residual, function that returns the state).

    Raises
    ------
    NumericsError
        If there are fewer states of this symmetry in the basis than roots, or the search does not converge.
    """
    xp = operator.device.xp
    wanted = min(roots, operator.size)
    if wanted < roots:
        raise NumericsError(
            f"{roots} roots are requested, but the basis has only {operator.size} functions of L = {operator.L}, S = {operator.S}"
        )
    # The model space, H between the first m functions of each l, gives the first vectors and the part of the
    # preconditioner in which levels lie close.
    m, model_values, model_vectors = operator.model_space()
    # More Ritz vectors than wanted roots are improved: a root that comes in late finds its
    # place before the last wanted one has converged to the wrong state.
    block = min(roots + GUARDS, operator.size)
    precondition = Preconditioner(operator, m, model_values, model_vectors)
    # vectors up to which the space grows: products with H are dear, vectors are large
    most = max(10 * block, 24)
    space = _Space.of(operator, restored) if restored is not None else None
    if space is None:
        start = xp.zeros((min(block, model_values.size), *operator.shape))
        # The model space covers the lowest m orbitals of each l, the upper left corner of every
        # component.
        start[:, :, :m, :m] = operator.device.asarray(model_vectors[: start.shape[0]])
        space = _Space.begun(operator, start if guess is None else xp.concatenate([guess, start]))
    first, applied, iteration, products, history, best, since = space
    room = most + block
    grown, products_grown = Growing(xp, first, room), Growing(xp, applied, room)
    while True:
        V, AV = grown.vectors, products_grown.vectors
        # Rayleigh and Ritz in the space; H V is kept, so that residuals take no further product
        values, weights = np.linalg.eigh(_gram(operator, V, AV))
        k = min(block, values.size)
        w = np.ascontiguousarray(weights[:, :k].T)
        X, R, squares = ritz(operator.device, w, values[:k], V, AV)
        residuals = np.sqrt(squares)
        # Before as many directions exist as roots are wanted, no residual of the missing ones
        # is known.
        history.append(residuals[:roots].copy() if k >= roots else np.full(roots, np.inf))
        worst = float(history[-1].max())
        if not np.isfinite(worst) and k >= roots:
            raise NumericsError(
                f"the residual of the eigenvalue search is not finite (iteration {iteration})"
            )
        # a residual that has not fallen by a tenth for some steps has reached rounding, or the search has stalled
        best, since = (worst, 0) if worst < 0.9 * best else (best, since + 1)
        floor = FLOOR * max(1.0, abs(float(values[0])))
        if worst <= tolerance or (since >= PATIENCE and worst < floor):
            # Gaps are taken from all Ritz values, guards included, so that the last root has a
            # neighbour.
            return Eigenpairs(
                values[:roots],
                X[:roots],
                residuals[:roots],
                _gaps(values, roots),
                iteration,
                products,
                np.array(history),
            )
        if iteration >= max_iterations or since >= 4 * PATIENCE:
            raise NumericsError(
                f"the eigenvalue search stopped at a residual of {worst:.1e} after {iteration} iterations; "
                f"solver.tolerance asks for {tolerance:.1e}"
            )
        # restart from the Ritz vectors
        if V.shape[0] + k > most:
            # Three blocks survive: fewer lose the directions that the last steps have brought
            # in and cost iterations.
            keep = min(max(3 * block, 8), values.size)
            w = np.ascontiguousarray(weights[:, :keep].T)
            grown.turn(operator.device, w)
            products_grown.turn(operator.device, w)
            V = grown.vectors
        # guard vectors keep the order of the roots right and need not converge themselves
        open_ = [i for i in range(k) if residuals[i] > (tolerance if i < roots else 1e-4)]
        T = precondition(R[open_], X[open_], values[open_])
        T = orthonormal(operator.device, operator.symmetrise(T), V)
        # the space is exhausted: what is found is exact to rounding
        if not T.shape[0]:
            if k >= roots:
                best, since = worst, PATIENCE
                if worst < floor:
                    continue
            raise NumericsError(f"the eigenvalue search found no new direction at a residual of {worst:.1e}")
        # Only the new directions meet H: its products with the others are in AV.
        grown.add(T)
        products_grown.add(operator.apply(T))
        iteration, products = iteration + 1, products + int(T.shape[0])
        if observe is not None:
            reached = _Space(grown.vectors, products_grown.vectors, iteration, products, history, best, since)
            observe(iteration, float(values[0]), worst, partial(reached.state, operator))


class _Space(NamedTuple):
    """State of a search: directions, their products with H, and its past."""

    V: Any
    AV: Any
    iteration: int
    products: int
    history: list[NDArray[np.float64]]
    best: float = np.inf
    since: int = 0

    @classmethod
    def of(cls, operator: TwoElectron, state: Mapping[str, Any]) -> _Space:
        """Return the space of a saved search."""
        vectors = (None, *operator.shape)
        return cls(
            operator.device.asarray(fitting(state, "V", vectors)),
            operator.device.asarray(fitting(state, "AV", vectors)),
            int(state["iteration"]),
            int(state["products"]),
            [np.asarray(row) for row in state["history"]],
            float(state.get("best", np.inf)),
            int(state.get("since", 0)),
        )

    @classmethod
    def begun(cls, operator: TwoElectron, start: NDArray[np.float64]) -> _Space:
        """Return the space of the first vectors."""
        V = orthonormal(operator.device, operator.symmetrise(start), None)
        return cls(V, operator.apply(V), 0, int(V.shape[0]), [])

    def state(self, operator: TwoElectron) -> dict[str, Any]:
        """Return the state to save, on the host."""
        host = operator.device.to_host
        return {
            "V": host(self.V),
            "AV": host(self.AV),
            "iteration": self.iteration,
            "products": self.products,
            "history": np.array(self.history),
            "best": self.best,
            "since": self.since,
        }


@dataclass(frozen=True)
class Relaxed:
    """Relaxed states.

    Attributes
    ----------
    energies, errors, before : (k,) float64
        Hartree; the errors are estimates of what may still be gained, and `before` are the mean energies of the start.
    vectors : (count, P, M, M)
        The states, of norm 1, on the device; `count` is smaller than k where the start did not hold them all.
    """

    energies: NDArray[np.float64]
    errors: NDArray[np.float64]
    before: NDArray[np.float64]
    vectors: FloatArray


def relax(
    operator: TwoElectron,
    start: NDArray[np.float64],
    energies: NDArray[np.float64],
    gaps: NDArray[np.float64],
    *,
    settled: float,
    max_steps: int,
) -> Relaxed:
    """Return lower energies of approximate states, good enough to tell how far these were off, and the states.

    Parameters
    ----------
    operator
        Hamiltonian of one symmetry.
    start : (k, P, M, M)
        Approximations of its lowest states.
    energies : (k,) float64
        Their energies elsewhere, hartree: what is wanted is the difference to them.
    gaps : (k,) float64
        Distances to neighbouring states, hartree.
    settled : float
        The search ends when what it may still gain is this share of the difference.
    max_steps : int
        Limit of the steps; with 0, perturbation theory of second order alone.

    """
    xp, k = operator.device.xp, len(energies)
    m, model_values, model_vectors = operator.model_space()
    precondition = Preconditioner(operator, m, model_values, model_vectors)
    # A state that the start does not hold at all.  A single start may be nearly an eigenvector far above the lowest one, where
    # its functions miss the inner orbitals; its residual is small then, and the search would settle there.
    top = min(k, model_values.size)
    lower = bool(np.any(model_values[:top] < np.asarray(energies)[:top]))
    # the lowest model states join the start where they lie below it, or where states might change places
    if lower or (max_steps and k > 1):
        extra = xp.zeros((top, *operator.shape))
        extra[:, :, :m, :m] = operator.device.asarray(model_vectors[:top])
        start = xp.concatenate([start, extra])
    # Steps are as in `lowest`, but without restarts, and with another end: the energies need
    # only be good enough to measure their distance from the run's energies.
    V = orthonormal(operator.device, start, None)
    AV = operator.apply(V)
    before = _means(operator, start[:k], V, AV)
    step = 0
    while True:
        values, weights = np.linalg.eigh(_gram(operator, V, AV))
        count = min(k, values.size)
        w = np.ascontiguousarray(weights[:, :count].T)
        X, R, norms = ritz(operator.device, w, values[:count], V, AV)
        # the energy that further steps would still gain, by perturbation theory with the diagonal of H
        gain = _second_order(operator, precondition.diagonal, R, values[:count])
        # residuals among the lowest states count by the gap, all others by the height of the
        # functions they go to A residual r moves an energy by at most |r|^2 / gap. Where r
        # points at functions high above, second-order perturbation theory is far smaller; four
        # times it is the margin for a diagonal that is not exact. Before the first step the
        # estimate is the gain itself, by which the energies are lowered if there are no steps.
        left = np.minimum(norms / gaps[:count], 4.0 * gain) if step else gain
        off = np.abs(values[:count] - energies[:count])
        # Below 1e-13 of the energy rounding decides, and further steps gain nothing.
        open_ = np.flatnonzero(left > np.maximum(settled * off, 1e-13 * (1.0 + np.abs(values[:count]))))
        if step >= max_steps or (not open_.size and step):
            break
        chosen = open_ if open_.size else np.arange(count)
        T = precondition(R[chosen], X[chosen], values[chosen])
        T = orthonormal(operator.device, operator.symmetrise(T), V)
        if not T.shape[0]:
            break
        V = xp.concatenate([V, T])
        AV = xp.concatenate([AV, operator.apply(T)])
        step += 1
    # Perturbation theory alone: the gain of second order is applied, and is its own error.
    if not max_steps:
        values[:count] -= gain
    # A state that the start did not hold has no energy here: NaN, not zero.
    missing = k - count
    # What the last residuals tell of the states costs no product: their first order in perturbation theory.
    X = operator.symmetrise(X - precondition(R, X, values[:count]))
    X = X / xp.sqrt(xp.sum(X * X, axis=(1, 2, 3)))[:, None, None, None]
    found = np.pad(values[:count], (0, missing), constant_values=np.nan)
    return Relaxed(found, np.pad(left, (0, missing)), before, X)


def _second_order(
    operator: TwoElectron, diagonal: NDArray[np.float64], R: NDArray[np.float64], values: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return ``sum_k |<k|R>|^2 / (H_kk - E)`` of residuals R (m, P, M, M), hartree."""
    xp = operator.device.xp
    # Denominators stay positive: a function below the state belongs to the space of the start,
    # or is a state that was missed, which the steps find.
    gap = xp.maximum(diagonal - operator.device.asarray(values)[:, None, None, None], 2.0 * LEVEL_SHIFT)
    return np.asarray(operator.device.to_host(xp.sum(R * R / gap, axis=(1, 2, 3))))


def _means(operator: TwoElectron, X: FloatArray, V: FloatArray, AV: FloatArray) -> NDArray[np.float64]:
    """Return the mean energies (k,) of states X (k, P, M, M) in the span of an orthonormal basis V."""
    # X lies in the span of V, so that its energy follows from the small matrix V^T H V without
    # another product.
    c = inner(operator.device, X, V)
    return np.asarray(np.einsum("ka,ab,kb->k", c, _gram(operator, V, AV), c) / np.einsum("ka,ka->k", c, c))


def _gram(operator: TwoElectron, V: NDArray[np.float64], AV: NDArray[np.float64]) -> NDArray[np.float64]:
    # Symmetric by construction: rounding of the two triangles differs and eigh reads one of
    # them.
    H = inner(operator.device, V, AV)
    return 0.5 * (H + H.T)


def _gaps(values: NDArray[np.float64], roots: int) -> NDArray[np.float64]:
    """Distance of the first values to their neighbours; of a single value, infinite."""
    padded = np.concatenate([[-np.inf], values, [np.inf]])
    return np.minimum(padded[1:-1] - padded[:-2], padded[2:] - padded[1:-1])[:roots]


def orthonormal(device: Device, block: FloatArray, V: FloatArray | None) -> Any:
    """Return an orthonormal basis of ``block`` outside of ``V``; directions that are not new are dropped.

    Twice: the first pass leaves rounding of the size of what it removed.  The host decides by a few numbers: a GPU would need its
    library of eigenvalues, and kernels for masks, for a matrix of a few rows.
    """
    # each direction first to norm one: the Gram matrix then tells directions that are dependent from short ones
    scale = np.sqrt(np.asarray(device.to_host(row_products(device, block, block))))
    kept = np.flatnonzero(scale > 0)
    if not kept.size:
        return block[:0]
    turns = np.zeros((kept.size, scale.size))
    turns[np.arange(kept.size), kept] = 1.0 / scale[kept]
    T = combination(device, turns, block)
    for _ in range(2):
        if V is not None and len(V):
            subtract(device, T, inner(device, T, V), V)
        gram = inner(device, T, T)
        # Lengths below 1e-10 of a direction that had norm one are rounding of what the
        # subtraction removed.
        new = np.flatnonzero(np.diag(gram) > 1e-20)
        # Orthonormal by the eigenvectors of the Gram matrix: two small matrices on the host, and one product on the
        # device.
        s, u = np.linalg.eigh(0.5 * (gram + gram.T)[np.ix_(new, new)])
        keep = s > 1e-20
        if not keep.any():
            return T[:0]
        weights = np.zeros((int(keep.sum()), len(gram)))
        weights[:, new] = (u[:, keep] / np.sqrt(s[keep])).T
        T = combination(device, weights, T)
    return T


class Preconditioner:
    """``(H_0 - theta)^-1`` with the exact matrix in the model space and a diagonal elsewhere."""

    def __init__(
        self, operator: TwoElectron, m: int, values: NDArray[np.float64], vectors: NDArray[np.float64]
    ) -> None:
        self.device, self.m = operator.device, m
        self.diagonal = operator.diagonal()
        self.values = values
        self.vectors = operator.device.asarray(vectors.reshape(values.size, -1))

    def __call__(self, R: NDArray[np.float64], X: NDArray[np.float64], theta: NDArray[np.float64]) -> Any:
        """Return corrections for residuals R (k, P, M, M) of the Ritz pairs X, theta.

        The part along X that the inverse brings in is taken out (J. Olsen et al., Chem. Phys. Lett. 169, 463 (1990)); else a good
        ``H_0`` would return X itself and nothing new.
        """
        correction, along = self.inverse(R, theta), self.inverse(X, theta)
        weight = row_products(self.device, X, correction) / row_products(self.device, X, along)
        correction -= weight[:, None, None, None] * along
        return correction

    def inverse(self, R: NDArray[Any], theta: NDArray[Any]) -> Any:
        """Return ``(H_0 - theta)^-1 R`` for vectors R (k, P, M, M) and energies theta (k,), hartree; both may be complex."""
        m = self.m
        # Elementwise with the diagonal first; the lowest orbitals, where levels lie close and
        # the diagonal is a poor guess, are then overwritten by the exact inverse in the model
        # space.
        T = quotient(self.device, R, self.diagonal, theta, LEVEL_SHIFT)
        inner = R[:, :, :m, :m]
        amplitudes = inner.reshape(inner.shape[0], -1) @ self.vectors.T
        amplitudes /= self.device.asarray(
            away(np, self.values[None, :] - np.asarray(theta)[:, None], LEVEL_SHIFT)
        )
        T[:, :, :m, :m] = (amplitudes @ self.vectors).reshape(inner.shape)
        return T

"""Claims of a sturmian results file beside their true values."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim
from qsim_checks.sturmian import known
from qsim_checks.sturmian.decks import LAST, tabulated
from qsim_checks.sturmian.hylleraas import s_state
from qsim_checks.sturmian.oracle import Functions, Symmetry, energies, moments

if TYPE_CHECKING:
    from qsim.core.results.results import Results
    from qsim.core.results.tables import Scalar
    from qsim_checks.sturmian.decks import Model

__all__ = ["basis", "bound", "integrals"]

PARTS = ("solver", "radial", "box")
UNSURE = 1e-3  # hartree: error of the oracle from which it tells nothing
COUNT = 16  # functions of each l of the oracle
TABLES = 10.0  # times what two sets of functions of the oracle differ by, of an integral
MOST_PAIRS = 3  # of a state whose expectation values are judged
ROOTS = 1  # highest root of S states that Hylleraas' functions find
WITHDRAWS = "not a bound state|was not estimated"  # that errors may be too small is said by these


def bound(results: Results, deck: dict[str, Any], model: Model) -> list[Claim]:
    """Return the claims of every energy: within its pairs, with all partial waves, extrapolated."""
    claims: list[Claim] = []
    Ls, Ss, roots = (np.asarray(results[name][...]).astype(int) for name in ("L", "S", "root"))
    found = _truths(results, model, roots)
    for k, (L, S, root) in enumerate(zip(Ls, Ss, roots, strict=True)):
        energy = results.scalars[f"energy_{k}"]
        warning = rf"state {k} \(.*({WITHDRAWS})"
        parts = [
            _value(results.scalars[name])
            for part in (*PARTS, "table")
            if (name := f"error_{part}_{k}") in results.scalars
        ]
        claimed = float(sum(parts)) if len(parts) >= len(PARTS) else _error(energy)
        true, oracle = found[k]
        if oracle > UNSURE:
            continue
        claims.append(Claim(f"energy_{k} of its pairs", _value(energy) - true, claimed, 0.0, oracle, warning))
        if "pairs" in deck["channels"]:
            claims += _moment_claims(results, model, k, int(root), warning)
            claims.append(Claim(f"energy_{k}", _value(energy) - true, _error(energy), 0.0, oracle, warning))
            continue
        limit = _limit(results, model, k, (int(L), int(S), int(root)))
        if limit is None:
            continue
        claims.append(Claim(f"energy_{k}", _value(energy) - limit[0], _error(energy), 0.0, limit[1], warning))
        if (name := f"energy_extrapolated_{k}") in results.scalars:
            scalar = results.scalars[name]
            claims.append(Claim(name, _value(scalar) - limit[0], _error(scalar), 0.0, limit[1], warning))
    return claims


def _moment_claims(results: Results, model: Model, k: int, root: int, warning: str) -> list[Claim]:
    """Return the claims of the expectation values of a state with few pairs."""
    symmetry = _symmetry(results, k)
    if len(symmetry.pairs) > MOST_PAIRS:
        return []
    truth = moments(symmetry, root, model.value, model.charge, breaks=model.breaks)
    return [
        Claim(name, _value(scalar) - exact, _error(scalar), 0.0, oracle, warning)
        for name, (exact, oracle) in truth.items()
        if (scalar := results.scalars[f"{name}_{k}"]).error is not None
    ]


def _value(scalar: Scalar) -> float:
    assert isinstance(scalar.value, float | int)
    return float(scalar.value)


def _error(scalar: Scalar) -> float:
    return math.nan if scalar.error is None else float(scalar.error)


def _truths(results: Results, model: Model, roots: Any) -> list[tuple[float, float]]:
    """Return the energy and its error of every state, with the pairs of the run."""
    symmetries = [_symmetry(results, k) for k in range(len(roots))]
    out = []
    for k, symmetry in enumerate(symmetries):
        top = max(int(r) for r, other in zip(roots, symmetries, strict=True) if other == symmetry) + 1
        values, errors = _energies(symmetry, top, model)
        out.append((float(values[roots[k]]), float(errors[roots[k]])))
    return out


@lru_cache(maxsize=32)
def _energies(symmetry: Symmetry, roots: int, model: Model) -> tuple[Any, Any]:
    return energies(
        symmetry, roots, model.value, model.charge, count=COUNT + 2 * (roots - 1), breaks=model.breaks
    )


def _symmetry(results: Results, k: int) -> Symmetry:
    pairs = zip(results[f"pair_weights/{k}/la"][...], results[f"pair_weights/{k}/lb"][...], strict=True)
    L, S = (int(results[name][...][k]) for name in ("L", "S"))
    return Symmetry(L, S, tuple((int(la), int(lb)) for la, lb in pairs))


def _limit(results: Results, model: Model, k: int, state: tuple[int, int, int]) -> tuple[float, float] | None:
    L, S, root = state
    la, lb = _symmetry(results, k).pairs[0]
    natural = (la + lb - L) % 2 == 0
    if model.known == "coulomb":
        found = known.limit(model.Z, L, S, natural, root)
        if found is None and natural and L == 0 and root <= ROOTS:
            found = s_state(model.Z, S, root)
        return found if found is None or found[1] < UNSURE else None
    if model.known.startswith("oscillator") and state == (0, 0, 0):
        energy = known.oscillator(float(model.known.split()[1]))
        return None if energy is None else (energy, 1e-12)
    return None


# ------------------------------------------------------------------------------------------------ basis


def basis(results: Results, deck: dict[str, Any], model: Model) -> list[Claim]:
    """Return the claims of the eigenvalues beta."""
    block, l = deck["basis"], int(deck["task"]["l"])
    generating = block["generating"]
    exponent = math.sqrt(-2.0 * block["energy"])
    edges = _edges(generating, model)
    alpha = _value(results.scalars["basis_alpha"]) if "basis_alpha" in results.scalars else 0.0
    beta = np.asarray(results[f"basis/l{l}/beta"][...])
    name = f"basis/l{l}/beta_error"
    errors = np.asarray(results[name][...]) if name in results else np.full(beta.size, math.nan)
    sets = [Functions(exponent, 2.0 / exponent, count, model.value, edges) for count in (44, 36)]
    found = [_strengths(functions, l, block, alpha, model)[: beta.size] for functions in sets]
    claims = []
    for n in range(beta.size):
        oracle = 2.0 * abs(found[0][n] - found[1][n]) + 1e-9 * abs(found[0][n])
        if oracle > 1e-3 * abs(found[0][n]):
            continue  # more than the oracle can tell
        claims.append(
            Claim(
                f"beta of n = {n + 1}",
                float(beta[n] - found[0][n]),
                float(errors[n]),
                0.0,
                oracle,
                "errors of beta could not be estimated",
            )
        )
    return claims


def integrals(results: Results, deck: dict[str, Any], model: Model) -> list[Claim]:
    """Return the claims of the tables of overlaps and repulsion integrals."""
    block, (l, _) = deck["basis"], deck["channels"]["pairs"][0]
    generating = block["generating"]
    exponent = math.sqrt(-2.0 * block["energy"])
    edges = _edges(generating, model)
    alpha = _value(results.scalars["basis_alpha"]) if "basis_alpha" in results.scalars else 0.0
    sets = [Functions(exponent, 2.0 / exponent, size, model.value, edges) for size in (44, 36)]
    both = [_tables(functions, l, block, alpha, model, deck["task"]["l"][0]) for functions in sets]
    claims = []
    for name, true, other in zip(("overlap", "coulomb", "exchange"), *both, strict=True):
        found = np.asarray(results[f"integrals/{name}"][...])
        if name == "overlap":  # functions of either sign
            found, true, other = np.abs(found), np.abs(true), np.abs(other)
        where = f"integrals/{name}_error"
        errors = np.asarray(results[where][...]) if where in results else np.full(found.shape, math.nan)
        oracle = TABLES * np.abs(true - other).max() + 1e-8 * np.abs(true).max()
        if oracle > 1e-3 * np.abs(true).max():
            continue  # more than the oracle can tell
        worst = int(np.argmax(np.abs(found - true) / (10.0 * np.nan_to_num(errors) + oracle)))
        claims.append(
            Claim(
                f"integrals/{name}",
                float((found - true).ravel()[worst]),
                float(errors.ravel()[worst]),
                0.0,
                float(oracle),
                "errors of the integrals could not be estimated",
            )
        )
    return claims


def _tables(
    functions: Functions, l: int, block: dict[str, Any], alpha: float, model: Model, order: int
) -> Any:
    """Return overlaps, R[nn, mm] and R[nm, nm] of the functions of lowest strength."""
    from scipy.linalg import eigh

    u, _ = functions.functions(l)
    v = _generating(block["generating"], alpha, functions.r, model)
    A = _root(functions.one_body(l) - block["energy"] * np.eye(functions.count))
    V = _root((u * (functions.w * v)) @ u.T)
    if _definite(A):
        mu, vectors = eigh(V, A)
        order_of = np.argsort(-mu)
    else:
        values, right = np.linalg.eig(np.linalg.solve(A, V))
        mu, vectors = values.real, right.real
        held = np.abs(mu) > 1e-10 * np.abs(mu).max()
        order_of = np.argsort(np.where(held, 1.0 / np.where(held, mu, 1.0), np.inf))
    kept = vectors[:, order_of[: int(block["N"])]]
    kept = kept / np.sqrt(np.einsum("an,ab,bn->n", kept, V, kept))
    S = kept.T @ u
    n = len(S)
    rho = (S[:, None] * S[None]).reshape(n * n, -1)
    fields = functions.potential_of(rho, order)
    exchange = ((rho * functions.w) * fields).sum(axis=1).reshape(n, n)
    own = np.arange(n) * (n + 1)
    return (S * functions.w) @ S.T, (rho[own] * functions.w) @ fields[own].T, exchange


def _strengths(functions: Functions, l: int, block: dict[str, Any], alpha: float, model: Model) -> Any:
    from scipy.linalg import eigh

    v = _generating(block["generating"], alpha, functions.r, model)
    u, _ = functions.functions(l)
    A = functions.one_body(l) - block["energy"] * np.eye(functions.count)
    mu = eigh((u * (functions.w * v)) @ u.T, _root(A), eigvals_only=True) if _definite(A) else None
    if mu is None:
        inverse = np.linalg.inv(A)
        R: Any = np.linalg.qr((u * np.sqrt(functions.w * v)).T, mode="r")
        mu = np.linalg.eigvalsh(R @ inverse @ R.T)
    largest = np.abs(mu).max()
    beta = 1.0 / mu[np.abs(mu) > 1e-13 * largest]
    return np.sort(beta)


def _definite(A: Any) -> bool:
    return bool(np.linalg.eigvalsh(A)[0] > 0.0)


def _root(A: Any) -> Any:
    return 0.5 * (A + A.T)


def _edges(block: Any, model: Model) -> tuple[float, ...]:
    """Return where a generating potential ends at once."""
    if isinstance(block, dict) and block["type"] == "table":
        return (LAST / model.rate,)
    return (block["r0"],) if isinstance(block, dict) and "r0" in block else ()


def _generating(block: Any, alpha: float, r: Any, model: Model) -> Any:
    kind = block if isinstance(block, str) else block["type"]
    if kind == "coulomb":
        return 1.0 / r
    if kind == "yukawa":
        return np.exp(-alpha * r) / r
    if kind == "hulthen":
        return 1.0 / np.expm1(alpha * r)
    if kind == "exponential":
        return np.exp(-alpha * r)
    if kind == "table":
        return np.where(r <= LAST / model.rate, tabulated(model.rate, r) / r, 0.0)
    beyond = np.exp(-(r - block["r0"]) / block["tail"]) if block["tail"] else np.zeros_like(r)
    return np.where(r <= block["r0"], 1.0, beyond)

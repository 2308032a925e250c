"""Random quantum systems: gates, transfers, observables and mixtures under any controls, held against dense exponentials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim_checks.coverage import Claim, Trial
from qsim_checks.qoc.quantum import oracle
from qsim_checks.qoc.quantum.files import file_system
from qsim_checks.qoc.quantum.functions import draw_functions, of_functions
from qsim_checks.qoc.quantum.parts import part_system
from qsim_checks.qoc.quantum.variety import vary

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim_checks.qoc.quantum.oracle import World

__all__ = ["quantum"]

# Names of what is maximised.
KINDS = ("probability", "fidelity", "observable")
# Share of the decks without a search whose controls are formulas with kinks and narrow pulses.
FORMULAS = 0.5
# Warnings that withdraw claims.
UNCLAIMED = r"no error is claimed|leaves out the jumps"
# Rounding of the oracle's exponentials: per slot and norm of its exponent.
ROUNDING = 2e-15
# Rows of the oracle's matrices up to which gradients are judged.
MOST_FRECHET = 40
# What tables of states and gradients without a claimed error are held to.
TABLES = 1e-9


def quantum(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a system with its controls and return it with its judge."""
    if rng.random() < 0.7:
        block, world = file_system(rng, folder)
    else:
        block, world = part_system(rng, bool(rng.random() < 0.5))
    deck: dict[str, Any] = {
        "run": {"seed": int(rng.integers(1, 10**6))},
        "system": block,
        "time": {"T": world.duration, "slots": int(rng.integers(1, 25))},
    }
    deck["control"] = [_control(rng, name, world, deck["time"]["slots"]) for name in block["controls"]]
    deck["objective"] = {"alpha": float(rng.choice([0.0, 1e-2]))}
    deck["optimizer"] = "none"
    if rng.random() < 0.5:
        deck["optimizer"] = {"type": "lbfgs", "max_sweeps": int(rng.integers(2, 12))}
        if rng.random() < 0.3 and len(deck["control"]) > 1:
            deck["control"][0]["fixed"] = True
    if world.jumps and rng.random() < 0.5:
        deck["dissipation"] = "lindblad"
    # A stream of its own: what was drawn so far is what the seed gave before there was more to draw.
    vary(rng.spawn(1)[0], deck, kets=not world.jumps)
    known = bool(rng.random() < FORMULAS) and draw_functions(rng, deck, world.duration)

    def claims(results: Results) -> list[Claim]:
        kind = next(name for name in KINDS if name in results.scalars)
        return judge(world, deck, results) + (of_functions(world, deck, kind, results) if known else [])

    return Trial(deck, claims, refusable=_may_be_refused(deck))


def _may_be_refused(deck: dict[str, Any]) -> bool:
    """Return True where a search may start from a point without a gradient."""
    return bool(deck["optimizer"] != "none")


def _control(rng: np.random.Generator, name: str, world: World, slots: int) -> dict[str, Any]:
    """Draw first values, bounds, parameters and shape of one control."""
    unit = 2.0 * np.pi if name[0] in "ab" else 1.0
    size = float(10.0 ** rng.uniform(-0.7, 0.5)) * (3.0 / world.duration / unit if unit > 1.0 else 1.0)
    w, phase = rng.uniform(0.0, 8.0) / world.duration, rng.uniform(0.0, 6.0)
    block: dict[str, Any] = {"name": name}
    block["guess"] = {"type": "expression", "value": f"{size:.6g}*cos({w:.6g}*t + {phase:.6g})"}
    if (drawn := rng.random()) < 0.2:
        block["guess"] = {"type": "random", "amplitude": size, "modes": int(rng.integers(1, 6))}
    if drawn < 0.06:
        block["guess"] = {"type": "noise", "amplitude": size}
    if rng.random() < 0.3:
        block["bounds"] = [-size * float(rng.uniform(0.6, 2.0)), size * float(rng.uniform(0.6, 2.0))]
    kinds = ["slots", "slots", "constant"] + (["bspline"] if slots >= 6 else [])
    kind = str(rng.choice(kinds))
    block["parameters"] = {"type": kind} | (
        {"count": int(rng.integers(4, slots))} if kind == "bspline" else {}
    )
    if rng.random() < 0.2:
        block["shape"] = "sin2"
    return block


def judge(world: World, deck: dict[str, Any], results: Results) -> list[Claim]:
    """Compare a results file with the truth."""
    fields = np.array([results[f"control/{name}"] for name in deck["system"]["controls"]])
    total = oracle.final(world, fields)
    exact, error = oracle.value(world, total), _rounding(world, fields)
    kind = next(name for name in KINDS if name in results.scalars)
    if world.goal.operator is not None:
        error *= max(1.0, float(np.linalg.norm(world.goal.operator, 2)))
    claims = [_claim(name, results, exact, error) for name in (kind, f"{kind}_verified")]
    alpha = float(deck["objective"]["alpha"])
    penalty = alpha * float(np.sum(fields**2)) * world.duration / fields.shape[1]
    claims.append(_claim("objective", results, exact - penalty, error))
    for block in deck["control"]:
        # what is fixed has no constraints
        if block.get("area") == 0.0 and not block.get("fixed"):
            u = results[f"control/{block['name']}"]
            size = max(float(np.abs(u).sum()), 1e-300)
            claims.append(Claim("area", float(u.sum()) / size, np.nan, requested=1e-10))
    # Tables of states have no claimed error; those of all levels are held to the truth.
    if len(results["labels"]) == world.dimension:
        claims += _tables(world, results, total, error)
    claims += _beside(world, results, total, error)
    claims += _of_jumps(world, kind, fields, results, error)
    return claims + _gradient(world, deck, results, alpha, error)


def _beside(world: World, results: Results, total: NDArray[np.complex128], error: float) -> list[Claim]:
    """Return the claims of purity, process fidelity, leakage and seepage, as far as errors are claimed."""
    truths = {"purity": float(np.sum(np.abs(oracle.mean_state(world, total)) ** 2))}
    if world.goal.unitary is not None:
        truths["fidelity_process"], truths["leakage"] = oracle.process(world, total)
        # the mean of all states outside is that of the deck's own basis
        if "seepage" in results.scalars and len(results["labels"]) == world.dimension:
            truths["seepage"] = oracle.seepage(world, total)
    return [
        _claim(name, results, exact, error)
        for name, exact in truths.items()
        if results.scalars[name].error is not None
    ]


def _of_jumps(
    world: World, kind: str, fields: NDArray[np.float64], results: Results, error: float
) -> list[Claim]:
    """Return the claims of the value of the first controls, and of its parts by the number of jumps."""
    scalars, by_order = results.scalars, f"{kind}_no_jump" in results.scalars
    lossy = oracle.without_jumps(world)
    first = np.array([results[f"control_guess/{name}"] for name in _names(results)])
    searched = lossy if by_order else world
    claims = [_claim(f"{kind}_guess", results, oracle.value(searched, oracle.final(searched, first)), error)]
    if by_order:
        zero, one = oracle.orders(world, fields)
        claims.append(_claim(f"{kind}_no_jump", results, zero, error))
        claims.append(_claim(f"{kind}_one_jump", results, zero + one, 1e-8))
    if "coherent_value" in scalars and _number(results, "coherent_value") is not None:
        closed = replace(world, jumps=[])
        claims.append(
            _claim("coherent_value", results, oracle.value(closed, oracle.final(closed, fields)), error)
        )
    return claims


def _names(results: Results) -> list[str]:
    """Return the names of the controls in the order of the deck."""
    return list(results.deck["system"]["controls"])


def _claim(name: str, results: Results, exact: float, error: float) -> Claim:
    scalar = results.scalars[name]
    claimed = np.nan if scalar.error is None else float(scalar.error)
    warning = f"{UNCLAIMED}|the error of {name} is not known"
    return Claim(name, _number(results, name) - exact, claimed, oracle=error, warning=warning)


def _number(results: Results, name: str) -> float:
    """Return the value of a scalar."""
    return float(str(results.scalars[name].value))


def _table(name: str, difference: float, error: float, results: Results) -> Claim:
    """Return what a number without a claimed error is held to: the claimed error of the value, if that is larger."""
    kind = next(name for name in KINDS if name in results.scalars)
    claimed = results.scalars[kind].error or 0.0
    return Claim(name, difference, np.nan, requested=max(TABLES, claimed), oracle=error, warning=UNCLAIMED)


def _tables(world: World, results: Results, total: NDArray[np.complex128], error: float) -> list[Claim]:
    """Return the largest differences of the final density matrix and of the last populations."""
    rho = oracle.mean_state(world, total)
    claims = [
        _table("rho_final", float(np.abs(results["rho_final"] - rho).max()), error, results),
    ]
    if world.start is not None:
        off = np.abs(results["populations"][-1] - np.diag(rho).real).max()
        claims.append(_table("populations", float(off), error, results))
    return claims


def _gradient(
    world: World, deck: dict[str, Any], results: Results, alpha: float, error: float
) -> list[Claim]:
    """Return the norm of dJ/du at the first values beside that of Frechet derivatives."""
    rows = world.dimension ** (2 if world.jumps else 1)
    norms = results["history/gradient_norm"]
    whole = len(results["labels"]) == world.dimension
    # Weights that were left out of a mixture are missing in the gradient as well.
    complete = _number(results, "error_mixture") < TABLES
    # Parameters of clipped modes give back the first values but for the smooth edge of the clipping.
    limited = {"modulus", "area", "slew"}
    plain = all(
        not limited & set(c)
        and c["parameters"]["type"] != "fourier"
        and (c["parameters"] == {"type": "slots"} or not {"bounds", "shape"} & set(c))
        for c in deck["control"]
    )
    if (
        deck["optimizer"] == "none"
        or deck["optimizer"]["type"] != "lbfgs"
        or rows > MOST_FRECHET
        or not (whole and complete and plain and norms.size)
    ):
        return []
    first = np.array([results[f"control_guess/{name}"] for name in deck["system"]["controls"]])
    exact = oracle.gradient_norm(world, first, alpha)
    found = float(norms[0])
    return [
        Claim("history/gradient_norm", found - exact, np.nan, TABLES * (1.0 + exact), 10 * error, UNCLAIMED)
    ]


def _rounding(world: World, fields: NDArray[np.float64]) -> float:
    """Return the rounding of the oracle's products."""
    size = np.linalg.norm(world.drift, 2) + sum(
        np.abs(u).max() ** p * np.linalg.norm(h, 2)
        for u, p, h in zip(fields, world.powers, world.controls, strict=True)
    )
    return ROUNDING * (fields.shape[1] * 10.0 + 4.0 * float(size) * world.duration)

"""Random qoc decks that hold the claimed errors of P, of the verified P, of energies and dipoles against the truth."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from qsim.qoc.control.mesh import way_between
from qsim.qoc.deck.system import parse_weight
from qsim_checks.coverage import Claim, Kind, Trial
from qsim_checks.qoc import oracle
from qsim_checks.qoc.decks import Drawn, draw_deck
from qsim_checks.qoc.quantum import quantum
from qsim_checks.qoc.quantum.constrained import constrained, unusual
from qsim_checks.qoc.quantum.ensembles import ensemble
from qsim_checks.qoc.quantum.families import families
from qsim_checks.qoc.quantum.functionals import functionals
from qsim_checks.qoc.quantum.levels import few_levels
from qsim_checks.qoc.quantum.molecules import molecules
from qsim_checks.qoc.quantum.searches import from_zero
from qsim_checks.qoc.quantum.surfaces import surfaces

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["KINDS", "trial"]

WITHDRAWN = r"beyond the wall the potential falls|degenerate to rounding"
# Decks without a search, and the share of those with a formula that have a narrow pulse.
NO_SEARCH = ("none", {"type": "none"})
NARROW = 0.5
# Steps in which a formula is held, beside those of the run.
FINER = 24
# Share of decks that are no molecule on a line.
QUANTUM = 0.4
UNCLAIMED = WITHDRAWN + r"|no error is claimed: (the reference for P|\d+ narrow pulses)"


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of any kind and return it with its judge."""
    # A stream of its own tells the kind: molecules are those that the seed gave before there were others.
    own = rng.spawn(1)[0]
    return quantum(own, folder) if own.random() < QUANTUM else molecule(rng, folder)


def molecule(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a molecule on a line and return it with its judge."""
    # A stream of its own: what is drawn otherwise stays what the seed gave before.
    own = rng.spawn(1)[0]
    drawn = draw_deck(rng, folder)
    guess = drawn.deck["control"]["guess"]
    if drawn.deck["optimizer"] in NO_SEARCH and guess["type"] == "expression" and own.random() < NARROW:
        guess["value"] += _narrow(own, drawn)
    return Trial(drawn.deck, lambda results: judge(drawn, results))


def _narrow(rng: np.random.Generator, drawn: Drawn) -> str:
    """Return a pulse as narrow as a step or narrower, whose area is a part of that of the field."""
    time = drawn.deck["time"]["T"]
    duration = float(time.split()[0]) * 41.341373336 if isinstance(time, str) else float(time)
    width = duration * float(10.0 ** rng.uniform(-6.0, -2.0))
    height = float(drawn.deck["control"]["guess"]["value"].split("*")[0]) * 0.1 * duration / width
    return f" + {height:.6g}*exp(-((t - {duration * rng.uniform(0.1, 0.9):.9g})/{width:.6g})^2)"


KINDS: Mapping[str, Kind] = {
    "optimise": molecule,
    "quantum": quantum,
    "levels": few_levels,
    "molecules": molecules,
    "ensembles": ensemble,
    "zero": from_zero,
    "families": families,
    "functionals": functionals,
    "surfaces": surfaces,
    "constraints": constrained,
    "unusual": unusual,
}
"""Kinds of decks that can be drawn alone: one particle on a line, any other quantum system, one whose levels do not suffice, a
particle on a line in its levels, ensembles of quantum systems, searches that begin with no control, goals that are
families of gates, goals that are formulas, two coordinates in tables of few rows, controls that keep area, bounds and fluence
together, matrices that are huge or tiny."""


def judge(drawn: Drawn, results: Results) -> list[Claim]:
    """Compare a results file with the truth."""
    energies, dipoles = np.asarray(results["energies"]), np.asarray(results["dipole_matrix"])
    span = float(energies[-1] - energies[0])
    top = float(energies[0]) + 1.8 * max(span, 6.0 * drawn.gap)
    nominal = oracle.levels(drawn.world, top)
    claims = _level_claims(nominal, energies, dipoles, results)
    field, time = np.asarray(results["field"]), np.asarray(results["time"])
    duration = float(time[0] + time[-1])  # the midpoints lie symmetrically in the pulse
    between = str(results.scalars["field_between"].value)
    found = {name: results.scalars[name] for name in ("probability", "probability_verified")}
    claimed = np.asarray(results["dipole_matrix_error"])
    values, errors = _probabilities(drawn, top, dipoles, claimed, field, duration, between)
    exact, error = float(np.mean(values)), float(np.mean(errors))
    for name, scalar in found.items():
        claims.append(_claim(name, scalar, exact, error))
    claims += _kept(drawn.deck["control"], field)
    if "probability_continuous" in results.scalars and set(drawn.deck["control"]) <= {"guess"}:
        claims += _formula_claims(drawn, results, (top, dipoles, claimed), duration, time.size)
    if "probability_worst" in results.scalars:
        most = float(np.max(errors))
        claims.append(_claim("probability_worst", results.scalars["probability_worst"], min(values), most))
        spread = results.scalars["probability_spread"]
        claims.append(_claim("probability_spread", spread, float(np.std(values)), most))
    guess = _first_field(drawn, results)
    if guess is not None:
        way = way_between(guess, drawn.deck["verify"]["interpolation"])
        values, errors = _probabilities(drawn, top, dipoles, claimed, guess, duration, way)
        scalar = results.scalars["probability_guess"]
        claims.append(_claim("probability_guess", scalar, float(np.mean(values)), float(np.mean(errors))))
    if drawn.deck["verify"]["interpolation"] == "auto" and between == "cubic":
        values, errors = _probabilities(drawn, top, dipoles, claimed, field, duration, "hold")
        held, error = float(np.mean(values)), float(np.mean(errors))
        claims.append(_claim("probability, field held", found["probability"], held, error))
    return claims


def _kept(control: dict[str, Any], field: NDArray[np.float64]) -> list[Claim]:
    """Return the claims that constraints of the deck are kept together."""
    claims = []
    if control.get("zero_area"):
        size = max(float(np.abs(field).sum()), 1e-300)
        claims.append(Claim("area", float(field.sum()) / size, np.nan, requested=1e-10))
    if "bounds" in control:
        low, high = control["bounds"]
        beyond = max(float(field.max()) - high, low - float(field.min()), 0.0)
        claims.append(Claim("bounds", beyond, np.nan, requested=1e-12 * (high - low)))
    return claims


def _formula_claims(
    drawn: Drawn,
    results: Results,
    known: tuple[float, NDArray[np.float64], NDArray[np.float64]],
    duration: float,
    steps: int,
) -> list[Claim]:
    """Return the claims of P under the formula itself, by its means over short steps."""
    guess = drawn.deck["control"]["guess"]
    # a file has no values between its rows that were known
    if guess["type"] != "expression" or "1e5" in guess["value"]:
        return []
    text = guess["value"]
    wave, _, narrow = text.partition(" + ")
    values = []
    for finer in (FINER // 2, FINER):
        edges = np.linspace(0.0, duration, finer * steps + 1)
        middles = 0.5 * (edges[1:] + edges[:-1])
        known_names = {"sin": np.sin, "cos": np.cos, "pi": np.pi, "t": middles, "T": duration}
        field = np.asarray(eval(wave.replace("^", "**"), known_names), float)
        if narrow:
            height, centre, width = (
                float(n) for n in re.findall(r"(?<![\w.])[\d.]+(?:e[-+]?\d+)?", narrow)[:3]
            )
            whole = np.diff(erf((edges - centre) / width))
            field = field + height * width * 0.5 * np.sqrt(np.pi) * whole * (finer * steps / duration)
        found, errors = _probabilities(drawn, *known, field, duration, "hold")
        values.append((float(np.mean(found)), float(np.mean(errors))))
    # of second order in the step
    error = values[1][1] + abs(values[1][0] - values[0][0])
    scalars = results.scalars
    names = ("probability", "probability_continuous")
    return [_claim(f"{name}, formula", scalars[name], values[1][0], error) for name in names]


def _first_field(drawn: Drawn, results: Results) -> NDArray[np.float64] | None:
    """Return the first field of the search; None where constraints changed the guess, which alone is in the file."""
    if drawn.deck["optimizer"] in NO_SEARCH:
        return np.asarray(results["field"])
    return np.asarray(results["field_guess"]) if set(drawn.deck["control"]) <= {"guess"} else None


def _claim(name: str, scalar: Any, exact: float, error: float) -> Claim:
    return Claim(
        name,
        float(scalar.value) - exact,
        np.nan if scalar.error is None else float(scalar.error),
        oracle=error + 1e-11,
        warning=UNCLAIMED,
    )


def _level_claims(
    truth: oracle.Truth, energies: NDArray[np.float64], dipoles: NDArray[np.float64], results: Results
) -> list[Claim]:
    """Return the energy and the dipole element that are worst in units of what is claimed."""
    count = min(truth.dipole_error.shape[0], energies.size)
    claimed = np.asarray(results["energies_error"])[:count]
    difference = energies[:count] - truth.energies[:count]
    out = [_worst("energies", difference, claimed, truth.energy_error[:count] + 1e-13)]
    claimed = np.asarray(results["dipole_matrix_error"])[:count, :count]
    uncertain = claimed + truth.dipole_error[:count, :count]
    signs = oracle.signs_like(dipoles[:count, :count], truth.dipoles[:count, :count], uncertain)
    difference = dipoles[:count, :count] - truth.dipoles[:count, :count] * np.outer(signs, signs)
    out.append(_worst("dipole_matrix", difference, claimed, truth.dipole_error[:count, :count] + 1e-12))
    return [claim for claim in out if claim is not None]


def _worst(
    name: str, difference: NDArray[np.float64], claimed: NDArray[np.float64], error: NDArray[np.float64]
) -> Claim | None:
    stated = np.isfinite(claimed) & np.isfinite(error)
    if not np.any(stated):
        return None
    beyond = np.maximum(np.abs(difference[stated]) - error[stated], 0.0)
    worst = int(np.argmax(beyond / (claimed[stated] + 1e-300)))
    return Claim(
        name,
        float(difference[stated][worst]),
        float(claimed[stated][worst]),
        oracle=float(error[stated][worst]),
        warning=WITHDRAWN,
    )


def _probabilities(
    drawn: Drawn,
    top: float,
    dipoles: NDArray[np.float64],
    claimed: NDArray[np.float64],
    field: NDArray[np.float64],
    duration: float,
    between: str,
) -> tuple[list[float], list[float]]:
    """Return the true P of a field of every member of the ensemble, and its error."""
    block = drawn.deck.get("ensemble", {})
    values, errors = [], []
    for mass, depth, scale in product(
        block.get("mass_scale", [1.0]), block.get("potential_scale", [1.0]), block.get("field_scale", [1.0])
    ):
        truth = oracle.levels(drawn.world, top * (depth if top > 0 else 1.0), mass, depth)
        exact = _member(drawn, truth, dipoles, claimed, scale * field, duration, between, 4)
        values.append(exact)
        error = 0.0
        if between == "cubic":
            rough = _member(drawn, truth, dipoles, claimed, scale * field, duration, between, 2)
            error += abs(exact - rough)
        if truth.other is not None:  # close levels, which the two grids may mix in two ways
            mixed = _member(drawn, truth.other, dipoles, claimed, scale * field, duration, between, 4)
            error += abs(exact - mixed)
        # and the rounding of the levels
        errors.append(error + 1e-13 * duration)
    return values, errors


def _member(
    drawn: Drawn,
    truth: oracle.Truth,
    dipoles: NDArray[np.float64],
    claimed: NDArray[np.float64],
    field: NDArray[np.float64],
    duration: float,
    between: str,
    substeps: int,
) -> float:
    """P of one ensemble member."""
    count = truth.energies.size
    common = min(count, dipoles.shape[0])
    signs = np.ones(count)
    block = (slice(common), slice(common))
    signs[:common] = oracle.signs_like(dipoles[block], truth.dipoles[block], claimed[block])
    system = drawn.deck["system"]
    pairs = system.get("pairs") or [{"initial": system["initial"], "target": system["target"]}]
    starts = [signs * oracle.state(pair["initial"], count, parse_weight) for pair in pairs]
    final = oracle.propagate(truth, truth.dipoles, np.array(starts).T, field, duration, between, substeps)
    total = 0.0
    for psi, pair in zip(final.T, pairs, strict=True):
        target = pair["target"]
        for one in target if isinstance(target, list) else [target]:
            total += abs(np.vdot(signs * oracle.state(one, count, parse_weight), psi)) ** 2
    return total / len(pairs)

"""Coverage: whether the errors that runs claim hold on random decks.

A method takes part with a module ``qsim_checks/<method>`` that offers ``trial(rng, folder)``: it draws a deck and says
how to hold the results against truth, found by an oracle that is not the code under test.  Its ``KINDS`` draw decks of one kind
alone.  ``qsim check --coverage N --seed S`` runs N trials per method and prints one table; trial ``i`` of a method depends on the
method, the kind, the seed and ``i`` alone, so that every case can be repeated by itself.

The rule for deterministic claims: the true error must not exceed 10 times the larger of the claimed error and the accuracy
that the deck asked for, unless a warning of the run withdraws the claim.  The rule for statistical claims: the true value
lies within 1, 2 and 3 standard errors of the result as often as the normal law says.  The counts are tested by one-sided
binomial tests with a false-alarm probability of `FALSE_ALARM` each.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import math
import multiprocessing
import re
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from qsim.core.device.workers import threads_shared
from qsim.core.errors import DeckError, NumericsError, QsimError
from qsim.core.results.results import open_results
from qsim.core.run.pipeline import Options, execute

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = [
    "FACTOR",
    "FALSE_ALARM",
    "Claim",
    "Coverage",
    "Judged",
    "Kind",
    "Trial",
    "cover",
    "draw",
    "kinds",
    "run_trial",
    "table",
]

# A deterministic error may be this many times the larger of claimed error and requested accuracy.
FACTOR = 10.0
# Probability with which the binomial test rejects error bars that are exactly right.
FALSE_ALARM = 1e-4
# Numbers of standard errors at which statistical claims are counted.
LEVELS = (1, 2, 3)


@dataclass(frozen=True)
class Claim:
    """One number of one run beside its true value.

    Parameters
    ----------
    quantity
        Name of the scalar or array, as in the results file.
    difference
        Found value minus true value; of an array, the largest in magnitude.
    claimed
        Error that the run states for it; NaN if the run states none, which claims `requested` alone.
    requested
        Accuracy that the deck asked for, in the unit of the quantity; 0 if it asked for none.
    oracle
        Error of the true value itself, which is allowed on top.
    warning
        Regular expression; a warning of the run in which it is found withdraws the claim.
    statistical
        True if `claimed` is a standard error.
    """

    quantity: str
    difference: float
    claimed: float
    requested: float = 0.0
    oracle: float = 0.0
    warning: str = "(?!)"
    statistical: bool = False

    @property
    def allowed(self) -> float:
        """Largest error that keeps the promise of a deterministic claim."""
        stated = [size for size in (self.claimed, self.requested) if math.isfinite(size)]
        return FACTOR * max(stated, default=0.0) + self.oracle

    @property
    def kept(self) -> bool:
        """True if a deterministic claim holds; a difference that is not finite never does."""
        return abs(self.difference) <= self.allowed

    @property
    def deviation(self) -> float:
        """Difference in standard errors, for statistical claims."""
        spread = math.hypot(self.claimed, self.oracle)
        return self.difference / spread if spread > 0 else math.copysign(math.inf, self.difference)


@dataclass(frozen=True)
class Trial:
    """A random deck and its judge.

    Parameters
    ----------
    deck
        Content of the deck; data files that it names are written by ``trial`` into the folder it is given.
    judge
        Function from the results file to the claims, each with its true value.
    refusable
        True if the run may refuse the deck; False where a refusal is as wrong as a wrong number.
    """

    deck: Mapping[str, Any]
    judge: Callable[[Results], Sequence[Claim]]
    refusable: bool = True


# Draws a trial of one kind from random numbers; its data files go into the folder.
Kind = Callable[[np.random.Generator, Path], Trial]


@dataclass(frozen=True)
class Judged:
    """Outcome of one trial.

    Attributes
    ----------
    method, seed, index
        What the trial was drawn from.
    claims
        Claims of the run; empty if the deck was refused.
    warnings
        Warnings of the run.
    refused
        The message with which the run refused to give results (exit codes 3 and 5), or None.
    failure
        The message of any other failure, which breaks the rule.
    """

    method: str
    seed: int
    index: int
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    failure: str | None = None

    def withdrawn(self, claim: Claim) -> bool:
        """Return True if a warning of the run withdraws a claim."""
        return any(re.search(claim.warning, warning) for warning in self.warnings)

    @property
    def broken(self) -> tuple[Claim, ...]:
        """Deterministic claims outside the rule."""
        return tuple(c for c in self.claims if not c.statistical and not c.kept and not self.withdrawn(c))


@dataclass(frozen=True)
class Coverage:
    """The trials of one method, counted."""

    method: str
    trials: tuple[Judged, ...] = field(default=())

    def _claims(self, statistical: bool) -> list[tuple[Claim, bool]]:
        return [
            (claim, trial.withdrawn(claim))
            for trial in self.trials
            for claim in trial.claims
            if claim.statistical == statistical
        ]

    @property
    def deterministic(self) -> list[Claim]:
        """Deterministic claims that no warning withdraws."""
        return [claim for claim, withdrawn in self._claims(statistical=False) if not withdrawn]

    @property
    def statistical(self) -> list[Claim]:
        """Statistical claims that no warning withdraws."""
        return [claim for claim, withdrawn in self._claims(statistical=True) if not withdrawn]

    @property
    def withdrawn(self) -> int:
        """Number of claims that a warning withdraws."""
        return sum(withdrawn for kind in (False, True) for _, withdrawn in self._claims(kind))

    @property
    def broken(self) -> list[tuple[Judged, Claim]]:
        """Deterministic claims outside the rule, with their trials."""
        return [(trial, claim) for trial in self.trials for claim in trial.broken]

    @property
    def failures(self) -> list[Judged]:
        """Trials that ended with neither results nor a refusal."""
        return [trial for trial in self.trials if trial.failure is not None]

    @property
    def worst(self) -> float:
        """Largest ratio of a true error to what its claim allows; NaN without deterministic claims."""
        ratios = [
            abs(c.difference) / c.allowed if c.allowed > 0 else math.inf * bool(c.difference)
            for c in self.deterministic
        ]
        return max((ratio if ratio == ratio else 0.0 for ratio in ratios), default=math.nan)

    @property
    def looseness(self) -> float:
        """Median ratio of the claimed error to the true one, both above the oracle's; NaN without any.

        A claim far above the truth is kept easily and tells nothing.
        """
        ratios = [
            max(c.claimed, c.requested) / abs(c.difference)
            for c in self.deterministic
            if abs(c.difference) > c.oracle and math.isfinite(c.claimed)
        ]
        return median(ratios) if ratios else math.nan

    def within(self, level: int) -> int:
        """Count the statistical claims whose true value lies within `level` standard errors."""
        return sum(abs(claim.deviation) <= level for claim in self.statistical)

    def probability(self, level: int) -> float:
        """Return the probability that right error bars cover at most as many true values as were found."""
        from scipy.stats import binom

        expected = math.erf(level / math.sqrt(2.0))
        return float(binom.cdf(self.within(level), len(self.statistical), expected))

    @property
    def ok(self) -> bool:
        """True if the method keeps the rule."""
        covered = not self.statistical or all(self.probability(level) >= FALSE_ALARM for level in LEVELS)
        return not self.broken and not self.failures and covered


def kinds(method: str) -> tuple[str, ...]:
    """Return the kinds of decks of a method that can be drawn alone."""
    return tuple(importlib.import_module(f"qsim_checks.{method}").KINDS)


def draw(method: str, seed: int, index: int, folder: Path, kind: str | None = None) -> Trial:
    """Draw one trial, of all kinds of decks or of one; its data files go into `folder`."""
    module = importlib.import_module(f"qsim_checks.{method}")
    words = [word.encode() for word in (method, kind) if word is not None]
    rng = np.random.default_rng([seed, index, *map(zlib.crc32, words)])
    make: Kind = module.trial if kind is None else module.KINDS[kind]
    return make(rng, folder)


def run_trial(
    method: str, seed: int, index: int, device: str | None = None, kind: str | None = None
) -> Judged:
    """Run one trial and judge it.

    A refusal (exit codes 3 and 5: no number is printed) is no failure; any other error is.
    """
    with tempfile.TemporaryDirectory(prefix="qsim-coverage-") as name:
        folder = Path(name)
        trial = draw(method, seed, index, folder, kind)
        deck = folder / "deck.yaml"
        deck.write_text(yaml.safe_dump({"method": method, **trial.deck}, sort_keys=False), encoding="utf-8")
        options = Options(device=device, output=folder / "run.h5", figures=False, verbosity=-1)
        try:
            outcome = execute(method, deck, options)
            with open_results(outcome.results) as results:
                claims = tuple(trial.judge(results))
        except (DeckError, NumericsError) as error:
            if not trial.refusable:
                return Judged(method, seed, index, failure=f"refused without need: {error}")
            return Judged(method, seed, index, refused=str(error))
        except (QsimError, ArithmeticError, ValueError, LookupError, TypeError) as error:
            return Judged(method, seed, index, failure=f"{type(error).__name__}: {error}")
        return Judged(method, seed, index, claims, tuple(outcome.summary["warnings"]))


def cover(
    method: str,
    count: int,
    seed: int,
    *,
    device: str | None = None,
    kind: str | None = None,
    jobs: int = 1,
    report: Callable[[Judged], None] = lambda judged: None,
) -> Coverage:
    """Run the trials ``0 .. count - 1`` of a method.

    Parameters
    ----------
    method, count, seed
        What to run.
    device
        As on the command line.
    kind
        One of :func:`kinds`; by default decks are of all of them.
    jobs
        Number of processes.
    report
        Called with every trial when it is judged, in the order of the trials.
    """
    trials = []
    for judged in _judged(method, count, seed, device, kind, jobs):
        report(judged)
        trials.append(judged)
    return Coverage(method if kind is None else f"{method}, {kind}", tuple(trials))


def _judged(
    method: str, count: int, seed: int, device: str | None, kind: str | None, jobs: int
) -> Iterable[Judged]:
    if jobs == 1:
        yield from (run_trial(method, seed, index, device, kind) for index in range(count))
        return
    spawn = multiprocessing.get_context("spawn")  # threads and CUDA do not survive a fork
    with (
        threads_shared(jobs),
        concurrent.futures.ProcessPoolExecutor(jobs, mp_context=spawn) as pool,
    ):
        waiting = [pool.submit(run_trial, method, seed, index, device, kind) for index in range(count)]
        yield from (future.result() for future in waiting)


# ------------------------------------------------------------------------------------------- the table

HEADER = (
    "method",
    "decks",
    "refused",
    "claims",
    "withdrawn",
    "outside",
    "worst error/allowed",
    "claimed/true (median)",
    "within 1σ",
    "2σ",
    "3σ",
    "verdict",
)


def table(coverages: Iterable[Coverage]) -> list[tuple[str, ...]]:
    """Return the rows of the coverage table, as texts, in the order of `HEADER`."""
    return [_row(coverage) for coverage in coverages]


def _row(coverage: Coverage) -> tuple[str, ...]:
    """Return the cells of one method in the table of claimed errors."""
    deterministic, statistical = coverage.deterministic, coverage.statistical
    shares = [
        f"{100.0 * coverage.within(k) / len(statistical):.1f} %" if statistical else "-" for k in LEVELS
    ]
    return (
        coverage.method,
        str(len(coverage.trials)),
        str(sum(trial.refused is not None for trial in coverage.trials)),
        str(len(deterministic) + len(statistical)),
        str(coverage.withdrawn),
        str(len(coverage.broken) + len(coverage.failures)),
        _number(coverage.worst),
        _number(coverage.looseness),
        *shares,
        "ok" if coverage.ok else "BROKEN",
    )


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2g}"

"""Random decks of tridiag hold what they claim; see :mod:`qsim_checks.tridiag`."""

import pytest

from qsim.tridiag.propagate import accuracy
from qsim_checks.coverage import cover, run_trial, table

DECKS = 15


@pytest.fixture(scope="module")
def found():
    return cover("tridiag", DECKS, seed=1)


def test_claims_of_random_decks_hold(found):
    text = "\n".join(f"{trial.index}: {claim}" for trial, claim in found.broken)
    assert found.ok, f"{table([found])}\n{text}\n{[trial.failure for trial in found.failures]}"


def test_few_decks_are_refused_and_few_claims_withdrawn(found):
    assert sum(trial.refused is not None for trial in found.trials) <= 0.15 * DECKS
    assert found.withdrawn <= 0.1 * len(found.deterministic)


def test_claims_are_not_loose(found):
    assert found.looseness < 30


def test_a_planted_lie_is_caught(monkeypatch):
    honest = accuracy.LineCompanions.advance

    def lie(companions, report):
        honest(companions, report)
        companions.errors = {name: error / 100 for name, error in companions.errors.items()}

    monkeypatch.setattr(accuracy.LineCompanions, "advance", lie)
    assert not cover("tridiag", 5, seed=1).ok


def test_a_batch_of_two_rows_is_judged_in_the_scales_of_the_run():
    """The heaviest matching leaves one scale of a matrix of two rows open, and with it what its backward error is worth."""
    trial = run_trial("tridiag", 771199, 10)
    assert trial.claims
    assert not trial.broken

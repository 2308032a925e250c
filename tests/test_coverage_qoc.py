"""Random qoc decks: every claimed error holds, and the check notices an error that is claimed too small."""

import dataclasses

import pytest

from qsim.core.coverage import cover
from qsim.qoc import claims

SMALL = 12
"""Decks of the default run, one second each."""


def test_claimed_errors_hold():
    found = cover("qoc", SMALL, 1)
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]
    assert sum(t.refused is not None for t in found.trials) <= SMALL // 4
    assert found.withdrawn <= 0.1 * len(found.deterministic)
    assert found.looseness < 100


@pytest.mark.slow
def test_claimed_errors_hold_for_many_decks():
    found = cover("qoc", 300, 7)
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]


def test_an_error_claimed_too_small_is_found(monkeypatch):
    honest = claims.Judge.errors

    def small(self):
        errors = honest(self)
        return dataclasses.replace(errors, energies=errors.energies * 0.01, dipoles=errors.dipoles * 0.01)

    monkeypatch.setattr(claims.Judge, "errors", small)
    assert not cover("qoc", 3, 1).ok

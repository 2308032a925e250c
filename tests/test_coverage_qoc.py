"""Random qoc decks: every claimed error holds, and the check notices an error that is claimed too small."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.coverage import cover
from qsim.qoc import claims
from qsim.qoc.coverage import oracle

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


@pytest.mark.parametrize(("levels", "length"), [(1, 2.0), (6, 0.01), (23, 4.0), (9, 70.0)])
def test_the_oracle_propagates_as_matrix_exponentials_do(levels, length):
    rng = np.random.default_rng(levels)
    energies = np.concatenate([[0.0], np.sort(rng.uniform(0.1, 3.0, levels - 1))])
    dipoles = rng.normal(size=(levels, levels))
    dipoles += dipoles.T
    start = rng.normal(size=(levels, 2)) + 1j * rng.normal(size=(levels, 2))
    field = np.array([0.4, -1.3, 0.0])
    truth = oracle.Truth(energies, dipoles, energies, dipoles)
    found = oracle.propagate(truth, dipoles, start, field, 3 * length, "hold", 1)
    expected = start
    for value in field:
        expected = expm(-1j * length * (np.diag(energies) - value * dipoles)) @ expected
    phase = np.vdot(expected, found)
    assert found == pytest.approx(
        expected * phase / abs(phase), abs=1e-13 * max(1.0, length) * np.linalg.norm(start)
    )

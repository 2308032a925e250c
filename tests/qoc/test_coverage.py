"""Random qoc decks: every claimed error holds, and the check notices an error that is claimed too small."""

import dataclasses

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.qoc.errors import claims
from qsim.qoc.models.molecule import on_grid
from qsim_checks.coverage import cover, run_trial
from qsim_checks.qoc import oracle

SMALL = 12
"""Decks of the default run, one second each."""


def test_claimed_errors_hold():
    found = cover("qoc", SMALL, 1)
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]
    assert sum(t.refused is not None for t in found.trials) <= SMALL // 4
    assert found.withdrawn <= 0.1 * len(found.deterministic)
    assert found.looseness < 100


def test_claimed_errors_of_quantum_systems_hold():
    """Files of matrices and named parts, with and without jumps: values, tables and gradients against dense exponentials."""
    found = cover("qoc", SMALL, 3, kind="quantum")
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]
    assert len(found.deterministic) > 4 * SMALL


@pytest.mark.parametrize("index", [2, 5, 27])
def test_claimed_errors_of_molecules_in_levels_hold(index):
    """Warm and relaxing molecules, gates and mean values: the claim itself, without any factor, against a sinc basis."""
    found = run_trial("qoc", 1, index, kind="molecules")
    assert found.failure is None
    assert found.claims
    assert not found.broken


@pytest.mark.parametrize(
    ("kind", "index"), [("families", 2), ("families", 4), ("functionals", 1), ("functionals", 4)]
)
def test_claimed_errors_of_more_goals_hold(kind, index):
    """Values are those of a gate of the family, and no other is better; formulas are those of true mean values and overlaps."""
    found = run_trial("qoc", 5, index, kind=kind)
    assert found.failure is None
    assert found.claims
    assert not found.broken


@pytest.mark.parametrize(
    ("kind", "index"),
    [("constraints", 3), ("constraints", 4), ("unusual", 0), ("unusual", 6), ("unusual", 7)],
)
def test_claimed_errors_of_constraints_and_of_unusual_units_hold(kind, index):
    """Area, bounds and fluence are kept together; a system is the same whatever the units of its matrices."""
    found = run_trial("qoc", 1, index, kind=kind)
    assert found.failure is None
    assert found.claims
    assert not found.broken


def test_matrices_beyond_double_precision_are_refused_by_name():
    found = run_trial("qoc", 1, 5, kind="unusual")
    assert "time.T: expected a number below 1e30" in found.refused


@pytest.mark.parametrize("index", [1, 3, 4])
def test_claimed_errors_of_surfaces_in_tables_hold(index):
    """Two coordinates in tables of few rows against the formula; levels of the fourth deck are not told apart, which it says."""
    found = run_trial("qoc", 1, index, kind="surfaces")
    assert found.failure is None
    assert found.claims
    assert not found.broken


def test_levels_that_kets_show_for_density_matrices_hold(monkeypatch):
    monkeypatch.setattr("qsim.qoc.errors.levels.QUICK", 0.0)
    found = cover("qoc", 8, 12, kind="quantum")
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]


@pytest.mark.exhaustive
def test_claimed_errors_of_many_molecules_in_levels_hold():
    found = cover("qoc", 60, 2, kind="molecules")
    assert found.ok, [(t.index, c) for t, c in found.broken] + [t.failure for t in found.failures]


def test_a_series_cut_too_early_is_found(monkeypatch):
    """Slots whose series ends at 1e-5, with errors that claim nothing, break the rule."""
    from qsim.qoc.propagators import slots
    from qsim.qoc.quantum.verification import Check

    monkeypatch.setattr(slots, "REMAINDER", 1e-5)
    monkeypatch.setattr(Check, "error", property(lambda self: 1e-12))
    assert not cover("qoc", 3, 3, kind="quantum").ok


@pytest.mark.exhaustive
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


@pytest.mark.parametrize(
    ("mass", "depth", "beta", "r0", "span", "points", "levels"),
    [
        (309, 0.164, 0.77, 3.4, (1.1, 7.0), 43, 15),
        (153, 0.528, 0.72, 3.8, (1.4, 6.6), 66, 16),
        (271, 0.168, 0.75, 4.0, (2.1, 6.9), 48, 15),
    ],
)
def test_the_signs_of_good_levels_are_not_read_from_levels_squeezed_by_a_wall(
    mass, depth, beta, r0, span, points, levels
):
    def solve(x):
        v = depth * (np.exp(-beta * (x - r0)) - 1.0) ** 2 - depth
        return on_grid(x, mass, v, np.sin(0.3 * x), levels)

    dx = (span[1] - span[0]) / (points - 1)
    run = solve(span[0] + dx * np.arange(points))
    truth = solve(span[0] + 0.25 * dx * np.arange(8 * points))  # a quarter of the spacing, twice the box
    overlaps = np.sum(run.states * truth.states[:, : 4 * points : 4], axis=1) * dx
    good, signs = np.abs(overlaps) > 0.9, np.sign(overlaps)
    aligned = truth.dipole_matrix * np.outer(signs, signs)
    whole = np.abs(run.dipole_matrix) + np.abs(aligned)
    both = np.outer(good, good)
    off = np.abs(run.dipole_matrix - aligned)
    for unrecognised in (whole, np.nan):
        error = np.where(both, off + 1e-13, unrecognised)
        found = oracle.signs_like(run.dipole_matrix, truth.dipole_matrix, error)
        assert np.all((found * found[0] == signs * signs[0])[good])
    wrong = run.dipole_matrix.copy()
    wrong[[0, 2], [2, 0]] *= -1.0  # no choice of the signs excuses an element that is wrong by itself
    found = oracle.signs_like(wrong, truth.dipole_matrix, error)
    beyond = np.abs(wrong - truth.dipole_matrix * np.outer(found, found)) > 10.0 * error
    assert np.any(beyond[both])

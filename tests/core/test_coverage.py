"""The coverage harness itself, on a method that lies when it is told to; the methods' own decks are in tests/coverage."""

import math

import numpy as np
import pytest
from click.testing import CliRunner

from qsim.cli.group import cli
from qsim_checks import coverage
from qsim_checks.coverage import Claim, Coverage, Judged

METHODS = ("qoc", "trotter", "tridiag", "sturmian", "qmc")


def judged(*claims, warnings=(), **more):
    return Judged("counter", 1, 0, tuple(claims), tuple(warnings), **more)


@pytest.mark.parametrize(
    ("difference", "claimed", "requested", "kept"),
    [
        (9.9e-8, 1e-8, 0.0, True),
        (1.01e-7, 1e-8, 0.0, False),
        (-1.01e-7, 1e-8, 0.0, False),
        (9e-6, 1e-12, 1e-6, True),
        (1e-9, math.nan, 0.0, False),
        (1e-9, math.nan, 1e-9, True),
        (math.nan, 1.0, 0.0, False),
        (math.inf, 1.0, 0.0, False),
        (0.0, 0.0, 0.0, True),
    ],
)
def test_a_deterministic_claim_is_kept_up_to_ten_times(difference, claimed, requested, kept):
    assert Claim("x", difference, claimed, requested).kept is kept


def test_the_oracle_is_allowed_its_own_error():
    assert Claim("x", 1.5e-9, 1e-10, oracle=6e-10).kept
    assert not Claim("x", 1.7e-9, 1e-10, oracle=6e-10).kept


def test_a_warning_withdraws_the_claims_that_it_speaks_of():
    claim = Claim("x", 1.0, 1e-9, warning="grid .* too coarse")
    assert judged(claim).broken == (claim,)
    assert judged(claim, warnings=["the box is too small"]).broken == (claim,)
    assert judged(claim, warnings=["deck.yaml:3:1: the grid is too coarse"]).broken == ()


def test_a_claim_that_names_no_warning_is_withdrawn_by_none():
    claim = Claim("x", 1.0, 1e-9)
    assert judged(claim, warnings=["anything", ""]).broken == (claim,)


def test_failures_break_the_rule_and_refusals_do_not():
    assert not Coverage("counter", (judged(failure="KeyError: 'x'"),)).ok
    assert Coverage("counter", (judged(refused="no"),)).ok


def normal(count, scale, seed=3):
    rng = np.random.default_rng(seed)
    claims = [Claim("e", float(x), 1.0, statistical=True) for x in scale * rng.standard_normal(count)]
    return Coverage("counter", tuple(judged(claim) for claim in claims))


def test_right_error_bars_pass_and_those_a_third_too_small_do_not():
    assert normal(1000, 1.0).ok
    assert not normal(1000, 1.5).ok


def test_right_error_bars_fail_as_rarely_as_promised():
    rejected = sum(not normal(60, 1.0, seed).ok for seed in range(300))
    assert rejected <= 2  # 300 x 3 x 1e-4 = 0.09 are expected; three or more have a probability of 1e-4


def test_the_table_has_a_column_for_each_heading():
    rows = coverage.table([normal(10, 1.0), Coverage("other")])
    assert {len(row) for row in rows} == {len(coverage.HEADER)}


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_decks_can_be_drawn_alone_and_again(method, tmp_path):
    """A deck depends on method, kind, seed and number alone; decks of two kinds differ."""
    decks = {}
    for kind in coverage.kinds(method):
        (folder := tmp_path / kind).mkdir()
        decks[kind], again = (coverage.draw(method, 7, 1, folder, kind).deck for _ in range(2))
        assert repr(decks[kind]) == repr(again)
    assert len({repr(deck) for deck in decks.values()}) == len(decks) > 0


def test_kinds_are_named_on_the_command_line():
    run = CliRunner().invoke(cli, ["check", "trotter", "--coverage", "1", "--kind", "levels"])
    assert run.exit_code == 0, run.output
    assert "trotter, levels" in run.output
    for arguments, message in (
        (["check", "trotter", "--coverage", "1", "--kind", "wild"], "it has evolve, pulses, spectrum"),
        (["check", "--coverage", "1", "--kind", "levels"], "needs the method"),
        (["check", "trotter", "--kind", "levels"], "belong to --coverage"),
    ):
        run = CliRunner().invoke(cli, arguments)
        assert run.exit_code == 2
        assert message in run.output

"""Claimed errors of trotter on random decks, and that a lie would be seen."""

from dataclasses import replace

import numpy as np
import pytest

from qsim.core.run.coverage import cover, draw, run_trial
from qsim.trotter import run

SEED = 1
COUNT = 24


def test_every_claimed_error_holds_or_a_warning_says_so():
    found = cover("trotter", COUNT, SEED)
    outside = [
        (trial.index, claim.quantity, claim.difference, claim.allowed) for trial, claim in found.broken
    ]
    assert not outside
    assert not found.failures
    assert found.ok
    refused = [trial for trial in found.trials if trial.refused is not None]
    assert len(refused) <= COUNT // 8
    assert found.withdrawn <= 0.1 * (len(found.deterministic) + found.withdrawn)


def test_a_lie_is_seen(monkeypatch):
    """Errors that are claimed a hundred times too small break the rule."""
    honest = run.integration
    monkeypatch.setattr(
        run, "integration", lambda *args: replace(how := honest(*args), error=1e-2 * how.error)
    )
    seen = 0
    for index in range(COUNT):
        seen += bool(run_trial("trotter", SEED, index).broken)
        if seen >= 2:
            return
    pytest.fail("no lie was seen")


def test_the_decks_reach_what_is_rare(tmp_path):
    drawn = [dict(draw("trotter", 7, index, tmp_path).deck) for index in range(400)]
    decks = [deck for deck in drawn if "task" not in deck]
    _reach_what_is_rare_beside_evolutions([deck for deck in drawn if "task" in deck])
    terms = [term for deck in decks for term in deck["system"]["terms"]]
    kinds = {term["type"] for term in terms}
    assert {
        "heisenberg",
        "xx",
        "ising",
        "double_quantum",
        "xxz",
        "xyz",
        "power_law",
        "dipolar",
        "pairs",
        "field",
    } <= kinds
    assert {"ramp", "cosine", "table", "expression"} <= {
        term["profile"]["type"] for term in terms if "profile" in term
    }
    assert any(isinstance(deck.get("sector"), dict) for deck in decks)
    assert {deck["evolve"].get("integrator") for deck in decks} >= {"ts1", "ts4", "kl8", "auto", "chebyshev"}
    assert {deck["initial"]["type"] for deck in decks} >= {"basis", "product", "a1", "haar", "mps", "file"}
    assert max(deck["system"]["spins"] for deck in decks) == 14
    assert any("dt" in deck["evolve"] for deck in decks)
    assert any(deck["evolve"].get("verify") for deck in decks)
    assert any(deck["run"].get("precision") == "single" for deck in decks)
    assert any("ensemble" in deck for deck in decks)
    echoes = [item["echo"] for deck in decks for item in deck["observe"] if "echo" in item]
    assert any("local" in echo for echo in echoes)
    assert any(term.get("profile") for echo in echoes for term in echo["sigma"])
    assert np.mean([bool(echo["sigma"]) for echo in echoes]) > 0.5


def _reach_what_is_rare_beside_evolutions(decks):
    """Few vectors and few steps at temperatures far below the couplings, with no sector diagonalised."""
    assert {deck["task"] for deck in decks} >= {"thermal", "floquet", "dynamics"}
    blocks = [deck["thermal"] for deck in decks if deck["task"] == "thermal"]
    assert {block["vectors"] for block in blocks} >= {3, 20}
    assert {block["steps"] for block in blocks} >= {"auto", 2, 40}
    assert any(block["exact"] == 0 and min(block["temperatures"]) < 0.03 for block in blocks)
    assert {deck["dynamics"]["operator"] for deck in decks if deck["task"] == "dynamics"} == {
        "sz",
        "sp",
        "sm",
    }

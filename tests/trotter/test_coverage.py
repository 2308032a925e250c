"""Claimed errors of trotter on random decks, and that a lie would be seen."""

from dataclasses import replace

import numpy as np
import pytest

from qsim.trotter.evolve import run
from qsim.trotter.spectrum.search import LowestLevels
from qsim_checks.coverage import cover, draw, run_trial
from qsim_checks.trotter import KINDS
from qsim_checks.trotter.momenta import POINTS

SEED = 1
COUNT = 16
# of every kind: what a tenth of the decks has is drawn by nine gates of ten
OF_A_KIND = {"spectrum": 24, "thermal": 12}
FEWER = 6


@pytest.mark.parametrize("kind", KINDS)
def test_every_claimed_error_holds_or_a_warning_says_so(kind):
    count = OF_A_KIND.get(kind, FEWER)
    found = cover("trotter", count, SEED, kind=kind)
    outside = [
        (trial.index, claim.quantity, claim.difference, claim.allowed) for trial, claim in found.broken
    ]
    assert not outside
    assert not found.failures
    assert found.ok
    refused = [trial for trial in found.trials if trial.refused is not None]
    # without a total Sz many ground states are degenerate, and sectors that H does not have are drawn, too
    assert len(refused) <= 1 + count // (2 if kind.endswith("anywhere") else 8)
    # spectra in energy of few products are drawn, too, which take their claims back
    share = 0.6 if kind == "dynamics_anywhere" else 0.1
    assert (
        found.withdrawn <= share * (len(found.deterministic) + len(found.statistical) + found.withdrawn) + 3
    )


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


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("degeneracy", property(lambda self: 1)),  # one state, whatever symmetries there are
        ("second", property(lambda self: (10.0 * self.lowest[0], 0.0))),  # a level that was passed over
    ],
)
def test_a_lie_about_levels_is_seen(monkeypatch, tmp_path, name, lie):
    monkeypatch.setattr(LowestLevels, name, lie)
    for index in range(100):
        deck = draw("trotter", SEED, index, tmp_path).deck
        if deck.get("task") == "spectrum" and run_trial("trotter", SEED, index).broken:
            return
    pytest.fail("no lie was seen")


def test_the_decks_reach_what_is_rare(tmp_path):
    drawn = [dict(draw("trotter", 7, index, tmp_path).deck) for index in range(900)]
    decks = [deck for deck in drawn if "task" not in deck]
    spectra = [deck for deck in drawn if deck.get("task") in ("spectrum", "levels")]
    _reach_what_is_rare_in_spectra(spectra)
    _reach_what_is_rare_beside_evolutions([deck for deck in drawn if "task" in deck and deck not in spectra])
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
    drawn = {deck["dynamics"]["operator"] for deck in decks if deck["task"] == "dynamics"}
    assert drawn >= {"sx", "sy", "sz", "sp", "sm"}
    # of unlike components
    assert drawn & {"xy", "yz", "zx"}


def _reach_what_is_rare_in_spectra(decks):
    """Degenerate levels of all kinds: rings with next neighbours, ferromagnets, tori, currents; every symmetry of a sector."""
    terms = [term for deck in decks for term in deck["system"]["terms"]]
    assert {term["type"] for term in terms} >= {"heisenberg", "xxz", "xx", "ising", "pairs", "dm", "field"}
    assert any("shells" in term for term in terms)
    assert any(term.get("J", 1.0) < 0 for term in terms if not isinstance(term.get("J"), list))
    lattices = [term["lattice"] for term in terms if "lattice" in term]
    lattices += [deck["system"]["lattice"] for deck in decks if "lattice" in deck["system"]]
    assert {"ring", "all", *POINTS} <= {lattice["type"] for lattice in lattices}
    observed = [item for deck in decks for item in deck.get("observe", ()) if "structure_factor" in item]
    assert any("q" in item for item in observed)
    assert {lattice.get("images") for lattice in lattices} == {None, "one", "all"}
    sectors = [deck["sector"] for deck in decks if deck["sector"] != "auto"]
    assert {name for sector in sectors if sector != "full" for name in sector} == {
        *("up", "momentum", "inversion", "reflection", "parity")
    }
    assert "full" in sectors
    assert len(sectors) < 0.6 * len(decks)
    assert {deck["task"] for deck in decks} == {"spectrum", "levels"}

"""Momentum, reflection and permutations in decks: reference levels, what is observed, level statistics, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
OBSERVED = [
    {"sz": "all"},
    {"correlator": ["xx", "zz"], "pairs": "all"},
    {"structure_factor": ["xx", "zz"]},
    {"entropy": {"cuts": "all", "spectrum": 3}},
]


def ring(spins, delta=1.0, **field):
    terms = [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": delta}]
    return {"spins": spins, "terms": [*terms, *([{"type": "field", "axis": "z", **field}] if field else [])]}


def levels(trotter, system, sector, observe=(), **block):
    return trotter.run(task="spectrum", system=system, sector=sector, spectrum=block, observe=list(observe))


def test_momenta_of_the_reference(trotter):
    """Levels of the ring of 12 spins by momentum; k and -k have the same."""
    entry = REFERENCES["momentum_ring_12"]
    found = levels(trotter, ring(12), {"up": 6, "momentum": "all"}, levels=3)
    assert [s.momentum for s in found.sectors] == list(range(12))
    for expected in entry["result"]:
        for k in {expected["k"], -expected["k"] % 12}:
            assert found.sectors[k].dimension == expected["dimension"]
            np.testing.assert_allclose(found.levels[k], expected["lowest"], rtol=0, atol=entry["tolerance"])
    arrays = Method("trotter").arrays(found)
    np.testing.assert_allclose(arrays["sector_momentum"], np.arange(12) / 6)


def test_bethe_with_all_symmetries(trotter):
    """24 sites: the ground state is even under everything (N a multiple of 4), in 28 968 of 2 704 156 states."""
    sector = {"sz": 0, "momentum": 0, "reflection": "even", "inversion": "even"}
    found = levels(trotter, ring(16), sector)
    assert found.levels[0, 0] == pytest.approx(REFERENCES["bethe_ring_16"]["result"]["E0"], abs=1e-11)
    assert str(found.extreme) == "Sz = 0, momentum 2 pi 0/16, even under reflection, even under inversion"
    big = levels(trotter, ring(24), sector)
    assert big.extreme.dimension == 28968
    assert big.levels[0, 0] == pytest.approx(REFERENCES["bethe_ring_24"]["result"]["E0"], abs=1e-10)


@pytest.mark.parametrize("momentum", [4, 3])
def test_what_is_observed(trotter, momentum):
    """The lowest state of a momentum, real or complex, has the values of the same level in the sector of Sz."""
    system = ring(8, 0.3, values=0.2)
    sector = {"up": 5, "momentum": momentum}
    found = levels(trotter, system, sector, OBSERVED)
    if (
        momentum != 4
    ):  # of the lowest level of all; k and -k: the same real parts of everything that is observed here
        other = levels(trotter, system, {"up": 5, "momentum": 8 - momentum}, OBSERVED)
    else:
        other = levels(trotter, system, {"up": 5}, OBSERVED)
    assert other.levels[0, 0] == pytest.approx(found.levels[0, 0], abs=1e-11)
    for name, expected in other.observed.items():
        if name != "schmidt_sz":  # equal coefficients come in any order
            np.testing.assert_allclose(found.observed[name], expected, rtol=0, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(found.observed["sz"], 1 / 8, atol=1e-12)


def test_reflection_of_a_chain(trotter):
    """Both signs of an open chain make up its levels."""
    system = {"spins": 9, "terms": [{"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.4}]}
    whole = levels(trotter, system, {"up": 4}, levels=6).levels[0]
    signs = [levels(trotter, system, {"up": 4, "reflection": s}, levels=6).levels[0] for s in ("even", "odd")]
    np.testing.assert_allclose(np.sort(np.concatenate(signs))[:6], whole, rtol=0, atol=1e-11)


def test_level_statistics_of_one_momentum(trotter):
    """A chaotic ring with next neighbours: mixed momenta look random and are warned of, one momentum does not."""
    system = {
        "spins": 14,
        "terms": [
            {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6},
            {"type": "xxz", "lattice": "ring", "shells": [2], "Jxy": 0.8, "Jz": 0.8},
        ],
    }
    sector = {"up": 5, "momentum": 2}
    found = trotter.run(
        task="levels",
        system=system,
        sector=sector,
        levels={"statistics": ["gap_ratio", "participation", "entropy"]},
    )
    assert found.levels.shape[1] == 143
    assert found.ratios[0] == pytest.approx(0.5307, abs=0.06)  # 47 ratios of a standard deviation of 0.26
    assert found.participation.min() > 0.0
    assert found.entropies.max() < 7 * np.log(2)


BASE = {"task": "spectrum", "system": ring(6)}
REFUSED = {
    "out of range": ({"sector": {"sz": 0, "momentum": 6}}, "k from 0 to 5; found 6"),
    "reflection of a momentum": (
        {"sector": {"sz": 0, "momentum": 1, "reflection": 1}},
        "only k = 0 and 3 of 6 sites goes with it; found 1",
    ),
    "in an evolution": (
        {
            "task": "evolve",
            "sector": {"sz": 0, "momentum": 0},
            "initial": {"type": "neel"},
            "evolve": {"t_final": 1.0, "accuracy": 1e-6},
        },
        "only 0.5 of the initial state neel lies in Sz = 0, momentum",
    ),
    "open": (
        {
            "system": {"spins": 6, "terms": [{"type": "heisenberg", "lattice": "chain"}]},
            "sector": {"up": 3, "momentum": 0},
        },
        "not invariant under the shift by one site: Jx of sites",
    ),
    "disordered": (
        {"system": ring(6, values=[0.1, 0, 0, 0, 0, 0]), "sector": {"up": 3, "reflection": 1}},
        "not invariant under reflection: the field along z is 0.1 at site 0 and 0 at site 5",
    ),
    "field and inversion": (
        {"system": ring(6, values=0.1), "sector": {"up": 3, "momentum": 0, "inversion": 1}},
        "changes its sign under the inversion",
    ),
    "empty": ({"sector": {"up": 6, "momentum": 1}}, "the sector is empty"),
    "no permutation": (
        {"sector": {"up": 3, "permutations": [{"sites": [0, 0, 1, 2, 3, 4]}]}},
        "every site from 0 to 5 once",
    ),
    "number": (
        {"sector": {"up": 3, "permutations": [{"sites": [1, 2, 3, 4, 5, 0], "number": 6}]}},
        "order 6: number is 0 to 5, found 6",
    ),
    "no common state": (
        {"sector": {"up": 3, "momentum": 1, "permutations": [{"sites": [5, 4, 3, 2, 1, 0]}]}},
        "no state has all of these properties",
    ),
    "many": ({"task": "levels", "sector": {"up": 3, "momentum": "all"}}, "give one momentum"),
    "twice": ({"sector": {"up": 3, "momentum": [1, 1]}}, "expected different values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    with pytest.raises(DeckError, match=message):
        trotter.run(**{**BASE, **changes})


def test_momenta_without_states_are_left_out(trotter):
    found = levels(trotter, ring(6), {"up": [6, 5], "momentum": "all"})
    assert [(s.down, s.momentum) for s in found.sectors] == [(0, 0), *((1, k) for k in range(6))]


def test_a_permutation_in_a_deck(trotter):
    """The shift as a user's permutation: the levels of that momentum."""
    shift = {"sites": [1, 2, 3, 4, 5, 6, 7, 0], "number": 3}
    a = levels(trotter, ring(8), {"up": 4, "permutations": [shift]}, levels=4)
    b = levels(trotter, ring(8), {"up": 4, "momentum": 3}, levels=4)
    np.testing.assert_allclose(a.levels, b.levels, rtol=0, atol=1e-11)


@pytest.mark.gpu
def test_with_a_gpu(trotter, cuda):
    """Stored matrices are multiplied on the CPU, also where a GPU was chosen."""
    blocks = {**BASE, "sector": {"sz": 0, "momentum": "all"}, "observe": OBSERVED}
    found, expected = (
        stage("trotter", "run").run(trotter.build(device=device, **blocks), Monitor.silent())
        for device in (cuda, None)
    )
    np.testing.assert_allclose(found.levels, expected.levels, rtol=0, atol=1e-11)
    np.testing.assert_allclose(found.observed["entropy"], expected.observed["entropy"], rtol=0, atol=1e-8)

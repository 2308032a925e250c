"""Levels of sectors: Bethe's ansatz, dense matrices, degeneracies, and what is observed in the lowest state."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.device import device as core_device
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, MemoryLimitError, NumericsError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors import lowest
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.lanczos import Search
from qsim.trotter.sectors.operator import SectorOperator
from qsim.trotter.spectrum.run import Computation
from qsim.trotter.spectrum.search import LowestLevels

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}


def ring(spins, delta=1.0):
    return {"spins": spins, "terms": [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": delta}]}


def levels(trotter, system, sector="auto", observe=(), **block):
    return trotter.run(task="spectrum", system=system, sector=sector, spectrum=block, observe=list(observe))


def test_bethe(trotter):
    expected = REFERENCES["bethe_ring_16"]["result"]
    found = levels(trotter, ring(16), {"up": [8, 9]})
    np.testing.assert_allclose(
        found.levels[:, 0], [expected["E0"], expected["E_triplet"]], rtol=0, atol=1e-11
    )
    assert found.residuals.max() <= 1e-10


@pytest.mark.parametrize("sign", [1, -1])
def test_bethe_with_inversion(trotter, sign):
    """The ground state of 16 sites is even, the triplet state odd (total spin 0 and 1 of an even number of pairs)."""
    expected = REFERENCES["bethe_ring_16"]["result"]["E0" if sign == 1 else "E_triplet"]
    found = levels(trotter, ring(16), {"sz": 0, "inversion": sign})
    assert found.sectors[0].dimension == 6435
    assert found.levels[0, 0] == pytest.approx(expected, abs=1e-11)


def test_kagome_of_twelve_sites(trotter):
    """E/N = -0.453740 of the 2 x 2 kagome torus: Leung and Elser, Phys. Rev. B 47, 5459 (1993), Table I."""
    torus = {"type": "heisenberg", "lattice": {"type": "kagome", "periodic": True}, "J": 1.0}
    found = trotter.run(system={"spins": 12, "terms": [torus]}, task="spectrum", spectrum={"levels": 2})
    assert float(found.listed[0, 0]) / 12 == pytest.approx(-0.453740, abs=1e-6)


def test_anisotropic_ring(trotter):
    expected = REFERENCES["bethe_xxz_ring_12"]["result"]
    found = levels(trotter, ring(12, 0.5), {"sz": [0, 1]})
    np.testing.assert_allclose(found.levels[:, 0], [expected["E0"], expected["E1"]], rtol=0, atol=1e-11)


def test_disordered_chain_and_its_entropies(trotter):
    entry = REFERENCES["levels_mbl_12"]
    terms = [
        {"type": "heisenberg", "lattice": "chain", "J": 1.0},
        {"type": "field", "axis": "z", "values": entry["params"]["h"]},
    ]
    system, expected = {"spins": 12, "terms": terms}, entry["result"]
    found = levels(trotter, system, {"sz": 0}, [{"entropy": {"sites": "half"}}], levels=6)
    np.testing.assert_allclose(found.levels[0], expected["lowest"], rtol=0, atol=1e-11)
    assert found.observed["entropy"][0] == pytest.approx(expected["half_chain_entropy_ground"], abs=1e-9)
    highest = levels(trotter, system, {"sz": 0}, levels=3, which="highest")
    np.testing.assert_allclose(highest.levels[0], expected["highest"][::-1], rtol=0, atol=1e-11)


@pytest.mark.parametrize("count", [1, 5, 9])
def test_multiplicities(count):
    """k and -k are degenerate on a ring, all levels are without couplings: each is found as often as it is there."""
    J = np.zeros((3, 10, 10))
    for j in range(10):
        J[:, j, (j + 1) % 10] = J[:, (j + 1) % 10, j] = 1.0
    for model in (Model(10, J, np.zeros((3, 10))), Model.zero(10)):
        sector = Sector(10, 3)
        matrix = dense(model).real[np.ix_(sector.strings(), sector.strings())]
        search = Search(cpu(1), SectorOperator(cpu(1), sector, model), count, 1e-10, 10.0)
        while not search.complete:
            search.next_level()
        np.testing.assert_allclose(
            search.found.energies, np.linalg.eigvalsh(matrix)[:count], rtol=0, atol=1e-10
        )
        overlaps = np.array(search.found.vectors) @ np.array(search.found.vectors).T
        np.testing.assert_allclose(overlaps, np.eye(count), rtol=0, atol=1e-10)


@pytest.mark.parametrize("down", [0, 1, 5])
def test_sectors_with_few_states(down):
    """All levels of a sector, also of a single state."""
    J = np.zeros((3, 5, 5))
    J[:2, 0, 1] = J[:2, 1, 0] = 0.7
    model = Model(5, J, np.array([np.zeros(5), np.zeros(5), np.arange(5.0)]))
    sector = Sector(5, down)
    matrix = dense(model).real[np.ix_(sector.strings(), sector.strings())]
    search = Search(cpu(1), SectorOperator(cpu(1), sector, model), 99, 1e-12, 10.0)
    while not search.complete:
        search.next_level()
    np.testing.assert_allclose(search.found.energies, np.linalg.eigvalsh(matrix), rtol=0, atol=1e-12)


def test_auto_finds_the_sectors(trotter):
    """A ferromagnet with Ising anisotropy has its ground states at the ends, a Heisenberg model a member at the least |Sz|."""
    ferro = levels(trotter, ring(7, -2.0))
    exact = np.linalg.eigvalsh(dense(ferro.problem.model))[0]
    assert [s.sz for s in ferro.sectors] == [3.5, 2.5, 1.5, 0.5]
    assert ferro.levels[ferro.order[0]] == pytest.approx(exact, abs=1e-11)
    assert ferro.extreme.sz == 3.5
    assert [s.sz for s in levels(trotter, ring(7)).sectors] == [0.5]
    system = ring(5)
    system["terms"].append({"type": "field", "axis": "z", "values": 3.0})
    field = levels(trotter, system)
    assert len(field.sectors) == 6
    assert field.levels[field.order[0]] == pytest.approx(
        np.linalg.eigvalsh(dense(field.problem.model))[0], abs=1e-11
    )


def test_observables_of_the_ground_state(trotter):
    system = {"spins": 8, "terms": [{"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.4}]}
    system["terms"].append({"type": "field", "axis": "z", "values": "0.1*j"})
    observe = [
        {"sz": "all"},
        {"correlator": ["xx", "zz"], "pairs": "all"},
        {"structure_factor": ["xx", "zz"]},
        {"entropy": {"cuts": "all", "spectrum": 3}},
    ]
    found = levels(trotter, system, {"up": 5}, observe)
    sector = found.extreme
    H = dense(found.problem.model).real
    strings = sector.strings()
    values, vectors = np.linalg.eigh(H[np.ix_(strings, strings)])
    psi = np.zeros(256)
    psi[strings] = vectors[:, 0]
    assert found.levels[0, 0] == pytest.approx(values[0], abs=1e-11)
    s = 0.5 - (np.arange(256)[:, None] >> np.arange(8) & 1)
    zz = np.einsum("n,nj,nk->jk", psi**2, s, s)
    xx = np.array([[psi @ psi[np.arange(256) ^ (1 << j) ^ (1 << k)] / 4 for k in range(8)] for j in range(8)])
    upper = np.triu_indices(8, 1)
    np.testing.assert_allclose(found.observed["sz"], psi**2 @ s, rtol=0, atol=1e-9)
    for name, matrix in (("xx", xx), ("zz", zz)):
        np.testing.assert_allclose(found.observed[f"correlator_{name}"], matrix[upper], rtol=0, atol=1e-9)
        q = 2 * np.pi * np.arange(8) / 8
        factor = [sum(matrix[j, k] * np.cos(x * (j - k)) for j in range(8) for k in range(8)) / 8 for x in q]
        np.testing.assert_allclose(found.observed[f"structure_factor_{name}"], factor, rtol=0, atol=1e-9)
    for cut in range(1, 8):
        p = np.linalg.svd(psi.reshape(-1, 1 << cut), compute_uv=False) ** 2
        entropy = -sum(x * np.log(x) for x in p if x > 1e-30)
        assert found.observed["entropy"][cut - 1] == pytest.approx(entropy, abs=1e-9)
        largest = np.sort(p)[::-1][:3]
        np.testing.assert_allclose(
            found.observed["schmidt"][cut - 1][: largest.size], largest, rtol=0, atol=1e-9
        )


def on(lattice, *shells, **keys):
    """A coupling on a lattice, by default with equal components."""
    more = {"shells": list(range(1, len(shells) + 1)), "J": list(shells)} if len(shells) > 1 else {}
    return {"type": "heisenberg", "lattice": lattice, "J": shells[0] if shells else 1.0, **more, **keys}


#: Spins, terms, the end of the spectrum, and the degeneracy of the level there, from symmetries.
LEVELS = {
    "a second level in the same sector": (6, [on("ring", type="xxz", J=1.0, Jz=4.0)], "lowest", 1),
    "Majumdar and Ghosh": (8, [on("ring", 2.0, 1.0)], "lowest", 2),  # two coverings by singlets
    "a frustrated ring": (7, [on("ring", 0.7)], "lowest", 4),  # spin 1/2 of the momenta k and -k
    "a ferromagnet": (5, [on("ring", -1.3)], "lowest", 6),  # one multiplet of spin 5/2
    "the other end": (6, [on("chain")], "highest", 7),  # one multiplet of spin 3
    "Ising, all pairs": (5, [on("all", type="ising")], "lowest", 20),  # two or three of five up
    "Ising, a chain": (6, [on("chain", -1.0, type="ising")], "lowest", 2),  # all up, all down
    "a plane ferromagnet": (5, [on("ring", type="xxz", J=-1.0, Jz=0.4)], "lowest", 2),  # Sz = 1/2 and -1/2
    "singlets and free spins": (6, [{"type": "pairs", "list": [[0, 1, 1.0], [2, 3, 1.0]]}], "lowest", 4),
    "several spins": (
        4,
        [{"type": "pairs", "list": [[0, 1, -1.0]]}],
        "lowest",
        12,
    ),  # spin 1 with two free spins
    "a field": (5, [on("ring"), {"type": "field", "axis": "z", "values": 0.3}], "lowest", 2),
    "no couplings": (3, [{"type": "field", "axis": "z", "values": 0.0}], "lowest", 8),
    "nearly degenerate": (6, [on("ring", 1.0, 0.5), {"type": "pairs", "list": [[0, 1, 3e-10]]}], "lowest", 1),
    "currents": (5, [on("ring"), {"type": "dm", "lattice": "ring", "D": 0.4}], "lowest", 2),
}
OBSERVED = [
    {"sz": "all"},
    {"correlator": ["xx", "zz"], "pairs": "all"},
    {"structure_factor": ["xx", "zz"]},
    {"entropy": {"sites": [0, 1]}},
]


@pytest.mark.parametrize("name", LEVELS)
def test_levels_gap_degeneracy_and_means(trotter, name):
    """All numbers of the lowest level against dense diagonalisation of all states."""
    spins, terms, which, degeneracy = LEVELS[name]
    found = levels(trotter, {"spins": spins, "terms": terms}, observe=OBSERVED, which=which)
    H = dense(found.problem.model)
    energies, states = np.linalg.eigh(H if which == "lowest" else -H)
    energies *= 1.0 if which == "lowest" else -1.0
    scalars = Method("trotter").scalars(found)
    assert scalars["degeneracy"].value == degeneracy
    for k in range(len(found.listed)):
        error = scalars[f"energy_error_{k}"].value
        assert scalars[f"energy_{k}"].value == pytest.approx(energies[k], abs=error + 1e-14)
    assert len(found.listed) > degeneracy or len(found.listed) == energies.size
    if degeneracy == energies.size:
        assert "gap" not in scalars
    else:
        gap = abs(energies[degeneracy] - energies[0])
        assert scalars["gap"].value == pytest.approx(gap, abs=scalars["gap"].error + 1e-14)
        assert scalars["gap"].error < 1e-8
    _means(found, states[:, :degeneracy], 1e-5 if name == "nearly degenerate" else 1e-8)


def _means(found, states, tolerance):
    """Hold what is observed against the mean over all states of the level."""
    spins = found.problem.spins
    index = np.arange(1 << spins)
    p = (abs(states) ** 2).mean(axis=1)
    s = 0.5 - (index[:, None] >> np.arange(spins) & 1)
    flipped = [[index ^ (1 << j) ^ (1 << k) for k in range(spins)] for j in range(spins)]
    ss = {
        "zz": np.einsum("n,nj,nk->jk", p, s, s),
        "xx": np.array(
            [[(states.conj() * states[to]).sum(axis=0).mean().real / 4 for to in row] for row in flipped]
        ),
    }
    np.testing.assert_allclose(found.observed["sz"], p @ s, rtol=0, atol=tolerance)
    wave = np.exp(2j * np.pi * np.outer(np.arange(spins), np.arange(spins)) / spins)
    for axes, matrix in ss.items():
        expected = matrix[np.triu_indices(spins, 1)]
        np.testing.assert_allclose(found.observed[f"correlator_{axes}"], expected, rtol=0, atol=tolerance)
        expected = np.einsum("qj,jk,qk->q", wave, matrix, wave.conj()).real / spins
        np.testing.assert_allclose(
            found.observed[f"structure_factor_{axes}"], expected, rtol=0, atol=10 * tolerance
        )
    assert ("entropy" in found.observed) == (states.shape[1] == 1)  # a mixture has none


@pytest.mark.parametrize(
    ("sector", "name"),
    [
        ({"sz": 1}, "sector_gap"),
        ({"sz": 0, "inversion": -1}, "sector_gap"),
        ({"sz": 0, "momentum": [0, 1]}, "sector_gap"),
        ({"sz": [0, 1, -2, 3]}, "gap"),  # every level has a state there
        ({"sz": [0, 1]}, "sector_gap"),
    ],
)
def test_the_gap_of_some_sectors_is_not_called_that_of_H(trotter, sector, name):
    found = levels(trotter, ring(6, 4.0), sector)
    scalars = Method("trotter").scalars(found)
    assert {"gap", "sector_gap"} & scalars.keys() == {name}
    energies = np.linalg.eigvalsh(dense(found.problem.model))
    strings = np.concatenate(
        [s.strings() for s in found.problem.sectors if isinstance(s, Sector) and not s.inversion] or [[]]
    ).astype(int)
    if name == "gap":
        assert scalars["gap"].value == pytest.approx(energies[1] - energies[0], abs=1e-9)
    elif strings.size:
        own = np.linalg.eigvalsh(dense(found.problem.model)[np.ix_(strings, strings)])
        own = own[[True, *(b - a > 1e-9 for a, b in pairwise(own))]]
        assert scalars["sector_gap"].value == pytest.approx(own[1] - own[0], abs=1e-9)


def test_multiplets_hold_all_levels_in_one_sector(trotter):
    """Sz = 0 of an isotropic H, or all its momenta, have every level."""
    energies = np.unique(np.round(np.linalg.eigvalsh(dense(levels(trotter, ring(6)).problem.model)), 9))
    for sector in ({"sz": 0}, {"sz": 0, "momentum": "all"}, {"sz": 0, "momentum": [0, 5, 2, 3]}):
        scalars = Method("trotter").scalars(levels(trotter, ring(6), sector))
        assert scalars["gap"].value == pytest.approx(energies[1] - energies[0], abs=1e-8)


def test_what_is_not_known_is_not_said(trotter, monkeypatch):
    """More states of one energy than are sought, in a sector too large to be diagonalised: a warning, and no numbers."""
    monkeypatch.setattr(lowest, "MOST_DENSE", 10)
    monkeypatch.setattr(lowest, "MOST_FOUND", 6)
    system = {"spins": 6, "terms": [on("all", type="ising")]}
    monitor = Monitor.silent()
    found = trotter.run(monitor, task="spectrum", system=system, observe=["sz"])
    scalars = Method("trotter").scalars(found)
    assert not {"gap", "degeneracy", "sector_gap"} & scalars.keys()
    assert not found.observed
    assert any("has more states than were found" in warning for warning in monitor.warnings)
    monkeypatch.undo()
    assert levels(trotter, system).degeneracy == 20


def test_a_loose_tolerance_does_not_join_levels(trotter):
    """Levels 0.06 apart with residuals of 0.01: told apart by what the errors of energies are, or not named."""
    for tolerance in (1e-2, 1e-5):
        monitor = Monitor.silent()
        found = trotter.run(
            monitor, task="spectrum", system=ring(6, 4.0), spectrum={"tolerance": tolerance, "levels": 2}
        )
        scalars = Method("trotter").scalars(found)
        exact = np.linalg.eigvalsh(dense(found.problem.model))
        if "gap" in scalars:
            assert scalars["gap"].value == pytest.approx(exact[1] - exact[0], abs=scalars["gap"].error)
            assert scalars["degeneracy"].value == 1
        else:
            assert monitor.warnings


@pytest.mark.parametrize(("images", "energy"), [("one", -1.0), ("all", -2.0)])
def test_a_note_names_bonds_across(trotter, images, energy):
    """A 2 x 2 torus is a ring of 4 (E0 = -2 J), with one or two bonds across; all of them count twice at images: all."""
    lattice = {"type": "square", "periodic": True, "images": images}
    monitor = Monitor.silent()
    found = trotter.run(monitor, task="spectrum", system={"spins": 4, "terms": [on(lattice, 0.5)]})
    assert found.listed[0, 0] == pytest.approx(energy, abs=1e-9)
    assert any("sites 0 and 1 of the square are equally near by 2 ways round" in line for line in monitor.log)


def test_without_the_gap(trotter):
    found = levels(trotter, ring(6, 4.0), gap=False)
    scalars = Method("trotter").scalars(found)
    assert not {"gap", "degeneracy", "energy_1"} & scalars.keys()
    assert scalars["energy_0"].value == pytest.approx(
        np.linalg.eigvalsh(dense(found.problem.model))[0], abs=1e-9
    )


def test_a_search_goes_on_where_it_was_stopped(trotter):
    """The state after every sector, put back, leads to the same numbers."""
    problem = trotter.build(
        task="spectrum", system={"spins": 5, "terms": [on("ring", type="xxz", J=1.0, Jz=0.5)]}
    )
    whole = Computation(problem, None)
    states = []
    whole.advance(lambda progress: states.append(whole.state()) if progress.done else None)
    assert len(states) == len(problem.sectors)
    for state in states:
        made = Computation(problem, state)
        made.advance(lambda progress: None)
        np.testing.assert_array_equal(made.levels, whole.levels)
        np.testing.assert_array_equal(made.lowest.listed, whole.lowest.listed)
        assert made.lowest.second == whole.lowest.second
        assert made.lowest.degeneracy == whole.lowest.degeneracy == 4


@pytest.mark.parametrize("name", LEVELS)
def test_spectral_functions_agree_on_what_is_degenerate(trotter, name):
    spins, terms, which, degeneracy = LEVELS[name]
    if which == "highest":
        return
    deck = {
        "task": "dynamics",
        "system": {"spins": spins, "terms": terms},
        "dynamics": {"q": [0.0], "steps": 5},
    }
    if degeneracy > 1:
        with pytest.raises(NumericsError, match=f"degenerate: {degeneracy} states"):
            trotter.run(**deck)
    else:
        assert trotter.run(**deck).energy < 0.0


REFUSED = {
    "a field across": (
        {
            "system": {"spins": 4, "terms": [{"type": "ising", "lattice": "chain", "axis": "x", "J": 1.0}]},
            "sector": {"sz": 0},
        },
        "Jx = 1",
    ),
    "initial": ({"initial": {"type": "neel"}}, "initial: this block belongs to task: evolve"),
    "evolve": ({"evolve": {"t_final": 1.0, "accuracy": 0.1}}, "evolve: this block belongs to task: evolve"),
    "imbalance": ({"observe": ["imbalance"]}, "imbalance belongs to task: evolve"),
    "twice": ({"sector": {"sz": [0, 0]}}, "expected different values"),
    "empty": ({"sector": {"up": [1, 5]}}, "the sector is empty"),
    "vectors": ({"spectrum": {"vectors": False}, "observe": ["sz"]}, "what is observed needs the state"),
    "gap": ({"spectrum": {"gap": False}, "observe": ["sz"]}, "needs all states of the lowest level"),
    "single": ({"run": {"precision": "single"}}, "double precision"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    with pytest.raises(DeckError, match=message):
        trotter.run(**{"task": "spectrum", "system": ring(4), **changes})


def test_blocks_of_a_spectrum_are_refused_in_an_evolution(trotter):
    blocks = {"system": ring(4), "initial": {"type": "neel"}, "evolve": {"t_final": 1.0, "accuracy": 1e-6}}
    with pytest.raises(DeckError, match="belongs to task: spectrum"):
        trotter.run(**blocks, spectrum={"levels": 2})


@pytest.mark.parametrize(
    ("block", "states"),
    [
        ({"task": "spectrum", "sector": {"sz": 0, "inversion": 1}}, "68923264410 states"),
        ({"task": "thermal", "observe": [{"correlator": "zz", "pairs": "all"}]}, "137846528820 states"),
        ({"initial": {"type": "neel"}, "evolve": {"t_final": 1.0, "accuracy": 1e-6}}, "137846528820 states"),
    ],
)
def test_a_sector_that_does_not_fit_tells_its_dimension(trotter, monkeypatch, block, states):
    """40 spins, terabytes."""
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 10 * 2**30)
    loaded = trotter.load(system=ring(40), **block)
    with pytest.raises(MemoryLimitError, match=states):
        cpu(1).require(stage("trotter", "build").plan(loaded).memory)


class Listening(Monitor):
    said = ()

    def warn(self, text, *args, **more):
        self.said = (*self.said, text)


def bonds_of(J):
    """Return two pairs of equal levels, joined by bonds of J."""
    return [{"type": "pairs", "list": [[0, 1, 0.8], [2, 3, 0.8], [1, 2, J], [3, 4, 0.7 * J]]}]


def against_all(trotter, terms, spins, **block):
    """Return a spectrum and, of every level listed, the error and its claim."""
    found = trotter.run(task="spectrum", system={"spins": spins, "terms": terms}, spectrum=block)
    every = np.linalg.eigvalsh(dense(found.problem.model))
    energies = found.listed[:, 0]
    return (
        found,
        np.abs(energies - every[: energies.size]),
        np.array([found.error(k) for k in range(energies.size)]),
    )


@pytest.mark.parametrize("J", [2e-12, 2e-11, 7e-11, 4e-10])
def test_levels_closer_than_residuals_tell_are_listed_once(trotter, J):
    """States of one S are no states of one energy where two multiplets are nearly one; each has its own."""
    found, off, claims = against_all(trotter, bonds_of(J), 6, levels=8)
    assert off.size >= 8
    assert np.all(off <= 1.5 * claims)
    assert found.degeneracy == 4


@pytest.mark.parametrize("J", [3e-25, 2e-9, 5e7])
def test_levels_of_couplings_of_any_size(trotter, J):
    terms = [{"type": "xxz", "lattice": "ring", "Jxy": J, "Jz": -0.3 * J}]
    found, off, claims = against_all(trotter, terms, 5, levels=4)
    assert np.all(off <= 2.0 * claims)
    assert found.degeneracy == 4
    every = np.linalg.eigvalsh(dense(found.problem.model))
    assert found.gap[0] == pytest.approx(every[4] - every[0], rel=1e-12)


def test_a_splitting_that_is_not_resolved_is_told(trotter):
    monitor = Listening(quiet=True)
    terms = [{"type": "pairs", "list": [[0, 1, 2.0], [2, 3, 2e-13]]}]
    found = trotter.run(monitor=monitor, task="spectrum", system={"spins": 4, "terms": terms})
    assert found.degeneracy == 4
    assert any("holds states that are 2e-13 J apart" in text for text in monitor.said)
    every = np.linalg.eigvalsh(dense(found.problem.model))
    assert np.all(np.abs(found.listed[:, 0] - every[: len(found.listed)]) <= found.listed[:, 1] + 4e-15)


@pytest.mark.parametrize("shift", [-3e-13, 0.0, 3e-13])
def test_rounding_does_not_choose_among_equal_levels_at_the_end_of_the_list(shift):
    """The second level of one sector is the first of another, and the list ends there: both are in it, however they round."""
    entries = [
        (-3.65, 2e-13, 2e-13, 1, 0.0),
        (-3.12 + shift, 3e-13, 3e-13, 1, 1.0),
        (-3.12, 2e-13, 2e-13, 1, 1.0),
    ]
    entries.append((-3.0, 2e-13, 2e-13, 1, 1.0))
    search = SimpleNamespace(
        entries=entries,
        ends=[-3.12, -3.0],
        sign=1.0,
        count=2,
        problem=SimpleNamespace(sectors=[None, None]),
    )
    assert LowestLevels.listed.fget(search)[:, 0] == pytest.approx([-3.65, -3.12, -3.12], abs=1e-12)

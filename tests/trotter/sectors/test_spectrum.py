"""Levels of sectors: Bethe's ansatz, dense matrices, degeneracies, and what is observed in the lowest state."""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device import device as core_device
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, MemoryLimitError
from qsim.core.run.stages import stage
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.lanczos import Search
from qsim.trotter.sectors.operator import SectorOperator

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


REFUSED = {
    "a field across": (
        {"system": {"spins": 4, "terms": [{"type": "ising", "lattice": "chain", "axis": "x", "J": 1.0}]}},
        "Jx = 1",
    ),
    "initial": ({"initial": {"type": "neel"}}, "initial: this block belongs to task: evolve"),
    "evolve": ({"evolve": {"t_final": 1.0, "accuracy": 0.1}}, "evolve: this block belongs to task: evolve"),
    "imbalance": ({"observe": ["imbalance"]}, "imbalance belongs to task: evolve"),
    "full": ({"sector": "full"}, "works in sectors of Sz"),
    "twice": ({"sector": {"sz": [0, 0]}}, "expected different values"),
    "empty": ({"sector": {"up": [1, 5]}}, "the sector is empty"),
    "vectors": ({"spectrum": {"vectors": False}, "observe": ["sz"]}, "what is observed needs the state"),
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
    with pytest.raises(DeckError, match="belongs to task: spectrum"):
        trotter.run(**blocks, observe=[{"structure_factor": "zz"}])


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

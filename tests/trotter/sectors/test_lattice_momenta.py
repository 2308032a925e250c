"""Momenta of lattices with cells, by number and by the name of a point of the zone, against projectors of dense matrices."""

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.lattices.momenta import shifts, translations
from qsim.trotter.model.hamiltonian import dense
from qsim.trotter.problem import TaskProblem

XYZ = [
    {"type": "xyz", "Jx": 1.0, "Jy": 0.7, "Jz": -0.4},
    {"type": "field", "axis": "x", "values": 0.3},
    {"type": "field", "axis": "z", "values": 0.2},
]
TRIANGULAR = {"type": "triangular", "Lx": 3, "Ly": 3, "periodic": True}


def projected(H, moves, parts):
    """Levels of H of the momentum 2 pi times some parts along each shift."""
    spins = len(H).bit_length() - 1
    strings, P = np.arange(len(H)), np.eye(len(H), dtype=complex)
    for sites, f in zip(moves, parts, strict=True):
        T = np.zeros_like(P)
        T[sum((strings >> j & 1) << sites[j] for j in range(spins)), strings] = 1.0
        assert np.abs(T @ H - H @ T).max() < 1e-12
        order = next(n for n in range(1, 99) if np.allclose(np.linalg.matrix_power(T, n), np.eye(len(H))))
        P = P @ sum(np.exp(2j * np.pi * f * n) * np.linalg.matrix_power(T, n) for n in range(order)) / order
    values, vectors = np.linalg.eigh(0.5 * (P + P.conj().T))
    basis = vectors[:, values > 0.5]
    return np.linalg.eigvalsh(basis.conj().T @ H @ basis)


@pytest.mark.parametrize(
    ("momentum", "parts"),
    [("Gamma", (0, 0)), ("k", (2 / 3, 1 / 3)), (1, (1 / 3, 0)), (5, (2 / 3, 1 / 3))],
)
def test_levels_of_a_torus(trotter, momentum, parts):
    found = trotter.run(
        task="spectrum",
        system={"spins": 9, "lattice": TRIANGULAR, "terms": XYZ},
        sector={"momentum": momentum},
        spectrum={"levels": 3},
    )
    problem: TaskProblem = found.problem
    moves = shifts(problem.lattice, 9)
    expected = projected(dense(problem.models.hamiltonian().at(0.0)), moves, parts)
    np.testing.assert_allclose(np.sort(found.levels[np.isfinite(found.levels)])[:3], expected[:3], atol=1e-9)


def test_all_momenta_hold_all_levels(trotter):
    system = {
        "spins": 12,
        "lattice": {"type": "kagome", "Lx": 2, "Ly": 2, "periodic": True},
        "terms": [{"type": "heisenberg"}],
    }
    every = trotter.run(task="spectrum", system=system, sector={"sz": 0, "momentum": "all"})
    plain = trotter.run(task="spectrum", system=system, sector={"sz": 0})
    assert len(every.sectors) == 4
    assert sum(sector.dimension for sector in every.sectors) == 924
    assert every.listed[0, 0] == pytest.approx(plain.listed[0, 0], abs=1e-9)
    assert every.degeneracy == plain.degeneracy


def test_an_evolution_at_gamma(trotter):
    deck = {
        "system": {"spins": 9, "lattice": TRIANGULAR, "terms": XYZ},
        "initial": {"type": "polarised", "axis": "z"},
        "evolve": {"t_final": 1.5, "outputs": 3, "accuracy": 1e-10},
        "observe": [{"sz": "all"}, {"correlator": "xx", "pairs": [[0, 4]]}],
    }
    found, expected = (trotter.run(**deck, sector=space) for space in ({"momentum": "Gamma"}, "full"))
    assert found.problem.dimension == 64
    for name, values in expected.mean.items():
        np.testing.assert_allclose(found.mean[name], values, rtol=0, atol=1e-8, err_msg=name)


def test_opposite_momenta():
    moves = translations(
        TrotterDeck.model_validate(
            {
                "method": "trotter",
                "task": "spectrum",
                "system": {
                    "spins": 12,
                    "lattice": {"type": "square", "Lx": 3, "Ly": 4, "periodic": True},
                    "terms": XYZ,
                },
            }
        ).lattice,
        12,
    )
    assert [moves.parts(k) for k in (0, 1, 5)] == [[0, 0], [1, 0], [2, 1]]
    assert [moves.negative(k) for k in (0, 1, 5)] == [0, 2, 10]
    assert moves.numbers(["Y", 4]) == [6, 4]


@pytest.mark.parametrize(
    ("momentum", "message"),
    [
        ("M", "M is no momentum of 3 x 3 cells: it has the part 1/2 of 2 pi along a direction of 3"),
        (9, "one of 3 x 3 cells, numbered from 0 to 8, or a point of the zone: Gamma, M, K; found 9"),
        ("Z", "Gamma, M, K; found Z"),
    ],
)
def test_momenta_that_are_none(trotter, momentum, message):
    with pytest.raises(DeckError, match=message):
        trotter.run(
            task="spectrum",
            system={"spins": 9, "lattice": TRIANGULAR, "terms": XYZ},
            sector={"momentum": momentum},
        )


def test_an_open_lattice_has_other_symmetries(trotter):
    """Without a momentum nothing is asked of the shifts."""
    lattice = {"type": "square", "Lx": 1, "Ly": 3, "periodic": False}
    system = {"spins": 3, "lattice": lattice, "terms": [{"type": "xx"}]}
    found = trotter.run(
        task="spectrum", system=system, sector={"up": 2, "reflection": 1}, spectrum={"levels": 2}
    )
    # one spin down of three in a row, even: |010> and (|100> + |001>) / sqrt 2
    np.testing.assert_allclose(found.listed[:, 0], [-np.sqrt(0.5), np.sqrt(0.5)], atol=1e-12)


@pytest.mark.parametrize(("Lx", "momenta"), [(1, 1), (2, 2), (3, 3)])
def test_a_closed_strip_has_the_momenta_of_its_cells(trotter, Lx, momenta):
    """Also where its bonds are those of a ring of sites, of which there are twice as many, and where cells hold unlike spins."""
    lattice = {"type": "honeycomb", "Lx": Lx, "Ly": 1, "periodic": True}
    system = {"spins": 2 * Lx, "spin": [1, 0.5] * Lx, "lattice": lattice, "terms": [{"type": "heisenberg"}]}
    found = trotter.run(task="spectrum", system=system, sector={"sz": 0.5 * Lx, "momentum": "all"})
    plain = trotter.run(task="spectrum", system=system, sector={"sz": 0.5 * Lx})
    assert len(found.sectors) <= momenta
    assert sum(s.dimension for s in found.sectors) == sum(s.dimension for s in plain.sectors)
    assert found.listed[0, 0] == pytest.approx(plain.listed[0, 0], abs=1e-10)

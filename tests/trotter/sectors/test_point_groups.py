"""Point groups of planar lattices: levels of the one-dimensional characters against those of the whole momentum.

Oracle: the levels of all one-dimensional characters are levels of the momentum, and what they leave are the doublets of the
two-dimensional ones, in pairs.  Tolerances: energies of some hundred states, thousands of roundings.
"""

import contextlib

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.deck.couplings import System
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.lattices.momenta import translations
from qsim.trotter.lattices.point_groups import irreps_of, point_moves
from qsim.trotter.model.hamiltonian import build_hamiltonian
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.symmetric import SymmetricOperator, symmetric_sectors

LATTICES = [
    ("square", 9, 3, "C4v", "Gamma", 4),
    ("square", 16, 3, "C4v", "M", 4),
    ("square", 16, 3, "C2v", "X", 2),
    ("triangular", 9, 3, "C6v", "Gamma", 6),
    ("triangular", 9, 3, "C3v", "K", 3),
    ("honeycomb", 18, 2, "C6v", "Gamma", 6),
    ("kagome", 12, 3, "C6v", "Gamma", 6),
]


def levels_of(block, model, spins, down, lattice):
    made = symmetric_sectors(block, model, [Sector(spins, down)], translations(lattice, spins))
    return np.concatenate(
        [np.linalg.eigvalsh(SymmetricOperator(cpu(1), one, model).matrix.toarray()) for one in made]
    )


def system_of(name, spins):
    lattice = {"type": name, "periodic": True}
    terms = [{"type": "xxz", "lattice": lattice, "Jxy": 1.0, "Jz": 0.7}]
    return System(spins=spins, terms=terms)


@pytest.mark.parametrize(("name", "spins", "down", "group", "momentum", "order"), LATTICES)
def test_characters_and_doublets(name, spins, down, group, momentum, order):
    system = system_of(name, spins)
    model, lattice = build_hamiltonian(system, seed=0).static, system.terms[0].lattice
    every = levels_of(SectorBlock(momentum=momentum), model, spins, down, lattice)
    found = []
    for irrep in irreps_of(group):
        block = SectorBlock(momentum=momentum, point_group={"name": group, "irrep": irrep})
        # a character without states in this small sector is refused as empty
        with contextlib.suppress(DeckError):
            found.append(levels_of(block, model, spins, down, lattice))
    rest = np.sort(every)
    for level in np.concatenate(found):
        place = np.argmin(np.abs(rest - level))
        assert rest[place] == pytest.approx(level, abs=1e-11)
        rest = np.delete(rest, place)
    assert rest.size % 2 == 0
    np.testing.assert_allclose(rest[::2], rest[1::2], atol=1e-11)
    # C2v has no two-dimensional character
    assert rest.size == 0 or group != "C2v"


@pytest.mark.parametrize(
    ("name", "spins"), [("square", 16), ("triangular", 9), ("honeycomb", 18), ("kagome", 12)]
)
def test_generators(name, spins):
    """The rotation has its order, the mirror 2, and the mirror turns the rotation round."""
    lattice, order = system_of(name, spins).terms[0].lattice, 4 if name == "square" else 6
    rotation, mirror = (np.array(move.sites) for move in point_moves(lattice, spins, f"C{order}v", "B2"))
    power = np.arange(spins)
    for n in range(1, order + 1):
        power = rotation[power]
        assert np.array_equal(power, np.arange(spins)) == (n == order)
    assert np.array_equal(mirror[mirror], np.arange(spins))
    assert np.array_equal(rotation[mirror[rotation]], mirror)


@pytest.mark.parametrize(
    ("lattice", "spins", "block", "message"),
    [
        (
            "square",
            16,
            {"momentum": "X", "point_group": {"name": "C4v", "irrep": "A1"}},
            "leads from this momentum to another",
        ),
        (
            "triangular",
            9,
            {"momentum": "K", "point_group": {"name": "C6", "irrep": "A"}},
            "leads from this momentum to another",
        ),
        ("square", 16, {"point_group": {"name": "C3", "irrep": "A"}}, "no rotations of C3"),
        ("square", 16, {"point_group": {"name": "C4", "irrep": "A1"}}, "characters A, B; found A1"),
    ],
)
def test_refusals(lattice, spins, block, message):
    system = system_of(lattice, spins)
    model = build_hamiltonian(system, seed=0).static
    with pytest.raises(DeckError, match=message):
        levels_of(TypeAdapter(SectorBlock).validate_python(block), model, spins, 3, system.terms[0].lattice)


def test_a_torus_without_the_rotation():
    lattice = (
        System(
            spins=12,
            terms=[
                {"type": "xxz", "lattice": {"type": "square", "periodic": True, "Lx": 4, "Ly": 3}, "Jxy": 1.0}
            ],
        )
        .terms[0]
        .lattice
    )
    with pytest.raises(DeckError, match="no symmetry of 4 x 3 cells"):
        point_moves(lattice, 12, "C4", "A")
    assert [move.phase for move in point_moves(lattice, 12, "C2v", "B1")] == [0.5, 0]

"""Total spin of levels, and structure factors at the momenta of lattices, against dense matrices of all states."""

from fractions import Fraction

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.core.run.stages import Method
from qsim.trotter.deck import lattices
from qsim.trotter.lattices.bonds import positions
from qsim.trotter.lattices.momenta import all_momenta, points, wave_vector
from qsim.trotter.measurement.spaces import operator_in, products_of_spins, squares_in
from qsim.trotter.measurement.total_spin import squared_in
from qsim.trotter.model.hamiltonian import dense
from qsim.trotter.observables.structure_factor import multiple_of_pi
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import WholeSpace
from qsim.trotter.sectors.symmetric import SymmetricSector, Symmetry


def heisenberg(lattice, **keys):
    return {"type": "heisenberg", "lattice": lattice, **keys}


FIELD = {"type": "field", "axis": "z", "values": 0.37}
#: Spins, terms and the sector; "auto" stands for all levels.
SYSTEMS = {
    "a ring": (8, [heisenberg("ring")], "auto"),
    "frustrated, odd": (7, [heisenberg("ring", J=[1.0, 0.7], shells=[1, 2])], "auto"),
    "a ferromagnet": (6, [heisenberg("chain", J=-1.0)], "auto"),
    "kagome in a field": (6, [heisenberg({"type": "kagome", "Lx": 2, "Ly": 1}), FIELD], "auto"),
    "named sectors": (7, [heisenberg("chain")], {"up": [3, 5]}),
    "inversion": (8, [heisenberg("ring")], {"sz": 0, "inversion": -1}),
    "momenta": (6, [heisenberg("ring")], {"sz": 0, "momentum": "all"}),
    "momentum of a complex state": (7, [heisenberg("ring"), FIELD], {"up": 3, "momentum": [2, 5]}),
    "levels by chance": (4, [heisenberg("all")], "auto"),
}


def of_energies(model, strings):
    """Return levels of H among some strings, and the S of each, by a common diagonalisation of H and S^2."""
    rows = np.ix_(strings, strings)
    H = dense(model).real[rows]
    squared = dense(products_of_spins(WholeSpace(model.spins))).real[rows] + 0.75 * model.spins * np.eye(
        len(strings)
    )
    # an irrational multiple of S^2 splits what H leaves together
    energies, states = np.linalg.eigh(H + 1e-3 * np.pi * squared)
    squares = np.einsum("ns,nm,ms->s", states, squared, states)
    return energies - 1e-3 * np.pi * squares, 0.5 * (np.sqrt(1.0 + 4.0 * squares) - 1.0)


@pytest.mark.parametrize("name", SYSTEMS)
def test_spins_of_levels(trotter, name):
    """Every level that is given has its S among those of the same energy in the same sector, as often as it occurs there."""
    spins, terms, sector = SYSTEMS[name]
    found = trotter.run(
        task="spectrum", system={"spins": spins, "terms": terms}, sector=sector, spectrum={"levels": 5}
    )
    model, known = found.problem.model, 0
    for number, one in enumerate(found.sectors):
        # all states of this Sz
        exact, expected = of_energies(
            model, np.flatnonzero(np.bitwise_count(np.arange(1 << spins)) == one.down)
        )
        for energy, spin in zip(found.levels[number], found.spins[number], strict=True):
            if np.isfinite(energy) and np.isfinite(spin):
                near = np.abs(exact - energy) < 1e-8
                assert np.abs(expected[near] - spin).min() < 1e-6
                known += 1
    # the first level of each sector is known; of later ones the last may be cut from its multiplets
    assert np.isfinite(found.spins[:, 0]).all()
    assert known >= 0.7 * np.isfinite(found.levels).sum()
    scalars = Method("trotter").scalars(found)
    assert scalars["total_spin_0"].value == found.listed[0, 2]


def test_spins_of_all_levels(trotter):
    """All states of a sector: numbers of multiplets by the rule of adding spins 1/2."""
    spins = 8
    found = trotter.run(
        task="levels",
        system={"spins": spins, "terms": [heisenberg("chain")]},
        sector={"sz": 0},
        levels={"statistics": ["total_spin"]},
    )
    # C(N, N/2 - S) - C(N, N/2 - S - 1) multiplets of spin S
    numbers = [int((found.spins == s).sum()) for s in range(5)]
    assert numbers == [14, 28, 20, 7, 1]
    exact, expected = of_energies(found.problem.model, found.problem.sectors[0].strings())
    order = np.argsort(exact)
    np.testing.assert_allclose(found.spins[0], expected[order], atol=1e-6)


@pytest.mark.parametrize(
    "terms",
    [
        [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.9}],
        [heisenberg("ring"), {"type": "field", "axis": "z", "values": "0.1*j"}],
        [heisenberg("ring"), {"type": "dm", "lattice": "ring", "D": 0.1}],
    ],
)
def test_no_spin_where_it_is_not_conserved(trotter, terms):
    system = {"spins": 6, "terms": terms}
    found = trotter.run(task="spectrum", system=system)
    assert "total_spin_0" not in Method("trotter").scalars(found)
    assert "total_spin" not in Method("trotter").arrays(found)
    with pytest.raises(DeckError, match="does not conserve the total spin"):
        trotter.run(task="levels", system=system, sector={"up": 3}, levels={"statistics": ["total_spin"]})


def lowest_states(found):
    """Return all states of the lowest level, (2^N, states)."""
    energies, states = np.linalg.eigh(dense(found.problem.model).real)
    return states[:, energies - energies[0] < 1e-8]


def factor_of(states, places, axes, q):
    """Return S(q) of a level, the mean over its states, from all 2^N amplitudes and the places of the sites."""
    index = np.arange(len(states))
    # S_q psi = N^(-1/2) sum_j exp(iq r_j) S_j psi
    made = np.zeros_like(states, complex)
    for j, phase in enumerate(np.exp(1j * np.pi * (places @ q))):
        turned = states[index ^ (1 << j)] if axes == "xx" else (1 - 2 * (index >> j & 1))[:, None] * states
        made += 0.5 * phase * turned
    return (np.abs(made) ** 2).sum() / len(places) / states.shape[1]


LATTICES = {
    "square": (
        8,
        {"type": "square", "Lx": 4, "Ly": 2, "periodic": True},
        8,
        ["Gamma", "X", "M", ["pi/2", 1.0]],
    ),
    "kagome": (6, {"type": "kagome", "Lx": 2, "Ly": 1}, 2, ["K", [2.0, "2*pi/sqrt(3)"]]),
    "triangular": (6, {"type": "triangular", "Lx": 3, "Ly": 2, "periodic": True}, 6, ["K", "M"]),
    "cubic": (8, {"type": "cubic", "periodic": [False, True, False]}, 8, ["R", [0.25, 0.5, 1]]),
    "ladder": (8, {"type": "ladder", "legs": 2, "periodic": True}, 8, [[0, "pi"], ["pi/2", 0]]),
}


@pytest.mark.parametrize("name", LATTICES)
def test_structure_factors_of_lattices(trotter, name):
    spins, lattice, number, chosen = LATTICES[name]
    system = {"spins": spins, "lattice": lattice, "terms": [heisenberg(None)]}
    del system["terms"][0]["lattice"]
    for momenta in ("all", chosen):
        found = trotter.run(
            task="spectrum",
            system=system,
            observe=[{"structure_factor": ["zz", "xx"], **({} if momenta == "all" else {"q": momenta})}],
        )
        arrays = Method("trotter").arrays(found)
        vectors = arrays["wave_vector"]
        assert len(vectors) == (number if momenta == "all" else len(chosen))
        if momenta != "all":
            assert arrays["momentum"][0] == (chosen[0] if isinstance(chosen[0], str) else "(0, pi)")
        states, places = lowest_states(found), np.array(positions(found.problem.observables.lattice, spins))
        for axes in ("zz", "xx"):
            expected = [factor_of(states, places, axes, q) for q in vectors[:4]]
            np.testing.assert_allclose(arrays[f"structure_factor_{axes}"][:4], expected, rtol=0, atol=1e-8)
        # all momenta of closed cells of one site: the sum rule sum_q S(q) = N / 4
        if momenta == "all" and name in ("square", "triangular", "ladder", "cubic"):
            assert arrays["structure_factor_zz"].sum() == pytest.approx(spins / 4)


def test_wave_numbers_of_a_ring(trotter):
    """Numbers in units of pi and texts mean the same, and agree with the sum over sites in their order."""
    ring = {"spins": 8, "terms": [heisenberg("ring")]}
    every = trotter.run(task="spectrum", system=ring, observe=[{"structure_factor": "zz"}])
    some = trotter.run(
        task="spectrum", system=ring, observe=[{"structure_factor": "zz", "q": [0, "pi/2", 1, "-3*pi/4"]}]
    )
    arrays = Method("trotter").arrays(some)
    np.testing.assert_allclose(arrays["wave_number"], [0.0, 0.5, 1.0, -0.75])
    expected = every.observed["structure_factor_zz"][[0, 2, 4, 3]]
    np.testing.assert_allclose(arrays["structure_factor_zz"], expected, rtol=0, atol=1e-9)


def test_momenta_lie_in_the_zone():
    """Momenta of a torus are those by which shifts around it are closed, each once, none longer than an equal one."""
    for kind, size in (
        (lattices.Square, 1),
        (lattices.Triangular, 1),
        (lattices.Kagome, 3),
        (lattices.Pyrochlore, 4),
    ):
        sides = {"Lx": 3, "Ly": 2} | ({"Lz": 2} if kind is lattices.Pyrochlore else {})
        lattice = kind(type=kind.model_fields["type"].annotation.__args__[0], periodic=True, **sides)
        spins = size * int(np.prod(list(sides.values())))
        momenta = np.array(all_momenta(lattice, spins))
        assert len(np.unique(np.round(momenta, 9), axis=0)) == spins // size
        place = np.array(positions(lattice, spins))
        # the vectors of the cells, from sites one cell apart
        steps = [place[size * n] - place[0] for n in (1, 3, 6)[: len(sides)]]
        for vector, length in zip(steps, sides.values(), strict=True):
            turns = momenta @ vector * length / 2.0
            np.testing.assert_allclose(turns, np.round(turns), atol=1e-9)
    hexagonal = points(lattices.Triangular(type="triangular"))
    np.testing.assert_allclose(hexagonal["K"], [4 / 3, 0.0, 0.0], atol=1e-12)


def test_names_of_momenta():
    written = [multiple_of_pi(x) for x in (0.0, 0.5, 1.0, -2 / 3, 2.0, 1 / np.sqrt(3))]
    assert written == ["0", r"\pi/2", r"\pi", r"-2\pi/3", r"2\pi", r"0.577\pi"]
    square = lattices.Square(type="square")
    for given, said in (
        (0.5, r"expected \[pi, pi\] with 2 components"),
        ("Z", "a point of the square zone, Gamma, X, Y, M"),
        ([0, "1.5"], "holds pi"),
        ([0, "pie"], "or a text such as pi/2"),
        ([0, 0, 0], "2 components"),
    ):
        with pytest.raises(ValueError, match=said):
            wave_vector(square, given)
    with pytest.raises(ValueError, match="sites in a row have one component"):
        wave_vector(None, [0, 1])


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


#: 2 S of every site, quanta below all up, symmetries as (sites, turned, phase).
LADDERS = {
    "momentum and reflection": (
        (1,) * 8,
        4,
        [((1, 2, 3, 4, 5, 6, 7, 0), False, 0), ((7, 6, 5, 4, 3, 2, 1, 0), False, 0.5)],
    ),
    "inversion": (
        (1,) * 8,
        4,
        [((1, 2, 3, 4, 5, 6, 7, 0), False, 0.5), ((0, 1, 2, 3, 4, 5, 6, 7), True, 0.5)],
    ),
    "a turned shift": ((1,) * 6, 3, [((1, 2, 3, 4, 5, 0), True, 0.5)]),
    "a complex momentum, more up": ((1,) * 9, 3, [((1, 2, 3, 4, 5, 6, 7, 8, 0), False, 2 / 9)]),
    "more down": ((1,) * 7, 5, [((1, 2, 3, 4, 5, 6, 0), False, 3 / 7)]),
    "all up": ((1,) * 6, 0, [((1, 2, 3, 4, 5, 0), False, 0)]),
    "spins 1": ((2,) * 5, 5, [((1, 2, 3, 4, 0), False, 0), ((0, 1, 2, 3, 4), True, 0.5)]),
    "mixed spins": ((2, 1) * 3, 4, [((2, 3, 4, 5, 0, 1), False, 1 / 3)]),
}


@pytest.mark.parametrize("name", LADDERS)
def test_the_ladder_operators_make_the_square_of_the_spin(device, name):
    """Against the sum over all pairs, of a random vector of the sector."""
    twos, down, given = LADDERS[name]
    base = Sector(len(twos), down) if set(twos) == {1} else DigitSpace(twos, down)
    symmetries = tuple(
        Symmetry(str(n), sites, turned, Fraction(f).limit_denominator(64))
        for n, (sites, turned, f) in enumerate(given)
    )
    sector = SymmetricSector(base, symmetries)
    numbers = np.random.default_rng(len(name)).standard_normal((2, sector.dimension))
    psi = numbers[0] if sector.is_real else numbers[0] + 1j * numbers[1]
    pairs = operator_in(sector, cpu(1), products_of_spins(sector))
    expected = np.empty_like(psi)
    pairs.apply(psi, expected, beta=float(squares_in(sector).sum()))
    out = device.asarray(np.full_like(psi, np.nan))
    squared_in(sector, device)(device.asarray(psi), out)
    # sums of N^2 terms of order S^2
    assert np.abs(device.to_host(out) - expected).max() < 1e-13 * len(twos) ** 2 * np.abs(psi).max()

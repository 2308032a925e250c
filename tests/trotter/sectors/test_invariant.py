"""Evolutions on the orbits of the symmetries of H and start: the same as in the sector, for all observables."""

import numpy as np
import pytest
from scipy.special import jv

from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.trotter.evolution.orbits import OrbitSeries
from qsim.trotter.evolve.propagators.orbits import OrbitPropagator
from qsim.trotter.kernels.sectors.orbit_series import bessel
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.orbits import Orbits, symmetries_of
from tests.trotter.kernels.test_sectors import embedding
from tests.trotter.sectors.test_quench import StopAfter


def ring(spins, far=0.0, field=0.0):
    J, h = np.zeros((3, spins, spins)), np.zeros((3, spins))
    for j in range(spins):
        for step, value in ((1, 1.0), (2, far)):
            k = (j + step) % spins
            for a, unit in enumerate((1.0, 1.0, 0.7)):
                J[a, j, k] = J[a, k, j] = value * unit
    h[2] = field
    return Model(spins, J, h)


STARTS = {
    "neel": sum(1 << j for j in range(1, 8, 2)),
    "pairs": 0b11001100,
    "wall": 0b11110000,
    "one": 0b00010000,
}


@pytest.mark.parametrize("far", [0.0, 0.4])
@pytest.mark.parametrize("field", [0.0, 0.3])
@pytest.mark.parametrize("start", STARTS)
def test_orbits_and_series(start, field, far):
    """H acts on vectors that are equal on every orbit as the dense matrix does, and they stay so; exponentials, too."""
    model, string = ring(8, far, field), STARTS[start]
    sector = Sector(8, string.bit_count())
    group = symmetries_of(model, sector, string)
    assert len(group) == {
        "neel": 16 if field == 0.0 else 8,
        "pairs": 8 if field == 0.0 else 4,
        "wall": 4,
        "one": 2,
    }[start] - (2 if start == "wall" and field else 0)
    orbits = Orbits(sector, model, group)
    place, first = orbits.numbered
    assert sorted(set(place)) == list(range(orbits.size))
    np.testing.assert_array_equal(place[first], np.arange(orbits.size))
    V = embedding(sector)
    H = (V.T @ dense(model) @ V).real
    generator = np.random.default_rng(1)
    x = generator.normal(size=orbits.size) + 1j * generator.normal(size=orbits.size)
    energies, vectors = np.linalg.eigh(H)
    for t in (0.7, -3.0):
        expected = vectors @ (np.exp(-1j * t * energies) * (vectors.T @ x[place]))
        made = x.copy()
        OrbitSeries(orbits).advance(made, t, 1e-12)
        np.testing.assert_allclose(made[place], expected, rtol=0, atol=1e-11)


OBSERVE = [
    {"sz": "all"},
    {"correlator": ["xx", "zz"], "pairs": "all"},
    {"entropy": {"cuts": "all", "kinds": ["von_neumann", "renyi2"], "spectrum": 2}},
    "imbalance",
    "return_probability",
    "energy_variance",
    "state",
]
SIGMA = [{"type": "field", "axis": "z", "values": "0.1*j"}]


@pytest.mark.parametrize(
    "more",
    [
        [],
        [{"echo": {"sigma": SIGMA}}],
        [{"echo": {"sigma": SIGMA, "local": [1]}}],
        [{"time_correlation": 3}, {"otoc": {"w": 0, "v": [4]}}],
    ],
)
@pytest.mark.parametrize("spins", [8, 10])
def test_every_observable(trotter, spins, more):
    deck = {
        "system": {
            "spins": spins,
            "terms": [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6, "shells": [1]}],
        },
        "initial": {"type": "neel"},
        "evolve": {"outputs": [0.0, 0.6, 2.0, 5.0], "accuracy": 1e-10, "integrator": "chebyshev"},
        "observe": [*OBSERVE, *more],
    }
    found, expected = trotter.run(**deck), trotter.run(**deck, sector="full")
    assert expected.problem.sector is None
    names = set(expected.mean) & set(found.mean)
    assert names >= {"sz", "correlator_xx", "entropy", "imbalance", "return_probability", "energy_variance"}
    for name in names:
        np.testing.assert_allclose(found.mean[name], expected.mean[name], rtol=0, atol=2e-9, err_msg=name)
    assert np.linalg.norm(found.psi - expected.psi) < 1e-9


def test_who_carries(trotter):
    """Rings in fields of one value use it; disorder, random starts and single precision do not."""
    field = {"type": "field", "axis": "z", "values": 0.4}
    chain = {"type": "heisenberg", "lattice": "ring"}
    disorder = {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0}}
    evolve = {"t_final": 1.0, "outputs": 2, "accuracy": 1e-4}
    for terms, more, expected in (
        ([chain], {}, True),
        ([chain, field], {}, True),
        ([chain, disorder], {}, False),
        ([chain], {"initial": {"type": "haar"}, "sector": {"sz": 0}}, False),
        ([chain], {"run": {"precision": "single"}}, False),
        ([chain], {"sector": "full"}, False),
    ):
        from qsim.trotter.evolve.propagators.orbits import orbits_in

        problem = trotter.build(
            **{"system": {"spins": 8, "terms": terms}, "initial": {"type": "neel"}, "evolve": evolve} | more
        )
        assert (orbits_in(problem, problem.hamiltonian()) is not None) == expected


@pytest.mark.parametrize("calls", [1, 3])
def test_a_resumed_run_has_the_same_bits(trotter, calls):
    deck = {
        "system": {"spins": 10, "terms": [{"type": "heisenberg", "lattice": "ring"}]},
        "initial": {"type": "neel"},
        "evolve": {"outputs": [0, 1, 2, 3], "accuracy": 1e-9},
        "observe": ["sz", {"entropy": {"sites": "half"}}],
    }
    whole = trotter.run(**deck)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **deck)
    state, _ = checkpoint.load(file)
    found = trotter.run(monitor=Monitor(quiet=True, restored=state), **deck)
    for name, values in whole.mean.items():
        np.testing.assert_array_equal(found.mean[name], values, err_msg=name)


@pytest.mark.parametrize("x", [0.1, 0.7, 5.0, 61.3, 500.0, 1000.0])
def test_bessel_functions(x):
    values = np.empty(int(x + 40 + 20 * x ** (1 / 3)))
    bessel(x, values)
    np.testing.assert_allclose(values, jv(np.arange(values.size), x), rtol=0, atol=1e-14 * (1 + 0.1 * x))


def test_verification(trotter):
    result = trotter.run(
        system={"spins": 10, "terms": [{"type": "heisenberg", "lattice": "ring"}]},
        initial={"type": "neel"},
        evolve={"t_final": 3.0, "outputs": 2, "accuracy": 1e-9, "verify": True},
    )
    assert result.info["verification_error"][0] < 1e-9
    assert OrbitPropagator.expansion is None

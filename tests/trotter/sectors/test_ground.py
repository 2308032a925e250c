"""Quenches from the ground state of another Hamiltonian, against dense matrices."""

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.errors import DeckError, NumericsError
from qsim.trotter.model.hamiltonian import dense

CHAIN = {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.3}
SYSTEM = {
    "spins": 7,
    "terms": [CHAIN, {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0, "seed": 5}}],
}
START = {
    "type": "ground_state",
    "terms": [CHAIN, {"type": "field", "axis": "z", "values": "-0.4*j"}],
    "up": 3,
}


def exact(problem, t, start=START):
    from qsim.trotter.deck.couplings import System
    from qsim.trotter.model.hamiltonian import build_hamiltonian

    n = problem.spins
    up = n - np.bitwise_count(np.arange(1 << n))
    H0 = dense(build_hamiltonian(System(spins=n, terms=problem.start.terms), seed=0).at(0.0))
    inside = np.flatnonzero(up == start["up"])
    psi = np.zeros(1 << n, complex)
    psi[inside] = np.linalg.eigh(H0[np.ix_(inside, inside)])[1][:, 0]
    return expm(-1j * t * dense(problem.hamiltonian().at(0.0))) @ psi


@pytest.mark.parametrize(
    ("sector", "evolve"),
    [
        ("auto", {"accuracy": 1e-9}),
        ("full", {"accuracy": 1e-9}),
        ("auto", {"integrator": "bm6", "dt": 0.02}),
        ({"up": 3}, {"accuracy": 1e-9}),
    ],
)
def test_quench(trotter, sector, evolve):
    result = trotter.run(
        system=SYSTEM,
        initial=START,
        sector=sector,
        evolve={"t_final": 2.0, "outputs": 2, **evolve},
        observe=["state", "sz"],
    )
    psi = exact(result.problem, 2.0)
    assert (result.problem.sector is None) == (sector == "full" or "dt" in evolve)
    phase = np.vdot(result.psi, psi)
    phase /= abs(phase)
    assert np.linalg.norm(result.psi * phase - psi) <= result.integration.error + 1e-12
    s = 0.5 - (np.arange(128)[:, None] >> np.arange(7) & 1)
    np.testing.assert_allclose(result.mean["sz"][-1], abs(psi) ** 2 @ s, rtol=0, atol=1e-8)


def test_a_ground_state_stays(trotter):
    result = trotter.run(
        system={"spins": 10, "terms": [CHAIN]},
        initial={"type": "ground_state", "terms": [CHAIN]},
        evolve={"t_final": 20.0, "outputs": 3, "accuracy": 1e-9},
        observe=["return_probability", "energy_variance"],
    )
    assert result.mean["return_probability"][-1] == pytest.approx(1.0, abs=1e-10)
    assert abs(result.mean["energy_variance"]).max() < 1e-12


def test_with_inversion(trotter):
    ring = {"type": "heisenberg", "lattice": "ring", "J": 1.0}
    one, other = (
        trotter.run(
            system={"spins": 8, "terms": [{**CHAIN, "lattice": "ring"}]},
            initial={"type": "ground_state", "terms": [ring]},
            sector=sector,
            evolve={"t_final": 3.0, "outputs": 3, "accuracy": 1e-10},
            observe=[{"correlator": ["xx", "zz"], "pairs": "all"}, {"entropy": {"sites": "half"}}],
        )
        for sector in ({"sz": 0, "inversion": "even"}, "auto")
    )
    assert one.problem.dimension * 2 == other.problem.dimension
    for name in ("correlator_xx", "correlator_zz", "entropy", "energy"):
        np.testing.assert_allclose(one.mean[name], other.mean[name], rtol=0, atol=1e-8)


@pytest.mark.parametrize("sector", ["auto", {"momentum": 0}, {"parity": "even"}])
def test_a_quench_of_the_transverse_ising_ring(trotter, sector):
    # no total Sz: the ground state is that of all states, in whatever space it is carried
    ising = {"type": "ising", "lattice": "ring", "J": 1.0}
    blocks = [[ising, {"type": "field", "axis": "x", "values": h}] for h in (1.7, 0.4)]
    result = trotter.run(
        system={"spins": 6, "terms": blocks[1]},
        initial={"type": "ground_state", "terms": blocks[0]},
        sector=sector,
        evolve={"t_final": 1.5, "outputs": 2, "accuracy": 1e-10},
        observe=[{"sx": "all"}, {"correlator": "zz", "pairs": "all"}],
    )
    index = np.arange(64)
    z = 0.5 - (index >> np.arange(6)[:, None] & 1)
    x = np.zeros((6, 64, 64))
    for j in range(6):
        x[j, index, index ^ 1 << j] = 0.5
    before, after = (
        np.diag((z * np.roll(z, -1, axis=0)).sum(axis=0)) + h * x.sum(axis=0) for h in (1.7, 0.4)
    )
    psi = expm(-1.5j * after) @ np.linalg.eigh(before)[1][:, 0]
    sx = [np.vdot(psi, one @ psi).real for one in x]
    np.testing.assert_allclose(result.mean["sx"][-1], sx, rtol=0, atol=1e-9)


def test_what_cannot_be_is_refused(trotter):
    blocks = {"system": {"spins": 5, "terms": [CHAIN]}, "evolve": {"t_final": 1.0, "accuracy": 1e-6}}
    free = {"type": "ground_state", "terms": [{"type": "field", "axis": "z", "values": 0.3}]}
    with pytest.raises(NumericsError, match="degenerate in the sector"):
        trotter.run(**blocks, initial=free)
    across = {"type": "ground_state", "up": 2, "terms": [{"type": "field", "axis": "x", "values": 0.3}]}
    with pytest.raises(DeckError, match=r"initial.up: .*field along x at site 0"):
        trotter.run(**blocks, initial=across)
    # levels of both parities alike: no field along the strings, an odd number of spins
    xyz = {"type": "xyz", "lattice": "ring", "Jx": 1.0, "Jy": 0.5, "Jz": 0.2}
    with pytest.raises(NumericsError, match="both parities"):
        trotter.run(**blocks, initial={"type": "ground_state", "terms": [xyz, {**xyz, "shells": [2]}]})
    with pytest.raises(DeckError, match="6 spins up"):
        trotter.run(**blocks, initial={**START, "up": 6})

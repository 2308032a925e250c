"""Errors of numbers that sectors leave: sums of static factors, the maximum of the specific heat, gap ratios."""

import numpy as np
import pytest

from qsim.core.run.stages import Method
from qsim.core.statistics import error_of_mean
from qsim.trotter.levels.run import gap_ratios
from qsim.trotter.model.hamiltonian import dense
from tests.trotter.sectors.test_dynamics import spin


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_static_factors(trotter, seed):
    """Random chains: against the ground state of all states."""
    rng = np.random.default_rng(seed)
    spins = int(rng.integers(4, 8))
    bonds = [[j, j + 1, float(rng.uniform(0.3, 1.5))] for j in range(spins - 1)]
    system = {
        "spins": spins,
        "terms": [{"type": "pairs", "list": bonds}, {"type": "field", "axis": "z", "values": 0.11}],
    }
    numbers = [0.0, 0.37, 1.0]
    found = trotter.run(task="dynamics", system=system, dynamics={"q": numbers, "steps": 60})
    ground = np.linalg.eigh(dense(found.problem.model))[1][:, 0]
    total = 0.0
    for q in numbers:
        made = sum(np.exp(1j * np.pi * q * j) * (spin(2, j, spins) @ ground) for j in range(spins))
        total += np.vdot(made, made).real / spins
    scalar = Method("trotter").scalars(found)["static_sum"]
    assert abs(scalar.value - total) <= scalar.error < 1e-6


@pytest.mark.parametrize("count", [7, 12, 31])
def test_the_maximum_of_the_specific_heat(trotter, count):
    """On a coarse grid the temperature lies within its error of that on a fine one."""
    system = {"spins": 7, "terms": [{"type": "heisenberg", "lattice": "chain"}]}
    grid = {"from": 0.1, "to": 3.0}
    found = trotter.run(task="thermal", system=system, thermal={"temperatures": {**grid, "count": count}})
    fine = trotter.run(task="thermal", system=system, thermal={"temperatures": {**grid, "count": 2000}})
    scalars, exact = (Method("trotter").scalars(one)["temperature_of_maximum"] for one in (found, fine))
    assert abs(scalars.value - exact.value) <= scalars.error < 0.5
    # a maximum at the end of the grid is none
    cut = trotter.run(
        task="thermal", system=system, thermal={"temperatures": {"from": 1.0, "to": 3.0, "count": 5}}
    )
    assert Method("trotter").scalars(cut)["temperature_of_maximum"].error is None


def test_gap_ratios_of_one_realisation():
    """Random matrices of the orthogonal ensemble, and random levels: deviations from the mean of many follow the errors."""
    rng = np.random.default_rng(5)
    for kind in ("goe", "poisson"):
        means, errors = [], []
        for _case in range(80):
            if kind == "goe":
                matrix = rng.standard_normal((150, 150))
                levels = np.linalg.eigvalsh(matrix + matrix.T)[50:100]
            else:
                levels = np.sort(rng.uniform(size=50))
            ratios = gap_ratios(levels, 1e-12)
            means.append(ratios.mean())
            errors.append(error_of_mean(ratios))
        # of the means of all cases, whose own error is nine times smaller
        away = np.abs(np.array(means) - np.mean(means)) / np.array(errors)
        assert 0.55 < np.mean(away < 1.0) < 0.85
        assert np.mean(away < 2.5) > 0.93
    assert error_of_mean(np.ones(15)) is None


def test_a_gap_ratio_and_a_level_of_one_realisation_have_errors(trotter):
    system = {
        "spins": 10,
        "terms": [
            {"type": "heisenberg", "lattice": "chain"},
            {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0, "seed": 3}},
        ],
    }
    found = trotter.run(task="levels", system=system, sector={"sz": 0})
    scalars = Method("trotter").scalars(found)
    assert 0.01 < scalars["gap_ratio"].error < 0.1
    strings = found.problem.sectors[0].strings()
    exact = np.linalg.eigvalsh(
        dense(found.problem.model).real[np.ix_(strings, strings)].astype(np.longdouble).astype(float)
    )
    assert abs(scalars["energy_0"].value - exact[0]) <= scalars["energy_0"].error < 1e-11

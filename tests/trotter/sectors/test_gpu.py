"""Sectors of Sz: every task on a GPU gives what it gives on a CPU, and indices may exceed 32 bits.

Tolerances: levels are accepted by their residuals, 1e-10; all else follows from the accuracy asked for, or from rounding.
"""

import numpy as np
import pytest

from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.trotter.kernels.sectors.product import sector_product
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.operator import SectorOperator

pytestmark = pytest.mark.gpu

RING = {"type": "heisenberg", "lattice": "ring", "J": 1.0}
CHAIN = {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.7}
FIELD = {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5, 0.1, 0.0, -0.4, 0.2, 0.7, -0.6, 0.25]}
ENTROPY = {"entropy": {"cuts": "all", "kinds": ["von_neumann", "number", "renyi2"], "spectrum": 3}}

DECKS = {
    "spectrum": {
        "task": "spectrum",
        "system": {"spins": 10, "terms": [CHAIN, FIELD]},
        "sector": {"up": [5, 4]},
        "spectrum": {"levels": 3, "tolerance": 1e-10},
        "observe": [{"sz": "all"}, {"correlator": ["xx", "zz"], "pairs": "all"}, ENTROPY],
    },
    "inversion": {
        "task": "spectrum",
        "system": {"spins": 10, "terms": [RING]},
        "sector": {"sz": 0, "inversion": 1},
        "spectrum": {"levels": 2, "tolerance": 1e-10},
        "observe": [{"structure_factor": ["zz", "xx"]}, ENTROPY],
    },
    "lanczos": {
        "task": "dynamics",
        "system": {"spins": 10, "terms": [RING]},
        "sector": {"sz": 0},
        "dynamics": {"operator": "sz", "broadening": 0.1, "steps": 60},
    },
    "raised": {
        "task": "dynamics",
        "system": {"spins": 10, "terms": [CHAIN, FIELD]},
        "sector": {"sz": 0},
        "dynamics": {"operator": "sp", "broadening": 0.1, "steps": 40},
    },
    "current": {
        "task": "dynamics",
        "system": {"spins": 8, "terms": [CHAIN]},
        "sector": {"sz": 0},
        "dynamics": {"operator": "current", "broadening": 0.1, "steps": 100},
    },
    "local": {
        "task": "dynamics",
        "system": {"spins": 8, "terms": [CHAIN]},
        "sector": {"sz": 0},
        "dynamics": {"sites": [0, 5], "broadening": 0.1, "steps": 30},
    },
    "evolve": {
        "system": {"spins": 10, "terms": [CHAIN, FIELD]},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 3.0, "outputs": 4, "accuracy": 1e-9},
        "observe": [{"sz": "all"}, {"correlator": ["xx", "zz"], "pairs": "all"}, ENTROPY, "imbalance"],
    },
}


@pytest.mark.parametrize("name", DECKS)
def test_equal_to_the_cpu(trotter, cuda, name):
    found, expected = (
        Method("trotter").arrays(
            stage("trotter", "run").run(trotter.build(device=device, **DECKS[name]), Monitor.silent())
        )
        for device in (cuda, None)
    )
    assert set(found) == set(expected)
    for key, values in expected.items():
        # the recurrence finds converged poles again, a matter of rounding; what they sum up to is the spectral function;
        # Schmidt coefficients of a multiplet are equal, in any order
        if (
            key in ("residuals", "poles", "pole_weight", "schmidt_sz")
            or np.asarray(values).dtype.kind not in "fciu"
        ):
            continue
        if key == "change":
            # the bound follows the last residual, whose size is a matter of rounding once lines have converged
            assert np.all((found[key] <= 4.0 * values + 1e-9) & (values <= 4.0 * found[key] + 1e-9))
            continue
        np.testing.assert_allclose(found[key], values, rtol=0, atol=2e-8, equal_nan=True, err_msg=key)


def test_sampled_correlators_against_temperature(trotter, cuda):
    """Random vectors in every sector, the same on both devices; the second run of the recurrence has other rounding."""
    deck = {
        "task": "thermal",
        "system": {"spins": 8, "terms": [{**RING, "lattice": "chain"}]},
        "thermal": {"temperatures": [0.2, 1.0, 5.0], "vectors": 3, "steps": 20, "exact": 3},
        "observe": [{"correlator": ["xx", "zz"], "pairs": [[0, 1], [0, 3]]}, {"structure_factor": "zz"}],
        "run": {"seed": 1},
    }
    found, expected = (trotter.run(device=device, **deck) for device in (cuda, None))
    np.testing.assert_allclose(found.values, expected.values, rtol=0, atol=1e-9)
    assert set(found.observed) == {"correlator_xx_T", "correlator_zz_T", "structure_factor_zz_T"}
    for name, values in expected.observed.items():
        np.testing.assert_allclose(found.observed[name], values, rtol=0, atol=1e-9, err_msg=name)


def test_a_product_with_indices_beyond_32_bits(cuda):
    """N = 34, 2.3e9 states in single precision: elements of H psi against the sum over the flips of their strings."""
    n, sector = 34, Sector(34, 17)
    if cuda.free_memory() < 9 * sector.dimension:
        pytest.skip("19 GB of device memory are needed")
    xp = cuda.xp
    J = np.zeros((3, n, n))
    for j in range(n):
        k = (j + 1) % n
        J[:2, j, k] = J[:2, k, j] = 1.0 + 0.1 * j
        J[2, j, k] = J[2, k, j] = 0.5
    psi, out = (xp.empty(sector.dimension, np.float32) for _ in range(2))
    for start in range(0, sector.dimension, 1 << 24):
        end = min(start + (1 << 24), sector.dimension)
        psi[start:end] = xp.cos(xp.arange(start, end, dtype=np.float64) * 0.7390851332151607)
    operator = SectorOperator(cuda, sector, Model(n, J, np.zeros((3, n))))
    sector_product(cuda, operator.tables, psi, out)
    generator = np.random.default_rng(0)
    strings = [sum(1 << int(j) for j in generator.choice(n, 17, replace=False)) for _ in range(60)]
    strings += [((1 << 17) - 1) << 17, (1 << 17) - 1]  # the last index, 2 333 606 219, and the first
    places = sector.index(np.array(strings))
    assert places.max() == sector.dimension - 1 > 1 << 31
    for string, place in zip(strings, places, strict=True):
        expected = 0.0
        for j in range(n):
            k = (j + 1) % n
            differ = (string >> j ^ string >> k) & 1
            expected += (-0.125 if differ else 0.125) * np.cos(place * 0.7390851332151607)
            if differ:
                other = int(sector.index(np.array([string ^ (1 << j) ^ (1 << k)]))[0])
                expected += 0.5 * J[0, j, k] * np.cos(other * 0.7390851332151607)
        assert float(out[int(place)]) == pytest.approx(
            expected, abs=4e-5
        )  # 34 terms of size 2, eps 6e-8, and cos

"""Derivatives with respect to Jastrow parameters against finite differences of log psi and of the local energy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.qmc.deck.wavefunction import Jastrow as JastrowBlock
from qsim.qmc.deck.wavefunction import Sto, System
from qsim.qmc.kernels import walk
from qsim.qmc.kernels.derivatives import derivatives
from qsim.qmc.sampling.optimise import parameter_tables
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.ions import build_system
from qsim.qmc.system.pseudopotentials import from_ecp
from qsim.qmc.system.quadrature import rule
from qsim.qmc.wavefunction.jastrow import Function, Jastrow, build_jastrow
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction
from qsim.qmc.wavefunction.sto import slater
from tests.qmc.trials import trial_function

# as PySCF writes it: pairs (exponent, factor) of r^(n-2) for n = 0, 1, ...; local, s, p and d
CORE = (
    2,
    [
        (-1, [[], [(6.0, 4.0)], [(5.0, -8.0)]]),
        (0, [[], [], [(1.5, 9.0)]]),
        (1, [[], [], [(1.2, -5.0)]]),
        (2, [[], [], [(1.0, 2.0)]]),
    ],
)
SHELLS = [
    {"atom": "C", "n": 1, "l": 0, "zeta": 4.3},
    {"atom": "C", "n": 2, "l": 0, "zeta": 1.6},
    {"atom": "C", "n": 2, "l": 1, "zeta": 1.5},
    {"atom": "H", "n": 1, "l": 0, "zeta": 1.2},
]
ROWS = {
    "up": [
        [0.2, 0.9, 0.1, 0, 0.3, 0.5],
        [0, 0.1, 1, 0, 0.1, 0],
        [0, 0.2, 0, 1, 0, 0.1],
        [0, 0.3, 0, 0, 1, -0.8],
    ],
    "down": [[0.1, 0.9, 0, 0, 0.3, 0.6], [0.5, 0.1, 0.9, 0.1, 0, 0], [0, 0.3, 0, 0, 1, -0.7]],
}


J1 = {"type": "bspline", "rcut": 4.0, "size": 5}


def hydrocarbon(J2, ecp):
    """CH, with or without a core: 4 + 1 or 6 + 1 electrons, two species, all three kinds of pairs."""
    system = build_system(
        System(atoms=[["C", 0, 0, -1.0], ["H", 0, 0.1, 1.0]], spin=1),
        {"C": from_ecp("C", 6, CORE)} if ecp else {},
    )
    orbitals = slater(Sto(source="sto", shells=SHELLS, molecular_orbitals=ROWS), system)
    return Wavefunction(
        system, orbitals, build_jastrow(JastrowBlock(J1=J1, J2=J2), system, {"C": 5.0, "H": 1.0}), rule(12)
    )


def hooke():
    """Hooke's atom with its exact pair function and a function of the distance to the centre, of no effect at first."""
    exact = trial_function({"atoms": []}, {"source": "hooke"})
    functions = (*exact.jastrow.functions[:2], Function("", "bspline", 0.0, (0.0,) * 6, 5.0))
    return Wavefunction(
        exact.system, exact.orbitals, Jastrow(functions, exact.jastrow.species, 1), exact.rule
    )


SPLINE, PADE = {"type": "bspline", "rcut": 5.0, "size": 6}, {"type": "pade", "b": 0.7}
CASES = {
    "splines": lambda: hydrocarbon(SPLINE, ecp=False),
    "splines, nonlocal": lambda: hydrocarbon(SPLINE, ecp=True),
    "pade, nonlocal": lambda: hydrocarbon(PADE, ecp=True),
    "hooke": hooke,
}
STREAM = walk.Stream(rng.key_from_seed(3), 1, 7)


def measured(w, R, single=False, threads=1):
    walkers = Walkers(cpu(threads), w, len(R), STREAM.key, single=single)
    walkers.state.R[...] = R
    walkers.recompute()
    walk.energies(walkers.device, walkers.state, walkers.tables, STREAM)
    return walkers


def differentiated(walkers):
    w = walkers.wavefunction
    tables = parameter_tables(w.jastrow)
    return derivatives(walkers.device, walkers.state, walkers.tables, tables, w.parameters.size, STREAM)


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_finite_differences(name):
    w = CASES[name]()
    generator = np.random.default_rng(5)
    p = w.parameters + 0.2 * generator.normal(size=w.parameters.size) * (w.parameters != 0.7)
    w = w.with_parameters(p)
    R = w.scatter(6, generator)
    walkers = measured(w, R)
    energy = walkers.state.energy.copy()
    O, G = differentiated(walkers)
    assert_allclose(walkers.state.energy, energy, rtol=1e-14)
    if "nonlocal" in name:
        assert np.abs(energy[:, 3]).min() > 1e-3
    h, around = 1e-3, ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
    for k in range(p.size):
        slope, energy_slope = np.zeros(len(R)), np.zeros(len(R))
        for steps, factor in around:
            moved = measured(w.with_parameters(p + steps * h * np.eye(p.size)[k]), R)
            slope += factor / h * moved.state.log_psi
            energy_slope += factor / h * moved.state.energy[:, 5]
        assert_allclose(O[:, k], slope, atol=1e-8, rtol=1e-8, err_msg=w.parameter_names[k])
        scale = 1.0 + np.abs(energy[:, 0])  # its parts cancel
        assert_allclose(
            G[:, k] / scale, energy_slope / scale, atol=1e-7, rtol=1e-6, err_msg=w.parameter_names[k]
        )


def test_local_energy_of_hooke_does_not_depend_on_configuration_at_the_exact_parameters():
    w = hooke()
    walkers = measured(w, w.scatter(20, np.random.default_rng(1)))
    O, _ = differentiated(walkers)
    assert_allclose(walkers.state.energy[:, 5], 2.0, atol=1e-7)
    assert np.abs(O).max() > 0.1


def test_threads_and_single_precision():
    w = hydrocarbon(SPLINE, ecp=True)
    R = w.scatter(40, np.random.default_rng(2))
    O, G = differentiated(measured(w, R))
    for one, other in zip((O, G), differentiated(measured(w, R, threads=2)), strict=True):
        assert np.array_equal(one, other)
    O32, G32 = differentiated(measured(w, R, single=True))
    assert_allclose(O32, O, atol=1e-12)
    assert np.median(np.abs(G32 - G)) < 1e-4


def test_parameters_of_tables():
    w = hydrocarbon(PADE, ecp=True)
    tables = parameter_tables(w.jastrow)
    assert tables.first.tolist() == [0, 1, 2, 12]
    assert tables.place[:2].tolist() == [0, 1]
    # c_0 = p_1 - 2 h cusp, c_1 = p_0, c_2 = p_1, ...
    assert tables.place[2:12].tolist() == [3, 2, 3, 4, 5, 6, -1, -1, -1, -1]

"""Derivatives with respect to parameters of Jastrow factor and determinants: finite differences, CPU = CUDA.

Tolerance of CUDA: the sums have at most a few thousand terms, added in another order, so ``1e-10`` of the largest derivative; in
single precision, where orbitals alone are rounded to 6e-8, gradients have a relative error of 1e-5 next to nodes: medians.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.qmc.deck.wavefunction import Jastrow as JastrowBlock
from qsim.qmc.deck.wavefunction import Sto, System
from qsim.qmc.kernels.molecule import launch as molecule_launch
from qsim.qmc.kernels.walkers import launches, walk
from qsim.qmc.kernels.walkers.derivatives import derivatives
from qsim.qmc.sampling.parameters import Varied
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.ions import build_system
from qsim.qmc.system.pseudopotentials import from_ecp
from qsim.qmc.system.quadrature import rule
from qsim.qmc.wavefunction.expansion import Listed, arranged
from qsim.qmc.wavefunction.jastrow import Function, Jastrow, build_jastrow
from qsim.qmc.wavefunction.mixing import mixing_of
from qsim.qmc.wavefunction.molecules.sto import slater
from qsim.qmc.wavefunction.selection import lowest
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction
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
    expansion, orders = lowest(system.n_up, system.n_dn)
    orbitals = slater(Sto(source="sto", shells=SHELLS, molecular_orbitals=ROWS), system, orders)
    jastrow = build_jastrow(JastrowBlock(J1=J1, J2=J2), system, {"C": 5.0, "H": 1.0})
    return Wavefunction(system, orbitals, jastrow, rule(12), expansion)


def hooke():
    """Hooke's atom with its exact pair function and a function of the distance to the centre, of no effect at first."""
    exact = trial_function({"atoms": []}, {"source": "hooke"})
    functions = (*exact.jastrow.functions[:2], Function("", "bspline", 0.0, (0.0,) * 6, 5.0))
    return replace(exact, jastrow=Jastrow(functions, exact.jastrow.species, 1))


MORE = [[0.9, 0.2, 0.4, 0.1, -0.3, 0.3], [0.1, -0.5, 0.2, 0.8, 0.4, 0.1]]


def turned(w, orbitals):
    """A trial function whose orbitals mix with others, and have done so already."""
    mixing = mixing_of(orbitals.equally_far(), w.expansion, w.system)
    w = replace(w, orbitals=mixing.orbitals(), mixing=mixing)
    before = w.parameters.size - mixing.values.size
    return w.with_parameters(
        w.parameters + 0.1 * np.sin(np.arange(w.parameters.size)) * (np.arange(w.parameters.size) >= before)
    )


def turned_hydrocarbon(J2, ecp):
    """CH in one determinant, whose orbitals mix with two others of each spin."""
    w = hydrocarbon(J2, ecp)
    _, orders = lowest(w.n_up, w.n_dn)
    rows = {spin: [*ROWS[spin][:count], *MORE] for spin, count in (("up", w.n_up), ("down", w.n_dn))}
    return turned(w, slater(Sto(source="sto", shells=SHELLS, molecular_orbitals=rows), w.system, orders, 2))


def carbons_and_hydrogens(J2, ecp, virtual=None):
    """CH again, in eight determinants of six orbitals of each spin, two of which make a configuration."""
    w = hydrocarbon(J2, ecp)
    up, down = ROWS["up"], ROWS["down"]
    rows = {"up": [*up, [0.5, -0.3, 0.4, 0.1, 0.2, 0.9], [0, 0.3, 0.2, 1, -0.9, 0.2]]}
    rows["down"] = [
        *down,
        [0.3, 0.2, 0, 1, 0.1, 0.2],
        [0.4, -0.6, 0.1, 0.2, 0.3, 0.9],
        [0, 0.1, 0.8, -0.4, 0.3, 0.5],
    ]
    n, m = w.n_up, w.n_dn
    a, b = list(range(n)), list(range(m))
    pairs = [
        (a, b),
        ([*a[1:], 4], b),
        (a, [*b[1:], 4]),
        ([*a[1:], 5], [*b[:-1], 5]),
        ([*a[:-1], 4], [*b[1:], 3]),
    ]
    pairs += [([*a[2:], 4, 5], b), ([*a[2:], 4, 5], [*b[1:], 5]), (a, [*b[:-1], 5])]
    strings, index = [], []
    for spin in range(2):
        table, which = np.unique([pair[spin] for pair in pairs], axis=0, return_inverse=True)
        strings.append(table)
        index.append(which.ravel())
    c = np.array([0.9, 0.3, -0.25, 0.2, 0.15, -0.3, 0.1, 0.2])
    listed = Listed(tuple(strings), np.stack(index, -1), c)
    expansion, orders = arranged(listed, np.array([3, 0, 0, 2, 1, 5, 4, 6]))
    if virtual is not None:
        rows = {spin: [*some, *MORE] for spin, some in rows.items()}
    orbitals = slater(Sto(source="sto", shells=SHELLS, molecular_orbitals=rows), w.system, orders, virtual)
    w = replace(w, orbitals=orbitals.equally_far(), expansion=expansion)
    return w if virtual is None else turned(w, orbitals)


SPLINE, PADE = {"type": "bspline", "rcut": 5.0, "size": 6}, {"type": "pade", "b": 0.7}
CASES = {
    "splines": lambda: hydrocarbon(SPLINE, ecp=False),
    "splines, nonlocal": lambda: hydrocarbon(SPLINE, ecp=True),
    "pade, nonlocal": lambda: hydrocarbon(PADE, ecp=True),
    "hooke": hooke,
    "determinants": lambda: carbons_and_hydrogens(SPLINE, ecp=False),
    "determinants, nonlocal": lambda: carbons_and_hydrogens(PADE, ecp=True),
    "orbitals": lambda: turned_hydrocarbon(SPLINE, ecp=False),
    "orbitals, nonlocal": lambda: turned_hydrocarbon(SPLINE, ecp=True),
    "orbitals of determinants": lambda: carbons_and_hydrogens(SPLINE, ecp=False, virtual=1),
    "orbitals of determinants, nonlocal": lambda: carbons_and_hydrogens(PADE, ecp=True, virtual=2),
}
STREAM = walk.Stream(rng.key_from_seed(3), 1, 7)


def measured(w, R, single=False, threads=1, device=None):
    walkers = Walkers(device or cpu(threads), w, len(R), STREAM.key, single=single)
    walkers.state.R[...] = walkers.device.asarray(R)
    walkers.recompute()
    walk.energies(walkers.device, walkers.state, walkers.tables, STREAM)
    return walkers


def differentiated(walkers):
    w = walkers.wavefunction
    varied = Varied(w)
    tables = varied.tables(walkers.device)
    slopes = derivatives(walkers.device, walkers.state, walkers.tables, tables, varied.count, STREAM)
    return tuple(map(walkers.device.to_host, slopes))


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_finite_differences(name):
    w = CASES[name]()
    generator = np.random.default_rng(5)
    p = w.parameters
    own = np.arange(p.size) < p.size - (0 if w.mixing is None else w.mixing.values.size)
    p = p + 0.2 * generator.normal(size=p.size) * ((p != 0.7) & own)
    w = w.with_parameters(p)
    free = Varied(w).places
    names = [w.parameter_names[k] for k in free]
    R = w.scatter(6, generator)
    walkers = measured(w, R)
    energy = walkers.state.energy.copy()
    O, G = differentiated(walkers)
    assert_allclose(walkers.state.energy, energy, rtol=1e-14)
    if "nonlocal" in name:
        assert np.abs(energy[:, 3]).min() > 1e-3
    around = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
    for k, name in zip(free, names, strict=True):
        # psi is linear in coefficients: next to a node, where it nearly vanishes, a step must not cross it
        h = {"c": 1e-4, "x": 1e-5}.get(name.partition("_")[0], 1e-3)
        slope, energy_slope = np.zeros(len(R)), np.zeros(len(R))
        for steps, factor in around:
            moved = measured(w.with_parameters(p + steps * h * (np.arange(p.size) == k)), R)
            slope += factor / h * moved.state.log_psi
            energy_slope += factor / h * moved.state.energy[:, 5]
        at = names.index(name)
        assert_allclose(O[:, at], slope, atol=1e-8, rtol=1e-8, err_msg=name)
        scale = 1.0 + np.abs(energy[:, 0])  # its parts cancel
        assert_allclose(G[:, at] / scale, energy_slope / scale, atol=1e-7, rtol=1e-6, err_msg=name)


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


def test_determinants_of_a_configuration_share_a_parameter():
    expansion = carbons_and_hydrogens(SPLINE, ecp=True).expansion
    assert expansion.parameters.size == 6
    assert_allclose(
        sorted(expansion.parameters * 0.9), sorted([np.hypot(0.3, 0.25), 0.2, 0.15, 0.3, 0.1, 0.2])
    )
    other = expansion.with_parameters(np.arange(6.0))
    ratio = other.coefficients / expansion.coefficients
    assert ratio[1] == ratio[2]
    assert ratio[0] == 1.0
    again = other.with_parameters(expansion.parameters)
    assert_allclose(again.coefficients, expansion.coefficients, rtol=1e-14)


def test_parameters_of_tables():
    w = hydrocarbon(PADE, ecp=True)
    tables = Varied(w).tables(cpu(1))
    assert tables.first.tolist() == [0, 1, 2, 12]
    assert tables.place[:2].tolist() == [0, 1]
    # c_0 = p_1 - 2 h cusp, c_1 = p_0, c_2 = p_1, ...
    assert tables.place[2:12].tolist() == [3, 2, 3, 4, 5, 6, -1, -1, -1, -1]


# ---------------------------------------------------------------------------------------------- CUDA


def compare(cuda, w, walkers):
    """Hold derivatives and energies of random walkers on the GPU against those of the CPU twin."""
    R = w.scatter(walkers, np.random.default_rng(7))
    here, there = measured(w, R), measured(w, R, device=cuda)
    wanted, found = differentiated(here), differentiated(there)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == (walkers, Varied(w).count)
        assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())
    scale = np.abs(here.state.energy).sum(axis=1, keepdims=True)
    assert_allclose(cuda.to_host(there.state.energy) / scale, here.state.energy / scale, atol=1e-10)
    return found


def polarised():
    """Three electrons of one spin around lithium: no electron of the other spin."""
    system = build_system(System(atoms=[["Li", 0.1, 0, 0]], spin=3), {})
    shells = [{"atom": "Li", "n": n, "l": 0, "zeta": 2.0 / n} for n in (1, 2, 3)]
    expansion, orders = lowest(system.n_up, system.n_dn)
    orbitals = slater(Sto(source="sto", shells=shells), system, orders)
    jastrow = build_jastrow(JastrowBlock(J1=J1, J2=SPLINE), system, {"Li": 5.0})
    return Wavefunction(system, orbitals, jastrow, rule(12), expansion)


ON_GPU = {
    **CASES,
    "polarised": polarised,
}


def stirred(name):
    w = ON_GPU[name]()
    return w.with_parameters(w.parameters + 0.1 * np.sin(1.0 + np.arange(w.parameters.size)))


@pytest.mark.gpu
@pytest.mark.parametrize("walkers", [1, 31, 33])
@pytest.mark.parametrize("name", ON_GPU)
def test_cuda_is_the_cpu_twin(cuda, name, walkers):
    O, G = compare(cuda, stirred(name), walkers)
    assert np.abs(O).max() > 0.1
    assert np.abs(G).max() > 0.1


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["splines, nonlocal", "orbitals of determinants, nonlocal"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_any_number_of_lanes_carries_the_derivatives_of_a_walker(cuda, lanes, name, monkeypatch):
    monkeypatch.setattr(molecule_launch, "lanes_of", lambda *_: lanes)
    compare(cuda, stirred(name), 37)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["splines, nonlocal", "hooke"])
def test_sums_that_shared_memory_does_not_hold(cuda, name, monkeypatch):
    w = stirred(name)
    wanted = compare(cuda, w, 37)
    monkeypatch.setattr(launches, "SUMS_BYTES", 0)
    for one, other in zip(compare(cuda, w, 37), wanted, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.gpu
def test_mixed_precision_of_cuda_is_that_of_the_cpu_twin(cuda):
    w = stirred("splines, nonlocal")
    R = w.scatter(40, np.random.default_rng(2))
    O, G = differentiated(measured(w, R, single=True))
    O32, G32 = differentiated(measured(w, R, single=True, device=cuda))
    assert_allclose(O32, O, atol=1e-12)
    assert np.median(np.abs(G32 - G)) < 1e-4

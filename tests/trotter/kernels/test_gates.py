"""Gates of one and of two sites in spaces of strings, against exponentials of Kronecker products."""

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.device.device import cpu
from qsim.trotter.evolution.gates import GateFormula, gate_pilot, gates_of
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.model.larger import SpinModel, quanta_of
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.parity import ParitySector, WholeSpace

SPACES = [
    DigitSpace((2, 1, 3)),
    DigitSpace((2, 2, 1, 2), down=3),
    DigitSpace((3, 1, 2), odd=1),
    DigitSpace((7, 7)),
    Sector(5, 2),
    WholeSpace(5),
    ParitySector(5, 1),
    DigitSpace((3,)),
]


def model_of(space, seed=1):
    """Return random matrices of all sites and of most pairs that conserve what the space fixes."""
    g, twos = np.random.default_rng(seed), space.digits.twos

    def hermitian(own):
        kind = quanta_of(own)
        if space.digits.down < 0:
            kind = kind % 2 if space.digits.odd >= 0 else 0 * kind
        M = g.normal(size=(2, kind.size, kind.size))
        M = M[0] + 1j * M[1]
        return (M + M.conj().T) * (kind[:, None] == kind)

    pairs = [(j, k) for j in range(len(twos)) for k in range(j + 1, len(twos)) if (j, k) != (0, 2)]
    empty = SpinModel.empty(twos)
    bonds = {(j, k): hermitian([twos[j], twos[k]]) for j, k in pairs}
    sites = {j: hermitian([two]) for j, two in enumerate(twos)}
    return SpinModel(empty.spins, empty.J, empty.h, None, twos, sites, bonds)


def dense_gate(gate, twos):
    """Return a gate among all states, site 0 fastest."""
    sizes = [two + 1 for two in twos]
    sites = sorted({gate.j, gate.k})
    rest = [j for j in range(len(twos)) if j not in sites]
    order = [*sites, *rest]
    full = np.kron(gate.matrix, np.eye(int(np.prod([sizes[j] for j in rest], initial=1))))
    d = [sizes[j] for j in order]
    # axes in the order of the sites, the last one first
    axes = [order.index(j) for j in range(len(twos))][::-1]
    full = full.reshape(*d, *d).transpose(*axes, *(a + len(d) for a in axes))
    return full.reshape((int(np.prod(sizes)),) * 2)


def places(space):
    """Return the place among all states of every index."""
    one = space.digits
    total, weight = 0, 1
    for j, two in enumerate(one.twos):
        total = total + weight * one.digit(space.strings(), j)
        weight *= two + 1
    return total


def vector(space, dtype=np.complex128):
    g = np.random.default_rng(3)
    psi = g.normal(size=space.dimension) + 1j * g.normal(size=space.dimension)
    return (psi / np.linalg.norm(psi)).astype(dtype)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_step_is_the_product_of_its_gates(space):
    model, tau = model_of(space), 0.37
    gates = list(gates_of(model))
    whole = [dense_gate(gate, space.digits.twos) for gate in gates]
    inside = np.ix_(places(space), places(space))
    total = sum(term for term in whole)[inside]
    expected = vector(space)
    formula = GateFormula(cpu(1), space, model, expected.copy())
    for group in formula.groups.groups:
        for gate in group:
            number = next(n for n, one in enumerate(gates) if one[:2] == gate[:2])
            expected = expm(-1j * tau * whole[number][inside]) @ expected
    formula.advance("ts1", tau, 1)
    np.testing.assert_allclose(formula.psi, expected, rtol=0, atol=1e-13)
    # the gates add up to H
    other = GateFormula(cpu(2), space, model, vector(space))
    other.advance("bm4", 1e-3, 20)
    np.testing.assert_allclose(other.psi, expm(-0.02j * total) @ vector(space), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_orders_of_convergence(method):
    space = DigitSpace((2, 1, 2, 1))
    model = model_of(space)
    total = sum(dense_gate(gate, space.twos) for gate in gates_of(model))
    exact = expm(-0.4j * total) @ vector(space)
    errors = []
    for steps in (8, 16) if method != "kl8" else (3, 6):
        formula = GateFormula(cpu(1), space, model, vector(space))
        formula.advance(method, 0.4 / steps, steps)
        errors.append(np.linalg.norm(formula.psi - exact))
    assert errors[1] < 1.3 * errors[0] * 0.5 ** (0.9 * METHODS[method].order) + 1e-12


def test_the_pilot_of_a_long_chain():
    """Of an infinite chain any part is like another: a few sites, and errors that add like random numbers."""
    n = 30
    J = np.zeros((3, n, n))
    for j in range(n - 1):
        J[:, j, j + 1] = J[:, j + 1, j] = 1.0
    empty = SpinModel.empty((2,) * n)
    pilot = gate_pilot(SpinModel(n, J, empty.h, None, empty.twos))
    assert pilot.states[0].size == 3**7
    assert 1.4 * np.sqrt(28 / 7) < pilot.growth < 1.4 * np.sqrt(30 / 6)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("space", SPACES, ids=str)
def test_gates_on_a_gpu(cuda, space, dtype):
    model = model_of(space)
    here = GateFormula(cpu(1), space, model, vector(space, dtype))
    there = GateFormula(cuda, space, model, cuda.asarray(vector(space, dtype)))
    for formula in (here, there):
        formula.advance("ts4", 0.1, 3)
    tolerance = 1e-13 if dtype == np.complex128 else 1e-5
    np.testing.assert_allclose(cuda.to_host(there.psi), here.psi, rtol=0, atol=tolerance)

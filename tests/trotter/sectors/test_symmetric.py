"""Sectors of momentum, reflection, inversion and other permutations: against dense matrices and projectors of the whole space.

Tolerances: energies of at most 2^10 states are sums of O(N) couplings of order one; 1e-12 is thousands of roundings.
"""

from fractions import Fraction

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.symmetric import (
    SymmetricOperator,
    SymmetricSector,
    Symmetry,
    broken,
    order_of,
    reflected,
    shifted,
)


def ring(n, fields=False, seed=0, chiral=False):
    """Random XXZ couplings that depend on the distance alone, and Dzyaloshinskii-Moriya ones along z."""
    generator = np.random.default_rng([n, seed])
    J = np.zeros((3, n, n))
    for r in range(1, n // 2 + 1):
        xy, z = generator.normal(size=2)
        for j in range(n):
            k = (j + r) % n
            J[:2, j, k] = J[:2, k, j] = xy
            J[2, j, k] = J[2, k, j] = z
    h = np.zeros((3, n))
    h[2] = 0.7 if fields else 0.0
    cross = np.zeros((3, 3, n, n)) if chiral else None
    if chiral:
        for r, D in ((1, 0.4), (2, -0.9)):
            for j in range(n):
                k = (j + r) % n
                cross[0, 1, j, k] = cross[1, 0, k, j] = D  # K_ab of j and k is K_ba of k and j
                cross[1, 0, j, k] = cross[0, 1, k, j] = -D
    return Model(n, J, h, cross)


def sector(n, down, momentum=None, reflection=0, inversion=0):
    symmetries = []
    if momentum is not None:
        symmetries.append(Symmetry(f"k={momentum}", shifted(n), False, Fraction(momentum, n)))
    if reflection:
        symmetries.append(Symmetry("p", reflected(n), False, Fraction(reflection < 0, 2)))
    if inversion:
        symmetries.append(Symmetry("z", tuple(range(n)), True, Fraction(inversion < 0, 2)))
    return SymmetricSector(Sector(n, down), tuple(symmetries), inversion, momentum, reflection)


def unitary(n, sites, turned=False):
    """The matrix of a permutation of sites in the whole space, made bit by bit."""
    out = np.zeros((1 << n, 1 << n))
    for s in range(1 << n):
        image = sum((s >> j & 1) << sites[j] for j in range(n))
        out[image ^ ((1 << n) - 1) if turned else image, s] = 1.0
    return out


def embedded(made, psi):
    out = np.zeros(1 << made.spins, complex)
    out[made.base.strings()] = made.whole(psi)
    return out


@pytest.mark.parametrize(
    ("n", "down", "fields", "chiral"),
    [
        (6, 3, False, False),
        (7, 3, True, False),
        (8, 4, False, False),
        (8, 2, True, False),
        (7, 3, True, True),
        (6, 2, False, True),
    ],
)
def test_every_momentum(n, down, fields, chiral):
    """States are orthonormal eigenstates of the shift, H in them is the dense H, and all momenta give all levels."""
    model, levels = ring(n, fields, chiral=chiral), []
    assert not broken(model, shifted(n))
    H, T = dense(model), unitary(n, shifted(n))
    for k in range(n):
        made = sector(n, down, momentum=k)
        if made.dimension == 0:
            continue
        operator = SymmetricOperator(cpu(1), made, model)
        V = np.array([embedded(made, e) for e in np.eye(made.dimension, dtype=operator.dtype)]).T
        np.testing.assert_allclose(V.conj().T @ V, np.eye(made.dimension), atol=1e-13)
        np.testing.assert_allclose(T @ V, np.exp(-2j * np.pi * k / n) * V, atol=1e-13)
        np.testing.assert_allclose(operator.matrix.toarray(), V.conj().T @ H @ V, atol=1e-12)
        levels.append(np.linalg.eigvalsh(operator.matrix.toarray()))
    strings = Sector(n, down).strings()
    expected = np.linalg.eigvalsh(H[np.ix_(strings, strings)])
    np.testing.assert_allclose(np.sort(np.concatenate(levels)), expected, atol=1e-12)


@pytest.mark.parametrize("n", [4, 6, 8])
def test_all_symmetries_of_a_ring(n):
    """Momentum 0 and pi with reflection and inversion: eigenvalues of all three, and the eight sectors add up."""
    model, levels = ring(n), []
    H = dense(model)
    for momentum in (0, n // 2):
        for p in (1, -1):
            for z in (1, -1):
                made = sector(n, n // 2, momentum, p, z)
                if made.dimension == 0:
                    continue
                operator = SymmetricOperator(cpu(1), made, model)
                assert operator.dtype == np.float64
                V = np.array([embedded(made, e) for e in np.eye(made.dimension)]).T
                np.testing.assert_allclose(unitary(n, reflected(n)) @ V, p * V, atol=1e-13)
                np.testing.assert_allclose(unitary(n, range(n), True) @ V, z * V, atol=1e-13)
                np.testing.assert_allclose(operator.matrix.toarray(), V.T @ H @ V, atol=1e-12)
                levels.append(np.linalg.eigvalsh(operator.matrix.toarray()))
    expected = [
        np.linalg.eigvalsh(SymmetricOperator(cpu(1), sector(n, n // 2, k), model).matrix.toarray())
        for k in (0, n // 2)
    ]
    np.testing.assert_allclose(np.sort(np.concatenate(levels)), np.sort(np.concatenate(expected)), atol=1e-12)


def test_the_product_with_all_factors():
    made, generator = sector(8, 4, momentum=3), np.random.default_rng(0)
    operator = SymmetricOperator(cpu(1), made, ring(8))
    psi, old = generator.normal(size=(2, made.dimension)) + 1j * generator.normal(size=(2, made.dimension))
    out = old.copy()
    operator.apply(psi, out, 0.7, -0.4, -1.3)
    np.testing.assert_allclose(out, 0.7 * operator.matrix.toarray() @ psi - 0.4 * psi - 1.3 * old, atol=1e-12)


def test_permutations_of_a_torus():
    """3 x 3 torus: both momenta by permutations; all nine sectors make up all states of an Sz."""
    n, model = 9, None
    right = tuple(3 * (j // 3) + (j + 1) % 3 for j in range(n))
    up = tuple((j + 3) % n for j in range(n))
    J = np.zeros((3, n, n))
    for j in range(n):
        for k in (right[j], up[j]):
            J[:, j, k] = J[:, k, j] = 1.0, 1.0, 0.5
    model = Model(n, J, np.zeros((3, n)))
    assert order_of(right) == order_of(up) == 3
    assert not broken(model, right)
    levels = []
    for kx in range(3):
        for ky in range(3):
            made = SymmetricSector(
                Sector(n, 4),
                (
                    Symmetry("x", right, False, Fraction(kx, 3)),
                    Symmetry("y", up, False, Fraction(ky, 3)),
                ),
            )
            levels.append(np.linalg.eigvalsh(SymmetricOperator(cpu(1), made, model).matrix.toarray()))
    strings = Sector(n, 4).strings()
    expected = np.linalg.eigvalsh(dense(model)[np.ix_(strings, strings)])
    np.testing.assert_allclose(np.sort(np.concatenate(levels)), expected, atol=1e-12)


def test_no_common_state():
    with pytest.raises(DeckError, match="no state has all of these properties"):
        _ = sector(8, 4, momentum=1, reflection=1).dimension


def test_where_a_symmetry_is_broken():
    model = ring(6)
    model.h[2, 3] = 0.5
    assert "field along z is 0 at site 2 and 0.5 at site 3" in broken(model, shifted(6))
    model.J[0, 1, 2] = model.J[0, 2, 1] = 5.0
    assert "Jx of sites" in broken(model, shifted(6))
    assert not broken(ring(6), reflected(6))


def test_dimensions_of_larger_rings():
    """N = 24, k = 0, even under reflection and inversion: 28 968 states, as QuSpin counts them; N = 20: 2518."""
    assert sector(24, 12, 0, 1, 1).dimension == 28968
    assert sector(20, 10, 0, 1, 1).dimension == 2518
    made = sector(20, 10, 0, 1, 1)
    assert made.orbits(cpu(1)).strings.size == 2518

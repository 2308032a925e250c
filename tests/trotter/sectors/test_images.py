"""Smallest images of strings, and products in sectors of characters without a stored matrix.

Oracles: all elements of the group one by one, the stored matrices (compared with dense ones in test_symmetric.py), and the Bethe
ansatz.  Tolerances: sums of O(N) couplings of order one, 1e-12 is thousands of roundings; energies by the residual asked for.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.sectors.images import images_of
from qsim.trotter.measurement.spaces import operator_in
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.model.larger import SpinModel
from qsim.trotter.sectors import symmetric
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.digits.measure import component
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace
from qsim.trotter.sectors.lowest import lowest_levels
from qsim.trotter.sectors.parity import ParitySector, WholeSpace
from qsim.trotter.sectors.symmetric import SymmetricOperator, SymmetricSector, Symmetry, reflected, shifted


def moved(n, length):
    """Shift of an (n / length) x length torus by one site within its rows."""
    return tuple(j // length * length + (j + 1) % length for j in range(n))


def rows(n, length):
    return tuple((j + length) % n for j in range(n))


HALF, ZERO = Fraction(1, 2), Fraction(0)
SPACES = {
    "ring": (
        Sector(12, 6),
        [(shifted(12), False, ZERO), (reflected(12), False, HALF), (range(12), True, ZERO)],
    ),
    "momentum": (Sector(10, 4), [(shifted(10), False, Fraction(3, 10))]),
    "all": (WholeSpace(8), [(shifted(8), False, Fraction(1, 8))]),
    "parity": (ParitySector(9, 1), [(shifted(9), False, Fraction(2, 9))]),
    "torus": (Sector(12, 6), [(moved(12, 4), False, Fraction(1, 4)), (rows(12, 4), False, Fraction(2, 3))]),
    "mirror": (Sector(8, 4), [(reflected(8), False, HALF)]),
    "spin1": (DigitSpace((2,) * 6, 6), [(shifted(6), False, Fraction(1, 6))]),
    "turned": (DigitSpace((3,) * 4, 6), [(shifted(4), False, HALF), (range(4), True, HALF)]),
    "cells": (DigitSpace((1, 2) * 3), [(rows(6, 2), False, Fraction(1, 3))]),
}


def sector(name):
    base, generators = SPACES[name]
    return SymmetricSector(
        base, tuple(Symmetry("", tuple(sites), turned, f) for sites, turned, f in generators)
    )


def invariant(made, seed=0):
    """Random 3 x 3 couplings and fields, the mean over the group; inversion leaves what commutes with it."""
    generator, n = np.random.default_rng(seed), made.spins
    base = made.base.digits
    J, h, cross = np.zeros((3, n, n)), np.zeros((3, n)), np.zeros((3, 3, n, n))
    K = np.triu(generator.normal(size=(3, 3, n, n)), 1)
    K = K + K.transpose(1, 0, 3, 2)
    b = generator.normal(size=(3, n))
    if base.down >= 0:
        # Sz: Jx = Jy and D along z
        K[0, 0] = K[1, 1]
        K[0, 1] = 0.5 * (K[0, 1] - K[0, 1].T)
        K[1, 0] = -K[0, 1]
        K[:2, 2] = K[2, :2] = 0.0
        b[:2] = 0.0
    elif base.odd >= 0:
        K[:2, 2] = K[2, :2] = 0.0
        b[:2] = 0.0
    if any(turned for _, turned in made.elements):
        K[0, 1] = K[1, 0] = 0.0
        b[:] = 0.0
    for sites, _ in made.elements:
        p = np.array(sites)
        for a in range(3):
            J[a] += K[a, a][np.ix_(p, p)] / len(made.elements)
            for c in range(3):
                if a != c:
                    cross[a, c] += K[a, c][np.ix_(p, p)] / len(made.elements)
        h += b[:, p] / len(made.elements)
    J = 0.5 * (J + J.transpose(0, 2, 1))
    # the mean of DM couplings over reflections is zero but for rounding
    cross[np.abs(cross) < 1e-12] = 0.0
    model = Model(n, J, h, cross if cross.any() else None)
    return (
        model
        if isinstance(made.base, Sector | ParitySector | WholeSpace)
        else SpinModel(n, J, h, model.cross, base.twos)
    )


@pytest.mark.parametrize("name", SPACES)
def test_smallest_images(name):
    """The smallest of all images, found by every element; amplitudes of a state are chi(g) sqrt(nu / G)."""
    made = sector(name)
    base = made.base.digits
    strings = base.strings()

    def image(s, sites, turned):
        out = 0
        for j, to in enumerate(sites):
            digit = s >> j * base.bits & (1 << base.bits) - 1
            out |= (base.twos[j] - digit if turned else digit) << to * base.bits
        return out

    orbits = made.orbits(cpu(1))
    place, factor = np.empty(strings.size, np.int64), np.empty(strings.size, complex)
    images_of(strings, made.group, orbits, place, factor)
    found = {}
    for s, k, f in zip(strings.tolist(), place, factor, strict=True):
        chi = {g: np.exp(-2j * np.pi * float(phase)) for g, phase in made.elements.items()}
        reached = {g: image(s, *g) for g in chi}
        least = min(reached.values())
        nu = sum(chi[g] for g, t in reached.items() if t == s)
        if abs(nu) < 0.5:
            assert k == -1
            continue
        assert orbits.strings[k] == least
        found[least] = nu.real
        expected = [chi[g] * np.sqrt(nu.real / len(chi)) for g, t in reached.items() if t == least]
        np.testing.assert_allclose(f, expected, atol=1e-13)
    np.testing.assert_array_equal(orbits.strings, sorted(found))
    np.testing.assert_allclose(orbits.nu, [found[s] for s in sorted(found)], atol=1e-12)
    assert made.dimension == len(found)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", SPACES)
def test_products_without_a_matrix(name, threads):
    made = sector(name)
    model = invariant(made)
    assert not any(symmetric.broken(model, sites) for sites, _ in made.elements)
    operator = SymmetricOperator(cpu(threads), made, model)
    H = operator.matrix.toarray()
    np.testing.assert_allclose(H, H.conj().T, atol=1e-12)
    generator = np.random.default_rng(1)
    psi, old = generator.normal(size=(2, made.dimension)).astype(operator.dtype)
    if operator.dtype.kind == "c":
        psi += 1j * generator.normal(size=made.dimension)
    out = old.copy()
    operator.by_terms(psi, out, (0.7, -0.4, 1.3))
    np.testing.assert_allclose(out, 0.7 * H @ psi - 0.4 * psi + 1.3 * old, atol=1e-12)
    operator.apply(psi, out)
    np.testing.assert_allclose(out, H @ psi, atol=1e-12)


def bethe(n):
    """Ground state energy of the Heisenberg ring of n spins."""
    numbers = np.arange(n // 2) - (n // 2 - 1) / 2
    x = np.zeros(n // 2)
    for _ in range(100):
        difference = x[:, None] - x
        F = 2 * n * np.arctan(2 * x) - 2 * np.pi * numbers - 2 * np.arctan(difference).sum(axis=1)
        kernel = 2 / (1 + difference**2)
        step = np.linalg.solve(kernel + np.diag(4 * n / (1 + 4 * x**2) - kernel.sum(axis=1)), F)
        x = x - step
        if np.abs(step).max() < 1e-14:
            break
    return n / 4 - 0.5 * (1 / (x**2 + 0.25)).sum()


@pytest.mark.parametrize("n", [12, 20])
def test_a_ring_without_a_matrix(n, monkeypatch):
    """E0 of the Heisenberg ring in its symmetric sector, k = 0 of N = 4 m sites, by smallest images alone."""
    monkeypatch.setattr(symmetric, "MOST_STORED", 0)
    made = SymmetricSector(
        Sector(n, n // 2),
        (
            Symmetry("", shifted(n), False, ZERO),
            Symmetry("", reflected(n), False, ZERO),
            Symmetry("", tuple(range(n)), True, ZERO),
        ),
    )
    J = np.zeros((3, n, n))
    for j in range(n):
        J[:, j, (j + 1) % n] = J[:, (j + 1) % n, j] = 1.0
    operator = SymmetricOperator(cpu(2), made, Model(n, J, np.zeros((3, n))))
    assert not operator.keeps
    levels = lowest_levels(operator, 1, 1e-11, float(n))
    assert levels.energies[0] == pytest.approx(bethe(n), abs=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("name", SPACES)
def test_orbits_and_products_on_a_gpu(name, precision, cuda):
    """The list of orbits is that of a CPU; products agree to the rounding of the vectors."""
    made = sector(name)
    model = invariant(made)
    host, device = SymmetricOperator(cpu(1), made, model), SymmetricOperator(cuda, made, model)
    for here, there in zip(made.orbits(cpu(1))[:4], made.orbits(cuda)[:4], strict=True):
        np.testing.assert_array_equal(here, cuda.to_host(there))
    kind = np.result_type(precision, np.complex64) if host.dtype.kind == "c" else np.dtype(precision)
    generator = np.random.default_rng(2)
    psi, out = generator.normal(size=(2, made.dimension)).astype(kind)
    found = cuda.asarray(out)
    device.apply(cuda.asarray(psi), found, 0.7, -0.4, 1.3)
    host.apply(psi, out, 0.7, -0.4, 1.3)
    np.testing.assert_allclose(cuda.to_host(found), out, atol=1e-12 if precision == np.float64 else 1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["momentum", "spin1", "cells"])
def test_products_by_terms_on_a_gpu(name, cuda):
    """Dzyaloshinskii-Moriya couplings in a sector of Sz, spins above 1/2, real and complex vectors, and between two spaces."""
    made = sector(name)
    model, space = invariant(made), made.base
    for kind in (np.float64, np.complex128):
        host, device = DigitOperator(cpu(1), space, model), DigitOperator(cuda, space, model)
        if kind == np.float64 and not host.is_real:
            continue
        psi, out = np.random.default_rng(3).normal(size=(2, space.dimension)).astype(kind)
        found = cuda.asarray(out)
        device.apply(cuda.asarray(psi), found, 0.7, -0.4, 1.3)
        host.apply(psi, out, 0.7, -0.4, 1.3)
        np.testing.assert_allclose(cuda.to_host(found), out, atol=1e-12)
    c = np.zeros((3, made.spins), complex)
    c[0], c[1] = 1.0, 1.0j
    raised = component(space.digits.twos, c)
    target = space if space.digits.down < 0 else replace(space, down=space.down - 1)
    psi = psi.astype(complex)
    expected = DigitOperator(cpu(1), target, raised, space).applied(psi)
    found = DigitOperator(cuda, target, raised, space).applied(cuda.asarray(psi))
    np.testing.assert_allclose(cuda.to_host(found), expected, atol=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("coupled", ["ring", "all"])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("space", [WholeSpace(14), ParitySector(15, 1)], ids=str)
def test_real_vectors_on_a_gpu(space, precision, coupled, cuda):
    """H with real matrix elements on real vectors, pair by pair and in frames, as on a CPU."""
    generator, n = np.random.default_rng(5), space.spins
    J = np.triu(generator.normal(size=(3, n, n)), 1)
    if coupled == "ring":
        J *= np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1
    h = np.zeros((3, n))
    h[2] = generator.normal(size=n)
    if isinstance(space, WholeSpace):
        h[0] = generator.normal(size=n)
    model = Model(n, J + J.transpose(0, 2, 1), h)
    host, device = operator_in(space, cpu(1), model), operator_in(space, cuda, model)
    assert device.dtype == np.float64
    psi, out = generator.normal(size=(2, space.dimension)).astype(precision)
    found = cuda.asarray(out)
    device.apply(cuda.asarray(psi), found, 0.7, -0.4, 1.3)
    host.apply(psi, out, 0.7, -0.4, 1.3)
    # sums of 100 couplings in the precision of the vectors
    np.testing.assert_allclose(cuda.to_host(found), out, atol=1e-11 if precision == np.float64 else 5e-3)

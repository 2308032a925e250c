"""H psi: Kronecker products = CPU twins = CUDA.

Tolerances.  A product sums at most ``N (N + 1) / 2 + N`` terms of a size below the sum of all couplings; the frame form also
sums 2^N amplitudes with signs, whose rounding grows like a random walk.  ``8 eps`` times the sum of the couplings held
everywhere.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.product import apply, operators
from qsim.trotter.kernels.product.apply import apply_h, diagonal, groups
from qsim.trotter.kernels.product.operators import operator
from qsim.trotter.model.hamiltonian import Model

EPS = {np.dtype(np.complex128): 2.3e-16, np.dtype(np.complex64): 1.2e-7}
FORMS = ["bonds", "frames"]
SPIN = [np.array([[0, 1], [1, 0]]) / 2, np.array([[0, -1j], [1j, 0]]) / 2, np.diag([0.5, -0.5])]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def random_model(spins, seed=0, axes="xyz"):
    """Couple all pairs along some axes, with fields along the same."""
    generator = np.random.default_rng([seed, spins])
    J = np.triu(generator.standard_normal((3, spins, spins)), 1)
    h = generator.standard_normal((3, spins))
    for a, axis in enumerate("xyz"):
        if axis not in axes:
            J[a], h[a] = 0, 0
    return Model(spins, J + J.transpose(0, 2, 1), h)


def ring(spins):
    J = np.zeros((3, spins, spins))
    for j in range(spins):
        J[:, j, (j + 1) % spins] = J[:, (j + 1) % spins, j] = 1
    return Model(spins, J, np.zeros((3, spins)))


def on_site(spins, site, matrix):
    """Kronecker product with site 0 as the fastest index."""
    return np.kron(np.kron(np.eye(1 << (spins - 1 - site)), matrix), np.eye(1 << site))


def oracle(model):
    """The matrix of a model, as written in Eq. (1)."""
    n = model.spins
    H = np.zeros((1 << n, 1 << n), complex)
    for a in range(3):
        S = [on_site(n, j, SPIN[a]) for j in range(n)]
        for j in range(n):
            H += model.h[a, j] * S[j]
            for k in range(j + 1, n):
                H += model.J[a, j, k] * S[j] @ S[k]
    return H


def random_state(spins, seed=0, dtype=np.complex128):
    generator = np.random.default_rng([7, seed])
    psi = generator.standard_normal(1 << spins) + 1j * generator.standard_normal(1 << spins)
    return (psi / np.linalg.norm(psi)).astype(dtype)


def bound(model, psi):
    total = 1 + np.abs(model.J).sum() + np.abs(model.h).sum()
    return 8 * EPS[psi.dtype] * total * max(1.0, float(np.abs(psi).max()))


def applied(device, model, psi, form, **numbers):
    out = device.asarray(np.full_like(psi, np.nan) if "gamma" not in numbers else numbers.pop("out").copy())
    apply_h(device, operator(device, model, form), device.asarray(psi), out, **numbers)
    return device.to_host(out)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spins", range(1, 9))
def test_product_is_that_of_the_matrix(device, form, spins):
    model, psi = random_model(spins), random_state(spins)
    found = applied(device, model, psi, form)
    np.testing.assert_allclose(found, oracle(model) @ psi, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("axes", ["", "x", "y", "z", "xy", "yz", "xz"])
def test_axes_that_are_absent(device, form, axes):
    model, psi = random_model(5, axes=axes), random_state(5)
    found = applied(device, model, psi, form)
    np.testing.assert_allclose(found, oracle(model) @ psi, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("form", FORMS)
def test_linear_combination(device, form):
    model, psi, out = random_model(6), random_state(6), random_state(6, seed=1)
    found = applied(device, model, psi, form, alpha=0.3, beta=-0.7, gamma=1.1, out=out)
    expected = 0.3 * oracle(model) @ psi - 0.7 * psi + 1.1 * out
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("tile", "group"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 3)])
def test_tiles_and_groups_of_any_size(device, form, tile, group, monkeypatch):
    monkeypatch.setattr(operators, "TILE", tile)
    monkeypatch.setattr(operators, "GPU_BONDS_TILE", tile)
    monkeypatch.setattr(apply, "GROUP", min(group, tile))
    model, psi = random_model(8), random_state(8)
    found = applied(device, model, psi, form)
    np.testing.assert_allclose(found, oracle(model) @ psi, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("form", FORMS)
def test_single_precision(device, form):
    model, psi = random_model(7), random_state(7, dtype=np.complex64)
    found = applied(device, model, psi, form)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(found, oracle(model) @ psi, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("spins", [13, 15])
def test_both_forms_agree_above_one_tile(device, spins):
    model, psi = random_model(spins), random_state(spins)
    one, two = (applied(device, model, psi, form) for form in FORMS)
    np.testing.assert_allclose(one, two, rtol=0, atol=bound(model, psi))


def test_two_groups_above_the_tile():
    """A tile of 12 bits and passes of 8 reach 20 spins; with smaller passes 15 spins need two of them."""
    assert groups(12, 12) == []
    assert groups(13, 12) == [(12, 11)]
    assert groups(20, 12) == [(12, 4)]
    assert groups(28, 12) == [(12, 4), (20, 4)]
    assert groups(33, 12) == [(12, 5), (19, 5), (26, 5)]


@pytest.mark.gpu
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("spins", [10, 14, 21])
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_cuda_is_its_twin(cuda, form, spins, dtype):
    model = ring(spins) if form == "bonds" else random_model(spins)
    psi = random_state(spins, dtype=dtype)
    one, two = applied(cpu(2), model, psi, form), applied(cuda, model, psi, form)
    np.testing.assert_allclose(one, two, rtol=0, atol=bound(model, psi))


@pytest.mark.parametrize("form", FORMS)
def test_threads_change_nothing(form):
    model, psi = random_model(16), random_state(16)
    one, many = applied(cpu(1), model, psi, form), applied(cpu(3), model, psi, form)
    np.testing.assert_array_equal(one, many)


def test_the_cheaper_form_is_taken():
    assert operator(cpu(1), ring(16)).form == "bonds"
    assert operator(cpu(1), random_model(16)).form == "frames"
    assert not operator(cpu(1), ring(16)).needs_work
    assert operator(cpu(1), random_model(16)).needs_work
    assert not operator(cpu(1), random_model(16, axes="z")).needs_work


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_diagonal_of_each_axis(device, axis):
    model, psi = random_model(6), random_state(6)
    single = Model(6, np.zeros((3, 6, 6)), np.zeros((3, 6)))
    single.J[2], single.h[2] = model.J[axis], model.h[axis]
    out = device.asarray(np.zeros_like(psi))
    diagonal(device, operator(device, model), device.asarray(psi), out, 1.0, 0.0, 0.0, axis=axis)
    np.testing.assert_allclose(
        device.to_host(out), oracle(single).diagonal() * psi, rtol=0, atol=bound(model, psi)
    )


def test_mistaken_arrays_are_named():
    op, psi = operator(cpu(1), ring(4)), np.zeros(16, complex)
    with pytest.raises(ValueError, match=r"psi of 4 spins must have shape \(16,\), found \(8,\)"):
        apply_h(cpu(1), op, psi[:8], psi)
    with pytest.raises(ValueError, match="one dtype"):
        apply_h(cpu(1), op, psi, psi.astype(np.complex64))
    with pytest.raises(ValueError, match="different arrays"):
        apply_h(cpu(1), op, psi, psi)

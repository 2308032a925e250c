"""Chebyshev expansions, observables, echoes, step control: against matrices, free fermions and the references.

Tolerances.  States of unit norm: rounding of an expansion of n products is about ``eps sqrt(n)``, so 1e-12 has room; what the
references hold is exact to 1e-10.
"""

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import jv

from qsim.core.device.device import cpu
from qsim.core.errors import NumericsError
from qsim.trotter.evolution import accuracy
from qsim.trotter.evolution import error_pilot as pilot
from qsim.trotter.evolution.chebyshev import Chebyshev, coefficients, coupling_bounds, lanczos_bounds
from qsim.trotter.evolution.layers import Evolver
from qsim.trotter.kernels.product.operators import operator
from qsim.trotter.kernels.states.measure import Moments
from qsim.trotter.measurement import entanglement, expectations, overlaps
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.observables.correlator import _connected
from qsim.trotter.observables.memory import imbalance
from qsim.trotter.states.vectors import axpy, norm2, overlap

REFERENCES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "reference_data/trotter.json").read_text())[
        "references"
    ]
}
MASK = (1 << 64) - 1


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def random_model(spins, seed=0, strength=1.0):
    generator = np.random.default_rng([seed, spins])
    J = np.triu(generator.uniform(-1, 1, (3, spins, spins)), 1) * 2 / math.sqrt(spins)
    return strength * Model(spins, J + J.transpose(0, 2, 1), generator.uniform(-0.5, 0.5, (3, spins)))


def chain(spins, components=(1.0, 1.0, 1.0), closed=False):
    J = np.zeros((3, spins, spins))
    for j in range(spins if closed else spins - 1):
        k = (j + 1) % spins
        J[:, j, k] = J[:, k, j] = components
    return Model(spins, J, np.zeros((3, spins)))


def coupled(spins, rows, fields=None):
    """Return the model of a reference."""
    J = np.zeros((3, spins, spins))
    for j, k, *components in rows:
        J[:, j, k] = J[:, k, j] = components
    h = np.zeros((3, spins)) if fields is None else np.array([fields[a] for a in "xyz"])
    return Model(spins, J, h)


def random_state(spins, seed=0, dtype=np.complex128):
    generator = np.random.default_rng([7, seed])
    psi = generator.standard_normal(1 << spins) + 1j * generator.standard_normal(1 << spins)
    return (psi / np.linalg.norm(psi)).astype(dtype)


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def reference_state(case):
    """Return the state at t = 0 of a reference."""
    spins, initial = case["N"], case["initial_state"]
    n = np.arange(1 << spins)
    if initial["type"] == "basis":
        psi = np.zeros(1 << spins, complex)
        psi[sum(1 << j for j in range(spins) if j not in initial["up_sites"])] = 1
        return psi
    if initial["type"] == "product":
        psi = np.ones(1, complex)
        for theta, phi in initial["theta_phi"]:
            psi = np.kron([math.cos(theta / 2), np.exp(1j * phi) * math.sin(theta / 2)], psi)
        return psi
    u = [(splitmix((initial["seed"] * 0x100000001 + k) & MASK) >> 11) * 2.0**-53 for k in range(1 << spins)]
    psi = np.exp(2j * np.pi * np.array(u))
    if initial["type"] == "a1_random_phase":
        psi[(n >> initial["up_site"]) & 1 == 1] = 0
    return psi / np.linalg.norm(psi)


SPIN = {
    "x": np.array([[0, 1], [1, 0]]) / 2,
    "y": np.array([[0, -1j], [1j, 0]]) / 2,
    "z": np.diag([0.5, -0.5]),
}


def moments(psi, axes="xyz"):
    """Return the moments of a state, from tensor products."""
    n = int(psi.size).bit_length() - 1
    s, ss = {}, {}
    for axis in axes:
        turned = [
            (np.kron(np.kron(np.eye(1 << (n - 1 - j)), SPIN[axis]), np.eye(1 << j)) @ psi) for j in range(n)
        ]
        s[axis] = np.array([np.vdot(psi, v).real for v in turned])
        ss[axis] = np.array([[np.vdot(a, b).real for b in turned] for a in turned])
    return Moments(np.vdot(psi, psi).real, s, ss)


# ------------------------------------------------------------------------------------------- vectors


def test_overlaps_are_summed_in_double_precision(device):
    a, b = random_state(15, 1, np.complex64), random_state(15, 2, np.complex64)
    expected = np.vdot(a.astype(complex), b.astype(complex))
    found = overlap(device.asarray(a), device.asarray(b))
    assert abs(found - expected) < 1e-15
    assert norm2(device.asarray(a)) == pytest.approx(
        np.vdot(a.astype(complex), a.astype(complex)).real, rel=1e-14
    )


def test_linear_combination_in_pieces(device):
    a, b = random_state(14, 1), random_state(14, 2)
    out = device.asarray(b.copy())
    axpy(0.3 - 0.4j, device.asarray(a), out)
    np.testing.assert_allclose(device.to_host(out), b + (0.3 - 0.4j) * a, rtol=0, atol=1e-16)


# ----------------------------------------------------------------------------------------- chebyshev


@pytest.mark.parametrize("form", ["bonds", "frames"])
@pytest.mark.parametrize("spins", [1, 2, 5, 8])
@pytest.mark.parametrize("t", [0.01, 1.0, -7.3, 30.0])
def test_chebyshev_is_the_exponential(device, form, spins, t):
    model, psi = random_model(spins), random_state(spins)
    found = device.asarray(psi.copy())
    report = Chebyshev(device, model, form=form).advance(found, t, 1e-14)
    expected = expm(-1j * t * dense(model)) @ psi
    assert np.linalg.norm(device.to_host(found) - expected) < 1e-12
    assert report.error < 1e-12


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_chebyshev_keeps_its_tolerance(tolerance):
    model, psi = chain(8, closed=True), random_state(8)
    expected = expm(-6j * dense(model)) @ psi
    report = Chebyshev(cpu(1), model).advance(psi, 6.0, tolerance)
    assert np.linalg.norm(psi - expected) < report.error <= tolerance + 1e-14


def test_chebyshev_splits_long_times_and_needs_few_products(monkeypatch):
    model, psi = chain(8, closed=True), random_state(8)
    expected = expm(-50j * dense(model)) @ psi
    method = Chebyshev(cpu(1), model)
    low, high = method.bounds()
    whole = psi.copy()
    report = method.advance(whole, 50.0, 1e-12)
    assert report.products < 1.1 * 25 * (high - low) + 40
    monkeypatch.setattr("qsim.trotter.evolution.chebyshev.LONGEST", 20.0)
    method.advance(psi, 50.0, 1e-12)
    assert np.linalg.norm(psi - expected) < 1e-11
    assert np.linalg.norm(whole - expected) < 1e-11


def test_chebyshev_in_single_precision():
    model, psi = random_model(8), random_state(8)
    found = psi.astype(np.complex64)
    Chebyshev(cpu(1), model).advance(found, 5.0, 1e-6)
    assert found.dtype == np.complex64
    assert np.linalg.norm(found - expm(-5j * dense(model)) @ psi) < 2e-5


def test_nothing_happens_without_time_or_hamiltonian():
    psi = random_state(4)
    still = psi.copy()
    assert Chebyshev(cpu(1), random_model(4)).advance(still, 0.0).products == 0
    Chebyshev(cpu(1), Model.zero(4)).advance(still, 3.0)
    np.testing.assert_array_equal(still, psi)


def test_a_spectrum_beyond_the_bounds_is_seen():
    with pytest.raises(NumericsError, match="spectrum reaches beyond"):
        Chebyshev(cpu(1), random_model(6), bounds=(-0.3, 0.3)).advance(random_state(6), 20.0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spins", [1, 3, 7, 9])
def test_bounds_hold_the_spectrum(seed, spins):
    model = random_model(spins, seed)
    values = np.linalg.eigvalsh(dense(model))
    for low, high in (coupling_bounds(model), lanczos_bounds(cpu(1), operator(cpu(1), model), model)):
        assert low <= values[0] + 1e-12
        assert high >= values[-1] - 1e-12


def test_bounds_hold_the_ferromagnet():
    """Its multiplet is 13 of 4096 states, which a random vector hardly knows."""
    for sign in (1.0, -1.0):
        model = sign * chain(12, closed=True)
        low, high = lanczos_bounds(cpu(1), operator(cpu(1), model), model)
        assert (high if sign > 0 else -low) == pytest.approx(3.0, abs=0.2)
        assert (high if sign > 0 else -low) >= 3.0 - 1e-12
        assert (low if sign > 0 else -high) == pytest.approx(-5.387, abs=0.2)


@pytest.mark.parametrize("x", [0.0, 1e-8, 0.3, 17.0, -400.0])
def test_coefficients_end_where_the_rest_is_negligible(x):
    values, left = coefficients(x, 1e-10)
    k = np.arange(len(values) + 50)
    every = 2 * np.abs(jv(k, x))
    assert left <= 1e-10
    assert every[max(1, len(values)) :].sum() <= 1.001 * left + 1e-30
    assert len(values) <= 1 + 1.1 * abs(x) + 30


@pytest.mark.parametrize("spins", [12, 18])
def test_one_spin_up_hops_like_a_free_particle(spins):
    """XX chain: ``<Sz_j> + 1/2 = |exp(-i h t)_j0|^2`` with hopping 1/2."""
    hopping = 0.5 * (np.eye(spins, k=1) + np.eye(spins, k=-1))
    psi = np.zeros(1 << spins, complex)
    psi[(1 << spins) - 2] = 1  # site 0 up
    evolver = Evolver(cpu(2), chain(spins, (1, 1, 0)), psi)
    state = np.array(evolver.psi)
    Chebyshev(cpu(2), evolver.model).advance(state, 7.0, 1e-13)
    evolver.psi = state
    found = expectations.local(evolver.measure("z"), "z") + 0.5
    np.testing.assert_allclose(found, np.abs(expm(-7j * hopping)[:, 0]) ** 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["random_xyz8_product", "heisenberg_dq_ring10", "xx_chain12_neel", "xy_field_chain12"]
)
def test_references(name):
    case = REFERENCES[name]
    model = coupled(case["N"], case["couplings"], case["fields"])
    psi, results = reference_state(case), case["results"]
    method, time = Chebyshev(cpu(2), model), 0.0
    sites = case["entropy_sites"]
    entropies = results.get("entropy", results.get("entropy_left"))
    for i, t in enumerate(results["t"]):
        method.advance(psi, t - time, 1e-13)
        time = t
        found = Evolver(cpu(2), model, psi).measure("xyz")
        np.testing.assert_allclose(expectations.local(found, "z"), results["sz"][i], rtol=0, atol=1e-10)
        assert expectations.energy(found, model) == pytest.approx(results["energy"][i], abs=1e-10)
        if entropies is not None:
            assert entanglement.entropy(cpu(2), psi, sites) == pytest.approx(entropies[i], abs=1e-10)
        for axis in "xyz":
            for pair, values in results.get(2 * axis, {}).items():
                j, k = map(int, pair.split("-"))
                assert expectations.correlators(found, axis, [(j, k)])[0] == pytest.approx(
                    values[i], abs=1e-10
                )


# --------------------------------------------------------------------------------------- observables


def test_moments_of_a_state_that_is_not_normalised():
    psi = 3.0 * random_state(6)
    found, unit = moments(psi), moments(psi / 3)
    for axis in "xyz":
        np.testing.assert_allclose(expectations.local(found, axis), unit.s[axis], rtol=0, atol=1e-15)
        assert math.fsum(expectations.local(found, axis)) == pytest.approx(unit.s[axis].sum(), abs=1e-14)
    pairs = expectations.correlators(found, "y", [(1, 4), (4, 1), (2, 2)])
    np.testing.assert_allclose(pairs, [unit.ss["y"][1, 4], unit.ss["y"][1, 4], 0.25], rtol=0, atol=1e-15)
    assert expectations.correlators(found, "z").shape == (15,)
    np.testing.assert_allclose(
        expectations.correlators(found, "z")[5], unit.ss["z"][1, 2], rtol=0, atol=1e-15
    )
    np.testing.assert_allclose(2 * expectations.local(found, "z"), 2 * unit.s["z"], rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="hold the axes z, not x"):
        expectations.local(moments(psi, "z"), "x")


def test_imbalance():
    neel = np.zeros(16, complex)
    neel[0b1010] = 1
    pattern = expectations.local(moments(neel, "z"), "z")
    np.testing.assert_array_equal(pattern, [0.5, -0.5, 0.5, -0.5])
    assert imbalance(expectations.local(moments(neel, "z"), "z"), pattern) == 1.0
    turned = np.roll(neel, 0b0101 - 0b1010)
    assert imbalance(expectations.local(moments(turned, "z"), "z"), pattern) == -1.0
    assert imbalance(expectations.local(moments(neel, "z"), "z"), 0 * pattern) == 0.0


def test_energy_and_variance_are_those_of_the_matrix(device):
    model, psi = random_model(7), 2.0 * random_state(7)
    H, norm = dense(model), np.vdot(psi, psi).real
    mean = np.vdot(psi, H @ psi).real / norm
    square = np.linalg.norm(H @ psi) ** 2 / norm
    assert expectations.energy(moments(psi), model) == pytest.approx(mean, abs=1e-13)
    found = expectations.energy_and_variance(device, model, device.asarray(psi))
    assert found == pytest.approx((mean, square - mean**2), abs=1e-12)


@pytest.mark.parametrize("number", [0, 17, 127])
def test_variance_of_an_eigenstate_is_zero(number):
    model = random_model(7, strength=100.0)
    _, vectors = np.linalg.eigh(dense(model))
    _, variance = expectations.energy_and_variance(cpu(1), model, np.ascontiguousarray(vectors[:, number]))
    assert 0 <= variance < 1e-22  # as <H^2> - <H>^2 it would be 1e-12


CUTS = [[0], [7], [0, 1, 2], [1, 3, 4, 6], [5, 6, 7], [0, 7], [0, 1, 2, 3, 4, 5, 6], [0, 2, 4, 6, 7]]


@pytest.mark.parametrize("pieces", [20, 6, 4])
@pytest.mark.parametrize("sites", CUTS, ids=str)
def test_entropy_of_random_states(device, sites, pieces, monkeypatch):
    monkeypatch.setattr(entanglement, "PIECE_BITS", pieces)
    psi = random_state(8, seed=len(sites))
    rest = [j for j in range(8) if j not in sites]
    tensor = psi.reshape((2,) * 8).transpose([7 - j for j in sites + rest])
    p = np.linalg.svd(tensor.reshape(1 << len(sites), -1), compute_uv=False) ** 2
    expected = -(p * np.log(p)).sum()
    assert entanglement.entropy(device, device.asarray(3 * psi), sites) == pytest.approx(expected, abs=1e-12)
    spectrum = entanglement.schmidt(device, device.asarray(psi), sites)
    np.testing.assert_allclose(spectrum[: len(p)], p, rtol=0, atol=1e-14)


@pytest.mark.parametrize("pieces", [20, 3])
def test_entropy_of_simple_states(pieces, monkeypatch):
    monkeypatch.setattr(entanglement, "PIECE_BITS", pieces)
    product = np.zeros(16, complex)
    product[5] = 1
    assert entanglement.entropy(cpu(1), product, [1, 3]) == pytest.approx(0.0, abs=1e-14)
    pairs = np.kron([0, 1, 1, 0], [1, 0, 0, 1]) / 2  # sites 0 and 1, sites 2 and 3
    assert entanglement.entropy(cpu(1), pairs, [0, 1]) == pytest.approx(0.0, abs=1e-14)
    assert entanglement.entropy(cpu(1), pairs, [0]) == pytest.approx(math.log(2), abs=1e-14)
    assert entanglement.entropy(cpu(1), pairs, [0, 2]) == pytest.approx(2 * math.log(2), abs=1e-14)
    for wrong in ([], [0, 1, 2, 3], [4], [-1]):
        with pytest.raises(ValueError, match="one part of 4 sites"):
            entanglement.entropy(cpu(1), pairs, wrong)


def test_fidelity():
    a, b = random_state(6, 1), random_state(6, 2)
    assert overlaps.fidelity(a, 2j * a) == pytest.approx(1.0, abs=1e-14)
    assert overlaps.fidelity(a, b) == pytest.approx(abs(np.vdot(a, b)) ** 2, abs=1e-15)


# -------------------------------------------------------------------------------------------- echoes


def test_loschmidt_reference():
    case = REFERENCES["loschmidt_xx10_sigma_zz"]
    H0, sigma = coupled(10, case["couplings"]), coupled(10, case["sigma_couplings"])
    psi0, results = reference_state(case), case["results"]
    forward, back = Chebyshev(cpu(1), H0), Chebyshev(cpu(1), H0 + sigma)
    for t, expected, around in zip(results["t_forward"], results["M_LE"], results["local_echo"], strict=True):
        one, two = psi0.copy(), psi0.copy()
        forward.advance(one, t, 1e-13)
        back.advance(two, t, 1e-13)
        assert overlaps.echo(two, one).echo == pytest.approx(expected, abs=1e-10)  # both carried forward
        back.advance(one, -t, 1e-13)
        assert overlaps.echo(psi0, one).echo == pytest.approx(expected, abs=1e-10)  # carried back
        local = 2 * expectations.local(Evolver(cpu(1), H0 + sigma, one).measure("z"), "z")
        assert local[0] == pytest.approx(around, abs=1e-10)


def test_steps_are_undone_without_a_perturbation():
    """Section 4.2: what is left is the rounding of the phases."""
    model, psi0 = chain(10, closed=True), random_state(10)
    evolver = Evolver(cpu(1), model, psi0)
    for dt, steps in ((0.05, 20), (0.04, 25), (-0.04, 25), (-0.05, 20)):
        evolver.advance("ts4", dt, steps)
    found = overlaps.echo(psi0, evolver.psi)
    assert abs(found.unnormalised - 1) < 90 * 2e-15
    assert abs(found.echo - 1) < 2e-14
    np.testing.assert_allclose(
        2 * expectations.local(evolver.measure("z"), "z"),
        2 * expectations.local(moments(psi0, "z"), "z"),
        rtol=0,
        atol=1e-12,
    )


# ------------------------------------------------------------------------------------------ accuracy


def evolved(choice, model, psi, times):
    if choice.dt is None:
        state, method = psi.copy(), Chebyshev(cpu(1), model)
        for a, b in pairwise(times):
            method.advance(state, b - a, choice.tolerance)
        return state
    evolver = Evolver(cpu(1), model, psi.copy())
    for a, b in pairwise(times):
        steps = math.ceil((b - a) / choice.dt * (1 - 1e-12))
        evolver.advance(choice.method, (b - a) / steps, steps)
    return np.array(evolver.psi)


@pytest.mark.parametrize("model", [chain(8, closed=True), random_model(8)], ids=["ring", "random"])
def test_the_accuracy_is_reached_and_the_error_known(model):
    psi, times = random_state(8), [0.0, 1.3, 4.0, 6.0]
    exact = expm(-6j * dense(model)) @ psi
    one = pilot.Pilot.of(model, psi)
    for method, wanted in [
        ("ts2", 1e-3),
        ("ts4", 1e-6),
        ("bm4", 1e-6),
        ("bm6", 1e-8),
        ("kl8", 1e-9),
        ("chebyshev", 1e-9),
    ]:
        choice = accuracy.choose(model, times, wanted, method, pilot=one)
        assert choice.method == method
        error = np.linalg.norm(evolved(choice, model, psi, times) - exact)
        assert error <= choice.error <= wanted, method
        if method != "chebyshev":  # whose series gains six digits with ten more terms
            assert error > 0.1 * choice.error, method


@pytest.mark.parametrize("kind", ["random", "neel"])
@pytest.mark.parametrize("model", [chain(14, closed=True), random_model(14)], ids=["ring", "random"])
def test_the_error_of_a_large_system_is_not_underestimated(model, kind):
    psi = random_state(14, 3)
    if kind == "neel":
        psi = np.zeros(1 << 14, complex)
        psi[0b10101010101010] = 1
    exact = psi.copy()
    Chebyshev(cpu(2), model).advance(exact, 2.0, 1e-13)
    choice = accuracy.choose(model, [0.0, 2.0], 1e-6, "bm4", psi)
    error = np.linalg.norm(evolved(choice, model, psi, [0.0, 2.0]) - exact)
    assert 0.1 * choice.error < error <= choice.error <= 1e-6


def test_a_pilot_starts_with_its_part_of_the_state():
    high, middle, low = random_state(3, 1), random_state(2, 4), random_state(4, 2)
    psi = np.kron(np.kron(high, middle), low)
    for sites, part in (((0, 1, 2, 3), low), ((4, 5), middle), ((4, 5, 6, 7, 8), np.kron(high, middle))):
        found = pilot.part_of(3.0 * psi, sites)
        assert abs(np.vdot(found, part)) == pytest.approx(1.0, abs=1e-14)
    found = pilot.part_of(psi, (1, 3, 6))  # entangled with others: some configuration of these, of norm one
    assert np.linalg.norm(found) == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_rounding_does_not_decide_where_a_pilot_starts(monkeypatch, dtype):
    """All configurations are equally likely, as in random-phase states: the first one that is not empty, from any pieces."""
    rows = np.exp(1j * np.random.default_rng(1).uniform(0, 7, (16, 32)))
    rows[:3] = 0
    rows *= 1 + 1e-7 * np.random.default_rng(2).uniform(-1, 1, (16, 1))
    for piece in (32, 96, 1 << 22):
        monkeypatch.setattr(pilot, "PIECE", piece)
        found = pilot.part_of(rows.ravel().astype(dtype), range(5))
        assert abs(np.vdot(found, rows[3])) == pytest.approx(np.linalg.norm(rows[3]), rel=1e-6)


def test_auto_takes_the_cheapest():
    model = chain(8, closed=True)
    one = pilot.Pilot.of(model)
    few, many = [0.0, 10.0], np.linspace(0, 10, 201)
    assert accuracy.choose(model, few, 1e-8, pilot=one).method == "chebyshev"
    assert accuracy.choose(model, few, 1e-8, pilot=one, machine=accuracy.Machine(vectors=1)).method in (
        "bm6",
        "kl8",
    )
    assert accuracy.choose(model, many, 1e-8, pilot=one, machine=accuracy.Machine(vectors=1)).method in (
        "bm4",
        "bm6",
    )
    loose = accuracy.choose(model, few, 1e-2, pilot=one, machine=accuracy.Machine(vectors=1))
    assert "ts2" in loose.costs
    assert loose.cost == min(loose.costs.values())


def test_estimate_of_a_given_step():
    """Reference `integrator_error_heisenberg_ring10`, from the Neel state."""
    case = REFERENCES["heisenberg_ring10_neel"]
    model, psi = coupled(10, case["couplings"]), reference_state(case)
    one = pilot.Pilot.of(model, psi)
    errors = REFERENCES["integrator_error_heisenberg_ring10"]["results"]
    for method, name in {"ts2": "S2", "ts4": "Suzuki4(5)", "bm6": "BlanesMoan6(10)"}.items():
        steps, error, _ = errors[name][-1]
        found = accuracy.estimate(model, method, 10.0 / steps, 10.0, pilot=one)
        assert 0.4 * error < found < 4 * error, method


def test_terms_that_commute_need_one_step():
    model = chain(6, (0, 0, 1))
    choice = accuracy.choose(model, [0.0, 5.0], 1e-10, "ts2")
    assert choice.dt == 5.0
    assert choice.error < 1e-14
    nothing = accuracy.choose(Model.zero(3), [0.0, 5.0], 1e-10, "ts4")
    assert nothing.dt == 5.0


def test_what_rounding_forbids_is_refused():
    with pytest.raises(NumericsError, match="out of reach in single precision"):
        accuracy.choose(chain(6), [0.0, 10.0], 1e-7, machine=accuracy.Machine(precision="single"))
    with pytest.raises(NumericsError, match="out of reach in double precision"):
        accuracy.choose(chain(6), [0.0, 1000.0], 1e-15, "bm6")


def test_layers_of_a_step():
    model = chain(4)
    assert [accuracy.layers_per_step(model, m) for m in ("ts2", "ts4", "bm4", "bm6", "kl8")] == [
        4,
        20,
        24,
        40,
        68,
    ]
    assert accuracy.layers_per_step(chain(4, (1, 1, 0)), "ts4") == 10


def test_the_connected_correlator_is_less_the_product_of_both_means():
    pairs = np.array([[0, 1], [1, 3], [2, 0]])
    rng = np.random.default_rng(5)
    means, values = rng.standard_normal((4, 4)), rng.standard_normal((4, 3))
    r = {"correlator_zz": values, "sz": means}
    shown, mark = _connected(r, "correlator_zz", pairs, np.array([1, 2]))
    assert mark == "_c"
    expected = [values[:, 1] - means[:, 1] * means[:, 3], values[:, 2] - means[:, 2] * means[:, 0]]
    np.testing.assert_allclose(shown, np.transpose(expected), rtol=1e-15)
    # means of some sites alone cannot be subtracted
    assert _connected(r | {"site_sz": np.array([0, 2, 3, 1])}, "correlator_zz", pairs, np.array([0]))[1] == ""

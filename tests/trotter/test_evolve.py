"""Layers, tiles and steps of the evolution: exponentials of matrices = Evolver, on every tiling and device.

Tolerances.  A layer rounds phases and sums, ``eps`` times a few; errors of single amplitudes are independent, so that the state
after n layers is off by less than ``1e-15 (4 + n)`` in norm.  Errors of integrators are measured where they are far above that.
"""

import json
import math
from functools import cache, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import expm_multiply

from qsim.core.device.device import cpu
from qsim.trotter.evolution import layers as evolve
from qsim.trotter.evolution.integrators import METHODS, ORDER, course, layers, turn
from qsim.trotter.evolution.layers import Evolver, Tile, tiles, tilings
from qsim.trotter.model.hamiltonian import Model

REFERENCES = {
    case["name"]: case
    for case in json.loads((Path(__file__).parents[1] / "reference_data/trotter.json").read_text())[
        "references"
    ]
}
SPIN = [np.array([[0, 1], [1, 0]]) / 2, np.array([[0, -1j], [1j, 0]]) / 2, np.diag([0.5, -0.5])]
AXES = ["x", "y", "z", "xy", "yz", "xz", "xyz"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


@pytest.fixture(params=["one call", "passes"])
def path(request, monkeypatch):
    """Small systems go through all layers in one call, or layer by layer as large ones do."""
    if request.param == "passes":
        by_passes(monkeypatch)
    return request.param


def random_model(spins, seed=0, axes="xyz"):
    generator = np.random.default_rng([seed, spins])
    J = np.triu(generator.uniform(-1, 1, (3, spins, spins)), 1) * 2 / math.sqrt(spins)
    h = generator.uniform(-0.5, 0.5, (3, spins))
    for a, axis in enumerate("xyz"):
        if axis not in axes:
            J[a], h[a] = 0, 0
    return Model(spins, J + J.transpose(0, 2, 1), h)


def coupled(spins, rows, fields=None):
    """Return the model of a reference."""
    J = np.zeros((3, spins, spins))
    for j, k, *components in rows:
        J[:, j, k] = J[:, k, j] = components
    return Model(spins, J, np.zeros((3, spins)) if fields is None else np.array([fields[a] for a in "xyz"]))


def ring(spins):
    return coupled(spins, [(j, (j + 1) % spins, 1.0, 1.0, 1.0) for j in range(spins)])


def random_state(spins, seed=0, norm=1.0):
    generator = np.random.default_rng([7, seed])
    psi = generator.standard_normal(1 << spins) + 1j * generator.standard_normal(1 << spins)
    return psi * (math.sqrt(norm) / np.linalg.norm(psi))


def on_site(spins, site, matrix):
    """Kronecker product with site 0 as the fastest index."""
    return np.kron(np.kron(np.eye(1 << (spins - 1 - site)), matrix), np.eye(1 << site))


def matrices(model):
    """Return H_x, H_y, H_z as matrices."""
    found = []
    for a in range(3):
        S = [on_site(model.spins, j, SPIN[a]) for j in range(model.spins)]
        H = np.zeros((1 << model.spins,) * 2, complex)
        for j in range(model.spins):
            H += model.h[a, j] * S[j]
            for k in range(j + 1, model.spins):
                H += model.J[a, j, k] * S[j] @ S[k]
        found.append(H)
    return found


def propagated(H, t, psi):
    """Return exp(-i t H) psi."""
    energies, states = H if isinstance(H, tuple) else np.linalg.eigh(H)
    return states @ (np.exp(-1j * t * energies) * (states.conj().T @ psi))


def exact(model, t, psi):
    return propagated(sum(matrices(model)), t, psi)


def split(model, method, dt, psi, steps=1):
    """Make steps of a method: its half maps one after the other, nothing merged."""
    H = [np.linalg.eigh(matrix) for matrix in matrices(model)]
    for _ in range(steps):
        for i, c in enumerate(METHODS[method].halves):
            for axis in ORDER if i % 2 == 0 else ORDER[::-1]:
                psi = propagated(H[axis], c * dt, psi)
    return psi


def final(device, model, psi, method, dt, steps, **options):
    evolver = Evolver(device, model, psi, **options)
    evolver.advance(method, dt, steps)
    return device.to_host(evolver.psi)


def distance(a, b):
    return float(np.linalg.norm(a - b))


def rounding(method, steps):
    return 1e-15 * (4 + 4 * len(METHODS[method].halves) * steps)


def basis_state(spins, up):
    psi = np.zeros(1 << spins, complex)
    psi[sum(1 << j for j in range(spins) if j not in up)] = 1
    return psi


def random_phases(spins, seed):
    """Return the equal-weight state of the references (splitmix64)."""
    with np.errstate(over="ignore"):
        x = np.uint64(seed * 0x100000001) + np.arange(1 << spins, dtype=np.uint64)
        x += np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        x = x ^ x >> np.uint64(31)
    return np.exp(2j * np.pi * (x >> np.uint64(11)) * 2.0**-53) * 2.0 ** (-spins / 2)


def reference_state(case):
    initial = case["initial_state"]
    if initial["type"] == "basis":
        return basis_state(case["N"], initial["up_sites"])
    if initial["type"] == "random_phase":
        return random_phases(case["N"], initial["seed"])
    spinors = [(math.cos(t / 2), np.exp(1j * p) * math.sin(t / 2)) for t, p in initial["theta_phi"]]
    return reduce(lambda psi, spinor: np.kron(spinor, psi), spinors, np.ones(1, complex))


def by_passes(monkeypatch):
    for kind in ("cpu", "cuda"):
        monkeypatch.setitem(evolve.SMALL_SPINS, kind, 0)


def small_tiles(monkeypatch, bits, run=1):
    by_passes(monkeypatch)
    monkeypatch.setattr(evolve, "CPU_BITS", bits)
    monkeypatch.setitem(evolve.MIN_RUN, "cpu", run)


# --------------------------------------------------------------------------------- steps as matrices


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spins", [1, 2, 3, 6, 7])
def test_a_step_is_its_product_of_exponentials(device, path, spins, method):
    """Global phase included."""
    model, psi = random_model(spins), random_state(spins)
    found = final(device, model, psi, method, 0.3, 1)
    assert distance(found, split(model, method, 0.3, psi)) < rounding(method, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", AXES)
def test_axes_that_are_absent(device, path, axes, method):
    for spins in (3, 4):
        model, psi = random_model(spins, axes=axes), random_state(spins)
        for steps in (1, 2, 5):
            expected = split(model, method, 0.3, psi, steps)
            assert distance(final(device, model, psi, method, 0.3, steps), expected) < rounding(method, steps)


@pytest.mark.parametrize("method", ["ts1", "ts2", "bm4"])
@pytest.mark.parametrize("fields", [True, False])
def test_fields_or_couplings_alone(device, path, fields, method):
    model = random_model(5)
    model = Model(5, 0 * model.J, model.h) if fields else Model(5, model.J, 0 * model.h)
    psi = random_state(5)
    expected = split(model, method, 0.3, psi, 3)
    assert distance(final(device, model, psi, method, 0.3, 3), expected) < rounding(method, 3)


def test_one_axis_alone_is_exact(device, path):
    for axis in "xyz":
        model, psi = random_model(4, axes=axis), random_state(4)
        assert distance(final(device, model, psi, "ts1", 0.7, 9), exact(model, 6.3, psi)) < 1e-13


def test_nothing_moves_without_hamiltonian(device, path):
    psi = random_state(4)
    for evolver in (Evolver(device, Model.zero(4), psi), Evolver(device, random_model(4), psi)):
        evolver.advance("ts4", 0.1, 5 if not evolver.present else 0)
        np.testing.assert_array_equal(device.to_host(evolver.psi), psi)
        assert evolver.passes == 0


@pytest.mark.parametrize("method", ["ts1", "ts2", "ts4", "kl8"])
@pytest.mark.parametrize("spins", [5, 10])
def test_steps_together_are_steps_one_by_one(device, path, spins, method):
    model, psi = random_model(spins), random_state(spins)
    together, single = Evolver(device, model, psi), Evolver(device, model, psi)
    together.advance(method, 0.1, 7)
    together.advance(method, 0.1, 2)
    for _ in range(9):
        single.advance(method, 0.1, 1)
    assert distance(*(device.to_host(e.psi) for e in (together, single))) < 2 * rounding(method, 9)
    assert together.passes < single.passes


@settings(max_examples=40, deadline=None)
@given(
    spins=st.integers(1, 6),
    seed=st.integers(0, 2**31),
    axes=st.sampled_from(AXES),
    method=st.sampled_from(sorted(METHODS)),
    steps=st.integers(1, 3),
    dt=st.floats(-1, 1),
    bits=st.none() | st.integers(3, 6),
)
def test_random_models(spins, seed, axes, method, steps, dt, bits):
    model, psi = random_model(spins, seed, axes), random_state(spins, seed)
    with pytest.MonkeyPatch.context() as patch:
        if bits is not None:
            small_tiles(patch, bits)
        found = final(cpu(1), model, psi, method, dt, steps)
    expected = split(model, method, dt, psi, steps)
    assert distance(found, expected) < 2 * rounding(method, steps)


@settings(max_examples=25, deadline=None)
@given(spins=st.integers(1, 6), seed=st.integers(0, 2**31), t=st.floats(-1, 1))
def test_random_models_against_exact_diagonalisation(spins, seed, t):
    model, psi = random_model(spins, seed), random_state(spins, seed)
    assert distance(final(cpu(1), model, psi, "kl8", t / 16, 16), exact(model, t, psi)) < 1e-10


# ------------------------------------------------------------------------------------------ accuracy


@pytest.mark.parametrize(
    ("method", "order", "steps"),
    [("ts1", 1, 256), ("ts2", 2, 32), ("ts4", 4, 16), ("bm4", 4, 16), ("bm6", 6, 8), ("kl8", 8, 3)],
)
def test_order_seen_when_dt_is_halved(device, method, order, steps):
    assert METHODS[method].order == order
    model, psi = random_model(5), random_state(5)
    expected = exact(model, 2.0, psi)
    errors = [distance(final(device, model, psi, method, 2 / n, n), expected) for n in (steps, 2 * steps)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)
    assert errors[1] > 1e-12


INTEGRATORS = {
    "ts2": "S2",
    "ts4": "Suzuki4(5)",
    "bm4": "BlanesMoan4(6)",
    "bm6": "BlanesMoan6(10)",
    "kl8": "KahanLi8(17)",
}


@pytest.mark.parametrize("method", INTEGRATORS)
def test_coefficients(method):
    halves = METHODS[method].halves
    case = REFERENCES["integrator_error_heisenberg_ring10"]
    np.testing.assert_allclose(halves, case["coefficients"][INTEGRATORS[method]], rtol=0, atol=1e-15)
    np.testing.assert_allclose(halves, halves[::-1], rtol=0, atol=1e-15)  # time reversal
    assert math.fsum(halves) == pytest.approx(1, abs=2e-16)


@cache
def neel_reference():
    """The state of heisenberg_ring10_neel at t = 10."""
    S = [
        [
            sparse.kron(sparse.kron(sparse.eye(1 << (9 - j)), spin), sparse.eye(1 << j)).tocsr()
            for j in range(10)
        ]
        for spin in SPIN
    ]
    H = sum(axis[j] @ axis[(j + 1) % 10] for axis in S for j in range(10))
    return expm_multiply(-10j * H.tocsc(), basis_state(10, range(0, 10, 2)))


@pytest.mark.parametrize("method", INTEGRATORS)
def test_errors_of_integrators(device, method):
    case = REFERENCES["integrator_error_heisenberg_ring10"]
    psi = basis_state(10, range(0, 10, 2))
    for steps, state_error, sz_error in case["results"][INTEGRATORS[method]]:
        evolver = Evolver(device, ring(10), psi)
        evolver.advance(method, case["t"] / steps, steps)
        found = distance(device.to_host(evolver.psi), neel_reference())
        assert found == pytest.approx(state_error, rel=case["tolerance_rel"])
        exact_sz = REFERENCES["heisenberg_ring10_neel"]["results"]["sz"][-1]
        assert abs(evolver.measure().s["z"] - exact_sz).max() == pytest.approx(sz_error, rel=0.02)


@pytest.mark.parametrize(
    ("name", "dt", "last"),
    [
        ("pair_heisenberg", 0.125, 10.0),
        ("precession_tilted_3", 0.125, 10.0),
        ("random_xyz8_product", 0.0625, 5.0),
        ("heisenberg_dq_ring10", 0.0625, 3.0),
        ("xx_chain12_neel", 0.125, 5.0),
        ("xy_field_chain12", 0.125, 5.0),
    ],
)
def test_references(device, name, dt, last):
    case = REFERENCES[name]
    results = case["results"]
    evolver = Evolver(device, coupled(case["N"], case["couplings"], case["fields"]), reference_state(case))
    now = 0.0
    for i, t in enumerate(results["t"]):
        if t > last:
            break
        evolver.advance("kl8", dt, round((t - now) / dt))
        now, moments = t, evolver.measure("xyz")
        np.testing.assert_allclose(moments.s["z"], results["sz"][i], rtol=0, atol=1e-9)
        assert evolver.energy(moments) == pytest.approx(results["energy"][i], abs=1e-9)
        for key, axis in (("zz", "z"), ("xx", "x")):
            for pair, values in results.get(key, {}).items():
                j, k = map(int, pair.split("-"))
                assert moments.ss[axis][j, k] == pytest.approx(values[i], abs=1e-9)
        for key, axis in (("sx0", "x"), ("sy0", "y")):
            if key in results:
                assert moments.s[axis][0] == pytest.approx(results[key][i], abs=1e-9)


def test_free_particle_on_twenty_sites(device):
    """One spin up in an open XX chain is a free particle; two groups of bits."""
    case = REFERENCES["xx_chain20_single"]
    evolver = Evolver(device, coupled(20, case["couplings"]), reference_state(case))
    assert len(evolver.tiles) == 2
    for t, expected in zip(case["results"]["t"][1:3], case["results"]["sz"][1:3], strict=True):
        evolver.advance("bm4", 0.0625, 8)
        moments = evolver.measure()
        np.testing.assert_allclose(moments.s["z"], expected, rtol=0, atol=2e-7)
        zz = case["results"]["zz"]["0-19"][case["results"]["t"].index(t)]
        assert moments.ss["z"][0, 19] == pytest.approx(zz, abs=2e-7)
        assert moments.norm == pytest.approx(1, abs=1e-13)


# ------------------------------------------------------------------------------- reversal, roundoff


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ts1"])
def test_backwards_is_back(device, path, method):
    for spins in (6, 9):
        psi = random_state(spins)
        evolver = Evolver(device, random_model(spins), psi)
        evolver.advance(method, 0.11, 10)
        assert distance(device.to_host(evolver.psi), psi) > 0.5
        evolver.advance(method, -0.11, 10)
        assert distance(device.to_host(evolver.psi), psi) < rounding(method, 20)


def test_first_order_backwards_is_its_mirror_image(device):
    """chi(-dt) is not the inverse of chi(dt): the layers have to be turned round, too."""
    psi, model = random_state(5), random_model(5)
    evolver = Evolver(device, model, psi)
    evolver.advance("ts1", 0.2, 1)
    evolver.apply([(axis, -tau) for axis, tau in layers(evolver.present, "ts1", 0.2)[::-1]])
    assert distance(device.to_host(evolver.psi), psi) < 1e-14


def test_echo_without_perturbation_is_rounding(device):
    """echo_sigma0_roundoff; a rounded root of two in the rotations would make 9e-14 a step."""
    case, steps = REFERENCES["echo_sigma0_roundoff"], 30
    psi = random_phases(16, 11)
    evolver = Evolver(device, ring(16), psi)
    evolver.advance("ts4", 0.05, steps)
    evolver.advance("ts4", -0.05, steps)
    back = device.to_host(evolver.psi)
    echo, norm = abs(np.vdot(psi, back)) ** 2, np.vdot(back, back).real
    assert abs(echo - 1) < 2 * steps * case["tolerance_abs_per_step"]
    assert abs(echo / norm - 1) < 1e-13 * 2 * steps / 2000 + 1e-15
    # sums of 65536 terms in two orders
    assert evolver.norm() == pytest.approx(norm, abs=1e-13 if device.is_cuda else 1e-14)


@pytest.mark.parametrize(
    ("spins", "bits"), [(9, None), (10, None), (11, None), (9, 14), (10, 14), (11, 6), (12, 8), (13, 5)]
)
def test_norm_drifts_by_less_than_rounding(device, monkeypatch, spins, bits):
    """Odd numbers of spins, too: the root of two never appears."""
    if bits is not None:
        small_tiles(monkeypatch, bits)
    evolver = Evolver(device, random_model(spins), random_state(spins))
    before = evolver.norm()
    evolver.advance("ts4", 0.05, 40)
    assert abs(evolver.norm() - before) < 40 * 2e-15


@pytest.mark.parametrize("spins", [8, 12])
def test_single_precision(device, spins):
    model, psi = random_model(spins), random_state(spins)
    evolver = Evolver(device, model, psi, precision="single")
    assert evolver.psi.dtype == np.complex64
    before = evolver.norm()
    evolver.advance("ts4", 0.05, 20)
    found = device.to_host(evolver.psi).astype(complex)
    # the CPU computes in double and stores in single; CUDA rounds in each of 400 layers (6e-8, adding up at random)
    bound = 2e-5 if device.is_cuda else 5e-6
    assert distance(found, final(device, model, psi, "ts4", 0.05, 20)) < bound
    assert abs(evolver.norm() - before) < 20 * 5e-7


# --------------------------------------------------------------------------------------------- tiles


def covered(tile):
    return {*range(tile.low), *range(tile.high, tile.high + tile.bits - tile.low)}


@pytest.mark.parametrize("spins", range(1, 45))
def test_tiles_of_a_cpu(spins):
    found = tiles(spins, "cpu")
    check_tiles(spins, found, 4, 1)
    assert len(found) == (1 if spins <= 14 else 2 + (spins - 15) // 10)


@pytest.mark.parametrize("spins", range(9, 41))
def test_tiles_of_a_gpu(spins):
    """A run of 32 bytes at least; 13 bits at most; three groups for all that fits a device."""
    found = tiles(spins, "cuda")
    check_tiles(spins, found, 2, 4)
    assert all(9 <= tile.bits <= 13 for tile in found)
    if spins <= 34:
        assert len(found) == (1 if spins <= 13 else 2 if spins <= 24 else 3)


def test_tiles_of_a_gpu_with_less_shared_memory():
    for spins in range(13, 34):
        assert all(tile.bits <= 12 for way in tilings(spins, "cuda", 16, 12) for tile in way)


def test_tiles_far_beyond_the_caches_have_whole_lines():
    assert [min(tile.low for tile in tiles(n, "cuda", 16)) for n in (30, 31, 32, 33)] == [3, 3, 3, 3]
    assert [min(tile.low for tile in tiles(n, "cuda", 8)) for n in (30, 31, 32, 33)] == [4, 4, 3, 3]


def test_steps_of_long_ago_are_forgotten(monkeypatch):
    """A logarithmic grid of output times has a step for each, with a graph and tables on a GPU."""
    by_passes(monkeypatch)
    evolver = Evolver(cpu(1), random_model(6), random_state(6))
    evolver._graphs = {("ts4", dt): None for dt in range(evolve.KEPT_STEPS + 1)}
    for axis in evolver._axes:
        axis.factors.update({(0, 0, 0, float(k), ""): None for k in range(evolve.KEPT_LAYERS + 1)})
    evolver.advance("ts4", 0.1, 2)
    assert not evolver._graphs
    assert not any(axis.factors for axis in evolver._axes)


def check_tiles(spins, found, run, least):
    first, *others = found
    assert first == Tile(first.bits, first.bits, first.bits)
    rotated = list(range(first.bits))
    for tile in others:
        assert run <= tile.low <= tile.high
        assert tile.bits - tile.low >= least
        assert len(covered(tile)) == tile.bits
        rotated += range(tile.high, tile.high + tile.bits - tile.low)
    assert rotated == list(range(spins))


def test_too_many_spins_for_the_tiles():
    with pytest.raises(ValueError, match="45 spins are more than cpu tiles of 14 bits reach"):
        tiles(45, "cpu")
    with pytest.raises(ValueError, match="99 spins"):
        tiles(99, "cuda")


@pytest.mark.parametrize(
    ("spins", "bits", "run", "groups"),
    [
        (7, 7, 1, 1),
        (7, 5, 1, 2),
        (7, 4, 1, 2),
        (8, 5, 2, 2),
        (13, 12, 4, 2),
        (7, 3, 1, 3),
        (8, 4, 1, 3),
        (7, 4, 2, 3),
        (11, 6, 3, 3),
        (6, 3, 2, 4),
        (12, 4, 1, 4),
        (7, 2, 1, 0),
    ],
)
@pytest.mark.parametrize("method", ["ts1", "ts2", "bm4"])
def test_tile_sizes_change_nothing(monkeypatch, spins, bits, run, groups, method):
    """One tile, two, three and four; axes that are absent, too."""
    for axes in ("xyz", "yz", "xz", "y"):
        model, psi = random_model(spins, axes=axes), random_state(spins)
        one = Evolver(cpu(1), model, psi)
        with monkeypatch.context() as patch:
            small_tiles(patch, bits, run)
            if not groups:
                with pytest.raises(ValueError, match="spins are more than"):
                    Evolver(cpu(1), model, psi)
                return
            other = Evolver(cpu(1), model, psi)
        assert (len(one.tiles), len(other.tiles)) == (1, groups)
        for evolver in (one, other):
            evolver.advance(method, 0.2, 3)
        assert distance(one.psi, other.psi) < rounding(method, 3)


@pytest.mark.parametrize(("bits", "groups"), [(14, 1), (8, 2), (5, 3), (4, 4)])
def test_passes(monkeypatch, bits, groups):
    """Twenty layers a step and one more; a pass a layer with two groups, and one more a layer for every other group."""
    small_tiles(monkeypatch, bits)
    evolver = Evolver(cpu(1), random_model(12), random_state(12))
    assert len(evolver.tiles) == groups
    evolver.advance("ts4", 0.1, 5)
    assert evolver.passes == 101 + 100 * max(0, groups - 2)


@pytest.mark.parametrize(
    ("axes", "step", "ends"),
    [("xyz", 20, 1), ("xz", 10, 1), ("yz", 10, 1), ("xy", 10, 3)],
)
@pytest.mark.parametrize("bits", [14, 8])
def test_an_absent_axis_costs_nothing(monkeypatch, axes, step, ends, bits):
    """Without z the frame is changed at the beginning and at the end, and not in every step."""
    small_tiles(monkeypatch, bits)
    evolver = Evolver(cpu(1), random_model(12, axes=axes), random_state(12))
    for steps in (1, 2, 5):
        before = evolver.passes
        evolver.advance("ts4", 0.1, steps)
        assert evolver.passes - before == step * steps + ends


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("axes", AXES)
def test_courses(axes, method):
    """They begin and end in the z frame, repeat an even number of layers, and C^3 is never gained."""
    present = tuple("xyz".index(axis) for axis in axes)
    for steps in (1, 2, 7):
        plan = course(present, method, 0.1, steps)
        order = [
            *plan.layers[: plan.first],
            *plan.layers[plan.first : plan.last] * plan.repeats,
            *plan.layers[plan.last :],
        ]
        assert len(order) == plan.total
        assert (plan.last - plan.first) % 2 == 0
        assert order[0][0] == order[-1][0] == ORDER[0]
        turns = [turn(a, b) for (a, _), (b, _) in pairwise(order)]
        assert 0 not in turns
        assert sum(turns) == 0
        for axis in present:
            total = sum(tau for a, tau in order if a == axis)
            assert total == pytest.approx(0.1 * steps, abs=1e-13)


def test_threads_change_nothing():
    model, psi = random_model(16), random_state(16)
    one, many = (final(cpu(k), model, psi, "ts2", 0.1, 3) for k in (1, 3))
    np.testing.assert_array_equal(one, many)


# ------------------------------------------------------------------------------- layers one by one


@pytest.mark.parametrize("spins", [4, 5])
@pytest.mark.parametrize(
    "sequence",
    [
        *("x", "y", "z", "zx", "xz", "zy", "yz", "xy", "yx", "xyz", "zyx", "yzx", "xyzxyz", "zyxzyxzyx"),
        *("yxzxzy", "zz", "xx", "zzxxz", "zxyyz", "zzxyyyxx"),
    ],
)
def test_layers_in_any_order(device, monkeypatch, sequence, spins):
    """Ways round through the frames in both directions, and an axis after itself; the global phase stays."""
    model, psi = random_model(spins), random_state(spins)
    times = [0.1 + 0.07 * i for i in range(len(sequence))]
    H, expected = matrices(model), psi
    for axis, tau in zip(sequence, times, strict=True):
        expected = propagated(H["xyz".index(axis)], tau, expected)
    for bits in (14, 3):
        small_tiles(monkeypatch, bits)
        evolver = Evolver(device, model, psi)
        evolver.apply([("xyz".index(axis), tau) for axis, tau in zip(sequence, times, strict=True)])
        assert distance(device.to_host(evolver.psi), expected) < 1e-14


def test_no_layers(device):
    psi = random_state(4)
    evolver = Evolver(device, random_model(4), psi)
    evolver.apply([])
    np.testing.assert_array_equal(device.to_host(evolver.psi), psi)


@pytest.mark.parametrize("first", ["xyz", "z", "x"])
@pytest.mark.parametrize("second", ["xyz", "y", "xz"])
def test_another_model(device, path, first, second):
    one, two = random_model(5, 1, first), random_model(5, 2, second)
    psi = random_state(5)
    evolver = Evolver(device, one, psi)
    evolver.advance("ts2", 0.2, 4)
    evolver.set_model(two)
    evolver.advance("ts2", 0.2, 4)
    evolver.set_model(one)
    evolver.advance("ts2", 0.2, 4)
    expected = psi
    for model in (one, two, one):
        expected = split(model, "ts2", 0.2, expected, 4)
    assert distance(device.to_host(evolver.psi), expected) < rounding("ts2", 12)
    assert evolver.model is one


def test_the_state_is_a_copy_and_can_be_exchanged(device, path):
    psi, other = random_state(6), random_state(6, seed=1)
    given, kept = device.asarray(psi), psi.copy()
    evolver = Evolver(device, random_model(6), given)
    evolver.advance("ts2", 0.1, 2)
    np.testing.assert_array_equal(device.to_host(given), kept)
    evolver.psi = other
    np.testing.assert_array_equal(device.to_host(evolver.psi), other)
    evolver.advance("ts2", 0.1, 2)
    assert distance(device.to_host(evolver.psi), final(device, random_model(6), other, "ts2", 0.1, 2)) < 1e-15
    assert evolver.norm() == pytest.approx(1, abs=1e-14)


# -------------------------------------------------------------------------------------- measurement


@pytest.mark.parametrize("spins", [1, 2, 3, 6, 7])
def test_moments_along_all_axes(device, spins):
    psi = random_state(spins, norm=2.5)
    moments = Evolver(device, random_model(spins), psi).measure("xyz")
    assert moments.norm == pytest.approx(2.5, rel=1e-14)
    for a, axis in enumerate("xyz"):
        turned = [on_site(spins, j, SPIN[a]) @ psi for j in range(spins)]
        np.testing.assert_allclose(
            moments.s[axis], [np.vdot(psi, v).real for v in turned], rtol=0, atol=1e-14
        )
        expected = [[np.vdot(u, v).real for v in turned] for u in turned]
        np.testing.assert_allclose(moments.ss[axis], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("spins", [5, 13])
def test_what_is_measured(device, spins):
    psi = random_state(spins)
    evolver = Evolver(device, random_model(spins), psi)
    everything = evolver.measure("xyz")
    evolver.psi = psi
    z, firsts, first = evolver.measure(), evolver.measure("xyz", pairs=False), evolver.measure(pairs=False)
    assert (set(z.s), set(z.ss)) == ({"z"}, {"z"})
    assert (set(firsts.s), set(firsts.ss)) == ({"x", "y", "z"}, set())
    assert (set(first.s), set(first.ss)) == ({"z"}, set())
    for axis in "xyz":
        np.testing.assert_allclose(firsts.s[axis], everything.s[axis], rtol=0, atol=1e-14)
    np.testing.assert_allclose(z.ss["z"], everything.ss["z"], rtol=0, atol=1e-14)
    np.testing.assert_allclose(first.s["z"], everything.s["z"], rtol=0, atol=1e-14)


@pytest.mark.parametrize(("spins", "bits"), [(1, 14), (4, 14), (5, 14), (9, 5), (9, 4), (12, 4), (15, 14)])
def test_measuring_leaves_the_state(device, monkeypatch, spins, bits):
    """Three frames round and back, global phase included; an axis measured on several groups of bits."""
    psi = random_state(spins)
    one = Evolver(device, random_model(spins), psi).measure("xyz")
    small_tiles(monkeypatch, bits, 1 if bits < 14 else 4)
    evolver = Evolver(device, random_model(spins), psi)
    found = evolver.measure("xyz")
    assert distance(device.to_host(evolver.psi), psi) < 1e-14
    for axis in "xyz":
        np.testing.assert_allclose(found.ss[axis], one.ss[axis], rtol=0, atol=1e-14)


@pytest.mark.parametrize("spins", [1, 4, 5])
def test_energy(device, spins):
    model, psi = random_model(spins), random_state(spins, norm=3.0)
    evolver = Evolver(device, model, psi)
    expected = np.vdot(psi, sum(matrices(model)) @ psi).real
    assert evolver.energy() == pytest.approx(expected, abs=1e-13)
    assert evolver.energy(evolver.measure("xyz")) == pytest.approx(expected, abs=1e-13)
    assert evolver.energy(evolver.measure("z")) == pytest.approx(expected, abs=1e-13)


def test_energy_is_conserved(device):
    evolver = Evolver(device, random_model(10), random_state(10))
    before = evolver.energy()
    evolver.advance("kl8", 0.05, 10)
    assert evolver.energy() == pytest.approx(before, abs=1e-9)


# ---------------------------------------------------------------------------------------------- CUDA


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("spins", [1, 5, 8, 9, 13, 14, 15, 17, 20, 22])
def test_cuda_is_its_twin(cuda, spins, precision):
    """One and two groups; steps recorded as a graph below 22 spins."""
    model, psi = random_model(spins), random_state(spins)
    one, two = (final(d, model, psi, "ts2", 0.05, 6, precision=precision) for d in (cpu(2), cuda))
    assert distance(one, two) < (1e-13 if precision == "double" else 1e-5)


@pytest.mark.gpu
def test_three_groups_on_cuda(cuda):
    model, psi = random_model(20), random_state(20)
    tiling = [Tile(10, 10, 10), Tile(5, 10, 10), Tile(5, 15, 10)]
    evolvers = [Evolver(cpu(2), model, psi), Evolver(cuda, model, psi, tiling=tiling)]
    for evolver in evolvers:
        evolver.advance("ts2", 0.05, 4)  # some of them recorded
    assert distance(*(e.device.to_host(e.psi) for e in evolvers)) < 1e-13
    one, two = (e.measure("xyz") for e in evolvers)
    for axis in "xyz":
        np.testing.assert_allclose(one.ss[axis], two.ss[axis], rtol=0, atol=1e-13)


@pytest.mark.gpu
def test_recorded_steps_can_be_repeated(cuda):
    """The graph of a step serves later calls, and that of another step or model is another."""
    model, other, psi = random_model(15), random_model(15, seed=1), random_state(15)
    evolvers = [Evolver(device, model, psi) for device in (cpu(1), cuda)]
    for evolver in evolvers:
        for method, dt, steps in (("ts4", 0.1, 5), ("ts2", 0.1, 4), ("ts4", 0.1, 7), ("ts4", -0.1, 6)):
            evolver.advance(method, dt, steps)
        evolver.set_model(other)
        evolver.advance("ts4", 0.1, 5)
    assert distance(*(e.device.to_host(e.psi) for e in evolvers)) < 1e-12
    assert evolvers[0].passes == evolvers[1].passes


@pytest.mark.gpu
@pytest.mark.parametrize("spins", [1, 3, 8])
def test_padding_stays_empty(cuda, spins):
    """Spins beside a small system change neither its state nor its moments."""
    model, psi = random_model(spins), random_state(spins)
    evolver = Evolver(cuda, model, psi)
    evolver.advance("ts4", 0.1, 30)
    evolver.measure("xyz")
    rest = cuda.to_host(evolver._psi)[1 << spins :]
    assert np.linalg.norm(rest) < 1e-13
    evolver.psi = psi
    assert not cuda.to_host(evolver._psi)[1 << spins :].any()

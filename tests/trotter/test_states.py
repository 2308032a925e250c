"""Initial states: conventions, random states that depend on seed, member and index only, tensors, files, complaints.

Tolerances.  Random amplitudes are products of at most three numbers that are right to 2 rounding units each.
"""

import itertools
import json
import math
from functools import reduce
from pathlib import Path

import h5py
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.core.errors import FileError
from qsim.trotter.deck.initial import Initial
from qsim.trotter.kernels.states import random_states as kernels
from qsim.trotter.states.files import load_state
from qsim.trotter.states.mps import contract_mps

REFERENCE = Path(__file__).resolve().parents[1] / "reference_data" / "trotter.json"
REFERENCES = {r["name"]: r for r in json.loads(REFERENCE.read_text(encoding="utf-8"))["references"]}
ROUNDING = 4e-16
LARGE = 17  # spins: more amplitudes than one thread takes alone


def block(**keys):
    return TypeAdapter(Initial).validate_json(json.dumps(keys))


def state(spins, dtype=np.complex128, *, seed=3, member=0, device=None, **keys):
    given = block(**keys)
    assert not list(given.check(spins, "initial"))
    return given.vector(spins, device or cpu(1), dtype, seed=seed, member=member)


def only_index(psi):
    """Index of the one amplitude of an Ising state."""
    (index,) = np.flatnonzero(psi)
    assert psi[index] == 1.0
    return int(index)


def bloch(psi, spins):
    """2 <S^a_j> of every site, (N, 3)."""
    tensor = psi.reshape((2,) * spins)  # axis k is site N - 1 - k
    found = []
    for site in range(spins):
        up, down = np.moveaxis(tensor, spins - 1 - site, 0).reshape(2, -1)
        coherence = 2 * np.vdot(up, down)
        found.append([coherence.real, coherence.imag, np.vdot(up, up).real - np.vdot(down, down).real])
    return np.array(found)


# --- Ising and product states ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "index"),
    [
        ({"type": "basis", "bits": "0000"}, 0b0000),
        (
            {"type": "basis", "bits": "0100"},
            0b0010,
        ),  # site 0 first in the deck, least significant in the index
        ({"type": "basis", "bits": "0001"}, 0b1000),
        ({"type": "basis", "up": [0, 2]}, 0b1010),
        ({"type": "basis", "up": []}, 0b1111),
        ({"type": "basis", "down": [3]}, 0b1000),
        ({"type": "neel"}, 0b1010),
        ({"type": "neel", "first": "down"}, 0b0101),
        ({"type": "neel", "row": 2}, 0b0110),
        ({"type": "domain_wall"}, 0b1100),
        ({"type": "domain_wall", "up": 1}, 0b1110),
        ({"type": "domain_wall", "up": 0}, 0b1111),
    ],
)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_ising_states(keys, index, dtype):
    psi = state(4, dtype, **keys)
    assert psi.dtype == dtype
    assert only_index(psi) == index


@pytest.mark.parametrize("name", ["heisenberg_ring10_neel", "xx_chain12_neel", "xx_chain20_single"])
def test_up_sites_of_the_references(name):
    reference = REFERENCES[name]
    sites = reference["initial_state"]["up_sites"]
    psi = state(reference["N"], type="basis", up=sites)
    index = only_index(psi)
    sz = [0.5 - (index >> j & 1) for j in range(reference["N"])]
    np.testing.assert_allclose(sz, reference["results"]["sz"][0], atol=1e-12)


@pytest.mark.parametrize("spins", [1, 2, 3, 5])
def test_product_states_point_where_they_should(spins):
    generator = np.random.default_rng(spins)
    theta, phi = generator.uniform(0, np.pi, spins), generator.uniform(-np.pi, np.pi, spins)
    psi = state(spins, type="product", theta=theta.tolist(), phi=phi.tolist())
    expected = np.stack([np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=1)
    np.testing.assert_allclose(bloch(psi, spins), expected, atol=1e-14)
    spinors = [[np.cos(t / 2), np.exp(1j * p) * np.sin(t / 2)] for t, p in zip(theta, phi, strict=True)]
    np.testing.assert_allclose(psi, reduce(np.kron, spinors[::-1]), atol=1e-15)


def test_the_product_states_of_the_references():
    for name in ("precession_tilted_3", "random_xyz8_product"):
        reference = REFERENCES[name]
        theta, phi = zip(*reference["initial_state"]["theta_phi"], strict=True)
        psi = state(reference["N"], type="product", theta=list(theta), phi=list(phi))
        vectors = bloch(psi, reference["N"])
        np.testing.assert_allclose(0.5 * vectors[:, 2], reference["results"]["sz"][0], atol=1e-13)
        np.testing.assert_allclose(0.5 * vectors[0, 0], reference["results"]["sx0"][0], atol=1e-13)
        np.testing.assert_allclose(0.5 * vectors[0, 1], reference["results"]["sy0"][0], atol=1e-13)


@pytest.mark.parametrize("axis", ["x", "y", "z", "-x", "-y", "-z"])
def test_polarised_states(axis):
    sign, component = -1.0 if axis[0] == "-" else 1.0, "xyz".index(axis[-1])
    expected = np.zeros((3, 3))
    expected[:, component] = sign
    np.testing.assert_allclose(bloch(state(3, type="polarised", axis=axis), 3), expected, atol=1e-15)


def test_angles_have_units_and_one_serves_all_sites():
    np.testing.assert_allclose(
        bloch(state(2, type="product", theta="90 deg", phi=0.0), 2), [[1, 0, 0]] * 2, atol=1e-15
    )


# --- random states --------------------------------------------------------------------------------

RANDOM = [
    {"type": "random_phase"},
    {"type": "random_phase", "rng": "splitmix64"},
    {"type": "a1", "up": [0]},
    {"type": "a1", "up": [1, 5], "rng": "splitmix64"},
    {"type": "haar"},
]


@pytest.mark.parametrize("keys", RANDOM)
@pytest.mark.parametrize("spins", [6, 11])
def test_random_states_are_normalised(keys, spins):
    psi = state(spins, **keys)
    assert np.vdot(psi, psi).real == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("keys", RANDOM)
def test_parts_of_random_states_are_those_of_the_whole(keys, where, request):
    device = cpu(1) if where == "cpu" else request.getfixturevalue("cuda")
    start = block(**keys)
    for dtype in (np.complex128, np.complex64):
        whole = device.to_host(start.vector(11, device, dtype, seed=9))
        for count in (2, 8):
            size = (1 << 11) // count
            places = [slice(k * size, (k + 1) * size) for k in range(count)]
            parts = [device.to_host(start.part(11, device, dtype, place, seed=9)) for place in places]
            assert np.array_equal(np.concatenate(parts), whole)


def test_random_phases_are_those_of_the_generator_of_qsim():
    psi = state(10, type="random_phase", seed=5, member=2)
    u = rng.uniform(rng.key_from_seed(5), kernels.STREAM, 2, 1024)
    np.testing.assert_allclose(psi, np.exp(2j * np.pi * u) / 32, rtol=0, atol=ROUNDING / 16)


def test_normal_amplitudes_are_those_of_the_generator_of_qsim():
    psi = state(10, type="haar", member=1)
    key = rng.key_from_seed(3)
    size, angle = (rng.uniform(key, kernels.STREAM, 1, 1024, draw=draw) for draw in (0, 1))
    expected = np.sqrt(-np.log(size)) * np.exp(2j * np.pi * angle)
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(psi, expected, rtol=0, atol=1e-15)


def splitmix(seed, n):
    """The recipe of the references, in Python's integers."""
    full = 2**64 - 1
    z = (seed * 0x100000001 + n + 0x9E3779B97F4A7C15) & full
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & full
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & full
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


def test_the_phases_of_the_references():
    assert splitmix(11, 0) == 0.99178464791331944  # as printed in the reference file
    for name in ("heisenberg_dq_ring10", "dipolar_chain10_a1"):
        reference = REFERENCES[name]
        given, spins = reference["initial_state"], reference["N"]
        keys = {"type": "random_phase"}
        if given["type"] == "a1_random_phase":
            keys = {"type": "a1", "up": [given["up_site"]]}
        psi = state(spins, rng="splitmix64", seed=given["seed"], **keys)
        expected = np.exp(2j * np.pi * np.array([splitmix(given["seed"], n) for n in range(2**spins)]))
        if "up" in keys:
            expected[np.arange(2**spins) >> given["up_site"] & 1 == 1] = 0.0
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(psi, expected, rtol=0, atol=ROUNDING / 8)
        np.testing.assert_allclose(0.5 * bloch(psi, spins)[:, 2], reference["results"]["sz"][0], atol=1e-14)
        np.testing.assert_allclose(0.5 * bloch(psi, spins)[0, 0], reference["results"]["sx0"][0], atol=1e-14)


def test_a1_polarises_its_sites_and_no_others():
    psi = state(10, type="a1", up=[2, 7])
    z = bloch(psi, 10)[:, 2]
    np.testing.assert_allclose(z, np.isin(np.arange(10), [2, 7]).astype(float), atol=1e-14)
    assert len(set(np.round(abs(psi), 15))) == 2  # zero, and one size


def test_haar_amplitudes_are_normal():
    psi = state(14, type="haar") * 2**7
    assert np.mean(abs(psi) ** 4) == pytest.approx(2.0, rel=0.05)
    assert abs(np.mean(psi)) < 0.03
    assert np.mean(psi.real**2) == pytest.approx(0.5, rel=0.05)
    assert abs(np.mean(psi**2)) < 0.03


@pytest.mark.parametrize("keys", RANDOM)
def test_threads_change_no_bit(keys):
    one = state(LARGE, **keys, device=cpu(1))
    for threads in (2, 3, 5):
        assert np.array_equal(state(LARGE, **keys, device=cpu(threads)), one)


@pytest.mark.parametrize("keys", RANDOM)
def test_single_precision_is_rounded_once(keys):
    double, single = state(9, **keys), state(9, np.complex64, **keys)
    assert np.array_equal(double.astype(np.complex64), single)


@pytest.mark.parametrize("keys", RANDOM)
def test_seeds_and_members_differ(keys):
    drawn = [
        state(8, **keys),
        state(8, **keys, seed=4),
        state(8, **keys, member=2),
        block(**keys, seed=8).vector(8, cpu(1), np.complex128, seed=3),
    ]
    for a, b in itertools.combinations(drawn, 2):
        assert not np.allclose(a, b)
    again = block(**keys, seed=8).vector(8, cpu(1), np.complex128, seed=99)
    assert np.array_equal(again, drawn[3])  # a seed of its own counts, that of the run does not


def test_a_larger_system_begins_with_the_same_phases():
    small, large = (state(n, type="random_phase") * 2 ** (n / 2) for n in (6, 8))
    np.testing.assert_allclose(large[:64], small, atol=ROUNDING)


# --- the elementary functions of the kernel -------------------------------------------------------


def test_turns():
    u = np.concatenate([np.linspace(0, 1, 4001), [2.0**-53, 1 - 2.0**-53, 0.125, 0.375]])
    found = np.array([kernels.turn(x) for x in u])
    long = 2 * np.arccos(np.longdouble(-1)) * u
    np.testing.assert_allclose(found[:, 0], np.cos(long).astype(float), rtol=0, atol=2.3e-16)
    np.testing.assert_allclose(found[:, 1], np.sin(long).astype(float), rtol=0, atol=2.3e-16)
    assert kernels.turn(0.25) == (0.0, 1.0)


def test_logarithms():
    u = np.concatenate([np.random.default_rng(1).random(4000), [2.0**-53, 1 - 2.0**-53, 0.5, 0.75]])
    found = np.array([kernels.minus_log(x) for x in u])
    exact = -np.log(np.longdouble(u))
    assert np.max(abs((found - exact) / exact)) < 5e-16


# --- CPU and CUDA ---------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("keys", RANDOM)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("spins", [3, 9, 18])
def test_random_states_are_equal_on_every_device(keys, dtype, spins, cuda):
    if spins < 6 and 5 in keys.get("up", ()):
        pytest.skip("no site 5")
    there = cuda.to_host(state(spins, dtype, **keys, member=3, device=cuda))
    assert np.array_equal(there, state(spins, dtype, **keys, member=3))


@pytest.mark.gpu
@pytest.mark.parametrize("spins", [1, 4, 9])
def test_other_states_on_cuda(spins, cuda):
    theta = np.linspace(0.3, 2.0, spins).tolist()
    for keys in ({"type": "neel"}, {"type": "product", "theta": theta, "phi": 0.4}):
        there = cuda.to_host(state(spins, **keys, device=cuda))
        np.testing.assert_allclose(there, state(spins, **keys), atol=1e-15)


@pytest.mark.gpu
def test_tensors_and_files_on_cuda(tmp_path, cuda):
    given = tensors(6, [1, 2, 3, 3, 3, 2, 1])
    here = contract_mps(given, cpu(1), np.complex128)
    np.testing.assert_allclose(cuda.to_host(contract_mps(given, cuda, np.complex128)), here, atol=1e-14)
    np.save(tmp_path / "psi.npy", here)
    there = load_state(tmp_path / "psi.npy", 6, cuda, np.complex128)
    np.testing.assert_allclose(cuda.to_host(there), here, atol=1e-15)


# --- matrix product states ------------------------------------------------------------------------


def tensors(spins, bonds, seed=1):
    """Random tensors; bonds holds the sizes left of site 0, between sites, and right of the last."""
    generator = np.random.default_rng([seed, spins])

    def draw(*shape):
        return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)

    return [draw(bonds[k], 2, bonds[k + 1]) for k in range(spins)]


def naive(given):
    """The trace of Eq. (A.2), one Ising state after the other."""
    psi = np.zeros(2 ** len(given), complex)
    for n in range(psi.size):
        product = np.eye(given[0].shape[0])
        for j, tensor in enumerate(given):
            product = product @ tensor[:, n >> j & 1, :]
        psi[n] = np.trace(product)
    return psi / np.linalg.norm(psi)


def save(path, given, prefix="A"):
    np.savez(path, **{f"{prefix}{k}": tensor for k, tensor in enumerate(given)})
    return str(path)


@pytest.mark.parametrize(
    ("spins", "bonds"),
    [
        (1, [1, 1]),
        (2, [1, 3, 1]),
        (3, [1, 2, 2, 1]),
        (4, [3, 3, 3, 3, 3]),  # a ring
        (5, [2, 1, 4, 3, 2, 2]),
        (6, [1, 2, 4, 8, 4, 2, 1]),
        (1, [3, 3]),
    ],
)
@pytest.mark.parametrize("prefix", ["A", "arr_"])
def test_contraction(tmp_path, spins, bonds, prefix):
    given = tensors(spins, bonds)
    psi = state(spins, type="mps", file=save(tmp_path / "mps.npz", given, prefix))
    np.testing.assert_allclose(psi, naive(given), atol=1e-14)
    single = state(spins, np.complex64, type="mps", file=str(tmp_path / "mps.npz"))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, naive(given), atol=1e-6)


def test_the_ends_of_an_open_chain_may_lack_a_bond(tmp_path):
    given = tensors(3, [1, 2, 2, 1])
    short = [given[0][0], given[1], given[2][..., 0]]
    psi = state(3, type="mps", file=save(tmp_path / "mps.npz", short))
    np.testing.assert_allclose(psi, naive(given), atol=1e-14)


def test_a_cat_state(tmp_path):
    copy = np.zeros((2, 2, 2))
    copy[0, 0, 0] = copy[1, 1, 1] = 1.0
    psi = state(5, type="mps", file=save(tmp_path / "cat.npz", [copy] * 5))
    assert np.flatnonzero(psi).tolist() == [0, 31]
    np.testing.assert_allclose(psi[[0, 31]], math.sqrt(0.5))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (tensors(2, [1, 2, 1]), r"holds A0 .*, A1 .*; expected one tensor for each of 3 sites, A0 to A2"),
        ([np.zeros((1, 3, 1))] * 3, r"A0 has shape \(1, 3, 1\), expected \(left bond, 2, right bond\)"),
        ([np.zeros(2)] * 3, r"A0 has shape \(2,\)"),
        ([np.full((1, 2, 1), "x")] * 3, "A0 has shape"),
        ([np.full((1, 2, 1), np.nan)] * 3, r"A0\[0, 0, 0\] is nan"),
        (
            [np.zeros((1, 2, 2)), np.zeros((3, 2, 1)), np.zeros((1, 2, 1))],
            "right bond of A0 is 2, .* of A1 is 3",
        ),
        (
            [np.zeros((2, 2, 1)), np.zeros((1, 2, 1)), np.zeros((1, 2, 1))],
            "right bond of A2 is 1, .* of A0 is 2",
        ),
        ([np.zeros((1, 2, 1))] * 3, "(is zero|is not finite|is nan)"),
    ],
)
def test_complaints_about_tensors(tmp_path, given, message):
    with pytest.raises(FileError, match=message):
        state(3, type="mps", file=save(tmp_path / "mps.npz", given))


def test_complaints_about_tensor_files(tmp_path):
    (tmp_path / "mps.txt").write_text("1 2")
    with pytest.raises(FileError, match="read from an .npz file"):
        state(3, type="mps", file=str(tmp_path / "mps.txt"))
    np.savez(tmp_path / "mps.npz", B=np.zeros(3))
    with pytest.raises(FileError, match="holds B \\(3,\\); expected one tensor"):
        state(3, type="mps", file=str(tmp_path / "mps.npz"))


# --- files ----------------------------------------------------------------------------------------


def vector(spins=4):
    psi = np.random.default_rng(1).standard_normal(2**spins) + 1j
    return psi / np.linalg.norm(psi)


def test_states_from_files(tmp_path):
    psi = vector()
    np.save(tmp_path / "a.npy", 3 * psi)
    np.savez(tmp_path / "b.npz", psi=psi, other=np.zeros(16))
    np.savez(tmp_path / "c.npz", anything=psi, time=np.zeros(3))
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file["results/psi_final"] = psi
        file["results/time"] = np.zeros(2)
    for name in ("a.npy", "b.npz", "c.npz", "d.h5"):
        np.testing.assert_allclose(state(4, type="file", file=str(tmp_path / name)), psi, atol=1e-15)
    single = state(4, np.complex64, type="file", file=str(tmp_path / "a.npy"))
    assert single.dtype == np.complex64
    np.testing.assert_allclose(single, psi, atol=1e-7)
    for name in ("results/psi_final", "psi_final"):
        np.testing.assert_allclose(
            state(4, type="file", file=str(tmp_path / "d.h5"), name=name), psi, atol=1e-15
        )
    np.savez(tmp_path / "e.npz", psi=np.zeros(16), mine=psi)
    np.testing.assert_allclose(
        state(4, type="file", file=str(tmp_path / "e.npz"), name="mine"), psi, atol=1e-15
    )


def test_complaints_about_state_files(tmp_path):
    def load(array, **keys):
        np.savez(tmp_path / "psi.npz", **array)
        return state(4, type="file", file=str(tmp_path / "psi.npz"), **keys)

    with pytest.raises(FileError, match=r"holds psi \(8,\); expected one array of 16 amplitudes \(4 spins\)"):
        load({"psi": np.ones(8)})
    with pytest.raises(FileError, match="expected one array of 16"):
        load({"a": np.ones(16), "b": np.ones(16)})
    with pytest.raises(FileError, match="expected 'c' of 16"):
        load({"a": np.ones(16)}, name="c")
    with pytest.raises(FileError, match="(is zero|is not finite|is nan)"):
        load({"a": np.zeros(16)})
    with pytest.raises(FileError, match="(is zero|is not finite|is nan)"):
        load({"a": np.full(16, np.nan)})
    with pytest.raises(FileError, match="not numbers"):
        load({"a": np.full(16, "x")})
    (tmp_path / "psi.h5").write_text("nothing")
    with pytest.raises(FileError, match="cannot be read"):
        state(4, type="file", file=str(tmp_path / "psi.h5"))


# --- complaints -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"type": "basis"}, "", "exactly one of bits, up and down; found none of them"),
        ({"type": "basis", "bits": "0101", "up": [0]}, "", "found bits and up"),
        ({"type": "basis", "bits": "010"}, ".bits", "3 bits, but system.spins = 4"),
        ({"type": "basis", "up": [4]}, ".up.0", "site 4 does not exist: 4 spins are sites 0 to 3"),
        ({"type": "basis", "down": [1, 1]}, ".down.1", "duplicate site 1"),
        ({"type": "neel", "row": 3}, ".row", "4 spins are not made of rows of 3"),
        ({"type": "domain_wall", "up": 5}, ".up", "5 sites up, but system.spins = 4"),
        ({"type": "product", "theta": [1.0]}, ".theta", "1 angles, but system.spins = 4"),
        ({"type": "a1", "up": [0, 9]}, ".up.1", "site 9 does not exist"),
    ],
)
def test_complaints(keys, key, message):
    (found,) = block(**keys).check(4, "initial")
    assert found.key == f"initial{key}"
    assert message in found.message


def test_a1_needs_a_site_and_bits_are_bits():
    for keys in ({"type": "a1"}, {"type": "a1", "up": []}, {"type": "basis", "bits": "01x"}):
        with pytest.raises(ValidationError):
            block(**keys)


def test_which_states_are_random():
    assert [block(**keys).is_random for keys in RANDOM] == [True] * len(RANDOM)
    assert not block(type="neel").is_random

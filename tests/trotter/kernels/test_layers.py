"""Layers: tensor products = CPU twin = CUDA, for every tile, flag and precision.

Tolerances.  A pass rounds each phase, an argument of at most ``tau E``, and each of its additions, at most 26 of them deep; the
scale is the largest amplitude that comes out.  ``2 eps (8 + tau E)`` of it holds, with E a bound of the energy.
"""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.trotter.kernels.layers.layers import (
    STAGE,
    Axis,
    Members,
    member_layers,
    mid_pass,
    phase_factors,
    turn_pass,
)
from qsim.trotter.kernels.layers.layers_cpu import phase_table, rotate, rotate_across
from qsim.trotter.kernels.layers.tables import layout, outside_tables, tile_table

EPS = {np.dtype(np.complex128): 2.3e-16, np.dtype(np.complex64): 1.2e-7}
FLAGS = [(False, False), (True, False), (False, True), (True, True)]
SHIFTS = [0.0, 0.5, -0.5]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def couplings(spins, seed=0):
    """Return random J (N, N) and h (N,) of one axis."""
    generator = np.random.default_rng([seed, spins])
    J = np.triu(generator.standard_normal((spins, spins)), 1)
    return J + J.T, generator.standard_normal(spins)


def random_state(spins, seed=0, dtype=np.complex128):
    generator = np.random.default_rng([7, seed])
    psi = generator.standard_normal(1 << spins) + 1j * generator.standard_normal(1 << spins)
    return (psi / np.linalg.norm(psi)).astype(dtype)


def hadamard(psi, sites):
    """Multiply by [[1, 1], [1, -1]] on some sites; site 0 is the last axis of the tensor."""
    n = int(psi.size).bit_length() - 1
    tensor = psi.reshape((2,) * n)
    for site in sites:
        axis = n - 1 - site
        tensor = np.moveaxis(np.tensordot([[1, 1], [1, -1]], tensor, axes=(1, axis)), 0, axis)
    return tensor.reshape(-1)


def rotated_sites(low, high, bits):
    return range(bits) if low == bits else range(high, high + bits - low)


def phases(J, h, tau, shift, scale):
    """Return scale exp(-i tau E) exp(i pi shift d) of all 2^N indices, d spins down."""
    n = len(h)
    down = np.arange(1 << n)[:, None] >> np.arange(n) & 1
    s = 0.5 - down
    energy = 0.5 * ((s @ J) * s).sum(axis=1) + s @ h
    return scale * np.exp(-1j * tau * energy) * np.exp(1j * np.pi * shift * down.sum(axis=1))


def oracle(psi, J, h, tile, flags, tau, shift, scale):
    psi = psi.astype(complex)
    sites = rotated_sites(*tile)
    psi = hadamard(psi, sites) if flags[0] else psi
    psi = phases(J, h, tau, shift, scale) * psi
    return hadamard(psi, sites) if flags[1] else psi


def turned(device, psi, J, h, tile, flags, tau, shift, scale):
    """Return the state after a pass, which is made over all tiles at once, and in two parts of them."""
    axis = Axis(device.asarray(J), device.asarray(h))
    out, parted = device.asarray(psi.copy()), device.asarray(psi.copy())
    count = len(psi) >> tile[2]
    for first, last in ((0, count // 3), (count // 3, count)):
        if first < last:
            some = (*tile, first, last - first)
            how = {"rotate_in": flags[0], "rotate_out": flags[1], "tau": tau, "shift": shift, "scale": scale}
            turn_pass(device, parted, axis, some, **how)
    turn_pass(
        device, out, axis, tile, rotate_in=flags[0], rotate_out=flags[1], tau=tau, shift=shift, scale=scale
    )
    assert np.array_equal(device.to_host(parted), device.to_host(out))
    return device.to_host(out)


def middle(device, psi, tile):
    out = device.asarray(psi.copy())
    mid_pass(device, out, *tile)
    return device.to_host(out)


def close(found, expected, psi, J, h, tau):
    argument = 8 + abs(tau) * (0.125 * np.abs(J).sum() + 0.5 * np.abs(h).sum())
    tolerance = 2 * EPS[psi.dtype] * argument * abs(expected).max()
    assert found.dtype == psi.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def high_tiles(spins, bits, device="cpu"):
    """Return tiles of so many bits that are not the lowest one."""
    lows = range(1, bits) if device == "cpu" else range(2, bits - 3)
    return [(low, high, bits) for low in lows for high in range(low, spins - (bits - low) + 1)]


def sampled(tiles, count, seed=1):
    """Choose some tiles of a long list, the first and the last among them."""
    if len(tiles) <= count:
        return tiles
    chosen = np.random.default_rng(seed).choice(np.arange(1, len(tiles) - 1), count - 2, replace=False)
    return [tiles[0], *(tiles[i] for i in sorted(chosen)), tiles[-1]]


# ---------------------------------------------------------------------------------------- every tile


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("bits", range(1, 8))
def test_every_tile_of_seven_spins(flags, bits):
    J, h = couplings(7)
    psi = random_state(7)
    for i, tile in enumerate([(bits, bits, bits), *high_tiles(7, bits)]):
        numbers = (0.37, SHIFTS[i % 3], 0.25)
        found = turned(cpu(1), psi, J, h, tile, flags, *numbers)
        close(found, oracle(psi, J, h, tile, flags, *numbers), psi, J, h, numbers[0])


@pytest.mark.parametrize("bits", range(1, 8))
def test_rotation_of_every_tile_of_seven_spins(bits):
    psi = random_state(7)
    for tile in high_tiles(7, bits):
        np.testing.assert_allclose(
            middle(cpu(1), psi, tile), hadamard(psi, rotated_sites(*tile)), rtol=0, atol=2e-15
        )


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("tau", [0.0, 1.3, -0.6])
@pytest.mark.parametrize("spins", [9, 12, 13])
def test_one_tile_is_the_whole_state(device, spins, tau, shift):
    J, h = couplings(spins)
    psi, tile = random_state(spins), (spins, spins, spins)
    for flags in FLAGS:
        found = turned(device, psi, J, h, tile, flags, tau, shift, 2.0**-4)
        close(found, oracle(psi, J, h, tile, flags, tau, shift, 2.0**-4), psi, J, h, tau)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("bits", range(9, 14))
def test_lowest_tile_below_other_spins(device, bits, flags):
    J, h = couplings(14)
    psi, tile = random_state(14), (bits, bits, bits)
    for shift in SHIFTS:
        found = turned(device, psi, J, h, tile, flags, 0.37, shift, 0.125)
        close(found, oracle(psi, J, h, tile, flags, 0.37, shift, 0.125), psi, J, h, 0.37)


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("bits", range(9, 14))
def test_high_tiles(device, bits, flags):
    """Every length of the contiguous run, beside it or above a gap."""
    J, h = couplings(14)
    psi = random_state(14)
    for i, tile in enumerate(sampled(high_tiles(14, bits, "cuda"), 5)):
        numbers = (-0.37, SHIFTS[i % 3], 0.5)
        found = turned(device, psi, J, h, tile, flags, *numbers)
        close(found, oracle(psi, J, h, tile, flags, *numbers), psi, J, h, numbers[0])


@pytest.mark.parametrize("bits", range(9, 14))
def test_rotation_of_high_tiles(device, bits):
    psi = random_state(14)
    for tile in sampled(high_tiles(14, bits, "cuda"), 6):
        expected = hadamard(psi, rotated_sites(*tile))
        np.testing.assert_allclose(middle(device, psi, tile), expected, rtol=0, atol=4e-14)


@pytest.mark.parametrize("tile", [(14, 14, 14), (12, 14, 14), (13, 13, 14), (4, 4, 14)])
def test_largest_tiles_of_a_cpu(tile):
    J, h = couplings(16)
    psi = random_state(16)
    found = turned(cpu(1), psi, J, h, tile, (True, True), 0.37, 0.5, 0.25)
    close(found, oracle(psi, J, h, tile, (True, True), 0.37, 0.5, 0.25), psi, J, h, 0.37)


def test_bits_of_a_tile_may_lie_far_apart():
    J, h = couplings(15)
    psi, tile = random_state(15), (2, 13, 4)
    found = turned(cpu(1), psi, J, h, tile, (True, True), 0.37, -0.5, 0.25)
    close(found, oracle(psi, J, h, tile, (True, True), 0.37, -0.5, 0.25), psi, J, h, 0.37)


# --------------------------------------------------------------------------------- what a pass leaves


@pytest.mark.parametrize("tile", [(12, 12, 12), (4, 10, 9), (9, 11, 13)])
def test_single_precision(device, tile):
    J, h = couplings(15)
    psi = random_state(15, dtype=np.complex64)
    found = turned(device, psi, J, h, tile, (True, True), 0.37, 0.5, 0.25)
    close(found, oracle(psi, J, h, tile, (True, True), 0.37, 0.5, 0.25), psi, J, h, 0.37)
    if tile[0] < tile[2]:
        expected = hadamard(psi.astype(complex), rotated_sites(*tile))
        np.testing.assert_allclose(middle(device, psi, tile), expected, rtol=0, atol=2e-6)


def test_nothing_to_do_leaves_every_bit(device):
    J, h = couplings(12)
    psi = random_state(12)
    found = turned(device, psi, J, h, (12, 12, 12), (False, False), 0.0, 0.0, 1.0)
    np.testing.assert_array_equal(found, psi)


def test_rotations_are_exact(device):
    """Small integers, so that any multiplication by a rounded root of two would be seen."""
    psi = np.random.default_rng(3).integers(-9, 10, 1 << 14).astype(complex)
    zero = np.zeros((14, 14)), np.zeros(14)
    for tile in [(10, 10, 10), (3, 8, 9)]:
        found = turned(device, psi, *zero, tile, (True, False), 0.0, 0.0, 1.0)
        np.testing.assert_array_equal(found, hadamard(psi, rotated_sites(*tile)))
    np.testing.assert_array_equal(middle(device, psi, (5, 8, 9)), hadamard(psi, range(8, 12)))


def test_quarter_turns_become_a_clifford_rotation(device):
    """C^dagger = 2^(-1/2) diag(1, i) [[1, 1], [1, -1]] on every spin takes S^x to S^z."""
    n = 9
    psi = np.full(1 << n, 2.0 ** (-n / 2), complex)  # all spins along x
    zero = np.zeros((n, n)), np.zeros(n)
    found = turned(device, psi, *zero, (n, n, n), (True, False), 0.0, 0.5, 2.0 ** (-n / 2))
    expected = np.eye(1, 1 << n)[0]  # all spins up
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-15)


def test_tables_of_an_axis_do_not_depend_on_time():
    """One axis serves layers of any time, in any order."""
    J, h = couplings(9)
    axis, psi = Axis(J, h), random_state(9)
    for tau in (0.4, -1.1, 0.4):
        out = psi.copy()
        turn_pass(
            cpu(1), out, axis, (9, 9, 9), rotate_in=False, rotate_out=False, tau=tau, shift=0.0, scale=1.0
        )
        close(out, phases(J, h, tau, 0, 1) * psi, psi, J, h, tau)


@pytest.mark.parametrize("tile", [(10, 10, 10), (3, 11, 8)])
def test_threads_change_nothing(tile):
    J, h = couplings(16)
    psi = random_state(16)
    one, many = (turned(cpu(k), psi, J, h, tile, (True, True), 0.3, 0.5, 0.5) for k in (1, 3))
    np.testing.assert_array_equal(one, many)
    if tile[0] < tile[2]:
        np.testing.assert_array_equal(middle(cpu(1), psi, tile), middle(cpu(3), psi, tile))


# ------------------------------------------------------------------------------------------ members


class Ensemble:
    """Members of different couplings, and layers of any kind one after the other."""

    def __init__(self, spins, members, dtype=np.complex128):
        pairs = [[couplings(spins, 3 * m + a) for a in range(3)] for m in range(members)]
        self.J = np.array([[J for J, _ in member] for member in pairs])
        self.h = np.array([[h for _, h in member] for member in pairs])
        self.psi = np.array([random_state(spins, m, dtype) for m in range(members)])
        tau = np.array([0.3, -0.2, 0.5, 0.1])
        self.stages = np.zeros(4, STAGE)
        self.stages["turns"] = tau / np.pi
        self.stages["shift"] = [-0.5, 0.5, 0.0, 0.5]
        self.stages["axis"] = [1, 2, 0, 0]
        self.stages["rotate"] = [1, 1, 0, 1]
        self.stages["scale"] = np.where(self.stages["rotate"], 2.0 ** (-spins / 2), 1.0)

    def run(self, device, repeats):
        out = device.asarray(self.psi.copy())
        member_layers(device, out, Members.of(device, self.J, self.h), self.stages, repeats)
        return device.to_host(out)

    def oracle(self, repeats):
        found = []
        for psi, J, h in zip(self.psi.astype(complex), self.J, self.h, strict=True):
            for stage in [*self.stages] * repeats:
                axis, turns = stage["axis"], stage["turns"]
                if stage["rotate"]:
                    psi = hadamard(psi, range(h.shape[1]))
                psi = phases(J[axis], h[axis], np.pi * turns, stage["shift"], stage["scale"]) * psi
            found.append(psi)
        return np.array(found)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("spins", [9, 11, 12])
def test_members_do_not_mix(device, spins, dtype):
    ensemble = Ensemble(spins, 3, dtype)
    found = ensemble.run(device, 2)
    assert found.dtype == dtype
    tolerance = 8 * 16 * EPS[found.dtype]
    assert np.linalg.norm(found - ensemble.oracle(2), axis=1).max() < tolerance


@pytest.mark.parametrize("spins", range(1, 9))
def test_members_of_a_few_spins(spins):
    ensemble = Ensemble(spins, 4)
    np.testing.assert_allclose(ensemble.run(cpu(1), 3), ensemble.oracle(3), rtol=0, atol=1e-14)


def test_threads_change_no_member():
    ensemble = Ensemble(8, 9)
    one, many = ensemble.run(cpu(1), 40), ensemble.run(cpu(3), 40)
    np.testing.assert_array_equal(one, many)


# -------------------------------------------------------------------------------------------- parts


@pytest.mark.parametrize("bits", range(1, 15))
def test_rotation_of_a_real_array(bits):
    array = np.random.default_rng(bits).standard_normal(1 << bits)
    for lowest in range(bits + 1):
        found = array.copy()
        rotate(found, bits, lowest)
        np.testing.assert_allclose(found, hadamard(array, range(lowest, bits)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bits", range(1, 14))
def test_rotation_of_all_bits_between_two_arrays(bits):
    array = np.random.default_rng(bits).standard_normal(1 << bits)
    one, two = array.copy(), np.empty(1 << bits)
    found, other = rotate_across(one, bits, two)
    assert {found.ctypes.data, other.ctypes.data} == {one.ctypes.data, two.ctypes.data}
    np.testing.assert_allclose(found, hadamard(array, range(bits)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("turns", [0.0, 0.37, -25.0, 1e4])
@pytest.mark.parametrize("shift", SHIFTS)
def test_tabulated_phases(shift, turns):
    """Within a few roundings, those of the oracle's argument up to 2 pi among them; at quarter turns exact; not biased.

    The norm after many layers depends on the last.
    """
    energies = np.random.default_rng(2).standard_normal(4096)
    energies[:64] = np.arange(64) / 4 - 8
    downs = np.arange(4096.0) % 13
    cosines, sines = np.empty(4096), np.empty(4096)
    phase_table(energies, downs, turns, shift, 0.5, cosines, sines)
    u = shift * downs - turns * energies
    u = np.remainder(u, 2.0)  # exact, in half turns
    error = np.abs(2 * (cosines + 1j * sines) - np.exp(1j * np.pi * u))
    assert error.max() < 1.2e-15 + 3e-16 * abs(turns)  # the product turns E is rounded
    assert abs(np.mean(4 * (cosines**2 + sines**2)) - 1.0) < 2e-17
    if turns == 0.0:
        np.testing.assert_array_equal(cosines, 0.5 * np.round(np.cos(np.pi * u)))
        np.testing.assert_array_equal(sines, 0.5 * np.round(np.sin(np.pi * u)))


def test_a_part_of_the_layers_repeats(device):
    """First, then twice and again, last: as the layers one by one; and the whole twice."""
    ensemble = Ensemble(9, 3)
    for first, last, repeats in ((1, 3, 4), (0, 4, 2), (4, 4, 1), (2, 4, 3)):
        out = device.asarray(ensemble.psi.copy())
        members = Members.of(device, ensemble.J, ensemble.h)
        member_layers(device, out, members, ensemble.stages, repeats, (first, last))
        other = device.asarray(ensemble.psi.copy())
        order = [*range(first), *[*range(first, last)] * repeats, *range(last, 4)]
        member_layers(device, other, members, ensemble.stages[order])
        np.testing.assert_array_equal(device.to_host(out), device.to_host(other))


def test_members_without_couplings_only_rotate(device):
    still = Members.still(device, 2, 9)
    stages = np.zeros(1, STAGE)
    stages[0] = (0.7, 0.0, 1.0, 1, 1)
    psi = np.array([random_state(9, m) for m in range(2)])
    out = device.asarray(psi.copy())
    member_layers(device, out, still, stages)
    for m in range(2):
        np.testing.assert_allclose(device.to_host(out[m]), hadamard(psi[m], range(9)), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("low", "bits", "register", "thread"),
    [
        (12, 12, [0, 1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11]),
        (4, 12, [4, 5, 6, 7], [0, 1, 2, 3, 8, 9, 10, 11]),
        (3, 12, [4, 5, 6, 3], [0, 1, 2, 7, 8, 9, 10, 11]),
        (2, 9, [4, 5, 2, 3], [0, 1, 6, 7, 8]),
        (2, 13, [4, 8, 2, 3], [0, 1, 6, 7, 5, 9, 10, 11, 12]),
        (8, 13, [4, 8, 6, 7], [0, 1, 2, 3, 5, 9, 10, 11, 12]),
        (9, 13, [4, 5, 6, 7], [0, 1, 2, 3, 8, 9, 10, 11, 12]),
    ],
)
def test_layout_is_that_of_the_kernel(low, bits, register, thread):
    """``register_bit`` and ``thread_bit`` of layers.cu."""
    assert layout(low, bits) == (register, thread)


TABLES = [(9, 9, 9), (4, 10, 9), (3, 9, 9), (2, 2, 10), (13, 13, 13), (5, 6, 13), (2, 2, 13), (9, 9, 13)]


@pytest.mark.parametrize("tile", TABLES)
def test_tables_hold_all_couplings_and_fields(tile):
    """Thread bits, register bits, what lies between them, and what the spins outside do, add up to the energy."""
    low, high, bits = tile
    N = 15
    J, h = couplings(N)
    table = tile_table(J, *tile)
    register, thread = layout(low, bits)
    threads = 1 << (bits - 4)
    energy, fields = table[:threads], table[threads : 5 * threads].reshape(4, threads)
    inside = table[5 * threads :]
    assert inside.shape == (16,)
    sites = [b if b < low else b - low + high for b in range(bits)]
    others = [j for j in range(N) if j not in sites]
    n = np.arange(1 << N)
    s = 0.5 - (n[:, None] >> np.arange(N) & 1)
    expected = 0.5 * np.einsum("ia,ia->i", s @ J, s) + s @ h

    def number(bits):
        return sum((n >> b & 1) << k for k, b in enumerate(bits))

    t = number([sites[b] for b in thread])
    j = number([sites[b] for b in register])
    found = energy[t] + inside[j] + (fields[:, t].T * s[:, [sites[b] for b in register]]).sum(axis=1)
    half = len(others) // 2
    lower, upper = outside_tables(J, h, *tile)
    assert lower.shape == (1 << half, bits + 1)
    assert upper.shape == (1 << (len(others) - half), bits + 1 + half)
    below, above = lower[number(others[:half])], upper[number(others[half:])]
    found += ((below + above[:, : bits + 1]) * np.column_stack([s[:, sites], np.ones(1 << N)])).sum(axis=1)
    found += (above[:, bits + 1 :] * s[:, others[:half]]).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [np.complex64, np.complex128])
@pytest.mark.parametrize("tile", [(12, 12, 12), (3, 9, 9), (2, 2, 13)])
def test_factors_are_exponentials_of_the_table(device, tile, kind):
    """With a bit of a register down its factor comes in, and that of all four among themselves: exp(-i tau E) of the tile."""
    low, _, bits = tile
    J, _ = couplings(15)
    table, tau = tile_table(J, *tile), 0.37
    found = device.to_host(phase_factors(device, device.asarray(table), low, bits, tau, np.dtype(kind)))
    assert found.dtype == kind
    threads = 1 << (bits - 4)
    energy, fields = table[:threads], table[threads : 5 * threads].reshape(4, threads)
    up, flip, inside = found[:threads], found[threads : 5 * threads].reshape(4, threads), found[5 * threads :]
    for j in range(16):
        s = 0.5 - (j >> np.arange(4) & 1)
        down = [r for r in range(4) if j >> r & 1]
        product = up * inside[j] * np.prod(flip[down], axis=0)
        expected = np.exp(-1j * tau * (energy + s @ fields + table[5 * threads + j]))
        np.testing.assert_allclose(
            product, expected, rtol=0, atol=16 * EPS[np.dtype(kind)] * (1 + abs(tau * energy).max())
        )


# --------------------------------------------------------------------------------------------- CUDA


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize(
    "tile",
    [
        (12, 12, 12),
        (13, 13, 13),
        (4, 13, 12),
        (3, 12, 12),
        (2, 11, 12),
        (5, 13, 13),
        (3, 11, 13),
        (2, 10, 13),
        (9, 9, 13),
        (2, 8, 9),
    ],
)
def test_cuda_is_its_twin(cuda, tile, dtype):
    J, h = couplings(21)
    psi = random_state(21, dtype=dtype)
    for flags in FLAGS:
        one, two = (turned(d, psi, J, h, tile, flags, 0.21, 0.5, 0.25) for d in (cpu(2), cuda))
        close(two, one, psi, J, h, 0.21)
    if tile[0] < tile[2]:
        one, two = middle(cpu(2), psi, tile), middle(cuda, psi, tile)
        np.testing.assert_allclose(two, one, rtol=0, atol=16 * EPS[psi.dtype] * abs(one).max())

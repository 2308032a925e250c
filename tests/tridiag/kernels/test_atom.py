"""Steps of an electron in a central potential: CUDA = CPU twin, for any cut of the grid and any number of members.

Tolerances.  The elimination from both ends adds what the substitution would have to resolve: its condition is that of the radial
step, ``1 / (1 - |alpha|)`` squared, below 1e3 at the nucleus of these grids.  With states of norm 1 and a few steps
an error of ``STEPS * eps`` times that is allowed for single elements; 4e-15 was seen.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsim.core.device.device import select
from qsim.core.errors import DeviceError
from qsim.tridiag.atom.evolution.cuda import CudaBatch, Stepping, families_of, shape_of
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator, radial_arrays
from qsim.tridiag.atom.states.grid import mapped, uniform
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.kernels.atom import length as kernels
from qsim.tridiag.kernels.atom.cuda_tables import ROWS, CudaShape, Mixing, radial_tables, shape, waits_of
from qsim.tridiag.kernels.atom.launch import CHANGES, CLEAR, MASK, NOTHING, RADIAL_STEP, operations

ROUNDING = 1e-12
FELT = 1e-17  # of a sum
MAPPED, UNIFORM, LONG = mapped(12.0, 0.4, 0.05, 10.0), uniform(9.3, 0.3), uniform(36.0, 0.3)
DENSE, WIDE = mapped(25.0, 0.3, 0.02, 20.0), uniform(64.0, 0.25)


def atom(grid, absorber="none"):
    far = np.maximum(grid.r - 0.7 * grid.r[-1], 0.0)
    return AtomLattice(
        grid, -1 / grid.r, 1 / grid.r**2, 1.0, 0.1 * far**2 if absorber == "cap" else None,
        np.exp(-0.01 * far) if absorber == "mask" else None,
    )  # fmt: skip


def states(lanes, grid, members):
    rng = np.random.default_rng(lanes.used)
    phi = rng.normal(size=(members, lanes.used, grid.points, 2)) @ np.array([1.0, 1.0j])
    return [one / np.linalg.norm(one) for one in phi]


def fields(lanes, members):
    """A field per member, of one component along z and of two in a plane."""
    along = [lambda t, k=k: (0.3 - 0.1 * k) * np.cos((0.5 + 0.1 * k) * t) for k in range(members)]
    if isinstance(lanes, Lanes):
        return along
    return [
        lambda t, k=k: np.array([0.3 * np.cos(0.5 * t + k), 0.2 * np.sin(0.4 * t)]) for k in range(members)
    ]


def sums(run):
    """Observables of a run on a CPU in the order of those of the GPU."""
    found = run.sums()
    return (
        found if isinstance(run.lanes, PlanarLanes) else np.array([*found[:2], 0.0, found[2], 0.0, found[3]])
    )


def compare(device, lattice, lanes, rows, blocks, waits, members=2, velocity=False, parts=0, warps=False):
    """Carry a batch and its members one by one, with sums on the way, in two calls."""
    n = lattice.grid.points
    chunks = -(-n // rows)
    cut = CudaShape(
        n, 2 * lanes.pairs, rows, chunks, min(blocks, chunks), 64, members if waits else 1, waits, warps
    )
    phi, field = states(lanes, lattice.grid, members), fields(lanes, members)
    how = Stepping(0.05, velocity, parts=parts)
    batch = CudaBatch(device, lattice, lanes, phi, field, how, found=cut)
    found = np.concatenate([batch.advance(7, np.array([0, 3, 7])), batch.advance(2, np.array([2]))], axis=1)
    for k in range(members):
        run = Propagator(lattice, lanes, phi[k], 0.05, velocity=velocity, field=field[k], parts=parts)
        expected = [sums(run)]
        for count in (3, 4, 2):
            run.advance(count)
            expected.append(sums(run))
        np.testing.assert_allclose(batch.phi(k), run.phi, rtol=0, atol=ROUNDING * np.abs(run.phi).max())
        assert batch.lost[k] == pytest.approx(run.lost, rel=1e-9)
        assert (run.lost > 0) == (parts > 0 and lanes.lmax > 2)
        np.testing.assert_allclose(found[k], expected, rtol=0, atol=ROUNDING * np.abs(expected).max())


WAITS = pytest.mark.parametrize("waits", [True, False], ids=["one launch", "launches"])
ALL = 10**6


@pytest.mark.gpu
@WAITS
@pytest.mark.parametrize("absorber", ["none", "cap", "mask"])
@pytest.mark.parametrize(
    ("used", "rows", "blocks"), [(6, 8, ALL), (7, 16, ALL), (1, 8, ALL), (2, 4, 2), (5, 8, 3)]
)
def test_length_gauge(cuda, used, rows, blocks, absorber, waits):
    compare(cuda, atom(MAPPED if used % 2 else UNIFORM, absorber), Lanes(0, used - 1), rows, blocks, waits)


@pytest.mark.gpu
@WAITS
@pytest.mark.parametrize("m", [1, -2])
def test_length_gauge_of_other_m(cuda, m, waits):
    compare(cuda, atom(MAPPED), Lanes(m, 6), 12, ALL, waits)


@pytest.mark.gpu
@pytest.mark.parametrize("members", [1, 3, 5])
@pytest.mark.parametrize("used", [1, 4])
def test_one_block_per_member(cuda, members, used):
    lanes = Lanes(0, used - 1)
    compare(cuda, atom(MAPPED), lanes, 40, 1, True, members)


@pytest.mark.gpu
@WAITS
@pytest.mark.parametrize("absorber", ["none", "mask"])
@pytest.mark.parametrize(
    ("parities", "lmax", "rows", "blocks"), [((0,), 4, 8, ALL), ((0, 1), 3, 16, 2), ((1,), 2, 40, ALL)]
)
def test_length_gauge_in_a_plane(cuda, parities, lmax, rows, blocks, absorber, waits):
    compare(cuda, atom(MAPPED, absorber), PlanarLanes(parities, lmax), rows, blocks, waits)


@pytest.mark.gpu
@WAITS
@pytest.mark.parametrize("absorber", ["none", "cap", "mask"])
@pytest.mark.parametrize(
    ("used", "rows", "blocks", "parts"),
    [(6, 8, ALL, 0), (7, 16, ALL, 1), (1, 8, ALL, 0), (2, 4, 2, 0), (5, 8, 3, 3), (3, 40, ALL, 0)],
)
def test_velocity_gauge(cuda, used, rows, blocks, parts, absorber, waits):
    lattice = atom(MAPPED if used % 2 else UNIFORM, absorber)
    compare(cuda, lattice, Lanes(0, used - 1), rows, blocks, waits, velocity=True, parts=parts)


@pytest.mark.gpu
@WAITS
@pytest.mark.parametrize("absorber", ["none", "mask"])
@pytest.mark.parametrize(
    ("parities", "lmax", "rows", "blocks", "parts"),
    [((0,), 4, 8, ALL, 2), ((0, 1), 3, 16, 2, 0), ((1,), 2, 40, ALL, 0)],
)
def test_velocity_gauge_in_a_plane(cuda, parities, lmax, rows, blocks, parts, absorber, waits):
    lanes = PlanarLanes(parities, lmax)
    compare(cuda, atom(MAPPED, absorber), lanes, rows, blocks, waits, velocity=True, parts=parts)


@pytest.mark.gpu
@pytest.mark.parametrize("velocity", [False, True], ids=["length", "velocity"])
@pytest.mark.parametrize("absorber", ["none", "cap", "mask"])
@pytest.mark.parametrize(
    ("used", "parts", "grid"),
    [
        (6, 0, UNIFORM),
        (7, 1, MAPPED),
        (1, 0, LONG),
        (2, 2, LONG),
        (64, 0, MAPPED),
        (17, 1, DENSE),
        (5, 0, WIDE),
    ],
)
def test_warps(cuda, used, parts, grid, absorber, velocity):
    """With one block and several, with pairs that fill warps and do not, with pivots row by row and alike."""
    parts *= velocity
    compare(
        cuda,
        atom(grid, absorber),
        Lanes(0, used - 1),
        32,
        ALL,
        True,
        velocity=velocity,
        parts=parts,
        warps=True,
    )


@pytest.mark.gpu
@pytest.mark.parametrize("velocity", [False, True], ids=["length", "velocity"])
def test_warps_of_other_m(cuda, velocity):
    compare(cuda, atom(DENSE), Lanes(-2, 6), 32, ALL, True, members=3, velocity=velocity, warps=True)


@pytest.mark.gpu
def test_counts_of_messages_go_round(cuda):
    """The count of steps passes the largest integer in the middle of a run."""
    lattice, lanes = atom(DENSE), Lanes(0, 4)
    phi, field = states(lanes, lattice.grid, 1), fields(lanes, 1)
    batch = CudaBatch(cuda, lattice, lanes, phi, field, Stepping(0.05))
    assert batch.shape.warps
    batch.made[0].base = 2**31 - 8
    for _ in range(2):
        batch.advance(6, np.array([6]))
    run = Propagator(lattice, lanes, phi[0], 0.05, velocity=False, field=field[0])
    run.advance(6)
    run.advance(6)
    np.testing.assert_allclose(batch.phi(0), run.phi, rtol=0, atol=ROUNDING * np.abs(run.phi).max())


@pytest.mark.gpu
def test_the_shape_of_the_device(cuda):
    lattice, lanes = atom(mapped(60.0, 0.2, 0.0125, 60.0)), Lanes(0, 20)
    phi, field = states(lanes, lattice.grid, 3), fields(lanes, 3)
    batch = CudaBatch(cuda, lattice, lanes, phi, field, Stepping(0.05))
    found = batch.advance(5, np.array([5]))
    for k in range(3):
        run = Propagator(lattice, lanes, phi[k], 0.05, velocity=False, field=field[k])
        run.advance(5)
        np.testing.assert_allclose(batch.phi(k), run.phi, rtol=0, atol=ROUNDING * np.abs(run.phi).max())
        np.testing.assert_allclose(found[k, 0], sums(run), rtol=0, atol=ROUNDING * np.abs(sums(run)).max())
    assert shape_of(cuda, 4000, 60, 1).chunks <= 4000 // ROWS


def test_tables_are_the_radial_step():
    """The recurrences with their tables, in plain NumPy, are a step without a field."""
    lattice, l = atom(MAPPED, "cap"), np.array([0, 1, 4])
    grid, dt = lattice.grid, 0.07
    lanes = Lanes(0, 4)
    run = Propagator(lattice, lanes, states(lanes, grid, 1)[0], dt, velocity=False, field=np.zeros_like)
    before = run.phi[l] * grid.slope
    run.advance(1)
    arrays = radial_arrays(lattice, lanes, dt, cap=True)
    alpha, beta, gain, keep = (
        one.T[lanes.order[l]] for one in radial_tables(*arrays, *kernels.pivots(*arrays))
    )
    down, up = before.copy(), before.copy()
    for j in range(1, grid.points):
        down[:, j] += alpha[:, j] * down[:, j - 1]
    for j in range(grid.points - 2, -1, -1):
        up[:, j] += beta[:, j] * up[:, j + 1]
    after = gain * (down + up - before) - keep * before
    np.testing.assert_allclose(after / grid.slope, run.phi[l], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("lanes", [Lanes(0, 5), Lanes(-2, 5), PlanarLanes((0,), 4), PlanarLanes((0, 1), 5)])
def test_families_are_disjoint_and_all_couplings(lanes):
    found = families_of(lanes)
    assert len(found.pairs) == (2 if isinstance(lanes, Lanes) else 4)
    for pairs, coupling, growth in zip(found.pairs, found.coupling, found.growth, strict=True):
        assert len(set(pairs.ravel().tolist())) == pairs.size
        l = lanes.momenta[pairs]
        np.testing.assert_array_equal(l[1], l[0] + 1)
        np.testing.assert_allclose(growth, coupling * (l[0] + 1))
    if isinstance(lanes, PlanarLanes):
        assert found.momenta is not None
        linked = {tuple(pair) for pair in lanes.links.pairs.tolist()}
        assert {tuple(pair) for pairs in found.pairs for pair in pairs.T.tolist()} == linked
        known = {tuple(p): c for p, c in zip(lanes.links.pairs.tolist(), lanes.links.coupling, strict=True)}
        for pairs, coupling in zip(found.pairs, found.coupling, strict=True):
            np.testing.assert_allclose([known[tuple(p)] for p in pairs.T.tolist()], coupling)
        np.testing.assert_array_equal(found.momenta[lanes.order], lanes.ms)


@pytest.mark.parametrize("members", [1, 2, 50, 200, 1000])
@pytest.mark.parametrize(("points", "lanes"), [(1, 2), (400, 22), (4000, 60), (2766, 600), (100_000, 402)])
@pytest.mark.parametrize("velocity", [False, True])
def test_shapes_fit_the_device(points, lanes, members, velocity):
    found = shape(points, lanes, members, 132, 232_448, velocity=velocity)
    assert found.rows % ROWS == 0
    assert found.padded >= points
    assert (found.chunks - 1) * found.rows < points
    # warps that wait for none: all members at once, one wave of warps or several of short chunks
    if found.strips:
        assert lanes // 2 + 1 <= 30 * found.strips + 2
        assert found.together == members
        assert found.rows <= 168
        return
    assert found.shared_bytes + 1024 <= 232_448
    resident = found.blocks == found.chunks
    if found.chunks > 1:  # blocks of a launch wait for each other: they must all be on the device at once
        each = 232_448 // (found.shared_bytes + 1024)
        if resident or velocity:
            each = 1
        if found.warps:
            assert found.warps_threads <= 256
            each = min(65_536 // (256 * found.warps_threads), 232_448 // (found.warps_bytes + 1024))
        assert found.together * found.blocks <= 132 * each


@pytest.mark.parametrize("lanes", [2, 22, 60, 64])
def test_single_runs_lie_in_registers(lanes):
    found = shape(4000, lanes, 1, 132, 232_448, velocity=True)
    assert found.warps
    assert found.warps_bytes + 1024 <= 232_448
    assert not shape(4000, lanes, 1, 132, 232_448, warps=False).warps
    each = min(65_536 // (256 * found.warps_threads), 232_448 // (found.warps_bytes + 2048))
    assert each >= (2 if lanes <= 32 else 1)
    most = 32 * 132 * each
    assert shape(most, lanes, 1, 132, 232_448).warps
    assert not shape(most + 1, lanes, 1, 132, 232_448).warps


def test_many_small_runs_share_the_device():
    """As many at once as find registers and shared memory; a run is not slower than one by itself but for what they share."""
    found = shape(856, 22, 132, 132, 232_448, velocity=True)
    assert (found.warps, found.warps_threads, found.chunks, found.together) == (True, 96, 27, 9)
    assert shape(30, 22, 500, 132, 232_448).together == 500  # blocks that wait for none


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=12))
def test_who_is_waited_for_waits_as_well(felt):
    reach = np.minimum(np.array(felt).T, [np.arange(len(felt)), np.arange(len(felt))[::-1]]).astype(np.int32)
    waits = waits_of(reach)
    assert (waits >= reach).all()
    for chunk, (before, after) in enumerate(waits.T):
        assert all(waits[1, chunk - d] >= d for d in range(1, before + 1))
        assert all(waits[0, chunk + d] >= d for d in range(1, after + 1))
    alone = np.zeros((2, 5), np.int32)
    np.testing.assert_array_equal(waits_of(alone), alone)


def test_too_many_channels():
    """In a plane; along z warps share them."""
    with pytest.raises(DeviceError, match="9000 channels do not fit"):
        shape(100, 9000, 1, 132, 232_448, warps=False)
    assert shape(100, 9000, 1, 132, 232_448).strips == 150


def cayley_matrix(slope, k):
    """``M1 + k D / r'`` of a Cayley step of velocity gauge, with the corners of the first and the last row."""
    n, corner = slope.size, 3.0**0.5 - 2.0
    out = np.diag(np.full(n, 4.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    out[0, 0] = out[-1, -1] = 4.0 + corner
    out /= 6.0
    out += k * (np.diag(1.0 / slope[1:], 1) - np.diag(1.0 / slope[:-1], -1))
    out[0, 0] += corner * k / slope[0]
    out[-1, -1] -= corner * k / slope[-1]
    return out


@pytest.mark.parametrize(
    "size", [1e-4, 0.3, 2.0]
)  # g / r' at the nucleus: A dt from weak to where steps are made in parts
@pytest.mark.parametrize("grid", [mapped(30.0, 0.4, 0.05, 10.0), LONG], ids=["mapped", "uniform"])
def test_what_is_felt_of_other_rows(grid, size):
    """Inverse pivots from the rows that are told, and products of recurrences over these, against whole matrices."""
    strongest, rows, n = 0.577, 16, grid.points
    g = size * grid.slope[0]
    found = CudaShape(n, 22, rows, -(-n // rows), -(-n // rows), 64, 1, True, True)
    mixing = Mixing(select("cpu")[0], found, grid.r, grid.slope, strongest, np.zeros((0, 22)), 1)
    before, after, warm = mixing.felt(g)[0]
    assert (warm < 0).any() == (grid.slope[0] == grid.slope[-1])  # closed form within a uniform grid only
    for k in (0.25 * g * strongest, -0.25 * g * strongest):
        matrix = cayley_matrix(grid.slope, k)
        inverse = np.array([np.linalg.inv(matrix[: j + 1, : j + 1])[-1, -1] for j in range(n)])
        back = np.array([np.linalg.inv(matrix[j:, j:])[0, 0] for j in range(n)])
        for c in range(found.chunks):
            first, end = c * rows, min((c + 1) * rows, n)
            if warm[c] < 0:
                closed = 1.0 / (1.0 / 3.0 + np.hypot(k / grid.slope[first], 12.0**-0.5))
                np.testing.assert_allclose(inverse[first:end], closed, rtol=ROUNDING / 10)
                np.testing.assert_allclose(back[first:end], closed, rtol=ROUNDING / 10)
                continue
            for j in range(first, end, ROWS):
                low, high = max(j - 1 - warm[c], 0), min(j + 1 + warm[c], n)
                if j > 0:
                    own = np.linalg.inv(matrix[low:j, low:j])[-1, -1]
                    assert own == pytest.approx(inverse[j - 1], rel=ROUNDING / 10)
                own = np.linalg.inv(matrix[j:high, j:high])[0, 0]
                assert own == pytest.approx(back[j], rel=ROUNDING / 10)
        down = np.abs(np.diag(matrix, -1) * inverse[:-1])  # of a sum that goes on to the next row
        up = np.abs(np.diag(matrix, 1) * back[1:])
        for c in range(found.chunks):
            low, high = c * rows - before[c] * ROWS, (c + 1) * rows + after[c] * ROWS
            if low > 0:
                assert np.prod(down[low : c * rows]) <= FELT
            if high < n:
                assert np.prod(up[(c + 1) * rows - 1 : high - 1]) <= FELT


def listed(ends, middle, samples, masked):
    """The parts of steps in velocity gauge along z, one after the other: kind, action, sample, g."""
    steps = len(middle)
    found = [(0, 0, samples[0], 0.5 * ends[0])] if steps else []
    action, sample = 0, -1 if steps else samples[0]
    for k in range(steps):
        found += [
            (1, action, sample, 0.5 * middle[k]),
            (RADIAL_STEP, 0, -1, 0.0),
            (1, 0, -1, 0.5 * middle[k]),
        ]
        action, sample = CLEAR + MASK * masked, samples[k + 1]
        if k + 1 == steps:
            found.append((0, 0, -1, 0.5 * ends[k + 1]))
        elif masked or sample >= 0:
            found += [(0, 0, -1, 0.5 * ends[k + 1]), (0, action, sample, 0.5 * ends[k + 1])]
            action, sample = 0, -1
        else:
            found.append((0, 0, -1, ends[k + 1]))
    found.append((NOTHING, action, sample, 0.0))
    turning = [k for k, part in enumerate(found) if part[0] >= 0]
    for before, k in itertools.pairwise(turning):
        kind, action, sample, g = found[k]
        changed = (kind, g) != (found[before][0], found[before][3])
        found[k] = (kind, action + CHANGES * changed, sample, g)
    return found


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_parts_of_steps(steps, masked):
    rng = np.random.default_rng(steps)
    ends, middle = rng.normal(size=(2, steps + 1)), rng.normal(size=(2, steps))
    for samples in (
        np.full(steps + 1, -1),
        np.arange(steps + 1),
        np.where(np.arange(steps + 1) % 3 == 0, 5, -1),
    ):
        kinds, actions, places, moves = operations((ends, middle), samples.astype(np.int32), masked=masked)
        after_radial = actions[1:][kinds[:-1] == RADIAL_STEP]
        assert not (after_radial & CHANGES).any(), "kernels keep the numbers of pairs over a radial step"
        for k in range(2):
            rows = list(zip(kinds, actions, places, moves[k, :, 0], strict=True))
            assert rows == listed(ends[k], middle[k], samples, masked)

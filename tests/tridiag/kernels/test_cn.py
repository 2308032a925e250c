"""Crank-Nicolson steps on overlapping chunks: LAPACK = CPU twin = CUDA.

Tolerances.  ``T = M (1 + i tau H)`` has a condition number of at most ``3/2 (1 + tau |H|)``, and its factors do not grow: N steps
leave an error of about ``eps N (1 + tau |H|)`` times the largest element, in the kernel and in the oracle alike.
psi keeps its norm, so that errors of earlier steps do not grow.
"""

from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
import pytest
from scipy.linalg import solve_banded

from qsim.core.device import pool
from qsim.core.device.device import Device, cpu
from qsim.tridiag.kernels.crank_nicolson.steps import Operator, Shape, cn_steps, sample_slots, shared_bytes
from qsim.tridiag.propagate.lattice import Lattice, bands, mass, step_table
from qsim.tridiag.propagate.stepping.halo import halo
from tests.pairs import pairwise

ROUNDING = 8.0  # of the bound above; at most 2.5 was seen on a CPU
STENCILS = ["three_point", "numerov"]
ABSORBERS = ["none", "cap", "mask"]
FIELDS = ["none", "length", "velocity", "both"]
SIZES = [1, 2, 3, 7, 8, 9, 16, 17, 31, 63, 64, 65, 97, 251]
ROWS = 11  # rows a thread on CUDA


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def shaped(device, chunk, reach, steps=32, rows=ROWS):
    """Return a shape of any chunk and halo; on CUDA with as few threads as hold them."""
    if not device.is_cuda:
        return Shape(chunk, reach, steps)
    threads = -(-(chunk + 2 * reach) // (rows * 32)) * 32
    return Shape(chunk, reach, steps, rows, threads, max(threads, 256), 1)  # few sizes: each is compiled


@dataclass
class Case:
    """A lattice with everything in it, and fields of some steps."""

    lattice: Lattice
    dt: float
    electric: np.ndarray | None
    vector: np.ndarray | None
    psi: np.ndarray

    @classmethod
    def make(cls, n, stencil="three_point", absorber="none", field="none", steps=5, dx=0.2, dt=0.05, seed=1):
        generator = np.random.default_rng([seed, n, steps])
        xmin = -0.6 * dx * n
        x = xmin + dx * np.arange(n)
        potential = -1 / np.sqrt(x**2 + 2) + 0.3 * generator.standard_normal(n)
        lattice = Lattice(
            xmin,
            dx,
            n,
            stencil,
            potential,
            slope=generator.standard_normal(n),
            cap=0.5 * generator.random(n) if absorber == "cap" else None,
            mask=1 - 0.1 * generator.random(n) if absorber == "mask" else None,
        )
        return cls(
            lattice,
            dt,
            0.1 * generator.standard_normal(steps) if field in ("length", "both") else None,
            generator.standard_normal(steps) if field in ("velocity", "both") else None,
            generator.standard_normal(n) + 1j * generator.standard_normal(n),
        )

    @property
    def steps(self):
        return next((len(f) for f in (self.electric, self.vector) if f is not None), 5)

    def table(self):
        return step_table(self.lattice, self.dt, self.electric, self.vector, self.steps)

    def operator(self, device, real=np.float64):
        def put(array):
            return None if array is None else device.asarray(np.ascontiguousarray(array, real))

        lattice = self.lattice
        return Operator(
            put(lattice.potential),
            put(lattice.cap if lattice.cap is not None else lattice.mask),
            put(lattice.slope),
            1 if lattice.cap is not None else 2 if lattice.mask is not None else 0,
            lattice.stencil == "numerov",
            self.vector is not None,
            lattice.xmin,
            lattice.dx,
            self.dt,
        )

    def run(self, device, shape, every=0, kind=np.complex128):
        """Return psi after all steps, and samples (steps // every, 3)."""
        real = np.empty(0, kind).real.dtype
        inner = real if device.is_cuda else np.dtype(float)  # the twin computes in double
        psi = device.asarray(self.psi.astype(kind))
        out = device.asarray(np.full(len(self.psi), np.nan, kind))
        count = self.steps // every if every else 1
        slots = sample_slots(device, shape, len(self.psi))
        sums = device.asarray(np.full((count, slots, 3), np.nan, inner))
        table = device.asarray(self.table().astype(inner))
        cn_steps(device, self.operator(device, inner), psi, out, table, shape, every, sums)
        np.testing.assert_array_equal(device.to_host(psi), self.psi.astype(kind))
        if not every:
            assert np.isnan(device.to_host(sums)).all()
        assert out.dtype == kind
        return device.to_host(out), np.asarray(device.to_host(sums), float).sum(axis=1)

    def oracle(self, psi=None):
        """Return psi after every step (steps, n), by LAPACK."""
        psi, found = self.psi if psi is None else psi, []
        for step in range(self.steps):
            e, a = (0.0 if f is None else f[step] for f in (self.electric, self.vector))
            lower, main, upper = bands(self.lattice, self.dt, e, a)
            right = mass(self.lattice, psi, a)
            if len(psi) == 1:
                y = right / main
            else:
                ab = np.zeros((3, len(psi)), complex)
                ab[0, 1:], ab[1], ab[2, :-1] = upper[:-1], main, lower[1:]
                y = solve_banded((1, 1), ab, right)
            psi = 2 * y - psi
            if self.lattice.mask is not None:
                psi = self.lattice.mask * psi
            found.append(psi)
        return np.array(found)

    def tolerance(self, kind=np.complex128):
        lattice = self.lattice
        potential = abs(lattice.potential).max()
        if self.electric is not None:
            potential += abs(self.electric).max() * abs(lattice.x).max()
        if self.vector is not None:
            potential += 0.5 * (self.vector**2).max() + abs(self.vector).max() / lattice.dx
        stiffness = 0.5 * self.dt * (potential + 3.0 / lattice.dx**2)
        return ROUNDING * np.finfo(kind).eps * self.steps * (1 + stiffness) * abs(self.psi).max()


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


# -------------------------------------------------------------------------------------- one large chunk


@pytest.mark.parametrize(("stencil", "absorber", "field"), pairwise(STENCILS, ABSORBERS, FIELDS))
def test_whole_grids(device, stencil, absorber, field):
    for n in SIZES:
        case = Case.make(n, stencil, absorber, field)
        found, _sums = case.run(device, shaped(device, n, 0))
        close(found, case.oracle()[-1], case.tolerance())


@pytest.mark.parametrize("stencil", STENCILS)
@pytest.mark.parametrize("ratio", [1e-4, 1.0, 1e3, 1e6])
def test_steps_of_any_length(device, stencil, ratio):
    """dt/dx^2 from almost the identity to almost a reflection; the largest potentials make V or the kinetic part resonant."""
    for depth in (0.0, -1.0, -2.0, 30.0):
        case = Case.make(200, stencil, "cap", "length", dt=0.04 * ratio)
        case.lattice.potential[:] += depth / case.lattice.dx**2
        found, _sums = case.run(device, shaped(device, 200, 0))
        close(found, case.oracle()[-1], case.tolerance())


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [7, 11, 13])
@pytest.mark.parametrize("n", [1, 12, 351, 352, 353, 1000, 1700])
def test_rows_a_thread(cuda, rows, n):
    for stencil in STENCILS:
        case = Case.make(n, stencil, "cap", "velocity")
        found, _sums = case.run(cuda, shaped(cuda, n, 0, rows=rows))
        close(found, case.oracle()[-1], case.tolerance())


def test_stretches_of_the_table_follow_each_other(device):
    """Eleven steps are four and then seven: nothing is carried over but psi."""
    case = Case.make(100, "numerov", "mask", "both", steps=11)
    whole = case.run(device, shaped(device, 100, 0))[0]
    first = replace(case, electric=case.electric[:4], vector=case.vector[:4])
    middle = first.run(device, shaped(device, 100, 0))[0]
    second = replace(case, electric=case.electric[4:], vector=case.vector[4:], psi=middle)
    np.testing.assert_array_equal(second.run(device, shaped(device, 100, 0))[0], whole)


@pytest.mark.parametrize("stencil", STENCILS)
def test_the_norm_of_a_step(device, stencil):
    """Kept without absorber (both Hamiltonians are Hermitian); smaller with one."""
    weight = {}
    for absorber in ABSORBERS:
        case = Case.make(151, stencil, absorber, "both", steps=7)
        found, _sums = case.run(device, shaped(device, 151, 0))
        weight[absorber] = (abs(found) ** 2).sum() / (abs(case.psi) ** 2).sum()
    assert abs(weight["none"] - 1) < 1e-14 * 7
    assert weight["cap"] < 0.99
    assert weight["mask"] < 0.99


def test_a_constant_vector_potential_is_a_phase(device):
    """Numerov: the velocity gauge is the exact image of the lattice without field under exp(-i A x)."""
    still = Case.make(180, "numerov", "cap", "none")
    a, x = 0.7, still.lattice.x
    moving = replace(still, vector=np.full(5, a), psi=np.exp(-1j * a * x) * still.psi)
    found = moving.run(device, shaped(device, 180, 0))[0]
    close(found, np.exp(-1j * a * x) * still.run(device, shaped(device, 180, 0))[0], still.tolerance())


# ------------------------------------------------------------------------------------------- chunks


@pytest.mark.parametrize("stencil", STENCILS)
@pytest.mark.parametrize("chunk", [1, 2, 5, 16, 31, 32, 83, 125, 126, 250, 251, 252])
def test_chunks_that_see_the_whole_grid(device, stencil, chunk):
    """Halos as long as the grid: any cut gives the same numbers, on CPUs to the last bit."""
    case = Case.make(251, stencil, "cap", "both")
    expected = case.run(device, shaped(device, 251, 0))[0]
    found = case.run(device, shaped(device, chunk, 251))[0]
    close(found, expected, case.tolerance())
    if not device.is_cuda:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("stencil", "absorber", "field"), pairwise(STENCILS, ABSORBERS, FIELDS))
def test_chunks_with_halos(device, stencil, absorber, field):
    """Twelve steps, halos by their decay; n around whole numbers of chunks, groups of lanes, and of chunks and halos."""
    dx, dt, steps = 0.4, 0.04, 12
    reach = int(1.1 * halo(stencil, dx, dt, steps, (-2.0, 0.0, 20.0), 1e-15))
    chunk = 20
    edges = [chunk, 2 * chunk, 8 * chunk, 9 * chunk, 16 * chunk, chunk + reach, chunk + 2 * reach]
    for n in sorted({edge + off for edge in edges for off in (-1, 0, 1)}):
        case = Case.make(n, stencil, absorber, field, steps, dx, dt)
        found = case.run(device, shaped(device, chunk, reach))[0]
        close(found, case.oracle()[-1], 1e-13)


@pytest.mark.parametrize("stencil", STENCILS)
def test_short_halos_are_seen(device, stencil):
    """The halo counts: with half of it the error is far above rounding, so that the test above can fail."""
    dx, dt, steps = 0.4, 0.04, 12
    reach = halo(stencil, dx, dt, steps, (-2.0, 0.0, 20.0), 1e-15)
    case = Case.make(311, stencil, "none", "none", steps, dx, dt)
    case = replace(case, electric=np.zeros(steps))
    errors = [
        abs(case.run(device, shaped(device, 20, part))[0] - case.oracle()[-1]).max()
        for part in (reach // 4, reach // 2, reach)
    ]
    assert errors[0] > 1e-5
    assert errors[0] > 100 * errors[1]
    assert errors[1] > 1e-11
    assert errors[2] < 1e-13


@pytest.mark.parametrize("stencil", STENCILS)
def test_halos_have_their_length(device, stencil):
    """A NaN in the last row of a halo is seen in every row of the chunk, one row further it is not."""
    case = Case.make(300, stencil)
    shape = shaped(device, 20, 7)
    rows = slice(100, 120)
    for place, seen in ((92, False), (93, True), (126, True), (127, False)):
        psi = case.psi.copy()
        psi[place] = np.nan
        found = replace(case, psi=psi).run(device, shape)[0]
        if not device.is_cuda or place < 100:  # threads of CUDA hold some rows more than the shape says
            assert np.isnan(found[rows]).all() == np.isnan(found[rows]).any() == seen


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(pool, "PARALLEL_SIZE", 1)
    case = Case.make(1201, "numerov", "mask", "both")
    found = [case.run(Device("cpu", 0, "", threads), Shape(13, 40, 5), every=2) for threads in (1, 3)]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


# ------------------------------------------------------------------------------------------ samples


@pytest.mark.parametrize(
    ("every", "absorber"), list(zip([1, 2, 3, 7, 13, 14], cycle(ABSORBERS), strict=False))
)
def test_samples_are_sums_of_psi(device, absorber, every):
    """Also of the steps left over, and none if there are fewer steps than `every`."""
    shapes = ((97, 97, 0), (97, 12, 97), (96, 12, 97), (98, 49, 97), (3, 1, 3), (1, 1, 0), (311, 20, 60))
    for n, chunk, reach in shapes:
        case = Case.make(n, "numerov", absorber, "both", steps=13, dx=0.4, dt=0.04)
        _found, sums = case.run(device, shaped(device, chunk, reach), every=every)
        density = abs(case.oracle()[every - 1 :: every]) ** 2
        weights = np.array([np.ones(n), case.lattice.x, case.lattice.slope]).T
        bound = 2 * case.tolerance() * abs(case.psi).max() * n * (1 + abs(case.lattice.x).max())
        assert sums.shape == (13 // every, 3)
        close(sums, density @ weights, bound)


def test_samples_without_slope(device):
    case = Case.make(50, field="length")
    case = replace(case, lattice=replace(case.lattice, slope=None))
    _found, sums = case.run(device, shaped(device, 7, 50), every=1)
    np.testing.assert_array_equal(sums[:, 2], 0)
    assert (sums[:, 0] > 1).all()


def test_slots_of_samples():
    for n, chunk in ((1, 1), (64, 8), (65, 8), (300, 7)):
        shape = Shape(chunk, 3, 1)
        assert shape.chunks(n) == len(range(0, n, chunk))
        slots = sample_slots(cpu(1), shape, n)
        assert slots % 8 == 0
        assert shape.chunks(n) <= slots < shape.chunks(n) + 8


# ------------------------------------------------------------------------------------ single and CUDA


@pytest.mark.parametrize(("stencil", "absorber", "field"), pairwise(STENCILS, ABSORBERS, FIELDS))
def test_single_precision(device, stencil, absorber, field):
    for n in (1, 8, 65, 251):
        case = Case.make(n, stencil, absorber, field)
        found, sums = case.run(device, shaped(device, -(-n // 3), n), every=2, kind=np.complex64)
        expected = case.oracle(case.psi.astype(np.complex64).astype(complex))
        # the twin computes in double: what remains is the rounding of the result
        tolerance = case.tolerance(np.complex64) if device.is_cuda else 2e-7 * abs(case.psi).max()
        close(found, expected[-1], tolerance)
        norms = (abs(expected[1::2]) ** 2).sum(axis=1)
        np.testing.assert_allclose(sums[:, 0], norms, rtol=1e-4 if device.is_cuda else 1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize(("stencil", "absorber", "field"), pairwise(STENCILS, ABSORBERS, FIELDS))
def test_twins_agree(cuda, stencil, absorber, field):
    """Chunks of the size of a run, eight steps, samples: CPU against CUDA."""
    dx, dt, steps = 0.4, 0.04, 8
    reach = halo(stencil, dx, dt, steps, (-2.0, 0.0, 60.0), 1e-15) + 10
    case = Case.make(6007, stencil, absorber, field, steps, dx, dt)
    chunk = ROWS * 256 - 2 * reach
    psi, sums = case.run(cpu(1), Shape(chunk, reach, 8), every=3)
    other, sums_there = case.run(cuda, Shape(chunk, reach, 8, ROWS, 256, 256, 2), every=3)
    close(other, psi, case.tolerance())
    np.testing.assert_allclose(sums_there, sums, rtol=1e-11, atol=1e-9)


def test_shared_memory_of_a_block():
    """psi, V (and the absorber) of the rows; seven complex numbers a thread."""
    assert shared_bytes(11, 256, 8, False) == 11 * 256 * (16 + 8) + 7 * 256 * 16
    assert shared_bytes(11, 256, 4, True) == 11 * 256 * (8 + 4 + 4) + 7 * 256 * 8

"""Propagation by Crank-Nicolson passes: LAPACK steps, stored lattice results, orders of convergence, halos, and resumed runs.

Tolerances.  ``T = M (1 + i tau H)`` is well conditioned (``3/2 (1 + tau |H|)``, below 30 here): a step errs by some ten rounding
errors, N steps by at most N times that; 40 steps stay below 1e-13.  Entries L.. of ``reference_data/tridiag.json`` bring
their own.
"""

import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal, solve_banded
from scipy.linalg.lapack import zgtsv

from qsim.core.device.device import Device, cpu
from qsim.tridiag.kernels.crank_nicolson import steps_cpu as cn_cpu
from qsim.tridiag.kernels.crank_nicolson.steps import Shape
from qsim.tridiag.propagate.lattice import Lattice, apply_h, bands, energy, mass
from qsim.tridiag.propagate.stepping import halo as decay
from qsim.tridiag.propagate.stepping import propagator as propagation
from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping
from tests.pairs import pairwise

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "tridiag.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
STENCILS = ["three_point", "numerov"]
ABSORBERS = ["none", "cap", "mask"]
FIELDS = ["none", "length", "velocity"]
MODES = [
    {"mode": "auto"},
    {"mode": "local"},
    {"mode": "exact"},
    {"mode": "literal"},
    {"blocks": 7, "iterations": 1},
    {"blocks": 40, "iterations": 3},
    {"blocks": [100, 1, 2, 700, 86], "iterations": "auto"},
]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def soft_core(n, dx, stencil="three_point", absorber="none", centre=0.5):
    """Return a lattice with the soft-core atom at the middle, and quadratic strips of n/5 points at the walls."""
    xmin = -dx * (n - 1) * centre
    x = xmin + dx * np.arange(n)
    depth = np.maximum(0.0, np.abs(np.arange(n) - 0.5 * (n - 1)) / (0.2 * n) - 1.5)
    cap = 0.2 * depth**2 if absorber == "cap" else None
    mask = np.cos(depth) ** 0.125 if absorber == "mask" else None
    return Lattice(xmin, dx, n, stencil, -1 / np.sqrt(x**2 + 2), x * (x**2 + 2) ** -1.5, cap, mask)


def fields(kind, steps, seed=5):
    """Return electric field and vector potential of the steps, or None."""
    values = np.random.default_rng(seed).standard_normal(steps)
    return (0.02 * values if kind == "length" else None), (0.8 * values if kind == "velocity" else None)


def noise(n, seed=3):
    generator = np.random.default_rng([seed, n])
    return generator.standard_normal(n) + 1j * generator.standard_normal(n)


def lapack_steps(lattice, psi, dt, electric, vector, steps):
    """Return psi after every step (steps, n)."""
    found = []
    for step in range(steps):
        e, a = (0.0 if f is None else f[step] for f in (electric, vector))
        lower, main, upper = bands(lattice, dt, e, a)
        ab = np.zeros((3, len(psi)), complex)
        ab[0, 1:], ab[1], ab[2, :-1] = upper[:-1], main, lower[1:]
        psi = 2 * solve_banded((1, 1), ab, mass(lattice, psi, a)) - psi
        psi = psi if lattice.mask is None else psi * lattice.mask
        found.append(psi)
    return np.array(found)


def sums(lattice, psi):
    """Return the three samples of wavefunctions (m, n)."""
    return abs(psi) ** 2 @ np.array([np.ones(lattice.points), lattice.x, lattice.slope]).T * lattice.dx


def close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * abs(expected).max())


# -------------------------------------------------------------------------------------- the lattice


@pytest.mark.parametrize("stencil", STENCILS)
@pytest.mark.parametrize("gauge", FIELDS)
@pytest.mark.parametrize("n", [1, 2, 3, 25])
def test_bands_are_those_of_the_hamiltonian(stencil, gauge, n):
    """``T = M (1 + i tau (H - i W))`` with H and M built by hand: -D/2 and 1 + dx^2 D / 12, phases in velocity gauge."""
    lattice = replace(soft_core(n, 0.3, stencil, centre=0.3), cap=0.1 * np.arange(1.0, n + 1))
    e, a, dt = 0.4 * (gauge == "length"), 0.9 * (gauge == "velocity"), 0.07
    one, up, down = np.eye(n), np.eye(n, k=1), np.eye(n, k=-1)
    x = np.arange(n) * 0.3 - 0.3 * (n - 1) * 0.3
    potential = np.diag(-1 / np.sqrt(x**2 + 2) + e * x)
    if stencil == "three_point":
        m = one
        h = (2 * one - up - down) / (2 * 0.3**2) - 0.5j * a * (up - down) / 0.3 + 0.5 * a**2 * one
    else:
        phase = np.exp(0.3j * a)
        second = phase * up + np.conj(phase) * down - 2 * one
        m = one + second / 12
        h = -0.5 * np.linalg.solve(m, second) / 0.3**2
    h = h + potential
    np.testing.assert_allclose(h, h.conj().T, atol=1e-12)
    lower, main, upper = bands(lattice, dt, e, a)
    assert lower[0] == upper[-1] == 0
    t = np.diag(main) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    close(t, m @ (one + 0.5j * dt * (h - 1j * np.diag(lattice.cap))), 1e-14)
    psi = noise(n)
    for state in (psi, psi.real):
        close(apply_h(lattice, state, e, a), h @ state, 1e-13)
        close(mass(lattice, state, a), m @ state, 1e-14)
    free = (psi.conj() @ (h - e * np.diag(x)) @ psi).real
    np.testing.assert_allclose(energy(lattice, psi, a), free * 0.3, rtol=1e-12)


def test_the_inverse_mass_by_images():
    """The form used on GPUs: the same sum on the host, walls and phases included."""
    from qsim.tridiag.propagate.lattice import _images, _inverse_mass

    for n in (36, 37, 200):
        for a in (0.0, 1.3):
            phase = np.exp(1j * a)
            close(_images(noise(n), phase), _inverse_mass(noise(n), phase), 1e-14)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [8, 17, 18, 35, 36, 100])
def test_short_grids_on_the_device(n):
    """Images need 36 points; shorter grids (the coarse companions of a run) have an energy, too."""
    from qsim.core.device.device import select

    lattice = Lattice(-1.0, 0.3, n, "numerov", np.linspace(-1.0, 0.0, n))
    device, psi = select("cuda")[0], noise(n)
    for a in (0.0, 0.7):
        found = device.to_host(apply_h(lattice, device.asarray(psi), 0.0, a))
        close(found, apply_h(lattice, psi, 0.0, a), 1e-13)


# ------------------------------------------------------------------------------------- every mode


@pytest.mark.parametrize(
    ("stencil", "absorber", "field", "options"), pairwise(STENCILS, ABSORBERS, FIELDS, MODES), ids=str
)
def test_modes_agree_with_lapack(device, stencil, absorber, field, options):
    n, dt, steps, every = 889, 0.05, 40, 7
    lattice = soft_core(n, 0.2, stencil, absorber)
    electric, vector = fields(field, steps)
    propagator = Propagator(device, lattice, noise(n), dt, electric, vector, Stepping(**options))
    samples = propagator.advance(steps, every)
    expected = lapack_steps(lattice, noise(n), dt, electric, vector, steps)
    close(device.to_host(propagator.psi), expected[-1], 1e-13)
    close(samples, sums(lattice, expected[every - 1 :: every]), 1e-13)
    assert propagator.step == steps
    info = propagator.info()
    mode = options.get("mode", "literal")
    if mode == "auto":
        mode = "exact" if device.is_cuda else "local"  # a block of a GPU holds this grid
    assert info["algorithm"] == f"nshape-{mode}"
    assert (info["halo"] > 0) == (mode == "local")


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize("stencil", STENCILS)
def test_short_grids(device, n, stencil):
    lattice = soft_core(n, 0.5, stencil, "cap")
    electric, _ = fields("length", 33)
    for options in ({}, {"mode": "exact"}) + (({"mode": "literal"},) if n > 1 else ()):
        propagator = Propagator(device, lattice, noise(n), 0.1, electric, how=Stepping(**options))
        samples = propagator.advance(33, 5)
        if n == 1:
            _, main, _ = zip(*(bands(lattice, 0.1, e) for e in electric), strict=True)
            scale = 1.0 if stencil == "three_point" else 10 / 12
            expected = np.cumprod(2 * scale / np.array(main) - 1, axis=0) * noise(1)
        else:
            expected = lapack_steps(lattice, noise(n), 0.1, electric, None, 33)
        close(device.to_host(propagator.psi), expected[-1], 1e-13)
        close(samples, sums(lattice, expected[4::5]), 1e-13)


@pytest.mark.parametrize(
    ("every", "field"),
    list(zip([1, 3, 7, 31, 32, 33, 50, 64, 65, 99, 100, 101, 1000], cycle(FIELDS), strict=False)),
)
def test_samples_every_so_many_steps(device, field, every):
    """Fewer, as many and more than the steps of a pass, dividing the run or not: samples are the sums of psi then."""
    steps = 100
    lattice = soft_core(101, 0.3, absorber="mask")
    electric, vector = fields(field, steps)
    expected = lapack_steps(lattice, noise(101), 0.02, electric, vector, steps)
    for shape in (None, Shape(9, 101, 6)) if not device.is_cuda else (None,):
        propagator = Propagator(device, lattice, noise(101), 0.02, electric, vector, Stepping(shape=shape))
        samples = propagator.advance(steps, every)
        assert samples.shape == (steps // every, 3)
        close(device.to_host(propagator.psi), expected[-1], 1e-13)
        if len(samples):
            close(samples, sums(lattice, expected[every - 1 :: every]), 1e-13)


def test_samples_without_slope(device):
    lattice = replace(soft_core(600, 0.2), slope=None)
    for mode in ("auto", "exact", "literal"):
        samples = Propagator(device, lattice, noise(600), 0.02, how=Stepping(mode=mode)).advance(4, 2)
        np.testing.assert_array_equal(samples[:, 2], 0)
    other = Propagator(device, soft_core(600, 0.2), noise(600), 0.02, how=Stepping(slope=False)).advance(4, 2)
    np.testing.assert_array_equal(other[:, 2], 0)


@pytest.mark.parametrize("mode", ["auto", "exact", "literal"])
@pytest.mark.parametrize("absorber", ABSORBERS)
def test_single_precision(device, mode, absorber):
    """40 steps of some rounding errors each; psi stays single whatever is multiplied with it; chunks with shorter halos."""
    n, steps = 3001, 40
    lattice = soft_core(n, 0.2, absorber=absorber)
    electric, _ = fields("length", steps)
    one, two = (
        Propagator(device, lattice, noise(n), 0.05, electric, how=Stepping(precision, mode=mode))
        for precision in ("single", "double")
    )
    samples, expected = one.advance(steps, 10), two.advance(steps, 10)
    assert one.psi.dtype == np.complex64
    close(device.to_host(one.psi), device.to_host(two.psi), 2e-6)
    np.testing.assert_allclose(samples[:, 0], expected[:, 0], rtol=1e-5)
    if mode == "auto":
        assert one.mode == "local"
        assert one.shape.halo / one.shape.steps < two.shape.halo / two.shape.steps


def test_threads_and_chunks_do_not_matter():
    """Threads to the last bit with the same chunks; chunks, halos and steps a pass to rounding."""
    n, steps = 5003, 64
    lattice = soft_core(n, 0.2, "numerov", "cap")
    electric, _ = fields("length", steps)

    def run(threads, shape):
        propagator = Propagator(
            Device("cpu", 0, "", threads), lattice, noise(n), 0.02, electric, how=Stepping(shape=shape)
        )
        return propagator.advance(steps, 16), propagator.psi

    shape = Shape(100, 90, 8)
    one, many = run(1, shape), run(3, shape)
    np.testing.assert_array_equal(one[0], many[0])
    np.testing.assert_array_equal(one[1], many[1])
    for other in (Shape(313, 77, 4), Shape(1000, 200, 32), Shape(n, 0, 64), Shape(61, 60, 1), None):
        found = run(2, other)
        close(found[1], one[1], 1e-13)
        close(found[0], one[0], 1e-13)


def test_the_norm_does_not_drift(device):
    """10^4 steps without absorber.  Roundings walk randomly if E or A changes the diagonal; else every step makes the same."""
    for stencil, field in [(stencil, field) for stencil in STENCILS for field in FIELDS]:
        lattice = soft_core(64, 0.4, stencil)
        electric, vector = fields(field, 10_000)
        psi = noise(64)
        psi /= np.sqrt((abs(psi) ** 2).sum() * 0.4)
        samples = Propagator(device, lattice, psi, 0.1, electric, vector).advance(10_000, 100)
        changing = field == "length" or (field, stencil) == ("velocity", "three_point")
        assert abs(samples[:, 0] - 1).max() < (2e-13 if changing else 2e4 * np.finfo(float).eps), (
            stencil,
            field,
        )


def test_more_steps_than_fields_are_refused(device):
    electric, _ = fields("length", 50)
    for mode in ("auto", "exact", "literal"):
        propagator = Propagator(
            device, soft_core(700, 0.2), noise(700), 0.05, electric, how=Stepping(mode=mode)
        )
        propagator.advance(30, 1)
        with pytest.raises(ValueError, match="fields have 50 steps"):
            propagator.advance(21, 1)
        propagator.advance(20, 1)
        assert propagator.step == 50


def test_the_initial_state_is_not_written_to(device):
    for mode in ("auto", "exact", "literal"):
        psi = noise(700)
        Propagator(device, soft_core(700, 0.2), psi, 0.05, how=Stepping(mode=mode)).advance(40, 1)
        np.testing.assert_array_equal(psi, noise(700))


def test_two_absorbers_are_refused(device):
    lattice = replace(soft_core(50, 0.2, absorber="cap"), mask=np.ones(50))
    with pytest.raises(ValueError, match="not both"):
        Propagator(device, lattice, noise(50), 0.05)


# ------------------------------------------------------------------------------------------- halos

LATTICES = {
    "free": lambda x: 0.0 * x,
    "deep well": lambda x: -60.0 / np.cosh(x) ** 2,
    "steep step": lambda x: np.where(x < 0, -40.0, 30.0),
    "strong field": lambda x: 3.0 * x,
    "resonant": lambda x: 0.0 * x - 25.0,  # -1/dx^2: the diagonal of the kinetic part is compensated
    "wide range": lambda x: -6.0 * np.abs(x),
    "rough": lambda x: 50.0 * np.sin(37 * x),
}


@pytest.mark.parametrize(
    ("stencil", "name", "step"),
    pairwise(STENCILS, list(LATTICES), [(0.02, 1), (0.02, 8), (0.02, 32), (0.1, 1), (0.1, 16), (0.002, 32)]),
)
def test_halos_cover_what_a_point_does(stencil, name, step):
    """A unit amplitude, by exact steps on a long grid: beyond the halo less than the tolerance is left in any potential.

    Elimination only multiplies there, so that even tails far below the rounding error of 1 are right.  Halos are as short as
    1.02 times what these need; a Propagator adds 10 %, and tries the result.
    """
    n, dx = 3001, 0.2
    dt, steps = step
    x = dx * (np.arange(n) - n // 2)
    potential = LATTICES[name](np.clip(x, -25, 25))
    lattice = Lattice(x[0], dx, n, stencil, potential)
    values = decay.range_of_potential(potential.min(), potential.max(), dx)
    reach = decay.halo(stencil, dx, dt, steps, values, 1e-15)
    assert reach < n // 2
    psi = np.zeros(n, complex)
    for place in (n // 2, n // 2 + 3):
        psi[:] = np.arange(n) == place
        after = lapack_steps(lattice, psi, dt, None, None, steps)[-1]
        outside = abs(np.arange(n) - place) >= reach
        assert abs(after[outside]).sum() < 1e-15


def test_halos_of_the_reference_table():
    """Of a free lattice: never below the stored distance for tails of 1e-14, and at most 5 points or 5 % above."""
    entry = REFERENCES["H1_halo_table"]
    for s, row in entry["H"].items():
        for steps, distance in zip(entry["K"], row, strict=True):
            found = decay.halo("three_point", 0.1, 2 * float(s) * 0.01, steps, (0.0,), 1e-14)
            assert distance <= found <= distance * 1.05 + 5


@pytest.mark.parametrize("tolerance", [1e-3, 1e-7, 1e-9, 1e-11, 1e-12, 1e-13, 1e-15, 1e-18])
def test_halos_grow_with_the_digits(tolerance):
    """Between the tails of twice larger and smaller tolerance, measured or extrapolated; one step: tails are geometric."""
    dx, dt = 0.1, 0.02
    kappa = np.arccosh(1 - 1j / (dt / (2 * dx**2))).real
    amplitude = (
        abs(2 / (0.5j * dt / dx**2 * np.sinh(np.arccosh(1 - 1j)))) * 10
    )  # a tail is ten times its largest entry
    found = decay.halo("three_point", dx, dt, 1, (0.0,), tolerance)
    assert abs(found - np.log(amplitude / tolerance) / kappa) < 2


def test_strong_fields_widen_the_halo(device):
    """``V - x E`` swings by the strongest field times the farther wall; no trial has to lengthen the halo."""
    lattice = soft_core(2501, 0.2, centre=0.4)
    electric = np.array([0.1, -1.5, 0.3])
    propagator = Propagator(device, lattice, noise(2501), 0.02, electric, how=Stepping(mode="local"))
    swing = 1.5 * 0.2 * 2501 * 0.6
    found = propagator._potentials()
    assert max(found) == pytest.approx(lattice.potential.max() + swing, rel=0.02)
    assert min(found) == pytest.approx(lattice.potential.min() - swing, rel=0.02)
    assert propagator.margin == 1.1


def test_endless_halos():
    assert decay.halo("three_point", 0.01, 10.0, 32, (0.0,), 1e-15) == decay.POINTS // 4
    assert decay.halo("three_point", 0.001, 10.0, 1, (0.0,), 1e-6) == decay.POINTS // 4


def test_potentials_to_try():
    """The ends, zero, and the multiples of half the kinetic diagonal that lie between."""
    assert sorted(decay.range_of_potential(-60.0, 5.0, 0.25)) == [-60.0, -32.0, -24.0, -16.0, -8.0, 0.0, 5.0]
    assert sorted(decay.range_of_potential(-15.0, -1.0, 0.25)) == [-15.0, -8.0, -1.0]
    assert sorted(decay.range_of_potential(1.0, 2.0, 0.25)) == [1.0, 2.0]


# ---------------------------------------------------------------------------------- choice of the mode


@pytest.mark.parametrize("stencil", STENCILS)
def test_slow_decay_is_refused_or_done_exactly(device, stencil):
    n, dx, dt = 4001, 0.01, 5.0  # dt/(2 dx^2) = 25000
    lattice = soft_core(n, dx, stencil)
    with pytest.raises(ValueError, match="local needs an inverse that decays .* = 2.5e\\+04 is too large"):
        Propagator(device, lattice, noise(n), dt, how=Stepping(mode="local"))
    propagator = Propagator(device, lattice, noise(n), dt)
    assert propagator.mode == "exact"
    assert propagator.info()["algorithm"] == "nshape-exact"
    samples = propagator.advance(6, 4)
    expected = lapack_steps(lattice, noise(n), dt, None, None, 6)
    # condition number of T: dt/dx^2 = 5e4
    close(device.to_host(propagator.psi), expected[-1], 1e-10)
    close(samples, sums(lattice, expected[3::4]), 1e-10)


@pytest.mark.parametrize("error", [0.0, 0.5, 0.8])
def test_a_halo_too_short_is_found_out(device, monkeypatch, error):
    """If the estimate were wrong, the trial steps before the run would lengthen the halo, or give chunks up."""
    right = decay.halo

    def wrong(*arguments):
        return max(1, int((1 - error) * right(*arguments)))

    monkeypatch.setattr(propagation, "halo", wrong)
    n, steps = 3001, 32
    lattice = soft_core(n, 0.2)
    electric, _ = fields("length", steps)
    propagator = Propagator(device, lattice, noise(n), 0.05, electric)
    propagator.advance(steps, 8)
    expected = lapack_steps(lattice, noise(n), 0.05, electric, None, steps)[-1]
    close(device.to_host(propagator.psi), expected, 1e-12)
    assert (propagator.margin > 1.1) == (error > 0.2)
    assert (propagator.mode == "local") == (error < 0.7)


@pytest.mark.parametrize(("stencil", "field", "depth"), pairwise(STENCILS, FIELDS, [5.0, 60.0, 1000.0]))
def test_deep_wells_and_strong_fields(device, stencil, field, depth):
    """V, x E and A far from small on the lattice: whatever is chosen is right."""
    n, steps, dt = 2501, 40, 0.02
    lattice = soft_core(n, 0.2, stencil)
    lattice = replace(lattice, potential=-depth / np.cosh(lattice.x - 30) ** 2)
    electric, vector = fields(field, steps)
    electric = None if electric is None else 5 * electric
    vector = None if vector is None else 5 * vector
    propagator = Propagator(device, lattice, noise(n), dt, electric, vector)
    propagator.advance(steps, 9)
    expected = lapack_steps(lattice, noise(n), dt, electric, vector, steps)[-1]
    close(device.to_host(propagator.psi), expected, 2e-13)


# --------------------------------------------------------------------------------------- resumed runs


@pytest.mark.parametrize("mode", ["local", "exact", "literal"])
@pytest.mark.parametrize("field", FIELDS)
def test_resumed_runs_are_bit_identical(device, mode, field):
    lattice = soft_core(700, 0.2, "numerov", "cap")
    electric, vector = fields(field, 200)

    def new(psi):
        return Propagator(device, lattice, psi, 0.05, electric, vector, Stepping(mode=mode))

    whole = new(noise(700))
    samples = np.concatenate([whole.advance(100, 20), whole.advance(100, 20)])
    first = new(noise(700))
    begin = first.advance(100, 20)
    state = device.to_host(first.psi).copy()
    second = new(np.zeros(700))
    second.psi, second.step = device.asarray(state), 100
    end = second.advance(100, 20)
    np.testing.assert_array_equal(device.to_host(second.psi), device.to_host(whole.psi))
    np.testing.assert_array_equal(np.concatenate([begin, end]), samples)
    close(samples, new(noise(700)).advance(200, 20), 1e-12)  # other pieces: rounding


# ------------------------------------------------------------------------------------ stored results


def test_static_packet_of_the_reference(device):
    """L1: eigenvectors of the lattice and Cayley factors."""
    entry = REFERENCES["L1_cn_static"]
    lattice = soft_core(2001, 0.1)
    x, v = lattice.x, lattice.potential
    psi = np.exp(-((x + 20) ** 2) / 16 + 1.5j * x)
    psi /= np.sqrt((abs(psi) ** 2).sum() * 0.1)
    for options in ({}, {"mode": "exact"}, {"mode": "literal"}):
        propagator = Propagator(device, lattice, psi, 0.05, how=Stepping(**options))
        samples = propagator.advance(400, 200)
        found, values = device.to_host(propagator.psi), entry["values"]
        density = abs(found) ** 2 * 0.1
        mid, other = complex(*values["psi_mid"]), complex(*values["psi_1200"])
        pairs = [
            (samples[-1, 0], values["norm"]),
            (samples[-1, 1], values["x"]),
            (density @ x**2, values["x2"]),
            (density @ v, values["V"]),
            (density[x > 1e-9].sum() + density[1000] / 2, values["P_right"]),
            (energy(lattice, found), values["energy"]),
            (found[1000], mid),
            (found[1200], other),
        ]
        for mine, stored in pairs:
            assert abs(mine - stored) < entry["tol_rel"] * max(1.0, abs(stored))


def laser(dt, steps):
    """Return E and A at the midpoints of the four-cycle sin^2 pulse of L3, E0 = sqrt(1e14 / 3.50944758e16)."""
    w0, e0 = 45.563352529 / 800, np.sqrt(1e14 / 3.50944758e16)
    duration = 8 * np.pi / w0
    t = dt * (np.arange(steps) + 0.5)
    u, phase = np.pi * t / duration, w0 * (t - duration / 2)
    a = e0 / w0 * np.sin(u) ** 2 * np.sin(phase)
    rate = np.pi / duration * np.sin(2 * u) * np.sin(phase) + w0 * np.sin(u) ** 2 * np.cos(phase)
    return -e0 / w0 * rate, a


def levels(lattice, count):
    """Eigenstates of the three-point lattice by LAPACK, sum phi^2 dx = 1."""
    off = np.full(lattice.points - 1, -0.5 / lattice.dx**2)
    found = eigh_tridiagonal(
        lattice.potential + lattice.dx**-2, off, select="i", select_range=(0, count - 1)
    )[1]
    return found / np.sqrt(lattice.dx)


@pytest.mark.parametrize("name", ["L3_sin2_length_lattice", "L5_sin2_cap_lattice"])
def test_laser_pulses_of_the_reference(device, name):
    entry, dx = REFERENCES[name], 0.2
    values, tolerance = entry["values"], entry["tol_rel"]
    n, dt, steps = values["n"], values["dt"], values["steps"]
    lattice = soft_core(n, dx)
    if "cap" in name:
        lattice = replace(lattice, cap=1e-4 * np.maximum(0.0, abs(lattice.x) - 150) ** 2)
    states = levels(lattice, 6)
    electric, _ = laser(dt, steps)
    propagator = Propagator(device, lattice, states[:, 0].astype(complex), dt, electric)
    assert propagator.mode == ("exact" if device.is_cuda and n < 2500 else "local")
    for samples, (time, norm, x, acceleration) in zip(
        propagator.advance(steps, steps // 4), values["trace_t_norm_x_acc"], strict=True
    ):
        np.testing.assert_allclose(samples[0], norm, rtol=tolerance)
        np.testing.assert_allclose(samples[1], x, rtol=tolerance)
        if time == values["trace_t_norm_x_acc"][-1][0]:  # E vanishes at the end of the pulse
            np.testing.assert_allclose(-samples[2], acceleration, rtol=1e-7)
    psi = device.to_host(propagator.psi)
    populations = abs(states.T @ psi * dx) ** 2
    np.testing.assert_allclose(populations, values["pops0_5"], rtol=tolerance)
    for radius in (20, 50):
        weight = np.clip(radius - abs(lattice.x) + dx / 2, 0, dx)  # half for points on the edge
        np.testing.assert_allclose(weight @ abs(psi) ** 2, values[f"n{radius}"], rtol=tolerance)


def test_velocity_gauge_against_lapack(device):
    """The pulse of L3 on a small box, bands written out here and solved by zgtsv: three-point, p A as central difference."""
    n, dx, steps = 801, 0.25, 1000
    dt = 8 * np.pi / (45.563352529 / 800) / steps
    lattice = soft_core(n, dx)
    start = levels(lattice, 1)[:, 0].astype(complex)
    _, vector = laser(dt, steps)
    psi = start
    for a in vector:
        main = 1 + 0.5j * dt * (dx**-2 + lattice.potential + a**2 / 2)
        upper = np.full(n - 1, 0.5j * dt * (-0.5 / dx**2 - 0.5j * a / dx))
        lower = np.full(n - 1, 0.5j * dt * (-0.5 / dx**2 + 0.5j * a / dx))
        *_, y, info = zgtsv(lower, main, upper, psi)
        assert info == 0
        psi = 2 * y - psi
    propagator = Propagator(device, lattice, start, dt, None, vector)
    propagator.advance(steps, 100)
    close(device.to_host(propagator.psi), psi, 1e-11)


@pytest.mark.parametrize("stencil", STENCILS)
def test_gauges_agree(device, stencil):
    """Density after a pulse with A = 0 at both ends: different by the errors of the step, dt^2, and of A dx, dx^2 or dx^4."""
    n, dx, steps, peak = 481, 0.25, 4000, 0.5
    duration = 40.0
    t = duration * (np.arange(steps) + 0.5) / steps
    angle = np.pi * t / duration
    sine, cosine = np.sin(6 * angle), np.cos(6 * angle)
    vector = peak * np.sin(angle) ** 2 * sine
    electric = -peak * np.pi / duration * (np.sin(2 * angle) * sine + 6 * np.sin(angle) ** 2 * cosine)
    lattice = soft_core(n, dx, stencil)
    start = levels(lattice, 1)[:, 0].astype(complex)
    found = []
    for pair in ((electric, None), (None, vector)):
        propagator = Propagator(device, lattice, start, duration / steps, *pair)
        propagator.advance(steps, steps)
        found.append(abs(device.to_host(propagator.psi)) ** 2)
    assert abs(found[0] - found[1]).sum() * dx < (5e-3 if stencil == "three_point" else 5e-5)
    assert abs(found[0] - abs(start) ** 2).sum() * dx > 0.1  # something has happened


# ---------------------------------------------------------------------------------- orders of convergence


def packet(x):
    return np.exp(-((x + 2.0) ** 2) / 2 + 0.5j * x) / np.pi**0.25


@pytest.mark.parametrize("stencil", STENCILS)
def test_second_order_in_dt(stencil):
    """Against exp(-i H t) of the same lattice, with E(t) = 0.3 t at midpoints against a run of much shorter steps."""
    n, dx, t = 161, 0.125, 2.0
    lattice = soft_core(n, dx, stencil)

    def run(steps, slope):
        dt = t / steps
        propagator = Propagator(cpu(1), lattice, packet(lattice.x), dt, slope * dt * (np.arange(steps) + 0.5))
        propagator.advance(steps, steps)
        return propagator.psi

    h = np.array([apply_h(lattice, column.astype(complex)) for column in np.eye(n)]).T
    values, states = np.linalg.eigh(h)
    exact = {0.0: states @ (np.exp(-1j * t * values) * (states.conj().T @ packet(lattice.x)))}
    exact[0.3] = run(8000, 0.3)
    for slope in (0.0, 0.3):
        one, two = (abs(run(steps, slope) - exact[slope]).max() for steps in (100, 200))
        assert 3.7 < one / two < 4.2
        assert two < 0.02


@pytest.mark.parametrize(("stencil", "order"), [("three_point", 2), ("numerov", 4)])
@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_orders_in_dx(stencil, order, gauge):
    """The same time steps on finer and finer grids: differences fall by 2^order."""
    steps, dt = 40, 0.02
    drive = np.sin(np.arange(steps) / 7)
    found = []
    for refine in (1, 2, 4):
        n, dx = 80 * refine + 1, 0.25 / refine
        lattice = soft_core(n, dx, stencil)
        pair = (0.2 * drive, None) if gauge == "length" else (None, 0.5 * drive)
        propagator = Propagator(cpu(1), lattice, packet(lattice.x), dt, *pair)
        propagator.advance(steps, steps)
        found.append(propagator.psi[::refine])
    coarse, fine = abs(found[0] - found[1]).max(), abs(found[1] - found[2]).max()
    assert abs(np.log2(coarse / fine) - order) < 0.25


@pytest.mark.parametrize(("dx", "whole"), [(0.0018, True), (0.0045, False), (0.02, False)])
def test_the_plan_knows_which_grids_are_propagated_whole(dx, whole):
    """Small spacings against the time step: no halo is wide enough, and a step of the whole grid takes three times the memory."""
    points = 80_000
    x = (np.arange(points) - points // 2) * dx
    lattice = Lattice(x[0], dx, points, "numerov", -1.0 / np.sqrt(x * x + 2.0))
    propagator = Propagator(cpu(2), lattice, np.exp(-x * x / 4.0) + 0j, 0.1)
    assert (propagator.shape.halo == 0) == whole
    assert decay.chunks_pay(points, "numerov", dx, 0.1) != whole
    assert decay.LANES == cn_cpu.LANES

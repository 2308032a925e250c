"""Potentials, eigenstates, initial states, absorbers and spectra of tridiag, against analytic results and references."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.core.physics.integrals import running_integral
from qsim.tridiag.deck.electron import Absorber, Initial
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.potentials import Potential
from qsim.tridiag.propagate import initial, photoelectrons
from qsim.tridiag.propagate.eigenstates import Pencil, eigenstates, imaginary_time, window_states
from qsim.tridiag.propagate.lattice import Lattice
from qsim.tridiag.tdse import absorbers, harmonics, potentials
from qsim.tridiag.tdse.pulses import LaserField

REFERENCE = {
    entry["id"]: entry
    for entry in json.loads(
        (Path(__file__).parents[1] / "reference_data" / "tridiag.json").read_text(encoding="utf-8")
    )["references"]
}
W0 = 45.563352529 / 800
E0 = math.sqrt(1e14 / 3.50944758e16)


def block(kind, **keys):
    return TypeAdapter(kind).validate_python(keys)


def grid(half, dx):
    n = round(2 * half / dx) + 1
    return -half + dx * np.arange(n)


def softcore(x):
    return -1.0 / np.sqrt(x * x + 2.0)


# ------------------------------------------------------------------------------------------ potentials

POTENTIALS = [
    {"type": "softcore", "Z": 1.5, "a2": 1.2, "x0": 0.4},
    {"type": "morse", "D": 0.2, "beta": 0.7, "r0": -1.0},
    {"type": "harmonic", "omega": 0.3, "x0": 0.5},
    {"type": "square_well", "depth": 0.7, "width": 3.0, "edge": 0.4, "x0": 0.1},
    {"type": "gaussian_well", "depth": 0.6, "width": 1.3},
    {"type": "poschl_teller", "depth": 1.0, "a": 0.9},
    {"type": "eckart", "V0": 0.8, "a": 1.1, "x0": -0.2},
    {"type": "double_well", "lambda": 0.02, "a": 3.0},
    {"type": "yukawa", "Z": 1.0, "range": 4.0, "a2": 1.0},
    {"type": "polynomial", "coefficients": [0.1, 0.0, -0.25, 0.01, 0.02]},
    {"type": "none"},
    {
        "type": "expression",
        "value": "x^4/64 - abs(x)^3/90 + sech(x)*erf(x/2) + atan2(x, 3) - exp(-x^2)/sqrt(x^2 + 2) + tanh(x)",
    },
    {
        "type": "expression",
        "value": "2^(-x/4) + log(x^2 + 1) + max(x/10, sin(x)) + log10(3 + cos(x)) + acos(x/20)",
    },
]


@pytest.mark.parametrize("keys", POTENTIALS, ids=lambda keys: keys["type"])
def test_slopes_are_the_derivatives_of_the_potentials(keys):
    pot, x, h = block(Potential, **keys), np.linspace(-6.0, 6.0, 1201) + 0.0017, 1e-3
    one, two = (potentials.evaluate(pot, x + s * h) - potentials.evaluate(pot, x - s * h) for s in (1, 2))
    difference = (8 * one - two) / (12 * h)
    slope = potentials.slope(pot, x)
    smooth = np.abs(slope - difference) < 1e-9 * (1 + np.abs(slope))
    assert np.count_nonzero(~smooth) <= (4 if keys["type"] == "expression" else 0)  # the kinks of max


def test_potentials_have_their_textbook_values():
    x = np.array([-2.0, 0.0, 1.0])
    assert potentials.evaluate(block(Potential, type="softcore"), x)[1] == pytest.approx(-1 / math.sqrt(2))
    assert potentials.evaluate(block(Potential, type="morse", D=0.2, a=1.0, x0=0.0), x)[1] == pytest.approx(
        -0.2
    )
    assert list(potentials.evaluate(block(Potential, type="square_well", V0=0.5, width=2.0), x)) == [
        0,
        -0.5,
        -0.25,
    ]
    assert potentials.evaluate(block(Potential, type="double_well", **{"lambda": 0.5}, a=1.0), x)[2] == 0.0
    assert np.all(potentials.evaluate(block(Potential, type="free"), x) == 0.0)


def test_tables_follow_their_spline(tmp_path):
    x = np.linspace(-5, 5, 201)
    (tmp_path / "v.csv").write_text("x,V\n" + "\n".join(f"{a},{math.sin(a)}" for a in x), encoding="utf-8")
    pot, fine = block(Potential, type="table", file=tmp_path / "v.csv"), np.linspace(-4, 4, 77)
    assert np.allclose(potentials.evaluate(pot, fine), np.sin(fine), atol=1e-7)
    assert np.allclose(potentials.slope(pot, fine), np.cos(fine), atol=1e-5)
    with pytest.raises(InvalidInput, match=r"covers \[-5, 5\] bohr, the grid needs \[-6, 6\]"):
        potentials.evaluate(pot, np.linspace(-6, 6, 20))
    (tmp_path / "bad.csv").write_text("1 2\n2 x\n", encoding="utf-8")
    with pytest.raises(FileError, match=r"bad.csv:2: 'x' is not a finite number"):
        potentials.evaluate(block(Potential, type="table", file=tmp_path / "bad.csv"), fine)


@pytest.mark.parametrize(
    ("value", "message"),
    [("1/x", "not finite|inf"), ("exp(x^2)", "too large"), ("sqrt(x)", "not finite|nan")],
)
def test_potentials_must_be_finite(value, message):
    with pytest.raises(InvalidInput, match=message):
        potentials.evaluate(block(Potential, type="expression", value=value), np.linspace(-6.0, 6.0, 13))


def test_thresholds():
    flat = np.array([0.3, 0.1, 0.2])
    assert potentials.threshold(block(Potential, type="softcore"), flat) == 0.0
    assert potentials.threshold(block(Potential, type="harmonic", omega=1.0), flat) is None
    assert potentials.threshold(block(Potential, type="expression", value="x"), flat) == 0.2


# ----------------------------------------------------------------------------------------- eigenstates


def test_three_point_levels_are_those_of_the_lattice():
    """L2: LAPACK eigenvalues of the soft core at dx = 0.1."""
    x, reference = grid(100, 0.1), REFERENCE["L2_imag_time"]["values"]["dx0.1"]
    energies, phi = eigenstates(x, 0.1, softcore(x), "three_point", 4)
    assert energies == pytest.approx(reference["E"], abs=1e-12)
    assert abs(phi[0] @ (x * phi[1]) * 0.1) == pytest.approx(reference["mu01"], abs=1e-11)
    assert phi[0] ** 2 @ x**2 * 0.1 == pytest.approx(reference["x2_0"], abs=1e-11)
    assert np.allclose(phi @ phi.T * 0.1, np.eye(4), atol=1e-12)
    assert np.all(phi[0] > -1e-14)
    assert phi[1][np.argmax(np.abs(phi[1]) > 0.01)] > 0


@pytest.mark.parametrize("stencil", ["three_point", "numerov"])
def test_eigenstates_solve_the_lattice(stencil):
    x = grid(12, 0.1)
    v = 0.02 * (x * x - 9) ** 2
    energies, phi = eigenstates(x, 0.1, v, stencil, 6)
    dense = dense_h(v, 0.1, stencil)
    assert energies == pytest.approx(np.linalg.eigvalsh(dense)[:6], abs=1e-11)
    for energy, state in zip(energies, phi, strict=True):
        assert np.linalg.norm(dense @ state - energy * state) < 1e-10
        assert np.linalg.norm(Pencil(v, 0.1, stencil).apply(state) - energy * state) < 1e-10


def dense_h(v, dx, stencil):
    n = v.size
    second = (np.diag(np.full(n, -2.0)) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)) / dx**2
    mass = np.eye(n) + second * dx**2 / 12 if stencil == "numerov" else np.eye(n)
    h = -0.5 * np.linalg.solve(mass, second)
    return 0.5 * (h + h.T) + np.diag(v)


def test_the_counts_of_levels_hold_where_the_potential_is_steep():
    """V beyond 6/dx^2 changes the sign of Q in the compact stencil; the count must not notice."""
    x = grid(10, 0.5)
    v = 0.5 * x**2 + np.where(np.abs(x) > 6, 1e3, 0.0) + 0.01 * x  # without symmetry: no degenerate pairs
    for stencil in ("three_point", "numerov"):
        levels = np.linalg.eigvalsh(dense_h(v, 0.5, stencil))
        pencil = Pencil(v, 0.5, stencil)
        probes = np.concatenate([levels[:-1] + 0.5 * np.diff(levels), [levels[0] - 1, levels[-1] + 1]])
        assert [pencil.below(e) for e in probes] == [int(np.sum(levels < e)) for e in probes]


@pytest.mark.parametrize(("stencil", "order"), [("three_point", 2), ("numerov", 4)])
def test_orders_in_dx(stencil, order):
    exact = np.array(REFERENCE["A1_softcore_energies"]["values"]["E"])
    errors = []
    for dx in (0.4, 0.2):
        x = grid(160, dx)
        errors.append(eigenstates(x, dx, softcore(x), stencil, 4)[0] - exact[:4])
    ratio = errors[0] / errors[1]
    assert np.allclose(np.log2(ratio), order, atol=0.1)


def test_numerov_against_analytic_levels():
    x = grid(160, 0.05)
    assert eigenstates(x, 0.05, softcore(x), "numerov", 6)[0] == pytest.approx(
        REFERENCE["A1_softcore_energies"]["values"]["E"], abs=2e-9
    )
    x = grid(10, 0.025)
    well = REFERENCE["A7_double_well"]["values"]
    energies, phi = eigenstates(x, 0.025, 0.02 * (x * x - 9) ** 2, "numerov", 4)
    assert energies == pytest.approx(well["E"], abs=2e-8)
    assert energies[1] - energies[0] == pytest.approx(well["splitting"], rel=1e-7)
    assert abs(phi[0] @ (x * phi[1])) * 0.025 == pytest.approx(well["x01"], rel=1e-7)
    # harmonic: n + 1/2
    x = grid(12, 0.02)
    assert eigenstates(x, 0.02, 0.5 * x**2, "numerov", 8)[0] == pytest.approx(np.arange(8) + 0.5, abs=5e-7)
    # Morse: (n + 1/2) w - (n + 1/2)^2 b^2/2 - D, w = b sqrt(2 D)
    x, d, b = grid(24, 0.02) + 20, 8.0, 0.4
    n = np.arange(6) + 0.5
    v = potentials.evaluate(block(Potential, type="morse", D=d, beta=b), x)
    assert eigenstates(x, 0.02, v, "numerov", 6)[0] == pytest.approx(
        n * b * math.sqrt(2 * d) - 0.5 * (n * b) ** 2 - d, abs=1e-6
    )
    # Poschl-Teller: lambda = 3, E = -(3 - n)^2 / 2
    x = grid(40, 0.02)
    v = potentials.evaluate(block(Potential, type="poschl_teller", depth=6.0), x)
    assert eigenstates(x, 0.02, v, "numerov", 2)[0] == pytest.approx([-4.5, -2.0], abs=1e-6)


@pytest.mark.parametrize("stencil", ["three_point", "numerov"])
def test_windows_find_the_same_states_on_long_grids(stencil):
    long, short = grid(3000, 0.1), grid(150, 0.1)
    energies, phi, low = window_states(0.1, softcore(long), stencil, 5)
    assert phi.shape[1] < 10_000
    same = eigenstates(short, 0.1, softcore(short), stencil, 5)[0]
    assert energies[:4] == pytest.approx(same[:4], abs=1e-11)
    full = eigenstates(long, 0.1, softcore(long), stencil, 5)[1]
    assert np.array_equal(full[:, low : low + phi.shape[1]], phi)
    apart = 1.0 - np.exp(-((np.abs(long) - 1500) ** 2))  # two wells 30000 points apart
    energies, phi, _ = window_states(0.1, apart, stencil, 2)
    assert energies[1] - energies[0] < 1e-12
    assert phi.shape[1] > 25_000


def test_box_states_need_the_whole_box():
    x = grid(300, 0.1)
    energies = eigenstates(x, 0.1, np.zeros(x.size), "numerov", 3)[0]
    assert energies == pytest.approx(0.5 * (np.pi * np.arange(1, 4) / (x.size + 1) / 0.1) ** 2, rel=1e-8)
    with pytest.raises(NumericsError, match="no level 11"):
        eigenstates(x[:10], 0.1, np.zeros(10), "numerov", 3, first=9)


@pytest.mark.parametrize("stencil", ["three_point", "numerov"])
@pytest.mark.parametrize("kind", ["softcore", "harmonic", "double_well"])
def test_imaginary_time_agrees_with_the_eigensolver(stencil, kind):
    x = grid(60, 0.1) if kind == "softcore" else grid(10, 0.1)
    v = {"softcore": softcore(x), "harmonic": 0.5 * x**2, "double_well": 0.02 * (x * x - 9) ** 2}[kind]
    energies, phi = eigenstates(x, 0.1, v, stencil, 1)
    energy, state, steps = imaginary_time(x, 0.1, v, stencil)
    assert energy == pytest.approx(energies[0], abs=1e-12)
    assert np.allclose(state, phi[0], atol=1e-10)
    assert steps < 1000


def test_imaginary_time_refuses_steps_that_diverge():
    x = grid(60, 0.1)
    assert imaginary_time(x, 0.1, softcore(x), "three_point", dtau=1.0)[0] == pytest.approx(
        -0.5000345, abs=1e-7
    )
    with pytest.raises(NumericsError, match=r"dtau = 5 is not below 2/\|E0\|"):
        imaginary_time(x, 0.1, softcore(x), "three_point", dtau=5.0)


# -------------------------------------------------------------------------------------- initial states


def test_packets_have_their_moments():
    x = grid(60, 0.05)
    psi = initial.initial_state(
        block(Initial, type="gaussian", x0=-20.0, k0=1.5, width=2.0), x, 0.05, 0 * x, "numerov"
    )
    density = np.abs(psi) ** 2 * 0.05
    assert density.sum() == pytest.approx(1.0, abs=1e-14)
    mean = density @ x
    assert mean == pytest.approx(-20.0, abs=1e-12)
    assert math.sqrt(density @ (x - mean) ** 2) == pytest.approx(2.0, abs=1e-12)
    k = 2 * np.pi * np.fft.fftfreq(x.size, 0.05)
    weight = np.abs(np.fft.fft(psi)) ** 2
    weight /= weight.sum()
    assert weight @ k == pytest.approx(1.5, abs=1e-12)
    assert math.sqrt(weight @ (k - 1.5) ** 2) == pytest.approx(0.25, abs=1e-12)


def test_levels_and_superpositions():
    x = grid(60, 0.1)
    v = softcore(x)
    _, phi = eigenstates(x, 0.1, v, "numerov", 3)
    third = initial.initial_state(TypeAdapter(Initial).validate_python(2), x, 0.1, v, "numerov")
    assert np.allclose(third, phi[2], atol=1e-11)
    mixed = initial.initial_state(
        TypeAdapter(Initial).validate_python({"0": 1, "2": "1i"}), x, 0.1, v, "numerov"
    )
    assert np.allclose(mixed, (phi[0] + 1j * phi[2]) / math.sqrt(2), atol=1e-11)
    relaxed = block(Initial, type="eigenstate", method="imaginary_time")
    assert np.allclose(initial.initial_state(relaxed, x, 0.1, v, "numerov"), phi[0], atol=1e-11)
    with pytest.raises(InvalidInput, match="level 0 only"):
        initial.initial_state(
            block(Initial, type="eigenstate", level=1, method="imaginary_time"), x, 0.1, v, "numerov"
        )


def test_states_from_formulas_and_files(tmp_path):
    x = grid(20, 0.1)
    psi = initial.initial_state(
        block(Initial, type="expression", real="exp(-x^2/8)*cos(x)", imag="exp(-x^2/8)*sin(x)"),
        x,
        0.1,
        0 * x,
        "numerov",
    )
    packet = initial.initial_state(
        block(Initial, type="gaussian", k0=1.0, width=math.sqrt(2.0)), x, 0.1, 0 * x, "numerov"
    )
    assert np.allclose(psi, packet, atol=1e-13)
    rows = "\n".join(f"{a:.17g}, {b.real:.17g}, {b.imag:.17g}" for a, b in zip(x, 3 * psi, strict=True))
    (tmp_path / "psi.csv").write_text("x, re, im\n" + rows, encoding="utf-8")
    from_file = block(Initial, type="file", file=tmp_path / "psi.csv")
    assert np.allclose(initial.initial_state(from_file, x, 0.1, 0 * x, "numerov"), psi, atol=1e-14)
    finer = grid(18, 0.05)
    again = initial.initial_state(from_file, finer, 0.05, 0 * finer, "numerov")
    assert np.allclose(again[::2], psi[20:-20], atol=1e-6)
    with pytest.raises(InvalidInput, match="leaves out"):
        initial.initial_state(from_file, grid(1, 0.1), 0.1, np.zeros(21), "numerov")
    import h5py

    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["results/x"], file["results/psi_final"] = x, psi
    from_run = block(Initial, type="file", file=tmp_path / "run.h5")
    assert np.allclose(initial.initial_state(from_run, x, 0.1, 0 * x, "numerov"), psi, atol=1e-14)
    with pytest.raises(InvalidInput, match="vanishes"):
        initial.initial_state(block(Initial, type="expression", real="0"), x, 0.1, 0 * x, "numerov")


# ------------------------------------------------------------------------------------------- absorbers


def test_absorbers_have_their_shapes():
    x = grid(200, 0.2)
    cap, mask = absorbers.evaluate(block(Absorber, type="cap", width=50.0, strength=0.25), x)
    assert mask is None
    assert np.allclose(cap, 1e-4 * np.maximum(np.abs(x) - 150, 0) ** 2, atol=1e-14)  # L5
    shifted, _ = absorbers.evaluate(block(Absorber, type="cap", width=50.0, strength=0.25), x + 77)
    assert np.allclose(shifted, cap, atol=1e-12)
    cap, mask = absorbers.evaluate(block(Absorber, type="mask", width=50.0), x)
    assert cap is None
    assert mask[0] == mask[-1] == 0.0
    assert np.all((mask[1:-1] > 0.5) & (mask <= 1)[1:-1])
    assert mask[x.size // 2] == 1.0
    assert np.allclose(mask, mask[::-1])
    block_m = block(Absorber, type="manolopoulos", kmin=0.2)
    cap, _ = absorbers.evaluate(block_m, x)
    assert np.all(cap >= 0)
    assert absorbers.width(block_m) == pytest.approx(2.622057554 / 0.08)
    assert np.all(cap[np.abs(x) < 200 - 33] == 0)
    assert absorbers.evaluate(block(Absorber, type="none"), x) == (None, None)


def test_reflection_of_a_quadratic_potential():
    """A9: stationary reflection of ``1e-4 (x - x0)^2`` on 50 bohr with a wall behind."""
    reference = REFERENCE["A9_cap_reflection"]["values"]
    k = np.array([float(key) for key in reference])
    found = absorbers.reflection(block(Absorber, type="cap", width=50.0, strength=0.25), 0.02, k)
    assert found == pytest.approx(np.array(list(reference.values())), rel=0.05)


def test_manolopoulos_takes_everything_above_kmin():
    found = absorbers.reflection(
        block(Absorber, type="manolopoulos"), 0.1, np.array([0.2, 0.3, 0.5, 1.0, 2.0])
    )
    assert found[0] < 1e-2
    assert np.all(np.diff(found) < 0)


def test_a_mask_acts_like_a_potential():
    found = absorbers.reflection(block(Absorber, type="mask", width=50.0), 0.1, np.array([0.5, 1.0]), dt=0.05)
    assert np.all(found < 1e-4)


@pytest.mark.parametrize("dt", [0.05, 0.4])
def test_reflection_from_a_mask_is_that_of_a_packet(dt):
    """A packet of narrow momentum is sent into the mask, and what comes back is counted; the strength goes as 1/dt."""
    from qsim.core.device.device import cpu
    from qsim.tridiag.propagate.stepping.propagator import Propagator, Stepping

    strip = block(Absorber, type="mask", width=12.0, power=0.5)
    x = grid(100, 0.1)
    mask = absorbers.evaluate(strip, x)[1]
    lattice = Lattice(-100.0, 0.1, x.size, "numerov", 0 * x, mask=mask)
    k, width = 0.5, 14.0
    psi = initial.gaussian(x, 20.0, k, width)
    steps = round(2 * 70.0 / k / dt)
    run = Propagator(cpu(1), lattice, psi, dt, how=Stepping(slope=False))
    run.advance(steps, steps)
    density = np.abs(run.psi) ** 2 * 0.1
    back = float(density[x < 85].sum())
    momenta = np.linspace(k - 4 / width / 2, k + 4 / width / 2, 81)
    weights = np.exp(-2 * (momenta - k) ** 2 * width**2)
    expected = float(weights @ absorbers.reflection(strip, 0.1, momenta, dt=dt) / weights.sum())
    assert back == pytest.approx(expected, rel=0.1)


# --------------------------------------------------------------------------------------------- spectra


def test_harmonics_of_a_synthetic_signal():
    """One line ``a cos(h w t)``: S = (a T/4)^2 at its order with sin^2; zero where the window has its zeros."""
    T = 16 * 2 * np.pi / W0
    t = np.linspace(0, T, 8001)
    order, s = harmonics.hhg(t, 0.3 * np.cos(5 * W0 * t) + 1e-6 * np.cos(21 * W0 * t), W0, "sin2", 40.0)
    at = {h: s[np.argmin(np.abs(order - h))] for h in (5, 9, 21)}
    assert order[-1] == 40.0
    assert at[5] == pytest.approx((0.3 * T / 4) ** 2, rel=1e-12)
    assert at[21] == pytest.approx((1e-6 * T / 4) ** 2, rel=1e-9)
    assert at[9] < 1e-24 * at[5]
    for window in harmonics.WINDOWS:
        area = harmonics.window_values(window, 8001).mean()
        _, s = harmonics.hhg(t, np.cos(5 * W0 * t), W0, window, 10.0, points_per_order=16)
        assert s[80] == pytest.approx((area * T / 2) ** 2, rel=2e-3)


def test_the_three_forms_agree():
    T = 16 * 2 * np.pi / W0
    t = np.linspace(0, T, 32001)
    envelope = np.sin(np.pi * t / T) ** 8
    x = envelope * np.cos(7 * W0 * t)
    v = np.gradient(x, t, edge_order=2)
    a = np.gradient(v, t, edge_order=2)
    peaks = [
        harmonics.hhg(t, signal, W0, "none", 12.0, form, 16)[1][7 * 16]
        for form, signal in (("dipole", x), ("velocity", v), ("acceleration", a))
    ]
    assert peaks[1] == pytest.approx(peaks[0], rel=1e-3)
    assert peaks[2] == pytest.approx(peaks[0], rel=1e-3)


def test_the_cutoff_rule():
    order = np.arange(0, 46, 1 / 32)
    flat = np.where(order < 26, 1e-3, 1e-3 * 10 ** (-2 * (order - 26)))
    assert harmonics.cutoff_order(order, flat, 21.0) == pytest.approx(26.9, abs=0.2)
    assert harmonics.cutoff_order(order[order < 19], flat[order < 19], 21.0) is None
    assert harmonics.cutoff_order(order, np.ones(order.size), 21.0) is None
    assert harmonics.cutoff_order(order, flat, None) is None
    params = REFERENCE["C3_hhg_1e14_odd_a"]["params"]
    assert harmonics.classical_cutoff(0.5, params["Up"], W0) == pytest.approx(
        params["cutoff_classical_order"]
    )
    assert harmonics.lewenstein_cutoff(0.5, params["Up"], W0) == pytest.approx(
        params["cutoff_lewenstein_order"]
    )


def test_the_gabor_map_finds_time_and_frequency():
    t = np.linspace(0, 600, 12001)
    burst = np.exp(-0.5 * ((t - 250) / 20) ** 2) * np.cos(9 * W0 * t)
    time, order, power = harmonics.gabor(t, burst, W0, 20.0, width=15.0)
    i, j = np.unravel_index(np.argmax(power), power.shape)
    assert power.shape == (400, 200)
    assert time[i] == pytest.approx(250, abs=2)
    assert order[j] == pytest.approx(9, abs=0.1)
    middle = np.argmin(np.abs(time - 250))
    s = np.sum(burst * np.exp(-0.5 * ((t - time[middle]) / 15) ** 2) * np.exp(-1j * order[j] * W0 * t)) * 0.05
    assert power[middle, j] == pytest.approx(abs(s) ** 2, rel=1e-9)


def lattice_of(x, v, stencil):
    return Lattice(float(x[0]), 0.2, len(x), stencil, v)


@pytest.mark.parametrize("stencil", ["three_point", "numerov"])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_window_operator_against_diagonalisation(stencil, order):
    x, gamma = grid(20, 0.2), 0.03
    v = softcore(x)
    psi = initial.gaussian(x, 2.0, 0.8, 1.5)
    energies = np.linspace(-0.8, 2.0, 41)
    found = photoelectrons.photoelectrons(lattice_of(x, v, stencil), psi, energies, gamma, order)
    levels, vectors = np.linalg.eigh(dense_h(v, 0.2, stencil))
    weights = np.abs(vectors.T @ psi) ** 2 * 0.2
    p = 2**order
    windows = gamma**p / ((levels - energies[:, None]) ** p + gamma**p)
    area = gamma * (2 * np.pi / p) / math.sin(np.pi / p)
    assert found.spectrum == pytest.approx(windows @ weights / area, rel=1e-9, abs=1e-13)
    assert found.partial.sum(axis=1) == pytest.approx(found.spectrum)


def test_photoelectron_spectra_are_normalised_and_know_sides():
    x = grid(300, 0.2)
    lattice = lattice_of(x, softcore(x), "numerov")
    psi = initial.gaussian(x, 80.0, 1.0, 10.0)
    energies = np.linspace(-0.2, 2.0, 221)
    found = photoelectrons.photoelectrons(lattice, psi, energies, 0.03, 3)
    assert found.spectrum.sum() * 0.01 == pytest.approx(1.0, abs=2e-3)
    left, right = found.partial.sum(axis=0)
    assert right > 100 * left
    assert energies[np.argmax(found.spectrum)] == pytest.approx(0.5, abs=0.05)
    turned = psi * np.exp(-0.7j * x)  # the same state in velocity gauge
    again = photoelectrons.photoelectrons(lattice, turned, energies[::20], 0.03, 3, vector_potential=0.7)
    assert again.spectrum == pytest.approx(found.spectrum[::20], rel=1e-9, abs=1e-12)


def test_harmonics_of_soft_core_hydrogen():
    """C3 in small: the cutoff of the 800 nm trapezoid lies between the classical order and 27."""
    dx = 0.4
    x = grid(320, dx)
    pot = block(Potential, type="softcore")
    v, slope = potentials.evaluate(pot, x), potentials.slope(pot, x)
    cap, _ = absorbers.evaluate(block(Absorber, type="manolopoulos"), x)
    keys = {"shape": "flat_top", "omega": W0, "E0": E0, "ramp_cycles": 2.0, "flat_cycles": 4.0}
    field = LaserField(block(Laser, pulses=[keys]))
    steps = 8000
    dt = field.duration / steps
    psi = eigenstates(x, dx, v, "numerov", 1)[1][0].astype(complex)
    times = dt * np.arange(steps + 1)
    middle, at = field.electric(times[:-1] + 0.5 * dt), field.electric(times)
    acceleration = np.empty(steps + 1)
    for k in range(steps + 1):
        acceleration[k] = -slope @ np.abs(psi) ** 2 * dx - at[k]
        if k < steps:  # (1 + i dt/2 H) y = psi, psi' = 2 y - psi
            psi = (
                Pencil(v + x * middle[k] - 1j * cap, dx, "numerov").solve(2j / dt, psi) * (4 / (1j * dt))
                - psi
            )
    order, s = harmonics.hhg(times, acceleration, W0, "sin2", 45.0)
    found = harmonics.cutoff_order(order, s, harmonics.classical_cutoff(0.5, field.up, W0))
    assert 24.0 < found < 27.0
    for h, tolerance in ((1, 0.1), (17, 0.3), (21, 0.3)):
        exact = REFERENCE["C3_hhg_1e14_odd_a"]["values"]["S"][str(h)]
        assert s[np.argmin(np.abs(order - h))] == pytest.approx(exact, rel=tolerance)


# ------------------------------------------------------------------------------------ integrals of traces


@pytest.mark.parametrize("n", [3, 4, 7, 400])
def test_running_integrals_of_parabolas_are_exact(n):
    x = np.cumsum(np.random.default_rng(n).uniform(0.5, 1.5, n)) / n
    found = running_integral(np.stack([3.0 * x**2 - 2.0 * x + 1.0, x]), x)
    exact = np.stack([x**3 - x**2 + x, 0.5 * x**2])
    assert (found[:, 0] == 0.0).all()
    np.testing.assert_allclose(found, exact - exact[:, :1], rtol=0, atol=10 * n * np.finfo(float).eps)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 100])
def test_running_integrals_are_those_of_scipy(n):
    from scipy.integrate import cumulative_simpson

    generator = np.random.default_rng(n)
    x, y = np.cumsum(generator.uniform(0.5, 1.5, n)), generator.standard_normal((2, n))
    known = cumulative_simpson(y, x=x, initial=0.0, axis=-1) if n > 1 else np.zeros((2, 1))
    np.testing.assert_allclose(running_integral(y, x), known, rtol=0, atol=10 * n * np.finfo(float).eps)


def test_running_integrals_converge_with_the_fourth_power():
    def error(n):
        x = np.linspace(0.0, 1.0, n)
        return np.abs(running_integral(np.exp(x), x) - np.expm1(x)).max()

    assert error(41) / error(81) == pytest.approx(16.0, rel=0.1)

"""Photoelectrons of a line by the flux through x = -R and x = R, against momenta of a wave function that FFTs carry on."""

import copy

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from qsim.core.results.results import open_results
from qsim.tridiag.deck.pulses.lobes import Sin2Pulse
from qsim.tridiag.propagate.lattice import Lattice, apply_h
from qsim.tridiag.propagate.run import LineEvolution
from qsim.tridiag.propagate.surface import resolvent
from qsim.tridiag.tdse.pulses import PulseField

WELL = {"type": "gaussian_well", "V0": 1.0, "width": 1.0}
PULSE = {"shape": "sin2", "omega": 0.9, "E0": 0.08, "cycles": 4}
ENERGIES = np.linspace(0.3, 0.7, 17)


def flux(tridiag, *, box=110.0, dx=0.2, radius=40.0, gauge="length", absorber=None, **time):
    points = round(2 * box / dx) + 1
    return tridiag.run(
        task="propagate",
        grid={"xmin": -box, "xmax": box, "points": points},
        potential=WELL,
        laser={"gauge": gauge, "pulses": [PULSE]},
        absorber=absorber or {"type": "manolopoulos", "kmin": 0.15, "delta": 0.2},
        time={"dt": 0.05, "outputs": 2, "verify": False, **time},
        spectra=[{"method": "tsurff", "radius": radius, "energy": [0.3, 0.7], "points": 17}],
    )


def electric(t):
    """Return the field of the pulse, whose own tests know it: this oracle is about what follows from it."""
    return float(PulseField(Sin2Pulse(**PULSE)).electric(t))


@pytest.fixture(scope="module")
def exact():
    """dP/dE to the left and right: momenta long after the pulse without the bound states, by FFTs and Strang steps."""
    end, box, points, dt = 150.0, 320.0, 4096, 0.03
    x = -box + 2 * box / points * np.arange(points)
    dx = x[1] - x[0]
    k = 2 * np.pi * np.fft.fftfreq(points, dx)
    v = -np.exp(-(x**2) / 2.0)
    # bound states on a smaller grid, with the kinetic energy diagonal in plane waves
    near = np.abs(x) < 80.0
    m = int(near.sum())
    wave = np.exp(2j * np.pi * np.outer(np.arange(m), np.arange(m)) / m) / np.sqrt(m)
    kinetic = (wave * (0.5 * (2 * np.pi * np.fft.fftfreq(m, dx)) ** 2)) @ wave.conj().T
    energies, states = np.linalg.eigh(kinetic.real + np.diag(v[near]))
    bound = np.zeros((int(np.sum(energies < -1e-3)), points))
    bound[:, near] = states[:, : len(bound)].T
    psi = bound[0] / np.sqrt(dx) + 0j
    length = 4 * 2 * np.pi / PULSE["omega"]
    half, whole = np.exp(-0.5j * dt * v), np.exp(-0.5j * dt * k**2)
    for i in range(round(end / dt)):
        t = (i + 0.5) * dt
        kick = half * np.exp(-0.5j * dt * electric(t) * x) if t < length else half
        psi = kick * np.fft.ifft(whole * np.fft.fft(kick * psi))
    # slow electrons near the well, whose momenta it changes, smoothly left out with the bound states
    psi = (psi - (bound @ psi) @ bound) / (1.0 + np.exp(-(np.abs(x) - 25.0) / 3.0))
    density = np.abs(np.fft.fft(psi) * dx) ** 2 / (2 * np.pi)
    order, momenta = np.argsort(k), np.sqrt(2 * ENERGIES)
    return [CubicSpline(k[order], density[order])(sign * momenta) / momenta for sign in (-1.0, 1.0)]


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_sides_of_a_short_range(tridiag, exact, gauge):
    """Nothing acts beyond the ends; the grid of fourth order and steps of 0.05 leave some 1e-3 of the highest energies."""
    found = flux(tridiag, gauge=gauge)
    top = max(one.max() for one in exact)
    for name, want in zip(("pes_left", "pes_right"), exact, strict=True):
        np.testing.assert_allclose(found.spectra[name], want, rtol=5e-3, atol=1e-3 * top)
    assert found.spectra["pes"] == pytest.approx(found.spectra["pes_left"] + found.spectra["pes_right"])


def test_claimed_errors(tridiag, exact):
    """Coarse steps and spacings are claimed, energy by energy."""
    for keys in ({"dx": 0.4}, {"dt": 0.1}):
        found = flux(tridiag, verify=True, **keys)
        off = np.abs(found.spectra["pes"] - sum(exact))
        assert np.all(off <= found.spectra["pes_error"] + 1e-4 * sum(exact).max()), keys
        assert found.spectra["pes_error"].max() < 0.1 * found.spectra["pes"].max()
        assert found.errors["pes_total"] > 0.0


def test_the_file_has_the_energies_of_both(tridiag, tmp_path):
    """`energy` is that of the electron against time, `pes_energy` the axis of the spectrum."""
    tridiag.execute(
        task="propagate",
        grid={"xmin": -60, "xmax": 60, "points": 301},
        potential=WELL,
        laser={"pulses": [{"shape": "sin2", "omega": 0.9, "E0": 0.08, "cycles": 1}]},
        absorber={"type": "manolopoulos", "kmin": 0.3},
        time={"dt": 0.1, "outputs": 2, "verify": False},
        spectra=[{"method": "tsurff", "radius": 20, "energy": [0.1, 0.7], "points": 5}],
    )
    with open_results(tmp_path / "deck.h5") as results:
        assert results.dims("energy") == ("time",)
        assert results["pes_energy"] == pytest.approx(np.linspace(0.1, 0.7, 5))
        for name in ("pes", "pes_error", "pes_left", "pes_right"):
            assert results.dims(name) == ("pes_energy",)


def test_a_run_that_is_continued_has_the_same_flux(tridiag):
    built = tridiag.build(
        task="propagate",
        grid={"xmin": -60, "xmax": 60, "points": 301},
        potential=WELL,
        laser={"pulses": [{"shape": "sin2", "omega": 0.9, "E0": 0.08, "cycles": 1}]},
        absorber={"type": "manolopoulos", "kmin": 0.3},
        time={"dt": 0.1, "outputs": 2, "order": 4},
        spectra=[{"method": "tsurff", "radius": 20, "energy": [0.1, 0.7], "points": 5}],
    )
    whole, saved = LineEvolution(built), []
    whole.advance(lambda _: saved.append(copy.deepcopy(whole.state())))
    again = LineEvolution(built, saved[20])
    again.advance(lambda _: None)
    assert np.array_equal(again.result().flux, whole.result().flux)
    assert np.array_equal(again.result().trace, whole.result().trace)


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
def test_resolvent(stencil):
    """(H - i W - E) applied to the solution gives the state back."""
    x = np.linspace(-5.0, 5.0, 81)
    cap = 0.1 * np.maximum(np.abs(x) - 3.0, 0.0) ** 2
    lattice = Lattice(float(x[0]), float(x[1] - x[0]), 81, stencil, -np.exp(-(x**2)), cap=cap)
    psi = np.exp(-(x**2) + 0.5j * x)
    w = resolvent(lattice, 0.3, psi)
    back = apply_h(lattice, w) - 1j * cap * w - 0.3 * w
    np.testing.assert_allclose(back, psi, atol=1e-11)


def test_refusals(tridiag):
    keys = {
        "task": "propagate",
        "grid": {"xmin": -60, "xmax": 60, "points": 301},
        "potential": WELL,
        "time": {"dt": 0.1, "t_final": 10},
    }
    tridiag.refuses("isurfv sums all times", **keys, spectra=[{"method": "tsurff", "radius": 20}])
    tridiag.refuses("must lie below the last", **keys, spectra=[{"method": "window", "energy": [0.5, 0.1]}])
    absorber = {"type": "manolopoulos", "kmin": 0.3}
    tridiag.refuses(
        "does not lie before the absorber",
        **keys,
        absorber=absorber,
        spectra=[{"method": "tsurff", "radius": 55}],
    )

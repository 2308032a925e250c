"""Angle-resolved spectra of fields that turn: against linear runs, mirror images, integrals over angles, other methods."""

from dataclasses import replace

import h5py
import numpy as np
import pytest
from scipy.special import roots_legendre, sph_harm_y

from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from qsim.tridiag.atom.photoelectrons.angles import Sky, even_azimuths, nodes
from qsim.tridiag.atom.photoelectrons.flux import spheres
from qsim.tridiag.atom.polarization import Frame
from qsim.tridiag.atom.states.lanes import PlanarLanes
from qsim.tridiag.tdse.polarization import PlaneField
from qsim.tridiag.tdse.run import run_motion

POINTS = 8
ENERGY = [0.15, 0.7]
SCATTERING = {"method": "scattering", "energy": ENERGY, "points": POINTS, "angles": 40, "polar": 19}
WINDOW = {"method": "window", "energy": ENERGY, "points": POINTS, "angles": 40, "polar": 19, "gamma": 0.02}
TSURFF = {"method": "tsurff", "radius": 30, "energy": ENERGY, "points": POINTS, "angles": 40, "polar": 19}
METHODS = {"scattering": SCATTERING, "window": WINDOW, "tsurff": TSURFF}
SHORT = {"type": "yukawa", "Z": 1.908, "range": 1}  # no force beyond the sphere


def deck(polarization, method="scattering", **changes):
    absorber = {"type": "manolopoulos", "kmin": 0.4} if method == "tsurff" else "none"
    blocks = {
        "task": "atom",
        "atom": SHORT,
        "grid": {
            "rmax": 55 if method == "tsurff" else 110,
            "dr": 0.25,
            "l_max": 4,
            "map": {"dr0": 0.05, "width": 30},
        },
        "laser": {
            "gauge": "length",
            "polarization": polarization,
            "pulses": [{"shape": "sin2", "omega": 0.8, "E0": 0.08, "cycles": 3, "cep": 0.4}],
        },
        "absorber": absorber,
        "time": {"dt": 0.06, "outputs": 2, "verify": False},
        "spectra": [METHODS[method]],
    }
    return blocks | changes


def circular(hand):
    return {"type": "circular", "handedness": hand}


def without(block):
    return {key: value for key, value in block.items() if key != "polar"}


@pytest.mark.parametrize("parities", [(0,), (1,), (0, 1)])
def test_sums_of_harmonics(parities):
    """Sums, densities and projections against harmonics of every direction."""
    lanes, rng = PlanarLanes(parities, 5), np.random.default_rng(3)
    c = rng.normal(size=(3, lanes.used)) + 1j * rng.normal(size=(3, lanes.used))
    theta, weights = nodes(lanes, 12)
    sky = Sky(lanes, theta, even_azimuths(31))
    y = sph_harm_y(lanes.ls[:, None, None], lanes.ms[:, None, None], theta[:, None], sky.azimuth)
    total = np.einsum("kc,cab->akb", c, y)
    np.testing.assert_allclose(sky.total(c), total, atol=1e-13)
    np.testing.assert_allclose(sky.density(c), np.sum(np.abs(total) ** 2, axis=1), atol=1e-12)
    np.testing.assert_allclose(sky.projected(total, weights), c, atol=1e-12)
    norm = weights @ np.sum(np.abs(total) ** 2, axis=2) * 2 * np.pi / 31
    np.testing.assert_allclose(norm, np.sum(np.abs(c) ** 2, axis=1), rtol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_a_linear_field_in_the_plane(tridiag, method):
    """A field along x, run in the plane: the spectrum in all directions is that of the run along the field, turned."""
    line = tridiag.run(**deck("linear", method, spectra=[without(METHODS[method]) | {"angles": 181}]))
    problem = tridiag.build(**deck("x", method, spectra=[without(METHODS[method])]))
    loaded = tridiag.load(**deck("x", method, spectra=[without(METHODS[method])]))
    frame = Frame(np.eye(3), planar=True, parts=((0, 0, 1.0 + 0.0j),), levels=(0,))
    block = loaded.deck.spectra[0].model_copy(update={"polar": 19})
    planar = replace(
        problem, frame=frame, pulse=PlaneField(loaded.deck.laser.pulses, 0.0, 0), spectra=[block]
    )
    planar.spheres = spheres(planar.lattice, planar.spectra)
    found = run_motion(planar, Monitor.silent())
    size = line.spectra["pes"].max()
    np.testing.assert_allclose(found.spectra["pes"], line.spectra["pes"], rtol=2e-3, atol=1e-4 * size)
    theta, azimuth = found.spectra["theta"], found.spectra["azimuth"]
    # angle between a direction of the run and x
    angle = np.arccos(np.clip(np.sin(theta)[:, None] * np.cos(azimuth), -1.0, 1.0))
    for k in range(POINTS):
        want = np.interp(angle, line.spectra["theta"], line.spectra["pad"][k])
        top = line.spectra["pad"].max()
        np.testing.assert_allclose(found.spectra["pad_sphere"][k], want, atol=4e-3 * top)
    assert line.spectra["pad"].max() > 3.0 * line.spectra["pad"][:, 90].max()  # it has a direction
    np.testing.assert_allclose(
        found.spectra["pad_azimuth"], found.spectra["pad_sphere"][:, 9], rtol=1e-9, atol=1e-12 * size
    )


@pytest.mark.parametrize("method", METHODS)
def test_left_and_right_in_all_directions(tridiag, method):
    """Mirror images in x: the same spectrum at the opposite azimuth, and below the plane what is above it."""
    pulse = {"shape": "sin2", "omega": 0.8, "E0": 0.15, "cycles": 1, "cep": 0.4}
    left, right = (
        tridiag.run(
            **deck(
                circular(hand),
                method,
                laser={"gauge": "length", "polarization": circular(hand), "pulses": [pulse]},
            )
        ).spectra
        for hand in ("left", "right")
    )
    top = left["pad_sphere"].max()
    mirrored = np.roll(left["pad_sphere"][:, :, ::-1], 1, axis=2)  # azimuths -pi, ..., without pi
    np.testing.assert_allclose(right["pad_sphere"], mirrored, atol=2e-3 * top)
    np.testing.assert_allclose(left["pad_sphere"], left["pad_sphere"][:, ::-1], atol=1e-9 * top)
    assert np.abs(left["pad_sphere"] - mirrored).max() > 0.05 * top  # they are not the same
    np.testing.assert_allclose(
        right["momentum_map"], left["momentum_map"], atol=2e-3 * left["momentum_map"].max()
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("initial", ["1s", "2p"])
def test_integrals_over_angles(tridiag, method, initial):
    """The integral over all directions is the energy spectrum, and the sum of its parts."""
    atom = {"type": "hydrogen"} if initial == "2p" else SHORT
    grid = {"rmax": 90, "dr": 0.3, "l_max": 3, "map": {"dr0": 0.1, "width": 25}}
    block = METHODS[method] | {"polar": 121, "points": 4}
    spec = [block | {"radius": 50}] if method == "tsurff" else [block]
    elliptical = {"type": "elliptical", "ellipticity": 0.5, "plane": "zx"}
    found = tridiag.run(
        **deck(elliptical, method, atom=atom, initial=initial, grid=grid, spectra=spec)
    ).spectra
    x, w = roots_legendre(40)
    theta = found["theta"]
    mean = found["pad"]
    np.testing.assert_allclose(mean, found["pad_sphere"].mean(axis=2), rtol=1e-12)
    from scipy.interpolate import CubicSpline

    whole = 2 * np.pi * (CubicSpline(theta, mean, axis=1)(np.arccos(x)) @ w)
    if method == "window":  # positions as directions: the norm of what the window lets through
        np.testing.assert_allclose(whole, found["pes"], rtol=1e-4)
    else:
        np.testing.assert_allclose(whole, found["pes"], rtol=1e-4, atol=1e-6 * found["pes"].max())
    np.testing.assert_allclose(
        found["pes_l"].sum(axis=1), found["pes"], rtol=2e-3, atol=1e-5 * found["pes"].max()
    )


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_flux_against_projection(tridiag, gauge):
    """Without a force beyond the sphere, t-SURFF and projection agree in every direction, in either gauge."""
    runs = []
    for method in ("scattering", "tsurff"):
        blocks = deck({"type": "elliptical", "ellipticity": 0.7}, method)
        blocks["laser"] = blocks["laser"] | {"gauge": gauge}
        blocks["grid"] = blocks["grid"] | {"rmax": 75 if method == "tsurff" else 150}
        blocks["absorber"] = (
            {"type": "manolopoulos", "kmin": 0.2, "delta": 0.2} if method == "tsurff" else "none"
        )
        runs.append(tridiag.run(**blocks).spectra)
    projection, flux = runs
    for name in ("pes", "pad_azimuth", "pad_sphere"):
        np.testing.assert_allclose(
            flux[name], projection[name], atol=6e-3 * projection[name].max(), err_msg=name
        )
    assert np.all(np.abs(flux["pes"] - projection["pes"]) < flux["pes_error"] + 1e-4 * flux["pes"])


def test_what_does_not_go_together(tridiag):
    r = 0.2 * np.arange(1, 400)
    with h5py.File(tridiag.folder / "px.h5", "w") as file:  # one m about x
        file["r"], file["channels"] = r, [[1, 0]]
        file["u_final"] = (r**2 * np.exp(-r))[None, :] / np.sqrt(0.75)
        file["axes"] = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    tridiag.refuses(
        r"spectra\.0\.polar: a field along z is resolved by its polar angles alone", **deck("linear")
    )
    tridiag.refuses(
        r"spectra\.0\.polar: the run goes along the field", **deck("x", initial={"file": "px.h5"})
    )
    tridiag.refuses(
        r"spectra\.0\.polar: .* set angles",
        **deck(circular("left"), spectra=[{key: v for key, v in WINDOW.items() if key != "angles"}]),
    )
    tridiag.refuses(
        r"spectra\.0\.polar: 4000 energies, 181 polar angles and 360 azimuths make 2\.6e\+08 numbers, at most 3e\+07",
        **deck(circular("left"), spectra=[SCATTERING | {"points": 4000, "angles": 360, "polar": 181}]),
    )


def test_scans_in_a_plane(tridiag):
    """A scan of fields that turn has azimuths, and no direction along the field."""
    arrays = Method("tridiag").arrays

    found = arrays(tridiag.run(**deck(circular("left"), scan={"cep": [0.0, 1.0]})))
    assert found["scan_azimuths"].shape == (2, 40)
    assert found["scan_pes"].shape == (2, POINTS)
    assert "scan_pes_along" not in found

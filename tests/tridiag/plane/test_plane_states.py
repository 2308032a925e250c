"""Products and files as initial states, and maps of momenta, against closed forms and dense matrices."""

import numpy as np
import pytest

from qsim.core.results.quantities import scalars
from qsim.core.run.pipeline import Options, execute
from qsim.tridiag.output import QUANTITIES

HARMONIC = {"type": "particle", "potential": {"type": "harmonic", "omega": [1.0, 0.7]}}
FREE = {"type": "particle", "potential": "none"}
ALONE = {"type": "electrons", "potential": {"type": "softcore", "Z": 2, "a2": 1.0}, "repulsion": "none"}
LINE = {"xmin": -10, "xmax": 10, "points": 61}
SHORT = {"dt": 0.05, "t_final": 0.1, "outputs": 1, "verify": False}


def numbers(tridiag, **blocks):
    """The scalars of a deck by name."""
    return scalars(QUANTITIES["plane"], tridiag.run(task="plane", **blocks))


def test_products_of_levels(tridiag):
    """An oscillator: E = (k + 1/2) omega of both; independent electrons: sums of levels, whichever of them has which."""
    found = numbers(
        tridiag,
        system=HARMONIC,
        grid={"x": LINE},
        initial={"type": "product", "terms": [{"x": 1, "y": 2}]},
        time=SHORT,
    )
    assert found["energy_initial"].value == pytest.approx(1.5 + 2.5 * 0.7, abs=2e-3)
    result = tridiag.run(
        task="plane",
        system=ALONE,
        grid={"x": LINE},
        initial={"type": "product", "terms": [{"x": 0, "y": 1}]},
        time=SHORT,
    )
    axis, psi = result.problem.lattice.axes[0], result.problem.psi0
    values = np.linalg.eigvalsh(axis.kinetic() + np.diag(result.problem.lattice.first))
    assert result.numbers["energy_initial"] == pytest.approx(values[0] + values[1], abs=1e-10)
    np.testing.assert_array_equal(psi, psi.T)


def test_sums_of_products(tridiag):
    """Two formulas and a level with weights: the same as the formula of both coordinates."""
    bell = "exp(-x^2/2)"
    blocks = {"system": HARMONIC | {"potential": {"type": "harmonic"}}, "grid": {"x": LINE}, "time": SHORT}
    one = tridiag.run(
        task="plane",
        initial={
            "type": "product",
            "terms": [
                {"x": "x*" + bell, "y": 0},
                {"weight": "1i", "x": bell, "y": "y*exp(-y^2/2)"},
            ],
        },
        **blocks,
    )
    other = tridiag.run(
        task="plane",
        initial={"type": "expression", "real": "x*exp(-(x^2+y^2)/2)", "imag": "y*exp(-(x^2+y^2)/2)"},
        **blocks,
    )
    overlap = np.vdot(one.problem.psi0, other.problem.psi0) * one.problem.lattice.cell
    # the level is that of the lattice
    assert abs(overlap) == pytest.approx(1.0, abs=1e-6)
    assert one.maps["angular_momentum"][0] == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    ("initial", "text"),
    [
        (
            {"type": "product", "terms": [{"x": 0}]},
            "initial.terms.0.y.*missing key; the coordinates are x and y",
        ),
        (
            {"type": "product", "terms": [{"x": 0, "y": 0, "z": 1}]},
            "initial.terms.0.z.*the coordinates are x and y",
        ),
        ({"type": "product", "terms": [{"x": 70, "y": 0}]}, "initial.terms.0.x.*59 points, and no level 70"),
        ({"type": "product", "terms": [{"x": "exp(-y)", "y": 0}]}, "initial.terms.0.x.*y"),
        ({"type": "file", "file": "nowhere.h5"}, "nowhere.h5"),
    ],
)
def test_mistakes_are_told_at_their_key(tridiag, initial, text):
    tridiag.refuses(text, task="plane", system=HARMONIC, grid={"x": LINE}, initial=initial, time=SHORT)


def test_a_state_from_a_file(tridiag, tmp_path):
    """A run in two halves: on the same points to the bit what one run has, on others up to the splines."""
    text = """method: tridiag
task: plane
system: {type: particle, potential: {type: harmonic, omega: [1.0, 0.7]}}
grid: {x: {xmin: -9, xmax: 9, points: 73}}
initial: {type: gaussian, x0: 1.0, ky: 0.5, wx: 0.8, wy: 0.9}
time: {dt: 0.05, t_final: 1.0, outputs: 1, verify: false}
"""
    path = tmp_path / "first.yaml"
    path.write_text(text, encoding="utf-8")
    first = execute("tridiag", path, Options(output=tmp_path / "first.h5", figures=False, verbosity=-1))
    blocks = {
        "system": {"type": "particle", "potential": {"type": "harmonic", "omega": [1.0, 0.7]}},
        "initial": {"type": "file", "file": str(first.results)},
        "time": {"dt": 0.05, "t_final": 1.0, "outputs": 1, "verify": False},
    }
    whole = tridiag.run(
        task="plane",
        grid={"x": {"xmin": -9, "xmax": 9, "points": 73}},
        **blocks
        | {
            "initial": {"type": "gaussian", "x0": 1.0, "ky": 0.5, "wx": 0.8, "wy": 0.9},
            "time": blocks["time"] | {"t_final": 2.0},
        },
    )
    same = tridiag.run(task="plane", grid={"x": {"xmin": -9, "xmax": 9, "points": 73}}, **blocks)
    np.testing.assert_allclose(same.psi, whole.psi, rtol=0, atol=1e-13)
    other = tridiag.run(task="plane", grid={"x": {"xmin": -8.5, "xmax": 9.5, "points": 91}}, **blocks)
    for name in ("dipole",):
        np.testing.assert_allclose(other.frames[name][-1], whole.frames[name][-1], atol=5e-4)
    tridiag.refuses(
        "initial.file.*leaves out", task="plane", grid={"x": {"xmin": -1, "xmax": 9, "points": 41}}, **blocks
    )


def test_the_momenta_of_a_packet(tridiag):
    """Free packets far from the origin: a Gaussian about their mean momentum with the width 1 / 2 w, whatever the time."""
    result = tridiag.run(
        task="plane",
        system=FREE,
        grid={"x": {"xmin": -6, "xmax": 18, "points": 97}, "y": {"xmin": -8, "xmax": 8, "points": 65}},
        initial={"type": "gaussian", "x0": 8.0, "kx": 1.0, "ky": -0.5, "wx": 0.9, "wy": 1.1},
        time={"dt": 0.05, "t_final": 0.5, "outputs": 1, "verify": False},
        observe=[{"momenta": {"radius": 2.0, "edge": 1.0, "kmax": 3.0, "points": 25}}],
    )
    found = result.spectra
    k, q = found["momentum_x"][:, None], found["momentum_y"]
    wanted = np.exp(-2.0 * (0.9 * (k - 1.0)) ** 2 - 2.0 * (1.1 * (q + 0.5)) ** 2) * 2.0 * 0.9 * 1.1 / np.pi
    np.testing.assert_allclose(found["momentum_map"], wanted, atol=3e-4)
    assert np.abs(found["momentum_map_change"]).max() < 1e-4
    assert result.numbers["norm_of_momenta"] == pytest.approx(1.0, abs=1e-4)


def test_the_momenta_of_both_electrons(tridiag):
    """Both must be beyond the radius: a pair on both sides of the origin counts, and one beside it does not."""
    x = np.linspace(-15.0, 15.0, 20001)
    kept = np.sin(0.5 * np.pi * np.clip(np.abs(x) - 4.0, 0.0, 1.0)) ** 4
    # of one packet; it has hardly moved
    shares = {
        at: float(np.trapezoid(kept * np.exp(-0.5 * (x - at) ** 2), x)) / np.sqrt(2.0 * np.pi)
        for at in (8.0, 0.0)
    }
    for place in (-8.0, 0.0):
        norm = shares[8.0] * shares[abs(place)]
        result = tridiag.run(
            task="plane",
            system=ALONE | {"potential": "none"},
            grid={"x": {"xmin": -15, "xmax": 15, "points": 121}},
            initial={"type": "gaussian", "x0": 8.0, "y0": place, "kx": 0.5, "ky": -0.5, "wx": 1.0, "wy": 1.0},
            time=SHORT,
            observe=[{"momenta": {"radius": 4.0, "edge": 1.0, "points": 31}}],
        )
        assert result.numbers["norm_of_momenta"] == pytest.approx(norm, abs=2e-4)
        found = result.spectra["momentum_map"]
        step = result.spectra["momentum_x"][1] - result.spectra["momentum_x"][0]
        assert found.sum() * step**2 == pytest.approx(norm, abs=2e-4)
        np.testing.assert_allclose(found, found.T, atol=1e-12)


def test_the_momenta_about_an_axis(tridiag):
    """A packet on the axis: the density in three dimensions, (2 w^2 / pi)^(3/2) exp(-2 w^2 (k - k0)^2)."""
    bell = "exp(-(rho^2 + (z - 7)^2)/4)"
    result = tridiag.run(
        task="plane",
        system={"type": "cylinder", "centers": [{"Z": 1e-6, "a2": 1.0}]},
        grid={"rho": {"xmin": 0, "xmax": 7, "points": 36}, "z": {"xmin": -5, "xmax": 15, "points": 81}},
        initial={"type": "expression", "real": f"{bell}*cos(z)", "imag": f"{bell}*sin(z)"},
        time=SHORT,
        observe=[{"momenta": {"radius": 1.0, "edge": 1.0, "points": 21}}],
    )
    found = result.spectra
    k, q = found["momentum_x"][:, None], found["momentum_y"]
    wanted = (2.0 / np.pi) ** 1.5 * np.exp(-2.0 * (k**2 + (q - 1.0) ** 2))
    # of the lattice of the radius, and the tail that the mask takes
    np.testing.assert_allclose(found["momentum_map"], wanted, atol=1e-3)


def test_momenta_that_no_lattice_has(tridiag):
    tridiag.refuses(
        "observe.0.momenta.kmax.*has momenta up to",
        task="plane",
        system=HARMONIC,
        grid={"x": LINE},
        time=SHORT,
        observe=[{"momenta": {"kmax": 20.0}}],
    )

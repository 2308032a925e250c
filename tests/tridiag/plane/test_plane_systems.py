"""Particles in a plane and vibrating ions against closed forms and published levels, and what is refused."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.results.quantities import scalars
from qsim.tridiag.deck.electron import NoAbsorber
from qsim.tridiag.deck.plane import Release
from qsim.tridiag.deck.planes.particle import Particle
from qsim.tridiag.deck.planes.vibrating_ion import VibratingIon
from qsim.tridiag.output import QUANTITIES
from qsim.tridiag.plane import systems
from qsim.tridiag.plane.build import plan
from qsim.tridiag.plane.lattice import Axis
from qsim.tridiag.plane.levels import lowest
from qsim.tridiag.plane.momenta import release
from qsim_checks.coverage import run_trial

FREE = {"type": "particle", "potential": "none"}
CONDENSATE = {"type": "condensate", "potential": {"type": "harmonic", "omega": [1.0, 1.0]}, "g": 10.0}
PACKET = {"type": "gaussian", "x0": -2.0, "kx": 1.0, "ky": -0.5, "wx": 1.5, "wy": 2.0}


def numbers(tridiag, **blocks):
    """The scalars of a deck by name."""
    return scalars(QUANTITIES["plane"], tridiag.run(task="plane", **blocks))


def lattice_of(system, *axes):
    return systems.lattice_of(system, axes, NoAbsorber(type="none"), 1.0)


def test_a_free_packet(tridiag):
    """Means x0 + k t and the norm beyond a line, in closed form, within the claims; widths s sqrt(1 + (t / 2 s^2)^2)."""
    found = numbers(
        tridiag,
        system=FREE,
        grid={"x": {"xmin": -12, "xmax": 16, "points": 85}, "y": {"xmin": -13, "xmax": 11, "points": 73}},
        initial=PACKET,
        time={"dt": 0.1, "t_final": 4.0, "outputs": 1},
        observe=[{"boxes": {"right": {"x": [3.0, 100.0]}}}],
    )
    width = 1.5 * math.hypot(1.0, 4.0 / (2 * 1.5**2))
    truth = {
        "dipole_final": 2.0,
        "dipole_y_final": -2.0,
        "norm_in_right": 0.5 * math.erfc((3.0 - 2.0) / (math.sqrt(2.0) * width)),
        "energy_initial": 0.625 + 1 / (8 * 1.5**2) + 1 / (8 * 2.0**2),
    }
    for name, value in truth.items():
        assert abs(found[name].value - value) <= found[name].error, name
        assert found[name].error < 0.05, name


def test_currents_of_a_packet():
    """j = |psi|^2 v with the local velocity of a Gaussian that has spread, along both coordinates of other masses."""
    axes = (Axis(-12.0, 0.15, 159, 2.0), Axis(-12.0, 0.2, 119))
    lattice = lattice_of(Particle(type="particle", potential={"type": "none"}, masses=[2.0, 1.0]), *axes)
    x, y = axes[0].x[:, None], axes[1].x
    curvature = (0.3, -0.2)
    phase = 0.7 * x + curvature[0] * x * x - 0.4 * y + curvature[1] * y * y
    psi = np.exp(-(x * x + y * y) / 8.0 + 1j * phase)
    density = np.abs(psi) ** 2
    along, across = lattice.currents(psi)
    # differences of fourth order: h^4 / 30 times the fifth derivative
    assert np.abs(along - density * (0.7 + 2 * curvature[0] * x) / 2.0).max() < 2e-4
    assert np.abs(across - density * (-0.4 + 2 * curvature[1] * y)).max() < 4e-4
    assert lattice.velocities(psi)[1] == pytest.approx(across.sum() * lattice.cell)


@pytest.mark.parametrize(
    ("potential", "half", "points", "wanted", "error"),
    [
        # J. Chem. Phys. 71, 3383 (1979)
        (
            {"type": "expression", "value": "(x^2+y^2)/2 + sqrt(0.0125)*(x^2*y - y^3/3)"},
            7.0,
            69,
            [0.998594773, 1.99007676, 1.99007676],
            3e-4,
        ),
        # radial finite elements: m = 0 and both |m| = 1
        ({"type": "softcore", "a2": 0.64}, 13.0, 103, [-0.4991094, -0.18398797, -0.18398797], 1e-3),
    ],
    ids=["henon_heiles", "hydrogen"],
)
def test_levels_of_a_plane(potential, half, points, wanted, error):
    """The Numerov lattice is of order 4: its errors here are below those stated."""
    axis = Axis(-half, 2 * half / (points + 1), points)
    found = lowest(lattice_of(Particle(type="particle", potential=potential), axis, axis), 3)
    assert found.energies == pytest.approx(wanted, abs=error)
    assert found.energies[1] == pytest.approx(found.energies[2], abs=3e-4)
    assert found.residuals.max() < 1e-7


def test_levels_of_a_vibrating_ion():
    """Finite elements and sine waves: -0.775532934 and -0.766358479, <R> = 2.6555318, <x^2> = 1.6316238."""
    ion = VibratingIon(type="vibrating_ion", masses=[1836.152673] * 2)
    axes = (Axis(0.6, 0.07, 79, ion.weights[0]), Axis(-11.0, 0.275, 79, ion.weights[1]))
    lattice = lattice_of(ion, *axes)
    found = lowest(lattice, 2)
    assert found.energies == pytest.approx([-0.775532934, -0.766358479], abs=2e-5)
    density = found.whole(0, lattice.shape) ** 2 * lattice.cell
    assert density.sum(axis=1) @ axes[0].x == pytest.approx(2.6555318, abs=2e-3)
    assert density.sum(axis=0) @ axes[1].x ** 2 == pytest.approx(1.6316238, abs=2e-3)


def test_an_ion_of_different_nuclei():
    """Places, masses and charges of the relative coordinates, from the coordinates of three charges with their centre at rest."""
    ion = VibratingIon(type="vibrating_ion", masses=[1.5, 4.0])
    r, x = 2.0, 0.7
    # centre of the nuclei, which the centre of all keeps from the origin
    centre = -x / (5.5 + 1.0)
    places = np.array([centre - 4.0 / 5.5 * r, centre + 1.5 / 5.5 * r, centre + x])
    energy = -np.array([1.0, 1.0, -1.0]) @ places
    assert np.array(ion.couplings) @ [r, x] == pytest.approx(energy)
    assert ion.weights == pytest.approx([1.5 * 4.0 / 5.5, 5.5 / 6.5])
    assert np.array(ion.nuclei) * r == pytest.approx(places[:2] - centre)
    # slopes of the surface against differences
    surface, h = ion.terms.surface, 1e-5
    at = np.array([1.7]), np.array([0.4])
    along, across = surface.dV(*at)
    assert along == pytest.approx(
        (surface.V(at[0] + h, at[1]) - surface.V(at[0] - h, at[1])) / (2 * h), rel=1e-7
    )
    assert across == pytest.approx(
        (surface.V(at[0], at[1] + h) - surface.V(at[0], at[1] - h)) / (2 * h), rel=1e-7
    )


def test_a_table_of_both_coordinates(tridiag, tmp_path):
    """A table in angstrom and eV of a quadratic, which cubic splines repeat exactly; one that covers less is refused."""
    x = np.linspace(-6.0, 6.0, 13)
    rows = np.array(np.meshgrid(x, x, indexing="ij")).reshape(2, -1).T
    v = 0.5 * (rows**2).sum(axis=1)
    table = np.column_stack([rows * 0.529177210544, v * 27.211386245981])
    np.savetxt(tmp_path / "v.txt", table, fmt="%.17g")
    units = {"x": "angstrom", "y": "angstrom", "V": "eV"}
    system = {
        "type": "particle",
        "potential": {"type": "table", "file": str(tmp_path / "v.txt"), "units": units},
    }
    axis = Axis(-6.0, 0.25, 47)
    loaded = Particle.model_validate(system)
    lattice = lattice_of(loaded, axis, axis)
    assert lattice.potential() == pytest.approx(0.5 * (axis.x[:, None] ** 2 + axis.x**2), abs=1e-12)
    pull = systems.pulls(loaded, (axis, axis), np.array([[1.0, 2.0]]))[0]
    assert pull.table == pytest.approx(axis.x[:, None] + 2.0 * axis.x, abs=1e-11)
    tridiag.refuses(
        "system.potential.file.*covers x from -6 to 6",
        task="plane",
        system=system,
        grid={"x": {"xmin": -9, "xmax": 9, "points": 60}},
        time={"dt": 0.1, "t_final": 1.0},
    )


GRID = {"x": {"xmin": -9, "xmax": 9, "points": 60}}
PULSE = {"shape": "sin2", "omega": 1.5, "E0": 0.1, "cycles": 2}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"observe": [{"regions": {}}]}, "observe.0.regions.*take boxes"),
        ({"observe": [{"boxes": {"a": {"x": [2, 1]}}}]}, "observe.0.boxes.a.x.*must lie below"),
        ({"observe": [{"boxes": {"a": {"R": [1, 2]}}}]}, "observe.0.boxes.a.R.*the coordinates are x and y"),
        ({"observe": [{"ker": {"R": 5}}]}, "observe.0.ker.*no two nuclei"),
        ({"system": {"type": "vibrating_ion"}}, "grid.R: missing key.*R and x"),
        ({"grid": GRID | {"R": GRID["x"]}}, "grid.R: the coordinates are x and y"),
        ({"initial": {"type": "expression", "real": "exp(-R^2)"}}, "initial.real: R is no coordinate"),
        (
            {
                "system": {"type": "electrons", "potential": "softcore"},
                "laser": {"pulses": [PULSE], "polarization": "y"},
            },
            "laser.polarization.*one direction",
        ),
        (
            {
                "laser": {
                    "polarization": "circular",
                    "pulses": [{"shape": "expression", "value": "0.1", "duration": 2}],
                }
            },
            "laser.pulses.0.shape.*quarter of a cycle",
        ),
        (
            {"system": {"type": "particle", "potential": {"type": "expression", "value": "1e11*x"}}},
            "too large",
        ),
    ],
)
def test_mistakes_are_told_at_their_key(tridiag, changes, text):
    deck = {
        "task": "plane",
        "system": FREE,
        "grid": GRID,
        "initial": PACKET,
        "time": {"dt": 0.1, "t_final": 2.0},
    }
    tridiag.refuses(text, **(deck | changes))


def test_claims_of_random_particles_hold():
    trial = run_trial("tridiag", 1, 0, kind="particle")
    assert trial.failure is None
    assert not trial.broken


def test_a_condensate_at_rest(tridiag):
    """g = 10: mu = 2.06375191, E = 1.59231902, density 0.16845226 in the centre, from radial and spectral codes; it stays."""
    deck = {
        "system": CONDENSATE,
        "grid": {"x": {"xmin": -6, "xmax": 6, "points": 49}},
        "initial": 0,
        "time": {"dt": 0.02, "t_final": 0.5, "outputs": 1},
        "observe": [{"populations": {"levels": 1}}],
    }
    result = tridiag.run(task="plane", **deck)
    found = scalars(QUANTITIES["plane"], result)
    for name, value in (("mu", 2.06375191), ("energy_initial", 1.59231902), ("population_0", 1.0)):
        assert abs(found[name].value - value) <= found[name].error, name
        assert found[name].error < 0.02 * value, name
    assert found["initial_residual"].value < 1e-8
    # the grid errs by h^4
    assert np.abs(result.problem.psi0).max() ** 2 == pytest.approx(0.16845226, rel=2e-3)


def test_a_condensate_breathes(tridiag):
    """<r^2> of a released condensate is 2 E / omega^2 - <r^2>(0) half a period of its breathing later, for any g."""
    result = tridiag.run(
        task="plane",
        system=CONDENSATE | {"g": 60.0},
        grid={"x": {"xmin": -8, "xmax": 8, "points": 65}},
        initial={"type": "eigenstate", "potential": {"type": "harmonic", "omega": [1.2, 1.2]}},
        time={"dt": 0.01, "t_final": math.pi / 2, "outputs": 1, "verify": False},
    )
    lattice = result.problem.lattice
    x = lattice.axes[0].x
    squares = [
        (np.abs(psi) ** 2 * (x[:, None] ** 2 + x**2)).sum() * lattice.cell
        for psi in (result.problem.psi0, result.psi)
    ]
    energy = lattice.energy(result.problem.psi0)
    # steps and the lattice leave some 1e-4
    assert squares[1] == pytest.approx(2.0 * energy - squares[0], rel=1e-3)
    assert squares[1] > 1.3 * squares[0]
    assert lattice.energy(result.psi) == pytest.approx(energy, rel=1e-4)


def test_the_energy_of_fragments():
    """A packet of R with the electron beside one nucleus: dP/dE = mu / K |chi(K)|^2 in closed form."""
    ion = VibratingIon(type="vibrating_ion", masses=[40.0, 60.0])
    axes = (Axis(0.5, 0.06, 399, ion.weights[0]), Axis(-18.0, 0.2, 179, ion.weights[1]))
    wave, width, mass = 4.0, 0.8, ion.weights[0]
    r, x = axes[0].x[:, None], axes[1].x
    chi = np.exp(-(((r - 16.0) / (2 * width)) ** 2) + 1j * wave * r) / (2 * np.pi * width**2) ** 0.25
    u = x - ion.nuclei[1] * r
    psi = chi * np.exp(-(u**2) / 2) / np.pi**0.25
    block = Release(R=8.0, energy=[0.1, 0.8], points=141)
    problem = SimpleNamespace(
        observed=SimpleNamespace(ker=block), lattice=SimpleNamespace(axes=axes), system=ion
    )
    result = SimpleNamespace(problem=problem, psi=psi, spectra={})
    release(result)
    energy = result.spectra["ker_energy"]
    k = np.sqrt(2 * mass * energy)
    wanted = mass / k * np.sqrt(2 / np.pi) * width * np.exp(-2 * (width * (k - wave)) ** 2)
    # the packet lies beyond both edges, which end 9 and 8 standard deviations from its centre
    assert np.abs(result.spectra["ker"] - wanted).max() < 1e-5 * wanted.max()
    assert result.spectra["ker_change"].max() < 1e-5 * wanted.max()


def test_a_scan_is_its_runs(tridiag):
    """Runs of a scan have the numbers of runs of their own, to the bit; those of a condensate have their own ground states."""
    deck = {
        "system": {"type": "electrons", "potential": {"type": "softcore", "Z": 2, "a2": 1.0}},
        "grid": {"x": {"xmin": -12, "xmax": 12, "points": 61}},
        "laser": {"pulses": [PULSE | {"cep": 0.3}]},
        "absorber": {"type": "cap", "width": 3, "strength": 0.5},
        "time": {"dt": 0.1, "outputs": 2, "verify": False},
        "observe": [{"regions": {"radius": 5}}],
    }
    scan = tridiag.run(task="plane", **deck, scan={"E0": [0.1, 0.2]})
    found = scan.each()
    alone = numbers(tridiag, **(deck | {"laser": {"pulses": [PULSE | {"cep": 0.3, "E0": 0.2}]}}))
    for name in ("norm_final", "population_0", "single", "double", "absorbed_single", "dipole_final"):
        assert found[name][1] == alone[name].value, name
    assert found["double"][1] > found["double"][0]
    trap = {
        "system": CONDENSATE,
        "grid": {"x": {"xmin": -6, "xmax": 6, "points": 49}},
        "initial": 0,
        "time": {"dt": 0.02, "t_final": 0.04, "outputs": 1, "verify": False},
    }
    both = tridiag.run(task="plane", **trap, scan={"system": {"g": [0.001, 10.0]}}).each()
    # an oscillator, to first order in g, and as above
    assert both["mu"] == pytest.approx([1.0 + 0.001 / (2 * math.pi), 2.06375191], abs=2e-3)


@pytest.mark.parametrize(
    ("omega", "initial", "levels", "told"),
    [
        ([1.0, 1.0], 1, 1, "initial: .*found: 1;"),
        ([1.3, 1.3], 0, 3, "observe: .*found: 1, 2;"),
        ([1.0, 1.0], 0, 1, None),
        ([1.0, 1.01], 2, 3, None),
        ([0.7, 0.7], 2, 1, "initial: .*found: 2;"),
    ],
)
def test_levels_that_are_degenerate_are_told(tridiag, omega, initial, levels, told):
    """Of an oscillator (0, 1) and (1, 0) are; the level above those that are recorded is looked at, too."""
    loaded = tridiag.load(
        task="plane",
        system={"type": "particle", "potential": {"type": "harmonic", "omega": omega}},
        grid={"x": {"xmin": -9, "xmax": 9, "points": 73}},
        initial=initial,
        time={"dt": 0.1, "t_final": 1.0},
        observe=[{"populations": {"levels": levels}}],
    )
    found = [f"{one.key}: {one.message}" for one in plan(loaded).findings if "degenerate" in one.message]
    assert len(found) == (told is not None)
    if told is not None:
        assert re.match(told, found[0])

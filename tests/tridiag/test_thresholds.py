"""Both sides of every limit of the physics checks: a finding just beyond it, none just before.

The decks are made from the formulas of the checks' docstrings, with the quantity that decides 2 to 5 % off its limit.
"""

import math

import numpy as np
import pytest

from qsim.tridiag.deck.model import Photoelectron
from qsim.tridiag.propagate.eigenstates import Pencil
from tests.tridiag.test_checks import FREE, findings

CW = {"shape": "cw", "omega": 0.1, "E0": 1e-4}
STRIP = {"type": "mask", "width": 50.0}


def severities(text, **setup):
    """Return how severe the findings with this text are."""
    return [finding.severity for finding in findings(**setup) if text in finding.message]


def packet(**keys):
    return {"potential": FREE, "initial": {"type": "gaussian", **keys}}


@pytest.mark.parametrize(
    ("per_cycle", "expected"), [(20.4, []), (19.6, ["warning"]), (8.2, ["warning"]), (7.8, ["error"])]
)
def test_steps_per_optical_cycle(per_cycle, expected):
    dt = 2 * math.pi / CW["omega"] / per_cycle
    found = severities("steps per optical cycle", pulses=[CW], dt=dt, t_final=100 * dt)
    assert found == expected


@pytest.mark.parametrize(
    ("phase", "expected"), [(0.49, []), (0.51, ["warning"]), (1.96, ["warning"]), (2.04, ["error"])]
)
def test_energy_times_the_step(phase, expected):
    """A packet of kinetic energy 2 hartree: its phase per step."""
    dt = phase / 2.0
    setup = packet(k0=2.0, width=20.0)
    assert severities("the phase of Crank-Nicolson", dt=dt, t_final=10 * dt, **setup) == expected


@pytest.mark.parametrize(("largest", "expected"), [(98.0, []), (102.0, ["warning"])])
def test_the_largest_potential_times_the_step(largest, expected):
    dt, reach = 0.05, 150.0
    omega = math.sqrt(2.0 * largest / dt) / reach
    found = severities(
        "the solver loses digits",
        grid=(-reach, reach, 2001),
        potential={"type": "harmonic", "omega": omega},
        dt=dt,
    )
    assert found == expected


@pytest.mark.parametrize(
    ("deviations", "expected"), [(4.91, []), (4.87, ["warning"]), (2.59, ["warning"]), (2.56, ["error"])]
)
def test_a_packet_that_sticks_out_of_the_box(deviations, expected):
    """Both tails: erfc(z / sqrt 2) = 1e-6 at z = 4.892 and 1e-2 at z = 2.576."""
    setup = packet(width=200.0 / deviations)
    assert severities("of the packet lies outside of the box", **setup) == expected


@pytest.mark.parametrize(
    ("points", "expected"), [(4.1, []), (3.9, ["warning"]), (2.05, ["warning"]), (1.95, ["error"])]
)
def test_points_per_wavelength_of_a_packet(points, expected):
    dx, width = 0.4, 5.0
    momentum = 2 * math.pi / (points * dx)
    setup = packet(k0=momentum - 1.5 / width, width=width)
    assert severities("points per wavelength", dt=0.01, t_final=0.1, **setup) == expected


@pytest.mark.parametrize(("points", "expected"), [(4.1, []), (3.9, ["warning"])])
def test_points_per_wavelength_of_electrons_of_ten_up(points, expected):
    dx, omega = 0.4, 0.5
    up = (2 * math.pi / (points * dx)) ** 2 / 20.0
    pulse = {"shape": "cw", "omega": omega, "E0": 2 * omega * math.sqrt(up)}
    assert severities("electrons of 10 Up", pulses=[pulse], dt=0.01, t_final=0.1) == expected


@pytest.mark.parametrize(("points", "expected"), [(4.1, []), (3.9, ["warning"])])
def test_points_per_wavelength_at_the_bottom_of_a_well(points, expected):
    """A shallow packet high above a well: its kinetic energy at the bottom."""
    dx = 0.4
    depth = 0.5 * (2 * math.pi / (points * dx)) ** 2
    found = severities(
        "at the bottom of the potential",
        potential={"type": "square_well", "depth": depth, "width": 2.0, "x0": 150.0},
        initial={"type": "gaussian", "x0": -100.0, "width": 10.0},
        dt=0.01,
        t_final=0.1,
    )
    assert found == expected


@pytest.mark.parametrize(("swing", "expected"), [(0.49, []), (0.51, ["warning"])])
def test_the_vector_potential_times_the_spacing(swing, expected):
    dx, omega = 0.4, 0.5
    pulse = {"shape": "cw", "omega": omega, "E0": swing / dx * omega}
    setup = {"pulses": [pulse], "gauge": "velocity", "dt": 0.05, "t_final": 4 * math.pi / omega}
    assert severities("the central difference of A p is poor", stencil="three_point", **setup) == expected
    assert severities("the central difference of A p is poor", **setup) == []  # Numerov treats A exactly


@pytest.mark.parametrize(
    ("radius", "text", "expected"),
    [
        (147.0, "quiver radius", []),
        (153.0, "within the quiver radius", ["warning"]),
        (196.0, "within the quiver radius", ["warning"]),
        (204.0, "less than the quiver radius", ["error"]),
    ],
)
def test_room_for_the_quiver_motion(radius, text, expected):
    """The walls are 200 bohr away, the strips begin at 150 bohr."""
    pulse = {"shape": "cw", "omega": 0.02, "E0": radius * 0.02**2}
    assert severities(text, pulses=[pulse], absorber=STRIP, t_final=10.0) == expected


@pytest.mark.parametrize(
    ("width", "text", "expected"),
    [
        (98.0, "of the box of", []),
        (102.0, "of the box of 400 bohr", ["warning"]),
        (196.0, "leave nothing", []),
        (204.0, "leave nothing", ["error"]),
    ],
)
def test_strips_that_fill_the_box(width, text, expected):
    assert severities(text, absorber={"type": "mask", "width": width}) == expected


@pytest.mark.parametrize(
    ("deviations", "expected"), [(4.79, []), (4.72, ["warning"]), (2.36, ["warning"]), (2.29, ["error"])]
)
def test_a_packet_in_the_absorber(deviations, expected):
    """One tail: erfc(z / sqrt 2) / 2 = 1e-6 at z = 4.753 and 1e-2 at z = 2.326."""
    width = 8.0
    setup = packet(x0=150.0 - deviations * width, width=width)
    assert severities("lies in the absorber", absorber=STRIP, **setup) == expected


@pytest.mark.parametrize(("reflected", "expected"), [(0.9e-2, []), (1.1e-2, ["warning"])])
def test_reflection_from_an_absorber(reflected, expected):
    """What a weak quadratic potential does not take meets it twice: ``exp(-4/3 strength width / k)`` comes back."""
    k, width = 2.0, 50.0
    strength = -0.75 * k / width * math.log(reflected)
    absorber = {"type": "cap", "width": width, "strength": strength}
    found = severities(
        "come back with probability",
        grid=(-200.0, 200.0, 2001),
        absorber=absorber,
        **packet(k0=k, width=10.0),
    )
    assert found == expected


@pytest.mark.parametrize(("factor", "expected"), [(0.8, []), (1.25, ["warning"])])
def test_density_at_a_wall(factor, expected):
    """A Gaussian of width w has the density ``exp(-L^2 / 2 w^2) / (w sqrt(2 pi))`` at L."""
    reach, dx = 200.0, 0.4
    width = 30.0
    for _ in range(50):
        width = reach / math.sqrt(-2.0 * math.log(factor * 1e-8 * width * math.sqrt(2 * math.pi) / dx))
    found = severities(
        "of the initial state at a wall",
        potential={"type": "gaussian_well", "depth": 0.1, "width": 1.0},
        initial={"type": "gaussian", "width": width},
    )
    assert found == expected


@pytest.mark.parametrize(("level", "expected"), [(1, []), (2, ["warning"])])
def test_levels_that_a_well_holds(level, expected):
    """``depth = s (s + 1) / 2`` with s = 1.9 binds the levels 0 and 1."""
    found = severities(
        "is a state of the box",
        potential={"type": "poschl_teller", "depth": 0.5 * 1.9 * 2.9, "a": 1.0},
        initial={"type": "eigenstate", "level": level},
    )
    assert found == expected


@pytest.mark.parametrize(("part", "expected"), [(1.001, []), (0.999, ["warning"])])
def test_a_run_that_ends_within_the_pulse(part, expected):
    pulse = {"shape": "sin2", "omega": 0.2, "E0": 1e-3, "cycles": 4.0}
    duration = 4.0 * 2 * math.pi / 0.2
    assert severities("before the last pulse does", pulses=[pulse], t_final=part * duration) == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.02, []), (0.98, ["warning"])])
def test_the_window_of_photoelectrons(factor, expected):
    """Half of the spacing ``pi k / L`` of the levels of the box at 0.1 hartree, where Up is small."""
    spacing = math.pi * math.sqrt(0.2) / 400.0
    found = severities(
        "resolves the single states of the box",
        pulses=[CW],
        photoelectron=Photoelectron(gamma=factor * 0.5 * spacing),
    )
    assert found == expected


@pytest.mark.parametrize(("factor", "expected"), [(1.1, []), (0.9, ["warning"])])
def test_levels_that_rounding_mixes(factor, expected):
    """Two wells 50 bohr apart, one higher by 4e-12 of the top of the spectrum: nothing tunnels, the levels differ by that."""
    grid, depth = (-40.0, 40.0, 801), 2.0
    x = np.linspace(*grid)
    wells = -depth * (np.exp(-((x - 25) ** 2)) + np.exp(-((x + 25) ** 2)))
    apart = factor * 4e-12 * Pencil(wells, 0.1, "numerov").top
    formula = f"-2*exp(-(x-25)^2) - 2*exp(-(x+25)^2) + {0.5 * apart!r}*tanh(x)"
    found = severities(
        "closer than rounding resolves", grid=grid, potential={"type": "expression", "value": formula}
    )
    assert found == expected


@pytest.mark.parametrize(("intensity", "expected"), [("0.99e15 W/m2", ["warning"]), ("1.01e15 W/m2", [])])
def test_intensities_that_do_nothing(intensity, expected):
    """1e11 W/cm2 are 1e15 W/m2."""
    pulse = {"shape": "sin2", "wavelength": "800 nm", "intensity": intensity, "cycles": 2.0}
    assert severities("which is very weak", pulses=[pulse]) == expected

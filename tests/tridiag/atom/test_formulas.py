"""Atoms that start from formulas of r: hydrogen's own levels, and a free packet whose motion is known."""

import numpy as np
import pytest

GRID = {"rmax": 60, "dr": 0.25, "l_max": 3, "map": {"dr0": 0.025, "width": 40}}
TIME = {"dt": 0.1, "t_final": 5, "outputs": 2, "verify": False}
PULSE = {"laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.7, "E0": 0.05, "cycles": 1}]}}


def test_the_ground_state_as_a_formula(tridiag):
    """u = r exp(-r) is 1s; 0.8 and -0.6i are the amplitudes of a superposition with 2p."""
    keys = {
        "task": "atom",
        "atom": "hydrogen",
        "grid": GRID,
        **PULSE,
        "time": {"dt": 0.1, "outputs": 2, "verify": False},
    }
    one = tridiag.run(**keys, initial={"type": "expression", "real": "7*r*exp(-r)"})
    two = tridiag.run(**keys, initial="1s")
    np.testing.assert_allclose(one.frames["dipole"], two.frames["dipole"], rtol=0, atol=2e-5)
    assert one.populations["population_1s"] == pytest.approx(two.populations["population_1s"], abs=1e-5)
    channels = [
        {"real": "0.8*2*r*exp(-r)"},
        {"l": 1, "real": "0", "imag": "-0.6*r^2*exp(-r/2)/sqrt(24)"},
    ]
    both = tridiag.run(**keys, initial={"type": "expression", "channels": channels})
    levels = [{"n": 1, "weight": 0.8}, {"n": 2, "l": 1, "weight": "-0.6i"}]
    same = tridiag.run(**keys, initial=levels)
    np.testing.assert_allclose(both.frames["dipole"], same.frames["dipole"], rtol=0, atol=1e-4)
    assert np.abs(same.frames["dipole"]).max() > 0.1


def test_a_free_packet_spreads(tridiag):
    """u = r exp(-r^2 / 4 s^2) in three dimensions without a potential: <r^2> = 3 (s^2 + t^2 / 4 s^2), seen by the norm inside."""
    s, t = 1.5, 5.0
    found = tridiag.run(
        task="atom",
        atom={"type": "expression", "value": "0*r", "Z": 0},
        grid={**GRID, "map": "none", "dr": 0.1},
        initial={"type": "expression", "real": f"r*exp(-r^2/{4 * s * s})"},
        time={**TIME, "dt": 0.02},
        observe=[{"norm_within": [3.0]}],
    )
    width = np.sqrt(s * s + (t / (2 * s)) ** 2)
    r = np.linspace(0.0, 3.0, 3001)
    density = np.sqrt(2 / np.pi) * r**2 / width**3 * np.exp(-(r**2) / (2 * width**2))
    assert found.frames["norm_within"][-1, 0] == pytest.approx(np.trapezoid(density, r), abs=2e-4)


def test_refusals(tridiag):
    keys = {"task": "atom", "atom": "hydrogen", "grid": GRID, "time": TIME}
    tridiag.refuses(
        r"\|m\| = 1 must not exceed l = 0", **keys, initial={"type": "expression", "m": 1, "real": "r"}
    )
    channels = [{"real": "r*exp(-r)"}, {"real": "r*exp(-2*r)"}]
    tridiag.refuses("duplicate of the channel", **keys, initial={"type": "expression", "channels": channels})
    tridiag.refuses("above l = 3", **keys, initial={"type": "expression", "l": 5, "real": "r^6*exp(-r)"})
    tridiag.refuses("outside of the box", **keys, initial={"type": "expression", "real": "r*exp(-0.02*r)"})

"""A molecule under a formula that nothing searches: what its steps leave of the formula is claimed."""

from __future__ import annotations

import numpy as np
import pytest

import qsim

WIDTH, CENTRE, HEIGHT = 0.02, 21.7, 6.0


@pytest.mark.parametrize("steps", [160, 480])
def test_a_pulse_between_two_steps_of_a_molecule(tmp_path, steps):
    """A harmonic oscillator in a linear field: its coherent state has P1 = a exp(-a), a = |integral of E exp(iwt)|^2/(2 m w)."""
    made = {
        "method": "qoc",
        "system": {
            "grid": {"xmin": -9, "xmax": 9, "points": 240},
            "mass": 1,
            "potential": {"type": "harmonic", "omega": 0.4},
            "dipole": {"type": "linear"},
            "initial": 0,
            "target": 1,
        },
        "time": {"T": 50, "steps": steps},
        "control": {
            "guess": {
                "type": "expression",
                "value": f"0.006*cos(0.4*t) + {HEIGHT}*exp(-((t - {CENTRE})/{WIDTH})^2)",
            }
        },
        "propagator": {"type": "eigenbasis", "states": 24},
        "optimizer": "none",
    }
    with qsim.run(made, output=tmp_path / "r", figures="none") as results:
        held, continuous = (results.scalars[n] for n in ("probability", "probability_continuous"))
        assert results.scalars["error_slots"].value <= held.error
    t = (np.arange(200_000) + 0.5) * 50 / 200_000
    kick = np.mean(0.006 * np.cos(0.4 * t) * np.exp(0.4j * t)) * 50
    kick += HEIGHT * WIDTH * np.sqrt(np.pi) * np.exp(0.4j * CENTRE - (0.2 * WIDTH) ** 2)
    a = abs(kick) ** 2 / 0.8
    truth = a * np.exp(-a)
    assert abs(continuous.value - truth) < continuous.error < 1e-4
    assert 1e-3 < abs(held.value - truth) < held.error

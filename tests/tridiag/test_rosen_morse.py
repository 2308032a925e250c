"""The potential of Rosen and Morse: its levels in closed form, its slope by differences."""

import numpy as np
import pytest

import qsim
from qsim.tridiag.deck.potentials.rosen_morse import RosenMorse
from qsim.tridiag.tdse import potentials

DEPTH, STEP, A = 6.0, 0.8, 1.0
# depth = s (s + 1) / (2 a^2)
S = 0.5 * (np.sqrt(1.0 + 8.0 * DEPTH * A**2) - 1.0)


def level(n):
    """Return level n of Rosen and Morse (1932): -k^2 / 2 a^2 - (step a)^2 / 2 k^2 with k = s - n."""
    k = S - n
    return -(k**2) / (2.0 * A**2) - (STEP * A) ** 2 / (2.0 * k**2)


@pytest.mark.parametrize("n", [0, 1])
def test_levels_are_those_of_rosen_and_morse(n):
    deck = {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -15, "xmax": 15, "points": 3001},
        "potential": {"type": "rosen_morse", "depth": DEPTH, "step": STEP, "a": A},
        "initial": {"type": "eigenstate", "level": n},
        "time": {"dt": 0.01, "t_final": 0.05},
        "observe": ["energy"],
        "run": {"device": "cpu"},
    }
    results = qsim.run(deck)
    # Numerov leaves dx^4 p^6 / 480 with p^2 about 2 depth
    np.testing.assert_allclose(results.scalars["energy_initial"].value, level(n), rtol=0, atol=1e-7)


def test_slope_is_that_of_the_values():
    block = RosenMorse(type="rosen_morse", depth=0.8, step=-0.3, a=1.4, x0=0.5)
    x, h = np.linspace(-12.0, 12.0, 801), 1e-4
    difference = (block.V(x + h) - block.V(x - h)) / (2.0 * h)
    # h^2/6 times the third derivative, which is below 3
    np.testing.assert_allclose(potentials.slope(block, x), difference, rtol=0, atol=h**2 / 6.0 * 3.0)


def test_plateaus():
    block = RosenMorse(type="rosen_morse", depth=0.8, step=-0.3)
    np.testing.assert_allclose(block.V(np.array([-1e4, 0.0, 1e4])), [0.3, -0.8, -0.3], rtol=0, atol=1e-15)

"""Density at the edge of the box."""

from __future__ import annotations

import math

__all__ = ["BEYOND", "BOX_DENSITY", "outer_density"]

# 1/bohr: largest density at R of a state that is contained in the box.
BOX_DENSITY = 1e-8
# Decay lengths by which the box of a finer grid is larger.
BEYOND = 8.0


def outer_density(R: float, ionisation: float, charge: float) -> float:
    """Return the density at R of an electron that leaves a charge behind, 1/bohr: ``u ~ r^nu exp(-kappa r)``, normalised.

    ``kappa = sqrt(2 I)`` and ``nu = charge / kappa``; in hydrogen nu is the principal quantum number.
    """
    # u^2 = (2 kappa)^(2 nu + 1) r^(2 nu) exp(-2 kappa r) / Gamma(2 nu + 1), in logarithms,
    # since the power overflows in large boxes. Inside the maximum of the tail the formula has
    # no meaning, and the density is at most 2 kappa.
    kappa = math.sqrt(2.0 * ionisation)
    x, power = 2.0 * kappa * R, 2.0 * charge / kappa
    return 2.0 * kappa * math.exp(min(power * math.log(x) - x - math.lgamma(power + 1.0), 0.0))

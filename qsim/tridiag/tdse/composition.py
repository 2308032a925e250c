"""Stages of the steps that carry a state on."""

__all__ = ["STAGES", "SUZUKI"]

# 4 q^3 + (1 - 4 q)^3 = 0: the third-order errors of the five steps cancel
SUZUKI = 1.0 / (4.0 - 4.0 ** (1.0 / 3.0))
# lengths in steps, by order; the middle stage goes back in time by 0.66 dt
STAGES = {2: (1.0,), 4: (SUZUKI, SUZUKI, 1.0 - 4.0 * SUZUKI, SUZUKI, SUZUKI)}

"""Averages over twists of estimates from independent runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qsim.qmc.statistics.blocking import Estimate

__all__ = ["average"]


def average(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    r"""Return the mean ``sum w_t x_t / sum w_t`` of independent estimates with its error :math:`\sqrt{\sum w_t^2\epsilon_t^2}`.

    The error is that of the sampling; the twists themselves are a quadrature, whose error is not part of it.
    """
    total = sum(weights)
    shares = [weight / total for weight in weights]
    errors = [one.error for one in estimates]
    known = [error for error in errors if error is not None]
    error = None
    if len(known) == len(errors):
        error = math.sqrt(sum((share * x) ** 2 for share, x in zip(shares, known, strict=True)))
    return replace(
        estimates[0],
        mean=sum(share * one.mean for share, one in zip(shares, estimates, strict=True)),
        error=error,
        autocorrelation_time=max(one.autocorrelation_time for one in estimates),
        blocks=min(one.blocks for one in estimates),
        plateau=all(one.plateau for one in estimates),
    )

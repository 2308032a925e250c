r"""Averages over twists of estimates from independent runs.

With shares :math:`s_t` of sum 1 the mean is :math:`\sum s_tx_t`, its error :math:`\epsilon=\sqrt{\sum s_t^2\epsilon_t^2}` with
the degrees of freedom :math:`\epsilon^4/\sum s_t^4\epsilon_t^4\nu_t^{-1}` (Welch and Satterthwaite).  The error is that of the
sampling; the twists themselves are a quadrature, whose error is not part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.statistics.blocking import BlockingCurve, Estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["average"]


def average(estimates: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Return the average of independent estimates; without an error if one of them has none."""
    shares = np.asarray(weights) / np.sum(weights)
    mean = float(shares @ [one.mean for one in estimates])
    error = error_of_error = None
    degrees = 0.0
    known = [one.error for one in estimates if one.error is not None]
    if len(known) == len(estimates):
        errors, uncertainties = _combined(shares, known, [one.error_of_error or 0.0 for one in estimates])
        error, error_of_error = float(errors), float(uncertainties)
        few = min(one.degrees for one in estimates)
        degrees = 0.5 * (error / error_of_error) ** 2 if error_of_error > 0.0 else few
    return Estimate(
        mean,
        error,
        error_of_error,
        autocorrelation_time=max(one.autocorrelation_time for one in estimates),
        blocks=min(one.blocks for one in estimates),
        level=max(one.level for one in estimates),
        plateau=all(one.plateau for one in estimates),
        curve=_curve([one.curve for one in estimates], shares),
        reason=next((one.reason for one in estimates if one.reason), ""),
        degrees=degrees,
    )


def _curve(curves: Sequence[BlockingCurve], shares: NDArray[np.float64]) -> BlockingCurve:
    """Return the error of the average by level, of the levels that all twists have."""
    levels = min(one.length.size for one in curves)
    error, error_of_error = _combined(
        shares, [one.error[:levels] for one in curves], [one.error_of_error[:levels] for one in curves]
    )
    blocks = np.min([one.blocks[:levels] for one in curves], axis=0)
    return BlockingCurve(curves[0].length[:levels], blocks, error, error_of_error)


def _combined(
    shares: NDArray[np.float64], errors: ArrayLike, uncertainties: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the errors of averages over the first axis, and their uncertainties."""
    e, u = np.asarray(errors, np.float64), np.asarray(uncertainties, np.float64)
    s = shares.reshape(-1, *np.ones(e.ndim - 1, int))
    error = np.sqrt(((s * e) ** 2).sum(axis=0))
    spread = np.sqrt(((s**2 * e * u) ** 2).sum(axis=0))
    return error, np.divide(spread, error, out=np.zeros_like(error), where=error > 0.0)

"""Figures of a steady state: profile and current, rates, emission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.plotting import COLORS, figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def profile(r: Results) -> Figure | None:
    """Draw Sz and the current along the sites, and the slowest rates with their frequencies."""
    if "mode_rate" not in r or "sz" not in r or "current" not in r:
        return None
    fig = figure("double", 2.4)
    left, middle, right = fig.subplots(1, 3)
    left.plot(r["site"], r["sz"], "o-", color=COLORS["blue"], markersize=3)
    left.set_xlabel("site")
    left.set_ylabel(r"$\langle S^z_j\rangle$")
    if r["current"].size:
        middle.plot(r["current"], "s-", color=COLORS["vermillion"], markersize=3)
    middle.set_xlabel("bond j, j + 1")
    middle.set_ylabel("current (J)")
    right.plot(r["mode_frequency"], r["mode_rate"], "o", color=COLORS["black"], markersize=3)
    right.set_xlabel("frequency (J)")
    right.set_ylabel("rate (J)")
    return fig


def emission(r: Results) -> Figure | None:
    """Draw the spectrum of the emission."""
    if "emission" not in r:
        return None
    fig = figure("single")
    ax = fig.subplots()
    ax.plot(r["emission_omega"], r["emission"], color=COLORS["blue"])
    ax.set_xlabel(r"$\omega$ (J)")
    ax.set_ylabel(r"$S(\omega)$")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"steady": profile, "emission": emission}

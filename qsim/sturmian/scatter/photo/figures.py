"""Figures of photoionisation over many photon energies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import figure
from qsim.sturmian.radial.curves import CYCLE
from qsim.sturmian.scatter.cross_sections.kinematics import HARTREE_EV

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

LINES = ("-", "--", ":")
# Levels with a curve of their own.
SHOWN = 6
# Most resonances that have a panel, and widths that it shows on either side.
PANELS, WINDOW = 2, 6.0
# Distance of beta from 2 that is rounding.
TRIVIAL = 1e-9
# Energies below which a curve has markers.
FEW_POINTS = 20


def _thresholds(ax: Axes, r: Results) -> None:
    """Mark the thresholds of the ion within the range of a panel."""
    low, high = ax.get_xlim()
    for n, energy in zip(r["threshold/n"], r["threshold/energy"], strict=True):
        if low < energy < high:
            ax.axvline(float(energy), color="0.7", linewidth=0.6, zorder=0)
            ax.annotate(
                f"$n={int(n)}$", (float(energy), 1.0), xycoords=("data", "axes fraction"), fontsize=6, color="0.4",
                ha="right", va="top", rotation=90,
            )  # fmt: skip


def photoabsorption(r: Results) -> Figure | None:
    """Draw the cross section of all gauges over the photon energy, thresholds marked, with measurements where there are some."""
    if "sigma_total" not in r or "photon_energy" not in r:
        return None
    x, sigma, error = r["photon_energy"], r["sigma_total"], np.nan_to_num(r["sigma_total_error"])
    fig = figure("single")
    ax = fig.subplots()
    for k, gauge in enumerate(r["gauge"]):
        color = CYCLE[k % len(CYCLE)]
        ax.fill_between(
            x, sigma[:, k] - error[:, k], sigma[:, k] + error[:, k], color=color, alpha=0.25, linewidth=0
        )
        ax.plot(
            x, sigma[:, k], color=color, linestyle=LINES[k % len(LINES)], marker=_marker(x), label=str(gauge)
        )
    _span(ax, x)
    # A narrow resonance or a slow electron must not hide the rest.
    top = max(1.3 * float(np.quantile(sigma, 0.98)), 1e-6)
    if "measured/energy" in r:
        # A file of two columns has no errors.
        known = "measured/error" in r
        yerr = r["measured/error"] if known else None
        ax.errorbar(
            r["measured/energy"], r["measured/sigma"], yerr=yerr, fmt="o", markersize=2.5, color="0.2", linewidth=0.6,
            label="measured", zorder=3,
        )  # fmt: skip
    ax.set_ylim(0.0, top)
    _thresholds(ax, r)
    ax.set_xlabel("photon energy (eV)")
    ax.set_ylabel(r"$\sigma$ (Mb)")
    ax.legend()
    return fig


def _marker(x: NDArray[np.float64]) -> str | None:
    """Return the marker of a curve: few energies are points, between which nothing was computed."""
    return "o" if x.size < FEW_POINTS else None


def _span(ax: Axes, x: NDArray[np.float64]) -> None:
    """Let an axis end where the energies do, if there are two of them."""
    if x[-1] > x[0]:
        ax.set_xlim(float(x[0]), float(x[-1]))


def photo_levels(r: Results) -> Figure | None:
    """Draw the cross sections of the levels of the ion over the photon energy, logarithmic."""
    if "photon_energy" not in r or "sigma_level" not in r:
        return None
    x, sigma = r["photon_energy"], r["sigma_level"]
    fig = figure("single")
    ax = fig.subplots()
    for k, name in enumerate(r["level"][:SHOWN]):
        y = sigma[:, 0, k]
        # A level that is closed at all energies has no curve.
        if not np.any(y > 0.0):
            continue
        ax.plot(
            x, np.where(y > 0.0, y, np.nan), color=CYCLE[k % len(CYCLE)], marker=_marker(x), label=str(name)
        )
    ax.set_yscale("log")
    _span(ax, x)
    _thresholds(ax, r)
    ax.set_xlabel("photon energy (eV)")
    ax.set_ylabel(r"$\sigma$ (Mb)")
    ax.legend(ncols=2)
    return fig


def asymmetry(r: Results) -> Figure | None:
    """Draw the asymmetry parameter of every level of the ion over the photon energy, with its error."""
    if "photon_energy" not in r or "beta" not in r:
        return None
    x, beta, error = r["photon_energy"], r["beta"], np.nan_to_num(r["beta_error"])
    # An s level of an isotropic atom leaves no choice: a line at 2 tells nothing.
    if np.all(np.abs(beta[np.isfinite(beta)] - 2.0) < TRIVIAL):
        return None
    fig = figure("single")
    ax = fig.subplots()
    for k, name in enumerate(r["level"][:SHOWN]):
        color = CYCLE[k % len(CYCLE)]
        y, e = beta[:, 0, k], error[:, 0, k]
        # A level that is closed at all energies has no curve.
        if not np.any(np.isfinite(y)):
            continue
        ax.fill_between(
            x, np.maximum(y - e, -1.0), np.minimum(y + e, 2.0), color=color, alpha=0.2, linewidth=0
        )
        ax.plot(x, y, color=color, marker=_marker(x), label=str(name))
    _span(ax, x)
    ax.set_ylim(-1.1, 2.1)
    _thresholds(ax, r)
    ax.set_xlabel("photon energy (eV)")
    ax.set_ylabel(r"asymmetry parameter $\beta$")
    ax.legend(ncols=2)
    return fig


def fano(r: Results) -> Figure | None:
    """Draw the strongest resonances with their fits of Fano's profile."""
    from qsim.sturmian.scatter.photo.fano import profile

    if "resonance/fit" not in r or not r["resonance/fit"].shape[1]:
        return None
    fits = r["resonance/fit"][0]
    known = [p for p in range(fits.shape[0]) if np.all(np.isfinite(fits[p]))]
    if not known:
        return None
    # The strongest ones: what each adds to the integral of the cross section.
    strength = (fits[:, 2] ** 2 + 1.0) * fits[:, 3] * fits[:, 1]
    strongest = sorted(sorted(known, key=lambda p: -float(strength[p]))[:PANELS])
    fig = figure("single" if len(strongest) == 1 else "double")
    axes = np.ravel(np.atleast_1d(fig.subplots(1, len(strongest), squeeze=False)))
    x, sigma = r["photon_energy"], r["sigma_total"][:, 0]
    # From total energies to those of the photon.
    shift = float(x[0]) - float(r["total_energy"][0]) * HARTREE_EV
    for ax, p in zip(axes, strongest, strict=True):
        parameters = fits[p]
        centre = parameters[0] * HARTREE_EV + shift
        half = WINDOW * parameters[1] * HARTREE_EV
        fine = np.linspace(-WINDOW, WINDOW, 400) * parameters[1] + parameters[0]
        curve = profile(fine, *parameters)
        ax.plot(x, sigma, "o", markersize=2.5, fillstyle="none", color=CYCLE[0], label="computed")
        ax.plot(fine * HARTREE_EV + shift, curve, color=CYCLE[1], label="Fano")
        ax.set_title(
            f"$q = {parameters[2]:.3f}$, $\\Gamma = {parameters[1] * HARTREE_EV * 1e3:.4g}$ meV",
            loc="left",
            fontsize=7,
        )
        ax.set_xlabel("photon energy (eV)")
        ax.ticklabel_format(axis="x", useOffset=False)
        ax.locator_params(axis="x", nbins=4)
        ax.set_xlim(centre - half, centre + half)
        ax.set_ylim(0.0, 1.1 * float(curve.max()))
    axes[0].set_ylabel(r"$\sigma$ (Mb)")
    axes[0].legend()
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "photoabsorption": photoabsorption,
    "fano": fano,
    "photo_levels": photo_levels,
    "asymmetry": asymmetry,
}

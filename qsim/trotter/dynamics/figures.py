"""The figure of spectral functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.results.plotting import figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results


def spectral(r: Results) -> Figure | None:
    """Draw S(q, w): a map over all q, with the continuum of two spinons of the infinite ring, or curves of some."""
    if "structure" not in r:
        return None
    omega, values = r["omega"], r["structure"]
    q = r["q"] if "q" in r else r["dynamics_site"]
    fig = figure("double", 3.0)
    ax = fig.subplots()
    if q.size < 5 or "q" not in r:
        for place, row in zip(q, values, strict=True):
            ax.plot(omega, row, label=rf"$q = {place:g}\pi$" if "q" in r else f"site {place:d}")
        ax.set_xlabel(r"$\omega$ ($J$)")
        ax.set_ylabel(r"$S(q, \omega)$" if "q" in r else r"$S_j(\omega)$")
        ax.legend()
        return fig
    # of unlike components the real part, of either sign
    signed = "structure_imag" in r
    shown = values.T if signed else np.sqrt(values.T)
    image = ax.pcolormesh(
        q, omega, shown, shading="nearest", cmap="RdBu_r" if signed else "magma", rasterized=True
    )
    if signed:
        limit = float(np.abs(values).max()) or 1.0
        image.set_clim(-limit, limit)
    label = r"Re $S^{ab}(q, \omega)$" if signed else r"$\sqrt{S(q, \omega)}$"
    fig.colorbar(image, ax=ax, label=label, pad=0.02)
    for name in ("continuum_lower", "continuum_upper"):
        if name in r:
            ax.plot(q, r[name], color="white", linestyle="--", linewidth=0.8)
    if "continuum_lower" in r:
        ax.set_title("dashed: edges of the two-spinon continuum", loc="left")
    ax.set_ylim(float(omega[0]), float(omega[-1]))
    ax.set_xlabel(r"$q/\pi$")
    ax.set_ylabel(r"$\omega$ ($J$)")
    return fig


FIGURES: dict[str, Callable[[Results], Figure | None]] = {"spectral": spectral}

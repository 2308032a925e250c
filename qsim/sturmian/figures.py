"""The page that a sturmian run leaves: what its task is about, most important first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qsim.core.results.plotting import compose
from qsim.sturmian.basis import figures as basis
from qsim.sturmian.bound import figures as bound
from qsim.sturmian.integrals import figures as integrals
from qsim.sturmian.resonances import figures as resonances
from qsim.sturmian.response import figures as response
from qsim.sturmian.scatter import figures as scatter
from qsim.sturmian.scatter.photo import figures as photo

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

PARTS = (
    "convergence",
    "photoabsorption",
    "fano",
    "photo_levels",
    "asymmetry",
    "transitions",
    "polarisability",
    "cross_sections",
    "resonances",
    "partial_waves",
    "sharing",
    "angles",
    "pair_density",
    "density",
    "levels",
    "wave",
    "scans",
    "basis",
    "rates",
    "rank",
    "beta",
)


def overview(r: Results) -> Figure | None:
    """Draw energies and their convergence, cross sections, densities, or the functions, as far as the file has them."""
    # beside cross sections of several energies, how they add up says more than the wave of one of them
    several = "sigma_total" in r and "collision_energy" in r and "sdcs" not in r
    swap = {"wave": "unitarity"} if several else {}
    return compose(r, [FIGURES[swap.get(name, name)] for name in PARTS])


FIGURES: dict[str, Callable[[Results], Figure | None]] = {
    "overview": overview,
    **basis.FIGURES,
    **bound.FIGURES,
    **response.FIGURES,
    **integrals.FIGURES,
    **scatter.FIGURES,
    **photo.FIGURES,
    **resonances.FIGURES,
}

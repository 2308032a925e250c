"""Memory of the polarisation at t = 0."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qsim.core.deck.blocks import Count, Finding
from qsim.core.errors import NumericsError
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.initial.ising import BasisState, DomainWallState, NeelState
from qsim.trotter.initial.product import PolarisedState
from qsim.trotter.initial.random import A1State
from qsim.trotter.observables.base import Array, Final, Item, Needs, Observable, Setting, View, shifted

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# <Sz> at t = 0 below which all of it is rounding, in double and in single precision
PATTERN, PATTERN_SINGLE = 1e-12, 1e-5
# square of a pattern that is none
NEGLIGIBLE = 1e-300


def imbalance(spins: "NDArray[Any]", pattern: "NDArray[Any]") -> float:
    """Return ``sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2`` with the pattern ``Sz_j(0)``; 0 without a pattern."""
    # A pattern of zeros divides nothing: `_pattern` refuses it before an evolution.
    square = float(pattern @ pattern)
    return float(pattern @ spins) / square if square > NEGLIGIBLE else 0.0


def _shifted_pattern(problem: Any, lost: float) -> float | None:
    """Return how far the imbalance moves; known where every spin was up or down: ``|sum_j p_j Sz_j| <= sum_j p_j^2`` then."""
    return shifted(1.0, lost) if isinstance(problem.start, BasisState | NeelState | DomainWallState) else None


class Imbalance(Observable):
    """``sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2``."""

    key = "imbalance"
    text = "sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2: memory of the pattern at t = 0"
    word = True
    tasks = ("evolve", "floquet")
    arrays = (Array("imbalance", "", "sum_j Sz_j(0) Sz_j(t) / sum_j Sz_j(0)^2"),)
    finals = (Final("imbalance_final", "", "imbalance at t_final", "imbalance", -1, True, _shifted_pattern),)
    curve = "imbalance"

    @property
    def needs(self) -> Needs:
        """The moments along z."""
        return Needs(axes=frozenset({"z"}))

    def values(self, view: View) -> dict[str, Any]:
        """Return the imbalance.

        Raises
        ------
        NumericsError
            If there is no pattern at t = 0.
        """
        # The first view is at t = 0: its polarisation is the pattern of all later ones.
        spins = view.spins("z")
        pattern = view.first("pattern", lambda: self._pattern(spins, view.single))
        return {"imbalance": imbalance(spins, pattern)}

    @staticmethod
    def _pattern(spins: "NDArray[Any]", single: bool) -> "NDArray[Any]":
        """Return the pattern at t = 0, unless it is rounding."""
        # The bound depends on the precision in which the spins were computed.
        least, largest = PATTERN_SINGLE if single else PATTERN, float(abs(spins).max())
        if largest < least:
            raise NumericsError(
                f"imbalance: the largest |<Sz>| at t = 0 is {largest:.2g}, and a pattern below {least:g} is "
                "rounding, by which nothing can be divided",
                hint="leave imbalance out, or take an initial state with a pattern along z",
            )
        return spins

    @classmethod
    def physics(cls, item: Item, key: str, setting: Setting) -> Iterator[Finding]:
        """Yield that the initial state has no pattern."""
        # States whose <Sz> vanishes by symmetry are known before the run.
        initial = setting.initial
        if isinstance(initial, PolarisedState) and initial.axis[-1] != "z":
            yield Finding(
                f"{key}.imbalance",
                f"all spins are along {initial.axis} at t = 0, so that there is no pattern <Sz> to compare with; observe "
                "sx or sy, or take an initial state with a pattern along z",
            )
        if initial.is_random:
            yield Finding(
                f"{key}.imbalance",
                "the imbalance compares with a pattern at t = 0, which random states lack",
                "warning",
            )


def polarisation(r: "Results") -> "Figure | None":
    """Draw the polarisation against site and time: its spread from one site."""
    import numpy as np

    from qsim.core.results.plotting import figure
    from qsim.trotter.drawing import color_map, time_axis, times

    t = times(r)
    if "polarisation" not in r or t.size < 2:
        return None
    fig = figure("double", 2.6)
    ax = fig.subplots()
    values = r["polarisation"]
    limit = float(np.abs(values).max()) or 1.0
    color_map(fig, ax, t, r["site"], values, r"$2\langle S^z_k\rangle$", limit)
    ax.set_ylabel("site k")
    time_axis(ax, t)
    return fig


class Autocorrelation(Observable):
    """``4 Tr[S^z_k(t) S^z_j] / 2^N`` as ``2 <S^z_k>``, from the state of Eq. (A.1) with site j up.

    The statistical error is of order ``2^(-N/2)``.
    """

    key = "autocorrelation"
    form = Count
    text = "4 Tr[Sz_j(t) Sz_site]/2^N from the a1 state of that site: 2<Sz_j(t)>; polarisation of all sites"
    # starts from the a1 state
    example = None
    arrays = (
        Array("autocorrelation", "", "4 Tr[Sz_j(t) Sz_j]/2^N, as 2<Sz_j>"),
        Array("polarisation", "", "4 Tr[Sz_k(t) Sz_j]/2^N, as 2<Sz_k>", ("site",)),
    )
    finals = (Final("autocorrelation_final", "", "autocorrelation at t_final", "autocorrelation"),)
    figures = {"polarisation": polarisation}
    curve = r"$4\,\mathrm{Tr}[S^z_j(t) S^z_j]/2^N$"

    @property
    def needs(self) -> Needs:
        """The moments along z."""
        return Needs(axes=frozenset({"z"}))

    def values(self, view: View) -> dict[str, Any]:
        """Return the polarisation of all sites, and of the site which was up at t = 0."""
        # 4 Tr[Sz_k(t) Sz_j] / 2^N is 2 <Sz_k> of the state with site j up.
        twice_sz = 2.0 * view.spins("z")
        return {"polarisation": twice_sz, "autocorrelation": float(twice_sz[self.given])}

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield a site that does not exist, and an initial state that does not belong to the site."""
        site, place = item.value(cls.key), f"{key}.{cls.key}"
        yield from check_sites([site], deck.system.spins, place)
        if not deck.system.halves:
            yield Finding(
                place,
                "of larger spins the a1 state holds the projector on m = S, which is not Sz; take time_correlation, from haar or "
                "random_phase",
            )
        if not (isinstance(deck.initial, A1State) and deck.initial.up == [site]):
            yield Finding(
                place,
                f"needs the infinite-temperature state of that site, initial: {{type: a1, up: [{site}]}}",
            )

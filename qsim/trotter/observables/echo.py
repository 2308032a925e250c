"""Loschmidt echoes: a state goes back under another Hamiltonian."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, Finding, PositiveCount
from qsim.trotter.deck.couplings import Term
from qsim.trotter.deck.sites import Sites, check_sites
from qsim.trotter.deck.term_rules import check_terms
from qsim.trotter.observables.base import Array, Final, Item, Label, Needs, Observable, Task, shifted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# loss of an echo below which the loss is drawn
NEAR_ONE = 0.01


class EchoBlock(Block):
    """Loschmidt echo: forward with H, back with H + Sigma; ``|<psi0|exp(i(H+Sigma)t) exp(-iHt)|psi0>|^2``."""

    sigma: list[Term] = Field(
        default=[],
        description="perturbation of the way back, terms as in system.terms; empty: what rounding leaves",
    )
    local: Sites | None = Field(
        default=None, description="sites whose polarisation 2<Sz> is observed after the return"
    )
    times: Literal["all", "output", "final"] | PositiveCount = Field(
        default="all",
        description="at which output times: all (or output), final, or a number of them, evenly chosen",
    )
    scheme: Literal["auto", "return", "overlap"] = Field(
        default="auto",
        description="return: the state is carried back from every output time; overlap: two states are carried forward, which "
        "gives the same echo at the cost of one of them; auto: overlap unless sigma is empty or local is asked for",
    )

    @property
    def overlap(self) -> bool:
        """True if two states go forward."""
        if self.scheme == "auto":
            # two states forward are cheaper for many times; without
            # Sigma, or for local values, the state itself must come back
            return bool(self.sigma) and self.local is None
        return self.scheme == "overlap"


def _local_sites(observable: "Echo", task: Task) -> list[int] | None:
    return observable.local or None


def draw(r: "Results") -> "Figure | None":
    """Draw the echo with the local echo; of an echo near one, its distance from one on a logarithmic axis."""
    import numpy as np

    from qsim.core.results.plotting import COLORS, figure
    from qsim.trotter.drawing import CURVES, curve, time_axis, times

    if "echo" not in r:
        return None
    # Echoes at fewer times than the output have an axis of their own.
    t = r["echo_time"] if "echo_time" in r else times(r)
    if t.size < 2:
        return None
    fig = figure("single", 2.6)
    ax = fig.subplots()
    # An echo within a percent of one looks constant on a linear axis.
    lost = np.abs(1.0 - r["echo"])
    if float(lost.max()) < NEAR_ONE:
        _draw_loss(ax, r, t, lost)
    else:
        curve(ax, r, "echo", t, color=COLORS["blue"], label="echo M")
        # Both curves need the same times.
        if "return_probability" in r and "echo_time" not in r:
            ax.plot(t, r["return_probability"], color="0.6", linewidth=0.8, label="return probability")
        if "echo_local" in r:
            ax.set_prop_cycle(color=list(COLORS.values())[1:])
            for k, site in enumerate(r["echo_site"][:CURVES]):
                label = rf"$2\langle S^z_{{{int(site)}}}\rangle$"
                curve(ax, r, "echo_local", t, k, linestyle="--", label=label)
        ax.set_ylabel("echo")
    ax.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, borderaxespad=0.1)
    time_axis(ax, t)
    ax.set_xlabel(r"time of return ($1/J$)")
    return fig


def _draw_loss(ax: "Axes", r: "Results", t: "NDArray[Any]", lost: "NDArray[Any]") -> None:
    from qsim.core.results.plotting import COLORS
    from qsim.trotter.drawing import FEW

    # A logarithmic axis has no zero: neither t = 0 nor an exact return.
    moved = (t > 0) & (lost > 0)
    marks: dict[str, Any] = {"marker": "o", "markersize": 2.5} if t.size <= FEW else {}
    ax.semilogy(t[moved], lost[moved], color=COLORS["blue"], label="|1 - M|", **marks)
    # Divided by the norm, rounding of the norm drops out of the loss.
    if "echo_normalised" in r:
        normalised = abs(1.0 - r["echo_normalised"])
        seen = (t > 0) & (normalised > 0)
        ax.semilogy(
            t[seen], normalised[seen], color=COLORS["vermillion"], linestyle="--", label="normalised", **marks
        )
    ax.set_ylabel("|1 - M|")


def _shifted_echo(problem: Any, lost: float) -> float:
    """Return how far an echo moves: there may be the error of the state on the way forward, and on the way back."""
    return shifted(1.0, 2.0 * lost)


class Echo(Observable):
    """``|<psi0|exp(i(H + Sigma)t) exp(-iHt)|psi0>|^2``; its values are taken by the trajectory, which makes the way back."""

    key = "echo"
    form = EchoBlock
    text = "Loschmidt echo"
    word: ClassVar[Any] = {}
    example = {"sigma": [{"type": "field", "axis": "z", "values": 0.3}], "local": [0, 2]}
    arrays = (
        Array("echo", "", "|<psi0|exp(i(H+Sigma)t) exp(-iHt)|psi0>|^2"),
        Array("echo_normalised", "", "echo divided by <psi|psi> after the return"),
        Array("echo_local", "", "2<Sz> after the return", ("echo_site",)),
    )
    labels = (Label("echo_site", "", "sites of the local echo", ("echo_site",), _local_sites),)
    finals = (
        Final("echo_final", "", "Loschmidt echo after the last return", "echo", -1, True, _shifted_echo),
        Final(
            "echo_normalised_final",
            "",
            "echo divided by <psi|psi> after the return",
            "echo_normalised",
            error=_shifted_echo,
        ),
    )
    figures = {"echo": draw}

    @classmethod
    def block_in(cls, items: Iterable[Item]) -> EchoBlock | None:
        """Return the block of a deck, None without an echo."""
        return next(iter(cls.given_in(items)), None)

    @property
    def block(self) -> EchoBlock:
        """Block of the deck."""
        block: EchoBlock = self.given
        return block

    @property
    def overlap(self) -> bool:
        """True if a second state goes forward with H + Sigma; otherwise the state goes back."""
        return self.block.overlap

    @property
    def perturbed(self) -> bool:
        """True if the way back differs from the way forward."""
        return bool(self.block.sigma)

    @property
    def local(self) -> list[int]:
        """Sites of the local echo."""
        return list(self.block.local or ())

    @property
    def times(self) -> str | int:
        """Output times after which the echo is taken."""
        return self.block.times

    @property
    def needs(self) -> Needs:
        """Return the need of the state at t = 0, where the state goes back."""
        return Needs(start=not self.overlap)

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield mistakes of the perturbation and of the local sites."""
        # Local values exist only where the state itself comes back.
        block, place = item.value(cls.key), f"{key}.{cls.key}"
        if block.local is not None:
            yield from check_sites(block.local, deck.system.spins, f"{place}.local")
            if block.scheme == "overlap":
                yield Finding(f"{place}.scheme", "local sites are seen after the return; use scheme: return")
        yield from check_terms(block.sigma, deck.system, f"{place}.sigma")

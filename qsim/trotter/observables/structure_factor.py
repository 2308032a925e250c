"""Static structure factors."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from qsim.trotter.observables.base import Array, Label, Needs, Observable, Task, View, all_pairs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

StructureAxes = Literal["zz", "xx"]


def structure_factor(ss: "NDArray[Any]") -> "NDArray[Any]":
    """Return ``S(q) = sum_jk e^(i q (j - k)) <S_j S_k> / N`` at ``q = 2 pi m / N``, m = 0 ... N - 1."""
    import numpy as np

    n = len(ss)
    wave = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n)
    return np.asarray(np.einsum("qj,jk,qk->q", wave, ss, wave.conj()).real / n, np.float64)


def _wave_numbers(observable: Observable, task: Task) -> list[float]:
    return [2.0 * m / observable.spins for m in range(observable.spins)]


def draw(r: "Results") -> "Figure | None":
    """Draw the static structure factor of the lowest state, q from 0 to 2 pi."""
    from qsim.core.results.plotting import figure

    names = [name for name in ("structure_factor_zz", "structure_factor_xx") if name in r]
    if not names:
        return None
    fig = figure("single")
    ax = fig.subplots()
    for name in names:
        ax.plot(r["wave_number"], r[name], marker="o", markersize=3, label=name[-2:])
    ax.set_xlabel(r"$q/\pi$")
    ax.set_ylabel(r"$S(q)$")
    ax.legend()
    return fig


class StructureFactor(Observable):
    """``sum_jk exp(iq(j - k)) <S^a_j S^a_k> / N`` of the lowest level, or against temperature."""

    key = "structure_factor"
    form = StructureAxes | Annotated[list[StructureAxes], Field(min_length=1)]
    text = (
        "task: spectrum or thermal: sum_jk exp(iq(j-k)) <Sa_j Sa_k>/N at q = 2 pi m/N, sites in their order"
    )
    example = ["zz", "xx"]
    tasks = ("spectrum", "thermal")
    arrays = tuple(
        Array(
            f"structure_factor_{a}{a}", "hbar^2", f"sum_jk exp(iq(j-k)) <S{a}_j S{a}_k>/N", ("wave_number",)
        )
        for a in ("z", "x")
    )
    labels = (
        Label(
            "wave_number",
            "pi",
            "q of the structure factor, 2 m / N in units of pi",
            ("wave_number",),
            _wave_numbers,
        ),
    )
    figures = {"structure_factor": draw}

    @property
    def factors(self) -> list[StructureAxes]:
        """Axes of the structure factors."""
        given: StructureAxes | list[StructureAxes] = self.given
        return list(given) if isinstance(given, list) else [given]

    @property
    def needs(self) -> Needs:
        """All pairs along the axes."""
        pairs = frozenset(all_pairs(self.spins))
        return Needs(pairs={"x" if axes == "xx" else "z": pairs for axes in self.factors})

    def values(self, view: View) -> dict[str, Any]:
        """Return the structure factors."""
        return {
            f"structure_factor_{axes}": structure_factor(view.correlator_matrix(axes[0]))
            for axes in self.factors
        }

"""Static structure factors."""

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.axes import AXES
from qsim.trotter.observables.base import Array, Item, Label, Needs, Observable, Task, View, all_pairs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

StructureAxes = Literal["xx", "yy", "zz"]
Component = Annotated[float, Field(ge=-100.0, le=100.0)] | str
Momenta = (
    Literal["all"]
    | Annotated[
        list[Component | Annotated[list[Component], Field(min_length=2, max_length=3)]],
        Field(min_length=1, max_length=1000),
    ]
)

# momenta that are named one by one on an axis
LABELLED = 24
# from which a plane of momenta is drawn as a map
MAP = 9
# letters of names that fit beside each other below an axis
WIDE = 40


def structure_factor(ss: "NDArray[Any]", phases: "NDArray[Any]") -> "NDArray[Any]":
    """Return ``S(q) = sum_jk e^(i q (r_j - r_k)) <S_j S_k> / N``.

    Parameters
    ----------
    ss : (N, N) float64
        ``<S_j S_k>``.
    phases : (Q, N) float64
        ``q r_j`` of every momentum and site.
    """
    import numpy as np

    wave = np.exp(1j * phases)
    return np.asarray(np.einsum("qj,jk,qk->q", wave, ss, wave.conj()).real / len(ss), np.float64)


def _wave_numbers(observable: "StructureFactor", task: Task) -> list[float] | None:
    return None if observable.cells else [q[0] for q in observable.momenta]


def _names(observable: "StructureFactor", task: Task) -> list[str] | None:
    """Return the names of the momenta of cells: of the deck, or their components."""
    if not observable.cells:
        return None
    given = observable.items[0].value("q")
    names = given if isinstance(given, list) else [None] * len(observable.momenta)
    size = 3 if any(abs(q[2]) > 0.0 for q in observable.momenta) else 2
    return [
        name
        if isinstance(name, str)
        else f"({', '.join(multiple_of_pi(part) for part in q[:size])})".replace("\\pi", "pi")
        for name, q in zip(names, observable.momenta, strict=True)
    ]


def _wave_vectors(observable: "StructureFactor", task: Task) -> list[tuple[float, ...]] | None:
    return observable.momenta if observable.cells else None


# ----------------------------------------------------------------------------------------------- figures


def multiple_of_pi(value: float) -> str:
    r"""Return a number in units of pi as it is written: ``0``, ``\pi/2``, ``-2\pi/3``, ``0.577\pi``."""
    from fractions import Fraction

    part = Fraction(value).limit_denominator(24)
    if abs(float(part) - value) > 1e-9:
        return rf"{value:.3g}\pi"
    if not part:
        return "0"
    sign, top = "-" if part < 0 else "", "" if abs(part.numerator) == 1 else str(abs(part.numerator))
    below = "" if part.denominator == 1 else f"/{part.denominator}"
    return rf"{sign}{top}\pi{below}"


def _last(r: "Results", name: str) -> "NDArray[Any]":
    """Return a structure factor, of an evolution that of the last time."""
    return r[name] if r[name].ndim == 1 else r[name][-1]


def _row(ax: "Axes", r: "Results", names: list[str]) -> None:
    """Draw curves against the wave number of a row of sites."""
    import numpy as np

    q = r["wave_number"]
    order = np.argsort(q)
    for name in names:
        ax.plot(q[order], _last(r, name)[order], marker="o", markersize=3, label=name[-2:])
    # multiples of pi/2 are ticks, where there are few
    ends = np.arange(np.floor(2.0 * q.min()), np.ceil(2.0 * q.max()) + 1.0) / 2.0
    if ends.size <= MAP:
        ax.set_xticks(ends, labels=[f"${multiple_of_pi(x)}$" for x in ends])
        ax.set_xlabel("$q$")
    else:
        ax.set_xlabel(r"$q/\pi$")


def _list(ax: "Axes", r: "Results", names: list[str]) -> None:
    """Draw points above the names of their momenta."""
    labels = [str(label) for label in r["momentum"]]
    for name in names:
        ax.plot(range(len(labels)), _last(r, name), marker="o", markersize=4, linestyle=":", label=name[-2:])
    written = [rf"${label.replace('pi', chr(92) + 'pi')}$" if "(" in label else label for label in labels]
    written = [r"$\Gamma$" if label == "Gamma" else label for label in written]
    wide = sum(map(len, labels)) > WIDE
    ax.set_xticks(range(len(labels)), labels=written)
    if wide:
        ax.tick_params(axis="x", rotation=40)
    ax.set_xlabel(r"$\mathbf{q}$")


def _map(fig: "Figure", ax: "Axes", r: "Results", name: str) -> None:
    """Draw the momenta of a plane as coloured points."""
    x, y = r["wave_vector"][:, 0], r["wave_vector"][:, 1]
    image = ax.scatter(x, y, c=_last(r, name), s=60, cmap="viridis", edgecolors="black", linewidths=0.4)
    fig.colorbar(image, ax=ax, label=rf"$S^{{{name[-2:]}}}(\mathbf{{q}})$", pad=0.02)
    ax.set_aspect("equal")
    ax.margins(0.12)
    ax.set_xlabel(r"$q_x/\pi$")
    ax.set_ylabel(r"$q_y/\pi$")


def draw(r: "Results") -> "Figure | None":
    """Draw the structure factor, of an evolution at the last time: a curve, a map of a plane, or points with their momenta."""
    import numpy as np

    from qsim.core.results.plotting import figure

    names = [name for a in "zxy" if (name := f"structure_factor_{a}{a}") in r]
    if not names:
        return None
    if "wave_vector" in r:
        vectors = r["wave_vector"]
        flat = not vectors[:, 2].any() and np.ptp(vectors[:, 0]) > 0 < np.ptp(vectors[:, 1])
        # a path comes back to momenta it had
        all_differ = len(np.unique(np.round(vectors, 9), axis=0)) == len(vectors)
        if flat and all_differ and len(vectors) >= MAP:
            fig = figure("single" if len(names) == 1 else "double", 2.8)
            for ax, name in zip(np.atleast_1d(fig.subplots(1, len(names))), names, strict=True):
                _map(fig, ax, r, name)
            return fig
    fig = figure("single")
    ax = fig.subplots()
    if "wave_vector" not in r:
        _row(ax, r, names)
    elif len(r["wave_vector"]) <= LABELLED:
        _list(ax, r, names)
    else:
        for name in names:
            ax.plot(_last(r, name), marker="o", markersize=3, label=name[-2:])
        ax.set_xlabel("number of the momentum")
    ax.set_ylabel(r"$S(q)$")
    ax.legend()
    return fig


# ------------------------------------------------------------------------------------------- observable


class StructureFactor(Observable):
    """``sum_jk exp(iq(r_j - r_k)) <S^a_j S^a_k> / N`` of the lowest level, a steady state, against time or temperature."""

    key = "structure_factor"
    form = StructureAxes | Annotated[list[StructureAxes], Field(min_length=1)]
    text = (
        "sum_jk exp(iq(r_j-r_k)) <Sa_j Sa_k>/N with the places r of the sites, neighbours at "
        "distance 1; of a chain or ring, and without a lattice, r_j = j"
    )
    more = {
        "q": (
            Momenta,
            "with structure_factor: all momenta of the lattice, or a list: numbers in units of pi or texts such as pi/2; of "
            "planes and crystals vectors [qx, qy] or the names of points, Gamma, X, M, K",
        )
    }
    example = ["zz", "xx"]
    tasks = ("evolve", "spectrum", "thermal", "floquet", "steady")
    arrays = tuple(
        Array(
            f"structure_factor_{a}{a}",
            "hbar^2",
            f"sum_jk exp(iq(r_j-r_k)) <S{a}_j S{a}_k>/N",
            ("wave_number",),
        )
        for a in ("z", "x", "y")
    )
    labels = (
        Label(
            "wave_number",
            "pi",
            "q of the structure factor of a row of sites, in units of pi: 2 m / N unless the deck names others",
            ("wave_number",),
            _wave_numbers,
        ),
        Label(
            "momentum",
            "",
            "names of the momenta of a plane or crystal: those of the deck, or (qx, qy)",
            ("momentum",),
            _names,
        ),
        Label(
            "wave_vector",
            "pi",
            "(qx, qy, qz) of the structure factor of a plane or crystal, in units of pi, neighbours at distance 1",
            ("momentum", "direction"),
            _wave_vectors,
        ),
    )
    figures = {"structure_factor": draw}

    @property
    def factors(self) -> list[StructureAxes]:
        """Axes of the structure factors."""
        given: StructureAxes | list[StructureAxes] = self.given
        return list(given) if isinstance(given, list) else [given]

    @cached_property
    def cells(self) -> Any:
        """The plane, ladder or crystal whose momenta are vectors; None for sites in a row."""
        from qsim.trotter.lattices.momenta import Cells

        return self.lattice if isinstance(self.lattice, Cells) else None

    @cached_property
    def momenta(self) -> list[tuple[float, ...]]:
        """Momenta in units of pi, three components each."""
        from qsim.trotter.lattices.momenta import all_momenta, wave_vector

        given = self.items[0].value("q")
        if isinstance(given, list):
            return [tuple(wave_vector(self.lattice, one)) for one in given]
        if self.cells is not None:
            return [tuple(q) for q in all_momenta(self.cells, self.spins)]
        return [(2.0 * m / self.spins, 0.0, 0.0) for m in range(self.spins)]

    @cached_property
    def phases(self) -> "NDArray[Any]":
        """``q r_j`` of every momentum and site, (Q, N)."""
        import numpy as np

        from qsim.trotter.lattices.bonds import positions

        places = np.zeros((self.spins, 3))
        if self.cells is None:
            places[:, 0] = np.arange(self.spins)
        else:
            places[:] = positions(self.cells, self.spins)
        return np.asarray(np.pi * np.array(self.momenta) @ places.T, np.float64)

    @property
    def needs(self) -> Needs:
        """All pairs along the axes."""
        # S(q) sums over all pairs, so that a sector has to measure all of them.
        pairs = frozenset(all_pairs(self.spins))
        return Needs(pairs={axis: pairs for axis in AXES if axis + axis in self.factors})

    def axes(self, array: Array, task: Task) -> tuple[str, ...]:
        """Return the axis of the momenta."""
        return array.axes if self.cells is None else ("momentum",)

    def values(self, view: View) -> dict[str, Any]:
        """Return the structure factors."""
        return {
            f"structure_factor_{axes}": structure_factor(view.correlator_matrix(axes[0]), self.phases)
            for axes in self.factors
        }

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield momenta that do not belong to the lattice."""
        from qsim.trotter.lattices.momenta import wave_vector

        given = item.value("q")
        for k, one in enumerate(given if isinstance(given, list) else ()):
            try:
                wave_vector(deck.lattice, one)
            except ValueError as error:
                yield Finding(f"{key}.q.{k}", str(error))

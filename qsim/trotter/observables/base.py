"""The base class of observables, and the parts of its interface: needs, view of a state, arrays.

Files of this folder are loaded with every deck, so that they import nothing heavy: physics comes to them through a
:class:`View`, and what draws figures is imported by the functions that draw.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from qsim.core.deck.blocks import Block, Finding
from qsim.trotter.deck.axes import Axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from qsim.core.results.results import Results
    from qsim.trotter.initial.base import InitialState

__all__ = [
    "Array",
    "Final",
    "Item",
    "Label",
    "Needs",
    "Observable",
    "Pair",
    "Setting",
    "Task",
    "View",
    "all_pairs",
    "without_order",
]

Pair = tuple[int, int]
Task = Literal["evolve", "spectrum", "thermal", "floquet", "steady"]


def all_pairs(spins: int) -> list[Pair]:
    """Return all pairs j < k of the sites: (0, 1), (0, 2), ..., (1, 2), ..."""
    return list(combinations(range(spins), 2))


def without_order(pairs: Iterable[Collection[int]]) -> list[Pair]:
    """Return pairs as (j, k) with j < k."""
    return [(min(pair), max(pair)) for pair in pairs]


# ----------------------------------------------------------------------------------------------- needs


@dataclass(frozen=True)
class Needs:
    """Needs of observables; sectors, propagators and the memory estimate ask here.

    Attributes
    ----------
    axes : set of "x", "y", "z"
        Axes a of the moments ``<S^a_j>``.
    pairs : mapping of axes to set of (j, k)
        Pairs of ``<S^a_j S^a_k>`` by a, and of ``<S^a_j S^b_k>`` of unlike components by ``ab``; no others may be measured.
    cuts : tuple of tuples of sites
        Parts whose Schmidt coefficients are taken.
    sigma_sites : set of int
        Sites k whose state ``sigma^z_k psi(0)`` is propagated as well.
    start : bool
        The state at t = 0.
    vector : bool
        All amplitudes of the state in one process.
    variance : bool
        ``<H^2>``, which takes a vector H psi.
    reference : path, optional
        File of a state that psi(t) is compared with.
    """

    axes: frozenset[Axis] = frozenset()
    pairs: Mapping[str, frozenset[Pair]] = field(default_factory=dict)
    cuts: tuple[tuple[int, ...], ...] = ()
    sigma_sites: frozenset[int] = frozenset()
    start: bool = False
    vector: bool = False
    variance: bool = False
    reference: Any = None

    @property
    def moment_axes(self) -> set[str]:
        """Axes along which any moment is taken."""
        return {*self.axes, *(axis for axis, pairs in self.pairs.items() if pairs and len(axis) == 1)}

    @property
    def unlike(self) -> list[tuple[str, int, int]]:
        """Axes and sites of each ``<S^a_j S^b_k>`` of unlike components."""
        return sorted((axes, j, k) for axes, pairs in self.pairs.items() if len(axes) == 2 for j, k in pairs)

    @property
    def across(self) -> list[Pair]:
        """Pairs of ``<S^x_j S^x_k>`` or ``<S^y_j S^y_k>``, which are equal in a sector of Sz, ascending."""
        return sorted(self.pairs.get("x", frozenset()) | self.pairs.get("y", frozenset()))

    @property
    def along(self) -> list[Pair]:
        """Pairs of ``<S^z_j S^z_k>``, ascending."""
        return sorted(self.pairs.get("z", frozenset()))

    def __or__(self, other: "Needs") -> "Needs":
        """Return the needs of both together."""
        pairs = dict(self.pairs)
        for axis, more in other.pairs.items():
            pairs[axis] = pairs.get(axis, frozenset()) | more
        return Needs(
            axes=self.axes | other.axes,
            pairs=pairs,
            cuts=self.cuts + other.cuts,
            sigma_sites=self.sigma_sites | other.sigma_sites,
            start=self.start or other.start,
            vector=self.vector or other.vector,
            variance=self.variance or other.variance,
            reference=self.reference or other.reference,
        )


class SchmidtSpectrum(Protocol):
    """Squared Schmidt coefficients of a part; see :class:`qsim.trotter.sectors.schmidt.Spectrum`."""

    @property
    def entropy(self) -> float:
        """Von Neumann entropy."""

    @property
    def number_entropy(self) -> float:
        """Entropy of the distribution of the Sz of the part."""

    @property
    def renyi2(self) -> float:
        """Renyi entropy."""

    def largest(self, count: int) -> "tuple[NDArray[Any], NDArray[Any]]":
        """Return the largest coefficients and their Sz."""


class View:
    """A state as observables see it; a task overrides the methods that it can serve.

    Attributes
    ----------
    complete : bool
        True if all that a state offers is stored (all sites, all kinds of entropy), not only what the deck names.
    labelled : bool
        True if Schmidt coefficients belong to one Sz of the part each.
    single : bool
        True for a state in single precision.
    """

    complete: bool = False
    labelled: bool = False
    single: bool = False

    def spins(self, axis: str) -> "NDArray[Any]":
        """Return ``<S^a_j>`` of every site, (N,)."""
        raise NotImplementedError(f"this task does not measure <S{axis}>")

    def correlators(self, axis: str, pairs: Sequence[Pair]) -> "NDArray[Any]":
        """Return ``<S^a_j S^a_k>`` of pairs that are in `Needs.pairs`, (P,); ``<S^a_j S^b_k>`` if two axes are given."""
        raise NotImplementedError(f"this task does not measure <S{axis} S{axis}>")

    def correlator_matrix(self, axis: str) -> "NDArray[Any]":
        """Return ``<S^a_j S^a_k>`` of all sites, (N, N); all pairs are in `Needs.pairs`."""
        raise NotImplementedError(f"this task does not measure all <S{axis} S{axis}>")

    def schmidt(self, cut: Sequence[int]) -> "SchmidtSpectrum":
        """Return the squared Schmidt coefficients of a part in `Needs.cuts`."""
        raise NotImplementedError("this task has no Schmidt coefficients")

    def entropies(self, cuts: Sequence[Sequence[int]]) -> list[float]:
        """Return the von Neumann entropies of parts in `Needs.cuts`."""
        return [self.schmidt(cut).entropy for cut in cuts]

    def fidelity(self, state: Literal["start", "reference"]) -> float:
        """Return ``|<phi|psi>|^2`` of the normalised states, phi the state at t = 0 or `Needs.reference`."""
        raise NotImplementedError(f"this task has no state {state}")

    def variance(self) -> float:
        """Return ``<H^2> - <H>^2``."""
        raise NotImplementedError("this task has no variance of the energy")

    def first(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of `make` from the first observation of this state, at t = 0."""
        raise NotImplementedError("this task keeps nothing from t = 0")


@dataclass(frozen=True)
class Setting:
    """Properties of a run that the check of an observable may use.

    Attributes
    ----------
    spins : int
    states : int
        Number of all states.
    initial : InitialState
    conserves_sz : bool
        True for an evolution in a sector of Sz.
    """

    spins: int
    states: int
    initial: "InitialState"
    conserves_sz: bool


# --------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Array:
    """An array of an observable.

    Attributes
    ----------
    name, unit, text, note : str
        As in `Quantity`.
    axes : tuple of str
        At one time, or of one level; see also :meth:`Observable.axes`.
    tasks : tuple of str, optional
        Tasks that have it, by default all tasks of the observable.
    """

    name: str
    unit: str
    text: str
    axes: tuple[str, ...] = ()
    note: str = ""
    tasks: tuple[Task, ...] | None = None


@dataclass(frozen=True)
class Label:
    """An array of the labels of an axis: sites, pairs, parts.

    Attributes
    ----------
    name, unit, text, axes
        As in `Quantity`.
    value : function
        Returns it for an observable of a task, None where there is no such axis.
    """

    name: str
    unit: str
    text: str
    axes: tuple[str, ...]
    value: Callable[[Any, Task], Any]


@dataclass(frozen=True)
class Final:
    """A scalar: the last value of an array of an evolution, with its error over the ensemble.

    Attributes
    ----------
    name, unit, text, headline
        As in `Quantity`.
    array, index
        The array, and where the value is.
    error : function, optional
        Returns the error of the value from the problem and the error ``||psi - psi_exact||`` of the state; None if there is no
        bound.
    """

    name: str
    unit: str
    text: str
    array: str
    index: int | tuple[int, ...] = -1
    headline: bool = False
    error: Callable[[Any, float], float | None] | None = None


def shifted(size: float, lost: float) -> float:
    """Return how far ``<A>`` moves with a state that is off by `lost`: ``|A| (2 lost + lost^2)``.

    Parameters
    ----------
    size : float
        Largest |eigenvalue| of A.
    lost : float
        ``||psi - psi_exact||``; ``<A>`` is ``<psi|A|psi>``, and A is Hermitian.
    """
    return size * (2.0 * lost + lost**2)


def shifted_overlap(problem: Any, lost: float) -> float:
    """Return how far an overlap ``|<phi|psi>|^2`` moves with a state that is off by `lost`."""
    return shifted(1.0, lost)


class Item(Block):
    """One thing to observe; the keys name the observables (see ``deck/observe.py``)."""

    def named(self) -> list[str]:
        """Return the observables that this item names."""
        return [key for key in self.observable_keys() if self.value(key) is not None]

    def value(self, key: str) -> Any:
        """Return the value of a key, None if the key is absent or false; site 0 is a value."""
        given = getattr(self, key, None)
        return None if given is False else given

    @classmethod
    def observable_keys(cls) -> list[str]:
        """Return the keys of all observables."""
        return []


class Observable:
    """An observable: all items of a deck with the same key.

    A subclass in a file of this folder is found by itself.  It states the attributes below, and defines `needs` and `values`.

    Parameters
    ----------
    items : sequence of Item
        Items of the deck with its key.
    spins : int
        Number of spins N.
    lattice : block of a lattice, optional
        Lattice of the deck; None where it names none.

    Attributes
    ----------
    key : str
        Key in the deck.
    form : type
        Type of its value, as pydantic takes it; ``bool`` for an observable that is only named.
    text : str
        Meaning of the key.
    word : object, optional
        Value where the deck has the bare key, as in ``observe: [sz]``.
    more : mapping of key to (type, text)
        Further keys of the item.
    example : object
        A value for a chain of five spins or more, with which tests compare sectors with the whole space; None if it needs a file
        or an initial state of its own.
    tasks : tuple of str
    arrays, labels, finals : tuple of Array, Label, Final
    figures : mapping of name to function
        Drawings of a results file.
    curve : str
        Label of the axis of a panel of the figure ``curves``, for one number per time.
    odd_under_inversion : bool
        True if it changes its sign when all spins turn over, and is lost in a sector of that symmetry.
    """

    key: ClassVar[str]
    form: ClassVar[Any] = bool
    text: ClassVar[str]
    word: ClassVar[Any] = None
    more: ClassVar[Mapping[str, tuple[Any, str]]] = {}
    example: ClassVar[Any] = True
    tasks: ClassVar[tuple[Task, ...]] = ("evolve",)
    arrays: ClassVar[tuple[Array, ...]] = ()
    labels: ClassVar[tuple[Label, ...]] = ()
    finals: ClassVar[tuple[Final, ...]] = ()
    figures: ClassVar[Mapping[str, "Callable[[Results], Figure | None]"]] = {}
    curve: ClassVar[str] = ""
    odd_under_inversion: ClassVar[bool] = False

    def __init__(self, items: Sequence[Item], spins: int, lattice: Any = None) -> None:
        self.items, self.spins, self.lattice = items, spins, lattice

    @property
    def given(self) -> Any:
        """Value of the first item."""
        return self.items[0].value(self.key)

    @property
    def needs(self) -> Needs:
        """Needs of the values."""
        return Needs()

    def values(self, view: View) -> dict[str, Any]:
        """Return the values of the arrays for a state, by name."""
        return {}

    # --------------------------------------------------------------------------------- the results file

    @property
    def times(self) -> str | int:
        """Output times at which it is observed: ``all``, ``final``, or a number of them."""
        return "all"

    @property
    def everywhere(self) -> bool:
        """True if it is observed at every output time."""
        return self.times in ("all", "output")

    def axes(self, array: Array, task: Task) -> tuple[str, ...]:
        """Return the axes of an array, which may depend on the keys of the deck."""
        return array.axes

    def column(self, values: "NDArray[Any]") -> "NDArray[Any]":
        """Return the rows of an array in time as the file has them."""
        return values

    # ------------------------------------------------------------------------------------------ checks

    @classmethod
    def given_in(cls, items: Iterable[Item]) -> list[Any]:
        """Return the values of all items with this key."""
        return [value for item in items if (value := item.value(cls.key)) is not None]

    @classmethod
    def names(cls, item: Item) -> list[str]:
        """Return the names of an item's observables, each of which a deck may have once."""
        return [cls.key]

    @classmethod
    def check(cls, item: Item, key: str, deck: Any) -> Iterator[Finding]:
        """Yield mistakes of an item that need no calculation.

        Parameters
        ----------
        item : Item
        key : str
            Where the item stands.
        deck : TrotterDeck
        """
        yield from ()

    @classmethod
    def physics(cls, item: Item, key: str, setting: Setting) -> Iterator[Finding]:
        """Yield why an evolution cannot serve the observable of an item."""
        yield from ()

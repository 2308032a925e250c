"""Spin Hamiltonians: couplings and fields as arrays, from the terms of a deck.

``H = sum_{j<k} sum_a J^a_jk S^a_j S^a_k + sum_j sum_a h^a_j S^a_j``, Eq. (1) of arXiv:1305.0036 with every pair counted once;
beside these couplings of different components, ``sum_ab K^ab_jk S^a_j S^b_k`` (:mod:`qsim.trotter.model.tensors`).
Site j is bit j of the basis index, bit 0 is up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.deck.columns import read_rows
from qsim.core.errors import DeckError, FileError, NumericsError
from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck.axes import AXES
from qsim.trotter.deck.lattices import AllToAll, Lattice
from qsim.trotter.deck.sites import pair_problems
from qsim.trotter.lattices import bonds as lattices
from qsim.trotter.model import disorder
from qsim.trotter.model.fields import site_fields
from qsim.trotter.model.places import apart, axis_vector, dipolar, positions
from qsim.trotter.model.profiles import factor, is_constant
from qsim.trotter.model.readers import read_component_matrices, read_matrix
from qsim.trotter.model.tensors import cross_of, extremes, mixed, tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

# coupling or field: squares and sums over pairs stay within a double
LARGEST = 1e100
# times at which a profile is looked at for its largest value
PEAK_SAMPLES = 1025
# largest model that is written out as a matrix
DENSE_SPINS = 12

#: Components x, y, z of one unit of coupling.
COMPONENTS = {
    "heisenberg": (1.0, 1.0, 1.0),
    "xxx": (1.0, 1.0, 1.0),
    "xx": (1.0, 1.0, 0.0),
    "double_quantum": (1.0, -1.0, 0.0),
    "dq": (1.0, -1.0, 0.0),
    "dipolar": (-0.5, -0.5, 1.0),
}


@dataclass(frozen=True)
class Model:
    """A Hamiltonian at one time.

    Attributes
    ----------
    spins : int
        Number of sites, N.
    J : (3, N, N) float64
        Couplings of the components x, y, z of spin operators S = sigma / 2; symmetric, zero diagonal, pairs counted once.
    h : (3, N) float64
        Fields.
    cross : (3, 3, N, N) float64 or None
        Couplings ``cross[a, b, j, k] = cross[b, a, k, j]`` of S^a_j and S^b_k, a != b, pairs counted once.
    """

    spins: int
    J: NDArray[np.float64]
    h: NDArray[np.float64]
    cross: NDArray[np.float64] | None = None

    #: All spins are 1/2, and couplings and fields say all of H; see :mod:`qsim.trotter.model.larger` for others.
    halves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse arrays that are no couplings."""
        if self.J.shape != (3, self.spins, self.spins) or self.h.shape != (3, self.spins):
            raise ValueError(f"J {self.J.shape} and h {self.h.shape} do not fit {self.spins} spins")
        if not np.array_equal(self.J, self.J.transpose(0, 2, 1)):
            raise ValueError("J is not symmetric")
        if self.J.diagonal(axis1=1, axis2=2).any():
            raise ValueError("a site is coupled to itself")

    @classmethod
    def zero(cls, spins: int) -> Model:
        """Return the model without couplings and fields."""
        return cls(spins, np.zeros((3, spins, spins)), np.zeros((3, spins)))

    def __add__(self, other: Model) -> Model:
        """Return the sum of two Hamiltonians."""
        cross = self.cross if other.cross is None else other.cross
        if self.cross is not None and other.cross is not None:
            cross = self.cross + other.cross
        return Model(self.spins, self.J + other.J, self.h + other.h, cross)

    def __sub__(self, other: Model) -> Model:
        """Return the difference of two Hamiltonians."""
        return self + (-1.0) * other

    def __mul__(self, scale: float) -> Model:
        """Return the Hamiltonian times a number."""
        cross = None if self.cross is None else scale * self.cross
        return Model(self.spins, scale * self.J, scale * self.h, cross)

    __rmul__ = __mul__

    def __neg__(self) -> Model:
        """Return minus the Hamiltonian."""
        return -1.0 * self

    # A model is a Hamiltonian without driven parts: a caller need not tell the two apart.

    @property
    def is_static(self) -> bool:
        """True if H does not depend on time: yes."""
        return True

    @property
    def static(self) -> Model:
        """Everything without a time profile."""
        return self

    @property
    def envelope(self) -> Model:
        """A model in which every coupling or field that can occur at some time is not zero."""
        return self

    def at(self, t: float) -> Model:
        """Return H at a time."""
        return self

    def peak(self, end: float) -> Model:
        """Return a model with every coupling and field as large as it can become until some time."""
        return self

    def average(self, end: float, places: Sequence[float] = ()) -> Model:
        """Return a model with every coupling and field as large as it is on average until some time."""
        return self

    @property
    def quanta(self) -> int:
        """Twice the largest total Sz."""
        return self.spins

    @property
    def dimension(self) -> int:
        """Number of all states."""
        return 1 << self.spins

    @property
    def reversible(self) -> bool:
        """True if Sz and -Sz have the same levels, where Sz is conserved: time reversal, which turns all spins, leaves H."""
        return not self.h[2].any()

    @property
    def diagonal(self) -> bool:
        """True if no spin flips: couplings and fields along z alone."""
        return not (self.J[:2].any() or self.h[:2].any() or self.cross is not None)

    @property
    def strongest(self) -> float:
        """Largest field of neighbours and external fields that a spin can feel along one axis."""
        return float((0.5 * np.abs(self.J).sum(axis=2) + np.abs(self.h)).max(initial=0.0))

    @property
    def mean_square(self) -> float:
        """Mean of the squared energy in a random state: J^2 / 16 of a pair and h^2 / 4 of a spin."""
        # half of the double sum
        square = (self.J**2).sum() / 32.0 + (self.h**2).sum() / 4.0
        return float(square if self.cross is None else square + (self.cross**2).sum() / 32.0)

    def rotated(self, axes: list[int], signs: NDArray[np.float64]) -> Model:
        """Return the model with ``signs[a]`` times its component ``axes[a]`` as component a."""
        cross = None
        if self.cross is not None:
            cross = self.cross[axes][:, axes] * (signs[:, None] * signs)[:, :, None, None]
        return replace(self, J=self.J[axes], h=signs[:, None] * self.h[axes], cross=cross)

    @property
    def size(self) -> Model:
        """The model with the size of every coupling and field."""
        cross = None if self.cross is None else np.abs(self.cross)
        return Model(self.spins, np.abs(self.J), np.abs(self.h), cross)

    @property
    def axes(self) -> tuple[int, ...]:
        """Components (0, 1, 2 for x, y, z) that occur in couplings or fields."""
        return tuple(a for a in range(3) if self.J[a].any() or self.h[a].any())

    @property
    def coupled_axes(self) -> tuple[int, ...]:
        """Components that occur in couplings."""
        return tuple(a for a in range(3) if self.J[a].any())

    @property
    def bounds(self) -> tuple[float, float]:
        """Bounds of the spectrum: the sums of the extreme energies of all pairs and fields (not tight)."""
        pair = extremes(self.J, self.cross)
        # the extreme energies of a spin in its field are -+|h| / 2
        tilt = 0.5 * np.sqrt((self.h**2).sum(axis=0)).sum()
        return float(pair.min(axis=0).sum() - tilt), float(pair.max(axis=0).sum() + tilt)

    def restricted(self, sites: Sequence[int]) -> Model:
        """Return the model of some sites alone, for pilot runs."""
        cross = None if self.cross is None else self.cross[:, :, sites][:, :, :, sites]
        return Model(len(sites), self.J[:, sites][:, :, sites], self.h[:, sites], cross)

    def pairs(self) -> NDArray[np.int64]:
        """Return (P, 2) int64: the pairs j < k that are coupled."""
        coupled = self.J.any(axis=0)
        if self.cross is not None:
            coupled = coupled | self.cross.any(axis=(0, 1))
        return np.argwhere(np.triu(coupled, 1))


@dataclass(frozen=True)
class Hamiltonian:
    """``H(t) = static + sum_p f_p(t) H_p``.

    Attributes
    ----------
    static : Model
        Everything without a time profile.
    driven : tuple of (f, Model)
        Profiles, as functions of t, and the models that they multiply.
    """

    static: Model
    driven: tuple[tuple[Callable[[float], float], Model], ...] = field(default=())

    @property
    def spins(self) -> int:
        """Number of sites."""
        return self.static.spins

    @property
    def is_static(self) -> bool:
        """True if H does not depend on time."""
        return not self.driven

    @property
    def envelope(self) -> Model:
        """A model in which every coupling or field that can occur at some time is not zero; its sizes mean nothing."""
        # sizes, so that parts of either sign cannot cancel
        total = self.static.size
        for _, part in self.driven:
            total = total + part.size
        return total

    def at(self, t: float) -> Model:
        """Return H at a time."""
        return self.mean((t,), (1.0,))

    def mean(self, times: Sequence[float], weights: Sequence[float]) -> Model:
        """Return ``sum_i w_i H(t_i)``, the stages of Magnus integrators."""
        # weights of a Magnus stage need not add up to one: the constant part has their sum
        total = math.fsum(weights)
        model = self.static if total == 1.0 else total * self.static
        for f, part in self.driven:
            # a coupling that overflows is refused below, by its size
            with np.errstate(over="ignore", invalid="ignore"):
                scale = math.fsum(w * f(t) for t, w in zip(times, weights, strict=True))
                scaled = scale * part
            if not (largest := _largest(scaled)) <= LARGEST:
                raise NumericsError(
                    f"a profile makes a coupling or field of {largest:.3g} at t = {times[0]:g}; at most {LARGEST:.0e}"
                )
            model = model + scaled
        return model

    def restricted(self, sites: Sequence[int]) -> Hamiltonian:
        """Return the Hamiltonian of some sites alone."""
        driven = tuple((f, part.restricted(sites)) for f, part in self.driven)
        return Hamiltonian(self.static.restricted(sites), driven)

    def peak(self, end: float) -> Model:
        """Return a model with every coupling and field as large as it can become until some time."""
        total = self.static.size
        for f, part in self.driven:
            # profiles peak between kinks as well as at them
            times = [
                *np.linspace(0.0, end, PEAK_SAMPLES),
                *(k for k in getattr(f, "kinks", None) or () if 0 < k < end),
            ]
            size = max(abs(f(float(t))) for t in times)
            total = total + size * part.size
        return total

    def average(self, end: float, places: Sequence[float] = ()) -> Model:
        """Return a model with every coupling and field as large as it is on average until some time.

        Parameters
        ----------
        places
            Times within narrow pulses, if they are known.
        """
        total = self.static.size
        for f, part in self.driven:
            kinks = [k for k in getattr(f, "kinks", None) or () if 0.0 < k < end]
            # trapezoids between sampled times and kinks, and within pulses narrower than the samples
            times = np.unique([*np.linspace(0.0, end, PEAK_SAMPLES), *kinks, *places])
            size = np.trapezoid([abs(f(float(t))) for t in times], times) / end if end > 0.0 else abs(f(0.0))
            total = total + float(size) * part.size
        return total

    def __add__(self, other: Hamiltonian) -> Hamiltonian:
        """Return the sum, such as that with the perturbation of an echo."""
        return Hamiltonian(self.static + other.static, self.driven + other.driven)


# ------------------------------------------------------------------------------------------ from a deck

#: Models without couplings and fields, by whether all spins are 1/2; :mod:`qsim.trotter.model.larger` brings others.
ZEROS: dict[bool, Callable[[blocks.System], Model]] = {True: lambda system: Model.zero(system.spins)}


def zero_of(system: blocks.System) -> Model:
    """Return the model without couplings and fields of the spins of a deck."""
    return ZEROS[system.halves](system)


@singledispatch
def local_part(term: blocks.Term, system: blocks.System, part: Model) -> Model:
    """Return a term of matrices of one site or two as a model like `part`."""
    raise TypeError(f"{term.type} is no term of matrices")


def build_hamiltonian(
    system: blocks.System,
    *,
    seed: int,
    realisation: int = 0,
    terms: Sequence[blocks.Term] | None = None,
    first: int = 0,
) -> Hamiltonian:
    """Return the Hamiltonian of a deck.

    Parameters
    ----------
    system
        Block of the deck, checked.
    seed
        Seed of the run, for disorder without a seed of its own.
    realisation
        Number of the member of the disorder ensemble.
    terms
        Other terms of the same spins, such as the perturbation of an echo; by default the terms of the system.
    first
        Number of the first term, which keeps the disorder of other terms apart from the disorder of the system.

    Raises
    ------
    FileError, DeckError
        If a file is wrong, or numbers are that only show here (two spins at one place, say).
    """
    # Pauli matrices are 2 S: a pair counts four times, a
    # field twice; `full` is the double sum over j and k
    pair_scale = (4.0 if system.operators == "pauli" else 1.0) * (2.0 if system.sum == "full" else 1.0)
    field_scale = 2.0 if system.operators == "pauli" else 1.0
    static = zero_of(system)
    driven: list[tuple[Callable[[float], float], Model]] = []
    for number, term in enumerate(system.terms if terms is None else terms, first):
        # a coupling that overflows, or has too short a distance, is refused below, by its size
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            part = zero_of(system)
            if isinstance(term, blocks.FieldTerm):
                part = replace(
                    part, h=field_scale * site_fields(term, system.spins, seed, number, realisation)
                )
            elif isinstance(term, blocks.OrientedTerm):
                lattice = term.lattice if term.lattice is not None else system.lattice
                J, cross = cross_of(pair_scale * tensors_of(term, lattice, system.spins))
                part = replace(part, J=J, cross=cross)
            elif isinstance(term, blocks.NuclearTerm):
                part = local_part(term, system, part)
            elif isinstance(term, blocks.LocalTerm):
                part = pair_scale ** (term.type != "anisotropy") * local_part(term, system, part)
            else:
                part = replace(part, J=pair_scale * _coupling(term, system, seed, number, realisation))
        if not (largest := _largest(part)) <= LARGEST:
            raise DeckError(f"{term.type}: a coupling or field of {largest:.3g}; at most {LARGEST:.0e}")
        # a constant profile makes no driven part: the evolution stays one of a constant H
        if is_constant(term.profile):
            static = static + factor(term.profile)(0.0) * part
        else:
            driven.append((factor(term.profile), part))
    return Hamiltonian(static, tuple(driven))


def _largest(model: Model) -> float:
    """Return the size of the largest coupling or field; not a number if one is none."""
    largest = np.maximum(np.abs(model.J).max(), np.abs(model.h).max())
    if model.cross is not None:
        largest = np.maximum(largest, np.abs(model.cross).max())
    # unlike max, np.maximum keeps NaN
    return float(largest)


def _coupling(
    term: blocks.LatticeTerm | blocks.Pairs, system: blocks.System, seed: int, number: int, realisation: int
) -> NDArray[np.float64]:
    """Return (3, N, N) couplings of one term."""
    spins = system.spins
    if isinstance(term, blocks.Pairs):
        return _listed(term, spins, full=system.sum == "full")
    lattice = term.lattice if term.lattice is not None else system.lattice
    if isinstance(term, blocks.Dipolar):
        pairs, strength = dipolar(term, lattice, spins)
    else:
        pairs, strength, distance = _bonds(term, lattice, spins)
        if term.random is not None:
            # a number belongs to its pair, by the place among all pairs, whichever pairs are coupled
            place = np.zeros((spins, spins), dtype=np.int64)
            upper = np.triu_indices(spins, 1)
            place[upper] = np.arange(upper[0].size)
            drawn = disorder.draw(
                term.random, upper[0].size, seed=seed, number=number, realisation=realisation, coupling=True
            )
            strength = strength + drawn[place[pairs[:, 0], pairs[:, 1]]]
        if term.alpha is not None:
            strength = strength * distance**-term.alpha
        # with positions of its own a term knows no lattice, and no images
        if not isinstance(term, blocks.PowerLaw) or term.positions is None:
            strength = strength * _ways(lattice, pairs, spins)
    J = np.zeros((3, spins, spins))
    for a, component in enumerate(_components(term)):
        J[a, pairs[:, 0], pairs[:, 1]] = component * strength
    return J + J.transpose(0, 2, 1)


def _components(term: blocks.LatticeTerm) -> tuple[float, float, float]:
    """Return the components x, y, z of one unit of strength."""
    if isinstance(term, blocks.XYZ):
        return term.Jx, term.Jy, term.Jz
    if isinstance(term, blocks.XXZ):
        Jz = term.Jz if term.Jz is not None else (term.delta or 0.0) * term.Jxy
        return term.Jxy, term.Jxy, Jz
    name = term.model if isinstance(term, blocks.PowerLaw) else term.type
    if isinstance(term, blocks.Ising | blocks.PowerLaw) and name == "ising":
        return axis_vector(term.axis)
    return COMPONENTS[name]


def _bonds(
    term: blocks.BondTerm, lattice: Lattice | None, spins: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return pairs (P, 2), their strengths (P,) before disorder and decay, and their distances (P,)."""
    J = 1.0 if isinstance(term, blocks.XXZ | blocks.XYZ) else term.J
    if isinstance(term, blocks.PowerLaw) and term.positions is not None:
        places = positions(term, lattice, spins)
        # a term with positions couples every pair
        pairs = np.argwhere(np.triu(np.ones((spins, spins), bool), 1))
        distance = np.linalg.norm(apart(places, pairs, term), axis=1)
        return pairs, np.full(len(pairs), J if isinstance(J, float) else J[0]), distance
    # the rules ask for one
    assert lattice is not None
    shells = term.shells
    # without a choice of shells or a decay: nearest neighbours
    if shells is None and term.alpha is None and not isinstance(lattice, AllToAll):
        shells = [1]
    bonds = lattices.bonds(lattice, spins, shells)
    pairs = np.array([bond[:2] for bond in bonds], dtype=np.int64).reshape(-1, 2)
    distance = np.array([bond.distance for bond in bonds])
    # one strength for each shell
    if isinstance(J, list):
        by_shell = dict(zip(shells or [1], J, strict=True))
        return pairs, np.array([by_shell[bond.shell] for bond in bonds]), distance
    return pairs, np.full(len(bonds), J), distance


def _ways(lattice: Lattice | None, pairs: NDArray[np.int64], spins: int) -> NDArray[np.float64]:
    """Return the number of bonds of each pair, (P,): the equally near ways round with ``images: all``."""
    if getattr(lattice, "images", "one") == "one":
        return np.ones(len(pairs))
    assert lattice is not None
    return np.array([len(lattices.images_of(lattice, spins, int(j), int(k))) for j, k in pairs], np.float64)


def _listed(term: blocks.Pairs, spins: int, *, full: bool) -> NDArray[np.float64]:
    """Return (3, N, N) couplings of a list or file."""
    if term.matrix is not None or (term.file is not None and term.file.suffix == ".npz"):
        if term.matrix is not None:
            one = read_matrix(term.matrix, spins, symmetric=not full)
            components = axis_vector("z") if term.model == "ising" else COMPONENTS[term.model]
            J = np.stack([component * one for component in components])
        else:
            assert term.file is not None
            J = read_component_matrices(term.file, spins, symmetric=not full)
        # sum: full counts J_jk and J_kj; their mean is doubled with all other couplings
        return 0.5 * (J + J.transpose(0, 2, 1))
    rows = term.list
    if rows is None:
        # check() has seen to it
        assert term.file is not None
        rows = read_rows(term.file, "j, k, Jx, Jy, Jz or j, k, J", (3, 5), most=spins**2)
        for number, message in pair_problems(rows, spins):
            raise FileError(f"{term.file}, pair {number + 1}: {message}")
    J = np.zeros((3, spins, spins))
    for row in rows:
        # pairs are listed once, in either order
        j, k = int(row[0]), int(row[1])
        J[:, j, k] = J[:, k, j] = row[2:]
    return J


# ------------------------------------------------------------------------------------------ properties


@singledispatch
def conserved(model: Model | Hamiltonian) -> tuple[str, ...]:
    """Return which of the total ``S^x, S^y, S^z`` commute with H at all times, as axis letters.

    Total S^a is conserved if the other two components of every coupling are equal and no field points across a.
    """
    if isinstance(model, Hamiltonian):
        # conserved at all times: by the constant part and by each driven one
        kept = set(conserved(model.static)).intersection(*(conserved(part) for _, part in model.driven))
        return tuple(axis for axis in AXES if axis in kept)
    # 1e-14: equal couplings that come from sums of terms differ by rounding
    scale = max(float(np.abs(model.J).max(initial=0.0)), 1e-300)
    largest = scale if model.cross is None else max(scale, float(np.abs(model.cross).max()))
    axes = []
    for a, axis in enumerate(AXES):
        b, c = (a + 1) % 3, (a + 2) % 3
        equal = np.abs(model.J[b] - model.J[c]).max(initial=0.0) <= 1e-14 * scale
        fields = model.h[b].any() or model.h[c].any()
        # couplings of different components must keep the total as well
        if equal and not fields and mixed(model.cross, 1e-14 * largest, a) is None:
            axes.append(axis)
    return tuple(axes)


def energies(model: Model, axis: int) -> NDArray[np.float64]:
    """Return (2^N,) float64: the component `axis` of H in the frame where it is diagonal, for every index (small N)."""
    n, index = model.spins, np.arange(1 << model.spins)
    s = 0.5 - ((index >> np.arange(n)[:, None]) & 1)
    return 0.5 * np.einsum("ji,jk,ki->i", s, model.J[axis], s, optimize=True) + model.h[axis] @ s


def dense(model: Model) -> NDArray[np.complex128]:
    """Return H as a (2^N, 2^N) matrix, for tests and models of a few spins.

    Raises
    ------
    ValueError
        Beyond 12 spins.
    """
    n = model.spins
    if n > DENSE_SPINS:
        raise ValueError(f"a dense Hamiltonian of {n} spins is refused; {DENSE_SPINS} at most")
    index = np.arange(1 << n)
    s = 0.5 - ((index >> np.arange(n)[:, None]) & 1)
    H = np.zeros((1 << n, 1 << n), dtype=np.complex128)
    H[index, index] = energies(model, 2)
    for j in range(n):
        # S^x flips with 1/2; S^y flips with i/2 from up to down and -i/2 from down to up: i s of the old spin
        H[index ^ (1 << j), index] += 0.5 * model.h[0, j] + 1j * s[j] * model.h[1, j]
        for k in range(j):
            flipped = index ^ (1 << j) ^ (1 << k)
            # products of the flips of j and k; <S^y S^y> = (i s_j)(i s_k) of the old spins
            H[flipped, index] += 0.25 * model.J[0, j, k] - s[j] * s[k] * model.J[1, j, k]
            if model.cross is None:
                continue
            # mixed components: one flip and one diagonal factor, or two flips
            K = model.cross[:, :, j, k]
            H[flipped, index] += 0.5j * (K[0, 1] * s[k] + K[1, 0] * s[j])
            H[index ^ (1 << j), index] += (0.5 * K[0, 2] + 1j * s[j] * K[1, 2]) * s[k]
            H[index ^ (1 << k), index] += (0.5 * K[2, 0] + 1j * s[k] * K[2, 1]) * s[j]
    return H


@singledispatch
def scale_of(model: Model) -> float:
    """Return a bound of the size of the spectrum: the sum of all couplings and fields."""
    pairs = float(np.abs(np.triu(model.J, 1)).sum())
    if model.cross is not None:
        pairs += float(np.abs(np.triu(model.cross, 1)).sum())
    # no couplings at all: the smallest positive number, as tolerances divide by it
    return 0.25 * pairs + 0.5 * float(np.abs(model.h).sum()) or math.ulp(1.0)

"""The truth of random trotter decks: Hamiltonians as Kronecker products from the text of the deck, and their exact evolution.

Nothing here is shared with the code under test but the random numbers (disorder and random states), which are input.
Site j is bit j of the basis index, bit 0 is up.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.sparse import csr_matrix, identity, kron
from scipy.sparse.linalg import expm_multiply

__all__ = ["Evolution", "Part", "Truth", "entropy_bound", "evolve"]

Complex = NDArray[np.complex128]
Real = NDArray[np.float64]
Deck = Mapping[str, Any]

PAULI: dict[str, Complex] = {
    "x": np.array([[0, 1], [1, 0]], complex),
    "y": np.array([[0, -1j], [1j, 0]]),
    "z": np.array([[1, 0], [0, -1]], complex),
}
DENSE_SPINS = 6
"""Spins up to which a constant Hamiltonian is diagonalised."""
ODE_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Part:
    """One term of a Hamiltonian: its operator, or a matrix instead, its factor in time, and where that factor is not smooth."""

    J: Real
    h: Real
    factor: Callable[[float], float] | None = None
    kinks: tuple[float, ...] = ()
    matrix: csr_matrix | None = None


@lru_cache(maxsize=256)
def spin(axis: str, site: int, spins: int) -> csr_matrix:
    """Return ``S^axis_site`` of `spins` spins as a sparse matrix."""
    low, high = identity(1 << site), identity(1 << (spins - 1 - site))
    return csr_matrix(kron(high, kron(0.5 * PAULI[axis], low)))


@lru_cache(maxsize=512)
def _pair(axis: str, j: int, k: int, spins: int) -> csr_matrix:
    return spin(axis, j, spins) @ spin(axis, k, spins)


# ----------------------------------------------------------------------------------------- the deck


def cells(lattice: Deck, spins: int) -> tuple[Real, Real, list[int]]:
    """Return the vectors (d, 3) of the cells of a plane, ladder or crystal, the sites (s, 3) of a cell, and the numbers of cells.

    Planes are drawn with angles, and crystals with halves of a cube, so that neighbours are at distance 1.
    """
    kind, sixth = lattice["type"], np.exp(1j * np.pi / 3)
    if kind == "ladder":
        return np.eye(3)[:2], np.zeros((1, 3)), [spins // lattice.get("legs", 2), lattice.get("legs", 2)]
    flat = {
        "square": ([1.0, 1j], [0.0]),
        "triangular": ([1.0, sixth], [0.0]),
        "honeycomb": ([math.sqrt(3.0), math.sqrt(3.0) * sixth], [0.0, np.exp(1j * np.pi / 6)]),
        "kagome": ([2.0, 2.0 * sixth], [0.0, 1.0, sixth]),
    }
    cube = {
        "cubic": (np.eye(3), np.zeros((1, 3))),
        "bcc": ((1.0 - 2.0 * np.eye(3)) / math.sqrt(3.0), np.zeros((1, 3))),
        "fcc": ((1.0 - np.eye(3)) / math.sqrt(2.0), np.zeros((1, 3))),
        "pyrochlore": (
            (1.0 - np.eye(3)) * math.sqrt(2.0),
            np.vstack([np.zeros(3), 1.0 - np.eye(3)]) / math.sqrt(2.0),
        ),
    }
    vectors, basis = cube[kind] if kind in cube else (_upright(part) for part in flat[kind])
    size = [lattice.get(name) for name in ("Lx", "Ly", "Lz")[: len(vectors)]]
    known = math.prod(one for one in size if one)
    return vectors, basis, [one or spins // len(basis) // known for one in size]


def _upright(numbers: Sequence[complex]) -> Real:
    """Return places of a plane, given as complex numbers, in space."""
    z = np.array(numbers, complex)
    return np.stack([z.real, z.imag, 0.0 * z.real], axis=1)


def places(lattice: Deck, spins: int) -> tuple[Real, list[Real]]:
    """Return (N, 3) positions of the sites and the translations of a periodic lattice; a row along x."""
    if lattice["type"] in ("chain", "ring", "all"):
        return np.arange(spins)[:, None] * np.array([1.0, 0.0, 0.0]), []
    vectors, basis, size = cells(lattice, spins)
    # a ladder runs over its legs first, planes and crystals over x
    flip = -1 if lattice["type"] == "ladder" else 1
    number = np.arange(spins) // len(basis)
    steps = np.array(np.unravel_index(number, size[::-flip])[::-flip]).T
    where = steps @ vectors + basis[np.arange(spins) % len(basis)]
    closed = lattice.get("periodic", False)
    if lattice["type"] == "ladder":
        closed = [closed, False]
    each = closed if isinstance(closed, list) else [closed] * len(size)
    return where, [n * vector for n, vector, yes in zip(size, vectors, each, strict=True) if yes]


def distances(lattice: Deck, spins: int) -> Real:
    """Return the (N, N) distances of sites, to the nearest image."""
    kind = lattice["type"]
    apart = np.abs(np.subtract.outer(np.arange(spins), np.arange(spins))).astype(float)
    if kind == "all":
        return np.where(apart > 0, 1.0, 0.0)
    if kind == "ring":
        return np.minimum(apart, spins - apart)
    return np.asarray(_of_images(lattice, spins).min(axis=0))


def _of_images(lattice: Deck, spins: int) -> Real:
    """Return the distances (images, N, N) of sites from the images of others."""
    flat, shifts = places(lattice, spins)
    difference = flat[:, None] - flat[None]
    found = [
        np.linalg.norm(
            difference + sum((n * shift for n, shift in zip(ns, shifts, strict=True)), np.zeros(3)), axis=2
        )
        for ns in itertools.product(range(-2, 3), repeat=len(shifts))
    ]
    return np.array(found)


def ways(lattice: Deck, spins: int) -> Real:
    """Return by how many ways two sites are nearest, (N, N); 1 where the deck counts them once."""
    if lattice.get("images", "one") == "one":
        return np.ones((spins, spins))
    if lattice["type"] == "ring":
        apart = np.abs(np.subtract.outer(np.arange(spins), np.arange(spins)))
        return np.where(2 * apart == spins, 2.0, 1.0)
    images = _of_images(lattice, spins)
    return np.asarray((images < images.min(axis=0) + 1e-6).sum(axis=0), float)


def shell_numbers(r: Real) -> NDArray[np.int64]:
    """Return which shell every pair belongs to, from 1; 0 on the diagonal."""
    upper = np.sort(r[np.triu_indices(len(r), 1)])
    edges = [value for k, value in enumerate(upper) if k == 0 or value - upper[k - 1] > 1e-7]
    shells = np.zeros(r.shape, int)
    for number, radius in enumerate(edges, 1):
        shells[np.abs(r - radius) < 1e-6] = number
    np.fill_diagonal(shells, 0)
    return shells


COMPONENTS = {
    "heisenberg": (1.0, 1.0, 1.0),
    "xx": (1.0, 1.0, 0.0),
    "double_quantum": (1.0, -1.0, 0.0),
}


def _components(term: Deck) -> tuple[float, float, float]:
    kind = term["model"] if term["type"] == "power_law" else term["type"]
    if kind == "ising":
        a = term.get("axis", "z")
        return float(a == "x"), float(a == "y"), float(a == "z")
    if kind == "xxz":
        z = term["Jz"] if "Jz" in term else term["delta"] * term["Jxy"]
        return term["Jxy"], term["Jxy"], z
    if kind == "xyz":
        return term["Jx"], term["Jy"], term["Jz"]
    return COMPONENTS[kind]


def _positions(term: Deck, lattice: Deck | None, spins: int) -> Real:
    if "positions" in term:
        return np.array(term["positions"], float)
    assert lattice is not None
    if lattice["type"] == "ring":
        angle = 2 * np.pi * np.arange(spins) / spins
        radius = 0.5 / math.sin(math.pi / spins)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle], axis=1)
    return places(lattice, spins)[0]


def couplings(term: Deck, system: Deck, drawn: Real | None) -> Real:
    """Return (3, N, N) couplings of a term as the deck defines them; `drawn` are its random numbers."""
    spins = system["spins"]
    if term["type"] == "pairs":
        return _listed(term, spins)
    lattice = term.get("lattice", system.get("lattice"))
    upper = np.triu_indices(spins, 1)
    strength = np.zeros((spins, spins))
    if term["type"] == "dipolar":
        place = _positions(term, lattice, spins)
        apart = place[upper[1]] - place[upper[0]]
        r = np.linalg.norm(apart, axis=1)
        axis = term.get("axis", "z")
        direction = np.array(
            [axis == "x", axis == "y", axis == "z"] if isinstance(axis, str) else axis, float
        )
        cosine = apart @ direction / np.linalg.norm(direction) / r
        value = term["coupling"] * (1 - 3 * cosine**2) / r**3
        if "cutoff" in term:
            value = np.where(r <= term["cutoff"] * (1 + 1e-9), value, 0.0)
        strength[upper] = value
        parts = (-0.5, -0.5, 1.0)
    else:
        if "positions" in term:
            lattice = None
            place = np.array(term["positions"], float)
            r = np.linalg.norm(place[:, None] - place[None], axis=2)
            shells = np.ones_like(r, int)
            coupled = r > 0
        else:
            assert lattice is not None
            r = distances(lattice, spins)
            shells = shell_numbers(r)
            wanted = term.get("shells")
            if wanted is None and "alpha" not in term and lattice["type"] != "all":
                wanted = [1]
            coupled = np.isin(shells, wanted) if wanted is not None else shells > 0
        sizes = term.get("J", 1.0)
        if isinstance(sizes, list):
            size = np.zeros_like(r)
            for number, value in zip(term["shells"], sizes, strict=True):
                size[shells == number] = value
        else:
            size = np.full_like(r, sizes)
        if drawn is not None:
            size[upper] += drawn
        if "alpha" in term:
            size = size / np.where(r > 0, r, 1.0) ** term["alpha"]
        if lattice is not None:
            size = size * ways(lattice, spins)
        strength[upper] = np.where(coupled, size, 0.0)[upper]
        parts = _components(term)
    strength = strength + strength.T
    return np.stack([part * strength for part in parts])


def _listed(term: Deck, spins: int) -> Real:
    J = np.zeros((3, spins, spins))
    for row in term["list"]:
        j, k = int(row[0]), int(row[1])
        J[:, j, k] = J[:, k, j] = row[2:]
    return J


def fields(term: Deck, spins: int, drawn: Real | None) -> Real:
    """Return (3, N) fields of a term as the deck defines them."""
    sites = np.array(term.get("sites", range(spins)))
    h = np.zeros((3, spins))
    values = term.get("values")
    row = "xyz".index(term.get("axis", "z"))
    if isinstance(values, str):
        h[row, sites] = [eval(values, {"cos": math.cos, "j": float(j)}) for j in sites]
    elif values is not None and not isinstance(values, dict):
        h[row, sites] = values
    if drawn is not None:
        h[row, sites] += drawn[sites]
    return h


def profile(block: Deck | None) -> tuple[Callable[[float], float] | None, tuple[float, ...]]:
    """Return the factor f(t) of a profile, None for 1, and the times at which it is not smooth."""
    if block is None:
        return None, ()
    kind = block["type"]
    if kind == "constant":
        return (lambda t: block["value"]), ()
    if kind == "cosine":
        return (
            lambda t: (
                block.get("offset", 0.0)
                + block.get("amplitude", 1.0) * math.cos(block["omega"] * t + block.get("phase", 0.0))
            )
        ), ()
    if kind == "ramp":
        a, b = block.get("t0", 0.0), block["t1"]
        one, two = block.get("start", 0.0), block.get("end", 1.0)

        def ramp(t: float) -> float:
            x = min(max((t - a) / (b - a), 0.0), 1.0)
            x = math.sin(0.5 * math.pi * x) ** 2 if block.get("shape") == "smooth" else x
            return float(one + (two - one) * x)

        return ramp, (a, b)
    if kind == "table":
        times, values = np.array(block["points"]).T
        return (lambda t: float(np.interp(t, times, values))), tuple(times)
    text, kinks = block["value"], block["_kinks"]
    code = compile(text.replace("^", "**"), "profile", "eval")
    names = {
        "cos": math.cos,
        "sin": math.sin,
        "exp": math.exp,
        "abs": abs,
        "max": max,
        "heaviside": lambda x: float(x > 0),
    }
    return (lambda t: float(eval(code, names, {"t": t}))), tuple(kinks)


# ---------------------------------------------------------------------------------------- evolution


@dataclass
class Evolution:
    """A Hamiltonian of several parts and what it does to states."""

    spins: int
    parts: Sequence[Part]
    matrices: list[csr_matrix] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Write the parts as sparse matrices."""
        self.matrices = self.matrices or [self._matrix(part) for part in self.parts]

    def _matrix(self, part: Part) -> csr_matrix:
        if part.matrix is not None:
            return part.matrix
        n = self.spins
        found: list[tuple[float, csr_matrix]] = []
        for a, axis in enumerate("xyz"):
            found += [(part.h[a, j], spin(axis, j, n)) for j in range(n) if part.h[a, j]]
            pairs = ((j, k) for j in range(n) for k in range(j + 1, n))
            found += [(part.J[a, j, k], _pair(axis, j, k, n)) for j, k in pairs if part.J[a, j, k]]
        if not found:
            return csr_matrix((1 << n, 1 << n), dtype=complex)
        each = [(value * matrix).tocoo() for value, matrix in found]
        row, column, data = (
            np.concatenate([getattr(m, name) for m in each]) for name in ("row", "col", "data")
        )
        return csr_matrix((data, (row, column)), shape=(1 << n, 1 << n))

    def back(self, t: float) -> Evolution:
        """Return the evolution that leads from a time back to 0."""
        parts = [Part(-p.J, -p.h, _reversed(p.factor, t), tuple(t - k for k in p.kinks)) for p in self.parts]
        return Evolution(self.spins, parts, [-matrix for matrix in self.matrices])

    @property
    def driven(self) -> bool:
        """True if it depends on time."""
        return any(part.factor is not None for part in self.parts)

    def at(self, t: float) -> csr_matrix:
        """Return the matrix at a time."""
        H = csr_matrix((1 << self.spins, 1 << self.spins), dtype=complex)
        for part, matrix in zip(self.parts, self.matrices, strict=True):
            H = H + (1.0 if part.factor is None else part.factor(t)) * matrix
        return H

    def radius(self, t: float) -> float:
        """Return a bound of half the width of the spectrum at a time."""
        total = 0.0
        for part in self.parts:
            factor = 1.0 if part.factor is None else abs(part.factor(t))
            total += factor * (np.abs(part.J).sum() / 8 + np.abs(part.h).sum() / 2)
        return total

    def run(self, psi: Complex, times: Sequence[float]) -> list[Complex]:
        """Return the states at ascending times from the state at t = 0."""
        if self.driven:
            return self._integrated(psi, times)
        if self.spins <= DENSE_SPINS:
            energies, vectors = np.linalg.eigh(self.at(0.0).toarray())
            start = vectors.conj().T @ psi
            return [vectors @ (np.exp(-1j * energies * t) * start) for t in times]
        H = -1j * self.at(0.0)
        found, here, t = [], psi, 0.0
        for time in times:
            if time > t:
                here, t = expm_multiply((time - t) * H, here, traceA=(time - t) * H.diagonal().sum()), time
            found.append(here)
        return found

    def _integrated(self, psi: Complex, times: Sequence[float]) -> list[Complex]:
        """Return the states at the times from a differential equation, piece by piece between kinks."""
        constant = csr_matrix((1 << self.spins, 1 << self.spins), dtype=complex)
        moving = []
        for part, matrix in zip(self.parts, self.matrices, strict=True):
            if part.factor is None:
                constant = constant + matrix
            else:
                moving.append((part.factor, matrix))

        def slope(t: float, y: Complex) -> Complex:
            total = constant @ y
            for factor, matrix in moving:
                total = total + factor(t) * (matrix @ y)
            return np.asarray(-1j * total)

        kinks = sorted({k for part in self.parts for k in part.kinks})
        stops = sorted({0.0, *times, *(k for k in kinks if 0.0 < k < times[-1])})
        states, here = {0.0: psi}, psi
        for a, b in pairwise(stops):
            # a jump belongs to the side that it is integrated on
            pad = min(max(1e-13 * (b - a), 4e-16 * b), 0.1 * (b - a))
            low, high = a + pad, b - pad

            def inside(t: float, y: Complex, low: float = low, high: float = high) -> Complex:
                return slope(min(max(t, low), high), y)

            solved = solve_ivp(
                inside, (a, b), here, "DOP853", rtol=ODE_TOLERANCE, atol=1e-14, first_step=min(b - a, 1e-2)
            )
            here = solved.y[:, -1]
            states[b] = here
        return [states[t] for t in times]


def _reversed(factor: Callable[[float], float] | None, t: float) -> Callable[[float], float] | None:
    return None if factor is None else (lambda s: factor(t - s))


def evolve(evolution: Evolution, psi: Complex, times: Sequence[float]) -> list[Complex]:
    """Return the states of an evolution at some times."""
    return evolution.run(psi, list(times))


# --------------------------------------------------------------------------------------- observables


@dataclass(frozen=True)
class Truth:
    """A state and what can be read off it."""

    psi: Complex
    spins: int

    def spin(self, axis: str) -> Real:
        """Return <S^axis_j> of every site."""
        return np.array([self._mean(self._applied(axis, j)) for j in range(self.spins)])

    def correlator(self, axis: str, j: int, k: int, other: str = "") -> float:
        """Return <S^axis_j S^other_k>, of the same axis if there is no other."""
        return float(np.vdot(self._applied(axis, j), self._applied(other or axis, k)).real)

    def _applied(self, axis: str, site: int) -> Complex:
        parts = self.psi.reshape(-1, 2, 1 << site)
        return np.einsum("ab,xby->xay", 0.5 * PAULI[axis], parts).ravel()

    def _mean(self, other: Complex) -> float:
        return float(np.vdot(self.psi, other).real)

    def energy(self, H: csr_matrix) -> tuple[float, float]:
        """Return <H> and its variance."""
        applied = H @ self.psi
        mean = self._mean(applied)
        rest = applied - mean * self.psi
        return mean, float(np.vdot(rest, rest).real)

    def entropy(self, sites: Sequence[int]) -> float:
        """Return the entropy of some sites with the rest."""
        order = [self.spins - 1 - s for s in sorted(sites)]
        rest = [a for a in range(self.spins) if a not in order]
        tensor = self.psi.reshape((2,) * self.spins).transpose(order + rest)
        p = np.linalg.svd(tensor.reshape(1 << len(order), -1), compute_uv=False) ** 2
        p = p[p > 1e-300]
        return float(-(p * np.log(p)).sum())

    def fidelity(self, other: Complex) -> float:
        """Return ``|<other|psi>|^2``."""
        return float(abs(np.vdot(other, self.psi)) ** 2)


def entropy_bound(error: float, sites: int) -> float:
    """Return the largest difference of two entropies (Fannes and Audenaert) for the distance of two states."""
    T = min(error, 0.5)
    if T <= 0.0:
        return 0.0
    return T * math.log(2.0**sites) - T * math.log(T) - (1.0 - T) * math.log1p(-T)

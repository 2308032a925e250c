r"""Preconditioner that holds the lowest levels of one electron with any other of the other one, and their coupling.

Among eigenfunctions of both h the operator of independent electrons is diagonal.  Products of which one factor is a low level
form strips of that table: an ion in 1s, 2s, 2p, ... and an electron that is bound or leaves.  Their repulsion is strong, as the
electron outside sees a nucleus that the other one screens, and degenerate levels of the ion are mixed by the dipole of that
electron at any distance.  On the strips the preconditioner is the inverse of ``E - h_1 - h_2 - V`` itself, elsewhere
``(E - h_1 - h_2)^-1``:

    P^-1 = S (S^T (E - H) S)^-1 S^T + (1 - S S^T) G0.

Other factors than low ones count up to an energy, above which the repulsion is little beside the distance in energy.

Strips are factorised in single precision, in half the time, and one step of refinement with H in double precision makes up for
it: on a long contour the eigenfunctions are so nearly dependent that what single precision leaves would count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.blas import one_thread
from qsim.core.device.pool import each_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.sturmian.driven.operator import Driven

__all__ = ["ChannelBlock"]

# Highest energy of the other factor beside a level of principal quantum number 1, 2, ..., in binding energies of the lowest one.
CUTS = (0.6, 0.6, 0.3, 0.15, 0.1, 0.06, 0.06, 0.06)
# Hartree: imaginary part of the energies of the strips. A resonance that is narrower would fill a direction beyond the digits of
# single precision with a vector that the space has already.
AWAY = 1e-4
# Hartree: distance of an energy that may take the place of another one; factors that are kept.
NEAR, KEPT = 5e-3, 20


class _Strip(NamedTuple):
    """Products with one low level: pair, which electron has the level, its number, and numbers of the other functions."""

    pair: int
    electron: int
    level: int
    others: NDArray[np.int64]


class ChannelBlock:
    """Strips of an operator with their repulsion.

    Parameters
    ----------
    operator : Driven
        E - H in the whole grid.

    Attributes
    ----------
    places : (size,) int64
        Of the products of the strips in the flat table (P, M, M) of all products, on the device.
    factorised : int
        Energies at which ``E - H`` of the strips has been factorised.
    """

    def __init__(self, operator: Driven) -> None:
        self.operator = operator
        # Of 1s, hartree, also where all pairs lack s levels: n of the lowest level of l is l + 1.
        self.binding = max(
            -float(orbital.e[0].real) * (l + 1) ** 2 for l, orbital in operator.orbitals.items()
        )
        strips = self._strips()
        size = operator.functions
        # Place of every product of a strip in the table (P, M, M); a product of two low levels lies on two strips.
        places = np.concatenate([_places(strip, size) for strip in strips])
        _, kept = np.unique(places, return_index=True)
        V = self._repulsion(strips)[np.ix_(kept, kept)]
        energies = np.concatenate(
            [np.add.outer(operator.orbitals[a].e, operator.orbitals[b].e).ravel() for a, b in operator.pairs]
        )
        asarray = operator.device.asarray
        self.places = asarray(places[kept])
        # Energies of the products, and H on the strips.
        self._energies = asarray(energies[places[kept]])
        self._H = asarray(V + np.diag(energies[places[kept]]))
        self.factorised = 0
        # Of the latest energies.
        self._solvers: dict[float, Callable[[Any], Any]] = {}

    @property
    def size(self) -> int:
        """Number of products on the strips."""
        return int(self._H.shape[0])

    @property
    def operations(self) -> float:
        """Floating-point operations of all factorisations so far."""
        return self.factorised * 8.0 / 3.0 * self.size**3

    def green(self, r: NDArray[np.complex128], E: NDArray[np.complex128]) -> Any:
        """Return ``P^-1 r`` on the product grid (m, P, n, n) for energies (m,), hartree."""
        operator = self.operator
        x = operator.divided(r, E)
        flat = x.reshape(x.shape[0], -1)
        # What the division did to the products of the strips is taken back.
        inside = flat[:, self.places] * (E[:, None] - self._energies)
        energies = operator.device.to_host(E).real
        solved = self._solved(energies, inside)
        # H is symmetric: x H is the transpose of H x.
        left = inside - (E[:, None] + 1j * AWAY) * solved + solved @ self._H
        flat[:, self.places] = solved + self._solved(energies, left)
        return operator.on_grid(x)

    def _solved(self, E: NDArray[np.float64], right: Any) -> Any:
        """Return ``(E_k - H)^-1 right[k]`` on the strips for vectors (m, size), in single precision.

        An energy that is near serves as well.
        """
        served: dict[float, list[int]] = {}
        for k, energy in enumerate(E.tolist()):
            near = min((*self._solvers, *served), key=lambda known: abs(known - energy), default=np.inf)
            served.setdefault(near if abs(near - energy) <= NEAR else energy, []).append(k)
        new = [energy for energy in served if energy not in self._solvers]
        while self._solvers and len(self._solvers) + len(new) > KEPT:
            oldest = next((energy for energy in self._solvers if energy not in served), None)
            if oldest is None:
                break
            del self._solvers[oldest]
        tasks = list(served.items())
        self.factorised += len(new)
        x = right.astype(np.complex64)

        # A factorisation is too small for a BLAS with threads; those of several energies are made side by side.
        def work(first: int, last: int) -> None:
            for energy, numbers in tasks[first:last]:
                if energy not in self._solvers:
                    self._solvers[energy] = self._solver(energy)
                x[numbers] = self._solvers[energy](x[numbers])

        if self.operator.device.is_cuda:
            work(0, len(tasks))
            return x
        with one_thread():
            each_call(work, len(tasks), max(1, len(new)) * self.size**3, self.operator.device.threads)
        return x

    def _solver(self, E: float) -> Callable[[Any], Any]:
        """Return a function that applies ``(E - H)^-1`` on the strips to vectors (k, size)."""
        xp = self.operator.device.xp
        matrix = -self._H
        matrix[xp.arange(self.size), xp.arange(self.size)] += complex(E, AWAY)
        matrix = matrix.astype(np.complex64)
        # A GPU multiplies faster than it substitutes. H is symmetric, and so is the inverse.
        if self.operator.device.is_cuda:
            inverse = xp.linalg.inv(matrix)
            return lambda x: x @ inverse
        from scipy.linalg import lu_factor, lu_solve

        # The transpose of a symmetric matrix lies in memory as LAPACK wants it.
        factors = lu_factor(matrix.T, overwrite_a=True, check_finite=False)
        return lambda x: lu_solve(factors, x.T, check_finite=False).T

    def _strips(self) -> list[_Strip]:
        """Return the strips of all pairs, with either electron in a low level."""
        out = []
        for p, pair in enumerate(self.operator.pairs):
            for electron, (l, other) in enumerate((pair, pair[::-1])):
                # n = 1, 2, ... of an l begins with l + 1
                for level, cut in enumerate(CUTS[l:]):
                    out.append(_Strip(p, electron, level, self._others(other, cut)))
        return out

    def _others(self, l: int, cut: float) -> NDArray[np.int64]:
        """Return the numbers of the functions of an l below a cut, in binding energies: the first ones."""
        return np.arange(np.count_nonzero(self.operator.orbitals[l].e.real < cut * self.binding))

    def _repulsion(self, strips: list[_Strip]) -> NDArray[np.complex128]:
        """Return the repulsion among the products of all strips."""
        edges = np.cumsum([0] + [strip.others.size for strip in strips])
        out = np.empty((edges[-1], edges[-1]), complex)

        def work(first: int, last: int) -> None:
            for i in range(first, last):
                exchanged: dict[tuple[int, int], NDArray[np.complex128]] = {}
                for j in range(i + 1):
                    part = self._between(strips[i], strips[j], exchanged)
                    rows, columns = slice(edges[i], edges[i + 1]), slice(edges[j], edges[j + 1])
                    out[rows, columns], out[columns, rows] = part, part.T

        with one_thread():
            size = len(strips) ** 2 * self.operator.points**2
            each_call(work, len(strips), size, self.operator.device.threads)
        return out

    def _between(
        self, bra: _Strip, ket: _Strip, exchanged: dict[tuple[int, int], NDArray[np.complex128]]
    ) -> NDArray[np.complex128]:
        """Return the repulsion between two strips, (others of the bra, others of the ket).

        What exchange with the level of the bra makes of the others of an l is kept in `exchanged`, for all kets of that l.
        """
        operator = self.operator
        of_ket = operator.pairs[ket.pair][1 - ket.electron]
        low, free = self._functions(bra)
        low_ket, free_ket = self._functions(ket)
        out = np.zeros((free.shape[1], free_ket.shape[1]), complex)
        for c, (pair, swapped) in enumerate(operator.kets):
            if pair != ket.pair:
                continue
            # The other order of the electrons has the level in the other one.
            same = (ket.electron ^ swapped) == bra.electron
            for l, A in zip(operator.multipoles, operator.factors[:, bra.pair, c], strict=True):
                if A == 0.0:
                    continue
                G = operator.planes[l]
                if same:
                    # a potential in which the other electron moves
                    out += A * (free.T @ (((low * low_ket) @ G)[:, None] * free_ket))
                else:
                    # exchange: the electrons have changed places
                    if (of_ket, l) not in exchanged:
                        widest = operator.orbitals[of_ket].C[:, self._others(of_ket, max(CUTS))]
                        exchanged[of_ket, l] = G @ (low[:, None] * widest)
                    # others are the lowest ones of an l
                    potential = exchanged[of_ket, l][:, : ket.others.size]
                    out += A * ((free * low_ket[:, None]).T @ potential)
        return out

    def _functions(self, strip: _Strip) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return the low level (n,) of a strip and the other functions (n, k)."""
        orbitals, pair = self.operator.orbitals, self.operator.pairs[strip.pair]
        return orbitals[pair[strip.electron]].C[:, strip.level], orbitals[pair[1 - strip.electron]].C[
            :, strip.others
        ]


def _places(strip: _Strip, size: int) -> NDArray[np.int64]:
    """Return the places of the products of a strip in the flat table (P, M, M)."""
    first, second = (strip.level, strip.others) if strip.electron == 0 else (strip.others, strip.level)
    return np.asarray((strip.pair * size + first) * size + second, np.int64)

"""Couplings of different components, ``sum_ab K_ab S^a_j S^b_k`` with a != b: from terms of a deck, and their conservation laws.

``cross`` (3, 3, N, N) holds ``K_ab`` of j and k at ``cross[a, b, j, k]`` and at ``cross[b, a, k, j]``; it is zero for a = b.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.deck import couplings as blocks
from qsim.trotter.deck.lattices import AllToAll, Lattice
from qsim.trotter.lattices import bonds as lattices

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def tensors_of(term: blocks.OrientedTerm, lattice: Lattice | None, spins: int) -> NDArray[np.float64]:
    """Return the 3 x 3 matrix of every ordered pair of sites, (3, 3, N, N)."""
    made = np.zeros((3, 3, spins, spins))
    for j, k, matrix in _given(term, lattice, spins):
        made[:, :, j, k] += matrix
    return made


def cross_of(tensors: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the couplings of equal components (3, N, N), and of different ones (None without any)."""
    both = tensors + tensors.transpose(1, 0, 3, 2)
    J = np.array([both[a, a] for a in range(3)])
    for a in range(3):
        both[a, a] = 0.0
    return J, both if both.any() else None


def _given(
    term: blocks.OrientedTerm, lattice: Lattice | None, spins: int
) -> Iterator[tuple[int, int, NDArray[np.float64]]]:
    """Yield sites and matrix (3, 3) of every bond of a term, a bond of a lattice in the direction of the lattice."""
    if term.list is not None:
        for row in term.list:
            yield int(row[0]), int(row[1]), _matrix(term, row[2:])
        return
    # the rules ask for one
    assert lattice is not None
    matrix = _of_lattice(term)
    for bond in lattices.bonds(lattice, spins, _shells(term, lattice)):
        ahead, back = lattices.directions(lattice, spins, bond.j, bond.k)
        # checks.py refuses couplings without a direction
        if getattr(lattice, "images", "one") == "one":
            ahead, back = (1, 0) if ahead else (0, 1)
        yield bond.j, bond.k, ahead * matrix
        yield bond.k, bond.j, back * matrix


def undirected(term: blocks.OrientedTerm, lattice: Lattice, spins: int) -> str:
    """Return which two sites of a lattice a coupling joins in both directions at once, so that it has none; ``""`` if none."""
    if term.list is not None:
        return ""
    matrix = _of_lattice(term)
    if getattr(lattice, "images", "one") == "all" or np.array_equal(matrix, matrix.T):
        return ""
    for bond in lattices.bonds(lattice, spins, _shells(term, lattice)):
        if all(lattices.directions(lattice, spins, bond.j, bond.k)):
            return (
                f"sites {bond.j} and {bond.k} are equally near both ways round and have no direction: which of them comes first "
                f"is not defined on a periodic {lattice.type}; give the pairs as a list, or lattice: {{..., images: all}} for a "
                "bond each way"
            )
    return ""


def _shells(term: blocks.OrientedTerm, lattice: Lattice) -> list[int] | None:
    """Return the shells of a term, by default nearest neighbours; None for all pairs."""
    return term.shells or (None if isinstance(lattice, AllToAll) else [1])


def _of_lattice(term: blocks.OrientedTerm) -> NDArray[np.float64]:
    """Return the coupling matrix (3, 3) of all bonds of a lattice."""
    numbers = term.D if isinstance(term, blocks.DM) else [x for row in term.J or () for x in row]
    return _matrix(term, numbers if isinstance(numbers, list) else [float(numbers or 0.0)])


def _matrix(term: blocks.OrientedTerm, numbers: list[float]) -> NDArray[np.float64]:
    if isinstance(term, blocks.Tensor):
        return np.array(numbers, np.float64).reshape(3, 3)
    x, y, z = numbers if len(numbers) == 3 else (0.0, 0.0, numbers[0])
    # S_j K S_k = D . (S_j x S_k), antisymmetric; a single number is D along z
    return np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])


def singular(J: NDArray[np.float64], cross: NDArray[np.float64], j: int, k: int) -> NDArray[np.float64]:
    """Return the couplings x, y, z of a pair whose spins have axes of their own.

    They are the singular values of its matrix, the last one with the sign of the determinant.
    """
    matrix = cross[:, :, j, k] + np.diag(J[:, j, k])
    values = np.linalg.svd(matrix, compute_uv=False)
    values[2] *= 1.0 if np.linalg.det(matrix) >= 0.0 else -1.0
    return np.asarray(values, np.float64)


def extremes(J: NDArray[np.float64], cross: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the four energies of every pair j < k, (4, pairs): energies of Bell states along the axes of :func:`singular`."""
    j, k = np.triu_indices(J.shape[1], 1)
    x, y, z = (J[a][j, k].copy() for a in range(3))
    if cross is not None:
        for n in np.flatnonzero(cross[:, :, j, k].any(axis=(0, 1))):
            x[n], y[n], z[n] = singular(J, cross, int(j[n]), int(k[n]))
    return 0.25 * np.stack([z + x - y, z - x + y, -z + x + y, -z - x - y])


def mixed(cross: NDArray[np.float64] | None, rounding: float, axis: int = 2) -> tuple[int, int, str] | None:
    """Return the first pair whose couplings of different components change the total S^a of an axis, and which; or None.

    ``K_bc = -K_cb`` of the other two axes, the Dzyaloshinskii-Moriya coupling along a, conserves it.
    """
    if cross is None:
        return None
    b, c = (axis + 1) % 3, (axis + 2) % 3
    for other in (b, c):
        pairs = np.argwhere(np.abs(cross[other, axis]) > rounding)
        if len(pairs):
            j, k = (int(site) for site in pairs[0])
            return j, k, f"J{'xyz'[other]}{'xyz'[axis]} = {cross[other, axis, j, k]:g}"
    pairs = np.argwhere(np.triu(np.abs(cross[b, c] + cross[c, b]) > rounding, 1))
    if not len(pairs):
        return None
    j, k = (int(site) for site in pairs[0])
    names = f"J{'xyz'[b]}{'xyz'[c]}", f"J{'xyz'[c]}{'xyz'[b]}"
    return (
        j,
        k,
        f"{names[0]} = {cross[b, c, j, k]:g} and {names[1]} = {cross[c, b, j, k]:g}, which are not opposite",
    )

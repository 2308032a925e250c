r"""Outgoing one-electron functions: eigenvectors of h_l on a complex contour, in the whole grid or among outgoing Sturmians.

On a contour that turns into the complex plane at R0 an outgoing wave decays, and the boundary condition of a collision becomes
``u = 0`` at its end.  ``h_l = T_l + V`` is then complex symmetric, its eigenvectors are orthonormal without conjugation,
``C^T C = 1``, and ``(E - h1 - h2)^-1`` is a division between two changes of basis.  The same form holds in the span of any N
functions, which is how outgoing Sturmians enter: the square well with a short exponential tail on the contour lets channels of
other wave numbers than the functions' own pass, which a bare well reflects.

How nearly dependent the eigenvectors are is the condition number of C.  It grows with the angle of the contour, and rounding
errors with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import NumericsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.sturmian.radial.grid import RadialGrid

# Condition number of the eigenvectors of h from which rounding errors are no longer small.
CONDITION = 1e9
# u^T u of a normalised eigenvector, below which it cannot be normalised.
DEFECTIVE = 1e-12


@dataclass(frozen=True, eq=False)
class Outgoing:
    """Eigenfunctions of h_l on a contour, in the whole grid or in the span of some functions.

    Attributes
    ----------
    l : int
        Orbital momentum.
    e : (M,) complex128
        Eigenvalues, hartree, by ascending real part.
    C : (n, M) complex128
        Coefficients in the normalised FE-DVR basis, ``C^T C = 1``.
    h : (n, n) complex128
        The operator itself in the FE-DVR basis, hartree.
    whole : bool
        Whether the functions span the whole grid.
    condition : float
        Ratio of the largest to the smallest singular value of C.
    """

    l: int
    e: NDArray[np.complex128]
    C: NDArray[np.complex128]
    h: NDArray[np.complex128]
    whole: bool
    condition: float

    @property
    def size(self) -> int:
        """Number of functions."""
        return int(self.e.shape[0])


def outgoing(
    grid: RadialGrid,
    l: int,
    V: NDArray[np.complex128],
    c: NDArray[np.complex128] | None = None,
) -> Outgoing:
    """Return the eigenfunctions of ``h_l = T_l + V`` on a contour.

    Parameters
    ----------
    grid : RadialGrid
        With a complex part.
    l : int
        Orbital momentum.
    V : (n,)
        One-body potential at the nodes, hartree.
    c : (n, N) complex128, optional
        Coefficients of outgoing functions that span the basis; by default the whole grid.

    Raises
    ------
    NumericsError
        If the grid has no complex part, or eigenvectors cannot be normalised.
    """
    if not grid.is_complex:
        raise NumericsError(
            "a collision needs a complex contour, on which outgoing waves decay",
            hint="grid: {ecs: {angle: 0.3, length: 25}}",
        )
    # h is complex symmetric on the contour: its eigenvectors are orthogonal without conjugation, c^T c = 1
    h = np.asarray(grid.kinetic(l), complex)
    h[np.diag_indices_from(h)] += V
    if c is None:
        # unlike SciPy's, it lets other threads work meanwhile
        e, C = np.linalg.eig(h)
    else:
        from scipy.linalg import solve

        # Q is unitary, but Q^T Q is not the identity: a generalised problem in the span
        Q, _ = np.linalg.qr(c / np.linalg.norm(c, axis=0))
        e, x = np.linalg.eig(solve(Q.T @ Q, Q.T @ (h @ Q), check_finite=False))
        C = Q @ x
    # By real part: bound levels come first, as their energies turn little; the rotated
    # continuum follows.
    order = np.argsort(e.real, kind="stable")
    e, C = e[order], C[:, order]
    # c^T c may vanish where two eigenvalues meet; then the eigenvectors do not span the space
    # Without conjugation the square may be any complex number; its root only changes the phase
    # of a function.
    norm = np.einsum("ij,ij->j", C, C)
    if np.abs(norm).min() < DEFECTIVE * np.abs(np.einsum("ij,ij->j", C.conj(), C)).max():
        raise NumericsError(
            f"two eigenvectors of the one-electron Hamiltonian of l = {l} on the contour coincide",
            hint="another grid.ecs.angle",
        )
    C = C / np.sqrt(norm)
    singular = np.linalg.svd(C, compute_uv=False)
    return Outgoing(l, e, np.ascontiguousarray(C), h, c is None, float(singular[0] / singular[-1]))

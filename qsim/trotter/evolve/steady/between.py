r"""The evolution between jumps, ``L_0 rho = A rho + rho A^+`` with A = -i H - (1/2) sum_k L_k^+ L_k, and its inverse.

With ``A = V diag(a) V^-1`` the inverse is ``(L_0 - z)^-1 B = V [(V^-1 B V^-+)_jk / (a_j + a_k^* - z)] V^+``: matrices of N spins
alone.  What is left of the generator is one jump, so that ``(G - z) (L_0 - z)^-1 = 1 + J (L_0 - z)^-1`` lies close to 1; at z = 0
``-J L_0^-1`` leads from the state after a jump to the mean state after the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.model.open.channels import decays_of, digits_of
from qsim.trotter.sectors.digits.product import DigitOperator
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.sectors.digits.liouville import Doubled

# condition of eigenvectors above which A is changed by a small matrix: where levels meet they are parallel
MOST_CONDITION, CHANGE = 1e5, 1e-3
# of the largest element of A: an eigenvalue of L_0 nearer to z than that is one that far away
NEAREST = 1e-4
SEED = 3


class _Block(NamedTuple):
    """States of one total Sz: places of their elements, eigenvalues of L_0, eigenvectors of A and their inverse."""

    places: NDArray[np.int64]
    sums: NDArray[np.complex128]
    vectors: NDArray[np.complex128]
    inverse: NDArray[np.complex128]


class Between:
    """Inverse of the evolution between jumps, of constant rates.

    Parameters
    ----------
    doubled : Doubled
        Of all elements, or of those without coherence between different Sz.
    """

    def __init__(self, doubled: Doubled) -> None:
        self.doubled, twos = doubled, doubled.twos
        self.back = doubled.basis.conj().T.tocsr()
        models = [(-1j, digits_of(doubled.hamiltonian.static, twos), 0.0)]
        for decay in decays_of(doubled.channels, twos):
            models.append((-0.5, digits_of(decay.model, twos), decay.constant))
        downs = [-1] if doubled.order is None else range(sum(twos) + 1)
        self.blocks = [self._block(DigitSpace(twos, down), models) for down in downs]
        self.nearest = NEAREST * max(float(np.abs(block.sums).max()) for block in self.blocks)

    def _block(self, space: DigitSpace, models: list[tuple[complex, Any, float]]) -> _Block:
        doubled, one = self.doubled, np.eye(space.dimension)
        A = np.zeros(one.shape, np.complex128)
        for share, model, constant in models:
            A += share * (DigitOperator(doubled.device, space, model).matrix.toarray() + constant * one)
        values, vectors = np.linalg.eig(A)
        if np.linalg.cond(vectors) > MOST_CONDITION:
            noise = np.random.default_rng(SEED).normal(size=A.shape)
            values, vectors = np.linalg.eig(A + CHANGE * float(np.abs(A).max()) * noise)
        strings = space.strings()
        places = doubled.space.index(strings[:, None] | doubled.turned(strings) << doubled.shift)
        return _Block(places, values[:, None] + values.conj(), vectors, np.linalg.inv(vectors))

    def solve(self, x: NDArray[Any], z: complex) -> NDArray[Any]:
        """Return ``(L_0 - z)^-1 x`` in the basis of the Hermitian matrices; real if x and z are."""
        v = np.asarray(self.doubled.basis @ x, np.complex128)
        out = np.zeros_like(v)
        for places, sums, vectors, inverse in self.blocks:
            apart = sums - z
            close = np.abs(apart) < self.nearest
            apart[close] = -self.nearest
            inner = inverse @ v[places] @ inverse.conj().T / apart
            out[places] = vectors @ inner @ vectors.conj().T
        y = self.back @ out
        return np.asarray(y if np.iscomplexobj(x) or complex(z).imag else y.real)

r"""First-order functions of a state: ``(H - E_0 - z) u = s`` for many frequencies z, in one space of trial functions.

All equations of one source share an orthonormal space V.  With ``V^T H V = W Lambda W^T`` the solution in it is
``u = V W (Lambda - E_0 - z)^-1 W^T V^T s``, and what a response needs is a quadratic form of the source, whose error is of second
order in the residual ``s - (H - E_0 - z) u``.  The space grows by preconditioned residuals (J. Olsen and P. Jorgensen, J. Chem.
Phys. 82, 3235 (1985)) until all of them are small.  No state is summed over, and H may be indefinite: a state with levels below
it, or a frequency between two levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.sturmian.two_electron.davidson import Preconditioner, orthonormal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.sturmian.two_electron.hamiltonian import TwoElectron

__all__ = ["Response", "Space"]

# Directions added in one step: the worst residuals first.
WIDTH = 6
# Vectors from which the space is made anew from the solutions.
MOST = 260
# Relative residual from which standing still is rounding.
FLOOR = 1e-5
# Steps without progress that end the search.
PATIENCE = 12


@dataclass(frozen=True)
class Response:
    """A source in the space of its first-order functions.

    Attributes
    ----------
    levels : (k,) float64
        Eigenvalues of H in the space, hartree, above the energy of the state.
    strengths : (k,) float64
        Components of the source along their eigenvectors.
    residual : float
        Largest residual of an equation, relative to the source.
    products : int
        Products with H.
    """

    levels: NDArray[np.float64]
    strengths: NDArray[np.float64]
    residual: float
    products: int

    def resolvent(self, z: complex) -> complex:
        """Return ``s^T (H - E_0 - z)^-1 s``."""
        return complex(np.sum(self.strengths**2 / (self.levels - z)))

    def moment(self, power: int) -> float:
        """Return ``s^T (H - E_0)^power s`` of the source projected on the space."""
        return float(np.sum(self.strengths**2 * self.levels**power))


class Space:
    """Trial functions of one symmetry, with their products with H; all sources of a state share them.

    Parameters
    ----------
    operator : TwoElectron
    energy : float
        E_0 of the state, hartree.
    without : (P, M, M), optional
        The state itself, of norm 1, where the sources have its symmetry: everything is kept orthogonal to it.
    """

    def __init__(self, operator: TwoElectron, energy: float, without: FloatArray | None = None) -> None:
        self.operator, self.energy = operator, energy
        self.without = None if without is None else without[None]
        self.products = 0
        xp = operator.device.xp
        self.V = xp.zeros((0, *operator.shape))
        self.AV = xp.zeros((0, *operator.shape))
        self.small = np.zeros((0, 0))
        m, values, vectors = operator.model_space()
        self.precondition = Preconditioner(operator, m, values, vectors)

    def _add(self, block: FloatArray) -> int:
        """Add directions, orthonormalised and of the right exchange symmetry; return how many are new."""
        operator = self.operator
        xp, host = operator.device.xp, operator.device.to_host
        known = [part for part in (self.without, self.V) if part is not None and len(part)]
        new = orthonormal(
            operator.device, operator.symmetrise(block), xp.concatenate(known) if known else None
        )
        count = int(new.shape[0])
        if not count:
            return 0
        images = operator.apply(new)
        self.products += count
        self.V, self.AV = xp.concatenate([self.V, new]), xp.concatenate([self.AV, images])
        # H in the space grows by the rows of the new directions alone
        rows = np.asarray(host(self._flat(new) @ self._flat(self.AV).T))
        size = len(self.V)
        small = np.zeros((size, size))
        small[:-count, :-count] = self.small
        small[-count:] = rows
        small[:, -count:] = rows.T
        small[-count:, -count:] = 0.5 * (rows[:, -count:] + rows[:, -count:].T)
        self.small = small
        return count

    def _flat(self, x: FloatArray) -> Any:
        return x.reshape(len(x), -1)

    def solve(
        self,
        source: FloatArray,
        frequencies: Sequence[complex],
        *,
        tolerance: float,
        max_iterations: int = 400,
        observe: Callable[[], None] | None = None,
    ) -> tuple[Response, Any]:
        """Solve ``(H - E_0 - z) u = s`` for all frequencies z.

        Parameters
        ----------
        source : (P, M, M)
            On the device, of the exchange symmetry of the operator.
        frequencies : sequence of complex
            z, hartree: real ones, or imaginary ones.
        tolerance : float
            Largest residual, relative to the source.
        max_iterations : int
        observe : callable, optional
            Called before every step.

        Returns
        -------
        response : Response
        solutions : (k, P, M, M)
            Real parts of u, then the imaginary parts of those whose frequency has one.

        Raises
        ------
        NumericsError
            If the residuals do not become small.
        """
        xp = self.operator.device.xp
        if self.without is not None:
            source = source - xp.sum(self.without[0] * source) * self.without[0]
        z = np.asarray(frequencies, complex)
        norm = float(xp.sqrt(xp.sum(source * source)))
        if norm == 0.0:
            return Response(np.zeros(0), np.zeros(0), 0.0, 0), xp.zeros((0, *self.operator.shape))
        before = self.products
        best, since = np.inf, 0
        for _ in range(max_iterations):
            if observe is not None:
                observe()
            levels, W, b = self._levels(source)
            R, sizes = self._residuals(source, levels, W, b, z)
            worst = float(sizes.max()) / norm if sizes.size else np.inf
            best, since = (worst, 0) if worst < 0.9 * best else (best, since + 1)
            if worst <= tolerance or (since >= PATIENCE and worst < FLOOR):
                u = self._solutions(levels, W, b, z)
                return Response(levels, b, worst, self.products - before), u
            if since >= 4 * PATIENCE:
                break
            if len(self.V) + WIDTH > MOST:
                self._restart(self._solutions(levels, W, b, z))
                continue
            if not self._add(self._directions(R, sizes, z, tolerance * norm)):
                # nothing new: the residuals are rounding
                since = max(since, PATIENCE)
        raise NumericsError(
            f"a first-order function has a residual of {worst:.1e} of its source, but {tolerance:.1e} is wanted",
            hint="a frequency further from the levels of the atom, or more functions",
        )

    def _directions(
        self,
        make: Callable[[Sequence[int]], Any],
        sizes: NDArray[np.float64],
        z: NDArray[np.complex128],
        small: float,
    ) -> Any:
        """Return preconditioned residuals of the equations that are solved worst, as real vectors."""
        xp, k = self.operator.device.xp, len(z)
        both = np.hypot(sizes[:k], sizes[k:])
        worst = [int(j) for j in np.argsort(-both) if max(sizes[j], sizes[k + j]) > small][:WIDTH]
        real = [j for j in worst if z[j].imag == 0.0]
        # a complex equation has two directions
        paired = [j for j in worst if z[j].imag != 0.0][: max(1, (WIDTH - len(real)) // 2)]
        found = []
        if real:
            found.append(self.precondition.inverse(make(real), self.energy + z[real].real))
        if paired:
            R = make(paired) + 1j * make([k + j for j in paired])
            T = self.precondition.inverse(R, self.energy + z[paired])
            found += [xp.ascontiguousarray(T.real), xp.ascontiguousarray(T.imag)]
        return xp.concatenate(found)

    def _restart(self, kept: FloatArray) -> None:
        """Make the space anew from some vectors."""
        xp = self.operator.device.xp
        self.V, self.AV = xp.zeros((0, *self.operator.shape)), xp.zeros((0, *self.operator.shape))
        self.small = np.zeros((0, 0))
        self._add(kept)

    def _levels(
        self, source: FloatArray
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return levels of H in the space above the energy, their vectors, and the components of a source along them."""
        if not len(self.V):
            return np.zeros(0), np.zeros((0, 0)), np.zeros(0)
        values, W = np.linalg.eigh(self.small)
        s = np.asarray(self.operator.device.to_host(self._flat(self.V) @ source.ravel()))
        return values - self.energy, W, W.T @ s

    def _coefficients(
        self,
        levels: NDArray[np.float64],
        W: NDArray[np.float64],
        b: NDArray[np.float64],
        z: NDArray[np.complex128],
    ) -> NDArray[np.float64]:
        """Return the coefficients of u in the space, (2 k, n): all real parts, then all imaginary parts."""
        c = (b / (levels - z[:, None])) @ W.T
        return np.concatenate([c.real, c.imag])

    def _residuals(
        self,
        source: FloatArray,
        levels: NDArray[np.float64],
        W: NDArray[np.float64],
        b: NDArray[np.float64],
        z: NDArray[np.complex128],
    ) -> tuple[Callable[[Sequence[int]], Any], NDArray[np.float64]]:
        """Return a function that makes some of the residuals (2 k: real parts, then imaginary parts), and the norms of all."""
        device = self.operator.device
        xp, k = device.xp, len(z)
        c = self._coefficients(levels, W, b, z)
        real, imaginary = c[:k], c[k:]
        # s - (H - E_0 - z) u = s - H V c + (E_0 + z) V c, in its real and imaginary part
        shift = (self.energy + z.real)[:, None]
        onto = np.concatenate(
            [shift * real - z.imag[:, None] * imaginary, shift * imaginary + z.imag[:, None] * real]
        )

        def make(chosen: Sequence[int]) -> Any:
            a, o = device.asarray(c[chosen]), device.asarray(onto[chosen])
            R = xp.tensordot(o, self.V, 1) - xp.tensordot(a, self.AV, 1)
            for row, index in enumerate(chosen):
                if index < k:
                    R[row] += source
            return R

        used = [*range(k), *(k + j for j in range(k) if z[j].imag != 0.0)]
        sizes = np.zeros(2 * k)
        # a few at a time: all residuals at once would need as much memory as the space
        for first in range(0, len(used), WIDTH):
            part = used[first : first + WIDTH]
            R = make(part)
            sizes[part] = np.sqrt(np.asarray(device.to_host(xp.sum(R * R, axis=(1, 2, 3)))))
        return make, sizes

    def _solutions(
        self,
        levels: NDArray[np.float64],
        W: NDArray[np.float64],
        b: NDArray[np.float64],
        z: NDArray[np.complex128],
    ) -> Any:
        """Return the real parts of all u, and the imaginary parts of those with a complex frequency."""
        c = self._coefficients(levels, W, b, z)
        kept = [*range(len(z)), *(len(z) + j for j in range(len(z)) if z[j].imag != 0.0)]
        device = self.operator.device
        return device.xp.tensordot(device.asarray(np.ascontiguousarray(c[kept])), self.V, 1)

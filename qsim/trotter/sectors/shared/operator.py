"""H psi of vectors on 2^g processes, the top g bits of whose index number the rank.

Couplings among local spins, and everything along z, act on the amplitudes of a process alone: the spins of the rank have one
value s = +-1/2 there.  A term that turns spin k of the rank takes the amplitudes of the process with the other value of k, phi:

    <s| h^x S^x_k + h^y S^y_k |-s> = h^x / 2 - i s h^y,

and its couplings with local spins j are fields on them, ``J^x_kj S^x_j / 2 - i s J^y_kj S^y_j``.  A coupling of two spins k and l
of the rank takes those of the process in which both are turned, times ``J^x_kl / 4 - s_k s_l J^y_kl``.  Of one parity the last
site is not in the index: its spin follows from the parity of the local spins and that of the rank, and its couplings with spin k
of the rank multiply phi by a number for each of its two values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.operators import Operator, is_real, operator
from qsim.trotter.kernels.product.parity import LastSite, parity_last
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.linear import SpaceOperator
from qsim.trotter.sectors.parity_operator import flips_with_last
from qsim.trotter.sectors.shared.space import SharedSpace, bits_of
from qsim.trotter.states.vectors import axpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links

__all__ = ["SharedOperator"]


@dataclass(frozen=True)
class _Turned:
    """Terms that turn some spins of the rank: a number, and fields on the local spins.

    Attributes
    ----------
    partner : int
        Process with the other values of these spins.
    number : complex
        Factor of its amplitudes.
    real, imaginary : Operator or None
        Fields on the local spins, which act on its amplitudes and on i times them.
    last : float
        Field on the last site of a parity, which acts on its amplitudes.
    """

    partner: int
    number: complex
    real: Operator | None = None
    imaginary: Operator | None = None
    last: float = 0.0


class SharedOperator(SpaceOperator):
    """A Hamiltonian as it acts on the part of a state that one of 2^g processes has; every call is made by all of them.

    Parameters
    ----------
    device : Device
    space : SharedSpace
    model : Model
        Of all N spins, without couplings of different components; in a parity without what leads out of it.

    Raises
    ------
    ValueError
        If the model couples different components.
    """

    sector: SharedSpace

    def __init__(self, device: Device, space: SharedSpace, model: Model) -> None:
        if model.cross is not None:
            raise ValueError("couplings of different components have no product over several processes")
        super().__init__(device, space, model)
        links = self.links = space.links
        g, parity = bits_of(links.size), getattr(space.base, "odd", None)
        # the index of a parity has no bit of the last site
        inner = model if parity is None else model.restricted(range(model.spins - 1))
        n = inner.spins - g
        self.first = links.rank << n
        values = np.asarray(0.5 - (links.rank >> np.arange(g) & 1), np.float64)
        local, others = slice(0, n), slice(n, inner.spins)
        # along z the spins of the rank make fields on the local ones, and an energy
        h = inner.h[:, local].copy()
        h[2] += inner.J[2, local, others] @ values
        self._inside = operator(device, Model(n, np.ascontiguousarray(inner.J[:, local, local]), h))
        self._energy = float(inner.h[2, others] @ values + 0.5 * values @ inner.J[2, others, others] @ values)
        rows = np.zeros((inner.spins, 4))
        if parity is not None:
            rows = np.array([flips_with_last(model, j) for j in range(inner.spins)])
        self._turned = _turned(device, inner, links, values, rows[n:])
        self._last: LastSite | None = None
        if parity is not None:
            self._odd = parity ^ (links.rank.bit_count() & 1)
            field = float(model.h[2, -1] + model.J[2, -1, others.start : others.stop] @ values)
            self._last = self._last_site(np.ascontiguousarray(model.J[2, -1, :n]), field, rows[:n])
        self.needs_work = bool(self._turned) or self._inside.needs_work

    @property
    def size(self) -> int:
        """Amplitudes of this process."""
        return self.sector.size

    @property
    def is_real(self) -> bool:
        """True if the matrix elements of H are real, and the terms of the rank are made of real ones."""
        return is_real(self.model) and all(term.imaginary is None for term in self._turned)

    def _last_site(self, J: NDArray[np.float64], field: float, rows: NDArray[np.float64]) -> LastSite:
        """Return couplings of the last site of a parity with local spins: along z, a field, and flips by rows (n, 4)."""
        place = self.device.asarray
        site = np.flatnonzero(rows.any(axis=1))
        coefficient = np.stack([rows[site], np.zeros((site.size, 4))], axis=-1)
        return LastSite(self._odd, place(site.astype(np.int32)), place(coefficient), place(J), field)

    def product(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        factors: tuple[float, float, float],
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = a H psi + b psi + c out``, a, b, c = factors; vectors (size,) on the device."""
        work = self.device.xp.empty_like(psi) if work is None and self.needs_work else work
        (alpha, beta, gamma), links = factors, self.sector.links
        beta += alpha * self._energy
        apply_h(self.device, self._inside, psi, out, alpha=alpha, beta=beta, gamma=gamma, work=work)
        if self._last is not None:
            parity_last(self.device, self._last, psi, out, alpha)
        for term in self._turned:
            assert work is not None
            links.swap(term.partner, psi, work)
            if term.number != 0.0:
                number = term.number if work.dtype.kind == "c" else term.number.real
                axpy(alpha * number, work, out)
            if term.last != 0.0:
                none = np.zeros((0, 4))
                alone = self._last_site(np.zeros(self.size.bit_length() - 1), term.last, none)
                parity_last(self.device, alone, work, out, alpha)
            if term.real is not None:
                apply_h(self.device, term.real, work, out, alpha=alpha, gamma=1.0)
            if term.imaginary is not None:
                work *= work.dtype.type(1j)
                apply_h(self.device, term.imaginary, work, out, alpha=alpha, gamma=1.0)


def _turned(
    device: Device, model: Model, links: Links, values: NDArray[np.float64], rows: NDArray[np.float64]
) -> list[_Turned]:
    """Return the terms that turn spins of a rank with the given values; rows (g, 4) flip the last site with them."""
    g, n, rank = len(values), model.spins - len(values), links.rank
    terms = []
    for k in range(g):
        J, h = model.J[:, n + k, :n], model.h[:, n + k]
        # all processes make the same exchanges: whether there are any does not depend on the rank
        if not (J[:2].any() or h[:2].any() or rows[k].any()):
            continue
        real, imaginary = np.zeros((3, n)), np.zeros((3, n))
        real[0] = 0.5 * J[0]
        # -i s J^y: real fields on i times the amplitudes
        imaginary[1] = -values[k] * J[1]
        # elements with the last site up and down, for the value that this spin has
        up, down = rows[k, (0 if values[k] > 0.0 else 1) :: 2]
        terms.append(
            _Turned(
                rank ^ (1 << k),
                complex(0.5 * (h[0] + up + down), -values[k] * h[1]),
                _fields(device, real),
                _fields(device, imaginary),
                float(up - down),
            )
        )
    for k in range(g):
        for m in range(k):
            Jx, Jy = (float(model.J[a, n + k, n + m]) for a in (0, 1))
            if Jx != 0.0 or Jy != 0.0:
                number = 0.25 * Jx - values[k] * values[m] * Jy
                terms.append(_Turned(rank ^ (1 << k | 1 << m), complex(number)))
    return terms


def _fields(device: Device, h: NDArray[np.float64]) -> Operator | None:
    """Return fields (3, n) as an operator that needs no vector, None if they vanish."""
    n = h.shape[1]
    return operator(device, Model(n, np.zeros((3, n, n)), h), "bonds") if h.any() else None

"""H psi of a state on 2^g processes, the top g bits of whose index number the rank.

Couplings among local spins, and everything along z, act on the amplitudes of a process alone: the spins of the rank have one
value s = +-1/2 there.  A term that turns spin k of the rank takes the amplitudes of the process with the other value of k, phi:

    <s| h^x S^x_k + h^y S^y_k |-s> = h^x / 2 - i s h^y,

and its couplings with local spins j are fields on them, ``J^x_kj S^x_j / 2 - i s J^y_kj S^y_j``.  A coupling of two spins k and l
of the rank takes those of the process in which both are turned, times ``J^x_kl / 4 - s_k s_l J^y_kl``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.trotter.evolution.distributed import bits_of
from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.operators import Operator, operator
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.states.vectors import axpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.links import Links


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
    """

    partner: int
    number: complex
    real: Operator | None = None
    imaginary: Operator | None = None


class SharedOperator:
    """A Hamiltonian as it acts on the part of a state that one of 2^g processes has; every call is made by all of them.

    Parameters
    ----------
    device : Device
    model : Model
        Of all N spins, without couplings of different components.
    links : Links

    Attributes
    ----------
    size : int
        Amplitudes of this process.
    first : int
        Index of the first of them in the whole state.
    whole : int
        Amplitudes of the state.

    Raises
    ------
    ValueError
        If the model couples different components.
    """

    def __init__(self, device: Device, model: Model, links: Links) -> None:
        if model.cross is not None:
            raise ValueError("couplings of different components have no product over several processes")
        self.device, self.links = device, links
        g = bits_of(links.size)
        n = model.spins - g
        self.size, self.first, self.whole = 1 << n, links.rank << n, 1 << model.spins
        values = np.asarray(0.5 - (links.rank >> np.arange(g) & 1), np.float64)
        local, others = slice(0, n), slice(n, model.spins)
        # along z the spins of the rank make fields on the local ones, and an energy
        h = model.h[:, local].copy()
        h[2] += model.J[2, local, others] @ values
        self._inside = operator(device, Model(n, np.ascontiguousarray(model.J[:, local, local]), h))
        self._energy = float(model.h[2, others] @ values + 0.5 * values @ model.J[2, others, others] @ values)
        self._turned = _turned(device, model, links.rank, values)
        self.needs_work = bool(self._turned) or self._inside.needs_work

    def apply(
        self,
        psi: NDArray[Any],
        out: NDArray[Any],
        alpha: float = 1.0,
        beta: float = 0.0,
        gamma: float = 0.0,
        work: NDArray[Any] | None = None,
    ) -> None:
        """Compute ``out = alpha H psi + beta psi + gamma out``; vectors (2^(N-g),) complex on the device."""
        work = self.device.xp.empty_like(psi) if work is None and self.needs_work else work
        inside = self._inside
        apply_h(
            self.device,
            inside,
            psi,
            out,
            alpha=alpha,
            beta=beta + alpha * self._energy,
            gamma=gamma,
            work=work,
        )
        for term in self._turned:
            assert work is not None
            self.links.swap(term.partner, psi, work)
            if term.number != 0.0:
                axpy(alpha * term.number, work, out)
            if term.real is not None:
                apply_h(self.device, term.real, work, out, alpha=alpha, gamma=1.0)
            if term.imaginary is not None:
                work *= work.dtype.type(1j)
                apply_h(self.device, term.imaginary, work, out, alpha=alpha, gamma=1.0)


def _turned(device: Device, model: Model, rank: int, values: NDArray[np.float64]) -> list[_Turned]:
    """Return the terms that turn spins of a rank with the given values."""
    g, n = len(values), model.spins - len(values)
    terms = []
    for k in range(g):
        J, h = model.J[:, n + k, :n], model.h[:, n + k]
        # all processes make the same exchanges: whether there are any does not depend on the rank
        if not (J[:2].any() or h[:2].any()):
            continue
        real, imaginary = np.zeros((3, n)), np.zeros((3, n))
        real[0] = 0.5 * J[0]
        # -i s J^y: real fields on i times the amplitudes
        imaginary[1] = -values[k] * J[1]
        terms.append(
            _Turned(
                rank ^ (1 << k),
                complex(0.5 * h[0], -values[k] * h[1]),
                _fields(device, real),
                _fields(device, imaginary),
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

"""Expectation values of spins and energy.

Moments (:class:`qsim.trotter.kernels.states.measure.Moments`) hold ``norm = <psi|psi>``, ``s["z"][j] = <S^z_j>`` and
``ss["z"][j, k] = <S^z_j S^z_k>``, and the same of the other axes that were measured, not divided by the norm; everything here is
divided by it.  Site j is bit j of the index, bit 0 is up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.trotter.deck.axes import AXES
from qsim.trotter.kernels.product.apply import apply_h
from qsim.trotter.kernels.product.operators import Operator, operator
from qsim.trotter.states.vectors import axpy, norm2, overlap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.kernels.states.measure import Moments
    from qsim.trotter.model.hamiltonian import Hamiltonian, Model
    from qsim.trotter.sectors.lanczos import Linear
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["correlators", "energy", "energy_and_variance", "local"]


def _of_axis(by_axis: Mapping[str, NDArray[np.float64]], axis: str) -> NDArray[np.float64]:
    """Moments of one axis."""
    if axis not in by_axis:
        raise ValueError(f"the moments hold the axes {', '.join(by_axis) or 'none'}, not {axis}")
    return np.asarray(by_axis[axis], float)


def local(moments: Moments, axis: str) -> NDArray[np.float64]:
    """Return ``<S^a_j>`` of every site, (N,)."""
    return _of_axis(moments.s, axis) / float(moments.norm)


def correlators(
    moments: Moments, axis: str, pairs: Sequence[Sequence[int]] | None = None
) -> NDArray[np.float64]:
    """Return ``<S^a_j S^a_k>`` of pairs (P, 2), by default all j < k in the order (0,1), (0,2), ..., (1,2), ..."""
    ss = _of_axis(moments.ss, axis) / float(moments.norm)
    first, second = np.triu_indices(len(ss), 1) if pairs is None else np.asarray(pairs, int).reshape(-1, 2).T
    same = first == second
    # (S^a)^2 = 1/4
    return np.where(same, 0.25, ss[first, second])


def energy(moments: Moments, hamiltonian: Hamiltonian | Model, time: float = 0.0) -> float:
    """Return ``<H(t)>``; axes on which H has nothing need no moments."""
    if moments.energy is not None:
        return float(moments.energy)
    model = hamiltonian.at(time)
    terms: list[float] = []
    for a, axis in enumerate(AXES):
        if model.J[a].any():
            # other pairs may not have been measured
            first, second = np.nonzero(model.J[a])
            upper = first < second
            chosen = first[upper], second[upper]
            terms.extend((model.J[a][chosen] * _of_axis(moments.ss, axis)[chosen]).tolist())
        if model.h[a].any():
            terms.extend((model.h[a] * _of_axis(moments.s, axis)).tolist())
    return math.fsum(terms) / float(moments.norm)


def energy_and_variance(
    device: Device,
    hamiltonian: Hamiltonian | Model,
    psi: Amplitudes,
    time: float = 0.0,
    op: Operator | None = None,
    linear: Linear | None = None,
) -> tuple[float, float]:
    """Return ``<H>`` and ``<H^2> - <H>^2``, as the square of ``(H - <H>) psi``, so that nothing cancels.

    Needs one vector, and another one for long-range couplings.

    Parameters
    ----------
    op : Operator, optional
        The Hamiltonian at that time, if it is at hand.
    linear : Linear, optional
        The Hamiltonian as it acts in a sector, or on the part of a process (`SharedOperator`), to which psi then belongs.
    """
    out = device.xp.empty_like(psi)
    if linear is not None:
        linear.apply(psi, out)
    else:
        op = op if op is not None else operator(device, hamiltonian.at(time))
        apply_h(device, op, psi, out)
    # a vector of which other processes have parts, too
    links = getattr(linear, "links", None)
    norm = norm2(psi, links)
    # ||(H - <H>) psi||^2: no difference of large numbers
    mean = overlap(psi, out, links).real / norm
    axpy(-mean, psi, out)
    return mean, norm2(out, links) / norm

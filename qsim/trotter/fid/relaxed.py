r"""Lines of nuclei that relax by fields of their own, or by dipolar couplings.

Every nucleus has loss and pump of one rate k = 1 / (2 T1) and a dephasing f = 1 / T2 - k: fields along x, y and z that fluctuate
faster than it turns.  The coherences between I^z and I^z - 1 obey d x / dt = G x, and with the eigenvalues of G

    s(t) = Tr[I^+ exp(G t) I^-] / Tr[I^+ I^-] = sum_k w_k exp((2 pi i nu_k - r_k) t),

with complex intensities w_k, whose sum is 1: lines that overlap may bend each other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from qsim.trotter.fid.dipolar import relaxation_matrix
from qsim.trotter.model.hamiltonian import Hamiltonian
from qsim.trotter.model.open.channels import Channel, jump_model
from qsim.trotter.sectors.digits.liouville import Doubled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.fid.problem import Choice

__all__ = ["Relaxed", "relaxed"]

EPS = 2.2e-16
# of the sum of all intensities: a weaker line is rounding
WEAKEST = 1e-14


class Relaxed(NamedTuple):
    """Lines, and what rounding makes of them.

    Attributes
    ----------
    lines : (n, 4) float64
        Frequency, Hz, real and imaginary part of the intensity, rate of the decay, 1/s.
    line_error : float
        Bound of the error of the frequency of a line, Hz, each weighted by its share.
    rounding : float
        Bound of the error of the sum of all at t = 0.
    """

    lines: NDArray[np.float64]
    line_error: float
    rounding: float


def relaxed(
    one: Choice,
    rates: Sequence[tuple[float, float]],
    device: Device,
    jumps: Sequence[NDArray[np.complex128]] = (),
) -> Relaxed:
    """Return the lines of a part of a molecule.

    Parameters
    ----------
    one : Choice
        Its nuclei.
    rates : sequence of (float, float)
        Rates of loss and pump, and of dephasing, of all nuclei of the molecule.
    device : Device
        A CPU.
    jumps : sequence of (D, D) complex128
        Other jump operators of all nuclei, 1/s^(1/2): :func:`qsim.trotter.fid.dipolar.dipolar_jumps`.
    """
    twos, count = one.model.twos, len(one.sites)
    channels = []
    for place, site in enumerate(one.sites):
        flips, dephasing = rates[site]
        vectors = [(flips, (1.0, -1.0j, 0.0)), (flips, (1.0, 1.0j, 0.0)), (2.0 * dephasing, (0.0, 0.0, 1.0))]
        for rate, vector in vectors:
            w = np.zeros((count, 3), complex)
            w[place] = math.sqrt(max(rate, 0.0)) * np.array(vector)
            if w.any():
                channels.append(Channel(0, "relaxation", place, w))
    # the ket of I^- has one quantum more than the bra
    doubled = Doubled(device, Hamiltonian(2.0 * math.pi * one.model), channels, twos, 1)
    seen = np.array(one.detected, float)[:, None]
    lowering, raising = (jump_model(seen * np.array([1.0, sign * 1.0j, 0.0]), twos) for sign in (-1, 1))
    same = doubled.at(0)
    identity = same.mixed() * same.diagonal.size
    start = doubled.applied(lowering, same, identity)
    places, numbers = doubled.functional(None, raising)
    G = doubled.parts[0][1].toarray()
    if jumps:
        G = G + relaxation_matrix(doubled, jumps)
    values, vectors_right = np.linalg.eig(G)
    inverse = np.linalg.inv(vectors_right)
    weights = (numbers @ vectors_right[places]) * (inverse @ start) * one.weight
    conditions = np.linalg.norm(vectors_right, axis=0) * np.linalg.norm(inverse, axis=1)
    size = EPS * float(np.linalg.norm(G))
    shares = np.abs(weights)
    kept = shares > WEAKEST * float(shares.sum())
    lines = np.column_stack(
        [values.imag / (2.0 * math.pi), weights.real, weights.imag, np.maximum(-values.real, 0.0)]
    )
    error = float((shares * conditions).sum() / max(float(shares.sum()), 1e-300))
    whole = float(np.linalg.norm(vectors_right) * np.linalg.norm(inverse))
    return Relaxed(lines[kept], 10.0 * size * error / (2.0 * math.pi), EPS * whole)

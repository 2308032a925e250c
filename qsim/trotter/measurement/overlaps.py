"""Overlaps of states: fidelities and echoes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.trotter.states.vectors import norm2, overlap

if TYPE_CHECKING:
    from qsim.trotter.states.vectors import Amplitudes


__all__ = ["EchoValue", "echo", "fidelity"]


def fidelity(a: Amplitudes, b: Amplitudes) -> float:
    """Return ``|<a|b>|^2`` of the normalised states; with the state at t = 0 this is the return probability."""
    return abs(overlap(a, b)) ** 2 / (norm2(a) * norm2(b))


@dataclass(frozen=True)
class EchoValue:
    """A Loschmidt echo.

    Attributes
    ----------
    echo : float
        ``|<psi0|psi_back>|^2`` of the normalised states.
    unnormalised : float
        The same as it stands: without a perturbation its distance from 1 shows the rounding of all layers (section 4.2).
    norm : float
        ``<psi_back|psi_back>``.
    """

    echo: float
    unnormalised: float
    norm: float


def echo(psi0: Amplitudes, back: Amplitudes) -> EchoValue:
    """Return the echo of a start and a state that came back, or of two states carried forward with H + Sigma and with H.

    ``M(2t) = |<psi0| exp(i (H + Sigma) t) exp(-i H t) |psi0>|^2``; both ways give the same number.
    """
    start, norm = norm2(psi0), norm2(back)
    product = abs(overlap(psi0, back)) ** 2
    return EchoValue(product / (start * norm), product, norm)

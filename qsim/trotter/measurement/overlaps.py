"""Overlaps of states: fidelities and echoes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qsim.trotter.states.vectors import norm2, overlap

if TYPE_CHECKING:
    from qsim.core.device.links import Links
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["EchoValue", "echo", "fidelity"]


def fidelity(a: Amplitudes, b: Amplitudes, links: Links | None = None) -> float:
    """Return ``|<a|b>|^2`` of the normalised states; with the state at t = 0 this is the return probability.

    `links` lead to processes that have other amplitudes of both states.
    """
    return abs(overlap(a, b, links)) ** 2 / (norm2(a, links) * norm2(b, links))


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


def echo(psi0: Amplitudes, back: Amplitudes, links: Links | None = None) -> EchoValue:
    """Return the echo of a start and a state that came back, or of two states carried forward with H + Sigma and with H.

    ``M(2t) = |<psi0| exp(i (H + Sigma) t) exp(-i H t) |psi0>|^2``; both ways give the same number.  `links` lead to
    processes that have other amplitudes of both states.
    """
    start, norm = norm2(psi0, links), norm2(back, links)
    product = abs(overlap(psi0, back, links)) ** 2
    return EchoValue(product / (start * norm), product, norm)

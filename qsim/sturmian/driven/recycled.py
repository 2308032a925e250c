r"""Starts for one equation at many energies: what earlier solutions span.

Solutions of ``(E - H) u = s(E)`` change smoothly with the energy between resonances, and so do their sources.  In the span Q of
earlier solutions the combination with the least residual,

    u = Q c,        |s - (E Q - H Q) c| least,

is a start that leaves a few steps to the solver, or none.  H Q costs nothing: a solution knows it, ``H u = E u - s``.  The start
decides how many steps are taken and not what is found: the residual of every equation is computed from its solution.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.sturmian.driven.operator import Solution

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device

__all__ = ["TOGETHER", "Recycled", "bisected", "solve_all"]

# Share of a new direction left by an orthogonalisation, below which it holds nothing but rounding.
DEPENDENT = 1e-8
# Singular value of the normal equations, relative to the largest, that is rounding.
ROUNDING = 1e-14
# Equations before the first start, and most that are solved together.
FIRST, TOGETHER = 4, 8


class Recycled:
    """The span of some solutions of one operator.

    Parameters
    ----------
    device : Device
    most : int
        Most directions that are kept.
    """

    def __init__(self, device: Device, most: int = 40) -> None:
        self.device, self.most = device, most
        self.Q: list[Any] = []
        self.HQ: list[Any] = []

    def add(self, u: Any, s: Any, E: Sequence[float]) -> None:
        """Add solutions (m, ...) of sources (m, ...) at energies (m,)."""
        xp = self.device.xp
        for one, source, energy in zip(u, s, E, strict=True):
            if len(self.Q) >= self.most:
                return
            q = one.ravel().copy()
            norm = float(xp.linalg.norm(q))
            if norm == 0.0:
                continue
            h = energy * q - source.ravel()
            q, h = q / norm, h / norm
            # Gram and Schmidt twice; H Q follows by the same combinations.
            for _ in range(2):
                for known, product in zip(self.Q, self.HQ, strict=True):
                    share = xp.vdot(known, q)
                    q = q - share * known
                    h = h - share * product
            left = float(xp.linalg.norm(q))
            if left > DEPENDENT:
                self.Q.append(q / left)
                self.HQ.append(h / left)

    def start(self, s: Any, E: Sequence[float]) -> Any:
        """Return starts (m, ...) for sources (m, ...) and energies (m,); None before there are any solutions."""
        if not self.Q:
            return None
        xp = self.device.xp
        out = xp.empty_like(s)
        Q, HQ = xp.stack(self.Q), xp.stack(self.HQ)
        host = self.device.to_host
        # The normal equations of all energies are made of these products; that they square the condition costs digits that a
        # start does not need.
        one, mixed, two = (np.asarray(host(a.conj() @ b.T)) for a, b in ((Q, Q), (Q, HQ), (HQ, HQ)))
        flat = s.reshape(len(E), -1).T
        first, second = np.asarray(host(Q.conj() @ flat)), np.asarray(host(HQ.conj() @ flat))
        for k, energy in enumerate(E):
            normal = energy**2 * one - energy * (mixed + mixed.conj().T) + two
            c = np.linalg.lstsq(normal, energy * first[:, k] - second[:, k], rcond=ROUNDING)[0]
            out[k] = (self.device.asarray(c) @ Q).reshape(out[k].shape)
        return out


def bisected(count: int, together: int = TOGETHER) -> Iterator[list[int]]:
    """Yield the numbers 0 .. count - 1 in groups: a few over the whole range, then those between, level by level."""
    step = max(1, (count - 1) // (FIRST - 1)) if count > 1 else 1
    level = sorted({*range(0, count, step), count - 1})
    seen: set[int] = set()
    while level:
        for first in range(0, len(level), together):
            yield level[first : first + together]
        seen.update(level)
        known = sorted(seen)
        level = [(a + b) // 2 for a, b in pairwise(known) if b - a > 1]


def solve_all(
    device: Device,
    energies: Sequence[float],
    together: int,
    solve: Callable[[list[int], Callable[[Any, Sequence[float]], Any]], tuple[Any, Solution]],
) -> Solution:
    """Solve one equation at many energies, some together, each from what those before span.

    Parameters
    ----------
    device : Device
    energies : list of float
        Total energies, hartree.
    together : int
        Most equations that are solved together.
    solve
        Called with the numbers of some energies and a function that makes starts of sources (m, ...) and energies (m,); returns
        these sources and their solutions.

    Returns
    -------
    Solution
        Numbers of all equations in the order of the energies; u is that of the first one alone, as all would be large.
    """
    span = Recycled(device)
    found: dict[int, tuple[float, int, NDArray[np.float64]]] = {}
    first, seconds = None, 0.0
    for places in bisected(len(energies), together):
        s, solved = solve(places, span.start)
        span.add(solved.u, s, [energies[k] for k in places])
        seconds += solved.seconds
        # energy 0 is in the first group
        first = solved.u[:1] if first is None else first
        numbers = zip(solved.residuals, solved.iterations, solved.history, strict=True)
        for place, (residual, steps, history) in zip(places, numbers, strict=True):
            found[place] = (float(residual), int(steps), history)
    residuals, steps, histories = zip(*(found[k] for k in range(len(energies))), strict=True)
    return Solution(first, np.array(residuals), np.array(steps), list(histories), seconds)

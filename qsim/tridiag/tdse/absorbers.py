"""Absorbers: complex potentials ``-i W(x)`` and masks at the walls of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.deck.electron import Absorber

# c of Manolopoulos' potential, where it diverges
LEMNISCATE = 2.622057554292119


def width(block: Absorber) -> float:
    """Return the width of either strip, bohr; 0 without an absorber."""
    if block.type == "manolopoulos":
        return LEMNISCATE / (2.0 * block.delta * block.kmin)
    return 0.0 if block.type == "none" else float(block.width)


def evaluate(
    block: Absorber, x: NDArray[np.float64], box: tuple[float, float, float] | None = None
) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return ``(cap, mask)`` on the grid, (n,) float64 each, or None for what the absorber has not.

    ``cap`` is W >= 0 of ``-i W`` in hartree, ``mask`` the factor of psi after every step.  The strips end at the
    walls, where psi is zero; d is the depth in them:

    * cap: ``W = strength (d / width)^power`` (Eq. T13);
    * manolopoulos (Eq. T14): ``W = kmin^2/2 (a u - b u^3 + 4/(c-u)^2 - 4/(c+u)^2)`` with ``u = 2 delta kmin d``,
      D. E. Manolopoulos, J. Chem. Phys. 117, 9552 (2002), Eqs. (2.19)-(2.25); u = c lies at the wall, where the
      value is that a millionth of the strip before it;
    * mask: ``cos(pi/2 d/width)^power`` (Eq. T15), which is 1 at the inner edge of a strip and 0 at the walls.

    Parameters
    ----------
    block
        A member of `qsim.tridiag.deck.electron.Absorber`.
    x : (n,) float64
        Points, bohr.
    box
        First and last point, bohr, and the distance of the walls from them; by default walls stand at the ends of x.
    """
    if block.type == "none":
        return None, None
    x = np.asarray(x, float)
    first, last, gap = (float(x[0]), float(x[-1]), 0.0) if box is None else box
    strip = width(block)
    # depth behind the inner edge of the nearer strip, 0 between the strips
    depth = np.maximum(x - (last + gap - strip), (first - gap + strip) - x)
    depth = np.clip(depth, 0.0, strip)
    if block.type == "cap":
        return block.strength * (depth / strip) ** block.power, None
    if block.type == "mask":
        # the power would raise the rounding of the cosine there
        end = depth >= strip * (1.0 - 1e-12)
        return None, np.where(end, 0.0, np.clip(np.cos(0.5 * np.pi * depth / strip), 0.0, 1.0) ** block.power)
    c = LEMNISCATE
    a, b = 1.0 - 16.0 / c**3, (1.0 - 17.0 / c**3) / c**2
    # W diverges at u = c, the wall: its value is cut a millionth before
    u = np.minimum(2.0 * block.delta * block.kmin * depth, c * (1.0 - 1e-6))
    cap = 0.5 * block.kmin**2 * (a * u - b * u**3 + 4.0 / (c - u) ** 2 - 4.0 / (c + u) ** 2)
    return np.maximum(cap, 0.0), None


def reflection(
    block: Any, dx: float, momenta: NDArray[np.float64], dt: float = 1.0, points: int = 20_000
) -> NDArray[np.float64]:
    """Return the probability (m,) that a free electron of each momentum comes back from an absorber and the wall behind it.

    The stationary equation is marched from the wall inwards by the compact stencil and matched to plane waves of the lattice.

    Parameters
    ----------
    block
        A member of `qsim.tridiag.deck.electron.Absorber`.
    dx : float
        Spacing, bohr.
    momenta : (m,) float64
        Above 0, below pi/dx.
    dt : float
        Time step, which a mask is applied after: it acts like ``W = -log(mask) / dt``.
    points : int
        A strip with more points is marched with a larger spacing.
    """
    k = np.asarray(momenta, float)
    strip = width(block)
    if strip == 0.0:
        return np.ones(k.shape)
    dx = max(dx, strip / points)
    count = int(strip / dx) + 4
    # two walls, two strips, and a little space between them
    x = np.asarray(dx * np.arange(2 * count + 6), dtype=float)
    cap, mask = evaluate(block, x)
    if mask is not None:
        # a mask once a step is the same as W = -ln(mask) / dt; 1e-12 keeps its zero at the wall finite
        cap = -np.log(np.maximum(mask, 1e-12)) / dt
    assert cap is not None
    # from beside the wall inwards, down to where it is zero
    w = cap[-count - 3 : -1][::-1]
    # Numerov's recurrence for (H - i W - E) psi = 0, whose terms beside the kinetic ones are (V - E) / 12
    half, energy = 0.5 / dx**2, 0.5 * k**2
    step = [(-1j * value - energy) / 12.0 for value in w]
    before, now = np.zeros(k.shape, complex), np.ones(k.shape, complex)
    for i in range(w.size - 1):
        behind = step[i - 1] if i else -energy / 12.0
        after = -((10.0 * step[i] + 2.0 * half) * now + (behind - half) * before) / (step[i + 1] - half)
        # the solution grows behind the absorber: only ratios are needed
        size = np.maximum(np.abs(after), 1.0)
        before, now = now / size, after / size
    # (10 w + 2 h) + 2 (w - h) cos(q dx) = 0 with w = -E/12
    free = -energy / 12.0
    cosine = -(10.0 * free + 2.0 * half) / (2.0 * (free - half))
    # one point towards the wall
    turn = np.exp(1j * np.arccos(np.clip(cosine, -1.0, 1.0)))
    # psi = towards e^(i q) + back e^(-i q) at two neighbouring points of the free space
    towards = (before - now / turn) / (turn - 1.0 / turn)
    back = now - towards
    return np.abs(back / towards) ** 2

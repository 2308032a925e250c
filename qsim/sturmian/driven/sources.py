r"""Sources of a collision: the right-hand side s of (E - H) u = s for electrons, photons and fast projectiles.

All sources are radial components on the product grid, coefficients of the normalised FE-DVR basis (values times
``sqrt(w_i w_j)``), one for each stored pair la <= lb; those with la < lb carry sqrt(2), as all vectors do.  They are cut off at
R0, where the contour begins: an incident wave would grow beyond it.

electron    ``s = (1/r12 - 1/r2) Psi0``, exchanged and added with ``(-1)^S``; Psi0 is 1s times a free (Coulomb) wave
photon      ``s = D Psi_g``; D = z1 + z2 (length), (d/dz1 + d/dz2)/omega (velocity), (dV/dz1 + dV/dz2)/omega^2 (acceleration)
fast        ``s = (sum_i exp(i q.r_i) - 2) Psi_g``: first Born, q along z
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.device import namespace
from qsim.sturmian.two_electron.angular import clebsch_gordan, gaunt, multipoles, wigner_3j, wigner_6j

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.sturmian.radial.grid import RadialGrid

Pairs = "Sequence[tuple[int, int]]"
GAUGES = ("length", "velocity", "acceleration")


@cache
def tensor(order: int, bra: tuple[int, int, int], ket: tuple[int, int, int]) -> float:
    """Return ``<(la' lb') L' 0| C^order_0(r1) |(la lb) L 0>`` for (la, lb, L) of bra and ket.

    C^k_q is ``sqrt(4 pi/(2k + 1)) Y_kq``; zero unless the second electron keeps its momentum.
    """
    (lap, lbp, Lp), (la, lb, L) = bra, ket
    if lb != lbp:
        return 0.0
    total = 0.0
    # Both states have M = 0 and the operator q = 0: the first electron keeps its m, the second
    # has -m.
    for m in range(-min(la, lap, lb), min(la, lap, lb) + 1):
        weight = clebsch_gordan(lap, lbp, Lp, m, -m, 0) * clebsch_gordan(la, lb, L, m, -m, 0)
        if weight != 0.0:
            total += weight * (-1) ** m * gaunt(lap, order, la, -m, 0, m)
    return total * math.sqrt(4.0 * math.pi / (2 * order + 1))


@cache
def reduced_tensor(order: int, bra: tuple[int, int, int], ket: tuple[int, int, int]) -> float:
    """Return the reduced element ``<(la' lb') L' || C^order(r1) || (la lb) L>`` for (la, lb, L) of bra and ket.

    Edmonds, Angular Momentum in Quantum Mechanics, Eqs. (5.4.1), (5.4.6) and (7.1.7).  `tensor` is ``(-1)^L' (L' k L; 0 0 0)``
    times it, which vanishes between natural and unnatural parity for a dipole.
    """
    (lap, lbp, Lp), (la, lb, L) = bra, ket
    if lb != lbp:
        return 0.0
    single = (-1) ** lap * math.sqrt((2 * lap + 1) * (2 * la + 1)) * wigner_3j(lap, order, la, 0, 0, 0)
    recoupling = math.sqrt((2 * L + 1) * (2 * Lp + 1)) * wigner_6j(lap, Lp, lb, L, la, order)
    return float((-1) ** (lap + lb + L + order) * recoupling * single)


def normalised(
    pairs: Sequence[tuple[int, int]], s: Sequence[NDArray[np.complex128]]
) -> NDArray[np.complex128]:
    """Return components stacked, (P, n, n), with sqrt(2) for la < lb."""
    return np.stack(
        [part * (1.0 if a == b else math.sqrt(2.0)) for (a, b), part in zip(pairs, s, strict=True)]
    )


class Screened(NamedTuple):
    """Potentials of an electron and a target in an s state, of all energies and both spins.

    Attributes
    ----------
    direct, exchanged : list of (n, n) complex128 or None
        For each pair, with electron 1 or electron 2 in the target; None where no multipole connects them.  On a device.
    """

    direct: list[Any]
    exchanged: list[Any]


def screened(
    device: Device,
    grid: RadialGrid,
    planes: Mapping[int, NDArray[np.complex128]],
    pairs: Sequence[tuple[int, int]],
    L: int,
) -> Screened:
    """Return the potentials between the target, an electron of orbital momentum L, and the pairs of a solution.

    Parameters
    ----------
    device : Device
    grid : RadialGrid
    planes : dict of (n, n)
        Kernels ``r<^l / r>^(l+1)`` of all multipoles of the pairs.
    pairs : list of (la, lb)
        Stored pairs of the solution.
    L : int
    """
    found: list[list[Any]] = [[], []]
    for pair in pairs:
        for out, ket, monopole in (
            (found[0], (0, L), 1.0 / grid.r[None, :]),
            (found[1], (L, 0), 1.0 / grid.r[:, None]),
        ):
            terms = multipoles(L, pair, ket)
            potential = sum((A * planes[l] for l, A in terms), start=np.zeros((grid.size,) * 2, complex))
            # the target screens the nucleus: its monopole belongs to the incident wave
            if pair == ket:
                potential = potential - monopole
            out.append(device.asarray(potential) if terms or pair == ket else None)
    return Screened(*found)


def electron(
    grid: RadialGrid,
    potentials: Screened,
    pairs: Sequence[tuple[int, int]],
    S: int,
    target: NDArray[np.float64],
    wave: NDArray[np.float64],
) -> Any:
    """Return the source of an electron that hits a one-electron target in an s state.

    The factor ``i^L sqrt(4 pi (2L + 1))`` of the partial wave is left out; cross sections put it in.

    Parameters
    ----------
    grid : RadialGrid
    potentials : Screened
        Of the pairs and the orbital momentum of the wave.
    pairs : list of (la, lb)
        Stored pairs of the solution.
    S : int
    target : (n,) float64
        Radial function of the target at the nodes, zero beyond R0, ``int P^2 dr = 1``.
    wave : (n,) float64
        Incident wave of orbital momentum L at the nodes, ``sin(...)/k`` far outside, zero beyond R0.

    Returns
    -------
    (P, n, n) complex128
        On the device of the potentials.
    """
    # (V - 1/r_incident) times the antisymmetrised product of target and incident wave: what the plane wave does not
    # solve.
    known = next(array for array in (*potentials.direct, *potentials.exchanged) if array is not None)
    xp = namespace(known)
    # Coefficients of the normalised basis are values times sqrt(w).
    root = np.sqrt(grid.w)
    product = xp.asarray(target * root)[:, None] * xp.asarray(wave * root)[None, :]
    out = xp.zeros((len(pairs), *product.shape), complex)
    for total, (a, b), direct, exchanged in zip(out, pairs, *potentials, strict=True):
        # both assignments of the electrons to target and wave; the second with the sign of exchange
        if direct is not None:
            total += direct * product
        if exchanged is not None:
            total += (-1) ** S * exchanged * product.T
        total /= math.sqrt(2.0)
        if a != b:
            total *= math.sqrt(2.0)
    return out


def dipole(
    grid: RadialGrid,
    pairs: Sequence[tuple[int, int]],
    L: int,
    state: Mapping[tuple[int, int], NDArray[np.float64]],
    L_initial: int,
    gauge: str,
    omega: float,
    Z: float,
) -> NDArray[np.complex128]:
    """Return the source of a photon that is linearly polarised along z.

    Parameters
    ----------
    grid : RadialGrid
    pairs : list of (la, lb)
        Stored pairs of the solution.
    L : int
        Of the solution.
    state : dict of (n, n)
        Radial components of the initial state for every ordered pair, on the product grid, zero beyond R0.
    L_initial : int
    gauge : {"length", "velocity", "acceleration"}
    omega : float
        Photon energy, hartree.
    Z : float
        Charge of the nucleus, for the acceleration.

    Returns
    -------
    (P, n, n) complex128
    """
    # amplitudes of all gauges are brought to the length gauge by powers of omega
    scale = {"length": 1.0, "velocity": 1.0 / omega, "acceleration": 1.0 / omega**2}[gauge]
    held = _held(grid, state)
    radial = _radial(grid, 1, gauge, Z, held)
    return _one_body(pairs, L, state, L_initial, partial(tensor, 1), radial, scale, held)


def multipole(
    grid: RadialGrid,
    pairs: Sequence[tuple[int, int]],
    L: int,
    state: Mapping[tuple[int, int], NDArray[np.float64]],
    L_initial: int,
    order: int,
    gauge: str,
    Z: float,
) -> NDArray[np.complex128]:
    """Return ``sum_i r_i^k C^k(i)`` applied to a state, projected on L, without its dependence on M.

    The scalar product with a state of L is the reduced element ``<L || Q_k || L_initial>``.  For k = 1 velocity and acceleration
    apply ``grad_1 + grad_2`` and ``grad_1 V + grad_2 V``, without powers of the transition energy.

    Parameters
    ----------
    grid, pairs, L, state, L_initial, Z
        As in `dipole`.
    order : int
        k.
    gauge : {"length", "velocity", "acceleration"}
        Length alone for k > 1.

    Returns
    -------
    (P, n, n) complex128
    """
    held = _held(grid, state)
    radial = _radial(grid, order, gauge, Z, held)
    return _one_body(pairs, L, state, L_initial, partial(reduced_tensor, order), radial, 1.0, held)


def _radial(
    grid: RadialGrid, order: int, gauge: str, Z: float, held: int
) -> Callable[[int, int, NDArray[np.float64]], NDArray[np.complex128]]:
    """Return the radial operator of a multipole on the first electron, a function of both its momenta and a component."""
    # an operator that is local in the elements leaves nothing elsewhere
    r = grid.r[:held, None]
    slope: NDArray[Any] | None = None
    if gauge == "velocity":
        whole = _slope(grid)
        # on the real axis products of real matrices take half of the time
        slope = np.ascontiguousarray((whole if grid.is_complex else whole.real)[:held, :held])

    def radial(to: int, start: int, F: NDArray[np.float64]) -> NDArray[np.complex128]:
        """Apply the radial operator to the first electron."""
        if gauge == "length":
            return np.asarray(r**order * F)
        if gauge == "acceleration":
            return np.asarray(Z / r**2 * F)
        assert slope is not None
        # reduced element of the gradient between l and l +- 1: d/dr - (l + 1)/r upwards, d/dr + l/r downwards
        factor = -(start + 1) if to == start + 1 else start
        return np.asarray(slope @ F + factor / r * F)

    return radial


def gauge_steps(wanted: str, known: Collection[str]) -> tuple[str, list[str]]:
    """Return the gauge to start from, and the gauges whose sources lead from it to another one.

    As ``[H, z] = -d/dz`` and ``[H, d/dz] = -dV/dz``, the solutions of neighbouring gauges obey, with exact states and operators,

        u_length + u_velocity = s_length / omega,        u_velocity + u_acceleration = s_velocity / omega,

    so that one is known from the other up to the errors of grid and partial waves.

    Parameters
    ----------
    wanted : str
        Gauge of the solution that is sought.
    known : collection of str
        Gauges of those that are there, not empty.
    """
    place = GAUGES.index(wanted)
    start = min(known, key=lambda label: abs(GAUGES.index(label) - place))
    first = GAUGES.index(start)
    if first <= place:
        return start, list(GAUGES[first:place])
    return start, list(reversed(GAUGES[place:first]))


def fast_projectile(
    grid: RadialGrid,
    pairs: Sequence[tuple[int, int]],
    L: int,
    state: Mapping[tuple[int, int], NDArray[np.float64]],
    L_initial: int,
    q: float,
) -> NDArray[np.complex128]:
    """Return the source of a fast charge, ``(exp(i q z1) + exp(i q z2) - 2) Psi``, projected on L.

    Parameters
    ----------
    grid, pairs, L, state, L_initial
        As in `dipole`.
    q : float
        Momentum transfer, 1/bohr, along z.
    """
    from scipy.special import spherical_jn

    held = _held(grid, state)
    real = grid.is_real[:held]
    r = np.where(real, grid.r[:held].real, 0.0)
    total = np.zeros((len(pairs), grid.size, grid.size), complex)
    # exp(i q z) = sum_k i^k (2k + 1) j_k(q r) C^k_0: the orders that the triangle rule of L and
    # L_initial admits.
    for order in range(abs(L - L_initial), L + L_initial + 1):
        j = np.where(real, spherical_jn(order, q * r), 0.0)
        # the two of the nucleus, which acts where it would hold the initial state itself
        if order == 0:
            j = np.where(real, j - 1.0, 0.0)

        def radial(
            to: int, start: int, F: NDArray[np.float64], j: NDArray[np.float64] = j
        ) -> NDArray[np.complex128]:
            return np.asarray(j[:, None] * F, complex)

        scale = 1j**order * (2 * order + 1)
        total += _one_body(pairs, L, state, L_initial, partial(tensor, order), radial, scale, held)
    return total


def _one_body(
    pairs: Sequence[tuple[int, int]],
    L: int,
    state: Mapping[tuple[int, int], NDArray[np.float64]],
    L_initial: int,
    angular: Callable[[tuple[int, int, int], tuple[int, int, int]], float],
    radial: object,
    scale: complex,
    held: int,
) -> NDArray[np.complex128]:
    """Return ``sum_i C(i) f(r_i)`` applied to a state, for the stored pairs; beyond the first `held` nodes it is zero.

    ``angular`` gives the elements of C(1) between (la, lb, L) of bra and ket.
    """
    assert callable(radial)
    size = next(iter(state.values())).shape
    inner = {pair: np.ascontiguousarray(F[:held, :held]) for pair, F in state.items()}
    out = []
    for a, b in pairs:
        total = np.zeros((held, held), complex)
        for (la, lb), F in inner.items():
            first = angular((a, b, L), (la, lb, L_initial))
            if first != 0.0:
                total += first * radial(a, la, F)
            # C(2) in (la, lb) L is C(1) in (lb, la) L, with the phases of both recouplings
            second = angular((b, a, L), (lb, la, L_initial))
            if second != 0.0:
                sign = (-1) ** (a + b - L + la + lb - L_initial)
                total += sign * second * radial(b, lb, F.T).T
        part = np.zeros(size, complex)
        part[:held, :held] = scale * total
        out.append(part)
    return normalised(pairs, out)


def _held(grid: RadialGrid, state: Mapping[tuple[int, int], NDArray[np.float64]]) -> int:
    """Return how many nodes hold a state with the element next to it, beyond which it and its derivative are zero."""
    used = np.zeros(grid.size, bool)
    for F in state.values():
        there = F != 0.0
        used |= there.any(axis=0) | there.any(axis=1)
    last = int(np.flatnonzero(used)[-1]) if used.any() else 0
    return min(grid.size, last + grid.order)


def _slope(grid: RadialGrid) -> NDArray[np.complex128]:
    """Return d/dr in the normalised basis, antisymmetric inside, (n, n)."""
    # From values to coefficients on the left; `derivative` takes coefficients already.
    root = np.sqrt(grid.w)
    return np.asarray(root[:, None] * grid.derivative(np.eye(grid.size)), complex)

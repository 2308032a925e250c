"""Two-qubit gates up to local gates: Cartan form, invariants, and the nearest gate of a family (Eq. Q29).

In the magic basis local gates are real rotations, and every gate is ``O1 diag(e^{i phi}) O2`` with O1, O2 in SO(4). Its class is
the set of the phases up to permutations, pairs of signs and a global phase (Makhlin, Quantum Inf. Process. 1, 243 (2002); Zhang,
Vala, Sastry, Whaley, Phys. Rev. A 67, 042313 (2003)). A gate entangles perfectly where the hull of ``e^{2 i phi}`` holds zero.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import expm, polar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import ComplexArray

# Columns: the magic basis in |00>, |01>, |10>, |11>.
MAGIC = np.array([[1, 0, 0, 1j], [0, 1j, 1, 0], [0, 1j, -1, 0], [1, 0, 0, -1j]]) / np.sqrt(2.0)
# Mixing angles of the two commuting parts of a symmetric unitary matrix: one of them leaves no accidental degeneracy.
MIXES = (0.6180339887, -1.3247179572, 2.2055694304, 0.1234567891)
# Newton steps, their largest angle, and the slope, relative to the value, from which there are no more.
STEPS, LONGEST, FLAT = 60, 0.5, 1e-14
# Curvatures, relative to the largest, along which a family is flat.
SINGULAR = 1e-9
# Starts that are followed to their maximum.
STARTS = 3
# Angle between phases that counts as that of antipodes.
ON_FACE = 1e-7
# Angle by which phases may miss the half circle of a perfect entangler: rounding.
ROUNDING = 1e-12

_PAIRS = [(j, k) for j in range(4) for k in range(j)]


def _rotation(j: int, k: int) -> ComplexArray:
    """Return the generator of rotations in a plane of the magic basis."""
    made = np.zeros((4, 4), complex)
    made[j, k], made[k, j] = 1.0, -1.0
    return made


# Generators of SO(4), and anti-Hermitian ones of all unitary matrices.
ROTATIONS = [_rotation(j, k) for j, k in _PAIRS]
PHASES = [np.diag(1j * np.eye(4)[k]) for k in range(4)]
ALL = [*ROTATIONS, *(1j * abs(one) for one in ROTATIONS), *PHASES]

Cartan = tuple["ComplexArray", "NDArray[np.float64]", "ComplexArray"]
"""Rotations and phases (O1, phi, O2) of ``O1 diag(e^{i phi}) O2`` in the magic basis."""


def cartan(gate: ComplexArray) -> Cartan:
    """Return O1, phi and O2 of a unitary (4, 4) in the magic basis, with both rotations in SO(4)."""
    square = gate.T @ gate
    best, off = np.eye(4), np.inf
    for mix in MIXES:
        vectors = np.linalg.eigh(square.real + mix * square.imag)[1]
        turned = vectors.T @ square @ vectors
        left = float(np.abs(turned - np.diag(np.diag(turned))).max())
        if left < off:
            best, off = vectors, left
    if np.linalg.det(best) < 0.0:
        best = best * np.array([-1.0, 1.0, 1.0, 1.0])
    phi = 0.5 * np.angle(np.diag(best.T @ square @ best))
    first = (gate @ best * np.exp(-1j * phi)).real
    if np.linalg.det(first) < 0.0:
        first[:, 0] *= -1.0
        phi[0] += np.pi
    return first.astype(complex), phi, best.T.astype(complex)


def entangling(phi: NDArray[np.float64]) -> tuple[float, int, int]:
    """Return the angle by which ``e^{2 i phi}`` miss a half circle, 0 for perfect entanglers, and the outermost two phases."""
    angles = np.mod(2.0 * phi, 2.0 * np.pi)
    order = np.argsort(angles)
    gaps = np.diff(angles[order], append=angles[order[0]] + 2.0 * np.pi)
    widest = int(np.argmax(gaps))
    # They lie on the arc that the widest gap leaves.
    first, last = int(order[(widest + 1) % 4]), int(order[widest])
    return max(0.0, float(gaps[widest]) - np.pi), first, last


def invariants(gate: ComplexArray) -> NDArray[np.float64]:
    """Return the local invariants g1, g2, g3 of a gate (4, 4): CNOT 0, 0, 1; iSWAP 0, 0, -1; SWAP -1, 0, -3; no gate 1, 0, 3."""
    turned = MAGIC.conj().T @ gate @ MAGIC
    square = turned.T @ turned
    determinant = np.linalg.det(gate)
    trace = np.trace(square) ** 2
    first = trace / (16.0 * determinant)
    return np.array(
        [first.real, first.imag, ((trace - np.trace(square @ square)) / (4.0 * determinant)).real]
    )


def weyl_coordinates(gate: ComplexArray) -> NDArray[np.float64]:
    """Return c1, c2, c3 of ``k1 exp(i sum_k c_k s_k s_k/2) k2`` in units of pi: ``c2 <= c1 <= 1 - c2``, ``0 <= c3 <= c2``."""
    phi = cartan(MAGIC.conj().T @ nearest_unitary(gate) @ MAGIC)[1]
    # Phases of the magic basis: (c1 - c2 + c3)/2, (c1 + c2 - c3)/2, (-c1 - c2 - c3)/2, (-c1 + c2 + c3)/2, less their mean.
    phi = (phi - phi.mean()) / np.pi
    c = np.mod([phi[0] + phi[1], phi[1] + phi[3], phi[0] + phi[3]], 1.0)
    c = np.sort(np.where(c > 1.0 - ROUNDING, 0.0, c))[::-1]
    # Two of them may be mirrored together.
    if c[0] + c[1] > 1.0:
        c = np.sort([1.0 - c[1], 1.0 - c[0], c[2]])[::-1]
    if c[0] + c[1] > 1.0:
        c = np.sort([1.0 - c[1], 1.0 - c[0], c[2]])[::-1]
    if abs(c[2]) < ROUNDING and c[0] > 0.5:
        c[0] = 1.0 - c[0]
    return np.asarray(np.sort(c)[::-1])


def nearest_in_class(form: ComplexArray, gate: ComplexArray) -> ComplexArray:
    """Return the gate that is locally equivalent to another one and has the largest ``vec(U)+ R vec(U)``.

    Parameters
    ----------
    form : (16, 16) complex128
        R, Hermitian, of matrices row by row.
    gate : (4, 4) complex128
        Unitary.
    """
    form, phi = _in_magic(form), cartan(MAGIC.conj().T @ gate @ MAGIC)[1]
    first, own, last = cartan(_dominant(form))
    # All forms of the phases that rotations make: the best ones begin.
    forms = [(np.array(order), np.array(signs)) for order in permutations(range(4)) for signs in _SIGNS]
    overlaps = [abs(np.sum(signs * np.exp(1j * (phi[order] - own)))) for order, signs in forms]
    found = []
    for number in np.argsort(overlaps)[::-1][: 8 * STARTS : 8]:
        order, signs = forms[number]
        start = (first, np.diag(signs * np.exp(1j * phi[order])), last)
        found.append(_risen(form, start, (ROTATIONS, [], ROTATIONS)))
    return _from_magic(max(found, key=lambda one: one[0])[1])


def nearest_perfect_entangler(form: ComplexArray) -> ComplexArray:
    """Return the perfect entangler with the largest ``vec(U)+ R vec(U)``; parameters as of `nearest_in_class`."""
    form = _in_magic(form)
    one = np.eye(4, dtype=complex)
    free = _risen(form, (_dominant(form), one, one), (ALL, [], []))[1]
    first, phi, last = cartan(free)
    missing, low, high = entangling(phi)
    if missing <= ROUNDING:
        return _from_magic(free)
    # To the face of the polyhedron: the outermost phases become antipodes, and stay so.
    angles = np.mod(2.0 * phi, 2.0 * np.pi)
    span = np.mod(angles[high] - angles[low], 2.0 * np.pi)
    phi = phi.copy()
    phi[low] -= 0.25 * (np.pi - span)
    phi[high] += 0.25 * (np.pi - span)
    middle = [PHASES[k] for k in range(4) if k not in (low, high)]
    start = (first, np.diag(np.exp(1j * phi)), last)
    return _from_magic(_risen(form, start, (ROTATIONS, middle, ROTATIONS))[1])


def directions_in_class(gate: ComplexArray) -> list[ComplexArray]:
    """Return the matrices (4, 4) along which local gates before and after, and a global phase, move a gate."""
    turned = MAGIC.conj().T @ gate @ MAGIC
    moved = [g @ turned for g in ROTATIONS] + [turned @ g for g in ROTATIONS] + [1j * turned]
    return [_from_magic(one) for one in moved]


def directions_of_entanglers(gate: ComplexArray) -> list[ComplexArray]:
    """Return the matrices (4, 4) along which a perfect entangler stays one: any, or those of a face of the polyhedron."""
    turned = MAGIC.conj().T @ gate @ MAGIC
    first, phi, last = cartan(turned)
    angles = np.mod(2.0 * phi, 2.0 * np.pi)
    antipodes = [
        (j, k) for j, k in _PAIRS if abs(np.mod(angles[j] - angles[k], 2.0 * np.pi) - np.pi) < ON_FACE
    ]
    if not antipodes:
        return [_from_magic(g @ turned) for g in ALL]
    free = [PHASES[k] for k in range(4) if k not in antipodes[0]]
    inside = [_from_magic(first @ g @ np.diag(np.exp(1j * phi)) @ last) for g in free]
    return directions_in_class(gate) + inside


_SIGNS = [signs for signs in product((1.0, -1.0), repeat=4) if np.prod(signs) > 0.0]
# Of matrices row by row, from the computational basis to the magic one.
_TURN = np.kron(MAGIC.conj().T, MAGIC.T)


def _in_magic(form: ComplexArray) -> ComplexArray:
    return np.asarray(_TURN @ form @ _TURN.conj().T)


def _from_magic(gate: ComplexArray) -> ComplexArray:
    return np.asarray(MAGIC @ gate @ MAGIC.conj().T)


def nearest_unitary(matrix: ComplexArray) -> ComplexArray:
    """Return the nearest unitary matrix."""
    return np.asarray(polar(matrix)[0], complex)


def _dominant(form: ComplexArray) -> ComplexArray:
    """Return the unitary matrix that is nearest to the dominant eigenvector of a form."""
    return nearest_unitary(np.linalg.eigh(form)[1][:, -1].reshape(4, 4))


def _risen(
    form: ComplexArray,
    start: tuple[ComplexArray, ComplexArray, ComplexArray],
    generators: tuple[list[ComplexArray], list[ComplexArray], list[ComplexArray]],
) -> tuple[float, ComplexArray]:
    """Return the value and the gate of a maximum over ``e^{left} ... e^{middle} ... e^{right}`` by Newton's steps.

    Steps along directions of positive curvature go uphill as well, and those along which the family is flat are left out.
    """
    parts = start
    value, gate = _value(form, parts)
    for _ in range(STEPS):
        slope, curvature = _derivatives(form, parts, generators)
        if np.abs(slope).max() <= FLAT * abs(value):
            break
        sizes, vectors = np.linalg.eigh(curvature)
        along = vectors.T @ slope
        sizes = np.abs(sizes)
        kept = sizes > SINGULAR * sizes.max(initial=0.0)
        step = vectors[:, kept] @ (along[kept] / sizes[kept])
        step *= min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-300))
        for _ in range(30):
            moved = _moved(parts, generators, step)
            after, other = _value(form, moved)
            if after >= value:
                break
            step = 0.5 * step
        else:
            break
        gain, value, parts, gate = after - value, after, moved, other
        if gain == 0.0:
            break
    return value, gate


def _value(form: ComplexArray, parts: tuple[ComplexArray, ...]) -> tuple[float, ComplexArray]:
    gate = parts[0] @ parts[1] @ parts[2]
    return float(np.vdot(gate.ravel(), form @ gate.ravel()).real), gate


def _moved(
    parts: tuple[ComplexArray, ComplexArray, ComplexArray],
    generators: tuple[list[ComplexArray], ...],
    step: NDArray[np.float64],
) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
    """Return the three factors after a step."""
    ends = np.cumsum([len(some) for some in generators])
    left, middle, right = (
        expm(sum((a * g for a, g in zip(own, some, strict=True)), np.zeros((4, 4), complex)))
        for own, some in zip(np.split(step, ends[:-1]), generators, strict=True)
    )
    return parts[0] @ left, middle @ parts[1], right @ parts[2]


def _derivatives(
    form: ComplexArray,
    parts: tuple[ComplexArray, ComplexArray, ComplexArray],
    generators: tuple[list[ComplexArray], ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the slope (p,) and the curvature (p, p) by all generators."""
    first, diagonal, last = parts
    # Between the factors every generator has its place: left ones, middle ones, right ones.
    placed = [(place, g) for place, some in enumerate(generators) for g in some]
    one = np.eye(4, dtype=complex)

    def built(*inserted: tuple[int, ComplexArray]) -> ComplexArray:
        left, middle, right = one, one, one
        for place, g in inserted:
            left = left @ g if place == 0 else left
            middle = middle @ g if place == 1 else middle
            right = right @ g if place == 2 else right
        return (first @ left @ middle @ diagonal @ right @ last).ravel()

    gate = (first @ diagonal @ last).ravel()
    pulled = form @ gate
    tangents = np.array([built(own) for own in placed])
    slope = 2.0 * (tangents.conj() @ pulled).real
    curvature = 2.0 * (tangents.conj() @ form @ tangents.T).real
    for j, own in enumerate(placed):
        for k in range(j + 1):
            # Generators of one factor are exponents of one exponential: both orders count half.
            second = 0.5 * (built(own, placed[k]) + built(placed[k], own))
            twice = 2.0 * float(np.vdot(second, pulled).real)
            curvature[j, k] += twice
            if j != k:
                curvature[k, j] += twice
    return slope, curvature

"""First fields: resonant, ladder, formula, file, random, zero.

A zero field is a critical point (P = |<f|i>|^2 and dP/d eps = 0 when the overlap vanishes), so a gradient method cannot start
there; carriers on the rungs between the initial and the target levels with a definite pulse area (Eq. Q12) can.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.columns import read_columns, smooth_curve
from qsim.core.device import rng
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.results.arrays import require_finite
from qsim.qoc.deck.molecule import levels_of

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.qoc.deck.model import QocDeck, RandomGuess
    from qsim.qoc.molecule import Molecule

WEAK = 1e-8  # dipole elements below this fraction of the largest count as zero
NO_DIPOLE = 1e-30  # a.u.; below, squares underflow
LARGEST_FIELD = 1e10  # a.u. of a formula or a file
RANDOM_STREAM = 11  # stream number of the random guess
ESCAPE_STREAM = 12  # stream number of the perturbation that leaves a critical point
ESCAPE_MODES = 4  # sine modes of its envelope: detunings of a few bandwidths of the pulse
ESCAPE_SIZE = 0.3  # root mean square of its envelope, relative to the field


def initial_field(
    deck: QocDeck, molecule: Molecule, times: NDArray[np.float64], shape: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    """Return the field (N,) of the deck's guess at the midpoints, before bounds and other constraints.

    Raises
    ------
    InvalidInput
        If no path of dipole transitions joins the states, or a formula or a file cannot be used.
    """
    guess, duration = deck.control.guess, deck.time.T
    if guess.type == "zero":
        return np.zeros(times.size)
    if guess.type == "expression":
        field = formula(guess.value, "control.guess.value", t=times, T=duration)
        return _reasonable(field, times, "control.guess.value") * shape
    if guess.type == "file":
        field = _reasonable(field_from_file(guess.file, times, duration), times, "control.guess.file")
        return field * _shape_to_apply(guess.file, times, shape)
    if guess.type == "random":
        return _random(guess, deck, molecule, times, seed) * shape
    if guess.type == "resonant":
        rungs = direct_rungs(deck, molecule)
        return carriers(molecule, rungs, times, shape, guess.area)
    rungs = ladder_rungs(deck, molecule)
    area = guess.area
    if area == "auto":  # of one rung half a pi pulse, where the slope of P = sin^2(area / 2) is largest
        area = 0.5 if len(rungs) == 1 else 1.0
    return carriers(molecule, rungs, times, shape, area * np.sqrt(len(rungs)))


def _shape_to_apply(
    path: Path, times: NDArray[np.float64], shape: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor that gives a field from a file the deck's shape; what a results file bears is not applied twice."""
    if not str(path).endswith((".h5", ".hdf5")):
        return shape
    from qsim.core.results.results import open_results

    with open_results(path) as results:
        if "shape" not in results:
            return shape
        old = np.interp(times, np.asarray(results["time"]), np.asarray(results["shape"]))
    return np.minimum(shape / np.maximum(old, 1e-12), 1.0)


def carriers(
    molecule: Molecule,
    rungs: list[tuple[int, int]],
    times: NDArray[np.float64],
    shape: NDArray[np.float64],
    area: float,
) -> NDArray[np.float64]:
    """Return ``sum_rungs A cos(omega (t - T/2)) S(t)`` with ``mu A integral S dt = area pi`` on every rung.

    In the rotating-wave approximation the Rabi angle of a rung is ``mu A integral S dt``, so area = 1 inverts a two-level system.
    """
    tau = float(times[1] - times[0]) if times.size > 1 else 2.0 * float(times[0])
    length = float(shape.sum()) * tau
    centre = 0.5 * (times[0] + times[-1])
    field = np.zeros(times.size)
    for a, b in rungs:
        omega = abs(molecule.energies[b] - molecule.energies[a])
        amplitude = area * np.pi / (abs(molecule.dipole_matrix[a, b]) * length)
        field += amplitude * np.cos(omega * (times - centre))
    return field * shape


def without_symmetry(field: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return a field (N,) near another one that is neither even nor odd in time, nor keeps its phases: ``Re a (1 + c)``.

    ``a`` is the analytic signal of the field, so that carriers keep their frequencies and the pulse its shape; ``c`` a sum of
    a few sine modes with complex random amplitudes.  A symmetry of the field can make the gradient vanish where P is no maximum:
    the fields even in time, for one, contain no rotation about y.
    """
    count = field.size
    spectrum = np.fft.fft(field)
    spectrum[1 : (count + 1) // 2] *= 2.0  # of an even number of points, the last frequency has no partner
    spectrum[count // 2 + 1 :] = 0.0
    draws = rng.normal(rng.key_from_seed(seed), ESCAPE_STREAM, 0, 2 * ESCAPE_MODES)
    phase = np.pi * (np.arange(count) + 0.5) / count
    modes = np.sin(np.arange(1, ESCAPE_MODES + 1)[:, None] * phase)
    envelope = (draws[::2] + 1j * draws[1::2]) @ modes * (ESCAPE_SIZE / np.sqrt(ESCAPE_MODES))
    return np.asarray(field + (np.fft.ifft(spectrum) * envelope).real)


def _reasonable(field: NDArray[np.float64], times: NDArray[np.float64], key: str) -> NDArray[np.float64]:
    worst = int(np.argmax(np.abs(field)))
    if abs(field[worst]) > LARGEST_FIELD:
        raise InvalidInput(
            key,
            f"{field[worst]:.3g} a.u. at t = {times[worst]:.6g} a.u. is not a field strength (at most {LARGEST_FIELD:g})",
        )
    return field


def direct_rungs(deck: QocDeck, molecule: Molecule) -> list[tuple[int, int]]:
    """Return the direct transitions between initial and target levels.

    Raises
    ------
    InvalidInput
        If the dipole does not couple any of them.
    """
    weak = max(WEAK * float(np.abs(molecule.dipole_matrix).max()), NO_DIPOLE)
    rungs = {
        (min(a, b), max(a, b))
        for initial, target in deck.system.state_pairs()
        for a in levels_of(initial)
        for b in levels_of(target)
        if a != b and abs(molecule.dipole_matrix[a, b]) > weak
    }
    if not rungs:
        raise InvalidInput(
            "control.guess", "the dipole couples no initial level directly to a target level; use ladder"
        )
    return sorted(rungs)


def ladder_rungs(deck: QocDeck, molecule: Molecule) -> list[tuple[int, int]]:
    """Return the transitions on the strongest paths between initial and target levels.

    Raises
    ------
    InvalidInput
        If no path exists: the system cannot be controlled this way.
    """
    rungs: set[tuple[int, int]] = set()
    for initial, target in deck.system.state_pairs():
        for a in levels_of(initial):
            for b in levels_of(target):
                if a == b:
                    continue
                path = strongest_path(molecule.dipole_matrix, a, b)
                if path is None:
                    raise InvalidInput(
                        "system.dipole",
                        f"level {b} cannot be reached from level {a}: no chain of non-zero dipole elements joins them "
                        f"among the {molecule.energies.size} retained levels",
                    )
                rungs.update((min(p), max(p)) for p in pairwise(path))
    if not rungs:  # initial and target share all their levels: only phases differ
        levels = sorted({v for pair in deck.system.state_pairs() for s in pair for v in levels_of(s)})
        rungs = {(a, b) for a, b in pairwise(levels)} or {_neighbours(levels[0], molecule)}
    return sorted(rungs)


def _neighbours(level: int, molecule: Molecule) -> tuple[int, int]:
    """Return a level that must only be kept, and the next one: the transition that a field would drive."""
    return (level, level + 1) if level + 1 < molecule.energies.size else (level - 1, level)


def strongest_path(matrix: NDArray[np.float64], start: int, goal: int) -> list[int] | None:
    """Return the path of transitions with the smallest sum of 1/|mu| (Dijkstra), or None."""
    strength = np.abs(matrix)
    weak = max(WEAK * float(strength.max()), NO_DIPOLE)
    best = {start: 0.0}
    queue: list[tuple[float, int, list[int]]] = [(0.0, start, [start])]
    while queue:
        cost, level, path = heapq.heappop(queue)
        if level == goal:
            return path
        if cost > best.get(level, np.inf):
            continue
        for other in range(matrix.shape[0]):
            if other == level or strength[level, other] <= weak:
                continue
            new = cost + 1.0 / float(strength[level, other])
            if new < best.get(other, np.inf):
                best[other] = new
                heapq.heappush(queue, (new, other, [*path, other]))
    return None


def field_from_file(path: Path, times: NDArray[np.float64], duration: float) -> NDArray[np.float64]:
    """Return a field read from two columns (t, eps) or from a qsim results file, at the midpoints (zero outside its range).

    Raises
    ------
    FileError
        If the file is damaged or does not hold a field at ascending times.
    InvalidInput
        If it holds no field, or one at other times.
    """
    if str(path).endswith((".h5", ".hdf5")):
        t, eps = _field_of_results(path)
    else:
        columns = read_columns(path, 2, "t, field")
        order = np.argsort(columns[:, 0], kind="stable")
        t, eps = columns[order, 0], columns[order, 1]
    if t.shape == times.shape and np.allclose(t, times, rtol=0, atol=1e-9 * duration):
        return eps.astype(float)
    if t.size < 2 or np.any(np.diff(t) <= 0):
        raise InvalidInput("control.guess.file", f"{path} needs at least two distinct times")
    if t[-1] < times[0] or t[0] > times[-1]:
        raise InvalidInput(
            "control.guess.file",
            f"times from {t[0]:g} to {t[-1]:g} a.u. do not overlap the pulse of {duration:g} a.u.",
        )
    if t.size >= 4:
        value = smooth_curve(path, t, eps)(times)
        margin = 0.75 * float(np.median(np.diff(t)))  # midpoints lie up to half a step outside the samples
        return np.where((times >= t[0] - margin) & (times <= t[-1] + margin), value, 0.0)
    return np.interp(times, t, eps, left=0.0, right=0.0)


def _field_of_results(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and field of a results file, (N,) each."""
    from qsim.core.results.results import open_results

    with open_results(path) as results:
        if "field" not in results or "time" not in results:
            raise InvalidInput(
                "control.guess.file", f"{path} holds no field; give a results file of qsim qoc"
            )
        t, eps = results["time"], results["field"]
    for name, array in (("time", t), ("field", eps)):
        if array.dtype.kind not in "biuf" or array.shape != t.shape or array.ndim != 1:
            raise FileError(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected as many real numbers as times"
            )
        require_finite(path, name, array)
    if np.any(np.diff(t) <= 0):
        raise FileError(f"{path}: the times do not ascend")
    return t.astype(float), eps.astype(float)


def _random(
    guess: RandomGuess, deck: QocDeck, molecule: Molecule, times: NDArray[np.float64], seed: int
) -> NDArray[np.float64]:
    cutoff = guess.cutoff
    if cutoff is None:
        cutoff = 1.5 * max(
            abs(molecule.energies[b] - molecule.energies[a]) for a, b in ladder_rungs(deck, molecule)
        )
    modes = min(max(1, int(cutoff * deck.time.T / np.pi)), times.size)
    draws = rng.normal(rng.key_from_seed(seed), RANDOM_STREAM, 0, modes)
    field = np.zeros(times.size)
    for n in range(modes):  # one mode at a time: the table of all modes would be modes x N
        field += draws[n] * np.sin((n + 1) * np.pi / deck.time.T * times)
    return field * guess.amplitude / float(np.sqrt(np.mean(field**2)))

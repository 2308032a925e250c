"""First fields of a molecule (N,): carriers at its transitions, formulas, files, random ones; the way out of a critical point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.tables import read_table
from qsim.core.device import rng
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.curves import table_curve
from qsim.core.physics.functions import formula
from qsim.qoc.control.rungs import direct_rungs, ladder_rungs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.qoc.deck.controls import (
        ExpressionValues,
        FileGuess,
        LadderValues,
        RandomGuess,
        ResonantValues,
        ZeroGuess,
    )
    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.models.molecule import Molecule

# a.u. of a formula or a file.
LARGEST_FIELD = 1e10


@dataclass(frozen=True)
class Pulse:
    """Deck, molecule and times of a first field.

    Attributes
    ----------
    deck : QocDeck
    molecule : Molecule
        The nominal one.
    times : (N,) float64
        Midpoints of the steps, a.u.
    shape : (N,) float64
        Factor S(t) of every field.
    """

    deck: QocDeck
    molecule: Molecule
    times: NDArray[np.float64]
    shape: NDArray[np.float64]

    @property
    def duration(self) -> float:
        """T, a.u."""
        return self.deck.time.T

    @property
    def seed(self) -> int:
        """Seed of random numbers."""
        return self.deck.run.seed or 0

    def checked(self, field: NDArray[np.float64], key: str) -> NDArray[np.float64]:
        """Return a field that has been read, after a look at its size.

        Raises
        ------
        InvalidInput
            If a value is no field strength.
        """
        worst = int(np.argmax(np.abs(field)))
        if abs(field[worst]) > LARGEST_FIELD:
            raise InvalidInput(
                key,
                f"{field[worst]:.3g} a.u. at t = {self.times[worst]:.6g} a.u. is not a field strength "
                f"(at most {LARGEST_FIELD:g})",
            )
        return field


# Pi, per rung, of the weak field that takes the place of a zero one.
SEED_AREA = 0.1


def resonant(block: ResonantValues, pulse: Pulse) -> NDArray[np.float64]:
    """Return carriers on the direct transitions between the states."""
    return carriers(pulse, direct_rungs(pulse.deck, pulse.molecule), block.area)


def ladder(block: LadderValues, pulse: Pulse) -> NDArray[np.float64]:
    """Return carriers on the strongest path of transitions."""
    rungs = ladder_rungs(pulse.deck, pulse.molecule)
    area = block.area
    if area == "auto":
        # of one rung half a pi pulse, where the slope of P = sin^2(area / 2) is largest
        area = 0.5 if len(rungs) == 1 else 1.0
    return carriers(pulse, rungs, area * np.sqrt(len(rungs)))


def weak_seed(pulse: Pulse) -> NDArray[np.float64]:
    """Return a weak resonant field (N,) on the transitions between the states, a.u."""
    rungs = ladder_rungs(pulse.deck, pulse.molecule)
    return carriers(pulse, rungs, SEED_AREA * math.sqrt(len(rungs)))


def carriers(pulse: Pulse, rungs: list[tuple[int, int]], area: float) -> NDArray[np.float64]:
    """Return ``sum_rungs A cos(omega (t - T/2)) S(t)`` with ``mu A integral S dt = area pi`` on every rung (Eq. Q12).

    In the rotating-wave approximation the Rabi angle of a rung is ``mu A integral S dt``, so area = 1 inverts a two-level system.
    """
    molecule, times, shape = pulse.molecule, pulse.times, pulse.shape
    tau = float(times[1] - times[0]) if times.size > 1 else 2.0 * float(times[0])
    length = float(shape.sum()) * tau
    centre = 0.5 * (times[0] + times[-1])
    field = np.zeros(times.size)
    for a, b in rungs:
        omega = abs(molecule.energies[b] - molecule.energies[a])
        amplitude = area * np.pi / (abs(molecule.dipole_matrix[a, b]) * length)
        field += amplitude * np.cos(omega * (times - centre))
    return field * shape


KEY = "control.guess.file"


def file(block: FileGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return the field of a file, times the shape of the deck."""
    field = pulse.checked(field_from_file(block, pulse.times, pulse.duration), KEY)
    return field * _shape_to_apply(block.file, pulse.times, pulse.shape)


def field_from_file(block: FileGuess, times: NDArray[np.float64], duration: float) -> NDArray[np.float64]:
    """Return a field read from two columns (t, eps) or from a qsim results file, at the midpoints (zero outside its range).

    Raises
    ------
    FileError
        If the file is damaged or does not hold a field at ascending times.
    InvalidInput
        If it holds no field, or one at other times.
    """
    path = block.file
    if str(path).endswith((".h5", ".hdf5")):
        t, eps = _field_of_results(path)
    else:
        columns = read_table(block)
        order = np.argsort(columns[:, 0], kind="stable")
        t, eps = columns[order, 0], columns[order, 1]
    if t.shape == times.shape and np.allclose(t, times, rtol=0, atol=1e-9 * duration):
        return eps.astype(float)
    if t.size < 2 or np.any(np.diff(t) <= 0):
        raise InvalidInput(KEY, f"{path} needs at least two distinct times")
    if t[-1] < times[0] or t[0] > times[-1]:
        raise InvalidInput(
            KEY, f"times from {t[0]:g} to {t[-1]:g} a.u. do not overlap the pulse of {duration:g} a.u."
        )
    if t.size >= 4:
        value = table_curve(path, t, eps).at(times)
        # midpoints lie up to half a step outside the samples
        margin = 0.75 * float(np.median(np.diff(t)))
        return np.where((times >= t[0] - margin) & (times <= t[-1] + margin), value, 0.0)
    return np.interp(times, t, eps, left=0.0, right=0.0)


def _field_of_results(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and field of a results file, (N,) each."""
    from qsim.core.results.results import open_complete, real_numbers

    with open_complete(path) as results:
        # results in levels call the control of the dipole the same
        name = "field" if "field" in results else "control/field"
        if name not in results or "time" not in results:
            raise InvalidInput(KEY, f"{path} holds no field; give a results file of qsim qoc")
        t = real_numbers(results, "time")
        eps = real_numbers(results, name, (t.size,))
    if np.any(np.diff(t) <= 0):
        raise FileError(f"{path}: the times do not ascend")
    return t, eps


def _shape_to_apply(
    path: Path, times: NDArray[np.float64], shape: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the factor that gives a field from a file the deck's shape; what a results file bears is not applied twice."""
    if not str(path).endswith((".h5", ".hdf5")):
        return shape
    from qsim.core.results.results import open_complete, real_numbers

    with open_complete(path) as results:
        if "shape" not in results:
            return shape
        t = real_numbers(results, "time")
        old = np.interp(times, t, real_numbers(results, "shape", (t.size,)))
    return np.minimum(shape / np.maximum(old, 1e-12), 1.0)


# Stream number of the random guess.
RANDOM_STREAM = 11
# Stream number of the perturbation that leaves a critical point.
ESCAPE_STREAM = 12
# Sine modes of its envelope: detunings of a few bandwidths of the pulse.
ESCAPE_MODES = 4
# Root mean square of its envelope, relative to the field.
ESCAPE_SIZE = 0.3


def random(block: RandomGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return a sum of sine modes up to a cutoff with normal coefficients."""
    cutoff, times, duration = block.cutoff, pulse.times, pulse.duration
    if cutoff is None:
        energies = pulse.molecule.energies
        rungs = ladder_rungs(pulse.deck, pulse.molecule)
        cutoff = 1.5 * max(abs(energies[b] - energies[a]) for a, b in rungs)
    modes = min(max(1, int(cutoff * duration / np.pi)), times.size)
    draws = rng.normal(rng.key_from_seed(pulse.seed), RANDOM_STREAM, 0, modes)
    field = np.zeros(times.size)
    # one mode at a time: the table of all modes would be modes x N
    for n in range(modes):
        field += draws[n] * np.sin((n + 1) * np.pi / duration * times)
    return field * block.amplitude / float(np.sqrt(np.mean(field**2))) * pulse.shape


def without_symmetry(field: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Return a field (N,) near another one that is neither even nor odd in time, nor keeps its phases: ``Re a (1 + c)``.

    ``a`` is the analytic signal of the field, so that carriers keep their frequencies and the pulse its shape; ``c`` a sum of
    a few sine modes with complex random amplitudes.  A symmetry of the field can make the gradient vanish where P is no maximum:
    the fields even in time, for one, contain no rotation about y.
    """
    count = field.size
    spectrum = np.fft.fft(field)
    # of an even number of points, the last frequency has no partner
    spectrum[1 : (count + 1) // 2] *= 2.0
    spectrum[count // 2 + 1 :] = 0.0
    draws = rng.normal(rng.key_from_seed(seed), ESCAPE_STREAM, 0, 2 * ESCAPE_MODES)
    phase = np.pi * (np.arange(count) + 0.5) / count
    modes = np.sin(np.arange(1, ESCAPE_MODES + 1)[:, None] * phase)
    envelope = (draws[::2] + 1j * draws[1::2]) @ modes * (ESCAPE_SIZE / np.sqrt(ESCAPE_MODES))
    return np.asarray(field + (np.fft.ifft(spectrum) * envelope).real)


def zero(_block: ZeroGuess, pulse: Pulse) -> NDArray[np.float64]:
    """Return no field."""
    return np.zeros(pulse.times.size)


def expression(block: ExpressionValues, pulse: Pulse) -> NDArray[np.float64]:
    """Return a formula of t and T, times the shape."""
    key = "control.guess.value"
    field = formula(block.value, key, t=pulse.times, T=pulse.duration)
    return pulse.checked(field, key) * pulse.shape


GUESSES: dict[str, Callable[[Any, Pulse], NDArray[np.float64]]] = {
    "zero": zero,
    "resonant": resonant,
    "ladder": ladder,
    "expression": expression,
    "file": file,
    "random": random,
}
"""The first field (N,) of a block of the deck and a pulse, by the type of the block."""


def first_field(pulse: Pulse) -> NDArray[np.float64]:
    """Return the field (N,) of the deck's guess at the midpoints, before bounds and other constraints.

    Raises
    ------
    InvalidInput
        If no path of dipole transitions joins the states, or a formula or a file cannot be used.
    """
    block = pulse.deck.control.guess
    return GUESSES[block.type](block, pulse)


def escape(pulse: Pulse, guess: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the guess (N,) without its symmetries; one too weak to move the state gives way to a resonant seed."""
    try:
        seed = weak_seed(pulse)
    except InvalidInput:
        # no path of dipole transitions, which a given field does not need
        seed = guess
    weak = np.linalg.norm(guess) < 0.1 * np.linalg.norm(seed)
    return without_symmetry(seed if weak else guess, pulse.seed)

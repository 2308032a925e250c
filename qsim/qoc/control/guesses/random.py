"""Random first fields, and the random perturbation that leaves a critical point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device import rng
from qsim.qoc.control.transitions import ladder_rungs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qoc.control.guesses.pulse import Pulse
    from qsim.qoc.deck.control import RandomGuess

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

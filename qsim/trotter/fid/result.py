"""Lines, decay and spectrum of nuclei, and their quantities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.trotter.fid.lines import decay

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.trotter.fid.problem import FidProblem

EPS = 2.2e-16
# of the span of all lines
WIDER = 1.5
# Hz, where all lines lie at one place
LEAST_WIDTH = 10.0
# neighbouring lines of one multiplet lie no farther apart than the largest coupling, or so many line widths
COUPLINGS, WIDTHS = 1.05, 4.0
# integral of a multiplet, in nuclei
LEAST_NUCLEI = 0.01


@dataclass
class FidResult:
    """Lines, decay and spectrum.

    Attributes
    ----------
    problem : FidProblem
    lines : (n, 4) float64
        Frequency, Hz beside the reference, intensity and its imaginary part, and rate of the decay, 1/s, of all lines.
    line_error : float
        Bound of the error of a frequency, Hz.
    rounding : float
        Bound of the error of the decay at t = 0, beside that of sums.
    """

    task: ClassVar[str] = "fid"

    problem: FidProblem
    lines: NDArray[np.float64]
    line_error: float
    rounding: float = 0.0

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """Intensities over their sum, which is known beforehand: what the lines lack shows in the decay at t = 0, (n,)."""
        return np.asarray(self.lines[:, 1] / self.problem.norm)

    @property
    def span(self) -> tuple[float, float]:
        """Lowest and highest line that is listed, Hz."""
        found = self.listed[:, 0]
        return (float(found.min()), float(found.max())) if found.size else (0.0, 0.0)

    @cached_property
    def listed(self) -> NDArray[np.float64]:
        """Frequency, intensity and rate of lines from `fid.least` of the strongest on, the highest frequency first, (n, 3)."""
        strongest = float(self.weights.max(initial=0.0))
        kept = np.abs(self.weights) >= self.problem.block.least * strongest
        found = np.column_stack([self.lines[:, 0], self.weights, self.lines[:, 3]])[kept]
        return found[np.argsort(found[:, 0], kind="stable")][::-1]

    @property
    def carrier(self) -> float:
        """Frequency in the middle of the spectrum, Hz beside the reference."""
        block = self.problem.block
        return block.carrier * self.problem.larmor if block.carrier is not None else 0.5 * sum(self.span)

    @property
    def width(self) -> float:
        """Width of the spectrum, Hz."""
        given = self.problem.block.span(self.problem.larmor)
        low, high = self.span
        return given if given is not None else max(WIDER * (high - low), LEAST_WIDTH)

    @property
    def folded(self) -> int:
        """How many of the listed lines lie outside of the spectrum."""
        return int((np.abs(self.listed[:, 0] - self.carrier) > 0.5 * self.width).sum())

    @property
    def time(self) -> NDArray[np.float64]:
        """Times of the samples, s."""
        return np.arange(self.problem.block.points) / self.width

    @property
    def slowest(self) -> float:
        """Rate of the listed line that decays the slowest, 1/s."""
        return float(self.listed[:, 2].min(initial=math.inf)) if len(self.listed) else 0.0

    @property
    def left(self) -> float:
        """What is left of the slowest line at the end."""
        return math.exp(-self.slowest * float(self.time[-1]))

    @cached_property
    def fid(self) -> NDArray[np.complex128]:
        """The decay in the frame that turns with the carrier, 1 at t = 0."""
        shifted = self.lines - [self.carrier, 0.0, 0.0, 0.0]
        shifted[:, 1:3] /= self.problem.norm
        return decay(shifted, 1.0 / self.width, self.problem.block.points)

    @property
    def fid_error(self) -> float:
        """Bound of the error of the decay: the phase of a line at the end, and rounding."""
        return 2.0 * math.pi * self.line_error * float(self.time[-1]) + 1e3 * EPS + self.rounding

    @cached_property
    def spectrum(self) -> NDArray[np.complex128]:
        """Spectrum, 1/Hz, at `spectrum_frequency`: the transform of the decay; the real part is absorption, of the area 1."""
        block, t = self.problem.block, self.time
        b, g = block.apodise.exponential, block.apodise.gaussian
        # a Gaussian whose transform has the width g at half of its height
        signal = self.fid * np.exp(-math.pi * b * t - (math.pi * g * t) ** 2 / (4.0 * math.log(2.0)))
        # the first sample stands for half of an interval
        signal[0] *= 0.5
        signal *= np.exp(1j * math.radians(block.phase))
        made = np.fft.fft(signal, block.points * block.zero_fill) / self.width
        # twice the real part: times before 0 mirror those after it
        return np.asarray(2.0 * np.fft.fftshift(made))[::-1]

    @cached_property
    def frequency(self) -> NDArray[np.float64]:
        """Frequencies of the spectrum beside the reference, Hz, descending."""
        count = self.problem.block.points * self.problem.block.zero_fill
        return np.asarray(np.fft.fftshift(np.fft.fftfreq(count, 1.0 / self.width))[::-1] + self.carrier)

    def in_ppm(self, frequency: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return frequencies as shifts, ppm; None without a spectrometer."""
        return frequency / self.problem.larmor if self.problem.larmor else None

    @cached_property
    def multiplets(self) -> NDArray[np.float64]:
        """First and last frequency, Hz, descending, and intensity of groups of lines that lie apart, (n, 3)."""
        lines = self.listed
        if not len(lines):
            return np.zeros((0, 3))
        J = float(np.abs(self.problem.model.J[2]).max())
        apart = max(
            COUPLINGS * J,
            WIDTHS * self.slowest / math.pi,
            self.width / self.problem.block.points,
        )
        starts = np.flatnonzero(np.diff(-lines[:, 0], prepend=-np.inf) > apart)
        ends = np.append(starts[1:], len(lines)) - 1
        found = np.column_stack([lines[starts, 0], lines[ends, 0], np.add.reduceat(lines[:, 1], starts)])
        # combination lines between the multiplets are none of a nucleus
        return found[found[:, 2] * self.detected > LEAST_NUCLEI]

    @property
    def detected(self) -> int:
        """Number of observed nuclei."""
        return sum(self.problem.detected)


Q = Quantity[FidResult]


def _ppm(r: FidResult, values: NDArray[np.float64]) -> Any:
    return r.in_ppm(np.asarray(values))


def _field(r: FidResult) -> bool:
    return bool(r.problem.larmor)


QUANTITIES: tuple[Q, ...] = (
    Q("lines", "", "number of lines", lambda r: len(r.listed), headline=True, exact=True),
    Q(
        "strongest_line",
        "Hz",
        "frequency of the strongest line beside the reference",
        lambda r: float(r.listed[np.argmax(r.listed[:, 1]), 0]) if len(r.listed) else None,
        error=lambda r: r.line_error,
        headline=True,
    ),
    Q("multiplets", "", "groups of lines that lie apart", lambda r: len(r.multiplets), headline=True, exact=True),
    Q("isotope", "", "observed nucleus", lambda r: r.problem.isotope, headline=True),
    Q("detected", "", "number of observed nuclei", lambda r: r.detected, exact=True),
    Q("groups", "", "groups of equivalent nuclei", lambda r: len(r.problem.groups), exact=True),
    Q("dimension", "", "states of the largest space that was diagonalised", lambda r: r.problem.largest, exact=True),
    Q("carrier", "Hz", "middle of the spectrum beside the reference", lambda r: r.carrier, exact=True),
    Q("width", "Hz", "width of the spectrum", lambda r: r.width, exact=True),
    Q(
        "listed_intensity",
        "",
        "share of the listed lines in the intensity of all",
        lambda r: float(r.listed[:, 1].sum()),
        error=lambda r: 1e3 * EPS,
    ),
    Q("line_error", "Hz", "bound of the error of a frequency", lambda r: r.line_error, exact=True),
    Q("fid_error", "", "bound of the error of the decay", lambda r: r.fid_error, exact=True),
    Q("line_frequency", "Hz", "frequency of the lines beside the reference", lambda r: r.listed[:, 0], axes=("line",)),
    Q("line_ppm", "ppm", "shift of the lines", lambda r: _ppm(r, r.listed[:, 0]), axes=("line",), when=_field),
    Q(
        "line_intensity",
        "",
        "intensity of the lines, 1 in all",
        lambda r: r.listed[:, 1],
        axes=("line",),
        note="lines closer than rounding are one",
    ),
    Q("line_width", "Hz", "width of the lines at half of their height, by relaxation", lambda r: r.listed[:, 2] / math.pi,
      axes=("line",)),
    Q(
        "integral",
        "",
        "integral over the lines from the highest frequency on, in nuclei",
        lambda r: np.cumsum(r.listed[:, 1]) * r.detected,
        axes=("line",),
    ),
    Q("multiplet_from", "ppm", "shift of the first line of a multiplet", lambda r: _ppm(r, r.multiplets[:, 0]),
      axes=("multiplet",), when=_field),
    Q("multiplet_to", "ppm", "shift of its last line", lambda r: _ppm(r, r.multiplets[:, 1]),
      axes=("multiplet",), when=_field),
    Q("multiplet_nuclei", "", "integral of a multiplet, in nuclei", lambda r: r.multiplets[:, 2] * r.detected,
      axes=("multiplet",)),
    Q("fid_time", "ms", "times of the samples", lambda r: 1e3 * r.time, axes=("fid_time",)),
    Q("fid", "", "free induction decay in the frame of the carrier, s(0) = 1", lambda r: r.fid, axes=("fid_time",)),
    Q(
        "spectrum_frequency",
        "Hz",
        "frequencies of the spectrum beside the reference",
        lambda r: r.frequency,
        axes=("spectrum_frequency",),
    ),
    Q("spectrum_ppm", "ppm", "their shifts", lambda r: _ppm(r, r.frequency), axes=("spectrum_frequency",), when=_field),
    Q(
        "absorption",
        "1/Hz",
        "absorption spectrum, whose area is 1",
        lambda r: r.spectrum.real,
        axes=("spectrum_frequency",),
        note="the first sample counts half",
    ),
    Q("dispersion", "1/Hz", "imaginary part of the spectrum", lambda r: r.spectrum.imag, axes=("spectrum_frequency",)),
)  # fmt: skip

r"""Motion in a laser field, whatever the geometry: problem, propagation and result, and what a geometry brings.

A geometry (a line, an atom) brings grid, kernels, levels, and what only it has. Steps, samples, output times, harmonics,
photoelectrons, errors, scans and figures are those of this room.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.physics.integrals import running_integral
from qsim.core.results.tables import NOT_VERIFIED
from qsim.core.run.loop import Progress
from qsim.tridiag.tdse.harmonics import Harmonic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.results.quantities import Quantity
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.deck.scan import FocalAverage
    from qsim.tridiag.tdse.pulses import LaserField

__all__ = ["Evolution", "Geometry", "Motion", "MotionResult", "Remarks", "Row", "Scan"]

Remarks = list[tuple[str, float, str]]
"""What a user must know of a run: a short name, how bad it is compared with other runs, and the text."""

Row = dict[str, Any]
"""Observables at an output time, numbers and arrays of float64 by name."""

# problem and result of a geometry
P = TypeVar("P")
R = TypeVar("R")


class Motion(Harmonic):
    """Problem of one run: a base of dataclasses, whose fields these are.

    Attributes
    ----------
    geometry : Geometry
    pulse : LaserField
        The field; zero without a laser.
    steps, dt
        Number of steps, and their length, a.u.
    order : int
        Of the steps, 2 or 4.
    outputs : int
        Number of output times after t = 0.
    every : int
        Steps between two samples of the trace.
    verify : "auto" or bool
        Whether errors are claimed.
    accuracy : float or None
        Error that the steps may leave in norms and populations, if the run finds their length.
    absorber : Any
        Block of the deck.
    notices : list of str
        What the deck left open and how it was settled.
    """

    geometry: Geometry[Any, Any]
    pulse: LaserField
    steps: int
    dt: float
    outputs: int
    every: int
    verify: Any
    accuracy: float | None
    absorber: Any

    @property
    def velocity(self) -> bool:
        """True in velocity gauge."""
        return self.pulse.gauge == "velocity"

    @property
    def t_final(self) -> float:
        """Duration, a.u."""
        return self.steps * self.dt

    @property
    def step_order(self) -> int:
        """Order of the errors that the steps leave."""
        raise NotImplementedError

    @property
    def frames(self) -> NDArray[np.int64]:
        """Step numbers of the output times, 0 first."""
        outputs = min(self.outputs, self.steps)
        return np.array([round(k * self.steps / outputs) for k in range(outputs + 1)])

    @property
    def components(self) -> tuple[LaserField, ...]:
        """The field along its direction, or along x and y."""
        return self.pulse.components

    def electric(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return the components of E, (1 or 2, ...)."""
        return np.array([one.electric(t) for one in self.components])

    def vector(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return the components of A, (1 or 2, ...)."""
        return np.array([one.vector_potential(t) for one in self.components])

    def kick(self, t: float) -> NDArray[np.float64]:
        """Return A at a time in velocity gauge, 0 in length gauge, (1 or 2,)."""
        return self.vector(t) if self.velocity else np.zeros(len(self.components))

    @property
    def response(self) -> NDArray[np.float64]:
        """Acceleration of each component of the dipole by each component of -E, (1, 1) or (2, 2)."""
        return np.eye(len(self.components))

    @property
    def kicked(self) -> bool:
        """True in length gauge if a pulse may be narrower than a step."""
        return not self.velocity and any(one.kicks(self.steps, self.dt) for one in self.components)

    def doubted(self) -> Self | None:
        """Return the problem with other curves that the rows of its tables allow; None without such tables."""
        raise NotImplementedError

    def in_velocity_gauge(self) -> Self:
        """Return the problem in velocity gauge."""
        raise NotImplementedError

    def with_steps(self, steps: int) -> Self:
        """Return the problem with another number of steps."""
        raise NotImplementedError


class Evolution:
    """The propagation from output time to output time, alone or in step with others, and what is recorded on the way.

    Parameters
    ----------
    problem : Motion
    restored : mapping, optional
        State to continue from.

    Attributes
    ----------
    problem : Motion
    propagator : Any
        Of the geometry.
    start : int
        Steps done before.
    rows : list of dict
        Observed at the output times so far.
    trace : list of (samples, columns) arrays
        Step number, and sums: norm, dipole, mean force, ...
    flux : list of (surfaces, 2, channels) complex128
        Wave function and its slope on the surfaces of t-SURFF, at the samples of the trace.
    """

    problem: Any
    propagator: Any
    start: int

    def begin(self, restored: Mapping[str, Any] | None) -> None:
        """Record t = 0, or take up the records of a state to continue from; the propagator is there."""
        self._frames = set(self.problem.frames.tolist())
        if restored is None:
            first = self.sums()
            self.start = 0
            self.trace = [np.array([[0.0, *first]])]
            self.rows: list[Row] = [self.row(0, first)]
            self.flux = [self.crossing(0)]
        else:
            self.start = int(restored["step"])
            self.trace, columns = [restored["trace"]], restored["rows"]
            count = len(columns["norm"])
            self.rows = [{name: values[k] for name, values in columns.items()} for k in range(count)]
            self.flux = list(restored["flux"])

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole and mean force (along the field, or along x and y), ... of the state."""
        raise NotImplementedError

    def row(self, step: int, sums: NDArray[np.float64]) -> Row:
        """Observe the state at an output time."""
        raise NotImplementedError

    def crossing(self, step: int) -> NDArray[np.complex128]:
        """Return the wave function and its slope on the surfaces of t-SURFF, (surfaces, 2, channels), in velocity gauge."""
        raise NotImplementedError

    @property
    def remaining(self) -> Sequence[Sequence[int]]:
        """Step numbers that are still to come and are recorded, in the groups that make one call."""
        raise NotImplementedError

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next marks, record, and return the last sums: norm, dipole, ...

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        raise NotImplementedError

    def record(self, marks: Sequence[int], sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Record what marks had, the state being that at the last; return the last sums, (columns,).

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        number, last = np.asarray(marks), marks[-1]
        if (lost := np.flatnonzero(~np.isfinite(sums[:, 0]))).size:
            norm, step = sums[lost[0], 0], number[lost[0]]
            raise NumericsError(f"norm is {norm} after {step} steps", hint="lower time.dt")
        # calls that end between two samples of the trace return one that does not belong to it
        sampled = number % self.problem.every == 0
        self.trace.append(np.column_stack([number, sums])[sampled])
        self.flux += [self.crossing(int(mark)) for mark in number[sampled]]
        if last in self._frames:
            self.rows.append(self.row(last, sums[-1]))
        return np.asarray(sums[-1])

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        return {
            "step": self.propagator.step,
            "steps": self.problem.steps,
            "trace": np.concatenate(self.trace),
            "rows": self.columns(),
            "flux": self.crossed(),
        }

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the rows as arrays, one row per output time; those of a run whose channels grew are filled up with zeros."""
        out = {}
        for name in self.rows[0]:
            values = [np.asarray(row[name]) for row in self.rows]
            wide = max(one.size for one in values)
            grown = values[0].ndim == 1 and any(one.size < wide for one in values)
            out[name] = np.array([np.pad(one, (0, wide - one.size)) for one in values] if grown else values)
        return out

    def crossed(self) -> NDArray[np.complex128]:
        """Return the flux of all samples with the channels of the last, (samples, surfaces, 2, channels)."""
        # earlier samples had fewer channels: zeros stand for the missing ones
        wide = self.flux[-1].shape[-1]
        return np.array([np.pad(one, ((0, 0), (0, 0), (0, wide - one.shape[-1]))) for one in self.flux])

    def result(self) -> Any:
        """Return what the complete propagation leaves."""
        raise NotImplementedError

    def advance(self, report: Report) -> None:
        """Propagate to the end.

        Raises
        ------
        NumericsError
            If the norm is not finite.
        """
        for marks in self.remaining:
            sums = self.to(marks)
            report(Progress(marks[-1], {"norm": float(sums[0]), "dipole": float(sums[1])}))


@dataclass(kw_only=True)
class MotionResult:
    """Result of a run.

    Attributes
    ----------
    problem : Motion
    frames : dict of arrays, one row per output time
        norm, dipole, acceleration, velocity, populations, ...
    trace : (samples, columns) float64
        Step number, and the sums of |psi|^2, x |psi|^2 and V' |psi|^2 at evenly spaced steps; in a plane, dipole and force have
        two columns each. Of an atom the last column is the norm of the last l.
    spectra : dict of arrays
        Spectra by name: hhg_order, hhg_spectrum, hhg_gabor, pes, ...
    numbers : dict
        Scalars of the analysis.
    errors : dict
        Claimed error by the name of the scalar.
    own : dict
        What the way in which a number is found adds to its claimed error, by the name of the scalar.
    parts : dict of dict
        What each cause (the time step, the grid spacing, ...) leaves, by the name of the scalar.
    peaks : dict
        Energies of the highest peaks of the photoelectron spectrum, by the name of the scalar.
    methods : list of str
        Methods of the photoelectron spectra, in the order of the deck.
    remarks : list of (name, size, text)
        What a user must know of spectra.
    unsure : dict of arrays
        Errors that the methods of spectra leave, by the name of the spectrum.
    resonance : str
        Which one was found.
    flux : (samples, surfaces, 2, channels) complex128
        Wave function and its slope on the surfaces of t-SURFF, in velocity gauge.
    """

    problem: Any
    frames: dict[str, NDArray[Any]]
    trace: NDArray[np.float64]
    spectra: dict[str, NDArray[Any]] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    parts: dict[str, dict[str, float]] = field(default_factory=dict)
    peaks: dict[str, float] = field(default_factory=dict)
    methods: list[str] = field(default_factory=list)
    remarks: Remarks = field(default_factory=list)
    unsure: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    resonance: str = ""
    flux: NDArray[np.complex128] = field(default_factory=lambda: np.zeros((0, 0, 2, 0), complex))

    @property
    def task(self) -> str:
        """Name of the quantities."""
        return str(self.problem.geometry.task)

    @property
    def time(self) -> NDArray[np.float64]:
        """Output times, a.u."""
        return np.asarray(self.problem.frames * self.problem.dt)

    @property
    def why_no_errors(self) -> str:
        """What stands beside the numbers of a run that was not repeated."""
        return "" if self.parts else NOT_VERIFIED

    def components(self, name: str) -> NDArray[np.float64]:
        """Return dipole, velocity, acceleration or field along the fine trace, (1 or 2, samples), a.u."""
        time, sums = self.traced("time"), self.trace[:, 2:].T
        # one component along the field, two in a plane
        d = len(self.problem.components)
        # lengths are summed in every sample; velocities would cost a derivative, and follow from the acceleration
        if name == "dipole":
            return np.asarray(sums[:d])
        electric = self.problem.electric(time)
        if name == "field":
            return np.asarray(electric)
        # -E times the charges, not the norm: the absorbed electron is driven as a free one, so that the box does not matter
        acceleration = np.asarray(-sums[d : 2 * d] - self.problem.response @ electric)
        if name == "acceleration":
            return acceleration
        # Ehrenfest: the velocity is the integral of the acceleration from that at t = 0, which holds no flux into the absorber
        start = np.reshape(self.frames["velocity"][0], (-1, 1))
        return np.asarray(start + running_integral(acceleration, time))

    def traced(self, name: str) -> NDArray[np.float64]:
        """Return time, norm, or the first component of what `components` knows, along the fine trace, a.u."""
        if name == "time":
            return np.asarray(self.trace[:, 0] * self.problem.dt)
        return np.asarray(self.trace[:, 1] if name == "norm" else self.components(name)[0])

    def final(self, name: str, component: int = 0) -> float:
        """Return a number at the end of the run."""
        return float(np.ravel(self.frames[name][-1])[component])


class Geometry(Generic[P, R]):
    """What one motion asks of a line, an atom, ...

    Attributes
    ----------
    task : str
        Of the deck; quantities of a scan are those of ``task_scan``.
    quantities : sequence of Quantity
        Of a run.
    state : str
        Attribute of a result with the state at the end, which no other rank of a scan needs.
    wider : str
        What makes room for more of the wave function, as a user is told.
    """

    task: str
    quantities: Sequence[Quantity[Any]]
    state: str
    wider: str

    def evolution(self, problem: P, restored: Mapping[str, Any] | None, comm: Comm) -> Evolution:
        """Return the propagation of a run, at t = 0 or at a state to continue from, which processes may share."""
        raise NotImplementedError

    def begin(
        self, device: Device, runs: Sequence[Any], saved: Sequence[Mapping[str, Any] | None]
    ) -> list[Any]:
        """Return the propagations of some runs of a scan, at t = 0 or at the states to continue from."""
        raise NotImplementedError

    def together(self, runs: Sequence[Any], marks: Sequence[int]) -> list[NDArray[np.float64]]:
        """Propagate runs to the next marks on a GPU, and return the last sums of each: one after another."""
        return [one.to(marks) for one in runs]

    def parts(self, result: R) -> dict[str, Callable[[Any], None]]:
        """Return what the end of a run tells, by what it is: functions that add it to a result."""
        raise NotImplementedError

    def spectrum(self, result: R, block: Any, shared: dict[int, Any]) -> Any:
        """Return the computation of a photoelectron spectrum; the dict keeps what runs share.

        It has `total`, `advance`, and `found` afterwards, a :class:`qsim.tridiag.tdse.photoelectrons.Photoelectrons`.
        """
        raise NotImplementedError

    def directions(self, result: R, electrons: Any, block: Any) -> None:
        """Store what belongs to the directions of the first spectrum of the deck."""
        raise NotImplementedError

    def companions(self, result: R, state: Callable[[], State], comm: Comm, work: float) -> Any:
        """Return the repetitions of a run that tell its errors, a :class:`qsim.tridiag.tdse.judge.Companions`."""
        raise NotImplementedError

    def trial(self, problem: P, comm: Comm, report: Report) -> dict[str, float]:
        """Return norms and populations of a trial run of the search for the step."""
        raise NotImplementedError

    def warnings(self, result: R) -> Iterator[tuple[str, float, str]]:
        """Yield remarks on a run."""
        raise NotImplementedError

    def resonance(self, result: R, monitor: Monitor) -> None:
        """Store position and rate of the resonance that the deck requests."""
        raise NotImplementedError

    def work(self, result: R) -> float:
        """Return the work of a run."""
        raise NotImplementedError

    def most_work(self, problem: P) -> float:
        """Return the work up to which `verify: auto` means true."""
        raise NotImplementedError


@dataclass
class Scan:
    """Problem of a scan: runs that differ in the numbers of a pulse or of the potential, with the same steps and the same grid.

    Attributes
    ----------
    runs : list of Motion
    values : dict
        What is scanned: one number per run by its key, atomic units.
    focal : FocalAverage or None
    device : Device
        On a CPU, as many runs at the same time as it has threads.
    notices : list of str
    """

    runs: list[Any]
    values: dict[str, list[float]]
    focal: FocalAverage | None
    device: Device
    notices: list[str] = field(default_factory=list)

    @property
    def geometry(self) -> Geometry[Any, Any]:
        """That of all runs."""
        found: Geometry[Any, Any] = self.runs[0].geometry
        return found

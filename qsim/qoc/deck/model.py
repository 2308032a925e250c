"""The deck of ``qsim qoc``."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, Count, Deck, DeckPath, Finding, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import ElectricField, Energy, Frequency, Time
from qsim.qoc.deck.molecule import SIGNED, SIZE, System, levels_of, parse_weight

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Factor = Annotated[float, Field(ge=1e-3, le=1e3)]  # of an ensemble member
Gamma = Annotated[float, Field(gt=1e-30, lt=1e30)]  # the scale of the paper's steps is arbitrary


# -------------------------------------------------------------------------------- time and propagation


class TimeGrid(Block):
    """Duration and steps; the field has one value per step, at its midpoint."""

    T: Annotated[Time, SIZE] = Field(description="duration", json_schema_extra={"example": 30000})
    steps: Annotated[Count, Field(ge=1, le=100_000_000)] | Literal["auto"] | None = Field(
        default=None,
        description="number of intervals N (the paper's N time points are N - 1 intervals); auto: from the spectrum",
        json_schema_extra={"example": 6000},
    )
    tau: Annotated[Time, SIZE] | None = Field(default=None, description="time step, instead of steps")


class EigenbasisPropagator(Block):
    """Strang splitting in the lowest eigenstates; checks its own truncation."""

    type: Literal["eigenbasis"]
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto", description="retained levels K"
    )
    truncation_tolerance: Positive = Field(
        default=1e-6, description="warn when the highest retained levels hold more population than this"
    )


class CrankNicolsonPropagator(Block):
    """The paper's propagator, Eq. (4), on the grid."""

    type: Literal["crank_nicolson"]
    energy_shift: Annotated[Energy, SIGNED] | Literal["auto"] = Field(
        default="auto",
        description="added to the potential; auto puts the zero between the states, 0.0 is the paper's Eq. (4)",
    )
    memory: Literal["auto", "store", "reverse"] = Field(
        default="auto", description="keep the trajectory for the gradient, or recover it by time reversal"
    )


Propagator = Annotated[
    EigenbasisPropagator | CrankNicolsonPropagator, Field(discriminator="type"), short_form
]


# ------------------------------------------------------------------------------------------ control


class ZeroGuess(Block):
    """No field: a critical point, so gradient methods replace it by a resonant seed."""

    type: Literal["zero"]
    noise: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="amplitude of the target mixed into the initial state; stands for the paper's roundoff",
    )


class ResonantGuess(Block):
    """One carrier at the transition frequency."""

    type: Literal["resonant"]
    area: Annotated[float, SIZE] = Field(default=0.5, description="pulse area in units of pi")


class LadderGuess(Block):
    """A carrier for every rung between the initial and the target levels."""

    type: Literal["ladder"]
    area: Annotated[float, SIZE] | Literal["auto"] = Field(
        default="auto", description="area of each rung in units of pi, times sqrt(rungs)"
    )


class ExpressionGuess(Block):
    """A formula of t (and the duration T), evaluated at the midpoints."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(description="formula of t and T, atomic units")


class FileGuess(Block):
    """Columns t and eps in atomic units, or a qsim results file; interpolated to the midpoints, times control.shape.

    The shape that the field of a results file bears already is not applied again.
    """

    type: Literal["file"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")


class RandomGuess(Block):
    """A smooth random field: Fourier modes up to a cutoff with normal coefficients."""

    type: Literal["random"]
    amplitude: Annotated[ElectricField, SIZE] = Field(description="root mean square of the field")
    cutoff: Annotated[Frequency, SIZE] | None = Field(
        default=None, description="highest frequency; default 1.5 times the highest transition of the ladder"
    )


Guess = Annotated[
    ZeroGuess | ResonantGuess | LadderGuess | ExpressionGuess | FileGuess | RandomGuess,
    Field(discriminator="type"),
    short_form,
]


class Sin2Edges(Block):
    """Flat, with sin^2 edges."""

    type: Literal["sin2_edges"]
    rise: Annotated[float, Field(gt=1e-9, le=0.5)] = Field(
        default=0.05, description="length of either edge as a fraction of T"
    )


class Sin2(Block):
    """``sin^2(pi t / T)``."""

    type: Literal["sin2"]


class GaussianShape(Block):
    """A Gaussian around T/2."""

    type: Literal["gaussian"]
    fwhm: Annotated[Time, SIZE] = Field(description="full width at half maximum of the shape")


class ExpressionShape(Block):
    """A formula of t and T with values from 0 to 1."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(description="formula of t and T")


Shape = Annotated[Sin2Edges | Sin2 | GaussianShape | ExpressionShape, Field(discriminator="type"), short_form]


class Control(Block):
    """First field and constraints."""

    guess: Guess = Field(default=LadderGuess(type="ladder"), description="first field", validate_default=True)
    shape: Shape | None = Field(default=None, description="factor S(t) of every field")
    bounds: Annotated[list[Annotated[ElectricField, SIGNED]], Field(min_length=2, max_length=2)] | None = (
        Field(default=None, description="lowest and highest field")
    )
    zero_area: bool = Field(default=False, description="keep the time integral of the field at zero")
    band: (
        Annotated[list[Annotated[Frequency, Field(ge=0, lt=1e12)]], Field(min_length=2, max_length=2)] | None
    ) = Field(default=None, description="lowest and highest angular frequency")


class Objective(Block):
    """``J = P - alpha integral eps^2 dt``, Eq. (6)."""

    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.99, description="stop when P reaches this"
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="fluence penalty, 1/(field^2 time)"
    )
    combine: Literal["incoherent", "coherent"] = Field(
        default="incoherent",
        description="several pairs: mean of |o|^2, or |mean of o|^2 (relative phases count)",
    )


# ---------------------------------------------------------------------------------------- optimizers


class Lbfgs(Block):
    """Quasi-Newton with exact gradients (SciPy's L-BFGS-B)."""

    type: Literal["lbfgs"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    memory: Annotated[Count, Field(ge=1, le=100)] = Field(default=10, description="stored corrections")
    finish: Literal["none", "gauss_newton"] = Field(
        default="none", description="method that takes over once P is high"
    )
    finish_at: Fraction = Field(default=0.9, description="P at which that method takes over")


class Krotov(Block):
    """Krotov's sequential update with automatic step."""

    type: Literal["krotov"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )
    step: Annotated[float, SIZE] | Literal["auto"] = Field(
        default="auto", description="Krotov's lambda; auto doubles it until J rises"
    )


class GaussNewton(Block):
    """Gauss-Newton on the amplitudes outside the target."""

    type: Literal["gauss_newton"]
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(
        default=500, description="limit of forward plus backward propagations"
    )


class Travolta(Block):
    """The paper's line search, Eqs. (7), (9), (10), every empirical constant open."""

    type: Literal["travolta"]
    amplified: bool = Field(default=True, description="amplified gradient, Eq. (10)")
    amplify_below: Fraction = Field(default=0.1, description="P below which Eq. (10) amplifies")
    amplify_factor: Annotated[float, SIZE] = Field(
        default=0.1, description="numerator of beta = factor / sqrt(P)"
    )
    gamma_start: Gamma = Field(default=0.1, description="second gamma of the sequence (the first is 0)")
    gamma_add: Annotated[float, Field(ge=0, lt=1e30)] = Field(
        default=0.3, description="Eq. (9): gamma <- (gamma + add) * mul"
    )
    gamma_mul: Annotated[float, Field(gt=1, lt=1e6)] = Field(default=1.4, description="Eq. (9)")
    gamma_max: Gamma = Field(default=1e8, description="threshold that ends the sequence")
    bisection_tolerance: Annotated[float, Field(gt=1e-15, lt=1)] = Field(
        default=0.01, description="interval / midpoint at the end"
    )
    derivative: Literal["difference", "exact"] = Field(
        default="difference", description="dJ/dgamma by the paper's central difference, or by the adjoint"
    )
    derivative_step: Gamma = Field(default=1e-4, description="absolute step of the central difference")
    gradient_tau: Annotated[Time, SIZE] | None = Field(
        default=None, description="time step whose discrete gradient gamma multiplies; default the run's own"
    )
    max_iterations: Annotated[Count, Field(ge=0)] = Field(default=50, description="limit of iterations")
    max_sweeps: Annotated[Count, Field(ge=2)] = Field(default=1_000_000, description="limit of propagations")


class NoOptimizer(Block):
    """Propagate the guess."""

    type: Literal["none"]


Optimizer = Annotated[
    Lbfgs | Krotov | GaussNewton | Travolta | NoOptimizer, Field(discriminator="type"), short_form
]


# ------------------------------------------------------------------------------- ensemble and checks


class Range(Block):
    """Equidistant values."""

    start: Factor = Field(description="first value")
    stop: Factor = Field(description="last value")
    count: Annotated[Count, Field(ge=1, le=1_000_000)] = Field(description="number of values")


Values = Annotated[list[Factor], Field(min_length=1, max_length=1_000_000)] | Range


class Ensemble(Block):
    """One field for many systems: all combinations, equal weights."""

    field_scale: Values | None = Field(default=None, description="factors of the field")
    mass_scale: Values | None = Field(default=None, description="factors of the mass")
    potential_scale: Values | None = Field(default=None, description="factors of the potential")


def values_of(values: Values | None) -> list[float]:
    """Return the numbers of a list, a range, or nothing ([1.0])."""
    if values is None:
        return [1.0]
    if isinstance(values, Range):
        n = values.count
        return [values.start + (values.stop - values.start) * i / max(n - 1, 1) for i in range(n)]
    return list(values)


class Verify(Block):
    """Independent propagation of the final field."""

    propagator: Literal["auto", "crank_nicolson", "cn", "eigenbasis", "none"] = Field(
        default="auto", description="auto: the one that the run did not use"
    )
    steps: Annotated[Count, Field(ge=1, le=100_000_000)] | Literal["auto"] = Field(
        default="auto", description="time steps"
    )
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] = Field(
        default="auto", description="levels (eigenbasis)"
    )
    tolerance: Positive = Field(
        default=1e-3,
        description="warn when the two probabilities differ by more, or the claimed error is larger",
    )
    interpolation: Literal["auto", "cubic", "hold"] = Field(
        default="auto",
        description="field between its values: a cubic spline, or constant in each step (hold); auto: a spline "
        "if the field is smooth on its steps (claimed errors then cover both), else hold",
    )


def _verify_form(value: object) -> object:
    if value is False or value == "none":
        return {"propagator": "none"}
    return {"propagator": value} if isinstance(value, str) else value


class QocDeck(Deck):
    """Optimal control of a vibrational state."""

    method: Literal["qoc"]
    system: System
    time: TimeGrid
    propagator: Propagator = Field(
        default=EigenbasisPropagator(type="eigenbasis"),
        description="propagation of the state",
        validate_default=True,
    )
    control: Control = Field(default=Control(), description="the field", validate_default=True)
    objective: Objective = Field(default=Objective(), description="quantity to maximise")
    optimizer: Optimizer = Field(
        default=Lbfgs(type="lbfgs"), description="method of maximisation", validate_default=True
    )
    ensemble: Ensemble | None = Field(default=None, description="robust control: one field, many systems")
    verify: Annotated[Verify, BeforeValidator(_verify_form)] = Field(
        default=Verify(), description="independent check of the final probability"
    )

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        yield from self._check_states()
        yield from self._check_time_and_grid()
        yield from self._check_control()
        yield from self._check_optimizer()
        yield from self._check_ensemble()
        if self.run.precision == "mixed":
            yield Finding("run.precision", "qoc runs in double or single precision, not mixed")

    def _check_states(self) -> Iterator[Finding]:
        system = self.system
        if system.pairs is not None and (system.initial is not None or system.target is not None):
            yield Finding("system.pairs", "give either pairs, or initial and target, not both")
            return
        if system.pairs is None:
            for key in ("initial", "target"):
                if getattr(system, key) is None:
                    yield Finding(f"system.{key}", "missing key; give a level such as 0, or {level: weight}")
                    return
        states = self.propagator.states if isinstance(self.propagator, EigenbasisPropagator) else "auto"
        room = system.grid.points if states == "auto" else states
        pairs = system.state_pairs()  # one of several pairs may ask to keep a state
        # of several pairs together, the phases between them count, which the free motion changes as well
        phases = self.objective.combine == "coherent" and len(pairs) > 1
        nothing_to_do = self.optimizer.type != "none" and not phases and all(_same(a, b) for a, b in pairs)
        for i, (initial, target) in enumerate(pairs):
            where = f"system.pairs.{i}." if system.pairs is not None else "system."
            if nothing_to_do:
                same = f"the initial state lies within the target levels {target}"
                if not isinstance(target, list):
                    same = f"initial and target are the same state ({target})"
                yield Finding(f"{where}target", f"{same}; nothing to control")
            for key, state in (("initial", initial), ("target", target)):
                if max(levels_of(state)) >= room:
                    yield Finding(
                        f"{where}{key}",
                        f"level {max(levels_of(state))} is not among the {room} "
                        + ("grid states" if states == "auto" else "states of propagator.states"),
                    )
        if not isinstance(states, str) and states > system.grid.points // 2:
            yield Finding(
                "propagator.states",
                f"{states} states on {system.grid.points} grid points; at most {system.grid.points // 2} of them are accurate",
            )

    def _check_time_and_grid(self) -> Iterator[Finding]:
        grid, time = self.system.grid, self.time
        if grid.xmin >= grid.xmax:
            yield Finding(
                "system.grid.xmin", f"xmin = {grid.xmin:g} must lie below xmax = {grid.xmax:g} bohr"
            )
        elif grid.xmax - grid.xmin < 1e-9 * (1.0 + abs(grid.xmin)):
            yield Finding("system.grid.xmax", f"the grid is only {grid.xmax - grid.xmin:.3g} bohr wide")
        if time.steps is None and time.tau is None:
            yield Finding("time.steps", "missing key; give steps (a number or auto), or tau")
        elif (
            time.tau is not None and isinstance(time.steps, int) and abs(time.T / time.tau - time.steps) > 0.5
        ):
            yield Finding(
                "time.tau",
                f"tau = {time.tau:g} a.u. and T = {time.T:g} a.u. make {time.T / time.tau:.6g} steps, but steps = {time.steps}; "
                "leave one of them out",
            )
        elif time.tau is not None and time.tau > time.T:
            yield Finding("time.tau", f"tau = {time.tau:g} a.u. is longer than T = {time.T:g} a.u.")

    def _check_control(self) -> Iterator[Finding]:
        control = self.control
        if control.bounds is not None:
            yield from self._check_bounds(*control.bounds)
        if control.band is not None and control.band[0] >= control.band[1]:
            yield Finding(
                "control.band", f"the lowest frequency {control.band[0]:g} must be below {control.band[1]:g}"
            )
        noisy = isinstance(control.guess, ZeroGuess) and bool(control.guess.noise)
        if noisy and self.optimizer.type not in ("travolta", "none"):
            yield Finding("control.guess.noise", "noise is only used by optimizer travolta", "warning")

    def _check_bounds(self, low: float, high: float) -> Iterator[Finding]:
        if low >= high:
            yield Finding(
                "control.bounds", f"lower bound {low:g} must lie below the upper bound {high:g} a.u."
            )
        elif not low <= 0 <= high:
            yield Finding("control.bounds", f"the bounds [{low:g}, {high:g}] must include zero field")
        elif self.control.zero_area and 0 in (low, high):
            yield Finding("control.bounds", "a field of one sign cannot have zero area")

    def _check_optimizer(self) -> Iterator[Finding]:
        """Yield constraints and goals that the optimiser cannot keep."""
        kind = self.optimizer.type
        unknown = {
            "travolta": (
                ("bounds", "band", "zero_area", "shape"),
                "the paper's line search cannot keep constraints; use optimizer lbfgs or gauss_newton",
            ),
            "krotov": (
                ("band", "zero_area"),
                "Krotov's sequential update cannot keep this; use optimizer lbfgs or gauss_newton",
            ),
        }
        keys, message = unknown.get(kind, ((), ""))
        for key in keys:
            if getattr(self.control, key):
                yield Finding(f"control.{key}", message)
        if kind == "krotov" and not isinstance(self.propagator, EigenbasisPropagator):
            yield Finding(
                "propagator", "Krotov's method runs in the eigenbasis; set propagator: {type: eigenbasis}"
            )
        coherent = self.objective.combine == "coherent"
        if coherent and kind == "gauss_newton":
            yield Finding(
                "objective.combine", "Gauss-Newton treats pairs incoherently; use optimizer lbfgs or krotov"
            )
        if coherent and any(isinstance(target, list) for _, target in self.system.state_pairs()):
            yield Finding("objective.combine", "a list of target levels has no phase; use incoherent")

    def _check_ensemble(self) -> Iterator[Finding]:
        if self.ensemble is None:
            return
        count = 1
        for values in (self.ensemble.field_scale, self.ensemble.mass_scale, self.ensemble.potential_scale):
            count *= values.count if isinstance(values, Range) else len(values_of(values))
        if count > 1_000_000:
            yield Finding("ensemble", f"{count} members; at most 1000000 are allowed")


def _same(a: Any, b: Any) -> bool:
    """Return True if the first state of a deck is the second one (the same ray), or lies within its list of levels."""
    if isinstance(b, list):
        return set(levels_of(a)) <= set(b)
    va = {int(k): parse_weight(w) for k, w in a.items()} if isinstance(a, dict) else {int(a): 1 + 0j}
    vb = {int(k): parse_weight(w) for k, w in b.items()} if isinstance(b, dict) else {int(b): 1 + 0j}
    na = math.sqrt(sum(abs(w) ** 2 for w in va.values()))
    nb = math.sqrt(sum(abs(w) ** 2 for w in vb.values()))
    overlap = abs(sum(va[k].conjugate() * vb[k] for k in va if k in vb)) / (na * nb)
    return overlap > 1 - 1e-12


DECK = QocDeck


def references(deck: QocDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of the algorithms that a deck uses."""
    keys = {
        "travolta": ("RodriguezBorbon2024", "Raza2021"),
        "krotov": ("Krotov1983",),
        "lbfgs": ("Byrd1995",),
    }
    return ("qsim", *keys.get(deck.optimizer.type, ()))

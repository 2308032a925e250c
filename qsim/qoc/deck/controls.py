"""Controls of a quantum system: first values, free parameters, shapes and constraints of each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from qsim.core.deck.blocks import Block, Count, DeckPath, Finding, PositiveCount, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import UNITS_KEY, Column, FieldUnits, Tabulated
from qsim.core.deck.units import ElectricField, Frequency, Time
from qsim.qoc.deck.numbers import SIGNED, SIZE
from qsim.qoc.deck.systems.quantities import ControlValue, FrequencyValue, TimeValue

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

# Times (N,), a.u., and values there; decks are read without NumPy.
Times: TypeAlias = "FloatArray"


class ShapeBlock(Block):
    """A factor S(t) of every field, between 0 and 1."""

    def at(self, t: Times, duration: float) -> Times:
        """Return S (N,) at times t of a pulse that lasts from 0 to `duration`, a.u."""
        raise NotImplementedError


class Sin2Edges(ShapeBlock):
    """Flat, with sin^2 edges."""

    type: Literal["sin2_edges"]
    rise: Annotated[float, Field(gt=1e-9, le=0.5)] = Field(
        default=0.05, description="length of either edge as a fraction of T"
    )

    def at(self, t: Times, duration: float) -> Times:
        """Return S (N,): ``sin^2`` over the rise at either end."""
        import numpy as np

        s = t / duration
        edge = np.minimum(np.minimum(s, 1.0 - s) / self.rise, 1.0)
        return np.asarray(np.sin(0.5 * np.pi * edge) ** 2)


class Sin2(ShapeBlock):
    """``sin^2(pi t / T)``."""

    type: Literal["sin2"]

    def at(self, t: Times, duration: float) -> Times:
        """Return S (N,)."""
        import numpy as np

        return np.asarray(np.sin(np.pi * (t / duration)) ** 2)


class GaussianShape(ShapeBlock):
    """A Gaussian around T/2."""

    type: Literal["gaussian"]
    fwhm: Annotated[Time, SIZE] = Field(description="full width at half maximum of the shape")

    def at(self, t: Times, duration: float) -> Times:
        """Return S (N,)."""
        import numpy as np

        return np.asarray(np.exp(-4.0 * np.log(2.0) * ((t - 0.5 * duration) / self.fwhm) ** 2))


class ExpressionShape(ShapeBlock):
    """A formula of t and T with values from 0 to 1."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(description="formula of t and T")

    def at(self, t: Times, duration: float) -> Times:
        """Return S (N,)."""
        from qsim.core.physics.functions import formula

        return formula(self.value, "control.shape.value", t=t, T=duration)


Shape = Annotated[Sin2Edges | Sin2 | GaussianShape | ExpressionShape, Field(discriminator="type"), short_form]


Values = Annotated[list[FrequencyValue], Field(min_length=2, max_length=2)]
ControlValues = Annotated[list[ControlValue], Field(min_length=2, max_length=2)]


class ExpressionValues(Block):
    """A formula of t (and the duration T), evaluated in the middle of each slot."""

    type: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(
        description="formula of t and T, in the unit of time and of frequency of the system"
    )


class _Pulse(Block):
    """Size, width and place of a Gaussian."""

    amplitude: ControlValue | Literal["auto"] = Field(
        default="auto", description="A; auto: the angular frequency of the control has the integral pi"
    )
    width: TimeValue = Field(
        description="s, the standard deviation in time", json_schema_extra={"example": "5 ns"}
    )
    center: TimeValue | None = Field(default=None, description="t0; default: T/2")


class GaussianValues(_Pulse):
    """A Gaussian ``A exp(-(t - t0)^2/(2 s^2))``."""

    type: Literal["gaussian"]


class DragValues(_Pulse):
    """The derivative of a Gaussian that goes with it in the other quadrature: ``-weight u'(t)/Delta``, u as of gaussian."""

    type: Literal["drag"]
    anharmonicity: FrequencyValue = Field(
        description="Delta, frequency 1-2 less frequency 0-1: the derivative is divided by its angular frequency",
        json_schema_extra={"example": "-250 MHz"},
    )
    weight: Annotated[float, Field(gt=-1e6, lt=1e6)] = Field(
        default=1.0, description="factor; 1 removes leakage to first order, 0.5 the error of the phase"
    )


class RandomValues(Block):
    """A smooth random control: a few sine modes with normal coefficients."""

    type: Literal["random"]
    amplitude: ControlValue | Literal["auto"] = Field(
        default="auto",
        description="root mean square; auto: half of the smaller bound, or a rotation by pi in T",
    )
    modes: PositiveCount = Field(default=8, description="number of sine modes")
    cutoff: FrequencyValue | None = Field(
        default=None, description="highest frequency of the modes, instead of modes"
    )


class NoiseValues(Block):
    """A random control without any structure: a normal value in every slot, held there."""

    type: Literal["noise"]
    amplitude: ControlValue | Literal["auto"] = Field(
        default="auto",
        description="standard deviation; auto: half of the smaller bound, or a rotation by pi in T",
    )


class LadderValues(Block):
    """A carrier for every transition on the strongest path from the start to the goal, all in phase in the middle."""

    type: Literal["ladder"]
    area: Annotated[float, SIZE] | Literal["auto"] = Field(
        default="auto",
        description="area of each rung in units of pi, times sqrt(rungs); auto: 1, of one rung 0.5",
    )


class ResonantValues(Block):
    """Carriers at the transitions between levels of start and goal themselves."""

    type: Literal["resonant"]
    area: Annotated[float, SIZE] = Field(default=0.5, description="pulse area in units of pi")


class ZeroValues(Block):
    """No control at first."""

    type: Literal["zero"]


class GivenValues(Block):
    """Values of an array, each held for an equal part of the duration."""

    type: Literal["values"]
    values: Annotated[list[float], Field(min_length=1)] = Field(
        description="values in the unit of the control; their number is that of the slots, or divides it"
    )


class FileValues(Block):
    """Values at times: columns of a text file, datasets of an HDF5 file, or the controls of an earlier run.

    They are zero outside of the times of the file.
    """

    type: Literal["file"]
    file: DeckPath = Field(
        description="CSV or white-space with the header 't (ns), NAME (MHz), ...', HDF5, or results of qsim qoc"
    )
    column: str | None = Field(
        default=None,
        description="column or dataset; default: the name of the control, or E",
    )
    units: dict[str, str] = Field(
        default={},
        description="units of columns where a text file names none: of t, and of the column or E",
        json_schema_extra={"example": {"t": "fs", "E": "V/nm"}},
    )
    between: Literal["auto", "hold", "linear"] = Field(
        default="auto",
        description="between the times: the nearest value, or a line; auto: hold for results of an earlier run, else linear",
    )


FirstValues = Annotated[
    ExpressionValues
    | GaussianValues
    | DragValues
    | RandomValues
    | NoiseValues
    | LadderValues
    | ResonantValues
    | ZeroValues
    | GivenValues
    | FileValues,
    Field(discriminator="type"),
    short_form,
]


class EverySlot(Block):
    """One free value per slot, or per block of slots."""

    type: Literal["slots"]
    count: PositiveCount | None = Field(
        default=None, description="free values, each held for time.slots/count slots; default: one per slot"
    )


class Sine(Block):
    """Sine modes ``sin(n pi t/T)`` in a band of frequencies."""

    type: Literal["sine"]
    band: Values = Field(description="lowest and highest frequency")


class Fourier(Block):
    """Sine and cosine at frequencies ``(k + r_k) 2 pi/T`` with random r_k, added to the first values (CRAB).

    Where the search comes to rest, new frequencies are drawn and added to what was found.
    """

    type: Literal["fourier"]
    count: PositiveCount = Field(description="number of frequencies, k = 1, 2, ...")
    spread: Annotated[float, Field(ge=0, le=0.5)] = Field(
        default=0.5, description="largest |r_k|; 0: the harmonics themselves"
    )
    redraws: Annotated[Count, Field(le=1000)] = Field(
        default=4, description="times that new frequencies are drawn when no step raises J any more"
    )


class Splines(Block):
    """Cubic B-splines on equal intervals, or their products with carriers."""

    type: Literal["bspline"]
    count: Annotated[Count, Field(ge=4)] = Field(description="number of splines")
    carriers: Annotated[list[FrequencyValue], Field(min_length=1, max_length=64)] = Field(
        default=[0.0],
        description="frequencies w: every spline times cos(w t) and sin(w t); 0: the splines themselves",
    )


class Constant(Block):
    """One value for the whole duration."""

    type: Literal["constant"]


Parameters = Annotated[
    EverySlot | Sine | Fourier | Splines | Constant, Field(discriminator="type"), short_form
]


class Modulus(Block):
    """A bound on ``sqrt(u^2 + v^2)`` of this control and another: two quadratures of one drive."""

    model_config = ConfigDict(populate_by_name=True)

    partner: str = Field(alias="with", description="name of the other control")
    bound: ControlValue = Field(description="largest modulus", json_schema_extra={"example": 0.08})


class QuantumControl(Block):
    """One control of the system: its first values and constraints."""

    name: str = Field(description="name in system.controls, or in the file of matrices")
    guess: FirstValues = Field(
        default=RandomValues(type="random"), description="first values", validate_default=True
    )
    parameters: Parameters = Field(
        default=EverySlot(type="slots"), description="free parameters", validate_default=True
    )
    band: Values | None = Field(
        default=None,
        description="lowest and highest frequency: the sine modes between them, as parameters: sine",
    )
    shape: Shape | None = Field(default=None, description="factor S(t) of the control, from 0 to 1")
    bounds: ControlValues | None = Field(
        default=None,
        description="lowest and highest value, a frequency; grid, rotor, grid2d: an electric field, or the intensity of its peak",
    )
    modulus: Modulus | None = Field(default=None, description="bound on the modulus of two controls together")
    zero_area: bool = Field(default=False, description="keep the time integral at zero")
    area: Annotated[float, Field(gt=-1e12, lt=1e12)] | None = Field(
        default=None, description="keep the time integral at this value, in the units of control and time"
    )
    slew: Annotated[float, Field(gt=0, lt=1e30)] | None = Field(
        default=None,
        description="largest change per time, in the units of control and time, from zero before the pulse on",
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] | None = Field(
        default=None, description="fluence penalty of this control; default: objective.alpha"
    )
    fixed: bool = Field(default=False, description="keep the first values: a known drive")

    @property
    def coupled(self) -> str:
        """Return the key of the constraint that couples its slots, or an empty text."""
        if self.parameters.type != "slots" or self.parameters.count is not None:
            return "parameters"
        if self.band is not None:
            return "band"
        if self.slew is not None:
            return "slew"
        if self.zero_area:
            return "zero_area"
        return "" if self.area is None else "area"


# ------------------------------------------------------------------------------------------- a molecule by the paper
class ZeroGuess(Block):
    """No field: a critical point, so gradient methods replace it by a resonant seed."""

    type: Literal["zero"]
    noise: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="amplitude of the target mixed into the initial state; stands for the paper's roundoff",
    )


class FileGuess(Tabulated):
    """Columns t and E, or a qsim results file; interpolated to the midpoints, times control.shape.

    The shape that the field of a results file bears already is not applied again.
    """

    type: Literal["file"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: FieldUnits | None = Field(default=None, description=UNITS_KEY)

    def columns(self) -> tuple[Column, ...]:
        """Return t and E."""
        return Column("t", "time"), Column("E", "electric field")

    def table_file(self) -> Path | None:
        """Return the path of a table; None for results of an earlier run, which are in atomic units."""
        return None if self.file.suffix in (".h5", ".hdf5") else self.file


class RandomGuess(Block):
    """A smooth random field: Fourier modes up to a cutoff with normal coefficients."""

    type: Literal["random"]
    amplitude: Annotated[ElectricField, SIZE] = Field(description="root mean square of the field")
    cutoff: Annotated[Frequency, SIZE] | None = Field(
        default=None, description="highest frequency; default 1.5 times the highest transition of the ladder"
    )


Guess = Annotated[
    ZeroGuess | ResonantValues | LadderValues | ExpressionValues | FileGuess | RandomGuess,
    Field(discriminator="type"),
    short_form,
]


class Control(Block):
    """First field and constraints."""

    guess: Guess = Field(
        default=LadderValues(type="ladder"), description="first field", validate_default=True
    )
    shape: Shape | None = Field(default=None, description="factor S(t) of every field")
    bounds: Annotated[list[Annotated[ElectricField, SIGNED]], Field(min_length=2, max_length=2)] | None = (
        Field(default=None, description="lowest and highest field")
    )
    zero_area: bool = Field(default=False, description="keep the time integral of the field at zero")
    band: (
        Annotated[list[Annotated[Frequency, Field(ge=0, lt=1e12)]], Field(min_length=2, max_length=2)] | None
    ) = Field(default=None, description="lowest and highest angular frequency")


def control_rules(controls: list[QuantumControl], optimizer: str) -> Iterator[Finding]:
    """Yield contradictions between the controls, and what an optimiser cannot keep."""
    names = [c.name for c in controls]
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Finding(f"control.{place}.name", f"duplicate control '{name}'")
    if optimizer != "none" and all(c.fixed for c in controls):
        yield Finding("control", "every control is fixed; nothing is left to optimise (optimizer: none)")
    taken: set[str] = set()
    for place, control in enumerate(controls):
        key = f"control.{place}"
        if control.zero_area and control.area is not None:
            yield Finding(f"{key}.area", "give either area or zero_area")
        if control.band is not None and "parameters" in control.model_fields_set:
            yield Finding(f"{key}.band", "a band is that of sine modes; give either band or parameters")
        yield from _slew(control, key)
        yield from _modulus(controls, place, taken)
        if optimizer == "krotov" and not control.fixed:
            yield from _sequential(control, key)


def _modulus(controls: list[QuantumControl], place: int, taken: set[str]) -> Iterator[Finding]:
    """Yield what is wrong with the partner of a control; `taken` holds the names of all pairs so far."""
    control = controls[place]
    if control.modulus is None:
        return
    key, partner = f"control.{place}.modulus", control.modulus.partner
    others = [c for c in controls if c.name == partner]
    if not others or partner == control.name:
        names = ", ".join(c.name for c in controls if c.name != control.name)
        yield Finding(f"{key}.with", f"no other control is called '{partner}'; there are {names or 'none'}")
        return
    if {control.name, partner} & taken:
        yield Finding(key, "a control can be in one pair only; give the key to one control of the pair")
    taken |= {control.name, partner}
    for one in (control, others[0]):
        if one.fixed:
            yield Finding(key, f"'{one.name}' is fixed; a pair has two free controls")
        elif one.zero_area or one.area is not None or one.slew is not None:
            what = "area" if one.slew is None else "slew"
            text = f"the {what} of '{one.name}' cannot be kept together with a bound on the modulus"
            yield Finding(key, text)


def _slew(control: QuantumControl, key: str) -> Iterator[Finding]:
    """Yield what cannot be kept together with a largest change."""
    if control.slew is None:
        return
    if control.coupled in ("parameters", "band"):
        yield Finding(
            f"{key}.slew", "a largest change needs a value of its own in every slot, parameters: slots"
        )
    for name in ("shape", "zero_area", "area"):
        if getattr(control, name) not in (None, False):
            yield Finding(f"{key}.slew", f"a largest change cannot be kept together with {name}")
    if control.fixed:
        yield Finding(f"{key}.slew", "the values of a fixed control are kept as they are")


def _sequential(control: QuantumControl, key: str) -> Iterator[Finding]:
    """Yield what slots that are changed one after another cannot keep."""
    remedy = "use optimizer lbfgs"
    if control.coupled:
        text = f"Krotov's update changes one slot after another and cannot keep this; {remedy}"
        yield Finding(f"{key}.{control.coupled}", text)
    if control.modulus is not None:
        yield Finding(f"{key}.modulus", f"Krotov's update changes one control by itself; {remedy}")

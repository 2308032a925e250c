"""First field and constraints of a qoc deck."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import Block, DeckPath, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.table_units import UNITS_KEY, Column, FieldUnits, Tabulated
from qsim.core.deck.units import ElectricField, Frequency, Time
from qsim.qoc.deck.numbers import SIGNED, SIZE

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray

# Times (N,), a.u., and values there; decks are read without NumPy.
Times: TypeAlias = "FloatArray"


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
    ZeroGuess | ResonantGuess | LadderGuess | ExpressionGuess | FileGuess | RandomGuess,
    Field(discriminator="type"),
    short_form,
]


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

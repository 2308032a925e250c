"""Pulses that a deck gives by a formula or a table."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath, Finding
from qsim.core.deck.expression import Expression, ExpressionText
from qsim.core.deck.table_units import (
    INTERPOLATION_KEY,
    UNITS_KEY,
    Column,
    FieldUnits,
    Interpolation,
    Tabulated,
)
from qsim.core.deck.units import Time
from qsim.core.errors import NumericsError
from qsim.tridiag.deck.numbers import SIZE, Times
from qsim.tridiag.deck.pulses.base import PulseBlock

if TYPE_CHECKING:
    from scipy.interpolate import PPoly

    from qsim.core.physics.curves import Curve

__all__ = ["ExpressionPulse", "TablePulse"]


class ExpressionPulse(PulseBlock):
    """A formula of the time since the start of the pulse, in atomic units."""

    place = 7

    shape: Literal["expression"]
    value: Annotated[str, ExpressionText("t", "T")] = Field(description="formula of t (and T, the duration)")
    of: Literal["E", "A"] = Field(
        default="E", description="what the formula is: the field, or the vector potential (E = -dA/dt)"
    )
    duration: Annotated[Time, SIZE] | None = Field(
        default=None,
        description="length T, zero field afterwards; without it, endless and no T in the formula",
    )

    @property
    def length(self) -> float:
        """Duration, atomic units; infinite for an endless pulse."""
        return math.inf if self.duration is None else self.duration

    @property
    def defines(self) -> Literal["E", "A"]:
        """The function that the formula gives."""
        return self.of

    def _variables(self, tau: Times) -> dict[str, Times]:
        """Return the values of t and T; T is 0 in an endless pulse, whose formula has none."""
        import numpy as np

        horizon = 0.0 if self.duration is None else self.duration
        return {"t": tau, "T": np.full_like(tau, horizon)}

    def E(self, tau: Times) -> Times:
        """Return the formula, or minus its exact derivative."""
        from qsim.core.physics.functions import formula, formula_slope

        if self.of == "A":
            # E = -dA/dt by the derivative of the formula itself, which has no error of differences
            return -formula_slope(self.value, "value", "t", **self._variables(tau))
        return formula(self.value, "value", **self._variables(tau))

    def A(self, tau: Times) -> Times:
        """Return the formula."""
        from qsim.core.physics.functions import formula

        return formula(self.value, "value", **self._variables(tau))

    def places(self, whole: float) -> Sequence[float]:
        """Return the kinks of the formula, and times within its narrow pulses."""
        from qsim.core.physics.structure import survey

        # a formula without a value at some time may have one wherever a step asks for it
        try:
            return [time for time, _ in survey([_Profile(self.value, self.duration)], whole)[0]]
        except NumericsError:
            return []

    def check(self, key: str) -> Iterator[Finding]:
        """Yield a use of T without a duration."""
        if self.duration is None and "T" in Expression(self.value, ("t", "T")).names:
            yield Finding(f"{key}.duration", "missing key; the formula uses T, the duration of the pulse")


class _Profile:
    """A formula of a pulse as a function of t alone."""

    def __init__(self, text: str, duration: float | None) -> None:
        self.formula = Expression(re.sub(r"\bT\b", f"({duration or 0.0!r})", text), ("t",))

    def __call__(self, t: float) -> float:
        """Return the value at one time."""
        return float(self.formula(t=t))

    def many(self, times: Times) -> Times:
        """Return the values (n,)."""
        return self.formula(t=times)


class TablePulse(PulseBlock, Tabulated):
    """Two columns, t and the field, joined by a curve that keeps to its rows; zero outside of the table."""

    place = 8

    shape: Literal["table", "file"]
    file: DeckPath = Field(description="CSV, white-space or .h5 file, relative to the deck")
    units: FieldUnits | None = Field(default=None, description=UNITS_KEY)
    interpolation: Interpolation = Field(default="auto", description=INTERPOLATION_KEY)
    of: Literal["E", "A"] = Field(
        default="E", description="second column: the field, or the vector potential (E = -dA/dt)"
    )

    def columns(self) -> tuple[Column, ...]:
        """Return t and E, or A in atomic units."""
        second = Column("A", unit="au") if self.of == "A" else Column("E", "electric field")
        return Column("t", "time"), second

    def check(self, key: str) -> Iterator[Finding]:
        """Yield a unit of E for a table of A."""
        if self.of == "A" and "E" in self.given_units():
            yield Finding(f"{key}.units.E", "the table holds A, which is read in atomic units; leave it out")

    @cached_property
    def curve(self) -> "Curve":
        """The table as a curve, read once."""
        from qsim.core.physics.functions import curve_of

        return curve_of(self)

    @cached_property
    def _curve(self) -> "PPoly":
        """The curve that counts."""
        from qsim.core.physics.functions import chosen

        return chosen(self, self.curve)

    @property
    def _first(self) -> float:
        """Time of the table at the start of the pulse: 0, or its first time if that is negative."""
        # a table that begins before 0 begins with the pulse; one that begins later leaves the field zero until
        # then
        return min(0.0, float(self._curve.x[0]))

    @property
    def length(self) -> float:
        """Time from the start to the end of the table, atomic units."""
        return float(self._curve.x[-1]) - self._first

    def places(self, whole: float) -> Sequence[float]:
        """Return the rows of the table."""
        return [float(t) - self._first for t in self._curve.x]

    @property
    def defines(self) -> Literal["E", "A"]:
        """The function in the second column."""
        return self.of

    def E(self, tau: Times) -> Times:
        """Return the curve, or minus its derivative; zero outside of the table."""
        import numpy as np

        curve = self._curve
        t = tau + self._first
        value = -curve.derivative()(t) if self.of == "A" else curve(t)
        return np.where((t >= curve.x[0]) & (t <= curve.x[-1]), value, 0.0)

    def A(self, tau: Times) -> Times:
        """Return the curve; constant outside of the table, so that E is zero there."""
        import numpy as np

        # A after the table keeps its last value: a constant has no field
        curve = self._curve
        return np.asarray(curve(np.clip(tau + self._first, curve.x[0], curve.x[-1])))

    def integral(self, tau: Times) -> Times:
        """Return the integral of the curve, exact."""
        import numpy as np

        first, last = self._curve.x[0], self._curve.x[-1]
        # A is exact: a piecewise polynomial has a primitive
        primitive = self._curve.antiderivative()
        t = np.clip(tau + self._first, first, last)
        return np.asarray(primitive(t) - primitive(first))

"""Shapes S(t) of controls."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from qsim.core.deck.blocks import Block, short_form
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.units import Time
from qsim.qoc.deck.numbers import SIZE

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

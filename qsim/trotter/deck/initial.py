"""The block `initial`: one of the states of :mod:`qsim.trotter.initial`."""

from typing import TYPE_CHECKING, Annotated, Union

from pydantic import Field

from qsim.core.deck.blocks import short_form
from qsim.trotter.initial.base import InitialState
from qsim.trotter.initial.registry import STATES

__all__ = ["Initial"]

if TYPE_CHECKING:
    Initial = InitialState
else:
    Initial = Annotated[Union[STATES], Field(discriminator="type"), short_form]  # noqa: UP007 - of a tuple

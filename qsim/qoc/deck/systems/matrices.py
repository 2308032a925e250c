"""``system: {type: matrices}``: any system from a file of matrices."""

from typing import Annotated, Literal

from pydantic import Field

from qsim.core.deck.blocks import Block, DeckPath
from qsim.qoc.deck.systems.jumps import LevelJumps
from qsim.qoc.deck.systems.quantities import UnitName
from qsim.qoc.deck.systems.states import Initial, StatePair, Target

__all__ = ["FileControl", "MatricesSystem"]


class FileControl(Block):
    """One control of the file; H gets u^power times its operator."""

    power: Literal[1, 2] = Field(default=1, description="1, or 2 for a coupling to the square of the control")


class MatricesSystem(Block):
    """H0, controls and jumps from an HDF5 or .npz file, dense or sparse."""

    type: Literal["matrices"]
    file: DeckPath = Field(
        description="HDF5 or .npz with H0, controls/NAME, and if needed jumps/NAME, states/NAME, observables/NAME; "
        "each dense, or a group of data, indices, indptr, shape (rows compressed)"
    )
    unit: UnitName | None = Field(
        default=None,
        description="unit of H0 and of the controls; jumps are 1/sqrt(time) (GHz: ns); none: hbar = 1",
    )
    controls: Annotated[dict[str, FileControl], Field(min_length=1)] | None = Field(
        default=None, description="controls of the file in this order (default: all, by name)"
    )
    labels: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="names of the basis states (default: 0, 1, 2, ...)"
    )
    jumps: LevelJumps = Field(
        default=[], description="jumps beside those of the file, between its basis states or by formulas"
    )
    initial: Initial | None = Field(
        default=None, description="start: label, level, superposition, thermal, file"
    )
    target: Target | None = Field(
        default=None,
        description="goal: label, level, superposition, list, observable, density, gate on labels",
    )
    pairs: Annotated[list[StatePair], Field(min_length=1)] | None = Field(
        default=None,
        description="several goals for the same controls, of any kinds and with weights, instead of initial and target",
    )

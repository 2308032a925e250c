"""``system: {type: matrices}``: any system from a file of matrices."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, DeckPath
from qsim.qoc.deck.systems.jumps import LevelJump
from qsim.qoc.deck.systems.quantities import UnitName
from qsim.qoc.deck.systems.states import Initial, Matrix, StatePair, Target


class FileControl(Block):
    """One control; H gets u^power times its operator."""

    operator: Matrix | None = Field(default=None, description="its matrix; default: that of the file")
    power: Literal[1, 2] = Field(default=1, description="1, or 2 for a coupling to the square of the control")


class MatrixJump(LevelJump):
    """One process: a matrix, lifetimes, rates, bath, dephasing, or operator with its rate."""

    matrix: Matrix | None = Field(
        default=None, description="jump operator, sqrt(rate) included if rate is not given"
    )


def _as_operator(value: Any) -> Any:
    return {"operator": value} if isinstance(value, list) else value


def _as_jump(value: Any) -> Any:
    """Read an array as the matrix of a jump, with its rate where it stands as an operator beside one."""
    if isinstance(value, dict) and isinstance(value.get("operator"), list):
        return {"matrix" if name == "operator" else name: one for name, one in value.items()}
    return {"matrix": value} if isinstance(value, list) else value


Control = Annotated[FileControl, BeforeValidator(_as_operator, json_schema_input_type=FileControl | Matrix)]
AnyJump = Annotated[MatrixJump, BeforeValidator(_as_jump, json_schema_input_type=MatrixJump | Matrix)]


class MatricesSystem(Block):
    """H0, controls and jumps from an HDF5 or .npz file, dense or sparse, or from arrays in Python."""

    type: Literal["matrices"]
    file: DeckPath | None = Field(
        default=None,
        description="HDF5 or .npz with H0, controls/NAME, and if needed jumps/NAME, states/NAME, observables/NAME; "
        "each dense, or a group of data, indices, indptr, shape (rows compressed)",
    )
    unit: UnitName | None = Field(
        default=None,
        description="unit of H0 and of the controls; jumps are 1/sqrt(time) (GHz: ns); none: hbar = 1",
    )
    H0: Matrix | None = Field(default=None, description="Hamiltonian without controls, instead of a file")
    controls: Annotated[dict[str, Control], Field(min_length=1)] | None = Field(
        default=None,
        description="controls of the file in this order (default: all, by name), or their matrices by name",
    )
    observables: dict[str, Matrix] = Field(default={}, description="matrices for formulas, by name")
    labels: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="names of the basis states (default: 0, 1, 2, ...)"
    )
    jumps: list[AnyJump] = Field(
        default=[],
        description="jumps beside those of the file: matrices, between basis states, or by formulas",
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

"""Read initial states and targets of a quantum system: labels, levels, and arrays as Python gives them."""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)

from qsim.core.deck.blocks import Block, ComplexNumber, DeckPath
from qsim.core.text import shorten
from qsim.qoc.deck.system import parse_weight
from qsim.qoc.deck.systems.quantities import TemperatureValue

Vector = Annotated[list[ComplexNumber], Field(min_length=1)]
Matrix = Annotated[list[Vector], Field(min_length=1)]


class StateArray(Block):
    """A state or a density matrix in the order of the basis states."""

    psi: Vector | None = Field(default=None, description="amplitudes (D)")
    rho: Matrix | None = Field(default=None, description="density matrix (D, D), of a start")


def as_state(value: Any) -> Any:
    """Read an array as the block of a state: a vector, a column or a density matrix."""
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(row, list) and len(row) == 1 for row in value):
        value = [row[0] for row in value]
    return {"rho" if isinstance(value[0], list) else "psi": value}


#: Gates by name; the first qubit is the slowest, and controls come first.
GATES = (
    *("id", "x", "y", "z", "h", "s", "sdg", "t", "tdg", "sqrt_x", "sqrt_y"),
    *("cnot", "cx", "cy", "cz", "ch", "cs", "swap", "sqrt_swap", "iswap", "sqrt_iswap"),
    *("toffoli", "ccz", "fredkin"),
    *("perfect_entangler",),
)


class Level(Block):
    """A level of H0 by its number."""

    level: Annotated[int, Field(ge=0)] = Field(description="number of the level, from 0, by energy")


class Thermal(Block):
    """Mixture of Boltzmann weights ``exp(-E/kT)``."""

    thermal: TemperatureValue = Field(
        description="temperature, or kT as a frequency in the unit of the block"
    )
    below: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=1e-6, description="weight of the highest levels that may be left out"
    )
    coupled: bool = Field(
        default=True, description="levels of the whole Hamiltonian; false: of the parts without their terms"
    )


class StateFile(Block):
    """A state or a density matrix from a file."""

    file: DeckPath = Field(description=".npz, .npy or HDF5 with psi (D), or rho (D, D)")
    below: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=1e-12, description="weight of rho that may be left out"
    )


class Observable(Block):
    """A mean value to be maximised."""

    observable: Annotated[str, Field(min_length=1)] = Field(description="Hermitian formula of operators")


class AnyOperator(Observable):
    """A mean value that is looked at, of an operator that need not be Hermitian: no key of a deck."""


class Overlap(Block):
    """An overlap of the final state with another one."""

    overlap: Annotated[Any, PlainValidator(lambda value, info: _state(value, {"level": Level}, info))] = (
        Field(
            description="state f as a target: label, level, {label: weight}; NAME_re and NAME_im are the parts of <f|psi(T)>"
        )
    )


def _measured(value: object) -> object:
    """Read a text as an observable, and tell overlaps by their key."""
    if isinstance(value, str):
        return {"observable": value}
    if isinstance(value, dict) and not {"observable", "overlap"} & set(value):
        raise ValueError("expected a formula of operators, {observable: ...} or {overlap: ...}")
    return value


class Formula(Block):
    """A formula of mean values and overlaps to be maximised."""

    formula: Annotated[str, Field(min_length=1)] = Field(description="formula of the names in values")
    values: Annotated[
        dict[str, Annotated[Observable | Overlap, BeforeValidator(_measured)]], Field(min_length=1)
    ] = Field(
        description="by name a Hermitian formula of operators, or {overlap: state}: NAME_re and NAME_im"
    )


class Density(Block):
    """A density matrix to be reached."""

    density: Matrix | DeckPath = Field(description="rho (D, D), or .npz, .npy or HDF5 with it")


def _known(value: object) -> object:
    """Refuse a text that is neither the name of a gate nor that of a file."""
    if isinstance(value, str) and value.lower() in GATES:
        return value.lower()
    if isinstance(value, str) and not Path(value).suffix:
        close = difflib.get_close_matches(value.lower(), GATES, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown gate {shorten(repr(value))}; {hint}gates: {', '.join(GATES)}; or a file")
    return value


def _listed(name: str) -> str:
    """Refuse what is no name of a gate, so that it is read as a file."""
    if name not in GATES:
        raise ValueError("no name of a gate")
    return name


GateName = Annotated[str, AfterValidator(_listed)]


def _order(order: list[int]) -> list[int]:
    """Refuse a list that is no permutation."""
    if sorted(order) != list(range(len(order))):
        raise ValueError(f"expected a permutation of 0, 1, ..., found {order}")
    return order


Permutation = Annotated[list[int], Field(min_length=2, max_length=64), AfterValidator(_order)]


def _names(value: object) -> object:
    """Read levels in a list of names."""
    if not isinstance(value, list):
        return value
    return [str(v) if _is_level(v) else v for v in value]


class Gate(Block):
    """A unitary to be made on logical states."""

    gate: Annotated[
        GateName | Permutation | Matrix | DeckPath,
        Field(union_mode="left_to_right"),
        BeforeValidator(_known),
    ] = Field(
        description="name, matrix, file with it (gate), or permutation: [1, 2, 0] takes logical state 0 to 1, 1 to 2, 2 to 0"
    )
    on: Annotated[list[str], Field(min_length=1), BeforeValidator(_names)] | None = Field(
        default=None,
        description="parts, the first one slowest (default: all); systems in levels, matrices: labels of logical states",
    )
    free: list[Literal["z", "global", "local"]] = Field(
        default=[],
        description="what does not count: phases, z (of each part) or global; of two qubits local gates before and after, local",
    )


B = TypeVar("B", bound=Block)


def _block(kind: type[B], value: dict[str, Any], info: ValidationInfo) -> B:
    """Return the mapping as a block.

    Raises
    ------
    ValueError
        With all mistakes in one line.
    """
    try:
        return kind.model_validate(value, context=info.context)
    except ValidationError as error:
        told = [
            ".".join(map(str, e["loc"])) + f": {e['msg'].removeprefix('Value error, ')}"
            for e in error.errors()
        ]
        raise ValueError("; ".join(told)) from None


def _weights(value: dict[Any, Any]) -> dict[str, complex]:
    """Return the weights of a superposition by label.

    Raises
    ------
    ValueError
        If a weight is no complex number, or all are zero.
    """
    weights = {str(label): parse_weight(weight) for label, weight in value.items()}
    if len(weights) != len(value):
        raise ValueError(f"duplicate label in {value!r}")
    if not any(weights.values()):
        raise ValueError("expected {label: weight, ...} with a weight that is not zero")
    return weights


def _is_level(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _state(value: object, kinds: dict[str, type[Block]], info: ValidationInfo) -> Any:
    """Return a level (int), a label (str), a superposition (dict), or one of the blocks `kinds`, told apart by their keys."""
    if isinstance(value, str) and value:
        return value
    if _is_level(value):
        return value
    if isinstance(value, Block) and type(value) in kinds.values():
        return value
    if isinstance(value, dict):
        # Both meanings of a number can be said.
        if set(value) == {"state"} and isinstance(value["state"], str | int):
            return str(value["state"])
        for key, kind in kinds.items():
            if key in value:
                return _block(kind, value, info)
        return _weights(value)
    raise ValueError(
        f'expected a label such as "00", a level 0, 1, 2, ..., {{label: weight}}, or {{{"|".join(kinds)}: ...}}, found {value!r}'
    )


def _initial(value: object, info: ValidationInfo) -> Any:
    kinds: dict[str, type[Block]] = {"level": Level, "thermal": Thermal, "file": StateFile}
    return _state(as_state(value), {**kinds, "psi": StateArray, "rho": StateArray}, info)


def _target(value: object, info: ValidationInfo) -> Any:
    """Return a target: as an initial state, or a list of labels or levels, of which any may be reached."""
    if isinstance(value, list):
        if not value or not all(_is_level(v) or (isinstance(v, str) and v) for v in value):
            raise ValueError(f"expected a list of labels or levels, found {value!r}")
        if len(set(value)) != len(value):
            raise ValueError(f"duplicate entry in {value!r}")
        return value
    kinds: dict[str, type[Block]] = {
        "level": Level,
        "observable": Observable,
        "formula": Formula,
        "density": Density,
        "gate": Gate,
        "psi": StateArray,
    }
    return _state(value, kinds, info)


_STATE: list[dict[str, Any]] = [{"type": "integer", "minimum": 0}, {"type": "string"}, {"type": "object"}]
Initial = Annotated[
    Any, PlainValidator(_initial), WithJsonSchema({"anyOf": [*_STATE, {"type": "array", "minItems": 1}]})
]
Target = Annotated[
    Any,
    PlainValidator(_target),
    WithJsonSchema({"anyOf": [*_STATE, {"type": "array", "items": {"type": ["integer", "string"]}}]}),
]


class StatePair(Block):
    """One of several goals: a start and its target, with a weight."""

    initial: Initial | None = Field(
        default=None,
        description="start as system.initial; of a gate the label of the other parts, or nothing",
    )
    target: Target = Field(description="goal as system.target")
    weight: Annotated[float, Field(gt=0, lt=1e12)] = Field(
        default=1.0, description="weight of this goal; the weights of all are divided by their sum"
    )

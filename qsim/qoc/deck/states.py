"""States of the qoc deck: a level, a list of levels, or a superposition."""

from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema


def parse_weight(value: object) -> complex:
    """Return a complex weight from a number or a text such as ``0.5i`` or ``1-0.5i``."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"expected a number or a text such as '0.5i', found {value!r}")
    try:
        weight = (
            complex(value.replace(" ", "").replace("i", "j")) if isinstance(value, str) else complex(value)
        )
    except ValueError:
        raise ValueError(f"expected a number or a text such as '0.5i', found {value!r}") from None
    if not (weight == 0 or 1e-12 < abs(weight) < 1e12):
        raise ValueError(
            f"expected a weight between 1e-12 and 1e12 in size (weights are normalised), found {value!r}"
        )
    return weight


def _parse_state(value: object) -> Any:
    """Check a state: a level, a list of levels, or ``{level: weight}``."""
    if isinstance(value, dict):
        if not value:
            raise ValueError("expected {level: weight, ...}, found an empty mapping")
        for key, weight in value.items():
            if not (str(key).isascii() and str(key).isdigit()):
                raise ValueError(f"expected {{level: weight}} with levels 0, 1, 2, ..., found level {key!r}")
            parse_weight(weight)
        if len({int(key) for key in value}) != len(value):
            raise ValueError(f"duplicate level in {value!r}")
        if not any(abs(parse_weight(w)) > 0 for w in value.values()):
            raise ValueError("all weights of the superposition are zero")
        return value
    if isinstance(value, list):
        if not value or not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in value):
            raise ValueError(f"expected a list of levels 0, 1, 2, ..., found {value!r}")
        if len(set(value)) != len(value):
            raise ValueError(f"duplicate level in {value!r}")
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"expected a level 0, 1, 2, ... or {{level: weight}}, found {value!r}")


def _parse_initial(value: object) -> Any:
    if isinstance(value, list):
        raise ValueError("expected a level or {level: weight}; a list of levels is only allowed as a target")
    return _parse_state(value)


_STATE_SCHEMA: dict[str, Any] = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "object", "additionalProperties": {"type": ["number", "string"]}},
    ]
}
InitialState = Annotated[Any, PlainValidator(_parse_initial), WithJsonSchema(_STATE_SCHEMA)]
TargetState = Annotated[
    Any,
    PlainValidator(_parse_state),
    WithJsonSchema({"anyOf": [*_STATE_SCHEMA["anyOf"], {"type": "array", "items": {"type": "integer"}}]}),
]


def levels_of(state: Any) -> tuple[int, ...]:
    """Return the levels that occur in a state of the deck."""
    if isinstance(state, dict):
        return tuple(sorted(int(k) for k in state))
    return tuple(state) if isinstance(state, list) else (int(state),)

"""Words for what a deck model allows, for templates and reference pages: values, bounds, units, types."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.fields import LARGEST, Annotation, is_block, literals, tags
from qsim.core.deck.units import Quantity
from qsim.core.deck.yaml_marks import reads_as_text

__all__ = [
    "bounds",
    "complex_text",
    "deck_lines",
    "example_of",
    "flow",
    "limits",
    "number",
    "quantity_of",
    "type_of",
    "without_unset",
    "words_of",
]


def flow(value: object) -> str:
    """Return a value as YAML on one line, such that reading it gives the value back."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    # Before the numbers, of which truth values are a kind in Python.
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[str(float(value))]
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, complex):
        return complex_text(value) if value.imag else flow(value.real)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{flow(str(key))}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(flow, value)) + "]"
    return _text(value.as_posix() if isinstance(value, Path) else str(value))


def deck_lines(block: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Yield the lines of a deck: blocks one key per line, everything below them on its line."""
    for key, value in block.items():
        # Two levels of blocks are spread over lines, as decks are written; deeper ones fit on a
        # line.
        if isinstance(value, dict) and value and len(indent) < 4:
            yield f"{indent}{flow(key)}:"
            yield from deck_lines(value, indent + "  ")
        else:
            yield f"{indent}{flow(key)}: {flow(value)}"


def without_unset(value: object, data: object, *, listed: bool = False) -> Any:
    """Return the data of a block without keys that are null, and in lists without flags that are off by default.

    Parameters
    ----------
    value
        The block, or what one of its keys holds.
    data
        The same as plain data.
    listed
        Whether it is an element of a list, as the entries of ``observe``.
    """
    if isinstance(value, BaseModel) and isinstance(data, Mapping):
        kept = {}
        names: dict[str, str] = {info.alias or name: name for name, info in type(value).model_fields.items()}
        for key, item in data.items():
            name = names.get(str(key), str(key))
            info = type(value).model_fields.get(name)
            # A flag of an entry is off unless it is written; in a block by itself `false` may
            # be what the deck says.
            off = listed and item is False and info is not None and info.default is False
            if item is not None and not off:
                kept[key] = without_unset(getattr(value, name, None), item)
        return kept
    if isinstance(value, list | tuple) and isinstance(data, list | tuple) and len(value) == len(data):
        return [without_unset(each, item, listed=True) for each, item in zip(value, data, strict=True)]
    return data


def complex_text(value: complex) -> str:
    """Return a complex number as a deck has it: ``"0.5i"``, ``"1.0-2.0i"``."""
    return f"{value.imag!r}i" if value.real == 0.0 else f"{value.real!r}{value.imag:+}i"


def _text(value: str) -> str:
    """Return text plain where any YAML reads it back as that text, else in double quotes."""
    words_of_yaml_1_1 = ("yes", "no", "on", "off", "y", "n")
    # signs that begin nothing in YAML, and no space at an end, which a plain scalar would lose
    harmless = value[:1].isalnum() and value == value.strip()
    harmless = harmless and all(c.isalnum() or c in "_-./+^ " for c in value)
    if harmless and value.lower() not in words_of_yaml_1_1 and reads_as_text(value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def quantity_of(annotation: Annotation) -> Quantity | None:
    """Return the quantity that a type, or a member of a union, carries."""
    quantities = (member.first(Quantity) for member in annotation.leaves)
    return annotation.first(Quantity) or next((quantity for quantity in quantities if quantity), None)


def limits(annotation: Annotation) -> list[tuple[str, Any]]:
    """Return the bounds in the metadata of a type, but for those that every whole number has."""
    names = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
    pairs = [(name, getattr(item, name, None)) for item in annotation.metadata for name in names]
    return [(name, limit) for name, limit in pairs if limit is not None and abs(limit) != LARGEST]


def bounds(annotation: Annotation) -> str:
    """Return the bounds of a type in symbols, the tightest ones: ``> 0, <= 1``."""
    texts: list[str] = []
    for member in annotation.leaves:
        given = limits(member)
        # Ties between an open and a closed bound at the same number: the open one is tighter,
        # which the second element of each pair decides.
        low = max(
            (limit, name == "gt") for name, limit in [*given, ("ge", -math.inf)] if name in ("gt", "ge")
        )
        high = min(
            (limit, name == "le") for name, limit in [*given, ("le", math.inf)] if name in ("lt", "le")
        )
        if low[0] > -math.inf:
            texts.append(f"{'>' if low[1] else '>='} {number(low[0])}")
        if high[0] < math.inf:
            texts.append(f"{'<=' if high[1] else '<'} {number(high[0])}")
        texts += [f"multiple of {number(limit)}" for name, limit in given if name == "multiple_of"]
        lengths = dict(given)
        if member.origin in (list, dict) and lengths.keys() & {"min_length", "max_length"}:
            texts.append(_item_count(lengths.get("min_length"), lengths.get("max_length")))
    return ", ".join(dict.fromkeys(texts))


def number(value: float) -> str:
    """Return a bound as text: whole numbers digit by digit, others shortened."""
    return str(value) if isinstance(value, int) and abs(value) < 10**9 else f"{value:g}"


def _item_count(low: int | None, high: int | None) -> str:
    if low == high:
        return f"{low} item{'' if low == 1 else 's'}"
    if high is None:
        return f"at least {low} item{'' if low == 1 else 's'}"
    return f"{low} to {high} items" if low else f"at most {high} items"


def example_of(info: FieldInfo) -> Any:
    """Return the example value of a field, `PydanticUndefined` if it has none."""
    extra = info.json_schema_extra
    return extra.get("example", PydanticUndefined) if isinstance(extra, dict) else PydanticUndefined


def words_of(annotation: Annotation) -> list[str]:
    """Return the names that a key can be given: the types of a union of blocks, the words of a literal."""
    types = list(tags(annotation, annotation.discriminator or "type"))
    return types or [flow(one) for one in literals(annotation)]


def type_of(annotation: Annotation) -> str:
    """Return a type in the words of the reference pages: ``list of numbers``, ```auto` or whole number``."""
    names = dict.fromkeys(_member_name(member) for member in annotation.leaves)
    if annotation.leaves and all(is_block(member.base) for member in annotation.leaves):
        return "block"
    return " or ".join(names) or "null"


def _member_name(member: Annotation) -> str:
    """Return the words for one of the types that a key may have."""
    # Marks of a field say more than its type: words, quantities and formulas come before
    # blocks, lists and plain types.
    if member.origin is Literal:
        return ", ".join(f"`{flow(value)}`" for value in member.args)
    if quantity := member.first(Quantity):
        return quantity.kind
    if formula := member.first(ExpressionText):
        return f"formula of {', '.join(f'`{name}`' for name in formula.variables)}"
    if is_block(member.base):
        return "block"
    if member.origin is list and member.args:
        return f"list of {_plural(type_of(Annotation.of(member.args[0])))}"
    if member.origin is tuple and member.args:
        if member.args[-1] is Ellipsis:
            return f"list of {_plural(type_of(Annotation.of(member.args[0])))}"
        return f"list of {len(member.args)}: " + ", ".join(type_of(Annotation.of(arg)) for arg in member.args)
    if member.origin is dict and len(member.args) == 2:
        return f"{_plural(type_of(Annotation.of(member.args[1])))} by name"
    names = {bool: "`true`, `false`", int: "whole number", float: "number", str: "text", Path: "file"}
    return names.get(member.base) or ("complex number" if member.base is complex else "value")


def _plural(name: str) -> str:
    countable = ("block", "number", "file", "value", "length", "angle", "wavelength", "field", "dipole")
    if name.endswith(("energy", "frequency")):
        return f"{name[:-1]}ies"
    return f"{name}s" if name.endswith(countable) else name

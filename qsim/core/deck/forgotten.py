"""Find what a valid deck may have meant otherwise: numbers without a unit, such as ``wavelength: 800``, and old names of keys."""

from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from qsim.core.deck.blocks import Block, Finding
from qsim.core.deck.describe import quantity_of
from qsim.core.deck.fields import Annotation
from qsim.core.deck.table_units import Tabulated
from qsim.core.deck.units import FORGOTTEN, without_unit
from qsim.core.deck.yaml_marks import Node

__all__ = ["forgotten_units"]

# Items of a list that are looked at.
MOST_ITEMS = 1000


def forgotten_units(block: BaseModel, node: Node, key: str = "") -> Iterator[Finding]:
    """Yield a warning for every bare number of a block that is hardly meant in atomic units; of a list of numbers, for the first.

    Keys by their old names, and tables without units, are told by a note.

    Parameters
    ----------
    block
        The valid block.
    node
        What the deck has for it: texts with a unit and defaults are left out.
    key
        Its dotted key.
    """
    prefix = f"{key}." if key else ""
    if isinstance(block, Tabulated) and block.table_file() is not None:
        from qsim.core.deck.tables import units_in_doubt

        yield from units_in_doubt(block, key)
    if isinstance(block, Block):
        for old, new in block.OLD_NAMES.items():
            if node.child(old) is not None:
                text = f"this key is called {new} now; the old name is accepted until version 1.0"
                yield Finding(f"{prefix}{old}", text, "note")
    for name, info in type(block).model_fields.items():
        # Keys that the deck does not write have defaults, which are right.
        below = node.child(info.alias or name)
        if below is None:
            continue
        ranges = block.forgotten(name) if isinstance(block, Block) else None
        place = f"{prefix}{info.alias or name}"
        yield from _within(getattr(block, name), below, Annotation.of_field(info), place, ranges)


def _within(
    value: object,
    node: Node,
    annotation: Annotation,
    key: str,
    ranges: tuple[tuple[float, float, str], ...] | None = None,
) -> Iterator[Finding]:
    """Yield the warnings about the value of a field, and about the values in it."""
    if isinstance(value, BaseModel):
        yield from forgotten_units(value, node, key)
    elif isinstance(value, Mapping) and isinstance(node.value, dict):
        for part, below in node.value.items():
            yield from _inside(value.get(part), below, annotation, key, part)
    elif isinstance(value, list | tuple) and isinstance(node.value, list):
        for index, (item, below) in enumerate(zip(value[:MOST_ITEMS], node.value, strict=False)):
            # A list of numbers is reported once: all of its numbers lack the unit.
            for finding in _inside(item, below, annotation, key, index):
                yield finding
                if not isinstance(item, BaseModel):
                    return
    elif type(node.value) in (int, float) and (quantity := quantity_of(annotation)):
        usual = FORGOTTEN.get(quantity.kind, ()) if quantity.forgotten is None else quantity.forgotten
        if text := without_unit(node.value, quantity.kind, usual if ranges is None else ranges):
            yield Finding(key, text, "warning")


def _inside(
    value: object, node: Node, annotation: Annotation, key: str, part: str | int
) -> Iterator[Finding]:
    """Yield the warnings about an item of a list, or about the value under a key that the deck chooses."""
    if isinstance(value, BaseModel):
        yield from forgotten_units(value, node, f"{key}.{part}")
        return
    for leaf in annotation.leaves:
        inner = leaf.inside(part)
        if inner is not None:
            yield from _within(value, node, inner, f"{key}.{part}")
            return

"""One example of every block of a deck: from the decks that come with qsim, or from the template of the block."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from qsim.core.deck.describe import deck_lines, flow
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.fields import Annotation, blocks_below, field_named, is_block, tags
from qsim.core.deck.template import template
from qsim.core.deck.yaml_marks import parse_yaml

Model = type[BaseModel]

WIDTH = 100
"""Characters of an example that is written on one line."""
MANY = 3
"""Keys of an example that no deck has."""
GIVEN: dict[str, Any] = {"TableProfile": {"type": "table", "points": [[0, 0], [2, 1], [10, 0]]}}
"""Blocks that need one of several keys, so that their template shows none."""


def samples(model: Model, decks: Iterable[Mapping[str, Any]]) -> dict[Model, Any]:
    """Return plain data for every block of a deck model.

    Parameters
    ----------
    model
        The deck.
    decks
        Decks as they are written; one with more keys is preferred as long as it fits on a line.
    """
    found: dict[Model, Any] = {}
    for deck in decks:
        for block, data in _blocks_in(model, deck):
            if block not in found or _rank(data) > _rank(found[block]):
                found[block] = data
    for _, block in blocks_below(model):
        if block not in found or len(flow(found[block])) > 2 * WIDTH:
            made = _of_template(block)
            if block not in found or _is_valid(block, made):
                found[block] = made
    return found


def _of_template(block: Model) -> Any:
    """Return the keys that a block must have; one that needs next to none shows some of the others at their defaults."""
    if block.__name__ in GIVEN:
        return GIVEN[block.__name__]
    data = {key: _filled(block, key, value) for key, value in _plain(template(block)).items()}
    more = dict(data)
    for key, value in _plain(template(block, full=True)).items():
        if len(more) < MANY and isinstance(value, bool | int | float | str) and key not in more:
            more[key] = value
    return more if len(data) < 2 and _is_valid(block, more) else data


def _plain(text: str) -> dict[str, Any]:
    root, _ = parse_yaml(text, "")
    found = root.plain() if root is not None else None
    return found if isinstance(found, dict) else {}


def _filled(block: Model, key: str, value: Any) -> Any:
    """Return something better than three dots."""
    info = field_named(block, key)
    if value != "..." or info is None:
        return value
    annotation = Annotation.of_field(info)
    if formula := next((leaf.first(ExpressionText) for leaf in [annotation, *annotation.leaves]), None):
        return f"{formula.variables[0]}^2"
    return "mine.csv" if any(leaf.base is Path for leaf in annotation.leaves) else value


def _is_valid(block: Model, data: Any) -> bool:
    """Return whether a block takes these data."""
    try:
        block.model_validate_json(json.dumps(data))
    except ValidationError:
        return False
    return True


def written(place: str, data: Any) -> str:
    """Return an example as YAML under its key; ``place`` is ``system.terms[]`` or ``named.NAME``."""
    key = place.replace("[]", "").split(".")[-1]
    if key == "NAME":
        return f"{place.split('.')[-2]}:\n  any_name: {flow(data)}"
    if place.endswith("[]"):
        return f"{key}:\n  - {flow(data)}"
    line = f"{key}: {flow(data)}"
    return line if len(line) <= WIDTH or not isinstance(data, dict) else "\n".join(deck_lines({key: data}))


def _rank(data: Any) -> tuple[bool, int]:
    """Order examples: mappings before words, on one line before longer ones, then by their keys."""
    if not isinstance(data, dict):
        return False, -1
    fits = len(flow(data)) <= WIDTH
    return fits, len(data) if fits else -len(flow(data))


def _blocks_in(model: Model, data: Mapping[str, Any]) -> Iterator[tuple[Model, Any]]:
    for key, value in data.items():
        info = field_named(model, str(key))
        if info is not None:
            yield from _blocks_at(Annotation.of_field(info), value)


def _blocks_at(annotation: Annotation, value: Any) -> Iterator[tuple[Model, Any]]:
    """Yield the block that a value stands for, and those in it."""
    key = annotation.discriminator or "type"
    by_tag = tags(annotation, key)
    blocks = [leaf.base for leaf in annotation.leaves if is_block(leaf.base)]
    if isinstance(value, str) and value in by_tag:
        yield by_tag[value], value
    elif isinstance(value, dict) and blocks:
        block = by_tag.get(str(value.get(key))) or (blocks[0] if len(blocks) == 1 else None)
        if block is not None:
            yield block, value
            yield from _blocks_in(block, value)
    for member in annotation.leaves:
        if isinstance(value, list) and member.origin in (list, tuple) and member.args:
            for item in value:
                yield from _blocks_at(Annotation.of(member.args[0]), item)
        elif isinstance(value, dict) and member.origin is dict and len(member.args) == 2:
            for item in value.values():
                yield from _blocks_at(Annotation.of(member.args[1]), item)

"""Decks and JSON Schemas written from a deck model, so that neither can drift from it."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined

from qsim.core.deck.blocks import Deck
from qsim.core.deck.describe import bounds, example_of, flow, limits, quantity_of, words_of
from qsim.core.deck.fields import (
    LARGEST,
    Annotation,
    blocks_in,
    fields_of,
    is_block,
    literals,
    tags,
)
from qsim.core.deck.reference import deck_reference
from qsim.core.deck.units import UnitError, format_quantity, parse_quantity
from qsim.core.deck.yaml_marks import parse_yaml
from qsim.version import __version__

__all__ = ["deck_reference", "flow", "schema", "template"]

Model = type[BaseModel]

_FIRST = ("type", "kind")
_LAST = ("run", "output")  # keys that all decks share, written below the method's own
# in the place of a value: no such key
_WITHOUT: Any = object()
# Lines of a block that is printed wherever it is held.
SHORT = 3
# Rounds in which keys of other tasks are found.
MOST_ROUNDS = 12
_COLUMN = 32  # where the comments of a template start


@dataclass(frozen=True)
class _Style:
    """Amount of text in a template.

    Attributes
    ----------
    full
        Every key.
    told
        Families of blocks whose members have all been shown, with the key of the first.
    comment
        True within comments, where a block that has been shown is named alone.
    """

    full: bool
    told: dict[frozenset[Model], str] = field(default_factory=dict)
    comment: bool = False

    @property
    def inside(self) -> "_Style":
        """The same within comments."""
        return replace(self, comment=True)

    def shown(self, family: frozenset[Model], key: str) -> str:
        """Return the key at which a family was shown, "" if this is the first time, which is kept."""
        before = self.told.get(family, "")
        self.told.setdefault(family, key)
        return before


def template(model: Model, full: bool = False, task: str = "", type_: str = "") -> str:
    """Return a commented deck that loads.

    Parameters
    ----------
    model
        The deck class of a method.
    full
        False for the keys without a default and those with an example
        (``Field(json_schema_extra={"example": ...})``), which also serves as the value;
        True for every key, at its default; without a default, or at a default of null, at its example.
        Blocks that are off by default, and the other members of a union, then stand in comments.
    task
        A task of the method, to leave out the blocks that it does not read.
    type_
        A type of ``system`` that the deck class has.
    """
    title = (model.__doc__ or "A deck.").strip().split("\n")[0]
    first: Mapping[str, Any] = model.FIRST_DECKS.get(type_, {}) if issubclass(model, Deck) else {}
    if type_:
        first = {"system": {"type": type_}, **first}
    units = '# A bare number is in the unit that the comment names; text carries its own: "20 fs".'
    lines = [f"# {title}", units, ""]
    style = _Style(full)
    if type_:
        # The keys of the other types are those of other decks.
        style.told[frozenset(tags(Annotation.of_field(fields_of(model)["system"])).values())] = "system"
    return (
        "\n".join([*lines, *(_lines_of_task(model, full, task) if task else _block(model, first, style))])
        + "\n"
    )


def _lines_of_task(model: Model, full: bool, task: str) -> list[str]:
    """Return the lines of a deck of a task, without the keys that belong to others by the rules of the method."""
    given, left_out = _of_task(model, task)
    lines = _block(model, given, _Style(full), left_out)
    # what one finding hides, such as the next item of a list, the next round finds
    for _ in range(MOST_ROUNDS):
        foreign = _foreign(model, "\n".join(lines))
        if not foreign:
            break
        data = _data(lines)
        for key in reversed(foreign):
            name, *rest = key.split(".")
            items = given.get(name, data.get(name))
            if rest and rest[0].isdigit() and isinstance(items, list):
                given[name] = items[: int(rest[0])] + items[int(rest[0]) + 1 :]
            elif rest and isinstance(data.get(name), dict):
                # a key of a block, such as one of another kind of the same task
                given[name] = {**_mapping(given.get(name, data[name])), rest[0]: _WITHOUT}
            if not rest or not given.get(name, True):
                left_out = {*left_out, name}
        lines = _block(model, given, _Style(full), left_out)
    return lines


def _data(lines: Iterable[str]) -> dict[str, Any]:
    root, _ = parse_yaml("\n".join(lines), "template")
    return dict(root.plain()) if root is not None else {}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _foreign(model: Model, text: str) -> list[str]:
    """Return the keys of a deck that belong to other tasks, in their order; nothing of a deck that is mistaken otherwise."""
    try:
        deck = model.model_validate_json(json.dumps(_data([text])))
    except ValidationError:
        return []
    findings = deck.check() if isinstance(deck, Deck) else ()
    return [
        finding.key for finding in findings if finding.severity == "error" and "belongs to" in finding.message
    ]


def _marked(value: Any) -> Any:
    """Return a block of a first deck with a mark at the keys (None) that it is better without."""
    if not isinstance(value, Mapping):
        return value
    return {key: _WITHOUT if one is None else one for key, one in value.items()}


def _of_task(model: Model, task: str) -> tuple[dict[str, Any], Collection[str]]:
    """Return the key ``task`` of a deck, and the blocks that this task does not read."""
    if not task:
        return {}, ()
    kind = Annotation.of_field(fields_of(model)["task"])
    first = model.FIRST_DECKS.get(task, {}) if issubclass(model, Deck) else {}
    suited = {key: _marked(value) for key, value in first.items() if value is not None}
    better_without = [key for key, value in first.items() if value is None]
    if task in tags(kind):
        return {"task": {"type": task}, **suited}, better_without
    made = model.model_construct(task=task)
    given: dict[str, Any] = {"task": task}
    # the block of a task has its name
    if task in fields_of(model):
        given[task] = _mapping(example_of(fields_of(model)[task]))
    unread = made.unread() if isinstance(made, Deck) else ()
    return {**given, **suited}, [*unread, *better_without]


def schema(model: Model) -> dict[str, Any]:
    """Return the JSON Schema of a deck, for editors and other programs."""
    names = literals(Annotation.of_field(fields_of(model)["method"])) if "method" in fields_of(model) else ()
    about = {"$schema": GenerateJsonSchema.schema_dialect}
    if names:
        about |= {
            "$id": f"urn:qsim:schema:{__version__}:deck:{names[0]}",
            "title": f"deck of qsim {names[0]}",
        }
    variants = model.variants() if issubclass(model, Deck) else (model,)
    bodies: list[dict[str, Any]] = [
        _standard(one.model_json_schema(by_alias=True, schema_generator=_Schema)) for one in variants
    ]
    if len(bodies) == 1:
        return {**bodies[0], **about}
    # Variants share most of their blocks: one table of definitions serves all.
    definitions = {name: block for body in bodies for name, block in body.pop("$defs", {}).items()}
    return {**about, "anyOf": bodies, "$defs": definitions}


def _standard(item: object, names: bool = False) -> Any:
    """Spell bounds and examples as JSON Schema does; `names` is true for a table of keys, not of words.

    Pydantic leaves its own words for bounds beside validator functions.
    """
    if isinstance(item, list):
        return [_standard(each) for each in item]
    if not isinstance(item, dict):
        return item
    if names:
        return {key: _standard(value) for key, value in item.items()}
    words = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
    spelt = {
        words.get(key, key): value if key == "default" else _standard(value, key in ("properties", "$defs"))
        for key, value in item.items()
        if value not in (LARGEST, -LARGEST)
    }
    if "example" in spelt:
        spelt["examples"] = [spelt.pop("example")]
    return spelt


class _Schema(GenerateJsonSchema):
    """JSON Schema without the titles that pydantic makes of the keys: they say the key once more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Answer no."""
        return False


def _block(
    model: Model, given: Mapping[str, Any], style: _Style, left_out: Collection[str] = ()
) -> list[str]:
    """Return the lines of a block; `given` holds values in the place of defaults, `left_out` keys."""
    fields = fields_of(model)
    order = [key for key in fields if key not in _LAST] + [key for key in fields if key in _LAST]
    # what a block is comes before what it has
    order = [key for key in order if key in _FIRST] + [key for key in order if key not in _FIRST]
    order = [key for key in order if key not in left_out]
    lines: list[str] = []
    for key in order:
        info = fields[key]
        annotation = Annotation.of_field(info)
        example = example_of(info)
        if key in given and given[key] is _WITHOUT:
            continue
        if key in given:
            lines += _entry(key, given[key], annotation, info, style)
        elif info.is_required():
            value = example if example is not PydanticUndefined else _placeholder(annotation)
            lines += _entry(key, value, annotation, info, style)
        elif style.full:
            value = info.get_default(call_default_factory=True)
            # An example beside a default of null: the key can be missing only if another one is given.
            value = example if value is None and example is not PydanticUndefined else value
            lines += _entry(key, value, annotation, info, style)
        elif example is not PydanticUndefined:
            lines += _entry(key, example, annotation, info, style)
    return lines


def _entry(key: str, value: object, annotation: Annotation, info: FieldInfo, style: _Style) -> list[str]:
    """Return the lines of one key."""
    note = _note(annotation, info)
    blocks = [member.base for member in annotation.leaves if is_block(member.base)]
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    # A block that is off by default is shown as a comment, ready to be switched on.
    if blocks and value is None:
        optional = f"optional; {note}" if note else "optional"
        return _commented(_named(key, _tag_of(annotation, blocks[0]), annotation, optional, style.inside))
    if blocks and isinstance(value, Mapping):
        return _named(key, value, annotation, note, style)
    items = _block_items(annotation)
    if items is not None and isinstance(value, Sequence) and not isinstance(value, str):
        lines = _list_entry(key, value, items, note, style)
        return lines + _or(key, [b for b in blocks if b not in set(blocks_in(items))], annotation, style)
    lines = _head(f"{key}: {_scalar(value, annotation)}", note)
    if not style.full:
        return lines
    named = _named_items(annotation)
    if named is not None:
        # Blocks with names of the user's own.
        sample = _named("NAME", {}, named, "", style.inside)
        return lines + _commented(_indent(sample))
    if items is not None and not blocks:
        return lines + _commented(["or", *_list_entry(key, [], items, "", style.inside)[1:]])
    # What may stand in the place of a word.
    return lines + _or(key, blocks, annotation, style)


def _or(key: str, blocks: Sequence[Model], annotation: Annotation, style: _Style) -> list[str]:
    """Return the comment that a block may stand in the place of the value above."""
    if not style.full or not blocks:
        return []
    lines = _named(key, _tag_of(annotation, blocks[0]), annotation, "", style.inside)
    return _commented([f"or {lines[0]}"] if len(lines) == 1 else ["or", *lines])


def _named_items(annotation: Annotation) -> Annotation | None:
    """Return the type of the values of a mapping that may be blocks, None for any other type."""
    for member in annotation.leaves:
        if member.origin is dict and len(member.args) > 1:
            items = Annotation.of(member.args[1])
            return items if any(is_block(one.base) for one in items.leaves) else None
    return None


def _named(key: str, value: Mapping[str, Any], annotation: Annotation, note: str, style: _Style) -> list[str]:
    """Return the lines of a block with its key; within comments a block that was shown before is named alone."""
    family = frozenset(blocks_in(annotation))
    before = style.told.get(family, "") if style.comment and style.full else ""
    lines = [*_head(f"{key}:", note), *_indent(_member(value, annotation, style, key))]
    if before and (len(lines) > SHORT or len(family) > 1):
        return _head(f"{key}: {{...}}", "; ".join(filter(None, [note, f"keys as of {before} above"])))
    if style.full:
        style.told.setdefault(family, key)
    return lines


def _member(value: Mapping[str, Any], annotation: Annotation, style: _Style, key: str) -> list[str]:
    """Return the lines of a block that is the member of a union named by its tag; in full, the others too, once in a deck."""
    discriminator = annotation.discriminator or "type"
    by_tag = tags(annotation, discriminator)
    tag = str(value.get(discriminator, ""))
    model = by_tag.get(tag) or next(member.base for member in annotation.leaves if is_block(member.base))
    # A block without keys still needs a value in YAML.
    lines = _block(model, value, style) or ["{}"]
    if not style.full:
        return lines
    if len(by_tag) < 2:
        # Members without a tag are told apart by their keys.
        others = [m.base for m in annotation.leaves if is_block(m.base) and m.base is not model]
        for other_model in others:
            lines += _commented(["or", *_block(other_model, {}, style.inside)])
        return lines
    family = frozenset(by_tag.values())
    if style.shown(family, key):
        return [*lines, f"# or another {discriminator}, as above: {' | '.join(by_tag)}"]
    # a member may have several names
    before = {model: tag}
    for other, other_model in by_tag.items():
        if other_model not in before:
            same = _same(other_model, before, discriminator)
            told = {key for keys in same.values() for key in keys}
            rest = _block(other_model, {discriminator: other}, style.inside, told)
            also = [f"{', '.join(keys)}: as of {name}" for name, keys in same.items()]
            lines += _commented(["or", *rest, *also])
            before[other_model] = other
    return lines


def _same(model: Model, before: Mapping[Model, str], discriminator: str) -> dict[str, list[str]]:
    """Return the keys that mean the same in members of a union that were shown before, by the tags of these."""
    left = {key: _described(info) for key, info in fields_of(model).items() if key != discriminator}
    found: dict[str, list[str]] = {}
    while left:
        told = {
            tag: [key for key, text in left.items() if _described(fields_of(other).get(key)) == text]
            for other, tag in before.items()
        }
        tag = max(told, key=lambda name: len(told[name]))
        # a single key is shorter as it is
        if len(told[tag]) < 2:
            break
        found[tag] = told[tag]
        left = {key: text for key, text in left.items() if key not in told[tag]}
    return found


def _described(info: FieldInfo | None) -> tuple[str, ...]:
    """Return all that a template shows of a key, as texts."""
    if info is None:
        return ()
    shown = info.annotation, info.metadata, info.default, info.default_factory, info.description
    return tuple(map(repr, (*shown, info.json_schema_extra)))


def _list_entry(key: str, value: Sequence[Any], items: Annotation, note: str, style: _Style) -> list[str]:
    """Return the lines of a list of blocks."""

    def item(each: object) -> list[str]:
        data = each.model_dump(mode="json", by_alias=True) if isinstance(each, BaseModel) else each
        if not isinstance(data, Mapping):
            return [f"- {flow(data)}"]
        body = _member(data, items, style, key)
        return [f"- {body[0]}", *(f"  {line}" for line in body[1:])]

    if value:
        return [*_head(f"{key}:", note), *_indent([line for each in value for line in item(each)])]
    # An empty list in full shows a commented sample of its items.
    model = next(member.base for member in items.leaves if is_block(member.base))
    family = frozenset(blocks_in(items))
    sample: list[str] = []
    if style.full and style.comment and style.told.get(family):
        note = "; ".join(filter(None, [note, f"items with the keys of {style.told[family]} above"]))
    elif style.full:
        style = style.inside
        sample = item(_tag_of(items, model))
        style.told.setdefault(family, key)
    return [*_head(f"{key}: []", note), *_commented(_indent(sample))]


def _tag_of(annotation: Annotation, model: Model) -> dict[str, Any]:
    discriminator = annotation.discriminator or "type"
    named = tags(annotation, discriminator).items()
    return next(({discriminator: tag} for tag, one in named if one is model), {})


def _block_items(annotation: Annotation) -> Annotation | None:
    """Return the type of the items of a list of blocks, None for any other type."""
    for member in annotation.leaves:
        if member.origin is list and member.args:
            items = Annotation.of(member.args[0])
            return items if any(is_block(one.base) for one in items.leaves) else None
    return None


def _head(text: str, note: str) -> list[str]:
    return [f"{text:<{_COLUMN - 1}} # {note}" if note else text]


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _commented(lines: Iterable[str]) -> list[str]:
    return [line if line.startswith("#") else f"# {line}" for line in lines]


def _scalar(value: object, annotation: Annotation) -> str:
    """Return a value, with a unit where that is shorter and exact."""
    quantity = quantity_of(annotation)
    if quantity is None or isinstance(value, bool) or not isinstance(value, (int, float)) or not value:
        return flow(value)
    # The shortest text that gives the number back exactly; 17 digits always do.
    for digits in (6, 12, 17):
        text = format_quantity(value, quantity.kind, digits)
        try:
            exact = parse_quantity(text, quantity.kind) == value
        except UnitError:
            break
        if exact and len(text.split(" ")[0]) < len(repr(value)):
            return flow(text)
    return flow(value)


def _placeholder(annotation: Annotation) -> Any:
    """Return a value for a required key without an example; bounds are kept, meaning is not known."""
    member = annotation.leaves[0]
    if member.origin is Literal:
        return member.args[0]
    if is_block(member.base):
        return _tag_of(annotation, member.base)
    if member.base is bool:
        return False
    if member.base in (int, float):
        return member.base(_between(limits(member)))
    if member.origin is list:
        count = max((limit for name, limit in limits(member) if name == "min_length"), default=1)
        return [_placeholder(Annotation.of(member.args[0]))] * int(count)
    if member.origin is tuple:
        return [_placeholder(Annotation.of(arg)) for arg in member.args if arg is not Ellipsis]
    return {} if member.origin is dict else "..."


def _between(limits: list[tuple[str, Any]]) -> Any:
    """Return a number within bounds: 1, where they allow it."""
    low = max(((limit, name == "gt") for name, limit in limits if name in ("gt", "ge")), default=None)
    high = min(((limit, name == "lt") for name, limit in limits if name in ("lt", "le")), default=None)
    # 1 is the most readable value; else the bound itself, or the middle of an open interval.
    above = low is None or low[0] < 1 or (low[0] == 1 and not low[1])
    below = high is None or high[0] > 1 or (high[0] == 1 and not high[1])
    if above and below:
        return 1
    if low is None:
        return high[0] - 1 if high else 1
    if not low[1]:
        return low[0]
    return low[0] + 1 if high is None else (low[0] + high[0]) / 2


def _note(annotation: Annotation, info: FieldInfo) -> str:
    """Return the comment of a key: its description, unit, bounds and alternatives."""
    quantity, words = quantity_of(annotation), words_of(annotation)
    choice = " | ".join(words) if len(words) > 1 else ""
    details = [quantity.bare if quantity else "", bounds(annotation), choice]
    description = " ".join((info.description or "").split())
    extra = "; ".join(filter(None, details))
    return f"{description} [{extra}]" if description and extra else description or extra

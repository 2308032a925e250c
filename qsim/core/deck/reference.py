"""Reference pages of decks in Markdown, written from the models."""

from collections.abc import Iterator

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from qsim.core.deck.describe import bounds, example_of, flow, quantity_of, type_of, words_of
from qsim.core.deck.fields import Annotation, fields_of, is_block, tags

__all__ = ["deck_reference"]

Model = type[BaseModel]

_HEADER = "| key | type | unit | default | allowed | meaning |\n|---|---|---|---|---|---|"


def deck_reference(model: Model) -> str:
    """Return the Markdown reference of a deck: a section with a table for every block.

    Parameters
    ----------
    model
        The deck class of a method.

    Returns
    -------
    str
        Sections of level 2 (``## `grid` ``), sub-sections of level 3 for the types of a union; no page title.
    """
    writer = _Writer()
    writer.section("", model, "the deck")
    return "\n\n".join(writer.parts) + "\n"


class _Writer:
    """Collects the sections; a block that is used again is described once."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.seen: dict[Model, str] = {}

    def section(self, path: str, model: Model, title: str, level: int = 2) -> None:
        """Write the table of a block, then the sections of the blocks below it."""
        self.parts.append(f"{'#' * level} {title[:1].upper() + title[1:]}")
        if model in self.seen:
            self.parts.append(f"The keys are those of {self.seen[model]}.")
            return
        self.seen[model] = title
        if doc := " ".join((model.__doc__ or "").split("\n\n")[0].split()):
            self.parts.append(doc)
        fields = fields_of(model)
        self.parts.append("\n".join([_HEADER, *(_row(key, info) for key, info in fields.items())]))
        for key, info in fields.items():
            self.below(f"{path}.{key}" if path else key, Annotation.of_field(info))

    def below(self, path: str, annotation: Annotation) -> None:
        """Write the sections of the blocks that a key holds, be it itself, in a list or by name."""
        for suffix, inner in _blocks_of(annotation):
            place = path + suffix
            by_tag = tags(inner, inner.discriminator or "type")
            named = set(by_tag.values())
            if len(by_tag) > 1:
                self.parts.append(f"## `{place}`")
                key = inner.discriminator or "type"
                self.parts.append(
                    f"One of these types, by its key `{key}`: {', '.join(f'`{t}`' for t in by_tag)}."
                )
            for tag, block in by_tag.items():
                if len(by_tag) > 1:
                    self.section(place, block, f"`{place}`: `{tag}`", level=3)
                else:
                    self.section(place, block, f"`{place}`")
            for member in inner.leaves:
                if is_block(member.base) and member.base not in named:
                    self.section(place, member.base, f"`{place}`")


def _blocks_of(annotation: Annotation) -> Iterator[tuple[str, Annotation]]:
    """Yield the types in a key that hold blocks, with what they add to its path."""
    if any(is_block(member.base) for member in annotation.leaves):
        yield "", annotation
    for member in annotation.leaves:
        if member.origin in (list, tuple) and member.args:
            for suffix, inner in _blocks_of(Annotation.of(member.args[0])):
                yield f"[]{suffix}", inner
        elif member.origin is dict and len(member.args) == 2:
            for suffix, inner in _blocks_of(Annotation.of(member.args[1])):
                yield f".NAME{suffix}", inner


def _row(key: str, info: FieldInfo) -> str:
    """Return the row of one key: type, unit, default, what is allowed, meaning."""
    annotation = Annotation.of_field(info)
    quantity, words = quantity_of(annotation), words_of(annotation)
    kind = type_of(annotation)
    is_word_list = bool(words) and all(f"`{word}`" in kind for word in words)
    allowed = [bounds(annotation)]
    if len(words) > 1 and not is_word_list:
        allowed.append(", ".join(f"`{word}`" for word in words))
    cells = [
        f"`{key}`",
        kind,
        quantity.bare if quantity else "",
        _default(info),
        "; ".join(filter(None, allowed)),
        " ".join((info.description or "").split()),
    ]
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    """Return text that survives in a Markdown table: no column ends, no HTML outside of code."""
    parts = text.replace("|", r"\|").split("`")
    parts[::2] = [part.replace("<", "&lt;") for part in parts[::2]]
    return "`".join(parts)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        example = example_of(info)
        if example is PydanticUndefined or isinstance(example, (dict, list, BaseModel)):
            return "required"
        return f"required (e.g. `{flow(example)}`)"
    value = info.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        data = value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return f"`{flow(data)}`" if data else "its defaults"
    return f"`{flow(value)}`"

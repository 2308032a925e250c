"""Reference pages of decks in Markdown, written from the models."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from qsim.core.deck.describe import bounds, example_of, flow, quantity_of, type_of, words_of
from qsim.core.deck.fields import Annotation, fields_of, is_block, tags

__all__ = ["deck_reference"]

Model = type[BaseModel]

_HEADER = "| key | type | unit | default | allowed | meaning |\n|---|---|---|---|---|---|"


def deck_reference(
    model: Model,
    examples: Mapping[Model, Callable[[str], str]] | None = None,
    elsewhere: tuple[str, Model] | None = None,
) -> str:
    """Return the Markdown reference of a deck: a section with a table for every block.

    A block, or a choice of blocks, that several keys hold is described where it comes up first; other keys lead there.

    Parameters
    ----------
    model
        The deck class of a method.
    examples
        For a block, what writes its example in YAML at a given place of the deck.
    elsewhere
        Page of another deck, and its class: blocks that both have at the same key are described there, and linked.

    Returns
    -------
    str
        Sections of level 2 (``## `grid` ``), sub-sections of level 3 for the types of a union; no page title.
    """
    writer = _Writer(examples or {})
    if elsewhere is not None:
        page, other = elsewhere
        described = _Writer({})
        described.section("", other, "the deck")
        writer.elsewhere = {family: (page, place) for family, place in described.places.items()}
    writer.section("", model, "the deck")
    return "\n\n".join(writer.parts) + "\n"


class _Writer:
    """Collects the sections; what is held by a second key is described once."""

    def __init__(self, examples: Mapping[Model, Callable[[str], str]]) -> None:
        self.parts: list[str] = []
        self.seen: dict[Model, str] = {}
        self.places: dict[tuple[Model, ...], str] = {}
        self.elsewhere: dict[tuple[Model, ...], tuple[str, str]] = {}
        self.examples = examples

    def section(
        self,
        path: str,
        model: Model,
        title: str,
        level: int = 2,
        alike: Mapping[Model, Sequence[str]] | None = None,
    ) -> None:
        """Write the table of a block, and of those that have the same keys, then the sections of the blocks below it."""
        self.parts.append(f"{'#' * level} {title[:1].upper() + title[1:]}")
        if model in self.seen:
            self.parts.append(f"The keys are the same as in {self.seen[model]}.")
            return
        alike = alike or {model: []}
        self.seen |= dict.fromkeys(alike, title)
        for one, tagged in alike.items():
            doc = " ".join((one.__doc__ or "").split("\n\n")[0].split())
            names = ", ".join(f"`{tag}`" for tag in tagged) if len(alike) > 1 else ""
            if doc:
                self.parts.append(f"- {names}: {doc}" if names else doc)
        rows: list[str] = []
        below: list[tuple[str, Annotation]] = []
        for key, info in fields_of(model).items():
            place = f"{path}.{key}" if path else key
            known: list[tuple[str, str]] = []
            # A block that was described at an earlier key is linked there; otherwise its
            # section follows this table.
            for suffix, inner in _blocks_of(Annotation.of_field(info)):
                family = tuple(leaf.base for leaf in inner.leaves if is_block(leaf.base))
                page, there = self.elsewhere.get(family, ("", ""))
                # one block or a list of them
                if there and there.replace("[]", "") == (place + suffix).replace("[]", ""):
                    known.append((page, there))
                elif family in self.places:
                    known.append(("", self.places[family]))
                else:
                    here = place + suffix
                    if here in self.places.values():
                        # other blocks under the same key of another type
                        here += f" ({title.rpartition('`: ')[2].replace('`', '')})"
                    self.places[family] = here
                    below.append((here, inner))
            # the tags of all of them
            types = dict.fromkeys(type_of(Annotation.of_field(fields_of(one)[key])) for one in alike)
            rows.append(_row(key, info, known).replace(next(iter(types)), ", ".join(types), 1))
        self.parts.append("\n".join([_HEADER, *rows]))
        if path and model in self.examples:
            self.parts.append(f"```yaml\n{self.examples[model](path.partition(' (')[0])}\n```")
        for place, inner in below:
            self.below(place, inner)

    def below(self, place: str, inner: Annotation) -> None:
        """Write the sections of the blocks that a key holds, be it itself, in a list or by name."""
        key = inner.discriminator or "type"
        by_tag = tags(inner, key)
        # Several tags may name one block, as `exp` and `exponential`: it gets one section with
        # all its tags.
        words: dict[Model, list[str]] = {}
        for tag, block in by_tag.items():
            words.setdefault(block, []).append(tag)
        if len(by_tag) > 1:
            self.parts.append(f"## `{place}`")
            self.parts.append(
                f"One of these types, by its key `{key}`: {', '.join(f'`{t}`' for t in by_tag)}."
            )
        # blocks with the same keys have one table
        tables: dict[str, list[Model]] = {}
        for block in words:
            rows = [_row(name, info) for name, info in fields_of(block).items() if name != key]
            tables.setdefault("\n".join(rows) or str(block), []).append(block)
        for group in tables.values():
            if len(by_tag) > 1:
                names = ", ".join(f"`{tag}`" for one in group for tag in words[one])
                alike = {one: words[one] for one in group}
                self.section(place, group[0], f"`{place}`: {names}", level=3, alike=alike)
            else:
                self.section(place, group[0], f"`{place}`")
        untagged = [leaf.base for leaf in inner.leaves if is_block(leaf.base) and leaf.base not in words]
        for number, block in enumerate(untagged):
            # blocks that no tag tells apart are told apart by their first key
            title = f"`{place}` with `{next(iter(fields_of(block)))}`" if number else f"`{place}`"
            self.section(place, block, title)


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


def _row(key: str, info: FieldInfo, known: Sequence[tuple[str, str]] = ()) -> str:
    """Return the row of one key: type, unit, default, what is allowed, meaning; where its blocks are described already."""
    leads = "".join(f"; keys: [`{place}`]({page}#{_anchor(place)})" for page, place in known)
    annotation = Annotation.of_field(info)
    quantity, words = quantity_of(annotation), words_of(annotation)
    kind = type_of(annotation)
    # A choice of words is in the column of types already.
    is_word_list = bool(words) and all(f"`{word}`" in kind for word in words)
    allowed = [bounds(annotation)]
    if len(words) > 1 and not is_word_list and not known:
        allowed.append(", ".join(f"`{word}`" for word in words))
    cells = [
        f"`{key}`",
        kind,
        quantity.bare if quantity else "",
        _default(info),
        "; ".join(filter(None, allowed)),
        (" ".join((info.description or "").split()) + leads).removeprefix("; "),
    ]
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _anchor(place: str) -> str:
    """Return the anchor that code hosts and Sphinx give to the heading of a place."""
    return re.sub(r"[^\w-]", "", place.lower().replace(" ", "-"))


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

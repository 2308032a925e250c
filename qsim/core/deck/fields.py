"""Introspection of deck models: their keys, the types of these, and the place to which the path of an error leads.

Pydantic reports an error at a path that also holds the labels of union members (``pulses.0.gauss.fwhm``).
`walk` follows such a path through the *types*, so that labels and keys are distinguished without guessing.
"""

import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = [
    "LARGEST",
    "Annotation",
    "Step",
    "block_of",
    "blocks_below",
    "blocks_in",
    "dotted_keys",
    "field_named",
    "fields_of",
    "is_block",
    "literals",
    "tags",
    "tasks_of",
    "types_of",
    "walk",
]

T = TypeVar("T")

#: Largest whole number of a deck: what an array index, a JSON reader and an HDF5 attribute can hold.
LARGEST = 2**63 - 1
Model = type[BaseModel]


@dataclass(frozen=True)
class Annotation:
    """A type with the layers around it taken off.

    Attributes
    ----------
    base
        The bare type: a class, a generic such as ``list[float]``, a literal, or a union of two or more.
    metadata
        Bounds, quantities and validators that were attached to it, outermost last.
    discriminator
        The key that tells the members of a union apart, if one does.
    optional
        True if null is allowed as well.
    """

    base: Any
    metadata: tuple[Any, ...] = ()
    discriminator: str | None = None
    optional: bool = False

    @classmethod
    def of(cls, annotation: object) -> "Annotation":
        """Take the layers off a type: ``Annotated``, the field infos in it, and ``X | None``."""
        metadata: list[Any] = []
        discriminator = None
        optional = False
        # Layers may be nested in any order: Annotated within Optional within Annotated. Each
        # turn takes one off.
        while True:
            if typing.get_origin(annotation) is Annotated:
                annotation, *layer = typing.get_args(annotation)
                for item in reversed(layer):
                    if isinstance(item, FieldInfo):
                        metadata[:0] = item.metadata
                        discriminator = discriminator or item.discriminator
                    else:
                        metadata.insert(0, item)
                continue
            # A union with null only is an optional type.
            others = _union_args(annotation)
            if len(others) == 1 and annotation is not others[0]:
                annotation, optional = others[0], True
                continue
            optional = optional or (_is_union(annotation) and type(None) in typing.get_args(annotation))
            key = discriminator if isinstance(discriminator, str) else None
            return cls(annotation, tuple(metadata), key, optional)

    @classmethod
    def of_field(cls, info: FieldInfo) -> "Annotation":
        """Return the type of a model's field."""
        inner = cls.of(info.annotation)
        outer = info.discriminator if isinstance(info.discriminator, str) else None
        metadata = (*inner.metadata, *info.metadata)
        return cls(inner.base, metadata, outer or inner.discriminator, inner.optional)

    @property
    def members(self) -> list["Annotation"]:
        """The members of a union without null, or the type itself."""
        if not _is_union(self.base):
            return [self]
        return [Annotation.of(arg) for arg in _union_args(self.base)]

    @property
    def leaves(self) -> list["Annotation"]:
        """The members, with unions inside the union written out."""
        if not _is_union(self.base):
            return [self]
        return [leaf for member in self.members for leaf in member.leaves]

    @property
    def origin(self) -> Any:
        """The class of a generic: ``list`` of ``list[float]``."""
        return typing.get_origin(self.base) or self.base

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of a generic: ``(float,)`` of ``list[float]``."""
        return typing.get_args(self.base)

    def first(self, kind: type[T]) -> T | None:
        """Return the first metadata of a class, for instance the `Quantity` of a field."""
        return next((item for item in self.metadata if isinstance(item, kind)), None)

    def inside(self, part: str | int) -> "Annotation | None":
        """Return the type under a key or an index of this (non-union) type, or None if it has no such."""
        if is_block(self.base):
            info = field_named(self.base, str(part))
            return None if info is None else Annotation.of_field(info)
        if self.origin is dict and len(self.args) == 2:
            return Annotation.of(self.args[1])
        if self.origin is list and self.args and isinstance(part, int):
            return Annotation.of(self.args[0])
        if self.origin is tuple and self.args and isinstance(part, int):
            index = 0 if self.args[-1] is Ellipsis else part
            return Annotation.of(self.args[index]) if index < len(self.args) else None
        return None


@dataclass(frozen=True)
class Step:
    """End of the path of an error.

    Attributes
    ----------
    path
        The keys alone, without union labels.
    annotation
        The type there, None if it is not known.
    branches
        For every union passed that no discriminator tells apart: length of the path there, and label.
    """

    path: tuple[str | int, ...] = ()
    annotation: Annotation | None = None
    branches: tuple[tuple[int, str], ...] = ()


def _is_union(annotation: object) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _union_args(annotation: object) -> list[Any]:
    """Return the members of a union but for null, or the type itself."""
    if not _is_union(annotation):
        return [annotation]
    return [arg for arg in typing.get_args(annotation) if arg is not type(None)]


def is_block(base: object) -> bool:
    """Return True if a type is a deck block."""
    return isinstance(base, type) and issubclass(base, BaseModel)


def fields_of(model: Model) -> dict[str, FieldInfo]:
    """Return the fields of a block under the names that a deck uses for them."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def field_named(model: Model, key: str) -> FieldInfo | None:
    """Return the field of a block that a deck calls `key`; other accepted spellings count too."""
    known = fields_of(model)
    if key in known:
        return known[key]
    for name, info in model.model_fields.items():
        alias = info.validation_alias
        choices = getattr(alias, "choices", [alias])
        if key == name or key in choices:
            return info
    return None


def literals(annotation: Annotation) -> list[Any]:
    """Return the values that a type allows by name, over all members of a union."""
    return [value for one in annotation.leaves if one.origin is Literal for value in one.args]


def tags(annotation: Annotation, discriminator: str = "type") -> dict[str, Model]:
    """Return the blocks of a union by the value of their key `discriminator`."""
    by_tag: dict[str, Model] = {}
    for member in annotation.leaves:
        info = field_named(member.base, discriminator) if is_block(member.base) else None
        if info is not None:
            by_tag.update((str(value), member.base) for value in literals(Annotation.of_field(info)))
    return by_tag


def block_of(annotation: Annotation | None) -> Model | None:
    """Return the block that a type is, None if it is no block or one of several."""
    blocks = [one.base for one in annotation.leaves if is_block(one.base)] if annotation else []
    return blocks[0] if len(blocks) == 1 else None


def walk(model: Model, loc: tuple[str | int, ...]) -> Step:
    """Follow the path of a pydantic error through the types of a model."""
    path: list[str | int] = []
    branches: list[tuple[int, str]] = []
    here: Annotation | None = Annotation(model)
    for part in loc:
        # Pydantic puts the label of the member into the path: a tag where a discriminator
        # exists, else a name of its own, which is kept for merging the errors of the members.
        if here is not None and len(here.members) > 1:
            by_tag = tags(here, here.discriminator or "type")
            if here.discriminator and part in by_tag:
                here = Annotation(by_tag[str(part)])
            else:
                branches.append((len(path), str(part)))
                here = _member_labelled(here, str(part))
            continue
        if part == "[key]":  # pydantic's word for a mistaken key of a dict
            continue
        path.append(part)
        here = here.inside(part) if here else None
    return Step(tuple(path), here, tuple(branches))


def _member_labelled(union: Annotation, label: str) -> Annotation | None:
    """Return the member of a union that pydantic labels so: a class name, ``list[...]``, ``literal[...]``."""
    for member in union.members:
        if len(member.members) > 1 and "union[" in label:
            return member
        name = "literal" if member.origin is Literal else getattr(member.origin, "__name__", "")
        if name and re.search(rf"(?<![A-Za-z_]){re.escape(name)}(?![A-Za-z_])", label):
            return member
    return None


def blocks_below(model: Model, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Model]]:
    """Yield every block of a model with its path (lists and dicts without index), the model itself first."""
    if len(path) > 12:  # a block that holds itself
        return
    yield path, model
    for key, info in fields_of(model).items():
        for block in blocks_in(Annotation.of_field(info)):
            yield from blocks_below(block, (*path, key))


def dotted_keys(variants: Iterable[Model]) -> list[str]:
    """Return the keys of all variants of a deck, ``"time.T"``, each once, in their order; of lists, those of their items."""
    found: dict[str, None] = {}
    for variant in variants:
        for path, block in blocks_below(variant):
            found |= dict.fromkeys(".".join((*path, key)) for key in fields_of(block))
    return list(found)


def tasks_of(variants: Iterable[Model]) -> list[str]:
    """Return the tasks that the variants of a deck may name."""
    kinds = [Annotation.of_field(fields_of(one)["task"]) for one in variants if "task" in fields_of(one)]
    return list(dict.fromkeys(str(name) for kind in kinds for name in (literals(kind) or tags(kind))))


def types_of(variants: Iterable[Model]) -> dict[str, Model]:
    """Return the types of ``system`` that the variants of a deck know, each with the last variant that does: it asks for most."""
    found: dict[str, Model] = {}
    for one in variants:
        if "system" in fields_of(one):
            annotation = Annotation.of_field(fields_of(one)["system"])
            names = list(tags(annotation)) or [
                str(name)
                for block in blocks_in(annotation)
                if "type" in fields_of(block)
                for name in literals(Annotation.of_field(fields_of(block)["type"]))
            ]
            for name in names:
                found[name] = one
    return found


def blocks_in(annotation: Annotation) -> Iterator[Model]:
    """Yield the blocks that a value may be, or hold in a list."""
    for member in annotation.leaves:
        if is_block(member.base):
            yield member.base
        elif member.origin in (list, dict, tuple):
            for arg in member.args:
                if arg is not Ellipsis:
                    yield from blocks_in(Annotation.of(arg))

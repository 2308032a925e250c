"""Translate pydantic's validation errors into the words of a deck's author, placed at its lines.

Every message states the expected value and the one found.  The several errors that a union reports for one
value (``auto`` or a number or a list) become one message; an unknown key is compared with the keys that
belong there and elsewhere.
"""

import difflib
import operator
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from qsim.core.deck.describe import limits, number, quantity_of
from qsim.core.deck.fields import (
    Annotation,
    Step,
    block_of,
    blocks_below,
    blocks_in,
    field_named,
    fields_of,
    literals,
    tags,
    walk,
)
from qsim.core.deck.units import UnitError, parse_quantity
from qsim.core.deck.yaml_marks import Node
from qsim.core.errors import MOST, Diagnostic
from qsim.core.text import NUMBERS, plain_number, shorten

__all__ = ["describe", "diagnostics_of", "did_you_mean", "dotted"]

Model = type[BaseModel]
Path = tuple[str | int, ...]

# Values whose mistakes are explained.
EXPLAINED = 2 * MOST
# Errors whose places among the types are found.
WALKED = 20 * MOST

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of reasonable size",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "none_required": "null",
    "path_type": "a path",
}
NUMERIC = ("int_type", "int_parsing", "int_from_float", "float_type", "float_parsing", "finite_number")
_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("of at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("of at most", "le"),
}
_LENGTHS = {
    "too_short": ("at least {} item{s}", "min_length"),
    "too_long": ("at most {} item{s}", "max_length"),
    "string_too_short": ("text of at least {} character{s}", "min_length"),
    "string_too_long": ("text of at most {} character{s}", "max_length"),
}


# Beginning of the example of a list.
_SUCH = ", such as ["
# Names of the same thing in other programs and in other methods; the first that is allowed at a place is meant.
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "tau": ("dt",),
    "timestep": ("dt",),
    "tmax": ("t_final", "T"),
    "t_max": ("t_final", "T"),
    "tend": ("t_final", "T"),
    "t_end": ("t_final", "T"),
    "lmax": ("l_max",),
    "population": ("walkers",),
    "n_walkers": ("walkers",),
    "nwalkers": ("walkers",),
    "temperature": ("temperatures",),
    "wavelength": ("wavelengths", "omega"),
    "frequency": ("omega",),
    "basis_set": ("basis",),
    "path": ("file",),
    "filename": ("file",),
    "reduced_mass": ("mass",),
}


@dataclass(frozen=True)
class _Mistake:
    """One pydantic error on its way to a `Diagnostic`."""

    kind: str
    step: Step
    key: Path
    phrase: str = ""  # what is expected, for a sentence "expected ..., found ..."
    message: str = ""  # a whole message, where there is more to say
    guess: str | None = None  # what was probably meant
    likely: str | None = None  # the value with the unit that was probably meant
    remedy: str = ""  # what to do, as a clause

    def text(self, found: str) -> str:
        hint = f"; did you mean {self.guess!r}?" if self.guess else ""
        if self.likely:
            hint = f"; write {self.likely!r}?"
        if self.remedy:
            hint = f"; {self.remedy}"
        return self.message or f"expected {self.phrase}, found {found}{hint}"


def diagnostics_of(error: ValidationError, model: Model, root: Node) -> tuple[list[Diagnostic], int]:
    """Return the mistakes that pydantic found in the deck `root`, merged, explained and placed.

    Returns
    -------
    diagnostics
        The first ones in the deck, a few more than are shown.
    untold
        Number of values with further mistakes.
    """
    items, untold = _first(error, model, root)
    mistakes = [_explain(item, step, model, root) for item, step in items]
    diagnostics: dict[Diagnostic, None] = {}
    # Order matters: misspelt keys hide the missing ones first, then the members of unions are
    # merged.
    for mistake in _settle(_without_echoes(mistakes)):
        node, done = root.find(mistake.key)
        # a short form, `outputs: 100`, has no keys below it
        there = done == len(mistake.key) or not isinstance(node.value, dict)
        found = describe(node) if there else "nothing"
        diagnostics.setdefault(node.mark.diagnostic(dotted(root.written(mistake.key)), mistake.text(found)))
    return list(diagnostics), untold


def _first(error: ValidationError, model: Model, root: Node) -> tuple[list[tuple[Any, Step]], int]:
    """Return the errors of the first values of the deck, with their places, and the number of other values.

    To explain a mistake takes a search for similar names in the whole model: thousands are not explained, but counted.
    """
    errors, left = _nearest(error.errors(include_url=False, include_input=False), root)
    items = [(item, walk(model, item["loc"])) for item in errors]
    places: dict[Path, tuple[int, int]] = {}
    for _, step in items:
        if step.path not in places:
            mark = root.find(step.path)[0].mark
            places[step.path] = (mark.line, mark.column)
    if len(places) <= EXPLAINED:
        return items, left
    kept = set(sorted(places, key=lambda path: places[path])[:EXPLAINED])
    return [(item, step) for item, step in items if step.path in kept], len(places) - len(kept) + left


def _nearest(errors: list[Any], root: Node) -> tuple[list[Any], int]:
    """Return the errors at the first places of the deck, if there are thousands, and the number of other places."""
    if len(errors) <= WALKED:
        return errors, 0
    # By place in the deck: an author reads from the top, and the first mistakes often cause the
    # others.
    places = [(mark.line, mark.column) for mark in (root.find(item["loc"])[0].mark for item in errors)]
    last = sorted(places)[WALKED - 1]
    others = {place for place in places if place > last}
    return [item for item, place in zip(errors, places, strict=True) if place <= last], len(others)


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as a deck key, ``"control.bounds.0"``."""
    return ".".join(map(str, path))


def describe(node: Node) -> str:
    """Return the value of a node in a few words, as it was written where that is short."""
    value = node.value
    if isinstance(value, dict):
        return f"a block with the key{_s(value)} {_listing(value, 6)}" if value else "an empty block"
    if isinstance(value, list):
        return f"a list of {len(value)} item{_s(value)}" if value else "an empty list"
    if value is None:
        return "null" if node.text else "nothing"
    text = node.text if node.text is not None and not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:56]} ..."


def did_you_mean(word: str, names: Iterable[str]) -> str | None:
    """Return the name that `word` most probably is a misspelling of."""
    # Compared in lower case; at most 80 characters, since a value may be a whole text.
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word[:80].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def _explain(item: Any, step: Step, model: Model, root: Node) -> _Mistake:
    """Translate one of pydantic's errors, whose place is `step`; with the remedy, if a word of the field was tried."""
    mistake = _explained(item, step, model, root)
    node, done = root.find(mistake.key)
    plain = done == len(mistake.key) and isinstance(node.value, str | int | float)
    advice = _advice(model, mistake.key, node.value) if plain and mistake.kind != "extra_forbidden" else ""
    if not advice:
        return mistake
    return replace(mistake, message=f"{mistake.text(describe(node))}; {advice}")


def _explained(item: Any, step: Step, model: Model, root: Node) -> _Mistake:
    """Translate one of pydantic's errors by its kind."""
    kind, loc, context = item["type"], item["loc"], item.get("ctx", {})
    node, done = root.find(step.path)
    exact = node if done == len(step.path) else None
    # From the most specific kind of error to the most general one: keys, missing and unknown
    # keys, tags, quantities, words, types and ranges, validators.
    if loc[-1:] == ("[key]",):
        phrase = context.get("expected") or _phrase(kind, context, None, None, model) or "something else"
        message = f"expected the key to be {phrase}, found {shorten(repr(str(loc[-2])))}"
        return _Mistake(kind, step, step.path, message=message)
    if kind == "missing":
        return _Mistake(kind, step, step.path, message=_missing(step.path, model, loc))
    if kind == "extra_forbidden":
        text, guess = _unknown_key(step.path, model, loc)
        return _Mistake(kind, step, step.path, message=text, guess=guess)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        text, key = _wrong_tag(kind, context, step, exact)
        return _Mistake(kind, step, key, message=text)
    if kind == "quantity" and context["specific"]:
        found = f"; found {describe(exact)}" if exact else ""
        return _Mistake(kind, step, step.path, message=context["text"] + found)
    if kind in ("literal_error", "enum"):
        names = [str(name) for name in literals(step.annotation)] if step.annotation else []
        word = exact.value if exact is not None and isinstance(exact.value, str) else ""
        return _Mistake(kind, step, step.path, phrase=context["expected"], guess=did_you_mean(word, names))
    if phrase := _phrase(kind, context, step.annotation, exact, model):
        likely, remedy = _with_unit(step.annotation, exact), _remedy(kind, exact, step.annotation)
        return _Mistake(kind, step, step.path, phrase=phrase, likely=likely, remedy=remedy)
    return _Mistake(kind, step, step.path, message=_validator_text(item, exact))


def _remedy(kind: str, exact: Node | None, annotation: Annotation | None) -> str:
    """Return what to do about a value of the wrong type, where its text tells."""
    if kind == "list_type" and exact is not None and isinstance(exact.value, str):
        words = "," in exact.value or (annotation is not None and any(True for _ in blocks_in(annotation)))
        return f"write [{shorten(exact.value)}]" if words else ""
    if kind == "list_type" and exact is not None and isinstance(exact.value, dict) and exact.value:
        return "begin each item of the list with '- '"
    if exact is None or not isinstance(exact.value, str) or kind not in NUMERIC:
        return ""
    text = exact.value.strip()
    plain = plain_number(text) or text
    try:
        float(plain)
    except ValueError:
        return ""
    return f"{NUMBERS}: write {plain}" if plain != text else f"write {plain} without quotes"


def _phrase(
    kind: str, context: dict[str, Any], annotation: Annotation | None, exact: Node | None, model: Model
) -> str:
    """Return the expected type or range, as the object of a sentence, for a value of the wrong type or size."""
    if kind == "quantity":
        return str(context["expected"])
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return _bound(words, context[name], annotation)
    if kind in _LENGTHS:
        words, name = _LENGTHS[kind]
        return words.format(context[name], s="" if context[name] == 1 else "s")
    if kind == "string_type" and exact is not None and type(exact.value) in (int, float):
        return "text (in quotes)"
    if kind == "list_type":
        return _list_phrase(annotation, exact)
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return _block_phrase(annotation, exact)
    if kind == "multiple_of":
        return f"a multiple of {number(context['multiple_of'])}"
    if kind == "string_pattern_mismatch":
        forms: Mapping[str, str] = getattr(model, "forms", {})
        return forms.get(context["pattern"], f"text of the form {context['pattern']}")
    return _EXPECTED.get(kind, "")


def _list_phrase(annotation: Annotation | None, exact: Node | None) -> str:
    """Return what a list of values is, with the one value that was given in its place."""
    plain = exact is not None and isinstance(exact.value, str | int | float)
    if annotation is None or exact is None or not plain or any(True for _ in blocks_in(annotation)):
        return _EXPECTED["list_type"]
    # A word is no example where numbers are listed, or lists.
    if not any(_takes(item, exact.value) for leaf in annotation.leaves for item in leaf.args):
        return _EXPECTED["list_type"]
    least = max((limit for name, limit in limits(annotation) if name == "min_length"), default=1)
    # Whole numbers of a list differ: sizes, levels, momenta.
    counts = all(Annotation.of(item).base is int for leaf in annotation.leaves for item in leaf.args)
    whole = counts and type(exact.value) is int
    items = [str(exact.value + k) for k in range(int(least))] if whole else [describe(exact)] * int(least)
    return f"a list{_SUCH}{', '.join(items)}]"


def _takes(kind: object, value: object) -> bool:
    """Return True if an item of a list may be such a value."""
    inner = Annotation.of(kind)
    if (quantity := quantity_of(inner)) is not None:
        try:
            parse_quantity(value, quantity.kind)
        except UnitError:
            return False
        return True
    numbers = all(leaf.base in (int, float) for leaf in inner.leaves)
    lists = all(leaf.origin in (list, tuple) for leaf in inner.leaves)
    return not lists and not (numbers and isinstance(value, str))


def _missing(path: Path, model: Model, loc: Path) -> str:
    if isinstance(path[-1], int):
        return f"the list is too short: item {path[-1]} (counted from 0) is missing"
    info = None
    if (block := block_of(walk(model, loc[:-1]).annotation)) is not None:
        info = field_named(block, str(path[-1]))
    if info is None:
        return "required key is missing"
    words = [repr(word) for word in literals(Annotation.of_field(info))]
    meaning = (info.description or "").split("\n")[0].rstrip(".") or " or ".join(words)
    return "required key is missing" + (f" ({meaning})" if meaning else "")


def _unknown_key(path: Path, model: Model, loc: Path) -> tuple[str, str | None]:
    """Return the message of a key that does not exist, and the key that is probably meant."""
    key = str(path[-1])
    block = block_of(walk(model, loc[:-1]).annotation)
    allowed = list(fields_of(block)) if block else []
    listing = f"allowed: {', '.join(allowed)}" if allowed else "no keys are allowed here"
    # `points:5` is one word in YAML.
    if key.isdigit() and allowed:
        return (
            f"unknown key; is the ',' before it a decimal comma? numbers have a point, as 0.05; {listing}",
            None,
        )
    if ":" in key:
        return f"unknown key; a space is missing after ':'; {listing}", key.split(":")[0]
    if advice := _advice(model, path):
        return f"unknown key; {advice}; {listing}", None
    guess = next((word for word in _SYNONYMS.get(key.lower(), ()) if word in allowed), None)
    if guess := guess or did_you_mean(key, allowed):
        return f"unknown key; did you mean {guess!r}? {listing}", guess
    homes, types = _homes(key, model, tuple(str(part) for part in path[:-1] if not isinstance(part, int)))
    if types:
        return f"unknown key here; it belongs to type: {_listing(types, 8)}; {listing}", None
    if homes:
        return f"unknown key here; it belongs to {_listing(homes, 3)}; {listing}", None
    return f"unknown key; {listing}", None


def _advice(model: Model, path: Path, value: object = None) -> str:
    """Return the remedy for a word of the field at a place of a deck, empty if none is known.

    Parameters
    ----------
    value
        The value that is found; by default the key itself is the mistake.
    """
    known: Mapping[str, str] = getattr(model, "meant", {})
    place = ".".join(part for part in path if isinstance(part, str))
    text = place if value is None else f"{place}={value}"
    return next((advice for pattern, advice in known.items() if fnmatchcase(text, pattern)), "")


def _homes(key: str, model: Model, here: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the other blocks that have a key, and the types of blocks at this very place that have it."""
    homes: set[str] = set()
    types: list[str] = []
    for home, block in _blocks(model):
        fields = fields_of(block)
        if key not in fields:
            continue
        # The key exists at this very place, in a block of another type.
        if home == here and "type" in fields:
            types += [str(word) for word in literals(Annotation.of_field(fields["type"]))]
        elif home != here:
            homes.add(dotted(home) or "the top level")
    return sorted(homes), list(dict.fromkeys(types))


@lru_cache(maxsize=8)
def _blocks(model: Model) -> tuple[tuple[tuple[str, ...], Model], ...]:
    return tuple(blocks_below(model))


def _wrong_tag(kind: str, context: dict[str, Any], step: Step, exact: Node | None) -> tuple[str, Path]:
    discriminator = context.get("discriminator", "'type'").strip("'")
    allowed = list(tags(step.annotation, discriminator)) if step.annotation else []
    listing = f"allowed: {', '.join(allowed)}"
    is_mapping = exact is not None and isinstance(exact.value, dict)
    if kind == "union_tag_not_found":
        return f"the key {discriminator!r} is missing; {listing}", step.path
    # A short form is the tag itself; a block has it under the discriminator.
    given = exact.child(discriminator) if is_mapping and exact else exact
    word = str(given.value) if given and isinstance(given.value, str) else ""
    guess = did_you_mean(word, allowed)
    hint = f"did you mean {guess!r}? " if guess else ""
    text = f"unknown {discriminator} {describe(given) if given else shorten(str(context['tag']))}; {hint}{listing}"
    return text, (*step.path, discriminator) if is_mapping else step.path


def _bound(words: str, limit: Any, annotation: Annotation | None) -> str:
    if not isinstance(limit, (int, float)):
        return f"a value {words} {limit}"
    quantity = quantity_of(annotation) if annotation else None
    unit = f" {quantity.bare}" if quantity and limit else ""
    noun = "a whole number" if annotation and annotation.base is int else "a number"
    return f"{noun} {words} {number(limit)}{unit}"


def _with_unit(annotation: Annotation | None, exact: Node | None) -> str | None:
    """Return a bare number beyond its bounds with the unit of the example, ``1e14 W/cm2``, if that is within them."""
    if annotation is None or exact is None or type(exact.value) not in (int, float):
        return None
    quantity = quantity_of(annotation)
    if quantity is None:
        return None
    text = f"{exact.text or exact.value} {quantity.example.partition(' ')[2]}"
    # The unit of the example is the usual one of the quantity.
    try:
        value = parse_quantity(text, quantity.kind)
    except UnitError:
        return None
    return text if _allowed(value, annotation) else None


def _allowed(value: float, annotation: Annotation) -> bool:
    """Return True if a number is within the bounds of a type."""
    tests = {"gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
    bounds = [item for member in annotation.leaves for item in limits(member)]
    return all(tests[name](value, limit) for name, limit in bounds if name in tests)


def _block_phrase(annotation: Annotation | None, exact: Node | None) -> str:
    discriminator = (annotation and annotation.discriminator) or "type"
    choices = tags(annotation, discriminator) if annotation else {}
    if len(choices) > 1:
        text = f"a block with a key {discriminator!r} (one of {', '.join(choices)})"
        word = exact.value if exact is not None and isinstance(exact.value, str) else ""
        return f"{text}, such as {{{discriminator}: {word}, ...}}" if word in choices else text
    block = block_of(annotation)
    return f"a block with keys among {', '.join(fields_of(block))}" if block else "a block of keys"


def _validator_text(item: Any, exact: Node | None) -> str:
    cause = item.get("ctx", {}).get("error")
    text = str(cause) if cause is not None else item["msg"]
    text = text.removeprefix("Input should be ").strip() if cause is None else text
    # A message continues a line that begins with the key; an abbreviation keeps its capitals.
    text = text[:1].lower() + text[1:] if text[1:2].islower() else text
    if exact is None or isinstance(exact.value, (dict, list)):
        return text
    value = describe(exact)
    return text if value in text or str(exact.value)[:40] in text else f"{text}; found {value}"


def _s(counted: Sized) -> str:
    return "" if len(counted) == 1 else "s"


def _listing(names: Iterable[str], limit: int) -> str:
    every = list(names)
    shown = ", ".join(every[:limit])
    return shown + (", ..." if len(every) > limit else "")


def _without_echoes(mistakes: list[_Mistake]) -> list[_Mistake]:
    """Drop "key is missing" where the same block has a misspelling of that key: it is one mistake."""
    misspelt = {(*m.key[:-1], m.guess) for m in mistakes if m.kind == "extra_forbidden" and m.guess}
    return [m for m in mistakes if not (m.kind == "missing" and m.key in misspelt)]


def _settle(mistakes: list[_Mistake], level: int = 0) -> list[_Mistake]:
    """Merge the errors that the members of a union report for one and the same value."""
    settled: list[_Mistake] = []
    groups: dict[Path, list[_Mistake]] = {}
    for mistake in mistakes:
        if len(mistake.step.branches) <= level:
            settled.append(mistake)
        else:
            # Errors below the same union belong to the same value: they are grouped by the path
            # up to it.
            at = mistake.step.branches[level][0]
            groups.setdefault(mistake.step.path[:at], []).append(mistake)
    for path, group in groups.items():
        settled += _settle_union(path, group, level)
    return settled


def _settle_union(path: Path, group: list[_Mistake], level: int) -> list[_Mistake]:
    """Return the mistakes of the member of a union that was meant; of all members, merged, if none stands out."""
    by_label: dict[str, list[_Mistake]] = {}
    for mistake in group:
        by_label.setdefault(mistake.step.branches[level][1], []).append(mistake)
    # A member whose errors lie inside the value has understood its outer form: it is the one that was meant.
    inside = {label: some for label, some in by_label.items() if any(len(m.key) > len(path) for m in some)}
    if inside:
        return _settle(min(inside.values(), key=len), level + 1)
    whole = [m for some in by_label.values() for m in _settle(some, level + 1)]
    # A whole message explains more than a list of expected types.
    if complete := [m for m in whole if m.message]:
        return complete[:1]
    words_first = sorted(whole, key=lambda m: m.kind != "literal_error")
    # the example of a list is for those that can be nothing else
    phrases = list(dict.fromkeys(m.phrase for m in words_first))
    if len(phrases) > 1:
        phrases = [phrase.partition(_SUCH)[0] for phrase in phrases]
    guess = next((m.guess for m in whole if m.guess), None)
    likely = next((m.likely for m in whole if m.likely), None)
    remedy = next((m.remedy for m in whole if m.remedy), "")
    merged = _Mistake(
        whole[0].kind,
        whole[0].step,
        path,
        phrase=" or ".join(phrases),
        guess=guess,
        likely=likely,
        remedy=remedy,
    )
    return [merged]

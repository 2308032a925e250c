"""List the keys of all decks of a version, and write the page that compares two versions.

    python docs/deck_keys.py          record the keys of this version in docs/reference/keys/<version>.txt, write the page

Each line is ``method place.of.the.key``. A choice by `type` (or by `task`) is written ``system[model].parts``: the keys
that one choice alone has. Lists have no index.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import qsim
from qsim import methods
from qsim.core.deck.blocks import Block
from qsim.core.run.stages import stage

__all__ = ["changes", "keys", "keys_now", "recorded"]

Schema: TypeAlias = Mapping[str, object]

RECORDS = Path(__file__).resolve().parent / "reference/keys"
PAGE = RECORDS.parent / "deck-changes.md"
# The version that the page compares with.
BEFORE = "0.1.0"

HEAD = """# What changed for your decks

Version {new} against {old}, from the keys that both accept. A deck of {old} runs in {new} as it is, unless a key below says
otherwise; `qsim validate deck.yaml` tells old names. Of a new block only its own name is listed: `qsim init METHOD --full` prints
the keys in it, and [Decks](decks.md) explains them."""

# What a choice is named after, in this order.
CHOICES = ("task", "type", "process", "kind")


def keys(schema: Schema) -> set[str]:
    """Return the places of all keys that a JSON Schema of decks allows."""
    return set(_walk(schema, schema, "", ()))


def _walk(whole: Schema, part: object, place: str, above: tuple[str, ...]) -> Iterator[str]:
    """Go through the properties of a part and of everything that it refers to."""
    if not isinstance(part, Mapping):
        return
    if "$ref" in part:
        name = str(part["$ref"])
        # blocks that hold themselves, such as sums of potentials
        if name in above:
            return
        above = (*above, name)
        definitions = whole["$defs"]
        assert isinstance(definitions, Mapping)
        part = definitions[name.removeprefix("#/$defs/")]
    properties = part.get("properties", {})
    place += _choice(properties, place)
    for key, value in properties.items():
        path = f"{place}.{key}" if place else key
        yield path
        yield from _walk(whole, value, path, above)
    for one in ("items", "additionalProperties"):
        yield from _walk(whole, part.get(one), place, above)
    for many in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for value in part.get(many, ()):
            yield from _walk(whole, value, place, above)


def _choice(properties: Schema, place: str) -> str:
    """Return the name of the choice that a block belongs to, in brackets."""
    for key in CHOICES:
        value = properties.get(key)
        if isinstance(value, Mapping) and "const" in value:
            return f"[{value['const']}]" if place else ""
    return ""


def keys_now() -> set[str]:
    """Return the keys of this version, with the method in front."""
    found = set()
    for method in methods.available():
        command = [sys.executable, "-m", "qsim", "schema", method]
        schema = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        found |= {f"{method} {key}" for key in keys(schema)}
    return found


def recorded(version: str) -> set[str]:
    """Return the keys of an earlier version."""
    return set((RECORDS / f"{version}.txt").read_text(encoding="utf-8").splitlines())


def changes(old: set[str], new: set[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Return, by method, the keys that are gone and those that are new; keys below a new block are left out.

    A key that moved from a block into one of its choices (``system.mass`` to ``system[grid].mass``) is neither.
    """

    def bare(key: str) -> str:
        return "".join(piece.partition("]")[2] if k else piece for k, piece in enumerate(key.split("[")))

    found = {}
    for method in methods.available():
        here = {key for key in new if key.startswith(f"{method} ")}
        before = {key for key in old if key.startswith(f"{method} ")}
        gone = {bare(key) for key in before} - {bare(key) for key in here}
        fresh = {bare(key) for key in here} - {bare(key) for key in before}
        top = {key for key in fresh if key.rpartition(".")[0] not in fresh}
        found[method] = tuple(sorted(key.partition(" ")[2] for key in group) for group in (gone, top))
    return found


def old_names() -> dict[str, str]:
    """Return the old names of keys that decks may still have, with the names of today."""
    for method in methods.available():
        stage(method, "deck")
    names: dict[str, str] = {}
    todo = [Block]
    while todo:
        block = todo.pop()
        names |= block.OLD_NAMES
        todo += block.__subclasses__()
    return names


def page(version: str, now: set[str]) -> str:
    """Return the page of what changed for decks since an earlier version."""
    names = old_names()
    parts = [HEAD.format(old=version, new=qsim.__version__)]
    for method, (gone, fresh) in changes(recorded(version), now).items():
        parts.append(f"## `{method}`")
        for key in gone:
            block, _, name = key.rpartition(".")
            today = names.get(name)
            remedy = f"write `{block}.{today}`; the old name is accepted until 1.0" if today else "gone"
            parts.append(f"- `{key}`: {remedy}.")
        parts += ["No key is gone."] * (not gone)
        parts.append("New: " + ", ".join(f"`{key}`" for key in fresh) + ".")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Record the keys of this version, and write the page."""
    now = keys_now()
    RECORDS.mkdir(exist_ok=True)
    (RECORDS / f"{qsim.__version__}.txt").write_text("\n".join(sorted(now)) + "\n", encoding="utf-8")
    PAGE.write_text(page(BEFORE, now), encoding="utf-8")


if __name__ == "__main__":
    main()

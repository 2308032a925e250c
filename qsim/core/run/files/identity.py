"""Whose results a file holds: results belong to a deck if their file says that they are of it and of the data files as they are.

What decides are the problem (the resolved deck, data files by their content), seed and precision, and in a sweep all keys that it
varies.  Names of files, times and summaries decide nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.core.deck.load import changed_keys, in_new_names
from qsim.core.errors import FileError
from qsim.core.results.jsonable import json_ready
from qsim.core.results.summary import entry, read_summary
from qsim.core.run import checkpoint

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.results.results import Results

__all__ = ["Identity", "at", "differing", "summary_of"]

# Keys that decide numbers, outside of what `LoadedDeck.physics` holds.
SETTINGS = ("run.seed", "run.precision")
NOT_PHYSICS = ("run", "title", "output")


def at(deck: object, key: str) -> object:
    """Return the value at a dotted key; None where there is none."""
    for part in key.split("."):
        if isinstance(deck, Mapping):
            deck = deck.get(part)
        elif isinstance(deck, list) and part.isdigit() and int(part) < len(deck):
            deck = deck[int(part)]
        else:
            return None
    return deck


@dataclass(frozen=True)
class Identity:
    """What tells the results of one deck from those of others, in a few bytes.

    Attributes
    ----------
    method
        Of the deck.
    problem
        Hash of the resolved deck and of the content of its data files.
    settings
        Other keys with their values: seed and precision, and what a sweep varies of ``run`` and ``title``.
    """

    method: str
    problem: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, loaded: LoadedDeck[Any], keys: Sequence[str] = ()) -> Identity:
        """Return the identity of a deck in which a sweep varies some keys."""
        deck = json_ready(loaded.resolved())
        settings = tuple((key, at(deck, key)) for key in _settings(keys))
        return cls(loaded.deck.method, _hash(loaded.physics()), settings)

    def of_results(self, results: Results) -> bool:
        """Return True if an open results file is complete and of this deck."""
        here = results.provenance.get("physics")
        return (
            results.status == "complete"
            and results.method == self.method
            and isinstance(here, Mapping)
            and _hash(here) == self.problem
            and not _unlike(self.settings, results.deck)
        )

    def of_checkpoint(self, path: Path) -> bool:
        """Return True if a checkpoint is of this deck; errors as of `load_meta`."""
        meta = checkpoint.load_meta(path)
        settings = dict(self.settings)
        # What the deck leaves open, the run has chosen.
        chosen = [(name, settings.get(f"run.{name}")) for name in ("seed", "precision")]
        return (
            meta["method"] == self.method
            and _hash(meta["physics"]) == self.problem
            and all(wanted in (None, meta[name]) for name, wanted in chosen)
        )


def differing(loaded: LoadedDeck[Any], results: Results, keys: Sequence[str] = ()) -> list[str]:
    """Return the keys in which results differ from a deck, data files by their content; ``status`` if they are not complete.

    Parameters
    ----------
    loaded
        The deck.
    results
        The open file.
    keys
        What a sweep varies.
    """
    if results.method != loaded.deck.method:
        return ["method"]
    if results.status != "complete":
        return ["status"]
    # Names of keys may have changed since the file was written.
    stored = in_new_names(loaded.deck, results.provenance.get("physics", {}))
    now = in_new_names(loaded.deck, json_ready(loaded.physics()))
    changed = changed_keys(stored, now) if isinstance(stored, Mapping) and isinstance(now, Mapping) else []
    deck = json_ready(loaded.resolved())
    return [*changed, *_unlike([(key, at(deck, key)) for key in _settings(keys)], results.deck)]


def summary_of(results: Results, path: Path) -> dict[str, Any] | None:
    """Return the summary beside a results file; None if it is missing or damaged, or says anything else than the file."""
    try:
        content = read_summary(path)
    except FileError:
        return None
    scalars = json_ready({name: entry(scalar) for name, scalar in results.scalars.items()})
    same = content["scalars"] == scalars and content.get("deck") == json_ready(results.deck)
    return content if same and content["method"] == results.method else None


def _settings(keys: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*SETTINGS, *(key for key in keys if key.split(".")[0] in NOT_PHYSICS)]))


def _unlike(wanted: Sequence[tuple[str, object]], deck: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values a resolved deck does not have."""
    # The file of the results is no property of them: its name is left out of the decks of a sweep.
    return [key for key, value in wanted if not _fits(value, at(deck, key)) and key != "output.file"]


def _fits(wanted: object, found: object) -> bool:
    """Return True if a value is the wanted one, or the deck left it open."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(_fits(value, found.get(key)) for key, value in wanted.items())
    return wanted is None or (wanted == found and isinstance(wanted, bool) == isinstance(found, bool))


def _hash(physics: Mapping[str, Any]) -> str:
    text = json.dumps(_given(json_ready(physics)), sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _given(value: object) -> object:
    """Return a value without keys that are null: one that a later version adds changes no earlier deck."""
    if isinstance(value, Mapping):
        return {key: _given(item) for key, item in value.items() if item is not None}
    return [_given(item) for item in value] if isinstance(value, list | tuple) else value

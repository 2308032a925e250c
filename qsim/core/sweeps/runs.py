"""Runs for a table: what their results files say, which must be complete, and of a sweep those of their decks."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qsim.core.deck.blocks import Deck
from qsim.core.deck.load import load_deck, written_deck
from qsim.core.errors import DeckError, FileError
from qsim.core.results.display.views import output_of
from qsim.core.results.jsonable import json_ready
from qsim.core.results.results import Results, open_results
from qsim.core.results.summary import entry, read_summary
from qsim.core.results.tables import Named
from qsim.core.run.files.identity import differing
from qsim.core.run.stages import Method
from qsim.core.sweeps.folder import FAILED, INDEX, SUMMARY
from qsim.core.text import reason

__all__ = ["Run", "find_runs", "incomplete", "read_runs", "swept_keys"]


@dataclass(frozen=True)
class Run:
    """A complete run.

    Attributes
    ----------
    path
        Its summary, beside which the results file lies.
    method, title
        Of the run.
    deck
        Its resolved deck, without ``output``.
    scalars
        As a summary has them.
    written
        The deck as it was written; empty if it is not known.
    warnings
        What the run warned of.
    contents
        Hashes of its data files, by the keys that name them.
    """

    path: Path
    method: str
    title: str
    deck: Mapping[str, Any]
    scalars: Mapping[str, Mapping[str, Any]]
    written: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    contents: Mapping[str, str] = field(default_factory=dict)


def find_runs(places: Iterable[Path]) -> list[Path]:
    """Return the summaries of runs: of folders with all below them, results files, and summaries, each once, in natural order.

    Raises
    ------
    FileError
        If a place holds none.
    """
    summaries: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            here = sorted(place.rglob(f"*{SUMMARY}"), key=_natural)
        else:
            name = place.name
            stem = name.removesuffix(SUMMARY) if name.endswith(SUMMARY) else place.stem
            # A results file or a summary stands for the run.
            here = [place.with_name(f"{stem}{SUMMARY}")]
        here = [path for path in here if path.is_file()]
        if not here:
            raise FileError(
                f"{place} holds no summary of a run",
                hint="give folders, *.h5 or *.summary.json of complete runs",
            )
        summaries.update(dict.fromkeys(here))
    return list(summaries)


def _natural(path: Path) -> list[tuple[int, int, str]]:
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in re.split(r"(\d+)", str(path)) if p]


def incomplete(places: Iterable[Path]) -> list[str]:
    """Return the names of decks in folders of sweeps that have no summary, failed ones with their error."""
    lines = []
    for place in places:
        # A deck of a sweep without a summary has not run to its end.
        for deck in sorted(place.glob("*-[0-9]*.yaml"), key=_natural) if place.is_dir() else ():
            if deck.with_suffix(SUMMARY).exists():
                continue
            try:
                content = json.loads(deck.with_suffix(FAILED).read_text(encoding="utf-8"))
                why = content["error"].splitlines()[0]
            except (OSError, ValueError, LookupError, TypeError, AttributeError):
                why = "not run yet"
            lines.append(f"{deck.stem}: {why}")
    return lines


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], list[str]]:
    """Return the runs of summaries, and for each that is none why: damaged, or not of the deck of a sweep beside it."""
    runs, refused = [], []
    keys: dict[Path, Sequence[str]] = {}
    for path in paths:
        folder = path.parent
        if folder not in keys:
            keys[folder] = swept_keys(folder)
        try:
            runs.append(_run(path, keys[folder]))
        except FileError as error:
            refused.append(f"{path.name.removesuffix(SUMMARY)}: {error}")
    return runs, refused


def _run(path: Path, keys: Sequence[str]) -> Run:
    """Read a run, from its results file; from its summary alone where there is no results file any more."""
    results = path.with_name(f"{path.name.removesuffix(SUMMARY)}.h5")
    deck = results.with_suffix(".yaml")
    of_sweep = re.fullmatch(r".+-\d{4,}", deck.stem) is not None and deck.is_file()
    if results.exists() or of_sweep:
        with open_results(results) as file:
            if file.status != "complete":
                raise FileError(f"{results} is not of a complete run, its status is '{file.status}'")
            if of_sweep and (changed := _unlike(file, deck, keys)):
                raise FileError(
                    f"its results are not of {deck.name} and its data files as they are now: {', '.join(changed)}"
                )
            return _of_results(path, file)
    content = read_summary(path)
    known = content.get("deck")
    if not isinstance(known, dict) or not known:
        raise FileError(f"{path} is of an earlier version, and its results file {results} is gone")
    return Run(
        path,
        str(content["method"]),
        str(content.get("title", "")),
        _without_output(known),
        Named(content["scalars"], content.get("aliases", {})),
        warnings=tuple(map(str, content["warnings"])),
    )


def _of_results(path: Path, file: Results) -> Run:
    """Return the run that a results file holds; scalars keep their short names."""
    deck = file.deck
    if not deck:
        raise FileError(f"{file.path} holds no deck")
    recorded = file.provenance
    text, overrides = recorded.get("deck_text", ""), recorded.get("overrides", [])
    return Run(
        path,
        file.method,
        file.title,
        _without_output(deck),
        Named(
            json_ready({name: entry(scalar) for name, scalar in file.scalars.items()}), file.scalars.aliases
        ),
        written_deck(str(text), [str(item) for item in overrides]),
        tuple(map(str, recorded.get("warnings", ()))),
        dict(_contents(recorded.get("physics", {}))),
    )


def _unlike(file: Results, deck: Path, keys: Sequence[str]) -> list[str]:
    """Return what tells results from the deck of a sweep beside them."""
    if output_of(file.method) is None:
        return []
    try:
        return differing(load_deck(deck, Method[Deck, object, object](file.method).deck.DECK), file, keys)
    except DeckError:
        # A data file was moved away, as from an archive: the deck itself still tells.
        try:
            same = file.provenance.get("deck_text") == deck.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            return [reason(error)]
        return [] if same else ["deck"]


def _without_output(deck: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deck without names of files, which differ in every run."""
    return {key: value for key, value in deck.items() if key != "output"}


def _contents(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys of data files in a stored problem, with the hashes of their contents."""
    if isinstance(value, Mapping):
        if value.keys() == {"file", "content"}:
            yield key, str(value["content"])
            return
        for part, item in value.items():
            yield from _contents(item, f"{key}.{part}" if key else str(part))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _contents(item, f"{key}.{number}")


def swept_keys(folder: Path) -> tuple[str, ...]:
    """Return the keys that the sweep of a folder varies; none if it holds no sweep."""
    try:
        with (folder / INDEX).open(newline="", encoding="utf-8") as file:
            # The first two columns are number and deck.
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return ()
    return tuple(header[2:]) if header[:2] == ["number", "deck"] else ()

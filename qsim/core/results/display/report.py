"""Runs as one HTML page: figures, numbers, warnings, deck and provenance, in a file that needs nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from qsim.core.results.display.page import details, document, figure_of, table, text_of
from qsim.core.results.display.views import array_rows, figure_functions, first_scalars, scalar_rows
from qsim.core.text import format_scalar, format_seconds, shorten

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["report", "side_by_side"]

# Characters of a value of a deck in a table.
LONGEST = 60


def report(results: Results, figures: Iterable[str] | None = None) -> str:
    """Return a run as an HTML page that opens in any browser, without scripts and without a network.

    Parameters
    ----------
    results
        The open file.
    figures
        Names of figures; by default all that the file has the data for.
    """
    title = results.title or results.path.stem
    rows = scalar_rows(results)
    # Without a headline, all numbers are shown.
    first = len(first_scalars(results)) or len(rows)
    parts = [
        f"<h1>{text_of(title)}</h1>",
        f'<p class="about">{text_of(_about(results))}</p>',
        *_warnings(results),
        "<h2>Numbers</h2>",
        *_numbers(rows[:first], ""),
        "<h2>Figures</h2>",
        *_figures(results, figures),
        *_numbers(rows[first:], f"All other numbers ({len(rows) - first})"),
        "<h2>Deck</h2>",
        f"<pre>{text_of(str(results.provenance.get('deck_text', '')), lines=True)}</pre>",
        _overrides(results),
        details("Arrays", table(("array", "axes", "unit", "meaning"), array_rows(results))),
        details("Provenance", table(("entry", "value"), _provenance(results))),
        details("Log", f"<pre>{text_of(chr(10).join(results.log), lines=True)}</pre>"),
    ]
    return document(title, parts)


def side_by_side(runs: Sequence[Results], names: Sequence[str], figures: Iterable[str] | None = None) -> str:
    """Return several runs as one HTML page: keys that differ, numbers in columns, figures beside each other.

    Parameters
    ----------
    runs
        The open files, of one method or of several.
    names
        What each is called on the page.
    figures
        Names of figures; by default all that the files have the data for.
    """
    wanted = None if figures is None else list(figures)
    known = list(dict.fromkeys(name for run in runs for name in figure_functions(run)))
    drawn = [dict(_drawn(run, wanted, name)) for run, name in zip(runs, names, strict=True)]
    scalars = dict.fromkeys(row[0] for run in runs for row in scalar_rows(run))
    first = list(dict.fromkeys(name for run in runs for name in first_scalars(run))) or list(scalars)
    others = [name for name in scalars if name not in first]
    parts = [
        f"<h1>{text_of(', '.join(names))}</h1>",
        *(
            f'<p class="about">{text_of(f"{name}: {_about(run)}")}</p>'
            for run, name in zip(runs, names, strict=True)
        ),
        *(text for run, name in zip(runs, names, strict=True) for text in _warnings(run, f"{name}: ")),
        "<h2>What differs in the decks</h2>",
        table(("key", *names), _differences(runs), "numbers"),
        "<h2>Numbers</h2>",
        table(("scalar", *names), _columns(runs, first), "numbers"),
        "<h2>Figures</h2>",
        *(
            f'<h3>{text_of(name)}</h3><div class="side">{"".join(found)}</div>'
            for name in known
            if (found := [one[name] for one in drawn if name in one])
        ),
        details("All other numbers", table(("scalar", *names), _columns(runs, others), "numbers"))
        if others
        else "",
    ]
    return document(", ".join(names), parts, wide=True)


# ----------------------------------------------------------------------------------------- one run


def _about(results: Results) -> str:
    recorded = results.provenance
    device = recorded.get("device")
    label = device.get("name") or device.get("label") if isinstance(device, dict) else ""
    elapsed = recorded.get("elapsed")
    words = [
        f"qsim {results.method}",
        str(recorded.get("qsim_version", "")),
        str(label or ""),
        f"{recorded.get('precision', '')} precision",
        f"seed {recorded.get('seed')}",
        format_seconds(float(elapsed)) if isinstance(elapsed, int | float) else "",
        results.created,
    ]
    return ", ".join(word for word in words if word)


def _warnings(results: Results, before: str = "") -> list[str]:
    found = results.provenance.get("warnings", ())
    return [f'<p class="warning">{text_of(f"{before}{warning}")}</p>' for warning in found]


def _numbers(rows: Sequence[tuple[str, str, str]], folded: str) -> list[str]:
    """Return a table of scalars, below a line that opens it where there are many that few readers want."""
    text = table(("scalar", "value", "meaning"), rows, "stack numbers")
    if not rows:
        return []
    return [details(folded, text)] if folded else [text]


def _provenance(results: Results) -> list[tuple[str, str]]:
    long = ("deck", "deck_text", "physics", "warnings")
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in results.provenance.items()
        if name not in long
    ]


def _overrides(results: Results) -> str:
    given = results.provenance.get("overrides") or []
    return f"<p>with {text_of(', '.join(f'--set {item}' for item in given))}</p>" if given else ""


def _figures(results: Results, figures: Iterable[str] | None) -> list[str]:
    return [text for _, text in _drawn(results, figures)]


def _drawn(results: Results, figures: Iterable[str] | None, run: str = "") -> list[tuple[str, str]]:
    """Return the names and the texts of the figures; without names, none that only puts others together."""
    functions = figure_functions(results)
    names = list(functions) if figures is None else [name for name in figures if name in functions]
    made: dict[str, tuple[str, frozenset[str]]] = {}
    pictures: set[str] = set()
    for name in names:
        found = figure_of(results, name, functions[name], run)
        # An overview may be the one figure that there is.
        if found is not None and (picture := found[0].partition("src=")[2].partition(">")[0]) not in pictures:
            pictures.add(picture)
            made[name] = found
    # by the names of figures, and by those of their functions
    shown = {*made, *(getattr(functions[name], "__name__", "") for name in made)}
    return [
        (name, text)
        for name, (text, parts) in made.items()
        if figures is not None or not parts or not parts <= shown - {name}
    ]


# ------------------------------------------------------------------------------------- several runs


def _columns(runs: Sequence[Results], names: Sequence[str]) -> list[tuple[str, ...]]:
    """Return some scalars of all runs, a column for each run."""
    return [(name, *(_cell(run, name) for run in runs)) for name in names]


def _cell(run: Results, name: str) -> str:
    scalar = run.scalars.get(name)
    return "" if scalar is None else format_scalar(scalar.value, scalar.unit, scalar.error, 9, scalar.note)


def _differences(runs: Sequence[Results]) -> list[tuple[str, ...]]:
    """Return the keys of the resolved decks in which the runs differ, and their values."""
    flat = [dict(_flattened(run.deck)) for run in runs]
    keys = dict.fromkeys(key for one in flat for key in one if not key.startswith("output"))
    rows = [(key, [one.get(key, "") for one in flat]) for key in keys]
    return [
        (key, *(shorten(value, LONGEST) for value in values)) for key, values in rows if len(set(values)) > 1
    ]


def _flattened(value: object, key: str = "") -> list[tuple[str, str]]:
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        value = dict(enumerate(value))
    if isinstance(value, Mapping) and value:
        return [
            pair
            for part, item in value.items()
            for pair in _flattened(item, f"{key}.{part}" if key else str(part))
        ]
    return [(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))]

"""A run as one HTML page: figures, numbers, warnings, deck and provenance, in a file that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from qsim.core.results import plotting
from qsim.core.results.display.views import array_rows, figure_functions, scalar_rows
from qsim.core.text import format_seconds, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["report"]

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
th { border-bottom: 1px solid #999; } tr:nth-child(even) td { background: #f6f6f6; }
td:nth-child(2) { font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; overflow-x: auto; } figcaption { color: #555; } img { max-width: 100%; height: auto; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .85rem; }
.warning { background: #fff3cd; padding: .4rem .8rem; margin: .3rem 0; } .about { color: #555; margin-top: 0; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
@media (max-width: 40rem) { td:nth-child(2) { white-space: normal; } }
"""


def report(results: Results, figures: Iterable[str] | None = None) -> str:
    """Return a run as an HTML page that opens in any browser, without scripts and without a network.

    Parameters
    ----------
    results
        The open file.
    figures
        Names of figures; by default all that the file has the data for.
    """
    known = figure_functions(results)
    names = list(known) if figures is None else list(figures)
    title = results.title or results.path.stem
    parts = [
        # One file: style in the head, pictures as base64, no scripts.
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{_text(title)}</h1>",
        f'<p class="about">{_text(_about(results))}</p>',
        *(f'<p class="warning">{_text(warning)}</p>' for warning in results.provenance.get("warnings", ())),
        "<h2>Numbers</h2>",
        _table(("scalar", "value", "meaning"), scalar_rows(results)),
        "<h2>Figures</h2>",
        *_figures(results, known, names),
        "<h2>Deck</h2>",
        f"<pre>{_text(str(results.provenance.get('deck_text', '')), lines=True)}</pre>",
        _overrides(results),
        _details("Arrays", _table(("array", "axes", "unit", "meaning"), array_rows(results))),
        _details("Provenance", _table(("entry", "value"), _provenance(results))),
        _details("Log", f"<pre>{_text(chr(10).join(results.log), lines=True)}</pre>"),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(text: str, *, lines: bool = False) -> str:
    return html.escape(printable(text, newlines=lines))


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _details(name: str, content: str) -> str:
    return f"<details><summary>{_text(name)}</summary>{content}</details>"


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


def _provenance(results: Results) -> list[tuple[str, str]]:
    long = ("deck", "deck_text", "physics", "warnings")
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in results.provenance.items()
        if name not in long
    ]


def _overrides(results: Results) -> str:
    given = results.provenance.get("overrides") or []
    return f"<p>with {_text(', '.join(f'--set {item}' for item in given))}</p>" if given else ""


def _figures(
    results: Results, known: Mapping[str, Callable[[Results], Figure | None]], names: Iterable[str]
) -> Iterable[str]:
    for name in names:
        figure = plotting.draw(known[name], results)
        if figure is None:
            continue
        caption = _text(_first_line(known[name]) or name.replace("_", " "))
        label = _text(name)
        yield (
            f'<figure id="{label}"><img alt="{label}" src="data:image/png;base64,{_png(figure)}">'
            f"<figcaption><strong>{label}</strong>: {caption}</figcaption></figure>"
        )


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _png(figure: Figure) -> str:
    data = io.BytesIO()
    with plotting.style():
        figure.savefig(data, format="png", metadata={"Software": "qsim"})
    return base64.b64encode(data.getvalue()).decode("ascii")

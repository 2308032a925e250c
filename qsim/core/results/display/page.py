"""Parts of HTML pages about runs: style, tables, figures with captions and texts for readers who do not see them."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from qsim.core.results import plotting
from qsim.core.text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results

__all__ = ["alternative", "details", "document", "figure_of", "plain", "table", "text_of", "with_powers"]

STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --ground: #fff; --band: #f6f6f6; --line: #999; --warn: #fff3cd; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --soft: #aaa; --ground: #16181b; --band: #22262b; --line: #666; --warn: #4d3d00; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--ground); overflow-wrap: anywhere; }
body.wide { max-width: 110rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
th { border-bottom: 1px solid var(--line); } tbody tr:nth-child(even) td { background: var(--band); }
.numbers td:nth-child(n+2) { font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; } .whole { white-space: nowrap; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); }
img { max-width: 100%; height: auto; background: #fff; border-radius: 4px; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 0 1.5rem; }
pre { background: var(--band); padding: .8rem; overflow-x: auto; font-size: .85rem; }
.warning { background: var(--warn); padding: .4rem .8rem; margin: .3rem 0; } .about { color: var(--soft); margin-top: 0; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
@media (min-width: 40rem) { .numbers td:first-child { overflow-wrap: break-word; } }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 .7rem; }
  .stack, .stack tbody, .stack tr, .stack td { display: block; } .stack thead { display: none; }
  .stack td { padding: 0 .3rem; } .stack td:first-child { font-weight: 600; padding-top: .35rem; }
  .stack td:last-child { color: var(--soft); padding-bottom: .35rem; } }
@media print {
  :root { --ink: #000; --soft: #333; --ground: #fff; --band: #f2f2f2; --warn: #eee; }
  body { max-width: none; margin: 0; } pre { white-space: pre-wrap; } .scroll { overflow: visible; }
  figure, tr { break-inside: avoid; } summary { list-style: none; }
  details::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""

# Formulas as they are read aloud or copied: of TeX, what labels of figures hold.
_TEX = {
    r"\epsilon": "ε", r"\varepsilon": "ε", r"\omega": "ω", r"\sigma": "σ", r"\theta": "θ", r"\tau": "τ", r"\psi": "ψ",
    r"\beta": "β", r"\chi": "χ", r"\Gamma": "Γ", r"\gamma": "γ", r"\pi": "π", r"\langle": "⟨", r"\rangle": "⟩", r"\uparrow": "↑",
    r"\downarrow": "↓", r"\tilde\nu": "ν", r"\int": "∫", r"\to": "→", r"\log": "log", r"\ln": "ln", r"\sqrt": "√", r"\times": "×",
    r"\cdot": "·", r"\infty": "∞", r"\geq": "≥", r"\leq": "≤", r"\pm": "±", r"\degree": "°", r"\,": " ",
}  # fmt: skip
_POWERS = str.maketrans("0123456789-/", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᐟ")
# Curves, and panels, that a text names one by one.
MOST = 6


def document(title: str, parts: Iterable[str], *, wide: bool = False) -> str:
    """Return a whole page: one file with its style in the head, pictures inside, no scripts."""
    head = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_of(title)}</title><style>{STYLE}</style></head>"
    )
    body = "\n".join(part for part in parts if part)
    kind = ' class="wide"' if wide else ""
    return f"{head}\n<body{kind}>\n{body}\n</body></html>\n"


def text_of(text: str, *, lines: bool = False) -> str:
    """Return a text that HTML shows as it is, control characters made visible."""
    return html.escape(printable(text, newlines=lines))


def with_powers(text: str) -> str:
    """Return a unit or formula with raised powers: ``hartree^2`` as ``hartree²``."""
    return re.sub(r"(?<=[A-Za-z0-9)])\^(-?\d+(?:/\d+)?)", lambda match: match[1].translate(_POWERS), text)


def table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "stack") -> str:
    """Return a table; on narrow screens the cells of a row of the kind ``stack`` stand below each other."""
    head = "".join(f'<th scope="col">{text_of(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(cell: str) -> str:
    """Return the text of a cell, whose value, error and unit stay in one line."""
    text = text_of(with_powers(cell))
    return re.sub(r"\S+ ± \S+(?: [^\s(]+)?", r'<span class="whole">\g<0></span>', text)


def details(name: str, content: str) -> str:
    """Return a part that opens on a click, and in print."""
    return f"<details><summary>{text_of(name)}</summary>{content}</details>"


def figure_of(
    results: Results, name: str, function: Callable[[Results], Figure | None], run: str = ""
) -> tuple[str, frozenset[str]] | None:
    """Return a figure with its caption, and the figures that it is composed of; None if there is nothing to draw.

    Parameters
    ----------
    results
        What is drawn.
    name, function
        Of the figure.
    run
        Name of the run, on a page of several; its figures have names of their own.
    """
    figure = plotting.draw(function, results)
    if figure is None:
        return None
    caption = run or _first_line(function) or name.replace("_", " ")
    parts = frozenset(getattr(figure, "composed_of", ()))
    label = text_of(name)
    alt = text_of(f"{run}, {alternative(figure, name)}" if run else alternative(figure, name))
    place = f"{text_of(run)}-{label}" if run else label
    text = (
        f'<figure id="{place}"><img alt="{alt}" src="data:image/png;base64,{_png(figure)}">'
        f"<figcaption><strong>{label}</strong>: {text_of(caption)}</figcaption></figure>"
    )
    figure.clear()
    return text, parts


def alternative(figure: Figure, name: str) -> str:
    """Return what a figure shows, for readers who do not see it: panels, axes with their ranges, curves."""
    panels = [text for ax in figure.axes if ax.get_label() != "<colorbar>" and (text := _panel(ax))]
    more = f" and {len(panels) - MOST} more panels" if len(panels) > MOST else ""
    return f"{name.replace('_', ' ')}: {'; '.join(panels[:MOST])}{more}"


def _panel(ax: Axes) -> str:
    x, y = plain(ax.get_xlabel()), plain(ax.get_ylabel())
    if not x and not y and not ax.get_lines():
        return ""
    kind = "map" if ax.images or any(hasattr(one, "get_coordinates") for one in ax.collections) else "curves"
    low, high = sorted(ax.get_xlim())
    parts = [f"{y or 'values'} against {x or 'the number'}, {low:.3g} to {high:.3g}"]
    if title := plain(ax.get_title() or ax.get_title(loc="left")):
        parts.insert(0, title)
    if kind == "map":
        parts.append("as a map")
    names = [plain(label) for label in ax.get_legend_handles_labels()[1] if not label.startswith("_")]
    if names:
        parts.append(f"curves {', '.join(names[:MOST])}{' ...' if len(names) > MOST else ''}")
    return ", ".join(parts)


def plain(label: str) -> str:
    """Return a label without the marks of TeX."""
    for tex, character in _TEX.items():
        label = re.sub(re.escape(tex) + r"(?![A-Za-z])", character, label)
    label = re.sub(r"\\(?:mathrm|mathdefault|mathbf|text|tilde|bar|dot|ddot)\s*", "", label)
    return " ".join(re.sub(r"[${}\\]", "", label).replace("\n", " ").split())


def _first_line(function: Callable[..., Any]) -> str:
    line = (function.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    # What a function does, as what its figure shows.
    return re.sub(r"^Draws? (?:the |a )?", "", line).replace("``", "") if line else ""


def _png(figure: Figure) -> str:
    data = io.BytesIO()
    with plotting.style():
        figure.savefig(data, format="png", metadata={"Software": "qsim"})
    return base64.b64encode(data.getvalue()).decode("ascii")

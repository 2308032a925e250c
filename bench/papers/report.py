"""The report of a reproduction: figures, and the table of what the papers say and what qsim gives."""

from __future__ import annotations

import io
from pathlib import Path

from bench.papers.item import Data, Item, items_of, paper, papers
from bench.papers.work import Kept
from qsim.core.results import plotting

__all__ = ["page", "picture", "small"]

WIDTH = 900
"""Pixels of a small picture."""

HEAD = """# Papers, reproduced

Every figure and table of the five papers that qsim goes back to. `python bench/reproduce.py` computes them anew, all or
those named (`--list` names them), into a folder that keeps what is done; `--gpu` measures on a GPU, too. *qsim, CPU* is
one core of the machine that made this page; *qsim, GPU* is measured in the same run, or taken from the record of
`bench/results` that is named below the figure. Times of a core are the shortest of some repeats, or processor time
where that is less. What the papers misprint: [misprints](MISPRINTS).
"""


def picture(each: Item, data: Data, path: Path) -> None:
    """Draw an item into a PNG file."""
    assert each.draw is not None
    with plotting.style():
        fig = each.draw(data)
        fig.savefig(path, dpi=160)


def small(source: Path, target: Path) -> None:
    """Write a picture again with fewer pixels and colours."""
    from PIL import Image

    image = Image.open(source).convert("RGB")
    image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    target.parent.mkdir(parents=True, exist_ok=True)
    out = io.BytesIO()
    image.quantize(255).save(out, format="png", optimize=True)
    target.write_bytes(out.getvalue())


def page(folder: Path, images: str, misprints: str = "") -> str:
    """Return the Markdown of a reproduction.

    Parameters
    ----------
    folder
        Where `bench/reproduce.py` has put the items.
    images
        Path from the page to the pictures ``<paper>/<item>.png``.
    misprints
        Path from the page to that about misprints, if there is one.
    """
    link = f"[misprints]({misprints})" if misprints else "docs/theory/misprints.md"
    parts = [HEAD.replace("[misprints](MISPRINTS)", link)]
    total = 0.0
    for name in papers():
        parts.append(f"## `{name}`: {paper(name)['title']}\n\n{paper(name)['reference']}.\n")
        for each in items_of([name]):
            path = folder / name / f"{each.name}.json"
            kept = Kept.read(path) if path.exists() else None
            total += kept.seconds if kept else 0.0
            parts.append(_section(each, kept, images))
    parts.insert(
        1, f"Everything on this page took {total / 60:.0f} minutes on a machine with other work, too.\n"
    )
    return "\n".join(parts)


def _section(each: Item, kept: Kept | None, images: str) -> str:
    heading = f"### {_name(each)}: {each.title}\n"
    if each.compute is None:
        return f"{heading}\nNothing to compute: {each.note}.\n"
    if kept is None:
        return f"{heading}\nNot run.\n"
    about = f"{kept.seconds:.0f} s on {kept.device}, {kept.created[:10]}."
    if where := kept.data.get("cuda_from"):
        about += f" GPU: {where}."
    if kept.quick:
        about += " Small sizes: nothing here is a result."
    if each.note:
        about += f" {each.note}"
    rows = [["", "paper", "qsim, CPU", "qsim, GPU", "why"]]
    assert each.compare is not None
    rows += [[line.what, line.paper, line.here, line.gpu, line.why] for line in each.compare(kept.data)]
    if not any(row[3] for row in rows[1:]):
        rows = [[*row[:3], row[4]] for row in rows]
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)
    return f"{heading}\n![{each.title}]({images}/{each.paper}/{each.name}.png)\n\n{about}\n\n{table}\n"


def _name(each: Item) -> str:
    """Return the name that the paper gives: Fig. 1, Table 2, Sec. 4.2."""
    number, _, part = each.name.partition("-")
    for short, long in (
        ("fig", "Fig. "),
        ("table", "Table "),
        ("sec", "Sec. "),
        ("eq", "Eq. "),
        ("app", "App. "),
    ):
        if number.startswith(short):
            return long + number.removeprefix(short) + (f", {part}" if part else "")
    return each.name.capitalize()

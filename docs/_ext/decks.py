"""Write one page per method with every key of its deck, from the deck's own model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from samples import samples, written

from qsim import methods
from qsim.core.deck.reference import deck_reference
from qsim.core.deck.yaml_marks import parse_yaml
from qsim.core.run.stages import stage

if TYPE_CHECKING:
    from sphinx.application import Sphinx

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


def generate(app: Sphinx) -> None:
    """Write reference/decks/<method>.md for the methods of this version; unchanged pages are left alone."""
    folder = Path(app.srcdir) / "reference" / "decks"
    folder.mkdir(exist_ok=True)
    pages = {folder / f"{method}.md": page(method) for method in methods.available()}
    for method in methods.available():
        for model in stage(method, "deck").DECK.variants()[1:]:
            name, title = _name(model)
            pages[folder / f"{method}-{name}.md"] = f"# `{method}`, {title}\n\n{reference(method, model)}\n"
    for stale in set(folder.glob("*.md")) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _name(model: type[BaseModel]) -> tuple[str, str]:
    """Return the word for a page of this model, and its title: what chooses it in a deck."""
    if "task" in model.model_fields:
        task = str(model.model_fields["task"].annotation.__args__[0])
        return task, f"`task: {task}`"
    return "system", "`system` with a `type`"


def decks_of(method: str, model: type[BaseModel]) -> list[dict[str, object]]:
    """Return the decks of a method that are for this model, as they are written."""
    first = stage(method, "deck").DECK
    found = []
    for path in sorted((INPUTS / method).glob("*.yaml")):
        root, _ = parse_yaml(path.read_text(encoding="utf-8"), str(path))
        data = root.plain() if root is not None else {}
        if first.model_for(data) is model:
            found.append(data)
    return found


def reference(method: str, model: type[BaseModel]) -> str:
    """Return the reference of a deck with an example of every block."""
    found = samples(model, decks_of(method, model))
    first = stage(method, "deck").DECK
    elsewhere = None if model is first else (f"{method}.md", first)
    shown = {block: partial(_shown, data=data) for block, data in found.items()}
    return deck_reference(model, shown, elsewhere)


def _shown(place: str, data: object) -> str:
    return written(place, data)


def page(method: str) -> str:
    """Return the page of one method."""
    return f"# `{method}`\n\n{methods.TABLE[method]}\n\n{reference(method, stage(method, 'deck').DECK)}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

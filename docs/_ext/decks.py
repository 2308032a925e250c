"""Write one page per method with every key of its deck, from the deck's own model."""

from pathlib import Path

from sphinx.application import Sphinx

from qsim import methods
from qsim.core.deck.reference import deck_reference
from qsim.core.run.stages import stage


def generate(app: Sphinx) -> None:
    """Write reference/decks/<method>.md for the methods of this version; unchanged pages are left alone."""
    folder = Path(app.srcdir) / "reference" / "decks"
    folder.mkdir(exist_ok=True)
    pages = {folder / f"{method}.md": page(method) for method in methods.available()}
    for method in methods.available():
        for model in stage(method, "deck").DECK.variants()[1:]:
            task = str(model.model_fields["task"].annotation.__args__[0])
            text = f"# `{method}`, `task: {task}`\n\n{deck_reference(model)}\n"
            pages[folder / f"{method}-{task}.md"] = text
    for stale in set(folder.glob("*.md")) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def page(method: str) -> str:
    """Return the page of one method."""
    return f"# `{method}`\n\n{methods.TABLE[method]}\n\n{deck_reference(stage(method, 'deck').DECK)}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

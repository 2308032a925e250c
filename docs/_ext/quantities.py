"""Write one page per method with everything that its results files may hold, from the method's own declarations."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from qsim import methods
from qsim.core.results.quantities import Quantity, quantity_reference
from qsim.core.run.stages import stage


def generate(app: Sphinx) -> None:
    """Write reference/results/<method>.md for the methods that declare their quantities; unchanged pages are left alone."""
    folder = Path(app.srcdir) / "reference" / "results"
    folder.mkdir(exist_ok=True)
    pages = {}
    for method in methods.available():
        declared = getattr(stage(method, "output"), "QUANTITIES", None)
        if declared is not None:
            pages[folder / f"{method}.md"] = page(method, reference(declared))
    for stale in set(folder.glob("*.md")) - set(pages):
        stale.unlink()
    for path, text in pages.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def reference(declared: Mapping[str, Iterable[Quantity[Any]]] | Iterable[Quantity[Any]]) -> str:
    """Return the tables of all quantities, task by task where they are declared so."""
    if not isinstance(declared, Mapping):
        return quantity_reference(declared)
    return "\n\n".join(
        f"## {task.capitalize()}\n\n{quantity_reference(quantities, level=3)}"
        for task, quantities in declared.items()
    )


def page(method: str, text: str) -> str:
    """Return the page of one method."""
    return f"# Results of `{method}`\n\n{methods.TABLE[method]}\n\n{text}\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("builder-inited", generate)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

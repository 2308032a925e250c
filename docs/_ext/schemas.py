"""JSON Schemas of decks and summaries beside the pages, by version: ``schemas/VERSION/deck.trotter.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from qsim import methods
from qsim.core.deck.template import schema
from qsim.core.results.summary import SCHEMA
from qsim.core.run.stages import stage
from qsim.version import __version__

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def write_schemas(folder: Path) -> list[Path]:
    """Write the schemas of all decks and of summaries into a folder of this version; return the files."""
    place = folder / __version__
    place.mkdir(parents=True, exist_ok=True)
    contents = {f"deck.{name}.json": schema(stage(name, "deck").DECK) for name in methods.available()}
    contents["summary.json"] = SCHEMA
    files = []
    for name, content in contents.items():
        path = place / name
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        files.append(path)
    return files


def _finished(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app.builder.format == "html":
        write_schemas(Path(app.outdir) / "schemas")


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx write the schemas when the pages are done."""
    app.connect("build-finished", _finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas without a network: MathJax is copied into the documentation, one file of two megabytes.

It comes with the package `sphinx-mathjax-offline`; without that, pages take it from the network.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

SCRIPT = "mathjax/tex-svg.js"


def found() -> Path | None:
    """Return the script in the package, None if that is not installed."""
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "static" / SCRIPT
    return path if path.is_file() else None


def copy(app: Sphinx, error: Exception | None) -> None:
    """Put the script where the pages look for it."""
    source = found()
    if error is None and source is not None and app.builder.format == "html":
        target = Path(app.outdir) / "_static" / SCRIPT
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    if found() is None:
        logging.getLogger(__name__).info("sphinx-mathjax-offline is not installed: formulas need the network")
    else:
        app.config.mathjax_path = SCRIPT  # type: ignore[attr-defined]
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

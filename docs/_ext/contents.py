"""What only the built documentation has: tables of contents, the pages of other files, the reference of the command line.

The sources stay plain Markdown, which a code host shows as it is; the directives are added when a page is read.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

OUTSIDE = re.compile(r"\[([\w./]+\.md)\]\((?:\.\./)+\1\)")
"""Links to pages of the repository that are no pages of the documentation: there only their names are shown."""

CHANGES = Path(__file__).resolve().parents[2] / "CHANGELOG.md"

TREES = {
    "": ("tutorial", "gallery"),
    "Your problem": (
        "users/pulse",
        "users/qubits",
        "users/spins",
        "users/open_chain",
        "users/nmr",
        "users/molecule",
        "users/atom",
        "users/potential",
        "users/plane",
        "users/coming-from",
    ),
    "Notebooks": (
        "notebooks/qoc",
        "notebooks/qoc-from-qutip",
        "notebooks/trotter",
        "notebooks/tridiag",
        "notebooks/sturmian",
        "notebooks/qmc",
    ),
    "How to": (
        "howto/python",
        "howto/figures",
        "howto/devices",
        "howto/sweeps",
        "howto/workflow",
        "howto/cluster",
        "howto/tridiagonal-solver",
        "howto/sturmian-basis",
        "howto/atoms",
        "howto/orbitals",
        "howto/add-method",
        "howto/add-potential",
        "howto/add-estimator",
        "howto/add-observable",
        "howto/add-state",
    ),
    "Theory": (
        "theory/qoc",
        "theory/qoc-models",
        "theory/trotter",
        "theory/tridiag",
        "theory/atom",
        "theory/sturmian",
        "theory/qmc",
        "theory/misprints",
    ),
    "Reference": (
        "reference/cli",
        "reference/decks",
        "reference/deck-changes",
        "reference/results",
        "reference/exit-codes",
        "reference/coverage",
        "reference/promises",
        "reference/reproduced",
        "reference/bench",
        "reference/dependencies",
        "changelog",
    ),
}


def tree(pages: tuple[str, ...], *options: str) -> str:
    """Return a table of contents."""
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", ""])


def added(name: str) -> str:
    """Return what is added to a page."""
    if name == "index":
        return "".join(
            tree(pages, ":hidden:", *([f":caption: {caption}"] if caption else []))
            for caption, pages in TREES.items()
        )
    if name in ("reference/decks", "reference/results"):
        return tree((f"{name.rpartition('/')[2]}/*",), ":glob:", ":maxdepth: 1")
    if name == "reference/cli":
        return "\n```{eval-rst}\n.. click:: qsim.cli:cli\n   :prog: qsim\n   :nested: full\n```\n"
    if name == "howto/add-method":
        start, end = '":start-after: "## How the program is laid out"', ':end-before: "## GPU tests"'
        return f"\n```{{include}} ../../CONTRIBUTING.md\n{start[1:]}\n{end}\n```\n"
    return ""


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Complete a page; that of the changelog is the file itself."""
    if name == "changelog":
        source[0] = CHANGES.read_text(encoding="utf-8").replace("](docs/", "](")
    else:
        source[0] = OUTSIDE.sub(r"`\1`", source[0]) + added(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

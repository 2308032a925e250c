"""Formulas without a network: MathJax is copied into the documentation, with the extensions that it loads when a page needs them.

It comes with the package `sphinx-mathjax-offline`; without that, pages take it from the network.  A build fails if a formula
needs a file that is not there: its reader would see raw TeX.
"""

import re
import shutil
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

SCRIPT = "mathjax/tex-svg.js"
EXTENSIONS = "mathjax/input/tex/extensions"
# In the script: the files that macros and environments load, {boldsymbol:["boldsymbol"],amscd:[[],["CD"]],...}.
AUTOLOAD = re.compile(r"expandable\)\((\{action:\[.*?\]\})\)")
ENTRY = re.compile(r"(\w+):(\[(?:\[[^\]]*\],?)+\]|\[[^\[\]]*\])")


class Formulas(HTMLParser):
    """Reads the formulas of a page: the texts of its elements of the class ``math``."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter an element."""
        if self._inside:
            self._depth += tag == self._inside
        elif "math" in (dict(attrs).get("class") or "").split():
            self._inside, self._depth = tag, 1
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        self._depth -= tag == self._inside
        if self._depth == 0:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        """Keep a text within a formula."""
        if self._inside:
            self.texts[-1] += data


def found() -> Path | None:
    """Return the script in the package, None if that is not installed."""
    spec = find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "static" / SCRIPT
    return path if path.is_file() else None


def autoloaded(script: str) -> dict[str, str]:
    r"""Return the extension that each macro (``\name``) and environment (``name``) of a script loads at its first use."""
    table = AUTOLOAD.search(script)
    if table is None:
        raise ExtensionError(f"{SCRIPT} has no table of extensions that it loads")
    loads: dict[str, str] = {}
    for extension, names in ENTRY.findall(table[1]):
        macros, _, environments = names.partition("],[")
        loads |= {f"\\{name}": extension for name in re.findall(r'"(\w+)"', macros)}
        loads |= {name: extension for name in re.findall(r'"(\w+)"', environments)}
    return loads


def requests(page: str, loads: dict[str, str]) -> set[str]:
    """Return the extensions that the formulas of a page load."""
    reader = Formulas()
    reader.feed(page)
    wanted: set[str] = set()
    for text in reader.texts:
        words = re.findall(r"\\[A-Za-z]+", text) + re.findall(r"\\begin\{(\w+)\*?\}", text)
        wanted |= {loads[word] for word in words if word in loads}
        wanted |= {
            name.strip() for group in re.findall(r"\\require\{([^}]*)\}", text) for name in group.split(",")
        }
    return wanted


def missing(folder: Path) -> Iterator[str]:
    """Yield what pages of a built folder ask for and do not get: page and extension."""
    loads = autoloaded((folder / "_static" / SCRIPT).read_text(encoding="utf-8"))
    for path in sorted(folder.rglob("*.html")):
        for extension in sorted(requests(path.read_text(encoding="utf-8"), loads)):
            if not (folder / "_static" / EXTENSIONS / f"{extension}.js").is_file():
                yield f"{path.relative_to(folder)}: {EXTENSIONS}/{extension}.js"


def copy(app: Sphinx, error: Exception | None) -> None:
    """Put script and extensions where the pages look for them; fail if a page needs more."""
    source = found()
    if error is not None or source is None or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    (static / SCRIPT).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, static / SCRIPT)
    shutil.copytree(source.parents[1] / EXTENSIONS, static / EXTENSIONS, dirs_exist_ok=True)
    if lacking := list(missing(Path(app.outdir))):
        raise ExtensionError("formulas need files that are not there: " + "; ".join(lacking))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    if found() is None:
        logging.getLogger(__name__).info("sphinx-mathjax-offline is not installed: formulas need the network")
    else:
        app.config.mathjax_path = SCRIPT  # type: ignore[attr-defined]
    app.connect("build-finished", copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

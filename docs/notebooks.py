"""Run the notebooks of `docs/notebooks/` and write what they show into pages beside them.

    python docs/notebooks.py                  all notebooks
    python docs/notebooks.py qoc qmc
    python docs/notebooks.py --check qoc      change nothing; fail if a cell fails, or the page shows other cells

A notebook holds no outputs, so that its changes can be read; `NAME.md` has its cells with texts, tables and pictures
(`images/notebooks/`), and reads on a code host as it does in the built documentation.
"""

import argparse
import asyncio
import base64
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "notebooks"
IMAGES = DOCS / "images/notebooks"
SECONDS = 120
"""Limit for a cell; the slowest takes some seconds, the first of a machine compiles."""
ROWS = 24
"""Rows of a table that a page shows."""
TAG = re.compile(r"<(?P<end>/?)(?P<name>table|thead|tbody|tr|th|td)\b[^>]*>")


def executed(name: str) -> nbformat.NotebookNode:
    """Return a notebook with its outputs; it runs in an empty folder."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    return notebook


def page(name: str, notebook: nbformat.NotebookNode) -> tuple[str, dict[str, bytes]]:
    """Return the Markdown of an executed notebook, and its pictures by file name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    note = f"*The cells of [{name}.ipynb]({name}.ipynb) with what they show; to run them yourself: "
    note += "[Python and notebooks](../howto/python.md#notebooks).*"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            if len(parts) == 1:  # below the title
                title, _, rest = cell.source.partition("\n")
                parts = [title, note, rest.strip()]
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            parts += shown(output, name, pictures)
    return "\n\n".join(part for part in parts if part) + "\n", pictures


def shown(output: nbformat.NotebookNode, name: str, pictures: dict[str, bytes]) -> list[str]:
    """Return the Markdown of one output; pictures are added to those of the page."""
    if output.output_type == "stream":
        return [f"```text\n{output.text.rstrip()}\n```"]
    data = output.get("data", {})
    if "image/png" in data:
        file = f"{name}_{len(pictures) + 1}.png"
        pictures[file] = base64.b64decode(data["image/png"])
        return [f"![output of the cell above](../{IMAGES.relative_to(DOCS).as_posix()}/{file})"]
    if "text/html" in data and "<table" in data["text/html"] and "xarray" not in data["text/html"]:
        return tables(data["text/html"])
    return [f"```text\n{data.get('text/plain', '').rstrip()}\n```"]


def tables(html: str) -> list[str]:
    """Return the tables of HTML output in Markdown, the first rows of long ones."""
    found = []
    for table in re.findall(r"<table.*?</table>", html, re.S):
        rows = [
            re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
            for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)
        ]
        rows = [[TAG.sub("", cell).replace("|", "\\|").replace("&gt;", ">") for cell in row] for row in rows]
        head, body = rows[0], rows[1:]
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(row) + " |" for row in body[:ROWS]]
        if len(body) > ROWS:
            lines.append(f"| ... {len(body) - ROWS} more |" + " |" * (len(head) - 1))
        found.append("\n".join(lines))
    return found


def cells(text: str) -> list[str]:
    """Return the code of a page."""
    return re.findall(r"^```python\n(.*?)\n```$", text, re.M | re.S)


def main() -> int:
    """Run notebooks; write or check their pages."""
    parser = argparse.ArgumentParser(description="Run notebooks and write their pages.")
    parser.add_argument("names", nargs="*", help="such as qoc; all by default")
    parser.add_argument("--check", action="store_true", help="change nothing; run, and compare the cells")
    options = parser.parse_args()
    if sys.platform == "win32":  # ZeroMQ needs this loop there
        asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in options.names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        try:
            text, pictures = page(name, executed(name))
        except CellExecutionError as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        target = FOLDER / f"{name}.md"
        if options.check:
            if not target.exists() or cells(target.read_text(encoding="utf-8")) != cells(text):
                print(f"{target} shows other cells; python docs/notebooks.py {name}", file=sys.stderr)
                return 1
            missing = [file for file in pictures if not (IMAGES / file).exists()]
            if missing:
                print(
                    f"{target} lacks {', '.join(missing)}; python docs/notebooks.py {name}", file=sys.stderr
                )
                return 1
            continue
        for old in IMAGES.glob(f"{name}_*.png"):
            old.unlink()
        for file, data in pictures.items():
            (IMAGES / file).write_bytes(data)
        target.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

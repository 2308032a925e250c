"""The directive `run`: a command line, run while the page is built, shown with what it really printed.

    ```{run} qsim validate inputs/qoc/morse.yaml
    ```

All commands of a page run in one folder, `_build/run/<page>`, where `inputs` is the checkout's. Figures made
there can be shown as `/_build/run/<page>/name.png`. The option `exit` gives the expected exit code; `lines`
shows so many lines of the output only.

The commands of a page run one after the other, those of different pages side by side, on as many cores as there are.
"""

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

FENCE = re.compile(r"^ *```\{run\} +(.*?) *$", re.MULTILINE)

Replies = list[subprocess.CompletedProcess[str]]
started: dict[str, Future[Replies]] = {}
"""What the commands of each page that is to be read have given, or will give."""
shown: dict[str, int] = defaultdict(int)
"""How many of them the page has shown already."""


class Run(SphinxDirective):
    """A console block whose output is made by the build."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"exit": directives.nonnegative_int, "lines": directives.positive_int}  # noqa: RUF012 - docutils

    def run(self) -> list[nodes.Node]:
        """Return prompt, command and output as one literal block."""
        command = self.arguments[0]
        page = self.env.docname
        reply = started[page].result()[shown[page]]
        shown[page] += 1
        if reply.args[-1] != command:
            raise self.error(
                f"`{command}` is not what was run, `{reply.args[-1]}`; write it on the line of the fence"
            )
        if reply.returncode != self.options.get("exit", 0):
            raise self.error(f"`{command}` ended with exit code {reply.returncode}:\n{reply.stdout}")
        output = reply.stdout.rstrip().splitlines()
        kept = output[: self.options.get("lines", len(output))]
        text = "\n".join([f"$ {command}", *kept, *(["..."] if len(kept) < len(output) else [])])
        block = nodes.literal_block(text, text, language="console")
        self.set_source_info(block)
        return [block]


def start(app: Sphinx, env: BuildEnvironment, pages: list[str]) -> None:
    """Start the commands of all pages that are to be read, pages with many commands first."""
    commands = {page: FENCE.findall(Path(env.doc2path(page)).read_text(encoding="utf-8")) for page in pages}
    pool = ThreadPoolExecutor(os.cpu_count())
    started.clear()
    shown.clear()
    for page in sorted(pages, key=lambda page: -len(commands[page])):
        started[page] = pool.submit(run_all, Path(app.srcdir), page, commands[page])
    pool.shutdown(wait=False)


def run_all(source: Path, page: str, commands: list[str]) -> Replies:
    """Run the commands of a page in its folder, made anew."""
    folder = source / "_build" / "run" / page
    shutil.rmtree(folder, ignore_errors=True)
    if commands:
        folder.mkdir(parents=True)
        (folder / "inputs").symlink_to(source.parent / "inputs", target_is_directory=True)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return [
        subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env={**os.environ, "PATH": path, "COLUMNS": "100", "QSIM_DEVICE": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command in commands
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("run", Run)
    app.connect("env-before-read-docs", start)
    return {"parallel_read_safe": False, "parallel_write_safe": True}

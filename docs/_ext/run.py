"""The directive `run`: a command line, run while the page is built, shown with what it really printed.

    ```{run} qsim validate inputs/qoc/morse.yaml
    ```

All commands of a page run in one folder, `_build/run/<page>`, where `inputs` is the checkout's. Figures made
there can be shown as `/_build/run/<page>/name.png`. The option `exit` gives the expected exit code; `lines`
shows so many lines of the output only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective


class Run(SphinxDirective):
    """A console block whose output is made by the build."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"exit": directives.nonnegative_int, "lines": directives.positive_int}  # noqa: RUF012 - docutils

    def run(self) -> list[nodes.Node]:
        """Run the command and return prompt, command and output as one literal block."""
        command = self.arguments[0]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        reply = subprocess.run(
            ["bash", "-c", command],
            cwd=work_folder(Path(self.env.srcdir), self.env.docname),
            env={**os.environ, "PATH": path, "COLUMNS": "100", "QSIM_DEVICE": "cpu"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if reply.returncode != self.options.get("exit", 0):
            raise self.error(f"`{command}` ended with exit code {reply.returncode}:\n{reply.stdout}")
        output = reply.stdout.rstrip().splitlines()
        shown = output[: self.options.get("lines", len(output))]
        text = "\n".join([f"$ {command}", *shown, *(["..."] if len(shown) < len(output) else [])])
        block = nodes.literal_block(text, text, language="console")
        self.set_source_info(block)
        return [block]


def work_folder(source: Path, page: str) -> Path:
    """Return the folder in which the commands of a page run, made if missing."""
    folder = source / "_build" / "run" / page
    folder.mkdir(parents=True, exist_ok=True)
    decks = folder / "inputs"
    if not decks.exists():
        decks.symlink_to(source.parent / "inputs", target_is_directory=True)
    return folder


def forget(_app: Sphinx, env: BuildEnvironment, page: str) -> None:
    """Remove what an earlier build of a page made, before the page is read again."""
    shutil.rmtree(Path(env.srcdir) / "_build" / "run" / page, ignore_errors=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("run", Run)
    app.connect("env-purge-doc", forget)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

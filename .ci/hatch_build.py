"""Build hook: the commit goes into wheel and source distribution, so that results of an installed qsim name it."""

import subprocess
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "qsim/_commit.txt"


class CommitHook(BuildHookInterface):
    """Adds `qsim/_commit.txt` to what is built; an editable installation asks git itself."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Write the file, from git or from the source distribution that is being built."""
        if version == "editable":
            return
        kept = Path(self.root) / NAME
        commit = kept.read_text(encoding="utf-8") if kept.is_file() else self._asked()
        if commit and not kept.is_file():
            self.folder = tempfile.TemporaryDirectory()
            made = Path(self.folder.name) / "commit.txt"
            made.write_text(commit, encoding="utf-8")
            build_data["force_include"][str(made)] = NAME

    def _asked(self) -> str:
        """Return the commit of the checkout, with ``-dirty`` if it was edited; empty if it is none."""
        if not (Path(self.root) / ".git").exists():
            return ""
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.SubprocessError):
            return ""

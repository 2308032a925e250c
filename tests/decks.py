"""Decks of the tests: written as mappings, run through the same stages as those of users."""

import re
from pathlib import Path

import pytest
import yaml

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.core.run import pipeline
from qsim.core.run.pipeline import Options
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage


class Decks:
    """Writes decks of one method into a folder and runs them, whole or stage by stage."""

    def __init__(self, method: str, folder: Path) -> None:
        self.method, self.folder = method, folder

    def write(self, name: str = "deck", **blocks) -> Path:
        """Write ``<name>.yaml`` with the given blocks and return its path."""
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({"method": self.method, **blocks}, sort_keys=False), encoding="utf-8")
        return path

    def load(self, **blocks):
        """Load a deck and apply the checks of the plan, as before a run."""
        loaded = load_deck(self.write(**blocks), stage(self.method, "deck").DECK)
        loaded.raise_for(stage(self.method, "build").plan(loaded).findings)
        return loaded

    def refuses(self, pattern, **blocks):
        """Assert that a deck is refused before any work, with the place and this message, and return all diagnostics."""
        with pytest.raises(DeckError) as caught:
            self.load(**blocks)
        lines = str(caught.value).splitlines()
        assert any(re.search(rf"deck\.yaml:\d+:\d+: .*{pattern}", line) for line in lines), lines
        assert caught.value.exit_code == 3
        return caught.value.diagnostics

    def warns(self, pattern, **blocks):
        """Assert that the plan of a deck warns with the place and this message."""
        lines = [text.replace(": warning: ", ": ") for text in self.load(**blocks).warnings]
        assert any(re.search(rf"deck\.yaml:\d+:\d+: .*{pattern}", line) for line in lines), lines

    def build(self, device=None, **blocks):
        """Return the problem of a deck."""
        return stage(self.method, "build").build(self.load(**blocks), device or cpu(1))

    def run(self, monitor=None, device=None, **blocks):
        """Return the result of a deck; nothing is written."""
        return stage(self.method, "run").run(self.build(device, **blocks), monitor or Monitor.silent())

    def execute(self, name="deck", options=(), **blocks):
        """Run a deck as the command line does, without figures; return its summary."""
        settings = {
            "figures": False,
            "verbosity": -1,
            "output": self.folder,
            "device": "cpu",
            **dict(options),
        }
        return pipeline.execute(self.method, self.write(name, **blocks), Options(**settings)).summary

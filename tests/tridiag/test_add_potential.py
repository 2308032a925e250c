"""The potential of docs/howto/add-potential.md: its file alone makes it a part of the deck, and its test passes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/howto/add-potential.md"
BLOCKS = re.findall(r"^```python\n# (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the package with the files of the page."""
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "qsim", folder / "qsim", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in BLOCKS:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def run(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_the_page_has_a_file_and_a_test():
    assert [name.partition("/")[0] for name, _ in BLOCKS] == ["qsim", "tests"]
    assert not (ROOT / BLOCKS[0][0]).exists()


def test_the_file_is_all_that_the_deck_needs(copy):
    shown = re.search(r"^```text\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    deck = yaml.safe_load((ROOT / "inputs/tridiag/eckart.yaml").read_text(encoding="utf-8"))
    deck |= yaml.safe_load(shown[1])
    (copy / "well.yaml").write_text(yaml.safe_dump(deck), encoding="utf-8")
    reply = run(copy, "-m", "qsim", "validate", "well.yaml")
    assert reply.returncode == 0, reply.stdout + reply.stderr
    schema = json.loads(run(copy, "-m", "qsim", "schema", "tridiag").stdout)
    assert schema["$defs"]["WoodsSaxon"]["properties"]["radius"]["description"].startswith(
        "distance at which"
    )
    deck["potential"]["a"] = -1.0
    (copy / "wrong.yaml").write_text(yaml.safe_dump(deck), encoding="utf-8")
    wrong = run(copy, "-m", "qsim", "validate", "wrong.yaml")
    assert wrong.returncode != 0
    assert re.search(r"wrong\.yaml:\d+:\d+: .*found -1", wrong.stdout + wrong.stderr)


def test_the_test_of_the_page_passes(copy):
    reply = run(copy, "-m", "pytest", "-q", "-p", "no:cacheprovider", BLOCKS[1][0])
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert "2 passed" in reply.stdout

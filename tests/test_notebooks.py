"""The notebooks of the documentation run, and the pages beside them show their cells."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qsim import methods

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/notebooks"


def test_every_method_has_a_notebook_without_outputs():
    # further ones are named after their method first
    named = {path.stem.partition("-")[0] for path in FOLDER.glob("*.ipynb")}
    assert named == set(methods.available())
    assert all((FOLDER / f"{method}.ipynb").exists() for method in named)
    for path in FOLDER.glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells), path
        page = path.with_suffix(".md").read_text(encoding="utf-8")
        shown = re.findall(r"^```python\n(.*?)\n```$", page, re.M | re.S)
        assert shown == ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"], path
        assert page.count("](../images/notebooks/") >= 2


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.ipynb")))
def test_a_notebook_runs(name, tmp_path):
    """From its first cell to its last, in a kernel of its own; cells hold assertions on known values."""
    pytest.importorskip("nbclient", reason="nbclient is not installed; the extra 'test' brings it")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed; the extra 'test' brings it")
    own = {"IPYTHONDIR": "ipython", "JUPYTER_RUNTIME_DIR": "jupyter", "JUPYTER_CONFIG_DIR": "config"}
    reply = subprocess.run(
        [sys.executable, ROOT / "docs/notebooks.py", "--check", name],
        env={
            **os.environ,
            **{key: str(tmp_path / value) for key, value in own.items()},
            "QSIM_DEVICE": "cpu",
        },
        capture_output=True,
        text=True,
    )
    assert reply.returncode == 0, reply.stderr

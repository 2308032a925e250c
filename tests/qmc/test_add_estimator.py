"""The page on estimators: its file, put beside the others, measures what its deck asks for."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/howto/add-estimator.md").read_text(encoding="utf-8")
RUN = """
import json, sys
import qsim.qmc.estimators
qsim.qmc.estimators.__path__.append(sys.argv[1])
import qsim
results = qsim.run(sys.argv[2], output=sys.argv[1])
found = [results["series_0/square_radius"].tolist(), results["series_0/square_radius_error"].tolist()]
print(json.dumps(found))
"""


def block_of(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_file_of_the_page_measures(tmp_path):
    (tmp_path / "square_radius.py").write_text(block_of("python"), encoding="utf-8")
    deck = tmp_path / "hydrogen.yaml"
    deck.write_text(block_of("text"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path), str(deck)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (up, down), (error, none) = json.loads(done.stdout.splitlines()[-1])
    assert up == pytest.approx(3.0, abs=5 * error)
    assert 0.0 < error < 0.1
    assert (down, none) == (0.0, 0.0)  # there is no such electron

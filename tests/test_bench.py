"""The bench: every case can be imported and is listed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_cases_of_every_method_are_listed():
    command = [sys.executable, "bench/run.py", "--list"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    names = [line.split()[0] for line in found.stdout.splitlines()]
    assert len(names) == len(set(names))
    for method in ("qoc", "trotter", "tridiag", "sturmian", "qmc"):
        assert [name for name in names if name.startswith(f"{method}-")], method


@pytest.mark.mpi
def test_a_case_on_ranks_has_the_model_beside_each_row(tmp_path):
    pytest.importorskip("mpi4py")
    file = tmp_path / "ranks.json"
    command = [
        sys.executable, "bench/run.py", "tridiag-ranks-[we]*", "--ranks", "1,2", "--quick", "--json", str(file)
    ]  # fmt: skip
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    cases = json.loads(file.read_text())["cases"]
    assert [entry["case"] for entry in cases] == ["tridiag-ranks-weak", "tridiag-ranks-exact"]
    for entry in cases:
        assert [row["ranks"] for row in entry["rows"]] == [1, 2]
        alone, two = entry["rows"]
        assert alone["efficiency"] == 1.0
        assert alone["model_seconds"] == alone["seconds"]
        assert two["model_seconds"] > alone["seconds"]  # weak scaling: the same work, and messages besides
        assert two["bytes"] > 0


def test_ranks_that_make_no_sense_are_refused():
    command = [sys.executable, "bench/run.py", "--ranks", "1,many"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 2

"""The bench: every case can be imported and is listed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_cases_of_every_method_are_listed():
    command = [sys.executable, "bench/run.py", "--list"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    names = [line.split()[0] for line in found.stdout.splitlines()]
    assert len(names) == len(set(names))
    for method in ("qoc", "trotter", "tridiag", "sturmian", "qmc"):
        assert [name for name in names if name.startswith(f"{method}-")], method

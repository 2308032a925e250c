"""Every kind of fault, injected for real; `--exhaustive` injects more of each."""

import subprocess
import sys

import pytest

from tests.faults import inject
from tests.faults.inject import KINDS, ROOT, SUBJECTS

FEW = 1
MANY = 8
TWICE = {"stop signals before the work", "files, folders, links, pipes in the way"}


@pytest.mark.skipif(sys.platform != "linux", reason="faults are injected by means of Linux")
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_survives(kind):
    found = [inject.inject(kind, number, seed=2) for number in range(FEW + (kind in TWICE))]
    assert not any(found)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="faults are injected by means of Linux")
@pytest.mark.parametrize("number", range(MANY))
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_survives_more(kind, number):
    assert inject.inject(kind, number, seed=3) == ""


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="faults are injected by means of Linux")
@pytest.mark.parametrize("method", [method for method in SUBJECTS if method != "counter"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_every_method_survives(kind, method):
    assert inject.inject(kind, 0, seed=4, method=method) == ""


def test_two_runs_differ_in_what_measures_the_machine_alone(tmp_path):
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        case = inject.Case(tmp_path / name, None)
        assert case.run().code == 0
        found.append(inject.numbers(case.folder / "deck.h5"))
    assert inject.other_numbers(*found) == []
    assert "scalar rate" not in found[0], "a speed"
    assert inject.other_numbers({**found[0], "value": found[0]["value"] + 1e-15}, found[1]) == ["value"]


def test_the_verdict_sees_what_is_wrong(tmp_path):
    """A harness that finds nothing must be able to find something."""
    case = inject.Case(tmp_path, None)
    good = inject.Ended(0, "", "")
    assert "without results" in inject.verdict(case, good)
    assert "exit code 139" in inject.verdict(case, inject.Ended(-11 % 150, "", ""))
    assert "exit code 1" in inject.verdict(case, inject.Ended(1, "", ""))
    assert "traceback" in inject.verdict(case, inject.Ended(6, "", "Traceback (most recent call last)"))
    (tmp_path / "deck.h5.me-1.part").write_text("")
    assert "left over" in inject.verdict(case, inject.Ended(6, "", ""))


def test_the_table_is_printed():
    command = [
        sys.executable,
        str(ROOT / "tests/faults/inject.py"),
        "--count",
        "1",
        "--kind",
        "temporary files",
        "--method",
        "counter",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "| temporary files of others | 1 of 1 |"

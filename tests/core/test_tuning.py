"""The cache of tuned choices: kept, found again, and harmless whatever becomes of its file."""

import json
import os
from pathlib import Path

import pytest

from qsim.core.device import tuning
from qsim.core.device.device import cpu

PROBLEM = {"spins": 20, "dtype": "complex128"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("QSIM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_choice_is_found_again(folder):
    device = cpu(2)
    assert tuning.recall("trotter", device, PROBLEM) is None
    assert tuning.remember("trotter", device, PROBLEM, "14+6/14") == folder / "tuning.json"
    tuning.remember("trotter", device, {**PROBLEM, "spins": 21}, [1, {"a": 2.5}])
    assert tuning.recall("trotter", device, PROBLEM) == "14+6/14"
    assert tuning.recall("trotter", device, {**PROBLEM, "spins": 21}) == [1, {"a": 2.5}]
    tuning.remember("trotter", device, PROBLEM, "13")
    assert tuning.recall("trotter", device, PROBLEM) == "13"
    assert [path.name for path in folder.iterdir()] == ["tuning.json"]


def test_what_a_choice_depends_on(folder, monkeypatch):
    """Method, device (its threads, too), problem and version; the order of the problem's numbers does not matter."""
    tuning.remember("trotter", cpu(1), PROBLEM, "x")
    assert tuning.recall("trotter", cpu(1), dict(reversed(PROBLEM.items()))) == "x"
    assert tuning.recall("tridiag", cpu(1), PROBLEM) is None
    assert tuning.recall("trotter", cpu(2), PROBLEM) is None
    assert tuning.recall("trotter", cpu(1), {**PROBLEM, "dtype": "complex64"}) is None
    monkeypatch.setattr(tuning, "__version__", "99")
    assert tuning.recall("trotter", cpu(1), PROBLEM) is None


def test_drivers_are_part_of_the_key(folder, monkeypatch):
    about = {"driver": "580.1", "cuda_runtime": "13.0", "cupy": "14.0"}
    monkeypatch.setattr("qsim.core.device.device.Device.describe", lambda self: about)
    tuning.remember("trotter", cpu(1), PROBLEM, "x")
    key = next(iter(json.loads((folder / "tuning.json").read_text())["entries"]))
    assert "driver 580.1; cuda_runtime 13.0; cupy 14.0" in key
    about["driver"] = "590"
    assert tuning.recall("trotter", cpu(1), PROBLEM) is None


def test_where_the_file_is():
    assert tuning.file({"QSIM_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a/tuning.json")
    assert tuning.file({"XDG_CACHE_HOME": "/b"}) == Path("/b/qsim/tuning.json")
    assert tuning.file({}) == Path.home() / ".cache/qsim/tuning.json"


def test_without_a_home(folder, monkeypatch):
    def nobody():
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", nobody)
    assert tuning.file({}) is None
    monkeypatch.delenv("QSIM_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert tuning.remember("trotter", cpu(1), PROBLEM, "x") is None
    assert tuning.recall("trotter", cpu(1), PROBLEM) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"format": 1}',
        b'{"format": 1, "entries": [1]}',
        b'{"format": 2, "entries": {}}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_replaced(folder, content):
    folder.mkdir()
    (folder / "tuning.json").write_bytes(content)
    assert tuning.recall("trotter", cpu(1), PROBLEM) is None
    assert tuning.remember("trotter", cpu(1), PROBLEM, "x") is not None
    assert tuning.recall("trotter", cpu(1), PROBLEM) == "x"


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("QSIM_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert tuning.remember("trotter", cpu(1), PROBLEM, "x") is None
    assert tuning.recall("trotter", cpu(1), PROBLEM) is None


def test_a_failed_write_leaves_the_old_file(folder, monkeypatch):
    tuning.remember("trotter", cpu(1), PROBLEM, "x")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert tuning.remember("trotter", cpu(1), PROBLEM, "y") is None
    assert tuning.recall("trotter", cpu(1), PROBLEM) == "x"
    assert [path.name for path in folder.iterdir()] == ["tuning.json"]


@pytest.mark.parametrize(
    ("value", "on"), [("", True), ("on", True), ("off", False), (" OFF ", False), ("0", False)]
)
def test_it_can_be_switched_off(value, on):
    assert tuning.enabled({"QSIM_TUNE": value}) == on
    assert tuning.enabled({})
    assert not tuning.enabled(os.environ)  # in these tests

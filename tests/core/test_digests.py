"""Digests of data files: the whole content counts, however large a file is."""

import hashlib
import os

import pytest

from qsim.core.deck import blocks


@pytest.mark.parametrize("large", [2**40, 100])
def test_a_change_in_the_middle_of_a_file_of_the_same_size_and_time_is_seen(tmp_path, monkeypatch, large):
    monkeypatch.setattr(blocks, "_LARGE", large)
    path, content = tmp_path / "x.csv", bytearray(3 * 2**20 + 7)
    path.write_bytes(content)
    os.utime(path, (1e9, 1e9))
    assert blocks._digest(path) == hashlib.sha256(content).hexdigest()
    content[2**20 + 11] = 1
    with path.open("r+b") as file:
        file.seek(2**20 + 11)
        file.write(b"\1")
    os.utime(path, (1e9, 1e9))
    assert blocks._digest(path) == hashlib.sha256(content).hexdigest()


def test_a_large_file_is_read_once(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_LARGE", 100)
    path = tmp_path / "x.csv"
    path.write_bytes(bytes(1000))
    first = blocks._digest(path)
    monkeypatch.setattr(hashlib, "sha256", None)
    assert blocks._digest(path) == first
    assert blocks._digest(tmp_path / "no") == "missing"

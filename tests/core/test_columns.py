"""The reader of columns of numbers: what it takes, what it refuses and where, input that never ends, curves."""

import gzip
import os

import numpy as np
import pytest

from qsim.core.deck import columns
from qsim.core.deck.columns import (
    by_first_column,
    read_columns,
    read_complex_columns,
    read_rows,
    smooth_curve,
)
from qsim.core.errors import FileError

TWO = np.array([[1.0, 2.0], [3.0, -4.5e-3]])


def file(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [
        "1 2\n3 -4.5e-3",
        "1,2\n3,-4.5e-3\n",
        "1;2\n3 ; -4.5e-3\n",
        "\ufeff1\t2\r\n3\t-4.5e-3\r\n",
        "\ufeff# made today\nt, field\n\n1, 2 # here\n  % nothing\n3, -4.5e-3 % there\n",
        "time field\n(a.u.) (a.u.)\n1 2\n3 -4.5e-3\n",
        "time (a.u.), field 1\n1 2\n3 -4.5e-3\n",
        "1 2,\n3 -4.5e-3,\n",
        "1 2 7\n3 -4.5e-3 word\n",
        "1\r2\r".replace("\r", " ", 1) + "3 -4.5e-3\r",
        gzip.compress(b"# packed\n1 2\n3 -4.5e-3\n", mtime=0),
    ],
)
def test_the_same_numbers_in_every_form(tmp_path, content):
    assert read_columns(file(tmp_path, content), 2, "t, field").tolist() == TWO.tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"t.csv holds no numbers; expected 2 columns of numbers \(t, field\)"),
        ("t, field\n# nothing\n", "holds no numbers"),
        ("a b\nc d\ne f\n1 2\n", "t.csv:3: 'e' is not a finite number"),
        ("1 2\n3 4x\n", "t.csv:2: '4x' is not a finite number"),
        ("0.0, 1.5e\n1 2\n", "t.csv:1: '1.5e' is not a finite number"),
        ("x.0, 1.5\n1 2\n", "t.csv:1: 'x.0' is not a finite number"),
        ("1 2\n3 inf\n", "t.csv:2: 'inf' is not a finite number"),
        ("1 2\n3 nan\n", "t.csv:2: 'nan'"),
        ("1 2\n3 1e400\n", "t.csv:2: '1e400'"),
        ("1 2\n3\n", "t.csv:2: expected 2 numbers .*, found '3'"),
        ("1 2\n3,,4,5\n", "t.csv:2: a number is missing between two separators"),
        ("1 2\n,3,4\n", "t.csv:2: a number is missing"),
        (b"1 2\n3 \xff4\n", "t.csv:2: byte 0xff is not UTF-8 text"),
        (b"1 2\n3 \x004\n", r"t.csv:2: '\\x004' is not a finite number"),
        ("1 2\n" + "9" * 5000 + " 3\n", r"t.csv:2: '9{70,80} \.\.\. is not a finite number"),
        (gzip.compress(b"1 2\n3 4\n", mtime=0)[:-9], "t.csv cannot be read: "),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path, content, message):
    with pytest.raises(FileError, match=message) as caught:
        read_columns(file(tmp_path, content), 2, "t, field")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_rows_of_allowed_lengths(tmp_path):
    path = file(tmp_path, "j k J\n0 1 0.5\n1, 2, 1, 2, 3\n")
    assert read_rows(path, "j, k, J", (3, 5)) == [[0.0, 1.0, 0.5], [1.0, 2.0, 1.0, 2.0, 3.0]]
    with pytest.raises(FileError, match=r"t.csv:3: 5 columns, expected 3 \(j, k, J\)"):
        read_rows(path, "j, k, J", (3,))
    with pytest.raises(FileError, match=r"t.csv:3: 5 columns, but 3 in the lines before"):
        read_rows(path, "j, k, J")


def test_complex_numbers(tmp_path):
    path = file(tmp_path, "1+2j, 3\n(4-1j) 0.5i\n")
    assert read_complex_columns(path, "d").tolist() == [[1 + 2j, 3], [4 - 1j, 0.5j]]
    real = read_complex_columns(file(tmp_path, "1 2+0j\n3 4\n"), "d")
    assert real.dtype == np.float64
    with pytest.raises(FileError, match="t.csv:1: 'nanj' is not a finite number"):
        read_complex_columns(file(tmp_path, "1 nanj\n"), "d")


def test_rows_may_be_checked(tmp_path):
    with pytest.raises(FileError, match="t.csv:2: too small"):
        read_columns(file(tmp_path, "5\n2\n"), 1, "x", check=lambda row: "too small" if row[0] < 3 else "")


# ------------------------------------------------------------------------------- input that never ends


def test_pipes_and_devices_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: opening it would wait for ever
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("zero", "a device"), (".", "a folder")):
        with pytest.raises(FileError, match=f"is {kind}, not a file; expected 2 columns"):
            read_columns(tmp_path / name, 2, "x, y")
    with pytest.raises(FileError, match="does not exist"):
        read_columns(tmp_path / "none", 2, "x, y")


def test_lines_and_files_have_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "MAX_LINE", 1000)
    monkeypatch.setattr(columns, "MAX_TEXT", 5000)
    with pytest.raises(FileError, match="t.csv:2: a line of more than 1000 bytes"):
        read_columns(file(tmp_path, "1 2\n" + "0" * 2000), 2, "x, y")
    with pytest.raises(FileError, match="more than 5000 bytes of text; store large tables as .npz or HDF5"):
        read_columns(file(tmp_path, gzip.compress(b"1 2\n" * 2000)), 2, "x, y")


def test_a_hole_of_a_gigabyte_is_refused_after_a_line(tmp_path):
    path = file(tmp_path, "1 2\n")
    os.truncate(path, 2**30)
    with pytest.raises(FileError, match="t.csv:2: a line of more than"):
        read_columns(path, 2, "x, y")


def test_more_numbers_than_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "free_host_memory", lambda: 100_000)
    with pytest.raises(FileError, match="no memory for more"):
        read_columns(file(tmp_path, "1 2\n" * 70_000), 2, "x, y")


# --------------------------------------------------------------------------------------------- curves


def test_tables_are_sorted_and_need_distinct_points(tmp_path):
    table = np.array([[3.0, 1], [1, 2], [2, 3], [0, 4]])
    assert by_first_column("t", table, "x")[:, 0].tolist() == [0, 1, 2, 3]
    with pytest.raises(FileError, match="t: .* at least 4 rows with distinct x, found 3 rows"):
        by_first_column("t", table[:3], "x")
    with pytest.raises(FileError, match="t: .* distinct x, but x = 1 is repeated"):
        by_first_column("t", np.array([[1.0, 1], [1, 2], [2, 3], [0, 4]]), "x")


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([0, 1, 2, 3], [0, 1e308, -1e308, 1e308]),
        ([0, 1e-300, 2e-300, 1], [0, 1e9, 0, 1]),
        ([0, 1, 2, 3], [0, np.inf, 0, 1]),
    ],
)
def test_curves_that_no_spline_follows_are_refused(x, y):
    with pytest.raises(FileError, match="v.csv: no spline in double precision"):
        smooth_curve("v.csv", np.array(x, float), np.array(y, float))


# --- nothing is read that is known to be wrong ----------------------------------------------------


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("0 1\n0 2\n", "t:2: a table needs distinct x, but x = 0 is repeated"),
        ("3 1\n1 1\n1 2\n", "t:3: a table needs distinct x, but x = 1 is repeated"),
        ("\n" * 100_002, "t:100001: 100000 empty lines"),
        ("1 2\n" + "# no\n" * 100_002, "t:100002: 100000 lines without numbers"),
        ("".join(f"{k} 1\n" for k in range(60)), "t:51: more than 50 rows"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_what_follows_a_mistake_is_not_read(tmp_path, monkeypatch, head, message, packed):
    """The file ends with a byte that is no text: whoever reads to the end finds that."""
    monkeypatch.setattr(columns, "MAX_CURVE", 50)
    content = head.encode() + b"\xff\n"
    (tmp_path / "t").write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FileError, match=message):
        read_columns(tmp_path / "t", 2, "x, y", distinct="x")


def test_rows_beyond_the_number_wanted_are_not_read(tmp_path):
    (tmp_path / "t").write_bytes(b"1\n2\n3\n\xff\n")
    with pytest.raises(FileError, match="t:3: more than 2 rows; expected columns of numbers"):
        read_rows(tmp_path / "t", "value", (1,), most=2)

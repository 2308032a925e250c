"""Text for a terminal: control characters, JSON, long values, errors of libraries."""

import json

import click
import pytest
from click.testing import CliRunner

from qsim.cli.terminal import columns
from qsim.core.errors import DeckError, Diagnostic, FileError
from qsim.core.text import json_text, long_time, printable, reason, rough_time, shorten, with_error

NASTY = "\x1b]0;pwned\a\x1b[2J \u202eevil\u200b \x9b1m \x7f \x85\u2028"


@pytest.mark.parametrize("text", ["", "plain", "Grüße, 日本語 µ ½ 😀", "narrow\u202fspace\xa0kept"])
def test_harmless_text_stays(text):
    assert printable(text) == text


def test_control_characters_are_escaped():
    assert printable("\x1b[2J\a\0") == r"\x1b[2J\x07\x00"
    assert printable("a\u202eb\u200dc\x9b") == r"a\u202eb\u200dc\x9b"
    assert printable("half \udc80 pair") == r"half \udc80 pair"
    assert printable("a\nb\tc") == r"a\nb\tc"
    assert printable("a\nb\tc", newlines=True) == "a\nb\\tc"
    assert printable(NASTY).isprintable()


def test_json_for_a_terminal_is_the_same_json():
    content = {"title": NASTY + "\ud800 \U000e0001 ü", "list": ["\n", "\\"]}
    text = json_text(content)
    assert json.loads(text) == content
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "ü" in text


def test_errors_and_tables_are_printable():
    error = FileError(f"{NASTY}\nsecond line", hint=NASTY)
    assert str(error).isprintable()  # a line break may be that of a name
    assert error.hint.isprintable()
    problem = Diagnostic("d.yaml", 1, 1, NASTY, NASTY, source=NASTY)
    assert str(DeckError(problem)).isprintable()
    assert str(DeckError([problem, problem])).count("\n") == 1
    assert problem.excerpt().replace("\n", "").isprintable()
    assert columns([("title", NASTY), ("more", NASTY)]).replace("\n", "").isprintable()


def test_control_characters_of_results_reach_no_terminal(tmp_path, monkeypatch):
    from qsim.cli import cli
    from qsim.core.results.tables import Scalar, Table
    from qsim.core.results.writing import Content, write_results

    path = tmp_path / "a.h5"
    nasty = NASTY.replace("\0", "")
    write_results(
        path,
        Content(
            method="qoc",
            title=nasty,
            status=nasty,
            tables=[Table("time", ("time",), nasty, nasty)],
            arrays={"time": [0.0, 1.0]},
            scalars={"word": Scalar(nasty, nasty, description=nasty)},
            provenance={"deck_text": nasty, "device": nasty, "deck": {}},
        ),
    )
    for arguments in (["show"], ["show", "--json"], ["compare", "--all", str(path)], ["plot"]):
        done = CliRunner().invoke(cli, [arguments[0], str(path), *arguments[1:]])
        text = click.unstyle(done.stdout) + done.stderr
        assert all(c.isprintable() or c == "\n" for c in text), arguments
    exact = CliRunner().invoke(cli, ["show", "--deck", str(path)])
    assert "\u202eevil\u200b" in exact.stdout  # a file gets it as it was
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda stream: True, raising=False)
    shown = CliRunner().invoke(cli, ["show", "--deck", str(path)])
    assert shown.stdout.replace("\n", "").isprintable()


def test_long_values_are_shortened():
    assert shorten("x" * 80) == "x" * 80
    assert shorten("x" * 1000) == "x" * 76 + " ..."
    assert len(shorten("x" * 1000, 20)) == 20


def test_errors_of_hdf5_are_one_line_without_addresses():
    text = (
        "[Errno 5] Can't synchronously read data (file read failed: time = Sat Nov  1 10:00:00 2025\n"
        ", filename = 'a.h5', file descriptor = 5, errno = 5, error message = 'Input/output error', "
        "buf = 0x55d0c0ffee, total read size = 8, bytes this sub-read = 8, offset = 0)"
    )
    assert reason(OSError(text)) == "input/output error"
    assert reason(OSError("a\n  b, buf = 0x1234abcd, c")) == "a b, c"
    assert reason(KeyError("no 'x'")) == "no 'x'"
    assert reason(MemoryError()) == "it does not fit into memory"
    assert reason(ValueError("x" * 9000)).endswith(" ...")
    assert reason(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-2.90243, 0.00123, "-2.9024(12)"),
        (0.0346, 0.0088, "0.0346(88)"),
        (12.0, 130.0, "12(130)"),
        (1.0, 0.0999, "1.000(100)"),
        (2.0, 0.0, "2"),
        (-17.1, float("nan"), "-17.1"),
    ],
)
def test_errors_in_parentheses(value, error, text):
    assert with_error(value, error) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (90.0, "1.5 minutes"),
        (2.0 * 3600.0, "2.0 hours"),
        (12.3 * 86400.0, "12 days"),
        (3.0 * 365.25 * 86400.0, "3.0 years"),
        (1e6 * 365.25 * 86400.0, "1e+06 years"),
    ],
)
def test_long_times_in_words(seconds, text):
    assert long_time(seconds) == rough_time(seconds) == text


def test_short_times_in_words():
    assert rough_time(8.3) == "8 s"
    assert rough_time(0.034) == "0.03 s"

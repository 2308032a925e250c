"""The error tree: exit codes, messages, and survival across process borders."""

import pickle
import re
from pathlib import Path

import pytest

from qsim.core import errors

CODES = {
    errors.QsimError: 1,
    errors.DeckError: 3,
    errors.DeviceError: 4,
    errors.MemoryLimitError: 4,
    errors.NoGpuError: 4,
    errors.NumericsError: 5,
    errors.FileError: 6,
    errors.MismatchError: 7,
    errors.Stopped: 75,
    errors.Interrupted: 130,
}
DIAGNOSTIC = errors.Diagnostic("a.yaml", 3, 5, "grid.points", "expected a whole number", source="  pts: x")


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda value: getattr(value, "__name__", value))
def test_exit_code_is_the_documented_one(kind, code):
    assert kind.exit_code == code
    assert issubclass(kind, errors.QsimError)
    drawn = dict(re.findall(r"── (\w+)\s+(\d+)", errors.__doc__))
    drawn["MemoryLimitError"] = drawn["NoGpuError"] = "4"
    assert drawn[kind.__name__] == str(code)


def test_every_error_is_in_the_table_above():
    defined = {
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.QsimError)
    }
    assert defined == set(CODES)


def test_problem_reads_like_a_compiler_message():
    assert str(DIAGNOSTIC) == "a.yaml:3:5: grid.points: expected a whole number"
    warning = errors.Diagnostic("a.yaml", 1, 1, "", "odd", severity="warning")
    assert str(warning) == "a.yaml:1:1: warning: odd"


def test_excerpt_puts_the_caret_below_the_column():
    line, caret = DIAGNOSTIC.excerpt().split("\n")
    assert line.endswith("pts: x")
    assert caret.index("^") == line.index("s: x")
    assert errors.Diagnostic("a", 1, 1, "", "x").excerpt() == ""


def test_excerpt_keeps_tabs_so_that_the_caret_lines_up():
    problem = errors.Diagnostic("a", 1, 3, "", "x", source="\t\tb")
    assert problem.excerpt().split("\n")[1].endswith("|  \t\t^".replace("|  ", "| "))


def test_deck_error_lists_all_its_problems():
    other = errors.Diagnostic("a.yaml", 9, 1, "", "another")
    error = errors.DeckError([DIAGNOSTIC, other])
    assert str(error).split("\n") == [str(DIAGNOSTIC), str(other)]
    assert error.diagnostics == (DIAGNOSTIC, other)
    assert errors.DeckError(DIAGNOSTIC).diagnostics == (DIAGNOSTIC,)


def test_deck_error_of_a_text_has_no_problems():
    error = errors.DeckError("changed keys: grid", hint="use --allow-changes")
    assert (str(error), error.diagnostics, error.hint) == ("changed keys: grid", (), "use --allow-changes")


def test_stopped_names_its_checkpoint():
    error = errors.Stopped("run.ckpt.h5")
    assert error.checkpoint == Path("run.ckpt.h5")
    assert "run.ckpt.h5" in str(error)
    assert "--resume" in error.hint
    assert str(errors.Stopped("a", "walltime reached")) == "walltime reached"


@pytest.mark.parametrize(
    "error",
    [
        errors.QsimError("a", hint="b"),
        errors.DeckError([DIAGNOSTIC], hint="b"),
        errors.Stopped("run.ckpt.h5", "walltime", hint="c"),
        errors.Interrupted(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)

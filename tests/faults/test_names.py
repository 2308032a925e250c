"""Names with control characters: nothing is written under them, and none reaches a terminal as it is."""

import os
import shutil
from pathlib import Path

import click.testing
import pytest

from qsim.core.errors import FileError
from qsim.core.results.atomic import write_text
from qsim.core.sweeps.array import write_array
from qsim.core.sweeps.folder import Sweep, prepare
from qsim.core.sweeps.values import Axis
from qsim.core.text import has_controls

EVIL = "a\x1b[2J\x9b1m\nrm -rf x"
LINES = [
    ["counter", f"{EVIL}.yaml"],
    ["counter", f"{EVIL}.yaml", "--resume"],
    ["counter", "deck.yaml", "-o", f"{EVIL}.h5"],
    ["counter", "deck.yaml", "-o", f"{EVIL}/run.h5"],
    ["counter", "deck.yaml", "-o", "evil"],
    ["counter", "deck.yaml", "--set", f"output.file={EVIL!r}"],
    ["counter", "deck.yaml", "--set", EVIL],
    ["counter", "deck.yaml", "--figures", EVIL],
    ["counter", "deck.yaml", f"--{EVIL}"],
    ["counter", "deck.yaml", "--device", EVIL],
    ["counter", "deck.yaml", "--format", EVIL],
    ["counter", f"no{EVIL}.yaml"],
    [EVIL],
    [f"{EVIL}.yaml"],
    [f"--{EVIL}"],
    ["init", EVIL],
    ["init", "tridiag", "--task", EVIL],
    ["init", "tridiag", "--example", EVIL],
    ["examples", EVIL],
    ["examples", "he_ground", "-o", EVIL],
    ["validate", f"{EVIL}.yaml"],
    ["validate", f"no{EVIL}.yaml"],
    ["show", f"{EVIL}.h5"],
    ["show", f"no{EVIL}.h5"],
    ["plot", f"{EVIL}.h5"],
    ["plot", f"{EVIL}.h5", "-o", "evil"],
    ["plot", "run.h5", EVIL],
    ["plot", "run.h5", "-o", EVIL],
    ["plot", "run.h5", "--style", EVIL],
    ["plot", EVIL],
    ["view", f"{EVIL}.h5"],
    ["view", "run.h5", "-o", f"{EVIL}.html"],
    ["view", "run.h5", "--figures", EVIL],
    ["compare", "run.h5", f"{EVIL}.h5", "--only", EVIL],
    ["cite", f"no{EVIL}.h5"],
    ["check", "--deck", EVIL],
    ["sweep", f"{EVIL}.yaml", "--over", "count.start=0.1,0.2"],
    ["sweep", f"{EVIL}.yaml", "--over", "count.start=0.1,0.2", "--slurm"],
    ["sweep", "deck.yaml", "--over", "count.start=0.1,0.2", "-o", EVIL],
    ["sweep", "deck.yaml", "--over", "count.start=0.1,0.2", "-o", EVIL, "--slurm"],
    ["sweep", "deck.yaml", "--over", f"{EVIL}=0.1,0.2"],
    ["sweep", "deck.yaml", "--over", EVIL],
    ["collect", EVIL, "-o", "table.csv"],
    ["collect", "run.h5", "-o", f"{EVIL}.csv"],
    ["collect", "run.h5", "-o", f"{EVIL}.txt"],
    ["collect", f"{EVIL}.h5", "-o", "table.csv", "--no-figures"],
    ["warmup", EVIL],
]


@pytest.fixture
def terminal(counter, command, monkeypatch):
    """Return a function that runs a command line on a terminal, beside a deck, a run, and the same under evil names."""
    deck = counter.deck()
    assert command("counter", deck, "-o", "run", "-q", "--no-figures").exit_code == 0
    for ending in ("h5", "summary.json"):
        shutil.copy(f"run.{ending}", f"{EVIL}.{ending}")
    shutil.copy("deck.yaml", f"{EVIL}.yaml")
    (counter.folder / "evil").mkdir()
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda self: True, raising=False)
    monkeypatch.setenv("QSIM_TRACEBACK", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return command


def test_no_name_reaches_a_terminal_or_names_a_new_file(counter, terminal):
    before = {path for path in counter.folder.rglob("*") if has_controls(str(path))}
    for words in LINES:
        reply = terminal(*words)
        told = reply.stdout + reply.stderr
        assert reply.exit_code != 1, (words, told)
        assert "\x9b" not in told, (words, told)
        assert "\nrm" not in told, (words, told)
        assert "\x1b[2J" not in told, (words, told)
        assert {path for path in counter.folder.rglob("*") if has_controls(str(path))} == before, words


def test_files_that_may_be_made_are_told_as_they_are_to_a_program(counter, command):
    command("counter", counter.deck(), "-o", "Maße 1\N{NO-BREAK SPACE}é.h5", "-q", "--no-figures")
    assert command("plot", "Maße 1\N{NO-BREAK SPACE}é.h5").stdout == "Maße 1\N{NO-BREAK SPACE}é.value.png\n"


@pytest.mark.parametrize("name", ["a\nb", "a\x7fb", "a\x85b", "a\u2028b", "a\tb", "x\ry/b"])
def test_nothing_is_written_under_names_with_control_characters(counter, name):
    with pytest.raises(FileError, match="holds control characters"):
        write_text(counter.folder / name, "text")
    made = prepare("counter", counter.deck(), [Axis("count.start", ("0.1", "0.2"))])
    moved = Sweep("counter", counter.folder / name, made.keys, made.points, made.loaded)
    with pytest.raises(FileError, match="holds control characters"):
        write_array(moved)
    assert [path.name for path in made.folder.glob("*.sbatch")] == []


@pytest.mark.parametrize("place", ["/dev/full", "/dev/null", "pipe"])
def test_devices_and_pipes_are_no_outputs(counter, command, place):
    os.mkfifo("pipe")
    reply = command("counter", counter.deck(), "-o", place)
    assert reply.exit_code == 6
    assert f"the output {place} exists and is no plain file" in reply.stderr
    command("counter", counter.deck(), "-o", "run.h5", "-q", "--no-figures")
    assert command("view", "run.h5", "-o", place, "--force").exit_code == 6
    assert not Path(place).is_file()
    assert not Path(f"{place}.h5").exists()

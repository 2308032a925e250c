"""Decks: all mistakes at once, each at its line, and overrides that are held to the same rules."""

import json
import os
import re
import subprocess
import sys
from typing import Annotated, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AliasChoices, Field, model_validator

from qsim.core.deck.blocks import (
    Block,
    ComplexNumber,
    Count,
    Deck,
    DeckPath,
    Finding,
    Integer,
    PositiveCount,
    short_form,
)
from qsim.core.deck.expression import ExpressionText
from qsim.core.deck.load import changed_keys, load_deck, peek_method
from qsim.core.deck.units import Angle, Duration, Energy, Length, Time
from qsim.core.errors import DeckError, FileError


class Gauss(Block):
    """A Gaussian pulse."""

    type: Literal["gauss"]
    fwhm: Time = Field(description="full width of the intensity")
    gauss: int = 3  # a key named like its tag


class Sin2(Block):
    """A sin2 pulse."""

    type: Literal["sin2"]
    cycles: Annotated[float, Field(gt=0)]
    cep: Angle = 0.0


class Off(Block):
    """Nothing."""

    type: Literal["off"]


Pulse = Annotated[Gauss | Sin2 | Off, Field(discriminator="type"), short_form]


class Grid(Block):
    """The grid."""

    xmin: Length = -10.0
    xmax: Length = 10.0
    points: PositiveCount = Field(
        description="number of points", validation_alias=AliasChoices("points", "npoints")
    )

    @model_validator(mode="after")
    def _ordered(self) -> "Grid":
        if self.xmin >= self.xmax:
            raise ValueError(f"xmin = {self.xmin:g} is not below xmax = {self.xmax:g}")
        return self


class Step(Block):
    """A fixed step."""

    dt: Annotated[Time, Field(gt=0)]


class Toy(Deck):
    """A deck to test with."""

    method: Literal["toy"]
    grid: Grid
    pulses: Annotated[list[Pulse], Field(max_length=8)] = Field(default_factory=list)
    probe: Pulse | None = None
    step: Pulse | Step | Literal["auto"] = "auto"
    bounds: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    width: Annotated[Length, Field(gt=1.0)] | Literal["auto"] = "auto"
    amplitudes: dict[str, ComplexNumber] = Field(default_factory=dict)
    table: DeckPath | None = None
    formula: Annotated[str, ExpressionText("x")] = "0"
    count: Count = 0
    offset: Integer = 0
    timeout: Duration = "10 min"
    energies: list[Energy] = Field(default_factory=list)

    def check(self):
        """Look for trouble."""
        if self.grid.points > 1000:
            yield Finding("grid.points", f"{self.grid.points} points are many", "warning")
        if self.count > self.grid.points:
            yield Finding("count", f"{self.count} is more than the {self.grid.points} points")
        if self.offset < 0:
            yield Finding("grid.shift.x", "no room")


GOOD = "method: toy\ngrid: {points: 10}\n"


@pytest.fixture
def load(tmp_path):
    def loader(text, *overrides, model=Toy):
        path = tmp_path / "toy.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_deck(path, model, overrides)

    return loader


@pytest.fixture
def mistakes(load, tmp_path):
    """Return the function that loads a deck and gives its problems as "line:column: key: message"."""

    def collect(text, *overrides):
        with pytest.raises(DeckError) as caught:
            load(text, *overrides)
        lines = str(caught.value).split("\n")
        assert lines == [str(problem) for problem in caught.value.diagnostics]
        return [line.replace(f"{tmp_path / 'toy.yaml'}:", "") for line in lines]

    return collect


def test_a_good_deck(load):
    loaded = load(
        "method: toy\ntitle: x\ngrid: {points: 1e3, xmax: 1 nm}\npulses: [off, {type: sin2, cycles: 6}]\n"
    )
    assert loaded.deck.grid.points == 1000
    assert isinstance(loaded.deck.grid.points, int)
    assert loaded.deck.grid.xmax == pytest.approx(18.897, abs=1e-3)
    assert [pulse.type for pulse in loaded.deck.pulses] == ["off", "sin2"]
    assert loaded.deck.timeout == 600.0
    assert (loaded.name, loaded.warnings) == ("toy", [])
    assert loaded.data["grid"] == {"points": 1e3, "xmax": "1 nm"}
    json.dumps(loaded.resolved())


def test_all_mistakes_at_once_in_the_order_of_the_file(mistakes):
    text = """\
method: toy
grid:
  points: 3.5
  xmix: 3
  xmax: "20 eV"
pulses:
  - {type: gauss, fwhm: 3 fz}
  - {type: sin2, cycle: 3}
  - {type: sin}
  - {cycles: 3}
  - 7
  - gauss
  - {type: gauss, gauss: x, fwhm: -1 fs}
width: atuo
bounds: [.nan, true]
run: {seed: no, threads: 0, device: gpu}
output: {figures: [a, 3]}
amplitudes: {0: 1.0, 1: "1 2i"}
table: nope.csv
formula: 2 x
points: 12
"""
    found = mistakes(text)
    places = [line.split(": ")[0] + " " + line.split(": ")[1] for line in found]
    assert places == [
        "3:3 grid.points",
        "4:3 grid.xmix",
        "5:3 grid.xmax",
        "7:19 pulses.0.fwhm",
        "8:18 pulses.1.cycle",
        "9:6 pulses.2.type",
        "10:5 pulses.3",
        "11:5 pulses.4",
        "12:5 pulses.5.fwhm",
        "13:19 pulses.6.gauss",
        "14:1 width",
        "15:10 bounds.0",
        "15:16 bounds.1",
        "16:7 run.seed",
        "16:17 run.threads",
        "16:29 run.device",
        "17:23 output.figures.1",
        "18:22 amplitudes.1",
        "19:1 table",
        "20:1 formula",
        "21:1 points",
    ]
    assert not re.search(r"Value error|Input should|pydantic|function-", "\n".join(found))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("count: 3.5", "3:1: count: expected a whole number, found 3.5"),
        ("count: 1e30", "3:1: count: expected a whole number, found 1e30"),
        ("count: -1", "3:1: count: expected a whole number of at least 0, found -1"),
        ("count: no", "3:1: count: expected a whole number, found 'no'"),
        ("count: '12'", "3:1: count: expected a whole number, found '12'"),
        ("count: true", "3:1: count: expected a whole number, found true"),
        ("count: 12:30", "3:1: count: expected a whole number, found '12:30'"),
        ("count: .inf", "3:1: count: expected a whole number, found .inf"),
        ("count:", "3:1: count: expected a whole number, found nothing"),
        ("count: [1]", "3:1: count: expected a whole number, found a list of 1 item"),
        ("count: {a: 1}", "3:1: count: expected a whole number, found a block with the key a"),
        ("bounds: [1, 1e999]", "3:13: bounds.1: expected a finite number, found 1e999"),
        ("bounds: [1, 1d-3]", "3:13: bounds.1: expected a number, found '1d-3'"),
        ("bounds: [1]", "3:1: bounds: expected at least 2 items, found a list of 1 item"),
        ("bounds: 3", "3:1: bounds: expected a list, such as [3, 3], found 3"),
        ("title: 2024", "3:1: title: expected text (in quotes), found 2024"),
        ("title: null", "3:1: title: expected text, found null"),
        ("pulses: {type: off}", "3:1: pulses: expected a list, found a block with the key type"),
        ("probe: of", "3:1: probe: unknown type 'of'; did you mean 'off'? allowed: gauss, sin2, off"),
        (
            "probe: {type: of}",
            "3:9: probe.type: unknown type 'of'; did you mean 'off'? allowed: gauss, sin2, off",
        ),
        ("probe: {type: 3}", "3:9: probe.type: unknown type 3; allowed: gauss, sin2, off"),
        ("probe: {cycles: 3}", "3:1: probe: the key 'type' is missing; allowed: gauss, sin2, off"),
        (
            "probe: [off]",
            "3:1: probe: expected a block with a key 'type' (one of gauss, sin2, off), found a list",
        ),
        ("probe: {type: off, x: 1}", "3:20: probe.x: unknown key; allowed: type"),
        ("probe: {type: sin2}", "3:1: probe.cycles: required key is missing"),
        ("probe: gauss", "3:1: probe.fwhm: required key is missing (full width of the intensity)"),
        ("step: atuo", "3:1: step: unknown type 'atuo'"),
        ("step: {type: sin2, cycles: x}", "3:20: step.cycles: expected a number, found 'x'"),
        ("step: {dt: -1}", "3:8: step.dt: expected a number greater than 0, found -1"),
        ("width: 0.5", "3:1: width: expected 'auto' or a number greater than 1 bohr, found 0.5"),
        (
            "width: atuo",
            "3:1: width: expected 'auto' or a length: a number (bohr) or text such as '0.5 angstrom', "
            "found 'atuo'; did you mean 'auto'?",
        ),
        (
            "width: 3 fs",
            "3:1: width: 'fs' is a unit of time, but a length is needed; allowed units: au, bohr",
        ),
        ("energies: [1, 2 ev]", "3:15: energies.1: unknown unit 'ev' of energy; did you mean 'eV'?"),
        (
            "run: {precision: duoble}",
            "3:7: run.precision: expected 'double', 'single' or 'mixed', found 'duoble'; did",
        ),
        ("run: {seed: -1}", "3:7: run.seed: expected a whole number of at least 0, found -1"),
        ("run: {checkpoint: 0}", "3:7: run.checkpoint: expected a number greater than 0, found 0"),
        (
            "run: {walltime: 2 eV}",
            "3:7: run.walltime: 'eV' is a unit of energy or frequency, but a duration is needed",
        ),
        ("run: {device: cuda:x}", "3:7: run.device: expected auto, cpu, cuda or cuda:N"),
        ("run:", "3:1: run: expected a block with keys among device, precision, seed"),
        (
            "output: {figures: al}",
            "3:10: output.figures: expected 'overview', 'all' or 'none' or a list, found 'al'; did you mean",
        ),
        ("xmin: 3", "3:1: xmin: unknown key here; it belongs to grid; allowed: method, title"),
        ("dt: 3", "3:1: dt: unknown key here; it belongs to step; allowed: method, title"),
        ("Title: x", "3:1: Title: unknown key; did you mean 'title'?"),
        ("widht: 3", "3:1: widht: unknown key; did you mean 'width'?"),
        ("zzz: 3", "3:1: zzz: unknown key; allowed: method, title, run, output, grid"),
        (
            "probe: {type: gauss, fwhm: 1, 'cep:0': 1}",
            "3:31: probe.cep:0: unknown key; a space is missing after ':'",
        ),
        ("table: ''", "3:1: table: expected text of at least 1 character, found ''"),
        ("table: .", "3:1: table: '.' is a folder, not a file"),
        ('table: "a\\0b"', "3:1: table: 'a\\x00b' cannot be used as a path"),
        ("formula: 2 x", "3:1: formula: column 3: an operator is missing between '2' and 'x' (in '2 x')"),
        ("formula: ''", "3:1: formula: column 1: the formula is empty (in '')"),
        ("formula: [x]", "3:1: formula: expected text, found a list of 1 item"),
        ("count: 11", "3:1: count: 11 is more than the 10 points"),
        ("offset: -1", "2:1: grid.shift.x: no room"),
    ],
)
def test_one_mistake_one_message(mistakes, lines, expected):
    (message,) = mistakes(GOOD + lines + "\n")
    assert message.startswith(expected)


class Shapes(Deck):
    """Types inside types."""

    method: Literal["shapes"]
    mixed: list[Pulse | Literal["x"]] | None = None
    named: dict[str, list[Step | Grid]] = Field(default_factory=dict)
    counts: Literal["auto"] | Count | list[Count] = "auto"
    spins: dict[Literal["up", "down"], float] = Field(default_factory=dict)
    pair: tuple[float, float] = (0.0, 1.0)
    matrix: list[list[float]] = Field(default_factory=list)
    word: Annotated[str, Field(pattern="^[a-z]+$")] = "a"


def test_mistakes_deep_in_unions_lists_and_dicts(load):
    text = """\
method: shapes
mixed: [x, {type: sin2, cycles: a}, off, 3]
named: {q: [{dt: x}, {points: 3, xmin: fs}, 3]}
counts: [1, x]
spins: {up: 1, dwn: 2}
pair: [1]
matrix: [[1, 2], [3, x], 4]
word: A1
"""
    with pytest.raises(DeckError) as caught:
        load(text, model=Shapes)
    assert [f"{problem.key}: {problem.message}" for problem in caught.value.diagnostics] == [
        "mixed.1.cycles: expected a number, found 'a'",
        "mixed.3: expected 'x' or a block with a key 'type' (one of gauss, sin2, off), found 3",
        "named.q.0.dt: expected a time: a number (a.u. of time (hbar/Eh)) or text such as '20 fs', found 'x'",
        "named.q.1.xmin: expected a length: a number (bohr) or text such as '0.5 angstrom', found 'fs'",
        "named.q.2: expected a block with keys among dt or "
        "a block with keys among xmin, xmax, points, found 3",
        "counts.1: expected a whole number, found 'x'",
        "spins.dwn: expected the key to be 'up' or 'down', found 'dwn'",
        "pair.1: the list is too short: item 1 (counted from 0) is missing",
        "matrix.1.1: expected a number, found 'x'",
        "matrix.2: expected a list, such as [4], found 4",
        "word: expected text of the form ^[a-z]+$, found 'A1'",
    ]
    with pytest.raises(
        DeckError, match="expected 'auto' or a whole number of at least 0 or a list, found -3"
    ):
        load("method: shapes\ncounts: -3\n", model=Shapes)


def test_validator_messages_lose_their_prefix(mistakes):
    assert mistakes("method: toy\ngrid: {points: 3, xmin: 3, xmax: 2}\n") == [
        "2:1: grid: xmin = 3 is not below xmax = 2"
    ]


def test_a_misspelt_required_key_is_one_mistake(mistakes):
    (message,) = mistakes("method: toy\ngrid: {pionts: 3}\n")
    assert message.startswith("2:8: grid.pionts: unknown key; did you mean 'points'?")
    (message,) = mistakes("method: toy\ngrid: {points:3}\n")
    assert "a space is missing after ':'" in message


def test_old_spellings_are_accepted(load, mistakes):
    assert load("method: toy\ngrid: {npoints: 5}\n").deck.grid.points == 5
    (message,) = mistakes("method: toy\ngrid: {npoints: x}\n")
    assert message == "2:8: grid.npoints: expected a whole number, found 'x'"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "1:1: the deck is empty; 'qsim init METHOD' writes one to start from"),
        ("# nothing\n", "1:1: the deck is empty; 'qsim init METHOD' writes one to start from"),
        ("- a\n- b\n", "1:1: a deck is a block of 'key: value' lines, found a list of 2 items"),
        ("method toy", "1:1: a deck is a block of 'key: value' lines, found 'method toy'"),
        ("~", "1:1: a deck is a block of 'key: value' lines, found null"),
        (b"method: toy\ntitle: caf\xe9\n", "2:11: byte 0xe9 is not UTF-8; save the deck as UTF-8 text"),
        (GOOD.encode("utf-16"), "1:1: byte 0xff is not UTF-8; save the deck as UTF-8 text"),
        ("grid: {points: 3}\n", "1:1: method: required key is missing ('toy')"),
        ("method: 3\ngrid: {points: 3}\n", "1:1: method: expected 'toy', found 3"),
        ("method: toi\n", "1:1: method: the deck is for method 'toi', not for 'toy'; did you mean 'toy'?"),
        (
            "method: qmc\nfoo: 1\n",
            "1:1: method: the deck is for method 'qmc', not for 'toy'; run it with 'qsim qmc ",
        ),
    ],
)
def test_decks_that_are_none(mistakes, text, expected):
    (message,) = mistakes(text)
    assert message.startswith(expected)


def test_duplicate_keys_come_with_all_other_mistakes(mistakes):
    assert (
        mistakes(GOOD + "count: 1\ncount: 2\nwidth: x\n")[0] == "4:1: count: duplicate key (first on line 3)"
    )
    assert len(mistakes(GOOD + "count: 1\ncount: 2\nwidth: x\n")) == 2
    assert mistakes(GOOD + "count: 1\ncount: 2\n") == ["4:1: count: duplicate key (first on line 3)"]


def test_a_byte_order_mark_and_windows_lines_are_fine(load, mistakes):
    assert load("\ufeff" + GOOD.replace("\n", "\r\n")).deck.grid.points == 10
    assert mistakes(GOOD.replace("\n", "\r\n") + "count: x\r\n")[0].startswith("3:1: count")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "helium.yaml").write_text(GOOD)
    with pytest.raises(FileError, match="not found") as caught:
        load_deck(tmp_path / "heliun.yaml", Toy)
    assert "helium.yaml" in caught.value.hint
    with pytest.raises(FileError, match="is a folder"):
        load_deck(tmp_path, Toy)
    with pytest.raises(FileError, match="cannot be read"):
        load_deck("a\0b", Toy)
    with pytest.raises(FileError, match="cannot be read"):
        peek_method("x" * 5000)
    (tmp_path / "large.yaml").write_text("a" * 5_000_000)
    with pytest.raises(FileError, match="larger than 4 MiB"):
        load_deck(tmp_path / "large.yaml", Toy)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(GOOD)
    path.chmod(0)
    with pytest.raises(FileError, match="Permission denied"):
        load_deck(path, Toy)


def test_peek_method(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("method: qmc\nfoo: !odd 1\nfoo: 2\n")
    assert peek_method(path) == "qmc"
    for text, part in [
        ("metod: x\n", "is 'metod' meant"),
        ("a: 1\n", "missing"),
        ("method: [1]\n", "name of a method"),
    ]:
        path.write_text(text)
        with pytest.raises(DeckError, match=part):
            peek_method(path)


# Overrides


def test_overrides_follow_the_rules_of_yaml(load):
    loaded = load(
        GOOD, "grid.points=1e2", "title=no", "run.seed=010", "pulses=[off]", "width=2 nm", "bounds=[1, 2]"
    )
    deck = loaded.deck
    assert (deck.grid.points, deck.title, deck.run.seed, deck.bounds) == (100, "no", 10, [1.0, 2.0])
    assert loaded.data["run"] == {"seed": 10}


def test_later_overrides_win_and_reach_into_lists(load):
    text = GOOD + "bounds: [1, 2]\npulses: [{type: sin2, cycles: 1}]\n"
    deck = load(text, "bounds.0=-1", "pulses.0.cycles=2", "count=1", "count=2").deck
    assert (deck.bounds, deck.pulses[0].cycles, deck.count) == ([-1.0, 2.0], 2.0, 2)


def test_overriding_one_use_of_an_alias_leaves_the_other(load):
    text = GOOD + "pulses:\n  - &p {type: sin2, cycles: 1}\n  - *p\n"
    assert [pulse.cycles for pulse in load(text, "pulses.1.cycles=5").deck.pulses] == [1.0, 5.0]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("grid.points", "<--set grid.points>: expected KEY=VALUE, found 'grid.points'"),
        ("", "<--set >: expected KEY=VALUE, found ''"),
        ("=3", "<--set >: expected a key such as grid.points before '='"),
        ("a..b=3", "<--set a..b>: a..b: expected a key such as grid.points before '='"),
        ("grid.pts=3", "<--set grid.pts>: grid.pts: unknown key; did you mean 'points'?"),
        ("foo.bar=1", "<--set foo.bar>: foo: unknown key; allowed: method"),
        (
            "method.x=1",
            "<--set method.x>: method.x: cannot be set: there is no block to set 'x' in, only",
        ),
        ("bounds=[1,2", "<--set bounds>:1:12: bounds: the '[' opened on line 1 is not closed"),
        ("title=a: b: c", "<--set title>:1:11: title: unexpected ':'"),
        ("title=\t3", "<--set title>:1:7: title: a tab"),
        ("title='a", "<--set title>:1:9: title: the quote opened on line 1 is never closed"),
        ("title=a: b", "<--set title>: title: expected text, found a block with the key a"),
        ("title=", "<--set title>: title: expected text, found nothing"),
        ("title=\ud800", "<--set title>:1:7: title: the character U+D800 is not allowed in YAML"),
        ("amplitudes={a: 1, a: 2}", "<--set amplitudes>:1:19: amplitudes.a: duplicate key (first on line 1)"),
        (
            "energies.3=1",
            "<--set energies.3>: energies.3: cannot be set: index 3 is out of range: the list has ",
        ),
        ("energies.x=1", "<--set energies.x>: energies.x: cannot be set: 'x' is no index"),
        ("energies.-1=1", "<--set energies.-1>: energies.-1: cannot be set: '-1' is no index"),
        ("energies.1=x", "<--set energies.1>: energies.1: expected an energy"),
        ("energies.1.y=x", "<--set energies.1.y>: energies.1.y: cannot be set: there is no block"),
        ("bounds.0=1", "<--set bounds.0>: bounds: expected a list, found a block with the key 0"),
        ("a." * 500 + "b=1", "<--set a.a."),
    ],
)
def test_mistaken_overrides(mistakes, item, expected):
    (message,) = mistakes(GOOD + "energies: [1, 2]\n", item)
    assert message.startswith(expected)


def test_mistakes_of_file_and_overrides_come_together(mistakes):
    found = mistakes(GOOD + "count: x\n", "width=x", "nonsense", "run.seed=-1")
    assert found[0].startswith("3:1: count")
    places = {line.split(": ")[0] for line in found[1:]}
    assert places == {"<--set width>", "<--set nonsense>", "<--set run.seed>"}


def test_an_override_repairs_a_mistake(load):
    assert load(GOOD + "count: x\n", "count=3").deck.count == 3


# What a loaded deck knows


def test_warnings_are_kept_and_formatted(load, tmp_path):
    loaded = load("method: toy\ngrid:\n  points: 1e6\n")
    assert loaded.warnings == [f"{tmp_path / 'toy.yaml'}:3:3: grid.points: warning: 1000000 points are many"]


def test_raise_for_collects_warnings_and_raises_errors(load):
    loaded = load(GOOD)
    loaded.raise_for([Finding("grid.points", "few", "warning"), Finding("", "odd", "warning")])
    loaded.raise_for([Finding("grid.points", "few", "warning")])
    assert len(loaded.warnings) == 2
    with pytest.raises(DeckError) as caught:
        loaded.raise_for([Finding("run.seed", "b"), Finding("method", "a"), Finding("grid", "w", "warning")])
    assert [problem.message for problem in caught.value.diagnostics] == ["b", "a"]
    assert len(loaded.warnings) == 3


def test_problems_show_their_line(load):
    with pytest.raises(DeckError) as caught:
        load(GOOD + "bounds: [1, x]\n")
    line, caret = caught.value.diagnostics[0].excerpt().split("\n")
    assert line[caret.index("^")] == "x"


def test_resolved_decks_load_again_to_the_same(load, tmp_path):
    (tmp_path / "v.csv").write_text("1 2\n")
    text = (
        GOOD
        + "table: v.csv\namplitudes: {0: 1, 1: 0.5i, 2: -1-2j}\n"
        + "width: 1 nm\nprobe: {type: gauss, fwhm: 1 fs}\n"
    )
    first = load(text)
    resolved = first.resolved()
    assert resolved["table"] == "v.csv"
    assert resolved["amplitudes"] == {"0": 1.0, "1": "0.5i", "2": "-1.0-2.0i"}
    assert load(json.dumps(resolved)).deck == first.deck


def test_physics_leaves_out_how_it_is_run_and_follows_the_files(load, tmp_path):
    table = tmp_path / "v.csv"
    table.write_text("1 2\n")
    first = load(GOOD + "table: v.csv\n").physics()
    assert not {"run", "output", "title"} & set(first)
    again = load(GOOD + "title: y\ntable: ./v.csv\nrun: {seed: 3}\noutput: {file: b.h5}\n").physics()
    assert changed_keys(first, again) == []
    table.write_text("1 3\n")
    assert changed_keys(first, load(GOOD + "table: v.csv\n").physics()) == ["table.content"]


def test_hash_covers_text_and_overrides(load):
    hashes = {
        load(GOOD).sha256,
        load(GOOD + "\n").sha256,
        load(GOOD, "count=1").sha256,
        load(GOOD, "count=2").sha256,
    }
    assert len(hashes) == 4


def test_update_run_changes_the_resolved_deck(load):
    loaded = load(GOOD)
    loaded.update_run(seed=7)
    assert loaded.deck.run.seed == 7
    assert loaded.resolved()["run"]["seed"] == 7


@pytest.mark.parametrize(
    ("a", "b", "keys"),
    [
        ({}, {}, []),
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 2, "d": 2}}, ["a.b", "a.c", "a.d"]),
        ({"a": [1, 2]}, {"a": [1, 3]}, ["a.1"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a"]),
        ({"a": [{"x": 1}]}, {"a": [{"x": 2}]}, ["a.0.x"]),
        ({"a": None}, {"a": {"x": 1}}, ["a"]),
    ],
)
def test_changed_keys(a, b, keys):
    assert changed_keys(a, b) == keys


# Field types


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0.5", -0.5),
        ("i", 1j),
        ("-i", -1j),
        ("0.5i", 0.5j),
        ("2j", 2j),
        ("1-2i", 1 - 2j),
        ("1 + 2i", 1 + 2j),
        ("1e-3-.5j", 1e-3 - 0.5j),
        ("-1+i", -1 + 1j),
        ("1 - i", 1 - 1j),
    ],
)
def test_complex_numbers(load, text, value):
    assert load(GOOD, f"amplitudes.a={text}").deck.amplitudes["a"] == value


@pytest.mark.parametrize(
    "text", ["1+", "i1", "1 2i", "1ii", "one", "''", "[1]", "true", "1e999i", ".nan", "1i2", "+", "2*i"]
)
def test_complex_numbers_that_are_none(mistakes, text):
    assert "expected a complex number such as 0.5, 0.5i or 1-2i" in mistakes(GOOD, f"amplitudes.a={text}")[0]


def test_paths_are_relative_to_the_deck(load, tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "v.csv").write_text("")
    monkeypatch.chdir("/")
    loaded = load(GOOD + "table: sub/v.csv\n")
    assert loaded.deck.table == tmp_path / "sub" / "v.csv"
    absolute = load(GOOD + f"table: {tmp_path / 'sub' / 'v.csv'}\n")
    assert absolute.deck == loaded.deck


def test_a_missing_file_says_where_it_was_looked_for(mistakes, tmp_path):
    (message,) = mistakes(GOOD + "table: v.csv\n")
    assert message == f"3:1: table: file 'v.csv' not found; looked for {tmp_path / 'v.csv'}"


def test_messages_stay_on_one_line(mistakes):
    (message,) = mistakes(GOOD + '"a\\nb\\e[31m": 1\n')
    assert message.startswith(r"3:1: a\nb\x1b[31m: unknown key")


def test_models_are_frozen_and_usable_without_a_file():
    deck = Toy(method="toy", grid=Grid(points=3))
    assert (deck.timeout, deck.run.device) == (600.0, "auto")
    with pytest.raises(ValueError, match="frozen"):
        deck.count = 3


def test_short_form():
    assert short_form("off") == {"type": "off"}
    assert short_form({"type": "off"}) == {"type": "off"}
    assert short_form(3) == 3


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from([*Toy.model_fields, "grid.points", "pulses.0", "zzz"]), _JSON)
def test_any_value_anywhere_is_accepted_or_explained(load, key, value):
    problems = ()
    try:
        load(GOOD + "pulses: [off]\n", f"{key}={json.dumps(value)}")
    except DeckError as error:
        problems = error.diagnostics
    for problem in problems:
        assert problem.message
        assert not re.search(r"Value error|Input should|function-|pydantic", problem.message)
        assert problem.line >= 1
        assert problem.column >= 1


def test_loading_imports_nothing_heavy(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("method: x\n")
    code = (
        "import sys, qsim; from qsim.core.deck.load import Deck, load_deck, template, schema, deck_reference\n"
        f"load_deck({str(path)!r}, Deck); template(Deck); schema(Deck); deck_reference(Deck)\n"
        "print([m for m in ('numpy', 'scipy', 'numba', 'h5py', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_package_loads_no_pydantic():
    code = "import sys, qsim; print('pydantic' in sys.modules, qsim.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"

"""Sweeps: one deck at many values of some keys, as a folder of numbered decks with their results.

The folder of a sweep holds plain files: ``<name>-0001.yaml`` and so on, complete decks that run by themselves; ``index.csv`` with
the values of each; beside every deck its results and summary, or ``<name>-0001.failed.json``.  A sweep has no other memory.  So
the same command again runs what is missing, failed or stopped, and a batch system can finish a folder that was begun here.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from qsim.core.deck.blocks import Deck
from qsim.core.deck.describe import deck_lines
from qsim.core.deck.load import LoadedDeck, load_deck
from qsim.core.device.workers import Crew
from qsim.core.errors import DeckError, FileError, Interrupted, QsimError, Stopped
from qsim.core.results.atomic import refuse_controls, write_text
from qsim.core.results.reading import read_bytes
from qsim.core.run.files.paths import paths_in
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import Method
from qsim.core.text import format_bytes, printable, reason, shorten

__all__ = [
    "Axis",
    "Done",
    "Point",
    "Sweep",
    "parse_axis",
    "points",
    "prepare",
    "run",
    "run_here",
    "write_array",
]

INDEX = "index.csv"
FAILED = ".failed.json"
MOST_POINTS = 100_000
# Largest index that is read.
MOST_BYTES = 256 * 2**20
# Decks whose memory is planned for the script of an array.
MOST_EXAMINED = 32
# Significant digits of the values between the ends of a range, so that 0.3 is not 0.30000000000000004.
DIGITS = 12

# A number, and `A unit : B unit : N`, whose units hold neither digits nor colons at their start.
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(
    rf"({_NUMBER})\s*([^\d\s:][^:]*?)?\s*(?::|\.\.)\s*({_NUMBER})\s*([^\d\s:][^:]*?)?\s*(?::\s*(\d+)(:log)?)?"
)
_OPENING = dict(zip("([{", ")]}", strict=True))


# ------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class Axis:
    """A key of the deck and the texts of its values."""

    key: str
    values: tuple[str, ...]


def parse_axis(text: str) -> Axis:
    """Return the key and the values of ``KEY=A:B:N``, ``KEY=A:B:N:log`` or ``KEY=X,Y,...``.

    The first two are N values from A to B, both included, at equal distances or ratios; A and B may carry a unit.

    Raises
    ------
    ValueError
        If it is none of these.
    """
    key, equals, text_of_values = text.partition("=")
    key, text_of_values = key.strip(), text_of_values.strip()
    if not equals or not all(key.split(".")):
        raise ValueError(f"{shorten(repr(text))} is not KEY=A:B:N or KEY=X,Y,...")
    # A range has two colons and no comma outside of brackets; everything else is a list.
    if span := _RANGE.fullmatch(text_of_values):
        return Axis(key, tuple(_between(key, span)))
    values = tuple(_split(text_of_values))
    if not values or not all(values):
        raise ValueError(f"{key}: a value is missing in {shorten(repr(text_of_values))}")
    if len(set(values)) < len(values):
        raise ValueError(f"{key}: duplicate value in {shorten(repr(text_of_values))}")
    return Axis(key, values)


def _between(key: str, span: re.Match[str]) -> Iterator[str]:
    """Yield the values of a range ``first:last:count``, with the unit that they have in common."""
    first, unit, last, unit_of_last, count, logarithmic = span.groups()
    if count is None:
        ends = span[0].replace("..", ":")
        raise ValueError(f"{key}: {span[0]} has two ends; A:B:N says how many values, such as {ends}:5")
    unit = unit or unit_of_last or ""
    if unit_of_last is not None and unit != unit_of_last:
        raise ValueError(f"{key}: the ends of a range need one unit, found '{unit}' and '{unit_of_last}'")
    a, b, n = float(first), float(last), int(count)
    if not 2 <= n <= MOST_POINTS or a == b:
        raise ValueError(
            f"{key}: {shorten(span[0])} is A:B:N; it needs two ends and N from 2 to {MOST_POINTS} values"
        )
    if logarithmic and a * b <= 0:
        raise ValueError(
            f"{key}: equal ratios need two ends of one sign other than 0, found {first} and {last}"
        )
    # Counts stay counts: 100:400:4 gives 100, 200, ..., which a key for whole numbers takes.
    whole = all(re.fullmatch(r"[-+]?\d+", end) for end in (first, last))
    for index in range(n):
        part = index / (n - 1)
        value = a * (b / a) ** part if logarithmic else a + (b - a) * part
        # The ends are exactly what was typed; between them, digits that rounding made are cut.
        value = (a, b)[index > 0] if index in (0, n - 1) else float(f"{value:.{DIGITS}g}")
        number = str(int(value)) if whole and value.is_integer() and abs(value) < 2**53 else repr(value)
        yield f'"{number} {unit}"' if unit else number


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that stand in no brackets or quotes."""
    closing: list[str] = []
    start = 0
    for index, character in enumerate(text):
        # The innermost bracket or quote is closed first.
        if closing and character == closing[-1]:
            closing.pop()
        elif closing and closing[-1] in "\"'":
            continue
        elif character in "\"'":
            closing.append(character)
        elif character in _OPENING:
            closing.append(_OPENING[character])
        elif character == "," and not closing:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


def points(axes: Sequence[Axis], *, zipped: bool = False) -> list[tuple[str, ...]]:
    """Return the values of each point: all combinations, the last key fastest, or the axes side by side.

    Raises
    ------
    ValueError
        If a key is given twice, axes to go side by side differ in length, or there are too many points.
    """
    keys = [axis.key for axis in axes]
    if twice := next((key for index, key in enumerate(keys) if key in keys[:index]), None):
        raise ValueError(f"{twice} is given twice")
    if zipped:
        lengths = [len(axis.values) for axis in axes]
        if len(set(lengths)) > 1:
            listed = ", ".join(f"{axis.key}: {len(axis.values)}" for axis in axes)
            raise ValueError(f"--zip needs equal numbers of values, found {listed}")
        return list(zip(*(axis.values for axis in axes), strict=True))
    number = math.prod(len(axis.values) for axis in axes)
    if number > MOST_POINTS:
        raise ValueError(f"{number} decks are more than {MOST_POINTS}")
    return list(itertools.product(*(axis.values for axis in axes)))


# ------------------------------------------------------------------------------------------- the folder


@dataclass(frozen=True)
class Point:
    """One deck of a sweep.

    Attributes
    ----------
    number
        From 1.
    deck
        Its file.
    values
        Texts of the values, in the order of the keys.
    """

    number: int
    deck: Path
    values: tuple[str, ...]

    @property
    def results(self) -> Path:
        """The results file."""
        return self.deck.with_suffix(".h5")

    @property
    def failed(self) -> Path:
        """The record of a failure."""
        return self.deck.with_suffix(FAILED)

    @property
    def complete(self) -> bool:
        """True if results and summary are there: the summary is the last file that a run writes."""
        return self.results.is_file() and self.deck.with_suffix(".summary.json").is_file()


@dataclass(frozen=True)
class Sweep:
    """A folder of numbered decks.

    Attributes
    ----------
    method
        Method of all decks.
    folder
        The folder.
    keys
        What is swept.
    points
        The decks of this command; the folder may hold others.
    loaded
        The base deck, valid at the first point.
    """

    method: str
    folder: Path
    keys: tuple[str, ...]
    points: tuple[Point, ...]
    loaded: LoadedDeck[Deck]

    @property
    def missing(self) -> list[Point]:
        """Decks without complete results."""
        return [point for point in self.points if not point.complete]

    def settings(self, point: Point) -> str:
        """Return the values of a point: ``time.T=3000 control.rise=0.1``."""
        return " ".join(f"{key}={value}" for key, value in zip(self.keys, point.values, strict=True))


def prepare(
    method: str,
    path: Path,
    axes: Sequence[Axis],
    *,
    overrides: Sequence[str] = (),
    zipped: bool = False,
    folder: Path | None = None,
) -> Sweep:
    """Validate the decks of a sweep, and write those that the folder lacks.

    Points that the folder holds keep their number, so a range can be extended later.

    Raises
    ------
    DeckError
        If one of the decks is mistaken; nothing is written then.
    FileError
        If the folder cannot be written, or holds other decks: of other keys, or of another base deck.
    ValueError
        From :func:`points`.
    """
    model = Method[Deck, object, object](method).deck.DECK
    keys = tuple(axis.key for axis in axes)
    wanted = points(axes, zipped=zipped)
    folder = folder or Path(f"{path.stem}.sweep")
    refuse_controls(folder / path.stem)
    # Points of an earlier command keep their numbers, and thereby their decks and results.
    known = _read_index(folder, keys)
    number = max(known.values(), default=0)
    chosen: list[Point] = []
    texts: dict[Path, str] = {}
    first: LoadedDeck[Deck] | None = None
    # All decks are validated before the first one is written.
    for values in wanted:
        # New points get the next free numbers, whatever their place in the range.
        if values not in known:
            number += 1
            known[values] = number
        point = Point(known[values], folder / f"{path.stem}-{known[values]:04d}.yaml", values)
        loaded = _load(path, model, [*overrides, *_settings(keys, values)], keys, values)
        first = first or loaded
        texts[point.deck] = _text(loaded, point, keys)
        chosen.append(point)
    if first is None:
        raise ValueError("a sweep needs at least one key")
    _refuse_other_decks(texts)
    _write_folder(folder, keys, known, texts, path.stem)
    # What was written must mean what was validated: read one back and compare the physics.
    _require_same(load_deck(chosen[0].deck, model), first)
    return Sweep(method, folder, keys, tuple(sorted(chosen, key=lambda point: point.number)), first)


def _settings(keys: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{key}={value}" for key, value in zip(keys, values, strict=True)]


def _load(
    path: Path, model: type[Deck], overrides: Sequence[str], keys: Sequence[str], values: Sequence[str]
) -> LoadedDeck[Deck]:
    try:
        return load_deck(path, model, overrides)
    except DeckError as error:
        error.hint = f"at {' '.join(_settings(keys, values))}; no deck is written before all are valid"
        raise


def _text(loaded: LoadedDeck[Deck], point: Point, keys: Sequence[str]) -> str:
    """Return a deck with the values of a point in place, and paths that hold from the folder of the sweep."""
    data = loaded.data
    # The results of every point lie beside its deck: a name in the base deck would be the same for all.
    if isinstance(data.get("output"), dict):
        data["output"] = {key: value for key, value in data["output"].items() if key != "file"}
    base = loaded.path.parent
    # Relative paths of files are rewritten, since the decks lie in another folder; other texts stay.
    files = {os.path.normpath(file) for file in paths_in(loaded.deck)}
    data = {key: _moved(value, base, point.deck.parent, files) for key, value in data.items()}
    # The first line of a deck says where it comes from.
    head = f"# {loaded.path.name} with {' '.join(_settings(keys, point.values))}"
    return "\n".join([printable(head), *deck_lines(data), ""])


def _moved(value: object, base: Path, folder: Path, files: set[str]) -> Any:
    """Return a value of a deck with the files among its texts named as from another folder."""
    if isinstance(value, dict):
        return {key: _moved(item, base, folder, files) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(item, base, folder, files) for item in value]
    if isinstance(value, str) and not Path(value).is_absolute() and os.path.normpath(base / value) in files:
        return Path(os.path.relpath(base / value, folder)).as_posix()
    return value


def _require_same(written: LoadedDeck[Deck], meant: LoadedDeck[Deck]) -> None:
    if written.physics() != meant.physics():
        raise FileError(
            f"the deck {written.path} does not say what {meant.path} says with its overrides",
            hint="this is a mistake of qsim; please report it with the deck",
        )


def _read_index(folder: Path, keys: Sequence[str]) -> dict[tuple[str, ...], int]:
    """Return the numbers of the points that the folder of a sweep holds; empty for a new folder.

    Raises
    ------
    FileError
        If the index is damaged or of other keys.
    """
    path = folder / INDEX
    if not path.exists():
        return {}
    # Undecodable bytes become marks: a damaged index is refused below, by its content.
    rows = list(
        csv.reader(
            io.StringIO(read_bytes(path, "the index of a sweep", MOST_BYTES).decode("utf-8", "replace"))
        )
    )
    if not rows or rows[0][:2] != ["number", "deck"] or any(len(row) != len(rows[0]) for row in rows):
        raise FileError(f"{path} is not the index of a sweep", hint="-o FOLDER sweeps elsewhere")
    # Numbers of decks belong to values of these keys: others need a folder of their own.
    if rows[0][2:] != list(keys):
        raise FileError(
            f"{folder} holds a sweep over {', '.join(rows[0][2:])}, not over {', '.join(keys)}",
            hint="-o FOLDER sweeps elsewhere",
        )
    try:
        return {tuple(row[2:]): int(row[0]) for row in rows[1:]}
    except ValueError:
        raise FileError(
            f"{path} is not the index of a sweep: its numbers are damaged", hint="-o FOLDER sweeps elsewhere"
        ) from None


def _refuse_other_decks(texts: Mapping[Path, str]) -> None:
    """Refuse to change a deck that has run; one without results or checkpoint is free to be corrected."""
    for path, text in texts.items():
        # Results say which deck they belong to: that deck must not change under them.
        ran = any(path.with_suffix(ending).exists() for ending in (".h5", ".ckpt.h5"))
        if not (ran and path.exists()):
            continue
        try:
            there = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise FileError(f"{path} cannot be read: {reason(error)}") from error
        if there != text:
            raise FileError(
                f"{path} has results, and differs from the deck that this command makes: base deck, --set or file changed",
                hint="-o FOLDER sweeps elsewhere",
            )


def _write_folder(
    folder: Path,
    keys: Sequence[str],
    known: Mapping[tuple[str, ...], int],
    texts: Mapping[Path, str],
    stem: str,
) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be made: {error.strerror}") from error
    # Decks that are the same stay untouched, with their times.
    for path, text in texts.items():
        if not path.exists() or path.read_bytes() != text.encode():
            write_text(path, text)
    rows = sorted((number, f"{stem}-{number:04d}.yaml", *values) for values, number in known.items())
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([("number", "deck", *keys), *rows])
    write_text(folder / INDEX, content.getvalue())  # last: without it, decks count as not there


# ------------------------------------------------------------------------------------------- running


@dataclass(frozen=True)
class _Task:
    method: str
    point: Point
    device: str | None
    figures: bool
    command: str


@dataclass(frozen=True)
class Done:
    """Outcome of one deck.

    Attributes
    ----------
    code
        Exit code, as `qsim METHOD` would have; 0 for a complete run.
    summary
        Of a complete run.
    message, hint
        Of another.
    seconds
        Wall time of this process.
    """

    code: int
    summary: Mapping[str, Any] | None = None
    message: str = ""
    hint: str = ""
    seconds: float = 0.0


def run(
    sweep: Sweep,
    *,
    jobs: int = 1,
    device: str | None = None,
    figures: bool = False,
    command: str = "",
    stop: Callable[[], str | None] = lambda: None,
) -> Iterator[tuple[Point, Done]]:
    """Run the decks that are missing; yield each with what became of it, in the order in which they end.

    Parameters
    ----------
    sweep
        From :func:`prepare`.
    jobs
        Number of processes.
    device, figures, command
        As for `Options`.
    stop
        As for :class:`~qsim.core.device.workers.Crew`.
    """
    tasks = [_Task(sweep.method, point, device, figures, command) for point in sweep.missing]
    for task, done in Crew(_run_one, _lost, jobs, stop).work(tasks):
        yield task.point, done


def run_here(sweep: Sweep, *, device: str | None = None) -> Iterator[tuple[Point, Done]]:
    """Run the decks that are missing one after another in this process; yield each with what became of it."""
    for point in sweep.missing:
        yield point, _run_one(_Task(sweep.method, point, device, figures=False, command="qsim.sweep"))


def _run_one(task: _Task) -> Done:
    """Run one deck, or continue it; leave a record if it fails."""
    point, start = task.point, time.monotonic()
    # resume: a deck that was stopped goes on from its checkpoint, a new one begins.
    options = Options(
        device=task.device,
        output=point.results,
        resume=True,
        figures=task.figures,
        verbosity=-1,
        command=task.command,
    )
    try:
        if point.results.is_dir():  # as an output it would be filled, and the deck never be complete
            raise FileError(f"{point.results} is a folder, where the results belong", hint="move it away")
        outcome = execute(task.method, point.deck, options)
    except (Stopped, Interrupted) as error:
        return Done(error.exit_code, message=str(error))
    except QsimError as error:
        return _recorded(point, Done(error.exit_code, message=str(error), hint=error.hint or ""))
    except Exception as error:  # a bug in one run must not cost the others
        return _recorded(point, Done(1, message=f"internal error: {type(error).__name__}: {error}"))
    point.failed.unlink(missing_ok=True)
    return Done(0, summary=outcome.summary, seconds=time.monotonic() - start)


def _lost(task: _Task) -> Done:
    return _recorded(
        task.point,
        Done(1, message="its process ended without a word: killed, perhaps for its memory, or crashed"),
    )


def _recorded(point: Point, done: Done) -> Done:
    content = {"deck": point.deck.name, "code": done.code, "error": done.message, "hint": done.hint}
    with suppress(FileError):  # a full disk, which the message tells already
        write_text(point.failed, json.dumps(content, indent=2) + "\n")
    return done


# ------------------------------------------------------------------------------------------- batch systems


def write_array(sweep: Sweep, *, at_once: int | None = None, device: str | None = None) -> Path:
    """Write the script of a Slurm array of the decks that are missing; return its path.

    Parameters
    ----------
    sweep
        From :func:`prepare`.
    at_once
        Most tasks that run at the same time; None for no limit.
    device
        As on the command line.

    Raises
    ------
    DeckError
        If the plan of an examined deck is refused.
    FileError
        If the script cannot be written, or names hold control characters: its comments would not hold them.
    """
    refuse_controls(sweep.folder / sweep.points[0].deck.name)
    missing = sweep.missing
    # Memory of some decks, evenly chosen: planning thousands would take minutes.
    examined = missing[:: max(1, -(-len(missing) // MOST_EXAMINED))]
    cuda = device is not None and device.startswith("cuda")
    memory = max((_memory(sweep.method, point.deck, cuda=cuda) for point in examined), default=0)
    script = sweep.folder / "array.sbatch"
    template = Template(
        resources.files("qsim.core.sweeps").joinpath("array.sbatch").read_text(encoding="utf-8")
    )
    content = template.substitute(
        count=len(missing),
        folder=shlex.quote(str(sweep.folder)),
        keys=printable(", ".join(sweep.keys)),
        script=shlex.quote(str(script)),
        name=shlex.quote(sweep.points[0].deck.stem.rpartition("-")[0]),
        array=_ranges([point.number for point in missing]) + (f"%{at_once}" if at_once else ""),
        memory=math.ceil(memory / 2**20),
        memory_text=format_bytes(memory),
        examined=len(examined),
        program=f"{shlex.quote(sys.executable)} -m qsim",
        method=sweep.method,
        device=f" --device {device}" if device else "",
    )
    return write_text(script, content)


def _memory(method: str, deck: Path, *, cuda: bool) -> int:
    """Return the bytes of the host to ask for, for a run of a deck, interpreter and compilation included."""
    stages = Method[Deck, object, object](method)
    loaded = load_deck(deck, stages.deck.DECK)
    plan = stages.build.plan(loaded)
    loaded.raise_for(plan.findings)
    return plan.memory.with_interpreter(method, figures=False, cuda=cuda, compiled=False).of_job(cuda=cuda)


def _ranges(numbers: Sequence[int]) -> str:
    """Return ``1-3,7`` for 1, 2, 3, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)

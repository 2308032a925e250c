"""The folder of a sweep: numbered decks, their index, and whose results lie beside them.

The folder holds plain files: ``<name>-0001.yaml`` and so on, complete decks that run by themselves; ``index.csv`` with the
values of each; beside every deck its results and summary, or ``<name>-0001.failed.json``.  A sweep has no other memory, and
believes none of these files: a deck is complete if its results file says that it is of this deck and of its data files as they
are.  While decks and index are written, ``index.lock`` keeps other sweeps out; ``sweep.lock`` tells who is at work, whose decks
another sweep may run, and extend, but not change.
"""

from __future__ import annotations

import csv
import io
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qsim.core.deck.blocks import Deck
from qsim.core.deck.describe import deck_lines
from qsim.core.deck.load import LoadedDeck, load_deck
from qsim.core.errors import DeckError, FileError
from qsim.core.results.atomic import refuse_controls, write_text
from qsim.core.results.reading import read_bytes
from qsim.core.results.results import open_results
from qsim.core.run.files.identity import Identity, differing, summary_of
from qsim.core.run.files.lock import BusyError, OutputLock, held
from qsim.core.run.files.paths import WRITTEN, paths_in, remove
from qsim.core.run.stages import Method
from qsim.core.sweeps.values import Axis, points
from qsim.core.text import printable, reason, shorten

__all__ = ["FAILED", "INDEX", "SUMMARY", "Point", "Sweep", "decks_of", "prepare"]

INDEX = "index.csv"
FAILED = ".failed.json"
SUMMARY = ".summary.json"
# Largest index that is read.
MOST_BYTES = 256 * 2**20
# Seconds that a sweep waits for another one that is writing decks, and between two looks.
PATIENCE, LOOK = 120.0, 0.1
# Decks that a message names.
MOST_NAMED = 5


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
    identity
        What its results must be of.
    """

    number: int
    deck: Path
    values: tuple[str, ...]
    identity: Identity

    @property
    def stem(self) -> Path:
        """The path of all its files, without ending."""
        return self.deck.with_suffix("")

    @property
    def results(self) -> Path:
        """The results file."""
        return self.deck.with_suffix(".h5")

    @property
    def summary(self) -> Path:
        """The summary, which is the last file that a run writes."""
        return self.deck.with_suffix(SUMMARY)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of a run that was stopped, or that can be extended."""
        return self.deck.with_suffix(".ckpt.h5")

    @property
    def failed(self) -> Path:
        """The record of a failure."""
        return self.deck.with_suffix(FAILED)

    @property
    def complete(self) -> bool:
        """True if the results are of this deck, and the summary says what they say."""
        return self.content() is not None

    def content(self) -> dict[str, Any] | None:
        """Return the summary of a complete run; None if it is not complete."""
        try:
            with open_results(self.results) as results:
                mine = self.identity.of_results(results) or not self.unlike()
                return summary_of(results, self.summary) if mine else None
        except FileError:
            return None

    def unlike(self) -> list[str]:
        """Return the keys in which the results differ from the deck, under the names that keys have now.

        Raises
        ------
        FileError
            If results are missing, damaged, or no results.
        """
        with open_results(self.results) as results:
            if self.identity.of_results(results):
                return []
            try:
                loaded = self.require_deck()
            except (DeckError, FileError):
                return ["deck"]
            return differing(loaded, results, self.keys)

    @property
    def keys(self) -> list[str]:
        """The keys that its identity holds besides the problem."""
        return [key for key, _ in self.identity.settings]

    def require_deck(self) -> LoadedDeck[Deck]:
        """Return the deck on the disk, which others may have changed by now.

        Raises
        ------
        DeckError, FileError
            If it cannot be read, or is another one.
        """
        loaded = load_deck(self.deck, Method[Deck, object, object](self.identity.method).deck.DECK)
        if Identity.of(loaded, self.keys) != self.identity:
            raise FileError(
                f"{self.deck}, or a data file that it names, was changed after this sweep had begun",
                hint="the same command makes the deck anew",
            )
        return loaded


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
    notices
        What a user should know of the folder.
    """

    method: str
    folder: Path
    keys: tuple[str, ...]
    points: tuple[Point, ...]
    loaded: LoadedDeck[Deck]
    notices: tuple[str, ...] = ()

    @property
    def missing(self) -> list[Point]:
        """Decks without complete results."""
        return [point for point in self.points if not point.complete]

    def settings(self, point: Point) -> str:
        """Return the values of a point: ``time.T=3000 control.rise=0.1``."""
        return " ".join(_settings(self.keys, point.values))


def decks_of(
    method: str, path: Path, axes: Sequence[Axis], overrides: Sequence[str] = (), *, zipped: bool = False
) -> Iterator[tuple[tuple[str, ...], LoadedDeck[Deck]]]:
    """Yield the values of each point of a sweep with its deck, valid.

    Raises
    ------
    DeckError
        If one of the decks is mistaken.
    FileError
        If the base deck changes meanwhile.
    ValueError
        From :func:`points`.
    """
    model = Method[Deck, object, object](method).deck.DECK
    keys = [axis.key for axis in axes]
    text: str | None = None
    for values in points(axes, zipped=zipped):
        settings = _settings(keys, values)
        try:
            loaded = load_deck(path, model, [*overrides, *settings])
        except DeckError as error:
            error.hint = f"at {' '.join(settings)}; no deck is written before all are valid"
            raise
        if text not in (None, loaded.text):
            raise FileError(f"{path} changed while it was read", hint="the same command reads it again")
        text = loaded.text
        yield values, loaded


def prepare(
    method: str,
    path: Path,
    axes: Sequence[Axis],
    *,
    overrides: Sequence[str] = (),
    zipped: bool = False,
    folder: Path | None = None,
    force: bool = False,
) -> Sweep:
    """Validate the decks of a sweep, and write those that the folder lacks.

    Points that the folder holds keep their number, so a range can be extended later.

    Parameters
    ----------
    method, path, axes, overrides, zipped
        As for :func:`decks_of`.
    folder
        Where decks and results lie; by default ``NAME.sweep``.
    force
        Remove results and checkpoints that are of other decks or other data files.

    Raises
    ------
    DeckError
        If one of the decks is mistaken; nothing is written then.
    FileError
        If the folder cannot be written, holds other decks (of other keys, or of another base deck), results that are not of
        these decks, or if another sweep is at work there with other decks.
    ValueError
        From :func:`points`.
    """
    keys = tuple(axis.key for axis in axes)
    folder = folder or Path(f"{path.stem}.sweep")
    refuse_controls(folder / path.stem)
    wanted: list[tuple[tuple[str, ...], str, Identity]] = []
    first: LoadedDeck[Deck] | None = None
    # All decks are validated before the first one is written.
    for values, loaded in decks_of(method, path, axes, overrides, zipped=zipped):
        first = first or loaded
        wanted.append((values, _text(loaded, folder, keys, values), Identity.of(loaded, keys)))
    if first is None:
        raise ValueError("a sweep needs at least one key")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be made: {error.strerror}") from error
    with _alone(folder):
        # Points of an earlier command keep their numbers, and thereby their decks and results.
        known = _read_index(folder, keys, path.stem)
        _number(known, folder, path.stem, wanted)
        chosen = [
            Point(known[values], folder / f"{path.stem}-{known[values]:04d}.yaml", values, identity)
            for values, _, identity in wanted
        ]
        texts = {point.deck: text for point, (_, text, _) in zip(chosen, wanted, strict=True)}
        _refuse_changes(folder, texts)
        notices = _refuse_others(chosen, force)
        _write_folder(folder, keys, known, texts, path.stem)
        # What was written must mean what was validated: read one back and compare.
        written = load_deck(chosen[0].deck, Method[Deck, object, object](method).deck.DECK)
        if Identity.of(written, keys) != chosen[0].identity:
            raise FileError(
                f"the deck {written.path} does not say what {path} says with its overrides",
                hint="if no file was changed meanwhile, this is a mistake of qsim; please report it with the deck",
            )
    return Sweep(
        method, folder, keys, tuple(sorted(chosen, key=lambda point: point.number)), first, tuple(notices)
    )


def _settings(keys: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{key}={value}" for key, value in zip(keys, values, strict=True)]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other sweeps away from decks and index; wait for one that is writing them."""
    lock, end = OutputLock(folder / "index", whole=True), time.monotonic() + PATIENCE
    while True:
        try:
            lock.__enter__()
            break
        except BusyError as error:
            if time.monotonic() > end:
                raise FileError(
                    f"another sweep is writing the decks of {folder} ({error.owner})",
                    hint="wait for it, or sweep elsewhere with -o FOLDER",
                ) from None
        time.sleep(LOOK)
    try:
        yield
    finally:
        lock.release()


# ------------------------------------------------------------------------------------------- decks


def _text(loaded: LoadedDeck[Deck], folder: Path, keys: Sequence[str], values: Sequence[str]) -> str:
    """Return a deck with the values of a point in place, and paths that hold from the folder of the sweep."""
    data = loaded.data
    # The results of every point lie beside its deck: a name in the base deck would be the same for all.
    if isinstance(data.get("output"), dict):
        data["output"] = {key: value for key, value in data["output"].items() if key != "file"}
    base = loaded.path.parent
    # Relative paths of files are rewritten, since the decks lie in another folder; other texts stay.
    files = {os.path.normpath(file) for file in paths_in(loaded.deck)}
    data = {key: _moved(value, base, folder, files) for key, value in data.items()}
    # The first line of a deck says where it comes from.
    head = f"# {loaded.path.name} with {' '.join(_settings(keys, values))}"
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


def _refuse_changes(folder: Path, texts: Mapping[Path, str]) -> None:
    """Refuse to change a deck that another sweep may be about to run, or that is being run."""
    owner = held(folder / "sweep")
    for path, text in texts.items():
        runner = owner or held(path.with_suffix(""))
        if runner is not None and path.exists() and not _holds(path, text):
            raise FileError(
                f"another sweep or run is at work on {path} with another deck ({runner})",
                hint="wait for it, or sweep elsewhere with -o FOLDER",
            )


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {reason(error)}") from error


# ------------------------------------------------------------------------------------------- results


def _refuse_others(chosen: Sequence[Point], force: bool) -> list[str]:
    """Refuse results and checkpoints of other decks; put damaged ones aside, so that their decks run again.

    Returns
    -------
    list of str
        What was put aside or removed.
    """
    others: dict[Point, str] = {}
    notices: list[str] = []
    for point in chosen:
        try:
            unlike = point.unlike() if os.path.lexists(point.results) else []
            if not unlike and _checkpoint_of_other(point):
                unlike = [point.checkpoint.name]
            if (
                not os.path.lexists(point.results)
                and not point.checkpoint.exists()
                and held(point.stem) is None
            ):
                # A summary and figures whose results were lost would stop the run.
                remove(_files_of(point))
        except FileError as error:
            # Where a folder lies in the place of results, the run will say so.
            if held(point.stem) is None and not point.results.is_dir():
                notices.append(f"{_set_aside(point)}: {error}")
            continue
        if unlike:
            others[point] = f"{point.stem.name} ({', '.join(unlike)})"
    if others and not force:
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        raise FileError(
            f"{len(others)} of {len(chosen)} decks have results that are not theirs: base deck, --set or a data file "
            f"changed, or they are of another sweep: {', '.join(list(others.values())[:MOST_NAMED])}{more}",
            hint="--force removes these results and runs their decks again, -o FOLDER sweeps elsewhere",
        )
    for point, name in others.items():
        if (runner := held(point.stem)) is not None:
            raise FileError(f"{point.results} is being written ({runner})", hint="wait for it")
        remove(_files_of(point))
        notices.append(f"removed results that were not of their deck: {name}")
    return notices


def _checkpoint_of_other(point: Point) -> bool:
    """Return True if there is a checkpoint of another deck; errors as of `load_meta`."""
    return point.checkpoint.exists() and not point.identity.of_checkpoint(point.checkpoint)


def _set_aside(point: Point) -> str:
    """Rename damaged results or a damaged checkpoint, remove what belongs to them, and return what was done."""
    kept = []
    for path in (point.results, point.checkpoint):
        with suppress(OSError):
            path.rename(path.with_name(f"{path.name}.damaged"))
            kept.append(f"{path.name}.damaged")
    remove(_files_of(point))
    return f"{point.stem.name} runs again; what lay there is in {', '.join(kept) or 'no file'}"


def _files_of(point: Point) -> list[Path]:
    """Return what runs of a point have written: results, summary, checkpoint, figures."""
    endings = (*WRITTEN, SUMMARY)
    names = [path for path in point.deck.parent.iterdir() if path.name.startswith(f"{point.stem.name}.")]
    return [path for path in names if path.name.endswith(endings) and not path.is_dir()]


# ------------------------------------------------------------------------------------------- index


def _read_index(folder: Path, keys: Sequence[str], stem: str) -> dict[tuple[str, ...], int]:
    """Return the numbers of the points that the folder of a sweep holds; empty for a new folder.

    Raises
    ------
    FileError
        If the index is damaged, of other keys, or of another base deck.
    """
    path, elsewhere = folder / INDEX, "-o FOLDER sweeps elsewhere"
    if not path.exists():
        return {}
    # Undecodable bytes become marks: a damaged index is refused below, by its content.
    text = read_bytes(path, "the index of a sweep", MOST_BYTES).decode("utf-8", "replace")
    rows: list[list[str]] = []
    # Binary content, of results that lie there, may be none that the reader takes.
    with suppress(csv.Error):
        rows = list(csv.reader(io.StringIO(text)))
    if (
        not rows
        or rows[0][:2] != ["number", "deck"]
        or len(rows[0]) < 3
        or any(len(row) != len(rows[0]) for row in rows)
    ):
        raise FileError(f"{path} is not the index of a sweep", hint=elsewhere)
    # Numbers of decks belong to values of these keys: others need a folder of their own.
    if rows[0][2:] != list(keys):
        raise FileError(
            f"{folder} holds a sweep over {_told(rows[0][2:])}, not over {', '.join(keys)} ({INDEX})",
            hint=elsewhere,
        )
    numbers: dict[tuple[str, ...], int] = {}
    for number, deck, *values in rows[1:]:
        name = re.fullmatch(r"(.+)-(\d{4,})\.yaml", deck)
        if name is None or not number.isdecimal() or int(number) != int(name[2]):
            raise FileError(f"{path} is not the index of a sweep: its numbers are damaged", hint=elsewhere)
        if name[1] != stem:
            raise FileError(
                f"{folder} holds a sweep of {_told([name[1]])}.yaml, not of {stem}.yaml ({INDEX})",
                hint=elsewhere,
            )
        numbers[tuple(values)] = int(number)
    if len(numbers) < len(rows) - 1 or len(set(numbers.values())) < len(numbers):
        raise FileError(f"{path} is damaged: it names a deck or its values twice", hint=elsewhere)
    return numbers


def _told(names: Sequence[str]) -> str:
    return printable(", ".join(shorten(name) for name in names[:MOST_NAMED]))


def _number(
    known: dict[tuple[str, ...], int],
    folder: Path,
    stem: str,
    wanted: Sequence[tuple[tuple[str, ...], str, Identity]],
) -> None:
    """Give numbers to points that the index lacks: of their results, if these lie there, else numbers that nothing has."""
    pattern = re.compile(rf"{re.escape(stem)}-(\d{{4,}})\.(?:h5|ckpt\.h5)")
    files = [match for path in folder.iterdir() if (match := pattern.fullmatch(path.name)) and path.is_file()]
    lying = {int(match[1]) for match in files}
    lost = sorted(lying - set(known.values()))
    new = [(values, identity) for values, _, identity in wanted if values not in known]
    for number in lost if new else ():
        # The index was lost: what its results are of tells the point.
        with suppress(FileError), open_results(folder / f"{stem}-{number:04d}.h5") as results:
            values = next((values for values, identity in new if identity.of_results(results)), None)
            if values is not None:
                known.setdefault(values, number)
    number = max([0, *known.values(), *lost])
    for values, _ in new:
        if values not in known:
            number += 1
            known[values] = number


def _write_folder(
    folder: Path,
    keys: Sequence[str],
    known: Mapping[tuple[str, ...], int],
    texts: Mapping[Path, str],
    stem: str,
) -> None:
    # Decks that are the same stay untouched, with their times.
    for path, text in texts.items():
        if not path.exists() or not _holds(path, text):
            write_text(path, text)
    rows = sorted((number, f"{stem}-{number:04d}.yaml", *values) for values, number in known.items())
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([("number", "deck", *keys), *rows])
    write_text(folder / INDEX, content.getvalue())  # last: without it, decks count as not there

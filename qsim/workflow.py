"""Work before and after runs: check decks, sweep, collect, compare, cite, examples, tables."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from qsim import methods
from qsim.core.errors import DeckError, Diagnostic, FileError, QsimError, Stopped
from qsim.core.results.results import Results, open_results

if TYPE_CHECKING:
    import pandas as pd

    from qsim.core.deck.load import DeckSource
    from qsim.core.examples.catalogue import Example
    from qsim.core.examples.check import Report
    from qsim.core.results.compare import Comparison
    from qsim.core.results.tables import Scalar
    from qsim.core.sweeps.collect import Collection
    from qsim.core.sweeps.folder import Sweep

__all__ = [
    "Differences",
    "Validation",
    "check",
    "cite",
    "collect",
    "compare",
    "difference",
    "examples",
    "method_of",
    "override_texts",
    "sweep",
    "table",
    "validate",
]

Place = str | Path
Overrides = Mapping[str, Any] | Sequence[str]


def override_texts(overrides: Overrides) -> tuple[str, ...]:
    """Return overrides as texts ``KEY=VALUE``."""
    from qsim.core.deck.describe import flow
    from qsim.core.deck.mapping import plain_data

    if isinstance(overrides, Mapping):
        return tuple(f"{key}={flow(plain_data(value))}" for key, value in overrides.items())
    # One text is one override, not one for each of its characters.
    return (overrides,) if isinstance(overrides, str) else tuple(overrides)


def method_of(deck: DeckSource) -> str:
    """Return the method of a deck.

    Raises
    ------
    DeckError
        If it names none, or one that is not there.
    TypeError
        If `deck` is neither a path nor a mapping.
    """
    from qsim.core.deck.load import peek_method

    if not isinstance(deck, str | os.PathLike | Mapping):
        raise TypeError(
            f"a deck is the path of a YAML file or a mapping of its keys, not a {type(deck).__name__}"
        )
    if isinstance(deck, str) and "\n" in deck:
        raise TypeError(
            "a deck is a path or a mapping, not the text of one; yaml.safe_load(text) makes a mapping"
        )
    name = peek_method(deck)
    if not methods.is_available(name):
        raise DeckError(f"{'the deck' if isinstance(deck, Mapping) else deck}: {methods.refusal(name)}")
    return name


# ------------------------------------------------------------------------------------------- decks


@dataclass(frozen=True)
class Validation:
    """Findings in a deck; true if it is valid.

    Attributes
    ----------
    problems
        Errors, warnings and notes, each with file, line, column, key, message and severity.
    """

    problems: tuple[Diagnostic, ...] = ()

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Return the findings that stop a run."""
        return tuple(item for item in self.problems if item.severity == "error")

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """Return the notes on old names of keys and numbers without units."""
        return tuple(item for item in self.problems if item.severity == "note")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the findings that a user should know."""
        return tuple(item for item in self.problems if item.severity == "warning")

    def __bool__(self) -> bool:
        return not self.errors

    def __repr__(self) -> str:
        """Return a line per problem."""
        return "\n".join(["valid" if self else "mistaken", *map(str, self.problems)])


def validate(deck: DeckSource, *, overrides: Overrides = ()) -> Validation:
    """Check a deck without running it: keys, values, units and physics.

    Parameters
    ----------
    deck
        A YAML file, or a mapping.
    overrides
        As for `qsim.run`.

    Returns
    -------
    Validation
        True if the deck is valid; its problems are errors and warnings with their places.

    Raises
    ------
    FileError
        If a file cannot be read.
    """
    from qsim.core.run.examine import examine

    try:
        return Validation(tuple(examine(method_of(deck), deck, override_texts(overrides))))
    except DeckError as error:
        if not error.diagnostics:
            return Validation((Diagnostic("", 1, 1, "", str(error)),))
        return Validation(tuple(error.diagnostics))


def examples(method: str | None = None) -> list[Example]:
    """Return the decks that come with qsim, of one method or of all; ``qsim.run(example.path)`` runs one."""
    from qsim.core.examples.catalogue import examples as listed

    if method is not None and not methods.is_available(method):
        raise ValueError(methods.refusal(method))
    return listed([method] if method else methods.available())


def check(method: str | None = None, *, slow: bool = False, device: str | None = None) -> list[Report]:
    """Run the reference decks and compare with stored numbers.

    Parameters
    ----------
    method
        Of one method; by default of all.
    slow
        Also decks that take minutes.
    device
        As for `qsim.run`.

    Returns
    -------
    list of Report
        One per deck, with ``ok`` and ``mismatches``.
    """
    from qsim.core.examples.check import cases, run_case

    chosen = [case for case in cases([method] if method else methods.available()) if slow or not case.slow]
    with tempfile.TemporaryDirectory(prefix="qsim-check-") as folder:
        reports = []
        for number, case in enumerate(chosen):
            place = Path(folder) / str(number)
            place.mkdir()
            reports.append(run_case(case, place, device))
        return reports


def cite(source: DeckSource | Results) -> str:
    """Return BibTeX of qsim and of what a run used.

    Parameters
    ----------
    source
        Results, the path of a results file, a deck, or its path.
    """
    from qsim.core.deck.load import load_deck
    from qsim.core.results.display.bibliography import bibtex, keys_of
    from qsim.core.run.stages import stage

    if isinstance(source, Results):
        return bibtex(keys_of(source))
    if not isinstance(source, Mapping) and Path(source).suffix not in (".yaml", ".yml"):
        with open_results(source) as results:
            return bibtex(keys_of(results))
    deck = stage(method_of(source), "deck")
    return bibtex(deck.references(load_deck(source, deck.DECK).deck))


# ------------------------------------------------------------------------------------------- many runs


def sweep(
    deck: DeckSource,
    over: Mapping[str, Any],
    *,
    folder: Place | None = None,
    jobs: int = 1,
    zipped: bool = False,
    overrides: Overrides = (),
    device: str | None = None,
    force: bool = False,
) -> Collection:
    """Run a deck at many values and return the table of the runs; values that the folder has are not run again.

    Parameters
    ----------
    deck
        A YAML file, or a mapping.
    over
        Values of each key: a list, or a text ``"A:B:N"`` as on the command line.
    folder
        Where decks and results lie. By default ``NAME.sweep`` for a file; for a mapping a temporary folder, removed when the
        table is forgotten.
    jobs
        Processes. More than one start this program anew, which must protect its work by ``if __name__ == "__main__":``.
    zipped
        Take the values side by side instead of all combinations.
    overrides, device
        As for `qsim.run`.
    force
        Remove results that are not of their decks, and run these again.

    Returns
    -------
    Collection
        With ``to_dataframe()``, ``write(path)`` and ``draw(stem)``.

    Raises
    ------
    DeckError
        If a deck is mistaken; nothing is run then.
    QsimError
        If a run failed, when the others are done.
    Stopped
        If the sweep was stopped; the same call continues it.
    ValueError
        If values are none.
    """
    from qsim.core.deck.mapping import deck_text
    from qsim.core.sweeps.folder import prepare
    from qsim.core.sweeps.values import parse_axis

    method = method_of(deck)
    axes = [parse_axis(_axis_text(key, values)) for key, values in over.items()]
    made = ""
    if isinstance(deck, Mapping):
        if folder is None:
            made = tempfile.mkdtemp(prefix="qsim-sweep-")
        path = _written(deck, Path(made or folder or "."))
        folder = path.parent
    else:
        path = Path(deck)
    prepared = prepare(
        method,
        path,
        axes,
        overrides=override_texts(overrides),
        zipped=zipped,
        folder=None if folder is None else Path(folder),
        force=force,
    )
    if isinstance(deck, Mapping) and prepared.loaded.text != deck_text(deck).encode(
        "utf-8", "backslashreplace"
    ).decode("utf-8"):
        raise FileError(f"{path} was replaced by another sweep", hint="give each deck a folder of its own")
    _run_missing(prepared, jobs, device)
    table = collect(*(point.results for point in prepared.points))
    if made:
        # the folder lives as long as the table
        weakref.finalize(table, shutil.rmtree, made, ignore_errors=True)
    return table


def _axis_text(key: str, values: object) -> str:
    from qsim.core.deck.describe import flow
    from qsim.core.deck.mapping import plain_data

    if isinstance(values, str):
        return f"{key}={values}"
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise TypeError(f"{key}: expected a list of values, or a text such as '1:2:5', found {values!r}")
    return f"{key}={','.join(flow(value) for value in plain_data(values))}"


def _written(deck: Mapping[str, Any], folder: Path) -> Path:
    """Write a mapping as the base deck of a sweep; files that it names stay where they are."""
    from qsim.core.deck.mapping import deck_text
    from qsim.core.results.atomic import write_text

    folder.mkdir(parents=True, exist_ok=True)
    return write_text(folder / "deck.yaml", deck_text(deck), overwrite=True)


def _run_missing(prepared: Sweep, jobs: int, device: str | None) -> None:
    """Run what a sweep lacks; raise the first failure when all others are done."""
    from qsim.core.run.signals import Signals
    from qsim.core.sweeps.sweep import run, run_here

    failed: list[str] = []
    with Signals() as signals:
        work = run_here(prepared, device=device, stop=lambda: signals.stop)
        if jobs > 1:
            work = run(prepared, jobs=jobs, device=device, stop=lambda: signals.stop)
        for point, done in work:
            if done.code == Stopped.exit_code:
                break
            if done.code and not done.busy:
                failed.append(f"{point.deck.stem} ({prepared.settings(point)}): {done.message}")
        stopped = signals.stop
    missing = prepared.missing
    if missing and (stopped or not failed):
        raise Stopped(f"{len(missing)} of {len(prepared.points)} decks are left; the same call continues")
    if failed:
        raise QsimError("\n".join([f"{len(failed)} of {len(prepared.points)} decks failed", *failed[:10]]))


def collect(*places: Place, scalars: Sequence[str] = (), everything: bool = False) -> Collection:
    """Return one table of many runs: keys in which their decks differ, and scalars with errors.

    Parameters
    ----------
    places
        Folders, results files or summaries.
    scalars
        Names to take; by default the headline of each method.
    everything
        All scalars.

    Raises
    ------
    FileError
        If a place holds no run, or one that is damaged or not of its deck.
    KeyError
        If no run has a scalar of `scalars`.
    """
    from qsim.core.sweeps import gather
    from qsim.core.sweeps.rows import without_index
    from qsim.core.sweeps.runs import find_runs

    chosen = (lambda method: tuple(scalars)) if scalars or everything else gather.headline_of
    table = gather.collect(find_runs(map(Path, places)), chosen)
    if table.refused:
        raise FileError(
            "\n".join(["results are damaged, or not of their decks", *table.refused[:10]]),
            hint="qsim.sweep runs these again; name the others to take them alone",
        )
    known = {column.name for column in table.columns}
    if absent := [name for name in scalars if not {name, without_index(name)} & known]:
        raise KeyError(f"no run has the scalar '{absent[0]}'")
    return table


# ------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class Differences(Sequence["Comparison"]):
    """Comparisons of two files, one per quantity; true if all agree."""

    items: tuple[Comparison, ...]

    @property
    def differing(self) -> list[Comparison]:
        """Quantities that differ."""
        return [item for item in self.items if not item.same]

    @overload
    def __getitem__(self, index: int) -> Comparison: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Comparison]: ...
    def __getitem__(self, index: int | slice) -> Comparison | Sequence[Comparison]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.items)

    def __bool__(self) -> bool:
        return not self.differing

    def __repr__(self) -> str:
        """Return a line per difference."""
        head = f"{len(self.items) - len(self.differing)} of {len(self.items)} quantities agree"
        return "\n".join(
            [head, *(f"{item.name}: {item.first}, {item.second}  {item.note}" for item in self.differing)]
        )


def compare(
    first: Place | Results,
    second: Place | Results,
    *,
    rtol: float = 1e-9,
    atol: float = 0.0,
    sigmas: float = 3.0,
) -> Differences:
    """Compare scalars and arrays of two results.

    Parameters
    ----------
    first, second
        Open results, or paths.
    rtol, atol, sigmas
        Numbers agree within rtol times their size, plus atol, plus sigmas times their combined standard error.

    Returns
    -------
    Differences
        True if all quantities agree.
    """
    from qsim.core.physics.conversion import factor_between
    from qsim.core.results.compare import Tolerance, compare_results

    opened = [] if isinstance(first, Results) and isinstance(second, Results) else list[Results]()
    try:
        pair = []
        for one in (first, second):
            if isinstance(one, Results):
                pair.append(one)
            else:
                opened.append(open_results(one))
                pair.append(opened[-1])
        return Differences(
            tuple(compare_results(pair[0], pair[1], Tolerance(rtol, atol, sigmas), factor_between))
        )
    finally:
        for results in opened:
            results.close()


def difference(terms: Mapping[Place, float], scalar: str = "") -> Scalar:
    """Return a sum of numbers of several runs with their factors, such as a binding energy or a gap, and its error.

    ``difference({"lih.h5": 1, "li.h5": -1, "h.h5": -1}, "dmc_energy")``.  Errors of different runs are taken as independent (in
    quadrature), those of one run add up.

    Parameters
    ----------
    terms
        Factors by results file; ``"FILE:NAME"`` takes another scalar of that file.
    scalar
        Name of the scalar of all terms that name none.

    Returns
    -------
    Scalar
        With ``value``, ``error`` and ``unit``, those of the first term.

    Raises
    ------
    FileError
        If a file is no complete result.
    KeyError
        If a file has no such scalar.
    MismatchError
        If a scalar is no number, or in a unit of another quantity than the first.
    ValueError
        If there is no term, or one names no scalar.
    """
    from qsim.core.physics.conversion import factor_between
    from qsim.core.sweeps.difference import Term, combined

    listed = []
    for place, factor in terms.items():
        file, colon, name = str(place).rpartition(":")
        # A name of a file may hold a colon, too.
        if not colon or Path(place).exists():
            file, name = str(place), scalar
        if not name:
            raise ValueError(f"{place} names no scalar; give one for all terms, or FILE:NAME")
        listed.append(Term(float(factor), Path(file), name))
    if not listed:
        raise ValueError("expected results files with their factors, found none")
    return combined(listed, factor_between)


def table(
    results: Results | Place, *names: str, units: str = "", at: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """Return arrays of a results file as a table: coordinates, values and errors, a row per element.

    Parameters
    ----------
    results
        Open results, or the path of a file.
    names
        Arrays that share their axes; the scalars without any.
    units
        Units to give numbers in, such as ``"eV, Mb"``.
    at
        Values of axes to which rows are restricted: ``{"spin": "singlet"}``.

    Returns
    -------
    pandas.DataFrame
        With units in the names of the columns: ``energy (eV)``.

    Raises
    ------
    KeyError
        If there is no such array or axis.
    ValueError
        If the arrays have different axes, or nothing can be given in a unit.
    """
    import pandas as pd

    from qsim.core.physics.conversion import split_units
    from qsim.core.sweeps.columns import columns_of, scalar_columns

    if not isinstance(results, Results):
        with open_results(results) as opened:
            return table(opened, *names, units=units, at=at)
    wanted = split_units(units)
    places = {axis: str(value) for axis, value in (at or {}).items()}
    made = columns_of(results, names, wanted, places) if names else scalar_columns(results, wanted)
    return pd.DataFrame(dict(zip(made.header, made.columns, strict=True)))

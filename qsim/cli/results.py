"""The commands that read results files: ``show``, ``table``, ``compare``, ``difference``, ``cite``, ``collect``."""

from __future__ import annotations

import csv
import dataclasses
import io
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim.cli.arguments import DECK_SUFFIXES, RESULTS_SUFFIXES, ResultsFile, require_method
from qsim.cli.failures import failures_as_json
from qsim.cli.terminal import columns, one_line, print_json, print_path, say
from qsim.core.errors import FileError, MismatchError
from qsim.core.text import format_scalar, printable, shorten

if TYPE_CHECKING:
    from qsim.core.results.compare import Comparison, Tolerance
    from qsim.core.results.results import Results
    from qsim.core.sweeps.difference import Term

__all__ = ["cite", "collect", "compare", "difference", "show", "table"]

# Most decks without results that `collect` lists.
MAX_LINES = 20


@click.command()
@click.argument("file", type=ResultsFile())
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--deck", is_flag=True, help="Print the deck of the run, as it was written.")
def show(file: Path, as_json: bool, deck: bool) -> None:
    """Print scalars, tables and provenance of a results file."""
    from qsim.core.results.results import open_results

    with failures_as_json(as_json), open_results(file) as results:
        # Three outputs that exclude each other: the deck for a file, JSON for a program,
        # columns for a reader.
        if deck:
            text = str(results.provenance.get("deck_text", ""))  # a file or a pipe gets it as it was
            click.echo(printable(text, newlines=True) if sys.stdout.isatty() else text, nl=False)
        elif as_json:
            print_json(_content(results))
        else:
            _show(results)


def _content(results: Results) -> dict[str, Any]:
    """Return everything but the numbers of the arrays, for ``--json``."""
    from qsim.core.results.summary import entry

    return {
        "file": str(results.path),
        "method": results.method,
        "title": results.title,
        "status": results.status,
        "created": results.created,
        "format_version": results.format_version,
        "scalars": {
            name: {**entry(scalar), "description": scalar.description}
            for name, scalar in results.scalars.items()
        },
        "tables": {
            name: {
                "shape": results.shape(name),
                "dims": results.dims(name),
                "unit": results.unit(name),
                "description": results.description(name),
            }
            for name in results.names
        },
        "provenance": results.provenance,
        "log": results.log,
    }


def _show(results: Results) -> None:
    """Print the file as aligned columns."""
    content = _content(results)
    click.echo(
        columns((name, str(content[name])) for name in ("file", "method", "title", "status", "created"))
    )
    scalars = [
        (name, format_scalar(s.value, s.unit, s.error, 12, s.note), s.description)
        for name, s in results.scalars.items()
    ]
    click.echo("\n" + columns(scalars, ("scalar", "value", "meaning")))
    # Arrays by shape and meaning only: their numbers are for plots and programs.
    tables = [
        (name, " x ".join(map(str, t["shape"])), ", ".join(t["dims"]), t["unit"], t["description"])
        for name, t in content["tables"].items()
    ]
    click.echo("\n" + columns(tables, ("table", "shape", "axes", "unit", "meaning")))
    long = ("deck", "deck_text", "physics")  # --deck and --json print these
    provenance = [(name, one_line(v)) for name, v in content["provenance"].items() if name not in long]
    click.echo("\n" + columns(provenance, ("provenance", "")))


@click.command()
@click.argument("file", type=ResultsFile())
@click.argument("names", nargs=-1, metavar="[ARRAY]...")
@click.option(
    "--units", metavar="LIST", default="", help="Units to give numbers in, such as 'eV, Mb' or 'b/(eV sr^2)'."
)
@click.option("--at", "places", metavar="AXIS=VALUE", multiple=True, help="Only rows there; may be repeated.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File to write instead of printing.",
)
@click.option("--force", is_flag=True, help="Replace an existing file.")
def table(
    file: Path, names: tuple[str, ...], units: str, places: tuple[str, ...], output: Path | None, force: bool
) -> None:
    """Print arrays of a results file as CSV: coordinates, values, errors; without ARRAY, the scalars.

    ARRAYs that share their axes stand side by side.
    """
    from qsim.core.physics.conversion import split_units
    from qsim.core.results.atomic import write_text
    from qsim.core.results.results import open_results
    from qsim.core.sweeps.columns import columns_of, scalar_columns

    at = dict(_axis_value(place) for place in places)
    # Wrong names and units are told as mistakes of the command line, all before the first line of output.
    with open_results(file) as results:
        try:
            wanted = split_units(units)
            made = columns_of(results, names, wanted, at) if names else scalar_columns(results, wanted)
        except (ValueError, KeyError) as error:
            raise click.UsageError(str(error.args[0])) from None
    # Rows are made in full before any is written: a file is whole or absent.
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(made.header)
    writer.writerows(made.rows())
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        print_path(write_text(output, text.getvalue(), overwrite=force))


def _axis_value(text: str) -> tuple[str, str]:
    """Return axis and value of ``AXIS=VALUE``."""
    axis, equals, value = text.partition("=")
    if not equals or not axis.strip() or not value.strip():
        raise click.UsageError(f"--at {text}: expected AXIS=VALUE, such as spin=singlet")
    return axis.strip(), value.strip()


@click.command()
@click.argument("first", type=ResultsFile(), metavar="A")
@click.argument("second", type=ResultsFile(), metavar="B")
@click.option(
    "--rtol", type=click.FloatRange(min=0), default=1e-9, show_default=True, help="Relative tolerance."
)
@click.option(
    "--atol", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Absolute tolerance."
)
@click.option(
    "--sigmas", type=click.FloatRange(min=0), default=3.0, show_default=True, help="Allowed standard errors."
)
@click.option("--only", metavar="NAME", multiple=True, help="Only this scalar or array; may be repeated.")
@click.option(
    "--headline", is_flag=True, help="Only the scalars that a run shows first, without diagnostics."
)
@click.option("--all", "show_all", is_flag=True, help="Also show quantities that agree.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def compare(
    first: Path,
    second: Path,
    only: tuple[str, ...],
    headline: bool,
    show_all: bool,
    as_json: bool,
    **tolerance: float,
) -> None:
    """Compare scalars and arrays of two results files; exit with 7 if they differ.

    Numbers agree within rtol times their size (arrays: their largest element) plus atol plus sigmas times
    their combined standard error.
    """
    from qsim.core.results.compare import Tolerance
    from qsim.core.results.results import open_results

    with failures_as_json(as_json), open_results(first) as a, open_results(second) as b:
        # No names at all: everything is compared.
        names = {*only, *(_headline_of(a) if headline else ())}
        if unknown := sorted(
            name for name in only if not any(name in r.scalars or name in r for r in (a, b))
        ):
            raise click.UsageError(f"neither file has '{unknown[0]}'; 'qsim show FILE' lists names")
        found = _compared(a, b, names, Tolerance(**tolerance))
    disagreeing = [item for item in found if not item.same]
    listed = found if show_all else disagreeing
    if as_json:
        quantities = [dataclasses.asdict(item) for item in listed]
        print_json({"agree": not disagreeing, "compared": len(found), "quantities": quantities})
    elif listed:
        click.echo(columns(map(_row, listed), ("", "quantity", "A", "B", "difference", "allowed", "")))
    if disagreeing:
        raise MismatchError(f"{len(disagreeing)} of {len(found)} quantities differ")
    say(f"{len(found)} quantities agree")


def _headline_of(results: Results) -> Sequence[str]:
    from qsim.core.run.stages import Method

    require_method(results.method)
    return [results.scalars.real(name) for name in Method[Any, Any, Any](results.method).headline]


def _compared(a: Results, b: Results, names: set[str], tolerance: Tolerance) -> list[Comparison]:
    """Return the comparisons of two files, of some quantities if there are names."""
    from qsim.core.physics.conversion import factor_between
    from qsim.core.results.compare import compare_results

    if a.method != b.method:
        raise MismatchError(
            f"{a.path} holds results of {a.method}, {b.path} of {b.method}: their quantities are not the same",
            hint="qsim collect puts numbers of several methods into one table",
        )
    found = compare_results(a, b, tolerance, factor_between)
    return [item for item in found if not names or item.name in {*names, "method"}]


def _row(item: Comparison) -> tuple[str, ...]:
    """Return the cells of a line of ``qsim compare``."""
    mark = "" if item.same else "differs"
    numbers = (_number(item.difference), _number(item.allowed))
    return (mark, item.name, item.first, item.second, *numbers, item.note)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


@click.command()
@click.argument("words", metavar="[N*]A [+|-] [N*]B ... SCALAR", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def difference(words: tuple[str, ...], as_json: bool) -> None:
    """Print a sum or difference of numbers of several runs with its error: molecule.h5 - 2*atom.h5 dmc_energy.

    A term FILE:NAME takes another scalar of that file. Errors of different runs are taken as independent (in quadrature), those
    of one run add up.
    """
    from qsim.core.physics.conversion import factor_between
    from qsim.core.results.summary import entry
    from qsim.core.sweeps.difference import combined

    with failures_as_json(as_json):
        terms = _terms(words)
        try:
            found = combined(terms, factor_between)
        except KeyError as error:
            raise click.UsageError(str(error.args[0])) from None
    if as_json:
        print_json({**entry(found), "terms": [dataclasses.asdict(term) for term in terms]})
    else:
        click.echo(format_scalar(found.value, found.unit, found.error, 12, found.note))


def _terms(words: Sequence[str]) -> list[Term]:
    """Return the terms of ``2*A.h5 - B.h5 SCALAR``."""
    from qsim.core.sweeps.difference import Term

    # The last word is the scalar of all terms that name none; with a single file for each there is no such word.
    last = words[-1]
    named = not last.endswith(RESULTS_SUFFIXES) and ":" not in last
    terms: list[Term] = []
    sign: float | None = 1.0
    for word in words[: -1 if named else None]:
        if word in ("+", "-"):
            if sign is not None and terms:
                raise click.UsageError(f"'{word}' follows '+' or '-'; expected a results file")
            sign = (sign or 1.0) * (-1.0 if word == "-" else 1.0)
            continue
        if sign is None:
            raise click.UsageError(
                f"'{word}' follows a results file; expected '+' or '-' between two of them"
            )
        factor, star, file = word.rpartition("*")
        path, colon, name = file.rpartition(":")
        if not colon:
            path, name = file, last if named else ""
        try:
            number = float(factor) if star else 1.0
        except ValueError:
            raise click.UsageError(f"'{factor}' of '{word}' is no number") from None
        if not name or not path:
            raise click.UsageError(f"{word}: no scalar; the last word names it, or FILE:NAME does")
        terms.append(Term(sign * number, Path(path), name))
        sign = None
    if not terms or sign is not None:
        raise click.UsageError(
            "expected results files with '+' or '-' between them, and the name of a scalar"
        )
    return terms


@click.command()
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def cite(file: Path) -> None:
    """Print BibTeX of qsim and of what a run used; FILE: results or deck."""
    from qsim.core.results.display.bibliography import bibtex, keys_of
    from qsim.core.results.results import open_results

    # A deck tells what a run would use, a results file what its run has used.
    if file.suffix in DECK_SUFFIXES:
        from qsim.core.deck.load import load_deck, peek_method
        from qsim.core.run.stages import stage

        method = peek_method(file)
        require_method(shorten(method))
        deck = stage(method, "deck")
        keys = list(deck.references(load_deck(file, deck.DECK).deck))
    else:
        with open_results(file) as results:
            keys = keys_of(results)
            if "references" not in results.provenance:
                click.echo("written before qsim recorded what a run uses; only qsim is listed", err=True)
    click.echo(bibtex(keys), nl=False)


@click.command()
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUNS...")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Table to write, .csv or .h5, with a figure beside it.",
)
@click.option(
    "--scalar", "names", metavar="NAME", multiple=True, help="Take this scalar only; may be repeated."
)
@click.option("--all", "everything", is_flag=True, help="All scalars, not only the headline of each method.")
@click.option("--force", is_flag=True, help="Replace an existing table and figure.")
@click.option("--no-figures", is_flag=True, help="Draw no figure.")
def collect(
    runs: tuple[Path, ...],
    output: Path,
    names: tuple[str, ...],
    everything: bool,
    force: bool,
    no_figures: bool,
) -> None:
    """Write one table of many runs: every key in which their decks differ, and their scalars with errors.

    RUNS are folders, results files or summaries.
    """
    from qsim.core.results.plotting import FORMATS
    from qsim.core.run.files.paths import refuse_existing
    from qsim.core.sweeps import gather
    from qsim.core.sweeps.collect import write_collection
    from qsim.core.sweeps.rows import without_index
    from qsim.core.sweeps.runs import find_runs, incomplete

    if output.suffix not in (".csv", ".h5", ".hdf5"):
        raise click.UsageError(f"-o {output}: a table is a .csv or a .h5 file")
    # The figure lies beside the table, under its name.
    stem = output.with_suffix("")
    # All formats are looked for: an older figure beside a new table would show other runs.
    drawn = [] if no_figures else [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    if not force:
        refuse_existing([output, *drawn], "-o FILE writes elsewhere")
    # Runs of several methods may share a table, each with its own headline.
    chosen = (lambda method: names) if names or everything else gather.headline_of
    table = gather.collect(find_runs(runs), chosen)
    # A scalar of a list may be named with the number of one of its entries: its column holds all of them.
    if absent := [
        name for name in names if not {name, without_index(name)} & {column.name for column in table.columns}
    ]:
        raise click.UsageError(f"no run has the scalar '{absent[0]}'; 'qsim show FILE' lists them")
    command = shlex.join(["qsim", *sys.argv[1:]])
    print_path(write_collection(table, output, overwrite=force, command=command))
    for path in table.draw(stem) if drawn else ():
        print_path(path)
    if warned := sum(1 for column in table.of("warnings") for cell in column.cells if cell):
        say(f"{warned} of {len(table)} rows are of runs with warnings, in the column 'warnings'")
    if lacking := incomplete(runs):
        _tell(f"{len(lacking)} decks are not complete and not in the table:", lacking)
    if table.refused:
        _tell(f"{len(table.refused)} results are not in the table:", table.refused)
        raise FileError(
            f"{output} lacks {len(table.refused)} of the runs, whose results are damaged or not of their decks",
            hint="'qsim sweep' runs these again",
        )


def _tell(head: str, lines: Sequence[str]) -> None:
    click.echo(head, err=True)
    for line in lines[:MAX_LINES]:
        say(f"  {line}")

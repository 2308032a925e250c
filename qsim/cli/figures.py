"""The commands that draw results files: ``plot`` and ``view``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from qsim.cli.arguments import RESULTS_SUFFIXES, FigureSize, Limits, formats_option, require_method
from qsim.cli.terminal import print_path, say
from qsim.core.text import shell_path, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.display.axes import AxesOptions, Converted
    from qsim.core.results.results import Results

__all__ = ["plot", "view"]


def _show_style(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the style of all figures, to be changed and given as QSIM_STYLE or with --style."""
    if value and not ctx.resilient_parsing:
        from importlib import resources

        from qsim.core.results.plotting import STYLE_FILE

        click.echo(
            resources.files("qsim.core.results").joinpath(STYLE_FILE).read_text(encoding="utf-8"), nl=False
        )
        ctx.exit()


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="FILE... [NAME]...")
@click.option(
    "-o", "--output", metavar="DIR", type=click.Path(path_type=Path), help="Folder; by default FILE's."
)
@click.option("--overlay", is_flag=True, help="Draw the lines of several files into the same axes.")
@formats_option("Format, png by default; may be repeated.")
@click.option("--style", metavar="STYLE", help="A style of matplotlib, or the path of a .mplstyle file.")
@click.option(
    "--show-style",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_style,
    help="Print qsim's style file.",
)
@click.option("--size", type=FigureSize(), metavar="WxH", help="Width and height in inches, such as 7x4.")
@click.option(
    "--column", is_flag=True, help="For one column of a journal, 8.6 cm: panels below each other, no title."
)
@click.option(
    "--xlim", type=Limits(), metavar="A:B", help="Ends of the horizontal axes; 'A:' and ':B' set one."
)
@click.option("--ylim", type=Limits(), metavar="A:B", help="Ends of the vertical axes.")
@click.option("--log", type=click.Choice(["x", "y", "xy"]), help="Axes with a logarithmic scale.")
@click.option("--linear", type=click.Choice(["x", "y", "xy"]), help="Axes with a linear scale.")
@click.option("--units", metavar="LIST", default="", help="Units of the axes, such as 'eV, fs'.")
@click.option("--panel", type=click.IntRange(min=1), metavar="N", help="Limits and scales belong to panel N.")
@click.option("--force", is_flag=True, help="Replace existing figures.")
def plot(words: tuple[str, ...], overlay: bool, **options: Any) -> None:
    """Draw figures of results files, all or those NAMEd; print the paths of the files.

    NAME is a figure of the method, or an array of one or two dimensions, such as a column of 'qsim show'.
    """
    wanted = _Wanted(**options)
    # Files and names come in one list of words: a file is what ends like one, or exists.
    files = [Path(word) for word in words if word.endswith(RESULTS_SUFFIXES) or Path(word).is_file()]
    names = [word for word in words if Path(word) not in files]
    if not files:
        raise click.UsageError(f"no results file given; '{shorten(words[0])}' does not end with .h5")
    if overlay and len(files) < 2:
        raise click.UsageError("--overlay needs two results files or more")
    # Without --overlay every file gets figures of its own.
    for group in [files] if overlay else [[file] for file in files]:
        _plot(group, names, wanted)


@dataclass(frozen=True)
class _Wanted:
    """Options of ``plot``, as the parser names them."""

    output: Path | None
    formats: tuple[str, ...]
    style: str | None
    size: tuple[float, float] | None
    column: bool
    xlim: tuple[float | None, float | None] | None
    ylim: tuple[float | None, float | None] | None
    log: str | None
    linear: str | None
    units: str
    panel: int | None
    force: bool

    def axes(self) -> AxesOptions | None:
        """Return what changes of the axes; None for nothing."""
        from qsim.core.physics.conversion import convert, split_units
        from qsim.core.results.display.axes import AxesOptions

        log, linear = self.log or "", self.linear or ""
        if not (self.xlim or self.ylim or log or linear or self.units):
            if self.panel is not None:
                raise click.UsageError("--panel needs --xlim, --ylim, --log or --linear")
            return None
        if set(log) & set(linear):
            raise click.UsageError("--log and --linear name the same axis")
        try:
            units = split_units(self.units)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--units") from None

        def converted(unit: str, name: str) -> Converted:
            return convert(unit, units, name)

        return AxesOptions(self.xlim, self.ylim, log, linear, units, converted if units else None, self.panel)


def _plot(files: Sequence[Path], names: Sequence[str], wanted: _Wanted) -> None:
    """Draw figures of one file, or of several in the same axes."""
    from qsim.core.results.plotting import also_styled, column
    from qsim.core.results.reading import reading
    from qsim.core.results.results import open_results
    from qsim.core.run.files.drawing import save_figure
    from qsim.core.run.files.paths import figure_paths, refuse_existing, require_folder

    formats, axes = wanted.formats or ("png",), wanted.axes()
    # All files stay open until their figures are written: arrays are read while a figure is
    # drawn.
    with ExitStack() as stack:
        results = [stack.enter_context(open_results(file)) for file in files]
        chosen = _functions(results, names)
        # Several files in one figure: the names of the first four tell which, longer names may
        # not fit.
        stem = (wanted.output or files[0].parent) / "+".join(file.stem for file in files[:4])
        require_folder(stem.parent)
        if not wanted.force:
            paths = [path for name in chosen for path in figure_paths(stem, _file_name(name), formats)]
            refuse_existing(paths, "-o DIR draws elsewhere")
        stack.enter_context(also_styled(wanted.style))
        stack.enter_context(column(wanted.column))
        figures: dict[str, Figure | None] = {}
        for name, function in chosen.items():
            with reading(files[0], f"what the figure '{name}' shows", place=f"figure '{name}'"):
                figure = _drawn(function, results, files)
                if figure is not None and wanted.size is not None:
                    figure.set_size_inches(wanted.size)
            figures[name] = figure
        if axes is not None:
            _adjust({name: figure for name, figure in figures.items() if figure is not None}, axes)
        for name, figure in figures.items():
            with reading(files[0], f"what the figure '{name}' shows", place=f"figure '{name}'"):
                # the legend names the runs, and a journal has captions
                title = "" if len(results) > 1 or wanted.column else None
                written = save_figure(figure, results[0], _file_name(name), stem, formats, title)
            for path in written:
                print_path(path)
        if empty := [name for name, figure in figures.items() if figure is None]:
            say(f"{files[0]} has no data for {', '.join(empty)}")


def _adjust(figures: Mapping[str, Figure], axes: AxesOptions) -> None:
    """Change the axes of figures; a unit must fit an axis of one of them."""
    from qsim.core.results.display.axes import adjust, labels_of

    used: set[str] = set()
    for name, figure in figures.items():
        try:
            used |= adjust(figure, axes)
        except ValueError as error:
            raise click.UsageError(f"figure '{name}': {error}") from None
    # Steradians have no other unit to be given in.
    if unused := [unit for unit in axes.units if unit not in used and unit != "sr"]:
        there = "; ".join(f"{name} has {labels_of(figure)}" for name, figure in figures.items())
        raise click.UsageError(f"no axis can be given in {unused[0]}: {there}")


def _file_name(name: str) -> str:
    return name.replace("/", ".")


def _functions(
    results: Sequence[Results], names: Sequence[str]
) -> dict[str, Callable[[Results], Figure | None]]:
    """Return what draws each figure; the names of arrays count, too."""
    from functools import partial

    from qsim.core.results.display.views import plot as draw_named
    from qsim.core.run.stages import stage

    method = results[0].method
    require_method(shorten(method))
    if any(each.method != method for each in results):
        raise click.UsageError("the files are of different methods; --overlay needs one")
    known = stage(method, "output").FIGURES
    if unknown := [name for name in names if name not in known and name not in results[0]]:
        listing = ", ".join(known) or "none"
        raise click.UsageError(
            f"{method} has no figure '{unknown[0]}'; it has {listing}, and its arrays ('qsim show')"
        )
    # Maps cannot be overlaid: of several files, only the overview is drawn where nothing is named.
    wanted = names or (("overview",) if len(results) > 1 and "overview" in known else tuple(known))
    return {name: known.get(name) or partial(_array, draw_named, name) for name in wanted}


def _array(draw: Callable[..., Any], name: str, results: Results) -> Any:
    return draw(results, name)


def _drawn(
    function: Callable[[Results], Figure | None], results: Sequence[Results], files: Sequence[Path]
) -> Figure | None:
    from qsim.core.physics.conversion import factor_between
    from qsim.core.results.display.overlay import overlay
    from qsim.core.results.plotting import draw

    if len(results) == 1:
        return draw(function, results[0])
    return overlay(function, results, [file.stem for file in files], factor_between)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="HTML",
    type=click.Path(path_type=Path),
    help="File or folder; by default FILE's name with .html.",
)
@click.option("--figures", metavar="NAME,NAME", help="Only these figures; all by default.")
@click.option("--open", "show", is_flag=True, help="Open the page in the browser.")
@click.option("--force", is_flag=True, help="Replace an existing page.")
def view(files: tuple[Path, ...], output: Path | None, figures: str | None, show: bool, force: bool) -> None:
    """Write a run as one HTML page: numbers, figures, deck, provenance; several runs side by side."""
    from qsim.core.results.atomic import write_text
    from qsim.core.results.display.report import report, side_by_side
    from qsim.core.results.reading import reading
    from qsim.core.results.results import open_results
    from qsim.core.run.files.paths import refuse_existing, require_folder

    if folder := next((each for each in files if each.is_dir()), None):
        raise click.UsageError(
            f"{folder} is a folder, a page shows single runs; "
            f"'qsim collect {shell_path(folder)} -o table.csv' makes a table of all"
        )
    # As of figures: the names of the first four files tell which.
    file = files[0]
    name = "+".join(each.stem for each in files[:4]) + ".html"
    target = output or file.with_name(name)
    if target.is_dir():
        target = target / name
    elif output is not None and not output.suffix and not output.exists():
        # a folder that is not there yet
        target.mkdir(parents=True)
        target = target / name
    require_folder(target.parent)
    if not force:
        refuse_existing([target], "-o HTML writes elsewhere")
    with ExitStack() as stack:
        runs = [stack.enter_context(open_results(each)) for each in files]
        # Unknown names are refused before the page is begun.
        names = None if figures is None else list(_functions(runs, figures.split(",")))
        with reading(file, "what its figures show", place="page"):
            text = report(runs[0], names) if len(runs) == 1 else side_by_side(runs, _labels(files), names)
    print_path(write_text(target, text))
    if show:
        click.launch(target.resolve().as_uri())


def _labels(files: Sequence[Path]) -> list[str]:
    """Return short names that tell the files apart: their stems, with folders where those are the same."""
    stems = [file.stem for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file.with_suffix("")) for file in files]

"""Figures in one style: sizes of a journal column, colours that colour-blind readers can tell apart.

Nothing here uses pyplot, so figures are made without a display and leave the settings of a calling program
alone::

    with style():
        fig = figure("single")
        ax = fig.subplots()
        ax.plot(results["time"], results["norm"])
        save(fig, "run.norm", deck_sha256=...)
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from qsim.core.errors import FileError
from qsim.core.results.atomic import replacing

R = TypeVar("R", bound="ResultsFile")

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure, SubFigure

    from qsim.core.results.file import ResultsFile

__all__ = [
    "COLORS",
    "WIDTHS",
    "also_styled",
    "bar_beside",
    "column",
    "compose",
    "draw",
    "entitle",
    "figure",
    "in_column",
    "into",
    "ready",
    "save",
    "style",
]

# Widths of one and of two columns in inches.
# Programs that matplotlib needs for text.usetex.
LATEX = ("latex", "dvipng")
WIDTHS = {"single": 3.4, "double": 7.0}

# Okabe and Ito's colours in the order of the style's cycle; their yellow is too pale for lines on white.
COLORS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
}

# The style of all figures, and the variable that names a file which replaces what it names.
STYLE_FILE = "qsim.mplstyle"
STYLE_VARIABLE = "QSIM_STYLE"
# Height over width.
GOLDEN = 0.618
# In the place of a part of a figure: nothing is drawn, only its size is needed.
_ASKED = object()
# A style on top of qsim's.
_STYLE: ContextVar[str | None] = ContextVar("style", default=None)
# Part of a figure into which the next figure goes; None for one of its own.
_TARGET: ContextVar[Any] = ContextVar("target", default=None)
# True where all figures have the width of one column.
_COLUMN: ContextVar[bool] = ContextVar("column", default=False)
# Parts of a page of one column.
COLUMN_PARTS = 2
# Formats of figures.
FORMATS = ("png", "pdf", "svg")


def _matplotlib() -> ModuleType:
    """Import matplotlib; a backend that it does not know (``MPLBACKEND``) is no reason not to draw into files."""
    try:
        import matplotlib as mpl
    except ValueError:
        # A notebook sets a backend that this process may not have; figures are drawn into files without any.
        before = os.environ.get("MPLBACKEND")
        if before is None:
            raise
        os.environ["MPLBACKEND"] = "agg"
        for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
            del sys.modules[name]  # parts of the import that failed
        try:
            import matplotlib as mpl
        finally:
            os.environ["MPLBACKEND"] = before
    return mpl


def _require_fonts() -> None:
    """Make matplotlib's list of fonts anew if its cache is damaged: it would fail here and in every later run."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    if getattr(manager, "_sound", False):
        return
    try:
        for entry in [*manager.ttflist, *manager.afmlist]:
            texts = (entry.fname, entry.name, entry.style, entry.variant, entry.stretch, entry.size)
            if not all(isinstance(text, str) for text in texts) or not isinstance(entry.weight, str | int):
                raise TypeError(f"{entry} describes no font")
        # The fonts that all figures have: damaged, or not where the list says.
        for weight in ("normal", "bold"):
            font_manager.get_font(manager.findfont(font_manager.FontProperties(weight=weight)))
    except Exception:  # a list that another program, or a crash, has left may be anything
        # In place, since others hold this object; the new list is written over the old one.
        fresh = font_manager._load_fontmanager(try_read_cache=False)  # type: ignore[attr-defined]
        manager.__dict__.clear()
        manager.__dict__.update(fresh.__dict__)
        type(manager)._findfont_cached.cache_clear()  # type: ignore[attr-defined]
    manager._sound = True  # type: ignore[attr-defined]


def ready() -> None:
    """Make sure, before the work, that figures can be drawn after it.

    Raises
    ------
    FileError
        If matplotlib cannot be used.
    """
    try:
        with style():
            figure()
    except Exception as error:  # of an installation that is broken, anything
        raise FileError(
            f"no figures can be drawn: matplotlib fails with {type(error).__name__}: {error}",
            hint="repair its installation or settings, or run with --no-figures",
        ) from error


@contextmanager
def style() -> Iterator[None]:
    """Apply qsim's style inside the block; figures must be drawn and saved in it."""
    mpl = _matplotlib()
    _require_fonts()
    with resources.as_file(resources.files("qsim.core.results") / STYLE_FILE) as file:
        settings = mpl.rc_params_from_file(file, use_default_template=False)
    with mpl.rc_context():
        mpl.rcdefaults()  # so that a matplotlibrc of the user does not change the figures; the backend stays
        mpl.rcParams.update(settings)
        # what the user's own file names, the rest stays
        if own := os.environ.get(STYLE_VARIABLE):
            _use(own)
        if (more := _STYLE.get()) is not None:
            _use(more)
            if mpl.rcParams["text.usetex"] and (
                absent := [name for name in LATEX if shutil.which(name) is None]
            ):
                raise FileError(
                    f"the style {more} sets text.usetex, but LaTeX is not here: no program {' and no '.join(absent)}",
                    hint="install LaTeX with dvipng, or set text.usetex: False; formulas do without it",
                )
        yield


def figure(width: Literal["single", "double"] = "single", height: float | None = None) -> Figure:
    """Return an empty figure without pyplot.

    Parameters
    ----------
    width
        One column (3.4 in) or two (7.0 in).
    height
        In inches; by default the golden ratio of one column, whatever the width.
    """
    height = height or WIDTHS["single"] * GOLDEN * 1.15
    # Three cases: only the size is wanted, a place in another figure is target, or a figure of its own.
    if (target := _TARGET.get()) is _ASKED:
        raise _Wanted(width, height)
    if target is not None:
        return cast("Figure", target)
    _matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from qsim.core.results.notebook import ColumnFigure, ShownFigure

    column = _COLUMN.get() and width == "double"
    with style():
        made = ColumnFigure if column else ShownFigure
        fig = made(figsize=(WIDTHS["single" if column else width], height), layout="constrained")
    # A canvas without a window, for `savefig`.
    FigureCanvasAgg(fig)
    return fig


@contextmanager
def column(on: bool = True) -> Iterator[None]:
    """Let all figures inside the block have the width of one column of a journal, 8.6 cm, with fonts in the same points."""
    token = _COLUMN.set(on)
    try:
        yield
    finally:
        _COLUMN.reset(token)


def in_column() -> bool:
    """Return True where figures are made for one column."""
    return _COLUMN.get()


def bar_beside(image: ScalarMappable, ax: Axes, label: str) -> Colorbar:
    """Return a colour bar as tall as the axes, also where these have one scale and are smaller than their place."""
    from matplotlib.transforms import Bbox

    made = cast("Figure", ax.get_figure(root=True))
    bar = made.colorbar(image, ax=ax, label=label)
    usual: Any = bar.ax.get_axes_locator()

    def beside(_: Any, renderer: Any) -> Bbox:
        # the layout knows the place of the axes, the drawing alone how much of it they fill
        place = usual(bar.ax, renderer)
        filled = ax.get_position()
        shift = min(0.0, filled.x1 + 0.8 * place.width - place.x0)
        return Bbox.from_extents(place.x0 + shift, filled.y0, place.x1 + shift, filled.y1)

    bar.ax.set_axes_locator(beside)
    return bar


@contextmanager
def into(target: Axes | SubFigure | None) -> Iterator[None]:
    """Let the figure that is made inside the block fill the place of an axes, or a part of a figure.

    Parameters
    ----------
    target
        Axes of a grid (from ``subplots`` or ``add_subplot``), which are removed, or a subfigure; None for a figure of its own.

    Raises
    ------
    ValueError
        If the axes stand in no grid.
    """
    if target is None:
        yield
        return
    place: Any = target
    if not hasattr(target, "add_subfigure"):
        if (spec := target.get_subplotspec()) is None:
            raise ValueError("these axes stand in no grid; make them with subplots() or add_subplot()")
        place = target.get_figure(root=False).add_subfigure(spec)  # type: ignore[union-attr]
        target.remove()
    token = _TARGET.set(place)
    try:
        yield
    finally:
        _TARGET.reset(token)


@contextmanager
def also_styled(name: str | None) -> Iterator[None]:
    """Apply a style on top of qsim's to what is drawn inside the block.

    Parameters
    ----------
    name
        A style of matplotlib, or the path of a ``.mplstyle`` file; None for qsim's own.

    Raises
    ------
    FileError
        If there is no such style.
    """
    # In a context variable: figures may be drawn on several threads.
    token = _STYLE.set(name)
    try:
        with style():  # so that a mistake is seen before anything is drawn
            pass
        yield
    finally:
        _STYLE.reset(token)


def _use(name: str) -> None:
    from matplotlib import style as styles

    try:
        styles.use(name)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise FileError(
            f"no style '{name}': {error}",
            hint=f"give a .mplstyle file, or one of {', '.join(styles.available)}",
        ) from error


class _Wanted(Exception):
    """A figure function would draw: it asks for a figure of this size."""

    def __init__(self, width: str, height: float) -> None:
        super().__init__(width, height)
        self.width, self.height = width, height


def _asked_for(function: Callable[[R], Figure | None], results: R) -> tuple[str, float] | None:
    """Return width and height of the figure that a function would draw; None if it has nothing to show."""
    token = _TARGET.set(_ASKED)
    try:
        function(results)
    except _Wanted as wanted:
        return wanted.width, wanted.height
    finally:
        _TARGET.reset(token)
    return None


def compose(
    results: R,
    functions: Sequence[Callable[[R], Figure | None]],
    most: int = 4,
    tallest: float = 7.5,
) -> Figure | None:
    """Put figures of one results file together on a page: single columns side by side, double columns below each other.

    Parameters
    ----------
    results
        The file.
    functions
        Figure functions, the most important one first; those with nothing to show are passed over.
    most
        Parts at most.
    tallest
        Height at most, in inches; what would make the page higher is left out.

    Returns
    -------
    Figure or None
        None if no function has anything to show.
    """
    if _COLUMN.get():
        return _column_page(results, functions)
    rows: list[tuple[float, list[Callable[[R], Figure | None]]]] = []
    waiting: int | None = None  # row of a single column that has room beside it
    parts, total = 0, 0.0
    for function in functions:
        # Sizes are found without drawing: the function is stopped where it makes its figure.
        if parts == most or (size := _asked_for(function, results)) is None:
            continue
        width, height = size
        # A single column goes beside an earlier one that stands alone, even above later rows.
        if width == "single" and waiting is not None:
            before, row = rows[waiting]
            rows[waiting] = (max(before, height), [*row, function])
            total += max(0.0, height - before)
            waiting = None
        elif not rows or total + height <= tallest:
            rows.append((height, [function]))
            total += height
            waiting = len(rows) - 1 if width == "single" else waiting
        else:
            continue
        parts += 1
    if not rows:
        return None
    if parts == 1:
        single_part = rows[0][1][0]
        alone = single_part(results)
        if alone is not None:
            _tell_parts(alone, [single_part])
        return alone
    page = figure("double", total)
    lines = _listed(page.subfigures(len(rows), 1, height_ratios=[height for height, _ in rows]))
    for line, (_, row) in zip(lines, rows, strict=True):
        single = len(row) > 1
        for place, function in zip(
            _listed(line.subfigures(1, len(row))) if single else [line], row, strict=True
        ):
            with into(place):
                function(results)
    _tell_parts(page, [function for _, row in rows for function in row])
    return page


def _tell_parts(page: Figure, functions: Sequence[Callable[[R], Figure | None]]) -> None:
    """Let a page say which figures it is composed of, so that they need not be shown twice."""
    page.composed_of = [getattr(function, "__name__", "") for function in functions]  # type: ignore[attr-defined]


def _column_page(results: R, functions: Sequence[Callable[[R], Figure | None]]) -> Figure | None:
    """Put the first figures of a file below each other in one column; those of two columns have no place in it."""
    sizes = [(function, _asked_for(function, results)) for function in functions]
    parts = [(function, size[1]) for function, size in sizes if size is not None and size[0] == "single"]
    parts = parts[:COLUMN_PARTS]
    if len(parts) < COLUMN_PARTS:
        first = next((function for function, size in sizes if size is not None), None)
        return None if first is None else first(results)
    heights = [height for _, height in parts]
    page = figure("single", sum(heights))
    places = _listed(page.subfigures(len(parts), 1, height_ratios=heights))
    for (function, _), place in zip(parts, places, strict=True):
        with into(place):
            function(results)
    return page


def _listed(grid: object) -> list[Any]:
    """Return what matplotlib gives for a grid, one object or an array, as a list."""
    return list(grid.ravel()) if hasattr(grid, "ravel") else [grid]


def entitle(fig: Figure, title: str) -> None:
    """Write the title of the run above a figure that has none, so that a folder of figures tells them apart."""
    if title and fig.get_suptitle() == "":
        with style():
            fig.suptitle(title.replace("$", r"\$"), fontsize="small", color="0.35", x=0.01, ha="left")


def draw(function: Callable[[R], Figure | None], results: R) -> Figure | None:
    """Return the figure that a method's function makes of a results file, in qsim's style."""
    with style():
        return function(results)


def save(
    fig: Figure,
    stem: str | Path,
    metadata: Mapping[str, str] | None = None,
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Write a figure as ``<stem>.png`` or in other formats; the same figure gives the same bytes.

    Parameters
    ----------
    fig
        The figure.
    stem
        Path without extension; dots in it are kept.
    metadata
        Entries such as ``{"Title": ..., "deck_sha256": ...}``.  PNG files hold them as they are; in PDF files
        those unknown to the format become keywords.
    formats
        Some of `FORMATS`.

    Raises
    ------
    FileError
        If a file cannot be written.
    """
    stem, entries = Path(stem), dict(metadata or {})
    files = []
    # The places of the axes are found once, for the first format.
    layout = fig.get_layout_engine()
    try:
        for extension in formats:
            files.append(_save_as(fig, stem, extension, entries))
            _without_layout(fig)  # places of the axes stay; finding them again takes a third of the time
    finally:
        fig.set_layout_engine(layout)
    return files


def _without_layout(fig: Figure) -> None:
    with _matplotlib().rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
        fig.set_layout_engine(None)


def _save_as(fig: Figure, stem: Path, extension: str, entries: Mapping[str, str]) -> Path:
    """Write one file of a figure and return its path."""
    path = stem.with_name(f"{stem.name}.{extension}")
    information = _metadata(entries, extension)
    image = io.BytesIO()
    with style():
        fig.savefig(image, format=extension, metadata=information)
    try:
        with replacing(path, durable=False) as part:
            part.write(image.getbuffer())
    except OSError as error:
        raise FileError(
            f"cannot write figure {path}: {error}", hint="check the folder and the free space"
        ) from error
    return path


def _metadata(entries: Mapping[str, str], extension: str) -> dict[str, str | None]:
    if extension == "pdf":
        return _pdf_metadata(entries)
    if extension == "svg":  # Dublin Core; a date would make every file differ
        return {"Title": entries.get("Title", ""), "Creator": "qsim", "Date": None}
    return {"Software": "qsim", **entries}


def _pdf_metadata(entries: Mapping[str, str]) -> dict[str, str | None]:
    """Return metadata with the keys that PDF knows and without dates, which would make every file differ."""
    known = ("Title", "Author", "Subject", "Keywords")
    information: dict[str, str | None] = {key: entries[key] for key in known if key in entries}
    others = [f"{key}={value}" for key, value in entries.items() if key not in known]
    if others:
        information["Keywords"] = ", ".join(
            [*([entries["Keywords"]] if "Keywords" in entries else []), *others]
        )
    return {"Creator": "qsim", "Producer": "matplotlib", "CreationDate": None, "ModDate": None, **information}

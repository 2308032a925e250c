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
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qsim.core.errors import FileError
from qsim.core.results.atomic import replacing

if TYPE_CHECKING:
    from types import ModuleType

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from qsim.core.results.results import Results

__all__ = ["COLORS", "WIDTHS", "draw", "figure", "into", "ready", "save", "style"]

WIDTHS = {"single": 3.4, "double": 7.0}
"""Widths of one and of two columns in inches."""

COLORS = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "orange": "#E69F00",
    "purple": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
}
"""Okabe and Ito's colours in the order of the style's cycle; their yellow is too pale for lines on white."""

GOLDEN = 0.618
_TARGET: ContextVar[Any] = ContextVar("target", default=None)
"""Part of a figure into which the next figure goes; None for one of its own."""
FORMATS = ("png", "pdf", "svg")
"""Formats of figures that can be asked for."""


def _matplotlib() -> ModuleType:
    """Import matplotlib; a backend that it does not know (``MPLBACKEND``) is no reason not to draw into files."""
    try:
        import matplotlib as mpl
    except ValueError:
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


def ready() -> None:
    """Make sure, before the work, that figures can be drawn after it.

    Raises
    ------
    FileError
        If matplotlib cannot be used.
    """
    try:
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
    with resources.as_file(resources.files("qsim.core.results") / "qsim.mplstyle") as file:
        settings = mpl.rc_params_from_file(file, use_default_template=False)
    with mpl.rc_context():
        mpl.rcdefaults()  # so that a matplotlibrc of the user does not change the figures; the backend stays
        mpl.rcParams.update(settings)
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
    if (given := _TARGET.get()) is not None:
        return given
    _matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = height or WIDTHS["single"] * GOLDEN * 1.15
    with style():
        fig = Figure(figsize=(WIDTHS[width], height), layout="constrained")
    FigureCanvasAgg(fig)
    return fig


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


def draw(function: Callable[[Results], Figure], results: Results) -> Figure:
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
    found: dict[str, str | None] = {key: entries[key] for key in known if key in entries}
    others = [f"{key}={value}" for key, value in entries.items() if key not in known]
    if others:
        found["Keywords"] = ", ".join([*([entries["Keywords"]] if "Keywords" in entries else []), *others])
    return {"Creator": "qsim", "Producer": "matplotlib", "CreationDate": None, "ModDate": None, **found}

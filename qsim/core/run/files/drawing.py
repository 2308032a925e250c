"""Figures of a results file as files beside it."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.core.results.plotting import entitle, save, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from qsim.core.results.results import Results
    from qsim.core.run.stages import OutputStage

__all__ = ["draw_figure", "save_figure"]


def draw_figure(
    output: OutputStage[Any], results: Results, name: str, stem: Path, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """Draw one figure of a results file as ``<stem>.<name>.png``, and in other formats.

    Returns
    -------
    list of Path
        The files; empty if the results do not hold what the figure shows.
    """
    with style():
        figure = output.FIGURES[name](results)
    return save_figure(figure, results, name, stem, formats)


def save_figure(
    figure: Figure | None,
    results: Results,
    name: str,
    stem: Path,
    formats: Sequence[str],
    title: str | None = None,
) -> list[Path]:
    """Write a figure of a results file with a title, by default the run's; return the files, none without a figure."""
    if figure is None:
        return []
    if title is None:
        title = results.title or stem.name
    entitle(figure, title)
    # The hash of the deck in the file connects a figure that has been copied with its run.
    metadata = {
        "Title": f"{results.title or stem.name}: {name.replace('_', ' ')}",
        "deck_sha256": str(results.provenance.get("deck_sha256", "")),
    }
    try:
        return save(figure, stem.with_name(f"{stem.name}.{name}"), metadata, formats)
    finally:
        figure.clear()
        del figure
        gc.collect()  # a figure refers to itself, and a run may draw dozens

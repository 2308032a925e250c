"""Make the gallery, `gallery.md` and its pictures, from the decks that come with qsim.

    python docs/gallery.py             runs every deck that is not long, then draws
    python docs/gallery.py --deck haldane --deck vinyl     makes these cards alone, and keeps the others as they are
    python docs/gallery.py FOLDER      takes results files from FOLDER/<method>/<deck>.h5 if there, and leaves others there

A deck runs as it is where it takes less than a minute, else with the overrides of its test; the page says so.

Pictures are overviews, or fronts and maps of ensembles, reduced to the width of a card.  Run times are those of the machine that
made the page.
"""

import argparse
import contextlib
import io
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from qsim import methods
from qsim.core.errors import MemoryLimitError
from qsim.core.examples.catalogue import Example, examples
from qsim.core.examples.check import cases, folders, load_reference
from qsim.core.results import plotting
from qsim.core.results.display.views import figure_functions
from qsim.core.results.results import open_results
from qsim.core.run.pipeline import Options, execute
from qsim.core.text import format_seconds

DOCS = Path(__file__).resolve().parent
WIDTH = 520
"""Pixels of a picture."""
TALL = 1.0
"""Height of a picture over its width, at most; what lies below is cut off."""

TELLING = ("front", "robustness")
"""Figures that come before the overview."""

HEAD = """# Gallery

Every deck that comes with qsim. `qsim examples NAME` copies one with the files that it reads, `qsim METHOD NAME.yaml` runs it;
the times are of one core of a server, compiled kernels in the cache.
"""


LONGEST = 60.0
"""Estimated seconds of a deck that runs as it is."""


def results_of(example: Example, folder: Path) -> Path:
    """Return the results of a deck, run now if they are not in the folder."""
    target = folder / example.method / f"{example.name}.h5"
    if not target.exists():
        print(f"running {example.name}", file=sys.stderr, flush=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        options = Options(
            device="cpu",
            overrides=shortened(example),
            output=target.with_suffix(""),
            figures=False,
            verbosity=-1,
            threads=1,
        )
        execute(example.method, example.path, options)
    return target


def shortened(example: Example) -> Sequence[str]:
    """Return what a deck is overridden with for this page: nothing, if it runs in less than a minute."""
    options = Options(device="cpu", dry_run=True, measure=True, verbosity=-1, threads=1)
    with contextlib.suppress(MemoryLimitError):
        seconds = execute(example.method, example.path, options).summary["measured"]["seconds"]
        if seconds is not None and seconds < LONGEST:
            return ()
    (case,) = cases([example.method], folders(), example.name)
    overrides: Sequence[str] = load_reference(case.reference).get("overrides", ())
    return overrides


def picture(path: Path, target: Path) -> float:
    """Draw the figure that says most of the results as a small picture; return the seconds of the run."""
    with open_results(path) as results:
        functions = figure_functions(results)
        # What a front or an ensemble is for says more than the overview of one of its searches.
        names = [name for name in TELLING if name in functions]
        ordered = [functions[name] for name in dict.fromkeys([*names, *functions])]
        drawn = (plotting.draw(function, results) for function in ordered)
        figure = next(figure for figure in drawn if figure is not None)
        seconds = float(results.provenance["elapsed"])
    data = io.BytesIO()
    with plotting.style():
        figure.savefig(data, format="png", dpi=200)
    image = Image.open(data).convert("RGB")
    image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    image = image.crop((0, 0, WIDTH, min(image.height, round(TALL * WIDTH))))
    target.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(64).save(target, optimize=True)
    return seconds


def card(example: Example, seconds: float | None, is_short: bool) -> str:
    """Return the entry of a deck."""
    took = "long, or for a GPU" if seconds is None else format_seconds(seconds)
    if is_short:
        took += ", shortened for this page"
    deck = f"[`{example.name}`](../inputs/{example.method}/{example.name}.yaml)"
    text = f"### {example.title or example.name}\n\n{deck}, {took}. {example.about}\n"
    if seconds is not None:
        text += f"\n![{example.title}](images/gallery/{example.name}.png)\n"
    return text


def entry(example: Example, folder: Path) -> str:
    """Return the entry of a deck, its picture drawn."""
    if example.long:
        return card(example, None, False)
    path = results_of(example, folder)
    seconds = picture(path, DOCS / "images/gallery" / f"{example.name}.png")
    with open_results(path) as results:
        is_short = any(not text.startswith("output.") for text in results.provenance["overrides"])
    return card(example, seconds, is_short)


def written() -> dict[str, str]:
    """Return the entries of the page as it is, by deck."""
    page = DOCS / "gallery.md"
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = {}
    for part in re.split(r"^(?=##+ )", text, flags=re.M):
        if deck := re.search(r"\[`(\w+)`\]\(\.\./inputs/", part):
            found[deck[1]] = part.rstrip() + "\n"
    return found


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Make gallery.md and its pictures.")
    parser.add_argument(
        "folder", nargs="?", type=Path, help="where results files are already, or shall be left"
    )
    parser.add_argument("--deck", action="append", help="make the card of this deck alone; may be repeated")
    arguments = parser.parse_args()
    given = arguments.folder
    kept = written() if arguments.deck else {}
    for name in arguments.deck or ():
        kept.pop(name, None)
    parts = [HEAD]
    with tempfile.TemporaryDirectory() as scratch:
        for method in methods.available():
            parts.append(f"## {method}\n\n{methods.TABLE[method]}\n")
            parts += [
                kept.get(example.name) or entry(example, given or Path(scratch))
                for example in examples([method])
            ]
    (DOCS / "gallery.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()

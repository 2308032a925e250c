"""Make the gallery, `gallery.md` and its pictures, from the decks that come with qsim.

    python docs/gallery.py             runs every deck that is not long, then draws
    python docs/gallery.py FOLDER      takes results files from FOLDER/<method>/<deck>.h5 where they are there

Pictures are overviews, reduced to the width of a card.  Run times are those of the machine that made the page.
"""

import argparse
import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

from qsim import methods
from qsim.core.results import plotting
from qsim.core.results.results import open_results
from qsim.core.results.views import figure_functions
from qsim.core.run.check import cases, folders, load_reference
from qsim.core.run.examples import Example, examples
from qsim.core.run.pipeline import Options, execute
from qsim.core.text import format_seconds

DOCS = Path(__file__).resolve().parent
WIDTH = 520
"""Pixels of a picture."""
TALL = 1.0
"""Height of a picture over its width, at most; what lies below is cut off."""

HEAD = """# Gallery

Every deck that comes with qsim. `qsim examples NAME` copies one with the files that it reads, `qsim METHOD NAME.yaml` runs it;
the times are of one core of a shared server, compiled kernels in the cache.
"""


def results_of(example: Example, given: Path | None, folder: Path) -> Path:
    """Return the results of a deck, run now if they are not given."""
    if given is not None and (found := given / example.method / f"{example.name}.h5").exists():
        return found
    (case,) = cases([example.method], folders(), example.name)
    overrides = load_reference(case.reference).get("overrides", ())
    print(f"running {example.name}", file=sys.stderr, flush=True)
    options = Options(
        device="cpu", overrides=overrides, output=folder / example.name, figures=False, verbosity=-1
    )
    return execute(example.method, example.path, options).results


def picture(path: Path, target: Path) -> float:
    """Draw the first figure that the results have as a small picture; return the seconds of the run."""
    with open_results(path) as results:
        drawn = (plotting.draw(function, results) for function in figure_functions(results).values())
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


def card(example: Example, seconds: float | None) -> str:
    """Return the entry of a deck."""
    took = "long, or for a GPU" if seconds is None else format_seconds(seconds)
    deck = f"[`{example.name}`](../inputs/{example.method}/{example.name}.yaml)"
    text = f"### {example.title or example.name}\n\n{deck}, {took}. {example.about}\n"
    if seconds is not None:
        text += f"\n![{example.title}](images/gallery/{example.name}.png)\n"
    return text


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Make gallery.md and its pictures.")
    parser.add_argument("folder", nargs="?", type=Path, help="where results files are already")
    given = parser.parse_args().folder
    parts = [HEAD]
    with tempfile.TemporaryDirectory() as folder:
        for method in methods.available():
            parts.append(f"## {method}\n\n{methods.TABLE[method]}\n")
            for example in examples([method]):
                target = DOCS / "images/gallery" / f"{example.name}.png"
                seconds = None if example.long else picture(results_of(example, given, Path(folder)), target)
                parts.append(card(example, seconds))
    (DOCS / "gallery.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Make the page on the papers, `reference/reproduced.md`, and its pictures.

    python docs/reproduced.py             computes what is missing in docs/_build/reproduced, then writes the page
    python docs/reproduced.py FOLDER      takes what is in FOLDER, and computes the rest into it

`bench/reproduce.py` computes; this program puts its report, with small pictures, where the documentation shows it.
"""

import argparse
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from bench.papers.report import page, small  # noqa: E402

PAGE = DOCS / "reference/reproduced.md"
PICTURES = DOCS / "images/reference/reproduced"


def main() -> None:
    """Write the page and its pictures."""
    parser = argparse.ArgumentParser(description="Make reference/reproduced.md and its pictures.")
    parser.add_argument("folder", nargs="?", type=Path, default=DOCS / "_build/reproduced")
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU, too")
    options = parser.parse_args()
    command = [sys.executable, str(DOCS.parent / "bench/reproduce.py"), "all", "-o", str(options.folder)]
    subprocess.run(command + ["--gpu"] * options.gpu, check=True)
    for path in options.folder.glob("*/*.png"):
        small(path, PICTURES / path.parent.name / path.name)
    images = PICTURES.relative_to(DOCS).as_posix()
    PAGE.write_text(page(options.folder, f"../{images}", "../theory/misprints.md"), encoding="utf-8")


if __name__ == "__main__":
    main()

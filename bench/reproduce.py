"""Reproduce the papers: ``python bench/reproduce.py [all|PAPER|PAPER/ITEM]... [-o FOLDER] [--gpu] [--quick] [--list]``.

Every figure and table of the five papers that qsim goes back to, and a table of what the paper says, what qsim gives, and why
the two differ.  FOLDER keeps runs, measurements and figures: the same command again computes only what is missing, and a run
that was stopped goes on from its checkpoint.  Without ``--gpu`` the columns of a GPU come from the newest record in
``bench/results`` and name it; what has no record is listed as not run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # CPU numbers are those of one core; set before NumPy is loaded
ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of bench/: `bench` and `qsim` are packages of the checkout

import argparse  # noqa: E402
import time  # noqa: E402
from datetime import UTC, datetime  # noqa: E402

import bench.papers  # noqa: E402, F401  # registers the items
from bench.papers.item import ITEMS, Item, items_of  # noqa: E402
from bench.papers.report import page, picture  # noqa: E402
from bench.papers.work import Kept, Work  # noqa: E402
from qsim import __version__  # noqa: E402
from qsim.core.device.device import select  # noqa: E402
from qsim.core.device.hardware import cpu_name  # noqa: E402
from qsim.core.errors import QsimError  # noqa: E402
from qsim.core.run.provenance import git_state  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    """Reproduce what is chosen; return 1 if something failed, 2 for a request that makes no sense."""
    options = _parser().parse_args(arguments)
    if options.list:
        for each in items_of(["all"]):
            took = f"{each.seconds:g} s" if each.compute else "scheme"
            print(f"{each.key:<24} {took:<7} {each.title}")
        return 0
    try:
        chosen = items_of(options.items)
        gpu = select("cuda", threads=1)[0] if options.gpu else None
    except KeyError as error:
        print(f"no such paper or item: {error}; choose from all, {', '.join(ITEMS)}", file=sys.stderr)
        return 2
    except QsimError as error:
        print(f"{error}; {error.hint}" if getattr(error, "hint", None) else error, file=sys.stderr)
        return 2
    work = Work(options.output, gpu, options.quick)
    failed = [each.key for each in chosen if not _made(each, work, force=options.force)]
    target = options.output / "report.md"
    target.write_text(page(options.output, "."), encoding="utf-8")
    print(f"written: {target}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return int(bool(failed))


def _made(each: Item, work: Work, *, force: bool) -> bool:
    """Compute an item unless it is there, draw it, and return whether that went well."""
    if each.compute is None or each.draw is None or each.compare is None:
        return True
    path = work.folder / each.paper / f"{each.name}.json"
    try:
        if force or not path.exists() or not work.is_served_by(Kept.read(path)):
            print(f"{each.key}: {each.title} (about {each.seconds:g} s)", flush=True)
            begun = time.perf_counter()
            data = each.compute(work)
            kept = Kept(
                data=data,
                seconds=time.perf_counter() - begun,
                device=f"{cpu_name()}, one core" + (f"; {work.gpu}" if work.gpu else ""),
                qsim=__version__,
                commit=git_state(),
                created=datetime.now(UTC).isoformat(timespec="seconds"),
                quick=work.quick,
            )
            kept.write(path)
            print(f"{each.key}: {kept.seconds:.1f} s", flush=True)
        picture(each, Kept.read(path).data, path.with_suffix(".png"))
    except QsimError as error:  # one item that cannot be made must not lose the others
        print(f"{each.key}: {error}", file=sys.stderr)
        return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Reproduce the figures and tables of five papers.")
    parser.add_argument("items", nargs="*", metavar="ITEM", help="all, a method, or METHOD/fig1; all without")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, default=Path("reproduction"), help="folder"
    )
    parser.add_argument("--gpu", action="store_true", help="measure on a GPU, too")
    parser.add_argument("--quick", action="store_true", help="small sizes: does everything work?")
    parser.add_argument("--force", action="store_true", help="compute again what is there")
    parser.add_argument("--list", action="store_true", help="list the items")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

"""Compile every CUDA source of qsim without a GPU, and show what the kernels cost.

    python .ci/compile_cuda.py                       all of qsim/**/*.cu
    python .ci/compile_cuda.py qsim/qoc/kernels/*.cu --arch sm_90
    python .ci/compile_cuda.py --arch sm_90 --in-turn     variants after the first in one precision each, double and float in turn

Each source is compiled by NVRTC for every architecture and for REAL=double and REAL=float. Lines of this form
in a source say more:

    // qsim-compile: -DK=24 -DLMAX=8      a set of macros to compile with; one line per variant
    // qsim-compile: may-spill=name,...   kernels whose register spills are accepted

A set that defines REAL itself is compiled as it is. Errors, warnings, and spills that are not accepted end
with exit code 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shlex
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from qsim.core.device.compilers.nvrtc import CompilationError, Usage, nvrtc_compile, resource_usage  # noqa: E402
from qsim.core.device.kernels import source as full_source  # noqa: E402

ARCHITECTURES = ("sm_80", "sm_90")
PRECISIONS = ("double", "float")
SHOWN = 20  # lines of one compilation's messages
DIRECTIVE = re.compile(r"^[ \t]*//[ \t]*qsim-compile:(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """One compilation.

    Attributes
    ----------
    path
        The source, relative to the checkout.
    macros
        What `-D` defines, REAL included.
    variant
        The macros of the source's own line, as text.
    arch
        Target.
    """

    path: Path
    macros: dict[str, str]
    variant: str
    arch: str

    @property
    def target(self) -> str:
        """Return architecture and precision."""
        return f"{self.arch} {self.macros['REAL']}"


@dataclass(frozen=True)
class Outcome:
    """Resources of the kernels of one compilation, and what is wrong with it."""

    usage: dict[str, Usage]
    complaints: list[str]


def directives(path: Path) -> tuple[list[dict[str, str]], set[str]]:
    """Read the `qsim-compile` lines: sets of macros (at least an empty one), kernels that may spill."""
    variants: list[dict[str, str]] = []
    may_spill: set[str] = set()
    for line in DIRECTIVE.findall(path.read_text(encoding="utf-8")):
        macros = {}
        for word in shlex.split(line):
            key, _, value = word.removeprefix("-D").partition("=")
            if word.startswith("-D"):
                macros[key] = value or "1"
            elif key == "may-spill":
                may_spill |= set(value.split(","))
            else:
                raise SystemExit(f"{path}: '{word}' is neither -DNAME=VALUE nor may-spill=KERNEL")
        if macros:
            variants.append(macros)
    return variants or [{}], may_spill


def jobs(path: Path, architectures: list[str], in_turn: bool = False) -> Iterator[Job]:
    """Every compilation of a source: the first variant for all architectures, others for the last one; precisions.

    `in_turn` compiles variants after the first in one precision each.
    """
    for number, macros in enumerate(directives(path)[0]):
        variant = " ".join(f"{key}={value}" for key, value in macros.items())
        chosen = PRECISIONS[number % 2 :][:1] if in_turn and number else PRECISIONS
        precisions = (macros["REAL"],) if "REAL" in macros else chosen
        targets = architectures if number == 0 else architectures[-1:]
        for arch, real in itertools.product(targets, precisions):
            yield Job(path, {**macros, "REAL": real}, variant, arch)


def compile_job(job: Job) -> Outcome:
    """Compile once."""
    path = job.path.relative_to(ROOT / "qsim")
    where = f"{job.path.relative_to(ROOT)} [{' '.join(filter(None, (job.target, job.variant)))}]"
    try:
        compiled = nvrtc_compile(full_source(path.parent.as_posix(), path.stem), job.arch, job.macros)
    except (CompilationError, FileNotFoundError) as error:
        lines = str(error).splitlines()
        rest = [f"... and {len(lines) - SHOWN} lines more"] if len(lines) > SHOWN else []
        return Outcome({}, ["\n".join([f"{where}:", *lines[:SHOWN], *rest])])
    usage = resource_usage(compiled)
    accepted = directives(job.path)[1]
    complaints = [f"{where}: {warning}" for warning in compiled.warnings]
    for kernel, cost in usage.items():
        spilled = cost.spill_stores + cost.spill_loads
        if spilled and kernel not in accepted:
            complaints.append(f"{where}: {kernel} spills {spilled} bytes of registers")
    return Outcome(usage, complaints)


def table(results: list[tuple[Job, Outcome]], targets: list[str]) -> Iterator[str]:
    """Lines of the report: a row per kernel and variant, a column per target."""
    rows: dict[tuple[Path, str], dict[str, dict[str, Usage]]] = {}
    for job, outcome in results:
        for kernel, cost in outcome.usage.items():
            rows.setdefault((job.path, job.variant), {}).setdefault(kernel, {})[job.target] = cost
    width = max((len(kernel) for kernels in rows.values() for kernel in kernels), default=10) + 2
    yield "registers (+ stack s, + spilled S, + static shared memory m, in bytes)"
    yield f"{'':{width}}" + "".join(f"{target:>20}" for target in targets)
    for (path, variant), kernels in rows.items():
        yield f"{path.relative_to(ROOT)} {variant}".rstrip()
        for kernel, costs in kernels.items():
            cells = (cell(costs[target]) if target in costs else "" for target in targets)
            yield f"  {kernel:{width - 2}}" + "".join(f"{text:>20}" for text in cells)


def cell(cost: Usage) -> str:
    """Return the resources of a kernel in a few characters."""
    extra = {"s": cost.stack, "S": cost.spill_stores + cost.spill_loads, "m": cost.shared}
    return str(cost.registers) + "".join(f" +{value}{letter}" for letter, value in extra.items() if value)


def main() -> int:
    """Compile, report, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", nargs="*", type=Path, help="default: all of qsim")
    parser.add_argument("--arch", action="append", help=f"default: {' '.join(ARCHITECTURES)}")
    parser.add_argument(
        "--in-turn", action="store_true", help="one precision of each variant but the first: half of the time"
    )
    options = parser.parse_args()
    start = time.monotonic()
    sources = [path.resolve() for path in options.sources] or sorted((ROOT / "qsim").rglob("*.cu"))
    architectures = options.arch or list(ARCHITECTURES)
    todo = [job for path in sources for job in jobs(path, architectures, options.in_turn)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the compiler runs outside the interpreter lock
        results = list(zip(todo, pool.map(compile_job, todo), strict=True))
    complaints = [complaint for _, outcome in results for complaint in outcome.complaints]
    print("\n".join(table(results, [f"{arch} {real}" for arch in architectures for real in PRECISIONS])))
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"{len(todo)} compilations of {len(sources)} sources in {time.monotonic() - start:.1f} s: ", end="")
    print(f"{len(complaints)} complaints" if complaints else "no errors, warnings or unexpected spills")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())

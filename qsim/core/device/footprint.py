"""Memory that a process needs besides the arrays of its problem: interpreter, libraries, compiler, CUDA context.

All are measured peaks, to be measured again when libraries change: ``python bench/memory.py`` prints estimate and measured peak
of whole commands (host: largest resident set of the process; device: sampled use), ``--cold`` with an empty cache of
compiled kernels, ``--figures`` with figures, ``--device cuda`` on a GPU. A constant is right if the ratios of small decks are
between 0.87 and 1.15.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = [
    "COMPILING",
    "COMPILING_OTHERS",
    "CONTEXT",
    "CUDA_LIBRARIES",
    "CUDA_LIBRARIES_OTHERS",
    "FIGURES",
    "FIRST_RUN",
    "FIRST_RUN_OTHERS",
    "INTERPRETER",
    "LIBRARY_DEVICE",
    "LIBRARY_HOST",
    "NUMBA",
    "kernels_are_compiled",
    "seconds_to_compile",
]

# Bytes of host memory of Python, the libraries of a run and its compiled kernels, before any array.
#
# Measured as the peak of small CPU runs without figures, less their arrays: 195 MB (sturmian) to 238 MB
# (qmc).
INTERPRETER = 220_000_000
# Bytes of those that belong to Numba and the kernels; a run without them takes less (sturmian, task `basis`:
# 152 MB).
NUMBA = 50_000_000
# Bytes on top of that while figures are drawn; measured: 33 MB (tridiag, one line) to 103 MB (tridiag, maps).
FIGURES = 75_000_000
# Bytes on top of that of a run that compiles its CPU kernels (Numba, LLVM) since no earlier run left them in
# the cache.
#
# Measured as peaks with an empty cache less those with a full one: qoc 53 to 55 MB, trotter 62, tridiag 30
# (`propagate`, whose arrays come after the compiler) to 86 (`solve`), sturmian 38, qmc 65 to 83 in open
# boundaries and 140 in crystals.
FIRST_RUN = {
    "qoc": 50_000_000,
    "trotter": 60_000_000,
    "tridiag": 50_000_000,
    "sturmian": 30_000_000,
    "qmc": 95_000_000,
}
# The same of a method without a number of its own.
FIRST_RUN_OTHERS = 60_000_000
# Seconds of one core that such a run takes to compile.
#
# Measured as CPU times of commands with an empty cache less those with a full one (AMD EPYC): qoc 3.3,
# trotter 4.4, tridiag 1.4 (`propagate`) to 4.5 (`solve`), sturmian 1.9, qmc 4.4 in open boundaries with all
# electrons and 6.4 with pseudopotentials, 5.3 (plane waves, splines) to 7.5 (splines, pseudopotentials) in
# crystals, optimiser included.
COMPILING = {"qoc": 3.5, "trotter": 4.5, "tridiag": 3.0, "sturmian": 2.0, "qmc": 6.0}
# The same of a method without a number of its own.
COMPILING_OTHERS = 10.0
# Bytes of host memory of CuPy, the CUDA libraries and the host's side of a context, in a run on a GPU.
#
# Measured (H100, driver 580, CuPy for CUDA 12 and 13) as host peaks less the arrays and `INTERPRETER`: qoc
# without cuBLAS 255 to 324 MB, trotter 385 to 430, tridiag 279 (`solve`), qmc 355 to 440, sturmian 375 to 480
# (without its libraries).
CUDA_LIBRARIES = {"qoc": 310_000_000, "trotter": 430_000_000, "tridiag": 290_000_000}
# The same of a method without a number of its own: between those that are measured.
CUDA_LIBRARIES_OTHERS = 400_000_000
# Bytes of device memory of a CUDA context with the modules of the kernels, before any array.
#
# Measured (H100) as use of the device less what the memory pool held: 554 to 559 MB (qoc and trotter without
# cuBLAS).
CONTEXT = 557_000_000
# Bytes of host memory on top of that of a run that calls cuBLAS, or cuSOLVER too, or both for complex and
# real matrices.
#
# Measured like `CUDA_LIBRARIES`: 115 to 130 MB (qoc, lbfgs), 145 to 175 (trotter, entropy), 240 (sturmian,
# `born`: a search for the initial state, then complex equations).
LIBRARY_HOST = {"": 0, "cublas": 120_000_000, "cusolver": 160_000_000, "cusolver, complex": 240_000_000}
# Bytes of device memory of those, measured like `CONTEXT`: 67 to 74 MB (qoc; tridiag, `propagate`), 103 to
# 170 (trotter, entropy), 181 to 191 (sturmian, `born`).
LIBRARY_DEVICE = {"": 0, "cublas": 68_000_000, "cusolver": 140_000_000, "cusolver, complex": 185_000_000}


def kernels_are_compiled(method: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if an earlier run has left compiled CPU kernels of a method, for this version of Python.

    Numba keeps an index file for each kernel: in ``NUMBA_CACHE_DIR``, else beside the sources or in the user's cache
    folder.  An index older than its source is stale.  A run of another task may have left kernels that are not those
    of this one: then some are still compiled.

    Parameters
    ----------
    method
        Name of the method, the package below `qsim`.
    environ
        Environment to look at.
    """
    place = (method, environ.get("NUMBA_CACHE_DIR", ""))
    if environ is os.environ and place in _found:
        return True
    sources = list((Path(__file__).resolve().parents[2] / method).rglob("*.py"))
    found = not sources or any(_compiled(source, environ) for source in sources)
    if found and environ is os.environ:
        _found.add(place)
    return found


# Methods whose kernels were found in this process, with their folder: many decks look once.
_found: set[tuple[str, str]] = set()


def seconds_to_compile(method: str) -> float:
    """Return the seconds that a run on the CPU takes to compile its kernels; 0 if an earlier run has left them."""
    return 0.0 if kernels_are_compiled(method) else COMPILING.get(method, COMPILING_OTHERS)


def _compiled(source: Path, environ: Mapping[str, str]) -> bool:
    """Return True if the cache holds a kernel of a source."""
    pattern = f"{source.stem}.*.py{sys.version_info.major}{sys.version_info.minor}.nbi"
    with contextlib.suppress(OSError):
        made = source.stat().st_mtime
        for folder in _folders(source, environ):
            if any(index.stat().st_mtime >= made for index in folder.glob(pattern)):
                return True
    return False


def _folders(source: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield where Numba keeps the kernels of a source (`numba.core.caching`: folders differ by a hash of the path)."""
    parent = source.parent
    own = f"{parent.name}_{hashlib.sha1(str(parent).encode(), usedforsecurity=False).hexdigest()}"
    if chosen := environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen) / own
        return
    yield parent / "__pycache__"
    home = environ.get("HOME") or "/nonexistent"
    yield Path(environ.get("XDG_CACHE_HOME") or Path(home) / ".cache") / "numba" / own

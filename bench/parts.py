"""Run a command of qsim in this process and write where its time went: ``python bench/parts.py TOLD.json METHOD DECK...``.

Each moment of the main thread counts for one part, the innermost of those that it is in: `import` of modules, `compile` of
kernels, `build` (plan and set-up), `kernels` (compiled functions that are called from Python, with the threads they wait for),
`write` (results, figures), and `host`, all else: Python, NumPy, libraries of linear algebra.  With ``--device cuda`` the time in
which kernels are launched and waited for, or numbers of theirs are copied to the host, counts for `kernels`, too, and what their
compiler takes for `compile`.  That holds for CuPy's own kernels, and for its calls of cuBLAS and cuSOLVER, as well: every
function and operator of its arrays counts, with the start of a library in its first call.  What is missing to the wall time is
start and end of the interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PARTS = ("import", "compile", "build", "kernels", "write", "host")
OPERATORS = (
    *(
        f"__{kind}{name}__"
        for name in ("add", "sub", "mul", "truediv", "pow", "matmul")
        for kind in ("", "r", "i")
    ),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "abs", "getitem", "setitem")),
    *(f"__{name}__" for name in ("bool", "int", "float", "complex")),
    *(
        "astype",
        "copy",
        "fill",
        "conj",
        "dot",
        "item",
        "max",
        "mean",
        "min",
        "ravel",
        "reshape",
        "sum",
        "take",
    ),
)
STAGES = {"build": "build", "write": "write", "figures": "write"}


def clocks() -> tuple[float, float]:
    """Return wall time and processor time of all threads, s."""
    return time.perf_counter(), time.process_time()


class Parts:
    """Seconds of each part, each moment counted once.

    Parameters
    ----------
    now
        Wall time and processor time, s.
    """

    def __init__(self, now: Callable[[], tuple[float, float]] = clocks) -> None:
        self.wall, self.cpu = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)
        self._now, self._thread = now, threading.get_ident()
        self._within = ["host"]
        self._since = now()

    def enter(self, name: str) -> None:
        """Begin a part; time until it ends counts for it, and no longer for the one around it."""
        self._turn()
        self._within.append(name)

    def leave(self) -> None:
        """End the innermost part."""
        self._turn()
        self._within.pop()

    def total(self) -> dict[str, dict[str, float]]:
        """Return the seconds of all parts until now, by clock."""
        self._turn()
        return {"wall": dict(self.wall), "cpu": dict(self.cpu)}

    def _turn(self) -> None:
        now, within = self._now(), self._within[-1]
        self.wall[within] += now[0] - self._since[0]
        self.cpu[within] += now[1] - self._since[1]
        self._since = now

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block for a part; other threads than the one that made this object are not counted."""
        if threading.get_ident() != self._thread:
            yield
            return
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def counted(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that counts for a part; within itself, and in other threads, it costs nothing."""

        @functools.wraps(function)
        def call(*arguments: Any, **more: Any) -> Any:
            if threading.get_ident() != self._thread or self._within[-1] == name:
                return function(*arguments, **more)
            self.enter(name)
            try:
                return function(*arguments, **more)
            finally:
                self.leave()

        return call


def watch(parts: Parts) -> None:
    """Let imports, compilation, kernels and stages of this process count."""
    loading: Any = importlib._bootstrap
    loading._find_and_load = parts.counted("import", loading._find_and_load)
    from numba.core import event, registry

    from qsim.core.device import pool
    from qsim.core.run import pipeline
    from qsim.core.run.progress import Monitor

    class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
        def on_start(self, event: Any) -> None:
            if threading.get_ident() == parts._thread:
                parts.enter("compile")

        def on_end(self, event: Any) -> None:
            if threading.get_ident() == parts._thread:
                parts.leave()

    event.register("numba:compile", Listener())
    dispatcher = registry.CPUDispatcher
    dispatcher.__call__ = parts.counted("kernels", dispatcher.__call__)
    pool.each_part = parts.counted("kernels", pool.each_part)
    if any(word.startswith("cuda") for word in sys.argv):
        watch_cuda(parts)
    changed: Any = pipeline
    changed._plan = parts.counted("build", pipeline._plan)
    plain = Monitor.stage

    @contextlib.contextmanager
    def stage(self: Monitor, name: str) -> Iterator[None]:
        with plain(self, name), parts.part(STAGES.get(name, "host")):
            yield

    monitor: Any = Monitor
    monitor.stage = stage


class Launched:
    """A kernel of a GPU whose launches count; all else is the kernel's own."""

    def __init__(self, kernel: Any, parts: Parts) -> None:
        self._kernel, self._call = kernel, parts.counted("kernels", kernel.__call__)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        return self._call(*arguments, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def watch_cuda(parts: Parts) -> None:
    """Let launches, waiting for them, and the compiler count."""
    import cupy

    from qsim.core.device import kernels
    from qsim.core.device.device import Device

    watch_arrays(parts, cupy)
    compiler: Any = cupy.cuda.compiler
    name = "_compile_module_with_cache"  # of its own kernels; it loads those that are on the disk
    if hasattr(compiler, name):
        setattr(compiler, name, parts.counted("compile", getattr(compiler, name)))
    device, array, graph, loader = Device, cupy.ndarray, kernels.Graph, kernels
    whole: Any = device
    whole.synchronize = parts.counted("kernels", device.synchronize)
    copied: Any = array
    copied.get = parts.counted("kernels", array.get)
    recorded: Any = graph
    recorded.launch = parts.counted("kernels", graph.launch)
    changed: Any = loader
    for name in ("launch_overlapping", "launch_together"):
        setattr(changed, name, parts.counted("kernels", getattr(loader, name)))
    made = functools.cache(lambda kernel: Launched(kernel, parts))
    compiled = parts.counted("compile", loader.function)
    changed.function = lambda *names, **more: made(compiled(*names, **more))


def watch_arrays(parts: Parts, library: Any) -> None:
    """Let the functions of a library of arrays count, and the operators of its `ndarray`: they launch kernels or wait."""
    for place in (library, getattr(library, "linalg", None), getattr(library, "fft", None)):
        for name, found in list(vars(place).items()) if place is not None else []:
            if name.startswith("_") or not callable(found) or isinstance(found, type):
                continue
            plain = isinstance(found, types.FunctionType)
            setattr(place, name, parts.counted("kernels", found) if plain else Launched(found, parts))
    array: Any = library.ndarray
    for name in OPERATORS:
        if hasattr(array, name):
            setattr(array, name, parts.counted("kernels", getattr(array, name)))


def main() -> None:
    """Run the command line and write the parts; the exit code is that of the command."""
    parts = Parts()
    told, sys.argv = Path(sys.argv[1]), ["qsim", *sys.argv[2:]]
    with parts.part("import"):
        from qsim.core.device.blas import start_with_one_thread

        start_with_one_thread()  # as the program does, before it loads libraries
        watch(parts)
        from qsim.__main__ import main as command
    code: Any = 0
    try:
        command()
    except SystemExit as end:
        code = end.code
    told.write_text(json.dumps(parts.total()), encoding="utf-8")
    sys.exit(code)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # instead of bench/
    main()

"""Compilation in parallel processes: while a run compiles one kernel, another process compiles those that it needs later.

Numba compiles under a lock, one kernel at a time.  Where the cache lacks kernels, `ahead` starts processes of their own
(`qsim.core.device.compilers.helper`) with the list of what decks like this one need.  They begin at its end, the run comes
from its beginning, and numba's cache is where they meet: what is there is loaded.  A kernel that another process is at work on
is awaited, not compiled twice.

A run never needs these processes: it compiles what they do not bring.  They end with it, whatever ends it, since they listen to
a pipe that it holds open.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any

from qsim.core.device.compilers import caches
from qsim.core.device.compilers.board import DONE, HERE, THERE, Board
from qsim.core.device.compilers.compilation import compiling
from qsim.core.device.compilers.table import Kernel, expected
from qsim.core.device.hardware import free_host_memory

if TYPE_CHECKING:
    import subprocess

__all__ = ["Ahead", "ahead", "processes_to_compile"]

# Processes that compile, with the run itself; more find nothing to do, since few kernels take most of the time.
MOST = 3
# Bytes of memory that each takes, measured with the largest kernels (qmc).
MEMORY = 400_000_000
# Seconds between two looks at a kernel that another process compiles, and those that a process may take to end.
LOOK, PATIENCE = 0.005, 2.0
# Seconds after which a run compiles itself what another process has not brought: the largest kernel takes 15 on a busy machine.
LONGEST = 90.0

# The path of modules comes as the first argument; `-P` keeps the folder of the run out of it until then.
PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import main; main(sys.argv[2:])"
HELPER = "qsim.core.device.compilers.helper"


class Ahead:
    """The processes that compile for a run.

    Parameters
    ----------
    expect
        Returns what the run is likely to need on a device, in the order of its first calls; called when the processes start.
    processes
        Without the run itself.
    cold
        Whether the cache is known to hold no kernels of the method: the processes then start as soon as the device is known,
        while the run still reads and plans, else with the first kernel that is missing.
    """

    def __init__(self, expect: Callable[[str], Sequence[Kernel]], processes: int, cold: bool = False) -> None:
        self.processes, self.cold = processes, cold
        self._expect = expect
        self._device: str | None = None
        self._numbers: dict[str, int] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self._board: Board | None = None
        self._tried = False

    def on(self, device: str) -> None:
        """Say where the run computes, ``"cpu"`` or ``"cuda"``; the first word counts."""
        self._device = self._device or device
        if self.cold:
            self._start()

    def _start(self) -> None:
        """Start the processes, once; where the system refuses, the run goes on without them."""
        if self._tried or self._device is None or self.processes < 1:
            return
        self._tried = True
        kernels = self._expect(self._device)
        count = min(self.processes, len(kernels))
        if (free := free_host_memory()) > 0:
            count = min(count, free // (2 * MEMORY))
        # A program that holds Python within it has no interpreter to start.
        if count < 1 or not sys.executable:
            return
        self._numbers = {kernel.key: number for number, kernel in enumerate(kernels)}
        import tempfile

        text = json.dumps([[kernel.place, kernel.types] for kernel in kernels])
        with contextlib.suppress(OSError):
            with tempfile.TemporaryFile() as file:
                self._board = Board(os.dup(file.fileno()))
            self._board.clear(len(kernels))
            for number in range(count):
                process = _spawn(self._board.file, number)
                self._started.append(process)
                assert process.stdin is not None
                process.stdin.write(text.encode() + b"\n")
                process.stdin.flush()

    @property
    def working(self) -> int:
        """Processes that compile now, without the run itself."""
        return sum(process.poll() is None for process in self._started)

    def told(self) -> tuple[int, int]:
        """Return how many of the kernels are compiled, and how many there are."""
        states = self._board.states() if self._board is not None else b""
        return states.count(DONE), len(self._numbers)

    def missing(self, function: FunctionType, signature: object) -> bool:
        """Decide who compiles a kernel that the cache lacks, and wait if another process is at work on it.

        Returns
        -------
        bool
            Whether it is in the cache now; otherwise the run compiles it.
        """
        self._start()
        number = self._number(function, signature)
        if self._board is None or number is None or self._board.take(number, HERE):
            return False
        until = time.monotonic() + LONGEST
        with compiling():
            while (state := self._board.state(number)) >= THERE:
                # A process that was killed or hangs leaves its mark: the run compiles the kernel itself.
                if self._started[state - THERE].poll() is not None or time.monotonic() > until:
                    self._board.note(number, HERE)
                time.sleep(LOOK)
        return state == DONE

    def elsewhere(self, function: FunctionType, signature: object) -> bool:
        """Return whether another process is compiling a kernel."""
        number = self._number(function, signature)
        return self._board is not None and number is not None and self._board.state(number) >= THERE

    def kept(self, function: FunctionType, signature: object) -> None:
        """Note that the run has compiled a kernel, and that it is in the cache."""
        number = self._number(function, signature)
        if self._board is not None and number is not None:
            self._board.note(number, DONE)

    def close(self) -> None:
        """End the processes; what they are compiling is lost, what they have compiled is in the cache."""
        if not self._started:
            return
        import subprocess

        for process in self._started:
            with contextlib.suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        until = time.monotonic() + PATIENCE
        for process in self._started:
            try:
                process.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._started.clear()
        if self._board is not None:
            os.close(self._board.file)
            self._board = None

    def _number(self, function: FunctionType, signature: object) -> int | None:
        """Return the place of a kernel in the list, None if it is not expected."""
        from qsim.core.device.compilers.signatures import place_of, written

        arguments: Any = signature if isinstance(signature, tuple) else getattr(signature, "args", ())
        try:
            return self._numbers.get(Kernel(place_of(function), [*map(written, arguments)]).key)
        except ValueError:
            return None


def _spawn(board: int, number: int) -> subprocess.Popen[bytes]:
    """Start a process that compiles; it hears of the end of this one by its standard input."""
    import subprocess

    # Scripts leave objects of pathlib there.
    places = [str(place) for place in sys.path]
    # Of the GPU and of threads it needs none.
    settings = {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "QSIM_COMPILERS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM.format(HELPER), json.dumps(places), str(board), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **settings},
        pass_fds=(board,),
    )


def processes_to_compile(threads: int, environ: Mapping[str, str] = os.environ) -> int:
    """Return how many processes may compile beside a run with some threads: none on one core, in a pool, and on Windows.

    ``QSIM_COMPILERS`` is the number of all that compile, with the run itself.
    """
    # Whoever has not loaded it is not of a pool.
    pools: Any = sys.modules.get("multiprocessing.process")
    if os.name != "posix" or (pools is not None and pools.parent_process() is not None):
        return 0
    wanted = environ.get("QSIM_COMPILERS", "").strip()
    most = int(wanted) if wanted.isdecimal() else min(threads, MOST)
    return max(0, most - 1)


@contextmanager
def ahead(method: str, data: Mapping[str, Any], processes: int, cold: bool) -> Iterator[Ahead]:
    """Compile kernels of a deck in other processes during the block, from the first one on that the cache lacks.

    Parameters
    ----------
    method, data
        The deck, as it is written.
    processes
        See `processes_to_compile`.
    cold
        See `Ahead`.
    """
    # One run at a time: another one, in another thread, compiles for itself.
    work = Ahead(lambda device: expected(method, data, device), 0 if caches.WATCHES else processes, cold)
    if not work.processes:
        yield work
        return
    caches.WATCHES.append(work)
    try:
        yield work
    finally:
        caches.WATCHES.remove(work)
        work.close()

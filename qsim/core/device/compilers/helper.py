"""Program of a process that compiles kernels for a run, see `qsim.core.device.compilers.ahead`."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence

from qsim.core.device.compilers.board import DONE, FAILED, THERE, Board
from qsim.core.device.compilers.sound import SAVING
from qsim.core.device.compilers.table import Kernel

__all__ = ["compile_from_the_end", "compile_kernel", "main"]


def main(words: Sequence[str]) -> None:
    """Compile what the first line of standard input lists, until that ends.

    Parameters
    ----------
    words
        Descriptor of the board, and number of this process.
    """
    # The end of the run is the end of this process: signals are for the run to hear.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    line = sys.stdin.buffer.readline()
    threading.Thread(target=_end_with_the_run, daemon=True).start()
    from qsim.core.device import jit

    kernels = [Kernel(place, types) for place, types in json.loads(line)]
    # It makes no garbage to speak of, and lives for some seconds.
    gc.disable()
    # What a kernel calls by address is compiled for itself, here or by another process.
    jit.NEVER_RUN.append(True)
    compile_from_the_end(Board(int(words[0])), int(words[1]), kernels, compile_kernel)
    # Not through the interpreter's end, which would wait for the thread that listens.
    with SAVING:
        os._exit(0)


def _end_with_the_run() -> None:
    """Wait until nobody holds the other end of standard input, and end this process; what it is writing is written whole."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    with SAVING:
        os._exit(0)


def compile_from_the_end(
    board: Board, number: int, kernels: Sequence[Kernel], compile_one: Callable[[Kernel], None]
) -> None:
    """Compile kernels that nobody has taken, the last first.

    Parameters
    ----------
    board
        Of all processes of the run.
    number
        Of this process.
    kernels
        In the order of their first calls.
    compile_one
        Compiles a kernel, or raises an error.
    """
    for place in range(len(kernels) - 1, -1, -1):
        if not board.take(place, THERE + number):
            continue
        try:
            compile_one(kernels[place])
        except Exception:  # whatever it is, the run meets it itself, and tells it
            board.note(place, FAILED)
        else:
            board.note(place, DONE)


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel into the cache, or find it there.

    Raises
    ------
    Exception
        If there is no such kernel, or it does not take such arguments.
    """
    from qsim.core.device.compilers.signatures import find, read

    found = find(kernel.place)
    # One that is compiled apart holds its compiler.
    getattr(found, "dispatcher", found).compile(tuple(map(read, kernel.types)))

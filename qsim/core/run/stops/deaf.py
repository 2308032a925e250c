"""Ctrl-C where Python is deaf: in a compiled kernel, or a call of a library, that runs for long.

Python calls its handlers between two of its own instructions, so none is called before a kernel returns; nor does another thread
of Python run, since kernels hold the interpreter.  What is heard at once is the C handler, which writes the number of the signal
to a pipe.  A thread in machine code, which needs no interpreter, reads the pipe and counts.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

__all__ = ["Deaf"]

# Ctrl-C that end a process, and those that end it while kernels are compiled, which cannot be interrupted either.
PRESSES, WHILE_COMPILING = 3, 2
# Microseconds in which Python, if it listens, ends the process itself.
PATIENCE = 300_000
SAID = b"\nqsim: interrupted by repeated Ctrl-C within a long step; the last checkpoint, if any, is kept\n"

# until(pipe, limit, lock, text, length): limit[0] presses end the process.  The end of the pipe ends the thread.
PROGRAM = f"""
declare i64 @read(i32, i8*, i64)
declare i64 @write(i32, i8*, i64)
declare i32 @unlink(i8*)
declare i32 @usleep(i32)
declare void @_exit(i32)

define void @until(i32 %pipe, i64* %limit, i8* %lock, i8* %text, i64 %length) {{
entry:
  %byte = alloca i8
  br label %wait
wait:
  %count = phi i64 [0, %entry], [%count, %failed], [%count, %heard], [%more, %pressed], [%more, %late]
  %got = call i64 @read(i32 %pipe, i8* %byte, i64 1)
  switch i64 %got, label %failed [i64 1, label %heard
                                  i64 0, label %done]
failed:
  %slept = call i32 @usleep(i32 1000)
  br label %wait
heard:
  %number = load i8, i8* %byte
  %is_press = icmp eq i8 %number, {int(signal.SIGINT)}
  br i1 %is_press, label %pressed, label %wait
pressed:
  %more = add i64 %count, 1
  %most = load volatile i64, i64* %limit
  %enough = icmp sge i64 %more, %most
  br i1 %enough, label %late, label %wait
late:
  %waited = call i32 @usleep(i32 {PATIENCE})
  %now = load volatile i64, i64* %limit
  %still = icmp sge i64 %more, %now
  br i1 %still, label %end, label %wait
end:
  %said = call i64 @write(i32 2, i8* %text, i64 %length)
  %removed = call i32 @unlink(i8* %lock)
  call void @_exit(i32 130)
  unreachable
done:
  ret void
}}
"""


class Deaf:
    """Context in which repeated Ctrl-C ends the process also where Python does not hear it.

    It does nothing without numba, on other systems than POSIX, beside another user of the pipe of signals, and outside the main
    thread.

    Parameters
    ----------
    lock
        File to remove when the process ends so.
    """

    def __init__(self, lock: Path) -> None:
        self._lock = os.fsencode(lock)
        self._limit = ctypes.c_int64(PRESSES)
        self._pipe: tuple[int, int] | None = None

    def compiling(self, now: bool) -> None:
        """Say whether kernels are being compiled, where fewer presses are enough."""
        self._limit.value = WHILE_COMPILING if now else PRESSES

    def __enter__(self) -> Deaf:
        # Numba has loaded the compiler, if there are kernels at all.
        main = threading.current_thread() is threading.main_thread()
        if os.name == "posix" and main and "llvmlite.binding" in sys.modules:
            with suppress(ImportError, OSError, RuntimeError):
                self._listen()
        return self

    def _listen(self) -> None:
        """Start the thread that reads what the C handler writes."""
        call = _compiled()
        if not _registered:
            os.register_at_fork(after_in_child=_forget)
            _registered.append(True)
        ends = os.pipe()
        # The handler must never wait for the reader.
        os.set_blocking(ends[1], False)
        before = signal.set_wakeup_fd(ends[1], warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            os.close(ends[0])
            os.close(ends[1])
            return
        self._pipe = ends
        words = (ends[0], ctypes.byref(self._limit), self._lock, SAID, len(SAID))
        # A call by ctypes runs without the interpreter.
        self._thread = threading.Thread(target=call, args=words, daemon=True)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        if self._pipe is not None:
            signal.set_wakeup_fd(-1)
            # Nobody else holds this end: the thread reads the end of the pipe.
            os.close(self._pipe[1])
            self._thread.join(1.0)
            os.close(self._pipe[0])
            self._pipe = None


def _compiled() -> ctypes._FuncPointer:
    """Return the program as a function; compiling it takes some milliseconds."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module = binding.parse_assembly(PROGRAM)
    engine = binding.create_mcjit_compiler(
        module, binding.Target.from_default_triple().create_target_machine()
    )
    engine.finalize_object()
    kinds = (ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)
    function = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("until"))
    # The machine code lives as long as its engine.
    _engines.append(engine)
    return function


_engines: list[object] = []


# Whether processes that are forked forget the pipe.
_registered: list[bool] = []


def _forget() -> None:
    """Leave the pipe to the process that made it: a signal for a group of processes would be counted by each of them."""
    with suppress(ValueError):
        signal.set_wakeup_fd(-1)

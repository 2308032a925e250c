"""Standard output and error that cannot fail: closed, full, without a reader, or of another encoding.

A run must not end because nobody listens.  What is said on standard error goes nowhere then; what fails on
standard output is remembered and told at the end, when the results are safe.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]  # of Python 3.12

__all__ = ["PatientFile", "PatientText", "make_patient", "output_error"]


class PatientFile(io.RawIOBase):
    """A file that takes everything.

    Parameters
    ----------
    fd
        Open file descriptor; it is not closed with this object.

    Attributes
    ----------
    error : OSError or None
        The first error; after it, everything goes nowhere.
    """

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self.error: OSError | None = None

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._fd

    def isatty(self) -> bool:
        """Return True if this is a terminal."""
        return os.isatty(self._fd)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write all of `data`, or remember why that failed."""
        view = memoryview(data).cast("B")
        written = 0
        # A write may take a part only (a pipe that is full): go on with the rest.
        while self.error is None and written < len(view):
            try:
                written += os.write(self._fd, view[written:])
            except OSError as error:
                self.error = error
        return len(view)


class PatientText:
    """A text stream around another that takes everything; for libraries that end the program when a pipe breaks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or do not."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, or do not."""
        with suppress(OSError, ValueError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def make_patient() -> None:
    """Open closed standard streams on nothing, and replace standard output and error by such as cannot fail.

    Called once, by the command line; as a library, qsim leaves the streams of the program alone.
    """
    for fd in range(3):  # a results file must not become number 2 and receive what is said
        try:
            os.fstat(fd)
        except OSError:
            with suppress(OSError):
                os.open(os.devnull, os.O_RDWR)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for as long as the process lives
    # Standard output in blocks, for speed; what is said to a person line by line.
    sys.stdout = _patient(sys.stdout, 1, line_buffering=False)
    sys.stderr = _patient(sys.stderr, 2, line_buffering=True)


def _patient(stream: TextIO | None, fd: int, *, line_buffering: bool) -> TextIO:
    """Return a stream that cannot fail in place of a standard one."""
    try:
        # Descriptor of the stream, which is another one than 1 or 2 where the shell has redirected it before
        # Python started.
        number = fd if stream is None else stream.fileno()
    except (OSError, ValueError, AttributeError):
        return stream or io.StringIO()  # no file: a program that calls the command line catches what is said
    if stream is not None:
        with suppress(OSError, ValueError):
            stream.flush()
    raw = PatientFile(number)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=line_buffering or raw.isatty(),
    )


def output_error() -> OSError | None:
    """Flush standard output; return what it could not take, None if all went well or its reader has left."""
    stream = sys.stdout
    with suppress(OSError, ValueError, AttributeError):
        stream.flush()
    raw = getattr(getattr(stream, "buffer", None), "raw", None)
    error = raw.error if isinstance(raw, PatientFile) else None
    # A reader that has left (`| head`) has got what it wanted: no error.
    return None if error is None or error.errno == errno.EPIPE else error

"""One guard around everything that reads files: whatever is wrong with a file becomes a `FileError` that names it.

A reader checks what it expects and says so; what it did not foresee (a damaged heap, a truncated stream, a number where a
text should be) is caught here, so that no file can end a run with a traceback.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast
from xml.etree.ElementTree import ParseError

from qsim.core.device.hardware import free_host_memory
from qsim.core.errors import FileError, InvalidInput, QsimError
from qsim.core.text import reason

__all__ = [
    "MAX_TEXT",
    "damage_of",
    "open_binary",
    "read_bytes",
    "reading",
    "require_file",
    "require_room",
    "unusable",
]

# Bytes of a text file, after decompression, beyond which it is not read.
MAX_TEXT = 4 * 2**30

# Exceptions that libraries raise for a damaged or foreign file.
DAMAGE = (
    OSError,  # also h5py's errors, gzip.BadGzipFile
    RuntimeError,  # h5py; NotImplementedError of zipfile; RecursionError
    LookupError,
    TypeError,
    ValueError,  # also UnicodeError, JSONDecodeError
    ArithmeticError,
    AttributeError,
    EOFError,
    MemoryError,
    AssertionError,  # h5py, of inconsistent references
    BufferError,
    SyntaxError,  # NumPy, of a header
    tokenize.TokenError,  # NumPy, of a header of Python 2
    Warning,  # NumPy's about values, raised as errors below
    ParseError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)


@contextmanager
def reading(path: str | Path, expected: str, *, place: str = "", hint: str | None = None) -> Iterator[None]:
    """Turn whatever goes wrong in the block into a `FileError` about a file.

    Warnings of the libraries inside the block are silenced: a reader that cares for a value tests the value.

    Parameters
    ----------
    path
        The file.
    expected
        What it should hold, ``"an HDF5 file with the datasets a, b, c, d"``.
    place
        Where in the file the block reads, ``"dataset 'psi'"``.
    hint
        What to do about it.

    Raises
    ------
    FileError
        With the name of the file, the place, what went wrong and what was expected; errors of qsim pass unchanged.
    """
    with damage_of(path, expected, place, hint), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def damage_of(path: str | Path, expected: str, place: str = "", hint: str | None = None) -> Iterator[None]:
    """Do what `reading` does, and leave warnings as they are: for the many small parts of what is read."""
    try:
        yield
    except (QsimError, InvalidInput):
        raise
    except DAMAGE as error:
        # Everything in DAMAGE is a property of the file, as far as the user is concerned.
        where = f"{path}: {place}" if place else str(path)
        raise FileError(f"{where} cannot be read: {reason(error)}; expected {expected}", hint=hint) from error


def unusable(path: Path) -> str:
    """Return why something that exists is no file that can be read to its end, or an empty text."""
    # Through links: what they lead to is what would be read.
    mode = path.stat().st_mode
    if stat.S_ISREG(mode):
        return ""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFSOCK: "a socket",
    }
    return f"{kinds.get(stat.S_IFMT(mode), 'something else')}, not a file"


def require_file(path: str | Path, expected: str) -> Path:
    """Return a path that is a regular file; refuse what may never end, such as pipes and devices.

    Raises
    ------
    FileError
        If there is nothing, or something else.
    """
    path = Path(path)
    with reading(path, expected):
        if not path.exists():
            raise FileError(f"{path} does not exist; expected {expected}")
        if kind := unusable(path):
            raise FileError(f"{path} is {kind}; expected {expected}")
    return path


def require_room(path: str | Path, place: str, size: int) -> None:
    """Refuse data that the memory cannot hold, before they are read.

    Parameters
    ----------
    path, place
        File, and where in it the size is announced.
    size
        Bytes.

    Raises
    ------
    FileError
        If there is less memory.
    """
    free = free_host_memory()  # 0: not known
    if free and size > max(free, 1 << 26):
        raise FileError(
            f"{path}: {place} announces {size:.3g} bytes, but {free:.3g} bytes of memory are free"
        )


@contextmanager
def open_binary(path: str | Path, expected: str) -> Iterator[BinaryIO]:
    """Open a regular file for reading, unpacked if it is compressed with gzip (told by its first two bytes).

    Raises
    ------
    FileError
        If it is missing, not a regular file, or anything goes wrong while the block reads it.
    """
    path = require_file(path, expected)
    # not blocking: the path may have been replaced by a pipe since it was looked at
    with damage_of(path, expected), open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as raw:  # noqa: PTH123
        # By the content, not by the name: a file may be renamed after packing.
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        before = _stamp(raw)
        if packed:
            with gzip.open(raw, "rb") as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield raw
        if _stamp(raw) != before:
            raise FileError(
                f"{path} was changed while it was read", hint="repeat the command when nothing writes to it"
            )


def _stamp(file: BinaryIO) -> tuple[int, int]:
    """Return size and time of change of an open file."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def read_bytes(path: str | Path, expected: str, limit: int) -> bytes:
    """Return the content of a file of at most `limit` bytes.

    Raises
    ------
    FileError
        As `open_binary`, and for a larger file.
    """
    with open_binary(path, expected) as file:
        # One byte more than allowed shows a larger file without reading it.
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileError(f"{path} is larger than {limit / 2**20:.0f} MiB; expected {expected}")
    return data

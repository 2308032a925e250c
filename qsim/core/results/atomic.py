"""Files that appear complete or not at all, whatever fails on the way.

A file is written under a temporary name of its own beside its place, brought to the disk, and renamed; then
the folder is brought to the disk as well.  The temporary is opened so that it can replace nothing, and its
name holds the number of the process.

HDF5 keeps a file open whose writing failed, and crashes the process when Python exits.  So it is never given
a file of the system, but the object that `replacing` yields: one that takes everything, keeps the first
error to itself, and raises it when HDF5 has closed the file.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from qsim.core.errors import FileError
from qsim.core.text import has_controls, printable

if TYPE_CHECKING:
    from collections.abc import Buffer  # type: ignore[attr-defined]  # of Python 3.12

__all__ = [
    "PartFile",
    "refuse_controls",
    "remove_parts_of",
    "replacing",
    "temporary_name",
    "write_bytes",
    "write_text",
]

# Pieces up to this many bytes are kept when they cannot be written, since HDF5 reads its own tables back.
KEPT = 2**20


class PartFile(io.RawIOBase):
    """A new file that never fails while it is written; `check` raises what failed.

    Parameters
    ----------
    path
        File to make; it must not exist.

    Attributes
    ----------
    path : Path
        The file.
    error : BaseException or None
        The first error; after it nothing more reaches the file.

    Raises
    ------
    OSError
        If the file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.error: BaseException | None = None
        # HDF5 seeks and writes at any place: position and end are kept here, whatever reached the file.
        self._position = 0
        self._end = 0
        self._kept: dict[int, bytes] = {}
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        with suppress(
            OSError, AttributeError
        ):  # results that their owner cannot read (umask 777) serve nobody
            mode = os.fstat(self._fd).st_mode & 0o777
            if mode & 0o600 != 0o600:
                os.fchmod(self._fd, mode | 0o600)

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position, which may lie behind the end."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = max(0, start + offset)
        return self._position

    def write(self, data: Buffer) -> int:
        """Write all of `data`, or note that it failed."""
        view = memoryview(data).cast("B")
        try:
            if self.error is None:
                self._write_all(view)
        except BaseException as error:  # also of a signal handler: HDF5 must not see it
            self.error = error
        # HDF5 reads its own tables back while it closes the file; it must find what it believes to have
        # written.
        if self.error is not None and len(view) <= KEPT:
            self._kept[self._position] = bytes(view)
        self._position += len(view)
        self._end = max(self._end, self._position)
        return len(view)

    def _write_all(self, view: memoryview) -> None:
        written = 0
        while written < len(view):  # a disk that runs full takes a part first
            written += os.pwrite(self._fd, view[written : written + 2**30], self._position + written)

    def readinto(self, buffer: Buffer) -> int:
        """Fill `buffer`; what was never written is zero."""
        view = memoryview(buffer).cast("B")
        got = 0
        try:
            while got < len(view) and (piece := os.pread(self._fd, len(view) - got, self._position + got)):
                view[got : got + len(piece)] = piece
                got += len(piece)
        except BaseException as error:
            self.error = self.error or error
        # Behind the end of the file, and in what a failed write left out.
        view[got:] = bytes(len(view) - got)
        # Over that, the pieces that could not be written.
        for start, piece in self._kept.items():
            first = max(start, self._position)
            last = min(start + len(piece), self._position + len(view))
            if first < last:
                view[first - self._position : last - self._position] = piece[first - start : last - start]
        self._position += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Set the size of the file."""
        size = self._position if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self._fd, size)
        except BaseException as error:
            self.error = error
        self._end = size
        return size

    def flush(self) -> None:
        """Do nothing: no byte is held back."""

    def check(self) -> None:
        """Raise the first error, if there was one."""
        if self.error is not None:
            raise self.error

    def sync(self) -> None:
        """Wait until every byte is on the disk; raise what failed.

        Raises
        ------
        OSError
            The first error of all writes, or that of this one.
        """
        self.check()
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            super().close()
            with suppress(OSError):  # nothing is held back, and the file was synchronized or is void
                os.close(self._fd)


def _mark() -> str:
    """Return the part of temporary names that only this process uses: host and process number."""
    return f"{_short_host()}-{os.getpid()}"


def _short_host() -> str:
    name = socket.gethostname().partition(".")[0]
    # Letters, digits and dashes, at most 16: names of hosts may hold anything.
    return "".join(c for c in name if c.isascii() and (c.isalnum() or c == "-"))[:16] or "host"


def refuse_controls(path: Path) -> None:
    """Refuse to make a file or a folder whose name would do something to a terminal, or begin a line of a script.

    Raises
    ------
    FileError
        If the path, as it is given, holds control characters.
    """
    if has_controls(str(path)):
        raise FileError(
            f"{printable(str(path))} holds control characters, so nothing is written there",
            hint="choose another name",
        )


def temporary_name(path: Path, number: int = 0) -> str:
    """Return the temporary name of a file of this process, such as ``run.h5.node7-4711.part``."""
    count = f"-{number}" if number else ""
    return f"{path.name}.{_mark()}{count}.part"


def _new_part(path: Path) -> PartFile:
    for number in itertools.count():
        with suppress(FileExistsError):  # left by a dead process, or of another thread of this one
            return PartFile(path.with_name(temporary_name(path, number)))
    raise AssertionError("unreachable")


@contextmanager
def replacing(path: str | Path, *, overwrite: bool = True, durable: bool = True) -> Iterator[PartFile]:
    """Write a file in one step: yield an object to write to, and give it its name when the block ends.

    Parameters
    ----------
    path
        File to make or replace.  A link is replaced itself, not what it leads to.
    overwrite
        True if an existing file may be replaced.
    durable
        True if to wait until file and name are on the disk; not needed for what can be made again from other files.

    Yields
    ------
    PartFile
        Binary file, writable and readable at any position; also for ``h5py.File(part, "w")``, which must be
        closed inside the block.

    Raises
    ------
    FileError
        If the name holds control characters.
    FileExistsError
        If the file exists and must not be replaced, or is a folder, a device or a pipe; in the first case, what was written is
        kept beside it, and named.
    OSError
        If anything else fails; the old file is untouched and nothing new is left.
    """
    path = Path(path)
    refuse_controls(path)
    with suppress(FileNotFoundError):
        if not (stat.S_ISREG(mode := path.lstat().st_mode) or stat.S_ISLNK(mode)):
            raise FileExistsError(errno.EEXIST, "it exists and is no plain file")
    # In the same folder: only there is a renaming one step.
    part = _new_part(path)
    kept = False
    try:
        try:
            yield part
        except Exception:
            part.check()  # what happened first; the other error follows from it
            raise
        part.check()
        if durable:
            part.sync()
        part.close()
        try:
            # The bytes are on the disk before the name is: a crash in between leaves the old file, or none.
            _rename(part.path, path, overwrite)
        except FileExistsError as error:
            kept = True
            raise FileExistsError(
                error.errno, f"it was created in the meantime; the new content is in {part.path}"
            ) from error
        if durable:
            _sync_folder(path.parent)
    finally:
        part.close()
        # Of whatever ends the block, also a stop request.
        if not kept:
            with suppress(OSError):
                part.path.unlink(missing_ok=True)


def _rename(part: Path, path: Path, overwrite: bool) -> None:
    if overwrite:
        part.replace(path)
        return
    try:
        os.link(part, path)  # unlike a renaming, this never replaces anything
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(path):
            raise FileExistsError(17, "File exists") from None
        part.replace(path)
    else:
        part.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk; file systems that cannot do that for folders are left alone."""
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def write_bytes(path: str | Path, data: bytes, *, overwrite: bool = True) -> Path:
    """Write a file in one step.

    Raises
    ------
    FileError
        If it cannot be written, or exists and must not be replaced.
    """
    path = Path(path)
    try:
        with replacing(path, overwrite=overwrite) as part:
            part.write(data)
    except OSError as error:
        raise FileError(
            f"cannot write {path}: {error.strerror or error}",
            hint="check the folder, its rights and the free space",
        ) from error
    return path


def write_text(path: str | Path, text: str, *, overwrite: bool = True) -> Path:
    """Write a text file (UTF-8) in one step; what UTF-8 cannot hold (bytes of odd file names) is escaped.

    Raises
    ------
    FileError
        If it cannot be written, or exists and must not be replaced.
    """
    return write_bytes(path, text.encode("utf-8", "backslashreplace"), overwrite=overwrite)


def remove_parts_of(folder: Path, begin: str, host: str, pid: int) -> list[Path]:
    """Remove the temporaries that a dead process of this host left for files whose names begin like this.

    Returns
    -------
    list of Path
        What was removed.
    """
    removed: list[Path] = []
    if host != socket.gethostname():
        return removed
    ending = f".{_short_host()}-{pid}.part"
    with suppress(OSError):
        for entry in os.scandir(folder):
            # The name holds host and process: temporaries of runs that live are never touched.
            own = entry.name.startswith(begin) and entry.name.endswith(ending)
            if own and entry.is_file(follow_symlinks=False):
                with suppress(OSError):
                    Path(entry.path).unlink()
                    removed.append(Path(entry.path))
    return removed

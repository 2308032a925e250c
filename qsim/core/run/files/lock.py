"""One run per output: a lock beside the results, from before the work until everything is written.

The lock is the file ``<stem>.lock``.  It holds, as JSON, who made it (host, process, since when), and the
process keeps it locked with ``flock``, which the system gives back when the process ends, however it ends.
What another run may conclude from a lock that it finds:

- It is held by ``flock``: that run lives.  (On NFS from Linux 2.6.12 on, and on Lustre mounted with ``-o
  flock``, this holds for the runs of all hosts.)
- It is free, and was made under this running system: its run is dead, and the lock is taken over.  Where
  ``flock`` does not exist, the number and the starting time of the process tell whether it lives.
- It is free, and was made on another host or before a reboot: ``flock`` may not reach that far, so the run
  counts as alive until the lock has not been renewed for `EXPIRY`.  A thread of the run renews it.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from qsim.core.errors import FileError
from qsim.core.results.atomic import remove_parts_of

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["EXPIRY", "RENEWAL", "BusyError", "OutputLock", "Owner", "held", "lock_path", "remove_dead"]

# Seconds after which a run renews its lock.
RENEWAL = 60.0
# Seconds after which the lock of another host that was not renewed is void.
EXPIRY = 600.0
# Seconds after which a lock without `flock` is read again.
SETTLING = 0.2
# Bytes of a lock that are read, and attempts to take one that others keep removing.
LARGEST = 65536
TRIES = 20
KIND = "qsim-lock"


@dataclass(frozen=True)
class Owner:
    """The run that a lock belongs to.

    Attributes
    ----------
    host, boot
        Name of the host, and the identity of its running system, which a reboot changes; ``""`` if unknown.
    pid, started
        Number of the process, and when it began, in the system's ticks; 0 if unknown.
    since
        Local time at which the lock was made.
    """

    host: str
    boot: str
    pid: int
    started: int
    since: str

    @classmethod
    def this(cls) -> Owner:
        """Return this process."""
        pid = os.getpid()
        return cls(
            socket.gethostname(), _boot(), pid, _status(pid)[1], time.strftime("%Y-%m-%d %H:%M:%S %z").strip()
        )

    @classmethod
    def read(cls, data: bytes) -> Owner | None:
        """Return the owner that the content of a lock names; None if it is no lock of qsim."""
        try:
            content = json.loads(data)
            if not isinstance(content, Mapping) or content["kind"] != KIND:
                return None
            return cls(
                str(content["host"]),
                str(content["boot"]),
                int(content["pid"]),
                int(content["started"]),
                str(content["since"]),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def content(self) -> bytes:
        """Return the content of the lock file."""
        return (json.dumps({"kind": KIND, **self.__dict__}) + "\n").encode()

    def __str__(self) -> str:
        """Return ``process 4711 on node7, since 2026-11-22 07:41:04 +0000``."""
        host, since = (_printable(text) for text in (self.host, self.since))
        return f"process {self.pid} on {host}, since {since}"

    def lives_here(self) -> bool:
        """Return True if the process is at work and was started under this running system, or if that cannot be told."""
        if sys.platform == "win32":
            return True  # signal 0 ends a process there
        if self.pid < 1:
            return False  # a group of processes
        try:
            # Signal 0 does nothing, but tells whether the process exists; a process of another user does.
            os.kill(self.pid, 0)
        except PermissionError:
            pass
        except (OSError, OverflowError):
            return False
        # Numbers of processes are used again: only one that began at the recorded tick is the run.  One that has ended is
        # there until its parent asks for its exit code, which the parent may never do.
        state, started = _status(self.pid)
        return state not in ("Z", "X") and (not self.started or started in (0, self.started))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text[:80])


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _status(pid: int) -> tuple[str, int]:
    """Return the state of a process, one letter, and when it began, in ticks since the system did; ``""``, 0 if unknown."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/stat").read_bytes()
        fields = status[status.rindex(b")") + 2 :].split()  # the name may hold blanks and brackets
        return fields[0].decode("ascii"), int(fields[19])
    return "", 0


class BusyError(FileError):
    """Another run holds the lock.

    Attributes
    ----------
    owner
        Which, as it is told.
    """

    def __init__(self, text: str, owner: str, hint: str) -> None:
        super().__init__(text, hint=hint)
        self.owner = owner


def held(stem: Path) -> Owner | None:
    """Return the owner of the lock of an output, if it lives as far as the lock itself tells; the lock is not touched."""
    path = lock_path(stem)
    try:
        owner, age = Owner.read(path.read_bytes()[:LARGEST]), time.time() - path.stat().st_mtime
    except OSError:
        return None
    if owner is None:
        return None
    here = bool(owner.boot) and owner.boot == _boot()
    lives = owner.lives_here() if here else age < EXPIRY
    return owner if lives else None


def remove_dead(folder: Path) -> None:
    """Remove the locks in a folder whose runs are dead, and what these were writing; what lives, or may, stays."""
    for path in sorted(folder.glob("*.lock")):
        stem = path.with_name(path.name.removesuffix(".lock"))
        # empty: being made at this moment
        with suppress(OSError, FileError):
            if path.stat().st_size and held(stem) is None:
                # The process was writing whatever it was writing: decks under the lock of the index, records of failures.
                OutputLock(stem, whole=True).__enter__().release()


def lock_path(stem: Path) -> Path:
    """Return the lock of an output, whose path without ending is given."""
    return stem.with_name(f"{stem.name}.lock")


class OutputLock:
    """Context in which no other run writes the files of one output.

    Parameters
    ----------
    stem
        Path of the results without ending; the lock is ``<stem>.lock``.
    whole
        The lock is for the whole folder: temporary files of any name that a dead owner left go.

    Attributes
    ----------
    path : Path
        The lock.
    notices : list of str
        What the user should know: that the lock of a dead run was taken over.
    """

    def __init__(self, stem: Path, *, whole: bool = False) -> None:
        self._begin = "" if whole else f"{stem.name}."
        self.path = lock_path(stem)
        self.notices: list[str] = []
        self._stem = stem
        self._fd: int | None = None
        self._content = b""
        self._released = threading.Event()

    def __enter__(self) -> OutputLock:
        """Take the lock.

        Raises
        ------
        FileError
            If another run holds it, or it cannot be made.
        """
        # Before any work: a second run learns at once that it cannot have this output.
        try:
            self._fd = self._take()
        except OSError as error:
            raise FileError(
                f"cannot write into the output folder {self.path.parent}: {self.path.name}: {error.strerror or error}",
                hint="check the folder, its rights and the free space, or choose another one with -o FILE",
            ) from error
        # A daemon: it never keeps a process from ending.
        threading.Thread(target=self._renew, name="qsim-lock", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back and remove its file, if it is still ours."""
        self._released.set()
        if self._fd is None:
            return
        fd = self._fd
        with suppress(OSError):
            # another host may have taken the lock of a run that was asleep for longer than EXPIRY
            # The content is compared, too: the name may lead to our file, which another host
            # has taken over.
            if _is_at(fd, self.path) and os.pread(fd, LARGEST, 0) in (b"", self._content):
                self.path.unlink()
        with suppress(OSError):
            os.close(fd)
        self._fd = None  # last, so that a stop request in the middle, which calls this again, finds what is left to do

    # ------------------------------------------------------------------------------------- taking it

    def _take(self) -> int:
        """Return the open lock; raise FileError if another run holds it."""
        for _ in range(TRIES):
            # Each attempt opens the file anew: a lock that was removed meanwhile no longer excludes anyone.
            made, fd = self._open()
            if fd is None:
                continue
            try:
                if self._won(fd, made):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
        raise FileError(
            f"{self.path} keeps changing; other runs seem to begin with the same output",
            hint="choose another output with -o FILE",
        )

    def _open(self) -> tuple[bool, int | None]:
        """Open the lock; tell whether it is new.  None if it was removed at this very moment."""
        # Not inherited by processes that the run starts, which would hold the lock beyond its end.
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
        with suppress(FileExistsError):
            fd = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o666)
            with suppress(OSError, AttributeError):  # not every system has it
                os.fchmod(fd, os.fstat(fd).st_mode & 0o777 | 0o600)
            return True, fd
        if not self.path.is_file() or self.path.is_symlink():
            if os.path.lexists(self.path):
                raise self._foreign()
            return False, None
        try:
            return False, os.open(self.path, flags | getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return False, None

    def _won(self, fd: int, made: bool) -> bool:
        """Return True if the lock is ours now; False if the file was replaced meanwhile.

        Raises
        ------
        FileError
            If another run holds it, or it is another file.
        """
        # True: ours. False: of a run that lives. None: nobody can tell, and the content of the file decides.
        held = _flock(fd)
        # Read after locking: before, the owner could still change it.
        data = os.pread(fd, LARGEST, 0)
        owner = Owner.read(data)
        if data and owner is None:
            raise self._foreign()
        if held is False:
            raise self._busy(owner, "")
        # The owner has removed the file between our opening and locking it: what we hold is a file without a
        # name.
        if not _is_at(fd, self.path):
            return False
        if not made and owner is not None:
            self._take_over(owner, fd, flocked=held is True)
        elif not made and held is None and self._age(fd) < RENEWAL:  # being made, where there is no flock
            raise self._busy(None, "")
        self._content = Owner.this().content()
        with suppress(OSError):  # no space for the few bytes: flock alone must do
            os.ftruncate(fd, 0)
            os.pwrite(fd, self._content, 0)
        if held is None:  # two runs may have written the same dead lock: the last to write has it
            time.sleep(SETTLING)
            written = os.pread(fd, LARGEST, 0)
            if written != self._content:
                raise self._busy(Owner.read(written), "")
        return True

    def _take_over(self, owner: Owner, fd: int, *, flocked: bool) -> None:
        """Take the lock of a dead run; raise FileError if it may be alive."""
        # Made under this running system: then the number of the process says whether it lives.
        here = bool(owner.boot) and owner.boot == _boot()
        if here and not flocked and owner.lives_here():
            raise self._busy(owner, "")
        # Another host, or this one before a reboot: only the age of the lock tells whether its
        # run lives.
        if not here and (age := self._age(fd)) < EXPIRY:
            raise self._busy(
                owner,
                f"; if that run no longer exists, remove {self.path}, "
                f"or wait {max(1, round((EXPIRY - age) / 60))} min",
            )
        # A killed run leaves files under temporary names, which nobody else would remove.
        removed = remove_parts_of(self._stem.parent, self._begin, owner.host, owner.pid) if here else []
        parts = f"; removed what it was writing: {', '.join(map(str, removed))}" if removed else ""
        self.notices.append(f"took over {self.path} of a run that was killed ({owner}){parts}")

    def _age(self, fd: int) -> float:
        """Return the seconds since the lock was renewed, by the clock of the file system that holds it."""
        # The clock of a file server may differ from this host's: a file made now shows its time.
        now = time.time()
        probe = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        with suppress(OSError):
            other = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            now = os.fstat(other).st_mtime
            os.close(other)
            probe.unlink()
        return now - os.fstat(fd).st_mtime

    def _busy(self, owner: Owner | None, remedy: str) -> BusyError:
        who = str(owner) if owner is not None else "it has just begun"
        return BusyError(
            f"another run is writing the files of {self._stem} ({who})",
            who,
            hint=f"wait for it, or choose another output with -o FILE{remedy}",
        )

    def _foreign(self) -> FileError:
        return FileError(
            f"{self.path} is not a lock of qsim, which needs this name",
            hint="move it away, or choose another output with -o FILE",
        )

    def _renew(self) -> None:
        while not self._released.wait(RENEWAL):
            with suppress(OSError, TypeError):  # TypeError: just given back
                os.utime(self._fd)  # type: ignore[arg-type]


def _flock(fd: int) -> bool | None:
    """Lock an open file; False if another process has it, None if the file system cannot lock, or the system."""
    try:
        import fcntl
    except ImportError:
        return None
    try:
        # Not to wait: another run may take days.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES) else None
    return True


def _is_at(fd: int, path: Path) -> bool:
    """Return True if an open file still has its name."""
    try:
        there = os.lstat(path)
    except OSError:
        return False
    # Device and number of the file, not its name: another run may have made a new one of this name.
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

"""Faults injected for real into short runs, each drawn at random from its kind.

``python tests/faults/inject.py --method qoc --count 20 --seed 1`` tries every kind 20 times on the deck ``decks/qoc.yaml`` and
prints the table of docs/reference/promises.md; without a method, all have their turn.  The test suite tries every kind a few
times with a fixed seed on the method `counter`, whose runs take a quarter of a second.

What a run promises, whatever happens (`verdict`): it ends by itself with a documented exit code and without a traceback;
results that exist are complete and equal, bit for bit, to those of an undisturbed run; nothing temporary is left; what
existed before is unchanged unless it was to be replaced.
"""

import argparse
import functools
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tests/methods/run_counter.py"
PATIENCE = 120
DECKS = ROOT / "tests/faults/decks"
KNOWN = {0, 3, 4, 6, 75, 130}
STOPS = ("SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP", "SIGXCPU")


@dataclass
class Ended:
    """A run that has ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Subject:
    """A deck that runs for a second or two and saves on the way; `decks` holds one for each method.

    Parameters
    ----------
    method
        Name of the method and of its deck.
    figure
        A figure that it can draw.
    shorter
        Keys that make another, shorter run of it.
    beside
        A key that makes it write another file, and that file; None if the method has none.
    """

    method: str
    figure: str
    shorter: tuple[str, ...]
    beside: tuple[str, str] | None = None

    def changes(self) -> list[str]:
        """Return the arguments of the shorter run."""
        return [word for key in self.shorter for word in ("--set", key)]


SUBJECTS = {
    one.method: one
    for one in (
        Subject(
            "counter", "value", ("count.steps=20", "count.pause=0"), ("count.beside=true", "s001.extra.dat")
        ),
        Subject("qoc", "overview", ("optimizer.max_sweeps=2",)),
        Subject("trotter", "overview", ("evolve.t_final=2",)),
        Subject("tridiag", "overview", ("time.t_final=20",)),
        Subject("sturmian", "overview", ("scan={N: [8, 12]}",)),
        Subject(
            "qmc",
            "overview",
            ("series=[{vmc: {walkers: 64, blocks: 10, steps: 10}}]",),
            ("output.scalar_dat=true", "s001.scalar.dat"),
        ),
    )
}


class Case:
    """One folder with a deck, and runs in it."""

    def __init__(
        self, folder: Path, rng: np.random.Generator, subject: Subject = SUBJECTS["counter"]
    ) -> None:
        self.folder, self.rng, self.subject = folder, rng, subject
        shutil.copy(DECKS / f"{subject.method}.yaml", folder / "deck.yaml")

    def arguments(self, *more: str) -> list[str]:
        return [sys.executable, str(RUNNER), self.subject.method, "deck.yaml", "--no-figures", *more]

    def begin(self, *more: str, env: dict[str, str] | None = None, **settings: object) -> subprocess.Popen:
        """Start a run; its output is caught unless `settings` say otherwise."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("QSIM_", "COV_"))}
        environment |= {"QSIM_TUNE": "off", **(env or {})}
        settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder, **settings}
        return subprocess.Popen(
            self.arguments(*more), env=environment, encoding="utf-8", errors="replace", **settings
        )

    def run(self, *more: str, env: dict[str, str] | None = None, **settings: object) -> Ended:
        """Run to the end."""
        return finish(self.begin(*more, env=env, **settings))

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name != "deck.yaml")


def finish(process: subprocess.Popen) -> Ended:
    out, err = process.communicate(timeout=PATIENCE)
    return Ended(process.returncode, out or "", err or "")


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that another process does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the run did not get there")
        time.sleep(0.005)


def catches(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def maps(pid: int) -> str:
    """Return what files a process has mapped into its memory."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    return ""


@dataclass(frozen=True)
class Undisturbed:
    """What a run leaves that nothing disturbs: its numbers but for times and speeds, and the bytes of its largest files."""

    numbers: Mapping[str, object]
    results: int
    files: int


@functools.cache
def undisturbed(subject: Subject, *, shorter: bool = False) -> Undisturbed:
    """Run a subject once without any fault.

    Raises
    ------
    RuntimeError
        If that fails.
    """
    with tempfile.TemporaryDirectory(prefix="qsim-fault-") as folder:
        case = Case(Path(folder), np.random.default_rng(), subject)
        process = case.begin(*(subject.changes() if shorter else ()))
        largest = 0
        while process.poll() is None:  # a checkpoint that goes at the end may be the largest file
            with suppress(OSError):
                largest = max(largest, (case.folder / "deck.ckpt.h5").stat().st_size)
            time.sleep(0.01)
        ended, results = finish(process), case.folder / "deck.h5"
        if ended.code:
            raise RuntimeError(f"without any fault: exit code {ended.code}: {ended.err}")
        return Undisturbed(numbers(results), results.stat().st_size, results.stat().st_size + largest)


def numbers(path: Path) -> dict[str, object]:
    """Return all arrays and scalars of a results file, with errors, but for those that measure the machine."""
    from qsim.core.results.results import open_results
    from qsim.core.results.tables import SPEED_UNITS

    with open_results(path) as results:
        found = {
            name: np.asarray(results[name]) for name in results.names if results.unit(name) not in SPEED_UNITS
        }
        for name, scalar in results.scalars.items():
            if scalar.unit not in SPEED_UNITS:
                found[f"scalar {name}"] = (scalar.value, scalar.error)
    return found


def other_numbers(found: Mapping[str, object], true: Mapping[str, object]) -> list[str]:
    """Return the names of numbers that are not equal to the bit, or that one of the two lacks."""
    return [
        name
        for name in {**true, **found}
        if name not in found or name not in true or not same_bits(found[name], true[name])
    ]


def same_bits(a: object, b: object) -> bool:
    """Compare arrays, or pairs of value and error; what is not a number equals itself."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content of a file with one bit flipped."""
    at = int(rng.integers(len(content)))
    return content[:at] + bytes([content[at] ^ 1 << int(rng.integers(8))]) + content[at + 1 :]


def damaged(content: bytes, kind: str, rng: np.random.Generator) -> bytes:
    """Return the content of a file after a crash of a node, or a fault of a disk."""
    if kind == "empty":
        return b""
    if kind == "half":
        return content[: len(content) // 2]
    if kind == "zeros":
        return bytes(len(content))
    return rng.bytes(len(content)) if kind == "random" else flipped(content, rng)


DAMAGES = ("empty", "half", "zeros", "random", "one bit")


def verdict(case: Case, ended: Ended, codes: set[int] = KNOWN, *, shorter: bool = False) -> str:
    """Return what is wrong after a run, ``""`` if nothing is."""
    said = ended.out + ended.err
    if ended.code not in codes:
        return f"exit code {ended.code}: {said[-300:]}"
    if "Traceback" in said or "internal error" in said or "Exception ignored" in said:
        return f"traceback: {said[-300:]}"
    if left := [name for name in case.files() if name.endswith((".part", ".lock"))]:
        return f"left over: {left}"
    results = case.folder / "deck.h5"
    if ended.code == 0 and not results.exists():
        return "exit code 0 without results"
    if results.exists():
        true = undisturbed(case.subject, shorter=shorter).numbers
        if other := other_numbers(numbers(results), true):
            return f"other numbers: {', '.join(other[:5])}"
    return ""


def resumed(case: Case) -> str:
    """Continue with --resume and return what is wrong then."""
    return verdict(case, case.run("--resume"), {0})


# ----------------------------------------------------------------------------------------------- kinds


def stop_early(case: Case) -> str:
    """Stop signals between the start of the program and its first steps."""
    name = str(case.rng.choice(STOPS))
    process = case.begin()
    deaf = []

    def listens() -> bool:
        heavy = "numpy" in maps(process.pid)  # looked at first, so that the run cannot overtake this
        if catches(process.pid, signal.SIGTERM) or process.poll() is not None:
            return True
        deaf.append(heavy)
        return False

    wait_until(listens)
    if any(deaf):
        finish(process)
        return "libraries are loaded before signals are heard"
    time.sleep(float(case.rng.uniform(0, 0.7)))
    process.send_signal(getattr(signal, name))
    ended = finish(process)
    wrong = verdict(case, ended, {0, 75, 130} if name == "SIGINT" else {0, 75})
    if not wrong and ended.code and "nothing was written" not in ended.err and "checkpoint" not in ended.err:
        return f"no word of what was written: {ended.err[-200:]}"
    if not wrong and "nothing was written" in ended.err and case.files():
        return f"something was written: {case.files()}"
    return wrong or resumed(case)


def stop_running(case: Case) -> str:
    """Stop signals between the steps of a run, then --resume."""
    name = str(case.rng.choice(STOPS))
    process = case.begin()
    wait_until(lambda: (case.folder / "deck.ckpt.h5").exists() or process.poll() is not None)
    time.sleep(float(case.rng.uniform(0, 0.3)))
    process.send_signal(getattr(signal, name))
    return verdict(case, finish(process), {0, 75}) or resumed(case)


def kill(case: Case) -> str:
    """SIGKILL at any time, then --resume."""
    process = case.begin()
    wait_until(lambda: (case.folder / "deck.lock").exists() or process.poll() is not None)
    time.sleep(float(case.rng.uniform(0, 0.6)))
    process.kill()
    finish(process)
    return resumed(case)


def lost_terminal(case: Case) -> str:
    """A terminal that goes away during the run."""
    import pty

    leader, follower = pty.openpty()
    process = case.begin(stdin=follower, stdout=follower, stderr=follower, start_new_session=True)
    os.close(follower)
    time.sleep(float(case.rng.uniform(0.1, 1.0)))
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGHUP)
    os.close(leader)
    # Python itself has no handlers for its first hundredth of a second
    return verdict(case, finish(process), {0, 75, -signal.SIGHUP}) or resumed(case)


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[bool]:
    """Mount a file system of this size at `folder`; False if that is not permitted."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], capture_output=True
    )
    try:
        yield done.returncode == 0
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", str(folder)], check=True)


def full_disk(case: Case) -> str:
    """A file system that is full: from the start, for a checkpoint, or for the results."""
    disk = case.folder / "disk"
    disk.mkdir()
    needed = undisturbed(case.subject).files // 1024 + 1
    with small_disk(disk, 4 * needed + 48) as mounted:
        if not mounted:
            return file_limit(case)
        inner = Case(disk, case.rng, case.subject)
        free = int(case.rng.integers(0, 2 * needed))
        (disk / "fill").write_bytes(bytes(1024 * max(0, 4 * needed + 40 - free)))
        wrong = verdict(inner, inner.run(env={"TMPDIR": "/dev"}), {0, 6})
        if wrong:
            return wrong
        (disk / "fill").unlink()
        return resumed(inner)


def file_limit(case: Case) -> str:
    """A limit of the size of files (RLIMIT_FSIZE), over results that --force would replace."""
    first = case.run(*case.subject.changes())
    wrong = verdict(case, first, {0}, shorter=True)
    before = (case.folder / "deck.h5").read_bytes()
    limit = int(case.rng.integers(0, 2 * undisturbed(case.subject).results))
    ended = case.run(
        "--force",
        env={"TMPDIR": "/dev"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    if ended.code == 6 and (case.folder / "deck.h5").read_bytes() != before:
        return "the old results are damaged"
    return wrong or verdict(case, ended, {0, 6}, shorter=ended.code == 6)


def failing_call(case: Case) -> str:
    """An error of one system call of the writing, injected by strace."""
    if shutil.which("strace") is None:
        return file_limit(case)
    call = str(case.rng.choice(["pwrite64", "fsync", "rename", "link", "ftruncate", "flock"]))
    error, when = str(case.rng.choice(["EIO", "ENOSPC", "EDQUOT"])), int(case.rng.integers(1, 12))
    inject = f"inject={call}:error={error}:when={when}+"
    quiet = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
    process = subprocess.Popen(
        [*quiet, *case.arguments()],
        cwd=case.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": "/dev"},
        encoding="utf-8",
    )
    wrong = verdict(case, finish(process), {0, 6})
    return wrong or resumed(case)


def two_runs(case: Case) -> str:
    """Two runs with one output, some of them both with --resume."""
    more = ["--resume"] if case.rng.random() < 0.5 else []
    one = case.begin(*more)
    time.sleep(float(case.rng.uniform(0, 0.4)))
    two = case.begin(*more)
    ended = [finish(one), finish(two)]
    codes = sorted(run.code for run in ended)
    if codes not in ([0, 6], [0, 0]) or (codes == [0, 0] and not more):
        return f"exit codes {codes}: {ended[0].err[-200:]} {ended[1].err[-200:]}"
    refused = [run.err for run in ended if run.code == 6]
    if refused and "another run is writing" not in refused[0] and "exist" not in refused[0]:
        return f"unclear: {refused[0]}"
    return next((wrong for run in ended if (wrong := verdict(case, run, {0, 6}))), "")


def deaf_stderr(case: Case) -> str:
    """Standard error closed, full, or without a reader after some lines; also all streams closed."""
    how = str(case.rng.choice(["2>&-", "2>/dev/full", "2> >(head -$n >/dev/null)", ">&- 2>&- <&-"]))
    script = f'n={int(case.rng.integers(1, 5))}; exec "$@" {how}'
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *case.arguments()], cwd=case.folder, stdin=subprocess.DEVNULL
    )
    return verdict(case, finish(process), {0})


def full_stdout(case: Case) -> str:
    """Standard output full or without a reader, with --json and with --dry-run."""
    how = str(case.rng.choice([">/dev/full", "| head -1"]))
    what = str(case.rng.choice(["--json", "--dry-run"]))
    script = f'set -o pipefail; "$@" {what} {how}'
    ended = finish(
        subprocess.Popen(
            ["bash", "-c", script, "bash", *case.arguments()],
            cwd=case.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    )
    if what == "--json" and not (case.folder / "deck.h5").exists():
        return "no results"
    if what == "--dry-run":
        case.run()  # for the verdict
    return verdict(case, ended, {6} if "full" in how else {0})


def existing_file(case: Case) -> str:
    """A file, folder or link in the place of something that the run writes."""
    subject = case.subject
    ends = ["h5", "summary.json", "ckpt.h5", "lock", f"{subject.figure}.png", f"{subject.figure}.pdf"]
    key, extra = subject.beside or ("title=nothing beside", ends[0])
    path = case.folder / f"deck.{case.rng.choice([*ends, extra])}"
    kind = str(case.rng.choice(["text", "link", "dangling", "folder", "pipe"]))
    if kind == "text":
        path.write_text("precious")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        target = case.folder / "elsewhere"
        if kind == "link":
            target.write_text("precious")
        path.symlink_to(target)
    before = path.lstat()
    command = case.arguments()
    command.remove("--no-figures")
    ended = finish(
        subprocess.Popen(
            [*command, "--set", key],
            cwd=case.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    )
    after = path.lstat()
    if (before.st_ino, before.st_mtime_ns) != (after.st_ino, after.st_mtime_ns):
        return f"{path.name} ({kind}) was changed"
    if kind == "dangling" and (case.folder / "elsewhere").exists():
        return "a file was made where a link leads"
    if ended.code == 0 and kind == "folder" and path.name == "deck.h5":
        return ""  # an existing folder is filled
    if ended.code != 6 or "deck" not in ended.err:
        return f"{path.name} ({kind}): exit code {ended.code}: {ended.err[-200:]}"
    return ""


def strangers_parts(case: Case) -> str:
    """Temporary files of others beside the results."""
    names = ["deck.h5.part", "deck.summary.json.part", f"deck.h5.{os.uname().nodename}-1.part", "x.h5.part"]
    for name in names:
        (case.folder / name).write_text("precious")
    ended = case.run()
    if ended.code or any((case.folder / name).read_text() != "precious" for name in names):
        return f"exit code {ended.code}, {case.files()}"
    for name in names:
        (case.folder / name).unlink()
    return verdict(case, ended, {0})


def environment(case: Case) -> str:
    """Environments in which something would fail after the work, or before it for no reason."""
    number = int(case.rng.integers(0, 9))
    if number == 0:
        command = case.arguments()
        command.remove("--no-figures")
        process = subprocess.Popen(
            command,
            cwd=case.folder,
            env={
                **os.environ,
                "MPLBACKEND": str(case.rng.choice(["nonsense", "QtAgg", "module://no.where"])),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        return verdict(case, finish(process), {0}) or (
            "" if any(name.endswith(".png") for name in case.files()) else "no figure"
        )
    if number == 1:
        value = str(case.rng.choice(["0", "-1", "many", "1.5"]))
        return verdict(case, case.run(env={"NUMBA_NUM_THREADS": value}), {4})
    if number == 2:
        return verdict(case, case.run(preexec_fn=lambda: os.umask(0o777)), {0})
    if number == 3:
        name = "n" * int(case.rng.integers(226, 400))
        return verdict(case, case.run("-o", name), {6}) or ("" if not case.files() else f"{case.files()}")
    if number == 4:
        title = str(case.rng.choice(['"a\\0b"', '"\\0"']))
        return verdict(case, case.run("--set", f"title={title}"), {3})
    if number == 5:
        return verdict(case, case.run(env={"QSIM_LOG": "/dev/full"}), {0})
    if number == 6:
        encoding = str(case.rng.choice(["latin-1", "ascii", "cp1252"]))
        ended = case.run("--set", "title=αβγ ü", "--json", env={"PYTHONIOENCODING": encoding})
        wrong = verdict(case, ended, {0})
        return wrong or ("" if json.loads(ended.out)["title"] == "αβγ ü" else ended.out[:100])
    if number == 7:
        return verdict(
            case, case.run("-o", str(case.rng.choice(["/dev", "/proc", "deck.yaml/x", ".."]))), {0, 6}
        )
    gone = case.folder / "gone"
    gone.mkdir()
    script = 'rmdir ../gone; exec "$@"'
    command = [word.replace("deck.yaml", str(case.folder / "deck.yaml")) for word in case.arguments()]
    process = subprocess.Popen(
        ["bash", "-c", script, "bash", *command],
        cwd=gone,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    ended = finish(process)
    begun = f"{case.subject.method} deck" in ended.err
    return verdict(case, ended, {6}) or ("found only after the work" if begun else "")


def flipped_bit(case: Case) -> str:
    """A bit of complete results that a disk or a copy has flipped."""
    from qsim.core.errors import FileError

    ended = case.run()
    if wrong := verdict(case, ended, {0}):
        return wrong
    results = case.folder / "deck.h5"
    content = results.read_bytes()
    for _ in range(20):
        results.write_bytes(flipped(content, case.rng))
        try:
            wrong = verdict(case, ended, {0})
        except FileError as error:
            wrong = "" if "is damaged" in str(error) else f"another message: {error}"
        if wrong:
            return wrong
    return ""


def damaged_cache(case: Case) -> str:
    """Files of the cache of compiled kernels that a crash of a node has left."""
    cache = case.folder / "cache"
    environment = {"NUMBA_CACHE_DIR": str(cache)}
    if wrong := verdict(case, case.run(env=environment), {0}):
        return wrong
    kept = sorted(cache.rglob("*.nb[ic]"))
    for path in case.rng.choice(np.array(kept), min(3, len(kept)), replace=False) if kept else ():
        path.write_bytes(damaged(path.read_bytes(), str(case.rng.choice(DAMAGES)), case.rng))
    ended = case.run("--force", env=environment)
    told = "damaged" in ended.err or not kept
    return verdict(case, ended, {0}) or ("" if told else f"the damage is not told: {ended.err[-200:]}")


def swept_together(case: Case) -> str:
    """Several processes that sweep one folder, killed, while files change; the map of the counter alone tells what is right."""
    game = [sys.executable, str(Path(__file__).with_name("stress.py")), "--count", "1"]
    game += ["--seed", str(10_000 + int(case.rng.integers(10**6)))]
    found = subprocess.run(game, capture_output=True, text=True, timeout=900, check=False)
    return "" if found.returncode == 0 else (found.stdout + found.stderr)[-2000:]


def hostile_file(case: Case) -> str:
    """HDF5 files of others, whose datasets are virtual, elsewhere, or need a filter that is missing: their readers say so."""
    from tests.faults.test_hostile_files import HDF5, HOSTILE

    name = str(case.rng.choice(HDF5))
    command = [sys.executable, "-c", HOSTILE, str(ROOT), name, "13"]
    found = subprocess.run(command, cwd=case.folder, capture_output=True, text=True, timeout=900, check=False)
    codes = json.loads(found.stdout.splitlines()[-1]) if found.returncode == 0 else found.stderr[-2000:]
    right = found.returncode == 0 and {code for _, code in codes} <= {0, 6}
    return "" if right else f"reader '{name}': {codes}"


KINDS: dict[str, Callable[[Case], str]] = {
    "stop signals before the work": stop_early,
    "stop signals during the work, then `--resume`": stop_running,
    "SIGKILL, then `--resume`": kill,
    "lost terminal (SIGHUP, I/O errors)": lost_terminal,
    "full disk": full_disk,
    "limited file size": file_limit,
    "failing `pwrite`, `fsync`, `rename`, `link`, `ftruncate`, `flock`": failing_call,
    "two runs with one output": two_runs,
    "stderr closed, full or unread": deaf_stderr,
    "stdout full or unread": full_stdout,
    "files, folders, links, pipes in the way": existing_file,
    "temporary files of others": strangers_parts,
    "hostile environments": environment,
    "one flipped bit in the results": flipped_bit,
    "damaged cache of compiled kernels": damaged_cache,
    "processes that sweep one folder": swept_together,
    "hostile HDF5 files": hostile_file,
}


def inject(kind: str, number: int, seed: int, method: str = "counter") -> str:
    """Inject one fault into one run of a method; return what is wrong then, ``""`` if nothing is."""
    rng = np.random.default_rng([seed, number, list(KINDS).index(kind)])
    with tempfile.TemporaryDirectory(prefix="qsim-fault-") as folder:
        case = Case(Path(folder), rng, SUBJECTS[method])
        try:
            return KINDS[kind](case)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            return f"hangs: {error}"
        except OSError as error:
            return str(error)


def main() -> int:
    """Print the table; return 1 if something did not survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10, help="faults of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", help="only kinds whose name holds this text")
    parser.add_argument("--method", choices=SUBJECTS, action="append", help="methods; all by default")
    asked = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    methods = asked.method or list(SUBJECTS)
    rows, failed = [], 0
    for kind in KINDS:
        if asked.kind and asked.kind not in kind:
            continue
        survived = []
        for method in methods:
            wrong = [found for k in range(asked.count) if (found := inject(kind, k, asked.seed, method))]
            for text in wrong:
                print(f"{kind}, {method}: {text}", file=sys.stderr)
            failed += len(wrong)
            survived.append(f"{asked.count - len(wrong)} of {asked.count}")
        rows.append(f"| {kind} | {' | '.join(survived)} |")
        print(rows[-1], file=sys.stderr, flush=True)
    head = [
        f"| fault | {' | '.join(f'`{method}`' for method in methods)} |",
        "|---" * (len(methods) + 1) + "|",
    ]
    print("\n".join([*head, *rows]))
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

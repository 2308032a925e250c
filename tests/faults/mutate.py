"""Real runs of decks and data files in which something was changed at random.

``python tests/faults/mutate.py --count 1000 --seed 1 --jobs 2`` draws decks as ``qsim check --coverage`` does, changes up to
three of their keys and a data file, runs them as the command line does, and checks how each ends (`verdict`): with a documented
exit code, without a traceback, in time; with complete results if the code is 0, and with nothing temporary left in any case.
"""

import argparse
import contextlib
import copy
import functools
import io
import json
import math
import multiprocessing
import operator
import os
import resource
import shutil
import sys
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("qoc", "trotter", "tridiag", "sturmian", "qmc")
DOCUMENTED = {0, 2, 3, 4, 5, 6, 75, 130}
WALLTIME = 20
PATIENCE = 6 * WALLTIME
ADDRESS_SPACE = 8 << 30
"""Bytes that one run may use: a deck that was made large ends here as on a small machine."""
IMPORTED = ("h2o_ccecp", "ne_atom", "oh_radical", "hydrogen_bcc")
"""Decks of qmc with orbitals of other programs, which the coverage tests do not draw."""
SHORT = [
    {"vmc": {"walkers": 16, "blocks": 6, "steps": 2, "warmup": 2}},
    {"dmc": {"walkers": 16, "blocks": 6, "steps": 4, "timesteps": [0.02, 0.01], "warmup": 0.2}},
]


# ---------------------------------------------------------------------------------------------- changes


def leaves(block: object, path: tuple[object, ...] = ()) -> Iterator[tuple[object, ...]]:
    """Yield the paths of all values of a deck, blocks and lists among them."""
    items = block.items() if isinstance(block, dict) else enumerate(block) if isinstance(block, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from leaves(value, (*path, key))


def changed_number(value: float, rng: np.random.Generator) -> object:
    """Return another number in the place of one: mostly of the same size, so that many decks still run."""
    if rng.random() < 0.85:
        factor = rng.choice([0.5, 0.9, 1.0 + 1e-9, 1.1, 2.0, 3.0])
        return int(value * factor) if isinstance(value, int) else float(value * factor)
    odd = [
        0,
        1,
        -value,
        value * 10,
        value * 1e-3,
        value * 1e4,
        1e300,
        1e-300,
        math.nan,
        math.inf,
        0.5,
        -1,
        10**12,
        2**63,
    ]
    return odd[int(rng.integers(len(odd)))]


def changed(value: object, rng: np.random.Generator) -> object:
    """Return something else in the place of a value of a deck."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return changed_number(value, rng)
    if isinstance(value, list) and value and rng.random() < 0.7:
        k = int(rng.integers(len(value)))
        choices = [value[:k], value[k:], value[::-1], [*value, value[k]], [value], value[:k] + value[k + 1 :]]
        return copy.deepcopy(choices[int(rng.integers(len(choices)))])
    if isinstance(value, str) and value.endswith(
        (".csv", ".txt", ".npz", ".h5", ".npy", ".mtx", ".dat", ".chk")
    ):
        return str(rng.choice([value, value + ".gz", "nowhere/" + value, ".", "/dev/null", ""]))
    others = [
        None,
        "",
        "nonsense",
        "all",
        "auto",
        "3 fs",
        "1e14 W/cm2",
        [],
        {},
        [1, 2],
        {"type": "zero"},
        0,
        1.5,
        True,
        "a\nb",
    ]
    return copy.deepcopy(others[int(rng.integers(len(others)))])


def mutate(deck: dict, rng: np.random.Generator) -> None:
    """Change up to three values of a deck: replace, remove, add, or copy one from elsewhere."""
    for _ in range(int(rng.choice(4, p=[0.25, 0.5, 0.15, 0.1]))):
        paths = [path for path in leaves(deck) if path[0] not in ("method", "run")]
        numbers = [
            path for path in paths if isinstance(functools.reduce(operator.getitem, path, deck), int | float)
        ]
        among = numbers if numbers and rng.random() < 0.7 else paths
        *path, last = among[int(rng.integers(len(among)))]
        block = functools.reduce(operator.getitem, path, deck)
        kind = rng.random()
        if kind < 0.85:
            block[last] = changed(block[last], rng)
        elif kind < 0.9:
            del block[last]
        elif kind < 0.96:
            source = paths[int(rng.integers(len(paths)))]
            block[last] = copy.deepcopy(functools.reduce(operator.getitem, source, deck))
        elif isinstance(block, dict):
            block[str(rng.choice(["colour", "x0", "type", "levels", "file"]))] = 1


def spoil(path: Path, rng: np.random.Generator, box: tuple[float, float] | None) -> None:
    """Change a data file: cut it to the box of the deck, exchange or drop rows and numbers, cut or flip bytes."""
    data = path.read_bytes()
    kind = int(rng.integers(6))
    if kind < 4 and path.suffix in (".csv", ".txt", ".dat", ".mtx"):
        rows = data.decode("utf-8", errors="replace").splitlines()
        k = int(rng.integers(len(rows))) if rows else 0
        if kind == 0 and box is not None:
            rows = on_the_box(rows, box)
        elif kind == 1:
            rows = rows[:k]
        elif kind == 2 and rows:
            rows[k] = str(
                rng.choice(["", "x y z", "nan nan", "1e400 0", "# a comment", rows[0], rows[k] + " 7"])
            )
        else:
            rows = rows[::-1]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    elif data and kind % 2:
        path.write_bytes(data[: int(rng.integers(len(data)))])
    elif data:
        k = int(rng.integers(len(data)))
        path.write_bytes(data[:k] + bytes([data[k] ^ 1 << int(rng.integers(8))]) + data[k + 1 :])


def on_the_box(rows: list[str], box: tuple[float, float]) -> list[str]:
    """Return a table of two columns whose first covers the box of the deck and nothing else."""
    numbers = []
    for row in rows:
        with contextlib.suppress(ValueError):
            numbers.append([float(word) for word in row.replace(",", " ").split()][:2])
    if len(numbers) < 4 or any(len(pair) != 2 for pair in numbers):
        return rows
    x, y = np.array(sorted(numbers)).T
    new = np.linspace(*box, len(x))
    return [f"{a!r},{b!r}" for a, b in zip(new.tolist(), np.interp(new, x, y).tolist(), strict=True)]


def base(method: str, rng: np.random.Generator, seed: int, index: int, folder: Path) -> dict:
    """Return a deck that runs for a second or so; its data files are in `folder`."""
    from qsim_checks.coverage import draw

    if method == "qmc" and rng.random() < 0.3:
        deck = yaml.safe_load((ROOT / f"inputs/qmc/{rng.choice(IMPORTED)}.yaml").read_text(encoding="utf-8"))
        for path in leaves(deck):
            value = functools.reduce(operator.getitem, path, deck)
            if isinstance(value, str) and (ROOT / "inputs/qmc" / value).is_file():
                shutil.copy(ROOT / "inputs/qmc" / value, folder)
        return {**deck, "series": copy.deepcopy(SHORT)}
    # the deck goes through YAML as a user's does, without arrays that two of its keys share
    return json.loads(json.dumps({"method": method, **draw(method, seed, index, folder).deck}, default=str))


# ------------------------------------------------------------------------------------------------- runs


@dataclass
class Ended:
    """A run that has ended."""

    code: int
    said: str


def run(arguments: list[str], folder: str) -> Ended:
    """Run the command line in this process, in a folder."""
    from qsim.cli import main

    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(folder)
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # what no command line may let through
        return Ended(1, f"{type(error).__name__} was raised: {error}")
    finally:
        os.chdir(before)
    return Ended(code, err.getvalue() + out.getvalue())


def work(pipe: Connection) -> None:
    """Run what comes through the pipe, one after another."""
    import qsim.cli

    assert qsim.cli
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(run(*pipe.recv()))


class Worker:
    """A process that runs decks; one that crashes or hangs is replaced."""

    def __init__(self) -> None:
        self.process: multiprocessing.Process | None = None

    def run(self, arguments: list[str], folder: Path) -> Ended:
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        self.pipe.send((arguments, str(folder)))
        try:
            if self.pipe.poll(PATIENCE):
                return self.pipe.recv()
            self.process.kill()
            return Ended(-1, f"hangs for {PATIENCE} s")
        except EOFError:
            self.process.join(5)
            return Ended(self.process.exitcode or -2, "the process has crashed")
        finally:
            if not self.process.is_alive():
                self.process = None


def verdict(ended: Ended, folder: Path) -> str:
    """Return what is wrong after a run, ``""`` if nothing is."""
    from qsim.core.results.results import open_results

    results = folder / "deck.h5"
    if ended.code not in DOCUMENTED:
        return f"exit code {ended.code}: {ended.said[-400:]}"
    if any(word in ended.said for word in ("Traceback", "internal error", "Exception ignored")):
        return f"traceback: {ended.said[-400:]}"
    if left := [path.name for path in folder.iterdir() if path.name.endswith((".part", ".lock"))]:
        return f"left over: {left}"
    if ended.code == 75 and not (folder / "deck.ckpt.h5").exists():
        return f"stopped without a checkpoint: {ended.said[-400:]}"
    if ended.code in (3, 4, 5) and results.exists():
        return "refused, with results"
    if ended.code == 5 and "could not be found" in ended.said:
        return f"a judgement has ended a run: {ended.said[-400:]}"
    if ended.code == 0:
        if json.loads((folder / "deck.summary.json").read_text(encoding="utf-8"))["status"] != "complete":
            return "exit code 0 with an incomplete summary"
        with open_results(results) as found:
            if not found.scalars and not found.names:
                return "results without a number"
            for name in found.names:
                found[name]
    return ""


def case(worker: Worker, method: str, seed: int, index: int, keep: Path | None = None) -> tuple[int, str]:
    """Draw, change and run one deck; return the exit code and what is wrong."""
    rng = np.random.default_rng([seed, index, zlib.crc32(method.encode()), 1])
    with tempfile.TemporaryDirectory(prefix="qsim-mutant-") as name:
        folder = Path(name)
        deck = base(method, rng, seed, index, folder)
        box = (deck.get("system", {}) if method == "qoc" else deck).get("grid", {})
        ends = (
            (box["xmin"], box["xmax"]) if isinstance(box, dict) and "xmin" in box and "xmax" in box else None
        )
        mutate(deck, rng)
        for path in sorted(folder.iterdir()):
            if rng.random() < 0.3:
                spoil(path, rng, ends)
        (folder / "deck.yaml").write_text(yaml.safe_dump(deck, sort_keys=False), encoding="utf-8")
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for path in folder.iterdir():
                (keep / path.name).write_bytes(path.read_bytes())
        settings = [
            "--set",
            "run.device=cpu",
            "--set",
            "run.threads=1",
            "--set",
            f"run.walltime={WALLTIME} s",
        ]
        figures = [] if index % 10 == 0 else ["--no-figures"]
        ended = worker.run([method, "deck.yaml", *settings, *figures], folder)
        return ended.code, verdict(ended, folder)


def main() -> int:
    """Print how many runs ended with which exit code; return 1 if one did not end as promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100, help="cases of all methods together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--method", choices=METHODS, action="append", help="methods; all by default")
    parser.add_argument("--case", type=int, help="this case alone; its files are kept in ./mutant")
    asked = parser.parse_args()
    methods = asked.method or list(METHODS)
    local, codes, wrong = threading.local(), Counter(), []

    def one(number: int) -> tuple[str, int, int, str]:
        if not hasattr(local, "worker"):
            local.worker = Worker()
        method, index = methods[number % len(methods)], number // len(methods)
        keep = Path("mutant") if asked.case is not None else None
        return method, index, *case(local.worker, method, asked.seed, index, keep)

    with ThreadPoolExecutor(asked.jobs) as pool:
        for method, index, code, text in pool.map(
            one, range(asked.count) if asked.case is None else [asked.case]
        ):
            codes[code] += 1
            if text:
                number = index * len(methods) + methods.index(method)
                wrong.append(text)
                print(f"case {number} ({method} {index}): {text}", file=sys.stderr, flush=True)
    print("| exit code | runs |\n|---|---|")
    print("\n".join(f"| {code} | {count} |" for code, count in sorted(codes.items())))
    print(f"{len(wrong)} of {sum(codes.values())} did not end as promised")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    raise SystemExit(main())

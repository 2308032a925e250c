"""Sweeps of one folder by several processes at the same time, killed, while files change, are cut and replaced.

``python tests/faults/stress.py --count 200 --seed 0`` plays that many games and prints what was wrong in each; nothing is
right.  In a game two or three processes sweep one folder, some of them over other values or another deck; some are killed,
and results, summaries, decks, index and the data file change meanwhile.  Afterwards every number that a process has told, and
every row of every table, is computed anew from the deck that it belongs to, by the map itself; results that were finished and
that nobody damaged or replaced by force must be there, byte for byte.  A game that takes longer than `LONGEST` is wrong, and
says where its processes were.
"""

import argparse
import csv
import faulthandler
import functools
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "methods"))
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    import run_counter  # noqa: F401 - adds the method

from qsim.core.deck.load import load_deck
from qsim.core.device.rng import key_from_seed, uniform
from qsim.core.errors import QsimError
from qsim.core.results.results import open_results
from qsim.core.run.signals import Signals
from qsim.core.run.stages import Method
from qsim.core.sweeps.folder import prepare
from qsim.core.sweeps.gather import collect
from qsim.core.sweeps.runs import find_runs
from qsim.core.sweeps.sweep import run_here
from qsim.core.sweeps.values import Axis

SEED, STEPS = 5, 12
VALUES = tuple(f"0.{n}" for n in range(11, 21))
GROWTHS = {"a": 3.7, "b": 3.3}
CONTENTS = (0.0, 0.01, 0.02)
ROUNDS = 3
# Seconds that a game may take: about 5 on an idle machine, fifty on a busy one.
LONGEST = 600


def model():
    """Return the model of the counter's decks."""
    return Method("counter").deck.DECK


@functools.cache
def last(start, growth=3.9, steps=20, seed=SEED):
    """Return the last value of the map, step by step."""
    value, key = start, key_from_seed(seed)
    for step in range(steps):
        value = growth * value * (1.0 - value) * (1.0 - 1e-3 * float(uniform(key, 0, step, 1)[0]))
    return value


def write_deck(folder, growth, pause):
    """Write a base deck that reads the data file of the game."""
    folder.mkdir(exist_ok=True)
    (folder / "deck.yaml").write_text(
        f"method: counter\ncount:\n  steps: {STEPS}\n  growth: {growth}\n  pause: {pause} ms\n  file: ../data.txt\n"
        f"run: {{seed: {SEED}, checkpoint: 1 ms}}\n",
        encoding="utf-8",
    )


def act(place, name, values, force, report):
    """Sweep some values, as one process of several, and report what was told of each."""
    told = []
    try:
        axes = [Axis("count.start", tuple(values))]
        made = prepare("counter", place / name / "deck.yaml", axes, folder=place / "s", force=force)
        with Signals() as signals:
            for point, done in run_here(made, stop=lambda: signals.stop):
                if done.code == 75:
                    break
                if not done.busy:
                    final = done.summary["scalars"]["final"]["value"] if done.summary else done.message
                    told.append((point.values[0], done.code, final))
        ended = "done"
    except QsimError as error:
        ended = f"refused: {error}"
    report.write_text(json.dumps({"ended": ended, "told": told}), encoding="utf-8")


def start(work, *arguments):
    """Do some work in a process of its own; return its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ["QSIM_DEVICE"] = "cpu"
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work(*arguments)
        code = 0
    except BaseException as error:
        with suppress(OSError):
            Path(arguments[-1]).write_text(
                json.dumps({"ended": f"crash: {type(error).__name__}: {error}", "told": []})
            )
    finally:
        os._exit(code)


def true_of(path, content):
    """Return the last value of the deck beside results, as it is now; of a seed that the deck leaves open, the run's."""
    deck = load_deck(path.with_suffix(".yaml"), model()).deck
    count, seed = deck.count, deck.run.seed
    if seed is None:
        with open_results(path) as results:
            seed = results.provenance["seed"]
    return last(count.start + (content if count.file else 0.0), count.growth, count.steps, seed)


def right(path, content):
    """Return True if results are those of the deck beside them."""
    try:
        with open_results(path) as results:
            return results.scalars["final"].value == true_of(path, content)
    except QsimError:
        return False


def disturb(draw, place):
    """Damage, exchange or lose a file of the folder; return its name."""
    files = sorted(
        path for path in (place / "s").glob("*.*") if path.suffix != ".lock" and ".part" not in path.name
    )
    if not files:
        return ""
    path, other = draw.choice(files), draw.choice(files)
    kind = draw.choice(["cut", "empty", "lose", "exchange", "zeros"])
    # Files come and go meanwhile.
    with suppress(OSError):
        if kind == "lose":
            path.unlink()
        elif kind == "exchange":
            shutil.copy(other, path)
        else:
            data = path.read_bytes()
            path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "zeros": bytes(len(data))}[kind])
    return path.name


def table_of(place, content):
    """Return what is wrong in the table of a folder as it is now."""
    try:
        table = collect(find_runs([place / "s"]))
    except QsimError:
        return []
    finals = next(column for column in table.columns if column.name == "final").cells
    wrong = []
    for name, final in zip(table.runs, finals, strict=True):
        path = place / "s" / f"{name}.h5"
        if path.with_suffix(".yaml").exists() and final != true_of(path, content):
            wrong.append(f"the table has a number of another deck in {name}")
    return wrong


class Game:
    """One folder, with what is known of it."""

    def __init__(self, seed, place):
        self.draw, self.place = random.Random(seed), place
        self.contents = [self.draw.choice(CONTENTS)]
        self.wrong, self.alive = [], set()
        pause = self.draw.choice([0, 1, 4])
        for name, growth in GROWTHS.items():
            write_deck(place / name, growth, pause)
        self.write_data(self.contents[0])

    def write_data(self, content):
        temporary = self.place / "data.new"
        temporary.write_text(repr(content), encoding="utf-8")
        temporary.replace(self.place / "data.txt")

    def finished(self):
        files = (self.place / "s").glob("deck-*[0-9].h5")
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in files
            if right(path, self.contents[-1])
        }

    def start(self, name, values, force, report):
        pid = start(act, self.place, name, values, force, report)
        self.alive.add(pid)
        return pid

    def wait(self):
        while self.alive:
            # In any order: nobody asks for the exit code of one that was killed while another waits for it.
            pid = next(iter(self.alive))
            os.waitpid(pid, 0)
            self.alive.discard(pid)

    def round(self, number):
        draw, place = self.draw, self.place
        before = self.finished()
        self.contents = self.contents[-1:]
        actors = {}
        forced, touched = False, set()
        for one in range(draw.choice([2, 2, 3])):
            name = draw.choice(["a", "a", "a", "b"])
            force = draw.random() < 0.2
            forced |= force
            values = draw.sample(VALUES, draw.randint(2, 6))
            report = place / f"report-{number}-{one}.json"
            actors[self.start(name, values, force, report)] = (name, report)
            time.sleep(draw.choice([0.0, 0.0, 0.01, 0.05, 0.2]))
        for pid in actors:
            if draw.random() < 0.3:
                time.sleep(draw.random() * 0.3)
                with suppress(ProcessLookupError):
                    os.kill(pid, draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        for _ in range(draw.choice([0, 0, 1, 2])):
            time.sleep(draw.random() * 0.1)
            if draw.random() < 0.25:
                self.contents.append(draw.choice(CONTENTS))
                self.write_data(self.contents[-1])
            else:
                touched.add(disturb(draw, place).partition(".")[0])
        self.wait()
        for name, report in actors.values():
            if report.exists():
                self.judge(GROWTHS[name], json.loads(report.read_text(encoding="utf-8")))
        for name, digest in before.items():
            path = place / "s" / name
            spared = not forced and name.partition(".")[0] not in touched and not touched & {"index"}
            if spared and not (path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == digest):
                self.wrong.append(f"{name} was finished, and is gone or another")
        self.wrong += table_of(place, self.contents[-1])

    def judge(self, growth, found):
        if found["ended"].startswith("crash"):
            self.wrong.append(found["ended"])
        for value, code, final in found["told"]:
            true = {last(float(value) + content, growth, STEPS) for content in self.contents}
            if code == 0 and final not in true:
                self.wrong.append(f"count.start={value} was told as {final}")
            if code == 1:
                self.wrong.append(f"count.start={value} ended with code 1: {final}")

    def play(self):
        for number in range(ROUNDS):
            self.round(number)
        # An index that was damaged is refused, and a folder of another deck: then the folder starts anew.
        report = self.place / "end.json"
        for attempt in range(2):
            self.start("a", VALUES, True, report)
            self.wait()
            found = json.loads(report.read_text(encoding="utf-8"))
            if not found["ended"].startswith("refused") or attempt:
                break
            (self.place / "s" / "index.csv").unlink(missing_ok=True)
        self.contents = self.contents[-1:]
        self.judge(GROWTHS["a"], found)
        # All values are there in the end, and right.
        if found["ended"] != "done" or any(code for _, code, _ in found["told"]):
            self.wrong.append(f"the last sweep: {found}")
        with (self.place / "s" / "index.csv").open(newline="", encoding="utf-8") as file:
            numbers = {row["count.start"]: row["deck"] for row in csv.DictReader(file)}
        for value in VALUES:
            path = (self.place / "s" / numbers[value]).with_suffix(".h5")
            with open_results(path) as results:
                if results.scalars["final"].value != last(
                    float(value) + self.contents[-1], GROWTHS["a"], STEPS
                ):
                    self.wrong.append(f"count.start={value} is wrong in the end")
        self.wrong += table_of(self.place, self.contents[-1])
        if left := [path.name for path in (self.place / "s").iterdir() if path.suffix in (".lock", ".part")]:
            self.wrong.append(f"left behind: {', '.join(left)}")
        return "; ".join(self.wrong)


def play(seed, place):
    """Play one game in a folder; return what was wrong, nothing if all was right."""

    def late(number, frame):
        raise TimeoutError(f"not over after {LONGEST} s")

    game, before = Game(seed, Path(place)), signal.signal(signal.SIGALRM, late)
    with (game.place / "stacks.txt").open("w+", encoding="utf-8") as stacks:
        # The processes of the game inherit the handler and the file.
        faulthandler.register(signal.SIGUSR2, stacks, all_threads=True)
        signal.alarm(LONGEST)
        try:
            return game.play()
        except Exception as error:
            game.wrong.append(f"{type(error).__name__}: {error}")
            for pid in game.alive:
                # One after another, each with time to write where it is: a stack is many short writes.
                os.kill(pid, signal.SIGUSR2)
                time.sleep(0.5)
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            stacks.seek(0)
            return "; ".join([*game.wrong, stacks.read()])
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            faulthandler.unregister(signal.SIGUSR2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="qsim-stress-") as folder:
        # Here once, what each process would import and compile.
        write_deck(Path(folder, "a"), GROWTHS["a"], 0)
        Path(folder, "data.txt").write_text("0.0", encoding="utf-8")
        act(Path(folder), "a", VALUES[:1], False, Path(folder, "report.json"))
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        with tempfile.TemporaryDirectory(prefix="qsim-stress-") as folder:
            if wrong := play(seed, folder):
                bad += 1
                sys.stdout.write(f"{seed}: {wrong}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{chosen.count} games, {bad} wrong\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())

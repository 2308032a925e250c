"""Folders of sweeps in which something is not what it seems: no table and no line has a number of another deck.

Every number of a run is computed anew here from the deck that names it, so that results which belong elsewhere are seen.
"""

import csv
import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.errors import FileError, Stopped
from qsim.core.results.atomic import temporary_name
from qsim.core.results.results import open_results
from qsim.core.run.files import lock as lock_module
from qsim.core.run.files.lock import BusyError, OutputLock, Owner, held
from qsim.core.run.pipeline import Options, execute
from qsim.core.sweeps import sweep as sweep_module
from qsim.core.sweeps.array import write_array
from qsim.core.sweeps.folder import prepare
from qsim.core.sweeps.sweep import run_here
from qsim.core.sweeps.values import Axis
from tests.faults import stress

RUNNER = Path(__file__).resolve().parents[1] / "methods" / "run_counter.py"
STARTS = ("0.12", "0.23", "0.34")
SEED = f"run: {{seed: {stress.SEED}}}\n"


def swept(counter, *values, deck="deck", force=False, **count):
    """Sweep the first value of the counter, in this process; return the sweep and the codes of what was run."""
    axes = [Axis("count.start", values or STARTS)]
    made = prepare(
        "counter", counter.deck(deck, extra=SEED, **count), axes, folder=counter.folder / "s", force=force
    )
    return made, [done.code for _, done in run_here(made)]


def lines(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def right(folder, growth=3.9, steps=20):
    """Return how many results of a folder are not those of the deck beside them, by the map itself."""
    wrong = 0
    for path in folder.glob("*.h5"):
        with open_results(path) as results:
            start = load_deck(path.with_suffix(".yaml"), stress.model()).deck.count.start
            wrong += results.scalars["final"].value != stress.last(start, growth, steps)
    return wrong


# --- damaged and foreign results ------------------------------------------------------------------


def _empty(path):
    path.write_bytes(b"")


def _half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def _text(path):
    path.write_text("nothing")


def _other_format(path):
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = np.array([9, 0])


def _unfinished(path):
    with h5py.File(path, "r+") as file:
        file.attrs["status"] = "stopped"


DAMAGE = [_empty, _half, _zeros, _text, _other_format]


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_results_are_not_complete_and_run_again(counter, command, damage):
    made, _ = swept(counter)
    damage(made.points[1].results)
    reply = command("collect", made.folder, "-o", "t.csv", "--no-figures")
    assert reply.exit_code == 6
    assert "deck-0002: " in reply.stderr
    assert [row["run"] for row in lines(Path("t.csv"))] == ["deck-0001", "deck-0003"]
    again, codes = swept(counter)
    assert codes == [0]
    assert "deck-0002 runs again" in again.notices[0]
    assert right(made.folder) == 0
    assert (made.folder / "deck-0002.h5.damaged").exists()
    assert command("collect", made.folder, "-o", "t.csv", "--no-figures", "--force").exit_code == 0
    assert len(lines(Path("t.csv"))) == 3


def _from_other_deck(made):
    shutil.copy(made.points[2].results, made.points[0].results)


def _all_from_other_deck(made):
    for ending in (".h5", ".summary.json"):
        shutil.copy(made.points[2].deck.with_suffix(ending), made.points[0].deck.with_suffix(ending))


def _status(made):
    _unfinished(made.points[0].results)


@pytest.mark.parametrize("change", [_from_other_deck, _all_from_other_deck, _status])
def test_results_of_another_deck_are_refused_by_name_and_replaced_by_force(counter, command, change):
    made, _ = swept(counter)
    change(made)
    with pytest.raises(FileError, match=r"1 of 3 decks have results that are not theirs.*deck-0001"):
        swept(counter)
    reply = command("collect", made.folder, "-o", "t.csv", "--no-figures")
    assert (reply.exit_code, [row["run"] for row in lines(Path("t.csv"))]) == (6, ["deck-0002", "deck-0003"])
    assert swept(counter, force=True)[1] == [0]
    assert right(made.folder) == 0


@pytest.mark.parametrize("foreign", ["other deck", "empty", "other numbers"])
def test_a_summary_decides_nothing(counter, command, foreign):
    made, _ = swept(counter)
    path = made.points[0].summary
    if foreign == "other deck":
        shutil.copy(made.points[1].summary, path)
    elif foreign == "empty":
        _empty(path)
    else:
        content = json.loads(path.read_text())
        content["scalars"]["final"]["value"] = 0.125
        path.write_text(json.dumps(content))
    assert command("collect", made.folder, "-o", "t.csv", "--no-figures").exit_code == 0
    found = {row["run"]: float(row["final (au)"]) for row in lines(Path("t.csv"))}
    assert found["deck-0001"] == stress.last(0.12)
    told = {point.number: done.summary for point, done in run_here(made)}
    assert list(told) == [1]
    assert told[1]["scalars"]["final"]["value"] == stress.last(0.12)


def test_lost_results_run_again(counter):
    made, _ = swept(counter)
    made.points[1].results.unlink()
    assert swept(counter)[1] == [0]
    assert right(made.folder) == 0


# --- decks and index ------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", ["index.csv", "deck-*.yaml", "*.[yc][as][mv]*"])
def test_lost_decks_and_index_give_no_result_to_another_value(counter, command, lost):
    made, _ = swept(counter)
    for path in made.folder.glob(lost):
        path.unlink()
    again, codes = swept(counter, "0.45", "0.23", "0.56")
    # what was finished is found again by what it is of
    assert codes == [0, 0]
    numbers = {point.values[0]: point.number for point in again.points}
    assert numbers["0.23"] == 2
    assert set(numbers.values()) == {2, 4, 5}
    for point in again.points:
        with open_results(point.results) as results:
            assert results.scalars["final"].value == stress.last(float(point.values[0]))


def test_an_index_of_other_values_gives_no_result_away(counter):
    made, _ = swept(counter)
    text = (made.folder / "index.csv").read_text()
    (made.folder / "index.csv").write_text(text.replace("0.12", "0.45"))
    with pytest.raises(FileError, match=r"1 of 3 decks have results that are not theirs"):
        swept(counter, "0.45", "0.23", "0.34")
    assert right(made.folder) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number,deck,count.start\n1,deck-0001.yaml,0.12\n2,deck-0002.yaml,0.12\n", "twice"),
        ("number,deck,count.start\n1,deck-0001.yaml,0.12\n1,deck-0001.yaml,0.23\n", "twice"),
        ("number,deck,count.start\n1,deck-0002.yaml,0.12\n", "numbers are damaged"),
        ("number,deck,count.start\n-1,deck-0001.yaml,0.12\n", "numbers are damaged"),
        ("number,deck,count.start\n1,../deck.yaml,0.12\n", "numbers are damaged"),
        ("number,deck,count.start\n1,other-0001.yaml,0.12\n", r"holds a sweep of other\.yaml, not of deck"),
        ("", "is not the index"),
        ("\x89HDF\r\n\x1a\n\0\0number,deck\rcount", "is not the index"),
    ],
)
def test_damaged_and_foreign_indices_are_refused(counter, text, message):
    folder = counter.folder / "s"
    folder.mkdir()
    (folder / "index.csv").write_text(text)
    with pytest.raises(FileError, match=message):
        swept(counter)
    assert [path.name for path in folder.iterdir()] == ["index.csv"]


def test_another_base_deck_needs_a_folder_of_its_own(counter):
    made, _ = swept(counter)
    with pytest.raises(FileError, match=r"holds a sweep of deck\.yaml, not of other\.yaml"):
        swept(counter, deck="other")
    assert "deck-0001.yaml" in (made.folder / "index.csv").read_text()


@pytest.mark.parametrize("key", ["run.seed", "title", "run.precision"])
def test_what_is_no_physics_is_compared_where_it_is_swept(counter, key):
    values = {"run.seed": ("4", "5"), "title": ("one", "two"), "run.precision": ("double", "single")}[key]
    axes = [Axis(key, values)]
    made = prepare("counter", counter.deck(), axes, folder=counter.folder / "s")
    assert [done.code for _, done in run_here(made)] == [0, 0]
    shutil.copy(made.points[0].results, made.points[1].results)
    with pytest.raises(FileError, match=rf"deck-0002 \({key}\)"):
        prepare("counter", counter.deck(), axes, folder=counter.folder / "s")


def test_a_checkpoint_of_another_deck_is_refused(counter):
    made = prepare(
        "counter", counter.deck(extra=SEED), [Axis("count.start", STARTS)], folder=counter.folder / "s"
    )
    stopped = counter.deck("stopped", extra="run: {seed: 5, walltime: 1 ms}\n", pause="1 ms", start=0.23)
    with pytest.raises(Stopped):
        execute("counter", stopped, Options(output=counter.folder / "stopped.h5", verbosity=-1))
    shutil.copy("stopped.ckpt.h5", made.points[0].checkpoint)
    with pytest.raises(FileError, match=r"deck-0001 \(deck-0001\.ckpt\.h5\)"):
        swept(counter)
    assert swept(counter, force=True)[1] == [0, 0, 0]
    made.points[0].results.unlink()
    shutil.copy("stopped.ckpt.h5", made.points[0].checkpoint)
    _half(made.points[0].checkpoint)
    again, codes = swept(counter)
    assert (codes, right(made.folder)) == ([0], 0)
    assert "deck-0001.ckpt.h5.damaged" in again.notices[0]


# --- data files -----------------------------------------------------------------------------------


def potential(folder, depth):
    x = np.arange(-12.0, 12.01, 0.5)
    rows = "\n".join(f"{a:.2f},{-depth / np.sqrt(a * a + 2.0):.12f}" for a in x)
    (folder / "pot.csv").write_text(f"x,V\n{rows}\n", encoding="utf-8")


@pytest.fixture
def packet(tridiag, tmp_path, monkeypatch):
    """Write a wave packet over a table, and return the functions that sweep it, and that read its first energies."""
    monkeypatch.setenv("QSIM_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    path = tridiag.write(
        "packet",
        task="propagate",
        grid={"xmin": -10, "xmax": 10, "points": 101},
        potential={"type": "table", "file": "pot.csv"},
        initial={"type": "gaussian", "x0": -2, "k0": 1, "width": 1},
        time={"dt": 0.05, "t_final": 0.2, "outputs": 2},
    )

    def sweep(*values, **options):
        made = prepare("tridiag", path, [Axis("initial.k0", values)], **options)
        return made, [done.code for _, done in run_here(made)]

    return sweep


def test_a_data_file_that_changes_makes_no_table_of_two_problems(packet, tmp_path, command):
    potential(tmp_path, 0.8)
    made, codes = packet("1", "1.5")
    assert codes == [0, 0]
    potential(tmp_path, 1.7)
    with pytest.raises(FileError, match=r"2 of 3 decks.*packet-0001 \(potential\.file\.content\)"):
        packet("1", "1.5", "2")
    reply = command("collect", made.folder, "-o", "t.csv", "--no-figures")
    assert reply.exit_code == 6
    assert not Path("t.csv").exists()
    # new values alone: what is old stays out of the table
    assert packet("2", "2.5")[1] == [0, 0]
    reply = command("collect", made.folder, "-o", "t.csv", "--no-figures")
    assert (reply.exit_code, [row["run"] for row in lines(Path("t.csv"))]) == (
        6,
        ["packet-0003", "packet-0004"],
    )
    assert packet("1", "1.5", force=True)[1] == [0, 0]
    assert command("collect", made.folder, "-o", "t.csv", "--no-figures", "--force").exit_code == 0
    energies = [float(row["energy_initial (hartree)"]) for row in lines(Path("t.csv"))]
    # of one potential: half of the differences of k0 squared
    assert np.diff(energies) == pytest.approx([0.625, 0.875, 1.125], abs=0.02)
    # an archive without its data files still has its table, and runs by name say what they read
    potential(tmp_path, 0.8)
    assert packet("3", folder=tmp_path / "b")[1] == [0]
    for name, folder in (("a", made.folder), ("c", tmp_path / "b")):
        shutil.copy(folder / f"packet-000{1}.h5", f"{name}.h5")
        shutil.copy(folder / f"packet-000{1}.summary.json", f"{name}.summary.json")
    assert command("collect", "a.h5", "c.h5", "-o", "u.csv", "--no-figures").exit_code == 0
    assert len({row["potential.file.content"] for row in lines(Path("u.csv"))}) == 2
    (tmp_path / "pot.csv").unlink()
    assert command("collect", made.folder, "-o", "t.csv", "--no-figures", "--force").exit_code == 0
    assert len(lines(Path("t.csv"))) == 4


def test_a_data_file_that_changes_during_a_run_is_told(packet, tmp_path, monkeypatch):
    from qsim.tridiag import build, run

    potential(tmp_path, 0.8)
    building, running = build.build, run.run

    def change_and(work, depth):
        def changed(*arguments):
            made = work(*arguments)
            potential(tmp_path, depth)
            return made

        return changed

    monkeypatch.setattr(build, "build", change_and(building, 1.1))
    made, codes = packet("1")
    assert codes == [6]
    assert (
        "a data file changed while it was read: potential.file.content" in made.points[0].failed.read_text()
    )
    monkeypatch.setattr(build, "build", building)
    monkeypatch.setattr(run, "run", change_and(running, 1.3))
    made, codes = packet("1")
    # its results are those of the content that it read, not of the file that is there now
    assert codes == [0]
    with open_results(made.points[0].results) as results:
        assert any("a data file changed during the run" in text for text in results.provenance["warnings"])
    monkeypatch.setattr(run, "run", running)
    with pytest.raises(FileError, match=r"potential\.file\.content"):
        packet("1")


# --- several at a time ----------------------------------------------------------------------------


def test_decks_that_wait_are_not_changed_by_a_sweep_of_another_deck(counter):
    swept_now = prepare(
        "counter", counter.deck(extra=SEED), [Axis("count.start", STARTS)], folder=counter.folder / "s"
    )
    with OutputLock(counter.folder / "s" / "sweep"):
        with pytest.raises(
            FileError, match=rf"another sweep or run is at work on .*\(process {os.getpid()} on"
        ):
            swept(counter, growth=3.3)
        # other values of the same deck join it
        more = prepare(
            "counter",
            counter.deck(extra=SEED),
            [Axis("count.start", ("0.2", "0.23"))],
            folder=counter.folder / "s",
        )
    assert [point.number for point in more.points] == [2, 4]
    assert [done.code for _, done in run_here(swept_now)] == [0, 0, 0]
    assert [done.code for _, done in run_here(more)] == [0]
    assert right(counter.folder / "s") == 0


def test_a_deck_that_another_process_runs_is_waited_for(counter, monkeypatch):
    made = prepare(
        "counter", counter.deck(extra=SEED), [Axis("count.start", STARTS[:2])], folder=counter.folder / "s"
    )
    lock = OutputLock(made.points[0].stem)
    lock.__enter__()
    told = []
    for point, done in run_here(made):
        told.append((point.number, done.busy, done.code))
        if point.number == 2:
            lock.release()
    assert told == [(1, True, 6), (2, False, 0), (1, False, 0)]
    assert not list(made.folder.glob("*.failed.json"))
    assert not list(made.folder.glob("*.lock"))


@pytest.mark.parametrize("known", [True, False], ids=["states", "no states"])
def test_a_deck_whose_process_was_killed_is_not_waited_for_and_nothing_of_it_is_left(
    counter, monkeypatch, known
):
    made = prepare(
        "counter", counter.deck(extra=SEED), [Axis("count.start", STARTS[:2])], folder=counter.folder / "s"
    )
    if not known:
        # then the lock of a process that exists counts as held, until it is tried
        monkeypatch.setattr(lock_module, "_status", lambda pid: ("", 0))
    monkeypatch.setattr(sweep_module, "TRY", 0.5)
    mark = temporary_name(made.folder / "x").split(".")[1].rpartition("-")[0]
    # It is killed while it runs the first deck, of which nobody learns before the exit code is asked for.
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = dataclasses.replace(
            Owner.this(), pid=process.pid, started=lock_module._status(process.pid)[1]
        )
        for name in ("deck-0001", "deck-0009", "sweep"):
            (made.folder / f"{name}.lock").write_bytes(owner.content())
            (made.folder / f"{name}.h5.{mark}-{process.pid}.part").write_text("half")
        busy, told, taken = [True], [], sweep_module.execute

        def execute(method, deck, options):
            # as another process sees a lock that is held
            if deck.stem == "deck-0001" and busy:
                busy.pop()
                process.kill()
                raise BusyError("at work", str(owner), "")
            return taken(method, deck, options)

        monkeypatch.setattr(sweep_module, "execute", execute)
        begin = time.monotonic()
        for point, done in run_here(made):
            told.append((point.number, done.busy, done.code))
        assert time.monotonic() - begin < 10
        assert told == [(1, True, 6), (2, False, 0), (1, False, 0)]
    assert right(made.folder) == 0
    left = {path.name for path in made.folder.iterdir() if path.suffix in (".lock", ".part")}
    # whether the others live can be told only by those who want their outputs
    assert left == (set() if known else {"deck-0009.lock", f"deck-0009.h5.{mark}-{process.pid}.part"})
    prepare("counter", counter.deck(extra=SEED), [Axis("count.start", STARTS)], folder=made.folder)


def games(count, seed, timeout):
    command = [sys.executable, stress.__file__, "--count", str(count), "--seed", str(seed)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_processes_that_sweep_one_folder_and_are_killed():
    reply = games(2, 1000, timeout=120)
    assert reply.stdout.splitlines()[-1] == "2 games, 0 wrong", reply.stdout + reply.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_a_game_that_hangs_is_wrong_and_says_where(monkeypatch, tmp_path):
    monkeypatch.setattr(stress, "LONGEST", 1)
    monkeypatch.setattr(stress, "act", lambda *arguments: time.sleep(60))
    wrong = stress.play(0, tmp_path)
    assert "TimeoutError: not over after 1 s" in wrong
    assert "in <lambda>" in wrong


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
def test_more_processes_that_sweep_one_folder():
    reply = games(200, 0, timeout=7200)
    assert reply.stdout.splitlines()[-1] == "200 games, 0 wrong", reply.stdout + reply.stderr


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["-o dd", "50%j", "a%A%%", "plain"])
def test_the_script_finds_decks_whatever_their_names_are(counter, folder):
    deck = counter.deck("-x%j")
    made = prepare("counter", Path(deck.name), [Axis("count.start", ("0.1", "0.2"))], folder=Path(folder))
    text = write_array(made).read_text()
    (log,) = (line for line in text.splitlines() if line.startswith("#SBATCH --output="))
    path = shlex.split(log)[1].partition("=")[2].removesuffix("/%x-%4a.log")
    # as Slurm reads it, which takes %% for a percent sign and a letter for a number
    assert path.replace("%%", "\0").count("%") == 0
    assert path.replace("%%", "%").removeprefix("./") == folder
    text = text.replace(f"{sys.executable} -m qsim", f"{sys.executable} {RUNNER}")
    fakes = 'srun() { shift; "$@"; }\nscontrol() { echo "$@"; }\n'
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_JOB_ID": "7"}
    reply = subprocess.run(
        ["bash", "-c", fakes + text], env=environment, capture_output=True, text=True, timeout=60
    )
    assert reply.returncode == 0, reply.stderr
    assert [point.complete for point in made.points] == [False, True]


def test_the_owner_of_a_folder_is_told(counter):
    with OutputLock(counter.folder / "x"):
        owner = held(counter.folder / "x")
        assert owner is not None
        assert owner.pid == Owner.this().pid
    assert held(counter.folder / "x") is None

"""Sweeps and their tables: values, folders, warm processes, what is repeated, what is collected."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device import workers
from qsim.core.device.workers import Crew
from qsim.core.errors import DeckError, FileError
from qsim.core.results.plotting import style
from qsim.core.results.results import open_results
from qsim.core.results.summary import summary, write_summary
from qsim.core.results.tables import Scalar, Table
from qsim.core.results.writing import Content, write_results
from qsim.core.sweeps.collect import _maps, _second_axis, draw_collection
from qsim.core.sweeps.folder import prepare
from qsim.core.sweeps.gather import collect
from qsim.core.sweeps.rows import Row, in_units
from qsim.core.sweeps.runs import Run, find_runs
from qsim.core.sweeps.sweep import run, run_here
from qsim.core.sweeps.values import Axis, parse_axis, points
from tests.faults.inject import wait_until

RUNNER = Path(__file__).resolve().parents[1] / "methods" / "run_counter.py"


def qsim(*arguments, **options):
    command = [sys.executable, str(RUNNER), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1:4:4", ("1", "2", "3", "4")),
        ("a.b=0:1:3", ("0", "0.5", "1")),
        ("a.b=0.1:0.5:5", ("0.1", "0.2", "0.3", "0.4", "0.5")),
        ("a.b=1:-1:3", ("1", "0", "-1")),
        ("a.b=1e-4:1:5:log", ("0.0001", "0.001", "0.01", "0.1", "1.0")),
        ("a.b=10 fs:20 fs:3", ('"10 fs"', '"15 fs"', '"20 fs"')),
        ("a.b=10:20 fs:2", ('"10 fs"', '"20 fs"')),
        ("a.b=x,y", ("x", "y")),
        ("a.b=[1, 2],[3, 4]", ("[1, 2]", "[3, 4]")),
        ("a.b={type: c, d: 1}, 'p,q'", ("{type: c, d: 1}", "'p,q'")),
        ("a.b=0.30000000000000004,1", ("0.30000000000000004", "1")),
        ("a.b=cuda:0,cpu", ("cuda:0", "cpu")),
    ],
)
def test_values_of_a_key(text, values):
    assert parse_axis(text) == Axis("a.b", values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "is not KEY=A:B:N"),
        ("=1,2", "is not KEY=A:B:N"),
        ("a..b=1,2", "is not KEY=A:B:N"),
        ("a=", "a value is missing"),
        ("a=1,,2", "a value is missing"),
        ("a=1,2,1", "duplicate value"),
        ("a=1:2:1", "N from 2"),
        ("a=1:1:3", "two ends"),
        ("a=-1:1:3:log", "two ends of one sign"),
        ("a=1 fs:2 as:3", "one unit, found 'fs' and 'as'"),
    ],
)
def test_values_that_are_none(text, message):
    with pytest.raises(ValueError, match=message):
        parse_axis(text)


def test_points_are_all_combinations_or_side_by_side():
    axes = [Axis("a", ("1", "2")), Axis("b", ("x", "y"))]
    assert points(axes) == [("1", "x"), ("1", "y"), ("2", "x"), ("2", "y")]
    assert points(axes, zipped=True) == [("1", "x"), ("2", "y")]
    with pytest.raises(ValueError, match="equal numbers of values, found a: 2, b: 1"):
        points([axes[0], Axis("b", ("x",))], zipped=True)
    with pytest.raises(ValueError, match="a is given twice"):
        points([axes[0], axes[0]])
    with pytest.raises(ValueError, match="100000000 decks are more than"):
        points([Axis(k, tuple(map(str, range(10000)))) for k in "ab"])


# --- folders --------------------------------------------------------------------------------------


def test_a_folder_holds_complete_decks_and_an_index(counter):
    made = prepare(
        "counter", counter.deck(), [Axis("count.start", ("0.1", "0.2"))], overrides=["count.steps=7"]
    )
    assert [p.deck.name for p in made.points] == ["deck-0001.yaml", "deck-0002.yaml"]
    text = made.points[1].deck.read_text()
    assert "start: 0.2" in text
    assert "steps: 7" in text
    assert rows(made.folder / "index.csv")[1] == {
        "number": "2",
        "deck": "deck-0002.yaml",
        "count.start": "0.2",
    }


def test_a_sweep_is_extended_and_keeps_its_numbers(counter):
    deck = counter.deck()
    prepare("counter", deck, [Axis("count.start", ("0.1", "0.3"))])
    made = prepare("counter", deck, [Axis("count.start", ("0.1", "0.2", "0.3"))])
    assert [(p.number, p.values) for p in made.points] == [(1, ("0.1",)), (2, ("0.3",)), (3, ("0.2",))]


def test_a_mistake_at_one_point_is_told_before_anything_is_written(counter):
    with pytest.raises(DeckError, match=r"count.start.*less than 1|count.start") as caught:
        prepare("counter", counter.deck(), [Axis("count.start", ("0.1", "2"))])
    assert "at count.start=2" in caught.value.hint
    assert counter.files() == []


def test_other_keys_and_changed_decks_are_refused(counter):
    axes = [Axis("count.start", ("0.1", "0.2"))]
    made = prepare("counter", counter.deck(), axes)
    earlier = made
    made = prepare("counter", counter.deck(growth=3.5), axes)  # nothing has run: decks may be corrected
    assert "growth: 3.5" in made.points[0].deck.read_text()
    assert [done.code for _, done in run_here(made)] == [0, 0]
    assert [done.code for _, done in run_here(earlier)] == [6, 6]  # whose decks were changed
    with pytest.raises(FileError, match=r"2 of 2 decks have results that are not theirs.*deck-0001 \(deck\)"):
        prepare("counter", counter.deck(growth=3.6), axes)
    with pytest.raises(FileError, match=r"holds a sweep over count.start, not over count.growth"):
        prepare("counter", counter.deck(), [Axis("count.growth", ("3.5",))])
    (made.folder / "index.csv").write_text("a,b\n")
    with pytest.raises(FileError, match="is not the index of a sweep"):
        prepare("counter", counter.deck(), axes)


def test_files_of_the_deck_are_found_from_the_folder(tridiag, tmp_path, monkeypatch):
    from qsim.core.deck.load import load_deck
    from qsim.tridiag.deck import DECK

    source = Path(__file__).resolve().parents[2] / "inputs" / "tridiag" / "solve_file.yaml"
    monkeypatch.chdir(tmp_path)
    made = prepare("tridiag", source, [Axis("run.seed", ("1", "2"))], folder=tmp_path / "a" / "b")
    assert load_deck(made.points[1].deck, DECK).physics() == load_deck(source, DECK).physics()


# --- running --------------------------------------------------------------------------------------


def test_failures_are_finished_by_the_same_command(counter):
    """Of twelve decks two fail at first, and a third is stopped; the command again runs these three and no other."""
    counter.deck()
    words = (
        "sweep",
        "deck.yaml",
        "--over",
        "count.start=0.1:0.4:4",
        "--over",
        "count.growth=3.5,3.7,3.9",
        "--jobs",
        "2",
    )
    folder = counter.folder / "deck.sweep"
    folder.mkdir()
    blocks = [folder / f"deck-{n}.summary.json" for n in ("0003", "0010")]  # folders in the place of files
    for block in blocks:
        block.mkdir()
    first = qsim(*words)
    assert first.returncode == 6, first.stderr
    assert "2 of 12 decks are not complete" in first.stderr
    assert json.loads((folder / "deck-0003.failed.json").read_text())["code"] == 6
    times = {path: path.stat().st_mtime_ns for path in folder.glob("*.summary.json") if path.is_file()}
    assert len(times) == 10
    for block in blocks:
        block.rmdir()
    second = qsim(*words)
    assert second.returncode == 0, second.stderr
    assert "12 decks, 10 complete already" in second.stderr
    assert second.stderr.count("count.start=") == 2
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())
    assert not list(folder.glob("*.failed.json"))
    summary = json.loads((folder / "deck-0002.summary.json").read_text())
    assert summary["deck"]["count"]["growth"] == 3.7
    assert summary["overrides"] == []
    third = qsim(*words)
    assert "12 complete already" in third.stderr
    assert third.returncode == 0


def test_a_stopped_sweep_leaves_checkpoints_and_continues(counter):
    counter.deck(fail="wait", extra="run: {checkpoint: 1 ms}\n")
    waiting = counter.folder / "wait"
    waiting.touch()
    words = [sys.executable, str(RUNNER), "sweep", "deck.yaml", "--over", "count.start=0.1,0.2"]
    folder = counter.folder / "deck.sweep"
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    checkpoint = folder / "deck-0001.ckpt.h5"
    wait_until(lambda: checkpoint.exists() or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 75, told
    assert "stopped by SIGTERM; 2 of 2 decks are not complete" in told
    assert checkpoint.exists()
    waiting.unlink()
    again = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0, again.stderr
    with open_results(folder / "deck-0001.h5") as stopped, open_results(folder / "deck-0002.h5") as through:
        assert stopped.scalars["steps"].value == through.scalars["steps"].value == 20


def test_a_folder_in_the_place_of_results_is_a_failure_that_is_told(counter):
    counter.deck()
    place = counter.folder / "deck.sweep" / "deck-0001.h5"
    place.mkdir(parents=True)
    reply = qsim("sweep", "deck.yaml", "--over", "count.start=0.1,0.2", cwd=counter.folder)
    assert reply.returncode == 6, reply.stderr
    assert "1 of 2 decks are not complete" in reply.stderr
    assert f"{place.relative_to(counter.folder)} is a folder, where the results belong" in reply.stderr
    assert list(place.iterdir()) == []


def test_each_run_is_that_of_its_deck_alone(counter):
    deck = counter.deck(extra="run: {seed: 5}\n")
    made = prepare("counter", deck, [Axis("count.start", ("0.1", "0.2"))])
    assert qsim("sweep", deck, "--over", "count.start=0.1,0.2").returncode == 0
    alone = qsim("counter", deck, "--set", "count.start=0.2", "-o", "alone.h5", "--no-figures")
    assert alone.returncode == 0
    with open_results(made.points[1].results) as swept, open_results("alone.h5") as single:
        assert np.array_equal(swept["value"], single["value"])


def _square(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def _lost(number):
    return -1


def test_a_process_that_dies_costs_its_own_task_only():
    assert dict(Crew(_square, _lost, 2).work(range(6))) == {0: 0, 1: 1, 2: 4, 3: -1, 4: 16, 5: 25}


def _own_number(task):
    return os.getpid()


def test_a_process_does_many_tasks():
    """Decks of a sweep pay for the interpreter and its imports once per process."""
    numbers = {number for _, number in Crew(_own_number, _lost, 1).work(range(30))}
    assert len(numbers) == 1
    assert os.getpid() not in numbers


def test_processes_share_the_cores(monkeypatch):
    """Every process would otherwise start as many threads as there are cores; what the user has set stays."""
    for name in workers.THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr(workers, "available_threads", lambda: 16)
    with workers.threads_shared(3):
        assert [os.environ[name] for name in workers.THREADS] == ["2", "5", "5", "5"]
    with workers.threads_shared(40):
        assert os.environ["NUMBA_NUM_THREADS"] == "1"
    assert [name for name in workers.THREADS if name in os.environ] == ["OMP_NUM_THREADS"]


def test_run_yields_nothing_for_a_complete_sweep(counter):
    made = prepare("counter", counter.deck(), [Axis("count.start", ("0.1",))])
    assert [done.code for _, done in run_here(made)] == [0]
    assert list(run(made)) == []


# --- batch systems --------------------------------------------------------------------------------


def test_the_script_of_an_array_runs_what_is_missing(counter, command):
    words = ("sweep", counter.deck(), "--over", "count.start=0.1:0.4:4", "--slurm", "--jobs", "3")
    reply = command(*words)
    assert (reply.exit_code, reply.stdout) == (0, "deck.sweep/array.sbatch\n")
    folder = counter.folder / "deck.sweep"
    text = (folder / "array.sbatch").read_text()
    assert "--array=1-4%3\n" in text
    assert "$" not in text.split("\n\n")[0]  # every field is filled in
    for number in (1, 3):
        stem = folder / f"deck-000{number}"
        assert command("counter", f"{stem}.yaml", "-o", f"{stem}.h5", "-q", "--no-figures").exit_code == 0
    assert command(*words).exit_code == 0
    assert "--array=2,4%3\n" in (folder / "array.sbatch").read_text()


def test_the_script_runs_its_deck(counter, command):
    """The script as Slurm runs it, with srun and scontrol replaced by shell functions."""
    command("sweep", counter.deck(), "--over", "count.start=0.1,0.2", "--slurm")
    text = (counter.folder / "deck.sweep" / "array.sbatch").read_text()
    text = text.replace(f"{sys.executable} -m qsim", f"{sys.executable} {RUNNER}")
    fakes = 'srun() { shift; "$@"; }\nscontrol() { echo "$@"; }\n'
    environment = {**os.environ, "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_JOB_ID": "7"}
    reply = subprocess.run(
        ["bash", "-c", fakes + text], env=environment, capture_output=True, text=True, timeout=60
    )
    assert reply.returncode == 0, reply.stderr
    assert (counter.folder / "deck.sweep" / "deck-0002.summary.json").exists()
    slow = text.replace("--no-figures", "--no-figures --set run.walltime=0.001")
    environment["SLURM_ARRAY_TASK_ID"] = "1"
    reply = subprocess.run(
        ["bash", "-c", fakes + slow], env=environment, capture_output=True, text=True, timeout=60
    )
    assert reply.returncode == 75, reply.stderr
    assert reply.stdout == "requeue 7_1\n"


# --- tables ---------------------------------------------------------------------------------------


@pytest.fixture
def swept(counter, command):
    """Return the folder of a small sweep, run in this process."""
    deck = counter.deck(extra="run: {seed: 5}\n")
    made = prepare(
        "counter", deck, [Axis("count.start", ("0.1", "0.2", "0.3")), Axis("count.growth", ("3.5", "3.9"))]
    )
    for point in made.points:
        reply = command("counter", point.deck, "-o", point.results, "--no-figures", "-q")
        assert reply.exit_code == 0, reply.stderr
    return made.folder


def test_the_table_has_keys_that_differ_and_scalars_with_errors(swept, command):
    reply = command("collect", swept, "-o", "table.csv")
    assert reply.exit_code == 0, reply.stderr
    assert reply.stdout.split() == ["table.csv", "table.png"]
    table = rows(Path("table.csv"))
    assert list(table[0]) == [
        "run",
        "count.start",
        "count.growth",
        "final (au)",
        "mean (au)",
        "mean_error (au)",
    ]
    assert [row["run"] for row in table] == [f"deck-000{n}" for n in range(1, 7)]
    for row in table:
        with open_results(swept / f"{row['run']}.h5") as results:
            assert float(row["count.start"]) == results.deck["count"]["start"]
            assert float(row["mean (au)"]) == results.scalars["mean"].value
            assert float(row["mean_error (au)"]) == results.scalars["mean"].error


def run_of(folder, name, method, deck, written, scalars):
    """Write results and summary of a run that was never made."""
    provenance = {"deck": deck, "deck_text": written, "overrides": []}
    declared = {key: Scalar(*value) for key, value in scalars.items()}
    write_results(
        folder / f"{name}.h5",
        Content(method, "t", "complete", [Table("a", ("a",))], {"a": np.zeros(1)}, declared, provenance),
    )
    with open_results(folder / f"{name}.h5") as results:
        content = summary(results, device="cpu", precision="double", seed=1, timing={}, files=[])
    write_summary(folder / f"{name}.summary.json", content)


def test_a_run_with_a_list_has_a_row_for_each_entry(tmp_path):
    ev = 27.211386245981
    for n, energies in enumerate(([20, 30, 40], [50])):
        deck = {"method": "sturmian", "task": {"type": "scatter", "energy": [e / ev for e in energies]}}
        text = (
            "method: sturmian\ntask: {type: scatter, energy: ["
            + ", ".join(f"'{e} eV'" for e in energies)
            + "]}"
        )
        scalars = {f"sigma_total_singlet_{i}": (float(e), "kb", 0.5 * i) for i, e in enumerate(energies)}
        run_of(tmp_path, f"r-{n}", "sturmian", deck, text, scalars | {"time_steps": (7, "")})
    table = collect(find_runs([tmp_path]), {"sturmian": ["sigma_total_singlet_0", "time_steps"]})
    assert table.runs == ("r-0:0", "r-0:1", "r-0:2", "r-1")
    columns = {column.name: column for column in table.columns}
    assert list(columns) == ["task.energy", "sigma_total_singlet", "sigma_total_singlet_error", "time_steps"]
    assert (columns["task.energy"].unit, columns["task.energy"].cells) == ("eV", (20.0, 30.0, 40.0, 50.0))
    assert columns["sigma_total_singlet"].cells == (20.0, 30.0, 40.0, 50.0)
    assert columns["sigma_total_singlet_error"].cells == (0.0, 0.5, 1.0, 0.0)
    assert columns["time_steps"].cells == (7,) * 4


def test_keys_have_the_units_of_their_decks(tmp_path, command):
    fs = 1 / 0.024188843265864
    for n, (T, text, width) in enumerate(
        [
            (200 * fs, "'200 fs'", "'1 nm'"),
            (300 * fs, "300 fs", "2 nm"),
            (100 * fs, f"{100 * fs!r}", "3 angstrom"),
        ]
    ):
        deck = {"method": "qoc", "time": {"T": T, "width": float(n)}, "run": {"seed": n}}
        run_of(
            tmp_path,
            f"r-{n}",
            "qoc",
            deck,
            f"time: {{T: {text}, width: {width}}}",
            {"P": (0.5 + 0.1 * n, "", 0.01)},
        )
    (tmp_path / "index.csv").write_text("number,deck,time.width,time.T\n")
    reply = command("collect", tmp_path, "-o", tmp_path / "t.csv", "--scalar", "P")
    assert reply.exit_code == 0, reply.stderr
    table = rows(tmp_path / "t.csv")
    # those of the sweep first and in its order, drawn seeds not at all; two units of one key leave it in atomic units
    assert list(table[0]) == ["run", "time.width", "time.T (fs)", "P", "P_error"]
    assert [float(row["time.T (fs)"]) for row in table] == pytest.approx([200.0, 300.0, 100.0], rel=1e-12)
    assert table[0]["time.T (fs)"] == "200.0"


def test_a_grid_of_two_keys_is_a_map(tmp_path):
    for n in range(81):
        a, b = divmod(n, 9)
        deck = {"method": "qoc", "x": {"a": a, "b": b}}
        run_of(
            tmp_path, f"r-{n}", "qoc", deck, "", {"P": (float(a * b), "eV"), "same": (1.0 + 1e-13 * n, "")}
        )
    table = collect(find_runs([tmp_path]))
    with style():
        axis = next(column for column in table.columns if column.name == "x.a")
        other = _second_axis(table, axis)
        drawn = _maps(table, axis, other, [column for column in table.of("scalar") if column.name == "P"])
    (mesh,) = (item for ax in drawn.axes for item in ax.collections if ax.get_xlabel() == "x.a")
    assert np.asarray(mesh.get_array()).reshape(9, 9)[2, 3] == 6.0
    assert draw_collection(table, tmp_path / "map")


def test_the_table_as_hdf5(swept, command):
    assert command("collect", swept, "-o", "table.h5", "--all", "--no-figures").exit_code == 0
    with open_results("table.h5") as table:
        assert table.method == "collect"
        assert table["count.growth"].tolist() == [3.5, 3.9] * 3
        assert table.unit("mean") == table.unit("mean_error") == "au"
        assert {"rate", "steps", "converged"} <= set(table.names)
        assert table.dims("mean") == ("run",)


def test_scalars_by_name(swept, command):
    words = ("collect", swept, "-o", "table.csv", "--no-figures", "--scalar")
    assert command(*words, "rate").exit_code == 0
    assert list(rows(Path("table.csv"))[0])[3:] == ["rate (1/s)"]
    reply = command(*words, "rates", "--force")
    assert reply.exit_code == 2
    assert "no run has the scalar 'rates'" in reply.stderr


def test_a_table_is_not_replaced_without_force(swept, command):
    Path("table.csv").write_text("mine")
    reply = command("collect", swept, "-o", "table.csv", "--no-figures")
    assert reply.exit_code == 6
    assert Path("table.csv").read_text() == "mine"
    assert command("collect", swept, "-o", "table.csv", "--no-figures", "--force").exit_code == 0


def test_what_is_missing_is_told(swept, command):
    (swept / "deck-0002.summary.json").unlink()
    (swept / "deck-0004.summary.json").unlink()
    (swept / "deck-0004.failed.json").write_text('{"error": "no luck"}')
    reply = command("collect", swept, "-o", "table.csv", "--no-figures")
    assert reply.exit_code == 0
    assert "2 decks are not complete" in reply.stderr
    assert "deck-0002: not run yet" in reply.stderr
    assert "deck-0004: no luck" in reply.stderr
    assert len(rows(Path("table.csv"))) == 4


def test_runs_are_sorted_by_number_and_found_by_any_of_their_files(tmp_path):
    for number in (10, 9, 100):
        (tmp_path / f"a-{number}.summary.json").touch()
    names = [path.name for path in find_runs([tmp_path])]
    assert names == ["a-9.summary.json", "a-10.summary.json", "a-100.summary.json"]
    assert find_runs([tmp_path / "a-9.h5", tmp_path / "a-9.summary.json"]) == [tmp_path / "a-9.summary.json"]
    with pytest.raises(FileError, match="holds no summary of a run"):
        find_runs([tmp_path / "none.h5"])


@pytest.mark.parametrize("text", ["1e2eV", "1e2 eV", ".1e3eV", "100. eV", "+100eV"])
def test_keys_have_the_unit_of_their_decks_however_numbers_are_typed(text):
    of = Run(Path("r"), "counter", "", {}, {})
    made = [Row(str(n), of, {}, {}, {"grid": {"E": t}}) for n, t in enumerate((text, 50 / 27.211386))]
    assert in_units("grid.E", made, [100.0 / 27.211386, 50.0 / 27.211386]) == (
        "eV",
        (100.0, pytest.approx(50.0)),
    )
    assert in_units("grid.E", [Row("0", of, {}, {}, {"grid": {"E": "1e2"}})], [100.0]) == (
        "",
        (100.0,),
    )


def test_a_summary_without_deck_is_completed_from_its_results(swept):
    path = swept / "deck-0002.summary.json"
    content = json.loads(path.read_text())
    del content["deck"], content["overrides"]
    path.write_text(json.dumps(content))
    table = collect(find_runs([swept]))
    assert [column.name for column in table.of("key")] == ["count.start", "count.growth"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "deck.yaml"], "Missing option '--over'"),
        (["sweep", "deck.yaml", "--over", "count.start"], "is not KEY=A:B:N"),
        (["sweep", "deck.yaml", "--over", "a=1,2", "--over", "b=1,2,3", "--zip"], "equal numbers of values"),
        (["sweep", "deck.yaml", "--over", "a=1,2", "--jobs", "0"], "--jobs"),
        (["collect", ".", "-o", "table.txt"], "a .csv or a .h5 file"),
    ],
)
def test_wrong_usage(counter, command, arguments, message):
    counter.deck()
    reply = command(*arguments)
    assert reply.exit_code == 2
    assert message in reply.stderr


def test_a_sweep_is_not_started_by_mpirun(counter, command, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    reply = command("sweep", counter.deck(), "--over", "count.start=0.1,0.2")
    assert reply.exit_code == 2
    assert "--jobs N instead of mpirun" in reply.stderr


# --- warmup ---------------------------------------------------------------------------------------


def test_kernels_are_kept_where_they_are_asked_for(tmp_path, monkeypatch, command):
    from qsim.core.device.compilers.caches import keep_kernels_in

    monkeypatch.setattr("sys.modules", {k: v for k, v in sys.modules.items() if k != "numba"})
    environ = {}
    keep_kernels_in(tmp_path / "kernels", environ)
    assert environ == {
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels" / "numba"),
        "CUPY_CACHE_DIR": str(tmp_path / "kernels" / "cupy"),
    }
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match="cannot be made"):
        keep_kernels_in(tmp_path / "file", environ)
    reply = command("warmup", tmp_path / "other", "trotters")
    assert reply.exit_code == 2
    assert "did you mean 'trotter'?" in reply.stderr

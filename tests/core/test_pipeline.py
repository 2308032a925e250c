"""The life of a run: what it writes, what it refuses, and how it is resumed."""

import json
import platform
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import qsim
from qsim.core.device.footprint import INTERPRETER
from qsim.core.errors import DeckError, DeviceError, FileError, MemoryLimitError, NumericsError, Stopped
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary
from qsim.core.run.pipeline import Options, execute

SLOW = {"steps": 60, "pause": "10 ms"}
WALLTIME = "run.walltime=0.3 s"


@pytest.fixture
def run(counter):
    def run(deck, *overrides, **options):
        return execute("counter", deck, Options(overrides=overrides, **{"verbosity": -1, **options}))

    return run


@pytest.fixture
def no_work(counter, monkeypatch):
    """Make any work an error, to prove that a refusal comes before it."""

    def work(*arguments):
        raise AssertionError("work was done")

    monkeypatch.setattr("qsim.counter.build.build", work)
    monkeypatch.setattr("qsim.counter.run.run", work)


def stop(run, deck, **options):
    """Run until the wall time stops it; return the steps that its checkpoint holds."""
    with pytest.raises(Stopped) as stopped:
        run(deck, WALLTIME, **options)
    assert stopped.value.checkpoint.name == f"{deck.stem}.ckpt.h5"
    from qsim.core.run.checkpoint import load

    return load(stopped.value.checkpoint)[0]["done"]


# --- what a run leaves ----------------------------------------------------------------------------


def test_a_run_leaves_results_summary_and_figures(counter, run):
    outcome = run(counter.deck())
    assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]
    assert outcome.results.name == "deck.h5"
    assert read_summary(counter.folder / "deck.summary.json") == outcome.summary
    assert outcome.summary["status"] == "complete"
    assert outcome.summary["files"] == ["deck.h5", "deck.value.png", "deck.summary.json"]
    assert set(outcome.summary["timing"]) == {"build", "run", "write", "figures"}
    with open_results("deck.h5") as results:
        assert results["value"].shape == (20,)
        assert results.scalars["final"].value == results["value"][-1]
        assert results.title == "a count"


def test_provenance_tells_where_the_numbers_come_from(counter, run):
    deck = counter.deck(extra="run: {seed: 7}\n")
    run(deck, "count.growth=3.8", command="qsim counter deck.yaml")
    with open_results("deck.h5") as results:
        found = results.provenance
    assert found["deck_text"] == deck.read_text()
    assert found["overrides"] == ["count.growth=3.8"]
    assert found["deck"]["count"]["growth"] == 3.8
    assert len(found["deck_sha256"]) == 64
    assert found["command"] == "qsim counter deck.yaml"
    assert (found["seed"], found["precision"], found["qsim_version"]) == (7, "double", qsim.__version__)
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["numpy"] == np.__version__
    assert {"scipy", "numba", "h5py", "cupy"} <= set(found["versions"])
    assert found["device"]["label"] == "cpu"
    assert {"build", "run"} <= set(found["timing"])
    assert found["created"].endswith("+00:00")


def test_a_missing_seed_is_drawn_and_recorded_everywhere(counter, run):
    first = run(counter.deck("a"), figures=False).summary["seed"]
    second = run(counter.deck("b"), figures=False).summary["seed"]
    assert first != second
    with open_results("a.h5") as results:
        assert results.provenance["seed"] == results.deck["run"]["seed"] == first
        values = results["value"]
    run(counter.deck("c"), f"run.seed={first}", figures=False)
    with open_results("c.h5") as results:
        assert np.array_equal(results["value"], values)


def test_the_log_of_a_run_is_kept_even_if_it_is_silent(counter, run, capfd):
    run(counter.deck())
    assert capfd.readouterr() == ("", "")
    with open_results("deck.h5") as results:
        assert any("a count" in line for line in results.log)


def test_warnings_reach_the_summary(counter, run):
    (warning,) = run(counter.deck(growth=0.5), figures=False).summary["warnings"]
    assert "count.growth: the map dies out" in warning


def test_the_library_entry_returns_open_results(counter, capfd):
    with qsim.run(counter.deck(), overrides=["count.steps=5"]) as results:
        assert results["value"].shape == (5,)
    assert capfd.readouterr() == ("", "")


def test_the_library_entry_names_the_method_that_it_does_not_have(counter):
    deck = counter.deck()
    deck.write_text(deck.read_text().replace("method: counter", "method: countess"))
    with pytest.raises(DeckError, match="countess"):
        qsim.run(deck)


# --- names of the files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "output", "expected"),
    [
        ("", None, "deck.h5"),
        ("output: {file: other.h5}\n", None, "other.h5"),
        ("output: {file: other.h5}\n", "third.h5", "third.h5"),
        ("", "third", "third.h5"),
        ("", "v1.5", "v1.5.h5"),
        ("", "third.hdf5", "third.hdf5"),
        ("", "folder", "folder/deck.h5"),
        ("", "folder/x.h5", "folder/x.h5"),
    ],
)
def test_where_results_go(counter, run, extra, output, expected):
    (counter.folder / "folder").mkdir()
    outcome = run(counter.deck(extra=extra), output=output)
    assert outcome.results.as_posix() == expected
    stem = (counter.folder / expected).with_suffix("")
    for ending in ("summary.json", "value.png"):
        assert stem.with_name(f"{stem.name}.{ending}").is_file()


def test_a_deck_elsewhere_leaves_its_results_here(counter, run, monkeypatch, tmp_path):
    deck = counter.deck()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run(deck, figures=False)
    assert sorted(path.name for path in Path().iterdir()) == ["deck.h5", "deck.summary.json"]


# --- figures --------------------------------------------------------------------------------------


def test_chosen_figures(counter, run):
    run(counter.deck(extra="output: {figures: [absent]}\n"))
    assert counter.files() == ["deck.h5", "deck.summary.json"]
    run(counter.deck(extra="output: {figures: none}\n"), output="none")
    run(counter.deck(), output="off", figures=False)
    assert not [name for name in counter.files() if name.endswith(".png")]
    run(counter.deck(extra="output: {figures: [value]}\n"), output="one")
    assert [name for name in counter.files() if name.endswith(".png")] == ["one.value.png"]


def test_an_unknown_figure_is_a_mistake_of_the_deck(counter, run, no_work):
    deck = counter.deck(extra="output:\n  figures: [value, valu]\n")
    with pytest.raises(DeckError, match="did you mean 'value'") as error:
        run(deck)
    (problem,) = error.value.diagnostics
    assert (problem.key, problem.line) == ("output.figures.1", 6)


def test_a_figure_that_fails_costs_neither_results_nor_summary(counter, run):
    with pytest.raises(ValueError, match="small values") as error:
        run(counter.deck(start=0.01))
    assert "deck.h5 are complete" in error.value.__notes__[0]
    assert counter.files() == ["deck.h5", "deck.summary.json"]


# --- refusals -------------------------------------------------------------------------------------


def test_a_number_that_cannot_be_found_costs_neither_results_nor_summary(counter, run, monkeypatch):
    from qsim.core.results.quantities import Quantity
    from qsim.counter.output import ARRAYS

    mean = Quantity("mean", "au", "mean value", lambda r: 0.5, error=lambda r: 1 / 0)
    monkeypatch.setattr("qsim.counter.output.QUANTITIES", (mean, *ARRAYS))
    outcome = run(counter.deck())
    warning = "the error of mean could not be found: division by zero; everything else is complete"
    assert outcome.summary["warnings"] == [warning]
    with open_results(outcome.results) as results:
        assert (results.scalars["mean"].value, results.scalars["mean"].error) == (0.5, None)
        assert results.provenance["warnings"] == [warning]
    assert run(counter.deck(), resume=True).already


@pytest.mark.parametrize("kind", [FileError, ValueError])
def test_what_goes_beside_the_results_and_fails_costs_no_summary(counter, run, monkeypatch, kind):
    def lost(results, stem):
        raise kind("no space left")

    monkeypatch.setattr("qsim.counter.output.extra_files", lost)
    with pytest.raises(kind, match="no space left"):
        run(counter.deck())
    assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]


@pytest.mark.parametrize("existing", ["deck.h5", "deck.summary.json", "deck.value.png", "deck.ckpt.h5"])
def test_nothing_is_overwritten_without_force(counter, run, no_work, existing):
    (counter.folder / existing).write_text("precious")
    with pytest.raises(FileError, match=existing) as error:
        run(counter.deck())
    assert "--force" in error.value.hint
    assert counter.files() == [existing]
    assert (counter.folder / existing).read_text() == "precious"


def test_figures_that_are_not_drawn_are_not_in_the_way(counter, run):
    (counter.folder / "deck.value.png").write_text("precious")
    run(counter.deck(), figures=False)
    assert (counter.folder / "deck.value.png").read_text() == "precious"


def test_force_replaces(counter, run):
    run(counter.deck(), "count.steps=3")
    (counter.folder / "deck.ckpt.h5").write_text("of an earlier run")
    run(counter.deck(), force=True)
    assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]
    with open_results("deck.h5") as results:
        assert results["value"].shape == (20,)


def test_a_forced_run_that_dies_between_results_and_summary_leaves_no_old_summary(counter, run, monkeypatch):
    run(counter.deck(), figures=False)

    def die(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("qsim.core.run.files.publish.write_summary", die)
        with pytest.raises(KeyboardInterrupt):
            run(counter.deck(steps=30), force=True, figures=False)
    assert counter.files() == ["deck.h5"]
    assert run(counter.deck(steps=30), resume=True, figures=False).summary["scalars"]["steps"]["value"] == 30


def test_the_old_results_survive_a_forced_run_that_fails(counter, run):
    run(counter.deck())
    before = (counter.folder / "deck.h5").read_bytes()
    with pytest.raises(RuntimeError):
        run(counter.deck(fail="bug"), force=True)
    assert (counter.folder / "deck.h5").read_bytes() == before


@pytest.mark.parametrize(
    ("output", "message"), [("no/x.h5", "does not exist"), ("file/x.h5", "not a folder")]
)
def test_an_output_folder_that_cannot_be_used(counter, run, no_work, output, message):
    (counter.folder / "file").write_text("")
    with pytest.raises(FileError, match=message):
        run(counter.deck(), output=output)


def test_an_output_folder_that_cannot_be_written_to(counter, run, no_work, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # chmod does not stop root
    with pytest.raises(FileError, match="cannot be written to"):
        run(counter.deck())


@pytest.mark.parametrize(
    ("count", "options", "error", "message"),
    [
        ({"steps": 2000}, {}, DeckError, "more than 1000"),
        ({"start": 0.5}, {}, DeckError, r"deck.yaml:5:3: count.start: 0.5 is no start"),
        ({"huge": "true"}, {}, MemoryLimitError, r"1.15e\+06 TB"),
        ({"fail": "memory"}, {}, MemoryLimitError, "out of memory"),
        ({"fail": "nan"}, {}, NumericsError, "value is nan after 5 steps"),
        ({"fail": "bug"}, {}, RuntimeError, "lost count"),
        ({}, {"device": "cuda:77"}, DeviceError, "cuda:77"),
    ],
)
def test_a_run_that_fails_leaves_nothing(counter, run, count, options, error, message):
    with pytest.raises(error, match=message):
        run(counter.deck(**count), **options)
    assert counter.files() == []


def test_a_deck_of_another_method(counter, run):
    deck = counter.deck()
    deck.write_text("method: qoc\n")
    with pytest.raises(DeckError, match="qoc"):
        run(deck)


# --- dry run --------------------------------------------------------------------------------------


def test_a_plan_and_its_run_have_one_blas_thread(run, counter, monkeypatch):
    """Sturmian's plan computes bases: small matrices, for which threads only wait for each other."""
    import qsim.counter.build as stage

    def blas_threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def noted(name, plain):
        return lambda *given: (seen.update({name: blas_threads()}), plain(*given))[1]

    seen = {}
    for name in ("plan", "build"):
        monkeypatch.setattr(stage, name, noted(name, getattr(stage, name)))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        run(counter.deck())
        assert blas_threads() == before
    assert seen == {"plan": {1}, "build": {1}}


def test_a_dry_run_tells_and_leaves_nothing(counter, run, no_work):
    (counter.folder / "deck.h5").write_text("is not in the way")
    plan = run(counter.deck(), dry_run=True, figures=False).summary
    assert plan["status"] == "planned"
    assert plan["steps"] == 20
    assert plan["sizes"] == {"values": 20}
    assert plan["memory"]["host"] == 160 + INTERPRETER
    assert plan["memory"]["parts"] == {"values": 160, "Python and its libraries": INTERPRETER}
    assert plan["memory"]["free"] > 0
    assert plan["deck"]["count"]["growth"] == 3.9
    assert counter.files() == ["deck.h5"]


# --- resume ---------------------------------------------------------------------------------------


def test_a_resumed_run_gives_the_same_bits(counter, run):
    deck = counter.deck(**SLOW)
    done = stop(run, deck)
    assert 0 < done < 60
    assert counter.files() == ["deck.ckpt.h5"]
    seed = run(deck, resume=True, figures=False).summary["seed"]
    assert counter.files() == ["deck.h5", "deck.summary.json"]
    run(deck, f"run.seed={seed}", output="straight", figures=False)
    with open_results("deck.h5") as resumed, open_results("straight.h5") as straight:
        assert np.array_equal(resumed["value"], straight["value"])
        assert resumed.provenance["elapsed"] > resumed.provenance["timing"]["run"]


def test_resume_without_a_checkpoint_starts(counter, run):
    run(counter.deck(), resume=True)
    assert "deck.h5" in counter.files()


def test_resume_refuses_another_problem(counter, run):
    deck = counter.deck(**SLOW)
    stop(run, deck)
    before = (counter.folder / "deck.ckpt.h5").read_bytes()
    with pytest.raises(DeckError, match=r"count\.growth") as error:
        run(deck, "count.growth=3.7", resume=True)
    assert "--allow-changes" in error.value.hint
    assert (counter.folder / "deck.ckpt.h5").read_bytes() == before
    run(deck, "count.growth=3.7", resume=True, allow_changes=True, figures=False)
    with open_results("deck.h5") as results:
        assert results.deck["count"]["growth"] == 3.7
        assert any("continuing with changed keys: count.growth" in line for line in results.log)


def test_a_resumed_run_may_go_further(counter, run):
    deck = counter.deck(**SLOW)
    stop(run, deck)
    run(deck, "count.steps=65", resume=True, figures=False)
    with open_results("deck.h5") as results:
        assert results["value"].shape == (65,)


def test_a_damaged_checkpoint_is_refused(counter, run, no_work):
    (counter.folder / "deck.ckpt.h5").write_text("nonsense")
    with pytest.raises(FileError, match="cannot be read"):
        run(counter.deck(), resume=True)


def test_a_forced_run_that_was_stopped_can_be_resumed(counter, run):
    deck = counter.deck(**SLOW)
    run(deck, "count.pause=0", figures=False)
    stop(run, deck, force=True)
    assert "deck.h5" in counter.files()
    with pytest.raises(DeckError, match=r"run\.seed \(\d+ then, 3 now\)"):
        run(deck, "run.seed=3", resume=True, figures=False)
    run(deck, resume=True, figures=False)
    assert counter.files() == ["deck.h5", "deck.summary.json"]


class TestResumeOfACompleteRun:
    @pytest.fixture
    def deck(self, counter, run, monkeypatch):
        deck = counter.deck()
        run(deck)

        def work(*arguments):
            raise AssertionError("work was done")

        monkeypatch.setattr("qsim.counter.run.run", work)
        return deck

    def test_touches_nothing(self, counter, run, deck):
        before = {name: (counter.folder / name).stat().st_mtime_ns for name in counter.files()}
        outcome = run(deck, resume=True)
        assert outcome.already
        assert outcome.summary["status"] == "complete"
        assert {name: (counter.folder / name).stat().st_mtime_ns for name in counter.files()} == before

    def test_refuses_another_problem(self, run, deck):
        with pytest.raises(DeckError, match=r"another problem.*count\.steps"):
            run(deck, "count.steps=21", resume=True)

    def test_refuses_a_foreign_file(self, counter, run, deck):
        (counter.folder / "deck.h5").write_text("not HDF5")
        with pytest.raises(FileError):
            run(deck, resume=True)

    def test_completes_what_a_killed_run_had_not_written(self, counter, run, deck):
        for name in ("deck.summary.json", "deck.value.png"):
            (counter.folder / name).unlink()
        run(deck, resume=True)
        assert counter.files() == ["deck.h5", "deck.summary.json", "deck.value.png"]
        assert json.loads((counter.folder / "deck.summary.json").read_text())["device"] == "cpu"

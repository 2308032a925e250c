"""Tables of many runs: one unit in a column, what they are drawn against, warnings, differences with their errors."""

import math
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import MismatchError
from qsim.core.physics.conversion import factor_between
from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.display.overlay import overlay
from qsim.core.results.plotting import figure, style
from qsim.core.results.results import open_results
from qsim.core.results.summary import summary, write_summary
from qsim.core.results.tables import NO_ERROR, Scalar, Table
from qsim.core.results.writing import Content, write_results
from qsim.core.sweeps.collect import _axis, _drawn, _figure, draw_collection
from qsim.core.sweeps.gather import collect
from qsim.core.sweeps.runs import find_runs
from tests.core.test_sweep import rows


def run_of(folder, name, deck, scalars, *, method="qoc", written="", title="t", **more):
    """Write results and summary of a run that was never made."""
    provenance = {"deck": {"method": method, **deck}, "deck_text": written, "overrides": [], **more}
    write_results(
        folder / f"{name}.h5",
        Content(method, title, "complete", [Table("a", ("a",))], {"a": np.zeros(1)}, scalars, provenance),
    )
    with open_results(folder / f"{name}.h5") as results:
        content = summary(results, device="cpu", precision="double", seed=1, timing={}, files=[])
    write_summary(folder / f"{name}.summary.json", content)


def columns_of(folder):
    table = collect(find_runs([folder]))
    return table, {column.name: column for column in table.columns}


# --- units ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "wanted", "name", "factor"),
    [
        ("kb", "Mb", "", 1e-3),
        ("b/(eV sr^2)", "kb/(hartree sr^2)", "", 1e-3 * 27.211386245981),
        ("a0^2", "Mb", "", 28.0028520),
        ("pi a0^2", "b", "", math.pi * 28.0028520e6),
        ("fs", "a.u.", "time", 41.3413734),
        ("degree", "rad", "", math.pi / 180),
        ("hartree", "hartree", "", 1.0),
        # of other quantities, or of none that is known
        ("fs", "a.u.", "x", None),
        ("V/nm", "a.u.", "time", None),
        ("hartree", "J", "", None),
        ("hartree", "bohr", "", None),
        ("kb", "hartree", "", None),
        ("kb/sr", "kb", "", None),
        ("", "kb", "", None),
        ("s", "fs", "", None),
    ],
)
def test_factors_between_units(unit, wanted, name, factor):
    found = factor_between(unit, wanted, name)
    assert found == (None if factor is None else pytest.approx(factor, rel=1e-8))


def test_a_column_has_one_unit(tmp_path):
    for n, (value, error, unit) in enumerate(((0.37, 0.02, "Mb"), (370.0, 20.0, "kb"), (3.7e5, None, "b"))):
        run_of(tmp_path, f"r-{n}", {"x": n}, {"sigma_photo": Scalar(value, unit, error)})
    _, found = columns_of(tmp_path)
    assert found["sigma_photo"].unit == found["sigma_photo_error"].unit == "Mb"
    assert found["sigma_photo"].cells == pytest.approx((0.37,) * 3, rel=1e-12)
    assert found["sigma_photo_error"].cells[:2] == pytest.approx((0.02,) * 2, rel=1e-12)
    assert found["sigma_photo_error"].cells[2] is None


def test_units_of_different_quantities_are_refused(tmp_path, command):
    for n, unit in enumerate(("hartree", "J")):
        run_of(tmp_path, f"r-{n}", {"x": n}, {"energy": Scalar(1.0, unit, 0.1), "norm": Scalar(1.0)})
    with pytest.raises(MismatchError, match="energy is in hartree in r-0 and in J in r-1"):
        columns_of(tmp_path)
    reply = command("collect", tmp_path, "-o", tmp_path / "t.csv", "--scalar", "norm", "--no-figures")
    assert reply.exit_code == 0, reply.stderr


def test_runs_in_two_units_are_compared_and_drawn_in_one(tmp_path):
    for name, factor, unit in (("a", 1.0, "Mb"), ("b", 1e3, "kb")):
        sigma = np.array([0.4, 0.3, 0.1]) * factor
        tables = [Table("energy", ("energy",), "eV"), Table("sigma", ("energy",), unit)]
        write_results(
            tmp_path / f"{name}.h5",
            Content(
                "qoc",
                "t",
                "complete",
                tables,
                {"energy": np.array([20.0, 30.0, 40.0]), "sigma": sigma},
                {"total": Scalar(0.8 * factor, unit, 0.01 * factor)},
                {},
            ),
        )

    def drawn(results):
        fig = figure()
        ax = fig.subplots()
        ax.errorbar(results["energy"], results["sigma"], yerr=0.1 * results["sigma"])
        ax.set(xlabel="energy (eV)", ylabel=results.label("sigma"))
        return fig

    with open_results(tmp_path / "a.h5") as a, open_results(tmp_path / "b.h5") as b:
        assert all(item.same for item in compare_results(a, b, Tolerance(1e-9, 0.0, 0.0), factor_between))
        assert not all(item.same for item in compare_results(a, b, Tolerance()))
        fig = overlay(drawn, [a, b], ["a", "b"], factor_between)
    lines = [line for line in fig.axes[0].get_lines() if np.size(line.get_xdata()) == 3]
    assert np.allclose(lines[0].get_ydata(), lines[-1].get_ydata())
    assert len(lines) == 2


# --- what is drawn --------------------------------------------------------------------------------


def axis_of(tmp_path, decks, written=None, **options):
    for n, deck in enumerate(decks):
        text = written(n) if written else "method: qoc\n"
        run_of(tmp_path, f"r-{n}", deck, {"P": Scalar(0.2 + 0.1 * n * n, "", 0.01)}, written=text, **options)
    table, _ = columns_of(tmp_path)
    return table, _axis(table)


def test_files_and_words_are_ticks_and_drawn_seeds_are_no_axis(tmp_path):
    decks = [
        {"w": {"file": f"chk/lih_{r}.chk"}, "run": {"seed": 977 * n}}
        for n, r in enumerate((2.4, 1.4, 1.9, 3.1))
    ]
    table, axis = axis_of(tmp_path, decks)
    assert [column.name for column in table.of("key")] == ["w.file"]
    assert axis.name == "w.file"
    with style():
        ax = _figure(table, axis, table.of("scalar")).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == [
        f"lih_{r}.chk" for r in (2.4, 1.4, 1.9, 3.1)
    ]
    assert ax.get_lines()[0].get_linestyle() == "None"
    assert [path.name for path in draw_collection(table, tmp_path / "t")] == ["t.png"]


def test_seeds_that_were_given_are_a_column(tmp_path):
    decks = [{"run": {"seed": seed}} for seed in (3, 8, 9)]
    table, axis = axis_of(tmp_path, decks, lambda n: f"method: qoc\nrun: {{seed: {(3, 8, 9)[n]}}}\n")
    assert [column.name for column in table.columns] == ["run.seed", "P", "P_error"]
    assert axis.name == "run.seed"


def test_a_number_goes_before_words_that_vary_as_much(tmp_path):
    decks = [{"w": {"file": f"{n}.chk", "R": 1.0 + n}} for n in range(3)]
    assert axis_of(tmp_path, decks)[1].name == "w.R"


def test_nothing_is_drawn_twice_and_the_figure_has_a_title(tmp_path):
    for n in range(4):
        P, peak = 0.3 + 0.1 * n, 0.01 * (1 + n * n)
        scalars = {
            "probability": Scalar(P),
            "objective": Scalar(P),
            "peak_field": Scalar(peak, "a.u."),
            "peak_field_si": Scalar(peak * 514.22, "V/nm"),
            "double": Scalar(2 * P),
            "norm_error": Scalar(1e-15 * (n + 1)),
        }
        run_of(tmp_path, f"r-{n}", {"x": {"a": float(n)}}, scalars, title="a pulse")
    table, _ = columns_of(tmp_path)
    assert [column.name for column in _drawn(table)] == ["probability", "peak_field", "double"]
    assert table.title == "a pulse: 4 runs"


def test_contents_of_files_of_one_name_are_a_column(tmp_path):
    for n, content in enumerate(("a" * 64, "b" * 64, "b" * 64)):
        physics = {"w": {"file": {"file": "pot.csv", "content": content}}}
        run_of(tmp_path, f"r-{n}", {"w": {"file": "pot.csv"}}, {"P": Scalar(0.1 * n)}, physics=physics)
    _, found = columns_of(tmp_path)
    assert found["w.file.content"].cells == ("a" * 12, "b" * 12, "b" * 12)


# --- warnings and errors --------------------------------------------------------------------------


def test_warnings_and_unknown_errors_stand_in_the_table(tmp_path, command):
    told = ["8 blocks are too few for error bars; 20 are needed"]
    for n in range(3):
        energy = Scalar(-8.0 - n, "hartree", None, note=NO_ERROR)
        run_of(tmp_path, f"r-{n}", {"R": 1.0 + n}, {"dmc_energy": energy}, warnings=told if n else [])
    reply = command("collect", tmp_path, "-o", tmp_path / "t.csv", "--all", "--no-figures")
    assert reply.exit_code == 0, reply.stderr
    assert "2 of 3 rows are of runs with warnings" in reply.stderr
    table = rows(tmp_path / "t.csv")
    assert [row["dmc_energy_error (hartree)"] for row in table] == [""] * 3
    assert [row["warnings"] for row in table] == ["", *told * 2]


def test_a_sweep_marks_runs_that_warn_and_counts_them(counter, command):
    words = ["sweep", counter.deck(), "--over", "count.growth=0.8,0.9,3.5"]
    dry = command(*words, "--dry-run")
    assert (dry.exit_code, counter.files()) == (0, [])
    assert "the map dies out" in dry.stderr
    assert "all 3 decks are valid" in dry.stderr
    reply = command(
        "sweep", counter.deck(), "--over", "count.growth=0.8,3.5", "--over", "count.stepz=1,2", "--dry-run"
    )
    assert reply.exit_code == 3
    assert "count.stepz: unknown key" in reply.stderr
    refused = command("sweep", counter.deck(), "--over", "count.start=0.4,0.5", "--dry-run")
    assert (refused.exit_code, "0.5 is no start" in refused.stderr) == (3, True)


# --- differences ----------------------------------------------------------------------------------


@pytest.fixture
def atoms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_of(tmp_path, "lih", {}, {"e": Scalar(-8.07, "hartree", 0.003), "e0": Scalar(-8.5, "hartree", 0.01)})
    run_of(tmp_path, "li", {}, {"e": Scalar(-7.478, "hartree", 0.001)})
    run_of(tmp_path, "h", {}, {"e": Scalar(-13.6, "eV", 0.0), "word": Scalar("good")})
    run_of(tmp_path, "x", {}, {"e": Scalar(-1.0, "hartree"), "s": Scalar(1.0, "kb", 0.1)})


@pytest.mark.parametrize(
    ("words", "value", "error"),
    [
        ("lih.h5 - li.h5 - h.h5 e", -8.07 + 7.478 + 13.6 / 27.211386245981, math.hypot(0.003, 0.001)),
        ("2*lih.h5 - 0.5*li.h5 e", -16.14 + 3.739, math.hypot(0.006, 0.0005)),
        ("lih.h5:e - lih.h5:e0", 0.43, 0.013),
        ("- lih.h5 + li.h5 e", 0.592, math.hypot(0.003, 0.001)),
        ("li.h5 e", -7.478, 0.001),
    ],
)
def test_differences_of_runs_with_their_errors(atoms, command, words, value, error):
    import json

    reply = command("difference", *words.split(), "--json")
    assert reply.exit_code == 0, reply.stderr
    found = json.loads(reply.stdout)
    assert (found["value"], found["error"]) == pytest.approx((value, error), rel=1e-9)
    assert found["unit"] == "hartree"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("lih.h5 - x.h5 e", 0, "(no error known: none is stated by x.h5)"),
        ("lih.h5:e - x.h5:s", 7, "s of x.h5 is in 'kb', e of lih.h5 in 'hartree'"),
        ("lih.h5 - h.h5 word", 2, "has no scalar 'word'"),
        ("h.h5 word", 7, "no number"),
        ("lih.h5 li.h5 e", 2, "expected '+' or '-'"),
        ("lih.h5 - - li.h5 e", 2, "expected a results file"),
        ("lih.h5 - li.h5", 2, "no scalar"),
        ("lih.h5 - e", 2, "expected results files"),
        ("a*lih.h5 - li.h5 e", 2, "'a' of 'a*lih.h5' is no number"),
        ("gone.h5 - li.h5 e", 6, "no results file gone.h5"),
    ],
)
def test_differences_that_are_none(atoms, command, words, code, message):
    reply = command("difference", *words.split())
    assert reply.exit_code == code, reply.stderr
    assert message in reply.stdout + reply.stderr


def test_a_folder_is_no_page(counter, command):
    Path("-x.sweep").mkdir()
    reply = command("view", "--", "-x.sweep")
    assert reply.exit_code == 2
    assert "qsim collect ./-x.sweep -o table.csv" in reply.stderr

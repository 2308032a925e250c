"""Decks and results in Python: mappings as decks, text and tables of results, labelled arrays, figures in given axes."""

import gc
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.figure import Figure

import qsim
from qsim.core.errors import DeckError, FileError, NumericsError, Stopped
from qsim.core.results.tables import Scalar, Table
from qsim.core.results.writing import Content, write_results
from qsim.core.run.progress import Monitor

ROTOR = {
    "method": "trotter",
    "title": "two spins & <one> bond",
    "system": {"spins": 2, "terms": [{"type": "pairs", "list": [[0, 1, 1.0, 1.0, 1.0]]}]},
    "initial": {"type": "basis", "up": [0]},
    "evolve": {"t_final": np.float64(3.0), "outputs": np.int64(31), "accuracy": 1e-8},
    "observe": [{"sz": "all"}],
    "run": {"seed": 1},
}


@pytest.fixture(scope="module")
def results():
    with qsim.run(ROTOR, device="cpu") as opened:
        yield opened


def test_a_mapping_is_a_deck(results):
    """Two spins exchange their polarisation: sz(0) = cos(J t) / 2 for H = J S1.S2."""
    assert results.deck["system"]["spins"] == 2
    assert results.provenance["command"] == "qsim.run({...})"
    np.testing.assert_allclose(results["sz"][:, 0], 0.5 * np.cos(results["time"]), atol=1e-5)


def test_results_of_a_mapping_live_until_they_are_closed():
    results = qsim.run(ROTOR, device="cpu")
    folder = results.path.parent
    assert sorted(path.name for path in folder.iterdir()) == ["deck.h5", "deck.summary.json"]
    results.close()
    assert not folder.exists()
    forgotten = qsim.run(ROTOR, device="cpu")
    folder = forgotten.path.parent
    del forgotten
    gc.collect()
    assert not folder.exists()


def test_a_mapping_with_an_output_is_kept(tmp_path):
    with qsim.run(ROTOR, device="cpu", output=tmp_path / "rotor.h5") as results:
        assert results.path == tmp_path / "rotor.h5"
    assert (tmp_path / "rotor.h5").exists()
    with pytest.raises(FileError, match="exist already"):
        qsim.run(ROTOR, device="cpu", output=tmp_path / "rotor.h5")


def test_overrides_are_texts_or_a_mapping():
    with qsim.run(ROTOR, device="cpu", overrides={"evolve.t_final": 2, "title": "a: b"}) as results:
        assert results["time"][-1] == 2.0
        assert results.title == "a: b"
    with pytest.raises(DeckError, match=r"<--set evolve.t_end>: evolve.t_end: unknown key"):
        qsim.run(ROTOR, overrides=["evolve.t_end=2"])


def test_progress_is_shown_on_request(capfd):
    with qsim.run(ROTOR, device="cpu", progress=True):
        assert "two spins" in capfd.readouterr().err
    with qsim.run(ROTOR, device="cpu"):
        assert capfd.readouterr() == ("", "")


def test_text_and_html_show_scalars_and_arrays(results):
    text = repr(results)
    assert text.startswith("<Results of qsim trotter: two spins & <one> bond (")
    assert "error_estimate" in text
    assert "sz" in text.splitlines()[-1]
    assert str(results.scalars["steps"]) == f"{results.scalars['steps'].value}"
    assert " ± " in str(Scalar(0.5, "hartree", 0.01))
    page = results._repr_html_()
    assert "two spins &amp; &lt;one&gt; bond" in page
    assert "<one>" not in page
    assert page.count("<table>") == page.count("</table>") == 2


def test_xarray_has_dimensions_units_and_scalars(results):
    data = results.to_xarray()
    assert data["sz"].dims == ("time", "site")
    assert data["time"].attrs["units"] == "1/J"
    assert data.attrs["steps"] == results.scalars["steps"].value
    assert data["sz"].sel(site=0).interp(time=1.0).item() == pytest.approx(0.5 * np.cos(1.0), abs=5e-3)
    with pytest.raises(KeyError, match="no arrays in the group 'nothing'"):
        results.to_xarray("nothing")


def test_results_are_a_mapping_of_arrays(results):
    assert list(results) == list(results.keys()) == list(results.names)
    assert len(results) == len(results.names)
    assert results._ipython_key_completions_() == list(results.names)
    assert {name: array.shape for name, array in results.items()} == {
        name: results.shape(name) for name in results
    }
    assert float(results.scalars["error_estimate"]) == results.scalars["error_estimate"].value
    assert "error_estimate  " in repr(results.scalars)
    with pytest.raises(
        KeyError, match=r"has no scalar 'error_estimat'; did you mean 'error_estimate'\?; it has "
    ):
        results.scalars["error_estimat"]
    with pytest.raises(KeyError, match=r"'error_estimate' is a scalar: results.scalars\['error_estimate'\]"):
        results["error_estimate"]
    with pytest.raises(KeyError, match=r"no array 'szz'; did you mean 'sz'\?"):
        results["szz"]


def test_tables_of_pandas(results):
    scalars = results.to_dataframe()
    assert list(scalars.columns) == ["value", "error", "unit", "meaning"]
    assert scalars.loc["error_estimate", "value"] == results.scalars["error_estimate"].value
    curve = qsim.table(results, "sz", at={"site": 1})
    assert list(curve.columns) == ["time (1/J)", "site", "sz (hbar)"]
    assert curve["sz (hbar)"].tolist() == results["sz"][:, 1].tolist()


def test_xarray_keeps_errors_units_and_data_that_are_no_axis(tmp_path):
    tables = [
        Table("E", ("state",), "hartree"),
        Table("E_error", ("state",), "hartree"),
        Table("ratios", ("ratios",), ""),
    ]
    arrays = {"E": np.array([2.0, 1.0]), "E_error": np.array([0.1, 0.2]), "ratios": np.array([0.7, 0.2, 0.5])}
    scalars = {"gap": Scalar(0.55, "hartree", 0.02), "none": Scalar(None)}
    write_results(
        tmp_path / "r.h5", Content("trotter", "t", "complete", tables, arrays, scalars, {"deck": {}})
    )
    with qsim.open_results(tmp_path / "r.h5") as results:
        data = results.to_xarray()
    assert data.attrs["gap"] == 0.55
    assert data.attrs["gap_error"] == 0.02
    assert data.attrs["gap_units"] == "hartree"
    assert "none" not in data.attrs
    assert data["ratios"].dims == ("ratios_index",)
    assert "ratios" in data.data_vars
    assert data["E"].attrs["ancillary_variables"] == "E_error"
    with pytest.raises(FileError, match="is closed, its arrays cannot be read any more"):
        results["E"]


def test_decks_are_checked_without_a_run(tmp_path):
    assert qsim.validate(ROTOR)
    found = qsim.validate(ROTOR, overrides={"evolve.t_end": 3})
    assert not found
    assert [problem.key for problem in found.errors] == ["evolve.t_end"]
    assert repr(found).startswith("mistaken\n")
    assert not qsim.validate({"method": "alchemy"})
    with pytest.raises(TypeError, match="a deck is the path of a YAML file or a mapping"):
        qsim.validate(7)
    with pytest.raises(FileError):
        qsim.validate(tmp_path / "none.yaml")


def test_a_sweep_of_a_mapping_is_a_table(tmp_path):
    couplings = {"system.terms.0.list": [[[0, 1, J, J, J]] for J in (0.5, 1.0)], "evolve.t_final": "1:2:2"}
    runs = qsim.sweep(ROTOR, couplings, device="cpu")
    frame = runs.to_dataframe()
    assert frame["evolve.t_final"].tolist() == [1, 2, 1, 2]
    assert len(runs) == 4
    assert "evolve.t_final" in repr(runs)
    # a folder is continued, and collected again
    for count in (1, 2):
        kept = qsim.sweep(ROTOR, {"evolve.t_final": [1.0, 2.0][:count]}, folder=tmp_path / "s", device="cpu")
        assert len(kept) == count
    again = qsim.collect(tmp_path / "s", everything=True)
    assert "error_estimate" in again.to_dataframe().columns
    assert again.write(tmp_path / "t.csv").read_text().startswith("run,evolve.t_final,")
    with pytest.raises(KeyError, match="no run has the scalar 'nothing'"):
        qsim.collect(tmp_path / "s", scalars=["nothing"])
    with pytest.raises(DeckError):
        qsim.sweep(ROTOR, {"evolve.t_end": [1.0]})


def test_runs_are_compared_and_cited(results):
    assert qsim.compare(results, results)
    with qsim.run(ROTOR, device="cpu", overrides={"evolve.t_final": 2.0}) as other:
        found = qsim.compare(results, other.path)
    assert not found
    assert "time" in {item.name for item in found.differing}
    assert "quantities agree" in repr(found)
    assert qsim.cite(results) == qsim.cite(ROTOR) == qsim.cite(results.path)
    assert "@" in qsim.cite(results)
    names = [example.name for example in qsim.examples("trotter")]
    assert "ring_echo" in names
    assert all(
        issubclass(getattr(qsim, name), Exception)
        for name in ("QsimError", "DeckError", "Stopped", "FileError")
    )


def test_numbers_of_runs_are_added(results):
    energy, other = results.scalars["energy_final"], results.path.with_name("a:b.h5")
    shutil.copy(results.path, other)
    place = str(results.path)
    found = qsim.difference({place: 1, other: -3, f"{place}:energy_initial": 0.5}, "energy_final")
    first = results.scalars["energy_initial"]
    assert float(found) == pytest.approx(-2.0 * energy.value + 0.5 * first.value, rel=1e-14)
    assert found.unit == energy.unit
    with pytest.raises(ValueError, match="names no scalar"):
        qsim.difference({place: 1})
    with pytest.raises(ValueError, match="found none"):
        qsim.difference({}, "energy_final")
    with pytest.raises(KeyError):
        qsim.difference({place: 1}, "nothing")


def test_a_mistake_of_a_user_has_a_short_traceback():
    with pytest.raises(DeckError) as caught:
        qsim.run(ROTOR, overrides={"evolve.t_end": 3})
    # this function, `run`, and where it is raised again
    assert len(caught.traceback) <= 4


def test_figures_and_arrays_are_drawn_where_one_wants(results):
    assert isinstance(results.plot("sz_map"), Figure)
    fig = Figure()
    left, right = fig.subplots(1, 2)
    results.plot("sz_map", ax=left)
    results.plot("norm", ax=right, color="green", label="norm")
    (inside,) = fig.subfigs
    assert inside.axes  # the figure of the method, in the place of the left axes
    assert left not in fig.axes
    assert right.get_lines()[0].get_color() == "green"
    assert right.get_xlabel() == "time (1/J)"
    with pytest.raises(KeyError, match="did you mean 'norm'"):
        results.plot("norn")
    with pytest.raises(ValueError, match="stand in no grid"):
        results.plot("sz_map", ax=Figure().add_axes((0, 0, 1, 1)))


def test_importing_qsim_loads_nothing_heavy():
    code = (
        "import sys, qsim; heavy = {'numpy', 'h5py', 'click', 'pydantic', 'matplotlib', 'xarray', 'numba'};"
        "assert not heavy & set(sys.modules); assert 'run' in dir(qsim); qsim.run; assert 'numba' not in sys.modules;"
        "assert 'matplotlib' not in sys.modules and 'xarray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = qsim.runn


def test_a_figure_shows_itself_in_a_notebook(results):
    """Without pyplot, whose backend would do it otherwise."""
    picture = results.plot("sz_map")._repr_png_()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 3000


def test_a_mapping_that_is_stopped_keeps_its_checkpoint_and_is_resumed(counter, monkeypatch, tmp_path):
    """With its overrides and settings of the run changed, too; another mapping starts anew."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    deck = {"method": "counter", "count": {"steps": 30}, "run": {"seed": 4}}
    step = Monitor.step

    def interrupted(self, done, *given, **more):
        if done == 7:
            os.kill(os.getpid(), signal.SIGINT)
        step(self, done, *given, **more)

    with monkeypatch.context() as patch, pytest.raises(Stopped) as caught:
        patch.setattr(Monitor, "step", interrupted)
        qsim.run(deck)
    assert caught.value.checkpoint.is_file()
    with qsim.run({**deck, "run": {"seed": 4, "checkpoint": 5.0}}, resume=True) as results:
        assert "continuing from" in "".join(results.log)
        values = results["value"]
        folder = results.path.parent
    assert folder == caught.value.checkpoint.parent
    assert not folder.exists()
    with qsim.run(deck, resume=True) as results:
        assert "no checkpoint" in "".join(results.log)
        assert np.array_equal(results["value"], values)


def test_a_mapping_that_fails_leaves_nothing(counter, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(NumericsError):
        qsim.run({"method": "counter", "count": {"steps": 20, "fail": "nan"}})
    assert list(tmp_path.glob("qsim-*")) == []


def test_results_of_two_methods_are_not_compared(results, command, tmp_path):
    content = Content("qoc", "t", "complete", [Table("a", ("a",))], {"a": np.zeros(1)}, {}, {"deck": {}})
    write_results(tmp_path / "other.h5", content)
    reply = command("compare", results.path, tmp_path / "other.h5")
    assert reply.exit_code == 7
    assert "holds results of trotter" in reply.stderr
    assert "of qoc: their quantities are not the same" in reply.stderr
    found = qsim.compare(results, tmp_path / "other.h5")
    assert found[0].note == "different methods"


SPIN = {
    "method": "trotter",
    "system": {"spins": 1, "terms": [{"type": "field", "axis": "x", "values": 1.0}]},
    "initial": "neel",
    "evolve": {"t_final": 1.0, "accuracy": 1e-6},
}


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (lambda: qsim.run(SPIN, divice="cpu"), "no option 'divice'; did you mean 'device'"),
        (lambda: qsim.run("method: trotter\ntitle: a\n"), "a path or a mapping, not the text of one"),
        (lambda: qsim.sweep(SPIN, {"evolve.t_final": 3.0}), "evolve.t_final: expected a list of values"),
    ],
)
def test_mistaken_calls_name_the_remedy(call, answer):
    with pytest.raises(TypeError, match=answer):
        call()


def test_one_text_is_one_override():
    assert not qsim.validate(SPIN, overrides="evolve.t_final=-1")
    assert qsim.validate(SPIN, overrides="evolve.t_final=1.5")

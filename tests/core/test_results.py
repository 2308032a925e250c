"""Results files: layout, what other readers see of it, atomic writing, refusals."""

import json
import math
import os
import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest

from qsim.core.errors import FileError
from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.jsonable import json_ready
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary, summary, write_summary
from qsim.core.results.tables import NO_ERROR, Scalar, Table
from qsim.core.results.writing import Content, write_results

TABLES = (
    Table("time", ("time",), "a.u.", "output times"),
    Table("x", ("x",), "bohr", "grid points"),
    Table("psi", ("time", "x"), "", "wave function"),
    Table("populations", ("time", "level"), "", "population of each level", note="of the field-free levels"),
    Table("names", ("level",), "", "names of the levels"),
    Table("kept", ("level",), "", "levels kept"),
    Table("history/sweep", ("sweep",), "", "number of the sweep"),
    Table("history/cost", ("sweep",), "hartree", "cost after each sweep"),
    Table("history/norm", ("time",), "", "norm", label="|psi|^2"),
    Table("basis/l*/beta", ("n",), "", "eigenvalues"),
    Table("unused", ("time",), "", "not written in this run"),
)


def arrays():
    rng = np.random.default_rng(1)
    return {
        "time": np.linspace(0.0, 1.0, 5),
        "x": np.linspace(-1.0, 1.0, 4),
        "psi": rng.normal(size=(5, 4)) + 1j * rng.normal(size=(5, 4)),
        "populations": rng.random((5, 3)),
        "names": np.array(["1σ", "2σ", "1π"]),
        "kept": np.array([True, False, True]),
        "history/sweep": np.arange(6),
        "history/cost": rng.random(6),
        "history/norm": np.ones(5, dtype=np.float32),
        "basis/l0/beta": rng.random(7),
        "basis/l1/beta": rng.random(6),
    }


SCALARS = {
    "probability": Scalar(0.75, error=0.01, description="of the target level"),
    "energy": Scalar(-0.5, "hartree", note=NO_ERROR),
    "sweeps": Scalar(12),
    "converged": Scalar(True),
    "missing": Scalar(None, "hartree"),
    "diverged": Scalar(math.nan),
    "optimizer": Scalar("λ-BFGS"),
}
PROVENANCE = {
    "qsim_version": "1.2.3",
    "deck": {"method": "qoc", "time": {"T": 1.0, "steps": 4}, "list": [1, None, True]},
    "deck_text": "method: qoc  # Grüße\n",
    "seed": 2**40,
    "big": 2**70,
    "nothing": None,
    "timing": {"run": 1.5},
}


def write(path, **changes):
    content = {
        "method": "qoc",
        "title": "Test µ",
        "status": "complete",
        "tables": TABLES,
        "arrays": arrays(),
        "scalars": SCALARS,
        "provenance": PROVENANCE,
        "log": ["first line", "second line"],
    }
    settings = {"overwrite": changes.pop("overwrite", False)}
    return write_results(path, Content(**(content | changes)), **settings)


@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "run.h5")


def test_everything_written_is_read_back(file):
    with open_results(file) as results:
        assert (results.method, results.title, results.status) == ("qoc", "Test µ", "complete")
        assert results.format_version == (1, 1)
        assert results.log == ("first line", "second line")
        assert set(results.names) == set(arrays())
        for name, array in arrays().items():
            assert results[name].dtype == array.dtype, name
            np.testing.assert_array_equal(results[name], array)
        assert results.provenance == PROVENANCE
        assert results.deck == PROVENANCE["deck"]


def test_scalars_keep_value_type_unit_error_and_order(file):
    with open_results(file) as results:
        assert list(results.scalars) == list(SCALARS)
        for name, scalar in SCALARS.items():
            read = results.scalars[name]
            assert type(read.value) is type(scalar.value), name
            assert (read.unit, read.error, read.note) == (scalar.unit, scalar.error, scalar.note)
            assert read.value == scalar.value or math.isnan(read.value)
        assert results.scalars["probability"].description == "of the target level"


def test_a_scalar_is_found_by_its_alias_and_listed_once(tmp_path):
    """Also in a file that has no aliases yet: the short name is then the name of the same quantity."""
    new = {
        "f_1s_1S_to_2p_1P": Scalar(0.276, error=1e-3, alias="f_0_3"),
        "R": Scalar(8.0, alias="f_1s_1S_to_2p_1P"),
    }
    old = {"f_0_3": Scalar(0.276, error=1e-3), "R": Scalar(8.0)}
    with (
        open_results(write(tmp_path / "new.h5", scalars=new)) as first,
        open_results(write(tmp_path / "old.h5", scalars=old)) as second,
    ):
        assert first.scalars["f_0_3"].value == first.scalars["f_1s_1S_to_2p_1P"].value == 0.276
        assert "f_0_3" in first.scalars
        assert first.scalars.get("f_0_3").error == 1e-3
        assert list(first.scalars) == list(new)
        assert first.scalars.get("f_0_4") is None
        with pytest.raises(KeyError, match="f_0_4"):
            first.scalars["f_0_4"]
        for files in ((first, second), (second, first)):
            compared = {item.name: item.same for item in compare_results(*files, Tolerance())}
            assert compared["f_1s_1S_to_2p_1P"]
            assert "f_0_3" not in compared


def test_units_labels_and_dimensions(file):
    with open_results(file) as results:
        assert results.unit("time") == "a.u."
        assert results.label("time") == "time (a.u.)"
        assert results.label("history/norm") == "|psi|^2"
        assert results.label("history/cost") == "cost (hartree)"
        assert results.description("psi") == "wave function"
        assert results.dims("psi") == ("time", "x")
        assert results.dims("populations") == ("time", "level")
        assert results.dims("time") == ("time",)
        assert results.shape("psi") == (5, 4)
        assert "psi" in results
        assert "level" not in results
        with pytest.raises(KeyError, match=r"no array 'phi'; did you mean 'psi'\?; it has time, x, psi"):
            results["phi"]


def test_xarray_sees_dimensions_coordinates_and_complex_numbers(file):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    with xarray.open_dataset(file, engine="h5netcdf", group="results") as dataset:
        assert dataset.psi.dims == ("time", "x")
        assert dataset.psi.dtype == np.complex128
        np.testing.assert_array_equal(dataset.psi.values, arrays()["psi"])
        assert set(dataset.coords) == {"time", "x"}
        assert dataset.populations.dims == ("time", "level")
        assert dataset.populations.attrs["comment"] == "of the field-free levels"
        assert dataset.time.attrs["units"] == "a.u."
        assert dataset.sizes == {"time": 5, "x": 4, "level": 3}
        assert list(dataset.names.values) == ["1σ", "2σ", "1π"]
        assert dataset.kept.dtype == bool
        assert float(dataset.populations.sel(time=0.5, level=1)) == arrays()["populations"][2, 1]


def test_xarray_opens_every_group_as_a_tree(file):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    with xarray.open_datatree(file, engine="h5netcdf") as tree:
        history = tree["results/history"]
        assert history["cost"].dims == ("sweep",)
        assert history["norm"].dims == ("time",)
        np.testing.assert_array_equal(history["norm"].coords["time"], arrays()["time"])
        assert tree["results/basis/l1/beta"].sizes == {"n": 6}
        assert tree["scalars/probability"].attrs["error"] == 0.01


def test_every_axis_of_every_array_has_a_scale(file):
    def check(name, item):
        if isinstance(item, h5py.Dataset) and not item.is_scale:
            assert all(len(axis) == 1 for axis in item.dims), name
            assert {"units", "long_name", "label"} <= set(item.attrs), name

    with h5py.File(file) as content:
        content["results"].visititems(check)


def test_nexus_readers_find_the_plot(file):
    with h5py.File(file) as content:
        group = content["results"]
        assert content.attrs["default"] == "results"
        assert group.attrs["NX_class"] == "NXdata"
        assert group.attrs["signal"] == "psi"
        assert list(group.attrs["axes"]) == ["time", "x"]


def test_large_arrays_are_compressed_and_small_ones_are_not(tmp_path):
    tables = [Table("large", ("i",)), Table("small", ("j",))]
    path = write(tmp_path / "a.h5", tables=tables, arrays={"large": np.zeros(10_000), "small": np.zeros(100)})
    with h5py.File(path) as content:
        large, small = content["results/large"], content["results/small"]
        assert (large.compression, large.compression_opts, large.shuffle) == ("gzip", 1, True)
        assert large.id.get_storage_size() < large.nbytes / 50
        assert small.compression is None


@pytest.mark.parametrize("shape", [(0,), (1,)])
def test_empty_and_single_arrays(tmp_path, shape):
    tables = [Table("t", ("t",)), Table("f", ("t",)), Table("number", ())]
    data = {"t": np.zeros(shape), "f": np.zeros(shape), "number": np.float64(3.0)}
    with open_results(write(tmp_path / "a.h5", tables=tables, arrays=data)) as results:
        assert results["f"].shape == shape
        assert results["number"] == 3.0
        assert results.dims("number") == ()


@pytest.mark.parametrize(
    ("tables", "data", "message"),
    [
        ([], {"a": np.zeros(2)}, "without a table declaration: a"),
        ([Table("a", ("i", "j"))], {"a": np.zeros(2)}, r"has dimensions \('i', 'j'\).*shape \(2,\)"),
        ([Table("a", ("i", "i"))], {"a": np.zeros((2, 2))}, "repeats a dimension"),
        ([Table("a", ("a", "i"))], {"a": np.zeros((2, 2))}, "named like one of its dimensions"),
        (
            [Table("a", ("i",)), Table("b", ("i",))],
            {"a": np.zeros(2), "b": np.zeros(3)},
            "'i' has size 2, but 3 in table 'b'",
        ),
        (
            [Table("a", ("i",)), Table("g/b", ("i",))],
            {"a": np.zeros(2), "g/b": np.zeros(3)},
            "'g/i' has size 3, but 'i' above it has 2",
        ),
        ([Table("a", ("i",))], {"a": np.array([{}, 1], dtype=object)}, "Python objects"),
        ([Table("a", ("i",))], {"a": np.zeros(2, dtype=np.longdouble)}, "dtype .*128"),
    ],
)
def test_contradictions_are_refused_before_anything_is_written(tmp_path, tables, data, message):
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "a.h5", tables=tables, arrays=data)
    assert list(tmp_path.iterdir()) == []


def test_a_slash_in_a_scalar_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match="'a/b' cannot name"):
        write(tmp_path / "a.h5", scalars={"a/b": Scalar(1)})


def test_existing_file_is_kept_unless_told_otherwise(file):
    before = file.read_bytes()
    with pytest.raises(FileError, match="exists") as caught:
        write(file)
    assert caught.value.exit_code == 6
    assert "--force" in caught.value.hint
    assert file.read_bytes() == before
    write(file, overwrite=True, title="new")
    with open_results(file) as results:
        assert results.title == "new"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileError, match="no folder .*nowhere"):
        write(tmp_path / "nowhere" / "a.h5")


def test_failure_leaves_the_old_file_and_no_part(file, monkeypatch):
    before = file.read_bytes()

    def fail(*_args):
        raise OSError("disk full")

    monkeypatch.setattr("qsim.core.results.writing._write_provenance", fail)
    with pytest.raises(FileError, match="disk full"):
        write(file, overwrite=True)
    assert file.read_bytes() == before
    assert [entry.name for entry in file.parent.iterdir()] == ["run.h5"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits file sizes by RLIMIT_FSIZE")
def test_full_disk_is_a_file_error(tmp_path):
    script = f"""
        import resource, signal
        import numpy as np
        from qsim.core.errors import FileError
        from qsim.core.results.writing import Content, write_results
        from qsim.core.results.tables import Table
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        try:
            write_results({str(tmp_path / "a.h5")!r}, Content(method="m", title="", status="complete",
                tables=[Table("a", ("i",))], arrays={{"a": np.random.default_rng(1).random(100_000)}},
                scalars={{}}, provenance={{}}))
        except FileError as error:
            print("refused:", error)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, env=environment
    )
    assert "refused: cannot write" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_file(tmp_path):
    with pytest.raises(FileError, match="no results file"):
        open_results(tmp_path / "none.h5")


def test_text_file_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    path.write_text("time,norm\n0,1\n")
    with pytest.raises(FileError, match="cannot be read: .*expected a results file of qsim") as caught:
        open_results(path)
    assert "copy it again" in caught.value.hint


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.95])
def test_truncated_file_is_refused(file, fraction):
    content = file.read_bytes()
    file.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(FileError):
        open_results(file)


def test_damaged_array_is_a_file_error(tmp_path):
    path = write(
        tmp_path / "a.h5",
        tables=[Table("a", ("i",))],
        arrays={"a": np.random.default_rng(1).random(50_000)},
    )
    with h5py.File(path) as content:
        chunk = content["results/a"].id.get_chunk_info(0)
    # Without the sums of the whole file.
    h5py.File(path, "r+").close()
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * 64)
    with open_results(path) as results, pytest.raises(FileError, match="a.h5: array 'a' cannot be read"):
        results["a"]


def test_foreign_hdf5_file_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as content:
        content["x"] = 1
    with pytest.raises(FileError, match="not one of qsim"):
        open_results(path)


def test_checkpoint_is_refused_by_name(tmp_path):
    from qsim.core.run.checkpoint import save

    with pytest.raises(FileError, match="is a checkpoint"):
        open_results(save(tmp_path / "a.ckpt.h5", {}, {}))


def test_incomplete_file_is_refused(file):
    with h5py.File(file, "r+") as content:
        del content["scalars"]
    with pytest.raises(FileError, match="/scalars cannot be read"):
        open_results(file)


def test_newer_major_version_is_refused_and_newer_minor_is_read(file):
    with h5py.File(file, "r+") as content:
        content.attrs["format_version"] = [1, 7]
    open_results(file).close()
    with h5py.File(file, "r+") as content:
        content.attrs["format_version"] = [2, 0]
    with pytest.raises(FileError, match=r"has format 2\.0; this qsim reads up to 1\.x") as caught:
        open_results(file)
    assert "written by qsim 1.2.3" in caught.value.hint


def test_summary_is_flat_and_strict_json(file, tmp_path):
    with open_results(file) as results:
        content = summary(
            results,
            device="cpu",
            precision="double",
            seed=7,
            timing={"run": np.float64(1.5)},
            files=[file],
            warnings=["careful"],
            version="1.2.3",
        )
    path = write_summary(tmp_path / "run.summary.json", content)
    read = json.loads(path.read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert read.pop("checksum")
    assert read == content
    assert set(read) == {
        *("method", "title", "status", "device", "precision", "seed"),
        *("scalars", "timing", "files", "warnings", "version", "overrides", "deck"),
    }
    assert read["scalars"]["probability"] == {"value": 0.75, "error": 0.01, "unit": ""}
    assert read["scalars"]["energy"] == {"value": -0.5, "error": None, "unit": "hartree", "note": NO_ERROR}
    assert read_summary(path) == read
    assert read["scalars"]["diverged"]["value"] is None
    assert read["scalars"]["missing"]["value"] is None
    assert read["scalars"]["converged"]["value"] is True
    assert read["timing"] == {"run": 1.5}
    assert not list(tmp_path.glob("*.part"))


def test_json_ready_knows_numpy():
    value = {1: np.int64(2), "a": np.array([1.0, np.inf]), "z": 1 + 2j, "n": (np.bool_(True), None)}
    assert json_ready(value) == {"1": 2, "a": [1.0, None], "z": [1.0, 2.0], "n": [True, None]}


def test_unwritable_summary_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="cannot write"):
        write_summary(tmp_path / "none" / "a.json", {})

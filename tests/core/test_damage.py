"""Files that are damaged on purpose: other files behind links, sizes that are not there, types that crash HDF5, other layouts."""

import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace as Block

import h5py
import numpy as np
import pytest

from qsim.core.errors import FileError, QsimError
from qsim.core.results.arrays import map_array, map_arrays, read_arrays
from qsim.core.results.hdf5 import open_datasets, require_sound_heaps
from qsim.core.results.reading import open_binary, read_bytes, reading, require_room
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary, write_summary
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.qmc.system.pseudopotentials import read_xml
from qsim.qmc.wavefunction.molecules.cache import open_cache

ORBITALS = Path(__file__).parents[1] / "reference_data" / "qmc_orbitals"

# ------------------------------------------------------------------------------------------------ guard


@pytest.mark.parametrize(
    "error", [OSError("no"), KeyError("no"), ZeroDivisionError("no"), MemoryError(), UserWarning("no")]
)
def test_damage_becomes_a_file_error_with_the_name(error):
    expected = pytest.raises(FileError, match=r"a\.h5: array 'x' cannot be read: .*; expected numbers")
    with expected as caught, reading("a.h5", "numbers", place="array 'x'", hint="copy it"):
        raise error
    assert (caught.value.exit_code, caught.value.hint) == (6, "copy it")


def test_errors_of_qsim_and_bugs_pass_the_guard():
    with pytest.raises(QsimError, match="mine"), reading("a", "numbers"):
        raise QsimError("mine")
    with pytest.raises(StopIteration), reading("a", "numbers"):
        raise StopIteration


def test_sizes_are_limited(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 100)
    assert read_bytes(path, "text", 100) == b"x" * 100
    with pytest.raises(FileError, match="larger than"):
        read_bytes(path, "text", 99)
    with pytest.raises(
        FileError, match=r"a: array 'x' announces 1e\+18 bytes, but .* bytes of memory are free"
    ):
        require_room(path, "array 'x'", 10**18)
    with pytest.raises(FileError, match="a cannot be read: broken; expected text"), open_binary(path, "text"):
        raise OSError("broken")


# --------------------------------------------------------------------------------------- NumPy's files


def header(path, shape, kind="<f8"):
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"shape": shape, "fortran_order": False, "descr": kind})
        file.write(b"\0" * 800)


@pytest.mark.parametrize("read", [read_arrays, map_array])
@pytest.mark.parametrize("shape", [(10**11,), (101,), (2**40, 2**40), (10, 11)])
def test_npy_that_announces_more_than_it_has(tmp_path, read, shape):
    header(tmp_path / "a.npy", shape)
    with pytest.raises(FileError, match=r"a\.npy: its array announces \d+ bytes .* but only 800 are there"):
        read(tmp_path / "a.npy", "numbers")


def test_npy_that_is_as_it_says_is_read(tmp_path):
    for array in (
        np.zeros((0, 3)),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(3),
        np.array(["a", "b"]),
    ):
        np.save(tmp_path / "a.npy", array)
        assert np.array_equal(read_arrays(tmp_path / "a.npy", "numbers")[""], array)
        if array.dtype.kind == "f":
            assert np.array_equal(map_array(tmp_path / "a.npy", "numbers"), array)


@pytest.mark.parametrize("read", [read_arrays, map_arrays])
def test_members_of_npz(tmp_path, read):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3.0), b=np.asfortranarray(np.ones((2, 3))), none=np.zeros(0))
    assert {name: array.shape for name, array in read(path, "a").items()} == {
        "a": (3,),
        "b": (2, 3),
        "none": (0,),
    }
    header(tmp_path / "lie.npy", (10**9,))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "lie.npy", "lie.npy")
        archive.writestr("readme.txt", "not an array")
    with pytest.raises(FileError, match=r"a\.npz: array 'lie' announces 8000000000 bytes"):
        read(path, "a")
    np.savez(path, objects=np.array([{}], object))
    with pytest.raises(FileError, match="array 'objects' holds Python objects"):
        read(path, "a")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("qsim.core.results.reading.free_host_memory", lambda: 2**26)
    path = tmp_path / "bomb.npz"
    header(tmp_path / "a.npy", (9 * 10**6,))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("a.npy", (tmp_path / "a.npy").read_bytes()[:-800] + bytes(72 * 10**6))
    with pytest.raises(FileError, match=r"bomb\.npz: array 'a' announces .* bytes of memory are free"):
        read_arrays(path, "a")


def test_a_flipped_bit_in_a_packed_array_is_noticed(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(100.0))
    data = bytearray(path.read_bytes())
    data[400] ^= 4
    path.write_bytes(data)
    with pytest.raises(FileError, match="Bad CRC-32"):
        read_arrays(path, "a")


# ------------------------------------------------------------------------------------------------ HDF5


def all_datasets(path):
    file, found = open_datasets(path)
    with file:
        return {name: dataset[...] for name, dataset in found.items()}


def test_other_files_are_not_followed(tmp_path):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["x"] = np.ones(4)
    cases = {
        "a link": lambda f: f.__setitem__("x", h5py.ExternalLink("secret.h5", "/x")),
        "a link on the way": lambda f: (
            f.__setitem__("g", h5py.ExternalLink("secret.h5", "/")),
            f.__setitem__("x", h5py.SoftLink("/g/x")),
        ),
        "raw storage": lambda f: f.create_dataset("x", (4,), "f8", external=[("/etc/passwd", 0, 32)]),
        "a virtual dataset": lambda f: f.create_virtual_dataset("x", _virtual(secret)),
    }
    for name, make in cases.items():
        path = tmp_path / "a.h5"
        with h5py.File(path, "w") as file:
            make(file)
        with pytest.raises(FileError, match=r"link to the file|data in other files") as caught:
            all_datasets(path)
        assert "no other file than the one named" in caught.value.hint, name


def _virtual(source):
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(source), "x", (4,))
    return layout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: f.__setitem__("x", h5py.SoftLink("/x")), "/x cannot be read: .*too many links"),
        (lambda f: f.__setitem__("x", h5py.SoftLink("/nowhere")), "/x cannot be read"),
        (lambda f: f.__setitem__("x", h5py.Empty("f8")), "dataset 'x' is empty"),
        (lambda f: f.create_dataset("x", (10**12,), "f8", chunks=(1000,)), "announces 8e[+]12 bytes"),
        (lambda f: f.__setitem__("x", ["a", "b"]), "dataset 'x' holds object, not numbers"),
        (
            lambda f: f.create_dataset("x", (2,), h5py.vlen_dtype(np.int32)),
            "dataset 'x' holds object, not numbers",
        ),
    ],
)
def test_datasets_that_cannot_be_used(tmp_path, make, message):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        make(file)
    with pytest.raises(FileError, match=rf"a\.h5: .*{message}"):
        all_datasets(tmp_path / "a.h5")


def test_links_inside_a_file_are_followed(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["results/x"] = np.arange(3.0)
        file["y"] = h5py.SoftLink("/results/x")
    assert {name: array.tolist() for name, array in all_datasets(tmp_path / "a.h5").items()} == {
        "results/x": [0, 1, 2],
        "y": [0, 1, 2],
    }


def texts(path):
    with h5py.File(path, "w") as file:
        file.attrs["format"] = "something"
        file["x"] = np.arange(3.0)
    data = bytearray(path.read_bytes())
    return data, data.index(b"GCOL")


def test_a_heap_that_hdf5_reads_for_ever_is_refused(tmp_path):
    path = tmp_path / "a.h5"
    data, heap = texts(path)
    require_sound_heaps(path)
    data[heap + 16 : heap + 32] = bytes(16)  # free space of length zero
    path.write_bytes(data)
    with pytest.raises(FileError, match=rf"a\.h5: the texts stored at byte {heap} are damaged"):
        open_datasets(path)
    data[heap + 16] = 1
    data[heap + 24 : heap + 32] = b"\xf0" + b"\xff" * 7  # a step back
    path.write_bytes(data)
    with pytest.raises(FileError, match="are damaged"):
        open_datasets(path)


def test_texts_longer_than_the_file_are_refused_before_they_are_allocated(tmp_path):
    path = checkpoint.save(tmp_path / "a.h5", {"x": 1}, {"method": "qoc"})
    with h5py.File(path) as file:
        offset = file["meta"].id.get_offset()
    # Without its checksums, which would notice it before.
    h5py.File(path, "r+").close()
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = b"\xff\xff\xff\xef"
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"a\.h5: meta announces 4026531839 characters"):
        checkpoint.load(path)


# ---------------------------------------------------------------------------------------------- results


@pytest.fixture
def results(tmp_path):
    from tests.core.test_readers import _results

    _results(tmp_path / "r.h5")
    return tmp_path / "r.h5"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f["scalars"].__delitem__("n") or f.__setitem__("scalars/n", np.ones(3)),
            "scalar 'n' .* shape",
        ),
        (lambda f: f.__setitem__("scalars/c", 1j), "scalar 'c' cannot be read"),
        (lambda f: f["scalars/energy"].attrs.__setitem__("error", "big"), "scalar 'energy' cannot be read"),
        (lambda f: f["provenance"].__delitem__("deck") or _json(f, "{"), "provenance 'deck' cannot be read"),
        (lambda f: f.attrs.__setitem__("title", 3), "its attribute 'title' is no text"),
        (lambda f: f.attrs.__setitem__("format_version", "new"), "cannot be read"),
        (lambda f: f.__setitem__("results/loop", f["results"]), "nested deeper than"),
        (lambda f: f.__setitem__("results/x2", h5py.SoftLink("/gone")), "/results/x2 cannot be read"),
        (
            lambda f: f.__setitem__("results/x2", h5py.ExternalLink("a.h5", "/x")),
            "is a link to the file a.h5",
        ),
        (lambda f: f.__delitem__("results"), "/results cannot be read"),
    ],
)
def test_results_that_are_not_as_written(results, change, message):
    with h5py.File(results, "r+") as file:
        change(file)
    with pytest.raises(FileError, match=rf"r\.h5.*{message}"):
        open_results(results)


def _json(file, text):
    file["provenance/deck"] = text
    file["provenance/deck"].attrs["encoding"] = "json"


def test_figures_of_results_that_lack_something_are_file_errors(results):
    from click.testing import CliRunner

    from qsim.cli import cli

    with h5py.File(results, "r+") as file:
        del file["results/time"]
        file["results/time"] = np.ones((3, 2))
    done = CliRunner().invoke(cli, ["plot", str(results), "fields"])
    assert done.exit_code in (0, 6), done.stderr
    assert "internal error" not in done.stderr


# ------------------------------------------------------------------------------------------ checkpoints


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"elapsed": "long"}, "its entry 'elapsed' is 'long'"),
        ({"elapsed": -1.0}, "'elapsed' is -1"),
        ({"elapsed": float("nan")}, "'elapsed' is nan"),
        ({"seed": 1.5}, "its entry 'seed' is 1.5"),
        ({"seed": True}, "its entry 'seed' is True"),
        ({"physics": [1]}, "its entry 'physics'"),
        ({"method": "m" * 500}, None),
    ],
)
def test_meta_data_of_another_kind(tmp_path, meta, message):
    path = checkpoint.save(tmp_path / "c.h5", {}, meta)
    if message is None:
        assert checkpoint.load_meta(path) == meta
        return
    with pytest.raises(FileError, match=message) as caught:
        checkpoint.load(path)
    assert "--force" in caught.value.hint  # without --resume alone, the run is refused


def test_missing_meta_data_name_the_file(tmp_path):
    _, meta = checkpoint.load(checkpoint.save(tmp_path / "c.h5", {}, {"method": "m"}))
    with pytest.raises(FileError, match=r"c\.h5 lacks 'seed'"):
        meta["seed"]


def test_restored_arrays_must_fit():
    state = {"psi": np.zeros((3, 4)), "text": "a", "words": np.array(["a"])}
    assert checkpoint.fitting(state, "psi", (None, 4)) is state["psi"]
    for name, shape in (("psi", (3, 5)), ("psi", (12,)), ("text", (1,)), ("none", (1,)), ("words", (1,))):
        with pytest.raises(FileError, match=f"does not fit this deck: '{name}' has shape"):
            checkpoint.fitting(state, name, shape)


def test_errors_before_the_first_step_of_a_resumed_run_are_those_of_the_checkpoint(tmp_path):
    resumed = Monitor(quiet=True, restored={"x": 1}, checkpoint=tmp_path / "c.h5")
    expected = pytest.raises(
        FileError, match=r"continued from .*c\.h5, .* does not fit this deck: no such thing"
    )
    with expected, resumed.continuing():
        raise KeyError("no such thing")
    with pytest.raises(QsimError, match="mine"), resumed.continuing():
        raise QsimError("mine")
    resumed.step(1)
    with pytest.raises(KeyError), resumed.continuing():
        raise KeyError("a bug")
    with pytest.raises(KeyError), Monitor(quiet=True).continuing():
        raise KeyError("a bug")


# --------------------------------------------------------------------------------------- orbital caches


def cache(folder, change):
    path = folder / "o.h5"
    shutil.copy(ORBITALS / "he.h5", path)
    with h5py.File(path, "r+") as file:
        text = json.loads(bytes(file["description"][()]))
        arrays = {name: file[name][()] for name in file if name != "description"}
        change(text, arrays)
        for name in list(file):
            del file[name]
        for name, array in arrays.items():
            file[name] = array
        file["description"] = np.frombuffer(json.dumps(text).encode(), np.uint8)
    return Block(cache="o.h5")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, a: t.pop("identity"), "lacks the object 'identity'"),
        (lambda t, a: t["about"].pop("energy"), "energy is None; expected hartree"),
        (lambda t, a: t["about"].update(energy="low"), "energy is 'low'"),
        (lambda t, a: t["identity"].pop("ecp"), "its identity lacks 'atoms' or 'ecp'"),
        (lambda t, a: t["ecp"].update(He=[2]), "ecp of He cannot be read"),
        (lambda t, a: t["ecp"].update(He=[2, [[0, [[["x", 1]]]]]]), "ecp of He cannot be read"),
        (lambda t, a: a.pop("orbitals"), "lacks 'orbitals'"),
        (lambda t, a: a.update(orbitals=a["orbitals"][0]), "orbitals has shape"),
        (lambda t, a: a.update(orbitals=a["orbitals"][:, 1:]), "orbitals has shape"),
        (
            lambda t, a: a["orbitals"].__setitem__((0, 0, 0), np.nan),
            "orbitals holds a number that is not finite",
        ),
        (lambda t, a: a["exponent"].__setitem__(0, -1.0), "exponent holds a number"),
        (lambda t, a: a.update(coefficient=a["coefficient"][:-1]), "coefficient has shape"),
        (lambda t, a: a["shell_l"].__setitem__(0, 9), "shell_l has shape .* whole numbers from 0 to"),
        (lambda t, a: a["shell_atom"].__setitem__(0, 5), "shell_atom has shape"),
        (lambda t, a: a["shell_size"].__setitem__(0, -3), "shell_size has shape"),
        (lambda t, a: a.update(shell_l=a["shell_l"].astype(float)), "shell_l has shape .* float64"),
        (
            lambda t, a: a.update(exponent=np.array(["a"] * 3, "S1")),
            "holds .S1, not numbers|exponent has shape",
        ),
    ],
)
def test_caches_that_cannot_be_used(tmp_path, change, message):
    block = cache(tmp_path, change)
    with pytest.raises(FileError, match=rf"o\.h5.*{message}"):
        open_cache(block, tmp_path)


def test_the_cache_itself_is_good(tmp_path):
    assert open_cache(cache(tmp_path, lambda text, arrays: None), tmp_path).about["energy"] < -2.8


# ------------------------------------------------------------------------------------------------- XML


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('zval="4"', 'zval="nan"', "needs the finite number zval, found 'nan'"),
        ('zval="4"', 'zval="-4"', "zval = -4 is no charge"),
        ('zval="4"', 'zval="1e300"', "is no charge"),
        ('npts="41"', 'npts="inf"', "needs the finite number npts"),
        ('npts="41"', 'npts="40.5"', "needs the whole number npts"),
        ('npts="41"', 'npts="41000000000000"', "must have 41000000000000 finite numbers, found 41"),
        ('l-local="1"', 'l-local="nan"', "needs the finite number l-local"),
        ('npots-down="2"', 'npots-down="two"', "needs the finite number npots-down, found 'two'"),
        ('cutoff="1.5"', 'cutoff="far"', "needs the finite number cutoff, found 'far'"),
        ('cutoff="1.5"', 'cutoff="-1"', "has the cutoff -1"),
        ("<data>", "<data>nan ", "must have 41 finite numbers, found 42"),
        ("<data>-0.00000000e+00", "<data>1e300", "channel s: number 1 is 1e"),
        ("<pseudo", "<!DOCTYPE a [<!ENTITY e SYSTEM '/etc/passwd'>]><pseudo a='&e;'", "cannot be read"),
        ("</pseudo>", "", "cannot be read: no element found: line 1"),
        ('version="1.0"?>', 'version="1.0" encoding="klingon"?>', "cannot be read"),
    ],
)
def test_pseudopotentials_that_cannot_be_used(tmp_path, old, new, message):
    from tests.core.test_readers import _pseudopotential

    path = tmp_path / "C.xml"
    _pseudopotential(path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(FileError, match=rf"C\.xml.*{message}"):
        read_xml(path, "C")


# --------------------------------------------------------------------------------------------- summaries


@pytest.mark.parametrize("text", ["", "{", "[]", '{"method": 1}', '{"a": "\ud800"}', "\udcff"])
def test_summaries_that_are_not_as_written(tmp_path, text):
    path = tmp_path / "a.summary.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape" if "\udcff" in text else "surrogatepass"))
    with pytest.raises(FileError, match=r"a\.summary\.json .*expected the summary of a run"):
        read_summary(path)


def test_a_summary_is_read_back(tmp_path):
    content = {
        "method": "m",
        "scalars": {"a": {"value": 1.5, "error": None, "unit": ""}},
        "timing": {},
        "files": [],
        "warnings": ["ü"],
    }
    assert read_summary(write_summary(tmp_path / "a.summary.json", content)) == content

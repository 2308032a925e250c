"""No file can end a run with a traceback: every reader is given files damaged at random, and refuses or reads them.

A damaged file may still be a good one (a flipped digit), so the property is: the reader returns, or raises a `FileError` in one
printable line that names the file.  NumPy's warnings are errors here.  A share of the 1 000 mutations of each reader is run by
default, all of them with ``--exhaustive``.
"""

import gzip
import shutil
import zlib
from pathlib import Path
from types import SimpleNamespace as Block

import h5py
import numpy as np
import pytest

from qsim.core.deck.columns import read_columns, read_complex_columns, read_rows
from qsim.core.device.device import cpu
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import curve_of
from qsim.core.results.arrays import map_array, map_arrays, read_arrays
from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.hdf5 import open_datasets
from qsim.core.results.results import open_results
from qsim.core.results.tables import Scalar, Table
from qsim.core.results.writing import Content, write_results
from qsim.core.run import checkpoint
from qsim.core.sweeps.folder import _read_index
from qsim.qmc.system.pseudopotentials import read_xml
from qsim.qmc.wavefunction.formats.chkfile import read_chkfile
from qsim.qmc.wavefunction.formats.eshdf import read_eshdf
from qsim.qmc.wavefunction.formats.molden import read_molden
from qsim.qmc.wavefunction.molecules.cache import open_cache
from qsim.qoc.control.guesses import field_from_file
from qsim.qoc.deck.controls import FileGuess
from qsim.qoc.deck.functions.given import TablePotential
from qsim.qoc.models.files import matrices, read_tree
from qsim.sturmian.deck.blocks import GeneratingTable
from qsim.sturmian.radial.inputs import read_radial
from qsim.tridiag.atom.states.stored import read as read_stored
from qsim.tridiag.deck.electron import FileInitial
from qsim.tridiag.propagate.initial import _from_file as read_wavefunction
from qsim.tridiag.solver.readers import read_rhs, read_system
from qsim.trotter.model.readers import read_component_matrices, read_matrix
from qsim.trotter.states.files import load_state
from qsim.trotter.states.mps import contract_mps, read_mps
from tests.qmc.test_import import HYDRIDE

ALL = 1000
SHARE = 40
ORBITALS = Path(__file__).parents[1] / "reference_data" / "qmc_orbitals"
INPUTS = Path(__file__).parents[2] / "inputs" / "qmc"
N = 6
RNG = np.random.default_rng(11)

# ------------------------------------------------------------------------------------------- mutations

WORDS = [
    b"nan",
    b"inf",
    b"-1",
    b"1e999",
    b"1e308",
    b"9" * 30,
    b"\xff\xfe",
    b"\0\0\0\0",
    b"\x1b[2J",
    b"(",
    b"{",
    b"<",
    b",,",
]


def _flip_a_bit(data, rng):
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))


def _set_bytes(data, rng):
    at = int(rng.integers(len(data)))
    data[at : at + int(rng.integers(1, 9))] = rng.bytes(8)


def _cut_the_end(data, rng):
    del data[int(rng.integers(len(data))) :]


def _cut_a_piece(data, rng):
    at = int(rng.integers(len(data)))
    del data[at : at + int(rng.integers(1, 64))]


def _insert(data, rng):
    at = int(rng.integers(len(data)))
    data[at:at] = rng.bytes(int(rng.integers(1, 32)))


def _insert_a_word(data, rng):
    at = int(rng.integers(len(data)))
    word = WORDS[rng.integers(len(WORDS))]
    data[at : at + int(rng.integers(2)) * len(word)] = word


def _swap(data, rng):
    length = int(rng.integers(1, 1 + min(64, len(data) // 2)))
    a, b = (int(x) for x in rng.integers(0, len(data) - length + 1, 2))
    data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]


def _repeat(data, rng):
    at = int(rng.integers(len(data)))
    data[at:at] = data[at : at + 64]


def _fill(data, rng):
    at = int(rng.integers(len(data)))
    length = int(rng.integers(1, 64))
    data[at : at + length] = bytes([int(rng.choice([0, 255, 48, 32]))]) * length


KINDS = (_flip_a_bit, _set_bytes, _cut_the_end, _cut_a_piece, _insert, _insert_a_word, _swap, _repeat, _fill)


def mutated(content, rng):
    data = bytearray(content)
    for _ in range(int(rng.choice([1, 1, 1, 2, 5]))):
        if len(data) > 1:
            KINDS[rng.integers(len(KINDS))](data, rng)
    return bytes(data)


# --------------------------------------------------------------------------------------------- samples


def _table(path, columns=2):
    x = np.linspace(0.5, 4.0, 9)
    rows = np.stack([x, *(np.cos(k * x) for k in range(1, columns))], axis=1)
    text = "# a table\nx, f\n" + "\n".join(", ".join(f"{v:.6g}" for v in row) for row in rows)
    path.write_text(text + "\n% end\n", encoding="utf-8-sig")


def _packed(path):
    plain = path.with_name("plain")
    _table(plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()


def _system(**more):
    return {"a": np.full(N, 4.0), "b": np.ones(N - 1), "c": np.ones(N), "d": np.arange(N) + 1j} | more


def _hdf5(path, arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, **({"compression": 1} if array.size > 8 else {}))


def _market(path):
    entries = [(i, j) for i in range(1, N + 1) for j in range(1, N + 1) if abs(i - j) < 2]
    lines = ["%%MatrixMarket matrix coordinate complex general", "% comment", f"{N} {N} {len(entries)}"]
    lines += [f"{i} {j} {4.0 if i == j else 1.0} 0.5" for i, j in entries]
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def _rhs(path):
    path.write_text("%%MatrixMarket matrix array real general\n6 2\n" + "\n".join("1.5" for _ in range(12)))


def _pseudopotential(path):
    r = np.linspace(0.0, 4.0, 41)
    grid = '<grid type="linear" units="bohr" ri="0" rf="4" npts="41"/>'
    data = [" ".join(f"{v:.8e}" for v in values) for values in (-4.0 * r / (r + 0.1), -4.0 * r / (r + 0.2))]
    vps = "".join(
        f'<vps l="{l}" cutoff="1.5"><radfunc>{grid}<data>{text}</data></radfunc></vps>'
        for l, text in zip("sp", data, strict=True)
    )
    path.write_text(
        '<?xml version="1.0"?><pseudo version="0.5"><header symbol="C" atomic-number="6" zval="4"/>'
        f'<semilocal units="hartree" format="r*V" npots-down="2" npots-up="0" l-local="1">{vps}</semilocal></pseudo>'
    )


def _results(path):
    t, x = np.linspace(0.0, 1.0, 9), np.linspace(-1.0, 1.0, 5)
    write_results(
        path,
        Content(
            method="qoc",
            title="a test",
            status="complete",
            tables=[
                Table("time", ("time",), "a.u."),
                Table("x", ("x",), "bohr"),
                Table("field", ("time",), "a.u."),
                Table("psi", ("time", "x")),
                Table("psi_final", ("x",)),
                Table("names", ("level",)),
                Table("history/cost", ("sweep",)),
            ],
            arrays={
                "time": t,
                "x": x,
                "field": np.sin(3 * t),
                "psi": np.outer(t, x + 1j),
                "psi_final": np.exp(-x * x) + 0j,
                "names": np.array(["1s", "2σ"]),
                "history/cost": np.arange(3.0),
            },
            scalars={
                "energy": Scalar(-0.5, "hartree", 0.1),
                "n": Scalar(3),
                "word": Scalar("µ"),
                "no": Scalar(None),
            },
            provenance={"deck": {"method": "qoc"}, "seed": 7, "timing": {"run": 1.0}},
            log=["one", "two"],
        ),
    )


def _index(path):
    rows = [f"{n},deck-{n:04d}.yaml,0.{n},'x y'" for n in range(1, 12)]
    path.write_text("\n".join(["number,deck,a.b,c", *rows, ""]), encoding="utf-8")


def _checkpoint(path):
    state = {"psi": np.arange(40.0), "step": 3, "rows": [{"x": np.ones(3), "z": 1j}], "pair": (1, b"a")}
    meta = {"method": "qoc", "physics": {"a": [1, None]}, "seed": 3, "elapsed": 1.5}
    checkpoint.save(path, state, meta)


def _cache(path):
    path.write_bytes((ORBITALS / "he.h5").read_bytes())


def _orbitals(path):
    cache = open_cache(Block(cache=path.name), path.parent)
    cache.orbital_set(np.zeros((len(cache.identity["atoms"]), 3))).rows(np.ones((2, 3)), 0)


def _mps(path):
    tensors = {f"A{k}": RNG.normal(size=(2, 2, 2)) for k in range(3)}
    np.savez_compressed(path, **tensors)


def _everything(path):
    file, datasets = open_datasets(path)
    with file:
        for dataset in datasets.values():
            dataset[...]


def _all_results(path):
    with open_results(path) as results:
        for name in results.names:
            results.unit(name), results.description(name), results.label(name), results.dims(name)
            results.shape(name), results[name]
        dict(results.deck)
        with open_results(path) as other:
            compare_results(results, other, Tolerance())


GRID = np.linspace(0.6, 3.9, 7)
TIMES = np.linspace(0.1, 0.9, 5)


def _curve(path):
    """Read a table as decks do: its curve on a grid, what else its rows allow, and what a user is told of it."""
    curve = curve_of(TablePotential(type="table", file=path), GRID, "system.potential.file")
    return curve.at(GRID), curve.other(GRID), curve.remark("x", "auto")


# reader: (name of the file, writer, reader)
READERS = {
    "columns": ("t.csv", _table, lambda path: read_columns(path, 2, "x, f")),
    "packed columns": ("t.csv.gz", _packed, lambda path: read_columns(path, 2, "x, f")),
    "rows": ("t.csv", _table, lambda path: read_rows(path, "x, f", (2, 3))),
    "complex columns": ("t.txt", _table, lambda path: read_complex_columns(path, "f")),
    "npy": (
        "a.npy",
        lambda path: np.save(path, np.arange(12.0).reshape(3, 4)),
        lambda path: read_arrays(path, "a"),
    ),
    "mapped npy": (
        "a.npy",
        lambda path: np.save(path, np.arange(12.0)),
        lambda path: map_array(path, "a").sum(),
    ),
    "npz": ("a.npz", lambda path: np.savez(path, **_system()), lambda path: read_arrays(path, "a")),
    "packed npz": (
        "a.npz",
        lambda path: np.savez_compressed(path, **_system()),
        lambda path: read_arrays(path, "a"),
    ),
    "mapped npz": ("a.npz", lambda path: np.savez(path, **_system()), lambda path: map_arrays(path, "a")),
    "hdf5": ("a.h5", lambda path: _hdf5(path, _system(e=np.arange(99.0))), _everything),
    "system npz": ("s.npz", lambda path: np.savez(path, **_system()), read_system),
    "system hdf5": ("s.h5", lambda path: _hdf5(path, _system()), read_system),
    "system mtx": ("s.mtx", _market, lambda path: read_system(path, path.with_name("d.npy"))),
    "system mtx.gz": ("s.mtx.gz", _market, lambda path: read_system(path, path.with_name("d.npy"))),
    "right-hand sides mtx": ("r.mtx", _rhs, read_rhs),
    "table of x": (
        "v.csv",
        _table,
        _curve,
    ),
    "qoc field": (
        "f.csv",
        _table,
        lambda path: field_from_file(FileGuess(type="file", file=path), TIMES, 1.0),
    ),
    "qoc field of results": (
        "f.h5",
        _results,
        lambda path: field_from_file(FileGuess(type="file", file=path), TIMES, 1.0),
    ),
    "tridiag wavefunction": (
        "p.csv",
        lambda path: _table(path, 3),
        lambda path: read_wavefunction(FileInitial(type="file", file=path), np.linspace(0.0, 5.0, 8), "i"),
    ),
    "tridiag results": (
        "p.h5",
        _results,
        lambda path: read_wavefunction(FileInitial(type="file", file=path), np.linspace(-1, 1, 5), "i"),
    ),
    "sturmian table": ("v.csv", _table, lambda path: read_radial(GeneratingTable(type="table", file=path))),
    "trotter matrix": (
        "j.csv",
        lambda path: np.savetxt(path, np.eye(4)[::-1]),
        lambda path: read_matrix(path, 4, symmetric=True),
    ),
    "trotter components": (
        "j.npz",
        lambda path: np.savez(path, Jx=np.eye(4)[::-1], Jz=np.eye(4)[::-1]),
        lambda path: read_component_matrices(path, 4, symmetric=True),
    ),
    "trotter mps": ("m.npz", _mps, lambda path: contract_mps(read_mps(path, 3), cpu(1), np.complex128)),
    "trotter state": (
        "s.h5",
        lambda path: _hdf5(path, {"psi": np.arange(8.0) + 1j}),
        lambda path: load_state(path, 3, cpu(1), np.complex128),
    ),
    "table of x hdf5": (
        "v.h5",
        lambda path: _hdf5(path, {"x": np.linspace(0.5, 4.0, 9), "V": np.arange(9.0)}),
        _curve,
    ),
    "qoc matrices": (
        "q.h5",
        lambda path: _hdf5(path, {"H0": np.diag(np.arange(4.0)), "controls/re": np.ones((4, 4))}),
        lambda path: matrices(read_tree(path, "matrices"), "system.file"),
    ),
    "atom state": (
        "u.h5",
        lambda path: _hdf5(
            path,
            {
                "r": np.arange(1, 9) / 8,
                "channels": np.array([[0, 0], [1, 0]]),
                "u_channels": np.ones((2, 8)) + 0j,
            },
        ),
        read_stored,
    ),
    "molden": ("h.molden", lambda path: path.write_text(HYDRIDE), read_molden),
    "index of a sweep": ("index.csv", _index, lambda path: _read_index(path.parent, ("a.b", "c"), "deck")),
    "chkfile": ("oh.chk", lambda path: shutil.copy(INPUTS / "oh_radical.chk", path), read_chkfile),
    "crystal": ("c.h5", lambda path: shutil.copy(INPUTS / "hydrogen_orbitals.h5", path), read_eshdf),
    "pseudopotential": ("C.xml", _pseudopotential, lambda path: read_xml(path, "C").tables(2)),
    "orbital cache": ("o.h5", _cache, _orbitals),
    "results": ("r.h5", _results, _all_results),
    "checkpoint": ("c.ckpt.h5", _checkpoint, checkpoint.load),
}


def _require_good_message(error, path):
    text = str(error)
    assert path.name in text or isinstance(error, InvalidInput), (
        text
    )  # an InvalidInput names a key of the deck
    assert "\n" not in text, text
    assert len(text) < 1000, text
    assert text.isprintable(), text


def _damage(name, folder, count, seed):
    """Return how many of `count` damaged files were refused; fail on anything but a proper refusal."""
    file, write, read = READERS[name]
    path = folder / file
    write(path)
    if h5py.is_hdf5(path):
        # Without its checksums, before which nothing that is behind them would be tried.
        h5py.File(path, "r+").close()
    np.save(folder / "d.npy", np.ones(N))
    content = path.read_bytes()
    read(path)  # the sample itself is good
    refused = 0
    for number in range(count):
        data = mutated(content, np.random.default_rng([seed, number]))
        path.write_bytes(data)
        try:
            read(path)
        except (FileError, InvalidInput) as error:
            refused += 1
            _require_good_message(error, path)
        except Exception as error:
            kept = folder / f"{number}-{file}"
            kept.write_bytes(data)
            error.add_note(f"reader '{name}', mutation {number} of seed {seed}, kept as {kept}")
            raise
    return refused


def _seed(name):
    return zlib.crc32(name.encode())


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read(name, tmp_path):
    assert _damage(name, tmp_path, SHARE, _seed(name)) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", READERS)
def test_a_thousand_damaged_files_are_refused_or_read(name, tmp_path):
    assert _damage(name, tmp_path, ALL, _seed(name) + 1) > ALL // 20


@pytest.mark.parametrize("how", ["no chunk", "some chunks", "no bytes"])
def test_datasets_that_were_never_written_are_refused(tmp_path, how):
    """A file of some kilobytes announces 8 GB; HDF5 would make up zeros."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in ("small", "large"):
            shape = (100,) if name == "small" else (10**9,)
            item = file.create_dataset(
                name,
                shape,
                "f4",
                chunks=None if how == "no bytes" else (50,) if name == "small" else (10**6,),
            )
            if how == "some chunks":
                item[:50] = 1.0
    assert (tmp_path / "a.h5").stat().st_size < 10**8
    file, found = open_datasets(tmp_path / "a.h5")
    with file:
        assert found["small"][()].shape == (100,)
        with pytest.raises(
            FileError, match="'large' announces 4e\\+09 bytes, and not all of them were written"
        ):
            found["large"][()]


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_datasets_that_were_written_are_read(tmp_path, compression):
    values = np.arange(300_000.0).reshape(3, -1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, chunks=(2, 70_000), compression=compression)
        file.create_dataset("y", data=values)
    file, found = open_datasets(tmp_path / "a.h5")
    with file:
        assert np.array_equal(found["x"][()], values)
        assert np.array_equal(found["y"][:, 3], values[:, 3])

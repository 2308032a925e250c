"""Checksums of files: no flipped bit gives another number in silence, and what is damaged is told by name."""

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from qsim.core.errors import FileError
from qsim.core.results.hdf5 import new_dataset, open_datasets, save_datasets
from qsim.core.results.results import open_results
from qsim.core.results.summary import read_summary, write_summary
from qsim.core.results.tables import Table
from qsim.core.results.writing import Content, write_results
from qsim.core.run import checkpoint
from tests.faults.inject import flipped, same_bits

OLD = sorted((Path(__file__).resolve().parents[1] / "reference_data/files_0.1.0").glob("*.h5"))


def everything(path):
    """Return all that a results file tells."""
    with open_results(path) as results:
        found = {name: results[name] for name in results.names}
        for name in results.names:
            found[f"about {name}"] = (results.unit(name), results.label(name), results.dims(name))
        found |= {f"scalar {name}": scalar for name, scalar in results.scalars.items()}
        return {
            **found,
            "more": (results.method, results.title, results.status, results.log, results.provenance),
        }


@pytest.fixture(params=OLD, ids=lambda path: path.stem)
def run(request, tmp_path):
    """Return the results of a run of a method, written by this version."""
    with open_results(request.param) as old:
        tables = [Table(name, old.dims(name), old.unit(name)) for name in old.names]
        content = Content(
            old.method, old.title, "complete", tables, dict(old.items()), old.scalars, old.provenance, old.log
        )
        return write_results(tmp_path / "r.h5", content)


def flips(path, count, read, seed):
    """Flip one bit after the other; return how many were noticed."""
    true, content, noticed = read(path), path.read_bytes(), 0
    for number in range(count):
        path.write_bytes(flipped(content, np.random.default_rng([seed, number])))
        try:
            found = read(path)
        except FileError as error:
            noticed += "damaged" in str(error)
        else:
            assert found.keys() == true.keys()
            assert all(same_bits(found[name], true[name]) for name in true)
    return noticed


def test_no_flipped_bit_gives_other_numbers(run):
    assert flips(run, 30, everything, 4) > 28


@pytest.mark.exhaustive
def test_none_of_a_thousand_flipped_bits_gives_other_numbers(run):
    assert flips(run, 1000, everything, 5) > 990


def test_every_reader_of_hdf5_notices_flipped_bits_in_numbers(run):
    """Without the sums of qsim, which other programs do not know."""
    with h5py.File(run) as file:
        numbers = []
        file.visititems(lambda name, item: numbers.append(name) if isinstance(item, h5py.Dataset) else None)
        numbers = [
            name
            for name in numbers
            if file[name].dtype.kind in "fic" and file[name].size and file[name].id.get_storage_size()
        ]
        assert len(numbers) > 10
        chunks = {name: file[name].id.get_chunk_info(0) for name in numbers if file[name].chunks}
        # The others are in the description of the dataset, which has a sum.
        assert all(
            file[name].shape == () and file[name].id.get_offset() is None for name in {*numbers} - {*chunks}
        )
    content = run.read_bytes()
    for name, chunk in chunks.items():
        at = chunk.byte_offset + chunk.size // 2
        run.write_bytes(content[:at] + bytes([content[at] ^ 8]) + content[at + 1 :])
        with h5py.File(run) as file, pytest.raises(OSError, match="."):
            file[name][()]


def test_files_of_older_versions_have_no_sums_and_open(tmp_path):
    path = shutil.copy(OLD[0], tmp_path / "old.h5")
    assert everything(path).keys() == everything(OLD[0]).keys()


def test_a_damage_is_told_by_its_place(tmp_path):
    path = tmp_path / "a.h5"
    save_datasets(path, {"first": np.arange(4000.0), "second": np.arange(4000.0)})
    with h5py.File(path) as file:
        at = file["second"].id.get_offset() + 20000
    content = path.read_bytes()
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    block = at // 4096 * 4096
    with pytest.raises(
        FileError, match=rf"a\.h5 is damaged: bytes {block} to {block + 4095} .*, where second lie"
    ):
        open_datasets(path)


def test_a_file_that_was_changed_on_purpose_has_no_sums(run):
    before = everything(run)
    with h5py.File(run, "r+") as file:
        file["scalars/new"] = 3.0
    assert everything(run)["scalar new"].value == 3.0
    assert everything(run).keys() == {*before, "scalar new"}


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999, 1.0])
def test_a_file_that_is_cut_is_refused(tmp_path, fraction):
    path = tmp_path / "a.h5"
    save_datasets(path, {"x": np.arange(40.0)})
    content = path.read_bytes()
    path.write_bytes(content[: min(int(fraction * len(content)), len(content) - 1)])
    with pytest.raises(FileError, match="damaged|cannot be read"):
        open_datasets(path)


def test_all_that_qsim_writes_has_sums(tmp_path):
    with new_dataset(tmp_path / "x.h5", (3000,), "f8") as new:
        new[:] = np.arange(3000.0)
    checkpoint.save(tmp_path / "c.h5", {"x": np.arange(3.0)}, {"method": "qoc"})
    for name, read in (("x.h5", open_datasets), ("c.h5", checkpoint.load)):
        path = tmp_path / name
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 64
        path.write_bytes(content)
        with pytest.raises(FileError, match=rf"{name} is damaged: bytes"):
            read(path)


def test_a_summary_with_another_digit_is_refused(tmp_path):
    content = {
        "method": "qoc",
        "scalars": {"energy": {"value": -0.123456, "error": 1e-7, "unit": "µ"}},
        "timing": {},
        "files": [],
        "warnings": [],
    }
    path = write_summary(tmp_path / "s.summary.json", content)
    assert read_summary(path) == content
    text = path.read_text()
    path.write_text(text.replace("-0.123456", "-0.123556"))
    with pytest.raises(FileError, match=r"s\.summary\.json.*checksum"):
        read_summary(path)
    # Summaries of older versions have none.
    lines = [line for line in text.splitlines() if "checksum" not in line]
    path.write_text("\n".join(lines).replace("],\n}", "]\n}"))
    assert read_summary(path) == content

"""Results files of version 0.1.0 are read, shown, drawn, compared and cited by this one.

They were written by qsim 0.1.0 from its own decks, made small. A format that cannot read them gets a new major number.
"""

from pathlib import Path

import h5py
import numpy as np
import pytest

import qsim
from qsim.core.results.display.report import report
from qsim.core.results.file import FORMAT_VERSION

FOLDER = Path(__file__).resolve().parent / "reference_data/files_0.1.0"
FILES = sorted(FOLDER.glob("*.h5"))
METHODS = {
    "pulse": "qoc",
    "disorder_quench": "trotter",
    "eckart": "tridiag",
    "he_ground": "sturmian",
    "hooke": "qmc",
}


def test_there_is_a_file_of_every_method():
    assert {path.stem for path in FILES} == set(METHODS)
    assert FORMAT_VERSION[0] == 1, "a new major format needs a way to read these files, or a word to users"


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def file(request):
    return request.param


def test_an_old_file_opens_with_all_that_it_holds(file):
    with h5py.File(file) as raw:
        names = []
        raw.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        arrays = [name for name in names if not name.startswith(("scalars/", "provenance", "log"))]
        with qsim.open_results(file) as results:
            assert results.method == METHODS[file.stem]
            assert results.format_version == (1, 0)
            assert results.provenance["qsim_version"] == "0.1.0"
            assert results.deck["method"] == results.method
            assert set(raw["scalars"]) == set(results.scalars)
            for name, scalar in results.scalars.items():
                if isinstance(scalar.value, float) and np.isfinite(scalar.value):
                    assert scalar.value == raw[f"scalars/{name}"][()]
                    assert scalar.unit == raw[f"scalars/{name}"].attrs.get("units", "")
            found = {name.partition("/")[2] for name in arrays} | set(arrays)
            assert set(results.names) <= found
            assert len(results.names) > 5
            results.to_xarray()
            assert results.title in repr(results)


def test_every_figure_of_an_old_file_is_drawn(file):
    with qsim.open_results(file) as results:
        drawn = [name for name in results.figures if results.plot(name) is not None]
        assert "overview" in drawn
        assert len(drawn) >= 3
        assert report(results, ["overview"]).count("<figure") == 1


def test_the_commands_take_old_files(file, command):
    for words in (("show", file), ("show", file, "--json"), ("cite", file), ("compare", file, file)):
        reply = command(*words)
        assert reply.exit_code == 0, reply.output
    assert command("show", file, "--deck").stdout.startswith("#")


def test_numbers_of_old_files_mean_what_they_did():
    """Known results, as roughly as these small decks have them."""
    with qsim.open_results(FOLDER / "hooke.h5") as results:
        assert results.scalars["dmc_energy"].value == pytest.approx(2.0, abs=1e-6)
        assert results.scalars["dmc_energy"].unit == "hartree"
    with qsim.open_results(FOLDER / "he_ground.h5") as results:
        assert results.scalars["energy_0"].value == pytest.approx(-2.9005, abs=2e-2)  # s and p waves
    with qsim.open_results(FOLDER / "disorder_quench.h5") as results:
        assert results["imbalance"][0] == pytest.approx(1.0, abs=0.1)
        assert results.dims("imbalance") == ("time",)

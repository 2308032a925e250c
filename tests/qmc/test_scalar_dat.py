"""The ``scalar.dat`` file: its form to the character, and that what is written is read."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import FileError
from qsim.core.results.results import open_results
from qsim.qmc import figures
from qsim.qmc.results.scalar_dat import columns, path_of, read, write

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"


def blocks(n=5, seed=1):
    """Return averages of n blocks."""
    generator = np.random.default_rng(seed)
    names = (
        "kinetic",
        "electron_electron",
        "local",
        "nonlocal",
        "external",
        "weight",
        "seconds",
        "acceptance",
    )
    data = {name: generator.standard_normal(n) for name in names}
    data["total"] = sum(data[name] for name in names[:5]) + 6.9
    data["total_squared"] = data["total"] ** 2 + generator.random(n)
    return data


def as_qmca_reads(path):
    """Numbers by `loadtxt`, without the first column; names are the words of the first line after the second."""
    data = np.loadtxt(path)[:, 1:].T
    names = path.read_text().splitlines()[0].split()[2:]
    return dict(zip(names, data, strict=True))


def test_the_file_to_the_character(tmp_path):
    """Two lines as QMCPACK prints them for a hydrogen atom."""
    path = path_of(tmp_path / "H", 0)
    write(
        path,
        {
            "LocalEnergy": [-0.5],
            "LocalEnergy_sq": [0.25],
            "LocalPotential": [-0.96965717609],
            "Kinetic": [0.46965717609],
            "Coulomb": [-0.96965717609],
            "BlockWeight": [12800.0],
            "BlockCPU": [6.1617488574e-03],
            "AcceptRatio": [0.99046875],
        },
    )
    assert path.name == "H.s000.scalar.dat"
    assert path.read_text() == (
        "#   index    LocalEnergy         LocalEnergy_sq      LocalPotential      Kinetic             Coulomb             "
        "BlockWeight         BlockCPU            AcceptRatio         \n"
        "         0   -5.0000000000e-01    2.5000000000e-01   -9.6965717609e-01    4.6965717609e-01   -9.6965717609e-01"
        "    1.2800000000e+04    6.1617488574e-03    9.9046875000e-01\n"
    )


@pytest.mark.parametrize("n", [1, 2, 300])
def test_round_trip(tmp_path, n):
    table = columns(blocks(n), ion_ion=6.9, pseudopotential=True)
    path = path_of(tmp_path / "h2o", 12)
    write(path, table)
    assert path.name == "h2o.s012.scalar.dat"
    found = read(path)
    assert list(found) == list(table)
    for name, values in table.items():
        np.testing.assert_allclose(found[name], values, rtol=6e-11)


def test_the_analysis_tool_reads_it(tmp_path):
    """Names, order, and what the tool computes from them: variance and the sum of the parts."""
    data = blocks(40)
    path = path_of(tmp_path / "a.b", 3)
    write(path, columns(data, ion_ion=6.9, pseudopotential=True, external=True))
    found = as_qmca_reads(path)
    assert list(found) == [
        "LocalEnergy",
        "LocalEnergy_sq",
        "LocalPotential",
        "Kinetic",
        "ElecElec",
        "LocalECP",
        "NonLocalECP",
        "HarmonicExt",
        "IonIon",
        "BlockWeight",
        "BlockCPU",
        "AcceptRatio",
    ]
    np.testing.assert_allclose(found["LocalEnergy"], data["total"], rtol=1e-10)
    np.testing.assert_allclose(found["LocalPotential"] + found["Kinetic"], found["LocalEnergy"], atol=1e-9)
    parts = ("Kinetic", "ElecElec", "LocalECP", "NonLocalECP", "HarmonicExt", "IonIon")
    np.testing.assert_allclose(sum(found[part] for part in parts), found["LocalEnergy"], atol=1e-9)
    variance = found["LocalEnergy_sq"] - found["LocalEnergy"] ** 2
    np.testing.assert_allclose(variance, data["total_squared"] - data["total"] ** 2, atol=1e-8)
    tokens = [token for token in path.name.split(".") if len(token) == 4 and token[0] == "s"]
    assert tokens == ["s003"]


def test_bare_ions_have_one_column():
    table = columns(blocks())
    assert "ElecIon" in table
    assert "LocalECP" not in table
    assert "IonIon" not in table


def test_models_without_ions_have_no_column_of_theirs():
    assert not {"ElecIon", "LocalECP", "IonIon"} & set(columns(blocks(), ions=False, external=True))


def test_ions_of_a_file_are_those_of_the_run(qmc):
    """The deck names no atoms: columns and figures take them from the results."""
    shutil.copy(INPUTS / "oh_radical.chk", qmc.folder)
    deck = {
        "system": {"pseudopotentials": {"O": "ccecp", "H": "ccecp"}},
        "wavefunction": {"orbitals": {"source": "chkfile", "file": "oh_radical.chk"}, "jastrow": "none"},
        "series": [{"vmc": {"walkers": 8, "blocks": 3, "steps": 1, "warmup": 5}}],
        "estimators": [{"radial_density": {"bins": 5}}],
        "output": {"scalar_dat": True},
    }
    summary = qmc.execute("oh", **deck)
    table = read(path_of(qmc.folder / "oh", 0))
    assert list(table)[5:-3] == ["LocalECP", "NonLocalECP", "IonIon"]
    np.testing.assert_allclose(table["IonIon"], summary["scalars"]["ion_ion"]["value"])
    parts = ("Kinetic", "ElecElec", "LocalECP", "NonLocalECP", "IonIon")
    np.testing.assert_allclose(sum(table[part] for part in parts), table["LocalEnergy"], atol=1e-9)
    with open_results(qmc.folder / "oh.h5") as results:
        assert list(results["atoms/symbol"]) == ["O", "H"]
        np.testing.assert_array_equal(results["atoms/charge"], [6.0, 1.0])
        np.testing.assert_array_equal(results["atoms/bare"], [0, 0])
        labels = [text.get_text() for text in figures.density(results).axes[0].get_legend().get_texts()]
    assert labels == ["O 0", "H 1"]


def test_long_names_widen_the_fields(tmp_path):
    path = tmp_path / "x.s000.scalar.dat"
    write(path, {"LocalEnergy": [1.0, 2.0], "a_very_long_name_of_an_observable": [3.0, -4.0]})
    assert list(as_qmca_reads(path)["a_very_long_name_of_an_observable"]) == [3.0, -4.0]
    with pytest.raises(ValueError, match="single words"):
        write(path, {"two words": [1.0]})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a scalar.dat"),
        ("index LocalEnergy\n0 1\n", "not a scalar.dat"),
        ("#   index    LocalEnergy\n 0 1.0 2.0\n", r":2: 3 numbers under 2 names"),
        ("#   index    LocalEnergy\n 0 1.0\n 1 x\n", r":3: could not convert"),
    ],
)
def test_files_that_are_none(tmp_path, text, message):
    path = tmp_path / "bad.s000.scalar.dat"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        read(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileError, match="does not exist"):
        read(tmp_path / "none.dat")
    with pytest.raises(FileError, match="cannot write"):
        write(tmp_path / "none" / "x.dat", {"LocalEnergy": [1.0]})

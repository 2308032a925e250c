"""`qsim table`: arrays as CSV with axes and errors, in the units of a user."""

import csv
import io
from fractions import Fraction

import numpy as np
import pytest
from click.testing import CliRunner

from qsim.cli.group import cli
from qsim.core.physics.conversion import _factors, convert, split_units
from qsim.core.results.tables import Scalar, Table
from qsim.core.results.writing import Content, write_results

# CODATA 2022
HARTREE, BOHR_M, FS = 27.211386245981, 5.29177210544e-11, 0.024188843265864
BOHR2_IN_MB = BOHR_M**2 / 1e-22


@pytest.mark.parametrize(
    ("unit", "wanted", "factor", "text"),
    [
        ("hartree", "eV", HARTREE, "eV"),
        ("kb", "eV, Mb", 1e-3, "Mb"),
        ("kb/hartree", "eV, b", 1e3 / HARTREE, "b/eV"),
        ("kb/(hartree sr^2)", "b/(eV sr^2)", 1e3 / HARTREE, "b/(eV sr^2)"),
        ("a0^2/(hartree sr)", "Mb, eV", BOHR2_IN_MB / HARTREE, "Mb/(eV sr)"),
        ("bohr^2", "Mb", BOHR2_IN_MB, "Mb"),
        ("pi a0^2", "Mb", np.pi * BOHR2_IN_MB, "Mb"),
        ("bohr^2", "angstrom", BOHR_M**2 / 1e-20, "angstrom^2"),
        ("bohr^-3", "nm", (BOHR_M / 1e-9) ** -3, "1/nm^3"),
        ("bohr^-1/2", "nm", (BOHR_M / 1e-9) ** -0.5, "1/nm^1/2"),
        ("1/hartree", "cm-1", 1 / 219474.63136314, "1/cm-1"),
        ("hartree^2", "eV", HARTREE**2, "eV^2"),
        ("deg", "rad", np.pi / 180, "rad"),
        ("V/nm", "V/m", 1e9, "V/m"),
        ("hartree", "THz", 6579.683920499, "THz"),
    ],
)
def test_units_are_products_of_powers(unit, wanted, factor, text):
    made = convert(unit, split_units(wanted))
    assert made.unit == text
    assert made.factor == pytest.approx(factor, rel=1e-9)


def test_units_that_stay():
    assert convert("J", split_units("eV")).unit == "J"
    assert convert("s", split_units("fs")) == convert("s", [])
    assert convert("a.u.", ["fs"], "time").factor == pytest.approx(FS, rel=1e-12)
    assert convert("a.u.", ["fs"], "fluence").unit == "a.u."
    assert _factors("hbar^2/J") == {"hbar": Fraction(2), "J": Fraction(-1)}
    with pytest.raises(ValueError, match="'evs' is no unit"):
        split_units("evs")


@pytest.fixture
def photo(tmp_path):
    """Write cross sections of two energies and two gauges."""
    tables = [
        Table("energy", ("energy",), "hartree", "photon energy"),
        Table("gauge", ("gauge",), "", "gauge"),
        Table("sigma", ("energy", "gauge"), "kb", "double ionisation"),
        Table("sigma_error", ("energy", "gauge"), "kb", "its error"),
        Table("psi", ("energy",), "", "complex"),
    ]
    arrays = {
        "energy": np.array([1.0, 2.0]),
        "gauge": np.array(["length", "velocity"], dtype=object),
        "sigma": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "sigma_error": np.array([[0.1, 0.2], [0.3, np.nan]]),
        "psi": np.array([1 + 2j, 3.0]),
    }
    scalars = {"E": Scalar(-2.0, "hartree", 0.5, "energy"), "ok": Scalar(True)}
    path = tmp_path / "photo.h5"
    write_results(path, Content("sturmian", "t", "complete", tables, arrays, scalars, {"deck": {}}))
    return path


def table(*arguments):
    result = CliRunner().invoke(cli, ["table", *map(str, arguments)])
    return result.exit_code, list(csv.reader(io.StringIO(result.stdout))), result.stderr


def test_a_curve_with_its_errors_in_units(photo):
    code, rows, _ = table(photo, "sigma", "--units", "eV, Mb")
    assert code == 0
    assert rows[0] == ["energy (eV)", "gauge", "sigma (Mb)", "sigma_error (Mb)"]
    assert [row[1] for row in rows[1:]] == ["length", "velocity"] * 2
    np.testing.assert_allclose(
        [float(row[0]) for row in rows[1:]], HARTREE * np.array([1, 1, 2, 2]), rtol=1e-12
    )
    np.testing.assert_allclose([float(row[2]) for row in rows[1:]], [1e-3, 2e-3, 3e-3, 4e-3], rtol=1e-12)
    assert rows[4][3] == ""
    # only one gauge, and near one energy
    _, rows, _ = table(photo, "sigma", "--at", "gauge=velocity", "--at", "energy=1.9")
    assert rows[1:] == [["2.0", "velocity", "4.0", ""]]


def test_complex_arrays_coordinates_and_scalars(photo, tmp_path):
    assert table(photo, "psi")[1] == [
        ["energy (hartree)", "Re psi", "Im psi"],
        ["1.0", "1.0", "2.0"],
        ["2.0", "3.0", "0.0"],
    ]
    assert table(photo, "energy")[1] == [["energy (hartree)"], ["1.0"], ["2.0"]]
    code, _, _ = table(photo, "--units", "eV", "-o", tmp_path / "s.csv")
    rows = list(csv.reader(io.StringIO((tmp_path / "s.csv").read_text())))
    assert code == 0
    assert rows[1][0] == "E"
    assert float(rows[1][1]) == pytest.approx(-2 * HARTREE)
    assert float(rows[1][2]) == pytest.approx(0.5 * HARTREE)
    assert rows[2] == ["ok", "true", "", "", "ok"]
    assert table(photo, "energy", "-o", tmp_path / "s.csv")[0] == 6


def test_runs_of_a_scan_come_with_what_is_scanned(tmp_path):
    tables = [
        Table("run_yield", ("run",), "", "yield of each run"),
        Table("scan_cep", ("run",), "rad", "phase of each run"),
    ]
    arrays = {"run_yield": np.array([0.1, 0.2]), "scan_cep": np.array([0.0, np.pi])}
    path = tmp_path / "scan.h5"
    write_results(path, Content("tridiag", "t", "complete", tables, arrays, {}, {"deck": {}}))
    assert table(path, "run_yield", "--units", "deg")[1] == [
        ["run", "scan_cep (deg)", "run_yield"],
        ["0", "0.0", "0.1"],
        ["1", "180.0", "0.2"],
    ]
    assert table(path, "scan_cep")[1][0] == ["run", "scan_cep (rad)"]


def test_an_array_with_fewer_axes_is_repeated(photo):
    """Energies of an axis beside what has more axes, as shares of an energy need it."""
    _, rows, _ = table(photo, "psi", "sigma", "--at", "gauge=velocity")
    assert rows[0] == ["energy (hartree)", "gauge", "Re psi", "Im psi", "sigma (kb)", "sigma_error (kb)"]
    assert [row[1] for row in rows[1:]] == ["velocity", "velocity"]
    assert [float(row[4]) for row in rows[1:]] == [2.0, 4.0]
    # the same numbers as alone
    _, alone, _ = table(photo, "psi")
    assert [row[2:4] for row in rows[1:]] == [row[1:3] for row in alone[1:]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["sigma", "--units", "fs"],
            "nothing here can be given in fs: energy (hartree), gauge (a pure number), sigma (kb)",
        ),
        (["sigmas"], "has no array 'sigmas'; did you mean 'sigma'?; it has"),
        (["gauge", "psi"], "psi has the axes energy, gauge has gauge; print them one by one"),
        (["sigma", "--at", "gauge=none"], "gauge has no value 'none'; it has length, velocity"),
        (["sigma", "--at", "spin=1"], "sigma has no axis 'spin'; it has energy, gauge"),
        (["sigma", "--at", "spin"], "--at spin: expected AXIS=VALUE"),
    ],
)
def test_what_cannot_be_printed(photo, arguments, message):
    code, _, error = table(photo, *arguments)
    assert code == 2
    assert message in " ".join(error.split())

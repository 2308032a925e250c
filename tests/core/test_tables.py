"""Tables with units: in every form of header, from attributes, from the deck; contradictions are refused, silence is told."""

import h5py
import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.deck.tables import read_table, units_in_doubt
from qsim.core.errors import DeckError, FileError, InvalidInput
from qsim.core.run.stages import stage
from qsim.qoc.deck.functions.given import TableDipole, TablePotential
from qsim.sturmian.deck.blocks import PotentialTable as RadialTable
from qsim.sturmian.radial.inputs import read_radial
from qsim.tridiag.deck.pulses.given import TablePulse
from qsim.trotter.deck.profiles import TableProfile
from qsim.trotter.model.profiles import factor

# CODATA 2022: bohr in angstrom, hartree in eV, debye in e*bohr, a.u. of time in fs
BOHR, HARTREE, DEBYE, FS = 0.529177210544, 27.211386245981, 0.3934302695, 0.024188843265864
ROWS = "0.5 1.0\n1.0 -4.5\n1.5,-3\n2 -1\n"
RAW = np.array([[0.5, 1.0], [1.0, -4.5], [1.5, -3.0], [2.0, -1.0]])
HEADERS = [
    "r (Angstrom), V (eV)",
    "r [Angstrom];V [eV]",
    "r (angstrom) V (eV)",
    "bond length (A) energy (eV)",
    "bond length (Å), potential energy (eV), comment",
    "r/Angstrom V/eV",
    "r / Å, V / eV",
    "r V\n(Angstrom) (eV)",
    "# r (Angstrom)  V (eV)",
    "# Potential of OH (ground state), fitted (badly)\n% r [Å], V [eV]",
    "# column 1: r (Angstrom)\n# column 2: V (eV)",
]


def table(folder, text, cls=TablePotential, **keys):
    path = folder / "v.csv"
    path.write_text(text)
    return cls(type="table", file=path, **keys)


@pytest.mark.parametrize("header", HEADERS)
def test_units_of_every_form_of_header(tmp_path, header):
    expected = RAW / [BOHR, HARTREE]
    np.testing.assert_allclose(read_table(table(tmp_path, f"{header}\n{ROWS}")), expected, rtol=1e-12)
    # the key may say the same
    same = table(tmp_path, f"{header}\n{ROWS}", units={"x": "Angstrom", "V": "eV"})
    np.testing.assert_allclose(read_table(same), expected, rtol=1e-12)
    assert list(units_in_doubt(same, "k")) == []


@pytest.mark.parametrize(
    "header", ["", "x, V\n", "x (a.u.), V (a.u.)\n", "x (bohr) V (hartree)\n", "# made (today), by me (A)\n"]
)
def test_atomic_units_keep_their_bits(tmp_path, header):
    block = table(tmp_path, header + ROWS)
    assert read_table(block).tobytes() == RAW.tobytes()
    doubts = [finding.message for finding in units_in_doubt(block, "system.potential")]
    assert bool(doubts) == ("(bohr)" not in header and "(a.u.)" not in header)
    if doubts:
        assert "read as x in bohr and V in hartree" in doubts[0]
        assert "'x (bohr), V (hartree)', or in the key units" in doubts[0]


def test_units_of_the_deck(tmp_path):
    block = table(tmp_path, "x, V\n" + ROWS, units={"V": "cm-1"})
    np.testing.assert_allclose(read_table(block), RAW / [1.0, 219474.63136314], rtol=1e-12)
    # x alone is in doubt
    (finding,) = units_in_doubt(block, "")
    assert "no unit of x, which is read as x in bohr" in finding.message
    dipole = table(tmp_path, "x, mu\n" + ROWS, TableDipole, units={"x": "nm", "mu": "D"})
    np.testing.assert_allclose(read_table(dipole), RAW * [10 / BOHR, DEBYE], rtol=1e-9)


@pytest.mark.parametrize(
    ("header", "units", "message"),
    [
        (
            "r (Angstrom), V (eV)",
            {"V": "hartree"},
            r"v.csv:1: the header says V is in eV, but the key units says hartree",
        ),
        (
            "r (eV), V (Angstrom)",
            {},
            r"v.csv:1: unit of x: 'eV' is a unit of energy or frequency, but a length is needed",
        ),
        (
            "r (Angstrom), V (kJ/moll)",
            {},
            r"v.csv:1: unit of V: unknown unit 'kJ/moll' of energy; did you mean 'kJ/mol'\?",
        ),
        ("# r (Angstrom), V (Angstrom)", {}, "unit of V: 'angstrom' is a unit of length"),
    ],
)
def test_headers_that_do_not_fit(tmp_path, header, units, message):
    with pytest.raises(FileError, match=message):
        read_table(table(tmp_path, f"{header}\n{ROWS}", units=units))


@pytest.mark.parametrize("attribute", ["units", "unit"])
@pytest.mark.parametrize("names", [("x", "V"), ("r", "energy")])
def test_units_of_attributes(tmp_path, attribute, names):
    path = tmp_path / "v.nc"
    with h5py.File(path, "w") as file:
        for name, values, unit in zip(names, RAW.T, ("Angstrom", np.bytes_(b"eV")), strict=True):
            file.create_dataset(name, data=values).attrs[attribute] = unit
    block = TablePotential(type="table", file=path)
    np.testing.assert_allclose(read_table(block), RAW / [BOHR, HARTREE], rtol=1e-12)
    assert list(units_in_doubt(block, "")) == []
    with h5py.File(path, "a") as file:
        file["more"] = RAW[:, 0]
        file["most"] = RAW[:, 0]
    if names == ("r", "energy"):
        with pytest.raises(
            FileError, match="needs the one-dimensional datasets x, V; it has energy, more, most, r"
        ):
            read_table(block)


def test_other_tables(tmp_path):
    rows = "r (Angstrom), V (eV)\n" + ROWS
    np.testing.assert_allclose(
        read_radial(table(tmp_path, rows, RadialTable)), RAW / [BOHR, HARTREE], rtol=1e-12
    )
    (tmp_path / "e.csv").write_text("t (fs), E (V/nm)\n0 0\n1 1\n2 0\n3 0\n")
    pulse = TablePulse(shape="table", file=tmp_path / "e.csv")
    assert pulse.length == pytest.approx(3 / FS, rel=1e-12)
    assert pulse.E(np.array([1 / FS]))[0] == pytest.approx(1 / 514.220675112, rel=1e-9)
    a = TablePulse(shape="table", file=tmp_path / "e.csv", of="A")
    with pytest.raises(FileError, match="e.csv:1: A has the unit 'V/nm', but only au can be read here"):
        _ = a.length
    with pytest.raises(FileError, match="t has the unit 'fs', but only 1/J can be read here"):
        factor(TableProfile(type="table", file=tmp_path / "e.csv"))


def test_a_deck_with_a_table(tmp_path):
    (tmp_path / "v.csv").write_text("r (Angstrom), V (eV)\n" + ROWS)
    deck = tmp_path / "d.yaml"
    text = (
        "method: tridiag\ntask: propagate\npotential: {type: table, file: v.csv, units: {V: furlong}}\n"
        "initial: {type: gaussian, x0: 1.5, k0: 0, width: 0.1}\ngrid: {xmin: 1, xmax: 3, points: 101}\n"
        "time: {dt: 0.1, t_final: 1}\n"
    )
    deck.write_text(text)
    model = stage("tridiag", "deck").DECK
    with pytest.raises(DeckError, match="potential.units.V: unknown unit 'furlong' of energy"):
        load_deck(deck, model)
    deck.write_text(text.replace("furlong", "eV"))
    try:
        block = load_deck(deck, model).deck.potential
    except DeckError as error:
        pytest.fail(str(error))
    # 0.5 and 2 angstrom
    with pytest.raises(InvalidInput, match=r"the table covers \[0.944863, 3.77945\] bohr"):
        block.V(np.array([0.5, 1.0]))


@pytest.mark.parametrize(("end", "told"), [(10.0, True), (4.0, False)])
def test_a_drive_that_ends_before_the_run(tmp_path, end, told):
    (tmp_path / "f.csv").write_text("t, f\n0, 0\n5, 0.25\n")
    term = {
        "type": "field",
        "axis": "x",
        "values": 1.0,
        "profile": {"type": "table", "file": str(tmp_path / "f.csv")},
    }
    deck = {
        "method": "trotter",
        "system": {"spins": 2, "terms": [term]},
        "initial": "neel",
        "evolve": {"t_final": end, "dt": 0.1, "integrator": "ts4"},
        "observe": ["energy"],
    }
    loaded = load_deck(deck, stage("trotter", "deck").DECK)
    found = [finding.message for finding in stage("trotter", "build").plan(loaded).findings]
    ends = [text for text in found if "the table ends at t = 5" in text]
    assert bool(ends) == told
    assert not told or "0.25, holds afterwards" in ends[0]

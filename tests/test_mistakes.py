"""What new users get wrong, in every method: each mistake is answered by one message with its key and the remedy.

The table holds mistakes that were made, or tried, by readers of the documentation alone.  Decks are those of `inputs`, with a
part of their text replaced.
"""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from qsim.cli.group import cli
from qsim.core.deck.load import load_deck, peek_method
from qsim.core.errors import QsimError
from qsim.core.results.tables import Scalar
from qsim.core.results.writing import Content, write_results
from qsim.core.run.examine import examine
from qsim.core.run.stages import stage

INPUTS = Path(__file__).resolve().parents[1] / "inputs"
MORSE = "{type: morse, D: 0.1994, beta: 1.189, r0: 1.821}"
TABLE = "{type: table, file: v.csv}"
WELL = np.column_stack([np.linspace(0.5, 6.0, 60), 0.1 * (np.linspace(0.5, 6.0, 60) - 2.0) ** 2])


def well(header="x (bohr), V (hartree)", comma=",", point=".", ten="e"):
    """Return a table of a well as programs and spreadsheets write it."""
    rows = [comma.join(f"{value:.8e}".replace(".", point).replace("e", ten) for value in row) for row in WELL]
    return "\n".join([header, *rows]) + "\n"


def array(values):
    """Return a NumPy file."""
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


#: Name of the mistake: deck, text, what is there instead, severity, and a part of the answer with its key.
DECKS = {
    # units that were forgotten
    "energy in eV": (
        "sturmian/temkin_poet",
        '"54.4 eV"',
        "54.4",
        "warning",
        "energy.2: 54.4 without a unit is in hartree: 1.48 keV",
    ),
    "excess in eV": (
        "sturmian/he_dpi",
        '"20 eV"',
        "20",
        "warning",
        "task.excess: 20 without a unit is in hartree: 544.2 eV",
    ),
    "photon in eV": (
        "sturmian/he_photo",
        "{from: 24.7 eV, to: 78 eV, count: 200}",
        "[30, 40]",
        "warning",
        "task.photon.0: 30 without",
    ),
    "resonances in eV": (
        "sturmian/resonances",
        "[-0.778]",
        "[-21.2]",
        "warning",
        "task.near.0: -21.2 without a unit",
    ),
    "photoelectrons in eV": ("tridiag/ar_ati", "[0.005, 0.7]", "[0.1, 20]", "error", "write '20 eV'"),
    "rotor in cm-1": (
        "qoc/alignment",
        '"1.9896 cm-1"',
        "1.9896",
        "warning",
        "system.B: 1.9896 without a unit",
    ),
    "rotor in K": ("qoc/alignment", '"10 K"', "10", "error", "a temperature is '10 K'"),
    "angle in words": (
        "tridiag/hhg_800nm",
        "cycles: ",
        "cep: half pi, cycles: ",
        "error",
        "cep: expected an angle: a number (rad) or text such as '90 deg' or '0.5 pi'",
    ),
    "positions in angstrom": ("qmc/li2_dimer", "2.5255]]", "-2.0]]", "warning", "are 0.526 bohr apart"),
    "time of a bare number": ("qoc/cnot", 'T1: "30 us"', "T1: 3", "error", "T2 = 20 us exceeds 2 T1 = 6 ns"),
    "grid in angstrom": (
        "qoc/morse",
        "xmin: 1.0, xmax: 5.0",
        "xmin: 0.4, xmax: 1.9",
        "error",
        "if the grid is meant in angstrom, write xmin: '0.4 angstrom', xmax: '1.9 angstrom'",
    ),
    "duration in fs": (
        "qoc/morse",
        "T: 30000",
        "T: 700",
        "warning",
        "T = 700 a.u. (16.9 fs) is shorter than",
    ),
    "shift in ppm": (
        "trotter/nmr_cluster",
        "values: [0.1,",
        "values: ['1.2 ppm',",
        "error",
        "chemical shifts in ppm are a term of their own",
    ),
    "time in ms": (
        "trotter/nmr_cluster",
        "t_final: 10.0",
        "t_final: 2 ms",
        "error",
        "found '2 ms'; numbers have no unit here",
    ),
    # numbers of other origin
    "dash for a minus": (
        "tridiag/eckart",
        "xmin: -",
        "xmin: \N{EN DASH}",
        "error",
        "grid.xmin: numbers have a decimal point, a plain minus",
    ),
    "quoted number": (
        "tridiag/eckart",
        "points: 5001",
        "points: '5001'",
        "error",
        "grid.points: expected a whole number, found '5001'; write 5001 without quotes",
    ),
    "decimal comma": (
        "tridiag/eckart",
        "dt: 0.",
        "dt: 0,",
        "error",
        "unknown key; is the ',' before it a decimal comma?",
    ),
    "Fortran in a deck": (
        "trotter/ring_echo",
        "t_final: ",
        "accuracy: 1.0d-6\n  t_final: ",
        "error",
        "write 1.0e-6",
    ),
    # words of the field
    "momentum of a lattice of cells": (
        "trotter/kagome_momenta",
        "spectrum:",
        "sector: {momentum: K}\nspectrum:",
        "error",
        "sector.momentum: K is no momentum of 2 x 2 cells: it has the part 2/3 of 2 pi along a direction of 2",
    ),
    "states": (
        "sturmian/he_ground",
        "type: bound",
        "type: bound, states: 2",
        "error",
        "task.states: unknown key; the number of states is n_roots",
    ),
    "GRAPE": ("qoc/morse", "type: lbfgs", "type: GRAPE", "error", "optimizer.type: unknown type 'GRAPE'"),
    "dissipation": (
        "qoc/cnot",
        "  controls:",
        "  dissipation: [a.sm]\n  controls:",
        "error",
        "system.dissipation: unknown key; dissipation is jumps",
    ),
    "label without quotes": (
        "qoc/cnot",
        '"00"',
        "00",
        "error",
        'in quotes, such as "00", or nothing; found 0',
    ),
    "gate that there is not": (
        "qoc/cnot",
        "gate: cnot",
        "gate: CNOTT",
        "error",
        "gate: unknown gate 'CNOTT'; did you mean 'cnot'?",
    ),
    "number of spins": (
        "trotter/ring_echo",
        "spins: ",
        "L: 4\n  spins: ",
        "error",
        "system.L: unknown key; the number of spins is 'spins'",
    ),
    "total spin as a sector": (
        "trotter/heisenberg_ground",
        "task: spectrum",
        "task: spectrum\nsector: {S: 0}",
        "error",
        "sector.S: unknown key; sectors have sz or up",
    ),
    "entropy of a half": (
        "trotter/ring_echo",
        "observe:",
        "observe:\n  - {entropy: half}",
        "error",
        "half of the chain is {entropy: {sites: half}}",
    ),
    "correlator of sites": (
        "trotter/ring_echo",
        "observe:",
        "observe:\n  - {correlator: [0, 5]}",
        "error",
        "chosen pairs are {correlator: zz, pairs: [[0, 5]]}",
    ),
    "multiplicity": (
        "qmc/he_atom",
        "cell: open",
        "cell: open\n  multiplicity: 1",
        "error",
        "system.multiplicity: unknown key; spin is n_up - n_dn",
    ),
    "name of an element": (
        "qmc/he_atom",
        "[[He, ",
        "[[Helium, ",
        "error",
        "expected the symbol of an element, such as He",
    ),
    "atoms as text": (
        "qmc/he_atom",
        "[[He, 0, 0, 0]]",
        '"He 0 0 0"',
        "error",
        "system.atoms: expected a list, found 'He 0 0 0'; atoms are [[He, 0, 0, 0]]",
    ),
    "series as a block": (
        "qmc/he_atom",
        "series:",
        "series: {vmc: {walkers: 64}}\nold:",
        "error",
        "begin each item of the list with '- '",
    ),
    "twist by name": (
        "qmc/electron_gas",
        "twist: [0, 0, 0]",
        "twist: gamma",
        "error",
        "system.twist: expected a list, found 'gamma'",
    ),
    "pair correlation": (
        "qmc/he_atom",
        "estimators: [energy",
        "estimators: [rdf",
        "error",
        "the pair correlation function is gofr",
    ),
    "effective cores of a model": (
        "qmc/he_atom",
        "cell: open",
        "cell: open\n  pseudopotentials: {Helium: ccecp}",
        "error",
        "a label such as H1, or all, found 'Helium'",
    ),
    "absorbed spectrum": (
        "tridiag/ar_ati",
        "initial: 3p",
        "absorber: {type: cap, width: 20, strength: 0.1}\ninitial: 3p",
        "warning",
        "spectra.0.method: electrons that the absorber (cap) takes",
    ),
    "list without brackets": (
        "sturmian/li_plus_scan",
        "N: [6, 8, 12, 16, 24, 35]",
        'N: "8, 12"',
        "error",
        "write [8, 12]",
    ),
    "observable without brackets": (
        "tridiag/eckart",
        "observe:",
        "observe: norm\nold:",
        "error",
        "write [norm]",
    ),
    "path for a file": (
        "qmc/oh_radical",
        "file: oh_radical.chk",
        "path: oh_radical.chk",
        "error",
        "did you mean 'file'?",
    ),
    "momenta that are one": (
        "sturmian/he_ground",
        "task:",
        "extrapolate: {l_max: 4}\ntask:",
        "error",
        "such as [4, 5, 6]",
    ),
}

#: Tables of a potential: name, content of v.csv, severity (none: as meant), a part of the answer.
TABLES = {
    "third column": (
        well(comma=", ").replace("\n", ", 1\n").replace(", 1", "", 1),
        "warning",
        "v.csv has 3 columns; the first 2 are read, as x, V; a header with names, such as 'x, a, V', chooses others",
    ),
    "third column with its name": (
        well("r (bohr), mu (D), V (hartree)", comma=", 1, "),
        None,
        "",
    ),
    "decimal commas": (
        well(comma=";", point=","),
        "error",
        "v.csv:2: '5,00000000e-01;2,25000000e-01' has decimal commas",
    ),
    "decimal commas and tabs": (
        well(comma="\t", point=","),
        "error",
        "has decimal commas; write decimal points",
    ),
    "array of NumPy": (array(WELL), "error", "v.csv is a NumPy array, not text"),
    "spreadsheet": (
        b"PK\x03\x04" + bytes(100),
        "error",
        "such as a spreadsheet (save it as CSV) or .npz, not text",
    ),
    "semicolons": (well(comma=";"), None, ""),
    "Fortran": (well(comma="  ", ten="D"), None, ""),
    "mark of the byte order": ("\ufeff" + well(), None, ""),
}

#: Commands: name, arguments, a part of the answer.
COMMANDS = {
    "range without a number": (
        ["sweep", "d.yaml", "--over", "time.T=1:2"],
        "time.T: 1:2 has two ends; A:B:N says how many values",
    ),
    "range of another program": (["sweep", "d.yaml", "--over", "time.T=1..3"], "such as 1:3:5"),
}


def told(path):
    """Return what a check of a deck tells, as (severity, line)."""
    try:
        found = examine(peek_method(path), path)
    except QsimError as error:
        found = getattr(error, "diagnostics", ())
        if not found:
            return [("error", str(error))]
    return [(each.severity, str(each).replace(": warning: ", ": ", 1)) for each in found]


def written(folder, deck, old, new):
    """Write a deck of `inputs` with a part of its text replaced; the files beside it are there."""
    source = INPUTS / f"{deck}.yaml"
    text = source.read_text(encoding="utf-8")
    assert old in text, f"{deck} has no {old}"
    for beside in source.parent.iterdir():
        if beside.suffix != ".yaml" and beside.name in text:
            (folder / beside.name).symlink_to(beside)
    path = folder / "d.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", DECKS)
def test_a_mistake_in_a_deck_is_answered(tmp_path, name):
    deck, old, new, severity, answer = DECKS[name]
    found = told(written(tmp_path, deck, old, new))
    assert any(kind == severity and "d.yaml:" in text for kind, text in found), found
    assert any(answer in text for _, text in found), found


def test_a_deck_of_another_method_is_one_mistake(tmp_path):
    written(tmp_path, "trotter/ring_echo", "method: trotter", "method: qoc")
    result = CliRunner().invoke(cli, ["validate", str(tmp_path / "d.yaml")])
    assert result.exit_code == 3
    (line,) = result.stderr.splitlines()
    assert "initial, evolve are keys of trotter, not of qoc" in line


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_programs(tmp_path, name):
    content, severity, answer = TABLES[name]
    (tmp_path / "v.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    found = told(written(tmp_path, "qoc/morse", MORSE, TABLE))
    if severity is None:
        assert not [text for kind, text in found if kind == "error"]
        assert not [text for _, text in found if "v.csv" in text]
    else:
        assert [text for kind, text in found if kind == severity and answer in text], found


@pytest.mark.parametrize("name", COMMANDS)
def test_mistaken_commands(tmp_path, monkeypatch, name):
    arguments, answer = COMMANDS[name]
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "qoc/morse", "initial: 0", "initial: 0")
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in (2, 3)
    assert answer in result.stderr


def test_programs_get_an_answer_from_show_and_compare(tmp_path):
    for arguments in (["show", "nothing.h5"], ["compare", "nothing.h5", "nothing.h5"]):
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 6
        answer = json.loads(result.stdout)
        assert (answer["status"], answer["exit_code"]) == ("failed", 6)
        assert "nothing.h5" in answer["error"]
    for name, value in (("a", 1.0), ("b", 2.0)):
        scalars = {"energy": Scalar(value, "hartree", 0.1, "energy")}
        write_results(
            tmp_path / f"{name}.h5", Content("sturmian", "t", "complete", [], {}, scalars, {"deck": {}})
        )
    pair = [str(tmp_path / "a.h5"), str(tmp_path / "b.h5")]
    result = CliRunner().invoke(cli, ["compare", *pair, "--json"])
    answer = json.loads(result.stdout)
    assert result.exit_code == 7
    assert (answer["agree"], [each["name"] for each in answer["quantities"]]) == (False, ["energy"])
    result = CliRunner().invoke(cli, ["compare", *pair, "--json", "--sigmas", "20"])
    assert (result.exit_code, json.loads(result.stdout)["agree"]) == (0, True)


@pytest.mark.parametrize(
    ("written_as", "seconds"), [("02:30:00", 9000), ("1-12:00:00", 129600), ("'9 min'", 540)]
)
def test_times_of_batch_systems(tmp_path, written_as, seconds):
    path = written(
        tmp_path, "tridiag/eckart", "method: tridiag", f"run: {{walltime: {written_as}}}\nmethod: tridiag"
    )
    assert load_deck(path, stage("tridiag", "deck").DECK).deck.run.walltime == seconds


def test_a_checkpoint_is_no_molden_file(tmp_path):
    ((kind, text),) = told(written(tmp_path, "qmc/oh_radical", "source: chkfile", "source: molden"))
    assert kind == "error"
    assert "oh_radical.chk is an HDF5 file, which source: chkfile or qmcpack reads" in text

"""Messages that name the right file and the right key."""

import os

import numpy as np
import pytest
import yaml

import qsim
from qsim.core.deck.load import load_deck
from qsim.core.errors import DeckError, FileError, NumericsError
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import stage

SOLVE = {
    "method": "tridiag",
    "task": "solve",
    "system": {"source": "file", "file": "rod.npz", "rhs": "load.npy"},
}
SPINS = {
    "method": "trotter",
    "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
    "initial": "neel",
    "evolve": {"t_final": 1.0, "dt": 0.1, "integrator": "ts4"},
}
ATOM = {
    "method": "qmc",
    "system": {"cell": "open", "atoms": [["He", 0, 0, 0]]},
    "wavefunction": {"orbitals": {"source": "eshdf", "file": "x.h5"}},
}


def load(folder, deck, *overrides):
    path = folder / "deck.yaml"
    path.write_text(yaml.safe_dump(deck))
    return load_deck(path, stage(deck["method"], "deck").DECK, overrides)


def solve(folder, diagonal, rhs):
    n = len(diagonal)
    np.savez(folder / "rod.npz", a=diagonal, b=np.zeros(n), c=np.zeros(n))
    np.save(folder / "load.npy", rhs)
    load(folder, SOLVE)
    options = Options(output=folder / "out.h5", figures=False, verbosity=-1)
    return execute("tridiag", folder / "deck.yaml", options)


def test_errors_of_data_name_the_file_that_holds_them(tmp_path):
    good, bad = np.full(30, 2.0), np.full(30, 2.0)
    bad[7] = np.inf
    with pytest.raises(FileError, match=r"load\.npy: d\[7\] is not finite"):
        solve(tmp_path, good, bad)
    with pytest.raises(FileError, match=r"rod\.npz: a\[7\] is not finite"):
        solve(tmp_path, bad, good)
    with pytest.raises(NumericsError, match=r"rod\.npz: the matrix is singular"):
        solve(tmp_path, np.zeros(30), good)


def test_pipes_and_devices_are_mistakes_of_the_deck(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "zero.npy").symlink_to("/dev/zero")
    np.savez(tmp_path / "rod.npz", a=np.ones(3))
    for name, kind in (("pipe.npy", "a pipe"), ("zero.npy", "a device")):
        with pytest.raises(DeckError, match=f"system.rhs: '{name}' is {kind}, not a file"):
            load(tmp_path, SOLVE, f"system.rhs={name}")


def test_a_short_form_shows_what_was_found(tmp_path):
    with pytest.raises(DeckError, match=r"<--set evolve.outputs>: evolve.outputs.count: .*found 300000000"):
        load(tmp_path, SPINS, "evolve.outputs=300000000")


def test_a_key_of_another_type_of_block_names_the_type(tmp_path):
    terms = [{"type": "pairs", "list": [[0, 3, 0.1, 0.2, 0.3]], "axis": "z"}]
    with pytest.raises(DeckError, match=r"terms.0.axis: unknown key here; it belongs to type: .*field"):
        load(tmp_path, {**SPINS, "system": {"spins": 4, "terms": terms}})


def test_orbitals_of_crystals_are_blamed_themselves(tmp_path):
    with pytest.raises(DeckError, match=r"wavefunction.orbitals.file: .*x\.h5"):
        load(tmp_path, ATOM)
    with pytest.raises(DeckError, match=r"system.cell: planewave orbitals are periodic"):
        load(tmp_path, ATOM, "wavefunction.orbitals=planewave")


def test_a_home_folder_is_written_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load(tmp_path, SPINS, "output.file=~/a.h5").deck.output.file == str(tmp_path / "a.h5")
    with pytest.raises(DeckError, match="output.file: '~nobody-here/a.h5' cannot be used as a path"):
        load(tmp_path, SPINS, "output.file=~nobody-here/a.h5")


def test_run_takes_a_path_or_a_mapping():
    with pytest.raises(
        TypeError, match="a deck is the path of a YAML file or a mapping of its keys, not a list"
    ):
        qsim.run([{"method": "trotter"}])
    with pytest.raises(DeckError, match=r"^<deck>: system.term: unknown key; did you mean 'terms'\?"):
        qsim.run(
            {"method": "trotter", "system": {"spins": 2, "term": []}, "initial": {"type": "a1", "up": [0]}}
        )


@pytest.mark.parametrize(("value", "hint"), [(3e14, True), (2.5e13, True), (4e29, False), (-3e14, False)])
def test_a_bare_intensity_that_is_too_large_gets_its_likely_unit(tmp_path, value, hint):
    pulse = {"shape": "sin2", "wavelength": "620 nm", "intensity": value, "cycles": 5}
    deck = {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -50, "xmax": 50, "points": 501},
        "potential": {"type": "softcore"},
        "initial": {"type": "eigenstate"},
        "laser": {"pulses": [pulse]},
        "time": {"dt": 0.05},
    }
    with pytest.raises(DeckError, match=r"expected a number (less|greater) than") as caught:
        load(tmp_path, deck)
    written = yaml.safe_dump(value).split()[0]
    assert (f"write '{written} W/cm2'?" in str(caught.value)) is hint


WORDS = [
    ("trotter", {"system": {"S": 1, "spins": 4}}, "system.S", "the size of the spins is 'spin'"),
    ("trotter", {"system": {"spins": 4, "bc": "periodic"}}, "system.bc", "ring is a periodic chain"),
    (
        "trotter",
        {"system": {"lattice": {"type": "square", "pbc": True}}},
        "system.lattice.pbc",
        "periodic: true",
    ),
    (
        "trotter",
        {"system": {"lattice": {"type": "square", "L": 4}}},
        "system.lattice.L",
        "the cells are Lx and Ly",
    ),
    ("trotter", {"observe": [{"structure_factor": "zz", "momenta": "all"}]}, "observe.0.momenta", "are q"),
    ("trotter", {"observe": [{"sq": "zz"}]}, "observe.0.sq", "{structure_factor: zz, q: all}"),
    ("trotter", {"observe": ["total_spin"]}, "observe.0.total_spin", "have their total spin by themselves"),
    (
        "qmc",
        {"wavefunction": {"orbitals": {"source": "pyscf", "chkfile": "a.chk"}}},
        "wavefunction.orbitals.chkfile",
        "source: chkfile",
    ),
    ("sturmian", {"task": {"type": "photo"}}, "task.type", "process: photo"),
    ("sturmian", {"channels": {"S": "singlet"}}, "channels.S", "a singlet is S: 0"),
    (
        "trotter",
        {"system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "diamond"}]}},
        "system.terms.0.lattice",
        "type: pairs, list",
    ),
    ("trotter", {"initial": "0101"}, "initial", '{type: basis, bits: "0101"}'),
    ("trotter", {"task": "ground_state"}, "task", "the ground state is that of task: spectrum"),
    ("trotter", {"evolve": {"tmax": 3}}, "evolve.tmax", "did you mean 't_final'?"),
    ("trotter", {"observe": ["magnetization"]}, "observe.0", "sz: total"),
    ("tridiag", {"task": "atom", "atom": "argon"}, "atom", "argon is muller_ar"),
    ("tridiag", {"task": "atom", "atom": {"type": "Ne"}}, "atom.type", "{type: tong_lin, element: ...}"),
    ("sturmian", {"system": {"Z": "He"}}, "system.Z", "the charge of the nucleus"),
    ("sturmian", {"task": "photo"}, "task", "{type: scatter, process: photo}"),
    ("sturmian", {"channels": {"term": "1S"}}, "channels.term", "L: 0, S: 0"),
    ("sturmian", {"states": 2}, "states", "n_roots"),
    (
        "qmc",
        {"series": [{"dmc": {"population": 256}}]},
        "series.0.dmc.population",
        "the number of walkers is 'walkers'",
    ),
    ("qoc", {"control": {"bounds": "5 V/nm"}}, "control.bounds", "a list, such as ['5 V/nm', '5 V/nm']"),
]


@pytest.mark.parametrize(("method", "changes", "key", "remedy"), WORDS)
def test_words_of_the_field_are_answered_with_the_remedy(method, changes, key, remedy):
    from qsim.core.run.stages import stage

    with pytest.raises(DeckError) as caught:
        load_deck({"method": method, **changes}, stage(method, "deck").DECK)
    told = [item.message for item in caught.value.diagnostics if item.key.startswith(key)]
    assert any(remedy in text for text in told), (told, [item.key for item in caught.value.diagnostics])


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("tridiag", {"task": "atom", "atom": {"type": "tong_lin", "element": "Ar"}}),
        ("tridiag", {"task": "atom", "atom": {"type": "tong_lin", "element": "He"}}),
        ("tridiag", {"task": "atom", "atom": "muller_ar"}),
        ("trotter", {"initial": {"type": "basis", "bits": "0101"}}),
        ("trotter", {"task": "spectrum"}),
        ("trotter", {"observe": [{"sz": "total"}]}),
        ("sturmian", {"task": {"type": "bound", "n_roots": 2}}),
        ("sturmian", {"task": {"type": "scatter", "process": "photo"}}),
    ],
)
def test_remedies_are_keys_that_there_are(method, changes):
    from qsim.core.run.stages import stage

    with pytest.raises(DeckError) as caught:
        load_deck({"method": method, "nothing": 0, **changes}, stage(method, "deck").DECK)
    (name,) = set(changes) - {"task"} or {"task"}
    wrong = [
        item
        for item in caught.value.diagnostics
        if item.key.split(".")[0] == name and "missing" not in item.message
    ]
    assert not wrong


def test_a_file_of_nearly_this_name_is_offered(tmp_path):
    from qsim.core.run.stages import stage

    (tmp_path / "v.csv").touch()
    deck = tmp_path / "d.yaml"
    deck.write_text("method: qoc\nsystem: {potential: {type: table, file: V.csv}}\n")
    with pytest.raises(DeckError, match=r"file 'V.csv' not found; did you mean 'v.csv'\?"):
        load_deck(deck, stage("qoc", "deck").DECK)

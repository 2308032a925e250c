"""Decks of qmc that are wrong: what is said, where, which exit code; and that no numbers whatever do anything else.

Each message must name the file, the line and the key, what was found, and what is allowed or to be done about it.
"""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qsim.core.device import device as core_device
from qsim.core.device.device import cuda_status
from qsim.core.errors import DeckError, MemoryLimitError, NumericsError, QsimError
from qsim.core.run.examine import examine
from qsim.core.run.stages import stage
from tests.changes import PLANS, REMOVE, change, some

INPUTS = Path(__file__).resolve().parents[2] / "inputs/qmc"
BASE = {
    "system": {"atoms": [["He", 0, 0, 0]]},
    "wavefunction": {
        "orbitals": {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]},
        "jastrow": {"J1": {"rcut": 6.0, "size": 6}, "J2": {"rcut": 6.0, "size": 6}},
    },
    "series": [
        {"optimize": {"walkers": 64, "iterations": 2}},
        {"vmc": {"walkers": 64, "blocks": 20, "steps": 5}},
        {"dmc": {"walkers": 64, "timesteps": [0.02, 0.01], "blocks": 20, "steps": 5}},
    ],
    "estimators": ["energy", {"gofr": {"bins": 20, "rmax": 4}}],
}
TRAP = {"system": {"cell": "open"}, "wavefunction": {"orbitals": "hooke"}, "series": ["vmc"]}


def changed(base=BASE, **changes):
    """Return a base deck with keys replaced, as :func:`tests.changes.change` does."""
    return change(base, changes)


@pytest.mark.parametrize("zeta", [0.01, 1.7, 50.0])
def test_the_base_decks_are_good(qmc, zeta):
    deck = changed(wavefunction__orbitals__shells=[{"atom": "He", "n": 1, "zeta": zeta}])
    told = [] if zeta == 1.7 else ["wavefunction.orbitals.shells.0.zeta"]  # far from the charge
    assert [text for text in qmc.load(**deck).warnings if not any(key in text for key in told)] == []
    assert len(qmc.load(**deck).warnings) == len(told)
    assert qmc.load(**TRAP).warnings == []


def test_a_function_that_its_table_cannot_hold(qmc):
    shells = [{"atom": "He", "n": 1, "zeta": 9000.0}]
    with pytest.raises(
        DeckError, match="radial functions are tabulated up to 32 bohr .* less sharp are needed"
    ):
        qmc.load(**changed(wavefunction__orbitals__shells=shells))


ERRORS = {
    # keys
    "unknown block": ({"sytem": {}}, r"sytem: unknown key; did you mean 'system'\?"),
    "unknown key": ({"system__spins": 0}, r"system.spins: unknown key; did you mean 'spin'\?"),
    "no system": ({"system": REMOVE}, "system.atoms: sto orbitals need atoms, such as atoms:"),
    "no wavefunction": ({"wavefunction": REMOVE}, "wavefunction: required key is missing"),
    "precision": ({"run": {"precision": "single"}}, "run.precision: qmc runs in double or in mixed precision"),
    "unknown figure": ({"output": {"figures": ["traces"]}}, None),
    # system
    "no atoms": ({"system": {}}, r"system.atoms: sto orbitals need atoms, such as atoms: \[\[He, 0, 0, 0\]\]"),
    "unknown element": (
        {"system__atoms": [["He", 0, 0, 0], ["Hx", 0, 0, 2]]},
        "system.atoms.1.0: unknown element 'Hx'; did you mean 'H",
    ),
    "atom without place": ({"system__atoms": [["He", 0, 0]]}, "system.atoms.0.3: the list is too short"),
    "position that is none": ({"system__atoms": [["He", 0, 0, "far"]]}, "system.atoms.0.3: expected a length"),
    "atoms in one place": (
        {"system__atoms": [["He", 0, 0, 1], ["He", 0, 0, 1]]},
        r"system.atoms: atoms 1 \(He\) and 2 \(He\) are in the same place",
    ),
    "spin that does not fit": (
        {"system__spin": 1},
        r"system.spin: 2 electrons .*charge 2, total charge 0.* need even spin .*between -2 and 2.*, found 1",
    ),
    "spin above the electrons": ({"system__spin": 4}, "system.spin: 2 electrons .* found 4"),
    "charge that leaves no electron": ({"system__charge": 2}, "system.charge: there is no electron in the system"),
    "charge and electrons": (
        {"system__charge": 1, "system__electrons": 2},
        "system.electrons: the charge gives the number of electrons too",
    ),
    "charge of nothing": ({**TRAP, "system": {"charge": 1}}, "system.charge: there are no ions; give electrons instead"),
    "pseudopotential of an absent element": (
        {"system__pseudopotentials": {"C": "ccecp"}},
        "system.pseudopotentials.C: there is no atom 'C' in the system; its species: He",
    ),
    "missing pseudopotential": (
        {"system__pseudopotentials": {"He": "He.xml"}},
        "system.pseudopotentials.He: file 'He.xml' not found",
    ),
    "quadrature": ({"system__quadrature": 13}, "system.quadrature: expected 6, 12, 18, 26, 32 or 50, found 13"),
    # wavefunction
    "unknown orbitals": (
        {"wavefunction__orbitals": {"source": "stos"}},
        r"wavefunction.orbitals.source: unknown source 'stos'; did you mean 'sto'\? allowed: sto, hydrogen",
    ),
    "muffin tins of a molecule": (
        {"wavefunction__orbitals": {"source": "pyscf", "method": "rhf", "basis": "cc-pvdz", "muffin_tins": "auto"}},
        "wavefunction.orbitals.muffin_tins: muffin tins belong to crystals",
    ),
    "file of orbitals that is missing": (
        {"wavefunction__orbitals": {"source": "molden", "file": "none.molden"}},
        "wavefunction.orbitals.file: file 'none.molden' not found",
    ),
    "extent of a crystal's density": (
        {
            "system": {"electrons": 14, "rs": 5.0},
            "wavefunction": {"orbitals": "planewave", "jastrow": "none"},
            "series": ["vmc"],
            "estimators": [{"density": {"extent": [[0, 1], [0, 1], [0, 1]]}}],
        },
        "estimators.0.density.extent: in a crystal the mesh fills the primitive cell; leave extent out",
    ),
    "no shells": ({"wavefunction__orbitals": {"source": "sto"}}, "wavefunction.orbitals.shells: required key is missing"),
    "shell of an absent atom": (
        {"wavefunction__orbitals__shells__0__atom": "Be"},
        "wavefunction.orbitals.shells.0.atom: no atom 'Be' in the system",
    ),
    "impossible shell": (
        {"wavefunction__orbitals__shells__0__l": 1},
        "wavefunction.orbitals.shells.0: orbitals have 0 <= l < n, found n = 1, l = 1",
    ),
    "negative exponent": ({"wavefunction__orbitals__shells__0__zeta": -1.0}, "shells.0.zeta: .*found -1.0"),
    "too few orbitals": (
        {"system__spin": 2},
        "wavefunction.orbitals.shells: 2 electrons of one spin need as many orbitals, found 1",
    ),
    "atoms in a trap": (
        {"wavefunction__orbitals": "hooke", "wavefunction__jastrow": "none", "series": ["vmc"]},
        "system.atoms: hooke orbitals are for particles in a trap, without atoms",
    ),
    "negative frequency": (
        {**TRAP, "wavefunction": {"orbitals": {"source": "hooke", "omega": -0.5}}},
        "wavefunction.orbitals.omega: expected a number greater than 0.001",
    ),
    "no range": ({"wavefunction__jastrow__J2__rcut": REMOVE}, "jastrow.J2.rcut: a B-spline .* needs its range rcut"),
    "range too large": (
        {"wavefunction__jastrow__J2__rcut": 80.0},
        "wavefunction.jastrow.J2.rcut: rcut = 80 bohr is too large: orbitals end at 32 bohr",
    ),
    "negative range": ({"wavefunction__jastrow__J1__rcut": -8.0}, "jastrow.J1.rcut: .*found -8.0"),
    "one coefficient": ({"wavefunction__jastrow__J1__size": 1}, "jastrow.J1.size: .*at least 2, found 1"),
    "coefficients of another size": (
        {"wavefunction__jastrow__J2__coefficients": {"ud": [0.1, 0.2]}},
        "wavefunction.jastrow.J2.coefficients.ud: size is 6, but there are 2 coefficients",
    ),
    "coefficients of an unknown pair": (
        {"wavefunction__jastrow__J2__coefficients": {"du": [0.1] * 6}},
        "wavefunction.jastrow.J2.coefficients.* 'uu' or 'ud'",
    ),
    "coefficients of an absent element": (
        {"wavefunction__jastrow__J1__coefficients": {"C": [0.1] * 6}},
        r"wavefunction.jastrow.J1.coefficients.C: unknown function 'C'; there are the species of the system \(He\)",
    ),
    "unknown form": ({"wavefunction__jastrow__J2__type": "splines"}, "jastrow.J2.type: expected .*found 'splines'"),
    "b of a spline": (
        {"wavefunction__jastrow__J2__b": 1.0},
        "wavefunction.jastrow.J2.b: b belongs to type: pade, but the type is bspline",
    ),
    "range of a Padé form": (
        {"wavefunction__jastrow__J2__type": "pade"},
        "wavefunction.jastrow.J2.rcut: rcut belongs to type: bspline, but the type is pade",
    ),
    "ions of a trap": (
        {**TRAP, "wavefunction": {"orbitals": "hooke", "jastrow": {"J1": {"rcut": 5.0}}}},
        "wavefunction.jastrow.J1: J1 is about electrons and ions, but there are no ions in a trap",
    ),
    # series
    "empty series": ({"series": []}, "series: expected at least 1 item, found an empty list"),
    "unknown section": ({"series": [{"dcm": {}}]}, r"series.0.dcm: unknown key; did you mean 'dmc'\?"),
    "two sections in an item": (
        {"series": [{"vmc": {}, "dmc": {}}]},
        "series.0: an item is one section, optimize, vmc or dmc; found vmc, dmc; begin each with a dash",
    ),
    "empty item": ({"series": [{}]}, "series.0: an item is one section, optimize, vmc or dmc; found none"),
    "negative time step": ({"series__1__vmc__timestep": -0.3}, "series.1.vmc.timestep: .*greater than 0, found -0.3"),
    "negative time steps": (
        {"series__2__dmc__timesteps": [0.02, -0.01]},
        "series.2.dmc.timesteps.1: .*greater than 0, found -0.01",
    ),
    "time step of nothing": (
        {"series__2__dmc__timesteps": [1e-12]},
        "series.2.dmc.timesteps.0: a time step of 1e-12 is too small",
    ),
    "time step twice": ({"series__2__dmc__timesteps": [0.01, 0.01]}, "timesteps.1: duplicate time step 0.01"),
    "time in another unit": ({"series__1__vmc__timestep": "1 eV"}, "series.1.vmc.timestep: 'eV' is a unit of energy"),
    "no blocks": ({"series__1__vmc__blocks": 0}, "series.1.vmc.blocks: .*found 0"),
    "few walkers": (
        {"series__0__optimize__walkers": 5},
        "series.0.optimize.walkers: an optimisation needs at least 20 walkers",
    ),
    "nothing to optimise": (
        {"wavefunction__jastrow": "none"},
        "series.0.optimize: the Jastrow factor has no parameters to optimise",
    ),
    "unknown target": ({"series__0__optimize__target": "enrgy"}, "optimize.target: .*found 'enrgy'; did you mean 'energy'"),
    "unknown population control": ({"series__2__dmc__population": "combs"}, "dmc.population: .*did you mean 'comb'"),
    "unknown nonlocal": ({"series__2__dmc__nonlocal": "tmov"}, "dmc.nonlocal: .*did you mean 'tmove'"),
    # estimators
    "unknown estimator": (
        {"estimators": [{"momentum": {}}]},
        "estimators.0.momentum: unknown key; allowed: energy, density, forces, overlaps, gofr, radial_density, sofk",
    ),
    "estimator twice": (
        {"estimators": [{"gofr": {"bins": 10}}, "gofr"]},
        "estimators.1.gofr: gofr is listed twice; see estimators.0",
    ),
    "two estimators in an item": (
        {"estimators": [{"gofr": {}, "density": {}}]},
        "estimators.0: an item is one estimator; found density, gofr; begin each with a dash",
    ),
    "edges of the mesh": (
        {"estimators": [{"density": {"extent": [[-1, 1], [2, -2], [-1, 1]]}}]},
        "estimators.0.density.extent.1: edges must ascend, found 2 and -2",
    ),
    "mesh of two": ({"estimators": [{"density": {"mesh": [4, 4]}}]}, "estimators.0.density.mesh: expected at least 3"),
    "density around nothing": (
        {**TRAP, "estimators": ["radial_density"]},
        "estimators.0.radial_density: radial_density is around atoms, and there are none",
    ),
    "an orbital twice": (
        {"system__spin": 2, "wavefunction__orbitals__shells": [{"n": 1, "zeta": 2.0}, {"n": 1, "zeta": 2.0}]},
        "wavefunction.orbitals: the occupied orbitals of spin up are linearly dependent: their determinant is zero",
    ),
    "an orbital that vanishes": (
        {"wavefunction__orbitals__molecular_orbitals": [[0.0]]},
        "wavefunction.orbitals: the occupied orbitals of spin down are linearly dependent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ERRORS if ERRORS[name][1]])
def test_errors_of_decks(qmc, name):
    changes, expected = ERRORS[name]
    qmc.refuses(expected, **changed(**changes))


def test_all_mistakes_at_once(qmc):
    changes = {"system__charge": 1, "system__electrons": 2, "series__2__dmc__timesteps": [0.01, 0.01]}
    with pytest.raises(DeckError) as caught:
        qmc.load(**changed(**changes))
    assert len(caught.value.diagnostics) == 2


GAS = {"system": {"electrons": 14, "rs": 5}, "wavefunction": {"orbitals": "planewave"}, "series": ["vmc"]}
BANDS = {"source": "eshdf", "file": "bands.h5"}
CUBE = [[4, 0, 0], [0, 4, 0], [0, 0, 4]]
CRYSTALS = {
    "lattice": (
        {**BASE, "system": {"atoms": [["He", 0, 0, 0]], "lattice": CUBE}},
        "orbitals.source: sto orbitals are for open boundaries; the cell is periodic",
    ),
    "rows": (
        {**BASE, "system": {"cell": CUBE, "atoms": [["He", 0, 0, 0]]}},
        "orbitals.source: sto orbitals are for open",
    ),
    "twist": (
        changed(system__twist=[0.5, 0, 0]),
        "orbitals.source: sto orbitals are for open",
    ),
    "open bands": (
        changed(wavefunction__orbitals="planewave", system__cell="open"),
        "system.cell: planewave orbitals are periodic",
    ),
    "no file": (
        {"system": {}, "wavefunction": {"orbitals": BANDS}, "series": ["vmc"]},
        "wavefunction.orbitals.file: .*bands.h5",
    ),
    "no electrons": (
        changed(GAS, system__electrons=REMOVE),
        "system.electrons: the electron gas needs a number",
    ),
    "no density": (changed(GAS, system__rs=REMOVE), "system.rs: .*either rs.* or a lattice; found neither"),
    "two densities": (changed(GAS, system__lattice=CUBE), "system.rs: .* found both"),
    "ions": (
        changed(GAS, system__atoms=[["H", 0, 0, 0]]),
        "system.atoms: planewave orbitals are for the electron gas",
    ),
    "flat": (
        changed(GAS, system__rs=REMOVE, system__lattice=[[4, 0, 0], [0, 4, 0], [4, 4, 0]]),
        "system.lattice: the lattice vectors lie in a plane",
    ),
    "range": (
        changed(GAS, wavefunction__jastrow={"J2": {"rcut": 30.0}}),
        r"J2.rcut: rcut = 30 bohr is beyond the Wigner-Seitz radius of the supercell, 9.71282 bohr",
    ),
    "form": (
        changed(GAS, wavefunction__jastrow={"J2": "pade"}),
        "J2.type: pade does not end within the cell",
    ),
    "J1": (changed(GAS, wavefunction__jastrow={"J1": {"size": 4}}), "J1: J1 is about electrons and ions"),
    "breakup": (changed(GAS, coulomb={"kc_rc": 4.0, "tolerance": 1e-6}), "differs from converged Ewald sums"),
    "tiles": (
        changed(GAS, system__tilematrix=[[2, 0, 0], [0, 1, 0], [0, 0, 1]]),
        "system.tilematrix: the electron gas",
    ),
}


@pytest.mark.parametrize("name", CRYSTALS)
def test_crystals_that_cannot_be(qmc, name):
    deck, message = CRYSTALS[name]
    with pytest.raises(QsimError, match=message):
        qmc.load(**deck)


# --------------------------------------------------------------------------------------------- files

XML = """<?xml version="1.0"?>
<pseudo version="0.5">
  <header symbol="{symbol}" atomic-number="2" zval="2" />
  <semilocal units="hartree" format="r*V" npots-down="{announced}" l-local="{local}">
    <vps l="s" cutoff="1.0"><radfunc><grid type="linear" units="bohr" ri="0" rf="10" npts="101"/>
    <data>{data}</data></radfunc></vps>
  </semilocal>
</pseudo>
"""
NUMBERS = " ".join(["0.0", *["-2.0"] * 100])
FILES = {
    "no xml": ("nothing", "cannot be read"),
    "another element": (
        XML.format(symbol="C", announced=1, local=0, data=NUMBERS), "is a pseudopotential of 'C', but the deck gives it to 'He'",
    ),
    "missing local channel": (
        XML.format(symbol="He", announced=1, local=1, data=NUMBERS), "the local channel is l = 1, which the file does not have",
    ),
    "missing channel": (
        XML.format(symbol="He", announced=2, local=0, data=NUMBERS), "2 channels are announced, 1 are there",
    ),
    "numbers that are missing": (
        XML.format(symbol="He", announced=1, local=0, data="1.0 2.0"), "channel s must have 101 finite numbers, found 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_pseudopotential_files(qmc, name):
    text, expected = FILES[name]
    (qmc.folder / "He.xml").write_text(text, encoding="utf-8")
    with pytest.raises(DeckError) as caught:
        qmc.load(**changed(system__pseudopotentials={"He": "He.xml"}))
    assert re.search(rf"deck\.yaml:\d+:\d+: system.pseudopotentials.He: .*{expected}", str(caught.value))


def test_a_file_that_holds_no_orbitals(qmc):
    (qmc.folder / "orbitals.h5").write_text("nothing", encoding="utf-8")
    orbitals = {"source": "pyscf", "basis": "cc-pvdz", "cache": "orbitals.h5"}
    with pytest.raises(QsimError, match=r"orbitals\.h5"):
        qmc.load(**changed(wavefunction__orbitals=orbitals))


# ------------------------------------------------------------------------------------------- warnings

WARNINGS = {
    "few blocks": ({"series__1__vmc__blocks": 5}, "vmc.blocks: 5 blocks are too few for error bars; 20 are needed"),
    "one time step": (
        {"series__2__dmc__timesteps": 0.01, "series__2__dmc__extrapolate": "linear"},
        "series.2.dmc.extrapolate: a linear extrapolation needs 2 time steps, found 1: there will be none",
    ),
    "structure factor": (
        {"estimators": ["sofk"]},
        "estimators.0.sofk: the structure factor needs a crystal; in open boundaries it is left out",
    ),
    "orbitals of one atom": (
        {"system__atoms": [["H", 0, 0, 0], ["H", 0, 0, 1.4]], "wavefunction__orbitals__shells": [{"n": 1, "zeta": 1.2}]},
        "wavefunction.orbitals.shells: 2 orbitals are given for 1 and 1 electrons of spin up and down",
    ),
    "locality of nothing": ({"series__2__dmc__nonlocal": "la"}, "series.2.dmc.nonlocal: there is no pseudopotential"),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(qmc, name):
    changes, expected = WARNINGS[name]
    qmc.warns(expected, **changed(**changes))


# ------------------------------------------------------------------------------------ memory and devices


def test_more_walkers_than_memory(qmc, monkeypatch):
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 2**28)
    with pytest.raises(MemoryLimitError) as caught:
        qmc.execute(**changed(series__1__vmc__walkers=10_000_000))
    assert "walkers" in str(caught.value)
    assert "lower series.1.vmc.walkers" in str(caught.value.hint)
    assert caught.value.exit_code == 4


def test_a_mesh_above_the_memory(qmc, monkeypatch):
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 2**30)
    with pytest.raises(MemoryLimitError) as caught:
        qmc.execute(**changed(estimators=[{"density": {"mesh": [1000, 1000, 1000]}}]))
    assert "lower estimators" in str(caught.value.hint)


@pytest.mark.skipif(cuda_status().count > 0, reason="there is a CUDA device")
def test_without_a_gpu(qmc):
    with pytest.raises(QsimError, match="device 'cuda'.*is not available"):
        qmc.execute(options={"device": "cuda"}, **BASE)


def test_a_population_that_leaves_its_limits_is_an_error(qmc):
    """Far too steep orbitals and large time steps: few walkers die out or multiply."""
    steep = changed(
        wavefunction__jastrow="none",
        wavefunction__orbitals__shells__0__zeta=6.0,
        series=[
            {"dmc": {"walkers": 20, "timesteps": 0.2, "steps": 20, "warmup": 0, "population": "birth_death"}}
        ],
        run={"seed": 1},
    )
    with pytest.raises(NumericsError, match=r"population of \d+ walkers left its limits, 10 to 40") as caught:
        qmc.run(**steep)
    assert "smaller timesteps" in str(caught.value.hint)


def test_a_trial_function_far_from_any_state_loses_its_population(qmc):
    tight = changed(wavefunction__orbitals__shells__0__zeta=400.0, run={"seed": 1})
    with pytest.raises(NumericsError, match=r"the population of .* left its limits"):
        qmc.run(**tight)


# ---------------------------------------------------------------------------------- any deck whatever

ANY = st.sampled_from(
    [0.0, -1.0, 5e-324, 1e-300, 1e-12, 1.1e-6, 1e-3, 0.07, 1.0, 30.0, 900.0, 9e3, 1e12, 1e300]
) | st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(0, 80) | st.sampled_from([-1, 1000, 10**6, 10**15])
LISTS = st.lists(ANY, min_size=1, max_size=6)
NUMBERS_OF_DECKS = {
    "system__atoms": st.lists(st.tuples(st.sampled_from(["He", "H", "Og"]), ANY, ANY, ANY).map(list), max_size=3),
    "system__spin": WHOLE,
    "system__charge": WHOLE,
    "system__electrons": WHOLE,
    "wavefunction__orbitals": st.builds(
        lambda n, l, zeta, c: {"source": "sto", "shells": [{"n": n, "l": l, "zeta": zeta, **c}]},
        WHOLE | st.lists(WHOLE, min_size=1, max_size=3),
        st.integers(0, 5),
        ANY | LISTS,
        st.just({}) | LISTS.map(lambda values: {"coefficients": values}),
    ),
    "wavefunction__jastrow__J1__rcut": ANY,
    "wavefunction__jastrow__J1__cusp": ANY,
    "wavefunction__jastrow__J2__rcut": ANY,
    "wavefunction__jastrow__J2__size": WHOLE,
    "wavefunction__jastrow__J2__coefficients": LISTS.map(lambda values: {"ud": values}),
    "wavefunction__jastrow__J2": ANY.map(lambda b: {"type": "pade", "b": b}),
    "series__0__optimize__shift": ANY,
    "series__1__vmc__walkers": WHOLE,
    "series__1__vmc__blocks": WHOLE,
    "series__1__vmc__timestep": ANY,
    "series__2__dmc__timesteps": ANY | LISTS,
    "series__2__dmc__warmup": ANY,
    "series__2__dmc__walkers": WHOLE,
    "estimators": st.builds(
        lambda bins, rmax, mesh, edges: [{"gofr": {"bins": bins, "rmax": rmax}}, {"density": {"mesh": mesh, "extent": edges}}],
        WHOLE,
        ANY,
        st.lists(WHOLE, min_size=3, max_size=3),
        st.lists(st.lists(ANY, min_size=2, max_size=2), min_size=3, max_size=3),
    ),
}  # fmt: skip
TRAPS = {
    "wavefunction__orbitals__omega": ANY,
    "wavefunction__orbitals__exponent": ANY,
    "system__electrons": WHOLE,
    "system__spin": WHOLE,
}


@PLANS
@given(changes=some(NUMBERS_OF_DECKS, 4))
def test_any_numbers_give_a_plan_or_an_error(qmc, changes):
    with suppress(DeckError):
        loaded = qmc.load(**changed(**dict(sorted(changes.items()))))
        plan = stage("qmc", "build").plan(loaded)
        assert plan.memory.host >= 0
        assert plan.memory.device > 0


@PLANS
@given(changes=some(TRAPS, 3), source=st.sampled_from(["hooke", "harmonic"]))
def test_any_trap_gives_a_plan_or_an_error(qmc, changes, source):
    base = {**TRAP, "wavefunction": {"orbitals": {"source": source}}}
    with suppress(DeckError):
        loaded = qmc.load(**changed(base, **changes))
        assert stage("qmc", "build").plan(loaded).memory.device > 0


@pytest.mark.parametrize(
    ("orbitals", "told"),
    [
        # the ions are known, and that they have a core
        (f"{{source: chkfile, file: {INPUTS / 'oh_radical.chk'}}}", "were made with a pseudopotential of O"),
        ("{source: sto, shells: [{atom: He, n: 1, l: 0, zeta: 1.7}]}", "sto orbitals need atoms"),
    ],
)
def test_a_file_of_orbitals_is_a_system(tmp_path, orbitals, told):
    """A deck needs no block `system` where the file brings the ions; of other orbitals the atoms are asked for."""
    deck = tmp_path / "deck.yaml"
    deck.write_text(f"method: qmc\ntitle: t\nwavefunction:\n  orbitals: {orbitals}\n", encoding="utf-8")
    with pytest.raises(DeckError, match=told) as caught:
        examine("qmc", deck)
    assert "system: required" not in str(caught.value)

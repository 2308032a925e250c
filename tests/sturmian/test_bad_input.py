"""Decks of sturmian that are wrong, or that ask for what box, basis or memory cannot give: what is said, where, which exit code.

Each message must name the file, the line and the key, what was found, and what is allowed or to be done about it.
"""

import re
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.device import device as core_device
from qsim.core.device.device import cuda_status
from qsim.core.errors import DeckError, MemoryLimitError, NumericsError, QsimError
from qsim.core.run.stages import Method
from qsim.sturmian.bound.states import box_density
from qsim.sturmian.bound.warnings import require_contained
from tests.changes import PLANS, REMOVE, change, some

BASE = {
    "system": {"Z": 2},
    "grid": {"R": 16, "order": 10},
    "basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": 10},
    "channels": {"L": 0, "S": 0, "l_max": 1},
    "task": {"type": "bound", "n_roots": 1},
}
OUTGOING = {
    "grid": {"R": 20, "order": 10, "ecs": {"angle": 0.3, "length": 15}},
    "basis": {"type": "gsf", "generating": {"type": "square_well", "tail": 4}, "energy": 0.5, "N": 12},
    "task": {"type": "basis", "l": 0},
}


def changed(base=BASE, **changes):
    """Return a base deck with keys replaced, as :func:`tests.changes.change` does."""
    return change(base, changes)


def outgoing(**changes):
    """Return the changes that make a deck of outgoing functions, and some more."""
    return changed({**OUTGOING}, **changes)


def test_the_base_decks_are_good(sturmian):
    assert sturmian.load(**BASE).warnings == []
    assert sturmian.load(**{**BASE, **OUTGOING}).warnings == []


ERRORS = {
    # keys
    "unknown block": ({"bassis": {}}, r"bassis: unknown key; did you mean 'basis'\?"),
    "unknown key": ({"grid__ordr": 10}, r"grid.ordr: unknown key; did you mean 'order'\?"),
    "no system": ({"system": REMOVE}, "system: required key is missing"),
    "no charge": ({"system": {}}, "system.Z: required key is missing"),
    "negative charge": ({"system__Z": -1}, "system.Z: .*found -1"),
    "unknown potential": ({"system__potential": "coulumb"}, r"system.potential.*did you mean 'coulomb'\?"),
    "missing table": ({"system__potential": {"type": "table", "file": "no.csv"}}, "system.potential.file: .*no.csv"),
    "formula with a mistake": ({"system__potential": {"type": "expression", "value": "-2/q"}}, "system.potential.value: .*'q'"),
    "formula that is not finite": (
        {"system__potential": {"type": "expression", "value": "log(1 - r)"}},
        "system.potential.value: the formula .* is not finite at r = ",
    ),
    "unit of another kind": ({"grid__R": "5 eV"}, "grid.R: .*allowed units: "),
    "unknown generating potential": (
        {"basis__generating": "yukava"},
        r"basis.generating: unknown type 'yukava'; did you mean 'yukawa'\?",
    ),
    "precision": ({"run": {"precision": "single"}}, "run.precision: sturmian runs in double precision, not single"),
    # grid
    "no box": ({"grid__R": -5.0}, "grid.R: .*found -5"),
    "bounds out of order": (
        {"grid__elements": [1.0, 3.0, 2.0, 16.0]},
        "grid.elements.2: bounds of elements must ascend, but 2 follows 3",
    ),
    "bounds that end elsewhere": (
        {"grid__elements": [1.0, 4.0, 12.0]},
        "grid.elements: the last element ends at 12, but R = 16 bohr",
    ),
    "too few points": (
        {"grid": {"R": 16, "order": 4, "elements": 3}, "basis__N": 4},
        "grid.elements: .*points per wavelength at r = .*give more elements",
    ),
    "too few points of a fast electron": (
        outgoing(basis__energy=400.0),
        "grid.order: .*points per wavelength at r = .*give a higher order",
    ),
    # basis
    "bound states from positive energies": (
        {"basis__energy": 0.5},
        "basis.energy: bound states need functions of a negative energy, found 0.5; auto chooses one",
    ),
    "positive energy and bound": (
        {**outgoing(), "basis": {**OUTGOING["basis"], "boundary": "bound"}},
        "basis.boundary: functions of energy 0.5 > 0 do not decay; give boundary: outgoing, or a negative energy",
    ),
    "negative energy and outgoing": (
        outgoing(basis__boundary="outgoing", basis__energy=-0.5),
        "basis.boundary: outgoing functions need a positive energy; found -0.5",
    ),
    "automatic energy and outgoing": (
        outgoing(basis__boundary="outgoing", basis__energy="auto"),
        "basis.boundary: outgoing functions need a positive energy; auto chooses a negative one",
    ),
    "outgoing functions of bound states": (
        {"basis__boundary": "outgoing", "basis__energy": 0.5},
        "basis.boundary: task: bound takes functions that decay; give boundary: bound",
    ),
    "contour and bound states": (
        {"grid__ecs": {"angle": 0.3, "length": 10}},
        r"grid.ecs: task: bound needs functions on the real axis; a complex contour is for outgoing ones \(task: basis\)",
    ),
    "no energy": ({"basis__energy": 0.0}, "basis.energy: .*too small: the functions would not end in any box"),
    "total energy": ({"basis__energy": "total"}, "basis.energy: total is the energy of a collision; give a number, or auto"),
    "energy on a level": (
        {"basis__energy": -0.5},
        "basis.energy: the energy -0.5 hartree of the Sturmian functions is the level -0.5.* of the auxiliary potential",
    ),
    "more functions than points": ({"basis__N": 200}, "basis.N: 200 functions, but the radial grid has "),
    "more functions than independent ones": (
        {"basis__N": 60, "basis__generating__alpha": 20.0},
        "basis.N: only .* of 60 Sturmian functions of l = 0 are independent in double precision.*; a smaller N, a smaller alpha",
    ),
    "underflow": (
        {"basis__generating__alpha": 50.0},
        r"basis.generating.alpha: exp\(-alpha R\) underflows: alpha R = 800; give alpha below 37.5 or a smaller R",
    ),
    "well outside of the box": (
        {"basis__generating": {"type": "square_well", "r0": 17.0}},
        "basis.generating.r0: the well ends at r0 = 17, outside of the box, R = 16 bohr",
    ),
    "missing generating table": (
        {"basis__generating": {"type": "table", "file": "no.csv"}},
        "basis.generating.file: .*no.csv",
    ),
    "no functions": ({"basis__N": 0}, "basis.N: .*at least 1.*found 0"),
    # channels
    "triangle": (
        {"channels": {"L": 0, "pairs": [[0, 0], [0, 1]]}},
        r"channels.pairs.1: \(0, 1\) cannot couple to L = 0: \|la - lb\| <= L <= la \+ lb is violated",
    ),
    "parity": (
        {"channels": {"L": 1, "pairs": [[0, 1], [1, 1]]}},
        r"channels.pairs.1: \(1, 1\) has even parity, but the states of L = 1 have odd parity; parity: even takes",
    ),
    "pair twice": (
        {"channels": {"L": 1, "pairs": [[0, 1], [1, 0]]}},
        r"channels.pairs.1: the pair \[1, 0\] is a duplicate; the exchanged pair is implied",
    ),
    "pair of three": ({"channels": {"L": 0, "pairs": [[0, 0, 0]]}}, "channels.pairs.0: "),
    "pairs and l_max": (
        {"channels": {"L": 0, "l_max": 1, "pairs": [[0, 0]]}},
        "channels.l_max: give either l_max or a list of pairs, not both",
    ),
    "l_max too small": (
        {"channels": {"L": 5, "l_max": 1}},
        "channels.l_max: no pair .* couples to L = 5 of odd parity up to l_max = 1; give 3 at least",
    ),
    "no such parity": (
        {"channels": {"L": 0, "parity": "odd"}},
        "channels.parity: no pair .* couples to L = 0 of odd parity",
    ),
    "quartet": ({"channels__S": 2}, "channels.S: .*found 2"),
    "L twice": ({"channels__L": [0, 0]}, "channels.L.1: L = 0 is a duplicate"),
    "one function of a triplet": (
        {"basis__N": 1, "channels": {"L": 0, "S": 1, "l_max": 0}},
        r"channels.S: with S = 1 and L = 0 the pair \(0, 0\) is antisymmetric, and N = 1 function makes none; give N = 2",
    ),
    "state twice": (
        {"channels": {"l_max": 1}, "states": [{"root": 0}, {"root": 0}], "task": "bound"},
        "states.1: duplicate of states.0",
    ),
    "states and L": (
        {"channels": {"L": 0, "l_max": 1}, "states": [{"root": 1}], "task": "bound"},
        "channels.L: every entry of states has its own L; leave it out here",
    ),
    "states and roots": (
        {"channels": {"l_max": 1}, "states": [{"root": 1}]},
        "task.n_roots: the states are listed one by one; leave n_roots out, or the list",
    ),
    "no roots": ({"task__n_roots": 0}, "task.n_roots: .*found 0"),
    # tasks
    "unknown task": ({"task": "bund"}, r"task.*'bund'; did you mean 'bound'\?"),
    "integrals of the grid": (
        {"basis": "fedvr", "task": "integrals"},
        "basis.type: the integrals are of Sturmian functions; give type: gsf",
    ),
    "even number of Simpson points": (
        {"task": {"type": "integrals", "inner": 8}},
        "task.inner: Simpson's rule needs an odd number of points, found 8",
    ),
    "dense grid": (
        {"basis": "fedvr", "solver": {"type": "dense"}},
        "solver.type: dense assembles the blocks of Sturmian functions; with basis: fedvr take matrix_free",
    ),
    "scan of integrals": (
        {"task": "integrals", "scan": {"N": [4]}},
        "scan: this block belongs to task: bound, but the deck has task: integrals",
    ),
    "unknown solver": ({"solver": {"type": "lanczos"}}, "solver.type: expected .*found 'lanczos'"),
    "tolerance below rounding": ({"solver": {"tolerance": 1e-20}}, "solver.tolerance: .*found 1.0e-20"),
    # extrapolation and scans
    "two points": ({"extrapolate": {"l_max": [4, 6]}}, "extrapolate.l_max: .*at least 3"),
    "l_max out of order": (
        {"extrapolate": {"l_max": [4, 6, 5]}},
        "extrapolate.l_max.2: values must ascend, but 5 follows 6",
    ),
    "extrapolation of given pairs": (
        {"channels": {"pairs": [[0, 0]]}, "extrapolate": {"l_max": [2, 4, 6]}},
        "extrapolate.l_max: needs all pairs up to each l_max, but channels lists pairs",
    ),
    "nothing to scan": ({"scan": {}}, "scan: nothing to scan; give N, l_max"),
    "value twice": ({"scan": {"N": [4, 8, 4]}}, "scan.N.2: the value 4 is a duplicate"),
    "N of the grid": ({"basis": "fedvr", "scan": {"N": [4]}}, "scan.N: N belongs to basis: gsf, but the deck has basis: fedvr"),
    "alpha of a Coulomb basis": (
        {"basis__generating": "coulomb", "scan": {"alpha": [0.5]}},
        "scan.alpha: the generating potential coulomb has no alpha",
    ),
    "positive energies": ({"scan": {"energy": [-0.5, 0.1]}}, "scan.energy.1: bound states need .* negative energy, found 0.1"),
    "steep scan": ({"scan": {"alpha": [0.5, 60.0]}}, r"scan.alpha: exp\(-alpha R\) underflows: alpha R = 960"),
    "large scan": ({"scan": {"N": [4, 300]}}, "scan.N: 300 functions, but the radial grid has "),
    "scanned energy on a level": (
        {"scan": {"energy": [-0.9, -0.5]}},
        r"scan.energy.1: the energy -0.5 hartree .* is the level -0.5.*; there is no Sturmian function at that energy",
    ),
    "figures": ({"output": {"figures": ["betas"]}}, None),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in ERRORS if ERRORS[name][1]])
def test_errors_of_decks(sturmian, name):
    changes, expected = ERRORS[name]
    sturmian.refuses(expected, **changed(**changes))


def test_all_mistakes_at_once(sturmian):
    changes = {"basis__energy": 0.5, "channels__L": [1, 1], "scan": {"N": [3, 3]}}
    with pytest.raises(DeckError) as caught:
        sturmian.load(**changed(**changes))
    assert len(caught.value.diagnostics) == 3


# ------------------------------------------------------------------------------------------ files, tables


def test_a_table_that_changes_its_sign(sturmian):
    (sturmian.folder / "v.csv").write_text("0.5,1\n1,0.5\n2,-0.1\n3,0.01\n4,0.001\n", encoding="utf-8")
    changes = {"basis__generating": {"type": "table", "file": "v.csv"}}
    with pytest.raises(DeckError, match=r"basis.generating.file: .*negative at r = 2"):
        sturmian.load(**changed(**changes))


def test_a_table_that_cannot_be_read(sturmian):
    (sturmian.folder / "v.csv").write_text("1,2\n2,x\n", encoding="utf-8")
    changes = {"system__potential": {"type": "table", "file": "v.csv"}}
    with pytest.raises(QsimError, match=r"v.csv:2: 'x' is not a finite number"):
        sturmian.load(**changed(**changes))


# --------------------------------------------------------------------------------------- box and memory


def test_a_state_that_the_box_cuts_off(sturmian):
    """The lowest state must fit; the message says which R would do, and that R does."""
    tight = {"grid__R": 4.0, "grid__order": 12}
    with pytest.raises(NumericsError) as caught:
        sturmian.run(**changed(**tight))
    assert re.search(
        r"state 0 \(1\^1S\) is not contained in the box: its density at R = 4 is ", str(caught.value)
    )
    found = re.search(r"grid.R of about (\d+) bohr holds it", str(caught.value.hint))
    assert found
    assert sturmian.run(**changed(grid__R=float(found[1]))).states[0].bound


@pytest.mark.parametrize(("R", "told"), [(14.0, True), (45.0, False)])
def test_higher_states_that_feel_the_wall_are_told(sturmian, R, told):
    result = sturmian.run(**changed(task__n_roots=2, grid__R=R, grid__order=8, basis="fedvr"))
    warnings = [text for text in require_contained(result) if "contained" in text]
    assert len(warnings) == told
    if told:
        found = re.fullmatch(
            r"state 1 \(2\^1S\) is not contained in the box: its density at R = 14 is (.*) per bohr; "
            r"grid.R of about (\d+) bohr holds it",
            warnings[0],
        )
        assert found
        assert float(found[1]) == pytest.approx(box_density(result.states[1]), rel=0.1)
        wider = sturmian.run(
            **changed(task__n_roots=2, grid__R=float(found[2]), grid__order=8, basis="fedvr")
        )
        assert not [text for text in require_contained(wider) if "contained" in text]


def test_dense_matrices_above_the_memory(sturmian, monkeypatch):
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 2**30)
    changes = {"solver": {"type": "dense"}, "basis__N": 60, "channels__l_max": 4, "grid__order": 14}
    with pytest.raises(MemoryLimitError) as caught:
        sturmian.execute(**changed(**changes))
    assert "H, S and the eigenvectors" in str(caught.value)
    assert "lower basis.N" in str(caught.value.hint)
    assert "solver.type: matrix_free" in str(caught.value.hint)
    assert caught.value.exit_code == 4


def test_a_grid_above_the_memory(sturmian, monkeypatch):
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 2**30)
    with pytest.raises(MemoryLimitError, match=r"needs .* GB"):
        sturmian.execute(**changed(grid__R=9000.0, basis__generating__alpha=0.05))


@pytest.mark.skipif(cuda_status().count > 0, reason="there is a CUDA device")
def test_without_a_gpu(sturmian):
    with pytest.raises(QsimError, match="device 'cuda'.*is not available"):
        sturmian.execute(options={"device": "cuda"}, **BASE)
    assert sturmian.execute(options={"device": "auto"}, **BASE)["device"] == "cpu"


def test_iterations_that_do_not_suffice(sturmian):
    with pytest.raises(NumericsError, match=r"residual"):
        sturmian.run(**changed(basis="fedvr", solver={"max_iterations": 2, "tolerance": 1e-12}))


WARNINGS = {
    "box smaller than the functions": (
        {"grid__R": 3.0},
        "grid.R: functions of energy -0.9 do not end within R = 3 bohr; the box changes them; 8.94 bohr holds them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(sturmian, name):
    changes, expected = WARNINGS[name]
    sturmian.warns(expected, **changed(**changes))


# ---------------------------------------------------------------------------------- any deck whatever

RUNS = settings(PLANS, max_examples=20)
ANY = st.sampled_from(
    [0.0, -1.0, 5e-324, 1e-300, 1e-12, 1.1e-6, 1e-3, 1.0, 30.0, 1e3, 0.9e6, 1e12, 1e300]
) | st.floats(allow_nan=False, allow_infinity=False)
WHOLE = st.integers(0, 80) | st.sampled_from([-1, 1000, 10**6, 10**15])


def keys(size, whole):
    """Keys of the deck that hold numbers, with numbers of the given kinds."""
    kinds = st.sampled_from(["yukawa", "hulthen", "exponential", "coulomb", "square_well"])
    return {
        "system__Z": size,
        "system__potential": st.sampled_from(
            [{"type": "expression", "value": text} for text in ("-Z/r", "-1/r - exp(-r)/r", "-exp(r)", "r^2", "1/(r - 2)")]
        ),
        "grid__R": size,
        "grid__order": whole,
        "grid__elements": whole | st.lists(size, min_size=1, max_size=5),
        "basis__generating": st.builds(
            lambda kind, a, b: {"type": kind}
            | ({"alpha": a} if kind in ("yukawa", "hulthen", "exponential") else {})
            | ({"r0": a, "tail": b} if kind == "square_well" else {}),
            kinds,
            size,
            size,
        ),
        "basis__energy": size.map(lambda e: -e),
        "basis__N": whole | st.lists(whole, min_size=1, max_size=3),
        "basis__auxiliary": size.map(lambda charge: {"charge": charge}),
        "channels": st.builds(
            lambda L, S, top: {"L": L, "S": S, "l_max": top}, st.integers(0, 6), st.integers(0, 1), st.integers(0, 6)
        ),
        "task__n_roots": whole,
        "solver__tolerance": size,
        "scan": st.dictionaries(
            st.sampled_from(["R", "alpha", "energy"]), st.lists(size, min_size=1, max_size=3), min_size=1, max_size=2
        ),
    }  # fmt: skip


WILD = keys(ANY, WHOLE)
TAME = keys(st.sampled_from([0.4, 0.9, 1.3, 2.2, 6.0, 14.0]), st.integers(1, 12))


@PLANS
@given(some(WILD, 3))
def test_any_number_gives_a_plan_or_an_error_of_the_deck(sturmian, changes):
    with suppress(QsimError):
        sturmian.load(**changed(**changes))


@PLANS
@given(some(WILD, 3))
def test_any_number_gives_outgoing_functions_or_an_error(sturmian, changes):
    changes.pop("channels", None)
    with suppress(QsimError):
        loaded = sturmian.load(**changed({**BASE, **OUTGOING}, **changes))
        assert loaded.deck.task.type == "basis"


@RUNS
@given(some(TAME, 4))
def test_any_combination_gives_a_result_or_an_error(sturmian, changes):
    """From loading to the written arrays: a result, or an error that qsim knows."""
    with suppress(QsimError):
        result = sturmian.run(**changed(**changes))
        assert all(abs(state.moments["norm"] - 1.0) < 1e-8 for state in result.states)
        output = Method("sturmian")
        arrays = {name: np.asarray(array) for name, array in output.arrays(result).items()}
        loose = ("convergence/", "partial_waves/", "state")
        assert all(np.all(np.isfinite(array)) for name, array in arrays.items() if not name.startswith(loose))
        assert output.scalars(result)

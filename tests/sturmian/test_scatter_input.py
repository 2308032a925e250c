"""Decks of collisions that are wrong, or that ask for what box, contour or basis cannot give, and decks that are right."""

import re
from dataclasses import replace

import numpy as np
import pytest

from qsim.core.device.blas import one_thread
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, MemoryLimitError, NumericsError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage
from qsim.sturmian.driven import checks, outgoing
from qsim.sturmian.driven.numbers import Numbers
from qsim.sturmian.driven.setup import Setup
from qsim.sturmian.radial import potentials
from qsim.sturmian.scatter import initial
from tests.changes import REMOVE, change
from tests.decks import Decks

BASE = {
    "system": {"Z": 1},
    "grid": {"R": 24, "order": 11, "ecs": {"angle": 0.3, "length": 20}},
    "basis": {"type": "fedvr"},
    "channels": {"L": 0, "S": [0, 1], "pairs": [[0, 0]]},
    "task": {"type": "scatter", "process": "e_h", "energy": ["54.4 eV"], "errors": False},
}
GSF = {"type": "gsf", "generating": {"type": "square_well", "tail": 4}, "energy": "total", "N": 40}
PHOTO = {
    "system": {"Z": 2},
    "channels": {"L": 1, "l_max": 1},
    "task": {"type": "scatter", "process": "photo", "excess": "20 eV"},
}
BORN = {
    "system": {"Z": 2},
    "channels": {"L": [0, 1], "l_max": 1},
    "task": {"type": "scatter", "process": "born", "incident": "5599 eV", "q": 0.24, "ejected": ["10 eV", "10 eV"]},
}  # fmt: skip


RESONANCES = {**BASE, "task": {"type": "scatter", "process": "resonances", "near": [-0.149]}}


def photo(**changes):
    return {**change({**BASE, **PHOTO}, changes)}


def born(**changes):
    return {**change({**BASE, **BORN}, changes)}


GOOD = {
    "model": BASE,
    "functions": change(BASE, {"basis": GSF}),
    "photo": photo(),
    "born": born(),
    "contract, electrons": {
        "system": {"Z": 1},
        "grid": {"R": 40, "order": 11, "ecs": {"angle": 0.3, "length": 25}},
        "basis": {"type": "gsf", "generating": {"type": "square_well", "r0": 40, "tail": 4}, "energy": "total", "N": 60},
        "channels": {"L": 0, "S": [0, 1], "pairs": [[0, 0]]},
        "task": {
            "type": "scatter", "process": "e_h", "energy": ["27.2 eV", "40.8 eV", "54.4 eV"],
            "observables": ["sigma", "sdcs", "excitation", "unitarity"],
        },
    },
    "contract, photons": {
        "system": {"Z": 2},
        "channels": {"L": 1, "l_max": 3},
        "task": {"type": "scatter", "process": "photo", "excess": "20 eV", "gauges": ["length", "velocity"]},
    },
    "contract, fast electrons": {
        "system": {"Z": 2},
        "basis": {"type": "fedvr"},
        "initial": {"L": 0, "S": 0, "l_max": 3},
        "channels": {"L": [0, 1, 2, 3], "S": 0, "l_max": 3},
        "task": {
            "type": "scatter", "process": "born", "incident": "5599 eV", "q": 0.24, "ejected": ["10 eV", "10 eV"],
            "observables": ["sdcs", "fdcs"],
        },
    },
    "energies of a scan": change(BASE, {"task__energy": REMOVE, "scan": {"energy": [1.5, 2.0]}}),
    "energies of a scan, fast electrons": born(task__ejected=REMOVE, scan={"energy": ["20 eV", "30 eV"]}),
    "resonances": RESONANCES,
    "resonances of unnatural parity": change(RESONANCES, {"channels": {"L": 1, "l_max": 2, "parity": "unnatural"}}),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_good_decks_load_without_a_warning(sturmian, name):
    assert sturmian.load(**GOOD[name]).warnings == []


ERRORS = {
    # keys
    "no energy": (change(BASE, {"task__energy": REMOVE}), "task.energy: required for process: e_h"),
    "excess of electrons": (
        change(BASE, {"task__excess": "20 eV"}),
        "task.excess: excess belongs to process: photo, but",
    ),
    "beta of electrons": (
        change(BASE, {"task__observables": ["sigma", "beta"]}),
        "task.observables: beta belongs to photon energies; give process: photo and photon",
    ),
    "partial cross sections by excess": (
        photo(task__observables=["partial"]),
        "task.observables: partial belongs to photon energies",
    ),
    "sums in acceleration": (
        photo(
            task__photon="40 eV",
            task__excess=REMOVE,
            task__observables=["sum_rules"],
            task__gauges=["acceleration"],
        ),
        "task.observables: sum_rules need the length or the velocity gauge",
    ),
    "impact energy of photons": (
        photo(task__energy="20 eV"),
        "task.energy: energy belongs to process: e_h, but",
    ),
    "fast electrons without q": (born(task__q=REMOVE), "task.q: required for process: born"),
    "negative energy": (change(BASE, {"task__energy": [-1.0]}), r"task.energy.*found -1"),
    "an energy again": (
        change(BASE, {"task__energy": [1.5, 1.5]}),
        "task.energy.1: the energy 1.5 hartree is a duplicate",
    ),
    "a gauge again": (photo(task__gauges=["length", "length"]), "task.gauges: a gauge is a duplicate"),
    "unknown gauge": (photo(task__gauges=["lenght"]), r"task.gauges.0: .*did you mean 'length'\?"),
    "states": (change(BASE, {"states": [{"L": 0}]}), "states: .*begins with the state of initial"),
    "extrapolation": (
        change(BASE, {"extrapolate": {"l_max": [1, 2, 3]}}),
        "extrapolate: this block belongs to task: bound",
    ),
    "scan of alpha": (
        change(BASE, {"scan": {"alpha": [0.1]}}),
        "scan.alpha: a collision scans N, l_max, R, order, angle, length, energy",
    ),
    "scanned box inside of the target": (
        change(BASE, {"scan": {"R": [30, 10]}}),
        "scan.R.1: the contour begins at R = 10 bohr, inside of the target",
    ),
    "scanned contour of bound states": (
        {"system": {"Z": 2}, "scan": {"angle": [0.3]}},
        "scan.angle: the angle of a contour belongs to task: scatter",
    ),
    "energies twice": (change(BASE, {"scan": {"energy": [1.0]}}), "scan.energy: give the energies once"),
    "ejected energies twice": (
        born(scan={"energy": ["20 eV"]}),
        "scan.energy: give the energies once, here or as task.ejected",
    ),
    "no ejected energies": (born(task__ejected=REMOVE), "task.ejected: required for process: born"),
    "energies of resonances": (
        change(
            BASE,
            {
                "task": {"type": "scatter", "process": "resonances", "near": [-0.149]},
                "scan": {"energy": [1.0]},
            },
        ),
        "scan.energy: process: resonances has no energies to scan; give task.near",
    ),
    "initial state of a target": (
        change(BASE, {"initial": {"S": 1}}),
        "initial: the target of e_h is the 1s level",
    ),
    # energies
    "ionisation below its threshold": (
        change(BASE, {"task__energy": ["10 eV"], "task__observables": ["sdcs"]}),
        "task.energy.0: .*below the ionisation energy 0.5: there is no energy sharing",
    ),
    "energy of a level": (
        change(BASE, {"task__energy": [0.375]}),
        "task.energy.0: the total energy -0.125 hartree is the level n = 2 of the target: a channel opens there",
    ),
    "energy of the ionisation threshold": (
        change(BASE, {"task__energy": [0.5]}),
        "task.energy.0: .*the ionisation threshold itself",
    ),
    "ejected energies that do not add up": (
        photo(task__ejected=["5 eV", "5 eV"], task__observables=["fdcs"]),
        "task.ejected: the two energies add up to 0.367",
    ),
    # box and contour
    "box inside of the target": (
        change(BASE, {"grid__R": 10}),
        "grid.R: the contour begins at R = 10 bohr, inside of the target",
    ),
    "box inside of the atom": (
        photo(grid__R=8),
        "grid.R: the contour begins at R = 8 bohr, inside of the target",
    ),
    "waves longer than the box": (
        change(BASE, {"task__energy": [0.51]}),
        r"grid.R: the box of 24 bohr is too small for electrons of 0.005 hartree each, whose waves are 62.8 bohr long; give 126",
    ),
    "too few points of a fast electron": (
        change(BASE, {"task__energy": [20.0], "grid__elements": 8}),
        "grid.order: .*points per wavelength .*give a higher order, or elements: auto",
    ),
    # channels
    "pair that parity forbids": (
        change(BASE, {"channels__pairs": [[0, 0], [0, 1]]}),
        r"channels.pairs.1: \(0, 1\) cannot couple to L = 0 with parity \(-1\)\^L",
    ),
    "no pair of the incident electron": (
        change(BASE, {"channels__pairs": [[1, 1]]}),
        r"channels.pairs: the pair \(0, 0\) of the incident electron is missing for L = 0",
    ),
    "pairs that no L reaches": (
        born(channels={"L": [0, 5], "l_max": 1}),
        "channels.l_max: no pair .* couples to L = 5; give l_max 5 at least",
    ),
    "dipole to S": (
        photo(channels__L=0),
        "channels.L: a photon does not lead from L = 0 to L = 0 with natural parity; give 1",
    ),
    "spin that a photon does not change": (
        photo(channels__S=1),
        "channels.S: photons and fast charges keep the spin, S = 0",
    ),
    "parity": (
        change(BASE, {"channels__parity": "odd"}),
        "channels.parity: a collision from an s level reaches natural parity",
    ),
    "no such parity of S": (
        change(RESONANCES, {"channels": {"L": 0, "l_max": 2, "parity": "unnatural"}}),
        "channels.l_max: no pair .* of odd parity couples to L = 0: two momenta that add up to zero are equal",
    ),
    "pairs of the other parity": (
        change(RESONANCES, {"channels": {"L": 1, "pairs": [[1, 1], [0, 1]], "parity": "unnatural"}}),
        r"channels.pairs.1: \(0, 1\) cannot couple to L = 1 with parity -\(-1\)\^L",
    ),
    "energies of bound states": (
        change(RESONANCES, {"task__near": [-0.149, -1.49]}),
        "task.near.1: -1.49 hartree is below the ground state of the ion, -0.5, where states are bound and no resonances",
    ),
    "pairs and l_max": (
        change(BASE, {"channels__l_max": 2}),
        "channels.l_max: give either l_max or a list of pairs",
    ),
    # basis
    "functions of bound states": (
        change(
            BASE,
            {"basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": "total"}},
        ),
        "basis.generating.type: functions of yukawa do not hold outgoing waves .*give square_well with a tail",
    ),
    "functions that end too early": (
        change(BASE, {"basis": {**GSF, "N": 20}}),
        r"basis.N: 20 functions do not hold waves of 2 per bohr in 24 bohr: the fastest channel would be lost; give 30 at least",
    ),
    "well beyond the box": (
        change(BASE, {"basis": change(GSF, {"generating__r0": 30.0})}),
        "basis.generating.r0: the well ends at r0 = 30, beyond R = 24 bohr",
    ),
    "negative energy of the functions": (
        change(BASE, {"basis": {**GSF, "energy": -0.5}}),
        "basis.energy: a collision needs functions of a positive energy, found -0.5; total takes the collision's",
    ),
    "resonances among functions": (
        change(BASE, {"basis": GSF, "task": {"type": "scatter", "process": "resonances", "near": [-0.149]}}),
        "basis.type: resonances are found in the whole grid; give basis: fedvr",
    ),
    "functions below the threshold": (
        change(BASE, {"basis": GSF, "task__energy": ["5 eV"]}),
        "basis.energy: outgoing functions of the total energy need a positive one; .*basis: fedvr",
    ),
    "dense matrix of the whole grid": (
        change(BASE, {"solver": "dense"}),
        "solver.type: dense makes the matrix of Sturmian functions",
    ),
    "charge too small to hold an electron": (
        change(BASE, {"system": {"Z": 0.5}}),
        "system.potential: a target of charge 0.5 holds no electron",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_mistakes(sturmian, name):
    deck, message = ERRORS[name]
    with pytest.raises(DeckError, match=rf"deck\.yaml:\d+:\d+: {message}"):
        sturmian.load(**deck)


WARNINGS = {
    "scanned order of too few points": (
        change(BASE, {"scan": {"order": [11, 4]}, "grid__elements": 12}),
        "scan.order.1: .*points per wavelength",
    ),
    "well without a tail": (
        change(BASE, {"basis": change(GSF, {"generating__tail": 0})}),
        "basis.generating.tail: .*reflects channels of other energies",
    ),
    "steep contour": (change(BASE, {"grid__ecs__angle": 0.5}), "grid.ecs.angle: .*nearly dependent"),
    "steep contour of many points": (
        change(BASE, {"grid__R": 52, "task__energy": ["420 eV"]}),
        "grid.ecs.angle: .*at 0.3 rad the eigenvectors on a grid of 469 points become nearly dependent, .*; 0.23 is safe",
    ),
    "slow electron": (
        change(BASE, {"task__energy": [0.008]}),
        "grid.ecs.length: .*22 % of the wave of an electron of 0.008 hartree come back .*; give about 124 bohr, or auto",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_doubtful_decks(sturmian, name):
    deck, message = WARNINGS[name]
    (warning,) = sturmian.load(**deck).warnings
    assert re.search(message, warning)


def test_a_contour_whose_eigenvectors_are_nearly_dependent(sturmian, monkeypatch):
    monkeypatch.setattr(outgoing, "CONDITION", 1e3)
    monitor = Monitor.silent()
    sturmian.run(monitor, **change(BASE, {"channels__S": 0, "grid__R": 20}))
    assert any(
        re.search(r"nearly dependent, condition .*; a smaller grid.ecs.angle", text)
        for text in monitor.warnings
    )


def test_a_dense_matrix_that_does_not_fit(sturmian):
    """The paper's (e,3e) example, 35 280 rows, needs 20 GB for one L."""
    deck = change(
        BASE, {"basis": {**GSF, "N": 84}, "solver": "dense", "channels": {"L": 0, "S": 0, "l_max": 4}}
    )
    loaded = sturmian.load(**change(deck, {"grid__R": 45, "grid__order": 13}))
    plan = stage("sturmian", "build").plan(loaded)
    assert plan.memory.parts["matrix"] == 2 * 16 * (5 * 84**2) ** 2
    with pytest.raises(MemoryLimitError, match=r"matrix 39.8 GB") as caught:
        cpu(1).require(replace(plan.memory, device=10**15))  # more than any machine has
    assert "basis.N" in str(caught.value.hint)
    assert "solver.type: matrix_free" in str(caught.value.hint)


def test_no_cross_section_from_an_equation_that_does_not_converge(sturmian):
    deck = change(BASE, {"solver": {"type": "matrix_free", "max_iterations": 3}})
    with pytest.raises(
        NumericsError, match=r"relative residual is .* after 3 steps.*no cross section is taken"
    ):
        sturmian.run(**deck)


def test_an_initial_state_that_does_not_converge(sturmian, monkeypatch):
    from qsim.sturmian.two_electron import davidson

    def fail(*_, **__):
        raise NumericsError("the eigensolver did not converge")

    monkeypatch.setattr(davidson, "lowest", fail)
    with pytest.raises(NumericsError, match="did not converge"):
        sturmian.run(**photo())


@pytest.fixture(scope="module")
def helium(tmp_path_factory):
    """Return the results file of the two lowest singlets of helium, found loosely."""
    case = Decks("sturmian", tmp_path_factory.mktemp("helium"))
    case.execute(
        "helium", system={"Z": 2}, grid={"R": 18, "order": 11}, basis={"type": "fedvr"}, channels={"l_max": 1},
        task={"type": "bound", "n_roots": 1}, solver={"tolerance": 1e-6},
    )  # fmt: skip
    return case.folder / "helium.h5"


def test_an_initial_state_of_another_deck(sturmian, helium):
    found = sturmian.execute(**photo(initial={"file": str(helium)}, grid__R=20, task__gauges=["length"]))
    difference = found["scalars"]["initial_energy_difference"]
    assert abs(difference["value"]) <= difference["error"]


OTHERS = {
    "another nucleus": (
        {"system": {"Z": 3}},
        r"initial.file: the state of helium.h5 has system.Z = 2.0, but this deck has 3",
    ),
    "another state": (
        {"initial__S": 1},
        "initial.file: helium.h5 has no state with L = 0, S = 1, root 0, but L = 0, S = 0, root 0",
    ),
    "no results": ({"initial__file": "deck.yaml"}, "initial.file: .*deck.yaml"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_initial_state_that_does_not_match(sturmian, helium, name):
    changes, message = OTHERS[name]
    deck = change(photo(initial={"file": str(helium)}, grid__R=20), changes)
    with pytest.raises(DeckError, match=message):
        sturmian.load(**deck)


def test_an_initial_state_of_another_deck_that_has_not_converged(sturmian, helium, monkeypatch):
    monkeypatch.setattr(initial, "CONVERGED", 1e-30)
    with pytest.raises(
        DeckError, match=r"initial.file: the state of helium.h5 has not converged: its residual is"
    ):
        sturmian.load(**photo(initial={"file": str(helium)}, grid__R=20))


def test_an_initial_state_whose_density_is_another(sturmian, helium):
    problem = sturmian.build(**photo(initial={"file": str(helium)}, grid__R=20))
    setup = problem.setup()
    found = problem.initial(setup, lambda: None, 1e-6)
    known = problem.recorded
    initial.require_same(known, found, setup.grid)
    shifted = replace(known, density=np.interp(0.7 * known.r, known.r, known.density))
    for wrong in (replace(known, energy=-2.1), shifted):
        with pytest.raises(NumericsError, match=r"the initial state is not the one of helium.h5: energy"):
            initial.require_same(wrong, found, setup.grid)


def test_a_momentum_transfer_that_is_impossible(sturmian):
    with pytest.raises(NumericsError, match=r"momentum transfer of 45 is not between"):
        sturmian.run(**born(task__q=45.0))


def test_an_unbound_initial_state_is_refused(sturmian):
    deck = change(born(), {"system": {"Z": 1}, "initial": {"S": 1}, "grid__R": 40})
    with pytest.raises((DeckError, NumericsError), match=r"not bound|grid.R"):
        sturmian.run(**deck)


def test_elements_follow_the_fastest_electron(sturmian):
    slow, fast = sturmian.build(**BASE), sturmian.build(**change(BASE, {"task__energy": [20.0]}))
    for problem, k in ((slow, 2.0), (fast, 40.0**0.5)):
        bounds = problem.numbers.bounds(1.0)
        widest = np.diff(bounds[bounds.imag == 0.0].real).max()
        assert widest * k / (10 * 2.0 * np.pi) <= 1.0 / 7.0 + 1e-9
    assert any(text.startswith("grid.elements: ") for text in fast.notices)


def test_the_contour_follows_the_electrons(sturmian):
    slow = sturmian.build(**change(BASE, {"grid__ecs": REMOVE, "task__energy": [0.008, 0.3]})).numbers
    assert (slow.angle, slow.length) == (0.3, 124.0)
    assert slow.reflection(0.016**0.5, 1.0) < 1e-4
    fast = sturmian.build(**change(BASE, {"grid__R": 52, "grid__ecs": {}, "task__energy": ["420 eV"]}))
    assert (fast.numbers.angle, fast.numbers.length) == (0.22, 25.0)
    assert "grid.ecs: a contour of 25 bohr at 0.22 rad" in fast.notices


def test_the_safe_angle_is_where_eigenvectors_become_nearly_dependent():
    numbers = Numbers(30.0, 10, 0.3, 25.0, 22)
    angle = 110.0 / numbers.points(1.0)
    conditions = []
    for turned in (0.7 * angle, angle):
        grid = Setup(cpu(1), replace(numbers, angle=turned), 1.0, potentials.OneBody(None, 1.0))
        with one_thread():
            conditions.append(grid.orbitals(0, 1.0).condition)
    assert conditions[0] < 2e8
    assert 2e8 < conditions[1] < 5e9


def test_an_equation_that_a_steep_contour_keeps_from_converging_names_an_angle(sturmian, monkeypatch):
    monkeypatch.setattr(outgoing, "CONDITION", 1e3)
    monkeypatch.setattr(checks, "TURNED", 25.0)
    deck = change(BASE, {"solver": {"type": "matrix_free", "max_iterations": 3}})
    with pytest.raises(NumericsError) as caught:
        sturmian.run(**deck)
    assert re.match(r"grid.ecs.angle: 0.14, since at 0.3 rad .* condition \d", str(caught.value.hint))


def test_energies_are_those_of_the_deck(sturmian):
    problem = sturmian.build(**change(BASE, {"task__energy": ["54.4 eV", 1.5]}))
    assert problem.energies() == pytest.approx([54.4 / 27.211386245981, 1.5])
    assert np.isclose(problem.numbers.R, 24.0)

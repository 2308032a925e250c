"""Walkers: kernels against the oracle of the trial function, updates against recomputation, CPU = CUDA.

Tolerances.  Tables are read alike by kernel and oracle, so log psi and energies agree to rounding: sums of at most 100 terms of
the size of the largest, and an inverse whose condition is below 1e4.  ``1e-10`` of the size held everywhere.
"""

import math
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import NumericsError
from qsim.qmc.kernels.common.tables import scratch_address
from qsim.qmc.kernels.common.types import COMPONENTS, State
from qsim.qmc.kernels.molecule import launch as molecule_launch
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, DRIFT, FIXED_NODE, NONLOCAL, PLAIN, SCALED
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.pseudopotentials import from_ecp
from qsim.qmc.wavefunction.expansion import Listed, arranged
from qsim.qmc.wavefunction.molecules.orbitals import chosen_orbitals
from qsim.qmc.wavefunction.notes import Notes
from qsim_checks.qmc.imported import GaussianShell, Imported
from tests.qmc.trials import trial_function

DECKS = Path(__file__).resolve().parents[3] / "inputs" / "qmc"
KEY = key_from_seed(11)


def spline(size=6, rcut=5.0):
    return {"type": "bspline", "rcut": rcut, "size": size}


def stirred(wavefunction):
    """Give the Jastrow factor coefficients of every sign."""
    p = wavefunction.parameters
    return wavefunction.with_parameters(p + 0.1 * np.sin(1.0 + np.arange(p.size))) if p.size else wavefunction


def helium():
    orbitals = {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]}
    return stirred(
        trial_function({"atoms": [["He", 0, 0, 0]], "spin": 0}, orbitals, {"J1": spline(), "J2": spline()})
    )


def boron():
    """Three electrons up and two down, with a p orbital."""
    shells = [
        {"atom": "B", "n": 1, "l": 0, "zeta": 4.68},
        {"atom": "B", "n": 2, "l": 0, "zeta": 1.3},
        {"atom": "B", "n": 2, "l": 1, "zeta": 1.2},
    ]
    rows = {"up": np.eye(3, 5).tolist(), "down": np.eye(2, 5).tolist()}
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": rows}
    return stirred(
        trial_function(
            {"atoms": [["B", 0.1, -0.2, 0.3]], "spin": 1}, orbitals, {"J1": spline(), "J2": spline()}
        )
    )


def water():
    atoms = [["O", 0, 0, 0], ["H", 0, -1.4305223, 1.1092692], ["H", 0, 1.4305223, 1.1092692]]
    system = {"atoms": atoms, "spin": 0, "pseudopotentials": {"O": "ccecp", "H": "ccecp"}}
    orbitals = {"source": "pyscf", "method": "rhf", "basis": "ccecp-ccpvtz", "cache": "h2o_orbitals.h5"}
    return stirred(trial_function(system, orbitals, {"J1": spline(), "J2": spline()}, folder=DECKS))


def water_of_other_forms():
    """A Jastrow factor of splines and closed forms."""
    atoms = [["O", 0, 0, 0], ["H", 0, -1.4305223, 1.1092692], ["H", 0, 1.4305223, 1.1092692]]
    system = {"atoms": atoms, "spin": 0, "pseudopotentials": {"O": "ccecp", "H": "ccecp"}}
    orbitals = {"source": "pyscf", "method": "rhf", "basis": "ccecp-ccpvtz", "cache": "h2o_orbitals.h5"}
    return stirred(trial_function(system, orbitals, {"J1": spline(), "J2": {"type": "pade"}}, folder=DECKS))


def neon():
    """Six electrons up and four down in orbitals of all shells up to g, in no order of l, about two centres."""
    shells = [
        {"atom": atom, "n": n, "l": l, "zeta": zeta}
        for atom, n, l, zeta in (
            (0, 1, 0, 3.0),
            (0, 4, 3, 2.5),
            (0, 3, 2, 2.0),
            (0, 2, 1, 2.2),
            (0, 5, 4, 2.6),
            (1, 2, 1, 1.4),
            (1, 1, 0, 1.1),
        )
    ]
    rows = np.random.default_rng(5).uniform(-1.0, 1.0, (6, 29)).tolist()
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": {"up": rows, "down": rows[:4]}}
    system = {"atoms": [["Be", 0.1, -0.2, 0.3], ["C", -0.5, 1.1, 0.9]], "spin": 2}
    return stirred(trial_function(system, orbitals, {"J1": spline(), "J2": spline(5, 2.0)}))


def neon_of_one_spin():
    """Five electrons up, none down."""
    shells = [{"atom": "B", "n": n, "l": l, "zeta": 3.0 / n} for n, l in ((1, 0), (2, 0), (2, 1), (3, 2))]
    system = {"atoms": [["B", 0.1, -0.2, 0.3]], "spin": 5}
    return stirred(
        trial_function(system, {"source": "sto", "shells": shells}, {"J1": spline(), "J2": spline()})
    )


def hydrogen_ion():
    """One orbital of two equal atoms, without a Jastrow factor."""
    shells = [{"atom": "H", "n": 1, "l": 0, "zeta": 1.04}]
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [[1.0, 1.0]]}
    system = {"atoms": [["H", 0, 0, -1.0], ["H", 0, 0, 1.0]], "charge": 1, "spin": 1}
    return trial_function(system, orbitals, {"J1": None, "J2": None})


def hooke():
    return trial_function({"atoms": [], "spin": 0}, {"source": "hooke", "omega": 0.5}, None)


def polarised():
    """Two electrons of one spin: no electron of the other."""
    shells = [{"atom": "He", "n": n, "l": 0, "zeta": 2.0 / n} for n in (1, 2)]
    system = {"atoms": [["He", 0, 0, 0]], "spin": 2}
    return stirred(trial_function(system, {"source": "sto", "shells": shells}, {"J1": None, "J2": spline()}))


def beside_a_ghost():
    """Three electrons of beryllium, with functions on a centre that is no nucleus; Jastrow functions of the nucleus alone."""
    molecule = Imported(
        charges=(0, 4),
        places=np.array([[0.3, 0.4, -0.7], [0.0, 0.1, 0.2]]),
        shells=(
            GaussianShell(0, 0, np.array([0.8]), np.ones(1)),
            GaussianShell(0, 2, np.array([0.7]), np.ones(1)),
            GaussianShell(1, 0, np.array([1.1]), np.ones(1)),
            GaussianShell(1, 1, np.array([0.9]), np.ones(1)),
        ),
        cartesian=False,
        coefficients=np.eye(10),
        up=2,
        down=1,
    ).with_orbitals(np.random.default_rng(8).normal(size=(10, 3)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ghost.molden"
        molecule.write_molden(path, "")
        orbitals = {"source": "molden", "file": str(path), "cusp": False}
        made = trial_function({}, orbitals, {"J1": spline(), "J2": spline()}, notes=Notes())
    assert made.system.symbols == ("Be",)
    return stirred(made)


def two_channels():
    """Water with an oxygen whose nonlocal channels s and p differ: one alone would hide which of them is taken."""
    one = water()
    channels = [
        (-1, [[], [[12.3, 6.0]], [[14.8, 73.8]], [[13.7, -47.9]]]),
        (0, [[], [], [[13.7, 85.9]]]),
        (1, [[], [], [[9.1, -11.3]]]),
    ]
    oxygen = from_ecp("O", 8, (2, channels))
    pseudopotentials = {**one.system.pseudopotentials, "O": oxygen}
    return replace(one, system=replace(one.system, pseudopotentials=pseudopotentials))


def expanded(wavefunction, more, count, seed=3):
    """Give a trial function more orbitals, combinations of its atomic ones, and a random sum of determinants of them all."""
    orbitals, counts = wavefunction.orbitals, (wavefunction.n_up, wavefunction.n_dn)
    generator = np.random.default_rng(seed)
    B, sizes = orbitals.size, [n + extra for n, extra in zip(counts, more, strict=True)]
    # Lowest rows of strings are drawn more often, so that some orbitals are in all of them.
    strings = [
        np.array(
            sorted({tuple(sorted(generator.permutation(M)[:n].tolist())) for _ in range(count)}), np.int64
        )
        for M, n in zip(sizes, counts, strict=True)
    ]
    index = np.array([(i, j) for i in range(len(strings[0])) for j in range(len(strings[1]))])
    index = index[generator.permutation(len(index))[: 4 * count]]
    listed = Listed((strings[0], strings[1]), index, generator.normal(size=len(index)))
    expansion, orders = arranged(listed)
    old = orbitals.coefficients
    every = [
        np.concatenate([old[s][:, :n], 0.3 * generator.normal(size=(B, sizes[s] - n))], axis=1)
        for s, n in enumerate(counts)
    ]
    chosen, _ = chosen_orbitals(every, orders, "determinants")
    return replace(wavefunction, orbitals=replace(orbitals, coefficients=chosen), expansion=expansion)


def beryllium():
    """Four determinants, in which 2s2 passes to 2p2."""
    shells = [
        {"atom": "Be", "n": n, "l": l, "zeta": z} for n, l, z in ((1, 0, 3.7), (2, 0, 1.0), (2, 1, 1.0))
    ]
    rows = [{"c": 0.95, "up": [0, 1], "down": [0, 1]}]
    rows += [{"c": -0.18, "up": [0, k], "down": [0, k]} for k in (2, 3, 4)]
    system = {"atoms": [["Be", 0, 0, 0]]}
    made = trial_function(
        system,
        {"source": "sto", "shells": shells},
        {"J1": spline(), "J2": spline()},
        determinants={"list": rows},
    )
    return stirred(made)


SYSTEMS = {
    "beryllium in four determinants": beryllium,
    "many of boron": lambda: expanded(boron(), (3, 2), 8),
    "many of water": lambda: expanded(two_channels(), (4, 3), 30),
    "many of neon": lambda: expanded(neon(), (6, 5), 60),
    "many of one spin": lambda: expanded(neon_of_one_spin(), (4, 0), 20),
    "ghost": beside_a_ghost,
    "helium": helium,
    "boron": boron,
    "two channels": two_channels,
    "water": water,
    "water of other forms": water_of_other_forms,
    "neon": neon,
    "hydrogen ion": hydrogen_ion,
    "hooke": hooke,
    "polarised": polarised,
}


@pytest.fixture(scope="module", params=list(SYSTEMS))
def wavefunction(request):
    return SYSTEMS[request.param]()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(2) if request.param == "cpu" else request.getfixturevalue("cuda")


def ensemble(device, wavefunction, count=6, **keys):
    walkers = Walkers(device, wavefunction, count, KEY, **keys)
    walkers.place()
    return walkers


def host(walkers):
    return State(*(walkers.device.to_host(array) for array in walkers.state))


def rotations(step, walker, electrons, atoms, stream):
    """The rotations of the kernels, from the same counters."""
    out = np.empty((electrons, atoms, 3, 3))
    for e in range(electrons):
        for a in range(atoms):
            pair = 8 * electrons + 2 * (e * atoms + a)
            f, g, h = (
                rng.uniform(KEY, stream, step, 1, draw=2 * pair + k, first=walker)[0] for k in range(3)
            )
            s, t = math.sqrt(1 - f), math.sqrt(f)
            x, y = s * math.sin(2 * math.pi * g), s * math.cos(2 * math.pi * g)
            z, w = t * math.sin(2 * math.pi * h), t * math.cos(2 * math.pi * h)
            out[e, a] = [
                [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
            ]
    return out


# -------------------------------------------------------------------------------------------- oracle


def test_log_psi_and_energies_are_those_of_the_oracle(device, wavefunction):
    walkers = ensemble(device, wavefunction)
    walk.energies(device, walkers.state, walkers.tables, walk.Stream(KEY, 3, 17, 0))
    state = host(walkers)
    atoms = walkers.tables.orbitals.atom.shape[0]
    for w in range(walkers.count):
        log, sign = wavefunction.log_psi(state.R[w])
        assert state.log_psi[w] == pytest.approx(log, abs=1e-10 * max(1.0, abs(log)))
        assert state.sign[w] == sign
        turned = None
        if atoms:
            turned = rotations(17, w, walkers.electrons, atoms, 3)[:, : len(wavefunction.system.symbols)]
        parts = wavefunction.local_energy(state.R[w], turned)
        size = sum(abs(parts[name]) for name in COMPONENTS)
        for k, name in enumerate(COMPONENTS):
            assert state.energy[w, k] == pytest.approx(parts[name], abs=1e-10 * max(1.0, size)), name


def test_rows_are_those_of_the_oracle(device, wavefunction):
    walkers = ensemble(device, wavefunction, 2)
    state = host(walkers)
    n_up = walkers.tables.n_up
    for w in range(2):
        for spin, part in enumerate((slice(0, n_up), slice(n_up, None))):
            points = state.R[w, part]
            if points.size:
                n = points.shape[0]
                wanted = wavefunction.orbitals.rows(points, spin)[:, :, :n]
                found = state.rows[w, part][:, :, :n]
                np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


# ------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize("mode", [PLAIN, DRIFT, FIXED_NODE, PLAIN + SCALED, DRIFT + SCALED])
def test_updates_equal_recomputation(device, wavefunction, mode):
    walkers = ensemble(device, wavefunction, 8)
    walk.walk(device, walkers.state, walkers.tables, 0.2, mode, 10, walkers.stream(1))
    before = host(walkers)
    assert before.moves[:, ACCEPTED].sum() > 0
    error = walkers.recompute()
    after = host(walkers)
    assert error < 1e-9
    np.testing.assert_allclose(before.log_psi, after.log_psi, atol=1e-9)
    np.testing.assert_array_equal(before.sign, after.sign)
    np.testing.assert_allclose(before.rows, after.rows, rtol=1e-12, atol=1e-13)
    if mode == FIXED_NODE:
        assert np.array_equal(before.sign, host(ensemble(device, wavefunction, 8)).sign)


def test_t_moves_equal_recomputation_and_happen(device):
    walkers = ensemble(device, water(), 40)
    for step in range(5):
        walk.diffuse(
            device,
            walkers.state,
            walkers.tables,
            0.1,
            walk.Stream(KEY, 2, step),
            tmoves=True,
            reference=-17.0,
            trial=-17.0,
            window=10.0,
            tau_ratio=1.0,
        )
    before = host(walkers)
    assert before.moves[:, NONLOCAL].sum() > 3
    assert walkers.recompute() < 1e-8
    np.testing.assert_allclose(before.log_psi, host(walkers).log_psi, atol=1e-8)


def _pull(wavefunction, R):
    """How strongly the first electron near an ion is drawn to jump, and which it is."""
    terms = wavefunction.nonlocal_terms(R)
    if not terms:
        return 0.0, 0
    first = terms[0].electron
    return -sum(np.minimum(term.amplitudes, 0.0).sum() for term in terms if term.electron == first), first


def test_t_moves_follow_the_heat_bath():
    """How often the first electron near an ion jumps, against ``t / (1 + t)`` of its walkers; false alarm below 1e-4."""
    device, count, tau = cpu(2), 150, 0.05
    wavefunction = water()
    some = ensemble(device, wavefunction, 30)
    walk.walk(device, some.state, some.tables, 0.2, DRIFT, 30, some.stream(1))
    start = max(host(some).R, key=lambda R: _pull(wavefunction, R)[0])
    first = _pull(wavefunction, start)[1]
    walkers = Walkers(device, wavefunction, count, KEY)
    walkers.state.R[...] = start
    walkers.recompute()
    chances = np.zeros(count)
    for w in range(count):
        terms = wavefunction.nonlocal_terms(start, rotations(0, w, walkers.electrons, 3, 4))
        negative = sum(
            -tau * np.minimum(term.amplitudes, 0.0).sum() for term in terms if term.electron == first
        )
        chances[w] = negative / (1.0 + negative)
    assert 0.02 < chances.mean() < 0.98
    walk.diffuse(  # a diffusion too short to be seen, and long T-moves
        device,
        walkers.state,
        walkers.tables,
        1e-14,
        walk.Stream(KEY, 4, 0),
        tmoves=True,
        reference=0.0,
        trial=0.0,
        window=1.0,
        tau_ratio=tau / 1e-14,
    )
    moved = np.linalg.norm(walkers.state.R[:, first] - start[first], axis=1) > 1e-3
    sigma = math.sqrt(float((chances * (1.0 - chances)).sum()))
    assert abs(moved.sum() - chances.sum()) < 4.0 * sigma


# ------------------------------------------------------------------------------------------ repetition


def run(device, wavefunction, count=8, mode=DRIFT, nudge=0.0, **keys):
    walkers = ensemble(device, wavefunction, count, **keys)
    if nudge:
        # as rounding may place the electrons
        walkers.state.R[...] *= 1.0 + nudge * np.random.default_rng(1).choice([-1, 1], walkers.state.R.shape)
    sums = device.xp.zeros((count, walk.SUMS))
    walk.generations(device, walkers.state, walkers.tables, 0.1, mode, 1, 3, walk.Stream(KEY, 1, 0), sums)
    walk.diffuse(
        device,
        walkers.state,
        walkers.tables,
        0.02,
        walk.Stream(KEY, 1, 10),
        tmoves=True,
        reference=0.0,
        trial=0.0,
        window=50.0,
        tau_ratio=0.9,
    )
    return host(walkers), device.to_host(sums)


def test_threads_do_not_change_a_bit(wavefunction, monkeypatch):
    monkeypatch.setattr(walk, "WORTH_THREADS", 0)
    (one, sums), (two, other) = run(cpu(1), wavefunction), run(cpu(2), wavefunction)
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(sums, other)


def test_a_walker_does_not_depend_on_the_others(wavefunction):
    many, _ = run(cpu(1), wavefunction, 8)
    few, _ = run(cpu(1), wavefunction, 3)
    late, _ = run(cpu(1), wavefunction, 8)
    for a, b, c in zip(many, few, late, strict=True):
        assert np.array_equal(a[:3], b)
        assert np.array_equal(a, c)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [DRIFT, DRIFT + SCALED, PLAIN + SCALED])
def test_cuda_makes_the_same_moves(cuda, wavefunction, mode):
    """Until rounding turns a decision, which in a few generations of 8 walkers it practically never does."""
    (there, sums), (here, wanted) = (run(device, wavefunction, mode=mode) for device in (cuda, cpu(1)))
    for name, a, b in zip(State._fields, there, here, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9 * max(1.0, np.abs(b).max()), err_msg=name)
    np.testing.assert_allclose(sums, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.gpu
@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
def test_any_number_of_lanes_carries_a_walker(cuda, wavefunction, lanes, monkeypatch):
    """37 walkers: the last warp is not full, and walkers of a warp take different decisions."""
    monkeypatch.setattr(molecule_launch, "lanes_of", lambda *_: lanes)
    (there, sums), (here, wanted) = run(cuda, wavefunction, 37), run(cpu(1), wavefunction, 37)
    # Near a node of a random sum a walker carries rounding on by far: by what an ulp of its electrons changes.
    ulp, _ = run(cpu(1), wavefunction, 37, nudge=2.0 * float(np.finfo(float).eps))
    for name, a, b, c in zip(State._fields, there, here, ulp, strict=True):
        carried = np.abs(b - c).reshape(len(b), -1).max(axis=1, initial=0.0)
        allowed = 1e-9 * max(1.0, np.abs(b).max(initial=0.0)) + 30.0 * carried
        off = np.abs(a - b).reshape(len(b), -1) - 1e-8 * np.abs(b).reshape(len(b), -1)
        assert (off.max(axis=1, initial=0.0) <= allowed).all(), name
    np.testing.assert_allclose(sums, wanted, rtol=1e-8, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("electrons", "atoms", "shells", "lanes", "moving"),
    [(2, 1, 1, 1, 1), (4, 1, 9, 4, 1), (8, 3, 21, 16, 8), (30, 8, 200, 32, 32)],
)
def test_small_systems_get_few_lanes(electrons, atoms, shells, lanes, moving):
    sizes = {"electrons": electrons, "atoms": atoms, "shells": shells}
    assert (molecule_launch.lanes_of(sizes), molecule_launch.lanes_of(sizes, molecule_launch.MOVE_ITEMS)) == (
        lanes,
        moving,
    )


@pytest.mark.gpu
def test_launches_are_made_once_and_follow_the_trial_function(cuda):
    """Other tables give other energies, the same again the same launches; scratch memory that grew gives new ones."""
    walkers = ensemble(cuda, water(), 5)
    first = walk.launch_of(walkers.state, walkers.tables)
    assert walk.launch_of(walkers.state, walkers.tables) is first
    walk.energies(cuda, walkers.state, walkers.tables, walk.Stream(KEY, 3, 17, 0))
    before = host(walkers).energy
    walkers.set_wavefunction(stirred(walkers.wavefunction))
    assert walk.launch_of(walkers.state, walkers.tables) is not first
    walk.energies(cuda, walkers.state, walkers.tables, walk.Stream(KEY, 3, 17, 0))
    assert not np.allclose(before, host(walkers).energy)
    second = walk.launch_of(walkers.state, walkers.tables)
    there = scratch_address(0)
    for power in range(4, 16):
        ensemble(cuda, water(), 2**power)
        if scratch_address(0) != there:
            break
    assert walk.launch_of(walkers.state, walkers.tables) is not second
    walk.energies(cuda, walkers.state, walkers.tables, walk.Stream(KEY, 3, 17, 0))


def test_single_precision_stays_close(device, wavefunction):
    """Orbitals, inverses in float32: local energies to 1e-4 of the sizes of their parts after a full inversion."""
    double = ensemble(device, wavefunction, 30)
    single = ensemble(device, wavefunction, 30, single=True)
    assert single.state.rows.dtype == np.float32
    for walkers in (double, single):
        walk.energies(device, walkers.state, walkers.tables, walk.Stream(KEY, 1, 0))
    a, b = host(double).energy, host(single).energy
    scale = np.abs(a).sum(axis=1)
    assert np.median(np.abs(a - b)[:, 5] / scale) < 1e-5
    assert np.all(np.abs(a - b)[:, 5] < 2e-2 * scale)


# ----------------------------------------------------------------------------------------- ensembles


def test_selection_copies_walkers(device, wavefunction):
    walkers = ensemble(device, wavefunction, 5)
    before = host(walkers)
    walkers.select(np.array([0, 1, 1, 3, 4]), np.full(5, 0.8))
    after = host(walkers)
    assert np.array_equal(after.R, before.R[[0, 1, 1, 3, 4]])
    assert np.array_equal(after.inverse, before.inverse[[0, 1, 1, 3, 4]])
    assert np.all(after.weight == 0.8)


@pytest.mark.parametrize("settled", [False, True])
def test_selection_in_place_copies_everything(device, wavefunction, settled):
    indices = np.array([0, 1, 1, 3, 4, 3, 6, 3])
    walkers = ensemble(device, wavefunction, 8)
    walk.energies(device, walkers.state, walkers.tables, walk.Stream(KEY, 1, 0))
    before = host(walkers)
    walkers.select(device.asarray(indices), device.asarray(np.linspace(0.5, 1.5, 8)), settled=settled)
    for name, a, b in zip(State._fields, host(walkers), before, strict=True):
        wanted = np.linspace(0.5, 1.5, 8) if name == "weight" else b[indices]
        assert np.array_equal(a, wanted), name


def test_saved_walkers_go_on_bit_by_bit(wavefunction):
    device = cpu(1)
    walkers = ensemble(device, wavefunction, 4)
    walk.walk(device, walkers.state, walkers.tables, 0.1, DRIFT, 2, walkers.stream(1))
    walkers.generation += 2
    saved = walkers.saved()
    again = Walkers(device, wavefunction, 4, KEY)
    again.restore(saved)
    for each in (walkers, again):
        walk.walk(device, each.state, each.tables, 0.1, DRIFT, 2, each.stream(1))
    for a, b in zip(walkers.state, again.state, strict=True):
        assert np.array_equal(a, b)


def test_an_energy_that_is_not_a_number_shows_its_walker():
    walkers = ensemble(cpu(1), helium(), 3)
    walkers.state.energy[1, 5] = np.nan
    with pytest.raises(NumericsError, match=r"walker 1 has a local energy of nan.*electrons at \("):
        walkers.check_finite()


def test_a_walker_on_a_node_is_refused():
    walkers = ensemble(cpu(1), polarised(), 3)
    walkers.state.R[2, 1] = 100.0  # where all orbitals are zero
    with pytest.raises(NumericsError, match="walker 2 lies on a node"):
        walkers.recompute()


def test_compact_orbitals_find_their_electrons():
    """Slater functions with zeta = 30 end a bohr from the nucleus; walkers have to start within."""
    orbitals = {"source": "sto", "shells": [{"atom": "Zn", "n": 1, "l": 0, "zeta": 30.0}]}
    system = {"atoms": [["Zn", 0, 0, 0]], "spin": 0, "charge": 28}
    walkers = ensemble(cpu(1), trial_function(system, orbitals, {"J1": None, "J2": None}), 200)
    assert np.all(walkers.state.sign != 0)
    assert np.isfinite(walkers.state.log_psi).all()


COLD = """
from qsim.core.device.device import cpu
from qsim.qmc.kernels.molecule import system_cpu
from qsim.qmc.kernels.walkers import energy_cpu, walk
from tests.qmc.kernels.test_walk import ensemble, {name}

walkers = ensemble(cpu(1), {name}(), 3)
walk.energies(walkers.device, walkers.state, walkers.tables, walkers.stream(1))
print(sum(bool(getattr(f, "dispatcher", f).signatures) for f in (system_cpu.nonlocal_electron, energy_cpu.chosen_move)))
"""


@pytest.mark.exhaustive  # compiles the kernel again
@pytest.mark.parametrize(("name", "compiled"), [("helium", "0"), ("water", "2")])
def test_only_pseudopotentials_compile_what_they_need(tmp_path, name, compiled):
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(DECKS.parents[1])}
    found = subprocess.run(
        [sys.executable, "-c", COLD.format(name=name)],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == compiled

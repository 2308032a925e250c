"""Walkers in crystals: CUDA = CPU twin, for real and complex determinants, splines and plane waves, both precisions.

Tolerances.  Random numbers are equal, so walkers make the same moves until rounding turns a decision, which for a few hundred
decisions is as likely as 1e-13 (double) or 1e-4 (mixed) of them.  Sums of at most 100 terms and inverses whose condition is below
1e4 differ by 1e-10 of the largest number in double precision, after some generations by 1e-8; by 2e-3 in mixed precision, where
splines, rows and inverses carry 6e-8 each.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed
from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.crystal import launch as crystal_launch
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, DRIFT, NONLOCAL, PLAIN
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.crystals.trial import build_crystal
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.crystals import CASES, JASTROW, trial

KEY = key_from_seed(11)


def electron_gas(tmp_path, twist=(0, 0, 0), electrons=14):
    """14 electrons, or 7 of each spin in complex waves."""
    block = {"cell": "periodic", "rs": 2.0, "electrons": electrons, "twist": list(twist)}
    system = System.model_validate(block)
    jastrow = {"J2": {"size": 4, "coefficients": {"uu": [0.3, 0.2, 0.1, 0.05], "ud": [0.5, 0.3, 0.2, 0.1]}}}
    block = Wavefunction.model_validate({"orbitals": "planewave", "jastrow": jastrow})
    return build_crystal(system, block, Coulomb(), potentials={}, folder=tmp_path, notes=Notes())


def made_of(case, tmp_path, jastrow=JASTROW, tins=None):
    """The trial function of a case."""
    if case == "waves":
        return electron_gas(tmp_path)
    if case == "complex waves":
        return electron_gas(tmp_path, (0.1, 0.2, -0.3))
    return trial(case, jastrow, tmp_path=tmp_path, tins=tins)[0]


def host(walkers):
    return State(*(walkers.device.to_host(array) for array in walkers.state))


def run(device, made, count, mode=DRIFT, **keys):
    """Generations of both kinds from the same start; states after them, and the sums."""
    walkers = Walkers(device, made, count, KEY, **keys)
    walkers.place()
    sums = device.xp.zeros((count, walk.SUMS))
    walk.walk(device, walkers.state, walkers.tables, 0.2, PLAIN, 1, walk.Stream(KEY, 1, 0))
    walk.generations(device, walkers.state, walkers.tables, 0.1, mode, 1, 2, walk.Stream(KEY, 1, 3), sums)
    walk.diffuse(
        device,
        walkers.state,
        walkers.tables,
        0.05,
        walk.Stream(KEY, 1, 10),
        tmoves=True,
        reference=0.0,
        trial=0.0,
        window=50.0,
        tau_ratio=0.9,
    )
    return host(walkers), device.to_host(sums)


def agree(there, here, rtol, atol):
    """Hold two ensembles against each other."""
    for name, a, b in zip(State._fields, there[0], here[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * max(1.0, np.abs(b).max()), err_msg=name)
    np.testing.assert_allclose(there[1], here[1], rtol=rtol, atol=atol * np.abs(here[1]).max())


@pytest.mark.gpu
@pytest.mark.parametrize("case", [*CASES, "waves", "complex waves"])
def test_cuda_makes_the_same_moves(cuda, case, tmp_path):
    made = made_of(case, tmp_path)
    there, here = run(cuda, made, 5), run(cpu(2), made, 5)
    agree(there, here, 1e-8, 1e-9)
    assert here[0].moves[:, ACCEPTED].sum() > 0
    if "waves" not in case:
        assert np.abs(here[0].energy[:, 3]).max() > 0.0
        assert np.abs(here[0].energy[:, 3] - there[0].energy[:, 3]).max() < 1e-8


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["gamma", "complex"])
@pytest.mark.parametrize("count", [1, 31, 33])
def test_any_number_of_walkers(cuda, case, count, tmp_path):
    """The last warp is not full, and walkers of a warp take different decisions; some make T-moves."""
    made = made_of(case, tmp_path)
    there, here = run(cuda, made, count), run(cpu(2), made, count)
    agree(there, here, 1e-8, 1e-9)
    assert count < 31 or here[0].moves[:, NONLOCAL].sum() > 0


@pytest.mark.gpu
@pytest.mark.parametrize("lanes", [4, 8, 16, 32])
@pytest.mark.parametrize("case", ["gamma", "half"])
def test_any_number_of_lanes_carries_a_walker(cuda, case, lanes, tmp_path, monkeypatch):
    monkeypatch.setattr(crystal_launch, "lanes_of", lambda sizes: lanes)
    made = made_of(case, tmp_path)
    agree(run(cuda, made, 11), run(cpu(2), made, 11), 1e-8, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("case", ["gamma", "pairs", "complex supercell"])
def test_delayed_updates_make_the_same_moves(cuda, case, single, tmp_path, monkeypatch):
    """Windows that are full, cut short by the last electron of a spin, and larger than a spin; some electrons stay."""
    monkeypatch.setattr(crystal_launch, "lanes_of", lambda sizes: 32)
    monkeypatch.setattr(crystal_launch, "DELAYED", 1)
    made = made_of(case, tmp_path)
    rtol, atol = (2e-3, 2e-3) if single else (1e-8, 1e-9)
    there, here = run(cuda, made, 5, single=single), run(cpu(2), made, 5, single=single)
    assert here[0].moves[:, ACCEPTED].max() < 4 * made.n_electrons
    agree(there, here, rtol, atol)


@pytest.mark.gpu
@pytest.mark.parametrize("twist", [(0, 0, 0), (0.1, 0.2, -0.3)])
def test_rows_longer_than_a_load_of_a_warp(cuda, twist, tmp_path):
    """81 electrons of a spin: rows of three loads, or of three with complex numbers."""
    made = electron_gas(tmp_path, twist, 162)
    agree(run(cuda, made, 2), run(cpu(2), made, 2), 1e-8, 1e-9)


@pytest.mark.parametrize(
    ("orbitals", "size", "lanes", "found"),
    [
        (32, 4, 32, (4, 8, 1, 0)),
        (128, 4, 32, (4, 32, 1, 8)),
        (128, 8, 32, (2, 0, 2, 4)),
        (256, 4, 32, (4, 0, 2, 4)),
        (81, 16, 32, (1, 0, 3, 2)),
        (4, 8, 8, (2, 2, 1, 0)),
        (1, 4, 4, (1, 1, 1, 0)),
    ],
)
def test_how_inverses_are_read(orbitals, size, lanes, found):
    assert tuple(crystal_launch._rows(orbitals, size, lanes).values()) == found


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["gamma", "complex"])
def test_without_a_jastrow_factor(cuda, case, tmp_path):
    made = made_of(case, tmp_path, "none")
    agree(run(cuda, made, 5), run(cpu(2), made, 5), 1e-8, 1e-9)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["gamma", "half", "complex"])
def test_mixed_precision_makes_the_same_moves(cuda, case, tmp_path):
    made = made_of(case, tmp_path)
    there, here = run(cuda, made, 6, single=True), run(cpu(2), made, 6, single=True)
    assert there[0].rows.real.dtype == np.float32
    assert np.array_equal(there[0].moves[:, ACCEPTED], here[0].moves[:, ACCEPTED])
    agree(there, here, 2e-3, 2e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("lmax", [3, 6])
@pytest.mark.parametrize("case", ["gamma", "pairs", "complex supercell"])
def test_mixed_basis_makes_the_same_moves(cuda, case, lmax, tmp_path):
    """Electrons are in tins, between their radii, and outside."""
    made = made_of(case, tmp_path, tins={"lmax": lmax, "meshfactor": 1.0})
    there, here = run(cuda, made, 5), run(cpu(2), made, 5)
    agree(there, here, 1e-8, 1e-9)
    d = here[0].R.reshape(-1, 1, 3) - made.orbitals.tins.centres
    r = np.linalg.norm(made.orbitals.primitive.nearest(d), axis=-1).min(1)
    inner, outer = made.orbitals.tins.inner, made.orbitals.tins.outer
    assert all(where.any() for where in (r < inner, (r > inner) & (r < outer), r > outer))


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["pairs", "complex supercell"])
def test_mixed_basis_in_mixed_precision_makes_the_same_moves(cuda, case, tmp_path):
    made = made_of(case, tmp_path, tins={"lmax": 4, "meshfactor": 1.0})
    there, here = run(cuda, made, 6, single=True), run(cpu(2), made, 6, single=True)
    assert np.array_equal(there[0].moves[:, ACCEPTED], here[0].moves[:, ACCEPTED])
    agree(there, here, 2e-3, 2e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("case", ["pairs", "complex"])
def test_mixed_precision_holds_far_from_the_origin(cuda, case, tmp_path):
    """Potential energies of walkers whose electrons are up to 1000 cells away: 6e-8 of such a distance would be 2e-4 bohr."""
    made = made_of(case, tmp_path)
    walkers = Walkers(cuda, made, 3, KEY, single=True)
    walkers.place()
    energies = []
    cells = np.random.default_rng(3).integers(-1000, 1001, host(walkers).R.shape)
    for shift in (0.0, cells @ made.cell.lattice):
        walkers.state.R[...] += cuda.asarray(np.broadcast_to(shift, cells.shape))
        walkers.recompute()
        walk.energies(cuda, walkers.state, walkers.tables, walk.Stream(KEY, 1, 0))
        energies.append(host(walkers).energy[:, 1:3].copy())
    np.testing.assert_allclose(energies[1], energies[0], rtol=1e-15, atol=1e-6)


@pytest.mark.parametrize(
    ("channels", "electrons", "atoms", "lanes"),
    [(1, 2, 2, 4), (4, 8, 2, 8), (32, 64, 16, 32), (128, 256, 64, 32)],
)
def test_small_crystals_get_few_lanes(channels, electrons, atoms, lanes):
    sizes = {"all_channels": channels, "electrons": electrons, "atoms": atoms}
    assert crystal_launch.lanes_of(sizes) == lanes


def test_no_place_is_within_the_range_of_more_ions_than_there_is_room_for(tmp_path):
    """The bound of the slots holds at random points, and is not far above what occurs."""
    made = trial("gamma", tmp_path=tmp_path)[0]
    tables = made.hamiltonian_tables()
    points = np.random.default_rng(0).random((2000, 3)) @ made.cell.lattice
    apart = made.cell.fold(points[:, None] - made.system.positions)[:, :, None] + tables.images
    found = (np.linalg.norm(apart, axis=-1) < tables.cutoff[0]).sum((1, 2)).max()
    assert 1 <= found <= tables.slots <= 9 * found


COLD = """
import sys
from pathlib import Path
from qsim.core.device.device import cpu
from qsim.qmc.kernels.crystal import bloch_cpu
from qsim.qmc.kernels.crystal import system_cpu
from qsim.qmc.kernels.common import inverses_cpu
from qsim.qmc.kernels.walkers import advance_cpu, energy_cpu, walk
from qsim.qmc.kernels.walkers.derivatives import derivatives
from qsim.qmc.sampling.parameters import Varied
from tests.qmc.kernels.test_crystal_walk import made_of, run
from qsim.qmc.sampling.walkers import Walkers

made = made_of("{case}", Path(sys.argv[1]), tins={tins})
run(cpu(1), made, 2)
walkers = Walkers(cpu(1), made, 2, (1, 2))
walkers.place()
places = Varied(made).tables(cpu(1))
derivatives(cpu(1), walkers.state, walkers.tables, places, made.parameters.size, walkers.stream(1))
kernels = (
    bloch_cpu.wave_sums,
    bloch_cpu.spline_sums,
    bloch_cpu.mixed_sums,
    system_cpu.nonlocal_electron,
    energy_cpu.chosen_move,
    inverses_cpu.update_window,
    advance_cpu.shared,
)
print(*(len(f.signatures) for f in kernels))
"""


@pytest.mark.exhaustive  # compiles the kernel again
@pytest.mark.parametrize(
    ("case", "tins", "compiled"),
    [
        ("waves", None, "1 0 0 0 0 0 1"),
        ("gamma", None, "0 1 0 1 1 0 1"),
        ("gamma", {"lmax": 4}, "0 1 1 1 1 0 1"),
    ],
)
def test_a_system_compiles_one_kernel_and_only_what_it_needs(case, tins, compiled, tmp_path):
    environ = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
    }
    found = subprocess.run(
        [sys.executable, "-c", COLD.format(case=case, tins=tins), str(tmp_path)],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == compiled

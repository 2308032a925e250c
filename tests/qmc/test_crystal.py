"""Crystals: Ewald sums against known constants, splines against plane waves, kernels against the reference, energies exactly."""

import math

import h5py
import numpy as np
import pytest
from scipy.optimize import lsq_linear

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.core.run.stages import Method
from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.estimators.density import CrystalDensity
from qsim.qmc.estimators.histograms import Setting
from qsim.qmc.estimators.pair_density import CrystalPairDensity
from qsim.qmc.kernels.common.types import COMPONENTS, State
from qsim.qmc.kernels.estimators.estimators import UNIT, quanta
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.derivatives import derivatives
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, DRIFT, FIXED_NODE, NONLOCAL, PLAIN
from qsim.qmc.sampling.parameters import Varied
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.breakup import break_up
from qsim.qmc.system.cell import Cell, distances_of_cells, reduced_basis
from qsim.qmc.system.ewald import ewald_energy, madelung, potential
from qsim.qmc.system.twists import twists_of
from qsim.qmc.wavefunction.crystals.bloch import (
    BlochOrbitals,
    Crystal,
    KPoint,
    mesh_for,
    occupied_bands,
    occupied_waves,
)
from qsim.qmc.wavefunction.crystals.trial import build_crystal
from qsim.qmc.wavefunction.formats.eshdf import read_eshdf, stored_ecp, write_eshdf
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.crystals import ATOMS, CASES, SKEW_TILE, SKEWED, UNTILED, exact_energies, model_crystal, trial
from tests.qmc.crystals import potential as model_potential

output = Method("qmc")

KEY = key_from_seed(5)
FCC = np.array([[0.0, 1, 1], [1, 0, 1], [1, 1, 0]])


# --------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize(
    ("lattice", "charges", "places", "distance", "constant"),
    [  # Madelung constants of the rock salt, caesium chloride and zincblende structures
        (FCC, [1, -1], [[0, 0, 0], [1, 0, 0]], 1.0, 1.7475645946331822),
        (np.eye(3), [1, -1], [[0, 0, 0], [0.5, 0.5, 0.5]], math.sqrt(0.75), 1.7626747730709884),
        (FCC, [1, -1], [[0, 0, 0], [0.5, 0.5, 0.5]], math.sqrt(0.75), 1.6380550533887896),
    ],
)
def test_madelung_constants(lattice, charges, places, distance, constant):
    energy = ewald_energy(Cell(np.array(lattice, float)), np.array(charges, float), np.array(places, float))
    assert -energy * distance == pytest.approx(constant, abs=1e-12)


def test_a_charge_in_its_background():
    assert madelung(Cell(np.eye(3))) == pytest.approx(-2.837297479480620, abs=1e-12)  # simple cubic
    body_centred = Cell(0.5 * np.array([[-1.0, 1, 1], [1, -1, 1], [1, 1, -1]]) * 2 ** (1 / 3))
    assert madelung(body_centred) == pytest.approx(-2.888461503053941, abs=1e-12)
    # the energy of graphene's ions in a slab, from QMCPACK's issue 2137
    graphene = Cell(
        np.array([[4.02781299, 2.325608662, 0], [4.02781299, -2.325608662, 0], [0, 0, 18.897259886]])
    )
    places = np.array([[0.234580802, 0.085862533, 0.5], [0.900790279, 0.752757794, 0.5]]) @ graphene.lattice
    assert ewald_energy(graphene, np.array([4.0, 4.0]), places) == pytest.approx(14.002118126747, abs=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_reduction_and_nearest_images(seed):
    generator = np.random.default_rng(seed)
    basis = generator.normal(size=(3, 3)) + np.eye(3) * 2
    change = np.array([[1, 0, 0], [3, 1, 0], [-2, 4, 1]])
    reduced = reduced_basis(change @ basis)
    steps = np.rint(reduced @ np.linalg.inv(basis))
    np.testing.assert_allclose(steps @ basis, reduced, atol=1e-9)
    assert abs(np.linalg.det(steps)) == pytest.approx(1.0)
    m = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3, indexing="ij"), -1).reshape(-1, 3)
    lengths = np.sort(np.linalg.norm(m @ reduced, axis=1))[1:]
    cell = Cell(change @ basis)
    assert 2 * cell.radius == pytest.approx(lengths[0])
    d = generator.normal(size=(50, 3)) * 4
    everything = cell.fold(d)[:, None] + m @ reduced
    brute = np.sqrt((everything**2).sum(-1)).min(1)
    np.testing.assert_allclose(np.linalg.norm(cell.nearest(d), axis=1), brute, atol=1e-9)
    # the short list of images is enough within its reach
    images = cell.fold(d)[:, None] + cell.images(1.7 * cell.radius)
    few = np.sqrt((images**2).sum(-1))
    everything = np.sqrt((everything**2).sum(-1))
    for row, full in zip(few, everything, strict=True):
        near = np.sort(full[full < 1.7 * cell.radius])
        np.testing.assert_allclose(np.sort(row[row < 1.7 * cell.radius]), near, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_distances_of_cells_are_those_of_least_squares_with_bounds(seed):
    generator = np.random.default_rng(seed)
    basis = generator.normal(size=(3, 3))
    centres = np.concatenate([generator.normal(size=(20, 3)) * 2, generator.integers(-2, 3, (20, 3)) @ basis])
    solved = [
        lsq_linear(basis.T, -centre, bounds=(-0.5, 0.5), tol=1e-12, method="bvls") for centre in centres
    ]
    expected = [math.sqrt(2.0 * each.cost) for each in solved]
    np.testing.assert_allclose(distances_of_cells(basis, centres), expected, atol=1e-9)


@pytest.mark.parametrize("lattice", [np.eye(3), FCC, SKEWED, 1.0 - 2.0 * np.eye(3), np.diag([1.0, 2.0, 3.0])])
def test_near_lattice_vectors_come_with_their_negatives(lattice):
    cell = Cell(np.array(lattice))
    near, half = cell.near, len(cell.near) // 2
    assert not near[0].any()
    np.testing.assert_array_equal(near[1 + half :], -near[1 : 1 + half])
    assert len(near) == len(cell.images(cell.radius)) == len(np.unique(np.round(near, 9), axis=0))


def test_flat_cells_are_refused():
    with pytest.raises(InvalidInput, match="in a plane"):
        Cell.of([[1, 0, 0], [0, 1, 0], [1, 1, 1e-9]])


@pytest.mark.parametrize("lattice", [np.eye(3) * 7.0, FCC * 3.0, SKEWED, np.diag([4.0, 4.0, 15.0])])
def test_the_breakup_converges_to_ewald_sums(lattice):
    cell = Cell(lattice)
    coarse, fine = break_up(cell, 8.0, 1.0), break_up(cell, 14.0)
    assert fine.error < 0.01 * coarse.error
    assert fine.error < 2e-6
    d = np.random.default_rng(3).normal(size=(40, 3)) * 5
    np.testing.assert_allclose(fine.potential(d), potential(cell, d), atol=2e-6)


def test_a_bad_breakup_stops():
    with pytest.raises(NumericsError, match="Ewald"):
        break_up(Cell(np.eye(3) * 5.0), 4.0)


# ------------------------------------------------------------------------------------------- orbitals


@pytest.mark.parametrize("case", CASES)
def test_splines_approach_plane_waves(case, tmp_path):
    points = np.random.default_rng(1).normal(size=(30, 3)) * 6
    errors = []
    for factor in (1.0, 2.0):
        orbitals = trial(case, tmp_path=tmp_path, meshfactor=factor)[0].orbitals
        spline, exact = orbitals.rows(points, 0), orbitals.rows(points, 0, exact=True)
        errors.append([np.abs(spline[:, k] - exact[:, k]).max() for k in (0, 1, 4)])
    value, slope, laplacian = np.log2(np.array(errors[0]) / errors[1])
    assert value > 3.3  # orders 4, 3 and 2 of a cubic spline
    assert slope > 2.4
    assert laplacian > 1.5
    assert errors[1][0] < 5e-3


def test_orbitals_are_bloch_functions(tmp_path):
    made = trial("complex supercell", tmp_path=tmp_path)[0]
    twist = CASES["complex supercell"][1]
    points = np.random.default_rng(1).normal(size=(5, 3)) * 3
    step = np.array([1, -2, 1])
    phase = np.exp(2j * np.pi * (step @ np.array(twist)))
    there = made.orbitals.rows(points + step @ made.cell.lattice, 0)
    np.testing.assert_allclose(there, phase * made.orbitals.rows(points, 0), atol=1e-10)


def test_the_error_of_the_mesh_is_foreseen(tmp_path):
    """The expected change of the kinetic energy is that of a quadrature over the cell."""
    orbitals = trial("gamma", tmp_path=tmp_path, meshfactor=0.8)[0].orbitals
    n = 40
    u = np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * 3, indexing="ij"), -1).reshape(-1, 3)
    points = u @ SKEWED
    found = 0.0
    values = {exact: orbitals.rows(points, 0, exact=exact) for exact in (False, True)}
    for o in range(4):
        kinetic = [0.5 * (v[:, 1:4, o] ** 2).sum() / (v[:, 0, o] ** 2).sum() for v in values.values()]
        found += 2 * (kinetic[0] - kinetic[1])
    assert orbitals.spline_error((4, 4)) == pytest.approx(found, rel=2e-3)
    assert abs(found) > 1e-4


def test_a_supercell_is_its_primitive_cells(tmp_path):
    """The bands of a supercell at two k points equal those of the doubled cell at one: differences of log psi to 1e-6."""
    tile = np.array([[2, 0, 0], [0, 1, 0], [0, 0, 1]])
    crystal = model_crystal(SKEWED, ATOMS, tile, [[0, 0, 0]])
    points = []
    for point in crystal.kpoints:
        g = np.rint((point.gvectors + point.kappa) @ tile.T).astype(int)
        points.append((g, point.energies[0], point.coefficients[0]))
    g = np.concatenate([p[0] for p in points])
    energies = np.concatenate([p[1] for p in points])
    c = np.zeros((len(energies), len(g)), complex)
    row = column = 0
    for own, e, values in points:
        c[row : row + len(e), column : column + len(own)] = values
        row, column = row + len(e), column + len(own)
    order = np.argsort(energies)
    doubled = Crystal(
        tile @ SKEWED,
        ("C",) * 4,
        np.concatenate([ATOMS, ATOMS + SKEWED[0]]),
        {"C": 4.0},
        (KPoint(np.zeros(3), g, energies[None, order], c[None, order]),),
        "doubled",
    )
    notes = []
    big = occupied_bands(doubled, np.eye(3, dtype=int), np.zeros(3), (8, 8), notes)
    small = occupied_bands(crystal, tile, np.zeros(3), (8, 8), notes)
    cell, supercell = Cell(SKEWED), Cell(tile @ SKEWED)
    mesh = mesh_for(small, 5.0)
    two = BlochOrbitals(cell, supercell, ATOMS, small, True, False, mesh)
    one = BlochOrbitals(supercell, supercell, ATOMS, big, True, False, (2 * mesh[0], *mesh[1:]))
    R = np.random.default_rng(4).normal(size=(6, 8, 3)) * 3
    logs = [[np.linalg.slogdet(o.rows(x, 0)[:, 0, :8])[1] for x in R] for o in (one, two)]
    np.testing.assert_allclose(np.diff(logs[0]), np.diff(logs[1]), atol=1e-6)


# -------------------------------------------------------------------------------------------- kernels


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def host(walkers):
    return State(*(walkers.device.to_host(array) for array in walkers.state))


def rotations(step, walker, electrons, atoms, images, stream):
    """The rotations of the kernels, from the same counters."""
    out = np.empty((electrons, atoms, images, 3, 3))
    for index in np.ndindex(electrons, atoms, images):
        pair = 8 * electrons + 2 * ((index[0] * atoms + index[1]) * images + index[2])
        f, g, h = (rng.uniform(KEY, stream, step, 1, draw=2 * pair + k, first=walker)[0] for k in range(3))
        s, t = math.sqrt(1 - f), math.sqrt(f)
        x, y = s * math.sin(2 * math.pi * g), s * math.cos(2 * math.pi * g)
        z, w = t * math.sin(2 * math.pi * h), t * math.cos(2 * math.pi * h)
        out[index] = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    return out


def ensemble(device, made, count=3, **keys):
    walkers = Walkers(device, made, count, KEY, **keys)
    walkers.place()
    return walkers


@pytest.mark.parametrize("case", CASES)
def test_log_psi_and_energies_are_those_of_the_reference(case, device, tmp_path):
    """Energies differ by the breakup of the Coulomb potential alone, 1e-5 hartree for each pair at most."""
    made = trial(case, tmp_path=tmp_path)[0]
    walkers = ensemble(device, made, 2)
    walk.energies(device, walkers.state, walkers.tables, walk.Stream(KEY, 3, 17, 0))
    hamiltonian = made.hamiltonian_tables()
    pairs = made.n_electrons * (made.n_electrons + len(made.system.symbols) * 4)
    state = host(walkers)
    for w in range(2):
        R = state.R[w]
        log, sign = made.log_psi(R)
        assert state.log_psi[w] == pytest.approx(log, abs=1e-9 * max(1.0, abs(log)))
        assert state.sign[w] == sign
        turned = rotations(17, w, made.n_electrons, len(made.system.symbols), len(hamiltonian.images), 3)
        parts = made.local_energy(R, turned)
        for k, name in enumerate(COMPONENTS):
            size = made.breakup.error * pairs if name in ("electron_electron", "local", "total") else 0.0
            assert state.energy[w, k] == pytest.approx(parts[name], abs=1e-8 + size), name


@pytest.mark.parametrize("case", ["pairs", "complex supercell"])
def test_laplacians_by_differences(case, tmp_path):
    made = trial(case, tmp_path=tmp_path)[0]
    R = made.scatter(1, np.random.default_rng(2))[0]
    gradient = made.gradient(R)
    h = 1e-4
    for e, x in ((0, 0), (made.n_electrons - 1, 2)):
        shift = np.zeros_like(R)
        shift[e, x] = h
        numeric = (made.log_psi(R + shift)[0] - made.log_psi(R - shift)[0]) / (2 * h)
        assert gradient[e, x] == pytest.approx(numeric, abs=1e-5 * max(1.0, abs(numeric)))


@pytest.mark.parametrize("case", ["gamma", "skewed", "complex"])
@pytest.mark.parametrize("mode", [PLAIN, DRIFT, FIXED_NODE])
def test_updates_equal_recomputation(case, mode, device, tmp_path):
    made = trial(case, tmp_path=tmp_path)[0]
    walkers = ensemble(device, made, 4)
    start = host(walkers).sign.copy()
    walk.walk(device, walkers.state, walkers.tables, 0.2, mode, 10, walkers.stream(1))
    before = State(*(array.copy() for array in host(walkers)))
    assert before.moves[:, ACCEPTED].sum() > 0
    assert walkers.recompute() < 1e-8
    after = host(walkers)
    np.testing.assert_allclose(before.log_psi, after.log_psi, atol=1e-8)
    np.testing.assert_array_equal(before.sign, after.sign)
    # two kernels may fuse other operations of the same sums
    np.testing.assert_allclose(before.rows, after.rows, rtol=1e-10, atol=1e-12 * np.abs(after.rows).max())
    if mode == FIXED_NODE:
        np.testing.assert_array_equal(before.sign, start)


@pytest.mark.parametrize("case", ["gamma", pytest.param("complex", marks=pytest.mark.exhaustive)])
def test_t_moves_equal_recomputation_and_happen(case, device, tmp_path):
    made = trial(case, tmp_path=tmp_path)[0]
    walkers = ensemble(device, made, 20)
    for step in range(4):
        walk.diffuse(
            device, walkers.state, walkers.tables, 0.1, walk.Stream(KEY, 2, step), tmoves=True, reference=-10.0,
            trial=-10.0, window=10.0, tau_ratio=1.0,
        )  # fmt: skip
    before = State(*(array.copy() for array in host(walkers)))
    assert before.moves[:, NONLOCAL].sum() > 2
    assert walkers.recompute() < 1e-7
    np.testing.assert_allclose(before.log_psi, host(walkers).log_psi, atol=1e-7)


def test_walkers_do_not_depend_on_the_cell_they_are_in(device, tmp_path):
    """Energies are the same when electrons are moved by lattice vectors."""
    made = trial("complex supercell", tmp_path=tmp_path)[0]
    walkers = ensemble(device, made, 2)
    stream = walk.Stream(KEY, 0, 0)
    walk.energies(device, walkers.state, walkers.tables, stream)
    before = host(walkers).energy.copy()
    steps = np.random.default_rng(0).integers(-3, 4, size=walkers.state.R.shape)
    walkers.state.R[...] += device.asarray(steps @ made.cell.lattice)
    walkers.recompute()
    walk.energies(device, walkers.state, walkers.tables, stream)
    np.testing.assert_allclose(host(walkers).energy, before, atol=1e-8)


@pytest.mark.parametrize("case", ["gamma", pytest.param("complex", marks=pytest.mark.exhaustive)])
def test_derivatives_by_differences(case, device, tmp_path):
    made = trial(case, tmp_path=tmp_path)[0]
    walkers = ensemble(device, made, 2)
    stream, p = walk.Stream(KEY, 0, 0), made.parameters
    made_on = derivatives(device, walkers.state, walkers.tables, Varied(made).tables(device), p.size, stream)
    O, G = (device.to_host(x) for x in made_on)
    h = 1e-5
    for k in range(p.size):
        found = []
        for sign in (1, -1):
            q = p.copy()
            q[k] += sign * h
            walkers.set_wavefunction(made.with_parameters(q))
            walkers.recompute()
            walk.energies(device, walkers.state, walkers.tables, stream)
            state = host(walkers)
            found.append((state.log_psi.copy(), state.energy[:, 5].copy()))
        np.testing.assert_allclose(O[:, k], (found[0][0] - found[1][0]) / (2 * h), atol=1e-6)
        scale = max(1.0, np.abs(G[:, k]).max())
        np.testing.assert_allclose(G[:, k], (found[0][1] - found[1][1]) / (2 * h), atol=1e-5 * scale)


@pytest.mark.exhaustive  # compiles all kernels again
@pytest.mark.parametrize("case", ["gamma", "complex"])
def test_mixed_precision_is_close(case, device, tmp_path):
    made = trial(case, tmp_path=tmp_path)[0]
    energies = []
    for single in (False, True):
        walkers = ensemble(device, made, 8, single=single)
        walk.energies(device, walkers.state, walkers.tables, walk.Stream(KEY, 0, 0))
        energies.append(host(walkers).energy[:, 5].copy())
    scale = np.maximum(1.0, np.abs(energies[0]))
    assert np.median(np.abs(energies[1] - energies[0]) / scale) < 1e-4
    assert np.abs(energies[1] - energies[0]).max() > 0.0


# --------------------------------------------------------------------------------------- exact energies


@pytest.mark.parametrize("case", ["gamma", "half", "complex"])
def test_energies_of_a_determinant_are_exact(case, device, tmp_path):
    """Each component of a long run agrees with the plane-wave sums within 5 standard errors of independent walkers."""
    made, crystal, _ = trial(case, jastrow="none", tmp_path=tmp_path, meshfactor=1.6)
    tile = CASES[case][0]
    functions = [(f.kappa, f.gvectors, f.coefficients) for f in made.orbitals.functions[0]]
    exact = exact_energies(crystal, tile, functions, made.cell, made.system)
    walkers = ensemble(device, made, 300)
    walk.walk(device, walkers.state, walkers.tables, 0.4, DRIFT, 60, walkers.stream(0))
    walkers.generation += 60
    totals = device.xp.zeros((300, walk.SUMS))
    walk.generations(device, walkers.state, walkers.tables, 0.4, DRIFT, 2, 30, walkers.stream(0), totals)
    sums = device.to_host(totals)
    means = sums[:, :6] / sums[:, 7:]
    error = means.std(0, ddof=1) / math.sqrt(300)
    for k, name in enumerate(COMPONENTS[:4]):
        assert abs(means[:, k].mean() - exact[name]) < 5 * error[k] + 1e-4, name
    assert error[0] < 0.05
    assert made.ion_ion == pytest.approx(exact["ion_ion"], abs=1e-10)


# ----------------------------------------------------------------------------------------------- files


def bands(tmp_path, tile=UNTILED, twists=((0, 0, 0),), **keys):
    path = tmp_path / "bands.h5"
    write_eshdf(path, model_crystal(SKEWED, ATOMS, tile, twists, **keys), (4, 4))
    return path


def test_files_are_read_as_they_were_written(tmp_path):
    crystal = model_crystal(SKEWED, ATOMS, SKEW_TILE, [[0.2, 0.1, -0.4]])
    ecp = {"C": ("soft", [2, [[0, [[[1.0, 2.0]]]]]])}
    write_eshdf(tmp_path / "a.h5", crystal, (4, 4), ecp)
    again = read_eshdf(tmp_path / "a.h5")
    np.testing.assert_array_equal(again.lattice, crystal.lattice)
    np.testing.assert_array_equal(again.positions, crystal.positions)
    assert (again.symbols, again.charges) == (crystal.symbols, crystal.charges)
    for a, b in zip(again.kpoints, crystal.kpoints, strict=True):
        np.testing.assert_array_equal(a.gvectors, b.gvectors)
        np.testing.assert_array_equal(a.kappa, b.kappa)
        np.testing.assert_allclose(a.coefficients, b.coefficients, atol=1e-14)
    kept = stored_ecp(tmp_path / "a.h5")
    assert kept.identity["ecp"] == {"C": "soft"}
    assert kept.ecp == {"C": [2, [[0, [[[1.0, 2.0]]]]]]}


DAMAGE = {
    "electrons/kpoint_0/spin_0/state_1/psi_g": (lambda x: 1.1 * x, "band 1 has the norm 1.21"),
    "electrons/kpoint_0/spin_0/state_0/psi_g": (lambda x: x[:-3], "must have .* x 2 numbers"),
    "electrons/kpoint_0/spin_0/eigenvalues": (lambda x: x[:2], "2 eigenvalues for 7 bands"),
    "electrons/number_of_kpoints": (lambda x: x + 1, "kpoint_1"),
    "atoms/species_ids": (lambda x: x[:1], "2 positions of atoms, but species of 1"),
    "supercell/primitive_vectors": (lambda x: x[:2], "must be 3 x 3 numbers"),
    "format": (lambda x: np.array([b"other"]), "its format is 'other'"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_files_are_refused(name, tmp_path):
    path = bands(tmp_path)
    change, message = DAMAGE[name]
    with h5py.File(path, "r+") as file:
        value = change(file[name][()])
        del file[name]
        file[name] = value
    with pytest.raises(FileError, match=message):
        read_eshdf(path)


def test_bands_that_overlap_are_refused(tmp_path):
    path = bands(tmp_path)
    group = "electrons/kpoint_0/spin_0"
    with h5py.File(path, "r+") as file:
        file[f"{group}/state_1/psi_g"][...] = file[f"{group}/state_0/psi_g"][()]
    with pytest.raises(FileError, match="bands [01] and [01] overlap by 1"):
        read_eshdf(path)


def test_a_file_cut_short_is_refused(tmp_path):
    path = bands(tmp_path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(FileError, match=r"bands\.h5"):
        read_eshdf(path)


def built(path, **keys):
    system = System.model_validate({"cell": "periodic", **keys})
    block = Wavefunction.model_validate(
        {"orbitals": {"source": "eshdf", "file": str(path), "meshfactor": 1.0}}
    )
    return build_crystal(
        system, block, Coulomb(), potentials={"C": model_potential()}, folder=path.parent, notes=Notes()
    )


def test_what_a_file_does_not_have(tmp_path):
    path = bands(tmp_path)
    with pytest.raises(InvalidInput, match=r"needs 2 k points .* has 1 of them"):
        built(path, tilematrix=[[2, 0, 0], [0, 1, 0], [0, 0, 1]])
    with pytest.raises(
        InvalidInput, match=r"twist \(0.5, 0, 0\) needs 1 k points .* whose twists .* are \(0, 0, 0\)"
    ):
        built(path, twist=[0.5, 0.0, 0.0])
    with pytest.raises(InvalidInput, match="determinant of the supercell is zero"):
        built(path, tilematrix=[[1, 0, 0], [1, 0, 0], [0, 0, 1]])
    with pytest.raises(InvalidInput, match="must be neutral"):
        built(path, charge=1)
    with pytest.raises(InvalidInput, match="has the lattice"):
        built(path, lattice=np.eye(3).tolist())
    with pytest.raises(InvalidInput, match="has the atoms"):
        built(path, atoms=[["C", 0.0, 0.0, 0.0]])
    with pytest.raises(InvalidInput, match="7 electrons of one spin need as many orbitals; .* has 7|has 3"):
        built(bands(tmp_path, bands=3))
    with pytest.raises(InvalidInput, match="leaves 4 electrons, but the orbitals .* were made with 3"):
        built(bands(tmp_path, charge=3.0))
    with pytest.raises(InvalidInput, match="there is no atom 'C'"):
        built(bands(tmp_path, symbol="Si"))


def test_opposite_k_points_are_made_by_time_reversal(tmp_path):
    """A file with one of a pair of k points gives the same real orbitals as one with both."""
    tile, twist = CASES["pairs"]
    full = model_crystal(SKEWED, ATOMS, tile, [twist])
    half = Crystal(
        full.lattice,
        full.symbols,
        full.positions,
        full.charges,
        tuple(k for k in full.kpoints if k.kappa[0] > -0.01),
    )
    assert len(half.kpoints) == 2
    found = [occupied_bands(c, np.array(tile), np.zeros(3), (6, 6), []) for c in (full, half)]
    energies = [[f.energy for f in functions[0]] for functions in found]
    np.testing.assert_allclose(*energies, atol=1e-12)


def test_open_shells_are_told(tmp_path):
    system = System.model_validate({"cell": "periodic", "rs": 2.0, "electrons": 8})
    block = Wavefunction.model_validate({"orbitals": "planewave"})
    notes = Notes()
    build_crystal(system, block, Coulomb(), potentials={}, folder=tmp_path, notes=notes)
    assert any("only partly" in text for text in notes.warnings)


def test_coarse_meshes_are_told_and_refused(tmp_path):
    assert any(
        "larger meshfactor" in text for text in trial("gamma", tmp_path=tmp_path, meshfactor=0.8)[2].warnings
    )
    assert not trial("gamma", tmp_path=tmp_path, meshfactor=2.0)[2].warnings


# ---------------------------------------------------------------------------------------------- twists


def test_grids_of_twists():
    system = System.model_validate({"cell": "periodic", "twist_grid": [2, 2, 2]})
    assert len(twists_of(system)) == 8
    shifted = twists_of(
        System.model_validate({"cell": "periodic", "twist_grid": [4, 1, 1], "twist_shift": [0.5, 0, 0]})
    )
    assert sorted(t.vector[0] for t in shifted) == [0.125, 0.375]
    assert sum(t.weight for t in shifted) == pytest.approx(1.0)
    weighted = twists_of(
        System.model_validate(
            {"cell": "periodic", "twists": [[0, 0, 0], {"twist": [0.5, 0, 0], "weight": 3}]}
        )
    )
    assert [t.weight for t in weighted] == [0.25, 0.75]


def test_the_structure_factor_of_free_electrons(qmc, device):
    """``S(k) = 1 - (occupied pairs q, q + k of equal spin) / N`` for a determinant of plane waves."""
    result = qmc.run(
        system={"electrons": 14, "rs": 2.0},
        wavefunction={"orbitals": "planewave", "jastrow": "none"},
        series=[{"vmc": {"walkers": 100, "blocks": 40, "steps": 10, "sweeps": 2, "timestep": 1.0}}],
        estimators=[{"sofk": {}}, {"gofr": {"bins": 20}}, {"density": {"mesh": [2, 3, 4]}}],
        run={"seed": 1},
        device=device,
    )
    assert result.problem.device is device
    arrays = output.arrays(result)
    S, error = (arrays[f"series_0/{name}"] for name in ("sofk", "sofk_error"))
    occupied = {
        (0, 0, 0),
        *((s, 0, 0) for s in (1, -1)),
        *((0, s, 0) for s in (1, -1)),
        *((0, 0, s) for s in (1, -1)),
    }
    cell = result.problem.wavefunction.cell
    waves = result.problem.wavefunction.breakup.waves
    size = np.linalg.norm(waves @ cell.reciprocal, axis=1)
    waves = waves[np.argsort(np.round(size, 9), kind="stable")]
    exact = []
    for m in waves:
        same = sum(tuple(int(x) for x in np.array(q) + m) in occupied for q in occupied)
        exact.append(1.0 - 2 * same / 14)
    assert np.abs((S - exact) / error).max() < 5.0
    assert error.max() < 0.05
    # all pairs within the Wigner-Seitz sphere
    r = arrays["series_0/gofr_r"]
    assert r[-1] < cell.radius
    shell = 4.0 * np.pi * r**2 * (r[1] - r[0])
    inside = sum((arrays[f"series_0/gofr_{kind}"] * shell).sum() for kind in ("uu", "ud", "dd"))
    assert 0.3 * 91 < inside < 0.6 * 91  # 91 pairs; the sphere holds 0.52 of the cell
    for spin in ("up", "down"):  # uniform, whatever the cells of the mesh
        density, scatter = (arrays[f"series_0/density_{spin}{part}"] for part in ("", "_error"))
        assert density.shape == (2, 3, 4)
        assert density.mean() == pytest.approx(7 / cell.volume, rel=1e-12)
        assert np.abs((density - 7 / cell.volume) / scatter).max() < 5.0
    found = output.scalars(result)
    energy, more = found["vmc_energy"], found["vmc_finite_size_potential"]
    assert found["vmc_energy_per_electron"].value == pytest.approx(energy.value / 14)
    assert found["vmc_energy_per_electron"].error == pytest.approx(energy.error / 14)
    bulk = found["vmc_bulk_energy_per_electron"]
    assert bulk.value == pytest.approx((energy.value + more.value) / 14)
    assert bulk.error == pytest.approx(math.hypot(energy.error, more.error) / 14)
    absent = {
        "vmc_energy_per_atom",
        "vmc_energy_per_cell",
        "vmc_finite_size_kinetic",
    }  # no ions, no pair functions
    assert not absent & set(found)


def setting_of(device, made):
    return Setting(device, made.n_up, made.n_dn, np.zeros((0, 3)))


def test_densities_are_those_of_the_primitive_cell(device, tmp_path):
    """Electrons at known places of a skewed lattice, in any primitive cell, are counted where they belong."""
    made = trial("skewed", tmp_path=tmp_path)[0]  # two primitive cells
    generator = np.random.default_rng(0)
    mesh, N = (2, 3, 5), made.n_electrons
    u = generator.random((4, N, 3)) - generator.integers(-3, 4, (4, N, 3))
    found = CrystalDensity(setting_of(device, made), made.periodic(), mesh)
    weights = device.asarray(np.array([1.0, 0.5, 2.0, 0.5]))
    found.add(device.asarray(u @ SKEWED), quanta(device, weights))
    found.close_block(4.0, device.to_host(found.counts) / UNIT)
    expected = np.zeros((2, *mesh))
    for w, weight in enumerate((1.0, 0.5, 2.0, 0.5)):
        for e in range(N):
            where = tuple(np.floor((u[w, e] % 1.0) * mesh).astype(int))
            expected[(int(e >= made.n_up), *where)] += weight / 4.0
    tables = found.arrays()
    cell = Cell(SKEWED).volume / 30 * 2  # of the mesh, twice: the supercell has two
    np.testing.assert_allclose(tables["density_up"], expected[0] / cell, rtol=1e-12)
    np.testing.assert_allclose(tables["density_down"], expected[1] / cell, rtol=1e-12)
    assert tables["density_y"][0] == pytest.approx(np.linalg.norm(SKEWED[1]) / 6)
    assert made.shares == {"atom": 4, "cell": 2}


def test_pairs_are_counted_by_their_nearest_images(device, tmp_path):
    made = trial("skewed", tmp_path=tmp_path)[0]
    R = np.random.default_rng(1).normal(size=(5, made.n_electrons, 3)) * 5
    found = CrystalPairDensity(setting_of(device, made), made.periodic(), 12, made.cell.radius)
    found.add(device.asarray(R), quanta(device, device.asarray(np.arange(1.0, 6.0))))
    i, j = np.triu_indices(made.n_electrons, 1)
    kind = (i >= made.n_up).astype(int) + (j >= made.n_up)
    distance = np.linalg.norm(made.cell.nearest(R[:, i] - R[:, j]), axis=-1)
    expected = np.zeros((3, 12))
    for w in range(5):
        for k in range(3):
            bins = np.histogram(distance[w, kind == k], 12, (0, made.cell.radius))[0]
            expected[k] += (w + 1) * bins
    assert np.array_equal(device.to_host(found.counts), expected * UNIT)


def test_an_average_over_twists(qmc, device):
    """Kinetic energies of plane waves have no variance: their average is that of the sums over occupied waves."""
    twists = [[0.1, 0.2, 0.05], {"twist": [0.5, 0.5, 0.5], "weight": 3.0}]
    result = qmc.run(
        system={"electrons": 2, "lattice": [[6, 0, 0], [0, 7, 0], [1, 0, 8]], "twists": twists},
        wavefunction={"orbitals": "planewave", "jastrow": "none"},
        series=[{"vmc": {"walkers": 16, "blocks": 20, "steps": 2, "timestep": 2.0, "warmup": 20}}],
        run={"seed": 1},
        device=device,
    )
    B = 2 * np.pi * np.linalg.inv([[6, 0, 0], [0, 7, 0], [1, 0, 8]]).T
    kinetic = [((np.array(t) @ B) ** 2).sum() for t in ([0.1, 0.2, 0.05], [0.5, 0.5, 0.5])]
    found = output.scalars(result)
    assert found["vmc_kinetic"].value == pytest.approx(0.25 * kinetic[0] + 0.75 * kinetic[1], abs=1e-9)
    assert found["twists"].value == 2
    assert output.arrays(result)["series_0/twist_energy"].shape == (2,)


@pytest.mark.parametrize("edges", [(5.0, 6.0, 7.0), (4.0, 900.0, 5.0)])
def test_plane_waves_of_the_gas_are_the_lowest_ones(edges):
    """Against all waves of a large block of numbers, also where a cell is long in one direction."""
    cell, twist = Cell.of(np.diag(edges)), np.array([0.1, 0.23, -0.31])
    numbers = np.indices((9, 801, 9)).reshape(3, -1).T - np.array([4, 400, 4])
    k2 = (((numbers + twist) * 2 * np.pi / np.array(edges)) ** 2).sum(1)
    found = [f.energy for f in occupied_waves(cell, twist, (9, 3), [])[0]]
    np.testing.assert_allclose(found, 0.5 * np.sort(k2)[:9], rtol=1e-12)
    with pytest.raises(InvalidInput, match="a lattice vector is 9.22e.18 bohr long; at most 10000 bohr"):
        Cell.of(np.diag([5.0, 6.0, 2.0**63]))

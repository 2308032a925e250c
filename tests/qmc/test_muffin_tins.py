"""The mixed basis: tins around ions against plane waves, the passage into splines by differences, kernels against the reference.

Oracles are sums over plane waves, the recurrences of `solid_harmonics`, and finite differences.
"""

from pathlib import Path

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import InvalidInput
from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.kernels.common.types import COMPONENTS
from qsim.qmc.kernels.crystal.muffin_tins_cpu import harmonics
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.system import space_of_one
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.system.cell import Cell
from qsim.qmc.wavefunction.crystals.bsplines import sampled
from qsim.qmc.wavefunction.crystals.muffin_tins import (
    INNER,
    ascending,
    half_distance,
    passage,
    reduced_bessel,
)
from qsim.qmc.wavefunction.crystals.trial import build_crystal, mixed_error
from qsim.qmc.wavefunction.formats.eshdf import write_eshdf
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.crystals import SKEWED, model_crystal
from tests.qmc.crystals import potential as model_potential
from tests.qmc.trials import trial_function

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
ATOMS = np.array([[0.1, 0.2, 0.3], [2.0, 2.4, 2.2]])
CASES = {
    "gamma": ([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0]),
    "pairs": ([[3, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0]),
    "complex supercell": ([[1, 1, 0], [-1, 1, 0], [0, 0, 1]], [0.2, 0.1, -0.4]),
}


def trial(case, tins, tmp_path):
    """Return a trial function with model bands."""
    tile, twist = CASES[case]
    path = tmp_path / "bands.h5"
    if not path.exists():
        write_eshdf(path, model_crystal(SKEWED, ATOMS, tile, [twist]), (4, 4))
    system = System.model_validate({"cell": "periodic", "tilematrix": tile, "twist": twist})
    orbitals = {"source": "eshdf", "file": str(path), "muffin_tins": tins}
    block = Wavefunction.model_validate({"orbitals": orbitals, "jastrow": "none"})
    notes = Notes()
    made = build_crystal(
        system, block, Coulomb(), potentials={"C": model_potential()}, folder=tmp_path, notes=notes
    )
    return made, notes


def around(orbitals, radii, count=40):
    """Return points around ions of the supercell and elsewhere in space, at distances between two radii."""
    generator = np.random.default_rng(7)
    d = generator.normal(size=(count, 3))
    d *= (generator.uniform(*radii, count) / np.linalg.norm(d, axis=1))[:, None]
    cells = generator.integers(-3, 4, size=(count, 3)) @ orbitals.primitive.lattice
    return ATOMS[generator.integers(0, 2, count)] + d + cells


# --------------------------------------------------------------------------------------- work space


def test_work_space_follows_the_largest_angular_momentum(tmp_path):
    """Cases that differ in nothing but lmax, one after the other in a thread."""
    for lmax in (3, 6):
        made = trial("gamma", {"lmax": lmax, "meshfactor": 1.0}, tmp_path)[0]
        walkers = Walkers(cpu(1), made, 1, key_from_seed(1))
        work = space_of_one(walkers.state, walkers.tables).own
        assert work.sums.shape[1] >= (lmax + 1) ** 2


# ---------------------------------------------------------------------------------------- functions


@pytest.mark.parametrize("lmax", [0, 1, 4, 9])
def test_harmonics_of_the_kernel(lmax):
    S = np.zeros((4, (lmax + 1) ** 2))
    for d in np.random.default_rng(1).normal(size=(5, 3)):
        harmonics(lmax, *d, S)
        for l in range(lmax + 1):
            values, gradients = ascending(l, d[None])
            part = slice(l * l, (l + 1) ** 2)
            np.testing.assert_allclose(S[0, part], values[0], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(S[1:, part].T, gradients[0], rtol=1e-11, atol=1e-11)


def test_reduced_bessel_functions():
    """j_0 = sin x / x, j_1 / x = (sin x - x cos x) / x^3; 1 / (2l + 1)!! at zero; no step where the series ends."""
    x = np.array([1e-3, 0.4, 1.3, 1.499999, 1.500001, 7.0, 30.0])
    np.testing.assert_allclose(reduced_bessel(0, x), np.sin(x) / x, rtol=1e-13)
    far = x[1:]
    np.testing.assert_allclose(reduced_bessel(1, far), (np.sin(far) - far * np.cos(far)) / far**3, rtol=1e-12)
    np.testing.assert_allclose(reduced_bessel(3, np.zeros(1)), 1 / 105)
    a, b = reduced_bessel(8, np.array([1.5 - 1e-9, 1.5 + 1e-9]))
    assert a == pytest.approx(b, rel=1e-8)


def test_the_passage_is_smooth():
    r = np.linspace(0.5, 1.6, 2001)
    w, d, h = passage(r, 0.8, 1.3)
    assert (w[r < 0.8] == 1.0).all()
    assert (w[r > 1.3] == 0.0).all()
    np.testing.assert_allclose(np.gradient(w, r)[5:-5], d[5:-5], atol=2e-4)
    np.testing.assert_allclose(np.gradient(d, r)[5:-5], h[5:-5], atol=0.1)


def test_half_distance_of_diamond():
    a = 3.37316115
    cell = Cell(a * np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 1]]))
    places = a * np.array([[0, 0, 0], [0.5, 0.5, 0.5]])
    assert half_distance(cell, places) == pytest.approx(a * np.sqrt(3) / 4)
    assert half_distance(cell, places[:1]) == pytest.approx(a / np.sqrt(2))


# ----------------------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("case", CASES)
def test_tins_are_plane_waves(case, tmp_path):
    """Within the inner radius nothing is left of the splines: the error is that of lmax alone, and falls with it."""
    errors = []
    for lmax in (4, 10):
        orbitals = trial(case, {"lmax": lmax, "meshfactor": 0.6}, tmp_path)[0].orbitals
        points = around(orbitals, (0.0, INNER * orbitals.tins.outer))
        found, exact = orbitals.rows(points, 0), orbitals.rows(points, 0, exact=True)
        scale = np.abs(exact).max((0, 2))
        errors.append((np.abs(found - exact).max((0, 2)) / scale).max())
    assert errors[1] < 1e-6
    assert errors[1] < 1e-4 * errors[0]


@pytest.mark.parametrize("case", CASES)
def test_derivatives_of_the_passage(case, tmp_path):
    """Gradients and Laplacians are those of the values, in the passage and across its ends."""
    orbitals = trial(case, {"lmax": 3, "meshfactor": 0.5}, tmp_path)[0].orbitals  # coarse: both parts differ
    outer = orbitals.tins.outer
    points = around(orbitals, (0.7 * outer, 1.03 * outer))
    h = 2e-3
    rows = orbitals.rows(points, 0)
    laplacian = np.zeros_like(rows[:, 0])
    for x in range(3):
        step = h * np.eye(3)[x]
        ahead, behind = (orbitals.rows(points + s * step, 0)[:, 0] for s in (1, -1))
        np.testing.assert_allclose(
            (ahead - behind) / (2 * h), rows[:, 1 + x], atol=2e-4 * np.abs(rows[:, 1:4]).max()
        )
        laplacian += (ahead + behind - 2 * rows[:, 0]) / h**2
    np.testing.assert_allclose(laplacian, rows[:, 4], atol=1e-2 * np.abs(rows[:, 4]).max())


def test_samples_are_sums_over_plane_waves(tmp_path):
    orbitals = trial("complex supercell", "auto", tmp_path)[0].orbitals
    values, points = sampled(orbitals.functions[0], (3, 4, 5), orbitals.primitive)
    np.testing.assert_allclose(values, orbitals.by_function(points, 0, exact=True)[:, :4], atol=1e-10)


def test_the_error_of_the_basis_is_foreseen(tmp_path):
    """The expected change of the kinetic energy is that of a quadrature over the cell with more points."""
    made, notes = trial("gamma", {"lmax": 2, "meshfactor": 0.6}, tmp_path)
    orbitals, n = made.orbitals, 26
    u = np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * 3, indexing="ij"), -1).reshape(-1, 3)
    found = 0.0
    values = {exact: orbitals.rows(u @ SKEWED, 0, exact=exact) for exact in (False, True)}
    for o in range(4):
        kinetic = [0.5 * (v[:, 1:4, o] ** 2).sum() / (v[:, 0, o] ** 2).sum() for v in values.values()]
        found += 2 * (kinetic[0] - kinetic[1])
    assert abs(found) > 1e-3
    assert mixed_error(orbitals, (4, 4)) == pytest.approx(found, rel=0.2)
    assert any("change the kinetic energy" in text for text in notes.lines + notes.warnings)


# (lmax, meshfactor): bytes over those of the splines of meshfactor 1, error in hartree per electron
TABLE = {(6, 0.5): (0.30, 1e-4), (8, 0.5): (0.33, 1e-4), (4, 0.5): (0.28, 2e-3)}


def diamond(**keys):
    """Return the orbitals of the deck `diamond_primitive`, whose bands lie beside it."""
    a = 3.37316115
    system = {
        "lattice": [[a, a, 0], [0, a, a], [a, 0, a]],
        "atoms": [["C", 0, 0, 0], ["C", a / 2, a / 2, a / 2]],
        "pseudopotentials": {"C": "ccecp"},
    }
    source = {"source": "pyscf", "method": "rks", "xc": "lda,pz", "basis": "ccecp-ccpvdz", "cutoff": 80}
    orbitals = {**source, "cache": "diamond_orbitals.h5", **keys}
    return trial_function(system, orbitals, "none", folder=INPUTS).orbitals


def test_memory_and_accuracy_of_diamond():
    """The table of the theory page."""
    full = diamond()
    for (lmax, meshfactor), (size, error) in TABLE.items():
        mixed = diamond(muffin_tins={"lmax": lmax, "meshfactor": meshfactor})
        assert mixed.table_bytes < size * full.table_bytes
        assert abs(mixed_error(mixed, (4, 4))) / 8 < error


# ------------------------------------------------------------------------------------------ kernels


@pytest.mark.parametrize("single", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(  # each number type is compiled for itself
    "case",
    ["complex supercell", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("gamma", "pairs"))],
)
def test_energies_are_those_of_the_reference(case, single, tmp_path):
    """Gradients, Laplacians and the nonlocal part by values alone; walkers in tins, in passages and between."""
    made = trial(case, {"lmax": 5, "meshfactor": 0.6}, tmp_path)[0]
    walkers = Walkers(cpu(1), made, 3, key_from_seed(5), single=single)
    outer = made.orbitals.tins.outer
    walkers.place()
    R = walkers.state.R
    R[0] = around(made.orbitals, (0.05, 0.7 * outer), made.n_electrons)
    R[1] = around(made.orbitals, (0.76 * outer, 0.99 * outer), made.n_electrons)
    walkers.recompute()
    walk.energies(cpu(1), walkers.state, walkers.tables, walk.Stream(key_from_seed(5), 3, 17, 0))
    pairs = made.n_electrons * (made.n_electrons + len(made.system.symbols) * 4)
    tolerance = 1e-8 if not single else 2e-3
    for w in range(3):
        log, sign = made.log_psi(R[w])
        assert walkers.state.log_psi[w] == pytest.approx(log, abs=1e-9 if not single else 5e-4)
        assert walkers.state.sign[w] == sign
        parts = made.local_energy(R[w])
        k = COMPONENTS.index("kinetic")
        scale = max(1.0, abs(parts["kinetic"]))
        assert walkers.state.energy[w, k] == pytest.approx(parts["kinetic"], abs=tolerance * scale)
        k = COMPONENTS.index("electron_electron")
        assert walkers.state.energy[w, k] == pytest.approx(
            parts["electron_electron"], abs=made.breakup.error * pairs
        )


def test_moves_equal_recomputation(tmp_path):
    made = trial("complex supercell", {"lmax": 5, "meshfactor": 0.6}, tmp_path)[0]
    walkers = Walkers(cpu(1), made, 6, key_from_seed(5))
    walkers.place()
    for step in range(4):
        walk.diffuse(
            cpu(1), walkers.state, walkers.tables, 0.1, walk.Stream(key_from_seed(5), 2, step), tmoves=True,
            reference=-10.0, trial=-10.0, window=10.0, tau_ratio=1.0,
        )  # fmt: skip
    log = walkers.state.log_psi.copy()
    assert walkers.recompute() < 1e-7
    np.testing.assert_allclose(log, walkers.state.log_psi, atol=1e-7)


# ---------------------------------------------------------------------------------------- bad input


def test_tins_that_overlap(tmp_path):
    with pytest.raises(InvalidInput, match="overlap: half the shortest distance of ions is") as found:
        trial("gamma", {"radius": 2.5}, tmp_path)
    assert found.value.key == "wavefunction.orbitals.muffin_tins.radius"


def test_a_basis_that_is_too_small():
    with pytest.raises(InvalidInput, match="a larger lmax or meshfactor is needed") as found:
        diamond(muffin_tins={"lmax": 1})
    assert found.value.key == "wavefunction.orbitals.muffin_tins"

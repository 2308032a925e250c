"""Expansions in determinants: energies of PySCF by our own integrals, whole configurations, lists, files.

PySCF's CASSCF of beryllium (1s2 2s2 and 1s2 2p2, -14.6164383 hartree, coefficients 0.949866 and -0.180514), S (S + 1) of
states of pure spin.  The expansion of a Slater determinant of turned orbitals is that determinant.
"""

import numpy as np
import pytest
import yaml

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.core.errors import InvalidInput
from qsim.core.run.pipeline import Options, execute
from qsim.qmc.kernels.common.types import COMPONENTS
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import DRIFT
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.expansion import Listed, arranged, spin_squared
from qsim.qmc.wavefunction.formats.expansions import active_strings, strings_of_bits
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.trials import trial_function

BERYLLIUM = {"atoms": [["Be", 0, 0, 0]]}


def test_a_determinant_of_turned_orbitals_is_the_sum_of_all():
    """Cauchy and Binet: minors of the rotation are the coefficients; to rounding of determinants of size 1."""
    generator = np.random.default_rng(2)
    turn, _ = np.linalg.qr(generator.normal(size=(5, 2)))
    strings = active_strings(0, 5, 2)
    c = np.array([np.linalg.det(turn[row]) for row in strings])
    index = np.indices((10, 10)).reshape(2, -1).T
    expansion, orders = arranged(Listed((strings, strings), index, np.outer(c, c).ravel()))
    rows = [generator.normal(size=(2, 5)) for _ in range(2)]
    (log, sign), _ = expansion.values([row[:, order] for row, order in zip(rows, orders, strict=True)])
    signs, logs = np.linalg.slogdet(np.stack([row @ turn for row in rows]))
    assert np.isclose(log, logs.sum(), atol=1e-11)
    assert sign == signs.prod()


def test_spin_of_an_open_shell_pair():
    """Two electrons in two orbitals: the sum and the difference of both occupations are singlet and triplet."""
    strings = np.array([[0], [1]])
    index = np.array([[0, 1], [1, 0]])
    for c, squared in (([1.0, 1.0], 0.0), ([1.0, -1.0], 2.0), ([1.0, 0.0], 1.0)):
        assert np.isclose(spin_squared(Listed((strings, strings), index, np.array(c))), squared, atol=1e-14)


def test_bits_are_orbitals_of_all_words():
    up = np.array([[0b111, 0], [0b101, 1]], np.uint64)
    strings, index = strings_of_bits((up, up[::-1]))
    assert sorted(map(tuple, strings[0].tolist())) == [(0, 1, 2), (0, 2, 64)]
    assert [tuple(strings[1][j].tolist()) for j in index[:, 1]] == [(0, 2, 64), (0, 1, 2)]


@pytest.mark.parametrize(
    ("rows", "key", "words"),
    [
        ([{"c": 1, "up": [0], "down": [0, 1]}], "list.0.up", "2 electrons with spin up, found 1"),
        ([{"c": 1, "up": [0, 0], "down": [0, 1]}], "list.0.up", "twice"),
        (
            [{"c": 1, "up": [0, 1], "down": [0, 1]}, {"c": 2, "up": [1, 0], "down": [0, 1]}],
            "list.1",
            "list.0",
        ),
        ([{"c": 0, "up": [0, 1], "down": [0, 1]}], "list", "zero"),
        ([{"c": 1, "up": [0, 9], "down": [0, 1]}], "determinants", "has orbital 9"),
    ],
)
def test_lists_are_checked(rows, key, words):
    shells = [{"atom": "Be", "n": 1, "zeta": 3.7}, {"atom": "Be", "n": 2, "zeta": 1.0}]
    with pytest.raises(InvalidInput, match=words) as caught:
        trial_function(BERYLLIUM, {"source": "sto", "shells": shells}, determinants={"list": rows})
    assert caught.value.key.endswith(key)


def test_an_active_space_has_the_energy_of_its_integrals(tmp_path):
    pytest.importorskip("pyscf")
    orbitals = {"source": "pyscf", "basis": "cc-pvtz", "cusp": False, "cache": "be.h5"}
    wanted = {"source": "casscf", "active": [2, 4], "cutoff": 1e-3, "energy": -14.6164383}
    for _ in range(2):  # calculated, then from the cache
        notes = Notes()
        made = trial_function(BERYLLIUM, orbitals, determinants=wanted, folder=tmp_path, notes=notes)
        expansion = made.expansion
        assert np.allclose(sorted(np.abs(expansion.coefficients)), [0.180514] * 3 + [0.949866], atol=2e-6)
        assert np.isclose(expansion.about["energy"], -14.6164383, atol=2e-7)
        assert abs(expansion.about["spin_squared"]) < 1e-10
        assert not notes.warnings
    with pytest.raises(InvalidInput, match="largest coefficient is 0.95"):
        trial_function(BERYLLIUM, orbitals, determinants={**wanted, "cutoff": 0.96}, folder=tmp_path)


def test_stretched_nitrogen_from_a_checkpoint_file():
    """Whole configurations are singlets; the file says the energy, PySCF is not needed."""
    from tests.qmc.kernels.test_walk import DECKS

    orbitals = {"source": "chkfile", "file": str(DECKS / "n2_stretched.chk")}
    system = {"pseudopotentials": {"N": "ccecp"}}
    made = trial_function(system, orbitals, determinants={"cutoff": 0.01, "energy": -19.267526})
    assert (made.expansion.size, made.n_up, made.n_dn) == (88, 5, 5)
    assert abs(made.expansion.about["spin_squared"]) < 1e-6
    assert made.expansion.about["norm_kept"] > 0.9999


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def test_the_energy_of_determinants_of_oscillator_functions_is_the_sum_over_them(device):
    """Determinants of eigenfunctions of a trap do not mix: the energy is the sum of c^2 times that of each, 1.5 + quanta.

    Walkers are independent; the deviations of six seeds are those of a normal variable.
    """
    trap = {"atoms": [], "electrons": 3, "spin": 1}
    rows = [
        {"c": 1.0, "up": [0, 1], "down": [0]},
        {"c": -0.6, "up": [0, 2], "down": [3]},
        {"c": 0.5, "up": [1, 3], "down": [0]},
        {"c": 0.4, "up": [2, 4], "down": [5]},
    ]
    quanta = np.array([0, 1, 1, 1, 2, 2])
    c = np.array([row["c"] for row in rows])
    each = [4.5 + quanta[row["up"]].sum() + quanta[row["down"]].sum() for row in rows]
    exact = c**2 @ each / (c @ c)
    made = trial_function(trap, {"source": "harmonic"}, "none", {"list": rows})
    found = []
    for seed in range(6):
        walkers = Walkers(device, made, 400, rng.key_from_seed(seed))
        walkers.place()
        walk.walk(device, walkers.state, walkers.tables, 0.3, DRIFT, 60, walkers.stream(0))
        walkers.generation += 60
        totals = device.xp.zeros((400, walk.SUMS))
        walk.generations(device, walkers.state, walkers.tables, 0.3, DRIFT, 2, 60, walkers.stream(0), totals)
        sums = device.to_host(totals)
        energies = sums[:, COMPONENTS.index("total")] / sums[:, 7]
        error = energies.std(ddof=1) / np.sqrt(len(energies))
        assert error < 0.02
        found.append((energies.mean() - exact) / error)
    assert np.abs(found).max() < 4.5
    assert abs(np.mean(found)) * np.sqrt(len(found)) < 4.5
    assert np.square(found).sum() < 30.0  # chi squared of six degrees of freedom: once in 25000


def test_an_electron_beyond_its_orbital_of_the_reference_is_on_no_node(tmp_path):
    """Spin down of lithium is 11 bohr away in the p orbital, where the tight 1s function of the reference is 1e-14."""
    shells = [
        {"atom": "Li", "n": n, "l": l, "zeta": z} for n, l, z in ((1, 0, 2.69), (2, 0, 0.65), (2, 1, 0.8))
    ]
    rows = [{"c": 0.9, "up": [0, 1], "down": [0]}, {"c": 0.2, "up": [1, 2], "down": [2]}]
    deck = {
        "method": "qmc",
        "system": {"atoms": [["Li", 0, 0, 0]], "spin": 1},
        "wavefunction": {
            "orbitals": {"source": "sto", "shells": shells},
            "determinants": {"list": [*rows, {"c": -0.1, "up": [0, 2], "down": [1]}]},
            "jastrow": "none",
        },
        "series": [{"vmc": {"walkers": 64, "blocks": 20, "steps": 20}}],
        "run": {"seed": 3},
    }
    path = tmp_path / "deck.yaml"
    path.write_text(yaml.safe_dump(deck), encoding="utf-8")
    outcome = execute("qmc", path, Options(device="cpu", output=tmp_path, figures=False, verbosity=-1))
    assert outcome.summary["scalars"]["vmc_inverse_error"]["value"] < 1e-9

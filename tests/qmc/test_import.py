"""Molecular orbitals of other programs: every value as PySCF computes it, energies of its mean field, files that are wrong.

The oracles are PySCF's own orbitals at points (`eval_gto`), its overlap matrix and its energies.
"""

import dataclasses
import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.errors import FileError, InvalidInput
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.formats.chkfile import read_chkfile
from qsim.qmc.wavefunction.formats.molden import read_molden
from qsim.qmc.wavefunction.formats.molecule import normalised, orbitals_of, overlap
from qsim.qmc.wavefunction.formats.qmcpack import read_qmcpack
from qsim.qmc.wavefunction.harmonics import order
from qsim.qmc.wavefunction.molecules.cache import open_cache
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.molecules import occupied, write_qmcpack
from tests.qmc.trials import trial_function

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
OH = INPUTS / "oh_radical.chk"
READERS = {"chkfile": read_chkfile, "molden": read_molden, "qmcpack": read_qmcpack}
PP = {"O": "ccecp", "H": "ccecp"}
WATER = "O 0 0 0; H 0 -1.43 1.11; H 0.4 1.43 1.11"  # bohr, without symmetry

needs_pyscf = pytest.mark.skipif(find_spec("pyscf") is None, reason="PySCF is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pyscf")


def field_of(folder, basis="cc-pvdz", cart=False, spin=0, ecp=None, atoms=WATER):
    """Return a field with the orbitals of the core Hamiltonian, and all three files of it."""
    from pyscf import gto, scf
    from pyscf.tools import molden

    mol = gto.M(atom=atoms, unit="bohr", basis=basis, ecp=ecp or {}, spin=spin, cart=cart, verbose=0)
    field = (scf.UHF if spin else scf.RHF)(mol)
    overlaps, core = field.get_ovlp(), field.get_hcore()
    field.mo_energy, field.mo_coeff = field.eig([core, core] if spin else core, overlaps)
    field.mo_occ = field.get_occ(field.mo_energy, field.mo_coeff)
    scf.chkfile.dump_scf(mol, str(folder / "field.chk"), -1.0, field.mo_energy, field.mo_coeff, field.mo_occ)
    molden.from_scf(field, str(folder / "field.molden"))
    names = {"chkfile": "field.chk", "molden": "field.molden"}
    if max(mol.bas_angular(k) for k in range(mol.nbas)) < 4 or not cart:
        write_qmcpack(folder / "field.h5", field)
        names["qmcpack"] = "field.h5"
    return field, {kind: folder / name for kind, name in names.items()}


# ------------------------------------------------------------------------------------------- oracles

CASES = {
    "spherical to g": {"basis": "cc-pvqz"},
    "Cartesian to g": {"basis": "cc-pvqz", "cart": True},
    "Cartesian to f": {"basis": "cc-pvtz", "cart": True},
    "general contraction": {"basis": "ccecp-ccpvdz", "ecp": PP, "spin": 2},
    "segmented": {"basis": "def2-svp", "spin": 2},
}


@needs_pyscf
@pytest.mark.parametrize("name", CASES)
def test_orbitals_are_those_of_pyscf(tmp_path, name):
    field, files = field_of(tmp_path, **CASES[name])
    mol = field.mol
    points = np.random.default_rng(3).normal(size=(30, 3)) * 1.5
    atomic = mol.eval_gto("GTOval_cart" if mol.cart else "GTOval_sph", points)
    atomic = np.stack([atomic, *mol.eval_gto("GTOval_ip_cart" if mol.cart else "GTOval_ip_sph", points)])
    assert set(files) >= {"chkfile", "molden"}
    for kind, path in files.items():
        molecule = READERS[kind](path)
        assert_allclose(molecule.positions, mol.atom_coords(), atol=2e-14 if kind != "molden" else 1e-13)
        orbitals = orbitals_of(molecule)
        for spin, C in enumerate(occupied(field)):
            found = orbitals.rows(points, spin, exact=True)[..., : C.shape[1]]
            values = atomic @ C
            atol = (1e-14 if kind == "chkfile" else 1e-12) * np.abs(values).max()  # molden has 14 digits
            assert_allclose(found[:, 0], values[0], atol=10 * atol)
            # eval_gto's ip is the gradient
            assert_allclose(np.moveaxis(found[:, 1:4], 1, 0), values[1:], atol=100 * atol)


@needs_pyscf
@pytest.mark.parametrize("cart", [False, True])
def test_overlap_matrix_is_that_of_pyscf(tmp_path, cart):
    field, files = field_of(tmp_path, basis="cc-pvqz", cart=cart)
    molecule = read_chkfile(files["chkfile"])
    assert_allclose(overlap(molecule.shells, molecule.positions), field.mol.intor("int1e_ovlp"), atol=1e-13)


def test_overlap_of_two_gaussians():
    r"""Closed form without PySCF: <s|s> = (pi/p)^(3/2) exp(-ab/p R^2), x times x beside it."""
    a, b, R = 0.7, 1.9, np.array([0.3, -0.5, 1.1])
    one = normalised(0, 1, np.array([a]), np.array([1.0]), (1, -1, 0))
    two = normalised(1, 0, np.array([b]), np.array([1.0]), (0,))
    S = overlap([one, two], np.array([np.zeros(3), R]))
    p = a + b
    ss = (2 * a / np.pi) ** 0.75 * (2 * b / np.pi) ** 0.75 * (np.pi / p) ** 1.5 * np.exp(-a * b / p * R @ R)
    assert_allclose(S[:3, 3], 2 * np.sqrt(a) * (b / p) * R * ss, rtol=1e-13)
    assert_allclose(np.diag(S), 1.0, rtol=1e-13)


@pytest.mark.parametrize("l", range(5))
def test_normalised_functions_have_the_norm_one(l):
    """Radial integral by the trapezoidal rule, which converges exponentially here."""
    shell = normalised(0, l, np.array([0.4, 2.0]), np.array([0.3, 0.9]), tuple(range(-l, l + 1)))
    r = np.linspace(0.0, 14.0, 4001)
    R = Terms.of(shell.coefficient, 0, 0.0, shell.exponent)(r).value
    assert np.trapezoid(R**2 * r ** (2 * l + 2), r) == pytest.approx(1.0, rel=1e-9)


@needs_pyscf
def test_the_determinant_is_that_of_pyscf(tmp_path):
    """Differences of log |psi| of whole configurations through the trial function of a deck."""
    field, files = field_of(tmp_path, basis="ccecp-ccpvdz", ecp=PP, spin=2)
    electrons = np.random.default_rng(5).normal(size=(4, 8, 3))
    ao = field.mol.eval_gto("GTOval_sph", electrons.reshape(-1, 3)).reshape(4, 8, -1)
    up, dn = occupied(field)
    expected = np.linalg.slogdet(ao[:, :5] @ up)[1] + np.linalg.slogdet(ao[:, 5:] @ dn)[1]
    for kind, path in files.items():
        made = trial_function({"pseudopotentials": PP}, {"source": kind, "file": str(path)}, "none")
        found = [
            np.linalg.slogdet(made.orbitals.rows(e[:5], 0)[:, 0, :5])[1]
            + np.linalg.slogdet(made.orbitals.rows(e[5:], 1)[:, 0, :3])[1]
            for e in electrons
        ]
        assert_allclose(np.array(found), expected, atol=1e-7)  # tables of radial functions
        assert (made.n_up, made.n_dn) == (5, 3)
        assert made.system.ion_ion == pytest.approx(field.mol.energy_nuc(), rel=1e-10)


def test_a_file_brings_its_pseudopotentials():
    """Their content as in PySCF's library: ccECP of oxygen, Bennett et al. 2017."""
    molecule = read_chkfile(OH)
    assert molecule.charges == (6.0, 1.0)
    assert molecule.ecp.identity["ecp"] == {"O": "ccecp", "H": "ccecp"}
    core, parts = molecule.ecp.ecp["O"]
    assert core == 2
    assert dict((l, terms) for l, terms in parts)[0][2] == [[13.65512, 85.86406]]
    assert molecule.energy == pytest.approx(-16.2976833567, abs=1e-9)


def test_electrons_and_ions_are_those_of_the_file():
    made = trial_function({"pseudopotentials": PP}, {"source": "chkfile", "file": str(OH)}, "none")
    assert (made.n_up, made.n_dn) == (4, 3)
    assert made.system.symbols == ("O", "H")
    assert_allclose(made.system.positions, [[0, 0, 0], [0, 0, 1.8324]], atol=1e-12)


def test_labels_of_the_deck_are_kept():
    atoms = [["H1", 0, 0, 1.8324], ["O", 0, 0, 0]]  # in any order
    made = trial_function(
        {"atoms": atoms, "pseudopotentials": {"O": "ccecp", "H1": "ccecp"}},
        {"source": "chkfile", "file": str(OH)},
        "none",
    )
    assert made.system.symbols == ("O", "H1")


@needs_pyscf
def test_bare_nuclei_get_their_cusps(tmp_path):
    _, files = field_of(tmp_path)
    for cusp in (True, False):
        notes = Notes()
        made = trial_function(
            {}, {"source": "molden", "file": str(files["molden"]), "cusp": cusp}, "none", notes=notes
        )
        slope = made.orbitals.cusp(0, (5, 5))
        assert slope == pytest.approx(8.0, rel=1e-2) if cusp else abs(slope) < 1e-9
        assert notes.warnings == []


@pytest.mark.parametrize(("ion", "charge"), [("H 1 1", -1), ("He 1 2", 0), ("Li 1 3", 1), ("Be 1 4", 2)])
def test_charge_that_may_be_a_core_is_told_unless_it_is_stated(tmp_path, qmc, ion, charge):
    (tmp_path / "ion.molden").write_text(HYDRIDE.replace("H 1 1", ion), encoding="utf-8")
    orbitals = {"source": "molden", "file": str(tmp_path / "ion.molden"), "cusp": False}
    symbol = ion.split()[0]
    for system in ({}, {"charge": charge}, {"electrons": 2}, {"charge": charge, "electrons": 2, "spin": 0}):
        for atoms in ([], [[symbol, 0, 0, 0]]):
            notes = Notes()
            made = trial_function({**system, "atoms": atoms}, orbitals, "none", notes=notes)
            assert (made.n_electrons, made.system.symbols) == (2, (symbol,))
            assert len(notes.warnings) == (charge > 0 and not system)
            assert all(f"the charge is +{charge}" in text for text in notes.warnings)
            deck = {"system": {**system, "atoms": atoms}, "wavefunction": {"orbitals": orbitals}}
            qmc.build(**deck, series=[{"vmc": {"walkers": 8, "blocks": 2, "steps": 1}}])
    with pytest.raises(InvalidInput, match=f"2 electrons, a charge of {charge}, found 3;") as found:
        trial_function({"charge": 3}, orbitals, "none")
    assert found.value.key == "system.charge"


def test_a_checkpoint_file_says_itself_which_ions_have_cores(tmp_path):
    """A cation of bare nuclei: nothing is guessed, so that nothing is told."""
    shutil.copy(OH, tmp_path / "oh.chk")
    with h5py.File(tmp_path / "oh.chk", "r+") as file:
        occupations = file["scf/mo_occ"][()]
        occupations[0, 3] = 0.0
        file["scf/mo_occ"][...] = occupations
    notes = Notes()
    made = trial_function(
        {"pseudopotentials": PP}, {"source": "chkfile", "file": str(tmp_path / "oh.chk")}, "none", notes=notes
    )
    assert made.system.charges.sum() - made.n_electrons == 1
    assert notes.warnings == []


def test_sp_shells_are_one_of_s_and_one_of_p(tmp_path):
    shared = HYDRIDE.replace("s 2", "sp 2").replace("D+00 0.4", "D+00 0.4 0.9").replace(" 0.7", " 0.7 -0.3")
    apart = HYDRIDE.replace("\n\n[MO]", "\np 2 1.00\n 1.3D+00 0.9\n 0.2D+00 -0.3\n\n[MO]")
    found = []
    for name, text in (("shared", shared), ("apart", apart)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        found.append(read_molden(tmp_path / name).shells)
    for one, other in zip(*found, strict=True):
        assert one.l == other.l
        assert_allclose(one.coefficient, other.coefficient, rtol=1e-14)


def test_one_name_is_the_pseudopotential_of_every_ion_of_the_file():
    source = {"source": "chkfile", "file": str(OH)}
    made = [trial_function({"pseudopotentials": given}, source, "none") for given in (PP, "ccecp")]
    assert made[0].system.pseudopotentials.keys() == made[1].system.pseudopotentials.keys() == {"O", "H"}
    assert_allclose(made[1].system.charges, made[0].system.charges)
    atoms = [["O", 0, 0, 0], ["H1", 0, 0, 1.8324]]
    mixed = blocks.System.model_validate(
        {"atoms": atoms, "pseudopotentials": {"all": "ccecp", "O": "bfd"}}, strict=False
    )
    assert mixed.pseudopotentials == {"O": "bfd", "H1": "ccecp"}


# ------------------------------------------------------------------- conventions of programs, and ghosts

HYDROXIDE = (("O", 8, (0.0, 0.0, 0.1)), ("H", 1, (0.4, -0.9, 1.5)))
GAUSSIANS = {
    "O": [("s", (9.0, 1.4), (0.3, 0.8)), ("s", (0.5,), (1.0,)), ("p", (3.1, 0.6), (0.4, 0.7)), ("d", (1.9, 0.7), (0.5, 0.6)),
          ("f", (1.5, 0.8), (0.3, 0.8)), ("g", (1.7, 0.9), (0.6, 0.5))],
    "H": [("s", (1.2, 0.3), (0.5, 0.6)), ("p", (0.8,), (1.0,)), ("d", (0.9, 0.5), (0.2, 0.9))],
}  # fmt: skip
# Norms of the Cartesian functions of d, f and g shells in the order of molden: what programs are known to write.
CFOUR = {"d": [3] * 3 + [1] * 3, "f": [15] * 3 + [3] * 6 + [1], "g": [105] * 3 + [15] * 6 + [9] * 3 + [3] * 3}
PSI4 = {
    "d": [1] * 3 + [1 / 3] * 3,
    "f": [1] * 3 + [1 / 5] * 6 + [1 / 15],
    "g": [1] * 3 + [1 / 7] * 6 + [3 / 35] * 3 + [1 / 35] * 3,
}
TURBOMOLE = {"d": [3] * 6, "f": [15] * 10, "g": [105] * 15}
SIGNS = {"f": [1, 1, 1, 1, 1, -1, -1], "g": [1, 1, 1, 1, 1, -1, -1, -1, -1]}


def molden(
    atoms, orbitals, *, cartesian, occupied, title="", norms=None, signs=None, bare=False, centres=GAUSSIANS
):
    """Return a molden file of orbitals over functions with the norm 1, in the conventions of a program.

    Parameters
    ----------
    norms, signs
        Squared norms, and signs, of the functions of a shell in the file, where they are not 1.
    bare
        Contractions of Gaussians without their norms.
    """
    lines = ["[Molden Format]", "[Title]", title, "[Atoms] AU"]
    lines += [
        f"{name} {k + 1} {z} {x:.14f} {y:.14f} {w:.14f}" for k, (name, z, (x, y, w)) in enumerate(atoms)
    ]
    lines.append("[GTO]")
    factors = []
    for k, (name, _, _) in enumerate(atoms):
        lines.append(f"{k + 1} 0")
        for letter, exponents, coefficients in centres[name]:
            l = "spdfg".index(letter)
            lines.append(f"{letter} {len(exponents)} 1.0")
            for a, c in zip(exponents, coefficients, strict=True):
                lines.append(f"{a:.14e} {c * a ** (0.5 * l + 0.75) if bare else c:.14e}")
            size = (l + 1) * (l + 2) // 2 if cartesian else 2 * l + 1
            norm = np.sqrt((norms or {}).get(letter, [1.0] * size)) if cartesian else np.ones(size)
            factors += list(norm * (signs or {}).get(letter, [1.0] * size))
        lines.append("")
    lines += [] if cartesian else ["[5D]", "[7F]", "[9G]"]
    lines.append("[MO]")
    for k, column in enumerate(orbitals.T):
        lines += [f"Ene= {k}.0", "Spin= Alpha", f"Occup= {2.0 * (k < occupied)}"]
        lines += [f"{i + 1} {c:.14e}" for i, c in enumerate(column / np.array(factors))]
    return "\n".join(lines) + "\n"


def water_molden(path, *, header="", charge=8):
    """Write the reference orbitals of water with ccECP as another program would; return those of the cache file."""
    block = blocks.Pyscf.model_validate({"source": "pyscf", "cache": "h2o_orbitals.h5"}, strict=False)
    cache = open_cache(block, INPUTS)
    places = np.array([atom[1:] for atom in cache.identity["atoms"]])
    ends = np.cumsum([0, *cache.shell_size])
    rows, factors, first, centres = [], [], 0, {"O": [], "H": []}
    for k, (atom, l) in enumerate(zip(cache.shell_atom, cache.shell_l, strict=True)):
        a, c = cache.exponent[ends[k] : ends[k + 1]], cache.coefficient[ends[k] : ends[k + 1]]
        # As the format has it: of Gaussians of the norm 1, x, y, z or m = 0, 1, -1, ...
        one = normalised(0, int(l), a[:1], np.ones(1), (0,)).coefficient[0] / a[0] ** (l / 2 + 0.75)
        whole = normalised(0, int(l), a, c, (0,), of_primitives=False).coefficient
        if atom < 2:
            centres["OH"[atom]].append(("spdf"[l], a, whole / one / a ** (l / 2 + 0.75)))
        components = (1, -1, 0) if l == 1 else (0, *(m for n in range(1, l + 1) for m in (n, -n)))
        rows += [first + list(order(int(l))).index(m) for m in components]
        factors += [c[0] / whole[0]] * len(components)
        first += 2 * l + 1
    C = cache.orbitals[0][rows] * np.array(factors)[:, None]
    atoms = [(s, charge if s == "O" else 1, p) for s, p in zip("OHH", places, strict=True)]
    text = molden(atoms, C, cartesian=False, occupied=4, centres=centres)
    path.write_text(text.replace("[GTO]", f"{header}[GTO]"), encoding="utf-8")
    return cache.orbital_set(places)


@pytest.mark.parametrize(
    ("header", "charge"), [("", 8), ("[CORE]\n1 : 2\n", 8), ("[Pseudo]\nO 1 6\nH 2 1\n", 8), ("", 6)]
)
def test_water_with_effective_cores_comes_from_a_molden_file(tmp_path, header, charge):
    """However a program says that there is a core, orbitals and ions are those of the reference deck."""
    path = tmp_path / "water.molden"
    known = water_molden(path, header=header, charge=charge)
    notes, source = Notes(), {"source": "molden", "file": str(path)}
    made = trial_function({"pseudopotentials": "ccecp"}, source, "none", notes=notes)
    assert not notes.warnings
    assert made.system.charges.tolist() == [6.0, 1.0, 1.0]
    assert (made.n_up, made.n_dn) == (4, 4)
    points = np.random.default_rng(3).normal(size=(20, 3))
    ours, theirs = (one.atomic(points)[:, 0] @ one.coefficients[0] for one in (made.orbitals, known))
    assert_allclose(ours, theirs, atol=1e-10 * np.abs(theirs).max())


def orthonormal(tmp_path, *, cartesian, atoms=HYDROXIDE, centres=GAUSSIANS):
    """Return random orthonormal orbitals over the functions of a file."""
    path = tmp_path / "functions.molden"
    path.write_text(
        molden(atoms, np.eye(1), cartesian=cartesian, occupied=1, centres=centres), encoding="utf-8"
    )
    functions = read_molden(path)
    S = overlap(functions.shells, functions.positions)
    w, v = np.linalg.eigh(S)
    turned, _ = np.linalg.qr(np.random.default_rng(5).standard_normal(S.shape))
    return v / np.sqrt(w) @ turned


PROGRAMS = {
    "": {},
    "ORCA": {"bare": True, "signs": SIGNS, "cartesian": False},
    "PSI4 before 1.0": {"bare": True, "cartesian": False},
    "CFOUR": {"norms": CFOUR, "cartesian": True},
    "PSI4 before 1.4": {"norms": PSI4, "cartesian": True},
    "Turbomole": {"norms": TURBOMOLE, "cartesian": True},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_files_of_programs_give_the_orbitals_that_they_mean(tmp_path, program):
    """The same orbitals, in the conventions of the format and of a program, have the same values everywhere."""
    options = {"cartesian": True, **PROGRAMS[program]}
    C = orthonormal(tmp_path, cartesian=options["cartesian"])
    right, path = tmp_path / "right.molden", tmp_path / "program.molden"
    right.write_text(molden(HYDROXIDE, C, cartesian=options["cartesian"], occupied=5), encoding="utf-8")
    path.write_text(molden(HYDROXIDE, C, occupied=5, **options), encoding="utf-8")
    molecule = read_molden(path)
    assert molecule.conventions == program
    found, true = orbitals_of(molecule), orbitals_of(read_molden(right))
    assert (f"conventions of {program}" in found.about["summary"]) is bool(program)
    points = np.random.default_rng(2).normal(size=(20, 3))
    ours, theirs = (one.atomic(points)[:, 0] @ one.coefficients[0] for one in (found, true))
    assert_allclose(ours, theirs, atol=1e-10 * np.abs(theirs).max())


@pytest.mark.parametrize("cartesian", [False, True])
def test_conventions_that_occupied_orbitals_hardly_show_are_refused(tmp_path, cartesian):
    """Of occupied orbitals with a little f, unoccupied ones tell that its signs or norms are wrong."""
    rng = np.random.default_rng(8)
    C = orthonormal(tmp_path, cartesian=cartesian)
    path = tmp_path / "right.molden"
    path.write_text(molden(HYDROXIDE, C, cartesian=cartesian, occupied=5), encoding="utf-8")
    molecule = read_molden(path)
    high = np.concatenate([np.full(len(shell.components), shell.l >= 3) for shell in molecule.shells])
    # the lowest levels of an energy that is high for f and g functions hold little of them
    S = overlap(molecule.shells, molecule.positions)
    noise = 0.05 * rng.standard_normal(S.shape)
    w, v = np.linalg.eigh(S)
    root = v / np.sqrt(w) @ v.T
    C = root @ np.linalg.eigh(root @ (np.diag(1.0 + 40.0 * high) + noise + noise.T) @ root)[1]
    wrong = {"norms": {"f": [1.002] * 10}} if cartesian else {"signs": {"f": [1, 1, 1, 1, 1, -1, 1]}}
    path.write_text(molden(HYDROXIDE, C, cartesian=cartesian, occupied=2, **wrong), encoding="utf-8")
    molecule = read_molden(path)
    occupied_alone = dataclasses.replace(molecule, all_orbitals=molecule.orbitals)
    assert occupied_alone.off_orthonormal < 1e-3
    with pytest.raises(FileError, match="must be orthonormal"):
        orbitals_of(molecule)


def test_the_title_decides_between_conventions_of_an_atom(tmp_path):
    """Functions of different m of one atom never overlap, so that orthonormal orbitals tell nothing of their signs."""
    atoms, centres = HYDROXIDE[:1], {"O": [*GAUSSIANS["O"]]}
    C = orthonormal(tmp_path, cartesian=False, atoms=atoms, centres=centres)
    path = tmp_path / "o.molden"
    for title, program in (("", "PSI4 before 1.0"), ("Molden file created by orca_2mkl", "ORCA")):
        text = molden(atoms, C, cartesian=False, occupied=5, title=title, bare=True, signs=SIGNS)
        path.write_text(text, encoding="utf-8")
        assert read_molden(path).conventions == program


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("name", ["He", "Bq"])
def test_centres_without_charge_are_no_nuclei(tmp_path, place, name):
    """A helium atom with functions on a ghost beside it: one nucleus, whose cusp is where it is."""
    centres = {"He": [("s", (13.6267, 1.99935), (0.17523, 0.893483)), ("s", (0.382993,), (1.0,))]}
    centres["Bq"] = centres["He"]
    atoms = [("He", 2, (0.1, 0.0, 1.4)), ("He", 2, (0.0, 0.2, -1.1))]
    atoms[place] = (name, 0, atoms[place][2])
    C = orthonormal(tmp_path, cartesian=False, atoms=atoms, centres=centres)
    path = tmp_path / "ghost.molden"
    path.write_text(molden(atoms, C, cartesian=False, occupied=1, centres=centres), encoding="utf-8")
    notes = Notes()
    made = trial_function({}, {"source": "molden", "file": str(path)}, "none", notes=notes)
    assert (made.system.symbols, made.n_up, made.n_dn) == (("He",), 1, 1)
    assert_allclose(made.system.positions, [atoms[1 - place][2]])
    assert made.system.ion_ion == 0.0
    assert notes.warnings == []
    points = np.random.default_rng(4).normal(size=(9, 3)) + np.array(atoms[place][2])
    value, k = np.zeros(9), 0
    for _, _, centre in atoms:
        r2 = ((points - np.array(centre)) ** 2).sum(1)
        for _, exponents, coefficients in centres["He"]:
            a, c = np.array(exponents), np.array(coefficients)
            c = c * (2 * a / np.pi) ** 0.75
            c /= np.sqrt(c @ (np.pi / (a[:, None] + a)) ** 1.5 @ c)
            value += C[k, 0] * (c * np.exp(-a * r2[:, None])).sum(1)
            k += 1
    plain = orbitals_of(read_molden(path))
    assert_allclose((plain.atomic(points)[:, 0] @ plain.coefficients[0])[:, 0], value, rtol=1e-9)
    assert made.orbitals.cusp(0, (1, 1)) == pytest.approx(2.0, rel=1e-2)
    # the places of the deck, if it gives them, are those of nuclei alone
    deck = {"atoms": [["He1", *atoms[1 - place][2]]]}
    labelled = trial_function(deck, {"source": "molden", "file": str(path)}, "none", notes=Notes())
    assert labelled.system.symbols == ("He1",)


def test_ghosts_of_a_checkpoint_file_are_no_nuclei(tmp_path):
    """The hydrogen of a hydroxyl radical made a ghost, as PySCF keeps it: charge 0, its functions stay."""
    path = tmp_path / "ghost.chk"
    shutil.copy(OH, path)
    with h5py.File(path, "r+") as file:
        mol = json.loads(file["mol"][()])
        literal = isinstance(mol["_atm"], str)
        atm = json.loads(mol["_atm"]) if literal else mol["_atm"]
        atm[1][0] = 0
        mol["_atm"] = json.dumps(atm) if literal else atm
        replace(file, "mol", json.dumps(mol))
    whole, ghost = read_chkfile(OH), read_chkfile(path)
    assert (whole.symbols, ghost.symbols, ghost.charges) == (("O", "H"), ("O",), (6.0,))
    assert_allclose(ghost.positions, whole.positions)
    assert ghost.off_orthonormal < 1e-9


# ------------------------------------------------------------------------------------------ bad input

HYDRIDE = """[Molden Format]
[Atoms] AU
H 1 1 0.0 0.0 0.0
[GTO]
1 0
s 2 1.00
 1.3D+00 0.4
 0.2D+00 0.7

[MO]
Ene= -0.5
Spin= Alpha
Occup= 2.0
1 1.0
"""
BAD_MOLDEN = {
    "empty": ("", r"section \[Atoms\] is missing"),
    "no orbitals": (HYDRIDE.split("[MO]")[0], r"section \[MO\] is missing"),
    "cut short in a shell": (HYDRIDE.split(" 0.2D")[0], "the last shell of .GTO. lacks 1 of its Gaussians"),
    "section in a shell": (HYDRIDE.replace(" 0.2D+00 0.7\n", ""), "lacks 1 of its Gaussians before this section"),
    "Slater functions": (HYDRIDE.replace("[GTO]", "[STO]"), "Slater functions of molden files are not supported"),
    "no element": (HYDRIDE.replace("H 1 1", "Qq 1 1"), "'Qq' is no element"),
    "no number": (HYDRIDE.replace("1.3D+00", "one"), "line 7.*cannot be read"),
    "negative exponent": (HYDRIDE.replace("1.3D+00", "-1.3"), "atom 1 has impossible exponents"),
    "h functions": (HYDRIDE.replace("s 2", "h 2"), "shells of type h are not supported; s, p, sp, d, f and g are"),
    "sp shells": (HYDRIDE.replace("s 2", "sp 2"), r"line 7.*an exponent and 2 coefficient\(s\) are expected"),
    "pd shells": (HYDRIDE.replace("s 2", "pd 2"), "shells of type pd are not supported"),
    "natural orbitals": (HYDRIDE.replace("Occup= 2.0", "Occup= 1.93"), "occupied by 1.93 electrons; one determinant needs"),
    "no occupation": (HYDRIDE.replace("Occup= 2.0\n", ""), "has no Occup="),
    "too many coefficients": (HYDRIDE + "9 0.1\n", r"orbitals have 9 coefficients, \[GTO\] gives 1 functions"),
    "not normalised": (HYDRIDE.replace("1 1.0\n", "1 0.9\n"), "overlaps of the orbitals differ .* by up to 0.19"),
    "not finite": (HYDRIDE.replace("1 1.0\n", "1 nan\n"), "a coefficient of an orbital is not finite"),
    "nothing occupied": (HYDRIDE.replace("Occup= 2.0", "Occup= 0.0"), "holds no occupied orbitals"),
    "atom of a shell": (HYDRIDE.replace("1 0\ns", "7 0\ns"), "there is no atom 7"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_MOLDEN)
def test_molden_files_that_are_wrong(tmp_path, name):
    text, message = BAD_MOLDEN[name]
    path = tmp_path / "bad.molden"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=message) as found:
        orbitals_of(read_molden(path))
    assert "bad.molden" in str(found.value)


def test_binary_and_missing_files(tmp_path):
    for kind, reader in READERS.items():
        with pytest.raises(FileError, match="does not exist"):
            reader(tmp_path / "none")
        path = tmp_path / kind
        path.write_bytes(bytes(range(256)) * 40)
        with pytest.raises(FileError, match="expected"):
            reader(path)
        cut = tmp_path / f"{kind}.cut"
        cut.write_bytes(OH.read_bytes()[:9000])
        with pytest.raises(FileError, match="expected|cut"):
            reader(cut)


BAD_CHK = {
    "other HDF5": (lambda f: f.pop("mol"), "is not a checkpoint file of a mean field"),
    "crystal": (lambda f: f.move("mol", "cell"), "is of a crystal"),
    "coefficients of another basis": (
        lambda f: replace(f, "scf/mo_coeff", f["scf/mo_coeff"][:, :-1]),
        "do not belong to 18 basis functions",
    ),
    "complex orbitals": (
        lambda f: replace(f, "scf/mo_coeff", f["scf/mo_coeff"][()] * 1j),
        "the orbitals are complex",
    ),
    "scaled orbitals": (
        lambda f: replace(f, "scf/mo_coeff", f["scf/mo_coeff"][()] * 1.01),
        "must be orthonormal",
    ),
    "natural occupations": (
        lambda f: replace(f, "scf/mo_occ", f["scf/mo_occ"][()] * 0.97),
        "occupied by 0.97 electrons",
    ),
    "no JSON": (lambda f: replace(f, "mol", "{"), "cannot be read"),
    "lists of another kind": (lambda f: replace(f, "mol", "[1, 2]"), "cannot be read"),
}


def replace(file, name, values):
    """Put another dataset in the place of one."""
    del file[name]
    file[name] = values


@pytest.mark.parametrize("name", BAD_CHK)
def test_checkpoint_files_that_are_wrong(tmp_path, name):
    change, message = BAD_CHK[name]
    path = tmp_path / "bad.chk"
    shutil.copy(OH, path)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(FileError, match=message):
        orbitals_of(read_chkfile(path))


BASIS = "basisset/atomicBasisSet0"
BAD_QMCPACK = {
    "crystal": ({"PBC/PBC": np.array([True])}, "is of a crystal"),
    "complex": ({"parameters/IsComplex": np.array([True])}, "its orbitals are complex"),
    "no basis": ({"basisset/NbElements": None}, "it lacks 'basisset/NbElements'"),
    "no such angular part": ({f"{BASIS}/angular": np.array([b"hexagonal"])}, "expected spherical or cartesian"),
    "numerical functions": ({f"{BASIS}/basisGroup0/type": np.array([b"Numerical"])}, "Gaussian functions are supported"),
    "more electrons than orbitals": ({"parameters/NbAlpha": np.array([900], np.int32)}, "900 electrons of a spin, but orbitals"),
    "l": ({f"{BASIS}/basisGroup0/l": np.array([7], np.int32)}, "is 7; functions up to l = 4"),
    "species": ({"atoms/species_ids": np.array([0, 0, 1], np.int32)}, "orbitals have|must be orthonormal"),
    "element": ({"atoms/species_0/atomic_number": np.array([400], np.int32)}, "is 400, no element"),
}  # fmt: skip


@needs_pyscf
@pytest.mark.parametrize("name", BAD_QMCPACK)
def test_qmcpack_files_that_are_wrong(tmp_path, name):
    field, _ = field_of(tmp_path)
    changes, message = BAD_QMCPACK[name]
    write_qmcpack(tmp_path / "bad.h5", field, **changes)
    with pytest.raises(FileError, match=message):
        orbitals_of(read_qmcpack(tmp_path / "bad.h5"))


BAD_DECKS = {
    "no pseudopotential": ({}, "system.pseudopotentials", "of O that leaves 6 of 8 electrons; give one, such as .*O: ccecp"),
    "half of them": ({"pseudopotentials": {"O": "ccecp"}}, "system.pseudopotentials", "of H that leaves 1 of 1 electrons"),
    "other geometry": (
        {"pseudopotentials": PP, "atoms": [["O", 0, 0, 0], ["H", 0, 0, 2]]},
        "system.atoms",
        r"has the atoms O \[0.0, 0.0, 0.0\]; H \[0.0, 0.0, 1.8324\] bohr",
    ),
    "other element": ({"pseudopotentials": PP, "atoms": [["N", 0, 0, 0], ["H", 0, 0, 1.8324]]}, "system.atoms", "has the atoms"),
    "other spin": ({"pseudopotentials": PP, "spin": 3}, "system.spin", "spin 1, found 3; leave this key out"),
    "other charge": ({"pseudopotentials": PP, "charge": 1}, "system.charge", "a charge of 0, found 1"),
    "other electrons": ({"pseudopotentials": PP, "electrons": 8}, "system.electrons", "electrons 7, found 8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_DECKS)
def test_decks_that_contradict_their_file(name):
    system, key, message = BAD_DECKS[name]
    with pytest.raises(InvalidInput, match=message) as found:
        trial_function(system, {"source": "chkfile", "file": str(OH)}, "none")
    assert found.value.key == key


def test_a_checkpoint_file_is_no_cache(tmp_path):
    shutil.copy(OH, tmp_path / "oh.chk")
    orbitals = {"source": "pyscf", "method": "uhf", "basis": "ccecp-ccpvdz", "cache": "oh.chk"}
    with pytest.raises(FileError, match="not a file of orbitals of qsim") as found:
        trial_function(
            {"atoms": [["O", 0, 0, 0], ["H", 0, 0, 1.8324]], "spin": 1}, orbitals, "none", folder=tmp_path
        )
    assert "source: chkfile" in found.value.hint

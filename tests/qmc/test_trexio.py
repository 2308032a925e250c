"""TREXIO files, written here group by group from the specification: orbitals, determinants and messages.

The oracle is a checkpoint file of PySCF with the same orbitals: values at random points, states, energies.
"""

from pathlib import Path

import h5py
import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.errors import FileError
from qsim.qmc.wavefunction.formats.chkfile import read_chkfile
from qsim.qmc.wavefunction.formats.molecule import monomials, orbitals_of, to_monomials
from qsim.qmc.wavefunction.formats.trexio import read_trexio
from qsim.qmc.wavefunction.harmonics import order
from qsim.qmc.wavefunction.notes import Notes
from tests.qmc.trials import trial_function

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
NITROGEN = INPUTS / "n2_stretched.chk"


def write_trexio(path, molecule, *, cartesian=False, charges=(5.0, 5.0), cores=(2, 2), unit=False, **changes):
    """Write what a checkpoint file holds; `changes` replace items such as ``ao/ao_shell``, None removes one.

    The factors of shells, primitives and functions are drawn, and undone by the coefficients; with `unit` functions are said to
    be of norm 1, as some programs do.
    """
    rng = np.random.default_rng(3)
    shell_of, primitives, factors, blocks, ao = [], [], [], [], []
    for s, shell in enumerate(molecule.shells):
        racah = np.sqrt(4.0 * np.pi / (2 * shell.l + 1))
        if cartesian:
            block = to_monomials(shell.l).T * shell.scale[0]  # (monomials, m in our order)
            count = len(monomials(shell.l))
        else:
            theirs = [0, *(sign * m for m in range(1, shell.l + 1) for sign in (1, -1))]
            block = np.eye(len(theirs))[:, [theirs.index(m) for m in order(shell.l)]] / racah
            count = len(theirs)
        own = np.ones(count) if unit else rng.uniform(0.5, 2.0, count)
        whole = 1.0 if unit else float(rng.uniform(0.5, 2.0))
        pieces = np.ones(len(shell.exponent)) if unit else rng.uniform(0.5, 2.0, len(shell.exponent))
        blocks.append((block * racah if unit else block) / (own * whole)[:, None])
        factors.append(whole)
        primitives.append((np.full(len(pieces), s), shell.exponent, shell.coefficient / pieces, pieces))
        shell_of += [s] * count
        ao.append(own)
    rows = sum(len(block) for block in blocks)
    C = []
    for coefficients in molecule.all_orbitals:
        made, at, start = np.zeros((rows, coefficients.shape[1])), 0, 0
        for block in blocks:
            made[at : at + len(block)] = block @ coefficients[start : start + block.shape[1]]
            at, start = at + len(block), start + block.shape[1]
        C.append(made.T)
    index, exponent, coefficient, factor = map(np.concatenate, zip(*primitives, strict=True))
    n_up, n_dn = (one.shape[1] for one in molecule.orbitals)
    out = {
        "nucleus/nucleus_charge": np.array(charges),
        "nucleus/nucleus_coord": molecule.positions,
        "nucleus/nucleus_label": np.array([s.encode() for s in molecule.symbols]),
        "ecp/ecp_z_core": np.array(cores, np.int64),
        "basis/basis_nucleus_index": np.array([shell.atom for shell in molecule.shells]),
        "basis/basis_shell_ang_mom": np.array([shell.l for shell in molecule.shells]),
        "basis/basis_shell_factor": np.array(factors),
        "basis/basis_r_power": np.zeros(len(factors), np.int64),
        "basis/basis_shell_index": index,
        "basis/basis_exponent": exponent,
        "basis/basis_coefficient": coefficient,
        "basis/basis_prim_factor": factor,
        "ao/ao_shell": np.array(shell_of),
        "ao/ao_normalization": np.concatenate(ao),
        "mo/mo_coefficient": np.concatenate(C),
        "basis@basis_type": "Gaussian",
        "ao@ao_cartesian": int(cartesian),
        "electron@electron_up_num": n_up,
        "electron@electron_dn_num": n_dn,
    }
    if len(C) == 2:
        out["mo/mo_spin"] = np.repeat([0, 1], [len(one) for one in C])
    stored = molecule.expansion
    if stored is not None:
        bits = [
            np.array([sum(1 << int(o) for o in row) for row in table], np.int64) for table in stored.strings
        ]
        words = np.stack([bits[0][stored.index[:, 0]], bits[1][stored.index[:, 1]]], -1)
        out["determinant/determinant_list"] = words.ravel()
        out["determinant/determinant_coefficient"] = stored.coefficients[0] * 3.0
        out["state/state_energy"] = stored.energies
        out["state@state_id"] = 0
    with h5py.File(path, "w") as file:
        for name, values in {**out, **changes}.items():
            if values is None:
                continue
            group, _, key = name.partition("@")
            if key:
                file.require_group(group).attrs[key] = values
            else:
                file[name] = values


def values(molecule, orders=None):
    points = np.random.default_rng(0).normal(scale=2.0, size=(20, 3))
    made = orbitals_of(molecule, orders)
    return [made.rows(points, spin) for spin in range(2)]


@pytest.mark.parametrize("form", [{}, {"cartesian": True}, {"unit": True}, {"charges": (7.0, 7.0)}])
def test_orbitals_and_determinants_are_those_of_the_checkpoint(tmp_path, form):
    """To the digits of double precision; also with functions of norm 1, and with charges of the whole nuclei."""
    known = read_chkfile(NITROGEN, expansion=True)
    path = tmp_path / "n2.h5"
    write_trexio(path, known, **form)
    found = read_trexio(path, expansion=True)
    assert found.symbols == known.symbols
    assert found.charges == (5.0, 5.0)
    assert bool(found.conventions) == ("unit" in form)
    every = [list(range(known.all_orbitals[0].shape[1]))] * 2
    for mine, theirs in zip(values(found, every), values(known, every), strict=True):
        assert_allclose(mine, theirs, atol=1e-9)
    one, other = (np.zeros((2, 20, 20)) for _ in range(2))
    for table, stored in ((one, found.expansion), (other, known.expansion)):
        for (i, j), c in zip(stored.index, stored.coefficients[0], strict=True):
            key = [sum(1 << int(o) for o in stored.strings[s][k]) for s, k in enumerate((i, j))]
            table[0, key[0] % 20, key[1] % 20] += c  # a sum over determinants by their strings
            table[1, key[0] % 19, key[1] % 17] += c
    assert_allclose(one, other, atol=1e-14)


def test_a_deck_takes_them(tmp_path):
    """With the pseudopotential, whole configurations and the energy that the file has."""
    write_trexio(tmp_path / "n2.h5", read_chkfile(NITROGEN, expansion=True))
    orbitals = {"source": "trexio", "file": str(tmp_path / "n2.h5")}
    system, notes = {"pseudopotentials": {"N": "ccecp"}}, Notes()
    made = trial_function(system, orbitals, determinants={"cutoff": 0.01, "energy": -19.267526}, notes=notes)
    theirs = trial_function(
        system, {"source": "chkfile", "file": str(NITROGEN)}, determinants={"cutoff": 0.01}
    )
    assert made.expansion.size == theirs.expansion.size == 88
    R = made.scatter(1, np.random.default_rng(1))[0]
    assert_allclose(made.log_psi(R)[0], theirs.log_psi(R)[0], atol=1e-8)
    assert_allclose(made.gradient(R), theirs.gradient(R), atol=1e-6)


def test_spins_with_orbitals_of_their_own(tmp_path):
    """Orbitals of spin down are behind those of spin up; occupations say which are occupied."""
    known = read_chkfile(INPUTS / "oh_radical.chk")
    sizes = [C.shape[1] for C in known.all_orbitals]
    assert len(sizes) == 2
    counts = [C.shape[1] for C in known.orbitals]
    n = np.concatenate([np.arange(size) < count for size, count in zip(sizes, counts, strict=True)])
    path = tmp_path / "oh.h5"
    write_trexio(path, known, charges=(6.0, 1.0), cores=(2, 0), **{"mo/mo_occupation": n.astype(float)})
    for mine, theirs in zip(values(read_trexio(path)), values(known), strict=True):
        assert_allclose(mine, theirs, atol=1e-9)
    up, dn = sum(1 << k for k in range(counts[0])), sum(1 << sizes[0] + k for k in range(counts[1]))
    listed = {
        "determinant/determinant_list": np.array([up, dn], np.int64),
        "determinant/determinant_coefficient": np.ones(1),
    }
    write_trexio(path, known, charges=(6.0, 1.0), cores=(2, 0), **listed)
    stored = read_trexio(path, expansion=True).expansion
    assert [one.tolist() for one in stored.strings] == [[list(range(count))] for count in counts]
    assert not stored.shared


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mo/mo_coefficient": None}, "lacks 'mo/mo_coefficient'"),
        ({"basis@basis_type": "Slater"}, "basis_type is 'Slater'; Gaussian"),
        ({"pbc@pbc_periodic": 1}, "is of a crystal"),
        ({"mo/mo_coefficient_im": np.ones(3)}, "complex orbitals"),
        ({"basis/basis_r_power": np.array([0, 2])}, "powers of r"),
        ({"ao/ao_shell": np.zeros(3, np.int64)}, "same lengths"),
        ({"electron@electron_up_num": 6}, "determinants of 5 and 5 electrons"),
        ({"electron@electron_up_num": None}, "lacks electron_up_num"),
        (
            {"determinant/determinant_list": None, "csf/csf_coefficient": np.ones(2)},
            "CSFs alone are not read",
        ),
        ({"determinant/determinant_list": np.zeros(7, np.int64)}, "7 words for"),
        ({"nucleus/nucleus_label": None, "nucleus/nucleus_charge": np.array([999.0, 5.0])}, "is no element"),
    ],
)
def test_what_is_not_supported_is_said(tmp_path, changes, words):
    path = tmp_path / "n2.h5"
    write_trexio(path, read_chkfile(NITROGEN, expansion=True), **changes)
    with pytest.raises(FileError, match=words):
        read_trexio(path, expansion=True)


def test_the_text_back_end_is_told_of(tmp_path):
    with pytest.raises(FileError, match="text back end"):
        read_trexio(tmp_path)

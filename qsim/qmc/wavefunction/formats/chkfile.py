"""Mean fields of PySCF in their checkpoint files (``mf.chkfile``), read without PySCF.

The file is HDF5: ``mol`` is a text, the molecule as JSON whose values are in part Python literals; ``scf/mo_coeff`` and
``scf/mo_occ`` hold orbitals, (B, n) or (2, B, n), and their occupations.
"""

from __future__ import annotations

import ast
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from qsim.core.errors import FileError
from qsim.core.results.reading import reading
from qsim.qmc.wavefunction.formats.eshdf import StoredEcp
from qsim.qmc.wavefunction.formats.expansions import Stored, active_strings, of_matrices
from qsim.qmc.wavefunction.formats.hdf import HdfFile
from qsim.qmc.wavefunction.formats.molecule import GaussianShell, Molecule, ions_first, monomials, occupied
from qsim.qmc.wavefunction.harmonics import order

if TYPE_CHECKING:
    from qsim.core.device.arrays import FloatArray, IndexArray

__all__ = ["read_chkfile"]

EXPECTED = "a checkpoint file of a mean field of PySCF (mf.chkfile)"
# places in the integer arrays of libcint, which PySCF keeps
CHARGE, COORDINATES = 0, 1
ATOM, MOMENTUM, PRIMITIVES, CONTRACTIONS, EXPONENTS, COEFFICIENTS = 0, 1, 2, 3, 5, 6


def read_chkfile(path: Path, *, expansion: bool = False) -> Molecule:
    """Read the molecule and the occupied orbitals of a file.

    Parameters
    ----------
    path
        The file.
    expansion
        Read the orbitals and the determinants of a multiconfigurational field (``mcscf``) instead.

    Raises
    ------
    FileError
        If it is no such file, of a crystal, or of spinors.
    """
    with HdfFile(path, EXPECTED) as file, reading(path, EXPECTED):
        if "mol" not in file and "cell" in file:
            raise FileError(
                f"{path} is of a crystal", hint="crystals come with source: pyscf or source: eshdf"
            )
        if "mol" not in file or "scf/mo_coeff" not in file:
            raise FileError(f"{path} is not {EXPECTED}: it lacks 'mol' or 'scf/mo_coeff'")
        mol = json.loads(file.text("mol"))
        if expansion:
            return _read_active_space(path, mol, file)
        energy = float(file.numbers("scf/e_tot").ravel()[0]) if "scf/e_tot" in file else None
        return _read(path, mol, file.numbers("scf/mo_coeff"), file.numbers("scf/mo_occ"), energy)


def _read(
    path: Path, mol: dict[str, Any], C: NDArray[Any], occupations: NDArray[Any], energy: float | None
) -> Molecule:
    """Put together what the file says: (B, n) or (2, B, n) coefficients and their occupations."""
    atm = np.asarray(_value(mol["_atm"]), np.int64)
    bas = np.asarray(_value(mol["_bas"]), np.int64).reshape(-1, 8)
    env = np.asarray(_value(mol["_env"]), np.float64)
    atoms = _value(mol["_atom"])
    ghosts = [bool(row[CHARGE] == 0) for row in atm]
    symbols = tuple(str(atom[0]) for atom, ghost in zip(atoms, ghosts, strict=True) if not ghost)
    n = occupations.astype(np.float64)
    if np.iscomplexobj(C) and np.abs(C.imag).max(initial=0.0) > 0.0:
        raise FileError(f"{path}: the orbitals are complex; orbitals of molecules must be real")
    C = np.real(C).astype(np.float64)
    shells = [s for row in bas for s in _shells(row, env, bool(_value(mol.get("cart", False))))]
    functions = sum(len(shell.components) for shell in shells)
    if C.ndim not in (2, 3) or C.shape[-2] != functions or n.shape != C[..., 0, :].shape:
        raise FileError(
            f"{path}: orbitals of shape {C.shape} with occupations {n.shape} do not belong to {functions} basis functions; "
            "generalised (spinor) fields are not supported"
        )
    pairs = ([C], [n]) if C.ndim == 2 else (list(C), list(n))
    positions, in_order = ions_first(
        ghosts, np.array([env[row[COORDINATES] : row[COORDINATES] + 3] for row in atm]), shells
    )
    return Molecule(
        path=path,
        symbols=symbols,
        positions=positions,
        charges=tuple(float(row[CHARGE]) for row, ghost in zip(atm, ghosts, strict=True) if not ghost),
        shells=in_order,
        orbitals=occupied(path, *pairs),
        all_orbitals=tuple(pairs[0]),
        energy=energy if energy is not None and math.isfinite(energy) else None,
        ecp=_stored(mol, symbols),
    )


def _read_active_space(path: Path, mol: dict[str, Any], file: HdfFile) -> Molecule:
    """Return what a file says of a complete active space, ``mcscf/mo_coeff``, ``ncore``, ``ncas``, ``nelecas`` and ``ci``."""
    if "mcscf/ci" not in file:
        raise FileError(
            f"{path} holds no CI vector: it lacks 'mcscf/ci'",
            hint="run CASSCF with mc.chkfile = ... and mc.chk_ci = True",
        )
    core, M = file.whole("mcscf/ncore"), file.whole("mcscf/ncas")
    C = file.numbers("mcscf/mo_coeff")
    electrons = np.ravel(file.numbers("mcscf/nelecas")).astype(int)
    if C.ndim != 2 or electrons.size != 2 or not (core >= 0 and M > 0 and core + M <= C.shape[1]):
        raise FileError(
            f"{path}: {electrons.tolist()} active electrons in {M} orbitals above {core} of {C.shape}"
        )
    ci = file.numbers("mcscf/ci").astype(np.float64)
    shape = tuple(math.comb(M, int(n)) for n in electrons)
    if ci.size == 0 or ci.size % math.prod(shape) or not np.isfinite(ci).all():
        raise FileError(
            f"{path}: mcscf/ci of shape {ci.shape} does not belong to {shape[0]} x {shape[1]} determinants"
        )
    ci = ci.reshape(-1, *shape)
    energy = file.numbers("mcscf/e_tot").ravel() if "mcscf/e_tot" in file else np.zeros(0)
    occupations = np.zeros(C.shape[1])
    occupations[: core + int(electrons[1])] = 2.0
    occupations[core + int(electrons[1]) : core + int(electrons[0])] = 1.0
    found = _read(path, mol, C, occupations, None)
    strings = [active_strings(core, M, int(n)) for n in electrons]
    index, coefficients = of_matrices(ci)
    norms = np.linalg.norm(coefficients, axis=1, keepdims=True)
    stored = Stored(
        origin=f"{path.name}",
        strings=(strings[0], strings[1]),
        index=index,
        coefficients=coefficients / norms,
        energies=energy.astype(np.float64) if energy.size == len(ci) else None,
    )
    return replace(found, expansion=stored)


def _value(value: object) -> Any:
    """Return a value that may be written as a Python literal."""
    if not isinstance(value, str):
        return value
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value


def _shells(row: IndexArray, env: FloatArray, cartesian: bool) -> list[GaussianShell]:
    """Return the contracted shells of a row of libcint's table; their coefficients are there with all normalisation."""
    l, count, contractions = int(row[MOMENTUM]), int(row[PRIMITIVES]), int(row[CONTRACTIONS])
    exponent = env[row[EXPONENTS] : row[EXPONENTS] + count]
    coefficient = env[row[COEFFICIENTS] : row[COEFFICIENTS] + count * contractions]
    components = monomials(l) if cartesian else tuple(order(l))
    # libcint: s and p functions are spherical, monomials from d on come without a factor
    factor = math.sqrt((2 * l + 1) / (4.0 * math.pi)) if cartesian and l < 2 else 1.0
    return [
        GaussianShell(int(row[ATOM]), l, exponent, c, components, np.full(len(components), factor))
        for c in coefficient.reshape(contractions, count)
    ]


def _stored(mol: dict[str, Any], symbols: tuple[str, ...]) -> StoredEcp | None:
    """Return the effective core potentials of a molecule with their names, if it has any."""
    content, names = _value(mol.get("_ecp")), _value(mol.get("ecp"))
    if not isinstance(content, dict) or not content:
        return None
    found = {}
    for symbol in dict.fromkeys(symbols):
        name = names
        if isinstance(names, dict):
            name = names.get(symbol, names.get("default"))
        if symbol in content and isinstance(name, str):
            found[symbol] = name
    return StoredEcp({"ecp": found}, {s: [content[s][0], _plain(content[s][1])] for s in found})


def _plain(parts: list[Any]) -> list[Any]:
    return [
        [int(l), [[[float(x) for x in pair[:2]] for pair in terms] for terms in by_power]]
        for l, by_power in parts
    ]

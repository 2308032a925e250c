"""Files of molecular orbitals for tests: in the layout of QMCPACK's converters, from a field of PySCF."""

import h5py
import numpy as np

# components of PySCF's Cartesian shells, in the order of QMCPACK (that of GAMESS)
GAMESS = {
    0: [""],
    1: ["x", "y", "z"],
    2: ["xx", "yy", "zz", "xy", "xz", "yz"],
    3: ["xxx", "yyy", "zzz", "xxy", "xxz", "xyy", "yyz", "xzz", "yzz", "xyz"],
}


def occupied(field):
    """Return the occupied orbitals of both spins."""
    C, n = np.asarray(field.mo_coeff), np.asarray(field.mo_occ)
    if C.ndim == 3:
        return C[0][:, n[0] > 0.5], C[1][:, n[1] > 0.5]
    return C[:, n > 0.5], C[:, n > 1.5]


def _order(mol):
    """Return PySCF's number of each function in QMCPACK's order, Cartesian."""
    found, start = [], 0
    for shell in range(mol.nbas):
        l = mol.bas_angular(shell)
        theirs = [
            "x" * i + "y" * j + "z" * (l - i - j) for i in range(l, -1, -1) for j in range(l - i, -1, -1)
        ]
        for _ in range(mol.bas_nctr(shell)):
            found += [start + theirs.index(name) for name in GAMESS[l]]
            start += len(theirs)
    return np.array(found)


def write_qmcpack(path, field, **changes):
    """Write the orbitals of a field as PyscfToQmcpack does; `changes` replace datasets, None removes one."""
    mol = field.mol
    C = np.asarray(field.mo_coeff)
    C = [C] if C.ndim == 2 else list(C)
    if mol.cart:  # every function has the norm 1
        scale = np.sqrt(mol.intor("int1e_ovlp").diagonal())
        C = [(scale[:, None] * c)[_order(mol)] for c in C]
    species = sorted({mol.atom_pure_symbol(k) for k in range(mol.natm)})
    first = {s: next(k for k in range(mol.natm) if mol.atom_pure_symbol(k) == s) for s in species}
    out = {
        "application/code": np.array([b"PySCF"]),
        "PBC/PBC": np.array([False]),
        "atoms/number_of_atoms": np.array([mol.natm], np.int32),
        "atoms/positions": mol.atom_coords(),
        "atoms/species_ids": np.array(
            [species.index(mol.atom_pure_symbol(k)) for k in range(mol.natm)], np.int32
        ),
        "parameters/NbAlpha": np.array([mol.nelec[0]], np.int32),
        "parameters/NbBeta": np.array([mol.nelec[1]], np.int32),
        "parameters/IsComplex": np.array([False]),
        "basisset/NbElements": np.array([len(species)], np.int32),
    }
    for spin, c in enumerate(C):
        out[f"Super_Twist/eigenset_{spin}"] = c.T
    for k, symbol in enumerate(species):
        atom, group = first[symbol], f"basisset/atomicBasisSet{k}"
        out[f"atoms/species_{k}/atomic_number"] = np.array(
            [mol.atom_charge(atom) + mol.atom_nelec_core(atom)], np.int32
        )
        out[f"atoms/species_{k}/charge"] = np.array([float(mol.atom_charge(atom))])
        out[f"{group}/angular"] = np.array([b"cartesian" if mol.cart else b"spherical"])
        out[f"{group}/normalized"] = np.array([b"no"])
        n = 0
        for shell in mol.atom_shell_ids(atom):
            for c in mol.bas_ctr_coeff(shell).T:
                part = f"{group}/basisGroup{n}"
                out[f"{part}/l"] = np.array([mol.bas_angular(shell)], np.int32)
                out[f"{part}/NbRadFunc"] = np.array([len(c)], np.int32)
                out[f"{part}/type"] = np.array([b"Gaussian"])
                for i, (a, x) in enumerate(zip(mol.bas_exp(shell), c, strict=True)):
                    out[f"{part}/radfunctions/DataRad{i}/exponent"] = np.array([a])
                    out[f"{part}/radfunctions/DataRad{i}/contraction"] = np.array([x])
                n += 1
        out[f"{group}/NbBasisGroups"] = np.array([n], np.int32)
    with h5py.File(path, "w") as file:
        for name, values in {**out, **changes}.items():
            if values is not None:
                file[name] = values

r"""Gaussian molecular orbitals from a self-consistent field of PySCF, and the file that keeps them.

A deck with ``source: pyscf`` runs Hartree-Fock or density functional theory when the wavefunction is built.  With ``cache`` the
orbitals and the pseudopotential of the library are kept in an HDF5 file: while it is there and belongs to the same calculation,
PySCF is not needed.  PySCF is the extra ``pyscf``; only functions of this module import it.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.core.install import install_extra
from qsim.core.results.hdf5 import open_datasets, save_datasets
from qsim.core.results.reading import reading
from qsim.core.text import shorten
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.molecules import occupation
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX, OrbitalSet, Shell, orbital_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.deck.wavefunction import Pyscf
    from qsim.qmc.system.ions import System
    from qsim.qmc.system.pseudopotentials import Ecp
    from qsim.qmc.wavefunction.formats.eshdf import StoredEcp

__all__ = ["Cache", "gaussian_orbitals", "library_ecp", "open_cache"]

KEY = "wavefunction.orbitals"
VERSION = 1
CONVERGED = 1e-11  # hartree
CYCLES = 200
DIGITS = 8  # of positions, in the identity of a calculation
UNUSED = 1e-10  # of the largest coefficient of an orbital
MOST_INSTABILITIES = 5  # that are followed
ORTHONORMAL = 1e-7
SAME_VALUE = 1e-9  # of the largest orbital value: our evaluation against PySCF's
LARGEST = 1e100  # of a number in a cache
EXPECTED = "a file of orbitals of qsim"
OTHER = "a checkpoint file of PySCF is read with source: chkfile"
REMAKE = "remove the file to make it anew"


class PyscfMissing(FileError):
    """PySCF is needed and not installed, and no file holds what it would find."""

    exit_code = 4  # as of a device that is not there


@dataclass(frozen=True)
class Cache:
    """Orbitals as they are kept in a file.

    Attributes
    ----------
    path
        The file.
    identity
        What was calculated: compared before use.
    ecp
        Effective core potentials by symbol, in PySCF's form.
    about
        Energies and versions.
    shell_atom, shell_l, shell_size : (Sh,) int64
        Of contracted shells: atom, l, number of Gaussians.
    exponent, coefficient : (sum of shell_size,) float64
        ``R_s = sum c exp(-a r^2)``.
    orbitals : (2, B, M) float64
    """

    path: Path | None
    identity: dict[str, Any]
    ecp: dict[str, Any]
    about: dict[str, Any]
    shell_atom: NDArray[np.int64]
    shell_l: NDArray[np.int64]
    shell_size: NDArray[np.int64]
    exponent: NDArray[np.float64]
    coefficient: NDArray[np.float64]
    orbitals: NDArray[np.float64]

    ARRAYS = ("shell_atom", "shell_l", "shell_size", "exponent", "coefficient", "orbitals")

    def save(self, path: Path) -> None:
        """Write the file."""
        text = json.dumps(
            {"version": VERSION, "identity": self.identity, "ecp": self.ecp, "about": self.about}
        )
        arrays: dict[str, Any] = {name: getattr(self, name) for name in self.ARRAYS}
        save_datasets(path, {**arrays, "description": np.frombuffer(text.encode(), np.uint8)})

    def orbital_set(self, centres: NDArray[np.float64]) -> OrbitalSet:
        """Return the orbitals on atoms (A, 3)."""
        ends = np.cumsum([0, *self.shell_size])
        shells = [
            Shell(int(atom), int(l), Terms.of(self.coefficient[a:b], 0, 0.0, self.exponent[a:b]))
            for atom, l, a, b in zip(self.shell_atom, self.shell_l, ends[:-1], ends[1:], strict=True)
        ]
        return orbital_set(centres, shells, self.orbitals, dict(self.about))


# --------------------------------------------------------------------------------------- cache


def open_cache(block: Pyscf, folder: Path) -> Cache | None:
    """Read the deck's cache file; None if the deck names none or it is not there yet.

    Raises
    ------
    FileError
        If it is not such a file.
    """
    if block.cache is None:
        return None
    path = folder / Path(block.cache).expanduser()
    if not path.exists():
        return None
    file, found = open_datasets(path)
    with file, reading(path, EXPECTED, hint=REMAKE):
        for name in ("description", *Cache.ARRAYS):
            if name not in found:
                hint = OTHER if "mol" in found or "scf/mo_coeff" in found else REMAKE
                raise FileError(f"{path} is not a file of orbitals of qsim: it lacks '{name}'", hint=hint)
        text = json.loads(found["description"][()].tobytes().decode())
        if not isinstance(text, dict):
            raise FileError(f"{path} is not a file of orbitals of qsim: its description is no JSON object")
        if text.get("version") != VERSION:
            raise FileError(
                f"{path} has version {shorten(repr(text.get('version')))} of the orbital format, this qsim reads {VERSION}",
                hint="remove it to make it anew",
            )
        for name in ("identity", "ecp", "about"):
            if not isinstance(text.get(name), dict):
                raise FileError(f"{path}: its description lacks the object '{name}'", hint=REMAKE)
        arrays = {key: found[key][()] for key in Cache.ARRAYS}
        cache = Cache(path, text["identity"], text["ecp"], text["about"], **arrays)
        _check_cache(path, cache)
    return cache


def _check_cache(path: Path, cache: Cache) -> None:
    """Refuse energies, pseudopotentials, shells and orbitals that cannot be used."""
    for name in ("energy", "determinant_energy"):
        if not _is_real(cache.about.get(name)):
            raise FileError(
                f"{path}: {name} is {shorten(repr(cache.about.get(name)))}; expected hartree", hint=REMAKE
            )
    if not isinstance(cache.identity.get("ecp"), dict) or not isinstance(cache.identity.get("atoms"), list):
        raise FileError(f"{path}: its identity lacks 'atoms' or 'ecp'", hint=REMAKE)
    for symbol, content in cache.ecp.items():
        with reading(
            path,
            "[core electrons, [[l, [[[exponent, coefficient], ...], ...]], ...]]",
            place=f"ecp of {symbol}",
        ):
            core, parts = content
            values = [
                v for _, by_power in _as_lists(parts) for terms in by_power for pair in terms for v in pair
            ]
            if int(core) < 0 or not all(map(_is_real, values)):
                raise ValueError("a number is negative or not finite")
    shells = len(cache.shell_size)
    whole = {
        "shell_atom": (0, len(cache.identity["atoms"]) - 1),
        "shell_l": (0, L_MAX),
        "shell_size": (1, 10_000),
    }
    for name, (low, high) in whole.items():
        array = getattr(cache, name)
        if (
            array.dtype.kind not in "iu"
            or array.shape != (shells,)
            or not np.all((array >= low) & (array <= high))
        ):
            raise FileError(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected {shells} whole numbers "
                f"from {low} to {high}",
                hint=REMAKE,
            )
    size, functions = (int(cache.shell_size.sum()),), int((2 * cache.shell_l + 1).sum())
    shapes = {"exponent": size, "coefficient": size, "orbitals": (2, functions, *cache.orbitals.shape[2:3])}
    for name, shape in shapes.items():
        array = getattr(cache, name)
        if array.dtype.kind != "f" or array.shape != shape or array.ndim != (3 if name == "orbitals" else 1):
            raise FileError(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected numbers of shape {shape}",
                hint=REMAKE,
            )
        if not np.all(np.abs(array) <= LARGEST) or (name == "exponent" and not np.all(array > 0.0)):
            raise FileError(f"{path}: {name} holds a number that is not finite or not possible", hint=REMAKE)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _identity(block: Pyscf, system: System) -> dict[str, Any]:
    """Return a summary of the calculation, in types that JSON has."""
    chosen = {"occupation": block.occupation, "guess": block.guess, "stability": block.stability}
    return {
        **{name: value for name, value in chosen.items() if value},  # files of older decks have none
        "atoms": [
            [s, *np.round(p, DIGITS).tolist()] for s, p in zip(system.symbols, system.positions, strict=True)
        ],
        "electrons": [system.n_up, system.n_dn],
        "method": block.method,
        "basis": block.basis,
        "xc": block.xc,
        "ecp": _ecp_names(block, system),
    }


def _ecp_names(block: Pyscf, system: System) -> dict[str, str]:
    """Return the library's names of the pseudopotentials for the self-consistent field, by symbol."""
    names = {}
    for symbol, potential in system.pseudopotentials.items():
        if symbol in block.ecp:
            names[symbol] = block.ecp[symbol]
        elif potential.origin.lower().endswith(".xml"):
            raise InvalidInput(
                f"{KEY}.ecp",
                f"the pseudopotential of '{symbol}' is a table; name its counterpart in PySCF's library for the self-consistent "
                f"field, for example ecp: {{{symbol}: ccecp}}",
            )
        else:
            names[symbol] = potential.origin
    return names


# --------------------------------------------------------------------------------------- PySCF


def _pyscf() -> Any:
    """Import PySCF."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyscf
            import pyscf.data.elements
            import pyscf.dft
            import pyscf.gto
            import pyscf.scf
    except ImportError as error:
        raise PyscfMissing(
            f"Gaussian orbitals and pseudopotentials by name need PySCF, which cannot be imported: {error}",
            hint=f"{install_extra('pyscf')}; or give a cache file that holds them already",
        ) from error
    return pyscf


def library_ecp(name: str, symbol: str, cache: Cache | StoredEcp | None, key: str) -> Ecp:
    """Return an effective core potential of PySCF's library, or of the cache.

    Raises
    ------
    InvalidInput
        If the library has no such potential for the element.
    PyscfMissing
        Without PySCF.
    """
    if cache is not None and cache.identity["ecp"].get(symbol) == name and symbol in cache.ecp:
        core, parts = cache.ecp[symbol]
        return int(core), parts
    pyscf = _pyscf()
    element = "".join(c for c in symbol if c.isalpha())
    try:
        found = pyscf.gto.basis.load_ecp(name, element)
    except Exception as error:  # its exceptions differ from version to version
        raise InvalidInput(
            key, f"PySCF has no pseudopotential '{name}' of {element}; use another name or an XML file"
        ) from error
    if not found:
        raise InvalidInput(
            key, f"PySCF has no pseudopotential '{name}' of {element}; use another name or an XML file"
        )
    return int(found[0]), _as_lists(found[1])


def _as_lists(parts: Any) -> list[Any]:
    return [
        [int(l), [[[float(x) for x in pair[:2]] for pair in terms] for terms in by_power]]
        for l, by_power in parts
    ]


def gaussian_orbitals(block: Pyscf, system: System, folder: Path, cache: Cache | None = None) -> OrbitalSet:
    """Return the orbitals of the deck's self-consistent field, from the cache or calculated (and then kept).

    Parameters
    ----------
    block
        The deck's ``wavefunction.orbitals``.
    system
        Ions with effective charges, electrons.
    folder
        Where relative names start.
    cache
        What `open_cache` returned.

    Returns
    -------
    OrbitalSet
        Its ``about`` has ``energy`` (of the self-consistent field), ``determinant_energy`` (expectation value of the Hamiltonian,
        which VMC without Jastrow must give) and ``summary``.

    Raises
    ------
    InvalidInput, FileError, NumericsError, PyscfMissing
        Keys that do not fit, a cache of another calculation, no convergence or an unexpected energy, no PySCF.
    """
    identity = _identity(block, system)
    if cache is None:
        cache = _calculate(system, identity)
        if block.cache is not None:
            cache.save(folder / Path(block.cache).expanduser())
    elif different := [
        key
        for key in dict.fromkeys((*identity, *cache.identity))
        if json.loads(json.dumps(identity.get(key))) != cache.identity.get(key)
    ]:
        key = different[0]
        raise FileError(
            f"{cache.path} holds the orbitals of another calculation: its {key} is {cache.identity.get(key)}, "
            f"the deck's {identity.get(key)}",
            hint="remove the file to make it anew, or name another one",
        )
    if block.energy is not None and abs(cache.about["energy"] - block.energy) > block.energy_tolerance:
        raise NumericsError(
            f"the self-consistent field gave {cache.about['energy']:.6f} hartree, the deck expects {block.energy:.6f} "
            f"within {block.energy_tolerance:g}",
            hint=f"check geometry, basis and pseudopotentials, or correct {KEY}.energy",
        )
    where = f", from {cache.path}" if cache.path is not None else ""
    basis = identity["basis"] if isinstance(identity["basis"], str) else "mixed basis"
    found = f", configuration {cache.about['configuration']}" if cache.about.get("configuration") else ""
    summary = f"{identity['method']} {basis}: {cache.about['energy']:.6f} hartree{found}{where}"
    doubts = list(cache.about.get("doubts", []))
    if identity.get("occupation"):  # the configuration is what the deck asks for
        doubts = [text for text in doubts if "occupation" not in text]
    return cache.orbital_set(system.positions).noting(summary=summary, doubts=doubts)


def _calculate(system: System, identity: dict[str, Any]) -> Cache:
    """Run the self-consistent field with PySCF; return what the cache file keeps."""
    if not identity["basis"]:
        raise InvalidInput(f"{KEY}.basis", "PySCF needs the name of a basis set, for example ccecp-ccpvtz")
    pyscf = _pyscf()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mol = _molecule(pyscf, system, identity)
        field, doubts = _field(pyscf, mol, identity, system)
        up, dn = _occupied(field, system)
        overlap = mol.intor("int1e_ovlp")
        for C in (up, dn):
            if C.size and np.abs(C.T @ overlap @ C - np.eye(C.shape[1])).max() > ORTHONORMAL:
                raise NumericsError("the orbitals of the self-consistent field are not orthonormal")
        density = (up @ up.T, dn @ dn.T)
        about = _configuration(pyscf, mol, system, (up, dn), overlap, doubts)
        hartree_fock = float(pyscf.scf.UHF(mol).energy_tot(np.array(density)))
    if abs(float(mol.energy_nuc()) - system.ion_ion) > 1e-8 * max(1.0, system.ion_ion):
        raise NumericsError(
            f"PySCF's ions repel each other with {mol.energy_nuc():.8f} hartree, those of the deck with {system.ion_ion:.8f}",
            hint="do pseudopotentials and their counterparts in PySCF have the same charge?",
        )
    orbitals = np.zeros((2, mol.nao, max(system.n_up, system.n_dn)))
    orbitals[0, :, : system.n_up] = up
    orbitals[1, :, : system.n_dn] = dn
    kept = _kept(mol, orbitals)
    cache = Cache(
        path=None,
        identity=identity,
        ecp={symbol: [int(core), _as_lists(parts)] for symbol, (core, parts) in mol._ecp.items()},
        about={
            "energy": float(field.e_tot),
            "determinant_energy": hartree_fock,
            "pyscf": str(pyscf.__version__),
            **about,
        },
        orbitals=orbitals[:, kept],
        **_shells(mol),
    )
    _compare_values(mol, cache, system)
    return cache


def _molecule(pyscf: Any, system: System, identity: dict[str, Any]) -> Any:
    """Return the PySCF molecule of a system in a basis, with its pseudopotentials as they are there."""
    basis = identity["basis"]
    charge = round(float(system.charges.sum())) - system.n_electrons
    try:
        return pyscf.gto.M(
            atom=[
                (symbol, tuple(position))
                for symbol, position in zip(system.symbols, system.positions, strict=True)
            ],
            unit="bohr",
            basis=basis,
            ecp=identity["ecp"],
            charge=charge,
            spin=system.n_up - system.n_dn,
            cart=False,
            verbose=0,
        )
    except Exception as error:  # its exceptions differ from version to version
        raise InvalidInput(
            f"{KEY}.basis", f"PySCF refuses the basis {basis}: {str(error).splitlines()[0]}"
        ) from error


def _field(pyscf: Any, mol: Any, identity: dict[str, Any], system: System) -> tuple[Any, list[str]]:
    """Return the converged self-consistent field and warnings about it."""
    method = identity["method"]
    if method in ("rhf", "rks") and mol.spin != 0:
        raise InvalidInput(
            f"{KEY}.method",
            f"{method} is for closed shells; a system of spin {mol.spin} needs u{method[1:]} or ro{method[1:]}",
        )
    if method.endswith("ks"):
        if not identity["xc"]:
            raise InvalidInput(f"{KEY}.xc", f"{method} needs a functional, for example xc: pbe")
        field = getattr(pyscf.dft, method.upper())(mol)
        field.xc = identity["xc"]
    else:
        field = getattr(pyscf.scf, method.upper())(mol)
    field.conv_tol = CONVERGED
    field.max_cycle = CYCLES
    if identity.get("guess"):
        field.init_guess = identity["guess"]
    wanted = identity.get("occupation")
    if wanted:
        _check_occupation(wanted, mol, system)
        occupation.occupy(field, mol, wanted)
    try:
        field.kernel()
        if not field.converged and not wanted:  # second-order steps converge where extrapolation swings
            field = field.newton()
            field.max_cycle = CYCLES
            field.kernel(field.mo_coeff, field.mo_occ)
    except (KeyError, ValueError) as error:
        raise InvalidInput(
            f"{KEY}.xc", f"PySCF refuses the functional '{identity['xc']}': {error}"
        ) from error
    if not field.converged:
        raise NumericsError(
            f"the self-consistent field ({method}) did not converge; its last energy is {field.e_tot:.6f} hartree",
            hint="try uhf, another guess or basis, or a better geometry",
        )
    doubts: list[str] = []
    if identity.get("stability") and not wanted:
        field, doubts = _stable(field)
    return field, doubts


def _check_occupation(wanted: dict[str, Any], mol: Any, system: System) -> None:
    """Refuse an occupation that does not fit the system."""
    key = f"{KEY}.occupation"
    if mol.natm != 1:
        raise InvalidInput(key, f"an occupation by s, p, d ... is for one atom; this system has {mol.natm}")
    largest = int(occupation.momenta(mol).max(initial=0))
    for name, pair in wanted.items():
        if occupation.MOMENTA.index(name) > largest and sum(pair):
            raise InvalidInput(key, f"the basis has no {name} functions")
    found = tuple(sum(int(pair[spin]) for pair in wanted.values()) for spin in range(2))
    if found != (system.n_up, system.n_dn):
        raise InvalidInput(
            key,
            f"the occupation has {found[0]} electrons with spin up and {found[1]} with spin down, the system {system.n_up} and "
            f"{system.n_dn}; electrons of a pseudopotential's core do not count",
        )


def _stable(field: Any) -> tuple[Any, list[str]]:
    """Follow the instabilities of a self-consistent field within its method until there are none."""
    for _ in range(MOST_INSTABILITIES):
        try:
            orbitals, _, stable, _ = field.stability(return_status=True)
        except NotImplementedError:
            return field, ["PySCF has no stability analysis of this method"]
        if stable:
            return field, []
        field.kernel(field.make_rdm1(orbitals, field.mo_occ))
        if not field.converged:
            break
    return field, [
        "the self-consistent field is not stable: there is a lower one; try another guess or method"
    ]


def _occupied(field: Any, system: System) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    C, occupation = np.asarray(field.mo_coeff), np.asarray(field.mo_occ)
    if C.ndim == 3:
        up, dn = C[0][:, occupation[0] > 0.5], C[1][:, occupation[1] > 0.5]
    else:
        up, dn = C[:, occupation > 0.5], C[:, occupation > 1.5]
    if (up.shape[1], dn.shape[1]) != (system.n_up, system.n_dn):
        raise NumericsError(
            f"the self-consistent field occupies {up.shape[1]} and {dn.shape[1]} orbitals, "
            f"the system has {system.n_up} and {system.n_dn} electrons"
        )
    return up, dn


def _kept(mol: Any, orbitals: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which atomic orbitals there is a kernel for, (B,); those of larger l must be in no occupied orbital."""
    l = occupation.momenta(mol)
    kept = np.asarray(l <= L_MAX)
    if kept.all() or np.abs(orbitals[:, ~kept]).max(initial=0.0) <= UNUSED * np.abs(orbitals).max():
        return kept
    raise InvalidInput(
        f"{KEY}.basis",
        f"basis functions up to l = {L_MAX} (g) are supported, and occupied orbitals have parts of l = {l.max()} in this basis; "
        "use a smaller one",
    )


def _configuration(
    pyscf: Any,
    mol: Any,
    system: System,
    occupied: tuple[NDArray[np.float64], NDArray[np.float64]],
    overlap: NDArray[np.float64],
    doubts: list[str],
) -> dict[str, Any]:
    """Return the electron configuration of an atom in words, and warnings about it; of molecules the warnings alone."""
    if mol.natm != 1:
        return {"doubts": doubts}
    found = occupation.configuration(*occupied, overlap, occupation.momenta(mol))
    about = {"configuration": occupation.words(found), "doubts": doubts}
    number, core = int(pyscf.gto.charge(mol.atom_pure_symbol(0))), int(mol.atom_nelec_core(0))
    if number - core == system.n_electrons and (
        usual := occupation.unusual(found, list(pyscf.data.elements.CONFIGURATION[number]), core)
    ):
        text = (
            f"the self-consistent field has the configuration {about['configuration']} (spin up + down), but {usual}; it may be "
            "an excited state: give occupation, or another guess"
        )
        about["doubts"] = [*doubts, text]
    return about


def _shells(mol: Any) -> dict[str, NDArray[Any]]:
    """Return the contracted shells in the order of PySCF's atomic orbitals."""
    atom, momentum, size, exponent, coefficient = [], [], [], [], []
    for shell in range(mol.nbas):
        l = int(mol.bas_angular(shell))
        if l > L_MAX:
            continue  # not used: see _kept
        a, c = mol.bas_exp(shell), mol._libcint_ctr_coeff(shell)
        for k in range(c.shape[1]):
            used = c[:, k] != 0.0
            atom.append(mol.bas_atom(shell))
            momentum.append(l)
            size.append(int(used.sum()))
            exponent.append(a[used])
            coefficient.append(c[used, k])
    return {
        "shell_atom": np.array(atom, np.int64),
        "shell_l": np.array(momentum, np.int64),
        "shell_size": np.array(size, np.int64),
        "exponent": np.concatenate(exponent),
        "coefficient": np.concatenate(coefficient),
    }


def _compare_values(mol: Any, cache: Cache, system: System) -> None:
    """Compare our orbitals with PySCF's at a few points: normalisation, order and signs of the atomic orbitals."""
    generator = np.random.default_rng(1)
    points = np.concatenate([p + generator.normal(size=(4, 3)) for p in system.positions])
    theirs = mol.eval_gto("GTOval_sph", points)[:, occupation.momenta(mol) <= L_MAX]
    ours = cache.orbital_set(system.positions)
    for spin in range(2):
        values = ours.rows(points, spin, exact=True)[:, 0]
        expected = theirs @ cache.orbitals[spin]
        if np.abs(values - expected).max() > SAME_VALUE * max(1.0, np.abs(expected).max()):
            raise NumericsError(
                "the imported orbitals differ from PySCF's own values",
                hint="report this with the basis and PySCF's version",
            )

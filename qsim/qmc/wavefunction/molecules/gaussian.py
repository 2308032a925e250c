r"""Gaussian molecular orbitals from a self-consistent field of PySCF.

A deck with ``source: pyscf`` runs Hartree-Fock or density functional theory when the wavefunction is built.  With ``cache`` the
orbitals and the pseudopotential of the library are kept in an HDF5 file: while it is there and belongs to the same calculation,
PySCF is not needed.  PySCF is the extra ``pyscf``; only functions of this module import it.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.core.install import install_extra
from qsim.qmc.system import library
from qsim.qmc.wavefunction.molecules import occupation
from qsim.qmc.wavefunction.molecules.active_space import complete_active_space
from qsim.qmc.wavefunction.molecules.cache import Cache, as_lists
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.deck.determinants import Determinants
    from qsim.qmc.deck.wavefunction import Pyscf
    from qsim.qmc.system.ions import System
    from qsim.qmc.system.pseudopotentials import Ecp
    from qsim.qmc.wavefunction.formats.eshdf import StoredEcp
    from qsim.qmc.wavefunction.molecules.occupation import MeanField, Mole

__all__ = ["gaussian_orbitals", "library_ecp"]

KEY = "wavefunction.orbitals"
CONVERGED = 1e-11  # hartree
CYCLES = 200
DIGITS = 8  # of positions, in the identity of a calculation
UNUSED = 1e-10  # of the largest coefficient of an orbital
MOST_INSTABILITIES = 5  # that are followed
ORTHONORMAL = 1e-7
MOST_ORBITALS = 100_000  # as a word for all
SAME_VALUE = 1e-9  # of the largest orbital value: our evaluation against PySCF's


class PyscfMissing(FileError):
    """PySCF is needed and not installed, and no file holds what it would find."""

    exit_code = 4  # as of a device that is not there


def _identity(
    block: Pyscf, system: System, determinants: Determinants | None, virtual: int | None
) -> dict[str, Any]:
    """Return a summary of the calculation, in types that JSON has."""
    # Keys that are not set are left out, so that a file made before they existed stays valid.
    chosen = {"occupation": block.occupation, "guess": block.guess, "stability": block.stability}
    wanted = {} if determinants is None else _wanted(determinants)
    if virtual is not None:
        wanted["virtual"] = min(virtual, MOST_ORBITALS)
    return {
        **{
            name: value for name, value in (chosen | wanted).items() if value
        },  # files of older decks have none
        "atoms": [
            [s, *np.round(p, DIGITS).tolist()] for s, p in zip(system.symbols, system.positions, strict=True)
        ],
        "electrons": [system.n_up, system.n_dn],
        "method": block.method,
        "basis": block.basis,
        "xc": block.xc,
        "ecp": _ecp_names(block, system),
    }


def _wanted(block: Determinants) -> dict[str, Any]:
    """Return what an expansion asks of the calculation: an active space and its states, or more orbitals than are occupied."""
    if not block.is_calculated:
        used = [o for item in block.list or [] for o in (*item.up, *item.down)]
        return {"orbitals": 1 + max(used, default=0)}
    states = max(1 + block.state, len(block.average or []))
    found = {"source": block.source, "active": block.active, "average": block.average, "states": states}
    return {"determinants": {name: value for name, value in found.items() if value is not None}}


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


def _pyscf() -> ModuleType:
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
    """Return an effective core potential of the cache, of PySCF's library, or of qsim's own.

    Raises
    ------
    InvalidInput
        If no library has such a potential for the element.
    PyscfMissing
        Without PySCF, if qsim does not carry the potential.
    """
    # The cache makes PySCF unnecessary for potentials, too.
    if cache is not None and cache.identity["ecp"].get(symbol) == name and symbol in cache.ecp:
        core, parts = cache.ecp[symbol]
        return int(core), parts
    element = "".join(c for c in symbol if c.isalpha())
    try:
        pyscf = _pyscf()
    except PyscfMissing as missing:
        return _carried(name, element, key, missing)
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
    return int(found[0]), as_lists(found[1])


def _carried(name: str, element: str, key: str, missing: PyscfMissing) -> Ecp:
    """Return a potential that qsim carries, or say that another name or PySCF is needed."""
    if (found := library.carried(name, element)) is not None:
        return found
    guess = library.similar(name)
    if guess and guess != library.NAMES.get(name.lower().replace("_", "-")):
        raise InvalidInput(
            key, f"no pseudopotential is called '{name}'; did you mean '{guess}'?"
        ) from missing
    raise PyscfMissing(
        f"{key}: the pseudopotential '{name}' of {element} needs PySCF, which cannot be imported; without it there are ccecp and "
        "bfd of H to Ar",
        hint=f"{install_extra('pyscf')}; or give an XML file: {{{element}: {element}.{name}.xml}}",
    ) from missing


def gaussian_orbitals(
    block: Pyscf,
    system: System,
    folder: Path,
    cache: Cache | None = None,
    determinants: Determinants | None = None,
    virtual: int | None = None,
) -> Cache:
    """Return the orbitals of the deck's calculation, from the cache or calculated (and then kept).

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
    determinants
        The deck's ``wavefunction.determinants``, which may want an active space.
    virtual
        How many orbitals are wanted beyond those, for an optimisation of orbitals.

    Returns
    -------
    Cache
        Its ``about`` has ``energy`` (of the self-consistent field), ``determinant_energy`` (expectation value of the Hamiltonian,
        which VMC without Jastrow must give) and ``summary``.

    Raises
    ------
    InvalidInput, FileError, NumericsError, PyscfMissing
        Keys that do not fit, a cache of another calculation, no convergence or an unexpected energy, no PySCF.
    """
    identity = _identity(block, system, determinants, virtual)
    if cache is None:
        # Compared as JSON: tuples become lists there, and nothing else changes.
        cache = _calculate(system, identity)
        if block.cache is not None:
            cache.save(folder / Path(block.cache).expanduser())
    elif different := [
        key
        for key in dict.fromkeys((*identity, *cache.identity))
        if json.loads(json.dumps(identity.get(key))) != cache.identity.get(key)
    ]:
        # The first key that differs is enough for the message.
        key = different[0]
        raise FileError(
            f"{cache.path} holds the orbitals of another calculation: its {key} is {cache.identity.get(key)}, "
            f"the deck's {identity.get(key)}",
            hint="remove the file to make it anew, or name another one",
        )
    # A number that the user expects protects against other minima of the self-consistent
    # field.
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
    remarks = list(cache.about.get("doubts", []))
    if identity.get("occupation"):  # the deck has chosen the configuration
        remarks = [text for text in remarks if "occupation" not in text]
    return replace(cache, about={**cache.about, "summary": summary, "doubts": remarks})


def _calculate(system: System, identity: dict[str, Any]) -> Cache:
    """Run the self-consistent field with PySCF; return what the cache file keeps."""
    if not identity["basis"]:
        raise InvalidInput(f"{KEY}.basis", "PySCF needs the name of a basis set, for example ccecp-ccpvtz")
    pyscf = _pyscf()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Warnings of PySCF concern its own formats.
        mol = _molecule(pyscf, system, identity)
        field, remarks = _field(pyscf, mol, identity, system)
        up, dn = _occupied(field, system)
        overlap = mol.intor("int1e_ovlp")
        for C in (up, dn):
            # Orbitals that are not orthonormal mean that PySCF has another convention than
            # this module.
            if C.size and np.abs(C.T @ overlap @ C - np.eye(C.shape[1])).max() > ORTHONORMAL:
                raise NumericsError("the orbitals of the self-consistent field are not orthonormal")
        density = (up @ up.T, dn @ dn.T)
        about = _configuration(pyscf, mol, system, (up, dn), overlap, remarks)
        # <H> of the determinant, also for orbitals of density functional theory: what VMC
        # without Jastrow factor gives.
        hartree_fock = float(pyscf.scf.UHF(mol).energy_tot(np.array(density)))
    # Both programs must speak of the same ions.
    if abs(float(mol.energy_nuc()) - system.ion_ion) > 1e-8 * max(1.0, system.ion_ion):
        raise NumericsError(
            f"PySCF's ions repel each other with {mol.energy_nuc():.8f} hartree, the deck's with {system.ion_ion:.8f}",
            hint="do pseudopotentials and their counterparts in PySCF have the same charge?",
        )
    # One array for both spins, with columns of zeros for the smaller one.
    active: dict[str, Any] = {}
    if "determinants" in identity:
        found, active = complete_active_space(
            field,
            {**identity["determinants"], "virtual": identity.get("virtual", 0)},
            (system.n_up, system.n_dn),
        )
        every, counts = (found, found), (found.shape[1],) * 2
    else:
        wanted, C = int(identity.get("orbitals", 0)), np.asarray(field.mo_coeff)
        virtual = int(identity.get("virtual", 0))
        every = (C[0], C[1]) if C.ndim == 3 else (C, C)
        if not wanted:  # those that the field occupies come first
            occupations = np.broadcast_to(field.mo_occ, (2, C.shape[-1])) > (
                [[0.5], [0.5]] if C.ndim == 3 else [[0.5], [1.5]]
            )
            first, second = (
                one[:, np.argsort(~n, kind="stable")] for one, n in zip(every, occupations, strict=True)
            )
            every = first, second
            wanted = max(up.shape[1], dn.shape[1]) if virtual else 0
        wanted += virtual
        counts = (min(max(up.shape[1], wanted), C.shape[-1]), min(max(dn.shape[1], wanted), C.shape[-1]))
    orbitals = np.zeros((2, mol.nao, max(counts)))
    for spin in range(2):
        orbitals[spin, :, : counts[spin]] = every[spin][:, : counts[spin]]
    kept = _kept(mol, orbitals)
    cache = Cache(
        path=None,
        identity=identity,
        ecp={symbol: [int(core), as_lists(parts)] for symbol, (core, parts) in mol._ecp.items()},
        about={
            "energy": float(field.e_tot),
            "determinant_energy": hartree_fock,
            "pyscf": str(pyscf.__version__),
            **about,
            **active.pop("about", {}),
        },
        orbitals=orbitals[:, kept],
        **active,
        **_shells(mol),
    )
    _compare_values(mol, cache, system)
    return cache


def _molecule(pyscf: ModuleType, system: System, identity: dict[str, Any]) -> Any:
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


def _field(pyscf: ModuleType, mol: Mole, identity: dict[str, Any], system: System) -> tuple[Any, list[str]]:
    """Return the converged self-consistent field and warnings about it."""
    method = identity["method"]
    # PySCF would go on with fractional occupations.
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
            # A given occupation is held by `occupy`, which second-order steps would leave.
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
    remarks: list[str] = []
    # An occupation that the deck gives is meant, stable or not.
    if identity.get("stability") and not wanted:
        field, remarks = _stable(field)
    return field, remarks


def _check_occupation(wanted: dict[str, Any], mol: Mole, system: System) -> None:
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


def _stable(field: MeanField) -> tuple[Any, list[str]]:
    """Follow the instabilities of a self-consistent field within its method until there are none."""
    for _ in range(MOST_INSTABILITIES):
        try:
            orbitals, _, stable, _ = field.stability(return_status=True)
        except NotImplementedError:
            return field, ["PySCF has no stability analysis of this method"]
        if stable:
            return field, []
        # The eigenvector of the instability leads to a lower field: go on from its orbitals.
        field.kernel(field.make_rdm1(orbitals, field.mo_occ))
        if not field.converged:
            break
    return field, [
        "the self-consistent field is not stable: there is a lower one; try another guess or method"
    ]


def _occupied(field: MeanField, system: System) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    C, occupation = np.asarray(field.mo_coeff), np.asarray(field.mo_occ)
    if C.ndim == 3:
        # Unrestricted orbitals: one set for each spin. Restricted open shells: occupation 2
        # is both, 1 is spin up alone.
        up, dn = C[0][:, occupation[0] > 0.5], C[1][:, occupation[1] > 0.5]
    else:
        up, dn = C[:, occupation > 0.5], C[:, occupation > 1.5]
    if (up.shape[1], dn.shape[1]) != (system.n_up, system.n_dn):
        raise NumericsError(
            f"the self-consistent field occupies {up.shape[1]} and {dn.shape[1]} orbitals, "
            f"the system has {system.n_up} and {system.n_dn} electrons"
        )
    return up, dn


def _kept(mol: Mole, orbitals: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which atomic orbitals there is a kernel for, (B,); those of larger l must be in no occupied orbital."""
    l = occupation.momenta(mol)
    kept = np.asarray(l <= L_MAX)
    # h functions of large basis sets are harmless where occupied orbitals have none of them.
    if kept.all() or np.abs(orbitals[:, ~kept]).max(initial=0.0) <= UNUSED * np.abs(orbitals).max():
        return kept
    raise InvalidInput(
        f"{KEY}.basis",
        f"basis functions up to l = {L_MAX} (g) are supported, and occupied orbitals have parts of l = {l.max()} in this basis; "
        "use a smaller one",
    )


def _configuration(
    pyscf: ModuleType,
    mol: Mole,
    system: System,
    occupied: tuple[NDArray[np.float64], NDArray[np.float64]],
    overlap: NDArray[np.float64],
    remarks: list[str],
) -> dict[str, Any]:
    """Return the electron configuration of an atom in words, and warnings about it; of molecules the warnings alone."""
    # Molecules have no configuration by angular momenta.
    if mol.natm != 1:
        return {"doubts": remarks}
    found = occupation.configuration(*occupied, overlap, occupation.momenta(mol))
    about = {"configuration": occupation.words(found), "doubts": remarks}
    number, core = int(pyscf.gto.charge(mol.atom_pure_symbol(0))), int(mol.atom_nelec_core(0))
    # Neutral atoms have a configuration that is known; ions do not.
    if number - core == system.n_electrons and (
        usual := occupation.unusual(found, list(pyscf.data.elements.CONFIGURATION[number]), core)
    ):
        text = (
            f"the self-consistent field has the configuration {about['configuration']} (spin up + down), but {usual}; it may be "
            "an excited state: give occupation, or another guess"
        )
        about["doubts"] = [*remarks, text]
    return about


def _shells(mol: Mole) -> dict[str, NDArray[Any]]:
    """Return the contracted shells in the order of PySCF's atomic orbitals."""
    atom, momentum, size, exponent, coefficient = [], [], [], [], []
    for shell in range(mol.nbas):
        l = int(mol.bas_angular(shell))
        if l > L_MAX:
            continue  # not used: see _kept
        # A shell of PySCF may hold several contractions of the same exponents: each becomes a
        # shell of its own.
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


def _compare_values(mol: Mole, cache: Cache, system: System) -> None:
    """Compare our orbitals with PySCF's at a few points: normalisation, order and signs of the atomic orbitals."""
    # Fixed points around each atom, where all functions differ from zero.
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

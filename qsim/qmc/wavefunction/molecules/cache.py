"""The file that keeps the Gaussian orbitals of a self-consistent field, and its pseudopotentials."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.hdf5 import open_datasets, save_datasets
from qsim.core.results.reading import reading
from qsim.core.text import shorten
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.formats.expansions import ActiveHamiltonian, Stored, active_strings, of_matrices
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX, OrbitalSet, Shell, chosen_orbitals, orbital_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.qmc.deck.wavefunction import Pyscf
    from qsim.qmc.wavefunction.expansion import Orders

__all__ = ["Cache", "EcpTable", "as_lists", "open_cache"]

EcpTable: TypeAlias = list[Any]
"""The terms of an effective core potential, nested lists as PySCF writes them."""

VERSION = 1
LARGEST = 1e100  # of a number in a cache
EXPECTED = "a file of orbitals of qsim"
OTHER = "a checkpoint file of PySCF is read with source: chkfile"
REMAKE = "remove the file to make it anew"


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
    ci : (states, K_up, K_dn) float64, optional
        Coefficients of the determinants of an active space.
    integrals : (M^2 + M^4,) float64, optional
        One- and two-electron integrals over its orbitals, hartree.
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
    ci: NDArray[np.float64] | None = None
    integrals: NDArray[np.float64] | None = None

    ARRAYS = ("shell_atom", "shell_l", "shell_size", "exponent", "coefficient", "orbitals")
    OPTIONAL = ("ci", "integrals")

    def save(self, path: Path) -> None:
        """Write the file."""
        text = json.dumps(
            {"version": VERSION, "identity": self.identity, "ecp": self.ecp, "about": self.about}
        )
        arrays: dict[str, Any] = {name: getattr(self, name) for name in (*self.ARRAYS, *self.OPTIONAL)}
        arrays = {name: array for name, array in arrays.items() if array is not None}
        save_datasets(path, {**arrays, "description": np.frombuffer(text.encode(), np.uint8)})

    @property
    def shared(self) -> bool:
        """Return True if orbitals of both spins are the same, as far as both have them."""
        both = self.orbitals[:, :, : min(self.counts)]
        return bool(np.array_equal(both[0], both[1]))

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of orbitals of each spin."""
        up, dn = (int(np.abs(C).max(axis=0, initial=0.0).astype(bool).sum()) for C in self.orbitals)
        return up, dn

    def stored(self) -> Stored | None:
        """Return the states of an active space, if the calculation has one."""
        if self.ci is None:
            return None
        about = self.about["active"]
        core, M = int(about["core"]), int(about["orbitals"])
        strings = [active_strings(core, M, int(n)) for n in about["electrons"]]
        index, coefficients = of_matrices(self.ci)
        integrals = self.integrals
        assert integrals is not None
        return Stored(
            origin=str(about["origin"]),
            strings=(strings[0], strings[1]),
            index=index,
            coefficients=coefficients,
            energies=np.array(about["energies"], np.float64),
            hamiltonian=ActiveHamiltonian(
                core,
                float(about["core_energy"]),
                integrals[: M * M].reshape(M, M),
                integrals[M * M :].reshape(M, M, M, M),
            ),
        )

    def orbital_set(
        self, centres: NDArray[np.float64], orders: Orders | None = None, virtual: int | None = None
    ) -> OrbitalSet:
        """Return the orbitals on atoms (A, 3): all, or those that determinants have and some more."""
        # Primitives of all shells lie in one array each of exponents and coefficients.
        ends = np.cumsum([0, *self.shell_size])
        shells = [
            Shell(int(atom), int(l), Terms.of(self.coefficient[a:b], 0, 0.0, self.exponent[a:b]))
            for atom, l, a, b in zip(self.shell_atom, self.shell_l, ends[:-1], ends[1:], strict=True)
        ]
        if orders is None:
            return orbital_set(centres, shells, self.orbitals, dict(self.about))
        every = [C[:, :count] for C, count in zip(self.orbitals, self.counts, strict=True)]
        chosen, columns = chosen_orbitals(every, orders, "wavefunction.determinants", virtual)
        return orbital_set(centres, shells, chosen, dict(self.about), columns)


def open_cache(block: Pyscf, folder: Path) -> Cache | None:
    """Read the deck's cache file; None if the deck names none or it is not there yet.

    Raises
    ------
    FileError
        If it is not such a file.
    """
    # A file that is not there yet is made; one that is there must be of this calculation.
    if block.cache is None:
        return None
    path = folder / Path(block.cache).expanduser()
    if not path.exists():
        return None
    file, found = open_datasets(path)
    with file, reading(path, EXPECTED, hint=REMAKE):
        for name in ("description", *Cache.ARRAYS):
            if name not in found:
                # A checkpoint of PySCF is a likely mistake, and has another source in the
                # deck.
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
        arrays = {key: found[key][()] for key in (*Cache.ARRAYS, *Cache.OPTIONAL) if key in found}
        cache = Cache(path, text["identity"], text["ecp"], text["about"], **arrays)
        _check_cache(path, cache)
        _check_active(path, cache)
    return cache


def _check_cache(path: Path, cache: Cache) -> None:
    """Refuse energies, pseudopotentials, shells and orbitals that cannot be used."""
    # A file may come from anywhere: every number is checked before it is used.
    for name in ("energy", "determinant_energy"):
        if not _is_real(cache.about.get(name)):
            raise FileError(
                f"{path}: {name} is {shorten(repr(cache.about.get(name)))}; expected hartree", hint=REMAKE
            )
    if not isinstance(cache.identity.get("ecp"), dict) or not isinstance(cache.identity.get("atoms"), list):
        raise FileError(f"{path}: its identity lacks 'atoms' or 'ecp'", hint=REMAKE)
    for symbol, content in cache.ecp.items():
        # The structure of PySCF's potentials, with a message that shows what is expected.
        with reading(
            path,
            "[core electrons, [[l, [[[exponent, coefficient], ...], ...]], ...]]",
            place=f"ecp of {symbol}",
        ):
            core, parts = content
            values = [
                v for _, by_power in as_lists(parts) for terms in by_power for pair in terms for v in pair
            ]
            if int(core) < 0 or not all(map(_is_real, values)):
                raise ValueError("a number is negative or not finite")
    shells = len(cache.shell_size)
    # Integers: type, shape and range.
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
        # Numbers: type, shape, finite, exponents positive.
        if array.dtype.kind != "f" or array.shape != shape or array.ndim != (3 if name == "orbitals" else 1):
            raise FileError(
                f"{path}: {name} has shape {array.shape} and type {array.dtype}; expected numbers of shape {shape}",
                hint=REMAKE,
            )
        if not np.all(np.abs(array) <= LARGEST) or (name == "exponent" and not np.all(array > 0.0)):
            raise FileError(f"{path}: {name} holds a number that is not finite or not possible", hint=REMAKE)


def _check_active(path: Path, cache: Cache) -> None:
    """Refuse an active space whose arrays do not fit together."""
    if cache.ci is None:
        return
    with reading(path, "the sizes of an active space with its coefficients and integrals", hint=REMAKE):
        about = cache.about["active"]
        M = int(about["orbitals"])
        shape = tuple(math.comb(M, int(n)) for n in about["electrons"])
        integrals = cache.integrals
        if cache.ci.ndim != 3 or cache.ci.shape[1:] != shape or len(about["energies"]) != len(cache.ci):
            raise ValueError(f"coefficients of shape {cache.ci.shape}")
        if integrals is None or integrals.shape != (M**2 + M**4,):
            raise ValueError("integrals of another number of orbitals")
        if int(about["core"]) + M > min(cache.counts):
            raise ValueError("there are fewer orbitals")
        if not all(np.isfinite(array).all() for array in (cache.ci, integrals)):
            raise ValueError("a number is not finite")


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def as_lists(parts: EcpTable) -> list[Any]:
    """Return the terms of a potential in types that JSON has."""
    return [
        [int(l), [[[float(x) for x in pair[:2]] for pair in terms] for terms in by_power]]
        for l, by_power in parts
    ]

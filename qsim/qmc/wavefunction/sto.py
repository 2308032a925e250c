r"""Slater-type orbitals, ``N r^(n-1) exp(-zeta r) Y_lm``, contracted or not, and hydrogen-like ones.

A deck lists shells.  Each shell is an orbital of its own, contracted from several Slater functions if ``n``, ``zeta`` and
``coefficients`` are lists (Clementi and Roetti's tables); or the rows of ``molecular_orbitals`` combine all of them.  Every
function is normalised: ``N = (2 zeta)^(n + 1/2) / sqrt((2n)!)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.orbitals import L_MAX, OrbitalSet, Shell, orbital_set

if TYPE_CHECKING:
    from qsim.qmc.system.ions import System

__all__ = ["hydrogen", "hydrogen_function", "norm_squared", "overlap", "slater", "slater_function"]

SHELLS = "wavefunction.orbitals.shells"
ORBITALS = "wavefunction.orbitals.molecular_orbitals"
MOST_N = 7


def slater_function(n: int, l: int, zeta: float) -> Terms:
    """Return R_s (without r^l) of one normalised Slater function."""
    norm = (2 * zeta) ** (n + 0.5) / math.sqrt(math.factorial(2 * n))
    return Terms.of(norm, n - 1 - l, zeta)


def hydrogen_function(n: int, l: int, Z: float) -> Terms:
    """Return R_s (without r^l) of the eigenfunction n, l of a hydrogen-like ion of charge Z, normalised."""
    rho = 2 * Z / n  # with a = 2l + 1: R ~ (rho r)^l exp(-rho r / 2) L_(n-l-1)^(a)(rho r)
    k = np.arange(n - l)
    laguerre = [(-1.0) ** i * math.comb(n + l, n - l - 1 - i) / math.factorial(i) for i in k]
    norm = math.sqrt(rho**3 * math.factorial(n - l - 1) / (2 * n * math.factorial(n + l)))
    return Terms.of(norm * np.array(laguerre) * rho ** (l + k), k, rho / 2)


def norm_squared(f: Terms, l: int) -> float:
    """Return the integral of ``(r^l f)^2 r^2`` of a function without Gaussian factors."""
    power = f.p[:, None] + f.p + 2 * l + 2
    rate = f.a[:, None] + f.a
    factorials = np.array([math.factorial(q) for q in range(int(power.max()) + 1)], np.float64)
    return float(f.c @ (factorials[power] / rate ** (power + 1.0)) @ f.c)


def slater(block: Any, system: System) -> OrbitalSet:
    """Build the orbitals of ``source: sto``.

    Parameters
    ----------
    block
        ``shells``: mappings or objects with ``atom`` (a symbol: all atoms of that species; or the number of an atom,
        from 0), ``n``, ``l``, ``zeta`` (numbers, or lists of one length) and ``coefficients``.  ``molecular_orbitals``: optional
        rows over all atomic orbitals - atom by atom, for each the shells in their order, for each shell its 2l + 1 components
        (x, y, z for p) - or ``{up: rows, down: rows}``.

    Raises
    ------
    InvalidInput
        Unknown atoms, impossible quantum numbers, too few orbitals for the electrons.
    """
    shells = []
    entries = list(_get(block, "shells") or [])
    if not entries:
        raise InvalidInput(SHELLS, "Slater orbitals need a list of shells, each with atom, n, l and zeta")
    for atom in range(len(system.symbols)):
        for k, entry in enumerate(entries):
            if atom in _atoms(entry, k, system):
                shells.append(Shell(atom, int(_get(entry, "l") or 0), _contracted(entry, k)))
    rows = _get(block, "molecular_orbitals")
    return _occupy(shells, rows, system)


def hydrogen(block: Any, system: System) -> OrbitalSet:
    """Build the orbitals of ``source: hydrogen``: eigenfunctions of one nucleus, in the order of their energy and of l.

    Parameters
    ----------
    block
        ``shells``: optional list of entries with n and l that replaces that order.
    """
    if len(system.symbols) != 1 or system.charges[0] <= 0.0:
        raise InvalidInput(
            "wavefunction.orbitals.source", "hydrogen orbitals need a system of exactly one atom"
        )
    entries = _get(block, "shells")
    pairs = [(n, l) for n in range(1, MOST_N + 1) for l in range(min(n, L_MAX + 1))]
    if entries:
        pairs = [(int(_get(entry, "n")), int(_get(entry, "l") or 0)) for entry in entries]
        for k, (n, l) in enumerate(pairs):
            _check_numbers(n, l, f"{SHELLS}.{k}")
    Z = float(system.charges[0])
    need = max(system.n_up, system.n_dn)
    shells: list[Shell] = []
    for n, l in pairs:
        if sum(shell.size for shell in shells) < need:
            shells.append(Shell(0, l, hydrogen_function(n, l, Z)))
    return _occupy(shells, None, system)


def _occupy(shells: list[Shell], rows: Any, system: System) -> OrbitalSet:
    size = sum(shell.size for shell in shells)
    by_spin = (_get(rows, "up"), _get(rows, "down")) if _is_pair(rows) else (rows, rows)
    counts = (system.n_up, system.n_dn)
    C = np.zeros((2, size, max(counts)))
    for spin, (given, count) in enumerate(zip(by_spin, counts, strict=True)):
        if given is None:
            matrix = np.eye(size)
        else:
            if any(len(row) != size for row in given):
                raise InvalidInput(
                    ORBITALS,
                    f"rows of {size} coefficients are wanted, one for each atomic orbital, found {[len(row) for row in given]}",
                )
            matrix = np.array(given, np.float64).reshape(-1, size)
        if len(matrix) < count:
            raise InvalidInput(
                SHELLS if given is None else ORBITALS,
                f"{count} electrons of one spin need as many orbitals, found {len(matrix)}",
            )
        C[spin, :, :count] = matrix[:count].T
    return orbital_set(system.positions, shells, C)


def _is_pair(rows: Any) -> bool:
    return rows is not None and not isinstance(rows, (list, tuple, np.ndarray))


def _get(entry: Any, name: str) -> Any:
    return entry.get(name) if isinstance(entry, dict) else getattr(entry, name, None)


def _atoms(entry: Any, k: int, system: System) -> list[int]:
    atom = _get(entry, "atom")
    if isinstance(atom, str) and atom in system.symbols:
        return [i for i, symbol in enumerate(system.symbols) if symbol == atom]
    if isinstance(atom, int) and 0 <= atom < len(system.symbols):
        return [atom]
    if atom is None and len(system.species) == 1:
        return list(range(len(system.symbols)))
    raise InvalidInput(
        f"{SHELLS}.{k}.atom",
        f"no atom '{atom}' in the system; there are {', '.join(system.species)} (or atoms 0 to {len(system.symbols) - 1})",
    )


def _check_numbers(n: int, l: int, key: str) -> None:
    if not 0 <= l < n:
        raise InvalidInput(key, f"orbitals have 0 <= l < n, found n = {n}, l = {l}")
    if l > L_MAX:
        raise InvalidInput(key, f"orbitals up to l = {L_MAX} are supported, found l = {l}")


def _contracted(entry: Any, k: int) -> Terms:
    key = f"{SHELLS}.{k}"
    zeta = _as_list(_get(entry, "zeta"))
    n = _as_list(_get(entry, "n"))
    n = n * len(zeta) if len(n) == 1 else n
    given = _get(entry, "coefficients")
    c = [1.0] * len(zeta) if given is None else _as_list(given)
    if not zeta or not len(n) == len(zeta) == len(c) or (given is None and len(zeta) > 1):
        raise InvalidInput(key, "a contracted shell needs lists of one length: n, zeta and coefficients")
    l = int(_get(entry, "l") or 0)
    f = None
    for order, exponent, coefficient in zip(n, zeta, c, strict=True):
        _check_numbers(int(order), l, key)
        if not exponent > 0.0:
            raise InvalidInput(f"{key}.zeta", f"exponents must be positive, found {exponent:g}")
        part = slater_function(int(order), l, float(exponent)) * float(coefficient)
        f = part if f is None else f + part
    assert f is not None
    size = norm_squared(f, l)
    if not size > 0.0:
        raise InvalidInput(f"{key}.coefficients", "the contracted orbital vanishes")
    return f


def _as_list(value: Any) -> list[float]:
    if value is None:
        return []
    return [float(v) for v in value] if isinstance(value, (list, tuple, np.ndarray)) else [float(value)]


def overlap(f: Terms, g: Terms, l: int) -> float:
    """Return the integral of ``r^(2l) f g r^2`` of functions without Gaussian factors."""
    return 0.5 * (norm_squared(f + g, l) - norm_squared(f, l) - norm_squared(g, l))

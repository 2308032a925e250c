r"""Slater-type orbitals, ``N r^(n-1) exp(-zeta r) Y_lm``, contracted or not, and hydrogen-like ones.

A deck lists shells.  Each shell is an orbital of its own, contracted from several Slater functions if ``n``, ``zeta`` and
``coefficients`` are lists (Clementi and Roetti's tables); or the rows of ``molecular_orbitals`` combine all of them.  Every
function is normalised: ``N = (2 zeta)^(n + 1/2) / sqrt((2n)!)``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput
from qsim.qmc.deck.wavefunction import RowsBySpin
from qsim.qmc.system.radial import Terms
from qsim.qmc.wavefunction.molecules.orbitals import L_MAX, OrbitalSet, Shell, chosen_orbitals, orbital_set

if TYPE_CHECKING:
    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.expansion import Orders

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


def slater(block: blocks.Sto, system: System, orders: Orders, virtual: int | None = None) -> OrbitalSet:
    """Build the orbitals of ``source: sto``.

    Parameters
    ----------
    block
        Its ``molecular_orbitals`` are rows over all atomic orbitals: atom by atom, for each the shells in their order, for each
        shell its 2l + 1 components (x, y, z for p).
    system, orders, virtual
        Ions and electrons, orbitals of determinants, how many more there shall be.

    Raises
    ------
    InvalidInput
        Unknown atoms, impossible quantum numbers, too few orbitals for the electrons.
    """
    shells = []
    for atom in range(len(system.symbols)):
        for k, shell in enumerate(block.shells):
            if atom in _atoms(shell, k, system):
                shells.append(Shell(atom, shell.l, _contracted(shell, k)))
    return _occupy(shells, block.molecular_orbitals, system, orders, virtual)


def hydrogen(
    block: blocks.Hydrogen, system: System, orders: Orders, virtual: int | None = None
) -> OrbitalSet:
    """Build the orbitals of ``source: hydrogen``: eigenfunctions of one nucleus, in the order of their energy and of l.

    Parameters
    ----------
    block
        Its shells, if there are any, replace that order.
    """
    if len(system.symbols) != 1 or system.charges[0] <= 0.0:
        raise InvalidInput(
            "wavefunction.orbitals.source", "hydrogen orbitals need a system of exactly one atom"
        )
    pairs = [(n, l) for n in range(1, MOST_N + 1) for l in range(min(n, L_MAX + 1))]
    if block.shells:
        pairs = [(shell.n, shell.l) for shell in block.shells]
        for k, (n, l) in enumerate(pairs):
            _check_numbers(n, l, f"{SHELLS}.{k}")
    Z = float(system.charges[0])
    need = 1 + max((o for order in orders for o in order), default=0) + (virtual or 0)
    shells: list[Shell] = []
    for n, l in pairs:
        if sum(shell.size for shell in shells) < need:
            shells.append(Shell(0, l, hydrogen_function(n, l, Z)))
    return _occupy(shells, None, system, orders, virtual)


def _occupy(
    shells: list[Shell],
    rows: blocks.RowsBySpin | list[list[float]] | None,
    system: System,
    orders: Orders,
    virtual: int | None,
) -> OrbitalSet:
    """Return the orbitals that occur in determinants, and some more; without rows, each function is an orbital."""
    size = sum(shell.size for shell in shells)
    by_spin = (rows.up, rows.down) if isinstance(rows, RowsBySpin) else (rows, rows)
    counts = (system.n_up, system.n_dn)
    matrices = []
    for given, count in zip(by_spin, counts, strict=True):
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
        matrices.append(matrix.T)
    chosen, columns = chosen_orbitals(matrices, orders, "wavefunction.determinants", virtual)
    return orbital_set(system.positions, shells, chosen, columns=columns)


def _atoms(shell: blocks.Shell, k: int, system: System) -> list[int]:
    """Return the atoms that have a shell."""
    atom = shell.atom
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


def _contracted(shell: blocks.Shell, k: int) -> Terms:
    """Return R_s of a shell, the sum of its normalised Slater functions with their coefficients."""
    key = f"{SHELLS}.{k}"
    zeta = shell.zeta if isinstance(shell.zeta, list) else [shell.zeta]
    n = shell.n if isinstance(shell.n, list) else [shell.n]
    if len(n) == 1:
        n = n * len(zeta)
    c = [1.0] * len(zeta) if shell.coefficients is None else shell.coefficients
    if not len(n) == len(zeta) == len(c) or (shell.coefficients is None and len(zeta) > 1):
        raise InvalidInput(key, "a contracted shell needs lists of one length: n, zeta and coefficients")
    for order in n:
        _check_numbers(order, shell.l, key)
    f, *others = (
        slater_function(order, shell.l, exponent) * coefficient
        for order, exponent, coefficient in zip(n, zeta, c, strict=True)
    )
    for other in others:
        f = f + other
    if not norm_squared(f, shell.l) > 0.0:
        raise InvalidInput(f"{key}.coefficients", "the contracted orbital vanishes")
    return f


def overlap(f: Terms, g: Terms, l: int) -> float:
    """Return the integral of ``r^(2l) f g r^2`` of functions without Gaussian factors."""
    return 0.5 * (norm_squared(f + g, l) - norm_squared(f, l) - norm_squared(g, l))

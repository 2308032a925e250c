"""From the deck's ``determinants`` to an `Expansion`: lists, states of calculations and files, what a cutoff leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import InvalidInput, NumericsError
from qsim.qmc.wavefunction.expansion import (
    Expansion,
    Listed,
    TooMany,
    arranged,
    configurations,
    one_determinant,
    spin_squared,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.qmc.deck.determinants import Determinant, Determinants
    from qsim.qmc.wavefunction.expansion import Orders
    from qsim.qmc.wavefunction.formats.expansions import Stored
    from qsim.qmc.wavefunction.notes import Notes

__all__ = ["lowest", "of_list", "of_states"]

KEY = "wavefunction.determinants"
PURE = 1e-3  # deviation of <S^2> from that of the state that is told


def lowest(n_up: int, n_dn: int) -> tuple[Expansion, Orders]:
    """Return a single determinant of the first orbitals."""
    return one_determinant(n_up, n_dn), (list(range(n_up)), list(range(n_dn)))


def of_list(
    block: Determinants, counts: tuple[int, int], notes: Notes, *, shared: bool
) -> tuple[Expansion, Orders]:
    """Return the determinants that the deck lists.

    Parameters
    ----------
    block
        The deck's ``determinants``.
    counts
        Electrons with spin up and down.
    notes
        Collects what is to be told.
    shared
        Whether both spins have the same orbitals.

    Raises
    ------
    InvalidInput
        For strings of the wrong length or with an orbital twice, determinants that occur twice, coefficients that vanish.
    """
    if not block.list:
        raise InvalidInput(
            f"{KEY}.list", "source: list needs the list: [{c: 0.95, up: [0, 1], down: [0, 1]}, ...]"
        )
    rows: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for k, item in enumerate(block.list):
        for name, string, count in zip(("up", "down"), (item.up, item.down), counts, strict=True):
            key = f"{KEY}.list.{k}.{name}"
            if len(string) != count:
                raise InvalidInput(
                    key, f"there are {count} electrons with spin {name}, found {len(string)} orbitals"
                )
            if len(set(string)) != count:
                raise InvalidInput(key, f"an orbital occurs twice in {string}")
        row = (tuple(sorted(item.up)), tuple(sorted(item.down)))
        if row in rows:
            raise InvalidInput(
                f"{KEY}.list.{k}", f"the same determinant as list.{rows.index(row)}; add the coefficients"
            )
        rows.append(row)
    c = _coefficients(block, block.list)
    if not np.abs(c).max() > 0.0:
        raise InvalidInput(f"{KEY}.list", "all coefficients are zero")
    kept = np.abs(c) > 0.0
    strings, numbers = [], []
    for spin in range(2):
        table, which = np.unique(np.array([row[spin] for row in rows], np.int64), axis=0, return_inverse=True)
        strings.append(table.reshape(len(table), counts[spin]))
        numbers.append(which.ravel())
    # An order that is not ascending is meant as a set: coefficients are those of ascending orbitals.
    listed = Listed((strings[0], strings[1]), np.stack(numbers, -1), c).only(kept)
    return _finished(listed, block, notes, "listed", {}, shared=shared)


def _coefficients(block: Determinants, listed: Sequence[Determinant]) -> NDArray[np.float64]:
    """Return the coefficients that a list has for the state of the block, (D,)."""
    rows = [item.c if isinstance(item.c, list) else [item.c] for item in listed]
    for k, row in enumerate(rows):
        if len(row) != len(rows[0]):
            text = f"list.0 has coefficients of {len(rows[0])} states, found {len(row)}"
            raise InvalidInput(f"{KEY}.list.{k}.c", text)
    if block.state >= len(rows[0]):
        text = (
            f"the list has coefficients of {len(rows[0])} states, counted from 0; found state {block.state}"
        )
        raise InvalidInput(f"{KEY}.list", text)
    return np.array([row[block.state] for row in rows])


def of_states(stored: Stored, block: Determinants, notes: Notes) -> tuple[Expansion, Orders]:
    """Return what the deck wants of the states of a calculation or a file.

    Parameters
    ----------
    stored
        All states.
    block
        The deck's ``determinants``.
    notes
        Collects what is to be told: what the cutoff loses.

    Raises
    ------
    InvalidInput
        If there is no such state, or nothing is left of it.
    NumericsError
        If its energy is not the one that the deck expects.
    """
    states = stored.coefficients.shape[0]
    if block.state >= states:
        raise InvalidInput(
            f"{KEY}.state", f"{stored.origin} has {states} states, from 0; found {block.state}"
        )
    energy = None if stored.energies is None else float(stored.energies[block.state])
    if (
        block.energy is not None
        and energy is not None
        and abs(energy - block.energy) > block.energy_tolerance
    ):
        raise NumericsError(
            f"{stored.origin} gives state {block.state} an energy of {energy:.6f} hartree, the deck expects {block.energy:.6f} "
            f"within {block.energy_tolerance:g}",
            hint=f"check geometry, basis and active space, or correct {KEY}.energy",
        )
    c = stored.coefficients[block.state]
    whole = Listed(stored.strings, stored.index, c)
    size = np.abs(c)
    kept = size >= block.cutoff
    numbers = configurations(whole)
    if block.csf:
        largest = np.zeros(int(numbers.max(initial=0)) + 1)
        np.maximum.at(largest, numbers, size)
        # Determinants of zero are kept out: a spin that is pure without them is pure.
        kept = (largest[numbers] >= block.cutoff) & (size > 1e-14)
    if not kept.any():
        raise InvalidInput(
            f"{KEY}.cutoff",
            f"cutoff {block.cutoff:g} leaves none of {len(c)} determinants; the largest coefficient is {size.max():.3g}",
        )
    listed = whole.only(kept)
    norm = float(listed.coefficients @ listed.coefficients / (c @ c))
    about: dict[str, float] = {"norm_kept": norm, "csfs": len(np.unique(numbers[kept]))}
    text = f"of {np.count_nonzero(size > 1e-14)} of {stored.origin} with {norm:.6f} of the norm"
    if energy is not None:
        text += f", state {block.state} of {energy:.6f} hartree"
    if stored.hamiltonian is not None:
        about["energy"] = stored.hamiltonian.expectation(stored, np.where(kept, c, 0.0))
        if energy is not None:
            about["energy_lost"] = about["energy"] - energy
            text += f"; the cutoff loses {about['energy_lost']:.2g} hartree"
    elif energy is not None and norm > 1.0 - 1e-12:
        about["energy"] = energy
    elif energy is not None:
        text += "; what the cutoff loses of the energy needs integrals, which the file lacks"
    return _finished(listed, block, notes, text, about, shared=stored.shared)


def _finished(
    listed: Listed, block: Determinants, notes: Notes, origin: str, about: dict[str, float], *, shared: bool
) -> tuple[Expansion, Orders]:
    """Return an expansion within the limits, and tell what it is."""
    D = len(listed.coefficients)
    if block.source != "list" and block.most < D:
        raise InvalidInput(
            f"{KEY}.most",
            f"{D} determinants pass the cutoff, {block.most} is the most; {_remedy(listed, block.most)}",
        )
    tied = configurations(listed) if shared and block.csf else None
    try:
        expansion, orders = arranged(listed, tied)
    except TooMany as error:
        raise InvalidInput(KEY, f"{error}; {_remedy(listed, D // 2)}") from error
    ups, dns = (len(table) for table in expansion.strings)
    text = f"{D} determinant{'s' * (D > 1)} ({ups} strings with spin up, {dns} with spin down) {origin}"
    if shared:
        about["csfs"] = about.get("csfs", len(np.unique(configurations(listed))))
        about["spin_squared"] = spin_squared(listed)
        text += f"; <S^2> = {about['spin_squared']:.6f}"
        impure = _impurity(about["spin_squared"])
        if impure > PURE:
            notes.warnings.append(
                f"the determinants are no state of one spin: <S^2> = {about['spin_squared']:.4f}"
                + (
                    "; csf: true keeps whole configurations"
                    if block.source != "list" and not block.csf
                    else ""
                )
            )
    notes.add(text)
    return replace(expansion, about={**about, "listed": listed}), orders


def _impurity(found: float) -> float:
    """Return the distance of <S^2> from S (S + 1) of the nearest S."""
    spins = 0.5 * np.arange(400)
    return float(np.abs(spins * (spins + 1.0) - found).min())


def _remedy(listed: Listed, most: int) -> str:
    """Return the cutoff that leaves so many determinants, and the norm that it keeps."""
    size = np.sort(np.abs(listed.coefficients))[::-1]
    at = max(1, min(most, len(size) - 1))
    norm = float((size[:at] ** 2).sum() / (size**2).sum())
    return f"cutoff: {size[at]:.2g} keeps {norm:.4f} of the norm"

"""The deck against physics: files of pseudopotentials, and what the tables of a trial function show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import FileError
from qsim.qmc.deck.rules import walkers_of
from qsim.qmc.system.pseudopotentials import read_xml
from qsim.qmc.system.radial import KNOTS
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.deck.series import Optimize
    from qsim.qmc.kernels.crystal.types import CrystalOrbitals
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["file_findings", "physics"]

SAMPLES_EACH = 5  # configurations of a sample for each parameter, at least: moments of fewer are singular
CHECKED = np.repeat(KNOTS[1::3], 2)  # bohr: distances from each atom where orbitals are compared
MOST_CHECKED = 20  # atoms; of larger systems the comparison would take longer than the rest
DEPENDENT = 1e-10  # smallest singular value over the largest
NOTHING_TO_OPTIMISE = (
    "the Jastrow factor has no parameters to optimise; give J1 or J2 of type bspline or pade"
)


def file_findings(deck: QmcDeck) -> Iterator[Finding]:
    """Yield files of pseudopotentials that cannot be used."""
    for symbol, value in deck.system.pseudopotentials.items():
        if isinstance(value, Path):
            try:
                read_xml(value, symbol)
            except FileError as error:
                yield Finding(f"system.pseudopotentials.{symbol}", str(error))


def physics(deck: QmcDeck, wavefunction: Wavefunction) -> Iterator[Finding]:
    """Yield what the tables of a trial function show."""
    if isinstance(wavefunction, CrystalWavefunction):
        yield from _of_bloch(wavefunction, wavefunction.orbital_tables())
    else:
        tables = wavefunction.orbital_tables()
        if not (np.isfinite(tables.table).all() and np.isfinite(tables.coefficients).all()):
            yield Finding("wavefunction.orbitals", "these orbitals are not finite in double precision")
        else:
            yield from _of_orbitals(deck, wavefunction)
    jastrow = wavefunction.jastrow_tables()
    if not all(np.isfinite(values).all() for values in (jastrow.spline, jastrow.inverse_h, jastrow.pade)):
        yield Finding("wavefunction.jastrow", "these Jastrow functions are not finite in double precision")
    for k, (item, walkers) in enumerate(zip(deck.series, walkers_of(deck), strict=True)):
        if item.optimize is not None:
            yield from _of_parameters(wavefunction, item.optimize, walkers, f"series.{k}.optimize")


def _of_parameters(wavefunction: Wavefunction, block: Optimize, walkers: int, key: str) -> Iterator[Finding]:
    """Yield an optimisation without parameters, or with more of them than a sample can tell apart."""
    sizes = {
        "jastrow": wavefunction.jastrow.parameters.size,
        "coefficients": wavefunction.expansion.parameters.size,
    }
    if wavefunction.mixing is not None:
        sizes["orbitals"] = wavefunction.mixing.chosen(
            wavefunction.expansion,
            coefficients="coefficients" in block.parameters,
            virtual=block.virtual,
            symmetry=block.symmetry,
        ).size
    count = sum(sizes[name] for name in block.parameters)
    if block.parameters == ["jastrow"] and not count:
        yield Finding(key, NOTHING_TO_OPTIMISE)
    elif not count:
        yield Finding(
            f"{key}.parameters", f"there is nothing to optimise among {', '.join(block.parameters)}"
        )
    elif count * SAMPLES_EACH > walkers * block.steps:
        less = (
            f"a smaller {key}.virtual"
            if "orbitals" in block.parameters
            else "a larger wavefunction.determinants.cutoff"
        )
        yield Finding(
            f"{key}.steps",
            f"{count} parameters need {count * SAMPLES_EACH} configurations, found {walkers * block.steps}; more walkers or "
            f"steps, or {less}, help",
        )


def _of_bloch(wavefunction: CrystalWavefunction, tables: CrystalOrbitals) -> Iterator[Finding]:
    """Yield splines that are not finite, and Bloch orbitals whose determinant vanishes everywhere."""
    if not np.isfinite(tables.table).all():
        yield Finding("wavefunction.orbitals", "these orbitals are not finite in double precision")
        return
    points = np.random.default_rng(0).random((8 * wavefunction.n_electrons + 32, 3))
    places = points @ np.linalg.inv(tables.unreduce)
    for word, spin, count in (("up", 0, wavefunction.n_up), ("down", 1, wavefunction.n_dn)):
        if count and _dependent(wavefunction.orbitals.rows(places, spin)[:, 0, :count]):
            text = f"the occupied orbitals of spin {word} are linearly dependent: their determinant is zero"
            yield Finding("wavefunction.orbitals", text)


def _of_orbitals(deck: QmcDeck, wavefunction: Wavefunction) -> Iterator[Finding]:
    """Yield orbitals whose determinant vanishes everywhere, and those that nobody asked to be occupied."""
    source, orbitals = deck.wavefunction.orbitals, wavefunction.orbitals
    counts = (wavefunction.n_up, wavefunction.n_dn)
    if len(orbitals.centres) <= MOST_CHECKED:
        rng = np.random.default_rng(
            0
        )  # all distances and some directions around each atom: compact orbitals too
        directions = rng.standard_normal((len(CHECKED), len(orbitals.centres), 3))
        directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
        points = (orbitals.centres + CHECKED[:, None, None] * directions).reshape(-1, 3)
        for word, spin in (("up", 0), ("down", 1)):
            if counts[spin] and _dependent(orbitals.rows(points, spin)[:, 0, : counts[spin]]):
                text = (
                    f"the occupied orbitals of spin {word} are linearly dependent: their determinant is zero"
                )
                yield Finding("wavefunction.orbitals", text)
    given = source.source == "sto" and source.molecular_orbitals is None
    if given and len(orbitals.centres) > 1 and orbitals.size > max(counts):
        text = (
            f"{orbitals.size} orbitals are given for {counts[0]} and {counts[1]} electrons of spin up and down, which take the "
            "first ones, atom by atom; molecular_orbitals combines them"
        )
        yield Finding("wavefunction.orbitals.shells", text, "warning")


def _dependent(values: NDArray[np.float64]) -> bool:
    """Return True if orbitals, by their values (points, orbitals), are linearly dependent."""
    size = np.linalg.norm(values, axis=0)
    if not size.all():
        return True
    found = np.linalg.svd(values / size, compute_uv=False)
    return bool(found[-1] < DEPENDENT * found[0])

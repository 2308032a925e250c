"""From the deck to a problem: trial function, sections of the run, random key, sizes and memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import FileError, InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.qmc.deck import rules as checks
from qsim.qmc.problem import Part, Problem
from qsim.qmc.system.ions import build_system
from qsim.qmc.system.radial import KNOTS
from qsim.qmc.wavefunction import trial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

COMPARED = 4  # sets of configurations that an optimisation keeps, as in optimise.py
LEVELS = 20  # of sums over blocks of blocks that an estimator keeps, at most
CHECKED = np.repeat(KNOTS[1::3], 2)  # bohr: distances from each atom where orbitals are compared
MOST_CHECKED = 20  # atoms; of larger systems the comparison would take longer than the rest
DEPENDENT = 1e-10  # smallest singular value over the largest
NOTHING_TO_OPTIMISE = (
    "the Jastrow factor has no parameters to optimise; give J1 or J2 of type bspline or pade"
)


def parts_of(deck: QmcDeck) -> list[Part]:
    """Return what a deck runs, one after the other."""
    parts = []
    for index, (item, walkers) in enumerate(zip(deck.series, checks.walkers_of(deck), strict=True)):
        block = item.block.model_copy(update={"walkers": walkers})
        steps = block.timesteps if item.dmc is not None else [None]
        parts += [Part(index, item.kind, block, tau, k) for k, tau in enumerate(steps)]
    return parts


# ------------------------------------------------------------------------------------------ wavefunction


def _folder(loaded: LoadedDeck[QmcDeck]) -> Path:
    return loaded.path.parent.absolute()


def _system_block(deck: QmcDeck) -> Any:
    """Return the system with files that do not depend on the current folder."""
    block = deck.system
    potentials = {
        symbol: str(value.absolute()) if isinstance(value, Path) else value
        for symbol, value in block.pseudopotentials.items()
    }
    return SimpleNamespace(**{**dict(block), "pseudopotentials": potentials})


def _wavefunction(loaded: LoadedDeck[QmcDeck], notes: trial.Notes | None = None) -> Wavefunction:
    deck = loaded.deck
    return trial.build_wavefunction(
        _system_block(deck),
        deck.wavefunction.orbitals,
        deck.wavefunction.jastrow,
        folder=_folder(loaded),
        quadrature=deck.system.quadrature,
        notes=notes,
    )


def _is_costly(loaded: LoadedDeck[QmcDeck]) -> bool:
    """Tell whether building the trial function means a self-consistent field, which no file holds yet."""
    orbitals = loaded.deck.wavefunction.orbitals
    if orbitals.source != "pyscf":
        return False
    return orbitals.cache is None or not (_folder(loaded) / Path(orbitals.cache).expanduser()).exists()


# -------------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[QmcDeck]) -> Plan:
    """Estimate sizes and memory, and check the physics; no walker is placed and no self-consistent field is run."""
    findings = list(_pseudopotentials(loaded))
    if findings:
        return Plan(findings=findings)
    try:
        with np.errstate(all="ignore"):  # extreme numbers of a deck are told below
            if _is_costly(loaded):
                system, wavefunction = _system(loaded), None
            else:
                wavefunction = _wavefunction(loaded)
                system = wavefunction.system
                findings += _of_numbers(loaded.deck, wavefunction)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        text = f"these orbitals and Jastrow functions cannot be tabulated: {error}"
        return Plan(findings=[Finding("wavefunction", text)])
    sizes, memory, steps = _estimate(loaded.deck, system, wavefunction)
    return Plan(memory=memory, sizes=sizes, steps=steps, findings=findings)


def _pseudopotentials(loaded: LoadedDeck[QmcDeck]) -> Iterable[Finding]:
    """Yield files of pseudopotentials that cannot be used."""
    from qsim.qmc.system.pseudopotentials import read_xml

    for symbol, value in loaded.deck.system.pseudopotentials.items():
        if isinstance(value, Path):
            try:
                read_xml(value, symbol)
            except FileError as error:
                yield Finding(f"system.pseudopotentials.{symbol}", str(error))


def _system(loaded: LoadedDeck[QmcDeck]) -> System:
    """Return ions and electrons alone."""
    block = _system_block(loaded.deck)
    return build_system(block, trial._pseudopotentials(block, _folder(loaded), None))


def _of_numbers(deck: QmcDeck, wavefunction: Wavefunction) -> Iterable[Finding]:
    """Yield what the tables of a trial function show."""
    tables = wavefunction.orbital_tables()
    if not (np.isfinite(tables.table).all() and np.isfinite(tables.coefficients).all()):
        yield Finding("wavefunction.orbitals", "these orbitals are not finite in double precision")
    else:
        yield from _of_orbitals(deck, wavefunction)
    jastrow = wavefunction.jastrow_tables()
    if not all(np.isfinite(values).all() for values in (jastrow.spline, jastrow.inverse_h, jastrow.pade)):
        yield Finding("wavefunction.jastrow", "these Jastrow functions are not finite in double precision")
    if wavefunction.parameters.size == 0:
        for k, item in enumerate(deck.series):
            if item.optimize is not None:
                yield Finding(f"series.{k}.optimize", NOTHING_TO_OPTIMISE)


def _of_orbitals(deck: QmcDeck, wavefunction: Wavefunction) -> Iterable[Finding]:
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
    """Tell whether orbitals, by their values (points, orbitals), are linearly dependent."""
    size = np.linalg.norm(values, axis=0)
    if not size.all():
        return True
    found = np.linalg.svd(values / size, compute_uv=False)
    return bool(found[-1] < DEPENDENT * found[0])


def _estimate(
    deck: QmcDeck, system: System, wavefunction: Wavefunction | None
) -> tuple[dict[str, int | float | str], Memory, int]:
    parts = parts_of(deck)
    N = system.n_electrons
    walkers = max(part.block.walkers for part in parts)
    parameters = 0 if wavefunction is None else int(wavefunction.parameters.size)
    memory = _walker_memory(deck, system, parameters)
    cells = sum(_cells(name, block, system) for name, block in deck.requests())
    longest = max((part.block.blocks for part in parts if part.kind != "optimize"), default=1)
    memory["estimators"] = cells * 8 * (2 + 4 * min(LEVELS, int(longest).bit_length()))
    if wavefunction is not None:
        memory["tables"] = int(
            sum(array.nbytes for array in wavefunction.orbital_tables() if hasattr(array, "nbytes"))
        )
    sizes: dict[str, int | float | str] = {
        "electrons": N,
        "spin up, down": f"{system.n_up}, {system.n_dn}",
        "atoms": len(deck.system.atoms),
        "walkers": walkers,
    }
    if wavefunction is not None:
        sizes["Jastrow parameters"] = parameters
    on_host = memory["walkers kept for resuming"] + memory["estimators"]
    steps = sum(part.block.iterations + 1 if part.kind == "optimize" else part.block.blocks for part in parts)
    sizes["walkers x generations"] = float(
        sum(part.block.walkers * part.block.steps * getattr(part.block, "blocks", 1.0) for part in parts)
    )
    largest = "estimators" if memory["estimators"] > memory["walkers"] else "walkers"
    k = max(range(len(parts)), key=lambda i: parts[i].block.walkers)
    reduce = "estimators" if largest == "estimators" else f"series.{parts[k].section}.{parts[k].kind}.walkers"
    whole = sum(memory.values())
    return sizes, Memory(host=on_host, device=whole - on_host, parts=memory, reduce=reduce), steps


def _walker_memory(deck: QmcDeck, system: System, parameters: int) -> dict[str, int]:
    """Return the bytes of walkers, of those kept for resuming, and of what a section needs besides, where they are most."""
    parts = parts_of(deck)
    real = 4 if deck.run.precision == "mixed" else 8
    N, M = system.n_electrons, max(system.n_up, system.n_dn, 1)
    # positions, energies, and six single numbers; rows and inverses
    state = 8 * (3 * N + 6 + 8) + real * (5 * N * M + 2 * M * M)
    kept, most = 0, {"walkers": 0, "walkers kept for resuming": 0, "work space": 0}
    for part in parts:
        count = int(part.block.walkers)
        need = {
            "walkers": count * state,
            "walkers kept for resuming": kept,
            "work space": count * _work_space(part, state, N, parameters),
        }
        if sum(need.values()) > sum(most.values()):
            most = need
        kept += count * state  # the walkers of a finished section stay
    return most


def _work_space(part: Part, state: int, N: int, parameters: int) -> int:
    """Return the bytes per walker that a section needs beside the walkers themselves."""
    if part.kind == "vmc":
        return 8 * 9  # sums of the energies, errors of the inverses
    if part.kind == "dmc":
        return state + 8 * 6  # branching makes a copy; integer weights, indices
    steps, sets = int(part.block.steps), min(COMPARED, int(part.block.steps))
    # of every sample: derivatives, products of them, energies; then statistics; then trial steps on copies
    sampling, statistics = 7 * parameters + 6 + steps, 7 * steps
    comparison = state // 8 + 12 * sets
    return 8 * (sets * (3 * N + 2) + max(sampling, statistics, comparison))


def _cells(name: str, block: dict[str, Any], system: System) -> int:
    """Return the numbers that an estimator keeps."""
    if name == "gofr":
        return 3 * int(block["bins"])
    if name == "radial_density":
        return 2 * int(block["bins"]) * len(system.symbols)
    x, y, z = block["mesh"]
    return 2 * int(x) * int(y) * int(z)


# ------------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[QmcDeck], device: Device) -> Problem:
    """Set up the trial function; the walkers are placed when the run begins."""
    deck = loaded.deck
    notes = trial.Notes()
    try:
        wavefunction = _wavefunction(loaded, notes)
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        raise NumericsError(str(error)) from error  # raise_for has raised already
    loaded.raise_for(_of_numbers(deck, wavefunction))
    seed = deck.run.seed
    key = key_from_seed(0 if seed is None else seed)
    return Problem(deck, device, wavefunction, key, parts_of(deck), notes.lines, notes.warnings)

"""From the deck to a problem: trial function, sections of the run, random key, sizes and memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.qmc import checks
from qsim.qmc.deck.rules import walkers_of
from qsim.qmc.problem import Part, Problem
from qsim.qmc.system.ions import build_system
from qsim.qmc.wavefunction import trial

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

COMPARED = 4  # sets of configurations that an optimisation keeps, as in optimise.py
LEVELS = 20  # of sums over blocks of blocks that an estimator keeps, at most


def parts_of(deck: QmcDeck) -> list[Part]:
    """Return what a deck runs, one after the other."""
    parts = []
    for index, (item, walkers) in enumerate(zip(deck.series, walkers_of(deck), strict=True)):
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
    findings = list(checks.of_files(loaded.deck))
    if findings:
        return Plan(findings=findings)
    try:
        with np.errstate(all="ignore"):  # extreme numbers of a deck are told below
            if _is_costly(loaded):
                system, wavefunction = _system(loaded), None
            else:
                wavefunction = _wavefunction(loaded)
                system = wavefunction.system
                findings += checks.of_wavefunction(loaded.deck, wavefunction)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        text = f"these orbitals and Jastrow functions cannot be tabulated: {error}"
        return Plan(findings=[Finding("wavefunction", text)])
    sizes, memory, steps = _estimate(loaded.deck, system, wavefunction)
    return Plan(
        memory=memory, sizes=sizes, steps=steps, findings=findings, work=_work(parts_of(loaded.deck), system)
    )


def _work(parts: list[Part], system: System) -> Work:
    """Return the least work: moves of single electrons, each with its Jastrow factors, orbitals, and a row of the inverse."""
    N, M = system.n_electrons, max(system.n_up, system.n_dn)
    moves = [_generations(part) * part.block.walkers * N for part in parts]
    most = parts[moves.index(max(moves))]
    return Work(
        flops=sum(moves) * (40.0 * N + 4.0 * M * M),
        reduce=f"series.{most.section}.{most.kind}.{'iterations' if most.kind == 'optimize' else 'blocks'}",
    )


def _generations(part: Part) -> float:
    """Return how often a section moves all electrons."""
    rounds = part.block.iterations + 1 if part.kind == "optimize" else part.block.blocks
    return float(part.block.steps) * rounds


def _system(loaded: LoadedDeck[QmcDeck]) -> System:
    """Return ions and electrons alone."""
    block = _system_block(loaded.deck)
    return build_system(block, trial._pseudopotentials(block, _folder(loaded), None))


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
    loaded.raise_for(checks.of_wavefunction(deck, wavefunction))
    seed = deck.run.seed
    key = key_from_seed(0 if seed is None else seed)
    return Problem(deck, device, wavefunction, key, parts_of(deck), notes.lines, notes.warnings)

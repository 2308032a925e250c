"""From the deck to a problem: trial function, parts of the run, random key, sizes and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.device.hardware import free_host_memory
from qsim.core.device.rng import key_from_seed
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan, Size
from qsim.qmc import checks
from qsim.qmc.deck.rules import walkers_of
from qsim.qmc.deck.series import MAX_VIRTUAL, Dmc, Vmc
from qsim.qmc.deck.wavefunction import Eshdf, Imported, Pyscf
from qsim.qmc.kernels.crystal.types import scratch_of
from qsim.qmc.problem import Part, Problem
from qsim.qmc.system.ions import build_system
from qsim.qmc.system.twists import twists_of
from qsim.qmc.wavefunction import trial
from qsim.qmc.wavefunction.crystals.wavefunction import CrystalWavefunction

if TYPE_CHECKING:
    from collections.abc import Callable

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.qmc.deck import wavefunction as blocks
    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.system.ions import System
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

COMPARED = 4  # sets of configurations that an optimisation keeps, as in optimise.py
# Moves of electrons from which a GPU is faster than its host (docs/howto/devices.md): h2o_ccecp with 8e5 is a draw, helium with
# 3e7 a little faster; hydrogen_bcc with 6e5 takes 0.4 of the time.
GPU_MOVES, GPU_MOVES_CELL = 3e6, 2e5
PAIR, QUADRATURE = (
    12,
    12,
)  # numbers of an electron within the range of an ion, as in molecules.cuh; usual directions around it
LEVELS = 20  # of sums over blocks of blocks that an estimator keeps, at most


def parts_of(deck: QmcDeck) -> list[Part]:
    """Return the parts of a run in their order: sections, those of diffusion once for each time step."""
    parts = []
    for index, (item, walkers) in enumerate(zip(deck.series, walkers_of(deck), strict=True)):
        block = item.block
        steps = block.timesteps if isinstance(block, Dmc) else [block.timestep]
        # Of a step that is sought nothing is known yet.
        taus = [0.0 if tau == "auto" else tau for tau in steps]
        parts += [Part(index, block, walkers, tau, k) for k, tau in enumerate(taus)]
    return parts


# ------------------------------------------------------------------------------------------ wavefunction


@dataclass(frozen=True)
class TrialFunction:
    """The trial function of a deck in a folder, which plan and build both need: ``loaded.once(TrialFunction(folder))``."""

    folder: Path
    member: int = 0

    def __call__(self, deck: QmcDeck) -> tuple[Wavefunction, trial.Notes]:
        """Return the trial function, of a twist or state, and what the deck left open."""
        notes = trial.Notes()
        block = _wavefunction_block(deck)
        if deck.states is not None and block.determinants is not None:
            one = block.determinants.of(deck.states.roots[self.member], deck.states.roots)
            block = block.model_copy(update={"determinants": one})
        wavefunction = trial.build_wavefunction(
            _system_block(deck),
            block,
            folder=self.folder,
            notes=notes,
            coulomb=deck.coulomb,
            twist=self.member,
            virtual=_virtual(deck),
        )
        return wavefunction, notes

    def is_costly(self, deck: QmcDeck) -> bool:
        """Return True if building the trial function needs a self-consistent field, which no file holds yet."""
        orbitals = deck.wavefunction.orbitals
        if not isinstance(orbitals, Pyscf):
            return False
        return orbitals.cache is None or not (self.folder / Path(orbitals.cache).expanduser()).exists()


def _members(deck: QmcDeck) -> int:
    """Return the number of twists or states, for each of which all sections are run."""
    return len(twists_of(deck.system)) if deck.states is None else len(deck.states.roots)


def _virtual(deck: QmcDeck) -> int | None:
    """Return how many orbitals beyond those of determinants the optimisations of a deck want; None if they change none."""
    counts = [
        MAX_VIRTUAL if item.optimize.virtual is None else item.optimize.virtual
        for item in deck.series
        if item.optimize is not None and "orbitals" in item.optimize.parameters
    ]
    return max(counts, default=None)


def _folder(loaded: LoadedDeck[QmcDeck]) -> Path:
    return loaded.path.parent.absolute()


def _system_block(deck: QmcDeck) -> blocks.System:
    """Return the system with files that do not depend on the current folder."""
    block = deck.system
    potentials = {
        # The run may change its folder; names of the deck are relative to the folder of the
        # deck.
        symbol: value.absolute() if isinstance(value, Path) else value
        for symbol, value in block.pseudopotentials.items()
    }
    return block.model_copy(update={"pseudopotentials": potentials})


def _wavefunction_block(deck: QmcDeck) -> blocks.Wavefunction:
    """Return the wavefunction with a file of orbitals that does not depend on the current folder."""
    block = deck.wavefunction
    if not isinstance(block.orbitals, Eshdf | Imported):
        return block
    orbitals = block.orbitals.model_copy(update={"file": block.orbitals.file.absolute()})
    return block.model_copy(update={"orbitals": orbitals})


# -------------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[QmcDeck]) -> Plan:
    """Estimate sizes and memory, and check the physics; no walker is placed and no self-consistent field is run."""
    # Files first: without them nothing else can be checked.
    findings = list(checks.file_findings(loaded.deck))
    if findings:
        return Plan(findings=findings)
    try:
        with np.errstate(all="ignore"):  # extreme numbers of a deck are reported below
            function = TrialFunction(_folder(loaded))
            wavefunction: Wavefunction | None = None
            # A plan never runs a self-consistent field; sizes follow from ions and electrons
            # alone.
            if function.is_costly(loaded.deck):
                system = _system(loaded)
            else:
                wavefunction, notes = loaded.once(function)
                findings += _warnings_of(notes)
                for k in range(1, _members(loaded.deck)):
                    loaded.once(TrialFunction(_folder(loaded), k))
                system = wavefunction.system
                # The checks evaluate splines, which are made then.
                if _fits_host(wavefunction):  # else it is refused for want of memory
                    findings += checks.physics(loaded.deck, wavefunction)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        text = f"these orbitals and Jastrow functions cannot be tabulated: {error}"
        return Plan(findings=[Finding("wavefunction", text)])
    sizes, memory, steps = _estimate(loaded.deck, system, wavefunction)
    operations, reduce = _operations(loaded.deck, system)
    return Plan(
        memory=memory,
        sizes=sizes,
        steps=steps,
        findings=findings,
        size=_size(loaded.deck, system),
        operations=operations,
        reduce=reduce,
        ranks=min(part.walkers for part in parts_of(loaded.deck)),
        shared="walkers",
    )


def _fits_host(wavefunction: Wavefunction) -> bool:
    """Tell whether the splines of a crystal can be made in the memory that is free."""
    # Unknown memory counts as enough.
    free = free_host_memory()
    if not isinstance(wavefunction, CrystalWavefunction) or not free:
        return True
    return wavefunction.orbitals.table_bytes < free


def _size(deck: QmcDeck, system: System) -> Size:
    """Return the moves of single electrons: a cell needs few of them to keep a GPU busy, as each sums over images or splines."""
    moves = sum(part.generations * part.walkers for part in parts_of(deck)) * system.n_electrons
    moves *= _members(deck) if deck.states is not None else 1
    enough = GPU_MOVES if deck.system.cell == "open" else GPU_MOVES_CELL
    return Size(moves, "moves of electrons", math.inf if _of_host(deck) else enough)


def _of_host(deck: QmcDeck) -> list[str]:
    """Return the keys of a deck that have kernels for CPUs alone."""
    return [f"estimators.{k}" for k, item in enumerate(deck.estimators) if "forces" in item.named()]


def _operations(deck: QmcDeck, system: System) -> tuple[float, str]:
    """Return the least operations of all moves, and the key of most of them.

    Of a move: Jastrow functions of all partners, twice, and the Sherman-Morrison update of a row of the inverse.
    """
    parts, N, M = parts_of(deck), system.n_electrons, max(system.n_up, system.n_dn)
    moves = [part.generations * part.walkers * N for part in parts]
    most = parts[moves.index(max(moves))]
    key = f"series.{most.section}.{most.kind}.{'iterations' if most.kind == 'optimize' else 'blocks'}"
    return sum(moves) * (40.0 * N + 4.0 * M * M), key


def _system(loaded: LoadedDeck[QmcDeck]) -> System:
    """Return ions and electrons alone."""
    block = _system_block(loaded.deck)
    return build_system(block, trial.pseudopotentials_of(block, _folder(loaded), None))


def _estimate(
    deck: QmcDeck, system: System, wavefunction: Wavefunction | None
) -> tuple[dict[str, int | float | str], Memory, int]:
    """Return sizes, memory and steps of a run; the trial function is None where it would cost a self-consistent field."""
    parts = parts_of(deck)
    parameters = 0 if wavefunction is None else int(wavefunction.parameters.size)
    # Complex numbers take twice the memory.
    crystal = wavefunction if isinstance(wavefunction, CrystalWavefunction) else None
    parts_of_numbers = 2 if crystal is not None and not crystal.orbitals.real else 1
    memory = _walker_memory(deck, system, parameters, parts_of_numbers)
    if deck.states is not None:  # the walkers of all states are there at a time
        for name in ("walkers", "walkers kept for resuming"):
            memory[name] *= _members(deck)
    cells = sum(block.cells(len(system.symbols)) for block in deck.measured())
    longest = max((part.blocks for part in parts), default=1)
    # The histogram, its copy on the host, and four arrays for each level of blocks.
    memory["estimators"] = cells * 8 * (2 + 4 * min(LEVELS, longest.bit_length()))
    walkers = max(part.walkers for part in parts)
    sizes: dict[str, int | float | str] = {
        "electrons": system.n_electrons,
        "spin up, down": f"{system.n_up}, {system.n_dn}",
        "atoms": sum(bool(symbol) for symbol in system.symbols),
        "walkers": walkers,
    }
    host_tables = on_gpu_host = 0
    if crystal is not None:
        # Splines are by far the largest table of a crystal.
        double = crystal.orbitals.table_bytes
        single = deck.run.precision == "mixed"
        memory["tables"] = double // 2 if single else double
        # splines are made in double precision, and kept so beside those that kernels read where these are others
        host_tables, on_gpu_host = (double, 0) if single else (0, double)
        sizes["parameters"] = parameters
    elif wavefunction is not None:
        memory["tables"] = int(
            sum(array.nbytes for array in wavefunction.orbital_tables() if hasattr(array, "nbytes"))
        )
        sizes["parameters"] = parameters
    sizes["walkers x generations"] = float(
        sum(part.walkers * part.block.steps * part.blocks for part in parts)
    )
    on_host = memory["walkers kept for resuming"] + memory["estimators"]
    if host_tables:
        memory["tables in double precision"] = host_tables
        on_host += host_tables
    # The key of the deck that a user should lower if memory is short.
    most = max(parts, key=lambda part: part.walkers)
    reduce = f"series.{most.section}.{most.kind}.walkers"
    if memory["estimators"] > memory["walkers"]:
        reduce = "estimators"
    on_device = sum(memory.values()) - on_host
    steps = sum(part.reports for part in parts)
    directions = QUADRATURE if wavefunction is None else len(wavefunction.rule.points)
    # Scratch exists on a GPU alone.
    scratch = 8 * _scratch(system, directions, crystal) * walkers
    fits = None
    # Fewer walkers would not help here.
    if crystal is not None and memory["tables"] > memory["walkers"] + scratch:
        reduce, fits = "wavefunction.orbitals.meshfactor", _smaller_tables(deck, crystal)
    made = Memory(
        host=on_host,
        device=on_device,
        parts=memory,
        reduce=reduce,
        on_gpu=scratch,
        on_gpu_host=on_gpu_host,
        fits=fits,
    )
    return sizes, made, steps


def _smaller_tables(deck: QmcDeck, crystal: CrystalWavefunction) -> Callable[[int], str]:
    """Return what names the ways to smaller splines than those of this deck."""
    ways = []
    if deck.run.precision != "mixed":
        ways.append("run.precision: mixed has splines of half the size")
    if crystal.shares.get("cell", 1) == 1 and len(crystal.system.symbols) > 1:
        ways.append("bands of a primitive cell with system.tilematrix store that cell alone")
    if crystal.orbitals.tins is None:
        ways.append("wavefunction.orbitals.muffin_tins take a tenth")
    return lambda free: "; ".join(ways)


def _scratch(system: System, directions: int, crystal: CrystalWavefunction | None) -> int:
    """Return the numbers of scratch per walker on a GPU: pairs of electrons and ions, or two Slater matrices."""
    if crystal is not None:
        # The same numbers as in the launches: memory that a plan promises is memory that a
        # run takes.
        M = max(system.n_up, system.n_dn, 1)
        return scratch_of(system.n_electrons, crystal.hamiltonian_tables(), M, not crystal.orbitals.real)
    pairs = system.n_electrons * len(system.positions) * (PAIR + directions)
    return max(pairs, 2 * max(system.n_up, system.n_dn, 1) ** 2)


def _walker_memory(deck: QmcDeck, system: System, parameters: int, parts_of_numbers: int) -> dict[str, int]:
    """Return the bytes of walkers, of those kept for resuming, and of what a section needs besides, where they are most."""
    parts = parts_of(deck)
    real = parts_of_numbers * (4 if deck.run.precision == "mixed" else 8)  # 2 parts: complex
    N = system.n_electrons
    M = max(system.n_up, system.n_dn, 1)
    # positions, energies, and six single numbers; rows and inverses
    # The most that sections need at a time, together with the ends of the sections before.
    state = 8 * (3 * N + 6 + 8) + real * (5 * N * M + 2 * M * M)
    kept = 0
    most = {"walkers": 0, "walkers kept for resuming": 0, "work space": 0}
    for part in parts:
        count = part.walkers
        need = {
            "walkers": count * state,
            "walkers kept for resuming": kept,
            "work space": count * _work_space(part, state, N, parameters),
        }
        if sum(need.values()) > sum(most.values()):
            most = need
        # of the walkers of a finished section, what positions do not determine stays
        kept += count * 8 * (3 * N + 12)
    return most


def _work_space(part: Part, state: int, N: int, parameters: int) -> int:
    """Return the bytes per walker that a section needs beside the walkers themselves."""
    block = part.block
    if isinstance(block, Vmc):
        # sums of the energies, the message of a block, its copy in order, errors of inverses; at the start centres and draws
        return 8 * max(8 + 9 + 8 + 2, 9 * N)
    if isinstance(block, Dmc):
        return state + 8 * 6  # branching makes a copy; integer weights, indices
    sets = min(COMPARED, block.steps)
    # of every sample: derivatives, products of them, energies; then statistics; then trial steps on copies
    sampling = 7 * parameters + 6 + block.steps
    statistics = 7 * block.steps
    comparison = state // 8 + 12 * sets
    beginning = 3 * N + 12  # of the iteration
    return 8 * (beginning + sets * (3 * N + 2) + max(sampling, statistics, comparison))


# ------------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[QmcDeck], device: Device) -> Problem:
    """Set up the trial function; the walkers are placed when the run begins."""
    deck = loaded.deck
    try:
        wavefunction, notes = loaded.once(TrialFunction(_folder(loaded)))
        others = [loaded.once(TrialFunction(_folder(loaded), k)) for k in range(1, _members(deck))]
    # The trial function names the key of the deck that is wrong; the loader knows its line.
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        raise NumericsError(str(error)) from error  # raise_for has raised already
    absent = [Finding(key, "GPUs have no kernel for it yet; use run.device: cpu") for key in _of_host(deck)]
    found = [*_warnings_of(notes), *checks.physics(deck, wavefunction)]
    loaded.raise_for(found + absent if device.is_cuda else found)
    system, seed, twists, states = wavefunction.system, deck.run.seed, twists_of(deck.system), deck.states
    names = [str(twist) for twist in twists] if states is None else [f"state {root}" for root in states.roots]
    block = deck.wavefunction.determinants
    return Problem(
        device=device,
        wavefunction=wavefunction,
        key=key_from_seed(0 if seed is None else seed),
        single=deck.run.precision == "mixed",
        kinds=[item.kind for item in deck.series],
        parts=parts_of(deck),
        measured=deck.measured(),
        atoms=system.positions if any(system.symbols) else np.zeros((0, 3)),
        notices=notes.lines + _told(names, [(one, own.lines) for one, own in others] if states else []),
        warnings=_told(names, [(one, own.warnings) for one, own in others]),
        twists=twists,
        others=[one for one, _ in others],
        roots=[] if states is None else states.roots,
        penalty=None if states is None or states.penalty == "auto" else states.penalty,
        excited=block is not None and block.state > 0,
    )


def _warnings_of(notes: trial.Notes) -> list[Finding]:
    """Return what a user must know of the orbitals, at their key."""
    return [Finding("wavefunction.orbitals", text, "warning") for text in notes.warnings]


def _told(names: list[str], others: list[tuple[Wavefunction, list[str]]]) -> list[str]:
    """Return what is said of all twists or states but the first, with their names."""
    return [f"{name}: {text}" for name, (_, texts) in zip(names[1:], others, strict=False) for text in texts]

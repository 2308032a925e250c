"""Rules of the qmc deck: keys that contradict each other, which need no calculation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput
from qsim.qmc.deck.elements import atomic_number
from qsim.qmc.deck.series import Dmc, Optimize
from qsim.qmc.deck.wavefunction import Harmonic, Hooke, Sto
from qsim.qmc.estimators.histograms import Boundaries
from qsim.qmc.statistics import MINIMUM_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.qmc.deck.model import QmcDeck
    from qsim.qmc.deck.series import Section
    from qsim.qmc.deck.wavefunction import Shell, System

BLOCH = ("eshdf", "pyscf", "planewave")  # sources of orbitals in a periodic cell
DEFAULT_WALKERS = 2048
LEAST_WALKERS = 20  # of an optimisation, whose error bars come from the scatter of the walkers
SMALLEST_TIMESTEP = 1e-7  # 1/hartree: below, nothing would move within any run
LARGEST_RCUT = 32.0  # bohr: where orbitals end
MOST_TIME = 1.0  # largest time step of diffusion times the highest energy that passes without a warning
FLATTEST, STEEPEST = 0.4, 3.0  # n zeta over the charge, outside of which an exponent is warned of
# bohr: the bond of H2 has 1.40, and 0.74 angstrom
SHORTEST_BOND = 1.25
MOST_COMPARED = 200
FILES = (
    "chkfile",
    "molden",
    "qmcpack",
    "trexio",
)  # sources of orbitals in open boundaries that bring their atoms
EXPANSIONS = ("chkfile", "qmcpack", "trexio")  # of these, files that may hold determinants
MODELS = ("hooke", "harmonic")  # orbitals of electrons in a trap, without atoms


def rules(deck: QmcDeck) -> Iterator[Finding]:
    """Yield contradictions that need no calculation."""
    if deck.run.precision == "single":
        yield Finding(
            "run.precision",
            "qmc runs in double or in mixed precision (orbitals and inverses single, positions and sums double), not single",
        )
    source = deck.wavefunction.orbitals.source
    if source not in BLOCH if deck.system.cell == "periodic" else source in ("eshdf", "planewave"):
        yield _mismatch(deck)
        return
    if deck.system.cell == "periodic":
        yield from _crystal(deck, deck.system)
        if deck.wavefunction.determinants is not None:
            text = "expansions are of molecules, atoms and traps; Bloch orbitals have one determinant yet"
            yield Finding("wavefunction.determinants", text)
    else:
        if getattr(deck.wavefunction.orbitals, "muffin_tins", None) is not None:
            text = "muffin tins belong to crystals; orbitals of molecules are functions around their atoms anyway"
            yield Finding("wavefunction.orbitals.muffin_tins", text)
        yield from _system(deck, deck.system)
    yield from _determinants(deck)
    yield from _states(deck)
    yield from _exponents(deck)
    yield from _jastrow(deck)
    yield from _series(deck)
    yield from _estimators(deck)


# ---------------------------------------------------------------------------------------- determinants


def _determinants(deck: QmcDeck) -> Iterator[Finding]:
    """Yield sources of expansions that do not fit that of the orbitals, and keys without use."""
    block, source = deck.wavefunction.determinants, deck.wavefunction.orbitals.source
    if block is None:
        return
    key = "wavefunction.determinants"
    if block.is_calculated and source != "pyscf":
        text = f"{block.source} is a calculation of orbitals with source: pyscf; {source} orbitals have a list, or a file"
        yield Finding(f"{key}.source", text)
    if block.source == "file" and source not in EXPANSIONS:
        text = f"{source} orbitals bring no expansion; give a list, or casscf with source: pyscf"
        yield Finding(f"{key}.source", text)
    if block.source != "list" and block.list is not None:
        yield Finding(
            f"{key}.list", f"the list is not used with source: {block.source}; leave one of them out"
        )
    for name in ("active", "average"):
        if getattr(block, name) is not None and not block.is_calculated:
            yield Finding(f"{key}.{name}", f"{name} is for casscf and casci; source is {block.source}")


def _states(deck: QmcDeck) -> Iterator[Finding]:
    """Yield states without an expansion, those that are listed twice, and optimisations that lose an excited one."""
    block, states = deck.wavefunction.determinants, deck.states
    if states is not None:
        if block is None:
            yield Finding("states", "states are of an expansion; give wavefunction.determinants")
        elif "state" in block.model_fields_set:
            text = "states.roots says which states are run; leave one of them out"
            yield Finding("wavefunction.determinants.state", text)
        for k, root in enumerate(states.roots):
            if root in states.roots[:k]:
                yield Finding(f"states.roots.{k}", f"state {root} is listed twice")
        return
    if block is None or not block.state:
        return
    for k, item in enumerate(deck.series):
        changed = [] if item.optimize is None else [c for c in item.optimize.parameters if c != "jastrow"]
        if changed:
            text = (
                f"an excited state may fall to a lower one where its {' and '.join(changed)} are optimised; "
                f"states: {{roots: [0, {block.state}]}} keeps them apart"
            )
            yield Finding(f"series.{k}.optimize.parameters", text, "warning")


# ---------------------------------------------------------------------------------------------- system


def _mismatch(deck: QmcDeck) -> Finding:
    """Return the finding about orbitals that cannot be those of the cell."""
    source = deck.wavefunction.orbitals.source
    if deck.system.cell == "open":
        return Finding(
            "system.cell", f"{source} orbitals are periodic; leave the key out, or give cell: periodic"
        )
    return Finding(
        "wavefunction.orbitals.source",
        f"{source} orbitals are for open boundaries; the cell is periodic, for which there are {', '.join(BLOCH)}",
    )


def _crystal(deck: QmcDeck, system: System) -> Iterator[Finding]:
    """Yield contradictions of a periodic system."""
    if deck.wavefunction.orbitals.source == "planewave":
        yield from _electron_gas(system)
    elif system.rs is not None:
        yield Finding("system.rs", "rs is for the electron gas, with planewave orbitals")
    stated = {"twist": system.twist, "twists": system.twists, "twist_grid": system.twist_grid}
    given = [key for key, value in stated.items() if value is not None and key in system.model_fields_set]
    if len(given) > 1 and not (given[0] == "twist" and not any(system.twist)):
        yield Finding(f"system.{given[-1]}", f"twists are given twice; keep one of {', '.join(given)}")
    if deck.wavefunction.orbitals.source == "pyscf":
        for key in ("lattice", "atoms"):
            if not getattr(system, key):
                text = f"pyscf orbitals of a crystal need the {key} of its primitive cell"
                yield Finding(f"system.{key}", text)


def _electron_gas(system: System) -> Iterator[Finding]:
    """Yield contradictions of electrons in a uniform background."""
    if system.atoms or system.pseudopotentials:
        key = "atoms" if system.atoms else "pseudopotentials"
        yield Finding(f"system.{key}", "planewave orbitals are for the electron gas, which has no ions")
    if system.electrons is None:
        yield Finding("system.electrons", "the electron gas needs a number of electrons, such as 14")
    if (system.rs is None) == (system.lattice is None):
        found = "neither" if system.rs is None else "both"
        text = f"the electron gas needs either rs, for a cubic cell, or a lattice; found {found}"
        yield Finding("system.rs", text)
    if system.charge:
        yield Finding("system.charge", "there are no ions; give electrons instead")
    if "tilematrix" in system.model_fields_set:
        text = "the electron gas has no primitive cell; give its cell as it is"
        yield Finding("system.tilematrix", text)


def _system(deck: QmcDeck, system: System) -> Iterator[Finding]:
    """Yield atoms, charges and spins that contradict each other or the orbitals."""
    source = deck.wavefunction.orbitals.source
    for k, atom in enumerate(system.atoms):
        try:
            atomic_number(atom[0])
        except InvalidInput as error:
            yield Finding(f"system.atoms.{k}.0", str(error))
    if source in MODELS and system.atoms:
        yield Finding("system.atoms", f"{source} orbitals are for particles in a trap, without atoms")
    elif source not in (*MODELS, *FILES) and not system.atoms:
        yield Finding("system.atoms", f"{source} orbitals need atoms, such as atoms: [[He, 0, 0, 0]]")
    # Of a file, both are compared with what it holds.
    if system.atoms and source not in FILES and system.electrons is not None and system.charge:
        yield Finding(
            "system.electrons", "the charge gives the number of electrons too; leave one of them out"
        )
    if not system.atoms and system.charge and source not in FILES:
        yield Finding("system.charge", "there are no ions; give electrons instead")
    yield from _close_atoms(system)
    present = [atom[0] for atom in system.atoms]
    for symbol in system.pseudopotentials:
        if symbol == "all":
            if source not in FILES:
                text = f"{source} orbitals need the pseudopotential of each element, such as {{O: O.xml}}"
                yield Finding("system.pseudopotentials", text)
        elif symbol not in present and (present or source not in FILES):
            there = ", ".join(dict.fromkeys(present)) or "none"
            yield Finding(
                f"system.pseudopotentials.{symbol}",
                f"there is no atom '{symbol}' in the system; its species: {there}",
            )


def _close_atoms(system: System) -> Iterator[Finding]:
    """Yield a warning about a molecule whose bonds are so short in bohr that angstrom were meant."""
    places = [atom[1:4] for atom in system.atoms[:MOST_COMPARED]]
    pairs = [(math.dist(a, b), j, k) for k, a in enumerate(places) for j, b in enumerate(places[:k])]
    if not pairs or system.cell != "open":
        return
    nearest, j, k = min(pairs)
    if 0.0 < nearest < SHORTEST_BOND:
        yield Finding(
            "system.atoms",
            f"atoms {j + 1} and {k + 1} are {nearest:.3g} bohr apart, less than in any molecule; if the positions are in "
            "angstrom, give units: angstrom",
            "warning",
        )


def _exponents(deck: QmcDeck) -> Iterator[Finding]:
    """Yield Slater exponents that do not belong to the nuclei they are at: n zeta is about the charge of the innermost shell."""
    orbitals = deck.wavefunction.orbitals
    if not isinstance(orbitals, Sto):
        return
    symbols = [atom[0] for atom in deck.system.atoms]
    for symbol in dict.fromkeys(symbols):
        mine = [
            k
            for k, shell in enumerate(orbitals.shells)
            if shell.atom == symbol
            or (isinstance(shell.atom, int) and symbols[shell.atom : shell.atom + 1] == [symbol])
        ]
        try:
            charge = atomic_number(symbol)
        except InvalidInput:
            continue  # told elsewhere
        if symbol in deck.system.pseudopotentials or not mine:
            continue
        found = {k: _slopes(orbitals.shells[k]) for k in mine}
        steepest = max(mine, key=lambda k: max(found[k]))
        flattest = min(mine, key=lambda k: min(found[k]))
        if max(found[steepest]) < FLATTEST * charge or min(found[flattest]) > STEEPEST * charge:
            k = steepest if max(found[steepest]) < FLATTEST * charge else flattest
            yield Finding(
                f"wavefunction.orbitals.shells.{k}.zeta",
                f"no orbital at {symbol} has n zeta near its charge, {charge}; here it is {max(found[k]):g}.  Exponents are in "
                f"1/bohr, about {charge / _first(orbitals.shells[k].n):.2g} for this shell of a bare nucleus",
                "warning",
            )


def _first(value: int | list[int]) -> int:
    return value[0] if isinstance(value, list) else value


def _slopes(shell: Shell) -> list[float]:
    """Return n zeta of the functions of a shell."""
    numbers = [float(n) for n in (shell.n if isinstance(shell.n, list) else [shell.n])]
    zetas = shell.zeta if isinstance(shell.zeta, list) else [shell.zeta]
    count = max(len(numbers), len(zetas))  # one number stands for all
    return [numbers[k % len(numbers)] * zetas[k % len(zetas)] for k in range(count)]


def _jastrow(deck: QmcDeck) -> Iterator[Finding]:
    """Yield Jastrow functions without a range or with keys of another type, and J1 without ions."""
    jastrow = deck.wavefunction.jastrow
    for name in ("J1", "J2"):
        block, key = getattr(jastrow, name), f"wavefunction.jastrow.{name}"
        if block is None:
            continue
        if deck.system.cell == "periodic":
            pass  # ranges follow from the cell
        elif block.type == "bspline" and block.rcut is None:
            yield Finding(
                f"{key}.rcut", "a B-spline in open boundaries needs its range rcut, for example 8 bohr"
            )
        elif block.type == "bspline" and block.rcut > LARGEST_RCUT:
            yield Finding(
                f"{key}.rcut",
                f"rcut = {block.rcut:g} bohr is too large: orbitals end at {LARGEST_RCUT:g} bohr, and a wide spline is coarse "
                "where electrons are; 5 to 10 bohr serve atoms and small molecules",
            )
        for which, values in block.coefficients.items():
            if block.type == "pade" and len(values) != 1:
                yield Finding(
                    f"{key}.coefficients.{which}",
                    f"the Padé form has one coefficient, b; found {len(values)}",
                )
        if block.type != "pade" and block.b is not None:
            yield Finding(f"{key}.b", f"b belongs to type: pade, but the type is {block.type}")
        if block.type != "bspline" and {"rcut", "size"} & block.model_fields_set:
            extra = next(k for k in ("rcut", "size") if k in block.model_fields_set)
            yield Finding(f"{key}.{extra}", f"{extra} belongs to type: bspline, but the type is {block.type}")
    source = deck.wavefunction.orbitals.source
    place = "the electron gas" if source == "planewave" else "a trap"
    if jastrow.J1 is not None and (source == "planewave" or (source in MODELS and not deck.system.atoms)):
        yield Finding(
            "wavefunction.jastrow.J1", f"J1 is about electrons and ions, but there are no ions in {place}"
        )


# ---------------------------------------------------------------------------------------------- series


def walkers_of(deck: QmcDeck) -> list[int]:
    """Return the number of walkers of each section: its own, or that of the section before."""
    counts: list[int] = []
    for item in deck.series:
        before = counts[-1] if counts else DEFAULT_WALKERS
        counts.append(before if item.block.walkers is None else item.block.walkers)
    return counts


def _series(deck: QmcDeck) -> Iterator[Finding]:
    """Yield items that are no single section, time steps of zero, and too few walkers or blocks."""
    good = True
    for k, item in enumerate(deck.series):
        named = item.named()
        if len(named) != 1:
            good = False
            found = f"found {', '.join(named)}; begin each with a dash" if named else "found none"
            yield Finding(f"series.{k}", f"an item is one section, optimize, vmc or dmc; {found}")
    if not good:
        return
    for k, (item, walkers) in enumerate(zip(deck.series, walkers_of(deck), strict=True)):
        key, block = f"series.{k}.{item.kind}", item.block
        for where, tau in _timesteps(block):
            if tau < SMALLEST_TIMESTEP:
                text = f"a time step of {tau:g} is too small for electrons to get anywhere"
                yield Finding(f"{key}.{where}", text)
        if isinstance(block, Optimize):
            yield from _optimize(deck, block, walkers, key)
            continue
        if block.blocks < MINIMUM_BLOCKS:
            yield Finding(
                f"{key}.blocks",
                f"{block.blocks} blocks are too few for error bars; {MINIMUM_BLOCKS} are needed",
                "warning",
            )
        if isinstance(block, Dmc):
            yield from _dmc(deck, block, key)


def _optimize(deck: QmcDeck, block: Optimize, walkers: int, key: str) -> Iterator[Finding]:
    """Yield parameters that the trial function lacks, keys without effect, and too few walkers."""
    if "coefficients" in block.parameters and deck.wavefunction.determinants is None:
        text = "there is one determinant, without a coefficient; give wavefunction.determinants"
        yield Finding(f"{key}.parameters", text)
    if "orbitals" in block.parameters and deck.system.cell == "periodic":
        yield Finding(f"{key}.parameters", "orbitals of crystals are not optimised yet; leave them out")
    for name in ("virtual", "symmetry"):
        if name in block.model_fields_set and "orbitals" not in block.parameters:
            text = f"it is of orbitals, which are not optimised; parameters are {', '.join(block.parameters)}"
            yield Finding(f"{key}.{name}", text, "warning")
    if walkers < LEAST_WALKERS:
        yield Finding(
            f"{key}.walkers",
            f"an optimisation needs at least {LEAST_WALKERS} walkers for its error bars, found {walkers}",
        )


def _timesteps(block: Section) -> list[tuple[str, float]]:
    """Return keys and values of the time steps of a section."""
    if isinstance(block, Dmc):
        return [(f"timesteps.{i}", tau) for i, tau in enumerate(block.timesteps)]
    return [] if block.timestep == "auto" else [("timestep", block.timestep)]


def _highest_energy(deck: QmcDeck) -> float:
    """Return the energy that sets the shortest time scale, hartree, as ``System.highest_energy`` does."""
    orbitals = deck.wavefunction.orbitals
    energies = [orbitals.omega if isinstance(orbitals, Hooke | Harmonic) else 0.0]
    for symbol, *_ in deck.system.atoms:
        try:
            charge = atomic_number(symbol)
        except InvalidInput:
            continue  # told elsewhere
        if symbol not in deck.system.pseudopotentials:
            energies.append(float(charge**2))
    return max(energies)


def _dmc(deck: QmcDeck, block: Dmc, key: str) -> Iterator[Finding]:
    """Yield time steps that are far too long or given twice, and extrapolations that lack some."""
    steps = block.timesteps
    largest, scale = max(steps), _highest_energy(deck)
    if largest * scale > MOST_TIME:
        yield Finding(
            f"{key}.timesteps.{steps.index(largest)}",
            f"a time step of {largest:g}/hartree times the highest energy, about {scale:.3g} hartree (Z^2 of a nucleus, or "
            f"the quantum of the trap), is {largest * scale:.3g}; diffusion needs time steps below 1 over that energy, "
            f"{0.1 / scale:.1g} for example.  Is this a number of steps, or a time step in other units?",
            "warning",
        )
    for i, tau in enumerate(steps):
        if tau in steps[:i]:
            yield Finding(f"{key}.timesteps.{i}", f"duplicate time step {tau:g}")
    needed = {"none": 1, "linear": 2, "quadratic": 3}[block.extrapolate]
    if len(steps) < needed and "extrapolate" in block.model_fields_set:
        yield Finding(
            f"{key}.extrapolate",
            f"a {block.extrapolate} extrapolation needs {needed} time steps, found {len(steps)}: there will be none",
            "warning",
        )
    if (
        "nonlocal_" in block.model_fields_set
        and not deck.system.pseudopotentials
        and block.nonlocal_ == "locality"
    ):
        yield Finding(f"{key}.nonlocal", "there is no pseudopotential for it to apply to", "warning")


# ------------------------------------------------------------------------------------------ estimators


def _estimators(deck: QmcDeck) -> Iterator[Finding]:
    """Yield items that are no single estimator, are listed twice, or cannot be measured."""
    atoms = bool(deck.system.atoms) or deck.wavefunction.orbitals.source in FILES
    vmc = any(item.vmc is not None for item in deck.series)
    system = Boundaries(deck.system.cell == "periodic", atoms, vmc, deck.states is not None)
    seen: dict[str, int] = {}
    for k, item in enumerate(deck.estimators):
        named = item.named()
        key = f"estimators.{k}"
        if len(named) != 1:
            found = f"found {', '.join(named)}; begin each with a dash" if named else "found none"
            yield Finding(key, f"an item is one estimator; {found}")
        for name in named:
            if seen.setdefault(name, k) != k:
                yield Finding(f"{key}.{name}", f"{name} is listed twice; see estimators.{seen[name]}")
        block = item.measured()
        if block is not None:
            yield from block.findings(f"{key}.{block.key}", system)

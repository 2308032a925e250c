"""From the deck to a problem: eigenstates, propagator, targets, first field."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.deck.expression import Expression
from qsim.core.device.parallel import in_shares, world
from qsim.core.errors import InvalidInput
from qsim.core.physics.structure import FormulaProfile
from qsim.core.run.stages import Plan, Size
from qsim.qoc import checks
from qsim.qoc.control.controls import Controls, Functions, Line
from qsim.qoc.control.guesses import Pulse, escape, first_field, weak_seed
from qsim.qoc.control.mesh import midpoints
from qsim.qoc.control.parametrisation import (
    EXACT,
    ROOM,
    Parametrisation,
    band_modes,
    parametrisation,
    shape_function,
)
from qsim.qoc.control.rungs import ladder_rungs
from qsim.qoc.deck.ensemble import values_of
from qsim.qoc.deck.model import CrankNicolsonPropagator, EigenbasisPropagator
from qsim.qoc.deck.quantum import QuantumDeck
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.memory import Sizes, memory, stores
from qsim.qoc.models.molecule import Molecule, molecule
from qsim.qoc.objectives.objective import Goal, Objective
from qsim.qoc.optimizers.travolta import gradient_scale
from qsim.qoc.problem import MoleculeProblem
from qsim.qoc.propagators.phases import energy_shifts, phase_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.qoc.deck.model import Propagator as PropagatorBlock
    from qsim.qoc.deck.model import QocDeck
    from qsim.qoc.problem import Problem
    from qsim.qoc.propagators.propagator import Members, Propagator


# Retained levels of `states: auto`
MIN_LEVELS = 16
# Levels kept above the highest one in use.
SPARE_LEVELS = 12
# Steps at which the plan tries the formulas and files of the deck.
PLAN_TIMES = 200_000
# Steps per period of `steps: auto`
PERIOD_STEPS = 64
# Products of a sweep, level pairs or grid points of all trajectories and steps, from which a GPU is faster than its host
# (docs/howto/devices.md): 100 members of robust, 1.5e8, take 0.57 times as long on it, morse with 3.5e6 1.2 times.
GPU_PRODUCTS = 1e8
# Products of a grid point in a step beside those of one pair of levels: elimination, substitution and right-hand side.
GRID_PRODUCTS = 6.0


def plan(loaded: LoadedDeck[Any]) -> Plan:
    """Estimate memory and steps and check the physics; nothing large is allocated."""
    if isinstance(loaded.deck, QuantumDeck):
        # sparse matrices and their kernel are loaded for these decks alone
        from qsim.qoc.quantum import build as quantum

        return quantum.plan(loaded)
    return _plan_grid(loaded)


def build(loaded: LoadedDeck[Any], device: Device) -> Problem:
    """Set up what the run needs: matrices or eigenstates, controls, targets."""
    if isinstance(loaded.deck, QuantumDeck):
        from qsim.qoc.quantum import build as quantum

        return quantum.build(loaded, device)
    return _build_grid(loaded, device)


def _plan_grid(loaded: LoadedDeck[QocDeck]) -> Plan:
    """Plan the run of a molecule on a grid."""
    deck, findings = loaded.deck, []
    levels, points, modes = level_count(deck), deck.system.grid.points, 0
    steps = deck.time.steps if isinstance(deck.time.steps, int) else 0
    try:
        nominal = loaded.once(nominal_molecule)
        steps = step_count(deck, nominal)
        findings = [
            *checks.physics(deck, nominal, steps, loaded.data),
            *checks.unit_slips(deck, loaded.data, nominal),
        ]
        sample = midpoints(min(steps, PLAN_TIMES), deck.time.T)
        shape_function(deck.control.shape, sample, deck.time.T)
        if deck.control.band is not None:
            first, last = band_modes(deck.control.band, deck.time.T, steps)
            modes = last - first + 1
        if deck.control.guess.type != "random" and not any(f.severity == "error" for f in findings):
            first_field(Pulse(deck, nominal, sample, np.ones(sample.size)))
    except InvalidInput as problem:
        findings.append(Finding(problem.key, str(problem)))
    products = _products(deck, levels, steps)
    return Plan(
        memory=memory(deck, Sizes(levels, steps, modes, member_count(deck))),
        sizes={
            "grid points": points,
            "levels": levels,
            "steps": steps,
            "members": member_count(deck),
            "state pairs": len(deck.system.state_pairs()),
            "tau (a.u.)": deck.time.T / max(steps, 1),
        },
        steps=steps,
        findings=findings,
        size=Size(products, "products of a sweep", GPU_PRODUCTS),
        operations=4.0 * products,
        reduce="time.steps",
        ranks=member_count(deck),
        shared="members",
    )


def _products(deck: QocDeck, levels: int, steps: int) -> float:
    """Return the complex products of one propagation of every state of every member."""
    trajectories = member_count(deck) * len(deck.system.state_pairs())
    grid = isinstance(deck.propagator, CrankNicolsonPropagator)
    each = GRID_PRODUCTS * deck.system.grid.points if grid else float(levels**2)
    return each * steps * trajectories


def _build_grid(loaded: LoadedDeck[QocDeck], device: Device) -> MoleculeProblem:
    """Set up eigenstates, propagator, targets and first field."""
    deck = loaded.deck
    notices: list[str] = []
    warnings: list[str] = []
    try:
        nominal = loaded.once(nominal_molecule)
        # The nominal molecule is the one that the plan has made; steps and first field follow from its levels.
        members = ensemble(deck, nominal)
        steps = step_count(deck, nominal)
        times = midpoints(steps, deck.time.T)
        # Without a search the field is propagated as it is given.
        room = EXACT if deck.optimizer.type == "none" else ROOM
        control = parametrisation(deck.control, times, deck.time.T, room)
        pulse = Pulse(deck, nominal, times, control.shape)
        guess = first_field(pulse)
        # the line search of the paper may start from zero, with noise in the initial state instead
        if not np.any(guess) and deck.optimizer.type in ("lbfgs", "krotov", "gauss_newton"):
            guess = weak_seed(pulse)
            warnings.append(
                "control.guess: zero is a critical point (dP/d eps = 0 exactly); it is replaced by a resonant seed of area "
                f"0.1 pi on the transitions {', '.join(f'{a}-{b}' for a, b in ladder_rungs(deck, nominal))}"
            )
    except InvalidInput as problem:
        loaded.raise_for([Finding(problem.key, str(problem))])
        # raise_for has raised already
        raise
    levels = level_count(deck)
    goal = goal_of(deck)
    initial = goal.initial(levels)
    targets = goal.targets(levels)
    if deck.control.guess.type == "zero" and deck.control.guess.noise:
        initial = initial + deck.control.guess.noise * np.array([t[0] for t in targets])
    if deck.time.steps == "auto":
        notices.append(f"time.steps: auto -> {steps} (tau = {deck.time.T / steps:.6g} a.u.)")
    propagator = make_propagator(deck, device, members, initial, steps)
    if device.is_cuda:
        _fits_the_kernels(loaded, levels, deck.propagator)
    limits = deck.control
    # The analysis of molecules is loaded for these decks alone.
    from qsim.qoc.quantum.molecule import analyse, begin

    controls = _controls(deck, pulse, control)
    return MoleculeProblem(
        objective=Objective(propagator, targets, deck.objective.alpha, goal.coherent),
        begin=begin,
        analyse=analyse,
        controls=controls,
        functions=Functions(controls, controls.parameters(guess[None]), given=True)
        if controls.given
        else None,
        threshold=deck.objective.threshold,
        gradient_scale=gradient_scale(deck.optimizer, units_of(deck.system), propagator.tau),
        device=device,
        system=deck.system,
        members=members,
        factors=molecule_factors(deck),
        goal=goal,
        initial=initial,
        targets=targets,
        propagator=propagator,
        constrained=bool(limits.bounds or limits.zero_area or limits.band or limits.shape),
        times=times,
        duration=deck.time.T,
        guess=guess[None],
        escape=escape(pulse, guess)[None],
        guess_given=limits.guess.type in ("expression", "file", "random"),
        optimizer=deck.optimizer,
        verify=deck.verify,
        leak_tolerance=getattr(deck.propagator, "truncation_tolerance", None),
        intensity_limit=checks.intensity_limit(deck),
        notices=notices,
        warnings=warnings,
    )


def _controls(deck: QocDeck, pulse: Pulse, control: Parametrisation) -> Controls:
    """Return the field as a control: a function of time where the deck gives it and nothing is searched."""
    limits, duration = deck.control, deck.time.T
    block = limits.guess
    given = block.type == "expression" or (block.type == "file" and block.table_file() is not None)
    # `interpolation: hold` says that the values in the steps are the field.
    held = deck.verify.interpolation == "hold"
    given = given and deck.optimizer.type == "none" and control.modes is None and not held
    formulas = [b.value for b in (block, limits.shape) if b is not None and b.type == "expression"]
    profiles = tuple(FormulaProfile(Expression(f, ("t", "T")).with_values(T=duration)) for f in formulas)

    def shape(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.ones(t.size) if limits.shape is None else limits.shape.at(t, duration)

    def first(t: NDArray[np.float64]) -> NDArray[np.float64]:
        return first_field(replace(pulse, times=t, shape=np.ones(t.size)))

    line = Line(control, shape, first=first, held=not given, given=given, profiles=profiles)
    return Controls((line,), duration)


def goal_of(deck: QocDeck) -> Goal:
    """Return the goal of the deck."""
    return Goal(deck.system.state_pairs(), deck.objective.combine == "coherent")


def nominal_molecule(deck: QocDeck) -> Molecule:
    """Return the molecule of the deck with the levels that a run keeps: the most costly part of plan and build."""
    return molecule(deck.system, level_count(deck))


def _fits_the_kernels(loaded: LoadedDeck[QocDeck], levels: int, block: PropagatorBlock) -> None:
    from qsim.qoc.kernels.eigenbasis import MAX_CUDA_STATES
    from qsim.qoc.kernels.grid import MAX_CUDA_POINTS

    key, what, count, most = "propagator.states", "states", levels, MAX_CUDA_STATES
    if isinstance(block, CrankNicolsonPropagator):
        points = loaded.deck.system.grid.points
        key, what, count, most = "system.grid.points", "points", points, MAX_CUDA_POINTS
    if count > most:
        text = f"{count} {what}; the CUDA kernels hold up to {most}. Use --device cpu or fewer {what}"
        loaded.raise_for([Finding(key, text)])


# ------------------------------------------------------------------------------------------- pieces


def level_count(deck: QocDeck) -> int:
    """Return the number of levels K that a run keeps or analyses."""
    block = deck.propagator
    if isinstance(block, EigenbasisPropagator) and block.states != "auto":
        return int(block.states)
    return min(max(MIN_LEVELS, goal_of(deck).top + 1 + SPARE_LEVELS), deck.system.grid.points // 2)


def step_count(deck: QocDeck, nominal: Molecule) -> int:
    """Return N: as given, from tau, or from the spectrum (``auto``)."""
    time = deck.time
    if isinstance(time.steps, int):
        return time.steps
    if time.dt is not None:
        return max(1, round(time.T / time.dt))
    if isinstance(deck.propagator, CrankNicolsonPropagator):
        return phase_steps(nominal, goal_of(deck).top, time.T)
    energies = nominal.energies
    fastest = max(abs(energies[b] - energies[a]) for a, b in ladder_rungs(deck, nominal))
    return max(200, math.ceil(PERIOD_STEPS * fastest * time.T / (2 * math.pi)))


def member_count(deck: QocDeck) -> int:
    """Return the number of ensemble members."""
    if deck.ensemble is None:
        return 1
    return math.prod(
        len(values_of(getattr(deck.ensemble, k))) for k in ("field_scale", "mass_scale", "potential_scale")
    )


def molecule_factors(deck: QocDeck) -> list[tuple[float, float]]:
    """Return mass and potential factor of each distinct molecule of the ensemble; the nominal one, (1, 1), comes first."""
    factors = {(1.0, 1.0): None}
    if deck.ensemble is not None:
        block = deck.ensemble
        factors |= dict.fromkeys(product(values_of(block.mass_scale), values_of(block.potential_scale)))
    return list(factors)


def ensemble(deck: QocDeck, nominal: Molecule) -> Members:
    """Set up the molecules of all ensemble members; the nominal one comes first."""
    from qsim.qoc.propagators.propagator import Members

    block, factors = deck.ensemble, molecule_factors(deck)
    # ranks share the molecules, which are all that takes long here
    others = in_shares(world(), factors[1:], lambda pair: molecule(deck.system, level_count(deck), *pair))
    built = (nominal, *others.values())
    if block is None:
        return Members(built, np.zeros(1, int), np.ones(1))
    place = {pair: i for i, pair in enumerate(factors)}
    system, scale = [], []
    for mass, depth, factor in product(
        values_of(block.mass_scale), values_of(block.potential_scale), values_of(block.field_scale)
    ):
        system.append(place[mass, depth])
        scale.append(factor)
    return Members(built, np.array(system), np.array(scale))


def make_propagator(
    deck: QocDeck, device: Device, members: Members, initial: NDArray[np.complex128], steps: int
) -> Propagator:
    """Return the propagator of the deck."""
    from qsim.qoc.propagators.propagator import CrankNicolson, Eigenbasis

    block, single = deck.propagator, deck.run.precision == "single"
    if isinstance(block, EigenbasisPropagator):
        return Eigenbasis(device, members, initial, steps, deck.time.T, single)
    item = 8 if single else 16
    shifts = energy_shifts(members, goal_of(deck).top, block.energy_shift)
    store = stores(deck, steps * deck.system.grid.points * item)
    return CrankNicolson(device, members, initial, steps, deck.time.T, single, shifts=shifts, store=store)

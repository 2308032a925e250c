"""From a deck with a quantum system to its problem: matrices, controls, first values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.qoc.control.making import Making, penalties
from qsim.qoc.control.mesh import midpoints
from qsim.qoc.control.rungs import Rungs
from qsim.qoc.deck.systems.quantities import units_of
from qsim.qoc.kernels.slots import fits
from qsim.qoc.models.builders import model, observable_of
from qsim.qoc.models.faults import InvalidSystem
from qsim.qoc.models.quantum import GateTarget, in_phase, measured_by
from qsim.qoc.objectives.amplitudes import refuse_without_amplitudes
from qsim.qoc.objectives.costs import column_count, cost_of
from qsim.qoc.objectives.jumps import path_bytes
from qsim.qoc.objectives.slots import SlotObjective, Terms, as_matrices, leakage_operator
from qsim.qoc.objectives.unravelling import BATCH_BYTES, Unravelling, rates_of
from qsim.qoc.optimizers.travolta import gradient_scale
from qsim.qoc.propagators.batch import DEVICE_BYTES, HOST_BYTES
from qsim.qoc.propagators.densities import Densities
from qsim.qoc.propagators.slots import Motion, Slots
from qsim.qoc.quantum.analysis import analyse
from qsim.qoc.quantum.dissipation import Dissipation, choose
from qsim.qoc.quantum.ensembles.ensemble import made_ensemble, same_space
from qsim.qoc.quantum.ensembles.members import Members
from qsim.qoc.quantum.feasible import (
    coarse_slots,
    duration_of,
    fastest,
    limits_for,
    out_of_reach,
    own_limits,
    require_computable,
    threshold_of,
)
from qsim.qoc.quantum.fronts import plans_of, points_of
from qsim.qoc.quantum.problem import QuantumProblem
from qsim.qoc.quantum.search import QuantumSearch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.qoc.deck.ensemble import QuantumEnsemble
    from qsim.qoc.deck.quantum import QuantumDeck
    from qsim.qoc.models.quantum import QuantumModel

# Bytes of trajectory up to which a search carries density matrices.
MOST_BYTES = 2e9
# Bytes of the states that are kept at chosen times, and what a time may be above T by rounding.
MOST_KEPT, LAST = 1e9, 1e-12
# Products of a sweep from which a GPU is faster than its host: an estimate from the speeds of kernels.
GPU_PRODUCTS = 5e7
# Entries of the matrices times columns from which a product of one system occupies a GPU: 5760 were measured to be 2.7 times as
# fast as on a core, 1280 to be slower (docs/howto/devices.md).
GPU_WIDTH = 4e3
# Terms of the series of a slot, roughly, for the count of operations.
TERMS = 12
# Mean number of jumps of sampled histories from which their weights are spread too widely.
MOST_JUMPS = 3.0
# Real numbers of each slot and control: ten pairs of vectors of L-BFGS, and ten more.
ARRAYS = 30
# Slots of `auto` in a period, the least, and the most that a run may have.
AUTO_SLOTS, LEAST_SLOTS, MOST_SLOTS = 24.0, 100, 1e7


def nominal_model(deck: QuantumDeck) -> QuantumModel:
    """Return the matrices of the deck: made once by plan and build.

    Raises
    ------
    InvalidInput
        If a fidelity is asked of a goal that is no gate.
    """
    made = model(deck.system)
    if deck.objective.combine == "coherent":
        try:
            made = in_phase(made)
        except ValueError as problem:
            raise InvalidInput("objective.combine", str(problem)) from None
    measure = deck.objective.measure
    if measure == "auto":
        return made
    if not any(isinstance(one.goal, GateTarget) for _, one in made.each()):
        raise InvalidInput(
            "objective.measure", f"{measure} is that of a gate, and the goal is none; leave it out"
        )
    return measured_by(made, process=measure == "process_fidelity")


def plan(loaded: LoadedDeck[QuantumDeck]) -> Plan:
    """Check the system and the controls, and estimate memory; of a front, for every value."""
    if loaded.deck.front is None:
        return _one_plan(loaded)
    own = _one_plan(loaded)
    if any(f.severity == "error" for f in own.findings):
        return own
    plans, findings = plans_of(loaded, nominal_model, _one_plan)
    if not plans:
        return _refused(findings)
    return replace(max(plans, key=lambda p: p.memory.host), findings=findings)


def _one_plan(loaded: LoadedDeck[QuantumDeck]) -> Plan:
    """Check the system and the controls, and estimate memory."""
    try:
        made = loaded.once(nominal_model)
        loaded = _settled(loaded, made)
    except InvalidSystem as problem:
        return _refused(list(problem.findings))
    except InvalidInput as problem:
        return _refused([Finding(problem.key, str(problem))])
    deck = loaded.deck
    slots = deck.time.count
    findings = [Finding(key, text, "warning") for key, text in made.doubts.items()]
    try:
        members = _members(loaded, made)
    except InvalidInput as problem:
        return _refused([*findings, Finding(problem.key, str(problem))])
    if wrong := _order(deck, made):
        return _refused([*findings, *wrong])
    try:
        controls, guess = _making(deck, made).start()
        require_computable(made, duration_of(deck), guess)
        chosen = _chosen(loaded, made)
        if "gauss_newton" in deck.methods:
            refuse_without_amplitudes(made, chosen.search != "closed")
        columns = column_count(made, chosen.lindblad)
        if chosen.lindblad and 16.0 * made.dimension**2 * columns * slots > MOST_BYTES:
            raise InvalidInput("dissipation", _too_large(made, columns, slots))
        cost_of(made, chosen.lindblad)
        _terms(deck, made)
        loaded.once(observed)
        _states_at(deck, made)
        findings += coarse_slots(deck, made)
        findings += out_of_reach(deck, made, limits_for(deck, made, controls, chosen, members))
    except InvalidInput as problem:
        return _refused([Finding(problem.key, str(problem))])
    if chosen.search == "trajectories":
        columns *= chosen.count
    lindblad = chosen.lindblad
    rows = made.dimension**2 if lindblad else made.dimension
    count = 1 if members is None else members.count
    moved = SlotObjective(made, chosen.motion(duration_of(deck), slots)).propagator
    terms, parts = moved.prepare(guess, None)[1:]
    products = 4.0 * rows * columns * max(TERMS, terms * parts) * slots * count
    keeps, wide = _of_gpu(deck, made, chosen, columns)
    return Plan(
        memory=_memory(
            moved,
            columns,
            (slots, parts, terms, len(made.controls)),
            0 if members is None else members.count,
            chosen,
        ),
        sizes={
            "levels": made.dimension,
            "columns": columns,
            "controls": len(made.controls),
            "jumps": len(made.jumps),
            "slots": slots,
            "members": count,
        },
        steps=slots,
        findings=findings,
        size=Size(products, "products of a sweep", GPU_PRODUCTS if count > 1 or wide else math.inf),
        operations=4.0 * products,
        reduce="time.slots" if members is None else "ensemble",
        ranks=count,
        shared="members",
        cpu_only=keeps,
    )


def _members(loaded: LoadedDeck[QuantumDeck], made: QuantumModel) -> Members | None:
    """Return the members of the ensemble, some of which are made to see that they can be; None without an ensemble.

    Raises
    ------
    InvalidInput
        If a parameter does not exist, or a value makes no system.
    """
    deck = loaded.deck
    if deck.ensemble is None:
        return None
    members = _made_members(loaded, deck.ensemble, made)
    for number in members.ends():
        same_space(members.model(number), made, members)
    return members


def _made_members(loaded: LoadedDeck[QuantumDeck], block: QuantumEnsemble, made: QuantumModel) -> Members:
    """Return the members of the ensemble; none of their systems is made."""
    deck, names = loaded.deck, [c.name for c in made.controls]
    return Members(block, deck.system, names, {"base": loaded.path.parent}, deck.run.seed or 0)


def _of_gpu(deck: QuantumDeck, made: QuantumModel, chosen: Dissipation, columns: int) -> tuple[str, bool]:
    """Return what keeps a run from a GPU, "" if nothing does; and whether its products have work for one."""
    if deck.ensemble is None:
        keeps = _own_kernels(deck, made, chosen)
        if keeps:
            return keeps, False
    # Only the pattern of the matrices counts here, so duration and slots are arbitrary.
    pattern = Slots(made, Motion(1.0, 1, lindblad=chosen.lindblad)).pattern
    if not fits(pattern, columns):
        text = f"{pattern.rows} rows with {pattern.entries} entries, more than a block of a GPU has room for"
        return text, False
    return "", pattern.entries * columns >= GPU_WIDTH


def _own_kernels(deck: QuantumDeck, made: QuantumModel, chosen: Dissipation) -> str:
    """Return what has kernels for the CPU alone in the search of one system; "" if nothing has."""
    if chosen.search == "trajectories":
        return "dissipation: sampled histories"
    if as_matrices(made, chosen.lindblad):
        return f"density matrices of {made.dimension} levels without an ensemble"
    if deck.optimizer.type == "krotov":
        return "optimizer: krotov, slot by slot"
    if deck.objective.running is not None:
        return "objective.running: slot by slot"
    return ""


def _memory(
    moved: Slots, columns: int, series: tuple[int, int, int, int], members: int, chosen: Dissipation
) -> Memory:
    """Return the memory of a run: trajectories of members that are kept at a time, and of the system itself.

    `series`: slots, parts of a slot under the first values, terms, and controls.
    """
    slots, parts, terms, controls = series
    # Numbers of the kernels for the columns, of which a trajectory has one set per part of a slot.
    rows = moved.dimension**2 if chosen.lindblad else moved.dimension
    wide = (columns + columns % 2) / 2 if moved.layout.real else columns
    each = int(16 * rows * wide)
    one = each * slots * parts
    if chosen.search == "trajectories":
        # histories come in batches, and one is kept while the next is made
        kept = min(one, int(BATCH_BYTES))
        return Memory(host=2 * kept, parts={"trajectory": kept}, reduce="dissipation.trajectories.count")
    # Members come in batches below the limit, but one trajectory must fit whatever the limit is.
    there, on_gpu = (int(min(one * members, max(one, limit))) for limit in (HOST_BYTES, DEVICE_BYTES))
    # The trajectory of one system lies where it is computed.
    on_gpu = on_gpu if members else one
    # Blocks of four columns are put in order again for the populations, in a copy.
    copied = 2 if wide % 4 == 0 and not isinstance(moved, Densities) else 1
    return Memory(
        # the trajectory, the columns at every slot beside it, the powers of one slot; numbers of each slot: populations, and for
        # each control the vectors of L-BFGS, values, gradients and shapes; and the paths that tell what each jump takes
        host=copied * one
        + (path_bytes(moved.dimension, parts, slots) if chosen.search != "closed" else 0)
        + 16 * rows * columns * (2 * slots + 2 * terms)
        + 8 * slots * (moved.dimension + ARRAYS * controls),
        device=there,
        on_gpu=on_gpu - there,
        parts={"trajectory": one, "trajectories of members": there},
        reduce="time.T" if parts > 1 else "time.slots",
        library="cublas" if members else "",
    )


def _refused(findings: list[Finding]) -> Plan:
    return Plan(steps=0, findings=findings, size=Size(1.0, "products of a sweep", math.inf))


def _settled(loaded: LoadedDeck[QuantumDeck], made: QuantumModel) -> LoadedDeck[QuantumDeck]:
    """Return the deck with a number of slots, where it gives their length or leaves it open.

    Raises
    ------
    InvalidInput
        If there would be too many.
    """
    time = loaded.deck.time
    if isinstance(time.slots, int):
        return loaded
    duration = duration_of(loaded.deck)
    if time.dt is not None:
        count, key = duration / units_of(loaded.deck.system).time(time.dt, "time.dt"), "time.dt"
    else:
        count, key = AUTO_SLOTS * duration * fastest(made) / (2.0 * math.pi), "time.slots"
    if not count < MOST_SLOTS:
        raise InvalidInput(
            key, f"{count:.3g} slots, at most {MOST_SLOTS:g}; give time.slots, or lower time.T"
        )
    slots = max(1, round(count)) if time.dt is not None else max(LEAST_SLOTS, math.ceil(count))
    settled = time.model_copy(update={"slots": slots})
    # what has been made of the deck does not depend on it
    return replace(loaded, deck=loaded.deck.model_copy(update={"time": settled}))


def _chosen(loaded: LoadedDeck[QuantumDeck], made: QuantumModel) -> Dissipation:
    """Return how jumps enter."""
    return loaded.once(dissipation_of) if made.jumps else Dissipation("closed")


def dissipation_of(deck: QuantumDeck) -> Dissipation:
    """Return how the jumps of a system enter, by its first values: made once by plan and build."""
    made = nominal_model(deck)
    # An ensemble has no expansion in jumps, so `auto` has no choice.
    if deck.ensemble is not None and deck.dissipation == "auto" and made.jumps:
        return Dissipation("lindblad", notice="dissipation: auto -> lindblad (an ensemble)")
    # The probability of jumps depends on the controls; the first values stand for all of the search.
    _, guess = _making(deck, made).start()
    return choose(deck.dissipation, made, duration_of(deck), guess)


def _terms(deck: QuantumDeck, made: QuantumModel) -> Terms:
    """Return what the objective subtracts beside the fluence.

    Raises
    ------
    InvalidInput
        If leakage is weighted without a gate, or the observable is mistaken.
    """
    block = deck.objective
    outside, running = None, None
    if block.leakage_weight > 0:
        if not isinstance(made.goal, GateTarget):
            text = "leakage is that of one gate alone, and the goal is none; give an observable among system.pairs"
            raise InvalidInput("objective.leakage_weight", text)
        outside = leakage_operator(made.goal.columns)
    if block.running is not None:
        running = observable_of(deck.system, block.running.observable, "objective.running.observable")
    weight = 0.0 if block.running is None else block.running.weight
    return Terms(block.leakage_weight, outside, weight, running)


def observed(deck: QuantumDeck) -> dict[str, csr_array]:
    """Return the operators whose mean values are kept, by name: made once by plan and build.

    Raises
    ------
    InvalidInput
        If a formula is mistaken.
    """
    return {
        name: observable_of(deck.system, text, f"observe.{name}", hermitian=False)
        for name, text in deck.observe.items()
    }


def _states_at(deck: QuantumDeck, made: QuantumModel) -> NDArray[np.float64]:
    """Return the times whose states are kept, in the unit of the system.

    Raises
    ------
    InvalidInput
        If a time lies outside of the run, or the states are too many.
    """
    duration = duration_of(deck)
    times = [units_of(deck.system).time(t, f"states_at.{k}") for k, t in enumerate(deck.states_at)]
    for k, t in enumerate(times):
        if not 0.0 <= t <= duration * (1.0 + LAST):
            raise InvalidInput(
                f"states_at.{k}", f"the time lies outside of 0 to time.T, by {t / duration:.4g} T"
            )
    if (size := 16.0 * len(times) * made.dimension**2) > MOST_KEPT:
        text = f"{len(times)} density matrices of {made.dimension} levels are {size / 1e9:.2g} GB; at most {MOST_KEPT / 1e9:g}"
        raise InvalidInput("states_at", text)
    return np.minimum(times, duration)


def _too_large(made: QuantumModel, columns: int, slots: int) -> str:
    """Return why density matrices are not carried, and what to do."""
    size = 16e-9 * made.dimension**2 * columns * slots
    return (
        f"{columns} density matrices of {made.dimension} levels in {slots} slots take {size:.3g} GB, at most "
        f"{MOST_BYTES / 1e9:g}; use dissipation: no_jump, or lower time.slots"
    )


def _order(deck: QuantumDeck, made: QuantumModel) -> list[Finding]:
    """Return what is wrong with the names of the controls."""
    # The deck may name the controls in another order than the system has them.
    known = [c.name for c in made.controls]
    given = [c.name for c in deck.control]
    findings = [
        Finding(f"control.{i}.name", f"the system has no control '{name}'; it has {', '.join(known)}")
        for i, name in enumerate(given)
        if name not in known
    ]
    missing = [name for name in known if name not in given]
    if missing:
        findings.append(Finding("control", f"no entry for the control {', '.join(missing)} of the system"))
    return findings


def build(loaded: LoadedDeck[QuantumDeck], device: Device) -> QuantumProblem:
    """Return the problem of a deck that `plan` has accepted."""
    problem = _one_problem(loaded, device)
    if loaded.deck.front is not None:
        problem.points = points_of(loaded, nominal_model, lambda point: _one_problem(point, device))
    return problem


def _one_problem(loaded: LoadedDeck[QuantumDeck], device: Device) -> QuantumProblem:
    """Return the problem of one search."""
    made = loaded.once(nominal_model)
    loaded = _settled(loaded, made)
    deck = loaded.deck
    slots = deck.time.count
    duration = duration_of(deck)
    chosen = _chosen(loaded, made)
    making = _making(deck, made)
    controls, guess = making.start()
    warnings, notices = [], []
    if made.jumps and chosen.search == "closed":
        warnings.append("dissipation: none leaves out the jumps of the system; P is that of a closed one")
    if chosen.notice:
        notices.append(chosen.notice)
    if deck.verify.levels == 0 and any(hasattr(part, "levels") for part in getattr(deck.system, "parts", [])):
        notices.append(
            "verify.levels is 0: the levels are the model; no error has a part of those that are left out"
        )
    for key, given in (
        ("observe: mean values over time", deck.observe),
        ("states_at: states", deck.states_at),
    ):
        if given and chosen.search in ("no_jump", "trajectories") and not chosen.finish:
            warnings.append(f"{key} need dissipation: lindblad or none; they are left out")
    search = deck.optimizer
    # The finish has no penalty: it evaluates the value alone, after the search; of an ensemble always.
    ends = chosen.finish or (deck.ensemble is not None and chosen.lossy)
    finish = SlotObjective(made, Motion(duration, slots, lindblad=True)) if ends else None
    objective = _objective(deck, made, chosen, guess, None if deck.ensemble is not None else device)
    if isinstance(objective, Unravelling) and objective.mean_jumps > MOST_JUMPS:
        warnings.append(
            f"dissipation.trajectories: {objective.mean_jumps:.3g} jumps are drawn per history on average; above "
            f"{MOST_JUMPS:g} few histories carry most weight; use lindblad where it fits, or shorten time.T"
        )
    ensemble = None
    if deck.ensemble is not None:
        members = _made_members(loaded, deck.ensemble, made)
        try:
            ensemble = made_ensemble(
                deck.ensemble,
                members,
                made,
                device,
                chosen.motion(duration, slots),
                penalties(deck, made.controls),
            )
        except InvalidInput as problem:
            loaded.raise_for([Finding(problem.key, str(problem))])
            # raise_for has raised already
            raise
    return QuantumProblem(
        begin=QuantumSearch,
        analyse=analyse,
        system=deck.system,
        model=made,
        units=made.units,
        names=tuple(term.name for term in made.controls),
        redraws=making.redraws,
        objective=objective,
        dissipation=chosen,
        finish=finish,
        controls=controls,
        guess=guess,
        times=midpoints(slots, duration),
        duration=duration,
        limits=own_limits(deck, made, controls, chosen),
        threshold=threshold_of(deck, made),
        making=making,
        optimizer=search,
        gradient_scale=gradient_scale(search, units_of(deck.system), duration / slots),
        verify=deck.verify,
        leak_tolerance=None if deck.propagator is None else deck.propagator.truncation_tolerance,
        observed=loaded.once(observed),
        states_at=_states_at(deck, made),
        warnings=warnings,
        notices=notices,
        ensemble=ensemble,
    )


def _objective(
    deck: QuantumDeck,
    made: QuantumModel,
    chosen: Dissipation,
    guess: NDArray[np.float64],
    device: Device | None,
) -> SlotObjective:
    """Return what the search maximises; of an ensemble, the nominal system on the CPU."""
    motion = chosen.motion(duration_of(deck), deck.time.count)
    alpha = penalties(deck, made.controls)
    if chosen.search == "trajectories":
        rates = rates_of(made, motion.duration, guess)
        return Unravelling(made, motion, alpha, rates, chosen.count, deck.run.seed or 0)
    terms = _terms(deck, made)
    return SlotObjective(made, motion, alpha, terms=terms, device=device)


def _making(deck: QuantumDeck, made: QuantumModel) -> Making:
    """Return what makes the controls; the paper's line search knows no box."""
    soft = deck.optimizer.type == "travolta"
    return Making(deck, made.controls, deck.run.seed or 0, soft=soft, rungs=Rungs(made))

"""The deck of ``qsim qoc`` for a quantum system that is given by its parts or by matrices, and its short forms."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from qsim.core.deck.blocks import Block, Count, Deck, Finding, PositiveCount, short_form
from qsim.qoc.deck.controls import QuantumControl, control_rules
from qsim.qoc.deck.ensemble import QuantumEnsemble
from qsim.qoc.deck.numbers import Positive
from qsim.qoc.deck.optimizers import Lbfgs, Optimizer
from qsim.qoc.deck.system import OTHERS
from qsim.qoc.deck.systems.grid import GridSystem
from qsim.qoc.deck.systems.grid2d import Grid2dSystem
from qsim.qoc.deck.systems.matrices import MatricesSystem
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.deck.systems.quantities import MomentValue, TimeValue
from qsim.qoc.deck.systems.rotor import RotorSystem

# Keys by block that a molecule has in its levels alone.
BEYOND: Mapping[str, tuple[str, ...]] = {
    "system": ("jumps", "dipoles", "polarisability", "states", "mass_scale", "potential_scale"),
    "time": ("slots",),
    "objective": ("measure", "leakage_weight", "running", "max_fluence"),
    "ensemble": ("members", "weights", "measure", "width"),
    "verify": ("levels",),
    "control": ("name", "area", "slew", "modulus", "parameters", "alpha", "fixed"),
}
BLOCKS = ("front", "dissipation", "observe", "states_at")
# Of a start or goal that is more than a level, a list or a superposition.
STATES = ("state", "psi", "rho", "level", "thermal", "file", "observable", "formula", "density", "gate")
# First values that the field of the paper has not.
GUESSES = ("gaussian", "drag", "values", "noise")
# Short forms of an ensemble, the last one fastest, and what they vary.
FACTORS = {
    "mass_scale": ("set", "mass_scale"),
    "potential_scale": ("set", "potential_scale"),
    "field_scale": ("scale", "control"),
}


def asks_for_levels(data: Mapping[str, Any]) -> bool:
    """Return True if a deck with a molecule on a grid asks for what it has in its levels alone.

    Parameters
    ----------
    data
        The deck as plain data, not validated yet.
    """
    if any(key in data for key in BLOCKS) or isinstance(data.get("control"), list):
        return True
    blocks = {name: data.get(name) for name in BEYOND}
    if any(isinstance(block, dict) and set(BEYOND[name]) & set(block) for name, block in blocks.items()):
        return True
    if _inside(data.get("optimizer"), "restarts"):
        return True
    system, guess = blocks["system"], _inside(blocks["control"], "guess")
    if (
        isinstance(guess, list)
        or _kind(guess) in GUESSES
        or _inside(blocks["objective"], "threshold") == "auto"
    ):
        return True
    pairs = _inside(system, "pairs")
    several = [pair for pair in pairs if isinstance(pair, dict)] if isinstance(pairs, list) else []
    states = [_inside(block, key) for block in (system, *several) for key in ("initial", "target")]
    return any("weight" in pair for pair in several) or any(map(_is_more, states))


def _inside(block: object, key: str) -> Any:
    return block.get(key) if isinstance(block, dict) else None


def _is_more(state: object) -> bool:
    """Return True for a state that is no level, list of levels or superposition of them."""
    if isinstance(state, dict):
        return bool(set(STATES) & set(state))
    return isinstance(state, str) or (isinstance(state, list) and any(isinstance(v, str) for v in state))


def written_out(data: dict[str, Any]) -> dict[str, Any]:
    """Return a deck with its short forms written out, as plain data."""
    system = data.get("system")
    if not isinstance(system, dict):
        return data
    kind = system.get("type", "grid")
    made = {**data, "system": {**system, "type": kind}}
    states = _inside(data.get("propagator"), "states")
    if states is not None and kind in ("grid", "grid2d"):
        made["system"].setdefault("states", states)
    if kind == "grid":
        # A molecule with one dipole may leave the control out, or give it as a block.
        control = data.get("control", {})
        made["control"] = [{"name": "field", **control}] if isinstance(control, dict) else control
        if isinstance(made["control"], list):
            made["control"] = [
                {"guess": "ladder", **one} if isinstance(one, dict) else one for one in made["control"]
            ]
    elif isinstance(data.get("control"), dict):
        made["control"] = [data["control"]]
    if isinstance(made.get("control"), list):
        made["control"] = [_with_array(one) for one in made["control"]]
    aimless = made["system"].get("target") is None and made["system"].get("pairs") is None
    if aimless and _kind(data.get("optimizer")) == "none":
        # a propagation without a goal: what is left of the norm
        made["system"]["target"] = {"observable": "1"}
    ensemble = data.get("ensemble")
    if isinstance(ensemble, dict):
        made["ensemble"] = _members(ensemble)
    return made


def _kind(block: object) -> object:
    """Return the type of a block, or of its short form."""
    return block.get("type") if isinstance(block, dict) else block


def _with_array(control: object) -> object:
    """Read an array as the first values of a control."""
    guess = _inside(control, "guess")
    if not isinstance(control, dict) or not isinstance(guess, list):
        return control
    return {**control, "guess": {"type": "values", "values": guess}}


def _members(ensemble: dict[str, Any]) -> dict[str, Any]:
    """Return an ensemble whose factors are entries of `members`."""
    rest = {key: value for key, value in ensemble.items() if key not in FACTORS}
    given = [
        {kind: {path: ensemble[name]}}
        for name, (kind, path) in FACTORS.items()
        if ensemble.get(name) is not None
    ]
    members = rest.get("members", [])
    return {**rest, "members": [*given, *members]} if given and isinstance(members, list) else rest


# Short names of keys.
ALIASES = {"T": "time.T", "fluence": "objective.max_fluence", "slots": "time.slots"}

Point = Annotated[float | str, Field(union_mode="left_to_right")]


class Front(Block):
    """One search for each value of a key, from one neighbour to the next and back; the larger result is kept."""

    over: Annotated[str, Field(min_length=1)] = Field(
        description="key of the deck, such as time.T; fluence: the largest integral of the sum of u^2",
        json_schema_extra={"example": "time.T"},
    )
    values: Annotated[list[Point], Field(min_length=2, max_length=1000)] = Field(
        description="values of the key", json_schema_extra={"example": ["10 ns", "20 ns"]}
    )
    warm_start: bool = Field(
        default=True,
        description="begin each search from the controls of its neighbour, rescaled to the same areas",
    )
    both_ways: bool = Field(
        default=True, description="go through the values forwards and backwards; needs warm_start"
    )

    @property
    def key(self) -> str:
        """The key of the deck that the values belong to."""
        return ALIASES.get(self.over, self.over)


# Types of system that this deck is for.
TYPES = OTHERS


class Slots(Block):
    """Duration and slots; every control is constant in each slot."""

    OLD_NAMES: ClassVar[Mapping[str, str]] = {"tau": "dt"}

    T: TimeValue = Field(description="duration", json_schema_extra={"example": "100 ns"})
    slots: Annotated[PositiveCount, Field(le=10_000_000)] | Literal["auto"] | None = Field(
        default=None,
        validation_alias=AliasChoices("slots", "steps"),
        description="number N of slots (steps is the same); auto: 24 in a period of the fastest transition that a control drives",
        json_schema_extra={"example": 200},
    )
    dt: TimeValue | None = Field(
        default=None,
        validation_alias=AliasChoices("dt", "tau"),
        description="length of a slot, instead of slots",
    )

    @property
    def count(self) -> int:
        """Number of slots, once it is settled."""
        assert isinstance(self.slots, int)
        return self.slots


class Running(Block):
    """A mean value that is kept small on the way."""

    observable: Annotated[str, Field(min_length=1)] = Field(
        description="Hermitian formula of operators", json_schema_extra={"example": "q.p2"}
    )
    weight: Annotated[float, Field(gt=-1e12, lt=1e12)] = Field(
        description="factor of its mean over time in J; negative to make it large",
        json_schema_extra={"example": 0.1},
    )


class QuantumObjective(Block):
    """``J = P - alpha sum_c integral u_c^2 dt - leakage_weight leak - running.weight mean``, with P the value of the goal."""

    measure: Literal["auto", "average_fidelity", "process_fidelity"] = Field(
        default="auto",
        description="value of a gate: average_fidelity (auto), over all states of the logical space, or process_fidelity",
    )
    threshold: float | Literal["auto"] = Field(
        default="auto", description="stop when P reaches this; auto: 0.99, for observables never"
    )
    combine: Literal["incoherent", "coherent"] = Field(
        default="incoherent",
        description="several pairs of states: mean of |o|^2, or |mean of o|^2 (relative phases count)",
    )
    alpha: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="fluence penalty, 1/(control^2 time)"
    )
    leakage_weight: Annotated[float, Field(ge=0, lt=1e12)] = Field(
        default=0.0, description="factor of the leakage of a gate in J"
    )
    running: Running | None = Field(default=None, description="a mean value over time that counts in J")
    max_fluence: Annotated[float, Field(gt=0, lt=1e30)] | None = Field(
        default=None, description="largest integral of the sum of u^2 of all controls that are not fixed"
    )


class Histories(Block):
    """Sampled histories with jumps."""

    count: Annotated[Count, Field(ge=8, le=10_000_000)] = Field(
        default=1000, description="histories with jumps in every evaluation"
    )


class Unravelled(Block):
    """Jumps at times that are drawn once, for systems too large for density matrices."""

    trajectories: Histories = Field(
        description="histories whose times follow a Poisson process; the result is that of other times, with its error"
    )


def _more(value: object) -> object:
    """Return the number of a text such as "+2"."""
    text = value.strip() if isinstance(value, str) else ""
    return int(text[1:]) if text.startswith("+") and text[1:].isdecimal() else value


def _checked_by(value: object) -> object:
    """Return `auto` for the propagators by which a molecule on a grid is checked: levels have one check for all."""
    return "auto" if value in ("eigenbasis", "crank_nicolson", "cn") else value


def _verify_form(value: object) -> object:
    """Read ``verify: none`` as a block."""
    if value is False:
        return {"propagator": "none"}
    return {"propagator": value} if isinstance(value, str) else value


def _by_name(value: object) -> object:
    """Read a list of formulas as formulas by their own names."""
    return {str(one): one for one in value} if isinstance(value, list) else value


class QuantumVerify(Block):
    """Independent propagation of the final controls."""

    propagator: Annotated[
        Literal["auto", "none"], BeforeValidator(_checked_by, json_schema_input_type=str)
    ] = Field(
        default="auto",
        description="auto: exponentials of each slot by another algorithm and from another generator",
    )
    levels: Annotated[Count, Field(le=20), BeforeValidator(_more, json_schema_input_type=int | str)] = Field(
        default=2,
        description="levels more per ladder or transmon, at least, for the error of the levels; 0: the levels are the model",
    )
    tolerance: Positive = Field(
        default=1e-4, description="warn when both values differ by more, or the claimed error is larger"
    )
    steps: Count | Literal["auto"] | None = Field(
        default=None, description="grid: of a check by motion on the grid, without effect in levels"
    )
    states: Count | Literal["auto"] | None = Field(
        default=None, description="grid: of a check by motion on the grid, without effect in levels"
    )
    interpolation: Literal["auto", "hold"] | None = Field(
        default=None, description="grid: the field between its values; in levels it is constant in each slot"
    )


class Levels(Block):
    """The levels of coordinates in which they move; what they leave out is in the error."""

    type: Literal["eigenbasis"]
    states: Annotated[Count, Field(ge=2, le=400)] | Literal["auto"] | None = Field(
        default=None, description="levels kept, as system.states"
    )
    truncation_tolerance: Positive | None = Field(
        default=None, description="warn when the highest two levels hold more population than this"
    )


class QuantumDeck(Deck):
    """Optimal control of any quantum system."""

    meant: ClassVar[Mapping[str, str]] = {
        "system.dissipation": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "system.lindblad*": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "system.collapse*": "dissipation is jumps: [{operator: a.sm, rate: 0.01}], or T1 and T2 of a part",
        "optimizer.type=GRAPE": "lbfgs takes the gradient that GRAPE computes",
        "optimizer.type=grape": "lbfgs takes the gradient that GRAPE computes",
    }

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "model": {
            "system": {
                "type": "model",
                "unit": "GHz",
                "parts": [
                    {"type": "transmon", "name": "q", "levels": 5, "frequency": 5.0, "anharmonicity": -0.25}
                ],
                "frame": 5.0,
                "controls": {"x": "q.x/2"},
                "initial": "0",
                "target": "1",
            }
        },
        "rotor": {
            "system": {
                "type": "rotor",
                "B": "2 cm-1",
                "dalpha": "0.7 angstrom^3",
                "initial": 0,
                "target": {"observable": "cos2"},
            },
            "time": {"T": "2 ps", "slots": 100},
            "control": [{"name": "envelope", "guess": {"type": "expression", "value": "0.005"}}],
        },
        "grid": {
            "system": {
                "type": "grid",
                "mass": 1728.468338,
                "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
                "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
                "grid": {"xmin": 1.0, "xmax": 5.0, "points": 641},
                "initial": {"thermal": "300 K"},
                "target": 1,
            },
            "time": {"T": "500 fs", "slots": "auto"},
            "control": [{"name": "field", "guess": "ladder"}],
        },
        "grid2d": {
            "system": {
                "type": "grid2d",
                "mass": [1.0, 1.3],
                "dipole": {"x": "x"},
                "grid": {name: {"min": -7.0, "max": 7.0, "points": 32} for name in "xy"},
                "states": 20,
                "initial": 0,
                "target": 1,
            },
            "time": {"T": "2 fs", "slots": 200},
        },
    }

    @model_validator(mode="before")
    @classmethod
    def _forms(cls, value: object) -> object:
        """Read the short forms: one control as a block, levels at the propagator, factors of an ensemble."""
        return written_out(value) if isinstance(value, dict) else value

    method: Literal["qoc"]
    system: Annotated[
        ModelSystem | MatricesSystem | RotorSystem | GridSystem | Grid2dSystem, Field(discriminator="type")
    ]
    time: Slots
    control: Annotated[
        list[QuantumControl],
        Field(min_length=1),
        # one control as a block, whose name a molecule may leave out
        BeforeValidator(lambda value: value, json_schema_input_type=list[QuantumControl] | dict[str, Any]),
    ] = Field(
        description="one entry per control of the system", json_schema_extra={"example": [{"name": "x"}]}
    )
    propagator: Annotated[Levels, short_form] | None = Field(
        default=None, description="grid, grid2d: the levels in which the state moves"
    )
    dissipation: Literal["auto", "none", "no_jump", "lindblad"] | Unravelled = Field(
        default="auto",
        description="jumps of the system. none: left out; no_jump: kets that lose what jumps, with the interval of one "
        "jump and more; lindblad: density matrices; auto: lindblad for small systems and where jumps are frequent, else "
        "no_jump in the search and the Lindbladian once at the end if that takes seconds",
    )
    objective: QuantumObjective = Field(default=QuantumObjective(), description="quantity to maximise")
    optimizer: Optimizer = Field(
        default=Lbfgs(type="lbfgs"), description="method of maximisation", validate_default=True
    )
    front: Front | None = Field(
        default=None, description="best value against a key: one search for each value of it"
    )
    ensemble: QuantumEnsemble | None = Field(
        default=None, description="robust control: the same controls, many systems"
    )
    observe: Annotated[
        dict[Annotated[str, Field(pattern=r"^[^/]{1,60}$")], str],
        BeforeValidator(_by_name, json_schema_input_type=dict[str, str] | list[str]),
    ] = Field(
        default={},
        description="mean values over time, t = 0 included: {name: formula of operators}, or a list of formulas",
    )
    states_at: list[MomentValue] = Field(
        default=[], description="times whose states are kept, 0 to T: rho_at, and psi_at of one ket"
    )
    verify: Annotated[
        QuantumVerify,
        BeforeValidator(_verify_form, json_schema_input_type=QuantumVerify | Literal[False, "none", "auto"]),
    ] = Field(default=QuantumVerify(), description="independent check of the result")

    @property
    def methods(self) -> set[str]:
        """Methods of the search: the first, and the one that finishes it."""
        return {self.optimizer.type, self._last}

    @property
    def _last(self) -> str:
        finish = getattr(self.optimizer, "finish", "none")
        return self.optimizer.type if finish == "none" else finish

    def check(self) -> Iterator[Finding]:
        """Yield contradictions that need no calculation."""
        if self.run.precision != "double":
            yield Finding("run.precision", "states in levels run in double precision")
        if (self.time.slots is None) == (self.time.dt is None):
            yield Finding("time.slots", "give slots (a number or auto), or dt")
        yield from self._levels()
        for key in ("steps", "states", "interpolation"):
            if getattr(self.verify, key) is not None and not isinstance(self.system, GridSystem):
                yield Finding(f"verify.{key}", "this belongs to a molecule on a grid; leave it out")
        if self.objective.combine == "coherent" and "gauss_newton" in self.methods:
            yield Finding(
                "objective.combine", "Gauss-Newton treats pairs incoherently; use optimizer lbfgs or krotov"
            )
        yield from control_rules(self.control, self.optimizer.type)
        yield from self._sampling()
        beside = self.objective.running is not None or self.objective.leakage_weight > 0
        if beside and {"krotov", "gauss_newton"} & self.methods:
            key = "objective.running" if self.objective.running is not None else "objective.leakage_weight"
            yield Finding(key, f"{self._last} knows the value of the goal alone; use lbfgs")
        random = any(
            c.guess.type in ("random", "noise") or c.parameters.type == "fourier" for c in self.control
        )
        if getattr(self.optimizer, "restarts", 0) and not random:
            text = (
                "every start would be the same; give a control guess: random or noise, or parameters: fourier"
            )
            yield Finding("optimizer.restarts", text)
        if self.optimizer.type == "krotov" and self.objective.max_fluence is not None:
            text = "Krotov's update changes one slot after another and cannot keep this; use optimizer lbfgs"
            yield Finding("objective.max_fluence", text)
        if self.front is not None and self.optimizer.type == "none":
            yield Finding("front", "a front is searched; choose an optimizer")
        yield from self._members()

    def _members(self) -> Iterator[Finding]:
        """Yield what an ensemble cannot do."""
        if self.ensemble is None:
            return
        yield from self.ensemble.check()
        if isinstance(self.dissipation, Unravelled):
            yield Finding(
                "dissipation", "an ensemble has no sampled histories; use lindblad, no_jump or none"
            )
        if self.objective.running is not None:
            yield Finding("objective.running", "an ensemble knows the value of the goal alone")
        if self.objective.leakage_weight > 0:
            yield Finding("objective.leakage_weight", "an ensemble knows the value of the goal alone")
        if self.objective.combine == "coherent":
            yield Finding("objective.combine", "an ensemble treats pairs incoherently")
        if self.objective.measure == "process_fidelity":
            yield Finding("objective.measure", "an ensemble knows the average fidelity alone")
        if {"krotov", "gauss_newton"} & self.methods:
            text = f"{self._last} knows one system; with an ensemble: lbfgs, travolta or none"
            yield Finding("optimizer.type", text)

    def _sampling(self) -> Iterator[Finding]:
        """Yield what sampled histories cannot do."""
        if not isinstance(self.dissipation, Unravelled):
            return
        if {"krotov", "gauss_newton"} & self.methods:
            yield Finding("dissipation", f"{self._last} knows no sampled histories; use lbfgs")
        if self.objective.running is not None or self.objective.leakage_weight > 0:
            yield Finding("dissipation", "sampled histories know the value of the goal alone; use lindblad")

    def _levels(self) -> Iterator[Finding]:
        """Yield what is wrong with the levels of the propagator."""
        if self.propagator is None:
            return
        if not isinstance(self.system, GridSystem | Grid2dSystem):
            yield Finding("propagator", "systems of matrices have no choice of propagators; leave it out")
        elif self.propagator.states not in (None, self.system.states):
            text = f"{self.propagator.states} levels, but system.states is {self.system.states}; give one of them"
            yield Finding("propagator.states", text)

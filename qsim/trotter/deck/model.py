"""The deck of ``qsim trotter``: spins and their couplings, an initial state, an evolution, and observables."""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, model_validator

from qsim.core.deck.blocks import Block, Deck, Finding, PositiveCount
from qsim.trotter.deck import sectors, tasks
from qsim.trotter.deck.couplings import System, are_driven
from qsim.trotter.deck.initial import Initial
from qsim.trotter.deck.lattices import Crystal, Ladder, Ring
from qsim.trotter.deck.nmr.fid import Fid, Relaxation
from qsim.trotter.deck.observe import ObservableItem
from qsim.trotter.deck.open import dissipation as open_blocks
from qsim.trotter.deck.open.steady import Steady
from qsim.trotter.initial.ising import NeelState
from qsim.trotter.observables.registry import Observables

MAX_OUTPUTS = 1_000_000
OUTPUTS = 101
# of the state at the end, where the deck has neither a step nor an accuracy
ACCURACY = 1e-8
# time after 0: the intervals of its grid stay far from the smallest double
SHORTEST = 1e-100
# relative distance of neighbours of a grid that rounding cannot interchange
CLOSEST = 1e-14

Positive = Annotated[float, Field(gt=1e-12, lt=1e12)]

# ----------------------------------------------------------------------------------- time evolution


# named outside of the block, where `list` is a key
_Times = Annotated[
    list[Annotated[float, Field(ge=0.0, lt=1e12)]], Field(min_length=1, max_length=MAX_OUTPUTS)
]


class Outputs(Block):
    """When to observe: evenly, evenly in the logarithm of time, or at given times."""

    count: Annotated[PositiveCount, Field(le=MAX_OUTPUTS)] | None = Field(
        default=None, description="number of output times, t = 0 and t_final included; by default 101"
    )
    spacing: Literal["linear", "log"] = Field(
        default="linear", description="log: t = 0, then evenly in log t from `first` to t_final"
    )
    first: Positive | None = Field(
        default=None, description="log: first time after 0; by default a thousandth of t_final"
    )
    list: _Times | None = Field(default=None, description="the output times themselves, ascending")


def _outputs_form(value: object) -> object:
    """Read ``101`` as ``{count: 101}`` and ``[0, 1, 2]`` as ``{list: [0, 1, 2]}``."""
    if isinstance(value, list):
        return {"list": value}
    whole = isinstance(value, int | float) and not isinstance(value, bool)
    return {"count": value} if whole else value


class Evolve(Block):
    """Duration, output times, integrator and its step."""

    t_final: Annotated[float, Field(ge=0.0, lt=1e12)] | None = Field(
        default=None,
        description="end of the evolution; by default the last of the listed output times",
        json_schema_extra={"example": 20.0},
    )
    outputs: Annotated[
        Outputs, BeforeValidator(_outputs_form, json_schema_input_type=Outputs | int | list[float])
    ] = Field(default=Outputs(), description="when to observe", validate_default=True)
    integrator: Literal["ts1", "ts2", "ts4", "bm4", "bm6", "kl8", "chebyshev", "krylov", "auto"] = Field(
        default="auto",
        description="ts1, ts2, ts4: Trotter-Suzuki (ts4 is the paper's); bm4, bm6: Blanes-Moan; kl8: Kahan-Li; chebyshev; "
        "krylov: Lanczos exponentials, of Magnus steps where H depends on time; auto: the cheapest for the accuracy; in a named "
        "sector of Sz ts1 to kl8 go bond by bond, with one vector in memory, on the CPU",
    )
    dt: Positive | None = Field(
        default=None,
        description="longest time step; shortened so that every output time is met",
    )
    accuracy: Annotated[float, Field(gt=1e-15, lt=1.0)] | None = Field(
        default=None,
        description="error ||psi - psi_exact|| of the state at t_final, by default 1e-8 where there is no dt; with an echo, of "
        "either of its states",
        json_schema_extra={"example": ACCURACY},
    )
    verify: bool = Field(
        default=False,
        description="repeat the last trajectory and its echoes from t = 0 with half the step, report the differences, and "
        "warn of those that were not promised; takes twice as long as the run",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_accuracy(cls, data: object) -> object:
        """Ask for the default accuracy where there is no step."""
        if isinstance(data, Mapping) and data.get("dt") is None and data.get("accuracy") is None:
            return {**data, "accuracy": ACCURACY}
        return data

    def times(self) -> list[float]:
        """Return the output times, ascending."""
        block = self.outputs
        if block.list is not None:
            return list(block.list)
        end, count = self.end, block.count or OUTPUTS
        if count == 1 or end == 0.0:
            return [end]
        if block.spacing == "linear":
            return [end * k / (count - 1) for k in range(count - 1)] + [end]
        first = self.first
        if count == 2:
            return [0.0, end]
        ratio = end / first
        return [0.0, *(first * ratio ** (k / (count - 2)) for k in range(count - 2)), end]

    @property
    def first(self) -> float:
        """The first time after 0 of a logarithmic grid."""
        return self.outputs.first if self.outputs.first is not None else 1e-3 * self.end

    @property
    def end(self) -> float:
        """End of the evolution."""
        if self.t_final is not None:
            return self.t_final
        return self.outputs.list[-1] if self.outputs.list else 0.0

    def check(self) -> Iterator[Finding]:
        """Yield contradictions between the keys."""
        yield from self._check_step()
        yield from self._check_outputs()

    def _check_step(self) -> Iterator[Finding]:
        """Yield contradictions of step, accuracy and integrator."""
        if self.dt is not None and self.accuracy is not None:
            yield Finding(
                "evolve.accuracy",
                f"give either dt or accuracy, not both: dt = {self.dt:g} fixes the step, accuracy = {self.accuracy:g} "
                "asks to find it",
            )
        elif self.integrator in ("chebyshev", "krylov") and self.dt is not None:
            reason = (
                "chebyshev has no time step" if self.integrator == "chebyshev" else "krylov finds its steps"
            )
            yield Finding("evolve.dt", f"{reason}; give accuracy, such as 1.0e-12, instead")
        elif self.integrator == "auto" and self.dt is not None:
            yield Finding(
                "evolve.integrator",
                "auto chooses by the accuracy, but dt is given; name an integrator, such as ts4, or replace dt by accuracy",
            )

    def _check_outputs(self) -> Iterator[Finding]:
        block = self.outputs
        if block.list is None and self.t_final is None:
            yield Finding("evolve.t_final", "missing key; give the end of the evolution, such as 20.0")
            return
        if self.t_final is not None and 0.0 < self.t_final < SHORTEST:
            yield Finding(
                "evolve.t_final", f"expected 0 or a time of at least {SHORTEST:.0e}, found {self.t_final:g}"
            )
            return
        yield from self._check_list(block.list) if block.list is not None else self._check_grid()

    def _check_list(self, times: list[float]) -> Iterator[Finding]:
        """Yield keys that contradict a list of output times, and the first of its times that cannot be kept."""
        block = self.outputs
        if block.count is not None:
            yield Finding("evolve.outputs.count", "give either count or list, not both")
        for key in ("spacing", "first"):
            if key in block.model_fields_set:
                yield Finding(
                    f"evolve.outputs.{key}", "goes with count; the times of a list are taken as they are"
                )
        for k, (a, b) in enumerate(pairwise(times), start=1):
            if b <= a:
                yield Finding(f"evolve.outputs.list.{k}", f"times must ascend, but {b:g} follows {a:g}")
                return
        for k, time in enumerate(times):
            if 0.0 < time < SHORTEST:
                yield Finding(
                    f"evolve.outputs.list.{k}",
                    f"expected 0 or a time of at least {SHORTEST:.0e}, found {time:g}",
                )
                return
        if self.t_final is not None and times[-1] > self.t_final * (1 + 1e-12):
            yield Finding(
                "evolve.outputs.list",
                f"the last output time {times[-1]:g} lies after t_final = {self.t_final:g}",
            )

    def _check_grid(self) -> Iterator[Finding]:
        """Yield why no grid of times begins at `first` and ends at t_final."""
        block = self.outputs
        if block.first is None:
            return
        count = block.count or OUTPUTS
        if block.spacing == "linear":
            yield Finding("evolve.outputs.first", "goes with spacing: log; linear times begin at 0")
        elif block.first >= self.end:
            yield Finding(
                "evolve.outputs.first", f"first = {block.first:g} must lie before t_final = {self.end:g}"
            )
        elif self.end - block.first < CLOSEST * count * self.end:
            yield Finding(
                "evolve.outputs.first",
                f"first = {block.first!r} lies too close to t_final = {self.end!r} for {count} different times",
            )


class Ensemble(Block):
    """Repetitions with other random numbers, of which means and errors are written."""

    disorder: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        default=1, description="realisations of the random fields and couplings"
    )
    states: Annotated[PositiveCount, Field(le=10_000_000)] = Field(
        default=1, description="random initial states of each realisation"
    )


# ---------------------------------------------------------------------------------------- the deck


# A lattice that has no name here.
BONDS = "a lattice without a name is given by its bonds: {type: pairs, list: [[j, k, J], ...]}, or by file"

# Units of other programs.  A shift of 1 ppm is a field of nu0 / 1e6 in the unit of J, which the deck has to state as a number.
UNITS = (
    "numbers have no unit here: couplings and fields are in one unit of energy of your choice, J, and times in hbar/J; with J in "
    "Hz a time of t seconds is 2 pi t"
)
PPM = "chemical shifts in ppm are a term of their own: {type: shifts, ppm: [...]}, with system.nuclei and system.spectrometer"


class TrotterDeck(Deck):
    """Exact dynamics of spins 1/2 on the state vector, of the whole space or of a sector of conserved Sz."""

    FIRST_DECKS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        # an open evolution has no echo; the blocks are those of `steady`
        "evolve": {"dissipation": None, "open": None},
        "floquet": {"floquet": {"cycle": [{"terms": [0], "time": 0.8}]}},
        "steady": {"dissipation": [{"type": "loss", "rate": 0.3}]},
        "fid": {
            "system": {
                "spins": 3,
                "nuclei": "1H",
                "spectrometer": "60 MHz",
                "terms": [
                    {"type": "shifts", "ppm": [7.27, 4.88, 4.57]},
                    {"type": "scalar", "list": [[0, 1, 13.97], [0, 2, 6.25], [1, 2, -1.58]]},
                ],
            }
        },
    }
    meant: ClassVar[Mapping[str, str]] = {
        "spectrum.sector": "sector is a key of the deck itself, beside task and spectrum",
        "system.S": "the size of the spins is 'spin'",
        "system.L": "the number of spins is 'spins'",
        "system.n": "the number of spins is 'spins'",
        "sector.S": "sectors have sz or up; task: spectrum tells the total spin of its levels",
        "observe.entropy=half": "half of the chain is {entropy: {sites: half}}",
        "observe.correlator=[0-9]*": "chosen pairs are {correlator: zz, pairs: [[0, 5]]}",
        "system.bc": "boundaries belong to the lattice of a term: ring is a periodic chain",
        "*lattice.pbc": "periodic directions are periodic: true, or [x, y]",
        "*lattice.L": "the cells are Lx and Ly (Lz)",
        "observe*momenta": "momenta of a structure factor are q",
        "observe*.sq": "S(q) is {structure_factor: zz, q: all}",
        "observe*total_spin": "levels have their total spin by themselves, with task: spectrum; see also levels.statistics",
        "system.boundary": "boundaries belong to the lattice of a term: ring is a periodic chain",
        **{f"*lattice={name}": BONDS for name in ("diamond", "hyperkagome", "lieb", "shastry*", "checkerboard", "graph")},
        "initial=[01ud]*": "up and down spins are {type: basis, bits: \"0101\"}, or up: [sites]",
        "initial.type=[01ud]*": "up and down spins are {type: basis, bits: \"0101\"}, or up: [sites]",
        "*=*[0-9]ppm": PPM,
        "*=*[0-9] ppm": PPM,
        **{f"*=*[0-9]{blank}{unit}": UNITS for unit in ("*Hz", "*eV", "K", "cm-1", "[munpf]s", "s") for blank in ("", " ")},
        "task=ground_state": "the ground state is that of task: spectrum",
        "task=ground*": "the ground state is that of task: spectrum",
        "task=dynamic*": "a state in time is task: evolve, S(q, w) is task: dynamics",
        "observe.magneti[sz]ation": "the magnetisation is sz: total, of each site sz: all",
        "observe=magneti[sz]ation": "the magnetisation is sz: total, of each site sz: all",
    }  # fmt: skip

    method: Literal["trotter"]
    system: System = Field(description="spins, couplings and fields")
    task: tasks.TASKS = Field(
        default="evolve",
        description="evolve: a state in time; spectrum: lowest or highest levels of sectors; dynamics: S(q, w) of the ground "
        "state; thermal: energy, specific heat, susceptibility and entropy against temperature; levels: all levels of a sector; "
        "floquet: a state through cycles of constant Hamiltonians; fid: lines, decay and spectrum of nuclei; "
        "steady: the state that an open system tends to",
    )
    initial: Initial = Field(
        default=NeelState(type="neel"),
        description="evolve, floquet: state at t = 0; must be given",
        json_schema_extra={"example": {"type": "neel"}},
    )
    sector: sectors.Choice = Field(default="auto")
    evolve: Evolve = Field(
        default=Evolve(),
        description="evolve: duration, output times, integrator; must be given",
        json_schema_extra={"example": {"t_final": 20.0, "accuracy": 1e-8}},
    )
    dissipation: Annotated[list[open_blocks.Dissipation], Field(max_length=100)] = Field(
        default=[],
        description="evolve, steady: jump operators of an open system",
        json_schema_extra={"example": [{"type": "loss", "rate": 0.3}]},
    )
    open: open_blocks.Open = Field(
        default=open_blocks.Open(), description="evolve: trajectories or density matrix of an open system"
    )
    steady: Steady = Field(default=Steady(), description="steady: how the steady state is found")
    spectrum: tasks.Spectrum = Field(default=tasks.Spectrum(), description="spectrum: which levels")
    dynamics: tasks.Dynamics = Field(
        default=tasks.Dynamics(),
        description="dynamics: operator, wave numbers and frequencies",
        validate_default=True,
    )
    thermal: tasks.Thermal = Field(
        default=tasks.Thermal(), description="thermal: temperatures and random vectors", validate_default=True
    )
    levels: tasks.Levels = Field(default=tasks.Levels(), description="levels: window and statistics")
    floquet: tasks.Floquet = Field(default=tasks.Floquet(), description="floquet: cycle and observations")
    fid: Fid = Field(default=Fid(), description="fid: sampling, detected nucleus, apodisation")
    relaxation: Relaxation = Field(
        default=Relaxation(), description="fid: decay of the transverse magnetisation", validate_default=True
    )
    ensemble: Ensemble = Field(
        default=Ensemble(), description="disorder realisations and random states", validate_default=True
    )
    observe: list[ObservableItem] = Field(
        default=[],
        description="what to compute beside energy, norm and total Sz",
        json_schema_extra={
            "example": [
                {"sz": "all"},
                {"correlator": "zz", "pairs": "all"},
                {"entropy": {"sites": [0, 1]}},
                {"echo": {"sigma": [{"type": "field", "axis": "x", "values": 0.05}]}},
            ]
        },
    )

    @property
    def observables(self) -> Observables:
        """The observables of the deck."""
        return Observables(self.system.spins, self.observe, self.lattice)

    @property
    def lattices(self) -> list[Any]:
        """Lattices of all terms; None for one without."""
        return [getattr(term, "lattice", None) or self.system.lattice for term in self.system.terms]

    @property
    def lattice(self) -> Any:
        """The lattice that momenta belong to: system.lattice, else that of the first term in space, or of any term."""
        if self.system.lattice is not None:
            return self.system.lattice
        named = [lattice for lattice in self.lattices if lattice is not None]
        return next((one for one in named if isinstance(one, Crystal | Ladder)), next(iter(named), None))

    @property
    def ring(self) -> bool:
        """True if a term lies on a ring."""
        return any(isinstance(lattice, Ring) for lattice in self.lattices)

    def unread(self) -> list[str]:
        """Return the blocks of the other tasks."""
        others = [name for name in get_args(tasks.TASKS) if name != self.task]
        return others if self.task in ("evolve", "floquet") else [*others, "initial"]

    @property
    def driven(self) -> bool:
        """True if a term of the system depends on time."""
        return are_driven(self.system.terms)


DECK = TrotterDeck


def references(deck: TrotterDeck) -> tuple[str, ...]:
    """Return the BibTeX keys of the algorithms that a deck uses."""
    if deck.task == "levels":
        return "qsim", "OganesyanHuse2007"
    if deck.task == "floquet":
        return "qsim", "TalEzerKosloff1984"
    if deck.task == "thermal":
        return "qsim", "JaklicPrelovsek1994"
    if deck.task == "dynamics" and deck.dynamics.method == "kpm":
        return "qsim", "WeisseEtAl2006", "Lanczos1950"
    if deck.task == "dynamics":
        return "qsim", "Lanczos1950", "GaglianoBalseiro1987"
    if deck.task == "spectrum":
        return "qsim", "Lanczos1950", "Lin1990"
    keys = ["qsim", "Dente2013"]
    if deck.evolve.integrator in ("ts4", "auto"):
        keys.append("Suzuki1990")
    if deck.evolve.integrator in ("bm4", "bm6", "auto"):
        keys.append("BlanesMoan2002")
    if deck.evolve.integrator in ("kl8", "auto"):
        keys.append("KahanLi1997")
    if deck.evolve.integrator == "chebyshev":
        keys.append("TalEzerKosloff1984")
    return tuple(keys)

"""Rules of the tasks beside an evolution: which blocks and observables go with which."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.deck.lattices import Crystal, Ladder
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.deck.nmr.rules import check_decoupled, check_relaxation
from qsim.trotter.deck.open.rules import check_steady
from qsim.trotter.deck.sectors import SectorBlock
from qsim.trotter.deck.sites import check_sites
from qsim.trotter.initial.ground import GroundState
from qsim.trotter.observables.registry import OBSERVABLES

__all__ = ["check_foreign", "check_task"]

#: Blocks of each task, beside system, sector and observe.
OF_TASK = {
    "evolve": ("initial", "evolve", "ensemble", "dissipation", "open"),
    "spectrum": ("spectrum",),
    "dynamics": ("dynamics",),
    "thermal": ("thermal",),
    "levels": ("levels", "ensemble"),
    "floquet": ("floquet", "initial"),
    "fid": ("fid", "relaxation"),
    "steady": ("steady", "dissipation"),
}


def check_foreign(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield blocks and observables that belong to another task."""
    for key in dict.fromkeys(key for keys in OF_TASK.values() for key in keys):
        if key in deck.model_fields_set and key not in OF_TASK[deck.task]:
            tasks = " or ".join(name for name, own in OF_TASK.items() if key in own)
            yield Finding(key, f"this block belongs to task: {tasks}, but the deck has task: {deck.task}")
    for index, item in enumerate(deck.observe):
        for name in item.named():
            its_tasks = OBSERVABLES[name].tasks
            if deck.task in its_tasks:
                continue
            belongs = f"belongs to task: {' or '.join(its_tasks)}"
            if deck.task != "evolve":
                own = [kind.key for kind in OBSERVABLES.values() if deck.task in kind.tasks]
                known = ", ".join(own) or "nothing beside its own block"
                belongs = f"task: {deck.task} observes {known}; {name} {belongs}"
            yield Finding(f"observe.{index}.{name}", belongs)


def check_task(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield keys that tasks other than evolve cannot have."""
    yield from check_foreign(deck)
    if deck.driven:
        yield Finding("system.terms", f"task: {deck.task} needs a constant H, but a term has a time profile")
    if deck.run.precision == "single":
        yield Finding("run.precision", f"task: {deck.task} runs in double precision")
    if deck.task == "spectrum" and deck.observe and not deck.spectrum.vectors:
        yield Finding(
            "spectrum.vectors", "what is observed needs the state; leave vectors out, or observe nothing"
        )
    if deck.task == "spectrum" and deck.observe and not deck.spectrum.gap:
        yield Finding(
            "spectrum.gap",
            "what is observed needs all states of the lowest level; leave gap out, or observe nothing",
        )
    if deck.task == "dynamics":
        yield from _check_dynamics(deck)
    if deck.task == "thermal":
        yield from _check_thermal(deck)
    if deck.task == "floquet":
        yield from _check_floquet(deck)
    if deck.task == "fid":
        yield from _check_fid(deck)
    if deck.task == "steady":
        yield from check_steady(deck)
    if deck.task == "levels" and deck.ensemble.states > 1:
        yield Finding("ensemble.states", "task: levels has no initial states; leave it out")


def _check_fid(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield what a free induction decay needs, and blocks that it cannot have."""
    system, block = deck.system, deck.fid
    if not system.isotopes:
        yield Finding("system.nuclei", "task: fid needs the isotopes of the sites, such as nuclei: 1H")
    elif block.detect is not None and block.detect not in system.isotopes:
        yield Finding(
            "fid.detect", f"no site is a {block.detect}; found {', '.join(sorted(set(system.isotopes)))}"
        )
    elif system.spectrometer is None and (block.carrier is not None or isinstance(block.width, str)):
        key = "fid.carrier" if block.carrier is not None else "fid.width"
        yield Finding(key, "ppm need the field: give system.spectrometer, such as 400 MHz or 9.4 T")
    if block.span(1.0) == 0.0:
        yield Finding("fid.width", f"must be above 0, found {block.width}")
    yield from check_relaxation(deck.relaxation, system)
    if system.nuclei is not None:
        yield from check_decoupled(block, system)
    if deck.sector != "auto":
        yield Finding("sector", "task: fid takes all sectors of Sz; leave sector out")


def _check_floquet(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield cycles with unknown, repeated or unused terms, and sectors and starts that a cycle cannot have."""
    block, count = deck.floquet, len(deck.system.terms)
    for key, missing in (
        ("floquet.cycle", not block.cycle),
        ("initial", "initial" not in deck.model_fields_set),
    ):
        if missing:
            yield Finding(key, "required key is missing")
    for k, step in enumerate(block.cycle):
        unknown = [number for number in step.terms if number >= count]
        if unknown:
            yield Finding(
                f"floquet.cycle.{k}.terms",
                f"system.terms has the numbers 0 to {count - 1}; found {unknown[0]}",
            )
        if len(set(step.terms)) < len(step.terms):
            yield Finding(f"floquet.cycle.{k}.terms", f"expected different numbers, found {step.terms}")
    unused = set(range(count)) - {number for step in block.cycle for number in step.terms}
    if block.cycle and unused:
        yield Finding(
            "floquet.cycle",
            f"system.terms.{min(unused)} is in no step of the cycle; add it, or leave the term out",
        )
    if isinstance(deck.initial, GroundState):
        yield Finding("initial.type", "task: floquet does not start from a ground state; take another state")
    elif "initial" in deck.model_fields_set:
        yield from deck.initial.check(deck.system.spins, "initial")


def _check_thermal(deck: TrotterDeck) -> Iterator[Finding]:
    block = deck.thermal.temperatures
    if not isinstance(block, list) and block.to <= block.first:
        yield Finding("thermal.temperatures.to", f"must lie above from = {block.first:g}, found {block.to:g}")
    if isinstance(deck.sector, SectorBlock) and deck.thermal.response != "auto":
        yield Finding(
            "thermal.response",
            "a field leads from the states of a sector to others; leave response out, or sector",
        )


def _check_rows(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield contradictions in local functions, and in functions of the current."""
    block = deck.dynamics
    if block.sites is not None:
        yield from check_sites(block.sites, deck.system.spins, "dynamics.sites")
    if block.sites is not None and block.operator == "current":
        yield Finding("dynamics.sites", "the current is taken over the whole chain; leave sites out")
    if "q" in block.model_fields_set:
        what = (
            "the current is taken at q = 0" if block.sites is None else "sites stand instead of wave numbers"
        )
        yield Finding("dynamics.q", f"{what}; leave q out")
    if block.operator != "current":
        return
    if deck.sector in ("full", "none"):
        yield Finding("sector", "the current of Sz is taken in a sector of Sz; use sector: auto")
    for lattice in deck.lattices:
        if isinstance(lattice, Ladder | Crystal):
            yield Finding(
                "dynamics.operator",
                f"the current runs along a chain or ring, not a lattice of type {lattice.type}",
            )


def _check_dynamics(deck: TrotterDeck) -> Iterator[Finding]:
    """Yield frequencies, methods, sectors and wave numbers that a spectral function cannot have."""
    block, spins = deck.dynamics, deck.system.spins
    if block.omega.to <= block.omega.first:
        yield Finding(
            "dynamics.omega.to", f"must lie above from = {block.omega.first:g}, found {block.omega.to:g}"
        )
    if block.method == "kpm" and "broadening" in block.model_fields_set:
        yield Finding(
            "dynamics.broadening",
            "kpm has the resolution pi R / M of its M = 2 steps + 1 moments, R half of the band width; leave broadening out, and "
            "set dynamics.steps",
        )
    if block.sites is not None or block.operator == "current":
        yield from _check_rows(deck)
    across = block.operator in ("sx", "sy") or block.unlike
    if (
        across
        and isinstance(deck.sector, SectorBlock)
        and (deck.sector.charged or not (deck.sector.parity or deck.sector.stored))
    ):
        yield Finding(
            "dynamics.operator",
            f"{block.operator} leads from one Sz to two others; use sector: auto, a parity, or a momentum without sz",
        )
    if isinstance(block.q, list) and deck.ring:
        for k, q in enumerate(block.q):
            if abs(q * spins / 2 - round(q * spins / 2)) > 1e-9:
                yield Finding(
                    f"dynamics.q.{k}",
                    f"on a ring of {spins} sites wave numbers are 2 m / {spins} (in units of pi); found {q:g}, between "
                    f"{2 * int(q * spins // 2) / spins:g} and {2 * int(q * spins // 2 + 1) / spins:g}",
                )

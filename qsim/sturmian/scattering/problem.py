"""A collision deck as numbers: grid and basis, symmetries, energies; the plan before a run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.sturmian.deck.blocks import ANGLE, AUTO, LENGTH, LESS, Ecs, SquareWell, as_list
from qsim.sturmian.deck.collision_symmetry import Asked, Sector, pairs_of, sectors_of
from qsim.sturmian.deck.symmetry import pairs as pairs_up_to
from qsim.sturmian.radial import automatic, potentials
from qsim.sturmian.radial.grid import element_bounds
from qsim.sturmian.scattering import kinematics
from qsim.sturmian.scattering.checks import contour_length, fastest, of_numbers, safe_angle
from qsim.sturmian.scattering.driven import BATCH
from qsim.sturmian.scattering.initial import Recorded, recorded, require_same
from qsim.sturmian.scattering.krylov import FIRST, RESTART
from qsim.sturmian.scattering.setup import Bound, Numbers, Setup
from qsim.sturmian.work import RESONANCE, collision_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.collision import Scatter
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.scattering.driven import Driven
    from qsim.sturmian.scattering.kinematics import Kinematics

SPINS = ("singlet", "triplet")
POINTS = 7.0  # of the shortest wave, where the elements are left to the program
MOST_ELEMENTS = 2000
ROUNDING = 1e-14  # of the residual, times the condition of the contour
LARGEST_ROUNDING = 1e-6
STEPS = 20.0  # of the iteration for a driven equation, roughly, for the choice of a device
LAUNCHES = 100.0  # of kernels in a step, likewise


@dataclass
class Problem:
    """A collision, settled.

    Attributes
    ----------
    device : Device
    asked : Asked
        Typed blocks of the deck.
    numbers : Numbers
    sectors : list of Sector
    recorded : Recorded or None
        State of another deck that the initial state has to be.
    notices : list of str
        What the deck left open and how it was settled.
    """

    device: Device
    asked: Asked
    numbers: Numbers
    sectors: list[Sector]
    recorded: Recorded | None = None
    notices: list[str] = field(default_factory=list)

    @property
    def task(self) -> Scatter:
        """The deck's task."""
        return self.asked.task

    @property
    def process(self) -> str:
        """Name of the process."""
        return self.task.process

    @property
    def wants(self) -> Sequence[str]:
        """Observables that are asked for."""
        return self.task.observables

    @property
    def errors(self) -> bool:
        """Whether coarser solutions tell the errors."""
        return self.task.errors

    @property
    def krylov(self) -> str:
        """Name of the iterative solver."""
        return self.asked.solver.krylov

    @property
    def angles(self) -> NDArray[np.float64]:
        """Angles of fdcs, degrees."""
        return np.linspace(-180.0, 180.0, self.task.angles)

    @property
    def labels(self) -> list[str]:
        """Gauges, spins or the one name of a run's columns."""
        if self.process == "photo":
            return list(dict.fromkeys(self.task.gauges))
        return list(dict.fromkeys(self.label(sector.S) for sector in self.sectors))

    def labels_of(self, sector: Sector) -> list[str]:
        """Return the columns that a sector contributes to: all gauges, or its spin."""
        return self.labels if self.process == "photo" else [self.label(sector.S)]

    def label(self, S: int) -> str:
        """Return the name of a spin."""
        return SPINS[S] if self.process == "e_h" else "born"

    def pairs(self) -> list[list[tuple[int, int]]]:
        """Return the pairs of every sector."""
        return [pairs_of(self.asked.channels, sector) for sector in self.sectors]

    @property
    def l_max(self) -> int:
        """Largest orbital momentum of a pair."""
        return max(b for pairs in self.pairs() for _, b in pairs)

    def other_pairs(self) -> list[list[tuple[int, int]]] | None:
        """Return other pairs, which tell the error of the largest momentum: up to one less, or to one more.

        None where the deck lists its pairs: then they are a model.
        """
        if self.asked.channels.pairs is not None:
            return None
        out = []
        for sector, pairs in zip(self.sectors, self.pairs(), strict=True):
            top = max(b for _, b in pairs)
            kept = [pair for pair in pairs if pair[1] < top]
            if not kept or (self.process == "e_h" and (0, sector.L) not in kept):
                kept = pairs_up_to(sector.L, top + 1, S=sector.S)
            out.append(kept)
        return out

    @property
    def beyond(self) -> float:
        """Error of the momenta that are left out over the change by `other_pairs`.

        A decay like l^-4 leaves l_max/3 times the last step after it; one step more leaves less than half of itself.
        """
        other = self.other_pairs()
        if other is None:
            return 0.0
        more = any(
            max(b for _, b in new) > max(b for _, b in own)
            for new, own in zip(other, self.pairs(), strict=True)
        )
        return max(1.5 if more else 1.0, self.l_max / 3.0)

    @property
    def scan(self) -> dict[str, list[float]]:
        """Keys and values of the convergence scans, without that of energies."""
        return self.asked.scan

    def changed(self, key: str, value: float) -> Problem:
        """Return the problem with another R, order, angle, length, N or l_max."""
        if key == "l_max":
            channels = self.asked.channels.model_copy(update={"l_max": int(value)})
            return replace(self, asked=replace(self.asked, channels=channels))
        if key in ("R", "order"):
            kind = float if key == "R" else int
            asked = replace(self.asked, grid=self.asked.grid.model_copy(update={key: kind(value)}))
            return replace(self, asked=asked, numbers=numbers_of(asked)[0])
        if key == "angle":
            return replace(self, numbers=replace(self.numbers, angle=float(value)))
        if key == "length":
            return replace(self, numbers=replace(self.numbers, length=float(value)))
        return replace(self, numbers=replace(self.numbers, sizes=(int(value),)))

    def setup(self, *, coarser: bool = False) -> Setup:
        """Return grid and operators."""
        system = self.asked.system
        numbers = self.numbers.coarser(float(system.Z)) if coarser else self.numbers
        return Setup(self.device, numbers, float(system.Z), potentials.OneBody(system.potential, system.Z))

    def initial(
        self, setup: Setup, poll: Callable[[], None], tolerance: float, *, other: bool = False
    ) -> Bound:
        """Return the bound state that the collision begins with, on the grid of a setup.

        Parameters
        ----------
        setup : Setup
        poll : callable
            Called after every step.
        tolerance : float
            Largest residual, hartree.
        other : bool
            With other pairs as in `other_pairs`.
        """
        block = self.asked.initial
        l_max = block.l_max if block.l_max is not None else max(self.l_max, block.L)
        if other:
            l_max = l_max - 1 if l_max > block.L else l_max + 1
        pairs = pairs_up_to(block.L, l_max, S=block.S)
        found = setup.bound(block.L, block.S, block.root, pairs, max(tolerance, 1e-12), poll)
        if self.recorded is not None:
            require_same(self.recorded, found, setup.grid)
        return found

    def energies(self) -> list[float]:
        """Return the energies of the deck, hartree: of the impact, the excess, or of both electrons."""
        return list(self.asked.energies)

    def kinematics(self, setup: Setup, initial: Bound | None) -> list[Kinematics]:
        """Return the kinematics of every energy."""
        task = self.task
        if self.process == "e_h":
            level, _ = setup.target()
            return [kinematics.electron(energy, level) for energy in self.energies()]
        assert initial is not None
        if self.process == "photo":
            return [kinematics.photon(excess, initial.energy) for excess in self.energies()]
        assert task.incident is not None
        assert task.q is not None
        try:
            return [kinematics.fast(task.incident, task.q, E, initial.energy) for E in self.energies()]
        except ValueError as error:
            raise NumericsError(f"task.q: {error}", hint="another task.q or task.incident") from error

    def ejected(self, kin: Kinematics) -> tuple[float, float] | None:
        """Return the energies of the two electrons of fdcs, hartree; None where it is not asked for."""
        if "fdcs" not in self.wants:
            return None
        if self.task.ejected is None:
            return 0.5 * kin.E, 0.5 * kin.E
        first, second = self.task.ejected
        return first, second

    def group(self, point: int) -> int:
        """Return the number of the set of functions of an energy: all energies share one, or each has its own."""
        return 0 if self.numbers.whole or self.numbers.energy is not None else point

    def batches(self, pairs: int, *, coarser: bool = False) -> list[tuple[int, ...]]:
        """Return the energies that are solved together, by number: those that share functions and fit into memory."""
        numbers = self.numbers.coarser(float(self.asked.system.Z)) if coarser else self.numbers
        vector = 16.0 * pairs * numbers.points(float(self.asked.system.Z)) ** 2
        most = max(1, int(BATCH / (RESTART * vector)))
        count = len(self.asked.energies)
        out: list[tuple[int, ...]] = []
        for group in dict.fromkeys(self.group(i) for i in range(count)):
            own = [i for i in range(count) if self.group(i) == group]
            out += [tuple(own[start : start + most]) for start in range(0, len(own), most)]
        return out

    def rounding(self, operator: Driven) -> float:
        """Return the residual that the condition of the contour allows."""
        worst = max(orbital.condition for orbital in operator.orbitals.values())
        return min(LARGEST_ROUNDING, ROUNDING * worst)


def numbers_of(asked: Asked) -> tuple[Numbers, list[str]]:
    """Return grid and basis as numbers, and what was settled.

    Raises
    ------
    InvalidInput
        If something cannot be settled.
    """
    notices: list[str] = []
    block, basis = asked.grid, asked.basis
    bounds = block.bounds
    R = bounds[-1] if bounds else block.R
    if isinstance(R, str):
        R = _radius(asked)
        notices.append(f"grid.R: auto is {R:g} bohr")
    ecs = Ecs() if block.ecs is None else block.ecs
    elements: int | tuple[float, ...] | None = None
    if bounds is not None:
        elements = tuple(bounds)
    elif isinstance(block.elements, int):
        elements = block.elements
    else:
        elements, text = _elements(asked, float(R))
        notices += [text] if text else []
    numbers = Numbers(float(R), block.order, ecs.usual, ecs.reach, elements)
    if (
        ecs.angle == AUTO and basis is None
    ):  # few functions of many points have eigenvectors of a small condition
        numbers = replace(numbers, angle=min(ANGLE, safe_angle(numbers.points(float(asked.system.Z)))))
    if ecs.length == AUTO:
        numbers = replace(numbers, length=max(LENGTH, contour_length(asked, numbers.angle)))
    if AUTO in (ecs.angle, ecs.length):
        notices.append(f"grid.ecs: a contour of {numbers.length:g} bohr at {numbers.angle:g} rad")
    if basis is None:
        return numbers, notices + ([] if asked.settled else ["basis: the whole grid (fedvr)"])
    well = basis.generating
    if not isinstance(well, SquareWell):
        raise InvalidInput(
            "basis.generating.type",
            f"functions of the generating potential {well.type} do not hold outgoing waves of other energies, and converge to "
            "wrong cross sections; give square_well with a tail, or basis: fedvr",
        )
    energy = None if basis.energy in ("total", "auto") else float(basis.energy)
    made = Numbers(
        numbers.R,
        numbers.order,
        numbers.angle,
        numbers.length,
        numbers.elements,
        tuple(as_list(basis.N)),
        None if isinstance(well.r0, str) else float(well.r0),
        float(well.tail),
        energy,
    )
    return made, notices


def _elements(asked: Asked, R: float) -> tuple[int | None, str]:
    """Return the number of elements that resolves the fastest wave, None where the usual widths do, and what was settled."""
    k_max = fastest(asked)
    if k_max is None:
        return None, ""
    widest = (asked.grid.order - 1) * 2.0 * np.pi / (k_max * POINTS)
    usual = element_bounds(R, float(asked.system.Z))
    count = usual.size - 1
    if np.diff(usual).max() <= widest:
        return None, ""
    while (
        count < MOST_ELEMENTS
        and np.diff(element_bounds(R, float(asked.system.Z), elements=count)).max() > widest
    ):
        count += 1
    return count, f"grid.elements: {count}, {POINTS:g} points for the shortest wave"


def _radius(asked: Asked) -> float:
    """Return a box that holds the n = 3 level of the charge that stays, and several waves of a slow electron."""
    charge = max(potentials.OneBody(asked.system.potential, asked.system.Z).charge, 1.0)
    slowest = min([*(asked.energies if asked.task.process == "photo" else ()), 1.0])
    radius = max(40.0, 60.0 / charge, 30.0 / np.sqrt(2.0 * slowest))
    need = automatic.radius(automatic.ionisation(charge, 0, 0), asked.system.Z)
    return float(np.ceil(max(radius, need)))


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory of a collision, and check its physics."""
    asked = Asked.of(loaded.deck)
    try:
        recorded(asked)
        numbers, _ = numbers_of(asked)
        grid = numbers.bounds(float(asked.system.Z))
        findings = [*of_numbers(asked, numbers, grid), *_scanned(asked)]
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    sectors = sectors_of(loaded.deck)
    points = numbers.points(float(asked.system.Z))
    counts = [len(pairs_of(asked.channels, sector)) for sector in sectors]
    P, tops = max(counts), {b for sector in sectors for _, b in pairs_of(asked.channels, sector)}
    size = points if numbers.whole else max(numbers.sizes)
    batch = max(1, len(asked.energies))
    vector = 16 * P * size * size
    parts = {
        "one-electron functions": 16 * (max(tops) + 1) * points * (points + 2 * size),
        "repulsion kernels": 16 * (2 * max(tops) + 1) * points**2,
        "directions of the solver": _directions(asked)
        * min(batch, max(1, int(BATCH / (RESTART * vector))))
        * vector,
        "functions on the product grid": 16 * 4 * 2 * P * points**2 * batch,
        "solutions that others start from": 16 * P * points**2 * batch * _kept(asked),
    }
    if asked.solver.type == "dense":
        parts["matrix"] = 2 * 16 * (P * size * size) ** 2
    sizes: dict[str, int | float | str] = {
        "grid points": points,
        "R (bohr)": numbers.R,
        "pairs": P,
        "unknowns": P * size * size,
        "symmetries": len(sectors),
        "energies": batch,
    }
    host = parts["one-electron functions"]
    return Plan(
        memory=Memory(
            host=host,
            device=sum(parts.values()) - host,
            parts=parts,
            reduce=LESS if "matrix" in parts else "grid.R",
            # the search for an initial state or a resonance calls the library of eigenvalues besides
            library="cublas" if asked.task.process == "e_h" else "cusolver, complex",
        ),
        sizes=sizes,
        steps=0,
        findings=findings,
        work=_work(asked, numbers, counts, tops, points),
        ranks=_ranks(asked, len(sectors)),
        shared="symmetries and energies",
    )


def _work(asked: Asked, numbers: Numbers, counts: list[int], tops: set[int], points: int) -> Work:
    """Return the least work, a product with the matrix for each energy and symmetry; and about the time."""
    size, batch = points if numbers.whole else max(numbers.sizes), max(1, len(asked.energies))
    resonances = asked.task.process == "resonances"
    sources = len(asked.task.gauges) if asked.task.process == "photo" else 1
    rounds = 1 + bool(asked.task.errors) + (0 if resonances else sum(len(v) for v in asked.scan.values()))
    found = collision_seconds(
        float(sum(counts)) * batch * sources,
        points,
        size,
        rounds=rounds,
        ls=max(tops) + 1,
        resonances=resonances,
        dense=0.5 * max(counts) * size * size if asked.solver.type == "dense" else 0.0,
    )
    # functions of one electron to its grid and back
    steps = STEPS * (RESONANCE if resonances else 1.0) * sources * rounds * len(counts)
    return Work(
        dense=4.0 * float(sum(counts)) * size**2 * points * batch,
        reduce="channels.l_max",
        core=found.all,
        lanes=float(max(counts)) * size**2 * (1 if resonances else batch),
        launches=LAUNCHES * steps,
        host=found.host,
    )


def _directions(asked: Asked) -> int:
    """Return the directions that the solver keeps: few where the target can be ionised, all where it can be excited alone."""
    task = asked.task
    if task.process == "resonances":  # a shift close to an eigenvalue takes more steps than FIRST
        return FIRST + RESTART // 3
    bound = task.process == "e_h" and any(
        kinematics.electron(energy, -0.5 * float(asked.system.Z) ** 2).E < 0.0 for energy in asked.energies
    )
    return FIRST + RESTART if bound else FIRST


def _ranks(asked: Asked, sectors: int) -> int:
    """Return how many processes can share the equations: symmetries and energies of the deck, of its errors and of its scans."""
    if asked.task.process == "resonances":
        return 1
    rounds = 1 + bool(asked.task.errors) + sum(len(values) for values in asked.scan.values())
    return max(1, sectors * len(asked.energies) * rounds)


def _kept(asked: Asked) -> int:
    """Return the number of solutions of one symmetry and energy that are kept: gauges, and twice that for the errors."""
    gauges = len(asked.task.gauges) if asked.task.process == "photo" else 1
    errors = asked.task.errors and asked.task.process != "resonances"
    if errors:
        return 2 * gauges
    return gauges if gauges > 1 else 0


def _scanned(asked: Asked) -> Iterator[Finding]:
    """Yield what scanned boxes and grids do to the waves; a scan may begin with too coarse a grid, or with too few functions."""
    kinds = {"R": float, "order": int}
    for key in kinds:
        for k, value in enumerate(asked.scan.get(key, [])):
            changed = replace(asked, grid=asked.grid.model_copy(update={key: kinds[key](value)}), basis=None)
            numbers, _ = numbers_of(changed)
            for finding in of_numbers(changed, numbers, numbers.bounds(float(asked.system.Z))):
                severity = "warning" if finding.key == "grid.order" else finding.severity
                yield Finding(f"scan.{key}.{k}", finding.message, severity)


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem:
    """Settle a collision deck."""
    asked = Asked.of(loaded.deck)
    numbers, notices = numbers_of(asked)
    return Problem(device, asked, numbers, sectors_of(loaded.deck), recorded(asked), notices)

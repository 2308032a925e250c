"""From the deck to a problem: radial grid, potentials, parameters of the basis, symmetries, functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.run.stages import Plan
from qsim.core.run.work import Work
from qsim.sturmian import checks as limits
from qsim.sturmian import memory
from qsim.sturmian.deck.blocks import LESS, FeDvr, Gsf, as_list
from qsim.sturmian.deck.collision import Scatter
from qsim.sturmian.deck.symmetry import exchange_sign, sectors, states_of
from qsim.sturmian.deck.symmetry import sectors as symmetries
from qsim.sturmian.problem import Problem, Sector, sectors_of
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.parameters import Radial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device, Memory
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.scattering.problem import Problem as Collision

PLAN_WORK = 3e7  # cubes of the radial functions of the bases that the plan computes, to find mistakes early; some 0.2 s
PRODUCTS = 60.0  # with H for a root, roughly, for the choice of a device
LAUNCHES = 100.0  # of kernels in a product, likewise
COMPLEX_WORK = 30.0  # times that of a real symmetric eigenproblem, of a complex general one


# ---------------------------------------------------------------------------------------------- plan


def plan(loaded: LoadedDeck[SturmianDeck]) -> Plan:
    """Estimate sizes and memory, and check the physics; nothing large is allocated, and no basis made that takes long."""
    deck = loaded.deck
    if deck.task.type == "scatter":
        from qsim.sturmian.scattering.problem import plan as collision

        return collision(loaded)
    try:
        values = loaded.once(parameters.resolve)
        points = parameters.grid_size(Radial.of(deck), values)
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    found = sectors_of(sectors(deck), deck.channels, values.l_max)
    sizes, needed = _estimate(deck, values, points, found)
    findings = list(limits.of_numbers(deck, values, points))
    if not any(finding.severity == "error" for finding in findings):
        findings += _faults(deck, _split(_trials(deck, values, found))[0])
    work = _work(deck, values, points, found)
    return Plan(
        memory=needed,
        sizes=sizes,
        steps=0,
        findings=findings,
        work=work,
        ranks=_ranks(deck, found),
        shared="pairs of momenta and scanned values",
    )


def _points(deck: SturmianDeck) -> int:
    """Return how many solutions beside the states themselves a deck asks for, which ranks can share."""
    if deck.task.type != "bound":
        return 0
    waves = 0 if deck.extrapolate is None else len(deck.extrapolate.l_max)
    return waves + (0 if deck.scan is None else sum(map(len, deck.scan.given().values())))


def _ranks(deck: SturmianDeck, sectors: list[Sector]) -> int:
    """Return how many processes can share a deck: pairs of a product, blocks of a matrix, or solutions beside the states."""
    if deck.task.type != "bound":
        return 1
    pairs = max((len(sector.pairs) for sector in sectors), default=1)
    shared = pairs * (pairs + 1) // 2 if deck.solver.type == "dense" else pairs
    return max(1, shared, _points(deck))


def _work(deck: SturmianDeck, values: parameters.Values, points: int, sectors: list[Sector]) -> Work:
    """Return the least work of bound states: a product of H for each root, or the eigenvalues of a dense matrix; and the time."""
    from qsim.sturmian import work

    if deck.task.type != "bound":
        finer = memory.finer(deck, values)
        if deck.task.type == "integrals":
            largest = max([values.size(0, points), *(deck.task.N or [])])
            found = work.integrals_seconds(deck, points, finer, values.size(0, points))
            launches = LAUNCHES * len(deck.task.routes) * len(as_list(deck.task.l)) * len(deck.task.N or [0])
            return Work(core=found.all, lanes=float(largest) ** 4, launches=launches, host=found.host)
        once = work.basis_seconds(deck, points, finer, len(_momenta(deck, sectors)))
        return Work(core=once, lanes=float(points), host=once)
    flops = 0.0
    for sector in sectors:
        if deck.solver.type == "dense":  # tridiagonal form
            flops += 4.0 / 3.0 * float(unknowns(values, sector, points)) ** 3
            continue
        functions = min((values.size(l, points) for pair in sector.pairs for l in pair), default=0)
        flops += (
            len(sector.roots) * 2.0 * len(sector.pairs) * float(points) * functions * (points + functions)
        )
    solutions = (
        (
            changed,
            sectors if kind == "states" else sectors_of(symmetries(deck), deck.channels, changed.l_max),
            kind == "states",
        )
        for changed, kind in _solutions(deck, values, sectors)
    )
    sizes = [unknowns(values, sector, points) for sector in sectors]
    counted = work.bound_seconds(deck, solutions, sizes)
    return Work(
        dense=flops,
        reduce="channels.l_max",
        core=counted.all,
        host=counted.host,
        lanes=float(max(sizes, default=0)),
        launches=LAUNCHES * PRODUCTS * max(1, _points(deck)),
    )


def _momenta(deck: SturmianDeck, sectors: list[Sector]) -> list[int]:
    """Return the orbital momenta of the functions of a run, ascending."""
    if deck.task.type == "basis" and deck.task.l is not None:
        return sorted(as_list(deck.task.l))
    return sorted({l for sector in sectors for pair in sector.pairs for l in pair})


class _Trial(NamedTuple):
    """A basis that the run will need: where the deck asks for it, its values, momenta, and operations to make it."""

    key: str
    values: parameters.Values
    ls: list[int]
    work: float


def _trials(deck: SturmianDeck, values: parameters.Values, sectors: list[Sector]) -> Iterator[_Trial]:
    """Yield the bases of the deck and of its scans, each with the functions of the lowest and of the highest l."""
    ls = _momenta(deck, sectors)
    tried = sorted({ls[0], ls[-1]})

    def trial(key: str, changed: parameters.Values) -> _Trial:
        points = parameters.grid_size(Radial.of(deck), changed)
        work = len(tried) * float(points) ** 3 if isinstance(deck.basis, Gsf) else float(points) ** 2
        return _Trial(key, changed, tried, work * (COMPLEX_WORK if deck.grid.ecs is not None else 1.0))

    yield trial("", values)
    if deck.task.type != "bound" or deck.scan is None or not isinstance(deck.basis, Gsf):
        return
    for key, scanned in deck.scan.given().items():
        for k, value in enumerate(scanned):
            if key != "l_max" and (key != "N" or value == max(scanned)):  # the longest list holds the others
                yield trial(f"scan.{key}.{k}", values.changed(**{key: value}))


def _split(trials: Iterable[_Trial]) -> tuple[list[_Trial], list[_Trial]]:
    """Return the trials that are cheap enough for the plan, and those that are left to the build."""
    cheap: list[_Trial] = []
    costly: list[_Trial] = []
    spent = 0.0
    for trial in trials:
        if spent + trial.work <= PLAN_WORK:
            spent += trial.work
            cheap.append(trial)
        else:
            costly.append(trial)
    return cheap, costly


def _faults(deck: SturmianDeck, trials: Iterable[_Trial]) -> Iterator[Finding]:
    """Yield what the functions show that cannot be had."""
    for trial in trials:
        try:
            _try(deck, trial.values, trial.ls)
        except InvalidInput as error:
            yield Finding(trial.key or error.key, str(error))
            if not trial.key:
                return


def _try(deck: SturmianDeck, values: parameters.Values, ls: list[int]) -> None:
    """Compute grid, potential and functions, which raises `InvalidInput` if they cannot be had."""
    radial = Radial.of(deck)
    grid = parameters.radial_grid(radial, values)
    parameters.one_body(radial, grid)
    if isinstance(deck.basis, Gsf):
        for l in ls:
            parameters.sturmians(radial, values, grid, l, values.size(l, grid.size))


def unknowns(values: parameters.Values, sector: Sector, points: int) -> int:
    """Return the number of coefficients of a state that exchange symmetry leaves free."""
    total = 0
    for la, lb in sector.pairs:
        Na, Nb = values.size(la, points), values.size(lb, points)
        same = Na * (Na + exchange_sign(la, lb, sector.L, sector.S)) // 2
        total += same if la == lb else Na * Nb
    return total


def _estimate(
    deck: SturmianDeck, values: parameters.Values, points: int, sectors: list[Sector]
) -> tuple[dict[str, int | float | str], Memory]:
    pairs = max((len(sector.pairs) for sector in sectors), default=0)
    biggest, on_gpu = values.size(0, points), 0
    sizes: dict[str, int | float | str] = {"grid points": points, "R (bohr)": values.R}
    if values.energy is not None:
        sizes |= {"functions of l = 0": biggest, "energy (hartree)": values.energy}
    if values.alpha is not None:
        sizes["alpha (1/bohr)"] = values.alpha
    if deck.task.type == "bound":
        size = max((unknowns(values, sector, points) for sector in sectors), default=0)
        sizes |= {"pairs": pairs, "unknowns": size, "states": sum(len(s.roots) for s in sectors)}
        if deck.solver.type != "dense":
            product = pairs * 4.0 * points * biggest * (points + biggest)
            sizes["flop of H x"] = product + 4.0 * pairs**2 * float(points) ** 2
        parts, on_gpu = memory.largest(_stages(deck, values, sectors))
    elif deck.task.type == "integrals":
        sizes["integrals"] = max([biggest, *(deck.task.N or [])]) ** 4
        parts = memory.integrals(deck, values, points, biggest)
    else:
        given = getattr(deck.task, "l", None)
        ls = sorted({l for sector in sectors for pair in sector.pairs for l in pair})
        parts = memory.basis(deck, values, ls if given is None else as_list(given))
    keys = {"bound": "channels.l_max" if pairs > biggest else "basis.N", "integrals": "basis.N"}
    reduce = keys.get(deck.task.type, "grid.R")
    if isinstance(deck.basis, FeDvr) or points > 20 * max(biggest, 1):
        reduce = "grid.R"
    if deck.task.type == "bound" and deck.solver.type == "dense":
        reduce = LESS
    return sizes, memory.as_memory(parts, reduce, kernels=deck.task.type != "basis", on_gpu=on_gpu)


def _stages(deck: SturmianDeck, values: parameters.Values, own: list[Sector]) -> Iterator[dict[str, int]]:
    """Yield the memory of every solution: the deck's own states, their relaxation, partial waves, scans."""
    top = None if deck.extrapolate is None else max(deck.extrapolate.l_max)
    has = {sector.symmetry: set(sector.pairs) for sector in own}
    for changed, kind in _solutions(deck, values, own):
        points = parameters.grid_size(Radial.of(deck), changed)
        elements = parameters.bounds_of(Radial.of(deck), changed).size - 1
        for sector in own if kind == "states" else sectors_of(sectors(deck), deck.channels, changed.l_max):
            if not sector.pairs:
                continue
            functions = max(changed.size(l, points) for pair in sector.pairs for l in pair)
            size = memory.Size.of(sector.pairs, points, functions, max(sector.roots) + 1)
            count = unknowns(changed, sector, points)
            more = not has[sector.symmetry] >= set(sector.pairs)
            rough = kind == "partial" and more
            if deck.solver.type == "dense" and not rough:
                yield memory.dense(size, count)
            else:
                yield memory.davidson(size, memory.ROUGH_VECTORS * size.roots if rough else max(count, 1))
            if kind == "states" or (more and changed.l_max == top):
                yield memory.relaxation(size, elements, values.order)


def _solutions(
    deck: SturmianDeck, values: parameters.Values, sectors: list[Sector]
) -> Iterator[tuple[parameters.Values, str]]:
    """Yield the values of all solutions of a run and what they are: states, partial waves, or a scan."""
    from qsim.sturmian.tasks.bound import satellites

    yield values, "states"
    partial: set[int] = set()
    if deck.extrapolate is not None:
        partial = set(deck.extrapolate.l_max)
    elif deck.channels.pairs is None:
        partial = {l for sector in sectors if sector.pairs for l in satellites(sector.pairs)}
    kind = "partial" if deck.extrapolate is None else "scan"
    for l_max in sorted(partial):
        yield values.changed(l_max=l_max), kind
    for key, scanned in ({} if deck.scan is None else deck.scan.given()).items():
        for value in scanned:
            yield values.changed(**{key: value}), "scan"


# --------------------------------------------------------------------------------------------- build


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem | Collision:
    """Set up grid, potential and symmetries, and try the bases that were too much work for the plan."""
    if loaded.deck.task.type == "scatter":
        from qsim.sturmian.scattering.problem import build as collision

        return collision(loaded, device)
    try:
        problem = _problem(loaded, device)
        _, costly = _split(_trials(loaded.deck, problem.values, problem.sectors))
        if costly and not costly[0].key and problem.is_gsf:
            for l in costly.pop(0).ls:
                problem.functions(l)
        loaded.raise_for(list(_faults(loaded.deck, costly)))
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        raise NumericsError(str(error)) from error  # raise_for has raised already
    problem.notices += problem.values.notices
    return problem


def _problem(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem:
    deck, task, radial = loaded.deck, loaded.deck.task, Radial.of(loaded.deck)
    assert not isinstance(task, Scatter)
    values = loaded.once(parameters.resolve)
    grid = parameters.radial_grid(radial, values)
    wanted = sectors(deck)
    return Problem(
        device=device,
        radial=radial,
        values=values,
        channels=deck.channels,
        wanted=wanted,
        order=states_of(deck),
        task=task,
        solver=deck.solver,
        extrapolate=[] if deck.extrapolate is None else list(deck.extrapolate.l_max),
        scan={} if deck.scan is None else deck.scan.given(),
        refuse=loaded.raise_for,
        grid=grid,
        V=parameters.one_body(radial, grid),
        sectors=sectors_of(wanted, deck.channels, values.l_max),
    )

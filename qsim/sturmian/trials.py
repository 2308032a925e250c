"""Problems of radial functions, and the bases that a run will need, tried out before it begins.

A basis that cannot be had (more functions than are independent, a potential that overflows) is a mistake in the deck.  The plan
finds it as long as the bases are cheap to make; the rest is tried by the build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qsim.core.deck.blocks import Finding
from qsim.core.errors import InvalidInput, NumericsError
from qsim.sturmian import checks
from qsim.sturmian.deck.blocks import Gsf, as_list
from qsim.sturmian.deck.collision import Scatter
from qsim.sturmian.deck.response import Response
from qsim.sturmian.deck.response_rules import waves
from qsim.sturmian.deck.symmetry import pairs, states_of
from qsim.sturmian.deck.symmetry import sectors as symmetries
from qsim.sturmian.problem import Problem, Sector, sectors_of
from qsim.sturmian.radial import parameters
from qsim.sturmian.radial.parameters import Radial

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device
    from qsim.sturmian.deck.model import SturmianDeck

# Sum of the cubes of the grid sizes up to which the plan computes bases, to find mistakes early; some 0.2 s.
PLAN_WORK = 3e7
# Work of a complex general eigenproblem over a real symmetric one.
COMPLEX_WORK = 30.0


class Settled(NamedTuple):
    """Parameters, grid points and symmetries of a deck, with what is wrong with them."""

    values: parameters.Values
    points: int
    sectors: list[Sector]
    findings: list[Finding]


def settle(loaded: LoadedDeck[SturmianDeck]) -> Settled:
    """Settle what the deck leaves open and check it; nothing large is allocated, and no basis made that takes long.

    Raises
    ------
    InvalidInput
        If something cannot be settled.
    """
    deck = loaded.deck
    values = loaded.once(parameters.resolve)
    points = parameters.grid_size(Radial.of(deck), values)
    sectors = _sectors(deck, values)
    findings = list(checks.physics(deck, values, points))
    if not any(finding.severity == "error" for finding in findings):
        findings += _faults(deck, _split(_trials(deck, values, sectors))[0])
    return Settled(values, points, sectors, findings)


def build(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem:
    """Set up grid, potential and symmetries, and try the bases that were too much work for the plan."""
    try:
        problem = _problem(loaded, device)
        _, costly = _split(_trials(loaded.deck, problem.values, problem.sectors))
        if costly and not costly[0].key and problem.is_gsf:
            for l in costly.pop(0).ls:
                problem.functions(l)
        loaded.raise_for(list(_faults(loaded.deck, costly)))
    except InvalidInput as error:
        loaded.raise_for([Finding(error.key, str(error))])
        # raise_for has raised already
        raise NumericsError(str(error)) from error
    problem.notices += problem.values.notices
    return problem


def _problem(loaded: LoadedDeck[SturmianDeck], device: Device) -> Problem:
    """Return the problem of a deck with its grid and potential, before any function is made."""
    deck, task, radial = loaded.deck, loaded.deck.task, Radial.of(loaded.deck)
    assert not isinstance(task, Scatter)
    values = loaded.once(parameters.resolve)
    grid = parameters.radial_grid(radial, values)
    wanted = symmetries(deck)
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
        sectors=_sectors(deck, values),
    )


def _sectors(deck: SturmianDeck, values: parameters.Values) -> list[Sector]:
    """Return the sectors of a deck; those of a response hold the largest momenta of its first-order functions."""
    wanted = symmetries(deck)
    if not isinstance(deck.task, Response):
        return sectors_of(wanted, deck.channels, values.l_max)
    top = waves(deck)[-1] + max(deck.task.multipoles)
    return [
        Sector(L, S, parity, tuple(pairs(L, top + L, parity=parity)), tuple(sorted(roots)))
        for (L, S, parity), roots in wanted.items()
    ]


def momenta(deck: SturmianDeck, sectors: list[Sector]) -> list[int]:
    """Return the orbital momenta of the functions of a run, ascending."""
    if deck.task.type == "basis" and deck.task.l is not None:
        return sorted(as_list(deck.task.l))
    return sorted({l for sector in sectors for pair in sector.pairs for l in pair})


class _Trial(NamedTuple):
    """A basis that the run will need: its place in the deck, its values, momenta, and operations to make it."""

    key: str
    values: parameters.Values
    ls: list[int]
    work: float


def _trials(deck: SturmianDeck, values: parameters.Values, sectors: list[Sector]) -> Iterator[_Trial]:
    """Yield the bases of the deck and of its scans, each with the functions of the lowest and of the highest l."""
    ls = momenta(deck, sectors)
    # Functions of the lowest and of the highest l are the extremes: what fails in between fails
    # in one of them.
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
            # the longest list holds the others
            if key != "l_max" and (key != "N" or value == max(scanned)):
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
    """Yield a mistake for each basis that cannot be made."""
    for trial in trials:
        try:
            _try(deck, trial.values, trial.ls)
        except InvalidInput as error:
            yield Finding(trial.key or error.key, str(error))
            if not trial.key:
                return


def _try(deck: SturmianDeck, values: parameters.Values, ls: list[int]) -> None:
    """Compute grid, potential and functions; raise `InvalidInput` if they cannot be made."""
    radial = Radial.of(deck)
    grid = parameters.radial_grid(radial, values)
    parameters.one_body(radial, grid)
    if isinstance(deck.basis, Gsf):
        for l in ls:
            parameters.sturmians(radial, values, grid, l, values.size(l, grid.size))

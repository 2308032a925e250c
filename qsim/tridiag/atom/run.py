"""An atom as one motion sees it: its propagation, in batches on a GPU, and the analysis of its end.

With ``grid.l_max: auto`` the number of angular momenta grows, with ``grid.rmax: auto`` and without an absorber the number of
points: by what the last of them hold at certain steps.
"""

from __future__ import annotations

import time as clock
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.run.checkpoint import fitting
from qsim.tridiag.atom import accuracy
from qsim.tridiag.atom.evolution.cuda import CudaBatch, CudaMember, Stepping, merged
from qsim.tridiag.atom.evolution.propagator import truncated
from qsim.tridiag.atom.photoelectrons import directions as electrons
from qsim.tridiag.atom.photoelectrons import surface
from qsim.tridiag.atom.problem import enough
from qsim.tridiag.atom.resonance import search as resonance
from qsim.tridiag.atom.result import QUANTITIES, AtomResult, unpacked
from qsim.tridiag.atom.states import observables
from qsim.tridiag.atom.states.levels import bound_population
from qsim.tridiag.deck.atom import AtomObserved, AtomPopulations
from qsim.tridiag.tdse import step_search
from qsim.tridiag.tdse.motion import Evolution, Geometry, Row
from qsim.tridiag.tdse.photoelectrons import of_companion
from qsim.tridiag.tdse.run import analyse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.atom.evolution.cuda import AnyPropagator
    from qsim.tridiag.atom.problem import AtomProblem
    from qsim.tridiag.tdse.photoelectrons import Photoelectrons

__all__ = ["ATOM", "AtomEvolution"]

# samples of the trace that one call on a GPU takes, at most
GROUP = 256
# complex numbers times steps of a call on a CPU, at most: some hundredths of a second
NUMBERS = 10_000_000
# last points, whose norm is `wall_density`
EDGE = 25
# norm of the last two l at which grid.l_max: auto grows: in velocity gauge a dense core leaves more than 1e-11 in high l
GROW = {"length": 1e-11, "velocity": 1e-9}
# norm of the last points at which grid.rmax: auto grows
WIDEN = 1e-14
# l added at a time, at least
ROOM = 4
# norm of the last l from which a warning is given
LAST_L = 1e-8
# norm set to zero at a dense core from which a warning is given
CLEARED = 1e-6


class AtomEvolution(Evolution):
    """The propagation of an atom.

    Parameters
    ----------
    problem : AtomProblem
    restored : mapping, optional
        State to continue from.
    propagator : AnyPropagator, optional
        At t = 0, or at the restored time: a member of a batch; else one of its own.
    """

    problem: AtomProblem

    def __init__(
        self,
        problem: AtomProblem,
        restored: Mapping[str, Any] | None = None,
        propagator: AnyPropagator | None = None,
    ) -> None:
        self.problem = problem
        self.seconds, self.worked = 0.0, 0.0
        # a run that is continued has the l and the points that it had grown to
        lmax, points = _begun(problem, restored)
        if propagator is None:
            propagator = problem.propagator(truncated(problem.lattice, points), lmax, None, problem.dt)
        self.propagator = propagator
        self._looks = set(problem.looks.tolist()) | set(problem.frames.tolist())
        if restored is not None:
            shape = (points, 4 * propagator.lanes.plain.pairs)
            # grid and channels of the state are those to which it had grown
            state = fitting(restored, "state", shape)
            propagator.restore(state, int(restored["step"]), float(restored["lost"]))
        self.begin(restored)
        self.at = self.start

    @property
    def phi(self) -> NDArray[np.complex128]:
        """The state on all points of the grid (used, n), zero beyond those that the box has grown to."""
        # the file has all points of the grid, whatever the box has grown to
        phi, n = self.propagator.phi, self.problem.lattice.grid.points
        return phi if phi.shape[1] == n else np.pad(phi, ((0, 0), (0, n - phi.shape[1])))

    def sums(self) -> NDArray[np.float64]:
        """Return norm, dipole and mean force (along z, or along x and y), and the norm of the last l."""
        return self.propagator.sums()

    @property
    def remaining(self) -> list[list[int]]:
        """Step numbers that are still to come, of output times and of the fine trace, in the groups that make one call.

        On a GPU, and where several threads share the steps, a group goes on to the next output time, unless states are needed on
        the way.
        """
        problem = self.problem
        # marks: output times, samples of the fine trace, and steps at which the grid may grow
        samples = np.arange(0, problem.setting.steps + 1, problem.every)
        marks = np.unique(np.concatenate([problem.frames, samples, problem.looks])).tolist()
        # one call takes the sums of many marks, unless the state itself is needed at them
        p = self.propagator
        alone = not p.in_one or bool(problem.spheres)
        most = GROUP if isinstance(p, CudaMember) else max(1, NUMBERS // (p.numbers * problem.every))
        groups: list[list[int]] = [[]]
        for mark in marks:
            groups[-1].append(int(mark))
            if alone or mark in self._looks or len(groups[-1]) == min(most, GROUP):
                groups.append([])
        return [group for group in groups if group and group[-1] > self.start]

    def to(self, marks: Sequence[int]) -> NDArray[np.float64]:
        """Propagate to the next marks, record, and return the last `sums`; errors as in `Evolution`."""
        begun = clock.perf_counter()
        sums = self.propagator.sampled(marks)
        return self.timed(marks, sums, clock.perf_counter() - begun)

    def timed(self, marks: Sequence[int], sums: NDArray[np.float64], seconds: float) -> NDArray[np.float64]:
        """Record what marks had, as `record` does, and the seconds of the steps; channels and box may grow then."""
        self.seconds += seconds
        # for the time per point and step: channels and box may have grown since
        self.worked += (marks[-1] - self.at) * self.propagator.numbers
        self.at = marks[-1]
        last = self.record(marks, sums)
        if self.at in self._looks:
            self._grow()
        return last

    def crossing(self, step: int) -> NDArray[np.complex128]:
        """Return u_l and its slope on the spheres, (spheres, 2, used), in velocity gauge."""
        problem, lanes = self.problem, self.propagator.lanes
        if not problem.spheres:
            return np.zeros((0, 2, lanes.used), complex)
        # u in velocity gauge is turned no further
        a = (not problem.velocity) * problem.vector(step * problem.dt)
        near = [self.propagator.near(one.window) for one in problem.spheres]
        return np.array(
            [
                surface.values(phi, problem.lattice, lanes, one, a)
                for phi, one in zip(near, problem.spheres, strict=True)
            ]
        )

    def _grow(self) -> None:
        """Add angular momenta and points where ``auto`` needs them."""
        p, problem = self.propagator, self.problem
        setting, whole = problem.setting, problem.lattice.grid.points
        points, lmax = p.lattice.grid.points, p.lanes.lmax
        # nothing is propagated after the end
        if p.step == setting.steps or not (setting.grows or points < whole):
            return
        # norm of the last two l, and of the last points: what reaches them would be cut off soon
        high, outer = p.edges(min(problem.watched, points))
        if setting.grows and high >= GROW[setting.gauge]:
            lmax += max(0, min(max(ROOM, (lmax - p.lanes.lowest + 1) // 3), problem.most - lmax))
        if outer >= WIDEN:
            points = min(points + max(2 * problem.watched, points // 4), whole)
        if lmax == p.lanes.lmax and points == p.lattice.grid.points:
            return
        # the wider state holds the old one and zeros; tables of the propagator are made anew
        phi, new_lanes = p.phi, p.lanes.wider(lmax)
        wider = np.zeros((new_lanes.used, points), dtype=complex)
        wider[new_lanes.ls <= p.lanes.lmax, : phi.shape[1]] = phi
        new = problem.propagator(truncated(problem.lattice, points), lmax, wider, p.dt)
        new.count_from(p.step, p.lost)
        self.propagator = new

    def row(self, step: int, sums: NDArray[np.float64]) -> Row:
        """Observe the state at an output time."""
        problem, p = self.problem, self.propagator
        lattice, grid = problem.lattice, problem.lattice.grid
        t = step * problem.setting.dt
        a = problem.kick(t)
        phi = self.phi
        density = np.abs(phi) ** 2
        norm, dipole, force, last = unpacked(sums)
        # levels live near the nucleus: the state is turned to length gauge there alone
        reach = max((_reach(level.phi) for level in problem.levels), default=1)
        # populations refer to the length-gauge state
        bare = observables.length_gauge(phi[:, :reach], grid.r[:reach], p.lanes, a)
        # norm up to each cell edge, for norms within radii by interpolation
        radial = density.sum(axis=0)
        inside = np.concatenate([[0.0], np.cumsum(radial)])
        row: Row = {
            "norm": norm,
            "dipole": dipole,
            # Ehrenfest, with what is left of the norm: the field acts on the part that is still there
            "acceleration": -force - problem.electric(t) * norm,
            "velocity": observables.momentum(phi, lattice, p.lanes) + a * norm,
            "populations": observables.populations(bare, problem.levels, p.lanes),
            "last": last,
            "wall": float(radial[: p.lattice.grid.points][-EDGE:].sum()),
            "radial_density": radial[self.points] / grid.slope[self.points],
            "population_l": observables.by_momentum(density.sum(axis=1), p.lanes),
        }
        radii = np.array(problem.observed.norm_within)
        edges = np.concatenate([[0.0], grid.r + 0.5 * grid.slope])
        if radii.size:
            row["norm_within"] = np.interp(radii, edges, inside)
        return row

    @property
    def points(self) -> slice:
        """Points of the radial density that are stored."""
        n = self.problem.lattice.grid.points
        return slice(0, n, max(1, -(-n // self.problem.observed.density.points)))

    def state(self) -> State:
        """Return what continues the propagation bit for bit."""
        p = self.propagator
        size = {"lmax": p.lanes.lmax, "points": p.lattice.grid.points}
        return {**super().state(), **size, "lost": p.lost, "state": p.snapshot()}

    def result(self) -> AtomResult:
        """Return what the complete propagation leaves."""
        p = self.propagator
        return AtomResult(
            problem=self.problem,
            frames=self.columns(),
            trace=np.concatenate(self.trace),
            phi=self.phi,
            lanes=p.lanes,
            wall=p.lattice.grid.wall,
            lost=p.lost,
            points=self.points,
            flux=self.crossed(),
            speed=1e9 * self.seconds / self.worked if self.worked else None,
        )


def _begun(problem: AtomProblem, restored: Mapping[str, Any] | None) -> tuple[int, int]:
    """Return the largest l and the number of points with which a run begins, or goes on."""
    if restored is None:
        return problem.setting.lmax, problem.first_points
    return int(restored["lmax"]), int(restored.get("points", problem.lattice.grid.points))


def _reach(phi: NDArray[np.float64] | NDArray[np.complex128]) -> int:
    """Return the number of points that a level lives on."""
    return int(np.flatnonzero(np.abs(phi) > 1e-14)[-1]) + 1


def _companion(problem: AtomProblem, report: Report) -> AtomResult:
    """Return the result of a companion of a run."""
    evolution = AtomEvolution(problem)
    evolution.advance(report)
    result = evolution.result()
    analyse(result)
    of_companion(result, report)
    return result


def _ending(result: AtomResult) -> None:
    """Find the energies at both ends and the bound population."""
    problem, lanes = result.problem, result.lanes
    phi = observables.length_gauge(result.phi, problem.lattice.grid.r, lanes, problem.kick(problem.t_final))
    result.numbers["energy_initial"] = observables.energy(
        problem.state(problem.lattice, lanes), problem.lattice, lanes
    )
    result.numbers["energy_final"] = observables.energy(phi, problem.lattice, lanes)
    result.numbers["bound_population"] = bound_population(problem.lattice, lanes.ls, phi, problem.threads)


def _batches(runs: Sequence[AtomEvolution]) -> list[tuple[CudaBatch, list[int]]]:
    """Return the batches with the numbers of their runs; runs whose channels and box have grown alike become one batch."""
    members = [one.propagator for one in runs if isinstance(one.propagator, CudaMember)]
    # a batch has one atom and one shape: largest l and points of the box
    kinds: dict[tuple[int, int, int], list[int]] = {}
    for k, one in enumerate(members):
        kinds.setdefault((id(runs[k].problem.lattice), one.lanes.lmax, one.lattice.grid.points), []).append(k)
    batches = []
    for numbers in kinds.values():
        # a batch stays as it is while exactly its members have that shape
        batch = members[numbers[0]].batch
        if any(members[k].batch is not batch for k in numbers) or batch.members != len(numbers):
            batch = merged([members[k] for k in numbers])
            for index, k in enumerate(numbers):
                runs[k].propagator = CudaMember(batch, index)
        batches.append((batch, numbers))
    return batches


def _members(
    device: Device, runs: Sequence[AtomProblem], sizes: list[tuple[int, int]]
) -> list[CudaMember | None]:
    """Return the members of batches, one for each run with its size (largest l, points), at t = 0."""
    members: list[CudaMember | None] = [None] * len(sizes)
    kinds = [(id(run.lattice), size) for run, size in zip(runs, sizes, strict=True)]
    for kind in dict.fromkeys(kinds):
        numbers = [k for k, one in enumerate(kinds) if one == kind]
        # runs of one atom have the same initial state: one state for all members
        first, size = runs[numbers[0]], kind[1]
        lanes, lattice = first.frame.lanes(size[0]), truncated(first.lattice, size[1])
        phi = [first.state(first.lattice, lanes)[:, : size[1]]] * len(numbers)
        fields = [runs[k].field() for k in numbers]
        how = Stepping(first.setting.dt, first.velocity, first.order, first.setting.parts)
        batch = CudaBatch(device, lattice, lanes, phi, fields, how)
        for index, k in enumerate(numbers):
            members[k] = CudaMember(batch, index)
    return members


class Atom(Geometry["AtomProblem", "AtomResult"]):
    """An atom; the runs of a scan go side by side, on a GPU as batches of those with one shape."""

    task = "atom"
    quantities = QUANTITIES
    state = "phi"
    wider = "raise grid.rmax"

    def evolution(
        self, problem: AtomProblem, restored: Mapping[str, Any] | None, comm: Comm
    ) -> AtomEvolution:
        """Return the propagation of a run."""
        return AtomEvolution(problem, restored)

    def begin(
        self, device: Device, runs: Sequence[AtomProblem], saved: Sequence[Mapping[str, Any] | None]
    ) -> list[AtomEvolution]:
        """Return the propagations of some runs; on a CPU each has a propagator of its own."""
        members: Sequence[CudaMember | None] = [None] * len(runs)
        if device.is_cuda:
            members = _members(device, runs, [_begun(*one) for one in zip(runs, saved, strict=True)])
        return [AtomEvolution(*one) for one in zip(runs, saved, members, strict=True)]

    def together(self, runs: Sequence[AtomEvolution], marks: Sequence[int]) -> list[NDArray[np.float64]]:
        """Propagate the runs of a rank to the next marks, batch by batch, and record."""
        sums_of_runs: list[NDArray[np.float64] | None] = [None] * len(runs)
        for batch, numbers in _batches(runs):
            start = clock.perf_counter()
            # marks count from the start, a batch from where it stands
            ahead = np.array(marks) - batch.step
            sums = batch.advance(int(ahead[-1]), ahead)
            seconds = (clock.perf_counter() - start) / len(numbers)
            for k in numbers:
                member = runs[k].propagator
                assert isinstance(member, CudaMember)
                sums_of_runs[k] = runs[k].timed(marks, member.components(sums[member.index]), seconds)
        return [one for one in sums_of_runs if one is not None]

    def parts(self, result: AtomResult) -> dict[str, Callable[[Any], None]]:
        """Return what the end of a run tells."""
        return {"energies and bound population": _ending}

    def spectrum(self, result: AtomResult, block: Any, shared: dict[int, Any]) -> Any:
        """Return the computation of a photoelectron spectrum; runs on the same grid share scattering states by l."""
        return electrons.computation(result, block, shared)

    def directions(self, result: AtomResult, found: Photoelectrons, block: Any) -> None:
        """Store what belongs to the directions of the first spectrum of the deck."""
        electrons.directions(result, found, block)

    def companions(
        self, result: AtomResult, state: Callable[[], State], comm: Comm, work: float
    ) -> accuracy.AtomCompanions:
        """Return the repetitions of a run that tell its errors."""
        return accuracy.AtomCompanions(result, state, _companion, work)

    def trial(self, problem: AtomProblem, comm: Comm, report: Report) -> dict[str, float]:
        """Return norms and populations of a trial run of the search for the step, which needs few samples and no spectra."""
        made = replace(
            problem,
            observed=AtomObserved(AtomPopulations(), problem.observed.norm_within),
            spectra=[],
            spheres=[],
            outputs=min(problem.outputs, step_search.SAMPLES),
            every=max(1, problem.steps // step_search.SAMPLES),
        )
        return accuracy.numbers(_companion(made, report))

    def resonance(self, result: AtomResult, monitor: Monitor) -> None:
        """Store position and rate of the resonance that the deck requests."""
        resonance.find(result, monitor)

    def warnings(self, result: AtomResult) -> Iterator[tuple[str, float, str]]:
        """Yield what a user must know: a short name, how bad it is compared with other runs, and the text."""
        problem, frames = result.problem, result.frames
        last = float(frames["last"].max())
        if last > LAST_L and problem.pulse.pulses:
            yield (
                "last l",
                last,
                f"the last l has held {last:.2g} of the norm: raise grid.l_max above {result.lanes.lmax}",
            )
        wall = float(frames["wall"].max())
        if wall > accuracy.AT_WALL and problem.absorber.type == "none":
            yield (
                "wall",
                wall,
                f"the last {EDGE} points have held {wall:.2g} of the norm, which the wall turns back: raise "
                f"grid.rmax, or add an absorber; {enough(problem):.4g} bohr hold the fastest electrons until the end",
            )
        if result.lost > CLEARED:
            yield (
                "core",
                result.lost,
                f"{result.lost:.2g} of the norm was set to zero at the core of high l (velocity gauge): "
                f"lower time.dt, or take length gauge",
            )
        yield from electrons.warnings(result)

    def work(self, result: AtomResult) -> float:
        """Return the points times l times steps of a run."""
        return float(result.problem.lattice.grid.points) * result.lanes.used * result.problem.steps

    def most_work(self, problem: AtomProblem) -> float:
        """Return the work up to which `verify: auto` means true."""
        return accuracy.AUTO


ATOM = Atom()

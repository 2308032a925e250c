"""Collisions and resonances stopped at any report and continued from a checkpoint: every bit of the result is the same."""

import numpy as np
import pytest

from qsim.core.run import checkpoint
from qsim.core.run.loop import Progress
from qsim.core.run.stages import Method
from qsim.sturmian.resonances.run import Resonances
from qsim.sturmian.scatter.jobs import shares_of
from qsim.sturmian.scatter.run import Collisions, Job

output = Method("sturmian")

GRID = {"R": 16, "order": 9, "elements": 10, "ecs": {"angle": 0.3, "length": 16}}
DECKS = {
    "electrons": {
        "system": {"Z": 1},
        "grid": {**GRID, "R": 18},
        "basis": {"type": "fedvr"},
        "channels": {"L": [0, 1], "S": 1, "l_max": 1},
        "task": {"type": "scatter", "process": "e_h", "energy": [1.2, 1.6]},
        "scan": {"angle": [0.25]},
    },
    "functions": {
        "system": {"Z": 1},
        "grid": {**GRID, "R": 18, "order": 11},
        "basis": {"type": "gsf", "generating": {"type": "square_well", "tail": 4}, "energy": "total", "N": 24},
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "e_h", "energy": [1.2, 1.6]},
    },
    "photons": {
        "system": {"Z": 2},
        "grid": {"R": 14, "order": 9, "ecs": {"angle": 0.3, "length": 16}},
        "basis": {"type": "fedvr"},
        "channels": {"L": 1, "l_max": 1},
        "task": {
            "type": "scatter", "process": "photo", "excess": "30 eV", "gauges": ["length", "acceleration", "velocity"],
            "observables": ["sigma", "fdcs"], "angles": 9,
        },
    },
    "fast electrons": {
        "system": {"Z": 2},
        "grid": {"R": 14, "order": 9, "ecs": {"angle": 0.3, "length": 16}},
        "basis": {"type": "fedvr"},
        "channels": {"L": [0, 1], "l_max": 1},
        "task": {"type": "scatter", "process": "born", "incident": "5599 eV", "q": 0.24, "ejected": ["15 eV", "15 eV"]},
    },
    "resonances": {
        "system": {"Z": 2},
        "grid": GRID,
        "basis": {"type": "fedvr"},
        "channels": {"L": 0, "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "resonances", "near": [-0.72, -0.6]},
    },
}  # fmt: skip
TIMES = ("step_seconds", "solver_flop_per_second")


class Stop(Exception):
    """Ends a computation at a report."""


class Reports:
    """Counts the reports, and stops at one of them with the state as a checkpoint holds it."""

    def __init__(self, computation, stop_at=None, path=None):
        self.computation, self.stop_at, self.path = computation, stop_at, path
        self.count, self.steps = 0, []

    def __call__(self, progress):
        assert isinstance(progress, Progress)
        self.count += 1
        if progress.done is not None:
            self.steps.append(self.count)
        if self.count == self.stop_at:
            checkpoint.save(self.path, self.computation.state(), {})
            raise Stop


def computation(sturmian, name, state=None):
    kind = Resonances if name == "resonances" else Collisions
    return kind(sturmian.build(**DECKS[name]), state)


def bits(result):
    scalars = {name: (scalar.value, scalar.error) for name, scalar in output.scalars(result).items()}
    return {**output.arrays(result), **{name: value for name, value in scalars.items() if name not in TIMES}}


def assert_same_bits(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        if isinstance(value, np.ndarray) and value.dtype != object:
            assert value.tobytes() == second[name].tobytes(), name
        else:
            assert repr(value) == repr(second[name]), name


@pytest.mark.parametrize("name", DECKS)
def test_a_stop_at_any_report_changes_no_bit(sturmian, tmp_path, name):
    whole = computation(sturmian, name)
    reports = Reports(whole)
    whole.advance(reports)
    expected = bits(whole.result())
    assert len(reports.steps) == getattr(whole, "total", None) or len(reports.steps) >= 2
    middle, last = reports.steps[len(reports.steps) // 2], reports.steps[-1]
    chosen = {reports.steps[0] + 1, middle, last - 1}  # within solutions, and after them
    for stop_at in sorted(chosen):
        path = tmp_path / f"{stop_at}.ckpt.h5"
        begun = computation(sturmian, name)
        with pytest.raises(Stop):
            begun.advance(Reports(begun, stop_at, path))
        state, _ = checkpoint.load(path)
        rest = computation(sturmian, name, state)
        rest.advance(Reports(rest))
        assert_same_bits(expected, bits(rest.result()))


def test_solutions_that_are_done_are_not_repeated(sturmian, tmp_path):
    whole = computation(sturmian, "photons")
    reports = Reports(whole)
    whole.advance(reports)
    done = len(reports.steps) - 1
    begun = computation(sturmian, "photons")
    with pytest.raises(Stop):
        begun.advance(Reports(begun, reports.steps[done - 1], tmp_path / "a.ckpt.h5"))
    rest = computation(sturmian, "photons", checkpoint.load(tmp_path / "a.ckpt.h5")[0])
    left = Reports(rest)
    rest.advance(left)
    assert len(left.steps) == 1


@pytest.mark.parametrize("seed", range(20))
def test_processes_share_energies_by_their_work(seed):
    """Each energy belongs to one process, in the order of the run; none has more than its part and one energy."""
    rng = np.random.default_rng(seed)
    ranks = int(rng.integers(1, 9))
    chains = [
        [Job(0, sector, tuple(range(int(rng.integers(1, 12)))), 0, label) for label in ("singlet", "triplet")]
        for sector in range(int(rng.integers(1, ranks + 1)))
    ]
    costs = rng.uniform(1.0, 4.0, len(chains))
    tasks = shares_of(chains, costs, ranks)
    assert len(tasks) == ranks
    there = [(number, point) for task in tasks for number, jobs in task for point in jobs[0].points]
    assert there == [(number, point) for number, chain in enumerate(chains) for point in chain[0].points]
    for number, jobs in (entry for task in tasks for entry in task):
        assert [job._replace(points=()) for job in jobs] == [
            job._replace(points=()) for job in chains[number]
        ]
        assert len({job.points for job in jobs}) == 1
    work = [sum(costs[number] * len(jobs[0].points) for number, jobs in task) for task in tasks]
    assert max(work) <= sum(work) / ranks + max(costs) * (1.0 + 1e-12)

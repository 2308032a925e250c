"""Solutions of a collision deck, and what each of several processes solves of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from qsim.sturmian.scatter.solved import Solved

__all__ = ["Job", "chain_of", "chains_of", "one_of", "shares_of"]


class Job(NamedTuple):
    """One solution: numbers of round, sector and variant, label (spin or gauge), and numbers of the energies."""

    round: int
    sector: int
    points: tuple[int, ...]
    variant: int
    label: str


def chain_of(job: Job) -> tuple[int, int, tuple[int, ...]]:
    """Return the key of jobs that start from one another: round, sector and energies."""
    return job.round, job.sector, job.points


def chains_of(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return jobs in their order, grouped into chains that start from one another."""
    return [list(chain) for _, chain in groupby(jobs, chain_of)]


def shares_of(
    chains: Sequence[Sequence[Job]], costs: Sequence[float], parts: int
) -> list[list[tuple[int, list[Job]]]]:
    """Return the energies of every chain (by number) that each process solves, with equal work for all.

    All energies stand in one row, chain after chain; each goes to the process in whose part of the work its middle lies.
    """
    # Unit of work: one energy of one chain, as energies of a chain are independent and all its
    # gauges and variants are not.
    units = [(number, point) for number, chain in enumerate(chains) for point in chain[0].points]
    work = np.array([costs[number] for number, _ in units])
    middles = (np.cumsum(work) - 0.5 * work) / work.sum()
    owners = np.minimum((middles * parts).astype(int), parts - 1)
    tasks: list[list[tuple[int, list[Job]]]] = [[] for _ in range(parts)]
    for rank, task in enumerate(tasks):
        own = [unit for unit, owner in zip(units, owners, strict=True) if owner == rank]
        for number, some in groupby(own, lambda unit: unit[0]):
            points = tuple(point for _, point in some)
            task.append((number, [job._replace(points=points) for job in chains[number]]))
    return tasks


def one_of(parts: Sequence[Solved]) -> Solved:
    """Return the numbers of a solution whose energies several processes have solved."""
    return replace(
        parts[0],
        points=[point for part in parts for point in part.points],
        residuals=np.concatenate([part.residuals for part in parts]),
        iterations=np.concatenate([part.iterations for part in parts]),
        history=[one for part in parts for one in part.history],
        seconds=sum(part.seconds for part in parts),
        condition=max(part.condition for part in parts),
    )

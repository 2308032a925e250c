r"""Lines, free induction decay and spectrum.

A line leads from a state b of one space to a state a of the space with one I^z more:

    nu = E_a - E_b,    intensity = |<a| sum_j I^+_j |b>|^2,    s(t) = sum intensity exp(2 pi i nu t) exp(-t / T2) / sum intensity,

so that s(0) = 1; H of a space falls into blocks between which it has no elements, and is diagonalised block by block.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.device import cpu
from qsim.core.run.loop import Progress, drive
from qsim.core.run.stops.aside import aside, here
from qsim.trotter.fid.lines import merged
from qsim.trotter.fid.problem import raising
from qsim.trotter.fid.relaxed import relaxed
from qsim.trotter.fid.result import FidResult
from qsim.trotter.measurement.spaces import operator_in
from qsim.trotter.model.hamiltonian import scale_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray
    from scipy.sparse import csr_array

    from qsim.core.run.loop import Report
    from qsim.core.run.progress import Monitor
    from qsim.trotter.fid.problem import Choice, FidProblem
    from qsim.trotter.sectors.digits.space import DigitSpace

__all__ = ["run"]

EPS = 2.2e-16
# of the sum of all intensities: a weaker line is rounding
WEAKEST = 1e-14


class Block(NamedTuple):
    """Eigenstates of a block of H.

    Attributes
    ----------
    states : (n,) int64
        Indices in the space.
    energies : (n,) float64
        Hz.
    vectors : (n, n) float64 or complex128
        Columns.
    """

    states: NDArray[np.int64]
    energies: NDArray[np.float64]
    vectors: NDArray[Any]


class Computation:
    """The lines of all choices of total spins; those of complete spaces are kept in a checkpoint."""

    def __init__(self, problem: FidProblem, restored: Mapping[str, Any] | None) -> None:
        self.problem = problem
        assert problem.device is not None
        self.place = cpu(problem.device.threads)
        own = problem.relaxation.own
        self.rates = problem.relaxation.rates(problem.models.spins) if own else None
        self.jumps = problem.jumps
        self.todo = [
            (one, down)
            for one in problem.choices
            for down in ([0] if own else range(1, one.model.quanta + 1))
        ]
        # frequency, intensity, its imaginary part, and rate of the decay of every line found so far, each space a part
        self.lines = [np.zeros((0, 4))] if restored is None else [np.array(restored["lines"])]
        self.done = 0 if restored is None else int(restored["done"])
        # of a frequency, and of the sum of the lines: rounding
        self.errors = np.zeros(2) if restored is None else np.array(restored["errors"])
        self._last: tuple[int, int, list[Block]] | None = None

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"done": self.done, "lines": np.concatenate(self.lines), "errors": self.errors}

    def advance(self, report: Report) -> None:
        """Find the lines that are left, from every space to the one with one I^z more."""
        for number in range(self.done, len(self.todo)):
            one, down = self.todo[number]
            if self.rates is not None:
                look: Callable[[], None] = lambda: report(Progress())  # noqa: E731
                made = aside(partial(relaxed, one, self.rates, self.place, self.jumps), look)
                self.lines.append(made.lines)
                self.errors = np.maximum(self.errors, [made.line_error, made.rounding])
                self.done = number + 1
                report(Progress(self.done))
                continue
            upper, lower = self._blocks(one, down - 1, report), self._blocks(one, down, report)
            self._last = (id(one), down, lower)
            found = self._between(one, down, upper, lower)
            decays = np.full(len(found), self.problem.relaxation.rate)
            self.lines.append(np.column_stack([found, np.zeros(len(found)), decays]))
            self.done = number + 1
            report(Progress(self.done))

    def _blocks(self, one: Choice, down: int, report: Report) -> list[Block]:
        """Return the eigenstates of H in a space; those of the step before are at hand."""
        if self._last is not None and self._last[:2] == (id(one), down):
            return self._last[2]
        from scipy.sparse.csgraph import connected_components

        operator: Any = operator_in(one.spaces[down], self.place, one.model)
        H: csr_array = operator.matrix.tocsr()
        _, labels = connected_components(H, directed=False)
        order = np.argsort(labels, kind="stable")
        starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
        made = []
        look: Callable[[], None] = lambda: report(Progress())  # noqa: E731
        for states in np.split(order, starts[1:]):
            matrix = H[states][:, states].toarray()
            # a small one is done before a thread would begin
            call = aside if states.size > 256 else here
            energies, vectors = call(partial(np.linalg.eigh, matrix), look)
            made.append(Block(states, np.asarray(energies), np.asarray(vectors)))
        return made

    def _between(self, one: Choice, down: int, upper: list[Block], lower: list[Block]) -> NDArray[np.float64]:
        """Return frequency and intensity (n, 2) of all lines between two spaces."""
        spaces = one.spaces
        raised = raised_matrix(one, spaces[down], spaces[down - 1])
        least = WEAKEST * self.problem.norm
        rows = []
        for above in upper:
            part = raised[above.states]
            for below in lower:
                elements = part[:, below.states]
                if not elements.nnz:
                    continue
                size = np.abs(above.vectors.conj().T @ (elements @ below.vectors)) ** 2 * one.weight
                a, b = np.nonzero(size > least / size.size)
                rows.append(np.column_stack([above.energies[a] - below.energies[b], size[a, b]]))
        return np.concatenate(rows) if rows else np.zeros((0, 2))


def raised_matrix(one: Choice, space: DigitSpace, target: DigitSpace) -> csr_array:
    """Return ``sum_j S^+_j`` of the observed groups between two spaces, (D', D)."""
    from scipy.sparse import csr_array

    strings, rows, columns, values = space.strings(), [], [], []
    for site, (two, seen) in enumerate(zip(space.twos, one.detected, strict=True)):
        if not seen:
            continue
        digit = space.digit(strings, site)
        from_ = np.flatnonzero(digit)
        columns.append(from_)
        rows.append(target.index(strings[from_] - (1 << site * space.bits)))
        values.append(raising(two)[digit[from_] - 1])
    shape = (target.dimension, space.dimension)
    if not rows:
        return csr_array(shape)
    return csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)


def run(problem: FidProblem, monitor: Monitor) -> FidResult:
    """Find all lines, and make decay and spectrum of them."""
    made = Computation(problem, monitor.restored)
    groups = [group for group in problem.groups if len(group) > 1]
    if groups:
        monitor.note(f"equivalent nuclei: {', '.join(' '.join(map(str, group)) for group in groups)}")
    with monitor.stage("lines"):
        drive(made, monitor, total=len(made.todo), unit="spaces", what="lines", done=made.done)
    with monitor.stage("spectrum"):
        largest = max(one.model.dimension for one in problem.choices)
        # of a frequency: rounding of two levels
        error = 2.0 * EPS * np.sqrt(largest) * scale_of(problem.model)
        lines = np.concatenate(made.lines)
        if not problem.relaxation.own:
            lines = merged(lines, 4.0 * error)
        result = FidResult(problem, lines, max(error, float(made.errors[0])), float(made.errors[1]))
        if result.folded:
            monitor.warn(
                f"{result.folded} of {len(result.listed)} lines fold: they lie outside of the {result.width:.6g} Hz about the "
                "carrier; raise fid.width, or move fid.carrier"
            )
        if (
            result.left > 0.05
            and not problem.block.apodise.exponential
            and not problem.block.apodise.gaussian
        ):
            monitor.warn(
                f"the decay is cut at {result.left:.2g} of its start, and lines have wiggles: raise fid.points, give "
                "relaxation.T2, or fid.apodise"
            )
    return result

"""Result of ``task: scaling`` and its quantities."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.core.results.tables import Scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["QUANTITIES", "ScalingResult"]


@dataclass
class ScalingResult:
    """Result of a scaling run; S sizes, I numbers of nested partitions, B numbers of blocks.

    Attributes
    ----------
    times : (S, I, B) float64
        Seconds of a solution; NaN where n has no room for the blocks.
    alpha, beta : float
        Of the cost model, seconds per row; fitted to the first number of partitions of the first size.
    backward : (S,) float64
        Largest backward error seen.
    compare : dict of (S,) float64
        Seconds of other solvers.
    """

    task: ClassVar[str] = "scaling"

    name: str
    sizes: list[int]
    blocks: NDArray[np.int64]
    iterations: list[int]
    times: NDArray[np.float64]
    alpha: float
    beta: float
    backward: NDArray[np.float64]
    compare: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def measured(self) -> NDArray[np.int64]:
        """Blocks of the fastest solution (S, I)."""
        # NaN where n has no room for the blocks
        return np.asarray(self.blocks[np.nanargmin(self.times, axis=2)])

    @property
    def predicted(self) -> NDArray[np.int64]:
        """Best number of blocks of the cost model (S, I)."""
        from qsim.tridiag.solver.partition import optimum

        return np.array([[optimum(n, i, self.alpha, self.beta) for i in self.iterations] for n in self.sizes])

    def exponent(self) -> float | None:
        """Return p of ``best blocks ~ n^p`` for the first number of partitions; the model says 1/2 for one."""
        # one size has no slope
        if len(set(self.sizes)) < 2:
            return None
        # slope of a line through log n and log blocks
        return float(np.polyfit(np.log(self.sizes), np.log(self.measured[:, 0]), 1)[0])

    @property
    def model(self) -> NDArray[np.float64]:
        """Seconds of the cost model (I, B) for the first size; NaN where there is no room for the blocks."""
        from qsim.tridiag.solver.partition import cost

        n = self.sizes[0]
        # the fit itself, continued to the numbers of partitions that it was not made with
        return np.array(
            [
                [cost(n, float(b), i, self.alpha, self.beta) if b < n else np.nan for b in self.blocks]
                for i in self.iterations
            ]
        )

    @property
    def best(self) -> float:
        """Seconds of the fastest solution of the first size."""
        return float(np.nanmin(self.times[0]))

    @property
    def fastest(self) -> tuple[int, int]:
        """Nested partitions and blocks of the fastest solution of the first size."""
        # over all numbers of partitions and blocks at once
        first, blocks = np.unravel_index(int(np.nanargmin(self.times[0])), self.times[0].shape)
        return self.iterations[int(first)], int(self.blocks[blocks])


Q = Quantity[ScalingResult]


def _by_iterations(r: ScalingResult) -> dict[str, Scalar]:
    """Return the best numbers of blocks of the first size, measured and of the model, for each number of partitions."""
    out: dict[str, Scalar] = {}
    # the model could be fitted
    known = not math.isnan(r.alpha)
    predicted = r.predicted[0].tolist() if known else [None] * len(r.iterations)
    for count, measured, model in zip(r.iterations, r.measured[0], predicted, strict=True):
        out[f"optimum_blocks_{count}"] = Scalar(int(measured), description=f"fastest with {count} partitions")
        out[f"optimum_model_{count}"] = Scalar(model, description=f"cost model with {count} partitions")
    return out


QUANTITIES: tuple[Q, ...] = (
    Q(
        "backward_error",
        "",
        "largest normwise backward error",
        lambda r: float(r.backward.max()),
        headline=True,
    ),
    Q("solve_seconds", "s", "fastest solution of the first size", lambda r: r.best, headline=True),
    Q("alpha", "s", "cost model: RD, RU and SS of a row", lambda r: r.alpha, headline=True),
    Q("beta", "s", "cost model: RS of a joint line", lambda r: r.beta, headline=True),
    Q(
        "optimum_blocks",
        "",
        "blocks of the fastest solution, first size",
        lambda r: r.fastest[1],
        headline=True,
    ),
    Q("optimum_iterations", "", "its nested partitions", lambda r: r.fastest[0]),
    Q("rows", "", "rows of the first size", lambda r: r.sizes[0]),
    Q("rows_per_second", "1/s", "rows of the fastest solution", lambda r: r.sizes[0] / r.best),
    Q("system", "", "what was solved", lambda r: r.name),
    Q(
        "optimum_*",
        "",
        "best number of blocks, fastest and by the cost model, for each number of partitions",
        _by_iterations,
        exact=True,
    ),
    Q(
        "optimum_exponent",
        "",
        "p of best blocks ~ n^p; 1/2 in the model",
        lambda r: r.exponent(),
        when=lambda r: r.exponent() is not None,
        exact=True,
    ),
    Q(
        "*_seconds",
        "s",
        "*, first size",
        lambda r: {f"{name}_seconds": float(seconds[0]) for name, seconds in r.compare.items()},
    ),
    Q(
        "speedup_*",
        "",
        "* over the fastest partition",
        lambda r: {f"speedup_{name}": float(seconds[0]) / r.best for name, seconds in r.compare.items()},
        exact=True,
    ),
    Q("blocks", "", "blocks of the first partition", lambda r: r.blocks, ("blocks",)),
    Q("iterations", "", "nested partitions", lambda r: np.array(r.iterations), ("iterations",)),
    Q(
        "time_vs_blocks",
        "s",
        "time of a solution, first size",
        lambda r: r.times[0],
        ("iterations", "blocks"),
        note="fastest of the repeats",
    ),
    Q(
        "model",
        "s",
        "cost model with the fitted alpha and beta, first size",
        lambda r: r.model,
        ("iterations", "blocks"),
    ),
    Q(
        "optimum",
        "",
        "blocks of the fastest solution measured, first size",
        lambda r: r.measured[0],
        ("iterations",),
    ),
    Q(
        "optimum_model",
        "",
        "best number of blocks of the cost model, first size",
        lambda r: r.predicted[0],
        ("iterations",),
    ),
    Q("n", "", "rows of the systems", lambda r: np.array(r.sizes), ("n",)),
    Q(
        "optimum_vs_n",
        "",
        "blocks of the fastest solution measured",
        lambda r: r.measured,
        ("n", "iterations"),
    ),
    Q(
        "optimum_model_vs_n",
        "",
        "best number of blocks of the cost model",
        lambda r: r.predicted,
        ("n", "iterations"),
    ),
    Q(
        "time_vs_n",
        "s",
        "time of the fastest solution measured",
        lambda r: np.nanmin(r.times, axis=2),
        ("n", "iterations"),
    ),
    Q(
        "times",
        "s",
        "time of a solution",
        lambda r: r.times,
        ("n", "iterations", "blocks"),
        note="NaN where n has no room for the blocks",
    ),
    Q(
        "backward_error_vs_n",
        "",
        "largest normwise backward error of the literal stages",
        lambda r: r.backward,
        ("n",),
    ),
    Q(
        "compare/*",
        "s",
        "time of another solver",
        lambda r: {f"compare/{name}": seconds for name, seconds in r.compare.items()},
        ("n",),
        note="one CPU thread but for Woodbury; auto: the fast kernels",
    ),
)

r"""Population control of diffusion Monte Carlo: which walkers live on, with which weights, and the trial energy.

**Comb** [1]_ (default).  N teeth at equal distances, shifted together by one uniform number, are laid over the
weights end to end; a walker is copied once for each tooth on it.  The number of walkers is fixed, the sum of
the weights is conserved, walker *i* has :math:`N w_i / W` copies on average, of weight :math:`W/N` each:
unbiased, and with the least possible scatter (the floor or the ceiling of the mean).  The weights are laid out in
ascending order.  In the order of the walkers the sum of many nearly equal weights keeps in step with the teeth, then
slips past several at once: copies come in bursts, and doubled the variance of the energy in a trial.

Walkers branch in groups of at most 1024, each by a comb of its own: no weight or walker leaves its group, whose mean weight
goes its own way.  Once those means differ by more than `UNEVEN`, one comb over all walkers makes them equal again.

**Birth and death** [2]_.  Walker *i* becomes :math:`\lfloor w_i + \xi_i \rfloor` walkers of weight 1: unbiased,
their number fluctuates.

**Trial energy** [2]_.  :math:`E_T = E + g \ln(N_0/W)` pulls the sum of weights W to the target :math:`N_0`
within a time :math:`1/g`.  A population outside of its limits is an error: its energies are biased.

Weights are added as integers of :math:`2^{-32}`, whose sums do not depend on their order: CPU and GPU choose
the same walkers.

References
----------
.. [1] T. E. Booth, report LA-UR-96-0051 (1996); M. Calandra Buonaura, S. Sorella, Phys. Rev. B 57, 11446 (1998).
.. [2] C. J. Umrigar, M. P. Nightingale, K. J. Runge, J. Chem. Phys. 99, 2865 (1993), doi:10.1063/1.465195.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from qsim.core.device.device import namespace
from qsim.core.errors import NumericsError
from qsim.qmc.kernels.walkers.branching import comb, settle, settled_comb, settled_combs, weigh_walkers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Weights = NDArray[np.float64]  # NumPy or CuPy
    Places = NDArray[np.int64]

__all__ = ["CONTROLS", "UNEVEN", "Control", "Population", "settle"]

Control = Literal["comb", "birth_death"]
CONTROLS: tuple[Control, ...] = ("comb", "birth_death")
UNIT_BITS = 32
UNIT = (
    2.0**UNIT_BITS
)  # integers per unit of weight: 2.3e-10, and room for a million walkers of the largest weight
HEAVIEST = 1024.0  # weight of a walker that has run away
OLD_WEIGHT = 0.5  # largest weight of a persistent walker
UNEVEN = 1.2  # largest over smallest mean weight of groups: the variance of a mean grows by less than 1 %
REMEDY = "smaller timesteps, an optimised Jastrow factor, more walkers or a longer warm-up"


@dataclass(frozen=True)
class Population:
    """Number of walkers that is aimed at, and how it is kept.

    Attributes
    ----------
    target
        Number of walkers, and sum of weights that the trial energy aims at.
    control
        ``"comb"`` or ``"birth_death"``.
    limits
        Smallest and largest population, as multiples of the target.
    max_age
        Generations without an accepted move after which a walker counts as persistent.
    """

    target: int
    control: Control = "comb"
    limits: tuple[float, float] = (0.5, 2.0)
    max_age: int = 10

    def __post_init__(self) -> None:
        if self.target < 1 or self.control not in CONTROLS or not 0 <= self.limits[0] < 1 < self.limits[1]:
            raise ValueError(f"not a population: {self}")

    def draws(self, walkers: int) -> int:
        """Return the number of uniform numbers for one branching."""
        return 1 if self.control == "comb" else walkers

    def next_generation(
        self, weights: Weights, ages: Places, uniforms: NDArray[np.float64]
    ) -> tuple[Places, Weights, int]:
        """Keep persistent walkers down (:meth:`limit_old`) and choose the walkers of the next generation (:meth:`branch`).

        Parameters
        ----------
        weights : (walkers,) float64, NumPy or CuPy
        ages : (walkers,) int64
        uniforms : float64
            On the host.

        Returns
        -------
        indices, weights
            As of :meth:`branch`.
        old : int
            Persistent walkers.
        """
        whole, sums = self.weigh(weights, ages)
        total, bad, old = (int(x) for x in sums)
        if bad:
            self.refuse(self.limit_old(weights, ages)[0])
        indices, weight = self.choose(whole, total, uniforms)
        return indices, namespace(weights).full(len(indices), weight), old

    def weigh(self, weights: Weights, ages: Places | None) -> tuple[Places, Places]:
        """Return weights as integers of 1/`UNIT`, persistent walkers kept down, and the sums of :func:`weigh_walkers`."""
        # Integers: their sums do not depend on order, so CPU and GPU choose the same walkers.
        return weigh_walkers(weights, ages, self.max_age, OLD_WEIGHT, HEAVIEST, UNIT)

    def choose(self, whole: Places, total: int, uniforms: NDArray[np.float64]) -> tuple[Places, float]:
        """Choose the walkers of the next generation by their weights as integers.

        Parameters
        ----------
        whole : (walkers,) int64, NumPy or CuPy
        total
            Their sum.
        uniforms : float64
            On the host.

        Returns
        -------
        indices : (new walkers,) int64
            As of :meth:`branch`.
        weight : float
            Of each of them.

        Raises
        ------
        NumericsError
            If the population leaves its limits.
        """
        if self.control == "comb":
            return self._teeth(whole, total, float(uniforms[0])), total / UNIT / self.target
        return self._births(whole, uniforms), 1.0

    def choose_in_groups(
        self, whole: Places, edges: Places, first: int, uniform: float, weights: Weights
    ) -> Places:
        """Choose the walkers of the next generation in groups, as of :func:`settled_combs`; a GPU is not waited for.

        Parameters
        ----------
        whole, edges, first, uniform
            Weights as integers, first walker of each group and their number, number of the first group, uniform number.
        weights : (walkers,) float64, out
            The mean of its group for every walker.

        Returns
        -------
        (walkers,) int64
            As of :meth:`branch`.
        """
        return settled_combs(whole, edges, first, uniform, UNIT, weights)

    def branch(self, weights: Weights, uniforms: Weights) -> tuple[Places, Weights]:
        """Choose the walkers of the next generation.

        Parameters
        ----------
        weights : (walkers,) float64, NumPy or CuPy
            Not negative.
        uniforms : (1,) for the comb, (walkers,) for birth and death, float64
            Uniform numbers in (0, 1), the same on every device.

        Returns
        -------
        indices : (new walkers,) int64
            Number of the old walker in each new place.  If their number stays, ``indices[i] == i`` for every walker
            that lives on, so that only copies have to be moved.
        weights : (new walkers,) float64
            Their weights.

        Raises
        ------
        NumericsError
            If a weight is not a number, negative or beyond `HEAVIEST`, or the population leaves its limits.
        """
        if uniforms.shape != (self.draws(weights.size),):
            raise ValueError(
                f"{self.control} takes {self.draws(weights.size)} uniform numbers, not {uniforms.shape}"
            )
        whole, sums = self.weigh(weights, None)
        total, bad, _ = (int(x) for x in sums)
        if bad:
            self.refuse(weights)
        indices, weight = self.choose(whole, total, uniforms)
        return indices, namespace(weights).full(len(indices), weight)

    def trial_energy(
        self, estimate: float, weight_sum: float, time: float, feedback: float = 1.0, warmup: bool = False
    ) -> float:
        r"""Return the trial energy of the next generation.

        Parameters
        ----------
        estimate
            Best estimate of the energy so far (hartree).
        weight_sum
            Sum of weights W.
        time
            From one trial energy to the next (1/hartree).
        feedback
            :math:`g` (hartree).
        warmup
            Restore the target as fast as feedback that comes one such time late can without swinging, :math:`g = 1/4t`.

        Returns
        -------
        float
            :math:`E + g \\ln(N_0 / W)`.
        """
        self.check(weight_sum)
        # Late by one such time, ln W follows x'' = x' - g t x: a double root at 1/4, no longer
        # stable at 1.
        most = 0.25 / time
        return estimate + (most if warmup else min(feedback, 2.0 * most)) * math.log(self.target / weight_sum)

    def check(self, size: float) -> None:
        """Refuse a population (sum of weights or number of walkers) outside of the limits.

        Raises
        ------
        NumericsError
            With the numbers and what to do.
        """
        low, high = (self.target * limit for limit in self.limits)
        if not low <= size <= high or size <= 0:
            raise NumericsError(
                f"the population of {size:.6g} walkers left its limits, {low:g} to {high:g} ({self.limits[0]:g} to "
                f"{self.limits[1]:g} times the target of {self.target}): energies would be biased",
                hint=REMEDY,
            )

    def limit_old(self, weights: Weights, ages: Places) -> tuple[Weights, Places]:
        """Keep persistent walkers, stuck where the local energy is very low, from taking over.

        Parameters
        ----------
        weights : (walkers,) float64
            Before branching.
        ages : (walkers,) integer
            Generations since the last accepted move.

        Returns
        -------
        weights : (walkers,) float64
            At most 1/2 for walkers older than `max_age`.
        count : () int64
            How many were older, still on the device; report it, since this is a bias.
        """
        xp = namespace(weights)
        old = ages > self.max_age
        return xp.where(old, xp.minimum(weights, OLD_WEIGHT), weights), old.sum()

    def _teeth(self, whole: Places, total: int, uniform: float) -> Places:
        """Return the walkers under the teeth; ``whole`` are weights as integers."""
        self.check(total / UNIT)
        n = self.target
        # tooth k stands at (k + u) total / n; in parts, so that no product passes 63 bits
        shift = min(int(uniform * float(total)), total - 1)
        (step, rest), (start, more) = divmod(total, n), divmod(shift, n)
        numbers = (step, rest, start, more)
        # Copies in the order of their walkers: the k-th one takes the place of the k-th that
        # dies, so that as few as possible pass any boundary between ranks.
        return settled_comb(whole, *numbers) if n == whole.size else comb(whole, n, *numbers)

    def _births(self, whole: Places, uniforms: Weights) -> Places:
        xp = namespace(whole)
        # floor(w + u): the mean number of copies is the weight.
        chance = np.minimum(np.asarray(uniforms) * UNIT, UNIT - 1.0).astype(np.int64)
        copies = (whole + xp.asarray(chance)) >> UNIT_BITS
        number = int(copies.sum())
        self.check(number)
        # Walker i in the places of its copies, in the order of walkers.
        indices = xp.searchsorted(xp.cumsum(copies), xp.arange(number, dtype=np.int64), side="right").astype(
            np.int64
        )
        return settle(indices) if number == whole.size else indices

    def refuse(self, weights: Weights) -> None:
        """Raise an error that shows the first weight out of range."""
        xp = namespace(weights)
        wrong = ~((weights >= 0) & (weights <= HEAVIEST))
        first, bad = int(xp.argmax(wrong)), int(wrong.sum())
        raise NumericsError(
            f"the weight of walker {first} is {float(weights[first]):.6g} ({bad} of {weights.size} weights are "
            f"outside of 0 to {HEAVIEST:g})",
            hint=REMEDY,
        )

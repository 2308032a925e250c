r"""Optimisation of the parameters of a trial function: samples, steps that are tried before they are taken, history.

Each iteration samples the square of the current trial function and derives steps for several shifts of the linear method (or
time steps of stochastic reconfiguration).  Correlated sampling, on configurations of the same sample with the same random
rotations, tells what each would do to the target, and the best is taken; within the error, the one with the usual shift.  Of the
change of the energy a part is left out whose mean is zero, as H is Hermitian: with q the ratio of the trial functions after and
before,

.. math::
   \langle q\,(E' - E)\rangle = \langle\Psi|H\Psi'\rangle - \langle H\Psi|\Psi'\rangle = 0 .

The next, fresh sample may refute a step; then it is taken back.  The result is the last iteration whose target is not above the
upper bound, at 3 standard errors, of any other, and not much less certain than theirs; its energy is measured once more.  Should
that sample find it worse than the start, the start is kept.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress
from qsim.core.run.progress import Monitor
from qsim.core.statistics import student
from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.derivatives import derivatives
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED
from qsim.qmc.sampling.linear_method import (
    Limits,
    Moments,
    length,
    linear_step,
    reconfiguration_step,
)
from qsim.qmc.sampling.moves import Moves, WarmUp
from qsim.qmc.sampling.parameters import Varied
from qsim.qmc.sampling.series import ENERGIES, Beginning, Series
from qsim.qmc.sampling.states import Penalty
from qsim.qmc.sampling.vmc import Rows
from qsim.qmc.sampling.walkers import tables_of
from qsim.qmc.statistics.correlation import SKEW, lognormal, skewness

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.arrays import FloatArray
    from qsim.core.run.loop import Report
    from qsim.qmc.deck.series import Optimize
    from qsim.qmc.sampling.walkers import Walkers
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["Optimisation"]

NOT_BETTER = "the optimisation found nothing better than its start, whose parameters are kept"
WEIGHTS = {"energy": 0.0, "variance": 1.0}  # of the variance in the target
# hartree: of the first iteration, and where nothing speaks for another one
SHIFT = {"linear": 0.1, "sr": 10.0}
FACTORS = (0.1, 1.0, 10.0)  # by which shifts that are tried differ
ROUNDS = 3  # of larger shifts, if all of the first are bad
SMALLEST_SHIFT = {"linear": 0.01, "sr": 3.0}  # below, noise moves parameters that the sample hardly sees
LARGEST_SHIFT = 1e4
COMPARED = 4  # sets of the sample that steps are tried on
EFFECTIVE = 0.5  # fraction of the sample that must count after reweighting
# standard deviations that a step may look worse: one of the linear method knows where to stop
WORSE = {"linear": 1.0, "sr": 0.0}
CONFIRMED = 3.0  # standard deviations by which a fresh sample refutes a step
WINDOW = 20.0  # mean absolute deviations at which local energies are cut off in the moments
LEAST_WINDOW = 1.0  # hartree
# times the sweeps between two sets, or a fifth of the warm-up: after a change of the trial function
SETTLE = 4
CHOSEN = ("energy", "energy_error", "variance", "variance_error")  # of the chosen parameters


class Target(NamedTuple):
    """Mean of the target and its statistical error."""

    value: float
    error: float


class Trial(NamedTuple):
    """A step and what correlated sampling says of it: change of the target, its error, fraction of the sample that counts."""

    step: NDArray[np.float64]
    shift: float
    change: float
    error: float
    effective: float
    influence: NDArray[np.float64]  # of each walker on the change, (sets, W)

    def sound(self, worse: float) -> bool:
        """Return True if the sample is still valid there and shows no harm beyond a number of standard deviations."""
        # Reweighting is valid as long as few configurations do not carry most of the weight.
        finite = math.isfinite(self.change) and math.isfinite(self.error)
        return finite and self.effective >= EFFECTIVE and self.change <= worse * self.error


class Set(NamedTuple):
    """Configurations at one moment: positions of this rank's walkers, energies of all.

    Attributes
    ----------
    R : (W, N, 3) float64
        On the device.
    log_psi, sign, energy : (W,) float64
        Of the trial function that sampled them, on the host.
    stream
        Of the random rotations.
    ratios : (W, states) float64
        Of other states, whose overlaps cost, to that trial function, on the host.
    """

    R: FloatArray
    log_psi: NDArray[np.float64]
    sign: NDArray[np.float64]
    energy: NDArray[np.float64]
    stream: walk.Stream
    ratios: NDArray[np.float64]


class Optimisation:
    """Optimisation of parameters; afterwards the walkers follow the improved trial function.

    Its series has a block for each sample: energies, ``energy_error``, ``variance``, ``variance_error``, ``target``,
    ``target_error``, and of the step taken from it ``step`` (length: change of the norm of psi), ``shift``, ``expected`` and
    ``expected_error`` (change of the target by correlated sampling), ``effective`` (fraction of the sample), ``taken_back``
    (1: it was worse than the one before).  ``arrays["parameters"]`` (blocks, P); ``info["best"]`` is the block that was
    chosen, 0 the start; energy and variance of ``info`` are those of its parameters in a sample of their own.

    Parameters
    ----------
    walkers
        Ensemble, in/out; at least 20 of them, for the error bars; their trial function has parameters.
    block
        Settings of the section; a fifth of ``warmup`` follows each change of the parameters.
    section
        Number of the section, a word of the random counters.
    saved
        State to continue from.
    monitor
        Is told of an error bar that cannot be found; a silent one by default.
    penalty
        Of overlaps with other states; with it there is ``overlap`` of each sample, the root of their squares' sum.
    excited
        Of a state that is not the lowest one, whose steps follow it.
    """

    unit = "iterations"

    def __init__(
        self,
        walkers: Walkers,
        block: Optimize,
        section: int,
        saved: Mapping[str, Any] | None = None,
        monitor: Monitor | None = None,
        *,
        penalty: Penalty | None = None,
        excited: bool = False,
    ) -> None:
        self.penalty, self.nearest = penalty or Penalty(walkers), excited and penalty is None
        self.begun = Beginning()
        self.judged = (monitor or Monitor.silent()).judged
        self.walkers = walkers
        self.section = section
        self.total = block.iterations + 1  # the last sample measures what the last step led to
        self.what = f"optimize {section}"
        self.target = block.target
        self.moves = Moves(walkers, block, (saved or {}).get("moves"))
        self.steps = block.steps
        self.sweeps = block.sweeps
        # After a change of parameters walkers need a few sweeps to follow: far fewer than at
        # the start, since steps are small.
        self.settle = max(SETTLE * block.sweeps, block.warmup // 5)
        self.weight = block.weight if block.target == "mixed" else WEIGHTS[block.target]
        # Linear method: diagonalises in the space of psi and its derivatives. Stochastic
        # reconfiguration: a step along the gradient in the metric of psi.
        self.propose = linear_step if block.method == "linear" else reconfiguration_step
        self.home = SHIFT[block.method]
        self.smallest = SMALLEST_SHIFT[block.method]
        self.worse = WORSE[block.method]
        self.varied = Varied(walkers.wavefunction, block.parameters, block.virtual, symmetry=block.symmetry)
        self.count = self.varied.count
        self.places = self.varied.tables(walkers.device)
        self.shift = max(self.home if block.shift is None else block.shift, self.smallest)
        self.rows = Rows()
        self.parameters: list[NDArray[np.float64]] = []  # of each row
        self.current = self.varied.values(walkers.wavefunction)
        self.chosen: dict[str, float] = {}  # what the last sample, of the chosen parameters, found
        # last parameters that a sample confirmed
        self.accepted: tuple[NDArray[np.float64], Target] | None = None
        warm = 0 if saved is None else int(saved["warm"])
        self.warm_up = WarmUp(walkers, self.moves, block.warmup, section, warm)
        if saved is not None:
            self._restore(saved)

    @property
    def done(self) -> int:
        """Samples done so far."""
        return len(self.rows)

    # --------------------------------------------------------------------------------- checkpoints

    def state(self) -> Mapping[str, Any]:
        """Return walkers, history and parameters."""
        if self.begun.state is not None:
            return self.begun.state
        if not len(self.rows):
            return self.warm_up.state()
        state: dict[str, Any] = {
            "walkers": self.walkers.saved(),
            "rows": self.rows.arrays(),
            "warm": self.warm_up.sweeps,
            "moves": self.moves.state(),
            "parameters": np.array(self.parameters),
            "current": self.current,
            "shift": self.shift,
            "penalty": self.penalty.weights,
        }
        if self.chosen:
            state["chosen"] = dict(self.chosen)
        if self.accepted is not None:
            state["accepted"] = self.accepted[0]
            state["accepted_target"] = np.array(self.accepted[1])
        return state

    def _restore(self, saved: Mapping[str, Any]) -> None:
        self.rows = Rows(saved["rows"])
        if "current" in saved:  # else it was saved while warming up
            self.parameters = list(np.asarray(saved["parameters"], np.float64))
            self.shift = float(saved["shift"])
            self._follow(np.asarray(saved["current"], np.float64), recompute=False)
        if "penalty" in saved:
            self.penalty.weights = np.asarray(saved["penalty"], np.float64)
        if "accepted" in saved:
            value, error = (float(x) for x in saved["accepted_target"])
            self.accepted = np.asarray(saved["accepted"], np.float64), Target(value, error)
        self.chosen = {name: float(value) for name, value in saved.get("chosen", {}).items()}
        self.walkers.restore(saved["walkers"])

    # ---------------------------------------------------------------------------------- iterations

    def advance(self, report: Report) -> None:
        """Iterate, choose, and let the walkers follow what was chosen.

        Raises
        ------
        NumericsError
            If a local energy is not a number.
        """
        if not len(self.rows):
            self.warm_up.advance(report)
        while len(self.rows) < self.total:
            self.begun.begin(self.walkers, self.state, report)
            row = self._iterate(last=len(self.rows) + 1 == self.total)
            self.begun.end()
            report(Progress(len(self.rows), {"energy": row["energy"], "variance": row["variance"]}))
        # A finished section that is resumed has them, and its walkers as they were after that.
        if not self.chosen:
            self.begun.begin(self.walkers, self.state, report)
            # A fresh sample of the chosen parameters: theirs was the best of several, which
            # is a biased choice, so its energy is not reported.
            best = self._best()
            row = self._fresh(best)
            start = self.rows.arrays()
            room = CONFIRMED * math.hypot(row["target_error"], float(start["target_error"][0]))
            if best and row["target"] - float(start["target"][0]) > room:
                best, row = 0, self._fresh(0)
            self.chosen = {"best": float(best), **{name: row[name] for name in CHOSEN}}
            self.walkers.recompute()
            self.begun.end()

    def series(self) -> Series:
        """Return the history, with a warning if nothing better was found."""
        blocks = self.rows.arrays()
        return Series(
            kind="optimize",
            label=f"optimize, {self.target}",
            timestep=self.moves.tau,
            blocks=blocks,
            info={
                **self.chosen,
                "parameters": float(self.count),
                "walkers": float(self.walkers.count),
                "acceptance": float(blocks["acceptance"].mean()),
                "seconds": float(blocks["seconds"].sum()),
            },
            arrays={"parameters": np.array(self.parameters)},
            warnings=[] if self.chosen["best"] else [NOT_BETTER],
        )

    def _fresh(self, block: int) -> dict[str, float]:
        """Follow the parameters of a block again, and return what a sample of their own says of them."""
        self._follow(self.parameters[block])
        self._sweep(self.settle)
        return self._sample()[2]

    def _best(self) -> int:
        """Return the last sample that no other one refutes, and that says enough itself.

        Its target is not above any upper bound, and its own upper bound not above the lowest one by more than the room of that
        one: few large energies make a bad trial function look as good as others, within an error that is larger.
        """
        blocks = self.rows.arrays()
        # Errors of the optimiser's samples are rough, hence the wide room.
        room = CONFIRMED * blocks["target_error"]
        bounds = blocks["target"] + room
        lowest = int(np.argmin(bounds))
        good = (blocks["target"] <= bounds[lowest]) & (bounds <= bounds[lowest] + room[lowest])
        return int(np.flatnonzero(good)[-1])

    def _iterate(self, *, last: bool) -> dict[str, float]:
        """Sample with the current parameters, judge the last step by it, and take the next; return its row."""
        begin = time.perf_counter()
        sets, moments, row = self._sample()
        self.parameters.append(self.current)
        target = Target(row["target"], row["target_error"])
        # Is the last step refuted by this sample, which is independent of the one that
        # proposed it?
        worse = self.accepted is not None and target.value - self.accepted[1].value > CONFIRMED * math.hypot(
            target.error, self.accepted[1].error
        )
        row.update(
            step=0.0,
            shift=self.shift,
            expected=0.0,
            expected_error=0.0,
            effective=1.0,
            taken_back=float(worse),
        )
        if worse and self.accepted is not None:
            # Go back, and take shorter steps from there.
            self.shift = min(10.0 * self.shift, LARGEST_SHIFT)
            following = self.accepted[0]
        else:
            # Confirmed: these parameters are the ones to return to.
            self.accepted = self.current, target
            following = self.current
            if not last:
                trial = self._choose(moments, sets)
                following = self.varied.allowed(self.current, trial.step)
                row.update(
                    shift=trial.shift,
                    expected=trial.change,
                    expected_error=trial.error,
                    effective=trial.effective,
                )
                # The length of a step is the change of the normalised psi, not of its
                # parameters, whose scales differ.
                row["step"] = math.sqrt(length(trial.step, moments.surroundings().overlap))
        row["seconds"] = time.perf_counter() - begin
        self.rows.add(**row)
        if not last:
            self._follow(following)
            self._sweep(self.settle)
            self.walkers.recompute()
        return row

    # ------------------------------------------------------------------------------------- samples

    def _sweep(self, sweeps: int) -> walk.Stream:
        walkers, moves = self.walkers, self.moves
        stream = walkers.stream(self.section)
        walk.walk(walkers.device, walkers.mine, walkers.tables, moves.tau, moves.mode, sweeps, stream)
        walkers.count_sweeps(sweeps, moves.time)
        return stream

    def _sample(self) -> tuple[list[Set], Moments, dict[str, float]]:
        """Sample the current trial function: sets to try steps on, moments, and what the history keeps."""
        walkers, device = self.walkers, self.walkers.device
        walkers.state.moves[...] = 0.0
        # Steps are tried on a few sets of configurations, spread over the sample, since each
        # must be kept with its positions.
        kept = set(np.linspace(0, self.steps - 1, min(COMPARED, self.steps)).round().astype(int).tolist())
        sets: list[Set] = []
        moments: Moments | None = None
        energies, components = [], np.zeros(6)
        others: list[NDArray[np.float64]] = []
        for k in range(self.steps):
            self.begun.look()
            stream = self._sweep(self.sweeps)
            slopes = derivatives(device, walkers.mine, walkers.tables, self.places, self.count, stream)
            # The moments of all ranks are made on each of them from the same arrays: bits
            # agree.
            O, G = map(walkers.join_on_device, slopes)
            walkers.publish("energy")
            walkers.check_finite()
            all_energies = device.to_host(walkers.state.energy)
            e = np.array(all_energies[:, 5])
            energies.append(e)
            others.append(self.penalty.sample(first=not k))
            components += all_energies.mean(axis=0) / self.steps
            if moments is None:
                # The window is taken from the first set and then kept: moments of different
                # sets must be those of one function. Median and absolute deviation do not
                # care for the tails that it is to cut off.
                centre = float(np.median(e))
                window = max(WINDOW * float(np.mean(np.abs(e - centre))), LEAST_WINDOW)
                inner = np.clip(e, centre - window, centre + window)
                self.penalty.choose(float(inner.mean()), float(inner.var()), others[0])
                moments = Moments(self.count, centre, window, self.penalty.weights)
            self._check_finite(O, G)
            moments.add(walkers.state.energy[:, 5], O, G, device.asarray(others[-1]))
            if k in kept:
                log, sign = (np.array(device.to_host(x)) for x in (walkers.mine.log_psi, walkers.mine.sign))
                sets.append(Set(walkers.mine.R.copy(), log, sign, e, stream, others[-1]))
        if moments is None:
            raise NumericsError("an optimisation needs at least one set of configurations")
        E = np.array(energies)
        mean = float(E.mean())
        deviation = E - mean
        variance = float(np.mean(deviation**2))
        # The target that steps are judged by uses energies within the window; what is
        # reported does not.
        x, cut = self.weight, np.clip(E - moments.reference, -moments.window, moments.window)
        square = (cut - cut.mean()) ** 2
        moves = self.steps * self.sweeps * walkers.electrons * walkers.count
        cost, costs, squares = self.penalty.of(np.array(others), np.ones(E.shape), np.ones(E.shape))
        row = dict(zip(ENERGIES, components.tolist(), strict=True))
        row.update(
            energy_squared=float(np.mean(E**2)),
            weight=float(E.size),
            acceptance=float(walkers.join(device.to_host(walkers.mine.moves[:, ACCEPTED])).sum()) / moves,
            energy_error=self._claimed("energy", deviation),
            variance=variance,
            variance_error=self._claimed("variance", deviation**2 - variance, scale=variance),
            # (1 - x) <E> + x Var(E).
            target=(1.0 - x) * (mean + cost) + x * float(square.mean()),
            target_error=_error((1.0 - x) * (deviation + costs) + x * (square - square.mean())),
        )
        if self.penalty.count:
            row["overlap"] = math.sqrt(float(squares.sum()))
        return sets, moments, row

    def _claimed(self, what: str, influence: NDArray[np.float64], scale: float = 0.0) -> float:
        """Return an error bar that is shown, and steers nothing; NaN if it cannot be found."""
        return self.judged(
            f"the error of the {what} of an optimisation", lambda: _claimed(influence, scale), math.nan
        )

    def _check_finite(self, O: FloatArray, G: FloatArray) -> None:
        """Raise if a derivative (W, P) is not finite, with the coordinates of its walker; a collective call."""
        xp = self.walkers.device.xp
        finite = xp.isfinite(O).all(axis=1) & xp.isfinite(G).all(axis=1)
        if not bool(finite.all()):
            bad = int(np.argmin(self.walkers.device.to_host(finite)))
            self.walkers.complain(bad, "has derivatives that are not finite")

    # --------------------------------------------------------------------------------------- steps

    def _choose(self, moments: Moments, sets: list[Set]) -> Trial:
        """Return the best step; of those as good within the error the one with the usual shift; none, if all look harmful."""
        # Three shifts around the last one; if all of them look harmful, larger ones.
        at = moments.surroundings()
        limits = Limits(self.varied.smooth, self.varied.most(self.current), self.nearest)
        shifts = [max(self.shift * factor, self.smallest) for factor in FACTORS]
        for _ in range(ROUNDS):
            steps = [
                self.varied.allowed(self.current, self.propose(at, shift, self.weight, limits)) - self.current
                for shift in shifts
            ]
            trials = [
                trial for trial in self._compare(moments, sets, steps, shifts) if trial.sound(self.worse)
            ]
            if trials:
                # Differences between trials are known better than the trials: they are made
                # with the same configurations.
                best = min(trials, key=lambda trial: trial.change)
                good = [t for t in trials if t.change - best.change <= _error(t.influence - best.influence)]
                chosen = min(good, key=lambda trial: abs(math.log(trial.shift / self.home)))
                self.shift = min(chosen.shift, LARGEST_SHIFT)
                return chosen
            # All refused: start above the largest one that was tried.
            shifts = [shift * 10.0 * FACTORS[-1] for shift in shifts]
        # Nothing is sound: stay, and let the next sample try again.
        self.shift = min(shifts[0], LARGEST_SHIFT)
        return Trial(np.zeros(self.count), self.shift, 0.0, 0.0, 1.0, np.zeros((1, self.walkers.count)))

    def _compare(
        self, moments: Moments, sets: list[Set], steps: list[NDArray[np.float64]], shifts: list[float]
    ) -> list[Trial]:
        """Return the effect of steps on the target, by reweighting configurations of the sample."""
        walkers, device = self.walkers, self.walkers.device
        # Copies: the walkers themselves must stay where the sample left them.
        scratch = State._make(array.copy() for array in walkers.mine)
        tables = [self._tables(self._wavefunction(self.current + step)) for step in steps]
        shape = (len(steps), len(sets), scratch.R.shape[0])
        energy, exponent, turned = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for s, one in enumerate(sets):
            self.begun.look()
            scratch.R[...] = one.R
            for k, table in enumerate(tables):
                # Log psi and energies with the changed parameters at the same places and with
                # the same rotations: what differs is the step alone.
                walk.recompute(device, scratch, table)
                walk.energies(device, scratch, table, one.stream)
                energy[k, s] = device.to_host(scratch.energy[:, 5])
                exponent[k, s] = 2.0 * (device.to_host(scratch.log_psi) - one.log_psi)
                turned[k, s] = np.real(device.to_host(scratch.sign) * np.conj(one.sign))
        energy, exponent, turned = (walkers.join(x, 2) for x in (energy, exponent, turned))
        start = np.array([one.energy for one in sets])
        before = self._terms(start, np.ones(energy.shape[1:]), moments)
        ratios = np.array([one.ratios for one in sets])
        free = self.penalty.of(ratios, np.ones(start.shape), np.ones(start.shape))
        trials = []
        for k, (step, shift) in enumerate(zip(steps, shifts, strict=True)):
            if not (np.isfinite(energy[k]).all() and np.isfinite(exponent[k]).all()):
                continue
            # Weights |psi'/psi|^2, normalised to the mean 1; the largest exponent is taken
            # out first, so that nothing overflows.
            weights = np.exp(exponent[k] - exponent[k].max())
            weights /= weights.mean()
            after = self._terms(energy[k], weights, moments)
            # A control variate: its mean is known to be zero, so that subtracting it changes
            # the noise alone.
            idle = self._idle(energy[k], start, weights, moments)
            influence = after[1] - before[1] - (idle - idle.mean())
            change = after[0] - before[0] - float(idle.mean())
            cost = self.penalty.of(ratios, weights, turned[k] * np.sqrt(weights))
            change += (1.0 - self.weight) * (cost[0] - free[0])
            influence += (1.0 - self.weight) * (cost[1] - free[1])
            # Fraction of the sample that counts: (sum w)^2 / (n sum w^2).
            effective = 1.0 / float(np.mean(weights**2))
            trials.append(Trial(step, shift, change, _error(influence), effective, influence))
        return trials

    def _idle(
        self,
        energy: NDArray[np.float64],
        start: NDArray[np.float64],
        weights: NDArray[np.float64],
        moments: Moments,
    ) -> NDArray[np.float64]:
        """Return what of each configuration's change of the energy has the mean zero, since H is Hermitian.

        It is ``q (E' - E)``, with q the ratio of the trial functions after and before.  A sample that misses the rare
        configurations with the largest E finds another mean: it sees the others rise when a step takes the rare ones away, and
        would refuse it; one with too many of them would take any.
        """
        cut = moments.reference - moments.window, moments.reference + moments.window
        return (1.0 - self.weight) * np.sqrt(weights) * (np.clip(energy, *cut) - np.clip(start, *cut))

    def _terms(
        self, energy: NDArray[np.float64], weights: NDArray[np.float64], moments: Moments
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the target, from the reference energy, and the influence of each configuration on it; mean weight 1."""
        e = np.clip(energy - moments.reference, -moments.window, moments.window)
        # Relative to the reference energy, which squares cancel less with.
        mean = float(np.mean(weights * e))
        square = (e - mean) ** 2
        variance = float(np.mean(weights * square))
        x = self.weight
        value = (1.0 - x) * mean + x * variance
        return value, weights * ((1.0 - x) * (e - mean) + x * (square - variance))

    # -------------------------------------------------------------------------------- parameters

    def _wavefunction(self, parameters: NDArray[np.float64]) -> Wavefunction:
        return self.varied.applied(self.walkers.wavefunction, parameters)

    def _tables(self, wavefunction: Wavefunction) -> walk.Tables:
        """Return the tables of the walkers with another Jastrow factor, other coefficients and orbitals."""
        walkers = self.walkers
        if wavefunction.orbitals is not walkers.wavefunction.orbitals:
            return tables_of(walkers.device, wavefunction, walkers.real)
        tables = walkers.tables._replace(jastrow=walkers.on_device(wavefunction.jastrow_tables()))
        if wavefunction.expansion is walkers.wavefunction.expansion:
            return tables
        return tables._replace(expansion=walkers.on_device(wavefunction.expansion.tables()))

    def _follow(self, parameters: NDArray[np.float64], *, recompute: bool = True) -> None:
        """Let the walkers follow the trial function with these parameters."""
        self.current = np.array(parameters, np.float64)
        self.walkers.set_wavefunction(self._wavefunction(self.current))
        if recompute:
            self.walkers.recompute()


def _error(influence: NDArray[np.float64]) -> float:
    """Return the error of a mean from deviations (sets, W): walkers are independent, sets of one walker are not."""
    # Sets of one walker are correlated; walkers are not.
    walkers = influence.mean(axis=0)
    return float(np.std(walkers, ddof=1) / np.sqrt(walkers.size))


def _claimed(influence: NDArray[np.float64], scale: float = 0.0) -> float:
    """Return the error bar that is shown: `_error` with the factors for few walkers, for skew ones, and for a scale."""
    error = _error(influence)
    error *= student(influence.shape[1] - 1.0) * (1.0 + SKEW * skewness(influence.mean(axis=0)))
    return error * lognormal(error / scale) if scale > 0.0 else error

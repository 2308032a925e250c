"""Errors of the numbers of a run, found by repeating it: companions of whatever geometry, and what a user must know of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qsim.core.errors import QsimError
from qsim.core.run.loop import drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.tridiag.tdse.motion import Motion, MotionResult, Remarks

__all__ = ["KICK", "MARGIN", "SCALED", "TABLE", "Companions", "claimed", "errors"]

# parts of an error that a run of any geometry may have
TABLE, KICK = "the rows of the table", "pulses narrower than a step in length gauge"
# of a change by other tables or the other gauge, which may fall short of the error
MARGIN = 1.5
# error of a population or norm above which a warning is given
UNSURE = 0.02
# numbers with a scale of their own, by which an error is large or not
SCALED = ("norm", "pop", "bound")


class Companions:
    """The repeated runs.

    Attributes
    ----------
    result : MotionResult
        The run.
    state
        What a stop request saves: the propagation at its end.
    with_spectra : bool
        Whether spectra have errors, too, which take longer to find than those of all other numbers.
    errors : dict
        Claimed error by the name of the scalar.
    parts : dict of dict
        What each cause leaves, by the name of the scalar: the time step first, then the spacing.
    spectra : dict of arrays
        Errors of spectra.
    total, unit
        Of their progress.
    """

    result: Any
    unit: str
    with_spectra = True

    def __init__(self, result: MotionResult, state: Callable[[], State]) -> None:
        self.result, self.state = result, state
        self.errors: dict[str, float] = {}
        self.parts: dict[str, dict[str, float]] = {}
        self.spectra: dict[str, NDArray[np.float64]] = {}

    @property
    def total(self) -> int:
        """What is counted, at most."""
        raise NotImplementedError

    def advance(self, report: Report) -> None:
        """Run the companions and compare.

        Raises
        ------
        QsimError
            If one of them cannot run.
        """
        raise NotImplementedError

    def remedy(self, cause: str) -> str:
        """Return what the author of a deck can do about a part of an error."""
        raise NotImplementedError


def claimed(problem: Motion, work: float, monitor: Monitor, *, quiet: bool = False) -> bool:
    """Return True if errors are to be found of runs with so much work together; where not, say why unless `quiet`."""
    most = problem.geometry.most_work(problem)
    if problem.verify is False:
        text = "it is switched off"
    elif problem.verify == "auto" and work > most:
        text = "the run is too long for it; time.verify: true finds them"
    else:
        return True
    if not quiet:
        monitor.note(f"no errors are claimed: {text}")
    return False


def errors(companions: Companions, monitor: Monitor) -> Remarks:
    """Find the errors of the numbers of a run; return what a user must know of large ones."""
    result = companions.result
    try:
        drive(companions, monitor, total=companions.total, unit=companions.unit, what="verify")
    except QsimError as error:
        # what a companion cannot do (deck or numerics) costs the errors only; other failures end the run
        if error.exit_code not in (3, 5):
            raise
        monitor.note(f"no errors are claimed: {error}")
        return []
    result.errors |= companions.errors
    result.spectra |= companions.spectra
    result.parts = companions.parts
    shares = {name: e for name, e in companions.errors.items() if name.startswith(SCALED)}
    worst = max(shares, key=lambda name: shares[name])
    remarks = list(_promised(result, shares))
    if shares[worst] > UNSURE:
        # the largest part tells what to change in the deck
        parts = {cause: part for cause, part in companions.parts[worst].items() if part}
        ordered = sorted(parts, key=lambda cause: -parts[cause])
        listed = ", ".join(f"{cause} {parts[cause]:.2g}" for cause in ordered)
        text = (
            f"{worst} is uncertain by {shares[worst]:.2g} (parts: {listed}): {companions.remedy(ordered[0])}"
        )
        remarks.append(("uncertain", shares[worst], text))
    return remarks


def _promised(result: MotionResult, shares: Mapping[str, float]) -> Iterator[tuple[str, float, str]]:
    """Yield the error of steps that the run chose, if it is larger than the deck allows."""
    allowed = result.problem.accuracy
    if allowed is None:
        return
    # the deck's accuracy is about the steps alone, not about the grid
    by_steps = {name: next(iter(result.parts[name].values())) for name in shares if name in result.parts}
    worst = max(by_steps, key=lambda name: by_steps[name])
    if by_steps[worst] > allowed:
        text = f"the steps leave an error of {by_steps[worst]:.2g} in {worst}, more than time.accuracy: {allowed:g}"
        yield "accuracy", by_steps[worst], text

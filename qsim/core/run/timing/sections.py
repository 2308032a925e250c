"""The time left of a run of several sections, whose work relative to each other is known before."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Sections"]


class Sections:
    """Finished and remaining sections of a run.

    Parameters
    ----------
    work
        Work of each section in any unit, in the order in which they are run.
    """

    def __init__(self, work: Sequence[float]) -> None:
        self.work = list(work)
        self.current = -1
        self._seconds = 0.0
        self._done = 0.0

    @property
    def label(self) -> str:
        """Place of the current section, such as ``2/5``; empty for a run of one."""
        return f"{self.current + 1}/{len(self.work)}" if len(self.work) > 1 and self.current >= 0 else ""

    def enter(self, section: int) -> None:
        """Begin section `section`, counted from 0."""
        self.current = section

    def leave(self, share: float, seconds: float) -> None:
        """End the current section, of whose work `share` was done here in `seconds`."""
        if 0 <= self.current < len(self.work) and seconds > 0:
            self._done += share * self.work[self.current]
            self._seconds += seconds

    def left_after(self, share: float, seconds: float) -> float | None:
        """Return the seconds that the sections after the current one take; None for the last one, or while nothing is known.

        Parameters
        ----------
        share, seconds
            Of the work of the current section that was done here, and the time that took.
        """
        after = sum(self.work[self.current + 1 :])
        done = self._done + share * self.work[self.current]
        if self.current < 0 or after <= 0 or done <= 0:
            return None
        return after * (self._seconds + seconds) / done

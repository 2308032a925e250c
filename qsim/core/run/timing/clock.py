"""The time that a run has taken, and may take."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["RunClock"]


class RunClock:
    """The time of one run: spent by this process, by earlier ones, and allowed.

    Parameters
    ----------
    limit
        Seconds this process may take; None without a limit.
    spent
        Seconds this process has used before the clock was made; they count towards `limit`.
    earlier
        Seconds that earlier processes spent on the same run, as in the checkpoint.
    now
        Monotonic clock in seconds.
    """

    def __init__(
        self,
        limit: float | None = None,
        *,
        spent: float = 0.0,
        earlier: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self.now = now
        self._earlier = earlier
        self._start = now() - spent

    @property
    def elapsed(self) -> float:
        """Seconds spent on the run so far, earlier processes included."""
        return self._earlier + self.now() - self._start

    def nearly_over(self, now: float, needed: float) -> bool:
        """Return True if fewer than `needed` seconds, but at most a quarter of the limit, are left at the time `now`."""
        if self.limit is None:
            return False
        return now - self._start + min(needed, 0.25 * self.limit) >= self.limit

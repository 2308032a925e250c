"""Problem of `task: response`."""

from __future__ import annotations

from dataclasses import dataclass, field

from qsim.sturmian.problem import Problem
from qsim.sturmian.response.others import Other

__all__ = ["ResponseProblem"]


@dataclass
class ResponseProblem(Problem):
    """Levels of an atom whose response is wanted.

    ``extrapolate`` lists the values of l_max whose results give the limit of all partial waves.

    Attributes
    ----------
    partners : list of (int, int)
        Numbers of the states of each dispersion coefficient.
    others : list of Other
        Atoms of other decks that attract those of this one.
    """

    partners: list[tuple[int, int]] = field(default_factory=list)
    others: list[Other] = field(default_factory=list)

    @property
    def attracting(self) -> list[int]:
        """Numbers of the states that take part in dispersion forces."""
        return sorted({number for pair in self.partners for number in pair})

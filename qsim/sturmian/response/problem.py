"""Problem of `task: response`."""

from __future__ import annotations

from dataclasses import dataclass, field

from qsim.sturmian.problem import Problem

__all__ = ["ResponseProblem"]


@dataclass
class ResponseProblem(Problem):
    """Levels of an atom whose response is wanted.

    ``extrapolate`` lists the values of l_max whose results give the limit of all partial waves.

    Attributes
    ----------
    partners : list of (int, int)
        Numbers of the states of each dispersion coefficient.
    """

    partners: list[tuple[int, int]] = field(default_factory=list)

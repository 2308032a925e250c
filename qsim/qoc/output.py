"""Names, units and figures of a qoc result."""

from __future__ import annotations

from qsim.qoc.figures import FIGURES
from qsim.qoc.result import QUANTITIES

__all__ = ["FIGURES", "QUANTITIES"]

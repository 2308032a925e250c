"""Polarisabilities of other atoms, from the results of their response decks: partners of dispersion forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["Other", "others"]

KEY = "task.with"


@dataclass(frozen=True, eq=False)
class Other:
    """An atom in an S state whose dipole polarisability at imaginary frequencies is known.

    Attributes
    ----------
    name : str
        Of its state and file.
    alpha, error : (n,) float64
        At the nodes of `numbers.casimir_nodes` with n points and the scale 1, bohr^3; NaN where a file knows no error.
    """

    name: str
    alpha: NDArray[np.float64]
    error: NDArray[np.float64]


def others(paths: Sequence[Path]) -> list[Other]:
    """Return the atoms of some results files, those of the first file first.

    Raises
    ------
    InvalidInput
        If a file cannot be read, or has no polarisabilities at imaginary frequencies.
    """
    from qsim.core.results.results import open_results

    found: list[Other] = []
    for path in paths:
        try:
            with open_results(path) as results:
                found += _read(path, results)
        except FileError as error:
            raise InvalidInput(KEY, str(error)) from error
    return found


def _read(path: Path, results: Results) -> list[Other]:
    """Return the atoms of an open results file."""
    if results.method != "sturmian" or "alpha_imaginary" not in results:
        text = f"{path.name} has no polarisabilities at imaginary frequencies"
        raise InvalidInput(KEY, f"{text}; give the results of task: response with observables: [c6]")
    numbers = np.unique(np.asarray(results["partners"]))
    names = [str(results["state"][number]) for number in numbers]
    alpha = np.asarray(results["alpha_imaginary"])
    known = "alpha_imaginary_error" in results
    error = np.asarray(results["alpha_imaginary_error"]) if known else np.full(alpha.shape, np.nan)
    return [Other(f"{name} of {path.name}", *rows) for name, *rows in zip(names, alpha, error, strict=True)]

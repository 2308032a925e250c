"""Polarisabilities of other atoms, from the results of their response decks: partners of dispersion forces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.errors import FileError, InvalidInput
from qsim.sturmian.response.numbers import STORED, casimir_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = ["Other", "others"]

KEY = "task.with"
# Electrons of every atom of this method, and by how much a finite basis may exceed their sum of oscillator strengths.
ELECTRONS, SHARE = 2.0, 0.05
# Relative rounding of polarisabilities that have no error.
EXACT = 1e-9


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
        If a file cannot be read, has no polarisabilities at imaginary frequencies, or such as no atom has.
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
    omega = casimir_nodes(1.0, STORED)[0]
    file = _File(path, results)
    found = file.numbers("omega_imaginary", omega.shape)
    if not np.allclose(found, omega, rtol=1e-10, atol=0.0):
        raise file.refused(
            "omega_imaginary", f"holds other frequencies than the {STORED} nodes of this version"
        )
    partners = file.numbers("partners")
    numbers = np.unique(partners).astype(int)
    states = np.asarray(results["state"]) if "state" in results else np.zeros(0, str)
    if not numbers.size or numbers[0] < 0 or numbers[-1] >= states.size or np.any(partners % 1.0):
        raise file.refused("partners", f"does not name some of its {states.size} states")
    shape = (numbers.size, omega.size)
    alpha = file.numbers("alpha_imaginary", shape)
    error = np.full(shape, np.nan)
    if "alpha_imaginary_error" in results:
        error = file.numbers("alpha_imaginary_error", shape, finite=False)
        if np.any(error < 0.0) or np.any(np.isinf(error)):
            raise file.refused("alpha_imaginary_error", "holds errors that are negative or infinite")
    off = np.nan_to_num(error) + EXACT * np.abs(alpha)
    # Every oscillator strength of a state without a lower P state is positive, and they add up to the electrons.
    if np.any(alpha <= 0.0) or np.any(np.diff(alpha, axis=1) > off[:, 1:] + off[:, :-1]):
        raise file.refused("alpha_imaginary", "must be positive and fall with the frequency")
    if np.any(omega**2 * (alpha - off) > ELECTRONS * (1.0 + SHARE)):
        raise file.refused(
            "alpha_imaginary", f"exceeds {ELECTRONS:g}/omega^2, what {ELECTRONS:g} electrons have"
        )
    names = [str(states[number]) for number in numbers]
    return [Other(f"{name} of {path.name}", *rows) for name, *rows in zip(names, alpha, error, strict=True)]


@dataclass(frozen=True)
class _File:
    """An open results file and its path, for messages that name both the file and a dataset."""

    path: Path
    results: Results

    def numbers(
        self, name: str, shape: tuple[int, ...] | None = None, *, finite: bool = True
    ) -> NDArray[np.float64]:
        """Return an array of real numbers of a shape, by default of any."""
        if name not in self.results:
            raise self.refused(name, "is missing")
        try:
            values = np.asarray(self.results[name], float)
        except (TypeError, ValueError) as error:
            raise self.refused(name, "holds no real numbers") from error
        if shape is not None and values.shape != shape:
            raise self.refused(name, f"has the shape {values.shape}, but {shape} is needed")
        if finite and not np.all(np.isfinite(values)):
            raise self.refused(name, "holds numbers that are not finite")
        return values

    def refused(self, name: str, what: str) -> InvalidInput:
        """Return the error that refuses a dataset."""
        text = f"{self.path.name}: the dataset {name} {what}"
        return InvalidInput(KEY, f"{text}; run the deck of that file again with observables: [c6]")

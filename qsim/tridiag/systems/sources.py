"""The systems of a deck: where their elements come from, and where a mistake in them is in the deck."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qsim.core.errors import FileError, InvalidInput, MemoryLimitError, NumericsError
from qsim.tridiag.deck.model import FileSystem, LaplaceSystem, RandomSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.tridiag.deck.model import CrankNicolsonSystem, Precision
    from qsim.tridiag.solver.systems import BatchSource
    from qsim.tridiag.systems.problem import SystemProblem

__all__ = ["dtype_of", "generator", "located"]


def dtype_of(precision: Precision, kind: str) -> np.dtype[Any]:
    """Return the number type of a `complex` or `real` system in a precision."""
    names = {"complex": ("complex128", "complex64"), "real": ("float64", "float32")}
    return np.dtype(names[kind][precision == "single"])


def generator(
    block: RandomSystem | LaplaceSystem | CrankNicolsonSystem,
    precision: Precision,
    seed: int,
    n: int | None = None,
) -> BatchSource:
    """Return the source of a generated system.

    Parameters
    ----------
    block
        Block of the deck.
    precision
        Of the run.
    seed
        Where the block names none.
    n
        Rows, instead of the block's number; then one system with one right-hand side.
    """
    from qsim.tridiag.solver import systems

    # a seed of the block goes before the seed of the run
    seed = seed if block.seed is None else block.seed
    rows = block.n if n is None else n
    if isinstance(block, RandomSystem):
        batch, columns = (block.batch, block.rhs) if n is None else (1, 1)
        dtype = dtype_of(precision, block.dtype)
        return systems.RandomSource(rows, seed, block.dominance, dtype, batch, columns)
    if isinstance(block, LaplaceSystem):
        return systems.LaplaceSource(rows, seed, dtype=dtype_of(precision, "real"))
    from qsim.tridiag.tdse import potentials

    potential = partial(potentials.evaluate, block.potential, key="system.potential")
    dtype = dtype_of(precision, "complex")
    return systems.CrankNicolsonSource(rows, block.dx, block.dt, potential, seed, dtype)


@contextmanager
def located(problem: SystemProblem) -> Iterator[None]:
    """Turn what only the solution finds out into an error at its place in the deck."""
    try:
        yield
    except InvalidInput as error:
        problem.blame(error.key, str(error))
    except (NumericsError, MemoryError) as error:
        # numerical trouble of a generated system is no mistake at a key of the deck
        if not (file := _file_of(problem, "a")):
            raise
        kind = MemoryLimitError if isinstance(error, MemoryError) else NumericsError
        raise kind(f"{file}: {error}", hint=getattr(error, "hint", None)) from error
    except ValueError as error:
        _blame_value(problem, error)


def _blame_value(problem: SystemProblem, error: ValueError) -> NoReturn:
    """Raise an error of the solver at the file, the blocks or the system that it is about."""
    text = str(error)
    # messages begin with the letter of the array, such as "b[3] is not finite"
    if "finite" in text:
        if file := _file_of(problem, text[:1]):
            raise FileError(f"{file}: {text}") from error
        raise NumericsError(text) from error
    problem.blame(problem.blocks_key if "block" in text else "system", text)


def _file_of(problem: SystemProblem, letter: str) -> str:
    """Return the file that holds an array of the system, a (diagonal) to d (right-hand side); empty if none does."""
    block = problem.system
    if not isinstance(block, FileSystem):
        return ""
    return str(block.rhs if letter == "d" and block.rhs is not None else block.file)

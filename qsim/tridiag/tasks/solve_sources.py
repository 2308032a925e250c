"""The systems of a deck: where their elements come from, and where a mistake in them is in the deck."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from qsim.core.deck.blocks import Finding
from qsim.core.errors import FileError, InvalidInput, MemoryLimitError, NumericsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.tridiag.deck.model import TridiagDeck
    from qsim.tridiag.problem import Systems

__all__ = ["blame", "dtype_of", "generator", "located"]


def dtype_of(deck: TridiagDeck, kind: str) -> np.dtype[Any]:
    """Return the number type of a `complex` or `real` system in the precision of the deck."""
    single = deck.run.precision == "single"
    names = {"complex": ("complex128", "complex64"), "real": ("float64", "float32")}
    return np.dtype(names[kind][single])


def generator(deck: TridiagDeck, block: Any, n: int | None = None) -> Any:
    """Return the source of a generated system, of n rows if given."""
    from qsim.tridiag.solver import systems

    seed = block.seed if block.seed is not None else deck.run.seed or 0
    rows = block.n if n is None else n
    if block.source == "random":
        batch, columns = (block.batch, block.rhs) if n is None else (1, 1)
        return systems.RandomSource(rows, seed, block.dominance, dtype_of(deck, block.dtype), batch, columns)
    if block.source == "laplace":
        return systems.LaplaceSource(rows, seed, dtype=dtype_of(deck, "real"))
    from qsim.tridiag.tdse import potentials

    def potential(x: NDArray[np.float64]) -> Any:
        return potentials.evaluate(block.potential, x, key="system.potential")

    dtype = dtype_of(deck, "complex")
    return systems.CrankNicolsonSource(rows, block.dx, block.dt, potential, seed, dtype)


@contextmanager
def located(problem: Systems) -> Iterator[None]:
    """Turn what only the solution finds out into an error at its place in the deck."""
    try:
        yield
    except InvalidInput as error:
        blame(problem, error.key, str(error))
    except (NumericsError, MemoryError) as error:
        if not (file := file_of(problem, "a")):
            raise
        kind = MemoryLimitError if isinstance(error, MemoryError) else NumericsError
        raise kind(f"{file}: {error}", hint=getattr(error, "hint", None)) from error
    except ValueError as error:
        text = str(error)
        if "finite" in text:
            if file := file_of(problem, text[:1]):
                raise FileError(f"{file}: {text}") from error
            raise NumericsError(text) from error
        blocks = "scaling.blocks" if problem.deck.task == "scaling" else "solver.blocks"
        blame(problem, blocks if "block" in text else "system", text)


def file_of(problem: Systems, letter: str) -> str:
    """Return the file that holds an array of the system, a (diagonal) to d (right-hand side); empty if none does."""
    block: Any = problem.deck.system
    if problem.deck.task != "solve" or getattr(block, "source", "") != "file":
        return ""
    return str(block.rhs if letter == "d" and block.rhs is not None else block.file)


def blame(problem: Systems, key: str, text: str) -> NoReturn:
    """Raise a mistake at a key of the deck."""
    problem.loaded.raise_for([Finding(key, text)])
    raise NumericsError(text)  # raise_for has raised already

"""Operators by name: formulas of matrices of named parts, products of spaces, and what an operator must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from qsim.core.deck.expression import Expression, ExpressionError, operator_program
from qsim.core.errors import InvalidInput, NumericsError
from qsim.core.text import shorten

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from qsim.core.device.arrays import IndexArray

    Factor: TypeAlias = "complex | csr_array"

# |A - A+| allowed, relative to the largest entry: rounding of products, and of files in double precision.
HERMITIAN = 1e-12
# Largest exponent of an operator in a formula.
MAX_POWER = 100


def sparse_matrix(matrix: object) -> csr_array:
    """Return a matrix (dense, or sparse of any format) as a csr_array of complex128 without stored zeros."""
    result = sparse.csr_array(matrix, dtype=np.complex128)
    result.sum_duplicates()
    result.eliminate_zeros()
    return result


def embedded(matrix: csr_array, place: int, shape: Sequence[int]) -> csr_array:
    """Return ``1 x ... x matrix x ... x 1`` in a product of spaces, the first one slowest.

    Parameters
    ----------
    matrix : csr_array (shape[place], shape[place])
    place : int
        Number of its space.
    shape : sequence of int
        Dimensions of all spaces.
    """
    # Two Kronecker products with unit matrices: the parts before are slower, those behind faster.
    before = math.prod(shape[:place])
    behind = math.prod(shape[place + 1 :])
    inner = sparse.kron(matrix, sparse.eye_array(behind), format="csr")
    return sparse_matrix(sparse.kron(sparse.eye_array(before), inner, format="csr"))


def evaluate(
    text: str, names: Sequence[str], matrix: Callable[[str], csr_array], key: str, dimension: int
) -> csr_array:
    """Return the matrix of a formula of operators; a number is that multiple of 1.

    Parameters
    ----------
    text
        ``"a.bd*b.b + a.b*b.bd"``.
    names
        The operators that the formula may use.
    matrix
        Returns the operator (D, D) of a name.
    key
        Where the formula stands in the deck.
    dimension : int
        D.

    Raises
    ------
    InvalidInput
        If the formula is mistaken, divides by an operator, takes a function of one, or is not finite.
    """
    try:
        program = operator_program(text, names)
    except ExpressionError as error:
        raise InvalidInput(key, f"{error} (in {shorten(repr(text))})") from None
    # The program is in postfix order: operands first, then what is done with them.
    stack: list[Factor] = []
    for step in program:
        if step.kind == "number":
            stack.append(complex(step.value))
        elif step.kind == "name":
            stack.append(matrix(step.value))
        else:
            arguments = stack[len(stack) - step.count :]
            del stack[len(stack) - step.count :]
            # What overflows is found in the result.
            try:
                with np.errstate(all="ignore"):
                    stack.append(_apply(step.value, arguments, dimension))
            except (ArithmeticError, NumericsError, ValueError) as error:
                raise InvalidInput(key, f"{error} (in {shorten(repr(text))})") from None
    value = stack.pop()
    result = sparse_matrix(_as_matrix(value, dimension))
    if not np.isfinite(result.data).all():
        raise InvalidInput(key, f"the operator {shorten(repr(text))} has entries that are not finite")
    return result


def reach(text: str, steps: Mapping[str, IndexArray]) -> IndexArray:
    """Return by how many levels a formula can change the level of each part at most, (parts,) int64.

    Products add their changes and sums take the larger one, whatever cancels: a bound that needs no matrix, and so knows of
    elements that a basis of few levels lacks.

    Parameters
    ----------
    text
        A formula that `evaluate` accepts.
    steps
        The changes (parts,) of each operator by name.
    """
    still = np.zeros_like(next(iter(steps.values())))
    stack: list[complex | IndexArray] = []
    for step in operator_program(text, tuple(steps)):
        if step.kind in ("number", "name"):
            stack.append(complex(step.value) if step.kind == "number" else steps[str(step.value)])
            continue
        arguments = stack[len(stack) - step.count :]
        del stack[len(stack) - step.count :]
        numbers = [value for value in arguments if isinstance(value, complex)]
        changes = [still if isinstance(value, complex) else value for value in arguments]
        if len(numbers) == len(arguments):
            stack.append(_of_numbers(step.value, numbers))
        elif step.value == "^":
            stack.append(changes[0] * int(numbers[0].real))
        else:
            stack.append(np.sum(changes, axis=0) if step.value == "*" else np.max(changes, axis=0))
    value = stack.pop()
    return still if isinstance(value, complex) else value


def _of_numbers(name: str, numbers: list[complex]) -> complex:
    """Return the result of an operator or function of numbers alone."""
    if name == "neg":
        return -numbers[0]
    return _numbers(name, *numbers) if name in _BINARY else _function(name, list(numbers))


def _as_matrix(value: Factor, dimension: int) -> csr_array:
    if isinstance(value, complex):
        return value * sparse.eye_array(dimension, format="csr", dtype=np.complex128)
    return value


def _apply(name: str, arguments: list[Factor], dimension: int) -> Factor:
    """Return the result of one operator or function of a formula.

    Raises
    ------
    ValueError
        For what has no meaning with operators.
    """
    if name == "neg":
        return -arguments[0]
    if name not in _BINARY:
        return _function(name, arguments)
    first, second = arguments
    if isinstance(first, complex) and isinstance(second, complex):
        return _numbers(name, first, second)
    # A number beside an operator means that multiple of the unit matrix.
    if name in ("+", "-"):
        a, b = _as_matrix(first, dimension), _as_matrix(second, dimension)
        return sparse_matrix(a + b if name == "+" else a - b)
    if name == "*":
        # The order of two operators is kept, a number may stand on either side.
        if isinstance(first, complex) or isinstance(second, complex):
            return first * second
        return sparse_matrix(first @ second)
    if name == "/":
        if not isinstance(second, complex):
            raise ValueError("division by an operator")
        return first * (1.0 / second)
    return _power(first, second, dimension)


_BINARY = ("+", "-", "*", "/", "^")


def _numbers(name: str, first: complex, second: complex) -> complex:
    """Return a sum, difference, product, quotient or power of two numbers."""
    operations: Mapping[str, Callable[[], complex]] = {
        "+": lambda: first + second,
        "-": lambda: first - second,
        "*": lambda: first * second,
        "/": lambda: first / second,
        "^": lambda: first**second,
    }
    return complex(operations[name]())


def _function(name: str, arguments: list[Factor]) -> complex:
    """Return a function of real numbers.

    Raises
    ------
    ValueError
        If an argument is an operator, or not real.
    """
    numbers = [value.real for value in arguments if isinstance(value, complex) and value.imag == 0]
    if len(numbers) < len(arguments):
        raise ValueError(f"{name} of an operator or of a complex number; functions take real numbers only")
    names = [f"x{k}" for k in range(len(numbers))]
    formula = Expression(f"{name}({', '.join(names)})", names)
    return complex(float(formula(**dict(zip(names, numbers, strict=True)))))


def _power(base: Factor, exponent: Factor, dimension: int) -> Factor:
    """Return a power of an operator with a whole exponent.

    Raises
    ------
    ValueError
        If the exponent is an operator, or no whole number from 0 to `MAX_POWER`.
    """
    whole = isinstance(exponent, complex) and exponent.imag == 0 and exponent.real.is_integer()
    if isinstance(base, complex) or not isinstance(exponent, complex) or not whole:
        raise ValueError("exponents of operators must be whole numbers")
    count = int(exponent.real)
    if not 0 <= count <= MAX_POWER:
        raise ValueError(f"the exponent {count} of an operator must be between 0 and {MAX_POWER}")
    result = _as_matrix(1.0 + 0j, dimension)
    for _ in range(count):
        result = sparse_matrix(result @ base)
    return result


def require_hermitian(matrix: csr_array, key: str, text: str = "", name: str = "operator") -> None:
    """Refuse an operator that is not Hermitian.

    Parameters
    ----------
    matrix : csr_array (D, D)
    key
        Where it stands in the deck.
    text
        Its formula, for the remedy.
    name
        How the message calls it.

    Raises
    ------
    InvalidInput
        Naming the largest entry of ``|A - A+|`` and its place.
    """
    difference = sparse_matrix(matrix - matrix.conj().T)
    scale = float(np.abs(matrix.data).max(initial=0.0))
    if difference.nnz == 0 or float(np.abs(difference.data).max()) <= HERMITIAN * scale:
        return
    entries = difference.tocoo()
    worst = int(np.argmax(np.abs(entries.data)))
    place = f"({entries.coords[0][worst]},{entries.coords[1][worst]})"
    told = f"{name} is not Hermitian: |A - A+| = {abs(entries.data[worst]):.6g} at {place}"
    opposite = sparse_matrix(matrix + matrix.conj().T)
    # An anti-Hermitian operator lacks a factor i, and the message says so.
    skew = float(np.abs(opposite.data).max(initial=0.0)) <= HERMITIAN * scale
    remedy = f"; write i*({text})" if skew and text else "; add its Hermitian conjugate"
    raise InvalidInput(key, told + remedy)

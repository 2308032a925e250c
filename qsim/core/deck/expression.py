"""Formulas in decks, ``"x^4/64 - x^2/4"``: parsed, never evaluated by Python.

Grammar, loosest first: ``+ -``, ``* /``, unary ``-``, ``^`` (also written ``**``; right-associative, so
``-x^2`` is ``-(x^2)`` and ``2^3^2`` is ``2^9``), then numbers, names, calls and parentheses.
Multiplication is always written.

A formula is compiled to a postfix program for a stack of arrays; sums of any length need no deep recursion.

Formulas of operators, ``"i*(a.bd - a.b)"``, have the same grammar with two additions: names have dots, and ``i`` is the imaginary
unit, also written behind a number (``2i``). `operator_program` compiles them; whoever has the matrices runs the program.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from qsim.core.errors import NumericsError
from qsim.core.text import shorten

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

    Operand = np.float64 | NDArray[np.float64]

__all__ = [
    "CONSTANTS",
    "FUNCTIONS",
    "Expression",
    "ExpressionError",
    "ExpressionText",
    "Instruction",
    "expression_field",
    "operator_program",
]

#: Names of constants.
CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e}
# functions of real arguments alone
NOT_ANALYTIC = frozenset(("abs", "sign", "min", "max", "heaviside", "atan2"))

#: Names of functions, with the least and the largest number of arguments (None: any).
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), (1, 1)),
    "atan2": (2, 2),
    **dict.fromkeys(("sinh", "cosh", "tanh", "sech", "exp", "log", "log10", "sqrt", "abs"), (1, 1)),
    **dict.fromkeys(("sign", "heaviside", "erf"), (1, 1)),
    **dict.fromkeys(("min", "max"), (2, None)),
}

#: Longest formula, in characters.
MAX_LENGTH = 20_000
#: Deepest nesting of parentheses, signs and powers.
MAX_DEPTH = 100

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<sign>\*\*|[-+*/^(),]))",
    re.ASCII,
)
# The same with names of operators, `a.bd`, and imaginary numbers, `2i`.
_OPERATOR_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?:i\b)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)|(?P<sign>\*\*|[-+*/^(),]))",
    re.ASCII,
)
_BINARY = {
    "+": (10, 11),
    "-": (10, 11),
    "*": (20, 21),
    "/": (20, 21),
    "^": (41, 40),
    # binding to the left, right
}
_UNARY = 30
_LOOKALIKES = {
    "\N{MINUS SIGN}": "-",
    "\N{EN DASH}": "-",
    "\N{MULTIPLICATION SIGN}": "*",
    "\N{MIDDLE DOT}": "*",
    "\N{DIVISION SIGN}": "/",
    "\N{SUPERSCRIPT TWO}": "^2",
    "\N{SUPERSCRIPT THREE}": "^3",
    "\N{GREEK SMALL LETTER PI}": "pi",
    "[": "(",
    "]": ")",
    "{": "(",
    "}": ")",
}


class ExpressionError(ValueError):
    """A formula is mistaken.

    Attributes
    ----------
    column
        Where, counted from 1.
    """

    def __init__(self, message: str, column: int) -> None:
        super().__init__(f"column {column}: {message}")
        self.column = column


@dataclass(frozen=True, slots=True)
class Instruction:
    """One step of a compiled formula.

    Attributes
    ----------
    kind
        ``"number"``, ``"name"`` (push) or ``"call"`` (replace the topmost `count` values by their function).
    value
        The number, the name of the variable, or the name of the function or operator (``"neg"`` for the
        sign).
    count
        Number of arguments of a call.
    """

    kind: str
    value: Any
    count: int = 0


class Expression:
    """A formula of given variables.

    Parameters
    ----------
    text
        The formula.
    variables
        The names that stand for arrays.

    Attributes
    ----------
    names
        The variables that the formula really uses.
    program
        The formula as a postfix program.

    Raises
    ------
    ExpressionError
        If the text is not a formula of these variables.

    Examples
    --------
    >>> Expression("-x^2 + max(x, 1)")(x=[0.0, 2.0])
    array([ 1., -2.])
    """

    def __init__(self, text: str, variables: Sequence[str] = ("x",)) -> None:
        self.text = text
        self.variables = tuple(variables)
        # parsed once, in the constructor: a deck is refused before anything is computed
        self.program: tuple[Instruction, ...] = tuple(_Parser(text, self.variables).parse())
        self.names = frozenset(str(step.value) for step in self.program if step.kind == "name")

    def with_values(self, **numbers: float) -> Expression:
        """Return the formula of the other variables, with numbers for some of them."""
        other = object.__new__(Expression)
        values = ", ".join(f"{name} = {value!r}" for name, value in numbers.items())
        # formulas are told apart by their text
        other.text = f"{self.text} with {values}"
        other.variables = tuple(name for name in self.variables if name not in numbers)
        other.program = tuple(
            Instruction("number", numbers[step.value])
            if step.kind == "name" and step.value in numbers
            else step
            for step in self.program
        )
        other.names = self.names - set(numbers)
        return other

    def __repr__(self) -> str:
        """Return the call that makes this formula."""
        return f"Expression({self.text!r}, variables={self.variables!r})"

    def __eq__(self, other: object) -> bool:
        """Formulas are equal if their text and variables are."""
        same = isinstance(other, Expression) and self.text == other.text
        return same and self.variables == other.variables  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        """Hash consistently with equality."""
        return hash((self.text, self.variables))

    def __call__(self, **arrays: ArrayLike) -> NDArray[np.float64]:
        """Evaluate the formula.

        Parameters
        ----------
        **arrays
            A value, real, for every variable; shapes broadcast.

        Returns
        -------
        ndarray of float64
            A new array of the common shape of all variables, also where the formula is a constant.

        Raises
        ------
        TypeError
            If a variable is missing or unknown.
        NumericsError
            If the result is not finite somewhere; the message names a place.
        """
        import numpy as np

        if set(arrays) != set(self.variables):
            raise TypeError(f"{self!r} needs values for {', '.join(self.variables)}, not {', '.join(arrays)}")
        given = {name: np.asarray(value, dtype=np.float64) for name, value in arrays.items()}
        shape = np.broadcast_shapes(*(value.shape for value in given.values()))
        # A formula without variables, or of some of them only, still has the common shape.
        result = np.array(np.broadcast_to(self._value(given), shape), dtype=np.float64)
        self._require_finite(result, given)
        return result

    @property
    def analytic(self) -> bool:
        """True if all functions of the formula have a meaning for complex arguments."""
        return not any(step.kind == "call" and step.value in NOT_ANALYTIC for step in self.program)

    def continued(self, **arrays: NDArray[np.complex128]) -> NDArray[np.complex128]:
        """Return the analytic continuation of the formula to complex values of its variables, of their common shape."""
        import numpy as np

        shape = np.broadcast_shapes(*(value.shape for value in arrays.values()))
        return np.array(np.broadcast_to(self._value(arrays), shape), dtype=np.complex128)

    def _value(self, given: Mapping[str, NDArray[Any]]) -> Operand:
        """Return the value for arrays of all variables."""
        import numpy as np

        functions = _implementations()
        # A stack machine: operands are pushed, a call replaces its arguments by its result.
        # Arrays of all variables broadcast in the operations themselves.
        stack: list[Any] = []
        # overflow and 0/0 show in the result, with their place
        with np.errstate(all="ignore"):
            for step in self.program:
                kind, value, count = step.kind, step.value, step.count
                if kind == "number":
                    stack.append(np.float64(value))
                elif kind == "name":
                    stack.append(given[value])
                else:
                    arguments = stack[len(stack) - count :]
                    del stack[len(stack) - count :]
                    stack.append(functions[value](*arguments))
        found: Operand = stack.pop()
        return found

    def _require_finite(self, result: NDArray[np.float64], given: dict[str, NDArray[np.float64]]) -> None:
        import numpy as np

        bad = ~np.isfinite(result)
        if not bad.any():
            return
        # the first place that is not finite, with the values of the variables there
        first = np.unravel_index(int(np.argmax(bad)), result.shape)
        place = ", ".join(
            f"{name} = {float(np.broadcast_to(value, result.shape)[first]):.6g}"
            for name, value in given.items()
            if name in self.names
        )
        raise NumericsError(
            f"the formula {shorten(repr(self.text))} is not finite" + (f" at {place}" if place else "")
        )


def _implementations() -> dict[str, Callable[..., Any]]:
    """Return the functions and operators on arrays."""
    import numpy as np

    def sech(x: Operand) -> Operand:
        # no overflow, however large x is
        turned: Any = -x * np.sign(np.asarray(x).real)
        small = np.exp(turned)
        result: Operand = 2.0 * small / (1.0 + small * small)
        return result

    def erf(x: Operand) -> Operand:
        from scipy.special import erf as scipy_erf

        result: Operand = scipy_erf(x)
        return result

    def many(function: Callable[..., Any]) -> Callable[..., Any]:
        def reduced(first: Operand, *others: Operand) -> Operand:
            for other in others:
                first = function(first, other)
            return first

        return reduced

    # Names of decks, mapped to NumPy. Inverse functions have the names of C, the step is one
    # half at zero, and `min` and `max` take any number of arguments.
    same_name = ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "log10", "sqrt", "abs", "sign")
    functions: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in same_name}
    functions |= {"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2}
    functions |= {"sech": sech, "erf": erf, "heaviside": lambda x: np.heaviside(x, 0.5)}
    functions |= {"min": many(np.minimum), "max": many(np.maximum)}
    operators = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "neg": np.negative}
    # squares a square; np.power takes a logarithm
    return functions | operators | {"^": operator.pow}


class _Token(NamedTuple):
    # "number", "name", "sign", "end"
    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)


class _Parser:
    """A Pratt parser that writes a postfix program."""

    def __init__(self, text: str, variables: tuple[str, ...], *, operators: bool = False) -> None:
        self.variables = variables
        self.operators = operators
        self.constants: dict[str, complex] = {**CONSTANTS, "i": 1j} if operators else {**CONSTANTS}
        self.tokens = _tokens(text, _OPERATOR_TOKEN if operators else _TOKEN)
        self.position = 0
        self.program: list[Instruction] = []

    @property
    def token(self) -> _Token:
        return self.tokens[self.position]

    def take(self) -> _Token:
        token = self.token
        self.position += 1
        return token

    def parse(self) -> list[Instruction]:
        if self.token.kind == "end":
            raise ExpressionError("the formula is empty", 1)
        # What the outermost expression leaves over is a bracket or a comma without its opening.
        self.expression(0, 0)
        if self.token.text == ")":
            raise ExpressionError("')' without '('", self.token.column)
        if self.token.text == ",":
            raise ExpressionError(
                "',' outside of a function's arguments (decimals have a point)", self.token.column
            )
        return self.program

    def expression(self, binding: int, depth: int) -> None:
        """Parse an expression whose operators bind tighter than `binding`."""
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH} levels", self.token.column)
        # Pratt's method: an operand, then operators as long as they bind tighter than the one before
        self.operand(depth)
        while True:
            # Precedence climbing: operators that bind tighter than the caller's are taken here,
            # others are left to it. Right-associative powers bind their right side a little
            # looser than their left one.
            token = self.token
            if token.kind in ("number", "name") or token.text == "(":
                before = self.tokens[self.position - 1]
                raise ExpressionError(f"an operator is missing between {before} and {token}", token.column)
            left, right = _BINARY.get(token.text, (-1, -1))
            if left <= binding:
                return
            self.take()
            # right-associative powers bind their right side less than their left: 2^3^2 = 2^(3^2)
            self.expression(right, depth + 1)
            self.program.append(Instruction("call", token.text, 2))

    def operand(self, depth: int) -> None:
        """Read a number, a name, a call, or a formula in brackets."""
        token = self.take()
        if token.kind == "number":
            # 1e999 is read as infinity.
            value = float(token.text.rstrip("i"))
            if not math.isfinite(value):
                raise ExpressionError(f"the number {token} is too large", token.column)
            self.program.append(Instruction("number", value * 1j if token.text.endswith("i") else value))
        elif token.kind == "name":
            self.name(token, depth)
        elif token.text in ("-", "+"):
            # a sign binds tighter than a product and looser than a power: -x^2 = -(x^2)
            self.expression(_UNARY, depth + 1)
            if token.text == "-":
                self.program.append(Instruction("call", "neg", 1))
        elif token.text == "(":
            self.expression(0, depth + 1)
            self.close(token, "'('")
        else:
            raise ExpressionError(f"a number, a name or '(' is expected, not {token}", token.column)

    def name(self, token: _Token, depth: int) -> None:
        # A name followed by a bracket is a call; variables may have the name of a function, `e`
        # may be one.
        name, called = token.text, self.token.text == "("
        if name in self.variables and not called:
            self.program.append(Instruction("name", name))
        elif name in FUNCTIONS and called:
            self.call(token, depth)
        elif name in self.constants and not called:
            self.program.append(Instruction("number", self.constants[name]))
        elif name in FUNCTIONS:
            raise ExpressionError(f"{name!r} is a function: write {name}(...)", token.column)
        elif name in self.variables or name in self.constants:
            raise ExpressionError(f"{name!r} is no function; write '*' to multiply", token.column)
        else:
            raise ExpressionError(self.unknown(name, called), token.column)

    def unknown(self, name: str, called: bool) -> str:
        """Return what to say of a name that is none: the nearest one, and all that are allowed."""
        known = [*FUNCTIONS] if called else [*self.variables, *self.constants, *FUNCTIONS]
        # Names of other languages are too far from ours for a search by spelling.
        special = {
            "ln": "log",
            "arcsin": "asin",
            "arccos": "acos",
            "arctan": "atan",
            "fabs": "abs",
            "pow": "^",
        }
        close = [special[name]] if name in special else difflib.get_close_matches(name[:80], known, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        what = "operators" if self.operators else "variables"
        kinds = {what: self.variables, "constants": self.constants, "functions": FUNCTIONS}
        allowed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items() if names)
        return f"unknown {'function' if called else 'name'} {shorten(repr(name))}; {hint}{allowed}"

    def call(self, token: _Token, depth: int) -> None:
        """Read the arguments of a function and append its instruction."""
        opened = self.take()
        count = 0
        if self.token.text != ")":
            self.expression(0, depth + 1)
            count = 1
            while self.token.text == ",":
                self.take()
                self.expression(0, depth + 1)
                count += 1
        self.close(opened, shorten(repr(token.text)))
        # Counted after the closing bracket, so that a missing bracket is reported first.
        least, most = FUNCTIONS[token.text]
        if count < least or (most is not None and count > most):
            wanted = f"{least} argument{'' if least == 1 else 's'}" + ("" if most else " or more")
            raise ExpressionError(f"{token.text} takes {wanted}, not {count}", token.column)
        self.program.append(Instruction("call", token.text, count))

    def close(self, opened: _Token, what: str) -> None:
        token = self.take()
        if token.text != ")":
            raise ExpressionError(
                f"')' is expected for {what} of column {opened.column}, not {token}", token.column
            )


def operator_program(text: str, names: Sequence[str]) -> tuple[Instruction, ...]:
    """Compile a formula of operators to a postfix program.

    Parameters
    ----------
    text
        The formula, ``"a.bd*b.b + a.b*b.bd"``: sums, products, powers, numbers, ``i``, functions of numbers.
    names
        The operators, ``part.operator``.

    Returns
    -------
    tuple of Instruction
        Numbers are float or complex; a product is in the order of the formula.

    Raises
    ------
    ExpressionError
        If the text is not a formula of these operators.
    """
    return tuple(_Parser(text, tuple(names), operators=True).parse())


def _tokens(text: str, pattern: re.Pattern[str] = _TOKEN) -> list[_Token]:
    """Split a formula into numbers, names and operators, with their columns."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"longer than {MAX_LENGTH} characters", MAX_LENGTH + 1)
    tokens: list[_Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        # Anything that begins no token is reported at its column; characters that look like
        # operators get advice.
        match = pattern.match(text, position)
        if match is None:
            # the place of the character, behind the blanks before it
            position += len(text[position:]) - len(text[position:].lstrip())
            hint = f"; write {_LOOKALIKES[text[position]]!r}" if text[position] in _LOOKALIKES else ""
            raise ExpressionError(f"unexpected character {text[position]!r}{hint}", position + 1)
        kind = str(match.lastgroup)
        word = match[kind]
        tokens.append(_Token(kind, "^" if word == "**" else word, match.start(kind) + 1))
        position = match.end()
    tokens.append(_Token("end", "", end + 1))
    return tokens


class ExpressionText:
    """The mark of a deck field that holds a formula; a bare number is accepted as one.

    The field's value is the text; `Expression` with the same variables evaluates it::

        class Potential(Block):
            value: Annotated[str, ExpressionText("x")]

    Parameters
    ----------
    *variables
        The names that the formula may use.
    numbers
        Whether a bare number is a formula, too.  Not where the field takes numbers besides, which have limits: one that is
        beyond them would pass as a formula.
    """

    def __init__(self, *variables: str, numbers: bool = True) -> None:
        self.variables = variables
        self.numbers = numbers

    def __repr__(self) -> str:
        """Return the call that makes this mark."""
        words = [*map(repr, self.variables), *(() if self.numbers else ("numbers=False",))]
        return f"ExpressionText({', '.join(words)})"

    def _check(self, value: object) -> object:
        from pydantic_core import PydanticCustomError

        if self.numbers and isinstance(value, (int, float)) and not isinstance(value, bool):
            value = repr(value)
        if isinstance(value, str):
            try:
                Expression(value, self.variables)
            except ExpressionError as error:
                raise PydanticCustomError(
                    "expression", "{text}", {"text": f"{error} (in {shorten(repr(value))})"}
                ) from None
        return value

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Validate by parsing; what is kept is the text."""
        from pydantic_core import core_schema

        text = core_schema.str_schema()
        either = core_schema.union_schema([text, core_schema.float_schema()]) if self.numbers else text
        return core_schema.no_info_before_validator_function(
            self._check, text, json_schema_input_schema=either
        )


def expression_field(*variables: str) -> Any:
    """Return the type of a deck field that holds a formula of `variables`.

    Type checkers want ``Annotated[str, ExpressionText("x")]`` written out in a class; it means the same.
    """
    return Annotated[str, ExpressionText(*variables)]

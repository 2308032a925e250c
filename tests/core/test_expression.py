"""Formulas: values, precedence, mistakes with their column, and nothing of Python."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from qsim.core.deck.expression import CONSTANTS, FUNCTIONS, Expression, ExpressionError, expression_field
from qsim.core.errors import NumericsError

X = 0.7


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-x^2", -(X**2)),
        ("(-x)^2", X**2),
        ("2^3^2", 512.0),
        ("2^-x", 2.0**-X),
        ("x**2", X**2),
        ("--x", X),
        ("+x", X),
        ("1-2-3", -4.0),
        ("8/4/2", 1.0),
        ("x*-2", -2 * X),
        ("-x*3", -3 * X),
        ("2 - -x", 2 + X),
        ("x^4/64 - x^2/4 + x^3/256", X**4 / 64 - X**2 / 4 + X**3 / 256),
        (".5e1*x", 5 * X),
        ("1.*x", X),
        ("pi*e", math.pi * math.e),
        ("min(3, x, 1)", X),
        ("max(x, 1)", 1.0),
        ("atan2(x, 2)", math.atan2(X, 2)),
        ("sech(x)", 1 / math.cosh(X)),
        ("sech(1e4)", 0.0),
        ("erf(x)", math.erf(X)),
        ("heaviside(x - 1)", 0.0),
        ("heaviside(x - x)", 0.5),
        ("sign(-x)", -1.0),
        ("log10(100)", 2.0),
        ("((x))", X),
        (" \t x \n + 1 ", X + 1),
    ],
)
def test_value(text, value):
    assert Expression(text)(x=X) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize("name", [name for name, (least, _) in FUNCTIONS.items() if least == 1])
def test_every_function_of_one_argument_agrees_with_math(name):
    own = {"sech": lambda x: 1 / math.cosh(x), "sign": lambda x: 1.0, "heaviside": lambda x: 1.0, "abs": abs}
    reference = own.get(name) or getattr(math, name)
    assert Expression(f"{name}(x)")(x=0.3) == pytest.approx(reference(0.3), rel=1e-14)


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("2x", 2, "operator is missing between '2' and 'x'"),
        ("x x", 3, "operator is missing"),
        ("2(x)", 2, "operator is missing"),
        ("(x)(x)", 4, "operator is missing"),
        ("x(2)", 1, "no function"),
        ("pi(2)", 1, "no function"),
        ("sin", 1, "write sin(...)"),
        ("sin x", 1, "write sin(...)"),
        ("sin()", 1, "1 argument, not 0"),
        ("sin(1, 2)", 1, "1 argument, not 2"),
        ("max(x)", 1, "2 arguments or more, not 1"),
        ("atan2(x)", 1, "2 arguments, not 1"),
        ("1 + ln(x)", 5, "did you mean 'log'?"),
        ("1 + y", 5, "variables: x; constants: pi, e; functions: sin"),
        ("sn(x)", 1, "did you mean 'sin'?"),
        ("(x", 3, "')' is expected for '(' of column 1"),
        ("x)", 2, "')' without '('"),
        ("x +", 4, "not the end"),
        ("* x", 1, "not '*'"),
        ("1,5", 2, "decimals have a point"),
        ("min(x,,2)", 7, "not ','"),
        ("x == 1", 3, "unexpected character '='"),
        ("x\N{MINUS SIGN}2", 2, "write '-'"),
        ("x[0]", 2, "write '('"),
        ("1.2.3", 4, "operator is missing"),
        ("2 * 1e999", 5, "too large"),
        ("0.5i", 4, "operator is missing"),
        ("__import__('os')", 12, "unexpected character"),
        ("x.real", 2, "unexpected character '.'"),
        ("lambda: x", 7, "unexpected character ':'"),
        ("\N{ARABIC-INDIC DIGIT ONE}", 1, "unexpected character"),
    ],
)
def test_mistakes_name_their_column(text, column, part):
    with pytest.raises(ExpressionError) as caught:
        Expression(text)
    assert caught.value.column == column
    assert str(caught.value).startswith(f"column {column}: ")
    assert part in str(caught.value)


@pytest.mark.parametrize("opening", ["(", "-", "x^", "sin(", "min(1,", "2*(", "+"])
def test_deep_nesting_is_refused_without_recursion_error(opening):
    with pytest.raises(ExpressionError, match="nested deeper"):
        Expression(opening * 2000 + "x")


def test_long_formulas_are_fine_and_endless_ones_refused():
    assert Expression("+".join(["x"] * 5000))(x=1.0) == 5000.0
    with pytest.raises(ExpressionError, match="longer than"):
        Expression("x" * 100_000)


@given(st.text(alphabet="x0123456789.+-*/^(), eEsin\n", max_size=40))
def test_any_text_is_read_or_refused(text):
    column = 1
    try:
        Expression(text)
    except ExpressionError as error:
        column = error.column
    assert 1 <= column <= len(text) + 1


def _formulas():
    leaves = st.one_of(st.just("x"), st.integers(0, 9).map(str), st.sampled_from(["0.5", "2.25", "pi"]))

    def extend(inner):
        signs = st.sampled_from(["+", "-", "*"])
        return st.one_of(
            st.tuples(inner, signs, inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
            st.tuples(inner, signs, inner).map(lambda t: f"{t[0]} {t[1]} {t[2]}"),
            inner.map(lambda f: f"-{f}"),
            st.tuples(inner, st.integers(0, 2)).map(lambda t: f"({t[0]})^{t[1]}"),
        )

    return st.recursive(leaves, extend, max_leaves=8)


@given(_formulas(), st.floats(-2, 2))
def test_agrees_with_python_where_the_grammars_coincide(text, x):
    value = eval(text.replace("^", "**"), {"x": x, "pi": math.pi})
    assert Expression(text)(x=x) == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_arrays_broadcast_and_constants_fill_the_shape():
    x, t = np.linspace(0, 1, 4), np.linspace(0, 1, 3)[:, None]
    assert np.array_equal(Expression("x + t", ("x", "t"))(x=x, t=t), x + t)
    constant = Expression("2", ("x", "t"))(x=x, t=t)
    assert constant.shape == (3, 4)
    assert constant.dtype == np.float64
    assert Expression("x")(x=[1, 2]).dtype == np.float64


def test_the_result_is_a_new_array():
    x = np.ones(3)
    Expression("x")(x=x)[0] = 7.0
    assert np.array_equal(x, np.ones(3))


def test_arguments_must_be_the_variables():
    with pytest.raises(TypeError, match="needs values for x"):
        Expression("1")(y=1.0)
    assert Expression("x", ("x", "t")).names == {"x"}


@pytest.mark.parametrize(
    ("text", "place"),
    [("1/x", "at x = 0"), ("log(x)", "at x = -1"), ("sqrt(x)", "at x = -1"), ("exp(1e4)", "finite$")],
)
def test_non_finite_results_name_the_place(text, place):
    with np.errstate(all="raise"), pytest.raises(NumericsError, match=place):
        Expression(text)(x=np.linspace(-1, 1, 5))


def test_variables_hide_constants():
    assert Expression("e + x", ("x", "e"))(x=1.0, e=2.0) == 3.0


def test_equality_and_hash():
    assert Expression("x") == Expression("x")
    assert Expression("x") != Expression("x ")
    assert Expression("x") != "x"
    assert len({Expression("x"), Expression("x"), Expression("x", ("x", "t"))}) == 2
    assert eval(repr(Expression("x", ("x", "t")))) == Expression("x", ("x", "t"))


def test_names_do_not_collide():
    assert not set(CONSTANTS) & set(FUNCTIONS)


class Model(BaseModel):
    value: expression_field("x")


def test_deck_field_validates_and_keeps_the_text():
    assert Model(value="x^2").value == "x^2"
    assert Model(value=2).value == "2"
    assert Model(value=0.5).value == "0.5"
    with pytest.raises(ValidationError, match=r"column 3: .* \(in 'x \+'\)|column 4"):
        Model(value="x +")
    with pytest.raises(ValidationError):
        Model(value=True)


def test_importing_needs_no_numpy():
    code = "import sys, qsim.core.deck.expression, qsim.core.deck.units, qsim.core.errors; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

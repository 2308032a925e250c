"""Vectors of `WIDTH` float64 for compiled CPU code: loads, stores and arithmetic that become single instructions.

The compiler's own vectorisation needs loops without recurrences and proofs that arrays do not overlap.  Kernels with a recurrence
along one index and independent lanes along another state their vectors themselves: ``v = load(a, i, WIDTH)`` holds
``a[i : i + WIDTH]``, ``+ - * /`` and unary minus act on each element (with a float on either side, too), and values of a
recurrence stay in registers.
"""

from __future__ import annotations

import operator
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, register_model

__all__ = ["WIDTH", "fma", "full", "load", "load_some", "store", "store_some"]

WIDTH = (
    8 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 4
)  # of the machine's registers
DOUBLE, BIT, INT = ir.DoubleType(), ir.IntType(1), ir.IntType(64)
VECTOR = ir.VectorType(DOUBLE, WIDTH)
MASK = ir.VectorType(BIT, WIDTH)
FLAGS = ("contract",)


class Vector(types.Type):  # type: ignore[misc]  # numba has no types
    """Numba's type of `WIDTH` float64."""

    def __init__(self) -> None:
        super().__init__(name=f"float64x{WIDTH}")


vector = Vector()


@register_model(Vector)
class VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    """A vector in a register."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _is_array(kind: Any) -> bool:
    return (
        isinstance(kind, types.Array)
        and kind.ndim == 1
        and kind.dtype == types.float64
        and kind.layout == "C"
    )


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), VECTOR.as_pointer())


def _same(builder: Any, value: Any) -> Any:
    """Return a vector of equal elements."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)


def _first(builder: Any, count: Any) -> Any:
    """Return the mask of the first `count` elements."""
    integers = ir.VectorType(INT, WIDTH)
    one = builder.insert_element(ir.Constant(integers, ir.Undefined), count, ir.Constant(ir.IntType(32), 0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    counts = builder.shuffle_vector(one, ir.Constant(integers, ir.Undefined), zeros)
    return builder.icmp_signed("<", ir.Constant(integers, list(range(WIDTH))), counts)


@intrinsic
def load(_, array, at, count):
    """Return ``array[at : at + WIDTH]`` of a contiguous (n,) float64; `count` is not used."""
    if not _is_array(array):
        return None

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(place, align=8)

    return vector(array, types.intp, types.intp), generate


@intrinsic
def load_some(_, array, at, count):
    """Return ``array[at : at + count]`` and zeros; what lies beyond is not touched."""
    if not _is_array(array):
        return None

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        kind = ir.FunctionType(VECTOR, [VECTOR.as_pointer(), ir.IntType(32), MASK, VECTOR])
        name = f"llvm.masked.load.v{WIDTH}f64.p0v{WIDTH}f64"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        zero = ir.Constant(VECTOR, [0.0] * WIDTH)
        return builder.call(
            function, [place, ir.Constant(ir.IntType(32), 8), _first(builder, arguments[2]), zero]
        )

    return vector(array, types.intp, types.intp), generate


@intrinsic
def store(_, array, at, value, count):
    """Set ``array[at : at + WIDTH]``; `count` is not used."""
    if not _is_array(array) or value != vector:
        return None

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(arguments[2], place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector, types.intp), generate


@intrinsic
def store_some(_, array, at, value, count):
    """Set ``array[at : at + count]``."""
    if not _is_array(array) or value != vector:
        return None

    def generate(context, builder, signature, arguments):
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1])
        kind = ir.FunctionType(ir.VoidType(), [VECTOR, VECTOR.as_pointer(), ir.IntType(32), MASK])
        name = f"llvm.masked.store.v{WIDTH}f64.p0v{WIDTH}f64"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        builder.call(
            function, [arguments[2], place, ir.Constant(ir.IntType(32), 8), _first(builder, arguments[3])]
        )
        return context.get_dummy_value()

    return types.void(array, types.intp, vector, types.intp), generate


@intrinsic
def full(_, value):
    """Return a vector whose elements are all `value`."""

    def generate(context, builder, signature, arguments):
        return _same(builder, arguments[0])

    return vector(types.float64), generate


@intrinsic
def _fma(_, a, b, c):
    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{WIDTH}f64")
        return builder.call(function, arguments)

    return vector(vector, vector, vector), generate


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a b + c``, rounded once where the machine can."""
    raise NotImplementedError("compiled code only")


@overload(fma, inline="always")
def _fma_of(a, b, c):
    if vector in (a, b, c):
        return lambda a, b, c: _fma(_wide(a), _wide(b), _wide(c))
    return None


def _wide(a: Any) -> Any:
    """Return a float as a vector, a vector as it is."""
    raise NotImplementedError("compiled code only")


@overload(_wide, inline="always")
def _wide_of(a):
    if a == vector:
        return lambda a: a
    return lambda a: full(a)


def _arithmetic(function: Any, name: str) -> None:
    """Give an operator of two vectors, or of one and a float, its meaning."""

    @intrinsic
    def both(_, a, b):
        def generate(context, builder, signature, arguments):
            return getattr(builder, name)(*arguments, flags=FLAGS)

        return vector(vector, vector), generate

    @overload(function, inline="always")
    def chosen(a, b):
        if a == vector and b == vector:
            return lambda a, b: both(a, b)
        if a == vector and isinstance(b, types.Float):
            return lambda a, b: both(a, full(b))
        if isinstance(a, types.Float) and b == vector:
            return lambda a, b: both(full(a), b)
        return None


for _operator, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_operator, _name)


@intrinsic
def _negative(_, a):
    def generate(context, builder, signature, arguments):
        return builder.fneg(arguments[0])

    return vector(vector), generate


@overload(operator.neg, inline="always")
def _neg(a):
    if a == vector:
        return lambda a: _negative(a)
    return None

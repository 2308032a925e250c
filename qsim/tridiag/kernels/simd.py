"""Vectors of `WIDTH` float64 for compiled CPU code: loads, stores and arithmetic that become single instructions.

The compiler's own vectorisation needs loops without recurrences and proofs that arrays do not overlap.  Kernels with a recurrence
along one index and independent lanes along another state their vectors themselves: ``v = load(a, i, WIDTH)`` holds
``a[i : i + WIDTH]``, the operators of :mod:`qsim.core.device.cpu.vectors` act on each element (with a float on either side, too),
and values of a recurrence stay in registers.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from qsim.core.device.cpu.vectors import Vector, address, splat

__all__ = ["WIDTH", "fma", "full", "load", "load_some", "store", "store_some"]

# of the machine's registers
WIDTH = 8 if llvmlite.binding.get_host_cpu_features().get("avx512f", False) else 4
BIT, INT = ir.IntType(1), ir.IntType(64)
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
MASK = ir.VectorType(BIT, WIDTH)

vector = Vector(types.float64, WIDTH)


def _is_array(kind: Any) -> bool:
    return (
        isinstance(kind, types.Array)
        and kind.ndim == 1
        and kind.dtype == types.float64
        and kind.layout == "C"
    )


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    return builder.bitcast(address(context, builder, kind, array, at), VECTOR.as_pointer())


def _first(builder: Any, count: Any) -> Any:
    """Return the mask of the first `count` elements."""
    # element k belongs to the vector if k < count
    numbers = ir.Constant(ir.VectorType(INT, WIDTH), list(range(WIDTH)))
    return builder.icmp_signed("<", numbers, splat(builder, count, WIDTH))


@intrinsic
def load(_, array, at, count):
    """Return ``array[at : at + WIDTH]`` of a contiguous (n,) float64; `count` is not used."""
    if not _is_array(array):
        return None

    def generate(context, builder, signature, arguments):
        # alignment of one double: rows of lanes begin anywhere
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
        # masked elements are not read: they may lie beyond the end of the array
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
        # masked elements keep what they hold: they belong to other lanes
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
        return splat(builder, arguments[0], WIDTH)

    return vector(types.float64), generate


@intrinsic
def fma(_, a, b, c):
    """Return ``a b + c``, rounded once where the machine can; vectors, and floats beside them."""
    # floats alone are left to numba
    if vector not in (a, b, c):
        return None

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{WIDTH}f64")
        return builder.call(
            function, [x if x.type == VECTOR else splat(builder, x, WIDTH) for x in arguments]
        )

    return vector(*(vector if x == vector else types.float64 for x in (a, b, c))), generate

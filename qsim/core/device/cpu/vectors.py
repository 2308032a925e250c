"""Vectors of a few numbers in compiled CPU kernels: ``v = lanes(a, k)``, ``-v * w + 2.0``, ``put(a, k, v)``.

Numba leaves it to the compiler to find loops whose turns can be made side by side.  It finds none where arrays might overlap or
loops are as short as those over the electrons of a molecule.  These numbers are side by side whatever the compiler thinks:
they are loaded, computed with, and stored by single instructions of the processor.

:class:`Vector` has ``+ - * /`` and a sign for any number of elements; the functions that load and make vectors here make them of
four.  Like the kernels, the operators leave it to the compiler to round a product and a sum only once.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from numba.core.base import BaseContext
    from numba.core.datamodel import DataModelManager
    from numba.core.typing.templates import Signature

__all__ = [
    "LANES",
    "Vector",
    "address",
    "floor",
    "get",
    "higher",
    "lane",
    "lanes",
    "lower",
    "pack",
    "put",
    "root",
    "same",
    "splat",
    "total",
    "transposed",
    "unless",
    "wide",
]

LANES = 4
FLAGS = ("contract",)  # fast-math flags of the operators


class Vector(types.Type):  # type: ignore[misc]  # numba has no types
    """Numba's type of `count` real numbers in a register."""

    def __init__(self, dtype: types.Float, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(f"vector({dtype} x {count})")


@register_model(Vector)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: DataModelManager, kind: Vector) -> None:
        element = manager[kind.dtype].get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.count))


def splat(builder: ir.IRBuilder, number: ir.Value, count: int) -> ir.Value:
    """Return a vector of `count` equal numbers."""
    kind = ir.VectorType(number.type, count)
    # The idiom that LLVM recognises as a broadcast.
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    none = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), none)


def refuse_gaps(array: types.Array) -> None:
    """Raise a TypingError if the last index of an array is not the fastest or numbers are not side by side."""
    if array.layout != "C":
        raise TypingError(f"vectors need contiguous arrays, and not {array}")


def address(
    context: BaseContext, builder: ir.IRBuilder, kind: types.Array, array: ir.Value, index: ir.Value
) -> ir.Value:
    """Return the address of a number of a contiguous array, counted through all its dimensions."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [index])


@intrinsic
def lanes(typingctx, array, index):
    """Return the numbers ``index ... index + 3`` of a contiguous array, counted through all its dimensions."""
    refuse_gaps(array)

    def make(context, builder, sig, args):
        kind = context.get_value_type(sig.return_type)
        # An index may be any: the load is aligned as a single number is.
        at = address(context, builder, sig.args[0], *args)
        return builder.load(builder.bitcast(at, kind.as_pointer()), align=array.dtype.bitwidth // 8)

    return Vector(array.dtype, LANES)(array, types.intp), make


@intrinsic
def put(typingctx, array, index, vector):
    """Set the numbers ``index ... index + 3`` of a contiguous array, or number ``index`` alone if ``vector`` is a number.

    They are rounded to the precision of the array.
    """
    refuse_gaps(array)

    def make(context, builder, sig, args):
        to = Vector(array.dtype, vector.count) if isinstance(vector, Vector) else array.dtype
        kind, value = context.get_value_type(to), args[2]
        # A vector in double precision is rounded once, when it is stored.
        if to != vector:
            value = builder.fptrunc(value, kind)
        at = address(context, builder, sig.args[0], *args[:2])
        builder.store(value, builder.bitcast(at, kind.as_pointer()), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.none(array, types.intp, vector), make


@intrinsic
def get(typingctx, array, index):
    """Return number ``index`` of a contiguous array, counted through all its dimensions; no index counts from the end."""
    refuse_gaps(array)

    def make(context, builder, sig, args):
        return builder.load(address(context, builder, sig.args[0], *args))

    return array.dtype(array, types.intp), make


@intrinsic
def same(typingctx, number):
    """Return a vector of equal numbers."""

    def make(context, builder, sig, args):
        return splat(builder, args[0], LANES)

    return Vector(number, LANES)(number), make


@intrinsic
def pack(typingctx, a, b, c, d):
    """Return the vector of four numbers."""

    def make(context, builder, sig, args):
        vector = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
        for k, number in enumerate(args):
            vector = builder.insert_element(vector, number, ir.Constant(ir.IntType(32), k))
        return vector

    return Vector(a, LANES)(a, b, c, d), make


@intrinsic
def wide(typingctx, vector):
    """Return a vector in double precision."""
    to = Vector(types.float64, vector.count)

    def make(context, builder, sig, args):
        return args[0] if to == vector else builder.fpext(args[0], context.get_value_type(to))

    return to(vector), make


@intrinsic
def lane(typingctx, vector, index):
    """Return one number of a vector."""

    def make(context, builder, sig, args):
        return builder.extract_element(args[0], args[1])

    return vector.dtype(vector, types.intp), make


@intrinsic
def total(typingctx, vector):
    """Return the sum of the numbers of a vector of four: of the first and third and of the second and fourth, then of both."""

    def make(context, builder, sig, args):
        # The order that a reduction by halves has, whatever the processor: results are the same everywhere.
        a, b, c, d = (builder.extract_element(args[0], ir.Constant(ir.IntType(32), k)) for k in range(LANES))
        return builder.fadd(builder.fadd(a, c), builder.fadd(b, d))

    return vector.dtype(vector), make


@intrinsic
def transposed(typingctx, a, b, c, d):
    """Return four vectors, the first numbers of all four, the second, the third, and the fourth."""

    def make(context, builder, sig, args):
        def shuffle(one, two, *which):
            return builder.shuffle_vector(one, two, ir.Constant(ir.VectorType(ir.IntType(32), LANES), which))

        # Two steps of shuffles, as for any 4 x 4 transposition in registers: pairs first, then halves.
        halves = [
            shuffle(args[i], args[i + 1], *which) for which in ((0, 4, 2, 6), (1, 5, 3, 7)) for i in (0, 2)
        ]
        rows = [
            shuffle(halves[i], halves[i + 1], *which)
            for which in ((0, 1, 4, 5), (2, 3, 6, 7))
            for i in (0, 2)
        ]
        return context.make_tuple(builder, sig.return_type, rows)

    return types.UniTuple(a, LANES)(a, b, c, d), make


def _called(
    context: BaseContext, builder: ir.IRBuilder, name: str, sig: Signature, value: ir.Value
) -> ir.Value:
    """Return what a function of the compiler's makes of each number of a vector."""
    kind = value.type
    # LLVM's own functions exist for vectors of any length and become single instructions where
    # the processor has them.
    full = f"llvm.{name}.v{kind.count}f{sig.args[0].dtype.bitwidth}"
    function = builder.module.globals.get(full) or ir.Function(
        builder.module, ir.FunctionType(kind, [kind]), full
    )
    return builder.call(function, [value])


@intrinsic
def root(typingctx, vector):
    """Return the square roots."""
    return vector(vector), lambda context, builder, sig, args: _called(context, builder, "sqrt", sig, *args)


@intrinsic
def floor(typingctx, vector):
    """Return the largest whole numbers that are not above the numbers of a vector."""
    return vector(vector), lambda context, builder, sig, args: _called(context, builder, "floor", sig, *args)


@intrinsic
def lower(typingctx, one, other):
    """Return the lower of two numbers at each place, of the second vector where one is not a number."""

    def make(context, builder, sig, args):
        # An ordered comparison is false for NaN, which selects the second vector.
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return one(one, one), make


@intrinsic
def higher(typingctx, one, other):
    """Return the higher of two numbers at each place, of the second vector where one is not a number."""

    def make(context, builder, sig, args):
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return one(one, one), make


@intrinsic
def unless(typingctx, vector, numbers, number, instead):
    """Return a vector with another number in each place where a second vector equals a number."""

    def make(context, builder, sig, args):
        given, other = (splat(builder, x, vector.count) for x in args[2:])
        return builder.select(builder.fcmp_ordered("==", args[1], given), other, args[0])

    return vector(vector, numbers, numbers.dtype, vector.dtype), make


def _arithmetic(sign: Callable[[object, object], object], name: str) -> None:
    """Define an operator between vectors, and between a vector and a number."""

    @infer_global(sign)
    class Template(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: tuple[types.Type, ...], kws: object) -> Signature | None:
            if len(args) != 2 or not any(isinstance(x, Vector) for x in args):
                return None
            # The number beside a vector is converted to its precision.
            vector = next(x for x in args if isinstance(x, Vector))
            if any(isinstance(x, Vector) and x != vector for x in args):
                return None
            return signature(vector, *(x if isinstance(x, Vector) else vector.dtype for x in args))

    def lower(
        context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: tuple[ir.Value, ...]
    ) -> ir.Value:
        # A number beside a vector is broadcast; the operation is then the same for both.
        both = [
            x if isinstance(kind, Vector) else splat(builder, x, sig.return_type.count)
            for kind, x in zip(sig.args, args, strict=True)
        ]
        return getattr(builder, name)(*both, flags=FLAGS)

    for kinds in ((Vector, Vector), (Vector, types.Float), (types.Float, Vector)):
        lower_builtin(sign, *kinds)(lower)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


@infer_global(operator.neg)
class _Negative(AbstractTemplate):  # type: ignore[misc]
    def generic(self, args: tuple[types.Type, ...], kws: object) -> Signature | None:
        return signature(args[0], args[0]) if isinstance(args[0], Vector) else None


@lower_builtin(operator.neg, Vector)
def _negate(
    context: BaseContext, builder: ir.IRBuilder, sig: Signature, args: tuple[ir.Value, ...]
) -> ir.Value:
    return builder.fneg(args[0], flags=FLAGS)

"""Vectors of 4, 8 or 16 numbers in registers, for compiled CPU kernels.

Numba makes vectors of loops over neighbouring numbers only.  Where the same is done to several rows at once, or where sums must
stay in registers, a kernel says so with these functions.  They become vector instructions of the processor at hand; single
precision is widened on loading.  Arguments are arrays or pointers; no index is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numba.core.base import BaseContext
    from numba.core.datamodel import DataModelManager
    from numba.core.typing.context import Context
    from numba.core.typing.templates import Signature

__all__ = ["eight", "four", "lanes_into", "multiply_add", "pointer", "sixteen", "times"]

DOUBLE, INDEX = ir.DoubleType(), ir.IntType(64)


class Lanes(types.Type):  # type: ignore[misc]
    """Numbers that are held together in registers.

    Parameters
    ----------
    count : int
        How many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        super().__init__(f"Lanes({count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: DataModelManager, kind: Lanes) -> None:
        super().__init__(manager, kind, ir.VectorType(DOUBLE, kind.count))


FOUR, EIGHT, SIXTEEN = Lanes(4), Lanes(8), Lanes(16)
_WHOLE = types.int64


def _data(context: BaseContext, builder: ir.IRBuilder, kind: types.Type, array: ir.Value) -> tuple[Any, Any]:
    """Return the pointer to the numbers of an array, and their type."""
    if isinstance(kind, types.CPointer):
        return array, context.get_data_type(kind.dtype)
    return context.make_array(kind)(context, builder, array).data, context.get_data_type(kind.dtype)


def _load(builder: ir.IRBuilder, data: ir.Value, element: ir.Type, at: ir.Value, count: int) -> Any:
    """Load ``count`` neighbours from index `at` as double precision."""
    # aligned to one number only: rows begin anywhere
    place = builder.bitcast(builder.gep(data, [at]), ir.VectorType(element, count).as_pointer())
    vector = builder.load(place, align=8 if element == DOUBLE else 4)
    return vector if element == DOUBLE else builder.fpext(vector, ir.VectorType(DOUBLE, count))


def _store(builder: ir.IRBuilder, data: ir.Value, element: ir.Type, at: ir.Value, value: ir.Value) -> None:
    """Store a vector to index `at` and those after it."""
    kind = ir.VectorType(element, value.type.count)
    place = builder.bitcast(builder.gep(data, [at]), kind.as_pointer())
    out = value if element == DOUBLE else builder.fptrunc(value, kind)
    builder.store(out, place, align=8 if element == DOUBLE else 4)


def _every(builder: ir.IRBuilder, number: ir.Value, count: int) -> Any:
    """Return a vector of equal numbers."""
    kind = ir.VectorType(DOUBLE, count)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
    return _shuffled(builder, one, ir.Constant(kind, ir.Undefined), [0] * count)


def _shuffled(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, order: list[int]) -> Any:
    """Return the numbers of a, then b, in this order."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)
    return builder.shuffle_vector(a, b, mask)


def _stored(*kinds: types.Type) -> bool:
    """Return True if the types are arrays or pointers."""
    return all(isinstance(kind, types.Array | types.CPointer) for kind in kinds)


@intrinsic
def pointer(typingctx: Context, array: types.Type, k: types.Type) -> Any:
    """Return the address of ``array[k]``, which is indexed like an array from there on.

    References to an array are counted at every assignment and call, with locked instructions; an address costs nothing. The array
    must be an argument of the compiled function: one that it makes is freed after its last use by name.
    """
    if not _stored(array):
        return None

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> Any:
        data, _ = _data(context, builder, signature.args[0], arguments[0])
        return builder.gep(data, [arguments[1]])

    return types.CPointer(array.dtype)(array, _WHOLE), generate


def _loader(lanes: Lanes) -> Any:
    def typed(typingctx: Context, array: types.Type, k: types.Type) -> Any:
        """Return neighbours of an array, from index k on."""
        if not _stored(array):
            return None

        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
        ) -> Any:
            data, element = _data(context, builder, signature.args[0], arguments[0])
            return _load(builder, data, element, arguments[1], lanes.count)

        return lanes(array, _WHOLE), generate

    return intrinsic(typed)


four = _loader(FOUR)
eight = _loader(EIGHT)
sixteen = _loader(SIXTEEN)


@intrinsic
def lanes_into(typingctx: Context, array: types.Type, k: types.Type, value: types.Type) -> Any:
    """Set neighbours of an array, from index k on."""
    if not (_stored(array) and isinstance(value, Lanes)):
        return None

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> Any:
        data, element = _data(context, builder, signature.args[0], arguments[0])
        _store(builder, data, element, arguments[1], arguments[2])
        return context.get_dummy_value()

    return types.void(array, _WHOLE, value), generate


@intrinsic
def multiply_add(typingctx: Context, total: types.Type, factor: types.Type, value: types.Type) -> Any:
    """Return ``total + factor value``; the factor is a number or a vector."""
    if not (isinstance(total, Lanes) and isinstance(value, Lanes)):
        return None
    kind = factor if isinstance(factor, Lanes) else types.float64

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> Any:
        start, scale, vector = arguments
        if not isinstance(signature.args[1], Lanes):
            scale = _every(builder, scale, signature.args[0].count)
        # "contract" lets the processor fuse both, as the loops of the kernels are compiled
        product = builder.fmul(scale, vector, flags=["contract"])
        return builder.fadd(start, product, flags=["contract"])

    return total(total, kind, value), generate


@intrinsic
def times(typingctx: Context, factor: types.Type, value: types.Type) -> Any:
    """Return ``factor value``; the factor is a number or a vector."""
    if not isinstance(value, Lanes):
        return None
    kind = factor if isinstance(factor, Lanes) else types.float64

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> Any:
        scale, vector = arguments
        if not isinstance(signature.args[0], Lanes):
            scale = _every(builder, scale, signature.args[1].count)
        return builder.fmul(scale, vector, flags=["contract"])

    return value(kind, value), generate


# ----------------------------------------------------------------------------------- transposition


def _turned(builder: ir.IRBuilder, rows: list[ir.Value], width: int) -> list[Any]:
    """Transpose four vectors of four numbers (width 1), or two of two pairs (width 2)."""
    if width == 2:
        a, b = rows
        return [_shuffled(builder, a, b, [0, 1, 4, 5]), _shuffled(builder, a, b, [2, 3, 6, 7])]
    a, b, c, d = rows
    # first 2 x 2 blocks of neighbouring rows, then the blocks themselves: two shuffles for each vector
    even = _shuffled(builder, a, b, [0, 4, 2, 6]), _shuffled(builder, c, d, [0, 4, 2, 6])
    odd = _shuffled(builder, a, b, [1, 5, 3, 7]), _shuffled(builder, c, d, [1, 5, 3, 7])
    pairs = (even, odd)
    first = [_shuffled(builder, u, v, [0, 1, 4, 5]) for u, v in pairs]
    return first + [_shuffled(builder, u, v, [2, 3, 6, 7]) for u, v in pairs]


def _offsets(builder: ir.IRBuilder, data: ir.Value, count: int) -> list[Any]:
    return [builder.load(builder.gep(data, [ir.Constant(INDEX, q)])) for q in range(count)]


def _tile_in(width: int) -> Any:
    """Return the function that transposes eight rows of real numbers (width 1), or four of pairs (width 2), into a tile."""

    def typed(typingctx: Context, tile: types.Type, x: types.Type, starts: types.Type, k: types.Type) -> Any:
        """Set columns k/width ... of a tile (columns, 8) to four numbers of each row, from ``x[starts[row] + k]`` on."""
        if not _stored(tile, x, starts):
            return None

        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
        ) -> Any:
            """Transpose four numbers of every row: load rows, shuffle in registers, store columns."""
            data, element = _data(context, builder, signature.args[1], arguments[1])
            into, _ = _data(context, builder, signature.args[0], arguments[0])
            at, _ = _data(context, builder, signature.args[2], arguments[2])
            k = arguments[3]
            rows = [
                _load(builder, data, element, builder.add(start, k), 4)
                for start in _offsets(builder, at, 8 // width)
            ]
            # rows that are transposed together, which fill half of the lanes
            group = 4 // width
            first = builder.mul(k, ir.Constant(INDEX, 8 // width))
            for half in range(2):
                turned = _turned(builder, rows[half * group : (half + 1) * group], width)
                for column, vector in enumerate(turned):
                    place = builder.add(first, ir.Constant(INDEX, 8 * column + 4 * half))
                    _store(builder, into, DOUBLE, place, vector)
            return context.get_dummy_value()

        return types.void(tile, x, starts, _WHOLE), generate

    return intrinsic(typed)


def _tile_out(width: int) -> Any:
    """Return the function that transposes a tile back, and adds it to buffers of the rows."""

    def typed(
        typingctx: Context,
        y: types.Type,
        starts: types.Type,
        g: types.Type,
        places: types.Type,
        tile: types.Type,
        k: types.Type,
    ) -> Any:
        """Set four numbers of each row, from ``y[starts[row] + k]`` on, to ``g[places[row] + k]`` plus columns of a tile."""
        if not _stored(y, starts, g, places, tile):
            return None

        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
        ) -> Any:
            """Transpose four columns back: load columns, shuffle in registers, add the buffers, store rows."""
            (data, element), (at, _), (other, _), (of, _), (from_, _) = (
                _data(context, builder, signature.args[m], arguments[m]) for m in range(5)
            )
            k = arguments[5]
            group = 4 // width
            first = builder.mul(k, ir.Constant(INDEX, 8 // width))
            starts, places = _offsets(builder, at, 8 // width), _offsets(builder, of, 8 // width)
            # lanes 0 to 3 of a column belong to the first rows, 4 to 7 to the others
            for half in range(2):
                columns = [
                    _load(
                        builder,
                        from_,
                        DOUBLE,
                        builder.add(first, ir.Constant(INDEX, 8 * column + 4 * half)),
                        4,
                    )
                    for column in range(group)
                ]
                for m, vector in enumerate(_turned(builder, columns, width)):
                    q = half * group + m
                    there = _load(builder, other, DOUBLE, builder.add(places[q], k), 4)
                    total = builder.fadd(there, vector, flags=["contract"])
                    _store(builder, data, element, builder.add(starts[q], k), total)
            return context.get_dummy_value()

        return types.void(y, starts, g, places, tile, _WHOLE), generate

    return intrinsic(typed)


tile_from_rows, tile_from_pairs = _tile_in(1), _tile_in(2)
rows_from_tile, pairs_from_tile = _tile_out(1), _tile_out(2)

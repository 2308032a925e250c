"""Stores past the caches, for arrays that are larger than these and are written as a whole.

An ordinary store first reads its line from memory.  A streaming store does not, which saves half of the traffic, but leaves
nothing in the caches for those who read the array next.  Lines are to be written from end to end, one after another.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = ["STREAMED", "settle", "stream"]

# Bytes of an array from which streaming stores are worth it: with fewer, those who read it find much of it in
# the caches.
STREAMED = 1 << 25


@intrinsic
def stream(typingctx, out, place, value):
    """Do ``out[place] = value`` past the caches; other threads see it after :func:`settle`.

    Parameters
    ----------
    out : (n,) float32, float64, complex64 or complex128
    place : int
        Not negative.
    value
        Of the same dtype.
    """
    if not isinstance(out, types.Array) or out.ndim != 1 or value != out.dtype:
        raise TypeError(f"{value} cannot be stored in {out}")

    def generate(context, builder, signature, arguments):
        """Write the instructions of one store."""
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(
            context, builder, signature.args[0], array, [arguments[1]], wraparound=False
        )
        parts = [arguments[2]]
        if isinstance(value, types.Complex):
            number = context.make_complex(builder, value, arguments[2])
            parts = [number.real, number.imag]
        # A complex number is two neighbours in memory: both are stored by one instruction.
        packed = ir.Constant(ir.VectorType(parts[0].type, len(parts)), ir.Undefined)
        for k, part in enumerate(parts):
            packed = builder.insert_element(packed, part, ir.Constant(ir.IntType(32), k))
        size = context.get_abi_sizeof(parts[0].type) * len(parts)
        # as one number of up to 8 bytes, or a register of 16, which are the shortest streaming stores there are
        whole = packed if size == 16 else builder.bitcast(packed, ir.IntType(8 * size))
        store = builder.store(whole, builder.bitcast(pointer, whole.type.as_pointer()), align=size)
        # What makes the store bypass the caches; the alignment above is required for it.
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(out, types.intp, value), generate


@intrinsic
def settle(typingctx):
    """Let all streaming stores of this thread come before whatever it does next."""

    def generate(context, builder, signature, arguments):
        # Streaming stores are weakly ordered on x86: a full fence, which LLVM has for no weaker case.
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate

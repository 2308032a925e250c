"""Threads that sleep, wake and share work in compiled code, without the interpreter's lock.

Python can start a range of work on another thread only while that thread holds the interpreter's lock: sixteen threads begin one
after another, each when the one before has given the lock back and the system has woken it.  The threads of a `Team` never hold
it.  They are called once, and from then on wait in compiled code: awake for a few tenths of a millisecond, then asleep.  A
call writes down a function, its arguments and ranges, and raises the semaphores; whoever comes takes the next range by an atomic
operation, and the call is over with the last range, whoever has not come by then.

A kernel ``k(first, last, worker, *arguments)`` takes part by a launcher::

    @nb.njit(**JIT)
    def k_shared(ticket, *arguments):
        return share(ticket, ranges(k, arguments))

and `qsim.core.device.pool.Shared`, which `each_part` takes in place of a function.  Launchers are written out, each beside its
kernel, because numba keeps compiled functions by the file that they stand in.  `worker` is 0 for the thread that calls,
and below the number of threads: the number of a work space that no other thread uses meanwhile.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time
from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from qsim.core.device.jit import PART as _PART
from qsim.core.device.jit import Held

__all__ = ["LINE", "SUPPORTED", "Team", "await_as_far", "ranges", "share", "tell_next"]

# Whether there are semaphores that compiled code can use.
SUPPORTED = sys.platform == "linux"
AWAKE = 300_000  # nanoseconds in which a thread looks at its semaphore before it sleeps
LOOKS = 64  # between two looks at the clock
PATIENCE = 40000  # looks at the end of a call before the caller sleeps between them
WAITING = 300  # looks at another thread's number before other programs are let through

JIT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}
PART: dict[str, Any] = {**JIT, **_PART, "forceinline": True}

# Places of a team in bytes; what different threads write lies in different lines of the cache.
LINE = 64
NEXT, DONE, BUSY, FAILED, CALL, READY, ENDED, SEMAPHORES = (LINE * k for k in range(8))
FUNCTION, CONTEXT, EDGES, COUNT, TOOK = (CALL + 8 * k for k in range(5))
FEW_BITS = 32  # of NEXT: ranges that are left; the others count calls, so that no thread takes a range of another call
HEAD = 4  # numbers of a ticket before its ranges: address of the team, threads, worker, ranges

_semaphore_wait = types.ExternalFunction("sem_wait", types.int32(types.int64))
_semaphore_try = types.ExternalFunction("sem_trywait", types.int32(types.int64))
_semaphore_post = types.ExternalFunction("sem_post", types.int32(types.int64))
_sleep = types.ExternalFunction("usleep", types.int32(types.uint32))
_yield = types.ExternalFunction("sched_yield", types.int32())
MONOTONIC = 1
A_BIT = 50  # microseconds

PAUSES = {"x86_64": ("llvm.x86.sse2.pause", []), "aarch64": ("llvm.aarch64.isb", [15])}
WORD = ir.IntType(64)
STATUS = ir.IntType(32)
RANGE = ir.FunctionType(STATUS, [ir.IntType(8).as_pointer(), WORD, WORD, WORD])


# ------------------------------------------------------------------------------------------ primitives


def _at(builder, address):
    return builder.inttoptr(address, WORD.as_pointer())


@intrinsic
def _load(typingctx, address):
    """Return the number at an address, and see what was written before it was."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_at(builder, arguments[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _store(typingctx, address, value):
    """Write a number that tells others that all before it is written."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _at(builder, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _add(typingctx, address, value):
    """Add to the number at an address; return what it was."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _at(builder, arguments[0]), arguments[1], "acq_rel")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def _swap(typingctx, address, expected, value):
    """Replace the number at an address if it is the one expected; tell whether it was."""

    def generate(context, builder, signature, arguments):
        place, expected, value = arguments
        found = builder.cmpxchg(_at(builder, place), expected, value, "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@intrinsic
def _pause(typingctx):
    """Let the processor rest for some of its clocks."""

    def generate(context, builder, signature, arguments):
        name, numbers = PAUSES.get(builder.module.triple.split("-")[0], ("", []))
        if name:
            kind = ir.FunctionType(ir.VoidType(), [STATUS] * len(numbers))
            builder.call(
                cgutils.get_or_insert_function(builder.module, kind, name), [STATUS(k) for k in numbers]
            )
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _call(typingctx, function, arguments, first, last, worker):
    """Call a function of `share` for a range; return its status."""

    def generate(context, builder, signature, values):
        function = builder.inttoptr(values[0], RANGE.as_pointer())
        return builder.call(function, [builder.inttoptr(values[1], RANGE.args[0]), *values[2:]])

    return types.int32(*[types.int64] * 5), generate


@intrinsic
def _now(typingctx):
    """Return the time, nanoseconds."""

    def generate(context, builder, signature, arguments):
        found = cgutils.alloca_once(builder, ir.ArrayType(WORD, 2))
        kind = ir.FunctionType(STATUS, [STATUS, found.type])
        clock = cgutils.get_or_insert_function(builder.module, kind, "clock_gettime")
        builder.call(clock, [STATUS(MONOTONIC), found])
        seconds, rest = (builder.load(cgutils.gep_inbounds(builder, found, 0, k)) for k in (0, 1))
        return builder.add(builder.mul(seconds, WORD(1_000_000_000)), rest)

    return types.int64(), generate


# ----------------------------------------------------------------------------------------------- calls


@nb.njit(**PART)
def _join(team, worker):
    """Do ranges of the present call until none is left."""
    while True:
        place = _load(team + NEXT)
        left = place & ((1 << FEW_BITS) - 1)
        if left == 0:
            return
        if not _swap(team + NEXT, place, place - 1):
            continue
        # from here until this range is done the call cannot end, so what it wrote stays as it is
        edge = _load(team + EDGES) + 8 * (_load(team + COUNT) - left)
        begun = _now()
        failed = _call(_load(team + FUNCTION), _load(team + CONTEXT), _load(edge), _load(edge + 8), worker)
        _add(team + BUSY, _now() - begun)
        if failed:
            _store(team + FAILED, failed)
        _add(team + DONE, 1)


@nb.njit(**PART)
def _do(count, edges, worker, function, arguments):
    """Do ranges one after another; return 0, or the status of one that failed."""
    for place in range(count):
        edge = edges + 8 * place
        failed = _call(function, arguments, _load(edge), _load(edge + 8), worker)
        if failed:
            return failed
    return 0


@nb.njit(**PART)
def _do_together(team, threads, count, edges, function, arguments):
    """Do ranges with other threads of the team; return 0, or the status of one that failed."""
    begun = _now()
    _store(team + DONE, 0)
    _store(team + BUSY, 0)
    _store(team + FAILED, 0)
    _store(team + FUNCTION, function)
    _store(team + CONTEXT, arguments)
    _store(team + EDGES, edges)
    _store(team + COUNT, count)
    _store(team + NEXT, (((_load(team + NEXT) >> FEW_BITS) + 1) << FEW_BITS) | count)
    for worker in range(threads - 1):
        _semaphore_post(team + SEMAPHORES + LINE * worker)
    _join(team, 0)
    looks = 0
    while _load(team + DONE) < count:
        if looks < PATIENCE:
            looks += 1
            _pause()
        else:
            _sleep(A_BIT)
    _store(team + TOOK, _now() - begun)
    return _load(team + FAILED)


@nb.njit(**PART)
def tell_next(numbers, row):
    """Add 1 to the number of this thread, after all that it wrote before.

    Parameters
    ----------
    numbers : int
        Address of (rows, LINE / 8) int64, of which a row's first number is meant.
    """
    _store(numbers + LINE * row, _load(numbers + LINE * row) + 1)


@nb.njit(**PART)
def await_as_far(numbers, row, own):
    """Wait until the number of the thread `row` of this call is that of this thread, `own`; see what it wrote before."""
    wanted = _load(numbers + LINE * own)
    looks = 0
    while _load(numbers + LINE * row) < wanted:
        looks += 1
        if looks < WAITING or not SUPPORTED:
            _pause()
        else:
            _yield()


@nb.njit(**JIT)
def _serve(team, worker):
    """Wait for calls and join them, until the team ends."""
    semaphore = team + SEMAPHORES + LINE * (worker - 1)
    _add(team + READY, 1)
    while _load(team + ENDED) == 0:
        looks, until = 0, _now() + AWAKE
        while _semaphore_try(semaphore) != 0:
            looks += 1
            if looks % LOOKS or _now() < until:
                _pause()
            elif _semaphore_wait(semaphore) == 0:  # otherwise a signal ended it
                break
        _join(team, worker)


def _uncounted(context, builder, kind, value):
    """Return an array, or a tuple with arrays, whose references nobody counts.

    A view counts a reference to its array.  Threads that take views of one array all write to its count, which made them two
    and a half times slower than with arrays of their own.
    """
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        for field in ("meminfo", "parent"):
            setattr(array, field, cgutils.get_null_value(getattr(array, field).type))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        for place, inner in enumerate(kind.types):
            part = _uncounted(context, builder, inner, builder.extract_value(value, place))
            value = builder.insert_value(value, part, place)
    return value


@intrinsic
def ranges(typingctx, kernel, arguments):
    """Return the addresses of a function that does a range by a kernel, and of the kernel's arguments in this frame.

    The kernel counts no references to arrays among its arguments, which the caller of this holds.

    Parameters
    ----------
    kernel
        Compiled function, also one of `qsim.core.device.jit.PART`, of ``first, last, worker, *arguments``.
    arguments : tuple
        A named tuple in it comes to the kernel by its address, as by `qsim.core.device.jit.held`.
    """
    passed = [Held(kind) if isinstance(kind, types.BaseNamedTuple) else kind for kind in arguments.types]
    wanted = (*[types.int64] * 3, *passed)
    found = kernel.get_call_type(typingctx, wanted, {})
    if found.args != wanted:
        raise TypeError(f"the kernel takes other types: {found.args}")

    def generate(context, builder, signature, values):
        """Write a function that calls the kernel for a range, and leave its arguments in this frame."""
        compiled = kernel.dispatcher.get_compile_result(found)
        context.active_code_library.add_linking_library(compiled.library)
        kept = cgutils.alloca_once_value(builder, _uncounted(context, builder, arguments, values[1]))
        function = ir.Function(builder.module, RANGE, f"{compiled.fndesc.mangled_name}.range")
        function.linkage = "internal"
        inner = ir.IRBuilder(function.append_basic_block("entry"))
        record = inner.bitcast(function.args[0], kept.type)
        fields = [cgutils.gep_inbounds(inner, record, 0, k) for k in range(len(passed))]
        given = [
            field if isinstance(kind, Held) else inner.load(field)
            for kind, field in zip(passed, fields, strict=True)
        ]
        status, _ = context.call_internal_no_propagate(
            inner, compiled.fndesc, found, [*function.args[1:], *given]
        )
        inner.ret(status.code)
        places = [builder.ptrtoint(place, WORD) for place in (function, kept)]
        return context.make_tuple(builder, signature.return_type, places)

    return types.UniTuple(types.int64, 2)(kernel, arguments), generate


@nb.njit(**PART)
def share(ticket, work):
    """Do the ranges of a ticket; return 0, or the status of one that failed.

    Parameters
    ----------
    ticket : (4 + n + 1,) int64
        Address of a team or 0, threads, number of the worker that calls, number n of ranges, and where these begin and end.
    work
        Of `ranges`.
    """
    edges = np.int64(ticket.ctypes.data) + 8 * HEAD
    if SUPPORTED and ticket[0] != 0:
        return _do_together(ticket[0], ticket[1], ticket[3], edges, work[0], work[1])
    return _do(ticket[3], edges, ticket[2], work[0], work[1])


class Team:
    """Threads that wait in compiled code.

    Parameters
    ----------
    threads
        With the one that calls.

    Attributes
    ----------
    address : int
        What a ticket begins with, see `share`.  Not for two calls at a time.
    """

    def __init__(self, threads: int) -> None:
        lines = SEMAPHORES // LINE + threads
        memory = np.zeros(LINE * (lines + 1) // 8, np.int64)
        # for ever: threads may look at it until the process ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        self.threads = threads
        self.address = -(-memory.ctypes.data // LINE) * LINE
        system = ctypes.CDLL(None)
        for worker in range(threads - 1):
            if system.sem_init(ctypes.c_void_p(self._semaphore(worker)), 0, 0):
                raise OSError("no semaphores")
        self._members = [
            threading.Thread(
                target=_serve, args=(self.address, worker), name=f"qsim-team-{worker}", daemon=True
            )
            for worker in range(1, threads)
        ]
        for member in self._members:
            member.start()
        atexit.register(self.end)

    def _semaphore(self, worker: int) -> int:
        return self.address + SEMAPHORES + LINE * worker

    def seconds(self) -> tuple[float, float]:
        """Return the seconds of the last call, without its compilation, and the sum of the seconds of its ranges."""
        took, spent = (ctypes.c_int64.from_address(self.address + place).value for place in (TOOK, BUSY))
        return 1e-9 * took, 1e-9 * spent

    def wait(self) -> None:
        """Wait until all threads have started; otherwise the caller begins, and they join when they have."""
        started = ctypes.c_int64.from_address(self.address + READY)
        while started.value < self.threads - 1:
            time.sleep(1e-4)

    def end(self) -> None:
        """Let all threads return, since the code that they run goes with the interpreter."""
        ctypes.c_int64.from_address(self.address + ENDED).value = 1
        system = ctypes.CDLL(None)
        for worker in range(self.threads - 1):
            system.sem_post(ctypes.c_void_p(self._semaphore(worker)))
        for member in self._members:
            member.join(1.0)
        atexit.unregister(self.end)

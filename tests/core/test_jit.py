"""Parts of kernels, which become machine code only within the kernels that call them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba as nb
import numpy as np
import pytest
from numba.core import types
from numba.core.registry import cpu_target

from qsim.core.device import pool
from qsim.core.device.jit import PART, held
from qsim.core.device.team import ranges, share

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
PARTS: dict[str, Any] = {**OPTIONS, **PART}


class Pair(NamedTuple):
    """Two arrays and a number."""

    x: Any
    y: Any
    scale: Any


@nb.njit(**PARTS)
def _inner(pair, i):  # type: ignore[no-untyped-def]
    return pair.scale * pair.x[i] * pair.y[i]


@nb.njit(**PARTS)
def _outer(pair):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(pair.x.shape[0]):
        total += _inner(pair, i)
    return total


@nb.njit(**OPTIONS)
def _kernel(pair, out):  # type: ignore[no-untyped-def]
    pair = held(pair)
    for k in range(out.shape[0]):
        out[k] = _outer(pair) + _inner(pair, k)


def test_a_kernel_of_parts_computes_what_its_text_says() -> None:
    rng = np.random.default_rng(3)
    pair = Pair(rng.standard_normal(31), rng.standard_normal(31), 0.7)
    out = np.zeros(5)
    _kernel(pair, out)
    expected = 0.7 * (pair.x @ pair.y + pair.x[:5] * pair.y[:5])
    np.testing.assert_allclose(out, expected, rtol=1e-13)


@nb.njit(nogil=True)
def _counting(first, last, worker, pair, out):  # type: ignore[no-untyped-def]
    """Take arrays out of a named tuple, in code that counts references."""
    for k in range(first, last):
        x, y = pair.x, pair.y[k : k + 1]
        out[k] = pair.scale * x[k] * y[0]


@nb.njit(nogil=True)
def _counting_shared(ticket, *arguments):  # type: ignore[no-untyped-def]
    return share(ticket, ranges(_counting, arguments))


@pytest.mark.parametrize("threads", [1, 3])
def test_arrays_of_a_held_tuple_are_not_freed_by_those_that_read_them(threads: int) -> None:
    pair, out = Pair(np.arange(64.0), np.ones(64), 2.0), np.zeros(64)
    work = pool.Shared(_counting_shared, (pair, out))
    before = sys.getrefcount(pair.x), sys.getrefcount(pair.y)
    for _ in range(100):
        pool.each_part(work, 64, 10**6, threads)
    assert (sys.getrefcount(pair.x), sys.getrefcount(pair.y)) == before
    np.testing.assert_array_equal(out, 2.0 * np.arange(64.0))
    np.testing.assert_array_equal(pair.x, np.arange(64.0))
    np.testing.assert_array_equal(pair.y, np.ones(64))


def test_parts_have_no_machine_code_of_their_own() -> None:
    _kernel(Pair(np.ones(3), np.ones(3), 2.0), np.zeros(1))
    (part,) = _outer.overloads.values()
    engine = cpu_target.target_context.codegen()._engine
    assert not engine.is_symbol_defined(part.fndesc.mangled_name)
    (kernel,) = _kernel.overloads.values()
    assert engine.is_symbol_defined(kernel.fndesc.mangled_name)


def test_python_cannot_call_a_part() -> None:
    @nb.njit(**PARTS)
    def alone(x):  # type: ignore[no-untyped-def]
        return x + 1.0

    with pytest.raises(TypeError):
        alone(1.0)


def test_operators_keep_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    # each asked twice, in literals too: what is remembered is what numba itself finds
    def sums(a, b, c):  # type: ignore[no-untyped-def]
        return a + b, a + b, c + a, c + a, c + c, a + 1, a + 1, a / 2, a // 2, -c, b * c, b * c

    def found() -> Any:
        compiled = nb.njit(sums)
        compiled(1, 2.0, np.uint64(3))
        return compiled.nopython_signatures[0].return_type

    remembered = found()
    monkeypatch.setattr(types.BaseFunction, "get_call_type", types.BaseFunction.get_call_type.__wrapped__)
    assert remembered == found()


SOURCES = sorted((Path(__file__).resolve().parents[2] / "qsim").rglob("*.py"))


def test_no_kernel_is_made_several_times_under_one_name() -> None:
    found = [
        f"{path}:{inner.lineno} {inner.name}"
        for path in SOURCES
        for outer in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(outer, ast.FunctionDef)
        for inner in ast.walk(outer)
        if isinstance(inner, ast.FunctionDef) and inner is not outer
        if any("njit" in ast.unparse(decorator) for decorator in inner.decorator_list)
    ]
    assert len(SOURCES) > 100
    assert not found, f"made by a function, so several times under one name: use jit.variant in {found}"

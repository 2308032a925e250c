"""Parts of kernels, which become machine code only within the kernels that call them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
import pytest
from numba.core import types
from numba.core.registry import cpu_target

from qsim.core.device.jit import PART, held

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

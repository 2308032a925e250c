"""Functions that are compiled apart from their callers and called by address."""

import os
import subprocess
import sys

import pytest
from numba import types

from qsim.core.device.jit import apart

MODULE = """
import numba as nb
from numba import types
from qsim.core.device.jit import PART, apart
from qsim.core.device.team import JIT

@apart(types.float64, **JIT)
def square(x, n):
    for k in range(n):
        x = x * x
    return x

@apart(types.none, **JIT)
def fill(values, x):
    for k in range(values.size):
        values[k] = square(x, k)

@nb.njit(**{**JIT, **PART})
def inner(values, x):
    fill(values, x)

@nb.njit(**JIT)
def kernel(values, x):
    inner(values, x)
    return square(x, 1) + values[2]

@apart(types.int64, **JIT)
def mistaken(x):
    return x + 0.5

@nb.njit(**JIT)
def fails(x):
    return mistaken(x)
"""
PROGRAM = """
import sys, numpy as np
import qsim
from qsim.core.device.compilers import caches
sys.path.insert(0, sys.argv[1])
from numba.core import event
class Listener(event.Listener):
    def on_start(self, told):
        print("compiled", told.data["dispatcher"].py_func.__name__)
    def on_end(self, told):
        pass
event.register("numba:compile", Listener())
import sample
values = np.zeros(4)
print(sample.kernel(values, 1.5), values.tolist())
"""


def test_a_kernel_from_the_cache_brings_what_it_calls(tmp_path):
    """Each function is compiled once, in a file of its own; the numbers are those of Python."""
    (tmp_path / "sample.py").write_text(MODULE, encoding="utf-8")
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path)],
            env=environ,
            capture_output=True,
            text=True,
            check=True,
        )
        told.append(done.stdout.splitlines())
    expected = f"{1.5**2 + 1.5**4} {[1.5 ** (2**k) for k in range(4)]}"
    assert told[0][-1] == expected
    for name in ("kernel", "inner", "fill", "square"):
        assert told[0].count(f"compiled {name}") == 1
    # Nothing is compiled again.
    assert told[1] == [expected]
    data = sorted(path.name.split("-")[0] for path in (tmp_path / "cache").rglob("*.nbc"))
    assert data == ["sample.fill", "sample.kernel", "sample.square"]


def test_another_type_than_the_one_that_is_said(tmp_path, monkeypatch):
    (tmp_path / "sample.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import sample

    with pytest.raises(TypeError, match="mistaken returns float64, not int64"):
        sample.fails(2.0)


def test_python_cannot_call_it():
    @apart(types.float64)
    def half(x):
        """Return a half."""
        return 0.5 * x

    assert half.__doc__ == "Return a half."
    with pytest.raises(TypeError, match="half is called by compiled functions"):
        half(2.0)

"""A kernel whose helper has changed is compiled again, though its own file is what it was."""

import os
import subprocess
import sys

import pytest

KERNEL = """import numba as nb
from helper import value

@nb.njit(cache=True)
def kernel():
    return value()
"""
HELPER = """import numba as nb

@nb.njit
def value():
    return {}
"""


@pytest.mark.parametrize(("package", "expected"), [("kernels", "2"), ("elsewhere", "1")])
@pytest.mark.parametrize("before", ["", "import numba; "], ids=["numba later", "numba before"])
def test_a_changed_helper(tmp_path, package, expected, before):
    """Numba alone, as in a folder that is not looked after, goes on with the old code: then this file is not needed any more."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "kernel.py").write_text(KERNEL, encoding="utf-8")
    code = (
        f"{before}import sys; from pathlib import Path; from qsim.core.device.compilers.caches import recompile_what_changed; "
        f"recompile_what_changed(Path({str(tmp_path / package)!r})); sys.path.insert(0, {str(folder)!r}); "
        f"from kernel import kernel; print(kernel())"
    )
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    found = []
    for number in (1, 2):
        (folder / "helper.py").write_text(HELPER.format(number), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.strip())
    assert found == ["1", expected]


def test_kernels_of_this_package_are_looked_after():
    from numba.core import caching

    from qsim.core.device import pool
    from qsim.qoc.kernels import eigenbasis

    locator = caching.InTreeCacheLocator.__new__(caching.InTreeCacheLocator)
    stamps = []
    for module in (eigenbasis, pool):
        locator._py_file = module.__file__
        stamps.append(locator.get_source_stamp())
    assert all(isinstance(stamp, tuple) and len(stamp) == 2 for stamp in stamps)
    assert stamps[0][1] != stamps[1][1]


def test_thresholds_of_garbage_are_those_of_the_user_unless_a_command_has_set_them():
    import gc

    from qsim.core.device.compilers import compilation

    before = gc.get_threshold()
    try:
        gc.set_threshold(1234, 5, 6)
        compilation.collect_as_usual()
        assert gc.get_threshold()[:2] == (1234, 5)
        compilation.collect_rarely()
        assert gc.get_threshold()[0] == compilation.STARTING[0]
        compilation.collect_as_usual()
        assert gc.get_threshold() == compilation.USUAL
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_a_command_does_without_what_only_tests_and_compilers_use():
    """NumPy's tests and Fortran are names that load at their first use; a name that SciPy takes of them is right."""
    code = (
        "import sys; from qsim.core.device.compilers.caches import import_later; import_later()\n"
        "import scipy.linalg, numpy\n"
        "assert 'numpy.f2py.crackfortran' not in sys.modules\n"
        "numpy.testing.assert_allclose(1.0, 1.0)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

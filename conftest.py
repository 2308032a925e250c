"""Processes and threads of the test suite: with `-n`, every process takes its share of the cores only.

This is a file of its own beside tests/conftest.py because it has to come before the first import of NumPy.
"""

import os

import pytest

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MOST_WORKERS = 8  # compiling kernels in more processes than this takes longer than it saves

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    share = max(1, CORES // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(share))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of processes that `-n auto` starts."""
    return min(CORES, MOST_WORKERS)

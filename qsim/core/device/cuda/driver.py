"""The CUDA driver through ctypes: its version, and a start that does not wait for CuPy.

A driver takes a third to half a second to start a device.  Begun in a thread of its own when a command knows that it will need
one, this is over when Python has imported its libraries, and CuPy finds the device ready.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

__all__ = ["device_of", "driver_version", "prepare"]

LIBRARIES = ("libcuda.so.1", "nvcuda.dll")


@cache
def _driver() -> ctypes.CDLL | None:
    """Return the library of the driver; None if there is none."""
    for name in LIBRARIES:
        with suppress(OSError):
            return ctypes.CDLL(name)
    return None


def driver_version() -> int:
    """Return the CUDA version of the driver without CuPy and without starting CUDA; 0 without a driver."""
    # The driver itself, through ctypes: CuPy may be missing, and asking for the version starts nothing.
    version = ctypes.c_int(0)
    with suppress(AttributeError):
        if (driver := _driver()) and driver.cuDriverGetVersion(ctypes.byref(version)) == 0:
            return version.value
    return 0


def device_of(request: str | None, environ: Mapping[str, str] = os.environ) -> int | None:
    """Return the number of the device that ``--device``, or else ``QSIM_DEVICE``, names; None if it names no GPU.

    Parameters
    ----------
    request
        ``cuda``, ``cuda:N`` or another device; None if nothing is requested.
    environ
        Environment, read for ``QSIM_DEVICE``.
    """
    text = (request or environ.get("QSIM_DEVICE") or "").strip().lower()
    match = re.fullmatch(r"cuda(?::(\d{1,4}))?", text)
    return int(match[1] or 0) if match else None


@cache
def prepare(index: int | None) -> threading.Thread | None:
    """Start the driver and the primary context of a device in a thread, once; None is no GPU, and nothing to start.

    The context is the one that CuPy uses; it lives as long as the process.  Whatever fails is left to those who need the device.
    """
    if index is None:
        return None
    # no daemon: the interpreter must not end while the driver starts
    thread = threading.Thread(target=_start, args=(index,), name=f"start of cuda:{index}")
    thread.start()
    return thread


def _start(index: int) -> None:
    """Retain the primary context of a device."""
    device, context = ctypes.c_int(0), ctypes.c_void_p()
    # Calls through ctypes leave Python to the other threads.
    with suppress(AttributeError):
        driver = _driver()
        if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), index):
            return
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

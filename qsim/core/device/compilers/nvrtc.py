"""Compile CUDA source without a GPU, by NVRTC through ctypes.

The library comes with the ``nvidia-cuda-nvrtc`` wheel or a CUDA toolkit.  Runs use CuPy; this is for machines
without a device, where it proves that every kernel compiles and shows what the kernels cost::

    compiled = nvrtc_compile(source("tridiag", "kernels"), "sm_90", {"REAL": "double"})
    resource_usage(compiled)["sweep"].registers
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from qsim.core.device.kernels import Define, options
from qsim.core.errors import DeviceError, QsimError

__all__ = ["CompilationError", "Compiled", "Usage", "find_nvrtc", "nvrtc_compile", "resource_usage"]

PACKAGES = ("nvidia.cu13", "nvidia.cuda_nvrtc")
LIBRARIES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


class CompilationError(QsimError):
    """CUDA source does not compile; the message is the compiler's, with file and line."""


@dataclass(frozen=True)
class Compiled:
    """Result of a compilation.

    Attributes
    ----------
    binary
        CUBIN for ``sm_*``, PTX text for ``compute_*``.
    log
        Messages of the compiler: warnings, and registers and spills of each kernel.
    arch
        Target, such as ``"sm_90"``.
    version
        Version of NVRTC.
    """

    binary: bytes
    log: str
    arch: str
    version: tuple[int, int]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The lines of the log that are warnings."""
        return tuple(line for line in self.log.splitlines() if re.search(r"\bwarning\b", line))


@dataclass(frozen=True)
class Usage:
    """Resources of one thread or block of a kernel.

    Attributes
    ----------
    registers
        32-bit registers of a thread.
    stack
        Bytes of local memory of a thread, spilled registers included.
    spill_stores, spill_loads
        Bytes that a thread writes to and reads from local memory for want of registers.
    shared
        Bytes of static shared memory of a block.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


@cache
def find_nvrtc() -> str:
    """Return the path or name of the NVRTC library: from the wheels, else the system's.

    Raises
    ------
    DeviceError
        If there is none.
    """
    # Wheels of CUDA 13 and of CUDA 12 have their libraries in different places; the highest
    # version of a folder is taken.
    for package in PACKAGES:
        spec = None
        with suppress(ImportError):
            spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            libraries = sorted(Path(folder, "lib").glob("libnvrtc.so.*"), reverse=True)
            if libraries:
                return str(libraries[0])
    for name in LIBRARIES:
        with suppress(OSError):
            ctypes.CDLL(name)
            return name
    raise DeviceError(
        "NVRTC, the CUDA compiler library, is not installed", hint="pip install nvidia-cuda-nvrtc-cu12"
    )


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(find_nvrtc())
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    return library


def nvrtc_compile(
    source: str,
    arch: str = "sm_90",
    defines: Mapping[str, Define] | None = None,
    extra: Sequence[str] = (),
    name: str = "kernels.cu",
) -> Compiled:
    """Compile CUDA source with the options that CuPy will use.

    Parameters
    ----------
    source
        Text with all includes written out, as :func:`qsim.core.device.kernels.source` returns it.
    arch
        ``sm_80``, ``sm_90``, ... for a CUBIN; ``compute_80``, ... for PTX.
    defines
        Macros.
    extra
        More compiler options.
    name
        Name of the source in messages, where no ``#line`` gives one.

    Raises
    ------
    CompilationError
        With the compiler's messages.
    DeviceError
        If NVRTC is missing or fails by itself.
    """
    library = _library()
    # CuPy appends -ftz=true to whatever it compiles, so what is examined here must have it as well
    flags = [
        f"--gpu-architecture={arch}",
        *options(source, defines or {}),
        "-ftz=true",
        "--ptxas-options=-v",
        *extra,
    ]
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
    try:
        arguments = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        status = library.nvrtcCompileProgram(program, len(flags), arguments)
        # The log is read before the status is judged: it holds the errors and, after a success,
        # registers and spills.
        log = _fetch("ProgramLog", program).decode(errors="replace")
        if status == 6:  # NVRTC_ERROR_COMPILATION
            raise CompilationError(log.strip())
        _check(status, log)
        binary = _fetch("CUBIN" if arch.startswith("sm_") else "PTX", program)
        return Compiled(binary, log, arch, _library_version())
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _fetch(what: str, program: ctypes.c_void_p) -> bytes:
    """Return log, CUBIN or PTX of a program."""
    # NVRTC gives the size of its output first, then copies it into a buffer of the caller.
    library, size = _library(), ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw if what == "CUBIN" else buffer.raw.rstrip(b"\0")


def _check(status: int, log: str = "") -> None:
    if status:
        text = _library().nvrtcGetErrorString(status)
        raise DeviceError(f"NVRTC failed: {text.decode() if text else status} {log}".strip())


def _library_version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def resource_usage(compiled: Compiled) -> dict[str, Usage]:
    """Return registers, spills and shared memory of each kernel, read from the log of the assembler.

    Raises
    ------
    ValueError
        If the log has no such lines, as after a compilation to PTX.
    """
    usages: dict[str, Usage] = {}
    # one part per kernel; functions that a kernel calls follow it with properties of their own
    for part in re.split(r"Compiling entry function '", compiled.log)[1:]:
        name = part.partition("'")[0]
        own = part.partition("Function properties for " + name)[2]
        usages[name] = Usage(
            registers=_number(r"Used (\d+) registers", part),
            stack=_number(r"(\d+) bytes stack frame", own),
            spill_stores=_number(r"(\d+) bytes spill stores", own),
            spill_loads=_number(r"(\d+) bytes spill loads", own),
            shared=_number(r"(\d+) bytes smem", part),
        )
    if not usages:
        raise ValueError(f"no resource usage in the log of {compiled.arch}; only sm_* targets have it")
    return usages


def _number(pattern: str, text: str) -> int:
    match: Any = re.search(pattern, text)
    return int(match[1]) if match else 0

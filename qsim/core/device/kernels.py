"""CUDA kernels: from a ``.cu`` file in the package to a function that can be launched.

Sources are package data.  Quoted includes (``#include "qsim.cuh"``) are written into the text before it is
compiled, since CuPy's disk cache does not see included files and would run a stale binary after a header was
edited.  Kernels are ``extern "C"``, and variants are made with macros, since CuPy does not keep C++ templates
in its disk cache. Modules are compiled on first use and kept per device.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib
import re
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from qsim.core.device.compilers.compilation import compiling
from qsim.core.errors import DeviceError
from qsim.core.install import install_extra

if TYPE_CHECKING:
    from qsim.core.device.device import Device

__all__ = ["Graph", "blocks", "function", "load", "options", "source"]

Define = str | int | float | bool
NO_DEFINES: Mapping[str, Define] = {}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"[^\n]*$', re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_lock = threading.RLock()
_modules: dict[tuple[Any, ...], Any] = {}
_functions: dict[tuple[Any, ...], Any] = {}
# Kernels by request, each with the shared memory that it may use.
_requested: dict[tuple[Any, ...], tuple[Any, int]] = {}


# ------------------------------------------------------------------------------------------- source


@cache
def source(package: str, stem: str) -> str:
    """Return the text of ``qsim/<package>/<stem>.cu`` with all quoted includes written out.

    Parameters
    ----------
    package
        Folder below ``qsim``, such as ``"tridiag"`` or ``"qoc/kernels"`` (dots serve as well).
    stem
        File name without ``.cu``.

    Raises
    ------
    FileNotFoundError
        If the file or one that it includes is missing; the including file and line are named.
    """
    path = PurePosixPath(package.replace(".", "/")) / f"{stem}.cu"
    return _inline(path, _read(path), {path})


def _inline(path: PurePosixPath, text: str, seen: set[PurePosixPath]) -> str:
    """Replace quoted includes by their text, each file once; #line marks let errors name file and line."""

    def replace(match: re.Match[str]) -> str:
        # The line of the include, which error messages and the mark after it name.
        line = text.count("\n", 0, match.start()) + 1
        target = _find(path, match[1], line)
        back = f'#line {line + 1} "qsim/{path}"'
        if target in seen:
            return back
        seen.add(target)
        return f"{_inline(target, _read(target), seen)}\n{back}"

    return f'#line 1 "qsim/{path}"\n{_INCLUDE.sub(replace, text)}'


def _find(path: PurePosixPath, name: str, line: int) -> PurePosixPath:
    """Return the included file: beside the including one, else in ``core/device``."""
    # The folder of the method first: it may replace a common header.
    for folder in (path.parent, PurePosixPath("core/device")):
        target = _normal(folder / name)
        if target is not None and _resource(target).is_file():
            return target
    raise FileNotFoundError(
        f'qsim/{path}:{line}: #include "{name}" not found in qsim/{path.parent} or qsim/core/device'
    )


def _normal(path: PurePosixPath) -> PurePosixPath | None:
    """Resolve ``..``; None if the path leaves the package."""
    # A package in a zip archive has no file system that could resolve the path.
    parts: list[str] = []
    for part in path.parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    return PurePosixPath(*parts)


def _resource(path: PurePosixPath) -> Any:
    return resources.files("qsim").joinpath(*path.parts)


def _read(path: PurePosixPath) -> str:
    file = _resource(path)
    if not file.is_file():
        raise FileNotFoundError(f"no kernel source qsim/{path}")
    text: str = file.read_text(encoding="utf-8")
    return text


def options(text: str, defines: Mapping[str, Define] = NO_DEFINES) -> tuple[str, ...]:
    """Return the compiler options of a source text: language, macros in sorted order, hash of the text.

    ``True`` becomes 1, ``False`` 0; floats are written with all digits.

    Raises
    ------
    ValueError
        If a macro name is no identifier.
    """
    # CuPy keys its cache by the options, too: with the hash among them, no old binary is taken for an edited
    # header.
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return ("-std=c++17", *_macros(defines), f"-DQSIM_SRC=0x{digest}ull")


def _macros(defines: Mapping[str, Define]) -> tuple[str, ...]:
    if wrong := [name for name in defines if not _IDENTIFIER.fullmatch(name)]:
        raise ValueError(f"macro name '{wrong[0]}' is no C identifier")
    return tuple(f"-D{name}={int(v) if isinstance(v, bool) else v}" for name, v in sorted(defines.items()))


# ------------------------------------------------------------------------------------------- loading


def _cupy() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise DeviceError(
            f"CUDA kernels need CuPy: {error}", hint=f"{install_extra('cuda12')}, or cuda13, after the driver"
        ) from error


def load(
    package: str, stem: str, defines: Mapping[str, Define] = NO_DEFINES, *, cooperative: bool = False
) -> Any:
    """Return the compiled module of ``qsim/<package>/<stem>.cu`` on CuPy's current device.

    Parameters
    ----------
    package, stem
        As for :func:`source`.
    defines
        Macros, such as ``{"REAL": "double", "LMAX": 8}``.
    cooperative
        Launch every kernel of the module cooperatively, for barriers across the whole grid.

    Returns
    -------
    cupy.RawModule
        One object per device, source and macros.
    """
    return _load(_key(package, stem, defines, cooperative))


def function(
    package: str,
    stem: str,
    name: str,
    defines: Mapping[str, Define] = NO_DEFINES,
    *,
    shared_bytes: int = 0,
    cooperative: bool = False,
) -> Any:
    """Return the kernel ``name`` of a module, allowed to use ``shared_bytes`` of dynamic shared memory.

    Parameters
    ----------
    package, stem, defines, cooperative
        As for :func:`load`.
    name
        Name of the ``extern "C"`` kernel.
    shared_bytes
        Largest dynamic shared memory of a launch; pass the same to ``shared_mem`` of the launch.

    Returns
    -------
    cupy.RawKernel
        Launch as ``kernel((blocks,), (threads,), (arguments...), shared_mem=bytes)``.

    Raises
    ------
    DeviceError
        If CuPy is missing or the device has less shared memory per block.
    """
    # A module belongs to the device that was current when it was loaded.
    device = int(_cupy().cuda.runtime.getDevice())
    request = (device, package, stem, name, cooperative, *defines.items(), *map(type, defines.values()))
    # Types belong to the key: 1, 1.0 and True are equal in Python, but not as macros.
    known = _requested.get(request)
    if known is not None and shared_bytes <= known[1]:
        return known[0]  # a look-up that costs less than the launch
    module = _key(package, stem, defines, cooperative)
    key = (*module, name)
    with _lock:
        kernel = _functions.get(key)
        if kernel is None:
            with compiling():
                kernel = _functions[key] = _load(module).get_function(name)
        # More than 48 KiB per block must be requested, once per kernel; a smaller request leaves what an
        # earlier one allowed.
        if shared_bytes > kernel.max_dynamic_shared_size_bytes:
            _allow_shared(kernel, name, shared_bytes)
        _requested[request] = kernel, int(kernel.max_dynamic_shared_size_bytes)
    return kernel


def _key(package: str, stem: str, defines: Mapping[str, Define], cooperative: bool) -> tuple[Any, ...]:
    """Return the key of a compiled module."""
    device = int(_cupy().cuda.runtime.getDevice())
    return (device, package, stem, _macros(defines), cooperative)


def _load(key: tuple[Any, ...]) -> Any:
    _device, package, stem, macros, cooperative = key
    with _lock:
        if key not in _modules:
            text = source(package, stem)
            _modules[key] = _cupy().RawModule(
                code=text,
                options=(*options(text), *macros),
                backend="nvrtc",
                enable_cooperative_groups=cooperative,
            )
        return _modules[key]


def _allow_shared(kernel: Any, name: str, shared_bytes: int) -> None:
    cupy = _cupy()
    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    limit = int(properties.get("sharedMemPerBlockOptin", properties["sharedMemPerBlock"]))
    # Static and dynamic shared memory have one limit together.
    needed = shared_bytes + kernel.shared_size_bytes
    if needed > limit:
        raise DeviceError(f"kernel '{name}' needs {needed} bytes of shared memory in a block; {limit} exist")
    kernel.max_dynamic_shared_size_bytes = shared_bytes


def blocks(n: int, threads: int = 256) -> tuple[int]:
    """Return the one-dimensional grid that covers ``n`` items with blocks of ``threads``."""
    return (max(1, -(-n // threads)),)


# ------------------------------------------------------------------------------------ overlapping launches


class _Attribute(ctypes.Structure):  # CUlaunchAttribute, whose value is a union of 64 bytes
    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_int * 16))


class _Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
COOPERATIVE = 2  # CU_LAUNCH_ATTRIBUTE_COOPERATIVE
TOGETHER = 11080  # version of the driver that has launches with attributes
RECORDABLE = 12030  # version of the driver from which on such launches can become part of a graph


def launch_overlapping(
    kernel: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int
) -> None:
    """Launch a kernel that may begin before the one before it on CuPy's current stream has ended.

    The kernel must say ``griddepcontrol.wait`` before it touches what the one before writes ("programmatic dependent launch",
    compute capability 9.0 and a driver of CUDA 12.3; before, this is a launch like any other).

    Parameters
    ----------
    kernel : cupy.RawKernel
    blocks, threads
        Shape, in one dimension.
    arguments
        CuPy arrays and NumPy scalars.
    shared_bytes
        Dynamic shared memory of a block.

    Raises
    ------
    DeviceError
        If the driver refuses.
    """
    cupy = _cupy()
    # Older devices and drivers get an ordinary launch, in which the wait of the kernel returns
    # at once.
    if int(cupy.cuda.Device().compute_capability) < 90 or cupy.cuda.runtime.driverGetVersion() < RECORDABLE:
        kernel((blocks,), (threads,), arguments, shared_mem=shared_bytes)
        return
    _launch(kernel, blocks, threads, arguments, shared_bytes, PROGRAMMATIC)


def launch_together(
    kernel: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int
) -> None:
    """Launch a kernel whose blocks wait for each other: the driver refuses if they are not on the device all at once.

    A cooperative launch, as CuPy's ``enable_cooperative_groups`` makes, without relocatable code, which needs a library of the
    CUDA toolkit.  The driver must be of CUDA `TOGETHER` or later.

    Parameters
    ----------
    kernel, blocks, threads, arguments, shared_bytes
        As for :func:`launch_overlapping`.

    Raises
    ------
    DeviceError
        If the driver refuses.
    """
    _launch(kernel, blocks, threads, arguments, shared_bytes, COOPERATIVE)


def _launch(
    kernel: Any, blocks: int, threads: int, arguments: tuple[Any, ...], shared_bytes: int, attribute_id: int
) -> None:
    """Launch with one attribute whose value is 1."""
    # Pointers to the arguments, which must live until the driver has copied them, at the end of the call.
    values = [
        ctypes.c_void_p(x.data.ptr) if hasattr(x, "data") and hasattr(x.data, "ptr") else _buffer(x)
        for x in arguments
    ]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    # Both attributes are switches: their value is 1.
    attribute = _Attribute(attribute_id)
    attribute.value[0] = 1
    stream = _cupy().cuda.get_current_stream().ptr
    # One-dimensional grids and blocks, on CuPy's current stream.
    config = _Config(blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.pointer(attribute), 1)
    status = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx(
        ctypes.byref(config), ctypes.c_void_p(kernel.kernel.ptr), pointers, None
    )
    if status:
        raise DeviceError(f"a kernel could not be launched: CUDA error {status}")


def _buffer(number: Any) -> Any:
    raw = number.tobytes()
    return (ctypes.c_char * len(raw)).from_buffer_copy(raw)


# -------------------------------------------------------------------------------------------- graphs


class Graph:
    """A recorded sequence of launches, replayed as one: about 1 microsecond per kernel instead of 4.

    Launch every kernel once before the recording, so that nothing is compiled or loaded in it, and allocate
    nothing inside.  The arrays used must live, at the same addresses, as long as the graph::

        with Graph.capture(device) as graph:
            kernel(grid, block, arguments)
        graph.launch()
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._graph: Any = None

    @classmethod
    @contextlib.contextmanager
    def capture(cls, device: Device) -> Iterator[Graph]:
        """Record what is launched in the block on CuPy's current stream; nothing runs yet."""
        if not device.is_cuda:
            raise ValueError("only work on a CUDA device can be recorded")
        # A stream of its own: the legacy stream cannot be recorded.
        graph = cls(device)
        with device.use(), _cupy().cuda.Stream(non_blocking=True) as stream:
            stream.begin_capture()
            try:
                yield graph
            except BaseException:
                with contextlib.suppress(Exception):  # the recording is void already; the first error matters
                    stream.end_capture()
                raise
            graph._graph = stream.end_capture()

    def launch(self) -> None:
        """Run the recorded work on CuPy's current stream, without waiting for it."""
        # Inside of its own recording a graph has nothing to run yet.
        if self._graph is None:
            raise RuntimeError("the graph is still being recorded")
        self._graph.launch()

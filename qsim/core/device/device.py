"""Device of a run: one CPU or one CUDA device, as a value that is handed down.

Nothing is asked of a driver when this module is imported; :func:`select` does that, once per run.  It and
:mod:`qsim.core.device.kernels` are the only modules that import CuPy, and only when a CUDA device is really wanted.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from qsim.core.device.cuda.driver import driver_version as _driver_version
from qsim.core.device.footprint import (
    CONTEXT,
    CUDA_LIBRARIES,
    CUDA_LIBRARIES_OTHERS,
    FIGURES,
    FIRST_RUN,
    FIRST_RUN_OTHERS,
    INTERPRETER,
    LIBRARY_DEVICE,
    LIBRARY_HOST,
    NUMBA,
)
from qsim.core.device.hardware import available_threads, cpu_name, free_host_memory, resident_memory
from qsim.core.errors import DeviceError, MemoryLimitError
from qsim.core.install import install_extra

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = [
    "Array",
    "CudaStatus",
    "Device",
    "Memory",
    "available_threads",
    "cpu",
    "cuda_status",
    "namespace",
    "out_of_memory",
    "requested_threads",
    "select",
]

# An array of NumPy or CuPy: on whichever device the problem lives.
Array: TypeAlias = "NDArray[Any]"

# Memory of a batch job over the estimate, as the system ends jobs that take more.
SPARE = 1.2
SPECIFICATION = re.compile(r"auto|cpu|cuda(?::(\d+))?")


@dataclass(frozen=True)
class Memory:
    """Memory a problem needs, estimated before anything is allocated.

    Parameters
    ----------
    host
        Bytes of arrays that live in host memory whatever the device.
    device
        Bytes of arrays that live on the device; on a CPU they are host memory too.
    parts
        Bytes of the largest pieces by name, for the message.
    reduce
        Deck key to lower if it does not fit, such as ``"grid.points"``.
    fits
        Describes what would fit into a number of free bytes, such as ``"28 spins fit"``; may return an empty text.
    """

    host: int = 0
    device: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)
    reduce: str = ""
    fits: Callable[[int], str] | None = None
    # Size of the problem in its own words, for the message, such as `"9075135300 states"`.
    size: str = ""
    # Bytes of `host` that belong to Python and its libraries, not to the problem.
    interpreter: int = 0
    # Bytes of `device` that arrays take on a GPU alone, such as copies that the memory pool keeps.
    on_gpu: int = 0
    # Bytes of `host` that a run on a GPU takes beyond those of a CPU; negative if they are fewer.
    on_gpu_host: int = 0
    # Library that a run on a GPU calls; cuSOLVER includes cuBLAS, and is loaded for real matrices unless
    # named complex too.
    library: Literal["", "cublas", "cusolver", "cusolver, complex"] = ""
    # True if the run needs compiled CPU kernels.
    kernels: bool = True
    # Bytes of `device` that belong to the CUDA context, which exists when the free memory is read.
    context: int = 0

    def of_job(self, *, cuda: bool) -> int:
        """Return the bytes of host memory to ask a batch system for: a fifth more than the estimate.

        Parameters
        ----------
        cuda
            True if the run computes on a GPU; on a CPU the arrays of the device are in host memory, too.
        """
        return math.ceil(SPARE * (self.host if cuda else self.host + self.device))

    def of_processes(self, count: int) -> Memory:
        """Return the memory of several processes on one host that share the problem: one problem, an interpreter each."""
        # Arrays are shared among the processes, interpreters are not.
        more = (count - 1) * self.interpreter
        return replace(self, host=self.host + more, interpreter=self.interpreter) if more else self

    def with_interpreter(
        self, method: str = "", *, figures: bool = False, cuda: bool = False, compiled: bool = True
    ) -> Memory:
        """Return the memory of the whole process: the problem's and what `footprint` lists.

        Parameters
        ----------
        method
            Name of the method.
        figures
            True if figures are drawn.
        cuda
            True if the run computes on a GPU.
        compiled
            True if the cache held compiled CPU kernels of the method; else this run compiles them.
        """
        # Parts that the problem does not name: they appear in messages and in a dry run.
        own = {"Python and its libraries": INTERPRETER if self.kernels else INTERPRETER - NUMBA}
        if figures:
            own["figures"] = FIGURES
        if self.kernels and not cuda and not compiled:
            own["first run: compiling kernels"] = FIRST_RUN.get(method, FIRST_RUN_OTHERS)
        # On a CPU the arrays of the device are host memory, which `require` adds.
        if not cuda:
            whole = sum(own.values())
            return replace(self, host=self.host + whole, parts={**self.parts, **own}, interpreter=whole)
        libraries = CUDA_LIBRARIES.get(method, CUDA_LIBRARIES_OTHERS)
        own["CuPy and the CUDA libraries"] = libraries + LIBRARY_HOST[self.library]
        whole, loaded = sum(own.values()), LIBRARY_DEVICE[self.library]
        parts = {**self.parts, **own, "CUDA context (on the device)": CONTEXT + loaded}
        if self.on_gpu:
            parts["copies on the GPU"] = self.on_gpu
        return replace(
            self,
            host=self.host + self.on_gpu_host + whole,
            device=self.device + self.on_gpu + loaded + CONTEXT,
            parts=parts,
            interpreter=whole,
            context=CONTEXT,
        )


@dataclass(frozen=True)
class Device:
    """A place to compute.

    Parameters
    ----------
    kind
        ``"cpu"`` or ``"cuda"``.
    index
        Number of the CUDA device; 0 for a CPU.
    name
        Name of the hardware.
    threads
        CPU threads that a run may use, also beside a CUDA device.
    """

    kind: Literal["cpu", "cuda"]
    index: int
    name: str
    threads: int

    def __str__(self) -> str:
        """Return label and name, such as ``cuda:0 (NVIDIA H100 80GB HBM3)``."""
        return f"{self.label} ({self.name})"

    @property
    def is_cuda(self) -> bool:
        """True for a CUDA device."""
        return self.kind == "cuda"

    @property
    def label(self) -> str:
        """``"cpu"`` or ``"cuda:N"``, as it is written in a deck."""
        return f"cuda:{self.index}" if self.is_cuda else "cpu"

    @property
    def xp(self) -> Any:
        """The array module: ``numpy`` or ``cupy``."""
        name = "cupy" if self.is_cuda else "numpy"
        # Read at every step of a run: a look-up in a table instead of an import.
        return sys.modules.get(name) or importlib.import_module(name)

    def use(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which this is CuPy's current device; nothing happens on a CPU."""
        if self.is_cuda:
            manager: contextlib.AbstractContextManager[Any] = self.xp.cuda.Device(self.index)
            return manager
        return contextlib.nullcontext()

    def asarray(self, array: Any, dtype: DTypeLike | None = None) -> Any:
        """Return ``array`` as an array on this device, copied only if it is elsewhere or of another dtype."""
        if not self.is_cuda:
            return self.xp.asarray(self.to_host(array), dtype=dtype)
        with self.use():
            return self.xp.asarray(array, dtype=dtype)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return ``array`` as a NumPy array; waits for the device."""
        import numpy as np

        return np.asarray(array.get() if hasattr(array, "__cuda_array_interface__") else array)

    @property
    def identity(self) -> str:
        """Bus address of a GPU, the same whatever number the GPU has in this process; empty for a CPU."""
        return str(self.xp.cuda.runtime.deviceGetPCIBusId(self.index)) if self.is_cuda else ""

    def synchronize(self) -> None:
        """Wait until the device has finished all work given to it; nothing happens on a CPU."""
        if self.is_cuda:
            with self.use():
                self.xp.cuda.get_current_stream().synchronize()
                self.xp.cuda.runtime.deviceSynchronize()

    def free_memory(self) -> int:
        """Return the bytes that can still be allocated here; 0 if the system does not say."""
        if not self.is_cuda:
            return free_host_memory()
        with self.use():
            # What CuPy's pool holds, but nobody uses, counts as free.
            free, _total = self.xp.cuda.runtime.memGetInfo()
            return int(free) + int(self.xp.get_default_memory_pool().free_bytes())

    def require(self, memory: Memory) -> None:
        """Refuse a problem that does not fit, before anything is allocated.

        Raises
        ------
        MemoryLimitError
            With the estimate, the free bytes and the deck key to lower.
        """
        # A CPU has one memory for both.
        host, device = (memory.host, memory.device) if self.is_cuda else (memory.host + memory.device, 0)
        # what the interpreter has already is no longer free, and not needed a second time
        present = min(memory.interpreter, resident_memory())
        to_come = memory.interpreter - present
        # The context of a GPU exists when its free memory is read: it is not needed a second time either.
        # A free amount of 0 means that the system does not say.
        for need, own, free, where in (
            (device - memory.context, 0, self.free_memory() if device else 0, f"on {self.label}"),
            (host - present, to_come, free_host_memory() if host else 0, "in host memory"),
        ):
            if free and need > free:
                raise MemoryLimitError(
                    _too_large(need, free, where, memory), hint=_reduce(memory, max(0, free - own))
                )

    def describe(self) -> dict[str, Any]:
        """Return the entries of a results file about the device and its software."""
        # CPU and threads also for a run on a GPU: its host part runs there.
        entries: dict[str, Any] = {
            "label": self.label,
            "name": self.name,
            "threads": self.threads,
            "cpu": cpu_name(),
        }
        if self.is_cuda:
            entries |= _describe_cuda(self)
        return entries


# ------------------------------------------------------------------------------------------ selection


def namespace(array: object) -> Any:
    """Return the module of an array: ``numpy``, or ``cupy``, which is loaded if the array exists."""
    return sys.modules[type(array).__module__.partition(".")[0]]


def select(
    flag: str | None = None,
    deck: str = "auto",
    environ: Mapping[str, str] = os.environ,
    threads: int | Literal["auto"] = "auto",
    local_rank: int = 0,
) -> tuple[Device, list[str]]:
    """Choose the device of a run.

    Parameters
    ----------
    flag
        Value of ``--device``, which wins.
    deck
        Value of ``run.device``, used when neither the flag nor ``QSIM_DEVICE`` is given.
    environ
        Environment, read for ``QSIM_DEVICE`` and the thread limits.
    threads
        CPU threads, or ``"auto"`` for all that this process may use.
    local_rank
        Number of this process on its node: ``cuda`` and ``auto`` take device ``local_rank`` modulo the count.

    Returns
    -------
    Device
        The device.
    list of str
        Notices about the choice.

    Raises
    ------
    DeviceError
        If the request is not understood or cannot be met, with what was found and how to mend it.
    """
    request, origin = requested_device(flag, deck, environ)
    match = SPECIFICATION.fullmatch(request)
    if match is None:
        raise DeviceError(
            f"device '{request}' ({origin}) is not understood", hint="use auto, cpu, cuda or cuda:N"
        )
    count, notices = _thread_count(threads, environ)
    # No driver is asked for a run on the CPU.
    if request == "cpu":
        return cpu(count), notices
    status = cuda_status()
    if status.count == 0:
        if request == "auto":
            # `auto` never fails for want of a GPU, but says why it found none.
            return cpu(count), [*notices, f"no CUDA device found ({status.reason}); running on the CPU"]
        raise DeviceError(
            f"device '{request}' ({origin}) is not available: {status.reason}; found: {status}",
            hint=status.fix(),
        )
    # Ranks of one node take its devices in turn.
    index = int(match[1]) if match[1] else local_rank % status.count
    if index >= status.count:
        names = ", ".join(f"cuda:{i} ({name})" for i, name in enumerate(status.names))
        raise DeviceError(
            f"device '{request}' ({origin}) does not exist; found {names}", hint="choose one of these"
        )
    return Device("cuda", index, status.names[index], count), notices


def requested_threads(
    flag: int | None, deck: int | Literal["auto"], environ: Mapping[str, str] = os.environ
) -> int | Literal["auto"]:
    """Return the CPU threads that a run requests: ``--threads``, else ``QSIM_THREADS``, else the deck.

    Raises
    ------
    DeviceError
        If ``QSIM_THREADS`` is not a positive integer.
    """
    if flag is not None:
        return flag
    text = environ.get("QSIM_THREADS", "").strip()
    if not text:
        return deck
    if not text.isdecimal() or int(text) < 1:
        raise DeviceError(f"QSIM_THREADS is '{text}', which is no number of threads", hint="use 1, 2, ...")
    return int(text)


def cpu(threads: int | None = None) -> Device:
    """Return the CPU as a device, with all available threads unless told otherwise."""
    count = threads or available_threads()
    return Device("cpu", 0, f"{cpu_name()}, {count} thread{'s' if count > 1 else ''}", count)


def requested_device(flag: str | None, deck: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """Return the request that wins, in lower case, and where it came from."""
    for value, origin in (
        (flag, "--device"),
        (environ.get("QSIM_DEVICE"), "QSIM_DEVICE"),
        (deck, "run.device"),
    ):
        if value is not None and value.strip():
            return value.strip().lower(), origin
    return "auto", "default"


def _thread_count(threads: int | Literal["auto"], environ: Mapping[str, str]) -> tuple[int, list[str]]:
    available = available_threads(environ)
    if threads == "auto" or threads == available:
        return available, []
    if threads > available:
        return available, [
            f"{threads} threads requested, but only {available} are available; using {available}"
        ]
    return threads, []


# --------------------------------------------------------------------------------------------- CUDA


@dataclass(frozen=True)
class CudaStatus:
    """State of CUDA: versions, devices, and the reason if there are none.

    Attributes
    ----------
    cupy
        Version of CuPy; empty if it is missing or cannot be imported.
    driver
        CUDA version that the driver supports (13000 for 13.0); 0 without a driver.
    runtime
        CUDA version that CuPy was built for; 0 without CuPy.
    names
        Names of the devices.
    reason
        Why there is no device; empty if there is one.
    """

    cupy: str = ""
    driver: int = 0
    runtime: int = 0
    names: tuple[str, ...] = ()
    reason: str = ""

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self.names)

    def __str__(self) -> str:
        """Return one line for messages."""
        driver = f"driver for CUDA {_version(self.driver)}" if self.driver else "no NVIDIA driver"
        return f"{driver}, {f'CuPy {self.cupy}' if self.cupy else 'no CuPy'}, {self.count} devices"

    def fix(self) -> str:
        """Return the remedy for a missing device."""
        package = install_extra("cuda13" if self.driver >= 13000 else "cuda12")
        if not self.driver and self.cupy:
            return "install an NVIDIA driver, or run with --device cpu"
        if not self.driver:
            return f"install an NVIDIA driver, then {package}; or run with --device cpu"
        if not self.cupy:
            return f"{package}; or run with --device cpu"
        return f"check nvidia-smi and CUDA_VISIBLE_DEVICES, or reinstall: {package}; or run with --device cpu"


def cuda_status() -> CudaStatus:
    """Ask driver and CuPy what is there.  Never raises."""
    driver = _driver_version()
    # The driver is asked first, without CuPy: the remedy depends on which of the two is
    # missing.
    try:
        cupy = importlib.import_module("cupy")
        runtime = cupy.cuda.runtime
    except ModuleNotFoundError as error:
        reason = "CuPy is not installed" if error.name == "cupy" else f"CuPy cannot be imported: {error}"
        return CudaStatus(driver=driver, reason=reason)
    except Exception as error:  # a CuPy without its libraries fails in many ways, and none may stop a CPU run
        return CudaStatus(driver=driver, reason=f"CuPy cannot be imported: {_first_line(error)}")
    version = str(cupy.__version__)
    built = 0
    try:
        built = int(runtime.runtimeGetVersion())
        driver = int(runtime.driverGetVersion()) or driver
        names = tuple(_device_name(runtime, index) for index in range(int(runtime.getDeviceCount())))
    except Exception as error:  # CUDARuntimeError: no driver, driver too old, no device, device lost
        return CudaStatus(version, driver, built, (), _explain(error, driver, built))
    return CudaStatus(version, driver, built, names, "" if names else "the driver reports no device")


def _explain(error: Exception, driver: int, built: int) -> str:
    # From the most basic cause on: without a driver everything else fails, too.
    if not driver:
        return "no NVIDIA driver"
    if "InsufficientDriver" in str(error):
        return f"the driver supports CUDA {_version(driver)}, but CuPy needs {_version(built)}"
    if "NoDevice" in str(error):
        return "the driver reports no device"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _device_name(runtime: Any, index: int) -> str:
    name = runtime.getDeviceProperties(index)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _describe_cuda(device: Device) -> dict[str, Any]:
    status = cuda_status()
    runtime = device.xp.cuda.runtime
    properties = runtime.getDeviceProperties(device.index)
    with device.use():
        free, total = runtime.memGetInfo()
    return {
        "cupy": status.cupy,
        "cuda_driver": _version(status.driver),
        "cuda_runtime": _version(status.runtime),
        "driver": _kernel_driver(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "multiprocessors": int(properties["multiProcessorCount"]),
        "memory_total": int(total),
        "memory_free": int(free),
    }


def _kernel_driver() -> str:
    """Return the version of the NVIDIA kernel driver, such as ``580.159.04``; empty if it is not shown."""
    with contextlib.suppress(OSError):
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
        if version := re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text):
            return version[1]
    return ""


# ------------------------------------------------------------------------------------------- memory


@contextlib.contextmanager
def out_of_memory(device: Device, memory: Memory | None = None) -> Iterator[None]:
    """Turn a failed allocation inside the block into a :class:`MemoryLimitError` that says what to lower."""
    memory = memory or Memory()
    try:
        yield
    except MemoryError as error:
        raise MemoryLimitError(
            _ran_out(device, memory, error), hint=_reduce(memory, device.free_memory())
        ) from error
    except Exception as error:
        # cupy.cuda.memory.OutOfMemoryError is a MemoryError; libraries below CuPy report a status instead
        if device.is_cuda and re.search(r"ErrorMemoryAllocation|ALLOC_FAILED|OUT_OF_MEMORY", str(error)):
            raise MemoryLimitError(
                _ran_out(device, memory, error), hint=_reduce(memory, device.free_memory())
            ) from error
        raise


def _ran_out(device: Device, memory: Memory, error: BaseException) -> str:
    estimate = (
        f"; the estimate was {_bytes(memory.host + memory.device)}" if memory.host + memory.device else ""
    )
    free = device.free_memory()
    return f"out of memory on {device.label} ({_first_line(Exception(error))}){estimate}, {_bytes(free)} free"


def _too_large(need: int, free: int, where: str, memory: Memory) -> str:
    # Four parts are enough to see what to reduce.
    largest = sorted(memory.parts.items(), key=lambda part: -part[1])[:4]
    parts = f" ({', '.join(f'{name} {_bytes(size)}' for name, size in largest)})" if largest else ""
    size = f" of {memory.size}" if memory.size else ""
    return f"the problem{size} needs {_bytes(need)} {where}{parts}, but {_bytes(free)} is free"


def _reduce(memory: Memory, free: int) -> str:
    hint = f"lower {memory.reduce}" if memory.reduce else "make the problem smaller"
    fits = memory.fits(free) if memory.fits is not None else ""
    return f"{hint}; {fits}" if fits else hint


def _bytes(number: int) -> str:
    """Return a size with three figures, such as ``17.2 GB`` (powers of 1000)."""
    # 999.5 and more would be rounded to four figures.
    size, units = float(number), iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 999.5 and (following := next(units, None)):
        size, unit = size / 1000, following
    return f"{size:.3g} {unit}"

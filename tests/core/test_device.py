"""Choice of the device, its messages, and the limits of the host; CUDA is faked but for the GPU tests."""

import os
import subprocess
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from qsim.core.device import device as module
from qsim.core.device import hardware
from qsim.core.device.cuda import driver
from qsim.core.device.cuda.driver import device_of, prepare
from qsim.core.device.device import (
    CudaStatus,
    Device,
    Memory,
    cpu,
    cuda_status,
    out_of_memory,
    requested_threads,
    select,
)
from qsim.core.errors import DeviceError, MemoryLimitError

NONE = CudaStatus(reason="CuPy is not installed")
TWO = CudaStatus("14.2.0", 13000, 12090, ("NVIDIA H100", "NVIDIA L4"))
EMPTY = {}


@pytest.fixture
def found(monkeypatch):
    """Return a function that sets what is found on this machine."""

    def set_status(status):
        monkeypatch.setattr(module, "cuda_status", lambda: status)

    set_status(TWO)
    return set_status


# ----------------------------------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("flag", "environ", "deck", "label"),
    [
        (None, {}, "auto", "cuda:0"),
        (None, {}, "cpu", "cpu"),
        (None, {}, "cuda:1", "cuda:1"),
        (None, {"QSIM_DEVICE": "cuda:1"}, "cpu", "cuda:1"),
        (None, {"QSIM_DEVICE": " "}, "cpu", "cpu"),
        ("cpu", {"QSIM_DEVICE": "cuda:1"}, "cuda:0", "cpu"),
        ("CUDA:1", {}, "cpu", "cuda:1"),
        ("cuda", {}, "cpu", "cuda:0"),
    ],
)
def test_flag_wins_over_environment_over_deck(found, flag, environ, deck, label):
    device, notices = select(flag, deck, environ)
    assert device.label == label
    assert notices == []


@pytest.mark.parametrize("request_", ["auto", "cuda"])
def test_processes_of_a_node_share_its_devices(found, request_):
    assert [select(request_, environ=EMPTY, local_rank=rank)[0].index for rank in range(4)] == [0, 1, 0, 1]


def test_auto_without_a_gpu_takes_the_cpu_with_one_notice(found):
    found(NONE)
    device, notices = select(environ=EMPTY)
    assert device.kind == "cpu"
    assert notices == ["no CUDA device found (CuPy is not installed); running on the CPU"]


def test_cpu_on_request_says_nothing_and_asks_nothing(monkeypatch):
    monkeypatch.setattr(module, "cuda_status", lambda: pytest.fail("asked for CUDA"))
    assert select("cpu", environ=EMPTY)[1] == []


def test_the_driver_is_started_early_where_a_command_names_a_gpu(monkeypatch):
    assert [device_of(request, {}) for request in ("cuda", " CUDA:3", "auto", "cpu", None)] == [0, 3] + [
        None
    ] * 3
    assert device_of(None, {"QSIM_DEVICE": "cuda:1"}) == 1
    assert device_of("cpu", {"QSIM_DEVICE": "cuda"}) is None
    calls = []

    class Driver:
        def __getattr__(self, name):
            return lambda *arguments: calls.append((name, arguments[1:])) or 0

    monkeypatch.setattr(driver, "_driver", Driver)
    prepare.cache_clear()
    assert prepare(None) is None
    prepare(3).join()
    prepare(3).join()  # once
    assert [name for name, _ in calls] == ["cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain"]
    assert calls[1][1] == (3,)
    # without a driver nothing happens
    monkeypatch.setattr(driver, "_driver", lambda: None)
    prepare.cache_clear()
    prepare(0).join()
    prepare.cache_clear()


@pytest.mark.parametrize(
    ("status", "message", "hint"),
    [
        (NONE, r"no NVIDIA driver, no CuPy, 0 devices", "install an NVIDIA driver"),
        (CudaStatus(driver=12080, reason="CuPy is not installed"), "driver for CUDA 12.8", "cuda12"),
        (CudaStatus(driver=13000, reason="CuPy is not installed"), "driver for CUDA 13.0", "cuda13"),
        (CudaStatus("14.2", 12000, 12090, reason="the driver reports no device"), "CuPy 14.2", "nvidia-smi"),
    ],
)
def test_cuda_without_a_gpu_says_what_was_found_and_what_to_do(found, status, message, hint):
    found(status)
    with pytest.raises(DeviceError, match=message) as caught:
        select("cuda", environ=EMPTY)
    assert "device 'cuda' (--device)" in str(caught.value)
    assert caught.value.exit_code == 4
    assert hint in caught.value.hint
    assert "--device cpu" in caught.value.hint


def test_a_device_that_does_not_exist(found):
    with pytest.raises(
        DeviceError, match=r"'cuda:7' \(run.device\) does not exist; found cuda:0 \(NVIDIA H100\)"
    ):
        select(deck="cuda:7", environ=EMPTY)


@pytest.mark.parametrize("request_", ["gpu", "cuda:", "cuda:-1", "cuda:1.5", "cpu:0"])
def test_requests_that_are_not_understood(found, request_):
    with pytest.raises(DeviceError, match=r"\(QSIM_DEVICE\) is not understood") as caught:
        select(environ={"QSIM_DEVICE": request_})
    assert caught.value.hint == "use auto, cpu, cuda or cuda:N"


def test_importing_asks_no_driver():
    script = (
        "import sys, qsim.core.device.device, qsim.core.device.kernels;"
        "assert not {'cupy', 'numpy', 'numba'} & set(sys.modules), sorted(sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], check=True, env=environment)


# ---------------------------------------------------------------------------------------- CUDA status


def fake_cupy(monkeypatch, *, count=0, driver=13000, error=None):
    def get_count():
        if error:
            raise RuntimeError(error)
        return count

    cupy = ModuleType("cupy")
    cupy.__version__ = "14.2.0"
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            runtimeGetVersion=lambda: 12090,
            driverGetVersion=lambda: driver,
            getDeviceCount=get_count,
            getDeviceProperties=lambda index: {"name": b"GPU %d" % index},
        )
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(module, "_driver_version", lambda: driver)
    return cupy


def test_status_names_the_devices(monkeypatch):
    fake_cupy(monkeypatch, count=2)
    assert cuda_status() == CudaStatus("14.2.0", 13000, 12090, ("GPU 0", "GPU 1"), "")


@pytest.mark.parametrize(
    ("driver", "error", "reason"),
    [
        (0, "cudaErrorInsufficientDriver: CUDA driver version is insufficient", "no NVIDIA driver"),
        (
            11040,
            "cudaErrorInsufficientDriver: ...",
            "the driver supports CUDA 11.4, but CuPy needs 12.9",
        ),
        (13000, "cudaErrorNoDevice: no CUDA-capable device is detected", "the driver reports no device"),
        (13000, "cudaErrorUnknown: unknown\nmore", "cudaErrorUnknown: unknown"),
    ],
)
def test_status_explains_why_there_is_no_device(monkeypatch, driver, error, reason):
    fake_cupy(monkeypatch, driver=driver, error=error)
    status = cuda_status()
    assert (status.count, status.reason) == (0, reason)


def test_status_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert cuda_status().reason == "CuPy is not installed"


def test_status_with_a_broken_cupy(monkeypatch):
    def fail(_name):
        raise ImportError("libcublas.so.12: cannot open shared object file\nlong explanation")

    monkeypatch.setattr(module.importlib, "import_module", fail)
    assert cuda_status().reason == (
        "CuPy cannot be imported: libcublas.so.12: cannot open shared object file"
    )


# -------------------------------------------------------------------------------------------- device


def test_the_cpu_as_a_device():
    device = cpu(3)
    assert (device.kind, device.label, device.is_cuda, device.threads) == ("cpu", "cpu", False, 3)
    assert device.name.endswith(", 3 threads")
    assert cpu(1).name.endswith(", 1 thread")
    assert device.xp is np
    array = np.arange(3.0)
    assert device.asarray(array) is array
    assert device.to_host(array) is array
    assert device.asarray([1, 2], dtype=np.complex64).dtype == np.complex64
    assert device.describe()["label"] == "cpu"
    assert device.free_memory() > 0
    device.synchronize()
    with device.use():
        pass


def test_arrays_of_another_device_are_fetched():
    array = SimpleNamespace(__cuda_array_interface__={}, get=lambda: np.arange(2))
    np.testing.assert_array_equal(cpu(1).to_host(array), [0, 1])
    np.testing.assert_array_equal(cpu(1).asarray(array, float), [0.0, 1.0])


# -------------------------------------------------------------------------------------------- memory

GB = 10**9


@pytest.fixture
def small(monkeypatch):
    """Return CPU and CUDA device of a machine with 8 GB free on the host and 4 GB on the device."""
    monkeypatch.setattr(module, "free_host_memory", lambda: 8 * GB)
    gpu = Device("cuda", 0, "GPU", 1)
    runtime = SimpleNamespace(memGetInfo=lambda: (3 * GB, 80 * GB))

    @contextmanager
    def current(_index):
        yield

    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(runtime=runtime, Device=current)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_bytes=lambda: GB)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return cpu(1), gpu


def test_free_memory_of_a_device_counts_the_pool(small):
    assert small[1].free_memory() == 4 * GB


@pytest.mark.parametrize(
    ("index", "memory"),
    [(0, Memory(4 * GB, 4 * GB)), (1, Memory(8 * GB, 4 * GB)), (0, Memory()), (1, Memory())],
)
def test_what_fits_is_not_refused(small, index, memory):
    small[index].require(memory)


def test_too_large_for_the_host_counts_device_arrays_too(small):
    memory = Memory(5 * GB, 4 * GB, {"work": GB, "psi": 4 * GB}, "grid.points")
    with pytest.raises(MemoryLimitError) as caught:
        small[0].require(memory)
    assert str(caught.value) == (
        "the problem needs 9 GB in host memory (psi 4 GB, work 1 GB), but 8 GB is free"
    )
    assert caught.value.hint == "lower grid.points"
    assert caught.value.exit_code == 4


def test_a_job_asks_for_the_arrays_of_the_device_on_a_cpu_alone():
    memory = Memory(5 * GB, 4 * GB)
    assert memory.of_job(cuda=True) == 6 * GB
    assert memory.of_job(cuda=False) == pytest.approx(10.8 * GB)


def test_too_large_for_the_device(small):
    with pytest.raises(MemoryLimitError, match=r"needs 4.29 GB on cuda:0, but 4 GB is free"):
        small[1].require(Memory(0, 2**32))


def test_unknown_free_memory_refuses_nothing(monkeypatch):
    monkeypatch.setattr(module, "free_host_memory", lambda: 0)
    cpu(1).require(Memory(10**18))


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (0, MemoryError("Unable to allocate 1 TiB")),
        (1, MemoryError("out of memory")),
        (1, RuntimeError("cudaErrorMemoryAllocation: out of memory")),
        (1, RuntimeError("CUBLAS_STATUS_ALLOC_FAILED")),
    ],
)
def test_a_failed_allocation_says_what_to_lower(small, index, error):
    with (
        pytest.raises(
            MemoryLimitError, match=r"out of memory on .*; the estimate was 2 GB, . GB free"
        ) as caught,
        out_of_memory(small[index], Memory(GB, GB, {}, "system.spins")),
    ):
        raise error
    assert caught.value.hint == "lower system.spins"
    assert caught.value.__cause__ is error


def test_other_errors_pass(small):
    with pytest.raises(RuntimeError, match="cudaErrorIllegalAddress"), out_of_memory(small[1]):
        raise RuntimeError("cudaErrorIllegalAddress")
    with pytest.raises(ZeroDivisionError), out_of_memory(small[0]):
        _ = 1 / 0


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (17179869184, "17.2 GB"), (10**16, "1e+04 TB")],
)
def test_sizes_are_written_with_three_figures(number, text):
    assert module._bytes(number) == text


# ---------------------------------------------------------------------------------------------- host


@pytest.fixture
def cgroup(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "CGROUP", tmp_path)
    return tmp_path


def cores(monkeypatch, n):
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda _pid: set(range(n)), raising=False)


def test_threads_are_those_of_the_affinity_mask(cgroup, monkeypatch):
    cores(monkeypatch, 6)
    assert hardware.available_threads({}) == 6
    assert hardware.available_threads({"NUMBA_NUM_THREADS": "4"}) == 4
    assert hardware.available_threads({"NUMBA_NUM_THREADS": "many"}) == 6
    assert hardware.available_threads({"NUMBA_NUM_THREADS": "64"}) == 6
    assert hardware.available_threads({"NUMBA_NUM_THREADS": "5", "SLURM_CPUS_PER_TASK": "3"}) == 3


@pytest.mark.parametrize(
    ("limit", "threads"), [("200000 100000", 2), ("150000 100000", 1), ("max 100000", 6)]
)
def test_threads_obey_the_control_group(cgroup, monkeypatch, limit, threads):
    cores(monkeypatch, 6)
    (cgroup / "cpu.max").write_text(limit + "\n")
    assert hardware.available_threads({}) == threads


@pytest.mark.parametrize(("quota", "threads"), [("300000", 3), ("-1", 6)])
def test_threads_obey_the_old_control_group(cgroup, monkeypatch, quota, threads):
    cores(monkeypatch, 6)
    (cgroup / "cpu").mkdir()
    (cgroup / "cpu/cpu.cfs_quota_us").write_text(quota)
    (cgroup / "cpu/cpu.cfs_period_us").write_text("100000")
    assert hardware.available_threads({}) == threads


def test_asked_threads_are_limited_with_a_notice(cgroup, monkeypatch):
    cores(monkeypatch, 4)
    assert select("cpu", environ=EMPTY)[0].threads == 4
    assert select("cpu", environ=EMPTY, threads=3)[0].threads == 3
    device, notices = select("cpu", environ=EMPTY, threads=8)
    assert device.threads == 4
    assert notices == ["8 threads requested, but only 4 are available; using 4"]


def test_free_memory_obeys_the_control_group(cgroup):
    free = hardware.free_host_memory()
    assert free > 0
    (cgroup / "memory.max").write_text("1000000")
    (cgroup / "memory.current").write_text("400000")
    assert hardware.free_host_memory() == 600_000
    (cgroup / "memory.max").write_text("max")
    assert hardware.free_host_memory() > 600_000


def test_the_processor_has_a_name(monkeypatch):
    assert hardware.cpu_name()

    def fail(*_args, **_kwargs):
        raise OSError

    monkeypatch.setattr(hardware.Path, "read_text", fail)
    assert hardware.cpu_name()


# ---------------------------------------------------------------------------------------------- CUDA


@pytest.mark.gpu
def test_a_real_device():
    if not (status := cuda_status()).count:
        pytest.skip(status.reason)
    device, notices = select("cuda:0", environ=EMPTY)
    assert notices == []
    assert device.is_cuda
    host = np.arange(5) * (1 + 2j)
    there = device.asarray(host, dtype=np.complex64)
    assert type(there).__module__.startswith("cupy")
    assert there.dtype == np.complex64
    np.testing.assert_array_equal(device.to_host(there), host)
    np.testing.assert_array_equal(cpu(1).asarray(there), host)
    device.synchronize()
    described = device.describe()
    assert described["memory_total"] >= device.free_memory() > 10**8
    assert described["driver"]
    assert described["compute_capability"] >= "6.0"
    with pytest.raises(MemoryLimitError):
        device.require(Memory(0, 10**15))
    with pytest.raises(MemoryLimitError), out_of_memory(device), device.use():
        device.xp.empty(10**13)


@pytest.mark.parametrize(
    ("flag", "environ", "deck", "threads"),
    [(3, "5", 2, 3), (None, "5", 2, 5), (None, " ", 2, 2), (None, "", "auto", "auto")],
)
def test_threads_by_flag_environment_and_deck(flag, environ, deck, threads):
    assert requested_threads(flag, deck, {"QSIM_THREADS": environ}) == threads


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_threads_that_are_no_number_are_refused(text):
    with pytest.raises(DeviceError, match=f"QSIM_THREADS is '{text}'"):
        requested_threads(None, "auto", {"QSIM_THREADS": text})

"""Kernel sources, macros, compilation without a GPU, and the device header on one."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.device import kernels
from qsim.core.device.compilers import nvrtc
from qsim.core.device.device import cpu, cuda_status, select
from qsim.core.errors import DeviceError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Return a folder that stands in for the package, with the real header."""
    (tmp_path / "core/device").mkdir(parents=True)
    (tmp_path / "core/device/qsim.cuh").write_text("// header\nint header;\n")
    (tmp_path / "method/kernels").mkdir(parents=True)
    monkeypatch.setattr("qsim.core.device.kernels.resources.files", lambda _name: tmp_path)
    kernels.source.cache_clear()
    yield tmp_path
    kernels.source.cache_clear()


# -------------------------------------------------------------------------------------------- source


def test_header_is_inlined_with_line_marks(package):
    (package / "method/kernels.cu").write_text('// first\n#include "qsim.cuh"\nint third;\n')
    assert kernels.source("method", "kernels") == (
        '#line 1 "qsim/method/kernels.cu"\n// first\n'
        '#line 1 "qsim/core/device/qsim.cuh"\n// header\nint header;\n\n'
        '#line 3 "qsim/method/kernels.cu"\nint third;\n'
    )


@pytest.mark.parametrize(
    ("folder", "include"),
    [
        ("method", "../core/device/qsim.cuh"),
        ("method/kernels", "../../core/device/qsim.cuh"),
        ("method/kernels", "qsim.cuh"),
        ("method.kernels", "qsim.cuh"),
    ],
)
def test_header_is_found_from_every_folder(package, folder, include):
    path = package / folder.replace(".", "/") / "a.cu"
    path.write_text(f'  #  include "{include}"  // why\nint x;\n')
    assert "int header;" in kernels.source(folder, "a")


def test_each_file_is_included_once(package):
    (package / "method/common.cuh").write_text('#include "qsim.cuh"\nint common;\n')
    (package / "method/a.cu").write_text(
        '#include "qsim.cuh"\n#include "common.cuh"\n#include "common.cuh"\n'
    )
    text = kernels.source("method", "a")
    assert text.count("int header;") == text.count("int common;") == 1
    assert "#include" not in text


def test_neighbour_wins_over_core_and_system_headers_stay(package):
    (package / "method/qsim.cuh").write_text("int own;\n")
    (package / "method/a.cu").write_text('#include <cuda_fp16.h>\n#include "qsim.cuh"\n')
    text = kernels.source("method", "a")
    assert "#include <cuda_fp16.h>" in text
    assert "int own;" in text
    assert "int header;" not in text


@pytest.mark.parametrize("name", ["none.cuh", "../../../etc/passwd"])
def test_missing_header_names_the_including_line(package, name):
    (package / "method/a.cu").write_text(f'int a;\n\n#include "{name}"\n')
    with pytest.raises(FileNotFoundError, match=r"qsim/method/a\.cu:3: #include .* not found"):
        kernels.source("method", "a")


def test_missing_source(package):
    with pytest.raises(FileNotFoundError, match=r"no kernel source qsim/method/none\.cu"):
        kernels.source("method", "none")


# ------------------------------------------------------------------------------------------- options


def test_options_do_not_depend_on_the_order_of_macros():
    a = kernels.options("text", {"B": 2, "A": "double", "C": True, "D": 0.1})
    assert a == kernels.options("text", {"D": 0.1, "C": True, "A": "double", "B": 2})
    assert a[:5] == ("-std=c++17", "-DA=double", "-DB=2", "-DC=1", "-DD=0.1")


def test_options_change_with_text_and_macros():
    """They enter the key of CuPy's disk cache, so a changed header gives a new binary."""
    variants = [
        kernels.options("text"),
        kernels.options("other"),
        kernels.options("text", {"A": 1}),
        kernels.options("text", {"A": 1.0}),
    ]
    assert len(set(variants)) == 4


def test_macro_names_must_be_identifiers():
    with pytest.raises(ValueError, match="'A B' is no C identifier"):
        kernels.options("", {"A B": 1})


@pytest.mark.parametrize(("n", "grid"), [(0, 1), (1, 1), (256, 1), (257, 2), (2**33, 2**25)])
def test_blocks_cover_everything(n, grid):
    assert kernels.blocks(n) == (grid,)


# ------------------------------------------------------------------------------------ loading, faked


class FakeKernel:
    shared_size_bytes = 1000
    max_dynamic_shared_size_bytes = 0


class FakeCupy:
    """As much of CuPy as the loader uses."""

    def __init__(self):
        self.device, self.made = 0, []
        self.cuda = self
        self.runtime = self

    def getDevice(self):
        return self.device

    def getDeviceProperties(self, _index):
        return {"sharedMemPerBlock": 49152, "sharedMemPerBlockOptin": 232448}

    def RawModule(self, **arguments):
        self.made.append(arguments)
        return type("Module", (), {"get_function": lambda _self, _name: FakeKernel()})()


@pytest.fixture
def fake_cupy(monkeypatch):
    fake = FakeCupy()
    monkeypatch.setattr(kernels, "_cupy", lambda: fake)
    monkeypatch.setattr(kernels, "_modules", {})
    monkeypatch.setattr(kernels, "_functions", {})
    return fake


def test_modules_are_kept_per_device_and_macros(fake_cupy):
    first = kernels.load("core/device", "selftest", {"REAL": "float"})
    assert kernels.load("core/device", "selftest", {"REAL": "float"}) is first
    assert kernels.load("core/device", "selftest", {"REAL": "double"}) is not first
    assert kernels.load("core/device", "selftest", {"REAL": "float"}, cooperative=True) is not first
    fake_cupy.device = 1
    assert kernels.load("core/device", "selftest", {"REAL": "float"}) is not first
    assert len(fake_cupy.made) == 4
    made = fake_cupy.made[0]
    assert made["backend"] == "nvrtc"
    assert made["code"] == kernels.source("core/device", "selftest")
    assert "-DREAL=float" in made["options"]
    assert any(option.startswith("-DQSIM_SRC=") for option in made["options"])
    assert sorted(made["options"]) == sorted(kernels.options(made["code"], {"REAL": "float"}))


def test_functions_keep_the_largest_shared_memory(fake_cupy):
    kernel = kernels.function("core/device", "selftest", "sum", shared_bytes=100_000)
    assert kernels.function("core/device", "selftest", "sum", shared_bytes=50_000) is kernel
    assert kernel.max_dynamic_shared_size_bytes == 100_000
    with pytest.raises(DeviceError, match="needs 233000 bytes of shared memory in a block; 232448 exist"):
        kernels.function("core/device", "selftest", "sum", shared_bytes=232_000)


def test_without_cupy_the_loader_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceError, match="CUDA kernels need CuPy") as caught:
        kernels.load("core/device", "selftest")
    assert "cuda12" in caught.value.hint


def test_a_cpu_records_no_graph():
    with pytest.raises(ValueError, match="only work on a CUDA device"), kernels.Graph.capture(cpu(1)):
        pass


# ------------------------------------------------------------------------------------------- compiler


@pytest.fixture(scope="module")
def compiler():
    try:
        return nvrtc.find_nvrtc()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("real", ["double", "float"])
def test_header_and_selftest_compile(compiler, arch, real):
    compiled = nvrtc.nvrtc_compile(kernels.source("core/device", "selftest"), arch, {"REAL": real})
    assert compiled.binary.startswith(b"\x7fELF")
    assert compiled.warnings == ()
    usage = nvrtc.resource_usage(compiled)
    assert set(usage) == {"philox", "uniform", "normal", "sum", "maximum", "arithmetic"}
    assert usage["sum"].shared == 32 * (16 if real == "double" else 8)
    for name, one in usage.items():
        assert 0 < one.registers <= 64, name
        assert (one.spill_stores, one.spill_loads) == (0, 0), name


def test_ptx_for_later_devices(compiler):
    compiled = nvrtc.nvrtc_compile(kernels.source("core/device", "selftest"), "compute_80")
    assert b".entry philox" in compiled.binary
    with pytest.raises(ValueError, match="only sm_"):
        nvrtc.resource_usage(compiled)


def test_compiler_errors_name_file_and_line(compiler, package):
    (package / "core/device/qsim.cuh").write_text("int header;\n")
    (package / "method/a.cu").write_text('#include "qsim.cuh"\n\nextern "C" __global__ void f() { x = 1; }\n')
    with pytest.raises(nvrtc.CompilationError, match=r"qsim/method/a\.cu\(3\): error: identifier \"x\""):
        nvrtc.nvrtc_compile(kernels.source("method", "a"))


def test_compiler_errors_in_a_header_name_the_header(compiler, package):
    (package / "core/device/qsim.cuh").write_text("int fine;\nint broken\n")
    (package / "method/a.cu").write_text('#include "qsim.cuh"\nextern "C" __global__ void f() {}\n')
    with pytest.raises(
        nvrtc.CompilationError, match=r"qsim/(core/device/qsim\.cuh\(\d\)|method/a\.cu\(2\)): error"
    ):
        nvrtc.nvrtc_compile(kernels.source("method", "a"))


def test_spills_and_stack_are_seen(compiler):
    """A kernel that needs more registers than it may have, and one with an indexed array."""
    source = """
    extern "C" __global__ void __launch_bounds__(1024, 2) spilling(double* x) {
        double a[40];
        #pragma unroll
        for (int i = 0; i < 40; i++) a[i] = x[threadIdx.x + 32 * i];
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 40; i++) x[threadIdx.x + 32 * i] = a[(7 * i) % 40] * a[i];
    }
    extern "C" __global__ void indexed(double* x, int n) {
        double a[64];
        for (int i = 0; i < 64; i++) a[i] = x[i * n];
        for (int i = 0; i < n; i++) a[(i * n) % 64] += x[i];
        for (int i = 0; i < 64; i++) x[i] = a[i];
    }
    """
    usage = nvrtc.resource_usage(nvrtc.nvrtc_compile(source, "sm_80"))
    assert usage["spilling"].registers <= 32
    assert usage["spilling"].spill_stores > 0
    assert usage["spilling"].spill_loads > 0
    assert usage["indexed"].stack == 64 * 8
    assert usage["indexed"].spill_stores == 0


def test_unknown_architecture(compiler):
    with pytest.raises((nvrtc.CompilationError, DeviceError), match=r"sm_11|invalid|option"):
        nvrtc.nvrtc_compile("", "sm_11")


def test_missing_compiler_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(nvrtc, "PACKAGES", ())
    monkeypatch.setattr(nvrtc, "LIBRARIES", ("libnvrtc.so.none",))
    nvrtc.find_nvrtc.cache_clear()
    with pytest.raises(DeviceError, match="NVRTC.*not installed") as caught:
        nvrtc.find_nvrtc()
    assert "pip install" in caught.value.hint
    nvrtc.find_nvrtc.cache_clear()


# ---------------------------------------------------------------------------------------------- CUDA


@pytest.fixture(scope="module")
def cuda():
    if not (status := cuda_status()).count:
        pytest.skip(status.reason)
    return select("cuda")[0]


PRECISIONS = [("double", np.float64, np.complex128), ("float", np.float32, np.complex64)]


@pytest.mark.gpu
@pytest.mark.parametrize(("real", "dtype", "ctype"), PRECISIONS)
@pytest.mark.parametrize("threads", [32, 64, 1024])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 5000])
def test_block_reductions(cuda, real, dtype, ctype, threads, n):
    values = (np.random.default_rng(1).normal(size=(n, 2)) @ [1, 1j]).astype(ctype)
    grid = kernels.blocks(n, threads)
    with cuda.use():
        sums, largest = cuda.xp.empty(grid, dtype=ctype), cuda.xp.empty(grid, dtype=dtype)
        real_part = cuda.asarray(values.real.copy())
        launch = lambda name, *data: kernels.function("core/device", "selftest", name, {"REAL": real})(  # noqa: E731
            grid, (threads,), (*data, np.int32(n))
        )
        launch("sum", cuda.asarray(values), sums)
        first = cuda.to_host(sums).copy()
        launch("sum", cuda.asarray(values), sums)
        launch("maximum", real_part, largest)
        again, maxima = cuda.to_host(sums), cuda.to_host(largest)
    parts = [values[i : i + threads] for i in range(0, n, threads)]
    # pairwise sum of at most 1024 numbers: log2(1024) roundings of partial sums
    atol = 10 * np.finfo(dtype).eps * max(np.abs(part).sum() for part in parts)
    np.testing.assert_allclose(first, [part.sum(dtype=np.complex128) for part in parts], rtol=0, atol=atol)
    assert first.tobytes() == again.tobytes()
    np.testing.assert_array_equal(maxima, [part.real.max() for part in parts])


@pytest.mark.gpu
@pytest.mark.parametrize(("real", "dtype", "ctype"), PRECISIONS)
def test_complex_arithmetic(cuda, real, dtype, ctype):
    random = np.random.default_rng(2)
    a, b = ((random.normal(size=(500, 2)) @ [1, 1j]).astype(ctype) for _ in range(2))
    with cuda.use():
        out = cuda.xp.empty(500, dtype=ctype)
        kernel = kernels.function("core/device", "selftest", "arithmetic", {"REAL": real})
        kernel(kernels.blocks(500), (256,), (cuda.asarray(a), cuda.asarray(b), out, np.int32(500)))
        found = cuda.to_host(out)
    a, b = a.astype(np.complex128), b.astype(np.complex128)
    terms = [a / b, a.conj() * b, -2j * np.abs(a) ** 2 * np.exp(1j * b.real)]
    scale = np.sum(np.abs(terms), axis=0)
    assert np.max(np.abs(found - np.sum(terms, axis=0)) / scale) < 8 * np.finfo(dtype).eps


@pytest.mark.parametrize(("capability", "driver"), [("80", 13000), ("90", 12020)])
def test_launches_do_not_overlap_where_they_cannot(monkeypatch, capability, driver):
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(compute_capability=capability),
        runtime=SimpleNamespace(driverGetVersion=lambda: driver),
    )
    monkeypatch.setattr(kernels, "_cupy", lambda: SimpleNamespace(cuda=cuda))
    launches = []
    kernel = lambda *a, **k: launches.append((a, k))  # noqa: E731
    kernels.launch_overlapping(kernel, 3, 64, (np.int32(1),), 128)
    assert launches == [(((3,), (64,), (np.int32(1),)), {"shared_mem": 128})]


@pytest.mark.gpu
def test_blocks_that_are_launched_together(cuda):
    """As many as fit are; more are refused, not left waiting for each other."""
    if cuda.xp.cuda.runtime.driverGetVersion() < kernels.TOGETHER:
        pytest.skip("the driver has no launches with attributes")
    n = 1000
    with cuda.use():
        a, out = cuda.xp.full(n, 2.0, dtype=complex), cuda.xp.zeros(n, dtype=complex)
        kernel = kernels.function("core/device", "selftest", "arithmetic")
        arguments = (a, a, out, np.int32(n))
        kernels.launch_together(kernel, *kernels.blocks(n), 256, arguments, 0)
        first = cuda.to_host(out)
        kernel(kernels.blocks(n), (256,), arguments)
        np.testing.assert_array_equal(first, cuda.to_host(out))
        assert np.all(first != 0)
        with pytest.raises(DeviceError, match="CUDA error 720"):  # CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
            kernels.launch_together(kernel, 1_000_000, 256, arguments, 0)


@pytest.mark.gpu
def test_a_graph_replays_its_launches(cuda):
    n = 1000
    with cuda.use():
        a, out = cuda.xp.ones(n, dtype=complex), cuda.xp.zeros(n, dtype=complex)
        kernel = kernels.function("core/device", "selftest", "arithmetic")
        arguments = (kernels.blocks(n), (256,), (a, a, out, np.int32(n)))
        kernel(*arguments)
        expected = cuda.to_host(out)
        out.fill(0)
        with kernels.Graph.capture(cuda) as graph:
            kernel(*arguments)
        cuda.synchronize()
        assert not cuda.to_host(out).any()
        graph.launch()
        cuda.synchronize()
        np.testing.assert_array_equal(cuda.to_host(out), expected)


@pytest.mark.gpu
def test_a_failed_recording_leaves_the_device_usable(cuda):
    with pytest.raises(ZeroDivisionError), kernels.Graph.capture(cuda):
        _ = 1 / 0
    with cuda.use():
        assert float(cuda.xp.ones(3).sum()) == 3.0


@pytest.mark.gpu
def test_dynamic_shared_memory_beyond_48_kilobytes(cuda):
    with cuda.use():
        kernel = kernels.function("core/device", "selftest", "sum", shared_bytes=100_000)
        values, sums = cuda.xp.ones(64, dtype=complex), cuda.xp.empty(1, dtype=complex)
        kernel((1,), (64,), (values, sums, np.int32(64)), shared_mem=100_000)
        assert cuda.to_host(sums)[0] == 64

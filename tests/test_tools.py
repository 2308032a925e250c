"""The compilation of CUDA sources on machines without a GPU, as the gate runs it."""

import importlib.util
import sys
from pathlib import Path

import pytest

from qsim.core.device.compilers.nvrtc import find_nvrtc
from qsim.core.errors import DeviceError

ROOT = Path(__file__).resolve().parents[1]

GOOD = 'extern "C" __global__ void fill(REAL* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = K; }'
# two dozen values alive at once in kernels that may use 16 registers only: the compiler has to spill
GREEDY = """extern "C" __global__ void __launch_bounds__(1024, 2) greedy(REAL* x, const REAL* a) {
    REAL v[48];
#pragma unroll
    for (int i = 0; i < 48; ++i) v[i] = a[threadIdx.x + 1024 * i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 48; ++i) x[threadIdx.x + 1024 * i] = v[i] * v[47 - i];
}"""


@pytest.fixture
def tool(monkeypatch):
    try:
        find_nvrtc()
    except DeviceError as error:
        pytest.skip(str(error))
    spec = importlib.util.spec_from_file_location("compile_cuda", ROOT / ".ci/compile_cuda.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "compile_cuda", module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def compile_text(tool, tmp_path, monkeypatch, capsys):
    """Run the tool on a source text; returns exit code, stdout and stderr."""

    def run(text):
        path = tmp_path / "qsim" / "method" / "kernels.cu"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        monkeypatch.setattr(tool, "ROOT", tmp_path)
        monkeypatch.setattr(tool, "full_source", lambda package, stem: text)
        monkeypatch.setattr(sys, "argv", ["compile_cuda", str(path), "--arch", "sm_90"])
        code = tool.main()
        return code, *capsys.readouterr()

    return run


def test_variants_and_precisions_are_compiled(compile_text):
    code, out, err = compile_text(f"// qsim-compile: -DK=1\n// qsim-compile: -DK=2 -DREAL=float\n{GOOD}")
    assert code == 0
    assert err == ""
    assert "3 compilations of 1 sources" in out
    assert "fill" in out


def test_errors_name_the_source_and_the_variant(compile_text):
    code, _, err = compile_text(GOOD)
    assert code == 1
    assert "qsim/method/kernels.cu [sm_90 double]" in err
    assert 'identifier "K" is undefined' in err


def test_warnings_are_complaints(compile_text):
    code, _, err = compile_text(GOOD.replace("if", "int unused; if").replace("K;", "1;"))
    assert code == 1
    assert "unused" in err


def test_spills_must_be_announced(compile_text):
    code, out, err = compile_text(GREEDY)
    assert code == 1
    assert "greedy spills" in err
    code, out, err = compile_text(f"// qsim-compile: may-spill=greedy\n{GREEDY}")
    assert (code, err) == (0, "")
    assert "S" in out.partition("greedy")[2]


def test_unknown_directives_are_refused(compile_text):
    with pytest.raises(SystemExit, match="'O3' is neither"):
        compile_text(f"// qsim-compile: O3\n{GOOD}")

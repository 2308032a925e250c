"""The architecture, where an import graph cannot express it: lazy imports, kernel pairs, file sizes.

The graph itself (who may import whom) is checked by `lint-imports`, from the contracts in pyproject.toml.
That methods never import each other is checked here too, so that the test suite alone notices a breach.
"""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from qsim import methods

pytestmark = pytest.mark.checkout
ROOT = Path(__file__).resolve().parents[1]
QSIM = ROOT / "qsim"
METHODS = methods.available()
MODULES = sorted(QSIM.rglob("*.py"))
KERNEL_SOURCES = sorted(path for path in QSIM.rglob("*.cu") if path != QSIM / "core/device/selftest.cu")
HEAVY = {"numpy", "scipy", "numba", "h5py", "matplotlib", "pydantic", "yaml", "cupy", "mpi4py"}
SOME_DECKS = {
    *(
        f"scipy.{name}"
        for name in ("fft", "integrate", "interpolate", "ndimage", "optimize", "signal", "sparse", "stats")
    ),
    "qsim.tridiag.kernels.atom.length",
    "matplotlib",
    "rich",
}
MAX_LINES = 600


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_kernel(path: Path) -> bool:
    """Whether a file lies in the kernels of a method, or in a room of these."""
    return "kernels" in path.relative_to(QSIM).parts[:-1]


def imported_by(code: str) -> set[str]:
    """Top-level names of the packages that a fresh interpreter holds after running `code`."""
    return {module.partition(".")[0] for module in modules_after(code)}


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after running `code`."""
    report = "import sys, json; print('\\n' + json.dumps(sorted(sys.modules)))"
    reply = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return set(json.loads(reply.stdout.splitlines()[-1]))


def call_main(arguments: list[str]) -> str:
    return f"from qsim.cli import main\ntry:\n    main({arguments!r})\nexcept SystemExit:\n    pass"


# --- what is imported when ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "import qsim",
        "import qsim.methods",
        "import qsim.cli",
        call_main(["--help"]),
        call_main(["--version"]),
    ],
    ids=["qsim", "methods", "cli", "help", "version"],
)
def test_the_front_door_is_light(code):
    assert not imported_by(code) & HEAVY


@pytest.mark.parametrize("method", METHODS)
def test_help_of_a_method_is_light(method):
    assert not imported_by(call_main([method, "--help"])) & HEAVY


@pytest.mark.parametrize("method", METHODS)
def test_decks_load_without_solvers(method):
    loaded = imported_by(f"from qsim.{method}.deck import DECK")
    assert not loaded & {"numba", "scipy", "h5py", "matplotlib", "cupy", "mpi4py"}


@pytest.mark.parametrize("method", METHODS)
def test_output_loads_without_kernels(method):
    """`qsim plot` works on a laptop that has a results file and nothing else."""
    assert not imported_by(f"import qsim.{method}.output") & {"numba", "matplotlib", "cupy", "mpi4py"}


@pytest.mark.parametrize("method", METHODS)
def test_stages_load_no_package_that_few_decks_need(method):
    """Each takes a tenth of a second of every command, or more; the functions that use them load them."""
    stages = ", ".join(f"qsim.{method}.{stage}" for stage in ("build", "run", "output"))
    loaded = modules_after(f"import {stages}")
    assert f"qsim.{method}.run" in loaded
    assert not loaded & SOME_DECKS


def test_no_module_imports_a_device_or_mpi_library():
    modules = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES]
    wanted = [module.removesuffix(".__init__") for module in modules if not module.endswith("__main__")]
    loaded = imported_by("import importlib\nfor m in " + repr(wanted) + ": importlib.import_module(m)")
    assert not loaded & {"cupy", "mpi4py", "nvidia"}


# --- who imports whom -----------------------------------------------------------------------------


@cache
def imports(path: Path, top_level: bool = False) -> set[str]:
    """Modules that a file imports; `top_level`: only those imported when it is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in tree.body if top_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name(path)}:{node.lineno}: relative import"
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_methods_never_import_each_other_and_core_imports_none():
    found = []
    for path in MODULES:
        own = path.relative_to(QSIM).parts[0]
        if own == "methods.py":  # the table, the one place that may name them all
            continue
        others = tuple(f"qsim.{method}." for method in methods.TABLE if method != own)
        found += [(name(path), module) for module in sorted(imports(path)) if f"{module}.".startswith(others)]
    assert not found


@pytest.mark.parametrize("method", METHODS)
def test_decks_import_only_the_deck_layer(method):
    # the block of an estimator lies beside its histogram, where kernels are loaded by the functions that call them
    light = {
        "qmc": {"qsim.qmc.estimators", "qsim.qmc.statistics"},
        "trotter": {"qsim.trotter.observables", "qsim.trotter.initial"},
    }.get(method, set())
    allowed = {"pydantic", "qsim.core.deck", "qsim.core.errors", f"qsim.{method}.deck"} | light
    room = sorted((QSIM / method / "deck").glob("*.py"))
    for path in room:
        for module in imports(path, top_level=True):
            known = module.partition(".")[0] in sys.stdlib_module_names or module in (
                "qsim",
                f"qsim.{method}",
            )
            assert known or any((module + ".").startswith(allow + ".") for allow in allowed), (
                f"{name(path)}: {module}"
            )


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """Modules of qsim that a file imports anywhere; of ``from package import module`` the module alone."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {place if place in modules else str(node.module) for place in full}
    return found & modules.keys()


def circle(imported: dict[str, set[str]]) -> list[str]:
    """A circle of imports, empty if there is none."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_import_runs_in_a_circle():
    """Imports for types only and imports within functions count as well."""
    dotted = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES)
    modules = {place.removesuffix(".__init__"): path for place, path in zip(dotted, MODULES, strict=True)}
    imported = {place: imported_modules(path, modules) for place, path in modules.items()}
    assert sum(map(len, imported.values())) > 1000
    assert not circle(imported)
    imported["qsim.core.errors"] = imported["qsim.core.errors"] | {"qsim.cli"}
    assert "qsim.core.errors" in circle(imported)  # a planted one is seen


def test_kernels_know_arrays_only():
    rooms = ("qsim.core.deck", "qsim.core.results", "qsim.core.run", "qsim.core.device.parallel")
    packages = {"h5py", "logging", "mpi4py", "click", "rich"}
    kernels = [path for path in MODULES if is_kernel(path)]
    assert kernels
    found = [
        (name(path), module)
        for path in kernels
        for module in sorted(imports(path))
        if module.startswith(rooms) or module in packages
    ]
    assert not found


@pytest.mark.parametrize("method", METHODS)
def test_a_method_has_the_common_rooms(method):
    folder = QSIM / method
    rooms = {path.name.removesuffix(".py") for path in folder.iterdir()}
    common = {"deck", "problem", "build", "checks", "run", "output", "figures", "kernels"}
    assert common <= rooms, f"{method} lacks {sorted(common - rooms)}"
    assert (folder / "deck" / "model.py").is_file()
    text = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(text), "the package docstring says what is solved"
    statements = [node for node in text.body if not isinstance(node, ast.Expr | ast.ImportFrom | ast.Assign)]
    assert not statements, "the package holds its docstring only"


# --- kernel pairs ---------------------------------------------------------------------------------

ATTRIBUTES = r"(?:(?:__\w+__\s*\([^)]*\)|[A-Z][A-Z_]+)\s*\b)*"  # also those of a macro: void BOUNDS name(...)
KERNEL = re.compile(rf"__global__\s+{ATTRIBUTES}void\s+{ATTRIBUTES}(\w+)\s*\(")


def kernel_names(text: str) -> list[str]:
    """Names of the kernels in a CUDA source, in its order; comments do not count."""
    bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    return KERNEL.findall(bare)


def functions(path: Path) -> list[str]:
    """Names of the module-level functions of a Python file, in its order."""
    return [
        node.name
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]


def test_kernel_names_are_found():
    text = """
    // __global__ void no(int n)
    /* extern "C" __global__ void neither() */
    extern "C" __global__ void one(int n) {}
    extern "C" __global__ void __launch_bounds__(256, 2)
    two(int n) {}
    extern "C" __global__
    void three() {}
    extern "C" __global__ __launch_bounds__(BLOCK) __cluster_dims__(8, 1, 1) void four(int n) {}
    extern "C" __global__ void BOUNDS
        five(int n) {}
    """
    assert kernel_names(text) == ["one", "two", "three", "four", "five"]


def names_in_texts(folder: Path) -> set[str]:
    """Return the texts of the Python files of a folder that are words: kernels that are launched by name are among them."""
    nodes = (node for path in folder.glob("*.py") for node in ast.walk(tree_of(path)))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_kernel_has_a_wrapper_and_a_cpu_twin():
    """Beside the source; or its kernels are the steps of one job, launched by name in its folder, with a twin `<stem>_cpu.py`."""
    assert KERNEL_SOURCES
    for source in KERNEL_SOURCES:
        kernels = kernel_names(source.read_text(encoding="utf-8"))
        assert kernels, f"{name(source)}: a CUDA source without kernels"
        one_twin = source.with_name(f"{source.stem}_cpu.py").is_file()
        if one_twin and set(kernels) <= names_in_texts(source.parent):
            continue
        defined = functions(source.with_suffix(".py"))
        missing = [want for kernel in kernels for want in (kernel, f"_{kernel}_cpu") if want not in defined]
        assert not missing, f"{name(source.with_suffix('.py'))} lacks {', '.join(missing)}"
        wrappers = [function for function in defined if function in kernels]
        assert wrappers == kernels, f"{name(source)}: wrappers stand in the order of the kernels"


def test_kernels_have_plain_names():
    """Templates and mangled names are not kept in CuPy's disk cache: `extern "C"` and macros instead."""
    for source in KERNEL_SOURCES:
        bare = re.sub(r"/\*.*?\*/|//[^\n]*", "", source.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert bare.count("__global__") == len(re.findall(r'extern\s+"C"\s+__global__', bare)), name(source)


# --- readable code --------------------------------------------------------------------------------

PACKAGES = ["core", "cli", *METHODS]
# Share of the annotated parameters that may be a bare Any, kernels and their wrappers included.
MAX_ANY = 0.02
# Parameters of a function, kernels included.
MAX_PARAMETERS = 10
# Functions of more than LONG lines without a docstring, private ones, per package: the numbers may only fall.
LONG = 15
UNDOCUMENTED = {"qoc": 12, "qmc": 7}
# Python files of a folder.
MAX_FILES = 16


def files_of(package: str) -> list[Path]:
    """Return the files of a package."""
    return sorted((QSIM / package).rglob("*.py"))


def annotations(tree: ast.AST) -> list[str]:
    """Return the annotation of each annotated parameter, as text."""
    return [
        ast.unparse(argument.annotation)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
        if argument.annotation is not None
    ]


def nested_ternaries(tree: ast.AST) -> list[int]:
    """Return the lines of the conditional expressions that hold another one."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.IfExp)
        and any(isinstance(inner, ast.IfExp) for inner in ast.walk(node) if inner is not node)
    ]


def test_bare_any_and_nested_ternaries_are_found():
    tree = ast.parse(
        "def f(a: Any, b, /, c: int, *, d: Any | None = None): return 1 if a else (2 if b else 3)"
    )
    assert annotations(tree) == ["Any", "int", "Any | None"]
    assert nested_ternaries(tree) == [1]
    assert nested_ternaries(ast.parse("(1 if a else 2) + (3 if b else 4)")) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_parameters_have_real_types(package):
    found = [text for path in files_of(package) for text in annotations(tree_of(path))]
    bare = sum(text in ("Any", "Any | None") for text in found)
    assert bare <= MAX_ANY * len(found), f"{bare} of {len(found)} annotated parameters are Any"


def undocumented(tree: ast.AST) -> list[int]:
    """Return the lines of the long functions that have no docstring."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("__")
        and ast.get_docstring(node) is None
        and (node.end_lineno or 0) - node.body[0].lineno >= LONG
    ]


def test_long_functions_without_docstring_are_found():
    body = "\n    ".join(["x = 1"] * (LONG + 1))
    assert undocumented(ast.parse(f"def f():\n    {body}")) == [1]
    assert undocumented(ast.parse(f'def f():\n    """Do."""\n    {body}')) == []
    assert undocumented(ast.parse("def f():\n    x = 1")) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_long_functions_have_docstrings(package):
    found = [f"{name(path)}:{line}" for path in files_of(package) for line in undocumented(tree_of(path))]
    assert len(found) <= UNDOCUMENTED.get(package, 0), found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_ternary_is_nested(package):
    found = [f"{name(path)}:{line}" for path in files_of(package) for line in nested_ternaries(tree_of(path))]
    assert not found


def long_lists(tree: ast.AST) -> list[int]:
    """Return the lines of the functions with more than `MAX_PARAMETERS`."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for arguments in [(*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        if len([one for one in arguments if one.arg not in ("self", "cls")]) > MAX_PARAMETERS
    ]


def test_long_lists_of_parameters_are_found():
    names = ", ".join(f"a{k}" for k in range(MAX_PARAMETERS))
    assert long_lists(ast.parse(f"def f(self, {names}): pass")) == []
    assert long_lists(ast.parse(f"def f({names}, *, b): pass")) == [1]


@pytest.mark.parametrize("package", PACKAGES)
def test_lists_of_parameters_are_short(package):
    found = [f"{name(path)}:{line}" for path in files_of(package) for line in long_lists(tree_of(path))]
    assert not found


def test_the_front_door_has_no_nested_ternary():
    assert not [path for path in QSIM.glob("*.py") if nested_ternaries(tree_of(path))]


# --- sizes ----------------------------------------------------------------------------------------


def test_folders_stay_readable():
    folders = {path.parent for path in MODULES}
    full = {name(folder): len(list(folder.glob("*.py"))) for folder in folders}
    assert not {folder: files for folder, files in full.items() if files > MAX_FILES}


def test_every_line_of_the_list_of_slow_tests_names_a_test():
    listed = [line.split()[0] for line in (ROOT / "tests/slow.txt").read_text(encoding="utf-8").splitlines()]
    for place in listed:
        if place == "#":
            continue
        file, _, function = place.partition("::")
        assert function, place
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert f"def {function.rpartition('::')[2]}" in text, place


def test_files_stay_readable():
    sources = [path for path in QSIM.rglob("*") if path.suffix in {".py", ".cu", ".cuh"}]
    assert len(sources) > 10
    long = {
        name(path): lines
        for path in sources
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_LINES
    }
    assert not long

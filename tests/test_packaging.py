"""What is shipped: versions agree, the wheel is complete, and bootstrap.py works where pip is missing."""

import ast
import hashlib
import importlib.util
import itertools
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import qsim

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
BOOTSTRAP = ROOT / "bootstrap.py"


# --- metadata -------------------------------------------------------------------------------------


def test_changelog_and_citation_name_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *versions = re.split(r"^## ", changelog, flags=re.MULTILINE)
    released = [re.match(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)\n", text) for text in versions]
    assert all(released), "a version without its date"
    assert [found[2] for found in released] == sorted((found[2] for found in released), reverse=True)
    # highlights: what changed in every detail is in the history
    assert max(text.count("\n") for text in versions) <= 41
    assert released[0][1] == qsim.__version__
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == qsim.__version__
    assert str(citation["date-released"]) == released[0][2]
    assert citation["license"] == PYPROJECT["project"]["license"]


def test_every_dependency_has_a_lower_bound_and_a_reason():
    page = (ROOT / "docs/reference/dependencies.md").read_text(encoding="utf-8")
    groups = [PYPROJECT["project"]["dependencies"], *PYPROJECT["project"]["optional-dependencies"].values()]
    for requirement in itertools.chain.from_iterable(groups):
        name = re.match(r"[A-Za-z0-9-]+", requirement)[0]
        if name != "qsim-suite":
            assert f"`{name}" in page, f"docs/reference/dependencies.md does not say why {name} is needed"
        if name not in ("qsim-suite", "types-PyYAML"):
            assert re.search(r">=|~=", requirement), f"{requirement} has no lower bound"


@pytest.mark.checkout
def test_what_is_imported_is_declared():
    declared = {re.match(r"[\w-]+", line)[0].lower() for line in PYPROJECT["project"]["dependencies"]}
    distributions = {"yaml": "pyyaml", "typing_extensions": "typing-extensions", "pydantic_core": "pydantic"}
    optional = {"IPython", "cupy", "cupyx", "mpi4py", "nvidia", "pyscf"}
    for path in [*(ROOT / "qsim").rglob("*.py"), *(ROOT / "qsim_checks").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for package in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - optional:
                assert (
                    package in ("qsim", "qsim_checks") or distributions.get(package, package) in declared
                ), f"{path}: {package}"


@pytest.mark.checkout
def test_wheel_holds_kernels_styles_decks_and_references(tmp_path):
    pytest.importorskip("hatchling")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob(f"qsim_suite-{qsim.__version__}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in [*(ROOT / "qsim").rglob("*"), *(ROOT / "qsim_checks").rglob("*")]
        if path.suffix in {".py", ".cu", ".cuh", ".mplstyle", ".sbatch", ".typed"}
    }
    for folder, target in {"inputs": "inputs", "tests/reference": "reference"}.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file():
                wanted.add(f"qsim/_check/{target}/{path.relative_to(ROOT / folder).as_posix()}")
    assert not wanted - shipped
    assert not [name for name in shipped if name.startswith(("tests/", "docs/", "bench/", "tools/"))]


@pytest.mark.checkout
def test_the_source_distribution_is_a_checkout_without_git(tmp_path):
    """Its wheel holds what that of the checkout does, and both name the commit."""
    pytest.importorskip("hatchling")

    def build(folder, kind, target):
        command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", target]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    build(ROOT, "sdist", tmp_path)
    (source,) = tmp_path.glob("qsim_suite-*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / source.name.removesuffix(".tar.gz")
    for name in (
        "bootstrap.py",
        "tests/conftest.py",
        "docs/conf.py",
        "inputs/qoc/morse.yaml",
        ".ci/hatch_build.py",
    ):
        assert (unpacked / name).is_file(), name
    assert not list(unpacked.rglob("*.whl"))
    build(unpacked, "wheel", tmp_path / "from_source")
    (wheel,) = (tmp_path / "from_source").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        shipped = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    code = "import qsim, qsim.core.run.provenance as p; print(qsim.__file__, p.git_state())"
    reply = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
    )  # fmt: skip
    file, commit = reply.stdout.split()
    assert file.startswith(str(tmp_path / "installed"))
    assert {
        "qsim/references.bib",
        "qsim/_check/inputs/qoc/morse.yaml",
        "qsim/core/results/qsim.mplstyle",
    } <= shipped
    if (ROOT / ".git").exists():
        assert "qsim/_commit.txt" in shipped
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", commit)


# --- bootstrap.py ---------------------------------------------------------------------------------


@pytest.fixture
def bootstrap():
    spec = importlib.util.spec_from_file_location("bootstrap", BOOTSTRAP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_bootstrap_needs_the_standard_library_only():
    tree = ast.parse(BOOTSTRAP.read_text(encoding="utf-8"))
    names = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert names <= sys.stdlib_module_names


def test_bootstrap_tells_old_pythons_what_it_needs():
    ast.parse(
        BOOTSTRAP.read_text(encoding="utf-8"), feature_version=(3, 6)
    )  # an old Python must get as far as the check
    code = "import sys; sys.version_info = (3, 9, 2); exec(open('bootstrap.py').read())"
    reply = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8")
    assert reply.returncode == 1
    assert "needs Python 3.11 or newer" in reply.stderr
    assert "is Python 3.9" in reply.stderr
    assert "Traceback" not in reply.stderr


def test_bootstrap_lists_the_extras(bootstrap, capsys):
    assert bootstrap.extras_of(ROOT / "pyproject.toml") == sorted(
        PYPROJECT["project"]["optional-dependencies"]
    )
    with pytest.raises(SystemExit) as stop:
        bootstrap.main(["tests"])
    assert stop.value.code == 2
    assert "unknown extra tests; choose from bench cuda12" in capsys.readouterr().err


def test_bootstrap_leaves_a_folder_that_is_no_environment_alone(bootstrap, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("results")
    assert bootstrap.main(["--venv", str(tmp_path)]) == 1
    assert "is not a virtual environment" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "results"


def test_bootstrap_reuses_and_mends_an_environment(bootstrap, tmp_path, capsys):
    folder = tmp_path / "env"
    python = bootstrap.environment(folder)
    (folder / "mark").touch()
    assert bootstrap.environment(folder) == python
    assert (folder / "mark").exists()
    python.unlink()  # as when the system's Python is replaced
    assert bootstrap.environment(folder) == python
    assert bootstrap.version_of(python) == sys.version_info[:2]
    assert "using" in capsys.readouterr().err


def test_bootstrap_passes_a_failure_of_pip_on(bootstrap, tmp_path, monkeypatch, capsys):
    def fail(*command, **_):
        raise subprocess.CalledProcessError(23, command)

    monkeypatch.setattr(bootstrap, "run", fail)
    monkeypatch.setattr(bootstrap, "ensure_pip", lambda python: None)
    assert bootstrap.main(["--venv", str(tmp_path / "env"), "test"]) == 23
    said = capsys.readouterr().err
    assert "ended with exit code 23" in said
    assert "PIP_INDEX_URL" in said


def test_bootstrap_tries_one_way_to_pip_after_the_other(bootstrap, monkeypatch):
    tried = []

    def run(*command, **_):
        tried.append(list(map(str, command)))
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(bootstrap, "run", run)
    monkeypatch.setattr(bootstrap, "pip_from_index", lambda python: tried.append("index"))
    with pytest.raises(bootstrap.BootstrapError, match="pip does not work"):
        bootstrap.ensure_pip(Path("python"))
    ways = [step for step in tried if "--version" not in step]
    assert ways[0] == ["python", "-m", "ensurepip", "--default-pip"]
    assert ways[1] == [sys.executable, "-m", "pip", "--quiet", "--python", "python", "install", "pip"]
    assert ways[2:] == ["index"]


@pytest.fixture
def index(tmp_path):
    """Make a package index on disk whose pip only notes that it was run; returns its address and folder."""
    folder = tmp_path / "simple" / "pip"
    folder.mkdir(parents=True)
    name = "pip-99.1-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as wheel:
        wheel.writestr(
            "pip/__main__.py",
            "import pathlib, sys; pathlib.Path(sys.prefix, 'ran').write_text('\\n'.join(sys.argv))",
        )
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "index.html").write_text(
        "<!DOCTYPE html><html><body>"
        f'<a href="pip-9.0-py3-none-any.whl#sha256={"0" * 64}">old</a>'
        f'<a href="pip-100.0-py3-none-any.whl#sha256={"0" * 64}" data-yanked="broken">yanked</a>'
        f'<a href="pip-101.0-py3-none-any.whl#sha256={"0" * 64}" data-requires-python="&gt;=3.99">future</a>'
        f'<a href="pip-102.0b1-py3-none-any.whl#sha256={"0" * 64}">beta</a>'
        f'<a href="{name}#sha256={digest}" data-requires-python="&gt;=3.9">{name}</a>'
        "</body></html>"
    )
    return (tmp_path / "simple").as_uri(), folder


def test_bootstrap_gets_pip_from_an_index(bootstrap, index, tmp_path, monkeypatch):
    address, _ = index
    venv.create(tmp_path / "env", with_pip=False, symlinks=os.name != "nt")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    bootstrap.pip_from_index(tmp_path / "env/bin/python")
    arguments = (tmp_path / "env/ran").read_text(encoding="utf-8").split("\n")
    assert arguments[1:4] == ["--quiet", "install", "--no-index"]
    assert arguments[4].endswith("pip-99.1-py3-none-any.whl")


def test_bootstrap_runs_no_wheel_whose_sum_is_wrong(bootstrap, index, tmp_path, monkeypatch):
    address, folder = index
    with (folder / "pip-99.1-py3-none-any.whl").open("ab") as stream:
        stream.write(b"!")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setattr(bootstrap, "run", lambda *command: pytest.fail("a wrong wheel was run"))
    with pytest.raises(bootstrap.BootstrapError, match="does not have the sha256"):
        bootstrap.pip_from_index(tmp_path / "env/bin/python")


def test_bootstrap_explains_an_index_out_of_reach(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "nowhere").as_uri())
    with pytest.raises(bootstrap.BootstrapError, match="no pip here, and none from file:"):
        bootstrap.pip_from_index(tmp_path / "env/bin/python")


def test_bootstrap_reads_json_indexes(bootstrap):
    def file(version, **more):
        name = f"pip-{version}-py3-none-any.whl"
        return {"filename": name, "url": f"../../files/{name}", "hashes": {"sha256": version}, **more}

    files = [
        file("9.9"),
        file("26.3", **{"requires-python": ">=3.10"}),
        file("26.2"),
        file("27.0", yanked="bad"),
        file("28.0", **{"requires-python": ">=3.99"}),
        file("29.0", hashes={}),
        file("30.0rc1"),
    ]
    page = "https://me:secret@host.example/simple/pip/"
    link, sha256 = bootstrap.newest_wheel(json.dumps({"files": files}), "application/json", page)
    assert link == "https://me:secret@host.example/files/pip-26.3-py3-none-any.whl"
    assert sha256 == "26.3"
    assert bootstrap.redacted(link) == "https://host.example/files/pip-26.3-py3-none-any.whl"
    elsewhere = json.dumps(
        {"files": [{**file("26.3"), "url": "https://cdn.example/pip-26.3-py3-none-any.whl"}]}
    )
    assert "secret" not in bootstrap.newest_wheel(elsewhere, "application/json", page)[0]
    with pytest.raises(ValueError, match="no pip wheel"):
        bootstrap.newest_wheel("<html></html>", "text/html", page)

"""Container files, conda recipe, issue templates: what they name exists, and their packages are those of pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import qsim

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CONDA = {"matplotlib-base": "matplotlib", "typing_extensions": "typing-extensions", "cupy": "cupy-cuda12x"}


def split(requirement):
    name, bound = re.match(r"([\w-]+)(?:\[\w+\])?\s*(>=[\d.]+)", requirement).groups()
    return CONDA.get(name, name), bound


@pytest.mark.parametrize("name", ["Dockerfile", "qsim.def"])
def test_containers_install_this_package_with_its_extras(name):
    text = (ROOT / "containers" / name).read_text(encoding="utf-8")
    version = re.search(r"python:(\d+\.\d+)-slim", text)[1]
    assert tuple(map(int, version.split("."))) >= (3, 11)
    assert f"Python :: {version}" in "".join(PROJECT["classifiers"])
    wheel = PROJECT["name"].replace("-", "_")
    assert f"{wheel}-*.whl" in text
    (extras,) = re.findall(r"EXTRAS=([\w,]+)", text) or re.findall(r"whl\)\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    for deck in re.findall(r"inputs/\S+\.yaml", text):
        assert (ROOT / deck).exists()


def test_the_conda_recipe_has_the_requirements_of_the_package():
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == qsim.__version__
    assert recipe["package"]["name"] == PROJECT["name"]
    python, *packages = recipe["requirements"]["run"]
    assert python == f"python {PROJECT['requires-python']}"
    assert {split(line) for line in packages} == {split(line) for line in PROJECT["dependencies"]}
    extras = {
        split(line) for group in PROJECT["optional-dependencies"].values() for line in group if ">=" in line
    }
    assert {split(line) for line in recipe["requirements"]["run_constraints"]} <= extras
    assert recipe["build"]["python"]["entry_points"] == [f"qsim = {PROJECT['scripts']['qsim']}"]
    for command in recipe["tests"][1]["script"][1:]:
        _, _, method, _, deck = command.split()
        assert (ROOT / f"inputs/{method}/{deck}.yaml").exists()
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_issue_templates_have_their_heads():
    found = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.md"))
    assert len(found) >= 3
    for path in found:
        _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
        assert {"name", "about", "labels"} <= yaml.safe_load(head).keys()
        assert body.strip()


def test_citation_and_bibliography_name_one_program():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    entry = (Path(qsim.__file__).parent / "references.bib").read_text(encoding="utf-8").partition("\n}")[0]
    assert f"title = {{{citation['title']}}}" in entry
    assert citation["authors"][0]["name"] in entry

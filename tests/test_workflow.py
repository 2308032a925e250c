"""Runs in a workflow: the loop and the rules of the page give the same table, again and again; schemas beside the pages."""

import csv
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qsim import methods
from qsim.version import __version__

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "howto" / "workflow.md"
SNAKEFILE = ROOT / "docs" / "howto" / "Snakefile"

pytestmark = pytest.mark.checkout


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Return a function that runs a line of shell in a folder, with `qsim` the program under test."""
    programs = tmp_path_factory.mktemp("bin")
    qsim = programs / "qsim"
    qsim.write_text(f'#!/bin/sh\nexec {sys.executable} -m qsim "$@"\n', encoding="utf-8")
    qsim.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }

    def run(line, folder):
        reply = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        assert reply.returncode == 0, reply.stderr
        return reply

    return run


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    return [(float(row["initial.k0"]), float(row["transmission"])) for row in table]


def rules():
    """Return outputs and commands of the Snakefile by rule, as Snakemake reads them: Python strings."""
    found = {}
    for name, body in re.findall(
        r"^rule (\w+):\n((?:    .*\n|\n)*)", SNAKEFILE.read_text(encoding="utf-8"), flags=re.M
    ):
        parts = dict(re.findall(r"^    (\w+):(.*\n(?:        .*\n)*)", body, flags=re.M))
        found[name] = {key: re.findall(r'"([^"]*)"', text) for key, text in parts.items()}
    return found


def test_the_loop_of_the_page_makes_a_table_and_does_nothing_again(shell, tmp_path):
    loop = re.search(r"<!-- loop -->\n```bash\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)[1]
    shell(loop, tmp_path)
    first = rows(tmp_path / "transmission.csv")
    assert [k0 for k0, _ in first] == [0.8, 1.2, 1.6]
    assert first[0][1] < first[1][1] < first[2][1]  # more passes with more momentum
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.h5")}
    shell(loop, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.h5")} == written
    # the rules of the Snakefile write the same files by the same commands
    (tmp_path / "snake").mkdir()
    shutil.copy(tmp_path / "eckart.yaml", tmp_path / "snake")
    run, table = rules()["run"], rules()["table"]
    (tmp_path / "snake" / "runs").mkdir()  # as Snakemake makes folders of outputs
    # two runs stand for the three, which differ by the number in their names; a table of one has no column for it
    files = []
    for k0 in ("0.8", "1.6"):
        outputs = [name.replace("{k0}", k0) for name in run["output"]]
        (line,) = run["shell"]
        line = line.replace("{input}", run["input"][0]).replace("{output[0]}", outputs[0])
        shell(line.replace("{wildcards.k0}", k0).replace("{threads}", "1"), tmp_path / "snake")
        assert all((tmp_path / "snake" / name).is_file() for name in outputs)
        files.append(outputs[0])
    (line,) = table["shell"]
    shell(
        line.replace("{input}", " ".join(files)).replace("{output}", table["output"][0]), tmp_path / "snake"
    )
    # on one thread and on several: the same but for rounding
    assert np.ravel(rows(tmp_path / "snake" / "transmission.csv")) == pytest.approx(
        np.ravel(first[::2]), rel=1e-12
    )
    assert rules()["all"]["input"] == table["output"]


def test_snakemake_makes_the_table(shell, tmp_path):
    if shutil.which("snakemake") is None:
        pytest.skip("no snakemake here")
    shutil.copy(SNAKEFILE, tmp_path)
    shell("qsim examples eckart && snakemake --cores 2", tmp_path)
    assert len(rows(tmp_path / "transmission.csv")) == 3


def test_the_schemas_of_a_version_stand_beside_the_pages(tmp_path):
    path = ROOT / "docs" / "_ext" / "schemas.py"
    spec = importlib.util.spec_from_file_location("schemas", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    files = module.write_schemas(tmp_path)
    names = {f"deck.{name}.json" for name in methods.available()} | {"summary.json"}
    assert {file.name for file in files} == names
    for file in files:
        assert file.parent.name == __version__
        assert f":{__version__}:" in json.loads(file.read_text(encoding="utf-8"))["$id"]

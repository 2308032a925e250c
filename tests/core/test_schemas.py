"""JSON Schemas: every reference deck and every summary pass theirs, in long and short forms; mistakes do not."""

import json
from functools import cache
from pathlib import Path

import pytest

import qsim
from qsim import methods
from qsim.core.deck.template import schema
from qsim.core.deck.yaml_marks import parse_yaml
from qsim.core.results.summary import SCHEMA
from qsim.core.run.stages import stage

jsonschema = pytest.importorskip("jsonschema")
INPUTS = Path(__file__).resolve().parents[2] / "inputs"


@cache
def validator(method):
    found = schema(stage(method, "deck").DECK)
    return found, jsonschema.Draft202012Validator(found)


@pytest.mark.parametrize("method", methods.available())
def test_all_decks_pass_the_schema(method):
    found, judge = validator(method)
    judge.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["$id"] == f"urn:qsim:schema:{qsim.__version__}:deck:{method}"
    decks = sorted((INPUTS / method).glob("*.yaml"))
    assert decks
    for path in decks:
        root, _ = parse_yaml(path.read_text(encoding="utf-8"), str(path))
        errors = [f"{list(e.absolute_path)}: {e.message[:200]}" for e in judge.iter_errors(root.plain())]
        assert not errors, f"{path.name}: {errors}"
        wrong = {**root.plain(), "titel": "a key that there is not"}
        assert list(judge.iter_errors(wrong)), path.name


SHORT = [
    ("qmc", "diamond16", {"wavefunction.jastrow": "none"}),
    ("qmc", "diamond16", {"wavefunction.jastrow.J2": "pade"}),
    ("qmc", "diamond16", {"wavefunction.jastrow.J2.rcut": "4 angstrom"}),
    ("qoc", "morse", {"verify": False}),
    ("qoc", "morse", {"verify": "crank_nicolson"}),
    ("tridiag", "packet", {"initial": 2}),
    ("tridiag", "packet", {"initial": {"0": 1, "1": "1i"}}),
    ("tridiag", "packet", {"potential": {"type": "table", "file": "v.csv", "units": {"x": "angstrom"}}}),
]


@pytest.mark.parametrize(("method", "deck", "changes"), SHORT)
def test_short_forms_pass(method, deck, changes):
    root, _ = parse_yaml((INPUTS / method / f"{deck}.yaml").read_text(encoding="utf-8"), deck)
    data = root.plain()
    for key, value in changes.items():
        *way, last = key.split(".")
        block = data
        for part in way:
            block = block[part]
        block[last] = value
    assert not list(validator(method)[1].iter_errors(data))
    block[last] = [[]]
    assert list(validator(method)[1].iter_errors(data))


def test_a_summary_passes_its_schema(counter, command):
    reply = command("counter", counter.deck(), "--json", "--no-figures")
    assert reply.exit_code == 0, reply.stderr
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    judge = jsonschema.Draft202012Validator(SCHEMA)
    written = json.loads(reply.stdout)
    assert not list(judge.iter_errors(written))
    for change in ({"scalars": {"a": 1.0}}, {"status": 7}, {"warnings": "none"}):
        assert list(judge.iter_errors(written | change)), change
    assert list(judge.iter_errors({key: value for key, value in written.items() if key != "deck"}))
    shown = command("schema", "--summary")
    assert json.loads(shown.stdout) == SCHEMA


def test_the_schema_of_all_decks_is_one(command):
    every = json.loads(command("schema").stdout)
    assert every["$id"] == f"urn:qsim:schema:{qsim.__version__}:deck"
    jsonschema.Draft202012Validator(every).check_schema(every)

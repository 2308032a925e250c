"""The harness itself: a deck test that cannot fail would prove nothing."""

import json
import math

import pytest

from qsim.core.examples.check import Case, run_case
from qsim.core.results.tables import Scalar
from qsim.core.run.stages import Method

ATOL = 1e-6


@pytest.fixture
def case(counter, tmp_path):
    """Return a reference deck with the true numbers of its run."""
    path = tmp_path / "deck.json"
    case = Case("counter", counter.deck(extra="run: {seed: 1, device: cpu}\n"), path)
    path.write_text('{"scalars": {"final": {"min": 0}}}')
    truth = run_in(case, "truth").summary["scalars"]
    path.write_text(
        json.dumps(
            {
                "scalars": {
                    "final": {"value": truth["final"]["value"], "atol": ATOL},
                    "mean": {"value": truth["mean"]["value"], "error": truth["mean"]["error"], "sigmas": 3},
                    "steps": {"value": 20},
                    "converged": {"value": True},
                },
                "arrays": {"value": {"index": [-1], "value": truth["final"]["value"], "atol": ATOL}},
            }
        )
    )
    return case


def run_in(case, name):
    folder = case.deck.parent / name
    folder.mkdir()
    return run_case(case, folder)


def edit(case, change):
    content = json.loads(case.reference.read_text())
    change(content)
    case.reference.write_text(json.dumps(content))


def mismatches(case):
    return [mismatch.name for mismatch in run_in(case, "again").mismatches]


def test_the_truth_is_accepted(case):
    assert mismatches(case) == []


# --- a perturbed reference ------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "expected"), [(0.9, []), (1.1, ["final"]), (-1.1, ["final"])])
def test_a_perturbed_scalar_of_the_reference(case, factor, expected):
    def change(content):
        content["scalars"]["final"]["value"] += factor * ATOL

    edit(case, change)
    assert mismatches(case) == expected


def test_a_perturbed_array_of_the_reference(case):
    def change(content):
        content["arrays"]["value"]["value"] += 1.1 * ATOL

    edit(case, change)
    assert mismatches(case) == ["value[-1]"]


def test_a_scalar_that_no_run_has(case):
    edit(case, lambda content: content["scalars"].update(gone={"value": 0.0, "atol": 1e300}))
    assert mismatches(case) == ["gone"]


def test_an_array_that_no_run_has(case):
    edit(case, lambda content: content["arrays"].update(gone={"value": 0.0, "atol": 1e300}))
    assert mismatches(case) == ["gone"]


def test_a_perturbed_deck(case):
    case.deck.write_text(case.deck.read_text().replace("steps: 20", "steps: 20\n  growth: 3.8999"))
    assert {"final", "value[-1]"} <= set(mismatches(case))


# --- a perturbed result ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("final", Scalar(math.nan)),
        ("final", Scalar(math.inf)),
        ("final", Scalar(None)),
        ("final", Scalar("0.5")),
        ("final", None),
        ("mean", Scalar(0.6, error=None)),
        ("mean", Scalar(0.6, error=1e3)),
        ("mean", Scalar(0.6, error=math.nan)),
        ("steps", Scalar(21)),
        ("converged", Scalar(False)),
    ],
)
def test_a_perturbed_scalar_of_the_run(case, monkeypatch, name, scalar):
    true = Method.scalars

    def perturbed(method, result, failed):
        content = {**true(method, result), name: scalar}
        return {key: value for key, value in content.items() if value is not None}

    monkeypatch.setattr(Method, "scalars", perturbed)
    assert mismatches(case) == [name]


@pytest.mark.parametrize("change", [math.nan, 1.1 * ATOL])
def test_a_perturbed_array_of_the_run(case, monkeypatch, change):
    true = Method.arrays

    def perturbed(method, result, failed):
        content = true(method, result)
        return {**content, "value": content["value"] + change}

    monkeypatch.setattr(Method, "arrays", perturbed)
    assert mismatches(case) == ["value[-1]"]


def test_a_run_that_fails(case, monkeypatch):
    monkeypatch.setattr("qsim.counter.build.plan", lambda loaded: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run_in(case, "again")

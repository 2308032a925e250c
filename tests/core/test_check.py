"""Comparisons: a run with its reference, and two results files with each other."""

import json
import math

import numpy as np
import pytest

from qsim.core.errors import DeviceError, FileError, NoGpuError
from qsim.core.examples import check as check_module
from qsim.core.examples.check import (
    Case,
    Folders,
    cases,
    compare,
    compare_arrays,
    folders,
    load_reference,
    run_case,
    update,
)
from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results
from qsim.core.results.tables import Scalar, Table
from qsim.core.results.writing import Content, write_results


def scalar(value, error=None):
    return {"value": value, "error": error, "unit": ""}


# --- scalars and references -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "reference"),
    [
        (scalar(1.0), {"value": 1.0}),
        (scalar(1.09), {"value": 1.0, "atol": 0.1}),
        (scalar(-109.0), {"value": -100.0, "rtol": 0.1}),
        (scalar(1.3, 0.1), {"value": 1.0, "error": 0.1, "sigmas": 3}),
        (scalar(1e-14), {"max": 1e-12}),
        (scalar(0.9), {"min": 0.5, "max": 1.0}),
        (scalar(5), {"value": 5.0}),
        (scalar("lbfgs"), {"value": "lbfgs"}),
        (scalar(True), {"value": True}),
        (scalar(None), {"value": None}),
    ],
)
def test_scalars_that_agree(found, reference):
    assert compare({"x": found}, {"x": reference}) == []


@pytest.mark.parametrize(
    ("found", "reference", "message"),
    [
        (scalar(1.0 + 1e-15), {"value": 1.0}, "allowed 0"),
        (scalar(1.11), {"value": 1.0, "atol": 0.1}, "differs by 0.11, allowed 0.1"),
        (scalar(1.5, 0.1), {"value": 1.0, "error": 0.1, "sigmas": 3}, "differs by 0.5, allowed 0.424"),
        (scalar(1.0), {"value": 1.0, "error": 0.1, "sigmas": 3}, "has no statistical error"),
        (scalar(1.0, math.nan), {"value": 1.0, "error": 0.1, "sigmas": 3}, "has no statistical error"),
        (scalar(9.0, 50.0), {"value": 1.0, "error": 0.1, "sigmas": 3}, "above twice the reference's"),
        (scalar(math.nan), {"value": 1.0, "atol": 10}, "not finite"),
        (scalar(math.inf), {"value": 1.0, "atol": 10}, "not finite"),
        (scalar(math.nan), {"max": 1.0}, "not finite"),
        (scalar(None), {"value": 1.0, "atol": 10}, "expected a number"),
        (scalar(None), {"max": 1.0}, "expected a number"),
        (scalar("1.0"), {"value": 1.0}, "expected a number"),
        (scalar(True), {"value": 1}, "expected a number"),
        (scalar(1), {"value": True}, "expected True"),
        (scalar("krotov"), {"value": "lbfgs"}, "found 'krotov', expected 'lbfgs'"),
        (scalar(2e-12), {"max": 1e-12}, "at most 1e-12"),
        (scalar(0.4), {"min": 0.5}, "at least 0.5"),
        (scalar(0.4), {"atol": 1}, "neither value nor min nor max"),
    ],
)
def test_scalars_that_do_not(found, reference, message):
    (mismatch,) = compare({"x": found}, {"x": reference})
    assert mismatch.name == "x"
    assert message in mismatch.reason


def test_a_missing_scalar_is_a_mismatch_and_others_are_not_looked_at():
    (mismatch,) = compare({"x": scalar(1.0), "y": scalar(2.0)}, {"z": {"value": 1.0, "atol": 100}})
    assert str(mismatch) == "z: missing in the results"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"scalars": {"x": {"value": 1, "tol": 1}}}', "x: unknown key tol"),
        ('{"scalar": {}}', "unknown key scalar"),
        ('{"scalars": {"x": 1}}', "x: must be a mapping"),
        ('{"scalars": {"x": {"value": 1, "atol": Infinity}}}', "Infinity"),
        ('{"scalars": {"x": {"value": NaN}}}', "NaN"),
        ('{"arrays": {"x": [{"value": 1, "rtl": 1}]}}', "x: unknown key rtl"),
        ("[", "cannot read"),
    ],
)
def test_references_that_would_check_nothing(tmp_path, text, message):
    path = tmp_path / "reference.json"
    path.write_text(text)
    with pytest.raises(FileError, match=message):
        load_reference(path)


# --- files ----------------------------------------------------------------------------------------

TABLES = (
    Table("t", ("t",), "au"),
    Table("x", ("t",), "au"),
    Table("x_error", ("t",), "au"),
    Table("z", ("t",)),
    Table("name", ("t",)),
    Table("seconds", ("t",), "s"),
)
ARRAYS = {
    "t": np.arange(4.0),
    "x": np.array([1.0, 2.0, 3.0, 1e-9]),
    "z": np.array([1.0, 1j, -1.0, -1j]),
    "name": np.array(["a", "b", "c", "d"], dtype=object),
    "seconds": np.ones(4),
}
SCALARS = {
    "energy": Scalar(-2.9, "hartree", error=0.01),
    "count": Scalar(7),
    "kind": Scalar("test"),
    "speed": Scalar(1e6, "1/s"),
    "unknown": Scalar(math.nan),
}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a results file, changed where asked, and opens it."""
    opened = []

    def write(stem="a", /, *, method="test", scalars=None, tables=TABLES, **arrays):
        content = {key: value for key, value in {**ARRAYS, **arrays}.items() if value is not None}
        path = write_results(
            tmp_path / f"{stem}.h5",
            Content(
                method=method,
                title="",
                status="complete",
                tables=tables,
                arrays=content,
                scalars={
                    key: value for key, value in {**SCALARS, **(scalars or {})}.items() if value is not None
                },
                provenance={},
            ),
        )
        opened.append(open_results(path))
        return opened[-1]

    yield write
    for results in opened:
        results.close()


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("x", {"index": [1], "value": 2.0}),
        ("x", {"index": -4, "value": 1.01, "atol": 0.02}),
        ("x", {"value": [1.0, 2.0, 3.0, 0.0], "atol": 1e-8}),
        ("z", {"index": [1], "value": [0.0, 1.0]}),
        ("z", {"value": [[1, 0], [0, 1], [-1, 0], [0, -1]], "atol": 1e-12}),
        ("name", {"index": [0], "value": "a"}),
    ],
)
def test_array_elements_that_agree(write, name, entry):
    assert compare_arrays(write(), {name: entry}) == []


@pytest.mark.parametrize(
    ("name", "entry", "message"),
    [
        ("x", {"index": [1], "value": 2.1, "atol": 0.05}, r"x\[1\]: differs by up to 0.1 .* allowed 0.05"),
        ("x", {"index": [4], "value": 2.0}, r"x\[4\]: the array has shape \(4,\)"),
        ("x", {"value": [1.0, 2.0]}, r"x: the selected part has shape \(4,\), the reference \(2,\)"),
        ("y", {"index": [4], "value": 2.0}, "missing in the results"),
        ("z", {"index": [1], "value": 1.0}, r"written as \[re, im\]"),
        ("z", {"index": [1], "value": [0.0, 1.1], "atol": 0.05}, "differs by up to 0.1"),
        ("name", {"index": [0], "value": "b"}, "expected 'b'"),
    ],
)
def test_array_elements_that_do_not(write, name, entry, message):
    (mismatch,) = compare_arrays(write(), {name: [entry]})
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(str(mismatch))


def test_a_nan_in_an_array_is_a_mismatch(write):
    results = write(x=np.array([1.0, np.nan, 3.0, 4.0]))
    assert len(compare_arrays(results, {"x": {"index": [1], "value": 0.0, "atol": 1e9}})) == 1


# --- two files ------------------------------------------------------------------------------------


def differing(a, b, **tolerance):
    return [item.name for item in compare_results(a, b, Tolerance(**tolerance)) if not item.same]


def test_equal_files_agree(write):
    assert differing(write("a"), write("b"), rtol=0, sigmas=0) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"scalars": {"energy": Scalar(-2.87, "hartree", error=0.01)}}, []),  # 2.1 sigma
        ({"scalars": {"energy": Scalar(-2.85, "hartree", error=0.01)}}, ["energy"]),  # 3.5 sigma
        ({"scalars": {"energy": Scalar(-2.85, "hartree", error=math.inf)}}, ["energy"]),
        ({"scalars": {"energy": Scalar(-2.9, "eV", error=0.01)}}, ["energy"]),
        ({"scalars": {"count": Scalar(8)}}, ["count"]),
        ({"scalars": {"kind": Scalar("other")}}, ["kind"]),
        ({"scalars": {"speed": Scalar(2e6, "1/s")}}, []),
        ({"scalars": {"unknown": Scalar(0.0)}}, ["unknown"]),
        ({"scalars": {"count": None}}, ["count"]),
        ({"scalars": {"more": Scalar(1)}}, ["more"]),
        ({"method": "best"}, ["method"]),
        ({"x": np.array([1.0, 2.0, 3.0 + 1e-9, 2e-9])}, []),  # small against the largest element
        ({"x": np.array([1.0, 2.0, 3.0 + 1e-8, 1e-9])}, ["x"]),
        ({"x": np.array([1.0, np.nan, 3.0, 1e-9])}, ["x"]),
        ({"x": np.array([1.0, np.inf, 3.0, 1e-9])}, ["x"]),
        ({"x": np.array([1.0, 2.1, 3.0, 0.0]), "x_error": np.full(4, 0.05)}, ["x_error"]),
        ({"x": None}, ["x"]),
        ({"z": np.array([1.0, 1j, -1.0, 1j])}, ["z"]),
        ({"z": -ARRAYS["z"]}, ["z"]),  # another gauge is a difference
        ({"seconds": np.full(4, 2.0)}, []),
        ({"name": np.array(["a", "b", "c", "e"], dtype=object)}, ["name"]),
        ({"tables": (Table("t", ("t",), "s"), *TABLES[1:])}, ["t"]),
    ],
)
def test_differences_are_found(write, changes, expected):
    assert differing(write("a"), write("b", **changes)) == expected
    assert differing(write("c", **changes), write("d")) == expected


def test_arrays_of_another_length_differ(write):
    short = {name: array[:3] for name, array in ARRAYS.items()}
    assert differing(write("a"), write("b", **short)) == list(ARRAYS)


def test_standard_errors_of_arrays_are_respected(write):
    errors = np.full(4, 0.05)
    a, b = write("a", x_error=errors), write("b", x=ARRAYS["x"] + 0.2, x_error=0.9 * errors)
    assert differing(a, b) == []
    assert differing(a, b, sigmas=2) == ["x"]


def test_nan_equals_nan_and_inf_equals_inf(write):
    odd = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert differing(write("a", x=odd), write("b", x=odd.copy())) == []


# --- running reference decks ----------------------------------------------------------------------


@pytest.fixture
def case(counter):
    """Return a function that makes a reference deck."""
    place = Folders(counter.folder / "inputs", counter.folder / "reference", writable=True)
    (place.inputs / "counter").mkdir(parents=True)
    (place.reference / "counter").mkdir(parents=True)

    def make(reference=None, name="deck", **count):
        deck = counter.deck(name, extra="run: {seed: 1, device: cpu}\n", **count)
        deck = deck.rename(place.inputs / "counter" / deck.name)
        path = place.reference / "counter" / f"{name}.json"
        if reference is not None:
            path.write_text(json.dumps(reference))
        return Case("counter", deck, path)

    make.place = place
    return make


def test_cases_are_found_by_their_folder(case):
    case({"slow": True}, "b")
    case({}, "a")
    (case.place.inputs / "counter" / "table.csv").write_text("")
    found = cases(["counter", "other"], case.place)
    assert [item.name for item in found] == ["counter/a", "counter/b"]
    assert [item.slow for item in found] == [False, True]
    assert [item.name for item in cases(["counter"], case.place, "b")] == ["counter/b"]


def test_a_deck_that_agrees(case, tmp_path):
    reference = {
        "overrides": ["count.steps=10"],
        "scalars": {"steps": {"value": 10}, "final": {"min": 0, "max": 1}},
        "arrays": {"step": {"index": [-1], "value": 10}},
    }
    report = run_case(case(reference), tmp_path)
    assert report.ok
    assert str(report) == "counter/deck"
    assert report.summary["scalars"]["steps"]["value"] == 10


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (None, "reference: missing"),
        ({}, "checks nothing"),
        ({"scalars": {"steps": {"value": 19}}}, "steps: found 20, expected 19"),
        ({"overrides": ["count.fail=nan"], "scalars": {"steps": {"value": 20}}}, "failed with exit code 5"),
        ({"overrides": ["count.steps=x"], "scalars": {"steps": {"value": 20}}}, "failed with exit code 3"),
    ],
)
def test_a_deck_that_does_not(case, tmp_path, reference, message):
    report = run_case(case(reference), tmp_path)
    assert not report.ok
    assert message in str(report)


def test_a_device_that_is_not_there_is_no_mismatch(case, tmp_path):
    with pytest.raises(DeviceError):
        run_case(case({"scalars": {"steps": {"value": 20}}}), tmp_path, device="cuda:77")


def test_a_deck_without_cuda_kernels_is_checked_on_the_cpu(case, tmp_path, monkeypatch):
    run, devices = check_module._run, []

    def on(case, reference, folder, device, **keys):
        devices.append(device)
        if device == "cuda":
            raise NoGpuError("model: on the CPU only")
        return run(case, reference, folder, device, **keys)

    monkeypatch.setattr(check_module, "_run", on)
    assert run_case(case({"scalars": {"steps": {"value": 20}}}), tmp_path, device="cuda").ok
    assert devices == ["cuda", "cpu"]


def test_update_rewrites_own_values_only(case, tmp_path):
    one = case(
        {
            "scalars": {
                "steps": {"value": 19, "atol": 0.5, "source": "qsim 0.0.1"},
                "final": {"value": 0.5, "atol": 1e-3, "source": "the paper"},
                "mean": {"value": 0.1, "error": 0.1, "sigmas": 3, "source": "qsim 0.0.1"},
            },
            "arrays": {"phase": {"index": [0], "value": [0, 0], "atol": 1e-12, "source": "qsim 0.0.1"}},
        }
    )
    (tmp_path / "a").mkdir()
    assert update(one, tmp_path / "a") == ["steps", "mean", "phase"]
    written = json.loads(one.reference.read_text())
    assert written["scalars"]["steps"] | {"source": ""} == {"value": 20, "atol": 0.5, "source": ""}
    assert written["scalars"]["final"] == {"value": 0.5, "atol": 1e-3, "source": "the paper"}
    (tmp_path / "b").mkdir()
    assert [item.name for item in run_case(one, tmp_path / "b").mismatches] == ["final"]


def test_update_makes_a_new_reference(case, tmp_path):
    one = case()
    (tmp_path / "a").mkdir()
    update(one, tmp_path / "a")
    scalars = json.loads(one.reference.read_text())["scalars"]
    assert set(scalars) == {"mean", "final", "steps", "converged"}  # the speed belongs to the machine
    (tmp_path / "b").mkdir()
    assert run_case(one, tmp_path / "b").ok


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def check(command, monkeypatch, case):
    monkeypatch.setattr("qsim.core.examples.check.folders", lambda: case.place)
    return lambda *arguments: command("check", *arguments)


def test_check_passes_and_fails(case, check):
    good = {"scalars": {"steps": {"value": 20}}}
    case(good, "good")
    case({**good, "slow": True}, "slow")
    reply = check("counter")
    assert (reply.exit_code, reply.stdout) == (0, "")
    assert "ok" in reply.stderr
    assert "1 slow decks left out" in reply.stderr
    assert "counter/slow" in check("--slow").stderr
    assert "counter/slow" in check("--deck", "slow").stderr
    case({"scalars": {"steps": {"value": 21}}}, "bad")
    reply = check()
    assert reply.exit_code == 7
    assert "FAIL" in reply.stderr
    assert "steps: found 20, expected 21" in reply.stderr
    assert "1 of 2 decks differ" in reply.stderr


def test_check_updates(case, check):
    one = case({"scalars": {"steps": {"value": 19, "source": "qsim 0"}}})
    assert check("--update").exit_code == 0
    assert json.loads(one.reference.read_text())["scalars"]["steps"]["value"] == 20
    assert "unchanged" in check("--update").stderr


def test_check_without_decks_is_wrong_usage(check):
    assert check("--deck", "nothing").exit_code == 2


@pytest.mark.checkout
def test_the_folders_of_this_checkout_are_found():
    place = folders()
    assert place.inputs.name == "inputs"
    assert place.writable

"""An exception in anything that only judges results: the results are complete, and a warning says what could not be found."""

import numpy as np
import pytest

from qsim.sturmian.basis import run as basis
from qsim.sturmian.bound import run as bound
from qsim.sturmian.bound import warnings as bound_warnings
from qsim.sturmian.integrals import run as integrals
from qsim.sturmian.resonances import run as resonances
from qsim.sturmian.scatter import problem
from qsim.sturmian.scatter import run as collision
from qsim.sturmian.scatter import warnings as collision_warnings
from qsim.sturmian.two_electron import reference

GSF = {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": 6}
BOUND = {
    "system": {"Z": 2},
    "grid": {"R": 14, "order": 8},
    "basis": GSF,
    "channels": {"L": 0, "S": 0, "l_max": 1},
}
MODEL = {
    "system": {"Z": 1},
    "grid": {"R": 17, "order": 7, "ecs": {"angle": 0.3, "length": 14}},
    "basis": "fedvr",
    "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
    "task": {"type": "scatter", "process": "e_h", "energy": 1.1},
}
RESONANCE = {
    **MODEL,
    "system": {"Z": 2},
    "task": {"type": "scatter", "process": "resonances", "near": [-0.72]},
}
BASIS = {"system": {"Z": 2}, "grid": {"R": 14, "order": 8}, "basis": GSF, "task": {"type": "basis", "l": 1}}
TABLES = {
    **BASIS,
    "channels": {"L": 0, "S": 0, "pairs": [[1, 1]]},
    "task": {"type": "integrals", "l": [0], "route": "poisson_gemm"},
}
EXTRAPOLATED = {**BOUND, "extrapolate": {"l_max": [0, 1, 2]}}

# what fails, the deck, what the warning names, and the scalars that lose their error or are missing
PLACES = {
    "finer grid": (reference, "relax", BOUND, "what functions and grid leave out", ["error_radial_0"]),
    "wall": (bound, "wall_shift", BOUND, "the error of the box", ["error_box_0"]),
    "more waves": (bound._Run, "_energies", BOUND, "what further partial waves add", ["error_angular_0"]),
    "limit": (bound, "_limit", BOUND, "the limit of all partial waves", ["error_angular_0"]),
    "limit that is asked for": (
        bound, "_limit", EXTRAPOLATED, "the limit of all partial waves",
        ["energy_extrapolated", "energy_extrapolated_0", "error_to_exact", "error_to_exact_0", "error_angular_0"],
    ),
    "warnings about states": (bound_warnings, "_warnings", BOUND, "warnings about the states", []),
    "radius": (bound_warnings, "radius_needed", BOUND, "whether the box holds the states", []),
    "coarser grid": (problem.Collision, "setup", MODEL, "the error of the cross sections", []),
    "warnings about cross sections": (collision_warnings, "_warnings", MODEL, "warnings about the cross sections", []),
    "picture": (collision, "picture", MODEL, "the picture of a solution", []),
    "resonance": (resonances.Resonances, "_errors", RESONANCE, "the error of a resonance", []),
    "warnings about a resonance": (resonances, "_warnings", RESONANCE, "warnings about a resonance", []),
    "functions": (basis, "beta_errors", BASIS, "errors of beta", []),
    "condition": (basis, "condition", BASIS, "the condition of the functions", ["condition"]),
    "warnings about functions": (basis, "_warnings", BASIS, "warnings about the functions", []),
    "tables": (integrals, "_errors", TABLES, "errors of the integrals",
        ["overlap_error", "coulomb_error", "exchange_error"]),
}  # fmt: skip
whole: dict[str, dict] = {}


def scalars_of(sturmian, deck):
    summary = sturmian.execute(options={"force": True}, **deck)
    values = {name: entry["value"] for name, entry in summary["scalars"].items() if "per_second" not in name}
    return values, summary["warnings"]


def plant(monkeypatch, where, name):
    """Let a function fail; of those that make a grid, the one that makes a coarser grid."""
    usual = getattr(where, name)

    def fail(*arguments, coarser=True, **_):
        if coarser:
            raise ZeroDivisionError("planted")
        return usual(*arguments)

    monkeypatch.setattr(where, name, fail)


@pytest.mark.parametrize("place", PLACES)
def test_results_are_complete_without_a_judgement(sturmian, monkeypatch, place):
    where, name, deck, what, lost = PLACES[place]
    key = str(deck)
    if key not in whole:
        whole[key], warnings = scalars_of(sturmian, deck)
        assert not [text for text in warnings if "could not be found" in text]

    plant(monkeypatch, where, name)
    values, warnings = scalars_of(sturmian, deck)
    said = [text for text in warnings if "planted" in text]
    assert said
    assert all(text.startswith(what) for text in said)
    for known, value in whole[key].items():
        if known not in lost:
            assert values[known] == value, known


@pytest.mark.parametrize("place", ["coarser grid", "resonance"])
def test_errors_that_could_not_be_found_are_missing(sturmian, monkeypatch, place):
    where, name, deck, *_ = PLACES[place]
    plant(monkeypatch, where, name)
    summary = sturmian.execute(options={"force": True}, **deck)
    claims = {
        name: entry["error"]
        for name, entry in summary["scalars"].items()
        if name.startswith(("sigma", "res"))
    }
    assert claims
    assert {name for name, error in claims.items() if error is not None} == set()


def test_a_run_that_is_resumed_after_the_errors_were_lost_goes_on_without_them(sturmian):
    made = sturmian.build(**MODEL)

    def judged(_what, judge, missing):
        try:
            return judge()
        except ZeroDivisionError:
            return missing

    def fail(*_):
        raise ZeroDivisionError

    first = collision.Collisions(made, judged=judged)
    first._seen, usual = lambda job, poll: fail() if job.round else usual(job, poll), first._seen
    first.advance(lambda _: None)
    second = collision.Collisions(made, first.state())
    second.advance(lambda _: None)
    assert second.lost
    (seen,) = second.result().observed
    assert np.isnan(seen["singlet"].total[1])
    assert seen["singlet"].total[0] > 0.0

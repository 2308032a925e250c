"""What judges a computed result may fail: a warning and a missing number, never a missing result, also in a resumed run."""

import importlib
from functools import cache

import numpy as np
import pytest

from qsim.core.results.results import open_results
from qsim.core.run.progress import Monitor
from tests.decks import Decks

PROPAGATE = {
    "task": "propagate",
    "grid": {"xmin": -40, "xmax": 40, "points": 401},
    "potential": {"type": "softcore"},
    "laser": {"gauge": "velocity", "pulses": [{"shape": "sin2", "omega": 0.5, "E0": 0.03, "cycles": 2}]},
    "absorber": {"type": "cap", "width": 10, "strength": 0.05},
    "time": {"dt": 0.1, "outputs": 4},
    "observe": [
        {"populations": 2},
        {"norm_within": [10]},
        "hhg",
        "gabor",
        {"photoelectron": {"points": 5, "gamma": 0.1}},
    ],
}
ATOM = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 60, "dr": 0.3, "l_max": 2, "map": {"dr0": 0.05, "width": 30}},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.7, "E0": 0.02, "cycles": 3}]},
    "time": {"dt": 0.1, "outputs": 2, "verify": True},
    "observe": ["hhg", "gabor"],
    "spectra": [{"method": "scattering", "energy": [0.05, 0.6], "points": 6, "angles": 5}],
}
SCAN = {
    **{key: value for key, value in ATOM.items() if key != "observe"},
    "time": {"dt": 0.1, "outputs": 2, "verify": False},
    "scan": {"intensity": [1e-5, 1e-4, 4e-4], "focal_average": {"dimensions": 2}},
}
SCALING = {
    "task": "scaling",
    "scaling": {"n": [200], "blocks": [2, 4, 8], "iterations": [1, 2], "repeats": 1, "compare": ["thomas"]},
}
SOLVE = {"task": "solve", "system": {"source": "random", "n": 300, "rhs": 2, "seed": 3}}
# what is judged: the names that may lack then, each with all that begins so
JUDGED = {
    "propagate": {
        "the harmonic spectrum": ("hhg_order", "hhg_spectrum", "hhg_cutoff"),
        "the time-frequency map": ("hhg_gabor", "gabor_"),
        "the photoelectron spectra": ("photoelectron_",),
        "what walls turned back": ("turned_back",),
        "the decay rate": ("rate",),
        "warnings about the run": (),
        "the errors of the numbers": ("error_", "claimed", "cause"),
    },
    "atom": {
        "energies and bound population": (
            "energy_initial",
            "energy_final",
            "bound_population",
            "continuum_population",
        ),
        "the decay rate": ("rate",),
        "the harmonic spectrum": ("hhg_order", "hhg_spectrum", "hhg_cutoff"),
        "the time-frequency map": ("hhg_gabor", "gabor_"),
        "the photoelectron spectra": (
            "energy",
            "pes",
            "theta",
            "pad",
            "l_final",
            "scattering_",
            "momentum_",
            "peak_",
        ),
        "the errors of the numbers": ("error", "claimed", "cause"),
        "warnings about the run": (),
    },
    "scan": {
        "energies and bound population": (
            "energy_initial",
            "run_energy_",
            "run_bound_",
            "run_continuum_",
            "continuum_",
            "focal_",
        ),
        "the decay rate": ("rate",),
        "the photoelectron spectra": (
            "energy",
            "pes",
            "run_pes",
            "scan_p",
            "theta",
            "pad",
            "l_final",
            "focal_",
            "momentum_",
        ),
        "warnings about the run": (),
        "averages over the focus": ("focal_",),
    },
    "scaling": {
        "a backward error": ("backward_error",),
        "the cost model": ("alpha", "beta", "optimum_", "model"),
    },
}
JUDGED["solve"] = {
    "the profile of the solution": ("profile_",),
    "the check sums of the solution": ("x_",),
}
DECKS = {"solve": SOLVE, "propagate": PROPAGATE, "atom": ATOM, "scan": SCAN, "scaling": SCALING}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a function that gives the file of a run of a task whose judgements succeed."""
    decks = Decks("tridiag", tmp_path_factory.mktemp("whole"))

    @cache
    def of(task):
        decks.execute(task, **DECKS[task])
        return decks.folder / f"{task}.h5"

    return of


def planted(monkeypatch, chosen=None):
    """Let all judgements fail, or one; return the list of those that are made."""
    made = []
    honest = Monitor.judged

    def judged(self, what, judge, missing):
        def fail():
            raise RuntimeError(f"planted in {what}")

        made.append(what)
        return honest(self, what, judge if chosen not in (None, what) else fail, missing)

    monkeypatch.setattr(Monitor, "judged", judged)
    return made


def compare(before, after, may_lack):
    """Assert that a file has everything but what the failed judgements were to find, bit for bit."""
    with open_results(before) as a, open_results(after) as b:
        for name in a.names:
            if name.startswith(may_lack) or "seconds" in name:
                continue
            assert name in b.names, name
            if a[name].dtype.kind in "fc" and not name.startswith(("times", "compare", "time_")):
                np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        for name, scalar in a.scalars.items():
            if name.startswith(may_lack) or "second" in name or "optimum" in name or "_per_" in name:
                continue
            assert b.scalars[name].value == scalar.value, name


@pytest.mark.parametrize("task", [task for task in DECKS if task != "scaling"])
def test_all_judgements_fail_and_the_results_are_complete(tridiag, whole, monkeypatch, task):
    undisturbed = whole(task)
    made = planted(monkeypatch)
    found = tridiag.execute("planted", **DECKS[task])
    assert set(made) == set(JUDGED[task])
    for what in made:
        assert any(
            text.startswith(f"{what} could not be found: ") and f"planted in {what}" in text
            for text in found["warnings"]
        ), what
    lack = tuple(name for names in JUDGED[task].values() for name in names)
    compare(undisturbed, tridiag.folder / "planted.h5", lack)
    assert all(scalar.get("error") is None for scalar in found["scalars"].values())
    assert sum("could not be found" in text for text in found["warnings"]) == len(set(made))


@pytest.mark.parametrize("what", JUDGED["propagate"])
def test_one_judgement_fails_and_the_others_are_made(tridiag, whole, monkeypatch, what):
    undisturbed = whole("propagate")
    planted(monkeypatch, what)
    found = tridiag.execute("planted", **PROPAGATE)
    assert sum("could not be found" in text for text in found["warnings"]) == 1
    compare(undisturbed, tridiag.folder / "planted.h5", JUDGED["propagate"][what])
    claimed = found["scalars"]["population_0"]["error"]
    assert (claimed is None) == (what == "the errors of the numbers")


@pytest.mark.parametrize(
    "place",
    [
        "propagate.accuracy.companions",
        "propagate.accuracy.resolved",
        "propagate.accuracy.cuts",
        "propagate.sine_waves.final",
    ],
)
def test_no_step_of_the_claim_costs_the_result(tridiag, monkeypatch, place):
    """An exception of any kind, wherever the errors are looked for."""
    module, name = place.rsplit(".", 1)

    def fail(*arguments, **keys):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(importlib.import_module(f"qsim.tridiag.{module}"), name, fail)
    found = tridiag.execute(**PROPAGATE)
    assert any(text.startswith("the errors of the numbers could not be found") for text in found["warnings"])
    assert found["scalars"]["population_0"]["value"] > 0.5
    assert found["scalars"]["population_0"]["error"] is None


def test_judgements_of_timings(tridiag, monkeypatch):
    made = planted(monkeypatch)
    scalars = tridiag.execute(**SCALING)["scalars"]
    assert set(made) == set(JUDGED["scaling"])
    assert scalars["solve_seconds"]["value"] > 0
    assert scalars["optimum_blocks_1"]["value"] in (2, 4, 8)
    for name in ("backward_error", "alpha", "beta", "optimum_model_1"):
        assert scalars[name]["value"] is None or np.isnan(scalars[name]["value"]), name


@pytest.mark.parametrize("task", ["propagate", "atom"])
def test_a_resumed_run_whose_judgements_fail_is_complete(tridiag, whole, command, monkeypatch, task):
    """Stopped in the middle, continued with failing judgements: the results of the run without a stop."""
    deck, folder = tridiag.write(**DECKS[task]), tridiag.folder
    common = ("tridiag", deck, "--device", "cpu", "--no-figures", "-o")
    undisturbed = whole(task)
    assert command(*common, folder / "parts.h5", "--set", "run.walltime=1e-6").exit_code == 75
    planted(monkeypatch)
    second = command(*common, folder / "parts.h5", "--resume")
    assert second.exit_code == 0, second.stderr
    lack = tuple(name for names in JUDGED[task].values() for name in names)
    compare(undisturbed, folder / "parts.h5", lack)

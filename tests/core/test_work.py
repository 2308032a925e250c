"""The least time of a run: words, limits, and the decks whose work is absurd."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError
from qsim.core.run import pipeline, work
from qsim.core.run.pipeline import Options
from qsim.core.run.stages import stage
from qsim.core.run.work import DAY, Work
from qsim.core.text import long_time, rough_time

INPUTS = Path(__file__).resolve().parents[2] / "inputs"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (90.0, "1.5 minutes"),
        (2.0 * 3600.0, "2.0 hours"),
        (12.3 * DAY, "12 days"),
        (3.0 * 365.25 * DAY, "3.0 years"),
        (1e6 * 365.25 * DAY, "1e+06 years"),
    ],
)
def test_long_times_in_words(seconds, text):
    assert long_time(seconds) == text


def test_the_least_time_is_that_of_operations_or_of_bytes_whichever_is_longer():
    one, four = cpu(1), cpu(4)
    assert Work(flops=work.CPU_FLOPS, dense=work.CPU_DENSE).least(one, "double") == pytest.approx(2.0)
    assert Work(flops=work.CPU_FLOPS).least(one, "single") == pytest.approx(1.0 / work.SINGLE)
    assert Work(flops=work.CPU_FLOPS, bytes=8 * work.CPU_BYTES).least(four, "double") == pytest.approx(2.0)
    assert Work(bytes=8 * work.CPU_BYTES).least(four, "double", ranks=2) == pytest.approx(1.0)
    cuda = replace(one, kind="cuda")
    assert Work(dense=work.CUDA_FLOPS).least(cuda, "double") == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("days", "severity"), [(0.9, None), (7.0, "warning"), (999.0, "warning"), (1001.0, "error")]
)
def test_days_are_told_and_years_refused(days, severity):
    found = Work(reduce="time.t_final").findings(days * DAY)
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert all(finding.key == "time.t_final" for finding in found)
    assert all(f"at least {long_time(days * DAY)}" in finding.message for finding in found)


def test_a_measured_speed_is_told_instead_of_the_bound():
    (finding,) = Work(about=7.0 * DAY, reduce="system.n").findings(60.0)
    assert finding.message == "the run takes about 7.0 days"


def planned(deck, *overrides):
    options = Options(device="cpu", dry_run=True, overrides=overrides, figures=False)
    return pipeline.execute(deck.split("/")[0], INPUTS / f"{deck}.yaml", options).summary


@pytest.mark.parametrize(
    ("deck", "override", "text"),
    [
        ("trotter/thirty_spins", "evolve.t_final=1e6", "at least"),
        ("tridiag/solve_random", "system.n=1000000000000", "about 7.2 days"),
    ],
)
def test_days_of_work_are_announced(deck, override, text):
    summary = planned(deck, override)
    assert text in summary["time"]
    assert any(
        override.split("=")[0] in told and text in told and "days" in told for told in summary["warnings"]
    )


@pytest.mark.parametrize(
    ("deck", "override"),
    [
        ("trotter/thirty_spins", "evolve.t_final=1e9"),
        ("tridiag/solve_random", "system.n=10000000000000000"),
    ],
)
def test_years_of_work_are_refused(deck, override):
    with pytest.raises(DeckError, match="more than 1000 days are refused"):
        planned(deck, override)


def test_a_limit_of_sweeps_is_no_work():
    told = planned("qoc/morse", "optimizer.max_sweeps=1000000000")["time"]
    assert told.startswith("about 0.01 s per sweep on one core")


def test_the_time_that_a_dry_run_tells():
    assert Work(core=8.3).estimate(0.0) == "about 8 s on one core"
    assert Work(core=0.034, each="sweep").estimate(0.0) == "about 0.03 s per sweep on one core"
    assert Work(core=7200.0).estimate(90.0) == "at least 1.5 minutes; about 2.0 hours on one core"
    assert Work().estimate(0.0) == "not known before the run, which shows it"
    assert Work(core=8.0).estimate(90.0, cuda=True) == "at least 1.5 minutes"  # a core says nothing of a GPU
    first = Work(core=8.0).estimate(0.0, compiling=35.0)
    assert first == "about 8 s on one core; before it, once for this machine, about 40 s to compile kernels"
    assert [rough_time(seconds) for seconds in (0.0123, 0.96, 14.0, 59.0, 61.0)] == [
        "0.01 s", "1 s", "10 s", "60 s", "1.0 minutes"
    ]  # fmt: skip


RECORDED = dict(
    re.findall(r"\[`(\w+)`\]\([^)]*\), ([\d.]+) s\.", (INPUTS.parent / "docs/gallery.md").read_text("utf-8"))
)


@pytest.mark.parametrize(
    "name",
    [
        *("tridiag/eckart", "tridiag/hhg_800nm", "tridiag/photoelectrons", "tridiag/rabi", "tridiag/packet"),
        *("tridiag/ar_ati", "tridiag/h_hhg_800nm", "tridiag/h_static_rate"),
        *(
            "qmc/he_atom",
            "qmc/be_atom",
            "qmc/h2o_ccecp",
            "qmc/electron_gas",
            "qmc/hooke",
            "qmc/diamond_primitive",
        ),
    ],
)
def test_estimates_are_within_a_factor_of_three_of_recorded_times(name):
    """The recorded ones are those of the gallery, taken on one core with kernels compiled."""
    method, stem = name.split("/")
    reference = INPUTS.parent / f"tests/reference/{name}.json"
    overrides = json.loads(reference.read_text("utf-8")).get("overrides", [])
    loaded = load_deck(INPUTS / f"{name}.yaml", stage(method, "deck").DECK, overrides)
    told = stage(method, "build").plan(loaded).work
    assert not told.each
    assert 1 / 3 < told.core / float(RECORDED[stem]) < 3

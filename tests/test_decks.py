"""Every deck in inputs/ runs and gives the numbers of its reference; every kind of figure is drawn.

A deck without a reference fails.  ``qsim check --deck NAME --update`` writes one; its tolerances and, where
there is one, the published value are then to be put in by hand.
"""

import pytest

from qsim import methods
from qsim.core.results import plotting
from qsim.core.run import files, pipeline
from qsim.core.run.check import cases, folders, run_case

# methods and decks appear in any order; a folder of decks that no method runs must not go unseen
PLACE = folders()
FOLDERS = sorted(path.name for path in PLACE.inputs.iterdir() if path.is_dir())
CASES = cases(FOLDERS, PLACE)

# their figures are those of other decks, and take longer than their numbers; `--slow` draws them too
DRAWN_ELSEWHERE = {
    "qmc/be_atom",
    "qmc/h2o_ccecp",
    "qoc/double_well",
    "qoc/pulse",
    "qoc/superposition",
    "qoc/travolta_fig1_amplified",
    "qoc/travolta_fig3_amplified",
    "qoc/travolta_fig3_conventional",
    "qoc/travolta_fig5_quick",
    "sturmian/he_limit",
    "sturmian/hminus",
    "tridiag/packet",
    "tridiag/solve_random",
    "trotter/thirty_spins",
}


@pytest.fixture
def formats(request, monkeypatch):
    """Write PNG files only, but for `--slow`: a PDF file takes twice as long and draws the same."""
    if not request.config.getoption("--slow"):
        for module in (plotting, files):
            monkeypatch.setattr(module, "FORMATS", ("png",))


@pytest.mark.usefixtures("formats")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in CASES],
)
def test_deck(case, tmp_path, request, monkeypatch):
    least = []
    told = pipeline.least_time
    monkeypatch.setattr(pipeline, "least_time", lambda *given: least.append(told(*given)) or least[-1])
    figures = case.name not in DRAWN_ELSEWHERE or request.config.getoption("--slow")
    report = run_case(case, tmp_path, device="cpu", figures=figures)
    assert report.ok, str(report)
    assert least[0] <= report.summary["timing"]["run"], "the least time of the plan is a bound"


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow else []) for case in CASES],
)
def test_deck_on_a_gpu(case, tmp_path):
    report = run_case(case, tmp_path, device="cuda")
    assert report.ok, str(report)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_of_decks_belongs_to_a_method(folder):
    assert methods.is_available(folder)


@pytest.mark.parametrize("method", methods.available())
def test_every_method_has_decks(method):
    assert cases([method], PLACE)


def test_decks_drawn_elsewhere_exist():
    assert {case.name for case in CASES if not case.slow} >= DRAWN_ELSEWHERE


def test_every_reference_belongs_to_a_deck():
    references = {
        path.relative_to(PLACE.reference).with_suffix("") for path in PLACE.reference.glob("*/*.json")
    }
    assert references <= {case.deck.relative_to(PLACE.inputs).with_suffix("") for case in CASES}

"""Every deck in inputs/ runs, draws its figures, and gives the numbers of its reference.

A deck without a reference fails.  ``qsim check --deck NAME --update`` writes one; its tolerances and, where
there is one, the published value are then to be put in by hand.
"""

import pytest

from qsim import methods
from qsim.core.results import plotting
from qsim.core.run import files
from qsim.core.run.check import cases, folders, run_case

# methods and decks appear in any order; a folder of decks that no method runs must not go unseen
PLACE = folders()
FOLDERS = sorted(path.name for path in PLACE.inputs.iterdir() if path.is_dir())
CASES = cases(FOLDERS, PLACE)


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
def test_deck(case, tmp_path):
    report = run_case(case, tmp_path, device="cpu", figures=True)
    assert report.ok, str(report)


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


def test_every_reference_belongs_to_a_deck():
    references = {
        path.relative_to(PLACE.reference).with_suffix("") for path in PLACE.reference.glob("*/*.json")
    }
    assert references <= {case.deck.relative_to(PLACE.inputs).with_suffix("") for case in CASES}

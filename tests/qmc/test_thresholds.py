"""Both sides of every limit of the checks of qmc and of the warnings of its analysis."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.run.progress import Monitor
from qsim.qmc import analysis, checks, relaxation
from qsim.qmc.statistics.blocking import DIFFERENT, _difference, reblock, warm_up
from qsim.qmc.wavefunction.singular import Divergence
from tests.qmc.test_claims import rows_of


@pytest.mark.parametrize(("smallest", "dependent"), [(0.9e-10, True), (1.1e-10, False)])
def test_orbitals_that_are_linearly_dependent(smallest, dependent):
    """Two unit columns at an angle t have the singular values sqrt(1 +- cos t): a ratio of tan(t / 2)."""
    t = 2.0 * smallest
    columns = np.zeros((50, 2))
    columns[3] = 1.0, 1.0
    columns[7, 1] = t
    assert checks._dependent(5.0 * columns) == dependent
    assert checks._dependent(np.zeros((5, 2)))


@pytest.mark.parametrize(("accepted", "told"), [(0.102, 0), (0.098, 1)])
@pytest.mark.parametrize("kind", ["vmc", "dmc"])
def test_few_accepted_moves(kind, accepted, told):
    found = {
        "acceptance": SimpleNamespace(mean=accepted),
        "energy": SimpleNamespace(reason="", error=None, constant=False),
    }
    texts = list(analysis._warnings(replace(rows_of(), kind=kind), 0, found, None, 1))
    assert sum("of the moves were accepted" in text for text in texts) == (told if kind == "vmc" else 0)


@pytest.mark.parametrize(("share", "spoiled"), [(0.0196, False), (0.0204, True)])
def test_a_divergence_that_spoils_the_error_of_the_variance(share, spoiled):
    """``c^2`` times the square of a wave number, against 2 % of the variance."""
    kinetic, variance, momentum = 2.0, 0.5, 1.5
    one = Divergence("two electrons", math.sqrt(share * variance / (momentum * kinetic)))
    rng = np.random.default_rng(3)
    estimate = reblock(rng.normal(variance, 0.01, 200))
    found = {
        "kinetic": SimpleNamespace(mean=kinetic),
        "variance": replace(estimate, mean=variance),
    }
    monitor = Monitor.silent()
    analysis._without_error(rows_of(), found, [one], momentum, monitor)
    assert (found["variance"].error is None) == spoiled


@pytest.mark.parametrize(("length", "told"), [(3.06, 0), (2.94, 1)])
def test_a_run_beside_the_memory_at_other_time_steps(length, told):
    energy = SimpleNamespace(error=1e-3, reason="", constant=False)
    estimates = {"energy": energy}
    found = [
        analysis.Analysis(0, estimates, memory=1.0, length=100.0),
        analysis.Analysis(0, estimates, memory=0.1, length=length),
    ]
    monitor = Monitor.silent()
    parts = [SimpleNamespace(timestep=0.1), SimpleNamespace(timestep=0.01)]
    analysis._compare_memories([0, 1], parts, found, monitor)
    assert sum("dmc, tau = 0.01: the run lasts" in text for text in monitor.warnings) == told


def test_the_bias_of_a_population():
    """``s^2 t / 2 * gT / (1 + gT)`` of energies ``e -> e/2 + noise`` of 64 walkers: ``s^2 t = 4 h / 64`` and ``T = h / ln 2``."""
    g, h = 0.5, 0.1
    series = replace(rows_of(count=1000), kind="dmc")
    series.info["feedback"] = g
    rows = relaxation.Rows.of(series, 0)
    found = rows.mean_of(5)
    energy = reblock(found.y.mean(axis=0), None, found)
    lasting = g * h / math.log(2.0)
    bias = analysis._population_bias(series, energy, rows)
    assert bias == pytest.approx(0.5 * 4.0 * h / 64 * lasting / (1 + lasting), rel=0.3)
    assert analysis._population_bias(series, replace(energy, constant=True), rows) == 0.0


@pytest.mark.parametrize(("chi2", "told"), [(10.6, 0), (11.1, 1)])
def test_a_poor_fit_of_the_time_steps(chi2, told):
    """With one degree of freedom a chance of 1e-3 is a chi squared of 10.83."""
    taus = np.array([0.01, 0.02, 0.03])
    errors = np.full(3, 1e-3)
    bend = np.array([1.0, -2.0, 1.0]) / math.sqrt(6.0)
    energies = -1.0 + taus + bend * errors * math.sqrt(chi2)
    monitor = Monitor.silent()
    found = analysis._extrapolated("linear", taus, energies, errors, np.zeros(3), 0.01, monitor)
    assert found.chi2 == pytest.approx(chi2, rel=1e-6)
    assert sum("is poor (chi squared" in text for text in monitor.warnings) == told


def test_an_extrapolation_whose_error_is_that_of_the_fit():
    """The part that stands for the powers left out, beside twice the statistical one: the scale decides."""
    taus = np.array([0.1, 0.2, 0.4])
    errors = np.full(3, 1e-4)
    energies = -1.0 + 0.1 * taus
    told = []
    for scale in np.geomspace(1e-4, 10.0, 40):
        monitor = Monitor.silent()
        found = analysis._extrapolated("linear", taus, energies, errors, np.zeros(3), float(scale), monitor)
        above = found.truncation > 2 * math.sqrt(found.covariance[0, 0])
        assert any("comes mostly from the linear fit" in text for text in monitor.warnings) == above
        told.append(above)
    assert not told[0]
    assert told[-1]


@pytest.mark.parametrize(("deviations", "cut"), [(0.8 * DIFFERENT, False), (1.3 * DIFFERENT, True)])
def test_a_start_that_differs(deviations, cut):
    """The first 10 of 2000 values are shifted by as many standard deviations of their mean."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal(2000)
    x[:10] -= x[:10].mean()
    x[:10] += deviations / math.sqrt(10.0)
    assert abs(_difference(x[:10], x[10:])) == pytest.approx(deviations, rel=0.15)
    assert (warm_up(x) > 0) == cut


@pytest.mark.parametrize(("chance", "told"), [(0.0049, 1), (0.0051, 0)])
def test_a_drift_counts_below_one_per_cent(monkeypatch, chance, told):
    """Of energy and kinetic energy together: half of it for each."""
    series = rows_of(count=200)
    series.info["settled"] = 100.0  # a start that is forgotten
    monkeypatch.setattr(analysis, "drift_of", lambda chains: chance)
    rows = replace(relaxation.Rows.of(series, 0), tested=(0, 5))
    found = {
        "acceptance": SimpleNamespace(mean=0.5),
        "energy": SimpleNamespace(reason="", error=1e-3, constant=False, plateau=True),
    }
    texts = list(analysis._warnings(series, 0, found, rows, 1))
    assert sum("still drifts" in text for text in texts) == told


@pytest.mark.parametrize("plateau", [False, True])
def test_an_error_that_is_not_converged_warns(plateau):
    """Whatever `vmc_error_is_converged` says, a reader of the warnings knows it, too."""
    energy = SimpleNamespace(reason="", error=1e-3, constant=False, plateau=plateau)
    found = {"acceptance": SimpleNamespace(mean=0.5), "energy": energy}
    texts = list(analysis._warnings(rows_of(), 0, found, None, 1))
    assert sum("_error_is_converged is false" in text for text in texts) == (not plateau)

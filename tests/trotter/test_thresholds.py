"""Both sides of every limit of the checks of trotter: a finding just beyond it, none just before."""

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.errors import NumericsError
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage
from qsim.trotter.evolve import run
from tests.changes import change
from tests.trotter.test_bad_input import BASE


def severities(trotter, text, **changes):
    """Return how severe the findings of the plan with this text are."""
    path = trotter.write(**change(BASE, changes))
    plan = stage("trotter", "build").plan(load_deck(path, stage("trotter", "deck").DECK))
    return [finding.severity for finding in plan.findings if text in finding.message]


@pytest.mark.parametrize(("product", "expected"), [(0.98, []), (1.02, ["warning"])])
def test_a_step_times_the_field_of_neighbours(trotter, product, expected):
    """A spin of a ring with J and a field h feels at most ``2 J / 2 + h`` along z."""
    terms = [
        {"type": "heisenberg", "lattice": "ring", "J": 1.5},
        {"type": "field", "axis": "z", "values": -0.5},
    ]
    found = severities(trotter, "is long for couplings", system__terms=terms, evolve__dt=product / 2.0)
    assert found == expected


@pytest.mark.parametrize(("steps", "expected"), [(0.99e12, []), (1.01e12, ["error"])])
def test_steps_that_never_end(trotter, steps, expected):
    found = severities(trotter, "steps would run for years", evolve__t_final=1e4, evolve__dt=1e4 / steps)
    assert found == expected


@pytest.mark.parametrize(("spins", "expected"), [(26, []), (27, ["error"])])
def test_the_largest_state_of_a_results_file(trotter, spins, expected):
    found = severities(
        trotter,
        "too many for a results file",
        system__spins=spins,
        initial={"type": "neel"},
        system__terms=[{"type": "ising", "lattice": "chain"}],
        observe=[{"state": True}],
    )
    assert found == expected


@pytest.mark.parametrize(("initial", "expected"), [("neel", []), ("haar", ["warning"]), ("a1", ["warning"])])
def test_an_imbalance_of_random_states(trotter, initial, expected):
    block = {"type": "a1", "up": [0]} if initial == "a1" else {"type": initial}
    found = severities(trotter, "which random states lack", initial=block, observe=[{"imbalance": True}])
    assert found == expected


@pytest.mark.parametrize(("axis", "expected"), [("-z", []), ("x", ["error"]), ("-y", ["error"])])
def test_an_imbalance_of_states_across_z(trotter, axis, expected):
    initial = {"type": "polarised", "axis": axis}
    found = severities(
        trotter, "no pattern <Sz> to compare with", initial=initial, observe=[{"imbalance": True}]
    )
    assert found == expected


@pytest.mark.parametrize(("size", "refused"), [(1.1e-12, False), (0.9e-12, True)])
def test_the_smallest_pattern_of_an_imbalance(trotter, size, refused):
    """Spins across z with a small component along it: <Sz> = cos(theta) / 2."""
    deck = change(
        BASE,
        {
            "initial": {"type": "product", "theta": [float(np.pi / 2 - 2 * size)] * 6, "phi": [0.0] * 6},
            "observe": [{"imbalance": True}],
            "evolve__outputs": {"list": [0.0]},
            "evolve__t_final": 0.0,
        },
    )
    if refused:
        with pytest.raises(NumericsError, match="imbalance: the largest"):
            trotter.run(**deck)
    else:
        assert trotter.run(**deck).mean["imbalance"][0] == pytest.approx(1.0)


@pytest.mark.parametrize(("error", "expected"), [(0.097, 0), (0.103, 1)])
def test_a_given_step_with_a_large_error(trotter, monkeypatch, error, expected):
    """The estimate itself is tested elsewhere."""
    monkeypatch.setattr(run, "estimate", lambda *_, **__: error)
    monitor = Monitor.silent()
    trotter.run(monitor=monitor, **BASE)
    assert sum("the error of the state is estimated at" in text for text in monitor.warnings) == expected

"""A judgement that fails costs no more than itself: the results are written without it."""

import numpy as np
import pytest

from qsim.core.results.results import open_results
from qsim.trotter.dynamics import run as dynamics
from qsim.trotter.dynamics.result import DynamicsResult
from qsim.trotter.evolution.error_pilot import Panel
from qsim.trotter.evolve import run
from qsim.trotter.evolve.trajectories.averages import Averages
from qsim.trotter.floquet import run as floquet
from qsim.trotter.levels import run as levels
from qsim.trotter.thermal import run as thermal

CHAIN = {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.6}
FIELD = {"type": "field", "axis": "z", "values": [0.3, -0.2, 0.5, 0.1, -0.45]}
SYSTEM = {"system": {"spins": 5, "terms": [CHAIN, FIELD]}, "run": {"seed": 1}}
EVOLVE = {
    **SYSTEM,
    "initial": {"type": "neel"},
    "evolve": {"t_final": 1.0, "outputs": 3, "integrator": "ts4", "dt": 0.1},
    "observe": [{"sz": "all"}],
}
THERMAL = {
    **SYSTEM,
    "task": "thermal",
    "thermal": {"temperatures": [0.3, 2.0], "exact": 0, "vectors": 4},
    "observe": [{"correlator": "zz", "pairs": [[0, 1]]}],
}
DYNAMICS = {"task": "dynamics", "sector": {"up": 3}, "dynamics": {"operator": "sz", "q": [0.5], "steps": 5}}
CYCLE = {"cycle": [{"terms": [0, 1], "time": 0.4}], "cycles": 2, "quasienergies": True}

# deck; object and name of what fails; scalars and arrays that are missing then
JUDGEMENTS = {
    "error of a given step": (EVOLVE, run, "estimate", {"error_estimate"}),
    "error of a given step in a sector": (
        EVOLVE | {"sector": {"up": 3}},
        Panel,
        "total",
        {"error_estimate"},
    ),
    "verification": (
        EVOLVE | {"evolve": EVOLVE["evolve"] | {"verify": True}},
        run,
        "verify",
        {"verification_error"},
    ),
    "ensemble": (
        EVOLVE | {"initial": {"type": "haar"}, "ensemble": {"states": 2}},
        Averages,
        "errors",
        {"sz_error", "total_sz_error", "energy_error", "norm_error"},
    ),
    "temperatures": (
        THERMAL,
        thermal,
        "judge",
        {
            *(f"{name}_error" for name in ("energy_T", "specific_heat", "susceptibility", "entropy_T")),
            "correlator_zz_T_error",
            "change_max",
        },
    ),
    "spectral function": (SYSTEM | DYNAMICS, dynamics.Computation, "_truncation", {"change_max", "change"}),
    "kernel polynomials": (
        SYSTEM | DYNAMICS | {"dynamics": DYNAMICS["dynamics"] | {"method": "kpm"}},
        DynamicsResult,
        "captured",
        {"captured"},
    ),
    "cycles": (
        SYSTEM | {"task": "floquet", "initial": {"type": "neel"}, "floquet": CYCLE},
        floquet,
        "gap_ratios",
        {"gap_ratio"},
    ),
    "levels": (
        SYSTEM | {"task": "levels", "levels": {"window": "all"}},
        levels,
        "gap_ratios",
        {"gap_ratio", "gap_ratios"},
    ),
    "symmetries": (SYSTEM | {"task": "levels", "levels": {"window": "all"}}, levels, "left_over", set()),
}


def contents(trotter, deck):
    """Return scalars and arrays of a run, and its warnings."""
    summary = trotter.execute(options={"force": True}, **deck)
    with open_results(trotter.folder / "deck.h5") as results:
        found = {name: np.array(results[name]) for name in results.names}
    found |= {
        name: entry["value"] for name, entry in summary["scalars"].items() if entry["value"] is not None
    }
    return found, summary["warnings"]


@pytest.mark.parametrize("name", JUDGEMENTS)
def test_results_are_complete_without_a_judgement(trotter, monkeypatch, name):
    deck, where, what, missing = JUDGEMENTS[name]
    whole, before = contents(trotter, deck)

    def broken(*_args, **_more):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(
        where, what, property(broken) if isinstance(getattr(where, what), property) else broken
    )
    found, warnings = contents(trotter, deck)
    assert any("planted" in text for text in warnings)
    assert not any("planted" in text for text in before)
    assert set(whole) - set(found) == missing
    for key in found:
        np.testing.assert_array_equal(found[key], whole[key], err_msg=key)

"""A stop while the controls that were found are analysed or verified keeps the search; the run continues to the bit."""

from __future__ import annotations

import numpy as np
import pytest

import qsim
from qsim.core.errors import Stopped
from qsim.core.run.progress import Monitor

QUBIT = {
    "method": "qoc",
    "system": {
        "type": "model",
        "parts": [{"name": "q", "type": "qubit"}],
        "controls": {"x": "q.sx"},
        "initial": "0",
        "target": "1",
    },
    "time": {"T": 1.0, "slots": 10},
    "control": [{"name": "x", "guess": {"type": "expression", "value": "0.4 + 0.3*t"}, "bounds": [-3, 3]}],
    "objective": {"threshold": 1.0, "alpha": 0.05},
    "optimizer": {"type": "lbfgs", "max_sweeps": 30},
    "run": {"seed": 3},
}
CASES = {
    "converged": {},
    "limit": {"optimizer": {"type": "lbfgs", "max_sweeps": 4}},
    "threshold": {"objective": {"threshold": 0.9}},
    "krotov": {"optimizer": {"type": "krotov", "max_sweeps": 12}},
    "handed over": {
        "optimizer": {"type": "lbfgs", "finish": "gauss_newton", "finish_at": 0.9},
        "objective": {"threshold": 0.999},
    },
    "starts": {
        "optimizer": {"type": "lbfgs", "max_sweeps": 6, "restarts": 2},
        "control": [{"name": "x", "guess": {"type": "random", "amplitude": 0.5}, "bounds": [-3, 3]}],
    },
    "members": {"ensemble": {"members": [{"scale": {"control": [0.95, 1.05]}}]}},
    "given": {"optimizer": "none"},
    "front": {"front": {"over": "time.T", "values": [0.5, 0.7, 1.0]}},
}
MORSE = {
    "method": "qoc",
    "system": {
        "mass": 1728.468338,
        "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
        "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
        "grid": {"xmin": 1.0, "xmax": 5.0, "points": 200},
        "initial": 0,
        "target": 1,
    },
    "time": {"T": 4000, "steps": 800},
    "propagator": {"type": "eigenbasis", "states": 8},
    "control": {"guess": {"type": "ladder", "area": 0.5}, "shape": {"type": "sin2_edges", "rise": 0.05}},
    "optimizer": {"type": "lbfgs", "max_sweeps": 5},
    "verify": {"propagator": "eigenbasis", "steps": 1600},
    "run": {"seed": 3},
}


@pytest.mark.parametrize("case", [*CASES, "molecule"])
def test_a_stop_after_the_search_keeps_it(tmp_path, monkeypatch, case):
    deck = MORSE if case == "molecule" else QUBIT | CASES[case]
    with qsim.run(deck, output=tmp_path / "whole", figures="none") as whole:
        expected = {name: whole[name] for name in whole if not name.endswith("seconds")}
        scalars = {name: (s.value, s.error) for name, s in whole.scalars.items()}
    settle, reason = Monitor.settle, Monitor._stop_reason
    with monkeypatch.context() as patch:

        def stop_here(self, state):
            settle(self, state)
            patch.setattr(Monitor, "_stop_reason", lambda *_, **__: "stopped by the test")
            self.listen()

        patch.setattr(Monitor, "settle", stop_here)
        with pytest.raises(Stopped):
            qsim.run(deck, output=tmp_path / "part", figures="none")
    assert Monitor._stop_reason is reason
    with qsim.run(deck, output=tmp_path / "part", figures="none", resume=True) as part:
        for name, values in expected.items():
            assert np.array_equal(
                part[name], values, equal_nan=np.issubdtype(np.asarray(values).dtype, np.number)
            ), name
        for name, pair in scalars.items():
            found = part.scalars[name]
            assert name.startswith(("time", "wall")) or repr((found.value, found.error)) == repr(pair), name

"""Runs of trajectories: resumed to the bit, ended by an error, the same whatever the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from tests.trotter.open.test_trajectories import COLLECTIVE, DEPHASING, XXZ, XYZ, E, deck


def blocks(*args: Any, **more: Any) -> dict[str, Any]:
    return {key: value for key, value in deck(*args, **more).items() if key != "method"}


class StopAfter(Monitor):
    """Stops with a checkpoint at the n-th call at which the state can be saved."""

    def __init__(self, calls: int, **options: Any) -> None:
        super().__init__(quiet=True, **options)
        self.left = calls

    def _stop_reason(self, now: float, *, savable: bool = True) -> str:
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


# rates that depend on time: trajectories one after the other
DRIVEN = [{**E[0], "profile": {"type": "cosine", "omega": 1.7, "amplitude": 0.6, "offset": 1.0}}]


@pytest.mark.parametrize("calls", [2, 9, 14])
@pytest.mark.parametrize(
    ("terms", "entries", "more"),
    [([XYZ], DRIVEN, {}), ([XXZ], [COLLECTIVE], {"sector": {"up": 2}}), ([XXZ], [DEPHASING], {})],
)
def test_resumed_to_the_bit(
    trotter: Any, calls: int, terms: list[Any], entries: list[Any], more: dict[str, Any]
) -> None:
    made = {**blocks(terms, entries, **more), "observe": ["sz"]}
    whole = trotter.run(**made)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **made)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **made)
    for name, values in whole.mean.items():
        np.testing.assert_array_equal(resumed.mean[name], values)
    assert [one.tolist() for one in resumed.jumps] == [one.tolist() for one in whole.jumps]


@pytest.mark.parametrize(
    ("terms", "entries", "more"),
    [
        ([XYZ], E, {}),
        ([XXZ], [COLLECTIVE], {"sector": {"up": 2}}),
        ([XXZ], [{"type": "dephasing", "rate": 0.6}], {}),
    ],
)
def test_means_and_target(trotter: Any, terms: list[Any], entries: list[Any], more: dict[str, Any]) -> None:
    made = {
        **blocks(terms, entries, **more),
        "observe": ["sz"],
        "evolve": {"t_final": 1.0, "outputs": 3, "accuracy": 1e-5},
        "open": {"method": "trajectories", "target_error": 0.06, "at_most": 1000},
    }
    found = trotter.run(**made)
    count = len(found.jumps)
    assert 128 <= count < 1000
    assert count % 64 == 0
    assert float(found.error["sz"].max()) <= 0.06
    exact = trotter.run(**{**made, "open": {"method": "density_matrix"}})
    # five standard errors of nine numbers: one in 10^5 runs
    assert np.all(np.abs(found.mean["sz"] - exact.mean["sz"]) <= 5 * found.error["sz"])
    again = trotter.run(**made)
    np.testing.assert_array_equal(again.mean["sz"], found.mean["sz"])


def test_auto_takes_what_is_cheaper(trotter: Any) -> None:
    made = blocks([XYZ], E)
    del made["open"]
    assert not trotter.build(**made).jumping
    assert trotter.build(**made, open={"trajectories": 4}).jumping
    trotter.refuses("no way back", **made, observe=[{"echo": {}}])
    trotter.refuses("a number of at least 0", **{**made, "dissipation": [{"type": "loss", "rate": -1.0}]})
    trotter.refuses(
        "eigenvalue",
        **{**made, "dissipation": [{"type": "correlated", "matrix": [[1, 2, 0], [2, 1, 0], [0, 0, 1]]}]},
    )

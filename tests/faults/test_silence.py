"""Runs look for a stop often enough, and end soon after they are asked."""

import pytest

from tests.faults.inject import DECKS
from tests.faults.silence import measure

# Seconds, on a busy machine: batch systems leave a run 30 between SIGTERM and SIGKILL.
LONGEST = 20.0


@pytest.mark.parametrize("method", ["qoc", "trotter", "tridiag", "sturmian", "qmc"])
def test_a_run_ends_soon_after_it_is_asked(method):
    found = measure(DECKS / f"{method}.yaml", after=0.5)
    assert found.code in (0, 75), found
    assert found.looks is not None
    assert found.looks < LONGEST, found
    assert found.term is None or found.term < LONGEST, found

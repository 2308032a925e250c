"""Real runs of changed decks and data files; `--exhaustive` makes hundreds."""

import json

import numpy as np
import pytest

from tests.faults import mutate
from tests.faults.mutate import METHODS, Ended, Worker


@pytest.fixture(scope="module")
def worker():
    return Worker()


@pytest.mark.exhaustive
@pytest.mark.parametrize("index", range(40))
@pytest.mark.parametrize("method", METHODS)
def test_a_changed_deck_ends_as_promised(worker, method, index):
    assert mutate.case(worker, method, 8, index)[1] == ""


def test_the_verdict_sees_what_is_wrong(tmp_path):
    """A harness that finds nothing must be able to find something."""
    for code, said, found in [
        (1, "qsim: error: internal error: ValueError", "exit code 1"),
        (0, "Traceback (most recent call last)", "traceback"),
        (75, "stopped", "without a checkpoint"),
        (5, "the error of x could not be found: nan", "a judgement has ended a run"),
        (3, "deck.yaml:1:1: unknown key", ""),
    ]:
        text = mutate.verdict(Ended(code, said), tmp_path)
        assert found in text
        assert bool(found) is bool(text)
    (tmp_path / "deck.h5.me-1.part").write_text("")
    assert "left over" in mutate.verdict(Ended(6, ""), tmp_path)


def test_changes_reach_every_part_of_a_deck():
    """Values, lists and blocks are replaced, removed and added; the same seed gives the same changes."""
    deck = {"method": "qoc", "a": {"b": [1, 2.5, {"c": "x"}]}, "d": True, "run": {"seed": 1}}
    made = []
    for seed in range(300):
        for _ in range(2):
            other = json.loads(json.dumps(deck))
            mutate.mutate(other, np.random.default_rng(seed))
            made.append(repr(other))
        assert made[-1] == made[-2]
        assert other["method"] == "qoc"
        assert other["run"] == {"seed": 1}
    assert len(set(made)) > 100


def test_a_table_can_cover_the_box_and_nothing_else():
    rows = mutate.on_the_box(["# x, V", "-3, 9", "-1, 1", "0, 0", "2, 4"], (-1.5, 2.0))
    x, values = np.array([[float(word) for word in row.split(",")] for row in rows]).T
    assert (x[0], x[-1], len(x)) == (-1.5, 2.0, 4)
    np.testing.assert_allclose(values, np.interp(x, [-3, -1, 0, 2], [9, 1, 0, 4]))

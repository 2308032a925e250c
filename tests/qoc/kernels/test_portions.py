"""Kernels in several calls: the same bits, and a stop that is heard between them."""

import numpy as np
import pytest

from qsim.core.device.device import cpu
from qsim.qoc.deck.systems.model import ModelSystem
from qsim.qoc.kernels import portions
from qsim.qoc.models.builders import model
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.batch import SlotMembers
from qsim.qoc.propagators.slots import Motion, Slots


def system(levels, bath):
    part = {"name": "o", "type": "ladder", "levels": levels, "frequency": 1.0, "anharmonicity": -0.2}
    if bath:
        part |= {"T1": 5.0, "temperature": 0.7}
    block = {"parts": [part], "controls": {"f": "o.x", "z": "o.n"}, "initial": "0", "target": "1"}
    return model(ModelSystem.model_validate({"type": "model", **block}))


@pytest.mark.parametrize(("levels", "bath"), [(4, False), (3, True), (9, True)])
@pytest.mark.parametrize("most", [1.0, 3e4])
def test_several_calls_give_the_bits_of_one(monkeypatch, levels, bath, most):
    fields = np.random.default_rng(4).normal(size=(2, 7)) * 6.0
    made = SlotObjective(system(levels, bath), Motion(6.0, 7, lindblad=bath))
    whole = made.evaluate(fields)
    looked = []
    monkeypatch.setattr(portions, "MOST", most)
    with portions.watched(lambda: looked.append(1)):
        some = made.evaluate(fields)
    assert len(looked) > 3
    assert some.probability == whole.probability
    # parts of one slot add up their gradients in another order
    assert np.allclose(some.gradient, whole.gradient, rtol=0.0, atol=1e-13)
    if most > 1.0 and levels < 9:
        assert np.array_equal(some.gradient, whole.gradient)


@pytest.mark.parametrize("threads", [1, 4])
def test_members_in_several_calls_give_the_bits_of_one(monkeypatch, threads):
    """Each thread has members of its own in every call, also where a member takes several calls."""
    systems = [Slots(system(4, bath=False), Motion(3.0, 5))]
    made = SlotMembers(cpu(threads), systems, np.zeros(6, int), np.linspace(0.5, 1.5, 12).reshape(6, 2))
    fields = np.random.default_rng(4).normal(size=(2, 5))
    starts = made.placed(np.tile(np.eye(4, 2, dtype=complex), (6, 1, 1)))

    def found():
        final, run = made.forward(fields, starts, slice(0, 6), keep=True)
        return final, made.gradient(fields, run, final)

    whole = found()
    monkeypatch.setattr("qsim.qoc.kernels.slots.MOST", 3e4)
    groups = found()
    monkeypatch.setattr(portions, "MOST", 1e3)
    single = found()
    for other in (groups, single):
        assert np.array_equal(other[0], whole[0])
    assert np.array_equal(groups[1], whole[1])
    assert np.allclose(single[1], whole[1], rtol=0.0, atol=1e-13)


def test_a_stop_is_heard_within_a_propagation(monkeypatch):
    class Enough(Exception):
        pass

    def stop():
        raise Enough

    made = SlotObjective(system(3, bath=True), Motion(1.0, 4, lindblad=True))
    with portions.watched(stop), pytest.raises(Enough):
        made.evaluate(np.zeros((2, 4)))


@pytest.mark.parametrize(("slots", "parts", "work"), [(7, 3, 1.0), (5, 4, 6e7), (3, 5, 1.3e8), (1, 1, 1e12)])
def test_portions_cover_every_part_once_and_in_order(slots, parts, work):
    rows = [portions.part_rows(*piece, parts) for piece in portions.portions(slots, parts, work)]
    assert [n for row in rows for n in range(row.start, row.stop)] == list(range(slots * parts))
    assert all((row.stop - row.start) * work <= portions.MOST or row.stop - row.start == 1 for row in rows)

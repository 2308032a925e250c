"""Goals that are a formula of mean values and overlaps, against dense algebra and differences."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from qsim.core.errors import InvalidInput
from qsim.qoc.models.quantum import FunctionalTarget
from qsim.qoc.objectives.costs import cost_of
from qsim.qoc.objectives.slots import SlotObjective
from qsim.qoc.propagators.slots import Motion
from tests.qoc.quantum.oracle import DURATION, hermitian, isometry, random_model


def functional(columns):
    """Return a random system with a formula as its goal, and its controls."""
    made, fields = random_model(5, "observable", 0.3, (4, 5))
    rng = np.random.default_rng(2)
    operators = {name: csr_array(hermitian(rng, 4)) for name in "ab"}
    overlaps = {"f": isometry(rng, 4, 1)[:, 0]} if columns == 1 else {}
    text = "a*b - 0.5*a^2 + sin(b)" + (" + f_re*a - exp(f_im)" if overlaps else "")
    goal = FunctionalTarget(text, operators, overlaps)
    states = isometry(rng, 4, columns)
    weights = np.arange(1.0, columns + 1.0) / np.arange(1.0, columns + 1.0).sum()
    return replace(made, states=states, weights=weights, goal=goal), fields


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("lindblad", [False, True])
def test_value_and_gradient(columns, lindblad):
    made, fields = functional(columns)
    if lindblad and columns == 1:
        with pytest.raises(InvalidInput, match="phase of an overlap is lost"):
            cost_of(made, lindblad)
        return
    objective = SlotObjective(made, Motion(DURATION, fields.shape[1], lindblad))
    final = objective.propagator.final(fields, objective.start)
    rho = objective.density(final)
    a, b = (float(np.trace(o.toarray() @ rho).real) for o in made.goal.operators.values())
    wanted = a * b - 0.5 * a**2 + np.sin(b)
    if columns == 1:
        overlap = np.vdot(made.goal.overlaps["f"], final[:, 0])
        wanted += overlap.real * a - np.exp(overlap.imag)
    found = objective.evaluate(fields)
    assert found.probability == pytest.approx(wanted, abs=1e-12)
    h = 1e-5
    for c, n in ((0, 0), (len(fields) - 1, 2)):
        ends = []
        for sign in (1.0, -1.0):
            moved = fields.copy()
            moved[c, n] += sign * h
            ends.append(objective.values(moved)[0][0])
        assert found.gradient[c, n] == pytest.approx((ends[0] - ends[1]) / (2 * h), abs=1e-8)


def blocks(target, **changes):
    """Return a deck of one qubit with relaxation."""
    return {
        "system": {
            "type": "model",
            "parts": [{"name": "a", "type": "qubit", "frequency": 1.0, "T1": 50.0}],
            "controls": {"u": "a.sx"},
            "initial": "0",
            "target": target,
        },
        "time": {"T": 6.0, "slots": 30},
        "control": [{"name": "u", "guess": {"type": "expression", "value": "0.2*cos(t)"}}],
        **changes,
    }


def test_a_state_on_the_equator_whatever_its_phase(qoc):
    """x^2 + y^2 is at most 1, and at most e^{-T/T1} of that of a state that relaxes all the time is lost."""
    target = {"formula": "x^2 + y^2", "values": {"x": "a.sx", "y": {"observable": "a.sy"}}}
    for dissipation, least in (("none", 1.0 - 1e-7), ("auto", np.exp(-6.0 / 50.0))):
        result = qoc.run(**blocks(target, dissipation=dissipation))
        assert result.kind == "functional"
        assert least < result.value < 1.0 + 1e-12
        assert result.error < 1e-9
        rho = result.outcome.density
        assert 4.0 * abs(rho[0, 1]) ** 2 == pytest.approx(result.value, abs=1e-12)


@pytest.mark.parametrize("optimizer", ["lbfgs", "krotov", "travolta"])
def test_an_overlap_has_a_phase(qoc, optimizer):
    """Of the overlap with |1> the imaginary part alone counts: the state is i |1> at the end."""
    target = {"formula": "c_im - 0.1*p", "values": {"c": {"overlap": "1"}, "p": "a.p0"}}
    result = qoc.run(**blocks(target, dissipation="none", optimizer={"type": optimizer, "max_sweeps": 300}))
    assert result.value > 0.99
    assert result.outcome.final[1, 0].imag == pytest.approx(1.0, abs=0.02)


def test_an_ensemble_and_its_worst_member(qoc):
    target = {"formula": "x^2 + y^2", "values": {"x": "a.sx", "y": "a.sy"}}
    members = {"members": [{"scale": {"control.u": [0.95, 1.0, 1.05]}}], "measure": "worst"}
    result = qoc.run(**blocks(target, dissipation="none", ensemble=members))
    assert result.ensemble.value > 0.98


def test_mistakes_are_told(qoc):
    good = {"x": "a.sx"}
    for target, told in (
        ({"formula": "x^2 + z", "values": good}, "z"),
        ({"formula": "x^2", "values": good | {"y": "a.sy"}}, "y does not occur in the formula"),
        ({"formula": "x^2", "values": {"x": "a.sp"}}, "Hermitian"),
        ({"formula": "x^2", "values": {"x": {"state": "0"}}}, "observable: ...} or {overlap"),
        ({"formula": "x_re", "values": {"x": {"overlap": "7"}}}, "7"),
    ):
        qoc.refuses(told, **blocks(target))
    qoc.refuses(
        "Gauss-Newton",
        **blocks({"formula": "x^2", "values": good}, optimizer="gauss_newton", dissipation="none"),
    )
    overlap = {"formula": "x_re", "values": {"x": {"overlap": "1"}}}
    qoc.refuses("phase of an overlap is lost", **blocks(overlap, dissipation="lindblad"))


def test_mistakes_of_a_control_that_is_one_block_have_the_key_as_it_is_written(qoc):
    made = blocks("1")
    (control,) = made.pop("control")
    for change, told in (
        ({"bonds": [-1, 1]}, r"control\.bonds: unknown key"),
        ({"bounds": [1, -1]}, r"control\.bounds"),
        ({"guess": {"type": "expression", "value": "cos(x)"}}, r"control\.guess\.value: .*unknown name 'x'"),
    ):
        qoc.refuses(told, **made, control=control | change)
    qoc.refuses(r"control\.0\.bounds", **made, control=[control | {"bounds": [1, -1]}])

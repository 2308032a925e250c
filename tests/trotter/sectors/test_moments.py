"""Moments in a sector: what was not measured is not a number, and every observable of the deck agrees with the whole space."""

from typing import get_args

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.core.device.device import cpu
from qsim.core.run.stages import Method
from qsim.trotter.deck.initial import Initial
from qsim.trotter.initial.registry import STATES
from qsim.trotter.measurement import expectations
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.observables.registry import OBSERVABLES
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator

N = 5
SYSTEM = {
    "spins": N,
    "terms": [
        {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.3},
        {"type": "field", "axis": "z", "values": "0.2*j"},
    ],
}
EVOLVED = [kind for kind in OBSERVABLES.values() if "evolve" in kind.tasks]


def test_pairs_that_are_not_measured_are_no_zeros():
    sector = Sector(6, 3)
    operator = SectorOperator(cpu(1), sector, Model.zero(6))
    psi = np.random.default_rng(3).normal(size=sector.dimension)
    for pairs in ((), [(1, 4)]):
        moments = sector_moments(operator, psi, pairs)
        known = np.eye(6, dtype=bool)
        for j, k in pairs:
            known[j, k] = known[k, j] = True
        for axis in "xy":
            np.testing.assert_array_equal(np.isfinite(moments.ss[axis]), known)
            assert np.isnan(expectations.correlators(moments, axis)).sum() == 15 - len(pairs)


def test_few_observables_escape_the_comparison():
    """Those without an example: one starts from a state of no single Sz, the other needs a file."""
    assert [kind.key for kind in EVOLVED if kind.example is None] == ["autocorrelation", "fidelity"]


@pytest.mark.parametrize("kind", [kind for kind in EVOLVED if kind.example is not None], ids=lambda k: k.key)
def test_every_observable_is_the_same_in_the_sector(trotter, kind):
    """The classes say by `example` how they appear in a deck: one that is added is compared without a change here."""
    item = {kind.key: kind.example}
    found = []
    for sector in ({"up": 3}, "full"):
        result = trotter.run(
            system=SYSTEM,
            initial={"type": "basis", "up": [0, 2, 4]},
            sector=sector,
            evolve={"t_final": 1.5, "outputs": 3, "accuracy": 1e-9, "integrator": "chebyshev"},
            observe=[item],
        )
        assert (result.problem.sector is None) == (sector == "full")
        found.append(Method("trotter").arrays(result))
    assert found[0].keys() == found[1].keys()
    for key, values in found[1].items():
        if key == "state":
            overlap = abs(np.vdot(found[0][key], values))
            assert overlap == pytest.approx(1.0, abs=1e-8)
        elif values.dtype.kind == "f":
            np.testing.assert_allclose(found[0][key], values, rtol=0, atol=1e-7, err_msg=key)


def keys_of(kind):
    return {"type": get_args(kind.model_fields["type"].annotation)[0], **kind.example}


@pytest.mark.parametrize(
    "kind", [kind for kind in STATES if kind.example is not None], ids=lambda kind: kind.__name__
)
def test_every_state_of_one_sz_is_the_same_in_its_sector(trotter, kind):
    """Here, too, the classes say how they appear in a deck."""
    spins = 6
    state = TypeAdapter(Initial).validate_python(keys_of(kind))
    if state.down(spins) is None:
        return
    found = [
        trotter.run(
            system=SYSTEM | {"spins": spins},
            initial=keys_of(kind),
            sector=sector,
            evolve={"t_final": 1.5, "outputs": 3, "accuracy": 1e-9, "integrator": "chebyshev"},
            observe=["sz"],
        )
        for sector in ("auto", "full")
    ]
    assert [result.problem.sector is None for result in found] == [False, True]
    for name in ("sz", "energy"):
        np.testing.assert_allclose(found[0].mean[name], found[1].mean[name], rtol=0, atol=1e-7)

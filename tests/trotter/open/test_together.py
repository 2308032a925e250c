"""Trajectories that a GPU carries all at once: the same jumps and states as those that the CPU carries one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import Device, cpu
from qsim.core.errors import Stopped
from qsim.core.run import checkpoint
from qsim.core.run.loop import drive
from qsim.core.run.progress import Monitor
from qsim.trotter.build import build
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.evolve.open import together
from qsim.trotter.evolve.open.carrier import Carrier, randoms
from qsim.trotter.evolve.open.drifts import LayerDrift
from qsim.trotter.evolve.open.members import Members, drift_of
from qsim.trotter.evolve.open.onboard import OnboardDrift, suits
from qsim.trotter.evolve.open.together import Together
from qsim.trotter.evolve.run import integration
from qsim.trotter.evolve.trajectories import trajectories
from qsim.trotter.kernels.open.carry import energies
from qsim.trotter.kernels.open.jumps import axis_energies
from tests.trotter.open.test_runs import StopAfter, blocks
from tests.trotter.open.test_trajectories import (
    COLLECTIVE,
    DEPHASING,
    FIELDS,
    GAMMA,
    VECTOR,
    XXZ,
    XYZ,
    E,
    deck,
)

FULL = {"sector": "full"}
EVOLVE = {"t_final": 3.0, "outputs": 4, "integrator": "bm4", "dt": 0.1}
CASES = [
    ([XYZ, *FIELDS], E, {}),
    ([XYZ, *FIELDS], [VECTOR, {"type": "thermal", "rate": 0.3, "occupation": 0.5}], {}),
    ([XXZ], [COLLECTIVE, DEPHASING], FULL),
    ([XYZ], [GAMMA], {}),
    # many jumps, more than one launch takes records of
    ([XYZ], [{"type": "thermal", "rate": [30.0, 20.0, 10.0], "occupation": 0.7}], {}),
]


def carried(device: Device, kind: Any, made: dict[str, Any]) -> tuple[list[Any], Any]:
    """Return the rows of all trajectories, and the states at the end of those that are carried together."""
    problem = build(load_deck(made, TrotterDeck), device)
    assert problem.drift == "layers"
    how = integration(problem, Monitor.silent())
    trajectories = kind(problem, range(problem.members), how)
    drive(trajectories, Monitor.silent(), total=None, unit="steps", what="evolve")
    return trajectories.results(), trajectories.psis if kind is Together else None


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Any:
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def compared(device: Device, made: dict[str, Any], most: float = 1e-10) -> int:
    """Compare the trajectories of a device with those of the CPU; return the number of jumps."""
    rows, states = carried(device, Together, made)
    each, others = carried(cpu(1), Together, made)
    alone, _ = carried(cpu(1), Members, made)
    jumps = 0
    for m, (one, two, three) in enumerate(zip(rows, each, alone, strict=True)):
        np.testing.assert_array_equal(one["_jumps"][:, 1], three["_jumps"][:, 1])
        np.testing.assert_allclose(one["_jumps"][:, 0], three["_jumps"][:, 0], atol=most)
        for name, values in three.items():
            np.testing.assert_allclose(one[name], values, atol=most, err_msg=name)
            np.testing.assert_allclose(two[name], values, atol=most, err_msg=name)
        jumps += len(one["_jumps"])
        psi, phi = device.to_host(states[m]), others[m]
        psi, phi = psi / np.linalg.norm(psi), phi / np.linalg.norm(phi)
        np.testing.assert_allclose(psi, phi, atol=most)
    return jumps


@pytest.mark.parametrize(("terms", "entries", "more"), CASES)
def test_same_jumps_and_states(
    device: Device, terms: list[Any], entries: list[Any], more: dict[str, Any]
) -> None:
    observe = {"observe": ["sz", "sx", {"entropy": {"sites": [0]}}]}
    assert compared(device, deck(terms, entries, evolve=EVOLVE, **observe, **more)) > 4


@pytest.mark.gpu
@pytest.mark.parametrize("spins", [8, 9, 10, 11, 12])
@pytest.mark.parametrize("entries", [[{"type": "loss", "rate": 0.3}], [{"type": "collective", "rate": 0.1}]])
def test_of_every_size(cuda: Device, spins: int, entries: list[Any]) -> None:
    made = {
        "method": "trotter",
        "system": {
            "spins": spins,
            "terms": [
                {"type": "ising", "lattice": "ring", "J": 1.0},
                {"type": "field", "axis": "x", "values": 0.8},
                {"type": "field", "axis": "y", "values": "0.1*j"},
            ],
        },
        "dissipation": entries,
        "open": {"method": "trajectories", "trajectories": 12},
        "initial": {"type": "product", "theta": 0.7, "phi": 0.3},
        "evolve": {"t_final": 2.0, "outputs": 3, "integrator": "bm4", "dt": 0.1},
        "observe": ["sz"],
        "run": {"seed": 3},
    }
    assert compared(cuda, made) > 10


@pytest.mark.gpu
def test_bits_do_not_depend_on_the_batch(cuda: Device) -> None:
    made = deck([XYZ, *FIELDS], E, evolve=EVOLVE, open={"method": "trajectories", "trajectories": 40})
    problem = build(load_deck(made, TrotterDeck), cuda)
    how = integration(problem, Monitor.silent())
    assert together.all_at_once(problem, how) == 40
    parts = []
    for members in (range(40), range(17), range(17, 40)):
        some = Together(problem, members, how)
        drive(some, Monitor.silent(), total=None, unit="steps", what="evolve")
        parts.append((cuda.to_host(some.psis), some.jumps))
    np.testing.assert_array_equal(parts[0][0], np.concatenate([parts[1][0], parts[2][0]]))
    for one, other in zip(parts[0][1], [*parts[1][1], *parts[2][1]], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("calls", [2, 3])
def test_resumed_to_the_bit(trotter: Any, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    made = {**blocks([XYZ, *FIELDS], E, evolve=EVOLVE), "observe": ["sz"]}
    whole = trotter.run(**made)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **made)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **made)
    for name, values in whole.mean.items():
        np.testing.assert_array_equal(resumed.mean[name], values)
    assert [one.tolist() for one in resumed.jumps] == [one.tolist() for one in whole.jumps]
    # rounds of any size, and one trajectory after the other
    monkeypatch.setattr(together, "MOST", {"cpu": 2})
    again = trotter.run(**made)
    monkeypatch.setattr(trajectories, "all_at_once", lambda problem, how: 0)
    alone = trotter.run(**made)
    for name, values in whole.mean.items():
        np.testing.assert_array_equal(again.mean[name], values)
        np.testing.assert_allclose(alone.mean[name], values, atol=1e-10)


def test_a_jump_of_the_same_numbers_in_larger_spaces(device: Device) -> None:
    # spins without couplings beside those of the deck change nothing
    made = deck([XYZ, *FIELDS], E, evolve=EVOLVE)
    problem = build(load_deck(made, TrotterDeck), device)
    how = integration(problem, Monitor.silent())
    some = Together(problem, range(2), how)
    drive(some, Monitor.silent(), total=None, unit="steps", what="evolve")
    rest = device.to_host(some._psi)[:, 8:]
    assert not rest.size or np.abs(rest).max() < 1e-13
    drift = drift_of(problem, 0, how)
    drift.begin(problem.initial(0))
    carrier = Carrier(drift, problem.models.seed, 0)
    for k in range(3):
        carrier.advance(problem.times[k], problem.times[k + 1], problem.steps(k, how.dt)[1])
    np.testing.assert_allclose(some.jumps[0], carrier.jumps, atol=1e-10)
    assert randoms(11, 0, 0) != randoms(11, 1, 0)


def test_tables_of_the_kernel() -> None:
    # energies of all strings from the tables that a block reads, as `apply_layer` adds them
    spins, bits = 5, 9
    generator = np.random.default_rng(5)
    pairs = generator.normal(size=(3, spins, spins))
    pairs = pairs + pairs.transpose(0, 2, 1)
    pairs[:, range(spins), range(spins)] = 0.0
    fields = generator.normal(size=(3, spins))
    long, tables = energies(pairs, fields, bits)
    threads = 1 << (bits - 4)
    expected = np.empty(1 << spins)
    for a in range(3):
        axis_energies(pairs[a], fields[a], expected)
        for i in range(1 << spins):
            t, j = i >> 4, i & 15
            s = [0.5 - (i >> b & 1) for b in range(bits)]
            total = tables[a, t] + tables[a, 5 * threads + j] + float(np.dot(s[4:], long[a, 4:]))
            for r in range(4):
                total += s[r] * (long[a, r] + tables[a, (1 + r) * threads + t])
            assert total == pytest.approx(expected[i], abs=1e-13)


@pytest.mark.parametrize("spins", [6, pytest.param(14, marks=pytest.mark.gpu)])
def test_states_on_the_device(device: Device, spins: int) -> None:
    made = {
        "method": "trotter",
        "system": {
            "spins": spins,
            "terms": [
                {"type": "xyz", "lattice": "ring", "Jx": 0.7, "Jy": -0.4, "Jz": 1.1},
                {"type": "field", "axis": "x", "values": 0.8},
            ],
        },
        "dissipation": [
            {"type": "thermal", "rate": 0.2, "occupation": 0.3},
            {"type": "dephasing", "rate": 0.1},
        ],
        "open": {"method": "trajectories", "trajectories": 3},
        "initial": {"type": "neel"},
        "evolve": {**EVOLVE, "t_final": 1.0, "outputs": 2},
    }
    problem, host = (build(load_deck(made, TrotterDeck), one) for one in (device, cpu(1)))
    how = integration(host, Monitor.silent())
    twos = problem.models.system.twos
    assert suits(problem.hamiltonian(), problem.channels, twos)
    if spins > 12 and device.is_cuda:
        assert isinstance(drift_of(problem, 0, how), OnboardDrift)
    found = 0
    for member in range(3):
        ends = []
        for one, drift in (
            (problem, OnboardDrift(problem, problem.hamiltonian(), problem.channels, how.method)),
            (host, LayerDrift(host, host.hamiltonian(), host.channels, how.method)),
        ):
            drift.begin(one.initial(member))
            carrier = Carrier(drift, one.models.seed, member)
            carrier.advance(0.0, 1.0, 0.1)
            ends.append((carrier.jumps, device.to_host(drift.psi), drift.measure("z", 1.0).s["z"]))
        assert [k for _, k in ends[0][0]] == [k for _, k in ends[1][0]]
        np.testing.assert_allclose([t for t, _ in ends[0][0]], [t for t, _ in ends[1][0]], atol=1e-10)
        np.testing.assert_allclose(ends[0][1], ends[1][1], atol=1e-10)
        np.testing.assert_allclose(ends[0][2], ends[1][2], atol=1e-10)
        found += len(ends[0][0])
    assert found > 2

"""The parts of the memory that the plan announces; ``tests/test_memory.py`` holds them against measured peaks."""

import json
from pathlib import Path

import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import Device
from qsim.core.errors import MemoryLimitError
from qsim.core.run.stages import stage

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
SECTIONS = {
    "vmc": [{"vmc": {"blocks": 3, "steps": 2, "warmup": 2, "timestep": 0.1}}],
    "dmc": [
        {"vmc": {"blocks": 2, "steps": 2, "warmup": 2, "timestep": 0.1}},
        {
            "dmc": {
                "timesteps": [0.004, 0.002],
                "blocks": 3,
                "steps": 6,
                "warmup": 0.01,
                "extrapolate": "none",
            }
        },
    ],
    "optimize": [{"optimize": {"iterations": 1, "steps": 3, "warmup": 2, "timestep": 0.1}}],
    "long optimize": [
        {"optimize": {"iterations": 1, "steps": 30, "warmup": 2, "timestep": 0.1, "sweeps": 1}}
    ],
}


def deck(kind, walkers, electrons):
    series = json.loads(json.dumps(SECTIONS[kind]))
    next(iter(series[0].values()))["walkers"] = walkers
    symbol, shells = {2: ("He", [(1, 1.7)]), 4: ("Be", [(1, 3.7), (2, 1.0)])}[electrons]
    orbitals = {
        "source": "sto",
        "shells": [{"atom": symbol, "n": n, "l": 0, "zeta": zeta} for n, zeta in shells],
    }
    splines = {"J1": {"rcut": 6.0, "size": 7}, "J2": {"rcut": 6.0, "size": 9}}
    return {
        "run": {"seed": 3},
        "system": {"atoms": [[symbol, 0, 0, 0]]},
        "wavefunction": {"orbitals": orbitals, "jastrow": splines},
        "series": series,
    }


def test_the_estimate_counts_each_section(qmc):
    """State of beryllium: 12 positions, 40 rows, 8 of inverses, 14 others; copies while branching, walkers that are kept."""
    plan = stage("qmc", "build").plan
    state = 8 * (12 + 40 + 8 + 14)
    one = plan(qmc.load(**deck("vmc", 1000, 4))).memory
    assert one.parts["walkers"] == 1000 * state
    # sums, the message of a block and its copy, errors of inverses: 27 numbers; centres and draws of the start are more here
    assert one.parts["work space"] == 1000 * 8 * max(27, 9 * 4)
    assert one.parts["walkers kept for resuming"] == 0
    chain = plan(qmc.load(**deck("dmc", 1000, 4))).memory
    assert chain.parts["walkers kept for resuming"] == 2000 * 8 * (12 + 12)
    assert chain.parts["work space"] == 1000 * (state + 48)
    mixed = deck("vmc", 1000, 4)
    mixed["run"]["precision"] = "mixed"
    assert plan(qmc.load(**mixed)).memory.parts["walkers"] == 1000 * (8 * 26 + 4 * 48)


def crystal(*overrides):
    """The memory of the primitive cell of diamond, 8 electrons and 4 real functions, with one section of 100 walkers."""
    series = "series=[{vmc: {walkers: 100, blocks: 20}}]"
    deck = load_deck(INPUTS / "diamond_primitive.yaml", stage("qmc", "deck").DECK, [series, *overrides])
    return stage("qmc", "build").plan(deck).memory


def test_the_estimate_of_a_crystal():
    """Splines of 4 functions in their own precision on the device; in double precision on the host beside them."""
    double, mixed = crystal(), crystal("run.precision=mixed")
    splines = double.parts["tables"]
    points = splines / 32
    assert round(points ** (1 / 3)) ** 3 == points
    assert mixed.parts["tables"] == splines / 2
    assert mixed.parts["tables in double precision"] == double.on_gpu_host == splines
    assert double.host == double.parts["estimators"] + double.parts["walkers kept for resuming"]
    assert double.parts["walkers"] == 100 * 8 * (24 + 160 + 32 + 14)
    assert double.on_gpu > 100 * 8 * 8 * 6  # waves of each electron at least


def test_splines_that_do_not_fit_are_refused_with_the_ways_out(monkeypatch):
    memory = crystal("wavefunction.orbitals.meshfactor=3")
    assert memory.reduce == "wavefunction.orbitals.meshfactor"
    device = Device("cuda", 0, "a GPU", 1)
    monkeypatch.setattr(Device, "free_memory", lambda self: 1_000_000)
    with pytest.raises(MemoryLimitError, match=r"needs .* on cuda:0 \(tables .*1 MB is free") as refused:
        device.require(memory)
    for way in ("lower wavefunction.orbitals.meshfactor", "precision: mixed", "tilematrix", "muffin_tins"):
        assert way in refused.value.hint
    assert "precision: mixed" not in crystal(
        "wavefunction.orbitals.meshfactor=3", "run.precision=mixed"
    ).fits(0)


def test_splines_that_the_host_cannot_hold_are_not_made(monkeypatch):
    from qsim.qmc import build

    def fail(self, real=None):
        raise AssertionError("the table was made")

    monkeypatch.setattr(build, "free_host_memory", lambda: 1000)
    monkeypatch.setattr(build.CrystalWavefunction, "orbital_tables", fail)
    assert crystal().parts["tables"] > 1000

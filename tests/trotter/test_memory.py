"""The estimated memory against the measured peak of runs in processes of their own."""

import json
import subprocess
import sys

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.run.stages import stage

pytestmark = pytest.mark.slow

CHILD = """
import json, resource, sys
from pathlib import Path
from qsim.core import pipeline
deck = Path(sys.argv[1])
pipeline.execute("trotter", deck, pipeline.Options(device="cpu", output=deck.with_suffix(".h5"), figures=False, verbosity=-1))
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""
SIGMA = [{"type": "field", "axis": "x", "values": 0.1}]
CHEBYSHEV = {"integrator": "chebyshev", "accuracy": 1e-6}
CASES = {
    "plain": {},
    "single": {"run": {"precision": "single"}},
    "moments": {"observe": ["sx", {"correlator": ["xx", "zz"], "pairs": "all"}]},
    "entropy": {"observe": [{"entropy": list(range(10))}]},
    "variance": {"observe": ["energy_variance"]},
    "overlap": {"observe": [{"echo": {"sigma": SIGMA}}]},
    "return": {"observe": [{"echo": {"sigma": SIGMA, "scheme": "return"}}]},
    "chebyshev": {"evolve": CHEBYSHEV},
    "chebyshev echo": {
        "evolve": CHEBYSHEV,
        "observe": [{"echo": {"sigma": SIGMA, "scheme": "return"}}],
    },
    "driven": {"profile": {"type": "cosine", "omega": 1.0}},
    "ensemble": {"initial": "haar", "ensemble": {"states": 2}},
    "verify": {"evolve": {"integrator": "ts2", "dt": 0.1, "verify": True}},
    "file": {"initial": {"type": "file", "file": "start.npy"}},
}


def peak_and_estimate(trotter, spins, blocks):
    field = {"type": "field", "axis": "x", "values": 0.3}
    if "profile" in blocks:
        field["profile"] = blocks["profile"]
    deck = {
        "initial": {"type": "product", "theta": 1.0},
        **{name: value for name, value in blocks.items() if name != "profile"},
        "system": {"spins": spins, "terms": [{"type": "heisenberg", "lattice": "chain"}, field]},
    }
    deck["evolve"] = {"t_final": 0.1, "outputs": 2, **blocks.get("evolve", {"integrator": "ts2", "dt": 0.1})}
    if deck["initial"] == CASES["file"]["initial"]:
        np.save(trotter.folder / "start.npy", np.full(1 << spins, 2.0 ** (-spins / 2), complex))
    path = trotter.write(f"deck{spins}", **deck)
    memory = stage("trotter", "build").plan(load_deck(path, stage("trotter", "deck").DECK)).memory
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1]), memory.host + memory.device


@pytest.mark.parametrize("name", CASES)
def test_the_memory_of_a_run_is_known_before_it(trotter, name):
    small, large = (peak_and_estimate(trotter, spins, CASES[name]) for spins in (18, 21))
    assert 0.87 < (large[0] - small[0]) / (large[1] - small[1]) < 1.15

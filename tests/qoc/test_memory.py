"""The memory estimate of qoc against the measured peak of real runs: how both grow with the number of steps."""

import json
import subprocess
import sys

import pytest
import yaml

CHILD = """
import json, resource, sys
from qsim.core.deck.load import load_deck
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import stage
path = sys.argv[1]
memory = stage("qoc", "build").plan(load_deck(path, stage("qoc", "deck").DECK)).memory
execute("qoc", path, Options(device="cpu", output=path + ".h5", figures=False, verbosity=-1))
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([memory.host + memory.device, peak]))
"""
SYSTEM = {
    "mass": 1728.468338,
    "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
    "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
    "grid": {"xmin": 1.0, "xmax": 5.0, "points": 200},
    "initial": 0,
    "target": 1,
}
GRID = {"type": "crank_nicolson", "memory": "store"}
CASES = {
    "none": ({"optimizer": {"type": "none"}}, (50_000, 200_000)),
    "lbfgs": ({"optimizer": {"type": "lbfgs", "max_sweeps": 6}}, (50_000, 200_000)),
    "krotov": ({"optimizer": {"type": "krotov", "max_sweeps": 8}}, (50_000, 200_000)),
    "gauss_newton": ({"optimizer": {"type": "gauss_newton", "max_sweeps": 6}}, (20_000, 60_000)),
    "travolta": ({"optimizer": {"type": "travolta", "max_sweeps": 6}}, (50_000, 200_000)),
    "ensemble": (
        {"optimizer": {"type": "lbfgs", "max_sweeps": 6}, "ensemble": {"field_scale": [0.9, 1.0, 1.1]}},
        (50_000, 200_000),
    ),
    "grid": ({"optimizer": {"type": "lbfgs", "max_sweeps": 4}, "propagator": GRID}, (4_000, 16_000)),
    "reverse": (
        {"optimizer": {"type": "lbfgs", "max_sweeps": 4}, "propagator": {**GRID, "memory": "reverse"}},
        (50_000, 200_000),
    ),
}


def _run(folder, steps, blocks):
    """Return the estimate and the measured peak of one run in a process of its own, bytes."""
    path = folder / f"deck{steps}.yaml"
    deck = {
        "method": "qoc",
        "system": SYSTEM,
        "time": {"T": 30000.0, "steps": steps},
        "control": {"guess": {"type": "ladder", "area": 0.3}},
        "objective": {"threshold": 1.0},
        "verify": "none",
        **blocks,
    }
    path.write_text(yaml.safe_dump(deck), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_memory_grows_as_estimated(case, tmp_path):
    blocks, sizes = CASES[case]
    small, large = (_run(tmp_path, steps, blocks) for steps in sizes)
    assert 0.87 < (large[1] - small[1]) / (large[0] - small[0]) < 1.15

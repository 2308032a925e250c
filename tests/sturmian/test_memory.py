"""The memory that a plan names, against what processes really take at their peak (slow: every case is a process of its own)."""

import json
import subprocess
import sys

import pytest

RUN = """
import json, resource, sys, tempfile
from pathlib import Path
import yaml
from qsim.core.deck.load import load_deck
from qsim.core.run.pipeline import Options, execute
from qsim.sturmian import build
from qsim.sturmian.deck import DECK

with tempfile.TemporaryDirectory() as folder:
    deck = Path(folder) / "deck.yaml"
    deck.write_text(yaml.safe_dump({"method": "sturmian", **json.loads(sys.argv[1])}), encoding="utf-8")
    needed = build.plan(load_deck(deck, DECK)).memory
    execute("sturmian", deck, Options(device="cpu", output=Path(folder) / "run.h5", figures=False, verbosity=-1))
peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([peak, needed.host + needed.device]))
"""


def deck(N, l_max, order=12, R=24, **more):
    basis = {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": N}
    return {
        "system": {"Z": 2},
        "grid": {"R": R, "order": order},
        "basis": basis if N else "fedvr",
        "channels": {"l_max": l_max},
        **more,
    }


TABLES = {"task": {"type": "integrals"}}
PRODUCTS = {"task": {"type": "integrals", "route": "poisson_gemm"}}
ALONE = {"task": {"type": "basis", "l": [0, 1, 2]}}
CASES = {
    "matrix_free": (deck(0, 2, 6), deck(0, 4, 16)),
    "matrix_free, few functions": (deck(10, 2, 6), deck(40, 6, 16)),
    "dense": (deck(8, 1, 6, solver="dense"), deck(36, 3, 12, solver="dense")),
    "integrals": (deck(10, 2, **TABLES), deck(80, 2, 20, **TABLES)),
    "integrals, one route": (deck(10, 2, **PRODUCTS), deck(64, 2, **PRODUCTS)),
    "basis": (deck(10, 2, 6, **ALONE), deck(60, 2, 30, R=300, **ALONE)),
}


def measured(deck):
    reply = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(deck)], capture_output=True, text=True, check=True
    )
    return json.loads(reply.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_plan_names_the_memory_of_a_run(name):
    """The part that grows with the deck: the interpreter and its libraries are the same in both runs."""
    (peak, needed), (high, more) = (measured(case) for case in CASES[name])
    assert 0.87 < (high - peak) / (more - needed) < 1.15

"""Kernels of several systems in one process, each taken from a cache that another process has filled."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = """
import json, sys
from bench.qmc import problem
from qsim.core.device.device import cpu
from qsim.qmc.kernels.walkers import walk

found = {}
for name in sys.argv[1:]:
    walkers = problem.ensemble(cpu(1), problem.of_deck(name), 4, problem.TAU[name])
    walk.energies(walkers.device, walkers.state, walkers.tables, walkers.stream(1))
    found[name] = walkers.state.energy.tolist()
print(json.dumps(found))
"""


def test_systems_keep_their_own_kernels(monkeypatch):
    """Code is linked by name: water after helium had run helium's kernel, without the nonlocal energy.

    The cache is that of the other tests, since it matters only that another process has filled it.
    """
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def energies(*names):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *names], cwd=ROOT, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    alone = energies("He") | energies("H2O")
    assert any(walker[3] != 0.0 for walker in alone["H2O"])  # nonlocal
    assert energies("He", "H2O") == alone

"""Several ranks hear a stop between the generations of a block, in warm-ups and in iterations, and any number of them goes on."""

from pathlib import Path

import pytest

from tests.world import MPIRUN, same, script

pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIRUN is None, reason="no mpirun: pip install mpich")]

DECK = """
method: qmc
system: {atoms: [[He, 0, 0, 0]]}
wavefunction:
  orbitals: {source: sto, shells: [{atom: He, n: 1, l: 0, zeta: 1.6875}]}
  jastrow: {J1: {type: bspline, rcut: 8.0, size: 4}, J2: {type: pade, b: 0.4}}
series:
  - optimize: {walkers: 41, iterations: 1, steps: 4, warmup: 3, timestep: 0.1}
  - vmc: {walkers: 41, blocks: 2, steps: 11, warmup: 5}
  - dmc: {walkers: 43, timesteps: [0.02], blocks: 2, steps: 9, warmup: 0.1}
estimators: [{radial_density: {bins: 5, rmax: 4}}, ESTIMATOR]
run: {seed: 4, device: cpu, threads: 1}
"""
CRYSTAL = """
method: qmc
system: {lattice: [[5, 0, 0], [0, 5, 0], [0, 0, 5]], electrons: 2}
wavefunction: {orbitals: {source: planewave}, jastrow: none}
series:
  - vmc: {walkers: 41, blocks: 2, steps: 23, warmup: 5, timestep: 0.3}
  - dmc: {walkers: 43, timesteps: [0.02], blocks: 2, steps: 9, warmup: 0.1}
estimators: [sofk]
run: {seed: 4, device: cpu, threads: 1}
"""
STOPS = """
import sys
from qsim.core.errors import Stopped
from qsim.core.run import progress
from qsim.core.run.pipeline import Options, execute
from qsim.qmc.sampling import series

series.PIECE = series.EVERY = 0.0  # each generation is a chance
deck, output, calls, resume = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "resume"
left = [calls]


def reason(self, now, *, savable=True):
    left[0] -= 1
    return "enough" if left[0] < 0 else ""


if calls:
    progress.Monitor._stop_reason = reason
try:
    execute("qmc", deck, Options(output=output, figures=False, verbosity=-1, resume=resume))
    assert not calls
except Stopped:
    assert calls
"""


@pytest.fixture(params=["molecule", "crystal"])
def deck(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path(f"{request.param}.yaml")
    path.write_text(DECK.replace(", ESTIMATOR", "") if request.param == "molecule" else CRYSTAL)
    return str(path)


@pytest.mark.parametrize("calls", [(21,), pytest.param((2, 9, 16, 5, 33), marks=pytest.mark.exhaustive)])
def test_ranks_stop_between_generations_and_others_go_on(deck, calls):
    """After so many chances each on 3, 1, 2 ... ranks; the numbers are those of one rank that nobody stopped."""
    script(1, STOPS, deck, "whole", 0, "fresh")
    for k, count in enumerate(calls):
        script((3, 1, 2)[k % 3], STOPS, deck, "run", count, "resume" if k else "fresh")
    script(2, STOPS, deck, "run", 0, "resume")
    assert not same("whole.h5", "run.h5", rtol=0.0)

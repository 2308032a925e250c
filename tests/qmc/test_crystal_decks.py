"""Runs of a crystal on a GPU: energies of the CPU within their errors, in both precisions."""

import math
from pathlib import Path

import numpy as np
import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage

output = Method("qmc")

INPUTS = Path(__file__).resolve().parents[2] / "inputs" / "qmc"
# The deck `diamond_primitive` with the sections below, 256 walkers of 60 and 40 blocks, two CPU threads, double precision, seed 5
REFERENCE = {
    "vmc_energy": (-10.3024, 0.0034),
    "vmc_kinetic": (11.5605, 0.0156),
    "vmc_electron_electron": (-2.3204, 0.0040),
    "vmc_local_pp": (-7.3587, 0.0167),
    "vmc_nonlocal_pp": (0.5919, 0.0080),
    "dmc_energy": (-10.4800, 0.0093),
    "dmc_kinetic": (11.4890, 0.0548),
    "dmc_nonlocal_pp": (0.4989, 0.0135),
}


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_diamond_has_the_energies_of_the_cpu(cuda, precision):
    """4.5 standard errors for eight numbers: a false alarm in 20 000."""
    series = (
        "series=[{vmc: {walkers: 1024, blocks: 24, steps: 10, sweeps: 3, timestep: 0.3, warmup: 60}}, "
        "{dmc: {walkers: 1024, timesteps: [0.02], blocks: 24, steps: 20, warmup: 2.0, nonlocal: tmove, extrapolate: none}}]"
    )
    overrides = [series, "run.seed=6", f"run.precision={precision}"]
    loaded = load_deck(INPUTS / "diamond_primitive.yaml", stage("qmc", "deck").DECK, overrides)
    problem = stage("qmc", "build").build(loaded, cuda)
    assert problem.device.is_cuda
    found = output.scalars(stage("qmc", "run").run(problem, Monitor.silent()))
    for name, (value, error) in REFERENCE.items():
        one = found[name]
        assert abs(one.value - value) < 4.5 * math.hypot(one.error, error), name
        assert one.error < 2.0 * error
    assert found["ion_ion"].value == pytest.approx(-12.775667226315, abs=1e-7)


@pytest.mark.gpu
def test_an_optimisation_takes_the_same_steps(cuda):
    """As in molecules: rounding grows along the walk and in the eigenvalue problem, moves stay the same in so few sweeps."""
    series = "series=[{optimize: {walkers: 48, iterations: 2, steps: 3, sweeps: 1, warmup: 4}}]"
    found = []
    for device in (cpu(2), cuda):
        loaded = load_deck(
            INPUTS / "diamond_primitive.yaml", stage("qmc", "deck").DECK, [series, "run.seed=6"]
        )
        problem = stage("qmc", "build").build(loaded, device)
        found.append(stage("qmc", "run").run(problem, Monitor.silent()).series[0])
    here, there = found
    np.testing.assert_allclose(there.blocks["energy"], here.blocks["energy"], atol=1e-6)
    np.testing.assert_allclose(there.arrays["parameters"], here.arrays["parameters"], atol=1e-4)
    assert np.abs(here.arrays["parameters"][-1] - here.arrays["parameters"][0]).max() > 1e-3

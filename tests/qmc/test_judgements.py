"""What judges a run that is over costs no results: an exception is planted in every judgement, and all else is there."""

import numpy as np
import pytest

from qsim.core.results.results import open_results

DECK = {
    "run": {"seed": 5},
    "system": {"atoms": [["He", 0, 0, 0]]},
    "wavefunction": {
        "orbitals": {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.7}]},
        "jastrow": {"J2": {"type": "pade", "b": 0.5}},
    },
    "series": [
        {"optimize": {"walkers": 30, "iterations": 1, "steps": 3, "warmup": 20, "timestep": 0.2}},
        {"vmc": {"walkers": 30, "blocks": 20, "steps": 5, "warmup": 200, "timestep": 0.2}},
        {"dmc": {"walkers": 24, "timesteps": [0.04, 0.02], "blocks": 20, "steps": 10, "warmup": 4.0}},
    ],
    "estimators": [{"gofr": {"bins": 4}}, {"density": {"mesh": [3, 3, 3]}}],
}
TIMED = ("seconds", "per_second")
BY_NAME = {
    # what is planted: names of scalars, and parts of names of arrays, that may be missing or lack their error then
    "qsim.qmc.run.divergences": (("_variance",), ("mean_error",)),
    "qsim.qmc.analysis.warm_up": (("",), ("error", "reblock", "fit")),
    "qsim.qmc.analysis.reblock": (("",), ("error", "reblock", "fit")),
    "qsim.qmc.analysis.derived": (("",), ("error", "reblock", "fit")),
    "qsim.qmc.statistics.blocking.correlation": (("",), ("error", "reblock", "fit")),
    "qsim.qmc.analysis.drift": ((), ()),
    "qsim.qmc.analysis.memory": (("",), ("error", "reblock", "fit")),
    "qsim.qmc.analysis._population_bias": (
        ("dmc_energy", "dmc_population_bias", "dmc_extrapolation_chi2"),
        ("error", "fit"),
    ),
    "qsim.qmc.analysis._compare_memories": ((), ()),
    "qsim.qmc.analysis.extrapolate": (("dmc_energy_extrapolated", "dmc_extrapolation_chi2"), ("fit",)),
    "qsim.qmc.analysis.bounded": (("dmc_energy_extrapolated", "dmc_extrapolation_chi2"), ("fit",)),
    "qsim.qmc.statistics.block_sums.BlockSums.error": ((), ("_error",)),
    "qsim.qmc.estimators.density.MeshDensity.notes": ((), ()),
    "qsim.qmc.sampling.optimise._claimed": (
        ("optimize_",),
        ("history/energy_error", "history/variance_error"),
    ),
}


def results(qmc, name):
    """Return scalars, arrays and warnings of a run."""
    summary = qmc.execute(name, **DECK)
    with open_results(qmc.folder / f"{name}.h5") as found:
        arrays = {key: np.asarray(found[key]) for key in found.names if not key.endswith(TIMED)}
    scalars = {key: one for key, one in summary["scalars"].items() if not key.endswith(TIMED)}
    return scalars, arrays, summary["warnings"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    from tests.decks import Decks

    return results(Decks("qmc", tmp_path_factory.mktemp("whole")), "whole")


@pytest.mark.parametrize("planted", BY_NAME)
def test_a_judgement_that_fails_costs_no_results(qmc, planted, undisturbed, monkeypatch):
    def fails(*args, **keys):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(planted, fails)
    scalars, arrays, warnings = results(qmc, "disturbed")
    assert any("could not be found: planted" in text for text in warnings)
    whole_scalars, whole_arrays, _ = undisturbed
    lost_scalars, lost_arrays = BY_NAME[planted]
    for name, one in whole_scalars.items():
        if name.startswith(("dmc_energy_extr", "dmc_extrap", "dmc_population_bias")) and name not in scalars:
            assert any(part in name for part in lost_scalars)
            continue
        found = scalars[name]
        if not any(part in name for part in lost_scalars):
            assert found == one, name
        elif isinstance(one["value"], float) and found["value"] is not None and "autocorr" not in name:
            # without a warm-up that is left out, and without the jackknife of a variance
            assert found["value"] == pytest.approx(one["value"], rel=0.1, abs=1e-3), name
    for name, array in whole_arrays.items():
        if any(part in name for part in lost_arrays) or name.endswith("/mean"):
            continue
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
    assert {name for name in whole_arrays if "density" in name} <= set(arrays)

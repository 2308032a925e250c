"""Runs of several twists: what is averaged, what is named after its twist, and twists that fail."""

import numpy as np
import pytest

from qsim.core.errors import NumericsError
from qsim.core.results.results import open_results
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from qsim.qmc.results import scalar_dat
from qsim.qmc.run import TWISTS as TWISTS_APART
from qsim.qmc.run import final_state
from qsim.qmc.run import run as qmc_run
from qsim.qmc.sampling.dmc import DmcSampling
from qsim.qmc.sampling.optimise import Optimisation
from qsim.qmc.statistics.finite_size import potential_correction

output = Method("qmc")

LATTICE = [[6.0, 0, 0], [0, 7.0, 0], [1.0, 0, 8.0]]
TWISTS = [{"twist": [0.1, 0.2, 0.05], "weight": 1.0}, {"twist": [0.3, -0.2, 0.5], "weight": 4.0}]
VMC = {"vmc": {"walkers": 16, "blocks": 20, "steps": 4, "timestep": 2.0, "warmup": 20}}
DMC = {"dmc": {"walkers": 12, "timesteps": [0.2, 0.1], "blocks": 20, "steps": 3, "warmup": 1.0}}
OPTIMIZE = {"optimize": {"walkers": 24, "iterations": 1, "steps": 2, "timestep": 1.0, "warmup": 5}}
SPLINE = {"J2": {"size": 4, "rcut": 2.5}}


def gas(*series, twists=TWISTS, jastrow=SPLINE, **blocks):
    """Return two electrons in plane waves."""
    return {
        "run": {"seed": 1},
        "system": {"electrons": 2, "lattice": LATTICE, "twists": twists},
        "wavefunction": {"orbitals": "planewave", "jastrow": jastrow},
        "series": list(series),
        **blocks,
    }


def together(shares, values, *, error=False):
    """Return the average of arrays, or the error of that."""
    if error:
        return np.sqrt(sum((w * x) ** 2 for w, x in zip(shares, values, strict=True)))
    return sum(w * x for w, x in zip(shares, values, strict=True))


def test_every_array_is_the_average_or_named_after_its_twist(qmc):
    measured = [{"sofk": {}}, {"gofr": {"bins": 5}}, {"density": {"mesh": [2, 3, 1]}}]
    result = qmc.run(**gas(OPTIMIZE, VMC, DMC, estimators=measured))
    arrays, shares = output.arrays(result), np.array([0.2, 0.8])
    own = ("twist", "section", "timestep", "fit/", "reblock/", "component", "jastrow/")
    looked_at = set()
    for name, array in arrays.items():
        if any(word in name for word in own):
            continue
        group, _, leaf = name.rpartition("/")
        k = {"series_1": 1, "series_2/tau_0": 2, "series_2/tau_1": 3}[group]
        if leaf in ("mean", "mean_error"):
            found = [
                [getattr(e, leaf[5:] or "mean") for e in one.analyses[k].estimates.values()]
                for one in result.twists
            ]
            found = [np.array(one, float) for one in found]
        else:
            found = [{**one.series[k].blocks, **one.series[k].arrays}[leaf] for one in result.twists]
        looked_at.add(leaf)
        if leaf in ("weight", "seconds"):
            expected = found[0] + found[1]
        elif (
            leaf == "mean_error" and "tau" in group
        ):  # population control moves all energies to the same side
            bias = [one.analyses[k].population_bias for one in result.twists]
            expected = together(shares, found, error=True)
            energy = list(arrays[f"{group}/component"]).index("energy")
            alone = [np.sqrt(x[energy] ** 2 - b**2) for x, b in zip(found, bias, strict=True)]
            expected[energy] = np.hypot(together(shares, alone, error=True), together(shares, bias))
            assert expected[energy] > together(shares, [x[energy] for x in found], error=True)
        else:
            expected = together(shares, found, error=leaf.endswith("_error"))
        np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-15, err_msg=name)
    assert {"energy", "density_up", "gofr_ud_error", "sofk", "mean", "mean_error", "population"} <= looked_at
    for one in result.twists:
        for k, group in ((1, "series_1"), (3, "series_2/tau_1")):
            blocks = arrays[f"{group}/twist_{one.number}/energy"]
            np.testing.assert_array_equal(blocks, one.series[k].blocks["energy"])
    np.testing.assert_array_equal(arrays["twist_number"], [0, 1])
    assert [name for name in arrays if "history" in name and "twist_0" not in name] == []
    # errors of joined blocks are those of independent runs
    curves = [one.analyses[1].energy.curve.error for one in result.twists]
    np.testing.assert_allclose(arrays["series_1/reblock/error"], together(shares, curves, error=True))
    # what is derived from the structure factor and the energies is derived from their averages
    scalars, density = output.scalars(result), 2 / abs(np.linalg.det(LATTICE))
    expected = potential_correction(
        *(arrays[f"series_1/{name}"] for name in ("sofk_k", "sofk", "sofk_error")), density
    )
    found = scalars["vmc_finite_size_potential"]
    assert (found.value, found.error) == pytest.approx(expected)
    more = found.value + scalars["vmc_finite_size_kinetic"].value
    assert scalars["vmc_bulk_energy_per_electron"].value == pytest.approx(
        0.5 * (scalars["vmc_energy"].value + more)
    )
    energies = arrays["series_1/twist_energy"]
    assert scalars["vmc_energy"].value == pytest.approx(together(shares, energies))


def test_a_twist_that_fails_is_left_out_whichever_it_is(qmc, monkeypatch):
    true, calls = DmcSampling.advance, []

    def first_fails(self, report):
        calls.append(self.section)
        if self.section < TWISTS_APART:
            raise NumericsError("the population left its limits")
        true(self, report)

    monkeypatch.setattr(DmcSampling, "advance", first_fails)
    twists = [[0.3, -0.2, 0.5], [0.1, 0.2, 0.05], [0.4, 0.1, 0.2]]
    deck, monitor = gas(OPTIMIZE, VMC, DMC, twists=twists), Monitor.silent()
    result = qmc.run(monitor=monitor, **deck)
    assert [one.number for one in result.twists] == [1, 2]
    assert [text.split(":")[0] for text in monitor.warnings if "left out" in text] == [
        "twist (0.3, -0.2, 0.5) is left out of the average"
    ]
    assert all(text.startswith("twist (") for text in monitor.warnings if "tau" in text)
    arrays, scalars = output.arrays(result), output.scalars(result)
    np.testing.assert_array_equal(arrays["twist_number"], [1, 2])
    assert scalars["vmc_energy"].value == pytest.approx(arrays["series_1/twist_energy"].mean())
    # the optimisation of the twist that failed later is that of all
    assert result.series[0].member == "twist_0"
    assert "series_0/twist_0/history/energy" in arrays
    for one in result.twists:
        np.testing.assert_array_equal(
            one.after.parameters, result.series[0].arrays["parameters"][int(result.series[0].info["best"])]
        )
    # continued, it is left out again at once, and nothing changes
    calls.clear()
    again = qmc.run(monitor=Monitor(quiet=True, restored=final_state(result)), **deck)
    assert len(calls) == 4
    for name, array in output.arrays(again).items():
        if not name.endswith("seconds"):
            np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def test_another_twist_optimises_if_the_first_one_cannot(qmc, monkeypatch):
    true, calls = Optimisation.advance, []

    def first_fails(self, report):
        calls.append(self.section)
        if len(calls) == 1:
            raise NumericsError("a local energy is not finite")
        true(self, report)

    monkeypatch.setattr(Optimisation, "advance", first_fails)
    result = qmc.run(**gas(OPTIMIZE, VMC, twists=[[0.1, 0, 0], [0.2, 0, 0], [0.3, 0, 0]]))
    assert len(calls) == 2
    assert [one.number for one in result.twists] == [1, 2]
    assert "series_0/twist_1/history/energy" in output.arrays(result)


def test_a_run_whose_twists_all_fail_says_so(qmc, monkeypatch):
    def fails(self, report):
        raise NumericsError("a local energy is not finite", hint="smaller timesteps")

    monkeypatch.setattr("qsim.qmc.sampling.vmc.VmcSampling.advance", fails)
    with pytest.raises(NumericsError, match="none of 2 twists could be run; the last one: a local") as caught:
        qmc.run(**gas(VMC))
    assert caught.value.hint == "smaller timesteps"
    with pytest.raises(NumericsError, match="^a local energy is not finite"):
        qmc.run(**gas(VMC, twists=[[0.1, 0, 0]]))


def test_scalar_dat_has_the_average_and_every_twist(qmc):
    deck = gas(VMC, DMC, output={"scalar_dat": True})
    summary = qmc.execute("gas", **deck)
    loaded = qmc.load(**deck)
    paths = scalar_dat.extra_paths(loaded.deck, qmc.folder / "gas")
    assert sorted(path.name for path in paths) == sorted(
        path.name for path in qmc.folder.glob("gas*.scalar.dat")
    )
    assert len(paths) == 3 * (1 + 2)
    with open_results(qmc.folder / "gas.h5") as results:
        energies = results["series_0/twist_energy"]
    for twist, expected in (
        (None, summary["scalars"]["vmc_energy"]["value"]),
        (0, energies[0]),
        (1, energies[1]),
    ):
        table = scalar_dat.read(scalar_dat.path_of(qmc.folder / "gas", 0, twist))
        assert table["LocalEnergy"].mean() == pytest.approx(expected, abs=1e-9)
        assert not {"ElecIon", "HarmonicExt", "IonIon"} & set(table)


def test_a_grid_has_exact_fractions_and_one_line_of_each_kind(qmc):
    """Kinetic energies of plane waves to 1e-14, from fractions; levels that are filled in part are told once."""
    grid, shift, edges = [3, 4, 1], [0.5, 1 / 3, 0.0], np.array([6.0, 7.0, 8.0])
    system = {
        "electrons": 3,
        "spin": 1,
        "lattice": np.diag(edges).tolist(),
        "twist_grid": grid,
        "twist_shift": shift,
    }
    monitor = Monitor(quiet=True)
    deck = qmc.build(system=system, wavefunction={"orbitals": "planewave", "jastrow": "none"}, series=[VMC])
    found = output.scalars(qmc_run(deck, monitor))["vmc_kinetic"].value
    whole = np.indices((9, 9, 9)).reshape(3, -1).T - 4
    exact = []
    for index in np.ndindex(*grid):
        k2 = (((whole + (np.array(index) + shift) / grid) * 2 * np.pi / edges) ** 2).sum(1)
        lowest = 0.5 * np.sort(k2)
        exact.append(2 * lowest[0] + lowest[1])
    assert found == pytest.approx(np.mean(exact), rel=1e-14)
    kinds = [text.split("): ")[1][:40] for text in monitor.warnings if text.startswith("twist (")]
    assert len(kinds) == len(set(kinds)) <= 2
    assert not any("correlation" in text for text in monitor.warnings)

"""Decks of qmc from the file to the results: keys, sections, names of scalars and arrays, files, resumption.

Energies are compared with exact ones within 5 standard errors (one false alarm in two million) of runs with fixed seeds.
"""

import copy
import json
import math
import sys

import numpy as np
import pytest
import yaml

from qsim.core.deck.load import load_deck
from qsim.core.deck.template import template
from qsim.core.errors import DeckError, Stopped
from qsim.core.examples.check import folders
from qsim.core.results.plotting import style
from qsim.core.results.results import open_results
from qsim.core.run import checkpoint
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method, stage
from qsim.qmc import build
from qsim.qmc.results import scalar_dat

SLATER = {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 2.0}]}
# the deck of the contract, with smaller numbers
HELIUM = {
    "title": "helium atom",
    "run": {"seed": 7},
    "system": {
        "cell": "open",
        "atoms": [["He", 0, 0, 0]],
        "spin": 0,
        "pseudopotentials": {},
        "tilematrix": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        "twist": [0, 0, 0],
    },
    "wavefunction": {
        "orbitals": {"source": "sto", "shells": [{"atom": "He", "n": 1, "l": 0, "zeta": 1.6875}]},
        "jastrow": {
            "J1": {"type": "bspline", "rcut": 8.0, "size": 8},
            "J2": {"type": "bspline", "rcut": 8.0, "size": 8},
        },
    },
    "series": [
        {"optimize": {"walkers": 100, "iterations": 3, "target": "energy"}},
        {"vmc": {"walkers": 128, "blocks": 20, "steps": 10, "timestep": 0.3}},
        {
            "dmc": {
                "walkers": 96,
                "timesteps": [0.04, 0.02, 0.01],
                "blocks": 22,
                "steps": 10,
                "warmup": 1.0,
                "extrapolate": "linear",
                "nonlocal": "tmove",
            }
        },
    ],
    "estimators": [
        "energy",
        {"gofr": {"bins": 20, "rmax": 8}},
        {"density": {"mesh": [8, 8, 8]}},
        {"sofk": {}},
    ],
}
# what the contract asks for
REQUIRED = [
    "vmc_energy",
    "vmc_variance",
    "vmc_kinetic",
    "vmc_local_pp",
    "vmc_nonlocal_pp",
    "vmc_electron_electron",
    "ion_ion",
    "vmc_acceptance",
    "dmc_energy",
    "dmc_energy_extrapolated",
    "dmc_population_mean",
    "walker_generations_per_second",
]
WITH_ERROR = [name for name in REQUIRED if name not in ("ion_ion", "walker_generations_per_second")]


def only(*sections, **changes):
    """Return the deck of helium with other sections and other blocks."""
    return {**copy.deepcopy(HELIUM), "series": list(sections), "estimators": [], **changes}


@pytest.fixture(scope="module")
def helium(tmp_path_factory):
    """Run the whole deck once, with the figure of its mesh and scalar.dat, and return its folder and summary."""
    folder = tmp_path_factory.mktemp("helium")
    deck = {"method": "qmc", **HELIUM, "output": {"scalar_dat": True, "figures": ["density"]}}
    path = folder / "he.yaml"
    path.write_text(yaml.safe_dump(deck, sort_keys=False), encoding="utf-8")
    with np.errstate(all="raise", under="ignore"):
        outcome = execute("qmc", path, Options(device="cpu", output=folder, verbosity=-1))
    return folder, outcome.summary


# ---------------------------------------------------------------------------------- a complete run


def test_scalars_of_the_contract(helium):
    scalars = helium[1]["scalars"]
    assert [name for name in REQUIRED if name not in scalars] == []
    assert [name for name in WITH_ERROR if scalars[name]["error"] is None] == []
    for name in ("vmc_energy", "dmc_energy_extrapolated"):
        assert scalars[name]["value"] == pytest.approx(-2.9, abs=0.05)
        assert scalars[name]["unit"] == "hartree"
    assert scalars["dmc_timestep"]["value"] == 0.01


def test_components_add_up(helium):
    scalars = helium[1]["scalars"]
    parts = ["kinetic", "electron_electron", "local_pp", "nonlocal_pp", "external"]
    for kind in ("vmc", "dmc"):
        total = sum(scalars[f"{kind}_{part}"]["value"] for part in parts) + scalars["ion_ion"]["value"]
        assert scalars[f"{kind}_energy"]["value"] == pytest.approx(total, abs=1e-9)


def test_arrays_of_every_section(helium):
    folder, summary = helium
    with open_results(folder / "he.h5") as results:
        assert list(results["section"]) == ["optimize", "vmc", "dmc"]
        assert results["series_0/history/energy"].shape == (4,)
        assert results["series_0/history/parameters"].shape == (4, 16)
        assert results["series_1/energy"].shape == (20,)
        assert results["series_1/gofr_ud"].shape == (20,)
        assert results["series_1/density_up"].shape == (8, 8, 8)
        for k in range(3):
            assert results[f"series_2/tau_{k}/energy"].shape == (22,)
            assert results[f"series_2/tau_{k}/population"].shape == (22,)
            assert f"series_2/tau_{k}/reblock/error" in results
        np.testing.assert_array_equal(results["series_2/timestep"], [0.01, 0.02, 0.04])
        names = list(results["series_1/component"])
        mean = results["series_1/mean"][names.index("energy")]
        assert mean == summary["scalars"]["vmc_energy"]["value"]
        assert (
            results["series_2/fit/coefficients"][0] == summary["scalars"]["dmc_energy_extrapolated"]["value"]
        )
        assert set(results["jastrow/ud/coefficients"]) != {0.0}
        assert results.unit("series_1/energy") == "hartree"
        # one pair of opposite spins, and both electrons on the mesh but for its edge
        r, width = results["series_1/gofr_r"], 0.4
        pairs = results["series_1/gofr_ud"] * 4 * np.pi / 3 * ((r + width / 2) ** 3 - (r - width / 2) ** 3)
        assert pairs.sum() == pytest.approx(1.0, abs=0.01)


def test_the_density_on_a_mesh_is_drawn(helium):
    """All other figures are those of a reference deck."""
    assert (helium[0] / "he.density.png").stat().st_size > 5000


def test_figures_without_their_data(qmc):
    deck = only({"vmc": {"walkers": 20, "blocks": 3, "steps": 2, "warmup": 5}})
    deck["wavefunction"] = {"orbitals": SLATER, "jastrow": "none"}
    qmc.execute(**deck)
    with open_results(qmc.folder / "deck.h5") as results, style():
        drawn = {name for name, draw in stage("qmc", "output").FIGURES.items() if draw(results) is not None}
    assert drawn == {"overview", "trace"}


def test_scalar_dat(helium):
    """A file for each vmc part and each time step of dmc, with numbers of the series and QMCPACK's names."""
    folder, _ = helium
    found = sorted(path.name for path in folder.glob("*.scalar.dat"))
    assert found == [f"he.s{k:03d}.scalar.dat" for k in (1, 2, 3, 4)]
    with open_results(folder / "he.h5") as results:
        table = scalar_dat.read(folder / found[0])
        np.testing.assert_allclose(table["LocalEnergy"], results["series_1/energy"], rtol=1e-9)
        np.testing.assert_allclose(table["ElecIon"], results["series_1/local"], rtol=1e-9)
        last = scalar_dat.read(folder / found[-1])
        np.testing.assert_allclose(last["LocalEnergy"], results["series_2/tau_2/energy"], rtol=1e-9)
    assert "IonIon" not in table


def test_the_plan_tells_sizes(qmc):
    plan = stage("qmc", "build").plan(qmc.load(**HELIUM))
    assert plan.sizes["electrons"] == 2
    assert plan.sizes["parameters"] == 16
    assert plan.steps == 4 + 20 + 3 * 22
    assert plan.memory.parts["walkers"] > 128 * 2 * 3 * 8


# ------------------------------------------------------------------------------------- known energies


def agrees(scalar, expected, sigmas=5.0):
    assert scalar["error"] is not None
    assert abs(scalar["value"] - expected) <= sigmas * scalar["error"], (scalar, expected)


VMC = {"vmc": {"walkers": 256, "blocks": 40, "steps": 25, "warmup": 50}}


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_helium_without_jastrow(qmc, precision):
    """E = zeta^2 - 27/8 zeta, T = zeta^2, V_ne = -4 zeta, V_ee = 5/8 zeta."""
    deck = only(VMC, run={"seed": 5, "precision": precision}, wavefunction={"orbitals": SLATER})
    scalars = qmc.execute(**deck)["scalars"]
    agrees(scalars["vmc_energy"], -2.75)
    agrees(scalars["vmc_kinetic"], 4.0)
    agrees(scalars["vmc_local_pp"], -8.0)
    agrees(scalars["vmc_electron_electron"], 1.25)


def test_hydrogen_has_no_variance(qmc):
    system = {"atoms": [["H", 0, 0, "0.3 angstrom"]], "spin": 1}
    deck = only(VMC, {"dmc": {"walkers": 64, "timesteps": 0.05, "blocks": 20, "steps": 10, "warmup": 0.5}})
    scalars = qmc.execute(**{**deck, "system": system, "wavefunction": {"orbitals": "hydrogen"}})["scalars"]
    for kind in ("vmc", "dmc"):
        assert scalars[f"{kind}_energy"]["value"] == pytest.approx(-0.5, abs=1e-6)
        assert scalars[f"{kind}_variance"]["value"] < 1e-8


def test_hookes_atom_has_no_variance(qmc):
    deck = only(VMC, system={}, wavefunction={"orbitals": "hooke"})
    scalars = qmc.execute(**deck)["scalars"]
    assert scalars["vmc_energy"]["value"] == pytest.approx(2.0, abs=1e-6)
    assert scalars["vmc_variance"]["value"] < 1e-8
    assert scalars["vmc_local_pp"]["value"] == 0.0


def test_particle_in_a_trap_with_the_wrong_width(qmc):
    """VMC: 3a/2 + 3/(8a) for exp(-a r^2) with a = 0.4; diffusion: 3/2."""
    orbitals = {"source": "harmonic", "omega": 1.0, "exponent": 0.4}
    dmc = {"dmc": {"walkers": 256, "timesteps": [0.04, 0.02], "blocks": 40, "steps": 20, "warmup": 4.0}}
    scalars = qmc.execute(**only(VMC, dmc, system={"spin": 1}, wavefunction={"orbitals": orbitals}))[
        "scalars"
    ]
    agrees(scalars["vmc_energy"], 1.5375)
    agrees(scalars["dmc_energy_extrapolated"], 1.5)


def test_water_from_the_file_of_its_orbitals(qmc, monkeypatch):
    """The determinant alone has the energy of the self-consistent field, and PySCF is not needed."""
    monkeypatch.setitem(sys.modules, "pyscf", None)
    place = folders().inputs / "qmc"
    deck = yaml.safe_load((place / "h2o_ccecp.yaml").read_text(encoding="utf-8"))
    deck["wavefunction"]["orbitals"]["cache"] = str(place / "h2o_orbitals.h5")
    deck["wavefunction"]["jastrow"] = "none"
    deck |= {"run": {"seed": 2}, "estimators": []}
    deck["series"] = [{"vmc": {"walkers": 200, "blocks": 40, "steps": 4, "sweeps": 3, "warmup": 100}}]
    del deck["method"]
    scalars = qmc.execute(**deck)["scalars"]
    assert scalars["determinant_energy"]["value"] == pytest.approx(-16.943530867647, abs=1e-6)
    agrees(scalars["vmc_energy"], -16.943530867647)
    agrees(scalars["vmc_nonlocal_pp"], 1.1797080622)
    agrees(scalars["vmc_local_pp"], -56.210267324875)


# ------------------------------------------------------------------------------- keys and short forms


def test_short_forms_are_the_same_deck(qmc):
    long = qmc.load(**only({"vmc": {}}, {"optimize": {}}, {"dmc": {"timesteps": [0.01]}}))
    short = qmc.load(**only("vmc", {"opt": None}, {"dmc": {"timestep": 0.01}}))
    assert long.physics()["series"] == short.physics()["series"]


def test_positions_in_angstrom(qmc):
    """Bare numbers follow ``units``, texts say their own; the resolved deck is in bohr."""
    system = {
        "atoms": [["H", 0, 0, 0], ["H", 0, 0, 0.74], ["H", 0, 0, "3 bohr"]],
        "units": "angstrom",
        "spin": 1,
    }
    deck = only("vmc", system=system, wavefunction={"orbitals": {"source": "pyscf", "method": "uhf"}})
    found = load_deck(qmc.write(**deck), stage("qmc", "deck").DECK).resolved()["system"]
    assert found["units"] == "bohr"
    assert found["atoms"][1][3] == pytest.approx(0.74 / 0.529177210544, rel=1e-9)
    assert found["atoms"][2][3] == 3.0


def test_walkers_are_those_of_the_section_before(qmc):
    deck = qmc.load(**only("vmc", {"vmc": {"walkers": 50}}, "vmc", {"dmc": {"timesteps": [0.1, 0.2]}})).deck
    parts = build.parts_of(deck)
    assert [part.walkers for part in parts] == [2048, 50, 50, 50, 50]
    assert len({part.number for part in parts}) == len(parts)


def test_the_last_section_names_the_scalars(qmc):
    """Two wavefunctions cannot be in a deck, but two sections differ in their number of blocks."""
    first, last = ({"vmc": {"walkers": 30, "blocks": n, "steps": 2, "warmup": 2}} for n in (20, 24))
    assert qmc.execute(**only(first, last))["scalars"]["vmc_blocks"]["value"] == 24


def test_coefficients_of_qmcpack_are_taken_verbatim(qmc):
    deck = copy.deepcopy(only("vmc"))
    given = [0.4, 0.3, 0.2, 0.1]
    deck["wavefunction"]["jastrow"] = {"J2": {"rcut": 4.0, "size": 4, "coefficients": {"ud": given}}}
    problem = qmc.build(**deck)
    assert problem.wavefunction.jastrow.coefficients() == {"ud": given}


def test_templates_are_valid_decks(tmp_path):
    deck = stage("qmc", "deck").DECK
    for full in (False, True):
        path = tmp_path / f"{full}.yaml"
        path.write_text(template(deck, full=full), encoding="utf-8")
        loaded = load_deck(path, deck)
        assert not [f for f in build.plan(loaded).findings if f.severity == "error"]


def test_references_of_what_is_used(qmc):
    references = stage("qmc", "deck").references
    assert "Zen2016" in references(qmc.load(**HELIUM).deck)
    assert "Zen2016" not in references(qmc.load(**only("vmc")).deck)


def test_few_blocks_give_no_error_bar(qmc):
    summary = qmc.execute(**only({"vmc": {"walkers": 20, "blocks": 5, "steps": 2, "warmup": 2}}))
    assert summary["scalars"]["vmc_energy"]["error"] is None
    assert any("5 blocks" in text for text in summary["warnings"])


# ------------------------------------------------------------------------------- checkpoints and more


class StopAfter(Monitor):
    """Stops with a checkpoint after some calls that can be saved."""

    def __init__(self, calls, **settings):
        super().__init__(quiet=True, **settings)
        self.calls = calls

    def _stop_reason(self, now, *, savable=True):
        self.calls -= 1
        return "enough" if self.calls < 0 else ""


def everything(result):
    """Return all arrays of a result but those that are wall times."""
    return {
        name: array for name, array in Method("qmc").arrays(result).items() if not name.endswith("seconds")
    }


@pytest.mark.parametrize("population", ["comb", "birth_death"])
@pytest.mark.parametrize("calls", [1, 5, 9, 14, 20, 31, 47])
def test_a_resumed_run_has_the_same_bits(qmc, calls, population):
    """Interrupted in each kind of section, in warm-ups and between blocks."""
    deck = copy.deepcopy(HELIUM)
    deck["series"][1]["vmc"] |= {"blocks": 5, "warmup": 70}
    deck["series"][2]["dmc"] |= {"blocks": 5, "timesteps": [0.1, 0.05], "population": population}
    whole = qmc.run(**deck)
    file = qmc.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        qmc.run(monitor=StopAfter(calls, checkpoint=file), **deck)
    state, _ = checkpoint.load(file)
    resumed = everything(qmc.run(monitor=Monitor(quiet=True, restored=state), **deck))
    for name, array in everything(whole).items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)


def more(deck, **blocks):
    """Return the deck with more blocks in sections, by kind."""
    deck = copy.deepcopy(deck)
    for item in deck["series"]:
        for kind, count in blocks.items():
            if kind in item:
                item[kind]["blocks"] = count
    return deck


def test_a_complete_run_takes_more_blocks(qmc):
    """Appended blocks are those that a longer run would have had; the other sections stay as they were."""
    deck = only(
        {"vmc": {"walkers": 40, "blocks": 20, "steps": 5, "warmup": 10}},
        {"dmc": {"walkers": 40, "timesteps": [0.05, 0.02], "blocks": 20, "steps": 5, "warmup": 0.5}},
        estimators=["gofr"],
    )
    first = qmc.execute(**deck)["scalars"]
    with open_results(qmc.folder / "deck.h5") as results:
        before = {name: results[name] for name in results.names}
    longer = more(deck, vmc=60, dmc=80)
    summary = qmc.execute(options={"resume": True}, **longer)
    scalars = summary["scalars"]
    with open_results(qmc.folder / "deck.h5") as results:
        for name, blocks in (
            ("series_0/energy", 60),
            ("series_1/tau_0/energy", 80),
            ("series_1/tau_1/energy", 80),
        ):
            assert results[name].shape == (blocks,)
            np.testing.assert_array_equal(results[name][:20], before[name])
    assert scalars["vmc_energy"]["error"] < first["vmc_energy"]["error"]
    alone = qmc.execute("alone", **only(longer["series"][0], estimators=["gofr"]))
    assert alone["scalars"]["vmc_energy"] == scalars["vmc_energy"]
    # nothing to add: the stored summary
    again = qmc.execute(options={"resume": True}, **longer)
    assert json.dumps(again) == json.dumps(summary)


def test_a_complete_run_takes_nothing_else(qmc):
    deck = only({"vmc": {"walkers": 40, "blocks": 3, "steps": 5, "warmup": 10}})
    qmc.execute(**deck)
    other = copy.deepcopy(deck)
    other["series"][0]["vmc"]["timestep"] = 0.1
    with pytest.raises(DeckError, match=r"series\.0\.vmc\.timestep"):
        qmc.execute(options={"resume": True}, **other)


def test_threads_do_not_change_the_numbers(qmc):
    deck = only({"vmc": {"walkers": 40, "blocks": 3, "steps": 5, "warmup": 10}}, "dmc")
    deck["series"][1] = {"dmc": {"timesteps": 0.05, "blocks": 3, "steps": 10, "warmup": 0.5}}
    one, two = (qmc.execute(f"t{n}", **{**deck, "run": {"seed": 1, "threads": n}})["scalars"] for n in (1, 2))
    for name in ("vmc_energy", "dmc_energy", "dmc_population_mean"):
        assert one[name]["value"] == two[name]["value"], name


def test_every_deck_in_inputs_has_a_plan():
    for path in sorted((folders().inputs / "qmc").glob("*.yaml")):
        loaded = load_deck(path, stage("qmc", "deck").DECK)
        plan = build.plan(loaded)
        loaded.raise_for(plan.findings)
        assert loaded.warnings == []
        assert math.isfinite(plan.sizes["walkers x generations"])

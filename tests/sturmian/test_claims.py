"""Errors that runs of sturmian claim: each part against what it stands for, on either side, and the warnings beside them."""

import json
import math
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qsim.core.errors import DeckError, NumericsError
from qsim.core.run.stages import Method, stage
from qsim.sturmian import trials
from qsim.sturmian.bound import warnings as bound_warnings
from qsim.sturmian.bound.states import box_density
from qsim.sturmian.bound.warnings import require_contained
from qsim.sturmian.radial.box import outer_density
from qsim.sturmian.radial.parameters import Values
from qsim.sturmian.two_electron.extrapolation import partial_wave_limit

REFERENCES = json.loads(
    (Path(__file__).resolve().parents[1] / "reference_data" / "sturmian.json").read_text(encoding="utf-8")
)["references"]
SMALL = {
    "system": {"Z": 2},
    "grid": {"R": 16, "order": 10},
    "basis": {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": 8},
    "channels": {"L": 0, "S": 0, "l_max": 0},
}
S_LIMIT = -2.8790287673  # helium, l_max = 0: product grids of another program


def scalars(result):
    return Method("sturmian").scalars(result)


class Notes:
    """A monitor that keeps what it is told."""

    def __new__(cls):
        from qsim.core.run.progress import Monitor

        monitor = Monitor.silent()
        monitor.told, monitor.noted = [], []
        monitor.warn, monitor.note = monitor.told.append, monitor.noted.append
        return monitor


# -------------------------------------------------------------------------------------- grid and basis


COARSE = [
    {"R": 20, "order": 4, "elements": 7},
    {"R": 12, "order": 3, "elements": 9},
    {"R": 15, "order": 7, "elements": 3},
]


@pytest.mark.parametrize("grid", COARSE)
def test_the_error_of_a_coarse_grid_is_claimed(sturmian, grid):
    monitor = Notes()
    state = sturmian.run(monitor, **{**SMALL, "grid": grid, "basis": "fedvr"}).states[0]
    assert 0.3 < state.error_radial / abs(state.energy - S_LIMIT) < 3.0
    assert any("functions and grid are poor for it" in text for text in monitor.told) == (
        state.error_radial > 1e-3
    )


@pytest.mark.parametrize("grid", [{"R": 29.14, "order": 11}, {"R": 23.2, "order": 10}])
def test_an_energy_that_passes_through_that_of_the_finer_grid_is_no_exact_one(sturmian, grid):
    """Both grids have the same error there: better integrals change what more functions gain, to a percent or two."""
    state = sturmian.run(**{**SMALL, "grid": {**grid, "elements": 3}, "basis": "fedvr"}).states[0]
    assert 0.5 < state.error_radial / abs(state.energy - S_LIMIT) < 4.0


@pytest.mark.parametrize("N", [5, 9, 14])
def test_the_error_of_few_functions_is_claimed(sturmian, N):
    deck = {**SMALL, "basis": {**SMALL["basis"], "N": N}}
    state = sturmian.run(**deck).states[0]
    assert 0.8 < state.error_radial / (state.energy - S_LIMIT) < 1.25


@pytest.mark.parametrize("l_max", [2, 3, 4])
@pytest.mark.parametrize(("Z", "energy"), [(1, -0.527751016544), (2, -2.903724377), (4, -13.655566238)])
def test_the_error_of_few_partial_waves_is_claimed(sturmian, Z, energy, l_max):
    """What is missing is told from the limit of the waves there are, and the limit's own error with it; not far too large."""
    basis = {
        "type": "gsf",
        "generating": {"type": "yukawa", "alpha": 0.3 * Z},
        "energy": -0.22 * Z**2,
        "N": 20,
    }
    deck = {
        "system": {"Z": Z},
        "grid": {"R": 40.0 / Z},
        "basis": basis,
        "channels": {"L": 0, "S": 0, "l_max": l_max},
    }
    found = scalars(sturmian.run(**deck))["energy_0"]
    off = found.value - energy
    assert 0.0 < off < found.error < 2.0 * off


def test_excited_states_of_functions_made_for_the_ground_state(sturmian):
    """2^1S at l_max = 0 is -2.144197274; second order of perturbation theory saw a fraction of what is missing."""
    deck = {**SMALL, "grid": {"R": 40, "order": 10}, "task": {"type": "bound", "n_roots": 2}}
    state = sturmian.run(**deck).states[1]
    error = state.energy + 2.144197274
    assert error > 1e-3
    assert 0.8 < state.error_radial / error < 1.25


@pytest.mark.parametrize(("Z", "energy", "first"), [(3.0, -0.03, 4), (2.4, -0.02, 5)])
def test_a_state_above_others_that_the_functions_miss_is_no_lowest_one(sturmian, Z, energy, first):
    """Functions of s waves too wide for 1s leave 2p^2 or 2s3d, nearly an eigenstate; 3^3D is Z^2/2 + (Z-1)^2/18 to 1e-2."""
    deck = {
        "system": {"Z": Z},
        "grid": {"R": 50, "order": 6},
        "basis": {
            "type": "gsf",
            "generating": {"type": "yukawa", "alpha": 0.1},
            "energy": energy,
            "N": [first, 12, 10],
        },
        "channels": {"L": 2, "S": 1, "l_max": 2},
    }
    state = sturmian.run(**deck).states[0]
    error = state.energy + Z**2 / 2.0 + (Z - 1.0) ** 2 / 18.0
    assert error > 0.5
    assert 0.9 < state.error_radial / error < 1.1


@pytest.mark.parametrize("place", [1.31, 2.05])
def test_a_shell_between_nodes_is_seen(sturmian, place):
    """The same shell on a grid whose elements end around it."""
    text = f"-Z/r - 2*exp(-((r - {place})/0.02)^2)"
    deck = {**SMALL, "system": {"Z": 2, "potential": {"type": "expression", "value": text}}, "basis": "fedvr"}
    coarse = sturmian.run(**{**deck, "grid": {"R": 14, "order": 8}}).states[0]
    bounds = [
        0.1,
        0.3,
        0.7,
        place - 0.06,
        place - 0.02,
        place + 0.02,
        place + 0.06,
        2.5,
        4.0,
        6.5,
        10.0,
        14.0,
    ]
    good = sturmian.run(**{**deck, "grid": {"elements": bounds, "order": 12}}).states[0]
    error = abs(coarse.energy - good.energy)
    assert error > 1e-5
    assert 0.5 < coarse.error_radial / error < 2.0


# ------------------------------------------------------------------------------------------------ box


def state_with(**changes):
    values = {"wall": 1e-6, "threshold": -2.0, "energy": -2.3, "bound": True} | changes
    return SimpleNamespace(**values)


def test_box_density_of_an_exponential():
    """u = A (exp(-kappa r) - exp(kappa (r - 2 R))) is what a wall makes of A exp(-kappa r)."""
    kappa, R, A = 0.7, 9.0, 1.3
    wall = (2.0 * kappa * A * math.exp(-kappa * R)) ** 2
    state = state_with(wall=wall, energy=-2.0 - 0.5 * kappa**2)
    assert box_density(state) == pytest.approx((A * math.exp(-kappa * R)) ** 2, rel=1e-12)


@pytest.mark.parametrize("R", [7.0, 8.5])
def test_the_density_without_a_wall_is_that_of_a_larger_box(sturmian, monkeypatch, R):
    monkeypatch.setattr(bound_warnings, "BOX_DENSITY", 1.0)
    deck = {**SMALL, "system": {"Z": 1.5}, "basis": "fedvr"}
    tight = sturmian.run(**{**deck, "grid": {"R": R, "order": 10}}).states[0]
    wide = sturmian.build(**{**deck, "grid": {"R": 24, "order": 10}})
    state = stage("sturmian", "run").run(wide, Notes()).states[0]
    there = np.interp(R, wide.grid.r, np.log(state.density))
    assert box_density(tight) == pytest.approx(math.exp(there), rel=0.25)
    assert 0.7 < tight.error_box / (tight.energy - state.energy) < 1.4


def test_the_wall_of_a_bound_and_of_a_free_electron():
    assert bound_warnings.wall_shift(1e-6, 0.5 * 0.3**2, 50.0) == pytest.approx(1e-6 / 0.6)
    assert (
        bound_warnings.wall_shift(1e-6, 1e-9, 50.0)
        == bound_warnings.wall_shift(1e-6, -1.0, 50.0)
        == pytest.approx(2.5e-5)
    )


def test_density_far_outside_of_hydrogen():
    """2 Z^(3/2) r exp(-Z r) of 1s, and of 2p, both of charge Z."""
    assert outer_density(11.0, 0.5, 1.0) == pytest.approx(4.0 * 121.0 * math.exp(-22.0), rel=1e-12)
    assert outer_density(30.0, 0.125, 1.0) == pytest.approx(30.0**4 * math.exp(-30.0) / 24.0, rel=1e-12)


def test_an_automatic_box_grows_with_the_state(sturmian):
    """A screened nucleus binds far more weakly than the bare one, for which the box is made."""
    potential = {"type": "expression", "value": "-Z*exp(-0.6*r)/r"}
    deck = {"system": {"Z": 2, "potential": potential}, "basis": "fedvr", "channels": {"pairs": [[0, 0]]}}
    monitor = Notes()
    result = sturmian.run(monitor, **deck, grid={"R": "auto", "order": 7})
    grown = [text for text in monitor.noted if "reaches further than estimated" in text]
    assert 1 <= len(grown) <= 4
    assert bound_warnings.radius_needed(result.problem, result.states[0]) is None
    R = result.problem.values.R
    assert grown[-1].startswith(f"grid.R: {R:.6g} bohr")
    assert scalars(result)["R"].value == result.problem.grid.R == R
    wide = sturmian.run(Notes(), **deck, grid={"R": 1.5 * R, "order": 9}).states[0]
    assert abs(wide.energy - result.states[0].energy) < 3.0 * result.states[0].error
    with pytest.raises(NumericsError, match="not contained in the box"):
        sturmian.run(Notes(), **deck, grid={"R": 12.926, "order": 7})


# ------------------------------------------------------------------------------------------- partial waves


def test_the_energy_of_few_partial_waves_has_their_error(sturmian):
    """The next partial waves are asked where there are none below; known: -2.903724377."""
    for l_max in (0, 1, 3):
        result = sturmian.run(**{**SMALL, "basis": "fedvr", "channels": {"l_max": l_max}})
        state, energy = result.states[0], scalars(result)["energy_0"]
        missing = state.energy + 2.903724377
        assert 0.8 < state.error_angular / missing < 1.25
        assert energy.error == pytest.approx(
            state.error_solver + state.error_radial + state.error_box + state.error_angular
        )
        assert "missing partial waves" in energy.description


def test_pairs_of_the_deck_are_the_model(sturmian):
    result = sturmian.run(**{**SMALL, "channels": {"pairs": [[0, 0], [1, 1]]}})
    energy = scalars(result)["energy_0"]
    assert energy.error < 1e-3
    assert "pairs of the deck only" in energy.description
    assert "error_angular_0" not in scalars(result)
    assert not [
        name for name in scalars(result) if "exact" in name
    ]  # energies of the atom with all its pairs


def test_sectors_of_different_l_max_have_their_own_partial_waves(sturmian):
    deck = {**SMALL, "basis": {**SMALL["basis"], "N": 6}, "grid": {"R": 40, "order": 8}}
    states = [{"L": 0, "S": 0}, {"L": 3, "S": 1}]
    result = sturmian.run(Notes(), **{**deck, "channels": {}, "states": states})
    assert {int(state.pairs.max()) for state in result.states} == {4, 5}
    assert all(math.isfinite(state.error_angular) for state in result.states)


FEWER = {"last": [16, 14, 3], "p": [18, 5], "all": 12}


@pytest.mark.parametrize("N", FEWER.values(), ids=FEWER)
def test_few_functions_of_high_momenta_are_in_the_error_of_the_limit(sturmian, N):
    """The deck's own states tell nothing of momenta that only the extrapolation brings in; known: -2.903724377."""
    deck = {**SMALL, "basis": {**SMALL["basis"], "N": N}, "extrapolate": {"l_max": [1, 2, 4]}}
    result = sturmian.run(**deck)
    (limit, error), state = result.limits[0], result.states[0]
    assert 0.3 < error / abs(limit + 2.903724377034) < 10.0
    assert state.error_radial_limit > 2.0 * state.error_radial


def test_the_error_of_the_limit_is_the_own_one_where_no_pairs_are_added(sturmian):
    deck = {**SMALL, "channels": {"L": 0, "S": 0, "l_max": 2}, "extrapolate": {"l_max": [0, 1, 2]}}
    state = sturmian.run(**deck).states[0]
    assert state.error_radial_limit == state.error_radial > 0.0


def test_an_error_of_the_limit_that_was_not_estimated_is_told(sturmian, monkeypatch):
    """Where only the larger l_max is too much work for the finer grid."""
    from qsim.sturmian.two_electron import reference

    deck = {**SMALL, "extrapolate": {"l_max": [0, 1, 2]}}
    n = reference.finer_size(sturmian.build(**deck).grid.bounds.size - 1, 10)
    monkeypatch.setattr(reference, "STEP_WORK", 8.0 * 2.5 * n**3)
    monitor = Notes()
    result = sturmian.run(monitor, **deck)
    assert math.isfinite(result.states[0].error_radial)
    assert [text for text in monitor.told if "at l_max = 2 was not estimated" in text]


ATOMS = {"He": ("He_1S_lmax", -2.903724377034), "Liplus": ("Liplus_1S_lmax", -7.279913412669)}
MORE = {"He": {1: -2.9005162472, 3: -2.9033210852}, "Liplus": {1: -7.2758943016, 3: -7.279381689}}


# L, S, limit (Drake; Nakashima and Nakatsuji), and energies of 11 points per element, which are good to 3e-9 hartree
WAVES = {
    "H-": (
        0, 0, -0.527751016544,
        [-0.5144963577, -0.526584687, -0.5274385463, -0.5276256762, -0.5276887734, -0.5277157294, -0.5277291216],
    ),
    "He 2 1P": (
        1, 0, -2.123843086498,
        [-2.1225967725, -2.1236901863, -2.1237970208, -2.1238232096, -2.1238327068, -2.1238369824],
    ),
    "He 2 3S": (
        0, 1, -2.175229378237,
        [-2.1742648556, -2.1751719815, -2.1752204358, -2.1752271244, -2.1752286201, -2.1752290694],
    ),
}  # fmt: skip


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("state", [*ATOMS, *WAVES])
def test_extrapolations_from_any_l_max(state, count):
    """Energies of product grids, of helium and Li+ those of another program; those of Li+ are known to 1e-8."""
    if state in ATOMS:
        prefix, exact = ATOMS[state]
        known = {
            int(r["id"][len(prefix) :]): r["value"] for r in REFERENCES if r["id"].startswith(prefix)
        } | MORE[state]
        L, S, digits = 0, 0, 1e-8
    else:
        L, S, exact, energies = WAVES[state]
        known, digits = dict(enumerate(energies, L)), 4e-9
    for chosen in combinations(sorted(known), count):
        limit, error, _ = partial_wave_limit(chosen, [known[l] for l in chosen], L=L, S=S)
        assert abs(limit - exact) < 1.1 * error + digits, chosen


# ------------------------------------------------------------------------------------------------ virial


@pytest.mark.parametrize(
    ("radial", "level", "confined", "expected"),
    [
        (0.3, 0.1, False, "too poor to tell whether it is bound"),
        (0.08, 0.07, False, "not a bound state, but one of box"),  # the threshold falls with it
        (math.nan, math.nan, False, "not a bound state, but one of box"),
        (0.01, 0.0, True, "the wall confines it, too"),
    ],
)
def test_what_is_said_of_a_state_above_the_threshold(radial, level, confined, expected):
    state = state_with(energy=-1.88, bound=False, error_radial=radial, error_threshold=level)
    assert expected in bound_warnings._above_threshold(state, confined)
    assert bound_warnings._above_threshold(state_with(energy=-2.3, bound=True), confined) is None


def test_which_potentials_confine():
    r = np.linspace(0.1, 9.0, 60)
    for V, expected in ((0.02 * r**2, 1), (0.3 * r - 2 / r, 1), (1 - 2 / r, 0), (-2 / r, 0), (1 / r, 0)):
        assert bound_warnings.confining(r, V) == bool(expected)


def test_a_bound_state_of_poor_functions_is_no_state_of_the_box(sturmian):
    """Li+ 3^1D is bound by more than 0.2 hartree; functions made for the ground state put it above the threshold."""
    monitor = Notes()
    deck = {"system": {"Z": 3}, "grid": {"R": 16, "order": 10}, "channels": {"L": 2, "S": 0, "l_max": 2}}
    basis = {"type": "gsf", "generating": {"type": "yukawa", "alpha": 1.5}, "energy": -3.0, "N": [12, 4, 6]}
    state = sturmian.run(monitor, **deck, basis=basis).states[0]
    assert state.energy > -4.4
    assert any("too poor to tell whether it is bound" in text for text in monitor.told)
    assert not any("not a bound state" in text for text in monitor.told)


def test_a_state_in_a_well_without_end_is_no_unbound_one(sturmian):
    """Harmonic wells bind at any energy; the threshold is that of a box far too small."""
    monitor = Notes()
    system = {"Z": 1, "potential": {"type": "expression", "value": "(r/8)^2/2"}}
    channels = {"L": 0, "S": 0, "l_max": 1}
    deck = {"system": system, "grid": {"R": 4.5, "order": 8}, "basis": "fedvr", "channels": channels}
    state = sturmian.run(monitor, **deck).states[0]
    assert not state.bound
    assert any("the wall confines it, too" in text for text in monitor.told)
    assert not any("not a bound state" in text for text in monitor.told)


def test_scaling_gains_what_the_virial_ratio_says():
    """Of E(s) = s^2 T + s V the lowest is -V^2 / 4 T."""
    T, V = 2.7, -5.9
    state = SimpleNamespace(moments={"kinetic": T, "virial_ratio": -V / T})
    assert bound_warnings.virial_gain(state) == pytest.approx(T + V + 0.25 * V * V / T, rel=1e-12)


def test_a_virial_ratio_that_disagrees_is_told(sturmian):
    result = sturmian.run(**{**SMALL, "basis": {**SMALL["basis"], "N": 3}})
    assert not [text for text in require_contained(result) if "virial" in text]
    result.states[0].error_radial = 1e-12
    assert any(
        "the virial ratio 2.0" in text or "the virial ratio 1.9" in text for text in require_contained(result)
    )


# -------------------------------------------------------------------------------------------------- plan


SCANNED = {
    "scan": {"R": [7, 8, 9, 10, 11], "alpha": [0.4, 0.5, 0.7, 0.9], "energy": [-1.1, -1.4, -2.1, -2.4, -2.0]}
}


def test_a_plan_makes_few_bases_and_the_build_the_rest(sturmian, monkeypatch):
    made = []
    original = trials._try
    monkeypatch.setattr(trials, "_try", lambda *args: (made.append(args), original(*args)))
    monkeypatch.setattr(trials, "PLAN_WORK", 4e6)
    sturmian.load(**{**SMALL, "system": {"Z": 3}}, **SCANNED)
    planned = len(made)
    assert 0 < planned < 8
    made.clear()
    sturmian.build(**{**SMALL, "system": {"Z": 3}}, **SCANNED)
    assert len(made) == 15  # the deck's own and 14 scanned, each once


def test_a_scanned_energy_on_a_level_is_refused_before_the_run(sturmian, monkeypatch):
    """Whether the plan tries it or the build: -2.0 is the 1s level of He+."""
    deck = {**SMALL, "scan": {"energy": [-1.3, -2.0]}}
    with pytest.raises(DeckError, match=r"scan.energy.1: .*is the level"):
        sturmian.load(**deck)
    monkeypatch.setattr(trials, "PLAN_WORK", 0.0)
    sturmian.load(**deck)
    with pytest.raises(DeckError, match=r"scan.energy.1: .*is the level"):
        sturmian.build(**deck)


def test_values_are_those_of_the_deck(sturmian):
    assert isinstance(sturmian.build(**SMALL).values, Values)


# ------------------------------------------------------------------------------------------ basis alone


@pytest.mark.parametrize(("R", "order"), [(6.0, 12), (20.0, 6), (14.0, 7)])
def test_errors_of_beta(sturmian, R, order):
    """Coulomb-Sturmians: beta = kappa (n + l) - Z without a box."""
    grid = {"R": R, "order": order, "elements": 6}
    block = {"type": "gsf", "generating": "coulomb", "energy": -0.72, "N": 6}
    result = sturmian.run(Notes(), system={"Z": 1}, grid=grid, basis=block, task={"type": "basis", "l": 1})
    found, errors = result.bases[1].beta, result.beta_errors[1]
    off = np.abs(found - (1.2 * (np.arange(1, 7) + 1) - 1.0))
    seen = off > 1e-9
    assert np.all(errors[seen] / off[seen] > 0.3)
    assert np.all(errors[seen] / off[seen] < 3.0)
    assert bool(result.notes) == bool(np.any(errors > 0.01 * np.abs(found)))


@pytest.mark.parametrize(("elements", "order", "l"), [(3, 8, 1), (3, 11, 2), (4, 7, 3)])
def test_errors_of_beta_on_poor_grids(sturmian, elements, order, l):
    """The next finer grid is poor as well, and agrees in some eigenvalue by chance."""
    grid = {"R": 24.0, "order": order, "elements": elements}
    block = {"type": "gsf", "generating": "coulomb", "energy": -0.605, "N": 11}
    result = sturmian.run(Notes(), system={"Z": 1}, grid=grid, basis=block, task={"type": "basis", "l": l})
    off = np.abs(result.bases[l].beta - (1.1 * (np.arange(1, 12) + l) - 1.0))
    errors = result.beta_errors[l]
    seen = off > 1e-7
    assert np.all(errors[seen] / off[seen] > 0.9)
    assert np.all(errors[seen] / off[seen] < 2.0)


def _charge(r):
    return -(1.3 + 1.7 * np.exp(-1.4 * r))


@pytest.fixture
def sampled(tmp_path):
    """Write a smooth potential in few rows and return its block."""

    def write(rows, **keys):
        r = np.geomspace(0.02, 9.0, rows)
        np.savetxt(
            tmp_path / "V.csv",
            np.stack([r, _charge(r) / r], axis=1),
            delimiter=",",
            header="r,V",
            fmt="%.15e",
        )
        return {"type": "table", "file": str(tmp_path / "V.csv"), **keys}

    return write


@pytest.mark.parametrize("rows", [12, 21])
def test_expectation_values_hold_what_a_table_leaves_open(sturmian, sampled, rows):
    written = {"type": "expression", "value": "-(1.3 + 1.7*exp(-1.4*r))/r"}
    deck = {
        "grid": {"R": 18, "order": 10},
        "basis": "fedvr",
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0], [1, 1]]},
    }
    found, known = (
        scalars(sturmian.run(Notes(), **deck, system={"Z": 3, "potential": potential}))
        for potential in (sampled(rows), written)
    )
    for name in (
        "energy_0",
        "mean_r_0",
        "mean_inv_r_0",
        "mean_r2_0",
        "mean_inv_r12_0",
        "nuclear_0",
        "ionisation_energy_0",
    ):
        off = abs(found[name].value - known[name].value)
        assert off < found[name].error, name
        assert found[name].error > known[name].error, name
    stated = scalars(
        sturmian.run(Notes(), **deck, system={"Z": 3, "potential": sampled(rows, interpolation="linear")})
    )
    assert "error_table_0" in found
    assert "error_table_0" not in stated


def test_integrals_hold_what_a_table_leaves_open(sturmian, tmp_path):
    def made(rows):
        r = np.geomspace(0.002, 22.0, rows)
        np.savetxt(tmp_path / "v.dat", np.stack([r, np.exp(-0.6 * r) / r], axis=1), fmt="%.15e")
        generating = {"type": "table", "file": str(tmp_path / "v.dat")}
        return sturmian.run(
            Notes(),
            system={"Z": 2},
            grid={"R": 22, "order": 14, "elements": [1, 3, 7, 12, 22]},
            basis={"type": "gsf", "generating": generating, "energy": -0.7, "N": 5},
            channels={"L": 0, "S": 0, "pairs": [[1, 1]]},
            task={"type": "integrals", "l": [1], "route": "poisson_gemm"},
        )

    poor, dense = made(11), made(400)
    for name in ("overlap", "coulomb", "exchange"):
        off = np.abs(np.abs(getattr(poor, name)) - np.abs(getattr(dense, name)))
        assert off.max() > 1e-5
        assert np.all(off < 3.0 * poor.errors[name] + dense.errors[name]), name
        assert dense.errors[name].max() < 0.1 * poor.errors[name].max()


def test_the_second_bound_state_of_the_negative_ion_of_hydrogen(sturmian):
    """2p^2 3P^e, bound below n = 2 by 0.01 eV: -0.1253547 hartree (M. Bylicki, E. Bednarz, Phys. Rev. A 67, 022503 (2003))."""
    deck = {
        "system": {"Z": 1},
        "grid": {"R": 270, "order": 10},
        "basis": {"type": "gsf", "generating": "yukawa", "energy": "auto", "N": 18},
        "states": [{"L": 1, "S": 1, "parity": "unnatural"}],
        "channels": {"l_max": 3},
        "task": "bound",
    }
    found = scalars(sturmian.run(**deck))["energy_0"]
    assert abs(found.value + 0.1253547) < found.error < 5e-5
    assert found.value < -0.125

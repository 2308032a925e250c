"""Errors that tridiag runs claim, refusals and warnings: with an exact or independent result for each.

Random decks are in tests/tridiag/test_coverage.py; here each estimate is provoked by itself.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from scipy.special import erf

from qsim.core.results.results import open_results
from qsim.core.run.pipeline import Options, execute
from qsim.tridiag import solve
from qsim.tridiag.deck.electron import MaskAbsorber
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.model import Hhg, Observed
from qsim.tridiag.deck.potentials.oscillators import Polynomial
from qsim.tridiag.deck.potentials.wells import SquareWell
from qsim.tridiag.output import extra_files, extra_paths
from qsim.tridiag.propagate import accuracy, build, checks
from qsim.tridiag.propagate.eigenstates import imaginary_time, mirror, window_states
from qsim.tridiag.propagate.lattice import Lattice
from qsim.tridiag.solver.ladder import SingularMatrixError
from qsim.tridiag.solver.robustness import equilibrate
from qsim.tridiag.tdse import absorbers, potentials
from qsim.tridiag.tdse.pulses import LaserField


def run(tmp_path, deck, *, dry=False):
    """Run a deck and return its summary."""
    path = tmp_path / "deck.yaml"
    path.write_text(yaml.safe_dump({"method": "tridiag", **deck}), encoding="utf-8")
    options = Options(
        device="cpu", output=tmp_path / "run.h5", figures=False, verbosity=-1, dry_run=dry, force=True
    )
    return execute("tridiag", path, options).summary


# --------------------------------------------------------------------------------------------- systems


def dense(a, b, c, cyclic=False):
    n = len(a)
    matrix = np.diag(a) + np.diag(b[1:], -1) + np.diag(c[:-1], 1)
    if cyclic:
        matrix[0, n - 1] += b[0]
        matrix[n - 1, 0] += c[-1]
    return matrix


@pytest.mark.parametrize("kind", ["nshape", "thomas", "lapack", "woodbury"])
@pytest.mark.parametrize(("place", "size"), [(0, 1e30), (17, 1e25), (39, 1e-28)])
def test_one_row_of_another_size_is_no_reason_to_refuse(kind, place, size):
    n = 40
    a, b, c = np.full(n, 3.0), np.full(n, -1.0), np.full(n, -1.0)
    d = np.linspace(1.0, 2.0, n)
    scaled = [v.copy() for v in (a, b, c, d)]
    for v in scaled:
        v[place] *= size
    exact = np.linalg.solve(dense(a, b, c), d)
    found = solve(*scaled, type=kind)
    assert found.x == pytest.approx(exact, rel=1e-13)
    large = a.copy()
    large[place] = max(size, 1e20)  # the entry alone: x vanishes there
    found = solve(large, b, c, d, type=kind)
    below, above = np.where(np.arange(n) == place + 1, 0, b), np.where(np.arange(n) == place - 1, 0, c)
    bands = (np.delete(v, place) for v in (a, below, above))
    rest = np.linalg.solve(dense(*bands), np.delete(d, place))
    assert np.delete(found.x, place) == pytest.approx(rest, rel=1e-12)


def test_scales_of_rows_and_columns_are_found_whatever_they_were():
    rng = np.random.default_rng(5)
    a, b, c = rng.normal(size=(3, 1, 60))
    a += np.sign(a)
    b[:, 0] = c[:, -1] = 0
    exponents = rng.integers(-50, 50, (2, 1, 60)).astype(np.int32)
    before = equilibrate.Scales(*exponents).matrix(a, b, c)
    scales = equilibrate.find(*before)
    after = [np.abs(v) for v in scales.matrix(*before)]
    assert max(v.max() for v in after) <= 2.0
    condition = np.linalg.cond(dense(*(v[0] for v in scales.matrix(*before))))
    assert condition < 1e3 * np.linalg.cond(dense(a[0], b[0], c[0]))


@pytest.mark.parametrize("condition", [1e6, 1e12, 1e18])
def test_matrices_of_known_condition_are_refused_from_one_over_eps_on(condition):
    """``1 + (condition - 1)`` on one row pair: T = [[1, 1], [1, 1 + 4/condition]] has about this condition number."""
    n = 30
    a, b, c, d = np.ones(n), np.zeros(n), np.zeros(n), np.ones(n)
    a[11], b[11], c[10] = 1.0 + 4.0 / condition, 1.0, 1.0
    rows = 2.0 ** np.arange(-40, 80, 4)
    system = (a * rows, b * rows, c * rows, d * rows)
    if condition > 1e16:
        with pytest.raises(SingularMatrixError):
            solve(*system)
        return
    found = solve(*system)
    assert found.x[10] == pytest.approx(1.0, abs=10 * condition * 2e-16)


@pytest.mark.parametrize("kind", [">f8", ">c16", ">f4", ">i4"])
def test_arrays_of_the_other_byte_order(kind, tmp_path):
    n = 33
    a, b, c, d = (np.full(n, value).astype(kind) for value in (5, -1, 2, 3))
    exact = np.linalg.solve(dense(*(v.astype(complex) for v in (a, b, c))), d.astype(complex))
    found = solve(a, b[1:], c, d)
    assert found.x == pytest.approx(exact, rel=1e-5 if kind == ">f4" else 1e-13)
    np.savez(tmp_path / "s.npz", a=a, b=b, c=c, d=d)
    run(tmp_path, {"task": "solve", "system": {"source": "file", "file": str(tmp_path / "s.npz")}})
    with open_results(tmp_path / "run.h5") as results:
        assert results["x"] == pytest.approx(exact, rel=1e-5 if kind == ">f4" else 1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 33, 500])
@pytest.mark.parametrize("kind", ["nshape", "thomas", "lapack", "woodbury"])
def test_cyclic_systems(n, kind):
    rng = np.random.default_rng(n)
    a, b, c = rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n))
    a += 4.0
    d = rng.normal(size=(n, 2)) + 0j
    kind = "nshape" if kind == "woodbury" and n < 4 else kind
    exact = np.linalg.solve(dense(a, b, c, cyclic=True), d)
    found = solve(a, b, c, d, type=kind, cyclic=True)
    assert np.abs(found.x - exact).max() < 1e-12 * np.abs(exact).max()
    assert found.backward_error < 1e-14


def test_cyclic_systems_whose_tridiagonal_part_is_singular():
    """The shift matrix: zero diagonal, ones below and in the corner; x is d moved by one."""
    n = 25
    d = np.arange(1.0, n + 1)
    found = solve(np.zeros(n), np.ones(n), np.zeros(n), d, cyclic=True)
    assert found.x == pytest.approx(np.roll(d, -1))
    with pytest.raises(SingularMatrixError):
        solve(np.full(n, 2.0), np.full(n, -1.0), np.full(n, -1.0), d, cyclic=True)


def test_corners_of_a_deck(tmp_path):
    system = {
        "source": "random",
        "n": 50,
        "seed": 4,
        "dtype": "real",
        "batch": 2,
        "rhs": 3,
        "corners": [0.7, -0.4],
    }
    run(tmp_path, {"task": "solve", "system": system})
    from qsim.tridiag.solver.systems import RandomSource

    a, b, c, d = RandomSource(50, 4, 1.5, "real", 2, 3).read(0, 100)
    with open_results(tmp_path / "run.h5") as results:
        for s in range(2):
            part = slice(50 * s, 50 * s + 50)
            lower, upper = b[part].copy(), c[part].copy()
            lower[0], upper[-1] = 0.7, -0.4
            exact = np.linalg.solve(dense(a[part], lower, upper, cyclic=True), d[:, part].T)
            assert results["x"][s] == pytest.approx(exact, rel=1e-10)
        assert results["profile_residual"].max() < 1e-13


# ----------------------------------------------------------------------------------------- propagations

TWO_LEVELS = {
    "task": "propagate",
    "grid": {"xmin": -30, "xmax": 30, "points": 241},
    "potential": {"type": "gaussian_well", "depth": 1.0, "width": 1.3},
    "laser": {"pulses": [{"shape": "cw", "omega": 0.46, "E0": 0.01, "cycles": 10}]},
    "time": {"dt": 0.4, "outputs": 4},
    "observe": [{"populations": {"levels": 2}}],
}


@pytest.mark.parametrize("dt", [0.4, 0.2])
def test_the_phase_error_of_a_detuned_flopping_is_claimed(tmp_path, dt):
    """The truth is the same lattice problem with steps and spacings so fine that their errors are a hundredth."""
    rough = run(tmp_path, {**TWO_LEVELS, "time": {"dt": dt, "outputs": 4}})["scalars"]
    fine = {
        **TWO_LEVELS,
        "grid": {"xmin": -30, "xmax": 30, "points": 961},
        "time": {"dt": 0.02, "outputs": 4},
    }
    exact = run(tmp_path, fine)["scalars"]
    for name in ("population_0", "population_1", "dipole_final"):
        error = abs(rough[name]["value"] - exact[name]["value"])
        assert 0.2 * error < rough[name]["error"] < 8 * error
    assert rough["error_time_step"]["value"] > rough["error_spacing"]["value"]


@pytest.mark.parametrize(("dt", "k0"), [(0.13, -1.2), (0.15, -1.0)])
def test_steps_too_long_for_the_fast_part_of_a_packet_are_seen(tmp_path, dt, k0):
    """Halving the step once changes the norm at the edge of the packet little: both steps are too long for its fast part."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -7.4, "xmax": 8.3, "points": 203, "stencil": "three_point"},
        "potential": {"type": "polynomial", "coefficients": [0.0, -0.04, 0.2, 0.0, 0.021]},
        "initial": {"type": "gaussian", "x0": 1.3, "k0": k0, "width": 1.1},
        "observe": [{"norm_within": [2.7, 2.9, 3.1, 3.3]}],
    }
    time = {"t_final": 15 * dt, "outputs": 2, "coarse": "warn"}
    rough = run(tmp_path, {**deck, "time": {**time, "steps": 15}})["scalars"]
    fine = {**deck, "grid": {**deck["grid"], "points": 1631, "stencil": "numerov"}}
    exact = run(tmp_path, {**fine, "time": {**time, "steps": 3600, "verify": False}})["scalars"]
    for name in (name for name in rough if name.startswith("norm_within_")):
        error = abs(rough[name]["value"] - exact[name]["value"])
        assert error < 3 * rough[name]["error"] < 30 * error, name


@pytest.mark.parametrize("points", [101, 4_000_001])
def test_companions_differ_in_their_steps_however_few_there_are(points):
    for steps in range(1, 40):
        problem = SimpleNamespace(
            steps=steps, lattice=SimpleNamespace(points=points), potential=SimpleNamespace(edges=False)
        )
        sizes = accuracy.companions(problem)
        assert len({own for own, _ in sizes}) == len(sizes)
        assert all(other != points for _, other in sizes)


def test_a_run_of_four_steps_on_a_large_grid_claims_what_it_misses(tmp_path):
    """A free packet: its centre goes with its momentum."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -40.0, "xmax": 35.0, "points": 1_000_003},
        "potential": "free",
        "initial": {"type": "gaussian", "x0": -2.0, "k0": 1.3, "width": 1.5},
        "time": {"steps": 4, "t_final": 0.4, "outputs": 1, "verify": True},
    }
    found = run(tmp_path, deck)["scalars"]["dipole_final"]
    assert abs(found["value"] - (-2.0 + 1.3 * 0.4)) <= found["error"] < 0.01


def test_errors_are_not_claimed_unasked(tmp_path):
    found = run(tmp_path, {**TWO_LEVELS, "time": {"dt": 0.4, "outputs": 4, "verify": False}})
    assert found["scalars"]["population_0"]["error"] is None
    assert not found["warnings"] or "uncertain" not in " ".join(found["warnings"])


def test_a_coarse_step_runs_if_asked_for_and_says_how_wrong_it_is(tmp_path):
    pulse = {"shape": "cw", "omega": 0.46, "E0": 0.05, "cycles": 10}
    deck = {**TWO_LEVELS, "laser": {"pulses": [pulse]}, "time": {"dt": 2.2, "outputs": 2}}
    from qsim.core.errors import DeckError

    with pytest.raises(DeckError, match="steps per optical cycle"):
        run(tmp_path, deck)
    found = run(tmp_path, {**deck, "time": {"dt": 2.2, "outputs": 2, "coarse": "warn"}})
    assert any("is uncertain by" in text and "lower time.dt" in text for text in found["warnings"])


def test_a_field_that_ends_within_a_step_gives_its_whole_momentum():
    pulses = [{"shape": "static", "E0": 0.3, "duration": 2.57}]
    field = LaserField(Laser.model_validate({"gauge": "length", "pulses": pulses}))
    assert field.steps(10, 0.5).sum() * 0.5 == pytest.approx(0.3 * 2.57, rel=1e-12)


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
def test_levels_of_wells_far_apart_are_even_and_odd(stencil):
    x = np.linspace(-13, 13, 901)
    v = 0.025 * (x**2 - 49.0) ** 2
    dx = x[1] - x[0]
    energies, states, _ = window_states(dx, v, stencil, 4)
    assert energies[1] - energies[0] < 1e-12
    for level, state in enumerate(states):
        assert float(state @ state[::-1]) * dx == pytest.approx((-1.0) ** level, abs=1e-9)
    assert float(imaginary_time(x, dx, v, stencil)[1] @ states[0]) * dx == pytest.approx(1.0, abs=1e-9)
    assert mirror(v) == 900
    assert mirror(v + 1e-3 * x) is None


def test_levels_that_rounding_mixes_are_told(tmp_path):
    deck = {
        "task": "propagate",
        "grid": {"xmin": -11.3, "xmax": 14, "points": 1000},
        "potential": {"type": "double_well", "lambda": 0.025, "a": 7.0, "x0": 1.37},
        "time": {"dt": 0.05, "t_final": 0.5, "verify": False},
    }
    assert any("closer than rounding resolves" in text for text in run(tmp_path, deck)["warnings"])
    symmetric = {**deck, "grid": {"xmin": -12, "xmax": 12, "points": 1000}}
    symmetric["potential"] = {**deck["potential"], "x0": 0.0}
    assert not run(tmp_path, symmetric)["warnings"]


@pytest.mark.parametrize("wells", [2, 3, 4, 5])
@pytest.mark.parametrize("apart", [3.0, 14.0])
def test_three_and_more_equal_wells_far_apart_are_told(tmp_path, wells, apart):
    """Even levels mix with even ones: parity does not tell the states of a chain of three or more wells apart."""
    places = [(k - 0.5 * (wells - 1)) * apart for k in range(wells)]
    half = places[-1] + 9.0
    deck = {
        "task": "propagate",
        "grid": {"xmin": -half, "xmax": half, "points": 201 + 100 * wells},
        "potential": {
            "type": "expression",
            "value": " - ".join(["0", *(f"4 * exp(-(x - ({place:g}))^2)" for place in places)]),
        },
        "initial": {"type": "eigenstate", "level": 0},
        "time": {"dt": 0.05, "t_final": 0.5, "verify": False},
    }
    told = any("closer than rounding resolves" in text for text in run(tmp_path, deck)["warnings"])
    assert told == (wells > 2 and apart > 10.0)


@pytest.mark.parametrize(
    ("pulse", "likely"),
    [
        ({"wavelength": "800 nm", "intensity": "3e14 W/m2"}, "if 3e.14 W/cm2 is meant"),
        ({"wavelength": "800 nm", "intensity": "3e14 W/cm2"}, None),
        ({"wavelength": "400 nm", "E0": 0.01}, None),
        ({"omega": 1.5, "intensity": "1.3e12 W/cm2"}, None),
    ],
)
def test_likely_units(pulse, likely):
    import re

    block = {"gauge": "length", "pulses": [{"shape": "sin2", "cycles": 3, **pulse}]}
    found = [finding.message for finding in checks.likely_units(LaserField(Laser.model_validate(block)))]
    assert len(found) == (likely is not None)
    if likely is not None:
        assert re.search(likely, found[0])


def test_a_mask_ends_at_the_ends_of_the_grid():
    x = np.linspace(-40, 60, 501)
    block = MaskAbsorber(type="mask", width=10.0, power=2.0)
    _cap, mask = absorbers.evaluate(block, x)
    assert mask[0] == mask[-1] == 0.0
    at = np.searchsorted(x, [-39.0 - 1e-9, 55.0 - 1e-9])
    assert mask[at] == pytest.approx(np.cos(0.5 * np.pi * np.array([0.9, 0.5])) ** 2)
    assert mask[np.searchsorted(x, 50.0 - 1e-9)] == pytest.approx(1.0)


def test_samples_of_the_trace_are_eight_per_period_of_the_highest_harmonic():
    observed = Observed(hhg=Hhg(max_order=40.0))
    problem = SimpleNamespace(
        observed=observed,
        spectra=[],
        steps=100_000,
        dt=0.01,
        fundamental=lambda _b: 0.057,
        max_order=lambda b: b.max_order,
    )
    period = 2 * np.pi / (0.057 * 40.0)
    assert period / (build.sample_interval(problem) * 0.01) == pytest.approx(8.0, rel=0.05)
    problem.steps = 20  # shorter than a sample: its end is one
    assert build.sample_interval(problem) == 20


def test_harmonics_of_a_run_shorter_than_a_sample_are_a_spectrum(tmp_path):
    deck = {
        "task": "propagate",
        "grid": {"xmin": -40.0, "xmax": 40.0, "points": 801},
        "potential": {"type": "softcore", "Z": 1.0, "a2": 2.0},
        "initial": {"type": "eigenstate", "level": 0},
        "laser": {"pulses": [{"shape": "sin2", "omega": 0.057, "E0": 0.02, "cycles": 2}]},
        "time": {"dt": 0.05, "t_final": 0.1, "outputs": 1, "verify": False},
        "observe": [{"hhg": {"form": "acceleration", "window": "sin2"}}],
    }
    run(tmp_path, deck)
    with open_results(tmp_path / "run.h5") as results:
        assert np.isfinite(results["hhg_spectrum"]).all()


# ------------------------------------------------------------------------------------------- memory, files


def test_the_file_of_a_large_solution_is_announced(tmp_path):
    system = {"source": "random", "n": 3000, "dtype": "real"}
    run(tmp_path, {"task": "solve", "system": system, "solver": {"memory": 65536, "tolerance": 1e-10}})
    deck = SimpleNamespace(task="solve")
    assert extra_paths(deck, tmp_path / "run") == [tmp_path / "run.x.h5"]
    assert extra_paths(SimpleNamespace(task="propagate"), tmp_path / "run") == []
    with open_results(tmp_path / "run.h5") as results:
        listed = extra_files(results, tmp_path / "run")
    assert all(path.exists() for path in listed)


@pytest.mark.parametrize("stencil", ["numerov", "three_point"])
@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_one_level_of_a_doublet_alone_is_even_or_odd(stencil, level):
    x = np.linspace(-11, 11, 733)
    dx = x[1] - x[0]
    _, states, _ = window_states(dx, 0.03 * (x**2 - 36.0) ** 2, stencil, 1, level)
    assert states.shape[0] == 1
    assert float(states[0] @ states[0, ::-1]) * dx == pytest.approx((-1.0) ** level, abs=1e-9)


def test_a_level_that_is_not_close_to_others_is_left_alone():
    x = np.linspace(-9, 9, 401)
    dx = x[1] - x[0]
    energies, states, _ = window_states(dx, 0.3 * x**2, "numerov", 3, 2)
    assert energies == pytest.approx(np.sqrt(0.6) * (np.arange(2, 5) + 0.5), abs=1e-3)
    assert states.shape[0] == 3


@pytest.mark.parametrize("level", [1, 2])
def test_populations_of_a_symmetric_double_well_are_certain(tmp_path, level):
    deck = {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -10, "xmax": 10, "points": 487},
        "potential": {"type": "expression", "value": "0.5*(x^2-20.25)^2/17"},
        "initial": {"type": "eigenstate", "level": level},
        "time": {"dt": 0.02, "t_final": 3},
        "observe": [{"populations": {"levels": 4}}],
    }
    found = run(tmp_path, deck)
    for k in range(4):
        scalar = found["scalars"][f"population_{k}"]
        assert abs(scalar["value"] - float(k == level)) <= scalar["error"] < 1e-6
    assert "uncertain" not in " ".join(found["warnings"])


def test_a_warning_of_an_uncertain_norm_names_the_walls_where_they_make_it(tmp_path):
    deck = {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -15, "xmax": 15, "points": 601},
        "potential": {"type": "expression", "value": "0*x"},
        "initial": {"type": "gaussian", "x0": 4.0, "k0": 2.3, "width": 1.2},
        "time": {"dt": 0.005, "t_final": 8},
        "observe": [{"norm_within": [4.4]}],
    }
    told = [text for text in run(tmp_path, deck)["warnings"] if "is uncertain by" in text]
    assert len(told) == 1
    assert "(parts: the walls " in told[0]
    assert "the time step" in told[0]
    assert "the grid spacing" in told[0]
    assert told[0].endswith("widen grid, or add an absorber")


def test_a_warning_of_mixed_levels_does_not_advise_a_shorter_step(tmp_path):
    deck = {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -10, "xmax": 10, "points": 487},
        "potential": {"type": "expression", "value": "0.5*(x^2-20.25)^2/17 + 1e-7*exp(-(x-9)^2)"},
        "initial": {"type": "eigenstate", "level": 1},
        "time": {"dt": 0.02, "t_final": 3},
        "observe": [{"populations": {"levels": 2}}],
    }
    told = [text for text in run(tmp_path, deck)["warnings"] if "is uncertain by" in text]
    assert len(told) == 1
    assert "(parts: the mixing of close levels " in told[0]
    assert "time.dt" not in told[0]


@pytest.mark.parametrize(("points", "steps"), [(151, 40), (601, 12)])
def test_losses_to_an_absorber_that_the_lattice_delays(points, steps, tmp_path):
    """The fastest components of a free packet reach the strip late in the run and in its refinements alike.

    The true loss is that of the run on a much finer grid with short steps.
    """
    deck = {
        "task": "propagate",
        "grid": {"xmin": -25.0, "xmax": 25.0, "points": points},
        "potential": {"type": "free"},
        "initial": {"type": "gaussian", "x0": 0.4, "k0": 1.2, "width": 0.6},
        "absorber": {"type": "cap", "width": 7.0, "strength": 0.3, "power": 2.0},
        "time": {"steps": steps, "t_final": 5.0},
    }
    run(tmp_path, deck)
    with open_results(tmp_path / "run.h5") as results:
        norm = results.scalars["norm_final"]
        found, claimed = norm.value, norm.error
    fine = {
        **deck,
        "grid": {**deck["grid"], "points": 2501},
        "time": {"steps": 1200, "t_final": 5.0, "verify": False},
    }
    run(tmp_path, fine)
    with open_results(tmp_path / "run.h5") as results:
        true = results.scalars["norm_final"].value
    assert 1.0 - true > 1e-9
    assert abs(found - true) <= 3.0 * claimed
    assert claimed <= 10.0 * max(abs(found - true), 1e-12)


def scalars_of(tmp_path, deck):
    """Run a deck and return its scalars by name."""
    run(tmp_path, deck)
    with open_results(tmp_path / "run.h5") as results:
        return dict(results.scalars)


def test_tails_that_the_lattice_delays(tmp_path):
    """What has passed a place far away is the fastest part of a packet, which lattices and long steps slow down alike."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -8.631, "xmax": 7.935, "points": 99, "stencil": "three_point"},
        "potential": {"type": "polynomial", "coefficients": [-0.1415, -0.0332, 0.09074, 0.01539, 0.02959]},
        "initial": {"type": "gaussian", "x0": -0.492, "k0": 0.752, "width": 0.828},
        "observe": [{"norm_within": [5.58]}],
        "time": {"steps": 15, "t_final": 1.919},
    }
    found = scalars_of(tmp_path, deck)["norm_within_5.58"]
    grid = {**deck["grid"], "points": 397, "stencil": "numerov"}
    fine = {**deck, "grid": grid, "time": {"steps": 600, "t_final": 1.919, "verify": False}}
    true = scalars_of(tmp_path, fine)["norm_within_5.58"].value
    assert 1.0 - true > 20.0 * (1.0 - found.value) > 0.0
    assert abs(found.value - true) <= 3.0 * found.error


def test_nested_grids_alias_the_points_of_a_table_alike(tmp_path):
    """Every second point of a table falls near one of the grid: its error is a slow wave, the same on a grid twice as fine.

    The potential is even about 0, the dipole moment of its ground state vanishes.
    """
    x = np.linspace(-50.0, 50.0, 401)
    np.savetxt(tmp_path / "v.txt", np.column_stack([x, -0.9 / np.cosh(0.7 * x)]), fmt="%.17g")
    deck = {
        "task": "propagate",
        "grid": {"xmin": -16.01, "xmax": 33.32, "points": 96},
        "potential": {"type": "table", "file": str(tmp_path / "v.txt")},
        "initial": {"type": "eigenstate", "level": 0},
        "time": {"steps": 20, "t_final": 2.0},
    }
    dipole = scalars_of(tmp_path, deck)["dipole_final"]
    assert abs(dipole.value) > 1e-6
    assert abs(dipole.value) <= 3.0 * dipole.error


def energy_over_a_barrier(edge, centre, depth=-0.83, width=2.4):
    """Energy of the packet below: momentum, spread, and the integral of the barrier over its density."""
    x = np.linspace(-12.0, 12.0, 48_001)
    density = np.exp(-((x + 1.3) ** 2) / (2 * 0.9**2)) / (0.9 * np.sqrt(2 * np.pi))
    y = x - centre
    v = -0.5 * depth * (erf((y + 0.5 * width) / edge) - erf((y - 0.5 * width) / edge))
    return 0.5 * 0.4**2 + 1 / (8 * 0.9**2) + np.sum(density * v) * (x[1] - x[0])


@pytest.mark.parametrize(
    ("edge", "points", "centre", "resolved"),
    [(0.15, 43, 0.2, False), (0.3, 42, 0.7, False), (0.3, 38, 0.8, False), (1.4, 61, 0.35, True)],
)
def test_edges_between_the_points_are_claimed(tmp_path, edge, points, centre, resolved):
    """The grids of run and companions see equal parts of the edges; a resolved edge adds nothing to the claim."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -13.6, "xmax": 12.2, "points": points, "stencil": "three_point"},
        "potential": {"type": "square_well", "depth": -0.83, "width": 2.4, "x0": centre, "edge": edge},
        "initial": {"type": "gaussian", "x0": -1.3, "k0": 0.4, "width": 0.9},
        "time": {"steps": 40, "t_final": 0.4},
    }
    energy = scalars_of(tmp_path, deck)["energy_initial"]
    off = abs(energy.value - energy_over_a_barrier(edge, centre))
    assert off < 2.0 * energy.error
    assert energy.error < (2.0 if resolved else 6.0) * off


def test_a_potential_that_is_not_resolved_where_nothing_is_counts_in_short_runs_only(monkeypatch):
    """A long run asks where the electron is; at the foot of a barrier 9 bohr away there is none."""
    well = SquareWell(type="square_well", depth=-0.4, width=2.0, x0=6.1, edge=0.1)
    x = np.linspace(-9.0, 9.0, 61)
    lattice = Lattice(-9.0, 0.3, 61, "three_point", well.V(x))
    psi = np.exp(-((x + 3.0) ** 2)).astype(complex)
    run = SimpleNamespace(lattice=lattice, potential=well, steps=10, psi0=psi)
    assert not accuracy.resolved(run, psi)
    monkeypatch.setattr(accuracy, "FINE", 100)
    assert accuracy.resolved(run, psi)
    assert not accuracy.resolved(run, psi[::-1])


@pytest.mark.parametrize(("edge", "seen"), [(0.2, False), (1.6, True)])
def test_the_average_of_a_potential_about_each_point(edge, seen):
    """Sums over the points with it are integrals, and where the grid resolves the potential it is the potential."""
    well = SquareWell(type="square_well", depth=0.7, width=3.1, x0=0.23, edge=edge)
    x = np.linspace(-11.0, 11.0, 45)
    average, value = potentials.averaged(well, x), well.V(x)
    fine = np.linspace(-11.0, 11.0, 44_001)
    dx, step = x[1] - x[0], fine[1] - fine[0]
    for centre in (-1.7, 0.4):
        density = np.exp(-((x - centre) ** 2) / 2.6)
        exact = np.sum(np.exp(-((fine - centre) ** 2) / 2.6) * well.V(fine)) * step
        assert np.sum(density * average) * dx == pytest.approx(exact, rel=2e-4)
        assert (abs(np.sum(density * value) * dx / exact - 1.0) < 2e-4) == seen
    quintic = Polynomial(type="polynomial", coefficients=[0.3, -0.2, 0.1, 0.04, -0.01, 0.002])
    assert potentials.averaged(quintic, x) == pytest.approx(quintic.V(x), rel=1e-12, abs=1e-11)


def test_energies_of_fine_grids_in_single_precision(tmp_path):
    """The kinetic energy of neighbouring points cancels to ``(k dx)^2``: it is taken in double precision."""
    deck = {
        "task": "propagate",
        "grid": {"xmin": -8.0, "xmax": 8.0, "points": 4001, "stencil": "numerov"},
        "potential": {"type": "harmonic", "omega": 1.0},
        "initial": {"type": "gaussian", "x0": 0.0, "k0": 2.0, "width": 0.7071067811865476},
        "time": {"steps": 2, "t_final": 0.01, "verify": False},
        "run": {"precision": "single"},
    }
    assert scalars_of(tmp_path, deck)["energy_initial"].value == pytest.approx(2.5, abs=1e-6)


@pytest.mark.parametrize("seed", [9, 79, 85, 87])
def test_cyclic_systems_with_columns_of_different_size(seed):
    """Every unknown is right in its own unit, although the norms of the backward error are those of the largest."""
    rng = np.random.default_rng(seed)
    a, b, c, d = (rng.normal(size=3) for _ in range(4))
    a = 0.6 * np.sign(a) * (np.abs(b) + np.abs(c))
    columns = 2.0 ** np.round(3.32 * rng.uniform(-2.5, 2.5, 3))
    matrix = dense(a, b, c, cyclic=True)
    assert np.linalg.cond(matrix) < 30.0
    exact = np.linalg.solve(matrix, d)
    found = solve(a * columns, b * np.roll(columns, 1), c * np.roll(columns, -1), d, cyclic=True)
    assert np.abs(found.x * columns - exact).max() < 1e-14 * np.abs(exact).max()

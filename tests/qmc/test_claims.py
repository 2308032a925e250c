"""Claims that runs take back, and numbers that hold them: divergences, population, time steps, scales."""

import math
import re

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.qmc.analysis import _is_resolved
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.relaxation import STRAYED, Rows, Start
from qsim.qmc.sampling.series import Series
from qsim.qmc.statistics.samples import MOST_ROWS, Samples
from qsim.qmc.statistics.timestep import bounded, extrapolate
from qsim.qmc.wavefunction.singular import divergences

VMC = {"vmc": {"walkers": 64, "blocks": 24, "steps": 12, "warmup": 100}}


def trap(source="hooke", electrons=2, **keys):
    return {"system": {"electrons": electrons}, "wavefunction": {"orbitals": {"source": source, **keys}}}


def slater(symbol, charge=0, spin=0, jastrow="none", **shell):
    rows = {"molecular_orbitals": [[1.0] + [0.0] * (2 * shell.get("l", 0))]}
    orbitals = {"source": "sto", "shells": [{"atom": symbol, **shell}], **rows}
    system = {"atoms": [[symbol, 0, 0, 0]], "charge": charge, "spin": spin}
    return {"system": system, "wavefunction": {"orbitals": orbitals, "jastrow": jastrow}}


# ------------------------------------------------------------------------------------- warm-up


@pytest.mark.parametrize(
    ("charge", "zeta", "keys"),
    [
        ("Li", 2.4, {"walkers": 150, "timestep": 0.009, "warmup": 15, "blocks": 28, "steps": 2}),
        ("Li", 2.5, {"walkers": 80, "timestep": 0.001, "warmup": 30, "blocks": 36, "steps": 1}),
        ("He", 1.75, {"walkers": 300, "timestep": 0.015, "warmup": 25, "blocks": 40, "steps": 1}),
        ("He", 1.5, {"walkers": 70, "timestep": 0.018, "warmup": 18, "blocks": 33, "steps": 2}),
    ],
)
def test_walkers_that_have_not_left_their_start_are_told(qmc, charge, zeta, keys):
    """The kinetic energy of two electrons in 1s is zeta squared; the warm-up that the warning names is enough for it."""
    deck = slater(charge, 1 if charge == "Li" else 0, n=1, zeta=zeta)
    needed = 0
    for seed in (5, 6):
        short = qmc.execute(f"short{seed}", **deck, run={"seed": seed}, series=[{"vmc": keys}])
        told = [text for text in short["warnings"] if "warm-up is too short" in text]
        assert len(told) == 1
        assert f"{keys['warmup']} sweeps" in told[0]
        wanted = int(re.search(r"about (\d+) sweeps are needed", told[0])[1])
        assert wanted * keys["timestep"] > 2.0 / zeta**2
        needed = max(needed, wanted)
    # the need is estimated from the run itself: it scatters by a fifth
    keys = {**keys, "warmup": min(3 * needed // 2, 20_000)}
    enough = qmc.execute("enough", **deck, run={"seed": 7}, series=[{"vmc": keys}])
    assert not any("warm-up is too short" in text for text in enough["warnings"])
    kinetic = enough["scalars"]["vmc_kinetic"]
    assert abs(kinetic["value"] - zeta**2) < 4.0 * kinetic["error"]


def rows_of(acceptance=1.0, count=100, walkers=64):
    """Return a series of blocks of 0.1/hartree and kinetic energy 2 hartree, whose energies forget in a block or two."""
    samples = Samples(walkers)
    generator = np.random.default_rng(3)
    energy = np.zeros(walkers)
    for _ in range(count):
        sums = np.ones((walkers, 8))
        energy = 0.5 * energy + generator.standard_normal(walkers)
        sums[:, 0] = 2.0 + 0.1 * generator.standard_normal(walkers)
        sums[:, 5] = energy
        samples.add(sums)
    info = {
        "block_time": 0.1,
        "walkers": float(walkers),
        "warm": 100.0,
        "settled": 0.0,
        "acceptance": acceptance,
    }
    return Series("vmc", "vmc, tau = 0.1", 0.1, {}, info, samples=samples)


@pytest.mark.parametrize("acceptance", [1.0, 0.5])
def test_walkers_need_time_to_leave_where_they_are_placed(acceptance):
    """T ln(2 away sqrt(N T / 2 t)) with T = 4/3 over the kinetic energy, longer where moves are refused."""
    start = Start.of(rows_of(acceptance), 0, 1)
    slowest = 4.0 / 3.0 / 2.0 / acceptance ** (4.0 / 3.0)
    expected = slowest * math.log(2.0 * STRAYED * math.sqrt(64 * slowest / 2.0 / 10.0))
    assert start.needed == pytest.approx(expected, rel=0.01)
    assert start.missing == math.ceil(start.needed / 0.1)


@pytest.mark.parametrize(
    ("count", "particles", "resolved"), [(21, 1, True), (19, 1, False), (79, 3, False), (81, 3, True)]
)
def test_a_run_of_three_relaxations_is_resolved(count, particles, resolved):
    """Of one particle they last 2/3 each; of several, the outer ones are taken to be as slow as in hydrogen, 8/3."""
    series = rows_of(count=count)
    assert _is_resolved(series, Rows.of(series, 0), particles) == resolved


def test_sections_after_a_long_one_need_no_warm_up(qmc):
    first = {"vmc": {"walkers": 60, "blocks": 20, "steps": 4, "timestep": 0.1, "warmup": 300}}
    second = {"vmc": {"walkers": 60, "blocks": 20, "steps": 4, "timestep": 0.05, "warmup": 0}}
    warnings = qmc.execute(**slater("He", n=1, zeta=1.8), series=[first, second])["warnings"]
    assert not any("warm-up is too short" in text for text in warnings)


# ------------------------------------------------------------------------------------- divergences


@pytest.mark.parametrize(
    ("deck", "expected"),
    [
        (slater("Li", 2, 1, n=1, zeta=2.6), {"an electron and the nucleus of Li": 0.4}),
        (slater("Li", 2, 1, n=1, zeta=3.0), {}),
        (slater("Li", 2, 1, n=2, l=1, zeta=1.2), {}),  # the density vanishes there
        (slater("Be", 2, n=1, zeta=4.0), {"two electrons of opposite spin": 1.0}),
        (slater("Be", 2, n=1, zeta=4.0, jastrow={"J2": {"type": "pade", "b": 2.0}}), {}),
        (trap(omega=1.7), {}),
        (trap("harmonic", omega=1.7, interacting=True), {"two electrons of opposite spin": 1.0}),
        (trap("harmonic", omega=1.7), {}),
    ],
)
def test_where_local_energies_diverge(qmc, deck, expected):
    found = {one.where: one.strength for one in divergences(qmc.build(**deck, series=[VMC]).wavefunction)}
    assert found == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize(("symbol", "zeta", "strength"), [("He", 1.7, 0.3), ("H", 1.1, 0.1)])
@pytest.mark.parametrize("distance", [21.0, 33.0, 60.0])
def test_atoms_out_of_reach_of_each_other_are_asked_one_by_one(qmc, symbol, zeta, strength, distance):
    """Electrons that left their atom would leave nothing of the determinant; triplets of hydrogen, pairs of helium."""
    deck = slater(symbol, n=1, zeta=zeta, spin=2 if symbol == "H" else 0)
    deck["system"]["atoms"].append([symbol, 0, 0, distance])
    del deck["wavefunction"]["orbitals"]["molecular_orbitals"]
    found = {one.where: one.strength for one in divergences(qmc.build(**deck, series=[VMC]).wavefunction)}
    assert found[f"an electron and the nucleus of {symbol}"] == pytest.approx(strength, rel=1e-2)
    if distance == 33.0:
        scalars = qmc.execute(**deck, series=[VMC])["scalars"]
        assert scalars["vmc_variance"]["error"] is None
        assert scalars["vmc_energy"]["error"] > 0.0


def test_a_function_that_vanishes_at_the_nucleus_is_told(qmc):
    """r exp(-zeta r) is no node, but diffusion does not get its energy at any time step."""
    deck = slater("He", 1, 1, n=2, zeta=1.4)
    dmc = {"dmc": {"walkers": 20, "timesteps": [0.01], "blocks": 20, "steps": 5, "warmup": 0.1}}
    assert [one.vanishes for one in divergences(qmc.build(**deck, series=[VMC]).wavefunction)] == [True]
    warnings = qmc.execute(**deck, series=[dmc])["warnings"]
    assert any("not reliable at any time step" in text for text in warnings)


def test_a_variance_without_cusp_has_no_error_bar(qmc):
    bare = qmc.execute("bare", **slater("Be", 2, n=1, zeta=3.7), series=[VMC])["scalars"]
    assert bare["vmc_variance"]["error"] is None
    assert bare["vmc_energy"]["error"] > 0
    width = qmc.execute("width", **trap(omega=0.8, exponent=0.45), series=[VMC])["scalars"]
    assert width["vmc_variance"]["error"] > 0


# ------------------------------------------------------------------------------------ Hooke's atom


def test_hooke_without_jastrow_has_none(qmc):
    """Gaussians of the trap alone: 3 omega + <1/r12>, which is 2 (alpha/pi)^(1/2)."""
    deck = trap(omega=1.1)
    deck["wavefunction"]["jastrow"] = "none"
    plain = qmc.execute("plain", **deck, series=[VMC])
    energy = plain["scalars"]["vmc_energy"]
    expected = 3 * 1.1 + 2 * math.sqrt(0.55 / math.pi)
    assert abs(energy["value"] - expected) < 5 * energy["error"]
    assert plain["scalars"]["vmc_variance"]["value"] > 0.05
    exact = {**trap(omega=1.1), "series": [VMC]}
    assert (
        qmc.load(**exact).deck.wavefunction.jastrow.J2.type == "log1p"
    )  # the resolved deck says what is taken
    problem = qmc.build(**exact)
    assert [f.kind for f in problem.wavefunction.jastrow.functions][:2] == ["none", "log1p"]


# ------------------------------------------------------------------------------------- population


@pytest.mark.parametrize("walkers", [12, 400])
def test_the_bias_of_few_walkers_is_told(qmc, walkers):
    """The estimate falls as 1/N, and is part of the error.

    One run of this length knows it, and with it the square of its error, to a factor of 2 (24 seeds: 0.005 to 0.16 for
    bias N, 0.045 in the mean of the logarithms); the mean of eight runs to 30 %.
    """
    deck = slater("H", 0, 1, n=1, zeta=0.6)
    dmc = {"walkers": walkers, "timesteps": [0.05], "blocks": 40, "steps": 60, "warmup": 6.0}
    biases = []
    for seed in range(8):
        scalars = qmc.execute(f"run_{seed}", **deck, run={"seed": seed}, series=[{"dmc": dmc}])["scalars"]
        biases.append(scalars["dmc_population_bias"]["value"])
        assert scalars["dmc_energy"]["error"] > biases[-1] > 0
    assert 0.01 < math.exp(np.mean(np.log(biases))) * walkers < 0.2


# ------------------------------------------------------------------------------------- time steps


def test_the_window_of_branching_grows_as_the_time_step_shrinks(qmc, monkeypatch):
    """0.2 sqrt(N / tau), Zen and others."""
    seen = []
    true = walk.diffuse

    def watched(*args, window, **keys):
        seen.append(window)
        return true(*args, window=window, **keys)

    monkeypatch.setattr(walk, "diffuse", watched)
    dmc = {"walkers": 10, "timesteps": [0.09, 0.01], "blocks": 1, "steps": 1, "warmup": 0.0}
    qmc.run(**trap("harmonic", electrons=2, omega=1.0), series=[{"dmc": dmc}])
    assert sorted(set(np.round(seen, 9))) == pytest.approx(
        [0.2 * math.sqrt(2 / 0.09), 0.2 * math.sqrt(2 / 0.01)]
    )


@pytest.mark.parametrize(
    ("order", "curvature", "taus", "scale"),
    [
        ("linear", 3.0, [0.6, 0.3], 4.0),
        ("linear", -5.0, [0.4, 0.2, 0.1], 9.0),
        ("linear", 40.0, [0.4, 0.2, 0.1, 0.05], 9.0),
        ("quadratic", 2.0, [0.5, 0.25, 0.125], 2.0),
    ],
)
def test_powers_that_a_fit_leaves_out_are_in_its_error(order, curvature, taus, scale):
    """Energies 1 + tau + c tau^2 (+ c scale tau^3) without noise; error bars that are far too small for a line."""
    x = np.array(taus)
    energies = 1.0 + x + curvature * x**2 + (curvature * scale * x**3 if order == "quadratic" else 0.0)
    errors = np.full(x.size, 1e-4)
    plain = extrapolate(x, energies, errors, order)
    assert abs(plain.value - 1.0) > 5 * plain.error
    found = bounded(plain, x, energies, errors, np.zeros(x.size), order, scale)
    assert found.value == plain.value
    assert abs(found.value - 1.0) < 1.5 * found.error < 30 * abs(found.value - 1.0)


def test_small_time_steps_add_little_to_the_error():
    x = np.array([0.01, 0.005, 0.0025])
    errors = np.array([1e-3, 1.2e-3, 1.5e-3])
    plain = extrapolate(x, -1.0 + 0.1 * x, errors)
    found = bounded(plain, x, -1.0 + 0.1 * x, errors, np.zeros(3), "linear", 4.0)
    assert found.error < 1.05 * plain.error
    assert found.truncation < 0.3 * plain.error


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("order", ["linear", "quadratic"])
def test_what_branching_cuts_off_is_in_the_error(power, order):
    """An error and the energy that is cut off that go as the same power of the time step, one of them half of the other."""
    x = np.array([0.2, 0.1, 0.05, 0.025])
    cut, errors = 0.3 * x**power, np.full(x.size, 1e-4)
    plain = extrapolate(x, -1.0 + 0.5 * cut, errors, order)
    found = bounded(plain, x, -1.0 + 0.5 * cut, errors, cut, order, 1e-3)
    assert abs(found.value + 1.0) < 1.5 * found.error
    if power == 1.0:  # which the fit takes away
        assert found.error < 1.1 * plain.error
    else:
        assert found.error < 10.0 * abs(found.value + 1.0)


@pytest.mark.parametrize(
    ("zeta", "taus"), [(1.5, [0.4, 0.2, 0.1]), (0.6, [1.0, 0.5, 0.25]), (1.0, [0.4, 0.2, 0.1])]
)
def test_poor_trial_functions_and_coarse_steps_claim_little(qmc, zeta, taus):
    """Hydrogen, whose local energies go as (zeta - 1) / r: without what is cut off these were 4 to 8 error bars off."""
    dmc = {"walkers": 100, "timesteps": taus, "blocks": 20, "steps": 40, "warmup": 8.0}
    summary = qmc.execute(**slater("H", 0, 1, n=1, zeta=zeta), run={"seed": 3}, series=[{"dmc": dmc}])
    found = summary["scalars"]["dmc_energy_extrapolated"]
    assert abs(found["value"] + 0.5) < 2.5 * found["error"]
    assert any("branching cuts off" in text for text in summary["warnings"]) == (zeta != 1.0)


def test_no_error_is_below_rounding(qmc):
    """One electron in a plane wave has a constant energy, at all time steps; its extrapolation is told all the same."""
    deck = {
        "system": {
            "electrons": 1,
            "spin": 1,
            "lattice": [[5, 0, 0], [0, 6, 0], [1, 0, 7]],
            "twist": [0.2, 0.1, -0.3],
        },
        "wavefunction": {"orbitals": "planewave", "jastrow": "none"},
        "series": [
            VMC,
            {"dmc": {"walkers": 8, "timesteps": [0.2, 0.1], "blocks": 20, "steps": 2, "warmup": 0.4}},
        ],
    }
    summary = qmc.execute(**deck)
    scalars = summary["scalars"]
    k = 2.0 * np.pi * np.linalg.inv(deck["system"]["lattice"]) @ [0.2, 0.1, -0.3]
    for name in ("vmc_kinetic", "dmc_kinetic"):
        assert abs(scalars[name]["value"] - 0.5 * k @ k) < 10.0 * scalars[name]["error"] < 1e-12
    assert scalars["dmc_energy_extrapolated"]["value"] == pytest.approx(
        scalars["dmc_energy"]["value"], abs=1e-12
    )
    assert scalars["dmc_energy_extrapolated"]["error"] > 1e-15
    assert not any("extrapolation" in text for text in summary["warnings"])
    assert scalars["vmc_variance"]["value"] == pytest.approx(0.0, abs=10.0 * scalars["vmc_variance"]["error"])


def test_a_run_shorter_than_the_memory_at_other_time_steps_is_told(qmc):
    """3d of hydrogen forgets within some 10 / hartree; the smallest time step lasts 2 of them."""
    deck = slater("H", 0, 1, n=3, l=2, zeta=0.26)
    dmc = {
        "walkers": 30,
        "timesteps": [1.6, 0.1],
        "blocks": 20,
        "steps": 10,
        "warmup": 60.0,
        "extrapolate": "none",
    }
    warnings = qmc.execute(**deck, run={"seed": 2}, series=[{"dmc": dmc}])["warnings"]
    short = [text for text in warnings if "correlation times" in text]
    assert short
    assert all("tau = 0.1:" in text for text in short)


# ------------------------------------------------------------------------------------------ scales


@pytest.mark.parametrize(
    ("taus", "told"),
    [([15.0, 0.1], True), ([0.3], True), ([0.05, 0.02], False)],
    ids=["steps", "scale", "right"],
)
def test_time_steps_of_other_units_are_told(qmc, taus, told):
    """Z^2 tau of helium is above 1 from a quarter on."""
    dmc = {"dmc": {"walkers": 10, "timesteps": taus, "blocks": 20}}
    loaded = qmc.load(**slater("He", n=1, zeta=1.7), series=[dmc])
    found = [f for f in loaded.deck.check() if "highest energy" in f.message]
    assert len(found) == told
    assert all(f.key == "series.0.dmc.timesteps.0" and f.severity == "warning" for f in found)


@pytest.mark.parametrize(
    ("symbol", "charge", "zeta", "told"),
    [
        ("He", 0, 0.17, True),
        ("He", 0, 17.0, True),
        ("He", 0, 1.3, False),
        ("Be", 2, 3.7, False),
        ("Be", 2, 0.37, True),
    ],
)
def test_exponents_of_another_scale_are_told(qmc, symbol, charge, zeta, told):
    loaded = qmc.load(**slater(symbol, charge, n=1, zeta=zeta), series=[VMC])
    found = [f for f in loaded.deck.check() if "n zeta" in f.message]
    assert len(found) == told
    assert all(f.key == "wavefunction.orbitals.shells.0.zeta" for f in found)


# ----------------------------------------------------------------------------------------- samples


def test_samples_are_joined_without_loss():
    """More rows than are kept: sums, and where blocks begin, stay."""
    count = 3 * MOST_ROWS + 7
    rows = np.random.default_rng(1).random((count, 2, 8))
    whole = Samples(2, 3)
    for k, row in enumerate(rows):
        if k == count // 2:
            whole = Samples(2, 3, whole.state())
        whole.add(row)
    kept = whole.after(0)
    assert kept.shape[0] < MOST_ROWS
    length = round(3 / whole.rows_per_block)
    used = count // length * length
    np.testing.assert_allclose(kept, rows[:used].reshape(-1, length, 2, 8).sum(axis=1))
    assert whole.after(8).shape[0] == kept.shape[0] - math.ceil(8 * 3 / length)


@pytest.mark.parametrize("walkers", [5, 12, 13])
def test_walkers_are_shared_out_to_groups(walkers):
    sums = np.random.default_rng(2).random((walkers, 8))
    samples = Samples(5)
    samples.add_walkers(sums)
    expected = [sums[g::5].sum(axis=0) for g in range(5)]
    np.testing.assert_allclose(samples.after(0)[0], expected)


def test_optimisations_of_hooke_without_parameters_are_refused(qmc):
    with pytest.raises(DeckError, match="no parameters"):
        qmc.build(**trap(), series=[{"optimize": {"walkers": 20}}])

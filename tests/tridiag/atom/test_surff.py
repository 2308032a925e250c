"""t-SURFF with its tail by resolvents against projection and window operator, within its claimed errors."""

import numpy as np
import pytest

from qsim.tridiag.atom.evolution.propagator import AtomLattice
from qsim.tridiag.atom.photoelectrons.surface import at_radius, reflection
from qsim.tridiag.atom.run import AtomEvolution
from qsim.tridiag.atom.states.grid import mapped
from qsim.tridiag.deck.electron import ManolopoulosAbsorber
from qsim.tridiag.tdse import absorbers

YUKAWA = {"type": "yukawa", "Z": 1.9, "range": 2.0}
QUIET = {"type": "manolopoulos", "kmin": 0.15, "delta": 0.2}


def run(
    tridiag,
    atom,
    spectrum,
    *,
    rmax,
    absorber="none",
    gauge="length",
    lmax=4,
    initial="1s",
    pulse=None,
    **time,
):
    pulse = pulse or {"shape": "sin2", "omega": 0.9, "E0": 0.05, "cycles": 4}
    return tridiag.run(
        task="atom",
        atom=atom,
        grid={"rmax": rmax, "dr": 0.2, "l_max": lmax, "map": {"dr0": 0.05, "width": 40}},
        initial=initial,
        laser={"gauge": gauge, "pulses": [pulse]},
        absorber=absorber,
        time={"dt": 0.05, "outputs": 2, "verify": False, **time},
        spectra=[{"energy": [0.08, 0.8], "points": 25, "angles": 19, **spectrum}],
    )


@pytest.mark.parametrize("gauge", ["length", "velocity"])
def test_a_short_range(tridiag, gauge):
    """Nothing acts beyond the sphere: spectrum and angles are those of the projection."""
    flux = run(
        tridiag,
        YUKAWA,
        {"method": "tsurff", "radius": 30},
        rmax=115,
        absorber={"type": "manolopoulos", "kmin": 0.1, "delta": 0.2},
        gauge=gauge,
    )
    states = run(tridiag, YUKAWA, {"method": "scattering"}, rmax=110, gauge=gauge)
    one, two = flux.spectra, states.spectra
    assert one["pes"] == pytest.approx(two["pes"], rel=4e-3, abs=2e-4 * two["pes"].max())
    assert one["pad"] == pytest.approx(two["pad"], rel=5e-3, abs=5e-4 * two["pad"].max())
    assert one["pes_l"][:, :4] == pytest.approx(two["pes_l"][:, :4], rel=5e-3, abs=5e-4 * two["pes"].max())
    assert np.all(np.abs(one["pes"] - two["pes"]) < one["pes_error"] + 2e-4 * two["pes"].max())


CASES = {  # atom, pulse, radius, box of the flux, box of the projection
    "hydrogen": ("hydrogen", {"omega": 0.9, "E0": 0.05, "cycles": 4}, 40, 100, 120),
    "far": ("hydrogen", {"omega": 0.9, "E0": 0.05, "cycles": 4}, 80, 140, 120),
    "two photons": ("hydrogen", {"omega": 0.35, "E0": 0.05, "cycles": 3, "cep": 0.7}, 40, 100, 150),
    "helium": ({"type": "tong_lin", "element": "He"}, {"omega": 1.3, "E0": 0.1, "cycles": 4}, 40, 100, 110),
    "poor absorber": (YUKAWA, {"omega": 0.9, "E0": 0.05, "cycles": 4}, 40, 65, 110),
}


@pytest.mark.parametrize("name", CASES)
def test_claims_hold(tridiag, name):
    """|t-SURFF - projection| lies within the claimed error at nearly every energy, and the error is no excuse."""
    atom, pulse, radius, near, far = CASES[name]
    absorber = {"type": "manolopoulos", "kmin": 0.3, "delta": 0.2} if name == "poor absorber" else QUIET
    keys = {"pulse": {"shape": "sin2", **pulse}, "lmax": 5}
    flux = run(tridiag, atom, {"method": "tsurff", "radius": radius}, rmax=near, absorber=absorber, **keys)
    exact = run(tridiag, atom, {"method": "scattering"}, rmax=far, **keys).spectra["pes"]
    found, claimed = flux.spectra["pes"], flux.spectra["pes_error"]
    off = np.abs(found - exact)
    assert np.mean(off <= claimed + 1e-4 * exact.max()) >= 0.95, off / claimed
    assert off.max() < 0.15 * exact.max()
    assert flux.errors["pes_total"] < 0.6 * flux.numbers["pes_total"]


def test_the_tail_replaces_time(tridiag):
    """A run that ends with the pulse, and one that goes on: the same spectrum; without the tail, most is missed."""
    keys = {"rmax": 90, "absorber": QUIET}
    early = run(tridiag, YUKAWA, {"method": "tsurff", "radius": 30}, **keys)
    late = run(tridiag, YUKAWA, {"method": "tsurff", "radius": 30}, t_final=80.0, **keys)
    assert late.spectra["pes"] == pytest.approx(
        early.spectra["pes"], rel=2e-4, abs=1e-5 * early.spectra["pes"].max()
    )
    none = run(tridiag, YUKAWA, {"method": "tsurff", "radius": 30, "tail": "none"}, **keys)
    assert none.numbers["pes_total"] < 0.5 * early.numbers["pes_total"]


def test_window_operator(tridiag):
    """The same state seen by the window operator: equal areas."""
    flux = run(tridiag, YUKAWA, {"method": "tsurff", "radius": 30}, rmax=90, absorber=QUIET)
    window = run(tridiag, YUKAWA, {"method": "window", "gamma": 0.03, "order": 3}, rmax=110)
    assert window.numbers["pes_total"] == pytest.approx(flux.numbers["pes_total"], rel=0.1)


def test_reflection():
    """A hard wall sends everything back, a good absorber little, a poor one more."""
    grid = mapped(80.0, 0.2, 0.1, 20.0)
    energy = np.array([0.05, 0.2, 0.6])
    found = []
    for kmin in (None, 0.3, 0.15):
        cap = None
        if kmin is not None:
            block = ManolopoulosAbsorber(type="manolopoulos", kmin=kmin, delta=0.2)
            cap, _ = absorbers.evaluate(block, grid.r, box=(-1e9, float(grid.r[-1]), 0.2))
        lattice = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0, cap)
        found.append(reflection(lattice, 1, at_radius(lattice, 30.0), energy, 1.0))
    assert found[0] == pytest.approx(np.ones(3), abs=2e-3)
    assert np.all(found[1] < 0.3)
    assert np.all(found[2] < 0.02)


def test_a_stopped_run_continues_bit_for_bit(tridiag):
    problem = tridiag.build(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 60, "dr": 0.3, "l_max": "auto", "map": {"dr0": 0.1, "width": 25}},
        laser={"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.7, "E0": 0.1, "cycles": 4}]},
        absorber={"type": "manolopoulos", "kmin": 0.3},
        time={"dt": 0.1, "outputs": 10, "verify": False},
        spectra=[{"method": "tsurff", "radius": 30}],
    )
    whole, saved = AtomEvolution(problem), []
    whole.advance(lambda progress: saved.append(whole.state()) if len(saved) < 60 else None)
    again = AtomEvolution(problem, saved[40])
    again.advance(lambda progress: None)
    assert whole.result().flux.shape[1:3] == (2, 2)
    assert np.array_equal(whole.result().flux, again.result().flux)


GOOD = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 90, "dr": 0.2, "l_max": 4},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.5, "E0": 0.02, "cycles": 3}]},
    "absorber": {"type": "manolopoulos", "kmin": 0.2},
    "time": {"dt": 0.1},
    "spectra": [{"method": "tsurff", "radius": 40}],
}
MISTAKES = {
    "no absorber": ({"absorber": "none"}, r"spectra\.0\.tail: .*complex absorber, found none; take absorber"),
    "in the absorber": (
        {"spectra": [{"method": "tsurff", "radius": 80}]},
        r"spectra\.0\.radius: the sphere of 80 bohr .*begins at 57.*radius of 47.*grid\.rmax of 12",
    ),
    "within the excursion": (
        {"laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.05, "E0": 0.06, "cycles": 2}]},
         "spectra": [{"method": "tsurff", "radius": 20}]},
        r"spectra\.0\.radius: the sphere of 20 bohr lies within the excursion of the electron, 24; a radius of 68",
    ),
    "bound": (
        {"spectra": [{"method": "tsurff", "radius": 40, "energy": [-0.1, 0.5]}]},
        r"spectra\.0\.energy: tsurff finds energies above",
    ),
    "A at the end": (
        {"time": {"dt": 0.1, "t_final": 20.0}},
        r"time\.t_final: A = .* need a field that is over",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    changes, message = MISTAKES[name]
    assert not tridiag.load(**GOOD).warnings
    tridiag.refuses(message, **{**GOOD, **changes})


def test_the_total_has_its_error_in_the_summary(tridiag):
    total = tridiag.execute(**GOOD)["scalars"]["pes_total"]
    assert total["error"] > 0.0

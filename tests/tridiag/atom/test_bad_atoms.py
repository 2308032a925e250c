"""Mistakes in decks of `task: atom`: one clear message each, with the number that would do."""

import re

import numpy as np
import pytest

from qsim.core.errors import DeckError
from qsim.tridiag import build

GOOD = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 60, "dr": 0.2, "l_max": 4},
    "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.5, "E0": 0.02, "cycles": 3}]},
    "time": {"dt": 0.1},
}
MISTAKES = {
    "coarse nucleus": ({"grid": {"rmax": 60, "dr": 0.6, "map": "none"}}, r"grid\.dr: .*Z dr = 0\.6.*0\.2"),
    "coarse heavy nucleus": (
        {
            "atom": {"type": "tong_lin", "element": "Ar"},
            "initial": "3p",
            "grid": {"rmax": 60, "map": {"dr0": 0.05}},
        },
        r"grid\.map: .*Z dr = 0\.9.*dr0 of 0\.0111",
    ),
    "falling map": (
        {"grid": {"rmax": 60, "dr": 0.1, "map": {"dr0": 0.2}}},
        r"grid\.map\.dr0: .*must not exceed dr = 0\.1",
    ),
    "fast electrons": (
        {"grid": {"rmax": 60, "dr": 2.5}},
        r"grid\.dr: electrons of momentum .* at most .*found 2\.5",
    ),
    "n and l": ({"initial": {"n": 2, "l": 2}}, r"initial.*: n = 2 must exceed l = 2"),
    "m and l": ({"initial": {"n": 2, "l": 1, "m": 2}}, r"initial.*: \|m\| = 2 must not exceed l = 1"),
    "l and lmax": (
        {"initial": "6h", "grid": {"rmax": 200, "l_max": 3}},
        r"grid\.l_max: the initial state 6h needs lmax of at least 5, found 3",
    ),
    "no such level": (
        {"initial": "9s"},
        r"initial: a box of .* bohr holds \d bound levels of l = 0.*9s.*take grid\.rmax of 293\.9, or a lower level",
    ),
    "a level at the wall": (
        {"initial": "5s", "grid": {"rmax": 34, "l_max": 3}},
        r"initial: (5s has .* at the wall|a box of .* holds \d bound levels).*grid\.rmax of 116\.2",
    ),
    "another potential for each l": (
        {"atom": {"type": "expression", "value": "-1/r - l*exp(-r)"}},
        r"atom\.value: .*unknown name 'l'",
    ),
    "sphere in the absorber": (
        {
            "absorber": {"type": "manolopoulos", "kmin": 0.3},
            "spectra": [{"method": "tsurff", "radius": 55}],
        },
        r"spectra\.0\.radius: the sphere of 55 bohr does not lie before the absorber.* begins at 38.*radius of 28.*rmax of 8",
    ),
    "sphere within the excursion": (
        {
            "laser": {"pulses": [{"shape": "sin2", "omega": 0.05, "E0": 0.1, "cycles": 2}]},
            "grid": {"rmax": 150, "l_max": 40},
            "absorber": {"type": "manolopoulos", "kmin": 0.3},
            "spectra": [{"method": "tsurff", "radius": 30}],
        },
        r"spectra\.0\.radius: the sphere of 30 bohr lies within the excursion of the electron, .*; a radius of \d+",
    ),
    "not a level": ({"initial": "1x7"}, r"initial.*expected a level such as 1s"),
    "no weight": ({"initial": [{"n": 1, "weight": 0}]}, r"initial: all weights"),
    "no ellipticity": (
        {"laser": {"polarization": {"type": "elliptical"}, "pulses": GOOD["laser"]["pulses"]}},
        r"laser\.polarization\.ellipticity: required key is missing",
    ),
    "ellipticity": (
        {
            "laser": {
                "polarization": {"type": "elliptical", "ellipticity": 1.2},
                "pulses": GOOD["laser"]["pulses"],
            }
        },
        r"laser\.polarization\.ellipticity: expected a number of at most 1, found 1\.2",
    ),
    "elliptical along z": (
        {
            "laser": {
                "polarization": {"type": "circular", "direction": "z"},
                "pulses": GOOD["laser"]["pulses"],
            }
        },
        r"laser\.polarization\.direction: unknown key",
    ),
    "unknown polarisation": (
        {"laser": {"polarization": "circlar", "pulses": GOOD["laser"]["pulses"]}},
        r"laser\.polarization: .*circular",
    ),
    "no plane": (
        {
            "laser": {
                "polarization": {"type": "circular", "plane": [[1, 0, 0], [2, 0, 0]]},
                "pulses": GOOD["laser"]["pulses"],
            }
        },
        r"laser\.polarization\.plane: .* span no plane; for instance xy",
    ),
    "no direction": (
        {
            "laser": {
                "polarization": {"type": "linear", "direction": [0, 0, 0]},
                "pulses": GOOD["laser"]["pulses"],
            }
        },
        r"laser\.polarization\.direction: .*has no length",
    ),
    "static and circular": (
        {
            "laser": {"polarization": "circular", "pulses": [{"shape": "static", "E0": 0.01}]},
            "time": {"dt": 0.1, "t_final": 5},
        },
        r"laser\.pulses\.0\.shape: circular polarisation .* static has none; take sin2",
    ),
    "many channels": (
        {
            "grid": {"rmax": 60, "dr": 0.2, "l_max": 200},
            "laser": {"polarization": "circular", "pulses": GOOD["laser"]["pulses"]},
        },
        r"grid\.l_max: l up to 99 .*found 200",
    ),
    "unknown gauge": (
        {"laser": {"gauge": "lenght", "pulses": GOOD["laser"]["pulses"]}},
        r"laser\.gauge: .*did you mean 'length'",
    ),
    "unknown element": (
        {"atom": {"type": "tong_lin", "element": "Kr"}},
        r"atom\.element: expected 'He', 'Ne' or 'Ar'",
    ),
    "no element": ({"atom": {"type": "tong_lin"}}, r"atom\.element: give either element"),
    "unknown ion": (
        {"atom": {"type": "gsz", "Z": 11}},
        r"atom\.xi: xi and eta are known for the neutral atoms",
    ),
    "wrong charge": (
        {"atom": {"type": "expression", "value": "-(1 + exp(-2*r))/r", "Z": 1}},
        r"atom\.Z: the formula tends to -2/r at the nucleus, not to -1/r",
    ),
    "no charge": ({"atom": {"type": "expression", "value": "-1/r^2"}}, r"atom\.value: .*no charge at r = 0"),
    "A at the end": (
        {"time": {"dt": 0.1, "t_final": 20.0}, "spectra": [{"method": "scattering"}]},
        r"time\.t_final: A = .* need a field that is over; it ends at 37\.69",
    ),
    "bound scattering": (
        {"spectra": [{"method": "scattering", "energy": [-0.1, 1.0]}]},
        r"spectra\.0\.energy: scattering states have energies above",
    ),
    "spectrum upside down": (
        {"spectra": [{"method": "window", "energy": [1, 0.5]}]},
        r"spectra\.0\.energy: the first energy 1",
    ),
    "fast spectrum": (
        {"spectra": [{"method": "scattering", "energy": [0.1, 30]}]},
        r"spectra\.0\.energy: .*at most 1/k = 0\.129",
    ),
    "wide absorber": (
        {"absorber": {"type": "manolopoulos", "kmin": 0.1}},
        r"absorber: .* 65.*wide.*grid\.rmax of",
    ),
    "mask and order": (
        {"absorber": {"type": "mask", "width": 10}, "time": {"dt": 0.1, "order": 4}},
        r"time\.order: a mask",
    ),
    "no end": (
        {"laser": {"pulses": [{"shape": "static", "E0": 0.01}]}},
        r"time\.t_final: auto is the end of the pulses",
    ),
    "harmonics of nothing": (
        {
            "laser": {"pulses": [{"shape": "static", "E0": 0.01}]},
            "time": {"dt": 0.1, "t_final": 5},
            "observe": ["hhg"],
        },
        r"observe\.0\.hhg: harmonics of what",
    ),
    "coarse steps": ({"time": {"dt": 2.0}}, r"time\.dt: 6\.33 steps per optical cycle"),
    "single precision": ({"run": {"precision": "single"}}, r"run\.precision: task: atom runs in double"),
    "keys of another task": ({"potential": {"type": "softcore"}}, r"potential: unknown key"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    changes, message = MISTAKES[name]
    with pytest.raises(DeckError, match=message):
        tridiag.load(**{**GOOD, **changes})


def test_good_deck(tridiag):
    assert not tridiag.load(**GOOD).warnings


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [(0.5, -2.0), (1.0, -1.0)] + [(float(r), -1.0 / r) for r in range(2, 12)],
            "needed from 0.01 bohr on",
        ),
        ([(0.001 * k, -np.exp(-0.3 * k) / (0.001 * k)) for k in range(1, 12)], "no Coulomb tail"),
    ],
)
def test_tables(tridiag, rows, message):
    np.savetxt(tridiag.folder / "v.txt", rows)
    with pytest.raises(DeckError, match=message):
        tridiag.load(**{**GOOD, "atom": {"type": "table", "file": "v.txt"}})


WARNINGS = {
    "few l in length gauge": (
        {
            "grid": {"rmax": 200, "l_max": 8},
            "laser": {
                "gauge": "length",
                "pulses": [{"shape": "sin2", "omega": 0.057, "E0": 0.0534, "cycles": 2}],
            },
        },
        r"grid\.l_max: warning: the electron quivers by 16\.\d bohr .* takes lmax of about 16 in length gauge, found 8; auto",
    ),
    "few l in velocity gauge": (
        {
            "grid": {"rmax": 200, "l_max": 5},
            "laser": {
                "gauge": "velocity",
                "pulses": [{"shape": "sin2", "omega": 0.057, "E0": 0.0534, "cycles": 2}],
            },
        },
        r"grid\.l_max: warning: .* takes lmax of about 11 in velocity gauge, found 5",
    ),
    "core": (
        {
            "grid": {"rmax": 60, "l_max": 20, "map": {"dr0": 0.01}},
            "laser": {
                "gauge": "velocity",
                "pulses": [{"shape": "sin2", "omega": 0.1, "E0": 0.1, "cycles": 2}],
            },
        },
        r"time\.dt: warning: velocity gauge with dt A .* dt of 0\.00",
    ),
    "populations at the wall": (
        {"grid": {"rmax": 24, "dr": 0.15, "l_max": 4}, "observe": [{"populations": {"nmax": 3}}]},
        r"observe: warning: populations: the wall of 24 bohr shapes 3s, 3p, 3d, .*last tenth; grid\.rmax of 55\.65",
    ),
    "turning": (
        {
            "grid": {"rmax": 400, "l_max": 20},
            "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.1, "E0": 0.1, "cycles": 2}]},
        },
        r"laser\.gauge: warning: length gauge with rmax E dt",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(tridiag, name):
    changes, message = WARNINGS[name]
    loaded = tridiag.load(**{**GOOD, **changes})
    assert any(re.search(message, text) for text in loaded.warnings), loaded.warnings


def test_the_radius_that_is_named_holds_the_level(tridiag):
    """9s in the box of the message."""
    loaded = tridiag.load(**{**GOOD, "initial": "9s", "grid": {"rmax": 293.9, "dr": 0.2, "l_max": 4}})
    assert not any("9s" in text for text in loaded.warnings)


def test_too_much_memory(tridiag):
    """The plan of a run that no machine holds is refused by the command, with the key to lower."""
    from qsim.core.errors import MemoryLimitError

    huge = {**GOOD, "grid": {"rmax": 9e5, "dr": 0.01, "l_max": 900, "map": "none"}, "initial": "1s"}
    with pytest.raises(MemoryLimitError, match="states and pivots") as caught:
        tridiag.execute("huge", **huge)
    assert "grid.l_max" in str(caught.value.hint)


def test_a_trace_that_is_too_long_is_named(tridiag):
    """What takes the memory is among the parts of the message, and the key to lower is not that of the states."""
    from qsim.core.errors import MemoryLimitError

    long = {**GOOD, "time": {"dt": 0.1, "t_final": 1e10, "verify": False}}
    with pytest.raises(
        MemoryLimitError, match=r"needs (\d+\.?\d*) TB .*\(trace and densities \1 TB"
    ) as caught:
        tridiag.execute("long", **long)
    assert "time.steps" in str(caught.value.hint)


def told(tridiag, **blocks):
    """The warnings of a run."""
    summary = tridiag.execute("told", {"force": True}, **{**GOOD, **blocks})
    return "\n".join(str(one) for one in summary["warnings"])


FEW = {"dt": 0.1, "outputs": 2, "verify": False}
STRONG = {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.8, "E0": 0.2, "cycles": 6}]}


def test_what_a_run_finds_out(tridiag):
    """The last l, the wall without an absorber, what an absorber has taken from a spectrum: which key, and how far."""
    text = told(tridiag, laser=STRONG, time=FEW, grid={"rmax": 30, "dr": 0.25, "l_max": 2})
    assert re.search(r"the last l has held .* of the norm: raise grid\.l_max above 2", text)
    found = re.search(
        r"the wall turns back: raise grid\.rmax, or add an absorber; (\d+\.?\d*) bohr hold the fastest", text
    )
    assert found is not None
    wide = told(tridiag, laser=STRONG, time=FEW, grid={"rmax": float(found[1]), "dr": 0.25, "l_max": 8})
    assert "wall" not in wide
    assert "last l" not in wide
    text = told(
        tridiag,
        laser=STRONG,
        time=FEW,
        grid={"rmax": 60, "dr": 0.25, "l_max": 6},
        absorber={"type": "cap", "width": 30, "strength": 0.2},
        spectra=[{"method": "scattering", "energy": [0.1, 0.6], "points": 5}],
    )
    assert re.search(
        r"of the norm was absorbed before the end and is not in the photoelectron spectrum \(scattering\)",
        text,
    )
    assert "raise grid.rmax, and leave the absorber out" in text


def test_a_field_that_turns_takes_all_m(tridiag):
    """No deck can ask for one m where m is not conserved: the channels follow from field and initial state."""
    problem = tridiag.build(
        **{**GOOD, "laser": GOOD["laser"] | {"polarization": "circular"}, "initial": {"n": 2, "l": 1, "m": 1}}
    )
    assert set(problem.frame.lanes(4).ms.tolist()) == {-4, -3, -2, -1, 0, 1, 2, 3, 4}
    assert np.all((problem.frame.lanes(4).ls + problem.frame.lanes(4).ms) % 2 == 0)


@pytest.mark.parametrize("order", [2, 4])
def test_an_absorber_in_order_4(tridiag, order):
    """The stage that runs backwards leaves the absorber out: nothing grows, and both orders absorb alike."""
    cap = {"type": "cap", "width": 25, "strength": 0.2}
    norms = []
    for one in (2, order):
        run = tridiag.run(
            **{
                **GOOD,
                "laser": STRONG,
                "absorber": cap,
                "time": {"dt": 0.05, "t_final": 110, "outputs": 20, "verify": False, "order": one},
            }
        )
        assert np.all(np.diff(run.frames["norm"]) < 1e-12)
        norms.append(run.final("norm"))
    assert norms[0] < 0.99
    assert norms[1] == pytest.approx(norms[0], abs=2e-4)


@pytest.mark.parametrize(
    ("atom", "initial", "grid", "gauge"),
    [
        # a step of velocity gauge takes 42 parts at this core
        ("muller_ar", "3p", {"dr": 0.25, "l_max": 30}, "length"),
        ("hydrogen", "1s", {"dr": 0.25}, "velocity"),
    ],
)
def test_the_gauge_is_chosen_by_a_cost_that_knows_the_parts_of_its_steps(tridiag, atom, initial, grid, gauge):
    pulse = {"shape": "sin2", "wavelength": "800 nm", "intensity": "1.5e14 W/cm2", "cycles": 3}
    laser = {"gauge": "auto", "pulses": [pulse]}
    keys = {
        "method": "tridiag",
        "task": "atom",
        "atom": atom,
        "initial": initial,
        "grid": grid,
        "laser": laser,
    }
    loaded = tridiag.load(**keys, time={"dt": 0.1})
    assert build.plan(loaded).sizes["gauge"] == gauge

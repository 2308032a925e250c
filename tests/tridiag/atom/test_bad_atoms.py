"""Mistakes in decks of `task: atom`: one clear message each, with the number that would do."""

import re

import numpy as np
import pytest

from qsim.core.errors import DeckError

GOOD = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 60, "dr": 0.2, "lmax": 4},
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
        {"initial": "6h", "grid": {"rmax": 200, "lmax": 3}},
        r"grid\.lmax: the initial state 6h needs lmax of at least 5, found 3",
    ),
    "no such level": (
        {"initial": "9s"},
        r"initial: a box of .* bohr holds \d bound levels of l = 0.*9s.*larger grid\.rmax",
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
            "grid": {"rmax": 60, "dr": 0.2, "lmax": 200},
            "laser": {"polarization": "circular", "pulses": GOOD["laser"]["pulses"]},
        },
        r"grid\.lmax: l up to 99 .*found 200",
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
    "core": (
        {
            "grid": {"rmax": 60, "lmax": 20, "map": {"dr0": 0.01}},
            "laser": {
                "gauge": "velocity",
                "pulses": [{"shape": "sin2", "omega": 0.1, "E0": 0.1, "cycles": 2}],
            },
        },
        r"time\.dt: warning: velocity gauge with dt A .* dt of 0\.00",
    ),
    "turning": (
        {
            "grid": {"rmax": 400, "lmax": 20},
            "laser": {"gauge": "length", "pulses": [{"shape": "sin2", "omega": 0.1, "E0": 0.1, "cycles": 2}]},
        },
        r"laser\.gauge: warning: length gauge with rmax E dt",
    ),
    "narrow window": (
        {"spectra": [{"method": "window", "energy": [0.1, 1.0], "gamma": 1e-4}]},
        r"spectra\.0\.gamma: warning: gamma = 0\.0001 lies below a quarter .*= 0\.07",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(tridiag, name):
    changes, message = WARNINGS[name]
    loaded = tridiag.load(**{**GOOD, **changes})
    assert any(re.search(message, text) for text in loaded.warnings), loaded.warnings

"""First values that every system shares: noise, files with units, fields of other runs; factors of the field as an ensemble."""

from __future__ import annotations

import numpy as np
import pytest

import qsim
from qsim.core.errors import InvalidInput
from tests.qoc.quantum.test_controls import made
from tests.qoc.quantum.test_run import deck

MORSE = {
    "method": "qoc",
    "system": {
        "mass": 1728.468338,
        "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
        "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
        "grid": {"xmin": 1.0, "xmax": 5.0, "points": 161},
        "initial": 0,
        "target": 1,
    },
    "time": {"T": 3000, "steps": 600},
    "control": {"guess": {"type": "expression", "value": "0.004*sin(pi*t/T)^2*cos(0.0172*t)"}},
    "optimizer": "none",
    "verify": False,
}


def run(changes, tmp_path, name):
    return qsim.run({**MORSE, **changes}, output=tmp_path / name, figures="none")


def test_noise_has_its_deviation_and_no_correlation():
    slots = 20_000
    guess = {"type": "noise", "amplitude": 0.3}
    controls, fields = made([{"name": "u", "guess": guess}], time={"T": 2.0, "slots": slots})
    assert controls.lines[0].held
    u = fields[0]
    # the standard error of a variance of n normal values is sqrt(2/n), that of a correlation 1/sqrt(n)
    assert np.var(u) == pytest.approx(0.09, rel=5 * np.sqrt(2 / slots))
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 5 / np.sqrt(slots)
    other = made([{"name": "u", "guess": guess}], 1, time={"T": 2.0, "slots": slots})[1][0]
    assert abs(np.corrcoef(u, other)[0, 1]) < 5 / np.sqrt(slots)


def test_noise_stays_within_bounds():
    guess = {"type": "noise", "amplitude": 5.0}
    _, fields = made([{"name": "u", "guess": guess, "bounds": [-0.5, 1.0]}])
    assert fields.min() >= -0.5
    assert fields.max() <= 1.0


def test_units_of_the_columns_of_a_file(tmp_path):
    """The deck gives the units that the file does not name; a field may be called E."""
    t = np.linspace(0.0, 2.0, 41)
    for header in ("", "time, E\n"):
        rows = "\n".join(f"{a * 1e-3!r}, {float(1e3 * np.cos(a))!r}" for a in t.tolist())
        (tmp_path / "u.csv").write_text(header + rows + "\n")
        file = {"type": "file", "file": str(tmp_path / "u.csv"), "units": {"t": "us", "E": "MHz"}}
        blocks = [{"name": "u", "guess": file}]
        system = {
            "type": "model",
            "unit": "GHz",
            "parts": [{"name": "a", "type": "qubit"}],
            "controls": {"u": "a.sx"},
            "initial": "0",
            "target": "1",
        }
        _, fields = made(blocks, system=system, time={"T": "2 ns", "slots": 80})
        middles = (np.arange(80) + 0.5) * 2.0 / 80
        np.testing.assert_allclose(fields[0], np.interp(middles, t, np.cos(t)), rtol=1e-12)
    file["units"] = {"s": "us"}
    with pytest.raises(InvalidInput, match="no unit is needed of s; give those of t and E"):
        made([{"name": "u", "guess": file}], system=system, time={"T": "2 ns", "slots": 80})


def test_a_field_goes_from_the_paper_s_molecule_to_its_levels_and_back(tmp_path):
    with run({}, tmp_path, "paper") as results:
        field, path = results["field"], results.path
    start = {"guess": {"type": "file", "file": str(path)}}
    with run({"control": start, "observe": ["x"]}, tmp_path, "levels") as results:
        np.testing.assert_array_equal(results["control/field"], field)
        # another basis than the stencil's: its levels differ by 1e-6 hartree, 3e-3 rad in T
        assert results["observed/x"].size == field.size + 1
        path = results.path
    with run({"control": {"guess": {"type": "file", "file": str(path)}}}, tmp_path, "back") as results:
        np.testing.assert_array_equal(results["field"], field)


def test_factors_of_the_field_of_any_system(tmp_path):
    """field_scale is an entry of members: a qubit that turns by f pi has P = sin^2(f pi/2)."""
    factors = [0.9, 1.0, 1.1]
    short = deck(ensemble={"field_scale": factors})
    with qsim.run(short, output=tmp_path / "r", figures="none") as results:
        np.testing.assert_allclose(
            results["member_probability"], np.sin(np.pi / 2 * np.array(factors)) ** 2, atol=1e-12
        )
        np.testing.assert_array_equal(results["member_parameter/control"], factors)

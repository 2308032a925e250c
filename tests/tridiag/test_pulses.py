"""Laser pulses of tridiag: the formulas of the references, E against A, widths, units, sums, tables."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.deck.pulses import Pulse
from qsim.tridiag.tdse.pulses import LaserField, PulseField

REFERENCE = {
    entry["id"]: entry
    for entry in json.loads(
        (Path(__file__).parents[1] / "reference_data" / "tridiag.json").read_text(encoding="utf-8")
    )["references"]
}
W0 = 45.563352529 / 800
E0 = math.sqrt(1e14 / 3.50944758e16)


def block(kind, **keys):
    return TypeAdapter(kind).validate_python(keys)


PULSES = [
    {"shape": "sin2", "cycles": 4.0},
    {"shape": "sin2", "cycles": 4.0, "cep": 0.3, "chirp": 1e-5},
    {"shape": "sin2", "cycles": 4.0, "envelope_on": "E", "cep": 0.3},
    {"shape": "cosn", "fwhm": 100.0, "power": 8.0},
    {"shape": "gaussian", "fwhm": 100.0},
    {"shape": "gaussian", "cycles": 9.0, "envelope_on": "E", "extent": 2.0},
    {"shape": "flat_top", "ramp_cycles": 2.0, "flat_cycles": 4.0},
    {
        "shape": "trapezoid",
        "cycles": 8.0,
        "ramp": 100.0,
        "envelope_on": "A",
        "cep": 0.2,
        "ramp_shape": "sin2",
    },
    {"shape": "cw"},
    {"shape": "cw", "ramp": 100.0, "cycles": 5.0},
    {"shape": "static", "ramp": 30.0, "duration": 200.0},
    {"shape": "expression", "value": "0.05*sin(pi*t/T)^2*cos(0.1*t)", "duration": 300.0},
    {"shape": "expression", "value": "0.5*sin(pi*t/T)^2*cos(0.1*t)", "duration": 300.0, "of": "A"},
]


def pulse(**keys):
    if keys["shape"] not in ("static", "expression", "table"):
        keys = {"omega": 0.057, **keys}
    if keys["shape"] not in ("expression", "table"):
        keys = {"E0": 0.05, **keys}
    return PulseField(block(Pulse, **keys))


@pytest.mark.parametrize("keys", PULSES, ids=lambda keys: f"{keys['shape']}-{keys.get('envelope_on', '')}")
@pytest.mark.parametrize("polarity", [1, -1])
def test_the_field_is_minus_the_derivative_of_a(keys, polarity):
    p = pulse(**keys, delay=10.0, polarity=polarity)
    end, h = min(p.end, 900.0), 1e-2
    t = np.linspace(10.1, end - 0.1, 3001)
    one, two = (p.vector_potential(t + s * h) - p.vector_potential(t - s * h) for s in (1, 2))
    wrong = np.abs(-(8 * one - two) / (12 * h) - p.electric(t)) > 1e-10
    assert np.count_nonzero(wrong) <= 8  # samples that straddle the end of a ramp
    assert p.electric(np.array([9.9]))[0] == 0.0
    assert p.vector_potential(np.array([0.0, 10.0])).tolist() == [0.0, 0.0]
    if math.isfinite(p.end):
        after = np.array([p.end + 1e-9, p.end + 100.0])
        assert np.all(p.electric(after) == 0.0)
        assert p.vector_potential(after) == pytest.approx(
            p.vector_potential(np.array([p.end])).repeat(2), abs=1e-9
        )


def test_the_sin2_pulse_is_that_of_the_references():
    """L3 and C1: ``A = (E0/w0) sin^2(pi t/T) sin(w0 (t - T/2))``."""
    field = LaserField(block(Laser, pulses=[{"shape": "sin2", "omega": W0, "E0": E0, "cycles": 4.0}]))
    params = REFERENCE["C1_sin2_4cycle_final"]["params"]
    T = params["T"]
    assert field.duration == pytest.approx(T, rel=1e-12)
    assert field.up == pytest.approx(params["Up"], rel=1e-12)
    t = np.linspace(0, T, 1001)
    assert np.allclose(
        field.vector_potential(t), E0 / W0 * np.sin(np.pi * t / T) ** 2 * np.sin(W0 * (t - T / 2)), atol=1e-14
    )
    s, c = np.sin(np.pi * t / T), np.cos(np.pi * t / T)
    wave = W0 * (t - T / 2)
    slope = 2 * np.pi / T * s * c * np.sin(wave) + s**2 * W0 * np.cos(wave)
    assert np.allclose(field.electric(t), -E0 / W0 * slope, atol=1e-15)
    assert abs(field.residual(T)) < 1e-15
    assert field.peak(T) == pytest.approx(E0, rel=1e-6)
    assert field.quiver == pytest.approx(E0 / W0**2)
    assert field.keldysh(0.5) == pytest.approx(math.sqrt(0.5 / (2 * params["Up"])))


def test_the_trapezoid_is_that_of_the_reference():
    """C3: ``E = E0 f sin(w0 t)``, linear ramps of 2 cycles, 4 flat."""
    keys = {"shape": "flat_top", "omega": W0, "E0": E0, "ramp_cycles": 2.0, "flat_cycles": 4.0}
    field = LaserField(block(Laser, pulses=[keys]))
    cycle = 2 * np.pi / W0
    assert field.duration == pytest.approx(REFERENCE["C3_hhg_1e14_odd_a"]["params"]["T"], rel=1e-12)
    t = np.linspace(0, 8 * cycle, 2001)
    f = np.clip(np.minimum(t, 8 * cycle - t) / (2 * cycle), 0, 1)
    assert np.allclose(field.electric(t), E0 * f * np.sin(W0 * t), atol=1e-15)
    assert abs(field.residual(8 * cycle)) < 1e-14


def test_cw_is_a_cosine_from_the_start():
    """C6: ``F cos(w t)``."""
    field = LaserField(block(Laser, pulses=[{"shape": "cw", "omega": 0.267, "E0": 0.004}]))
    t = np.linspace(0, 600, 999)
    assert np.allclose(field.electric(t), 0.004 * np.cos(0.267 * t), atol=1e-17)
    assert np.allclose(field.vector_potential(t), -0.004 / 0.267 * np.sin(0.267 * t), atol=1e-14)
    assert math.isinf(field.duration)


@pytest.mark.parametrize("shape", ["sin2", "cosn", "gaussian"])
def test_fwhm_is_that_of_the_intensity(shape):
    keys = {"shape": shape, "omega": 3.0, "E0": 1.0, "fwhm": 400.0, "envelope_on": "E", "cep": math.pi}
    p = PulseField(block(Pulse, **keys))
    t = p.length / 2 + np.array([-200.0, 0.0, 200.0])
    intensity = p.block.envelope(t - p.length / 2)[0] ** 2
    assert intensity == pytest.approx([0.5, 1.0, 0.5], rel=1e-12)
    assert p.electric(t)[1] == pytest.approx(1.0)


@pytest.mark.parametrize("extent", [1.0, 1.3, 1.7, 2.4, 6.0])
def test_a_lowered_gaussian_has_its_width_and_vanishes_at_its_ends(extent):
    keys = {"shape": "gaussian", "omega": 40.0, "E0": 0.7, "fwhm": 11.0, "envelope_on": "E", "extent": extent}
    p = PulseField(block(Pulse, **keys))
    assert p.length == pytest.approx(22.0 * extent)
    t = np.linspace(0.0, p.length, 200_001)
    envelope = p.block.envelope(t - p.length / 2)[0]
    above = t[envelope**2 >= 0.5]
    assert np.ptp(above) == pytest.approx(11.0, abs=2 * (t[1] - t[0]))
    assert envelope[[0, -1]] == pytest.approx([0.0, 0.0], abs=1e-15)
    assert envelope.max() == 1.0
    assert p.block.envelope(t - p.length / 2)[1] == pytest.approx(np.gradient(envelope, t), abs=1e-5)
    gaussian = 2.0 ** (-2.0 * ((t - 11.0 * extent) / 11.0) ** 2)
    away = abs(envelope - gaussian).max()
    assert away < {1.0: 0.3, 1.3: 0.1, 1.7: 0.02, 2.4: 4e-4, 6.0: 1e-14}[extent]
    found = list(block(Pulse, **keys).check("laser.pulses.0"))
    assert [finding.severity for finding in found] == ["warning"] * (extent < 1.8)


def test_units_and_sums():
    keys = {"shape": "sin2", "wavelength": "800 nm", "intensity": "1e14 W/cm2", "cycles": 4.0}
    one = LaserField(block(Laser, pulses=[keys]))
    assert one.omega == pytest.approx(W0, rel=1e-9)
    assert one.pulses[0].amplitude == pytest.approx(E0, rel=1e-6)
    second = {"shape": "gaussian", "omega": 2 * W0, "E0": 0.01, "fwhm": 200.0, "delay": 50.0}
    two = LaserField(block(Laser, pulses=[keys, second]))
    t = np.linspace(0, 1200, 500)
    assert np.allclose(
        two.electric(t), one.electric(t) + LaserField(block(Laser, pulses=[second])).electric(t), atol=1e-17
    )
    assert two.omega == one.omega
    assert two.fastest == 2 * W0
    none = LaserField(None)
    assert none.duration == 0.0
    assert none.omega is None
    assert not np.any(none.electric(t))
    assert none.peak(10.0) == none.up == none.quiver == 0.0


@pytest.mark.parametrize("of", ["E", "A"])
def test_tables_of_the_field(tmp_path, of):
    t = np.linspace(0, 100, 2001)
    values = np.sin(np.pi * t / 100) ** 2 * np.cos(0.3 * t)
    (tmp_path / "e.txt").write_text(
        "\n".join(f"{a:.17g} {b:.17g}" for a, b in zip(t, values, strict=True)), encoding="utf-8"
    )
    p = PulseField(block(Pulse, shape="table", file=tmp_path / "e.txt", of=of, delay=5.0))
    assert p.end == 105.0
    inner = np.linspace(10, 90, 333)
    exact = np.sin(np.pi * inner / 100) ** 2 * np.cos(0.3 * inner)
    found = p.electric(inner + 5) if of == "E" else p.vector_potential(inner + 5)
    assert np.allclose(found, exact - (0 if of == "E" else values[0]), atol=1e-9)
    h = 1e-3
    difference = (p.vector_potential(inner + 5 + h) - p.vector_potential(inner + 5 - h)) / (2 * h)
    assert np.allclose(-difference, p.electric(inner + 5), atol=1e-7)
    assert p.electric(np.array([110.0]))[0] == 0.0


@pytest.mark.parametrize(
    "keys",
    [
        {"shape": "sin2", "cycles": 30.0},
        {"shape": "flat_top", "ramp_cycles": 2.0, "flat_cycles": 30.0},
        {"shape": "trapezoid", "cycles": 30.0, "ramp": 200.0},
        {"shape": "cw", "ramp": 100.0, "cycles": 30.0},
    ],
)
@pytest.mark.parametrize("chirp", [1e-5, -7e-6])
def test_the_highest_frequency_is_that_of_the_field(keys, chirp):
    """Half a period is the distance of two zeros: nowhere in the pulse are they closer, and somewhere nearly as close."""
    one = pulse(**keys, chirp=chirp).block
    # where the envelope vanishes, its own slope makes zeros
    tau = np.linspace(0.05, 0.95, 200_001) * one.length
    field = one.E(tau)
    zeros = tau[1:][np.diff(np.sign(field)) != 0]
    highest = np.pi / np.diff(zeros).min()
    assert highest <= one.fastest * 1.02
    if chirp > 0:
        assert highest >= one.fastest * 0.9

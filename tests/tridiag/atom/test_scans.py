"""Scans of intensity, phase and delay, averages over a focus, attosecond streaking."""

import numpy as np
import pytest
from scipy.integrate import quad

from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.tridiag.atom.scan import below, focal_average
from qsim.tridiag.tasks.atom_scan import _Batch, run_scan

PULSE = {"shape": "sin2", "omega": 0.7, "E0": 0.02, "cycles": 3}
SMALL = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 60, "dr": 0.3, "lmax": 4, "map": {"dr0": 0.05, "width": 30}},
    "laser": {"gauge": "length", "pulses": [PULSE]},
    "time": {"dt": 0.1, "outputs": 2, "verify": False},
}
SPECTRUM = {"method": "scattering", "energy": [0.05, 0.6], "points": 12, "angles": 11}


def test_a_scan_is_its_runs(tridiag):
    """Every run of a batch is, bit for bit, the run of its own deck."""
    scan = {"intensity": [1e-4, 4e-4], "cep": [0.0, 1.0]}
    batch = tridiag.run(**SMALL, scan=scan, spectra=[SPECTRUM])
    assert batch.problem.values == {"intensity": [1e-4, 1e-4, 4e-4, 4e-4], "cep": [0.0, 1.0, 0.0, 1.0]}
    for k, (peak, phase) in enumerate([(0.01, 0.0), (0.01, 1.0), (0.02, 0.0), (0.02, 1.0)]):
        laser = {"gauge": "length", "pulses": [PULSE | {"E0": peak, "cep": phase}]}
        alone = tridiag.run(**SMALL | {"laser": laser}, spectra=[SPECTRUM])
        assert np.array_equal(alone.phi, batch.runs[k].phi)
        assert np.array_equal(alone.spectra["pes"], batch.stacked("pes")[k])
        assert batch.each()["population_1s"][k] == alone.population("1s")


def test_the_worst_run_is_told(tridiag):
    """One l too few in all runs, and most in the second."""
    grid = {**SMALL["grid"], "lmax": 1, "rmax": 40}
    monitor = Monitor.silent()
    problem = tridiag.build(**{**SMALL, "grid": grid}, scan={"intensity": [1e-4, 1.6e-3, 4e-4]})
    found = run_scan(problem, monitor)
    told = [text for text in monitor.warnings if "the last l has held" in text]
    assert len(told) == 1
    last = max(float(one.frames["last"].max()) for one in found.runs)
    assert told[0].startswith(f"run 1: the last l has held {last:.2g} of the norm")
    assert told[0].endswith("(the worst of 3 runs)")


def test_threads(tridiag):
    """Two runs at a time give the bits of one at a time."""
    problem = tridiag.build(cpu(2), **SMALL, scan={"cep": [0.0, 0.7, 1.4]})
    assert problem.device.threads == 2
    both = run_scan(problem, Monitor.silent())
    one = tridiag.run(**SMALL, scan={"cep": [0.0, 0.7, 1.4]})
    assert one.problem.device.threads == 1
    for a, b in zip(one.runs, both.runs, strict=True):
        assert np.array_equal(a.phi, b.phi)
        assert np.array_equal(a.trace, b.trace)


def test_laws(tridiag):
    """One photon: the yield is linear in the intensity. Turning the phase by pi is a mirror."""
    weak = tridiag.run(**SMALL, scan={"intensity": [1e-8, 1e-7, 1e-6], "focal_average": {"dimensions": 2}})
    yields = weak.each()["continuum_population"]
    assert yields / [1e-8, 1e-7, 1e-6] == pytest.approx(np.full(3, yields[0] / 1e-8), rel=1e-3)
    # the integral of I dI / (2 I) is half of the yield at the peak
    assert weak.focal["focal_yield"] == pytest.approx(0.5 * yields, rel=1e-3)
    mirror = tridiag.run(**SMALL, scan={"cep": [0.3, 0.3 + np.pi]}, spectra=[SPECTRUM])
    pad = mirror.stacked("pad")
    assert mirror.each()["population_1s"][0] == pytest.approx(mirror.each()["population_1s"][1], abs=1e-13)
    assert pad[1] == pytest.approx(pad[0][:, ::-1], abs=1e-9 * pad.max())


@pytest.mark.parametrize("power", [1.0, 3.0, 7.5])
def test_focal_average(power):
    """Power laws: the closed form of a thin target, and the volume of Gaussian isophotes, integrated by parts."""
    intensity = np.geomspace(0.1, 2.0, 9)
    values = 0.3 * intensity**power
    share = (0.1 / 1.7) ** power
    assert below(intensity, values, 1.7, 2) == pytest.approx(share, abs=2e-3)
    assert focal_average(intensity, values, 1.7, 2) == pytest.approx(0.3 * 1.7**power / (2 * power), rel=1e-6)

    def volume(i):
        c = np.sqrt(1.7 / i - 1.0)
        return 4 * c / 3 + 2 * c**3 / 9 - 4 * np.arctan(c) / 3

    if power > 1.5:  # below, the wings of the beam hold most of the yield
        by_parts = quad(lambda i: 0.3 * power * i ** (power - 1) * volume(i), 0.0, 1.7, epsrel=1e-10)[0]
        assert focal_average(intensity, values, 1.7, 3) == pytest.approx(by_parts, rel=1e-5)
        both = focal_average(intensity, np.stack([values, 2 * values], axis=1), 1.7, 3)
        assert both == pytest.approx(by_parts * np.array([1.0, 2.0]), rel=1e-5)


def test_streaking(tridiag):
    """The momentum along the field follows -A(t) at the time of the attosecond pulse."""
    infrared = {"shape": "sin2", "omega": 0.114, "E0": 0.006, "cycles": 1}
    xuv = {"shape": "sin2", "omega": 1.5, "E0": 0.01, "cycles": 5}
    scattering = {"method": "scattering", "energy": [0.4, 1.8], "points": 50, "angles": 11}
    delays = [10.0, 16.0, 22.0, 28.0, 34.0]
    found = tridiag.run(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 130, "dr": 0.3, "lmax": 6, "map": {"dr0": 0.1, "width": 30}},
        laser={"gauge": "velocity", "pulses": [infrared, xuv]},
        scan={"pulse": 1, "delay": delays},
        time={"dt": 0.1, "outputs": 2, "verify": False},
        spectra=[scattering],
    )
    k = np.sqrt(2 * found.axis("energy"))
    pad = found.stacked("pad")
    length, duration = 2 * np.pi * 5 / 1.5, 2 * np.pi / 0.114
    t = np.array(delays) + length / 2
    a = 0.006 / 0.114 * np.sin(np.pi * t / duration) ** 2 * np.sin(0.114 * (t - duration / 2))
    for side, sign in ((0, -1.0), (-1, 1.0)):
        spectrum = pad[:, :, side]
        mean = np.trapezoid(spectrum * k, k, axis=1) / np.trapezoid(spectrum, k, axis=1)
        slope, offset = np.polyfit(sign * a, mean, 1)
        assert slope == pytest.approx(1.0, abs=0.1)  # the ion holds the electron back a little
        assert offset == pytest.approx(np.sqrt(2 * (1.5 - 0.5)), abs=0.06)


def test_a_stopped_batch_continues_bit_for_bit(tridiag):
    problem = tridiag.build(**SMALL, scan={"cep": [0.0, 1.0]})
    whole, saved = _Batch(problem, None), []
    whole.advance(lambda progress: saved.append(whole.state()) if len(saved) < 60 else None)
    again = _Batch(problem, saved[50])
    again.advance(lambda progress: None)
    for one, two in zip(whole.runs, again.runs, strict=True):
        assert np.array_equal(one.result().phi, two.result().phi)
        assert np.array_equal(one.result().trace, two.result().trace)


MISTAKES = {
    "nothing": ({"scan": {}}, r"scan: nothing is scanned; give intensity, cep or delay"),
    "pulse": (
        {"scan": {"pulse": 2, "cep": [0.0]}},
        r"scan\.pulse: found 2, but the laser has 1 pulses: 0 to 0",
    ),
    "negative delay": ({"scan": {"delay": [-1.0]}}, r"scan\.delay\.0: .*found -1"),
    "focus without intensities": (
        {"scan": {"cep": [0.0, 1.0], "focal_average": {}}},
        r"scan\.focal_average: .*intensity alone, of at least 3 values",
    ),
    "falling intensities": (
        {"scan": {"intensity": [3e-4, 2e-4, 1e-4], "focal_average": {}}},
        r"scan\.intensity: .*must rise",
    ),
    "too many": (
        {"scan": {"cep": [0.01 * k for k in range(40)], "delay": list(range(40))}},
        r"scan: the scan has 1600 runs",
    ),
    "no laser": (
        {"laser": None, "scan": {"cep": [0.0]}, "time": {"dt": 0.1, "t_final": 1.0}},
        r"scan: .*no laser",
    ),
    "no carrier": (
        {
            "laser": {"pulses": [{"shape": "static", "E0": 0.01}]},
            "scan": {"cep": [0.0]},
            "time": {"dt": 0.1, "t_final": 5.0},
        },
        r"scan\.cep: pulse 0 \(static\) has no carrier",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(tridiag, name):
    changes, message = MISTAKES[name]
    tridiag.refuses(message, **{**SMALL, **changes})

"""Scans of intensity, phase and delay, averages over a focus, attosecond streaking."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import beta

from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import Method
from qsim.tridiag.tdse.scan.focus import focal_average
from qsim.tridiag.tdse.scan.run import _Batch, _worst, run_scan

PULSE = {"shape": "sin2", "omega": 0.7, "E0": 0.02, "cycles": 3}
SMALL = {
    "task": "atom",
    "atom": "hydrogen",
    "grid": {"rmax": 60, "dr": 0.3, "l_max": 4, "map": {"dr0": 0.05, "width": 30}},
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
        assert batch.each()["population_1s"][k] == alone.populations["population_1s"]


def test_a_warning_of_a_scan_is_that_of_its_worst_run(tridiag):
    """Not that of the first run that offends; one run alone is named without comparison."""
    keys = SMALL | {"grid": SMALL["grid"] | {"l_max": 1}}
    monitor = Monitor.silent()
    found = tridiag.run(monitor=monitor, **keys, scan={"intensity": [3e-4, 9e-3, 2e-8, 1e-3]})
    held = [float(one.frames["last"].max()) for one in found.runs]
    assert int(np.argmax(held)) == 1
    told = [text for text in monitor.warnings if "the last l has held" in text]
    assert len(told) == 1
    assert told[0].startswith(f"run 1: the last l has held {held[1]:.2g} of the norm")
    assert told[0].endswith("(the worst of 4 runs)")
    said = [(3, "wall", 0.1, "c"), (0, "core", 1e-6, "a"), (2, "core", 1e-6, "b"), (1, "core", 1e-7, "d")]
    assert list(_worst(said)) == ["run 0: a (the worst of 3 runs)", "run 3: c"]


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


def volume(i, peak):
    """Volume of a Gaussian beam with intensities above i, in units of pi w0^2 zR."""
    c = np.sqrt(peak / i - 1.0)
    return 4 * c / 3 + 2 * c**3 / 9 - 4 * np.arctan(c) / 3


@pytest.mark.parametrize("power", [1.53, 1.6, 1.89, 3.0, 7.5])
@pytest.mark.parametrize(
    "intensity", [np.geomspace(0.1, 1.7, 9), np.array([1.1, 1.3, 1.7])], ids=["nine", "three"]
)
def test_focal_averages_of_power_laws(power, intensity):
    """The volume of Gaussian isophotes, integrated by parts; in logarithms, so that no tail is cut."""
    values = 0.3 * intensity**power
    found = focal_average(intensity, values, 1.7, 3)
    closed = 0.3 * 1.7**power * (2 * beta(power - 0.5, 1.5) + beta(power - 1.5, 1.5)) / 3
    if power >= 3.0:  # less, and quadrature misses the tail
        by_parts = quad(lambda i: 0.3 * power * i ** (power - 1) * volume(i, 1.7), 0.0, 1.7, epsrel=1e-10)[0]
        assert closed == pytest.approx(by_parts, rel=1e-8)
    assert found.value == pytest.approx(closed, rel=1e-10)
    assert abs(found.value - closed) <= 10 * found.error
    both = focal_average(intensity, np.stack([values, 2 * values], axis=1), 1.7, 3)
    assert both.value == pytest.approx(closed * np.array([1.0, 2.0]), rel=1e-10)


@pytest.mark.parametrize("power", [0.4, 1.0, 3.0])
def test_focal_averages_of_a_thin_target(power):
    intensity = np.geomspace(0.1, 2.0, 9)
    found = focal_average(intensity, 0.3 * intensity**power, intensity[6], 2)
    assert found.value == pytest.approx(0.3 * intensity[6] ** power / (2 * power), rel=1e-12)
    assert found.below / found.value == pytest.approx((0.1 / intensity[6]) ** power)


@pytest.mark.parametrize(("power", "dimensions"), [(0.2, 3), (1.0, 3), (1.5, 3), (0.0, 2), (-0.3, 2)])
def test_divergent_focal_averages_are_none(power, dimensions):
    intensity = np.array([0.3, 0.5, 1.0, 2.0])
    found = focal_average(intensity, intensity**power, 2.0, dimensions)
    assert np.isnan(found.value)
    assert np.isnan(found.error)
    assert found.power == pytest.approx(power)


def test_errors_of_focal_averages():
    """Yields that saturate, and rise with another power below the scan: the errors hold."""
    fine = np.geomspace(1e-6, 1.0, 400)
    rng = np.random.default_rng(3)
    for _case in range(15):
        power, scale = rng.uniform(1.7, 8.0), 10.0 ** rng.uniform(-2, 2)

        def law(i, power=power, scale=scale):
            return -np.expm1(-scale * i**power) / (1.0 + 2.0 * i**2)

        intensity = np.geomspace(10.0 ** rng.uniform(-2, -0.5), 1.0, int(rng.integers(3, 12)))
        found = focal_average(intensity, law(intensity), 1.0, 3)
        exact = focal_average(fine, law(fine), 1.0, 3).value
        assert abs(found.value - exact) <= 10 * found.error


def test_a_divergent_average_leaves_the_runs(tridiag):
    """One photon in a long focus: no number, and the reason; everything else is there."""
    scan = {"intensity": [2e-8, 1e-7, 6e-7], "focal_average": {"dimensions": 3}}
    monitor = Monitor.silent()
    weak = run_scan(tridiag.build(**SMALL, scan=scan), monitor)
    assert weak.focal == {}
    assert any(
        "integral in 3 dimensions diverges" in text and "above 1.5" in text for text in monitor.warnings
    )
    assert weak.each()["continuum_population"].shape == (3,)


def test_streaking(tridiag):
    """The momentum along the field follows -A(t) at the time of the attosecond pulse."""
    infrared = {"shape": "sin2", "omega": 0.114, "E0": 0.006, "cycles": 1}
    xuv = {"shape": "sin2", "omega": 1.5, "E0": 0.01, "cycles": 5}
    scattering = {"method": "scattering", "energy": [0.4, 1.8], "points": 50, "angles": 11}
    delays = [10.0, 16.0, 22.0, 28.0, 34.0]
    found = tridiag.run(
        task="atom",
        atom="hydrogen",
        grid={"rmax": 130, "dr": 0.3, "l_max": 6, "map": {"dr0": 0.1, "width": 30}},
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


@pytest.mark.parametrize("phases", [2, 5])
def test_a_scan_of_two_keys_is_drawn_over_both(tmp_path, phases):
    from qsim.core.results.results import open_results
    from qsim.core.results.tables import Scalar, Table
    from qsim.core.results.writing import Content, write_results

    intensity, cep = (
        a.ravel() for a in np.meshgrid([1e13, 2e13, 4e13, 8e13], 0.5 * np.arange(phases), indexing="ij")
    )
    arrays = {
        "scan_intensity": intensity,
        "scan_cep": cep,
        "run_continuum_population": (intensity / 1e14) ** 3 * (2 + np.cos(cep)),
        "hhg_order": np.linspace(0, 30, 31),
        "scan_hhg": np.exp(-np.arange(31.0)) * intensity[:, None],
    }
    axes = {"hhg_order": ("hhg_order",), "scan_hhg": ("run", "hhg_order")}
    tables = [Table(name, axes.get(name, ("run",))) for name in arrays]
    path = tmp_path / "scan.h5"
    scalars = {"runs": Scalar(intensity.size)}
    write_results(
        path, Content("tridiag", "t", "complete", tables, arrays, scalars, {"deck": {"task": "atom"}})
    )
    with open_results(path) as results:
        fig = results.plot("scan")
    left, right = fig.axes[:2]
    assert left.get_xlabel() == "intensity (W/cm$^2$)"
    if phases == 5:
        assert left.get_ylabel() == "carrier-envelope phase (rad)"
        (mesh,) = left.collections
        drawn = np.asarray(mesh.get_array()).reshape(phases, 4)
        assert drawn[3, 2] == arrays["run_continuum_population"][2 * phases + 3]
    else:
        assert [line.get_label() for line in left.get_lines()] == ["0", "0.5"]
        assert left.get_lines()[1].get_ydata().tolist() == arrays["run_continuum_population"][1::2].tolist()
    assert right.get_lines()[1].get_label() == "1e+13, 0.5"
    fig.savefig(tmp_path / "scan.png")


@pytest.mark.parametrize(
    "scan", [{"intensity": [1e-3, 4e-3, 9e-3], "focal_average": {"dimensions": 2}}, {"cep": [0.0, 1.3]}]
)
def test_errors_of_a_scan_hold(tridiag, scan):
    """Every number of every run lies within its error of a run with half the steps, spacings and more l."""
    keys = SMALL | {"grid": {"rmax": 40, "dr": 0.4, "l_max": 3, "map": {"dr0": 0.1, "width": 30}}}
    coarse = {"dt": 0.2, "outputs": 2, "verify": True}
    found = tridiag.run(**keys | {"time": coarse}, scan=scan)
    fine_grid = {"rmax": 40, "dr": 0.2, "l_max": 7, "map": {"dr0": 0.05, "width": 30}}
    fine_time = {"dt": 0.05, "outputs": 2, "verify": False}
    truth = tridiag.run(**keys | {"grid": fine_grid, "time": fine_time}, scan=scan)
    errors, exact = found.each_error(), truth.each()
    assert {"norm_final", "population_1s", "continuum_population"} <= set(errors)
    for name, values in found.each().items():
        if name in errors:
            assert (np.abs(values - exact[name]) <= errors[name]).all(), name
            assert errors[name].max() < 0.05
    scalars = Method("tridiag").scalars(found)
    largest = scalars["continuum_population_max"]
    assert abs(largest.value - exact["continuum_population"].max()) <= largest.error
    if "intensity" in scan:
        apart = np.abs(found.focal["focal_yield"] - truth.focal["focal_yield"])
        assert (apart <= found.focal["focal_yield_error"]).all()
        # without errors of the runs that of the average is smaller
        unclaimed = tridiag.run(**keys | {"time": coarse | {"verify": False}}, scan=scan)
        assert unclaimed.each_error() == {}
        assert (unclaimed.focal["focal_yield_error"] < found.focal["focal_yield_error"]).all()

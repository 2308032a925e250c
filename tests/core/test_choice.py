"""The choice between a GPU and its host: estimates at known speeds, what is kept of measurements, and what overrules."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device import tuning
from qsim.core.device.device import Device
from qsim.core.errors import DeviceError
from qsim.core.run import choice, pipeline
from qsim.core.run.choice import Speeds, faster, on_cuda, on_host
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import stage
from qsim.core.run.work import Work

INPUTS = Path(__file__).resolve().parents[2] / "inputs"
GPU = Device("cuda", 0, "a GPU", 2)
FAST = Speeds()  # of an H200 and its host


def plan(deck, *overrides):
    method = deck.partition("/")[0]
    loaded = load_deck(INPUTS / f"{deck}.yaml", stage(method, "deck").DECK, list(overrides))
    return stage(method, "build").plan(loaded)


def test_estimates_are_sums_that_can_be_made_by_hand():
    speed = Speeds(1e9, 1e10, 1e10, 1e12, 1e13, 1e-5)
    loops = Work(flops=4e9, lanes=choice.LANES)
    assert on_host(loops, speed, 1) == pytest.approx(4.0)
    assert on_host(loops, speed, 6) == pytest.approx(4.0 / 5.0)
    assert on_cuda(loops, speed) == pytest.approx(choice.START + 4e9 / (choice.SHARE * 1e13))
    # a hundredth of the lanes takes a hundred times as long; launches follow each other
    few = replace(loops, lanes=choice.LANES / 100, launches=1e5)
    assert on_cuda(few, speed) == pytest.approx(choice.START + 100 * 4e9 / (choice.SHARE * 1e13) + 1.0)
    # 40 microseconds of work between two launches are not worth a second thread
    assert on_host(few, speed, 16) == pytest.approx(4.0 / (1.0 + choice.GAIN * ((4e-5 / 12e-6) ** 0.5 - 1.0)))
    assert on_host(Work(bytes=3e10, times=2.0), speed, 1) == pytest.approx(6.0)
    assert on_cuda(Work(bytes=3e12), speed) == pytest.approx(choice.START + 3.0)
    assert on_host(Work(core=2.0, flops=1e15), speed, 1) == pytest.approx(2.0)


# measured on an H200 and its host (seconds of the command, GPU and 2 threads): 2.7 and 1.2; 8.4 and 3.4; 23 and hours; 9 and 500
@pytest.mark.parametrize(
    ("deck", "overrides", "takes_gpu"),
    [
        ("tridiag/hhg_800nm", (), False),
        ("sturmian/li_plus_scan", (), False),
        ("qoc/morse", (), False),
        ("qmc/hooke", (), False),
        ("tridiag/hhg_800nm", ("grid.points=1600001",), True),
        ("qmc/h2o_ccecp", ("series.1.vmc.walkers=8192",), True),
        ("trotter/thirty_spins", (), True),
    ],
)
def test_decks_go_where_they_were_measured_to_be_faster(deck, overrides, takes_gpu):
    takes, reason = faster(plan(deck, *overrides).work, GPU, FAST)
    assert takes == takes_gpu
    assert reason.startswith("auto: cuda:0, by" if takes_gpu else "auto: the CPU, by")
    assert ("--device cpu" if takes_gpu else "--device cuda") in reason


DECKS = [f"{path.parent.name}/{path.stem}" for path in sorted(INPUTS.glob("*/*.yaml"))]


@pytest.mark.parametrize("deck", DECKS)
def test_the_devices_of_every_deck_are_chosen_by_an_estimate(deck):
    """A GPU that takes no time wins, unless all of the work stays on the host; one that takes for ever loses."""
    work = plan(deck).work
    assert work.lanes > 0.0
    assert 0.0 <= work.host <= work.core
    assert on_host(work, FAST, 1) > 0.0
    assert on_cuda(work, FAST) > choice.START
    ideal = replace(FAST, cuda_bytes=1e30, cuda_dense=1e30, launch=0.0)
    assert on_cuda(work, ideal) == pytest.approx(choice.START + work.times * work.host)
    for speed, better in ((ideal, None), (replace(FAST, cuda_bytes=1e3, cuda_dense=1e3, launch=1e3), False)):
        takes, reason = faster(work, GPU, speed)
        wanted = on_cuda(work, speed) <= on_host(work, speed, 2) if better is None else better
        assert takes == (wanted and work.host < work.core)
        assert reason.startswith("auto: ")
        assert "not known" not in reason
        assert ("--device cpu" if takes else "--device cuda") in reason


def test_tasks_with_nothing_for_a_gpu_stay_on_the_host():
    for deck, overrides in (
        ("sturmian/outgoing_basis", ["grid.R=2000"]),
        ("tridiag/solve_random", ["solver.type=thomas", "system.n=100000000"]),
        ("tridiag/solve_file", []),
    ):
        work = plan(deck, *overrides).work
        assert work.host == work.core
        assert faster(work, GPU, replace(FAST, cuda_dense=1e30)) == (
            False,
            "auto: the CPU, as this task has nothing for a GPU; --device cuda overrules",
        )


def test_what_stays_on_the_host_counts_on_a_gpu_too():
    whole = Work(core=8.0, lanes=choice.LANES)
    part = replace(whole, host=3.0)
    gone = 3.0 * choice.CORE_FLOPS / (choice.SHARE * FAST.cuda_dense)
    assert on_cuda(part, FAST) == pytest.approx(on_cuda(whole, FAST) + 3.0 - gone)
    assert on_host(part, FAST, 1) == pytest.approx(8.0)


def test_what_no_gpu_computes_takes_the_cpu_or_is_refused():
    made = plan("qmc/diamond_primitive", "wavefunction.orbitals.muffin_tins=auto")
    assert made.cpu_only == ""
    device, (notice,) = choice.chosen(replace(made, cpu_only="spinors"), GPU, True, 1)
    assert (device.is_cuda, device.threads) == (False, 2)
    assert notice == "auto: the CPU, as there are no CUDA kernels for this run: spinors"
    with pytest.raises(DeviceError, match="spinors: on the CPU only"):
        choice.chosen(replace(made, cpu_only="spinors"), GPU, False, 1)


def test_what_is_not_known_stays_on_the_gpu():
    takes, reason = faster(Work(flops=1.0), GPU, FAST)
    assert takes
    assert "not known" in reason


def test_a_slow_gpu_loses_what_a_fast_one_wins():
    work = plan("trotter/thirty_spins").work
    assert faster(work, GPU, FAST)[0]
    assert not faster(work, GPU, replace(FAST, cuda_bytes=1e9, cuda_dense=1e8))[0]


def test_speeds_are_measured_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("QSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("QSIM_TUNE", raising=False)
    monkeypatch.setattr(Device, "describe", lambda self: {"driver": "1"})
    calls = []
    measured = {"cuda_bytes": 1e12, "cuda_dense": 2e12, "launch": 1e-5}
    monkeypatch.setattr(choice, "_cuda", lambda device: calls.append(device) or measured)
    first = choice.speeds(GPU)
    assert first.launch == 1e-5
    assert first.host_flops > 1e7
    assert choice.speeds(GPU) == first
    assert len(calls) == 1
    # nonsense in the file is measured again
    tuning.remember("speeds", GPU, {}, {**asdict(first), "launch": -1.0})
    assert choice.speeds(GPU).launch == 1e-5
    assert len(calls) == 2
    assert json.loads((tmp_path / "tuning.json").read_text(encoding="utf-8"))["entries"]
    monkeypatch.setenv("QSIM_TUNE", "off")
    assert choice.speeds(GPU) == FAST
    assert len(calls) == 2


def test_a_measurement_that_fails_is_replaced_by_typical_speeds(tmp_path, monkeypatch):
    def fails(device):
        raise RuntimeError("out of order")

    monkeypatch.setenv("QSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("QSIM_TUNE", raising=False)
    monkeypatch.setattr(Device, "describe", lambda self: {})
    monkeypatch.setattr(choice, "_cuda", fails)
    assert choice.speeds(GPU) == FAST


@pytest.mark.parametrize(
    ("flag", "environment", "expected"), [(None, "", "cpu"), ("cuda", "", "cuda"), (None, "cuda", "cuda")]
)
def test_only_auto_chooses(tmp_path, monkeypatch, flag, environment, expected):
    """A short deck and a pretended GPU: `auto` takes the processor and says why; who asks for the GPU gets it."""
    monkeypatch.setenv("QSIM_DEVICE", environment)
    monkeypatch.setattr(pipeline, "select", lambda *args, **kwargs: (GPU, []))
    monkeypatch.setattr(choice, "speeds", lambda device: FAST)
    monkeypatch.setattr(Device, "require", lambda self, memory: None)
    monkeypatch.setattr(Device, "free_memory", lambda self: 0)
    monkeypatch.setattr(Device, "describe", lambda self: {})
    found = execute(
        "tridiag",
        INPUTS / "tridiag" / "packet.yaml",
        Options(dry_run=True, device=flag, output=tmp_path / "x", verbosity=-1),
    ).summary
    assert found["device"].partition(":")[0] == expected
    assert any(text.startswith("auto: the CPU") for text in found["notices"]) == (expected == "cpu")


@pytest.mark.parametrize("flag", [None, "cuda"])
def test_what_has_no_kernels(tmp_path, monkeypatch, flag):
    """`auto` leaves a run without CUDA kernels to the CPU and says why; `--device cuda` refuses it."""
    monkeypatch.delenv("QSIM_DEVICE", raising=False)
    monkeypatch.setattr(pipeline, "select", lambda *args, **kwargs: (GPU, []))
    deck = tmp_path / "deck.yaml"
    deck.write_text(
        "{method: tridiag, task: atom, atom: hydrogen, grid: {rmax: 40, dr: 0.3, lmax: 60}, "
        "laser: {gauge: length, polarization: {type: circular, handedness: left}, "
        "pulses: [{shape: sin2, omega: 0.6, E0: 0.01, cycles: 2}]}, time: {dt: 0.1}}"
    )
    options = Options(dry_run=True, device=flag, output=tmp_path / "x", verbosity=-1)
    if flag:
        with pytest.raises(DeviceError, match="channels, more than 1400: on the CPU only"):
            execute("tridiag", deck, options)
        return
    found = execute("tridiag", deck, options).summary
    assert found["device"].startswith("cpu")
    assert any(text.startswith("auto: the CPU, as there are no CUDA kernels") for text in found["notices"])

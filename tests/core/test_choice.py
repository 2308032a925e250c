"""The choice between a GPU and its host: sizes beside measured times, what overrules, and work that no machine ends."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from qsim.core.deck.load import load_deck
from qsim.core.device.device import Device
from qsim.core.errors import DeckError, DeviceError
from qsim.core.run import choice, pipeline
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import MOST_OPERATIONS, Plan, Size, stage

INPUTS = Path(__file__).resolve().parents[2] / "inputs"
GPU = Device("cuda", 0, "a GPU", 2)
CLOSE = 1.2  # a choice is right where it takes at most this much longer; whole commands scatter by 5 to 10 %

# Seconds of whole commands with warm caches on one host (16 cores of a Xeon, one H200): GPU, 16 cores; inf: cut off.
MEASURED = {
    "qmc/hydrogen_bcc": (4.2, 10.7),
    "qmc/diamond_primitive": (4.8, 17.0),
    "qmc/diamond16": (7.0, 17.0),
    "qmc/electron_gas": (7.4, math.inf),
    "qmc/be_atom": (8.3, 13.2),
    "qmc/he_atom": (11.2, 12.2),
    "qmc/h2o_ccecp": (6.8, 7.9),
    "sturmian/e_h_full": (5.1, 7.6),
    "sturmian/he_limit": (3.8, 6.8),
    "sturmian/resonances": (4.6, 6.7),
    "tridiag/h_hhg_800nm": (5.5, 9.9),
    "tridiag/attoclock": (7.2, 15.5),
    "tridiag/ar_ati": (11.2, 13.7),
    "tridiag/hhg_800nm": (6.2, 6.1),
    "tridiag/xuv_ir_streaking": (6.5, 6.8),
    "tridiag/h_static_rate": (27.5, 9.6),
    "trotter/xxz_sector_quench": (4.4, 19.4),
    "trotter/ring_momenta": (7.1, 7.7),
    "trotter/scrambling": (6.8, 2.9),
    "trotter/structure_factor": (4.7, 3.8),
    # the same with an H100: bench/results/commands-devices-cuda-h100-2026-11-27.json
    "qmc/hooke": (2.157, 1.928),
    "qoc/morse": (3.477, 2.872),
}
WATER = (
    "series=[{vmc: {walkers: 65536, blocks: 2, steps: 10, sweeps: 3, timestep: 0.3}}, "
    "{dmc: {walkers: 65536, timesteps: [0.02], blocks: 2, steps: 20, warmup: 4}}]"
)


def plan(deck, *overrides):
    method = deck.partition("/")[0]
    loaded = load_deck(INPUTS / f"{deck}.yaml", stage(method, "deck").DECK, list(overrides))
    return stage(method, "build").plan(loaded)


@pytest.mark.parametrize("deck", MEASURED)
def test_decks_go_where_they_were_measured_to_be_faster(deck):
    gpu, host = MEASURED[deck]
    takes = gpu if plan(deck).size.is_for_gpu else host
    assert takes <= CLOSE * min(gpu, host)


@pytest.mark.parametrize(
    ("deck", "override", "takes_gpu"),
    [
        ("qmc/h2o_ccecp", WATER, True),
        ("qmc/h2o_ccecp", "series=[{vmc: {walkers: 512, blocks: 20, steps: 10, timestep: 0.3}}]", False),
        ("tridiag/hhg_800nm", "grid.points=1600001", True),
        ("tridiag/solve_random", "system.n=100000000", True),
        ("trotter/thirty_spins", "run.seed=1", True),
        ("qoc/robust", "ensemble.field_scale=[1.0]", False),
    ],
)
def test_larger_and_smaller_decks(deck, override, takes_gpu):
    assert plan(deck, override).size.is_for_gpu == takes_gpu


def test_tasks_with_nothing_for_a_gpu_stay_on_the_host():
    for deck, *overrides in (
        ("sturmian/outgoing_basis", "grid.R=2000"),
        ("tridiag/solve_random", "solver.type=thomas", "system.n=100000000"),
        ("tridiag/solve_file",),
        ("trotter/ring_momenta",),
    ):
        device, (notice,) = choice.chosen(plan(deck, *overrides), GPU, True, 1)
        assert not device.is_cuda
        assert notice == "auto: the CPU, as this task has nothing for a GPU; --device cuda overrules"


def test_reasons_name_both_sizes():
    few = Plan(size=Size(1.2e4, "walkers", 3e6))
    device, (notice,) = choice.chosen(few, GPU, True, 1)
    assert (device.is_cuda, device.threads) == (False, 2)
    assert (
        notice
        == "auto: the CPU, as a GPU is faster from 3e+06 walkers on (1.2e+04 here); --device cuda overrules"
    )
    many = Plan(size=Size(3e6, "walkers", 3e6))
    assert choice.chosen(many, GPU, True, 1) == (
        GPU,
        ["auto: cuda:0, faster from 3e+06 walkers on (3e+06 here); --device cpu overrules"],
    )
    # on request, and on several ranks, nothing is chosen
    assert choice.chosen(few, GPU, False, 1) == choice.chosen(few, GPU, True, 2) == (GPU, [])
    unknown = choice.chosen(Plan(), GPU, True, 1)
    assert unknown == (GPU, ["auto: cuda:0, as the size of the run is not known before it"])


def test_no_gpu_is_looked_for_where_auto_takes_the_cpu_anyway(monkeypatch, tmp_path):
    monkeypatch.setattr(choice, "driver_version", lambda: 13000)
    few, many = Plan(size=Size(1.2e4, "walkers", 3e6)), Plan(size=Size(3e6, "walkers", 3e6))
    for plan_ in (few, replace(many, cpu_only="spinors")):
        # the same words as with a GPU at hand
        assert choice.settled(plan_, 1) == choice.chosen(plan_, GPU, True, 1)[1]
    assert choice.settled(many, 1) == choice.settled(few, 2) == choice.settled(Plan(), 1) == []
    monkeypatch.setattr("qsim.core.device.device.cuda_status", lambda: pytest.fail("asked for CUDA"))
    monkeypatch.setattr(pipeline, "prepare", lambda index: pytest.fail("started CUDA"))
    options = Options(dry_run=True, output=tmp_path, device="auto", verbosity=-1)
    summary = execute("qoc", INPUTS / "qoc/morse.yaml", options).summary
    assert summary["device"] == "cpu"
    assert "auto: the CPU, as a GPU is faster from" in summary["notices"][0]
    # without a driver the run says so, as ever
    monkeypatch.setattr(choice, "driver_version", lambda: 0)
    assert choice.settled(few, 1) == []


def test_what_no_gpu_computes_takes_the_cpu_or_is_refused():
    made = plan("qmc/diamond_primitive", "wavefunction.orbitals.muffin_tins=auto")
    assert made.cpu_only == ""
    device, (notice,) = choice.chosen(replace(made, cpu_only="spinors"), GPU, True, 1)
    assert (device.is_cuda, device.threads) == (False, 2)
    assert notice == "auto: the CPU, as there are no CUDA kernels for this run: spinors"
    with pytest.raises(DeviceError, match="spinors: on the CPU only"):
        choice.chosen(replace(made, cpu_only="spinors"), GPU, False, 1)


@pytest.mark.parametrize(
    ("flag", "environment", "expected"), [(None, "", "cpu"), ("cuda", "", "cuda"), (None, "cuda", "cuda")]
)
def test_only_auto_chooses(tmp_path, monkeypatch, flag, environment, expected):
    """A short deck and a pretended GPU: `auto` takes the processor and says why; who asks for the GPU gets it."""
    monkeypatch.setenv("QSIM_DEVICE", environment)
    monkeypatch.setattr(pipeline, "select", lambda *args, **kwargs: (GPU, []))
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
        "{method: tridiag, task: atom, atom: hydrogen, grid: {rmax: 40, dr: 0.3, l_max: 60}, "
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


# ------------------------------------------------------------------------------------- absurd work


def planned(deck, *overrides):
    options = Options(device="cpu", dry_run=True, overrides=overrides, figures=False)
    return execute(deck.split("/")[0], INPUTS / f"{deck}.yaml", options).summary


@pytest.mark.parametrize(
    ("operations", "refused"), [(0.99 * MOST_OPERATIONS, 0), (1.01 * MOST_OPERATIONS, 1)]
)
def test_years_of_a_gpu_are_refused(operations, refused):
    found = Plan(operations=operations, reduce="time.t_final").absurd()
    assert [finding.key for finding in found] == ["time.t_final"] * refused


@pytest.mark.parametrize(
    ("deck", "override", "text"),
    [
        (
            "trotter/thirty_spins",
            "evolve.t_final=1e10",
            "evolve.t_final: the run takes .* operations at least",
        ),
        ("tridiag/solve_random", "system.n=10000000000000000", "system.n: 1.0e.16 rows take about .* days"),
        ("qmc/he_atom", "series.0.vmc.blocks=1000000000000000", "blocks"),
    ],
)
def test_decks_that_no_machine_ends_are_refused(deck, override, text):
    with pytest.raises(DeckError, match=text):
        planned(deck, override)


def test_a_plan_says_nothing_of_time():
    """Memory, sizes and steps are known before a run; its remaining time is told after the first steps."""
    summary = planned("tridiag/packet")
    assert summary["steps"] == 2000
    assert summary["memory"]["job"] > 0
    assert not {"time", "seconds"} & set(summary)


def test_a_plan_shows_no_blocks_of_other_tasks():
    deck = planned("trotter/thermal_ladder")["deck"]
    assert "thermal" in deck
    assert not {"evolve", "spectrum", "floquet", "initial"} & set(deck)
    assert {"evolve", "initial"} <= set(planned("trotter/ring_echo")["deck"])

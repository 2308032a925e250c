"""Every deck in inputs/ runs and gives the numbers of its reference; every kind of figure is drawn.

A deck without a reference fails.  ``qsim check --deck NAME --update`` writes one; its tolerances and, where
there is one, the published value are then to be put in by hand.
"""

import numpy as np
import pytest
import yaml
from matplotlib.colors import to_hex
from matplotlib.container import Container

from qsim import methods
from qsim.core.errors import FileError
from qsim.core.examples.check import cases, folders, run_case
from qsim.core.physics.conversion import factor_between
from qsim.core.results import plotting
from qsim.core.results.display import overlay as overlaying
from qsim.core.results.results import open_results
from qsim.core.run.pipeline import Options, execute
from qsim.core.run.stages import stage
from tests.panels import unexplained

# methods and decks appear in any order; a folder of decks that no method runs must not go unseen
PLACE = folders()
FOLDERS = sorted(path.name for path in PLACE.inputs.iterdir() if path.is_dir())
CASES = cases(FOLDERS, PLACE)

# Drawing takes longer than most runs, so each figure is drawn of one deck, or of two where its parts differ;
# `--exhaustive` draws all.
DRAWN = {
    "qmc/he_atom": "overview trace population reblock timestep optimisation jastrow gofr density",
    "qmc/electron_gas": "sofk",
    "qoc/alignment": "overview goal",
    "qoc/sqrt_iswap": "budget",
    "qoc/fastest": "front",
    "qoc/leakage": "overview fields spectrum populations convergence gate bloch",
    "qoc/robust": "overview fields spectrum populations convergence spectrogram robustness",
    "qoc/travolta_fig4": "overview line_search",
    "qoc/water_stretches": "levels",
    "sturmian/e_h_slow": "phases",
    "sturmian/he_excited": "basis beta convergence partial_waves iterations density pair_density levels",
    "sturmian/he_photo": "photoabsorption fano photo_levels",
    "sturmian/he_response": "transitions polarisability",
    "sturmian/li_plus_scan": "convergence",
    "sturmian/outgoing_basis": "basis beta",
    "sturmian/repulsion_tables": "rates rank",
    "sturmian/temkin_poet": "overview wave sharing unitarity residuals",
    "tridiag/ar_ati": "states photoelectron momentum",
    "tridiag/attoclock": "attoclock",
    "tridiag/eckart": "overview states",
    "tridiag/h_hhg_800nm": "overview angular errors",
    "tridiag/h_static_rate": "populations norm density",
    "tridiag/hhg_800nm": "overview field populations norm dipole density states hhg",
    "tridiag/ionisation_focus": "scan",
    "tridiag/photoelectrons": "photoelectron",
    "tridiag/plane_double_slit": "currents parts",
    "tridiag/plane_he_xuv": "density norm orbitals populations momenta",
    "tridiag/scaling": "time_vs_blocks optimum_vs_n",
    "tridiag/solve_file": "solution",
    "tridiag/xuv_ir_streaking": "scan",
    "trotter/disorder_quench": "overview sz_map entropy curves",
    "trotter/ethanol": "overview nmr multiplets fid",
    "trotter/floquet_brickwork": "overview sz_map entropy curves",
    "trotter/heisenberg_ground": "overview levels structure_factor cuts",
    "trotter/nmr_cluster": "polarisation echo drift",
    "trotter/paper_accuracy": "total",
    "trotter/ring_echo": "correlator echo",
    "trotter/kagome_momenta": "structure_factor",
    "trotter/mbl_ensemble": "overview gap_ratio",
    "trotter/ring_momenta": "levels",
    "trotter/scrambling": "correlations",
    "trotter/structure_factor": "overview spectral",
    "trotter/thermal_ladder": "overview thermal",
}
# Figures that no quick deck of inputs/ has the results for.
# spins that are pumped and emit
DRIVEN = {
    "method": "trotter",
    "task": "steady",
    "system": {"spins": 2, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 0.5}]},
    "dissipation": [{"type": "loss", "rate": 0.5}, {"type": "pump", "rate": 0.1, "sites": [0]}],
    "observe": [{"sz": "all"}, {"emission": {}}],
}
JUMPING = {
    **DRIVEN,
    "task": "evolve",
    "observe": [{"sz": "all"}],
    "open": {"method": "trajectories", "trajectories": 4, "records": True, "counting": {"window": 2.0}},
    "initial": {"type": "neel"},
    "evolve": {"t_final": 4.0, "outputs": 5, "accuracy": 1e-6},
}
SMALL = {
    "trotter steady": DRIVEN,
    "trotter emission": DRIVEN,
    "trotter jumps": JUMPING,
    "trotter counting": JUMPING,
    "tridiag gabor": {
        "method": "tridiag",
        "task": "propagate",
        "grid": {"xmin": -60, "xmax": 60, "points": 601},
        "potential": {"type": "softcore"},
        "initial": {"type": "eigenstate"},
        "laser": {"pulses": [{"shape": "sin2", "omega": 0.2, "E0": 0.03, "cycles": 3}]},
        "time": {"dt": 0.05, "outputs": 7},
        "observe": ["gabor"],
    },
    "sturmian cross_sections": {
        "method": "sturmian",
        "system": {"Z": 1},
        "grid": {"R": 16, "order": 8, "ecs": {"angle": 0.3, "length": 15}},
        "basis": {"type": "fedvr"},
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {
            "type": "scatter",
            "process": "e_h",
            "energy": ["54.4 eV", "68 eV"],
            "observables": ["sigma", "excitation", "unitarity"],
        },
    },
    "sturmian resonances": {
        "method": "sturmian",
        "system": {"Z": 2},
        "grid": {"R": 16, "order": 8, "ecs": {"angle": 0.3, "length": 15}},
        "basis": {"type": "fedvr"},
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "resonances", "near": [-0.72], "errors": False},
    },
    "sturmian asymmetry": {
        "method": "sturmian",
        "system": {"Z": 2},
        "grid": {"R": 14, "order": 8, "ecs": {"angle": 0.3, "length": 15}},
        "basis": {"type": "fedvr"},
        "initial": {"l_max": 1},
        "channels": {"L": 1, "l_max": 1},
        "task": {
            "type": "scatter",
            "process": "photo",
            "photon": ["70 eV", "72 eV"],
            "gauges": ["length"],
            "levels": 2,
        },
    },
    "sturmian scans": {
        "method": "sturmian",
        "system": {"Z": 1},
        "grid": {"R": 16, "order": 8, "ecs": {"angle": 0.3, "length": 15}},
        "basis": {"type": "fedvr"},
        "channels": {"L": 0, "S": 0, "pairs": [[0, 0]]},
        "task": {"type": "scatter", "process": "e_h", "energy": ["54.4 eV"]},
        "scan": {"R": [17, 18]},
    },
    "sturmian angles": {
        "method": "sturmian",
        "system": {"Z": 2},
        "grid": {"R": 16, "order": 8, "ecs": {"angle": 0.3, "length": 15}},
        "basis": {"type": "fedvr"},
        "initial": {"l_max": 0},
        "channels": {"L": 1, "l_max": 1},
        "task": {
            "type": "scatter",
            "process": "born",
            "incident": "5599 eV",
            "q": 0.24,
            "ejected": ["10 eV", "10 eV"],
            "observables": ["sdcs", "fdcs"],
        },
    },
}


def overlaid(function, results):
    """Overlay a figure of a file with itself and read the curves back: all of both are there, and can be told apart.

    Returns the figure of the file alone.
    """
    with plotting.style():
        alone = function(results)
    one_colour_for_each_name(alone)
    single = overlaying._axes(alone)
    if not any(map(overlaying._count, single)):
        with pytest.raises(FileError, match="a map cannot be overlaid"):
            overlaying.overlay(function, [results, results], ["a", "b"], factor_between)
        return alone
    both = overlaying.overlay(function, [results, results], ["a", "b"], factor_between)
    for ax, source in zip(overlaying._axes(both), single, strict=True):
        curves = overlaying._curves(ax)
        for line in overlaying._curves(source):
            same = [
                one for one in curves if np.array_equal(one.get_xydata(), line.get_xydata(), equal_nan=True)
            ]
            assert len(same) >= 2, "a curve of one of the files is missing"
            if line.get_linestyle() != "None":
                assert len({(one.get_color(), one.get_linestyle()) for one in same}) >= 2
        for band in overlaying._bands(source):
            outline = band.get_paths()[0].vertices
            same = [
                one
                for one in overlaying._bands(ax)
                if np.array_equal(one.get_paths()[0].vertices, outline, equal_nan=True)
            ]
            assert len(same) >= 2, "a band of one of the files is missing"
            assert len({(str(one.get_edgecolor()), str(one.get_linestyle())) for one in same}) >= 2
        bars = [len(one.get_segments()) for one in overlaying._bars(ax)]
        assert sum(bars) == 2 * sum(len(one.get_segments()) for one in overlaying._bars(source))
    names = [text.get_text() for text in both.legends[-1].get_texts()]
    assert names == ["a", "b"]
    return alone


def one_colour_for_each_name(figure):
    """Read the legends of all panels of a figure back: what has one name has one colour throughout."""
    colours = {}
    for ax in overlaying._axes(figure):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            colours.setdefault(label, set()).add(colour_of(handle))
    assert {label: found for label, found in colours.items() if len(found) > 1} == {}


def colour_of(handle):
    """Return the colour of a line, a band, a row of bars or points with error bars, as a text."""
    first = next(iter(handle)) if isinstance(handle, Container) else handle
    colour = first.get_color() if hasattr(first, "get_color") else first.get_facecolor()
    return to_hex(np.atleast_2d(colour)[0] if not isinstance(colour, str) else colour)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.exhaustive] if case.slow else []) for case in CASES],
)
def test_deck(case, tmp_path, request):
    figures = DRAWN.get(case.name, "").split()
    report = run_case(
        case, tmp_path, device="cpu", figures=request.config.getoption("--exhaustive") or figures
    )
    assert report.ok, str(report)
    for name in figures:
        assert (tmp_path / f"{case.deck.stem}.{name}.png").stat().st_size > 5000, name
        with open_results(tmp_path / f"{case.deck.stem}.h5") as results:
            figure = overlaid(stage(case.method, "output").FIGURES[name], results)
            assert unexplained(results, f"{case.method} {name}", figure) == []


@pytest.mark.parametrize("name", SMALL)
def test_figures_of_small_decks(name, tmp_path):
    method, figure = name.split()
    path = tmp_path / "deck.yaml"
    path.write_text(yaml.safe_dump({**SMALL[name], "output": {"figures": [figure]}}), encoding="utf-8")
    execute(method, path, Options(device="cpu", output=tmp_path, verbosity=-1))
    assert (tmp_path / f"deck.{figure}.png").stat().st_size > 5000
    with open_results(tmp_path / "deck.h5") as results:
        drawn = overlaid(stage(method, "output").FIGURES[figure], results)
        assert unexplained(results, f"{method} {figure}", drawn) == []
        with plotting.style():
            one_colour_for_each_name(stage(method, "output").FIGURES["overview"](results))


@pytest.mark.parametrize("method", methods.available())
def test_every_figure_is_drawn(method):
    quick = {case.name for case in CASES if not case.slow}
    assert set(DRAWN) <= quick
    drawn = {name for deck, names in DRAWN.items() if deck.startswith(f"{method}/") for name in names.split()}
    drawn |= {name.split()[1] for name in SMALL if name.split()[0] == method}
    assert drawn == set(stage(method, "output").FIGURES)


#: Decks with an estimator that has no kernel for GPUs, where `auto` takes the CPU.
CPU_ALONE = {"qmc/lih_forces"}


@pytest.mark.gpu
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.exhaustive] if case.slow else []) for case in CASES],
)
def test_deck_on_a_gpu(case, tmp_path):
    report = run_case(case, tmp_path, device="cuda")
    if case.name in CPU_ALONE:
        assert "GPUs have no kernel for it yet; use run.device: cpu" in str(report)
        return
    assert report.ok, str(report)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_of_decks_belongs_to_a_method(folder):
    assert methods.is_available(folder)


@pytest.mark.parametrize("method", methods.available())
def test_every_method_has_decks(method):
    assert cases([method], PLACE)


def test_every_reference_belongs_to_a_deck():
    references = {
        path.relative_to(PLACE.reference).with_suffix("") for path in PLACE.reference.glob("*/*.json")
    }
    assert references <= {case.deck.relative_to(PLACE.inputs).with_suffix("") for case in CASES}

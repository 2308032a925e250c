"""Decks of trotter against exact numbers: every entry of ``reference_data/trotter.json`` that a deck can describe.

The references are exact diagonalisation, free fermions and closed formulas; each entry names its own tolerance.  Runs use the
eighth-order integrator with steps whose error lies below that.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import Stopped
from qsim.core.results.results import open_results
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.trotter.evolve.problem import PIECE

DATA = Path(__file__).resolve().parents[1] / "reference_data" / "trotter.json"
REFERENCES = {entry["name"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}

KL8 = {"integrator": "kl8", "dt": 0.125}
RING10 = {"type": "heisenberg", "lattice": "ring", "J": 1.0}


def blocks(entry):
    """Return system and initial state of an entry as blocks of a deck."""
    terms = []
    if entry["couplings"]:
        terms.append({"type": "pairs", "list": entry["couplings"]})
    for axis, values in (entry["fields"] or {}).items():
        if any(values):
            terms.append({"type": "field", "axis": axis, "values": values})
    given = entry["initial_state"]
    initial = {
        "basis": lambda: {"type": "basis", "up": given["up_sites"]},
        "product": lambda: {
            "type": "product",
            "theta": [theta for theta, _ in given["theta_phi"]],
            "phi": [phi for _, phi in given["theta_phi"]],
        },
        "random_phase": lambda: {"type": "random_phase", "seed": given["seed"], "rng": "splitmix64"},
        "a1_random_phase": lambda: {
            "type": "a1",
            "up": [given["up_site"]],
            "seed": given["seed"],
            "rng": "splitmix64",
        },
    }[given["type"]]()
    return {"system": {"spins": entry["N"], "terms": terms}, "initial": initial}


def everything(entry):
    """Return the observables of an entry."""
    pairs = [[int(site) for site in name.split("-")] for name in entry["results"].get("zz", {})]
    observe = ["sz", "sx", "sy", "return_probability", {"entropy": {"sites": entry["entropy_sites"]}}]
    if pairs:
        observe.append({"correlator": ["xx", "zz"], "pairs": pairs})
    return observe


def compare(result, entry, tolerance):
    expected, found = entry["results"], result.mean
    columns = {
        "sz": found["sz"],
        "sx0": found["sx"][:, 0],
        "sy0": found["sy"][:, 0],
        "total_sz": found["total_sz"],
        "energy": found["energy"],
        "entropy_half": found["entropy"][:, 0],
        "return_prob": found["return_probability"],
    }
    for name, values in columns.items():
        if name in expected:
            np.testing.assert_allclose(values, expected[name], rtol=0, atol=tolerance, err_msg=name)
    for axes in ("zz", "xx"):
        for k, (name, values) in enumerate(expected.get(axes, {}).items()):
            computed = found[f"correlator_{axes}"][:, k]
            np.testing.assert_allclose(computed, values, rtol=0, atol=tolerance, err_msg=f"{axes} {name}")


EXACT = [
    "pair_heisenberg",
    "precession_tilted_3",
    "heisenberg_ring10_neel",
    "random_xyz8_product",
    "dipolar_chain10_a1",
    "heisenberg_dq_ring10",
    "xx_chain12_neel",
    "xy_field_chain12",
]


def reference_run(trotter, name, **evolve):
    entry = REFERENCES[name]
    times = entry["results"]["t"]
    return trotter.run(
        **blocks(entry),
        evolve={"outputs": times, "t_final": times[-1], **(evolve or KL8)},
        observe=everything(entry),
    )


@pytest.mark.parametrize("name", EXACT)
def test_references(trotter, name):
    """All observables at all times, at the tolerance of the entry (and what rounding leaves of 80 steps)."""
    entry = REFERENCES[name]
    dt = 0.0625 if name in ("random_xyz8_product", "heisenberg_dq_ring10") else 0.125
    result = reference_run(trotter, name, integrator="kl8", dt=dt)
    assert result.problem.output_times == entry["results"]["t"]
    compare(result, entry, max(entry["tolerance_abs"], 2e-10))


@pytest.mark.parametrize("name", ["precession_tilted_3", "heisenberg_ring10_neel", "dipolar_chain10_a1"])
def test_references_by_chebyshev(trotter, name):
    result = reference_run(trotter, name, integrator="chebyshev", accuracy=1e-11)
    compare(result, REFERENCES[name], 2e-10)


@pytest.mark.parametrize("integrator", ["auto", "ts4", "bm6"])
def test_the_accuracy_is_kept(trotter, integrator):
    """The error estimate is an upper bound of the order of the error, and both are near what was asked for."""
    entry = REFERENCES["heisenberg_ring10_neel"]
    result = reference_run(trotter, "heisenberg_ring10_neel", integrator=integrator, accuracy=1e-7)
    error = np.abs(result.mean["sz"] - entry["results"]["sz"]).max()
    assert error < 1e-7
    assert result.integration.error <= 1.5e-7


def test_every_exact_entry_has_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    named = {name for name in REFERENCES if f'"{name}"' in source}
    elsewhere = {"integrator_error_heisenberg_ring10"}
    assert set(REFERENCES) - named <= elsewhere


@pytest.mark.exhaustive
def test_twenty_spins(trotter):
    compare_twenty(trotter, "xx_chain20_single")


def compare_twenty(trotter, name):
    entry = REFERENCES[name]
    result = trotter.run(
        **blocks(entry),
        evolve={"outputs": entry["results"]["t"], "integrator": "kl8", "dt": 0.25},
        observe=["sz", {"entropy": {"sites": entry["entropy_sites"]}}],
    )
    np.testing.assert_allclose(result.mean["sz"], entry["results"]["sz"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        result.mean["entropy"][:, 0], entry["results"]["entropy_half"], rtol=0, atol=1e-9
    )


# ------------------------------------------------------------------------------------------------ echo


@pytest.mark.parametrize("scheme", ["return", "overlap"])
def test_loschmidt_echo(trotter, scheme):
    """M(2t) and the local echo 2<Sz_0>, carried back or as the overlap of two states."""
    entry = REFERENCES["loschmidt_xx10_sigma_zz"]
    local = {"local": [0]} if scheme == "return" else {}
    result = trotter.run(
        **blocks(entry),
        evolve={"outputs": entry["results"]["t_forward"], **KL8},
        observe=[
            {
                "echo": {
                    "sigma": [{"type": "pairs", "list": entry["sigma_couplings"]}],
                    "scheme": scheme,
                    **local,
                }
            }
        ],
    )
    np.testing.assert_allclose(
        result.mean["echo"], entry["results"]["M_LE"], rtol=0, atol=entry["tolerance_abs"]
    )
    if local:
        found = result.mean["echo_local"][:, 0]
        np.testing.assert_allclose(found, entry["results"]["local_echo"], rtol=0, atol=entry["tolerance_abs"])


def test_some_echoes(trotter):
    """Echoes at three of six times are those of all times."""
    entry = REFERENCES["loschmidt_xx10_sigma_zz"]
    sigma = [{"type": "pairs", "list": entry["sigma_couplings"]}]
    scalars = trotter.execute(
        **blocks(entry),
        evolve={"outputs": entry["results"]["t_forward"], **KL8},
        observe=[{"echo": {"sigma": sigma, "times": 3}}],
    )["scalars"]
    assert scalars["echo_final"]["value"] == pytest.approx(entry["results"]["M_LE"][-1], abs=1e-10)
    with open_results(trotter.folder / "deck.h5") as results:
        np.testing.assert_array_equal(results["echo_time"], [2.0, 4.0, 8.0])
        np.testing.assert_allclose(
            results["echo"], np.array(entry["results"]["M_LE"])[[2, 3, 5]], rtol=0, atol=1e-10
        )


def test_roundoff_echo(trotter):
    """Forward and back with the same H: a few 1e-16 a step, where rounded constants leave 1e-13 (echo_sigma0_roundoff)."""
    entry = REFERENCES["echo_sigma0_roundoff"]
    result = trotter.run(
        system={"spins": 10, "terms": [RING10]},
        initial={"type": "random_phase", "seed": 5},
        evolve={"t_final": 5.0, "outputs": [5.0], "integrator": "ts4", "dt": 0.05},
        observe=[{"echo": {}}],
    )
    assert result.numbers["steps"] == 100
    assert abs(result.mean["echo"][-1] - 1.0) < 200 * entry["tolerance_abs_per_step"]
    assert abs(result.mean["echo_normalised"][-1] - 1.0) < 1e-13


# ------------------------------------------------------------------------------------------ closed forms


def test_rotating_field(trotter):
    """rotating_field_rabi: a field that rotates in the plane, as two profiles."""
    entry = REFERENCES["rotating_field_rabi"]
    p = entry["parameters"]
    result = trotter.run(
        system={
            "spins": 2,
            "terms": [
                {"type": "field", "axis": "z", "values": p["w0"]},
                {
                    "type": "field",
                    "axis": "x",
                    "values": p["w1"],
                    "profile": {"type": "cosine", "omega": p["w"]},
                },
                {
                    "type": "field",
                    "axis": "y",
                    "values": p["w1"],
                    "profile": {"type": "expression", "value": f"sin({p['w']}*t)"},
                },
            ],
        },
        initial={"type": "basis", "bits": "00"},
        evolve={"outputs": entry["results"]["t"], "integrator": "bm4", "dt": 0.01},
        observe=["sz"],
    )
    expected = np.array(entry["results"]["sz"])
    np.testing.assert_allclose(result.mean["sz"], expected[:, None] + [0, 0], rtol=0, atol=2e-8)
    assert result.numbers["energy_drift"] is None


def test_the_autocorrelation_is_that_of_its_site(trotter):
    """The site of the deck is up at t = 0, and no other one."""
    result = trotter.run(
        system={"spins": 6, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
        initial={"type": "a1", "up": [4]},
        evolve={"outputs": [0.0, 0.8], "accuracy": 1e-8},
        observe=[{"autocorrelation": 4}],
    )
    polarisation = result.mean["polarisation"]
    assert result.mean["autocorrelation"][0] == pytest.approx(1.0, abs=1e-12)
    assert np.all(np.abs(np.delete(polarisation[0], 4)) < 1e-12)
    np.testing.assert_array_equal(result.mean["autocorrelation"], polarisation[:, 4])


def test_autocorrelation_of_an_edge_spin(trotter):
    """xx_autocorrelation_edge_infinite_T: from several random states, within four standard errors and the entry's tolerance."""
    entry = REFERENCES["xx_autocorrelation_edge_infinite_T"]
    result = trotter.run(
        system={"spins": 11, "terms": [{"type": "xx", "lattice": "chain"}]},
        initial={"type": "a1", "up": [0]},
        evolve={"outputs": [0.0, 1.0, 2.0, 3.0, 4.0], "integrator": "bm6", "dt": 0.1},
        ensemble={"states": 4},
        observe=[{"autocorrelation": 0}],
        run={"seed": 3},
    )
    expected = entry["results"]["semi_infinite"][:5]
    np.testing.assert_allclose(result.mean["autocorrelation"], expected, rtol=0, atol=5 * 2**-5.5 / 2)
    assert result.mean["polarisation"].shape == (5, 11)
    assert np.all(result.error["autocorrelation"][1:] < 5 * 2**-5.5)


# -------------------------------------------------------------------------------------------- ensembles


DISORDER = {
    "system": {
        "spins": 6,
        "terms": [RING10, {"type": "field", "axis": "z", "random": {"kind": "box", "W": 2.0, "seed": 7}}],
    },
    "initial": {"type": "a1", "up": [0]},
    "evolve": {"outputs": [0.0, 0.5, 1.0], "integrator": "ts4", "dt": 0.1},
    "observe": ["sz", {"echo": {"sigma": [{"type": "field", "axis": "x", "values": 0.1}]}}],
    "run": {"seed": 5},
}


def test_ensemble_is_the_mean_of_its_members(trotter):
    """Means and errors of 3 realisations times 2 states, against the trajectories one by one."""
    from qsim.trotter.evolve.trajectories.trajectory import Trajectory

    result = trotter.run(**DISORDER, ensemble={"disorder": 3, "states": 2})
    problem = result.problem
    rows = []
    for member in range(problem.members):
        trajectory = Trajectory(problem, member, result.integration)
        trajectory.advance(lambda progress: None)
        rows.append({name: np.array(values) for name, values in trajectory.rows.items()})
    for name in ("sz", "energy", "echo"):
        samples = np.array([row[name] for row in rows]).reshape(3, 2, *rows[0][name].shape).mean(axis=1)
        np.testing.assert_allclose(result.mean[name], samples.mean(axis=0), rtol=0, atol=1e-14)
        error = samples.std(axis=0, ddof=1) / math.sqrt(3)
        np.testing.assert_allclose(result.error[name], error, rtol=0, atol=1e-14)
    assert not np.allclose(rows[0]["sz"], rows[2]["sz"], atol=1e-3)  # another realisation
    assert not np.allclose(rows[0]["sz"], rows[1]["sz"], atol=1e-6)  # another state


# ----------------------------------------------------------------------------------------------- output


def test_names_of_the_contract(trotter):
    """Scalars and arrays that scripts rely on."""
    summary = trotter.execute(
        system={"spins": 6, "terms": [RING10]},
        initial="neel",
        evolve={"t_final": 1.0, "outputs": {"count": 5}, "integrator": "ts4", "dt": 0.1},
        observe=[
            {"sz": "all"},
            {"correlator": "zz", "pairs": "all"},
            {"entropy": {"sites": [0, 1, 2]}},
            {"echo": {"sigma": [{"type": "field", "axis": "x", "values": 0.05}]}},
            "state",
        ],
    )
    wanted = {
        "energy_initial", "energy_final", "energy_drift", "norm_drift", "steps", "layers", "error_estimate",
        "total_sz_final", "echo_final",
    }  # fmt: skip
    assert wanted <= set(summary["scalars"])
    assert summary["scalars"]["steps"]["value"] == 12  # three steps in each of four intervals of 0.25
    with open_results(trotter.folder / "deck.h5") as results:
        shapes = {name: results[name].shape for name in results.names}
    assert shapes["time"] == (5,)
    assert shapes["sz"] == (5, 6)
    assert shapes["correlator_zz"] == (5, 15)
    assert shapes["pairs"] == (15, 2)
    assert shapes["entropy"] == shapes["echo"] == shapes["energy"] == (5,)
    assert shapes["state"] == (64,)


def test_output_grids(trotter):
    def times(**outputs):
        problem = trotter.build(
            system={"spins": 3, "terms": [RING10]},
            initial="domain_wall",
            evolve={"t_final": 10.0, "outputs": outputs, "integrator": "ts2", "dt": 0.1},
        )
        return problem.output_times, problem.times

    assert times(count=5)[0] == [0.0, 2.5, 5.0, 7.5, 10.0]
    np.testing.assert_allclose(
        times(count=5, spacing="log", first=0.01)[0], [0.0, 0.01, 0.1, 1.0, 10.0], rtol=1e-12
    )
    assert times(list=[2.0, 3.0]) == ([2.0, 3.0], [0.0, 2.0, 3.0, 10.0])


def test_a_short_list_starts_where_it_says(trotter):
    """The arrays have the listed times only; the scalars know the beginning and the end."""
    scalars = trotter.execute(
        system={"spins": 4, "terms": [RING10]},
        initial={"type": "product", "theta": [0.3, 1.0, 2.0, 0.1]},
        evolve={"t_final": 1.0, "outputs": [0.25, 0.5], "integrator": "kl8", "dt": 0.1},
        observe=["sz"],
    )["scalars"]
    assert scalars["energy_initial"]["value"] == pytest.approx(scalars["energy_final"]["value"], abs=1e-9)
    with open_results(trotter.folder / "deck.h5") as results:
        assert results["sz"].shape == (2, 4)


# ----------------------------------------------------------------------------------------------- resume


class StopAfter(Monitor):
    """Stops with a checkpoint at the n-th call at which the state can be saved."""

    def __init__(self, calls, **options):
        super().__init__(quiet=True, **options)
        self.left = calls

    def _stop_reason(self, now, *, savable=True):
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


@pytest.mark.parametrize("calls", [1, 2, 4, 5, 9, 13, 16])
def test_a_resumed_run_has_the_same_bits(trotter, monkeypatch, calls):
    """One after the other, interrupted within an interval, between trajectories and during the way back of an echo."""
    from qsim.trotter.evolve.trajectories import ensemble

    monkeypatch.setitem(ensemble.MOST, "cpu", 1)
    monkeypatch.setitem(PIECE, "cpu", 3 * 64 * 20)  # three steps a call
    deck = {**DISORDER, "ensemble": {"disorder": 2}}
    deck["observe"] = ["sz", "imbalance", {"echo": {"sigma": [], "local": [0]}}]
    whole = trotter.run(**deck)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **deck)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **deck)
    for name in whole.mean:
        np.testing.assert_array_equal(resumed.mean[name], whole.mean[name], err_msg=name)
        np.testing.assert_array_equal(resumed.error[name], whole.error[name], err_msg=name)
    assert resumed.numbers == whole.numbers

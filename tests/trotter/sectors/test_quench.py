"""Evolution in a sector: against exact numbers of other programs, and against the whole space for every observable.

The references are dense diagonalisation and free fermions (``reference_data/sectors.json``, which names sources and tolerances).
"""

import json
from pathlib import Path

import numpy as np
import pytest

from qsim.core.errors import DeckError, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.trotter.observables.correlator import Correlator

DATA = Path(__file__).resolve().parents[2] / "reference_data" / "sectors.json"
REFERENCES = {entry["id"]: entry for entry in json.loads(DATA.read_text(encoding="utf-8"))["references"]}
FIELDS = REFERENCES["quench_mbl_12"]["params"]["h"]
CHEBYSHEV = {"integrator": "chebyshev", "accuracy": 1e-11}


def compare(result, expected, tolerance):
    found = {name: values[result.problem.stored] for name, values in result.mean.items()}
    for name in ("imbalance", "return_probability"):
        np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(found["sz"], expected["sz"], rtol=0, atol=tolerance)
    for name in ("entropy", "number_entropy", "renyi2"):
        if name in expected:
            np.testing.assert_allclose(
                found[name][:, 0], expected[name], rtol=0, atol=10 * tolerance, err_msg=name
            )
    if "zz_0" in expected:
        first = [
            k for k, pair in enumerate(result.problem.observables.get(Correlator).pairs["zz"]) if pair[0] == 0
        ]
        zz = np.array(expected["zz_0"])[:, 1:]
        np.testing.assert_allclose(found["correlator_zz"][:, first], zz, rtol=0, atol=tolerance)
    if "energy" in expected:
        np.testing.assert_allclose(found["energy"], expected["energy"], rtol=0, atol=1e-10)


def observed(sites):
    kinds = ["von_neumann", "number", "renyi2"]
    return [
        "imbalance",
        "sz",
        "return_probability",
        {"correlator": "zz", "pairs": "all"},
        {"entropy": {"sites": sites, "kinds": kinds}},
    ]


def quench(trotter, name, system, initial, sites, **more):
    expected = REFERENCES[name]["result"]
    result = trotter.run(
        system=system,
        initial=initial,
        evolve={"outputs": expected["t"], **CHEBYSHEV},
        observe=observed(sites),
        **more,
    )
    compare(result, expected, 1e-10)
    return result


@pytest.mark.parametrize("sector", ["auto", {"sz": 0}, {"up": 6}])
def test_disordered_chain(trotter, sector):
    system = {
        "spins": 12,
        "terms": [
            {"type": "heisenberg", "lattice": "chain", "J": 1.0},
            {"type": "field", "axis": "z", "values": FIELDS},
        ],
    }
    result = quench(trotter, "quench_mbl_12", system, {"type": "neel"}, list(range(6)), sector=sector)
    assert result.problem.sector.dimension == REFERENCES["quench_mbl_12"]["result"]["dimension"]


def test_long_range_away_from_half_filling(trotter):
    pairs = [
        [j, k, (k - j) ** -1.5, (k - j) ** -1.5, -2 * (k - j) ** -1.5] for k in range(11) for j in range(k)
    ]
    system = {"spins": 11, "terms": [{"type": "pairs", "list": pairs}]}
    initial = {"type": "basis", "down": [1, 4, 5]}
    result = quench(trotter, "quench_long_range_11", system, initial, list(range(5)))
    assert result.problem.sector.dimension == 165


@pytest.mark.exhaustive
def test_free_fermions_of_24_sites(trotter):
    system = {"spins": 24, "terms": [{"type": "xx", "lattice": "chain", "J": 1.0}]}
    expected = REFERENCES["xx_chain_24_neel"]["result"]
    result = trotter.run(
        system=system,
        initial={"type": "neel"},
        evolve={"outputs": expected["t"], **CHEBYSHEV},
        observe=["imbalance", "sz", "return_probability", {"entropy": {"sites": "half"}}],
    )
    compare(result, expected, 1e-10)


# ------------------------------------------------------------------------- sector against whole space

SIGMA = [{"type": "field", "axis": "z", "values": "0.1*j"}, {"type": "xx", "lattice": "chain", "J": 0.05}]
EVERYTHING = [
    "sx",
    "sy",
    "sz",
    "energy_variance",
    "return_probability",
    "imbalance",
    "state",
    {"total": "all"},
    {"correlator": ["xx", "yy", "zz"], "pairs": "all"},
    {"entropy": {"cuts": "all", "kinds": ["von_neumann", "renyi2"], "spectrum": 3}},
    {"entropy": {"sites": [0, 2, 3, 7], "kinds": ["renyi2"]}},
]
SYSTEM = {
    "spins": 9,
    "terms": [
        {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6, "shells": [1, 2]},
        {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0, "seed": 3}},
    ],
}


def both(trotter, **blocks):
    blocks = {"evolve": {"outputs": [0, 0.7, 3.0], **CHEBYSHEV}, **blocks}
    return [trotter.run(sector=sector, **blocks) for sector in ("auto", "full")]


def same(one, other, names=()):
    assert one.problem.sector is not None
    assert other.problem.sector is None
    assert set(other.mean) <= set(one.mean)
    for name in names or other.mean:
        np.testing.assert_allclose(one.mean[name], other.mean[name], rtol=0, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("initial", [{"type": "domain_wall", "up": 4}, {"type": "polarised", "axis": "-z"}])
def test_every_observable_is_that_of_the_whole_space(trotter, initial):
    one, other = both(trotter, system=SYSTEM, initial=initial, observe=EVERYTHING)
    same(one, other)
    np.testing.assert_allclose(one.psi, other.psi, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "echo", [{"sigma": SIGMA}, {"sigma": SIGMA, "scheme": "return", "local": [0, 3]}, {}]
)
def test_echoes(trotter, echo):
    one, other = both(
        trotter, system=SYSTEM, initial={"type": "basis", "up": [0, 1, 4]}, observe=[{"echo": echo}]
    )
    same(one, other)


def test_ensembles(trotter):
    system = {**SYSTEM, "spins": 6}
    system["terms"] = [SYSTEM["terms"][0] | {"shells": [1]}, SYSTEM["terms"][1]]
    one, other = both(
        trotter,
        system=system,
        initial={"type": "neel"},
        ensemble={"disorder": 3},
        observe=["imbalance", {"entropy": {"sites": "half"}}],
    )
    same(one, other)
    np.testing.assert_allclose(one.error["imbalance"], other.error["imbalance"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_inversion(trotter, sign):
    """A cat state of a Neel state and its inverse stays in the sector of its sign, with the numbers of the whole space."""
    file = trotter.folder / "cat.npy"
    psi = np.zeros(1 << 8)
    psi[0b10101010], psi[0b01010101] = 1, sign
    np.save(file, psi)
    blocks = {
        "system": {"spins": 8, "terms": [{"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": -0.4}]},
        "initial": {"type": "file", "file": str(file)},
        "evolve": {"outputs": [0, 0.7, 3.0], **CHEBYSHEV},
        "observe": [item for item in EVERYTHING if item != "imbalance"],
    }
    one = trotter.run(sector={"sz": 0, "inversion": sign}, **blocks)
    other = trotter.run(sector="full", **blocks)
    assert one.problem.sector.dimension == 35
    same(one, other)
    np.testing.assert_allclose(one.psi, other.psi, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["haar", "random_phase"])
def test_random_states_are_drawn_in_the_sector(trotter, kind):
    """Infinite temperature at a given Sz: <Sz> of a site is that of the sector, <Sz Sz'> that of drawing without return."""
    result = trotter.run(
        system={"spins": 14, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
        initial={"type": kind, "seed": 3},
        sector={"up": 5},
        evolve={"outputs": [0, 1.0], "accuracy": 1e-8},
        observe=["sz", {"correlator": "zz", "pairs": "all"}],
    )
    D = 2002
    m = -2.0 / 14
    assert result.problem.dimension == D
    assert abs(result.mean["sz"] - m).max() < 5 / np.sqrt(D)
    expected = ((14 * m) ** 2 - 14 / 4) / (14 * 13)  # (M^2 - N/4) / (N (N - 1)), M = N m
    assert abs(result.mean["correlator_zz"] - expected).max() < 5 / np.sqrt(D)
    np.testing.assert_allclose(result.mean["total_sz"], -2.0, atol=1e-9)


def test_single_precision(trotter):
    one, other = both(
        trotter,
        system=SYSTEM,
        initial={"type": "neel"} | {"type": "domain_wall"},
        observe=["sz", {"entropy": {"sites": "half"}}],
        run={"precision": "single"},
        evolve={"outputs": [0, 0.7, 3.0], "integrator": "chebyshev", "accuracy": 1e-4},
    )
    for name in ("sz", "entropy", "energy"):
        np.testing.assert_allclose(one.mean[name], other.mean[name], rtol=0, atol=2e-4)


class StopAfter(Monitor):
    """Stops with a checkpoint at the n-th call at which the state can be saved."""

    def __init__(self, calls, **options):
        super().__init__(quiet=True, **options)
        self.left = calls

    def _stop_reason(self, now, *, savable=True):
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


@pytest.mark.parametrize("calls", [1, 3, 5])
def test_a_resumed_run_has_the_same_bits(trotter, calls):
    blocks = {
        "system": SYSTEM,
        "initial": {"type": "domain_wall"},
        "evolve": {"outputs": [0, 1, 2, 3], **CHEBYSHEV},
        "observe": ["sz", {"echo": {"sigma": SIGMA}}],
        "ensemble": {"disorder": 2},
    }
    whole = trotter.run(**blocks)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **blocks)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **blocks)
    for name in whole.mean:
        np.testing.assert_array_equal(whole.mean[name], resumed.mean[name])


REFUSED = {
    "field across": (
        {
            "system": {"spins": 4, "terms": [{"type": "field", "axis": "x", "values": 0.3}]},
            "sector": {"sz": 0},
        },
        "field along x at site 0 mixes magnetisations",
    ),
    "unequal couplings": (
        {
            "system": {"spins": 4, "terms": [{"type": "xyz", "lattice": "chain", "Jx": 1, "Jy": 2, "Jz": 1}]},
            "sector": {"sz": 0},
        },
        "sites 0 and 1, with Jx = 1 and Jy = 2",
    ),
    "another start": ({"sector": {"sz": 1}}, "initial state has Sz = 0"),
    "inversion of a pattern": ({"sector": {"sz": 0, "inversion": "even"}}, "parts of both signs"),
    "empty": ({"sector": {"sz": 7}}, "sector is empty"),
    "half": ({"sector": {"sz": 0.5}}, "found 0.5: the sector is empty"),
    "too many up": ({"sector": {"up": 9}}, "sector is empty"),
    "both": ({"sector": {"up": 2, "sz": 0}}, "either sz or up"),
    "inversion elsewhere": ({"sector": {"sz": 1, "inversion": -1}}, "needs sz: 0"),
    "formula": (
        {"sector": {"sz": 0, "inversion": 1}, "evolve": {"t_final": 1.0, "integrator": "ts4", "dt": 0.1}},
        "ts4 goes bond by bond without the inversion of all spins",
    ),
    "list": ({"sector": {"sz": [0, 1]}}, "one sector for one state"),
    "outside": (
        {"sector": {"sz": 0}, "initial": {"type": "polarised", "axis": "x"}},
        "only 0.375 of the initial state",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    blocks = {
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-6},
    }
    with pytest.raises(DeckError, match=message):
        trotter.run(**{**blocks, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"initial": {"type": "polarised", "axis": "x"}},
        {"evolve": {"t_final": 1.0, "integrator": "bm6", "dt": 0.1}},
        {"system": {"spins": 4, "terms": [{"type": "field", "axis": "x", "values": 0.3}]}},
        {"observe": [{"echo": {"sigma": [{"type": "field", "axis": "x", "values": 0.1}]}}]},
        {"sector": "full"},
        {"sector": "none"},
    ],
)
def test_auto_takes_the_whole_space_where_nothing_else_is_possible(trotter, changes):
    blocks = {
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-6},
    }
    assert trotter.build(**{**blocks, **changes}).sector is None

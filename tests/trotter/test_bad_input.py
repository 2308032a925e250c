"""Decks of trotter that are wrong, or that ask for what memory or precision cannot give: what is said, where, which exit code.

Each message must name the file, the line and the key, what was found, and what is allowed or to be done about it.
"""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qsim.core.deck.load import load_deck
from qsim.core.device import device as core_device
from qsim.core.device.device import cuda_status
from qsim.core.errors import DeckError, MemoryLimitError, QsimError
from qsim.core.run.stages import Method
from qsim.trotter.deck.model import TrotterDeck
from tests.changes import PLANS, REMOVE, change, some

RING = {"type": "heisenberg", "lattice": "ring", "J": 1.0}
BASE = {
    "system": {"spins": 6, "terms": [RING]},
    "initial": {"type": "basis", "bits": "010101"},
    "evolve": {"t_final": 1.0, "outputs": {"count": 3}, "integrator": "ts4", "dt": 0.1},
    "observe": [{"sz": "all"}],
}


def changed(base=BASE, **changes):
    """Return a base deck with keys replaced, as :func:`tests.changes.change` does."""
    return change(base, changes)


def terms(*items):
    return {"system__terms": list(items)}


def observe(*items):
    return {"observe": list(items)}


def test_the_base_deck_is_good(trotter):
    assert trotter.load(**BASE).warnings == []


def test_a_deck_without_a_step_has_the_accuracy_that_init_shows(trotter):
    block = {"t_final": 1.0, "outputs": {"count": 3}}
    assert trotter.load(**changed(evolve=block)).deck.evolve.accuracy == 1e-8
    assert trotter.load(**changed(evolve=block | {"dt": None, "accuracy": 1e-5})).deck.evolve.accuracy == 1e-5


def test_momenta_without_a_sector_of_sz_are_told(trotter):
    """Sz = 0 is understood; a note says so in a run and in validate."""
    deck = {"task": "spectrum", "system": {"spins": 6, "terms": [RING]}}
    for sector, told in (({"momentum": 1}, True), ({"momentum": 1, "sz": 0}, False)):
        notes = trotter.load(sector=sector, **deck).notes
        assert any("levels are those of Sz = 0 alone" in str(note) for note in notes) == told


ERRORS = {
    # keys
    "unknown block": ({"obsrve": []}, r"obsrve: unknown key; did you mean 'observe'\?"),
    "no system": ({"system": REMOVE}, "system: required key is missing"),
    "no initial": ({"initial": REMOVE}, "initial: required key is missing"),
    "no evolve": ({"evolve": REMOVE}, "evolve: required key is missing"),
    # system
    "no spins": ({"system__spins": 0}, "system.spins: expected a whole number of at least 1, found 0"),
    "half a spin": ({"system__spins": 6.5}, "system.spins: expected a whole number, found 6.5"),
    "too many spins": ({"system__spins": 99}, "system.spins: .*found 99"),
    "no terms": (terms(), "system.terms: "),
    "unknown term": (
        terms({"type": "heisenburg", "lattice": "ring"}),
        r"system.terms.0.type: unknown type 'heisenburg'; did you mean 'heisenberg'\?",
    ),
    "unknown lattice": (terms({**RING, "lattice": "rng"}), r"system.terms.0.lattice.*did you mean 'ring'\?"),
    "no lattice": (terms({"type": "heisenberg"}), "system.terms.0.lattice: missing key; give a lattice such as chain, ring"),
    "unknown operators": ({"system__operators": "paul"}, "system.operators: expected .*found 'paul'"),
    "site coupled to itself": (
        terms({"type": "pairs", "list": [[2, 2, 1, 1, 1]]}),
        "system.terms.0.list.0: site 2 is coupled to itself",
    ),
    "unknown site of a pair": (
        terms({"type": "pairs", "list": [[0, 6, 1, 1, 1]]}),
        "system.terms.0.list.0: site 6 does not exist: 6 spins are sites 0 to 5",
    ),
    "pair given twice": (
        terms({"type": "pairs", "list": [[0, 1, 1, 1, 1], [1, 0, 1, 1, 1]]}),
        r"system.terms.0.list.1: the pair \(0, 1\) is listed twice",
    ),
    "short row": (terms({"type": "pairs", "list": [[0, 1]]}), "system.terms.0.list.0: "),
    "missing file": (terms({"type": "pairs", "file": "no.csv"}), "system.terms.0.file: .*no.csv"),
    "field of another length": (
        terms(RING, {"type": "field", "values": [1.0, 2.0]}),
        "system.terms.1.values: 2 values, but system.spins = 6",
    ),
    "empty field": (terms(RING, {"type": "field"}), "system.terms.1.values: missing key; give a number"),
    "no square": (terms({**RING, "lattice": "square"}), "system.terms.0.lattice: 6 spins make no square; give Lx and Ly"),
    "field that no number holds": (
        terms(RING, {"type": "field", "values": "1e200*j"}),
        r"system.terms.1: field: a coupling or field of 5e\+200; at most 1e\+100",
    ),
    "field that is not finite": (
        terms(RING, {"type": "field", "values": "1/j"}),
        "system.terms.1: the formula '1/j' is not finite at j = 0",
    ),
    "sites too close for numbers": (
        terms(RING, {"type": "dipolar", "positions": [[0, 0, 1e-200 * k] for k in range(6)]}),
        r"system.terms.1: dipolar: a coupling or field of (inf|nan); at most 1e\+100",
    ),
    "profile that is not finite": (
        terms({**RING, "profile": {"type": "expression", "value": "1/t"}}),
        "system.terms.0: the formula '1/t' is not finite at t = 0",
    ),
    "profile that no number holds": (
        terms({**RING, "J": 1e9, "profile": {"type": "expression", "value": "1e300*t"}}),
        r"system.terms.0: a profile makes a coupling or field of inf at t = 1; at most 1e\+100",
    ),
    # initial state
    "bits of another length": ({"initial__bits": "0101"}, "initial.bits: 4 bits, but system.spins = 6"),
    "bits of other letters": ({"initial__bits": "01x101"}, "initial.bits: .*0 .up. and 1 .down."),
    "unquoted bits": ({"initial__bits": 10101}, "initial.bits: "),
    "unknown state": ({"initial": "neal"}, r"initial.*'neal'; did you mean 'neel'\?"),
    "Neel on an odd ring": (
        {"system__spins": 5, "initial": "neel"},
        "initial.type: no Neel state fits on a ring of 5 sites: sites 4 and 0 would be parallel",
    ),
    "a1 without a site": ({"initial": {"type": "a1"}}, "initial.up: required key is missing"),
    "a1 with an unknown site": ({"initial": {"type": "a1", "up": [6]}}, "initial.up.0: site 6 does not exist"),
    "angles of another length": (
        {"initial": {"type": "product", "theta": [0.1, 0.2]}},
        "initial.theta: 2 angles, but system.spins = 6",
    ),
    # evolution
    "both dt and accuracy": (
        {"evolve__accuracy": 1e-6},
        "evolve.accuracy: give either dt or accuracy, not both: dt = 0.1 fixes the step",
    ),
    "auto with dt": ({"evolve__integrator": "auto"}, "evolve.integrator: auto chooses by the accuracy, but dt is given"),
    "chebyshev with dt": ({"evolve__integrator": "chebyshev"}, "evolve.dt: chebyshev has no time step; give accuracy"),
    "unknown integrator": ({"evolve__integrator": "ts3"}, "evolve.integrator: expected .*found 'ts3'"),
    "negative dt": ({"evolve__dt": -0.1}, "evolve.dt: .*found -0.1"),
    "no end": ({"evolve__t_final": REMOVE}, "evolve.t_final: missing key; give the end of the evolution"),
    "backwards": ({"evolve__t_final": -1.0}, "evolve.t_final: .*found -1"),
    "times out of order": (
        {"evolve__outputs": [0.0, 0.5, 0.5]},
        "evolve.outputs.list.2: times must ascend, but 0.5 follows 0.5",
    ),
    "times after the end": (
        {"evolve__outputs": [0.0, 2.0]},
        "evolve.outputs.list: the last output time 2 lies after t_final = 1",
    ),
    "count and list": (
        {"evolve__outputs": {"count": 3, "list": [0.5]}},
        "evolve.outputs.count: give either count or list, not both",
    ),
    "log from after the end": (
        {"evolve__outputs": {"count": 3, "spacing": "log", "first": 2.0}},
        "evolve.outputs.first: first = 2 must lie before t_final = 1",
    ),
    "log from right before the end": (
        {"evolve__outputs": {"count": 100, "spacing": "log", "first": 0.9999999999999}},
        "evolve.outputs.first: first = 0.9999999999999 lies too close to t_final = 1.0 for 100 different times",
    ),
    "shorter than numbers reach": (
        {"evolve__t_final": 5e-324, "evolve__outputs": {"count": 4, "spacing": "log"}},
        "evolve.t_final: expected 0 or a time of at least 1e-100, found 4.94066e-324",
    ),
    "a time shorter than numbers reach": (
        {"evolve__outputs": [0.0, 5e-324, 1.0]},
        "evolve.outputs.list.1: expected 0 or a time of at least 1e-100, found 4.94066e-324",
    ),
    "chebyshev and a profile": (
        {**terms({**RING, "profile": {"type": "cosine", "omega": 1.0}}), "evolve__integrator": "chebyshev",
         "evolve__accuracy": 1e-6, "evolve__dt": REMOVE},
        "evolve.integrator: chebyshev expands the evolution under one constant H, but a term has a time profile",
    ),
    "an echo of ts1": (
        {"evolve__integrator": "ts1", **observe("echo")},
        "evolve.integrator: ts1 does not undo its own steps, so that an echo would show its error alone",
    ),
    "ramp that ends before it begins": (
        terms({**RING, "profile": {"type": "ramp", "t0": 2.0, "t1": 1.0}}),
        "system.terms.0.profile.t1: the ramp must end after it begins",
    ),
    "accuracy that single precision cannot keep": (
        {"run": {"precision": "single"}, "evolve__accuracy": 1e-8, "evolve__dt": REMOVE},
        "evolve.accuracy: single precision cannot reach 1e-08; ask for 1e-05 or more, or set run.precision: double",
    ),
    "mixed precision": ({"run": {"precision": "mixed"}}, "run.precision: trotter runs in double or single"),
    # ensemble
    "disorder without disorder": (
        {"ensemble": {"disorder": 4}},
        "ensemble.disorder: 4 realisations, but no term is random: all would be the same",
    ),
    "states without random states": (
        {"ensemble": {"states": 4}},
        "ensemble.states: 4 states, but initial: basis is always the same; use a1, random_phase or haar",
    ),
    "random without a width": (
        terms(RING, {"type": "field", "random": {"kind": "box"}}),
        "system.terms.1.random: give either width",
    ),
    # observables
    "unknown observable": (observe({"szz": "all"}), r"observe.0.szz: unknown key; did you mean 'sz'\?"),
    "nothing": (observe({"pairs": "all"}), "observe.0: empty item; name an observable, such as sz"),
    "two in one item": (observe({"sz": "all", "sx": "all"}), "observe.0: one observable per item, found sx, sz"),
    "twice": (observe({"sz": "all"}, {"sz": "total"}), "observe.1.sz: sz is listed twice; see observe.0"),
    "unknown site": (observe({"sz": [0, 6]}), "observe.0.sz.1: site 6 does not exist"),
    "site twice": (observe({"sz": [1, 1]}), "observe.0.sz.1: duplicate site 1"),
    "pair of one site": (
        observe({"correlator": "zz", "pairs": [[1, 1]]}),
        r"observe.0.pairs.0: a pair needs two different sites, found \[1, 1\]",
    ),
    "pair twice": (
        observe({"correlator": "zz", "pairs": [[1, 2], [2, 1]]}),
        r"observe.0.pairs.1: duplicate pair \[2, 1\]",
    ),
    "mixed correlator": (observe({"correlator": "xw"}), "observe.0.correlator: .*'xw'"),
    "entropy of everything": (
        observe({"entropy": {"sites": [0, 1, 2, 3, 4, 5]}}),
        "observe.0.entropy.sites: leave at least one of the 6 sites for the other part",
    ),
    "entropy of an unknown site": (observe({"entropy": [7]}), "observe.0.entropy.sites.0: site 7 does not exist"),
    "echo with a wrong sigma": (
        observe({"echo": {"sigma": [{"type": "field", "values": [1.0]}]}}),
        "observe.0.echo.sigma.0.values: 1 values, but system.spins = 6",
    ),
    "local echo without return": (
        observe({"echo": {"sigma": [], "local": [0], "scheme": "overlap"}}),
        "observe.0.echo.scheme: local sites are seen after the return",
    ),
    "echo whose sigma is not finite": (
        observe("sz", {"echo": {"sigma": [{"type": "field", "values": "1/j"}]}}),
        "observe.1.echo.sigma.0: the formula '1/j' is not finite at j = 0",
    ),
    "autocorrelation of another state": (
        observe({"autocorrelation": 0}),
        r"observe.0.autocorrelation: needs the infinite-temperature state of that site, initial: \{type: a1, up: \[0\]\}",
    ),
    "fidelity without a file": (observe({"fidelity": "no.npy"}), "observe.0.fidelity.file: .*no.npy"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_of_decks(trotter, name):
    changes, expected = ERRORS[name]
    trotter.refuses(expected, **changed(**changes))


def test_all_mistakes_at_once(trotter):
    with pytest.raises(DeckError) as caught:
        trotter.load(**changed(initial__bits="01", evolve__accuracy=1e-3, observe=[{"sz": [9]}]))
    assert len(caught.value.diagnostics) == 3


# ---------------------------------------------------------------------------------------------- files


def test_asymmetric_matrix(trotter):
    matrix = np.zeros((6, 6))
    matrix[0, 1] = 1.0
    np.savetxt(trotter.folder / "J.csv", matrix, delimiter=",")
    with pytest.raises(DeckError, match=r"system.terms.0: .*J.csv.*symmetric"):
        trotter.load(**changed(**terms({"type": "pairs", "matrix": "J.csv"})))


def test_pair_twice_in_a_file(trotter):
    (trotter.folder / "J.csv").write_text("0,1,1,1,1\n1,0,1,1,1\n", encoding="utf-8")
    with pytest.raises(DeckError, match=r"system.terms.0: .*J.csv.*twice"):
        trotter.load(**changed(**terms({"type": "pairs", "file": "J.csv"})))


def test_state_of_another_size(trotter):
    np.save(trotter.folder / "psi.npy", np.ones(8))
    with pytest.raises(QsimError, match=r"psi.npy.*8"):
        trotter.run(**changed(initial={"type": "file", "file": "psi.npy"}))


# ------------------------------------------------------------------------------------ memory, devices


def test_too_many_spins_for_the_memory(trotter, monkeypatch):
    """The estimate, the free bytes, and how many spins would fit."""
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 10 * 2**30)
    with pytest.raises(MemoryLimitError) as caught:
        trotter.execute(**changed(system__spins=34, initial="neel", observe=[]))
    assert "state 275 GB" in str(caught.value)
    assert caught.value.hint is not None
    assert (
        "lower system.spins; 29 spins fit in double precision, 30 spins fit in single precision"
        in caught.value.hint
    )
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("sites", ["half", [0, *range(12, 33)]])
@pytest.mark.parametrize("field", ["x", "z"], ids=["whole", "sector"])
def test_too_many_spins_for_the_memory_with_entropies(trotter, monkeypatch, sites, field):
    """What fits is told of fewer spins than a cut has sites as well, in the whole space and in a sector."""
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 9 * 2**30)
    deck = {
        "system": {"spins": 35, "terms": [RING, {"type": "field", "axis": field, "values": 0.3}]},
        "initial": {"type": "basis", "up": list(range(0, 35, 2))},
        "evolve": {"t_final": 1.0, "outputs": {"count": 3}, "accuracy": 1e-6},
        "observe": [{"entropy": {"sites": sites}}],
    }
    with pytest.raises(MemoryLimitError, match="states needs") as caught:
        trotter.execute(**deck)
    assert "spins fit in double precision" in str(caught.value.hint)


@pytest.mark.skipif(cuda_status().count > 0, reason="there is a CUDA device")
def test_without_a_gpu(trotter):
    with pytest.raises(QsimError, match="device 'cuda'.*is not available"):
        trotter.execute(options={"device": "cuda"}, **BASE)
    summary = trotter.execute(options={"device": "auto"}, **BASE)
    assert summary["device"] == "cpu"


# ------------------------------------------------------------------------------------------- warnings

WARNINGS = {
    "long step": (
        {"evolve__dt": 2.0, "evolve__t_final": 4.0},
        "evolve.dt: dt = 2 is long for couplings of up to 1 per site",
    ),
    "imbalance of a random state": (
        {"initial": {"type": "haar"}, **observe("imbalance")},
        "observe.0.imbalance: the imbalance compares with a pattern at t = 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(trotter, name):
    changes, expected = WARNINGS[name]
    trotter.warns(expected, **changed(**changes))


def test_a_step_that_does_not_divide_the_outputs_is_told(trotter):
    problem = trotter.build(**changed(evolve__dt=0.3))
    assert problem.notices == ["evolve.dt: 0.3 does not divide the output intervals; steps of 0.25 to 0.25"]


# ---------------------------------------------------------------------------------- any deck whatever

RUNS = settings(PLANS, max_examples=25)
ANY = st.sampled_from(
    [0.0, -1.0, 5e-324, 1e-300, 1e-12, 1.1e-12, 1e-3, 1.0, 1e3, 0.9e12, 1e12, 1e300]
) | st.floats(allow_nan=False, allow_infinity=False)
PROFILES = [
    {"type": "ramp", "t1": 1.0},
    {"type": "cosine", "omega": 2.0},
    {"type": "table", "points": [[0, 0], [1, 1]]},
    {"type": "expression", "value": "1/t"},
]


def keys(size):
    """Keys of the deck that hold numbers, with numbers of the given kind."""
    return {
        "system__terms": st.lists(
            st.one_of(
                size.map(lambda J: {**RING, "J": J}),
                size.map(lambda h: {"type": "field", "axis": "x", "values": h}),
                size.map(lambda h: {"type": "field", "random": {"kind": "box", "width": h}}),
                st.builds(lambda J, a: {"type": "power_law", "lattice": "chain", "J": J, "alpha": a}, size, size),
                st.builds(lambda a, b, c: {"type": "pairs", "list": [[0, 1, a, b, c]]}, size, size, size),
                st.sampled_from(PROFILES).map(lambda p: {**RING, "profile": p}),
            ),
            min_size=1,
            max_size=3,
        ),
        "system__operators": st.sampled_from(["spin", "pauli"]),
        "initial": st.one_of(
            st.sampled_from(["neel", "domain_wall", "random_phase", "haar", {"type": "a1", "up": [0]}]),
            st.builds(lambda a, b: {"type": "product", "theta": a, "phi": b}, size, size),
        ),
        "evolve": st.builds(
            lambda end, dt, name, spacing: {
                "t_final": end,
                "dt": 0.1 * dt,
                "integrator": name,
                "outputs": {"count": 4, "spacing": spacing},
            },
            size,
            size,
            st.sampled_from(["ts1", "ts2", "ts4", "bm4", "bm6", "kl8"]),
            st.sampled_from(["linear", "log"]),
        )
        | st.builds(
            lambda end, accuracy, name: {"t_final": end, "accuracy": 1e-3 * accuracy, "integrator": name, "outputs": 3},
            size,
            size,
            st.sampled_from(["auto", "chebyshev", "ts4", "kl8"]),
        ),
        "observe": st.lists(
            st.sampled_from(
                ["sx", "sz", "total", "return_probability", "energy_variance", "imbalance", "echo", {"entropy": [0]},
                 {"correlator": ["xx", "yy"]}, {"echo": {"sigma": [{"type": "field", "axis": "x", "values": 0.1}]}}]
            ),
            unique_by=lambda item: item if isinstance(item, str) else next(iter(item)),
            max_size=4,
        ),
        "run": st.sampled_from([{"precision": "single"}, {"precision": "double"}]),
    }  # fmt: skip


WILD, TAME = keys(ANY), keys(st.sampled_from([0.3, 0.7, 1.0, 1.4, 3.0]))


@PLANS
@given(some(WILD, 3))
def test_any_number_gives_a_plan_or_an_error_of_the_deck(trotter, changes):
    with suppress(QsimError):
        trotter.load(**changed(**changes))


@RUNS
@given(some(TAME, 5))
def test_any_combination_gives_a_result_or_an_error(trotter, changes):
    """From loading to the written arrays: a result, or an error that qsim knows."""
    with suppress(QsimError):
        result = trotter.run(**changed(**changes))
        loose = changes.get("evolve", {}).get("accuracy", 0.0)  # an expansion is unitary to its accuracy
        assert np.abs(result.mean["norm"] - 1.0).max() < max(1e-3, 2.0 * loose)  # single precision
        output = Method("trotter")
        assert all(np.all(np.isfinite(array)) for array in output.arrays(result).values())
        assert output.scalars(result)


@pytest.mark.parametrize("value", [1e30, 10**30, -2e12, float("nan")])
def test_a_field_beyond_its_limits_is_no_formula(trotter, value):
    """Numbers that were refused as numbers had passed as the text of a formula, which may be a number."""
    found = terms(RING, {"type": "field", "axis": "x", "values": value})
    trotter.refuses(r"system\.terms\.1\.values: expected a (number|finite)", **changed(**found))


@pytest.mark.parametrize("task", ["evolve", "spectrum", "dynamics", "thermal", "levels", "floquet"])
def test_a_shell_that_the_lattice_lacks_is_told_by_every_task(trotter, task):
    """The plan estimated work and memory from couplings that cannot be made."""
    more = {"initial": {"type": "neel"}} if task in ("evolve", "floquet") else {}
    if task == "evolve":
        more["evolve"] = {"t_final": 1.0, "outputs": 3, "accuracy": 1e-6}
    if task == "floquet":
        more["floquet"] = {"cycle": [{"terms": [0], "time": 0.5}], "cycles": 2}
    trotter.refuses(
        r"system\.terms\.0\.shells: shell 9 does not exist: ring of 6 sites has shells 1 to 3",
        task=task,
        system={"spins": 6, "terms": [{**RING, "shells": [1, 9]}]},
        **more,
    )


def test_a_shell_that_the_lattice_of_a_ground_state_lacks_is_told(trotter):
    trotter.refuses(
        r"initial\.terms\.0\.shells: shell 9 does not exist",
        **changed(initial={"type": "ground_state", "terms": [{**RING, "shells": [9]}]}),
    )


@pytest.mark.parametrize("initial", [{"type": "product", "theta": 0.7}, {"type": "a1", "up": [0]}])
def test_a_start_outside_the_sector_is_told_at_the_sector(trotter, initial):
    """What only the work finds out has a place in the deck, too."""
    blocks = changed(
        initial=initial, sector={"up": 3}, evolve={"t_final": 1.0, "outputs": 3, "accuracy": 1e-6}
    )
    with pytest.raises(
        DeckError, match=r"deck\.yaml:\d+:1: sector: only 0\.\d+ of the initial state"
    ) as caught:
        trotter.execute(**blocks)
    assert [found.key for found in caught.value.diagnostics] == ["sector"]


def test_keys_in_the_wrong_place_are_told_where_they_belong(trotter):
    ring = {"spins": 6, "terms": [RING]}
    spectrum = {"levels": 2, "sector": {"sz": 0}}
    trotter.refuses("sector is a key of the deck itself", task="spectrum", system=ring, spectrum=spectrum)
    trotter.refuses(
        r"total: .* is listed twice; see observe\.0; of several components write total: \[x, y\]",
        **changed(**observe({"total": "x"}, {"total": "x"})),
    )
    kagome = {"terms": [{"type": "heisenberg", "lattice": {"type": "kagome", "Lx": 2, "Ly": 1}}], "spins": 6}
    with pytest.raises(
        DeckError, match="of type kagome does not have; nor has it shifts by one cell, as it is open"
    ):
        trotter.execute(
            task="spectrum", system=kagome, sector={"momentum": 1, "sz": 0}, spectrum={"levels": 2}
        )


@pytest.mark.parametrize("task", ["evolve", "spectrum", "thermal"])
def test_a_correlator_of_a_single_spin_is_refused(trotter, task):
    """It has no pairs; the run had ended in an internal error when they were written."""
    more = {}
    if task == "evolve":
        more = {
            "initial": {"type": "basis", "bits": "0"},
            "evolve": {"t_final": 1.0, "outputs": 3, "dt": 0.1},
        }
    trotter.refuses(
        r"observe\.0\.correlator: a single spin makes no pair",
        task=task,
        system={"spins": 1, "terms": [{"type": "field", "axis": "z", "values": 0.3}]},
        observe=[{"correlator": "zz", "pairs": "all"}],
        **more,
    )


@pytest.mark.parametrize(
    ("lattice", "spins"),
    [
        ({"type": "kagome", "Lx": 2, "Ly": 2}, 12),
        ({"type": "pyrochlore", "Lx": 1, "Ly": 1, "Lz": 2}, 8),
        ({"type": "rectangular", "Lx": 3, "Ly": 2, "periodic": True}, 6),
    ],
)
@pytest.mark.parametrize("place", ["system", "term"])
def test_a_lattice_with_all_its_lengths_counts_the_spins(tmp_path, lattice, spins, place):
    term = {"type": "heisenberg"} | ({"lattice": lattice} if place == "term" else {})
    system = {"terms": [term]} | ({"lattice": lattice} if place == "system" else {})
    deck = {
        "method": "trotter",
        "system": system,
        "initial": "neel",
        "evolve": {"t_final": 1, "dt": 0.1, "integrator": "ts4"},
    }
    assert load_deck(deck, TrotterDeck).deck.system.spins == spins
    with pytest.raises(DeckError, match="system.spins: required key is missing"):
        load_deck({**deck, "system": {"terms": [{"type": "heisenberg", "lattice": "ring"}]}}, TrotterDeck)

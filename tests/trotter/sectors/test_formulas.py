"""Product formulas in a sector of Sz: bonds against exponentials of two spins in the whole space, orders, errors, observables."""

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.device import device as core_device
from qsim.core.device.device import cpu
from qsim.core.errors import DeckError, MemoryLimitError, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.core.run.stages import stage
from qsim.trotter.evolution.bonds import Bonds, SectorFormula
from qsim.trotter.evolution.integrators import METHODS
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.basis import Sector


def random_model(spins, *, seed=1, cross=True, share=0.5):
    """Return a model that conserves Sz, with a share of the pairs coupled."""
    g = np.random.default_rng(seed)
    J = np.zeros((3, spins, spins))
    D = np.zeros((3, 3, spins, spins))
    for j in range(spins):
        for k in range(j + 1, spins):
            if g.random() < share:
                J[0, j, k] = J[1, j, k] = g.normal()
                J[2, j, k] = g.normal()
                D[0, 1, j, k], D[1, 0, j, k] = (d := g.normal()), -d
                D[:, :, k, j] = D[:, :, j, k].T
    h = np.zeros((3, spins))
    h[2] = g.normal(size=spins)
    J = J + J.transpose(0, 2, 1)
    return Model(spins, J, h, D if cross else None)


def random_vector(size, seed=2):
    g = np.random.default_rng(seed)
    psi = g.normal(size=size) + 1j * g.normal(size=size)
    return psi / np.linalg.norm(psi)


def pair_model(model, bond):
    """Return the Hamiltonian of one bond alone, as a dense matrix of all spins."""
    j, k = bond.j, bond.k
    J, h = np.zeros_like(model.J), np.zeros_like(model.h)
    J[:, j, k] = J[:, k, j] = model.J[:, j, k]
    h[2, j], h[2, k] = bond.first, bond.second
    cross = None
    if model.cross is not None:
        cross = np.zeros_like(model.cross)
        cross[:, :, j, k], cross[:, :, k, j] = model.cross[:, :, j, k], model.cross[:, :, k, j]
    return dense(Model(model.spins, J, h, cross))


def _two(model, bond):
    """Return couplings (3, 2, 2), fields (3, 2) and couplings of different components of one bond."""
    sites = [bond.j, bond.k]
    h = np.zeros((3, 2))
    h[2] = bond.first, bond.second
    return model.J[:, sites][:, :, sites], h, model.cross[:, :, sites][:, :, :, sites]


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("spins", [2, 3, 4, 7])
def test_bonds_add_up_to_the_hamiltonian(spins, cross):
    model = random_model(spins, seed=spins, cross=cross)
    bonds = Bonds(model)
    total = sum((pair_model(model, bond) for group in bonds.groups for bond in group), 0 * dense(model))
    np.testing.assert_allclose(total, dense(model), rtol=0, atol=1e-13)
    for group in bonds.groups:
        sites = [site for bond in group for site in (bond.j, bond.k)]
        assert len(sites) == len(set(sites))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["ts1", "ts2", "bm4"])
@pytest.mark.parametrize("down", range(8))
def test_same_bond_order_in_the_whole_space(down, method, threads):
    """Two steps against exponentials of 4 x 4 matrices of the same bonds in the same order, on all 2^7 amplitudes."""
    model = random_model(7)
    sector = Sector(7, down)
    places = sector.strings()
    whole = np.zeros(1 << 7, complex)
    whole[places] = random_vector(len(places))
    formula = SectorFormula(cpu(threads), sector, model, whole[places])
    formula.advance(method, 0.3, 2)
    for group, tau in formula.bonds.layers(method, 0.3, 2):
        for bond in formula.bonds.groups[group]:
            small = Model(2, *_two(model, bond))
            gate = expm(-1j * tau * dense(small)).reshape(2, 2, 2, 2)  # bits k', j', k, j
            axes = (6 - bond.k, 6 - bond.j)
            turned = np.tensordot(gate, whole.reshape((2,) * 7), axes=((2, 3), axes))
            whole = np.moveaxis(turned, (0, 1), axes).ravel()
    np.testing.assert_allclose(formula.psi, whole[places], rtol=0, atol=1e-12)
    assert not np.delete(whole, places).any()


def test_single_precision_is_that_of_double_rounded():
    model, sector = random_model(8), Sector(8, 4)
    psi = random_vector(sector.dimension)
    found = [SectorFormula(cpu(1), sector, model, psi.astype(dtype)) for dtype in (np.complex64, complex)]
    for formula in found:
        formula.advance("ts2", 0.1, 3)
    assert found[0].psi.dtype == np.complex64
    np.testing.assert_allclose(found[0].psi, found[1].psi, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_orders(method):
    """The error of the state against the exact one falls by 2^p, within a fifth of the order, when the step is halved."""
    model, sector = random_model(6, seed=5), Sector(6, 3)
    places = sector.strings()
    psi = random_vector(sector.dimension)
    exact = expm(-1j * dense(model)[np.ix_(places, places)]) @ psi
    errors = []
    first = {1: 32, 2: 16, 4: 8, 6: 6, 8: 3}[METHODS[method].order]
    for steps in (first, 2 * first):
        formula = SectorFormula(cpu(1), sector, model, psi.copy())
        formula.advance(method, 1.0 / steps, steps)
        errors.append(np.linalg.norm(formula.psi - exact))
    assert errors[1] > 1e-12
    assert np.log2(errors[0] / errors[1]) == pytest.approx(METHODS[method].order, rel=0.2)


@pytest.mark.parametrize("method", ["ts2", "bm4", "kl8"])
def test_way_back(method):
    model, sector = random_model(8), Sector(8, 3)
    psi = random_vector(sector.dimension)
    formula = SectorFormula(cpu(2), sector, model, psi.copy())
    formula.advance(method, 0.2, 5)
    assert np.linalg.norm(formula.psi - psi) > 0.1
    formula.advance(method, -0.2, 5)
    np.testing.assert_allclose(formula.psi, psi, rtol=0, atol=1e-12)


def test_fields_alone_and_a_single_spin():
    for spins, down in ((1, 0), (1, 1), (3, 1)):
        model = random_model(spins, cross=False, share=0.0)
        sector = Sector(spins, down)
        places = sector.strings()
        psi = random_vector(sector.dimension)
        exact = np.exp(-0.7j * np.diag(dense(model))[places]) * psi
        formula = SectorFormula(cpu(1), sector, model, psi)
        formula.advance("ts2", 0.35, 2)
        np.testing.assert_allclose(formula.psi, exact, rtol=0, atol=1e-14)


# --------------------------------------------------------------------------------------------- decks

SYSTEM = {
    "spins": 9,
    "terms": [
        {"type": "xxz", "lattice": "ring", "Jxy": 1.0, "Jz": 0.6, "shells": [1, 2]},
        {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0, "seed": 3}},
    ],
}
SIGMA = [{"type": "field", "axis": "z", "values": "0.1*j"}, {"type": "xx", "lattice": "chain", "J": 0.05}]
START = {"type": "basis", "up": [0, 1, 4]}
EVERYTHING = [
    "sz",
    "energy_variance",
    "return_probability",
    "imbalance",
    "state",
    {"total": "all"},
    {"correlator": ["xx", "yy", "zz"], "pairs": [[0, 1], [2, 7]]},
    {"entropy": {"sites": "half", "kinds": ["von_neumann", "number"]}},
    {"echo": {"sigma": SIGMA}},
    {"time_correlation": 2},
]
OUTPUTS = [0, 0.7, 3.0]


@pytest.mark.parametrize("dm", [False, True])
@pytest.mark.parametrize("variance", [False, True])
def test_every_observable_is_that_of_an_expansion(trotter, variance, dm):
    """bm6 against Chebyshev in the same sector, within the accuracy asked for; the energy from moments and from H psi."""
    observe = [item for item in EVERYTHING if variance or item != "energy_variance"]
    terms = [*SYSTEM["terms"], *([{"type": "dm", "lattice": "ring", "D": 0.4}] if dm else [])]
    system = {**SYSTEM, "terms": terms}
    one, other = (
        trotter.run(
            system=system,
            initial=START,
            sector={"up": 3},
            observe=observe,
            evolve={"outputs": OUTPUTS, "integrator": name, "accuracy": 1e-9},
        )
        for name in ("bm6", "chebyshev")
    )
    assert one.integration.method == "bm6"
    assert one.problem.sector == other.problem.sector
    assert set(one.mean) == set(other.mean)
    for name in other.mean:
        np.testing.assert_allclose(one.mean[name], other.mean[name], rtol=0, atol=2e-8, err_msg=name)
    assert np.linalg.norm(one.psi - other.psi) < 1e-9
    assert one.integration.error <= 1e-9
    assert ("energy_variance" in one.mean) == variance


@pytest.mark.parametrize(
    ("spins", "terms", "initial"),
    [
        (14, [{"type": "heisenberg", "lattice": "ring", "J": 1.0}], {"type": "neel"}),
        (
            14,
            [{"type": "power_law", "model": "xx", "J": 1.0, "alpha": 1.5, "lattice": "chain"}],
            {"type": "haar"},
        ),
        (14, SYSTEM["terms"], {"type": "domain_wall", "up": 7}),
        (
            14,
            [*SYSTEM["terms"], {"type": "dm", "lattice": "chain", "D": 1.5}],
            {"type": "basis", "up": [2, 3]},
        ),
    ],
)
@pytest.mark.parametrize("name", ["ts2", "bm4"])
def test_estimated_errors_hold(trotter, name, spins, terms, initial):
    """The error against Chebyshev is at most the estimate of a given step, and at least a hundredth of it."""
    deck = {
        "system": {"spins": spins, "terms": terms},
        "initial": initial,
        "sector": {"up": 2 if initial["type"] == "basis" else 7},
        "observe": ["state"],
    }
    one = trotter.run(**deck, evolve={"outputs": [4.0], "integrator": name, "dt": 0.1})
    other = trotter.run(**deck, evolve={"outputs": [4.0], "integrator": "chebyshev", "accuracy": 1e-11})
    error = np.linalg.norm(one.psi - other.psi)
    assert 0.01 * one.integration.error < error < one.integration.error


def test_ensembles_and_verification(trotter):
    deck = {
        "system": {**SYSTEM, "spins": 7},
        "initial": {"type": "basis", "up": [0, 2, 4, 6]},
        "sector": {"up": 4},
        "ensemble": {"disorder": 3},
        "observe": ["imbalance"],
    }
    one = trotter.run(
        **deck, evolve={"outputs": OUTPUTS, "integrator": "bm4", "accuracy": 1e-7, "verify": True}
    )
    other = trotter.run(**deck, evolve={"outputs": OUTPUTS, "integrator": "chebyshev", "accuracy": 1e-9})
    np.testing.assert_allclose(one.mean["imbalance"], other.mean["imbalance"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(one.error["imbalance"], other.error["imbalance"], rtol=0, atol=1e-6)
    assert 0.0 < one.info["verification_error"][0] < 1e-7


REFUSED = {
    "inversion": (
        {"sector": {"sz": 0, "inversion": 1}},
        "bm4 goes bond by bond without the inversion of all spins",
    ),
    "momentum": ({"sector": {"sz": 0, "momentum": 0}}, "a single bond has not the symmetries"),
    "driven": (
        {
            "system": {
                "spins": 4,
                "terms": [
                    {
                        "type": "xx",
                        "lattice": "chain",
                        "J": 1.0,
                        "profile": {"type": "cosine", "amplitude": 1.0, "omega": 1.0},
                    }
                ],
            }
        },
        "bm4 goes bond by bond here, which takes a constant H",
    ),
    "not conserved": (
        {"system": {"spins": 4, "terms": [{"type": "field", "axis": "x", "values": 0.3}]}},
        "field along x at site 0 mixes magnetisations",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(trotter, name):
    changes, message = REFUSED[name]
    blocks = {
        "system": {"spins": 4, "terms": [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]},
        "initial": {"type": "neel"},
        "evolve": {"t_final": 1.0, "accuracy": 1e-6, "integrator": "bm4"},
        "sector": {"sz": 0},
    }
    with pytest.raises(DeckError, match=message):
        trotter.run(**{**blocks, **changes})


@pytest.mark.parametrize(
    ("system", "sector"),
    [
        ({"spins": 4, "terms": [{"type": "heisenberg", "lattice": "chain"}]}, {"sz": 0}),
        (
            {"spins": 4, "terms": [{"type": "xyz", "lattice": "ring", "Jx": 1.0, "Jy": 0.4, "Jz": -0.7}]},
            {"parity": "even"},
        ),
        ({"spins": 4, "terms": [{"type": "dm", "lattice": "ring", "D": [0.3, 0.5, 1.0]}]}, "full"),
        (
            {
                "spins": 3,
                "spin": [1, 0.5, 1.5],
                "terms": [{"type": "xyz", "lattice": "chain", "Jx": 1.0, "Jy": 0.4, "Jz": 0.2}],
            },
            "auto",
        ),
    ],
)
def test_formulas_of_bonds_reach_their_accuracy(trotter, system, sector):
    """Everywhere that layers cannot: against a Krylov evolution to 1e-10."""
    given = system.get("spin", [0.5] * system["spins"])
    start = {"type": "basis", "m": [-S if j % 2 else S for j, S in enumerate(given)]}
    deck = {"system": system, "sector": sector, "initial": start, "observe": [{"sz": "all"}, "state"]}
    exact = trotter.run(
        **deck, evolve={"t_final": 1.5, "outputs": 4, "integrator": "krylov", "accuracy": 1e-10}
    )
    for integrator, accuracy in (("ts2", 1e-3), ("bm4", 1e-6)):
        block = {"t_final": 1.5, "outputs": 4, "integrator": integrator, "accuracy": accuracy}
        found = trotter.run(**deck, evolve=block)
        assert found.problem.path == "bonds"
        assert found.integration.error <= accuracy
        assert np.linalg.norm(found.psi - exact.psi) < accuracy


# ------------------------------------------------------------------------------- memory, interruption


def plan(trotter, integrator, **more):
    loaded = trotter.load(
        system={"spins": 30, "terms": [{"type": "heisenberg", "lattice": "ring", "J": 1.0}]},
        initial={"type": "neel"},
        evolve={"t_final": 1.0, "accuracy": 1e-6, "integrator": integrator},
        sector={"sz": 0},
        observe=["sz", *more.get("observe", [])],
    )
    return stage("trotter", "build").plan(loaded)


def test_one_vector_in_memory(trotter):
    """30 spins, 155117520 states: 2.48 GB, of which an expansion takes four; with the variance of the energy H psi beside it."""
    state = 16 * 155117520
    assert plan(trotter, "bm4").memory.parts["state"] == state
    assert state < plan(trotter, "bm4").memory.device < 1.01 * state
    assert plan(trotter, "chebyshev").memory.device > 4 * state
    assert 2 * state < plan(trotter, "bm4", observe=["energy_variance"]).memory.device < 2.01 * state


def test_an_expansion_that_does_not_fit_tells_of_it(trotter, monkeypatch):
    monkeypatch.setattr(core_device, "free_host_memory", lambda: 4 * 2**30)
    cpu(1).require(plan(trotter, "bm4").memory)
    with pytest.raises(MemoryLimitError) as caught:
        cpu(1).require(plan(trotter, "chebyshev").memory)
    assert caught.value.hint is not None
    assert "evolve.integrator: bm4 with sector: {up: 15}, takes 2.51 GB" in caught.value.hint


class StopAfter(Monitor):
    """Stops with a checkpoint at the n-th call at which the state can be saved."""

    def __init__(self, calls, **options):
        super().__init__(quiet=True, **options)
        self.left = calls

    def _stop_reason(self, now, *, savable=True):
        self.left -= 1
        return "stopped by the test" if self.left <= 0 else ""


@pytest.mark.parametrize("calls", [1, 2])
def test_a_resumed_run_has_the_same_bits(trotter, calls):
    blocks = {
        "system": SYSTEM,
        "initial": START,
        "sector": {"up": 3},
        "evolve": {"outputs": [0, 1, 2], "integrator": "ts2", "dt": 0.1},
        "observe": ["sz", {"echo": {"sigma": SIGMA}}],
    }
    whole = trotter.run(**blocks)
    file = trotter.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        trotter.run(monitor=StopAfter(calls, checkpoint=file), **blocks)
    state, _ = checkpoint.load(file)
    resumed = trotter.run(monitor=Monitor(quiet=True, restored=state), **blocks)
    for name in whole.mean:
        np.testing.assert_array_equal(whole.mean[name], resumed.mean[name])

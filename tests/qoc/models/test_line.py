"""A molecule on a grid by its levels: warm, observed, relaxing, as a gate, under several fields; against a sinc basis."""

import numpy as np
import pytest
from scipy.linalg import eigh, expm

import qsim
from qsim.core.deck.load import load_deck
from qsim.core.errors import DeckError
from qsim.qoc.deck import DECK
from qsim.qoc.deck.model import QocDeck
from qsim.qoc.deck.quantum import QuantumDeck, asks_for_levels
from qsim.qoc.models.builders import model, observable_of
from qsim.qoc.models.faults import InvalidSystem

MASS, DEPTH, BETA, R0 = 950.0, 0.11, 0.95, 2.3
HOT = 0.006
MOLECULE = {
    "mass": MASS,
    "potential": {"type": "morse", "D": DEPTH, "beta": BETA, "r0": R0},
    "dipole": {"type": "linear", "slope": 0.7},
    "grid": {"xmin": 1.0, "xmax": 6.5, "points": 181},
    "initial": {"thermal": f"{HOT} hartree"},
    "target": 2,
}
DECK_DATA = {
    "method": "qoc",
    "system": MOLECULE,
    "time": {"T": 2500.0, "steps": 24},
    # values that are held by nature, so that nothing is left of a formula between the slots
    "control": {
        "guess": {"type": "expression", "value": "0.012*cos(0.0122*t)"},
        "parameters": {"type": "slots", "count": 12},
    },
    "optimizer": "none",
    "run": {"seed": 1},
    "output": {"figures": "none"},
}


def deck(system=None, **changes):
    """Return the deck with other keys of the molecule and other blocks."""
    return {**DECK_DATA, "system": {**MOLECULE, **(system or {})}, **changes}


def block(system=None):
    """Return the block `system` as the general pipeline reads it."""
    return load_deck(deck(system, dissipation="none"), DECK).deck.system


def sinc(count=26, mass=MASS, depth=1.0):
    """Return points, levels, states of unit norm and the momentum of a sinc basis on a wider line."""
    x = np.linspace(0.6, 9.0, 321)
    dx, i = x[1] - x[0], np.arange(x.size)
    apart = i[:, None] - i + np.eye(x.size)
    off = (-1.0) ** (i[:, None] - i) * (1 - np.eye(x.size))
    kinetic = np.diag(np.full(x.size, np.pi**2 / 3)) + 2 * off / apart**2
    v = depth * (DEPTH * (np.exp(-BETA * (x - R0)) - 1) ** 2 - DEPTH)
    energies, states = eigh(kinetic / (2 * mass * dx**2) + np.diag(v), subset_by_index=(0, count - 1))
    return x, energies, states.T, -1j * off / apart / dx


def thermal(energies, temperature=HOT):
    """Return the density matrix of a thermal start."""
    weights = np.exp(-(energies - energies[0]) / temperature)
    return np.diag(weights / weights.sum()).astype(complex)


def liouvillian(h, jumps):
    """Return the generator on vec(rho), rows first."""
    one = np.eye(len(h))
    found = -1j * (np.kron(h, one) - np.kron(one, h.T))
    for jump in jumps:
        rate = jump.conj().T @ jump
        found += np.kron(jump, jump.conj()) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
    return found


def ran(data):
    """Return the results of a deck, and its controls (C, N)."""
    results = qsim.run(data)
    names = [name for name in results.names if name.startswith("control/")]
    return results, np.array([results[name] for name in sorted(names)])


def held(results, name, truth, floor=1e-10):
    """Return True if a number is within its claim."""
    scalar = results.scalars[name]
    assert scalar.error is not None
    return abs(float(scalar.value) - truth) <= scalar.error + floor


@pytest.mark.parametrize(
    ("target", "operator"),
    [
        (2, lambda x, e, s, p: np.diag(np.arange(len(e)) == 2).astype(complex)),
        ({"observable": "x^2"}, lambda x, e, s, p: (s * x**2) @ s.T),
        ({"observable": "0.5*(x*p + p*x)"}, lambda x, e, s, p: 0.5 * s @ (x[:, None] * p + p * x) @ s.T),
    ],
)
def test_a_warm_start_and_mean_values(target, operator):
    """Populations and mean values under held fields, with all thermal levels in the truth."""
    results, (field,) = ran(deck({"target": target}))
    x, energies, states, p = sinc()
    total, dipole = np.eye(energies.size), 0.7 * (states * x) @ states.T
    for u in field:
        total = expm(-1j * 2500.0 / field.size * (np.diag(energies) - u * dipole)) @ total
    rho = total @ thermal(energies) @ total.conj().T
    truth = float(np.trace(operator(x, energies, states, p) @ rho).real)
    kind = "probability" if target == 2 else "observable"
    assert held(results, kind, truth)
    assert results.scalars[kind].error < 2e-2 * max(1.0, abs(truth))


def test_relaxation_by_a_bath_lifetimes_and_dephasing():
    """The Lindbladian of golden-rule rates, a lifetime with its reverse, and pure dephasing, as a dense exponential."""
    cold = 0.004
    jumps = [
        {"bath": "x", "rate": 2e-4, "temperature": f"{cold} hartree"},
        {"lifetimes": {2: 3000.0}, "temperature": f"{cold} hartree"},
        {"dephasing": 9000.0},
    ]
    results, (field,) = ran(
        deck(
            {"jumps": jumps, "states": 7, "initial": {"thermal": f"{cold} hartree"}},
            dissipation="lindblad",
            time={"T": 1500.0, "slots": 24},
        )
    )
    x, energies, states, _ = sinc(12)
    f, size = (states * x) @ states.T, energies.size
    found = [np.diag(np.sqrt(2.0 / 9000.0) * np.arange(size))]
    rates = {(2, 1): 1 / 3000.0, (1, 2): np.exp(-(energies[2] - energies[1]) / cold) / 3000.0}
    for low in range(size):
        for high in range(low + 1, size):
            quanta = 1 / np.expm1((energies[high] - energies[low]) / cold)
            bare = 2e-4 * f[high, low] ** 2 / f[1, 0] ** 2
            rates[high, low] = rates.get((high, low), 0.0) + bare * (1 + quanta)
            rates[low, high] = rates.get((low, high), 0.0) + bare * quanta
    for (start, end), rate in rates.items():
        found.append(np.sqrt(rate) * np.outer(np.eye(size)[end], np.eye(size)[start]))
    rho = thermal(energies, cold).ravel()
    for u in field:
        rho = expm(1500.0 / field.size * liouvillian(np.diag(energies) - 0.7 * u * f, found)) @ rho
    assert held(results, "probability", float(rho.reshape(size, size)[2, 2].real))


def test_a_permutation_of_levels_by_two_fields_one_of_them_squared():
    """Average fidelity of 0 -> 1 -> 2 -> 0 under -mu E - (alpha/4) E0^2."""
    system = {
        "initial": None,
        "target": {"gate": [1, 2, 0], "on": [0, 1, 2]},
        "polarisability": {"type": "polynomial", "coefficients": [1.0, 2.0]},
    }
    control = [
        {"name": "field", "guess": {"type": "expression", "value": "0.01*cos(0.0121*t)"}},
        {"name": "envelope", "guess": {"type": "expression", "value": "0.05*sin(pi*t/T)"}},
    ]
    slots = {"parameters": {"type": "slots", "count": 12}}
    results = qsim.run(deck(system, control=[{**one, **slots} for one in control]))
    x, energies, states, _ = sinc()
    mu, alpha, total = 0.7 * (states * x) @ states.T, (states * (1 + 2 * x)) @ states.T, np.eye(energies.size)
    for u, e in zip(results["control/field"], results["control/envelope"], strict=True):
        total = expm(-1j * 2500.0 / 24 * (np.diag(energies) - u * mu - 0.25 * e**2 * alpha)) @ total
    # signs of the levels as the deck has them: the outermost lobe at small x is positive
    signs = np.sign([row[np.flatnonzero(np.abs(row) > 1e-2 * np.abs(row).max())[0]] for row in states])
    block = (signs[:, None] * total * signs)[:3, :3]
    overlap = block[1, 0] + block[2, 1] + block[0, 2]
    truth = (abs(overlap) ** 2 + np.linalg.norm(block) ** 2) / 12.0
    assert held(results, "fidelity", float(truth))


def test_isotopes_as_members_are_the_short_form():
    """`mass_scale` and `field_scale` are members in that order, and give the mean over all of them."""
    short = deck(ensemble={"mass_scale": [1.0, 1.06], "field_scale": [0.9, 1.1]})
    members = [{"set": {"mass_scale": [1.0, 1.06]}}, {"scale": {"control": [0.9, 1.1]}}]
    first, second = (qsim.run(one) for one in (short, deck(ensemble={"members": members})))
    assert first.scalars["probability"].value == second.scalars["probability"].value
    values = []
    for mass in (1.0, 1.06):
        x, energies, states, _ = sinc(mass=MASS * mass)
        dipole = 0.7 * (states * x) @ states.T
        for factor in (0.9, 1.1):
            total = np.eye(energies.size)
            for u in first["control/field"]:
                total = expm(-1j * 2500.0 / 24 * (np.diag(energies) - factor * u * dipole)) @ total
            values.append((total @ thermal(energies) @ total.conj().T)[2, 2].real)
    assert held(first, "probability", float(np.mean(values)))


def test_the_keys_of_the_paper_stay_in_its_pipeline():
    """A deck goes to the levels by what it asks for, and by nothing else."""
    field = {"guess": {"type": "expression", "value": "0.01"}}
    assert DECK.model_for(deck({"initial": 0, "target": 1}, control=field)) is QocDeck
    asking = [
        deck(),
        deck({"initial": 0, "target": {"observable": "x"}}),
        deck({"initial": 0, "target": 1, "jumps": []}),
        deck({"initial": 0, "target": 1}, control=[{"name": "field"}]),
        deck({"initial": 0, "target": 1}, front={"over": "T", "values": [1.0, 2.0]}),
        deck({"initial": 0, "target": 1}, control={"parameters": "constant"}),
    ]
    assert all(asks_for_levels(one) for one in asking)
    assert all(DECK.model_for(one) is QuantumDeck for one in asking)


def test_time_by_length_of_a_slot_or_left_open():
    """dt gives the number of slots; auto has 24 in a period of the fastest transition that the dipole drives."""
    assert qsim.run(deck(time={"T": 600.0, "dt": 25.0}))["control/field"].size == 24
    energies = sinc()[1]
    control = {"guess": {"type": "expression", "value": "0.001*t/T"}}
    count = qsim.run(deck(time={"T": 4000.0, "slots": "auto"}, control=control))["control/field"].size
    assert 24 * 4000.0 * (energies[1] - energies[0]) / (2 * np.pi) <= count < 2000
    with pytest.raises(DeckError, match="give slots"):
        qsim.run(deck(time={"T": 600.0}))


def test_operators_between_levels_know_no_levels():
    """x^2 and p^2/2m + V between the levels are those of the grid, not products of cut matrices."""
    system = block({"states": 6, "initial": 0})
    made = model(system)
    x, _, states, _ = sinc(6)
    squares = observable_of(system, "x^2", "key").toarray().real
    assert np.abs(squares) == pytest.approx(np.abs((states * x**2) @ states.T), abs=1e-3)
    energy = observable_of(system, f"p^2/{2 * MASS} + V", "key").toarray()
    assert energy == pytest.approx(made.drift.toarray(), abs=1e-3)
    assert observable_of(system, "p1", "key").toarray() == pytest.approx(
        np.diag([0.0, 1, 0, 0, 0, 0]), abs=1e-12
    )


@pytest.mark.parametrize(
    ("system", "key", "text"),
    [
        ({"target": 40}, "system.target", "not bound"),
        ({"initial": None, "target": {"gate": "x"}}, "system.target.on", "name the logical states"),
        ({"jumps": [{"lifetimes": {0: 1.0}}]}, "system.jumps.0.lifetimes.0", "nowhere to fall"),
        ({"jumps": [{"rates": {"1": {"77": 1.0}}}]}, "system.jumps.0.rates.1.77", "unknown level"),
        ({"states": 120}, "system.states", "at most 90"),
        ({"dipole": None}, "system.dipole", "no field acts"),
        ({"jumps": [{"bath": "1", "rate": 1.0}]}, "system.jumps.0.bath", "does not couple"),
        ({"initial": {"thermal": "0.5 hartree"}, "states": 8}, "system.states", "above the 8 kept"),
    ],
)
def test_mistakes_are_told_at_their_keys(system, key, text):
    with pytest.raises(InvalidSystem, match=text) as found:
        model(block(system))
    assert key in [finding.key for finding in found.value.findings]


def test_one_process_for_each_entry_of_jumps():
    with pytest.raises(DeckError, match="does not belong beside lifetimes"):
        block({"jumps": [{"lifetimes": {1: 2.0}, "dephasing": 3.0}]})
    with pytest.raises(DeckError, match="bath needs its rate"):
        block({"jumps": [{"bath": "x"}]})

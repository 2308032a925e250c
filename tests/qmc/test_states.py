"""Several states of one expansion: penalties find the roots of a Hamiltonian, gaps and overlaps are those of dense algebra.

Determinants of oscillator functions of another width than the trap's are orthonormal and couple through the kinetic energy and
the trap; the roots in their space are those of a small matrix (`qsim_checks.qmc.mixtures`).  Coverage draws the rest
(kind ``states``).
"""

import copy

import numpy as np
import pytest

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.core.errors import InvalidInput, Stopped
from qsim.core.run import checkpoint
from qsim.core.run.progress import Monitor
from qsim.qmc.sampling.linear_method import Limits, Moments, linear_step
from qsim.qmc.sampling.states import Penalty, Ratios
from qsim.qmc.sampling.walkers import Walkers
from qsim_checks.qmc.mixtures import mixture
from tests.qmc.test_resume import StopAfter, numbers
from tests.qmc.trials import trial_function

TRAP = 0.35, 1.0, 1.0  # exponent (0.5 would be the trap's), frequency, mass
SYSTEM = {"electrons": 3, "spin": 1}
ORBITALS = {"source": "harmonic", "omega": 1.0, "exponent": 0.35}
KEYS = [
    ((0, 1), (0,)),
    ((1, 4), (0,)),
    ((0, 10), (0,)),
    ((4, 10), (0,)),
]  # s and p functions of two shells each
TOGETHER = [[1.0, 0.1, 0.1, 0.2], [0.7, 0.2, 0.75, 0.3]]  # the second one in need of the first root
OPTIMIZE = {"walkers": 200, "iterations": 8, "parameters": "coefficients", "timestep": 0.5}
VMC = {"walkers": 200, "blocks": 40, "steps": 10, "timestep": 0.5}


def hamiltonian():
    """Return the Hamiltonian between the determinants by polarisation of the energy, which is quadratic in coefficients."""
    every = [sorted({o for key in KEYS for o in key[spin]}) for spin in range(2)]

    def energy(c):
        rows = [(float(x), *key) for x, key in zip(c, KEYS, strict=True)]
        return mixture(TRAP, rows, every, [np.eye(len(one)) for one in every])[0] * (c @ c)

    unit = np.eye(len(KEYS))
    single = np.array([energy(one) for one in unit])
    pairs = np.array([[energy(a + b) for b in unit] for a in unit])
    return 0.5 * (pairs - single - single[:, None]) * (1.0 - unit) + np.diag(single)


def listed(C):
    """Return the deck's list of determinants with coefficients (states, determinants)."""
    return [
        {"c": c.tolist(), "up": list(key[0]), "down": list(key[1])}
        for c, key in zip(np.asarray(C).T, KEYS, strict=True)
    ]


def deck(C, *series, **keys):
    return {
        "run": {"seed": 5},
        "system": SYSTEM,
        "wavefunction": {
            "orbitals": ORBITALS,
            "determinants": {"list": listed(C), "csf": False},
            "jastrow": "none",
        },
        "states": {"roots": list(range(len(C))), **keys},
        "series": list(series),
    }


def coefficients(result, k):
    c = result.states[k].after.expansion.coefficients
    return c / np.linalg.norm(c)


def test_penalties_find_the_roots_of_the_hamiltonian(qmc):
    """Both states start close to the first root.  The next two are 0.11 hartree apart, which the sample hardly tells."""
    values, vectors = np.linalg.eigh(hamiltonian())
    result = qmc.run(**deck(TOGETHER, {"optimize": OPTIMIZE}, {"vmc": VMC}))
    assert abs(coefficients(result, 0) @ vectors[:, 0]) > 0.99
    assert np.linalg.norm(coefficients(result, 1) @ vectors[:, 1:3]) > 0.97
    found = numbers(result)
    gap, error = found["vmc_gap"]
    assert values[1] - values[0] - 4 * error - 0.05 < gap < values[2] - values[0] + 4 * error + 0.05
    overlap, error = found["vmc_overlap"]
    assert abs(overlap - coefficients(result, 0) @ coefficients(result, 1)) < 4 * error
    assert found["series_0/state_1/history/overlap"][0] > 0.5
    assert found["series_0/state_1/history/overlap"][-1] < 0.2


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request):
    return cpu(1) if request.param == "cpu" else request.getfixturevalue("cuda")


def state_of(device, c, count=40):
    """Return walkers of a state around the trap, and its trial function."""
    rows = listed([c])
    made = trial_function(SYSTEM, ORBITALS, "none", {"list": rows, "csf": False})
    walkers = Walkers(device, made, count, rng.key_from_seed(3))
    R = np.random.default_rng(7).normal(size=(count, 3, 3))
    walkers.mine.R[...] = device.asarray(R)
    walkers.recompute()
    return walkers, made, R


def test_ratios_are_those_of_the_trial_functions(device):
    """To rounding of determinants of size 1."""
    first, psi, R = state_of(device, TOGETHER[0])
    second, other, _ = state_of(device, [0.1, -1.0, 0.4, 0.2])
    found = Ratios(first, [first, second])(first.mine.R)
    logs = np.array([[one.log_psi(x) for one in (psi, other)] for x in R])
    assert np.allclose(found[:, 0], 1.0, atol=1e-12)
    exact = np.prod(logs[:, :, 1], axis=1) * np.exp(logs[:, 1, 0] - logs[:, 0, 0])
    assert np.allclose(found[:, 1], exact, rtol=1e-9, atol=1e-12)
    penalty = Penalty(first, [second], [0.0], 1.0)
    ratios = penalty.sample(first=True)
    assert np.allclose(ratios[:, 0] / ratios[0, 0], exact / exact[0], rtol=1e-9)


def test_moments_have_the_projector_in_their_hamiltonian():
    """A sample of weights c^2 of three basis states: exact algebra in place of configurations, H diagonal there."""
    generator = np.random.default_rng(1)
    E, U = np.array([0.0, 1.0, 3.0]), np.linalg.qr(generator.normal(size=(3, 3)))[0]
    psi, other, cost = U[:, 0], U[:, 1] + 0.5 * U[:, 0], 4.0
    slopes = U[:, 1:]  # derivatives of psi by two parameters
    counts = np.round(psi**2 * 40000).astype(int)
    psi = np.sign(psi) * np.sqrt(counts / counts.sum())
    rows = np.repeat(np.arange(3), counts)
    moments = Moments(2, 1.0, 100.0, np.array([cost]))
    O = (slopes / psi[:, None])[rows]
    # E O is the local energy of a derivative: G = (H psi_i)/psi - E O vanishes where H is diagonal.
    moments.add(E[rows], O, np.zeros_like(O), (other / psi)[rows][:, None])
    at = moments.surroundings()
    H = np.diag(E) + cost * np.outer(other, other) / (other @ other)
    Q = slopes - np.outer(psi, psi @ slopes)
    assert np.isclose(at.energy, psi @ H @ psi, atol=1e-10)
    assert np.allclose(at.energy_gradient, 2.0 * Q.T @ H @ psi, atol=1e-10)
    assert np.allclose(at.row, Q.T @ H @ psi, atol=1e-10)
    assert np.allclose(at.hamiltonian, Q.T @ H @ Q - at.energy * Q.T @ Q, atol=1e-10)
    step = linear_step(at, 1e-9, 0.0, Limits(np.zeros((2, 2)), np.full(2, 1e9)))
    after = psi + Q @ step
    assert after @ H @ after / (after @ after) < psi @ H @ psi


def test_an_excited_state_is_followed():
    """The nearest eigenvector instead of the lowest one."""
    E = np.array([0.0, 1.0, 5.0])
    psi = np.array([0.55, 0.83, 0.1])
    counts = np.round(psi**2 * 40000).astype(int)
    psi = np.sqrt(counts / counts.sum())
    rows = np.repeat(np.arange(3), counts)
    slopes = np.eye(3)[:, [0, 2]]
    moments = Moments(2, 1.0, 100.0)
    O = (slopes / psi[:, None])[rows]
    moments.add(E[rows], O, np.zeros_like(O))
    signs = []
    for nearest in (False, True):
        limits = Limits(np.zeros((2, 2)), np.full(2, 1e9), nearest)
        signs.append(linear_step(moments.surroundings(), 1e-9, 0.0, limits)[0])
    assert signs[0] > 0.0 > signs[1]


SHORT = (
    {"optimize": {**OPTIMIZE, "walkers": 40, "iterations": 2, "steps": 3, "warmup": 10}},
    {"vmc": {"walkers": 30, "blocks": 20, "steps": 2, "timestep": 0.5, "warmup": 10}},
)


@pytest.mark.parametrize("calls", [2, 5, 9, 16, 40])
def test_every_number_is_the_same_after_a_stop(qmc, calls):
    blocks = deck(TOGETHER, *SHORT)
    whole = numbers(qmc.run(**copy.deepcopy(blocks)))
    file = qmc.folder / "c.ckpt.h5"
    with pytest.raises(Stopped):
        qmc.run(monitor=StopAfter(calls, checkpoint=file), **blocks)
    state, _ = checkpoint.load(file)
    resumed = numbers(qmc.run(monitor=Monitor(quiet=True, restored=state), **blocks))
    assert resumed.keys() == whole.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)


def test_the_first_state_is_what_it_is_alone(qmc):
    """States do not disturb each other's random numbers; a list of several has the state that is asked for."""
    blocks = deck(TOGETHER, SHORT[1])
    both = qmc.run(**blocks)
    del blocks["states"]
    alone = qmc.run(**blocks)
    np.testing.assert_array_equal(both.series[0].blocks["energy"], alone.series[0].blocks["energy"])
    blocks["wavefunction"]["determinants"]["state"] = 1
    other = qmc.build(**blocks)
    assert other.excited
    np.testing.assert_array_equal(
        other.wavefunction.expansion.coefficients, both.states[1].after.expansion.coefficients
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"states": {"roots": [0, 0]}}, "state 0 is listed twice"),
        ({"states": {"roots": [0, 2]}}, "coefficients of 2 states, counted from 0; found state 2"),
        ({"estimators": ["overlaps"], "states": None}, "overlaps are of several states"),
    ],
)
def test_mistakes_are_told_with_their_place(qmc, change, words):
    blocks = {name: value for name, value in {**deck(TOGETHER, SHORT[1]), **change}.items() if value}
    qmc.refuses(words, **blocks)


def test_lists_of_states_have_one_length():
    rows = listed(TOGETHER)
    rows[2]["c"] = 0.5
    with pytest.raises(InvalidInput, match="coefficients of 2 states, found 1"):
        trial_function(SYSTEM, ORBITALS, "none", {"list": rows})


def test_an_excited_state_alone_is_warned_of(qmc):
    blocks = deck(TOGETHER, SHORT[0])
    del blocks["states"]
    blocks["wavefunction"]["determinants"]["state"] = 1
    qmc.warns("an excited state may fall to a lower one", **blocks)

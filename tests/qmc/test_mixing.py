"""Orbitals that mix: which parameters are independent, symmetry, files, closed forms of traps, what optimisations find.

Independence is held against the rank of d ln psi / dp over random configurations, from LAPACK's determinants and inverses.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from qsim.core.errors import InvalidInput
from qsim.qmc.wavefunction.molecules.trap import oscillator_function
from qsim_checks.qmc.mixtures import QUANTA, mixture
from qsim_checks.qmc.oracles import expansion
from tests.qmc.test_optimise import optimised, started
from tests.qmc.trials import trial_function

S, P = (0,), (1, 2, 3)
SHELLS = [
    {"atom": "Be", "n": 1, "zeta": 3.7},
    {"atom": "Be", "n": 2, "zeta": 1.0},
    {"atom": "Be", "n": 2, "l": 1, "zeta": 1.0},
    {"atom": "Be", "n": 3, "zeta": 1.4},
]
ATOM = {"atoms": [["Be", 0, 0, 0]]}


def beryllium(rows, virtual=0, **system):
    listed = [{"c": c, "up": up, "down": down} for c, up, down in rows]
    return trial_function(
        {**ATOM, **system}, {"source": "sto", "shells": SHELLS}, "none", {"list": listed}, virtual=virtual
    )


PAIR = [(1.0, [0, 1], [0, 1])]
CASES = {
    "a determinant": (beryllium, PAIR, 3, {}),
    "an open shell": (beryllium, [(1.0, [0, 1, 2], [0])], 1, {"spin": 2}),
    "two of a shell": (beryllium, [*PAIR, (0.3, [0, 2], [0, 2])], 2, {}),
    "a complete space": (
        beryllium,
        [(0.9, [0, 1], [0, 1]), (0.2, [0, 1], [0, 2]), (0.2, [0, 2], [0, 1]), (-0.2, [0, 2], [0, 2])],
        1,
        {},
    ),
    "orbitals that are one": (beryllium, [(0.6, [0, 1], [0, 1]), (0.8, [0, 2], [0, 1])], 1, {}),
}


def slopes_of(w, R, coefficients):
    """Derivatives of ln psi by coefficients and by all candidates, and 1 for the norm, (configurations, ...)."""
    found = []
    E, mixing = w.expansion, w.mixing
    for one in R:
        parts = [one[: w.n_up], one[w.n_up :]]
        start = [mixing.start.rows(part, spin)[:, 0] for spin, part in enumerate(parts)]
        _, adjoint = E.values([w._rows(one, spin)[:, 0] for spin in range(2)])
        row = [
            sum(sign * start[spin][:, added] @ adjoint[spin][to] for spin, added, to, sign in slopes)
            for slopes in mixing.slopes
        ]
        extra = []
        if coefficients:
            p = E.parameters
            for k in range(p.size):
                ahead, behind = (
                    E.with_parameters(p + h * (np.arange(p.size) == k)).values(
                        [w._rows(one, spin)[:, 0] for spin in range(2)]
                    )[0]
                    for h in (1e-4, -1e-4)
                )
                extra.append((ahead[0] - behind[0]) / 2e-4)
        found.append([1.0, *extra, *row])
    return np.array(found)


@pytest.mark.parametrize("coefficients", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_parameters_are_independent_and_none_is_missing(name, coefficients):
    make, rows, virtual, system = CASES[name]
    w = make(rows, virtual, **system)
    R = w.scatter(60, np.random.default_rng(4))
    O = slopes_of(w, R, coefficients)
    chosen = w.mixing.chosen(w.expansion, coefficients=coefficients)
    own = O.shape[1] - len(w.mixing.slopes)
    kept = np.concatenate([np.arange(own), own + chosen])

    def rank(columns):
        scaled = columns / np.linalg.norm(columns, axis=0).clip(1e-8)
        return int((np.linalg.svd(scaled, compute_uv=False) > 1e-6).sum())

    assert rank(O[:, kept]) == len(kept)
    assert rank(O) == len(kept)


def test_symmetries_and_numbers_of_orbitals_leave_parameters_out():
    w = beryllium([*PAIR, (0.3, [0, 2], [0, 2])], 3)
    pairs = {tuple(w.mixing.pairs[k]) for k in w.mixing.chosen(w.expansion, coefficients=True, symmetry=True)}
    assert pairs == {(1, 0), (5, 0), (5, 1)}  # 3s with 1s and 2s, and these with each other
    assert not any(
        p > 3 for p, _ in w.mixing.pairs[w.mixing.chosen(w.expansion, coefficients=True, virtual=1)]
    )


def test_both_spins_keep_the_same_orbitals():
    w = beryllium([(1.0, [0, 1, 2], [0])], 1, spin=2)
    numbers = w.mixing.start.columns.numbers
    generator = np.random.default_rng(1)
    turned = w.with_parameters(w.parameters + 0.2 * generator.normal(size=w.parameters.size))
    R = generator.normal(size=(6, 3))
    up, down = (turned.orbitals.rows(R, spin)[:, 0] for spin in range(2))
    assert numbers[0][:3] == [0, 1, 2]
    assert_allclose(up[:, 0], down[:, 0], rtol=1e-13)
    back = turned.with_parameters(w.parameters)
    assert np.array_equal(back.orbitals.coefficients, w.orbitals.coefficients)


def test_orbitals_of_files_mix(tmp_path):
    """LiH by CASSCF: 1s and five active orbitals, and as many virtual ones as are asked for."""
    from tests.qmc.kernels.test_walk import DECKS

    orbitals = {"source": "chkfile", "file": str(DECKS / "lih_forces.chk"), "cusp": False}
    w = trial_function({}, orbitals, "none", {"cutoff": 0.0}, virtual=4)
    plain = trial_function({}, orbitals, "none", {"cutoff": 0.0})
    assert np.array_equal(w.orbitals.coefficients, plain.orbitals.coefficients)
    assert len(w.mixing.start.columns.numbers[0]) == max(w.expansion.orbitals) + 4
    chosen = w.mixing.chosen(w.expansion, coefficients=True, symmetry=True)
    inner = [p for p, q in w.mixing.pairs[chosen] if p < w.expansion.orbitals[0]]
    assert 0 < len(chosen) < len(w.mixing.pairs)
    assert all(
        q == 0 for p, q in w.mixing.pairs[chosen] if p in inner
    )  # within the active space coefficients do it


def test_means_of_mixtures_are_those_of_eigenfunctions():
    rows = [(1.0, (0, 1), (0,)), (-0.6, (0, 2), (3,)), (0.5, (1, 4), (0,))]
    energies = 0.8 * np.array([sum(QUANTA[o] for o in (*up, *down)) + 4.5 for _, up, down in rows])
    known = expansion(0.8, energies, np.array([c for c, _, _ in rows])).trial
    found = mixture((0.4, 0.8, 1.0), rows, [[0, 1, 2, 4], [3, 0]], [np.eye(4), np.eye(2)])
    assert_allclose(found, (known["energy"], known["variance"]), rtol=1e-10)
    # one particle in a Gaussian of another width: <T> = 3 a / (2 m), <V> = 3 m w^2 / (8 a); E_L is linear in r^2
    a, w, m = 0.7, 1.1, 1.3
    found = mixture((a, w, m), [(1.0, (0,), ())], [[0], []], [np.eye(1), np.zeros((0, 0))])
    slope = 0.5 * m * w**2 - 2.0 * a**2 / m
    assert_allclose(found, (1.5 * a / m + 3 * m * w**2 / (8 * a), slope**2 * 1.5 / (2 * a) ** 2), rtol=1e-10)


@pytest.mark.parametrize("method", ["linear", "sr"])
def test_orbitals_become_the_lowest_of_their_span(method):
    """Two s particles and one p in a trap of frequency 1, in functions of 1.4: the lowest eigenvalue of s, and the p as it is."""
    r, weight = np.polynomial.legendre.leggauss(200)
    r, weight = 6.0 * (r + 1.0), 6.0 * weight
    s = [oscillator_function(k, 0, 0.7)(r).value for k in range(2)]
    h = np.array([[0.5 * (1 - 1.4**2) * np.sum(weight * r**4 * a * b) for a in s] for b in s])
    lowest = np.linalg.eigvalsh(h + np.diag([2.1, 4.9]))[0]
    p = 1.4 * 2.5 + 0.5 * (1 - 1.4**2) * 2.5 / 1.4
    w = trial_function(
        {"atoms": [], "electrons": 3, "spin": 1}, {"source": "harmonic", "exponent": 0.7}, "none", virtual=3
    )
    walkers = started(w, 200)
    found = optimised(walkers, iterations=4, parameters=["orbitals"], method=method, timestep=0.4)
    exact = 2.0 * lowest + p
    assert found.blocks["energy"][0] > exact + 0.1
    assert found.info["energy"] == pytest.approx(exact, abs=3.0 * found.info["energy_error"] + 2e-3)


def test_orbitals_that_are_not_there():
    with pytest.raises(InvalidInput, match="has orbital 9"):
        beryllium([(1.0, [0, 9], [0, 1])], 2)

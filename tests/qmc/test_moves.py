"""Moves that are shorter near nuclei, in detailed balance; the step that a warm-up finds."""

import math

import numpy as np
import pytest

from qsim.core.device import rng
from qsim.core.device.device import cpu
from qsim.qmc.deck.series import Vmc
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.kernels.walkers.walk_cpu import ACCEPTED, DRIFT, PLAIN, SCALED
from qsim.qmc.sampling.moves import TARGET, Moves, WarmUp
from qsim.qmc.sampling.walkers import Walkers
from tests.qmc.trials import trial_function

WALKERS = 12_000
#: One electron in a 1s function around its nucleus, and what else shortens moves: nothing, another nucleus that the function
#: does not know of, an ion with a pseudopotential.  Charge of the first, exponent, atoms.
SYSTEMS = {
    "poor hydrogen": (0.7, [["H", 0, 0, 0]]),
    "lithium": (2.1, [["Li", 0, 0, 0]]),
    "two nuclei": (1.3, [["Li", 0, 0, 0], ["H", 0.5, 0.3, -0.4]]),
    "two ions": (0.9, [["Be", 0, 0, 0], ["He", 0.9, 0.0, 0.0]]),
}


def one_electron(name):
    """Return the trial function of a system, and its exponent."""
    zeta, atoms = SYSTEMS[name]
    system = {"atoms": atoms, "units": "bohr", "electrons": 1, "spin": 1}
    if name == "two ions":
        system["pseudopotentials"] = {"He": "ccecp"}
    shells = [{"atom": atom[0], "n": 1, "l": 0, "zeta": zeta} for atom in atoms]
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [[1.0, *[0.0] * (len(atoms) - 1)]]}
    return trial_function(system, orbitals, "none"), zeta


def moments(R, zeta):
    """Return functions of an electron whose means are known, and the means."""
    r = zeta * np.linalg.norm(R, axis=1)
    near = [1.0 - math.exp(-2 * x) * (1 + 2 * x + 2 * x * x) for x in (0.15, 0.5, 1.5)]
    found = [r, r * r, 1.0 / r, *(r < x for x in (0.15, 0.5, 1.5)), *(zeta * R.T), R[:, 0] / (r / zeta)]
    return np.array(found, float), np.array([1.5, 3.0, 1.0, *near, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("mode", [DRIFT + SCALED, PLAIN + SCALED], ids=["drift", "plain"])
@pytest.mark.parametrize("tau", [0.5, 4.0])
def test_moves_leave_the_square_of_the_function_as_it_is(name, mode, tau):
    """Walkers drawn from it exactly are moved; chi squared of ten means of independent walkers, beyond which is one of 1e5.

    Where a third of the moves or more is rejected, a wrong ratio of the proposals moves these means by ten errors and more.
    """
    wavefunction, zeta = one_electron(name)
    walkers = Walkers(cpu(1), wavefunction, WALKERS, rng.key_from_seed(7))
    generator = np.random.default_rng(len(name) + mode)
    direction = generator.standard_normal((WALKERS, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    walkers.state.R[:, 0] = direction * generator.gamma(3.0, 0.5 / zeta, WALKERS)[:, None]
    walkers.recompute()
    walk.walk(walkers.device, walkers.state, walkers.tables, tau, mode, 12, walkers.stream(1))
    accepted = walkers.state.moves[:, ACCEPTED].sum() / (12 * WALKERS)
    assert 0.1 < accepted < 0.97
    found, exact = moments(walkers.state.R[:, 0], zeta)
    off = found.mean(axis=1) - exact
    chi2 = float(off @ np.linalg.solve(np.cov(found) / WALKERS, off))
    assert chi2 < 43.0, (accepted, off / np.sqrt(np.var(found, axis=1) / WALKERS))


def atom(symbol, *shells, spin=0):
    """Return the trial function of an atom from Slater functions (n, l, exponent)."""
    given = [{"atom": symbol, "n": n, "l": l, "zeta": zeta} for n, l, zeta in shells]
    return trial_function(
        {"atoms": [[symbol, 0, 0, 0]], "spin": spin}, {"source": "sto", "shells": given}, "none"
    )


NEON = (("Ne", (1, 0, 9.64), (2, 0, 2.88), (2, 1, 2.88)), {})
FOUND = {
    "helium": (("He", (1, 0, 1.6875)), {}),
    "neon": NEON,
    "trap": (None, {}),
}


def trap():
    orbitals = {"source": "harmonic", "omega": 25.0, "exponent": 10.0}
    return trial_function({"electrons": 2}, orbitals, "none")


@pytest.mark.parametrize("name", FOUND)
@pytest.mark.parametrize("warmup", [0, 200])
def test_the_warm_up_finds_a_step_of_good_acceptance(name, warmup):
    """From a start that is off by a factor of up to ten; the step does not depend on threads, and a stop does not change it."""
    wavefunction = trap() if name == "trap" else atom(*FOUND[name][0])

    def warmed(threads, stop=None):
        walkers = Walkers(cpu(threads), wavefunction, 200, rng.key_from_seed(3))
        walkers.place()
        moves = Moves(walkers, Vmc(timestep="auto"))
        up = WarmUp(walkers, moves, warmup, 1)
        if stop is not None:
            calls = iter(range(1000))

            def report(_):
                if next(calls) == stop:
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                up.advance(report)
            state = up.state()
            walkers.restore(state["walkers"])
            moves = Moves(walkers, Vmc(timestep="auto"), state["moves"])
            up = WarmUp(walkers, moves, warmup, 1, state["warm"])
        up.advance(lambda _: None)
        return walkers, moves

    walkers, moves = warmed(1)
    assert warmed(2)[1].state() == moves.state()
    resumed = warmed(1, stop=2)
    assert resumed[1].state() == moves.state()
    assert np.array_equal(resumed[0].state.R, walkers.state.R)
    walkers.state.moves[...] = 0.0
    walk.walk(walkers.device, walkers.state, walkers.tables, moves.tau, moves.mode, 40, walkers.stream(1))
    accepted = walkers.state.moves[:, ACCEPTED].sum() / (40 * walkers.electrons * 200)
    assert accepted == pytest.approx(TARGET, abs=0.05)


def test_a_step_that_is_given_is_kept():
    walkers = Walkers(cpu(1), atom(*NEON[0]), 4, rng.key_from_seed(3))
    moves = Moves(walkers, Vmc(timestep=0.05, move="metropolis"))
    assert (moves.tau, moves.time, moves.mode, moves.sought) == (0.05, 0.05, PLAIN, False)


def correlation_time(energy):
    """Return 1 + 2 sum of the autocorrelations of energies (generations, walkers) to the first that is below 2 %."""
    x = energy - energy.mean()
    time = 1.0
    for k in range(1, len(x) // 2):
        rho = (x[k:] * x[:-k]).mean() / (x * x).mean()
        if rho < 0.02:
            break
        time += 2.0 * rho
    return time


@pytest.mark.parametrize(("timestep", "least", "most"), [("auto", 0.9, 3.0), (0.3, 8.0, 200.0)])
def test_energies_of_neon_forget_in_three_generations(timestep, least, most):
    """All electrons, with Slater's exponents; the fixed step that valence electrons have by habit takes ten times as long."""
    walkers = Walkers(cpu(1), atom(*NEON[0]), 200, rng.key_from_seed(5))
    walkers.place()
    moves = Moves(walkers, Vmc(timestep=timestep))
    WarmUp(walkers, moves, 300, 1).advance(lambda _: None)
    energy = []
    for _ in range(150):
        sums = np.zeros((200, walk.SUMS))
        walk.generations(
            walkers.device, walkers.mine, walkers.tables, moves.tau, moves.mode, 1, 1, walkers.stream(1), sums
        )
        walkers.count_sweeps(1, moves.time)
        energy.append(sums[:, 5])
    assert least < correlation_time(np.array(energy)) < most

"""Open systems beside QuTiP: trajectories against mcsolve, density matrices in a sector against mesolve, steady states.

Processor time of one thread, so that other work on the machine counts little.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Timing, case
from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.trotter.build import build
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.evolution.accuracy import Choice
from qsim.trotter.evolve.open.density import Density, density_choice
from qsim.trotter.evolve.open.members import Members
from qsim.trotter.evolve.steady.search import Search

END, DT, ACCURACY = 4.0, 0.2, 1e-7
TRAJECTORIES = 8
LOSS = 0.3


def _deck(spins: int, kind: str) -> dict[str, Any]:
    """Return a deck: a lossy Ising ring, a lossy XXZ chain, a Heisenberg chain between a source and a drain."""
    ring = [{"type": "ising", "lattice": "ring", "J": 1.0}, {"type": "field", "axis": "x", "values": 0.8}]
    chain = [{"type": "xxz", "lattice": "chain", "J": 1.0, "delta": 0.5}]
    ends = [
        {"type": "pump", "rate": 1.0, "sites": [0]},
        {"type": "loss", "rate": 1.0, "sites": [spins - 1]},
    ]
    deck: dict[str, Any] = {
        "method": "trotter",
        "system": {"spins": spins, "terms": ring if kind == "ising" else chain},
        "dissipation": [{"type": "loss", "rate": LOSS}],
        "observe": [{"sz": "all"}],
    }
    if kind == "steady":
        deck["system"]["terms"] = [{"type": "heisenberg", "lattice": "chain", "J": 1.0}]
        return deck | {"task": "steady", "dissipation": ends}
    initial = {"type": "basis", "bits": "0" * spins} if kind == "ising" else {"type": "neel"}
    method = "trajectories" if kind == "ising" else "density_matrix"
    return deck | {
        "initial": initial,
        "evolve": {"t_final": END, "outputs": 9, "accuracy": ACCURACY},
        "open": {"method": method, "trajectories": TRAJECTORIES},
    }


def _problem(spins: int, kind: str) -> Any:
    return build(load_deck(_deck(spins, kind), TrotterDeck), cpu(1))


def _timed(work: Callable[[], Any]) -> tuple[Any, Timing]:
    """Return what a function returns, and its processor time."""
    start = time.process_time()
    made = work()
    seconds = time.process_time() - start
    return made, Timing(seconds, seconds, 1, "processor time")


def _qutip(spins: int, kind: str) -> tuple[Any, Any, list[Any], list[Any]]:
    """Return H, the start, the jump operators and S^z of every site as QuTiP has them."""
    import qutip

    one = [qutip.qeye(2)] * spins
    S = [
        [qutip.tensor([*one[:j], 0.5 * sigma, *one[j + 1 :]]) for j in range(spins)]
        for sigma in (qutip.sigmax(), qutip.sigmay(), qutip.sigmaz())
    ]
    if kind == "ising":
        H = sum(S[2][j] * S[2][(j + 1) % spins] + 0.8 * S[0][j] for j in range(spins))
    else:
        shares = (1.0, 1.0, 0.5 if kind == "xxz" else 1.0)
        H = sum(d * S[a][j] * S[a][j + 1] for a, d in enumerate(shares) for j in range(spins - 1))
    jumps = [np.sqrt(LOSS) * (S[0][j] - 1j * S[1][j]) for j in range(spins)]
    if kind == "steady":
        jumps = [S[0][0] + 1j * S[1][0], S[0][-1] - 1j * S[1][-1]]
    ups = [qutip.basis(2, j % 2 if kind == "xxz" else 0) for j in range(spins)]
    return H, qutip.tensor(ups), jumps, S[2]


@case("trotter-open", "trajectories, density matrices and steady states of open systems, beside QuTiP")
def open_systems(bench: Bench) -> None:
    """A lossy Ising ring, a lossy XXZ chain and a driven Heisenberg chain."""
    if bench.device.is_cuda:
        bench.note("open systems run on a CPU")
        return
    installed = importlib.util.find_spec("qutip") is not None
    if not installed:
        bench.note("QuTiP is not installed: pip install qutip")
    quick = bench.quick
    _trajectories(bench, 6 if quick else 12, installed)
    _density(bench, 4 if quick else 8, installed)
    for spins in (4,) if quick else (6, 8, 10):
        _steady(bench, spins, installed and spins <= 6)


def _trajectories(bench: Bench, spins: int, peer: bool) -> None:
    problem = _problem(spins, "ising")
    how = Choice("bm4", DT, ACCURACY, 12, 12 * END / DT, 1e-12)
    Members(problem, range(1), how).advance(lambda _: None)
    members = Members(problem, range(TRAJECTORIES), how)
    _, ours = _timed(lambda: members.advance(lambda _: None))
    bench.row(f"N={spins}, {TRAJECTORIES} trajectories", ours, spins=spins, trajectories=TRAJECTORIES)
    if not peer:
        return
    import qutip

    H, psi, jumps, sz = _qutip(spins, "ising")
    times = np.linspace(0.0, END, 9)
    options = {"progress_bar": "", "map": "serial"}
    _, theirs = _timed(
        lambda: qutip.mcsolve(H, psi, times, jumps, e_ops=sz, ntraj=TRAJECTORIES, options=options)
    )
    ratio = theirs.seconds / ours.seconds
    bench.row(f"N={spins}, {TRAJECTORIES} trajectories: QuTiP mcsolve", theirs, spins=spins, ratio=ratio)
    bench.goal(f"trajectories of {spins} spins against mcsolve", ratio, 12.0, "times", at_least=True)


def _density(bench: Bench, spins: int, peer: bool) -> None:
    problem = _problem(spins, "xxz")
    Density(problem, range(1), density_choice(problem)).advance(lambda _: None)
    made = Density(problem, range(1), density_choice(problem))
    _, ours = _timed(lambda: made.advance(lambda _: None))
    bench.row(f"N={spins}, density matrix in its sector", ours, spins=spins, claimed=float(made.error))
    if not peer:
        return
    import qutip

    H, psi, jumps, sz = _qutip(spins, "xxz")
    times = np.linspace(0.0, END, 9)
    found, theirs = _timed(
        lambda: qutip.mesolve(H, psi, times, jumps, e_ops=sz, options={"progress_bar": ""})
    )
    apart = float(np.abs(np.array(found.expect).T - np.array(made.rows["sz"])).max())
    ratio = theirs.seconds / ours.seconds
    bench.row(f"N={spins}: QuTiP mesolve", theirs, spins=spins, ratio=ratio, difference=apart)
    bench.goal(f"density matrix of {spins} spins against mesolve", ratio, 20.0, "times", at_least=True)


def _steady(bench: Bench, spins: int, peer: bool) -> None:
    def found() -> Search:
        search = Search(_problem(spins, "steady"), None)
        search.advance(lambda _: None)
        return search

    search, ours = _timed(found)
    assert search.values is not None
    bench.row(f"N={spins}, steady state and two slowest rates", ours, gap=float(-search.values[1].real))
    if spins == 10:
        bench.goal("steady state of 10 spins", ours.seconds, 20.0, "s")
    if peer:
        import qutip

        H, _, jumps, _ = _qutip(spins, "steady")
        _, theirs = _timed(lambda: qutip.steadystate(H, jumps))
        ratio = theirs.seconds / ours.seconds
        bench.row(f"N={spins}: QuTiP steadystate", theirs, spins=spins, ratio=ratio)

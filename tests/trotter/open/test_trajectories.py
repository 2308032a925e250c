"""Quantum trajectories: each one against a dense drift with the same random numbers, their means against the master equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import expm

from qsim.core.deck.load import load_deck
from qsim.core.device.device import cpu
from qsim.core.run.progress import Monitor
from qsim.trotter.build import build
from qsim.trotter.deck.model import TrotterDeck
from qsim.trotter.evolve.open.carrier import Carrier, randoms
from qsim.trotter.evolve.open.members import drift_of
from qsim.trotter.evolve.run import integration
from tests.trotter.open import oracle

E: list[dict[str, Any]] = [{"type": "loss", "rate": [0.3, 0.5, 0.2]}]
XYZ = {"type": "xyz", "lattice": "chain", "Jx": 0.7, "Jy": -0.4, "Jz": 1.1}
FIELDS = [
    {"type": "field", "axis": "x", "values": 0.8},
    {"type": "field", "axis": "y", "values": [0.3, -0.2, 0.5]},
]
XXZ = {"type": "xxz", "lattice": "chain", "Jxy": 1.0, "Jz": 0.6}
COLLECTIVE = {"type": "collective", "rate": 0.4}
VECTOR = {"type": "jump", "operator": [0.3, "0.5i", -0.4], "rate": [0.5, 0.0, 0.9]}
GAMMA = {"type": "correlated", "matrix": [[0.5, 0.2, 0.1], [0.2, 0.4, 0.1], [0.1, 0.1, 0.3]]}
DEPHASING = {"type": "dephasing", "rate": 0.4}
DM = {"type": "dm", "lattice": "chain", "D": [0.1, 0.2, 0.5]}


def deck(terms: list[Any], entries: list[Any], **more: Any) -> dict[str, Any]:
    made = {
        "method": "trotter",
        "system": {"spins": 3, "terms": terms},
        "dissipation": entries,
        "open": {"method": "trajectories", "trajectories": 5},
        "initial": {"type": "basis", "bits": "010"},
        "evolve": {"t_final": 3.0, "outputs": 4, "accuracy": 1e-8},
        "run": {"seed": 11},
    }
    return {**made, **more}


def matrices(made: dict[str, Any]) -> tuple[Any, list[Any], list[np.ndarray]]:
    """Return H, the jump operators in the order of the channels, and the problem."""
    problem = build(load_deck(made, TrotterDeck), cpu(1))
    twos = problem.models.system.twos
    S = oracle.spins(twos)
    n = len(twos)
    model = problem.hamiltonian().at(0.0)
    H = sum(
        (model.J[a, j, k] * S[j][a] @ S[k][a] for a in range(3) for j in range(n) for k in range(j + 1, n)),
        sum((model.h[a, j] * S[j][a] for a in range(3) for j in range(n)), np.zeros_like(S[0][0])),
    )
    if model.cross is not None:
        H = H + sum(
            model.cross[a, b, j, k] * S[j][a] @ S[k][b]
            for a in range(3)
            for b in range(3)
            for j in range(n)
            for k in range(j + 1, n)
        )
    jumps = [sum(c.w[j, a] * S[j][a] for j in range(n) for a in range(3)) for c in problem.channels]
    return problem, jumps, H


@pytest.mark.parametrize(
    ("terms", "entries", "kind", "more"),
    [
        ([XYZ, *FIELDS], E, "layers", {}),
        ([XYZ, *FIELDS], [VECTOR, {"type": "thermal", "rate": 0.3, "occupation": 0.5}], "layers", {}),
        ([XXZ], [COLLECTIVE, DEPHASING], "layers", {"sector": "full"}),
        ([XYZ], [GAMMA], "layers", {}),
        ([XXZ, DM], E, "sparse", {}),
        ([XXZ], [GAMMA, {"type": "pump", "rate": 0.3, "sites": [0]}], "sparse", {"sector": {"up": 2}}),
        ([XXZ], [DEPHASING], "unitary", {}),
        ([XYZ, *FIELDS], [{"type": "loss", "rate": 0.4}, {"type": "pump", "rate": 0.4}], "unitary", {}),
        (
            [XYZ, *FIELDS],
            [DEPHASING],
            "unitary",
            {"evolve": {"t_final": 3.0, "outputs": 4, "integrator": "bm4", "dt": 0.02}},
        ),
    ],
)
def test_states(terms: list[Any], entries: list[Any], kind: str, more: dict[str, Any]) -> None:
    problem, jumps, H = matrices(deck(terms, entries, **more))
    assert problem.drift == kind
    drift_matrix = -1j * H - 0.5 * sum(L.conj().T @ L for L in jumps)
    how = integration(problem, Monitor.silent())
    made = 0
    for member in range(4):
        drift = drift_of(problem, member, how)
        drift.begin(problem.initial(member))
        carrier = Carrier(drift, 11, member)
        # the dense trajectory
        psi = np.zeros(8, complex)
        psi[0b010] = 1.0
        t, times, chosen = 0.0, [], []
        while True:
            u, v = randoms(11, member, len(times))
            low, high = 0.0, 3.0 - t
            if np.linalg.norm(expm(drift_matrix * high) @ psi) ** 2 >= u:
                psi = expm(drift_matrix * high) @ psi
                break
            for _ in range(60):
                middle = 0.5 * (low + high)
                low, high = (
                    (middle, high)
                    if np.linalg.norm(expm(drift_matrix * middle) @ psi) ** 2 > u
                    else (low, middle)
                )
            psi, t = expm(drift_matrix * low) @ psi, t + low
            rates = np.cumsum([np.linalg.norm(L @ psi) ** 2 for L in jumps])
            k = int(np.searchsorted(rates, v * rates[-1], side="right"))
            psi = jumps[k] @ psi
            psi = psi / np.linalg.norm(psi)
            times.append(t)
            chosen.append(k)
        for k in range(3):
            _, dt = problem.steps(k, how.dt)
            carrier.advance(float(k), k + 1.0, min(dt, problem.longest))
        assert [k for _, k in carrier.jumps] == chosen
        made += len(chosen)
        np.testing.assert_allclose([t for t, _ in carrier.jumps], times, atol=1e-6)
        found = problem.in_space(drift.space).whole(drift.psi) if hasattr(drift, "space") else drift.psi
        if problem.sector is not None and not hasattr(drift, "space"):
            found = problem.whole(found)
        psi = psi / np.linalg.norm(psi)
        overlap = abs(np.vdot(found, psi)) / np.linalg.norm(found)
        assert overlap == pytest.approx(1.0, abs=1e-6)
    assert made > 4

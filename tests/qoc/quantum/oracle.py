"""Random open systems, and what dense Liouvillians make of them."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm, expm_frechet
from scipy.sparse import csr_array

from qsim.qoc.models.quantum import (
    ControlTerm,
    GateTarget,
    Jump,
    ObservableTarget,
    QuantumModel,
    SeveralTargets,
    StateTarget,
)

DURATION = 1.7


def hermitian(rng, d, filled=1.0):
    a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    a *= rng.random((d, d)) < filled
    return (a + a.conj().T) / 2.0


def isometry(rng, d, s):
    return np.linalg.qr(rng.normal(size=(d, s)) + 1j * rng.normal(size=(d, s)))[0]


def random_model(seed, kind, rate, levels=(2, 13)):
    """Return a random open system, its controls (C, N) and their powers."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(*levels))
    controls = tuple(
        ControlTerm(str(c), csr_array(hermitian(rng, d, 0.5)), 1 + c % 2)
        for c in range(int(rng.integers(1, 4)))
    )
    jumps = []
    for k in range(int(rng.integers(1, 4))):
        a = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
        # some are sparse, some are full
        a *= rng.random((d, d)) < rng.choice([0.2, 1.0])
        jumps.append(Jump(str(k), csr_array(np.sqrt(rate) * a / max(np.linalg.norm(a, 2), 1e-9))))
    goals = {
        "gate": lambda v: GateTarget(isometry(rng, 2, 2), v, "none", np.zeros((2, 0), np.int64)),
        "states": lambda v: StateTarget((isometry(rng, d, 1).T, isometry(rng, d, 1).T)),
        "observable": lambda v: ObservableTarget(csr_array(hermitian(rng, d))),
        "mixture": lambda v: StateTarget((isometry(rng, d, 1).T,)),
    }
    states = isometry(rng, d, 2)
    weights = np.array([0.5, 0.5]) if kind == "gate" else np.array([0.7, 0.3])
    drift = csr_array(hermitian(rng, d, 0.7))
    labels = tuple(map(str, range(d)))
    made = QuantumModel(
        drift, controls, tuple(jumps), labels, (d,), None, states, weights, 0.0, goals[kind](states)
    )
    return made, rng.normal(size=(len(controls), 6))


def liouvillians(made):
    """Return A0 and every A_c on rho row by row, from Kronecker products."""
    one = np.eye(made.dimension)
    out = []
    for h in [made.drift, *(c.operator for c in made.controls)]:
        out.append(-1j * (np.kron(h.toarray(), one) - np.kron(one, h.toarray().T)))
    for jump in made.jumps:
        a = jump.operator.toarray()
        rate = a.conj().T @ a
        out[0] += np.kron(a, a.conj()) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
    return out


def steps(made, fields):
    """Return tau A of every slot."""
    a, tau = liouvillians(made), DURATION / fields.shape[1]
    powers = [c.power for c in made.controls]
    return [
        tau * (a[0] + sum(u**p * b for u, p, b in zip(slot, powers, a[1:], strict=True))) for slot in fields.T
    ]


def true_value(made, fields):
    """Return the value of the goal by its definition, from the final density matrices of every product of two starts."""
    whole = np.eye(made.dimension**2)
    for step in steps(made, fields):
        whole = expm(step) @ whole
    return value_of(made, whole)


def true_slope(made, fields, c, n):
    """Return the derivative of the value by the control c in slot n, from Frechet derivatives of dense exponentials."""
    whole = np.eye(made.dimension**2)
    power, tau = made.controls[c].power, DURATION / fields.shape[1]
    direction = tau * power * fields[c, n] ** (power - 1) * liouvillians(made)[1 + c]
    for k, step in enumerate(steps(made, fields)):
        whole = (expm_frechet(step, direction, compute_expm=False) if k == n else expm(step)) @ whole
    # the value is linear in the map of density matrices
    return value_of(made, whole)


def value_of(made, whole):
    """Return the value of the goal for a map of density matrices, row by row (D^2, D^2)."""
    if isinstance(made.goal, SeveralTargets):
        return sum(weight * value_of(one, whole) for weight, one in made.each())

    def evolved(x, y):
        return (whole @ np.outer(x, y.conj()).ravel()).reshape(made.dimension, -1)

    goal, x = made.goal, made.states.T
    if isinstance(goal, GateTarget):
        # the mean over all states from those on the axes of the Bloch sphere of two logical states
        r = np.sqrt(0.5)
        cardinal = np.array([[1, 0], [0, 1], [r, r], [r, -r], [r, 1j * r], [r, -1j * r]])
        wanted = goal.columns @ goal.unitary @ cardinal.T
        starts = goal.columns @ cardinal.T
        return np.mean([np.vdot(f, evolved(s, s) @ f).real for f, s in zip(wanted.T, starts.T, strict=True)])
    parts = []
    for s, w in enumerate(made.weights):
        rho = evolved(x[s], x[s])
        if isinstance(goal, ObservableTarget):
            parts.append(w * np.trace(goal.operator.toarray() @ rho).real)
        else:
            f = goal.vectors[min(s, len(goal.vectors) - 1)][0]
            parts.append(w * np.vdot(f, rho @ f).real)
    return sum(parts)

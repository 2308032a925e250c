"""Dense matrices and exponentials, which share nothing with the builders."""

import numpy as np
from scipy.linalg import expm


def liouvillian(h, jumps):
    """Superoperator (D^2, D^2) on vec(rho) with rows one after the other."""
    one = np.eye(len(h))
    total = -1j * (np.kron(h, one) - np.kron(one, h.T))
    for jump in jumps:
        m = jump.conj().T @ jump
        total = total + np.kron(jump, jump.conj()) - 0.5 * (np.kron(m, one) + np.kron(one, m.T))
    return total


def evolved(model, time, rho):
    """rho(t) without controls, by one dense exponential."""
    jumps = [jump.operator.toarray() for jump in model.jumps]
    size = model.dimension
    return (expm(time * liouvillian(model.drift.toarray(), jumps)) @ rho.ravel()).reshape(size, size)


def unit(size, row, column):
    matrix = np.zeros((size, size), complex)
    matrix[row, column] = 1.0
    return matrix


def average_fidelity(model, time):
    """Average fidelity of the free motion to the gate, d = D, from all matrix units."""
    gate = model.goal.unitary
    d = len(gate)
    process = 0.0
    for i in range(d):
        for j in range(d):
            out = evolved(model, time, unit(d, i, j))
            process += (gate.conj().T @ out @ gate)[i, j].real / d**2
    return (d * process + 1.0) / (d + 1.0)

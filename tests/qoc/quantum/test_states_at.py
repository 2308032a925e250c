"""States at chosen times, and mean values of operators that are not Hermitian, against dense exponentials."""

import numpy as np
import pytest
from scipy.linalg import expm

import qsim

SX = np.array([[0, 1], [1, 0]], complex)
LOWER = np.array([[0, 1], [0, 0]], complex)
TIMES = [0.0, 2.31, 0.5, 4.0]


def blocks(**changes):
    """Return a deck of one driven qubit that relaxes, with slots of 0.5."""
    return {
        "method": "qoc",
        "system": {
            "type": "model",
            "parts": [{"name": "a", "type": "qubit", "frequency": 1.0, "T1": 20.0}],
            "controls": {"u": "a.sx"},
            "initial": {"0": 1.0, "1": "0.5i"},
            "target": "1",
        },
        "time": {"T": 4.0, "slots": 8},
        "control": [{"name": "u", "guess": {"type": "expression", "value": "0.3*cos(t)"}}],
        "optimizer": "none",
        "states_at": TIMES,
        "observe": {"c": "a.sm", "n": "a.n"},
        **changes,
    }


def truth(fields, time, rate):
    """Return the density matrix at a time, rows first."""
    one = np.eye(2)
    psi = np.array([1.0, 0.5j]) / np.sqrt(1.25)
    rho = np.outer(psi, psi.conj()).ravel()
    loss = np.sqrt(rate) * LOWER
    back = np.kron(loss, loss.conj()) - 0.5 * (
        np.kron(loss.conj().T @ loss, one) + np.kron(one, (loss.conj().T @ loss).T)
    )
    for n, u in enumerate(fields):
        width = min(max(time - 0.5 * n, 0.0), 0.5)
        h = np.diag([0.0, 1.0]) + u * SX
        rho = expm(width * (-1j * (np.kron(h, one) - np.kron(one, h.T)) + back)) @ rho
    return rho.reshape(2, 2)


@pytest.mark.parametrize("dissipation", ["none", "lindblad"])
def test_states_and_complex_mean_values(tmp_path, dissipation):
    rate = 0.0 if dissipation == "none" else 1.0 / 20.0
    with qsim.run(blocks(dissipation=dissipation), output=tmp_path / "r", figures="none") as results:
        fields = results["control/u"]
        assert results["time_states"] == pytest.approx(TIMES)
        for time, rho in zip(TIMES, results["rho_at"], strict=True):
            assert np.abs(rho - truth(fields, time, rate)).max() < 1e-12
        if dissipation == "none":
            psi = results["psi_at"]
            assert np.abs(np.einsum("ni,nj->nij", psi, psi.conj()) - results["rho_at"]).max() < 1e-12
        else:
            assert "psi_at" not in results
        for n in (0, 3, 8):
            rho = truth(fields, 0.5 * n, rate)
            assert abs(results["observed/c"][n] - np.trace(LOWER @ rho)) < 1e-12
            assert results["observed/n"][n] == pytest.approx(rho[1, 1].real, abs=1e-12)
        assert results["observed/n"].dtype == float


def test_mistakes_are_told(qoc):
    made = {k: v for k, v in blocks().items() if k != "method"}
    qoc.refuses(r"states_at\.1: .*outside of 0 to time\.T", **made | {"states_at": [1.0, 4.1]})
    qoc.refuses(r"states_at", **made | {"states_at": [-1.0]})

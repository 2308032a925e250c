"""Other codes on the CPU: a step as a circuit of Qulacs or Qiskit Aer, from the same state, on one thread.

A layer is an RZZ gate on every bond (and RZ where there is a field), then a one-qubit gate C or C^dagger on every qubit.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from bench.harness import Timing, wall
from bench.trotter import problem
from qsim.core.device.device import Device
from qsim.trotter.model.hamiltonian import Model

BLOCK = 2  # qubits of the gates that the optimiser of Qulacs makes


class Code(Protocol):
    """A step by another code."""

    def state(self) -> np.ndarray:
        """Return the state after one step."""

    def timing(self, device: Device, least: int) -> Timing:
        """Return the time of one step."""


def gates(model: Model) -> Iterator[tuple[str, Any, tuple[int, ...]]]:
    """Go through the gates of a step: ``zz`` and ``z`` with their angle, ``u`` with its matrix; and their qubits."""
    steps = problem.sequence()
    turns = [*problem.rotations(steps), None]
    bonds = [[(j, k) for j, k in zip(*np.nonzero(np.triu(model.J[a])), strict=True)] for a in range(3)]
    for (axis, tau), forward in zip(steps, turns, strict=True):
        for j, k in bonds[axis]:
            yield "zz", 0.5 * tau * model.J[axis, j, k], (int(j), int(k))
        for j in np.flatnonzero(model.h[axis]):
            yield "z", tau * model.h[axis, j], (int(j),)
        if forward is not None:
            matrix = problem.ROTATION if forward else problem.ROTATION.conj().T
            for q in range(model.spins):
                yield "u", matrix, (q,)


class Qulacs:
    """Qulacs: gate by gate, or with gates merged by its optimiser."""

    def __init__(self, model: Model, psi: np.ndarray, optimise: bool) -> None:
        import qulacs
        from qulacs.gate import DenseMatrix, PauliRotation

        self._circuit = qulacs.QuantumCircuit(model.spins)
        for kind, value, qubits in gates(model):
            if kind == "u":
                self._circuit.add_gate(DenseMatrix(qubits[0], value))
            else:  # exp(i angle / 2 P)
                self._circuit.add_gate(PauliRotation(list(qubits), [3] * len(qubits), -float(value)))
        if optimise:
            from qulacs.circuit import QuantumCircuitOptimizer

            QuantumCircuitOptimizer().optimize(self._circuit, BLOCK)
        self._state = qulacs.QuantumState(model.spins)
        self._state.load(psi)
        self._psi = psi

    def state(self) -> np.ndarray:
        """Return the state after one step."""
        self._state.load(self._psi)
        self._circuit.update_quantum_state(self._state)
        return np.asarray(self._state.get_vector())

    def timing(self, device: Device, least: int) -> Timing:
        """Return the time of one step."""
        return wall(device, lambda: self._circuit.update_quantum_state(self._state), least=least)


class Aer:
    """Qiskit Aer with gate fusion; the time is the one it gives for the execution of the circuit."""

    def __init__(self, model: Model, psi: np.ndarray) -> None:
        import qiskit_aer.library  # noqa: F401  (gives circuits their set_statevector)
        from qiskit import QuantumCircuit
        from qiskit.circuit.library import UnitaryGate
        from qiskit_aer import AerSimulator

        self._simulator = AerSimulator(
            method="statevector", precision="double", fusion_enable=True, max_parallel_threads=1
        )
        circuit = QuantumCircuit(model.spins)
        circuit.set_statevector(psi)
        made: dict[int, Any] = {}
        for kind, value, qubits in gates(model):
            if kind == "zz":
                circuit.rzz(float(value), *qubits)
            elif kind == "z":
                circuit.rz(float(value), *qubits)
            else:
                circuit.append(made.setdefault(value.tobytes(), UnitaryGate(value)), qubits)
        self._saved = circuit.copy()
        self._saved.save_statevector()
        circuit.save_amplitudes([0])  # gates that nothing asks for are not executed
        self._circuit = circuit

    def _run(self, circuit: Any) -> Any:
        result = self._simulator.run(circuit, shots=1).result()
        if not result.success:
            raise RuntimeError(result.status)
        return result

    def state(self) -> np.ndarray:
        """Return the state after one step."""
        return np.asarray(self._run(self._saved).get_statevector())

    def timing(self, device: Device, least: int) -> Timing:
        """Return the time of one step, without making the circuit ready and handing over its state."""
        own: list[float] = []

        def work() -> None:
            own.append(float(self._run(self._circuit).results[0].time_taken))

        outer = wall(device, work, least=least)
        return Timing(statistics.median(own[1:]), min(own[1:]), outer.repeats, "aer")


CODES = {
    "Qulacs, 1-qubit gates and RZZ": lambda model, psi: Qulacs(model, psi, False),
    f"Qulacs, its optimiser ({BLOCK} qubits)": lambda model, psi: Qulacs(model, psi, True),
    "Qiskit Aer, fusion": Aer,
}
ALL_TO_ALL = tuple(CODES)[:1]  # whose N (N - 1) / 2 gates a layer are measured, too

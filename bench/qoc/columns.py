"""A gate of many qubits: value with gradient of one system on a GPU, whose batch are the columns, and on one core."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bench.harness import Bench, case, wall

if TYPE_CHECKING:
    from qsim.core.device.device import Device
    from qsim.qoc.models.quantum import QuantumModel
    from qsim.qoc.objectives.slots import SlotObjective

SLOTS = 50
DURATION = 2.0
# Qubits of the chains: 4 to 256 columns.
QUBITS = (2, 3, 4, 5, 6, 7, 8)
QUICK = (2, 4)


@case("qoc-columns", "gradient of a gate of 2 to 8 qubits, columns as the batch of a GPU, against one core")
def columns(bench: Bench) -> None:
    """Chains of qubits with a field along x and y on each; kets of all logical states."""
    for qubits in QUICK if bench.quick else QUBITS:
        made = _chain(qubits)
        fields = 0.3 * np.random.default_rng(qubits).normal(size=(2 * qubits, SLOTS))
        core = _objective(made, None)
        single = wall(bench.core, lambda built=core, u=fields: built.evaluate(u), budget=0.5)
        entries = core.propagator.pattern.entries * made.dimension
        bench.row(f"{qubits} qubits on one core", single, entries_by_columns=entries)
        if not bench.device.is_cuda:
            continue
        there = _objective(made, bench.device)
        timing = wall(bench.device, lambda built=there, u=fields: built.evaluate(u), budget=0.5)
        bench.row(f"{qubits} qubits", timing, core_by_gpu=single.best / timing.best)


def _objective(made: QuantumModel, device: Device | None) -> SlotObjective:
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.propagators.slots import Motion

    return SlotObjective(made, Motion(DURATION, SLOTS), device=device)


def _chain(qubits: int) -> QuantumModel:
    """Return a chain of qubits whose gate is a Fourier transform."""
    from scipy.sparse import csr_array, identity, kron

    from qsim.qoc.models.quantum import ControlTerm, GateTarget, QuantumModel

    one = {"x": [[0, 1], [1, 0]], "y": [[0, -1j], [1j, 0]], "z": [[1, 0], [0, -1]]}

    def placed(name: str, place: int) -> csr_array:
        left, right = identity(2**place), identity(2 ** (qubits - place - 1))
        return csr_array(kron(kron(left, np.array(one[name], complex)), right))

    size = 2**qubits
    sites = range(qubits)
    drift = csr_array(sum((placed("z", a) @ placed("z", b) for a, b in pairwise(sites))))
    controls = tuple(ControlTerm(f"{n}{k}", placed(n, k)) for k in sites for n in "xy")
    states = np.eye(size, dtype=complex)
    gate = np.exp(2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size) / np.sqrt(size)
    return QuantumModel(
        drift=drift,
        controls=controls,
        jumps=(),
        labels=tuple(map(str, range(size))),
        shape=(2,) * qubits,
        seconds=None,
        states=states,
        weights=np.full(size, 1.0 / size),
        dropped=0.0,
        goal=GateTarget(gate, states, "none", np.zeros((size, 0), dtype=np.int64)),
    )

"""A gate of two qubits: value and exact gradient, closed and with relaxation, against GRAPE by diagonalisation of every slot."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.harness import Bench, Cost, case, wall

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

SLOTS = 200
DURATION = 4.0
SX = np.array([[0, 1], [1, 0]], dtype=complex)
SY = np.array([[0, -1j], [1j, 0]])
SZ = np.diag([1.0, -1.0]).astype(complex)
SM = np.array([[0, 1], [0, 0]], dtype=complex)
ONE = np.eye(2)
DRIFT = 0.5 * np.kron(SZ, SZ)
CONTROLS = [0.5 * np.kron(a, ONE) for a in (SX, SY)] + [0.5 * np.kron(ONE, a) for a in (SX, SY)]
CNOT = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=complex)
JUMPS = [np.sqrt(2e-3) * np.kron(SM, ONE), np.sqrt(2e-3) * np.kron(ONE, SM)]
JUMPS += [np.sqrt(1e-3) * np.kron(SZ, ONE), np.sqrt(1e-3) * np.kron(ONE, SZ)]
# Operations of a value with its gradient: m products forward and 3 m backward, 8 for a complex multiply-add.
PER_PRODUCT = 32.0
# The same of density matrices in a Hermitian basis, where all numbers are real.
PER_REAL_PRODUCT = 8.0


@case(
    "qoc-gate",
    "CNOT of two qubits, 200 slots, 4 controls: value and gradient against GRAPE by diagonalisation",
    devices=("cpu",),
)
def gate(bench: Bench) -> None:
    """Both from the same controls; the two gradients are compared, too."""
    fields = _fields(20 if bench.quick else SLOTS)
    for name, jumps, least in (("closed", [], 60.0), ("with relaxation", JUMPS, 30.0)):
        theirs, gradient = _grape(jumps, fields)
        peer = wall(bench.device, theirs)
        bench.row(f"{name}: GRAPE by diagonalisation of every slot, NumPy", peer)
        objective = _objective(DRIFT, CONTROLS, jumps, fields.shape[1])
        ours = wall(bench.device, lambda built=objective: built.evaluate(fields))
        difference = float(np.abs(objective.evaluate(fields).gradient - gradient()).max())
        bench.row(
            f"{name}: qsim, value and gradient",
            ours,
            _cost(objective),
            difference=difference,
            # processor time: one thread each, and a shared machine interrupts the longer one more
            ratio=peer.cpu_seconds / ours.cpu_seconds,
        )
        if importlib.util.find_spec("qutip_qtrl") is not None:
            qutip = wall(bench.device, _qutip(jumps, fields))
            bench.row(f"{name}: qutip-qtrl GRAPE", qutip)
            bench.goal(
                f"{name}: qutip-qtrl / qsim", qutip.cpu_seconds / ours.cpu_seconds, least, "x", at_least=True
            )
    _many_columns(bench)


def _many_columns(bench: Bench) -> None:
    """Measure the rate of the kernel from four columns on: chains of levels with as many columns as logical states."""
    rng = np.random.default_rng(5)
    for levels, columns in ((16, 4), (25, 4), (25, 8), (25, 16)):
        b = np.diag(np.sqrt(np.arange(1.0, levels)), 1)
        drift = np.diag(rng.normal(size=levels)).astype(complex)
        controls = [(b + b.T).astype(complex), 1j * (b.T - b)]
        objective = _objective(drift, controls, [], SLOTS, columns)
        fields = 0.3 * rng.normal(size=(2, SLOTS))
        timing = wall(bench.device, lambda built=objective, u=fields: built.evaluate(u))
        bench.row(f"{levels} levels, {columns} columns: value and gradient", timing, _cost(objective))


def _fields(slots: int) -> NDArray[np.float64]:
    """Return smooth random controls (4, N)."""
    rng = np.random.default_rng(7)
    t = (np.arange(slots) + 0.5) / slots
    modes = np.sin(np.pi * np.outer(np.arange(1, 5), t))
    return np.asarray(0.8 * rng.normal(size=(4, 4)) @ modes)


def _objective(
    drift: NDArray[np.complex128],
    controls: list[NDArray[np.complex128]],
    jumps: list[NDArray[np.complex128]],
    slots: int,
    columns: int | None = None,
) -> Any:
    """Return the objective of a gate on the first levels, as a run makes it; without jumps by kets."""
    from scipy.sparse import csr_array

    from qsim.qoc.models.quantum import ControlTerm, GateTarget, Jump, QuantumModel
    from qsim.qoc.objectives.slots import SlotObjective
    from qsim.qoc.propagators.slots import Motion

    size = len(drift)
    count = columns or size
    unitary = CNOT if count == 4 else np.eye(count, dtype=complex)
    logical = np.eye(size, count, dtype=complex)
    model = QuantumModel(
        drift=csr_array(drift),
        controls=tuple(ControlTerm(f"c{k}", csr_array(h)) for k, h in enumerate(controls)),
        jumps=tuple(Jump(f"j{k}", csr_array(j)) for k, j in enumerate(jumps)),
        labels=tuple(map(str, range(size))),
        shape=(size,),
        seconds=None,
        states=logical,
        weights=np.full(count, 1.0 / count),
        dropped=0.0,
        goal=GateTarget(unitary, logical, "none", np.zeros((count, 0), dtype=np.int64)),
    )
    return SlotObjective(model, Motion(DURATION, slots, lindblad=bool(jumps)))


def _cost(objective: Any) -> Cost:
    """Return the operations of a value with its gradient, and the bytes of the trajectory, written and read."""
    propagator, columns = objective.propagator, objective.start.shape[1]
    entries, rows = propagator.values.shape[1], objective.start.shape[0]
    each = PER_REAL_PRODUCT if propagator.layout.real else PER_PRODUCT
    flops = each * entries * columns * propagator.products
    return Cost(flops, 2.0 * 16.0 * rows * columns * propagator.slots)


def _grape(
    jumps: list[NDArray[np.complex128]], fields: NDArray[np.float64]
) -> tuple[Callable[[], object], Callable[[], NDArray[np.float64]]]:
    """Return GRAPE as programs without a kernel do it: a function to time, and one for the gradient (C, N) of F.

    Closed: eigenvectors of every slot and divided differences of the exponential.  With jumps: block exponentials of the dense
    superoperator, for each control and slot.
    """
    state: dict[str, NDArray[np.float64]] = {}
    tau = DURATION / fields.shape[1]

    def closed() -> None:
        steps, turned = [], []
        for u in fields.T:
            w, v = np.linalg.eigh(DRIFT + sum(a * h for a, h in zip(u, CONTROLS, strict=True)))
            phase = np.exp(-1j * tau * w)
            gap = w[:, None] - w
            same = np.abs(gap) < 1e-12
            quotient = (phase[:, None] - phase) / np.where(same, 1.0, gap)
            factor = np.where(same, -1j * tau * phase[:, None], quotient)
            steps.append((v * phase) @ v.conj().T)
            turned.append([v @ ((v.conj().T @ h @ v) * factor) @ v.conj().T for h in CONTROLS])
        before, after = _products(steps)
        overlap = np.vdot(CNOT, before[-1])
        rows = [
            [
                2.0 * (np.conj(overlap) * np.vdot(CNOT, after[n + 1] @ d @ before[n])).real / 20.0
                for d in turned[n]
            ]
            for n in range(len(steps))
        ]
        state["gradient"] = np.array(rows).T

    def opened() -> None:
        from scipy.linalg import expm, expm_frechet

        drift, parts = _superoperators(jumps)
        steps, turned = [], []
        for u in fields.T:
            a = tau * (drift + sum(x * b for x, b in zip(u, parts, strict=True)))
            steps.append(expm(a))
            turned.append([expm_frechet(a, tau * b, compute_expm=False) for b in parts])
        before, after = _products(steps)
        wanted = np.kron(CNOT, CNOT.conj())
        rows = [
            [np.vdot(wanted, after[n + 1] @ d @ before[n]).real / 16.0 * 4.0 / 5.0 for d in turned[n]]
            for n in range(len(steps))
        ]
        state["gradient"] = np.array(rows).T

    work = opened if jumps else closed

    def gradient() -> NDArray[np.float64]:
        work()
        return state["gradient"]

    return work, gradient


def _products(steps: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the products of the first n steps, and of those from n on."""
    before, after = [np.eye(len(steps[0]), dtype=complex)], [np.eye(len(steps[0]), dtype=complex)]
    for step in steps:
        before.append(step @ before[-1])
    for step in reversed(steps):
        after.append(after[-1] @ step)
    return before, after[::-1]


def _superoperators(jumps: list[NDArray[np.complex128]]) -> tuple[Any, list[Any]]:
    """Return the dense Lindbladian and those of the controls, rows of rho one after the other."""
    one = np.eye(4)

    def commutator(h: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return np.asarray(-1j * (np.kron(h, one) - np.kron(one, h.T)))

    drift = commutator(DRIFT)
    for jump in jumps:
        rate = jump.conj().T @ jump
        drift = drift + np.kron(jump, jump.conj()) - 0.5 * (np.kron(rate, one) + np.kron(one, rate.T))
    return drift, [commutator(h) for h in CONTROLS]


def _qutip(jumps: list[NDArray[np.complex128]], fields: NDArray[np.float64]) -> Callable[[], object]:
    """Return a value with gradient of qutip-qtrl; amplitudes change each time, as nothing is computed twice."""
    import qutip as qt
    from qutip_qtrl import pulseoptim

    common: dict[str, Any] = {"fid_err_targ": 1e-4, "max_iter": 1, "init_pulse_type": "ZERO"}
    if jumps:
        drift = qt.liouvillian(qt.Qobj(DRIFT), [qt.Qobj(j) for j in jumps])
        parts = [qt.liouvillian(qt.Qobj(h)) for h in CONTROLS]
        ends = qt.to_super(qt.Qobj(np.eye(4))), qt.to_super(qt.Qobj(CNOT))
        common |= {"dyn_type": "GEN_MAT", "fid_type": "TRACEDIFF"}
    else:
        drift, parts = qt.Qobj(DRIFT), [qt.Qobj(h) for h in CONTROLS]
        ends = qt.Qobj(np.eye(4)), qt.Qobj(CNOT)
        common |= {"dyn_type": "UNIT", "fid_type": "UNIT", "fid_params": {"phase_option": "PSU"}}
    optimizer = pulseoptim.create_pulse_optimizer(
        drift, parts, *ends, num_tslots=fields.shape[1], evo_time=DURATION, **common
    )
    dynamics = optimizer.dynamics
    dynamics.initialize_controls(fields.T.copy())
    counter = iter(range(1, 10**9))

    def work() -> None:
        dynamics.update_ctrl_amps(fields.T * (1.0 + 1e-6 * next(counter)))
        dynamics.fid_computer.get_fid_err()
        dynamics.fid_computer.get_fid_err_gradient()

    return work

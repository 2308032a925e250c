"""Whole works beside QuTiP and qutip-qtrl on one core: driven systems, closed and open, GRAPE of a CNOT, a gate of a transmon."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import tempfile
import warnings
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, case, wall

OUTPUTS, DURATION, FREQUENCY, RATE = 1000, 20.0, 1.3, 0.02
# Slots per output: values that are held leave as much as the default tolerances of QuTiP.
HELD = 10
CLOSED, OPEN = (2, 8, 64), (2, 8, 16)
# Slots and duration of the gate, and the errors that end a search.
SLOTS, GATE_TIME, CLOSED_ERROR, OPEN_ERROR = 100, 4.0, 1e-4, 1e-2
BOUND = 6.0
SX, SY = np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]])
CNOT = np.eye(4)[[0, 1, 3, 2]]


@case(
    "qoc-works",
    "driven systems of 2 to 64 levels, GRAPE of a CNOT and of a transmon: QuTiP and qutip-qtrl against whole runs",
    devices=("cpu",),
)
def works(bench: Bench) -> None:
    """Each from arrays to numbers in a warm process: of qsim with the file of results, verification and claimed errors."""
    for name, package in (("qutip_qtrl", "qutip-qtrl"), ("pydantic", "pydantic")):
        if importlib.util.find_spec(name) is None:
            raise Skip(f"{package} is not installed; python3 bootstrap.py bench")
    quick = slice(1) if bench.quick else slice(None)
    for jump, sizes in ((False, CLOSED), (True, OPEN)):
        for size in sizes[quick]:
            _driven(bench, size, jump)
    for label, system in _gates().items():
        _grape(bench, label, *system)


def _driven(bench: Bench, size: int, jump: bool) -> None:
    """Mean values of a driven oscillator with an anharmonicity at many times."""
    import qutip as qt

    n, b = np.arange(size), np.diag(np.sqrt(np.arange(1.0, size)), 1)
    # the same norm for every number of levels
    drift, control = np.diag(2.0 * n / size), (b + b.T) / np.sqrt(size)
    jumps = [np.sqrt(RATE) * b] if jump else []
    times = np.linspace(0.0, DURATION, OUTPUTS + 1)

    def solved(**options: Any) -> Any:
        hamiltonian = qt.QobjEvo([qt.Qobj(drift), [qt.Qobj(control), lambda t: np.sin(FREQUENCY * t)]])
        solver = qt.mesolve if jump else qt.sesolve
        more = {"c_ops": [qt.Qobj(a) for a in jumps]} if jump else {}
        made = solver(
            hamiltonian, qt.basis(size, 0), times, e_ops=[qt.Qobj(np.diag(1.0 * n))], options=options, **more
        )
        return np.asarray(made.expect[0])

    deck = {
        "method": "qoc",
        "system": {
            "type": "matrices",
            "H0": drift,
            "controls": {"u": control},
            "jumps": jumps,
            "observables": {"n": np.diag(1.0 * n)},
            "initial": "0",
        },
        "time": {"T": DURATION, "slots": HELD * OUTPUTS},
        "control": {"name": "u", "guess": {"type": "expression", "value": f"sin({FREQUENCY}*t)"}},
        "observe": ["n"],
        "optimizer": "none",
    }
    truth = solved(atol=1e-12, rtol=1e-11, nsteps=100_000)
    found: dict[str, Any] = {}
    label = f"{'mesolve' if jump else 'sesolve'}, {size} levels"
    theirs = wall(bench.device, lambda: found.update(peer=solved(nsteps=100_000)), budget=2.0)
    bench.row(f"{label}: QuTiP", theirs, error=float(np.abs(found["peer"] - truth).max()))
    ours = wall(bench.device, lambda: found.update(own=_run(deck, "observed/n")[::HELD]), budget=2.0)
    error = float(np.abs(found["own"] - truth).max())
    bench.row(f"{label}: qsim", ours, error=error, ratio=theirs.seconds / ours.seconds)
    bench.goal(f"{label}: QuTiP / qsim", theirs.seconds / ours.seconds, 1.0, "x", at_least=True)


def _run(deck: dict[str, Any], name: str) -> Any:
    """Return an array or a scalar of a run."""
    import qsim

    with tempfile.TemporaryDirectory() as folder, qsim.run(deck, output=folder, figures="none") as results:
        return results[name] if name in results else results.scalars[name].value


def _gates() -> dict[str, tuple[list[Any], list[Any], Any, list[int]]]:
    """Return drift and controls, jumps, the gate, and its levels of each work."""
    one, lower = np.eye(2), np.array([[0.0, 1.0], [0.0, 0.0]])
    pair = [0.5 * np.kron(np.diag([1.0, -1.0]), np.diag([1.0, -1.0]))]
    pair += [0.5 * np.kron(a, one) for a in (SX, SY)] + [0.5 * np.kron(one, a) for a in (SX, SY)]
    decay = [np.sqrt(5e-4) * np.kron(lower, one), np.sqrt(5e-4) * np.kron(one, lower)]
    b, n = np.diag(np.sqrt(np.arange(1.0, 4.0)), 1), np.arange(4)
    transmon = [np.diag(-4.0 * n * (n - 1.0)), 0.5 * (b + b.T), 0.5j * (b.T - b)]
    return {
        "CNOT": (pair, [], CNOT, [0, 1, 2, 3]),
        "CNOT with relaxation": (pair, decay, CNOT, [0, 1, 2, 3]),
        "X of a transmon": (transmon, [], SX, [0, 1]),
    }


def _grape(
    bench: Bench, label: str, matrices: list[Any], jumps: list[Any], gate: Any, levels: list[int]
) -> None:
    """Search a gate from the same controls."""
    error = OPEN_ERROR if jumps else CLOSED_ERROR
    slots = 20 if bench.quick else SLOTS
    times = GATE_TIME * (np.arange(slots) + 0.5) / slots
    guess = np.array([np.sin((1.0 + k) * times + k) for k in range(len(matrices) - 1)])
    found: dict[str, Any] = {}
    theirs = wall(
        bench.device,
        lambda: found.update(peer=_peer(matrices, jumps, gate, guess, error)),
        budget=2.0,
        least=1,
        most=3,
    )
    bench.row(f"{label}: qutip-qtrl GRAPE", theirs, **found["peer"])
    deck = {
        "method": "qoc",
        "system": {
            "type": "matrices",
            "H0": matrices[0],
            "controls": {f"u{k}": a for k, a in enumerate(matrices[1:])},
            "jumps": jumps,
            "target": {"gate": gate, "on": [str(k) for k in levels]},
        },
        "time": {"T": GATE_TIME, "slots": slots},
        "control": [
            {"name": f"u{k}", "guess": row, "bounds": [-BOUND, BOUND]} for k, row in enumerate(guess)
        ],
        "objective": {"threshold": 1.0 - error},
    }
    ours = wall(bench.device, lambda: found.update(own=_run(deck, "fidelity")), budget=2.0)
    ratio = theirs.seconds / ours.seconds
    bench.row(f"{label}: qsim", ours, error=1.0 - found["own"], ratio=ratio)
    bench.goal(f"{label}: qutip-qtrl / qsim", ratio, 60.0, "x", at_least=True)


def _peer(matrices: list[Any], jumps: list[Any], gate: Any, guess: Any, error: float) -> dict[str, Any]:
    """Run qtrl's GRAPE; of density matrices on superoperators."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        import qutip as qt
        from qutip_qtrl import pulseoptim

        made = [qt.Qobj(a) for a in matrices]
        size = matrices[0].shape[0]
        wanted = np.eye(size, dtype=complex)
        wanted[: len(gate), : len(gate)] = gate
        ends = [qt.qeye(size), qt.Qobj(wanted)]
        kind = {"dyn_type": "UNIT", "fid_params": {"phase_option": "PSU"}}
        if jumps:
            made = [qt.liouvillian(made[0], [qt.Qobj(a) for a in jumps]), *map(qt.liouvillian, made[1:])]
            ends = [qt.to_super(one) for one in ends]
            kind = {"dyn_type": "GEN_MAT", "fid_type": "TRACEDIFF"}
        optimizer = pulseoptim.create_pulse_optimizer(
            made[0],
            made[1:],
            *ends,
            num_tslots=guess.shape[1],
            evo_time=GATE_TIME,
            amp_lbound=-BOUND,
            amp_ubound=BOUND,
            fid_err_targ=error,
            min_grad=1e-14,
            max_iter=200,
            max_wall_time=300,
            init_pulse_type="ZERO",
            **kind,
        )
        optimizer.dynamics.initialize_controls(guess.T.copy())
        result = optimizer.run_optimization()
    return {"error": float(result.fid_err), "evaluations": int(result.num_fid_func_calls)}

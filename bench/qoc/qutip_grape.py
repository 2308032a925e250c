"""GRAPE of QuTiP (qutip-qtrl) against qsim: the same levels, dipole matrix, first field and error."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, case, wall
from bench.qoc import problem

ERROR = 1e-3
BOUND = 0.02  # amplitude bound that qtrl asks for; far from binding
PROBLEMS = ((16, 3000), (8, 1500))  # states, time slots


@case("qoc-qutip", "Morse 0 -> 1 to error 1e-3: QuTiP GRAPE against lbfgs and gauss_newton", devices=("cpu",))
def qutip(bench: Bench) -> None:
    """Times include the set-up: pulse optimiser and dynamics there; deck, eigenstates, propagator here."""
    for name, package in (("qutip_qtrl", "qutip-qtrl"), ("pydantic", "pydantic")):
        if importlib.util.find_spec(name) is None:
            raise Skip(f"{package} is not installed; python3 bootstrap.py bench")
    for states, slots in PROBLEMS[1:] if bench.quick else PROBLEMS:
        _compare(bench, states, slots)


def _compare(bench: Bench, states: int, slots: int) -> None:
    label = f"{states} states x {slots} slots"
    start = _problem(bench, states, slots, "lbfgs")
    nominal, guess = start.molecule, start.guess[0]
    found: dict[str, Any] = {}

    def peer() -> None:
        found["peer"] = _grape(nominal, guess)

    theirs = wall(bench.device, peer, budget=2.0, least=3, most=5)
    field, error, evaluations = found["peer"]
    p = _exact(nominal, field)
    bench.row(
        f"{label}: qutip-qtrl GRAPE",
        theirs,
        evaluations=evaluations,
        amplitude_error=error,
        exact_error=1.0 - p,
    )
    for optimizer in ("lbfgs", "gauss_newton"):

        def whole(kind: str = optimizer) -> None:
            found["ours"] = _solve(_problem(bench, states, slots, kind))

        ours = wall(bench.device, whole)
        search, objective = found["ours"]
        bench.row(
            f"{label}: qsim {optimizer}, deck to field",
            ours,
            sweeps=objective.sweeps,
            reported_error=1.0 - search.history["probability"][-1],
            exact_error=1.0 - _exact(nominal, search.field),
            ratio=theirs.seconds / ours.seconds,
        )
        prepared = _problem(bench, states, slots, optimizer)
        alone = wall(bench.device, lambda built=prepared: _solve(built))
        bench.row(
            f"{label}: qsim {optimizer}, optimisation alone",
            alone,
            ratio=theirs.seconds / alone.seconds,
        )
        bench.goal(
            f"{label}: qutip-qtrl / qsim {optimizer}, set-up included",
            theirs.seconds / ours.seconds,
            30.0,
            "x",
            at_least=True,
        )


def _problem(bench: Bench, states: int, slots: int, optimizer: str) -> Any:
    """Deck to problem: validation, eigenstates, propagator, first field."""
    from qsim.qoc.build import build

    text = problem.deck_text(641, slots, states, 1.0 - ERROR, optimizer)
    return build(problem.load(text), bench.device)


def _solve(built: Any) -> Any:
    """Optimise; return the search and its objective."""
    from qsim.core.run.loop import drive
    from qsim.core.run.progress import Monitor
    from qsim.qoc.objectives.objective import Objective
    from qsim.qoc.optimizers.maximisation import Maximisation
    from qsim.qoc.optimizers.search import Search

    objective = Objective(built.propagator, built.targets, 0.0)
    search = Search(objective, built.controls, built.threshold, 500)
    drive(Maximisation(built, search, None), Monitor.silent(), total=500, unit="sweeps")
    return search, objective


def _grape(nominal: Any, guess: np.ndarray) -> tuple[np.ndarray, float, int]:
    """Run qtrl's GRAPE from the same field; return its field, its error and the number of evaluations.

    Its error is 1 - |<f|psi>|, so 1e-3 is an easier goal than P = 0.999: the comparison favours it.
    """
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        import qutip as qt
        from qutip_qtrl import pulseoptim

        states = nominal.energies.size
        optimizer = pulseoptim.create_pulse_optimizer(
            qt.Qobj(np.diag(nominal.energies - nominal.energies[0])),
            [qt.Qobj(-nominal.dipole_matrix)],
            qt.basis(states, 0),
            qt.basis(states, 1),
            num_tslots=guess.size,
            evo_time=problem.DURATION,
            amp_lbound=-BOUND,
            amp_ubound=BOUND,
            fid_err_targ=ERROR,
            min_grad=1e-14,
            max_iter=200,
            max_wall_time=600,
            dyn_type="UNIT",
            fid_params={"phase_option": "PSU"},
            init_pulse_type="ZERO",
        )
        optimizer.dynamics.initialize_controls(guess[:, None].copy())
        result = optimizer.run_optimization()
    return np.asarray(result.final_amps)[:, 0], float(result.fid_err), int(result.num_fid_func_calls)


def _exact(nominal: Any, field: np.ndarray) -> float:
    """P of a piecewise constant field, each slot by diagonalisation of its Hamiltonian: a judge for both."""
    tau = problem.DURATION / field.size
    drift = np.diag(nominal.energies - nominal.energies[0])
    psi = np.eye(nominal.energies.size, dtype=complex)[0]
    values, vectors = np.linalg.eigh(drift - field[:, None, None] * nominal.dipole_matrix)
    for e, v in zip(values, vectors, strict=True):
        psi = v @ (np.exp(-1j * e * tau) * (v.T @ psi))
    return float(abs(psi[1]) ** 2)

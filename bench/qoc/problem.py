"""The molecule of all cases (OH stretch, 0 -> 1) and propagators for it, set up as a run of qsim does."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from qsim.core.device.device import Device
from qsim.qoc.models.molecule import Molecule, molecule
from qsim.qoc.objectives.objective import Objective
from qsim.qoc.propagators.propagator import CrankNicolson, Eigenbasis, Members

DURATION = 30000.0  # T, a.u.

DECK = """\
method: qoc
system:
  mass: 1728.468338
  potential: {{type: morse, D: 0.1994, beta: 1.189, r0: 1.821}}
  dipole: {{type: mecke, mu0: 3.088, rstar: 0.6}}
  grid: {{xmin: 1.0, xmax: 5.0, points: {points}}}
  initial: 0
  target: 1
time: {{T: 30000, steps: {steps}}}
propagator: {{type: eigenbasis, states: {states}}}
control: {{guess: {{type: resonant, area: 0.5}}}}
objective: {{threshold: {threshold}, alpha: 0}}
optimizer: {optimizer}
verify: none
"""


def deck_text(
    points: int = 641, steps: int = 6000, states: int = 24, threshold: float = 0.999, optimizer: str = "lbfgs"
) -> str:
    """Return a deck: the unconstrained Morse problem, first field half a pi pulse."""
    return DECK.format(points=points, steps=steps, states=states, threshold=threshold, optimizer=optimizer)


def load(text: str) -> Any:
    """Load a deck from text."""
    from qsim.core.deck.load import load_deck
    from qsim.qoc.deck.model import QocDeck

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.yaml"
        path.write_text(text, encoding="utf-8")
        return load_deck(path, QocDeck)


def system(points: int) -> Any:
    """Return the deck's block ``system``."""
    return load(deck_text(points)).deck.system


def morse(points: int = 641, states: int = 24) -> Molecule:
    """Return the molecule on ``points`` grid points with its lowest ``states`` levels."""
    return molecule(system(points), states)


def members(nominal: Molecule, count: int = 1, width: float = 0.1) -> Members:
    """Return ``count`` members that see the field times 1 - width ... 1 + width."""
    scale = np.linspace(1.0 - width, 1.0 + width, count) if count > 1 else np.ones(1)
    return Members((nominal,), np.zeros(count, int), scale)


def half_pi(nominal: Molecule, steps: int, duration: float = DURATION) -> np.ndarray:
    """Return half a resonant pi pulse at the midpoints (N,)."""
    t = (np.arange(steps) + 0.5) * (duration / steps)
    omega = nominal.energies[1] - nominal.energies[0]
    return 0.5 * np.pi / (abs(nominal.dipole_matrix[0, 1]) * duration) * np.cos(omega * (t - 0.5 * duration))


def grid_propagator(
    device: Device,
    nominal: Molecule,
    steps: int,
    count: int = 1,
    duration: float = DURATION,
    store: bool = True,
) -> CrankNicolson:
    """Crank-Nicolson with the energy zero midway between the two levels."""
    ensemble, levels = members(nominal, count), nominal.energies.size
    shift = -0.5 * (nominal.energies[0] + nominal.energies[1])
    return CrankNicolson(
        device,
        ensemble,
        np.eye(levels, dtype=complex)[:1],
        steps,
        duration,
        shifts=np.array([shift]),
        store=store,
    )


def eigen_propagator(
    device: Device, nominal: Molecule, steps: int, count: int = 1, duration: float = DURATION
) -> Eigenbasis:
    """Strang splitting in all levels of ``nominal``."""
    levels = nominal.energies.size
    return Eigenbasis(device, members(nominal, count), np.eye(levels, dtype=complex)[:1], steps, duration)


def objective(propagator: Any) -> Objective:
    """Maximise the population of level 1."""
    return Objective(propagator, [np.eye(propagator.levels, dtype=complex)[1:2]], 0.0)


def sweeps(propagator: Any, field: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return the kernel launches of a gradient on arrays that are on the device already.

    ``forward`` keeps nothing, ``store`` keeps the trajectory, ``backward`` carries one costate a trajectory back along it;
    ``gradient`` is the two together; ``reverse`` (grid only) goes back without a trajectory.
    """
    from qsim.qoc.kernels.eigenbasis import eb_backward, eb_forward
    from qsim.qoc.kernels.grid import cn_backward, cn_forward

    device = propagator.device
    run = propagator.forward(field[None], keep=True)
    batch, eps, trajectory = run.handle["batch"], run.handle["eps"], run.handle["trajectory"]
    count = int(batch.system.shape[0])
    source = device.asarray(np.arange(count), dtype=np.int32)
    if isinstance(propagator, Eigenbasis):
        w = device.xp.ones((count, propagator.levels), complex) / propagator.levels**0.5
        q = w.copy()
        return _with_gradient(
            forward=lambda: eb_forward(device, batch, w, eps),
            store=lambda: eb_forward(device, batch, w, eps, trajectory),
            backward=lambda: eb_backward(device, batch, q, source, eps, trajectory),
        )
    psi, q = run.handle["psi"], run.handle["psi"].conj()
    return _with_gradient(
        forward=lambda: cn_forward(device, batch, psi, eps),
        reverse=lambda: cn_backward(device, batch, q, source, psi, eps),
        store=lambda: cn_forward(device, batch, psi, eps, trajectory),
        backward=lambda: cn_backward(device, batch, q, source, psi, eps, trajectory),
    )


def _with_gradient(
    *, store: Callable[[], Any], backward: Callable[[], Any], **others: Callable[[], Any]
) -> dict[str, Callable[[], Any]]:
    return {**others, "store": store, "backward": backward, "gradient": lambda: (store(), backward())}

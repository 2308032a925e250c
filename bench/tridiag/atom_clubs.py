"""A published example, Qprop's `large-clubs`, whole: hydrogen in a pulse of 2 um, from the ground state to the end."""

from __future__ import annotations

import math
import time

import numpy as np

from bench.harness import Bench, Cost, Timing, case
from qsim.tridiag.atom.evolution.cuda import CudaBatch, Stepping
from qsim.tridiag.atom.evolution.propagator import AtomLattice, Propagator
from qsim.tridiag.atom.states.grid import uniform
from qsim.tridiag.atom.states.lanes import Lanes
from qsim.tridiag.atom.states.levels import level
from qsim.tridiag.deck.laser import Laser
from qsim.tridiag.tdse.pulses import LaserField

POINTS, MOMENTA, STEPS, DT = 2766, 600, 33_000, 0.05
PULSE = {"shape": "sin2", "wavelength": "2000 nm", "intensity": "1e14 W/cm2", "duration": STEPS * DT}
STRIP, STRENGTH = 50.0, 0.1  # absorber at the wall: bohr, hartree
QPROP = 1.8 * 3600.0  # seconds on one core: 195 ms per step (guide of the method)
GOAL = 0.83  # seconds: 25 us per step
LAUNCH = 1000  # steps
FLOPS = 2 * 120.0  # as of `tridiag-atom-cuda`
CHECK = 1e-10  # largest difference from a CPU after a few steps


@case(
    "tridiag-atom-clubs",
    "Qprop's large-clubs as a whole: 2766 points, l < 600, 33 000 steps",
    devices=("cuda",),
)
def atom_clubs(bench: Bench) -> None:
    """Seconds of the run, with the norm and the 1s population that it ends with."""
    momenta, steps = (40, 50) if bench.quick else (MOMENTA, STEPS)
    grid = uniform(0.2 * POINTS, 0.2)
    depth = np.clip((grid.r - (grid.wall - STRIP)) / STRIP, 0.0, None)
    lattice = AtomLattice(grid, -1.0 / grid.r, 1.0 / grid.r**2, 1.0, STRENGTH * depth**2)
    lanes = Lanes(0, momenta - 1)
    phi = np.zeros((momenta, grid.points), complex)
    phi[0] = level(lattice, 1, 0)[1]
    pulse = LaserField(Laser.model_validate({"gauge": "velocity", "pulses": [PULSE]}))
    how = Stepping(DT, velocity=True)
    _check(bench, lattice, pulse)
    batch = CudaBatch(bench.device, lattice, lanes, [phi], [pulse.vector_potential], how)
    batch.advance(1, np.array([1]))  # compiles
    batch = CudaBatch(bench.device, lattice, lanes, [phi], [pulse.vector_potential], how)
    norms, begun, busy = [], time.perf_counter(), time.process_time()
    for start in range(0, steps, LAUNCH):
        count = min(LAUNCH, steps - start)
        norms.append(float(batch.advance(count, np.array([count]))[0, -1, 0]))
    seconds = time.perf_counter() - begun
    population = float(abs(np.vdot(phi[0], batch.phi(0)[0])) ** 2)
    work = float(grid.points) * momenta * steps
    bench.row(
        f"{grid.points} x {momenta}, {steps} steps, the whole run",
        Timing(seconds, seconds, 1, "wall", time.process_time() - busy),
        Cost(flops=FLOPS * work),
        us_per_step=1e6 * seconds / steps,
        ns_per_point=1e9 * seconds / work,
        norm=norms[-1],
        population_1s=population,
        rows=batch.shape.rows,
        blocks=batch.shape.blocks,
    )
    if not bench.quick:
        bench.goal("large-clubs, seconds", seconds, GOAL, "s")
        bench.goal(
            "large-clubs, Qprop's time on one core over ours", QPROP / seconds, 100.0, "x", at_least=True
        )
        bench.goal(
            "large-clubs, norm that is not finite or grows",
            math.inf if not norms[-1] <= 1.0 + 1e-9 else 0.0,
            0.5,
        )


def _check(bench: Bench, lattice: AtomLattice, pulse: LaserField) -> None:
    """A few steps of few l in the middle of the pulse are those of a CPU."""
    lanes, shift = Lanes(0, 15), 0.5 * STEPS * DT
    phi = np.zeros((16, lattice.grid.points), complex)
    phi[0] = level(lattice, 1, 0)[1]
    late = lambda t: pulse.vector_potential(np.asarray(t) + shift)  # noqa: E731
    batch = CudaBatch(bench.device, lattice, lanes, [phi], [late], Stepping(DT, velocity=True))
    alone = Propagator(lattice, lanes, phi, DT, velocity=True, field=late)
    batch.advance(10, np.array([10]))
    alone.advance(10)
    difference = float(np.abs(batch.phi(0) - alone.phi).max())
    bench.row("16 l, 10 steps: largest difference from a CPU", difference=difference)
    bench.goal("large-clubs: difference from a CPU", difference, CHECK)

"""Every distributed method on 1, 2 and 3 ranks of a real MPI, also interrupted and continued on another number."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import pytest

from qsim.core.results.results import open_results
from tests.world import ENVIRONMENT, MPIRUN, ROOT, same, script

pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIRUN is None, reason="no mpirun: pip install mpich")]

SHARED = """
import numpy as np
from scipy.linalg import solve_banded
from qsim.core.device.device import cpu
from qsim.core.device.links import links_of
from qsim.core.device.parallel import world
from qsim.tridiag.solver.shared import SharedSolver, spans
from qsim.tridiag.propagate.lattice import Lattice, bands, mass
from qsim.tridiag.propagate.stepping.propagator import Stepping
from qsim.tridiag.propagate.stepping.shared import SharedPropagator

comm, device = world(), cpu(1)
links = links_of(comm, device)
most = 0


class Counted:
    rank, size = links.rank, links.size

    def gather(self, values):
        global most
        most = max(most, values.nbytes)
        return links.gather(values)

    def edges(self, left, right):
        raise AssertionError("the joint lines are all that an exact step exchanges")


rng = np.random.default_rng(5)
for rows, blocks, iterations, kind in (
    (6, "auto", "auto", complex), (31, 3, 1, complex), (33, "auto", 2, float), (20001, "auto", "auto", complex),
    (700, 40, 3, complex), (64, [2, 1, 1, 1, 58, 1], 1, float),
):
    a, b, c, d = (rng.standard_normal(rows).astype(kind) for _ in range(4))
    if kind is complex:
        a, b, c, d = (part + 1j * rng.standard_normal(rows) for part in (a, b, c, d))
    a = a + 4.0
    span = spans(rows, comm.size, blocks)[comm.rank]
    own = [part[span.window].copy() for part in (a, b, c, d)]
    if comm.rank:
        own[0][0] = own[3][0] = 0  # the neighbour has them
    x = SharedSolver(device, span, Counted(), iterations).solve(*own)
    wanted = solve_banded((1, 1), np.array([np.r_[0, c[:-1]], a, np.r_[b[1:], 0]]), d)
    assert abs(x - wanted[span.window]).max() < 2e-14 * abs(wanted).max(), (rows, blocks)
assert most == 96  # bytes a process sends, for 6 rows as for 20 001

n, dx, dt = 900, 0.2, 0.05
x = -90.0 + dx * np.arange(n)
psi0 = np.exp(-((x / 20.0) ** 2) + 0.7j * x)
field = 0.05 * np.sin(0.3 * np.arange(23))
depth = np.maximum(abs(x) - 70.0, 0.0) / 20.0
for stencil, mode, gauge, absorber in (
    ("numerov", "auto", 0, "cap"), ("three_point", "local", 1, "mask"), ("numerov", "exact", 1, "mask"),
    ("three_point", "exact", 0, "cap"), ("three_point", "exact", 1, None), ("numerov", "literal", 0, None),
):
    how = {"cap": depth**2} if absorber == "cap" else {"mask": np.cos(depth) ** 0.1} if absorber else {}
    lattice = Lattice(x[0], dx, n, stencil, -1.0 / np.sqrt(x * x + 2.0), slope=x / (x * x + 2.0) ** 1.5, **how)
    fields = (None, field) if gauge else (field, None)
    stepping = Stepping(mode=mode, blocks=7 if mode == "literal" else "auto")
    run = SharedPropagator(device, lattice, psi0, dt, fields, links, stepping)
    sums = run.advance(23, 5)
    psi, wanted = psi0, []
    for step in range(23):
        e, a = (0.0 if f is None else f[step] for f in fields)
        lower, main, upper = bands(lattice, dt, e, a)
        table = np.array([np.r_[0, upper[:-1]], main, np.r_[lower[1:], 0]])
        psi = 2.0 * solve_banded((1, 1), table, mass(lattice, psi, a)) - psi
        psi = psi if lattice.mask is None else psi * lattice.mask
        if step % 5 == 4:
            density = abs(psi) ** 2 * dx
            wanted.append([density.sum(), density @ x, density @ lattice.slope])
    found = np.concatenate(comm.allgather(run.own))
    assert abs(found - psi).max() < 2e-14, (stencil, mode)
    assert np.allclose(sums, wanted, rtol=1e-12, atol=1e-12), (stencil, mode)
"""


NCCL = """
import ctypes
from types import SimpleNamespace
import numpy as np
from mpi4py import MPI
from qsim.core.device.links import NcclLinks
from qsim.core.device.parallel import world


class Array(np.ndarray):  # with the address where CuPy has it
    @property
    def data(self):
        return SimpleNamespace(ptr=self.ctypes.data)


class Communicator:
    def __init__(self, size, identifier, rank):
        assert (size, identifier, rank) == (comm.size, "id of rank 0", comm.rank)

    def buffer(self, pointer, count, kind, stream):
        assert (kind, stream, nccl.open) == (0, expected[-1], True)
        return (ctypes.c_char * count).from_address(pointer)

    def send(self, pointer, count, kind, peer, stream):
        nccl.requests.append(MPI.COMM_WORLD.Isend(self.buffer(pointer, count, kind, stream), peer))

    def recv(self, pointer, count, kind, peer, stream):
        nccl.requests.append(MPI.COMM_WORLD.Irecv(self.buffer(pointer, count, kind, stream), peer))


def start():
    nccl.open = True


def end():
    MPI.Request.Waitall(nccl.requests)
    nccl.requests, nccl.open = [], False


comm = world()
nccl = SimpleNamespace(
    NCCL_INT8=0, NcclCommunicator=Communicator, groupStart=start, groupEnd=end, requests=[], open=False,
    get_unique_id=lambda: f"id of rank {comm.rank}",
)
class Event(tuple):
    done = True

    def __new__(cls, *content):
        return tuple.__new__(cls, content)


class Stream:
    def __init__(self, ptr):
        self.ptr, self.waited = ptr, []

    def record(self):
        return Event(self.ptr, len(nccl.requests))

    def wait_event(self, event):
        self.waited.append(event)


expected, kernels, beside = [17], Stream(17), Stream(18)
cuda = SimpleNamespace(get_current_stream=lambda: kernels, Stream=lambda non_blocking: beside)
xp = SimpleNamespace(empty_like=lambda a: np.empty_like(a).view(Array), cuda=cuda)
device = SimpleNamespace(xp=xp, use=lambda: comm_context)
from contextlib import nullcontext
comm_context = nullcontext()
links = NcclLinks(comm, device, nccl)
left, right = ((np.arange(5) + 10 * comm.rank + 1j * side).view(Array) for side in (0, 1))
before, after = links.edges(left, right)
assert (before is None) == (comm.rank == 0) and (after is None) == (comm.rank == comm.size - 1)
assert before is None or np.array_equal(before, right - 10)
assert after is None or np.array_equal(after, left + 10)
if comm.size == 2:
    out = np.empty_like(left)
    links.swap(1 - comm.rank, left, out)
    assert np.array_equal(out, left + 10 - 20 * comm.rank)
# beside the kernels, after those launched before; kernels launched after `wait` come after it
expected.append(18)
others = [rank for rank in range(comm.size) if rank != comm.rank]
comes = {rank: np.empty_like(left) for rank in others}
wait = links.trade([(rank, left + rank, comes[rank].view(Array)) for rank in others])
assert beside.waited == [(17, 0)] and kernels.waited == []
wait()
assert kernels.waited == [(18, 0)]
for rank in others:
    assert np.array_equal(comes[rank], np.arange(5) + 10 * rank + comm.rank)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_blocks_of_a_tridiagonal_system_on_ranks_against_banded_solves(ranks):
    """Only joint lines are gathered; states and sums after many steps are those of LAPACK on the whole grid.

    On several ranks, the exchange by NCCL is tried in the same processes, with a stand-in for the library.
    """
    script(ranks, SHARED + (NCCL if ranks > 1 else ""), timeout=120)


# --- methods --------------------------------------------------------------------------------------

DECKS = {
    "qmc": """
method: qmc
system: {cell: open, atoms: [[He, 0, 0, 0]], spin: 0}
wavefunction:
  orbitals: {source: sto, shells: [{atom: He, n: 1, l: 0, zeta: 1.6875}]}
  jastrow: {J1: {type: bspline, rcut: 8.0, size: 6}, J2: {type: bspline, rcut: 8.0, size: 6}}
series:
  - optimize: {walkers: 50, iterations: 2, target: energy}
  - vmc: {walkers: 61, blocks: 6, steps: 10, timestep: 0.3}
  - dmc: {walkers: 47, timesteps: [0.02], blocks: 6, steps: 10, warmup: 0.5, population: birth_death}
estimators: [energy, {gofr: {bins: 20, rmax: 6}}]
run: {seed: 4}
""",
    "trotter": """
method: trotter
system:
  spins: 5
  terms:
    - {type: heisenberg, lattice: chain, J: 1.0}
    - {type: field, axis: z, random: {kind: box, W: 8.0, seed: 7}}
initial: {type: neel}
evolve: {t_final: 2.0, outputs: {count: 4}, integrator: bm6, dt: 0.1}
ensemble: {disorder: 7}
observe: [imbalance, {sz: all}]
run: {seed: 1}
""",
    "trotter-open": """
method: trotter
system:
  spins: 4
  terms: [{type: ising, lattice: ring, J: 1.0}, {type: field, axis: x, values: 0.8}]
dissipation: [{type: loss, rate: 0.4}]
open: {method: trajectories, trajectories: 75, records: true, counting: {window: 1.0}}
initial: {type: neel}
evolve: {t_final: 2.0, outputs: 3, accuracy: 1.0e-6}
observe: [{sz: all}]
run: {seed: 1}
""",
    "trotter-open-sector": """
method: trotter
system: {spins: 4, terms: [{type: heisenberg, lattice: chain, J: 1.0}]}
dissipation: [{type: collective, rate: 0.3}]
open: {method: trajectories, trajectories: 37}
initial: {type: neel}
sector: {up: 2}
evolve: {t_final: 2.0, outputs: 3, accuracy: 1.0e-6}
observe: [{sz: all}]
run: {seed: 1}
""",
    "qoc": """
method: qoc
system:
  mass: 1728.468338
  potential: {type: morse, D: 0.1994, beta: 1.189, r0: 1.821}
  dipole: {type: mecke, mu0: 3.088, rstar: 0.6}
  grid: {xmin: 1.0, xmax: 5.0, points: 321}
  initial: 0
  target: 1
time: {T: 12000, steps: 1000}
propagator: {type: eigenbasis, states: 10}
control: {guess: {type: ladder, area: 0.5}, shape: {type: sin2_edges, rise: 0.05}}
objective: {threshold: 0.999, alpha: 0.0}
optimizer: {type: lbfgs, max_sweeps: 12}
verify: {propagator: none}
ensemble: {field_scale: [0.9, 0.95, 1.0, 1.05]}
run: {seed: 1}
""",
    "qoc-verified": """
method: qoc
system:
  mass: 1728.468338
  potential: {type: morse, D: 0.1994, beta: 1.189, r0: 1.821}
  dipole: {type: mecke, mu0: 3.088, rstar: 0.6}
  grid: {xmin: 1.0, xmax: 5.0, points: 161}
  initial: 0
  target: 1
time: {T: 4000, steps: 200}
propagator: {type: eigenbasis, states: 8}
control: {guess: {type: ladder, area: 0.5}, shape: {type: sin2_edges, rise: 0.05}}
optimizer: none
ensemble: {field_scale: [0.95, 1.05], mass_scale: [1.0, 1.01]}
run: {seed: 1}
""",
    "qoc-model": """
method: qoc
system:
  type: model
  parts: [{name: q, type: qubit, T1: 50.0}]
  controls: {x: q.sx, y: q.sy}
  initial: "0"
  target: "1"
time: {T: 1.0, slots: 12}
control: [{name: x}, {name: y}]
dissipation: lindblad
objective: {threshold: 0.9999}
optimizer: {type: lbfgs, max_sweeps: 12}
ensemble:
  members:
    - set: {parts.q.frequency: [-0.2, 0.0, 0.2]}
    - scale: {control.x: [0.95, 1.05]}
  measure: worst
run: {seed: 1}
""",
    "sturmian": """
method: sturmian
system: {Z: 2}
grid: {R: 12, order: 10}
basis: {type: gsf, generating: {type: yukawa, alpha: 1.0}, energy: -0.9, N: 10}
channels: {L: 0, S: 0, l_max: 1}
task: {type: bound, n_roots: 1}
scan: {N: [6, 8], l_max: [0, 1, 2]}
""",
    "sturmian-collision": """
method: sturmian
system: {Z: 1}
grid: {R: 20, order: 6, ecs: {angle: 0.3, length: 15}}
basis: {type: fedvr}
channels: {L: 0, S: [0, 1], l_max: 0}
task: {type: scatter, process: e_h, energy: ["40.8 eV", "54.4 eV"], observables: [sigma, excitation]}
""",
    "tridiag": """
method: tridiag
task: propagate
grid: {xmin: -100, xmax: 100, points: 1001, stencil: numerov}
potential: {type: softcore, Z: 1.0, a2: 2.0}
initial: {type: eigenstate, level: 0}
laser: {gauge: velocity, pulses: [{shape: sin2, omega: 0.6, E0: 0.2, cycles: 2}]}
absorber: {type: manolopoulos, kmin: 0.3}
time: {dt: 0.05, t_final: 20, outputs: 5}
observe:
  - populations: {levels: 4}
  - norm_within: [20, 50]
  - norm_right: [0, 3.7]
  - hhg: {form: acceleration, window: sin2}
  - photoelectron: {energies: [-0.6, 0.8], points: 11, gamma: 0.1, order: 3}
run: {seed: 1}
""",
}
DECKS["tridiag-exact"] = (
    DECKS["tridiag"]
    .replace("gauge: velocity", "gauge: length")
    .replace("outputs: 5", "outputs: 5, verify: false")
    + "solver: {mode: exact}\n"
)
DECKS["tridiag-literal"] = """
method: tridiag
task: propagate
grid: {xmin: -20, xmax: 60, points: 300, stencil: three_point}
potential: {type: square_well, depth: 0.5, width: 2, x0: 10}
initial: {type: gaussian, x0: 0, k0: 1.0, width: 3}
absorber: {type: cap, width: 8, strength: 0.5}
time: {dt: 0.1, t_final: 10, outputs: 4, verify: false}
solver: {blocks: [2, 70, 80, 1, 47, 100]}
"""
DECKS["qmc-blocks"] = """
method: qmc
system: {cell: open, atoms: [[He, 0, 0, 0]], spin: 0}
wavefunction:
  orbitals: {source: sto, shells: [{atom: He, n: 1, l: 0, zeta: 1.6875}]}
  jastrow: {J1: {type: bspline, rcut: 8.0, size: 6}, J2: {type: bspline, rcut: 8.0, size: 6}}
series:
  - vmc: {walkers: 768, blocks: 6, steps: 4, timestep: 0.3}
  - dmc: {walkers: 768, timesteps: [0.02], blocks: 6, steps: 5, warmup: 0.2}
estimators: [energy, {gofr: {bins: 20, rmax: 6}}]
run: {seed: 4}
"""
DECKS["sturmian-pairs"] = """
method: sturmian
system: {Z: 2}
grid: {R: 10, order: 8}
basis: {type: gsf, generating: {type: yukawa, alpha: 1.0}, energy: -0.9, N: 8}
channels: {L: 0, S: 0, l_max: 2}
task: {type: bound, n_roots: 1}
"""
DECKS["sturmian-dense"] = DECKS["sturmian-pairs"] + "solver: dense\n"
DECKS["tridiag-rows"] = """
method: tridiag
task: solve
system: {source: random, n: 3001, dominance: 1.2, rhs: 2}
solver: {blocks: 20, iterations: 2}
run: {seed: 3}
"""
DECKS["tridiag-auto"] = """
method: tridiag
task: solve
system: {source: crank_nicolson, n: 5003}
run: {seed: 3}
"""
DECKS["tridiag-file"] = """
method: tridiag
task: solve
system: {source: file, file: rod.mtx, rhs: rod_rhs.txt}
solver: {blocks: [40, 60, 30, 70], iterations: 1}
"""
DECKS["tridiag-systems"] = """
method: tridiag
task: solve
system: {source: random, n: 101, dominance: 1.2, batch: 5, rhs: 2, corners: [0.3, 0.1]}
run: {seed: 3}
"""
DECKS["tridiag-pivoted"] = """
method: tridiag
task: solve
system: {source: random, n: 900, dominance: 0.0}
run: {seed: 3}
"""
DECKS["tridiag-scan"] = """
method: tridiag
task: atom
atom: hydrogen
grid: {rmax: 60, dr: 0.3, l_max: auto, map: {dr0: 0.05, width: 30}}
laser: {gauge: length, pulses: [{shape: sin2, omega: 0.7, E0: 0.02, cycles: 3}]}
time: {dt: 0.1, outputs: 3, verify: false}
scan: {intensity: [1.0e-4, 4.0e-4, 1.6e-3, 3.0e-2], focal_average: {dimensions: 3}}
spectra: [{method: scattering, energy: [0.05, 0.6], points: 12, angles: 11}]
run: {seed: 1}
"""
DECKS["tridiag-line-scan"] = """
method: tridiag
task: propagate
grid: {xmin: -20, xmax: 20, points: 161}
potential: {type: softcore}
laser: {pulses: [{shape: sin2, omega: 0.7, E0: 0.02, cycles: 2}]}
time: {dt: 0.1, outputs: 3}
scan: {delay: [0, 2.0], potential: {a2: [1.0, 2.0]}}
run: {seed: 1}
"""
DECKS["tridiag-order-4"] = """
method: tridiag
task: propagate
grid: {xmin: -100, xmax: 100, points: 801}
potential: {type: softcore}
laser: {pulses: [{shape: sin2, omega: 0.7, E0: 0.02, cycles: 1}]}
absorber: {type: cap, width: 20, strength: 0.1}
observe: [ionisation]
time: {dt: 0.2, outputs: 3, order: 4, verify: false}
run: {seed: 1}
"""
SOLVED = ("tridiag-rows", "tridiag-auto", "tridiag-file", "tridiag-systems", "tridiag-pivoted")
ALLOWED = {
    "qmc": 0.0,
    "qmc-blocks": 0.0,
    "sturmian": 0.0,
    "sturmian-collision": 0.0,
    "sturmian-pairs": 0.0,
    "sturmian-dense": 0.0,
    "trotter": 1e-11,
    "trotter-open": 0.0,
    "trotter-open-sector": 0.0,
    "qoc": 1e-8,
    "qoc-verified": 1e-8,
    "qoc-model": 1e-8,
    "tridiag": 1e-10,
    "tridiag-exact": 1e-10,
    "tridiag-order-4": 1e-10,
    "tridiag-literal": 1e-10,
    "tridiag-rows": 1e-12,
    "tridiag-auto": 1e-12,
    "tridiag-file": 1e-12,
    "tridiag-systems": 1e-12,
    "tridiag-pivoted": 0.0,
    "tridiag-scan": 0.0,
    "tridiag-line-scan": 0.0,
}
"""Relative differences: none where the random streams are those of one rank; else sums are taken in another order."""
HOW = (
    "blocks",
    "halo",
    "steps_per_pass",
    "wall_density",
    "turned_back",
    "error_time_step",
    "error_spacing",
    "claimed_parts",
)
HOW += (
    "algorithm",
    "iterations",
    "min_pivot",
    "residual",
    "backward_error",
    "rowwise_error",
    "profile_residual",
    "x_file",
)
"""How tridiag makes its steps and solves systems; densities at the walls and small differences, which rounding changes."""
RUN_ALL = """
import sys
from qsim.core.run.pipeline import Options, execute
from qsim.sturmian.two_electron import hamiltonian
from qsim.tridiag.systems import run, shared
from qsim.qmc.sampling import dmc, exchange
hamiltonian.SHARED_FLOPS = 0.0  # the smallest products are shared, too
exchange.MOST, dmc.UNEVEN = 2, 1.002  # three groups of 768 walkers, which branch together now and then
for name in sys.argv[2:]:
    # a solution that is too large for the results file
    run.STORED = shared.STORED = 5000 if name == "tridiag-auto" else 10**7
    execute(name.split("-")[0], f"{name}.yaml", Options(output=f"{name}-{sys.argv[1]}", figures=False, verbosity=-1))
"""


@pytest.fixture
def decks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for method, text in DECKS.items():
        Path(f"{method}.yaml").write_text(text)
    for name in ("rod.mtx", "rod_rhs.txt"):
        shutil.copy(ROOT / "inputs" / "tridiag" / name, name)


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.exhaustive)])
def test_methods_on_several_ranks(decks, ranks):
    script(1, RUN_ALL, 1, *DECKS)
    shared = [name for name in DECKS if ranks != 2 or name not in ("tridiag-exact", "tridiag-literal")]
    script(ranks, RUN_ALL, ranks, *shared)
    for method, rtol in ALLOWED.items():
        if method not in shared:
            continue
        differing = same(f"{method}-1.h5", f"{method}-{ranks}.h5", rtol=rtol)
        if method.startswith(
            "qoc"
        ):  # differences of rounding errors, and what an optimiser amplifies them to
            differing = [
                name for name in differing if name.startswith(("prob", "obj", "member", "history/prob"))
            ]
        if method.startswith("tridiag"):
            differing = [name for name in differing if name not in HOW]
        assert not differing, (method, ranks, differing)
    with h5py.File("tridiag-auto-1.x.h5") as alone, h5py.File(f"tridiag-auto-{ranks}.x.h5") as found:
        assert abs(found["x"][:] - alone["x"][:]).max() < 1e-12
    for method in SOLVED:
        by = {"tridiag-systems": "nshape-literal", "tridiag-pivoted": "lapack"}.get(method, "nshape-shared")
        with open_results(f"{method}-{ranks}.h5") as found:
            assert str(found.scalars["algorithm"].value).startswith(by.removesuffix("literal"))


MESSAGES = """
import json
import yaml
from qsim.core.device.parallel import MpiComm, world
from qsim.core.run.pipeline import Options, execute
from qsim.qmc.sampling import exchange

exchange.MOST = 3  # a group of 384 walkers for each rank
deck = yaml.safe_load(open("qmc-blocks.yaml"))
sent, found = [], []
numbers, objects = MpiComm.gather_numbers, MpiComm.allgather
MpiComm.gather_numbers = lambda self, values: (sent.append(values.nbytes), numbers(self, values))[1]
MpiComm.allgather = lambda self, value: (sent.append("pickled"), objects(self, value))[1]
for number, steps in enumerate((5, 5, 10)):  # the first compiles kernels, of which ranks tell each other
    deck["series"][1]["dmc"]["steps"] = steps
    sent.clear()
    execute("qmc", deck, Options(output=f"messages-{number}", figures=False, verbosity=-1))
    found.append(list(sent))
with open(f"messages-{world().rank}.json", "w") as file:
    json.dump(found, file)
"""


def test_generations_from_one_branching_to_the_next_are_one_message(decks):
    """30 generations more, of 384 walkers per rank: six times sums of 5 generations and 3 blocks, and three of weights."""
    script(2, MESSAGES)
    for rank in (0, 1):
        _, few, many = json.loads(Path(f"messages-{rank}.json").read_text())
        interval = 8 * (3 + 5 * 3 * 13 + 3)
        assert many.count(interval) - few.count(interval) == 6
        # By the clock ranks ask each other, in one number or object, whether to stop or to save: now and then.
        seldom = [sum(size in (8, "pickled") for size in sizes) for sizes in (few, many)]
        assert (len(many) - seldom[1]) - (len(few) - seldom[0]) == 6
        assert abs(seldom[1] - seldom[0]) < 6


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "method", ["qmc", "trotter", "sturmian", "sturmian-collision", "tridiag", "tridiag-exact", "tridiag-scan"]
)
def test_a_stopped_run_is_continued_on_another_number_of_ranks(decks, method):
    """Stopped at once by its wall time on three ranks; qmc continues to the bits of one rank."""
    environ = {**ENVIRONMENT, "NUMBA_NUM_THREADS": "1"}

    def run(ranks, *more):
        command = [
            MPIRUN,
            "-n",
            str(ranks),
            sys.executable,
            "-m",
            "qsim",
            method.split("-")[0],
            f"{method}.yaml",
            "--no-figures",
            *more,
        ]
        return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)

    assert run(1, "-o", "alone").returncode == 0
    stopped = run(3, "-o", "run", "--set", "run.walltime=0.01")
    assert stopped.returncode == 75, stopped.stderr
    for ranks in (2, 1):
        shutil.copy("run.ckpt.h5", f"run{ranks}.ckpt.h5")
        resumed = run(ranks, "-o", f"run{ranks}", "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert "continuing from" in resumed.stderr
        assert not set(same("alone.h5", f"run{ranks}.h5", rtol=ALLOWED[method])) - set(HOW)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["tridiag-exact", "sturmian-collision"])
def test_a_rank_killed_in_the_middle_leaves_a_checkpoint_for_another_number(decks, method):
    """Of three ranks one is killed as soon as there is a checkpoint; two carry on, to the numbers of an undisturbed run."""
    environ = {**ENVIRONMENT, "NUMBA_NUM_THREADS": "1"}
    longer = ["--set", "time.outputs=200", "--set", "time.t_final=40"] if method.startswith("tridiag") else []

    def command(ranks, *more):
        words = [
            MPIRUN,
            "-n",
            str(ranks),
            sys.executable,
            "-m",
            "qsim",
            method.split("-")[0],
            f"{method}.yaml",
        ]
        return [*words, "--no-figures", "--set", "run.checkpoint=1 ms", *longer, *more]

    alone = subprocess.run(
        command(1, "-o", "alone"), env=environ, capture_output=True, text=True, timeout=200
    )
    assert alone.returncode == 0, alone.stderr
    process = subprocess.Popen(command(3, "-o", "run"), env=environ, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 100
    while not Path("run.ckpt.h5").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(_workers(f"{method}.yaml")[-1], signal.SIGKILL)
    assert process.wait(timeout=60) != 0
    assert not Path("run.h5").exists()
    resumed = subprocess.run(
        command(2, "-o", "run", "--resume"), env=environ, capture_output=True, text=True, timeout=200
    )
    assert resumed.returncode == 0, resumed.stderr
    assert "continuing from" in resumed.stderr
    assert not set(same("alone.h5", "run.h5", rtol=ALLOWED[method])) - set(HOW)


def _workers(deck):
    """Return the Python processes of this folder that run a deck."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().split(b"\0")
            here = (entry / "cwd").readlink() == Path.cwd()
        except OSError:
            continue
        if here and deck.encode() in line and line[0].endswith(b"python"):
            found.append(int(entry.name))
    return sorted(found)

"""A state on 1, 2 and 4 ranks of a real MPI: layers and moments of exact diagonalisation, decks with equal results, faults."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from qsim.core.device.device import cuda_status
from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "QSIM_DEVICE": "cpu",
    "NUMBA_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}

DENSE = """
import numpy as np
from qsim.core.device.device import cpu
from qsim.core.device.links import links_of
from qsim.core.device.parallel import world
from qsim.trotter.evolution.distributed import SharedEvolver
from qsim.trotter.evolution.layers import Tile, grouped
from qsim.trotter.model.hamiltonian import Model

comm, device, N = world(), cpu(1), 8
links, n = links_of(comm, device), N - (comm.size.bit_length() - 1)
links.trades, trade = [], links.trade
links.trade = lambda pieces: (links.trades.append(len(pieces)), trade(pieces))[1]
rng = np.random.default_rng(3)
S = 0.5 * np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
site = [[np.kron(np.eye(1 << (N - 1 - j)), np.kron(S[a], np.eye(1 << j))) for j in range(N)] for a in range(3)]
psi = rng.standard_normal(1 << N) + 1j * rng.standard_normal(1 << N)
psi /= np.linalg.norm(psi)
g = comm.size.bit_length() - 1
# couplings of all; couplings along x and y in the middle alone, so that fields turn the spins that number ranks
for present, middle in ((present, middle) for middle in (False, True) for present in ((0, 1, 2), (0, 2), (1,))):
    J, h = np.zeros((3, N, N)), np.zeros((3, N))
    parts = {}
    for a in present:
        A = 0.3 * rng.standard_normal((N, N))
        if middle and a < 2:
            A[n - g :] = A[:, n - g :] = 0
        J[a] = A + A.T - np.diag(2 * np.diag(A))
        h[a] = rng.standard_normal(N)
        parts[a] = sum(h[a, j] * site[a][j] for j in range(N))
        parts[a] = parts[a] + sum(J[a, j, k] * site[a][j] @ site[a][k] for j in range(N) for k in range(j))
    model = Model(N, J, h)
    # exponentials of several times from one diagonalisation of each part
    levels = {a: np.linalg.eigh(part) for a, part in parts.items()}
    sequence = [(a, 0.1 + 0.07 * a + 0.05 * i) for i in range(3) for a in present]
    wanted = psi
    for a, tau in sequence:
        values, vectors = levels[a]
        wanted = vectors @ (np.exp(-1j * tau * values) * (vectors.conj().T @ wanted))
    ways = [None, grouped(n, "cpu", 1, n - 2, n), grouped(n, "cpu", 1, 2, n)]
    # tiles between the lowest and the highest, as there are for many spins
    ways += [[Tile(2, 2, 2), Tile(1, 2, 2), Tile(1, 3, n - 2)], [Tile(2, 2, 2), Tile(0, 2, n - 4), Tile(1, n - 2, 3)]]
    acted = [[site[a][j] @ wanted for j in range(N)] for a in range(3)]
    firsts = [[np.vdot(wanted, one).real for one in some] for some in acted]
    seconds = [np.array([[np.vdot(x, y).real for x in some] for y in some]) for some in acted]
    off = ~np.eye(N, dtype=bool)
    # one piece, and pieces of which many are under way
    for tiling, width in [(tiling, width) for tiling in ways for width in (None, 4, 1 << n - 3)]:
        run = SharedEvolver(device, model, psi.reshape(comm.size, -1)[comm.rank], links, tiling=tiling)
        run.exchange.width = width or run.exchange.width
        run.set_model(model)
        assert run._alone == (middle and len(run.tiles) > 1 and run._streams)
        begun = len(links.trades)
        run.apply(list(sequence))
        # three layers of z after others: three exchanges instead of one or two for each of these, and one back
        if run._alone and present[-1] == 2 and width == 1 << n - 3:
            assert len(links.trades) - begun == 4 * (1 << n - g) // width
        found = np.concatenate(comm.allgather(run.psi))
        assert abs(found - wanted).max() < 1e-14, (present, tiling)
        # moments where the passes of the frames differ
        moments = run.measure("xyz")
        for a, name in enumerate("xyz"):
            assert np.allclose(moments.s[name], firsts[a], atol=1e-13)
            assert np.allclose(moments.ss[name][off], seconds[a][off], atol=1e-13)
        assert abs(np.concatenate(comm.allgather(run.psi)) - wanted).max() < 2e-14  # back in the z frame, phase included
"""

PRODUCTS = """
import numpy as np
from qsim.core.device.device import cpu
from qsim.core.device.links import links_of
from qsim.core.device.parallel import world
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.evolution.krylov import Exponential
from qsim.trotter.sectors.parity import WholeSpace
from qsim.trotter.sectors.shared.operator import SharedOperator
from qsim.trotter.sectors.shared.space import SharedSpace
from qsim.trotter.measurement import entanglement
from qsim.trotter.measurement.expectations import energy_and_variance
from qsim.trotter.measurement.shared import shared_schmidt
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.states.vectors import overlap

comm, device, N = world(), cpu(1), 8
links = links_of(comm, device)
rng = np.random.default_rng(5)
S = 0.5 * np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
site = [[np.kron(np.eye(1 << (N - 1 - j)), np.kron(S[a], np.eye(1 << j))) for j in range(N)] for a in range(3)]
x, y = (rng.standard_normal(1 << N) + 1j * rng.standard_normal(1 << N) for _ in range(2))
x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
own = lambda vector: np.ascontiguousarray(vector.reshape(comm.size, -1)[comm.rank])
whole = lambda part: np.concatenate(comm.allgather(part))
assert abs(overlap(own(x), own(y), links) - np.vdot(x, y)) < 1e-15
entanglement.PIECE_BITS = 5  # several pieces
from qsim.trotter.measurement import shared
shared.PIECE_BITS = 5
for cut in ([0], [N - 1], [0, 1, 2, 3], [N - 1, N - 2, 0], [2, 5, 6, 7], [1, 7], list(range(N - 1)), [4, 5, 6, 7]):
    found = shared_schmidt(device, links, own(x), cut)
    wanted = entanglement.schmidt(device, x, cut)
    assert np.allclose(found, wanted[: len(found)], atol=1e-14), cut
# all-to-all; fields alone, which turn no pair; a chain of two components
for kind in range(3):
    J, h = 0.3 * rng.standard_normal((3, N, N)) * (kind != 1), rng.standard_normal((3, N))
    if kind == 2:
        J, h = J * np.eye(N, k=1) * np.array([1, 0, 1])[:, None, None], h * np.array([0, 0, 1])[:, None]
    J = np.triu(J, 1) + np.triu(J, 1).transpose(0, 2, 1)
    H = sum(h[a, j] * site[a][j] for a in range(3) for j in range(N))
    H = H + sum(J[a, j, k] * site[a][j] @ site[a][k] for a in range(3) for j in range(N) for k in range(j))
    operator = SharedOperator(device, SharedSpace(WholeSpace(N), links), Model(N, J, h))
    out = own(y).copy()
    operator.apply(own(x), out, 0.7, -0.3, 1.2)
    assert abs(whole(out) - (0.7 * H @ x - 0.3 * x + 1.2 * y)).max() < 1e-14, kind
    energy, variance = energy_and_variance(device, Model(N, J, h), own(x), linear=operator)
    mean = np.vdot(x, H @ x).real
    assert abs(energy - mean) < 1e-14 and abs(variance - (np.vdot(H @ x, H @ x).real - mean**2)) < 1e-13
    values, vectors = np.linalg.eigh(H)
    wanted = vectors @ (np.exp(-1.7j * values) * (vectors.conj().T @ x))
    psi = own(x).copy()
    Chebyshev(device, Model(N, J, h), linear=operator).advance(psi, 1.7, 1e-13)
    assert abs(whole(psi) - wanted).max() < 1e-12, kind
    psi = own(x).copy()
    Exponential(device, psi.size, psi.dtype).advance(operator, psi, 1.7, 1e-12)
    assert abs(whole(psi) - wanted).max() < 1e-11, kind
"""

PARITY = """
import numpy as np
from qsim.core.device.device import cpu
from qsim.core.device.links import links_of
from qsim.core.device.parallel import world
from qsim.trotter.measurement.spaces import moments_in, schmidt_in
from qsim.trotter.model.hamiltonian import Model, dense
from qsim.trotter.sectors.lanczos import random_start
from qsim.trotter.sectors.parity import ParitySector
from qsim.trotter.sectors.shared import space as shared
from qsim.trotter.sectors.shared.operator import SharedOperator

comm, device, N = world(), cpu(1), 9
links = links_of(comm, device)
rng = np.random.default_rng(11)
shared.PIECE = 16  # several pieces
whole = lambda part: np.concatenate(comm.allgather(part))
for odd, real in ((0, True), (1, True), (0, False), (1, False)):
    base = ParitySector(N, odd)
    space = shared.SharedSpace(base, links)
    J, h = rng.standard_normal((3, N, N)), np.zeros((3, N))
    h[2] = rng.standard_normal(N)
    if real:
        J[1] = 0.0  # S^y of the rank makes complex terms
    J = np.triu(J, 1) + np.triu(J, 1).transpose(0, 2, 1)
    model, strings = Model(N, J, h), base.strings()
    H = dense(model)[np.ix_(strings, strings)]
    operator = SharedOperator(device, space, model)
    assert operator.is_real == real
    x, y = rng.standard_normal((2, base.dimension))
    if not real:
        x, y = x * (1 + 0.3j), y + 1j * rng.standard_normal(base.dimension)
    own = lambda vector: np.ascontiguousarray(vector.reshape(comm.size, -1)[comm.rank])
    out = own(y).copy()
    operator.apply(own(x), out, 0.7, -0.3, 1.2)
    assert abs(whole(out) - (0.7 * H @ x - 0.3 * x + 1.2 * y)).max() < 1e-13
    start = random_start(device, space.size, 3, np.float64, operator.first, links)
    assert abs(whole(start) - random_start(device, base.dimension, 3)).max() < 1e-15
    x /= np.linalg.norm(x)
    pairs = [(0, 1), (2, N - 1), (N - 2, N - 1), (1, N - 2)]
    found, wanted = (moments_in(one, device, vector, pairs) for one, vector in ((space, own(x)), (base, x)))
    assert abs(found.norm - 1.0) < 1e-14
    for axis in "xyz":
        assert abs(found.s[axis] - wanted.s[axis]).max() < 1e-14
        assert max(abs(found.ss[axis][j, k] - wanted.ss[axis][j, k]) for j, k in pairs) < 1e-14
    assert abs(found.ss["z"] - wanted.ss["z"]).max() < 1e-14
    for cut in ([0], [N - 1], [0, 1, 2, 3], [N - 1, 0, N - 3]):
        a, b = (schmidt_in(one, device, vector, cut).values for one, vector in ((space, own(x)), (base, x)))
        assert np.allclose(a, b[: len(a)], atol=1e-14)
"""

LEVELS = """
method: trotter
task: spectrum
system:
  spins: 12
  terms:
    - {type: ising, lattice: chain, J: -1.0}
    - {type: field, axis: x, values: "0.45 + 0.02*j"}
observe:
  - {sx: all}
  - {sz: all}
  - {correlator: [xx, zz], pairs: all}
  - {entropy: {cuts: all}}
run: {seed: 1}
"""

DECK = """
method: trotter
system:
  spins: 12
  terms:
    - {type: heisenberg, lattice: chain, J: 1.0}
    - {type: field, axis: x, h: 0.7}
    - {type: field, axis: z, random: {kind: box, W: 2.0, seed: 7}}
initial: {type: product, theta: 1.1, phi: 0.4}
evolve: {t_final: 1.0, outputs: {count: 4}, integrator: ts4, dt: 0.125}
observe:
  - imbalance
  - sz: all
  - sx: all
  - correlator: zz
    pairs: [[0, 1], [3, 11], [10, 11]]
  - return_probability
  - energy_variance
  - entropy: {sites: [0, 5, 11]}
  - entropy: {sites: half, spectrum: 4}
  - echo: {sigma: [{type: field, axis: x, h: 0.3}], local: [0, 11]}
  - fidelity: state.npy
run: {seed: 1}
"""
DRIVEN = "{type: field, axis: y, h: 0.4, profile: {type: cosine, omega: 2.0}}"
ROUNDED = ("energy_drift", "norm_drift", "verification_error", "verification_echo_error")


@pytest.fixture(autouse=True)
def _launcher(tmp_path, monkeypatch):
    if MPIRUN is None:
        pytest.skip("no mpirun: pip install mpich")
    monkeypatch.chdir(tmp_path)
    Path("deck.yaml").write_text(DECK)
    generator = np.random.default_rng(3)
    np.save("state.npy", generator.standard_normal(1 << 12) + 1j * generator.standard_normal(1 << 12))


def launch(ranks, *arguments):
    command = [MPIRUN, "-n", str(ranks), sys.executable, *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)


def qsim(ranks, *arguments):
    return launch(ranks, "-m", "qsim", "trotter", "deck.yaml", "--no-figures", *arguments)


def differing(first, second, rtol=1e-11, atol=0.0):
    with open_results(first) as a, open_results(second) as b:
        found = compare_results(a, b, Tolerance(rtol, atol, 0.0))
    return {item.name for item in found if not item.same} - set(ROUNDED)


@pytest.mark.parametrize("ranks", [2, 4])
def test_layers_and_moments_against_exponentials_of_dense_matrices(ranks):
    reply = launch(ranks, "-c", DENSE)
    assert reply.returncode == 0, reply.stderr


@pytest.mark.parametrize("ranks", [2, 4])
def test_products_with_h_and_entropies_against_dense_matrices(ranks):
    reply = launch(ranks, "-c", PRODUCTS)
    assert reply.returncode == 0, reply.stderr


@pytest.mark.parametrize("ranks", [2, 4])
def test_products_and_moments_of_a_shared_parity_against_dense_matrices(ranks):
    reply = launch(ranks, "-c", PARITY)
    assert reply.returncode == 0, reply.stderr


@pytest.mark.parametrize("sector", ["auto", "full"])
def test_levels_of_vectors_that_ranks_share(sector):
    """Of both parities, and of all states; also of a run that goes on with another number of ranks."""
    Path("deck.yaml").write_text(LEVELS.replace("run:", f"sector: {sector}\nrun:"))
    for ranks in (1, 2):
        reply = qsim(ranks, "-o", f"{sector}{ranks}")
        assert reply.returncode == 0, reply.stderr
    # Lanczos adds in another order: as many products, or five more
    assert differing(f"{sector}1.h5", f"{sector}2.h5", 1e-8, 1e-8) <= {"products"}
    stopped = qsim(2, "-o", "run", "--set", "run.walltime=0.01")
    if stopped.returncode == 75:
        assert qsim(4, "-o", "run", "--resume").returncode == 0
        assert differing(f"{sector}1.h5", "run.h5", 1e-8, 1e-8) <= {"products"}
    reply = qsim(
        2, "-o", "none", "--set", "system.terms=[{type: heisenberg, lattice: chain}]", "--set", "sector=auto"
    )
    assert reply.returncode == 4
    assert "vectors of one Sz" in reply.stderr


def test_a_deck_on_1_and_4_ranks_and_what_is_refused():
    reply = qsim(1, "-o", "r1")
    assert reply.returncode == 0, reply.stderr
    # one flag starts the ranks, and is what the results say
    command = [
        sys.executable,
        "-m",
        "qsim",
        "trotter",
        "deck.yaml",
        "--gpus",
        "4",
        "--device",
        "cpu",
        "--no-figures",
        "-o",
        "r4",
    ]
    reply = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)
    assert reply.returncode == 0, reply.stderr
    assert "4 ranks share the amplitudes" in reply.stderr
    assert not differing("r1.h5", "r4.h5")
    reply = qsim(3, "-o", "r3")
    assert reply.returncode == 4
    assert reply.stderr.count("occupy 1, 2, 4, 8") == 1
    reply = qsim(2, "-o", "e2", "--set", "observe=[state]")
    assert reply.returncode == 4
    assert "runs on one rank, but 2 were started: observe: state," in reply.stderr


@pytest.mark.parametrize("integrator", ["chebyshev", "krylov"])
def test_expansions_and_verified_steps_of_a_shared_state(integrator):
    """A driven H is carried by Krylov spaces; the echo of the others is the overlap of two states that go forward."""
    evolve = "{t_final: 1.0, outputs: {count: 3}, integrator: INTEGRATOR, accuracy: 1.0e-8, verify: VERIFY}"
    evolve = evolve.replace("INTEGRATOR", integrator).replace("VERIFY", str(integrator != "krylov").lower())
    more = ["--set", f"evolve={evolve}", "--set", "initial={type: a1, up: [0, 11]}"]
    text = DECK.replace(", local: [0, 11]", "")
    if integrator == "krylov":
        text = text.replace("    - {type: field, axis: x, h: 0.7}", f"    - {DRIVEN}")
    Path("deck.yaml").write_text(text)
    for ranks in (1, 2):
        reply = qsim(ranks, "-o", f"{integrator}{ranks}", *more)
        assert reply.returncode == 0, reply.stderr
    assert not differing(f"{integrator}1.h5", f"{integrator}2.h5")


@pytest.mark.exhaustive
def test_a_stopped_run_is_continued_on_another_number_of_ranks():
    assert qsim(1, "-o", "alone").returncode == 0
    stopped = qsim(2, "-o", "run", "--set", "run.walltime=0.01")
    assert stopped.returncode == 75, stopped.stderr
    for ranks in (4, 1, 2):
        shutil.copy("run.ckpt.h5", f"run{ranks}.ckpt.h5")
        resumed = qsim(ranks, "-o", f"run{ranks}", "--resume")
        assert resumed.returncode == 0, resumed.stderr
        assert "continuing from" in resumed.stderr
        assert not differing("alone.h5", f"run{ranks}.h5")


LONG = ("--set", "evolve.t_final=500", "--set", "evolve.outputs.count=40", "--set", "observe=[{sz: all}]")


def _begun(*more, **environ):
    """Return a run on two ranks that has written its first checkpoint, and the number of its last rank."""
    command = [
        MPIRUN,
        "-n",
        "2",
        sys.executable,
        "-m",
        "qsim",
        "trotter",
        "deck.yaml",
        "--no-figures",
        "-o",
        "run",
    ]
    process = subprocess.Popen(
        [*command, *LONG, "--set", "run.checkpoint=1 ms", *more],
        env={**ENVIRONMENT, **environ},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not Path("run.ckpt.h5").exists():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    ranks = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words, here = (
                (entry / "cmdline").read_bytes().split(b"\0"),
                (entry / "cwd").readlink() == Path.cwd(),
            )
        except OSError:
            continue
        if here and b"python" in words[0] and b"deck.yaml" in words:
            ranks.append(int(entry.name))
    return process, max(ranks)


def test_a_rank_that_hangs_is_told_and_ends_the_run():
    process, rank = _begun(QSIM_LINKS_TIMEOUT="2")
    os.kill(rank, signal.SIGSTOP)
    try:
        _, told = process.communicate(timeout=60)
    finally:
        os.kill(rank, signal.SIGKILL)
    assert process.returncode == 4
    assert "qsim: error: rank 0 of 2 has waited 2 s for other ranks (" in told
    assert not Path("run.h5").exists()


def test_a_killed_rank_leaves_a_checkpoint_for_another_number():
    """Four ranks carry on from the state that two had saved, to the numbers of a run that was never disturbed."""
    more = ("--set", "evolve.t_final=30")
    process, rank = _begun(*more)
    os.kill(rank, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode != 0
    assert not Path("run.h5").exists()
    for ranks, name in ((4, "run"), (1, "alone")):
        reply = qsim(ranks, "-o", name, *LONG, *more, "--resume")
        assert reply.returncode == 0, reply.stderr
        assert ("continuing from" in reply.stderr) == (name == "run")
    # rounding adds up over a thousand steps
    assert not differing("alone.h5", "run.h5", 1e-9)


@pytest.mark.gpu
def test_levels_of_vectors_that_gpus_share():
    Path("deck.yaml").write_text(LEVELS)
    for ranks in (1, 2):
        reply = qsim(ranks, "-o", f"g{ranks}", "--device", "cuda", "--set", "system.spins=16")
        assert reply.returncode == 0, reply.stderr
    assert differing("g1.h5", "g2.h5", 1e-8, 1e-8) <= {"products"}


@pytest.mark.gpu
def test_a_state_shared_by_gpus_is_that_of_one():
    """On two GPUs 28 spins, so that tiles lie between the lowest and the highest, and pieces of an exchange are several.

    Two processes on one GPU, which may have other work, exchange through the host: 22 spins are enough there.
    """
    spins = 28 if cuda_status().count > 1 else 22
    observe = f"[{{sz: all}}, {{sx: all}}, return_probability, energy_variance, {{entropy: {{sites: [0, 5, {spins - 1}]}}}}]"
    more = [
        "--device",
        "cuda",
        "--set",
        f"system.spins={spins}",
        "--set",
        "evolve.t_final=0.25",
        "--set",
        f"observe={observe}",
    ]
    for ranks in (1, 2):
        reply = qsim(ranks, "-o", f"g{ranks}", *more)
        assert reply.returncode == 0, reply.stderr
    # an entropy of 3e-4 has the rounding of eigenvalues near one; the estimate is of a small system that one rank alone
    # may choose differently
    assert differing("g1.h5", "g2.h5", 1e-9) <= {"error_estimate"}

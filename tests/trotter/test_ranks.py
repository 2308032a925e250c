"""A state on 1, 2 and 4 ranks of a real MPI: layers and moments of exact diagonalisation, decks with equal results, faults."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qsim.core.results.compare import Tolerance, compare_results
from qsim.core.results.results import open_results

pytestmark = pytest.mark.mpi

ROOT = Path(__file__).resolve().parents[2]
BESIDE = Path(sys.executable).with_name("mpirun")
MPIRUN = str(BESIDE) if BESIDE.exists() else shutil.which("mpirun")
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
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
from scipy.linalg import expm
from qsim.core.device.device import cpu
from qsim.core.device.links import links_of
from qsim.core.device.parallel import world
from qsim.trotter.evolution.distributed import SharedEvolver
from qsim.trotter.evolution.layers import Tile, grouped
from qsim.trotter.model.hamiltonian import Model

comm, device, N = world(), cpu(1), 8
links, n = links_of(comm, device), N - (comm.size.bit_length() - 1)
rng = np.random.default_rng(3)
S = 0.5 * np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
site = [[np.kron(np.eye(1 << (N - 1 - j)), np.kron(S[a], np.eye(1 << j))) for j in range(N)] for a in range(3)]
psi = rng.standard_normal(1 << N) + 1j * rng.standard_normal(1 << N)
psi /= np.linalg.norm(psi)
for present in ((0, 1, 2), (0, 2), (1,)):
    J, h, H = np.zeros((3, N, N)), np.zeros((3, N)), np.zeros((1 << N, 1 << N), complex)
    parts = {}
    for a in present:
        A = 0.3 * rng.standard_normal((N, N))
        J[a] = A + A.T - np.diag(2 * np.diag(A))
        h[a] = rng.standard_normal(N)
        parts[a] = sum(h[a, j] * site[a][j] for j in range(N))
        parts[a] = parts[a] + sum(J[a, j, k] * site[a][j] @ site[a][k] for j in range(N) for k in range(j))
    model = Model(N, J, h)
    sequence = [(a, 0.1 + 0.07 * a + 0.05 * i) for i in range(3) for a in present]
    wanted = psi
    for a, tau in sequence:
        wanted = expm(-1j * tau * parts[a]) @ wanted
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
        run.apply(list(sequence))
        found = np.concatenate(comm.allgather(run.psi))
        assert abs(found - wanted).max() < 1e-14, (present, tiling)
        # moments where the passes of the frames differ
        moments = run.measure("xyz")
        for a, name in enumerate("xyz"):
            assert np.allclose(moments.s[name], firsts[a], atol=1e-13)
            assert np.allclose(moments.ss[name][off], seconds[a][off], atol=1e-13)
        assert abs(np.concatenate(comm.allgather(run.psi)) - wanted).max() < 2e-14  # back in the z frame, phase included
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
observe: [imbalance, {sz: all}, {sx: all}, {correlator: zz, pairs: [[0, 1], [3, 11], [10, 11]]}]
run: {seed: 1}
"""
ROUNDED = ("energy_drift", "norm_drift")


@pytest.fixture(autouse=True)
def _launcher(tmp_path, monkeypatch):
    if MPIRUN is None:
        pytest.skip("no mpirun: pip install mpich")
    monkeypatch.chdir(tmp_path)
    Path("deck.yaml").write_text(DECK)


def launch(ranks, *arguments):
    command = [MPIRUN, "-n", str(ranks), sys.executable, *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=240)


def qsim(ranks, *arguments):
    return launch(ranks, "-m", "qsim", "trotter", "deck.yaml", "--no-figures", *arguments)


def differing(first, second, rtol=1e-11):
    with open_results(first) as a, open_results(second) as b:
        found = compare_results(a, b, Tolerance(rtol, 0.0, 0.0))
    return {item.name for item in found if not item.same} - set(ROUNDED)


@pytest.mark.parametrize("ranks", [2, 4])
def test_layers_and_moments_against_exponentials_of_dense_matrices(ranks):
    reply = launch(ranks, "-c", DENSE)
    assert reply.returncode == 0, reply.stderr


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
    reply = qsim(2, "-o", "e2", "--set", "initial={type: haar}")  # random states have no parts yet
    assert reply.returncode == 4
    assert "runs on one rank" in reply.stderr


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


@pytest.mark.gpu
def test_a_state_shared_by_gpus_is_that_of_one():
    """28 spins, so that tiles lie between the lowest and the highest, and pieces of an exchange are several."""
    more = ["--device", "cuda", "--set", "system.spins=28", "--set", "evolve.t_final=0.25"]
    for ranks in (1, 2):
        reply = qsim(ranks, "-o", f"g{ranks}", *more)
        assert reply.returncode == 0, reply.stderr
    assert not differing("g1.h5", "g2.h5")

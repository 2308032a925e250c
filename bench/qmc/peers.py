"""PyQMC on one core: the same molecules, the same orbitals, the same kind of Jastrow factor, the same numbers of walkers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.harness import Bench, Skip, Timing, case
from bench.qmc import problem
from qsim.qmc.deck import wavefunction as blocks
from qsim.qmc.kernels.walkers import walk
from qsim.qmc.sampling.walkers import Walkers
from qsim.qmc.wavefunction.slater_jastrow import Wavefunction
from qsim.qmc.wavefunction.trial import build_wavefunction

WALKERS = {"He": 2000, "Be": 500, "H2O": 500}
BASES = {"He": "cc-pvtz", "Be": "cc-pvtz", "H2O": "ccecpccpvdz"}
WATER = [["O", 0.0, 0.0, 0.0], ["H", 0.0, -1.4305223, 1.1092692], ["H", 0.0, 1.4305223, 1.1092692]]
FACTOR = 10.0
BRANCH_CUT = 10.0  # of PyQMC: standard deviations of the energy
FEW = 20  # configurations at which kinetic energies are compared
ROUNDS = 5


@case("qmc-pyqmc", "moves, VMC, DMC of He, Be, H2O beside PyQMC, one thread", devices=("cpu",))
def pyqmc(bench: Bench) -> None:
    """Work of both codes in turns; goals are judged by processor time, which others on the machine disturb least."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            import pyqmc.api  # noqa: F401
            import pyscf.lib
    except ImportError as error:
        raise Skip(f"{error.name} is not installed") from error
    pyscf.lib.num_threads(1)
    for name in ("He",) if bench.quick else WALKERS:
        _compare(bench, name)


def _compare(bench: Bench, name: str) -> None:
    count, tau, small = WALKERS[name], problem.TAU[name], problem.DIFFUSION[name]
    theirs = Peer(name, count)
    plain, psi = ours(name, jastrow=False), ours(name, jastrow=True)
    shared = {
        "basis": BASES[name],
        "kinetic_difference": theirs.difference(bench, plain),
        "hartree_fock": theirs.energy,
    }
    walkers = problem.ensemble(bench.device, psi, count, tau)
    mixed = problem.ensemble(bench.device, psi, count, tau, single=True)
    steps = problem.STEPS
    rounds = 2 if bench.quick else ROUNDS
    works: dict[str, Callable[[], object]] = {}
    for label, each in (("", walkers), (", mixed", mixed)):
        works |= {
            f"moves{label}": problem.moves(each, tau, steps),
            f"VMC{label}": problem.variational(each, tau, steps),
        }
    # the two that change an ensemble's distribution come last in every round, on walkers of their own
    diffusing = problem.ensemble(bench.device, psi, count, tau)
    works |= {
        "DMC": problem.diffusion(diffusing, small, 2 * steps),
        "PyQMC moves": lambda: theirs.variational(tau, steps, False),
        "PyQMC VMC": lambda: theirs.variational(tau, steps, True),
        "PyQMC DMC": lambda: theirs.diffusion(small, steps),
    }
    with np.errstate(all="ignore"):
        found = problem.alternate(bench.device, works, rounds)
    operations = problem.operations(walkers)
    if operations.points:
        shared["points_per_energy"] = operations.points
    for kind, generations in (("moves", steps), ("VMC", steps), ("DMC", 4 * steps)):
        flops = operations.sweep if kind == "moves" else operations.generation
        passes = 2.0 if kind != "DMC" else generations + 2.0
        for label, each in (("", walkers), (", mixed", mixed)):
            if kind + label in found:
                timing = found[kind + label]
                problem.row(
                    bench,
                    f"{name}: {kind}{label}",
                    each,
                    timing,
                    generations,
                    flops,
                    passes,
                    code="qsim",
                    kind=kind,
                )
        _peer_row(bench, name, kind, found, walkers, generations / steps, shared)


def _peer_row(
    bench: Bench,
    name: str,
    kind: str,
    found: dict[str, Timing],
    walkers: Walkers,
    scale: float,
    shared: dict[str, Any],
) -> None:
    timing = found[f"PyQMC {kind}"]
    rate = walkers.count * problem.STEPS / timing.best
    ratios = problem.ratios(timing, found[kind], scale)
    bench.row(
        f"{name}: {kind}, PyQMC",
        timing,
        walkers=walkers.count,
        electrons=walkers.electrons,
        walker_generations_per_s=rate,
        electron_moves_per_s=rate * walkers.electrons,
        **ratios,
        **shared,
        code="PyQMC",
        kind=kind,
    )
    bench.goal(f"{name}, {kind}: PyQMC / qsim", ratios["ratio_cpu"], FACTOR, "times", at_least=True)


def ours(name: str, jastrow: bool) -> Wavefunction:
    """Return the trial function from PySCF's orbitals; without its Jastrow factor the one of both codes is the same."""
    water = name == "H2O"
    system = blocks.System(
        atoms=WATER if water else [[name, 0.0, 0.0, 0.0]],
        spin=0,
        pseudopotentials={"O": "ccecp", "H": "ccecp"} if water else {},
    )
    # no correction of cusps in the orbitals: the Jastrow factor has them in both codes
    orbitals = {"source": "pyscf", "method": "rhf", "basis": BASES[name], "cusp": False}
    function = {"type": "bspline", "rcut": 6.0, "size": 8}
    factor = {"J1": function, "J2": function} if jastrow else "none"
    block = blocks.Wavefunction.model_validate({"orbitals": orbitals, "jastrow": factor})
    return build_wavefunction(system, block)


class Peer:
    """A molecule in PyQMC with its Jastrow factor at the start of an optimisation."""

    def __init__(self, name: str, count: int) -> None:
        import pyqmc.api as pyq
        import pyqmc.method.dmc as dmc
        import pyqmc.method.mc as mc
        from pyscf import gto, scf

        self._mc, self._dmc = mc, dmc
        np.random.seed(1234)  # noqa: NPY002 - the one that PyQMC draws from
        water = name == "H2O"
        with contextlib.redirect_stdout(io.StringIO()):
            molecule = gto.M(
                atom=[(symbol, place) for symbol, *place in (WATER if water else [[name, 0.0, 0.0, 0.0]])],
                basis=BASES[name],
                ecp="ccecp" if water else {},
                unit="bohr",
                verbose=0,
            )
            field = scf.RHF(molecule).run()
            self.slater, _ = pyq.generate_slater(molecule, field)
            self.wf, _ = pyq.generate_wf(molecule, field)
        self.energy = float(field.e_tot)
        self.accumulators = {"energy": pyq.EnergyAccumulator(molecule)}
        self.configs = pyq.initial_guess(molecule, count)
        with np.errstate(all="ignore"):
            _, self.configs = mc.vmc(
                self.wf, self.configs, nblocks=3, nsteps_per_block=10, tstep=problem.TAU[name]
            )
        self.diffusing = self.configs.copy()
        self.weights = np.ones(count)
        energies = np.real(self.accumulators["energy"](self.diffusing, self.wf)["total"])
        self.trial, self.window = float(energies.mean()), BRANCH_CUT * float(energies.std())

    def variational(self, tau: float, steps: int, energy: bool) -> None:
        """Do a block of variational Monte Carlo."""
        accumulators = self.accumulators if energy else {}
        _, self.configs = self._mc.vmc(
            self.wf, self.configs, nblocks=1, nsteps_per_block=steps, tstep=tau, accumulators=accumulators
        )

    def diffusion(self, tau: float, steps: int) -> None:
        """Do a block of diffusion Monte Carlo and branch."""
        _, self.diffusing, self.weights = self._dmc.dmc_propagate(
            self.wf,
            self.diffusing,
            self.weights,
            tau,
            self.window,
            e_trial=self.trial,
            e_est=self.trial,
            nsteps=steps,
            accumulators=self.accumulators,
        )
        self.diffusing, self.weights, _ = self._dmc.branch(self.diffusing, self.weights)

    def difference(self, bench: Bench, plain: Wavefunction) -> float:
        """Return the largest relative difference of kinetic energies of the two Slater determinants at the same places."""
        configs = self.configs.copy()
        configs.configs = np.ascontiguousarray(configs.configs[:FEW])
        self.slater.recompute(configs)
        theirs = np.real(self.accumulators["energy"](configs, self.slater)["ke"])
        walkers = Walkers(bench.device, plain, FEW, problem.KEY)
        walkers.state.R[...] = configs.configs
        walkers.recompute()
        walk.energies(bench.device, walkers.state, walkers.tables, walkers.stream(problem.SECTION))
        mine = bench.device.to_host(walkers.state.energy[:, 0])
        return float(np.max(np.abs(mine - theirs) / np.maximum(np.abs(theirs), 1.0)))

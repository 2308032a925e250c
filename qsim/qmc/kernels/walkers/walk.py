"""Moves and local energies of walkers: public wrappers of ``walk.cu`` and their CPU twins; of crystals in ``crystal_walk``.

A thread (CPU) or some lanes of a warp (GPU) carry a walker through all generations of a call; random numbers are counted by
(walker, generation, electron, purpose), so the result depends neither on threads nor on the device beyond rounding.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device.pool import Shared, each_part
from qsim.qmc.kernels.common.tables import (
    MOVE_COST,
    NO_STREAM,
    SUMS,
    WORTH_THREADS,
    Stream,
    Tables,
    counters,
    in_crystal,
    record_of,
    scratch_address,
)
from qsim.qmc.kernels.common.types import work_spaces
from qsim.qmc.kernels.crystal import walk as crystal_walk
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals
from qsim.qmc.kernels.walkers import advance_cpu, walk_cpu
from qsim.qmc.kernels.walkers.derivatives_cpu import Derivatives
from qsim.qmc.kernels.walkers.jobs import DIFFUSE, ENERGIES, GENERATIONS, RECOMPUTE, WALK, Job
from qsim.qmc.kernels.walkers.launches import SHARED_BYTES, WARP, WalkerLaunch, diffusion, generation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.types import State, Work

__all__ = ["SUMS", "Stream", "Tables", "diffuse", "energies", "generations", "recompute", "walk"]

ITEMS = 2.0  # shells, electrons and ions for each lane of a walker
MOVE_ITEMS = 4.0  # the same in moves, whose lanes wait for each other more often
SMALL = 16  # electrons up to which kernels are compiled for the sizes of the system
FEW_ORBITALS = 5  # of a spin, up to which a lane of `all_rows` in moves.cuh has sums for all of them
BASIS_COST = 12  # ns of an atomic orbital in an electron's move on one CPU thread, roughly
PAIR = 12  # numbers of an electron within the range of an ion, as in molecules.cuh
HEAD, PLACE = 5, 6  # numbers of a function and of a shell in shared memory, as in curves.cuh and moves.cuh
KEPT = 8  # launches: a run alternates between few ensembles and trial functions


# ----------------------------------------------------------------------------------------- wrappers


def recompute(device: Device, state: State, tables: Tables) -> Any:
    """Recompute rows, inverses (in double precision) and log psi of all walkers.

    Returns
    -------
    (W,) float64
        Largest change of an element of an inverse, relative to the largest element.
    """
    error = device.xp.zeros(state.R.shape[0])
    if in_crystal(tables):
        crystal_walk.recompute(device, state, tables, error)
    elif device.is_cuda:
        launch_of(state, tables)("recompute", (error,))
    else:
        _recompute_cpu(device, state, tables, error)
    return error


def walk(
    device: Device, state: State, tables: Tables, tau: float, mode: int, sweeps: int, stream: Stream
) -> None:
    """Move all electrons ``sweeps`` times; modes: ``walk_cpu.PLAIN``, ``DRIFT``, ``FIXED_NODE``."""
    if in_crystal(tables):
        crystal_walk.walk(device, state, tables, tau, mode, sweeps, stream)
    elif device.is_cuda:
        launch_of(state, tables)("walk", (np.float64(tau), np.int32(mode), np.int32(sweeps)), stream)
    else:
        _walk_cpu(device, state, tables, tau, mode, sweeps, stream)


def energies(device: Device, state: State, tables: Tables, stream: Stream) -> None:
    """Set ``state.energy`` to the local energies."""
    if in_crystal(tables):
        crystal_walk.energies(device, state, tables, stream)
    elif device.is_cuda:
        launch_of(state, tables)("energies", (), stream, (np.uint64(0),))
    else:
        _energies_cpu(device, state, tables, stream)


def generations(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    mode: int,
    sweeps: int,
    count: int,
    stream: Stream,
    sums: Any,
) -> None:
    """Do ``count`` generations of variational Monte Carlo, each of ``sweeps`` sweeps and one local energy.

    Parameters
    ----------
    sums : (W, 8) float64, in/out
        Sums of the components of the energy, of the square of the total, and the number of generations.
    """
    if in_crystal(tables):
        crystal_walk.generations(device, state, tables, tau, mode, sweeps, count, stream, sums)
    elif device.is_cuda:
        generation(launch_of(state, tables), tau, mode, sweeps, count, stream, sums)
    else:
        _generations_cpu(device, state, tables, tau, mode, sweeps, count, stream, sums)


def diffuse(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    stream: Stream,
    *,
    tmoves: bool,
    reference: float,
    trial: float,
    window: float,
    tau_ratio: float,
) -> None:
    """Do one generation of diffusion Monte Carlo: move, local energy, weight, T-moves.

    Parameters
    ----------
    tau : float
        Time step, 1/hartree.
    tmoves : bool
        Sample the nonlocal potential by T-moves instead of the locality approximation.
    reference, window : float
        Local energies count in weights as clipped to ``reference +- window``, hartree.
    trial : float
        E_T, hartree.
    tau_ratio : float
        Effective over nominal time step.
    """
    limits = (reference, trial, window, tau_ratio)
    if in_crystal(tables):
        crystal_walk.diffuse(device, state, tables, tau, stream, tmoves, limits)
    elif device.is_cuda:
        diffusion(launch_of(state, tables), tau, stream, tmoves, limits)
    else:
        _diffuse_cpu(device, state, tables, tau, tmoves, limits, stream)


# -------------------------------------------------------------------------------------------- twins

_local = threading.local()


def spaces(workers: int, state: State, tables: Tables) -> tuple[int, Work]:
    """Return the number of threads and the work space of each for the kernels of `advance_cpu`, kept by the thread that asks."""
    assert not isinstance(tables.orbitals, CrystalOrbitals)  # which have kernels of their own
    key = (
        state.R.shape[1:],
        state.inverse.shape[1:],
        state.rows.dtype,
        tables.orbitals.atom.shape[0],
        tables.orbitals.coefficients.shape[1],
        tables.hamiltonian.points.shape[0],
        4 * tables.orbitals.side_by_side.shape[2],
    )
    kept: dict[int, tuple[object, Work]] = _local.__dict__.setdefault("spaces", {})
    if workers not in kept or kept[workers][0] != key:
        kept[workers] = key, work_spaces(workers, state, *key[3:])
    return workers, kept[workers][1]


NO_PARAMETERS = Derivatives(
    np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1), np.zeros(1)
)


def _advance(
    device: Device,
    state: State,
    tables: Tables,
    job: Job,
    stream: Stream = NO_STREAM,
    sums: NDArray[np.float64] | None = None,
) -> None:
    """Do a job in open boundaries, in types that are always the same, so that there is one compiled kernel."""
    assert not isinstance(tables.orbitals, CrystalOrbitals)
    out = np.zeros((1, SUMS)) if sums is None else sums
    walkers, electrons = state.R.shape[:2]
    moves = walkers * electrons * max(1, job.sweeps * job.repeats)
    each_part(
        job_of(state, tables, job, stream, out, NO_PARAMETERS, spaces(device.threads, state, tables)),
        walkers,
        moves * (MOVE_COST + BASIS_COST * tables.orbitals.coefficients.shape[1]),  # nanoseconds
        device.threads,
        WORTH_THREADS,
        # a move takes ten times as long in one job as in another, and how many threads are worth waking goes by what it took
        ("walk", job.job, tables.hamiltonian.channels.shape[0] > 0),
    )


def job_of(
    state: State,
    tables: Tables,
    job: Job,
    stream: Stream,
    sums: NDArray[np.float64],
    parameters: Derivatives,
    space: tuple[int, Work],
) -> Shared:
    """Return a job for ranges of walkers."""
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, float(tables.ion_ion), int(tables.n_up))
    how = job.numbers()
    launch = advance_cpu.ADVANCE[tables.hamiltonian.channels.shape[0] > 0]
    return Shared(launch, (how[0], state, *psi, *how[1:], *counters(stream), sums, parameters, *space))


def _recompute_cpu(device: Device, state: State, tables: Tables, error: NDArray[np.float64]) -> None:
    _advance(device, state, tables, Job(RECOMPUTE), sums=error[:, None])


def _walk_cpu(
    device: Device, state: State, tables: Tables, tau: float, mode: int, sweeps: int, stream: Stream
) -> None:
    _advance(device, state, tables, Job(WALK, tau, mode, sweeps), stream)


def _energies_cpu(device: Device, state: State, tables: Tables, stream: Stream) -> None:
    _advance(device, state, tables, Job(ENERGIES), stream)


def _generations_cpu(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    mode: int,
    sweeps: int,
    count: int,
    stream: Stream,
    sums: NDArray[np.float64],
) -> None:
    _advance(device, state, tables, Job(GENERATIONS, tau, mode, sweeps, count), stream, sums)


def _diffuse_cpu(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    tmoves: bool,
    limits: tuple[float, float, float, float],
    stream: Stream,
) -> None:
    job = Job(DIFFUSE, tau, walk_cpu.FIXED_NODE, 1, 1, tmoves, *limits)
    _advance(device, state, tables, job, stream)


# --------------------------------------------------------------------------------------------- CUDA

POINTERS = (
    *("atom", "shell_atom", "shell_l", "shell_first", "table", "reach", "coefficients"),
    *("kind", "spline", "inverse_h", "rcut", "pade", "species"),
    *("charge", "potential", "local", "delta", "channels", "cutoff", "points", "weights"),
)
SIZES = (
    *("interacting", "atoms", "shells", "basis", "orbitals", "electrons", "n_up", "width", "pseudos"),
    *("most_channels", "quadrature", "intervals", "functions"),
)
#: ``Model`` of orbitals.cuh: every field takes 8 bytes, so the layouts agree.
MODEL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.float64) for name in ("omega", "mass", "ion_ion")]
    + [(name, np.int64) for name in SIZES]
)


def lanes_of(sizes: Mapping[str, int], each: float = ITEMS) -> int:
    """Return how many lanes of a warp carry a walker: 1, 4, 8, 16 or 32, as many as its shells and pairs keep busy.

    They depend on the system alone: sums are added in the order of the lanes, so that ranks with fewer walkers get the same bits.

    Parameters
    ----------
    sizes
        As in `SIZES`.
    each
        Shells, electrons and ions for each lane.
    """
    items = (sizes["electrons"] + sizes["atoms"] + sizes["shells"]) / each
    return next((count for count in (32, 16, 8, 4) if items >= count), 1)


class Launch(WalkerLaunch):
    """Launches for walkers of a molecule."""

    def __init__(self, state: State, tables: Tables) -> None:
        self.model = _model(tables, state)
        self.sizes = sizes = {key: int(self.model[key][0]) for key in SIZES}
        real, walkers = state.rows.dtype, state.R.shape[0]
        reals = real.itemsize * (5 * sizes["basis"] + 6 * sizes["orbitals"])
        each = 8 * (-(-(reals + 4 * sizes["electrons"] * sizes["atoms"]) // 8) | 1)
        macros: dict[str, str | int] = {"REAL": "float" if real == np.float32 else "double"}
        if sizes["electrons"] <= SMALL:
            names = ("electrons", "atoms", "orbitals", "basis", "shells", "quadrature")
            macros |= {name.upper(): sizes[name] for name in names} | {"ELECTRONS_UP": sizes["n_up"]}
        curves = _curve_bytes(sizes)
        super().__init__("qmc/kernels/walkers", walkers, each, lanes_of(sizes), macros, curves)
        lanes = lanes_of(sizes, MOVE_ITEMS)
        while lanes < WARP and WARP // lanes * _move_bytes(sizes, lanes, real.itemsize) > SHARED_BYTES // 2:
            lanes *= 2
        own, common = _move_bytes(sizes, lanes, real.itemsize), curves + 8 * PLACE * sizes["shells"]
        self.moves = WalkerLaunch("qmc/kernels/walkers", walkers, own, lanes, macros | {"MOVES": 1}, common)
        pairs = sizes["electrons"] * sizes["atoms"] * (PAIR + sizes["quadrature"])
        self.state = record_of(state, max(pairs, 2 * sizes["orbitals"] ** 2))
        self.moves.model, self.moves.state = self.model, self.state

    def __call__(
        self, name: str, numbers: tuple[Any, ...], stream: Stream | None = None, more: tuple[Any, ...] = ()
    ) -> None:
        """Launch a kernel; moves have a module, lanes and shared memory of their own."""
        if name == "walk":
            self.moves(name, numbers, stream, more)
        else:
            super().__call__(name, numbers, stream, more)


def launch_of(state: State, tables: Tables) -> Launch:
    """Return the launches for some walkers and a trial function, made once: that takes longer than a kernel of few walkers."""
    index = int(state.R.device.id)
    here = (index, state.R.shape[0], id(tables), *(array.data.ptr for array in state))
    found = _kept.get((scratch_address(index), *here))
    if found is not None and found[0] is tables:  # kept, so that its number belongs to nothing else
        return found[1]
    made = Launch(state, tables)
    while len(_kept) >= KEPT:
        del _kept[next(iter(_kept))]
    _kept[scratch_address(index), *here] = tables, made  # the new ones may have made scratch memory larger
    return made


_kept: dict[tuple[int, ...], tuple[Tables, Launch]] = {}


def _move_bytes(sizes: Mapping[str, int], lanes: int, real: int) -> int:
    """Return the bytes of shared memory of a walker, as `own_of` of moves.cuh; ``real``: bytes of a number of an orbital."""
    N, M, B = sizes["electrons"], sizes["orbitals"], sizes["basis"]
    sums = lanes * (5 * M + 1) if lanes > 1 and N <= SMALL and M <= FEW_ORBITALS else 0
    kept = 2 * M * M if N <= SMALL else 0
    words = 7 * N + -(-((max(5 * B, sums) + 6 * M + kept) * real) // 8)
    if lanes < 16:
        words += (3 * lanes - words % (2 * lanes)) % (2 * lanes)
    return 8 * words


def _curve_bytes(sizes: Mapping[str, int]) -> int:
    """Return the bytes of `curve_numbers` of curves.cuh."""
    return -(-8 * sizes["functions"] * (HEAD + 4 * (sizes["width"] - 3)) // 16) * 16


def _model(tables: Tables, state: State) -> NDArray[Any]:
    """Return the tables as `Model`, (1,)."""
    orbitals, jastrow, hamiltonian = tables.orbitals, tables.jastrow, tables.hamiltonian
    assert not isinstance(orbitals, CrystalOrbitals)  # which have kernels of their own
    assert not isinstance(hamiltonian, CrystalHamiltonian)
    record = np.zeros(1, MODEL)
    for part in (orbitals, jastrow, hamiltonian):
        for field, array in zip(part._fields, part, strict=True):
            if field in POINTERS:
                record[field] = array.data.ptr if array.size else 0
    values = {
        "omega": hamiltonian.omega,
        "mass": hamiltonian.mass,
        "ion_ion": tables.ion_ion,
        "interacting": hamiltonian.interacting,
        "atoms": orbitals.atom.shape[0],
        "shells": orbitals.shell_l.shape[0],
        "basis": orbitals.coefficients.shape[1],
        "orbitals": orbitals.coefficients.shape[2],
        "electrons": state.R.shape[1],
        "n_up": tables.n_up,
        "width": jastrow.spline.shape[1],
        "pseudos": hamiltonian.channels.shape[0],
        "most_channels": hamiltonian.delta.shape[1],
        "quadrature": hamiltonian.points.shape[0],
        "intervals": orbitals.table.shape[0],
        "functions": jastrow.kind.shape[0],
    }
    for field, value in values.items():
        record[field] = value
    return record

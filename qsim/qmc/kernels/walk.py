"""Moves and local energies of walkers: public wrappers of ``walk.cu`` and their CPU twins.

A thread (CPU) or some lanes of a warp (GPU) carry a walker through all generations of a call; random numbers are counted by
(walker, generation, electron, purpose), so the result depends neither on threads nor on the device beyond rounding.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.qmc.kernels import advance_cpu, crystal_cpu, walk_cpu
from qsim.qmc.kernels.crystal_types import CrystalHamiltonian, CrystalOrbitals, crystal_work_space
from qsim.qmc.kernels.derivatives_cpu import Derivatives
from qsim.qmc.kernels.types import State, work_space

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.crystal_types import CrystalWork
    from qsim.qmc.kernels.types import HamiltonianTables, JastrowTables, OrbitalTables, Work

__all__ = ["SUMS", "Stream", "Tables", "diffuse", "energies", "generations", "recompute", "walk"]

SUMS = 8  # numbers that a generation adds for each walker: components, square of the total, count
WARPS = (4, 2, 1)  # of a block: as many as SHARED_BYTES hold
WARP, SHARED_BYTES = 32, 96 * 1024  # at least two blocks per multiprocessor
BLOCKS = 256  # at least, before a block gets more than one warp: about two for each multiprocessor
ITEMS = 4.0  # shells, electrons and ions for each lane of a walker
MOVE_COST, BASIS_COST = (
    200,
    12,
)  # ns of an electron's move on one CPU thread, roughly, and of an atomic orbital in it
CHANNEL_COST = 150  # ns of a function of a crystal in such a move
WORTH_THREADS = 400_000  # ns of work below which starting threads costs more than it saves
PAIR = 12  # numbers of an electron within the range of an ion, as in molecules.cuh


class Tables(NamedTuple):
    """A trial function and a Hamiltonian as the kernels take them, on the device; in open boundaries or of a crystal."""

    orbitals: OrbitalTables | CrystalOrbitals
    jastrow: JastrowTables
    hamiltonian: HamiltonianTables | CrystalHamiltonian
    ion_ion: float
    n_up: int

    @property
    def is_complex(self) -> bool:
        """Whether determinants are complex."""
        return isinstance(self.orbitals, CrystalOrbitals) and bool(self.orbitals.is_complex)


class Stream(NamedTuple):
    """Where random numbers are counted.

    Attributes
    ----------
    key : (2,) uint32
        Of the seed.
    number : int
        Of the section of the run.
    step : int
        Generation.
    offset : int
        Number of the first walker in the whole ensemble.
    """

    key: Any
    number: int
    step: int
    offset: int = 0


# ----------------------------------------------------------------------------------------- wrappers


def recompute(device: Device, state: State, tables: Tables) -> Any:
    """Recompute rows, inverses (in double precision) and log psi of all walkers.

    Returns
    -------
    (W,) float64
        Largest change of an element of an inverse, relative to the largest element.
    """
    error = device.xp.zeros(state.R.shape[0])
    if device.is_cuda:
        Launch(state, tables)("recompute", (error,))
    else:
        _recompute_cpu(device, state, tables, error)
    return error


def walk(
    device: Device, state: State, tables: Tables, tau: float, mode: int, sweeps: int, stream: Stream
) -> None:
    """Move all electrons ``sweeps`` times; modes: ``walk_cpu.PLAIN``, ``DRIFT``, ``FIXED_NODE``."""
    if device.is_cuda:
        Launch(state, tables)("walk", (np.float64(tau), np.int32(mode), np.int32(sweeps)), stream)
    else:
        _walk_cpu(device, state, tables, tau, mode, sweeps, stream)


def energies(device: Device, state: State, tables: Tables, stream: Stream) -> None:
    """Set ``state.energy`` to the local energies."""
    if device.is_cuda:
        Launch(state, tables)("energies", (), stream, (np.uint64(0),))
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
    if device.is_cuda:
        launch = Launch(state, tables)
        for k in range(count):
            at = stream._replace(step=stream.step + k * sweeps)
            launch("walk", (np.float64(tau), np.int32(mode), np.int32(sweeps)), at)
            launch("energies", (), at, (sums,))
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
    if device.is_cuda:
        launch = Launch(state, tables)
        launch("walk", (np.float64(tau), np.int32(walk_cpu.FIXED_NODE), np.int32(1)), stream)
        launch("weigh", tuple(map(np.float64, (tau * tau_ratio, reference, trial, window))), stream)
        if tmoves and launch.sizes["pseudos"] > 0:
            launch("nonlocal_steps", (np.float64(tau * tau_ratio),), stream)
    else:
        _diffuse_cpu(device, state, tables, tau, tmoves, limits, stream)


# -------------------------------------------------------------------------------------------- twins

_local = threading.local()


def _space(state: State, tables: Tables) -> Work | CrystalWork:
    """Return the work space of this thread, kept."""
    if isinstance(tables.orbitals, CrystalOrbitals):
        return _crystal_space(state, tables)
    key = (
        state.R.shape[1:],
        state.inverse.shape[1:],
        state.rows.dtype,
        tables.orbitals.atom.shape[0],
        tables.orbitals.coefficients.shape[1],
        tables.hamiltonian.points.shape[0],
    )
    if getattr(_local, "key", None) != key:
        _local.key, _local.work = key, work_space(state, *key[3:])
    found: Work = _local.work
    return found


def _crystal_space(state: State, tables: Tables) -> CrystalWork:
    """Return the work space of this thread in a crystal, kept as long as tables and walkers have the same shapes."""
    orbitals, hamiltonian = tables.orbitals, tables.hamiltonian
    assert isinstance(orbitals, CrystalOrbitals)
    assert isinstance(hamiltonian, CrystalHamiltonian)
    key = (
        state.R.shape[1:],
        state.inverse.shape[1:],
        state.rows.dtype,
        orbitals.table.shape[-1],
        orbitals.channel.shape,
        hamiltonian.points.shape,
        hamiltonian.images.shape,
        hamiltonian.waves.shape,
        int(np.abs(hamiltonian.waves).max(initial=1)),
    )
    if getattr(_local, "crystal_key", None) != key:
        _local.crystal_key = key
        _local.crystal_work = crystal_work_space(state, orbitals, hamiltonian)
    found: CrystalWork = _local.crystal_work
    return found


class Job(NamedTuple):
    """What `advance_cpu.advance` takes besides walkers, tables and counters, in its order."""

    job: int
    tau: float = 0.0
    mode: int = 0
    sweeps: int = 0
    repeats: int = 1
    tmoves: bool = False
    reference: float = 0.0
    trial: float = 0.0
    window: float = 0.0
    tau_ratio: float = 1.0


NO_PARAMETERS = Derivatives(
    np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros(1), np.zeros(1)
)
NO_STREAM = Stream(np.zeros(2, np.uint32), 0, 0)


def _advance(
    device: Device,
    state: State,
    tables: Tables,
    job: Job,
    stream: Stream = NO_STREAM,
    sums: NDArray[np.float64] | None = None,
) -> None:
    """Do a job in open boundaries, in types that are always the same, so that there is one compiled kernel."""
    out = np.zeros((1, SUMS)) if sums is None else sums
    do = job_of(state, tables, job, stream, out)
    _each(
        device,
        state,
        tables,
        lambda a, b, work: do(a, b, NO_PARAMETERS, work),
        max(1, job.sweeps * job.repeats),
    )


def job_of(
    state: State, tables: Tables, job: Job, stream: Stream, sums: NDArray[np.float64]
) -> Callable[[int, int, Derivatives, Any], None]:
    """Return what does a job for a range of walkers, with the work space of a thread."""
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, float(tables.ion_ion), int(tables.n_up))
    how = tuple(kind(value) for kind, value in zip(_JOB_TYPES, job, strict=True))
    at = _counters(stream)

    def do(first: int, last: int, parameters: Derivatives, work: Any) -> None:
        advance_cpu.advance(first, last, how[0], state, *psi, *how[1:], *at, sums, parameters, work)

    return do


_JOB_TYPES = (int, float, int, int, int, int, float, float, float, float)


def _in_crystal(tables: Tables) -> bool:
    return isinstance(tables.orbitals, CrystalOrbitals)


def _cost(tables: Tables) -> float:
    """Return the time of an electron's move on one CPU thread, roughly, ns."""
    if isinstance(tables.orbitals, CrystalOrbitals):
        return MOVE_COST + CHANNEL_COST * tables.orbitals.channel.shape[1]
    return MOVE_COST + BASIS_COST * tables.orbitals.coefficients.shape[1]


def _each(
    device: Device, state: State, tables: Tables, work: Callable[[int, int, Any], object], sweeps: int = 1
) -> None:
    """Call ``work(first, last, space)`` for ranges of walkers, on all threads if that is worth starting them."""
    walkers, electrons = state.R.shape[:2]
    moves = walkers * electrons * sweeps
    nanoseconds = moves * _cost(tables)
    each_part(
        lambda a, b: work(a, b, _space(state, tables)), walkers, nanoseconds, device.threads, WORTH_THREADS
    )


def _counters(stream: Stream) -> tuple[int, int, int, int, int]:
    return int(stream.key[0]), int(stream.key[1]), stream.number, stream.step, stream.offset


def _recompute_cpu(device: Device, state: State, tables: Tables, error: NDArray[np.float64]) -> None:
    if not _in_crystal(tables):
        _advance(device, state, tables, Job(advance_cpu.RECOMPUTE), sums=error[:, None])
        return
    psi = (tables.orbitals, tables.jastrow, tables.n_up)
    _each(device, state, tables, lambda a, b, work: crystal_cpu.recompute(a, b, state, *psi, error, work))


def _walk_cpu(
    device: Device, state: State, tables: Tables, tau: float, mode: int, sweeps: int, stream: Stream
) -> None:
    if not _in_crystal(tables):
        _advance(device, state, tables, Job(advance_cpu.WALK, tau, mode, sweeps), stream)
        return
    psi = (tables.orbitals, tables.jastrow, tables.n_up, tables.hamiltonian.mass)
    at = _counters(stream)
    _each(
        device,
        state,
        tables,
        lambda a, b, work: crystal_cpu.walk(a, b, state, *psi, tau, mode, sweeps, *at, work),
    )


def _energies_cpu(device: Device, state: State, tables: Tables, stream: Stream) -> None:
    if not _in_crystal(tables):
        _advance(device, state, tables, Job(advance_cpu.ENERGIES), stream)
        return
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, tables.ion_ion, tables.n_up)
    at = _counters(stream)
    _each(device, state, tables, lambda a, b, work: crystal_cpu.energies(a, b, state, *psi, *at, work))


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
    if not _in_crystal(tables):
        _advance(device, state, tables, Job(advance_cpu.GENERATIONS, tau, mode, sweeps, count), stream, sums)
        return
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, tables.ion_ion, tables.n_up)
    how, at = (tau, mode, sweeps, count), _counters(stream)
    _each(
        device,
        state,
        tables,
        lambda a, b, work: crystal_cpu.generations(a, b, state, *psi, *how, *at, sums, work),
        count * sweeps,
    )


def _diffuse_cpu(
    device: Device,
    state: State,
    tables: Tables,
    tau: float,
    tmoves: bool,
    limits: tuple[float, float, float, float],
    stream: Stream,
) -> None:
    if not _in_crystal(tables):
        job = Job(advance_cpu.DIFFUSE, tau, walk_cpu.FIXED_NODE, 1, 1, tmoves, *limits)
        _advance(device, state, tables, job, stream)
        return
    psi = (tables.orbitals, tables.jastrow, tables.hamiltonian, tables.ion_ion, tables.n_up)
    at = _counters(stream)
    _each(
        device,
        state,
        tables,
        lambda a, b, work: crystal_cpu.diffuse(a, b, state, *psi, tau, tmoves, *limits, *at, work),
    )


# --------------------------------------------------------------------------------------------- CUDA

POINTERS = (
    *("atom", "shell_atom", "shell_l", "shell_first", "table", "reach", "coefficients"),
    *("kind", "spline", "inverse_h", "rcut", "pade", "species"),
    *("charge", "potential", "local", "delta", "channels", "cutoff", "points", "weights"),
)
SIZES = (
    *("interacting", "atoms", "shells", "basis", "orbitals", "electrons", "n_up", "width", "pseudos"),
    *("most_channels", "quadrature", "intervals"),
)
#: ``Model`` of orbitals.cuh: every field takes 8 bytes, so the layouts agree.
MODEL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.float64) for name in ("omega", "mass", "ion_ion")]
    + [(name, np.int64) for name in SIZES]
)
#: ``State`` of walkers.cuh.
STATE = np.dtype(
    [(name, np.uint64) for name in (*State._fields, "scratch")]
    + [(name, np.int64) for name in ("walkers", "stride")]
)
_scratch: dict[int, Any] = {}


def lanes_of(sizes: Mapping[str, int]) -> int:
    """Return how many lanes of a warp carry a walker: 1, 4, 8, 16 or 32, as many as its shells and pairs keep busy.

    They depend on the system alone: sums are added in the order of the lanes, so that ranks with fewer walkers get the same bits.
    """
    items = (sizes["electrons"] + sizes["atoms"] + sizes["shells"]) / ITEMS
    return next((count for count in (32, 16, 8, 4) if items >= count), 1)


class Launch:
    """Launches of kernels on the same walkers, some lanes of a warp for each of them."""

    def __init__(self, state: State, tables: Tables) -> None:
        self.model = _model(tables, state)
        self.sizes = {key: int(self.model[key][0]) for key in SIZES}
        sizes, real = self.sizes, state.rows.dtype
        each = real.itemsize * (
            (5 * sizes["basis"] + 6 * sizes["orbitals"] + sizes["electrons"] * sizes["basis"]) | 1
        )
        self.lanes = lanes_of(sizes)
        while self.lanes < WARP and WARP // self.lanes * each > SHARED_BYTES // 2:
            self.lanes *= 2  # fewer walkers of a warp, since there is no memory for more
        groups = WARP // self.lanes
        self.walkers = state.R.shape[0]
        most = min(SHARED_BYTES // each, self.walkers // BLOCKS) // groups
        self.warps = next((count for count in WARPS if count <= most), 1)
        self.each = self.warps * groups
        self.shared = self.each * each
        self.macros: dict[str, str | int] = {
            "REAL": "float" if real == np.float32 else "double",
            "WARPS": self.warps,
            "LANES": self.lanes,
        }
        pairs = sizes["electrons"] * sizes["atoms"] * (PAIR + sizes["quadrature"])
        self.state = _record(state, max(pairs, 2 * sizes["orbitals"] ** 2))

    def __call__(
        self, name: str, numbers: tuple[Any, ...], stream: Stream | None = None, more: tuple[Any, ...] = ()
    ) -> None:
        kernel = kernels.function("qmc/kernels", "walk", name, self.macros, shared_bytes=self.shared)
        counters = () if stream is None else tuple(np.uint32(x) for x in _counters(stream))
        arguments = (self.model, self.state, *numbers, *counters, *more)
        kernel((-(-self.walkers // self.each),), (WARP * self.warps,), arguments, shared_mem=self.shared)


def _model(tables: Tables, state: State) -> NDArray[Any]:
    """Return the tables as `Model`, (1,)."""
    orbitals, jastrow, hamiltonian = tables.orbitals, tables.jastrow, tables.hamiltonian
    assert not isinstance(orbitals, CrystalOrbitals)  # which have no GPU kernels
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
        "intervals": orbitals.table.shape[1],
    }
    for field, value in values.items():
        record[field] = value
    return record


def _record(state: State, stride: int) -> NDArray[Any]:
    """Return the walkers as `State` of walkers.cuh, (1,), with so many numbers of scratch a walker, which launches share."""
    from qsim.core.device.device import namespace

    xp, walkers = namespace(state.R), state.R.shape[0]
    index = int(state.R.device.id)
    if index not in _scratch or _scratch[index].size < walkers * stride:
        _scratch[index] = xp.empty(max(1, walkers * stride))
    record = np.zeros(1, STATE)
    for field, array in zip(State._fields, state, strict=True):
        record[field] = array.data.ptr
    record["scratch"], record["walkers"], record["stride"] = _scratch[index].data.ptr, walkers, stride
    return record

"""Trial functions, counters of random numbers, and walkers as records, for kernels of molecules and crystals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.qmc.kernels.common.types import State
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals
from qsim.qmc.kernels.expansion.types import ExpansionTables, OneDeterminant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.device.arrays import Array
    from qsim.qmc.kernels.common.types import JastrowTables
    from qsim.qmc.kernels.molecule.types import HamiltonianTables, OrbitalTables

__all__ = [
    "MOVE_COST",
    "NO_STREAM",
    "SUMS",
    "WORTH_THREADS",
    "Stream",
    "Tables",
    "address",
    "counters",
    "device_number",
    "in_crystal",
    "record_of",
    "scratch_address",
]

SUMS = 8  # numbers that a generation adds for each walker: components, square of the total, count
MOVE_COST = 200  # ns of an electron's move on one CPU thread, roughly, without its orbitals
WORTH_THREADS = 400_000  # ns of work below which starting threads costs more than it saves
#: ``State`` of walkers.cuh.
STATE = np.dtype(
    [(name, np.uint64) for name in (*State._fields, "scratch")]
    + [(name, np.int64) for name in ("walkers", "stride")]
)
_scratch: dict[int, Any] = {}


class Tables(NamedTuple):
    """A trial function and a Hamiltonian as the kernels take them, on the device; in open boundaries or of a crystal."""

    orbitals: OrbitalTables | CrystalOrbitals
    jastrow: JastrowTables
    hamiltonian: HamiltonianTables | CrystalHamiltonian
    ion_ion: float
    n_up: int
    expansion: OneDeterminant | ExpansionTables = OneDeterminant(1)
    start: OrbitalTables | None = None

    @property
    def is_complex(self) -> bool:
        """Return whether determinants are complex."""
        return isinstance(self.orbitals, CrystalOrbitals) and bool(self.orbitals.is_complex)


class Stream(NamedTuple):
    """Counters of random numbers.

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

    key: NDArray[np.uint32]
    number: int
    step: int
    offset: int = 0


NO_STREAM = Stream(np.zeros(2, np.uint32), 0, 0)
"""For jobs that draw no random numbers."""


def counters(stream: Stream) -> tuple[int, int, int, int, int]:
    """Return the words of the counters as kernels take them."""
    return int(stream.key[0]), int(stream.key[1]), stream.number, stream.step, stream.offset


def in_crystal(tables: Tables) -> bool:
    """Tell whether walkers are in a crystal."""
    return isinstance(tables.orbitals, CrystalOrbitals)


# --------------------------------------------------------------------------------------------- CUDA


def address(array: Array) -> int:
    """Return where an array of a GPU lies; 0 if it is empty."""
    return int(array.data.ptr) if array.size else 0  # type: ignore[attr-defined]  # CuPy's memory


def device_number(state: State) -> int:
    """Return the number of the GPU that walkers are on."""
    return int(state.R.device.id)  # type: ignore[attr-defined]  # CuPy's device


def scratch_address(index: int) -> int:
    """Return where the scratch memory of a GPU lies, 0 if there is none; another place after it has grown."""
    found = _scratch.get(index)
    return 0 if found is None else int(found.data.ptr)


def record_of(state: State, stride: int) -> Array:
    """Return the walkers as `State` of walkers.cuh, (1,), with `stride` numbers of scratch per walker, which launches share."""
    from qsim.core.device.device import namespace

    xp, walkers = namespace(state.R), state.R.shape[0]
    index = device_number(state)
    if index not in _scratch or _scratch[index].size < walkers * stride:
        _scratch[index] = xp.empty(max(1, walkers * stride))
    record = np.zeros(1, STATE)
    for field, array in zip(State._fields, state, strict=True):
        record[field] = address(array)
    record["scratch"], record["walkers"], record["stride"] = _scratch[index].data.ptr, walkers, stride
    return record

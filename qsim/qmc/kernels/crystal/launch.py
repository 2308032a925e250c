"""Launches of the kernels of walkers for crystals: sizes, shared memory, and the tables as a record."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.kernels.common.tables import address, record_of
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals, scratch_of
from qsim.qmc.kernels.walkers.launches import WARP, WalkerLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.device.arrays import Array, FloatArray
    from qsim.qmc.kernels.common.tables import Tables
    from qsim.qmc.kernels.common.types import State

__all__ = ["CRYSTAL", "CrystalLaunch", "lanes_of", "lines_of", "parts_of", "split_of"]

MOST_KEPT = 100  # sets of matrices on the host
LANES = (4, 8, 16, 32)  # of a walker
CACHED = 48 << 20  # bytes of tables that stay in a cache
FEW_LINES, MOST_LINES = 2, 4  # lines of a lane that are always loaded together; under way at once
SPLITS = (1, 2, 4, 8, 16)  # of the 16 lines of coefficients around a point
BATCH = {
    4: 12,
    8: 6,
}  # points of a spherical rule that are taken together, by bytes of a real number, as in pairs.cuh
SPOT = {4: 96, 8: 160}  # bytes of such a point
TIN = 48  # and of what a mixed basis adds
SITE = {4: 12, 8: 0}  # bytes of a particle's place in shared memory
LOAD = 16  # bytes of a load
WEIGHTS = 36  # of the coefficients of a spline
DELAYED = 65  # orbitals of a spin from which on inverses are updated by windows of electrons
WINDOW_BYTES = 128  # of a lane for such a window: for u, as much for v


def parts_of(tables: Tables) -> tuple[CrystalOrbitals, CrystalHamiltonian]:
    """Return orbitals and Hamiltonian as what they are in a crystal."""
    assert isinstance(tables.orbitals, CrystalOrbitals)
    assert isinstance(tables.hamiltonian, CrystalHamiltonian)
    return tables.orbitals, tables.hamiltonian


POINTERS = (
    *("atom", "near", "table", "channel", "parts", "kappa"),
    *("kind", "spline", "inverse_h", "rcut", "pade", "species"),
    *("charge", "potential", "local", "reach", "delta", "channels", "cutoff", "points", "weights", "images"),
    *("pair", "waves", "weight", "ions", "owner", "tin_centre", "tin_near", "tin_table"),
)
MATRICES = ("reduced", "unreduce", "primitive", "metric", "inverse", "tin_reduced", "tin_unreduce")
NUMBERS = (
    *("radius2", "mass", "pair_reach", "repulsion", "attraction", "ion_ion"),
    *("tin_inner", "tin_outer"),
)
SIZES = (
    *(
        "is_wave",
        "has_phase",
        "atoms",
        "nears",
        "spins",
        "mesh0",
        "mesh1",
        "mesh2",
        "all_channels",
        "functions",
    ),
    *(
        "orbitals",
        "electrons",
        "n_up",
        "width",
        "pseudos",
        "most_channels",
        "quadrature",
        "image_count",
        "intervals",
    ),
    *("wave_count", "most_wave", "slots", "curves"),
    *("tins", "tin_nears", "tin_lmax", "tin_knots"),
)
#: ``Crystal`` of crystal.cuh: every field takes a multiple of 8 bytes, so the layouts agree.
CRYSTAL = np.dtype(
    [(name, np.uint64) for name in POINTERS]
    + [(name, np.float64, (9,)) for name in MATRICES]
    + [("scaled", np.float32, (10,))]
    + [(name, np.float64) for name in NUMBERS]
    + [(name, np.int64) for name in SIZES]
)


def lanes_of(sizes: Mapping[str, int]) -> int:
    """Return how many lanes of a warp carry a walker: 4, 8, 16 or 32, as many as its channels and half of its pairs keep busy.

    They depend on the system alone: sums are added in the order of the lanes, so that ranks with fewer walkers get the same bits.
    """
    items = max(sizes["all_channels"], (sizes["electrons"] + sizes["atoms"]) / 2)
    return next((count for count in LANES if count >= items), WARP)


def split_of(channels: int, together: int, lanes: int) -> int:
    """Return how many lanes share the lines of coefficients of the same channels: a power of two, as many as all channels leave.

    Parameters
    ----------
    together
        Channels of a load.
    """
    return max((count for count in SPLITS if channels * count <= together * lanes), default=1)


def lines_of(split: int, table_bytes: int) -> int:
    """Return of how many lines of coefficients a lane has the loads under way together.

    More hide how long device memory takes to answer; fewer leave registers to what else a move needs, and caches answer soon.
    """
    return MOST_LINES if 16 // split <= FEW_LINES or table_bytes > CACHED else 1


class CrystalLaunch(WalkerLaunch):
    """Launches for walkers of a crystal."""

    def __init__(self, state: State, tables: Tables) -> None:
        orbitals, hamiltonian = parts_of(tables)
        self.model = _model(tables, state)
        self.sizes = sizes = {key: int(self.model[key][0]) for key in SIZES}
        # Channels of a spline decide: each lane loads several of them at once.
        size, channels = orbitals.table.dtype.itemsize, sizes["all_channels"]
        near_pairs, lanes = (sizes["nears"] - 1) // 2, lanes_of(sizes)
        tins = bool(sizes["tins"])
        macros = {
            "CRYSTAL": 1,
            "REAL": "float" if size == 4 else "double",
            "COMPLEX": int(orbitals.is_complex),
            "NEAR_PAIRS": near_pairs,
            "VEC": math.gcd(channels, LOAD // size),
            "TINS": int(tins),
            **_rows(sizes["orbitals"], (1 + orbitals.is_complex) * size, lanes),
        }
        # Rows of all channels, and behind them the work space of tins or the weights of a
        # spline, as `walker_bytes` of pairs.cuh.
        rows = 5 * channels + (5 * channels + 10 * (sizes["tin_lmax"] + 1) ** 2 if tins else WEIGHTS)
        each = (
            _padded(rows * size)
            + _padded((1 + orbitals.is_complex) * sizes["orbitals"] * size)
            + BATCH[size] * (SPOT[size] + tins * TIN)
            + _padded(sizes["electrons"] * SITE[size])
        )
        # Splines of the Jastrow factor as polynomials, and pairs of lattice vectors, once for
        # a block.
        quads = sizes["curves"] * (sizes["width"] - 2) + near_pairs
        common = 4 * size * quads + sizes["atoms"] * (SITE[size] + 4)
        super().__init__(state.R.shape[0], each, lanes, macros, common)
        self.macros["SPLIT"] = split = split_of(channels, int(macros["VEC"]), self.lanes)
        self.macros["LINES"] = lines_of(split, orbitals.table.nbytes)
        # Scratch in device memory: waves and points of the nonlocal potential, or a Slater
        # matrix.
        stride = scratch_of(sizes["electrons"], hamiltonian, sizes["orbitals"], bool(orbitals.is_complex))
        self.state = record_of(state, stride)

    @property
    def has_nonlocal(self) -> bool:
        """Return whether there are T-moves to make: electrons can be near ions with nonlocal parts."""
        return self.sizes["slots"] > 0


def _padded(count: int) -> int:
    """Return a number of bytes with what is missing to a whole load."""
    return -(-count // LOAD) * LOAD


def _rows(orbitals: int, size: int, lanes: int) -> dict[str, int]:
    """Return the macros for reading and updating an inverse with elements of `size` bytes.

    Elements of a load, a divisor of the orbitals; lanes that hold a row in a load each (0: a row is too long); and for rows
    that fill a warp, the loads of a lane for a row, and the electrons of a window of delayed updates, whose rows have to fit
    into registers.
    """
    # Loads of 16 bytes where rows are aligned to them.
    part = math.gcd(orbitals, max(1, LOAD // size))
    held = 1 << (orbitals // part - 1).bit_length()
    chunks = -(-orbitals // (part * WARP))
    window = 0
    if orbitals >= DELAYED and lanes == WARP:
        window = 1 << max(1, (WINDOW_BYTES // (chunks * part * size)).bit_length() - 1)
    return {"PART": part, "ROW_LANES": held if held <= lanes else 0, "CHUNKS": chunks, "WINDOW": window}


_on_host: dict[tuple[int, ...], tuple[object, list[FloatArray]]] = {}


def _matrices(orbitals: CrystalOrbitals, hamiltonian: CrystalHamiltonian) -> list[FloatArray]:
    """Return the matrices `MATRICES`, (9,) each, on the host.

    They are kept there: a copy would make every launch wait for the GPU.
    """
    arrays = [getattr(hamiltonian if name == "inverse" else orbitals, name) for name in MATRICES]
    key = tuple(map(id, arrays))
    if key not in _on_host:
        if len(_on_host) > MOST_KEPT:
            _on_host.clear()
        # with the arrays themselves, whose addresses no others can have as long as they live
        _on_host[key] = (arrays, [np.array(array.get()).ravel() for array in arrays])
    return _on_host[key][1]


def _model(tables: Tables, state: State) -> Array:
    """Return the tables as `Crystal`, (1,)."""
    orbitals, hamiltonian = parts_of(tables)
    jastrow = tables.jastrow
    record = np.zeros(1, CRYSTAL)
    for part in (orbitals, jastrow, hamiltonian):
        fields: Mapping[str, Any] = part._asdict()
        for field, array in fields.items():
            if field in POINTERS:
                record[field] = address(array)
            elif field in NUMBERS:
                record[field] = array
    # Small matrices travel with the launch: constant memory, no load.
    for field, matrix in zip(MATRICES, _matrices(orbitals, hamiltonian), strict=True):
        record[field] = matrix
    # In single precision positions are kept as fixed point fractions of the cell in 32 bits,
    # so that differences are folded by overflow.
    record["scaled"][0, :9] = record["reduced"][0] * 2.0**-32
    spins, *mesh = orbitals.table.shape[:4]
    values = {
        "ion_ion": tables.ion_ion,
        "is_wave": orbitals.is_wave,
        "has_phase": orbitals.has_phase,
        "atoms": orbitals.atom.shape[0],
        "nears": orbitals.near.shape[0],
        "spins": spins,
        **{f"mesh{d}": n - 3 for d, n in enumerate(mesh)},
        "all_channels": orbitals.owner.shape[1],
        "functions": orbitals.channel.shape[1],
        "orbitals": state.inverse.shape[2],
        "electrons": state.R.shape[1],
        "n_up": tables.n_up,
        "width": jastrow.spline.shape[1],
        "pseudos": hamiltonian.channels.shape[0],
        "most_channels": hamiltonian.delta.shape[1],
        "quadrature": hamiltonian.points.shape[0],
        "image_count": hamiltonian.images.shape[0],
        "intervals": hamiltonian.pair.shape[0],
        "wave_count": hamiltonian.waves.shape[0],
        "most_wave": hamiltonian.most_wave,
        "slots": hamiltonian.slots,
        "curves": jastrow.kind.shape[0],
        "tins": orbitals.tin_centre.shape[0],
        "tin_nears": orbitals.tin_near.shape[0],
        "tin_lmax": orbitals.tin_lmax,
        "tin_knots": orbitals.tin_table.shape[2],
    }
    for field, value in values.items():
        record[field] = value
    return record

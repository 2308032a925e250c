"""Launches of the kernels of walkers for molecules: sizes, shared memory, and the tables as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.kernels.common.tables import address, record_of
from qsim.qmc.kernels.crystal.types import CrystalHamiltonian, CrystalOrbitals
from qsim.qmc.kernels.expansion.types import ExpansionTables
from qsim.qmc.kernels.walkers.launches import SHARED_BYTES, WARP, Argument, WalkerLaunch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.device.arrays import Array
    from qsim.qmc.kernels.common.tables import Stream, Tables
    from qsim.qmc.kernels.common.types import State

__all__ = ["MOVE_ITEMS", "MoleculeLaunch", "lanes_of"]

ITEMS = 2.0  # shells, electrons and ions for each lane of a walker
MOVE_ITEMS = 4.0  # the same in moves, whose lanes wait for each other more often
SMALL = 16  # electrons up to which kernels are compiled for the sizes of the system
FEW_ORBITALS = 5  # of a spin, up to which a lane of `all_rows` in moves.cuh has sums for all of them
PAIR = 12  # numbers of an electron within the range of an ion, as in molecules.cuh
HEAD, PLACE = 5, 6  # numbers of a function and of a shell in shared memory, as in curves.cuh and moves.cuh

POINTERS = (
    *("atom", "shell_atom", "shell_l", "shell_first", "table", "reach", "coefficients"),
    *("kind", "spline", "inverse_h", "rcut", "pade", "species"),
    *("charge", "potential", "local", "delta", "channels", "cutoff", "points", "weights"),
    *("sizes", "level", "first_term", "place", "parent", "begin", "other", "coefficient"),
    *("children", "child", "cells", "cell", "owner"),
)
SIZES = (
    *("interacting", "atoms", "shells", "basis", "orbitals", "electrons", "n_up", "width", "pseudos"),
    *("most_channels", "quadrature", "intervals", "functions"),
    *("filled", "strings", "numbers", "own"),
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


class MoleculeLaunch(WalkerLaunch):
    """Launches for walkers of a molecule."""

    def __init__(self, state: State, tables: Tables) -> None:
        self.model = _model(tables, state)
        self.sizes = sizes = {key: int(self.model[key][0]) for key in SIZES}
        real, walkers = state.rows.dtype, state.R.shape[0]
        # Atomic orbitals, rows and a column of each walker, and the list of pairs of
        # electrons and ions, as `local_of` of energies.cuh; an odd number of words, so that
        # groups of a warp meet different banks.
        reals = real.itemsize * (5 * sizes["basis"] + 6 * sizes["orbitals"])
        each = 8 * (-(-(reals + 4 * sizes["electrons"] * sizes["atoms"]) // 8) | 1)
        macros: dict[str, str | int] = {"REAL": "float" if real == np.float32 else "double"}
        # Small systems are compiled for their sizes: loops unroll, and a walker's inverses
        # stay in shared memory.
        if sizes["electrons"] <= SMALL:
            names = ("electrons", "atoms", "orbitals", "basis", "shells", "quadrature", "filled")
            macros |= {name.upper(): sizes[name] for name in names} | {"ELECTRONS_UP": sizes["n_up"]}
        if sizes["strings"]:
            macros["EXPANSION"] = 1
        curves = _curve_bytes(sizes)
        super().__init__(walkers, each, lanes_of(sizes), macros, curves)
        # Moves wait for each other more often: fewer lanes for a walker, unless shared memory
        # is too small for these walkers.
        lanes = lanes_of(sizes, MOVE_ITEMS)
        while lanes < WARP and WARP // lanes * _move_bytes(sizes, lanes, real.itemsize) > SHARED_BYTES // 2:
            lanes *= 2
        own, common = _move_bytes(sizes, lanes, real.itemsize), curves + 8 * PLACE * sizes["shells"]
        self.moves = WalkerLaunch(walkers, own, lanes, macros | {"MOVES": 1}, common)
        # Scratch of a walker: data of all pairs within range, or two Slater matrices while
        # they are inverted.
        self.state = record_of(state, scratch_of(sizes))
        self.moves.model, self.moves.state = self.model, self.state

    @staticmethod
    def model_of(tables: Tables, state: State) -> Array:
        """Return the tables as `MODEL`, (1,)."""
        return _model(tables, state)

    def __call__(
        self,
        name: str,
        numbers: tuple[Argument, ...],
        stream: Stream | None = None,
        more: tuple[Argument, ...] = (),
    ) -> None:
        """Launch a kernel; moves have a module, lanes and shared memory of their own."""
        if name == "walk":
            self.moves(name, numbers, stream, more)
        else:
            super().__call__(name, numbers, stream, more)


def _before_expansion(sizes: Mapping[str, int]) -> int:
    """Return the numbers of scratch of a walker that pairs of electrons and ions or an inversion need."""
    pairs = sizes["electrons"] * sizes["atoms"] * (PAIR + sizes["quadrature"])
    return max(pairs, 2 * sizes["filled"] ** 2)


def scratch_of(sizes: Mapping[str, int]) -> int:
    """Return the numbers of scratch of a walker, by sizes as in `SIZES`; those of `Slater` of slater.cuh come last."""
    F, M, S = sizes["filled"], sizes["orbitals"], sizes["strings"]
    many = 2 * S + F * M + sizes["electrons"] * M + 2 * F * F if S else 0
    return _before_expansion(sizes) + many


def _move_bytes(sizes: Mapping[str, int], lanes: int, real: int) -> int:
    """Return the bytes of shared memory of a walker, as `own_of` of moves.cuh; ``real``: bytes of a number of an orbital."""
    N, M, B = sizes["electrons"], sizes["orbitals"], sizes["basis"]
    # Partial sums of the lanes take the place of the atomic orbitals, which are done then.
    sums = lanes * (5 * M + 1) if lanes > 1 and N <= SMALL and M <= FEW_ORBITALS else 0
    kept = 2 * sizes["filled"] ** 2 if N <= SMALL else 0
    words = 7 * N + -(-((max(5 * B, sums) + 6 * M + kept) * real) // 8)
    if lanes < 16:
        words += (3 * lanes - words % (2 * lanes)) % (2 * lanes)
    return 8 * words


def _curve_bytes(sizes: Mapping[str, int]) -> int:
    """Return the bytes of `curve_numbers` of curves.cuh."""
    return -(-8 * sizes["functions"] * (HEAD + 4 * (sizes["width"] - 3)) // 16) * 16


def _model(tables: Tables, state: State) -> Array:
    """Return the tables as `Model`, (1,)."""
    orbitals, jastrow, hamiltonian = tables.orbitals, tables.jastrow, tables.hamiltonian
    assert not isinstance(orbitals, CrystalOrbitals)  # which have kernels of their own
    assert not isinstance(hamiltonian, CrystalHamiltonian)
    record = np.zeros(1, MODEL)
    for part in (orbitals, jastrow, hamiltonian, tables.expansion):
        fields: Mapping[str, Any] = part._asdict()
        for field, array in fields.items():
            if field in POINTERS:
                record[field] = address(array)
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
        "filled": state.inverse.shape[2],
    }
    if isinstance(tables.expansion, ExpansionTables):
        values |= {"strings": len(tables.expansion.begin) - 1, "numbers": tables.expansion.numbers}
    for field, value in values.items():
        record[field] = value
    record["own"] = _before_expansion({key: int(record[key][0]) for key in SIZES})
    return record

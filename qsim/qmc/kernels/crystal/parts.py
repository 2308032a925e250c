"""Parts of a walker's move in a crystal alone: public wrappers of ``parts.cu`` and their CPU twins.

No run uses them: bench/qmc/crystal_parts.py holds their speed, with functions and launch of a run, against the ceilings of a
device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import kernels
from qsim.core.device.pool import each_part
from qsim.qmc.kernels.crystal import parts_cpu as crystal_parts_cpu
from qsim.qmc.kernels.crystal.launch import CrystalLaunch, parts_of
from qsim.qmc.kernels.crystal.types import basis_of
from qsim.qmc.kernels.walkers.launches import WARP, as_argument
from qsim.qmc.kernels.walkers.system import space_of_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.kernels.common.tables import Tables
    from qsim.qmc.kernels.common.types import State

__all__ = ["orbital_rows", "replace_rows"]

GROUPS = 1 << 15  # that share the points of a launch on a GPU, more than it carries at once


def orbital_rows(
    device: Device,
    state: State,
    tables: Tables,
    spin: int,
    points: NDArray[np.float64],
    out: NDArray[np.floating],
) -> None:
    """Set ``out`` (k, 5, C) to the orbitals of a spin at points (k, 3) in bohr: values, gradients, Laplacians by channel.

    Parameters
    ----------
    state
        Walkers: precision and launch are those for them.
    """
    if device.is_cuda:
        prepared_rows(state, tables, spin, points, out)()
    else:
        _orbital_rows_cpu(device, state, tables, spin, points, out)


def replace_rows(device: Device, state: State, tables: Tables, spin: int, fresh: NDArray[np.inexact]) -> None:
    """Bring the inverses of a spin up to date with new rows (W, k, M) of its electrons 0 ... k - 1, one after the other."""
    if device.is_cuda:
        prepared_update(state, tables, spin, fresh)()
    else:
        _replace_rows_cpu(device, state, tables, spin, fresh)


def prepared_rows(
    state: State, tables: Tables, spin: int, points: NDArray[np.float64], out: NDArray[np.floating]
) -> Callable[[], None]:
    """Return the launch of `orbital_rows` on a GPU, made ready: a call takes as long as the kernel."""
    launch = CrystalLaunch(state, tables)
    numbers = (as_argument(launch.model), np.int32(spin), points, np.int64(len(points)), out)
    return _prepared(launch, "orbital_rows", min(len(points), GROUPS), numbers)


def prepared_update(
    state: State, tables: Tables, spin: int, fresh: NDArray[np.inexact]
) -> Callable[[], None]:
    """Return the launch of `replace_rows` on a GPU, made ready."""
    launch = CrystalLaunch(state, tables)
    numbers = (
        as_argument(launch.model),
        as_argument(launch.state),
        np.int32(spin),
        np.int32(fresh.shape[1]),
        fresh,
    )
    return _prepared(launch, "replace_rows", launch.walkers, numbers)


def window_of(state: State, tables: Tables) -> int:
    """Return how many electrons move on a GPU before their inverse is brought up to date; 1: after each."""
    return max(1, int(CrystalLaunch(state, tables).macros["WINDOW"]))


def _prepared(
    launch: CrystalLaunch, name: str, groups: int, arguments: tuple[Any, ...]
) -> Callable[[], None]:
    """Return the launch of a kernel for as many groups of lanes."""
    kernel = kernels.function("qmc/kernels/crystal", "parts", name, launch.macros, shared_bytes=launch.shared)
    blocks, threads = (-(-groups // launch.each),), (WARP * launch.warps,)
    return lambda: kernel(blocks, threads, arguments, shared_mem=launch.shared)


def _orbital_rows_cpu(
    device: Device,
    state: State,
    tables: Tables,
    spin: int,
    points: NDArray[np.float64],
    out: NDArray[np.floating],
) -> None:
    orbitals, _ = parts_of(tables)

    def part(a: int, b: int) -> None:
        own = space_of_one(state, tables).own
        crystal_parts_cpu.orbital_rows(a, b, basis_of(orbitals), orbitals, spin, points, out, own)

    each_part(part, len(points), len(points), device.threads, 2)


def _replace_rows_cpu(
    device: Device, state: State, tables: Tables, spin: int, fresh: NDArray[np.inexact]
) -> None:
    n = tables.n_up if spin == 0 else state.R.shape[1] - tables.n_up

    def part(a: int, b: int) -> None:
        column = space_of_one(state, tables).column
        crystal_parts_cpu.replace_rows(a, b, state.inverse[:, spin], fresh, n, column)

    each_part(part, len(fresh), len(fresh), device.threads, 2)

"""Splines and updates of inverses of a crystal on a GPU alone, beside the ceiling of its memory.

In a run tables of a primitive cell and the inverses of the walkers under way stay in caches; here they do not: tables of
random coefficients as large as those of untiled cells, points all over them, and far more walkers than caches hold.  Functions
and launch are those of a run (:mod:`qsim.qmc.kernels.crystal.parts`), and what they make is held against NumPy first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import BSpline

from bench.harness import Bench, Cost, case, replayed
from bench.qmc import problem
from bench.qmc.crystals import GPU_COUNTS, MOVES, diamond64, of_deck
from qsim.qmc.kernels.crystal import parts as crystal_parts
from qsim.qmc.kernels.crystal.types import CrystalOrbitals

if TYPE_CHECKING:
    from qsim.core.device.device import Array, Device

#: Points of an axis: 0.18 and 1.3 GB of 128 functions.
MESHES = {"beyond the L2 cache": 67, "far beyond it": 134}
POINTS = 65536
CHECKED = 8  # points, and walkers, that NumPy makes, too
SPLINE_GOAL, UPDATE_GOAL = 0.90, 0.85  # of the ceiling
UPDATES = {"diamond 16": 16384, "diamond 64": 8192}  # walkers
TOLERANCE = 1e-5  # of values, in single precision: weights add up to one, coefficients are of order one
ROUNDING = 64 * 6e-8  # of a product of 128 terms and some updates, in single precision
MIXED = 0.1  # of the next row that a row gets: determinants keep their values

CARDINAL = BSpline.basis_element(np.arange(5) - 2.0, extrapolate=False)  # cubic, around zero


@case(
    "qmc-crystal-splines",
    "B-splines of 128 orbitals at random points beside the ceiling of memory",
    ("cuda",),
)
def splines(bench: Bench) -> None:
    """A row for each table."""
    device, xp = bench.device, bench.device.xp
    walkers = problem.ensemble(
        device, diamond64(), 64 if bench.quick else GPU_COUNTS["diamond 64"][0], MOVES, single=True
    )
    orbitals = walkers.tables.orbitals
    assert isinstance(orbitals, CrystalOrbitals)
    channels = int(orbitals.table.shape[-1])
    points = np.random.default_rng(1).random((2048 if bench.quick else POINTS, 3))  # of the primitive cell
    places = device.asarray(points @ np.linalg.inv(device.to_host(orbitals.primitive).reshape(3, 3)))
    out = xp.empty((len(points), 5, channels), np.float32)
    for label, mesh in {"small": 16}.items() if bench.quick else MESHES.items():
        shape = (1, mesh + 3, mesh + 3, mesh + 3, channels)
        table = xp.random.default_rng(2).standard_normal(shape, dtype=np.float32)
        tables = walkers.tables._replace(orbitals=orbitals._replace(table=table))
        work = crystal_parts.prepared_rows(walkers.state, tables, 0, places, out)
        work()
        _check_values(points[:CHECKED], device.to_host(out[:CHECKED, 0]), table, device)
        text = f"{channels} functions, {table.nbytes / 1e9:.2f} GB, {label}: value, gradient, Laplacian"
        cost = Cost(0.0, 4.0 * channels * (64 + 5) * len(points))
        bench.row(text, replayed(device, work), cost, points=len(points))
        fraction = bench.rows[-1]["fraction"]
        bench.goal(f"splines, {label}: fraction of the ceiling", fraction, SPLINE_GOAL, at_least=True)


def _check_values(points: Array, found: Array, table: Any, device: Device) -> None:
    """Hold values (k, C) against sums over SciPy's basis functions."""
    places = points * (table.shape[1] - 3)
    first = np.floor(places).astype(int)
    weights = [CARDINAL((places - first)[:, d, None] - np.arange(-1, 3)) for d in range(3)]
    for p, (i, j, k) in enumerate(first):
        block = device.to_host(table[0, i : i + 4, j : j + 4, k : k + 4]).astype(float)
        truth = np.einsum("a,b,c,abcn->n", *(w[p] for w in weights), block)
        np.testing.assert_allclose(found[p], truth, atol=TOLERANCE)


@case("qmc-crystal-updates", "updates of inverses of diamond beside the ceiling of memory", ("cuda",))
def updates(bench: Bench) -> None:
    """A row for each size: row by row up to 64 orbitals of a spin, by windows of electrons beyond.

    The floor is that of an update by Sherman and Morrison for each new row; with windows fewer bytes are moved.
    """
    device = bench.device
    for name, most in UPDATES.items():
        made, count = diamond64() if name == "diamond 64" else of_deck(name), 256 if bench.quick else most
        walkers = problem.ensemble(device, made, count, MOVES, single=True)
        walkers.recompute()
        n = made.n_up
        window = crystal_parts.window_of(walkers.state, walkers.tables)
        rows = walkers.state.rows.reshape(count, made.n_electrons, 5, -1)
        # another row added to one leaves the determinant as it is: it can be done again and again
        fresh = device.xp.ascontiguousarray(rows[:, :window, 0] + MIXED * rows[:, n - window : n, 0])
        work = crystal_parts.prepared_update(walkers.state, walkers.tables, 0, fresh)
        work()
        matrices = device.to_host(rows[:CHECKED, :n, 0]).astype(float)
        matrices[:, :window] = device.to_host(fresh[:CHECKED])
        _check_inverses(matrices[..., :n], device.to_host(walkers.state.inverse[:CHECKED, 0, :n, :n]))
        row_by_row = 4.0 * count * window * (2 * n * n + n)
        text = f"{n} orbitals, {count} walkers: new rows of each inverse, {window} at once"
        bench.row(text, replayed(device, work), Cost(0.0, row_by_row), walkers=count, rows_of_a_window=window)
        fraction = bench.rows[-1]["fraction"]
        bench.goal(f"updates, {n} orbitals: fraction of the ceiling", fraction, UPDATE_GOAL, at_least=True)


def _check_inverses(matrices: Array, columns: Array) -> None:
    """Hold the columns of inverses (k, n, n) against the matrices, as closely as their rounding lets them agree."""
    products = np.einsum("wio,wjo->wij", matrices, columns.astype(float))
    size = np.einsum("wio,wjo->wij", abs(matrices), abs(columns).astype(float)).max()
    unit = np.broadcast_to(np.eye(products.shape[1]), products.shape)
    np.testing.assert_allclose(products, unit, atol=ROUNDING * size)

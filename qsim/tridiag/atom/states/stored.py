r"""States from formulas, and from HDF5 files: the end of an earlier run, or arrays of the same layout from another program.

==============  =====================  =============================================================================
``r``           (n,) float             radii, rising, bohr
``channels``    (k, 2) int             l and m of each row of the state
``u_channels``  (k, n) complex         ``u_lm(r)``, ``psi = sum u_lm / r Y_lm``; also as ``u_final``, or real (k, n, 2)
``axes``        (3, 3) float           rows: the axes that l and m refer to, in those of the deck; by default these themselves
``kick``        (3,) float             A along these axes, if the state is in velocity gauge; by default none
==============  =====================  =============================================================================

They lie in the group ``results`` or at the top.  A state is taken in length gauge, and on another grid by a spline of fifth order
through its points and the nucleus, where u vanishes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.results.arrays import require_finite
from qsim.core.results.hdf5 import open_datasets
from qsim.tridiag.atom.states.lanes import Lanes, PlanarLanes
from qsim.tridiag.atom.states.levels import Radial
from qsim.tridiag.atom.states.observables import LevelState, length_gauge
from qsim.tridiag.deck.initial import StoredState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.tridiag.atom.evolution.propagator import AtomLattice
    from qsim.tridiag.atom.states.grid import RadialGrid
    from qsim.tridiag.deck.initial import ChannelFormula, FormulaState

__all__ = ["LOST", "Stored", "given", "kept", "read", "stored_states"]

# share of the norm outside of a grid, or above lmax, that is refused
LOST = 1e-6
# share of the norm in the highest l that is not followed by lmax: auto
TINY = 1e-12
# share of the norm of a channel that is left out
EMPTY = 1e-26
# norm: more is a state that nobody has normalised
LARGEST = 1.001
# bohr, and number: points on which the reach of formulas is looked for
STEP, POINTS = 0.05, 20_000
# l, and levels of each, among which that is looked for that a state from a file holds most of
DEEPEST = 4
EXPECTED = "expected r, channels and u_channels (or u_final), as qsim tridiag writes them"


@dataclass(frozen=True)
class Stored:
    """A state in length gauge on its own points.

    Attributes
    ----------
    path : Path
    r : (n,) float64
        Rising, bohr.
    channels : (k, 2) int64
        L and m.
    u : (k, n) complex128
        ``u_lm(r)``, bohr^(-1/2).
    axes : (3, 3) float64
        Rows: axes of l and m, in the axes of the deck.
    """

    path: Path
    r: NDArray[np.float64]
    channels: NDArray[np.int64]
    u: NDArray[np.complex128]
    axes: NDArray[np.float64]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Return ``|u|^2 dr`` of every channel and point (k, n), by the trapezoid rule; u vanishes at the nucleus."""
        # the last point gets half a cell, the first one the cell that reaches to the nucleus
        r = np.concatenate([[0.0], self.r, self.r[-1:]])
        return np.asarray(np.abs(self.u) ** 2 * 0.5 * (r[2:] - r[:-2]))

    @property
    def needed(self) -> int:
        """Largest l that holds more than a trace of the norm."""
        return self._largest(TINY)

    def _largest(self, share: float) -> int:
        """Return the smallest l above which less than a share of the norm lies."""
        weights, ls = self.weights.sum(axis=1), self.channels[:, 0]
        # norm above each l: falls from all to nothing
        above = [float(weights[ls > l].sum()) for l in range(int(ls.max()) + 1)]
        return int(np.flatnonzero(np.array(above) <= share * weights.sum())[0])

    @property
    def extent(self) -> float:
        """Radius that holds all but a trace of the norm, bohr."""
        outside = np.cumsum(self.weights.sum(axis=0)[::-1])[::-1]
        return float(self.r[np.flatnonzero(outside >= TINY * outside[0])[-1]])

    def require_momenta(self, lmax: int) -> None:
        """Refuse an lmax that cuts the state.

        Raises
        ------
        InvalidInput
            If more than 1e-6 of the norm lies above `lmax`.
        """
        weights = self.weights.sum(axis=1)
        share = float(weights[self.channels[:, 0] > lmax].sum() / weights.sum())
        if share > LOST:
            raise InvalidInput(
                "grid.l_max",
                f"the state in {self.path.name} has {share:.2g} of its norm above l = {lmax}; it needs lmax of at least "
                f"{self._largest(LOST)} ({self.needed} for all of it), or auto",
            )

    def on(self, grid: RadialGrid) -> NDArray[np.complex128]:
        """Return ``phi_lm`` on the points of a run, (k, points).

        Raises
        ------
        InvalidInput
            If more than 1e-6 of the norm lies outside of the box.
        """
        root = np.sqrt(grid.slope)
        # the same grid: no interpolation, so that a continued run has the same bits
        if self.r.shape == grid.r.shape and np.allclose(self.r, grid.r, rtol=1e-13, atol=0.0):
            return np.asarray(self.u * root)
        weights = self.weights.sum(axis=0)
        # what lies beyond the wall would be cut off without a word
        share = float(weights[self.r >= grid.wall].sum() / weights.sum())
        if share > LOST:
            outside = np.cumsum(weights[::-1])[::-1]
            need = float(self.r[np.flatnonzero(outside > LOST * outside[0])[-1]])
            raise InvalidInput(
                "grid.rmax",
                f"the state in {self.path.name} has {share:.2g} of its norm outside of the box of {grid.wall:.4g} bohr; it needs "
                f"rmax of at least {need:.4g} ({self.extent:.4g} for all of it)",
            )
        return self.curves(grid) * root

    def curves(self, grid: RadialGrid) -> NDArray[np.complex128]:
        """Return ``u_lm`` on other points, (k, points): by splines, zero beyond the last radius."""
        from scipy.interpolate import make_interp_spline

        inside = grid.r <= self.r[-1]
        # u vanishes at the nucleus, which the points do not hold
        points = np.concatenate([[0.0], self.r])
        values = np.concatenate([np.zeros((self.channels.shape[0], 1)), self.u], axis=1)
        # real and imaginary parts side by side: one spline for all channels
        both = np.concatenate([values.real, values.imag]).T
        values_there = make_interp_spline(points, both, k=5)(grid.r[inside]).T
        phi = np.zeros((self.channels.shape[0], grid.points), dtype=complex)
        half = phi.shape[0]
        phi[:, inside] = values_there[:half] + 1j * values_there[half:]
        return phi

    def amplitudes(self, grid: RadialGrid, *, normalise: bool) -> NDArray[np.complex128]:
        """Return `on` a grid, scaled to norm 1 on request.

        Raises
        ------
        InvalidInput
            If the state has no norm, or one above 1 that is not to be scaled.
        """
        phi = self.on(grid)
        norm = float(np.sum(np.abs(phi) ** 2))
        if norm < 1e-30:
            raise InvalidInput("initial.file", f"the state in {self.path.name} vanishes within the box")
        if normalise:
            return np.asarray(phi / np.sqrt(norm))
        if norm > LARGEST:
            raise InvalidInput(
                "initial.normalise",
                f"the state in {self.path.name} has the norm {norm:.6g}, at most 1 is possible; take normalise: true",
            )
        return phi


@dataclass(frozen=True)
class Formulas(Stored):
    """A state by formulas of its channels; its own points tell how far it reaches.

    Attributes
    ----------
    parts : tuple of ChannelFormula
    """

    parts: tuple[ChannelFormula, ...] = ()

    def curves(self, grid: RadialGrid) -> NDArray[np.complex128]:
        """Return ``u_lm`` on other points, (k, points)."""
        return _values(self.parts, grid.r)


def _values(parts: tuple[ChannelFormula, ...], r: NDArray[np.float64]) -> NDArray[np.complex128]:
    """Return the formulas at some radii, (channels, n)."""

    def one(text: str, key: str) -> NDArray[np.float64]:
        return formula(text, key, r=r)

    keys = [f"initial.channels.{index}" for index in range(len(parts))]
    rows = zip(parts, keys, strict=True)
    return np.array(
        [one(part.real, f"{key}.real") + 1j * one(part.imag, f"{key}.imag") for part, key in rows]
    )


def given(block: StoredState | FormulaState) -> Stored:
    """Return the state of a block of the deck.

    Raises
    ------
    FileError
        If a file is missing, or holds no state.
    InvalidInput
        If a formula is not finite, or vanishes everywhere.
    """
    if isinstance(block, StoredState):
        return read(block.file)
    r, parts = np.asarray(STEP * np.arange(1, POINTS + 1), float), tuple(block.channels)
    u = _values(parts, r)
    if not 0.0 < float(np.sum(np.abs(u) ** 2)) < 1e300:
        raise InvalidInput("initial", "the formulas vanish, or are too large to be squared")
    channels = np.array([(one.l, one.m) for one in parts], dtype=np.int64)
    return Formulas(Path("the deck"), r, channels, u, np.eye(3), parts)


def read(path: Path) -> Stored:
    """Return the state in a file; one that is read again is not read twice.

    Raises
    ------
    FileError
        If it is missing, or holds no state.
    """
    path = Path(path)
    try:
        about = path.stat()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}") from error
    # A copy may bring the times of its source along, but not its place and the time at which that was taken.
    return _read(path, (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))


@lru_cache(maxsize=4)
def _read(path: Path, stamp: tuple[int, ...]) -> Stored:
    """Return the state in a file; `stamp`, its place and times, keeps the cache from returning an older one."""
    file, datasets = open_datasets(path)
    with file:

        def array(*names: str) -> NDArray[Any] | None:
            for name in names:
                item = datasets.get(f"results/{name}", datasets.get(name))
                if item is not None:
                    values = item[()]
                    if values.dtype.kind not in "iufc":
                        raise FileError(f"{path}: {name} holds {values.dtype}, not numbers")
                    require_finite(path, name, values)
                    return np.asarray(values)
            return None

        r, channels, u = array("r"), array("channels"), array("u_channels", "u_final")
        axes, kick = array("axes"), array("kick")
    if r is None or channels is None or u is None:
        raise FileError(f"{path}: no state of task: atom; {EXPECTED}")
    made = _checked(path, np.asarray(r, float), channels, u, np.eye(3) if axes is None else axes)
    return made if kick is None or not np.any(kick) else _in_length_gauge(made, np.asarray(kick, float))


def _checked(
    path: Path, r: NDArray[np.float64], channels: NDArray[Any], u: NDArray[Any], axes: NDArray[Any]
) -> Stored:
    """Return the arrays of a file as a state, or say what is wrong with them."""
    if u.ndim == 3 and u.shape[2] == 2 and not np.iscomplexobj(u):
        u = u[..., 0] + 1j * u[..., 1]
    if r.ndim != 1 or r.size < 8 or r[0] <= 0.0 or np.any(np.diff(r) <= 0.0):
        raise FileError(f"{path}: r must hold at least 8 radii that rise from above 0")
    if channels.ndim != 2 or channels.shape[1] != 2 or u.shape != (channels.shape[0], r.size):
        raise FileError(
            f"{path}: u has shape {u.shape}, channels {channels.shape}, r {r.shape}; expected (k, n), (k, 2) and (n,)"
        )
    pairs = [(int(l), int(m)) for l, m in channels]
    if len(set(pairs)) < len(pairs) or any(l < 0 or abs(m) > l for l, m in pairs):
        raise FileError(f"{path}: channels must be different pairs of l and m, |m| <= l")
    if axes.shape != (3, 3) or not np.allclose(axes @ axes.T, np.eye(3), atol=1e-8):
        raise FileError(f"{path}: axes must be three orthogonal unit vectors")
    # squares of garbage may overflow: that is the finding, not an accident
    with np.errstate(over="ignore"):
        size = float(np.sum(np.abs(u) ** 2))
    if not 0.0 < size < 1e300:
        raise FileError(f"{path}: the state vanishes, or is too large to be squared")
    return Stored(path, r, np.array(pairs, dtype=np.int64), np.asarray(u, complex), np.asarray(axes, float))


def _in_length_gauge(state: Stored, kick: NDArray[np.float64]) -> Stored:
    """Return ``exp(i A.r)`` times a state in velocity gauge.

    Raises
    ------
    FileError
        If the channels are not all those up to an l that a field along z, or in the xy plane, couples.
    """
    path, lmax = state.path, int(state.channels[:, 0].max())
    if kick.shape != (3,):
        raise FileError(f"{path}: kick has shape {kick.shape}, expected (3,)")
    # A in the plane couples all m of a parity; A along z one m
    planar = bool(np.any(kick[:2]))
    lanes: Lanes | PlanarLanes = Lanes(int(state.channels[0, 1]), lmax)
    if planar:
        lanes = PlanarLanes(tuple(sorted({int(l + m) % 2 for l, m in state.channels})), lmax)
    expected = np.column_stack([lanes.ls, lanes.ms])
    if (planar and kick[2] != 0.0) or not np.array_equal(expected, state.channels):
        raise FileError(
            f"{path}: a state in velocity gauge needs A along z and all l of one m, or A in the xy plane and all l and m of "
            "one or both parities of l + m, in rising order"
        )
    # exp(i A.r) acts on the channels of each radius, whatever the grid
    u = length_gauge(state.u, state.r, lanes, kick[:2] if planar else kick[2:])
    return replace(state, u=np.asarray(u, complex))


def kept(state: Stored) -> NDArray[np.bool_]:
    """Return which channels hold more than rounding, (k,)."""
    weights = state.weights.sum(axis=1)
    return np.asarray(weights > EMPTY * weights.sum())


def stored_states(lattice: AtomLattice, block: StoredState | FormulaState) -> list[LevelState]:
    """Return the channels of a state from a file, as levels with the energy of the level that the state holds most of.

    Raises
    ------
    InvalidInput
        If the box does not hold the state.
    FileError
        If the file cannot be used.
    """
    state = given(block)
    phi = state.amplitudes(lattice.grid, normalise=block.normalise)
    # the level that the state holds most of gives the energy below the threshold
    best, energy = -1.0, 0.0
    for l in range(min(int(state.channels[:, 0].max()), DEEPEST) + 1):
        radial, here = Radial(lattice, l), phi[state.channels[:, 0] == l]
        for k in range(min(radial.below(0.0), DEEPEST)):
            level = radial.energy(k)
            share = float(np.sum(np.abs(here @ radial.state(level)) ** 2))
            if share > best:
                best, energy = share, level
    return [LevelState(0, int(l), energy, one) for (l, _), one in zip(state.channels, phi, strict=True)]

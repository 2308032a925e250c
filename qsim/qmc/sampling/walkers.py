"""An ensemble of walkers: positions, Slater matrices and local energies on a device.

The ranks of a run share the ensemble: each moves its own walkers, with the random numbers that they have on one rank.  Energies,
weights and ages of all walkers are brought together, so that every rank takes the same sums and makes the same choices, to the
bit those of one rank.  Positions and matrices of foreign walkers are out of date on a rank, until walkers that branching puts in
its places are fetched.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.device import rng
from qsim.core.device.parallel import share, world
from qsim.core.errors import NumericsError
from qsim.qmc.kernels import walk
from qsim.qmc.kernels.types import State
from qsim.qmc.wavefunction.crystal import CrystalWavefunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["Walkers"]

PLACING = 0xFFFF  # stream of the random numbers that place walkers at the start
LIGHT = ("energy", "weight", "moves", "age")  # of all walkers on every rank
HEAVY = ("R", "rows", "inverse", "log_psi", "sign")  # of its own walkers
SPREAD = 1.0  # bohr, of electrons around their atom at the start
SHRINKS = 40  # times that a walker is drawn to the atoms, half the way each, until no orbital vanishes for it


class Walkers:
    """Walkers and the trial function that they follow.

    Parameters
    ----------
    device
        Where they live.
    wavefunction
        Trial function and Hamiltonian.
    count
        Number of walkers.
    key : (2,) uint32
        Of the random numbers.
    single
        Keep orbitals and inverses in single precision; positions, sums and full inversions are always double.
    offset
        Number of the first walker in an ensemble that several processes share.

    Attributes
    ----------
    state : State
    tables : Tables
    generation : int
        Generations done, which numbers the random draws.
    warm : float
        Time (1/hartree) that they have followed the square of a trial function since they were placed, copied or in diffusion.
    settled : float
        Time (1/hartree) that they, or those that they are copies of, have moved since they were placed.
    related : bool
        True if some of them are copies of others, so that they are not independent of each other.
    """

    def __init__(
        self,
        device: Device,
        wavefunction: Wavefunction,
        count: int,
        key: NDArray[np.uint32],
        *,
        single: bool = False,
        offset: int = 0,
    ) -> None:
        self.device, self.key, self.offset, self.single = device, key, offset, single
        self.comm = world()
        self.generation = 0
        self.warm, self.settled, self.related = 0.0, 0.0, False
        self.real = np.dtype(np.float32 if single else np.float64)
        self.set_wavefunction(wavefunction)
        self.state = self._empty(count)

    @property
    def count(self) -> int:
        """Number of walkers."""
        return int(self.state.R.shape[0])

    @property
    def electrons(self) -> int:
        """Number of electrons of a walker."""
        return int(self.wavefunction.n_up + self.wavefunction.n_dn)

    def cell_info(self) -> dict[str, float]:
        """Return the density of the electrons (bohr^-3) in a periodic cell; nothing in open boundaries."""
        if not isinstance(self.wavefunction, CrystalWavefunction):
            return {}
        return {"density": self.electrons / self.wavefunction.cell.volume}

    def set_wavefunction(self, wavefunction: Wavefunction) -> None:
        """Follow another trial function of the same electrons; :meth:`recompute` makes the state agree."""
        self.wavefunction = wavefunction
        on = self._on_device
        self.tables = walk.Tables(
            on(wavefunction.orbital_tables(self.real)),
            on(wavefunction.jastrow_tables()),
            on(wavefunction.hamiltonian_tables()),
            float(wavefunction.ion_ion),
            int(wavefunction.n_up),
        )

    def _on_device(self, tables: Any) -> Any:
        return type(tables)(*(self.device.asarray(x) if isinstance(x, np.ndarray) else x for x in tables))

    def _empty(self, count: int) -> State:
        xp, N = self.device.xp, self.electrons
        M = max(self.wavefunction.n_up, self.wavefunction.n_dn, 1)
        kind = np.result_type(self.real, np.complex64) if self.tables.is_complex else self.real
        return State(
            R=xp.zeros((count, N, 3)),
            rows=xp.zeros((count, N, 5, M), kind),
            inverse=xp.zeros((count, 2, M, M), kind),
            log_psi=xp.zeros(count),
            sign=xp.ones(count),
            energy=xp.zeros((count, 6)),
            weight=xp.ones(count),
            moves=xp.zeros((count, 4)),
            age=xp.zeros(count, np.int64),
        )

    def stream(self, section: int) -> walk.Stream:
        """Return where the random numbers of the next generation are counted."""
        return walk.Stream(self.key, section, self.generation, self.offset + self.own.start)

    # ------------------------------------------------------------------------------------ ranks

    @property
    def own(self) -> slice:
        """Walkers that this rank moves."""
        return share(self.comm, self.count)

    @property
    def mine(self) -> State:
        """State of these walkers; kernels change it in place."""
        if self.comm.size == 1:
            return self.state  # views of nine arrays cost a generation of helium a tenth of its time
        own = self.own
        return State(*(array[own] for array in self.state))

    def join(self, array: NDArray[Any], axis: int = 0) -> NDArray[Any]:
        """Return an array of all walkers, on the host, from those of each rank; a collective call."""
        if self.comm.size == 1:
            return array
        return np.concatenate(self.comm.allgather(array), axis=axis)

    def publish(self, *names: str) -> None:
        """Make some arrays of the state agree on all ranks; a collective call."""
        if self.comm.size == 1:
            return
        own = [self.device.to_host(getattr(self.mine, name)) for name in names]
        parts = self.comm.allgather(own)
        for k, name in enumerate(names):
            getattr(self.state, name)[...] = self.device.asarray(np.concatenate([part[k] for part in parts]))

    def publish_energies(self) -> None:
        """Make energies, weights, counts of moves and ages agree on all ranks."""
        self.publish(*LIGHT)

    def _fetch(self, indices: NDArray[np.int64]) -> None:
        """Bring the walkers that other ranks need to them: of the new ensemble `indices`, each rank has its own places."""
        comm, own = self.comm, self.own
        if comm.size == 1:
            return
        sent = []
        for rank in range(comm.size):
            first, last = (len(indices) * r // comm.size for r in (rank, rank + 1))
            wanted = np.unique(indices[first:last])
            if rank != comm.rank:
                sent.append(wanted[(wanted >= own.start) & (wanted < own.stop)])
        ids = np.unique(np.concatenate(sent))
        at = self.device.asarray(ids)
        arrays = [self.device.to_host(getattr(self.state, name)[at]) for name in HEAVY]
        for rank, (others, received) in enumerate(comm.allgather((ids, arrays))):
            if rank != comm.rank and len(others):
                place = self.device.asarray(others)
                for name, array in zip(HEAVY, received, strict=True):
                    getattr(self.state, name)[place] = self.device.asarray(array)

    # ------------------------------------------------------------------------------------ set-up

    def place(self) -> None:
        """Put the electrons around the atoms, as many as the charge of each, by normal deviates."""
        N, count = self.electrons, self.count
        centre = self.wavefunction.start_positions()
        draws = np.stack(  # a walker's start does not depend on how many there are
            [rng.normal(self.key, PLACING, 0, count, draw=k, first=self.offset) for k in range(3 * N)], 1
        )
        self.state.R[...] = self.device.asarray(centre[None] + SPREAD * draws.reshape(count, N, 3))
        for _ in range(SHRINKS):  # compact orbitals are zero where some electrons start
            walk.recompute(self.device, self.state, self.tables)
            lost = np.flatnonzero(self.device.to_host(self.state.sign) == 0)
            if not lost.size:
                return
            at = self.device.asarray(lost)
            around = self.device.asarray(centre)[None]
            self.state.R[at] = around + 0.5 * (self.state.R[at] - around)
        self.recompute()

    def recompute(self) -> float:
        """Recompute rows, inverses and log psi; return the largest relative error of an inverse.

        Raises
        ------
        NumericsError
            If a Slater matrix is singular: a walker on a node.
        """
        mine = self.mine
        error = self.join(self.device.to_host(walk.recompute(self.device, mine, self.tables)))
        sign = self.join(self.device.to_host(mine.sign))
        if (sign == 0).any():
            self.complain(int(np.argmax(sign == 0)), "lies on a node: its Slater matrix is singular")
        return float(error.max())

    def count_sweeps(self, sweeps: int, tau: float) -> None:
        """Count sweeps of a time step (1/hartree) that follow the square of the trial function."""
        self.generation += sweeps
        self.warm += sweeps * tau
        self.settled += sweeps * tau

    # ------------------------------------------------------------------------------------- branching

    def select(self, indices: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Make an ensemble of copies of walkers ``indices`` (int64) with new weights (float64), on the host or the device."""
        if len(indices) > self.count:  # copies
            self.related, self.warm = True, 0.0
        if self.comm.size > 1:
            self._fetch(np.asarray(self.device.to_host(indices)))
        at = self.device.asarray(indices)
        self.state = State(*(self.device.xp.ascontiguousarray(array[at]) for array in self.state))
        self.state.weight[...] = self.device.asarray(weights)

    def check_finite(self) -> None:
        """Raise if a local energy is not a number, with the coordinates of its walker."""
        total = self.device.to_host(self.state.energy[:, 5])
        if not np.isfinite(total).all():
            w = int(np.argmin(np.isfinite(total)))
            self.complain(w, f"has a local energy of {total[w]}")

    def complain(self, w: int, what: str) -> None:
        """Raise an error that shows a walker; called on all ranks."""
        self.publish("R")
        R = self.device.to_host(self.state.R[w])
        places = "; ".join(f"({x:.6g}, {y:.6g}, {z:.6g})" for x, y, z in R)
        raise NumericsError(
            f"walker {self.offset + w} {what} in generation {self.generation}; electrons at {places} bohr"
        )

    # ------------------------------------------------------------------------------------ checkpoints

    def saved(self) -> dict[str, Any]:
        """Return the state for :meth:`restore`; a collective call."""
        self.publish(*HEAVY, *LIGHT)
        arrays = {
            name: self.device.to_host(array) for name, array in zip(State._fields, self.state, strict=True)
        }
        times = {"warm": self.warm, "settled": self.settled}
        return {"generation": self.generation, **times, "related": self.related, **arrays}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Continue from :meth:`saved`, bit by bit."""
        self.generation = int(saved["generation"])
        self.warm, self.related = float(saved.get("warm", 0.0)), bool(saved.get("related", False))
        self.settled = float(saved.get("settled", math.inf))  # older checkpoints do not tell
        self.state = State(
            *(self.device.asarray(np.ascontiguousarray(saved[name])) for name in State._fields)
        )

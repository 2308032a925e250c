"""Large sectors of Sz on one GPU: products beside the copy ceiling, dynamics of 34 spins, the ground state of 36."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.harness import Bench, Cost, Skip, case, kernel
from bench.trotter.products import chain
from qsim.core.device.device import Device
from qsim.trotter.evolution.chebyshev import Chebyshev
from qsim.trotter.model.hamiltonian import Model
from qsim.trotter.sectors.basis import Sector
from qsim.trotter.sectors.lanczos import chain as recurrence
from qsim.trotter.sectors.lanczos import ritz
from qsim.trotter.sectors.moments import sector_moments
from qsim.trotter.sectors.operator import SectorOperator

SIZES = (28, 30, 32, 34)
TYPES = (("complex", np.complex128, 160), ("real", np.float64, 80), ("complex64", np.complex64, 80))
JUDGED, LEAST = 32, 60.0  # spins and per cent of the copy ceiling
DYNAMICS, GROUND = 34, 36
BETHE = -15.976235822064  # ring of 36 spins, Bethe ansatz
SECONDS = 40.0  # of the recurrence: what it has reached by then counts
MOST_STEPS = 70
TIME, ACCURACY = 0.5, 1e-5  # of the quench; single precision


def ring(spins: int) -> Model:
    """Return the Heisenberg ring, J = 1."""
    J = np.zeros((3, spins, spins))
    for j in range(spins):
        k = (j + 1) % spins
        J[:, j, k] = J[:, k, j] = 1.0
    return Model(spins, J, np.zeros((3, spins)))


def xx_chain(spins: int) -> Model:
    """Return the open XX chain, which is free fermions."""
    J = np.zeros((3, spins, spins))
    for j in range(spins - 1):
        J[:2, j, j + 1] = J[:2, j + 1, j] = 1.0
    return Model(spins, J, np.zeros((3, spins)))


def free_fermions(spins: int, t: float) -> np.ndarray:
    """Return <Sz_j> of the XX chain at a time, from the Neel state: hopping 1/2, each fermion is a spin up."""
    energies, modes = np.linalg.eigh(0.5 * (np.eye(spins, k=1) + np.eye(spins, k=-1)))
    moved = modes @ np.diag(np.exp(-1j * energies * t)) @ modes.T
    up = np.arange(spins) % 2 == 0
    return (np.abs(moved[:, up]) ** 2).sum(axis=1) - 0.5


def neel(sector: Sector) -> int:
    """Return the index of the Neel state, the last site up."""
    first = 0 if sector.inversion else 1
    string = sum(1 << j for j in range(first, sector.spins, 2))
    return int(sector.index(np.array([string & ((1 << sector.bits) - 1)]))[0])


def room(bench: Bench, size: int) -> None:
    """Free the memory pool, and skip what does not fit."""
    bench.device.xp.get_default_memory_pool().free_all_blocks()
    free = bench.device.free_memory()
    if size > free:
        raise Skip(f"{size / 1e9:.3g} GB are needed, {free / 1e9:.3g} GB are free")


def filled(device: Device, size: int, dtype: Any) -> Any:
    """Return a vector of equal numbers without temporary arrays."""
    psi = device.xp.empty(size, dtype)
    psi.fill(size**-0.5)
    return psi


@case(
    "trotter-sector-copy", "H psi in large sectors of Sz on a GPU beside the copy ceiling", devices=("cuda",)
)
def products(bench: Bench) -> None:
    """Floor: 160 bytes a state (complex128), two passes and the flips across groups of 12 bits."""
    device = bench.device
    for n in SIZES[:1] if bench.quick else SIZES:
        sector = Sector(n, n // 2)
        operator = SectorOperator(device, sector, chain(n))
        for name, dtype, floor in TYPES:
            size = 2 * np.dtype(dtype).itemsize * sector.dimension
            try:
                room(bench, size + (1 << 29))
            except Skip as why:
                bench.note(f"N={n}, {name}: {why}")
                continue
            psi, out = filled(device, sector.dimension, dtype), filled(device, sector.dimension, dtype)
            timing = kernel(device, lambda p=psi, o=out, h=operator: h.apply(p, o, 1.0, 0.0, -1.0), least=3)
            cost = Cost(flops=0.0, bytes=float(floor * sector.dimension))
            bench.row(
                f"N={n}, {name}, with the older vector",
                timing,
                cost,
                spins=n,
                picoseconds_a_state=1e12 * timing.seconds / sector.dimension,
            )
            if n == JUDGED and name == "complex":
                part = 100.0 * cost.floor(bench.ceilings())[0] / timing.seconds
                bench.goal(f"product of {n} spins, part of the copy ceiling", part, LEAST, "%", at_least=True)
            del psi, out


@case(
    "trotter-sector-ground", "Ground state of the Heisenberg ring of 36 spins on one GPU", devices=("cuda",)
)
def ground(bench: Bench) -> None:
    """Two real vectors, even under inversion: 72.6 GB; energy against the Bethe ansatz."""
    n, device = 24 if bench.quick else GROUND, bench.device
    sector = Sector(n, n // 2, 1)
    room(bench, 16 * sector.dimension + (3 << 29))
    linear = SectorOperator(device, sector, ring(n))
    start = device.xp.zeros(sector.dimension)
    start[neel(sector)] = 1.0
    made, begun, energy = recurrence(device, linear, start), time.perf_counter(), 0.0
    while len(made.alpha) < MOST_STEPS and time.perf_counter() - begun < SECONDS:
        if not made.step(float(n)):
            break
        if len(made.alpha) % 10 == 0:
            energy = float(ritz(made.alpha, made.beta)[0][0])
            spent = time.perf_counter() - begun
            bench.row(
                f"N={n}, {len(made.alpha)} products", energy=energy, seconds=spent, above=energy - BETHE
            )
    energy = float(ritz(made.alpha, made.beta)[0][0])
    bench.row(
        f"N={n}, {sector.dimension} states",
        energy_text=f"{energy:.12f}",
        products=len(made.alpha),
        seconds=time.perf_counter() - begun,
        vectors_gb=16e-9 * sector.dimension,
    )
    bench.goal("energy of 36 spins above that of the Bethe ansatz", abs(energy - BETHE), 1e-8, "J")


@case("trotter-sector-dynamics", "Quench of 34 spins in the sector Sz = 0 on one GPU", devices=("cuda",))
def dynamics(bench: Bench) -> None:
    """XX chain from the Neel state, complex64 where three complex128 vectors do not fit; Sz of every site, free fermions."""
    n, device = 24 if bench.quick else DYNAMICS, bench.device
    sector = Sector(n, n // 2)
    bench.device.xp.get_default_memory_pool().free_all_blocks()
    double = 52 * sector.dimension < device.free_memory()
    dtype, accuracy = (np.complex128, 1e-9) if double else (np.complex64, ACCURACY)
    room(bench, 3 * np.dtype(dtype).itemsize * sector.dimension + (1 << 30))
    model = xx_chain(n)
    linear = SectorOperator(device, sector, model)
    psi = device.xp.zeros(sector.dimension, dtype)
    psi[neel(sector)] = 1.0
    begun = time.perf_counter()
    made = Chebyshev(device, model, linear=linear).advance(psi, TIME, accuracy)
    device.synchronize()
    spent = time.perf_counter() - begun
    moments = sector_moments(linear, psi, [])
    found = np.asarray(moments.s["z"]) / moments.norm
    error = float(np.abs(found - free_fermions(n, TIME)).max())
    bench.row(
        f"N={n}, {np.dtype(dtype).name}, t = {TIME}", seconds=spent, products=made.products, error=error
    )
    bench.goal("error of Sz of 34 spins", error, 1e-8 if double else 1e-4)

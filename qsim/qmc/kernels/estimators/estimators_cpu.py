"""Histograms of walkers on the CPU; the roundings are those of ``estimators.cu``, so nothing may be contracted."""

from __future__ import annotations

import math
from typing import Any

import numba as nb

EXACT: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy"}


@nb.njit(**EXACT)
def pairs(first, last, R, count, n_up, inverse_width, out):
    """Count pairs of walkers first .. last by distance in out (3, bins)."""
    N = R.shape[1]
    bins = out.shape[1]
    for w in range(first, last):
        # The weight of a walker in integers: sums of threads may be added in any order.
        quanta = count[w]
        for i in range(N):
            x, y, z = R[w, i, 0], R[w, i, 1], R[w, i, 2]
            for j in range(i + 1, N):
                dx, dy, dz = R[w, j, 0] - x, R[w, j, 1] - y, R[w, j, 2] - z
                place = math.sqrt(dx * dx + dy * dy + dz * dz) * inverse_width
                if place < bins:
                    out[int(i >= n_up) + int(j >= n_up), int(place)] += quanta


@nb.njit(**EXACT)
def mesh(first, last, R, count, n_up, origin, scale, out):
    """Count electrons of walkers first .. last by cell in out (2, n0, n1, n2)."""
    for w in range(first, last):
        quanta = count[w]
        for i in range(R.shape[1]):
            # Electrons outside of the mesh are left out, below zero as well as beyond the
            # end.
            x = math.floor((R[w, i, 0] - origin[0]) * scale[0])
            y = math.floor((R[w, i, 1] - origin[1]) * scale[1])
            z = math.floor((R[w, i, 2] - origin[2]) * scale[2])
            if 0 <= x < out.shape[1] and 0 <= y < out.shape[2] and 0 <= z < out.shape[3]:
                out[int(i >= n_up), int(x), int(y), int(z)] += quanta


@nb.njit(**EXACT)
def radial(first, last, R, count, atom, n_up, inverse_width, out):
    """Count electrons of walkers first .. last by distance from each atom in out (2, atoms, bins)."""
    bins = out.shape[2]
    for w in range(first, last):
        quanta = count[w]
        for i in range(R.shape[1]):
            # Around each atom; an electron counts once for every atom within range.
            for a in range(atom.shape[0]):
                dx, dy, dz = R[w, i, 0] - atom[a, 0], R[w, i, 1] - atom[a, 1], R[w, i, 2] - atom[a, 2]
                place = math.sqrt(dx * dx + dy * dy + dz * dz) * inverse_width
                if place < bins:
                    out[int(i >= n_up), a, int(place)] += quanta

"""Small crystals with bands of their own, and exact expectation values of their determinants."""

import itertools

import numpy as np
from scipy.special import spherical_jn

from qsim.qmc.deck.wavefunction import Coulomb, System, Wavefunction
from qsim.qmc.system.cell import Cell, points_within
from qsim.qmc.system.ewald import ewald_energy, madelung
from qsim.qmc.system.pseudopotentials import from_ecp
from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.crystals.pyscf import kpoints_of
from qsim.qmc.wavefunction.crystals.trial import build_crystal
from qsim.qmc.wavefunction.formats.eshdf import write_eshdf
from qsim.qmc.wavefunction.harmonics import solid_harmonics
from qsim.qmc.wavefunction.notes import Notes

SKEWED = np.array([[4.1, 0.3, -0.2], [1.7, 4.4, 0.5], [-1.1, 0.6, 5.0]])
CUTOFF = 3.2  # hartree
ATOMS = np.array([[0.1, 0.2, 0.3], [2.0, 2.4, 2.2]])
UNTILED = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
SKEW_TILE = [[1, 1, 0], [-1, 1, 0], [0, 0, 1]]
JASTROW = {
    "J1": {"size": 5, "coefficients": {"C": [0.3, -0.2, 0.15, 0.1, -0.05]}},
    "J2": {
        "size": 5,
        "coefficients": {"uu": [0.2, 0.25, 0.1, -0.05, 0.02], "ud": [0.4, 0.3, 0.2, 0.1, 0.03]},
    },
}
CASES = {
    "gamma": (UNTILED, [0, 0, 0]),
    "pairs": ([[3, 0, 0], [0, 1, 0], [0, 0, 1]], [0, 0, 0]),
    "half": (UNTILED, [0.5, 0, 0.5]),
    "skewed": (SKEW_TILE, [0, 0.5, 0]),
    "complex": (UNTILED, [0.13, -0.31, 0.27]),
    "complex supercell": (SKEW_TILE, [0.2, 0.1, -0.4]),
}


def potential(symbol="C"):
    """A soft pseudopotential of charge 4 with s and p channels that reach beyond the Wigner-Seitz radius."""
    core = 2
    local = [[], [(1.1, 4.0)], [(1.3, -3.0)], [(1.1, 4.4)]]
    s = [[], [], [(0.8, 1.2)]]
    p = [[], [], [(0.7, -0.9)]]
    return from_ecp(symbol, 6, (core, [(-1, local), (0, s), (1, p)]), "model")


def model_crystal(lattice, positions, tile, twists, bands=7, seed=0, symbol="C", charge=4.0):
    """Bands of a random smooth potential with the k points that supercell and twists need."""
    cell = Cell(np.array(lattice, float))
    generator = np.random.default_rng(seed)
    kappas = np.concatenate([kpoints_of(np.array(tile), np.array(t, float)) for t in twists])
    strength = {}
    points = []
    for kappa in kappas:
        g = points_within(cell.reciprocal, np.sqrt(2 * CUTOFF) + np.linalg.norm(kappa @ cell.reciprocal))
        k = (g + kappa) @ cell.reciprocal
        kept = 0.5 * (k**2).sum(1) < CUTOFF
        g, k = g[kept], k[kept]
        H = np.diag(0.5 * (k**2).sum(1)).astype(complex)
        for i, j in itertools.combinations(range(len(g)), 2):
            d = tuple(g[i] - g[j])
            if d not in strength:
                v = 0.3 * (generator.normal() + 1j * generator.normal()) / (1 + sum(x * x for x in d))
                strength[d], strength[tuple(-x for x in d)] = v, np.conj(v)
            H[i, j], H[j, i] = strength[d], np.conj(strength[d])
        energies, C = np.linalg.eigh(H)
        phases = np.exp(2j * np.pi * generator.random(bands))  # the phase of a band means nothing
        points.append(KPoint(kappa, g, energies[None, :bands], (C[:, :bands] * phases).T[None].copy()))
    places = np.array(positions, float)
    return Crystal(cell.lattice, (symbol,) * len(places), places, {symbol: charge}, tuple(points), "model")


def trial(case, jastrow=JASTROW, meshfactor=1.0, tmp_path=None, tins=None, **keys):
    """A trial function with model bands, and those bands."""
    tile, twist = CASES[case]
    crystal = model_crystal(SKEWED, ATOMS, tile, [twist])
    path = tmp_path / "bands.h5"
    write_eshdf(path, crystal, (4, 4))
    system = System.model_validate({"cell": "periodic", "tilematrix": tile, "twist": twist, **keys})
    orbitals = {"source": "eshdf", "file": str(path), "meshfactor": meshfactor, "muffin_tins": tins}
    block = Wavefunction.model_validate({"orbitals": orbitals, "jastrow": jastrow})
    notes = Notes()
    made = build_crystal(
        system, block, Coulomb(), potentials={"C": potential()}, folder=tmp_path, notes=notes
    )
    return made, crystal, notes


def exact_energies(crystal, tile, functions, supercell, system):
    """Expectation values of a closed-shell determinant from its plane waves: Fourier sums, none of the program's kernels.

    ``functions`` are the occupied Bloch functions of the determinant (each of them complex), two electrons in each.
    """
    cell = Cell(crystal.lattice)
    cells = round(abs(np.linalg.det(tile)))
    V, Vs, N = cell.volume, supercell.volume, 2 * len(functions)
    kinetic = sum(
        ((np.abs(c) ** 2) * (((g + kappa) @ cell.reciprocal) ** 2).sum(1)).sum() for kappa, g, c in functions
    )
    n = 4 * max(np.abs(g).max() for _, g, _ in functions) + 2
    us = []
    for _, g, c in functions:
        grid = np.zeros((n, n, n), complex)
        grid[g[:, 0], g[:, 1], g[:, 2]] = c
        us.append(np.fft.ifftn(grid) * n**3)  # mean square 1
    whole = np.rint(np.fft.fftfreq(n, 1 / n)).astype(int)
    G = np.stack(np.meshgrid(whole, whole, whole, indexing="ij"), -1).reshape(-1, 3)
    q = G @ cell.reciprocal
    q2 = (q**2).sum(1)
    some = q2 > 1e-12
    density = np.fft.fftn(2 * sum(np.abs(u) ** 2 for u in us)).ravel() / n**3 / (V * cells)
    hartree = 0.5 * Vs * (4 * np.pi / q2[some] * np.abs(density[some]) ** 2).sum()
    exchange = 0.0
    for i, j in itertools.product(range(len(us)), repeat=2):
        pair = np.fft.fftn(us[i].conj() * us[j]).ravel() / n**3
        k2 = ((q + (functions[j][0] - functions[i][0]) @ cell.reciprocal) ** 2).sum(1)
        here = k2 > 1e-12
        exchange -= 4 * np.pi / Vs * (np.abs(pair[here]) ** 2 / k2[here]).sum()
    energies = {
        "kinetic": kinetic,
        "electron_electron": hartree + exchange + 0.5 * N * madelung(supercell),
        "local": 0.0,
        "nonlocal": 0.0,
        "ion_ion": ewald_energy(supercell, system.charges, system.positions),
    }
    t, w = np.polynomial.legendre.leggauss(400)
    for symbol in set(crystal.symbols):
        places = crystal.positions[[s == symbol for s in crystal.symbols]]
        charge = system.charges[system.symbols.index(symbol)]
        form = np.where(some, -4 * np.pi * charge / np.where(some, q2, 1.0), 0.0)
        pseudo = system.pseudopotentials.get(symbol)
        if pseudo is not None:
            R = pseudo.local_range
            r, dr = 0.5 * R * (t + 1), 0.5 * R * w
            f = pseudo.local(r).value
            size, index = np.unique(np.round(np.sqrt(q2), 9), return_inverse=True)
            form = (
                form
                + 4 * np.pi * np.array([(dr * r * f * np.sinc(x * r / np.pi)).sum() for x in size])[index]
            )
            energies["nonlocal"] += _nonlocal(pseudo, cell, places, functions, t, w)
        structure = np.exp(-1j * q @ places.T).sum(1)
        energies["local"] += Vs / V * (density.conj() * form * structure).sum().real
    return energies


def _nonlocal(pseudo, cell, places, functions, t, w):
    r, dr = 0.5 * pseudo.cutoff * (t + 1), 0.5 * pseudo.cutoff * w
    total = 0.0
    for l, f in enumerate(pseudo.delta):
        if f is None:
            continue
        v = f(r).value
        for kappa, g, c in functions:
            k = (g + kappa) @ cell.reciprocal
            size = np.linalg.norm(k, axis=1)
            unit = k / np.maximum(size, 1e-12)[:, None]
            Y = np.asarray(solid_harmonics(l, unit)[0])
            J = spherical_jn(l, size[:, None] * r)
            for place in places:
                amplitudes = (
                    4
                    * np.pi
                    / np.sqrt(cell.volume)
                    * np.einsum("g,gm,gr->mr", c * np.exp(1j * k @ place), Y, J)
                )
                total += 2 * (dr * r**2 * v * np.abs(amplitudes) ** 2).sum()
    return total

"""Decks whose memory is measured: for each method and task two or three of the same kind, which differ in size alone.

Little is computed with much memory, so that each run takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Deck = dict[str, Any]
Decks = tuple[Deck, ...]

__all__ = ["CASES", "deck_of", "sizes_of", "write"]


def _between(sizes: tuple[int, int]) -> tuple[int, int, int]:
    """Return two sizes with their geometric mean between them, even where both are."""
    small, large = sizes
    step = 2 - (small % 2 or large % 2)
    return small, step * round((small * large) ** 0.5 / step), large


# ------------------------------------------------------------------------------------------------ qoc

MOLECULE = {
    "mass": 1728.468338,
    "potential": {"type": "morse", "D": 0.1994, "beta": 1.189, "r0": 1.821},
    "dipole": {"type": "mecke", "mu0": 3.088, "rstar": 0.6},
    "grid": {"xmin": 1.0, "xmax": 5.0, "points": 200},
    "initial": 0,
    "target": 1,
}
GRID = {"type": "crank_nicolson", "memory": "store"}


def _qoc(sizes: tuple[int, int], optimizer: str, sweeps: int = 0, **blocks: Any) -> Decks:
    chosen = {"type": optimizer, **({"max_sweeps": sweeps} if sweeps else {})}
    return tuple(
        {
            "method": "qoc",
            "system": MOLECULE,
            "time": {"T": 30000.0, "steps": steps},
            "control": {"guess": {"type": "ladder", "area": 0.3}},
            "objective": {"threshold": 1.0},
            "verify": "none",
            "optimizer": chosen,
            **blocks,
        }
        for steps in _between(sizes)
    )


MANY, FEW = (50_000, 200_000), (4_000, 16_000)
SCALES = {"field_scale": [0.9, 1.0, 1.1]}
QOC = {
    "none": _qoc(MANY, "none"),
    "lbfgs": _qoc(MANY, "lbfgs", 6),
    "lbfgs, verified": _qoc(MANY, "lbfgs", 2, verify={"propagator": "crank_nicolson", "steps": 20_000}),
    "krotov": _qoc(MANY, "krotov", 8),
    "gauss_newton": _qoc((20_000, 60_000), "gauss_newton", 6),
    "travolta": _qoc(MANY, "travolta", 6),
    "ensemble": _qoc(MANY, "lbfgs", 6, ensemble=SCALES),
    "ensemble, krotov": _qoc(MANY, "krotov", 6, ensemble=SCALES),
    "ensemble, gauss_newton": _qoc((10_000, 30_000), "gauss_newton", 6, ensemble=SCALES),
    "ensemble, grid": _qoc(FEW, "lbfgs", 3, propagator=GRID, ensemble=SCALES),
    "grid": _qoc(FEW, "lbfgs", 4, propagator=GRID),
    "grid, reversed": _qoc(MANY, "lbfgs", 4, propagator={**GRID, "memory": "reverse"}),
}

# Matrices of so many levels, with a jump.
MATRICES = "matrices-{}.h5"
HALF = {"value": "0.2 + 0*t", "type": "expression"}


def _quantum(slots: tuple[int, int], system: Deck, T: float, **blocks: Any) -> Decks:
    return tuple(
        {
            "method": "qoc",
            "system": system,
            "time": {"T": T, "slots": count},
            "control": [{"name": "x", "guess": HALF}],
            "objective": {"threshold": 1.0},
            "verify": {"propagator": "none"},
            "optimizer": {"type": "lbfgs", "max_sweeps": 3},
            **blocks,
        }
        for count in _between(slots)
    )


def _ladder(spin: float, **more: Any) -> Deck:
    return {
        "type": "model",
        "parts": [{"name": "c", "type": "spin", "s": spin}],
        "terms": [{"operator": "c.Sz", "value": 1.0}, {"operator": "c.Sz*c.Sz", "value": 0.03}],
        "controls": {"x": "c.Sx"},
        "initial": "0",
        "target": "2",
        **more,
    }


ROTOR = {
    "type": "rotor",
    "B": "1.9896 cm-1",
    "dalpha": "0.69 angstrom^3",
    "J_max": 16,
    "initial": 0,
    "target": {"observable": "cos2"},
}
PLANE = {
    "type": "grid2d",
    "mass": [1728.0, 1500.0],
    "potential": {"type": "two_morse", "D": 0.2, "beta": 1.19, "r0": 1.82},
    "dipole": {"x": "x*exp(-x/0.6)"},
    "initial": 0,
    "target": 1,
}
QOC |= {
    "levels": _quantum((20_000, 200_000), _ladder(10), 40.0),
    "levels, fast": _quantum((20_000, 100_000), _ladder(10), 20_000.0),
    "levels, ensemble": _quantum(
        (2_000, 10_000), _ladder(5), 40.0, ensemble={"members": [{"scale": {"control": [0.9, 1.0, 1.1]}}]}
    ),
    "levels, jumps": _quantum((4_000, 40_000), _ladder(3, jumps=[{"operator": "c.Sm", "rate": 0.01}]), 40.0),
    "levels, histories": _quantum(
        (400, 1_600),
        _ladder(5, jumps=[{"operator": "c.Sm", "rate": 0.01}]),
        40.0,
        dissipation={"trajectories": {"count": 2000}},
    ),
    "levels, many members": _quantum(
        (1_000, 4_000),
        _ladder(5),
        40.0,
        ensemble={"members": [{"scale": {"control": [0.9 + 0.005 * k for k in range(40)]}}]},
    ),
    "jumps, ensemble": _quantum(
        (1_000, 8_000),
        _ladder(3, jumps=[{"operator": "c.Sm", "rate": 0.01}]),
        40.0,
        ensemble={"members": [{"scale": {"control": [0.9 + 0.02 * k for k in range(11)]}}]},
    ),
    "matrices": _quantum(
        (4_000, 40_000),
        {"type": "matrices", "file": MATRICES.format(8), "initial": "0", "target": "2"},
        40.0,
    ),
    "rotor": _quantum(
        (20_000, 200_000),
        ROTOR,
        80_000.0,
        control=[
            {"name": "envelope", "bounds": [0, 0.012], "guess": {"type": "expression", "value": "0.008"}}
        ],
    ),
    "plane": tuple(
        {
            **_quantum(
                (2_000, 2_000),
                {**PLANE, "grid": {c: {"min": 0.9, "max": 4.2, "points": n} for c in "xy"}, "states": 20},
                8_000.0,
            )[0]
        }
        for n in (24, 34, 48)
    ),
}


# -------------------------------------------------------------------------------------------- trotter

START = "start.npy"
SIGMA = [{"type": "field", "axis": "x", "values": 0.1}]
RETURN = {"echo": {"sigma": SIGMA, "scheme": "return"}}
CHEBYSHEV = {"integrator": "chebyshev", "accuracy": 1e-6}


def _trotter(sizes: tuple[int, int] = (18, 22), profile: Any = None, **blocks: Any) -> Decks:
    field = {"type": "field", "axis": "x", "values": 0.3, **({"profile": profile} if profile else {})}
    evolve = {"t_final": 0.1, "outputs": 2, **blocks.pop("evolve", {"integrator": "ts2", "dt": 0.1})}
    return tuple(
        {
            "method": "trotter",
            "initial": {"type": "product", "theta": 1.0},
            "system": {"spins": spins, "terms": [{"type": "heisenberg", "lattice": "chain"}, field]},
            "evolve": evolve,
            **blocks,
        }
        for spins in _between(sizes)
    )


def _sector(sizes: tuple[int, int], disorder: float = 0.5, **more: Any) -> Decks:
    field = {"type": "field", "axis": "z", "random": {"kind": "box", "W": disorder, "seed": 7}}
    terms: list[Deck] = [{"type": "heisenberg", "lattice": "chain"}, field]
    return tuple(
        {
            "method": "trotter",
            "system": {"spins": spins, "terms": terms},
            **({} if more.get("task") == "thermal" else {"sector": {"sz": 0}}),
            **more,
        }
        for spins in _between(sizes)
    )


def _momentum() -> Decks:
    return tuple(
        {
            "method": "trotter",
            "task": "levels",
            "system": {"spins": spins, "terms": [{"type": "heisenberg", "lattice": "ring"}]},
            "sector": {"sz": 0, "momentum": 1},
            "levels": {"window": "middle_third", "statistics": ["gap_ratio"]},
        }
        for spins in (12, 14, 16)
    )


def _floquet(sizes: tuple[int, int], quasienergies: bool) -> Decks:
    return tuple(
        {
            "method": "trotter",
            "task": "floquet",
            "system": {
                "spins": spins,
                "terms": [
                    {"type": "heisenberg", "lattice": "chain"},
                    {"type": "field", "axis": "z", "random": {"kind": "box", "W": 1.0, "seed": 3}},
                ],
            },
            "initial": {"type": "neel"},
            "floquet": {
                "cycle": [{"terms": [0], "time": 0.8}, {"terms": [1], "time": 0.8}],
                "cycles": 2,
                "quasienergies": quasienergies,
            },
            "observe": ["sz"],
        }
        for spins in _between(sizes)
    )


QUENCH = {"evolve": {"t_final": 0.2, "outputs": 2, "integrator": "chebyshev", "accuracy": 1e-6}}
SPECTRAL = {
    "operator": "sz",
    "q": [0, 1],
    "omega": {"from": 0.0, "to": 4.0, "count": 101},
    "broadening": 0.3,
    "steps": 20,
}
THERMAL = {"temperatures": {"from": 0.5, "to": 5.0, "count": 10}, "vectors": 2, "steps": 20}
TROTTER = {
    "plain": _trotter(),
    "single": _trotter(run={"precision": "single"}),
    "moments": _trotter(observe=["sx", {"correlator": ["xx", "zz"], "pairs": "all"}]),
    "entropy": _trotter(observe=[{"entropy": list(range(10))}]),
    "variance": _trotter(observe=["energy_variance"]),
    "overlap": _trotter(observe=[{"echo": {"sigma": SIGMA}}]),
    "return": _trotter(observe=[RETURN]),
    "chebyshev": _trotter(evolve=CHEBYSHEV),
    "chebyshev, return": _trotter(evolve=CHEBYSHEV, observe=[RETURN]),
    "driven": _trotter(profile={"type": "cosine", "omega": 1.0}),
    "ensemble": _trotter(initial="haar", ensemble={"states": 2}),
    "batch": _trotter((12, 15), initial="haar", ensemble={"states": 64}),
    "verify": _trotter(evolve={"integrator": "ts2", "dt": 0.1, "verify": True}),
    "file": _trotter(initial={"type": "file", "file": START}),
    "sector": _sector((18, 22), initial={"type": "neel"}, **QUENCH),
    "sector, entropy": _sector(
        (18, 22), initial={"type": "neel"}, observe=[{"entropy": {"sites": "half"}}], **QUENCH
    ),
    "spectrum": _sector((16, 20), task="spectrum", spectrum={"levels": 2}),
    "dynamics": _sector((16, 20), task="dynamics", dynamics=SPECTRAL),
    "thermal": _sector((14, 18), task="thermal", thermal=THERMAL),
    "thermal, exact": _sector((10, 14), task="thermal", thermal={**THERMAL, "exact": 4000}),
    "floquet": _floquet((16, 22), False),
    "floquet, quasienergies": _floquet((8, 12), True),
    "levels, entropy": _sector((10, 14), 8.0, task="levels", levels={"statistics": ["gap_ratio", "entropy"]}),
    "levels, momentum": _momentum(),
    "levels": _sector(
        (10, 14), 8.0, task="levels", levels={"window": "middle_third", "statistics": ["gap_ratio"]}
    ),
}

# Spaces other than strings of spins 1/2 in a sector of Sz.
RING = {"type": "heisenberg", "lattice": "ring"}
TURNED = [{"type": "ising", "lattice": "chain", "J": 1.0}, {"type": "field", "axis": "x", "values": 0.7}]
UNEVEN = [
    {"type": "heisenberg", "lattice": "chain"},
    {"type": "field", "axis": "x", "random": {"kind": "box", "W": 1.0, "seed": 5}},
]
LARGER = [{"type": "heisenberg", "lattice": "chain"}, {"type": "anisotropy", "D": 0.4}]


def _spaces(sizes: tuple[int, int], terms: list[Deck], spin: float = 0.5, **more: Any) -> Decks:
    system: Deck = {"terms": terms} if spin == 0.5 else {"terms": terms, "spin": spin}
    return tuple(
        {"method": "trotter", "system": {"spins": spins, **system}, **more} for spins in _between(sizes)
    )


def _fid(sizes: tuple[int, int]) -> Decks:
    return tuple(
        {
            "method": "trotter",
            "task": "fid",
            "system": {
                "nuclei": ["1H"] * count,
                "spectrometer": "400 MHz",
                "terms": [
                    {"type": "shifts", "ppm": [1.0 + 0.4 * k for k in range(count)]},
                    {"type": "scalar", "list": [[k, k + 1, 7.0 + k] for k in range(count - 1)]},
                ],
            },
            "relaxation": {"T2": "1 s"},
        }
        for count in _between(sizes)
    )


ALL: Deck = {"sector": "full"}
LOWEST: Deck = {"task": "spectrum", "spectrum": {"levels": 2}}
HOT: Deck = {"task": "thermal", "thermal": THERMAL}
LINES: Deck = {"task": "dynamics", "dynamics": SPECTRAL}
PLUS = {"initial": {"type": "product", "theta": 1.5707963267948966}}
TROTTER |= {
    "parity": _spaces((18, 22), TURNED, **PLUS, **QUENCH),
    "parity, spectrum": _spaces((18, 22), TURNED, **LOWEST),
    "all states, spectrum": _spaces((18, 21), UNEVEN, **ALL, **LOWEST),
    "all states, dynamics": _spaces((16, 20), UNEVEN, **ALL, **LINES),
    "all states, thermal": _spaces((16, 20), UNEVEN, **ALL, **HOT),
    "momentum, spectrum": _spaces((20, 24), [RING], sector={"sz": 0, "momentum": 0}, **LOWEST),
    "larger spins": _spaces((11, 13), LARGER, 1, initial={"type": "neel"}, **QUENCH),
    "larger spins, spectrum": _spaces((11, 13), LARGER, 1, sector={"sz": 0}, **LOWEST),
    "larger spins, dynamics": _spaces((10, 12), LARGER, 1, sector={"sz": 0}, **LINES),
    "larger spins, thermal": _spaces((9, 11), LARGER, 1, **HOT),
    "larger spins, levels": _spaces((6, 8), LARGER, 1, task="levels", levels={"statistics": ["gap_ratio"]}),
    "fid": _fid((9, 13)),
}


# -------------------------------------------------------------------------------------------- tridiag

ROWS = (1_000_000, 4_000_000)


def _propagate(grid: Deck | None = None, sizes: tuple[int, int] = ROWS, **more: Any) -> Decks:
    return tuple(
        {
            "method": "tridiag",
            "task": "propagate",
            "grid": {"xmin": -0.1 * n, "xmax": 0.1 * n, "points": n, **(grid or {})},
            "potential": {"type": "softcore"},
            "time": {"dt": 0.02, "t_final": 0.06, "outputs": 2, "verify": False},
            "observe": [{"density": {"points": 2}}],
            **more,
        }
        for n in _between(sizes)
    )


def _solve(solver: Deck | None = None, sizes: tuple[int, int] = ROWS, **system: Any) -> Decks:
    return tuple(
        {
            "method": "tridiag",
            "task": "solve",
            "system": {"source": "random", "n": n, "seed": 2, **system},
            "solver": solver or {},
        }
        for n in _between(sizes)
    )


def _scaling() -> Decks:
    return tuple(
        {
            "method": "tridiag",
            "task": "scaling",
            "scaling": {"n": [n], "blocks": [64, 256], "iterations": [1], "repeats": 1},
        }
        for n in _between(ROWS)
    )


def _atom(sizes: tuple[int, int] = (20, 40), gauge: str = "length", **laser: Any) -> Decks:
    pulse = {"shape": "sin2", "omega": 0.057, "E0": 0.03, "cycles": 1}
    return tuple(
        {
            "method": "tridiag",
            "task": "atom",
            "atom": {"type": "hydrogen"},
            "grid": {"rmax": 20.0 * lmax, "dr": 0.2, "l_max": lmax, "map": "auto"},
            "initial": "1s",
            "laser": {"gauge": gauge, "pulses": [pulse], **laser},
            "absorber": {"type": "manolopoulos", "kmin": 0.2, "delta": 0.2},
            "time": {"dt": 0.5, "outputs": 4, "verify": False},
            "observe": [{"populations": {"nmax": 2}}],
        }
        for lmax in _between(sizes)
    )


TRIDIAG = {
    "propagate": _propagate(),
    "propagate, three_point": _propagate({"stencil": "three_point"}),
    "propagate, exact": _propagate(solver={"mode": "exact"}),
    "propagate, single": _propagate(run={"precision": "single"}),
    "solve": _solve(),
    "solve, real": _solve(dtype="real"),
    "solve, three columns": _solve(sizes=(400_000, 1_600_000), rhs=3),
    "solve, thomas": _solve({"type": "thomas"}),
    "solve, lapack": _solve({"type": "lapack"}),
    "solve, streamed": _solve({"memory": 50_000_000, "tolerance": 1e-10}, dtype="real"),
    "scaling": _scaling(),
    "atom, length": _atom((20, 80)),
    "atom, velocity": _atom((20, 50), "velocity"),
    "atom, planar": _atom((8, 20), polarization={"type": "circular", "handedness": "left", "plane": "xy"}),
}


# ------------------------------------------------------------------------------------------- sturmian


def _two(N: int, l_max: int, order: int = 12, R: float = 24, **more: Any) -> Deck:
    basis = {"type": "gsf", "generating": {"type": "yukawa", "alpha": 0.6}, "energy": -0.9, "N": N}
    return {
        "method": "sturmian",
        "system": {"Z": 2},
        "grid": {"R": R, "order": order},
        "basis": basis if N else "fedvr",
        "channels": {"l_max": l_max},
        **more,
    }


def _collision(Z: int, R: float, l_max: int, task: Deck, **channels: Any) -> Deck:
    deck = {
        "method": "sturmian",
        "system": {"Z": Z},
        "grid": {"R": R, "order": 11, "ecs": {"angle": 0.3, "length": 20}},
        "basis": "fedvr",
        "channels": {"L": 0, "l_max": l_max, **channels},
        "task": {"type": "scatter", **task},
    }
    return deck if Z == 1 or task["process"] == "resonances" else {**deck, "initial": {"l_max": l_max}}


TABLES = {"task": {"type": "integrals"}}
PRODUCTS = {"task": {"type": "integrals", "route": "poisson_gemm"}}
ALONE = {"task": {"type": "basis", "l": [0, 1, 2]}}
E_H = {"process": "e_h", "energy": 2.0, "observables": ["sigma", "excitation"]}
PHOTO = {"process": "photo", "excess": "20 eV", "observables": ["sigma"]}
BORN = {
    "process": "born",
    "incident": "5599 eV",
    "q": 0.24,
    "ejected": ["10 eV", "10 eV"],
    "observables": ["sigma"],
}
RESONANCES = {"process": "resonances", "near": [-0.778]}
STURMIAN = {
    "bound": (_two(0, 2, 6), _two(0, 4, 16)),
    "bound, few functions": (_two(10, 2, 6), _two(40, 6, 16)),
    "bound, dense": (_two(8, 1, 6, solver="dense"), _two(36, 3, 12, solver="dense")),
    "integrals": (_two(10, 2, **TABLES), _two(80, 2, 20, **TABLES)),
    "integrals, one route": (_two(10, 2, **PRODUCTS), _two(64, 2, **PRODUCTS)),
    "basis": (_two(10, 2, 6, **ALONE), _two(60, 2, 30, R=300, **ALONE)),
    "scatter, e_h": (_collision(1, 24, 0, E_H), _collision(1, 30, 2, E_H)),
    "scatter, photo": (_collision(2, 24, 1, PHOTO, L=1), _collision(2, 24, 2, PHOTO, L=1)),
    "scatter, born": (_collision(2, 24, 1, BORN), _collision(2, 24, 2, BORN)),
    "scatter, resonances": (_collision(2, 12, 0, RESONANCES), _collision(2, 24, 2, RESONANCES)),
}


# ------------------------------------------------------------------------------------------------ qmc

ATOMS = {"He": [(1, 1.7)], "Be": [(1, 3.7), (2, 1.0)]}
VMC = {"blocks": 3, "steps": 2, "warmup": 2, "timestep": 0.1}
DMC = {"timesteps": [0.004, 0.002], "blocks": 3, "steps": 6, "warmup": 0.01, "extrapolate": "none"}
OPTIMIZE = {"iterations": 1, "steps": 3, "warmup": 2, "timestep": 0.1}


def _qmc(symbol: str, *series: Deck, sizes: tuple[int, int] = (4096, 65536), **run: Any) -> Decks:
    shells = [{"atom": symbol, "n": n, "l": 0, "zeta": zeta} for n, zeta in ATOMS[symbol]]
    (name, first), *others = (next(iter(section.items())) for section in series)
    return tuple(
        {
            "method": "qmc",
            "run": {"seed": 3, **run},
            "system": {"atoms": [[symbol, 0, 0, 0]]},
            "wavefunction": {
                "orbitals": {"source": "sto", "shells": shells},
                "jastrow": {"J1": {"rcut": 6.0, "size": 7}, "J2": {"rcut": 6.0, "size": 9}},
            },
            "series": [{name: {**first, "walkers": walkers}}, *({k: v} for k, v in others)],
        }
        for walkers in _between(sizes)
    )


def _gas(section: Deck, sizes: tuple[int, int]) -> Decks:
    ((name, block),) = section.items()
    return tuple(
        {
            "method": "qmc",
            "run": {"seed": 3},
            "system": {"electrons": 14, "rs": 5, "twist": [0, 0, 0]},
            "wavefunction": {
                "orbitals": "planewave",
                "jastrow": {"J2": {"type": "bspline", "rcut": "ws", "size": 6}},
            },
            "series": [
                {"vmc": {**VMC, "blocks": 2, "timestep": 4.0, "walkers": walkers}},
                {name: {**block, "walkers": walkers}},
            ],
        }
        for walkers in _between(sizes)
    )


QMC = {
    "vmc": _qmc("Be", {"vmc": VMC}, sizes=(4096, 131072)),
    "vmc, mixed": _qmc("Be", {"vmc": VMC}, sizes=(4096, 131072), precision="mixed"),
    "dmc": _qmc("Be", {"vmc": {**VMC, "blocks": 2}}, {"dmc": DMC}),
    "optimize": _qmc("Be", {"optimize": OPTIMIZE}),
    "crystal": _gas({"vmc": {**VMC, "timestep": 4.0}}, (256, 16384)),
    "crystal, dmc": _gas({"dmc": {**DMC, "timesteps": [0.4], "warmup": 1.0}}, (256, 8192)),
    "optimize, long": _qmc("He", {"optimize": {**OPTIMIZE, "steps": 30, "sweeps": 1}}, sizes=(2048, 32768)),
}

CASES: Mapping[tuple[str, str], Decks] = {
    (method, task): pair
    for method, pairs in (
        ("qoc", QOC),
        ("trotter", TROTTER),
        ("tridiag", TRIDIAG),
        ("sturmian", STURMIAN),
        ("qmc", QMC),
    )
    for task, pair in pairs.items()
}
"""By method and task: the decks from the smallest to the largest."""


def sizes_of(case: tuple[str, str]) -> tuple[str, ...]:
    """Return the names of the sizes of a case."""
    return ("small", "large") if len(CASES[case]) == 2 else ("small", "medium", "large")


def deck_of(case: tuple[str, str], size: str) -> Deck:
    """Return the deck of a size."""
    return CASES[case][sizes_of(case).index(size)]


def write(folder: Path, deck: Deck, name: str = "deck") -> Path:
    """Write a deck, and the start vector or the matrices that it reads, into a folder; return the path of the deck."""
    import numpy as np
    import yaml

    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(deck), encoding="utf-8")
    if deck.get("initial") == {"type": "file", "file": START}:
        spins = deck["system"]["spins"]
        np.save(folder / START, np.full(1 << spins, 2.0 ** (-spins / 2), complex))
    file = str(deck["system"].get("file", "")) if "system" in deck else ""
    if file.startswith("matrices-"):
        import h5py

        n = int(file[len("matrices-") : -len(".h5")])
        lower = np.diag(np.sqrt(np.arange(1.0, n)), 1)
        with h5py.File(folder / file, "w") as made:
            made["H0"] = np.diag(np.arange(n) - 0.03 * np.arange(n) ** 2)
            made["controls/x"] = lower + lower.T
            made["jumps/a"] = 0.1 * lower
    return path

"""Random decks of qmc with known means: a few particles around nuclei, in traps, in periodic cells; every section, all settings.

Runs are short, a few thousand generations of a few walkers, because error bars are hard where there is little data: few
walkers, few blocks, steps so small that blocks repeat each other, walkers that start far from where they belong.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.qmc.wavefunction.crystals.bloch import Crystal, KPoint
from qsim.qmc.wavefunction.formats.eshdf import write_eshdf
from qsim_checks.coverage import Claim, Kind, Trial
from qsim_checks.qmc.forces import forces
from qsim_checks.qmc.imported import draw_imported
from qsim_checks.qmc.mixtures import mixture
from qsim_checks.qmc.oracles import (
    Means,
    bloch_pair,
    electron_gas,
    expansion,
    hydrogen_ion,
    ion_pair,
    molecular_ion,
    oscillators,
    over_twists,
    pair,
    pseudo_atom,
)
from qsim_checks.qmc.states import states

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["KINDS", "trial"]

ELEMENTS = {1: "H", 2: "He", 3: "Li", 4: "Be"}
WORK = 25_000  # electron moves of a section: a tenth of a second
BANDS, CORE, ORBITALS = "bands.h5", "core.xml", "orbitals.dat"
BREAKUP = 2e-5  # hartree, relative: the division of the Coulomb potential of a few electrons
SPLINES = 1e-4  # and splines of 32 points for the longest wave
TABLES = 1e-6  # hartree, relative: errors of radial tables, and what rounding leaves of exact trial functions
NEGLIGIBLE = 0.02  # time steps in units of the time scale: their error is far below the statistical one

UNRELIABLE = {
    "vmc": r"correlation times|still drifts|warm-up is too short|hardly left their places",
    "dmc": r"correlation times|still drifts|warm-up is too short|population-control|not reliable",
}
"""Warnings with which a section takes its error bars back."""


@dataclass(frozen=True)
class _Case:
    """A system with its trial function.

    Attributes
    ----------
    system, wavefunction
        Blocks of the deck.
    means
        What is known.
    electrons
        How many.
    fitted
        Means of the trial function that a run has ended with, where an optimisation can change it.
    varied
        Class of the parameters that it changes, or classes.
    options
        More keys of an optimisation.
    write
        Writes the file that the deck reads into a folder.
    coarse
        True of a core with energies of its own, which make time steps of the outer electron coarse.
    precision
        The only one, of crystals: kernels of another take another eight seconds to compile.
    tables
        Relative error of the tables.
    """

    system: Mapping[str, Any]
    wavefunction: Mapping[str, Any]
    means: Means
    electrons: int
    fitted: Callable[[Results], Means] | None = None
    varied: str | Sequence[str] = "jastrow"
    options: Mapping[str, Any] = field(default_factory=dict)
    write: Callable[[Path], object] | None = None
    coarse: bool = False
    precision: str = ""
    tables: float = TABLES


def trial(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck over systems, trial functions and sections; the judge compares means of vmc, dmc and of estimators."""
    shares = np.array(list(MAKERS.values()))
    number = int(rng.choice(len(MAKERS), p=shares / shares.sum()))
    return _trial(rng, folder, list(MAKERS)[number])


def _trial(
    rng: np.random.Generator,
    folder: Path,
    make: Callable[[np.random.Generator], _Case],
    kinds: list[str] | None = None,
) -> Trial:
    """Draw a deck of a kind of systems, with the sections of `kinds` if they are given."""
    case = make(rng)
    if case.write is not None:
        case.write(folder)
    kinds = kinds or _kinds(rng, case)
    series = [{kind: _SECTIONS[kind](rng, case)} for kind in kinds]
    name = next(iter(case.means.density), None)
    if case.means.mesh is not None:
        name = str(rng.choice(["density_up", "sofk"]))
    measured = name is not None and bool(rng.random() < 0.4) and "dmc" not in kinds[-1:]
    estimators: list[dict[str, Any]] = []
    if measured and name == "density_up":
        estimators = [{"density": {"mesh": rng.integers(1, 5, 3).tolist()}}]
    elif measured and name == "sofk":
        estimators = [{"sofk": {}}]
    elif measured:
        key = "gofr" if name == "gofr_ud" else "radial_density"
        estimators = [
            {key: {"bins": int(rng.integers(4, 30)), "rmax": float(rng.uniform(1.0, 4.0) / _width(case))}}
        ]
    deck = {
        "run": {
            "seed": int(rng.integers(2**31)),
            "precision": case.precision or str(rng.choice(["double", "double", "mixed"])),
        },
        "system": dict(case.system),
        "wavefunction": dict(case.wavefunction),
        "series": series,
        **({"estimators": estimators} if estimators else {}),
    }
    place = float(rng.random())  # which bin is looked at
    return Trial(
        deck,
        functools.partial(
            _judge, case=case, series=series, estimator=name if measured else None, place=place
        ),
    )


def _width(case: _Case) -> float:
    """Return one over a typical distance."""
    return float(np.sqrt(case.means.scale))


# ------------------------------------------------------------------------------------------ systems


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _one_electron(rng: np.random.Generator) -> _Case:
    Z = int(rng.integers(1, 5))
    n, l = [(1, 0), (1, 0), (2, 1), (2, 0), (3, 2)][int(rng.integers(5))]
    zeta = Z / n * (1.0 if rng.random() < 0.1 else _uniform(rng, 0.6, 1.5))
    system = {"atoms": [[ELEMENTS[Z], *rng.uniform(-1, 1, 3).round(3).tolist()]], "charge": Z - 1, "spin": 1}
    # of a p or d shell, the first orbital of spin up
    rows = [[1.0] + [0.0] * (2 * l)]
    orbitals = {
        "source": "sto",
        "shells": [{"atom": ELEMENTS[Z], "n": n, "l": l, "zeta": zeta}],
        "molecular_orbitals": rows,
    }
    return _Case(system, {"orbitals": orbitals}, hydrogen_ion(Z, n, l, zeta), 1)


def _two_electrons(rng: np.random.Generator) -> _Case:
    Z = int(rng.integers(2, 5))
    zeta = (Z - 0.3125) * _uniform(rng, 0.75, 1.3)
    system = {"atoms": [[ELEMENTS[Z], 0.0, 0.0, 0.0]], "charge": Z - 2}
    orbitals = {"source": "sto", "shells": [{"atom": ELEMENTS[Z], "n": 1, "l": 0, "zeta": zeta}]}
    means = ion_pair(Z, zeta)
    if rng.random() < 0.5:
        return _Case(system, {"orbitals": orbitals, "jastrow": "none"}, means, 2)
    # only the ground state is known with a Jastrow factor
    jastrow = {"J2": {"type": "pade", "b": _uniform(rng, 0.3, 3.0)}}
    return _Case(system, {"orbitals": orbitals, "jastrow": jastrow}, Means({}, means.ground, means.scale), 2)


def _molecule(rng: np.random.Generator) -> _Case:
    zeta = _uniform(rng, 0.9, 1.6)
    system = {"atoms": [["H", 0.0, 0.0, -1.0], ["H", 0.0, 0.0, 1.0]], "charge": 1, "spin": 1}
    shells = [{"atom": "H", "n": 1, "l": 0, "zeta": zeta}]
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [[1.0, 1.0]]}
    return _Case(system, {"orbitals": orbitals}, molecular_ion(zeta), 1)


def _trap(rng: np.random.Generator) -> _Case:
    up, down = [(1, 0), (1, 1), (2, 0), (4, 1), (4, 4), (2, 1)][int(rng.integers(6))]
    omega, mass = _uniform(rng, 0.2, 4.0), [1.0, _uniform(rng, 0.3, 5.0)][int(rng.integers(2))]
    alpha = 0.5 * mass * omega * (1.0 if rng.random() < 0.05 else _uniform(rng, 0.6, 1.6))
    orbitals = {"source": "harmonic", "omega": omega, "mass": mass, "exponent": alpha}
    system = {"electrons": up + down, "spin": up - down}
    return _Case(system, {"orbitals": orbitals}, oscillators(up, down, omega, mass, alpha), up + down)


def _expansion(rng: np.random.Generator) -> _Case:
    """Draw free particles in a trap in a sum of determinants of its eigenfunctions, half of them within one level."""
    up, down = [(1, 0), (2, 0), (1, 1), (2, 1), (3, 2), (4, 1), (4, 4)][int(rng.integers(7))]
    omega, mass = _uniform(rng, 0.2, 4.0), [1.0, _uniform(rng, 0.3, 5.0)][int(rng.integers(2))]
    quanta = np.repeat([0, 1, 2, 2, 3], [1, 3, 1, 5, 3])  # of the orbitals in their order: s, p, s, d, p
    size = max(int(rng.integers(4, 14)), up + 1, down + 1)
    count = int(rng.integers(2, 25))
    rows: dict[tuple[tuple[int, ...], ...], float] = {}
    for _ in range(count):
        strings = (tuple(sorted(rng.permutation(min(size, 13))[:n].tolist())) for n in (up, down))
        rows[tuple(strings)] = float(rng.normal())
    total = {key: int(sum(quanta[o] for string in key for o in string)) for key in rows}
    if rng.random() < 0.5:
        level = next(iter(total.values()))
        rows = {key: c for key, c in rows.items() if total[key] == level}
    listed = [{"c": c, "up": list(key[0]), "down": list(key[1])} for key, c in rows.items()]
    energies = omega * np.array([total[key] + 1.5 * (up + down) for key in rows])
    means = expansion(omega, energies, np.array(list(rows.values())))
    system = {"electrons": up + down, "spin": up - down}
    orbitals = {"source": "harmonic", "omega": omega, "mass": mass}

    def fitted(results: Results) -> Means:
        return expansion(omega, energies, np.asarray(results["determinants/coefficients"]))

    wavefunction = {"orbitals": orbitals, "determinants": {"list": listed}}
    several = len(set(configurations_of(rows))) > 1
    return _Case(system, wavefunction, means, up + down, fitted if several else None, "coefficients")


def configurations_of(rows: Iterable[tuple[tuple[int, ...], ...]]) -> list[tuple[int, ...]]:
    """Return the orbitals of each determinant, of both spins together."""
    return [tuple(sorted(up + down)) for up, down in rows]


def _pair_in_a_trap(rng: np.random.Generator) -> _Case:
    """Draw two electrons in a harmonic trap, with or without their repulsion."""
    hooke = bool(rng.random() < 0.5)
    omega = 0.5 if hooke and rng.random() < 0.3 else _uniform(rng, 0.2, 3.0)
    mass = 1.0 if hooke or rng.random() < 0.5 else _uniform(rng, 0.5, 2.0)
    alpha = 0.5 * mass * omega * _uniform(rng, 0.7, 1.4)
    slope = 0.5 * mass
    orbitals: dict[str, Any] = {"source": "hooke" if hooke else "harmonic", "omega": omega, "exponent": alpha}
    if not hooke:
        orbitals |= {"mass": mass, "interacting": True}
    wavefunction: dict[str, Any] = {"orbitals": orbitals}
    system = {"electrons": 2}
    form = str(rng.choice(["none", "pade", "log1p", *(["absent"] if hooke else [])]))
    if form == "none":
        wavefunction["jastrow"] = "none"
        return _Case(system, wavefunction, pair(omega, mass, alpha, np.zeros_like), 2)
    if form in ("absent", "log1p"):
        if form == "log1p":
            wavefunction["jastrow"] = {"J2": {"type": "log1p"}}
        return _Case(system, wavefunction, pair(omega, mass, alpha, lambda r: -np.log1p(slope * r)), 2)
    b = _uniform(rng, 0.1, 3.0)
    wavefunction["jastrow"] = {"J2": {"type": "pade", "b": b}}

    def means(b: float) -> Means:
        return pair(omega, mass, alpha, lambda r: -slope * r / (1.0 + b * r))

    def fitted(results: Results) -> Means:
        return means(float(results["jastrow/ud/coefficients"][0]))

    return _Case(system, wavefunction, means(b), 2, fitted)


def _lattice(rng: np.random.Generator) -> np.ndarray:
    """Draw a skewed lattice, bohr."""
    return np.asarray(_uniform(rng, 3.0, 8.0) * (np.eye(3) + rng.uniform(-0.25, 0.25, (3, 3))))


def _pseudo_atom(rng: np.random.Generator) -> _Case:
    """Draw one electron around a pseudopotential with a repulsive core, in an s function that is good or bad there."""
    core, width = _uniform(rng, 0.5, 20.0), _uniform(rng, 0.4, 2.5)
    inner, zeta = _uniform(rng, 0.3, 2.0), _uniform(rng, 0.3, 1.0)

    def local(r: np.ndarray) -> np.ndarray:
        return np.expm1(-inner * r * r) / r

    def s(r: np.ndarray) -> np.ndarray:
        return local(r) + core * np.exp(-width * r * r)

    system = {"atoms": [["Na", 0.0, 0.0, 0.0]], "spin": 1, "pseudopotentials": {"Na": CORE}}
    orbitals = {"source": "sto", "shells": [{"atom": "Na", "n": 1, "l": 0, "zeta": zeta}]}
    return _Case(
        system,
        {"orbitals": orbitals, "jastrow": "none"},
        pseudo_atom(1.0, local, s, zeta),
        1,
        write=functools.partial(_write_core, channels=(s, local)),
        coarse=True,
        tables=1e-5,
    )


def _write_core(folder: Path, channels: tuple[Callable[[np.ndarray], np.ndarray], ...]) -> None:
    """Write a pseudopotential of charge 1, s and the local p, in the FSATOM format."""
    r = np.linspace(0.0, 10.0, 4001)
    found = []
    for letter, potential in zip("sp", channels, strict=True):
        values = np.concatenate([[0.0], r[1:] * potential(r[1:])])
        data = " ".join(f"{x:.14e}" for x in values)
        found.append(f'<vps l="{letter}" cutoff="10"><radfunc><data>{data}</data></radfunc></vps>')
    (folder / CORE).write_text(
        '<pseudo><header symbol="Na" atomic-number="11" zval="1"/><grid type="linear" units="bohr" ri="0" rf="10" npts="4001"/>'
        f'<semilocal units="hartree" format="r*V" npots-down="2" l-local="1">{"".join(found)}</semilocal></pseudo>'
    )


def _twists(rng: np.random.Generator, several: bool) -> tuple[list[np.ndarray], list[float]]:
    """Draw up to three twists and their weights."""
    count = int(rng.choice([2, 3] if several else [1, 1, 2, 3]))
    return list(rng.uniform(-0.5, 0.5, (count, 3))), [_uniform(rng, 0.1, 10.0) for _ in range(count)]


def _asked(twists: list[np.ndarray], weights: list[float]) -> dict[str, Any]:
    """Return the keys of twists in a deck."""
    if len(twists) == 1:
        return {"twist": twists[0].tolist()}
    return {"twists": [{"twist": t.tolist(), "weight": w} for t, w in zip(twists, weights, strict=True)]}


def _electron_gas(rng: np.random.Generator, several: bool = False) -> _Case:
    """Draw electrons in plane waves: real determinants of one each at Gamma, complex ones at any twist."""
    while True:
        lattice, (twists, weights) = _lattice(rng), _twists(rng, several)
        up, down = [(1, 1), (2, 0), (2, 1), (3, 3), (4, 2)][int(rng.integers(5))]
        if rng.random() < 0.3:
            twists, up, down = [np.zeros(3), *twists[1:]], 1, 1
        found = [electron_gas(lattice, twist, up, down) for twist in twists]
        means = [one for one in found if one is not None]
        if len(means) == len(twists):
            break
    # the kinetic energy of one twist has no variance and no error: it would count as a claim that always holds
    means = [
        replace(one, trial={name: x for name, x in one.trial.items() if name != "kinetic"}) for one in means
    ]
    system = {
        "lattice": lattice.tolist(),
        "electrons": up + down,
        "spin": up - down,
        **_asked(twists, weights),
    }
    return _Case(
        system,
        {"orbitals": "planewave", "jastrow": "none"},
        over_twists(means, weights),
        up + down,
        precision="double",
        tables=BREAKUP,
    )


def _bloch_pair(rng: np.random.Generator, several: bool = False) -> _Case:
    """Draw two electrons among two protons, at each twist in one Bloch function of two waves from a file of bands."""
    lattice, (twists, weights) = _lattice(rng), _twists(rng, several)
    m = np.array([(1, 0, 0), (0, 1, 1), (1, -1, 0), (1, 1, 1)][int(rng.integers(4))])
    places = (np.array([[0.1, 0.2, 0.3], [0.6, 0.5, 0.9]]) + rng.uniform(-0.1, 0.1, (2, 3))) @ lattice
    points, means = [], []
    for twist in twists:
        share, phase = float(rng.uniform(0.05, 0.45)), float(rng.uniform(0.0, 2.0 * np.pi))
        other = np.array([np.sqrt(share), -np.sqrt(1.0 - share) * np.exp(1j * phase)])
        bands = np.array([[np.sqrt(1.0 - share), np.sqrt(share) * np.exp(1j * phase)], other])
        points.append(KPoint(twist, np.array([[0, 0, 0], m]), np.array([[0.0, 1.0]]), bands[None]))
        means.append(bloch_pair(lattice, twist, places, m, share, phase))
    crystal = Crystal(lattice, ("H", "H"), places, {"H": 1.0}, tuple(points), "coverage")
    return _Case(
        {"cell": "periodic", **_asked(twists, weights)},
        {"orbitals": {"source": "eshdf", "file": BANDS, "meshfactor": 8.0}, "jastrow": "none"},
        over_twists(means, weights),
        2,
        write=lambda folder: write_eshdf(folder / BANDS, crystal, (1, 1)),
        precision="double",
        tables=SPLINES,
    )


def _from_file(rng: np.random.Generator) -> _Case:
    """Draw a molecule in random orbitals of a file of another program; their cusps stay as they are."""
    molecule, source, program = draw_imported(rng)
    write = {
        "molden": lambda path: molecule.write_molden(path, program),
        "chkfile": molecule.write_chkfile,
        "qmcpack": molecule.write_qmcpack,
        "trexio": molecule.write_trexio,
    }[source]
    return _Case(
        {key: value for key, value in molecule.system.items() if rng.random() < 0.4},
        {"orbitals": {"source": source, "file": ORBITALS, "cusp": False}, "jastrow": "none"},
        molecule.means,
        molecule.up + molecule.down,
        write=lambda folder: write(folder / ORBITALS),
        tables=1e-5,
    )


# ----------------------------------------------------------------------------------------- sections


def _kinds(rng: np.random.Generator, case: _Case) -> list[str]:
    """Draw the sections; those whose means nobody knows are of no use."""
    if not case.means.trial:
        return ["vmc", "dmc"]
    if not np.isfinite(case.means.ground):
        choices = [["vmc"], ["vmc", "vmc"]]
        if case.fitted is not None:
            choices += [["optimize"], ["optimize", "vmc"]]
        return choices[int(rng.integers(len(choices)))]
    choices = [["vmc"], ["vmc"], ["vmc", "vmc"], ["dmc"], ["vmc", "dmc"], ["dmc", "vmc"]]
    if case.fitted is not None:
        choices += [["optimize"], ["optimize", "vmc"], ["optimize", "vmc"], ["optimize", "vmc", "dmc"]]
    return choices[int(rng.integers(len(choices)))]


def _vmc(rng: np.random.Generator, case: _Case) -> dict[str, Any]:
    walkers = int(_uniform(rng, 2, 400))
    blocks = int(_uniform(rng, 20, 200))
    sweeps = int(rng.choice([1, 1, 2, 5]))
    most = max(1.0, WORK / (walkers * blocks * sweeps * case.electrons))
    return {
        "walkers": walkers,
        "blocks": blocks,
        "steps": int(_uniform(rng, max(1.0, 0.1 * most), most + 1e-9)),
        "sweeps": sweeps,
        "warmup": int(rng.choice([0, 20, 100, 200, 200, 400])),
        "timestep": _uniform(rng, 0.08, 2.0) / case.means.scale,
        "move": str(rng.choice(["drift", "drift", "metropolis"])),
    }


def _dmc(rng: np.random.Generator, case: _Case) -> dict[str, Any]:
    """Draw a section of diffusion with one to four time steps, of any length."""
    count = int(rng.choice([1, 2, 3, 3, 4][case.coarse :]))  # one step makes an error that nobody claims
    blocks = int(_uniform(rng, 20, 80))
    largest = _uniform(rng, 0.01, 0.3) if case.coarse else _uniform(rng, 0.05, 1.4)
    if count == 1:
        largest = NEGLIGIBLE
    taus = [largest / 2.0**k / case.means.scale for k in range(count)]
    # imaginary time in units of the time scale: some runs are shorter than their correlation allows
    generations = _uniform(rng, 40.0, 300.0) / (0.7 * largest)
    steps = max(1, round(min(generations, 3000.0 / count) / blocks))
    walkers = min(
        200, max(12, round(_uniform(rng, 0.3, 1.5) * WORK / (count * blocks * steps * case.electrons)))
    )
    block: dict[str, Any] = {
        "walkers": walkers,
        "blocks": blocks,
        "steps": steps,
        "timesteps": taus,
        "warmup": float(rng.choice([3.0, 6.0, 12.0])) / case.means.scale,
        "population": str(rng.choice(["comb", "comb", "birth_death"])),
        "branch_every": int(rng.choice([1, 5, 5, 20])),
    }
    if count > 2 and rng.random() < 0.3:
        block["extrapolate"] = "quadratic"
    return block


def _optimize(rng: np.random.Generator, case: _Case) -> dict[str, Any]:
    return {
        "walkers": int(_uniform(rng, 20, 150)),
        "iterations": int(rng.integers(1, 4)),
        "steps": int(rng.integers(2, 8)),
        "parameters": case.varied,
        **case.options,
        "target": str(rng.choice(["energy", "variance", "mixed"])),
        "timestep": _uniform(rng, 0.2, 1.5) / case.means.scale,
        "warmup": int(rng.choice([50, 100])),
    }


_SECTIONS = {"vmc": _vmc, "dmc": _dmc, "optimize": _optimize}


# -------------------------------------------------------------------------------------------- judge


def _judge(
    results: Results, *, case: _Case, series: list[dict[str, Any]], estimator: str | None, place: float
) -> list[Claim]:
    """Compare what a run found with what is known; numbers without an error claim nothing."""
    means = case.means
    kinds = [next(iter(item)) for item in series]
    if case.fitted is not None and "optimize" in kinds:
        means = case.fitted(results)
    known: dict[str, float] = {}
    for kind in ("optimize", "vmc"):
        if kind in kinds:
            # energies and their parts fluctuate together, and counts want claims that do not: one of a section
            names: tuple[str, ...] = (
                ("energy", "variance") if kind == "optimize" else ("energy", "kinetic", "variance")
            )
            if "energy" not in means.trial:  # of several electrons in orbitals of a file
                names = ("kinetic", "local_pp")
            names = tuple(name for name in names if name in means.trial)
            if names:
                name = names[int(place * 1009) % len(names)]
                known[f"{kind}_{name}"] = means.trial[name]
    if "dmc" in kinds:
        taus = series[kinds.index("dmc")]["dmc"]["timesteps"]
        known["dmc_energy" if len(taus) == 1 else "dmc_energy_extrapolated"] = means.ground
    claims = []
    for name, value in known.items():
        scalar = results.scalars.get(name)
        if scalar is not None and scalar.error is not None and isinstance(scalar.value, float):
            size = case.tables * max(1.0, abs(value), means.scale)
            claims.append(
                Claim(
                    name,
                    scalar.value - value,
                    float(scalar.error),
                    oracle=size,
                    warning=_withdrawing(series, name.split("_")[0]),
                    statistical=True,
                )
            )
    if estimator is not None and kinds[-1] == "vmc":
        judge = _of_crystal if means.mesh is not None else _bin
        claims += judge(
            results, f"series_{len(kinds) - 1}/", means, estimator, place, _withdrawing(series, "vmc")
        )
    return claims


def _withdrawing(series: list[dict[str, Any]], kind: str) -> str:
    """Return the pattern of warnings about the last section of a kind, from which its results are; others say nothing of it."""
    if kind == "optimize":
        return "(?!)"
    block = next(item[kind] for item in reversed(series) if kind in item)
    taus = block["timesteps"] if kind == "dmc" else [block["timestep"]]
    labels = "|".join(re.escape(f"{kind}, tau = {tau:g}") for tau in taus)
    pattern = f"({labels}): .*({UNRELIABLE[kind]})"
    return f"{pattern}|extrapolation is not reliable" if kind == "dmc" else pattern


def _of_crystal(
    results: Results, group: str, means: Means, name: str, place: float, warning: str
) -> list[Claim]:
    """Judge one cell of the mesh of a density, or one wave of a structure factor."""
    found = np.asarray(results[group + name])
    if name == "sofk":
        lengths = np.asarray(results[group + "sofk_k"])
        known = np.ones_like(lengths)
        for k, value in means.structure.items():
            known[np.abs(lengths - k) < 1e-6] = value
        at = {float(k) for k in lengths[known != 1.0]}  # one of the waves that matter, if there is one
        choices = [k for k, length in enumerate(lengths) if float(length) in at] or list(range(len(lengths)))
    else:
        assert means.mesh is not None
        known = means.mesh(found.shape).ravel()
        choices = list(range(known.size))
    k = choices[int(place * len(choices))]
    error = float(np.asarray(results[f"{group}{name}_error"]).ravel()[k])
    if not np.isfinite(error) or (found.size == 1 and name != "sofk"):  # all electrons in one cell
        return []
    difference = float(found.ravel()[k] - known[k])
    return [
        Claim(name, difference, error, oracle=1e-6 * abs(float(known[k])), warning=warning, statistical=True)
    ]


def _bin(results: Results, group: str, means: Means, name: str, place: float, warning: str) -> list[Claim]:
    """Judge one bin of an estimator, drawn by its population."""
    from scipy.integrate import quad

    r = np.asarray(results[group + ("gofr_r" if name == "gofr_ud" else "radial_r")])
    width = 2.0 * float(r[0])
    by_length = means.density[name]
    inside = np.array([quad(by_length, x - 0.5 * width, x + 0.5 * width)[0] for x in r])
    k = int(np.searchsorted(np.cumsum(inside), place * inside.sum()))
    volume = 4.0 * np.pi / 3.0 * ((r[k] + 0.5 * width) ** 3 - (r[k] - 0.5 * width) ** 3)
    value = float(np.asarray(results[group + name]).reshape(-1)[k])
    error = float(np.asarray(results[f"{group}{name}_error"]).reshape(-1)[k])
    if not np.isfinite(error):
        return []
    true = float(inside[k] / volume)
    return [Claim(name, value - true, error, oracle=1e-6 * true, warning=warning, statistical=True)]


OPEN = {
    _one_electron: 0.2,
    _two_electrons: 0.18,
    _molecule: 0.07,
    _trap: 0.17,
    _expansion: 0.06,
    _pair_in_a_trap: 0.12,
    _pseudo_atom: 0.08,
}
MAKERS = {**OPEN, _electron_gas: 0.06, _bloch_pair: 0.06}
"""Kinds of systems that are drawn, with their shares; those of `OPEN` have no cell."""


def _extrapolated(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of one or two electrons whose diffusion is extrapolated to zero time step, half of them with a core."""
    makers = [_pseudo_atom, _pseudo_atom, _one_electron, _molecule]
    return _trial(rng, folder, makers[int(rng.integers(len(makers)))], ["vmc", "dmc"])


def _twisted(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of a periodic cell with two or three twists of unequal weights."""
    make = _bloch_pair if rng.random() < 0.5 else _electron_gas
    return _trial(rng, folder, functools.partial(make, several=True))


def _several_configurations(rng: np.random.Generator) -> _Case:
    """Draw an expansion whose coefficients can be optimised."""
    while True:
        case = _expansion(rng)
        if case.fitted is not None:
            return case


def _mixed(rng: np.random.Generator) -> _Case:
    """Draw free particles in a trap in one or several determinants of oscillator functions of any width, which can mix."""
    up, down = [(1, 0), (2, 0), (1, 1), (2, 1), (3, 2), (4, 1), (3, 3)][int(rng.integers(7))]
    omega, mass = _uniform(rng, 0.2, 4.0), [1.0, _uniform(rng, 0.3, 5.0)][int(rng.integers(2))]
    alpha = 0.5 * mass * omega * _uniform(rng, 0.8, 1.25)
    size = max(int(rng.integers(2, 7)), up, down)
    rows: dict[tuple[tuple[int, ...], ...], float] = {(tuple(range(up)), tuple(range(down))): 1.0}
    several = bool(rng.random() < 0.7)
    for _ in range(int(rng.integers(1, 8)) if several else 0):
        strings = (tuple(sorted(rng.permutation(size)[:n].tolist())) for n in (up, down))
        rows.setdefault(tuple(strings), float(rng.normal(scale=0.3)))
    several = len(rows) > 1
    listed = [{"c": c, "up": list(key[0]), "down": list(key[1])} for key, c in rows.items()]
    orbitals = {"source": "harmonic", "omega": omega, "mass": mass, "exponent": alpha}
    trap = alpha, omega, mass

    def means(c: Sequence[float], numbers: Sequence[Sequence[int]], shares: Sequence[np.ndarray]) -> Means:
        terms = [(float(x), key[0], key[1]) for x, key in zip(c, rows, strict=True)]
        energy, variance = mixture(trap, terms, numbers, shares)
        return Means({"energy": energy, "variance": variance}, float("nan"), omega)

    def fitted(results: Results) -> Means:
        c = np.asarray(results["determinants/coefficients"]).tolist() if several else [1.0]
        numbers = [np.asarray(results[f"orbitals/numbers_{spin}"]).tolist() for spin in ("up", "down")]
        return means(c, numbers, [np.asarray(results[f"orbitals/shares_{spin}"]) for spin in ("up", "down")])

    every = [sorted({o for key in rows for o in key[spin]}) for spin in range(2)]
    wavefunction: dict[str, Any] = {"orbitals": orbitals, "jastrow": "none"}
    if several:
        wavefunction["determinants"] = {"list": listed}
    tied = len(set(configurations_of(rows))) > 1
    return _Case(
        {"electrons": up + down, "spin": up - down},
        wavefunction,
        means(list(rows.values()), every, [np.eye(len(one)) for one in every]),
        up + down,
        fitted,
        ["orbitals", "coefficients"] if tied and rng.random() < 0.5 else "orbitals",
        options={
            "virtual": int(rng.integers(1, 7)),
            "symmetry": bool(rng.random() < 0.5),
            "walkers": int(_uniform(rng, 60, 200)),
            "steps": int(rng.integers(5, 10)),
        },
    )


def _orbitals(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of free particles in a trap that optimises the orbitals of their determinants."""
    kinds = [["optimize"], ["optimize", "vmc"]][int(rng.integers(2))]
    return _trial(rng, folder, _mixed, kinds)


def _coefficients(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of free particles in a trap that optimises the coefficients of their determinants."""
    kinds = [["optimize"], ["optimize", "vmc"]][int(rng.integers(2))]
    return _trial(rng, folder, _several_configurations, kinds)


def _imported(rng: np.random.Generator, folder: Path) -> Trial:
    """Draw a deck of orbitals from a file of another program."""
    return _trial(rng, folder, _from_file)


KINDS: Mapping[str, Kind] = {
    **{make.__name__.strip("_"): functools.partial(_trial, make=make) for make in MAKERS},
    "extrapolated": _extrapolated,
    "twists": _twisted,
    "coefficients": _coefficients,
    "orbitals": _orbitals,
    "forces": functools.partial(forces, write_core=_write_core),
    "imported": _imported,
    "states": states,
}
"""Kinds of decks that can be drawn alone."""

r"""Random molecules of one electron with known forces: two centres, bonding or with a node between them, bare or with a core.

The trial function :math:`c_ae^{-\zeta_ar_a}+c_be^{-\zeta_br_b}` is no eigenfunction, its node is where nothing else vanishes, and
its energy at fixed coefficients is an integral in elliptic coordinates; with a pseudopotential a double integral more.  The force
is its derivative along the bond, and zero across.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qsim_checks.coverage import Claim, Trial

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["energy_of_two_centres", "force_of_two_centres", "forces"]

ORACLE = 1e-6  # hartree/bohr: quadrature, tables of radial functions
WORK = 60_000  # configurations
LINE, LINE_WEIGHTS = np.polynomial.legendre.leggauss(80)
TAIL, TAIL_WEIGHTS = np.polynomial.laguerre.laggauss(60)
Radial = Callable[[np.ndarray], np.ndarray]


def energy_of_two_centres(
    R: float,
    charges: tuple[float, float],
    c: np.ndarray,
    zetas: np.ndarray,
    core: tuple[Radial, Radial] | None = None,
) -> float:
    r"""Return the energy of :math:`c_ae^{-\zeta_ar_a}+c_be^{-\zeta_br_b}`, repulsion of the charges included, hartree.

    Parameters
    ----------
    R
        Distance, bohr.
    charges
        Of the centres.
    c, zetas : (2,) float64
        Coefficients and exponents.
    core
        Of the first centre instead of its charge: a local potential, and what is added to it for s functions.
    """
    # r_a = R (x + y) / 2, r_b = R (x - y) / 2, with x from 1 on and y between -1 and 1.
    x = 1.0 + TAIL[:, None] / (R * zetas.min())
    weight = (TAIL_WEIGHTS * np.exp(TAIL))[:, None] * LINE_WEIGHTS / (R * zetas.min())
    weight = weight * (x**2 - LINE**2) * R**3 / 8.0 * 2.0 * np.pi
    r = np.stack([0.5 * R * (x + LINE), 0.5 * R * (x - LINE)])
    parts = c[:, None, None] * np.exp(-zetas[:, None, None] * r)
    psi = parts.sum(axis=0)
    kinetic = -0.5 * ((zetas[:, None, None] ** 2 - 2.0 * zetas[:, None, None] / r) * parts).sum(axis=0)
    attraction = -charges[1] / r[1] + (-charges[0] / r[0] if core is None else core[0](r[0]))
    norm = float((weight * psi**2).sum())
    energy = float((weight * psi * (kinetic + attraction * psi)).sum())
    if core is not None:
        # <psi|dV|psi> of the s part: the mean of psi over spheres around the first centre.
        s, ds = 4.0 * (1.0 + LINE), 4.0 * LINE_WEIGHTS
        away = np.sqrt(s[:, None] ** 2 + R**2 - 2.0 * s[:, None] * R * LINE)
        mean = c[0] * np.exp(-zetas[0] * s) + c[1] * 0.5 * (np.exp(-zetas[1] * away) @ LINE_WEIGHTS)
        energy += float((ds * 4.0 * np.pi * s**2 * core[1](s) * mean**2).sum())
    return energy / norm + charges[0] * charges[1] / R


def force_of_two_centres(
    R: float,
    charges: tuple[float, float],
    c: np.ndarray,
    zetas: np.ndarray,
    core: tuple[Radial, Radial] | None = None,
) -> float:
    """Return minus the derivative of :func:`energy_of_two_centres` by the distance: the force on the second centre, outwards."""
    h, total = 1e-3 * R, 0.0
    for k, weight in ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12)):
        total += weight * energy_of_two_centres(R + k * h, charges, c, zetas, core)
    return -total / h


def forces(rng: np.random.Generator, folder: Path, write_core: Callable[..., object]) -> Trial:
    """Draw a deck of one electron at two nuclei, and judge a component of a force.

    Parameters
    ----------
    rng, folder
        As for any kind.
    write_core
        Writes the channels of a pseudopotential into the folder.
    """
    R, zetas = float(rng.uniform(1.3, 4.0)), rng.uniform(0.7, 1.6, 2)
    charges = [1.0, float(rng.integers(1, 3))]
    symbols = ["H", {1.0: "H", 2.0: "He"}[charges[1]]]
    # Slater functions are normalised in the program.
    rows = np.array([1.0, rng.uniform(0.5, 1.5) * rng.choice([-1.0, 1.0])])
    system: dict[str, object] = {}
    core = None
    if rng.random() < 0.35:
        inner, height, width = rng.uniform(0.5, 2.0), rng.uniform(0.5, 4.0), rng.uniform(0.5, 1.5)

        def local(r: np.ndarray) -> np.ndarray:
            return np.asarray(np.expm1(-inner * r * r) / r)

        def added(r: np.ndarray) -> np.ndarray:
            return np.asarray(height * np.exp(-width * r * r))

        core = (local, added)
        write_core(folder, (lambda r: local(r) + added(r), local))
        symbols[0] = "Na"
        system["pseudopotentials"] = {"Na": "core.xml"}
    c = rows * np.sqrt(zetas**3 / np.pi)
    along = force_of_two_centres(R, (charges[0], charges[1]), c, zetas, core)
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    places = rng.uniform(-1.0, 1.0, 3) + np.outer([0.0, R], axis)
    atoms = [[s, *place.tolist()] for s, place in zip(symbols, places, strict=True)]
    system |= {"atoms": atoms, "charge": int(sum(charges)) - 1, "spin": 1}
    # With one species for both atoms a shell stands at each of them.
    shells = [{"atom": k, "n": 1, "l": 0, "zeta": float(z)} for k, z in enumerate(zetas)]
    orbitals = {"source": "sto", "shells": shells, "molecular_orbitals": [rows.tolist()]}
    walkers, blocks = int(rng.integers(50, 400)), int(rng.integers(20, 60))
    steps = max(1, round(WORK / (walkers * blocks)))
    key: dict[str, object] = (
        {"regularise": float(rng.choice([0.02, 0.05, 0.1]))} if rng.random() < 0.6 else {}
    )
    deck = {
        "run": {"seed": int(rng.integers(2**31))},
        "system": system,
        "wavefunction": {"orbitals": orbitals, "jastrow": "none"},
        "series": [{"vmc": {"walkers": walkers, "blocks": blocks, "steps": steps, "sweeps": 2}}],
        "estimators": [{"forces": key}],
    }
    truth = np.outer([-along, along], axis)
    return Trial(
        deck, functools.partial(_judge, truth=truth, atom=int(rng.integers(2)), xyz=int(rng.integers(3)))
    )


def _judge(results: Results, *, truth: np.ndarray, atom: int, xyz: int) -> list[Claim]:
    """Compare a component, and the net force, which vanishes."""
    found, error = (np.asarray(results[f"series_0/{name}"]) for name in ("force", "force_error"))
    if not np.isfinite(error[atom, xyz]):
        return []
    return [
        Claim(
            "force",
            float(found[atom, xyz] - truth[atom, xyz]),
            float(error[atom, xyz]),
            oracle=ORACLE,
            warning=r"correlation times|still drifts|warm-up is too short|hardly left their places",
            statistical=True,
        )
    ]

"""Random decks over what the deck language allows, hard cases on purpose: coarse grids, small boxes, potentials with edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Model", "basis", "bound", "extrapolated", "integrals"]

FIRST, LAST = 0.001, 20.0  # first and last row of a generating potential, bohr and in lengths of its decay
MOST_WORK = 6e6  # pairs times roots times cubed radial functions of a deck


@dataclass(frozen=True, eq=False)
class Model:
    """One-body potential of a deck, as the oracle sees it.

    Attributes
    ----------
    block
        ``system.potential`` of the deck; None for the nucleus alone.
    Z : float
        Charge of the nucleus.
    charge : float
        Scale of lengths, 1/bohr.
    value
        V(r), hartree.
    breaks : tuple of float
        Where V is not smooth, bohr.
    known
        Name of an exactly known family: ``coulomb``, ``oscillator`` or nothing.
    outer : float or None
        Charge far outside, or what acts like it; None: Z.
    rate : float
        Of functions whose generating potential may be a table, 1/bohr.
    """

    block: dict[str, Any] | None
    Z: float
    charge: float
    value: Callable[[Array], Array]
    breaks: tuple[float, ...] = ()
    known: str = ""
    outer: float | None = None
    rate: float = 0.0

    @property
    def far(self) -> float:
        """Charge that one electron sees far outside, where the other one screens it by 1; a guess."""
        return max((self.Z if self.outer is None else self.outer) - 1.0, 0.35)


def _coin(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def _pick(rng: np.random.Generator, *values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def _log(rng: np.random.Generator, low: float, high: float, digits: int = 4) -> float:
    return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.{digits}g}")


# ------------------------------------------------------------------------------------------- potentials


def _formula(text: str, Z: float, charge: float, value: Callable[[Array], Array], *breaks: float) -> Model:
    return Model({"type": "expression", "value": text}, Z, charge, value, breaks)


def _screened(rng: np.random.Generator, Z: float) -> Model:
    a = _log(rng, 0.02, 0.3 * Z)
    made = _formula(f"-Z*exp(-{a}*r)/r", Z, Z, lambda r: -Z * np.exp(-a * r) / r)
    return replace(made, outer=max(Z - 3.0 * a, 1.2))


def _core(rng: np.random.Generator, Z: float) -> Model:
    a = _log(rng, 0.5, 4.0 * Z)
    text = f"-(2 + (Z - 2)*exp(-{a}*r))/r"
    return replace(_formula(text, Z, Z, lambda r: -(2.0 + (Z - 2.0) * np.exp(-a * r)) / r), outer=2.0)


def _step(rng: np.random.Generator, Z: float) -> Model:
    h, a = round(rng.uniform(-1.5, 1.5) * Z, 3), _log(rng, 0.1, 4.0)
    text = f"-Z/r + ({h})*heaviside({a} - r)"
    return _formula(text, Z, Z, lambda r: -Z / r + h * np.heaviside(a - r, 0.5), a)


def _shell(rng: np.random.Generator, Z: float) -> Model:
    h, a, w = round(rng.uniform(-3.0, 3.0) * Z, 3), _log(rng, 0.2, 4.0), _log(rng, 0.01, 0.5)
    near = tuple(a + k * w for k in (-4.0, -1.5, 0.0, 1.5, 4.0))
    text = f"-Z/r + ({h})*exp(-((r - {a})/{w})^2)"
    return _formula(text, Z, Z, lambda r: -Z / r + h * np.exp(-(((r - a) / w) ** 2)), *near)


def _soft(rng: np.random.Generator, Z: float) -> Model:
    a = _log(rng, 0.02, 1.0)
    text = f"-Z/sqrt(r^2 + {a}^2)"
    return _formula(text, Z, Z / (1.0 + a), lambda r: -Z / np.sqrt(r**2 + a**2), a, 3.0 * a)


def _oscillator(rng: np.random.Generator, _: float) -> Model:
    omega = _pick(rng, 0.1, 0.5, _log(rng, 0.1, 1.0))
    block = {"type": "expression", "value": f"0.5*({omega}*r)^2"}
    return Model(
        block, 1.0, 2.0 * math.sqrt(omega), lambda r: 0.5 * (omega * r) ** 2, (), f"oscillator {omega}"
    )


def _table(rng: np.random.Generator, Z: float, folder: Path) -> Model:
    rows, a = int(rng.integers(12, 60)), _log(rng, 0.3, 2.0)
    r = np.geomspace(0.01, rng.uniform(4.0, 12.0), rows)

    def charge(x: Array) -> Array:
        return np.asarray(1.5 + (Z - 1.5) * np.exp(-a * np.clip(x, r[0], r[-1])), float)

    file = folder / "potential.csv"
    np.savetxt(file, np.stack([r, -charge(r) / r], axis=1), delimiter=",", header="r,V", fmt="%.15e")
    # what the rows sample, and further inwards its tangent
    slope = a * (Z - 1.5) * math.exp(-a * r[0])

    def value(x: Array) -> Array:
        return np.asarray((slope * np.minimum(x - r[0], 0.0) - charge(x)) / x, float)

    return Model({"type": "table", "file": file.name}, Z, Z, value, (float(r[0]), float(r[-1])), "", 1.5)


def _model(rng: np.random.Generator, folder: Path) -> Model:
    Z = float(_pick(rng, 1, 2, 2, 2, 3, 4, round(rng.uniform(1.2, 9.0), 2)))
    kind = rng.random()
    if kind < 0.55:
        return Model(None, Z, Z, lambda r: -Z / r, (), "coulomb")
    Z = max(Z, 2.0)
    if kind < 0.63:
        return _table(rng, Z, folder)
    return _pick(rng, _screened, _core, _step, _step, _shell, _shell, _soft, _oscillator)(rng, Z)


# ----------------------------------------------------------------------------------------- grid and basis


def _grid(rng: np.random.Generator, size: float) -> Any:
    """Draw a grid for a state that needs a box of `size` bohr."""
    kind = rng.random()
    if kind < 0.2:
        return "auto"
    R = round(size * _log(rng, 0.9, 1.8), 3)
    order = int(_pick(rng, 3, 4, 5, 6, 8, 8, 10, 12, 12, 15, 20))
    if kind < 0.35:
        return {"R": "auto", "order": order}
    if kind < 0.6:
        return {"R": R, "order": order}
    if kind < 0.85:
        most = max(2, 130 // order)
        return {"R": R, "order": order, "elements": int(rng.integers(1, most + 1))}
    count = int(rng.integers(2, max(3, 130 // order)))
    bounds = np.sort(R * rng.uniform(0.0, 1.0, count) ** _pick(rng, 1, 2, 3))
    return {"order": order, "elements": [*(float(f"{b:.5g}") for b in bounds), R]}


def _generating(rng: np.random.Generator, rate: float, folder: Path) -> Any:
    kind = _pick(rng, "yukawa", "yukawa", "hulthen", "exponential", "coulomb", "square_well", "table")
    if kind == "coulomb":
        return "coulomb"
    if kind == "square_well":
        return {"type": kind, "r0": round(3.0 / rate, 3), "tail": _pick(rng, 0.0, round(1.0 / rate, 3))}
    if kind == "table":
        # few rows leave the curve open
        r = np.geomspace(FIRST, LAST / rate, int(rng.integers(10, 90)))
        np.savetxt(folder / "generating.dat", np.stack([r, tabulated(rate, r) / r], axis=1))
        return {"type": kind, "file": "generating.dat"}
    return {"type": kind, "alpha": "auto" if _coin(rng, 0.6) else float(f"{rate * _log(rng, 0.2, 1.0):.4g}")}


def tabulated(rate: float, r: Array) -> Array:
    """Return what a table of a generating potential samples, r v(r)."""
    return np.asarray(np.exp(-0.5 * rate * np.maximum(r, FIRST)), float)


def _basis(rng: np.random.Generator, rate: float, folder: Path, harmonic: bool) -> Any:
    """Draw a basis for a state that falls off like exp(-rate r)."""
    if _coin(rng, 0.4):
        return "fedvr"
    energy = -0.5 * rate**2 * _log(rng, 0.3, 5.0)
    automatic = _coin(rng, 0.4) and not harmonic
    block: dict[str, Any] = {
        "type": "gsf",
        "generating": _generating(rng, rate, folder),
        "energy": "auto" if automatic else float(f"{energy:.4g}"),
        "N": int(rng.integers(3, 26)),
    }
    if _coin(rng, 0.15):
        block["N"] = [int(n) for n in rng.integers(3, 22, size=3)]
    if _coin(rng, 0.1):
        block["auxiliary"] = {"charge": round(rng.uniform(0.0, 2.0), 2)}
    return block


def _affordable(rng: np.random.Generator, deck: dict[str, Any], rate: float) -> Any:
    """Return the grid of a deck, with a lower order where the run would take long, mostly finer where it would be refused."""
    grid: dict[str, Any] = {"R": "auto", "order": 12} if deck["grid"] == "auto" else dict(deck["grid"])
    grid.setdefault("R", grid["elements"][-1] if isinstance(grid.get("elements"), list) else "auto")
    R = 16.0 / rate if grid["R"] == "auto" else float(grid["R"])
    given = grid.get("elements", "auto")
    rule = math.log1p(2.0 * min(R, 16.0) * deck["system"]["Z"]) / math.log(1.4) + max(R - 16.0, 0.0) / 5.0
    elements = rule
    if given != "auto":
        elements = float(len(given) if isinstance(given, list) else given)
    waves = 1.5 * R * rate / math.pi
    if deck["basis"] != "fedvr" and elements * (grid["order"] - 1) < 5.0 * waves and _coin(rng, 0.8):
        grid.pop("elements", None)
        elements = rule
        grid["order"] = max(grid["order"], 8)
    pairs = deck["channels"].get("l_max", 2) + 1
    most = (MOST_WORK / (pairs * deck["task"]["n_roots"])) ** (1.0 / 3.0)
    if elements * (grid["order"] + 2) <= most:
        return deck["grid"] if deck["grid"] == "auto" else grid
    order = int(most / elements) - 2
    if order >= 5:
        return {**grid, "order": order}
    return {"R": grid["R"], "order": 5}


# ------------------------------------------------------------------------------------------- whole decks


def _channels(rng: np.random.Generator) -> dict[str, Any]:
    L = int(_pick(rng, 0, 0, 0, 1, 1, 2))
    out: dict[str, Any] = {"L": L, "S": _pick(rng, 0, 0, 1)}
    if L == 1 and _coin(rng, 0.2):
        return {**out, "parity": "even", "l_max": int(rng.integers(1, 3))}
    if _coin(rng, 0.12):
        pairs = {0: [[0, 0], [2, 2], [1, 1]], 1: [[0, 1], [3, 2], [1, 2]], 2: [[0, 2], [1, 1], [1, 3]]}[L]
        return {**out, "pairs": pairs[: int(rng.integers(1, 4))]}
    return {**out, "l_max": L + int(rng.integers(0, 4 if L == 0 else 3))}


def bound(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], Model]:
    """Draw a deck of bound states."""
    model, channels = _model(rng, folder), _channels(rng)
    harmonic = model.known.startswith("oscillator")
    roots = int(_pick(rng, 1, 1, 1, 2, 3)) if model.Z > 1.1 or harmonic else 1
    if model.Z < 1.1 and not harmonic:  # H- has one bound state
        channels |= {"L": 0, "S": 0, "l_max": int(rng.integers(0, 4))}
        for key in ("parity", "pairs"):
            channels.pop(key, None)
    level = max(roots, channels["L"] + 1, 1) + (1 if channels["L"] == 0 and channels["S"] else 0)
    ground = level == 1 and channels["L"] == channels["S"] == 0
    rate = max(0.45 * (model.far + 1.0), 0.24) if ground and model.Z > 1.1 else model.far / level
    rate = 0.2 if ground and model.Z < 1.1 else rate
    rate = math.sqrt(model.charge) if harmonic else rate
    deck: dict[str, Any] = {
        "system": {"Z": model.Z},
        "grid": _grid(rng, (11.0 + 2.0 * level) / rate + 4.0 / model.Z if not harmonic else 7.0 / rate),
        "basis": _basis(rng, rate, folder, harmonic),
        "channels": channels,
        "task": {"type": "bound", "n_roots": roots},
    }
    if model.block is not None:
        deck["system"]["potential"] = model.block
    deck["grid"] = _affordable(rng, deck, rate)
    if "L" in channels and "pairs" not in channels and _coin(rng, 0.12):
        deck["states"] = [
            {
                "L": channels["L"],
                "S": S,
                "root": int(rng.integers(0, 2)),
                "parity": channels.get("parity", "natural"),
            }
            for S in ((1, 0) if model.Z > 1.1 else (0,))
        ]
        deck["channels"] = {"l_max": channels["l_max"]}
        deck["task"] = "bound"
        if model.Z < 1.1:
            deck["states"][0]["root"] = 0
    if deck["basis"] != "fedvr" and np.max(deck["basis"]["N"]) < 13 and _coin(rng, 0.4):
        deck["solver"] = "dense"
    elif _coin(rng, 0.25):
        deck["solver"] = {"type": "matrix_free", "tolerance": _pick(rng, 1e-12, 1e-8, 1e-6, 1e-4)}
    if "pairs" not in channels and _coin(rng, 0.25):
        low = channels["L"] + int(rng.integers(0, 2))
        low = max(low, 1) if channels.get("parity") else low
        values = [low]
        for _ in range(int(rng.integers(2, 5))):
            values.append(values[-1] + int(_pick(rng, 1, 1, 2)))
        deck["extrapolate"] = {"l_max": values}
    if _coin(rng, 0.1):
        deck["scan"] = (
            {"order": [6, 9]} if deck["grid"] != "auto" else {"l_max": [channels["L"], channels["L"] + 1]}
        )
        if "pairs" in channels or channels.get("parity"):
            deck["scan"] = {"order": [7]}
    return deck, model


#: L, S, natural parity of states of helium whose limits are known beside those of S states
OTHERS = ((1, 0, True), (1, 1, True), (2, 0, True), (2, 1, True), (1, 1, False), (1, 0, False))


def extrapolated(rng: np.random.Generator) -> tuple[dict[str, Any], Model]:
    """Draw a deck whose energies are extrapolated to all partial waves: S states of any charge, others of helium."""
    L, S, natural = (0, int(rng.integers(0, 2)), True) if _coin(rng, 0.65) else _pick(rng, *OTHERS)
    Z = float(_pick(rng, 2, 3, 4, _log(rng, 1.3, 10.0), _log(rng, 1.3, 10.0))) if L == 0 else 2.0
    if L == S == 0 and _coin(rng, 0.15):
        Z = 1.0
    roots = 2 if L == 0 and Z > 1.5 and _coin(rng, 0.3) else 1
    low = (L if natural else 1) + int(rng.integers(0, 2))
    values = [low]
    for _ in range(int(rng.integers(2, 5))):
        values.append(values[-1] + int(_pick(rng, 1, 1, 1, 2)))
    channels: dict[str, Any] = {"L": L, "S": S, "l_max": int(_pick(rng, *values))}
    deck: dict[str, Any] = {
        "system": {"Z": Z},
        "grid": {"R": "auto", "order": int(rng.integers(7, 12))},
        "basis": "fedvr",
        "channels": channels if natural else {**channels, "parity": "even"},
        "task": {"type": "bound", "n_roots": roots},
        "extrapolate": {"l_max": values},
    }
    if _coin(rng, 0.6):
        deck["basis"] = {
            "type": "gsf",
            "generating": "yukawa",
            "energy": "auto",
            "N": int(rng.integers(10, 26)),
        }
    return deck, Model(None, Z, Z, lambda r: -Z / r, (), "coulomb")


def basis(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], Model]:
    """Draw a deck that makes the bound functions of one l, alone."""
    Z = float(_pick(rng, 1, 2, 3))
    kappa = _log(rng, 0.4, 1.5) * Z
    deck: dict[str, Any] = {
        "system": {"Z": Z},
        "grid": {"R": round(_log(rng, 8.0, 40.0) / kappa, 3), "order": int(_pick(rng, 4, 6, 9, 12, 16))},
        "basis": {
            "type": "gsf",
            "generating": _generating(rng, kappa, folder),
            "energy": float(f"{-0.5 * kappa**2:.6g}"),
            "N": int(rng.integers(2, 16)),
        },
        "task": {"type": "basis", "l": int(rng.integers(0, 4))},
    }
    if _coin(rng, 0.5):
        deck["grid"]["elements"] = int(rng.integers(2, 16))
    return deck, Model(None, Z, Z, lambda r: -Z / r, (), "coulomb", rate=kappa)


def integrals(rng: np.random.Generator, folder: Path) -> tuple[dict[str, Any], Model]:
    """Draw a deck of repulsion integrals between the functions of one l."""
    deck, model = basis(rng, folder)
    l = int(rng.integers(0, 3))
    deck["basis"]["N"] = int(rng.integers(2, 9))
    deck["channels"] = {"L": 0, "S": 0, "pairs": [[l, l]]}
    deck["task"] = {"type": "integrals", "l": [int(rng.integers(0, 4))]}
    if _coin(rng, 0.6):
        deck["task"]["route"] = "poisson_gemm"
    else:
        deck["task"] |= {"route": _pick(rng, "simpson", ["simpson", "poisson_gemm"])}
        deck["task"] |= {"points": int(rng.integers(16, 97)), "inner": int(_pick(rng, 3, 5, 9))}
    return deck, model

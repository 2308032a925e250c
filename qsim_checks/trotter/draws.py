"""Random trotter decks over all that the deck language allows, rare combinations as often as common ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["draw_deck"]

Generator = np.random.Generator
Block = dict[str, Any]

SPLITTINGS = ("ts1", "ts2", "ts4", "bm4", "bm6", "kl8")
MOST_DRIVEN = 5  # spins: the oracle solves differential equations
PULSE_AREA = 0.02  # least area of a narrow pulse, of the duration: too small a pulse would not show
# widths from the middle of a pulse: stops that no integrator passes over
AROUND = (-6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0)
COUPLINGS = ("heisenberg", "xx", "ising", "double_quantum", "xxz", "xyz", "power_law", "dipolar", "pairs")
KINDS = (*COUPLINGS, "field", "field")  # fields are twice as likely


def draw_deck(rng: Generator, folder: Path) -> Block:
    """Return a random deck; files that it names are written into `folder`.

    Keys that begin with an underscore are for the oracle and not part of the deck.
    """
    driven = rng.random() < 0.3
    spins = _spins(rng, driven)
    system: Block = {"spins": spins, "operators": _one(rng, "spin", "spin", "pauli")}
    system["sum"] = _one(rng, "pairs", "pairs", "full")
    if rng.random() < 0.5:
        system["lattice"] = _lattice(rng, spins)
    lopsided = not driven and spins > 11 and rng.random() < 0.6
    system["terms"] = _lopsided(rng, spins) if lopsided else _terms(rng, system)
    if driven:
        _drive(rng, system["terms"])
    deck: Block = {
        "system": system,
        "initial": _initial(rng, spins, folder),
        "evolve": {},
        "observe": [],
        "run": {"seed": int(rng.integers(1000))},
    }
    strength = _strength(system)
    deck["evolve"] = _evolve(rng, strength, spins, driven=any("profile" in t for t in system["terms"]))
    if rng.random() < 0.1 and deck["evolve"].get("accuracy", 1.0) >= 1e-5:
        deck["run"]["precision"] = "single"
    deck["observe"] = _observe(rng, deck, folder)
    _ensemble(rng, deck)
    return deck


def _one(rng: Generator, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _size(rng: Generator) -> float:
    """Return a coupling: mostly of the order of one, now and then far from it."""
    sign = _one(rng, -1.0, 1.0)
    spread = _one(rng, 0.5, 0.5, 0.5, 2.0)
    return round(sign * 10.0 ** rng.uniform(-spread, 0.5 * spread), 6)


def _spins(rng: Generator, driven: bool) -> int:
    if driven:
        return int(rng.integers(1, MOST_DRIVEN + 1))
    u = rng.random()
    if u < 0.75:
        return int(rng.integers(1, 9))
    return int(rng.integers(9, 12)) if u < 0.85 else int(rng.integers(12, 15))


# ------------------------------------------------------------------------------------------- system


def _lattice(rng: Generator, spins: int) -> Block:
    kinds = ["chain", "all"]
    if spins >= 3:
        kinds.append("ring")
    if spins % 2 == 0:
        kinds += ["ladder", "square", "triangular", "honeycomb", "cubic"]
    if spins % 3 == 0:
        kinds.append("kagome")
    kind = _one(rng, *kinds)
    found: Block = {"type": kind}
    if kind == "cubic":
        found |= {"Lx": 2, "Ly": 1, "Lz": spins // 2}
    if kind in ("kagome", "honeycomb"):
        found |= {"Lx": 1, "Ly": spins // (3 if kind == "kagome" else 2)}
    if kind in ("square", "triangular"):
        found["Lx"] = 2 if spins < 9 or spins % 3 else 3
    if kind in ("square", "triangular", "kagome", "honeycomb", "cubic"):
        found["periodic"] = bool(rng.random() < 0.3)
    if kind == "ladder":
        found["periodic"] = bool(rng.random() < 0.3)
    return found


def _terms(rng: Generator, system: Block) -> list[Block]:
    spins = system["spins"]
    count = int(rng.integers(1, 5))
    terms = [_term(rng, system) for _ in range(count)]
    if spins == 1 or (all(t["type"] != "field" for t in terms) and rng.random() < 0.6):
        terms.append(_field(rng, spins))
    return terms


def _term(rng: Generator, system: Block) -> Block:
    spins = system["spins"]
    if spins == 1:
        return _field(rng, spins)
    kind = _one(rng, *KINDS)
    if kind == "field":
        return _field(rng, spins)
    if kind == "pairs":
        return {"type": "pairs", "list": _pairs(rng, spins)}
    return _coupling(rng, system, kind)


def _coupling(rng: Generator, system: Block, kind: str) -> Block:
    """Return a coupling between the sites of a lattice, or between positions."""
    spins = system["spins"]
    term: Block = {"type": kind}
    positions = kind in ("power_law", "dipolar") and rng.random() < 0.4
    if positions:
        term["positions"] = np.round(
            np.arange(spins)[:, None] * [1.0, 0.3, 0.1] + rng.uniform(-0.3, 0.3, (spins, 3)), 3
        ).tolist()
    elif "lattice" not in system or rng.random() < 0.3:
        term["lattice"] = _lattice(rng, spins)
    lattice: Block | None = None if positions else term.get("lattice", system.get("lattice"))
    if kind == "dipolar":
        return _dipolar(rng, term, lattice)
    term |= _components(rng, kind)
    if kind == "power_law":
        term |= {"alpha": _one(rng, 0.0, 1.5, 3.0), "model": _one(rng, "heisenberg", "xx", "ising")}
    elif rng.random() < 0.2:
        term["alpha"] = _one(rng, 1.0, 3.0)
    elif rng.random() < 0.2 and _has_shells(term, lattice, spins):
        term["shells"], term["J"] = [1, 2], [term["J"], _size(rng)]
    if rng.random() < 0.15 and not positions:
        term["random"] = _random(rng)
    return term


def _has_shells(term: Block, lattice: Block | None, spins: int) -> bool:
    """Return True if there are second neighbours, and one strength that can be given for each shell."""
    row = lattice is not None and lattice["type"] in ("chain", "ring")
    return row and spins >= 4 and "J" in term


def _components(rng: Generator, kind: str) -> Block:
    """Return the strengths of a coupling, and its axis where it has one."""
    if kind == "xxz":
        along, across = _size(rng), _size(rng)
        return {"Jxy": along, _one(rng, "Jz", "delta"): across}
    if kind == "xyz":
        return {"Jx": _size(rng), "Jy": _size(rng), "Jz": _size(rng)}
    found = {"J": _size(rng)}
    return found | ({"axis": _one(rng, "x", "y", "z")} if kind == "ising" else {})


def _dipolar(rng: Generator, term: Block, lattice: Block | None) -> Block:
    if lattice is not None and lattice["type"] == "all":
        term["lattice"] = {"type": "chain"}
    term["coupling"] = _size(rng)
    term["axis"] = _one(rng, "x", "z", [1.0, 1.0, 0.5])
    if rng.random() < 0.3:
        term["cutoff"] = 1.6
    return term


def _pairs(rng: Generator, spins: int) -> list[list[float]]:
    every = [(j, k) for j in range(spins) for k in range(j + 1, spins)]
    chosen = rng.permutation(len(every))[: int(rng.integers(1, min(len(every), 6) + 1))]
    rows = []
    for number in chosen:
        j, k = every[int(number)]
        values = [_size(rng)] if rng.random() < 0.4 else [_size(rng) for _ in range(3)]
        rows.append([j, k, *values])
    return rows


def _random(rng: Generator) -> Block:
    kind = _one(rng, "box", "normal", "binary")
    name = {"box": _one(rng, "width", "W"), "normal": "sigma", "binary": "strength"}[kind]
    found = {"kind": kind, name: abs(_size(rng))}
    return found | ({"seed": int(rng.integers(100))} if rng.random() < 0.5 else {})


def _field(rng: Generator, spins: int) -> Block:
    """Return a field on all sites or on some: a number, a list, a formula or random numbers."""
    term: Block = {"type": "field", "axis": _one(rng, "x", "y", "z")}
    u = rng.random()
    count = spins
    if u < 0.35:
        count = int(rng.integers(1, spins + 1))
        term["sites"] = sorted(int(s) for s in rng.permutation(spins)[:count])
    v = rng.random()
    if v < 0.4:
        term["values"] = _size(rng)
    elif v < 0.6:
        term["values"] = [_size(rng) for _ in range(count)]
    elif v < 0.8:
        term["values"] = f"{_size(rng)}*cos({abs(_size(rng))}*j)"
    else:
        term["random"] = _random(rng)
    return term


def _lopsided(rng: Generator, spins: int) -> list[Block]:
    """Return terms whose first sites tell nothing, or little, about the others."""
    lattice = {"type": _one(rng, "chain", "ring")}
    far = sorted({int(s) for s in rng.integers(spins - 2, spins, 2)})
    axis = _one(rng, "x", "y")
    terms: list[Block] = [{"type": "ising", "lattice": lattice, "J": abs(_size(rng))}]
    terms.append({"type": "field", "axis": axis, "sites": far, "values": abs(_size(rng))})
    if rng.random() < 0.5:
        terms.append({"type": "field", "axis": axis, "sites": [0, 1, 2], "values": 1e-3})
    if rng.random() < 0.3:
        terms.append({"type": "pairs", "list": [[spins - 2, spins - 1, 4.0, 2.0, 1.0]]})
    return terms


def _strength(system: Block) -> float:
    """Return a rough size of the couplings and fields of a deck, for times and steps."""
    scale = 4.0 if system["operators"] == "pauli" else 1.0
    scale *= 2.0 if system["sum"] == "full" else 1.0
    total = 0.0
    for term in system["terms"]:
        numbers = [term.get(key, 0.0) for key in ("J", "Jxy", "Jx", "Jy", "Jz", "coupling", "delta")]
        flat = [abs(x) for value in numbers for x in (value if isinstance(value, list) else [value])]
        flat += [abs(x) for row in term.get("list", ()) for x in row[2:]]
        values = term.get("values", 0.0)
        if isinstance(values, str):
            values = float(values.split("*")[0])
        flat += [abs(x) for x in (values if isinstance(values, list) else [values])]
        random = term.get("random", {})
        flat += [random.get(key, 0.0) for key in ("width", "W", "sigma", "strength")]
        total += scale * max(flat)
    return max(total, 1e-3)


# --------------------------------------------------------------------------------------- time profiles


def _drive(rng: Generator, terms: list[Block]) -> None:
    """Give some terms a profile in time."""
    chosen = rng.permutation(len(terms))[: int(rng.integers(1, len(terms) + 1))]
    for number in chosen:
        terms[int(number)]["profile"] = {"_open": True}


def _profile(rng: Generator, end: float) -> Block:
    """Return a time profile for an evolution up to `end`; it may reach beyond either end."""
    kind = _one(rng, "ramp", "ramp", "cosine", "table", "expression", "expression", "constant")
    if kind == "constant":
        return {"type": "constant", "value": round(rng.uniform(-1.5, 1.5), 3)}
    if kind == "ramp":
        t0 = round(end * rng.uniform(-0.1, 0.9), 4)
        length = max(1e-3, round(end * 10.0 ** rng.uniform(-2.0, 0.0), 4))
        shape = _one(rng, "linear", "smooth")
        found = {"type": "ramp", "t0": t0, "t1": round(t0 + length, 5), "shape": shape}
        return found | {"start": round(rng.uniform(-1, 1), 3), "end": round(rng.uniform(-2, 2), 3)}
    if kind == "cosine":
        omega = round(10.0 ** rng.uniform(-1, 1.3), 4)
        return {
            "type": "cosine",
            "omega": omega,
            "phase": round(rng.uniform(0, 6), 3),
            "offset": _one(rng, 0.0, 0.7),
        }
    if kind == "table":
        times = np.unique(np.round(np.sort(rng.uniform(-0.1 * end, 1.1 * end, int(rng.integers(2, 30)))), 4))
        return {"type": "table", "points": [[float(t), round(rng.uniform(-1, 1), 3)] for t in times]}
    return _formula(rng, end)


def _formula(rng: Generator, end: float) -> Block:
    """Return a formula of t with its kinks: a chirp, a narrow pulse, a corner or a jump."""
    middle = round(end * rng.uniform(0.05, 0.95), 4)
    width = float(
        f"{end * 10.0 ** rng.uniform(-6.0, -0.5):.4g}"
    )  # from pulses between two samples to those over many steps
    height = float(f"{max(1.0, PULSE_AREA * end / width):.3g}")
    rate = round(2.0 * math.pi * rng.uniform(1, 15) / end**2, 5)
    text, kinks = _one(
        rng,
        (f"cos({rate}*t^2)", []),
        (f"{height}*exp(-((t-{middle})/{width})^2)", [middle + k * width for k in AROUND]),
        (f"abs(cos({round(3.0 / end, 5)}*t))", [(k + 0.5) * math.pi / round(3.0 / end, 5) for k in range(3)]),
        (f"heaviside(t-{middle})", [middle]),
        (f"max(0, {height}*(1-abs(t-{middle})/{width}))", [middle - width, middle, middle + width]),
        (f"sin({rate}*t^3/{max(end, 1.0):.4f})*exp(-0.1*t)", []),
    )
    return {"type": "expression", "value": text, "_kinks": kinks}


# ---------------------------------------------------------------------------------- states, evolution


def _initial(rng: Generator, spins: int, folder: Path) -> Block:
    """Return an initial state of any type; tensors and vectors are written to files."""
    kind = _one(
        rng,
        "basis",
        "neel",
        "domain_wall",
        "product",
        "polarised",
        "polarised",
        "a1",
        "random_phase",
        "haar",
        "mps",
        "file",
    )
    if kind == "basis":
        return {"type": kind, "bits": "".join(str(b) for b in rng.integers(0, 2, spins))}
    if kind == "product":
        angles = rng.uniform(0, 3, (2, spins)).round(4)
        return {"type": kind, "theta": angles[0].tolist(), "phi": angles[1].tolist()}
    if kind == "polarised":
        return {"type": kind, "axis": _one(rng, "x", "-y", "z", "-z", "y")}
    if kind == "a1":
        return {"type": kind, "up": [int(rng.integers(spins))]}
    if kind == "mps":
        bonds = [1, *([2] * (spins - 1)), 1]
        tensors = {
            f"A{k}": rng.normal(size=(bonds[k], 2, bonds[k + 1]))
            + 1j * rng.normal(size=(bonds[k], 2, bonds[k + 1]))
            for k in range(spins)
        }
        np.savez(folder / "mps.npz", **tensors)  # type: ignore[arg-type]
        return {"type": kind, "file": "mps.npz"}
    if kind == "file":
        psi = rng.normal(size=1 << spins) + 1j * rng.normal(size=1 << spins)
        np.save(folder / "start.npy", psi)
        return {"type": kind, "file": "start.npy"}
    return {"type": "basis", "up": [0]} if kind == "neel" and spins % 2 else {"type": kind}


def _evolve(rng: Generator, strength: float, spins: int, *, driven: bool) -> Block:
    """Return output times, integrator, and a step or an accuracy, in units of the inverse strength."""
    turns = 10.0 ** rng.uniform(-0.5, 1.0 if driven or spins > 9 else 1.6)
    end = float(f"{turns / strength:.4g}")
    count = int(rng.integers(2, 6))
    spacing = _one(rng, "linear", "linear", "log", "list")
    block: Block = {"t_final": end}
    if spacing == "linear":
        block["outputs"] = {"count": count}
    elif spacing == "log":
        block["outputs"] = {"count": count, "spacing": "log", "first": float(f"{end / 50:.4g}")}
    else:
        block["outputs"] = {
            "list": sorted({0.0, *(float(f"{end * x:.4g}") for x in rng.uniform(0.05, 0.99, count))})
        }
    name = _one(rng, *SPLITTINGS, "auto", "auto", "chebyshev")
    if driven and name == "chebyshev":
        name = "bm6"
    block["integrator"] = name
    if name in ("auto", "chebyshev") or rng.random() < 0.5:
        least = {"ts1": 2.0, "ts2": 4.0, "ts4": 7.0, "bm4": 8.0}.get(name, 11.0)
        block["accuracy"] = float(f"{10.0 ** -rng.uniform(1.5, min(least, 8.0) if driven else least):.3g}")
    else:
        finest = {"ts1": -2.5, "ts2": -2.0}.get(name, -1.2)
        block["dt"] = float(f"{max(10.0 ** rng.uniform(finest, -0.1) / strength, end / 3000):.3g}")
    if rng.random() < 0.12 and spins < 10:
        block["verify"] = True
    return block


def finish_profiles(rng: Generator, deck: Block) -> None:
    """Draw the profiles, which know the end of the evolution."""
    terms = list(deck["system"]["terms"])
    for item in deck["observe"]:
        terms += item.get("echo", {}).get("sigma", [])
    for term in terms:
        if "_open" in term.get("profile", {}):
            term["profile"] = _profile(rng, deck["evolve"]["t_final"])


# -------------------------------------------------------------------------------------- observables


def _observe(rng: Generator, deck: Block, folder: Path) -> list[Block]:
    """Return the final state and some other observables."""
    system, spins = deck["system"], deck["system"]["spins"]
    found: list[Block] = [{"state": True}]
    choices: list[Block] = [
        {"sx": "all"},
        {"sy": "total"},
        {"sz": [0, spins - 1] if spins > 1 else "all"},
        {"total": "all"},
        {"return_probability": True},
        {"energy_variance": True},
        {"imbalance": True},
    ]
    if spins > 1:
        choices += [
            {"correlator": ["xx", "zz"], "pairs": "all"},
            {"correlator": "yy", "pairs": [[0, spins - 1]]},
            {"entropy": {"sites": list(range(max(1, spins // 2)))}},
        ]
    for number in rng.permutation(len(choices))[: int(rng.integers(1, 4))]:
        found.append(choices[int(number)])
    if deck["initial"]["type"] == "a1":
        found.append({"autocorrelation": deck["initial"]["up"][0]})
    if rng.random() < 0.15:
        psi = rng.normal(size=1 << spins) + 1j * rng.normal(size=1 << spins)
        np.save(folder / "other.npy", psi / np.linalg.norm(psi))
        found.append({"fidelity": "other.npy"})
    if rng.random() < 0.4:
        found.append({"echo": _echo(rng, deck, system)})
    finish_profiles(rng, deck | {"observe": found})
    return found


def _echo(rng: Generator, deck: Block, system: Block) -> Block:
    """Return an echo with a perturbation of up to two terms, mostly one."""
    spins = system["spins"]
    block: Block = {"times": _one(rng, "all", "final", 2), "sigma": []}
    for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.3 else 1):
        term = _field(rng, spins) if rng.random() < 0.6 else _term(rng, system)
        if "lattice" not in system and term["type"] not in ("field", "pairs") and "positions" not in term:
            term.setdefault("lattice", {"type": "all"})
        if any("profile" in t for t in system["terms"]) and rng.random() < 0.3:
            term["profile"] = {"_open": True}
        block["sigma"].append(term)
    back = deck["evolve"]["integrator"] != "ts1"
    if rng.random() < 0.4 and back:
        block["local"] = [int(rng.integers(spins))]
    elif back:
        block["scheme"] = _one(rng, "auto", "return", "overlap")
    elif not block["sigma"]:
        block["scheme"] = "overlap"
    return block


def _ensemble(rng: Generator, deck: Block) -> None:
    random = any("random" in term for term in deck["system"]["terms"])
    block = {}
    if random and rng.random() < 0.4:
        block["disorder"] = int(rng.integers(2, 5))
    if deck["initial"]["type"] in ("a1", "random_phase", "haar") and rng.random() < 0.3:
        block["states"] = 2
    if block and deck["system"]["spins"] < 10:
        deck["ensemble"] = block

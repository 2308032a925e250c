"""What figures read of a results file: units, names, curves and transitions, whatever system the file is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.deck.units import CODATA
from qsim.core.results.plotting import COLORS
from qsim.qoc.deck.systems.quantities import Units

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

# Largest population from which a level is drawn, and most levels in a figure.
SEEN, MOST_CURVES = 0.01, 8
# Points of a search or a table that are marked.
FEW = 40
# 1/cm per hartree (CODATA 2018).
WAVENUMBER = 219474.6313632
NAMES = {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns", 1e-12: "ps", 1e-15: "fs"}
# Systems whose controls are electric fields in atomic units.
MOLECULES = ("grid", "grid2d", "rotor")
# Transitions that are named, and names in one label.
MOST_LINES, NAMED = 12, 3
# What the values of goals that are no probabilities are called.
MEANS = {"observable": "mean value", "functional": "goal", "goals": "mean of the goals"}


class Drawn(NamedTuple):
    """One control: its name, final and first values (N,), and bounds in the unit of its axis."""

    name: str
    values: NDArray[np.float64]
    guess: NDArray[np.float64]
    bounds: tuple[float, float] | None


def kind_of(r: Results) -> str:
    """Return the type of the system."""
    return str(r.deck["system"].get("type", "grid"))


def is_molecule(r: Results) -> bool:
    """Return True if the controls are electric fields."""
    return kind_of(r) in MOLECULES


# ------------------------------------------------------------------------------------------- units and names
def clock(r: Results) -> tuple[float, str]:
    """Return the factor of times and the label of their axis; atomic units become fs, or ps for more than 5 ps."""
    if "time_unit" in r.scalars:
        seconds = float(str(r.scalars["time_unit"].value))
    elif is_molecule(r):
        seconds = CODATA["atomic unit of time"]
    else:
        return 1.0, "time"
    if seconds in NAMES:
        return 1.0, f"time ({NAMES[seconds]})"
    name, unit = ("ps", 1e-12) if float(r["time"][-1]) * seconds > 5e-12 else ("fs", 1e-15)
    return seconds / unit, f"time ({name})"


def unit_of(r: Results) -> str:
    """Return the unit of the controls, in brackets; empty for plain numbers."""
    unit = "a.u." if is_molecule(r) else r.deck["system"].get("unit")
    return "" if unit is None else f" ({unit})"


def angular(r: Results) -> tuple[float, str]:
    """Return the factor of angular frequencies and the label of their axis."""
    if is_molecule(r):
        return 1.0, r"$\omega$ (hartree)"
    unit = r.deck["system"].get("unit")
    return (1.0, r"$\omega$") if unit is None else (1.0 / Units(unit).factor, f"frequency ({unit})")


def state_name(r: Results, number: int) -> str:
    """Return how a figure calls a basis state: a ket of its label, J and M of a rotor, a level."""
    kind = kind_of(r)
    if kind in ("grid", "grid2d"):
        return f"level {number}"
    label = str(np.asarray(r["labels"])[number])
    if kind == "rotor":
        j, m = label.split(",")
        return f"J = {j}, |M| = {m}"
    return rf"$|{label}\rangle$"


def goal_name(r: Results) -> str:
    """Return the label of the axis of the goal."""
    target = r.deck["system"].get("target")
    if isinstance(target, dict) and "observable" in target:
        text = str(target["observable"])
        if kind_of(r) == "rotor" and "*" not in text:
            text = text.replace("cos2", r"\cos^2\theta").replace("J2", "J^2")
            return rf"$\langle {text}\rangle$"
        return f"mean of {text}"
    if isinstance(target, dict) and "formula" in target:
        return str(target["formula"])
    return "probability of the goal"


def value_kind(r: Results) -> str:
    """Return which kind of value was maximised."""
    kinds = (*MEANS, "fidelity", "closeness", "probability")
    return next((name for name in kinds if name in r.scalars), "probability")


def value_name(kind: str) -> str:
    """Return how axes call a value: F of gates, P of states."""
    return MEANS.get(kind, {"fidelity": "F", "closeness": "closeness"}.get(kind, "P"))


# ------------------------------------------------------------------------------------------- curves
def controls(r: Results) -> list[Drawn]:
    """Return all controls."""
    if "field" in r:
        return [Drawn("field", r["field"], r["field_guess"], _bounds(r, r.deck.get("control") or {}))]
    blocks = r.deck["control"]
    return [
        Drawn(c["name"], r[f"control/{c['name']}"], r[f"control_guess/{c['name']}"], _bounds(r, c))
        for c in blocks
    ]


def _bounds(r: Results, block: dict[str, Any]) -> tuple[float, float] | None:
    """Return the bounds of a control in the unit of its axis; None without."""
    if block.get("bounds") is None:
        return None
    units = Units(r.deck["system"].get("unit"), fields=is_molecule(r))
    low, high = (units.control(b, "control.bounds") for b in block["bounds"])
    return low, high


def edges_of(r: Results) -> NDArray[np.float64]:
    """Return the ends of the slots (N + 1,), in the unit of the axis."""
    t, factor = r["time"], clock(r)[0]
    tau = float(t[1] - t[0]) if t.size > 1 else 2.0 * float(t[0])
    return np.asarray(factor * np.append(t - 0.5 * tau, t[-1] + 0.5 * tau))


def populations_of(r: Results) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times (n,) in the unit of the axis, and populations (n, D)."""
    table = r["populations" if "populations" in r else "populations_thinned"]
    times = r["time_populations" if "time_populations" in r else "time"]
    return clock(r)[0] * times, table


def seen(r: Results) -> list[int]:
    """Return the states that are populated, ascending."""
    return [int(k) for k in np.flatnonzero(populations_of(r)[1].max(axis=0) > SEEN)]


def spectra(r: Results) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]] | None:
    """Return angular frequencies (n,) and powers by name; of few values at more frequencies; None in old files without them."""
    if "frequency" not in r:
        return None
    if "spectrum" not in r:
        return r["frequency"], {c.name: r[f"spectrum/{c.name}"] for c in controls(r)}
    field, t = r["field"], r["time"]
    if field.size >= PADDED or t.size < 2:
        return r["frequency"], {"field": r["spectrum"]}
    tau, size = float(t[1] - t[0]), max(PADDED, 8 * field.size)
    frequency = np.asarray(2 * np.pi * np.fft.rfftfreq(size, tau), dtype=np.float64)
    return frequency, {"field": np.asarray(np.abs(np.fft.rfft(field, size) * tau) ** 2, dtype=np.float64)}


# Points of a spectrum at least, so that short fields do not give polygons.
PADDED = 4096


# ------------------------------------------------------------------------------------------- transitions
def transitions(r: Results) -> list[tuple[str, float]]:
    """Return names and angular frequencies of transitions between populated levels, the wanted ones first."""
    if "energies" not in r:
        return []
    used, energies = seen(r), r["energies"]
    if "dipole_matrix" in r:
        mu = np.abs(r["dipole_matrix"])
        pairs = [(a, b) for i, a in enumerate(used) for b in used[i + 1 :] if mu[a, b] > 1e-3 * mu.max()]
    else:
        pairs = [(0, k) for k in used if k > 0]
    wanted = _wanted(r)
    # The wanted transitions, and those from the lowest levels, are named in any case.
    pairs.sort(key=lambda pair: (pair not in wanted, pair))
    return [(f"{a}-{b}", float(abs(energies[b] - energies[a]))) for a, b in pairs][:MOST_LINES]


def _wanted(r: Results) -> set[tuple[int, int]]:
    """Return the pairs of levels (lower, upper) between initial and target states of the deck."""
    system = r.deck["system"]
    found = set()
    for pair in system.get("pairs") or [system]:
        ends = [pair.get(key) for key in ("initial", "target")]
        starts, goals = ([k for k in (e if isinstance(e, list) else [e]) if isinstance(k, int)] for e in ends)
        found |= {(min(a, b), max(a, b)) for a in starts for b in goals}
    return found


def together(lines: list[tuple[str, float]], width: float, between: str = ", ") -> list[tuple[str, float]]:
    """Return transitions with those that a label would cover in one label: ``0-1, 1-2``; the first of the lines come first."""
    rank = {name: place for place, (name, _) in enumerate(lines)}
    groups: list[tuple[list[str], list[float]]] = []
    for name, value in sorted(lines, key=lambda line: line[1]):
        if groups and value - groups[-1][1][0] < width:
            groups[-1][0].append(name)
            groups[-1][1].append(value)
        else:
            groups.append(([name], [value]))
    found = []
    for names, values in groups:
        first = sorted(names, key=rank.__getitem__)[:NAMED]
        found.append((between.join([*first, *["..."] * (len(names) > NAMED)]), float(np.mean(values))))
    return found


# ------------------------------------------------------------------------------------------- looks
def look(number: int) -> dict[str, Any]:
    """Return colour and dashes of a curve: eight and more are told apart by dashes."""
    colours = list(COLORS.values())
    dashes = ("-", "--", ":", "-.")[number // len(colours) % 4]
    return {"color": colours[number % len(colours)], "linestyle": dashes}


def marks(points: int) -> dict[str, Any]:
    """Return the marks of a curve of few points."""
    return {"marker": "o", "markersize": 2.5} if points <= FEW else {}


def legend_above(ax: Axes, columns: int = 4) -> None:
    """Put the legend above the axes, where it covers no curve."""
    ax.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=columns, borderaxespad=0.1, columnspacing=1.2
    )

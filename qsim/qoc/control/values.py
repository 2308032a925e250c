"""First values of a control of a quantum system as functions of time: formulas, random sine modes, files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.columns import read_rows, text_lines
from qsim.core.deck.expression import Expression
from qsim.core.device import rng
from qsim.core.errors import FileError, InvalidInput
from qsim.core.physics.functions import formula
from qsim.core.physics.structure import FormulaProfile
from qsim.core.results.arrays import require_finite
from qsim.qoc.control.mesh import Kinks
from qsim.qoc.deck.systems.quantities import Units

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qsim.qoc.control.controls import Curve
    from qsim.qoc.control.parametrisation import Parametrisation
    from qsim.qoc.control.rungs import Rungs
    from qsim.qoc.deck.controls import (
        DragValues,
        FileValues,
        GaussianValues,
        GivenValues,
        LadderValues,
        QuantumControl,
        ResonantValues,
    )

    Array = NDArray[np.float64]

# Stream of random numbers of the first values; one more per control.
STREAM = 40
# Names that the times of a file may have.
TIMES = ("t", "time", "times")
# Part of a slot that rounding of the times of a file may be.
ON_EDGE = 1e-6
_NAME = re.compile(r"\s*([^\s(\[]+)\s*(?:[(\[]([^()\[\]]*)[)\]])?\s*")


@dataclass(frozen=True)
class Setting:
    """Properties that the controls of a deck share.

    Attributes
    ----------
    units : Units
        Of the system.
    duration : float
        T, in the unit of time of the system.
    times : (N,) float64
        Middles of the slots.
    seed : int
    attempt : int
        Number of the start, from 0: random values differ from start to start.
    rungs : Rungs or None
        Transitions of the system.
    """

    units: Units
    duration: float
    times: Array
    seed: int
    attempt: int = 0
    rungs: Rungs | None = None


@dataclass(frozen=True)
class First:
    """First values of a control.

    Attributes
    ----------
    curve : callable
        From times (n,) to values (n,), within the bounds.
    held : bool
        True if they are constant in each slot by nature.
    shaped : bool
        True if they bear the shape of the control already.
    profiles : tuple of FormulaProfile or Kinks
        Formulas whose kinks and narrow pulses the curve has, and known kinks.
    """

    curve: Curve
    held: bool = False
    shaped: bool = False
    profiles: tuple[FormulaProfile | Kinks, ...] = ()


def first_values(
    block: QuantumControl,
    key: str,
    made: Parametrisation,
    setting: Setting,
    natural: float,
    place: tuple[int, int],
) -> First:
    """Return the first values of a control.

    Parameters
    ----------
    key : str
        Place of the control in the deck.
    made : Parametrisation
        Its bounds.
    natural : float
        Size of random values where nothing else says it.
    place : (int, int)
        Place of the control in the system, and its power there.

    Raises
    ------
    InvalidInput
        If a formula or a file cannot be used.
    """
    guess, duration = block.guess, setting.duration
    number, power = place
    low, high = float(made.low[0]), float(made.high[0])
    if guess.type == "zero":
        return First(lambda t: np.zeros(t.size), held=True)
    if guess.type == "expression":
        text, where = guess.value, f"{key}.guess.value"

        def curve(t: Array) -> Array:
            return np.clip(formula(text, where, t=t, T=duration) * np.ones(t.size), low, high)

        whole = Expression(text, ("t", "T")).with_values(T=duration)
        # A constant formula is the same held or not, and then nothing is left of it between the slots.
        return First(curve, held="t" not in whole.names, profiles=(FormulaProfile(whole),))
    if guess.type == "gaussian" or guess.type == "drag":
        return _gaussian(guess, f"{key}.guess", setting, (low, high))
    if guess.type == "ladder" or guess.type == "resonant":
        return First(_carriers(guess, f"{key}.guess", made, setting, (number, power)))
    if guess.type == "values":
        return _given(guess, f"{key}.guess.values", setting, (low, high))
    if guess.type == "file":
        return _from_file(guess, block.name, f"{key}.guess", setting, (low, high))
    # Half of the nearer bound, else what turns the system by about pi in T.
    size = natural
    if guess.amplitude != "auto":
        size = setting.units.control(guess.amplitude, f"{key}.guess.amplitude")
    elif made.bounded:
        # a bound of zero leaves the other one
        size = 0.5 * min(s for s in (-low, high) if 0.0 < s < math.inf)
    if guess.type == "noise":
        return First(_noise(setting, size, number, (low, high)), held=True)
    count = guess.modes
    if guess.cutoff is not None:
        highest = setting.units.frequency(guess.cutoff, f"{key}.guess.cutoff")
        count = max(1, int(highest * duration / math.pi))
    return First(_random(count, setting, size, number, (low, high)))


def _gaussian(
    guess: GaussianValues | DragValues, key: str, setting: Setting, ends: tuple[float, float]
) -> First:
    """Return a Gaussian, or its derivative divided by the anharmonicity."""
    units, duration = setting.units, setting.duration
    width = units.time(guess.width, f"{key}.width")
    center = 0.5 * duration if guess.center is None else units.time(guess.center, f"{key}.center")
    if guess.amplitude == "auto":
        a, b = ((t - center) / (math.sqrt(2.0) * width) for t in (0.0, duration))
        whole = math.sqrt(0.5 * math.pi) * width * (math.erf(b) - math.erf(a))
        if not whole > 0.0:
            raise InvalidInput(f"{key}.center", "the pulse lies outside of 0 to T")
        size = math.pi / whole / (1.0 if units.fields else units.factor)
    else:
        size = units.control(guess.amplitude, f"{key}.amplitude")
    text = f"{size!r}*exp(-0.5*((t - {center!r})/{width!r})^2)"
    if guess.type == "drag":
        delta = units.frequency(guess.anharmonicity, f"{key}.anharmonicity")
        if delta == 0.0:
            raise InvalidInput(f"{key}.anharmonicity", "an anharmonicity of 0 has no such pulse")
        text = f"{guess.weight / (delta * width**2)!r}*(t - {center!r})*{text}"
    whole_formula = Expression(text, ("t",))
    return First(lambda t: np.clip(whole_formula(t=t), *ends), profiles=(FormulaProfile(whole_formula),))


def _carriers(
    guess: LadderValues | ResonantValues,
    key: str,
    made: Parametrisation,
    setting: Setting,
    place: tuple[int, int],
) -> Curve:
    """Return ``sum_rungs A cos(w (t - T/2))`` with ``|<a|H_c|b>| A integral S dt = area pi`` on every rung.

    That is the Rabi angle in the rotating-wave approximation; without a frequency, half of A is enough. A control that enters
    squared is the root of the same carriers, raised above zero.
    """
    number, power = place
    assert setting.rungs is not None
    rungs = setting.rungs.of(number, key, direct=guess.type == "resonant")
    area = guess.area
    if area == "auto":
        # of one rung half a pi pulse, where the slope of P = sin^2(area / 2) is largest
        area = 0.5 if len(rungs) == 1 else 1.0
    if guess.type == "ladder":
        area *= math.sqrt(len(rungs))
    length = float(made.shape.sum()) * setting.duration / setting.times.size
    low, high = float(made.low[0]), float(made.high[0])
    waves = []
    for gap, element in rungs:
        still = 0.5 if gap * setting.duration < 1.0 else 1.0
        waves.append((gap, still * area * math.pi / (element * length)))

    def curve(t: Array) -> Array:
        turned = t - 0.5 * setting.duration
        found = sum((size * np.cos(gap * turned) for gap, size in waves), np.zeros(t.size))
        if power == 2:
            found = np.sqrt(np.maximum(found + sum(size for _, size in waves), 0.0))
        return np.clip(found, low, high)

    return curve


def _given(guess: GivenValues, key: str, setting: Setting, ends: tuple[float, float]) -> First:
    """Return the values of an array, held in equal parts of the duration."""
    values, slots = np.array(guess.values), setting.times.size
    if slots % values.size:
        raise InvalidInput(key, f"{values.size} values do not divide {slots} slots into equal blocks")
    return First(_steps(values, setting, ends), held=True)


def _noise(setting: Setting, size: float, number: int, ends: tuple[float, float]) -> Curve:
    """Return independent normal values of the slots with a standard deviation, held in each."""
    slots = setting.times.size
    values = size * rng.normal(rng.key_from_seed(setting.seed), STREAM + number, setting.attempt, slots)
    return _steps(values, setting, ends)


def _steps(values: Array, setting: Setting, ends: tuple[float, float]) -> Curve:
    """Return values that are held in equal parts of the duration."""

    def curve(t: Array) -> Array:
        place = np.clip((t / setting.duration * values.size).astype(int), 0, values.size - 1)
        return np.clip(values[place], *ends)

    return curve


def _random(count: int, setting: Setting, size: float, number: int, ends: tuple[float, float]) -> Curve:
    """Return a sum of sine modes whose root mean square in the slots is `size`."""
    count = min(count, setting.times.size)
    # A stream for each control and a number for each start: more controls or starts leave the others as they are.
    draws = rng.normal(rng.key_from_seed(setting.seed), STREAM + number, setting.attempt, count)
    waves = np.pi / setting.duration * np.arange(1, count + 1)

    def bare(t: Array) -> Array:
        return draws @ np.sin(np.outer(waves, t))

    # The size is that in the slots, whatever the draws.
    root = float(np.sqrt(np.mean(bare(setting.times) ** 2)))
    return lambda t: np.clip(bare(t) * size / root, *ends)


# ------------------------------------------------------------------------------------------- files


def _from_file(guess: FileValues, name: str, key: str, setting: Setting, ends: tuple[float, float]) -> First:
    path = guess.file
    shaped = False
    if path.suffix in (".h5", ".hdf5"):
        t, values, shaped = _stored(path, guess.column or name, key, setting.units)
    else:
        t, values = _columns(guess, name, key, setting.units)
    # Rows of a table may stand in any order.
    order = np.argsort(t, kind="stable")
    t, values = t[order], values[order]
    if t.size < 2 or np.any(np.diff(t) <= 0):
        raise InvalidInput(f"{key}.file", f"{path} needs at least two distinct times")
    if t[-1] < 0.0 or t[0] > setting.duration:
        raise InvalidInput(
            f"{key}.file",
            f"times from {t[0]:g} to {t[-1]:g} do not overlap the pulse, which lasts from 0 to {setting.duration:g}",
        )
    held = guess.between == "hold" or (guess.between == "auto" and shaped)
    # a sample stands for the time around it: half a spacing beyond the ends
    start, end = t[0] - 0.5 * (t[1] - t[0]), t[-1] + 0.5 * (t[-1] - t[-2])
    # A held value changes half way between two times.
    edges = 0.5 * (t[1:] + t[:-1])

    def curve(times: Array) -> Array:
        found = values[np.searchsorted(edges, times, side="right")] if held else np.interp(times, t, values)
        return np.clip(np.where((times >= start) & (times <= end), found, 0.0), *ends)

    # Values that are held change within no slot if they change at the ends of slots alone.
    places = np.concatenate([[start], edges[np.diff(values) != 0.0] if held else t, [end]])
    inside = places[(places > 0.0) & (places < setting.duration)] / setting.duration * setting.times.size
    within = np.any(np.abs(inside - np.round(inside)) > ON_EDGE)
    return First(curve, held and not within, shaped, (Kinks(places),))


def _columns(guess: FileValues, name: str, key: str, units: Units) -> tuple[Array, Array]:
    """Return times and values of a text file, in the units of the system."""
    path, name = guess.file, guess.column or name
    labels, line = _header(path)
    rows = np.array(read_rows(path, f"t, {name}"))
    if rows.shape[1] < 2:
        raise FileError(f"{path}: one column; expected t and {name}")
    if not labels:
        if rows.shape[1] > 2:
            text = f"{path} has {rows.shape[1]} columns and no header; name them, '# t, {name}'"
            raise InvalidInput(f"{key}.file", text)
        labels = [("t", ""), (name, "")]
    # tables of `qsim table` name controls by their path
    names = [label[0].removeprefix("control/") for label in labels]
    time = next((i for i, n in enumerate(names) if n.lower() in TIMES), 0)
    if name not in names and guess.column is None and "E" in names:
        # an electric field, as tables of fields call it
        name = "E"
    if name not in names:
        raise InvalidInput(f"{key}.column", f"{path} has no column '{name}'; it has {', '.join(names)}")
    column = names.index(name)
    if max(time, column) >= rows.shape[1]:
        raise FileError(f"{path}:{line}: {len(names)} names, but {rows.shape[1]} columns")
    where = f"{path}:{line}"
    if unknown := set(guess.units) - {"t", "E", name}:
        text = f"no unit is needed of {', '.join(sorted(unknown))}; give those of t and {name}"
        raise InvalidInput(f"{key}.units", text)
    # what the deck says counts before the header
    of_times = guess.units.get("t", labels[time][1])
    of_values = guess.units.get(name, guess.units.get("E", labels[column][1]))
    return (
        rows[:, time] * _factor(of_times, "time", where, units),
        rows[:, column] * _factor(of_values, "control", where, units),
    )


def _header(path: Path) -> tuple[list[tuple[str, str]], int]:
    """Return names and units of the last line before the numbers, and its number; nothing without one."""
    found: tuple[list[tuple[str, str]], int] = ([], 0)
    for number, text in text_lines(path, "columns of numbers"):
        words = text.strip()
        bare = words.lstrip("#% ")
        comment = words != bare
        if not bare or (not comment and re.match(r"[-+]?\.?\d", bare)):
            if bare:
                break
            continue
        # a separator inside of brackets belongs to the unit
        parts = re.split(r"[,;\t](?![^(\[]*[)\]])", bare)
        if len(parts) == 1:
            parts = re.split(r"\s+(?![(\[])", bare)
        matches = [_NAME.fullmatch(part) for part in parts]
        names = [(m[1], (m[2] or "").strip()) for m in matches if m]
        # a comment may be prose
        if len(names) == len(parts) > 1:
            found = (names, number)
        elif not comment:
            raise FileError(f"{path}:{number}: expected a header such as 't (ns), u (MHz)', found '{words}'")
    return found


def _factor(unit: str, kind: str, where: str, units: Units) -> float:
    """Return the number of units of the system in one unit of a file."""
    if unit in ("", "1", "-"):
        return 1.0
    try:
        if kind == "time":
            return units.time(f"1 {unit}", "file")
        one, two = (units.control(f"{n} {unit}", "file") for n in (1, 2))
    except (InvalidInput, ValueError) as error:
        raise FileError(f"{where}: {error}") from None
    if two != 2.0 * one:
        # such as an intensity, which is no multiple of a field
        raise FileError(f"{where}: values of a control cannot be in {unit}")
    return one


def _stored(path: Path, name: str, key: str, units: Units) -> tuple[Array, Array, bool]:
    """Return times and values of an HDF5 file, and whether it holds the results of a run."""
    from qsim.core.results.hdf5 import open_datasets

    file, datasets = open_datasets(path)
    with file:
        if "results/time" in datasets:
            t, values = _of_results(path, name, key, units)
            return t, values, True
        time = next((n for n in datasets if n.lower() in TIMES), None)
        if name not in datasets or time is None:
            there = ", ".join(datasets) or "nothing"
            text = f"{path} needs the datasets t and {name}; it has {there}"
            raise InvalidInput(f"{key}.column", text)
        found: list[NDArray[Any]] = []
        for dataset, kind in ((time, "time"), (name, "control")):
            factor = _factor(datasets[dataset].unit, kind, f"{path}: {dataset}", units)
            found.append(np.asarray(datasets[dataset][()]) * factor)
    for label, values in zip((time, name), found, strict=True):
        if values.dtype.kind not in "iuf" or values.shape != found[0].shape or values.ndim != 1:
            raise FileError(f"{path}: {label} must hold as many real numbers as there are times")
        require_finite(path, label, values)
    return found[0], found[1], False


def _of_results(path: Path, name: str, key: str, units: Units) -> tuple[Array, Array]:
    """Return times and values of the results of a run, whose system may have another unit.

    The only control of a molecule with the propagators of the paper is `field`, in atomic units.
    """
    from qsim.core.results.results import open_complete, real_numbers

    with open_complete(path) as results:
        there = [n.removeprefix("control/") for n in results if n.startswith("control/") or n == "field"]
        if name not in there:
            text = f"{path} holds no control '{name}'; it has {', '.join(there) or 'none'}"
            raise InvalidInput(f"{key}.column", text)
        t = real_numbers(results, "time")
        own = "field" in there and name == "field" and "control/field" not in results
        values = real_numbers(results, "field" if own else f"control/{name}", (t.size,))
        other = results.deck.get("system", {}).get("unit")
        seconds = results.scalars["time_unit"].value if "time_unit" in results.scalars else None
        if own:
            seconds = Units("hartree").seconds
    if seconds is None or units.seconds is None:
        return t, values
    theirs = Units(other if other is not None else "hartree")
    ratio = float(seconds) / units.seconds
    if units.fields:
        return t * ratio, values
    return t * ratio, values * (theirs.factor / ratio / units.factor)

"""Reference decks: run them and compare with stored numbers.

Each deck ``inputs/<method>/<name>.yaml`` has a reference ``tests/reference/<method>/<name>.json``::

    {
      "overrides": ["time.steps=500"],
      "slow": false,
      "scalars": {
        "probability": {"value": 0.999, "atol": 1e-6, "rtol": 0, "source": "Table 2 of ..."},
        "norm_error": {"max": 1e-12},
        "energy": {"value": -2.9037, "error": 0.0002, "sigmas": 4, "source": "..."}
      },
      "arrays": {"populations": {"index": [-1, 1], "value": 0.999, "atol": 1e-6}}
    }

A scalar agrees if ``|found - value| <= atol + rtol * |value| + sigmas * sqrt(error^2 + found_error^2)`` and
if it lies between ``min`` and ``max``; tolerances that are not given are zero.  A found error above twice
the stored ``error`` is a mismatch itself, so that noise cannot hide a wrong mean.  Texts, booleans and null
must be equal.  A value that is missing or not finite never agrees.  An array entry (or a list of them)
compares one element, or the part that ``index`` selects, element by element; complex numbers are written
``[re, im]``.

An installed qsim carries both folders as ``qsim/_check/{inputs,reference}``; a checkout uses its own.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import DeviceError, FileError, Interrupted, NoGpuError, QsimError, Stopped
from qsim.core.results.results import open_results
from qsim.core.run.pipeline import Options, Outcome, execute
from qsim.version import __version__

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.results.results import Results

__all__ = [
    "Case",
    "Folders",
    "Mismatch",
    "Report",
    "cases",
    "compare",
    "compare_arrays",
    "folders",
    "run_case",
    "update",
]

_ENTRY_KEYS = {"value", "atol", "rtol", "error", "sigmas", "min", "max", "source"}
_ARRAY_KEYS = {"index", "value", "atol", "rtol", "source"}
_FILE_KEYS = {"overrides", "slow", "scalars", "arrays", "comment"}
# Start of the `source` of values that this program wrote itself and that `update` may rewrite.
OWN_SOURCE = "qsim "


@dataclass(frozen=True)
class Mismatch:
    """One disagreement between a run and its reference."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(frozen=True)
class Folders:
    """Folders of decks and references; references in a checkout may be updated."""

    inputs: Path
    reference: Path
    writable: bool


@dataclass(frozen=True)
class Case:
    """One reference deck.

    Attributes
    ----------
    method
        Name of the method, which is also the folder's.
    deck, reference
        The deck and its stored numbers; the latter may be missing, which is a mismatch.
    """

    method: str
    deck: Path
    reference: Path

    @property
    def name(self) -> str:
        """``method/deck``, as shown and as used for test ids."""
        return f"{self.method}/{self.deck.stem}"

    @property
    def slow(self) -> bool:
        """True if the reference marks the deck as slow."""
        return self.reference.is_file() and bool(load_reference(self.reference).get("slow", False))


@dataclass(frozen=True)
class Report:
    """Outcome of one case."""

    case: Case
    mismatches: tuple[Mismatch, ...]
    seconds: float
    summary: dict[str, Any] | None

    @property
    def ok(self) -> bool:
        """True if everything agrees."""
        return not self.mismatches

    def __str__(self) -> str:
        """One line per mismatch, below the name of the case."""
        return "\n  ".join([self.case.name, *map(str, self.mismatches)])


def folders() -> Folders:
    """Return the decks and references of this installation.

    Raises
    ------
    FileError
        If neither the installed nor the checkout's folders are there.
    """
    # A wheel carries decks and references inside the package; a checkout has them beside it.
    package = Path(__file__).resolve().parents[2]
    installed = Folders(package / "_check" / "inputs", package / "_check" / "reference", writable=False)
    checkout = Folders(package.parent / "inputs", package.parent / "tests" / "reference", writable=True)
    for place in (installed, checkout):
        if place.inputs.is_dir():
            return place
    raise FileError(
        f"this installation has no reference decks; looked for {installed.inputs} and {checkout.inputs}"
    )


def cases(methods: Iterable[str], place: Folders | None = None, deck: str | None = None) -> list[Case]:
    """List the reference decks of some methods, sorted by name.

    Parameters
    ----------
    methods
        Names of methods.
    place
        Folders to look in; by default the installation's.
    deck
        Only the deck of this name (without ``.yaml``).
    """
    place = place or folders()
    every = [
        Case(method, path, place.reference / method / f"{path.stem}.json")
        for method in methods
        for path in sorted((place.inputs / method).glob("*.yaml"))
    ]
    return [case for case in every if deck is None or case.deck.stem == deck]


def run_case(
    case: Case, folder: Path, device: str | None = None, *, figures: bool | Sequence[str] = False
) -> Report:
    """Run one reference deck and compare it with its stored numbers.

    Parameters
    ----------
    case
        Deck and reference.
    folder
        Where the results go; must be empty of earlier results of this deck.
    device
        As on the command line; by default what the deck says.
    figures
        Draw figures too: all, or those that are named.

    Raises
    ------
    DeviceError
        If the device cannot be used; any other failure of a run is a mismatch of the report.
    """
    start = time.perf_counter()

    def report(*mismatches: Mismatch, summary: dict[str, Any] | None = None) -> Report:
        return Report(case, mismatches, time.perf_counter() - start, summary)

    if not case.reference.is_file():
        return report(Mismatch("reference", f"missing; expected {case.reference}"))
    reference = load_reference(case.reference)
    try:
        try:
            outcome = _run(case, reference, folder, device, figures=figures)
        # A deck without CUDA kernels is checked where it can run.
        except NoGpuError:
            outcome = _run(case, reference, folder, "cpu", figures=figures)
    # A device that is missing is no mismatch of this deck: all others would fail, too.
    except (DeviceError, Stopped, Interrupted):
        raise
    except QsimError as error:
        return report(Mismatch("run", f"failed with exit code {error.exit_code}: {error}"))
    # Scalars from the summary, arrays from the file: both are what a user reads.
    mismatches = compare(outcome.summary["scalars"], reference.get("scalars", {}))
    if arrays := reference.get("arrays"):
        with open_results(outcome.results) as results:
            mismatches += compare_arrays(results, arrays)
    # A reference that states nothing would agree with anything.
    if not reference.get("scalars") and not arrays:
        mismatches.append(Mismatch("reference", "states no scalar and no array, so it checks nothing"))
    return report(*mismatches, summary=outcome.summary)


def _run(
    case: Case,
    reference: Mapping[str, Any],
    folder: Path,
    device: str | None,
    *,
    figures: bool | Sequence[str],
) -> Outcome:
    named = () if isinstance(figures, bool) else (f"output.figures=[{', '.join(figures)}]",)
    options = Options(
        device=device,
        overrides=(*reference.get("overrides", ()), *named),
        output=folder / f"{case.deck.stem}.h5",
        figures="all" if figures is True else bool(figures),
        verbosity=-1,
    )
    return execute(case.method, case.deck, options)


def load_reference(path: Path) -> dict[str, Any]:
    """Read a reference file.

    Raises
    ------
    FileError
        If it cannot be read, or has keys that mean nothing (a misspelt tolerance would otherwise count as
        zero).
    """
    try:
        # JSON as Python writes it may hold NaN and Infinity, with which no comparison makes
        # sense.
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read the reference {path}: {error}") from error
    _require_keys(path, "the file", content, _FILE_KEYS)
    for name, entry in content.get("scalars", {}).items():
        _require_keys(path, name, entry, _ENTRY_KEYS)
    for name, entries in content.get("arrays", {}).items():
        for entry in entries if isinstance(entries, list) else [entries]:
            _require_keys(path, name, entry, _ARRAY_KEYS)
    return dict(content)


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not a value or a tolerance that a result can be compared with")


def _require_keys(path: Path, name: str, entry: object, allowed: set[str]) -> None:
    if not isinstance(entry, dict):
        raise FileError(f"{path}: {name}: must be a mapping")
    if unknown := sorted(set(entry) - allowed):
        raise FileError(
            f"{path}: {name}: unknown key {', '.join(unknown)}; allowed: {', '.join(sorted(allowed))}"
        )


# ---------------------------------------------------------------------------------------------- comparison


def compare(
    scalars: Mapping[str, Mapping[str, Any]], reference: Mapping[str, Mapping[str, Any]]
) -> list[Mismatch]:
    """Compare the scalars of a summary with a reference.

    Parameters
    ----------
    scalars
        ``{name: {"value": ..., "error": ..., "unit": ...}}`` as in the summary of a run.
    reference
        ``{name: {"value": ..., "atol": ..., ...}}`` as in a reference file.

    Returns
    -------
    list of Mismatch
        Empty if all agree; scalars that the reference does not name are not looked at.
    """
    mismatches = []
    for name, entry in reference.items():
        reason = _judge(scalars[name], entry) if name in scalars else "missing in the results"
        if reason:
            mismatches.append(Mismatch(name, reason))
    return mismatches


def _judge(scalar: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Return why a scalar disagrees with its reference entry; empty if it agrees."""
    value, stored = scalar["value"], entry.get("value")
    if not entry.keys() & {"value", "min", "max"}:
        return "the reference states neither value nor min nor max"
    # Texts, truth values and null: equal, and of the same type, since True == 1 in Python.
    if not _is_number(stored) and "value" in entry:
        return (
            "" if type(value) is type(stored) and value == stored else f"found {value!r}, expected {stored!r}"
        )
    if not _is_number(value):
        return f"found {value!r}, expected a number"
    if not math.isfinite(value):
        return f"found {value}, which is not finite"
    # Written so that NaN fails.
    if "min" in entry and not value >= entry["min"]:
        return f"found {value:.12g}, expected at least {entry['min']:.12g}"
    if "max" in entry and not value <= entry["max"]:
        return f"found {value:.12g}, expected at most {entry['max']:.12g}"
    if "value" not in entry:
        return ""
    return _judge_value(float(value), scalar.get("error"), entry)


def _judge_value(value: float, error: float | None, entry: Mapping[str, Any]) -> str:
    stored, stored_error = float(entry["value"]), entry.get("error")
    statistical = 0.0
    if stored_error is not None:
        if error is None or not math.isfinite(error):
            return "has no statistical error, but its reference has"
        # Otherwise a run that got much noisier would agree with everything.
        if error > 2.0 * stored_error:
            return f"statistical error {error:.3g} is above twice the reference's, {stored_error:.3g}"
        # Two independent means differ by the root of the sum of their variances.
        statistical = float(entry.get("sigmas", 0.0)) * math.hypot(error, stored_error)
    allowed = entry.get("atol", 0.0) + entry.get("rtol", 0.0) * abs(stored) + statistical
    difference = abs(value - stored)
    if difference <= allowed:
        return ""
    return f"found {value:.12g}, expected {stored:.12g}: differs by {difference:.3g}, allowed {allowed:.3g}"


def compare_arrays(results: Results, reference: Mapping[str, Any]) -> list[Mismatch]:
    """Compare elements of the arrays of a results file with a reference."""
    mismatches = []
    for name, entries in reference.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            index = entry.get("index", [])
            index = tuple(index) if isinstance(index, list) else (index,)
            label = f"{name}[{', '.join(map(str, index))}]" if index else name
            reason = (
                _judge_array(results[name], index, entry) if name in results else "missing in the results"
            )
            if reason:
                mismatches.append(Mismatch(label, reason))
    return mismatches


def _judge_array(array: NDArray[Any], index: tuple[int, ...], entry: Mapping[str, Any]) -> str:
    """Return why elements of an array differ from their reference; empty if they agree."""
    try:
        # The index selects an element or a part; a value then has the shape of the part.
        part = array[index]
    except IndexError:
        return f"the array has shape {array.shape}"
    if array.dtype.kind not in "biufc":
        return (
            ""
            if np.asarray(part).tolist() == entry["value"]
            else f"found {part!r}, expected {entry['value']!r}"
        )
    stored = np.asarray(entry["value"], dtype=np.float64)
    if array.dtype.kind == "c":
        if stored.shape[-1:] != (2,):
            return "a complex array needs values written as [re, im]"
        # JSON has no complex numbers.
        stored = stored[..., 0] + 1j * stored[..., 1]
    if part.shape != stored.shape:
        return f"the selected part has shape {part.shape}, the reference {stored.shape}"
    if not np.isfinite(part).all():
        return "has values that are not finite"
    difference = np.abs(part - stored)
    allowed = entry.get("atol", 0.0) + entry.get("rtol", 0.0) * np.abs(stored)
    if (difference <= allowed).all():
        return ""
    return f"differs by up to {difference.max():.3g} from the reference, allowed {np.max(allowed):.3g}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ---------------------------------------------------------------------------------------------- update


def update(case: Case, folder: Path, device: str | None = None) -> list[str]:
    """Run a deck and rewrite the values of its reference that qsim itself wrote; tolerances stay.

    Values with another ``source`` (a paper, an exact result) are left alone: they are what qsim is checked
    against. A deck without a reference gets one with every finite number of its summary.

    Returns
    -------
    list of str
        Names of the scalars and arrays whose value changed.
    """
    new = not case.reference.is_file()
    reference: dict[str, Any] = {"scalars": {}} if new else load_reference(case.reference)
    outcome = _run(case, reference, folder, device, figures=False)
    if new:
        reference["scalars"] = _fresh_entries(outcome.summary["scalars"])
        changed = list(reference["scalars"])
    else:
        changed = _rewrite_scalars(outcome.summary["scalars"], reference.get("scalars", {}))
        with open_results(outcome.results) as results:
            changed += _rewrite_arrays(results, reference.get("arrays", {}))
    if changed:
        case.reference.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: an interrupted update leaves the old reference whole.
        part = case.reference.with_name(case.reference.name + ".part")
        part.write_text(json.dumps(reference, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        part.replace(case.reference)
    return changed


def _fresh_entries(scalars: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    for name, scalar in scalars.items():
        if scalar["value"] is None or scalar.get("unit") in ("s", "1/s"):  # speeds belong to the machine
            continue
        entries[name] = {"value": scalar["value"], "source": f"{OWN_SOURCE}{__version__}"}
        # Eight digits: what another processor or BLAS rounds in another way lies far below.
        if isinstance(scalar["value"], float):
            entries[name]["rtol"] = 1e-8
        if scalar.get("error") is not None:
            entries[name] |= {"error": scalar["error"], "sigmas": 4}
    return entries


def _is_own(entry: Mapping[str, Any]) -> bool:
    return "value" in entry and str(entry.get("source", "")).startswith(OWN_SOURCE)


def _rewrite_scalars(scalars: Mapping[str, Mapping[str, Any]], reference: dict[str, Any]) -> list[str]:
    changed = []
    # Values from papers and exact results are never touched, whatever a run gives.
    for name, entry in reference.items():
        if _is_own(entry) and name in scalars and scalars[name]["value"] not in (None, entry["value"]):
            entry |= {"value": scalars[name]["value"], "source": f"{OWN_SOURCE}{__version__}"}
            if "error" in entry and scalars[name].get("error") is not None:
                entry["error"] = scalars[name]["error"]
            changed.append(name)
    return changed


def _rewrite_arrays(results: Results, reference: Mapping[str, Any]) -> list[str]:
    changed = []
    for name, entries in reference.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            if not _is_own(entry) or name not in results:
                continue
            index = entry.get("index", [])
            part = np.asarray(results[name][tuple(index) if isinstance(index, list) else (index,)])
            # As pairs [re, im], since JSON has no complex numbers.
            if part.dtype.kind == "c":
                part = np.stack([part.real, part.imag], axis=-1)
            if part.tolist() != entry["value"]:
                entry |= {"value": part.tolist(), "source": f"{OWN_SOURCE}{__version__}"}
                changed.append(name)
    return changed

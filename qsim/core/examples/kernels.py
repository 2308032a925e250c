"""Record which compiled kernels the decks of ``inputs/`` need, for :mod:`qsim.core.device.compilers.table`.

Each deck runs in a process of its own, since a kernel that one deck has loaded is not looked for by the next.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.core.device.compilers.table import Kernel, Need, features_of, kernels_of, merged, table_path
from qsim.core.examples.check import Case, load_reference
from qsim.core.results.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["features_of_deck", "needs_of", "record_tables"]

PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import main; main(*sys.argv[2:])"


def record_tables(
    cases: Iterable[Case], device: str, seconds: float, tell: Callable[[str, int], None]
) -> list[Path]:
    """Run decks and write the tables of their methods; what is known of other decks and of the other device stays.

    Parameters
    ----------
    cases
        The decks.
    device
        ``"cpu"`` or ``"cuda"``.
    seconds
        Of a deck, at most: what it has called by then counts.
    tell
        Called with each name and the number of kernels.

    Returns
    -------
    list of Path
        The tables.
    """
    by_method: dict[str, dict[str, Need]] = {}
    for case in cases:
        need = needs_of(case, device, seconds)
        tell(case.name, len(need.kernels))
        if need.kernels:
            by_method.setdefault(case.method, {})[case.deck.stem] = need
    written = []
    for method, found in by_method.items():
        path = table_path(method)
        needs = [pair for pair in _known(path) if not (pair[0] in found and pair[1].device == device)]
        table = merged(sorted([*needs, *found.items()], key=lambda pair: (pair[0], pair[1].device)))
        write_text(path, _lines(table))
        written.append(path)
    return written


def features_of_deck(case: Case) -> frozenset[str]:
    """Return what of a deck decides about kernels."""
    from qsim.core.deck.load import written_deck

    return features_of(written_deck(case.deck.read_text(encoding="utf-8")))


def needs_of(case: Case, device: str, seconds: float) -> Need:
    """Return the kernels that a deck calls within some seconds, in a new process."""
    with tempfile.TemporaryDirectory(prefix="qsim-kernels-") as folder:
        told = Path(folder) / "kernels.json"
        words = [case.method, str(case.deck), device, str(told), json.dumps(_overrides(case))]
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(__name__), json.dumps(sys.path), *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        found = json.loads(told.read_text(encoding="utf-8")) if told.exists() else []
    kernels = tuple(Kernel(place, types, tuple(calls)) for place, types, calls in found)
    return Need(features_of_deck(case), device, kernels)


def main(method: str, deck: str, device: str, told: str, overrides: str) -> None:
    """Run a deck and write down its kernels as they are called: the program of a process."""
    import os

    os.environ["QSIM_COMPILERS"] = "1"
    recorder = _Recorder(Path(told))
    recorder.listen()
    from qsim.core.run.pipeline import Options, execute

    options = Options(
        device=device,
        overrides=json.loads(overrides),
        output=Path(told).parent,
        figures=False,
        verbosity=-1,
    )
    execute(method, Path(deck), options)


class _Recorder:
    """Writes down kernels that are looked for in the cache: those called from Python, and those called by address.

    Parameters
    ----------
    file
        Rewritten with each of them.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.kernels: list[Kernel] = []
        # Kernels that are being loaded or compiled, each with those that it calls by address.
        self._open: list[tuple[Kernel, set[int]] | None] = []

    def listen(self) -> None:
        """Hear of all kernels from now on."""
        from numba.core import caching, event

        plain = caching.Cache.load_overload

        def load_overload(cache: Any, signature: Any, target: Any) -> Any:
            self._begin(cache._py_func, getattr(signature, "args", signature))
            found = plain(cache, signature, target)
            self._end(keep=found is not None)
            return found

        class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
            def on_start(_, told: Any) -> None:
                self._begin(told.data["dispatcher"].py_func, told.data["args"])

            def on_end(_, told: Any) -> None:
                self._end(keep=True)

        caching.Cache.load_overload = load_overload
        event.register("numba:compile", Listener())

    def _begin(self, function: Any, args: Any) -> None:
        self._open.append(self._kernel(function, args))

    def _kernel(self, function: Any, args: Any) -> tuple[Kernel, set[int]] | None:
        """Return a kernel that is worth recording; None for parts of others, and where there are no words for it."""
        from qsim.core.device.compilers.signatures import find, place_of, written
        from qsim.core.device.jit import Apart

        try:
            found = find(place_of(function))
            if getattr(found, "py_func", None) is not function:
                return None
            inner = any(entry is not None for entry in self._open)
            if inner and not isinstance(found, Apart):
                return None
            return Kernel(place_of(function), [*map(written, args)]), set()
        except (ValueError, AttributeError, ImportError):
            return None

    def _end(self, *, keep: bool) -> None:
        entry = self._open.pop()
        if entry is None or not keep:
            return
        kernel, calls = entry
        known = {each.key: number for number, each in enumerate(self.kernels)}
        number = known.get(kernel.key, len(self.kernels))
        if number == len(self.kernels):
            self.kernels.append(Kernel(kernel.place, kernel.types, tuple(sorted(calls))))
            rows = [[each.place, each.types, each.calls] for each in self.kernels]
            write_text(self.file, json.dumps(rows))
        caller = next((each for each in reversed(self._open) if each is not None), None)
        if caller is not None:
            caller[1].add(number)


def _overrides(case: Case) -> list[str]:
    """Return what is changed in a deck that is checked: smaller sizes."""
    return list(load_reference(case.reference).get("overrides", [])) if case.reference.is_file() else []


def _known(path: Path) -> list[tuple[str, Need]]:
    """Return the decks of a table that is there."""
    if not path.exists():
        return []
    table = json.loads(path.read_text(encoding="utf-8"))
    return [
        (name, Need(frozenset(deck["features"]), device, kernels_of(table, name, device)))
        for name, deck in table["decks"].items()
        for device in ("cpu", "cuda")
        if device in deck
    ]


def _lines(table: Mapping[str, Any]) -> str:
    """Return a table as JSON, one kernel and one deck per line."""
    kernels = ",\n  ".join(json.dumps(kernel, separators=(",", ":")) for kernel in table["kernels"])
    decks = ",\n  ".join(
        f"{json.dumps(name)}: {json.dumps(deck, separators=(',', ':'))}" for name, deck in table["decks"].items()
    )
    return f'{{\n "kernels": [\n  {kernels}\n ],\n "decks": {{\n  {decks}\n }}\n}}\n'

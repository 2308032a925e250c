"""Record which compiled kernels the decks of ``inputs/`` need, for :mod:`qsim.core.device.compilers.table`.

Each deck runs in a process of its own, since a kernel that one deck has loaded is not looked for by the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from qsim.core.device.compilers.table import Kernel, Need, features_of, kernels_of, merged, table_path
from qsim.core.device.hardware import available_threads
from qsim.core.examples.check import Case, load_reference
from qsim.core.results.atomic import write_text

if TYPE_CHECKING:
    from collections.abc import Callable

Numba: TypeAlias = Any  # numba has no types that a checker could read

__all__ = ["features_of_deck", "needs_of", "record_tables"]

PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {0} import main; main(*sys.argv[2:])"


def record_tables(
    cases: Sequence[Case], device: str, seconds: float, tell: Callable[[str, int], None]
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
    written = []
    # Several decks at the same time: each compiles on one core for most of it.
    with ThreadPoolExecutor(max(1, available_threads() // 2)) as pool:
        for method in dict.fromkeys(case.method for case in cases):
            chosen = [case for case in cases if case.method == method]
            found = {}
            needs = pool.map(lambda case: needs_of(case, device, seconds), chosen)
            for case, need in zip(chosen, needs, strict=True):
                tell(case.name, len(need.kernels))
                if need.kernels:
                    found[case.deck.stem] = need
            if found:
                written.append(_write(method, device, found))
    return written


def _write(method: str, device: str, found: Mapping[str, Need]) -> Path:
    """Write the table of a method with what was found now for some decks on a device."""
    path = table_path(method)
    kept = [pair for pair in _known(path) if not (pair[0] in found and pair[1].device == device)]
    table = merged(sorted([*kept, *found.items()], key=lambda pair: (pair[0], pair[1].device)))
    write_text(path, _lines(table))
    return path


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
            env={**os.environ, "QSIM_COMPILERS": "1"},
        )
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        found = json.loads(told.read_text(encoding="utf-8")) if told.exists() else []
    kernels = tuple(Kernel(place, types) for place, types in found)
    return Need(features_of_deck(case), device, kernels)


def main(method: str, deck: str, device: str, told: str, overrides: str) -> None:
    """Run a deck and write down its kernels as they are called: the program of a process."""
    recorder = _Recorder(Path(told))
    recorder.listen()
    from qsim.core.run.pipeline import Options, execute

    options = Options(
        device=device,
        threads=min(2, available_threads()),
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
        # Kernels that are being loaded or compiled, None for parts of others.
        self._open: list[Kernel | None] = []

    def listen(self) -> None:
        """Hear of all kernels from now on."""
        from numba.core import caching, event

        plain = caching.Cache.load_overload

        def load_overload(cache: Numba, signature: Numba, target: object) -> object:
            kinds = signature.args if hasattr(signature, "args") else signature
            self._begin(cache._py_func, kinds)
            try:
                return plain(cache, signature, target)
            finally:
                self._open.pop()

        class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
            def on_start(_, told: Numba) -> None:
                self._begin(told.data["dispatcher"].py_func, told.data["args"])

            def on_end(_, told: Numba) -> None:
                self._open.pop()

        caching.Cache.load_overload = load_overload
        event.register("numba:compile", Listener())

    def _begin(self, function: FunctionType, args: Sequence[Numba]) -> None:
        kernel = self._kernel(function, args)
        self._open.append(kernel)
        if kernel is not None and kernel not in self.kernels:
            self.kernels.append(kernel)
            write_text(self.file, json.dumps([[each.place, each.types] for each in self.kernels]))

    def _kernel(self, function: FunctionType, args: Sequence[Numba]) -> Kernel | None:
        """Return a kernel that is worth recording; None for parts of others, and where there are no words for it."""
        from qsim.core.device.compilers.signatures import find, place_of, written
        from qsim.core.device.jit import Apart

        try:
            found = find(place_of(function))
            if getattr(found, "py_func", None) is not function:
                return None
            if not isinstance(found, Apart) and any(entry is not None for entry in self._open):
                return None
            return Kernel(place_of(function), [*map(written, args)])
        except (ValueError, AttributeError, ImportError):
            return None


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
        f"{json.dumps(name)}: {json.dumps(deck, separators=(',', ':'))}"
        for name, deck in table["decks"].items()
    )
    return f'{{\n "kernels": [\n  {kernels}\n ],\n "decks": {{\n  {decks}\n }}\n}}\n'

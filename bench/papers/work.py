"""What the items of all papers use: decks run once, cases of the bench measured once, records of a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.harness import CASES, Bench
from qsim.core.device.device import Device, cpu
from qsim.core.results.results import Results, open_results
from qsim.core.run.pipeline import Options, execute

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "bench/results"
NOT_RUN = "not run: needs a GPU"
THIS_RUN = ", this run"

Row = dict[str, Any]


@dataclass
class Kept:
    """An item that was computed: what its file holds."""

    data: dict[str, Any]
    seconds: float
    device: str
    qsim: str
    commit: str | None
    created: str
    quick: bool = False

    def write(self, path: Path) -> None:
        """Write the file; complete or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1, default=float) + "\n", encoding="utf-8")
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Kept:
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class Work:
    """The folder of a reproduction and the devices that it may use.

    Parameters
    ----------
    folder
        Where runs, measurements and figures are kept; what is there is not computed again.
    gpu
        A CUDA device to measure on, or None: then the newest record of ``bench/results`` stands for it, and says so.
    quick
        Small sizes: does everything work?
    """

    def __init__(self, folder: Path, gpu: Device | None = None, quick: bool = False) -> None:
        self.folder, self.gpu, self.quick = folder, gpu, quick
        self.core = cpu(1)

    @property
    def _small(self) -> str:
        """What tells the folders of small sizes from the others."""
        return "-quick" if self.quick else ""

    def results(self, method: str, deck: str, overrides: Sequence[str] = (), name: str = "") -> Results:
        """Return the results of a deck of ``inputs``, run now unless they are there; a stopped run is continued."""
        target = self.folder / method / f"runs{self._small}" / f"{name or deck}.h5"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            options = Options(
                device="cpu",
                threads=1,
                overrides=overrides,
                output=target,
                figures=False,
                resume=True,
                verbosity=-1,
            )
            execute(method, ROOT / "inputs" / method / f"{deck}.yaml", options)
        return open_results(target)

    def is_served_by(self, kept: Kept) -> bool:
        """Return whether an item that was computed is what is asked for: these sizes, and the GPU if there is one."""
        source = kept.data.get("cuda_from")
        on_gpu = source is None or self.gpu is None or str(source).endswith(THIS_RUN)
        return kept.quick == self.quick and on_gpu

    def case(self, name: str) -> list[Row]:
        """Return the rows of a case of the bench on one core, measured now unless they are there."""
        return self._measured(name, self.core)

    def gpu_case(self, name: str) -> tuple[list[Row], str]:
        """Return the rows of a case on a GPU and where they come from; no rows and a reason where there are none."""
        if self.gpu is not None:
            return self._measured(name, self.gpu), f"{self.gpu}{THIS_RUN}"
        found = recorded(name)
        return found if found is not None else ([], NOT_RUN)

    def _measured(self, name: str, device: Device) -> list[Row]:
        path = self.folder / f"cases{self._small}" / f"{name}.{device.kind}.json"
        if path.exists():
            return list(json.loads(path.read_text(encoding="utf-8")))
        bench = Bench(device, self.core, self.quick, say=lambda text: None)
        with device.use():
            CASES[name].run(bench)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(bench.rows, default=float), encoding="utf-8")
        return bench.rows


def recorded(name: str) -> tuple[list[Row], str] | None:
    """Return the rows of a case in the newest record that was made on a GPU, and the name of device and record."""
    found: list[tuple[str, list[Row], str]] = []
    for path in RECORDS.glob("*.json"):
        record = json.loads(path.read_text(encoding="utf-8"))
        for entry in record.get("cases", ()):
            whole = entry["status"] in ("done", "cut short")  # of a run that was stopped, what it had
            if entry["case"] == name and entry["device"].startswith("cuda") and whole:
                where = f"{record['devices'][entry['device']]['name']}, record {path.stem}"
                found.append((record["created"], entry["rows"], where))
    if not found:
        return None
    _, rows, where = max(found)
    return rows, where


def undisturbed(row: Row) -> float:
    """Return the time of a row without what others took of the core: the shortest repeat, or processor time if that is less.

    Launches on a GPU are timed by events, whose median stands.
    """
    if row.get("clock") != "wall" or str(row.get("device", "cpu")).startswith("cuda"):
        return float(row["seconds"])
    return float(min(row["best"], row.get("cpu_seconds") or row["best"]))

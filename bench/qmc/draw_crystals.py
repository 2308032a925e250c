"""Draw the record of ``bench/qmc/crystals.py`` as the paper's Figs. 3, 4 and 5.

python bench/qmc/draw_crystals.py bench/results/qmc-crystals-cpu-2026-11-22.json docs/images/theory/qmc/crystals.png
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)

from matplotlib.figure import Figure  # noqa: E402

from qsim.core.results.plotting import style  # noqa: E402

SYSTEMS = {"diamond 2": "2 atoms, 8 electrons", "diamond 16": "16 atoms, 64 electrons"}


def rows_of(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the rows of a case."""
    return next(entry["rows"] for entry in record["cases"] if entry["case"] == name)


def throughput(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw walker-generations a second against walkers."""
    for system, words in SYSTEMS.items():
        for kind, dash in (("locality", "-"), ("T-moves", "--")):
            mine = [r for r in rows if r.get("system") == system and r.get("kind") == kind]
            x, y = [r["walkers"] for r in mine], [r["walker_generations_per_s"] for r in mine]
            axes.plot(x, y, dash, marker="o", label=f"{words}, {kind}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("walkers")
    axes.set_ylabel("walker-generations per second")
    axes.legend(fontsize=6)
    axes.set_title("throughput, one core (Fig. 3)", loc="left")


def shares(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw the share of each class of kernels in a generation."""
    kinds = list(dict.fromkeys(r["kind"] for r in rows))
    for i, (system, words) in enumerate(SYSTEMS.items()):
        by_kind = {r["kind"]: 100 * r["share_of_generation"] for r in rows if r["system"] == system}
        places = [k + 0.38 * i for k in range(len(kinds))]
        axes.barh(places, [by_kind.get(kind, 0.0) for kind in kinds], height=0.36, label=words)
    axes.set_yticks(
        [k + 0.19 for k in range(len(kinds))], [kind.replace(", ", ",\n", 1) for kind in kinds], fontsize=6
    )
    axes.invert_yaxis()
    axes.set_xlabel("share of a DMC generation (%)")
    axes.legend(fontsize=6, loc="lower right")
    axes.set_title("time by class (Fig. 4)", loc="left")


def bases(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw speed against memory of each basis."""
    for k, (system, words) in enumerate(SYSTEMS.items()):
        mine = [r for r in rows if r.get("system") == system and r.get("kind") == "locality"]
        if not mine:
            continue
        first = mine[0]["walker_generations_per_s"]
        x = [r["bytes_of_tables"] / 1e6 for r in mine]
        y = [r["walker_generations_per_s"] / first for r in mine]
        axes.plot(x, y, "o", label=words)
        for a, b, r in zip(x, y, mine, strict=True):
            text = (
                r["label"]
                .split(", ", 1)[1]
                .removesuffix(": locality")
                .replace("splines, meshfactor ", "mesh ")
            )
            side = {"ha": "left", "xytext": (5, -2)} if k else {"ha": "right", "xytext": (-5, -2)}
            axes.annotate(text, (a, b), textcoords="offset points", fontsize=6, **side)
    axes.set_xscale("log")
    axes.set_xlim(0.03, 200.0)
    axes.set_ylim(0.0, 1.4)
    axes.set_xlabel("memory of the orbitals (MB)")
    axes.set_ylabel("speed over that of splines")
    axes.legend(fontsize=6, loc="upper left")
    axes.set_title("uniform and mixed basis (Fig. 5)", loc="left")


def main() -> None:
    """Draw the figure."""
    source, target = sys.argv[1:]
    record = json.loads(Path(source).read_text(encoding="utf-8"))
    with style():
        figure = Figure(figsize=(10.2, 3.2), layout="constrained")
        one, two, three = figure.subplots(1, 3)
        throughput(one, rows_of(record, "qmc-crystals"))
        shares(two, rows_of(record, "qmc-crystal-shares"))
        bases(three, rows_of(record, "qmc-basis"))
        figure.savefig(target, dpi=150)


if __name__ == "__main__":
    main()

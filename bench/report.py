"""Write docs/reference/bench.md from the records in bench/results: ``python bench/report.py``.

Every number of the page is one of a record; a test compares the page with what this program writes.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "bench/results"
PAGE = ROOT / "docs/reference/bench.md"

Row = dict[str, Any]

OTHERS = re.compile(
    r"PyQMC|QuSpin|Qulacs|Qiskit|numpy|scipy|lapack|gtsv|cusparse|cupy|torch|custatevec|qutip|pyscf|woodbury|thomas|"
    r"LU of the library|plain|baseline",
    re.IGNORECASE,
)
"""Labels of rows that are not of qsim's own kernels."""
OWN_COLUMNS = frozenset(
    [
        "label",
        "device",
        "seconds",
        "best",
        "repeats",
        "clock",
        "cpu_seconds",
        "us_per_step",
        "flops",
        "bytes",
        "share",
        "floor_s",
        "bound",
        "fraction",
        "system",
        "kind",
        "code",
        "precision",
        "spins",
        "walkers",
        "electrons",
        "functions",
        "threads",
        "rows",
        "ratio_best",
        "ratio_cpu",
    ]
)
"""Fields that have a column, that the label says, or that repeat another."""
SCALES = (
    (1e-15, "f"),
    (1e-12, "p"),
    (1e-9, "n"),
    (1e-6, "µ"),
    (1e-3, "m"),
    (1.0, ""),
    (1e3, "k"),
    (1e6, "M"),
)
LARGE = ((1e9, "G"), (1e12, "T"), (1e15, "P"))

HEAD = """# Measured speed

Written by `python bench/report.py` from the records in `bench/results`: every number below is one of theirs. What the
cases measure, what favours whom and how it is timed: [bench/README.md](../../bench/README.md).

- *Time*: median of the repeats; *floor*: the larger of operations / rate and bytes / bandwidth, under the ceilings
  measured in the same run; *fraction*: floor / time. Work that can occupy only a part of a GPU is held against that
  part of its arithmetic. Above 1, the data stayed in a cache that is faster than the memory of the ceiling, or the
  ceiling was measured in a busier minute.
- Rows in *italics* are other codes, libraries and baselines. *Beside* holds what a row says in addition: `ratio` is
  the time of that row over ours (or what its name says), `difference` the largest one to our numbers.
- Records are as old as they say. A change of a kernel since then is not in them.
"""


def page(folder: Path = RECORDS) -> str:
    """Return the Markdown of the page.

    Parameters
    ----------
    folder
        Where the records are, ``*.json``.
    """
    records = {
        path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    }
    cases = {name: record for name, record in records.items() if "cases" in record}
    plain = {name: record for name, record in records.items() if "cases" not in record}
    parts = [HEAD, machines(cases), overview(cases), goals(cases)]
    for method in sorted({name.partition("-")[0] for name in cases}):
        parts.append(f"## `{method}`\n")
        for name, record in cases.items():
            if name.partition("-")[0] == method:
                parts.extend(details(name, entry) for entry in record["cases"] if entry["rows"])
    parts.append("## Whole commands and memory\n")
    parts.extend(simple(name, record) for name, record in plain.items())
    return "\n".join(parts)


def machines(records: dict[str, Row]) -> str:
    """Return the table of records: machine, commit, ceilings."""
    rows = []
    for name, record in records.items():
        for label, device in record["devices"].items():
            top = device["ceilings"]
            main = label != "cpu" or len(record["devices"]) == 1
            if main:
                commit = str(record["commit"])
                commit = commit[:7] + ("*" if commit.endswith("dirty") else "")
                rates = [unit(top["copy"], "B/s"), unit(top["fma"], "flop/s"), unit(top["dgemm"], "flop/s")]
                rows.append([f"`{name}`", device["name"], record["created"][:10], commit, *rates])
    head = ["record", "device", "date", "commit", "copy", "FP64 rate", "dgemm"]
    note = "A star marks a checkout with changes that were not committed.\n"
    return f"## Records and ceilings\n\n{table(head, rows)}\n\n{note}"


def overview(records: dict[str, Row]) -> str:
    """Return the table of cases: the fractions of their floors, and how many goals are met."""
    rows = []
    for name, record in records.items():
        for entry in record["cases"]:
            if entry["status"] != "done":
                rows.append([f"`{entry['case']}`", f"`{name}`", entry["status"], "", "", entry["message"]])
                continue
            found = [row["fraction"] for row in entry["rows"] if "fraction" in row and not is_other(row)]
            spread = (
                [number(100 * pick(found)) for pick in (min, statistics.median, max)]
                if found
                else ["", "", ""]
            )
            met = sum(goal["met"] for goal in entry["goals"])
            reached = f"{met} of {len(entry['goals'])}" if entry["goals"] else ""
            rows.append([f"`{entry['case']}`", f"`{name}`", *spread, reached])
    head = ["case", "record", "least % of the floor", "median", "most", "goals met"]
    return f"## Overview\n\n{table(head, rows)}\n"


def goals(records: dict[str, Row]) -> str:
    """Return the table of goals, those that are not met first."""
    rows = []
    for name, record in records.items():
        for entry in record["cases"]:
            for goal in entry["goals"]:
                sign = {">=": "≥", "<=": "≤"}[goal["relation"]]
                asked = f"{sign} {goal['limit']:g} {goal['unit']}".strip()
                verdict = "met" if goal["met"] else "**not met**"
                rows.append(
                    [verdict, f"`{entry['case']}`", f"`{name}`", goal["goal"], number(goal["value"]), asked]
                )
    rows.sort(key=lambda row: row[0] == "met")
    return f"## Goals\n\n{table(['', 'case', 'record', 'goal', 'measured', 'asked for'], rows)}\n"


def details(name: str, entry: Row) -> str:
    """Return the section of one case of one record."""
    rows = []
    for row in entry["rows"]:
        label = f"*{row['label']}*" if is_other(row) else row["label"]
        seconds, fraction = row.get("seconds"), row.get("fraction")
        rows.append(
            [
                label,
                unit(seconds, "s") if seconds is not None else "",
                unit(row.get("flops"), ""),
                unit(row.get("bytes"), "B"),
                unit(row.get("floor_s"), "s") + (f" ({row['bound']})" if row.get("bound") else ""),
                f"{number(100 * fraction)} %" if fraction is not None else "",
                beside(row),
            ]
        )
    head = ["what", "time", "flops", "bytes", "floor", "fraction", "beside"]
    notes = "".join(f"- {note}\n" for note in entry["notes"])
    used = [k for k in range(len(head)) if k < 2 or any(row[k] for row in rows)]
    shown = [[row[k] for k in used] for row in rows]
    title = f"### `{entry['case']}`, {entry['device']}, record `{name}`"
    return f"{title}\n\n{entry['summary']}\n\n{table([head[k] for k in used], shown)}\n" + (
        f"\n{notes}" if notes else ""
    )


def simple(name: str, record: Row) -> str:
    """Return the section of a record without cases: its rows, and the works on several threads."""
    about = f"{record['device']}; `{record['command']}`; {record['unit']}. {record['note']}"
    tables = [plain_table(record[key]) for key in ("rows", "works") if record.get(key)]
    return f"### Record `{name}`\n\n{about}\n\n" + "\n\n".join(tables) + "\n"


def plain_table(found: list[Row]) -> str:
    """Return the table of rows as they are, a column for each of their entries."""
    columns = list(dict.fromkeys(key for row in found for key in flat(row)))
    return table(columns, [[value_text(flat(row).get(key)) for key in columns] for row in found])


def flat(row: Row) -> Row:
    """Return a row with the entries of its mappings as columns of their own."""
    found: Row = {}
    for key, value in row.items():
        inner = value if isinstance(value, dict) else {"": value}
        found.update({f"{key} {name}".strip(): item for name, item in inner.items()})
    return found


def is_other(row: Row) -> bool:
    """Return whether a row is about another code, a library or a baseline."""
    return bool(OTHERS.search(row["label"])) and "/ qsim" not in row["label"]


def beside(row: Row) -> str:
    """Return what a row holds that has no column."""
    more = {key: value for key, value in row.items() if key not in OWN_COLUMNS and value is not None}
    return ", ".join(f"{key} {value_text(value)}" for key, value in more.items())


def value_text(value: object) -> str:
    """Return a value with three figures."""
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)


def number(value: float) -> str:
    """Return a number with three figures, plain where that is short."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if 1e-3 <= abs(value) < 1e5:
        digits = max(0, 2 - math.floor(math.log10(abs(value))))
        return f"{value:.{digits}f}"
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{mantissa}·10^{int(power)}"


def unit(value: float | None, name: str) -> str:
    """Return a quantity with three figures and a prefix of its unit; nothing for nothing."""
    if value is None:
        return ""
    if value == 0:
        return "0"
    steps = SCALES if name == "s" else (*SCALES[5:], *LARGE)
    factor, prefix = max((step for step in steps if abs(value) >= 0.9995 * step[0]), default=steps[0])
    if name == "s" and factor > 1.0:
        factor, prefix = 1.0, ""
    return f"{number(value / factor)} {prefix}{name}".strip()


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)

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
    tables = {name: record for name, record in records.items() if "decks" in record}
    plain = {
        name: record for name, record in records.items() if "cases" not in record and "decks" not in record
    }
    parts = [HEAD, machines(cases), overview(cases), goals(cases)]
    for method in sorted({name.partition("-")[0] for name in cases}):
        parts.append(f"## `{method}`\n")
        for name, record in cases.items():
            if name.partition("-")[0] == method:
                parts.extend(details(name, entry) for entry in record["cases"] if entry["rows"])
    parts.extend(
        (many_cores if record.get("scaling") else all_decks)(name, record) for name, record in tables.items()
    )
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


DECKS_NOTE = """Wall time of whole commands in seconds, from the start of the interpreter to its end, without figures;
several at a time on cores of their own. *Cold*: two cores and empty caches of compiled kernels; in brackets what compilation
took. *GPU*: with two to four cores. Empty: not run in time. *auto*: what `device: auto` takes, and how many times as long as the
better of the two last columns. *Size*: what it decides by, and the size from which it takes a GPU.
"""


def all_decks(name: str, record: Row) -> str:
    """Return the section of a table of all decks, with the goals that they contradict."""
    wide = record["wide"]
    about = (
        f"{record['device']}; `{record['command']}`; {record['created'][:10]}, commit {record['commit'][:7]}."
    )
    known = {column for row in record["decks"] for column in row.get("seconds", {})}
    columns = [column for column in ("CPU, cold", "GPU, cold", "1 core", wide, "GPU") if column in known]
    head = ["deck", *columns, "auto", "size"]
    rows = [
        [f"`{row['deck']}`", *(deck_seconds(row, c) for c in columns), *deck_choice(row, wide)]
        for row in record["decks"]
    ]
    found = record.get("verdicts", {})
    judged = "".join(f"- {goal}: {said(decks)}\n" for goal, decks in found.items())
    return f"## All decks, record `{name}`\n\n{about}\n\n{DECKS_NOTE}\n{table(head, rows)}\n\n{judged}"


def many_cores(name: str, record: Row) -> str:
    """Return the section of decks on 1, 8 and 16 cores: seconds of the stage ``run``, and how many times as fast as one core."""
    about = (
        f"{record['device']}; `{record['command']}`; {record['created'][:10]}, commit {record['commit'][:7]}."
    )
    columns = [column for column in record["columns"] if "cold" not in column]
    columns.sort(key=lambda column: int(column.split()[0]))
    rows = []
    for row in record["decks"]:
        seconds = {column: row.get("run", {}).get(column) for column in columns}
        one = seconds[columns[0]]
        cells = [""] * len(columns)
        for k, found in enumerate(seconds.values()):
            ratio = f" ({one / found:.1f})" if k and one and found else ""
            cells[k] = f"{found:.2f}{ratio}" if found else ""
        rows.append([f"`{row['deck']}`", *cells])
    note = "Seconds of the stage `run`; in brackets how many times as fast as on one core."
    return (
        f"## Decks on many cores, record `{name}`\n\n{about}\n\n{note}\n\n{table(['deck', *columns], rows)}\n"
    )


def said(decks: list[str]) -> str:
    """Return the decks that contradict a goal in words."""
    return f"not {', '.join(f'`{deck}`' for deck in decks)}" if decks else "all decks"


def deck_seconds(row: Row, column: str) -> str:
    """Return what a deck takes, with its compilation where the caches were empty."""
    if row.get("error", {}).get(column):
        return "failed"
    seconds = row.get("seconds", {}).get(column)
    if seconds is None:
        return "no kernels" if "GPU" in column and "no kernels" in row else ""
    if row.get("cut", {}).get(column):
        return f"> {seconds:g}"
    compiled = row.get("compile", {}).get(column, 0.0) if "cold" in column else 0.0
    return f"{seconds:.1f} ({compiled:.1f})" if compiled else f"{seconds:.1f}"


def deck_choice(row: Row, wide: str) -> list[str]:
    """Return what ``auto`` takes of a deck beside its size."""
    seconds = row.get("seconds", {})
    both = [seconds[column] for column in (wide, "GPU") if column in seconds]
    taken = seconds.get(row.get("auto"))
    ratio = f", {taken / min(both):.2f}" if taken is not None and len(both) > 1 else ""
    limit = f" (GPU from {number(row['GPU from'])})" if "GPU from" in row else ""
    size = f"{number(float(row['size']))} {row['of']}{limit}" if "size" in row else ""
    return [f"{row.get('auto', '')}{ratio}", size]


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

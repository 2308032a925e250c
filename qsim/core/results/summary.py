"""The summary of a run: a flat, stable JSON object that scripts can read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.core.results.atomic import write_text
from qsim.core.results.jsonable import json_ready
from qsim.core.results.reading import read_bytes, reading
from qsim.core.results.tables import NO_ERROR, NOT_VERIFIED, Scalar
from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["SCHEMA", "entry", "read_summary", "summary", "write_summary"]

# Bytes.
# Larger than any summary that qsim writes: scalars and a deck.
MAX_SUMMARY = 64 * 2**20
# Key of the file alone.
CHECKSUM = "checksum"


_SCALAR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "value": {
            "type": ["number", "integer", "boolean", "string", "null"],
            "description": "null: there is none",
        },
        "error": {"type": ["number", "null"], "description": "claimed error; null: none"},
        "unit": {"type": "string", "description": "empty for a pure number"},
        "note": {
            "type": "string",
            "description": f"'{NO_ERROR}': a computed number without a claimed error; '{NOT_VERIFIED}': the deck, or "
            "the length of the run, left out what finds errors; absent otherwise",
        },
    },
    "required": ["value", "error", "unit"],
    "additionalProperties": False,
}
_TEXTS = {"type": "array", "items": {"type": "string"}}
#: JSON Schema of a summary; later versions only add keys.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": f"urn:qsim:schema:{__version__}:summary",
    "title": "summary of a run of qsim",
    "type": "object",
    "properties": {
        "method": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "string", "description": "complete, or how it ended"},
        "device": {"type": "string"},
        "precision": {"type": "string"},
        "seed": {"type": ["integer", "null"]},
        "scalars": {
            "type": "object",
            "additionalProperties": _SCALAR,
            "description": "headline numbers by name",
        },
        "aliases": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "names of scalars by their short or earlier names",
        },
        "timing": {
            "type": "object",
            "additionalProperties": {"type": ["number", "null"]},
            "description": "seconds per stage",
        },
        "files": _TEXTS,
        "warnings": _TEXTS,
        "version": {"type": "string", "description": "of qsim"},
        "overrides": {**_TEXTS, "description": "given with --set"},
        "deck": {"type": "object", "description": "resolved, in atomic units"},
        CHECKSUM: {"type": "string", "description": "CRC-32 of all the rest; in the file alone"},
    },
    "required": [
        "method",
        "title",
        "status",
        "scalars",
        "timing",
        "files",
        "warnings",
        "version",
        "overrides",
        "deck",
    ],
}


def summary(
    results: Results,
    *,
    device: str,
    precision: str,
    seed: int | None,
    timing: Mapping[str, float],
    files: Sequence[str | Path],
    warnings: Sequence[str] = (),
    version: str = "",
) -> dict[str, Any]:
    """Return the flat, stable summary of a run: what ``<stem>.summary.json`` holds and ``--json`` prints.

    Values that JSON cannot hold (NaN, infinities) become ``None``.
    """
    scalars = {name: entry(scalar) for name, scalar in results.scalars.items()}
    ready: dict[str, Any] = json_ready(
        {
            "method": results.method,
            "title": results.title,
            "status": results.status,
            "device": device,
            "precision": precision,
            "seed": seed,
            "scalars": scalars,
            **({"aliases": results.scalars.aliases} if results.scalars.aliases else {}),
            "timing": dict(timing),
            "files": [str(file) for file in files],
            "warnings": list(warnings),
            "version": version,
            "overrides": results.provenance.get("overrides", []),
            "deck": results.deck,
        }
    )
    return ready


def entry(scalar: Scalar) -> dict[str, Any]:
    """Return a scalar as summaries hold it: value, error and unit, and a note where there is one."""
    known = {"value": scalar.value, "error": scalar.error, "unit": scalar.unit}
    return {**known, "note": scalar.note} if scalar.note else known


def write_summary(path: str | Path, content: Mapping[str, Any]) -> Path:
    """Write a summary as JSON, replacing the file in one step.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    ready: dict[str, Any] = json_ready(content)
    text = json.dumps({**ready, CHECKSUM: _checksum(ready)}, indent=2, ensure_ascii=False, allow_nan=False)
    # bytes of file names that are not UTF-8 become \\udc.., which is JSON
    return write_text(path, text + "\n")


def _checksum(content: Mapping[str, Any]) -> str:
    """Return the CRC-32 of what a summary says, however it is set."""
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}"


def read_summary(path: str | Path) -> dict[str, Any]:
    """Return the summary of an earlier run.

    Raises
    ------
    FileError
        If it is missing, damaged, or no summary.
    """
    expected = "the summary of a run"
    data = read_bytes(path, expected, MAX_SUMMARY)
    with reading(path, expected, hint="--force repeats the run"):
        content = json.loads(data)
        if (
            not isinstance(content, dict)
            or not {"method", "scalars", "timing", "files", "warnings"} <= content.keys()
        ):
            raise ValueError("it lacks method, scalars, timing, files or warnings")
        # Summaries of older versions have none.
        if content.pop(CHECKSUM, None) not in (None, _checksum(content)):
            raise ValueError("its checksum does not fit its content")
        for scalar in content["scalars"].values():
            # A summary may have been edited: what the commands print must be there.
            if not {"value", "error", "unit"} <= scalar.keys() <= _SCALAR["properties"].keys():
                raise ValueError("a scalar is not value, error, unit")
    return content

"""BibTeX entries of qsim and of the algorithms that a run used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qsim.core.results.results import Results

__all__ = ["bibtex", "entries", "keys_of"]


@cache
def entries() -> dict[str, str]:
    """Return all entries of ``qsim/references.bib`` by their keys."""
    text = (resources.files("qsim") / "references.bib").read_text(encoding="utf-8")
    found = {}
    for entry in re.split(r"^(?=@)", text, flags=re.MULTILINE):
        if match := re.match(r"@\w+\{([^,\s]+),", entry):
            found[match[1]] = entry.strip()
    return found


def bibtex(keys: Iterable[str]) -> str:
    """Return the entries of some keys as BibTeX; a key without an entry becomes a comment."""
    known = entries()
    return "\n\n".join(known.get(key, f"% {key}: no entry") for key in dict.fromkeys(keys)) + "\n"


def keys_of(results: Results) -> list[str]:
    """Return the keys that a run recorded; those of qsim alone for files of version 0.1.0, which recorded none."""
    recorded = results.provenance.get("references")
    return [str(key) for key in recorded] if isinstance(recorded, list) else ["qsim"]

"""Observations of a solution as plain numbers and arrays that a checkpoint holds, and back."""

from __future__ import annotations

from dataclasses import Field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from qsim.sturmian.scatter.cross_sections.observed import Observed
from qsim.sturmian.scatter.cross_sections.spectra import Sharing

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["as_observed", "observed", "plain"]


class Record(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


def plain(of: Record) -> dict[str, object]:
    """Return the fields of a dataclass by name."""
    return {entry.name: getattr(of, entry.name) for entry in fields(of)}


def observed(seen: Observed) -> dict[str, object]:
    """Return an observation as plain numbers and arrays."""
    sharing = None if seen.sharing is None else plain(seen.sharing)
    return {**plain(seen), "sharing": sharing}


def as_observed(content: Mapping[str, Any]) -> Observed:
    """Return an observation from its plain form."""
    sharing = None if content["sharing"] is None else Sharing(**content["sharing"])
    return Observed(**{**content, "sharing": sharing})

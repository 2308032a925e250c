"""Provenance of a result: deck, command, code, libraries, device, times."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.deck.load import LoadedDeck
    from qsim.core.device.device import Device

__all__ = ["collect", "git_state", "versions"]

LIBRARIES = ("numpy", "scipy", "numba", "h5py", "pydantic", "matplotlib")
# CuPy is published under a name per CUDA version.
CUPY_NAMES = ("cupy-cuda13x", "cupy-cuda12x", "cupy-cuda11x", "cupy")


def collect(
    loaded: LoadedDeck[Any],
    device: Device,
    *,
    physics: Mapping[str, Any],
    references: Sequence[str] = (),
    command: str,
    timing: Mapping[str, float],
    elapsed: float,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the entries of ``/provenance`` of a results file.

    Parameters
    ----------
    loaded
        The deck, with the seed that was used.
    device
        Where the run computed.
    physics
        What a resumed run must share, of data files the content that was read.
    references
        BibTeX keys of what the run used.
    command
        Command line or library call.
    timing
        Seconds of each stage of this process.
    elapsed
        Seconds of the run, earlier processes included.
    warnings
        What the user was warned of.
    """
    # `deck` is what ran, with all defaults; `deck_text` what the user wrote.
    return {
        "deck": loaded.resolved(),
        "deck_text": loaded.text,
        "deck_file": str(loaded.path),
        "deck_sha256": loaded.sha256,
        "overrides": list(loaded.overrides),
        "physics": dict(physics),
        "references": list(references),
        "command": command,
        "seed": loaded.deck.run.seed,
        "precision": loaded.deck.run.precision,
        "device": device.describe(),
        "qsim_version": __version__,
        "git": git_state(),
        "versions": versions(),
        "platform": platform.platform(),
        "host": platform.node(),
        "timing": dict(timing),
        "elapsed": elapsed,
        "warnings": list(warnings),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of Python and of the libraries that numbers depend on, without importing them."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    # From the metadata of the installation: importing matplotlib for its number would take half a second.
    found |= {name: _version(name) for name in LIBRARIES}
    found["cupy"] = next((version for name in CUPY_NAMES if (version := _version(name))), None)
    return found


@cache
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def git_state() -> str | None:
    """Return the commit of the checkout that runs, or that the installation was built from; None if it is not known.

    It ends with ``-dirty`` if files had been edited.

    It is looked up once per process: what runs is what was imported.
    """
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return _built_from(root / "qsim" / "_commit.txt")
    # `--exclude=*`: no tag, always the commit itself; `--always`: its 40 digits.
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    # variables such as GIT_DIR, which git hooks set, would lead to another repository
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    try:
        reply = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return reply.stdout.strip() or None


def _built_from(file: Path) -> str | None:
    """Return what the build of a wheel or a source distribution has noted."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None

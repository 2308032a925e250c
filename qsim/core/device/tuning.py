"""Choices that were measured to be the fastest, kept per device between runs.

Choices such as tile sizes change the time of a run and not its results.  They are kept in one JSON file in the user's cache
folder; without a folder that can be written, or with a file that cannot be read, they are measured again, and nothing else
happens.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qsim.version import __version__

if TYPE_CHECKING:
    from qsim.core.device.device import Device

__all__ = ["enabled", "file", "recall", "remember"]

FORMAT = 1


def enabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Return True if anything may be tuned: unless ``QSIM_TUNE`` is ``off`` (or ``0``, ``no``, ``false``)."""
    return environ.get("QSIM_TUNE", "").strip().lower() not in ("off", "0", "no", "false")


def file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the file: below ``QSIM_CACHE_DIR``, else ``XDG_CACHE_HOME/qsim``, else ``~/.cache/qsim``.

    None, if there is no home folder either.
    """
    if own := environ.get("QSIM_CACHE_DIR", "").strip():
        return Path(own).expanduser() / "tuning.json"
    if shared := environ.get("XDG_CACHE_HOME", "").strip():
        return Path(shared) / "qsim" / "tuning.json"
    with contextlib.suppress(RuntimeError):
        return Path.home() / ".cache" / "qsim" / "tuning.json"
    return None


def recall(method: str, device: Device, problem: Mapping[str, Any]) -> Any:
    """Return the choice for a problem on a device; None, if there is none.

    It is as it was written, if nobody has edited the file: check that it makes sense.
    """
    return _entries(file()).get(_key(method, device, problem))


def remember(method: str, device: Device, problem: Mapping[str, Any], choice: object) -> Path | None:
    """Keep a choice, anything that JSON holds; return the file, or None if it could not be written.

    The file is replaced at once, so that no run reads half of it.  Of two runs that write at the same time one entry may be lost.
    """
    path = file()
    if path is None:
        return None
    # Read again just before: other runs may have added theirs.
    entries = {**_entries(path), _key(method, device, problem): choice}
    text = json.dumps({"format": FORMAT, "entries": entries}, indent=1, sort_keys=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        return None
    return path


def _entries(path: Path | None) -> dict[str, Any]:
    """Return the entries of the file; none if it is missing, damaged or of another format."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
        if (
            isinstance(content, dict)
            and content.get("format") == FORMAT
            and isinstance(content.get("entries"), dict)
        ):
            return dict(content["entries"])
    return {}


def _key(method: str, device: Device, problem: Mapping[str, Any]) -> str:
    """Return method, hardware, the software below, version and problem as one line."""
    # Another driver or compiler may make another choice the fastest.
    about = device.describe()
    software = [f"{name} {about[name]}" for name in ("driver", "cuda_runtime", "cupy") if about.get(name)]
    sizes = [f"{name} {value}" for name, value in sorted(problem.items())]
    return "; ".join([method, device.name, *software, f"qsim {__version__}", *sizes])

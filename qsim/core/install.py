"""Commands that install an extra of this installation, for the hints of errors."""

from __future__ import annotations

import re
import shlex
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["DISTRIBUTION", "install_extra"]

# Name under which qsim is packaged; on the package index, `qsim` is another program.
DISTRIBUTION = "qsim-suite"


@cache
def install_extra(extra: str) -> str:
    """Return the command that adds an extra to the running qsim.

    A checkout installs its own extras.  Anywhere else the command names the packages themselves, which needs neither the
    checkout nor a package index that knows qsim.

    Parameters
    ----------
    extra
        A group of optional dependencies in ``pyproject.toml``, such as ``"cuda12"``.
    """
    if (root := checkout()) is not None:
        if Path(sys.prefix).resolve() == root / ".venv":
            return shlex.join(["python3", str(root / "bootstrap.py"), extra])
        return f'pip install -e "{root}[{extra}]"'
    packages = " ".join(f'"{package}"' for package in _packages(extra))
    return f"pip install {packages}" if packages else f'pip install "{DISTRIBUTION}[{extra}]"'


def checkout() -> Path | None:
    """Return the root of the checkout that runs, None for an installed copy."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "bootstrap.py").is_file() and (root / "pyproject.toml").is_file() else None


def _packages(extra: str) -> list[str]:
    """Return the requirements of an extra, as the metadata of the installation state them."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []
    # Requirements of an extra carry the marker `extra == "..."`, which pip evaluates; here it
    # selects the lines and is cut off.
    marker = re.compile(rf";\s*extra\s*==\s*['\"]{re.escape(extra)}['\"]\s*$")
    return [marker.sub("", line).strip() for line in lines if marker.search(line)]

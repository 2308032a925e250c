"""Create .venv beside this file and install qsim into it.

    python3 bootstrap.py               qsim and what it needs
    python3 bootstrap.py test          and the tools of the test suite
    python3 bootstrap.py dev docs      any extras of pyproject.toml: test dev docs bench mpi cuda12 cuda13

Needs Python 3.11 or newer with its standard library and nothing else: neither pip nor Debian's python3-venv.
The installation is editable (the checkout is what runs) and can be repeated: .venv is reused.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this very check; the file parses from Python 3.6 on
    sys.exit(
        "bootstrap: qsim needs Python 3.11 or newer, but %s is Python %d.%d.\n"  # noqa: UP031
        "bootstrap: install a newer one (on clusters often `module load python`) and run this file with it,\n"
        "bootstrap: for example `python3.12 bootstrap.py`." % ((sys.executable,) + sys.version_info[:2])  # noqa: RUF005
    )

import argparse
import base64
import hashlib
import html.parser
import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import tempfile
import time
import tomllib
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent
DEFAULT_INDEX = "https://pypi.org/simple"
SIMPLE_API = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


class BootstrapError(Exception):
    """Something the user can act on; the text says what."""


def say(text: str) -> None:
    """Print one line of progress to stderr."""
    print(f"bootstrap: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Create or reuse the environment, install, and return the exit code."""
    known = extras_of(ROOT / "pyproject.toml")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="one or more of: " + " ".join(known))
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="the environment (default: .venv)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.extras) - set(known))
    if unknown:
        parser.error(f"unknown extra {', '.join(unknown)}; choose from {' '.join(known)}")
    start = time.monotonic()
    try:
        python = environment(options.venv)
        ensure_pip(python)
        install(python, options.extras)
    except BootstrapError as error:
        say(f"error: {error}")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"error: `{shlex.join(map(str, error.cmd))}` ended with exit code {error.returncode}.")
        say("usual causes: the package index is out of reach (HTTPS_PROXY, PIP_INDEX_URL) or the disk full")
        return error.returncode if error.returncode > 0 else 1
    where = python.parent
    if where.is_relative_to(Path.cwd()):
        where = where.relative_to(Path.cwd())
    say(f"done in {time.monotonic() - start:.0f} s; run {where / 'qsim'} --help")
    return 0


def extras_of(pyproject: Path) -> list[str]:
    """Names of the optional dependency groups."""
    with pyproject.open("rb") as stream:
        return sorted(tomllib.load(stream)["project"]["optional-dependencies"])


# --- the environment ------------------------------------------------------------------------------


def environment(folder: Path) -> Path:
    """Return the interpreter of the environment at `folder`, made if it is missing or no longer works."""
    folder = folder.absolute()
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    version = version_of(python)
    if version:
        if version >= (3, 11):
            say(f"using {folder} (Python {version[0]}.{version[1]})")
            return python
        say(f"{folder} holds Python {version[0]}.{version[1]}; making it anew")
    elif folder.exists():
        if not folder.is_dir() or (any(folder.iterdir()) and not (folder / "pyvenv.cfg").exists()):
            raise BootstrapError(
                f"{folder} exists and is not a virtual environment; move it away or use --venv"
            )
        say(f"{folder} does not work (moved, or its Python is gone); making it anew")
    try:
        import venv
    except ImportError as error:
        raise BootstrapError(
            f"{sys.executable} comes without the venv module ({error}); install the full Python"
            " (Debian, Ubuntu: apt install python3-full) or use another interpreter"
        ) from error
    say(f"creating {folder} with {sys.executable}")
    venv.EnvBuilder(clear=True, symlinks=os.name != "nt", with_pip=False).create(folder)
    if not version_of(python):
        raise BootstrapError(f"{python} was created but does not run")
    return python


def version_of(python: Path) -> tuple[int, int] | None:
    """Version of an interpreter, None if it does not run."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        reply = subprocess.run([python, "-c", code], capture_output=True, text=True, env=clean_environment())
    except OSError:
        return None
    if reply.returncode:
        return None
    major, minor = reply.stdout.split()
    return int(major), int(minor)


def clean_environment() -> dict[str, str]:
    """Return the environment less what would mix this Python's packages with another's."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    return {**kept, "PIP_USER": "0"}  # a pip.conf with user = true stops every installation into a venv


def run(*command: str | Path, quiet: bool = False) -> None:
    """Run a command; `quiet` keeps its words for the case that it fails and nobody minds."""
    output = subprocess.DEVNULL if quiet else None
    subprocess.run(command, check=True, env=clean_environment(), stdout=output, stderr=output)


# --- pip ------------------------------------------------------------------------------------------


def ensure_pip(python: Path) -> None:
    """Bring pip into the environment: from ensurepip, else by another pip, else from the index."""
    ways: dict[str, Callable[[], None]] = {
        "ensurepip": lambda: run(python, "-m", "ensurepip", "--default-pip", quiet=True),
        "the pip of " + sys.executable: lambda: run(
            sys.executable, "-m", "pip", "--quiet", "--python", python, "install", "pip", quiet=True
        ),
        "the package index": lambda: pip_from_index(python),
    }
    for way, bring in ways.items():
        if has_pip(python):
            return
        try:
            bring()
        except (OSError, subprocess.CalledProcessError):
            continue
        say(f"pip comes from {way}")
    if not has_pip(python):
        raise BootstrapError(f"{python} -m pip does not work; delete the environment and try again")


def has_pip(python: Path) -> bool:
    """Tell whether the environment has a working pip."""
    try:
        run(python, "-m", "pip", "--version", quiet=True)
    except subprocess.CalledProcessError:
        return False
    return True


def pip_from_index(python: Path) -> None:
    """Download the newest pip wheel, check its sum, and let it install itself."""
    index = os.environ.get("PIP_INDEX_URL") or DEFAULT_INDEX
    page = index.rstrip("/") + "/pip/"
    try:
        body, kind = fetch(page + ("index.html" if page.startswith("file:") else ""))
        link, sha256 = newest_wheel(body.decode(), kind, page)
        wheel, _ = fetch(link)
    except (OSError, ValueError) as error:  # URLError is an OSError
        raise BootstrapError(
            f"no pip here, and none from {redacted(index)}: {error}. Give the index with PIP_INDEX_URL and a"
            " proxy with HTTPS_PROXY, or install pip for your Python (Debian: apt install python3-venv)"
        ) from error
    if hashlib.sha256(wheel).hexdigest() != sha256:
        raise BootstrapError(
            f"{redacted(link)} does not have the sha256 that the index gives; nothing was run"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / urllib.parse.unquote(link.rpartition("/")[2])
        path.write_bytes(wheel)
        run(python, path / "pip", "--quiet", "install", "--no-index", path)


def fetch(link: str) -> tuple[bytes, str]:
    """Return body and content type of a link; user and password in it become a header."""
    parts = urllib.parse.urlsplit(link)
    headers = {"Accept": SIMPLE_API, "User-Agent": "qsim-bootstrap"}
    if parts.username is not None:
        user, password = (urllib.parse.unquote(part or "") for part in (parts.username, parts.password))
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    host = parts.netloc.rpartition("@")[2]
    request = urllib.request.Request(urllib.parse.urlunsplit(parts._replace(netloc=host)), headers=headers)
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT") or None)
    with urllib.request.urlopen(request, timeout=60, context=context) as reply:
        return reply.read(), reply.headers.get_content_type()


def redacted(link: str) -> str:
    """Return the link without user and password, fit to be printed."""
    return re.sub(r"//[^/@]*@", "//", link)


class Anchors(html.parser.HTMLParser):
    """Links of a simple-API page in HTML, each a dict of the anchor's attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep anchors."""
        if tag == "a":
            self.found.append(dict(attrs))


def newest_wheel(text: str, kind: str, page: str) -> tuple[str, str]:
    """Choose from a simple-API page (JSON, PEP 691, or HTML, PEP 503).

    Returns
    -------
    tuple of str
        Absolute link of the newest final pip wheel for this Python, and its sha256.

    Raises
    ------
    ValueError
        No such wheel, or none with a sha256.
    """
    candidates = []
    for link, sha256, requires in json_files(text) if kind.endswith("json") else html_files(text):
        name = urllib.parse.unquote(link.rpartition("/")[2])
        final = re.fullmatch(r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl", name)
        if final and sha256 and runs_here(requires):
            number = tuple(int(part) for part in final[1].split("."))
            candidates.append((number, link, sha256))
    if not candidates:
        raise ValueError("the index lists no pip wheel with a sha256 for this Python")
    _, link, sha256 = max(candidates)
    absolute = urllib.parse.urljoin(page, link)
    at, index = urllib.parse.urlsplit(absolute), urllib.parse.urlsplit(page)
    if index.username is not None and at.netloc == index.netloc.rpartition("@")[2]:
        absolute = at._replace(netloc=index.netloc).geturl()  # the password goes to its own host only
    return absolute, sha256


def json_files(text: str) -> list[tuple[str, str, str]]:
    """(link, sha256, requires-python) of the files of a JSON page that are not yanked."""
    return [
        (file["url"], file.get("hashes", {}).get("sha256", ""), file.get("requires-python") or "")
        for file in json.loads(text)["files"]
        if not file.get("yanked")
    ]


def html_files(text: str) -> list[tuple[str, str, str]]:
    """(link, sha256, requires-python) of the files of an HTML page that are not yanked."""
    files = []
    for anchor in Anchors(text).found:
        link, _, fragment = (anchor.get("href") or "").partition("#")
        sha256 = fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else ""
        if "data-yanked" not in anchor:
            files.append((link, sha256, anchor.get("data-requires-python") or ""))
    return files


def runs_here(requires: str) -> bool:
    """Tell whether a requires-python line allows this Python; lower bounds are all that pip's have."""
    bounds = re.findall(r">=\s*(\d+)\.(\d+)", requires)
    return all(sys.version_info >= (int(major), int(minor)) for major, minor in bounds)


# --- qsim -----------------------------------------------------------------------------------------


def install(python: Path, extras: list[str]) -> None:
    """Install this checkout, editable, with the extras."""
    what = f"[{','.join(sorted(set(extras)))}]" if extras else ""
    if shutil.disk_usage(python.parent).free < 1e9:
        say("warning: less than 1 GB is free here; a fresh environment needs about that")
    say(f"installing qsim{what}; the first time this downloads about 200 MB")
    run(
        python,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--editable",
        f"{ROOT}{what}",
    )


def _entry() -> NoReturn:
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    _entry()

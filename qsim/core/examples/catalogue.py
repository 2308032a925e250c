"""The decks that come with qsim: listed, and copied together with the files that they read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from qsim.core.deck.yaml_marks import parse_yaml
from qsim.core.errors import FileError
from qsim.core.examples.check import cases, folders
from qsim.core.run.files.paths import refuse_existing

__all__ = ["Example", "copy_example", "examples", "find_example"]


@dataclass(frozen=True)
class Example:
    """One deck.

    Attributes
    ----------
    name, method, title
        Name of the file without its ending, and what the deck says.
    about
        The comment at its head, in one line.
    path
        The deck.
    files
        Files beside it that it names.
    long
        Whether it takes long, or a GPU.
    """

    name: str
    method: str
    title: str
    about: str
    path: Path
    files: tuple[Path, ...]
    long: bool

    def text(self) -> str:
        """Return the deck as it is written."""
        return self.path.read_text(encoding="utf-8")


def examples(methods: Iterable[str]) -> list[Example]:
    """Return the decks of some methods, in the order of the methods and of their names."""
    return [_example(case.method, case.deck, case.slow) for case in cases(methods, folders())]


def find_example(name: str, methods: Iterable[str]) -> Example | None:
    """Return the deck of a name, None if there is none."""
    return next((each for each in examples(methods) if each.name == name), None)


def copy_example(example: Example, folder: Path, *, force: bool = False) -> list[Path]:
    """Copy a deck and the files that it names into a folder.

    Returns
    -------
    list of Path
        The copies, the deck first.

    Raises
    ------
    FileError
        If something of that name exists, or cannot be written.
    """
    # Side by side, so that the relative names in the deck still hold.
    sources = [example.path, *example.files]
    targets = [folder / source.name for source in sources]
    if not force:
        refuse_existing(targets, "-o DIR copies elsewhere")
    try:
        for source, target in zip(sources, targets, strict=True):
            shutil.copyfile(source, target)
    except OSError as error:
        raise FileError(f"cannot write into {folder}: {error.strerror or error}") from error
    return targets


def _example(method: str, path: Path, long: bool) -> Example:
    text = path.read_text(encoding="utf-8")
    # The comment at the head of a deck describes it.
    head = re.match(r"(?:#.*\n)*", text)
    about = " ".join(line.lstrip("# ").strip() for line in (head[0] if head else "").splitlines())
    root, _ = parse_yaml(text, str(path))
    data = root.plain() if root is not None else {}
    # Texts that look like a file name, and exist beside the deck: tables, orbitals, matrices.
    named = [path.parent / item for item in _texts(data) if re.fullmatch(r"[\w.-]+\.\w+", item)]
    files = tuple(dict.fromkeys(file for file in named if file.is_file()))
    return Example(path.stem, method, str(data.get("title", "")), about, path, files, long)


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)

"""HDF5 files of other programs, read number by number with checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.hdf5 import attribute, is_plain, member, open_hdf5, require_inside, require_text
from qsim.core.results.reading import require_room

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["HdfFile"]


def _is_molden(path: Path) -> bool:
    """Return True for a text that begins as molden files do."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(40).lstrip().lower().startswith(b"[molden format]")


class HdfFile:
    """An open file; each name is a path of groups within it.

    Parameters
    ----------
    path
        The file.
    expected
        What it should be, for messages.

    Raises
    ------
    FileError
        For what is missing, in other files, or of another type; also by each method.
    """

    def __init__(self, path: Path, expected: str) -> None:
        self.path = path
        if _is_molden(path):
            raise FileError(f"{path} is a molden file, which source: molden reads; expected {expected}")
        self.file = open_hdf5(path, expected)

    def __enter__(self) -> HdfFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __contains__(self, name: str) -> bool:
        *above, last = name.split("/")
        item: Any = self.file
        # Step by step: HDF5 would follow links into other files.
        for part in above:
            if part not in item:
                return False
            item = member(self.path, item, part)
        return hasattr(item, "keys") and last in item

    def _item(self, name: str) -> Any:
        item: Any = self.file
        for part in name.split("/"):
            item = member(self.path, item, part)
        require_inside(self.path, name, item)
        return item

    def numbers(self, name: str) -> NDArray[Any]:
        """Return an array of numbers."""
        item = self._item(name)
        if not is_plain(item.dtype):
            raise FileError(f"{self.path}: {name} holds {item.dtype}, not numbers")
        require_room(self.path, name, item.size * item.dtype.itemsize)
        return np.asarray(item[()])

    def whole(self, name: str) -> int:
        """Return the first number of an array as an integer."""
        return int(self.numbers(name).ravel()[0])

    def attribute(self, name: str, key: str) -> int | float | str | None:
        """Return an attribute of a group, a number or a text, or the first of several; None if there is none."""
        if name not in self:
            return None
        item: Any = self.file
        for part in name.split("/"):
            item = member(self.path, item, part)
        try:
            found = attribute(item, key)
        except TypeError as error:
            raise FileError(f"{self.path}: {name}: {error}") from error
        if found is None:
            return None
        value = np.ravel(found)[0]
        if isinstance(value, bytes | str):
            return value.decode() if isinstance(value, bytes) else str(value)
        number = float(value)
        return int(number) if number.is_integer() else number

    def texts(self, name: str) -> list[str]:
        """Return an array of texts."""
        item = self._item(name)
        if item.dtype.kind not in "SO":
            raise FileError(f"{self.path}: {name} holds {item.dtype}, not texts")
        require_text(self.path, name, item)
        return [x.decode() if isinstance(x, bytes) else str(x) for x in np.ravel(item[()])]

    def text(self, name: str) -> str:
        """Return the first text of an array."""
        return self.texts(name)[0]

"""Arrays from NumPy's files: .npy, and the members of .npz.

The header of an array announces its type and shape; both are compared with the bytes that are there, and with the memory,
before anything is allocated.  Nothing is unpickled.
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.reading import reading, require_file, require_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["listed", "map_array", "map_arrays", "read_arrays", "require_finite"]

# First bytes of a zip archive, of an .npy file, of an empty archive; bytes of a piece that is tested at once.
ZIP = b"PK\x03\x04"
NPY = b"\x93NUM"
EMPTY_ZIP = b"PK\x05\x06"
CHUNK = 1 << 24


def read_arrays(path: str | Path, expected: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npy or .npz file by name; that of an .npy file has the name ``""``.

    Parameters
    ----------
    path
        The file; its first bytes tell which of the two it is.
    expected
        What it should hold, for messages.

    Raises
    ------
    FileError
        If the file is no such file, damaged, holds Python objects, or more than the memory.
    """
    path = require_file(path, expected)
    with reading(path, expected), path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if start == NPY:
            return {"": _read(path, "", file, path.stat().st_size)}
        if start not in (ZIP, EMPTY_ZIP):
            raise FileError(f"{path} is no NumPy file, neither .npy nor .npz; expected {expected}")
        with zipfile.ZipFile(file) as archive:
            return {_name(m): _member(path, archive, m) for m in archive.infolist() if _is_array(m)}


def map_array(path: str | Path, expected: str) -> NDArray[Any]:
    """Return the array of an .npy file, mapped into memory and not read.

    Raises
    ------
    FileError
        If the file is no such file, or shorter than it says.
    """
    path = require_file(path, expected)
    with reading(path, expected):
        with path.open("rb") as file:
            shape, fortran, dtype = _header(path, "", cast(BinaryIO, file))
            # The header says how many bytes follow; a map beyond the end of the file would end the process with
            # SIGBUS.
            offset = file.tell()
        _require_bytes(path, "", shape, dtype, path.stat().st_size - offset)
        if 0 in shape:
            return np.zeros(shape, dtype)
        return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")


def map_arrays(path: str | Path, expected: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of an .npz file by name; those that are not compressed are mapped into memory and not read.

    Raises
    ------
    FileError
        As :func:`read_arrays`.
    """
    path = require_file(path, expected)
    with reading(path, expected), zipfile.ZipFile(path) as archive:
        arrays: dict[str, NDArray[Any]] = {}
        for member in filter(_is_array, archive.infolist()):
            mapped = _mapped(path, archive, member)
            arrays[_name(member)] = _member(path, archive, member) if mapped is None else mapped
        return arrays


def require_finite(path: str | Path, name: str, array: NDArray[Any]) -> None:
    """Name the first element of an array of numbers that is NaN or infinite.

    Raises
    ------
    FileError
        With file, name, index and value.
    """
    if array.size > CHUNK and array.flags.c_contiguous:  # piece by piece, so that the mask stays small
        flat = array.reshape(-1)
        pieces = (flat[k : k + CHUNK] for k in range(0, flat.size, CHUNK))
        if all(np.isfinite(piece).all() for piece in pieces):
            return
    good = np.isfinite(array)
    if not good.all():
        place = np.unravel_index(int(np.argmin(good)), array.shape)
        index = f"[{', '.join(str(int(i)) for i in place)}]" if array.ndim else ""
        raise FileError(f"{path}: {name}{index} is {array[place]}; all numbers must be finite")


def listed(arrays: dict[str, Any]) -> str:
    """Return names and shapes of at most ten arrays, for messages."""
    texts = [f"{name or 'an array'} {tuple(array.shape)}" for name, array in arrays.items()]
    more = f" and {len(texts) - 10} more" if len(texts) > 10 else ""
    return ", ".join(texts[:10]) + more or "no arrays"


def _what(name: str) -> str:
    return f"array '{name}'" if name else "its array"


def _is_array(member: zipfile.ZipInfo) -> bool:
    return member.filename.endswith(".npy")


def _name(member: zipfile.ZipInfo) -> str:
    return member.filename.removesuffix(".npy")


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = _name(member)
    with reading(path, "an array of numbers", place=f"array '{name}'"), archive.open(member) as stream:
        array = _read(path, name, cast(BinaryIO, stream), member.file_size)
        stream.read(1)  # past the end, where the checksum is compared
        return array


def _mapped(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any] | None:
    """Return a memory map of an uncompressed array inside a .npz; None if it has to be unpacked."""
    if member.compress_type != zipfile.ZIP_STORED:
        return None
    with reading(path, "an array of numbers", place=f"array '{_name(member)}'"):
        with archive.open(member) as stream:
            shape, fortran, dtype = _header(path, _name(member), cast(BinaryIO, stream))
            header = stream.tell()
        if 0 in shape or (fortran and len(shape) > 1):
            return None
        with path.open("rb") as raw:  # the local header, whose lengths may differ from those of the directory
            raw.seek(member.header_offset + 26)
            name, extra = (int.from_bytes(raw.read(2), "little") for _ in range(2))
        # 30 bytes, name and extra field of the local header, then the header of the array.
        offset = member.header_offset + 30 + name + extra + header
        _require_bytes(path, _name(member), shape, dtype, member.file_size - header)
        return np.memmap(path, dtype, "r", offset, shape)


def _header(path: Path, name: str, stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and type; leave the stream at the first number."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise FileError(
            f"{path}: {_what(name)} has version {version} of NumPy's format; expected plain numbers"
        )
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise FileError(f"{path}: {_what(name)} holds Python objects, which are not read; expected numbers")
    if any(size < 0 for size in shape):
        raise FileError(f"{path}: {_what(name)} has the impossible shape {shape}")
    return shape, fortran, dtype


def _require_bytes(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], left: int) -> int:
    need = math.prod(shape) * dtype.itemsize
    if need > left:
        raise FileError(
            f"{path}: {_what(name)} announces {need} bytes ({dtype}, shape {shape}), but only {max(left, 0)} are there"
        )
    return need


def _read(path: Path, name: str, stream: BinaryIO, size: int) -> NDArray[Any]:
    """Read an array from a stream of `size` bytes."""
    shape, fortran, dtype = _header(path, name, stream)
    need = _require_bytes(path, name, shape, dtype, size - stream.tell())
    if need == 0:
        return np.zeros(shape, dtype)
    require_room(path, _what(name), need)
    data = np.empty(need, np.uint8)
    # A decompressing stream gives what it has: read until all is there.
    view, done = data.data, 0
    while done < need and (got := stream.readinto(view[done:])):  # type: ignore[attr-defined]
        done += got
    if done < need:
        raise FileError(f"{path}: {_what(name)} ends after {done} of {need} bytes")
    return data.view(dtype).reshape(shape, order="F" if fortran else "C")

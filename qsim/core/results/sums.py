"""Checksums of whole files, behind the end of what HDF5 reads.

A flipped bit in an HDF5 file goes unnoticed where it lies in numbers that have no sum of their own, and in much of what describes
them: types, shapes, attributes, texts.  So every HDF5 file that qsim writes ends with the sums of all its bytes::

    HDF5 file | JSON | CRC-32 of the JSON (4 bytes) | its length (8) | MAGIC (8)      (numbers little-endian)

    {"size": bytes of the HDF5 file, "block": bytes of a block, "crc32": [of each block], "places": [[first, end, name], ...]}

HDF5 does not look behind its end, and cuts the file there when it is opened for writing: a file that was changed on purpose has
no sums, as those of older versions, and is read as it is.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from qsim.core.errors import FileError
from qsim.core.results.atomic import PartFile

if TYPE_CHECKING:
    from io import RawIOBase

__all__ = ["Place", "require_sums", "seal"]

MAGIC = b"QSIMSUMS"
# Bytes of the end of a file: CRC-32 and length of the JSON, and the magic.
FOOT = 4 + 8 + len(MAGIC)
# How the JSON begins, and where HDF5 writes its end into the first bytes of a file, by the version of these.
START = b'{"size":'
END = {b"\0": 40, b"\1": 44, b"\2": 28, b"\3": 28}
# A block, and how many there are at most before blocks become larger: the place of a damage is told to a block.
BLOCK, MOST = 2**12, 2**12
# Bytes that are read at once.
PIECE = 2**22

#: First byte, byte behind the last one, and what lies between them.
Place: TypeAlias = tuple[int, int, str]


def seal(part: PartFile, places: Sequence[Place]) -> None:
    """Add the checksums to a file that HDF5 has closed.

    Parameters
    ----------
    part
        The file.
    places
        Where the data of each dataset lie, so that a damage can be told by name without HDF5.
    """
    size = part.seek(0, 2)
    block = BLOCK
    while block * MOST < size:
        block *= 2
    text = json.dumps(
        {"size": size, "block": block, "crc32": _sums(part, size, block), "places": places},
        separators=(",", ":"),
    ).encode()
    part.seek(size)
    part.write(text + zlib.crc32(text).to_bytes(4, "little") + len(text).to_bytes(8, "little") + MAGIC)


def _sums(file: RawIOBase, size: int, block: int) -> list[int]:
    """Return the CRC-32 of each block of the first bytes of a file."""
    file.seek(0)
    sums: list[int] = []
    view = memoryview(bytearray(max(block, PIECE)))
    for start in range(0, size, len(view)):
        wanted = min(len(view), size - start)
        got = 0
        while got < wanted and (more := file.readinto(view[got:wanted])):
            got += more
        sums += [zlib.crc32(view[at : min(at + block, got)]) for at in range(0, got, block)]
    return sums


def require_sums(path: Path, hint: str) -> None:
    """Refuse a file whose bytes are not those that its checksums were made of; one without checksums is not looked at.

    Raises
    ------
    FileError
        With the array, or the bytes, where the first damage is.
    """
    with path.open("rb", buffering=0) as raw:
        told = _told(path, raw, hint)
        if told is None:
            return
        found = _sums(raw, told["size"], told["block"])
    # The file may have become shorter since its length was asked for.
    bad = [number for number, one in enumerate(told["crc32"]) if found[number : number + 1] != [one]]
    if bad:
        raise FileError(f"{path} is damaged: {_where(bad, told['block'], told['places'])}", hint=hint)


def _told(path: Path, raw: RawIOBase, hint: str) -> dict[str, Any] | None:
    """Return the list of checksums of a file, None if it has none."""
    length = raw.seek(0, 2)
    raw.seek(max(0, length - FOOT))
    foot = raw.read(FOOT)
    if foot[12:] != MAGIC:
        # The end of HDF5 is written at its beginning; what was cut off behind it shows that the copy broke off.
        raw.seek(0)
        head = raw.read(64)
        at = END.get(head[8:9], 64)
        raw.seek(min(length, int.from_bytes(head[at : at + 8], "little")))
        if raw.read(len(START)) == START:
            raise FileError(f"{path} is damaged: its end, with the checksums, is missing", hint=hint)
        return None
    size = int.from_bytes(foot[4:12], "little")
    start = length - FOOT - size
    raw.seek(max(0, start))
    text = raw.read(size) if start >= 0 else b""
    if zlib.crc32(text) != int.from_bytes(foot[:4], "little"):
        raise FileError(f"{path} is damaged: its list of checksums is not that which was written", hint=hint)
    told: dict[str, Any] = json.loads(text)
    if told["size"] != start:
        raise FileError(f"{path} is damaged: it has {start} bytes of {told['size']}", hint=hint)
    return told


def _where(bad: Sequence[int], block: int, places: Sequence[Place]) -> str:
    """Return which bytes are other than written, and which datasets lie there."""
    starts = [number * block for number in bad]
    names = dict.fromkeys(
        name for start in starts for first, end, name in places if first < start + block and start < end
    )
    more = f" and {len(bad) - 1} more such pieces" if len(bad) > 1 else ""
    text = f"bytes {starts[0]} to {starts[0] + block - 1}{more} are not those that were written"
    if not names:
        return text
    others = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{text}, where {', '.join([*names][:4])}{others} lie"

"""Plain HDF5 arrays that are not qsim results: the input and the large outputs of a method."""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from qsim.core.errors import FileError
from qsim.core.results.atomic import PartFile, replacing
from qsim.core.results.reading import damage_of, reading, require_file, require_room
from qsim.core.results.sums import Place, require_sums, seal

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "DAMAGED",
    "Dataset",
    "attribute",
    "is_plain",
    "is_scale",
    "member",
    "members",
    "new_dataset",
    "new_file",
    "open_datasets",
    "open_hdf5",
    "require_inside",
    "require_sound_heaps",
    "require_text",
    "require_unchanged",
    "save_datasets",
    "scale_names",
]

DAMAGED = "it may be no HDF5 file, or its copy or transfer broke off; copy it again or make it anew"


# Kinds of NumPy types that are numbers.
NUMBERS = "biufc"
# Signature and length of the head of a global heap, where texts and references of any length lie.
HEAP, HEAP_HEAD = b"GCOL\x01\0\0\0", 16
# Attribute with references to the dimension scales of each axis.
SCALES = "DIMENSION_LIST"
# Links from one to the next.
MAX_LINKS = 16
# Numbers of an attribute.
MAX_ATTRIBUTE = 1000
# Bytes from which a dataset must have been written: a file of a kilobyte can announce as many as the memory
# holds.
UNWRITTEN = 2**20
# Bytes of a file beyond which it is not searched for damaged heaps; such files hold numbers.
MAX_SCAN = 2**30
# Bytes that stand for a text of any length in a dataset: its length, 4 bytes, and where it is.
TEXT_HEAD = 16
OTHER_FILE = "copy the data into one file, for example with h5copy or h5repack; qsim reads no other file than the one named"


class Dataset:
    """A dataset of an open file, sliced like an array and read on demand.

    Attributes
    ----------
    path, name
        The file, and the name of the dataset in it.
    shape, dtype
        As the file says; an empty dataspace has the shape ``()`` and cannot be read.
    """

    def __init__(self, path: Path, name: str, item: h5py.Dataset) -> None:
        self.path, self.name = path, name
        self._item = item
        with self._guard():
            self.shape: tuple[int, ...] = tuple(item.shape or ())
            self.dtype: np.dtype[Any] = item.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def unit(self) -> str:
        """Unit that the attribute ``units`` or ``unit`` names; empty if there is none."""
        with self._guard():
            value = self._item.attrs.get("units", self._item.attrs.get("unit", ""))
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        return value.strip() if isinstance(value, str) else ""

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 0

    def __getitem__(self, key: object) -> NDArray[Any]:
        """Return a part of the data.

        Raises
        ------
        FileError
            If they are damaged, empty, in another file, or larger than the memory.
        """
        with self._guard():
            require_inside(self.path, f"dataset '{self.name}'", self._item)
            # A program that reads a part knows its size; the whole may be anything.
            if key is Ellipsis or key == ():
                size = math.prod(self.shape) * self.dtype.itemsize
                require_room(self.path, f"dataset '{self.name}' of shape {self.shape}", size)
            if not is_plain(self.dtype):
                raise FileError(f"{self.path}: dataset '{self.name}' holds {self.dtype}, not numbers")
            values = np.asarray(self._item[key])
            require_unchanged(self.path, self._item)
            return values

    def _guard(self) -> AbstractContextManager[None]:
        return reading(self.path, "an undamaged HDF5 dataset", place=f"dataset '{self.name}'", hint=DAMAGED)


def open_datasets(path: str | Path) -> tuple[Any, dict[str, Dataset]]:
    """Open a file for reading.

    Returns
    -------
    file
        To be closed when the datasets are no longer needed.
    datasets : dict of Dataset
        Datasets of the top level and, below their path, of the group ``results``; sliced like arrays, read on demand.

    Raises
    ------
    FileError
        If the file is missing, no HDF5 file, damaged, or refers to other files.
    """
    path = Path(path)
    file = open_hdf5(path, "an HDF5 file")
    try:
        with reading(path, "an HDF5 file with datasets", hint=DAMAGED):
            status = attribute(file, "status", "complete")
            if attribute(file, "format") == "qsim" and status != "complete":
                raise FileError(f"{path} is not of a complete run, its status is '{status}'")
            datasets: dict[str, Dataset] = {}
            for name, item in members(path, file):
                if isinstance(item, h5py.Dataset):
                    datasets[name] = Dataset(path, name, item)
                # Files of qsim are read as well: a solution of one run is the start of another.
                elif name == "results":
                    datasets |= {
                        f"results/{inner}": Dataset(path, f"results/{inner}", dataset)
                        for inner, dataset in members(path, item)
                        if isinstance(dataset, h5py.Dataset)
                    }
    except BaseException:
        file.close()
        raise
    return file, datasets


class _New:
    """A dataset that is being written; a piece that cannot be written is an error at once."""

    def __init__(self, dataset: h5py.Dataset, part: PartFile) -> None:
        self._dataset, self._part = dataset, part
        self.shape: tuple[int, ...] = tuple(dataset.shape)
        self.dtype = dataset.dtype

    def __setitem__(self, key: object, values: Any) -> None:
        self._dataset[key] = values
        self._part.check()

    def __getitem__(self, key: object) -> Any:
        return self._dataset[key]


def open_hdf5(path: Path, expected: str, hint: str = DAMAGED) -> h5py.File:
    """Open an HDF5 file for reading; refuse what is no regular file.

    Raises
    ------
    FileError
        If it is missing, something else, or damaged.
    """
    require_file(path, expected)
    with reading(path, expected, hint=hint):
        require_sums(path, hint)
        require_sound_heaps(path)
        file = h5py.File(path, "r")
        _opened[file.id.get_vfd_handle()] = _stamp(file)
        return file


# State of the files that were opened, by their descriptors.
_opened: dict[int, tuple[int, int]] = {}


def _stamp(file: h5py.File) -> tuple[int, int]:
    """Return size and time of change of an open file, which stays the same file when another takes its name."""
    status = os.fstat(file.id.get_vfd_handle())
    return status.st_size, status.st_mtime_ns


def require_unchanged(path: Path, item: h5py.Group | h5py.Dataset) -> None:
    """Refuse what was read of a file that was written to since it was opened.

    Raises
    ------
    FileError
        With the name of the file.
    """
    if _opened.get(item.file.id.get_vfd_handle()) not in (None, _stamp(item.file)):
        raise FileError(
            f"{path} was changed while it was read", hint="repeat the command when nothing writes to it"
        )


def require_sound_heaps(path: Path) -> None:
    """Refuse a file whose heaps of texts are damaged such that HDF5 (to 2.0 at least) would read them for ever.

    A global heap is a list of objects, index (2 bytes), references (2), reserved (4), length (8), and the text, in multiples of
    8 bytes; index 0 stands for free space, whose length includes this head.  HDF5 goes from object to object without a look at
    lengths of zero, or beyond the end (HDF5 File Format Specification, III.E).

    Raises
    ------
    FileError
        With the place of the heap.
    """
    size = path.stat().st_size
    if not HEAP_HEAD < size <= MAX_SCAN:
        return
    with path.open("rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(HEAP)
        while start >= 0:
            length = int.from_bytes(data[start + 8 : start + HEAP_HEAD], "little")
            if length <= size - start and not _is_sound(data[start + HEAP_HEAD : start + length]):
                raise FileError(f"{path}: the texts stored at byte {start} are damaged", hint=DAMAGED)
            start = data.find(HEAP, start + 1)


def _is_sound(heap: bytes) -> bool:
    at = 0
    while at + HEAP_HEAD <= len(heap):
        length = int.from_bytes(heap[at + 8 : at + HEAP_HEAD], "little")
        free = heap[at : at + 2] == b"\0\0"
        step = length if free else HEAP_HEAD + (length + 7) // 8 * 8
        if step < (1 if free else HEAP_HEAD) or at + step > len(heap):
            return False
        at += step
    return True


def members(path: Path, group: h5py.Group) -> Iterator[tuple[str, h5py.Group | h5py.Dataset]]:
    """Yield groups and datasets of a group; links to other files are refused, not followed.

    Raises
    ------
    FileError
        For an external link, and for a soft link that leads nowhere.
    """
    with damage_of(path, "a group", group.name, DAMAGED):
        names = list(group)
    for name in names:
        item = member(path, group, name)
        if isinstance(item, h5py.Dataset | h5py.Group):
            yield name, item


def member(path: Path, group: h5py.Group, name: str) -> h5py.Group | h5py.Dataset:
    """Return the member of a group with a given name.

    Raises
    ------
    FileError
        If there is nothing, or a link to another file or to nowhere.
    """
    place = f"{group.name.rstrip('/')}/{name}"
    with damage_of(path, "a dataset or a group", place, DAMAGED):
        return _followed(path, place, group, name)


def _followed(
    path: Path, place: str, group: h5py.Group, name: str, links: int = 0
) -> h5py.Group | h5py.Dataset:
    """Return a member of a group; links are followed here, step by step, since HDF5 would open other files on the way."""
    link = group.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        raise FileError(f"{path}: {place} is a link to the file {link.filename}", hint=OTHER_FILE)
    if not isinstance(link, h5py.SoftLink):
        return group[name]
    if links > MAX_LINKS:
        raise ValueError("too many links")
    item = group["/"] if link.path.startswith("/") else group
    for part in filter(None, link.path.split("/")):
        item = _followed(path, place, item, part, links + 1)
    return item


def require_inside(path: Path, place: str, item: h5py.Dataset) -> None:
    """Refuse a dataset without data, whose data are in another file, or a large one that was never written.

    Raises
    ------
    FileError
        For an empty dataspace, external storage, a virtual dataset, or chunks that are not in the file.
    """
    if item.shape is None:
        raise FileError(f"{path}: {place} is empty; expected data", hint=DAMAGED)
    if _is_elsewhere(item):
        raise FileError(f"{path}: {place} keeps its data in other files", hint=OTHER_FILE)
    size = math.prod(item.shape) * item.dtype.itemsize
    if size > UNWRITTEN and not _is_written(item, size):
        raise FileError(
            f"{path}: {place} announces {size:.3g} bytes, and not all of them were written", hint=DAMAGED
        )


def _is_elsewhere(item: h5py.Dataset) -> bool:
    """Return True if the data of a dataset are in other files.

    The properties of a virtual dataset must be gone before an error is raised: kept by its frames until the interpreter ends,
    they crash HDF5 there.
    """
    layout = item.id.get_create_plist()
    return bool(layout.get_external_count() or layout.get_layout() == h5py.h5d.VIRTUAL)


def _is_written(item: h5py.Dataset, size: int) -> bool:
    """Return True if all chunks, or all bytes, of a dataset are stored; HDF5 makes up the others."""
    if item.chunks is None:
        return bool(item.id.get_storage_size() >= size)
    # Chunks that were never written read as zeros, which would look like data.
    whole = math.prod(-(-n // c) for n, c in zip(item.shape, item.chunks, strict=True))
    return bool(item.id.get_num_chunks() == whole)


def attribute(holder: h5py.File | h5py.Group | h5py.Dataset, name: str, default: object = None) -> Any:
    """Return an attribute that is a text or numbers; other types, which HDF5 may crash on, are refused unread.

    Raises
    ------
    TypeError
        If it is something else.
    """
    attributes = holder.attrs
    if name not in attributes:
        return default
    # Type and size first, by the low-level interface: reading a damaged attribute may crash the process.
    stored = attributes.get_id(name)
    kind, shape = stored.dtype, stored.shape
    text = h5py.check_string_dtype(kind)
    if shape is None or math.prod(shape) > MAX_ATTRIBUTE or (text is None and not is_plain(kind)):
        raise TypeError(f"its attribute '{name}' is neither text nor a few numbers")
    if shape:
        return attributes[name]
    # Most are single texts or numbers, some hundred in a file: read without opening each a second time.
    value = np.empty((), kind)
    stored.read(value)
    single: Any = value[()]
    return single.decode("utf-8", "surrogateescape") if text is not None and text.length is None else single


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Return True if a type is that of numbers; with others a damaged file can crash HDF5."""
    return dtype.kind in NUMBERS and h5py.check_vlen_dtype(dtype) is None


def is_scale(item: h5py.Dataset) -> bool:
    """Return True if a dataset is a dimension scale; HDF5's own function crashes on a damaged attribute."""
    return bool(attribute(item, "CLASS") == b"DIMENSION_SCALE")


def scale_names(item: h5py.Dataset) -> tuple[str, ...]:
    """Return the path of the first dimension scale of each axis, ``""`` where there is none.

    Raises
    ------
    TypeError, ValueError, KeyError
        If the references are damaged.
    """
    if SCALES not in item.attrs:
        return ("",) * int(item.ndim)
    stored = item.attrs.get_id(SCALES)
    if (
        stored.shape != (item.ndim,)
        or h5py.check_ref_dtype(h5py.check_vlen_dtype(stored.dtype)) is not h5py.Reference
    ):
        raise TypeError(f"its attribute '{SCALES}' is no list of references")
    # A list of references per axis, since an axis may have several scales; qsim writes one.
    lists = item.attrs[SCALES]
    names: list[str] = [str(item.file[r[0]].name or "") if len(r) else "" for r in lists]
    return tuple(names)


def require_text(path: Path, place: str, item: h5py.Dataset) -> None:
    """Refuse texts that announce more characters than the file has bytes: HDF5 would allocate them before it looks.

    Raises
    ------
    FileError
        With the announced length.
    """
    kind, offset = h5py.check_string_dtype(item.dtype), item.id.get_offset()
    if kind is None or kind.length is not None:  # a fixed length
        return
    if offset is None:
        if item.chunks is None and item.id.get_storage_size():
            raise FileError(f"{path}: {place} is not stored as qsim stores texts", hint=DAMAGED)
        return
    with path.open("rb") as raw:
        raw.seek(offset)
        heads = raw.read(TEXT_HEAD * item.size)
    # The first four bytes of each head are the length of its text, little-endian.
    lengths = np.frombuffer(heads[: len(heads) // TEXT_HEAD * TEXT_HEAD], dtype="<u4")[:: TEXT_HEAD // 4]
    if (announced := int(lengths.sum(dtype=np.uint64))) > path.stat().st_size:
        raise FileError(
            f"{path}: {place} announces {announced} characters, more than the file has", hint=DAMAGED
        )


@contextmanager
def new_file(
    path: str | Path, *, overwrite: bool = True, libver: str | None = None
) -> Iterator[tuple[h5py.File, PartFile]]:
    """Write an HDF5 file with its checksums; it appears when it is complete.

    Parameters
    ----------
    path, overwrite
        As for `replacing`.
    libver
        Oldest version of HDF5 that must read the file, the oldest of all by default; from ``v110`` on HDF5 itself has sums of
        what describes the data.

    Yields
    ------
    file, part
        The open file, and what it is written to, whose ``check`` raises what failed.

    Raises
    ------
    OSError
        As `replacing`.
    """
    with replacing(path, overwrite=overwrite) as part:
        with h5py.File(part, "w", libver=libver) as file:
            yield file, part
            file.flush()
            places = _places(file)
        part.check()
        seal(part, places)


def _places(file: h5py.File) -> list[Place]:
    """Return where the data of every dataset lie."""
    found: list[Place] = []

    def add(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if not isinstance(item, h5py.Dataset):
            return
        offset = item.id.get_offset()
        if offset is not None:
            found.append((offset, offset + item.id.get_storage_size(), name))
        elif item.chunks is not None:
            item.id.chunk_iter(
                lambda chunk: found.append((chunk.byte_offset, chunk.byte_offset + chunk.size, name))
            )

    file.visititems(add)
    joined: list[Place] = []
    for first, end, name in sorted(found):
        # Chunks of an array mostly follow one another.
        if joined and joined[-1][1:] == (first, name):
            joined[-1] = (joined[-1][0], end, name)
        else:
            joined.append((first, end, name))
    return joined


@contextmanager
def new_dataset(path: str | Path, shape: tuple[int, ...], dtype: Any) -> Iterator[Any]:
    """Open a new file with a dataset ``x``, to be written block by block; it appears when it is complete.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    try:
        with new_file(path) as (file, part):
            yield _New(file.create_dataset("x", shape, dtype), part)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error


def save_datasets(path: str | Path, arrays: Mapping[str, Any], *, compress: int = 0) -> None:
    """Write arrays as datasets of a file, which appears complete or not at all.

    Parameters
    ----------
    path
        The file.
    arrays
        By name; slashes make groups.
    compress
        Number of elements from which arrays are compressed; 0: none.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    try:
        with new_file(path) as (file, _):
            for name, array in arrays.items():
                # Shuffled bytes compress better: those of the exponents lie side by side.
                large = compress and np.size(array) >= compress
                options = {"compression": "gzip", "shuffle": True} if large else {}
                file.create_dataset(name, data=array, **options)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error}") from error

"""Checkpoints: the state of a run in one file, and what may change before it is continued.

A checkpoint is an HDF5 file.  ``/meta`` and ``/state`` are JSON texts; arrays of the state are datasets below
``/arrays``, to which the JSON refers by number.  What :func:`load` returns equals what :func:`save` was
given, in every bit and in every type.  Each array carries a checksum, so a damaged file is refused rather
than continued.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import h5py
import numpy as np

from qsim.core.errors import DeckError, FileError
from qsim.core.results.hdf5 import (
    attribute,
    is_plain,
    member,
    new_file,
    open_hdf5,
    require_inside,
    require_text,
)
from qsim.core.results.reading import reading, require_room
from qsim.core.run.signals import Signals
from qsim.core.text import shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qsim.core.deck.load import LoadedDeck

__all__ = ["FORMAT_VERSION", "Signals", "compatible", "fitting", "load", "load_meta", "save"]

FORMAT_VERSION = (1, 0)
_REPEAT = "start anew with --force instead of --resume"


# ------------------------------------------------------------------------------------------ save, load


def save(path: str | Path, state: Mapping[str, Any], meta: Mapping[str, Any]) -> Path:
    """Write a checkpoint; the previous one stays until the new one is complete.

    Parameters
    ----------
    path
        File to write, usually ``<stem>.ckpt.h5``.
    state
        Nested mappings, lists and tuples of arrays, numbers, strings, bytes, booleans and None.  Arrays of a
        CUDA device are copied to the host.
    meta
        What :func:`compatible` compares: ``method``, ``physics``, ``qsim_version``, ``device``,
        ``precision``, ``elapsed``; anything that JSON holds.

    Raises
    ------
    FileError
        If the file cannot be written; the previous checkpoint is then untouched.
    TypeError
        If the state holds something else.
    """
    path = Path(path)
    arrays: list[Any] = []
    # Everything but the arrays as one JSON text; arrays are numbered on the way and written one by one.
    tree = json.dumps(_encode(state, arrays, "state"))
    try:
        # Under another name first: whatever fails, the earlier checkpoint stays whole.
        with new_file(path) as (file, part):
            file.attrs["format"] = "qsim-checkpoint"
            file.attrs["format_version"] = np.array(FORMAT_VERSION)
            group = file.create_group("arrays")
            for number, array in enumerate(arrays):
                _write_array(group, str(number), array)
                # A full disk shows here rather than after the last array.
                part.check()
            _write_text(file, "state", tree)
            _write_text(file, "meta", json.dumps(meta))
    except (OSError, RuntimeError, MemoryError) as error:
        kept = f"; the earlier one in {path} is untouched" if path.exists() else ""
        reason = str(error) or type(error).__name__
        raise FileError(
            f"cannot write checkpoint {path}: {reason}{kept}",
            hint="check the folder, its rights and the free space",
        ) from error
    return path


def load(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return state and meta data of a checkpoint.

    Raises
    ------
    FileError
        If the file is missing, damaged, not a checkpoint, or of a newer format.
    """
    with _reading(path) as file:
        arrays = member(file.path, file.root, "arrays")
        state = _decode(json.loads(_read_text(file, "state")), file.path, arrays)
        if not isinstance(state, dict):
            raise TypeError("its state is not a mapping")
        return state, _read_meta(file)


def load_meta(path: str | Path) -> dict[str, Any]:
    """Return the meta data of a checkpoint without reading its arrays; errors as for :func:`load`."""
    with _reading(path) as file:
        return _read_meta(file)


class _Meta(dict[str, Any]):
    """Meta data of a checkpoint; an entry that is missing is an error of the file."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        super().__init__(content)
        self.path = path

    def __missing__(self, key: str) -> Any:
        raise FileError(f"checkpoint {self.path} lacks '{key}'", hint=_REPEAT)


def _read_meta(file: _Opened) -> _Meta:
    content = json.loads(_read_text(file, "meta"))
    if not isinstance(content, dict):
        raise TypeError("its meta data are not a mapping")
    for key, allowed in _META.items():
        value = content.get(key)
        if key in content and (not isinstance(value, allowed) or (value is True or value is False)):
            raise TypeError(f"its entry '{key}' is {shorten(repr(value))}")
    if not 0.0 <= content.get("elapsed", 0.0) < math.inf:
        raise ValueError(f"its entry 'elapsed' is {content['elapsed']}")
    return _Meta(file.path, content)


_META: dict[str, type | tuple[type, ...]] = {
    "method": str,
    "physics": dict,
    "seed": (int, type(None)),
    "elapsed": (int, float),
    "precision": str,
    "device": str,
    "qsim_version": str,
}


@dataclass(frozen=True)
class _Opened:
    """An open checkpoint."""

    path: Path
    root: h5py.File


@contextmanager
def _reading(path: str | Path) -> Iterator[_Opened]:
    """Open a checkpoint; whatever goes wrong while it is read becomes a FileError."""
    path = Path(path)
    if not path.exists():
        raise FileError(f"no checkpoint {path}", hint="start the run without --resume")
    expected = "a checkpoint with the complete state of a run"
    # Two guards: one for a file that is no HDF5, one for anything that fails while it is read.
    with open_hdf5(path, expected, _REPEAT) as file, reading(path, expected, hint=_REPEAT):
        _check_format(path, file)
        yield _Opened(path, file)


def fitting(state: Mapping[str, Any], name: str, shape: tuple[int | None, ...]) -> Any:
    """Return an array of a restored state; refuse another shape, which kernels would read past its end.

    Parameters
    ----------
    state
        What a checkpoint held.
    name
        Name of the array.
    shape
        What the problem of this run needs; None for an axis of any length.

    Raises
    ------
    FileError
        If the array is missing, of another shape, or holds no numbers.
    """
    array = state.get(name)
    found = getattr(array, "shape", None)
    good = found is not None and len(found) == len(shape)
    good = good and all(b in (None, a) for a, b in zip(found or (), shape, strict=False))
    if not good or getattr(array, "dtype", np.dtype("O")).kind not in "biufc":
        wanted = " x ".join("any" if size is None else str(size) for size in shape)
        raise FileError(
            f"the checkpoint does not fit this deck: '{name}' has shape {found}, the deck needs {wanted} numbers",
            hint="continue with the deck and the qsim that wrote it, or start anew with --force instead of --resume",
        )
    return array


def _check_format(path: Path, file: h5py.File) -> None:
    if attribute(file, "format") != "qsim-checkpoint":
        raise FileError(f"{path} is not a qsim checkpoint", hint=_REPEAT)
    major, minor = (int(number) for number in attribute(file, "format_version"))
    if major > FORMAT_VERSION[0]:
        raise FileError(
            f"checkpoint {path} has format {major}.{minor}; this qsim reads up to {FORMAT_VERSION[0]}.x",
            hint="continue with the qsim that wrote it, or start anew with --force instead of --resume",
        )


# Tags mark what JSON does not have.  A mapping that JSON would change is written as a list of pairs.


def _encode(value: Any, arrays: list[Any], where: str) -> Any:
    """Return ``value`` as JSON; arrays are appended to ``arrays`` and replaced by their number."""
    # The very types, not subclasses: a numpy float is a float for Python, but must come back as what it was.
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__cuda_array_interface__"):
        if value.dtype.hasobject or value.dtype.names:
            raise TypeError(f"{where} is an array of {value.dtype}, which a checkpoint cannot hold")
        # A number of NumPy is an array without dimensions; its tag brings it back as a number.
        arrays.append(value)
        return {"#number" if isinstance(value, np.generic) else "#array": len(arrays) - 1}
    if type(value) is bytes:
        return {"#bytes": base64.b64encode(value).decode()}
    if type(value) is complex:
        return {"#complex": [value.real, value.imag]}
    if type(value) in (list, tuple):
        items = [_encode(item, arrays, f"{where}[{number}]") for number, item in enumerate(value)]
        return items if type(value) is list else {"#tuple": items}
    if isinstance(value, Mapping):
        pairs = [(key, _encode(item, arrays, f"{where}.{key}")) for key, item in value.items()]
        # JSON turns keys into text, and a key with # would be read as a tag: then pairs.
        if all(type(key) is str and not key.startswith("#") for key in value):
            return dict(pairs)
        return {"#pairs": [[_encode(key, arrays, f"a key of {where}"), item] for key, item in pairs]}
    raise TypeError(f"{where} is a {type(value).__name__}, which a checkpoint cannot hold")


def _decode(value: object, path: Path, arrays: h5py.Group) -> Any:
    """Invert :func:`_encode`."""
    if isinstance(value, list):
        return [_decode(item, path, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    tag = next(iter(value), "")
    if not tag.startswith("#"):
        return {key: _decode(item, path, arrays) for key, item in value.items()}
    content: Any = value[tag]
    if tag == "#array":
        return _read_array(path, arrays, str(content))
    if tag == "#number":
        return _read_array(path, arrays, str(content))[()]
    if tag == "#bytes":
        return base64.b64decode(content)
    if tag == "#complex":
        return complex(*content)
    if tag == "#tuple":
        return tuple(_decode(item, path, arrays) for item in content)
    if tag == "#pairs":
        return {_decode(key, path, arrays): _decode(item, path, arrays) for key, item in content}
    raise ValueError(f"unknown tag {tag}")


def _write_array(group: h5py.Group, name: str, array: Any) -> None:
    """Write numbers as they are and anything else (strings, dates) as bytes; add a checksum.

    Arrays of a CUDA device are fetched here, one at a time, to need host memory for only one of them.
    """
    array = np.asarray(array.get() if hasattr(array, "__cuda_array_interface__") else array, order="C")
    # HDF5 has these types on every machine; long double and text do not travel, their bytes do.
    native = array.dtype.kind in "biufc" and array.dtype.itemsize <= (16 if array.dtype.kind == "c" else 8)
    data = array if native else np.frombuffer(array.tobytes(), dtype=np.uint8)
    dataset = group.create_dataset(name, data=data)
    # HDF5 does not notice a byte that a disk has lost; this does, for the price of one pass over the memory.
    dataset.attrs["crc32"] = zlib.crc32(data.data)
    if not native:
        dataset.attrs["dtype"] = array.dtype.str
        dataset.attrs["shape"] = np.array(array.shape, dtype=np.int64)


def _read_array(path: Path, arrays: h5py.Group, name: str) -> NDArray[Any]:
    """Return an array after a look at its place, size and checksum."""
    dataset = member(path, arrays, name)
    # A link to another file, or a size that no file of this length can hold, is refused before anything is
    # allocated.
    require_inside(path, f"array {name}", dataset)
    if not is_plain(dataset.dtype):
        raise TypeError(f"array {name} holds {dataset.dtype}")
    require_room(path, f"array {name} of shape {dataset.shape}", dataset.size * dataset.dtype.itemsize)
    array = np.empty(dataset.shape, dataset.dtype)
    if array.size:  # not dataset[()], which gives a number in native byte order where there is no dimension
        dataset.read_direct(array)
    if zlib.crc32(array.data) != attribute(dataset, "crc32"):
        raise ValueError(f"checksum of array {dataset.name} is wrong")
    if (kind := attribute(dataset, "dtype")) is None:
        return array
    # Written as bytes: type and shape stand beside them.
    shape = tuple(int(size) for size in attribute(dataset, "shape"))
    return np.frombuffer(array.tobytes(), dtype=np.dtype(kind)).reshape(shape).copy()


def _write_text(file: h5py.File, name: str, text: str) -> None:
    dataset = file.create_dataset(name, data=text, dtype=h5py.string_dtype())
    dataset.attrs["crc32"] = zlib.crc32(text.encode())


def _read_text(file: _Opened, name: str) -> str:
    dataset = member(file.path, file.root, name)
    require_inside(file.path, name, dataset)
    require_text(file.path, name, dataset)
    if h5py.check_string_dtype(dataset.dtype) is None or dataset.shape != ():
        raise TypeError(f"{name} is no text")
    text: str = dataset.asstr()[()]
    if zlib.crc32(text.encode()) != attribute(dataset, "crc32"):
        raise ValueError(f"checksum of {name} is wrong")
    return text


# --------------------------------------------------------------------------------------- compatibility


def compatible(
    meta: Mapping[str, Any],
    loaded: LoadedDeck[Any],
    device: str,
    *,
    seed: int | None = None,
    precision: str = "",
    version: str = "",
    free: Sequence[str] = (),
    allow_changes: bool = False,
) -> list[str]:
    """Refuse to continue a checkpoint with another problem.

    Parameters
    ----------
    meta
        Meta data of the checkpoint.
    loaded
        The deck of this run.
    seed
        Seed of the deck; None: the run goes on with that of the checkpoint.
    device, precision, version
        Label of the device, precision and qsim version of this run; a change is only reported.
    free
        Dotted keys (with all below them) that may change, such as the end time; ``*`` stands for any part of one.
    allow_changes
        Report changes of the problem instead of refusing them.

    Returns
    -------
    list of str
        Notices for the user.

    Raises
    ------
    DeckError
        With the keys that differ.
    """
    from qsim.core.deck.load import changed_keys, in_new_names

    method = str(loaded.deck.method)
    if meta.get("method") != method:
        raise DeckError(f"the checkpoint belongs to method '{meta.get('method')}', not '{method}'")
    # through JSON, as the stored one went: tuples become lists
    physics = json.loads(json.dumps(loaded.physics()))
    before, now = (in_new_names(loaded.deck, one) for one in (meta.get("physics", {}), physics))
    changed = changed_keys(cast("Mapping[str, Any]", before), cast("Mapping[str, Any]", now))
    # Keys that the method declares extendable may differ, with all that lies below them.
    changed = [
        key
        for key in changed
        if not any(fnmatchcase(key, name) or fnmatchcase(key, f"{name}.*") for name in free)
    ]
    # Random numbers of two seeds belong to no run that could be repeated.
    if None not in (seed, meta.get("seed")) and seed != meta["seed"]:
        changed.append(f"run.seed ({meta['seed']} then, {seed} now)")
    notices = []
    if changed and not allow_changes:
        raise DeckError(
            f"the deck has changed since the checkpoint was written: {', '.join(changed)}",
            hint="restore these keys, start anew without --resume, or continue with --allow-changes",
        )
    if changed:
        notices.append(f"continuing with changed keys: {', '.join(changed)}")
    for name, value in (("device", device), ("precision", precision), ("qsim_version", version)):
        if value and (earlier := meta.get(name)) and earlier != value:
            notices.append(
                f"{name.replace('_', ' ')} was {earlier} when the checkpoint was written, now it is {value}"
            )
    return notices

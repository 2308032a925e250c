"""Block averages as QMCPACK's ``scalar.dat``, which ``qmca`` and other tools of the field read.

A file holds the header ``#   index    LocalEnergy ...`` with names in fields of 20 characters, and a line per
block: its number in 10 characters, then values in 20 with 10 decimals.  ``qmca`` takes the series from the
name, ``<stem>.s<three digits>.scalar.dat``.  Of several twists that file has the averages over them, block by block, as
``qmca -a`` makes them, and each twist has one of its own, ``<stem>.g<its number>.s<three digits>.scalar.dat``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.columns import text_lines
from qsim.core.errors import FileError
from qsim.core.results.atomic import write_text
from qsim.qmc.system.twists import twists_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from qsim.core.results.results import Results
    from qsim.qmc.deck.model import QmcDeck

__all__ = ["columns", "extra_files", "extra_paths", "path_of", "read", "write"]

FIELD = 20
HEAD = "#   index    "
FIRST = ("LocalEnergy", "LocalEnergy_sq", "LocalPotential", "Kinetic", "ElecElec")
#: Names of the averages here, and in a results file.
AVERAGES = {"total": "energy", "total_squared": "energy_squared"} | {
    name: name
    for name in (
        "kinetic",
        "electron_electron",
        "local",
        "nonlocal",
        "external",
        "weight",
        "seconds",
        "acceptance",
    )
}
LAST = ("BlockWeight", "BlockCPU", "AcceptRatio")


def path_of(stem: Path, series: int, twist: int | None = None) -> Path:
    """Return the file of a series, such as ``he.s001.scalar.dat``, and ``he.g002.s001.scalar.dat`` of a twist."""
    group = "" if twist is None else f".g{twist:03d}"
    return stem.with_name(f"{stem.name}{group}.s{series:03d}.scalar.dat")


def columns(
    blocks: Mapping[str, ArrayLike],
    *,
    ion_ion: float | None = None,
    ions: bool = True,
    pseudopotential: bool = False,
    external: bool = False,
) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a run under QMCPACK's names, in its order.

    Parameters
    ----------
    blocks : mapping to (blocks,) float64
        ``total`` (with the ion-ion energy), ``total_squared`` (mean of the squared local energy), ``kinetic``,
        ``electron_electron``, ``local``, ``weight`` (sum over samples), ``seconds`` and ``acceptance``; where they
        exist ``nonlocal`` and ``external``.  Energies in hartree.
    ion_ion
        Energy of the ions among themselves; no column without one.
    ions
        True if there are any.
    pseudopotential
        True if ``local`` and ``nonlocal`` are those of pseudopotentials; else ``local`` is the attraction by
        bare ions.
    external
        True if there is an external potential.
    """
    data = {name: np.asarray(values, np.float64) for name, values in blocks.items()}
    total, kinetic = data["total"], data["kinetic"]
    found = dict(
        zip(
            FIRST,
            (total, data["total_squared"], total - kinetic, kinetic, data["electron_electron"]),
            strict=True,
        )
    )
    if pseudopotential:
        found |= {"LocalECP": data["local"], "NonLocalECP": data["nonlocal"]}
    elif ions:
        found["ElecIon"] = data["local"]
    if external:
        found["HarmonicExt"] = data["external"]
    if ion_ion is not None:
        found["IonIon"] = np.full(total.shape, float(ion_ion))
    return found | dict(zip(LAST, (data["weight"], data["seconds"], data["acceptance"]), strict=True))


def write(path: Path, table: Mapping[str, ArrayLike]) -> None:
    """Write columns (blocks,) of equal length.

    Raises
    ------
    FileError
        If the file cannot be written.
    """
    names = list(table)
    if wrong := [name for name in names if not name or any(c.isspace() for c in name)]:
        raise ValueError(f"names of columns must be single words: {wrong}")
    data = np.column_stack([np.asarray(table[name], np.float64) for name in names])
    width = max([FIELD, *(len(name) + 1 for name in names)])
    lines = [HEAD + "".join(f"{name:<{width}}" for name in names)]
    lines += [
        f"{index:>10}" + "".join(f"{value:>{width}.10e}" for value in row) for index, row in enumerate(data)
    ]
    write_text(path, "\n".join(lines) + "\n")


def read(path: Path) -> dict[str, NDArray[np.float64]]:
    """Return the columns of a file, without the index.

    Raises
    ------
    FileError
        If it does not exist or is not a ``scalar.dat``.
    """
    lines = text_lines(path, "a scalar.dat")
    head = next(lines, (1, ""))[1]
    names = head.split()
    if names[:2] != ["#", "index"]:
        raise FileError(f"{path} is not a scalar.dat: its first line does not start with '# index'")
    rows: list[list[Any]] = []
    for number, line in lines:
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            rows.append([float(word) for word in words])
        except ValueError as error:
            raise FileError(f"{path}:{number}: {error}") from error
        if len(words) != len(names) - 1:
            raise FileError(f"{path}:{number}: {len(words)} numbers under {len(names) - 1} names")
    data = np.array(rows, np.float64).reshape(len(rows), len(names) - 1)
    return dict(zip(names[2:], data.T[1:], strict=True))


# ------------------------------------------------------------------------------------------- of a run


def extra_paths(deck: QmcDeck, stem: Path) -> list[Path]:
    """Return the files that `extra_files` will write for a deck."""
    if not deck.output.scalar_dat:
        return []
    kinds = [
        item.kind
        for item in deck.series
        for _ in range(len(item.dmc.timesteps) if item.dmc is not None else 1)
    ]
    numbers = [number for number, kind in enumerate(kinds) if kind != "optimize"]
    count = len(twists_of(deck.system))
    twists = [None, *range(count)] if count > 1 else [None]
    return [path_of(stem, number, twist) for number in numbers for twist in twists]


def extra_files(results: Results, stem: Path) -> list[Path]:
    """Write ``scalar.dat`` files of the vmc and dmc sections, if the deck requests them; return their paths.

    Their numbers count the parts of the run from 0, optimisations included: a dmc section takes one for each time step.
    """
    if not results.deck.get("output", {}).get("scalar_dat", False):
        return []
    ion_ion = results.scalars["ion_ion"].value
    bare = results["atoms/bare"] if "atoms/bare" in results else np.zeros(0)
    twists = [None, *map(int, results["twist_number"])] if "twist_number" in results else [None]
    written: list[Path] = []
    number = 0
    for index, kind in enumerate(results["section"]):
        groups = [f"series_{index}"]
        if kind == "dmc":
            groups = [f"series_{index}/tau_{k}" for k in range(results.shape(f"series_{index}/timestep")[0])]
        for group in groups:
            for twist in twists if kind != "optimize" else ():
                place = group if twist is None else f"{group}/twist_{twist}"
                blocks = {key: results[f"{place}/{name}"] for key, name in AVERAGES.items()}
                table = columns(
                    blocks,
                    ion_ion=float(ion_ion) if isinstance(ion_ion, float) and ion_ion else None,
                    ions=bare.size > 0,
                    pseudopotential=not np.all(bare),
                    external=bool(np.any(blocks["external"])),
                )
                written.append(path_of(stem, number, twist))
                write(written[-1], table)
            number += 1
    return written

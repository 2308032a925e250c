"""Sizes and memory of driven equations, before anything is allocated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from qsim.core.deck.blocks import Finding
from qsim.core.device.device import Memory
from qsim.core.errors import InvalidInput
from qsim.core.run.stages import Plan, Size
from qsim.sturmian.deck.blocks import LESS
from qsim.sturmian.deck.collision_symmetry import Sector, Settings, pairs_of, sectors_of
from qsim.sturmian.driven.automatic import numbers_of
from qsim.sturmian.driven.checks import physics
from qsim.sturmian.driven.krylov import RESTART
from qsim.sturmian.driven.operator import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qsim.core.deck.load import LoadedDeck
    from qsim.sturmian.deck.model import SturmianDeck
    from qsim.sturmian.driven.numbers import Numbers

# Unknowns of all energies from which a GPU is faster than its host (docs/howto/devices.md): resonances with 1.6e5 take 0.7 of
# the time, e_h_full with 2.6e5 as well.
GPU_UNKNOWNS = 1e5

# Energies whose functions are held at once.
SPAN = 40

Library = Literal["cublas", "cusolver, complex"]


class Demands(NamedTuple):
    """Rounds of a task, and the solutions that it keeps.

    Attributes
    ----------
    rounds : int
        Grids in which all equations are solved: the grid of the deck, the coarser one for the errors, the scanned ones.
    directions : int
        Vectors that the solver keeps.
    sources : int
        Sources of one symmetry and energy.
    kept : int
        Solutions of one symmetry and energy that others start from.
    ranks : int
        Processes that can share the work.
    library : str
        Library of the GPU that the memory estimate counts.
    """

    rounds: int
    directions: int
    sources: int = 1
    kept: int = 0
    ranks: int = 1
    library: Library = "cusolver, complex"


def plan(loaded: LoadedDeck[SturmianDeck], demands: Demands) -> Plan:
    """Estimate sizes and memory of driven equations, and check their physics."""
    settings = Settings.of(loaded.deck)
    Z = float(settings.system.Z)
    try:
        numbers, _ = numbers_of(settings)
        findings = [*physics(settings, numbers, numbers.bounds(Z)), *_scanned(settings)]
    except InvalidInput as error:
        return Plan(findings=[Finding(error.key, str(error))])
    size = _Size.of(settings, numbers, sectors_of(loaded.deck))
    parts = _memory(settings, size, demands)
    host = parts["one-electron functions"]
    return Plan(
        memory=Memory(
            host=host,
            device=sum(parts.values()) - host,
            parts=parts,
            reduce=LESS if "matrix" in parts else "grid.R",
            library=demands.library,
        ),
        sizes={
            "grid points": size.points,
            "R (bohr)": numbers.R,
            "pairs": max(size.pairs),
            "unknowns": max(size.pairs) * size.functions**2,
            "symmetries": len(size.pairs),
            "energies": size.energies,
        },
        findings=findings,
        size=_size(settings, size),
        operations=_operations(size),
        reduce="channels.l_max",
        ranks=demands.ranks,
        shared="symmetries and energies",
    )


class _Size(NamedTuple):
    """Sizes of the equations: radial points, functions of an l, pairs of every symmetry, largest l, energies."""

    points: int
    functions: int
    pairs: list[int]
    l_max: int
    energies: int

    @classmethod
    def of(cls, settings: Settings, numbers: Numbers, sectors: list[Sector]) -> _Size:
        """Return the sizes of a deck."""
        pairs = [pairs_of(settings.channels, sector) for sector in sectors]
        points = numbers.points(float(settings.system.Z))
        return cls(
            points=points,
            functions=points if numbers.whole else max(numbers.sizes),
            pairs=[len(some) for some in pairs],
            l_max=max(b for some in pairs for _, b in some),
            energies=max(1, len(settings.energies)),
        )


def _memory(settings: Settings, size: _Size, demands: Demands) -> dict[str, int]:
    """Return the bytes of the arrays of the largest symmetry, all its energies together."""
    P, n, M = max(size.pairs), size.points, size.functions
    vector = 16 * P * M * M
    # A solution has M x M coefficients for each pair, complex of 16 bytes. As many energies are iterated
    # together as their directions have room for.
    together = min(size.energies, max(1, int(BATCH / (RESTART * vector))))
    # Many energies start from each other: what a span holds, and the equations that are solved together.
    at_once = min(size.energies, SPAN)
    parts = {
        "one-electron functions": 16 * (size.l_max + 1) * n * (n + 2 * M),
        "repulsion kernels": 16 * (2 * size.l_max + 1) * n**2,
        "directions of the solver": demands.directions * together * vector,
        "functions on the product grid": 16 * 4 * 2 * P * n**2 * at_once,
        "solutions that others start from": 16 * P * n**2 * at_once * demands.kept,
    }
    # H, and E - H of one energy, which is factorised in its place.
    if settings.solver.type == "dense":
        parts["matrix"] = 2 * 16 * (P * M * M) ** 2
    return parts


def _size(settings: Settings, size: _Size) -> Size:
    """Return the unknowns of the largest symmetry at all energies that are solved together."""
    together = 1 if settings.task.process == "resonances" else size.energies
    return Size(float(max(size.pairs)) * size.functions**2 * together, "unknowns", GPU_UNKNOWNS)


def _operations(size: _Size) -> float:
    """Return the operations of one product with the matrix for each energy and symmetry: to the grid and back."""
    return 4.0 * float(sum(size.pairs)) * size.functions**2 * size.points * size.energies


def _scanned(settings: Settings) -> Iterator[Finding]:
    """Yield the mistakes in scanned boxes and grids; a scan may begin with too coarse a grid, or with too few functions."""
    kinds = {"R": float, "order": int}
    for key in kinds:
        for k, value in enumerate(settings.scan.get(key, [])):
            changed = replace(
                settings, grid=settings.grid.model_copy(update={key: kinds[key](value)}), basis=None
            )
            numbers, _ = numbers_of(changed)
            for finding in physics(changed, numbers, numbers.bounds(float(settings.system.Z))):
                severity = "warning" if finding.key == "grid.order" else finding.severity
                yield Finding(f"scan.{key}.{k}", finding.message, severity)

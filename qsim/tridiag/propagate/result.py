"""Result of ``task: propagate`` and its quantities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.tridiag.deck.electron import GaussianInitial
from qsim.tridiag.propagate.lattice import PSI_LIMIT
from qsim.tridiag.tdse.motion import MotionResult
from qsim.tridiag.tdse.quantities import (
    ARRAYS,
    HARMONICS,
    JUDGED,
    SCALARS,
    driven,
    electrons,
    errors,
    frame,
    listed,
    named_spectra,
    number,
    places,
)
from qsim.tridiag.tdse.scan.result import scan_quantities

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.tridiag.propagate.problem import Propagation

__all__ = ["QUANTITIES", "SCANS", "Propagated"]


@dataclass(kw_only=True)
class Propagated(MotionResult):
    """Result of a propagation.

    Attributes
    ----------
    psi : (points,) complex
        State at the end, between the walls.
    info : dict
        How the steps were done.
    """

    problem: Propagation
    psi: NDArray[Any]
    info: dict[str, Any]

    def __post_init__(self) -> None:
        """Take the first and the last row of what is recorded as numbers."""
        rows = self.frames
        self.numbers |= {
            "energy_initial": float(rows["energy"][0]),
            "energy_final": float(rows["energy"][-1]),
        }
        if "bound" in rows:
            self.numbers["bound_population"] = float(rows["bound"][-1])

    @property
    def populations(self) -> dict[str, float]:
        """Populations of the levels at the end by the name of the scalar."""
        last = self.frames["populations"][-1] if "populations" in self.frames else ()
        return {f"population_{level}": float(value) for level, value in enumerate(last)}

    @property
    def divided(self) -> tuple[float, float] | None:
        """Norms beyond and before the first place of `norm_right` at the end, of a packet that runs towards it; else None.

        None where an absorber takes some of it.
        """
        start, lattice = self.problem.initial, self.problem.lattice
        if not isinstance(start, GaussianInitial) or "norm_right" not in self.frames:
            return None
        if start.k0 * (self.problem.observed.norm_right[0] - start.x0) <= 0.0:
            return None
        if lattice.cap is not None or lattice.mask is not None:
            return None
        right = float(self.frames["norm_right"][-1, 0])
        left = self.final("norm") - right
        return (right, left) if start.k0 > 0.0 else (left, right)


Q = Quantity[Propagated]


def _on_grid(value: Callable[[Propagated], NDArray[Any] | None]) -> Any:
    """Return a function that gives an array on the whole grid, None where the grid is too large to be stored."""
    return lambda r: value(r) if r.problem.lattice.points <= PSI_LIMIT else None


def _step(name: str, text: str, *, headline: bool = False) -> Q:
    """Return the quantity of how the steps were done, where it applies."""
    return Q(
        name, "", text, lambda r: r.info[name], when=lambda r: name in r.info, headline=headline, exact=True
    )


def _share(name: str, index: int) -> Q:
    """Return the quantity of the norm that is beyond, or before, the first place of `norm_right`."""
    where = "beyond" if index == 0 else "before"
    return Q(
        name,
        "",
        f"norm {where} the first place of norm_right at the end, of a packet that runs towards it",
        lambda r: (r.divided or (0.0, 0.0))[index],
        # that of the norm in a part of the box
        error=lambda r: r.errors.get(f"norm_right_{r.problem.observed.norm_right[0]:g}"),
        when=lambda r: r.divided is not None,
        headline=True,
    )


QUANTITIES: tuple[Q, ...] = (
    _share("transmission", 0),
    _share("reflection", 1),
    *SCALARS,
    Q("dx", "bohr", "grid spacing", lambda r: r.problem.lattice.dx, exact=True),
    Q(
        "wall_density",
        "",
        "largest |psi|^2 dx one spacing from a wall at the end",
        number("wall_density"),
        exact=True,
    ),
    Q("turned_back", "", "norm that the walls have turned back, roughly", number("turned_back"), exact=True),
    Q(
        "population_sum",
        "",
        "population of all these levels at the end",
        lambda r: float(r.frames["populations"][-1].sum()),
        error=errors,
        when=lambda r: "populations" in r.frames,
    ),
    Q("norm_right_*", "", "norm right of x = * bohr at the end", places("norm_right"), error=errors),
    Q(
        "vector_potential_final",
        "a.u.",
        "A at the end",
        lambda r: r.problem.pulse.residual(r.problem.t_final),
        when=driven,
        exact=True,
    ),
    _step("algorithm", "how the steps were done"),
    _step("blocks", "blocks of the partition", headline=True),
    _step("iterations", "nested partitions", headline=True),
    _step("halo", "rows that neighbouring blocks share"),
    _step("steps_per_pass", "time steps between two passes through memory"),
    _step("min_pivot", "smallest pivot relative to its row"),
    *ARRAYS,
    Q("energy", "hartree", "<(p + A)^2/2 + V>", frame("energy"), ("time",), note="not divided by the norm"),
    Q(
        "wall_density",
        "",
        "|psi|^2 dx one spacing from both walls, together",
        frame("wall_density"),
        ("time",),
        exact=True,
    ),
    Q("bound", "", "population of all levels of the box below the threshold", frame("bound"), ("time",)),
    Q(
        "level",
        "",
        "level",
        lambda r: np.arange(r.problem.levels) if r.problem.levels else None,
        ("level",),
    ),
    Q(
        "energies",
        "hartree",
        "eigenvalues of the field-free Hamiltonian on the grid",
        lambda r: (
            r.problem.energies[: r.problem.levels]
            if r.problem.energies is not None and r.problem.levels
            else None
        ),
        ("level",),
    ),
    Q("place", "bohr", "places of norm_right", listed("norm_right"), ("place",)),
    Q("norm_right", "", "norm right of the place", frame("norm_right"), ("time", "place")),
    Q("x", "bohr", "grid points, the walls first and last", _on_grid(lambda r: r.problem.x), ("x",)),
    *(
        Q(name, unit, text, _on_grid(lambda r, key=key: r.problem.with_walls(key)), ("x",))  # type: ignore[misc]
        for name, key, unit, text in (
            ("potential", "potential", "hartree", "potential energy"),
            ("absorber", "cap", "hartree", "W of the complex potential -i W"),
            ("mask", "mask", "", "factor after every step"),
        )
    ),
    Q(
        "psi_initial",
        "bohr^-1/2",
        "wavefunction at t = 0",
        _on_grid(lambda r: np.pad(r.problem.psi0.astype(r.psi.dtype), 1)),
        ("x",),
    ),
    Q(
        "psi_final",
        "bohr^-1/2",
        "wavefunction at the end",
        _on_grid(lambda r: np.pad(r.psi, 1)),
        ("x",),
        note="zero at the walls; in the gauge of the run",
    ),
    Q(
        "x_density",
        "bohr",
        "grid points of the density map",
        lambda r: r.problem.x_of_columns,
        ("x_density",),
    ),
    Q("density", "1/bohr", "|psi|^2", frame("density"), ("time", "x_density")),
    *HARMONICS,
    *electrons("pes_energy"),
    *named_spectra(
        ("pes_left", "1/hartree", "part of pes at x < 0", ("pes_energy",)),
        ("pes_right", "1/hartree", "part of pes at x >= 0", ("pes_energy",)),
        ("photoelectron_energy", "hartree", "energy", ("photoelectron_energy",)),
        ("photoelectron_spectrum", "1/hartree", "probability density in energy", ("photoelectron_energy",)),
        ("photoelectron_left", "1/hartree", "its part at x < 0", ("photoelectron_energy",)),
        ("photoelectron_right", "1/hartree", "its part at x >= 0", ("photoelectron_energy",)),
    ),
    *JUDGED,
)

#: Of scans.
SCANS = scan_quantities(
    (
        Quantity("gauge", "", "gauge of the runs", lambda r: r.runs[0].problem.pulse.gauge),
        Quantity("points", "", "points between the walls", lambda r: r.runs[0].problem.lattice.points),
        Quantity("dx", "bohr", "grid spacing", lambda r: r.runs[0].problem.lattice.dx, exact=True),
    ),
    (),
    "potential",
)

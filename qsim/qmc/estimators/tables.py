"""Names, units and conventions of what the estimators leave in a results file; loads no kernel."""

from __future__ import annotations

from qsim.core.results.tables import Table

__all__ = ["estimator_tables"]

PAIR = (
    "spherically averaged pair density: mean number of pairs of this kind in a shell of distances over the volume of the "
    "shell; 4 pi r^2 times it integrates to the number of pairs, n(n-1)/2 of equal and n_up n_dn of opposite spins"
)
DENSITY = "mean number of electrons per volume in each cell; the sum times the volume of a cell is the number inside"
RADIAL = "electrons per volume of a spherical shell around the atom, averaged over the shell"
SOFK = "(mean of |rho_k|^2 less the square of the mean of rho_k) / N; one wave of each pair of opposite ones"
ERROR = "one standard deviation; NaN where there are too few blocks"
PAIRS = {"uu": "two spin-up electrons", "ud": "electrons of opposite spin", "dd": "two spin-down electrons"}
SPINS = {"up": "spin-up", "down": "spin-down"}


def estimator_tables(prefix: str = "") -> tuple[Table, ...]:
    """Return the declarations, with names below ``prefix`` (such as ``"series_*/"``)."""
    found = [Table(f"{prefix}gofr_r", ("gofr_r",), "bohr", "distance of two electrons, middle of the bin")]
    for kind, words in PAIRS.items():
        found.append(
            Table(f"{prefix}gofr_{kind}", ("gofr_r",), "bohr^-3", f"pair density of {words}", note=PAIR)
        )
        found.append(
            Table(f"{prefix}gofr_{kind}_error", ("gofr_r",), "bohr^-3", f"error of gofr_{kind}", note=ERROR)
        )
    found += [
        Table(f"{prefix}sofk_k", ("sofk_k",), "1/bohr", "wave numbers of the structure factor"),
        Table(f"{prefix}sofk", ("sofk_k",), "", "structure factor", note=SOFK),
        Table(f"{prefix}sofk_error", ("sofk_k",), "", "error of sofk", note=ERROR),
    ]
    axes = tuple(f"density_{axis}" for axis in "xyz")
    middle = "middle of the cells of the mesh, in a crystal along the lattice vectors of the primitive cell"
    found += [Table(f"{prefix}{axis}", (axis,), "bohr", middle) for axis in axes]
    found.append(
        Table(f"{prefix}radial_r", ("radial_r",), "bohr", "distance from the atom, middle of the bin")
    )
    for name, dims, note in (("density", axes, DENSITY), ("radial", ("atom", "radial_r"), RADIAL)):
        for spin, words in SPINS.items():
            what = f"{words} density" + (" around each atom" if name == "radial" else "")
            found.append(Table(f"{prefix}{name}_{spin}", dims, "bohr^-3", what, note=note))
            found.append(
                Table(f"{prefix}{name}_{spin}_error", dims, "bohr^-3", f"error of {name}_{spin}", note=ERROR)
            )
    return tuple(found)

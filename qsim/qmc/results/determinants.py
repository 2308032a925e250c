"""Quantities of expansions in determinants: what they are, and their coefficients before and after optimisations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.results.quantities import Quantity
from qsim.qmc.results.parts import has_determinants, of_expansion

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from qsim.qmc.run import Result
    from qsim.qmc.wavefunction.expansion import Expansion

__all__ = ["DETERMINANTS", "EXPANSIONS"]


def _coefficients(expansion: Expansion) -> NDArray[np.float64]:
    """Return the coefficients with the norm 1."""
    return expansion.coefficients / np.linalg.norm(expansion.coefficients)


def _is_optimised(result: Result) -> bool:
    """Return True if coefficients are others than at the start."""
    return result.after.expansion is not result.problem.wavefunction.expansion


def _spin_after(result: Result) -> float | None:
    """Return <S^2> of the determinants at the end; None if spins have orbitals of their own, or orbitals have mixed."""
    from qsim.qmc.wavefunction.expansion import spin_squared  # its tables are those of kernels

    found, mixing = result.problem.wavefunction.expansion.about, result.after.mixing
    if "spin_squared" not in found or (mixing is not None and mixing.values.any()):
        return None
    return spin_squared(found["listed"]._replace(coefficients=result.after.expansion.coefficients))


def _orbitals(spin: int) -> Callable[[Result], object]:
    """Return the function for the orbitals of a spin in each determinant, as its source counts them."""

    def value(result: Result) -> Any:
        listed = result.problem.wavefunction.expansion.about["listed"]
        return listed.strings[spin][listed.pairs[:, spin]]

    return value


def _mixes(result: Result) -> bool:
    """Return True if orbitals are optimised."""
    return result.after.mixing is not None


def _shares(spin: int) -> Callable[[Result], object]:
    """Return the function for what the orbitals of a spin at the end are made of."""

    def value(result: Result) -> Any:
        mixing = result.after.mixing
        assert mixing is not None
        return mixing.matrices[spin][: len(mixing.start.columns.numbers[spin]), : mixing.occurring[spin]]

    return value


def _numbers(spin: int) -> Callable[[Result], object]:
    """Return the function for the orbitals of a spin that mix."""

    def value(result: Result) -> Any:
        mixing = result.after.mixing
        assert mixing is not None
        return np.array(mixing.start.columns.numbers[spin], np.int64)

    return value


EXPANSIONS: tuple[Quantity[Result], ...] = (
    Quantity(
        "determinants",
        "",
        "determinants of the expansion",
        lambda r: int(r.problem.wavefunction.expansion.size),
        when=has_determinants,
        exact=True,
    ),
    *(
        Quantity(
            name,
            "",
            f"strings of orbitals with spin {spin}",
            lambda r, s=k: len(r.problem.wavefunction.expansion.strings[s]),  # type: ignore[misc]
            when=has_determinants,
            exact=True,
        )
        for k, (name, spin) in enumerate((("strings_up", "up"), ("strings_down", "down")))
    ),
    *(
        Quantity(
            name,
            unit,
            text,
            of_expansion(name),
            when=lambda r, name=name: of_expansion(name)(r) is not None,  # type: ignore[misc]
            exact=True,
        )
        for name, unit, text in (
            ("csfs", "", "spatial occupations of the expansion"),
            ("norm_kept", "", "share of the norm that the cutoff keeps"),
            ("energy_lost", "hartree", "energy that the cutoff loses, without Jastrow factor"),
            ("spin_squared", "", "<S^2> of the determinants"),
        )
    ),
    Quantity(
        "spin_squared_optimized",
        "",
        "<S^2> of the determinants with the coefficients at the end",
        _spin_after,
        when=lambda r: _is_optimised(r) and _spin_after(r) is not None,
    ),
)

DETERMINANTS: tuple[Quantity[Result], ...] = (
    Quantity(
        "determinants/coefficients",
        "",
        "coefficients of the determinants at the end, with the norm 1",
        lambda r: _coefficients(r.after.expansion),
        ("determinant",),
        when=has_determinants,
    ),
    Quantity(
        "determinants/coefficients_start",
        "",
        "the same at the start",
        lambda r: _coefficients(r.problem.wavefunction.expansion),
        ("determinant",),
        when=has_determinants,
    ),
    *(
        Quantity(
            f"determinants/{name}",
            "",
            f"orbitals with spin {name}, counted from 0 as in their source",
            _orbitals(spin),
            ("determinant", f"electron_{name}"),
            when=has_determinants,
        )
        for spin, name in enumerate(("up", "down"))
    ),
    *(
        Quantity(
            f"orbitals/shares_{name}",
            "",
            f"shares of the orbitals of the start in those with spin {name} of the determinants at the end, whose norm is not 1",
            _shares(spin),
            (f"orbital_{name}", f"occurring_{name}"),
            when=_mixes,
        )
        for spin, name in enumerate(("up", "down"))
    ),
    *(
        Quantity(
            f"orbitals/numbers_{name}",
            "",
            f"orbitals with spin {name} that mix, counted from 0 as in their source: those of determinants first",
            _numbers(spin),
            (f"orbital_{name}",),
            when=_mixes,
        )
        for spin, name in enumerate(("up", "down"))
    ),
)

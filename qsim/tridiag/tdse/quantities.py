"""Quantities that every propagation in a laser field leaves, in one dimension and in an atom.

They belong to results with a `problem` that has ``pulse``, ``t_final`` and ``ip``, with ``numbers``, ``spectra`` and ``traced``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qsim.core.deck.units import to_unit
from qsim.core.results.quantities import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CUTOFF", "FIELD", "HARMONICS", "KELDYSH", "driven", "spectrum", "traces", "turned"]


def driven(r: Any) -> bool:
    """Return True if there is a laser."""
    return bool(r.problem.pulse.pulses)


def spectrum(name: str) -> Callable[[Any], Any]:
    """Return a function that gives a spectrum of a result, None where it was not requested."""
    return lambda r: r.spectra.get(name)


def turned(own: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return by how much populations may change, by name, from a run and one with another curve of a table, which is one of many.

    A population ``p = sin^2(a)`` that this curve leaves alone may change by another one as those beside it do: the largest change
    of their angles a, d, allows ``2 sqrt(p (1 - p)) d + d^2``.
    """

    def size(run: Mapping[str, float], name: str) -> float:
        return math.sqrt(min(max(run[name], 0.0), 1.0))

    names = [k for k in own if k in other and k.startswith("population_") and k != "population_sum"]
    d = max((abs(math.asin(size(own, k)) - math.asin(size(other, k))) for k in names), default=0.0)
    return {k: (2.0 * size(own, k) * math.sqrt(1.0 - size(own, k) ** 2) + d) * d for k in names}


def intensity(peak: float) -> float:
    """Return the intensity of a peak field, W/cm2."""
    return peak**2 * float(to_unit(1.0, "W/cm2", "intensity"))


def _has_carrier(r: Any) -> bool:
    return driven(r) and r.problem.pulse.omega is not None


def _peak(r: Any) -> float:
    return float(r.problem.pulse.peak(r.problem.t_final))


#: Field and frequency of the laser.
FIELD: tuple[Quantity[Any], ...] = (
    Quantity("field_peak", "a.u.", "largest |E(t)|", _peak, when=driven, exact=True),
    Quantity(
        "intensity_peak",
        "W/cm2",
        "intensity at the peak field, linear polarisation",
        lambda r: intensity(_peak(r)),
        when=driven,
        exact=True,
    ),
    Quantity(
        "omega",
        "hartree",
        "carrier frequency",
        lambda r: r.problem.pulse.omega,
        when=_has_carrier,
        exact=True,
    ),
    Quantity(
        "up",
        "hartree",
        "ponderomotive energy E0^2 / (4 omega^2)",
        lambda r: r.problem.pulse.up,
        when=_has_carrier,
        exact=True,
    ),
    Quantity(
        "quiver_radius",
        "bohr",
        "E0 / omega^2",
        lambda r: r.problem.pulse.quiver,
        when=_has_carrier,
        exact=True,
    ),
)


def _keldysh(r: Any) -> float | None:
    ip = r.problem.ip
    return None if ip is None else r.problem.pulse.keldysh(ip)


#: Keldysh parameter; without a value where the field is zero, or no state is bound.
KELDYSH: Quantity[Any] = Quantity(
    "keldysh", "", "Keldysh parameter sqrt(Ip / (2 Up))", _keldysh, when=_has_carrier, exact=True
)


def _cutoff(name: str, text: str, *, headline: bool = False) -> Quantity[Any]:
    return Quantity(
        name,
        "",
        text,
        lambda r: r.numbers.get(name),
        when=lambda r: driven(r) and name in r.numbers,
        error=lambda r: r.errors,
        headline=headline,
    )


def _classical_error(r: Any) -> float | None:
    """Return the error of the classical cutoff, that of Ip in photons; None where Ip has none."""
    error = getattr(r, "errors", {}).get("ionisation_potential")
    return None if error is None else float(error) / r.problem.pulse.omega


#: Where the harmonics end.
CUTOFF: tuple[Quantity[Any], ...] = (
    _cutoff(
        "hhg_cutoff_order",
        "order where the averaged spectrum has fallen one decade below its plateau",
        headline=True,
    ),
    replace(_cutoff("hhg_cutoff_classical", "(Ip + 3.17 Up) / omega"), error=_classical_error),
)

#: Spectra of the harmonics.
HARMONICS: tuple[Quantity[Any], ...] = (
    Quantity("hhg_order", "", "harmonic order", spectrum("hhg_order"), ("hhg_order",)),
    Quantity(
        "hhg_spectrum",
        "a.u.",
        "|int s(t) w(t) exp(-i h omega t) dt|^2",
        spectrum("hhg_spectrum"),
        ("hhg_order",),
    ),
    Quantity(
        "gabor_time", "a.u.", "times of the time-frequency map", spectrum("gabor_time"), ("gabor_time",)
    ),
    Quantity("gabor_order", "", "harmonic orders of the map", spectrum("gabor_order"), ("gabor_order",)),
    Quantity(
        "hhg_gabor",
        "a.u.",
        "power of the acceleration",
        spectrum("hhg_gabor"),
        ("gabor_time", "gabor_order"),
    ),
)


def traces(dipole: str, acceleration: str) -> tuple[Quantity[Any], ...]:
    """Return the quantities of the fine trace, with what dipole and acceleration mean."""
    texts = (
        ("time", "a.u.", "times of the fine trace"),
        ("norm", "", "norm"),
        ("dipole", "bohr", dipole),
        ("velocity", "a.u.", "integral of the acceleration"),
        ("acceleration", "a.u.", acceleration),
        ("field", "a.u.", "electric field E(t)"),
    )
    return tuple(
        Quantity(f"trace/{name}", unit, text, lambda r, name=name: r.traced(name), ("sample",))  # type: ignore[misc]
        for name, unit, text in texts
    )

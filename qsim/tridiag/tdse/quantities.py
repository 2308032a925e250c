"""Quantities of one motion: what every run leaves, whatever its geometry.

They belong to a :class:`qsim.tridiag.tdse.motion.MotionResult`. A quantity that is added to `SCALARS` or `ARRAYS` appears in all
geometries.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.deck.units import to_unit
from qsim.core.results.quantities import Quantity
from qsim.tridiag.tdse.judge import TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qsim.tridiag.tdse.motion import MotionResult

__all__ = [
    "ARRAYS", "FIELD", "HARMONICS", "JUDGED", "SCALARS", "component", "driven", "electrons", "errors", "frame", "known", "listed",
    "named_spectra", "number", "places", "turned",
]  # fmt: skip

Q = Quantity[Any]
# hartree: the energy at t = 0 and that of the level are one number, summed in two ways
SAME_LEVEL = 1e-9


def errors(r: MotionResult) -> Mapping[str, float]:
    """Return the claimed errors of a result by the name of the scalar."""
    found: Mapping[str, float] = r.errors
    return found


def number(name: str) -> Callable[[Any], Any]:
    """Return a function that gives a number of the analysis, None where it is not known."""
    return lambda r: r.numbers.get(name)


def known(name: str) -> Callable[[Any], bool]:
    """Return a function that tells whether the analysis has found a number."""
    return lambda r: name in r.numbers


def frame(name: str) -> Callable[[Any], Any]:
    """Return a function that gives what has a row per output time, None where it was not recorded."""
    return lambda r: r.frames.get(name)


def component(name: str, index: int) -> Callable[[Any], Any]:
    """Return a function that gives a component of what has a row per output time."""
    return lambda r: r.frames[name].reshape(len(r.frames[name]), -1)[:, index]


def listed(name: str) -> Callable[[Any], Any]:
    """Return a function that gives the radii or places of the deck, None where there are none."""
    return lambda r: np.array(found) if (found := getattr(r.problem.observed, name)) else None


def places(name: str) -> Callable[[Any], dict[str, float]]:
    """Return a function that gives the norms in parts of space at the end, by the name of the scalar."""
    return lambda r: {
        f"{name}_{place:g}": float(r.frames[name][-1, k])
        for k, place in enumerate(getattr(r.problem.observed, name))
    }


def driven(r: MotionResult) -> bool:
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


def _has_carrier(r: MotionResult) -> bool:
    return driven(r) and r.problem.pulse.omega is not None


def _peak(r: MotionResult) -> float:
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


def _keldysh(r: MotionResult) -> float | None:
    ip = r.problem.ip
    return None if ip is None else r.problem.pulse.keldysh(ip)


def _ip_error(r: MotionResult) -> float | None:
    """Return the error of Ip, which is that of the energy at t = 0 where the run begins in that level."""
    start = r.numbers.get("energy_initial")
    same = start is not None and r.problem.ip is not None and abs(start + r.problem.ip) <= SAME_LEVEL
    own = r.errors.get("ionisation_potential")
    return r.errors.get("energy_initial") if own is None and same else own


def _classical_error(r: MotionResult) -> float | None:
    """Return the error of the classical cutoff, that of Ip in photons; None where Ip has none."""
    error, omega = _ip_error(r), r.problem.pulse.omega
    return None if error is None or omega is None else float(error) / omega


def _largest_part(name: str, text: str, part: Callable[[dict[str, float]], float | None]) -> Q:
    """Return the quantity of what a cause contributes to the errors of norms and populations, at most."""

    def largest(r: MotionResult) -> float | None:
        shares = [part(parts) for one, parts in r.parts.items() if one.startswith(("norm", "population"))]
        return max((one for one in shares if one is not None), default=None)

    return Q(
        name,
        "",
        f"largest error of a norm or population by the {text}",
        largest,
        when=lambda r: largest(r) is not None,
        exact=True,
    )


def _continuum(r: MotionResult) -> float:
    # of the norm at t = 0, which a state from a file need not have as 1
    return float(r.frames["norm"][0]) - float(r.numbers["bound_population"])


def _continuum_error(r: MotionResult) -> Any:
    return r.errors.get("continuum_population", r.errors.get("bound_population"))


#: Numbers of every run, those that a summary shows first in their order.
SCALARS: tuple[Q, ...] = (
    Q(
        "norm_final",
        "",
        "norm in the box at the end",
        lambda r: r.final("norm"),
        error=errors,
        headline=(
            "resonance_rate",
            "resonance_energy",
            "rate",
            "hhg_cutoff_order",
            "continuum_population",
            "pes_total",
            "norm_final",
            "population_0",
        ),
    ),
    Q("norm_initial", "", "norm at t = 0", lambda r: float(r.frames["norm"][0]), exact=True),
    Q("energy_initial", "hartree", "<H> at t = 0", number("energy_initial"), headline=True, error=errors),
    Q(
        "energy_final",
        "hartree",
        "field-free energy at the end, not divided by the norm",
        number("energy_final"),
        headline=("energy_final", "steps"),
        error=errors,
    ),
    Q(
        "bound_population",
        "",
        "population of all levels of the box below the threshold at the end",
        number("bound_population"),
        when=known("bound_population"),
        headline=True,
        error=errors,
    ),
    Q(
        "continuum_population",
        "",
        "1 minus bound_population: energies above the threshold, and what was absorbed",
        _continuum,
        when=known("bound_population"),
        error=_continuum_error,
    ),
    Q(
        "rate",
        "a.u.",
        "decay rate of the norm in a static field",
        number("rate"),
        when=known("rate"),
        headline=True,
        error=errors,
    ),
    Q("population_*", "", "population of the level * at the end", lambda r: r.populations, error=errors),
    Q("norm_within_*", "", "norm within * bohr at the end", places("norm_within"), error=errors),
    Q(
        "dipole_final",
        "bohr",
        "dipole along the field at the end; in a plane, <x> of the run",
        lambda r: r.final("dipole"),
        error=errors,
    ),
    Q("steps", "", "time steps", lambda r: r.problem.steps),
    Q("dt", "a.u.", "time step", lambda r: r.problem.dt, exact=True),
    Q("t_final", "a.u.", "duration", lambda r: r.problem.t_final, exact=True),
    Q(
        "ionisation_potential",
        "hartree",
        "Ip, of the initial or the ground state",
        lambda r: r.problem.ip,
        when=lambda r: r.problem.ip is not None,
        error=_ip_error,
    ),
    *FIELD,
    Q(
        "keldysh",
        "",
        "Keldysh parameter sqrt(Ip / (2 Up))",
        _keldysh,
        when=lambda r: _has_carrier(r) and _keldysh(r) is not None,
        exact=True,
    ),
    Q(
        "hhg_cutoff_order",
        "",
        "order where the averaged spectrum has fallen one decade below its plateau",
        number("hhg_cutoff_order"),
        when=lambda r: driven(r) and "hhg_cutoff_order" in r.numbers,
        error=errors,
        headline=True,
    ),
    Q(
        "hhg_cutoff_classical",
        "",
        "(Ip + 3.17 Up) / omega",
        number("hhg_cutoff_classical"),
        when=lambda r: driven(r) and "hhg_cutoff_classical" in r.numbers,
        error=_classical_error,
    ),
    Q(
        "tsurff_radius",
        "bohr",
        "radius of the surface of t-SURFF",
        lambda r: r.problem.spheres[0].radius,
        when=lambda r: bool(r.problem.spheres),
        exact=True,
    ),
    Q(
        "peak_energy_*",
        "hartree",
        "energy of peak * of the photoelectron spectrum, highest first",
        lambda r: r.peaks,
        error=errors,
    ),
    Q("pes_method", "", "how pes was found", lambda r: r.methods[0], when=lambda r: bool(r.methods)),
    Q(
        "pes_total",
        "",
        "integral of pes over its positive energies",
        number("pes_total"),
        when=lambda r: bool(r.methods),
        error=errors,
    ),
    Q(
        "resonance_energy",
        "hartree",
        "energy of the resonance in the static field, by complex scaling",
        number("resonance_energy"),
        when=known("resonance_energy"),
        error=errors,
        headline=True,
    ),
    Q(
        "resonance_state",
        "",
        "which resonance: parabolic quantum numbers, the level it comes from, or the energy it is nearest to",
        lambda r: r.resonance,
        when=known("resonance_energy"),
    ),
    Q(
        "resonance_rate",
        "a.u.",
        "decay rate of the resonance in the static field, by complex scaling",
        number("resonance_rate"),
        when=known("resonance_rate"),
        error=errors,
        headline=True,
    ),
    Q(
        "error_estimate",
        "",
        "largest claimed error of a norm or population",
        lambda r: max(e for name, e in r.errors.items() if name.startswith(("norm", "population", "bound"))),
        when=lambda r: bool(r.parts),
    ),
    _largest_part("error_time_step", "time step", lambda parts: next(iter(parts.values()))),
    _largest_part("error_spacing", "grid spacing", lambda parts: list(parts.values())[1]),
    _largest_part("error_table", "rows of a table", lambda parts: parts.get(TABLE)),
)

#: Arrays of every run.
ARRAYS: tuple[Q, ...] = (
    Q("time", "a.u.", "output times", lambda r: r.time, ("time",)),
    Q("norm", "", "norm of the state in the box", frame("norm"), ("time",)),
    Q(
        "dipole",
        "bohr",
        "dipole along the field; in a plane, <x> of the run",
        component("dipole", 0),
        ("time",),
        note="not divided by the norm",
    ),
    Q("velocity", "a.u.", "<p + A>", component("velocity", 0), ("time",)),
    Q(
        "acceleration",
        "a.u.",
        "-<dV/dx> - E; of an atom, E times the norm",
        component("acceleration", 0),
        ("time",),
        note="dipole acceleration (Ehrenfest)",
    ),
    Q(
        "field",
        "a.u.",
        "electric field E(t); in a plane, along x of the run",
        lambda r: np.asarray(r.problem.pulse.electric(r.time)),
        ("time",),
    ),
    Q(
        "vector_potential",
        "a.u.",
        "A(t) = -integral of E",
        lambda r: np.asarray(r.problem.pulse.vector_potential(r.time)),
        ("time",),
    ),
    Q(
        "populations",
        "",
        "level populations",
        frame("populations"),
        ("time", "level"),
        note="of the length-gauge state",
    ),
    Q("radius", "bohr", "radii of norm_within", listed("norm_within"), ("radius",)),
    Q(
        "norm_within",
        "",
        "norm within the radius",
        frame("norm_within"),
        ("time", "radius"),
        note="a grid point on the edge of a line counts half",
    ),
    # the fine trace, for spectra of time
    *(
        Q(f"trace/{name}", unit, text, lambda r, name=name: r.traced(name), ("sample",))  # type: ignore[misc]
        for name, unit, text in (
            ("time", "a.u.", "times of the fine trace"),
            ("norm", "", "norm"),
            ("dipole", "bohr", "dipole along the field"),
            ("velocity", "a.u.", "integral of the acceleration"),
            ("acceleration", "a.u.", "-<dV/dx> - E"),
            ("field", "a.u.", "electric field E(t)"),
        )
    ),
)


def _causes(r: MotionResult) -> list[str]:
    """Return the causes of errors that any number of a run has, in their order."""
    return list(dict.fromkeys(cause for parts in r.parts.values() for cause in parts))


#: What each cause leaves in the numbers of every run.
JUDGED: tuple[Q, ...] = (
    Q(
        "claimed",
        "",
        "names of the numbers whose errors were found by repeating the run",
        lambda r: np.array(list(r.parts), dtype=object),
        ("claimed",),
        when=lambda r: bool(r.parts),
    ),
    Q(
        "cause",
        "",
        "causes of the errors",
        lambda r: np.array(_causes(r), dtype=object),
        ("cause",),
        when=lambda r: bool(r.parts),
    ),
    Q(
        "claimed_parts",
        "",
        "what each cause leaves in them: the time step, the spacing, and others that the run has",
        lambda r: np.array([[parts.get(cause, 0.0) for cause in _causes(r)] for parts in r.parts.values()]),
        ("claimed", "cause"),
        note="in the unit of each number; the claimed error is their sum, of an atom 1.5 times that, and more of an angle",
        when=lambda r: bool(r.parts),
    ),
)


def named_spectra(*rows: tuple[str, str, str, tuple[str, ...]]) -> tuple[Q, ...]:
    """Return the quantities of spectra, from rows of name, unit, text and axes."""
    return tuple(Q(name, unit, text, spectrum(name), axes) for name, unit, text, axes in rows)


#: Spectra of the harmonics.
HARMONICS = named_spectra(
    ("hhg_order", "", "harmonic order", ("hhg_order",)),
    ("hhg_spectrum", "a.u.", "|int s(t) w(t) exp(-i h omega t) dt|^2", ("hhg_order",)),
    ("gabor_time", "a.u.", "times of the time-frequency map", ("gabor_time",)),
    ("gabor_order", "", "harmonic orders of the map", ("gabor_order",)),
    ("hhg_gabor", "a.u.", "power of the acceleration", ("gabor_time", "gabor_order")),
)

METHODS = (
    ("tsurff", "t-SURFF"),
    ("window", "the window operator"),
    ("scattering", "projection on scattering states"),
)


def electrons(axis: str) -> tuple[Q, ...]:
    """Return the quantities of photoelectron spectra: the first of the deck has the plain names, others that of their method.

    Parameters
    ----------
    axis
        Name of the energies of the first: that of a line has `energy` against time.
    """
    methods = (
        one
        for name, text in METHODS
        for one in named_spectra(
            (
                f"{name}_energy",
                "hartree",
                f"energies of {text}, where another method comes first",
                (f"{name}_energy",),
            ),
            (f"{name}_pes", "1/hartree", f"photoelectron spectrum by {text}", (f"{name}_energy",)),
            (f"{name}_error", "1/hartree", f"claimed error of {name}_pes", (f"{name}_energy",)),
        )
    )
    return (
        Q(axis, "hartree", "energies of the photoelectron spectrum", spectrum("energy"), (axis,)),
        *named_spectra(
            ("pes", "1/hartree", "photoelectron spectrum dP/dE of the first method of the deck", (axis,))
        ),
        Q(
            "pes_error",
            "1/hartree",
            "claimed error of pes",
            spectrum("pes_error"),
            (axis,),
            note="not a number below 0, where levels are; without time.verify t-SURFF's alone",
        ),
        *methods,
    )

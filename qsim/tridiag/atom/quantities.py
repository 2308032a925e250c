"""Quantities of `task: atom` that are found at its end: harmonics, photoelectrons, attoclock."""

from __future__ import annotations

from typing import Any

from qsim.core.results.quantities import Quantity
from qsim.tridiag.atom.photoelectrons.tunnelling import adk_yield
from qsim.tridiag.tdse.scan.result import scan_quantities, shared, stacked

__all__ = ["NUMBERS", "SCANS", "SPECTRA"]

# of an AtomResult, which declares them
Q = Quantity[Any]


def _number(name: str) -> Any:
    return lambda r: r.numbers.get(name)


def _spectrum(name: str) -> Any:
    return lambda r: r.spectra.get(name)


def _found(name: str) -> Any:
    return lambda r: name in r.numbers


NUMBERS: tuple[Q, ...] = (
    Q(
        "adk_yield",
        "",
        "ionisation by the tunnelling rate of Ammosov, Delone and Krainov, to compare with",
        lambda r: adk_yield(r.problem),
        when=lambda r: adk_yield(r.problem) is not None,
        exact=True,
    ),
    Q(
        "tsurff_radius",
        "bohr",
        "radius of the sphere of t-SURFF",
        lambda r: r.problem.spheres[0].radius,
        when=lambda r: bool(r.problem.spheres),
        exact=True,
    ),
    Q(
        "peak_energy_*",
        "hartree",
        "energy of peak * of the photoelectron spectrum, highest first",
        lambda r: r.peaks,
        when=lambda r: bool(r.peaks),
        error=lambda r: r.errors,
    ),
    Q("pes_method", "", "how pes was found", lambda r: r.methods[0], when=lambda r: bool(r.methods)),
    Q(
        "pes_total",
        "",
        "integral of pes over its positive energies",
        _number("pes_total"),
        when=lambda r: bool(r.methods),
        error=lambda r: r.errors,
    ),
    Q(
        "resonance_energy",
        "hartree",
        "energy of the resonance in the static field, by complex scaling",
        _number("resonance_energy"),
        when=_found("resonance_energy"),
        error=lambda r: r.errors,
        headline=True,
    ),
    Q(
        "resonance_state",
        "",
        "which resonance: parabolic quantum numbers, the level it comes from, or the energy it is nearest to",
        lambda r: r.resonance,
        when=_found("resonance_energy"),
    ),
    Q(
        "resonance_rate",
        "a.u.",
        "decay rate of the resonance in the static field, by complex scaling",
        _number("resonance_rate"),
        when=_found("resonance_rate"),
        error=lambda r: r.errors,
        headline=True,
    ),
    Q(
        "attoclock_angle",
        "deg",
        "angle from -A at the peak of |E| to the maximum of the azimuths, in the sense of the field",
        _number("attoclock_angle"),
        when=_found("attoclock_angle"),
        headline=True,
        error=lambda r: r.errors,
    ),
    Q(
        "attoclock_reference",
        "deg",
        "azimuth of -A at the peak of |E|",
        _number("attoclock_reference"),
        when=_found("attoclock_angle"),
        exact=True,
    ),
    Q(
        "attoclock_contrast",
        "",
        "(max - min) / (max + min) of attoclock_distribution",
        _number("attoclock_contrast"),
        when=_found("attoclock_angle"),
        error=lambda r: r.errors,
    ),
    Q(
        "attoclock_momentum",
        "a.u.",
        "momentum of the largest k d3P/dk3 at that azimuth",
        _number("attoclock_momentum"),
        when=_found("attoclock_angle"),
        error=lambda r: r.errors,
    ),
)

SPECTRA: tuple[Q, ...] = (
    # the first spectrum of the deck has the plain names; others carry that of their method
    Q("energy", "hartree", "energies of the photoelectron spectrum", _spectrum("energy"), ("energy",)),
    Q(
        "pes",
        "1/hartree",
        "photoelectron spectrum dP/dE of the first method of the deck",
        _spectrum("pes"),
        ("energy",),
    ),
    Q("pes_l", "1/hartree", "its parts by l", _spectrum("pes_l"), ("energy", "l_final")),
    Q(
        "pes_error",
        "1/hartree",
        "claimed error of pes",
        _spectrum("pes_error"),
        ("energy",),
        note="not a number below 0, where levels are; without time.verify t-SURFF's alone",
    ),
    *(
        Q(name, unit, text, _spectrum(name), ("tsurff_energy",))
        for name, unit, text in (
            ("tsurff_energy", "hartree", "energies of t-SURFF, where another method comes first"),
            ("tsurff_pes", "1/hartree", "photoelectron spectrum by t-SURFF"),
            ("tsurff_error", "1/hartree", "its claimed error"),
        )
    ),
    # directions, of the first spectrum alone
    Q("theta", "rad", "polar angles; in a plane, from its normal", _spectrum("theta"), ("theta",)),
    Q(
        "pad",
        "1/hartree",
        "d2P/(dE dOmega); in a plane, the mean over azimuths",
        _spectrum("pad"),
        ("energy", "theta"),
        note="times 2 pi sin(theta) dtheta gives dP/dE",
    ),
    Q(
        "scattering_phase",
        "rad",
        "phase eta_l of the scattering states",
        _spectrum("scattering_phase"),
        ("energy", "l_final"),
    ),
    Q(
        "momentum_x",
        "a.u.",
        "momentum across the field; in a plane, along x of the run",
        _spectrum("momentum_x"),
        ("momentum_x",),
    ),
    Q(
        "momentum_z",
        "a.u.",
        "momentum along the field; in a plane, across it, along z of the run",
        _spectrum("momentum_z"),
        ("momentum_z",),
    ),
    Q(
        "momentum_map",
        "a.u.",
        "d3P/dk^3 = (dP/dE dOmega) / k at p_y = 0",
        _spectrum("momentum_map"),
        ("momentum_z", "momentum_x"),
    ),
    Q(
        "window_energy",
        "hartree",
        "energies of the window operator, where another method comes first",
        _spectrum("window_energy"),
        ("window_energy",),
    ),
    Q(
        "window_pes",
        "1/hartree",
        "photoelectron spectrum by the window operator",
        _spectrum("window_pes"),
        ("window_energy",),
    ),
    Q("window_error", "1/hartree", "its claimed error", _spectrum("window_error"), ("window_energy",)),
    Q(
        "scattering_energy",
        "hartree",
        "energies of the projection, where another method comes first",
        _spectrum("scattering_energy"),
        ("scattering_energy",),
    ),
    Q(
        "scattering_pes",
        "1/hartree",
        "photoelectron spectrum by projection on scattering states",
        _spectrum("scattering_pes"),
        ("scattering_energy",),
    ),
    Q(
        "scattering_error",
        "1/hartree",
        "its claimed error",
        _spectrum("scattering_error"),
        ("scattering_energy",),
    ),
    Q(
        "azimuth",
        "rad",
        "azimuths in the plane of the field, from x of the run",
        _spectrum("azimuth"),
        ("azimuth",),
    ),
    Q(
        "pad_azimuth",
        "1/hartree",
        "d2P/(dE dOmega) in the plane of the field",
        _spectrum("pad_azimuth"),
        ("energy", "azimuth"),
    ),
    Q(
        "pad_sphere",
        "1/hartree",
        "d2P/(dE dOmega) in all directions",
        _spectrum("pad_sphere"),
        ("energy", "theta", "azimuth"),
        note="of the run: theta from the normal of the plane of the field, azimuth from x",
    ),
    Q(
        "attoclock_distribution",
        "a.u.",
        "integral of k d3P/dk3 over k in the plane of the field",
        _spectrum("attoclock_distribution"),
        ("azimuth",),
    ),
    Q("momentum_y", "a.u.", "momentum along y of the run", _spectrum("momentum_y"), ("momentum_y",)),
    Q(
        "attoclock_map",
        "a.u.",
        "d3P/dk3 in the plane of the field",
        _spectrum("attoclock_map"),
        ("momentum_y", "momentum_x"),
    ),
)


def _side(index: int) -> Any:
    """Return the spectra of a scan along the field, or against it."""

    def value(r: Any) -> Any:
        pad = r.stacked("pad", "energy")
        return None if pad is None or r.runs[0].problem.frame.planar else pad[:, :, index]

    return value


#: Of scans.
SCANS = scan_quantities(
    (
        Q("gauge", "", "gauge of the runs", lambda r: r.runs[0].problem.setting.gauge),
        Q("points", "", "radial points", lambda r: r.runs[0].problem.lattice.grid.points),
        Q(
            "lmax",
            "",
            "largest angular momentum at the end of any run",
            lambda r: max(one.lanes.lmax for one in r.runs),
        ),
    ),
    (
        Q(
            "scan_pes_along",
            "1/hartree",
            "d2P/(dE dOmega) along the field, theta = 0",
            _side(0),
            ("run", "energy"),
        ),
        Q(
            "scan_pes_against",
            "1/hartree",
            "d2P/(dE dOmega) against the field, theta = pi",
            _side(-1),
            ("run", "energy"),
        ),
        Q("azimuth", "rad", "azimuths in the plane of the field", shared("azimuth"), ("azimuth",)),
        Q(
            "scan_azimuths",
            "a.u.",
            "attoclock_distribution of each run",
            stacked("attoclock_distribution", "azimuth"),
            ("run", "azimuth"),
        ),
    ),
    "atom",
)

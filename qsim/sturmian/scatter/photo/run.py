"""Photoionisation of a deck over many energies: its own grid, then those that tell the errors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from qsim.core.errors import NumericsError
from qsim.core.run.loop import Progress, drive
from qsim.sturmian.judging import Judged, unguarded
from qsim.sturmian.scatter.photo import fano
from qsim.sturmian.scatter.photo.errors import (
    FEW,
    MOVED,
    Judge,
    judged,
    poles_of,
    resolved,
    resonance_errors,
    told,
)
from qsim.sturmian.scatter.photo.result import PhotoResult
from qsim.sturmian.scatter.photo.spectrum import Case, Spectrum, spectrum
from qsim.sturmian.scatter.photo.warnings import warnings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from qsim.core.run.loop import Report, State
    from qsim.core.run.progress import Monitor
    from qsim.sturmian.driven.setup import Setup
    from qsim.sturmian.scatter.photo.problem import Photoionisation

__all__ = ["Photons", "run"]

Stage = Callable[[str], AbstractContextManager[None]]
HARTREE_EV = 27.211386245981
# Hartree: how far the coarser grid moves a resonance.
NEARBY = 1e-3


class Photons:
    """The spectra of a deck, one after the other.

    Parameters
    ----------
    problem : Photoionisation
    restored : mapping, optional
        State to continue from.
    stage : callable, optional
        Measures the time of a stage, as `Monitor.stage`.
    judged : callable, optional
        Lets what only judges the cross sections fail, as `Monitor.judged`.
    """

    def __init__(
        self,
        problem: Photoionisation,
        restored: Mapping[str, Any] | None = None,
        stage: Stage | None = None,
        judged: Judged = unguarded,
    ) -> None:
        self.problem, self.stage, self.judged = problem, stage or (lambda _: nullcontext()), judged
        self.other = problem.other_pairs()
        self.total = 1
        if problem.errors:
            self.total = 2 if self.other is None else 3
        self.spectra: list[Spectrum] = []
        self.threshold = (np.nan, np.nan)
        self.lost = False
        self.setup = problem.setup()
        self._coarse: Setup | None = None
        if restored:
            self.spectra = [Spectrum(**content) for content in restored["spectra"]]
            self.threshold = (float(restored["threshold"]), float(restored["threshold_error"]))
            self.lost = bool(restored["lost"])

    def state(self) -> State:
        """Return the spectra so far."""
        return {
            "spectra": [{one.name: getattr(of, one.name) for one in fields(of)} for of in self.spectra],
            "threshold": self.threshold[0],
            "threshold_error": self.threshold[1],
            "lost": self.lost,
        }

    def advance(self, report: Report) -> None:
        """Find the remaining spectra; a stop within one repeats it."""

        def poll() -> None:
            report(Progress())

        while len(self.spectra) < self.total and not self.lost:
            number = len(self.spectra)
            if number == 0:
                with self.stage("solve"):
                    self.spectra.append(self._own(poll))
            else:
                with self.stage("errors"):
                    other = self.judged(
                        "the error of the cross sections", partial(self._other, number, poll), None
                    )
                self.lost = other is None
                if other is not None:
                    self.spectra.append(other)
            report(Progress(len(self.spectra)))

    def _own(self, poll: Callable[[], None]) -> Spectrum:
        """Return the spectrum of the deck's grid."""
        problem, setup = self.problem, self.setup
        bound = problem.initial(setup, poll, problem.initial_l_max)
        self.threshold = problem.energy_of_all_waves(setup, bound, poll)
        ion = float(setup.continuum.levels(0, 1)[0][0])
        first, photons = ion - self.threshold[0], problem.photons(self.threshold[0])
        if photons[0] <= first:
            raise NumericsError(
                f"{photons[0] * HARTREE_EV:.6g} eV is below the ionisation energy {first * HARTREE_EV:.6g} eV of this state",
                hint="a larger task.photon; bound levels belong to task: response",
            )
        case = Case(setup, bound, problem.pairs(), False)
        return spectrum(problem, case, photons, self.threshold[0], poll, problem.refines)

    def _other(self, number: int, poll: Callable[[], None]) -> Spectrum:
        """Return the spectrum of the coarser grid, with the pairs of the deck or with others, at the same photon energies."""
        problem = self.problem
        if self._coarse is None:
            self._coarse = problem.setup(coarser=True)
        setup, pairs, l_max = self._coarse, problem.pairs(), problem.initial_l_max
        if number == 2:
            assert self.other is not None
            pairs = self.other
            # One partial wave less in the initial state, too; one more where the last one cannot be left out.
            fewer = (
                max(b for some in pairs for _, b in some) < problem.l_max
                and l_max > problem.settings.initial.L
            )
            l_max = l_max - 1 if fewer else l_max + 1
        bound = problem.initial(setup, poll, l_max, coarser=True)
        threshold = self.threshold[0] if problem.extrapolates else bound.energy
        case = Case(setup, bound, pairs, True)
        own = self.spectra[0]
        photons = own.E - threshold if problem.by_excess else own.omega
        return spectrum(problem, case, photons, threshold, poll, False, *self._beside(number))

    def _beside(self, number: int) -> tuple[list[tuple[fano.Pole, fano.Pole]], float]:
        """Return the resonances of the deck's grid, as the spectra so far have them, and how far off the next one may have them.

        A short list of photon energies is no spectrum: what a resonance moves is a part of the error of each.
        """
        poles = poles_of(self.spectra[0])
        if self.spectra[0].E.size <= FEW:
            return [], 0.0
        if number == 1:
            return [(pole, pole) for pole in poles], NEARBY
        met = [(pole, fano.matched(pole, poles_of(self.spectra[1]), NEARBY)) for pole in poles]
        return [(pole, there) for pole, there in met if there is not None], MOVED

    def result(self) -> PhotoResult:
        """Return cross sections with their errors; complete after `advance`."""
        own, *others = self.spectra
        if not self.problem.errors or self.lost:
            others = []
        # Each other spectrum holds all energies twice where resonances are known.
        twice = [other.halves() if other.E.size > own.E.size else (other, other) for other in others]
        (coarse, coarse_near), (fewer, fewer_near) = [*twice, (None, None), (None, None)][:2]
        moving = any(other.E.size > own.E.size for other in others)
        judge = Judge(
            own,
            coarse,
            fewer,
            self.problem.beyond,
            self.threshold[1],
            self.setup,
            self.problem.settings.initial.L,
            self.lost,
            self.problem.by_excess,
            (coarse_near, fewer_near) if moving and coarse_near is not None else None,
        )
        # A pole that another contour does not have belongs to the continuum, or to states that the box cuts off.
        known = replace(judge, own=own.with_resonances(told(judge)))
        errors = resonance_errors(known)
        # Where other partial waves do not tell the error, the grid tells at least whether a pole is one.
        grid = resonance_errors(replace(known, fewer=None))
        kept = resolved(known, np.where(np.isnan(errors), grid, errors))
        judge = replace(judge, own=known.own.with_resonances(kept))
        left = np.setdiff1d(own.poles.real, judge.own.poles.real)
        return PhotoResult(
            self.problem, self.setup, judge.own, judged(judge), errors[kept], self.threshold, left.tolist()
        )


def run(problem: Photoionisation, monitor: Monitor) -> PhotoResult:
    """Find the cross sections at all photon energies of a deck, then what tells their errors.

    Raises
    ------
    NumericsError
        If a photon energy does not ionise, or an equation does not converge.
    """
    photons = Photons(problem, monitor.restored, monitor.stage, monitor.judged)
    drive(photons, monitor, total=photons.total, unit="spectra", what="photoionisation")
    result = photons.result()
    warnings: list[str] = monitor.judged(
        "warnings about the cross sections", partial(warnings_of, result), []
    )
    for text in warnings:
        monitor.warn(text)
    return result

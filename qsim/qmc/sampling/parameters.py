"""Parameters of a trial function that an optimisation changes: Jastrow factor, coefficients of determinants, their orbitals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from qsim.qmc.kernels.walkers.derivatives_cpu import ParameterTables
from qsim.qmc.sampling.linear_method import smoothing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.qmc.wavefunction.slater_jastrow import Wavefunction

__all__ = ["CLASSES", "Varied"]

CLASSES = ("jastrow", "coefficients", "orbitals")
MOST = 1.0  # change of a parameter in one step
SHRINK = 0.1  # fraction of b of a Padé form that one step leaves


class Varied:
    """The parameters of some classes of a trial function, one behind the other.

    Parameters
    ----------
    wavefunction
        At the start.
    classes
        Of `CLASSES`.
    virtual
        Number of virtual orbitals that are mixed in; None: all that there are.
    symmetry
        Whether orbitals of different symmetry stay apart.

    Attributes
    ----------
    count : int
        Number of parameters P.
    places : (P,) int64
        Where they are among all parameters of the trial function.
    smooth : (P, P) float64
        Quadratic form of rough changes: neighbouring spline coefficients that the sample hardly sees are tied to each other.
    """

    def __init__(
        self,
        wavefunction: Wavefunction,
        classes: Sequence[str] = CLASSES,
        virtual: int | None = None,
        *,
        symmetry: bool = False,
    ) -> None:
        self._start = wavefunction
        own, size = len(wavefunction.jastrow.names), wavefunction.parameters.size
        mixing, coefficients = wavefunction.mixing, wavefunction.expansion.parameters.size
        # In the order of all parameters of the trial function.
        parts = {"jastrow": np.arange(own), "coefficients": np.arange(own, own + coefficients)}
        self._mixed = np.zeros(0, np.int64)
        if mixing is not None and "orbitals" in classes:
            self._mixed = mixing.chosen(
                wavefunction.expansion,
                coefficients="coefficients" in classes,
                virtual=virtual,
                symmetry=symmetry,
            )
        parts["orbitals"] = own + coefficients + self._mixed
        assert not self._mixed.size or int(parts["orbitals"].max()) < size
        self.places = np.concatenate([parts[name] for name in CLASSES if name in classes])
        self._jastrow, self._coefficients = "jastrow" in classes, "coefficients" in classes
        self.count = int(self.places.size)
        jastrow = wavefunction.jastrow
        found = zip(jastrow.functions, jastrow.slices(), strict=True)
        self._functions = list(found) if self._jastrow else []
        splines = [place for function, place in self._functions if function.kind == "bspline"]
        self.smooth = smoothing(splines, self.count)

    def values(self, wavefunction: Wavefunction) -> NDArray[np.float64]:
        """Return the parameters of a trial function, (P,)."""
        return wavefunction.parameters[self.places]

    def applied(self, wavefunction: Wavefunction, values: NDArray[np.float64]) -> Wavefunction:
        """Return a trial function with other parameters (P,)."""
        every = wavefunction.parameters
        every[self.places] = values
        return wavefunction.with_parameters(every)

    def tables(self, device: Device) -> ParameterTables:
        """Return which parameter moves which number of the Jastrow tables, which coefficient and orbital, on the device."""
        jastrow = self._start.jastrow
        first: list[int] = []
        place: list[int] = []
        for function, where in zip(jastrow.functions, jastrow.slices(), strict=True):
            first.append(len(place))
            if function.kind == "bspline":
                # A coefficient of the spline may be a parameter, or follow from the cusp or from
                # the range; each row of the design has its one at most.
                design = function.design[0]
                place += [where.start + int(np.argmax(row)) if row.any() else -1 for row in design]
                place.append(-1)  # of the zero that ends each row of the tables
            else:
                place += range(where.start, where.stop)
        if not self._jastrow:
            place = [-1] * len(place)
        group, share = np.zeros(0, np.int64), np.zeros(0)
        if self._coefficients and self._start.expansion.parameters.size:
            group, share = self._start.expansion.slopes()
            before = self.count - self._mixed.size - self._start.expansion.parameters.size
            group = np.where(group < 0, -1, group + before)
        mixing, at = self._start.mixing, self.count - self._mixed.size
        slopes = [
            (slope, at + k)
            for k, number in enumerate(self._mixed.tolist())
            for slope in (() if mixing is None else mixing.slopes[number])
        ]
        mixed = np.array([(s.spin, s.added, s.to, k) for s, k in slopes], np.int64).reshape(-1, 4)
        factor = np.array([s.sign for s, _ in slopes])
        numbers = (np.array(first, np.int64), np.array(place, np.int64), group, share, mixed, factor)
        return ParameterTables(*map(device.asarray, numbers))

    def most(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest change of each parameter."""
        most = np.full(self.count, MOST)
        for function, place in self._functions:
            if function.kind == "pade":
                # b of a Pade form must stay positive: a step may take most of it, never all.
                most[place] = np.maximum(most[place], (1.0 - SHRINK) * values[place])
        return most

    def allowed(self, values: NDArray[np.float64], step: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the parameters after a step, such that Padé forms have no poles."""
        after = values + step
        for function, place in self._functions:
            if function.kind == "pade":
                after[place] = np.maximum(after[place], SHRINK * values[place])
        return after

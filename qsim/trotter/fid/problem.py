r"""Nuclei in a strong field: which groups are equivalent, and the spaces in which their lines are found.

Like nuclei with one shift and the same couplings to every other nucleus are magnetically equivalent: H depends on the sum F of
their spins alone, but for couplings within the group, which commute with F and with H.  A group of n spins 1/2 is one spin F =
n/2, n/2 - 1, ..., each as often as

    binomial(n, n/2 - F) - binomial(n, n/2 - F - 1),

and the lines are those of every choice of an F for each group, with the product of these numbers as weight.  Parts of a molecule
between which there is no coupling have lines of their own.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.trotter.fid.dipolar import dipolar_jumps
from qsim.trotter.model.larger import SpinModel, spin_matrices
from qsim.trotter.sectors.digits.liouville import space_of
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.deck.nmr.fid import Fid, Relaxation
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.model.models import Models

__all__ = ["Choice", "FidProblem", "multiplicity"]


class Choice(NamedTuple):
    """A total spin for every group of equivalent nuclei.

    Attributes
    ----------
    weight : float
        How often it occurs, over the number of states of its part of the molecule.
    model : SpinModel
        H of the spins of the groups, Hz.
    detected : tuple of bool
        Whether a group is observed.
    sites : tuple of int
        First site of every group.
    """

    weight: float
    model: SpinModel
    detected: tuple[bool, ...]
    sites: tuple[int, ...]

    @property
    def spaces(self) -> list[DigitSpace]:
        """The spaces of one total I^z each, the largest I^z first."""
        return [DigitSpace(self.model.twos, down) for down in range(self.model.quanta + 1)]

    @property
    def coherences(self) -> int:
        """Number of elements of a density matrix between states whose I^z differs by 1."""
        return space_of(self.model.twos, 1).dimension


def multiplicity(count: int, two: int) -> int:
    """Return how often `count` spins 1/2 have the total spin two / 2."""
    down = (count - two) // 2
    return math.comb(count, down) - (math.comb(count, down - 1) if down else 0)


@dataclass
class FidProblem:
    """The problem of a free induction decay.

    Attributes
    ----------
    models : Models
    block : Fid
    relaxation : Relaxation
    device : Device or None
        None in a plan.
    """

    models: Models
    block: Fid
    relaxation: Relaxation
    device: Device | None
    task: str = "fid"

    @cached_property
    def model(self) -> Model:
        """H of all nuclei, Hz, without the couplings to decoupled ones."""
        model = self.models.hamiltonian().at(0.0)
        if not (off := self.decoupled):
            return model
        kept = np.ones((model.spins, model.spins))
        kept[off], kept[:, off] = 0.0, 0.0
        changes: dict[str, Any] = {"J": model.J * kept}
        if model.cross is not None:
            changes["cross"] = model.cross * kept
        if isinstance(model, SpinModel):
            changes["bonds"] = {pair: m for pair, m in model.bonds.items() if kept[pair]}
        return replace(model, **changes)

    @cached_property
    def jumps(self) -> list[NDArray[np.complex128]]:
        """Jump operators of dipolar relaxation, of all nuclei; none without it."""
        block, system = self.relaxation.dipolar, self.models.system
        if block is None:
            return []
        # the rules ask for it
        assert system.spectrometer is not None
        return dipolar_jumps(system.twos, system.isotopes, block, system.spectrometer)

    @property
    def decoupled(self) -> list[int]:
        """The sites that are decoupled."""
        names = self.block.decouple or []
        return [j for j, name in enumerate(self.models.system.isotopes) if j in names or name in names]

    @property
    def isotope(self) -> str:
        """The isotope that is observed."""
        return self.block.detect or self.models.system.isotopes[0]

    @property
    def detected(self) -> list[bool]:
        """Whether a site is observed."""
        off = self.decoupled
        return [name == self.isotope and j not in off for j, name in enumerate(self.models.system.isotopes)]

    @property
    def larmor(self) -> float:
        """Frequency of the reference of the observed isotope, MHz; 0 without a spectrometer."""
        system = self.models.system
        return system.larmor[system.isotopes.index(self.isotope)]

    @property
    def norm(self) -> float:
        """``Tr (sum_j I^+_j)(sum_j I^-_j)`` of the observed nuclei over the number of states: ``sum_j 2 I_j (I_j + 1) / 3``."""
        twos = self.models.system.twos
        return sum(
            two * (0.5 * two + 1.0) / 3.0 for two, seen in zip(twos, self.detected, strict=True) if seen
        )

    @cached_property
    def groups(self) -> list[list[int]]:
        """The groups of equivalent nuclei, in the order of their first site; a nucleus that has no like is one of its own."""
        groups: list[list[int]] = []
        for j in range(self.model.spins):
            for group in groups:
                if all(self._equivalent(j, k) for k in group):
                    group.append(j)
                    break
            else:
                groups.append([j])
        return groups

    def _equivalent(self, j: int, k: int) -> bool:
        """Return True if two nuclei are magnetically equivalent."""
        model, system = self.model, self.models.system
        # fields of their own, or a decoupled one, tell nuclei apart
        if self.relaxation.own or self.detected[j] != self.detected[k]:
            return False
        if system.twos[j] != 1 or system.isotopes[j] != system.isotopes[k] or model.cross is not None:
            return False
        if any(j in term or k in term for term in getattr(model, "bonds", {})):
            return False
        others = [i for i in range(model.spins) if i not in (j, k)]
        pair = model.J[:, j, k]
        return bool(
            np.array_equal(model.h[:, j], model.h[:, k])
            and np.array_equal(model.J[:, j, others], model.J[:, k, others])
            # within a group equal components commute with its total spin
            and pair[0] == pair[1] == pair[2]
        )

    @cached_property
    def parts(self) -> list[list[int]]:
        """The parts of the molecule between which there is no coupling, as numbers of groups."""
        from scipy.sparse.csgraph import connected_components

        model, first = self.model, [group[0] for group in self.groups]
        if self.relaxation.dipolar is not None:
            # all nuclei relax each other
            return [list(range(len(first)))]
        coupled = np.asarray(model.J.any(axis=0))
        if model.cross is not None:
            coupled |= model.cross.any(axis=(0, 1))
        for j, k in getattr(model, "bonds", {}):
            coupled[j, k] = coupled[k, j] = True
        count, labels = connected_components(coupled[np.ix_(first, first)], directed=False)
        return [np.flatnonzero(labels == part).tolist() for part in range(count)]

    @cached_property
    def choices(self) -> list[Choice]:
        """All choices of total spins in all parts, those with the most states first."""
        return sorted(
            (one for part in self.parts for one in self._choices(part)), key=lambda one: -one.model.dimension
        )

    def _choices(self, part: list[int]) -> Iterator[Choice]:
        """Yield the choices of total spins of the groups of a part."""
        twos, groups = self.models.system.twos, [self.groups[number] for number in part]
        possible = [
            [(two, multiplicity(len(group), two)) for two in range(len(group), -1, -2)]
            if len(group) > 1
            else [(twos[group[0]], 1)]
            for group in groups
        ]
        states = math.prod(twos[site] + 1 for group in groups for site in group)
        for choice in itertools.product(*possible):
            # groups without a spin have no lines, and act on nothing
            kept = [number for number, (two, _) in enumerate(choice) if two]
            first = [groups[number][0] for number in kept]
            if any(self.detected[site] for site in first):
                yield Choice(
                    math.prod(times for _, times in choice) / states,
                    _grouped(self.model, first, [choice[number][0] for number in kept]),
                    tuple(self.detected[site] for site in first),
                    tuple(first),
                )

    @property
    def largest(self) -> int:
        """States of the largest space that is diagonalised, or coherences where nuclei relax by fields of their own."""
        if self.relaxation.own:
            return max((one.coherences for one in self.choices), default=0)
        return max((space.dimension for one in self.choices for space in one.spaces), default=0)


def _grouped(model: Model, sites: list[int], twos: list[int]) -> SpinModel:
    """Return H of the first sites of groups as that of spins of other sizes."""
    number = {site: place for place, site in enumerate(sites)}
    return SpinModel(
        len(sites),
        np.ascontiguousarray(model.J[:, sites][:, :, sites]),
        np.ascontiguousarray(model.h[:, sites]),
        None if model.cross is None else np.ascontiguousarray(model.cross[:, :, sites][:, :, :, sites]),
        twos=tuple(twos),
        sites={number[j]: matrix for j, matrix in getattr(model, "sites", {}).items() if j in number},
        bonds={
            (number[j], number[k]): matrix
            for (j, k), matrix in getattr(model, "bonds", {}).items()
            if j in number and k in number
        },
    )


def raising(two: int) -> NDArray[np.float64]:
    """Return ``<d - 1| S^+ |d>`` of digits d = 1, ..., 2 S, (2 S,)."""
    return np.diag(spin_matrices(two)[0].real, 1) * 2.0

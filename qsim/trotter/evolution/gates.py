"""Product formulas for spins of any size, in all states, one parity or one total Sz: gates of one and of two sites, in place.

H is a sum of matrices of pairs, each with an equal share of the matrices of its sites; a site without couplings has a gate of its
own.  Groups, methods and their order are those of :mod:`qsim.trotter.evolution.bonds`.  A gate ``exp(-i tau M)`` is exact, block
by block of the states that M mixes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from qsim.core.device.device import cpu
from qsim.trotter.evolution.bonds import KEPT, Groups
from qsim.trotter.evolution.error_pilot import MARGIN, POWER, Pilot
from qsim.trotter.kernels.sectors.gates import Blocks, gate_rows
from qsim.trotter.kernels.sectors.terms import Numbering
from qsim.trotter.model.larger import SpinModel, quanta_of
from qsim.trotter.sectors.digits.space import DigitSpace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.trotter.model.hamiltonian import Model
    from qsim.trotter.sectors.symmetric import PlainSpace

__all__ = ["GateFormula", "gate_pilot", "gates_of"]

# of a pilot, as many as of twelve spins 1/2
MOST_STATES = 1 << 12


class Gate(NamedTuple):
    """A matrix of two sites j < k, or of one that is named twice.

    Attributes
    ----------
    j, k : int
    matrix : (d, d) complex128
        Between the states of the sites, the digit of k fastest.
    """

    j: int
    k: int
    matrix: NDArray[np.complex128]


def gates_of(model: Model) -> Iterator[Gate]:
    """Yield the gates of H: pairs in the order of their sites, then sites without couplings."""
    terms = SpinModel.of(model).terms
    twos = SpinModel.of(model).twos
    alone = {term.sites[0]: term.matrix for term in terms if len(term.sites) == 1}
    pairs = [term for term in terms if len(term.sites) == 2]
    degree = np.bincount([j for term in pairs for j in term.sites], minlength=len(twos))
    for term in pairs:
        j, k = term.sites
        matrix = term.matrix
        if j in alone:
            matrix = matrix + np.kron(alone[j], np.eye(twos[k] + 1)) / degree[j]
        if k in alone:
            matrix = matrix + np.kron(np.eye(twos[j] + 1), alone[k]) / degree[k]
        yield Gate(j, k, matrix)
    for j, matrix in alone.items():
        if not degree[j]:
            yield Gate(j, j, matrix)


def gate_pilot(model: Model) -> Pilot:
    """Return the pilot of a formula of gates, a few sites as in :mod:`qsim.trotter.evolution.error_pilot`, with a random state.

    The rms field of a spin 1/2 is twice the root of the mean square of the energies of its terms, and stands for that of others.
    """
    whole = SpinModel.of(model)
    sizes = [
        np.linalg.norm(M - np.eye(len(M)) * np.trace(M) / len(M)) ** 2 / len(M)
        for M in (t.matrix for t in whole.terms)
    ]
    square, coupled = np.zeros(whole.spins), np.zeros((whole.spins,) * 2)
    for term, size in zip(whole.terms, sizes, strict=True):
        square[list(term.sites)] += 4.0 * size
        if len(term.sites) == 2:
            coupled[term.sites] = coupled[term.sites[::-1]] = 4.0 * size
    weight = square ** (0.5 * (POWER + 1))
    # the site of the largest error, then those that couple most strongly to what is chosen
    sites = [int(np.argmax(weight))]
    while len(sites) < whole.spins:
        score = (coupled[:, sites].max(axis=1) + 1e-9 * square.max()) * (
            1e-3 * weight.max() + weight + 1e-300
        )
        score[sites] = -1.0
        sites.append(int(np.argmax(score)))
        if math.prod(whole.twos[j] + 1 for j in sites) > MOST_STATES:
            sites.pop()
            break
    sites.sort()
    small, growth = whole.restricted(sites), 1.0
    if len(sites) < whole.spins:
        inside = coupled[np.ix_(sites, sites)].sum(axis=1)
        k = int(np.argmax(inside))
        # couplings to the sites that are left out are made good by a common factor
        if inside[k] > 0.0:
            factor = math.sqrt(coupled[sites[k]].sum() / inside[k])
            alone = replace(small, J=0.0 * small.J, cross=None, bonds={})
            small = factor * (small + -1.0 * alone) + alone
        own = float((weight[sites] ** 2).sum())
        growth = MARGIN * math.sqrt(float((weight**2).sum()) / own) if own > 0.0 else MARGIN
    space, device = DigitSpace(small.twos), cpu(1)
    phases = np.random.default_rng(1).random(space.dimension)
    random = np.exp(2j * np.pi * phases) / math.sqrt(space.dimension)
    return Pilot(
        small,
        [random],
        growth,
        lambda _, psi: GateFormula(device, space, small, psi),  # type: ignore[arg-type,return-value]
        strength=math.sqrt(float(square.max(initial=0.0))),
        sites=sites,
    )


class _Turn:
    """Blocks of a gate in a space, and their exponentials."""

    def __init__(self, gate: Gate, space: Any) -> None:
        from scipy.sparse.csgraph import connected_components

        sites, bits = sorted({gate.j, gate.k}), space.bits
        twos = [space.twos[j] for j in sites]
        digits = np.array(list(np.ndindex(*(two + 1 for two in twos))), np.int64)
        quanta = quanta_of(twos)
        # what rounding alone mixes would lead out of the space
        if space.down < 0:
            quanta = quanta % 2 if space.odd >= 0 else np.zeros_like(quanta)
        kept = (gate.matrix != 0.0) & (quanta[:, None] == quanta)
        count, block = connected_components(kept, directed=False)
        # of one site twice
        places, strings = digits[:, 0] << bits | digits[:, -1], (digits << np.array(sites) * bits).sum(axis=1)
        leader, change, sizes = np.full(1 << 2 * bits, -1, np.int64), [], []
        self.levels = []
        for number in range(count):
            members = np.flatnonzero(block == number)
            leader[places[members[0]]] = number
            change.append(strings[members] - strings[members[0]])
            sizes.append(members.size)
            own = np.where(kept, gate.matrix, 0.0)[np.ix_(members, members)]
            self.levels.append(np.linalg.eigh(own))
        size = np.array(sizes, np.int64)
        self.blocks = Blocks(
            gate.j * bits,
            gate.k * bits,
            bits,
            leader,
            np.concatenate([[0], np.cumsum(size)]),
            np.concatenate(change),
            np.cumsum(size**2) - size**2,
        )

    def exponential(self, tau: float) -> NDArray[np.complex128]:
        """Return the blocks of ``exp(-i tau M)``, one after the other."""
        made = [((v * np.exp(-1j * tau * e)) @ v.conj().T).ravel() for e, v in self.levels]
        return np.concatenate(made)


class GateFormula:
    """A vector of a space of strings, and steps of product formulas that change it in place.

    Parameters
    ----------
    device : Device
    space : DigitSpace, Sector, ParitySector or WholeSpace
        Without inversion.
    model : Model
        Along the axes of the strings.
    psi : (D,) complex
        Taken over.
    """

    def __init__(self, device: Device, space: PlainSpace, model: Model, psi: NDArray[Any]) -> None:
        self.device, self.psi = device, psi
        self.groups = Groups(gates_of(model))
        split, above, below = space.numbering
        self.numbering = Numbering(split, device.asarray(above), device.asarray(below))
        self.strings = device.asarray(space.strings())
        place = device.asarray
        self._turns = [[_Turn(gate, space.digits) for gate in group] for group in self.groups.groups]
        self._blocks = [
            [Blocks(*turn.blocks[:3], *map(place, turn.blocks[3:])) for turn in group]
            for group in self._turns
        ]
        self._made: dict[tuple[int, float], list[Any]] = {}

    def advance(self, method: str, dt: float, steps: int) -> None:
        """Make steps of a method of :data:`integrators.METHODS`; dt may be negative."""
        for group, tau in self.groups.layers(method, dt, steps) if self.groups.groups else ():
            # output times on a logarithmic grid have a step each: tables of old ones are dropped
            if len(self._made) > KEPT:
                self._made.clear()
            if (group, tau) not in self._made:
                made = [self.device.asarray(turn.exponential(tau)) for turn in self._turns[group]]
                self._made[group, tau] = made
            for blocks, gate in zip(self._blocks[group], self._made[group, tau], strict=True):
                gate_rows(self.device, self.strings, self.numbering, blocks, gate, self.psi)

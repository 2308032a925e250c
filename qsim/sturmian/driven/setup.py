"""Driven equations on one grid: contour, one-electron functions, repulsion kernels, continuum, initial state."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from qsim.core.device.parallel import in_shares
from qsim.core.device.pool import each_call
from qsim.core.errors import NumericsError
from qsim.sturmian.deck.blocks import SquareWell
from qsim.sturmian.deck.symmetry import exchange_sign
from qsim.sturmian.driven.continuum import HELD, ROUGHLY, Continuum, real_part
from qsim.sturmian.driven.operator import Driven
from qsim.sturmian.driven.outgoing import Outgoing, outgoing
from qsim.sturmian.driven.sources import Screened, screened
from qsim.sturmian.radial import automatic, potentials
from qsim.sturmian.radial import sturmians as gsf
from qsim.sturmian.radial.box import outer_density
from qsim.sturmian.radial.grid import RadialGrid

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from qsim.core.device.device import Device
    from qsim.core.device.parallel import Comm
    from qsim.sturmian.driven.numbers import Numbers

# Largest density of the initial state at the end of its box, 1/bohr; of the coarser grid, whose smaller box tells the error.
CONTAINED, NEARLY = 1e-8, 1e-5
# Bohr: ``R^2 rho(R)`` from which a larger box changes no matrix element of a dipole; the coarser grid ends the state earlier.
NOTHING, LITTLE = 1e-16, 1e-14


@dataclass
class Bound:
    """An initial state on the grid of the collision.

    Attributes
    ----------
    energy : float
        Hartree, on this grid and up to its l_max.
    components : dict of (n, n) float64
        Of every ordered pair, on the product grid.
    residual : float
    L, S : int
    density : float
        At the end of its box, 1/bohr.
    wall, kappa : float
        End of its box, bohr, and the rate at which its outer electron decays there, 1/bohr.
    """

    energy: float
    components: dict[tuple[int, int], NDArray[np.float64]]
    residual: float
    L: int
    S: int
    density: float
    wall: float
    kappa: float


@dataclass
class Setup:
    """Everything of one grid, made when it is needed and kept.

    Parameters
    ----------
    device : Device
    numbers : Numbers
    Z : float
        Charge of the nucleus.
    potential : OneBody
    coarser : bool
        Whether its results only tell the errors of others.
    """

    device: Device
    numbers: Numbers
    Z: float
    potential: potentials.OneBody
    coarser: bool = False
    grid: RadialGrid = field(init=False)
    real: RadialGrid = field(init=False)
    continuum: Continuum = field(init=False)
    outside: Continuum = field(init=False)
    planes: dict[int, NDArray[np.complex128]] = field(default_factory=dict)
    _orbitals: dict[tuple[int, float | None], Outgoing] = field(default_factory=dict)
    _screened: tuple[object, Screened] | None = None

    def __post_init__(self) -> None:
        """Make the grids."""
        self.grid = RadialGrid(self.numbers.bounds(self.Z), self.numbers.order)
        self.real = real_part(self.grid)
        charge = self.potential.charge
        # Two fields: of the nucleus or core, whose functions are the final states of both
        # electrons; and of the nucleus screened by one electron, in which a projectile comes
        # in.
        share = ROUGHLY if self.coarser else HELD
        self.continuum = Continuum(self.real, self._real_potential, charge, share)
        self.outside = Continuum(self.real, lambda r: self._real_potential(r) + 1.0 / r, charge - 1.0)
        self.V = np.asarray(self.potential(self.grid.r), complex)

    def _real_potential(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self.potential(r), float)

    def reflection(self, k: float) -> float:
        """Return the relative amplitude of a wave of k, 1/bohr, that comes back from the end of the contour."""
        return self.numbers.reflection(k, self.potential.charge)

    @property
    def count(self) -> int:
        """Number of nodes on the real axis, R0 included."""
        return self.real.size

    def orbitals(self, l: int, E: float) -> Outgoing:
        """Return the outgoing functions of an l for a total energy E."""
        numbers, energy = self.numbers, self.energy(E)
        if (l, energy) not in self._orbitals:
            # The whole grid needs no functions; all energies share its eigenvectors then.
            c = None
            if energy is not None:
                size = numbers.sizes[min(l, len(numbers.sizes) - 1)]
                edge = numbers.R if numbers.r0 is None else numbers.r0
                well = SquareWell(type="square_well", r0=edge, tail=numbers.tail)
                v = potentials.generating(well, self.grid)
                made = gsf.sturmians(
                    self.grid, l, self.V, energy, v, size, outgoing=True, charge=self.potential.charge
                )
                c = np.asarray(made.c, complex)
            self._orbitals[l, energy] = outgoing(self.grid, l, self.V, c)
        return self._orbitals[l, energy]

    def energy(self, E: float) -> float | None:
        """Return the energy of the functions for a total energy E; None for the whole grid, whose functions have none."""
        if self.numbers.whole:
            return None
        return E if self.numbers.energy is None else self.numbers.energy

    def make_in_shares(
        self, wanted: Sequence[tuple[int, float]], multipoles: Sequence[int], comm: Comm
    ) -> None:
        """Make outgoing functions and repulsion kernels, each on one of several processes, for all of them; a collective call.

        Parameters
        ----------
        wanted
            l and total energy of functions, hartree.
        multipoles
            Of the kernels.
        comm
        """
        energies = {(l, self.energy(E)): E for l, E in wanted}
        # processes that went their own ways before have different ones: what any of them lacks is sent to all
        known = comm.allgather((set(self._orbitals), set(self.planes)))
        missing = [key for key in energies if not all(key in functions for functions, _ in known)]
        kernels = [l for l in multipoles if not all(l in planes for _, planes in known)]
        self._orbitals |= in_shares(comm, missing, lambda key: self.orbitals(key[0], energies[key]))
        self.planes |= in_shares(comm, kernels, lambda l: np.asarray(self.grid.poisson(l), complex))

    @staticmethod
    def of_screening(L: int, pairs: Sequence[tuple[int, int]]) -> set[int]:
        """Return the multipoles of electron impact: up to l of a pair plus L of the wave, more than the operator may have."""
        return set(range(max(max(pair) for pair in pairs) + L + 1))

    def screened(self, L: int, pairs: Sequence[tuple[int, int]]) -> Screened:
        """Return the potentials of electron impact, for all energies and both spins; those of one symmetry are kept."""
        key = (L, tuple(pairs))
        if self._screened is None or self._screened[0] != key:
            for l in self.of_screening(L, pairs) - set(self.planes):
                self.planes[l] = np.asarray(self.grid.poisson(l), complex)
            self._screened = None
            self._screened = key, screened(self.device, self.grid, self.planes, pairs, L)
        return self._screened[1]

    def operator(self, L: int, S: int, pairs: Sequence[tuple[int, int]], E: float) -> Driven:
        """Return E - H of one symmetry; the functions are those for the energy E."""
        wanted = sorted({l for pair in pairs for l in pair})
        self._make(wanted, E)
        return Driven(
            self.device, self.grid, {l: self.orbitals(l, E) for l in wanted}, L, S, pairs, self.planes
        )

    def _make(self, wanted: Sequence[int], E: float) -> None:
        """Make the functions of some l on all threads: each is an eigenproblem of its own, too small for a BLAS with threads."""
        missing = [l for l in wanted if (l, self.energy(E)) not in self._orbitals]

        def work(first: int, last: int) -> None:
            for l in missing[first:last]:
                self.orbitals(l, E)

        each_call(work, len(missing), len(missing) * self.grid.size**3, self.device.threads)

    @property
    def condition(self) -> float:
        """Largest condition number of the eigenvectors of h that were used."""
        return max((orbital.condition for orbital in self._orbitals.values()), default=1.0)

    def embedded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values at the real nodes as values at all nodes, zero beyond R0."""
        out = np.zeros(self.grid.size)
        out[: self.count] = values
        return out

    def target(self) -> tuple[float, NDArray[np.float64]]:
        """Return energy and radial function of the lowest s level, (n,), zero beyond R0."""
        levels, P = self.continuum.levels(0, 1)
        if not levels.size:
            raise NumericsError(
                f"the box of {self.numbers.R:g} bohr does not hold the 1s level of the target",
                hint="a larger grid.R",
            )
        return float(levels[0]), self.embedded(P[0])

    def incident(self, l: int, k: float) -> NDArray[np.float64]:
        """Return the incident wave of an l at all nodes, ``sin(...)/k`` far outside, zero beyond R0."""
        # Nothing is left of a neutral target's field: the free wave is known exactly.
        if self.potential.type == "coulomb" and self.potential.charge == 1.0:
            from scipy.special import spherical_jn

            r = self.real.r
            return self.embedded(np.asarray(r * spherical_jn(l, k * r), float))
        wave = self.outside.functions(l, [0.5 * k * k])[0]
        return self.embedded(wave * (math.sqrt(0.5 * math.pi) / k))

    def bound(
        self,
        L: int,
        S: int,
        root: int,
        pairs: Sequence[tuple[int, int]],
        tolerance: float,
        observe: Callable[[], None] | None = None,
    ) -> Bound:
        """Return a bound state, found in the real elements that hold it: in all of them, or those up to where nothing is left.

        Raises
        ------
        NumericsError
            If the search does not converge, or the state is not bound or not contained in the box.
        """
        charge = max(self.potential.charge, 1.0)
        # The estimate of the ionisation energy chooses a box, and the energy found there tells whether it is large enough.
        wall = self._wall(automatic.ionisation(charge, L, S, root))
        state = self._bound_within(wall, (L, S, root), pairs, tolerance, observe)
        own = self._wall(0.5 * state.kappa**2)
        return self._bound_within(own, (L, S, root), pairs, tolerance, observe) if own > wall else state

    def _wall(self, ionisation: float) -> int:
        """Return the number of real elements beyond which nothing is left of a state of some ionisation energy, hartree."""
        left, most = max(self.potential.charge - 1.0, 0.0), LITTLE if self.coarser else NOTHING
        ends, least = self.real.bounds, automatic.radius(ionisation, self.Z)
        last = int(np.searchsorted(ends, least))
        while last < ends.size - 1 and ends[last] ** 2 * outer_density(ends[last], ionisation, left) > most:
            last += 1
        return min(last, ends.size - 1)

    def _bound_within(
        self,
        last: int,
        symmetry: tuple[int, int, int],
        pairs: Sequence[tuple[int, int]],
        tolerance: float,
        observe: Callable[[], None] | None,
    ) -> Bound:
        """Return a bound state (L, S, root) in the first real elements."""
        from qsim.sturmian.two_electron.davidson import lowest
        from qsim.sturmian.two_electron.hamiltonian import TwoElectron

        L, S, root = symmetry
        grid = RadialGrid(np.ascontiguousarray(self.real.bounds[: last + 1]), self.numbers.order)
        V = self._real_potential(grid.r)
        orbitals = {l: gsf.orbitals(grid, l, V, None) for l in {l for pair in pairs for l in pair}}
        operator = TwoElectron(self.device, grid, orbitals, L, S, pairs)

        def step(*_: object) -> None:
            if observe is not None:
                observe()

        eigenpairs = lowest(operator, root + 1, tolerance=tolerance, max_iterations=300, observe=step)
        energy = float(eigenpairs.values[root])
        # above the lowest level of the ion an electron leaves
        threshold = min(float(orbitals[l].e[0]) for l in orbitals)
        if energy >= threshold:
            raise NumericsError(
                f"the initial state lies at {energy:.6f} hartree, above its threshold {threshold:.6f}: it is not bound",
                hint="a lower initial.root" if root else "another initial.L or initial.S",
            )
        # Onto the product grid of the collision: zero beyond the own box, and every ordered pair, as the sources
        # need both.
        x = eigenpairs.vectors[root][None]
        stored = self.device.to_host(operator.on_grid(x))[0, : len(pairs)]
        size = grid.size
        components: dict[tuple[int, int], NDArray[np.float64]] = {}
        density = np.zeros(size)
        for (a, b), part in zip(pairs, stored, strict=True):
            whole = np.zeros((self.grid.size, self.grid.size))
            # The grids share their elements: nodes of the smaller one are the first of the
            # larger.
            whole[:size, :size] = part * (1.0 if a == b else math.sqrt(0.5))
            components[a, b] = whole
            if a != b:
                components[b, a] = exchange_sign(a, b, L, S) * whole.T
            # Density of the first electron; stored components contain both orders, so that
            # either electron gives the same.
            density += (part**2).sum(axis=1)
        # The density at the wall from that at the last node: the wall makes the function 2 sinh(kappa (R - r))
        # there.
        kappa = math.sqrt(2.0 * (threshold - energy))
        step_to_wall = float(grid.R) - float(grid.r[-1])
        edge = float(density[-1] / grid.w[-1]) / (2.0 * kappa * step_to_wall) ** 2
        allowed = NEARLY if self.coarser else CONTAINED
        if edge > allowed:
            raise NumericsError(
                f"the initial state is not contained in the box: its density at {float(grid.R):.4g} bohr is {edge:.1e} per bohr, "
                f"but at most {allowed:g} is allowed",
                hint="a larger grid.R",
            )
        residual = float(eigenpairs.residuals[root])
        return Bound(energy, components, residual, L, S, edge, float(grid.R), kappa)

"""Random states."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import AliasChoices, Field

from qsim.core.deck.blocks import Count, Finding
from qsim.trotter.deck.sites import Sites, check_sites
from qsim.trotter.initial.base import InitialState

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["A1State", "HaarState", "RandomPhaseState"]

Generator = Literal["philox", "splitmix64"]
SEED = "seed of the state; by default run.seed"
RNG = "philox: the generator of qsim; splitmix64: the hash by which the reference values were made"


class _Random(InitialState):
    """A state whose amplitudes are functions of seed, member and their number: the same on every device."""

    is_random = True
    has_parts = True

    seed: Count | None = Field(default=None, description=SEED)

    def draw(
        self,
        psi: "Amplitudes",
        device: "Device",
        seed: int,
        member: int,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Draw all amplitudes in place, or those of a part (first, whole) of a state."""
        raise NotImplementedError

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Return the amplitudes (2^N,); parameters as of :meth:`InitialState.vector`."""
        # The kernel writes every amplitude: nothing is cleared before.
        with device.use():
            psi = device.xp.empty(1 << spins, dtype=dtype)
        self.draw(psi, device, seed if self.seed is None else self.seed, member)
        return psi

    def part(
        self, spins: int, device: "Device", dtype: "DTypeLike", part: slice, *, seed: int = 0
    ) -> "Amplitudes":
        """Return 2^n neighbouring amplitudes of the first member; parameters as of :meth:`InitialState.part`."""
        with device.use():
            psi = device.xp.empty(part.stop - part.start, dtype=dtype)
        self.draw(psi, device, seed if self.seed is None else self.seed, 0, (part.start, 1 << spins))
        return psi


class A1State(_Random):
    """Eq. (A.1) of the paper: some sites up, the others in a superposition of equal weights and random phases.

    Infinite temperature but for the sites that are up: ``2 <Sz_j>`` is the correlation function of j with them.
    """

    example = {"up": [0]}

    type: Literal["a1"]
    up: Sites = Field(
        validation_alias=AliasChoices("up", "site", "sites"),
        description="sites that are up",
        json_schema_extra={"example": [0]},
    )
    rng: Generator = Field(default="philox", description=RNG)

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield sites that do not exist."""
        yield from check_sites(self.up, spins, f"{key}.up")

    def draw(
        self,
        psi: "Amplitudes",
        device: "Device",
        seed: int,
        member: int,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Draw random phases where the sites are up."""
        from qsim.trotter.kernels.states.random_states import random_phases

        # Bits of the sites that are up must be 0 in an index with an amplitude.
        mask = sum(1 << site for site in set(self.up))
        random_phases(device, psi, seed, member, mask=mask, generator=self.rng, part=part)

    def amplitudes(self, twos: tuple[int, ...], *, seed: int, member: int = 0) -> "Amplitudes":
        """Return the amplitudes of spins of any size: m = S of the sites that are up."""
        import numpy as np

        from qsim.core.device.device import cpu
        from qsim.trotter.kernels.states.random_states import random_phases

        sizes = [two + 1 for two in twos]
        psi = np.empty(int(np.prod(sizes)), np.complex128)
        random_phases(cpu(1), psi, seed if self.seed is None else self.seed, member, generator=self.rng)
        kept = np.ones(psi.size, np.bool_)
        for site in set(self.up):
            kept &= np.arange(psi.size) // int(np.prod(sizes[:site])) % sizes[site] == 0
        return np.where(kept, psi, 0.0) * np.sqrt(psi.size / np.count_nonzero(kept))


class RandomPhaseState(_Random):
    """All Ising states with equal weights and random phases."""

    type: Literal["random_phase"]
    rng: Generator = Field(default="philox", description=RNG)

    def draw(
        self,
        psi: "Amplitudes",
        device: "Device",
        seed: int,
        member: int,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Draw random phases."""
        from qsim.trotter.kernels.states.random_states import random_phases

        random_phases(device, psi, seed, member, generator=self.rng, part=part)

    def fill(self, psi: "Amplitudes", device: "Device", *, seed: int, member: int = 0) -> bool:
        """Draw the amplitudes in a sector."""
        self.draw(psi, device, seed if self.seed is None else self.seed, member)
        return True


class HaarState(_Random):
    """A state drawn evenly from the unit sphere (normal amplitudes, normalised)."""

    type: Literal["haar"]

    def draw(
        self,
        psi: "Amplitudes",
        device: "Device",
        seed: int,
        member: int,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Draw normal amplitudes and normalise them."""
        from qsim.trotter.kernels.states.random_states import random_normals

        random_normals(device, psi, seed, member, part=part)

    def fill(self, psi: "Amplitudes", device: "Device", *, seed: int, member: int = 0) -> bool:
        """Draw the amplitudes in a sector."""
        self.draw(psi, device, seed if self.seed is None else self.seed, member)
        return True

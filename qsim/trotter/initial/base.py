"""The base class of initial states: block of the deck, properties, amplitudes.

Files of this folder are loaded with every deck, so that they import nothing heavy; functions that make amplitudes do.
Site j is bit j of the index, bit 1 is down.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from qsim.core.deck.blocks import Block, Finding
from qsim.core.errors import DeckError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["InitialState"]


class InitialState(Block):
    """An initial state.

    A subclass with a field `type`, a literal, in a file of this folder is found by itself.  It defines `string` or `vector`.

    Attributes
    ----------
    is_random : bool
        True if members of an ensemble of such states differ.
    has_parts : bool
        True if a process can make its part of the amplitudes alone.
    held_twice : bool
        True if the host holds the amplitudes as well while they are made.
    example : dict
        Keys beside `type` for a chain of six spins, with which tests compare sectors with the whole space; None if it needs a
        file.
    """

    is_random: ClassVar[bool] = False
    has_parts: ClassVar[bool] = False
    held_twice: ClassVar[bool] = False
    example: ClassVar[dict[str, Any] | None] = {}

    @property
    def word(self) -> str:
        """The value of `type` in the deck."""
        kind: str = getattr(self, "type", "")
        return kind

    def check(self, spins: int, key: str) -> Iterator[Finding]:
        """Yield contradictions between the keys and the number of spins."""
        yield from ()

    def check_evolution(self, deck: Any) -> Iterator[Finding]:
        """Yield contradictions with the other blocks of the deck of an evolution."""
        yield from ()

    def string(self, spins: int) -> int | None:
        """Return the index of the one Ising state that this is: the sum of 2^j over the sites down; None for other states."""
        return None

    def down(self, spins: int) -> int | None:
        """Return the number of spins down, None for a superposition of several."""
        string = self.string(spins)
        # Bit 1 is down.
        return None if string is None else string.bit_count()

    def digits(self, twos: tuple[int, ...]) -> list[int] | None:
        """Return the quanta below m = S of every site, of 2 S = twos, of a state ``|m_0, m_1, ...>``; None for other states."""
        string = self.string(len(twos))
        # down is m = -S
        return None if string is None else [two * (string >> j & 1) for j, two in enumerate(twos)]

    def lowered(self, twos: tuple[int, ...]) -> int | None:
        """Return the quanta below all spins up, of spins 1/2 the number down; None for a superposition of several."""
        digits = self.digits(twos)
        if digits is not None:
            return sum(digits)
        return self.down(len(twos)) if set(twos) == {1} else None

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Return the amplitudes (2^N,), a new array, normalised to rounding.

        Parameters
        ----------
        spins : int
            Number of sites N.
        device : Device
            Where the state lives.
        dtype : complex64 or complex128
        seed : int
            Seed of the run, for random states without a seed of their own.
        member : int
            Number of the state in an ensemble; others than random ones ignore it.

        Raises
        ------
        FileError
            If a file is missing something, or of another number of spins.
        """
        string = self.string(spins)
        if string is None:
            raise NotImplementedError(f"{type(self).__name__} defines neither a string nor a vector")
        with device.use():
            # One amplitude of 2^N is 1.
            psi = device.xp.zeros(1 << spins, dtype=dtype)
            psi[string] = 1.0
        return psi

    def amplitudes(self, twos: tuple[int, ...], *, seed: int, member: int = 0) -> "Amplitudes":
        """Return the amplitudes of all states of spins of 2 S = twos on the host, the quanta of site 0 running fastest.

        Raises
        ------
        DeckError
            If the state is one of spins 1/2.
        """
        raise DeckError(
            f"initial.type: {self.word} is a state of spins 1/2; of larger ones take basis, product, a1, haar, random_phase, "
            "file or mps"
        )

    def part(
        self, spins: int, device: "Device", dtype: "DTypeLike", part: slice, *, seed: int = 0
    ) -> "Amplitudes":
        """Return 2^n neighbouring amplitudes, beginning at a multiple of 2^n; parameters as of :meth:`vector`.

        Raises
        ------
        ValueError
            If the state is none of those that have parts.
        """
        string = self.string(spins)
        if string is None:
            raise ValueError(f"{self.word} is made whole")
        with device.use():
            psi = device.xp.zeros(part.stop - part.start, dtype=dtype)
            # Of all processes one has the string in its part.
            if part.start <= string < part.stop:
                psi[string - part.start] = 1.0
        return psi

    def fill(self, psi: "Amplitudes", device: "Device", *, seed: int, member: int = 0) -> bool:
        """Draw the amplitudes (D,) of a random state in a sector in place; return False for states that have none there."""
        return False

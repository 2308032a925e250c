"""States from files: vectors, and matrix product states."""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from qsim.core.deck.blocks import DeckPath
from qsim.trotter.initial.base import InitialState

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

    from qsim.core.device.device import Device
    from qsim.trotter.states.vectors import Amplitudes

__all__ = ["FileState", "MpsState"]


class MpsState(InitialState):
    """A matrix product state, Eq. (A.2): ``psi = tr(A_0 A_1 ... A_{N-1})``, contracted to a vector and normalised."""

    held_twice = True
    example = None

    type: Literal["mps"]
    file: DeckPath = Field(
        description=".npz with one array (left bond, 2 S + 1, right bond) per site, A0, A1, ... or arr_0, arr_1, ...; 0 of "
        "the middle axis is up, m = S"
    )

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Return the amplitudes (2^N,); parameters as of :meth:`InitialState.vector`."""
        from qsim.trotter.states.mps import contract_mps, read_mps

        return contract_mps(read_mps(self.file, spins), device, dtype, str(self.file))

    def amplitudes(self, twos: tuple[int, ...], *, seed: int, member: int = 0) -> "Amplitudes":
        """Return the amplitudes of spins of any size."""
        import numpy as np

        from qsim.core.device.device import cpu
        from qsim.trotter.states.mps import contract_mps, read_mps

        return contract_mps(read_mps(self.file, len(twos), twos), cpu(1), np.complex128, str(self.file))


class FileState(InitialState):
    """A state vector of 2^N amplitudes, of larger spins as many as there are states, normalised."""

    example = None

    type: Literal["file"]
    file: DeckPath = Field(description=".npy, .npz, .h5 or results of qsim")
    name: str | None = Field(
        default=None, description="name of the array; by default psi, psi_final, or the only one there is"
    )

    def vector(
        self, spins: int, device: "Device", dtype: "DTypeLike", *, seed: int, member: int = 0
    ) -> "Amplitudes":
        """Return the amplitudes (2^N,); parameters as of :meth:`InitialState.vector`."""
        from qsim.trotter.states.files import load_state

        return load_state(self.file, spins, device, dtype, self.name)

    def amplitudes(self, twos: tuple[int, ...], *, seed: int, member: int = 0) -> "Amplitudes":
        """Return the amplitudes of spins of any size, the digit S - m of site 0 running fastest."""
        import math

        import numpy as np

        from qsim.core.device.device import cpu
        from qsim.trotter.states.files import load_state

        states = math.prod(two + 1 for two in twos)
        return load_state(self.file, len(twos), cpu(1), np.complex128, self.name, states=states)

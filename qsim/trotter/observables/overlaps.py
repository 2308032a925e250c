"""Overlaps with other states: the one at t = 0, and one of a file."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from qsim.core.deck.blocks import Block, DeckPath
from qsim.trotter.observables.base import Array, Final, Needs, Observable, View, shifted_overlap


class ReturnProbability(Observable):
    """``|<psi(0)|psi(t)>|^2``."""

    key = "return_probability"
    text = "|<psi(0)|psi(t)>|^2"
    word = True
    tasks = ("evolve", "floquet")
    arrays = (Array("return_probability", "", "|<psi(0)|psi(t)>|^2"),)
    finals = (
        Final(
            "return_probability_final",
            "",
            "|<psi(0)|psi>|^2 at t_final",
            "return_probability",
            error=shifted_overlap,
        ),
    )
    curve = r"$|\langle\psi(0)|\psi(t)\rangle|^2$"

    @property
    def needs(self) -> Needs:
        """The state at t = 0, beside the present one."""
        return Needs(start=True)

    def values(self, view: View) -> dict[str, Any]:
        """Return the probability."""
        return {"return_probability": view.fidelity("start")}


class FidelityBlock(Block):
    """``|<phi|psi(t)>|^2`` with a state of a file."""

    file: DeckPath = Field(
        description=".npy, .npz or .h5 file with the amplitudes of all states, 2^spins of spins 1/2"
    )


def _file_form(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


class Fidelity(Observable):
    """``|<phi|psi(t)>|^2`` with a state phi of a file."""

    key = "fidelity"
    form = Annotated[FidelityBlock, BeforeValidator(_file_form, json_schema_input_type=FidelityBlock | str)]
    text = "overlap with a state of a file"
    # needs a file
    example = None
    arrays = (Array("fidelity", "", "|<phi|psi(t)>|^2 with the state of the file"),)
    finals = (Final("fidelity_final", "", "fidelity at t_final", "fidelity", error=shifted_overlap),)
    curve = "fidelity"

    @property
    def needs(self) -> Needs:
        """The state of the file, beside the present one."""
        return Needs(reference=self.given.file)

    def values(self, view: View) -> dict[str, Any]:
        """Return the fidelity."""
        return {"fidelity": view.fidelity("reference")}

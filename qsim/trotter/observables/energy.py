"""Moments of the energy."""

from typing import Any

from qsim.trotter.observables.base import Array, Final, Needs, Observable, View, shifted


class Energy(Observable):
    """``<H>``, which every evolution stores."""

    key = "energy"
    text = "always written"
    word = True


def _shifted_variance(problem: Any, lost: float) -> float:
    """Return how far ``<K^2> - <K>^2`` moves, where K is H less the middle of its spectrum: its norm is half the width."""
    low, high = problem.hamiltonian().envelope.bounds
    return 3.0 * shifted((0.5 * (high - low)) ** 2, lost)


class EnergyVariance(Observable):
    """``<H^2> - <H>^2``."""

    key = "energy_variance"
    text = "<H^2> - <H>^2"
    word = True
    arrays = (Array("energy_variance", "J^2", "<H^2> - <H>^2"),)
    finals = (
        Final(
            "energy_variance_final",
            "J^2",
            "<H^2> - <H>^2 at t_final",
            "energy_variance",
            error=_shifted_variance,
        ),
    )
    curve = r"$\langle H^2\rangle - \langle H\rangle^2$ ($J^2$)"

    @property
    def needs(self) -> Needs:
        """A vector H psi."""
        return Needs(variance=True)

    def values(self, view: View) -> dict[str, Any]:
        """Return the variance."""
        return {"energy_variance": view.variance()}

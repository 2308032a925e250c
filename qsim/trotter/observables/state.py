"""The state at the end of an evolution."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.observables.base import Item, Needs, Observable, Setting

# whose state a results file takes: 1 GB
MOST_SPINS = 26


class State(Observable):
    """All 2^N amplitudes at t_final, which the run itself stores."""

    key = "state"
    text = "store the state at t_final (up to 26 spins)"
    word = True

    @property
    def needs(self) -> Needs:
        """All amplitudes."""
        return Needs(vector=True)

    @classmethod
    def physics(cls, item: Item, key: str, setting: Setting) -> Iterator[Finding]:
        """Yield that the state is too large."""
        if setting.spins > MOST_SPINS:
            yield Finding(
                f"{key}.state",
                f"a state of {setting.spins} spins is too large for a results file; at most {MOST_SPINS} spins",
            )

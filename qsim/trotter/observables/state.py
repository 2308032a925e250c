"""The state at the end of an evolution."""

from collections.abc import Iterator

from qsim.core.deck.blocks import Finding
from qsim.trotter.observables.base import Item, Needs, Observable, Setting

# amplitudes that a results file takes: 1 GB, 26 spins 1/2
MOST_STATES = 1 << 26


class State(Observable):
    """All amplitudes at t_final, 2^N of spins 1/2, which the run itself stores."""

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
        if setting.states > MOST_STATES:
            yield Finding(
                f"{key}.state",
                f"a state of {setting.spins} spins has {setting.states:.3g} amplitudes, too many for a results file; at most "
                f"{MOST_STATES:.2g}, 26 spins 1/2",
            )

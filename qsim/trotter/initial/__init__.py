"""Initial states: block of the deck, checks and amplitudes, a few related ones per file."""

import qsim.trotter.deck  # noqa: F401 - the deck is made of initial states, and each of them of pieces of the deck: it comes first

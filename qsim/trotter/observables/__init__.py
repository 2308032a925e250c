"""Observables: block of the deck, needs, values, arrays and figures, a few related ones per file."""

import qsim.trotter.deck  # noqa: F401 - the deck is made of observables, and each of them of pieces of the deck: it comes first

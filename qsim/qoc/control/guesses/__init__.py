"""First fields, one file per kind; `GUESSES` finds the kind of a deck.

A zero field is a critical point (P = |<f|i>|^2 and dP/d eps = 0 when the overlap vanishes), so a gradient method cannot start
there; carriers on the rungs between the initial and the target levels with a definite pulse area (Eq. Q12) can.
"""

"""Blocks `system` beside the molecule on a grid: one file per type.

`model` (named parts), `matrices` (a file), `rotor` and `grid2d` (atomic units). A deck offers them by a class of decks of its
own, chosen by ``system.type`` in `Deck.model_for`; `qsim.qoc.models.builders.model` makes the matrices of any of them, and
``Units(system.unit)`` of :mod:`qsim.qoc.deck.systems.quantities` reads the times, frequencies and rates of the other blocks.
"""

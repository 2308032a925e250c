"""Tasks of a deck: solve a system, propagate a wave function, measure how the solver scales."""

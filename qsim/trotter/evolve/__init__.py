"""``task: evolve``: a state, or an ensemble of them, carried through time and observed."""

"""States of an atom: radial grid, channels (l, m), bound levels, observables, files."""

"""Sectors of conserved Sz: numbering of their states, H psi in them, and moments and entropies of their states."""

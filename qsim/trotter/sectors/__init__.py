"""Sectors of conserved Sz: numbering of their states, H psi in them, and what is read off their states."""
